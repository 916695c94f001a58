//! From scores to the whole numbers that a scheduler is told.

use super::NodeScore;
use crate::placement::PointsForm;

/// The most that an extender may give.
const MOST: f64 = 10.0;
/// Differences of the scores below this do not fill the range of points.
const FULL_RANGE: f64 = 20.0;

/// Gives each node its points: by its score, less what the replicas on it cost.
pub(super) fn give(nodes: &mut [NodeScore], form: PointsForm, replica_penalty: u32) {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for node in nodes.iter() {
        least = least.min(node.score);
        most = most.max(node.score);
    }
    let middle = f64::midpoint(least, most);
    let range = (most - least).max(FULL_RANGE);
    for node in nodes {
        let points = match form {
            PointsForm::Spread => 5.0 + MOST * (node.score - middle) / range,
            PointsForm::Absolute => node.score / 10.0,
        };
        // 14.999999999999998 / 2 is meant to be 7.5: what floating point took away does not decide.
        let points = (points + 1e-9).round().clamp(0.0, MOST);
        let cost = f64::from(node.replicas) * f64::from(replica_penalty);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 10")]
        let points = (points - cost).max(0.0) as u8;
        node.points = points;
    }
}
