//! `plimsoll validate`: everything that is wrong with profiles, quota trees and configuration, at once.

mod cluster;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use plimsoll_core::objects::{Fact, ManifestError, read_manifest};
use plimsoll_core::problem::Problem;
use plimsoll_core::profile::advice;
use plimsoll_core::quota::Judgement;
use serde::Serialize;
use serde_json::{Value, json};

use self::cluster::Cluster;
use super::output::{Written, print};
use super::{CliError, Context, Exit, examples, standard_input_once};
use crate::config::{self, ConfigErrors};
use crate::input::{self, Document};
use crate::kinds;

/// Check profiles, quota trees, flavors, recommendations, LimitRanges and configuration files
///
/// Every violation is named with its path and rule. A document without kind is taken for a configuration file. A quota
/// tree is also compared with what --objects holds: nodes, flavors, other trees, and pods, which are what is in use.
/// Exit code 0: nothing to object to; 1: there are violations; 2: the input cannot be read, or
/// holds nothing that is checked.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "check a profile before it is applied" => "plimsoll validate -f profile.yaml",
    "check a quota tree against the cluster" => "plimsoll validate -f tree.yaml --objects cluster.yaml",
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

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, object, problem: Problem { path, rule, message } } = self;
        let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
        write!(f, "{origin}: {object}: {place}{message} [{rule}]")
    }
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    standard_input_once([("-f", &args.filename[..]), ("--objects", &args.objects)])?;
    let config = ctx.load_config()?;
    let mut notes = Vec::new();
    let mut cluster = Cluster::read(&args.objects, &config.config, &mut |note| notes.push(note.to_owned()))?;
    for note in &notes {
        ctx.note(note);
    }
    let documents = input::read_all(&args.filename)?;
    if documents.is_empty() {
        return Err(CliError::Usage("the input holds nothing to check".to_owned()));
    }
    let mut violations = Vec::new();
    let mut warnings = Vec::new();
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
        let judged = if Cluster::is_tree(&document.value) {
            Some(cluster.judge(&document.value))
        } else {
            check(document)?.map(|problems| Judgement { problems, warnings: Vec::new() })
        };
        let Some(judged) = judged else {
            let kind = document.value.get("kind").and_then(Value::as_str).unwrap_or_default();
            *passed_over.entry(kind.to_owned()).or_default() += 1;
            continue;
        };
        checked += 1;
        let named = |problem| Violation { origin: document.origin.clone(), object: object.clone(), problem };
        violations.extend(judged.problems.into_iter().map(named));
        warnings.extend(judged.warnings.into_iter().map(named));
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
            "no object was checked; what is checked are OvercommitProfile, ElasticQuotaTree, ResourceFlavor, \
             Recommendation, LimitRange, and configuration files, which have no kind"
                .to_owned(),
        ));
    }
    match args.output {
        Form::Json => {
            let answer = json!({
                "valid": violations.is_empty(), "checked": checked, "violations": violations,
                "warnings": warnings,
            });
            print(&answer, Written::Json, ctx)?;
        }
        Form::Text => {
            for warning in &warnings {
                ctx.note(&format!("warning: {warning}"));
            }
            for violation in &violations {
                ctx.line(&violation.to_string())?;
            }
            if violations.is_empty() {
                let plural = if checked == 1 { "" } else { "s" };
                ctx.line(&format!("{checked} object{plural} checked, nothing to object to"))?;
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
        Ok(Some(Fact::Namespace(_) | Fact::Owned(_) | Fact::Node(_) | Fact::Pod(_))) => None,
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
