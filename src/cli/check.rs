//! `plimsoll check`: whether an installation does what it is there for.

use std::time::Duration;

use plimsoll_core::keys;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::access::{Access, reach};
use super::calls::{Calls, Collection};
use super::progress::{Progress, Unit};
use super::values::Seconds;
use super::{CliError, Context, Exit, examples};

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// The entry of the base that checks profiles.
const WEBHOOK: &str = "overcommitprofiles.plimsoll.dev";

/// Check whether an installation does what it is there for
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "whether the API server asks Plimsoll, and believes it" => "plimsoll check install",
    "whether pods of a namespace are changed" => "plimsoll check install --pods-of shop",
))]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Install(Install),
}

/// Check whether the API server asks Plimsoll, and believes it
///
/// Nothing is stored: objects are created with dryRun. A profile that only Plimsoll can see to be wrong must be refused; then
/// Service, certificate, caBundle and server are right. With --pods-of a pod must come out changed, for which a profile
/// must match it.
///
/// Rights needed: create on overcommitprofiles; with --pods-of create on pods in that namespace.
///
/// Exit code 0: it does; 1: it does not, with the reason; 2: wrong usage; 3: the cluster could not be asked.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "just after the installation" => "plimsoll check install --wait 2m",
))]
struct Install {
    /// A namespace whose pods must be changed
    #[arg(long, value_name = "NAMESPACE")]
    pods_of: Option<String>,

    /// How long it may take to come true, as 30s or 5m
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    wait: Seconds,

    #[command(flatten)]
    access: Access,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let What::Install(args) = &args.what;
    let config = ctx.load_config()?.config;
    let found = ctx.runtime()?.block_on(async {
        let client = args.access.client(&config).await?;
        let calls = Calls::new(client.clone());
        let wait = Duration::from_secs(u64::try_from(args.wait.0).unwrap_or(0).min(31_536_000));
        let deadline = Instant::now() + wait;
        let progress = Progress::new("waiting until it comes true", Unit::Objects);
        loop {
            let found = look(&calls, args.pods_of.as_deref()).await;
            if found.is_ok() || Instant::now() + PAUSE > deadline {
                if found.is_err() {
                    // Nothing is known of the installation where nobody answers.
                    reach(&client).await?;
                }
                return Ok::<_, CliError>(found);
            }
            if let Err(problem) = &found {
                progress.say(problem);
            }
            sleep(PAUSE).await;
        }
    })?;
    let (lines, exit) = match found {
        Ok(lines) => (lines, Exit::Done),
        Err(problem) => (vec![problem], Exit::Refused),
    };
    for line in lines {
        ctx.line(&line)?;
    }
    Ok(exit)
}

/// What is as it should be, or what is not.
async fn look(calls: &Calls, pods_of: Option<&str>) -> Result<Vec<String>, String> {
    let mut lines = vec![asks(calls).await?];
    if let Some(namespace) = pods_of {
        lines.push(changes(calls, namespace).await?);
    }
    Ok(lines)
}

async fn asks(calls: &Calls) -> Result<String, String> {
    let profiles = Collection {
        group: "plimsoll.dev",
        version: "v1alpha1",
        kind: "OvercommitProfile",
        plural: "overcommitprofiles",
        namespace: "",
    };
    // No label has such a key, which the schema cannot say.
    let wrong = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile",
        "metadata": {"name": "plimsoll-check-install"},
        "spec": {"mode": "Off", "match": {"podSelector": {"matchLabels": {"no label": "x"}}}},
    });
    match calls.create_dry(profiles, &wrong).await {
        Ok(_) => Err(format!(
            "the API server does not reach Plimsoll: webhook {WEBHOOK} was passed over. `plimsoll status` says more; else look \
             at the pods' logs, and at caBundle of ValidatingWebhookConfiguration plimsoll"
        )),
        Err(error) if error.to_string().contains(&format!("\"{WEBHOOK}\" denied the request")) => {
            Ok("The API server asks Plimsoll, and believes it.".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

async fn changes(calls: &Calls, namespace: &str) -> Result<String, String> {
    let pods = Collection { group: "", version: "v1", kind: "Pod", plural: "pods", namespace };
    let name = "plimsoll-check-install";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            // As the strictest namespaces want it.
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "app", "image": "app",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    });
    let made = calls.create_dry(pods, &pod).await.map_err(|error| error.to_string())?;
    let applied =
        made.pointer("/metadata/annotations").and_then(|annotations| annotations.get(keys::APPLIED));
    match applied.and_then(serde_json::Value::as_str) {
        Some(applied) => Ok(format!("A pod of {namespace} is changed: {applied}")),
        None => Err(format!(
            "a pod of {namespace} is not changed: is there a profile that matches it and whose mode is not Off? `kubectl get \
             ocp` shows them, `plimsoll explain pod` why"
        )),
    }
}
