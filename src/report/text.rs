//! The report as text for a terminal: sysbench's shape, with three named rates and the errors by code.

use std::fmt::Write;

use super::{ErrorEntry, Finding, RunReport, Status, Totals, percentile_us};
use crate::metrics::Interval;

/// One line for an interval, 80 columns wide in the usual case: seconds since the start and the time of day (UTC).
pub fn interval_line(interval: &Interval, percentile: f64) -> String {
    let seconds = interval.end_s - interval.start_s;
    let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let statements = interval.tally.statements;
    let clock = humantime::format_rfc3339_seconds(interval.ended_at).to_string();
    let mut line = format!(
        "[ {}s {} ] tps: {:.2} rps: {:.2} qps: {:.2} p{percentile} ms: {:.3} err/s: {:.2}",
        trimmed(interval.end_s),
        &clock[11..19],
        rate(interval.tally.transactions),
        rate(statements.read_write_requests()),
        rate(statements.queries()),
        percentile_us(&interval.response, percentile) / 1e3,
        rate(interval.tally.failed_transactions),
    );
    if interval.tally.retries > 0 {
        let _ = write!(line, " retry/s: {:.2}", rate(interval.tally.retries));
    }
    line
}

/// Seconds with as many decimals as an interval needs, up to milliseconds.
fn trimmed(seconds: f64) -> String {
    let text = format!("{seconds:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// The whole summary. `percentiles` are those to be shown, such as `[50, 95, 99, 99.9]`.
pub fn summary(report: &RunReport, percentiles: &[f64]) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail, so the results are dropped.
    let _ = statistics(&mut out, &report.totals);
    let _ = errors(&mut out, &report.totals.errors);
    let _ = general(&mut out, report);
    let _ = latency(&mut out, report, percentiles);
    let _ = statement_latencies(&mut out, report);
    let _ = client(&mut out, report);
    let _ = findings(&mut out, &report.findings);
    out
}

fn statistics(out: &mut String, totals: &Totals) -> std::fmt::Result {
    writeln!(out, "SQL statistics:")?;
    writeln!(out, "    queries performed:")?;
    for (name, count) in
        [("read:", totals.reads), ("write:", totals.writes), ("other:", totals.other), ("total:", totals.queries)]
    {
        writeln!(out, "        {name:<32} {count}")?;
    }
    let mut line = |name: &str, count: u64, rate: f64, unit: &str| {
        let rate = format!("({rate:.2} per sec.{unit})");
        writeln!(out, "    {name:<36} {count:<10} {rate}")
    };
    let per_second = |count: u64| if totals.elapsed_s > 0.0 { count as f64 / totals.elapsed_s } else { 0.0 };
    line("transactions:", totals.transactions, totals.tps, ", tps")?;
    line("read/write requests:", totals.read_write_requests, totals.rps, ", rps")?;
    line("queries:", totals.queries, totals.qps, ", qps")?;
    line("failed transactions:", totals.failed_transactions, per_second(totals.failed_transactions), "")?;
    line("retries:", totals.retries, per_second(totals.retries), "")?;
    line("reconnects:", totals.reconnects, per_second(totals.reconnects), "")
}

fn errors(out: &mut String, errors: &[ErrorEntry]) -> std::fmt::Result {
    if errors.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nErrors by code:")?;
    writeln!(out, "    {:>8}  {:>6}  {:<16} {:<20}", "count", "code", "class", "statement")?;
    for error in errors {
        let code = if error.code == 0 { "-".to_string() } else { error.code.to_string() };
        writeln!(out, "    {:>8}  {code:>6}  {:<16} {:<20}", error.count, error.class, error.statement)?;
        writeln!(out, "              {}", error.message)?;
    }
    Ok(())
}

fn general(out: &mut String, report: &RunReport) -> std::fmt::Result {
    let status = match report.status {
        Status::Completed => "",
        Status::Interrupted => " (interrupted)",
        Status::TooManyErrors => " (stopped: too many errors)",
    };
    writeln!(out, "\nGeneral statistics:")?;
    writeln!(out, "    {:<36} {}", "started:", report.started_at)?;
    writeln!(out, "    {:<36} {:.4}s{status}", "total time:", report.totals.elapsed_s)?;
    for (name, outside) in [
        ("ended during warm-up, not counted:", &report.warmup),
        ("ended after the window, not counted:", &report.drained),
    ] {
        if outside.transactions + outside.failed_transactions > 0 {
            writeln!(out, "    {name:<36} {}", outside.transactions + outside.failed_transactions)?;
        }
    }
    Ok(())
}

fn latency(out: &mut String, report: &RunReport, percentiles: &[f64]) -> std::fmt::Result {
    let response = &report.latency_us.response;
    writeln!(out, "\nLatency (ms):")?;
    let mut line = |name: &str, value_us: f64| writeln!(out, "    {name:<36} {:.3}", value_us / 1e3);
    line("min:", response.min)?;
    line("mean:", response.mean)?;
    for &percentile in percentiles {
        line(&format!("p{percentile}:"), response.percentile(percentile))?;
    }
    line("max:", response.max)
}

fn statement_latencies(out: &mut String, report: &RunReport) -> std::fmt::Result {
    if report.statements.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nStatements (ms):")?;
    writeln!(out, "    {:<24} {:>12} {:>9} {:>9} {:>9} {:>9}", "", "count", "mean", "p50", "p95", "p99")?;
    for statement in &report.statements {
        let latency = &statement.latency_us;
        let ms = |us: f64| format!("{:.3}", us / 1e3);
        let (mean, p50, p95, p99) = (ms(latency.mean), ms(latency.p50), ms(latency.p95), ms(latency.p99));
        writeln!(out, "    {:<24} {:>12} {mean:>9} {p50:>9} {p95:>9} {p99:>9}", statement.name, latency.count)?;
    }
    Ok(())
}

fn client(out: &mut String, report: &RunReport) -> std::fmt::Result {
    let client = &report.client;
    writeln!(out, "\nClient:")?;
    writeln!(
        out,
        "    {:<36} {:.2} s, {:.1} % of {} cores",
        "CPU used by oltpbench:",
        client.cpu_s,
        100.0 * client.process_share,
        client.cores
    )?;
    if let Some(machine) = client.machine_share {
        writeln!(out, "    {:<36} {:.1} %", "CPU busy on this machine:", 100.0 * machine)?;
    }
    Ok(())
}

fn findings(out: &mut String, findings: &[Finding]) -> std::fmt::Result {
    if findings.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nFindings:")?;
    for finding in findings {
        writeln!(out, "    [{}] {}", finding.code, finding.message)?;
        writeln!(out, "        {}", finding.advice)?;
    }
    Ok(())
}
