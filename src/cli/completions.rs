//! `plimsoll completions`: completion scripts for shells.

use std::fmt::Write as _;

use clap_complete::Shell as Script;

use super::{CliError, Context, Exit, command, examples};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = examples!(
    "for this bash session" => "source <(plimsoll completions bash)",
    "for every zsh session" => "plimsoll completions zsh > ~/.zfunc/_plimsoll",
    "for `kubectl plimsoll`, in a folder of the PATH" => "plimsoll completions kubectl > ~/.local/bin/kubectl_complete-plimsoll\n  chmod +x ~/.local/bin/kubectl_complete-plimsoll",
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
    /// For kubectl: save as `kubectl_complete-plimsoll`, executable, on the PATH
    Kubectl,
}

/// kubectl calls a program of this name to complete `kubectl plimsoll`. It gives the words so far, and reads
/// suggestions and a directive: 4 is to suggest no files, 0 to suggest files where there is nothing else.
fn for_kubectl() -> String {
    let mut cases = String::new();
    suggest(&command("kubectl-plimsoll"), "", &mut cases);
    format!(
        r#"#!/bin/sh
# kubectl calls this to complete `kubectl plimsoll`: save it as kubectl_complete-plimsoll on the PATH, executable.
path=
last=
for word in "$@"; do
  case "$last" in -*|"") ;; *) path="$path $last" ;; esac
  last=$word
done
suggestions=
case "$path" in
{cases}esac
found=:0
for suggestion in $suggestions; do
  case "$suggestion" in "$last"*) echo "$suggestion"; found=:4 ;; esac
done
echo "$found"
"#
    )
}

/// What may follow a command, and those below it.
fn suggest(command: &clap::Command, path: &str, cases: &mut String) {
    let commands: Vec<_> = command.get_subcommands().filter(|below| !below.is_hide_set()).collect();
    let mut words: Vec<String> = commands.iter().map(|below| below.get_name().to_owned()).collect();
    words.extend(command.get_arguments().filter_map(|arg| arg.get_long()).map(|long| format!("--{long}")));
    // The last of the words is not part of the path; a name that follows is no command.
    let words = words.join(" ");
    // Writing to a `String` does not fail.
    let _ = writeln!(cases, "  \"{path}\"|\"{path} \"*) suggestions=\"{words}\" ;;");
    let mut below = String::new();
    for command in commands {
        suggest(command, &format!("{path} {}", command.get_name()), &mut below);
    }
    // The longest path first: the first case that fits counts.
    cases.insert_str(0, &below);
}

pub(super) fn run(args: &Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let script = match args.shell {
        Shell::Bash => Script::Bash,
        Shell::Zsh => Script::Zsh,
        Shell::Fish => Script::Fish,
        Shell::Kubectl => {
            write!(ctx.out, "{}", for_kubectl())?;
            return Ok(Exit::Done);
        }
    };
    // The generator panics when its writer fails, so it writes into memory.
    let mut text = Vec::new();
    clap_complete::generate(script, &mut command(ctx.program), ctx.program, &mut text);
    ctx.out.write_all(&text)?;
    Ok(Exit::Done)
}
