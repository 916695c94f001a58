//! Runs scenarios one after the other and reports as libtest does, so that the same tools can read both.

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;

use crate::harness::{Unsuited, World};

/// No scenario may hold up the rest for longer.
const SCENARIO_LIMIT: Duration = Duration::from_secs(900);

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: for<'a> fn(&'a World) -> LocalBoxFuture<'a, Result<()>>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    list: bool,
    exact: bool,
    filters: Vec<String>,
}

impl Options {
    /// The arguments that `cargo test` users give: filters, `--list`, `--exact`. Flags that have no meaning here, such as
    /// `--test-threads=1` and `--nocapture`, are taken without a word.
    pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Self {
        let mut options = Self::default();
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--list" => options.list = true,
                "--exact" => options.exact = true,
                "--test-threads" | "--format" | "--color" => drop(args.next()),
                flag if flag.starts_with('-') => {}
                _ => options.filters.push(arg),
            }
        }
        options
    }

    fn wants(&self, name: &str) -> bool {
        let hit = |filter: &String| if self.exact { name == filter } else { name.contains(filter.as_str()) };
        self.filters.is_empty() || self.filters.iter().any(hit)
    }
}

/// Runs what the options ask for; the exit code is 0 if every scenario passed.
pub(crate) async fn run(all: &[Scenario], options: &Options) -> ExitCode {
    let chosen: Vec<&Scenario> = all.iter().filter(|scenario| options.wants(scenario.name)).collect();
    if options.list {
        for scenario in chosen {
            println!("{}: test", scenario.name);
        }
        return ExitCode::SUCCESS;
    }
    let start = Instant::now();
    println!("\nrunning {} tests", chosen.len());
    let mut failures = Vec::new();
    let (mut passed, mut ignored) = (0, 0);
    if !chosen.is_empty() {
        match World::create().await {
            Err(error) => failures.push(("the control plane and the installation", error)),
            Ok(world) => {
                for scenario in &chosen {
                    match one(scenario, &world).await {
                        Ok(true) => passed += 1,
                        Ok(false) => ignored += 1,
                        Err(error) => failures.push((scenario.name, error)),
                    }
                }
                if let Err(error) = world.close(!failures.is_empty()).await {
                    failures.push(("the end of the run", error));
                }
            }
        }
    }
    if !failures.is_empty() {
        println!("\nfailures:");
        for (name, error) in &failures {
            println!("\n---- {name} ----\n{error:#}");
        }
    }
    let verdict = if failures.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {passed} passed; {} failed; {ignored} ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
        failures.len(),
        all.len() - chosen.len(),
        start.elapsed().as_secs_f64()
    );
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether the scenario could run here and passed.
async fn one(scenario: &Scenario, world: &World) -> Result<bool> {
    let start = Instant::now();
    let outcome = attempt(scenario, world).await;
    let outcome = match (outcome, world.after().await) {
        (Err(error), Ok(())) if error.is::<Unsuited>() => {
            println!("test {} ... ignored, {error}", scenario.name);
            return Ok(false);
        }
        (Ok(()), cleaned) => cleaned.map_err(|error| error.context("cleaning up")),
        (Err(error), _) => Err(anyhow!("{error:#}\n\nthe server's last words: {}", world.server_log().await)),
    };
    let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
    println!("test {} ... {verdict} <{:.1}s>", scenario.name, start.elapsed().as_secs_f64());
    outcome.map(|()| true)
}

async fn attempt(scenario: &Scenario, world: &World) -> Result<()> {
    world.before().await?;
    let caught = AssertUnwindSafe((scenario.run)(world)).catch_unwind();
    match tokio::time::timeout(SCENARIO_LIMIT, caught).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            bail!("panicked: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("(no text)"))
        }
        Err(_) => bail!("not done after {SCENARIO_LIMIT:?}"),
    }
}
