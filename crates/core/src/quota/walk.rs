//! Reads the nodes of a tree from a manifest: what stands where, and what cannot be read.
//!
//! Nothing here recurses: a manifest may be as deep as it likes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use plimsoll_quantity::Quantity;
use serde_json::{Map, Value};

use crate::problem::Problem;
use crate::resource::UNIT;

/// So many nodes a tree may have.
pub const MOST_NODES: usize = 20_000;
/// So many nodes may stand above one.
pub const MOST_DEPTH: usize = 200;
/// So many bytes a node's name may have.
pub const MOST_NAME: usize = 253;
/// So many bytes the names from the root down may have together, with a dot between them.
pub const MOST_PATH: usize = 4_096;
/// So many resources a node may name in `min` or `max`.
pub const MOST_RESOURCES: usize = 256;
/// So many problems, and so many warnings, are said of one tree; more are counted.
pub const MOST_PROBLEMS: usize = 500;

const NODE_FIELDS: [&str; 6] = ["name", "namespaces", "min", "max", "attributes", "children"];
/// The longest name that Kubernetes allows for a resource: a domain, a slash, a name.
const MOST_RESOURCE_NAME: usize = 253 + 1 + 63;
/// The longest name that Kubernetes allows for a namespace.
const MOST_NAMESPACE: usize = 63;
/// So many flavors a node names at most.
const MOST_FLAVORS: usize = 1_024;
/// Above this the sums of a large tree could not be told apart any more; in nano-units.
const MOST_AMOUNT: i128 = 1_000_000_000_000_000_000_000 * crate::resource::UNIT;

/// Whether a key in `min` or `max` is for a job queue: it is no resource of a pod.
pub fn is_queue_key(resource: &str) -> bool {
    resource.starts_with("kube-queue/") || resource.starts_with("koord-queue/")
}

/// Whether Kubernetes counts a resource in whole pieces.
fn is_whole(resource: &str) -> bool {
    let extended = resource.contains('/') && !resource.contains("kubernetes.io/");
    (extended && !is_queue_key(resource)) || resource == "pods" || resource.starts_with("hugepages-")
}

/// `min` or `max` of a node.
pub(super) type Bounds = BTreeMap<Arc<str>, Quantity>;

/// A node as it stands in the manifest.
#[derive(Debug, Default)]
pub(super) struct RawNode<'v> {
    pub(super) parent: Option<usize>,
    /// Which of its parent's children it is.
    pub(super) position: usize,
    pub(super) depth: usize,
    /// Empty if it has none that could be used.
    pub(super) name: Arc<str>,
    /// Whether the name is a text; if not, that has been said.
    pub(super) named: bool,
    path_bytes: usize,
    pub(super) min: Bounds,
    pub(super) max: Bounds,
    /// With their places in the list.
    pub(super) namespaces: Vec<(usize, &'v str)>,
    /// Namespaces of nodes below it that were not entered.
    pub(super) strays: Vec<&'v str>,
    pub(super) flavors: Vec<Arc<str>>,
    pub(super) children: Vec<usize>,
    /// Whether `children` has any, entered or not.
    pub(super) has_children: bool,
}

/// Everything found so far.
#[derive(Debug, Default)]
pub(super) struct Walk<'v> {
    /// Parents before their children.
    pub(super) nodes: Vec<RawNode<'v>>,
    pub(super) problems: Findings,
    pub(super) warnings: Findings,
    /// Why the namespaces of a node and below are blocked.
    pub(super) blocked: HashMap<usize, String>,
    resources: HashMap<&'v str, Arc<str>>,
}

/// Problems, up to a number.
#[derive(Debug, Default)]
pub(super) struct Findings {
    list: Vec<Problem>,
    more: usize,
}

impl Findings {
    pub(super) fn push(&mut self, problem: Problem) {
        if self.list.len() < MOST_PROBLEMS {
            self.list.push(problem);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn finish(mut self) -> Vec<Problem> {
        if let (1.., Some(last)) = (self.more, self.list.last_mut()) {
            last.message = format!("{}; and {} more", last.message, self.more);
        }
        self.list
    }

    pub(super) fn first(&self) -> Option<&Problem> {
        self.list.first()
    }
}

impl<'v> Walk<'v> {
    /// Reads `spec` of a manifest.
    pub(super) fn of(spec: Option<&'v Value>) -> Self {
        let mut walk = Self::default();
        let plain = |walk: &mut Self, path: &str, message: String| {
            walk.problems.push(Problem::new(path, "T11", message));
        };
        let spec = match spec {
            Some(Value::Object(spec)) => spec,
            None | Some(Value::Null) => {
                plain(&mut walk, "spec", "is missing; a tree has spec.root".to_owned());
                return walk;
            }
            Some(other) => {
                plain(&mut walk, "spec", format!("{} is not an object; a tree has spec.root", brief(other)));
                return walk;
            }
        };
        match spec.get("root") {
            Some(root @ Value::Object(_)) => walk.enter_all(root),
            None | Some(Value::Null) => {
                plain(
                    &mut walk,
                    "spec.root",
                    "is missing; it is the node that all others are below".to_owned(),
                );
            }
            Some(other) => {
                plain(&mut walk, "spec.root", format!("{} is not an object; a node is", brief(other)));
            }
        }
        for key in spec.keys().filter(|key| *key != "root") {
            let message = "unknown field; known here is root".to_owned();
            let problem = Problem::new(format!("spec.{}", cut(key)), "T11", message);
            if !walk.nodes.is_empty() {
                walk.blocked.entry(0).or_insert_with(|| reason(&problem.to_string()));
            }
            walk.problems.push(problem);
        }
        walk
    }

    fn enter_all(&mut self, root: &'v Value) {
        let mut left: Vec<(Option<usize>, usize, &'v Value)> = vec![(None, 0, root)];
        while let Some((parent, position, value)) = left.pop() {
            if self.nodes.len() >= MOST_NODES {
                let message =
                    format!("there are more than {MOST_NODES} nodes, which is the limit; merge some");
                self.unreadable(0, "", message);
                let rest = left.iter().map(|(_, _, value)| *value).chain([value]);
                let strays: Vec<&str> =
                    rest.filter_map(Value::as_object).flat_map(namespaces_below).collect();
                if let Some(root) = self.nodes.first_mut() {
                    root.strays.extend(strays);
                }
                return;
            }
            let Some(map) = value.as_object() else {
                if let Some(parent) = parent {
                    let message = format!("{} is not an object; a node is", brief(value));
                    self.unreadable(parent, &format!(".children[{position}]"), message);
                }
                continue;
            };
            let Some((index, children)) = self.enter(parent, position, map) else { continue };
            let entered = children.iter().enumerate().map(|(position, child)| (Some(index), position, child));
            let from = left.len();
            left.extend(entered);
            if let Some(new) = left.get_mut(from..) {
                new.reverse();
            }
        }
    }

    /// Takes a node up; the answer is its index and the children that are still to be entered.
    fn enter(
        &mut self,
        parent: Option<usize>,
        position: usize,
        map: &'v Map<String, Value>,
    ) -> Option<(usize, &'v [Value])> {
        let above = parent.and_then(|parent| self.nodes.get(parent));
        let depth = above.map_or(0, |above| above.depth + 1);
        let path_above = above.map_or(0, |above| above.path_bytes + 1);
        if let Some(parent) = parent {
            let name_bytes = map.get("name").and_then(Value::as_str).map_or(0, str::len).min(MOST_NAME);
            let refused = if depth > MOST_DEPTH {
                Some(format!("stands below {MOST_DEPTH} other nodes, which is the limit; flatten the tree"))
            } else if path_above + name_bytes > MOST_PATH {
                Some(format!(
                    "the names from the root down to here have more than {MOST_PATH} bytes; shorten them"
                ))
            } else {
                None
            };
            if let Some(message) = refused {
                self.unreadable(parent, &format!(".children[{position}]"), message);
                let strays = namespaces_below(map);
                if let Some(parent) = self.nodes.get_mut(parent) {
                    parent.strays.extend(strays);
                }
                return None;
            }
        }
        let index = self.nodes.len();
        self.nodes.push(RawNode { parent, position, depth, ..RawNode::default() });
        if let Some(parent) = parent.and_then(|parent| self.nodes.get_mut(parent)) {
            parent.children.push(index);
        }
        // First, so that what is found in the rest can be said with it.
        let (name, named) = self.name(index, map.get("name"));
        if let Some(node) = self.nodes.get_mut(index) {
            node.path_bytes = path_above + name.len();
            (node.name, node.named) = (name, named);
        }
        for key in map.keys().filter(|key| !NODE_FIELDS.contains(&key.as_str())) {
            let message = format!("unknown field; known here are {}", NODE_FIELDS.join(", "));
            self.unreadable(index, &format!(".{}", cut(key)), message);
        }
        let namespaces = self.namespaces(index, map.get("namespaces"));
        let min = self.bounds(index, "min", map.get("min"));
        let max = self.bounds(index, "max", map.get("max"));
        let flavors = self.flavors(index, map.get("attributes"));
        let children: &[Value] = match map.get("children") {
            None | Some(Value::Null) => &[],
            Some(Value::Array(list)) => list,
            Some(other) => {
                let message = format!("{} is not a list of nodes", brief(other));
                self.unreadable(index, ".children", message);
                &[]
            }
        };
        if let Some(node) = self.nodes.get_mut(index) {
            (node.namespaces, node.min, node.max, node.flavors) = (namespaces, min, max, flavors);
            node.has_children = !children.is_empty();
        }
        Some((index, children))
    }

    fn name(&mut self, index: usize, value: Option<&Value>) -> (Arc<str>, bool) {
        match value {
            None | Some(Value::Null) => (Arc::default(), true),
            Some(Value::String(name)) if name.chars().any(char::is_control) => {
                let message = format!("{:?} has control characters; write it without", cut(name));
                self.unreadable(index, ".name", message);
                (
                    name.chars().filter(|c| !c.is_control()).take(MOST_NAME / 4).collect::<String>().into(),
                    true,
                )
            }
            Some(Value::String(name)) if name.len() <= MOST_NAME => (name.as_str().into(), true),
            Some(Value::String(name)) => {
                let message = format!("{:?}.. has more than {MOST_NAME} bytes; shorten it", cut(name));
                self.unreadable(index, ".name", message);
                (cut(name).into(), true)
            }
            Some(other) => {
                let message = format!("{} is not a string; write it in quotes", brief(other));
                self.unreadable(index, ".name", message);
                (Arc::default(), false)
            }
        }
    }

    fn namespaces(&mut self, index: usize, value: Option<&'v Value>) -> Vec<(usize, &'v str)> {
        let list = match value {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(list)) => list,
            Some(other) => {
                let message = format!("{} is not a list of names", brief(other));
                self.unreadable(index, ".namespaces", message);
                return Vec::new();
            }
        };
        let mut names = Vec::with_capacity(list.len());
        for (position, item) in list.iter().enumerate() {
            if let Some(name) = item.as_str().filter(|name| is_namespace(name)) {
                names.push((position, name));
                continue;
            }
            let message = format!(
                "{} is no name of a namespace; such a name has 1 to {MOST_NAMESPACE} of a-z, 0-9 and -",
                brief(item)
            );
            self.unreadable(index, &format!(".namespaces[{position}]"), message);
        }
        names
    }

    fn bounds(&mut self, index: usize, field: &str, value: Option<&'v Value>) -> Bounds {
        let map = match value {
            None | Some(Value::Null) => return Bounds::new(),
            Some(Value::Object(map)) => map,
            Some(other) => {
                let message = format!("{} is not a map of quantities by resource", brief(other));
                self.unreadable(index, &format!(".{field}"), message);
                return Bounds::new();
            }
        };
        if map.len() > MOST_RESOURCES {
            let message = format!("names {} resources; {MOST_RESOURCES} is the limit", map.len());
            self.unreadable(index, &format!(".{field}"), message);
        }
        let mut bounds = Bounds::new();
        for (resource, value) in map.iter().take(MOST_RESOURCES) {
            match amount(resource, value) {
                Ok(quantity) => {
                    let name = self.resources.entry(resource).or_insert_with(|| resource.as_str().into());
                    bounds.insert(Arc::clone(name), quantity);
                }
                Err(message) => self.unreadable(index, &format!(".{field}.{}", cut(resource)), message),
            }
        }
        bounds
    }

    fn flavors(&mut self, index: usize, value: Option<&'v Value>) -> Vec<Arc<str>> {
        let map = match value {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Object(map)) => map,
            Some(other) => {
                let message = format!("{} is not a map of texts", brief(other));
                self.unreadable(index, ".attributes", message);
                return Vec::new();
            }
        };
        for (key, value) in map.iter().filter(|(_, value)| !value.is_string() && !value.is_null()) {
            let message = format!("{} is not a text; write it in quotes", brief(value));
            self.unreadable(index, &format!(".attributes.{}", cut(key)), message);
        }
        let mut flavors: Vec<Arc<str>> = Vec::new();
        let list = map.get("resourceflavors").and_then(Value::as_str).unwrap_or_default();
        let mut known = HashSet::new();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if flavors.len() == MOST_FLAVORS {
                let message =
                    format!("names more than {MOST_FLAVORS} flavors; a pod would have too many alternatives");
                self.unreadable(index, ".attributes.resourceflavors", message);
                break;
            }
            if known.insert(name) {
                flavors.push(name.into());
            }
        }
        flavors
    }

    /// A violation at a node; `below` is what follows the node's own path.
    pub(super) fn problem(&mut self, index: usize, below: &str, rule: &'static str, message: &str) -> String {
        let problem = self.finding(index, below, rule, message);
        let text = problem.to_string();
        self.problems.push(problem);
        text
    }

    pub(super) fn warning(&mut self, index: usize, below: &str, rule: &'static str, message: &str) {
        let warning = self.finding(index, below, rule, message);
        self.warnings.push(warning);
    }

    /// A violation of T11, which blocks the node and what is below it.
    fn unreadable(&mut self, index: usize, below: &str, message: impl AsRef<str>) {
        let text = self.problem(index, below, "T11", message.as_ref());
        self.blocked.entry(index).or_insert_with(|| reason(&text));
    }

    fn finding(&self, index: usize, below: &str, rule: &'static str, message: &str) -> Problem {
        let path = format!("{}{below}", self.json_path(index));
        Problem::new(path, rule, format!("node {}: {message}", self.dotted(index)))
    }

    /// The node and everything above it, upwards.
    fn upwards(&self, index: usize) -> Vec<&RawNode<'v>> {
        std::iter::successors(self.nodes.get(index), |node| self.nodes.get(node.parent?)).collect()
    }

    fn json_path(&self, index: usize) -> String {
        let mut path = String::from("spec.root");
        for node in self.upwards(index).iter().rev().filter(|node| node.parent.is_some()) {
            path.push_str(".children[");
            path.push_str(&node.position.to_string());
            path.push(']');
        }
        path
    }

    /// The names from the root down, as in `root.a.a1`.
    pub(super) fn dotted(&self, index: usize) -> String {
        let name = |node: &&RawNode<'v>| {
            if node.name.is_empty() { "(without name)".to_owned() } else { node.name.to_string() }
        };
        self.upwards(index).iter().rev().map(name).collect::<Vec<_>>().join(".")
    }
}

/// An amount, or why it is none.
fn amount(resource: &str, value: &Value) -> Result<Quantity, String> {
    if resource.is_empty() || resource.len() > MOST_RESOURCE_NAME {
        return Err(format!("is no name of a resource; it has 1 to {MOST_RESOURCE_NAME} characters"));
    }
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let right = "write one such as 40, 1500m or 20Gi";
    let quantity =
        Quantity::parse(&text).map_err(|_| format!("{} is not a quantity; {right}", brief(value)))?;
    if quantity.nanos() > MOST_AMOUNT {
        return Err(format!("{} is more than can be counted; write less than 1e21", brief(value)));
    }
    if quantity.is_negative() {
        return Err(format!("{} is negative; it is 0 or more", brief(value)));
    }
    if is_whole(resource) && quantity.nanos() % UNIT != 0 {
        return Err(format!("{} is no whole number; {resource} is counted in whole pieces", brief(value)));
    }
    Ok(quantity)
}

/// Whether the name can be one of a namespace. One that cannot would make a webhook's selector unusable.
fn is_namespace(name: &str) -> bool {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.len() <= MOST_NAMESPACE
        && bytes.iter().all(|c| plain(*c) || *c == b'-')
        && bytes.first().is_some_and(|c| plain(*c))
        && bytes.last().is_some_and(|c| plain(*c))
}

/// The namespaces of a node that is not entered, and of all below it.
fn namespaces_below(map: &Map<String, Value>) -> Vec<&str> {
    let mut found = Vec::new();
    let mut left = vec![map];
    while let Some(map) = left.pop() {
        let list = |key: &str| map.get(key).and_then(Value::as_array).into_iter().flatten();
        found.extend(list("namespaces").filter_map(Value::as_str).filter(|name| is_namespace(name)));
        left.extend(list("children").filter_map(Value::as_object));
    }
    found
}

/// Why a namespace is blocked, as short as can be: every namespace has its own copy.
pub(super) fn reason(problem: &str) -> String {
    const MOST: usize = 400;
    match problem.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}..", problem.get(..end).unwrap_or_default()),
        None => problem.to_owned(),
    }
}

/// A user's text, short enough for a message.
fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

/// A JSON value, short enough for a message.
fn brief(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(text) => format!("{:?}", cut(text)),
        other => cut(&other.to_string()),
    }
}
