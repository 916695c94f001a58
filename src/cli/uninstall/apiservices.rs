//! `APIService`s: while they point at a server that is gone, nobody is told metrics.

use http::StatusCode;
use plimsoll_core::hpa::{ApiServiceError, MetricsGroup, ServiceRef, Step, api_service_name, remove};

use super::{Ending, Job, Line};
use crate::hpa::apiservice::{InstallError, Installer};

const STEP: &str = "apiservices";
/// The Service of the manifests, and its port for metrics.
const SERVICE: (&str, u16) = ("plimsoll", 8445);

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Judged(#[from] ApiServiceError),
    #[error(transparent)]
    Failed(#[from] InstallError),
}

pub(super) async fn give_back(job: &Job) -> Vec<Line> {
    let (name, port) = SERVICE;
    let ours = ServiceRef { namespace: job.own.clone(), name: name.to_owned(), port };
    let installer = Installer::new(job.client.clone(), job.dry_run);
    let mut lines = Vec::new();
    for group in [MetricsGroup::Metrics, MetricsGroup::Custom, MetricsGroup::External] {
        for version in group.versions() {
            let name = api_service_name(group, version);
            let done =
                installer.apply(&name, |found| Ok::<_, Failure>(remove(group, version, found, &ours)?)).await;
            let (result, message) = match done {
                Ok(Step::Nothing) => (Ending::Nothing, "not there".to_owned()),
                Ok(Step::Delete) => (job.ending(), job.words("deleted")),
                Ok(Step::Create(_) | Step::Replace(_)) => (job.ending(), job.words("given back")),
                Err(Failure::Judged(ApiServiceError::NotOurs { found, .. })) => {
                    (Ending::Nothing, format!("not ours: it is of {found}"))
                }
                Err(error) => (Ending::Failed, words(&error)),
            };
            lines.push(Line { step: STEP, object: format!("APIService {name}"), result, message });
        }
    }
    lines
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
