//! The namespaces that the API server asks about.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use plimsoll::certificates::{Authority, Held};
use plimsoll::cluster::WriteError;
use plimsoll::metrics::Metrics;
use plimsoll::quota::WebhookKeeper;
use plimsoll::server::tls::wall_clock;
use plimsoll::server::{CertificateSource, CertificateStore, ClientAuth, SelfManaged, TlsOptions};
use plimsoll_core::quota::{Node, Tree};
use serde_json::{Value, json};

use super::fake::FakeApi;

const VALIDATING: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/plimsoll-quota";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/plimsoll-quota";

fn tree(namespaces: &[&str], flavors: &[&str]) -> Tree {
    let texts = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
    let root = Node {
        name: "root".into(),
        namespaces: texts(namespaces),
        flavors: texts(flavors),
        ..Node::default()
    };
    Tree::new("elastic", "t", 1, [root])
}

fn keeper(fake: &FakeApi) -> WebhookKeeper {
    let name = "plimsoll-quota".to_owned();
    WebhookKeeper::new(fake.client(), name, "plimsoll-system".to_owned(), Duration::from_secs(10))
}

fn install(fake: &FakeApi) {
    let nothing = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["Nothing.Bound"]},
    ]});
    let webhook = |name: &str, timeout: u64| {
        json!({
            "name": name, "timeoutSeconds": timeout, "namespaceSelector": nothing,
            "clientConfig": {"caBundle": "Q0E="}, "failurePolicy": "Fail",
        })
    };
    let trees = webhook("trees.quota.plimsoll.dev", 10);
    fake.put(
        VALIDATING,
        json!({"metadata": {"name": "plimsoll-quota"}, "webhooks": [trees, webhook("pods.quota.plimsoll.dev", 10)]}),
    );
    fake.put(
        MUTATING,
        json!({"metadata": {"name": "plimsoll-quota"}, "webhooks": [webhook("flavors.quota.plimsoll.dev", 3)]}),
    );
}

fn named(fake: &FakeApi, path: &str, index: usize) -> Value {
    fake.object(path).unwrap()["webhooks"][index]["namespaceSelector"]["matchExpressions"][0]["values"]
        .clone()
}

fn writes(fake: &FakeApi) -> usize {
    fake.seen().iter().filter(|seen| seen.method != Method::GET).count()
}

#[tokio::test]
async fn the_selectors_follow_the_tree_and_nothing_else_changes() {
    let fake = FakeApi::default();
    install(&fake);
    let before = fake.object(VALIDATING).unwrap();
    let keeper = keeper(&fake);
    keeper.keep(&Tree::default()).await.unwrap();
    assert_eq!(writes(&fake), 0, "it says so already");

    keeper.keep(&tree(&["shop", "bank", "kube-system", "plimsoll-system"], &[])).await.unwrap();
    assert_eq!(named(&fake, VALIDATING, 1), json!(["bank", "shop"]));
    assert_eq!(named(&fake, MUTATING, 0), json!(["Nothing.Bound"]), "no flavors");
    let mut after = fake.object(VALIDATING).unwrap();
    after["webhooks"][1]["namespaceSelector"] = before["webhooks"][1]["namespaceSelector"].clone();
    after["metadata"] = before["metadata"].clone();
    assert_eq!(after, before);

    keeper.keep(&tree(&["shop"], &["spot"])).await.unwrap();
    assert_eq!((named(&fake, VALIDATING, 1), named(&fake, MUTATING, 0)), (json!(["shop"]), json!(["shop"])));
    let count = writes(&fake);
    keeper.keep(&tree(&["shop"], &["spot"])).await.unwrap();
    assert_eq!(writes(&fake), count, "nothing to write");

    keeper.keep(&Tree::default()).await.unwrap();
    assert_eq!(named(&fake, VALIDATING, 1), json!(["Nothing.Bound"]));
}

#[tokio::test]
async fn first_wider_and_then_narrower() {
    let fake = FakeApi::default();
    install(&fake);
    let keeper = keeper(&fake);
    keeper.keep(&tree(&["old", "both"], &[])).await.unwrap();
    keeper.widen(&tree(&["both", "new"], &[]), &tree(&["old", "both"], &[])).await.unwrap();
    assert_eq!(named(&fake, VALIDATING, 1), json!(["both", "new", "old"]));
    keeper.keep(&tree(&["both", "new"], &[])).await.unwrap();
    assert_eq!(named(&fake, VALIDATING, 1), json!(["both", "new"]));
}

#[tokio::test]
async fn what_somebody_edits_is_mended() {
    let fake = FakeApi::default();
    install(&fake);
    let keeper = keeper(&fake);
    let tree = tree(&["shop"], &[]);
    keeper.keep(&tree).await.unwrap();
    for (field, value) in [
        ("namespaceSelector", json!({"matchLabels": {"team": "a"}})),
        ("namespaceSelector", Value::Null),
        ("timeoutSeconds", json!(30)),
    ] {
        let mut object = fake.object(VALIDATING).unwrap();
        object["webhooks"][1][field] = value.clone();
        fake.put(VALIDATING, object);
        keeper.keep(&tree).await.unwrap();
        assert_eq!(named(&fake, VALIDATING, 1), json!(["shop"]), "{field}: {value}");
        assert_eq!(fake.object(VALIDATING).unwrap()["webhooks"][1]["timeoutSeconds"], 10);
        keeper.keep(&tree).await.unwrap();
    }
    assert_eq!(fake.object(MUTATING).unwrap()["webhooks"][0]["timeoutSeconds"], 3, "that one may be any");
}

#[tokio::test]
async fn failures_say_what_to_do_and_stop_nothing_else() {
    let fake = FakeApi::default();
    install(&fake);
    let mut object = fake.object(VALIDATING).unwrap();
    object["webhooks"].as_array_mut().unwrap().pop();
    fake.put(VALIDATING, object);
    let error = keeper(&fake).keep(&tree(&["shop"], &["spot"])).await.unwrap_err();
    assert!(matches!(error, WriteError::NotFound { .. }), "{error}");
    assert!(error.to_string().contains("apply the component webhook-config/components/quota"), "{error}");
    assert_eq!(named(&fake, MUTATING, 0), json!(["shop"]), "the other one was kept");

    fake.remove(VALIDATING);
    let error = keeper(&fake).keep(&tree(&["shop"], &[])).await.unwrap_err();
    assert!(error.to_string().contains("plimsoll-quota"), "{error}");

    install(&fake);
    // Somebody moves the entry between our reading and our writing.
    fake.fail_at("PATCH", 422, "", "test operation failed");
    let error = keeper(&fake).keep(&tree(&["shop"], &[])).await.unwrap_err();
    assert!(matches!(error, WriteError::Conflict { .. }), "{error}");
}

fn set_bundle(fake: &FakeApi, bundle: &Value) {
    for (path, index) in [(VALIDATING, 1), (MUTATING, 0)] {
        let mut object = fake.object(path).unwrap();
        object["webhooks"][index]["clientConfig"]["caBundle"] = bundle.clone();
        fake.put(path, object);
    }
}

/// A certificate store of a replica that has no certificate yet, and what it waits for.
fn uncertified() -> (Arc<CertificateStore>, Held) {
    let own = SelfManaged {
        held: Held::new(Duration::from_secs(60)),
        names: vec!["plimsoll.plimsoll-system.svc".to_owned()],
        lifetime: Duration::from_secs(3600),
        client_ca: None,
    };
    let held = own.held.clone();
    let source = CertificateSource::SelfManaged(own);
    let tls = TlsOptions { source, client_auth: ClientAuth::None, tls13_only: false, http2: false };
    (CertificateStore::open(tls, wall_clock(), &Metrics::new("test")).unwrap(), held)
}

fn certify(store: &CertificateStore, held: &Held) {
    let now = jiff::Timestamp::now();
    held.confirm(Arc::new(Authority::make("a", Duration::from_secs(3600), now).unwrap()), now);
    store.poll_once();
}

fn add_expression(fake: &FakeApi) -> Value {
    let mut object = fake.object(VALIDATING).unwrap();
    let theirs = json!({"key": "team", "operator": "NotIn", "values": ["free"]});
    object["webhooks"][1]["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap().insert(0, theirs);
    fake.put(VALIDATING, object.clone());
    object["webhooks"][1]["namespaceSelector"].clone()
}

fn selector(fake: &FakeApi) -> Value {
    fake.object(VALIDATING).unwrap()["webhooks"][1]["namespaceSelector"].clone()
}

/// It could take namespaces out of the quota.
#[tokio::test]
async fn a_second_expression_is_taken_out_and_unbinds_nothing() {
    let fake = FakeApi::default();
    install(&fake);
    let (store, held) = uncertified();
    let keeper = keeper(&fake).with_certificate(Arc::clone(&store));
    certify(&store, &held);
    let shop = tree(&["shop"], &[]);
    keeper.keep(&shop).await.unwrap();
    let ours = selector(&fake);

    add_expression(&fake);
    keeper.keep(&shop).await.unwrap();
    assert_eq!(selector(&fake), ours, "ours alone");

    // A tree that changes: what was bound stays so, whatever is made of the selector.
    for theirs in [add_expression(&fake), json!({"matchLabels": {"team": "a"}}), Value::Null] {
        let mut object = fake.object(VALIDATING).unwrap();
        object["webhooks"][1]["namespaceSelector"] = theirs.clone();
        fake.put(VALIDATING, object);
        keeper.widen(&tree(&["bank"], &[]), &shop).await.unwrap();
        assert_eq!(named(&fake, VALIDATING, 1), json!(["bank", "shop"]), "{theirs}");
        keeper.keep(&shop).await.unwrap();
    }

    // Another leader, that has no certificate yet.
    let (without, held) = uncertified();
    let other = self::keeper(&fake).with_certificate(Arc::clone(&without));
    let theirs = add_expression(&fake);
    let count = writes(&fake);
    let error = other.keep(&shop).await.unwrap_err().to_string();
    assert!(error.contains("left as it is") && error.contains("there is no certificate yet"), "{error}");
    assert_eq!((selector(&fake), writes(&fake)), (theirs, count), "nothing is unbound");
    certify(&without, &held);
    other.keep(&shop).await.unwrap();
    assert_eq!(selector(&fake), ours);
}

#[tokio::test]
async fn who_keeps_rewriting_a_selector_is_told_of() {
    let fake = FakeApi::default();
    install(&fake);
    let keeper = keeper(&fake);
    let shop = tree(&["shop"], &[]);
    keeper.keep(&shop).await.unwrap();
    let mut said = Vec::new();
    for _ in 0..5 {
        add_expression(&fake);
        said.push(keeper.keep(&shop).await.err().map(|error| error.to_string()));
        assert_eq!(named(&fake, VALIDATING, 1), json!(["shop"]), "it is written all the same");
    }
    assert!(said[..2].iter().all(Option::is_none), "{said:?}");
    let text = said[4].as_ref().unwrap();
    assert!(text.contains("again and again") && text.contains("pods.quota.plimsoll.dev"), "{text}");
    keeper.keep(&shop).await.unwrap();
    add_expression(&fake);
    keeper.keep(&shop).await.unwrap();
}

/// Entries that fail closed deny everything while nobody can be called.
#[tokio::test]
async fn nothing_is_bound_before_we_can_be_called() {
    let fake = FakeApi::default();
    install(&fake);
    let (store, held) = uncertified();
    let keeper = keeper(&fake).with_certificate(Arc::clone(&store));
    let both =
        |names: Value| (named(&fake, VALIDATING, 1), named(&fake, MUTATING, 0)) == (names.clone(), names);
    let shop = tree(&["shop"], &["spot"]);

    for (rule, bundle) in [("none", Value::Null), ("empty", json!(""))] {
        set_bundle(&fake, &bundle);
        for kept in [keeper.keep(&shop).await, keeper.widen(&shop, &Tree::default()).await] {
            let error = kept.unwrap_err().to_string();
            assert!(
                error.contains("caBundle is empty") && error.contains("plimsoll-certs"),
                "{rule}: {error}"
            );
        }
        assert!(both(json!(["Nothing.Bound"])), "{rule}");
        keeper.keep(&Tree::default()).await.unwrap();
    }
    set_bundle(&fake, &json!("Q0E="));
    let error = keeper.keep(&shop).await.unwrap_err().to_string();
    assert!(error.contains("there is no certificate yet"), "{error}");
    assert!(both(json!(["Nothing.Bound"])), "no certificate");

    certify(&store, &held);
    keeper.keep(&shop).await.unwrap();
    assert!(both(json!(["shop"])), "it can be called");

    // What is bound stays so, and may become less.
    set_bundle(&fake, &Value::Null);
    keeper.keep(&shop).await.unwrap();
    assert!(keeper.keep(&tree(&["shop", "bank"], &["spot"])).await.is_err());
    assert!(both(json!(["shop"])), "nothing more");
    assert!(keeper.keep(&tree(&["bank"], &["spot"])).await.is_err());
    assert!(both(json!(["Nothing.Bound"])), "less");
}

/// Without a `caBundle` the API server trusts the authorities of its system.
#[tokio::test]
async fn certificates_of_others_need_a_bundle_where_one_is_promised() {
    let fake = FakeApi::default();
    install(&fake);
    set_bundle(&fake, &Value::Null);
    keeper(&fake).keep(&tree(&["shop"], &[])).await.unwrap();
    assert_eq!(named(&fake, VALIDATING, 1), json!(["shop"]), "that of the system");

    let mut object = fake.object(VALIDATING).unwrap();
    object["metadata"]["annotations"] =
        json!({"cert-manager.io/inject-ca-from": "plimsoll-system/plimsoll-tls"});
    fake.put(VALIDATING, object);
    let error = keeper(&fake).keep(&tree(&["bank", "shop"], &[])).await.unwrap_err().to_string();
    assert!(error.contains("cert-manager is yet to write it"), "{error}");
    assert_eq!(named(&fake, VALIDATING, 1), json!(["shop"]), "it is injected");
}

#[tokio::test]
async fn ten_thousand_namespaces() {
    let fake = FakeApi::default();
    install(&fake);
    let names: Vec<String> = (0..10_000).map(|n| format!("team-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    keeper(&fake).keep(&tree(&names, &[])).await.unwrap();
    assert_eq!(named(&fake, VALIDATING, 1).as_array().unwrap().len(), 10_000);
}
