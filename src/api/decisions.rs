//! `/api/v1/decisions`.

use plimsoll_core::admission::Stage;
use serde_json::{Value, json};

use crate::decisions::{Decided, Decisions};

/// The last decisions of this replica, the newest first.
pub(super) fn all(decisions: &Decisions) -> String {
    let items: Vec<Value> = decisions.newest_first().iter().map(|decided| item(decided)).collect();
    json!({ "made": decisions.made(), "items": items }).to_string()
}

fn item(decided: &Decided) -> Value {
    json!({
        "number": decided.number,
        "at": decided.at.to_string(),
        "stage": match decided.stage {
            Stage::Mutate => "mutate",
            Stage::Validate => "validate",
        },
        "operation": decided.operation,
        "kind": decided.kind,
        "namespace": decided.namespace,
        "name": decided.name,
        "dryRun": decided.dry_run,
        "decision": decided.outcome,
        "profile": decided.profile,
        "why": decided.why,
    })
}
