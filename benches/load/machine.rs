//! What else the machine does, and which machine it is.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

/// The machine is quiet when this share of its time is idle.
const QUIET: f64 = 0.85;

/// What figures depend on. No names of hosts, people or places.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) rustc: String,
}

impl Machine {
    pub(crate) fn read() -> Self {
        let cpu_info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu_info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        // What follows the number tells whose kernel it is.
        let kernel = kernel.split(['-', '\n']).next().unwrap_or_default();
        let rustc = Command::new("rustc").arg("--version").output();
        Self {
            cpu: model.map_or("unknown", |(_, model)| model).to_owned(),
            cores: cores(),
            kernel: format!("Linux {kernel}"),
            rustc: rustc
                .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
                .unwrap_or_default(),
        }
    }
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// CPU time of all processes together.
pub(crate) fn busy() -> anyhow::Result<Duration> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().context("/proc/stat is empty")?;
    // user nice system idle iowait irq softirq steal; guest time is part of user time.
    let fields = line.split_whitespace().skip(1).enumerate();
    let ticks: u64 = fields
        .filter(|(index, _)| matches!(index, 0..=2 | 5..=7))
        .map(|(_, field)| field.parse::<u64>().unwrap_or_default())
        .sum();
    Ok(Duration::from_millis(ticks * 10))
}

/// CPU time of this process.
pub(crate) fn own_cpu() -> anyhow::Result<Duration> {
    super::server::cpu(Path::new("/proc/self/stat"))
}

/// Waits until the machine was idle for a second, but no longer than `longest`.
pub(crate) fn wait_until_quiet(longest: Duration) -> anyhow::Result<()> {
    let began = Instant::now();
    let cores = u32::try_from(cores()).unwrap_or(u32::MAX);
    while began.elapsed() < longest {
        let (before, from) = (busy()?, Instant::now());
        std::thread::sleep(Duration::from_secs(1));
        let used = busy()?.saturating_sub(before).as_secs_f64();
        if used < (1.0 - QUIET) * (from.elapsed() * cores).as_secs_f64() {
            break;
        }
    }
    Ok(())
}

/// Ties all threads of this process to one core, or to all of them.
pub(crate) fn pin(cores: &str) -> bool {
    let own = std::process::id().to_string();
    let set = Command::new("taskset").args(["--all-tasks", "--cpu-list", "--pid", cores, &own]).output();
    set.is_ok_and(|output| output.status.success())
}
