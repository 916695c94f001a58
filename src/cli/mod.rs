//! The command line: one module a command, each with its own `Args` and `run`.
//!
//! To add a command: a module with `Args` (a clap derive with an EXAMPLES section, see `examples!`) and
//! `run(args, ctx) -> Result<Exit, CliError>`, a variant in `Command` and a line in `dispatch`.

mod access;
mod again;
mod balance;
mod calls;
mod certs;
mod check;
mod completions;
mod config;
mod context;
mod error;
mod explain;
mod hpa;
mod man;
mod manifests;
mod mutate;
mod output;
mod placement_world;
mod profiles;
mod progress;
mod quota;
mod recommend;
mod review;
mod score;
mod serve;
mod server;
mod simulate;
mod status;
mod top;
mod uninstall;
mod validate;
mod values;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub use context::Context;
pub use error::{CliError, Exit};
use output::Output;

use crate::config::Flag;
use crate::visible::visible_lines;

/// The EXAMPLES section of a command's help: one line of a comment and one of a command for each pair.
macro_rules! examples {
    ($($comment:literal => $command:literal),+ $(,)?) => {
        concat!("EXAMPLES:", $("\n  # ", $comment, "\n  ", $command),+)
    };
}
pub(crate) use examples;

/// Lowers what pods request to what they need, and keeps what they may use.
#[derive(Debug, Parser)]
#[command(
    name = "plimsoll",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = examples!(
        "check a configuration before it is rolled out" => "plimsoll --config config.yaml config check",
        "show every setting and where it came from" => "plimsoll --config config.yaml config print",
        "complete commands and flags in this shell" => "source <(plimsoll completions bash)",
    )
)]
pub struct Cli {
    /// Configuration file, YAML or TOML by its extension
    #[arg(
        long,
        global = true,
        help_heading = "Global options",
        value_name = "FILE",
        env = "PLIMSOLL_CONFIG",
        hide_env_values = true
    )]
    config: Option<PathBuf>,

    /// Log level, in place of log.level: error, warn, info, debug, trace, or by module as in info,hyper=warn
    #[arg(long, global = true, help_heading = "Global options", value_name = "LEVEL")]
    log_level: Option<String>,

    /// How log lines are written, in place of log.format
    #[arg(long, global = true, help_heading = "Global options", value_name = "FORMAT", ignore_case = true)]
    log_format: Option<LogFormat>,

    /// Colours in results
    #[arg(
        long,
        global = true,
        help_heading = "Global options",
        value_name = "WHEN",
        value_enum,
        default_value = "auto"
    )]
    color: ColorWhen,

    #[command(subcommand)]
    command: Command,
}

/// When results have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ColorWhen {
    /// On a terminal, unless the variable `NO_COLOR` is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColorWhen {
    fn shows(self, terminal: bool) -> bool {
        match self {
            Self::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    /// Text on a terminal, JSON elsewhere
    Auto,
    /// Text
    Text,
    /// One JSON object a line
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Mutate(mutate::Args),
    Review(review::Args),
    Validate(validate::Args),
    Recommend(Box<recommend::Args>),
    Explain(explain::Args),
    Simulate(simulate::Args),
    Quota(quota::Args),
    Hpa(hpa::Args),
    Score(score::Args),
    Balance(balance::Args),
    Top(top::Args),
    Status(status::Args),
    Profiles(profiles::Args),
    Config(config::Args),
    Certs(certs::Args),
    Manifests(manifests::Args),
    Check(check::Args),
    Uninstall(uninstall::Args),
    Completions(completions::Args),
    Man(man::Args),
}

fn dispatch(command: Command, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    match command {
        Command::Serve(args) => serve::run(&args, ctx),
        Command::Mutate(args) => mutate::run(&args, ctx),
        Command::Review(args) => review::run(&args, ctx),
        Command::Validate(args) => validate::run(&args, ctx),
        Command::Recommend(args) => recommend::run(&args, ctx),
        Command::Explain(args) => explain::run(&args, ctx),
        Command::Simulate(args) => simulate::run(&args, ctx),
        Command::Quota(args) => quota::run(&args, ctx),
        Command::Hpa(args) => hpa::run(&args, ctx),
        Command::Score(args) => score::run(&args, ctx),
        Command::Balance(args) => balance::run(&args, ctx),
        Command::Top(args) => top::run(&args, ctx),
        Command::Status(args) => status::run(&args, ctx),
        Command::Profiles(args) => profiles::run(&args, ctx),
        Command::Config(args) => config::run(args, ctx),
        Command::Certs(args) => certs::run(args, ctx),
        Command::Manifests(args) => manifests::run(&args, ctx),
        Command::Check(args) => check::run(&args, ctx),
        Command::Uninstall(args) => uninstall::run(&args, ctx),
        Command::Completions(args) => completions::run(&args, ctx),
        Command::Man(args) => man::run(args, ctx),
    }
}

/// Runs the program with its arguments, the first of which is the name it was called by.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let program = program_name(&arguments);
    let parsed = command(program).try_get_matches_from(&arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let printed = error.print().and_then(|()| io::stdout().flush());
            return exit_of_text(error.use_stderr(), printed).into();
        }
    };
    let mut out = Output::new(io::stdout());
    let mut ctx = Context::new(&mut out, program, cli.config, flags(cli.log_level, cli.log_format));
    ctx.terminal = io::stdout().is_terminal();
    ctx.color = cli.color.shows(ctx.terminal);
    let ran = dispatch(cli.command, &mut ctx);
    let ran = ran.and_then(|exit| out.flush().map(|()| exit).map_err(CliError::from));
    if out.is_closed() {
        return Exit::Done.into();
    }
    match ran {
        Ok(exit) => exit.into(),
        Err(error) => {
            let _ = writeln!(
                io::stderr(),
                "error: {}",
                visible_lines(&error.to_string()).replace('\n', "\nerror: ")
            );
            error.exit().into()
        }
    }
}

/// The exit code after a message on standard error, or help or the version on standard output.
fn exit_of_text(is_error: bool, printed: io::Result<()>) -> Exit {
    if is_error {
        return Exit::Usage;
    }
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "error: standard output cannot be written: {error}");
            Exit::Failed
        }
        // Whoever closed the pipe does not want to read it.
        Ok(()) | Err(_) => Exit::Done,
    }
}

fn flags(log_level: Option<String>, log_format: Option<LogFormat>) -> Vec<Flag> {
    let format = log_format.and_then(|format| format.to_possible_value());
    let pairs = [
        ("--log-level", "log.level", log_level),
        ("--log-format", "log.format", format.map(|format| format.get_name().to_owned())),
    ];
    pairs
        .into_iter()
        .filter_map(|(name, setting, value)| value.map(|value| Flag { name, setting, value }))
        .collect()
}

/// Standard input can be read once only; the second reader would find it empty.
fn standard_input_once<'a>(
    inputs: impl IntoIterator<Item = (&'a str, &'a [PathBuf])>,
) -> Result<(), CliError> {
    let named = inputs.into_iter().flat_map(|(flag, paths)| {
        paths.iter().filter(|path| path.as_os_str() == "-").map(move |_| format!("{flag} -"))
    });
    let named: Vec<String> = named.collect();
    if named.len() < 2 {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "standard input is named {} times ({}), but it can be read only once; give all but one as files",
        named.len(),
        named.join(", ")
    )))
}

/// The command tree under the name that the program was called by.
pub(crate) fn command(program: &'static str) -> clap::Command {
    let command = Cli::command();
    if program == command.get_name() {
        return command;
    }
    rename_examples(command.name(program).bin_name(program), program)
}

/// The examples begin with the program's name, so they follow it.
fn rename_examples(command: clap::Command, program: &str) -> clap::Command {
    let help = command.get_after_help().map(|help| {
        // Some are written as for the plugin already.
        let help = help.to_string().replace("kubectl plimsoll ", "plimsoll ");
        help.replace("plimsoll ", &format!("{program} "))
    });
    let command = match help {
        Some(help) => command.after_help(help),
        None => command,
    };
    command.mut_subcommands(|subcommand| rename_examples(subcommand, program))
}

/// `kubectl-plimsoll` when kubectl called us as its plugin, else `plimsoll`.
fn program_name(arguments: &[OsString]) -> &'static str {
    const PLUGIN: &str = "kubectl-plimsoll";
    let called = arguments.first().map(Path::new).and_then(Path::file_stem);
    if called.is_some_and(|name| name == PLUGIN) { PLUGIN } else { "plimsoll" }
}

/// An empty table for results: no lines, two blanks between columns, as kubectl prints them.
pub(crate) fn table(header: impl Into<comfy_table::Row>) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(header);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}
