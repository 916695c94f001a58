//! `APIService`s: while they point at a server that is gone, nobody is told metrics.

use http::StatusCode;
use plimsoll_core::hpa::{ApiServiceError, MetricsGroup, ServiceRef, Step, api_service_name, remove};
use serde_json::Value;

use super::{Ending, Job, Line, SERVICE};
use crate::hpa::apiservice::{InstallError, Installer};

const STEP: &str = "apiservices";
/// The port of our Service for metrics.
const PORT: u16 = 8445;

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Judged(#[from] ApiServiceError),
    #[error(transparent)]
    Failed(#[from] InstallError),
    #[error("it points at Service {0}/{1}; if that installation is to go, say --namespace {0}")]
    Elsewhere(String, String),
}

/// What became of each, and which may still point at our Service.
pub(super) async fn give_back(job: &Job) -> (Vec<Line>, Vec<String>) {
    let ours = ServiceRef { namespace: job.own.clone(), name: SERVICE.to_owned(), port: PORT };
    let installer = Installer::new(job.client.clone(), job.dry_run);
    let (mut lines, mut stands) = (Vec::new(), Vec::new());
    for group in [MetricsGroup::Metrics, MetricsGroup::Custom, MetricsGroup::External] {
        for version in group.versions() {
            let name = api_service_name(group, version);
            let done = installer.apply(&name, |found| remove_from(group, version, found, &ours)).await;
            let (result, message) = match done {
                Ok(Step::Nothing) => (Ending::Nothing, "not there".to_owned()),
                Ok(Step::Delete) => (job.ending(), job.words("deleted")),
                Ok(Step::Create(_) | Step::Replace(_)) => (job.ending(), job.words("given back")),
                Err(Failure::Judged(ApiServiceError::NotOurs { found, .. })) => {
                    (Ending::Nothing, format!("not ours: it is of {found}"))
                }
                Err(error) => (Ending::Failed, words(&error)),
            };
            let object = format!("APIService {name}");
            if result == Ending::Failed {
                stands.push(object.clone());
            }
            lines.push(Line { step: STEP, object, result, message });
        }
    }
    (lines, stands)
}

fn remove_from(
    group: MetricsGroup,
    version: &str,
    found: Option<&Value>,
    ours: &ServiceRef,
) -> Result<Step, Failure> {
    let text = |key: &str| found?.pointer("/spec/service")?.get(key)?.as_str();
    if let (Some(namespace), Some(name)) = (text("namespace"), text("name"))
        && (name == ours.name && namespace != ours.namespace)
    {
        return Err(Failure::Elsewhere(namespace.to_owned(), name.to_owned()));
    }
    Ok(remove(group, version, found, ours)?)
}

fn words(error: &Failure) -> String {
    match error {
        Failure::Failed(InstallError::Refused { what, code, .. }) if *code == StatusCode::FORBIDDEN => {
            let verb = what.split(' ').next().unwrap_or_default();
            format!("{error}; grant {verb} on apiservices.apiregistration.k8s.io to the service account")
        }
        _ => error.to_string(),
    }
}
