//! Nodes that are lost: what ran on them comes back all at once.

use std::collections::HashSet;

use plimsoll_core::objects::Objects;

/// What nodes could be lost.
#[derive(Debug, Default)]
pub(super) struct NodesSeen(HashSet<String>);

impl NodesSeen {
    /// The nodes that are gone, or no longer ready, since the last look. Nodes that were cordoned before are not among
    /// them: what was on them was moved away, and an autoscaler takes nodes away all the time.
    pub(super) fn look(&mut self, objects: &Objects) -> Vec<String> {
        let is_there = |name: &String| objects.node(name).is_some_and(|node| node.ready);
        let mut lost: Vec<_> = self.0.iter().filter(|name| !is_there(name)).cloned().collect();
        lost.sort();
        self.0 = objects.nodes().filter(|node| node.takes_pods()).map(|node| node.name.clone()).collect();
        lost
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plimsoll_core::objects::{Fact, FactKey, FactKind, Node};

    use super::*;

    #[test]
    fn which_nodes_are_lost() {
        let node = |ready, unschedulable| {
            Some(Node { name: "n".to_owned(), ready, unschedulable, ..Node::default() })
        };
        let (ready, not_ready) = (node(true, false), node(false, false));
        let (cordoned, broken) = (node(true, true), node(false, true));
        for (rule, before, after, lost) in [
            ("new", None, &ready, false),
            ("as it was", Some(&ready), &ready, false),
            ("gone", Some(&ready), &None, true),
            ("no longer ready", Some(&ready), &not_ready, true),
            ("cordoned", Some(&ready), &cordoned, false),
            ("cordoned and gone", Some(&cordoned), &None, false),
            ("cordoned and down", Some(&cordoned), &broken, false),
            ("down, and gone later", Some(&not_ready), &None, false),
            ("back", Some(&not_ready), &ready, false),
        ] {
            let (mut seen, mut objects) = (NodesSeen::default(), Objects::default());
            let mut set = |node: Option<&Node>| {
                let key = FactKey { kind: FactKind::Node, namespace: String::new(), name: "n".to_owned() };
                objects.remove(&key);
                if let Some(node) = node {
                    objects.put(Fact::Node(Arc::new(node.clone())));
                }
                seen.look(&objects)
            };
            assert_eq!(set(before.and_then(Option::as_ref)), Vec::<String>::new(), "{rule}");
            assert_eq!(!set(after.as_ref()).is_empty(), lost, "{rule}");
        }
    }
}
