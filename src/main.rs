//! The `plimsoll` program: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::cli::main(std::env::args_os())
}
