//! The load of a cluster as a file: what commands use in place of a source.
//!
//! ```yaml
//! nodes:
//!   n1:
//!     cpu: {15m: 0.8, 1h: 0.7, 1d: 0.6}   # means by window; a plain number is that of every window
//!     memory: 0.5
//!     total: {cpu: "8", memory: 32Gi, bandwidth: 1G, disk: 500Gi}
//!     idle: {cpu: 0.55}                   # in place of 1 - the mean of the shortest window; of disk there is no other
//!     time: 2026-03-01T10:00:00Z          # of the newest sample; absent: now
//! usage:
//!   shop/Deployment/web:                  # namespace/kind/name
//!   - {node: n1, pod: web-1, container: app, image: web:1, local: {cpu: 0.18, memory: 0.01}}
//! bindings: {n1: 6}                       # in place of those that pods tell of
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use plimsoll_quantity::Quantity;
use serde_json::{Map, Value};

use crate::placement::pod::WorkloadKey;
use crate::placement::{
    ByMetric, ByResource, ContainerUse, LoadSettings, LoadSnapshot, Metric, NodeLoad, NodeResource, units,
};
use crate::pod::Workload;
use crate::problem::Problem;

/// What a load file says.
#[derive(Clone, Debug, Default)]
pub struct LoadFile {
    /// The load of nodes.
    pub load: LoadSnapshot,
    /// What containers use.
    pub containers: Vec<ContainerUse>,
    /// Bindings by node, if the file has them.
    pub bindings: Option<BTreeMap<String, u32>>,
    /// What was dropped, as a source's samples would be, and why.
    pub notes: Vec<String>,
}

impl LoadFile {
    /// Reads a file. `now` is in nanoseconds since 1970.
    ///
    /// # Errors
    /// Everything in it that cannot be meant, with its path.
    pub fn read(file: &Value, settings: &LoadSettings, now: i64) -> Result<Self, Vec<Problem>> {
        let mut reader = Reader { settings, now, problems: Vec::new(), notes: Vec::new() };
        let mut read =
            Self { load: LoadSnapshot { taken: now, ..LoadSnapshot::default() }, ..Self::default() };
        for (key, value) in reader.members(file, "") {
            match key.as_str() {
                "nodes" => {
                    for (name, node) in reader.members(value, "nodes") {
                        let load = reader.node(node, &format!("nodes.{name}"));
                        read.load.nodes.insert(name.as_str().into(), load);
                    }
                }
                "usage" => {
                    for (name, list) in reader.members(value, "usage") {
                        reader.usage(name, list, &mut read.containers);
                    }
                }
                "bindings" => read.bindings = Some(reader.bindings(value)),
                _ => reader.unknown("", key, "nodes, usage or bindings"),
            }
        }
        read.notes = reader.notes;
        if reader.problems.is_empty() { Ok(read) } else { Err(reader.problems) }
    }
}

struct Reader<'a> {
    settings: &'a LoadSettings,
    now: i64,
    problems: Vec<Problem>,
    notes: Vec<String>,
}

/// Kinds whose group need not be written.
const GROUPS: [(&str, &str); 7] = [
    ("CloneSet", "apps.kruise.io"),
    ("CronJob", "batch"),
    ("DaemonSet", "apps"),
    ("Deployment", "apps"),
    ("Job", "batch"),
    ("ReplicaSet", "apps"),
    ("StatefulSet", "apps"),
];

impl Reader<'_> {
    fn refuse(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(Problem::new(path, "load", message));
    }

    fn unknown(&mut self, path: &str, key: &str, known: &str) {
        let path = join(path, key);
        self.refuse(&path, format!("is not known; {known} can stand here"));
    }

    fn members<'v>(
        &mut self,
        value: &'v Value,
        path: &str,
    ) -> impl Iterator<Item = (&'v String, &'v Value)> + use<'v> {
        let map: Option<&Map<String, Value>> = match value {
            Value::Null => None,
            Value::Object(map) => Some(map),
            _ => {
                self.refuse(path, "is not a map");
                None
            }
        };
        map.into_iter().flatten()
    }

    fn node(&mut self, value: &Value, path: &str) -> NodeLoad {
        let mut node = NodeLoad {
            means: vec![ByMetric::default(); self.settings.windows.len()],
            sampled: self.now,
            ..NodeLoad::default()
        };
        for (key, value) in self.members(value, path) {
            let path = join(path, key);
            if let Some(metric) = Metric::from_name(key) {
                self.means(value, metric, &path, &mut node.means);
                continue;
            }
            match key.as_str() {
                "total" => node.totals = self.by_resource(value, &path, Self::total),
                "idle" => node.idle = self.by_resource(value, &path, Self::share),
                "time" => match value.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
                    Some(time) => node.sampled = i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX),
                    None => self.refuse(
                        &path,
                        format!("{value} is not a time; write one such as 2026-03-01T10:00:00Z"),
                    ),
                },
                _ => self.unknown(&path, "", "cpu, memory, disk, load, network, total, idle or time"),
            }
        }
        if self.now.saturating_sub(node.sampled) > self.settings.maximum_age.saturating_mul(1_000_000_000) {
            self.notes.push(format!("{path}: its newest sample is too old; nothing fresh is known of it"));
        }
        node
    }

    fn means(&mut self, value: &Value, metric: Metric, path: &str, means: &mut [ByMetric<Option<f64>>]) {
        if value.is_number() {
            let mean = self.mean(value, metric, path);
            for window in means {
                window.set(metric, mean);
            }
            return;
        }
        for (name, value) in self.members(value, path) {
            let path = join(path, name);
            let place = self.settings.windows.iter().position(|window| window.name.as_ref() == name);
            let Some(window) = place.and_then(|place| means.get_mut(place)) else {
                let windows: Vec<_> =
                    self.settings.windows.iter().map(|window| window.name.as_ref()).collect();
                self.refuse(
                    &path,
                    format!("is no window of placement.load.windows; those are {}", windows.join(", ")),
                );
                continue;
            };
            window.set(metric, self.mean(value, metric, &path));
        }
    }

    /// A mean; what a source's filter would drop is dropped here too.
    fn mean(&mut self, value: &Value, metric: Metric, path: &str) -> Option<f64> {
        let mean = self.number(value, path)?;
        if mean < 0.0 || mean > metric.greatest() {
            self.notes.push(format!("{path}: {mean} cannot be true, and is dropped"));
            return None;
        }
        Some(mean)
    }

    fn number(&mut self, value: &Value, path: &str) -> Option<f64> {
        if value.is_null() {
            return None;
        }
        let number = value.as_f64().filter(|number| number.is_finite());
        if number.is_none() {
            self.refuse(path, format!("{value} is not a number; write a share such as 0.55"));
        }
        number
    }

    fn share(&mut self, value: &Value, path: &str) -> Option<f64> {
        let share = self.number(value, path)?;
        if share < 0.0 {
            self.refuse(path, format!("{share} is negative; write a share such as 0.55"));
            return None;
        }
        Some(share)
    }

    fn total(&mut self, value: &Value, path: &str) -> Option<f64> {
        if value.is_null() {
            return None;
        }
        let total = serde_json::from_value::<Quantity>(value.clone()).ok().map(|total| units(total.nanos()));
        let total = total.filter(|total| *total > 0.0);
        if total.is_none() {
            self.refuse(path, format!("{value} is not a quantity above 0; write one such as 32Gi or 1G"));
        }
        total
    }

    fn by_resource(
        &mut self,
        value: &Value,
        path: &str,
        read: fn(&mut Self, &Value, &str) -> Option<f64>,
    ) -> ByResource<Option<f64>> {
        let mut found = ByResource::default();
        for (name, value) in self.members(value, path) {
            match NodeResource::from_name(name) {
                Some(resource) => found.set(resource, read(self, value, &join(path, name))),
                None => self.unknown(path, name, "cpu, memory, bandwidth or disk"),
            }
        }
        found
    }

    fn usage(&mut self, workload: &str, list: &Value, containers: &mut Vec<ContainerUse>) {
        let path = format!("usage.{workload}");
        let Some(key) = workload_key(workload) else {
            let right = "write namespace/kind/name, as in shop/Deployment/web";
            return self.refuse(&path, format!("names no workload; {right}"));
        };
        let Value::Array(list) = list else {
            return self.refuse(&path, "is not a list of containers");
        };
        for (index, item) in list.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let mut texts: BTreeMap<&str, Arc<str>> = BTreeMap::new();
            let mut local = ByResource::default();
            for (name, value) in self.members(item, &path) {
                match name.as_str() {
                    "local" => local = self.by_resource(value, &join(&path, name), Self::share),
                    "node" | "pod" | "container" | "image" => match value.as_str() {
                        Some(text) => {
                            texts.insert(name, text.into());
                        }
                        None => self.refuse(&join(&path, name), format!("{value} is not a text")),
                    },
                    _ => self.unknown(&path, name, "node, pod, container, image or local"),
                }
            }
            let mut text = |name: &str| texts.remove(name).unwrap_or_default();
            let (node, pod) = (text("node"), text("pod"));
            if node.is_empty() {
                self.refuse(&join(&path, "node"), "is missing: a share is one of a node");
            }
            let pod = if pod.is_empty() { pod } else { format!("{}/{pod}", key.namespace).into() };
            let (container, image) = (text("container"), text("image"));
            containers.push(ContainerUse { workload: key.clone(), pod, container, image, node, local });
        }
    }

    fn bindings(&mut self, value: &Value) -> BTreeMap<String, u32> {
        let mut bindings = BTreeMap::new();
        for (node, value) in self.members(value, "bindings") {
            match value.as_u64().and_then(|count| u32::try_from(count).ok()) {
                Some(count) => {
                    bindings.insert(node.clone(), count);
                }
                None => self.refuse(&join("bindings", node), format!("{value} is not a number of pods")),
            }
        }
        bindings
    }
}

fn join(path: &str, key: &str) -> String {
    match (path.is_empty(), key.is_empty()) {
        (true, _) => key.to_owned(),
        (_, true) => path.to_owned(),
        _ => format!("{path}.{key}"),
    }
}

/// `namespace/kind/name`; the kind may have its group with it, as in `CloneSet.apps.kruise.io`.
pub fn workload_key(text: &str) -> Option<WorkloadKey> {
    let mut parts = text.splitn(3, '/');
    let (namespace, kind, name) = (parts.next()?, parts.next()?, parts.next()?);
    if namespace.is_empty() || kind.is_empty() || name.is_empty() || name.contains('/') {
        return None;
    }
    let known = GROUPS.iter().find(|(known, _)| *known == kind).map_or("", |(_, group)| *group);
    let (kind, group) = kind.split_once('.').unwrap_or((kind, known));
    let workload = Workload { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() };
    Some(WorkloadKey { namespace: namespace.into(), workload: Arc::new(workload) })
}
