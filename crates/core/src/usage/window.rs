//! The peaks of a container's memory, window by window.

use crate::usage::decay::DAY;

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
