//! Whether an installation does what it is there for.

use serde_json::json;

use crate::api::{Api, status};

const DENIED: &str =
    "admission webhook \"overcommitprofiles.plimsoll.dev\" denied the request: spec.match: no";

fn denies(api: &Api) {
    api.meddle(|_, seen| {
        assert_eq!(
            (seen.path.as_str(), seen.query["dryRun"].as_str()),
            ("/apis/plimsoll.dev/v1alpha1/overcommitprofiles", "All")
        );
        Some(status(403, "Forbidden", DENIED))
    });
}

#[test]
fn a_profile_that_only_the_server_refuses() {
    let api = Api::start(true);
    denies(&api);
    let run = api.run("check install --wait 0s");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.out, "The API server asks Plimsoll, and believes it.\n");
}

#[test]
fn it_is_waited_for() {
    let api = Api::start(true);
    api.pass();
    denies(&api);
    let run = api.run("check install --wait 1m");
    assert_eq!((run.code, api.seen().len()), (0, 2), "{run:?}");
}

#[test]
fn what_is_the_matter_is_said() {
    for (rule, answer, said) in [
        ("nobody asks the server", None, "the API server does not reach Plimsoll"),
        (
            "fail closed",
            Some((500, "InternalError", "failed calling webhook \"overcommitprofiles.plimsoll.dev\": x509")),
            "x509",
        ),
        (
            "not allowed",
            Some((403, "Forbidden", "cannot create")),
            "grant create on overcommitprofiles.plimsoll.dev",
        ),
    ] {
        let api = Api::start(true);
        if let Some((code, reason, message)) = answer {
            for _ in 0..4 {
                api.fail(code, reason, message);
            }
        }
        let run = api.run("check install --wait 0s");
        assert_eq!(run.code, 1, "{rule}: {run:?}");
        assert!(run.out.contains(said), "{rule}: {}", run.out);
    }
}

#[test]
fn pods_of_a_namespace_are_changed() {
    let applied = "static(shared-pool): app cpu 1 -> 500m";
    for (rule, annotations, code, said) in [
        (
            "changed",
            json!({"plimsoll.dev/applied": applied}),
            0,
            "A pod of shop is changed: static(shared-pool)",
        ),
        ("no profile", json!({}), 1, "a pod of shop is not changed: is there a profile that matches it"),
    ] {
        let api = Api::start(true);
        denies(&api);
        api.meddle(move |_, seen| {
            assert_eq!(
                (seen.path.as_str(), seen.query["dryRun"].as_str()),
                ("/api/v1/namespaces/shop/pods", "All")
            );
            let mut pod = seen.body.clone();
            pod["metadata"]["annotations"] = annotations.clone();
            Some((201, pod))
        });
        let run = api.run("check install --wait 0s --pods-of shop");
        assert_eq!(run.code, code, "{rule}: {run:?}");
        assert!(run.out.contains(said), "{rule}: {}", run.out);
    }
}
