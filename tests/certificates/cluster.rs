//! From an empty Secret to a rotation, and all that can be wrong on the way.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use plimsoll::certificates::Authority;
use plimsoll::certificates::plan::Timing;
use plimsoll::certificates::secret::Authorities;
use plimsoll::server::ClientAuth;
use plimsoll::status::{Part, State, StatusSources};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use super::support::{Connection, client, client_with, test_clock};
use super::world::{
    API_SERVICE, Cluster, Leader, MUTATING, Replica, SECRET, TIMING, VALIDATING, certificates_in, metric,
};
use crate::wait::until;

const FIRST: &str = "/webhooks/0/clientConfig/caBundle";

/// One call as the API server makes it; the serial number of who answered.
async fn call(cluster: &Cluster, replica: &Replica) -> Result<String, String> {
    let config = client(&cluster.trusted());
    let opened = Connection::open(replica.server.address, config).await;
    let mut connection = opened.map_err(|error| error.to_string())?;
    assert_eq!(connection.call("/mutate", "{}").await.status, 200);
    Ok(connection.peer_serial())
}

#[tokio::test]
async fn from_an_empty_secret_to_replicas_that_are_trusted() {
    let cluster = Cluster::installed();
    let before = cluster.api.object(MUTATING).unwrap();
    let replicas = [Replica::start(&cluster).await, Replica::start(&cluster).await];
    for replica in &replicas {
        until("it says what it waits for", || replica.said().contains("plimsoll-certs")).await;
        let missing = replica.readiness.missing();
        assert!(
            missing[0].1.starts_with("there is no certificate yet: Secret plimsoll-ca is empty"),
            "{missing:?}"
        );
        assert!(call(&cluster, replica).await.is_err());
        assert_eq!(replica.server.metric("plimsoll_degraded{reason=\"self_managed_certificates\"}"), 1);
    }

    let leader = Leader::start(&cluster);
    for replica in &replicas {
        until("ready", || replica.readiness.is_ready()).await;
        assert_eq!(replica.server.metric("plimsoll_degraded{reason=\"self_managed_certificates\"}"), 0);
    }
    let serials = [call(&cluster, &replicas[0]).await.unwrap(), call(&cluster, &replicas[1]).await.unwrap()];
    assert_ne!(serials[0], serials[1], "each has a certificate of its own");
    let trusted = cluster.trusted();
    assert_eq!(Some(&trusted), cluster.value("ca.crt").as_ref());
    for (path, pointer) in [
        (MUTATING, "/webhooks/2/clientConfig/caBundle"),
        (VALIDATING, FIRST),
        (API_SERVICE, "/spec/caBundle"),
    ] {
        assert_eq!(cluster.bundle(path, pointer), trusted, "{path} {pointer}");
    }
    let after = cluster.api.object(MUTATING).unwrap();
    assert_eq!(after["webhooks"][1], before["webhooks"][1], "what is not ours stays");
    let keys: Vec<_> = cluster.data().as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["ca.crt", "ca.key", "format", "switched"]);
    assert_eq!(
        leader.metric("plimsoll_certificate_authority_rotations_total{step=\"make\",result=\"success\"}"),
        1
    );
    assert_eq!(
        leader.metric("plimsoll_certificate_authority_rotations_total{step=\"switch\",result=\"success\"}"),
        1
    );
    assert_eq!(leader.metric("plimsoll_ca_bundle_patches_total{result=\"success\"}"), 3);
    let not_after = Authority::from_pem(&trusted, &cluster.value("ca.key").unwrap()).unwrap();
    let not_after = not_after.root().not_after().as_second();
    assert_eq!(replicas[0].server.metric("plimsoll_certificate_authority_not_after_seconds"), not_after);
    let renew = not_after - i64::try_from(TIMING.margin().as_secs()).unwrap();
    assert_eq!(replicas[0].server.metric("plimsoll_certificate_authority_renew_seconds"), renew);
    assert_eq!(leader.metric("plimsoll_certificate_authority_renew_seconds"), renew);

    // Only the verbs that are granted, on the names that are granted.
    let named = [SECRET, MUTATING, VALIDATING, API_SERVICE];
    for seen in cluster.api.seen() {
        let known = named.contains(&seen.path.as_str()) || seen.path.ends_with("/plimsoll-quota");
        assert!(known, "{} {}", seen.method, seen.path);
        let verbs =
            if seen.path == SECRET { [Method::GET, Method::PUT] } else { [Method::GET, Method::PATCH] };
        assert!(verbs.contains(&seen.method), "{} {}", seen.method, seen.path);
    }
    leader.stop().await;
    for replica in replicas {
        replica.stop().await;
    }
}

#[tokio::test]
async fn a_rotation_costs_no_call() {
    let cluster = Cluster::installed();
    let replica = Replica::start(&cluster).await;
    let leader = Leader::start(&cluster);
    until("ready", || replica.readiness.is_ready()).await;
    let old = cluster.value("ca.crt").unwrap();

    let mut secret = cluster.api.object(SECRET).unwrap();
    secret["metadata"]["annotations"] = json!({"plimsoll.dev/rotate": "today"});
    cluster.api.put(SECRET, secret);
    let (mut calls, mut most, mut serials) = (0, 0, std::collections::BTreeSet::new());
    let start = std::time::Instant::now();
    loop {
        // As an API server that has heard of nothing for a while.
        let heard = cluster.trusted();
        tokio::time::sleep(TIMING.publish_for / 6).await;
        let mut connection = Connection::open(replica.server.address, client(&heard)).await.unwrap();
        assert_eq!(connection.call("/mutate", "{}").await.status, 200);
        serials.insert(connection.peer_serial());
        calls += 1;
        most = most.max(certificates_in(&heard));
        if most == 2 && certificates_in(&heard) == 1 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "after {calls} calls: {}", leader.said());
    }
    assert_ne!(cluster.trusted(), old);
    assert_eq!(cluster.value("rotated").as_deref(), Some("today"));
    assert!(start.elapsed() >= TIMING.certificate_lifetime, "certificates of the old one had not ended");
    assert!(serials.len() >= 2 && calls >= 20, "{} certificates, {calls} calls", serials.len());
    assert_eq!(
        leader.metric("plimsoll_certificate_authority_rotations_total{step=\"drop\",result=\"success\"}"),
        1
    );
    assert_eq!(
        leader.metric("plimsoll_certificate_authority_rotations_total{step=\"make\",result=\"success\"}"),
        2
    );
    leader.stop().await;
    replica.stop().await;
}

#[tokio::test]
async fn a_secret_that_cannot_be_used_is_told_and_never_overwritten() {
    let cluster = Cluster::installed();
    let replica = Replica::start(&cluster).await;
    let leader = Leader::start(&cluster);
    until("ready", || replica.readiness.is_ready()).await;
    let whole = cluster.data();
    let without_key = {
        let mut data = whole.clone();
        data.as_object_mut().unwrap().remove("ca.key");
        data
    };
    let foreign = json!({"tls.crt": "eA==", "tls.key": "eA=="});
    for (rule, data, expected) in [
        ("foreign", foreign, "holds tls.crt, tls.key, which Plimsoll did not write"),
        ("a key was deleted", without_key, "half-written: it has ca.crt and no ca.key"),
        ("garbage", json!({"format": "%"}), "format: is not base64"),
    ] {
        cluster.put_secret(data.clone());
        until(rule, || replica.said().contains(expected) && leader.said().contains(expected)).await;
        assert_eq!(cluster.data(), data, "{rule}: it stays as it is");
        assert!(call(&cluster, &replica).await.is_ok(), "{rule}: the last certificate is served on");
        cluster.put_secret(whole.clone());
        until("mended", || !replica.said().contains(expected) && !leader.said().contains(expected)).await;
    }

    cluster.api.remove(SECRET);
    let expected = "Secret plimsoll-ca is not there in namespace plimsoll-system";
    until("deleted", || replica.said().contains(expected) && leader.said().contains(expected)).await;
    assert!(replica.said().contains("kubectl -n plimsoll-system create secret generic plimsoll-ca"));
    assert_eq!(leader.metric("plimsoll_degraded{reason=\"certificate_authority\"}"), 1);
    assert!(call(&cluster, &replica).await.is_ok());

    // As the message says. Both authorities are trusted, so that nothing fails.
    cluster.put_secret(Value::Null);
    until("a new authority", || certificates_in(&cluster.trusted()) == 2).await;
    let old = cluster.value("previous.crt").unwrap();
    assert_eq!(whole["ca.crt"], cluster.data()["previous.crt"], "{old}");
    until("it is in force", || cluster.value("ca.crt").is_some()).await;
    assert!(call(&cluster, &replica).await.is_ok());
    leader.stop().await;
    replica.stop().await;
}

#[tokio::test]
async fn rights_that_are_missing_are_named() {
    let rows = [
        ("GET", "secrets/", "grant get on secrets to"),
        ("PUT", "secrets/", "grant update on secrets to"),
        ("GET", "/mutating", "grant get on mutatingwebhookconfigurations.admissionregistration.k8s.io to"),
        (
            "PATCH",
            "/validating",
            "grant patch on validatingwebhookconfigurations.admissionregistration.k8s.io to",
        ),
        ("PATCH", "apiservices/", "grant patch on apiservices.apiregistration.k8s.io to"),
    ];
    for (verb, path, expected) in rows {
        let cluster = Cluster::installed();
        cluster.forbid(verb, path);
        let leader = Leader::start(&cluster);
        until(expected, || leader.said().contains(expected)).await;
        let name = if path == "secrets/" { "plimsoll-system/plimsoll-ca" } else { "plimsoll" };
        assert!(leader.said().contains(name) && leader.said().contains("Degraded"), "{}", leader.said());
        if verb == "PATCH" {
            assert!(leader.metric("plimsoll_ca_bundle_patches_total{result=\"failure\"}") > 0);
        }
        if path != "secrets/" {
            // At the first start what can be told to is told.
            until("the others", || cluster.value("ca.crt").is_some()).await;
        }
        cluster.allow_all();
        if verb == "GET" || path == "secrets/" {
            until("mended", || !leader.said().contains("grant")).await;
        }
        leader.stop().await;
    }
}

#[tokio::test]
async fn a_rotation_waits_for_who_cannot_be_told() {
    let cluster = Cluster::installed();
    let leader = Leader::start(&cluster);
    until("the first", || cluster.value("ca.crt").is_some()).await;
    cluster.forbid("GET", "/validating");
    let mut secret = cluster.api.object(SECRET).unwrap();
    secret["metadata"]["annotations"] = json!({"plimsoll.dev/rotate": "1"});
    cluster.api.put(SECRET, secret);
    until("blocked", || leader.said().contains("the new authority waits until it is published everywhere"))
        .await;
    tokio::time::sleep(TIMING.publish_for * 2).await;
    assert!(cluster.value("next.crt").is_some(), "it is not in force");
    cluster.allow_all();
    until("it goes on", || cluster.value("previous.crt").is_some()).await;
    leader.stop().await;
}

#[tokio::test]
async fn nobody_calls_us() {
    let cluster = Cluster::installed();
    for path in [MUTATING, API_SERVICE] {
        cluster.api.remove(path);
    }
    let leader = Leader::start(&cluster);
    until("one is enough", || cluster.value("ca.crt").is_some()).await;
    assert!(!leader.said().contains("neither"), "{}", leader.said());
    cluster.api.remove(VALIDATING);
    let expected = "neither MutatingWebhookConfiguration plimsoll nor ValidatingWebhookConfiguration plimsoll names \
                    Service plimsoll-system/plimsoll";
    until("both are absent", || leader.said().contains(expected)).await;
    leader.stop().await;
}

#[tokio::test]
async fn what_somebody_edits_is_mended() {
    let cluster = Cluster::installed();
    let leader = Leader::start(&cluster);
    until("the first", || cluster.value("ca.crt").is_some()).await;
    let trusted = cluster.trusted();
    for value in [json!(null), json!("Z2FyYmFnZQ=="), json!("%")] {
        let mut object = cluster.api.object(MUTATING).unwrap();
        object["webhooks"][0]["clientConfig"]["caBundle"] = value;
        cluster.api.put(MUTATING, object);
        let written = || cluster.api.object(MUTATING).unwrap();
        until("mended", || {
            let text =
                written()["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap_or_default().len();
            text > 100
        })
        .await;
        assert_eq!(cluster.trusted(), trusted);
    }
    leader.stop().await;
}

/// The pods of another source serve on while those with our certificates come.
#[tokio::test]
async fn what_another_source_wrote_is_trusted_for_a_while() {
    let cluster = Cluster::installed();
    let leader = Leader::start(&cluster);
    until("the first", || cluster.value("ca.crt").is_some()).await;
    let ours = cluster.value("ca.crt").unwrap();
    let theirs = Authority::make("theirs", Duration::from_secs(3600), Timestamp::now()).unwrap().root().pem();
    let mut object = cluster.api.object(MUTATING).unwrap();
    object["webhooks"][0]["clientConfig"]["caBundle"] = json!(BASE64_STANDARD.encode(&theirs));
    cluster.api.put(MUTATING, object);
    until("both", || cluster.trusted() == format!("{ours}{theirs}")).await;
    assert_eq!(cluster.value("previous.crt").as_ref(), Some(&theirs));
    let start = std::time::Instant::now();
    until("and then ours alone", || cluster.trusted() == ours).await;
    assert!(start.elapsed() + Duration::from_millis(200) >= TIMING.certificate_lifetime, "too early");
    leader.stop().await;
}

/// An API server answers in the same way to a patch of an object that was changed and to one that it does not take.
#[tokio::test]
async fn a_patch_that_is_not_taken_is_no_conflict() {
    let cluster = Cluster::installed();
    let leader = Leader::start(&cluster);
    until("the first", || cluster.value("ca.crt").is_some()).await;
    cluster.refuse("PATCH", "/validating");
    let mut secret = cluster.api.object(SECRET).unwrap();
    secret["metadata"]["annotations"] = json!({"plimsoll.dev/rotate": "1"});
    cluster.api.put(SECRET, secret);
    let told = || leader.said();
    until("told", || told().contains("published everywhere") && told().contains("a policy does not take it"))
        .await;
    tokio::time::sleep(TIMING.publish_for).await;
    assert_eq!(
        leader.metric("plimsoll_ca_bundle_patches_total{result=\"failure\"}"),
        1,
        "it is not tried at once"
    );
    assert_eq!(leader.metric("plimsoll_ca_bundle_patches_total{result=\"conflict\"}"), 0);
    assert!(cluster.value("next.crt").is_some(), "it is not in force");
    leader.stop().await;
}

/// No sooner than it is told, and no later: whoever grants the right need not wait long.
#[tokio::test(start_paused = true)]
async fn what_was_refused_is_tried_again_soon() {
    let cluster = Cluster::installed();
    let leader = Leader::start(&cluster);
    until("the first", || cluster.value("ca.crt").is_some()).await;
    cluster.forbid("PATCH", "/validating");
    let mut secret = cluster.api.object(SECRET).unwrap();
    secret["metadata"]["annotations"] = json!({"plimsoll.dev/rotate": "1"});
    cluster.api.put(SECRET, secret);
    until("told", || leader.said().contains("it is tried again every 10 s")).await;
    cluster.allow_all();
    let allowed = tokio::time::Instant::now();
    until("it goes on", || cluster.value("previous.crt").is_some()).await;
    assert!(allowed.elapsed() < Duration::from_secs(12), "{:?}", allowed.elapsed());
    until("nothing is told any more", || !leader.said().contains("tried again")).await;
    leader.stop().await;
}

/// What waits for something to be so for longer than until the next try comes all the same.
#[tokio::test(start_paused = true)]
async fn trying_again_does_not_begin_to_wait_anew() {
    let cluster = Cluster::installed();
    let now = Timestamp::now();
    let hour = Duration::from_secs(3600);
    let timing = Timing {
        authority_lifetime: 100 * hour,
        certificate_lifetime: hour,
        publish_for: Duration::from_secs(35),
    };
    let make = || Authority::make("a", timing.authority_lifetime, now).unwrap();
    let authorities = Authorities {
        current: Some(Arc::new(make())),
        previous: vec![make().root().clone()],
        switched: Some(now - 3 * hour),
        ..Authorities::default()
    };
    cluster.put_secret(json!(authorities.data()));
    cluster.forbid("PATCH", "/validating");
    let clock = plimsoll::server::tls::wall_clock();
    let leader = Leader::start_as(&cluster, clock, timing, Duration::from_secs(1));
    until("told", || leader.said().contains("it is tried again every 10 s")).await;
    let told = tokio::time::Instant::now();
    until("dropped", || cluster.value("previous.crt").is_none()).await;
    assert!(told.elapsed() < Duration::from_secs(60), "{:?}", told.elapsed());
    assert!(leader.metric("plimsoll_ca_bundle_patches_total{result=\"failure\"}") > 2);
    leader.stop().await;
}

/// What a replica says of itself before there is a certificate: why, and nothing of an end in 1970.
#[tokio::test]
async fn without_a_certificate_the_status_says_why() {
    let cluster = Cluster::installed();
    let replica = Replica::start(&cluster).await;
    until("it says what it waits for", || replica.said().contains("plimsoll-certs")).await;
    let config = Arc::new(plimsoll::config::load(&plimsoll::config::Sources::default()).unwrap().config);
    let metrics = Arc::clone(&replica.server.metrics);
    let status = StatusSources::new(config, false, replica.readiness.clone(), metrics).status();
    let part = status.parts.iter().find(|part| part.name == Part::Certificates).unwrap();
    assert_eq!((part.state, &part.not_after), (State::Failed, &None), "{part:?}");
    assert!(part.why.iter().all(|why| why.contains("Secret plimsoll-ca is empty; waiting")), "{part:?}");
    for series in ["plimsoll_tls_certificate_not_after_seconds", "plimsoll_tls_certificate_renew_seconds"] {
        assert_eq!(replica.server.metric(series), 0);
    }
    replica.stop().await;
}

#[tokio::test]
async fn whoever_is_outrun_each_time_says_so() {
    let cluster = Cluster::installed();
    cluster.outrun("PATCH", "/validating");
    let leader = Leader::start(&cluster);
    until("told", || leader.said().contains("it was changed in the meantime, again and again")).await;
    assert_eq!(leader.metric("plimsoll_ca_bundle_patches_total{result=\"failure\"}"), 0);
    cluster.allow_all();
    until("mended", || cluster.value("ca.crt").is_some() && !leader.said().contains("again")).await;
    leader.stop().await;
}

#[tokio::test]
async fn an_authority_by_a_clock_that_was_ahead_is_replaced() {
    let cluster = Cluster::installed();
    let ahead = SignedDuration::from_hours(30 * 24);
    let (clock, now) = test_clock(Timestamp::now() + ahead);
    let leader = Leader::start_with(&cluster, Arc::clone(&clock));
    let replica = Replica::start_with(&cluster, clock, ClientAuth::None, None).await;
    until("ready", || replica.readiness.is_ready()).await;
    let old = cluster.value("ca.crt");
    cluster.forbid("PUT", "secrets/");
    *now.lock().unwrap() -= ahead;
    let not_yet = |text: &str| text.contains("begins at") && text.contains("this machine's clock");
    until("not ready", || replica.readiness.missing().iter().any(|(_, why)| not_yet(why))).await;
    until("told", || not_yet(&replica.said())).await;
    cluster.allow_all();
    until("another", || cluster.value("ca.crt") != old).await;
    until("ready again", || replica.readiness.is_ready()).await;
    assert!(call(&cluster, &replica).await.is_ok());
    leader.stop().await;
    replica.stop().await;
}

#[tokio::test]
async fn two_leaders_at_once_make_one_authority() {
    let cluster = Cluster::installed();
    let leaders = [Leader::start(&cluster), Leader::start(&cluster)];
    until("the first", || cluster.value("ca.crt").is_some()).await;
    until("all agree", || Some(cluster.trusted()) == cluster.value("ca.crt")).await;
    let made: i64 = leaders
        .iter()
        .map(|leader| {
            leader.metric("plimsoll_certificate_authority_rotations_total{step=\"make\",result=\"success\"}")
        })
        .sum();
    assert_eq!(made, 1);
    for leader in leaders {
        leader.stop().await;
    }
}

#[tokio::test]
async fn a_replica_that_cannot_read_serves_to_the_end_and_no_longer() {
    let cluster = Cluster::installed();
    let leader = Leader::start(&cluster);
    until("the first", || cluster.value("ca.crt").is_some()).await;
    let (clock, now) = test_clock(Timestamp::now());
    let replica = Replica::start_with(&cluster, clock, ClientAuth::None, None).await;
    until("ready", || replica.readiness.is_ready()).await;
    let first = call(&cluster, &replica).await.unwrap();

    *now.lock().unwrap() += SignedDuration::from_secs(2);
    until("renewed by the clock", || replica.server.store.serial() != first).await;
    cluster.forbid("GET", "secrets/");
    let second = replica.server.store.serial();
    until("degraded", || replica.said().contains("grant get on secrets")).await;
    assert!(replica.readiness.is_ready(), "its certificate is good for a while");
    assert!(call(&cluster, &replica).await.is_ok());
    *now.lock().unwrap() += SignedDuration::from_secs(4);
    until("not ready", || !replica.readiness.is_ready()).await;
    let missing = replica.readiness.missing();
    assert!(
        missing[0].1.contains("expired at") && missing[0].1.contains("grant get on secrets"),
        "{missing:?}"
    );
    assert_eq!(replica.server.store.serial(), second, "nothing is signed with what may be out of date");

    cluster.allow_all();
    until("ready again", || replica.readiness.is_ready()).await;
    assert_eq!(metric(&replica.server.metrics, "plimsoll_degraded{reason=\"self_managed_certificates\"}"), 0);
    leader.stop().await;
    replica.stop().await;
}

#[tokio::test]
async fn an_authority_that_ended_while_nobody_looked_is_replaced() {
    let cluster = Cluster::installed();
    let (clock, now) = test_clock(Timestamp::now());
    let leader = Leader::start_with(&cluster, clock);
    until("the first", || cluster.value("ca.crt").is_some()).await;
    let old = cluster.value("ca.crt");
    *now.lock().unwrap() += SignedDuration::from_hours(24);
    until("another", || cluster.value("ca.crt") != old && cluster.value("next.crt").is_none()).await;
    until("trusted", || Some(cluster.trusted()) == cluster.value("ca.crt")).await;
    leader.stop().await;
}

#[tokio::test]
async fn clients_may_be_asked_for_certificates() {
    let cluster = Cluster::installed();
    let leader = Leader::start(&cluster);
    let callers = Authority::make("callers", Duration::from_secs(3600), Timestamp::now()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.crt");
    std::fs::write(&file, callers.root().pem()).unwrap();
    let clock = plimsoll::server::tls::wall_clock();
    let replica = Replica::start_with(&cluster, clock, ClientAuth::Required, Some(file.clone())).await;
    until("ready", || replica.readiness.is_ready()).await;
    let issuer = rcgen::Issuer::from_ca_cert_pem(
        &callers.root().pem(),
        KeyPair::from_pem(&callers.key_pem()).unwrap(),
    )
    .unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["caller".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    let config = client_with(&cluster.trusted(), &certificate, &key.serialize_pem());
    let mut shown = Connection::open(replica.server.address, config).await.unwrap();
    assert_eq!(shown.call("/mutate", "{}").await.status, 200);
    let bare = Connection::open(replica.server.address, client(&cluster.trusted())).await;
    if let Ok(mut bare) = bare {
        bare.post("/mutate", "{}").await;
        assert!(bare.try_response().await.is_none(), "it showed no certificate");
    }

    let serial = replica.server.store.serial();
    let others = Authority::make("others", Duration::from_secs(3600), Timestamp::now()).unwrap();
    std::fs::write(&file, others.root().pem()).unwrap();
    until("the new authorities count", || replica.server.store.serial() != serial).await;
    leader.stop().await;
    replica.stop().await;
}
