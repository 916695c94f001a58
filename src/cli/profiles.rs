//! `plimsoll profiles`: which profiles there are, and what falls under them.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_core::admission::{AbsentNamespace, Context as Decisions, decide};
use plimsoll_core::objects::{Fact, Objects, read_manifest};
use plimsoll_core::pod::Pruned;
use serde::Serialize;
use serde_json::Value;

use super::access::{Kind, Look, Read, list, list_with, told};
use super::output::print;
use super::{CliError, Context, Exit, examples, server, table};
use crate::config::Config;
use crate::survey::each_pod;

const PROFILES: Kind = Kind::new("plimsoll.dev", "v1alpha1", "OvercommitProfile", "overcommitprofiles");
const NAMESPACES: Kind = Kind::new("", "v1", "Namespace", "namespaces");
const OWNERS: [Kind; 2] =
    [Kind::new("apps", "v1", "ReplicaSet", "replicasets"), Kind::new("batch", "v1", "Job", "jobs")];

/// List the profiles of the cluster: what they do, whether they can be used, and what falls under them now
///
/// A pod counts for the profile that the server would choose for it; namespaces are those of these pods. Profiles of the
/// configuration given by --config are listed too. Rights that are used: list on overcommitprofiles, namespaces, pods,
/// replicasets and jobs; what may not be read is a dash.
///
/// Exit code 0: all profiles can be used; 1: one cannot; 2: wrong usage; 3: profiles cannot be read.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "all profiles, in the order in which they are asked" => "plimsoll profiles",
    "those that cannot be used" => "plimsoll profiles -o json | jq '.profiles[] | select(.valid | not)'",
    "why a workload falls under one" => "plimsoll explain workload web -n shop",
))]
pub(super) struct Args {
    #[command(flatten)]
    look: Look,
}

/// A profile. The form of the answer is an interface.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    name: String,
    priority: Option<i32>,
    mode: String,
    apply: Option<bool>,
    /// How many namespaces and pods fall under it; nothing where that is not known.
    namespaces: Option<usize>,
    pods: Option<usize>,
    valid: bool,
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Answer {
    profiles: Vec<Line>,
    notes: Vec<String>,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let config = ctx.load_config()?.config;
    args.look.again.run_seldom(ctx, |ctx| {
        let answer = ctx.runtime()?.block_on(read(args, &config))?;
        match args.look.output.written() {
            None => write(&answer, ctx)?,
            Some(form) => print(&answer, form, ctx)?,
        }
        Ok(if answer.profiles.iter().all(|line| line.valid) { Exit::Done } else { Exit::Refused })
    })
}

async fn read(args: &Args, config: &Config) -> Result<Answer, CliError> {
    let client = args.look.access.client(config).await?;
    let mut objects = Objects::default();
    objects.set_file_profiles(crate::profiles::of_file(config));
    let manifests = list(&client, PROFILES, None)
        .await
        .needed("CRD overcommitprofiles.plimsoll.dev (`plimsoll manifests crds` prints it)")?;
    let mut broken = BTreeMap::new();
    for manifest in &manifests {
        let problems = match read_manifest(manifest) {
            Ok(Some(Fact::BrokenProfile { problems, .. })) => {
                problems.iter().map(ToString::to_string).collect()
            }
            Ok(Some(fact)) => {
                objects.put(fact);
                continue;
            }
            Ok(None) => continue,
            Err(error) => vec![error.to_string()],
        };
        broken.insert(server::name(manifest).to_owned(), problems);
    }
    let mut notes = Vec::new();
    let matched = matched(&client, config, &mut objects, &mut notes).await;
    let mut lines: Vec<Line> = objects
        .profiles()
        .iter()
        .map(|profile| {
            let found = matched.as_ref().map(|matched| matched.get(profile.name.as_str()));
            let count = |of: fn(&(BTreeSet<String>, usize)) -> usize| found.map(|found| found.map_or(0, of));
            Line {
                name: profile.name.clone(),
                priority: Some(profile.priority),
                mode: format!("{:?}", profile.mode),
                apply: Some(profile.apply),
                namespaces: count(|(namespaces, _)| namespaces.len()),
                pods: count(|(_, pods)| *pods),
                valid: true,
                problems: plimsoll_core::profile::advice(profile),
            }
        })
        .collect();
    lines.extend(broken.into_iter().map(|(name, problems)| Line {
        name,
        priority: None,
        mode: "-".to_owned(),
        apply: None,
        namespaces: None,
        pods: None,
        valid: false,
        problems,
    }));
    Ok(Answer { profiles: lines, notes })
}

/// Namespaces and how many pods fall under each profile; nothing if they cannot be read.
async fn matched(
    client: &kube::Client,
    config: &Config,
    objects: &mut Objects,
    notes: &mut Vec<String>,
) -> Option<BTreeMap<String, (BTreeSet<String>, usize)>> {
    for kind in [NAMESPACES, OWNERS[0], OWNERS[1]] {
        match list_with(client, kind, None, kube::core::params::ListParams::default(), true).await {
            Read::Found(found) => {
                let facts = found.iter().filter_map(|object| read_manifest(object).ok().flatten());
                facts.for_each(|fact| {
                    objects.put(fact);
                });
            }
            Read::Absent => {}
            Read::Unknown(why) => {
                notes.push(format!("what falls under profiles is not known: {why}"));
                return None;
            }
        }
    }
    let settings = crate::profiles::settings(config, AbsentNamespace::Unknown);
    let context = Decisions {
        objects,
        settings: &settings,
        namespace: None,
        now: jiff::Timestamp::now(),
        defaulted: None,
    };
    let mut matched: BTreeMap<String, (BTreeSet<String>, usize)> = BTreeMap::new();
    // One at a time: of a large cluster there are too many to be kept.
    let mut count = |pod: Value| {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if matches!(text("/status/phase"), "Succeeded" | "Failed") {
            return;
        }
        let namespace = text("/metadata/namespace");
        let decision = decide(&Pruned::of(&pod), namespace, &context);
        if let Some(profile) = decision.answer.profile {
            let (namespaces, pods) = matched.entry(profile).or_default();
            if !namespaces.contains(namespace) {
                namespaces.insert(namespace.to_owned());
            }
            *pods += 1;
        }
    };
    if let Err(error) = each_pod(client, None, &mut count).await {
        notes.push(format!("what falls under profiles is not known: {}", told(&error)));
        return None;
    }
    Some(matched)
}

fn write(answer: &Answer, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let mut lines = table(["NAME", "PRIORITY", "MODE", "APPLY", "NAMESPACES", "PODS", "VALID"]);
    let dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    for line in &answer.profiles {
        lines.add_row([
            line.name.clone(),
            dash(line.priority.map(|priority| priority.to_string())),
            line.mode.clone(),
            dash(line.apply.map(|apply| apply.to_string())),
            dash(line.namespaces.map(|count| count.to_string())),
            dash(line.pods.map(|count| count.to_string())),
            line.valid.to_string(),
        ]);
    }
    ctx.write_table(&mut lines)?;
    let problems = answer.profiles.iter().flat_map(|line| line.problems.iter().map(move |text| (line, text)));
    for (line, problem) in problems {
        ctx.note(&format!("profile {}: {problem}", line.name));
    }
    for note in &answer.notes {
        ctx.note(note);
    }
    Ok(())
}
