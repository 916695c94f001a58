//! What only the API server knows: whose a token is, and who has which right.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::cache::{Cache, Key};
use super::identity::Identity;
use super::route::Attributes;
use crate::cluster::describe;
use crate::metrics::{Metrics, ReviewKind, ReviewResult};
use crate::status::{Failure, Part};

/// For how long an answer is good.
const LIFE: Duration = Duration::from_secs(10);
/// How many answers of a kind are kept.
const MOST: usize = 4096;
/// How long the API server may take for a review.
const LIMIT: Duration = Duration::from_secs(5);
/// How many reviews are asked for at the same time.
const AT_ONCE: usize = 32;
/// Who may do everything, also where nobody can be asked.
const MASTERS: &str = "system:masters";
/// As whom the API server asks which resources there are, for the list that it answers with itself. It names no group
/// then, so that RBAC knows of no right.
const AGGREGATOR: &str = "system:kube-aggregator";

/// Why there is no answer. It does not say about what: that may be a token.
#[derive(Clone, Debug, Error)]
pub(super) enum ReviewError {
    #[error("the API server did not answer a {0} within {LIMIT:?}")]
    Slow(&'static str),
    #[error("the API server does not answer a {kind}: {reason}")]
    Failed { kind: &'static str, reason: String },
}

/// Whether there is a right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Allowed,
    /// With what the authorizer says about it, which may be nothing.
    Denied(String),
}

/// Asks for reviews, and remembers the answers for a while.
pub(super) struct Reviewer {
    client: Client,
    metrics: Arc<Metrics>,
    tokens: Cache<Option<Identity>>,
    rights: Cache<Access>,
    turns: Semaphore,
}

#[derive(Deserialize)]
struct TokenReview {
    #[serde(default)]
    status: TokenStatus,
}

#[derive(Default, Deserialize)]
struct TokenStatus {
    #[serde(default)]
    authenticated: bool,
    #[serde(default)]
    user: User,
}

#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    groups: Option<Vec<String>>,
    #[serde(default)]
    extra: Option<BTreeMap<String, Option<Vec<String>>>>,
}

#[derive(Deserialize)]
struct AccessReview {
    #[serde(default)]
    status: AccessStatus,
}

#[derive(Default, Deserialize)]
struct AccessStatus {
    #[serde(default)]
    allowed: bool,
    #[serde(default)]
    reason: Option<String>,
}

impl Reviewer {
    pub(super) fn new(client: Client, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            metrics,
            tokens: Cache::new(LIFE, MOST),
            rights: Cache::new(LIFE, MOST),
            turns: Semaphore::new(AT_ONCE),
        }
    }

    /// Whose a token is; nobody's if it is not, or no longer, valid.
    pub(super) async fn token(&self, token: &str) -> Result<Option<Identity>, ReviewError> {
        let key: Key = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = self.tokens.get(&key) {
            return Ok(known);
        }
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
        });
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let answer: TokenReview = self.ask(ReviewKind::Token, path, &review).await?;
        let TokenStatus { authenticated, user } = answer.status;
        let identity = (authenticated && !user.username.is_empty()).then(|| Identity {
            user: user.username,
            uid: user.uid,
            groups: user.groups.unwrap_or_default(),
            extra: user
                .extra
                .unwrap_or_default()
                .into_iter()
                .map(|(key, values)| (key, values.unwrap_or_default()))
                .collect(),
        });
        self.count(ReviewKind::Token, identity.is_some());
        self.tokens.put(key, identity.clone());
        Ok(identity)
    }

    /// Whether somebody has a right.
    pub(super) async fn access(&self, who: &Identity, what: &Attributes) -> Result<Access, ReviewError> {
        if who.is_in(MASTERS) || (who.user == AGGREGATOR && matches!(what, Attributes::Path(_))) {
            return Ok(Access::Allowed);
        }
        let review = access_review(who, what);
        let key: Key = Sha256::digest(review.to_string().as_bytes()).into();
        if let Some(known) = self.rights.get(&key) {
            return Ok(known);
        }
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer: AccessReview = self.ask(ReviewKind::Access, path, &review).await?;
        let AccessStatus { allowed, reason } = answer.status;
        let access = if allowed { Access::Allowed } else { Access::Denied(reason.unwrap_or_default()) };
        self.count(ReviewKind::Access, allowed);
        self.rights.put(key, access.clone());
        Ok(access)
    }

    fn count(&self, kind: ReviewKind, allowed: bool) {
        let result = if allowed { ReviewResult::Allowed } else { ReviewResult::Denied };
        self.metrics.hpa_api_review(kind, result);
    }

    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        kind: ReviewKind,
        path: &str,
        review: &Value,
    ) -> Result<T, ReviewError> {
        let name = match kind {
            ReviewKind::Token => "TokenReview",
            ReviewKind::Access => "SubjectAccessReview",
        };
        let call = async {
            let request = Request::post(path)
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(review.to_string().into_bytes())
                .map_err(|error| error.to_string())?;
            let _turn = self.turns.acquire().await.map_err(|error| error.to_string())?;
            // Read here and not by the client, which logs what it cannot read: a review repeats the token.
            let text = self.client.request_text(request).await.map_err(|error| {
                let grant = if Failure::from(&error).forbidden {
                    ": grant create on it to the service account"
                } else {
                    ""
                };
                format!("{}{grant}", describe(&error))
            })?;
            serde_json::from_str::<T>(&text).map_err(|_| "its answer is none that is known here".to_owned())
        };
        let answer = match timeout(LIMIT, call).await {
            Ok(Ok(answer)) => {
                self.metrics.health().works(Part::HpaApi, name);
                return Ok(answer);
            }
            Ok(Err(reason)) => ReviewError::Failed { kind: name, reason },
            Err(_) => ReviewError::Slow(name),
        };
        self.metrics.hpa_api_review(kind, ReviewResult::Error);
        if self.metrics.health().failed(Part::HpaApi, name, answer.to_string()) {
            tracing::warn!(error = %answer, "who asks, or their right, is not known");
        }
        Err(answer)
    }
}

fn access_review(who: &Identity, what: &Attributes) -> Value {
    let mut spec = json!({"user": who.user, "uid": who.uid, "groups": who.groups, "extra": who.extra});
    let (key, attributes) = match what {
        Attributes::Path(path) => ("nonResourceAttributes", json!({"path": path, "verb": "get"})),
        Attributes::Resource { group, version, resource, subresource, namespace, name, verb } => {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let attributes = json!({
                "group": group, "version": version, "resource": resource, "subresource": text(subresource),
                "namespace": text(namespace), "name": text(name), "verb": verb,
            });
            ("resourceAttributes", attributes)
        }
    };
    if let Some(spec) = spec.as_object_mut() {
        spec.insert(key.to_owned(), attributes);
    }
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
}
