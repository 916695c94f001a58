//! What the answer to an eviction says of the right to evict.

use crate::cluster::Evicted;
use crate::status::{Health, Part};

/// What may fail, as it is told.
pub(super) const EVICT: &str = "evict pods";

/// Who may evict, and is answered, can evict; that the pod is gone or a budget says no does not change it. What failed is told
/// by whoever knows how bad that is.
pub(super) fn note(health: &Health, answer: &Evicted) {
    if matches!(answer, Evicted::Yes | Evicted::Gone | Evicted::Refused { may_not: false, .. }) {
        health.works(Part::Balance, EVICT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::WriteError;
    use crate::status::Failure;

    #[test]
    fn an_answer_clears_what_failed_only_where_it_shows_the_right() {
        let refused = |may_not: bool| Evicted::Refused { message: "no".to_owned(), may_not };
        let unavailable = WriteError::Unavailable {
            what: "create Eviction shop/web".to_owned(),
            message: "timeout".to_owned(),
            retry_after: None,
        };
        let unauthorized = WriteError::Unauthorized {
            what: "create Eviction shop/web".to_owned(),
            message: "who?".to_owned(),
        };
        for (rule, answer, clears) in [
            ("evicted", Evicted::Yes, true),
            ("gone, or another one of its name", Evicted::Gone, true),
            ("a budget or a webhook says no", refused(false), true),
            ("no right", refused(true), false),
            ("no answer", Evicted::Failed(unavailable), false),
            ("credentials that are not known", Evicted::Failed(unauthorized), false),
        ] {
            for forbidden in [true, false] {
                let health = Health::default();
                let failure = Failure { message: "not allowed".to_owned(), forbidden };
                health.failed(Part::Balance, EVICT, failure);
                health.failed(Part::Balance, "another call", "broken");
                note(&health, &answer);
                let left: usize =
                    health.counts().iter().map(|(_, [forbidden, other])| forbidden + other).sum();
                assert_eq!(left, if clears { 1 } else { 2 }, "{rule}, forbidden: {forbidden}");
            }
        }
    }
}
