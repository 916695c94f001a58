use serde_json::{Value, json};

use crate::world::{World, bound, plain_pod};

#[test]
fn nodes_above_the_filter_are_refused() {
    let daemon = || {
        let mut pod = bound("agent-x", "agent", "", 0);
        pod["metadata"]["ownerReferences"][0]["kind"] = json!("DaemonSet");
        pod
    };
    let cpu = |share: f64| json!({"cpu": {"15m": share, "1h": 0.1, "1d": 0.1}, "memory": 0.1});
    let memory = |share: f64| json!({"cpu": 0.1, "memory": {"15m": share}});
    let rows: [(&str, Value, Vec<Value>, Vec<Option<&str>>); 8] = [
        ("at the bound", plain_pod(), vec![cpu(0.85), memory(0.90)], vec![None, None]),
        (
            "above",
            plain_pod(),
            vec![cpu(0.86), memory(0.91), cpu(0.1)],
            vec![
                Some("86.0 % of its cpu is used, more than 85 %"),
                Some("91.0 % of its memory is used, more than 90 %"),
                None,
            ],
        ),
        ("all would be", plain_pod(), vec![cpu(0.86), memory(0.91)], vec![None, None]),
        ("a daemon set's pod", daemon(), vec![cpu(0.99), cpu(0.1)], vec![None, None]),
        ("nothing is known", plain_pod(), vec![json!({}), cpu(0.99)], vec![None, Some("99.0")]),
        (
            "only longer windows are known: what is missing passes",
            plain_pod(),
            vec![json!({"cpu": {"1h": 0.9}}), cpu(0.1)],
            vec![None, None],
        ),
        ("load averages are no measure", plain_pod(), vec![json!({"load": 3.0}), cpu(0.1)], vec![None, None]),
        ("no nodes", plain_pod(), vec![], vec![]),
    ];
    for (rule, pod, nodes, expected) in rows {
        let names: Vec<String> = (0..nodes.len()).map(|index| format!("n{index}")).collect();
        let file: serde_json::Map<_, _> = names.iter().cloned().zip(nodes).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = World::of(&json!({"nodes": file})).refusals(&pod, &names);
        assert_eq!(found.len(), expected.len(), "{rule}");
        for (found, expected) in found.iter().zip(expected) {
            let found = found.map(|refusal| refusal.to_string());
            assert_eq!(found.is_some(), expected.is_some(), "{rule}: {found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{rule}");
        }
    }
}
