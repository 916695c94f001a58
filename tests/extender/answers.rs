//! What is asked, and what comes back.

use serde_json::{Value, json};

use crate::support::Running;

const PRIORITIZE: &str = "/scheduler/prioritize";
const FILTER: &str = "/scheduler/filter";

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"a": "b"}}, "status": {"capacity": {"cpu": "8"}}})
}

#[tokio::test]
async fn nodes_are_prioritized_in_both_forms() {
    let running = Running::new().await;
    let mut connection = running.connect().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
    let scores =
        json!([{"Host": "n3", "Score": 3}, {"Host": "n10", "Score": 10}, {"Host": "n0", "Score": 0}]);
    let names = ["n3", "n10", "n0"];
    let whole = json!({"metadata": {}, "items": names.map(node)});
    for (rule, args, expected) in [
        ("names", json!({"Pod": pod, "Nodes": null, "NodeNames": names}), &scores),
        ("lower case", json!({"pod": pod, "nodes": null, "nodenames": names}), &scores),
        ("other case", json!({"POD": pod, "nodeNames": names}), &scores),
        ("unknown fields", json!({"Future": [{}], "Pod": pod, "NodeNames": names}), &scores),
        ("names twice", json!({"Pod": pod, "NodeNames": ["n3", "n10", "n3", "n0", "n10"]}), &scores),
        ("a null among them", json!({"Pod": pod, "NodeNames": ["n3", "n10", null, "n0"]}), &scores),
        ("whole nodes", json!({"Pod": pod, "Nodes": whole, "NodeNames": null}), &scores),
        ("whole nodes, lower case", json!({"pod": pod, "nodes": whole}), &scores),
        ("no pod", json!({"NodeNames": names}), &scores),
        ("pod is null", json!({"Pod": null, "NodeNames": names}), &scores),
        ("pod is no object", json!({"Pod": "x", "NodeNames": names}), &scores),
        ("no nodes", json!({"Pod": pod, "NodeNames": []}), &json!([])),
        ("null everywhere", json!({"Pod": null, "Nodes": null, "NodeNames": null}), &json!([])),
        ("nothing", json!({}), &json!([])),
        (
            "names that need escapes",
            json!({"NodeNames": ["a\"\n\u{e9}"]}),
            &json!([{"Host": "a\"\n\u{e9}", "Score": 5}]),
        ),
    ] {
        let answer = connection.post(PRIORITIZE, args.to_string()).await;
        assert_eq!(&answer.json(), expected, "{rule}");
        assert!(!answer.body.contains('.') && !answer.body.contains("null"), "{rule}: {}", answer.body);
    }
    assert_eq!(running.metric("plimsoll_extender_weights_total{from=\"image\"}"), 15);
    assert_eq!(running.metric("plimsoll_extender_whole_nodes_total"), 2);
    running.stop().await;
}

#[tokio::test]
async fn nodes_are_filtered_in_both_forms() {
    let running = Running::new().await;
    let mut connection = running.connect().await;
    let failed = json!({"hot1": "cpu 0.91 > 0.85"});
    let answer = connection.post(FILTER, json!({"NodeNames": ["a", "hot1", "b"]}).to_string()).await;
    assert_eq!(
        answer.json(),
        json!({"NodeNames": ["a", "b"], "FailedNodes": failed, "FailedAndUnresolvableNodes": failed, "Error": ""})
    );
    // As it was sent, also what JSON libraries write in another way.
    let a = r#"{ "metadata":{"name" : "a"},  "x":1.50, "u":"\u0041" }"#;
    let body = format!(
        r#"{{"Nodes":{{"metadata":{{"resourceVersion":"1"}},"items":[{a},{{"metadata":{{"name":"hot1"}}}}]}},"NodeNames":null}}"#
    );
    let answer = connection.post(FILTER, body).await;
    assert!(answer.body.contains(&format!("\"items\":[{a}]")), "{}", answer.body);
    assert_eq!(answer.json()["FailedNodes"], failed);
    let answer = connection.post(FILTER, json!({"NodeNames": []}).to_string()).await;
    assert_eq!(
        answer.json(),
        json!({"NodeNames": [], "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": ""})
    );
    assert_eq!(running.metric("plimsoll_extender_refused_nodes_total"), 2);
    running.stop().await;
}

#[tokio::test]
async fn what_cannot_be_read_is_a_400_that_says_where() {
    let running = Running::new().await;
    let mut connection = running.connect().await;
    for path in [PRIORITIZE, FILTER] {
        for (rule, body, place) in [
            ("empty", "", "line 1 column 0"),
            ("no JSON", "{\"NodeNames\": [\n\"a\",]}", "line 2 column 5"),
            ("a list", "[]", "line 1"),
            ("names are a text", r#"{"NodeNames": "a"}"#, "expected a list of node names at line 1"),
            ("a name is a number", r#"{"NodeNames": [1.5]}"#, "line 1"),
        ] {
            let answer = connection.post(path, body).await;
            let message = answer.refusal(400);
            assert!(message.contains(place) && message.contains("ExtenderArgs"), "{rule}: {message}");
            assert!(!answer.closes, "{rule}");
        }
    }
    assert_eq!(running.metric("plimsoll_extender_connections_accepted_total"), 1, "the connection goes on");
    running.stop().await;
}

#[tokio::test]
async fn paths_methods_and_types() {
    let running = Running::new().await;
    for (rule, method, path, content_type, code, allow) in [
        ("no such path", "POST", "/scheduler/bind", Some("application/json"), 404, None),
        ("no such path", "GET", "/", None, 404, None),
        ("GET", "GET", PRIORITIZE, None, 405, Some("POST")),
        ("PUT", "PUT", FILTER, Some("application/json"), 405, Some("POST")),
        ("POST", "POST", "/watcher", Some("application/json"), 405, Some("GET")),
        ("POST", "DELETE", "/watcher/health", None, 405, Some("GET")),
        ("YAML", "POST", PRIORITIZE, Some("application/yaml"), 415, None),
        ("no type", "POST", PRIORITIZE, None, 415, None),
    ] {
        let mut connection = running.connect().await;
        let body = if content_type.is_some() { "{}" } else { "" };
        let answer = connection.send(method, path, content_type, body.into()).await.unwrap();
        assert_eq!((answer.status, answer.allow.as_deref()), (code, allow), "{rule}: {}", answer.body);
    }
    let charset = Some("application/json; charset=utf-8");
    let answer = running.connect().await.send("POST", PRIORITIZE, charset, "{}".into()).await.unwrap();
    assert_eq!(answer.json(), json!([]));
    running.stop().await;
}

#[tokio::test]
async fn a_fault_of_ours_is_no_failure_of_the_scheduler() {
    let running = Running::new().await;
    let mut connection = running.connect().await;
    let args = json!({"Pod": {"metadata": {"name": "panic"}}, "NodeNames": ["n1", "hot1"]}).to_string();
    let answer = connection.post(PRIORITIZE, args.clone()).await;
    assert_eq!(answer.json(), json!([{"Host": "n1", "Score": 5}, {"Host": "hot1", "Score": 5}]));
    let answer = connection.post(FILTER, args).await.json();
    assert_eq!((&answer["NodeNames"], &answer["FailedNodes"]), (&json!(["n1", "hot1"]), &json!({})));
    for verb in ["prioritize", "filter"] {
        let series = format!("plimsoll_extender_requests_total{{verb=\"{verb}\",outcome=\"equal\"}}");
        assert_eq!(running.metric(&series), 1, "{verb}");
    }
    running.stop().await;
}
