//! `plimsoll config`: check and show the configuration.

use std::io::Write;

use serde_json::{Value, json};

use super::{CliError, Context, Exit, examples, output};
use crate::config::{self, ConfigErrors, Loaded};
use crate::visible::{visible, visible_json};

/// Check or show the configuration
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "check a file" => "plimsoll --config config.yaml config check",
    "show what is in force" => "plimsoll --config config.yaml config print",
))]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Check(CheckArgs),
    Print(PrintArgs),
}

/// Check the configuration and name everything that is wrong with it
///
/// File, environment and flags are merged and checked. Exit code 0: all is well; 1: there are violations;
/// 2: the file cannot be read, or is not YAML or TOML.
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "check a file" => "plimsoll --config config.yaml config check",
    "for a program" => "plimsoll --config config.yaml config check -o json",
))]
struct CheckArgs {
    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    output: CheckForm,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum CheckForm {
    Text,
    Json,
}

/// Show every setting in force and where it came from
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "as a configuration file with comments" => "plimsoll config print",
    "as a table" => "plimsoll --config config.yaml config print -o table",
    "one value" => "plimsoll config print -o json | jq .values.server.drainDelay",
))]
struct PrintArgs {
    /// Form of the answer
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "yaml")]
    output: PrintForm,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum PrintForm {
    Yaml,
    Json,
    Table,
}

pub(super) fn run(args: Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    match args.command {
        Command::Check(args) => check(&args, ctx),
        Command::Print(args) => print(&args, ctx),
    }
}

fn check(args: &CheckArgs, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let violations = match config::load(&ctx.sources()) {
        Ok(_) => Vec::new(),
        Err(ConfigErrors::Violations(violations)) => violations,
        Err(unreadable) => return Err(unreadable.into()),
    };
    match args.output {
        CheckForm::Json => {
            let answer = json!({"valid": violations.is_empty(), "violations": violations});
            output::print(&answer, output::Written::Json, ctx)?;
        }
        CheckForm::Text if violations.is_empty() => writeln!(ctx.out, "the configuration is valid")?,
        CheckForm::Text => {
            for violation in &violations {
                ctx.line(&violation.to_string())?;
            }
        }
    }
    Ok(if violations.is_empty() { Exit::Done } else { Exit::Refused })
}

fn print(args: &PrintArgs, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let loaded = ctx.load_config()?;
    match args.output {
        PrintForm::Yaml => write_yaml(&loaded, ctx.out)?,
        PrintForm::Json => {
            let settings = loaded.settings();
            let origins: serde_json::Map<String, Value> =
                settings.into_iter().map(|setting| (setting.path, json!(setting.origin))).collect();
            output::print(
                &json!({"values": loaded.values(), "origins": origins}),
                output::Written::Json,
                ctx,
            )?;
        }
        PrintForm::Table => write_table(&loaded, ctx)?,
    }
    Ok(Exit::Done)
}

/// A configuration file that gives the same configuration, with the origins as comments.
fn write_yaml(loaded: &Loaded, out: &mut dyn Write) -> Result<(), CliError> {
    let mut current: Vec<String> = Vec::new();
    for setting in loaded.settings() {
        let mut sections: Vec<&str> = setting.path.split('.').collect();
        let key = sections.pop().unwrap_or_default();
        let common = current.iter().zip(&sections).take_while(|(left, right)| left == *right).count();
        for (depth, section) in sections.iter().enumerate().skip(common) {
            writeln!(out, "{:width$}{section}:", "", width = 2 * depth)?;
        }
        let indent = "  ".repeat(sections.len());
        current = sections.into_iter().map(ToOwned::to_owned).collect();
        // JSON is YAML, and a setting fits on a line; only profiles are worth a block.
        let structured = setting.value.as_array().is_some_and(|items| items.iter().any(Value::is_object));
        let origin = visible(&setting.origin.to_string());
        let value = visible_json(&setting.value.to_string());
        if structured {
            writeln!(out, "{indent}{key}: # from {origin}")?;
            for line in output::yaml(&setting.value)?.lines() {
                writeln!(out, "{indent}  {line}")?;
            }
        } else {
            writeln!(out, "{indent}{key}: {value} # from {origin}")?;
        }
    }
    Ok(())
}

fn write_table(loaded: &Loaded, ctx: &mut Context<'_>) -> Result<(), CliError> {
    let mut table = super::table(["SETTING", "VALUE", "FROM"]);
    for setting in loaded.settings() {
        let value = match setting.value {
            Value::String(text) => text,
            Value::Null => String::new(),
            Value::Array(items) if items.iter().any(Value::is_object) => items
                .iter()
                .filter_map(|item| item.pointer("/metadata/name").or_else(|| item.get("name")))
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(", "),
            Value::Array(items) => items
                .iter()
                .map(|item| item.as_str().map_or_else(|| item.to_string(), ToOwned::to_owned))
                .collect::<Vec<_>>()
                .join(", "),
            other => other.to_string(),
        };
        table.add_row([setting.path, value, setting.origin.to_string()]);
    }
    ctx.write_table(&mut table)
}
