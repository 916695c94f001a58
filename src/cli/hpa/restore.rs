//! `plimsoll hpa restore`: targets as their authors wrote them.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use kube::Client;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::plan::{Restored, is_marked};
use super::restorer::{Outcome, Restorer, name_of, namespace_of};
use super::{Access, Form, print, write_table};
use crate::cli::progress::{Progress, Unit, count};
use crate::cli::values::Seconds;
use crate::cli::{CliError, Context, Exit, examples, table};
use crate::cluster;

/// How many autoscalers are worked on at a time.
const AT_ONCE: usize = 8;
/// What the keeper leads, in the name of its lease.
const LEASE_PART: &str = "hpa";
/// Who this is in the lease.
pub(in crate::cli) const HOLDER: &str = "plimsoll-hpa-restore";

/// Put the targets of autoscalers back to what their authors wrote
///
/// What they were is recorded on each autoscaler. Plimsoll's webhook puts them back if it is up, else they are written
/// directly; in neither case does Plimsoll stay an owner of the fields. It may be run again at any time.
///
/// With --all the lease of the keeper is taken first and held for --hold, so that a server that still runs does not
/// convert them again before it is removed; after that time it would. One that is named is opted out, by the annotation
/// plimsoll.dev/overcommit: disabled. A record that cannot be read is reported and its autoscaler left as it is.
///
/// Rights needed: get, list and patch on horizontalpodautoscalers; for --hold also get, create and update on leases in
/// the server's namespace (admission.ownNamespace).
///
/// Exit code 0: every target is as its author wrote it; 1: some are not, because their record cannot be read or because
/// they were converted again; 2: wrong usage, or no such autoscaler; 3: something failed.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "before Plimsoll is removed" => "plimsoll hpa restore --all",
    "what that would do" => "plimsoll hpa restore --all --dry-run",
    "those of one namespace" => "plimsoll hpa restore --all -n shop",
    "one of them" => "plimsoll hpa restore web -n shop",
))]
pub(super) struct Args {
    /// The autoscaler's name
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    name: Option<String>,

    /// Every autoscaler that carries a record, of all namespaces or of the one named
    #[arg(long)]
    all: bool,

    /// Its namespace; by default that of the context
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Only say what would be written
    #[arg(long)]
    dry_run: bool,

    /// How long all of it may take, as 90s or 5m
    #[arg(long, value_name = "DURATION", default_value = "4m")]
    timeout: Seconds,

    /// With --all: how long nobody may convert autoscalers again; 0s does not keep anybody from it
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    hold: Seconds,

    /// How long to wait before it is looked whether a server has converted them again; 0s does not look
    #[arg(long, value_name = "DURATION", default_value = "3s")]
    settle: Seconds,

    #[command(flatten)]
    access: Access,

    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "table")]
    output: Form,
}

/// How it ended for one autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) enum Ending {
    Restored,
    WouldRestore,
    Nothing,
    Unreadable,
    ConvertedAgain,
    Failed,
}

impl Ending {
    pub(in crate::cli) const fn words(self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::WouldRestore => "would be restored",
            Self::Nothing => "nothing to restore",
            Self::Unreadable => "left as it is",
            Self::ConvertedAgain => "converted again",
            Self::Failed => "failed",
        }
    }
}

/// What became of one autoscaler. The form of the answer is an interface.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Line {
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) name: String,
    pub(in crate::cli) result: Ending,
    /// Whether Plimsoll's webhook did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_webhook: Option<bool>,
    targets: Vec<Restored>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) message: Option<String>,
    /// Whether it failed since the API server does not take it, and will not next time.
    #[serde(skip)]
    pub(in crate::cli) refused: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    restored: usize,
    would_restore: usize,
    unreadable: usize,
    converted_again: usize,
    failed: usize,
}

#[derive(Debug, Serialize)]
struct Answer {
    hpas: Vec<Line>,
    summary: Summary,
    /// Why the keeper could not be made to stand still.
    #[serde(skip_serializing_if = "Option::is_none")]
    keeper: Option<String>,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let config = ctx.load_config()?.config;
    let (hpas, keeper) = ctx.runtime()?.block_on(async {
        let deadline = Instant::now() + span(args.timeout);
        let client = args.access.client(&config).await?;
        let default_namespace = client.default_namespace().to_owned();
        let which = match &args.name {
            Some(name) => Which::One(args.namespace.as_deref().unwrap_or(&default_namespace), name),
            None => Which::All(args.namespace.as_deref()),
        };
        let work = Work {
            which,
            own_namespace: &config.admission.own_namespace,
            hold: span(args.hold),
            settle: span(args.settle),
            deadline,
            dry_run: args.dry_run,
        };
        work.run(&client).await
    })?;
    let count = |ending| hpas.iter().filter(|line| line.result == ending).count();
    let summary = Summary {
        restored: count(Ending::Restored),
        would_restore: count(Ending::WouldRestore),
        unreadable: count(Ending::Unreadable),
        converted_again: count(Ending::ConvertedAgain),
        failed: count(Ending::Failed),
    };
    let exit = match &summary {
        Summary { failed: 1.., .. } => Exit::Failed,
        Summary { unreadable: 1.., .. } | Summary { converted_again: 1.., .. } => Exit::Refused,
        _ => Exit::Done,
    };
    let answer = Answer { hpas, summary, keeper };
    match args.output.written() {
        None => write(&answer, ctx)?,
        Some(form) => print(&answer, form, ctx)?,
    }
    Ok(exit)
}

/// Which autoscalers are put back.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) enum Which<'a> {
    /// The one of this namespace and name.
    One(&'a str, &'a str),
    /// Those that carry something of ours, of one namespace or of all.
    All(Option<&'a str>),
}

/// What is to be done, whoever asks for it.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Work<'a> {
    pub(in crate::cli) which: Which<'a>,
    /// Where the lease of the keeper is.
    pub(in crate::cli) own_namespace: &'a str,
    /// For how long the keeper stands still; zero: it is not asked to.
    pub(in crate::cli) hold: Duration,
    /// After which time it is looked whether they were converted again; zero: it is not looked.
    pub(in crate::cli) settle: Duration,
    pub(in crate::cli) deadline: Instant,
    pub(in crate::cli) dry_run: bool,
}

impl Work<'_> {
    /// Does it. What became of each, and why the keeper could not be made to stand still.
    ///
    /// # Errors
    /// The autoscalers cannot be read.
    pub(in crate::cli) async fn run(&self, client: &Client) -> Result<(Vec<Line>, Option<String>), CliError> {
        let progress = Progress::new("restoring autoscalers", Unit::Objects);
        progress.say("reading them");
        let restorer = Restorer::new(client.clone());
        let late = || anyhow::anyhow!("the autoscalers were not read within --timeout");
        let read = timeout_at(self.deadline, self.read(&restorer));
        let objects = read.await.map_err(|_| late())??;
        let all = matches!(self.which, Which::All(_));
        let keeper = if all && !self.dry_run && !self.hold.is_zero() && !objects.is_empty() {
            progress.say("the keeper ends its round");
            let stand = stand_still(client, self.own_namespace, self.hold);
            timeout_at(self.deadline, stand)
                .await
                .unwrap_or_else(|_| Some("not done within --timeout".to_owned()))
        } else {
            None
        };
        let restorer = restorer.opting_out(!all);
        progress.say("");
        progress.expect(count(objects.len()));
        let progress = &progress;
        let mut lines: Vec<Line> = stream::iter(&objects)
            .map(|object| async {
                let line = one(&restorer, object, self.dry_run, self.deadline).await;
                progress.add();
                line
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        if !self.dry_run {
            progress.say("looking whether they stay so");
            self.look_again(&restorer, &objects, &mut lines).await;
        }
        Ok((lines, keeper))
    }

    /// The autoscalers in question.
    async fn read(&self, restorer: &Restorer) -> Result<Vec<Value>, CliError> {
        match self.which {
            Which::All(namespace) => {
                let all = restorer.list(namespace).await.map_err(anyhow::Error::new)?;
                Ok(all.into_iter().filter(is_marked).collect())
            }
            Which::One(namespace, name) => {
                let found = restorer.get(namespace, name).await.map_err(anyhow::Error::new)?;
                let none =
                    || CliError::Usage(format!("there is no HorizontalPodAutoscaler {namespace}/{name}"));
                Ok(vec![found.ok_or_else(none)?])
            }
        }
    }

    /// Looks whether a server that still runs has undone it.
    async fn look_again(&self, restorer: &Restorer, objects: &[Value], lines: &mut [Line]) {
        if self.settle.is_zero() || !lines.iter().any(|line| line.result == Ending::Restored) {
            return;
        }
        let now = async {
            tokio::time::sleep(self.settle).await;
            match (objects, self.which) {
                ([only], _) => restorer.get(&namespace_of(only), &name_of(only)).await.map(Vec::from_iter),
                (_, Which::All(namespace)) => restorer.list(namespace).await,
                (_, Which::One(namespace, _)) => restorer.list(Some(namespace)).await,
            }
        };
        // What was restored is restored, whether it can be looked at or not.
        let Ok(Ok(now)) = timeout_at(self.deadline, now).await else { return };
        for object in now.iter().filter(|object| is_marked(object)) {
            let (namespace, name) = (namespace_of(object), name_of(object));
            let same = |line: &&mut Line| {
                line.result == Ending::Restored && line.namespace == namespace && line.name == name
            };
            if let Some(line) = lines.iter_mut().find(same) {
                line.result = Ending::ConvertedAgain;
                line.message =
                    Some("by a server that still runs: stop it first, or set hpa.mode to Off".to_owned());
            }
        }
    }
}

/// Takes the lease of whoever converts autoscalers, and waits until that one has stopped. What went wrong, if something
/// did: it is tried all the same, and looked at afterwards.
async fn stand_still(client: &Client, namespace: &str, hold: Duration) -> Option<String> {
    match cluster::stand_still(client, LEASE_PART, namespace, HOLDER, hold).await {
        Ok(wait) => {
            tokio::time::sleep(wait).await;
            None
        }
        // Nobody runs in a namespace that is not there.
        Err(error) if error.is_not_found() => None,
        Err(error) => Some(error.to_string()),
    }
}

fn span(seconds: Seconds) -> Duration {
    // Beyond a year nothing is waited for; an `Instant` cannot be that far away everywhere.
    Duration::from_secs(u64::try_from(seconds.0).unwrap_or(0).min(31_536_000))
}

async fn one(restorer: &Restorer, object: &Value, dry_run: bool, deadline: Instant) -> Line {
    let outcome = timeout_at(deadline, restorer.restore(object, dry_run)).await;
    let outcome = outcome.unwrap_or_else(|_| Outcome::Failed("not done within --timeout".to_owned()));
    let mut line = Line {
        namespace: namespace_of(object),
        name: name_of(object),
        result: Ending::Nothing,
        by_webhook: None,
        targets: Vec::new(),
        message: None,
        refused: false,
    };
    match outcome {
        Outcome::Nothing => {}
        Outcome::Gone => line.message = Some("it is not there any more".to_owned()),
        Outcome::Planned(targets) => (line.result, line.targets) = (Ending::WouldRestore, targets),
        Outcome::Restored { targets, by_webhook } => {
            (line.result, line.targets, line.by_webhook) = (Ending::Restored, targets, Some(by_webhook));
        }
        Outcome::Unreadable(why) => (line.result, line.message) = (Ending::Unreadable, Some(why)),
        Outcome::Failed(why) => (line.result, line.message) = (Ending::Failed, Some(why)),
        Outcome::Refused(why) => {
            (line.result, line.message, line.refused) = (Ending::Failed, Some(why), true);
        }
    }
    line
}

fn write(answer: &Answer, ctx: &mut Context<'_>) -> Result<(), CliError> {
    if answer.hpas.is_empty() {
        writeln!(
            ctx.out,
            "No HorizontalPodAutoscaler carries a record of Plimsoll: there is nothing to restore."
        )?;
        return Ok(());
    }
    let mut lines = table(["NAMESPACE", "NAME", "METRIC", "FROM", "TO", "RESULT"]);
    for line in &answer.hpas {
        let result = match &line.message {
            Some(message) => format!("{}: {message}", line.result.words()),
            None => line.result.words().to_owned(),
        };
        let nothing = [Restored { metric: "-".to_owned(), from: "-".to_owned(), to: Some("-".to_owned()) }];
        let targets = if line.targets.is_empty() { &nothing[..] } else { &line.targets };
        for Restored { metric, from, to } in targets {
            let to = to.as_deref().unwrap_or("removed");
            lines.add_row([&line.namespace, &line.name, metric, from, to, &result]);
        }
    }
    write_table(&lines, "", ctx)?;
    let Summary { restored, would_restore, unreadable, converted_again, failed } = answer.summary;
    let counts = [
        (restored, "restored"),
        (would_restore, "would be restored"),
        (unreadable, "left as they are, because their record cannot be read"),
        (converted_again, "converted again by a server that still runs"),
        (failed, "failed"),
    ];
    let said: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let said = if said.is_empty() { "nothing to restore".to_owned() } else { said.join("; ") };
    writeln!(ctx.out)?;
    ctx.line(&format!("Autoscalers: {said}"))?;
    if let Some(why) = &answer.keeper {
        ctx.line(&format!("The keeper of a server that still runs could not be made to stand still: {why}"))?;
    }
    Ok(())
}
