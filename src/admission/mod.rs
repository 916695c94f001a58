//! Answers reviews: the part between the sockets and the decisions.
//!
//! [`Engine::review`] reads the envelope, looks up the namespace if the snapshot does not hold it yet, asks
//! `plimsoll_core::admission` and writes the answer. It takes no lock and, but for that one bounded read, does no
//! I/O.

mod hpa;
mod quota;
mod totals;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use plimsoll_core::admission::{
    self as core, Answer, Context, Decision, EnvelopeError, Outcome, Review, Settings,
};
use plimsoll_core::hpa::is_hpa;
use plimsoll_core::objects::{Namespace, Objects};

use crate::decisions::{Decided, Decisions, why};
use crate::metrics::{Metrics, NamespaceRead, Operation};
use crate::quota::run::Door;
use crate::server::{Admission, Answered, Reply, Stage, status_reply};
use crate::status::Part;

/// Reads one namespace from the API server, within a short time.
pub trait NamespaceReader: Send + Sync {
    /// The namespace, or `None` if there is none of that name.
    fn read<'a>(&'a self, name: &'a str) -> NamespaceReadFuture<'a>;
}

/// What [`NamespaceReader::read`] returns.
pub type NamespaceReadFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Option<Namespace>, NamespaceReadError>> + Send + 'a>>;

/// Why a namespace could not be read. Its pods are left untouched.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceReadError {
    /// The API server did not answer in time.
    #[error("namespace {name}: no answer within {limit:?}")]
    TimedOut {
        /// The namespace.
        name: String,
        /// `admission.namespaceReadTimeout`.
        limit: std::time::Duration,
    },
    /// The API server answered with an error, or could not be reached.
    #[error("namespace {name}: {message}")]
    Failed {
        /// The namespace.
        name: String,
        /// What happened.
        message: String,
    },
}

/// Answers reviews from the snapshot it is given.
pub struct Engine {
    objects: Arc<ArcSwap<Objects>>,
    settings: Arc<ArcSwap<Settings>>,
    namespaces: Option<Arc<dyn NamespaceReader>>,
    quota: Option<Door>,
    autoscalers: bool,
    decisions: Option<Decisions>,
    metrics: Arc<Metrics>,
}

impl Engine {
    /// An engine over a snapshot that others keep up to date. Without `namespaces`, namespaces that the snapshot
    /// does not hold are what the settings say.
    pub fn new(
        objects: Arc<ArcSwap<Objects>>,
        settings: Arc<ArcSwap<Settings>>,
        namespaces: Option<Arc<dyn NamespaceReader>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { objects, settings, namespaces, quota: None, autoscalers: true, decisions: None, metrics }
    }

    /// The same engine, that reads namespaces which the snapshot does not hold.
    #[must_use]
    pub fn with_namespaces(self, namespaces: Arc<dyn NamespaceReader>) -> Self {
        Self { namespaces: Some(namespaces), ..self }
    }

    /// The same engine, that asks the ledger about pods in bound namespaces.
    #[must_use]
    pub fn with_quota(self, door: Option<Door>) -> Self {
        Self { quota: door, ..self }
    }

    /// The same engine, that converts autoscalers, or leaves them alone. Without this it converts them.
    #[must_use]
    pub fn with_autoscalers(self, autoscalers: bool) -> Self {
        Self { autoscalers, ..self }
    }

    /// The same engine, that keeps its last decisions there, or none.
    #[must_use]
    pub fn with_decisions(self, decisions: Option<Decisions>) -> Self {
        Self { decisions, ..self }
    }

    /// Keeps a decision where somebody may look.
    fn record(&self, stage: Stage, review: &Review<'_>, answer: &Answer) {
        if let Some(decisions) = &self.decisions {
            decisions.record(Decided::now(stage, review, answer));
        }
    }

    async fn mutate(&self, body: &[u8]) -> Reply {
        let review = match core::read(body, Stage::Mutate) {
            Ok(review) => review,
            Err(error) => return self.unreadable(Stage::Mutate, &error),
        };
        let objects = self.objects.load_full();
        let settings = self.settings.load_full();
        if is_hpa(&review) {
            let answer = hpa::answer(&review, &objects, &settings, self.autoscalers, &self.metrics);
            self.record(Stage::Mutate, &review, &answer);
            return written(&review, &answer);
        }
        let namespace = match core::needs_namespace(&review, &objects, &settings) {
            Some(name) => self.read_namespace(name).await,
            None => None,
        };
        let decided = catch_unwind(AssertUnwindSafe(|| {
            let context = Context {
                objects: &objects,
                settings: &settings,
                namespace: namespace.as_ref(),
                now: Timestamp::now(),
                defaulted: None,
            };
            core::mutate(&review, &context)
        }));
        let decision = decided.unwrap_or_else(|_| self.after_panic());
        self.count(Stage::Mutate, &review, &decision);
        written(&review, &decision.answer)
    }

    async fn validate(&self, body: &[u8]) -> Answered {
        let review = match core::read(body, Stage::Validate) {
            Ok(review) => review,
            Err(error) => return Answered::Now(self.unreadable(Stage::Validate, &error)),
        };
        // Asked before the objects are looked at, which may hold the tree a moment later.
        let knows_tree = self.quota.as_ref().is_none_or(|door| door.snapshots.knows_quota_tree());
        let objects = self.objects.load_full();
        let settings = self.settings.load_full();
        if let Some(door) = &self.quota
            && core::is_about_pods(&review)
        {
            let step = if knows_tree {
                core::quota_step(&review, &objects, &settings)
            } else {
                core::quota_step_without_tree(&review, &settings)
            };
            return quota::answer(&review, step, door, &self.metrics, self.decisions.as_ref());
        }
        let usage = match &self.quota {
            Some(door) if core::needs_usage(&review) => quota::usage(door, &review).await,
            _ => None,
        };
        let context = core::ValidateContext { objects: &objects, settings: &settings, usage: usage.as_ref() };
        let answer = core::validate(&review, &context);
        self.metrics.admission_request(Stage::Validate, operation(&review.operation), answer.outcome.word());
        self.record(Stage::Validate, &review, &answer);
        Answered::Now(written(&review, &answer))
    }

    async fn read_namespace(&self, name: &str) -> Option<Namespace> {
        let reader = self.namespaces.as_ref()?;
        let (result, found) = match reader.read(name).await {
            Ok(Some(namespace)) => (NamespaceRead::Found, Some(namespace)),
            Ok(None) => (NamespaceRead::Missing, None),
            Err(error) => {
                if self.metrics.health().failed(Part::Admission, "read a namespace", error.to_string()) {
                    tracing::warn!(%error, "its pods are left untouched until it is seen");
                }
                (NamespaceRead::Error, None)
            }
        };
        if result != NamespaceRead::Error {
            self.metrics.health().works(Part::Admission, "read a namespace");
        }
        self.metrics.namespace_read(result);
        found
    }

    fn unreadable(&self, stage: Stage, error: &EnvelopeError) -> Reply {
        self.metrics.admission_request(stage, Operation::Unknown, Outcome::Error.word());
        status_reply(StatusCode::BAD_REQUEST, &error.to_string())
    }

    /// A mistake of ours must not stop anybody's pod.
    fn after_panic(&self) -> Decision {
        self.metrics.admission_panic();
        let answer = Answer {
            warnings: vec![
                "plimsoll: pod left untouched: an internal error, see the server's log".to_owned(),
            ],
            ..Answer::allow(Outcome::Error)
        };
        Decision {
            answer,
            profile: None,
            plan: plimsoll_core::overcommit::Plan::default(),
            self_check: None,
            flavors: None,
            load_class: false,
            would_be: None,
        }
    }

    fn count(&self, stage: Stage, review: &Review<'_>, decision: &Decision) {
        let outcome = decision.answer.outcome;
        self.metrics.admission_request(stage, operation(&review.operation), outcome.word());
        if let Some(error) = &decision.self_check {
            self.metrics.self_check_failure();
            tracing::error!(namespace = &*review.namespace, %error, "a patch was not sent");
        }
        if decision.load_class && !review.dry_run {
            self.metrics.placement_load_class_terms();
        }
        if outcome == Outcome::Applied && !review.dry_run {
            totals::count(&self.metrics, &decision.plan);
        }
        tracing::debug!(
            namespace = &*review.namespace,
            pod = &*review.name,
            profile = decision.answer.profile.as_deref().unwrap_or_default(),
            decision = outcome.word(),
            why = why(&decision.answer),
            "reviewed"
        );
        self.record(stage, review, &decision.answer);
    }
}

impl Admission for Engine {
    async fn review(&self, stage: Stage, body: Bytes) -> Reply {
        // How many are in flight and how long they take is counted by the server, overload and panics included.
        match stage {
            Stage::Mutate => self.mutate(&body).await,
            Stage::Validate => match self.validate(&body).await {
                Answered::Now(reply) => reply,
                Answered::Later(later) => later.await,
            },
        }
    }

    async fn begin(&self, stage: Stage, body: Bytes) -> Answered {
        match stage {
            Stage::Mutate => Answered::Now(self.mutate(&body).await),
            Stage::Validate => self.validate(&body).await,
        }
    }

    /// At `/validate` a refusal without a hint when to retry. An HTTP status, or a hint, would hold the workers of the
    /// controller-manager, and with them pods of everybody.
    fn overloaded(&self, stage: Stage, beginning: &Bytes) -> Option<Reply> {
        if stage != Stage::Validate {
            return None;
        }
        let body = core::turn_away(beginning, OVERLOAD)?;
        Some(Reply { status: StatusCode::OK, body: body.into() })
    }
}

/// Without the words by which clients know that a quota is exceeded: that would not be true.
const OVERLOAD: &str = "plimsoll has more requests than it can answer now; try again";

fn written(review: &Review<'_>, answer: &Answer) -> Reply {
    Reply { status: StatusCode::OK, body: core::write(review, answer).into() }
}

fn operation(text: &str) -> Operation {
    match text {
        "CREATE" => Operation::Create,
        "UPDATE" => Operation::Update,
        "DELETE" => Operation::Delete,
        "CONNECT" => Operation::Connect,
        _ => Operation::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the right to list trees nothing is known to be bound, and the API server asks about what is.
    #[tokio::test]
    async fn while_the_tree_is_unknown_pods_that_it_may_bind_are_denied() {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        let client = kube::Client::new(service, "default");
        let parts = crate::quota::leader::Parts::for_tests();
        let (door, _deciding) = crate::quota::run::open(&client, &parts);
        let settings = Settings { own_namespace: "plimsoll-system".into(), ..Settings::default() };
        let objects = parts.snapshots.current();
        let engine =
            Engine::new(objects, Arc::new(ArcSwap::from_pointee(settings)), None, Arc::clone(&parts.metrics))
                .with_quota(Some(door));
        let review = |namespace: &str| {
            let review = serde_json::json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                    "uid": "1", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE",
                    "resource": {"group": "", "version": "v1", "resource": "pods"},
                    "namespace": namespace, "name": "web", "userInfo": {"username": "a", "groups": []},
                    "object": {"metadata": {"name": "web", "namespace": namespace, "uid": "2"}, "spec": {"containers": []}},
                },
            });
            Bytes::from(review.to_string())
        };
        for (rule, namespace, code) in [
            ("may be bound", "shop", Some(429)),
            ("never", "kube-system", None),
            ("our own", "plimsoll-system", None),
        ] {
            let reply = engine.review(Stage::Validate, review(namespace)).await;
            let answer: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
            let response = &answer["response"];
            assert_eq!(response["allowed"], code.is_none(), "{rule}: {answer}");
            assert_eq!(response["status"]["code"].as_i64(), code, "{rule}: {answer}");
            let said = response["status"]["message"].as_str();
            assert_eq!(
                said.is_some_and(|said| said.contains("not known yet")),
                code.is_some(),
                "{rule}: {answer}"
            );
        }
    }

    /// Reviews of each kind, of both stages.
    const REVIEWED: [(Stage, &str, &str, &str); 3] = [
        (Stage::Mutate, "", "Pod", "pods"),
        (Stage::Mutate, "autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
        (Stage::Validate, "plimsoll.dev", "OvercommitProfile", "overcommitprofiles"),
    ];

    #[tokio::test]
    async fn decisions_are_kept_only_where_somebody_can_look() {
        for (rule, address, kept) in [
            ("no API port", "''", false),
            ("the default", "127.0.0.1:8082", true),
            ("a port of the system's choice", "127.0.0.1:0", true),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("config.yaml");
            std::fs::write(&file, format!("api: {{address: {address}}}\n")).unwrap();
            let sources = crate::config::Sources { file: Some(file), ..Default::default() };
            let config = crate::config::load(&sources).unwrap().config;
            let decisions = Decisions::of_port(config.api.address);
            assert_eq!(decisions.is_some(), kept, "{rule}");
            let elsewhere = Decisions::default();
            let engine = Engine::new(Arc::default(), Arc::default(), None, Arc::new(Metrics::new("test")))
                .with_decisions(Some(elsewhere.clone()))
                .with_decisions(decisions.clone());
            for (stage, group, kind, resource) in REVIEWED {
                let version = if group == "autoscaling" { "v2" } else { "v1" };
                let review = serde_json::json!({
                    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                    "request": {
                        "uid": "u", "operation": "CREATE", "namespace": "shop", "name": "web",
                        "kind": {"group": group, "version": version, "kind": kind},
                        "resource": {"group": group, "version": version, "resource": resource},
                        "object": {"metadata": {"name": "web"}, "spec": {"containers": []}},
                    },
                });
                let reply = engine.review(stage, review.to_string().into()).await;
                assert_eq!(reply.status, StatusCode::OK, "{rule}: {kind}");
            }
            let made = decisions.map_or(0, |decisions| decisions.made());
            assert_eq!((made, elsewhere.made()), (if kept { 3 } else { 0 }, 0), "{rule}");
        }
    }

    #[test]
    fn overload_is_a_denial_only_where_a_status_would_hold_others() {
        let engine = Engine::new(Arc::default(), Arc::default(), None, Arc::new(Metrics::new("test")));
        let body = Bytes::from_static(
            br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","#,
        );
        assert_eq!(engine.overloaded(Stage::Mutate, &body), None);
        assert_eq!(engine.overloaded(Stage::Validate, &Bytes::from_static(b"[]")), None, "nothing to echo");
        let reply = engine.overloaded(Stage::Validate, &body).unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(reply.status, StatusCode::OK);
        assert_eq!(
            (&answer["response"]["uid"], &answer["response"]["status"]["code"]),
            (&"1".into(), &429.into())
        );
        let text = answer.to_string();
        assert!(!text.contains("exceeded quota") && !text.contains("retryAfterSeconds"), "{text}");
    }
}
