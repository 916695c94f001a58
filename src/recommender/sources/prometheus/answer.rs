//! An answer of `/api/v1/query` or `/api/v1/query_range`, read into a [`Table`] without a tree of JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::table::Table;
use crate::recommender::sources::Skipped;
use crate::recommender::sources::scalar::Scalar;

/// Warnings that are kept of one answer, and characters of each.
const WARNINGS: usize = 5;
const WARNING_CHARS: usize = 200;
/// Milliseconds beyond which nanoseconds do not fit.
const MOST_MILLIS: f64 = 9.2e12;

/// Which labels of a series name its container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Of the namespace.
    pub namespace: String,
    /// Of the pod.
    pub pod: String,
    /// Of the container.
    pub container: String,
}

impl Default for Labels {
    fn default() -> Self {
        Self { namespace: "namespace".into(), pod: "pod".into(), container: "container".into() }
    }
}

/// What an answer says besides its points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// `success` or `error`.
    pub status: Option<String>,
    /// What kind of error.
    pub error_type: Option<String>,
    /// What Prometheus says of it.
    pub error: Option<String>,
    /// `vector`, `matrix`, `scalar` or `string`.
    pub result_type: Option<String>,
    /// What Prometheus warns of.
    pub warnings: Vec<String>,
    /// What Prometheus remarks.
    pub infos: Vec<String>,
}

/// Reads an answer and adds its points to `table`. Series and points that cannot be used are counted.
///
/// # Errors
/// It is no JSON, or its parts are of other types.
pub(crate) fn read(
    body: &[u8],
    labels: &Labels,
    table: &mut Table,
    skipped: &mut Skipped,
) -> Result<Answer, serde_json::Error> {
    let mut answer = Answer::default();
    let mut json = serde_json::Deserializer::from_slice(body);
    Top { answer: &mut answer, reading: Reading { labels, table, skipped } }.deserialize(&mut json)?;
    json.end()?;
    Ok(answer)
}

/// The names of a container in a series, as far as they are there.
#[derive(Debug, Default)]
struct Names<'a> {
    namespace: Option<Cow<'a, str>>,
    pod: Option<Cow<'a, str>>,
    container: Option<Cow<'a, str>>,
}

struct Reading<'r> {
    labels: &'r Labels,
    table: &'r mut Table,
    skipped: &'r mut Skipped,
}

impl Reading<'_> {
    fn point(&mut self, time: &Scalar<'_>, value: &Scalar<'_>) {
        let Some(value) = self.skipped.checked(value.number()) else { return };
        match time.number().and_then(nanos) {
            Some(nanos) => self.table.push(nanos, value),
            None => self.skipped.invalid += 1,
        }
    }

    fn finish(&mut self, names: &Names<'_>, read: bool) {
        match (&names.namespace, &names.pod, &names.container) {
            (Some(namespace), Some(pod), Some(container)) if self.table.pending() > 0 => {
                self.table.finish(namespace, pod, container);
            }
            (Some(_), Some(_), Some(_)) => {
                // Points that were there and could not be used are counted already.
                self.skipped.no_value += u64::from(!read);
            }
            _ => {
                self.table.abandon();
                self.skipped.missing_labels += 1;
            }
        }
    }
}

/// Seconds since 1970 to nanoseconds. Prometheus counts milliseconds, and writes them as seconds.
#[expect(clippy::cast_possible_truncation, reason = "checked")]
fn nanos(seconds: f64) -> Option<i64> {
    let millis = (seconds * 1e3).round();
    (millis.abs() < MOST_MILLIS).then(|| millis as i64 * 1_000_000)
}

struct Top<'a, 'r> {
    answer: &'a mut Answer,
    reading: Reading<'r>,
}

impl<'de> DeserializeSeed<'de> for Top<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Top<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer of Prometheus")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Scalar<'de>>()? {
            let mut text =
                || map.next_value::<Scalar<'de>>().map(|text| text.into_text().map(Cow::into_owned));
            match key.text() {
                Some("status") => self.answer.status = text()?,
                Some("errorType") => self.answer.error_type = text()?,
                Some("error") => self.answer.error = text()?,
                Some("warnings") => map.next_value_seed(Texts(&mut self.answer.warnings))?,
                Some("infos") => map.next_value_seed(Texts(&mut self.answer.infos))?,
                Some("data") => {
                    let result_type = &mut self.answer.result_type;
                    map.next_value_seed(Data { result_type, reading: &mut self.reading })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A list of texts.
struct Texts<'a>(&'a mut Vec<String>);

impl<'de> DeserializeSeed<'de> for Texts<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Texts<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(text) = seq.next_element::<Scalar<'de>>()? {
            if let (Some(text), true) = (text.text(), self.0.len() < WARNINGS) {
                self.0.push(text.chars().take(WARNING_CHARS).collect());
            }
        }
        Ok(())
    }
}

/// `{"resultType": .., "result": [..]}`
struct Data<'a, 'r> {
    result_type: &'a mut Option<String>,
    reading: &'a mut Reading<'r>,
}

impl<'de> DeserializeSeed<'de> for Data<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Data<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the data of a query")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Scalar<'de>>()? {
            match (key.text(), self.result_type.as_deref()) {
                (Some("resultType"), _) => {
                    *self.result_type = map.next_value::<Scalar<'de>>()?.into_text().map(Cow::into_owned);
                }
                // Scalars and strings are no lists of series; that they are not wanted is said elsewhere.
                (Some("result"), None | Some("vector" | "matrix")) => {
                    map.next_value_seed(AllSeries(self.reading))?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct AllSeries<'a, 'r>(&'a mut Reading<'r>);

impl<'de> DeserializeSeed<'de> for AllSeries<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AllSeries<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(OneSeries(self.0))?.is_some() {}
        Ok(())
    }
}

/// `{"metric": {..}, "value": [..]}` or `{"metric": {..}, "values": [[..], ..]}`, in any order.
struct OneSeries<'a, 'r>(&'a mut Reading<'r>);

impl<'de> DeserializeSeed<'de> for OneSeries<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OneSeries<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a series")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names = Names::default();
        let mut points = 0;
        while let Some(key) = map.next_key::<Scalar<'de>>()? {
            match key.text() {
                Some("metric") => names = map.next_value_seed(Metric(self.0.labels))?,
                Some("value") => {
                    let (time, value) = map.next_value::<(Scalar<'de>, Scalar<'de>)>()?;
                    self.0.point(&time, &value);
                    points += 1;
                }
                Some("values") => points += map.next_value_seed(Points(self.0))?,
                // Among others, native histograms.
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        self.0.finish(&names, points > 0);
        Ok(())
    }
}

/// The labels of a series.
struct Metric<'r>(&'r Labels);

impl<'de> DeserializeSeed<'de> for Metric<'_> {
    type Value = Names<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Names<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Metric<'_> {
    type Value = Names<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the labels of a series")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names<'de>, A::Error> {
        let mut names = Names::default();
        while let Some(key) = map.next_key::<Scalar<'de>>()? {
            let key = key.text().unwrap_or_default();
            let name = if key == self.0.namespace {
                &mut names.namespace
            } else if key == self.0.pod {
                &mut names.pod
            } else if key == self.0.container {
                &mut names.container
            } else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            *name = map.next_value::<Scalar<'de>>()?.into_text();
        }
        Ok(names)
    }
}

/// The points of a range; the result is their number.
struct Points<'a, 'r>(&'a mut Reading<'r>);

impl<'de> DeserializeSeed<'de> for Points<'_, '_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Points<'_, '_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of points")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while let Some((time, value)) = seq.next_element::<(Scalar<'de>, Scalar<'de>)>()? {
            self.0.point(&time, &value);
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::super::table::join;
    use super::*;
    use crate::recommender::sources::Sample;

    /// A pod's number, and its points in milliseconds and values.
    type Series = (u8, Vec<(i64, f64)>);

    fn written(series: &[Series]) -> String {
        let mut text = r#"{"status":"success","data":{"resultType":"matrix","result":["#.to_owned();
        for (n, (pod, points)) in series.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            let _ = write!(
                text,
                r#"{comma}{{"metric":{{"namespace":"shop","id":"{n}","pod":"{pod}","container":"app"}},"values":["#
            );
            for (n, (millis, value)) in points.iter().enumerate() {
                let comma = if n == 0 { "" } else { "," };
                let _ = write!(text, r#"{comma}[{}.{:03},"{value}"]"#, millis / 1000, millis % 1000);
            }
            text.push_str("]}");
        }
        text.push_str("]}}");
        text
    }

    fn any_answer() -> impl Strategy<Value = Vec<Series>> {
        let value = prop_oneof![0.0..1e12_f64, Just(0.0), Just(f64::NAN), Just(f64::INFINITY), -10.0..0.0];
        let points = prop::collection::vec((0..2_000_000_000_000_i64, value), 0..8);
        prop::collection::vec((any::<u8>(), points), 0..6)
    }

    #[test]
    fn times_are_milliseconds_that_fit() {
        for (rule, seconds, expected) in [
            ("a whole second", 1_772_359_200.0, Some(1_772_359_200_000_000_000)),
            ("exact to the millisecond", 1_772_359_200.123, Some(1_772_359_200_123_000_000)),
            ("before 1970", -1.5, Some(-1_500_000_000)),
            ("the year 2517 does not fit", 17_272_359_500.0, None),
            ("nor does one long gone", -1e300, None),
            ("no number", f64::NAN, None),
            ("endless", f64::INFINITY, None),
        ] {
            assert_eq!(nanos(seconds), expected, "{rule}");
        }
    }

    proptest! {
        /// Times and values come out as they went in, to the millisecond and the last digit; each point is delivered
        /// or counted.
        #[test]
        fn points_are_read_exactly(series in any_answer()) {
            let (mut table, mut skipped) = (Table::default(), Skipped::default());
            let answer = read(written(&series).as_bytes(), &Labels::default(), &mut table, &mut skipped).unwrap();
            prop_assert_eq!(answer.result_type.as_deref(), Some("matrix"));
            let mut samples = 0;
            let mut all_known = true;
            join(&table, &Table::default(), &mut skipped, &mut |sample: &Sample<'_>| {
                samples += 1;
                all_known &= series.iter().any(|(pod, points)| {
                    let point = |(millis, value): &(i64, f64)| {
                        millis * 1_000_000 == sample.nanos && Some(value.to_bits()) == sample.cpu.map(f64::to_bits)
                    };
                    pod.to_string() == sample.pod && points.iter().any(point)
                });
            });
            prop_assert!(all_known);
            let points: usize = series.iter().map(|(_, points)| points.len()).sum();
            let counted = skipped.not_finite + skipped.invalid + skipped.duplicate;
            prop_assert_eq!(samples + counted, points as u64);
        }

        /// An answer that was cut off anywhere is an error, never a smaller answer.
        #[test]
        fn a_part_is_no_answer(series in any_answer(), part in 0.0..1.0_f64) {
            let text = written(&series);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a part of it")]
            let part = (text.len() as f64 * part) as usize;
            let (mut table, mut skipped) = (Table::default(), Skipped::default());
            prop_assert!(read(&text.as_bytes()[..part], &Labels::default(), &mut table, &mut skipped).is_err());
        }
    }
}
