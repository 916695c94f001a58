//! Trees that are made to harm.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::harness::quota::{Quota, TREE, TREES, cores, with_quota};
use crate::harness::server::Server;
use crate::harness::{World, check_eq};

const PATH: &str = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees";

/// The tree of the scenario as text, with this text as its root.
fn text(quota: &Quota<'_>, root: &str) -> String {
    let name = quota.name;
    format!(
        r#"{{"apiVersion":"{TREES}","kind":"{TREE}","metadata":{{"name":"{name}","namespace":"kube-system"}},"spec":{{"root":{root}}}}}"#
    )
}

/// A chain of so many nodes, at whose end stands a namespace.
fn chain(nodes: usize, namespace: &str) -> String {
    let all = r#""min":{"cpu":"10"},"max":{"cpu":"10"}"#;
    let inner = (1..nodes).map(|number| format!(r#"{{"name":"n{number}",{all},"children":["#));
    let leaf = format!(r#"{{"name":"leaf",{all},"namespaces":["{namespace}"]}}"#);
    inner.chain([leaf, "]}".repeat(nodes - 1)]).collect()
}

/// Too large or too deep: a clear "no", and the server goes on as if nothing had happened. Deep is not too deep.
pub(in crate::scenarios) async fn large_and_deep(world: &World) -> Result<()> {
    with_quota(world, "input", 1, &json!({}), async |quota| {
        let [namespace] = quota.namespaces(["one"]).await?;
        let create = |root: &str| {
            world.cluster.kubectl.run(["create", "--raw", PATH, "-f", "-"], Some(&text(quota, root)))
        };
        let large = |nodes: usize| {
            let children: Vec<Value> =
                (0..nodes).map(|number| json!({"name": format!("{number}-{}", "x".repeat(100))})).collect();
            json!({"name": "root", "min": {"cpu": 1}, "max": {"cpu": 1}, "children": children}).to_string()
        };
        let hostile: [(&str, String, &[&str]); 5] = [
            ("10 MB", large(80_000), &["too large"]),
            ("2.6 MB", large(21_000), &["nodes", "T11"]),
            ("1,000 levels", chain(1_000, &namespace), &["T11"]),
            ("a hundred thousand levels", chain(100_000, &namespace), &[]),
            ("a root of brackets", format!("{}{}", "[".repeat(50_000), "]".repeat(50_000)), &[]),
        ];
        for (rule, root, words) in hostile {
            let message = create(&root).err().with_context(|| format!("{rule}: it is accepted"))?.to_string();
            for unclean in
                ["EOF", "panic", "connection refused", "failed calling webhook", "context deadline"]
            {
                ensure!(!message.contains(unclean), "{rule}: {}", crop(&message));
            }
            for word in words {
                ensure!(message.contains(word), "{rule}: {word:?} is not in: {}", crop(&message));
            }
        }
        quota.replicas.borrow_mut().iter_mut().try_for_each(Server::check)?;
        create(&chain(100, &namespace)).context("100 levels")?;
        quota.judged(std::slice::from_ref(&namespace)).await?;
        quota.admitted("all of it", &cores(&namespace, "one", "10")).await?;
        let message = quota
            .refused("a leaf below 99 nodes", &cores(&namespace, "two", "1"), &["exceeded quota"])
            .await?;
        ensure!(message.contains("n1.n2"), "{message}");
        quota.uses(&[(&namespace, 10)]).await?;
        check_eq!(quota.bound().await?, [namespace], "the namespaces that are asked about");
        Ok(())
    })
    .await
}

/// The start of a message, where all of it would not be read.
fn crop(message: &str) -> &str {
    message.get(message.len().saturating_sub(600)..).unwrap_or(message)
}
