use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use plimsoll_core::objects::{Objects, read_manifest};
use plimsoll_core::placement::WorkloadKey;
use plimsoll_core::pod::Workload;
use plimsoll_core::savings::{Figures, Row};
use serde_json::json;

use super::*;
use crate::decisions::Decided;
use crate::server::Stage;
use crate::survey::{Survey, Surveys};

const CORE: i128 = 1_000_000_000;
const HOSTILE: &str = "<script>alert(1)<b>\u{202e}\"'&";

fn key(namespace: &str, name: &str) -> WorkloadKey {
    let workload =
        Workload { group: "apps".to_owned(), kind: "Deployment".to_owned(), name: name.to_owned() };
    WorkloadKey { namespace: namespace.into(), workload: workload.into() }
}

fn decided(index: u32, namespace: &str, name: &str, outcome: &'static str, why: &str) -> Decided {
    Decided {
        at: Timestamp::UNIX_EPOCH,
        number: u64::from(index),
        stage: Stage::Mutate,
        operation: "CREATE".into(),
        kind: "Pod".into(),
        namespace: namespace.into(),
        name: name.into(),
        dry_run: false,
        outcome,
        profile: Some(HOSTILE.into()),
        why: why.into(),
    }
}

/// 120 workloads in two namespaces, and one with a hostile name; as many decisions.
fn cluster() -> Sources {
    let mut survey = Survey { taken: Timestamp::now(), ..Survey::default() };
    for index in 0..120_u32 {
        let before = Figures { cpu: i128::from(index + 1) * CORE, memory: 1024 * CORE };
        let row = Row { pods: 1, lowered: 1, before, ..Row::default() };
        survey
            .savings
            .workloads
            .insert(key(["bank", "shop"][index as usize % 2], &format!("w-{index:03}")), row);
    }
    survey.savings.workloads.insert(key("shop", HOSTILE), Row { pods: 1, ..Row::default() });
    survey.problems = vec![format!("usage: {HOSTILE}")];
    let known = Sources { surveys: Some(Surveys::default()), ..Sources::default() };
    known.surveys.as_ref().unwrap().put(survey);
    for index in 0..60 {
        known.decisions.record(decided(index, "shop", &format!("w-001-{index}"), "applied", "cpu 1->500m"));
    }
    known.decisions.record(decided(60, "bank", HOSTILE, "skipped_no_profile", HOSTILE));
    known.decisions.record(decided(61, "bank", "x", "error", "the self-check failed"));
    known
}

async fn get(known: &Sources, address: &str) -> (u16, String) {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let (status, text) = page(path.to_owned(), query.to_owned(), known.clone()).await;
    (status.as_u16(), text)
}

/// The texts of the first cells of a page's rows.
fn rows(page: &str) -> Vec<&str> {
    let cells = page.split("<th scope=\"row\">").skip(1);
    cells.map(|cell| cell.split_once("<bdi>").unwrap().1.split_once("</bdi>").unwrap().0).collect()
}

#[tokio::test]
async fn every_page_works_with_a_cluster_and_without() {
    for (rule, known) in [("nothing", Sources::default()), ("cluster", cluster())] {
        for (path, name) in PAGES {
            let (status, text) = get(&known, path).await;
            assert_eq!(status, 200, "{rule} {path}");
            assert_eq!(text.matches("<h1>").count(), 1, "{rule} {path}");
            assert!(text.contains(&format!("<h1><bdi>{name}</bdi></h1>")), "{rule} {path}");
            assert!(text.contains(" aria-current=\"page\""), "{rule} {path}");
            for never in ["<script", "style=\"", "onerror=\"", "http://", "\u{202e}"] {
                assert!(!text.contains(never), "{rule} {path} has {never}");
            }
            let identifiers: Vec<&str> =
                text.split(" id=\"").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect();
            let different: std::collections::BTreeSet<_> = identifiers.iter().collect();
            assert_eq!(different.len(), identifiers.len(), "{rule} {path}: {identifiers:?}");
        }
    }
    let (_, overview) = get(&Sources::default(), "/").await;
    assert!(overview.contains("runs without a cluster"), "what there is not is said: {overview}");
}

#[tokio::test]
async fn workloads_are_filtered_sorted_and_paged() {
    let known = cluster();
    for (rule, address, first, count) in [
        ("the greatest saving first", "/workloads", "w-119", 50),
        ("the second page", "/workloads?page=2", "w-069", 50),
        ("the last page", "/workloads?page=3", "w-019", 21),
        ("beyond the last page", "/workloads?page=99", "w-019", 21),
        ("by name", "/workloads?sort=name", "w-000", 50),
        ("of a namespace", "/workloads?namespace=bank", "w-118", 50),
        ("by a part of the name", "/workloads?q=W-00", "w-009", 10),
        ("blank fields", "/workloads?namespace=&q=&sort=&page=", "w-119", 50),
        ("both", "/workloads?namespace=shop&q=00&sort=name", "w-001", 5),
    ] {
        let (status, text) = get(&known, address).await;
        let rows = rows(&text);
        assert_eq!((status, rows[0], rows.len()), (200, first, count), "{rule}");
    }
    let (_, text) = get(&known, "/workloads?q=w-&sort=name&page=2").await;
    assert!(
        text.contains("href=\"/workloads?q=w-&amp;sort=name&amp;page=3\""),
        "links keep the filter: {text}"
    );
    let (_, text) = get(&known, "/workloads?q=nobody").await;
    assert!(text.contains("No workload is like that."), "{text}");
    let (_, text) = get(&known, "/namespaces?q=ban").await;
    assert_eq!(rows(&text), ["bank"]);
}

#[tokio::test]
async fn decisions_are_filtered_and_paged() {
    let known = cluster();
    for (rule, address, count) in [
        ("the first page", "/decisions", 50),
        ("the second page", "/decisions?page=2", 12),
        ("by outcome", "/decisions?outcome=skipped", 1),
        ("by namespace", "/decisions?namespace=bank", 2),
        ("by a name", "/decisions?q=w-001-1", 11),
        ("by a reason", "/decisions?q=SELF-check", 1),
        ("all of it", "/decisions?outcome=applied&namespace=bank&q=x", 0),
    ] {
        let (status, text) = get(&known, address).await;
        assert_eq!((status, text.matches("<td class=\"when\">").count()), (200, count), "{rule}");
    }
}

#[tokio::test]
async fn what_cannot_be_shown_is_said() {
    let known = cluster();
    for (rule, address, status, part) in [
        ("no page", "/nowhere", 404, "there is no page at /nowhere"),
        ("up", "/workloads/../quota", 400, "a part that no page has"),
        ("up, escaped", "/%2e%2e/etc/passwd", 400, "a part that no page has"),
        ("nul", "/quota%00", 400, "control character"),
        ("no UTF-8", "/workloads/%ff/a/b", 400, "no text in UTF-8"),
        ("two slashes", "//evil.example", 400, "a part that no page has"),
        ("page", "/workloads?page=-1", 400, "page is &quot;-1&quot;, but must be a number from 1"),
        ("order", "/workloads?sort=colour", 400, "must be one of cpu, memory"),
        ("outcome", "/decisions?outcome=%3Cb%3E", 400, "must be one of"),
        ("unknown", "/quota?tree=x", 400, "has no parameter &quot;tree&quot;"),
        ("refresh", "/?refresh=1", 400, "must be 30"),
        ("no asset", "/assets/style.css", 404, "there is no page"),
        (
            "workload",
            "/workloads/shop/Deployment/none",
            404,
            "no pod, recommendation or autoscaler of it is known",
        ),
        ("depth", "/workloads/shop/Deployment", 404, "there is no page"),
    ] {
        let (found, text) = get(&known, address).await;
        assert_eq!(found, status, "{rule}");
        assert!(text.contains(part) && !text.contains("<b>"), "{rule}: {text}");
    }
    let (status, _) = get(&known, &format!("/{}", "a".repeat(100_000))).await;
    assert_eq!(status, 400);
    let (_, text) = get(&known, "/?refresh=30").await;
    assert!(text.contains("http-equiv=\"refresh\" content=\"30\"") && text.contains("Stop that"), "{text}");
}

#[tokio::test]
async fn a_workload_with_a_hostile_name_has_its_page() {
    let known = cluster();
    let address = savings::link(&key("shop", HOSTILE)).unwrap();
    let (status, text) = get(&known, &address).await;
    assert_eq!(status, 200);
    assert!(text.contains("&lt;script&gt;alert(1)&lt;b&gt;\\u{202e}"), "{text}");
    assert!(!text.contains("<script") && !text.contains('\u{202e}'), "{text}");
    let (status, _) = get(&known, "/workloads/shop/deployment/w-001").await;
    assert_eq!(status, 200, "the letter case of kinds does not matter");
    let (status, _) = get(&known, "/workloads/shop/Deployment/w-001?group=batch").await;
    assert_eq!(status, 404, "another group");
}

#[tokio::test]
async fn names_that_are_no_part_of_an_address_have_no_link() {
    for name in ["..", ".", "a/b", "a\\b", "a\0b", ""] {
        assert_eq!(savings::link(&key("shop", name)), None, "{name:?}");
        assert!(!savings::named(&key("shop", name)).into_string().contains("href"), "{name:?}");
    }
    let longest = key("shop", &"\u{1f6a2}".repeat(63));
    let mut survey = Survey::default();
    survey.savings.workloads.insert(longest.clone(), Row::default());
    let known = Sources { surveys: Some(Surveys::default()), ..Sources::default() };
    known.surveys.as_ref().unwrap().put(survey);
    let (status, _) = get(&known, &savings::link(&longest).unwrap()).await;
    assert_eq!(status, 200, "the longest name is not too long for an address");
}

#[tokio::test]
async fn workloads_of_one_name_in_two_groups_have_two_pages() {
    let of = |group: &str, pods: u64| {
        let workload =
            Workload { group: group.to_owned(), kind: "StatefulSet".to_owned(), name: "db".to_owned() };
        let key = WorkloadKey { namespace: "shop".into(), workload: workload.into() };
        (key, Row { pods, ..Row::default() })
    };
    let all = [of("a.example.com", 11), of("apps", 22), of("apps.kruise.io", 33)];
    let known = Sources { surveys: Some(Surveys::default()), ..Sources::default() };
    let mut survey = Survey::default();
    survey.savings.workloads.extend(all.clone());
    known.surveys.as_ref().unwrap().put(survey);
    for (key, row) in &all {
        let (_, text) = get(&known, &savings::link(key).unwrap()).await;
        assert!(text.contains(&format!("{} pods, ", row.pods)), "{}: {text}", key.workload.group);
    }
}

#[tokio::test]
async fn problems_are_told_the_worst_first() {
    let known = cluster();
    let mut objects = Objects::default();
    let broken = json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "OvercommitProfile", "metadata": {"name": "odd"},
        "spec": {"mode": "Static", "static": {"factors": {"cpu": "7"}}},
    });
    objects.put(read_manifest(&broken).unwrap().unwrap());
    let known = Sources { objects: Arc::new(ArcSwap::from_pointee(objects)), ..known };
    let missing = known.readiness.condition("snapshots");
    missing.missing("watches are not complete");
    known.readiness.condition("pods").degraded("old");
    let (_, text) = get(&known, "/").await;
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not told: {text}"));
    assert!(at("watches are not complete") < at("profile odd"), "{text}");
    for part in [
        "spec.static.factors.cpu",
        "usage: &lt;script&gt;",
        "the self-check failed",
        "there is none that can be used",
    ] {
        at(part);
    }
    assert!(at("Failing") < at("Degraded") && at("Degraded") < at(">Note<"));
    let (_, text) = get(&known, "/status").await;
    assert!(text.contains("Not ready") && text.contains("Does not hold"), "{text}");
}

#[tokio::test]
async fn a_workload_that_is_not_known_yet_is_no_404() {
    let known = Sources { surveys: Some(Surveys::default()), ..Sources::default() };
    known.surveys.as_ref().unwrap().failed("the API server is away");
    let address = "/workloads/shop/Deployment/web?refresh=30";
    let (status, text) = get(&known, address).await;
    assert_eq!(status, 503, "{text}");
    for part in ["Not known yet", "the API server is away", "http-equiv=\"refresh\" content=\"30\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    known.surveys.as_ref().unwrap().put(Survey::default());
    assert_eq!(get(&known, address).await.0, 404, "it was read, and there is none");
}

#[tokio::test]
async fn the_cluster_is_read_only_for_pages_that_show_its_figures() {
    for (address, asks) in [
        ("/", true),
        ("/namespaces", true),
        ("/workloads", true),
        ("/workloads/shop/Deployment/web", true),
        ("/quota", false),
        ("/nodes", false),
        ("/decisions", false),
        ("/status", false),
    ] {
        let known = Sources { surveys: Some(Surveys::default()), ..Sources::default() };
        let surveys = known.surveys.as_ref().unwrap();
        surveys.failed("nobody reads here");
        get(&known, address).await;
        assert_eq!(surveys.is_asked_for(), asks, "{address}");
    }
}

#[tokio::test]
async fn an_error_of_yesterday_is_no_problem_of_today() {
    let known = Sources::default();
    let mut old = decided(1, "shop", "web", "error", "the self-check failed");
    old.at = Timestamp::now() - jiff::SignedDuration::from_hours(2);
    known.decisions.record(old);
    let (_, text) = get(&known, "/status").await;
    assert!(!text.contains("ended in an error"), "{text}");
    let mut new = decided(2, "shop", "web", "error", "the self-check failed");
    new.at = Timestamp::now();
    known.decisions.record(new);
    let (_, text) = get(&known, "/status").await;
    assert!(text.contains("1 request of the last ones ended in an error"), "{text}");
}

#[test]
fn answers_tell_browsers_what_they_may_do() {
    let pages = [answer::html((StatusCode::OK, String::new())), answer::asset(&assets::STYLE)];
    for response in &pages {
        let header = |name: &str| response.headers()[name].to_str().unwrap();
        assert!(header("content-security-policy").starts_with("default-src 'none'; style-src 'self'"));
        assert!(
            !header("content-security-policy").contains("unsafe")
                && !header("content-security-policy").contains("script")
        );
        assert_eq!((header("x-content-type-options"), header("referrer-policy")), ("nosniff", "no-referrer"));
    }
    assert_eq!(pages[0].headers()["cache-control"], "no-store");
    assert!(pages[1].headers()["cache-control"].to_str().unwrap().contains("immutable"));
}

#[tokio::test]
async fn a_page_of_quota_that_begins_inside_a_node_names_it() {
    use plimsoll_core::quota::ledger::Ledger;
    use plimsoll_core::quota::{Node, Tree};

    let bounds = (0..60).map(|index| (format!("example.com/r{index:02}"), CORE));
    let node = Node { name: "leaf".into(), max: bounds.collect(), ..Node::default() };
    let tree = Tree::new("t", "", 1, [node]);
    let ledger = Ledger::unknown(&tree, 1);
    let known = Sources::default();
    let read = crate::quota::content::Known { tree: Arc::new(tree), ledger, at: Timestamp::UNIX_EPOCH };
    known.ledger.store(Some(Arc::new(read)));
    for (rule, address, rows) in [("the first page", "/quota", 50), ("inside the node", "/quota?page=2", 10)]
    {
        let (_, text) = get(&known, address).await;
        assert_eq!(text.matches("<span aria-hidden=\"true\"><bdi>leaf</bdi>").count(), 1, "{rule}: {text}");
        assert_eq!(text.matches("<span class=\"hidden\"><bdi>leaf</bdi>").count(), rows, "{rule}: {text}");
    }
}
