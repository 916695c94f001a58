//! Reading and writing quantities.

#![allow(clippy::unwrap_used, reason = "what is measured is right, or the run is worth nothing")]

use std::hint::black_box;

use criterion::Criterion;
use plimsoll_quantity::Quantity;

/// As they stand in pods, and the forms that take the long way.
const FORMS: [(&str, &str); 6] = [
    ("whole", "2"),
    ("milli", "250m"),
    ("binary", "512Mi"),
    ("fraction", "0.1"),
    ("exponent", "12e6"),
    ("eighteen digits", "4503599627370497500m"),
];

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("quantity");
    for (form, text) in FORMS {
        group.bench_function(format!("parse {form}"), |b| {
            b.iter(|| Quantity::parse(black_box(text)).unwrap());
        });
    }
    for (form, text) in FORMS {
        let quantity = Quantity::parse(text).unwrap();
        group.bench_function(format!("print {form}"), |b| b.iter(|| black_box(&quantity).canonical()));
    }
    group.finish();
    criterion.final_summary();
}
