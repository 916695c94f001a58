//! Process metrics under their customary names, read from `/proc` at each scrape.
//!
//! Where there is no `/proc` they are absent: a zero would be taken for a measurement.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Clock ticks in a second as `/proc` counts them. The kernel fixes this at 100 for user space on every
/// architecture that is built today, whatever its own timer runs at.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(process) = Process::read() else { return Ok(()) };
        let mut gauge = |name: &str, help: &str, value: f64| {
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        gauge("process_resident_memory_bytes", "Resident memory, in bytes", process.resident_bytes)?;
        gauge("process_threads", "Threads of the process", process.threads)?;
        if let Some(seconds) = process.start_seconds {
            gauge(
                "process_start_time_seconds",
                "When the process started, in seconds since the epoch",
                seconds,
            )?;
        }
        if let Some(count) = process.open_files {
            gauge("process_open_fds", "Open file descriptors", count)?;
        }
        let cpu = ConstCounter::new(process.cpu_seconds);
        cpu.encode(encoder.encode_descriptor(
            "process_cpu_seconds",
            "CPU time used, user and system, in seconds",
            None,
            cpu.metric_type(),
        )?)
    }
}

struct Process {
    resident_bytes: f64,
    threads: f64,
    cpu_seconds: f64,
    start_seconds: Option<f64>,
    open_files: Option<f64>,
}

impl Process {
    fn read() -> Option<Self> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let (cpu_ticks, start_ticks) = stat_ticks(&stat)?;
        let boot = std::fs::read_to_string("/proc/stat").ok().and_then(|text| boot_time(&text));
        Some(Self {
            // The unit is written `kB` and means 1024 bytes.
            resident_bytes: status_field(&status, "VmRSS:")? * 1024.0,
            threads: status_field(&status, "Threads:")?,
            cpu_seconds: cpu_ticks / TICKS_PER_SECOND,
            start_seconds: boot.map(|boot| boot + start_ticks / TICKS_PER_SECOND),
            open_files: open_files(),
        })
    }
}

fn open_files() -> Option<f64> {
    // The descriptor that reads the directory is open too while it is counted.
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    u32::try_from(count).ok().map(f64::from)
}

/// The number after `name` in the text of `/proc/self/status`.
fn status_field(status: &str, name: &str) -> Option<f64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// CPU ticks used (user and system) and the tick at which the process started, from `/proc/self/stat`.
fn stat_ticks(stat: &str) -> Option<(f64, f64)> {
    // The second field is the name in parentheses, which may itself hold blanks and parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    let field = |number: usize| -> Option<f64> { rest.split(' ').nth(number.checked_sub(3)?)?.parse().ok() };
    Some((field(14)? + field(15)?, field(22)?))
}

/// Boot time in seconds since the epoch, from `/proc/stat`.
fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_blanks_and_parentheses_in_the_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 9 0 0 0 150 50 0 0 20 0 3 0 12345 1000 20";
        assert_eq!(stat_ticks(stat), Some((200.0, 12345.0)));
    }

    #[test]
    fn status_fields() {
        let status = "Name:\tplimsoll\nVmRSS:\t    2048 kB\nThreads:\t5\n";
        assert_eq!(status_field(status, "VmRSS:"), Some(2048.0));
        assert_eq!(status_field(status, "Threads:"), Some(5.0));
        assert_eq!(status_field(status, "VmSwap:"), None);
    }

    #[test]
    fn broken_text_gives_nothing() {
        for text in ["", ") ", "7 (x) S", "7 (x) S 1 2 3 x"] {
            assert_eq!(stat_ticks(text), None, "{text:?}");
        }
        assert_eq!(boot_time("cpu 1 2\nbtime x\n"), None);
        assert_eq!(boot_time("cpu 1 2\nbtime 99\n"), Some(99.0));
    }
}
