//! The names of our objects: always the same for the same target, and different for different ones.

use plimsoll_core::pod::Workload;
use sha2::{Digest as _, Sha256};

/// The longest name that an object may have.
const LONGEST: usize = 253;

/// Kinds whose lower-case name stands for one group only.
const KNOWN: [(&str, &str); 11] = [
    ("", "Namespace"),
    ("", "Pod"),
    ("", "ReplicationController"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("apps.kruise.io", "BroadcastJob"),
    ("apps.kruise.io", "CloneSet"),
    ("batch", "CronJob"),
    ("batch", "Job"),
];

/// The name of the `Recommendation` and of the `UsageCheckpoint` about a workload, or about one of its pods.
///
/// `deployment-web` for a Deployment of `apps` named `web`. A hash follows where that would not be enough to tell
/// targets apart: for kinds of other groups, for pods (workload `a-b` and pod `b` of workload `a`), and for names that
/// are too long or hold what a name of an object cannot.
pub fn object_name(target: &Workload, pod: Option<&str>) -> String {
    let mut whole = format!("{}-{}", target.kind.to_ascii_lowercase(), target.name);
    if let Some(pod) = pod {
        whole = format!("{whole}-{pod}");
    }
    let known = KNOWN.iter().any(|(group, kind)| (*group, *kind) == (&target.group, &target.kind));
    if known && pod.is_none() && whole.len() <= LONGEST && is_name(&whole) {
        return whole;
    }
    let hash = hash(target, pod);
    let clean: String = if is_name(&whole) {
        whole
    } else {
        let letter = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
        whole.to_lowercase().chars().map(letter).collect()
    };
    // All ASCII by now, so that every place is between two characters.
    let most = LONGEST - hash.len() - 1;
    let stem = clean.get(..most).unwrap_or(&clean).trim_matches(['-', '.']);
    if stem.is_empty() { hash } else { format!("{stem}-{hash}") }
}

fn is_name(name: &str) -> bool {
    let inner = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
    let label = |label: &str| {
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.split('.').all(label)
}

/// Forty bits: enough to tell the few apart that have the same name otherwise.
fn hash(target: &Workload, pod: Option<&str>) -> String {
    let text = [&target.group, &target.kind, &target.name, pod.unwrap_or_default()].join("\0");
    let number =
        Sha256::digest(text).iter().take(5).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{number:010x}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn workload(group: &str, kind: &str, name: &str) -> Workload {
        Workload { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn names_say_what_they_are_about() {
        let long = "a".repeat(300);
        for (rule, target, pod, start, hashed) in [
            ("workload", workload("apps", "Deployment", "web"), None, "deployment-web", false),
            ("dots", workload("batch", "Job", "a.b"), None, "job-a.b", false),
            ("namespace", workload("", "Namespace", "shop"), None, "namespace-shop", false),
            (
                "pod of a workload",
                workload("apps", "StatefulSet", "web"),
                Some("web-0"),
                "statefulset-web-web-0-",
                true,
            ),
            ("other group", workload("example.org", "Deployment", "web"), None, "deployment-web-", true),
            ("Kruise's", workload("apps.kruise.io", "StatefulSet", "web"), None, "statefulset-web-", true),
            ("too long", workload("apps", "Deployment", &long), None, "deployment-aaa", true),
            ("not ASCII", workload("x.org", "Größe", "ä:B"), None, "gr", true),
            ("nothing", workload("", "", ""), None, "", true),
        ] {
            let name = object_name(&target, pod);
            assert!(name.starts_with(start), "{rule}: {name}");
            assert_eq!(name != start, hashed, "{rule}: {name}");
            assert!(name.len() <= LONGEST && is_name(&name), "{rule}: {name}");
            assert_eq!(name, object_name(&target, pod), "{rule}");
        }
    }

    #[test]
    fn different_targets_have_different_names() {
        let long = |end: &str| format!("{}{end}", "a".repeat(260));
        let targets = [
            (workload("apps", "Deployment", "a"), None),
            (workload("apps", "Deployment", "a"), Some("b")),
            (workload("apps", "Deployment", "a-b"), None),
            (workload("apps", "Deployment", "a-b"), Some("c")),
            (workload("apps", "Deployment", "a"), Some("b-c")),
            (workload("x.org", "Deployment", "a"), None),
            (workload("y.org", "Deployment", "a"), None),
            (workload("apps", "StatefulSet", "a"), None),
            (workload("apps.kruise.io", "StatefulSet", "a"), None),
            (workload("apps", "Deployment", &long("x")), None),
            (workload("apps", "Deployment", &long("y")), None),
            (workload("x.org", "A", "b:c"), None),
            (workload("x.org", "A", "b-c"), None),
        ];
        let names: BTreeSet<_> = targets.iter().map(|(target, pod)| object_name(target, *pod)).collect();
        assert_eq!(names.len(), targets.len(), "{names:?}");
    }

    #[test]
    fn cut_names_are_names() {
        for length in 200..260 {
            let name = object_name(&workload("apps", "Deployment", &"a.".repeat(length)), None);
            assert!(name.len() <= LONGEST && is_name(&name), "{length}: {name}");
            let name =
                object_name(&workload("apps", "Deployment", &format!("{}.b", "a".repeat(length))), Some("c"));
            assert!(name.len() <= LONGEST && is_name(&name), "{length}: {name}");
        }
    }
}
