//! The JSON API, on loopback: what a person or a tool on this machine, or behind `kubectl port-forward`, may read.
//!
//! Nobody is asked who they are, so it only answers, changes nothing, and is not reachable from other machines. That a
//! page in somebody's browser does not reach it either, by a name that its own DNS server points at 127.0.0.1, is the
//! reason why the name in `Host` is looked at.

mod balance;
mod decisions;
mod nodes;
mod quota;
mod recommendations;
mod savings;
pub(crate) mod weights;

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use plimsoll_core::admission::Settings;
use plimsoll_core::objects::Objects;
use serde_json::json;
use tokio::net::TcpListener;

pub(crate) use self::savings::with as savings_of;
use crate::balance::Rounds;
use crate::dashboard::{self, Cluster};
use crate::decisions::Decisions;
use crate::metrics::Metrics;
use crate::placement::PlacementState;
use crate::quota::content::Latest;
use crate::server::{Readiness, Shutdown, plain};
use crate::status::StatusSources;
use crate::survey::{Pasts, Surveys};

/// What every path begins with.
const ROOT: &str = "/api/v1/";

/// What answers are made from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// What is known of the cluster.
    pub objects: Arc<ArcSwap<Objects>>,
    /// The quota ledger as this replica read it last.
    pub ledger: Latest,
    /// What placement knows, where it is enabled.
    pub placement: Option<PlacementState>,
    /// The last rounds of the balance controller, where it is enabled.
    pub balance: Option<Rounds>,
    /// The last decisions of this replica.
    pub decisions: Decisions,
    /// What is saved in the whole cluster, where there is one.
    pub surveys: Option<Surveys>,
    /// What workloads used before somebody looked, where Prometheus knows it.
    pub pasts: Option<Pasts>,
    /// What must hold before this replica is ready, and what does not.
    pub readiness: Readiness,
    /// How every part is.
    pub status: Option<StatusSources>,
    /// What of the configuration decisions depend on.
    pub settings: Arc<ArcSwap<Settings>>,
    /// What was counted since the start.
    pub metrics: Option<Arc<Metrics>>,
    /// Where single objects are read from while somebody waits for a page.
    pub cluster: Option<Cluster>,
}

/// Answers from what is known until `shutdown` is finished.
pub async fn serve(listener: TcpListener, sources: Sources, shutdown: Shutdown) {
    let sources = Arc::new(sources);
    let answer = move |request: Request<Incoming>| {
        let sources = Arc::clone(&sources);
        async move {
            let (method, headers, uri) = (request.method(), request.headers(), request.uri());
            // A person gets pages; what is refused is said in JSON, which a person can read too.
            if uri.path().starts_with(ROOT) || check(method, headers).is_err() {
                return answer(method, uri.path(), headers, &sources);
            }
            dashboard::answer(uri.path(), uri.query(), &sources).await
        }
    };
    plain::serve(listener, "api", shutdown, answer).await;
}

/// A text that is JSON already, or why there is none.
type Answer = Result<String, (StatusCode, String)>;

fn answer(method: &Method, path: &str, headers: &HeaderMap, known: &Sources) -> Response<Full<Bytes>> {
    let answer = check(method, headers).and_then(|()| route(path, known));
    let (status, text) = answer.map_or_else(
        |(status, message)| (status, json!({ "code": status.as_u16(), "message": message }).to_string()),
        |text| (StatusCode::OK, text),
    );
    let mut response = Response::new(Full::new(Bytes::from(text + "\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

fn check(method: &Method, headers: &HeaderMap) -> Result<(), (StatusCode, String)> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_local(host) {
        let message = format!("host {host:?} is not this machine; use localhost, 127.0.0.1 or [::1]");
        return Err((StatusCode::MISDIRECTED_REQUEST, message));
    }
    if method != Method::GET && method != Method::HEAD {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here".to_owned()));
    }
    Ok(())
}

/// Whether a `Host` is a name of loopback, with or without a port.
fn is_local(host: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
        let Some(found) = host.get(..name.len()) else { return false };
        let rest = host.get(name.len()..).unwrap_or_default();
        found.eq_ignore_ascii_case(name) && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
    })
}

fn route(path: &str, known: &Sources) -> Answer {
    let unknown = || {
        let known = "/api/v1/recommendations, /api/v1/recommendations/NAMESPACE, \
                     /api/v1/recommendations/NAMESPACE/KIND/NAME, /api/v1/quota, /api/v1/nodes, \
                     /api/v1/weights/NAMESPACE/KIND/NAME, /api/v1/balance, /api/v1/decisions, /api/v1/savings and \
                     /api/v1/status";
        (StatusCode::NOT_FOUND, format!("{path} is not known; there are {known}"))
    };
    let objects = &known.objects.load();
    let rest = path.strip_prefix(ROOT).ok_or_else(unknown)?;
    let parts: Vec<&str> = rest.strip_suffix('/').unwrap_or(rest).split('/').collect();
    match parts.as_slice() {
        ["recommendations"] => Ok(recommendations::all(objects)),
        ["recommendations", namespace] => Ok(recommendations::of_namespace(objects, namespace)),
        ["recommendations", namespace, kind, name] => {
            recommendations::of_workload(objects, namespace, kind, name).ok_or_else(|| {
                let message =
                    format!("there is no recommendation about {kind} {name} in namespace {namespace}");
                (StatusCode::NOT_FOUND, message)
            })
        }
        ["weights", namespace, kind, name] => known
            .placement
            .as_ref()
            .map(|state| weights::of_workload(state, namespace, kind, name))
            .ok_or_else(no_placement),
        ["quota"] => known.ledger.load_full().as_deref().map(quota::tree).ok_or_else(|| {
            let message = "this replica has read no quota ledger; quota.enabled must be true and there must be a tree, \
                           and the replica that holds the lease plimsoll-quota always has";
            (StatusCode::NOT_FOUND, message.to_owned())
        }),
        ["status"] => known
            .status
            .as_ref()
            .and_then(|sources| serde_json::to_string(&sources.status()).ok())
            .ok_or_else(|| (StatusCode::NOT_FOUND, "nothing here knows how the parts are".to_owned())),
        ["nodes"] => nodes::answer(known.placement.as_ref()),
        ["balance"] => balance::answer(known.balance.as_ref()),
        ["decisions"] => Ok(decisions::all(&known.decisions)),
        ["savings"] => savings::all(known.surveys.as_ref()),
        _ => Err(unknown()),
    }
}

fn no_placement() -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, "nothing is placed here; placement.enabled must be true".to_owned())
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use plimsoll_core::objects::read_manifest;
    use serde_json::Value;

    use super::*;

    fn recommendation(
        namespace: &str,
        name: &str,
        kind: &str,
        target: &str,
        cpu: &str,
        memory: &str,
    ) -> Value {
        json!({
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "Recommendation",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": target}, "profile": "shared"},
            "status": {
                "containers": [{"name": "app", "cpu": {"target": cpu, "effective": "1"}, "memory": {"target": memory},
                                "samples": 1440, "future": "kept"}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        })
    }

    fn objects() -> Objects {
        let mut objects = Objects::default();
        let mut by_pod = recommendation("shop", "c", "StatefulSet", "db", "1", "1Gi");
        by_pod["spec"]["podName"] = json!("db-0");
        let mut empty = recommendation("shop", "d", "Deployment", "new", "1", "1Gi");
        empty["status"] = Value::Null;
        for manifest in [
            recommendation("shop", "b", "Deployment", "web", "8", "1Gi"),
            recommendation("bank", "a", "Deployment", "web", "1", "16Gi"),
            by_pod,
            empty,
        ] {
            objects.put(read_manifest(&manifest).unwrap().unwrap());
        }
        objects
    }

    async fn ask(method: &Method, path: &str, host: &str) -> (u16, Value) {
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).unwrap())]);
        let objects = Arc::new(ArcSwap::from_pointee(objects()));
        let known = Sources { objects, ..Sources::default() };
        let response = answer(method, path, &headers, &known);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn get(path: &str) -> (u16, Value) {
        ask(&Method::GET, path, "localhost:8082").await
    }

    fn names(answer: &Value) -> Vec<String> {
        let items = answer["items"].as_array().unwrap();
        items.iter().map(|item| format!("{}/{}", item["namespace"], item["name"]).replace('"', "")).collect()
    }

    #[tokio::test]
    async fn recommendations_are_listed_in_order() {
        for (path, expected) in [
            ("/api/v1/recommendations", vec!["bank/a", "shop/b", "shop/c", "shop/d"]),
            ("/api/v1/recommendations/", vec!["bank/a", "shop/b", "shop/c", "shop/d"]),
            ("/api/v1/recommendations/shop", vec!["shop/b", "shop/c", "shop/d"]),
            ("/api/v1/recommendations/nowhere", vec![]),
            ("/api/v1/recommendations/shop/Deployment/web", vec!["shop/b"]),
            ("/api/v1/recommendations/shop/deployment/web", vec!["shop/b"]),
            ("/api/v1/recommendations/shop/StatefulSet/db", vec!["shop/c"]),
        ] {
            let (status, answer) = get(path).await;
            assert_eq!(
                (status, names(&answer)),
                (200, expected.into_iter().map(str::to_owned).collect()),
                "{path}"
            );
        }
    }

    #[tokio::test]
    async fn an_item_says_what_the_object_does() {
        let (_, answer) = get("/api/v1/recommendations/shop/Deployment/web").await;
        let status = recommendation("shop", "b", "Deployment", "web", "8", "1Gi");
        assert_eq!(
            answer["items"][0],
            json!({
                "namespace": "shop", "name": "b", "profile": "shared", "targetRef": status["spec"]["targetRef"],
                "userProfile": "cpu-intensive", "containers": status["status"]["containers"],
                "conditions": status["status"]["conditions"],
            })
        );
        let (_, answer) = get("/api/v1/recommendations").await;
        let of = |index: usize, key: &str| answer["items"][index][key].clone();
        assert_eq!(
            (of(0, "userProfile"), of(2, "userProfile")),
            (json!("memory-intensive"), json!("balanced"))
        );
        assert_eq!((of(2, "podName"), of(1, "podName")), (json!("db-0"), Value::Null));
        let empty = (of(3, "userProfile"), of(3, "containers"), of(3, "conditions"));
        assert_eq!(empty, (Value::Null, json!([]), json!([])), "nothing found yet");
    }

    #[tokio::test]
    async fn what_is_not_there_is_said_in_json() {
        for (rule, method, path, host, status, part) in [
            (
                "workload",
                Method::GET,
                "/api/v1/recommendations/shop/Job/web",
                "localhost",
                404,
                "about Job web in namespace shop",
            ),
            ("path", Method::GET, "/api/v1/other", "localhost", 404, "there are /api/v1/recommendations"),
            (
                "no placement",
                Method::GET,
                "/api/v1/weights/a/Job/b",
                "localhost",
                404,
                "placement.enabled must be true",
            ),
            ("no ledger", Method::GET, "/api/v1/quota", "localhost", 404, "has read no quota ledger"),
            ("no placement", Method::GET, "/api/v1/nodes", "localhost", 404, "placement.enabled"),
            ("no balance", Method::GET, "/api/v1/balance", "localhost", 404, "placement.balance.enabled"),
            ("depth", Method::GET, "/api/v1/recommendations/shop/Job", "localhost", 404, "is not known"),
            ("root", Method::GET, "/", "localhost", 404, "is not known"),
            ("method", Method::POST, "/api/v1/recommendations", "localhost", 405, "only GET and HEAD"),
            ("rebinding", Method::GET, "/api/v1/recommendations", "evil.example", 421, "is not this machine"),
            ("no host", Method::GET, "/api/v1/recommendations", "", 421, "is not this machine"),
        ] {
            let (found, answer) = ask(&method, path, host).await;
            assert_eq!((found, &answer["code"]), (status, &json!(status)), "{rule}: {answer}");
            assert!(answer["message"].as_str().unwrap().contains(part), "{rule}: {answer}");
        }
        assert_eq!(ask(&Method::HEAD, "/api/v1/recommendations", "[::1]:1").await.0, 200);
    }

    #[test]
    fn hosts() {
        for host in ["localhost", "LocalHost:8082", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:65535"] {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "",
            "localhost.",
            "localhost.evil.example",
            "localhost:",
            "localhost:x",
            "127.0.0.1.nip.io",
            "127.0.0.10",
            "::1",
            "[::1]:65536",
            "evil.example:8082",
            "localhost@evil.example",
            "é",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }
}
