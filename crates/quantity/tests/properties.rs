//! What holds for every quantity, checked on random ones.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::cmp::Ordering;

use plimsoll_quantity::{Format, Quantity};
use proptest::prelude::*;

const SUFFIXED: &str =
    "[+-]?(0{0,3}[0-9]{0,22}(\\.[0-9]{0,14}0{0,3})?)([numkMGTPE]?|[KMGTPE]i|[eE][+-]?0?[0-9]{1,2})";

fn format() -> impl Strategy<Value = Format> {
    prop_oneof![Just(Format::DecimalSi), Just(Format::BinarySi), Just(Format::DecimalExponent)]
}

/// Nano-units of every size, and many with factors of 1000 or 1024.
fn nanos() -> impl Strategy<Value = i128> {
    let random = (any::<i128>(), 0u32..127).prop_map(|(n, shift)| n >> shift);
    let decimal = (any::<i64>(), 0u32..19).prop_map(|(n, power)| i128::from(n) * 10i128.pow(power));
    let binary = (any::<i16>(), 0u32..68).prop_map(|(n, shift)| (i128::from(n) << shift) * 1_000_000_000);
    prop_oneof![random, decimal, binary, Just(i128::MAX), Just(i128::MIN)]
}

fn quantity() -> impl Strategy<Value = Quantity> {
    (nanos(), format()).prop_map(|(nanos, format)| Quantity::from_nanos(nanos, format))
}

fn reparse(quantity: &Quantity) -> Quantity {
    quantity.to_string().parse().unwrap()
}

/// A binary value without a binary suffix left reads back as decimal, and may then get a decimal suffix.
fn loses_its_format(quantity: &Quantity, text: &str) -> bool {
    quantity.format() == Format::BinarySi && text.ends_with("000")
}

/// What the format of a canonical text has to be.
fn format_of(text: &str) -> Format {
    if text.ends_with('i') {
        Format::BinarySi
    } else if text.contains('e') {
        Format::DecimalExponent
    } else {
        Format::DecimalSi
    }
}

/// The value of `number` × 10^`power` in nano-units, or `None` beyond `i128`.
fn power_of_ten(number: i64, power: i32) -> Option<i128> {
    i128::from(number).checked_mul(10i128.checked_pow(u32::try_from(power + 9).ok()?)?)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in any::<String>()) {
        if let Ok(quantity) = Quantity::parse(&text) {
            prop_assert_eq!(reparse(&quantity), quantity);
        }
    }

    #[test]
    fn no_text_of_quantity_characters_panics(text in "[-+.0-9eEinumkKMGTP ]{0,12}") {
        if let Ok(quantity) = Quantity::parse(&text) {
            prop_assert_eq!(reparse(&quantity), quantity);
        }
    }

    #[test]
    fn printing_is_a_fixed_point(text in SUFFIXED) {
        let Ok(quantity) = Quantity::parse(&text) else { return Ok(()) };
        let printed = quantity.to_string();
        let again = reparse(&quantity);
        prop_assert_eq!(&again, &quantity);
        if !loses_its_format(&quantity, &printed) {
            prop_assert_eq!(again.to_string(), printed);
        }
        prop_assert_eq!(reparse(&again).to_string(), again.to_string());
    }

    #[test]
    fn nothing_is_lost_in_printing(quantity in quantity()) {
        let text = quantity.to_string();
        let again = reparse(&quantity);
        prop_assert_eq!(again.nanos(), quantity.nanos());
        prop_assert_eq!(again.format(), format_of(&text));
        if !loses_its_format(&quantity, &text) {
            prop_assert_eq!(again.to_string(), text);
        }
    }

    #[test]
    fn a_text_prints_as_itself_or_canonically(text in SUFFIXED) {
        let Ok(quantity) = Quantity::parse(&text) else { return Ok(()) };
        let printed = quantity.to_string();
        let canonical = quantity.clone().with_format(quantity.format()).to_string();
        prop_assert!(printed == text || printed == canonical, "{printed} is neither {text} nor {canonical}");
        prop_assert!(!canonical.contains(['.', '+']), "{canonical}");
    }

    #[test]
    fn every_spelling_has_the_exact_value(
        number in any::<i64>(), shift in 0u32..64, power in -9i32..=24, point in 0usize..12, zeros in 0usize..30,
    ) {
        // number × 10^power, written with `point` of its digits behind the point.
        let number = number >> shift;
        let digits = format!("{:0>width$}", number.unsigned_abs(), width = point + 1);
        let (whole, fraction) = digits.split_at(digits.len() - point);
        let sign = if number < 0 { "-" } else { "" };
        let exponent = i64::from(power) + i64::try_from(point).unwrap();
        let text = format!("{sign}{:0<zeros$}{whole}.{fraction}{:0<zeros$}e{exponent}", "", "");
        prop_assert_eq!(Quantity::parse(&text).ok().map(|q| q.nanos()), power_of_ten(number, power));
    }

    #[test]
    fn binary_fractions_round_up_to_a_nano(
        number in 0u64..1_000_000_000_000, point in 0u32..12, step in 1u32..=6,
    ) {
        let suffix = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][step as usize - 1];
        let scale = 10u64.pow(point);
        let text = format!("{}.{:0>width$}{suffix}", number / scale, number % scale, width = point as usize);
        let cap = u128::from(i64::MAX.unsigned_abs()) * 1_000_000_000;
        let exact = u128::from(number).checked_mul(1 << (10 * step)).and_then(|n| n.checked_mul(1_000_000_000));
        if let Some(exact) = exact {
            let expected = i128::try_from(exact.div_ceil(scale.into()).min(cap)).unwrap();
            prop_assert_eq!(Quantity::parse(&text).unwrap().nanos(), expected, "{}", text);
        }
    }

    #[test]
    fn order_and_equality_agree_with_the_value(
        a in any::<i64>(), ap in -9i32..=10, b in any::<i64>(), bp in -9i32..=10, same in any::<bool>(),
    ) {
        let (b, bp) = if same { (a, bp) } else { (b, bp) };
        let left = Quantity::parse(&format!("{a}e{ap}")).unwrap();
        let right = Quantity::parse(&format!("{b}e{bp}")).unwrap();
        let order = power_of_ten(a, ap).unwrap().cmp(&power_of_ten(b, bp).unwrap());
        prop_assert_eq!(left.cmp(&right), order);
        prop_assert_eq!(left == right, order == Ordering::Equal);
    }

    #[test]
    fn whole_and_milli_units_round_away_from_zero(quantity in quantity()) {
        for (rounded, unit) in [(quantity.value(), 1_000_000_000), (quantity.milli_value(), 1_000_000)] {
            let below = (rounded - quantity.nanos().signum()) * unit;
            prop_assert!(quantity.nanos().unsigned_abs() <= rounded.unsigned_abs() * unit.unsigned_abs());
            prop_assert!(quantity.is_zero() || quantity.nanos().unsigned_abs() > below.unsigned_abs());
        }
    }

    #[test]
    fn subtraction_undoes_addition(a in quantity(), b in quantity()) {
        if let Some(sum) = a.checked_add(&b) {
            prop_assert_eq!(sum.nanos(), a.nanos() + b.nanos());
            prop_assert_eq!(&sum.checked_sub(&b).unwrap(), &a);
            prop_assert_eq!(&b.checked_add(&a).unwrap(), &sum);
            prop_assert_eq!(sum.format(), if a.is_zero() { b.format() } else { a.format() });
        } else {
            prop_assert!(a.nanos().checked_add(b.nanos()).is_none());
        }
    }
}
