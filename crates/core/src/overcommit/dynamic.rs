//! Which recommendation holds for a container, and what it gives.

use jiff::Timestamp;
use plimsoll_quantity::{Quantity, Ratio, Rounding, scale};

use crate::objects::{ContainerRecommendation, Objects, Recommendation};
use crate::pod::Workload;
use crate::profile::{DynamicPolicy, Granularity, Profile};
use crate::resource::Resource;

/// Finds recommendations for the containers of one pod.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// Where they are.
    pub objects: &'a Objects,
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod's name; empty where it has none yet.
    pub pod_name: &'a str,
    /// Its topmost owner.
    pub workload: &'a Workload,
    /// The time at which recommendations must be fresh.
    pub now: Timestamp,
}

/// A usable recommendation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recommended {
    /// Name of the `Recommendation`.
    pub name: String,
    /// The model's target.
    pub target: Quantity,
    /// Target x expansion + margin in nano-units, up to whole nano-units.
    pub expanded: i128,
}

impl Lookup<'_> {
    /// The recommendation for a container and resource, or why there is none that can be used: the
    /// pod's own (at granularity Pod), else its workload's, else its namespace's.
    ///
    /// # Errors
    /// Why the best one found cannot be used.
    pub fn find(
        &self,
        profile: &Profile,
        container: &str,
        resource: Resource,
    ) -> Result<Recommended, &'static str> {
        let mut why = "there is none";
        for level in [Level::Pod, Level::Workload, Level::Namespace] {
            if level == Level::Pod
                && (profile.dynamic.granularity != Granularity::Pod || self.pod_name.is_empty())
            {
                continue;
            }
            let (kind, name) = match level {
                Level::Pod | Level::Workload => (self.workload.kind.as_str(), self.workload.name.as_str()),
                Level::Namespace => ("Namespace", self.namespace),
            };
            for recommendation in self.objects.recommendations(self.namespace, kind, name) {
                if !self.is_about(level, recommendation) {
                    continue;
                }
                if recommendation.profile != profile.name {
                    why = "it was made for another profile";
                    continue;
                }
                match usable(recommendation, &profile.dynamic, container, resource, self.now) {
                    Ok(found) => return Ok(found),
                    Err(reason) => why = reason,
                }
            }
        }
        Err(why)
    }

    /// Whether a recommendation of the right kind and name is about this pod at this level.
    fn is_about(&self, level: Level, recommendation: &Recommendation) -> bool {
        let pod = recommendation.pod_name.as_deref();
        match level {
            Level::Pod => recommendation.target.group == self.workload.group && pod == Some(self.pod_name),
            Level::Workload => recommendation.target.group == self.workload.group && pod.is_none(),
            Level::Namespace => pod.is_none(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Pod,
    Workload,
    Namespace,
}

fn usable(
    recommendation: &Recommendation,
    policy: &DynamicPolicy,
    container: &str,
    resource: Resource,
    now: Timestamp,
) -> Result<Recommended, &'static str> {
    let found: &ContainerRecommendation =
        recommendation.containers.get(container).ok_or("it does not have this container")?;
    let target = found.targets.get(&resource).ok_or("it does not have this resource")?;
    let (Some(first), Some(last)) = (found.first_sample, found.last_sample) else {
        return Err("it has no samples");
    };
    if seconds_between(first, last) < policy.minimum_history {
        return Err("its history is too short");
    }
    if now.duration_since(last) >= jiff::SignedDuration::from_secs(policy.maximum_age) {
        return Err("its last sample is too old");
    }
    let expanded = expand(policy, resource, target.nanos()).ok_or("its figures are too large")?;
    Ok(Recommended { name: recommendation.name.clone(), target: target.clone(), expanded })
}

fn seconds_between(first: Timestamp, last: Timestamp) -> i64 {
    last.duration_since(first).as_secs()
}

/// Target x expansion + margin in nano-units, up to whole ones. Rounding up again to a coarser unit
/// gives the same as rounding the exact value once.
pub(super) fn expand(policy: &DynamicPolicy, resource: Resource, target: i128) -> Option<i128> {
    let expansion = policy.expansion.get(&resource).unwrap_or(&Ratio::ONE);
    let margin = policy.margin.get(&resource).map_or(0, Quantity::nanos);
    scale(target, expansion, 1, Rounding::Up)?.checked_add(margin)
}
