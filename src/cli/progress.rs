//! How far long work is, on standard error: a bar on a terminal, elsewhere a plain line now and then. Results are
//! on standard output and are never mixed with it.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::visible::visible;

/// The time until the first plain line, and between two.
const PAUSE: Duration = Duration::from_secs(5);
/// How often what moves on a terminal does.
const TICK: Duration = Duration::from_millis(200);

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Objects: how many of how many is told.
    Objects,
    /// Anything else: only the share is told.
    Share,
}

/// Some work that may take long; when it is dropped nothing of it stays on a terminal.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    lines: Mutex<Lines>,
}

impl Progress {
    /// Begins; `what` goes on, as in `restoring autoscalers`. How much it is may be said later, or never.
    pub(super) fn new(what: &str, unit: Unit) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::no_length();
            styled(&bar, "{spinner} {elapsed} {wide_msg}");
            bar.set_message(what.to_owned());
            bar.enable_steady_tick(TICK);
            bar
        });
        Self { bar, lines: Mutex::new(Lines::new(what, unit, Instant::now())) }
    }

    /// How much there is to do.
    pub(super) fn expect(&self, total: u64) {
        self.tell(|lines| {
            let is_news = lines.total != total;
            lines.total = total;
            if let Some(bar) = self.bar.as_ref().filter(|_| is_news && total > 0) {
                bar.set_length(total);
                styled(
                    bar,
                    match lines.unit {
                        Unit::Objects => "{msg} {wide_bar} {pos} of {len}",
                        Unit::Share => "{msg} {wide_bar} {percent:>3} %",
                    },
                );
            }
        });
    }

    /// So much is done.
    pub(super) fn at(&self, done: u64) {
        self.tell(|lines| lines.done = done);
    }

    /// So much is read of something of this size.
    pub(super) fn read(&self, done: u64, size: u64) {
        self.expect(size);
        self.at(done);
    }

    /// One more is done.
    pub(super) fn add(&self) {
        self.tell(|lines| lines.done += 1);
    }

    /// What is being done of it now, or waited for.
    pub(super) fn say(&self, detail: &str) {
        self.tell(|lines| {
            detail.clone_into(&mut lines.detail);
            if let Some(bar) = &self.bar {
                bar.set_message(lines.message());
            }
        });
    }

    fn tell(&self, change: impl FnOnce(&mut Lines)) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut lines);
        if let Some(bar) = &self.bar {
            bar.set_position(lines.done);
        } else if let Some(line) = lines.due(Instant::now()) {
            // Whoever closed standard error does not want to read it.
            let _ = writeln!(io::stderr(), "progress: {line}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn styled(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// As many objects as there are.
pub(super) fn count(objects: usize) -> u64 {
    u64::try_from(objects).unwrap_or(u64::MAX)
}

/// Plain lines, for where there is no terminal.
#[derive(Debug)]
struct Lines {
    what: String,
    detail: String,
    unit: Unit,
    done: u64,
    /// 0: not known.
    total: u64,
    began: Instant,
    said: Instant,
}

impl Lines {
    fn new(what: &str, unit: Unit, now: Instant) -> Self {
        let what = what.to_owned();
        Self { what, detail: String::new(), unit, done: 0, total: 0, began: now, said: now }
    }

    /// What to say now, if it is time for it.
    fn due(&mut self, now: Instant) -> Option<String> {
        if now.saturating_duration_since(self.said) < PAUSE {
            return None;
        }
        self.said = now;
        let (message, done, total) = (self.message(), self.done, self.total);
        Some(match (self.share(), self.unit) {
            (None, _) => {
                format!("{message}: {} s so far", now.saturating_duration_since(self.began).as_secs())
            }
            (Some(share), Unit::Objects) => format!("{message}: {done} of {total}, {share} %"),
            (Some(share), Unit::Share) => format!("{message}: {share} %"),
        })
    }

    fn message(&self) -> String {
        let Self { what, detail, .. } = self;
        if detail.is_empty() {
            what.clone()
        } else {
            format!("{what} ({})", visible(&detail.replace('\n', " ")))
        }
    }

    /// Per cent.
    fn share(&self) -> Option<u128> {
        (u128::from(self.done) * 100).checked_div(self.total.into()).map(|share| share.min(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(began: Instant, seconds: u64) -> Instant {
        began + Duration::from_secs(seconds)
    }

    #[test]
    fn a_line_comes_after_five_seconds_and_then_at_most_every_five() {
        let began = Instant::now();
        let mut lines = Lines::new("restoring autoscalers", Unit::Objects, began);
        lines.total = 3_000;
        let said: Vec<u64> = (0..=3_000)
            .filter(|done| {
                lines.done = *done;
                // Ten of them a second, but for a minute in which nothing is done.
                let second = done / 10 + if *done > 120 { 60 } else { 0 };
                second <= 90 && lines.due(after(began, second)).is_some()
            })
            .map(|done| done / 10 + if done > 120 { 60 } else { 0 })
            .collect();
        assert_eq!(said, [5, 10, 72, 77, 82, 87]);
    }

    #[test]
    fn lines_say_how_far_it_is() {
        let began = Instant::now();
        for (rule, unit, detail, done, total, expected) in [
            ("objects", Unit::Objects, "", 120, 3400, "work: 120 of 3400, 3 %"),
            ("a share", Unit::Share, "", 1 << 20, 1 << 22, "work: 25 %"),
            ("of what", Unit::Share, "vpa", 1, 3, "work (vpa): 33 %"),
            ("nobody knows how much", Unit::Objects, "", 7, 0, "work: 12 s so far"),
            ("what is waited for", Unit::Objects, "2 pods\nrun", 0, 0, "work (2 pods run): 12 s so far"),
            ("a file that grew", Unit::Share, "", 12, 10, "work: 100 %"),
            ("very much", Unit::Share, "", u64::MAX, u64::MAX, "work: 100 %"),
        ] {
            let mut lines = Lines::new("work", unit, began);
            (lines.detail, lines.done, lines.total) = (detail.to_owned(), done, total);
            assert_eq!(lines.due(after(began, 12)).as_deref(), Some(expected), "{rule}");
        }
    }
}
