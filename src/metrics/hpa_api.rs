//! What the aggregated API server counts.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::families::register;
use super::labels::{ApiGroup, ApiOutcome, ReviewKind, ReviewResult, ScaleOutcome, UpstreamError};
use super::{ListenerMetrics, Metrics};
use crate::status::Health;

/// Upper bounds of the buckets of the upstream's duration, in seconds.
const UPSTREAM_BUCKETS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    group: ApiGroup,
    outcome: ApiOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamLabel {
    reason: UpstreamError,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ScaleLabels {
    resource: &'static str,
    outcome: ScaleOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReviewLabels {
    kind: ReviewKind,
    result: ReviewResult,
}

/// What the aggregated API server counts, beside its listener.
#[derive(Debug)]
pub(super) struct HpaApiFamilies {
    pub(super) listener: ListenerMetrics,
    requests: Family<RequestLabels, Counter>,
    upstream_duration: Histogram,
    upstream_errors: Family<UpstreamLabel, Counter>,
    scaled: Family<ScaleLabels, Counter>,
    reviews: Family<ReviewLabels, Counter>,
}

impl HpaApiFamilies {
    pub(super) fn register(r: &mut Registry, health: &Health) -> Self {
        let requests: Family<RequestLabels, Counter> = register(
            r,
            "hpa_api_requests",
            "Requests to the aggregated API server, by API group and how they ended",
        );
        for &group in ApiGroup::ALL {
            for &outcome in ApiOutcome::ALL {
                requests.get_or_create_owned(&RequestLabels { group, outcome });
            }
        }
        let upstream_duration = Histogram::new(UPSTREAM_BUCKETS);
        r.register(
            "hpa_api_upstream_duration_seconds",
            "Time that metrics-server took to answer, to the end of the answer",
            upstream_duration.clone(),
        );
        let upstream_errors: Family<UpstreamLabel, Counter> = register(
            r,
            "hpa_api_upstream_errors",
            "Calls to metrics-server that brought nothing to pass on, by reason",
        );
        for &reason in UpstreamError::ALL {
            upstream_errors.get_or_create_owned(&UpstreamLabel { reason });
        }
        let scaled: Family<ScaleLabels, Counter> = register(
            r,
            "hpa_api_scaled",
            "Answers to the autoscaler's controller in which the usage of a resource was scaled, or why it was not",
        );
        for resource in ["cpu", "memory"] {
            for &outcome in ScaleOutcome::ALL {
                scaled.get_or_create_owned(&ScaleLabels { resource, outcome });
            }
        }
        let reviews: Family<ReviewLabels, Counter> = register(
            r,
            "hpa_api_reviews",
            "Reviews of tokens and of rights for the aggregated API server that were asked of the API server, by result",
        );
        for &kind in ReviewKind::ALL {
            for &result in ReviewResult::ALL {
                reviews.get_or_create_owned(&ReviewLabels { kind, result });
            }
        }
        let listener = ListenerMetrics::register(r, "hpa_api_", "aggregated API", health);
        Self { listener, requests, upstream_duration, upstream_errors, scaled, reviews }
    }
}

impl Metrics {
    /// What the listener of the aggregated API server counts.
    #[must_use]
    pub const fn hpa_api_listener(&self) -> &ListenerMetrics {
        &self.hpa_api.listener
    }

    /// Counts a request to the aggregated API server.
    pub fn hpa_api_request(&self, group: ApiGroup, outcome: ApiOutcome) {
        self.hpa_api.requests.get_or_create(&RequestLabels { group, outcome }).inc();
    }

    /// Notes how long metrics-server took.
    pub fn hpa_api_upstream(&self, duration: Duration) {
        self.hpa_api.upstream_duration.observe(duration.as_secs_f64());
    }

    /// Counts a call to metrics-server that brought nothing to pass on.
    pub fn hpa_api_upstream_error(&self, reason: UpstreamError) {
        self.hpa_api.upstream_errors.get_or_create(&UpstreamLabel { reason }).inc();
    }

    /// Counts what became of the usage of a resource in an answer to the autoscaler's controller.
    pub fn hpa_api_scaled(&self, resource: &'static str, outcome: ScaleOutcome) {
        self.hpa_api.scaled.get_or_create(&ScaleLabels { resource, outcome }).inc();
    }

    /// Counts a review that the API server was asked for.
    pub fn hpa_api_review(&self, kind: ReviewKind, result: ReviewResult) {
        self.hpa_api.reviews.get_or_create(&ReviewLabels { kind, result }).inc();
    }
}
