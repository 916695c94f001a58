//! What the owner of a refused pod is told: by the server, and by `plimsoll quota explain`.

use std::fmt::Write as _;

use crate::quota::{Block, NodeId, Tree, shown};

/// The budget for a decision is spent; the request may succeed when it is made again. Not the words "exceeded quota":
/// clients take these for a lasting refusal.
pub const BUSY: &str = "quota is busy, try again";
/// What is used is not known yet, as after the ledger was lost.
pub const NOT_COUNTED_YET: &str = "quota is being counted, try again";
/// This replica does not know which tree counts.
pub const TREE_UNKNOWN: &str = "quota is not known yet, try again";
/// This replica and the ledger know different generations of the tree.
pub const TREE_IS_CHANGING: &str = "the quota tree has just changed, try again";

/// What can become of a pod that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// Its leaf borrows, or would with it: it waits until others have gone.
    Waits,
    /// Its leaf owns the room, and borrowers give it back.
    ReclaimStarted,
    /// Its leaf owns the room, but nobody that may be evicted could make the whole of it.
    NoVictims,
    /// Its leaf owns the room, but the configuration says that nobody is evicted.
    ReclaimIsOff,
}

/// Clients get this many maxima in one message at most.
const MOST_SHOWN: usize = 8;

/// Why a pod of `leaf` is refused: every maximum that it would pass, its leaf's first, and whether waiting can help.
pub fn refusal(tree: &Tree, leaf: NodeId, blocks: &[Block], outlook: Outlook) -> String {
    let mut text = "exceeded quota".to_owned();
    for (index, block) in blocks.iter().take(MOST_SHOWN).enumerate() {
        let Block { node, resource, used, claimed, requested, max } = block;
        let amount = |nanos: i128| shown(resource, nanos);
        let comma = if index == 0 { ": " } else { "; " };
        let _ = write!(
            text,
            "{comma}{}: {resource} requested {}, used {}",
            path(tree, *node),
            amount(*requested),
            amount(*used)
        );
        if *claimed > 0 {
            let _ = write!(text, ", claimed by others {}", amount(*claimed));
        }
        let _ = write!(text, ", max {}", amount(*max));
    }
    if let Some(more) = blocks.len().checked_sub(MOST_SHOWN).filter(|more| *more > 0) {
        let _ = write!(text, "; and {more} more");
    }
    text.push_str("; ");
    text.push_str(&hint(tree, leaf, blocks, outlook));
    text
}

fn hint(tree: &Tree, leaf: NodeId, blocks: &[Block], outlook: Outlook) -> String {
    if let Some(block) = blocks.iter().find(|block| block.is_hopeless()) {
        let whose = if block.node == leaf { "the leaf" } else { path(tree, block.node) };
        return format!("the pod alone exceeds max of {whose}, waiting does not help");
    }
    match (outlook, &tree.no_reclaim) {
        (Outlook::Waits, _) => {
            "above its min a leaf cannot reclaim, so the pod waits until other pods have gone".to_owned()
        }
        (_, Some(why)) => format!(
            "the room is within the leaf's min, but nothing is reclaimed while the tree has violations: {why}"
        ),
        (Outlook::ReclaimIsOff, None) => {
            "the room is within the leaf's min, but quota.reclaim.enabled is false; room that becomes free is held for \
             it, retry"
                .to_owned()
        }
        (Outlook::ReclaimStarted, None) => {
            "the room is within the leaf's min: reclaim started, retry".to_owned()
        }
        (Outlook::NoVictims, None) => {
            "the room is within the leaf's min, but no pods that may be evicted would \
             make the whole of it; room that becomes free is held for it, retry"
                .to_owned()
        }
    }
}

/// Why pods of a namespace are refused where the tree is wrong about it.
pub fn blocked(tree: &Tree, namespace: &str, why: &str) -> String {
    format!(
        "the quota tree {} is wrong about the namespace {namespace}, so its pods are refused until the tree is \
         mended: {why}",
        tree.name
    )
}

fn path(tree: &Tree, node: NodeId) -> &str {
    tree.node(node).map_or("", |node| node.path.as_ref())
}

#[cfg(test)]
mod tests {
    use super::{BUSY, NOT_COUNTED_YET, Outlook, TREE_IS_CHANGING, TREE_UNKNOWN, blocked, refusal};
    use crate::quota::{Block, Node, Tree};
    use crate::resource::UNIT;

    fn tree() -> Tree {
        let node = |name: &str, parent| Node { name: name.into(), parent, ..Node::default() };
        // The id of the root is made by a tree.
        let root = Tree::new("t", "", 0, [node("root", None)]).id(0);
        Tree::new("t", "", 0, [node("root", None), node("a", root)])
    }

    #[test]
    fn refusals() {
        let tree = tree();
        let (root, leaf) = (tree.id(0).unwrap(), tree.id(1).unwrap());
        let block = |node, requested: i128, claimed: i128| Block {
            node,
            resource: "cpu".into(),
            used: 18 * UNIT,
            claimed: claimed * UNIT,
            requested: requested * UNIT,
            max: 20 * UNIT,
        };
        let waits = "above its min a leaf cannot reclaim, so the pod waits until other pods have gone";
        for (rule, blocks, outlook, expected) in [
            (
                "waits",
                vec![block(leaf, 5, 0)],
                Outlook::Waits,
                format!("exceeded quota: root.a: cpu requested 5, used 18, max 20; {waits}"),
            ),
            (
                "claims are said",
                vec![block(root, 1, 2)],
                Outlook::Waits,
                format!("exceeded quota: root: cpu requested 1, used 18, claimed by others 2, max 20; {waits}"),
            ),
            (
                "never fits the leaf",
                vec![block(leaf, 21, 0), block(root, 21, 0)],
                Outlook::Waits,
                "exceeded quota: root.a: cpu requested 21, used 18, max 20; root: cpu requested 21, used 18, max 20; \
                 the pod alone exceeds max of the leaf, waiting does not help"
                    .to_owned(),
            ),
            (
                "never fits a node above",
                vec![block(root, 21, 0)],
                Outlook::Waits,
                "exceeded quota: root: cpu requested 21, used 18, max 20; \
                 the pod alone exceeds max of root, waiting does not help"
                    .to_owned(),
            ),
            (
                "reclaim",
                vec![block(root, 5, 0)],
                Outlook::ReclaimStarted,
                "exceeded quota: root: cpu requested 5, used 18, max 20; \
                 the room is within the leaf's min: reclaim started, retry"
                    .to_owned(),
            ),
        ] {
            assert_eq!(refusal(&tree, leaf, &blocks, outlook), expected, "{rule}");
        }
        let many = vec![block(root, 5, 0); 11];
        let text = refusal(&tree, leaf, &many, Outlook::NoVictims);
        assert!(text.contains("; and 3 more; ") && text.contains("no pods that may be evicted"), "{text}");
    }

    #[test]
    fn a_tree_with_violations_reclaims_nothing() {
        let mut tree = tree();
        tree.no_reclaim = Some("T2 at root".to_owned());
        let text = refusal(&tree, tree.id(1).unwrap(), &[], Outlook::ReclaimStarted);
        assert!(text.ends_with("while the tree has violations: T2 at root"), "{text}");
    }

    #[test]
    fn what_passes_by_itself_does_not_say_that_quota_is_exceeded() {
        for text in [
            BUSY,
            NOT_COUNTED_YET,
            TREE_IS_CHANGING,
            TREE_UNKNOWN,
            &blocked(&tree(), "shop", "T5: two leaves"),
        ] {
            assert!(!text.contains("exceeded quota"), "{text}");
        }
    }
}
