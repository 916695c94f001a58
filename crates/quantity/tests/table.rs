//! The oracle table: what Kubernetes makes of each text. Every row names the rule it shows.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use plimsoll_quantity::{Format, ParseQuantityError, Quantity};

/// Rule, text, canonical text, whole units, milli-units.
type Row = (&'static str, &'static str, &'static str, i128, i128);

const GI: i128 = 1 << 30;
const MI: i128 = 1 << 20;
const EXA: i128 = 1_000_000_000_000_000_000;

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("zero", "0", "0", 0, 0),
    ("zero, leading zero", "00", "0", 0, 0),
    ("zero, negative", "-0", "0", 0, 0),
    ("zero, fraction", "0.0", "0", 0, 0),
    ("zero, binary suffix", "0Ki", "0", 0, 0),
    ("zero, exponent", "0e3", "0", 0, 0),
    ("zero, large binary suffix", "0Ei", "0", 0, 0),
    ("zero, exponent beyond 32 bits", "0e4294967296", "0", 0, 0),
    ("fraction", "0.5", "500m", 1, 500),
    ("fraction without whole digits", ".5", "500m", 1, 500),
    ("fraction after zeros", "00.5", "500m", 1, 500),
    ("fraction with plus", "+.5", "500m", 1, 500),
    ("kept: plus", "+500m", "+500m", 1, 500),
    ("kept: plus", "+1", "+1", 1, 1000),
    ("kept: plus, binary", "+1Gi", "+1Gi", GI, GI * 1000),
    ("kept: leading zeros", "007", "007", 7, 7000),
    ("kept: leading zero", "010", "010", 10, 10_000),
    ("kept: point without fraction", "5.", "5.", 5, 5000),
    ("kept: point without fraction", "1.", "1.", 1, 1000),
    ("kept: point without fraction, binary", "1.Gi", "1.Gi", GI, GI * 1000),
    ("kept: leading zeros, binary", "-007Ki", "-007Ki", -7168, -7_168_000),
    ("kept: three fraction digits", "1.234", "1.234", 2, 1234),
    ("kept: three fraction digits", "1.500", "1.500", 2, 1500),
    ("not kept: divisible by eight", "+8Gi", "8Gi", 8 * GI, 8000 * GI),
    ("not kept: Ti of three digits", "+100Ti", "100Ti", 100 << 40, (100 << 40) * 1000),
    ("not kept: Pi", "+1Pi", "1Pi", 1 << 50, (1 << 50) * 1000),
    ("not kept: 19 digits", "+9223372036854775808", "9223372036854775808", 1 << 63, (1 << 63) * 1000),
    ("not kept: begins with a zero digit", "0.500", "500m", 1, 500),
    ("whole fraction", "1.0", "1", 1, 1000),
    ("milli that are whole", "1000m", "1", 1, 1000),
    ("milli", "1.5", "1500m", 2, 1500),
    ("trailing zero", "1.50", "1500m", 2, 1500),
    ("milli", "1500m", "1500m", 2, 1500),
    ("largest suffix", "1000", "1k", 1000, 1_000_000),
    ("largest suffix", "1000k", "1M", 1_000_000, 1_000_000_000),
    ("largest suffix", "1000000", "1M", 1_000_000, 1_000_000_000),
    ("exponent kept", "1e3", "1e3", 1000, 1_000_000),
    ("exponent kept: capital", "1E3", "1E3", 1000, 1_000_000),
    ("exponent kept: plus", "1e+3", "1e+3", 1000, 1_000_000),
    ("exponent kept: leading zero", "1e03", "1e03", 1000, 1_000_000),
    ("exponent kept: zero", "1e0", "1e0", 1, 1000),
    ("exponent kept: minus zero", "1e-0", "1e-0", 1, 1000),
    ("exponent canonical", "1000e3", "1e6", 1_000_000, 1_000_000_000),
    ("exponent negative", "2e-2", "20e-3", 1, 20),
    ("exponent negative", "1e-7", "100e-9", 1, 1),
    ("below nano rounds up: exponent", "1e-10", "1e-9", 1, 1),
    ("below nano rounds up: exponent", "5e-10", "1e-9", 1, 1),
    ("below nano rounds up: decimal", "0.0000000001", "1n", 1, 1),
    ("below nano rounds away: negative", "-1e-10", "-1e-9", -1, -1),
    ("below nano rounds up: suffix", "0.9n", "1n", 1, 1),
    ("below nano rounds up: exponent beyond 32 bits", "1e-2147483648", "1e-9", 1, 1),
    ("micro", "0.1m", "100u", 1, 1),
    ("micro", "0.0005", "500u", 1, 1),
    ("micro", "2.5m", "2500u", 1, 3),
    ("micro", "1500u", "1500u", 1, 2),
    ("micro from nano", "1500000n", "1500u", 1, 2),
    ("nano rounds up", "0.1234567891", "123456790n", 1, 124),
    ("nano rounds up", "1.23456789012", "1234567891n", 2, 1235),
    ("negative", "-1", "-1", -1, -1000),
    ("negative milli", "-500m", "-500m", -1, -500),
    ("negative fraction", "-.5", "-500m", -1, -500),
    ("negative binary", "-1.5Gi", "-1536Mi", -1536 * MI, -1_536_000 * MI),
    ("no digits: point", ".", "0", 0, 0),
    ("no digits: minus", "-", "0", 0, 0),
    ("no digits: plus", "+", "0", 0, 0),
    ("no digits: suffix", "n", "0", 0, 0),
    ("no digits: suffix", "u", "0", 0, 0),
    ("no digits: suffix", "m", "0", 0, 0),
    ("no digits: suffix", "k", "0", 0, 0),
    ("no digits: suffix", "M", "0", 0, 0),
    ("no digits: suffix", "G", "0", 0, 0),
    ("no digits: suffix", "T", "0", 0, 0),
    ("no digits: suffix", "P", "0", 0, 0),
    ("no digits: suffix", "E", "0", 0, 0),
    ("no digits: suffix", "Ki", "0", 0, 0),
    ("no digits: suffix", "Mi", "0", 0, 0),
    ("no digits: suffix", "Gi", "0", 0, 0),
    ("no digits: suffix", "Ti", "0", 0, 0),
    ("no digits: exponent", "e3", "0", 0, 0),
    ("no digits: smallest exponent", "e-9", "0", 0, 0),
    ("binary fraction that is whole", "1.5Gi", "1536Mi", 1_610_612_736, 1_610_612_736_000),
    ("binary fraction that is whole", "0.25Gi", "256Mi", 268_435_456, 268_435_456_000),
    ("binary fraction that is not whole", "0.3Gi", "322122547200m", 322_122_548, 322_122_547_200),
    ("binary fraction that is not whole", "3.7Mi", "3879731200m", 3_879_732, 3_879_731_200),
    ("binary without suffix left", "1.5Ki", "1536", 1536, 1_536_000),
    ("binary without suffix left", "0.5Ki", "512", 512, 512_000),
    ("binary fraction that is not whole", "0.1Ki", "102400m", 103, 102_400),
    ("binary fraction that is not whole", "1.1Ki", "1126400m", 1127, 1_126_400),
    ("binary below one", "0.0001Ki", "102400u", 1, 103),
    ("decimal stays decimal", "1024", "1024", 1024, 1_024_000),
    ("decimal stays decimal", "2048", "2048", 2048, 2_048_000),
    ("decimal stays decimal", "1025", "1025", 1025, 1_025_000),
    ("largest binary suffix", "1024Ki", "1Mi", MI, 1000 * MI),
    ("largest binary suffix", "1024Mi", "1Gi", GI, 1000 * GI),
    ("canonical already", "1000Ki", "1000Ki", 1_024_000, 1_024_000_000),
    ("canonical already", "1000Mi", "1000Mi", 1000 * MI, 1_000_000 * MI),
    ("canonical already", "1536Mi", "1536Mi", 1536 * MI, 1_536_000 * MI),
    ("canonical already", "100M", "100M", 100_000_000, 100_000_000_000),
    ("canonical already", "129M", "129M", 129_000_000, 129_000_000_000),
    ("canonical already", "129e6", "129e6", 129_000_000, 129_000_000_000),
    ("canonical already", "123Mi", "123Mi", 128_974_848, 128_974_848_000),
    ("milli of bytes", "128974848000m", "128974848", 128_974_848, 128_974_848_000),
    ("E is a suffix", "1E", "1E", EXA, 1000 * EXA),
    ("largest binary suffix", "1Ei", "1Ei", 1 << 60, (1 << 60) * 1000),
    ("binary fraction of Ei", "7.5Ei", "7680Pi", 7680 << 50, (7680 << 50) * 1000),
    ("binary cap", "8Ei", "9223372036854775807", (1 << 63) - 1, ((1 << 63) - 1) * 1000),
    ("binary cap", "16Ei", "9223372036854775807", (1 << 63) - 1, ((1 << 63) - 1) * 1000),
    ("binary cap, negative", "-8Ei", "-9223372036854775807", -((1 << 63) - 1), -((1 << 63) - 1) * 1000),
    ("binary cap, beyond 128 bits", "99999999999999999999999999999999999999999Ki", "9223372036854775807", (1 << 63) - 1, ((1 << 63) - 1) * 1000),
    ("no cap for decimal", "9223372036854775808", "9223372036854775808", 1 << 63, (1 << 63) * 1000),
    ("no cap for decimal", "1e19", "10e18", 10 * EXA, 10_000 * EXA),
    ("no cap for decimal", "10E", "10E", 10 * EXA, 10_000 * EXA),
    ("no letter above E", "1000E", "1e21", 1000 * EXA, 1_000_000 * EXA),
    ("exponent kept: zero", "10e0", "10e0", 10, 10_000),
    ("exponent kept: fraction", "1.5e1", "1.5e1", 15, 15_000),
    ("exponent not kept: power is no multiple of three", "1e1", "10", 10, 10_000),
    ("exponent not kept: power is no multiple of three", "1e4", "10e3", 10_000, 10_000_000),
    ("exponent not kept: power is no multiple of three", "1.5e3", "1500", 1500, 1_500_000),
    ("largest value", "170141183460469231731687303715.884105727", "170141183460469231731687303715884105727n",
        170_141_183_460_469_231_731_687_303_716, 170_141_183_460_469_231_731_687_303_715_885),
    ("smallest value", "-170141183460469231731687303715.884105728", "-170141183460469231731687303715884105728n",
        -170_141_183_460_469_231_731_687_303_716, -170_141_183_460_469_231_731_687_303_715_885),
];

#[test]
fn texts_print_and_round_as_in_kubernetes() {
    for &(rule, text, canonical, units, millis) in ROWS {
        let quantity = Quantity::parse(text).unwrap_or_else(|e| panic!("{rule}: {text}: {e}"));
        assert_eq!(quantity.to_string(), canonical, "{rule}: {text}");
        assert_eq!(quantity.canonical(), canonical, "{rule}: {text}");
        assert_eq!(quantity.value(), units, "{rule}: {text}: whole units");
        assert_eq!(quantity.milli_value(), millis, "{rule}: {text}: milli-units");
        assert_eq!(quantity.is_zero(), units == 0, "{rule}: {text}");
        assert_eq!(quantity.is_positive(), units > 0, "{rule}: {text}");
        assert_eq!(quantity.is_negative(), units < 0, "{rule}: {text}");
        let again: Quantity = canonical.parse().unwrap();
        assert_eq!(again, quantity, "{rule}: {text}: value after printing");
        assert_eq!(again.to_string(), canonical, "{rule}: {text}: printed twice");
    }
}

#[derive(Debug, PartialEq)]
enum Kind {
    Empty,
    Number,
    Suffix,
    TooLarge,
}

fn kind(error: &ParseQuantityError) -> Kind {
    match error {
        ParseQuantityError::Empty => Kind::Empty,
        ParseQuantityError::InvalidNumber { .. } => Kind::Number,
        ParseQuantityError::InvalidSuffix { .. } => Kind::Suffix,
        ParseQuantityError::TooLarge { .. } => Kind::TooLarge,
        other => panic!("no kind for {other:?}"),
    }
}

#[rustfmt::skip]
const ERRORS: &[(&str, &str, Kind)] = &[
    ("empty", "", Kind::Empty),
    ("suffix alone beyond Ti", "Pi", Kind::Number),
    ("suffix alone beyond Ti", "Ei", Kind::Number),
    ("suffix alone beyond Ti, point", ".Pi", Kind::Number),
    ("exponent alone below nano", "e-10", Kind::Number),
    ("control character", "\t1", Kind::Number),
    ("JSON escape not undone", r"\t1", Kind::Number),
    ("kilo is k", "1K", Kind::Suffix),
    ("exponent without digits", "1e", Kind::Suffix),
    ("exponent without digits", "1e+", Kind::Suffix),
    ("suffix case", "1mi", Kind::Suffix),
    ("hexadecimal", "0x10", Kind::Suffix),
    ("underscore", "1_000", Kind::Suffix),
    ("exponent and suffix", "1e3m", Kind::Suffix),
    ("exponent and suffix", "9e18m", Kind::Suffix),
    ("digits after suffix", "1Gi5", Kind::Suffix),
    ("two signs", "--1", Kind::Number),
    ("two points", "1.2.3", Kind::Number),
    ("fraction of an exponent", "1e1.5", Kind::Suffix),
    ("not a number", "NaN", Kind::Number),
    ("infinity", "inf", Kind::Number),
    ("digits that are not ASCII", "\u{0661}", Kind::Number),
    ("digits that are not ASCII", "1\u{0662}", Kind::Suffix),
    ("digits that are not ASCII", "\u{ff11}\u{ff12}m", Kind::Number),
    ("blank before", " 1", Kind::Number),
    ("blank after", "1 ", Kind::Suffix),
    ("NUL", "1\0", Kind::Suffix),
    ("beyond 128 bits", "1e30", Kind::TooLarge),
    ("beyond 128 bits, negative", "-1e30", Kind::TooLarge),
    ("beyond 128 bits by one nano", "170141183460469231731687303715.884105728", Kind::TooLarge),
    ("beyond 128 bits by one nano", "-170141183460469231731687303715.884105729", Kind::TooLarge),
    ("beyond 128 bits by rounding", "170141183460469231731687303715.8841057271", Kind::TooLarge),
    ("exponent beyond 32 bits", "1e2147483648", Kind::TooLarge),
    ("exponent beyond 32 bits is not cut", "1e4294967296", Kind::TooLarge),
    ("exponent beyond 64 bits", "1e99999999999999999999", Kind::TooLarge),
    ("exponent beyond 64 bits, negative", "1e-99999999999999999999", Kind::Suffix),
];

#[test]
fn what_kubernetes_refuses_is_refused_with_a_reason() {
    for (rule, text, expected) in ERRORS {
        let error = Quantity::parse(text).expect_err(rule);
        assert_eq!(kind(&error), *expected, "{rule}: {text:?}");
        let message = error.to_string();
        assert!(message.contains(&*text.escape_debug().to_string()), "{rule}: names the text: {message}");
        assert!(!message.contains(char::is_control), "{rule}: one clean line: {message}");
    }
}

#[test]
fn messages_say_what_would_be_right_and_stay_short() {
    let message = |text: &str| Quantity::parse(text).unwrap_err().to_string();
    assert_eq!(
        message("1K"),
        "\"1K\" is not a quantity: \"K\" is no suffix; use one of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, \
         Pi, Ei, an exponent such as e3, or none"
    );
    assert_eq!(message("1e30"), "\"1e30\" is too large: a quantity must be below 1.7e29 in magnitude");
    let long = message(&"\u{7}".repeat(1 << 20));
    assert!(long.len() < 400 && long.contains("\\u{7}...\""), "{long}");
}

/// Rule, left, right, sum.
const SUMS: &[(&str, &str, &str, &str)] = &[
    ("left format: binary", "1Gi", "500M", "1573741824"),
    ("left format: decimal", "500M", "1Gi", "1573741824"),
    ("left format: binary suffix", "1Gi", "1M", "1074741824"),
    ("left format: binary suffix survives", "1Mi", "1024k", "2024Ki"),
    ("zero takes the right format", "0", "1Gi", "1Gi"),
    ("zero of another format too", "0e3", "1Gi", "1Gi"),
    ("zero on the right changes nothing", "1Gi", "0", "1Gi"),
    ("kept text is forgotten", "+1", "0", "1"),
    ("kept text is forgotten", "0", "007", "7"),
    ("exponent", "1e3", "1", "1001"),
    ("exponent", "1e3", "2000", "3e3"),
    ("fraction beside binary", "1Ki", "1m", "1024001m"),
    ("no cap for sums, and nothing lost", "7Ei", "7Ei", "16140901064495857664"),
];

#[test]
fn sums_keep_the_left_format() {
    for (rule, left, right, sum) in SUMS {
        let (left, right) = (Quantity::parse(left).unwrap(), Quantity::parse(right).unwrap());
        let total = left.checked_add(&right).unwrap();
        assert_eq!(total.to_string(), *sum, "{rule}");
        let back = total.checked_sub(&right).unwrap();
        assert_eq!(back, left, "{rule}");
        assert_eq!(back.format(), total.format(), "{rule}");
    }
    let one = Quantity::parse("1Gi").unwrap();
    let negated = Quantity::ZERO.checked_sub(&one).unwrap();
    assert_eq!(negated.to_string(), "-1Gi", "zero takes the right format in a difference");
}

#[test]
fn overflow_is_none() {
    let max = Quantity::from_nanos(i128::MAX, Format::DecimalSi);
    let min = Quantity::from_nanos(i128::MIN, Format::DecimalSi);
    let nano = Quantity::from_nanos(1, Format::DecimalSi);
    assert!(max.checked_add(&nano).is_none());
    assert!(min.checked_sub(&nano).is_none());
    assert!(Quantity::ZERO.checked_sub(&min).is_none());
    assert!(Quantity::from_units(i128::MAX / 1_000_000_000 + 1, Format::BinarySi).is_none());
    assert!(Quantity::from_millis(i128::MIN / 1_000_000 - 1, Format::BinarySi).is_none());
    assert_eq!(Quantity::from_millis(1500, Format::DecimalSi).unwrap().to_string(), "1500m");
    assert_eq!(Quantity::from_units(-2048, Format::BinarySi).unwrap().to_string(), "-2Ki");
}

/// Rule, text, format, text in that format.
const REFORMATTED: &[(&str, &str, Format, &str)] = &[
    ("decimal to binary", "1048576", Format::BinarySi, "1Mi"),
    ("binary to decimal", "1Mi", Format::DecimalSi, "1048576"),
    ("binary to exponent", "1000Ki", Format::DecimalExponent, "1024e3"),
    ("not whole in binary", "1500m", Format::BinarySi, "1500m"),
    ("below 1024 in binary", "1000", Format::BinarySi, "1k"),
    ("no binary suffix left", "64000", Format::BinarySi, "64000"),
    ("kept text is forgotten", "+1e03", Format::DecimalExponent, "1e3"),
    ("zero", "0", Format::DecimalExponent, "0"),
];

#[test]
fn with_format_prints_canonically() {
    for (rule, text, format, expected) in REFORMATTED {
        let quantity = Quantity::parse(text).unwrap().with_format(*format);
        assert_eq!(quantity.to_string(), *expected, "{rule}");
        assert_eq!(quantity.format(), *format, "{rule}");
    }
}

#[test]
fn padding_pads_the_whole_text() {
    let quantity = Quantity::parse("-1.5Gi").unwrap();
    assert_eq!(format!("{quantity:>10}|{quantity:<8}|"), "   -1536Mi|-1536Mi |");
    assert_eq!(format!("{quantity:.2}"), "-1536Mi", "a precision must not cut digits off");
}

#[test]
fn long_texts_are_exact() {
    let zeros = "0".repeat(1 << 20);
    let nines = "9".repeat(1 << 20);
    let parsed = |text: String| Quantity::parse(&text).map(|q| q.nanos());

    assert_eq!(parsed(format!("{zeros}1")), Ok(1_000_000_000));
    assert_eq!(parsed(format!("{zeros}1Ki")), Ok(1024 * 1_000_000_000));
    assert_eq!(parsed(format!("1.{zeros}")), Ok(1_000_000_000));
    assert_eq!(parsed(format!("1.{zeros}1")), Ok(1_000_000_001));
    assert_eq!(parsed(format!("-1.{zeros}1Ki")), Ok(-1024 * 1_000_000_000 - 1));
    assert_eq!(parsed(format!("0.{nines}")), Ok(1_000_000_000));
    assert_eq!(parsed(format!("0.{nines}Ki")), Ok(1024 * 1_000_000_000));
    assert_eq!(parsed(format!("0.{zeros}1e1048577")), Ok(1_000_000_000));
    assert_eq!(parsed(format!("1{zeros}e-1048576")), Ok(1_000_000_000));
    assert_eq!(parsed(format!("1e{zeros}3")), Ok(1_000_000_000_000));
    assert_eq!(parsed(format!("{nines}Ki")), Ok(i128::from(i64::MAX) * 1_000_000_000));
    assert!(matches!(parsed(nines.clone()), Err(ParseQuantityError::TooLarge { .. })));
    assert!(matches!(parsed(format!("1e{nines}")), Err(ParseQuantityError::TooLarge { .. })));
    assert!(matches!(
        parsed(format!("1{}", "K".repeat(1 << 20))),
        Err(ParseQuantityError::InvalidSuffix { .. })
    ));
}

/// Made with `k8s.io/apimachinery` v0.37.2: text, then `error`, or canonical text, nano-units and format.
const RECORDED: &str = include_str!("data/apimachinery.tsv");

#[test]
fn agrees_with_what_was_recorded_from_kubernetes() {
    let mut rows = 0;
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        match (fields.as_slice(), Quantity::parse(fields[0])) {
            ([_, "error"], Err(_)) => {}
            ([_, canonical, nanos, format], Ok(quantity)) => {
                assert_eq!(quantity.to_string(), *canonical, "{line}");
                assert_eq!(quantity.nanos().to_string(), *nanos, "{line}");
                assert_eq!(
                    format!("{:?}", quantity.format()).to_lowercase(),
                    format.to_lowercase(),
                    "{line}"
                );
            }
            (_, result) => panic!("{line}: {result:?}"),
        }
        rows += 1;
    }
    assert!(rows > 300, "{rows} rows");
}
