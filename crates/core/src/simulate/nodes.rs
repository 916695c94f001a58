//! On how many nodes containers fit by their requests, and how hot these become by what is used.

use std::ops::Range;

use crate::resource::Resource;
use crate::simulate::history::Series;
use crate::simulate::{Each, Units, to_f64};
use crate::usage::SECOND;

/// What containers can request of a node, and use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// In nano-cores.
    pub cpu: Units,
    /// In bytes.
    pub memory: Units,
}

/// The nodes of all periods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nodes {
    /// In the period that needed most.
    pub most: usize,
    /// On average over the periods.
    pub mean: f64,
    /// How often a container requested more than a whole node, and was left out.
    pub unschedulable: u64,
    /// Node-minutes in all.
    pub minutes: f64,
    /// Node-minutes in which usage was above the node's capacity.
    pub hot_minutes: f64,
    /// The node that was used most, in proportion to its capacity.
    pub worst: Option<Worst>,
}

/// A node at its most used time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// Which resource it was.
    pub resource: Resource,
    /// Usage as a share of capacity.
    pub load: f64,
    /// When, in nanoseconds since 1970.
    pub nanos: i64,
    /// For how long usage was above capacity on this node in this period, in minutes.
    pub hot_minutes: f64,
}

/// A container on some node for a period.
#[derive(Clone, Debug)]
pub(super) struct Placed<'a> {
    pub(super) series: &'a Series,
    /// Its rows in the period.
    pub(super) rows: Range<usize>,
    /// What it requests; of a resource without a request, nothing is requested and nothing used.
    pub(super) requests: Each<Option<Units>>,
}

/// First-fit decreasing: the containers in the order of the larger of their shares of a node, each to the first node that
/// has room for both its requests. What comes back are indices of `items` by node, and how many fit on no node.
pub(super) fn pack(node: Node, items: &[Each<Units>]) -> (Vec<Vec<usize>>, u64) {
    let share = |request: Units, of: Units| to_f64(request.into()) / to_f64(of.into());
    let mut order: Vec<(f64, f64, usize, Each<Units>)> = items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            let (cpu, memory) = (share(item.cpu, node.cpu), share(item.memory, node.memory));
            (cpu.max(memory), cpu.min(memory), index, *item)
        })
        .collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
    let mut free: Vec<(Node, Vec<usize>)> = Vec::new();
    let mut too_large = 0;
    for (_, _, index, item) in order {
        let fits = |node: &Node| item.cpu <= node.cpu && item.memory <= node.memory;
        if !fits(&node) {
            too_large += 1;
            continue;
        }
        let at = free.iter().position(|(free, _)| fits(free)).unwrap_or_else(|| {
            free.push((node, Vec::new()));
            free.len() - 1
        });
        if let Some((free, members)) = free.get_mut(at) {
            free.cpu -= item.cpu;
            free.memory -= item.memory;
            members.push(index);
        }
    }
    (free.into_iter().map(|(_, members)| members).collect(), too_large)
}

impl Nodes {
    /// Places the containers of one period that reaches to `end`, and takes in what became of them. The answer is how many
    /// nodes there were.
    pub(super) fn take(&mut self, node: Node, placed: &[Placed<'_>], start: i64, end: i64) -> usize {
        let requests = |placed: &Placed<'_>| {
            Each::from_fn(|resource| placed.requests.get(resource).copied().flatten().unwrap_or(0))
        };
        let items: Vec<_> = placed.iter().map(requests).collect();
        let (nodes, too_large) = pack(node, &items);
        self.unschedulable += too_large;
        self.most = self.most.max(nodes.len());
        self.minutes += minutes(i128::from(end) - i128::from(start)) * to_f64(nodes.len() as i128);
        for members in &nodes {
            let members = members.iter().filter_map(|index| placed.get(*index));
            let (hot, worst) = heat(node, members, end);
            self.hot_minutes += minutes(hot.into());
            if let Some(worst) = worst.filter(|worst| self.worst.is_none_or(|known| worst.load > known.load))
            {
                self.worst = Some(worst);
            }
        }
        nodes.len()
    }
}

fn minutes(nanos: i128) -> f64 {
    to_f64(nanos) / (60.0 * to_f64(SECOND.into()))
}

/// For how many nanoseconds a node's containers used more than it has, and when they used most.
fn heat<'a>(node: Node, members: impl Iterator<Item = &'a Placed<'a>>, end: i64) -> (i64, Option<Worst>) {
    let mut changes: Vec<(i64, Each<Units>)> = Vec::new();
    for placed in members {
        for index in placed.rows.clone() {
            let Some(row) = placed.series.rows().get(index) else { continue };
            let used = |resource| {
                let requested = placed.requests.get(resource).copied().flatten();
                requested.and(row.used(resource)).unwrap_or(0)
            };
            let until = row.nanos.saturating_add(placed.series.duration(index)).min(end);
            let used = Each::from_fn(used);
            changes.push((row.nanos, used));
            changes.push((until, Each { cpu: -used.cpu, memory: -used.memory }));
        }
    }
    changes.sort_unstable_by_key(|(nanos, _)| *nanos);
    let mut used = Each { cpu: 0_i128, memory: 0_i128 };
    let mut hot = 0;
    let mut worst: Option<Worst> = None;
    let mut changes = changes.into_iter().peekable();
    while let Some((nanos, change)) = changes.next() {
        used.cpu += i128::from(change.cpu);
        used.memory += i128::from(change.memory);
        let until = changes.peek().map_or(nanos, |(next, _)| *next);
        if until == nanos {
            continue;
        }
        let cpu = to_f64(used.cpu) / to_f64(node.cpu.into());
        let memory = to_f64(used.memory) / to_f64(node.memory.into());
        if used.cpu > node.cpu.into() || used.memory > node.memory.into() {
            hot += until - nanos;
        }
        let load = cpu.max(memory);
        if worst.is_none_or(|known| load > known.load) {
            let resource = if cpu >= memory { Resource::Cpu } else { Resource::Memory };
            worst = Some(Worst { resource, load, nanos, hot_minutes: 0.0 });
        }
    }
    (hot, worst.map(|worst| Worst { hot_minutes: minutes(hot.into()), ..worst }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_fit_decreasing() {
        let node = Node { cpu: 10, memory: 100 };
        let items = |items: &[(i64, i64)]| -> Vec<_> {
            items.iter().map(|(cpu, memory)| Each { cpu: *cpu, memory: *memory }).collect()
        };
        for (rule, requests, nodes, too_large) in [
            ("nothing", vec![], vec![], 0),
            ("one", vec![(1, 1)], vec![vec![0]], 0),
            ("a whole node", vec![(10, 100), (0, 0)], vec![vec![0, 1]], 0),
            (
                "the largest first, whatever the order",
                vec![(4, 0), (6, 0), (3, 0), (7, 0)],
                vec![vec![3, 2], vec![1, 0]],
                0,
            ),
            // By the larger share: 0.9 of memory, 0.6 of CPU, 0.5 of CPU.
            ("either resource", vec![(5, 5), (1, 90), (6, 5)], vec![vec![1, 2], vec![0]], 0),
            ("memory is full first", vec![(1, 60), (1, 60)], vec![vec![0], vec![1]], 0),
            ("of equal ones the first", vec![(5, 0), (5, 0), (5, 0)], vec![vec![0, 1], vec![2]], 0),
            ("by the smaller share, where the larger is equal", vec![(5, 0), (5, 50)], vec![vec![1, 0]], 0),
            ("more than a node", vec![(11, 0), (1, 101), (1, 1)], vec![vec![2]], 2),
        ] {
            assert_eq!(pack(node, &items(&requests)), (nodes, too_large), "{rule}");
        }
    }
}
