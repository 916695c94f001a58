//! A node as balancing sees it.

use crate::objects::Node;
use crate::placement::{Figures, LoadSettings, NodeLoad, NodeResource, View, units};

/// A node, and how loaded it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BalanceNode<'a> {
    /// What it says of itself.
    pub node: &'a Node,
    /// What was measured of it; `None`: nothing fresh.
    pub load: Option<&'a NodeLoad>,
    /// What pods are expected to use, and its load does not show yet: cores and bytes.
    pub unseen: Figures,
    /// Whether so much was bound to it lately that it has a hot-spot penalty.
    pub hot_spot: bool,
}

impl<'a> BalanceNode<'a> {
    /// All nodes, in no order. In a flood the hot-spot window is the wider one.
    pub fn all(view: &View<'a>) -> Vec<Self> {
        let settings = &view.settings.load;
        let window = view.hot_spot_window(view.flood());
        let of = |node: &'a Node| {
            let load = view.load.fresh(&node.name, view.now, settings);
            let unseen = load
                .zip(view.placed.on(&node.name))
                .map_or_else(Figures::default, |(load, pods)| pods.unseen(load.sampled, settings));
            let bindings = view.bindings(&node.name, window);
            Self { node, load, unseen, hot_spot: view.settings.hot_spot.cost(bindings) > 0.0 }
        };
        view.objects.nodes().map(|node| of(node)).collect()
    }

    pub(super) fn name(&self) -> &'a str {
        &self.node.name
    }

    /// Whether pods may be moved from and to it, as far as its state goes.
    pub(super) fn takes_part(&self) -> bool {
        self.node.takes_pods()
    }

    /// Whether anything that counts was measured of it.
    pub(super) fn is_fresh(&self, settings: &LoadSettings) -> bool {
        self.load.is_some_and(|load| {
            let counts = |weight: f64| weight.is_finite() && weight > 0.0;
            settings
                .metrics
                .iter()
                .any(|(metric, weight)| counts(*weight) && load.usage(*metric, settings).is_some())
        })
    }

    pub(super) fn label(&self, key: &str) -> Option<&'a str> {
        self.node.labels.get(key).map(String::as_str)
    }

    /// The cores and bytes that it has, as it says, else as who measured it does; `None` if nobody does.
    pub(super) fn capacity(&self) -> Option<Figures> {
        let of = |resource: NodeResource| {
            let said = self.node.capacity.get(resource.name()).map(units);
            let told = || self.load?.totals.get(resource);
            said.or_else(told).filter(|all| all.is_finite() && *all > 0.0)
        };
        Some(Figures { cpu: of(NodeResource::Cpu)?, memory: of(NodeResource::Memory)? })
    }

    /// What a pod, or what is unseen, is of the node's CPU and memory. 0 where the node does not say how much it has.
    pub(super) fn shares(&self, uses: Figures) -> Figures {
        let of = |uses: f64, all: f64| if all > 0.0 { (uses / all).clamp(0.0, 1.0) } else { 0.0 };
        self.capacity().map_or_else(Figures::default, |all| Figures {
            cpu: of(uses.cpu, all.cpu),
            memory: of(uses.memory, all.memory),
        })
    }
}
