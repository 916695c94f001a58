//! Ratios and scaling, against arithmetic on numbers of any length.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use plimsoll_quantity::{ParseRatioError, Quantity, Ratio, Rounding, scale};
use proptest::prelude::*;

/// A natural number as bits, least significant first: slow, and too simple to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Natural(Vec<bool>);

impl Natural {
    fn new(mut n: u128) -> Self {
        let mut bits = Vec::new();
        while n > 0 {
            bits.push(n & 1 == 1);
            n >>= 1;
        }
        Self(bits)
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&false) {
            self.0.pop();
        }
        self
    }

    fn bit(&self, at: usize) -> bool {
        self.0.get(at).copied().unwrap_or(false)
    }

    fn shifted(&self, by: usize) -> Self {
        Self([vec![false; by], self.0.clone()].concat()).trimmed()
    }

    fn plus(&self, other: &Self) -> Self {
        let mut carry = 0;
        let bits = (0..=self.0.len().max(other.0.len())).map(|at| {
            let sum = u8::from(self.bit(at)) + u8::from(other.bit(at)) + carry;
            carry = sum / 2;
            sum % 2 == 1
        });
        Self(bits.collect()).trimmed()
    }

    /// `self - other`, or `None` below zero.
    fn minus(&self, other: &Self) -> Option<Self> {
        let mut borrow = 0;
        let mut bits = Vec::new();
        for at in 0..self.0.len().max(other.0.len()) {
            let difference = i8::from(self.bit(at)) - i8::from(other.bit(at)) - borrow;
            borrow = i8::from(difference < 0);
            bits.push(difference.rem_euclid(2) == 1);
        }
        (borrow == 0).then(|| Self(bits).trimmed())
    }

    fn times(&self, other: &Self) -> Self {
        (0..self.0.len()).filter(|at| self.0[*at]).fold(Self::new(0), |sum, at| sum.plus(&other.shifted(at)))
    }

    fn divided_by(&self, divisor: &Self) -> (Self, Self) {
        let mut rest = self.clone();
        let mut quotient = Self::new(0);
        for shift in (0..=self.0.len().saturating_sub(divisor.0.len())).rev() {
            if let Some(less) = rest.minus(&divisor.shifted(shift)) {
                rest = less;
                quotient = quotient.plus(&Self::new(1).shifted(shift));
            }
        }
        (quotient, rest)
    }

    fn to_u128(&self) -> Option<u128> {
        (self.0.len() <= 128).then(|| self.0.iter().rev().fold(0, |n, bit| (n << 1) | u128::from(*bit)))
    }
}

/// `scale` by the book.
fn reference(nanos: i128, ratio: &Ratio, unit: u128, rounding: Rounding) -> Option<i128> {
    let product = Natural::new(nanos.unsigned_abs()).times(&Natural::new(ratio.num()));
    let divisor = Natural::new(ratio.den()).times(&Natural::new(unit));
    let (mut multiples, rest) = product.divided_by(&divisor);
    if rounding == Rounding::Up && rest != Natural::new(0) {
        multiples = multiples.plus(&Natural::new(1));
    }
    let magnitude = multiples.times(&Natural::new(unit)).to_u128()?;
    if nanos < 0 { 0i128.checked_sub_unsigned(magnitude) } else { magnitude.try_into().ok() }
}

/// Numbers of every size.
fn sized() -> impl Strategy<Value = u128> {
    (any::<u128>(), 0u32..128).prop_map(|(n, shift)| n >> shift)
}

fn ratio() -> impl Strategy<Value = Ratio> {
    prop_oneof![
        (sized(), sized()).prop_map(|(num, den)| Ratio::new(num, den.max(1)).unwrap()),
        // Near one, so that large values stay in range.
        (any::<u128>(), 0u128..1000, 0u128..1000).prop_map(|(n, a, b)| Ratio::new(
            (n >> 1) + a,
            (n >> 1) + b + 1
        )
        .unwrap()),
        (0u64..200, 0u32..4).prop_map(|(n, places)| Ratio::new(n.into(), 10u128.pow(places)).unwrap()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn scaling_is_exact(nanos in any::<i128>(), shift in 0u32..128, ratio in ratio(), unit in sized(), up in any::<bool>()) {
        let nanos = nanos >> shift.min(127);
        let unit = i128::try_from(unit >> 1).unwrap().max(1);
        let rounding = if up { Rounding::Up } else { Rounding::Down };
        prop_assert_eq!(
            scale(nanos, &ratio, unit, rounding),
            reference(nanos, &ratio, unit.unsigned_abs(), rounding)
        );
    }

    #[test]
    fn ratios_are_ordered_by_value(a in ratio(), b in ratio()) {
        let left = Natural::new(a.num()).times(&Natural::new(b.den()));
        let right = Natural::new(b.num()).times(&Natural::new(a.den()));
        let order = match (left.minus(&right), right.minus(&left)) {
            (Some(_), Some(_)) => std::cmp::Ordering::Equal,
            (Some(_), None) => std::cmp::Ordering::Greater,
            _ => std::cmp::Ordering::Less,
        };
        prop_assert_eq!(a.cmp(&b), order);
        prop_assert_eq!(a == b, order.is_eq());
    }

    #[test]
    fn a_printed_decimal_reads_back(whole in 0u64..1_000_000_000_000_000_000, fraction in "[0-9]{1,18}") {
        let ratio = Ratio::parse_decimal(&format!("{whole}.{fraction}")).unwrap();
        let text = ratio.to_string();
        prop_assert_eq!(Ratio::parse_decimal(&text).unwrap(), ratio);
        prop_assert!(!text.contains('.') || !text.ends_with(['0', '.']), "{} is not the shortest", text);
    }

    #[test]
    fn no_text_panics(text in any::<String>(), digits in "[0-9.+-]{0,40}") {
        let _ = Ratio::parse_decimal(&text);
        let _ = Ratio::parse_decimal(&digits);
    }

    #[test]
    fn any_ratio_prints(ratio in ratio()) {
        prop_assert!(!ratio.to_string().is_empty());
    }
}

#[test]
fn plain_decimals_are_ratios() {
    for (rule, text, num, den, printed) in [
        ("whole", "1", 1, 1, "1"),
        ("zero", "0.00", 0, 1, "0"),
        ("fraction", "0.29", 29, 100, "0.29"),
        ("above one", "1.15", 23, 20, "1.15"),
        ("trailing zeros", "0.500", 1, 2, "0.5"),
        ("leading zeros", "007", 7, 1, "7"),
        (
            "18 digits on either side",
            "999999999999999999.000000000000000001",
            999_999_999_999_999_999_000_000_000_000_000_001,
            1_000_000_000_000_000_000,
            "999999999999999999.000000000000000001",
        ),
    ] {
        let ratio: Ratio = text.parse().unwrap();
        assert_eq!((ratio.num(), ratio.den()), (num, den), "{rule}");
        assert_eq!(ratio.to_string(), printed, "{rule}");
    }
}

#[test]
fn anything_else_is_refused_with_a_reason() {
    for (rule, text) in [
        ("empty", ""),
        ("sign", "-1"),
        ("sign", "+1"),
        ("exponent", "1e3"),
        ("no whole digits", ".5"),
        ("no fraction digits", "5."),
        ("point alone", "."),
        ("two points", "1.2.3"),
        ("blank", " 1"),
        ("percent", "50%"),
        ("suffix", "500m"),
        ("digits that are not ASCII", "\u{0661}"),
    ] {
        let error = Ratio::parse_decimal(text).expect_err(rule);
        assert!(matches!(error, ParseRatioError::NotADecimal { .. }), "{rule}: {error}");
        assert!(error.to_string().contains(&format!("\"{text}\"")), "{rule}: {error}");
    }
    for text in ["1000000000000000000", "0.0000000000000000001", &"0".repeat(1 << 20)] {
        let error = Ratio::parse_decimal(text).unwrap_err();
        assert!(matches!(error, ParseRatioError::TooManyDigits { .. }), "{error}");
        assert!(error.to_string().len() < 200, "{error}");
    }
}

#[test]
fn ratios_are_in_lowest_terms() {
    assert_eq!(Ratio::new(1, 0), None);
    assert_eq!(Ratio::new(0, 7), Some(Ratio::ZERO));
    assert_eq!(Ratio::new(u128::MAX, u128::MAX), Some(Ratio::ONE));
    assert_eq!(Ratio::new(4, 6).unwrap().to_string(), "2/3");
    assert!(
        Ratio::new(u128::MAX, u128::MAX - 1) > Ratio::new(u128::MAX - 1, u128::MAX - 2).map(|_| Ratio::ONE)
    );
    assert!(Ratio::new(1, u128::MAX).unwrap() > Ratio::ZERO);
    let tiny = Ratio::new(1, 1 << 127).unwrap().to_string();
    assert!(tiny.starts_with("0.000") && tiny.ends_with('5') && tiny.len() == 129, "{tiny}");
}

#[test]
fn scaling_by_rule() {
    const MILLI: i128 = 1_000_000;
    const UNIT: i128 = 1_000_000_000;
    const MI: i128 = UNIT << 20;
    for (rule, text, factor, unit, up, down) in [
        ("exact", "100Gi", "0.29", UNIT, "29Gi", "29Gi"),
        ("milli", "1", "0.3335", MILLI, "334m", "333m"),
        ("whole Mi", "1000Mi", "0.7005", MI, "701Mi", "700Mi"),
        ("below one unit", "1m", "0.5", MILLI, "1m", "0"),
        ("negative", "-1", "0.3335", MILLI, "-334m", "-333m"),
        ("by zero", "1Gi", "0", UNIT, "0", "0"),
        ("by one, not a multiple", "800Ki", "1", MI, "1Mi", "0"),
        ("above one", "1", "1.15", MILLI, "1150m", "1150m"),
    ] {
        let nanos = |text: &str| Quantity::parse(text).unwrap().nanos();
        let ratio = Ratio::parse_decimal(factor).unwrap();
        assert_eq!(scale(nanos(text), &ratio, unit, Rounding::Up), Some(nanos(up)), "{rule}: up");
        assert_eq!(scale(nanos(text), &ratio, unit, Rounding::Down), Some(nanos(down)), "{rule}: down");
    }
}

#[test]
fn scaling_that_does_not_fit_is_none() {
    let two = Ratio::new(2, 1).unwrap();
    let half = Ratio::new(1, 2).unwrap();
    for (rule, nanos, ratio, unit, rounding, expected) in [
        ("too large", i128::MAX, two, 1, Rounding::Down, None),
        ("too small", i128::MIN, two, 1, Rounding::Down, None),
        ("largest", i128::MAX, Ratio::ONE, 1, Rounding::Up, Some(i128::MAX)),
        ("smallest", i128::MIN, Ratio::ONE, 1, Rounding::Up, Some(i128::MIN)),
        ("rounded up beyond", i128::MAX, Ratio::ONE, 10, Rounding::Up, None),
        ("rounded down within", i128::MAX, Ratio::ONE, i128::MAX - 1, Rounding::Down, Some(i128::MAX - 1)),
        ("no unit", 1, half, 0, Rounding::Up, None),
        ("negative unit", 1, half, -1, Rounding::Up, None),
        (
            "256 bits between",
            i128::MAX,
            Ratio::new(u128::MAX, u128::MAX - 1).unwrap(),
            1,
            Rounding::Down,
            Some(i128::MAX),
        ),
    ] {
        assert_eq!(scale(nanos, &ratio, unit, rounding), expected, "{rule}");
    }
}
