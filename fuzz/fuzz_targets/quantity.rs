//! Any bytes: parsing must not panic, and what it accepts must print without loss.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_quantity::{Format, Quantity, Ratio};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };

    if let Ok(ratio) = Ratio::parse_decimal(text) {
        assert_eq!(Ratio::parse_decimal(&ratio.to_string()), Ok(ratio), "{text:?}");
    }

    let Ok(quantity) = Quantity::parse(text) else { return };
    let printed = quantity.to_string();
    let again = Quantity::parse(&printed).expect("a printed quantity parses");
    assert_eq!(again.nanos(), quantity.nanos(), "{text:?} printed as {printed:?}");
    assert!(again.value().unsigned_abs() >= again.nanos().unsigned_abs() / 1_000_000_000);

    // A binary value without a binary suffix left reads back as decimal, and may then get a decimal suffix.
    if quantity.format() != Format::BinarySi || !printed.ends_with("000") {
        assert_eq!(again.to_string(), printed, "{text:?}");
    }
    let twice = again.to_string();
    assert_eq!(Quantity::parse(&twice).map(|q| q.to_string()), Ok(twice), "{text:?}");

    for format in [Format::DecimalSi, Format::BinarySi, Format::DecimalExponent] {
        let other = quantity.clone().with_format(format).to_string();
        assert_eq!(Quantity::parse(&other).as_ref(), Ok(&quantity), "{text:?} as {format:?}");
    }
});
