//! Answers of metrics-server about pods, read and written.

use plimsoll_core::resource::Resource;
use plimsoll_quantity::{Format, Quantity};
use serde_json::Value;

use crate::server::go_duration;

/// What metrics-server says about pods of one namespace.
pub(super) struct PodUsage {
    /// The object as it came: a list, or one pod.
    object: Value,
}

/// One pod of it.
pub(super) struct Pod<'a> {
    pub(super) name: &'a str,
    item: &'a Value,
}

impl PodUsage {
    /// Reads a `PodMetricsList`, or with `name` the `PodMetrics` of that pod. The error goes on after "the answer".
    pub(super) fn read(body: &[u8], namespace: &str, name: Option<&str>) -> Result<Self, String> {
        let kind = if name.is_some() { "PodMetrics" } else { "PodMetricsList" };
        let object: Value = serde_json::from_slice(body).map_err(|error| format!("is no {kind}: {error}"))?;
        if object.get("kind").and_then(Value::as_str) != Some(kind) {
            return Err(format!("is no {kind}"));
        }
        let read = Self { object };
        for item in read.items()? {
            let text = |key: &str| item.pointer("/metadata").and_then(|metadata| metadata.get(key)?.as_str());
            let found = (text("namespace"), text("name"));
            let (Some(of), Some(pod)) = found else {
                return Err("has an item without metadata.namespace and metadata.name".to_owned());
            };
            if of != namespace || name.is_some_and(|name| name != pod) {
                return Err(format!("is about {of}/{pod}, which was not asked for"));
            }
            for (container, usage) in containers(item)? {
                for resource in [Resource::Cpu, Resource::Memory] {
                    amount(usage, resource).map_err(|found| {
                        format!(
                            "says about container {container} of pod {pod} that its {resource} is {found}"
                        )
                    })?;
                }
            }
        }
        Ok(read)
    }

    fn items(&self) -> Result<&[Value], String> {
        match self.object.get("kind").and_then(Value::as_str) {
            Some("PodMetrics") => Ok(std::slice::from_ref(&self.object)),
            _ => match self.object.get("items") {
                Some(Value::Array(items)) => Ok(items),
                // How Go writes a list that was never filled.
                Some(Value::Null) => Ok(&[]),
                _ => Err("has no `items`".to_owned()),
            },
        }
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = Pod<'_>> {
        self.items()
            .unwrap_or_default()
            .iter()
            .filter_map(|item| Some(Pod { name: item.pointer("/metadata/name")?.as_str()?, item }))
    }

    /// Replaces the usage of a resource of each container by what `change` makes of it; `None` leaves it.
    pub(super) fn change(
        &mut self,
        resource: Resource,
        mut change: impl FnMut(&str, i128) -> Result<Option<i128>, String>,
    ) -> Result<(), String> {
        let items = if self.object.get("kind").and_then(Value::as_str) == Some("PodMetrics") {
            std::slice::from_mut(&mut self.object)
        } else {
            self.object
                .get_mut("items")
                .and_then(Value::as_array_mut)
                .map(Vec::as_mut_slice)
                .unwrap_or_default()
        };
        let format = if resource == Resource::Cpu { Format::DecimalSi } else { Format::BinarySi };
        for container in
            items.iter_mut().filter_map(|item| item.get_mut("containers")?.as_array_mut()).flatten()
        {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let Some(usage) = container.get_mut("usage").and_then(|usage| usage.get_mut(resource.name()))
            else {
                continue;
            };
            let Some(nanos) = usage.as_str().and_then(|text| Quantity::parse(text).ok()).map(|q| q.nanos())
            else {
                continue;
            };
            if let Some(changed) = change(&name, nanos)? {
                *usage = Value::String(Quantity::from_nanos(changed, format).to_string());
            }
        }
        Ok(())
    }

    pub(super) const fn object(&self) -> &Value {
        &self.object
    }
}

impl Pod<'_> {
    /// The sum over its containers, in nano-units; nothing unless each one says.
    pub(super) fn usage(&self, resource: Resource) -> Option<i128> {
        let all = containers(self.item).ok()?;
        if all.is_empty() {
            return None;
        }
        all.iter().try_fold(0_i128, |sum, (_, usage)| sum.checked_add(amount(usage, resource).ok()??))
    }

    /// The end of the time that the usage is of, and that time's length in seconds.
    pub(super) fn time(&self) -> (Option<&str>, Option<i64>) {
        let text = |key: &str| self.item.get(key).and_then(Value::as_str);
        let window = text("window").and_then(go_duration).map(|window| window.as_secs_f64().round());
        #[expect(clippy::cast_possible_truncation, reason = "a whole number within bounds")]
        let window = window.filter(|seconds| (1.0..1e9).contains(seconds)).map(|seconds| seconds as i64);
        (text("timestamp"), window)
    }
}

/// The names and usages of an item's containers.
fn containers(item: &Value) -> Result<Vec<(&str, &Value)>, String> {
    let containers = match item.get("containers") {
        Some(Value::Array(containers)) => containers.as_slice(),
        None | Some(Value::Null) => &[],
        Some(_) => return Err("has containers that are no list".to_owned()),
    };
    let mut all = Vec::with_capacity(containers.len());
    for container in containers {
        all.push((
            container.get("name").and_then(Value::as_str).ok_or("has a container without a name")?,
            container.get("usage").unwrap_or(&Value::Null),
        ));
    }
    Ok(all)
}

/// An amount in nano-units; `None` if there is none, and what stands there if it is none that can be.
fn amount(usage: &Value, resource: Resource) -> Result<Option<i128>, String> {
    let Some(found) = usage.get(resource.name()) else { return Ok(None) };
    let read = found.as_str().and_then(|text| Quantity::parse(text).ok());
    match read {
        Some(quantity) if !quantity.is_negative() => Ok(Some(quantity.nanos())),
        _ => Err(found.to_string().chars().take(40).collect()),
    }
}
