//! What is saved: what pods would request if nothing had been lowered, what they request, and what they really use, by
//! workload and by namespace.
//!
//! Pods that have ended count nothing. A pod of which a resource was not measured has no usage of it; sums say of how many
//! pods each resource was.

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

/// Of how many pods the use of each resource is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Of CPU.
    pub cpu: u64,
    /// Of memory.
    pub memory: u64,
}

impl Measured {
    /// Of how many pods everything is known.
    pub fn both(&self) -> u64 {
        self.cpu.min(self.memory)
    }
}

/// What a pod uses, in nano-units, of what was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// CPU, in nano-cores.
    pub cpu: Option<i128>,
    /// Memory, in nano-bytes.
    pub memory: Option<i128>,
}

/// What a number of pods have together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// How many pods these are.
    pub pods: u64,
    /// How many of them have a request that was lowered.
    pub lowered: u64,
    /// How many of them were measured, by resource.
    pub measured: Measured,
    /// What they would request if nothing had been lowered, as the scheduler counts it.
    pub before: Figures,
    /// What they request, as the scheduler counts it.
    pub now: Figures,
    /// What those use that were measured; of a resource of which none was, nothing: see [`used`](Self::used).
    pub used: Figures,
    /// What those that were measured request, by resource: what `used` is to be compared with.
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

    /// What is used, as far as anything was measured.
    pub fn used(&self) -> Used {
        self.of_measured(self.used)
    }

    /// What the measured pods request, as far as there are any.
    pub fn now_of_measured(&self) -> Used {
        self.of_measured(self.now_of_measured)
    }

    fn of_measured(&self, figures: Figures) -> Used {
        Used {
            cpu: (self.measured.cpu > 0).then_some(figures.cpu),
            memory: (self.measured.memory > 0).then_some(figures.memory),
        }
    }

    /// Adds what other pods have.
    pub fn add(&mut self, other: &Self) {
        self.pods += other.pods;
        self.lowered += other.lowered;
        self.measured.cpu += other.measured.cpu;
        self.measured.memory += other.measured.memory;
        self.before += other.before;
        self.now += other.now;
        self.used += other.used;
        self.now_of_measured += other.now_of_measured;
    }
}

/// What pods were measured to use, by namespace and name.
#[derive(Clone, Debug, Default)]
pub struct Usage(HashMap<Arc<str>, HashMap<Arc<str>, Used>>);

impl Usage {
    /// Adds what a container uses, in cores and bytes; what is absent, negative or no number was not measured.
    pub fn add(&mut self, namespace: &str, pod: &str, cpu: Option<f64>, memory: Option<f64>) {
        let (cpu, memory) = (nanos(cpu), nanos(memory));
        if cpu.is_none() && memory.is_none() {
            return;
        }
        if !self.0.contains_key(namespace) {
            self.0.insert(namespace.into(), HashMap::new());
        }
        let Some(pods) = self.0.get_mut(namespace) else { return };
        if !pods.contains_key(pod) {
            pods.insert(pod.into(), Used::default());
        }
        let Some(used) = pods.get_mut(pod) else { return };
        let add = |sum: &mut Option<i128>, more: Option<i128>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        };
        add(&mut used.cpu, cpu);
        add(&mut used.memory, memory);
    }

    /// What a pod uses, of what was measured.
    pub fn of(&self, namespace: &str, pod: &str) -> Used {
        self.0.get(namespace).and_then(|pods| pods.get(pod)).copied().unwrap_or_default()
    }

    /// How many pods were measured.
    pub fn len(&self) -> usize {
        self.0.values().map(HashMap::len).sum()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn nanos(units: Option<f64>) -> Option<i128> {
    units.filter(|units| units.is_finite() && *units >= 0.0).map(|units| (units * 1e9) as i128)
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
            let used = usage.of(&pod.workload.namespace, &pod.name);
            if let Some(cpu) = used.cpu {
                (one.measured.cpu, one.used.cpu, one.now_of_measured.cpu) = (1, cpu, pod.now.cpu);
            }
            if let Some(memory) = used.memory {
                (one.measured.memory, one.used.memory, one.now_of_measured.memory) =
                    (1, memory, pod.now.memory);
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
