//! Namespaces are read where they were not seen yet.

use std::time::Duration;

use plimsoll::admission::{NamespaceReadError, NamespaceReader as _};
use plimsoll::cluster::LiveNamespaces;

use crate::fake::{FakeApi, NAMESPACES, eventually};
use crate::replica::namespace;

#[tokio::test]
async fn namespaces_are_read_live() {
    let fake = FakeApi::start().await;
    fake.put(NAMESPACES, namespace("shop"));
    let reader = LiveNamespaces::new(fake.client(), Duration::from_secs(20));
    let found = reader.read("shop").await.unwrap().unwrap();
    assert_eq!(found.labels["plimsoll.dev/pool"], "shared");
    assert!(reader.read("none").await.unwrap().is_none());

    // Readers of the same name share one call.
    let before = fake.gets();
    fake.hold(NAMESPACES, true);
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let reader = reader.clone();
            tokio::spawn(async move { reader.read("shop").await.unwrap().unwrap().name })
        })
        .collect();
    eventually("the call", || fake.gets() > before).await;
    tokio::task::yield_now().await;
    fake.hold(NAMESPACES, false);
    for reader in readers {
        assert_eq!(reader.await.unwrap(), "shop");
    }
    assert_eq!(fake.gets(), before + 1);

    // And do not share an old answer.
    fake.delete(NAMESPACES, "shop");
    assert!(reader.read("shop").await.unwrap().is_none());
}

#[tokio::test]
async fn a_live_read_that_fails_says_why() {
    let fake = FakeApi::start().await;
    fake.hold(NAMESPACES, true);
    let reader = LiveNamespaces::new(fake.client(), Duration::from_millis(20));
    let error = reader.read("shop").await.unwrap_err();
    assert!(matches!(&error, NamespaceReadError::TimedOut { name, .. } if name == "shop"), "{error}");
    fake.hold(NAMESPACES, false);
    fake.set_down(true);
    let reader = LiveNamespaces::new(fake.client(), Duration::from_secs(20));
    let error = reader.read("shop").await.unwrap_err();
    assert!(error.to_string().contains("down on purpose"), "{error}");
    // A name that would change the path is not sent.
    let error = reader.read("a/b").await.unwrap_err();
    assert!(matches!(error, NamespaceReadError::Failed { .. }), "{error}");
}
