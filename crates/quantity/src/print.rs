use std::fmt;

use crate::quantity::{BINARY_CAP_NANOS, NANOS_PER_UNIT};
use crate::{Format, Quantity};

const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.width().is_none() || f.precision().is_some() {
            return write_quantity(f, self);
        }
        // Padding needs the whole text at once; the plain `{}` above does not allocate.
        let mut text = String::new();
        write_quantity(&mut text, self)?;
        f.pad(&text)
    }
}

fn write_quantity(out: &mut impl fmt::Write, quantity: &Quantity) -> fmt::Result {
    if let Some(text) = quantity.kept_text() {
        return out.write_str(text);
    }
    if quantity.is_negative() {
        out.write_str("-")?;
    }
    let magnitude = quantity.nanos().unsigned_abs();
    match quantity.format() {
        Format::BinarySi => match binary_parts(magnitude) {
            Some((mantissa, suffix)) => write_with_suffix(out, mantissa, suffix),
            None => write_si(out, magnitude),
        },
        Format::DecimalSi => write_si(out, magnitude),
        Format::DecimalExponent => write_exponent(out, magnitude),
    }
}

/// Mantissa and suffix in the largest power of 1024, if the value can be said so without loss.
fn binary_parts(magnitude: u128) -> Option<(u128, &'static str)> {
    let units_per = NANOS_PER_UNIT.unsigned_abs();
    let mut mantissa = magnitude / units_per;
    // Above the cap a binary suffix would read back as less.
    if mantissa < 1024 || magnitude > BINARY_CAP_NANOS || !magnitude.is_multiple_of(units_per) {
        return None;
    }
    let mut suffixes = BINARY_SUFFIXES.iter();
    let mut suffix = suffixes.next()?;
    while mantissa.is_multiple_of(1024) {
        let Some(next) = suffixes.next() else { break };
        suffix = next;
        mantissa /= 1024;
    }
    Some((mantissa, suffix))
}

/// The smallest whole mantissa, and the power of ten (a multiple of three) it is counted in.
fn decimal_parts(magnitude: u128) -> (u128, i32) {
    let mut exponent = -9;
    let mut wide = magnitude;
    // Common values fit in 64 bits, where division is several times cheaper.
    let mut narrow = loop {
        if let Ok(narrow) = u64::try_from(wide) {
            break narrow;
        }
        if !wide.is_multiple_of(1000) {
            return (wide, exponent);
        }
        wide /= 1000;
        exponent += 3;
    };
    while narrow != 0 && narrow.is_multiple_of(1000) {
        narrow /= 1000;
        exponent += 3;
    }
    (u128::from(narrow), exponent)
}

fn write_si(out: &mut impl fmt::Write, magnitude: u128) -> fmt::Result {
    if magnitude == 0 {
        return out.write_str("0");
    }
    let (mantissa, exponent) = decimal_parts(magnitude);
    let suffix = match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        0 => "",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        // There is no letter above E; an exponent is the only other spelling that loses nothing.
        _ => return write_with_exponent(out, mantissa, exponent),
    };
    write_with_suffix(out, mantissa, suffix)
}

fn write_exponent(out: &mut impl fmt::Write, magnitude: u128) -> fmt::Result {
    match decimal_parts(magnitude) {
        (0, _) => out.write_str("0"),
        (mantissa, 0) => write_with_suffix(out, mantissa, ""),
        (mantissa, exponent) => write_with_exponent(out, mantissa, exponent),
    }
}

fn write_with_exponent(out: &mut impl fmt::Write, mantissa: u128, exponent: i32) -> fmt::Result {
    write!(out, "{mantissa}e{exponent}")
}

fn write_with_suffix(out: &mut impl fmt::Write, mantissa: u128, suffix: &str) -> fmt::Result {
    match u64::try_from(mantissa) {
        Ok(narrow) => write!(out, "{narrow}{suffix}"),
        Err(_) => write!(out, "{mantissa}{suffix}"),
    }
}
