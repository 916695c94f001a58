//! `plimsoll man`: manual pages, for those who package the program.

use std::path::PathBuf;

use clap_mangen::Man;

use super::{CliError, Context, Exit, command, examples};

/// Print the manual page, or write the pages of all commands
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = examples!(
    "read it" => "plimsoll man | man -l -",
    "write all pages" => "plimsoll man --dir /usr/local/share/man/man1",
))]
pub(super) struct Args {
    /// Write a page for each command into this directory instead
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(args: Args, ctx: &mut Context<'_>) -> Result<Exit, CliError> {
    let root = command(ctx.program);
    let Some(directory) = args.dir else {
        Man::new(root).render(&mut ctx.out)?;
        return Ok(Exit::Done);
    };
    std::fs::create_dir_all(&directory).and_then(|()| clap_mangen::generate_to(root, &directory)).map_err(
        |error| CliError::Usage(format!("--dir {}: cannot be written: {error}", directory.display())),
    )?;
    Ok(Exit::Done)
}
