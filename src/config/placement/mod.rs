//! The settings of placement: where pods go, by how loaded the nodes are.

mod balance;
mod settings;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_core::placement::{ClassBounds, Settings};
use serde_json::Value;

pub use self::balance::Balance;
use super::check::{Check, shown};
use super::checked::{ClientAuth, HOUR, MILLISECOND, MINUTE, SECOND};
use super::prometheus::{self, PrometheusAccess, Written};
use super::raw::{RawLoadClass, RawLoadQueries, RawPlacement, RawPlacementLoad, RawPlacementUsage};
use super::units::duration_text;

/// Where pods are placed.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// Whether pods and nodes are watched, load is read, and the extender is served if it has an address.
    pub enabled: bool,
    /// Where the extender listens; absent: nowhere, as where no scheduler can be configured.
    pub address: Option<SocketAddr>,
    /// File of its certificate chain, PEM; `None`: that of `tls.certificate`.
    pub certificate: Option<PathBuf>,
    /// File of its private key, PEM; given together with [`certificate`](Self::certificate).
    pub key: Option<PathBuf>,
    /// Whether callers show a certificate.
    pub client_auth: ClientAuth,
    /// File of the CA certificates that theirs must lead to, PEM; present if the extender listens, unless
    /// `client_auth` is `None`.
    pub client_ca: Option<PathBuf>,
    /// How nodes are scored. But for the windows, a changed file takes effect at once.
    pub settings: Settings,
    /// How the load of nodes is read.
    pub load: HowLoadIsRead,
    /// How it is read what containers use.
    pub usage: WhatContainersUse,
    /// The label that tells how loaded a node is.
    pub load_class: LoadClass,
    /// Whether nodes are annotated with their load in Crane's format.
    pub crane_annotations: bool,
    /// How many seconds the clock of Crane's scheduler is before UTC.
    pub crane_utc_offset: i32,
    /// Pods are moved off nodes that are loaded more than the others.
    pub balance: Balance,
    /// After this time without a sign of life of the leader another replica takes over; whole seconds.
    pub lease_duration: Duration,
    /// How often the leader gives a sign of life.
    pub renew_interval: Duration,
}

/// How the load of nodes is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HowLoadIsRead {
    /// From where.
    pub source: LoadSource,
    /// How often.
    pub interval: Duration,
    /// The longest that one question may take.
    pub timeout: Duration,
    /// A node whose newest sample is older than this has no load.
    pub maximum_age: Duration,
    /// What Prometheus is asked.
    pub queries: LoadQueries,
    /// Labels of series in which a node is looked for: by its name, its internal address or its hostname, with or
    /// without a port; the first one that is there and known counts.
    pub node_labels: Vec<String>,
    /// How Prometheus is reached: as configured here, else as the recommender reaches it. There is an address where the
    /// source is Prometheus.
    pub prometheus: PrometheusAccess,
}

/// From where the load of nodes is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadSource {
    /// Prometheus, or what speaks its API.
    Prometheus,
    /// The API `metrics.k8s.io`: CPU and memory, as they are now.
    MetricsServer,
}

/// What Prometheus is asked about nodes. `$window` stands for each window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadQueries {
    /// The share of CPU time.
    pub cpu: String,
    /// The share of memory.
    pub memory: String,
    /// The share of time in which the busiest disk was busy.
    pub disk: String,
    /// The load average per core.
    pub load: String,
    /// The share of bandwidth.
    pub network: String,
    /// When a node was measured last, in seconds since 1970; `None`: at the time of the answer.
    pub time: Option<String>,
}

/// How it is read what containers use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhatContainersUse {
    /// Whether it is read at all: weights and balance need it.
    pub enabled: bool,
    /// How often.
    pub interval: Duration,
    /// What Prometheus is asked.
    pub queries: UsageQueries,
}

/// What Prometheus is asked about containers; `None` where nobody reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageQueries {
    /// Cores, by container.
    pub cpu: String,
    /// Bytes, by container.
    pub memory: String,
    /// Bits a second, by pod or container.
    pub bandwidth: Option<String>,
    /// Bytes stored, by container.
    pub disk: Option<String>,
    /// Bits a second that a node can send and receive.
    pub total_bandwidth: Option<String>,
    /// Bytes that a node can store.
    pub total_disk: Option<String>,
    /// The share of a node's file systems that is free.
    pub idle_disk: Option<String>,
}

/// The label that tells how loaded a node is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadClass {
    /// Whether nodes are labelled, and pods of namespaces that want it prefer nodes by it.
    pub enabled: bool,
    /// The load from which a node is `mid`.
    pub mid: f64,
    /// The load from which it is `high`.
    pub high: f64,
    /// How far the load must fall below a bound for the class to fall with it.
    pub hysteresis: f64,
    /// How often nodes are looked at.
    pub interval: Duration,
}

impl Placement {
    /// Whether a leader writes something: labels, annotations or evictions.
    pub fn leads(&self) -> bool {
        self.enabled && (self.publishes() || self.balance.enabled)
    }

    /// Whether the leader writes to nodes.
    pub fn publishes(&self) -> bool {
        self.enabled && (self.load_class.enabled || self.crane_annotations)
    }

    /// What no setting shows on its own.
    fn check_together(&self, check: &mut Check<'_>) {
        let text = duration_text;
        if !self.enabled {
            for (path, on, what) in [
                ("placement.balance.enabled", self.balance.enabled, "balance"),
                ("placement.loadClass.enabled", self.load_class.enabled, "the label"),
                ("placement.craneAnnotations", self.crane_annotations, "the annotations"),
            ] {
                if on {
                    let message = format!("is true, but {what} needs placement.enabled: true");
                    check.refuse(path, message);
                }
            }
        }
        let listens = self.enabled && self.address.is_some();
        if listens && self.client_auth != ClientAuth::None && self.client_ca.is_none() {
            let message = format!(
                "is needed because placement.clientAuth is {:?}; give a file with the CA certificates of the schedulers, \
                 or empty placement.address where no scheduler asks",
                self.client_auth
            );
            check.refuse("placement.clientCa", message);
        }
        match (&self.certificate, &self.key) {
            (Some(_), None) => check.refuse("placement.key", "is needed beside placement.certificate"),
            (None, Some(_)) => check.refuse("placement.certificate", "is needed beside placement.key"),
            _ => {}
        }
        if self.load.maximum_age < self.load.interval {
            let message = format!(
                "{} is shorter than placement.load.interval ({}): between two looks no node would have a load",
                text(self.load.maximum_age),
                text(self.load.interval)
            );
            check.refuse("placement.load.maximumAge", message);
        }
        if self.settings.flood.window < self.settings.hot_spot.window {
            let message = "is shorter than placement.hotSpot.window, which a flood is to widen";
            check.refuse("placement.flood.window", message);
        }
        if self.renew_interval * 2 > self.lease_duration {
            let message = format!(
                "{} is more than half of placement.leaseDuration ({}): one call that fails would cost the lease",
                text(self.renew_interval),
                text(self.lease_duration)
            );
            check.refuse("placement.renewInterval", message);
        }
        if !self.lease_duration.as_millis().is_multiple_of(1000) {
            let message =
                format!("{} is not in whole seconds, as a Lease needs it", text(self.lease_duration));
            check.refuse("placement.leaseDuration", message);
        }
        self.load.check_together(check);
        self.load_class.check_together(check);
    }
}

impl HowLoadIsRead {
    fn check_together(&self, check: &mut Check<'_>) {
        const SECTION: &str = "placement.load.prometheus";
        if self.prometheus.address.is_none() && self.prometheus.has_credentials() {
            let message = "is needed beside the other settings of the section; without all of them the recommender's count";
            check.refuse(&format!("{SECTION}.address"), message);
        }
        self.prometheus.check_together(check, SECTION);
    }

    /// Takes the recommender's Prometheus, with its credentials, where no other one is configured.
    pub(super) fn fall_back(&mut self, recommender: &PrometheusAccess) {
        if self.prometheus.address.is_none() {
            self.prometheus = recommender.clone();
        }
    }
}

impl LoadClass {
    /// Where classes begin.
    pub const fn bounds(&self) -> ClassBounds {
        ClassBounds { mid: self.mid, high: self.high, hysteresis: self.hysteresis }
    }

    fn check_together(&self, check: &mut Check<'_>) {
        if self.high <= self.mid {
            let message = format!("{} is not above placement.loadClass.mid ({})", self.high, self.mid);
            check.refuse("placement.loadClass.high", message);
        } else if self.hysteresis > self.mid.min(self.high - self.mid) {
            let message = format!(
                "{} is more than there is below placement.loadClass.mid ({}), or between it and placement.loadClass.high ({})",
                self.hysteresis, self.mid, self.high
            );
            check.refuse("placement.loadClass.hysteresis", message);
        }
    }
}

pub(super) fn check(check: &mut Check<'_>, raw: &RawPlacement) -> Placement {
    let noted = check.count_noted();
    let mut placement = Placement {
        enabled: check.flag("placement.enabled", &raw.enabled),
        address: check.optional("placement.address", &raw.address, Check::address),
        certificate: check.optional("placement.certificate", &raw.certificate, Check::file),
        key: check.optional("placement.key", &raw.key, Check::file),
        client_auth: check.choice(
            "placement.clientAuth",
            &raw.client_auth,
            &[
                ("None", ClientAuth::None),
                ("Optional", ClientAuth::Optional),
                ("Required", ClientAuth::Required),
            ],
            ClientAuth::Required,
        ),
        client_ca: check.optional("placement.clientCa", &raw.client_ca, Check::file),
        settings: settings::check(check, raw),
        load: load(check, &raw.load),
        usage: usage(check, &raw.usage),
        load_class: load_class(check, &raw.load_class),
        crane_annotations: check.flag("placement.craneAnnotations", &raw.crane_annotations),
        crane_utc_offset: utc_offset(check, "placement.craneUtcOffset", &raw.crane_utc_offset),
        balance: balance::check(check, &raw.balance),
        lease_duration: check.duration(
            "placement.leaseDuration",
            &raw.lease_duration,
            2 * SECOND..=5 * MINUTE,
        ),
        renew_interval: check.duration(
            "placement.renewInterval",
            &raw.renew_interval,
            500 * MILLISECOND..=MINUTE,
        ),
    };
    placement.settings.load.maximum_age =
        i64::try_from(placement.load.maximum_age.as_secs()).unwrap_or(i64::MAX);
    if check.count_noted() == noted {
        placement.check_together(check);
    }
    placement
}

/// `+08:00` or `-03:30`, in seconds.
fn utc_offset(check: &mut Check<'_>, path: &str, value: &Value) -> i32 {
    let read = |text: &str| {
        let (sign, rest) = match text.split_at_checked(1)? {
            ("+", rest) => (1, rest),
            ("-", rest) => (-1, rest),
            _ => return None,
        };
        let digits = |text: &str| {
            let is_pair = text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_digit());
            is_pair.then(|| text.parse::<i32>().ok()).flatten()
        };
        let (hours, minutes) = rest.split_once(':')?;
        let (hours, minutes) = (digits(hours)?, digits(minutes)?);
        (hours <= 14 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
    };
    value.as_str().and_then(read).unwrap_or_else(|| {
        let message = format!(
            "{} is not an offset from UTC; write a sign, hours and minutes, as in +08:00",
            shown(value)
        );
        check.refuse(path, message);
        0
    })
}

fn load(check: &mut Check<'_>, raw: &RawPlacementLoad) -> HowLoadIsRead {
    let node_labels = check.list("placement.load.nodeLabels", &raw.node_labels, prometheus::label);
    if node_labels.is_empty() && raw.node_labels.is_array() {
        check.refuse("placement.load.nodeLabels", "is empty; write at least one label, as in [instance]");
    }
    let sources = [("Prometheus", LoadSource::Prometheus), ("MetricsServer", LoadSource::MetricsServer)];
    HowLoadIsRead {
        source: check.choice("placement.load.source", &raw.source, &sources, LoadSource::Prometheus),
        interval: check.duration("placement.load.interval", &raw.interval, SECOND..=10 * MINUTE),
        timeout: check.duration("placement.load.timeout", &raw.timeout, 100 * MILLISECOND..=5 * MINUTE),
        maximum_age: check.duration("placement.load.maximumAge", &raw.maximum_age, SECOND..=24 * HOUR),
        queries: load_queries(check, &raw.queries),
        node_labels,
        prometheus: prometheus::check(check, &Written::of_placement(&raw.prometheus)),
    }
}

fn load_queries(check: &mut Check<'_>, raw: &RawLoadQueries) -> LoadQueries {
    let path = |key: &str| format!("placement.load.queries.{key}");
    LoadQueries {
        cpu: windowed(check, &path("cpu"), &raw.cpu),
        memory: windowed(check, &path("memory"), &raw.memory),
        disk: windowed(check, &path("disk"), &raw.disk),
        load: windowed(check, &path("load"), &raw.load),
        network: windowed(check, &path("network"), &raw.network),
        time: check.optional(&path("time"), &raw.time, Check::text),
    }
}

/// A query that is asked for each window.
fn windowed(check: &mut Check<'_>, path: &str, value: &Value) -> String {
    let query = check.text(path, value);
    if !query.is_empty() && !query.contains("$window") {
        check.refuse(
            path,
            "has no $window, so that every window would have the same mean; write it as in [$window]",
        );
    }
    query
}

fn usage(check: &mut Check<'_>, raw: &RawPlacementUsage) -> WhatContainersUse {
    let path = |key: &str| format!("placement.usage.queries.{key}");
    let queries = &raw.queries;
    WhatContainersUse {
        enabled: check.flag("placement.usage.enabled", &raw.enabled),
        interval: check.duration("placement.usage.interval", &raw.interval, SECOND..=HOUR),
        queries: UsageQueries {
            cpu: check.text(&path("cpu"), &queries.cpu),
            memory: check.text(&path("memory"), &queries.memory),
            bandwidth: check.optional(&path("bandwidth"), &queries.bandwidth, Check::text),
            disk: check.optional(&path("disk"), &queries.disk, Check::text),
            total_bandwidth: check.optional(&path("totalBandwidth"), &queries.total_bandwidth, Check::text),
            total_disk: check.optional(&path("totalDisk"), &queries.total_disk, Check::text),
            idle_disk: check.optional(&path("idleDisk"), &queries.idle_disk, Check::text),
        },
    }
}

fn load_class(check: &mut Check<'_>, raw: &RawLoadClass) -> LoadClass {
    LoadClass {
        enabled: check.flag("placement.loadClass.enabled", &raw.enabled),
        mid: check.number("placement.loadClass.mid", &raw.mid, 0.0..=1.0),
        high: check.number("placement.loadClass.high", &raw.high, 0.0..=1.0),
        hysteresis: check.number("placement.loadClass.hysteresis", &raw.hysteresis, 0.0..=0.5),
        interval: check.duration("placement.loadClass.interval", &raw.interval, SECOND..=HOUR),
    }
}
