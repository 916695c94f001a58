//! Autoscalers: without the server nobody would keep the targets right that it wrote.

use std::time::Duration;

use tokio::time::Instant;

use super::servers::Stopped;
use super::{Ending, Job, Line};
use crate::cli::hpa::restore::{Ending as Restored, Which, Work};

const STEP: &str = "autoscalers";
/// For how long the keeper of a server that may still run stands still.
const HOLD: Duration = Duration::from_secs(600);
/// After which time it is looked whether such a server has converted them again.
const SETTLE: Duration = Duration::from_secs(3);

pub(super) async fn restore(job: &Job, stopped: Stopped) -> Vec<Line> {
    let line = |object: String, result, message: String| Line { step: STEP, object, result, message };
    let all = || "HorizontalPodAutoscalers".to_owned();
    let if_any = |stopped: bool, time| if stopped { Duration::ZERO } else { time };
    let work = Work {
        which: Which::All(None),
        own_namespace: &job.own,
        hold: if_any(stopped != Stopped::Unknown, HOLD),
        settle: if_any(stopped == Stopped::Yes, SETTLE),
        deadline: Instant::now() + job.timeout,
        dry_run: job.dry_run,
    };
    let (restored, keeper) = match work.run(&job.client).await {
        Ok(done) => done,
        Err(error) => return vec![line(all(), Ending::Failed, error.to_string())],
    };
    if restored.is_empty() {
        return vec![line(all(), Ending::Nothing, "none carries a record of ours".to_owned())];
    }
    let mut lines: Vec<Line> = restored
        .into_iter()
        .map(|restored| {
            let object = format!("HorizontalPodAutoscaler {}/{}", restored.namespace, restored.name);
            let ending = match restored.result {
                Restored::Restored => Ending::Done,
                Restored::WouldRestore => Ending::WouldBeDone,
                Restored::Nothing => Ending::Nothing,
                Restored::Unreadable | Restored::ConvertedAgain => Ending::NotRestored,
                // To try again would not help.
                Restored::Failed if restored.refused => Ending::NotRestored,
                Restored::Failed => Ending::Failed,
            };
            let words = restored.result.words();
            let message = restored.message.map_or_else(|| words.to_owned(), |why| format!("{words}: {why}"));
            line(object, ending, message)
        })
        .collect();
    if let Some(why) = keeper {
        let why = format!("a server that still runs could not be made to stand still: {why}");
        lines.push(line(all(), Ending::Failed, why));
    }
    lines
}
