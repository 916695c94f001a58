//! A `Lease` as it is seen, and as it is written.
//!
//! Times in it were written by other machines' clocks and are not believed. What counts is for how long *this* machine
//! has not seen it change: then its holder has not renewed it either.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::core::Request;
use kube::core::params::{GetParams, PostParams};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};

use crate::cluster::{Call, WriteError};

/// What decides whether a lease is free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty: released.
    pub(super) holder: String,
    pub(super) duration_seconds: u64,
    pub(super) acquired: String,
    pub(super) renewed: String,
    pub(super) transitions: i64,
}

/// A lease that was read, or written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lease {
    pub(super) record: Record,
    /// As the API server has it: others may keep labels there.
    metadata: Map<String, Value>,
}

impl Lease {
    fn of(object: &Value) -> Self {
        let spec = |key: &str| object.get("spec").and_then(|spec| spec.get(key));
        let text = |key: &str| spec(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let record = Record {
            holder: text("holderIdentity"),
            duration_seconds: spec("leaseDurationSeconds").and_then(Value::as_u64).unwrap_or_default(),
            acquired: text("acquireTime"),
            renewed: text("renewTime"),
            transitions: spec("leaseTransitions").and_then(Value::as_i64).unwrap_or_default(),
        };
        let metadata = object.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        Self { record, metadata }
    }

    /// The text of an annotation.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.get("annotations")?.get(key)?.as_str()
    }

    /// The same lease with an annotation.
    pub(super) fn annotated(mut self, key: &str, text: &str) -> Self {
        let annotations = self.metadata.entry("annotations").or_insert_with(|| json!({}));
        if !annotations.is_object() {
            *annotations = json!({});
        }
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(key.to_owned(), json!(text));
        }
        self
    }
}

/// For how long a lease has been as it is.
#[derive(Debug, Default)]
pub(super) struct Observed {
    last: Option<(Record, Instant)>,
}

impl Observed {
    /// Notes a lease as it was seen at `now`, and returns since when it is there for the taking: by its release, or because its
    /// holder did not renew it for its whole duration, or for `at_least`.
    pub(super) fn free_since(
        &mut self,
        record: &Record,
        now: Instant,
        at_least: Duration,
    ) -> Option<Instant> {
        let since = match &self.last {
            Some((last, since)) if last == record => *since,
            _ => {
                self.last = Some((record.clone(), now));
                now
            }
        };
        if record.holder.is_empty() {
            return Some(since);
        }
        let end = since + Duration::from_secs(record.duration_seconds.min(3600)).max(at_least);
        (now >= end).then_some(end)
    }
}

/// The calls about one lease.
#[derive(Clone)]
pub(super) struct LeaseClient {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) name: String,
}

const MANAGER: &str = "plimsoll-election";

impl LeaseClient {
    fn request(&self) -> Request {
        Request::new(format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace))
    }

    async fn send(
        &self,
        verb: &'static str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        limit: Duration,
    ) -> Result<Lease, WriteError> {
        let object = format!("{}/{}", self.namespace, self.name);
        let call = Call {
            verb,
            kind: "Lease",
            resource: "leases",
            group: "coordination.k8s.io",
            object: &object,
            bytes: 0,
        };
        let request = request.map_err(|error| call.failed(&kube::Error::BuildRequest(error)))?;
        if limit.is_zero() {
            // A timeout of nothing would send it all the same.
            return Err(call.slow(limit));
        }
        let text = timeout(limit, self.client.request_text(request))
            .await
            .map_err(|_| call.slow(limit))?
            .map_err(|error| call.failed(&error))?;
        let object: Value = serde_json::from_str(&text)
            .map_err(|error| call.unavailable(format!("the answer is no object: {error}")))?;
        Ok(Lease::of(&object))
    }

    /// The lease, if there is one.
    pub(super) async fn read(&self, limit: Duration) -> Result<Option<Lease>, WriteError> {
        let request = self.request().get(&self.name, &GetParams::default());
        match self.send("get", request, limit).await {
            Ok(lease) => Ok(Some(lease)),
            Err(WriteError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a record: in the place of the lease that was read, or a new lease. Fails with a conflict when somebody
    /// else did so first.
    pub(super) async fn write(
        &self,
        before: Option<&Lease>,
        record: &Record,
        limit: Duration,
    ) -> Result<Lease, WriteError> {
        let name = || Map::from_iter([("name".to_owned(), json!(self.name))]);
        let metadata = before.map_or_else(name, |before| before.metadata.clone());
        let mut spec = json!({
            "holderIdentity": record.holder,
            "leaseDurationSeconds": record.duration_seconds,
            "renewTime": record.renewed,
            "leaseTransitions": record.transitions,
        });
        if let Some(spec) = spec.as_object_mut().filter(|_| !record.acquired.is_empty()) {
            spec.insert("acquireTime".to_owned(), json!(record.acquired));
        }
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec,
        });
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let body = body.to_string().into_bytes();
        if before.is_some() {
            let request = self.request().replace(&self.name, &parameters, body);
            self.send("update", request, limit).await
        } else {
            let request = self.request().create(&parameters, body);
            self.send("create", request, limit).await
        }
    }
}

/// The time for people who look at the lease.
pub(super) fn now_text() -> String {
    format!("{:.6}", Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(holder: &str, renewed: &str) -> Record {
        Record {
            holder: holder.to_owned(),
            renewed: renewed.to_owned(),
            duration_seconds: 15,
            ..Record::default()
        }
    }

    #[test]
    fn a_lease_is_free_when_it_has_not_moved_for_long_enough() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut observed = Observed::default();
        let least = Duration::from_secs(10);
        let mut free = |record: &Record, now| observed.free_since(record, at(now), least);
        // However old its time is: a clock that is wrong must not make two leaders.
        assert_eq!(free(&record("a", "1999-01-01T00:00:00Z"), 0), None, "first seen");
        assert_eq!(free(&record("a", "1999-01-01T00:00:00Z"), 14), None);
        assert_eq!(free(&record("a", "1999-01-01T00:00:01Z"), 14), None, "renewed");
        assert_eq!(free(&record("a", "1999-01-01T00:00:01Z"), 28), None);
        assert_eq!(free(&record("a", "1999-01-01T00:00:01Z"), 31), Some(at(29)), "by its own duration");
        assert_eq!(free(&record("b", "1999-01-01T00:00:01Z"), 32), None, "another holder");
        assert_eq!(free(&record("", "1999-01-01T00:00:01Z"), 33), Some(at(33)), "released");
        assert_eq!(free(&record("", "1999-01-01T00:00:01Z"), 40), Some(at(33)), "and since when");
        let short = Record { duration_seconds: 0, ..record("c", "") };
        assert_eq!(free(&short, 50), None);
        assert_eq!(free(&short, 59), None, "a holder that gives no duration has ours");
        assert_eq!(free(&short, 60), Some(at(60)));
    }

    #[test]
    fn what_is_not_there_is_empty() {
        for object in [json!({}), json!({"spec": null}), json!({"spec": {"holderIdentity": 5}})] {
            assert_eq!(Lease::of(&object).record, Record::default(), "{object}");
        }
    }

    #[test]
    fn times_are_as_the_api_server_reads_them() {
        let text = now_text();
        assert!(text.ends_with('Z') && text.split('.').nth(1).is_some_and(|rest| rest.len() == 7), "{text}");
    }
}
