//! Quantities, shares and times as people read them.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

pub(super) use crate::visible::visible;

/// A byte, and a core, in nano-units.
const NANOS: f64 = 1e9;
const BYTES: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// Cores, of nano-cores: `1,280`, `12.5`, `0.25`.
pub(super) fn cores(nanos: i128) -> String {
    number(units(nanos))
}

/// Memory with its unit, of nano-bytes: `512 MiB`, `1.5 TiB`.
pub(super) fn memory(nanos: i128) -> String {
    bytes(units(nanos))
}

/// Memory with its unit, of bytes.
pub(super) fn bytes(bytes: f64) -> String {
    let mut value = bytes;
    let mut unit = "B";
    for larger in BYTES.iter().skip(1) {
        if value.abs() < 1000.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    format!("{} {unit}", number(value))
}

/// What is no longer set aside, or, with a sign, what is in addition.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(super) fn units(nanos: i128) -> f64 {
    nanos as f64 / NANOS
}

/// A figure of one of the two resources.
pub(super) fn amount(resource: &str, nanos: i128) -> String {
    match resource {
        "cpu" => format!("{} cores", cores(nanos)),
        "memory" => memory(nanos),
        _ => plimsoll_core::quota::shown(resource, nanos),
    }
}

/// Three digits, and no more than tell something.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let size = value.abs();
    let text = if size >= 99.95 || size == 0.0 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.095 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    match text {
        "-0" => "0".to_owned(),
        text => grouped(text),
    }
}

/// Commas between the thousands of what has no fraction.
fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    if digits.len() <= 4 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return text.to_owned();
    }
    let mut out = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count, with commas.
pub(super) fn count(count: impl std::fmt::Display) -> String {
    grouped(&count.to_string())
}

/// A count and its noun, in the plural where it belongs.
pub(super) fn counted(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number))
}

/// A part of a whole: `37 %`, or a dash where there is no whole.
pub(super) fn percent(part: i128, whole: i128) -> String {
    if whole <= 0 { "-".to_owned() } else { share(Some(units(part) / units(whole))) }
}

/// A share, 0 to 1, as a percentage.
pub(super) fn share(share: Option<f64>) -> String {
    match share.filter(|share| share.is_finite()) {
        None => "-".to_owned(),
        Some(share) if share != 0.0 && share.abs() < 0.01 => {
            if share > 0.0 {
                "< 1 %".to_owned()
            } else {
                "> -1 %".to_owned()
            }
        }
        Some(share) => format!("{:.0} %", share * 100.0),
    }
}

/// How long ago something was, in its largest unit.
pub(super) fn ago(at: Timestamp, now: Timestamp) -> String {
    format!("{} ago", span(now.duration_since(at)))
}

/// A span of time in its largest unit.
pub(super) fn span(time: SignedDuration) -> String {
    let seconds = time.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A moment: how long ago for the eye, and when exactly for whoever points at it or has it read out.
pub(super) fn moment(at: Timestamp, now: Timestamp) -> Markup {
    let exact = at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    html! { time datetime=(at.to_string()) title=(exact) { (ago(at, now)) } }
}

/// A name or message that came from elsewhere, on one line and in its own direction of writing: what cannot be seen, or
/// turns the direction of what follows, is written as its number.
pub(super) fn foreign(text: &str) -> Markup {
    html! { bdi { (visible(text)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        for (cpu, expected) in [
            (0, "0"),
            (4_000_000, "0.004"),
            (250_000_000, "0.25"),
            (1_000_000_000, "1"),
            (12_540_000_000, "12.5"),
            (1_280_400_000_000, "1280"),
            (12_800_000_000_000, "12,800"),
            (-500_000_000, "-0.5"),
            (100, "0"),
            (-100, "0"),
        ] {
            assert_eq!(cores(cpu), expected, "{cpu}");
        }
        for (value, expected) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (1_048_576.0, "1 MiB"),
            (1_610_612_736.0, "1.5 GiB"),
            (1024.0 * 1_073_741_824.0, "1 TiB"),
            (-1_610_612_736.0, "-1.5 GiB"),
        ] {
            assert_eq!(bytes(value), expected, "{value}");
        }
        assert_eq!(number(f64::NAN), "-");
        assert_eq!(
            (count(1_234_567), counted(1, "pod"), counted(2, "pod")),
            ("1,234,567".into(), "1 pod".into(), "2 pods".into())
        );
    }

    #[test]
    fn shares() {
        for (part, whole, expected) in
            [(1, 0, "-"), (0, 4, "0 %"), (1, 3, "33 %"), (1, 1000, "< 1 %"), (-1, 2, "-50 %")]
        {
            assert_eq!(percent(part, whole), expected, "{part}/{whole}");
        }
    }

    #[test]
    fn names_of_others_are_text() {
        assert_eq!(foreign("<b>&\"").into_string(), "<bdi>&lt;b&gt;&amp;&quot;</bdi>");
    }
}
