//! `plimsoll validate`: everything that is wrong with profiles and configuration, at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plimsoll_core::objects::{Fact, ManifestError, read_manifest};
use plimsoll_core::problem::Problem;
use plimsoll_core::profile::advice;
use serde::Serialize;
use serde_json::{Value, json};

use super::{CliError, Context, Exit, examples, standard_input_once};
use crate::config::{self, ConfigErrors};
use crate::input::{self, Document};
use crate::kinds;

/// Check profiles, recommendations, LimitRanges and configuration files
///
/// Every violation is named with its path and rule. A document without kind is taken for a configuration file.
/// Exit code 0: nothing to object to; 1: there are violations; 2: the input cannot be read, or
/// holds nothing that is checked.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "check a profile before it is applied" => "plimsoll validate -f profile.yaml",
    "for a program" => "plimsoll validate -f manifests/ -o json",
))]
pub(super) struct Args {
    /// What to check: files, directories (their files, not those below), or - for standard input
    #[arg(short, long, value_name = "FILE", required = true, num_args = 1..)]
    filename: Vec<PathBuf>,

    /// Manifests that stand for the cluster: files or directories
    #[arg(long, value_name = "FILE|DIR", num_args = 1..)]
    objects: Vec<PathBuf>,

    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    output: Form,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Form {
    Text,
    Json,
}

#[derive(Serialize)]
struct Violation {
    /// File and document.
    origin: String,
    /// Kind and name of the object.
    object: String,
    #[serde(flatten)]
    problem: Problem,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    standard_input_once([("-f", &args.filename[..]), ("--objects", &args.objects)])?;
    // Read so that a mistake in it is found; no rule of this version needs it.
    input::read_all(&args.objects)?;
    let documents = input::read_all(&args.filename)?;
    if documents.is_empty() {
        return Err(CliError::Usage("the input holds nothing to check".to_owned()));
    }
    let mut violations = Vec::new();
    let mut checked = 0_usize;
    let mut passed_over: BTreeMap<String, usize> = BTreeMap::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for document in &documents {
        if let Ok(Some(Fact::Profile(profile))) = read_manifest(&document.value) {
            for remark in advice(&profile) {
                ctx.note(&format!("{}: OvercommitProfile {}: {remark}", document.origin, profile.name));
            }
        }
        let object = object_name(&document.value);
        let Some(problems) = check(document)? else {
            let kind = document.value.get("kind").and_then(Value::as_str).unwrap_or_default();
            *passed_over.entry(kind.to_owned()).or_default() += 1;
            continue;
        };
        checked += 1;
        violations.extend(problems.into_iter().map(|problem| Violation {
            origin: document.origin.clone(),
            object: object.clone(),
            problem,
        }));
        if let Some(first) = seen.insert(object.clone(), document.origin.clone()) {
            let problem = Problem::new("metadata.name", "duplicate", format!("stands in {first} as well"));
            violations.push(Violation { origin: document.origin.clone(), object, problem });
        }
    }
    if !passed_over.is_empty() {
        let kinds: Vec<_> = passed_over.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        ctx.note(&format!("not checked: {}", kinds.join(", ")));
    }
    if checked == 0 {
        return Err(CliError::Usage(
            "no object was checked; what is checked are OvercommitProfile, Recommendation, LimitRange, and \
             configuration files, which have no kind"
                .to_owned(),
        ));
    }
    match args.output {
        Form::Json => {
            let answer =
                json!({"valid": violations.is_empty(), "checked": checked, "violations": violations});
            writeln!(ctx.out, "{answer:#}")?;
        }
        Form::Text => {
            for Violation { origin, object, problem } in &violations {
                let Problem { path, rule, message } = problem;
                let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
                writeln!(ctx.out, "{origin}: {object}: {place}{message} [{rule}]")?;
            }
            if violations.is_empty() {
                let plural = if checked == 1 { "" } else { "s" };
                writeln!(ctx.out, "{checked} object{plural} checked, nothing to object to")?;
            }
        }
    }
    Ok(if violations.is_empty() { Exit::Done } else { Exit::Refused })
}

/// The problems of a document; `None` for kinds that are not checked.
fn check(document: &Document) -> Result<Option<Vec<Problem>>, CliError> {
    let value = &document.value;
    if value.get("kind").is_none() && value.get("apiVersion").is_none() {
        return configuration(&document.origin, value).map(Some);
    }
    Ok(match read_manifest(value) {
        Ok(Some(Fact::BrokenProfile { problems, .. })) => Some(problems),
        Ok(None) => kinds::near_miss(value).map(|meant| vec![Problem::new("kind", "kind", meant)]),
        Ok(Some(Fact::Namespace(_) | Fact::Owned(_))) => None,
        Ok(Some(_)) => Some(Vec::new()),
        Err(ManifestError::Field { path, message, .. }) => Some(vec![Problem::new(path, "object", message)]),
        Err(error) => Some(vec![Problem::new("", "object", error.to_string())]),
    })
}

fn configuration(origin: &str, tree: &Value) -> Result<Vec<Problem>, CliError> {
    let tree = tree.as_object().cloned().unwrap_or_default();
    match config::check_tree(Path::new(origin), tree) {
        Ok(_) => Ok(Vec::new()),
        Err(ConfigErrors::Violations(violations)) => Ok(violations
            .into_iter()
            .map(|violation| Problem::new(violation.path, "configuration", violation.message))
            .collect()),
        Err(error) => Err(error.into()),
    }
}

fn object_name(value: &Value) -> String {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    match (text("/kind"), text("/metadata/namespace"), text("/metadata/name")) {
        (None, _, _) if value.get("apiVersion").is_some() => "object without kind".to_owned(),
        (None, _, _) => "configuration".to_owned(),
        (Some(kind), Some(namespace), Some(name)) if !kinds::is_cluster_scoped(kind) => {
            format!("{kind} {namespace}/{name}")
        }
        (Some(kind), _, Some(name)) => format!("{kind} {name}"),
        (Some(kind), _, None) => kind.to_owned(),
    }
}
