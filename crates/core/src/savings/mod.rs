//! What is saved: what pods would request if nothing had been lowered, what they request, and what they really use, by
//! workload and by namespace.
//!
//! Pods that have ended count nothing. A pod that was not measured has no usage; sums say how many of their pods were.

mod pod;

use std::collections::{BTreeMap, HashMap};
use std::ops::{Add, AddAssign};
use std::sync::Arc;

pub use self::pod::SavingsPod;
use crate::placement::WorkloadKey;

/// CPU and memory in nano-units: of a core, and of a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// CPU, in nano-cores.
    pub cpu: i128,
    /// Memory, in nano-bytes.
    pub memory: i128,
}

impl Add for Figures {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { cpu: self.cpu.saturating_add(other.cpu), memory: self.memory.saturating_add(other.memory) }
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// What a number of pods have together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// How many pods these are.
    pub pods: u64,
    /// How many of them have a request that was lowered.
    pub lowered: u64,
    /// How many of them were measured.
    pub measured: u64,
    /// What they would request if nothing had been lowered, as the scheduler counts it.
    pub before: Figures,
    /// What they request, as the scheduler counts it.
    pub now: Figures,
    /// What those that were measured use.
    pub used: Figures,
    /// What those that were measured request: what [`used`](Self::used) is to be compared with.
    pub now_of_measured: Figures,
}

impl Row {
    /// What is no longer set aside.
    pub fn saved(&self) -> Figures {
        Figures {
            cpu: self.before.cpu.saturating_sub(self.now.cpu),
            memory: self.before.memory.saturating_sub(self.now.memory),
        }
    }

    /// Adds what other pods have.
    pub fn add(&mut self, other: &Self) {
        self.pods += other.pods;
        self.lowered += other.lowered;
        self.measured += other.measured;
        self.before += other.before;
        self.now += other.now;
        self.used += other.used;
        self.now_of_measured += other.now_of_measured;
    }
}

/// What pods were measured to use, by namespace and name.
#[derive(Clone, Debug, Default)]
pub struct Usage(HashMap<(Arc<str>, Arc<str>), Figures>);

impl Usage {
    /// Adds what a container uses, in cores and bytes; what is negative or no number counts nothing.
    pub fn add(&mut self, namespace: &str, pod: &str, cpu: Option<f64>, memory: Option<f64>) {
        let used = Figures { cpu: nanos(cpu), memory: nanos(memory) };
        *self.0.entry((namespace.into(), pod.into())).or_default() += used;
    }

    /// What a pod uses, if it was measured.
    pub fn of(&self, namespace: &Arc<str>, pod: &Arc<str>) -> Option<Figures> {
        self.0.get(&(Arc::clone(namespace), Arc::clone(pod))).copied()
    }

    /// How many pods were measured.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and NaN becomes 0")]
fn nanos(units: Option<f64>) -> i128 {
    (units.unwrap_or(0.0).max(0.0) * 1e9) as i128
}

/// What is saved, by workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Savings {
    /// By workload, in the order of namespaces.
    pub workloads: BTreeMap<WorkloadKey, Row>,
}

impl Savings {
    /// Folds pods, and what they use.
    pub fn of<'a>(pods: impl IntoIterator<Item = &'a SavingsPod>, usage: &Usage) -> Self {
        let mut workloads: BTreeMap<WorkloadKey, Row> = BTreeMap::new();
        for pod in pods {
            let mut one = Row {
                pods: 1,
                lowered: pod.lowered.into(),
                before: pod.before,
                now: pod.now,
                ..Row::default()
            };
            if let Some(used) = usage.of(&pod.workload.namespace, &pod.name) {
                one.measured = 1;
                one.used = used;
                one.now_of_measured = pod.now;
            }
            workloads.entry(pod.workload.clone()).or_default().add(&one);
        }
        Self { workloads }
    }

    /// All of it together.
    pub fn total(&self) -> Row {
        self.workloads.values().fold(Row::default(), |mut sum, row| {
            sum.add(row);
            sum
        })
    }

    /// By namespace, in the order of names.
    pub fn namespaces(&self) -> BTreeMap<Arc<str>, Row> {
        let mut found: BTreeMap<Arc<str>, Row> = BTreeMap::new();
        for (key, row) in &self.workloads {
            found.entry(Arc::clone(&key.namespace)).or_default().add(row);
        }
        found
    }
}

#[cfg(test)]
mod tests;
