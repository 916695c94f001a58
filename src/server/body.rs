//! Reading a body, within limits of size, time and memory.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Incoming};

use super::limit::BodyMemory;
use super::status::Refusal;

/// Why there is no body.
pub(crate) enum NoBody {
    /// The request is refused.
    Refused(Refusal),
    /// There is no room for it now; this is how it begins.
    Full(Bytes),
}

/// Reads a body to its end. One that says it is too long is not read at all; one that turns out to be is read no
/// further than that.
pub(crate) async fn read(
    mut body: Incoming,
    limit: usize,
    timeout: Duration,
    memory: &mut BodyMemory,
) -> Result<Bytes, NoBody> {
    if body.size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return Err(too_large(limit));
    }
    tokio::time::timeout(timeout, collect(&mut body, limit, memory)).await.unwrap_or_else(|_| {
        let message = format!("the body took longer than {timeout:?}");
        Err(NoBody::Refused(Refusal::closing(StatusCode::REQUEST_TIMEOUT, message)))
    })
}

async fn collect(body: &mut Incoming, limit: usize, memory: &mut BodyMemory) -> Result<Bytes, NoBody> {
    // What it says it has. Room for it costs nothing before it is written to, and growing would copy a long body again
    // and again.
    let length = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX).min(limit);
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let message = format!("the body cannot be read: {error}");
            NoBody::Refused(Refusal::closing(StatusCode::BAD_REQUEST, message))
        })?;
        // Trailers are of no matter.
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + all.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        if !memory.grow(data.len()) {
            let read = if all.is_empty() { first } else { all.freeze() };
            return Err(NoBody::Full(if read.is_empty() { data } else { read }));
        }
        // Most bodies arrive in one piece, which is passed on as it is.
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                all.reserve(length);
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            all.extend_from_slice(&data);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

fn too_large(limit: usize) -> NoBody {
    let message = format!("the body is larger than {limit} bytes");
    NoBody::Refused(Refusal::closing(StatusCode::PAYLOAD_TOO_LARGE, message))
}
