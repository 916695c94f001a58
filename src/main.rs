//! The `plimsoll` program: arguments in, exit code out.

use std::process::ExitCode;

/// A review makes hundreds of small allocations; this allocator halves what they cost (`docs/benchmarks.md`), and in
/// a static binary, where it stands in for that of musl, far more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    plimsoll::cli::main(std::env::args_os())
}
