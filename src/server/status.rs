//! Refusals, in the shape in which the API server itself refuses: a `Status` object.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

/// A refusal as the answer of an [`Admission`](super::Admission): a `Status` object with this code and message.
pub fn status_reply(code: StatusCode, message: &str) -> super::Reply {
    super::Reply { status: code, body: Refusal::new(code, message).body() }
}

/// A request that is refused before, or instead of, a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: StatusCode,
    pub(crate) message: String,
    /// The connection cannot be used again, because the request was not read to its end.
    pub(crate) close: bool,
}

impl Refusal {
    pub(crate) fn new(code: StatusCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), close: false }
    }

    pub(crate) fn closing(code: StatusCode, message: impl Into<String>) -> Self {
        Self { close: true, ..Self::new(code, message) }
    }

    /// The machine-readable word of the API conventions.
    fn reason(&self) -> &'static str {
        match self.code {
            StatusCode::BAD_REQUEST => "BadRequest",
            StatusCode::NOT_FOUND => "NotFound",
            StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
            StatusCode::REQUEST_TIMEOUT => "Timeout",
            StatusCode::PAYLOAD_TOO_LARGE => "RequestEntityTooLarge",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "UnsupportedMediaType",
            StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
            StatusCode::INTERNAL_SERVER_ERROR => "InternalError",
            StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
            _ => "",
        }
    }

    fn body(&self) -> Bytes {
        let status = serde_json::json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason(),
            "code": self.code.as_u16(),
        });
        Bytes::from(status.to_string())
    }

    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = json(self.code, self.body());
        let headers = response.headers_mut();
        if self.code == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        if self.code == StatusCode::TOO_MANY_REQUESTS {
            // Without it the API server does not try again.
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.close {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// A response with a JSON body.
pub(crate) fn json(code: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
