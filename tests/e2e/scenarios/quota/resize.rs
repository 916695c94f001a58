//! Pods that are resized in place.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::harness::kubelet::running;
use crate::harness::objects::pod;
use crate::harness::quota::{asks, tree_t, with_quota};
use crate::harness::{World, check_eq};

/// What a kubelet says that a pod has: nobody here does it.
async fn actuated(world: &World, pod: &Value, cpu: &str) -> Result<()> {
    let mut statuses = world.cluster.get(pod).await?["status"]["containerStatuses"].take();
    for status in statuses.as_array_mut().context("no container statuses")? {
        status["allocatedResources"] = json!({"cpu": cpu});
        status["resources"] = json!({"requests": {"cpu": cpu}});
    }
    world.cluster.merge_status(pod, &json!({"containerStatuses": statuses})).await.map(drop)
}

/// More is charged before it is given, and refused where it is not there; less is free when the pod has given it back.
pub(in crate::scenarios) async fn in_place(world: &World) -> Result<()> {
    with_quota(world, "resize", 2, &json!({}), async |quota| {
        let namespaces = quota.namespaces(["1", "2", "3", "4"]).await?;
        quota.plant(&tree_t(&namespaces), &namespaces).await?;
        let [first, ..] = namespaces.each_ref().map(String::as_str);
        let object = asks(pod(first, "one", &[]), &json!({"cpu": "5"}));
        quota.admitted("5 of 20", &object).await?;
        running(world, &object).await?;
        actuated(world, &object, "5").await?;
        quota.uses(&[(first, 5)]).await?;
        let to = async |cpu: &str| {
            let change =
                json!({"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]}});
            world.cluster.resize(&object, &change).await
        };

        let refused = to("21").await?.err().context("21 of 20")?;
        check_eq!(refused.code, 403, "21 of 20: {}", refused.message);
        for word in ["exceeded quota", "root.a.a1: cpu requested 16, used 5, max 20"] {
            ensure!(refused.message.contains(word), "{word:?} is not in: {}", refused.message);
        }
        quota.uses(&[(first, 5)]).await?;

        to("20").await?.context("20 of 20")?;
        quota.uses(&[(first, 20)]).await.context("what it asks for counts at once")?;
        let small = asks(pod(first, "two", &[]), &json!({"cpu": "1m"}));
        quota.refused("nothing is left", &small, &["exceeded quota"]).await?;
        actuated(world, &object, "20").await?;

        to("12").await?.context("down to 12")?;
        quota.uses(&[(first, 20)]).await.context("it has not given anything back yet")?;
        quota.refused("it still has 20", &small, &["exceeded quota"]).await?;
        actuated(world, &object, "12").await?;
        quota.uses(&[(first, 12)]).await.context("it has 12 now")?;
        let rest = quota.admitted("the rest", &asks(pod(first, "two", &[]), &json!({"cpu": "8"}))).await?;
        let refused = to("13").await?.err().context("up again, but the room is taken")?;
        ensure!(refused.message.contains("exceeded quota"), "{}", refused.message);
        world.cluster.delete(&rest).await?;
        quota.uses(&[(first, 12)]).await?;
        to("13").await?.context("and now it is free")?;
        quota.uses(&[(first, 13)]).await
    })
    .await
}
