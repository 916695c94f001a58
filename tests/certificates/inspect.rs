//! `plimsoll certs inspect` as a person runs it: on files, and on a cluster behind a socket.

use std::convert::Infallible;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use kube::client::Body;
use plimsoll::certificates::Authority;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::world::{API_SERVICE, Cluster, Leader, MUTATING, Replica, SECRET, VALIDATING};
use crate::wait::until;

/// Serves a cluster on loopback; the folder has a kubeconfig for it.
async fn listen(cluster: &Cluster) -> TempDir {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = cluster.client();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let client = client.clone();
            let answer = service_fn(move |request: http::Request<Incoming>| {
                let client = client.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let request = http::Request::from_parts(parts, Body::from(body.to_vec()));
                    let (parts, body) = client.send(request).await.unwrap().into_parts();
                    let body: Bytes = body.collect_bytes().await.unwrap();
                    Ok::<_, Infallible>(http::Response::from_parts(parts, Full::new(body)))
                }
            });
            tokio::spawn(async move {
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(tcp), answer)
                    .await;
            });
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
    folder
}

async fn inspect(folder: &Path, arguments: &str) -> (i32, String, String) {
    let (folder, arguments) = (folder.to_owned(), arguments.to_owned());
    let run = move || -> Output {
        Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["certs", "inspect"])
            .args(arguments.split_whitespace())
            .current_dir(folder)
            .env_clear()
            .output()
            .unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn a_cluster() {
    let cluster = Cluster::installed();
    let folder = listen(&cluster).await;
    let at = |more: &str| format!("--kubeconfig kubeconfig {more}");

    let (code, out, _) = inspect(folder.path(), &at("")).await;
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("problem: Secret plimsoll-system/plimsoll-ca is empty"), "{out}");

    let leader = Leader::start(&cluster);
    let replica = Replica::start(&cluster).await;
    until("ready", || replica.readiness.is_ready()).await;
    let address = replica.server.address;
    let server = format!("--server {address} --server-name localhost");
    let (code, out, err) = inspect(folder.path(), &at(&server)).await;
    assert_eq!(code, 0, "{out}{err}");
    for expected in [
        "Secret plimsoll-system/plimsoll-ca",
        "current",
        "MutatingWebhookConfiguration plimsoll",
        "APIService",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    let (code, out, _) = inspect(folder.path(), &at(&format!("-o json {server}"))).await;
    let report: Value = serde_json::from_str(&out).unwrap();
    let fingerprint = &report["authorities"][0]["fingerprint"];
    assert_eq!((code, &report["authorities"][0]["role"]), (0, &json!("current")));
    let bundles = report["bundles"].as_array().unwrap();
    assert_eq!(bundles.len(), 3, "{out}");
    assert!(
        bundles.iter().all(|bundle| bundle["agrees"] == true && bundle["trusts"] == json!([fingerprint])),
        "{out}"
    );
    assert_eq!(report["served"]["problem"], Value::Null, "{out}");
    assert!(!out.contains("PRIVATE") && !out.contains("ca.key"), "{out}");
    let (code, yaml, _) = inspect(folder.path(), &at("-o yaml")).await;
    assert!(code == 0 && yaml.contains("role: current"), "{yaml}");
    let (code, out, _) = inspect(folder.path(), &at(&format!("--server {address}"))).await;
    assert!(code == 0, "the Service's name is in it too: {out}");
    let (code, out, _) =
        inspect(folder.path(), &at(&format!("--server {address} --server-name example.org"))).await;
    assert!(code == 1 && out.contains("is not trusted"), "{out}");

    leader.stop().await;
    let mut object = cluster.api.object(VALIDATING).unwrap();
    object["webhooks"][0]["clientConfig"]["caBundle"] = json!("");
    cluster.api.put(VALIDATING, object);
    let (code, out, _) = inspect(folder.path(), &at("")).await;
    let expected = "problem: ValidatingWebhookConfiguration plimsoll does not trust what the Secret says";
    assert!(code == 1 && out.contains(expected), "{out}");

    let whole = cluster.data();
    let mut half = whole.clone();
    half["ca.key"].take();
    half.as_object_mut().unwrap().remove("ca.key");
    cluster.put_secret(half);
    let (code, out, _) = inspect(folder.path(), &at("")).await;
    assert!(code == 1 && out.contains("is half-written: it has ca.crt and no ca.key"), "{out}");
    // With certificates from files there is no Secret, and nothing to compare.
    let mut from_files = cluster.api.object(VALIDATING).unwrap();
    let bundle = &cluster.api.object(MUTATING).unwrap()["webhooks"][0]["clientConfig"]["caBundle"];
    from_files["webhooks"][0]["clientConfig"]["caBundle"] = bundle.clone();
    cluster.api.remove(SECRET);
    let (code, out, _) = inspect(folder.path(), &at("")).await;
    let expected = "problem: ValidatingWebhookConfiguration plimsoll trusts nobody: set its caBundle";
    assert!(code == 1 && out.contains(expected), "{out}");
    cluster.api.put(VALIDATING, from_files);
    let (code, out, _) = inspect(folder.path(), &at("")).await;
    assert!(code == 0 && out.contains("is not there: certificates come from files"), "{out}");
    for name in [VALIDATING, MUTATING, API_SERVICE] {
        let Some(mut object) = cluster.api.object(name) else { continue };
        match object["webhooks"].as_array_mut() {
            Some(webhooks) => {
                for webhook in webhooks.iter_mut() {
                    webhook["clientConfig"]["caBundle"] = json!("");
                }
            }
            None => object["spec"]["caBundle"] = json!(""),
        }
        cluster.api.put(name, object);
    }
    let (code, out, _) = inspect(folder.path(), &at("")).await;
    assert!(code == 1 && out.contains("Secret plimsoll-ca is not there"), "{out}");

    cluster.forbid("GET", "secrets/");
    let (code, _, err) = inspect(folder.path(), &at("")).await;
    assert!(code == 3 && err.contains("grant get on secrets"), "{err}");
    replica.stop().await;
}

#[tokio::test]
async fn files_and_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let now = Timestamp::now();
    let hour = Duration::from_secs(3600);
    let (ours, theirs) =
        (Authority::make("ours", hour, now).unwrap(), Authority::make("ours", hour, now).unwrap());
    write("ours.crt", &ours.root().pem());
    write("ours.key", &ours.key_pem());
    write("theirs.crt", &theirs.root().pem());
    let leaf = ours.issue(&["localhost".to_owned()], now, now + hour).unwrap();
    let leaf = plimsoll::certificates::authority::Root::from_der(&leaf.certificate).unwrap();
    write("leaf.crt", &leaf.pem());
    let old = Authority::make("old", hour, now - 48 * hour).unwrap();
    write("old.crt", &old.root().pem());

    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let free = nobody.local_addr().unwrap();
    drop(nobody);
    let at_nobody = format!("--ca ours.crt --server {free}");
    for (rule, arguments, expected, says) in [
        ("its CA", "--cert leaf.crt --ca ours.crt", 0, ""),
        ("another CA", "--cert leaf.crt --ca theirs.crt", 1, "does not lead to any of the authorities"),
        ("a pair by position", "ours.crt ours.key", 0, "ours.key"),
        ("another's key", "theirs.crt ours.key", 1, "belongs to none"),
        ("expired", "--cert old.crt", 1, "Expired"),
        ("not there", "--cert none.crt", 2, ""),
        ("no certificate in it", "--cert leaf.crt --ca ours.key", 2, ""),
        ("a server needs to be trusted by somebody", "--cert leaf.crt --server localhost:1", 2, ""),
        ("no port", "--ca ours.crt --server localhost", 2, ""),
        ("files and a cluster", "leaf.crt --kubeconfig kubeconfig", 2, ""),
        ("nobody is there", &at_nobody, 1, "cannot be reached"),
    ] {
        let (code, out, err) = inspect(folder.path(), arguments).await;
        assert_eq!(code, expected, "{rule}: {out}{err}");
        assert!(out.contains(says), "{rule}: {out}{err}");
    }
    let (_, out, _) = inspect(folder.path(), "--cert leaf.crt --ca ours.crt -o json").await;
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["certificates"][0]["trusted"], true, "{out}");
}
