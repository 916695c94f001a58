//! Documents and files as answers, and what browsers are told about them.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

use super::Document;
use super::assets::Asset;

/// No scripts at all, and nothing from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";

/// A page. Nothing keeps it: it is of this moment.
pub(super) fn html((status, text): Document) -> Response<Full<Bytes>> {
    answer(status, "text/html; charset=utf-8", "no-store", Bytes::from(text))
}

/// A file of which the address holds the hash.
pub(super) fn asset(asset: &'static Asset) -> Response<Full<Bytes>> {
    let content = Bytes::from_static(asset.content.as_bytes());
    answer(StatusCode::OK, asset.media_type, "public, max-age=31536000, immutable", content)
}

fn answer(
    status: StatusCode,
    media_type: &'static str,
    cache: &'static str,
    content: Bytes,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(content));
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, media_type),
        (header::CACHE_CONTROL, cache),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
