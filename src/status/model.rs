//! A status as it is answered.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A part of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// `/mutate` and `/validate`.
    Admission,
    /// The watches of objects that decisions need.
    Snapshots,
    /// The certificates that are served.
    Certificates,
    /// Who makes and renews the authority of those certificates, and keeps it in the webhook configurations.
    CertificateAuthority,
    /// The configuration, and changes of it.
    Configuration,
    /// Makes recommendations of usage.
    Recommender,
    /// Where the recommender has usage from.
    UsageSource,
    /// Keeps the targets of autoscalers.
    HpaKeeper,
    /// The aggregated APIs that tell autoscalers scaled usage.
    HpaApi,
    /// Keeps the quota ledger: counts, reclaims, writes the tree's status.
    QuotaKeeper,
    /// Decisions about quota, and the ledger behind them.
    QuotaLedger,
    /// The load of nodes.
    PlacementLoad,
    /// Answers schedulers.
    Extender,
    /// Evicts from hot nodes, and writes load classes to nodes.
    Balance,
    /// Events on objects.
    Events,
}

impl Part {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 15] = [
        Self::Admission,
        Self::Snapshots,
        Self::Certificates,
        Self::CertificateAuthority,
        Self::Configuration,
        Self::Recommender,
        Self::UsageSource,
        Self::HpaKeeper,
        Self::HpaApi,
        Self::QuotaKeeper,
        Self::QuotaLedger,
        Self::PlacementLoad,
        Self::Extender,
        Self::Balance,
        Self::Events,
    ];

    /// Its name in answers and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Snapshots => "snapshots",
            Self::Certificates => "certificates",
            Self::CertificateAuthority => "certificate-authority",
            Self::Configuration => "configuration",
            Self::Recommender => "recommender",
            Self::UsageSource => "usage-source",
            Self::HpaKeeper => "hpa-keeper",
            Self::HpaApi => "hpa-api",
            Self::QuotaKeeper => "quota-keeper",
            Self::QuotaLedger => "quota-ledger",
            Self::PlacementLoad => "placement-load",
            Self::Extender => "extender",
            Self::Balance => "balance",
            Self::Events => "events",
        }
    }

    /// The part whose leader holds the lease `plimsoll-NAME`.
    pub fn of_lease(name: &str) -> Option<Self> {
        match name {
            "certs" => Some(Self::CertificateAuthority),
            "recommender" => Some(Self::Recommender),
            "hpa" => Some(Self::HpaKeeper),
            "quota" => Some(Self::QuotaKeeper),
            "balance" => Some(Self::Balance),
            _ => None,
        }
    }

    /// What works only on the replica that leads this part.
    pub(crate) const fn led_with(self) -> &'static [Self] {
        match self {
            Self::Recommender => &[Self::Recommender, Self::UsageSource],
            Self::CertificateAuthority => &[Self::CertificateAuthority],
            Self::HpaKeeper => &[Self::HpaKeeper],
            Self::QuotaKeeper => &[Self::QuotaKeeper],
            Self::Balance => &[Self::Balance],
            _ => &[],
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How something is. The order is from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum State {
    /// It is not wanted.
    Off,
    /// Another replica does it.
    NotLeader,
    /// It works.
    Healthy,
    /// Nobody knows: it has not been tried, or cannot be asked. That is not healthy. So are states of newer servers.
    Unknown,
    /// It works with something missing.
    Degraded,
    /// It does not work.
    Failed,
}

impl State {
    /// Its word in answers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "Off",
            Self::NotLeader => "NotLeader",
            Self::Healthy => "Healthy",
            Self::Unknown => "Unknown",
            Self::Degraded => "Degraded",
            Self::Failed => "Failed",
        }
    }

    /// Whether there is nothing to do about it.
    pub const fn is_well(self) -> bool {
        matches!(self, Self::Off | Self::NotLeader | Self::Healthy)
    }

    /// That of the whole of which these are the states: the worst of them, where what is off or done elsewhere does
    /// not count. Of nothing, nothing is known.
    pub fn sum(states: impl IntoIterator<Item = Self>) -> Self {
        states.into_iter().max().map_or(Self::Unknown, |worst| worst.max(Self::Healthy))
    }
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let all = [Self::Off, Self::NotLeader, Self::Healthy, Self::Degraded, Self::Failed];
        Ok(all.into_iter().find(|state| state.word() == word).unwrap_or(Self::Unknown))
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// What went wrong last, even if it works again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// In words.
    pub message: String,
    /// When, RFC 3339.
    pub at: String,
}

/// How a part is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartStatus {
    /// Which.
    pub name: Part,
    /// How it is.
    pub state: State,
    /// Why it is not healthy: a sentence for each thing that is wrong, with what can be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// Since when something is wrong, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The seconds since what it goes by was fresh: a snapshot, usage, the load of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// The end of validity of its certificate, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<String>,
    /// Who holds its lease, as this replica saw it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// How many shards it has, each with a lease of its own, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
    /// What went wrong last; it may work again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
}

impl PartStatus {
    /// A part that is only in a state.
    pub const fn new(name: Part, state: State) -> Self {
        Self {
            name,
            state,
            why: Vec::new(),
            since: None,
            age_seconds: None,
            not_after: None,
            holder: None,
            shards: None,
            last_error: None,
        }
    }
}

/// How a replica is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The running version.
    pub version: String,
    /// The name of the pod, or of the machine.
    pub replica: String,
    /// When this was so, RFC 3339.
    pub at: String,
    /// Whether `/readyz` says so.
    pub ready: bool,
    /// The worst of the parts.
    pub state: State,
    /// Every part, also those that are off; of a newer server those that are known here.
    #[serde(deserialize_with = "known_parts")]
    pub parts: Vec<PartStatus>,
}

fn known_parts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PartStatus>, D::Error> {
    let parts = Vec::<Value>::deserialize(deserializer)?;
    let is_known = |part: &Value| part.get("name").is_none_or(|name| Part::deserialize(name).is_ok());
    let known = parts.into_iter().filter(is_known);
    known.map(|part| serde_json::from_value(part).map_err(D::Error::custom)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_is_never_better_than_a_part() {
        use State::{Degraded, Failed, Healthy, NotLeader, Off, Unknown};
        for (states, expected) in [
            (vec![], Unknown),
            (vec![Off, NotLeader], Healthy),
            (vec![Healthy, Off], Healthy),
            (vec![Healthy, Unknown], Unknown),
            (vec![Unknown, Degraded], Degraded),
            (vec![Degraded, Failed, Healthy], Failed),
        ] {
            assert_eq!(State::sum(states.clone()), expected, "{states:?}");
            assert_eq!(expected.is_well(), expected == Healthy);
        }
    }

    #[test]
    fn names_are_those_of_answers() {
        for part in Part::ALL {
            assert_eq!(serde_json::to_value(part).unwrap(), part.name());
        }
        for state in [State::Off, State::NotLeader, State::Healthy, State::Unknown, State::Failed] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.word());
        }
    }
}
