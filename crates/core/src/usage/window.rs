//! The peaks of a container's memory, window by window.

use std::str::SplitAsciiWhitespace;

use crate::usage::decay::{DAY, FARTHEST};

/// No time yet. Times of samples are never that early.
pub(super) const NEVER: i64 = i64::MIN;

/// No value yet; below every value.
const NONE: f64 = -1.0;

/// 24 hours, of which the largest memory figures are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    /// The window reaches to just before this time.
    pub(super) end: i64,
    /// The largest usage that was above everything before it in the window.
    pub(super) usage: f64,
    /// The largest figure that an out-of-memory kill left.
    pub(super) oom: f64,
    /// When that kill was.
    pub(super) oom_at: i64,
}

impl Window {
    const UNOPENED: Self = Self { end: NEVER, usage: NONE, oom: NONE, oom_at: NEVER };

    fn holds(&self, nanos: i64) -> bool {
        self.end != NEVER && (self.end - DAY..self.end).contains(&nanos)
    }

    /// The largest figure of either kind, if there is one.
    pub(super) fn top(&self) -> Option<f64> {
        Some(self.usage.max(self.oom)).filter(|top| *top >= 0.0)
    }
}

/// The window of now and the one before it: a kill is often read after the first sample of the next window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Windows {
    current: Window,
    previous: Window,
}

impl Windows {
    pub(super) const UNOPENED: Self = Self { current: Window::UNOPENED, previous: Window::UNOPENED };

    /// Lets `change` look at and alter the window that a time falls into. The first time opens a window of
    /// 24 hours; one at its end or later moves it by whole windows. For a time before both kept windows it
    /// is an empty one that nobody keeps.
    pub(super) fn with<R>(&mut self, nanos: i64, change: impl FnOnce(&mut Window) -> R) -> R {
        let end = self.current.end;
        if end == NEVER {
            self.current.end = nanos + DAY;
        } else if nanos >= end {
            self.previous = self.current;
            self.current = Window { end: end + ((nanos - end) / DAY + 1) * DAY, ..Window::UNOPENED };
        }
        if self.current.holds(nanos) {
            change(&mut self.current)
        } else if self.previous.holds(nanos) {
            change(&mut self.previous)
        } else {
            let windows = (self.current.end - 1 - nanos) / DAY;
            change(&mut Window { end: self.current.end - windows * DAY, ..Window::UNOPENED })
        }
    }
}

impl Windows {
    /// The windows that hold something, the present one first: for each its end and the largest usage; where there
    /// was a kill, also its figure and time. `None` before the first.
    ///
    /// Numbers are written so that they are read back exactly.
    pub(super) fn to_text(self) -> Option<String> {
        if self.current.end == NEVER {
            return None;
        }
        let mut text = self.current.to_text();
        if self.previous.top().is_some() {
            text = format!("{text} | {}", self.previous.to_text());
        }
        Some(text)
    }

    /// The windows of such a text.
    pub(super) fn from_text(text: &str) -> Result<Self, String> {
        let (current, previous) = text.split_once('|').map_or((text, None), |(a, b)| (a, Some(b)));
        let current = Window::from_text(current)?;
        let previous = previous.map(Window::from_text).transpose()?;
        if let Some(previous) = previous {
            let before = current.end.saturating_sub(previous.end);
            if before <= 0 || before % DAY != 0 {
                return Err("the windows are not whole days apart".to_owned());
            }
        }
        Ok(Self { current, previous: previous.unwrap_or(Window::UNOPENED) })
    }
}

impl Window {
    fn to_text(self) -> String {
        let Self { end, usage, oom, oom_at } = self;
        if self.oom >= 0.0 { format!("{end} {usage:?} {oom:?} {oom_at}") } else { format!("{end} {usage:?}") }
    }

    fn from_text(text: &str) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace();
        let mut window = Self { end: time(&mut words)?, usage: figure(&mut words)?, ..Self::UNOPENED };
        if words.clone().next().is_some() {
            (window.oom, window.oom_at) = (figure(&mut words)?, time(&mut words)?);
            let within =
                window.oom_at.checked_sub(window.end).is_some_and(|after| (-DAY..0).contains(&after));
            if window.oom < 0.0 || !within {
                return Err("a kill lies outside its window".to_owned());
            }
        }
        match words.next() {
            None => Ok(window),
            Some(word) => Err(format!("{word:?} is too much")),
        }
    }
}

fn time(words: &mut SplitAsciiWhitespace<'_>) -> Result<i64, String> {
    let word = words.next().ok_or("a time is missing")?;
    let time: Option<i64> = word.parse().ok();
    time.filter(|time| time.unsigned_abs() < FARTHEST.unsigned_abs())
        .ok_or_else(|| format!("{word:?} is not a time in nanoseconds since 1970"))
}

fn figure(words: &mut SplitAsciiWhitespace<'_>) -> Result<f64, String> {
    let word = words.next().ok_or("a number of bytes is missing")?;
    let figure: Option<f64> = word.parse().ok();
    figure
        .filter(|figure| figure.is_finite() && (*figure >= 0.0 || *figure == NONE))
        .ok_or_else(|| format!("{word:?} is not a number of bytes"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Window, Windows};
    use crate::usage::decay::DAY;

    #[test]
    fn texts_that_are_no_windows() {
        for (rule, text) in [
            ("nothing", ""),
            ("no usage", "5"),
            ("not a time", "x 1.0"),
            ("too late a time", "9223372036854775807 1.0"),
            ("not a number", "5 x"),
            ("infinite", "5 inf"),
            ("not a number at all", "5 NaN"),
            ("negative", "5 -2.0"),
            ("a kill without a time", "5 1.0 2.0"),
            ("a kill after the window", "5 1.0 2.0 5"),
            ("a kill before the window", "5 1.0 2.0 -86400000000001"),
            ("one word too many", "5 1.0 2.0 4 6"),
            ("windows that overlap", "5 1.0 | 4 1.0"),
            ("windows in the wrong order", "5 1.0 | 86400000000005 1.0"),
        ] {
            assert!(Windows::from_text(text).is_err(), "{rule}");
        }
    }

    proptest! {
        #[test]
        fn windows_are_read_back_as_they_were(
            end in -(1_i64 << 60)..(1 << 60),
            usage in prop_oneof![Just(-1.0), 0.0..1e18],
            oom in prop::option::of((0.0..1e18, 1..DAY)),
            earlier in prop::option::of((1_i64..1000, 0.0..1e12)),
        ) {
            let (oom, oom_at) = oom.map_or((-1.0, super::NEVER), |(oom, before)| (oom, end - before));
            let current = Window { end, usage, oom, oom_at };
            let previous = earlier.map_or(Window::UNOPENED, |(days, usage)| {
                Window { end: end - days * DAY, usage, ..Window::UNOPENED }
            });
            let windows = Windows { current, previous };
            prop_assert_eq!(Windows::from_text(&windows.to_text().unwrap()), Ok(windows));
        }
    }
}
