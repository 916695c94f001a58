//! Who is let in.

use std::time::Duration;

use plimsoll::server::tls::Reload;
use plimsoll::server::{ClientAuth, ServerOptions};

use crate::support::Running;
use crate::tls::{Authority, Pair};
use crate::wait::within;

fn options() -> ServerOptions {
    ServerOptions { drain_delay: Duration::ZERO, ..ServerOptions::default() }
}

async fn is_let_in(running: &Running, pair: Option<&Pair>) -> bool {
    let Ok(mut connection) = within(running.connect_with(pair)).await else { return false };
    let answer =
        connection.send("POST", "/scheduler/prioritize", Some("application/json"), "{}".into()).await;
    answer.is_ok_and(|answer| answer.status == 200)
}

#[tokio::test]
async fn client_certificates() {
    let (ours, other) = (Authority::new(), Authority::new());
    let clients = [
        ("none", None),
        ("ours", Some(ours.client("scheduler"))),
        ("of another authority", Some(other.client("scheduler"))),
        ("expired", Some(ours.expired("scheduler"))),
        ("a server's", Some(ours.server())),
    ];
    for (auth, let_in) in [
        (ClientAuth::None, &["none", "ours", "of another authority", "expired", "a server's"][..]),
        (ClientAuth::Optional, &["none", "ours"]),
        (ClientAuth::Required, &["ours"]),
    ] {
        let running = Running::start(auth, &ours, options()).await;
        for (rule, pair) in &clients {
            assert_eq!(is_let_in(&running, pair.as_ref()).await, let_in.contains(rule), "{auth:?}: {rule}");
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn the_authority_of_clients_is_read_again() {
    let (old, new) = (Authority::new(), Authority::new());
    let (old_client, new_client) = (old.client("scheduler"), new.client("scheduler"));
    let running = Running::start(ClientAuth::Required, &old, options()).await;
    let mut open = running.connect_with(Some(&old_client)).await.unwrap();
    open.post("/scheduler/prioritize", "{}").await.json();
    assert!(!is_let_in(&running, Some(&new_client)).await);

    std::fs::write(&running.client_ca, "no certificate").unwrap();
    assert!(matches!(running.store.poll_once(), Reload::Refused(_)));
    assert!(is_let_in(&running, Some(&old_client)).await, "the last good one stays");

    std::fs::write(&running.client_ca, new.pem()).unwrap();
    assert!(matches!(running.store.poll_once(), Reload::Replaced));
    assert!(is_let_in(&running, Some(&new_client)).await);
    assert!(!is_let_in(&running, Some(&old_client)).await);
    open.post("/scheduler/prioritize", "{}").await.json();
    assert_eq!(running.metric("plimsoll_extender_tls_reloads_total{result=\"success\"}"), 1);
    running.stop().await;
}
