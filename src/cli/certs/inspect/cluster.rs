//! What a cluster holds: the authority in the Secret, and whom each of our webhooks is told to trust.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;

use super::Args;
use super::served::{self, Served};
use crate::certificates::authority::Root;
use crate::certificates::bundles::{Bundles, Service};
use crate::certificates::plan::{BundleState, same};
use crate::certificates::secret::{Authorities, Content, read};
use crate::certificates::store::{SecretStore, StoreError};
use crate::cli::access::connect;
use crate::cli::serve::certificates::targets;
use crate::cli::{CliError, Context, table};
use crate::config::Config;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// `namespace/name`.
    secret: String,
    /// That there is no Secret, and `caBundle` holds something all the same: certificates come from files.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    from_files: bool,
    authorities: Vec<Authority>,
    /// What somebody asked for and has not come about yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    rotation: Option<&'static str>,
    bundles: Vec<Trust>,
    #[serde(skip_serializing_if = "Option::is_none")]
    served: Option<Served>,
    /// What is wrong.
    pub(super) problems: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Authority {
    /// `current`, `next` or `previous`.
    role: &'static str,
    subject: String,
    fingerprint: String,
    not_before: String,
    not_after: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Trust {
    object: String,
    /// The fingerprints of what it holds, over all of its entries.
    trusts: BTreeSet<String>,
    /// Whether that is what the Secret says; nothing with certificates from files.
    agrees: Option<bool>,
}

/// Asks the cluster.
pub(super) async fn report(args: &Args, config: &Config, name: &str) -> Result<Report, CliError> {
    let client = connect(args.kubeconfig.as_deref(), args.context.as_deref(), config).await?;
    let (own, namespace) = (&config.tls.self_managed, &config.admission.own_namespace);
    let store = SecretStore::new(client.clone(), namespace.clone(), own.secret.clone());
    let service = Service { namespace: namespace.clone(), name: own.service.clone() };
    let mut targets = targets(config);
    // What is on in the cluster is not known here; what is not there, or not ours, says nothing.
    for more in all_targets() {
        if !targets.contains(&more) {
            targets.push(more);
        }
    }
    let mut report = Report {
        secret: format!("{namespace}/{}", own.secret),
        from_files: false,
        authorities: Vec::new(),
        rotation: None,
        bundles: Vec::new(),
        served: None,
        problems: Vec::new(),
    };
    let mut absent = None;
    let wanted = match store.read().await {
        Err(error @ StoreError::Call(_)) => return Err(anyhow::Error::new(error).into()),
        Err(error @ StoreError::Absent { .. }) => {
            absent = Some(error);
            None
        }
        Ok(secret) => match read(&secret) {
            Err(problem) => {
                report.problems.push(format!("Secret {} {problem}", report.secret));
                None
            }
            Ok(Content::Empty) => {
                let why =
                    "is empty: no replica has made an authority yet, or certificates are not self-managed";
                report.problems.push(format!("Secret {} {why}", report.secret));
                None
            }
            Ok(Content::Ours(authorities)) => {
                report.note_authorities(&authorities, Timestamp::now());
                Some(authorities.bundle())
            }
        },
    };
    let bundles = Bundles::new(client, service, targets);
    let mut trusted: Vec<Root> = Vec::new();
    for seen in bundles.read().await {
        report.note_bundle(&seen.bundle.at, &seen.bundle.state, wanted.as_deref(), &mut trusted);
    }
    report.judge_absence(absent);
    if report.bundles.is_empty() {
        let service = bundles.service();
        report.problems.push(format!(
            "no webhook configuration names Service {}/{}, so that nobody calls it",
            service.namespace, service.name
        ));
    }
    if let Some(address) = &args.server {
        let served = served::look(address, name, &trusted).await;
        report.problems.extend(served.problem.iter().map(|problem| format!("{address}: {problem}")));
        report.served = Some(served);
    }
    Ok(report)
}

/// Those of all parts.
fn all_targets() -> Vec<crate::certificates::bundles::Target> {
    use crate::certificates::bundles::Target;
    let mut all: Vec<Target> = Target::webhooks("plimsoll-quota").into();
    let services =
        ["v1beta1.metrics", "v1beta1.custom.metrics", "v1beta2.custom.metrics", "v1beta1.external.metrics"];
    all.extend(services.map(|name| Target::api_service(format!("{name}.k8s.io"))));
    all
}

impl Report {
    /// No Secret is what certificates from files look like, where somebody put an authority into `caBundle`.
    fn judge_absence(&mut self, absent: Option<StoreError>) {
        let Some(error) = absent else { return };
        self.from_files = self.bundles.iter().any(|bundle| !bundle.trusts.is_empty());
        if !self.from_files {
            self.problems.push(error.to_string());
            return;
        }
        for bundle in &mut self.bundles {
            bundle.agrees = None;
            if bundle.trusts.is_empty() {
                self.problems.push(format!("{} trusts nobody: set its caBundle", bundle.object));
            }
        }
    }

    fn note_authorities(&mut self, authorities: &Authorities, now: Timestamp) {
        let signing = |one: &Option<std::sync::Arc<crate::certificates::Authority>>| {
            one.as_ref().map(|authority| authority.root().clone())
        };
        let current = signing(&authorities.current).map(|root| ("current", root));
        let next = signing(&authorities.next).map(|root| ("next", root));
        let previous = authorities.previous.iter().map(|root| ("previous", root.clone()));
        if current.is_none() {
            self.problems.push("there is no authority in force yet".to_owned());
        }
        if next.is_some() {
            self.rotation = Some("a new authority is being published; it is not in force yet");
        } else if !authorities.previous.is_empty() {
            self.rotation = Some("the former authority is trusted until its certificates have ended");
        }
        for (role, root) in current.into_iter().chain(next).chain(previous) {
            if root.has_ended(now) {
                self.problems.push(format!("the {role} authority ended at {}", root.not_after()));
            } else if root.not_before() > now {
                self.problems.push(format!("the {role} authority begins at {} only", root.not_before()));
            }
            self.authorities.push(Authority {
                role,
                subject: root.subject(),
                fingerprint: root.fingerprint(),
                not_before: root.not_before().to_string(),
                not_after: root.not_after().to_string(),
            });
        }
    }

    fn note_bundle(
        &mut self,
        at: &str,
        state: &BundleState,
        wanted: Option<&[Root]>,
        trusted: &mut Vec<Root>,
    ) {
        let (held, agrees) = match state {
            BundleState::Absent => return,
            BundleState::Unknown(why) => {
                self.problems.push(why.clone());
                return;
            }
            BundleState::Closed(why, held) => {
                self.problems.push(why.clone());
                (held.clone(), false)
            }
            BundleState::Holds(entries) => {
                let agrees = wanted.is_some_and(|wanted| entries.iter().all(|entry| same(entry, wanted)));
                if wanted.is_some() && !agrees {
                    self.problems.push(format!("{at} does not trust what the Secret says"));
                }
                (entries.concat(), agrees)
            }
        };
        let trusts = held.iter().map(Root::fingerprint).collect();
        trusted.extend(held);
        self.bundles.push(Trust { object: at.to_owned(), trusts, agrees: Some(agrees) });
    }

    pub(super) fn write_table(&self, ctx: &mut Context<'_>) -> Result<(), CliError> {
        let short = |fingerprint: &str| fingerprint.get(..12).unwrap_or_default().to_owned();
        let why = if self.from_files {
            " is not there: certificates come from files; nothing is compared"
        } else {
            ""
        };
        ctx.line(&format!("Secret {}{why}", self.secret))?;
        if !self.authorities.is_empty() {
            let mut rows = table(["AUTHORITY", "SUBJECT", "FINGERPRINT", "NOT AFTER"]);
            for one in &self.authorities {
                let Authority { role, subject, fingerprint, not_after, .. } = one;
                rows.add_row([*role, subject, &short(fingerprint), not_after]);
            }
            ctx.write_table(&mut rows)?;
        }
        if let Some(rotation) = self.rotation {
            ctx.line(rotation)?;
        }
        if !self.bundles.is_empty() {
            let mut rows = table(["OBJECT", "TRUSTS", "AGREES"]);
            for one in &self.bundles {
                let trusts: Vec<_> = one.trusts.iter().map(|fingerprint| short(fingerprint)).collect();
                let trusts = if trusts.is_empty() { "-".to_owned() } else { trusts.join(", ") };
                let agrees = one.agrees.map_or("-", |agrees| if agrees { "yes" } else { "no" });
                rows.add_row([one.object.clone(), trusts, agrees.to_owned()]);
            }
            writeln!(ctx.out)?;
            ctx.write_table(&mut rows)?;
        }
        if let Some(served) = &self.served {
            writeln!(ctx.out)?;
            served.write_table(ctx)?;
        }
        for problem in &self.problems {
            ctx.line(&format!("problem: {problem}"))?;
        }
        Ok(())
    }
}
