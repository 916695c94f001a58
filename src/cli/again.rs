//! `--watch`: the same command again and again.

use std::io::Write as _;
use std::time::Duration;

use jiff::Timestamp;

use super::values::Seconds;
use super::{CliError, Context, Exit};

/// Puts the cursor into the corner and clears what is below it.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Whether a command is repeated.
#[derive(Debug, clap::Args)]
pub(super) struct Again {
    /// Show it again and again until Ctrl-C; not on a terminal, each time after a line ---
    #[arg(short, long)]
    watch: bool,

    /// How often, with --watch
    #[arg(long, value_name = "DURATION", default_value = "2s", requires = "watch")]
    interval: Seconds,
}

impl Again {
    /// Runs a command once, or until Ctrl-C. What fails is shown, and tried again.
    pub(super) fn run(
        &self,
        ctx: &mut Context<'_>,
        mut once: impl FnMut(&mut Context<'_>) -> Result<Exit, CliError>,
    ) -> Result<Exit, CliError> {
        if !self.watch {
            return once(ctx);
        }
        let pause = Duration::from_secs(u64::try_from(self.interval.0).unwrap_or(1).max(1));
        end_with_interrupt()?;
        let mut is_first = true;
        loop {
            // Collected first: a screen that is empty while the cluster is asked flickers.
            let mut text = Vec::new();
            let ended = once(&mut ctx.writing_to(&mut text));
            if ctx.terminal {
                let now = format!("{:.0}", Timestamp::now());
                write!(ctx.out, "{CLEAR}every {} s, {now}\n\n", pause.as_secs())?;
            } else if !is_first {
                writeln!(ctx.out, "---")?;
            }
            is_first = false;
            ctx.out.write_all(&text)?;
            match ended {
                Ok(_) => {}
                // It will not be right the next time either.
                Err(error) if error.exit() == Exit::Usage => return Err(error),
                Err(error) => {
                    ctx.out.flush()?;
                    writeln!(std::io::stderr(), "error: {error}; trying again")?;
                }
            }
            ctx.out.flush()?;
            std::thread::sleep(pause);
        }
    }
}

/// From now on Ctrl-C is how the command ends well, also while it waits for an answer.
fn end_with_interrupt() -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut interrupted = {
        let _guard = runtime.enter();
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?
    };
    std::thread::spawn(move || {
        runtime.block_on(interrupted.recv());
        std::process::exit(0);
    });
    Ok(())
}
