//! What the cluster says.

use kube::Client;
use serde_json::Value;

use super::checks;
use super::definitions;
use super::replicas::{self, On, PATH, Said};
use super::report::{Report, Row};
use super::trust::Trust;
use crate::cli::access::{Kind, Read, get, list, time};
use crate::cli::{CliError, server};
use crate::config::Config;
use crate::status::{Part, State, Status};

const DEPLOYMENTS: Kind = Kind::new("apps", "v1", "Deployment", "deployments");
const MUTATING: Kind = Kind::new(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
);
const VALIDATING: Kind = Kind::new(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
);
const LEASES: Kind = Kind::new("coordination.k8s.io", "v1", "Lease", "leases");
const PROFILES: Kind = Kind::new("plimsoll.dev", "v1alpha1", "OvercommitProfile", "overcommitprofiles");
const RECOMMENDATIONS: Kind = Kind::new("plimsoll.dev", "v1alpha1", "Recommendation", "recommendations");
const TREES: Kind = Kind::new("scheduling.sigs.k8s.io", "v1beta1", "ElasticQuotaTree", "elasticquotatrees");
const APISERVICES: Kind = Kind::new("apiregistration.k8s.io", "v1", "APIService", "apiservices");
const AUTOSCALERS: Kind =
    Kind::new("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers");
/// Our name in everything that has one of its own.
const NAME: &str = "plimsoll";

/// Looks at everything once.
///
/// # Errors
/// Nothing at all could be asked.
pub(super) async fn look(client: &Client, config: &Config) -> Result<Report, CliError> {
    let own = config.admission.own_namespace.as_str();
    let deployment = get(client, DEPLOYMENTS, Some(own), NAME).await;
    let pods = server::pods(client, config).await;
    if let (Read::Unknown(why), Read::Unknown(_)) = (&deployment, &pods)
        && !why.contains("not allowed")
    {
        return Err(anyhow::anyhow!("the cluster cannot be asked: {why}").into());
    }
    let said = match &pods {
        Read::Found(pods) => ask(client, config, pods).await,
        Read::Absent => Vec::new(),
        Read::Unknown(why) => vec![("the replicas".to_owned(), Err(why.clone()))],
    };
    let on = On::of(&said);
    let on = on.as_ref();
    let mut rows = vec![checks::installation(&deployment, &pods, own)];
    rows.extend(webhooks(client, config, &deployment, on).await);
    rows.push(definitions::row(client).await);
    let now = time(client).await;
    rows.push(checks::leases(&list(client, LEASES, Some(own)).await, on, now));
    rows.push(checks::profiles(&list(client, PROFILES, None).await));
    rows.push(checks::trees(&list(client, TREES, None).await));
    rows.push(checks::apiservices(&list(client, APISERVICES, None).await, own));
    rows.push(checks::autoscalers(&list(client, AUTOSCALERS, None).await));
    rows.push(checks::recommendations(&list(client, RECOMMENDATIONS, None).await, on, now));
    rows.extend(replicas::rows(&said, false));
    Ok(Report::new(rows, said.into_iter().filter_map(|(_, status)| status.ok()).collect()))
}

/// The webhook configurations: our own, and those of quotas.
async fn webhooks(client: &Client, config: &Config, deployment: &Read<Value>, on: Option<&On>) -> Vec<Row> {
    let trust = Trust::read(client, config, deployment, on).await;
    let with_quota = on.is_some_and(|on| on.is(Part::QuotaLedger));
    let quota = config.quota.webhook_name.as_str();
    let mut rows = Vec::new();
    for (part, kind, name, needed, state, then) in [
        ("mutating webhook", MUTATING, NAME, true, State::Failed, "no pod is changed"),
        (
            "validating webhook",
            VALIDATING,
            NAME,
            true,
            State::Degraded,
            "nobody checks profiles before they are stored",
        ),
        (
            "quota mutating webhook",
            MUTATING,
            quota,
            with_quota,
            State::Degraded,
            "no pod is put on the nodes of its flavors",
        ),
        (
            "quota validating webhook",
            VALIDATING,
            quota,
            with_quota,
            State::Failed,
            "no pod is held to its quota",
        ),
    ] {
        let found = get(client, kind, None, name).await;
        rows.push(checks::webhook(part, &found, &trust, needed.then_some((state, then))));
    }
    rows
}

/// Asks each replica that runs.
async fn ask(client: &Client, config: &Config, pods: &[Value]) -> Vec<Said> {
    let running = |pod: &&Value| {
        pod.pointer("/status/phase").and_then(Value::as_str) == Some("Running") && !server::has_ended(pod)
    };
    let asked = pods.iter().filter(running).map(|pod| async {
        let name = server::name(pod);
        let answer = server::by_pod(client, config, name, PATH).await;
        let status = answer.and_then(|body| Ok(serde_json::from_slice::<Status>(&body)?));
        (name.to_owned(), status.map_err(|error| format!("{error:#}")))
    });
    futures_util::future::join_all(asked).await
}

/// What could not be read is not known.
pub(super) fn unknown(part: &str, why: &str) -> Row {
    Row::new(part, State::Unknown, "").with(State::Unknown, why)
}
