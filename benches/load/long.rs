//! Whether memory stays flat.

use std::time::{Duration, Instant};

use anyhow::bail;

use crate::Options;
use crate::client::{Load, Target};
use crate::legs::runtime;
use crate::report::say;
use crate::server::{Kind, Programs, Server};

const SAMPLES: u64 = 20;
const POLL: Duration = Duration::from_millis(50);

/// Sends the requests and says how much memory the server has after each twentieth of them.
pub(crate) fn run(options: &Options, programs: &Programs) -> anyhow::Result<()> {
    let server = Server::start(programs, Kind::Plimsoll, None)?;
    say(&format!("{:>12} {:>14} {:>12}", "requests", "resident KiB", "requests/s"));
    let report = |done: u64, rate: f64| -> anyhow::Result<()> {
        say(&format!("{done:>12} {:>14} {rate:>12.0}", server.resident()? / 1024));
        Ok(())
    };
    report(0, 0.0)?;
    runtime()?.block_on(async {
        let began = Instant::now();
        let mut load = Load::closed_loop(&Target::new(&server)?, options.connections).await?;
        for sample in 1..=SAMPLES {
            let due = options.requests * sample / SAMPLES;
            while load.done() < due {
                tokio::time::sleep(POLL).await;
                if load.failed() {
                    load.stop().await?;
                    bail!("a connection ended; see the server's answer above");
                }
            }
            let done = load.done();
            #[expect(clippy::cast_precision_loss, reason = "a count to show")]
            report(done, done as f64 / began.elapsed().as_secs_f64())?;
        }
        load.stop().await?;
        Ok(())
    })
}
