#![allow(missing_docs, reason = "test")]
use plimsoll_quantity::Quantity;
#[test]
fn smoke() {
    for (i, o) in [
        ("1.5Gi", "1536Mi"),
        ("0.1Ki", "102400m"),
        ("1e-10", "1e-9"),
        ("2e-2", "20e-3"),
        ("8Ei", "9223372036854775807"),
        ("007", "007"),
        ("0.3Gi", "322122547200m"),
        ("1e-2147483648", "1e-9"),
        ("1E3", "1E3"),
        ("10E", "10E"),
        ("1e19", "10e18"),
        ("62.5Ki", "64000"),
    ] {
        assert_eq!(Quantity::parse(i).unwrap().to_string(), o, "{i}");
    }
}
