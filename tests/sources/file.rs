use std::fs;
use std::path::Path;

use plimsoll::recommender::sources::{File, FileOptions, Scan, Skipped};

use crate::support::{Kept, SECOND, keep, kept};

const HEADER: &str = "series,timestamp,cpu_cores,memory_bytes\n";

/// 2026-03-01T10:00:00Z
const TEN: i64 = 1_772_359_200;

fn source(path: &Path) -> File {
    File::new(FileOptions { path: path.to_owned() })
}

async fn scan(source: &mut File, seconds: i64) -> (Vec<Kept>, Scan) {
    let mut all = Vec::new();
    let scan = source.scan(seconds * SECOND, &mut keep(&mut all)).await;
    assert_eq!(scan.samples, all.len() as u64);
    (all, scan)
}

#[tokio::test]
async fn rows_come_once_when_their_time_has_come() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.csv");
    let mut text = format!(
        "{HEADER}shop/web/app,2026-03-01T10:00:00Z,0.5,100\nshop/web/app,2026-03-01T10:01:00Z,,200\n\
         shop/web/app,2026-03-01T10:05:00Z,0.7,300\nshop/db/app,2026-03-01T10:00:00Z,0.1,\n"
    );
    fs::write(&path, &text).unwrap();
    let mut source = source(&path);

    let (all, outcome) = scan(&mut source, TEN + 60).await;
    assert_eq!(
        all,
        [
            kept("shop/web/app", TEN, Some(0.5), Some(100.0)),
            kept("shop/web/app", TEN + 60, None, Some(200.0)),
            kept("shop/db/app", TEN, Some(0.1), None),
        ],
        "rows up to now; an empty field is no value"
    );
    assert_eq!(outcome.skipped, Skipped::default());

    assert_eq!(scan(&mut source, TEN + 120).await.0, [], "none twice, and none before its time");
    assert_eq!(
        scan(&mut source, TEN + 300).await.0,
        [kept("shop/web/app", TEN + 300, Some(0.7), Some(300.0))],
        "the same file, later"
    );

    text.push_str("shop/web/app,2026-03-01T10:06:00Z,0.8,\nshop/web/app,2026-03-01T10:03:00Z,9,\n");
    fs::write(&path, &text).unwrap();
    assert_eq!(
        scan(&mut source, TEN + 600).await.0,
        [kept("shop/web/app", TEN + 360, Some(0.8), None)],
        "what was added; not what is older than what was delivered"
    );

    fs::write(&path, format!("{HEADER}shop/new/app,2026-03-01T10:07:00Z,1,1\n")).unwrap();
    assert_eq!(
        scan(&mut source, TEN + 600).await.0,
        [kept("shop/new/app", TEN + 420, Some(1.0), Some(1.0))],
        "another file in its place"
    );
}

#[tokio::test]
async fn rows_of_a_series_are_sorted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.csv");
    let rows = "shop/web/app,2026-03-01T10:02:00Z,3,\nshop/db/app,2026-03-01T10:00:00Z,9,\n\
                shop/web/app,2026-03-01T10:00:00Z,1,\nshop/web/app,2026-03-01T10:01:00Z,2,\n\
                shop/web/app,2026-03-01T10:01:00Z,7,\nshop/db/app,2026-03-01T10:00:00Z,8,\n";
    fs::write(&path, format!("{HEADER}{rows}")).unwrap();
    let (all, _) = scan(&mut source(&path), TEN + 600).await;
    assert_eq!(
        all,
        [
            kept("shop/db/app", TEN, Some(9.0), None),
            kept("shop/web/app", TEN, Some(1.0), None),
            kept("shop/web/app", TEN + 60, Some(2.0), None),
            kept("shop/web/app", TEN + 120, Some(3.0), None),
        ],
        "in rising time; of two rows of one time the first counts"
    );
}

#[tokio::test]
async fn what_cannot_be_used_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.csv");
    let none = Skipped::default();
    for (rule, row, expected, skipped) in [
        (
            "a series that names no container",
            "vm-1,2026-03-01T10:00:00Z,1,1",
            0,
            Skipped { missing_labels: 1, ..none },
        ),
        ("four parts", "a/b/c/d,2026-03-01T10:00:00Z,1,1", 0, Skipped { missing_labels: 1, ..none }),
        ("an empty part", "a//c,2026-03-01T10:00:00Z,1,1", 0, Skipped { missing_labels: 1, ..none }),
        ("no value", "a/b/c,2026-03-01T10:00:00Z,,", 0, Skipped { no_value: 1, ..none }),
        ("a negative value", "a/b/c,2026-03-01T10:00:00Z,-1,5", 1, Skipped { invalid: 1, ..none }),
        ("an infinite value", "a/b/c,2026-03-01T10:00:00Z,5,inf", 1, Skipped { not_finite: 1, ..none }),
        ("only NaN", "a/b/c,2026-03-01T10:00:00Z,NaN,", 0, Skipped { not_finite: 1, no_value: 1, ..none }),
    ] {
        fs::write(&path, format!("{HEADER}{row}\n")).unwrap();
        let (all, scan) = scan(&mut source(&path), TEN).await;
        assert_eq!((all.len(), scan.skipped), (expected, skipped), "{rule}");
        assert!(scan.failures.is_empty(), "{rule}");
    }
}

#[tokio::test]
async fn a_broken_file_costs_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.csv");
    let mut source = source(&path);
    let (_, missing) = scan(&mut source, TEN).await;
    assert!(missing.failed());
    assert!(missing.failures[0].message.contains("usage.csv"), "{missing:?}");

    let good = format!("{HEADER}a/b/c,2026-03-01T10:00:00Z,1,\n");
    fs::write(&path, format!("{good}a/b/c,soon,1,\n")).unwrap();
    let (all, broken) = scan(&mut source, TEN + 60).await;
    assert_eq!(all, [kept("a/b/c", TEN, Some(1.0), None)], "the rows before the broken one");
    assert!(broken.failures[0].message.contains("line 3"), "{broken:?}");
    let (all, broken) = scan(&mut source, TEN + 60).await;
    assert!(all.is_empty() && broken.failed(), "it is still broken, and nothing comes twice");

    fs::write(&path, format!("{good}a/b/c,2026-03-01T10:01:00Z,2,\n")).unwrap();
    let (all, mended) = scan(&mut source, TEN + 60).await;
    assert_eq!(all, [kept("a/b/c", TEN + 60, Some(2.0), None)]);
    assert!(mended.failures.is_empty());
}
