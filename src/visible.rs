//! Texts that came from elsewhere, such that none of them can do anything: move a cursor, begin a line that looks like
//! one of ours, or turn the direction of what stands after it.

use std::fmt::Write as _;

/// A text on one line: what cannot be seen, or turns the direction of what follows, is written as its number.
pub(crate) fn visible(text: &str) -> String {
    escaped(text, false)
}

/// The same of a text that may have several lines.
pub(crate) fn visible_lines(text: &str) -> String {
    escaped(text, true)
}

fn escaped(text: &str, keeps_lines: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_invisible(letter) && !(keeps_lines && letter == '\n') {
            // Writing to a `String` does not fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(letter));
        } else {
            out.push(letter);
        }
    }
    out
}

/// A JSON text that means the same, in which strings hold nothing that is not seen. JSON itself escapes only what is
/// below U+0020.
pub(crate) fn visible_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut units = [0; 2];
    for letter in text.chars() {
        // The others are the line ends between members; in strings they are escaped already.
        if letter >= '\u{7f}' && is_invisible(letter) {
            for unit in letter.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(letter);
        }
    }
    out
}

/// Whether a text is all that it looks like, line ends aside.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.chars().any(|letter| letter != '\n' && is_invisible(letter))
}

/// Controls, what turns the direction of writing, and what has no width.
fn is_invisible(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_seen_is_named() {
        for (rule, text, expected) in [
            ("bidi, NUL, no width", "a\u{202e}b\0c\u{200b}", r"a\u{202e}b\u{0}c\u{200b}"),
            ("colours", "\x1b[31mred", r"\u{1b}[31mred"),
            ("OSC", "\x1b]0;title\x07", r"\u{1b}]0;title\u{7}"),
            ("C1", "\u{9b}2J", r"\u{9b}2J"),
            ("lines", "a\r\nerror: b", r"a\u{d}\u{a}error: b"),
            ("letters", "größe-web", "größe-web"),
        ] {
            assert_eq!(visible(text), expected, "{rule}");
        }
        assert_eq!(visible_lines("a\nb\r\x1b"), "a\nb\\u{d}\\u{1b}");
    }

    proptest! {
        #[test]
        fn json_means_the_same_and_is_plain(text in "(\\PC|[\u{0}-\u{9f}]|[\u{200b}-\u{206f}]|[\u{e0000}-\u{e007f}]){0,20}") {
            let json = serde_json::to_string_pretty(&serde_json::json!({ "a": text })).unwrap();
            let shown = visible_json(&json);
            prop_assert!(is_plain(&shown), "{shown:?}");
            prop_assert_eq!(
                serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
                serde_json::json!({ "a": text })
            );
            prop_assert!(is_plain(&visible(&text)) && !visible(&text).contains('\n'));
        }
    }
}
