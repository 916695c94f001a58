//! The results for people.

use std::io::Write as _;

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;

use crate::latencies::Percentiles;
use crate::legs::{Comparison, Paced, Results, Side, median};

/// Writes a line; that nobody reads it is no matter.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

pub(crate) fn print(results: &Results) {
    let machine = &results.machine;
    say(&format!("\n{}, {} cores, {}, {}", machine.cpu, machine.cores, machine.kernel, machine.rustc));
    say(&format!("body of {} bytes, {} connections", results.request_bytes, results.connections));
    for comparison in &results.closed_loop {
        say(&format!("\nAs many requests as it can answer; {}\n", comparison.cores));
        say(&compared(comparison));
    }
    say("\nA fixed rate; latency as the client sees it, from when a request was due\n");
    let mut table =
        table(&["server", "requests/s", "p50 us", "p99 us", "p99.9 us", "CPU us/request", "others"]);
    for Paced { server, requests_per_second, latency_us, cpu_us_per_request, others_cores, .. } in
        &results.paced
    {
        let Percentiles { p50, p99, p999, .. } = latency_us;
        table.add_row([
            (*server).to_owned(),
            format!("{requests_per_second:.0}"),
            format!("{p50:.0}"),
            format!("{p99:.0}"),
            format!("{p999:.0}"),
            format!("{cpu_us_per_request:.1}"),
            format!("{others_cores:.2} cores"),
        ]);
    }
    say(&table.to_string());
    for side in results.paced.iter().filter_map(|paced| paced.server_side.as_ref()) {
        let within: Vec<String> =
            side.within.iter().map(|(bound, share)| format!("{share:.3} % within {bound} ms")).collect();
        say(&format!("\nin the server, of {} reviews: {}", side.reviews, within.join(", ")));
        say(&format!("p99 in the server: at most {} ms", side.p99_at_most));
    }
    crate::extender::print(&results.extender);
    let starts = &results.start_to_ready_ms;
    say(&format!(
        "\nstart to ready: median {:.0} ms, longest {:.0} ms of {}",
        median(starts.clone()),
        starts.iter().copied().fold(0.0, f64::max),
        starts.len()
    ));
    for resident in &results.resident_kib {
        say(&format!(
            "resident, {}: idle {} KiB, after {} KiB",
            resident.server, resident.idle, resident.after
        ));
    }
}

fn compared(comparison: &Comparison) -> String {
    let Comparison { echo, json_echo, plimsoll, throughput_ratio, cpu_ratio, .. } = comparison;
    let mut table = table(&["", "bare echo", "echo, reads JSON", "plimsoll", "plimsoll : bare echo"]);
    let mut row = |name: &str, digits: usize, of: &dyn Fn(&Side) -> f64, ratio: String| {
        table.add_row([
            name.to_owned(),
            format!("{:.digits$}", of(echo)),
            format!("{:.digits$}", of(json_echo)),
            format!("{:.digits$}", of(plimsoll)),
            ratio,
        ]);
    };
    row("requests/s", 0, &|side| side.requests_per_second, format!("{:.0} %", throughput_ratio * 100.0));
    row("CPU us/request", 1, &|side| side.cpu_us_per_request, format!("{:.0} %", cpu_ratio * 100.0));
    row("p50 us", 0, &|side| side.latency_us.p50, String::new());
    row("p99 us", 0, &|side| side.latency_us.p99, String::new());
    row("p99.9 us", 0, &|side| side.latency_us.p999, String::new());
    table.to_string()
}

pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(header);
    table
}
