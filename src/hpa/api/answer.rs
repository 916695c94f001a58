//! Answers, and refusals in the words in which Kubernetes refuses.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::{Value, json};

use super::identity::Identity;
use super::route::Attributes;
use crate::metrics::ApiOutcome;

/// The media type of what we make ourselves.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What is sent back.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) content_type: Option<HeaderValue>,
    pub(super) body: Bytes,
    pub(super) outcome: ApiOutcome,
}

impl Answer {
    /// An object of ours.
    pub(super) fn object(object: &Value) -> Self {
        Self {
            status: StatusCode::OK,
            content_type: Some(JSON),
            body: Bytes::from(object.to_string()),
            outcome: ApiOutcome::Ok,
        }
    }

    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if let Some(content_type) = self.content_type {
            headers.insert(header::CONTENT_TYPE, content_type);
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        // By this `plimsoll hpa apiservice install` knows us.
        headers.insert(
            header::SERVER,
            HeaderValue::from_static(concat!("plimsoll/", env!("CARGO_PKG_VERSION"))),
        );
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET"));
        }
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// A refusal: a `v1 Status`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) code: StatusCode,
    pub(super) message: String,
    details: Value,
    outcome: ApiOutcome,
}

impl Refusal {
    fn new(code: StatusCode, outcome: ApiOutcome, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Value::Null, outcome }
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, ApiOutcome::Unauthenticated, "Unauthorized")
    }

    /// There is no such path.
    pub(super) fn no_path() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, ApiOutcome::Refused, message)
    }

    /// There is such a path, but nothing to say.
    pub(super) fn no_data(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, ApiOutcome::Refused, message)
    }

    pub(super) fn method() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, ApiOutcome::Refused, message)
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ApiOutcome::Refused, message)
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, ApiOutcome::Unavailable, message)
    }

    pub(super) fn overload() -> Self {
        let message = "too many requests at the same time; try again";
        Self::new(StatusCode::TOO_MANY_REQUESTS, ApiOutcome::Shed, message)
    }

    pub(super) fn internal() -> Self {
        let message = "internal error: the request could not be answered; see the server's log";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, ApiOutcome::Error, message)
    }

    /// As an API server writes it.
    pub(super) fn forbidden(who: &Identity, what: &Attributes, reason: &str) -> Self {
        let user = &who.user;
        let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let (message, details) = match what {
            Attributes::Path(path) => {
                (format!("forbidden: User {user:?} cannot get path {path:?}{because}"), json!({}))
            }
            Attributes::Resource { group, resource, subresource, namespace, name, verb, .. } => {
                let named = name.as_ref().map_or(String::new(), |name| format!(" {name:?}"));
                let place = namespace.as_ref().map_or_else(
                    || "at the cluster scope".to_owned(),
                    |namespace| format!("in the namespace {namespace:?}"),
                );
                let full =
                    subresource.as_ref().map_or_else(|| resource.clone(), |sub| format!("{resource}/{sub}"));
                let message = format!(
                    "{resource}.{group}{named} is forbidden: User {user:?} cannot {verb} resource {full:?} in API group \
                     {group:?} {place}{because}"
                );
                let mut details = json!({"group": group, "kind": resource});
                if let (Some(name), Some(details)) = (name, details.as_object_mut()) {
                    details.insert("name".to_owned(), json!(name));
                }
                (message, details)
            }
        };
        Self { details, ..Self::new(StatusCode::FORBIDDEN, ApiOutcome::Forbidden, message) }
    }

    fn reason(&self) -> &'static str {
        match self.code.as_u16() {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            _ => "InternalError",
        }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": refusal.message, "reason": refusal.reason(), "code": refusal.code.as_u16(),
        });
        if let (Some(status), false) = (status.as_object_mut(), refusal.details.is_null()) {
            status.insert("details".to_owned(), refusal.details.clone());
        }
        Self { status: refusal.code, outcome: refusal.outcome, ..Self::object(&status) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_written_as_kubernetes_writes_them() {
        let who = Identity { user: "system:anonymous".to_owned(), ..Identity::default() };
        let resource = |name: Option<&str>, namespace: Option<&str>, verb| Attributes::Resource {
            group: "metrics.k8s.io",
            version: "v1beta1",
            resource: "pods".to_owned(),
            subresource: None,
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            verb,
        };
        for (what, expected) in [
            (
                resource(None, Some("shop"), "list"),
                "pods.metrics.k8s.io is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \
                 \"metrics.k8s.io\" in the namespace \"shop\"",
            ),
            (
                resource(None, None, "list"),
                "pods.metrics.k8s.io is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \
                 \"metrics.k8s.io\" at the cluster scope",
            ),
            (
                resource(Some("web-0"), Some("shop"), "get"),
                "pods.metrics.k8s.io \"web-0\" is forbidden: User \"system:anonymous\" cannot get resource \"pods\" in API \
                 group \"metrics.k8s.io\" in the namespace \"shop\"",
            ),
            (
                Attributes::Path("/apis/metrics.k8s.io/v1beta1".to_owned()),
                "forbidden: User \"system:anonymous\" cannot get path \"/apis/metrics.k8s.io/v1beta1\"",
            ),
        ] {
            assert_eq!(Refusal::forbidden(&who, &what, "").message, expected);
        }
        let answer =
            Answer::from(Refusal::forbidden(&who, &resource(Some("a"), Some("b"), "get"), "not today"));
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert!(body["message"].as_str().unwrap().ends_with("in the namespace \"b\": not today"), "{body}");
        assert_eq!(body["details"], json!({"group": "metrics.k8s.io", "kind": "pods", "name": "a"}));
        assert_eq!(
            (&body["kind"], &body["apiVersion"], &body["reason"]),
            (&json!("Status"), &json!("v1"), &json!("Forbidden"))
        );
        let answer = Answer::from(Refusal::unauthorized());
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(
            (&body["code"], &body["message"], &body["details"]),
            (&json!(401), &json!("Unauthorized"), &Value::Null)
        );
    }
}
