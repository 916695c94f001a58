//! The quota tree with what is used, whole: the status of a large tree is cut.

use plimsoll_core::quota::report;
use serde_json::{Value, json};

use crate::quota::content::Known;

pub(super) fn tree(known: &Known) -> String {
    let Known { tree, ledger, at } = known;
    let claims: Vec<Value> = ledger
        .claims
        .iter()
        .map(|claim| {
            json!({
                "number": claim.number,
                "namespace": claim.claimant.namespace,
                "owner": {
                    "apiVersion": claim.claimant.api_version, "kind": claim.claimant.kind, "name": claim.claimant.name,
                },
                "leaf": tree.leaf_of(&claim.claimant.namespace).and_then(|leaf| tree.node(leaf)).map(|node| node.path.as_ref()),
                "charge": claim.charge.quantities(),
            })
        })
        .collect();
    json!({
        "tree": tree.name,
        "generation": ledger.tree.generation,
        "epoch": ledger.epoch,
        "initialised": ledger.initialised,
        "reservations": ledger.reservations.len(),
        "claims": claims,
        "readAt": at.to_string(),
        "root": report(tree, ledger, usize::MAX).root,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use plimsoll_core::quota::ledger::{Claim, Claimant, Ledger};
    use plimsoll_core::quota::{Amounts, Node, Tree};

    use super::*;

    #[test]
    fn a_tree_with_a_claim() {
        let cpu = |units: i128| -> Amounts { [("cpu", units * 1_000_000_000)].into_iter().collect() };
        let root =
            Node { name: "root".into(), max: cpu(4), namespaces: vec!["shop".into()], ..Node::default() };
        let tree = Arc::new(Tree::new("t", "u", 3, [root]));
        let mut ledger = Ledger { initialised: true, ..Ledger::unknown(&tree, 7) };
        ledger.committed.insert("shop".into(), cpu(3));
        ledger.claims.push(Claim {
            number: 1,
            claimant: Claimant {
                namespace: "shop".to_owned(),
                uid: "o".to_owned(),
                api_version: "apps/v1".to_owned(),
                kind: "ReplicaSet".to_owned(),
                name: "web".to_owned(),
            },
            charge: cpu(2),
            created: 0,
            retried: 0,
        });
        let known = Known { tree, ledger, at: Timestamp::UNIX_EPOCH };
        let answer: Value = serde_json::from_str(&super::tree(&known)).unwrap();
        assert_eq!(answer["root"]["used"]["cpu"], "3");
        assert_eq!(answer["root"]["request"]["cpu"], "5");
        assert_eq!(
            answer["claims"][0],
            json!({"number": 1, "namespace": "shop", "leaf": "root", "charge": {"cpu": "2"},
                "owner": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}})
        );
        assert_eq!(
            (&answer["generation"], &answer["epoch"], &answer["readAt"]),
            (&json!(3), &json!(7), &json!("1970-01-01T00:00:00Z"))
        );
    }
}
