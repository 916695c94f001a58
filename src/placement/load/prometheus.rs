//! The load of nodes from Prometheus.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use plimsoll_core::placement::{
    ByMetric, Dropped, KnownNodes, LoadSnapshot, Measured, Metric, NodeResource, NodeTimes, NodeValues,
    Settings,
};

use super::loader::{Look, QueryFailure};
use super::options::LoadOptions;
use super::questions::{Asked, Question, questions};
use super::series::{Naming, TimeSeries, ValueSeries};
use crate::cluster::backoff::chance;
use crate::recommender::sources::prometheus::{Ask, Client, Endpoint, Query, Subject};
use crate::recommender::sources::{Attempts, PrometheusError};

/// Questions that are asked at the same time.
const AT_ONCE: usize = 6;
/// The greatest idle share that can be true, as of a metric.
const GREATEST_SHARE: f64 = 1.05;
/// Most bytes of an answer: some 50,000 nodes with all their labels.
const ANSWER_BYTES: usize = 32 << 20;
/// How many looks apart a question is asked at most that always fails or has no answer.
const LONGEST_PAUSE: u32 = 4;
/// So many times in its period it is asked at most then: one that takes too long is not to be asked all the time.
const ATTEMPTS_A_PERIOD: u32 = 3;
/// So many periods an answer counts, beside the greatest age: until the next but one.
const KEPT_PERIODS: i64 = 2;

/// Prometheus, and the last answer to each question.
#[derive(Debug)]
pub struct PrometheusLoad {
    client: Client,
    options: LoadOptions,
    answers: HashMap<Question, Kept>,
    times: NodeTimes,
    /// When any question was answered last.
    last_success: Option<i64>,
    /// How far into a period the first of its questions is asked, as a share of it: by chance, so that replicas do not
    /// ask at the same time.
    phase: f64,
}

/// What is known of a question.
#[derive(Debug)]
struct Kept {
    values: NodeValues,
    /// When the answer was asked for; `None`: there is none.
    asked: Option<i64>,
    attempts: Attempts,
}

/// An answer.
enum Answer {
    Values(NodeValues),
    Times(NodeTimes),
}

impl PrometheusLoad {
    /// Nothing is called, and no file read, yet.
    ///
    /// # Errors
    /// The address or a header cannot be used, or credentials contradict each other.
    pub fn new(endpoint: &Endpoint, options: LoadOptions) -> Result<Self, PrometheusError> {
        let client = Client::new(endpoint)?;
        Ok(Self {
            client,
            options,
            answers: HashMap::new(),
            times: NodeTimes::default(),
            last_success: None,
            phase: chance(Duration::from_secs(1)).as_secs_f64(),
        })
    }

    /// Asks what is due at `now`, in nanoseconds since 1970, and makes a snapshot of all that is known. Answers that
    /// fail leave those before in place, until they are older than the greatest age and two of their periods.
    pub async fn look(&mut self, now: i64, nodes: &KnownNodes, settings: &Settings) -> Look {
        let mut look = Look::default();
        let questions = questions(&self.options.queries, settings, self.options.interval);
        let due: Vec<&Asked> = questions.iter().filter(|asked| self.is_due(asked, now)).collect();
        let answers: Vec<_> = {
            let this = &*self;
            let ask = |asked: &'_ Asked| {
                let asked = asked.clone();
                async move {
                    let answer = this.ask(&asked, now, nodes).await;
                    (asked, answer)
                }
            };
            stream::iter(due).map(ask).buffer_unordered(AT_ONCE).collect().await
        };
        for (asked, answer) in answers {
            self.take(&asked, answer, now, &mut look);
        }
        look.missing = self.missing(now, settings, &questions);
        if self.last_success.is_some() {
            look.snapshot = Some(self.snapshot(now, nodes, settings, &questions, &mut look.dropped));
        }
        look
    }

    fn is_due(&self, asked: &Asked, now: i64) -> bool {
        let Some(kept) = self.answers.get(&asked.question) else { return true };
        !kept.asked.is_some_and(|at| self.is_good(asked, kept, at, now)) && kept.attempts.is_due(now)
    }

    /// Whether what was answered `at` is as good as a new answer: in the same period, where periods do not begin with the
    /// first answer, which all questions have at the same time, but are spread.
    fn is_good(&self, asked: &Asked, kept: &Kept, at: i64, now: i64) -> bool {
        let interval = self.options.interval;
        if asked.period <= interval {
            return false;
        }
        // Perhaps nothing was measured yet.
        if kept.values.is_empty() && now.saturating_sub(at) >= nanos(interval * LONGEST_PAUSE) {
            return false;
        }
        let shift = nanos(asked.offset + asked.period.mul_f64(self.phase));
        let period = |at: i64| at.saturating_sub(shift).div_euclid(nanos(asked.period));
        period(at) == period(now)
    }

    /// The last answer to a question with its time, unless that is too old.
    fn known(&self, asked: &Asked, now: i64) -> Option<(i64, &NodeValues)> {
        let kept = self.answers.get(&asked.question)?;
        let oldest = now
            .saturating_sub(nanos(self.options.maximum_age))
            .saturating_sub(nanos(asked.period).saturating_mul(KEPT_PERIODS));
        kept.asked.filter(|at| *at >= oldest).map(|at| (at, &kept.values))
    }

    /// The means of which there is no answer, or an empty one.
    fn missing(&self, now: i64, settings: &Settings, questions: &[Asked]) -> Vec<(Arc<str>, Metric)> {
        let is_missing = |asked: &Asked| self.known(asked, now).is_none_or(|(_, values)| values.is_empty());
        let means =
            questions.iter().filter(|asked| is_missing(asked)).filter_map(|asked| match asked.question {
                Question::Mean(metric, seconds) => Some((metric, seconds)),
                Question::Time | Question::Total(_) | Question::Idle(_) => None,
            });
        let named = |(metric, seconds)| {
            let window = settings.load.windows.iter().find(|window| window.seconds == seconds)?;
            Some((Arc::clone(&window.name), metric))
        };
        means.filter_map(named).collect()
    }

    async fn ask(
        &self,
        asked: &Asked,
        now: i64,
        nodes: &KnownNodes,
    ) -> Result<(Answer, Dropped), PrometheusError> {
        let naming = Naming { labels: &self.options.node_labels, nodes };
        let query = Query::new(asked.name.clone(), Subject::Node);
        // Without a time it is answered for the present of the server, whose clock the samples have.
        let parameters = [("query", asked.text.clone())];
        let ask = Ask {
            query: &query,
            endpoint: "query",
            parameters: &parameters,
            limit: ANSWER_BYTES,
            expected: "vector",
        };
        let greatest = match asked.question {
            Question::Mean(metric, _) => metric.greatest(),
            Question::Total(_) => f64::INFINITY,
            Question::Idle(_) => GREATEST_SHARE,
            Question::Time => {
                let maximum_age = nanos(self.options.maximum_age);
                let mut series = TimeSeries {
                    naming,
                    now,
                    maximum_age,
                    times: NodeTimes::default(),
                    dropped: Dropped::default(),
                    point: None,
                };
                self.client.ask(ask, &mut series).await?;
                return Ok((Answer::Times(series.times), series.dropped));
            }
        };
        let mut series = ValueSeries::new(naming, greatest);
        self.client.ask(ask, &mut series).await?;
        Ok((Answer::Values(series.values), series.dropped))
    }

    fn take(
        &mut self,
        asked: &Asked,
        answer: Result<(Answer, Dropped), PrometheusError>,
        now: i64,
        look: &mut Look,
    ) {
        let interval = self.options.interval;
        let kept = self.answers.entry(asked.question).or_insert_with(|| Kept {
            values: NodeValues::default(),
            asked: None,
            attempts: Attempts::new(
                interval / 2,
                (interval * LONGEST_PAUSE).max(asked.period / ATTEMPTS_A_PERIOD),
            ),
        });
        look.asked += 1;
        match answer {
            Ok((answer, dropped)) => {
                look.dropped.add(&dropped);
                look.answered += 1;
                if kept.attempts.failing_since().is_some() {
                    tracing::info!(query = asked.name, "Prometheus answers again");
                }
                kept.attempts.succeed(now);
                kept.asked = Some(now);
                self.last_success = Some(now);
                match answer {
                    Answer::Values(values) => kept.values = values,
                    Answer::Times(mut times) => {
                        times.keep(&self.times, now, nanos(self.options.maximum_age));
                        self.times = times;
                    }
                }
            }
            Err(error) => {
                let message = error.to_string();
                if kept.attempts.last_error() != Some(&message) {
                    tracing::warn!(%error, "the load of nodes cannot be read; what is known stays until it is too old");
                }
                kept.attempts.fail(now, &message, error.retry_after());
                look.failures.push(QueryFailure { query: asked.question.name(), message });
            }
        }
    }

    fn snapshot(
        &self,
        now: i64,
        nodes: &KnownNodes,
        settings: &Settings,
        questions: &[Asked],
        dropped: &mut Dropped,
    ) -> LoadSnapshot {
        let maximum_age = nanos(self.options.maximum_age);
        let known =
            |question: Question| self.known(questions.iter().find(|asked| asked.question == question)?, now);
        let mut assumed = NodeTimes::default();
        if self.options.queries.time.is_none() {
            for (at, values) in questions.iter().filter_map(|asked| self.known(asked, now)) {
                values.iter().for_each(|(node, _)| assumed.put(node, at, now, now, i64::MAX, dropped));
            }
        }
        let mut measured = Measured::default();
        for window in &settings.load.windows {
            let mut means = ByMetric::default();
            for metric in Metric::ALL {
                means.set(metric, known(Question::Mean(metric, window.seconds)).map(|(_, values)| values));
            }
            measured.means.push(means);
        }
        for resource in NodeResource::ALL {
            measured.totals.set(resource, known(Question::Total(resource)).map(|(_, values)| values));
            measured.idle.set(resource, known(Question::Idle(resource)).map(|(_, values)| values));
        }
        let has_times = self.options.queries.time.is_some();
        measured.times = Some(if has_times { &self.times } else { &assumed });
        let mut snapshot = measured.snapshot(nodes, now, maximum_age, dropped);
        // Its age is that of the last answer, however often it is made anew.
        snapshot.taken = self.last_success.unwrap_or(now);
        snapshot
    }
}

pub(super) fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
