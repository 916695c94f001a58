//! `plimsoll mutate`: what a manifest would become.

use std::path::PathBuf;

use plimsoll_core::admission::{self as core, Decision, Operation, Outcome, Skip, patch_to_json};
use plimsoll_core::keys::OVERCOMMIT;
use plimsoll_core::pod::{Pruned, default_from_limit_ranges, default_requests};
use serde_json::{Value, json};

use super::{CliError, Context, Exit, examples, explain, output, standard_input_once};
use crate::input;
use crate::offline::{self, Offline};
use crate::template::{self, PodAt};
use crate::visible::visible_json;

/// Show what a manifest would become
///
/// Works on pods and on anything with a pod template; other objects pass through unchanged. A template in the
/// cluster is never changed: what is shown is the pod that would be made from it.
///
/// Exit code 0: done; 1: a pod would be refused, and is shown as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "a deployment under the profiles and LimitRanges of a folder" => "plimsoll mutate -f deployment.yaml --objects cluster/",
    "why each request becomes what it becomes" => "plimsoll mutate -f pod.yaml --objects cluster/ -o explain",
    "the JSON Patch that the API server would get" => "plimsoll mutate -f pod.yaml --objects cluster/ -o patch",
))]
pub(super) struct Args {
    /// Manifests: files, directories (their files, not those below), or - for standard input
    #[arg(short, long, value_name = "FILE", required = true, num_args = 1..)]
    filename: Vec<PathBuf>,

    #[command(flatten)]
    offline: offline::ClusterArgs,

    /// Namespace of manifests that name none
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,

    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "yaml")]
    output: Form,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Form {
    /// The manifest as it would be
    Yaml,
    /// The same as JSON
    Json,
    /// The JSON Patch of the pod: of the pod template where there is one, with its paths relative to that. Several
    /// manifests give one line each, with the object's name
    Patch,
    /// Per container and resource: original, result, rule, why
    Explain,
}

/// A manifest, and what was decided about its pod.
struct Judged {
    title: String,
    manifest: Value,
    decision: Option<(PodAt, Decision)>,
    why_no_profile: Vec<String>,
    namespace: String,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    standard_input_once([("-f", &args.filename[..]), ("--objects", &args.offline.objects)])?;
    let config = ctx.load_config()?;
    let offline = Offline::load(&args.offline, &config.config)?;
    let documents = input::read_all(&args.filename)?;
    if documents.is_empty() {
        return Err(CliError::Usage("the input holds no manifest".to_owned()));
    }
    offline.notes.iter().for_each(|note| ctx.note(note));
    let judged: Vec<Judged> =
        documents.into_iter().map(|document| judge(document.value, &offline, &args.namespace)).collect();
    for judged in &judged {
        if let Some(note) = judged.misplaced_opt_out() {
            ctx.note(&format!("{}: {note}", judged.title));
        }
    }
    for judged in &judged {
        // The explanation begins with it.
        if let Some(refusal) = judged.refusal().filter(|_| !matches!(args.output, Form::Explain)) {
            ctx.note(&format!("{}: would be refused: {refusal}", judged.title));
        }
    }
    for (judged, warning) in judged.iter().flat_map(|j| j.warnings().map(move |w| (j, w))) {
        ctx.note(&format!("{}: {warning}", judged.title));
    }
    match args.output {
        Form::Yaml => {
            for (index, judged) in judged.iter().enumerate() {
                let separator = if index > 0 { "---\n" } else { "" };
                write!(ctx.out, "{separator}{}", output::yaml(&judged.mutated(&offline))?)?;
            }
        }
        Form::Json => {
            let mut all: Vec<Value> = judged.iter().map(|judged| judged.mutated(&offline)).collect();
            let answer = if all.len() == 1 {
                all.swap_remove(0)
            } else {
                json!({"apiVersion": "v1", "kind": "List", "items": all})
            };
            output::print(&answer, output::Written::Json, ctx)?;
        }
        Form::Patch => write_patches(&judged, ctx)?,
        Form::Explain => {
            for (index, judged) in judged.iter().enumerate() {
                if index > 0 {
                    writeln!(ctx.out)?;
                }
                if let Some((_, decision)) = &judged.decision {
                    explain::write(ctx.out, &judged.title, decision)?;
                    for reason in &judged.why_no_profile {
                        ctx.line(&format!("  {reason}"))?;
                    }
                    continue;
                }
                let why = template::without_containers(&judged.manifest)
                    .map_or_else(|| "has no pod".to_owned(), |path| format!("{path} has no containers"));
                ctx.line(&format!("{}: {why}; nothing is changed", judged.title))?;
            }
        }
    }
    Ok(if judged.iter().any(|judged| judged.refusal().is_some()) { Exit::Refused } else { Exit::Done })
}

fn judge(manifest: Value, offline: &Offline, default_namespace: &str) -> Judged {
    let (title, namespace) = template::title(&manifest, default_namespace);
    let mut why_no_profile = Vec::new();
    let decision = template::find(&manifest).map(|at| {
        let pod = template::pod(&manifest, at);
        let pod = Pruned::of(&pod);
        let decision = offline.explain(&pod, &namespace);
        if decision.answer.outcome == Outcome::Skipped(Skip::NoProfile) {
            why_no_profile = core::why_no_profile(&pod, &namespace, &offline.context());
        }
        (at, decision)
    });
    Judged { title, manifest, decision, why_no_profile, namespace }
}

impl Judged {
    fn patch(&self) -> &[Operation] {
        self.decision.as_ref().map_or(&[], |(_, decision)| &decision.answer.patch)
    }

    /// Why the pod would be refused.
    fn refusal(&self) -> Option<String> {
        let (_, decision) = self.decision.as_ref()?;
        Some(decision.flavors.as_ref()?.refusal.as_ref()?.to_string())
    }

    fn warnings(&self) -> impl Iterator<Item = &str> {
        self.decision.iter().flat_map(|(_, decision)| &decision.answer.warnings).map(String::as_str)
    }

    /// Said to whoever opts out by an annotation of the object that has the pod template, which no pod inherits.
    fn misplaced_opt_out(&self) -> Option<String> {
        let Some((at @ PodAt::Template(_), _)) = &self.decision else { return None };
        let has = |object: &Value| {
            let annotations = object.pointer("/metadata/annotations");
            annotations.is_some_and(|annotations| annotations.get(OVERCOMMIT).is_some())
        };
        let template = self.manifest.pointer(template::pointer(*at))?;
        (has(&self.manifest) && !has(template)).then(|| {
            let path = template::path(*at);
            format!(
                "the annotation {OVERCOMMIT} stands in metadata.annotations, where it has no effect; write it in \
                 {path}.metadata.annotations, which the pods get"
            )
        })
    }

    /// The manifest with the patch applied to its pod, and a pod with what the API server would default after it.
    fn mutated(&self, offline: &Offline) -> Value {
        let mut manifest = self.manifest.clone();
        let Some((at, decision)) = &self.decision else { return manifest };
        if matches!(at, PodAt::Template(_)) && !decision.answer.patch.is_empty() {
            ensure_metadata(&mut manifest, template::pointer(*at));
        }
        if let Some(pod) = manifest.pointer_mut(template::pointer(*at))
            && let Ok(patch) = serde_json::from_slice::<json_patch::Patch>(&patch_to_json(&decision.answer.patch))
            // The patch was checked against this pod before; what does not apply leaves it as it is.
            && json_patch::patch(pod, &patch).is_ok()
            && *at == PodAt::Root
            && !matches!(decision.answer.outcome, Outcome::Error | Outcome::Denied)
        {
            default_requests(pod);
            default_from_limit_ranges(pod, offline.limit_ranges_of(&self.namespace));
        }
        manifest
    }
}

/// A template may have no metadata; the pod made from it has.
fn ensure_metadata(manifest: &mut Value, pointer: &str) {
    if let Some(template) = manifest.pointer_mut(pointer).and_then(Value::as_object_mut) {
        let metadata = template.entry("metadata").or_insert(Value::Null);
        if metadata.is_null() {
            *metadata = json!({});
        }
    }
}

fn write_patches(judged: &[Judged], ctx: &mut Context<'_>) -> Result<(), CliError> {
    if let [only] = judged {
        return output::print(&json!(only.patch()), output::Written::Json, ctx);
    }
    for judged in judged {
        let line = json!({"object": judged.title, "patch": judged.patch()});
        writeln!(ctx.out, "{}", visible_json(&line.to_string()))?;
    }
    Ok(())
}
