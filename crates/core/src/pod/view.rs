//! A pod as decisions see it, read leniently from JSON: null counts as absent.

use thiserror::Error;

use crate::pod::{Json, Members, Part, Pruned};

/// What makes a pod unreadable. The API server would refuse such a pod as well; it is left untouched.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path} is not {expected}")]
pub struct Malformed {
    /// Where in the pod.
    pub path: String,
    /// What should stand there.
    pub expected: &'static str,
}

/// Where a container stands in the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// `spec.containers[i]`.
    App(usize),
    /// `spec.initContainers[i]`.
    Init(usize),
}

/// Whether a member is there. Patches add a missing parent as a whole and never replace one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Missing or null.
    Absent,
    /// There.
    Present,
}

impl Presence {
    fn of(value: Option<&Json<'_>>) -> Self {
        if value.is_some_and(|v| !v.is_null()) { Self::Present } else { Self::Absent }
    }
}

/// Requests and limits as they stand, unparsed.
#[derive(Clone, Copy, Debug)]
pub struct Resources<'a> {
    /// `resources` itself.
    pub resources: Presence,
    /// `resources.requests`.
    pub requests: Option<&'a Members<'a>>,
    /// `resources.limits`.
    pub limits: Option<&'a Members<'a>>,
}

/// One container.
#[derive(Clone, Debug)]
pub struct Container<'a> {
    /// Its name; empty if it has none.
    pub name: &'a str,
    /// Where it stands.
    pub place: Place,
    /// A restartable init container.
    pub sidecar: bool,
    /// What it requests.
    pub resources: Resources<'a>,
}

/// A pod.
#[derive(Clone, Debug)]
pub struct PodView<'a> {
    /// `metadata.name`, empty for pods of controllers at the mutating stage.
    pub name: &'a str,
    /// `metadata.generateName`.
    pub generate_name: &'a str,
    /// Its labels.
    pub labels: Option<&'a Members<'a>>,
    /// Whether there is a `metadata` object at all.
    pub metadata: Presence,
    /// Its annotations, if there is a map of them.
    pub annotations: Option<&'a Members<'a>>,
    /// `metadata.ownerReferences`.
    pub owner_references: &'a [Json<'a>],
    /// `spec.nodeSelector`.
    pub node_selector: Option<&'a Members<'a>>,
    /// App containers, then init containers, by index.
    pub containers: Vec<Container<'a>>,
    /// How many of them are app containers.
    pub app_containers: usize,
    /// `spec.resources`.
    pub pod_level: Resources<'a>,
    /// `spec.overhead`.
    pub overhead: Option<&'a Members<'a>>,
}

impl Container<'_> {
    /// How its requests enter the pod's sum.
    pub const fn part(&self) -> Part {
        match (self.place, self.sidecar) {
            (Place::App(_), _) => Part::App,
            (Place::Init(_), false) => Part::Init,
            (Place::Init(_), true) => Part::Sidecar,
        }
    }
}

impl<'a> PodView<'a> {
    /// Reads a pod.
    ///
    /// # Errors
    /// A part that decisions need is of another JSON type than Kubernetes gives it.
    pub fn read(pod: &'a Pruned<'a>) -> Result<Self, Malformed> {
        let root = object(Some(&pod.0), "pod")?;
        let metadata = object(root.and_then(|m| m.get("metadata")), "metadata")?;
        let spec = object(root.and_then(|m| m.get("spec")), "spec")?;
        let meta = |key: &str| metadata.and_then(|m| m.get(key));
        let field = |key: &str| spec.and_then(|m| m.get(key));
        let mut containers = Vec::new();
        for (index, item) in list(field("containers"), "spec.containers")?
            .iter()
            .enumerate()
            .map(|(i, c)| (Place::App(i), c))
            .chain(
                list(field("initContainers"), "spec.initContainers")?
                    .iter()
                    .enumerate()
                    .map(|(i, c)| (Place::Init(i), c)),
            )
        {
            containers.push(container(index, item)?);
        }
        Ok(Self {
            name: text(meta("name")),
            generate_name: text(meta("generateName")),
            labels: object(meta("labels"), "metadata.labels")?,
            metadata: Presence::of(root.and_then(|m| m.get("metadata"))),
            annotations: object(meta("annotations"), "metadata.annotations")?,
            owner_references: list(meta("ownerReferences"), "metadata.ownerReferences")?,
            node_selector: object(field("nodeSelector"), "spec.nodeSelector")?,
            app_containers: containers.iter().filter(|c| matches!(c.place, Place::App(_))).count(),
            containers,
            pod_level: resources(field("resources"))
                .map_err(|error| Malformed { path: format!("spec.{}", error.path), ..error })?,
            overhead: object(field("overhead"), "spec.overhead")?,
        })
    }

    /// An annotation's value, if it is a string.
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.annotations?.get(key)?.as_str()
    }

    /// The container at a place.
    pub fn container(&self, place: Place) -> Option<&Container<'a>> {
        let index = match place {
            Place::App(index) => index,
            Place::Init(index) => self.app_containers.checked_add(index)?,
        };
        self.containers.get(index).filter(|container| container.place == place)
    }

    /// A label's value, if it is a string.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.labels?.get(key)?.as_str()
    }

    /// A name to show: the name, or the prefix that a name will be made from.
    pub fn shown_name(&self) -> String {
        if self.name.is_empty() && !self.generate_name.is_empty() {
            format!("{}*", self.generate_name)
        } else {
            self.name.to_owned()
        }
    }
}

/// Whether any container has a request of the resource, be it 0, or a limit, which sets one.
pub fn requests_any(pod: &PodView<'_>, resource: &str) -> bool {
    pod.containers.iter().any(|container| {
        let Resources { requests, limits, .. } = &container.resources;
        [requests, limits].into_iter().flatten().any(|list| list.get(resource).is_some_and(|v| !v.is_null()))
    })
}

fn container<'a>(place: Place, value: &'a Json<'a>) -> Result<Container<'a>, Malformed> {
    let path = || match place {
        Place::App(index) => format!("spec.containers[{index}]"),
        Place::Init(index) => format!("spec.initContainers[{index}]"),
    };
    let Json::Object(map) = value else {
        return Err(Malformed { path: path(), expected: "an object" });
    };
    let sidecar = matches!(place, Place::Init(_)) && text(map.get("restartPolicy")) == "Always";
    Ok(Container {
        name: text(map.get("name")),
        place,
        sidecar,
        resources: resources(map.get("resources"))
            .map_err(|error| Malformed { path: format!("{}.{}", path(), error.path), ..error })?,
    })
}

/// Of a container or a pod; an error's path begins at `resources`.
fn resources<'a>(value: Option<&'a Json<'a>>) -> Result<Resources<'a>, Malformed> {
    let map = object(value, "resources")?;
    let part = |key: &str| match map.and_then(|m| m.get(key)) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Object(part)) => Ok(Some(part)),
        Some(_) => Err(Malformed { path: format!("resources.{key}"), expected: "an object" }),
    };
    Ok(Resources { resources: Presence::of(value), requests: part("requests")?, limits: part("limits")? })
}

fn object<'a>(value: Option<&'a Json<'a>>, path: &str) -> Result<Option<&'a Members<'a>>, Malformed> {
    match value {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Object(map)) => Ok(Some(map)),
        Some(_) => Err(Malformed { path: path.to_owned(), expected: "an object" }),
    }
}

fn list<'a>(value: Option<&'a Json<'a>>, path: &str) -> Result<&'a [Json<'a>], Malformed> {
    match value {
        None | Some(Json::Null) => Ok(&[]),
        Some(Json::List(list)) => Ok(list),
        Some(_) => Err(Malformed { path: path.to_owned(), expected: "a list" }),
    }
}

fn text<'a>(value: Option<&'a Json<'a>>) -> &'a str {
    value.and_then(Json::as_str).unwrap_or_default()
}
