//! Which metric of an autoscaler is meant.

use std::fmt;

use crate::resource::Resource;

/// A metric of type `Resource` or `ContainerResource`. Metrics are told apart by this, never by their place in the
/// list: people and other controllers reorder it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MetricKey {
    /// The container of a `ContainerResource` metric; none for a `Resource` metric.
    pub container: Option<String>,
    /// CPU or memory.
    pub resource: Resource,
}

impl MetricKey {
    /// A metric of the whole pod.
    pub const fn pod(resource: Resource) -> Self {
        Self { container: None, resource }
    }

    /// The metric's type, as it stands in `type`.
    pub const fn type_name(&self) -> &'static str {
        if self.container.is_some() { "ContainerResource" } else { "Resource" }
    }

    /// The member of the metric that holds its source.
    pub const fn member(&self) -> &'static str {
        if self.container.is_some() { "containerResource" } else { "resource" }
    }

    /// The key of a type, a resource and a container; none if it is not one that is converted.
    pub fn of(type_name: &str, resource: &str, container: Option<&str>) -> Option<Self> {
        let resource = match resource {
            "cpu" => Resource::Cpu,
            "memory" => Resource::Memory,
            _ => return None,
        };
        match (type_name, container) {
            ("Resource", _) => Some(Self { container: None, resource }),
            ("ContainerResource", Some(name)) if !name.is_empty() => {
                Some(Self { container: Some(name.to_owned()), resource })
            }
            _ => None,
        }
    }
}

impl fmt::Display for MetricKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.container {
            None => write!(f, "{}", self.resource),
            Some(container) => write!(f, "{} of container {container}", self.resource),
        }
    }
}
