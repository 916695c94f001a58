//! `plimsoll uninstall` and `plimsoll check install`, as a user runs them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails this way says where"
)]

#[path = "hpa_cli/api.rs"]
mod api;
#[path = "uninstall/check.rs"]
mod check;
#[path = "uninstall/installed.rs"]
mod installed;
#[path = "hpa_cli/objects.rs"]
#[allow(dead_code, reason = "some of it is for tests/hpa_cli.rs")]
mod objects;
#[path = "uninstall/rights.rs"]
mod rights;
#[path = "uninstall/servers.rs"]
mod servers;
#[path = "uninstall/steps.rs"]
mod steps;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Run {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

fn plimsoll(folder: &Path, arguments: &str) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .env_clear()
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}
