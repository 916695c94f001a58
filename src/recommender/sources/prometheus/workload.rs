//! What the pods of one workload used and requested over time, for a picture of it.

use std::borrow::Cow;
use std::time::Duration;

use super::answer::Series;
use super::client::{Ask, Query, Subject};
use super::queries::{is_namespace, time};
use super::{Prometheus, PrometheusError};

/// Most bytes of an answer. Queries that cannot be asked of one namespace answer with a series or two of each.
const BYTES: usize = 16 << 20;
/// The label that tells the workload's pods from others.
const MARK: &str = "plimsoll_workload";
/// The letters of what is added to the names of pods, so that they spell nothing.
const RANDOM: &str = "[bcdfghjklmnpqrstvwxz2456789]+";
/// What kube-state-metrics says that containers request.
const REQUESTS: &str = "kube_pod_container_resource_requests";

/// Points of one line: nanoseconds since 1970, and cores or bytes of all pods together; the oldest first.
pub type Line = Vec<(i64, f64)>;

/// Usage and requests over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// Usage of CPU and of memory.
    pub used: [Line; 2],
    /// Requests for CPU and for memory; empty where nobody exports them.
    pub requested: [Line; 2],
    /// What could not be asked or understood, and what can be done about it.
    pub failures: Vec<String>,
}

/// Which pods are meant, as a regular expression of their whole names; `None` where the name of the workload is none in
/// Kubernetes. Pods that are gone are known by their names only.
fn pods(kind: &str, name: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    if name.is_empty() || name.len() > 253 || !name.bytes().all(is_plain) {
        return None;
    }
    let name = name.replace('.', "[.]");
    Some(match kind {
        "Pod" => name,
        "StatefulSet" => format!("{name}-[0-9]+"),
        "Deployment" => format!("{name}-{RANDOM}-{RANDOM}"),
        "CronJob" => format!("{name}-[0-9]+-{RANDOM}"),
        "ReplicaSet" | "ReplicationController" | "DaemonSet" => format!("{name}-{RANDOM}"),
        // Jobs number their pods, if they are indexed; of other controllers nothing is known.
        _ => format!("{name}-.+"),
    })
}

/// Takes the series of the workload.
struct Marked<'a> {
    /// Of the namespace, the mark, and the resource, which usage does not have.
    labels: [&'a str; 3],
    namespace: &'a str,
    current: Line,
    /// By resource, "" where there is none.
    found: Vec<(String, Line)>,
}

impl Series for Marked<'_> {
    fn wanted(&self) -> usize {
        self.labels.len()
    }

    fn place(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|wanted| *wanted == label)
    }

    fn point(&mut self, nanos: Option<i64>, value: Option<f64>) {
        let value = value.filter(|value| value.is_finite() && *value >= 0.0);
        self.current.extend(nanos.zip(value));
    }

    fn finish(&mut self, labels: &[Option<Cow<'_, str>>]) {
        let line = std::mem::take(&mut self.current);
        if let [Some(namespace), Some(_), resource] = labels
            && namespace == self.namespace
        {
            self.found.push((resource.as_deref().unwrap_or_default().to_owned(), line));
        }
    }
}

impl Marked<'_> {
    fn of(&mut self, resource: &str) -> Line {
        let found = self.found.iter_mut().find(|(of, _)| of == resource);
        found.map(|(_, line)| std::mem::take(line)).unwrap_or_default()
    }
}

impl Prometheus {
    /// The host and port that are asked.
    pub fn host(&self) -> &str {
        let address = self.options.address.split_once("://").map_or("", |(_, rest)| rest);
        address.split('/').next().unwrap_or_default()
    }

    /// What the pods of a workload used and requested from `from` to `to` (nanoseconds since 1970), a point every `step`.
    /// Which pods are its own is told by their names.
    pub async fn past(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
        from: i64,
        to: i64,
        step: Duration,
    ) -> Past {
        let Some(pods) = pods(kind, name).filter(|_| is_namespace(namespace)) else {
            let failure = format!("{kind} {namespace}/{name}: this is no name that pods could have");
            return Past { failures: vec![failure], ..Past::default() };
        };
        let labels = &self.options.labels;
        let usage = |text: String| {
            let names = format!("{}, {MARK}", labels.namespace);
            let each = format!("{names}, {}, {}", labels.pod, labels.container);
            marked(&names, &each, &text, &labels.pod, &pods)
        };
        let cpu = usage(self.queries.cpu.of(&[namespace]));
        let memory = usage(self.queries.memory.of(&[namespace]));
        let requests = format!("{REQUESTS}{{namespace=\"{namespace}\",resource=~\"cpu|memory\"}}");
        let requests = marked(
            &format!("namespace, {MARK}, resource"),
            &format!("namespace, {MARK}, resource, pod, container"),
            &requests,
            "pod",
            &pods,
        );
        let of_requests = Query::new(REQUESTS, Subject::Container);
        let range = [time(from), time(to), format!("{}", step.as_secs().max(1))];
        let own = labels.namespace.as_str();
        let (cpu, memory, requests) = tokio::join!(
            self.line(&self.queries.cpu.query, cpu, &range, (own, namespace)),
            self.line(&self.queries.memory.query, memory, &range, (own, namespace)),
            self.line(&of_requests, requests, &range, ("namespace", namespace)),
        );
        let mut past = Past::default();
        let mut taken = |result: Result<Marked<'_>, PrometheusError>, resources: [&str; 2]| match result {
            Ok(mut found) => resources.map(|resource| found.of(resource)),
            Err(error) => {
                past.failures.push(error.to_string());
                Default::default()
            }
        };
        let ([cpu, _], [memory, _]) = (taken(cpu, ["", "-"]), taken(memory, ["", "-"]));
        let requested = taken(requests, ["cpu", "memory"]);
        (past.used, past.requested) = ([cpu, memory], requested);
        // What is wrong with one of them is mostly wrong with all.
        past.failures.dedup();
        past
    }

    async fn line<'a>(
        &self,
        query: &Query,
        text: String,
        [start, end, step]: &[String; 3],
        (label, namespace): (&'a str, &'a str),
    ) -> Result<Marked<'a>, PrometheusError> {
        let parameters =
            [("query", text), ("start", start.clone()), ("end", end.clone()), ("step", step.clone())];
        let mut marked =
            Marked { labels: [label, MARK, "resource"], namespace, current: Line::new(), found: Vec::new() };
        let ask =
            Ask { query, endpoint: "query_range", parameters: &parameters, limit: BYTES, expected: "matrix" };
        self.client.ask(ask, &mut marked).await?;
        Ok(marked)
    }
}

/// The sum over pods, each container once, of those that are marked and of all others. A query is somebody else's, so that no
/// matcher can be put into it.
fn marked(names: &str, each: &str, text: &str, pod: &str, pods: &str) -> String {
    format!(
        "sum by ({names}) (max by ({each}) (label_replace({text}, \"{MARK}\", \"yes\", \"{pod}\", \"{pods}\")))"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_known_by_their_names() {
        for (kind, name, expected) in [
            ("Deployment", "web", Some("web-[bcdfghjklmnpqrstvwxz2456789]+-[bcdfghjklmnpqrstvwxz2456789]+")),
            ("StatefulSet", "db.main", Some("db[.]main-[0-9]+")),
            ("DaemonSet", "agent", Some("agent-[bcdfghjklmnpqrstvwxz2456789]+")),
            ("CronJob", "backup", Some("backup-[0-9]+-[bcdfghjklmnpqrstvwxz2456789]+")),
            ("Pod", "alone", Some("alone")),
            ("CloneSet", "web", Some("web-.+")),
            ("Deployment", "", None),
            ("Deployment", "a\"} or up{a=\"", None),
            ("Deployment", ".*|", None),
        ] {
            assert_eq!(pods(kind, name).as_deref(), expected, "{kind} {name}");
        }
    }
}
