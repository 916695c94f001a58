//! Why a pod stays.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::balance::quota::Shortage;

/// Why a pod of the source is not evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spared {
    /// Nobody would make it again.
    NotControlled,
    /// A daemon set's: it would come back to this node.
    DaemonSet,
    /// The copy of a static pod.
    Mirror,
    /// A static pod: the node itself runs it.
    Static,
    /// A job's: an eviction would count as a failure, or lose its work.
    Job,
    /// It ends already.
    Terminating,
    /// It has finished, and uses nothing.
    Terminal,
    /// Of the system: its priority.
    Critical(i32),
    /// Its namespace is excluded.
    Namespace,
    /// It has this annotation.
    Annotation(&'static str),
    /// Data in this volume would be lost.
    LocalStorage(String),
    /// It has been here for so many seconds only.
    TooYoung(i64),
    /// Its owner has too few ready pods.
    FewReplicas {
        /// So many are.
        ready: u32,
        /// More than so many must be.
        min: u32,
    },
    /// Other pods of its workload are not as they should be.
    Unsettled(Unsettled),
    /// A pod of its workload was evicted lately.
    Cooldown(Pause),
    /// The quota tree would refuse its replacement.
    Quota(Shortage),
    /// Nobody knows what it uses.
    UsageUnknown,
    /// It uses next to nothing: the node would stay as it is.
    UsesNothing,
    /// Its selector or required affinity allows no other node.
    BoundToNode,
    /// A volume of it is on this node: the claim.
    LocalVolume(String),
    /// It is not known where this claim's volume can be used.
    VolumeUnknown {
        /// The claim.
        claim: String,
        /// Why.
        why: String,
    },
    /// This claim was not read yet.
    VolumeNotRead(String),
    /// It fits on none of the targets: how many of them are out of the question why.
    NoTarget(BTreeMap<Misfit, usize>),
}

/// How many pods of a workload are not as they should be: each counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsettled {
    /// Have no node.
    pub pending: u32,
    /// Are on a node and not ready.
    pub not_ready: u32,
    /// Are being deleted.
    pub terminating: u32,
}

/// For how long a workload must be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// So many seconds are left.
    pub left: i64,
    /// So often a pod of it came back to the node that it had left; each time doubles the pause.
    pub returns: u32,
}

/// Why a pod cannot go to a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misfit {
    /// Its selector or required affinity does not allow it.
    Affinity,
    /// It does not tolerate the taint of this key.
    Taint(String),
    /// The node has too little of this resource.
    Requests(Arc<str>),
    /// The host port is taken.
    HostPort,
    /// A volume of it cannot be used there.
    Volume,
    /// A pod there keeps it away, or it keeps away from one.
    AntiAffinity,
    /// Pods that it must be with are not there.
    PodAffinity,
    /// Its pods would be spread too unevenly.
    Spread,
    /// It asks for a device that is claimed: nobody can tell.
    Device,
    /// Nobody knows how much the node has.
    Capacity,
    /// The node would be the busiest then, or too busy itself.
    Maximum,
}

impl Spared {
    /// Every name of a reason.
    pub const NAMES: [&'static str; 23] = [
        "not_controlled",
        "daemon_set",
        "mirror",
        "static",
        "job",
        "terminating",
        "terminal",
        "critical",
        "namespace",
        "annotation",
        "local_storage",
        "too_young",
        "few_replicas",
        "unsettled",
        "cooldown",
        "quota",
        "usage_unknown",
        "uses_nothing",
        "bound_to_node",
        "local_volume",
        "volume_unknown",
        "volume_not_read",
        "no_target",
    ];

    /// One word, for metrics and JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotControlled => "not_controlled",
            Self::DaemonSet => "daemon_set",
            Self::Mirror => "mirror",
            Self::Static => "static",
            Self::Job => "job",
            Self::Terminating => "terminating",
            Self::Terminal => "terminal",
            Self::Critical(_) => "critical",
            Self::Namespace => "namespace",
            Self::Annotation(_) => "annotation",
            Self::LocalStorage(_) => "local_storage",
            Self::TooYoung(_) => "too_young",
            Self::FewReplicas { .. } => "few_replicas",
            Self::Unsettled(_) => "unsettled",
            Self::Cooldown(_) => "cooldown",
            Self::Quota(_) => "quota",
            Self::UsageUnknown => "usage_unknown",
            Self::UsesNothing => "uses_nothing",
            Self::BoundToNode => "bound_to_node",
            Self::LocalVolume(_) => "local_volume",
            Self::VolumeUnknown { .. } => "volume_unknown",
            Self::VolumeNotRead(_) => "volume_not_read",
            Self::NoTarget(_) => "no_target",
        }
    }
}

impl fmt::Display for Spared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotControlled => f.write_str("it has no controller that would make it again"),
            Self::DaemonSet => f.write_str("it is a DaemonSet's and would come back to this node"),
            Self::Mirror => f.write_str("it is the mirror of a static pod"),
            Self::Static => f.write_str("it is a static pod"),
            Self::Job => f.write_str("it is a Job's: an eviction would count as a failure, or lose its work"),
            Self::Terminating => f.write_str("it is being deleted"),
            Self::Terminal => f.write_str("it has finished"),
            Self::Critical(priority) => write!(f, "it is critical for the system (priority {priority})"),
            Self::Namespace => f.write_str("its namespace is excluded"),
            Self::Annotation(key) => write!(f, "its annotation {key} says so"),
            Self::LocalStorage(volume) => {
                write!(f, "its volume {volume:?} is on the node, and what is in it would be lost")
            }
            Self::TooYoung(age) => write!(f, "it has been on the node for {age} s only"),
            Self::FewReplicas { ready, min } => {
                write!(f, "its owner has {ready} ready, and must have more than {min}")
            }
            Self::Unsettled(others) => {
                let Unsettled { pending, not_ready, terminating } = others;
                write!(
                    f,
                    "of the other pods of its workload {pending} are pending, {not_ready} not ready and {terminating} being deleted"
                )
            }
            Self::Cooldown(Pause { left, returns: 0 }) => {
                write!(f, "a pod of its workload was evicted lately; {left} s must pass yet")
            }
            Self::Cooldown(Pause { left, returns }) => write!(
                f,
                "a pod of its workload was evicted lately, and {returns} came back to the node that they had left; {left} s must pass yet"
            ),
            Self::Quota(shortage) => shortage.fmt(f),
            Self::UsageUnknown => f.write_str("it is not known what it uses"),
            Self::UsesNothing => f.write_str("it uses so little that the node would stay as busy as it is"),
            Self::BoundToNode => f.write_str("its node selector or required affinity allows no other node"),
            Self::LocalVolume(claim) => write!(f, "the volume of its claim {claim:?} is on this node only"),
            Self::VolumeUnknown { claim, why } => {
                write!(f, "it is not known where the volume of its claim {claim:?} can be used: {why}")
            }
            Self::VolumeNotRead(claim) => {
                write!(f, "its claim {claim:?} was not read in this round")
            }
            Self::NoTarget(misfits) => {
                f.write_str("it fits on none of the nodes that have room")?;
                for (index, (misfit, count)) in misfits.iter().enumerate() {
                    let before = if index == 0 { ": " } else { ", " };
                    write!(f, "{before}{count} {misfit}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Affinity => f.write_str("by selector or affinity"),
            Self::Taint(key) => write!(f, "by the taint {key}"),
            Self::Requests(resource) => write!(f, "without room for its {resource}"),
            Self::HostPort => f.write_str("by a host port"),
            Self::Volume => f.write_str("out of reach of its volume"),
            Self::AntiAffinity => f.write_str("by pod anti-affinity"),
            Self::PodAffinity => f.write_str("without the pods that it must be with"),
            Self::Spread => f.write_str("by topology spread"),
            Self::Device => f.write_str("by a resource claim"),
            Self::Capacity => f.write_str("of unknown capacity"),
            Self::Maximum => f.write_str("that it would make too busy"),
        }
    }
}
