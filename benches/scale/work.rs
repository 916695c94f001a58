//! How long work took, and how much memory there is.

use std::time::Duration;

use anyhow::Context as _;
use rustix::time::{ClockId, clock_gettime};

/// CPU time of this thread.
pub(crate) fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// What a piece of work took.
pub(crate) fn timed<R>(work: impl FnOnce() -> R) -> (Duration, R) {
    let before = cpu();
    let result = work();
    (cpu().saturating_sub(before), result)
}

/// The one in the middle.
pub(crate) fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Resident memory of this process in bytes.
pub(crate) fn resident() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line =
        text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc/self/status")?;
    let kib: u32 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(f64::from(kib) * 1024.0)
}
