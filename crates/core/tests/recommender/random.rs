//! Random histories: against the definition, and against restarts.

use std::collections::BTreeMap;

use plimsoll_core::recommender::{Key, ResourceStatus, Stored};
use plimsoll_core::resource::Resource;
use plimsoll_core::usage::{Aggregate, EPSILON, Model, buckets, stated};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::reference::{Exact, Samples, percentile};
use crate::support::{
    HOUR, MINUTE, Pod, World, close, db, db_key, dynamic, options, total_of, totals, web, web_key,
};

const PODS: [&str; 4] = ["web-a-x", "web-a-y", "db-0", "db-1"];

fn pod(name: &str) -> Pod {
    match name {
        "web-a-x" => web("a", "x"),
        "web-a-y" => web("a", "y"),
        "db-0" => db(0),
        _ => db(1),
    }
}

#[derive(Clone, Debug)]
enum Event {
    /// What each pod used, where it was measured.
    Scan([Option<(f64, f64)>; 4]),
    /// One of them was killed just now.
    Kill(usize),
    /// One of them was deleted and made anew.
    Anew(usize),
    /// The process ended, and another began.
    Restart,
    /// All is written.
    Save,
}

fn event() -> impl Strategy<Value = Event> {
    let usage = prop::option::weighted(
        0.8,
        (prop_oneof![0.0..0.1, 0.0..16.0_f64], prop_oneof![0.0..1e8, 0.0..1e10_f64]),
    );
    prop_oneof![
        8 => prop::array::uniform4(usage).prop_map(Event::Scan),
        1 => (0_usize..4).prop_map(Event::Kill),
        1 => (0_usize..4).prop_map(Event::Anew),
        2 => Just(Event::Restart),
        2 => Just(Event::Save),
    ]
}

fn history() -> impl Strategy<Value = Vec<(i64, Event)>> {
    prop::collection::vec((1_i64..240, event()), 1..60)
}

fn policy() -> impl Strategy<Value = Value> {
    (prop_oneof![Just("PerScan"), Just("PeakPerInterval")], prop_oneof![Just("1h"), Just("24h"), Just("168h")])
        .prop_map(|(samples, half_life)| {
            json!({"memorySamples": samples, "halfLife": {"cpu": half_life, "memory": "24h"}, "minimumHistory": "0s"})
        })
}

/// What has happened to the cluster, whoever looks at it.
#[derive(Debug)]
struct Cluster {
    kills: BTreeMap<&'static str, i64>,
    births: usize,
}

impl Cluster {
    fn pod(&self, name: &str) -> Pod {
        let pod = pod(name);
        match self.kills.get(name) {
            Some(at) => pod.killed("app", "lastState", *at),
            None => pod,
        }
    }

    /// Lets one event happen in the eyes of a process.
    fn show(&mut self, world: &mut World, event: &Event) {
        match event {
            Event::Scan(usage) => {
                let all = PODS.iter().zip(usage);
                let measured: Vec<_> =
                    all.filter_map(|(name, usage)| usage.map(|(cpu, memory)| (*name, cpu, memory))).collect();
                world.scan(&measured);
            }
            Event::Kill(index) => {
                self.kills.insert(PODS[*index], world.now - 1);
                world.put(self.pod(PODS[*index]));
                world.scan(&[]);
            }
            Event::Anew(index) => {
                self.kills.remove(PODS[*index]);
                self.births += 1;
                let uid = format!("uid-{}", self.births);
                world.remove(PODS[*index]);
                world.put(pod(PODS[*index]).set("/metadata/uid", uid.into()));
                world.scan(&[]);
            }
            Event::Restart | Event::Save => {}
        }
    }
}

fn begin(policy: &Value) -> (World, Cluster) {
    let mut world = World::new(&[dynamic("p", policy)]);
    world.put_all(PODS.map(pod));
    world.assign();
    (world, Cluster { kills: BTreeMap::new(), births: 0 })
}

fn half_life(policy: &Value) -> i64 {
    match policy["halfLife"]["cpu"].as_str().unwrap() {
        "1h" => HOUR,
        "24h" => 24 * HOUR,
        _ => 168 * HOUR,
    }
}

fn check(
    rule: &str,
    found: Option<&ResourceStatus>,
    resource: Resource,
    samples: &Samples,
    (half_life, now): (i64, i64),
) -> Result<f64, TestCaseError> {
    let (scheme, share) = match resource {
        Resource::Cpu => (&*buckets::CPU, 0.95),
        _ => (&*buckets::MEMORY, 0.99),
    };
    let Some(found) = found else {
        prop_assert!(samples.is_empty(), "{}: there is nothing of {:?}", rule, samples);
        return Ok(0.0);
    };
    for (figure, p) in [(&found.target, share), (&found.lower, 0.5)] {
        let (_, answers) = percentile(samples, scheme, half_life, now, p);
        // On a boundary there are two answers; a bucket of next to no weight may lie between them.
        let stated: Vec<i128> = answers
            .iter()
            .filter_map(|answer| stated(resource, *answer))
            .map(|answer| answer.nanos())
            .collect();
        let (least, most) = (stated.iter().min(), stated.iter().max());
        let right = least <= Some(&figure.nanos()) && Some(&figure.nanos()) <= most && least.is_some();
        prop_assert!(right, "{}: P{} is {}, by definition {:?}", rule, p, figure, answers);
    }
    Ok(percentile(samples, scheme, half_life, now, 0.5).0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn figures_are_those_of_the_definition(policy in policy(), history in history()) {
        let (mut world, mut cluster) = begin(&policy);
        let mut exact: BTreeMap<&str, Exact> = BTreeMap::new();
        for (minutes, event) in &history {
            world.now += minutes * MINUTE;
            cluster.show(&mut world, event);
            let now = world.now;
            match event {
                Event::Scan(usage) => for (name, usage) in PODS.iter().zip(usage) {
                    let Some((cpu, memory)) = usage else { continue };
                    exact.entry(name).or_default().sample(now, *cpu, *memory, 1.0);
                },
                Event::Kill(index) => exact.entry(PODS[*index]).or_default().kill(now - 1, 1_073_741_824.0),
                _ => {}
            }
        }
        let peaks = policy["memorySamples"] == "PeakPerInterval";
        for (key, pods) in [(web_key(), [0, 1]), (db_key(), [2, 3])] {
            let of = |samples: &dyn Fn(&Exact) -> Samples| -> Vec<_> {
                pods.iter().filter_map(|index| exact.get(PODS[*index])).flat_map(samples).collect()
            };
            let (cpu, memory) = (of(&Exact::cpu_samples), of(&|exact: &Exact| exact.memory_samples(peaks)));
            let app = world.app(&key);
            let name = &key.workload.name;
            let times = (half_life(&policy), world.now);
            let cpu = check(name, app.cpu.as_ref(), Resource::Cpu, &cpu, times)?;
            let memory = check(name, app.memory.as_ref(), Resource::Memory, &memory, (24 * HOUR, world.now))?;
            if let Some(stored) = world.recommender.checkpoint(&key) {
                let found = totals(&stored, "app", world.now);
                prop_assert!(close(found.0, cpu) || cpu < 1e-30, "{:?} {}", found, cpu);
                prop_assert!((found.1 - memory).abs() < 1e-6 * memory, "{:?} {}", found, memory);
            }
        }
    }

    #[test]
    fn restarts_change_nothing(policy in policy(), granularity in prop_oneof![Just("Workload"), Just("Pod"), Just("Namespace")], history in history()) {
        let mut policy = policy;
        policy["granularity"] = granularity.into();
        let (mut steady, mut cluster) = begin(&policy);
        let (mut other, mut same_cluster) = begin(&policy);
        for (minutes, event) in &history {
            steady.now += minutes * MINUTE;
            other.now = steady.now;
            cluster.show(&mut steady, event);
            same_cluster.show(&mut other, event);
            if matches!(event, Event::Restart) {
                other = other.restarted();
                // The source and the statuses repeat themselves.
                let now = other.now;
                if let Some((_, Event::Scan(usage))) = history.iter().find(|(_, event)| matches!(event, Event::Scan(_))) {
                    for (name, usage) in PODS.iter().zip(usage) {
                        let Some((cpu, memory)) = usage else { continue };
                        let last = other.desired().into_iter().flat_map(|desired| desired.status.containers)
                            .filter_map(|container| container.last_sample).min();
                        if let Some(last) = last {
                            other.sample(name, "app", plimsoll_core::usage::nanos_of(last), Some(*cpu), Some(*memory));
                        }
                    }
                }
                other.recommender.take_kills(now);
            }
        }
        let (a, b) = (steady.desired(), other.desired());
        prop_assert_eq!(a.len(), b.len());
        for (a, b) in a.iter().zip(&b) {
            prop_assert_eq!((&a.key, &a.pod), (&b.key, &b.pod));
            let (key, pod) = (a.key.clone(), a.pod.clone());
            let model = Model::from_policy(&a.profile.dynamic).unwrap();
            for (a, b) in a.status.containers.iter().zip(&b.status.containers) {
                prop_assert_eq!((a.samples, a.first_sample, a.last_sample), (b.samples, b.first_sample, b.last_sample));
                let Some(stored) = steady.recommender.checkpoint(&key) else { continue };
                let stored = stored.containers.iter().find(|found| found.pod == pod && found.container == a.name);
                let Some(stored) = stored else { continue };
                let aggregate = stored.checkpoint.load(&model).unwrap();
                near(&aggregate, Resource::Cpu, a.cpu.as_ref(), b.cpu.as_ref())?;
                near(&aggregate, Resource::Memory, a.memory.as_ref(), b.memory.as_ref())?;
            }
        }
        for stored in steady.saved() {
            let again = other.recommender.checkpoint(&stored.key).unwrap();
            let (a, b) = (totals(&stored, "app", steady.now), totals(&again, "app", steady.now));
            prop_assert!((a.0 - b.0).abs() <= 1e-3 * a.0 && (a.1 - b.1).abs() <= 1e-3 * a.1, "{:?} {:?}", a, b);
        }
    }

    #[test]
    fn a_leader_may_end_at_any_point(samples in prop_oneof![Just("PerScan"), Just("PeakPerInterval")], history in history()) {
        let policy = json!({"memorySamples": samples, "halfLife": {"cpu": "100d", "memory": "100d"}});
        let (mut steady, mut cluster) = begin(&policy);
        let (mut other, mut same_cluster) = begin(&policy);
        let mut saved: BTreeMap<Key, Stored> = BTreeMap::new();
        let mut killed = [false; 4];
        for (minutes, event) in &history {
            steady.now += minutes * MINUTE;
            other.now = steady.now;
            if let Event::Kill(index) = event && std::mem::replace(&mut killed[*index], true) {
                continue;
            }
            cluster.show(&mut steady, event);
            same_cluster.show(&mut other, event);
            match event {
                Event::Save => {
                    for key in other.recommender.checkpoints_due() {
                        if let Some(stored) = other.recommender.checkpoint(&key) {
                            saved.insert((*key).clone(), stored);
                            other.recommender.checkpoint_written(&key, other.now);
                        }
                    }
                }
                Event::Restart => {
                    let all: Vec<_> = saved.values().cloned().collect();
                    let (next, refused) = other.successor(options(), &all);
                    prop_assert_eq!(refused, vec![]);
                    other = next;
                    other.recommender.take_kills(other.now);
                }
                _ => {}
            }
        }
        for key in [web_key(), db_key()] {
            if other.recommender.checkpoint(&key).is_none() {
                continue;
            }
            let (most, found) = (total_of(&steady, &key, "app"), total_of(&other, &key, "app"));
            prop_assert!(found.0 <= most.0 * 1.001 && found.1 <= most.1 * 1.02 + 1e-6, "{:?} at most {:?}", found, most);
        }
    }
}

/// Within one bucket, or within what a share of 0.3 % more or less would give: a checkpoint holds weights to four
/// digits, and a few samples may lie far apart.
fn near(
    aggregate: &Aggregate,
    resource: Resource,
    a: Option<&ResourceStatus>,
    b: Option<&ResourceStatus>,
) -> Result<(), TestCaseError> {
    let (scheme, share) = match resource {
        Resource::Cpu => (&*buckets::CPU, 0.95),
        _ => (&*buckets::MEMORY, 0.99),
    };
    prop_assert_eq!(a.is_some(), b.is_some());
    let (Some(a), Some(b)) = (a, b) else { return Ok(()) };
    for (a, b, p) in [(&a.target, &b.target, share), (&a.lower, &b.lower, 0.5)] {
        let units = |quantity: &plimsoll_quantity::Quantity| quantity.nanos() as f64 / 1e9;
        let around = |p| aggregate.histogram(resource).unwrap().percentile(scheme, p, EPSILON).unwrap();
        let between = units(b) >= around(p - 3e-3)
            && units(b) <= around(p + 3e-3) + if resource == Resource::Cpu { 1e-3 } else { 1.0 };
        prop_assert!(
            between || scheme.find(units(a)).abs_diff(scheme.find(units(b))) <= 1,
            "{} P{}: {} {}",
            resource,
            p,
            a,
            b
        );
    }
    Ok(())
}
