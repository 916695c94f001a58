//! What a request is for, by its head.

use http::request::Parts;
use http::{Method, StatusCode};

use crate::metrics::ExtenderVerb;
use crate::server::is_json;
use crate::server::status::Refusal;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// A body with a pod and nodes.
    Decide(Decide),
    /// The load of all nodes, or of one.
    Watcher(Option<String>),
    /// Whether the load can be asked for.
    Health,
}

/// What is to be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decide {
    Prioritize,
    Filter,
}

impl Decide {
    pub(super) const fn verb(self) -> ExtenderVerb {
        match self {
            Self::Prioritize => ExtenderVerb::Prioritize,
            Self::Filter => ExtenderVerb::Filter,
        }
    }
}

/// Which of the paths it is.
pub(super) fn verb(path: &str) -> ExtenderVerb {
    match path {
        "/scheduler/prioritize" => ExtenderVerb::Prioritize,
        "/scheduler/filter" => ExtenderVerb::Filter,
        "/watcher" => ExtenderVerb::Watcher,
        "/watcher/health" => ExtenderVerb::Health,
        _ => ExtenderVerb::Other,
    }
}

pub(super) fn route(head: &Parts) -> Result<Route, Refusal> {
    let path = head.uri.path();
    let route = match verb(path) {
        ExtenderVerb::Prioritize => Route::Decide(Decide::Prioritize),
        ExtenderVerb::Filter => Route::Decide(Decide::Filter),
        ExtenderVerb::Watcher => Route::Watcher(host(head)),
        ExtenderVerb::Health => Route::Health,
        ExtenderVerb::Other => {
            let message = format!(
                "no such path: {path:.200}; there are /scheduler/prioritize, /scheduler/filter, /watcher and \
                 /watcher/health"
            );
            return Err(Refusal::new(StatusCode::NOT_FOUND, message));
        }
    };
    let right = if matches!(route, Route::Decide(_)) { Method::POST } else { Method::GET };
    if head.method != right {
        let message = format!("method {:.20} not allowed on {path}; use {right}", head.method.as_str());
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message));
    }
    if right == Method::POST && !is_json(&head.headers) {
        let message = "the Content-Type must be application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    Ok(route)
}

/// The node of `?host=`.
fn host(head: &Parts) -> Option<String> {
    let mut pairs = head.uri.query()?.split('&');
    pairs.find_map(|pair| pair.strip_prefix("host=")).filter(|host| !host.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        const JSON: Option<&str> = Some("application/json");
        let rows = [
            ("prioritize", "POST", "/scheduler/prioritize", JSON, Ok(Route::Decide(Decide::Prioritize))),
            ("filter", "POST", "/scheduler/filter?x=y", JSON, Ok(Route::Decide(Decide::Filter))),
            ("watcher", "GET", "/watcher", None, Ok(Route::Watcher(None))),
            ("one node", "GET", "/watcher?x=y&host=n1", None, Ok(Route::Watcher(Some("n1".to_owned())))),
            ("no node", "GET", "/watcher?host=", JSON, Ok(Route::Watcher(None))),
            ("health", "GET", "/watcher/health", None, Ok(Route::Health)),
            ("GET", "GET", "/scheduler/prioritize", JSON, Err(405)),
            ("POST", "POST", "/watcher", JSON, Err(405)),
            ("other path", "POST", "/prioritize", JSON, Err(404)),
            ("no verb", "POST", "/scheduler", JSON, Err(404)),
            ("bind", "POST", "/scheduler/bind", JSON, Err(404)),
            ("trailing slash", "POST", "/scheduler/filter/", JSON, Err(404)),
            ("other type", "POST", "/scheduler/filter", Some("text/plain"), Err(415)),
            ("no type", "POST", "/scheduler/filter", None, Err(415)),
        ];
        for (rule, method, uri, content_type, want) in rows {
            let mut builder = http::Request::builder().method(method).uri(uri);
            if let Some(content_type) = content_type {
                builder = builder.header("content-type", content_type);
            }
            let head = builder.body(()).unwrap().into_parts().0;
            assert_eq!(route(&head).map_err(|refusal| refusal.code.as_u16()), want, "{rule}");
        }
    }
}
