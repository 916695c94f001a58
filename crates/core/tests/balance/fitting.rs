//! Whether a pod can be shown to fit on a node.

use plimsoll_core::balance::Claim;
use serde_json::{Value, json};

use crate::support::{World, arc, merge, pod};

/// n1 is too busy, only n4 has room. Zones: n1 and n2 in a, n3 and n4 in b.
fn world(n4: &Value) -> World {
    let mut world = World::new();
    for (name, busy, zone) in [("n1", 0.80, "a"), ("n2", 0.50, "a"), ("n3", 0.50, "b"), ("n4", 0.20, "b")] {
        let mut more = json!({"metadata": {"labels": {"zone": zone, "size": "8"}}});
        if name == "n4" {
            merge(&mut more, n4);
        }
        world.node(name, &more);
        world.busy(name, busy);
    }
    world
}

/// Why the pod does not fit on n4; nothing if it does.
fn misfit(world: &World) -> Option<String> {
    let round = world.rounds(3);
    if round.candidates.iter().any(|found| found.pod.name.as_ref() == "web") {
        assert_eq!(round.candidates[0].target.as_ref(), "n4");
        return None;
    }
    let (_, why) = round.spared.iter().find(|(pod, _)| pod.name.as_ref() == "web").unwrap();
    let why = why.to_string();
    Some(why.strip_prefix("it fits on none of the nodes that have room: 1 ").unwrap_or(&why).to_owned())
}

const BY_AFFINITY: Option<&str> = Some("by selector or affinity");

#[test]
fn selectors_and_affinity() {
    let affinity = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    let one = |key: &str, operator: &str, values: &[&str]| {
        affinity(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
    };
    let field = |operator: &str, name: &str| {
        affinity(json!([{"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]}]))
    };
    let rows = [
        ("selector", json!({"nodeSelector": {"zone": "b"}}), None),
        ("selector, other value", json!({"nodeSelector": {"zone": "a"}}), BY_AFFINITY),
        ("in", one("zone", "In", &["b", "c"]), None),
        ("not in the list", one("zone", "In", &["a"]), BY_AFFINITY),
        ("not in", one("zone", "NotIn", &["a"]), None),
        ("not in, label missing", one("disk", "NotIn", &["a"]), None),
        ("exists", one("zone", "Exists", &[]), None),
        ("does not exist", one("disk", "DoesNotExist", &[]), None),
        ("greater", one("size", "Gt", &["7"]), None),
        ("less", one("size", "Lt", &["9"]), None),
        (
            "an operator that nobody knows",
            one("zone", "Near", &["b"]),
            Some("its node selector or required affinity allows no other node"),
        ),
        ("a field", field("In", "n4"), None),
        ("not a field", field("NotIn", "n4"), BY_AFFINITY),
        (
            "one of two terms",
            affinity(json!([
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
                {"matchExpressions": [{"key": "size", "operator": "In", "values": ["8"]}]},
            ])),
            None,
        ),
        (
            "all expressions of a term",
            affinity(json!([{"matchExpressions": [
                {"key": "size", "operator": "In", "values": ["8"]},
                {"key": "zone", "operator": "In", "values": ["a"]},
            ]}])),
            BY_AFFINITY,
        ),
        (
            "what is preferred does not bind",
            json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}}]}}}),
            None,
        ),
    ];
    for (rule, spec, expected) in rows {
        let mut world = world(&json!({}));
        world.pod_like("n1", "web", 1.0, &json!({"spec": spec}));
        assert_eq!(misfit(&world).as_deref(), expected, "{rule}");
    }
}

#[test]
fn taints_and_tolerations() {
    let keeps_away = Some("by the taint owner");
    let taint = |effect: &str| json!([{"key": "owner", "value": "x", "effect": effect}]);
    for (rule, taints, tolerations, expected) in [
        ("NoSchedule", taint("NoSchedule"), json!([]), keeps_away),
        ("NoExecute", taint("NoExecute"), json!([]), keeps_away),
        ("PreferNoSchedule", taint("PreferNoSchedule"), json!([]), None),
        ("equal", taint("NoSchedule"), json!([{"key": "owner", "value": "x", "effect": "NoSchedule"}]), None),
        ("another value", taint("NoSchedule"), json!([{"key": "owner", "value": "y"}]), keeps_away),
        (
            "another effect",
            taint("NoSchedule"),
            json!([{"key": "owner", "value": "x", "effect": "NoExecute"}]),
            keeps_away,
        ),
        ("exists", taint("NoSchedule"), json!([{"key": "owner", "operator": "Exists"}]), None),
        ("everything", taint("NoExecute"), json!([{"operator": "Exists"}]), None),
        (
            "an operator that nobody knows",
            taint("NoSchedule"),
            json!([{"key": "owner", "operator": "Gt", "value": "x"}]),
            keeps_away,
        ),
    ] {
        let mut world = world(&json!({"spec": {"taints": taints}}));
        world.pod_like("n1", "web", 1.0, &json!({"spec": {"tolerations": tolerations}}));
        assert_eq!(misfit(&world).as_deref(), expected, "{rule}");
    }
}

#[test]
fn requests() {
    let asks = |resource: &str, amount: &str| json!({"spec": {"containers": [{"name": "app", "resources": {"requests": {resource: amount}, "limits": {resource: amount}}}]}});
    for (rule, allocatable, asks, expected) in [
        ("what is left", json!({}), asks("cpu", "8"), None),
        ("less is left", json!({}), asks("cpu", "8001m"), Some("without room for its cpu")),
        ("memory", json!({}), asks("memory", "101Gi"), Some("without room for its memory")),
        (
            "a resource that the node does not have",
            json!({}),
            asks("example.com/gpu", "1"),
            Some("without room for its example.com/gpu"),
        ),
        ("a resource that it has", json!({"example.com/gpu": "1"}), asks("example.com/gpu", "1"), None),
        ("one pod", json!({"pods": "1"}), asks("cpu", "1"), Some("without room for its pods")),
        ("a manifest that does not say how many pods", json!({"pods": null}), asks("cpu", "1"), None),
    ] {
        let mut world = world(&json!({"status": {"allocatable": allocatable}}));
        world.put(&pod("n4", "there", &self::asks_cpu("2")), 0.1);
        world.pod_like("n1", "web", 1.0, &asks);
        assert_eq!(misfit(&world).as_deref(), expected, "{rule}");
    }
}

fn asks_cpu(amount: &str) -> Value {
    json!({"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": amount}}}]}})
}

#[test]
fn host_ports() {
    let port = |port: u16, protocol: &str| json!({"spec": {"containers": [{"name": "app", "ports": [{"hostPort": port, "protocol": protocol}]}]}});
    for (rule, there, expected) in [
        ("free", port(8081, "TCP"), None),
        ("taken", port(8080, "TCP"), Some("by a host port")),
        ("by another protocol", port(8080, "UDP"), None),
    ] {
        let mut world = world(&json!({}));
        world.put(&pod("n4", "there", &there), 0.1);
        world.pod_like("n1", "web", 1.0, &port(8080, "TCP"));
        assert_eq!(misfit(&world).as_deref(), expected, "{rule}");
    }
}

#[test]
fn pods_that_keep_away_or_together() {
    let term = |kind: &str, app: &str, key: &str, more: Value| {
        let mut term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
        merge(&mut term, &more);
        json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
    };
    let away = |app: &str, key: &str| term("podAntiAffinity", app, key, json!({}));
    let with = |app: &str, key: &str| term("podAffinity", app, key, json!({}));
    let keeps_away = Some("by pod anti-affinity");
    let not_there = Some("without the pods that it must be with");
    let rows = [
        ("from whom is there", "n4", json!({}), away("there", "kubernetes.io/hostname"), keeps_away),
        ("from whom is on another node", "n3", json!({}), away("there", "kubernetes.io/hostname"), None),
        ("from whom is in the zone", "n3", json!({}), away("there", "zone"), keeps_away),
        ("from its own, which is nowhere else", "n4", json!({}), away("web", "kubernetes.io/hostname"), None),
        (
            "from another namespace's",
            "n4",
            json!({"metadata": {"namespace": "bank"}}),
            away("there", "zone"),
            None,
        ),
        (
            "from a namespace that it names",
            "n4",
            json!({"metadata": {"namespace": "bank"}}),
            term("podAntiAffinity", "there", "zone", json!({"namespaces": ["bank"]})),
            keeps_away,
        ),
        (
            "from namespaces that nobody looked up",
            "n4",
            json!({"metadata": {"namespace": "bank"}}),
            term(
                "podAntiAffinity",
                "there",
                "zone",
                json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}),
            ),
            keeps_away,
        ),
        ("one there keeps it away", "n4", away("web", "kubernetes.io/hostname"), json!({}), keeps_away),
        ("one in the zone keeps it away", "n3", away("web", "zone"), json!({}), keeps_away),
        ("one there keeps others away", "n4", away("other", "zone"), json!({}), None),
        (
            "by a label that tells pods of a template apart",
            "n4",
            json!({}),
            term(
                "podAntiAffinity",
                "there",
                "zone",
                json!({"labelSelector": {"matchLabels": {"apps.kubernetes.io/pod-index": "7"}}}),
            ),
            keeps_away,
        ),
        (
            "with one by such a label",
            "n4",
            json!({}),
            term(
                "podAffinity",
                "there",
                "zone",
                json!({"labelSelector": {"matchLabels": {"apps.kubernetes.io/pod-index": "7"}}}),
            ),
            not_there,
        ),
        (
            "with one of the same version, which is not looked at",
            "n4",
            json!({}),
            term("podAffinity", "there", "zone", json!({"matchLabelKeys": ["app"]})),
            not_there,
        ),
        (
            "from whom an expression selects",
            "n4",
            json!({}),
            term(
                "podAntiAffinity",
                "there",
                "zone",
                json!({"labelSelector": {"matchLabels": null,
                "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}}),
            ),
            keeps_away,
        ),
        (
            "from nobody: no selector",
            "n4",
            json!({}),
            term("podAntiAffinity", "there", "zone", json!({"labelSelector": null})),
            None,
        ),
        (
            "from everybody: an empty one",
            "n4",
            json!({}),
            term("podAntiAffinity", "there", "zone", json!({"labelSelector": {"matchLabels": null}})),
            keeps_away,
        ),
        ("with whom is there", "n4", json!({}), with("there", "kubernetes.io/hostname"), None),
        ("with whom is in the zone", "n3", json!({}), with("there", "zone"), None),
        ("with whom is elsewhere", "n2", json!({}), with("there", "zone"), not_there),
        ("with itself alone", "n2", json!({}), with("web", "zone"), not_there),
    ];
    for (rule, node, there, own, expected) in rows {
        let mut world = world(&json!({}));
        world.put(&pod(node, "there", &there), 0.1);
        world.pod_like("n1", "web", 1.0, &own);
        assert_eq!(misfit(&world).as_deref(), expected, "{rule}");
    }
}

#[test]
fn hard_topology_spread() {
    let spread = |key: &str, skew: u32, more: Value| {
        let mut constraint = json!({
            "maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        });
        merge(&mut constraint, &more);
        json!({"spec": {"topologySpreadConstraints": [constraint]}})
    };
    let uneven = Some("by topology spread");
    // After it has left, there are as many replicas in zone a, and in zone b, as the row says.
    for (rule, a, b, own, expected) in [
        ("as many on both sides", 1, 1, spread("zone", 1, json!({})), None),
        ("one more already", 1, 2, spread("zone", 1, json!({})), uneven),
        ("one more may be", 1, 2, spread("zone", 2, json!({})), None),
        ("soft", 1, 2, spread("zone", 1, json!({"whenUnsatisfiable": "ScheduleAnyway"})), None),
        (
            "others do not count",
            1,
            2,
            spread("zone", 1, json!({"labelSelector": {"matchLabels": {"app": "x"}}})),
            None,
        ),
        ("more domains than there are", 1, 1, spread("zone", 1, json!({"minDomains": 3})), uneven),
        ("of the same version only", 1, 2, spread("zone", 1, json!({"matchLabelKeys": ["version"]})), uneven),
        ("a key that no node has", 1, 1, spread("rack", 1, json!({})), uneven),
        (
            "zone b only, by selector",
            3,
            2,
            {
                let mut own = spread("kubernetes.io/hostname", 3, json!({}));
                merge(&mut own, &json!({"spec": {"nodeSelector": {"zone": "b"}}}));
                own
            },
            None,
        ),
    ] {
        let mut world = world(&json!({}));
        world.put(&pod("n1", "web", &own), 1.0);
        for (node, count) in [("n2", a), ("n3", b)] {
            for index in 0..count {
                let mut other = pod(node, "web", &own);
                other["metadata"]["name"] = json!(format!("{node}-{index}"));
                world.put(&other, 0.1);
            }
        }
        assert_eq!(misfit(&world).as_deref(), expected, "{rule}");
    }
}

#[test]
fn volumes_of_claims() {
    let with_claim =
        json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
    let zone = |zone: &str| {
        json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}}}})
    };
    for (rule, claim, expected) in [
        ("not read", None, Some("its claim \"data\" was not read in this round")),
        ("everywhere", Some(Claim::of_volume(&json!({"spec": {"csi": {}}}))), None),
        (
            "local",
            Some(Claim::of_volume(&json!({"spec": {"local": {"path": "/d"}}}))),
            Some("the volume of its claim \"data\" is on this node only"),
        ),
        (
            "on this node",
            Some(Claim::of_volume(&json!({"spec": {"hostPath": {"path": "/d"}}}))),
            Some("the volume of its claim \"data\" is on this node only"),
        ),
        ("in the zone of the target", Some(Claim::of_volume(&zone("b"))), None),
        ("in the zone of the source", Some(Claim::of_volume(&zone("a"))), Some("out of reach of its volume")),
        (
            "by an old label, which no node here has",
            Some(Claim::of_volume(&json!({
            "metadata": {"labels": {"failure-domain.beta.kubernetes.io/zone": "b__c"}}, "spec": {}}))),
            Some("out of reach of its volume"),
        ),
        (
            "unbound",
            Some(Claim::Unknown("it is not bound".to_owned())),
            Some("it is not known where the volume of its claim \"data\" can be used: it is not bound"),
        ),
    ] {
        let mut world = world(&json!({}));
        world.pod_like("n1", "web", 1.0, &with_claim);
        let unread = claim.is_none();
        world.claims.extend(claim.map(|claim| ((arc("shop"), Box::from("data")), claim)));
        assert_eq!(misfit(&world).as_deref(), expected, "{rule}");
        let expected = unread.then(|| (arc("shop"), Box::from("data")));
        assert_eq!(
            world.rounds(3).unread,
            Vec::from_iter(expected),
            "{rule}: what must be read to know more"
        );
    }
}

#[test]
fn claimed_devices_cannot_be_judged() {
    let mut world = world(&json!({}));
    world.pod_like(
        "n1",
        "web",
        1.0,
        &json!({"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]}}),
    );
    assert_eq!(misfit(&world).as_deref(), Some("by a resource claim"));
}
