//! What is asked at a look, and how often.

use std::time::Duration;

use plimsoll_core::placement::{Metric, NodeResource, Settings, Window, wanted_metrics};

use super::options::LoadQueries;

/// So often a window's mean is asked for while it passes; it changes no faster, and a mean over a day costs the source a
/// day of samples.
const LOOKS_A_WINDOW: u32 = 60;
/// It is asked for so often at least.
const LONGEST_PERIOD: Duration = Duration::from_secs(15 * 60);
/// What nodes have is asked for at every so many looks.
const TOTALS_APART: u32 = 10;
/// What is free of it.
const IDLE_APART: u32 = 2;

/// What one query is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// The mean of a metric over a window of so many seconds.
    Mean(Metric, i64),
    /// When nodes were measured last.
    Time,
    /// What nodes have of a resource.
    Total(NodeResource),
    /// Which share of it is idle.
    Idle(NodeResource),
}

/// A question with its text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) question: Question,
    /// As messages name it.
    pub(super) name: String,
    /// `PromQL`.
    pub(super) text: String,
    /// How long an answer is as good as a new one.
    pub(super) period: Duration,
    /// How far into the period it is asked, so that questions of one period do not come all at once.
    pub(super) offset: Duration,
}

impl Question {
    /// The name of its setting in `placement.load.queries` or `placement.usage.queries`, and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean(metric, _) => metric.name(),
            Self::Time => "time",
            Self::Total(NodeResource::Disk) => "totalDisk",
            Self::Total(_) => "totalBandwidth",
            Self::Idle(_) => "idleDisk",
        }
    }
}

/// All questions, the ones first without which no answer counts.
pub(super) fn questions(queries: &LoadQueries, settings: &Settings, interval: Duration) -> Vec<Asked> {
    let mut all = Vec::new();
    let mut ask = |question: Question, name: String, text: String, period| {
        all.push(Asked { question, name, text, period, offset: Duration::ZERO });
    };
    if let Some(text) = &queries.time {
        ask(Question::Time, "queries.time".to_owned(), text.clone(), interval);
    }
    for window in &settings.load.windows {
        let passes = Duration::from_secs(window.seconds.unsigned_abs());
        let period = (passes / LOOKS_A_WINDOW).min(LONGEST_PERIOD).max(interval);
        for metric in wanted_metrics(settings) {
            let name = format!("queries.{metric} over {}", window.name);
            let text = filled(queries.of(metric), window);
            ask(Question::Mean(metric, window.seconds), name, text, period);
        }
    }
    for resource in NodeResource::ALL {
        if let Some(text) = queries.total(resource) {
            let question = Question::Total(resource);
            let name = format!("usage.queries.{}", question.name());
            ask(question, name, text.to_owned(), interval * TOTALS_APART);
        }
        // Nothing but weights looks at it.
        if let Some(text) = queries.idle(resource).filter(|_| settings.policies.weights > 0.0) {
            let question = Question::Idle(resource);
            let name = format!("usage.queries.{}", question.name());
            ask(question, name, text.to_owned(), interval * IDLE_APART);
        }
    }
    stagger(&mut all);
    all
}

/// Spreads the questions of each period over it.
fn stagger(all: &mut [Asked]) {
    let periods: Vec<Duration> = all.iter().map(|asked| asked.period).collect();
    for (index, asked) in all.iter_mut().enumerate() {
        let of = |periods: &[Duration]| {
            u32::try_from(periods.iter().filter(|period| **period == asked.period).count())
                .unwrap_or(u32::MAX)
        };
        asked.offset = asked.period * of(periods.get(..index).unwrap_or_default()) / of(&periods).max(1);
    }
}

/// The query for a window: its name takes the place of `$window` or `${window}`.
fn filled(text: &str, window: &Window) -> String {
    text.replace("${window}", &window.name).replace("$window", &window.name)
}

#[cfg(test)]
mod tests {
    use plimsoll_core::placement::LoadSettings;

    use super::*;

    #[test]
    fn windows_are_filled_in() {
        for (rule, name, seconds, text, expected) in [
            ("no window", "15m", 900, "up", "up"),
            ("a window", "15m", 900, "avg_over_time(x[$window])", "avg_over_time(x[15m])"),
            ("in braces", "1h", 3_600, "x[${window}] + y[$window]", "x[1h] + y[1h]"),
        ] {
            assert_eq!(filled(text, &Window { name: name.into(), seconds, weight: 1.0 }), expected, "{rule}");
        }
    }

    #[test]
    fn each_metric_and_window_is_a_question() {
        let queries = LoadQueries { total_disk: Some("size".to_owned()), ..LoadQueries::default() };
        let settings = Settings::default();
        let all = questions(&queries, &settings, Duration::from_secs(30));
        assert_eq!(all.len(), 1 + 4 * 3 + 1);
        assert_eq!(all[0].question, Question::Time);
        let period = |question| all.iter().find(|asked| asked.question == question).unwrap().period.as_secs();
        assert_eq!(period(Question::Mean(Metric::Cpu, 900)), 30, "at each look");
        assert_eq!(period(Question::Mean(Metric::Disk, 3_600)), 60);
        assert_eq!(period(Question::Mean(Metric::Load, 86_400)), 900, "a day changes slowly");
        let offsets: Vec<_> = all
            .iter()
            .filter(|asked| asked.period.as_secs() == 900)
            .map(|asked| asked.offset.as_secs())
            .collect();
        assert_eq!(offsets, [0, 225, 450, 675], "not all at once");
        assert_eq!(period(Question::Total(NodeResource::Disk)), 300);
        assert!(all.iter().all(|asked| !asked.text.contains('$')), "{all:?}");
        let named: Vec<_> = all.iter().map(|asked| asked.name.as_str()).collect();
        assert!(named.contains(&"queries.memory over 1h"), "{named:?}");

        let load = LoadSettings { metrics: vec![(Metric::Cpu, 1.0)], ..LoadSettings::default() };
        let few = questions(
            &LoadQueries { time: None, ..queries },
            &Settings { load, ..settings },
            Duration::from_secs(30),
        );
        assert_eq!(few.len(), 2 * 3 + 1, "memory too: the filter looks at it");
    }

    #[test]
    fn free_disks_are_asked_for_where_weights_count() {
        let queries = LoadQueries { idle_disk: Some("free".to_owned()), ..LoadQueries::default() };
        for (rule, weights, expected) in [("by load only", 0.0, None), ("by weights", 1.0, Some(60))] {
            let mut settings = Settings::default();
            settings.policies.weights = weights;
            let all = questions(&queries, &settings, Duration::from_secs(30));
            let found = all.iter().find(|asked| asked.question == Question::Idle(NodeResource::Disk));
            assert_eq!(found.map(|asked| asked.period.as_secs()), expected, "{rule}");
        }
    }
}
