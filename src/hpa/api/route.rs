//! What a request asks for.

use http::{Method, Uri};

use super::answer::Refusal;
use super::percent::{decode, parameter};
use crate::metrics::ApiGroup;

pub(super) const METRICS: &str = "metrics.k8s.io";
pub(super) const CUSTOM: &str = "custom.metrics.k8s.io";
pub(super) const EXTERNAL: &str = "external.metrics.k8s.io";

/// The groups that are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// `metrics.k8s.io`.
    pub metrics: bool,
    /// `custom.metrics.k8s.io` and `external.metrics.k8s.io`.
    pub external: bool,
}

/// The versions of `custom.metrics.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CustomVersion {
    V1Beta1,
    V1Beta2,
}

impl CustomVersion {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::V1Beta1 => "v1beta1",
            Self::V1Beta2 => "v1beta2",
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Which resources `metrics.k8s.io` has.
    MetricsResources,
    /// Which resources `custom.metrics.k8s.io` has.
    CustomResources(CustomVersion),
    /// Which resources `external.metrics.k8s.io` has.
    ExternalResources,
    /// Usage of nodes, which is nobody's but metrics-server's to tell.
    Nodes,
    /// Usage of pods: of all namespaces or one, all pods or one.
    Pods { namespace: Option<String>, name: Option<String> },
    /// A metric of pods, all that the selector of the query selects or one.
    PodMetric { version: CustomVersion, namespace: String, name: Option<String>, metric: String },
    /// A metric of workloads.
    WorkloadMetric { namespace: String, metric: String },
}

/// What a right to it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Attributes {
    /// A path that is no resource.
    Path(String),
    /// A resource.
    Resource {
        group: &'static str,
        version: &'static str,
        resource: String,
        subresource: Option<String>,
        namespace: Option<String>,
        name: Option<String>,
        verb: &'static str,
    },
}

/// Which group a path belongs to.
pub(super) fn group(path: &str) -> ApiGroup {
    let mut parts = path.split('/').skip(1);
    match (parts.next(), parts.next()) {
        (Some("apis"), Some(METRICS)) => ApiGroup::Metrics,
        (Some("apis"), Some(CUSTOM)) => ApiGroup::Custom,
        (Some("apis"), Some(EXTERNAL)) => ApiGroup::External,
        _ => ApiGroup::Other,
    }
}

/// Reads a request's head.
pub(super) fn route(method: &Method, uri: &Uri, served: Served) -> Result<(Route, Attributes), Refusal> {
    let path = uri.path();
    let parts: Option<Vec<String>> = path.split('/').skip(1).map(decode).collect();
    let parts = parts.ok_or_else(Refusal::no_path)?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (group, rest) = match parts.as_slice() {
        ["apis", group @ (METRICS | CUSTOM | EXTERNAL), rest @ ..] => (*group, rest),
        _ => return Err(Refusal::no_path()),
    };
    if !(if group == METRICS { served.metrics } else { served.external }) {
        return Err(Refusal::no_path());
    }
    let found = match group {
        METRICS => metrics(path, rest),
        CUSTOM => custom(path, rest),
        _ => external(path, rest),
    };
    let found = found.ok_or_else(Refusal::no_path)?;
    let is_watch =
        parameter(uri.query(), "watch").is_some_and(|value| !matches!(value.as_str(), "false" | "0"));
    if method != Method::GET || is_watch {
        return Err(Refusal::method());
    }
    Ok(found)
}

fn metrics(path: &str, rest: &[&str]) -> Option<(Route, Attributes)> {
    let of = |resource: &str, namespace: Option<&str>, name: Option<&str>| {
        attributes(METRICS, "v1beta1", resource, None, namespace, name)
    };
    let pods = |namespace: Option<&str>, name: Option<&str>| {
        let route = Route::Pods { namespace: namespace.map(str::to_owned), name: name.map(str::to_owned) };
        (route, of("pods", namespace, name))
    };
    Some(match *rest {
        ["v1beta1"] => (Route::MetricsResources, Attributes::Path(path.to_owned())),
        ["v1beta1", "nodes"] => (Route::Nodes, of("nodes", None, None)),
        ["v1beta1", "nodes", name] if is_name(name) => (Route::Nodes, of("nodes", None, Some(name))),
        ["v1beta1", "pods"] => pods(None, None),
        ["v1beta1", "namespaces", namespace, "pods"] if is_name(namespace) => pods(Some(namespace), None),
        ["v1beta1", "namespaces", namespace, "pods", name] if is_name(namespace) && is_name(name) => {
            pods(Some(namespace), Some(name))
        }
        _ => return None,
    })
}

fn custom(path: &str, rest: &[&str]) -> Option<(Route, Attributes)> {
    let (version, rest) = match rest {
        ["v1beta1", rest @ ..] => (CustomVersion::V1Beta1, rest),
        ["v1beta2", rest @ ..] => (CustomVersion::V1Beta2, rest),
        _ => return None,
    };
    Some(match *rest {
        [] => (Route::CustomResources(version), Attributes::Path(path.to_owned())),
        ["namespaces", namespace, "pods", name, metric]
            if is_name(namespace) && (name == "*" || is_name(name)) && !metric.is_empty() =>
        {
            let route = Route::PodMetric {
                version,
                namespace: namespace.to_owned(),
                name: (name != "*").then(|| name.to_owned()),
                metric: metric.to_owned(),
            };
            let attributes =
                attributes(CUSTOM, version.name(), "pods", Some(metric), Some(namespace), Some(name));
            (route, attributes)
        }
        _ => return None,
    })
}

fn external(path: &str, rest: &[&str]) -> Option<(Route, Attributes)> {
    Some(match *rest {
        ["v1beta1"] => (Route::ExternalResources, Attributes::Path(path.to_owned())),
        ["v1beta1", "namespaces", namespace, metric] if is_name(namespace) && !metric.is_empty() => {
            let route = Route::WorkloadMetric { namespace: namespace.to_owned(), metric: metric.to_owned() };
            (route, attributes(EXTERNAL, "v1beta1", metric, None, Some(namespace), None))
        }
        _ => return None,
    })
}

fn attributes(
    group: &'static str,
    version: &'static str,
    resource: &str,
    subresource: Option<&str>,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Attributes {
    Attributes::Resource {
        group,
        version,
        resource: resource.to_owned(),
        subresource: subresource.map(str::to_owned),
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        verb: if name.is_some() { "get" } else { "list" },
    }
}

/// Whether a part of a path may be the name of a namespace, a pod or a node. It goes into a path again.
pub(super) fn is_name(name: &str) -> bool {
    let inner =
        |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || b"-.".contains(&letter);
    let ends = |letter: Option<&u8>| letter.is_some_and(u8::is_ascii_alphanumeric);
    name.len() <= 253
        && name.bytes().all(inner)
        && ends(name.as_bytes().first())
        && ends(name.as_bytes().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Served = Served { metrics: true, external: true };

    fn ask(method: &Method, uri: &str, served: Served) -> Result<(Route, Attributes), u16> {
        route(method, &uri.parse().unwrap(), served).map_err(|refusal| refusal.code.as_u16())
    }

    /// `verb group/version resource/subresource namespace name`
    fn right(attributes: &Attributes) -> String {
        match attributes {
            Attributes::Path(path) => format!("get {path}"),
            Attributes::Resource { group, version, resource, subresource, namespace, name, verb } => {
                let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
                format!(
                    "{verb} {group}/{version} {resource}/{} {} {}",
                    or(subresource),
                    or(namespace),
                    or(name)
                )
            }
        }
    }

    #[test]
    fn what_is_served_and_the_right_to_it() {
        let metric = |version, name: Option<&str>| Route::PodMetric {
            version,
            namespace: "shop".to_owned(),
            name: name.map(str::to_owned),
            metric: "plimsoll_cpu_percent".to_owned(),
        };
        let pods = |namespace: Option<&str>, name: Option<&str>| Route::Pods {
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
        };
        let rows = [
            ("metrics.k8s.io/v1beta1", Route::MetricsResources, "get /apis/metrics.k8s.io/v1beta1"),
            ("metrics.k8s.io/v1beta1/nodes?limit=5", Route::Nodes, "list metrics.k8s.io/v1beta1 nodes/- - -"),
            ("metrics.k8s.io/v1beta1/nodes/n-1", Route::Nodes, "get metrics.k8s.io/v1beta1 nodes/- - n-1"),
            ("metrics.k8s.io/v1beta1/pods", pods(None, None), "list metrics.k8s.io/v1beta1 pods/- - -"),
            (
                "metrics.k8s.io/v1beta1/namespaces/shop/pods?watch=false",
                pods(Some("shop"), None),
                "list metrics.k8s.io/v1beta1 pods/- shop -",
            ),
            (
                "metrics.k8s.io/v1beta1/namespaces/shop/pods/web-0",
                pods(Some("shop"), Some("web-0")),
                "get metrics.k8s.io/v1beta1 pods/- shop web-0",
            ),
            (
                "custom.metrics.k8s.io/v1beta2",
                Route::CustomResources(CustomVersion::V1Beta2),
                "get /apis/custom.metrics.k8s.io/v1beta2",
            ),
            (
                "custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/plimsoll_cpu_percent",
                metric(CustomVersion::V1Beta2, None),
                "get custom.metrics.k8s.io/v1beta2 pods/plimsoll_cpu_percent shop *",
            ),
            (
                "custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/%2A/plimsoll_cpu_percent",
                metric(CustomVersion::V1Beta1, None),
                "get custom.metrics.k8s.io/v1beta1 pods/plimsoll_cpu_percent shop *",
            ),
            (
                "custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/web-0/plimsoll_cpu_percent",
                metric(CustomVersion::V1Beta1, Some("web-0")),
                "get custom.metrics.k8s.io/v1beta1 pods/plimsoll_cpu_percent shop web-0",
            ),
            (
                "external.metrics.k8s.io/v1beta1/namespaces/shop/plimsoll_cpu_percent?labelSelector=workload%3Dweb",
                Route::WorkloadMetric {
                    namespace: "shop".to_owned(),
                    metric: "plimsoll_cpu_percent".to_owned(),
                },
                "list external.metrics.k8s.io/v1beta1 plimsoll_cpu_percent/- shop -",
            ),
        ];
        for (path, expected, needs) in rows {
            let (route, attributes) = ask(&Method::GET, &format!("/apis/{path}"), ALL).unwrap();
            assert_eq!((route, right(&attributes)), (expected, needs.to_owned()), "{path}");
        }
    }

    #[test]
    fn what_is_not_served() {
        let (get, post) = (Method::GET, Method::POST);
        let shim = Served { metrics: true, external: false };
        let rows = [
            ("groups", &get, "/apis", ALL, 404),
            ("OpenAPI", &get, "/openapi/v2", ALL, 404),
            ("OpenAPI", &get, "/openapi/v3/apis/metrics.k8s.io/v1beta1", ALL, 404),
            ("group", &get, "/apis/metrics.k8s.io", ALL, 404),
            ("version", &get, "/apis/metrics.k8s.io/v1", ALL, 404),
            ("resource", &get, "/apis/metrics.k8s.io/v1beta1/secrets", ALL, 404),
            ("namespaced nodes", &get, "/apis/metrics.k8s.io/v1beta1/namespaces/shop/nodes", ALL, 404),
            ("out of the path", &get, "/apis/metrics.k8s.io/v1beta1/nodes/..", ALL, 404),
            ("out of the path", &get, "/apis/metrics.k8s.io/v1beta1/nodes/%2e%2e%2fpods", ALL, 404),
            ("a new line", &get, "/apis/metrics.k8s.io/v1beta1/nodes/a%0ab", ALL, 404),
            ("half an escape", &get, "/apis/metrics.k8s.io/v1beta1/nodes/a%2", ALL, 404),
            ("deeper", &get, "/apis/metrics.k8s.io/v1beta1/namespaces/a/pods/b/c", ALL, 404),
            ("off", &get, "/apis/custom.metrics.k8s.io/v1beta2", shim, 404),
            ("off", &get, "/apis/external.metrics.k8s.io/v1beta1", shim, 404),
            ("off", &get, "/apis/metrics.k8s.io/v1beta1", Served { metrics: false, external: true }, 404),
            ("nodes' metric", &get, "/apis/custom.metrics.k8s.io/v1beta2/nodes/a/x", ALL, 404),
            ("create", &post, "/apis/metrics.k8s.io/v1beta1/nodes", ALL, 405),
            ("delete", &Method::DELETE, "/apis/metrics.k8s.io/v1beta1/namespaces/a/pods/b", ALL, 405),
            ("head", &Method::HEAD, "/apis/metrics.k8s.io/v1beta1", ALL, 405),
            ("watch", &get, "/apis/metrics.k8s.io/v1beta1/pods?watch=true", ALL, 405),
            ("watch", &get, "/apis/metrics.k8s.io/v1beta1/pods?watch=1", ALL, 405),
        ];
        for (rule, method, uri, served, code) in rows {
            assert_eq!(ask(method, uri, served).unwrap_err(), code, "{rule}: {uri}");
        }
    }

    #[test]
    fn names() {
        for good in ["a", "web-0", "ip-10-0-0-1.ec2.internal", "0"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", "-a", "a-", "A", "a/b", "a b", "a%b", "*", "é", &"a".repeat(254)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
