//! What the metrics of an autoscaler become.

use std::fmt;

use crate::hpa::record::{Original, Originals, Written};
use crate::hpa::{Bases, Hpa, KeyBase, MeanBase, MetricKey, MetricTarget, Verdict};
use crate::overcommit::Amount;
use crate::resource::MILLI;

/// What is done to an autoscaler, and what is to be said about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversion {
    /// Changes of `spec.metrics`, by index.
    pub changes: Vec<Change>,
    /// The record that the annotation is to hold; none leaves the annotation as it is.
    pub record: Option<Originals>,
    /// What happened, and what could not be done.
    pub notes: Vec<Note>,
}

/// A change of one metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its target becomes an average value.
    AverageValue {
        /// Its place in the list.
        index: usize,
        /// The member that holds its source: `resource` or `containerResource`.
        member: &'static str,
        /// The value.
        value: String,
    },
    /// Its target becomes a utilization.
    Utilization {
        /// Its place in the list.
        index: usize,
        /// The member that holds its source.
        member: &'static str,
        /// In percent.
        percent: i64,
    },
    /// It is taken out: another one of the same key takes its place.
    Remove {
        /// Its place in the list.
        index: usize,
    },
}

/// Something that whoever looks at an autoscaler should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A utilization became an average value.
    Converted {
        /// Of which metric.
        key: MetricKey,
        /// The utilization.
        percent: i64,
        /// The average value.
        value: String,
        /// From what.
        base: MeanBase,
    },
    /// A utilization is a utilization again.
    Restored {
        /// Of which metric.
        key: MetricKey,
        /// The utilization.
        percent: i64,
    },
    /// A utilization stays one, because the controller has nothing to divide by either.
    NoBase {
        /// Of which metric.
        key: MetricKey,
        /// What is missing.
        missing: String,
    },
    /// A utilization stays one: the average value would be 0, or beyond all quantities.
    OutOfRange {
        /// Of which metric.
        key: MetricKey,
        /// The utilization.
        percent: i64,
    },
    /// Utilizations stay: there are several for one metric, and one record.
    Several {
        /// Of which metric.
        key: MetricKey,
    },
    /// The record was edited by hand; what was there before is put back.
    Edited,
    /// The record cannot be read, so what the targets were is not known. Nothing is changed.
    Unreadable {
        /// Why not.
        why: String,
    },
}

impl Note {
    /// Whether somebody should look.
    pub const fn is_warning(&self) -> bool {
        !matches!(self, Self::Converted { .. } | Self::Restored { .. })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Converted { key, percent, value, base } => {
                let mean = Amount::computed(key.resource, base.mean_rounded_up(key)).text;
                let what = match base.basis {
                    Some(basis) => basis.lower_case(),
                    None => "request or limit",
                };
                write!(f, "{key}: {percent} % of the {what} as written ({mean} a pod) is {value}")
            }
            Self::Restored { key, percent } => write!(f, "{key}: {percent} % again"),
            Self::NoBase { key, missing } => write!(f, "{key}: not converted: {missing}"),
            Self::OutOfRange { key, percent } => {
                write!(f, "{key}: not converted: {percent} % of the base is no value that a target can have")
            }
            Self::Several { key } => {
                write!(f, "{key}: not converted: there are several utilizations of it; keep one")
            }
            Self::Edited => write!(
                f,
                "annotation {} was edited; it is written by Plimsoll, and was put back",
                crate::keys::HPA_ORIGINAL
            ),
            Self::Unreadable { why } => write!(
                f,
                "annotation {} cannot be read ({why}): nothing is changed. Write the utilizations back into \
                 spec.metrics, or remove the annotation to keep the average values as your own",
                crate::keys::HPA_ORIGINAL
            ),
        }
    }
}

impl MeanBase {
    /// The average value that is `percent` of the mean, rounded up to what the resource is counted in (milli-cores,
    /// bytes); none if it is 0 or beyond what the controller can compute with.
    pub fn value(&self, key: &MetricKey, percent: i64) -> Option<Amount> {
        if percent < 1 {
            return None;
        }
        let step = key.resource.step();
        let divisor = i128::from(self.pods).checked_mul(100)?.checked_mul(step)?;
        let product = self.sum.checked_mul(i128::from(percent))?;
        let steps = product.checked_add(divisor.checked_sub(1)?)?.checked_div(divisor)?;
        let nanos = steps.checked_mul(step)?;
        // The controller counts in milli-units, in 64 bits.
        let in_range = nanos > 0 && nanos / MILLI <= i128::from(i64::MAX);
        in_range.then(|| Amount::computed(key.resource, nanos))
    }

    fn mean_rounded_up(&self, key: &MetricKey) -> i128 {
        let divisor = i128::from(self.pods.max(1)).saturating_mul(key.resource.step());
        let steps = self.sum.saturating_add(divisor - 1).checked_div(divisor).unwrap_or_default();
        steps.saturating_mul(key.resource.step())
    }
}

/// What an autoscaler becomes. `old` is what it was before, where somebody is about to change it.
pub fn convert(new: &Hpa, old: Option<&Hpa>, verdict: &Verdict) -> Conversion {
    let mut conversion = Conversion::default();
    let before = match recorded(new, old, &mut conversion.notes) {
        Ok(before) => before,
        Err(why) => {
            // An average value may be ours, and what it was before cannot be told. Where there is none, nothing that
            // the record tells is needed any more.
            let has_value = |hpa: &Hpa| {
                hpa.metrics.iter().any(|metric| {
                    metric.key.is_some() && matches!(metric.target, MetricTarget::AverageValue(_))
                })
            };
            if has_value(new) {
                conversion.notes = vec![Note::Unreadable { why }];
                return conversion;
            }
            Originals::default()
        }
    };
    let mut after = Originals::default();
    for key in new.keys() {
        let one = OneMetric { key: &key, hpa: new, before: before.0.get(&key), verdict };
        if let Some(original) = one.convert(&mut conversion) {
            after.0.insert(key, original);
        }
    }
    conversion.changes.sort_by_key(|change| std::cmp::Reverse(change.index()));
    // A text that says the same in another way is as good.
    let is_stored = match &new.original {
        None => after.0.is_empty(),
        Some(text) => !after.0.is_empty() && Originals::read(text).is_ok_and(|stored| stored == after),
    };
    conversion.record = (!is_stored).then_some(after);
    conversion
}

/// What is recorded about an autoscaler. Only we write the record, so what was stored before counts more than what
/// somebody sends; but for a value that is that of the record which came with it: an earlier call in the same request,
/// a backup or an export that is applied again.
fn recorded(new: &Hpa, old: Option<&Hpa>, notes: &mut Vec<Note>) -> Result<Originals, String> {
    let read = |hpa: &Hpa| hpa.original.as_deref().map(Originals::read);
    let sent = read(new);
    let Some(Ok(stored)) = old.and_then(read) else {
        // A broken one that is taken off or replaced: somebody has dealt with it.
        return sent.unwrap_or_else(|| Ok(Originals::default())).map_err(|error| error.to_string());
    };
    let Some(sent) = sent else { return Ok(stored) };
    let stands = |original: &Original, key: &MetricKey| {
        let value = original.written.as_ref().map(|written| written.value.nanos);
        new.metrics.iter().any(|metric| {
            metric.key.as_ref() == Some(key)
                && matches!(&metric.target, MetricTarget::AverageValue(found) if Some(found.nanos) == value)
        })
    };
    let mut originals = stored.clone();
    for (key, original) in sent.iter().flat_map(|sent| &sent.0) {
        if stands(original, key) && !stored.0.get(key).is_some_and(|stored| stands(stored, key)) {
            originals.0.insert(key.clone(), original.clone());
        }
    }
    if originals == stored && sent.as_ref() != Ok(&stored) {
        notes.push(Note::Edited);
    }
    Ok(originals)
}

/// One metric on its way.
struct OneMetric<'a> {
    key: &'a MetricKey,
    hpa: &'a Hpa,
    before: Option<&'a Original>,
    verdict: &'a Verdict,
}

impl OneMetric<'_> {
    fn targets(&self) -> impl Iterator<Item = (usize, &MetricTarget)> {
        let metrics = self.hpa.metrics.iter().enumerate();
        metrics
            .filter(|(_, metric)| metric.key.as_ref() == Some(self.key))
            .map(|(i, metric)| (i, &metric.target))
    }

    fn written(&self) -> Option<&Written> {
        self.before.and_then(|before| before.written.as_ref())
    }

    /// What is to be recorded of the metric.
    fn convert(&self, into: &mut Conversion) -> Option<Original> {
        let ours = self.written().and_then(|written| {
            self.targets().find(|(_, target)| {
                matches!(target, MetricTarget::AverageValue(value) if value.nanos == written.value.nanos)
            })
        });
        let ours = ours.map(|(index, _)| index);
        let utilizations: Vec<_> = self
            .targets()
            .filter_map(|(index, target)| match target {
                MetricTarget::Utilization(percent) => Some((index, *percent)),
                _ => None,
            })
            .collect();
        match (utilizations.as_slice(), ours) {
            // What was ours was replaced by a value of the author's own, or taken out.
            ([], None) => None,
            ([], Some(index)) => self.keep(index, into),
            ([(index, percent)], _) => self.intend(*index, *percent, ours, into),
            _ => {
                into.notes.push(Note::Several { key: self.key.clone() });
                self.before.filter(|_| ours.is_some()).cloned()
            }
        }
    }

    /// Our own value stands there: it follows the bases, or goes back.
    fn keep(&self, index: usize, into: &mut Conversion) -> Option<Original> {
        let before = self.before?;
        match self.verdict {
            Verdict::Unknown => Some(before.clone()),
            Verdict::Restore(_) => self.restore(index, before.target, into),
            Verdict::Convert(bases) => match bases.0.get(self.key) {
                None => Some(before.clone()),
                Some(KeyBase::AsWritten) => self.restore(index, before.target, into),
                Some(KeyBase::Missing { why, native }) => {
                    into.notes.push(Note::NoBase { key: self.key.clone(), missing: why.clone() });
                    if !native {
                        return Some(before.clone());
                    }
                    self.restore(index, before.target, into);
                    Some(Original { target: before.target, written: None })
                }
                Some(KeyBase::Known(base)) => match base.value(self.key, before.target) {
                    None => {
                        into.notes.push(self.out_of_range(before.target));
                        self.restore(index, before.target, into)
                    }
                    Some(value)
                        if self.written().is_some_and(|written| written.value.nanos == value.nanos) =>
                    {
                        Some(before.clone())
                    }
                    Some(value) => Some(self.set(index, before.target, value, *base, into)),
                },
            },
        }
    }

    /// A utilization is what the author wants now, whatever stands beside it.
    fn intend(
        &self,
        index: usize,
        percent: i64,
        ours: Option<usize>,
        into: &mut Conversion,
    ) -> Option<Original> {
        // An unchanged manifest of autoscaling/v1 that is applied again puts its percentage beside our value.
        let replace = |into: &mut Conversion| {
            into.changes.extend(ours.map(|index| Change::Remove { index }));
        };
        let waiting = (percent > 0).then_some(Original { target: percent, written: None });
        let known = match self.verdict {
            Verdict::Restore(_) => Some(&KeyBase::AsWritten),
            Verdict::Unknown => None,
            Verdict::Convert(Bases(bases)) => bases.get(self.key),
        };
        let base = match known {
            Some(KeyBase::Known(base)) => *base,
            Some(KeyBase::AsWritten) => {
                replace(into);
                return None;
            }
            Some(KeyBase::Missing { why, .. }) => {
                replace(into);
                into.notes.push(Note::NoBase { key: self.key.clone(), missing: why.clone() });
                // Whoever sees the template only would convert it at the next occasion.
                return waiting;
            }
            None => match self.written() {
                Some(written) => written.base,
                None => return waiting,
            },
        };
        replace(into);
        let Some(value) = base.value(self.key, percent) else {
            into.notes.push(self.out_of_range(percent));
            return None;
        };
        Some(self.set(index, percent, value, base, into))
    }

    fn set(
        &self,
        index: usize,
        percent: i64,
        value: Amount,
        base: MeanBase,
        into: &mut Conversion,
    ) -> Original {
        into.changes.push(Change::AverageValue {
            index,
            member: self.key.member(),
            value: value.text.clone(),
        });
        into.notes.push(Note::Converted { key: self.key.clone(), percent, value: value.text.clone(), base });
        Original { target: percent, written: Some(Written { value, base }) }
    }

    fn restore(&self, index: usize, percent: i64, into: &mut Conversion) -> Option<Original> {
        into.changes.push(Change::Utilization { index, member: self.key.member(), percent });
        into.notes.push(Note::Restored { key: self.key.clone(), percent });
        None
    }

    fn out_of_range(&self, percent: i64) -> Note {
        Note::OutOfRange { key: self.key.clone(), percent }
    }
}

impl Conversion {
    /// Whether the autoscaler that it was made from differs from what it makes, but for the annotation of the keeper.
    pub fn changes(&self, hpa: &Hpa) -> bool {
        // That something waits is no reason to write, only that it does so no longer when something else is written.
        let forgets_only = self.record.as_ref().is_some_and(|record| {
            let before = hpa.original.as_deref().map(Originals::read);
            before.and_then(Result::ok).is_some_and(|mut before| {
                before.0.retain(|key, original| original.written.is_some() || record.0.contains_key(key));
                before == *record
            })
        });
        !self.changes.is_empty() || (self.record.is_some() && !forgets_only)
    }
}

impl Change {
    /// The place in the list of metrics.
    pub const fn index(&self) -> usize {
        match self {
            Self::AverageValue { index, .. } | Self::Utilization { index, .. } | Self::Remove { index } => {
                *index
            }
        }
    }
}
