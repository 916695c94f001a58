//! `plimsoll completions`: completion scripts for shells.

use clap_complete::Shell as Script;

use super::{CliError, Context, Exit, command, examples};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "for this bash session" => "source <(plimsoll completions bash)",
    "for every zsh session" => "plimsoll completions zsh > ~/.zfunc/_plimsoll",
    "for every fish session" => "plimsoll completions fish > ~/.config/fish/completions/plimsoll.fish",
))]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let script = match args.shell {
        Shell::Bash => Script::Bash,
        Shell::Zsh => Script::Zsh,
        Shell::Fish => Script::Fish,
    };
    // The generator panics when its writer fails, so it writes into memory.
    let mut text = Vec::new();
    clap_complete::generate(script, &mut command(ctx.program), ctx.program, &mut text);
    ctx.out.write_all(&text)?;
    Ok(Exit::Done)
}
