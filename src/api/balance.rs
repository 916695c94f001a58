//! The last rounds of the balance controller.

use http::StatusCode;

use super::Answer;
use crate::balance::Rounds;

pub(super) fn answer(rounds: Option<&Rounds>) -> Answer {
    rounds.map(|rounds| rounds.json().to_string()).ok_or_else(|| {
        let message = "this replica does not balance; placement.balance.enabled must be true";
        (StatusCode::NOT_FOUND, message.to_owned())
    })
}
