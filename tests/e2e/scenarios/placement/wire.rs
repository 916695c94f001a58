//! What a scheduler really sends to an extender, and what it makes of answers; the extender is a stand-in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::harness::extender::{Call, StandIn};
use crate::harness::install::SERVER_NAME;
use crate::harness::placement::{Nodes, Placement, with_nodes};
use crate::harness::scheduler::{Caller, plain, pointed};
use crate::harness::{World, check_eq};

/// How the stand-in answers.
const FAVOURS: u8 = 0;
const HANGS: u8 = 1;
const FLOATS: u8 = 2;

/// The extender of a configuration as it is recommended.
fn extender(more: &Value) -> Value {
    let mut extender = json!({
        "urlPrefix": "", "prioritizeVerb": "prioritize", "filterVerb": "filter", "weight": 2,
        "enableHTTPS": true, "httpTimeout": "5s", "nodeCacheCapable": true, "ignorable": true,
    });
    json_patch::merge(&mut extender, more);
    extender
}

fn sent_nodes(call: &Call) -> Vec<String> {
    let names = call.body["NodeNames"].as_array().into_iter().flatten();
    names.filter_map(Value::as_str).map(Into::into).collect()
}

/// Ten points for this node and none for the others; nobody is refused.
fn favour(call: &Call, favoured: &str, points: &Value) -> Value {
    let names = sent_nodes(call);
    if call.path.ends_with("/filter") {
        return json!({"NodeNames": names});
    }
    let zero = json!(0);
    let score = |name: &String| if name == favoured { points } else { &zero };
    names.iter().map(|name| json!({"Host": name, "Score": score(name)})).collect()
}

/// Names in Go's spelling over TLS with the scheduler's certificate; a favoured node wins; who hangs or answers
/// nonsense is passed over.
pub(in super::super) async fn stand_in(world: &World) -> Result<()> {
    with_nodes(world, "wire", Nodes::new(4), async |placement| {
        let manner = Arc::new(AtomicU8::new(FAVOURS));
        let (told, favoured) = (Arc::clone(&manner), placement.node("n3"));
        let identity = world.authority.issue_serving(&[SERVER_NAME], 7)?;
        let stand_in =
            StandIn::listen(&world.authority, &identity, move |call| match told.load(Ordering::Relaxed) {
                HANGS => None,
                FLOATS => Some(favour(call, &favoured, &json!(10.5))),
                _ => Some(favour(call, &favoured, &json!(10))),
            })
            .await?;
        let caller = Caller { port: stand_in.port(), ..placement.caller.clone() };
        let mut configuration = plain();
        configuration["extenders"] = json!([extender(&json!({}))]);
        placement.schedule_by(&pointed(configuration, &caller)?)?;
        favoured_wins(placement, &stand_in).await?;
        for (rule, how) in [("one that hangs", HANGS), ("one that answers in floats", FLOATS)] {
            manner.store(how, Ordering::Relaxed);
            let before = stand_in.calls().len();
            let name = format!("pod-{how}");
            world.cluster.create(&placement.pod(&name, &json!({}))).await?;
            placement.placed(&format!("app={name}"), 1).await?;
            ensure!(stand_in.calls().len() > before || how == HANGS, "{rule}: it was not asked");
        }
        Ok(())
    })
    .await
}

async fn favoured_wins(placement: &Placement<'_>, stand_in: &StandIn) -> Result<()> {
    let workload = placement.workload("Deployment", "web", 3, &json!({"requests": {"cpu": "100m"}}));
    placement.world.cluster.create(&workload).await?;
    let placed = placement.placed("app=web", 3).await?;
    check_eq!(placed, [("n3".to_owned(), 3)].into(), "where the pods are");
    let calls = stand_in.calls();
    for verb in ["/scheduler/filter", "/scheduler/prioritize"] {
        let call = calls.iter().find(|call| call.path == verb).with_context(|| format!("no {verb}"))?;
        let keys: Vec<_> = call.body.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        check_eq!(keys, ["NodeNames", "Nodes", "Pod"], "{verb}: what is sent");
        check_eq!(call.body["Nodes"], Value::Null, "{verb}: whole nodes");
        check_eq!(sent_nodes(call).len(), 4, "{verb}: nodes");
        check_eq!(
            call.body["Pod"]["metadata"]["namespace"],
            json!(placement.namespace),
            "{verb}: the pod's own names stay as they are"
        );
        eprintln!("{verb}: {:?}", call.headers);
    }
    Ok(())
}
