//! `--watch`, on a pipe.

use std::io::{BufRead as _, BufReader};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::api::Api;

#[test]
fn the_same_again_until_ctrl_c() {
    let api = Api::start();
    api.list("/api/v1/pods", &[]);
    let mut child = api.command("top --usage none -w --interval 1s").spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut next = |what: &str| lines.by_ref().find(|line| line.starts_with(what)).is_some();
    assert!(next("NAMESPACE"));
    let pod =
        json!({"metadata": {"name": "a", "namespace": "shop"}, "spec": {"containers": [{"name": "a"}]}});
    api.list("/api/v1/pods", &[pod]);
    assert!(next("---") && next("NAMESPACE") && next("shop"), "a line between two answers that differ");
    // What fails is shown on standard error, and tried again.
    api.remove("/api/v1/pods");
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(errors.any(|line| line.starts_with("error: ") && line.ends_with("; trying again")));
    api.list("/api/v1/pods", &[]);
    assert!(next("---") && next("NAMESPACE"), "it works again");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_will_never_be_right_ends() {
    let api = Api::start();
    api.put("/api/v1/namespaces/shop", json!({"metadata": {"name": "shop"}}));
    let run = api.run("explain workload none -w");
    assert_eq!(run.code, 2, "{run:?}");
    assert_eq!(api.run("top --interval 5s").code, 2, "--interval is of --watch");
}

#[test]
fn json_has_a_line_for_each_answer() {
    let api = Api::start();
    api.list("/api/v1/pods", &[]);
    for form in ["json", "yaml"] {
        let mut child = api.command(&format!("top --usage none -w --interval 1s -o {form}")).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut answer = lines.next().unwrap();
        if form == "json" {
            for _ in 0..2 {
                let value: serde_json::Value = serde_json::from_str(&answer).unwrap();
                assert_eq!(value["total"]["pods"], 0);
                answer = lines.next().unwrap();
            }
        } else {
            assert!(lines.by_ref().any(|line| line == "---"), "{answer}");
        }
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}
