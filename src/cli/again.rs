//! `--watch`: the same command again and again.

use std::io::Write as _;
use std::time::Duration;

use jiff::Timestamp;

use super::context::Written;
use super::values::Seconds;
use super::{CliError, Context, Exit};
use crate::visible::visible_lines;

/// How often something small is read.
const OFTEN: Duration = Duration::from_secs(2);
/// How often all pods of a cluster are read.
const SELDOM: Duration = Duration::from_secs(30);

/// Puts the cursor into the corner and clears what is below it.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Whether a command is repeated.
#[derive(Debug, clap::Args)]
pub(super) struct Again {
    /// Show it again and again until Ctrl-C. Not on a terminal, only an answer that differs from the one before is
    /// written: tables and YAML are parted by a line ---, and JSON has a line for each
    #[arg(short, long)]
    watch: bool,

    /// How often, with --watch; by default every 2 s, or every 30 s where all pods of the cluster are read
    #[arg(long, value_name = "DURATION", requires = "watch")]
    interval: Option<Seconds>,
}

impl Again {
    /// Runs a command once, or until Ctrl-C. What fails is shown, and tried again.
    pub(super) fn run(
        &self,
        ctx: &mut Context<'_>,
        once: impl FnMut(&mut Context<'_>) -> Result<Exit, CliError>,
    ) -> Result<Exit, CliError> {
        self.run_every(OFTEN, ctx, once)
    }

    /// The same of a command that reads all pods: what costs the API server more is done less often.
    pub(super) fn run_seldom(
        &self,
        ctx: &mut Context<'_>,
        once: impl FnMut(&mut Context<'_>) -> Result<Exit, CliError>,
    ) -> Result<Exit, CliError> {
        self.run_every(SELDOM, ctx, once)
    }

    fn run_every(
        &self,
        every: Duration,
        ctx: &mut Context<'_>,
        mut once: impl FnMut(&mut Context<'_>) -> Result<Exit, CliError>,
    ) -> Result<Exit, CliError> {
        if !self.watch {
            return once(ctx);
        }
        let pause = self
            .interval
            .map_or(every, |interval| Duration::from_secs(u64::try_from(interval.0).unwrap_or(1).max(1)));
        end_with_interrupt()?;
        let mut is_first = true;
        let mut form = None;
        let mut shown = Shown::default();
        loop {
            // Collected first: a screen that is empty while the cluster is asked flickers.
            let mut text = Vec::new();
            let (ended, written) = {
                let mut ctx = ctx.writing_to(&mut text);
                ctx.repeated = true;
                (once(&mut ctx), ctx.written)
            };
            form = written.or(form);
            let on_screen = ctx.terminal && form.is_none();
            let is_news = shown.is_news(&text, ended.is_ok()) || on_screen;
            match form {
                _ if !is_news => {}
                // A line for each answer needs nothing between.
                Some(Written::Json) => {}
                None if ctx.terminal => {
                    let now = format!("{:.0}", Timestamp::now());
                    write!(ctx.out, "{CLEAR}every {} s, {now}\n\n", pause.as_secs())?;
                }
                _ if is_first => {}
                _ => writeln!(ctx.out, "---")?,
            }
            if is_news {
                is_first = false;
                ctx.out.write_all(&text)?;
            }
            match ended {
                Ok(_) => {}
                // It will not be right the next time either.
                Err(error) if error.exit() == Exit::Usage => return Err(error),
                Err(error) => {
                    ctx.out.flush()?;
                    writeln!(
                        std::io::stderr(),
                        "error: {}; trying again",
                        visible_lines(&error.to_string())
                    )?;
                }
            }
            ctx.out.flush()?;
            std::thread::sleep(pause);
        }
    }
}

/// What was written last.
#[derive(Debug, Default)]
struct Shown(Option<Vec<u8>>);

impl Shown {
    /// Whether this is to be written: all but the answer that stands there already. After a failure any answer is news.
    fn is_news(&mut self, text: &[u8], is_answer: bool) -> bool {
        if !is_answer {
            self.0 = None;
            return !text.is_empty();
        }
        let is_news = self.0.as_deref() != Some(text);
        if is_news {
            self.0 = Some(text.to_owned());
        }
        is_news
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_written() {
        let mut shown = Shown::default();
        for (rule, text, is_answer, expected) in [
            ("the first", "a", true, true),
            ("the same", "a", true, false),
            ("another", "b", true, true),
            ("the one before that", "a", true, true),
            ("nothing is to be said on a failure", "", false, false),
            ("the same, after a failure", "a", true, true),
            ("half an answer", "a", false, true),
            ("nothing, which is an answer", "", true, true),
            ("the same nothing", "", true, false),
        ] {
            assert_eq!(shown.is_news(text.as_bytes(), is_answer), expected, "{rule}");
        }
    }
}
