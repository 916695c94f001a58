//! An answer of `/api/v1/query` or `/api/v1/query_range`, read series by series without a tree of JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::recommender::sources::scalar::Scalar;

/// Warnings that are kept of one answer, and characters of each.
const WARNINGS: usize = 5;
const WARNING_CHARS: usize = 200;
/// Milliseconds beyond which nanoseconds do not fit.
const MOST_MILLIS: f64 = 9.2e12;

/// What is made of the series of an answer.
pub(crate) trait Series {
    /// How many labels of a series are wanted.
    fn wanted(&self) -> usize;

    /// At which place the value of a label is wanted, if it is.
    fn place(&self, label: &str) -> Option<usize>;

    /// Takes a point of the series that is being read: nanoseconds since 1970 and a value, of each `None` if it is none.
    fn point(&mut self, nanos: Option<i64>, value: Option<f64>);

    /// The points that came since the last call belong to the series with these labels, by place; there may be none. An
    /// empty label is none.
    fn finish(&mut self, labels: &[Option<Cow<'_, str>>]);
}

/// Nothing of them is wanted.
pub(super) struct NoSeries;

impl Series for NoSeries {
    fn wanted(&self) -> usize {
        0
    }

    fn place(&self, _: &str) -> Option<usize> {
        None
    }

    fn point(&mut self, _: Option<i64>, _: Option<f64>) {}

    fn finish(&mut self, _: &[Option<Cow<'_, str>>]) {}
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

/// Reads an answer and gives its series to `series`.
///
/// # Errors
/// It is no JSON, or its parts are of other types. A part of the series may have been given then.
pub(crate) fn read(body: &[u8], series: &mut impl Series) -> Result<Answer, serde_json::Error> {
    let mut answer = Answer::default();
    let mut json = serde_json::Deserializer::from_slice(body);
    Top { answer: &mut answer, series }.deserialize(&mut json)?;
    json.end()?;
    Ok(answer)
}

fn point(series: &mut impl Series, (time, value): (Scalar<'_>, Scalar<'_>)) {
    series.point(time.number().and_then(nanos), value.number());
}

/// Seconds since 1970 to nanoseconds. Prometheus counts milliseconds, and writes them as seconds.
#[expect(clippy::cast_possible_truncation, reason = "checked")]
fn nanos(seconds: f64) -> Option<i64> {
    let millis = (seconds * 1e3).round();
    (millis.abs() < MOST_MILLIS).then(|| millis as i64 * 1_000_000)
}

struct Top<'a, S> {
    answer: &'a mut Answer,
    series: &'a mut S,
}

impl<'de, S: Series> DeserializeSeed<'de> for Top<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: Series> Visitor<'de> for Top<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer of Prometheus")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
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
                    map.next_value_seed(Data { result_type, series: &mut *self.series })?;
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
struct Data<'a, S> {
    result_type: &'a mut Option<String>,
    series: &'a mut S,
}

impl<'de, S: Series> DeserializeSeed<'de> for Data<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: Series> Visitor<'de> for Data<'_, S> {
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
                    map.next_value_seed(AllSeries(&mut *self.series))?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct AllSeries<'a, S>(&'a mut S);

impl<'de, S: Series> DeserializeSeed<'de> for AllSeries<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: Series> Visitor<'de> for AllSeries<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(OneSeries(&mut *self.0))?.is_some() {}
        Ok(())
    }
}

/// `{"metric": {..}, "value": [..]}` or `{"metric": {..}, "values": [[..], ..]}`, in any order.
struct OneSeries<'a, S>(&'a mut S);

impl<'de, S: Series> DeserializeSeed<'de> for OneSeries<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: Series> Visitor<'de> for OneSeries<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a series")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut labels = Vec::new();
        while let Some(key) = map.next_key::<Scalar<'de>>()? {
            match key.text() {
                Some("metric") => labels = map.next_value_seed(Metric(&*self.0))?,
                Some("value") => point(self.0, map.next_value()?),
                Some("values") => map.next_value_seed(Points(&mut *self.0))?,
                // Among others, native histograms.
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        labels.resize(self.0.wanted(), None);
        self.0.finish(&labels);
        Ok(())
    }
}

/// The labels of a series.
struct Metric<'a, S>(&'a S);

impl<'de, S: Series> DeserializeSeed<'de> for Metric<'_, S> {
    type Value = Vec<Option<Cow<'de, str>>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: Series> Visitor<'de> for Metric<'_, S> {
    type Value = Vec<Option<Cow<'de, str>>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the labels of a series")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut labels = vec![None; self.0.wanted()];
        while let Some(key) = map.next_key::<Scalar<'de>>()? {
            match self.0.place(key.text().unwrap_or_default()).and_then(|place| labels.get_mut(place)) {
                Some(label) => *label = map.next_value::<Scalar<'de>>()?.into_text(),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(labels)
    }
}

/// The points of a range.
struct Points<'a, S>(&'a mut S);

impl<'de, S: Series> DeserializeSeed<'de> for Points<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, S: Series> Visitor<'de> for Points<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of points")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(read) = seq.next_element()? {
            point(self.0, read);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::super::containers::{Containers, Labels};
    use super::super::table::{Table, join};
    use super::*;
    use crate::recommender::sources::{Sample, Skipped};

    fn read(text: &[u8], table: &mut Table, skipped: &mut Skipped) -> Result<Answer, serde_json::Error> {
        super::read(text, &mut Containers { labels: &Labels::default(), table, skipped, points: 0 })
    }

    /// A pod's number, and its points in milliseconds and values.
    type Written = (u8, Vec<(i64, f64)>);

    fn written(series: &[Written]) -> String {
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

    fn any_answer() -> impl Strategy<Value = Vec<Written>> {
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
            let answer = read(written(&series).as_bytes(), &mut table, &mut skipped).unwrap();
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
            prop_assert!(read(&text.as_bytes()[..part], &mut table, &mut skipped).is_err());
        }
    }
}
