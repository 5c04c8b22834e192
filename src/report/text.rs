//! The report as text for a terminal: sysbench's shape, with three named rates and the errors by code.
//!
//! Must not import: `cli`, `engine`, `target`.

use std::fmt::Write;

use super::figures::{Figure, counted};
use super::{Difference, ErrorEntry, Finding, Latency, RunReport, Totals, Validation, setup};
use crate::metrics::{Histogram, Interval};

/// One line for an interval in sysbench's form, with the time of day (UTC) and the read/write requests added.
/// `percentile` of `response` is its latency, which in an open loop is called response. Its err/s are the errors that were
/// not answered by a retry, unlike the document's `errors`, which are all; retry/s stands at the end where there are any.
pub fn interval_line(interval: &Interval, response: &Histogram, threads: u32, percentile: f64) -> String {
    let seconds = interval.end_s - interval.start_s;
    // Parts of a transaction a second say nothing where there are hundreds, and make a long line longer.
    let rate = |count: u64| match if seconds > 0.0 { count as f64 / seconds } else { 0.0 } {
        large if large >= 100.0 => format!("{large:.0}"),
        small => format!("{small:.2}"),
    };
    let (tally, statements) = (&interval.tally, interval.tally.statements);
    let clock = humantime::format_rfc3339_seconds(interval.ended_at).to_string();
    // An interval in which nothing ended has no latency; 0 would look like a fast one.
    let latency = match response.is_empty() {
        true => "-".to_string(),
        false => format!("{:.2}", response.percentile_us(percentile) / 1e3),
    };
    // In an open loop it is not what the server took.
    let what = if interval.now.backlog.is_some() { "response" } else { "lat" };
    let mut line = format!(
        "[ {}s {} ] thds: {threads} tps: {} rps: {} qps: {} (r/w/o: {}/{}/{}) {what} (ms,{percentile}%): {latency} err/s: {} reconn/s: {}",
        trimmed(interval.end_s),
        // With its Z, since it need not be the time on the reader's wall.
        &clock[11..],
        rate(tally.transactions),
        rate(statements.read_write_requests()),
        rate(statements.queries()),
        rate(statements.reads),
        rate(statements.writes),
        rate(statements.other),
        rate(tally.error_count() - tally.retries.min(tally.error_count())),
        rate(tally.reconnects),
    );
    if tally.retries > 0 {
        let _ = write!(line, " retry/s: {}", rate(tally.retries));
    }
    if let Some(oldest) = interval.now.oldest {
        let _ = write!(line, " oldest (ms): {:.2}", oldest.as_secs_f64() * 1e3);
    }
    if let Some(backlog) = interval.now.backlog {
        let _ = write!(line, " backlog: {backlog}");
    }
    if tally.shed > 0 {
        let _ = write!(line, " shed/s: {}", rate(tally.shed));
    }
    line
}

/// Seconds with as many decimals as an interval needs, up to milliseconds.
fn trimmed(seconds: f64) -> String {
    let text = format!("{seconds:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A text as one line that does nothing to a terminal: a server's message may hold line breaks and escape sequences.
pub fn printable(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line = String::new();
    for character in words.chars() {
        // The second are marks that turn the direction of what follows.
        match character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            true => line.extend(character.escape_unicode()),
            false => line.push(character),
        }
    }
    line
}

/// Columns that text keeps within.
pub const COLUMNS: usize = 80;

/// Words after a label, in lines of which the others are indented.
pub fn paragraph(out: &mut String, label: &str, indent: usize, words: &str) -> std::fmt::Result {
    let (mut line, mut lead) = (label.to_string(), true);
    for word in printable(words).split_whitespace() {
        if !lead && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            writeln!(out, "{line}")?;
            (line, lead) = (" ".repeat(indent), true);
        }
        if !lead {
            line.push(' ');
        }
        line.push_str(word);
        lead = false;
    }
    writeln!(out, "{line}")
}

/// The percentiles of a summary for which nobody named others.
pub const PERCENTILES: [f64; 4] = [50.0, 95.0, 99.0, 99.9];

/// The whole summary, with these percentiles.
pub fn summary(report: &RunReport, percentiles: &[f64]) -> String {
    let mut out = String::new();
    // Writing into a String cannot fail, so the results are dropped.
    let _ = setup(&mut out, report);
    let _ = statistics(&mut out, &report.totals);
    let _ = errors(&mut out, "Errors by code:", &report.totals.counts.errors);
    let _ = errors(&mut out, "Errors by code during warm-up, not counted:", &report.warmup.errors);
    let _ = general(&mut out, report);
    let _ = open_loop(&mut out, report);
    let _ = latency(&mut out, report, percentiles);
    let _ = statement_latencies(&mut out, report);
    let _ = report.server.as_ref().map(|server| server.text(&mut out));
    let _ = client(&mut out, report);
    let _ = report.validation.as_ref().map(|validation| self::validation(&mut out, validation));
    let _ = result(&mut out, report, percentiles);
    let _ = findings(&mut out, &report.findings);
    out
}

/// A run of an experiment in a few words; its findings are named, since a figure may mean something else with them.
pub fn headline(report: &RunReport) -> String {
    let [tps, rps, _] = report.rates();
    let p95 = report.latencies_ms().into_iter().find(|latency| latency.percentile == Some(95.0));
    let p95 = p95.map_or("no latency".into(), |p95| format!("p95 {} ms", p95.shown_value()));
    let interval = tps.shown_interval().map_or(String::new(), |interval| format!(" {interval}"));
    let mut out = format!("    tps {}{interval}, rps {}, {p95}", tps.shown_value(), rps.shown_value());
    let codes: Vec<&str> = report.findings.iter().map(|finding| finding.code.as_str()).collect();
    if !codes.is_empty() {
        out.push('\n');
        // Writing into a String cannot fail.
        let _ = paragraph(&mut out, "    findings: ", 14, &codes.join(", "));
        out.truncate(out.trim_end().len());
    }
    out
}

fn setup(out: &mut String, report: &RunReport) -> std::fmt::Result {
    writeln!(out, "Setup:")?;
    for (name, value) in setup::first(report) {
        paragraph(out, &format!("    {:<36} ", format!("{name}:")), 41, &value)?;
    }
    writeln!(out)
}

fn statistics(out: &mut String, totals: &Totals) -> std::fmt::Result {
    let counts = &totals.counts;
    writeln!(out, "SQL statistics:")?;
    writeln!(out, "    queries performed:")?;
    for (name, count) in
        [("read:", counts.reads), ("write:", counts.writes), ("other:", counts.other), ("total:", counts.queries)]
    {
        writeln!(out, "        {name:<32} {count}")?;
    }
    let mut line = |name: &str, count: u64, rate: f64, unit: &str| {
        let rate = format!("({rate:.2} per sec.{unit})");
        writeln!(out, "    {name:<36} {count:<10} {rate}")
    };
    let per_second = |count: u64| if totals.elapsed_s > 0.0 { count as f64 / totals.elapsed_s } else { 0.0 };
    line("transactions:", counts.transactions, totals.tps, ", tps")?;
    line("read/write requests:", counts.read_write_requests, totals.rps, ", rps")?;
    line("queries:", counts.queries, totals.qps, ", qps")?;
    line("failed transactions:", counts.failed_transactions, per_second(counts.failed_transactions), "")?;
    if counts.ignored_transactions > 0 {
        line("ignored transactions:", counts.ignored_transactions, per_second(counts.ignored_transactions), "")?;
    }
    line("retries:", counts.retries, per_second(counts.retries), "")?;
    line("reconnects:", counts.reconnects, per_second(counts.reconnects), "")?;
    let failed = counts.failed_attempts;
    match failed.reads + failed.writes + failed.other {
        0 => Ok(()),
        sent => writeln!(out, "    {:<36} {sent:<10} (in none of the above)", "statements of failed attempts:"),
    }
}

fn errors(out: &mut String, heading: &str, errors: &[ErrorEntry]) -> std::fmt::Result {
    if errors.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{heading}")?;
    writeln!(out, "    {:>8}  {:>6}  {:<16} statement", "count", "code", "class")?;
    for error in errors {
        let code = if error.code == 0 { "-".to_string() } else { error.code.to_string() };
        writeln!(out, "    {:>8}  {code:>6}  {:<16} {}", error.count, error.class, error.statement)?;
        paragraph(out, "              ", 14, &error.message)?;
    }
    Ok(())
}

fn general(out: &mut String, report: &RunReport) -> std::fmt::Result {
    let status = report.status.words().map_or(String::new(), |words| format!(" ({words})"));
    writeln!(out, "\nGeneral statistics:")?;
    writeln!(out, "    {:<36} {}", "started:", report.started_at)?;
    writeln!(out, "    {:<36} {:.4}s{status}", "total time:", report.totals.elapsed_s)?;
    for (name, outside) in [
        ("ended during warm-up, not counted:", &report.warmup),
        ("ended after the window, not counted:", &report.drained),
    ] {
        match (outside.ended_transactions(), outside.error_count()) {
            (0, 0) => {}
            (ended, 0) => writeln!(out, "    {name:<36} {ended}")?,
            (ended, errors) => writeln!(out, "    {name:<36} {ended}, with {}", counted(errors, "error"))?,
        }
    }
    Ok(())
}

/// How the schedule of an open loop was kept.
fn open_loop(out: &mut String, report: &RunReport) -> std::fmt::Result {
    let (Some(asked), Some(kept)) = (&report.spec.open_loop, &report.open_loop) else { return Ok(()) };
    writeln!(out, "\nOpen loop:")?;
    let mut line = |name: &str, value: String| writeln!(out, "    {name:<36} {value}");
    line("asked for:", format!("{:.2} per sec., {} arrivals", kept.asked_tps, asked.arrival))?;
    if asked.steps.len() > 1 {
        for step in &asked.steps {
            line(&format!("  from {} s:", trimmed(step.start_s)), format!("{} per sec.", step.rate))?;
        }
    }
    if let Some(most_s) = asked.max_lateness_s {
        line("  skipped if later than:", format!("{most_s} s"))?;
    }
    let due_tps = super::per_second(kept.due as f64, report.totals.elapsed_s);
    line("due in the window:", format!("{:<10} ({due_tps:.2} per sec.)", kept.due))?;
    line("  ended in it:", kept.done.to_string())?;
    for (name, count) in [
        ("  skipped, too late:", kept.shed),
        ("  begun, ended after the window:", kept.drained),
        ("  begun, never ended:", kept.unfinished),
        ("  not begun at its end:", kept.not_begun),
        ("due in the warm-up, ended in it:", kept.due_in_warmup),
        ("due in the warm-up and dropped:", kept.dropped_from_warmup),
    ] {
        if count > 0 {
            line(name, count.to_string())?;
        }
    }
    line("highest backlog:", kept.highest_backlog.to_string())?;
    let ms = |us: f64| format!("{:.3}", us / 1e3);
    let late = &kept.lateness_us;
    match late.count {
        // No connection was ever free before its next transaction was due.
        0 => Ok(()),
        _ => line("timer late by (ms):", format!("p50 {}, p99 {}, max {}", ms(late.p50), ms(late.p99), ms(late.max))),
    }
}

fn latency(out: &mut String, report: &RunReport, percentiles: &[f64]) -> std::fmt::Result {
    let latencies = &report.latency_us;
    // In a closed loop the two are the same.
    let columns = match report.open_loop {
        Some(_) => vec![("response", &latencies.response), ("service", &latencies.service)],
        None => vec![("", &latencies.response)],
    };
    let heads: String = columns.iter().map(|(head, _)| format!(" {head:<11}")).collect();
    writeln!(out, "\n{}", format!("{:<40}{heads}", "Latency (ms):").trim_end())?;
    if latencies.response.count == 0 {
        return writeln!(out, "    no transaction ended inside the window");
    }
    let mut line = |name: &str, value_us: &dyn Fn(&Latency) -> Option<f64>| {
        let shown = |latency| value_us(latency).map_or("unknown".to_string(), |us| format!("{:.3}", us / 1e3));
        let values: String = columns.iter().map(|(_, latency)| format!(" {:<11}", shown(latency))).collect();
        writeln!(out, "    {name:<36}{}", values.trim_end())
    };
    line("min:", &|latency| Some(latency.min))?;
    line("mean:", &|latency| Some(latency.mean))?;
    for &percentile in percentiles {
        line(&format!("p{percentile}:"), &|latency| latency.percentile(percentile))?;
    }
    line("max:", &|latency| Some(latency.max))
}

fn statement_latencies(out: &mut String, report: &RunReport) -> std::fmt::Result {
    let statements = report.statements.iter().map(|statement| (statement.name.as_str(), &statement.latency_us));
    let of_run = &report.latency_us;
    let beside = [
        ("prepare (in the above)", &of_run.prepare),
        ("connect (before)", &of_run.connect),
        ("connect again", &of_run.reconnect),
    ];
    let mut rows = statements.chain(beside.into_iter().filter(|(_, latency)| latency.count > 0)).peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    writeln!(out, "\nStatements (ms):")?;
    writeln!(out, "    {:<22} {:>12} {:>9} {:>9} {:>9} {:>9}", "", "count", "mean", "p50", "p95", "p99")?;
    for (name, latency) in rows {
        let ms = |us: f64| format!("{:.3}", us / 1e3);
        let (mean, p50, p95, p99) = (ms(latency.mean), ms(latency.p50), ms(latency.p95), ms(latency.p99));
        writeln!(out, "    {name:<22} {:>12} {mean:>9} {p50:>9} {p95:>9} {p99:>9}", latency.count)?;
    }
    Ok(())
}

fn client(out: &mut String, report: &RunReport) -> std::fmt::Result {
    let client = &report.client;
    writeln!(out, "\nClient:")?;
    writeln!(
        out,
        "    {:<36} {:.2} s, {:.1} % of {}",
        "CPU used by oltpbench:",
        client.cpu_s,
        100.0 * client.process_share,
        counted(client.cores as u64, "core")
    )?;
    if let Some(machine) = client.machine_share {
        writeln!(out, "    {:<36} {:.1} %", "CPU busy on this machine:", 100.0 * machine)?;
    }
    Ok(())
}

fn validation(out: &mut String, validation: &Validation) -> std::fmt::Result {
    writeln!(out, "\nValidation:")?;
    let reads = format!("{} of {}", counted(validation.rows, "row"), counted(validation.reads, "statement"));
    writeln!(out, "    {:<36} {reads}", "checked as they were read:")?;
    let (rows, tables) = (validation.audited_rows, validation.audited_tables);
    let audited = format!("{} of {}", counted(rows, "row"), counted(tables, "table"));
    writeln!(out, "    {:<36} {audited}", "checked after the run:")?;
    writeln!(out, "    {:<36} {}", "differences:", validation.differences)?;
    for Difference { place, message } in &validation.first_differences {
        paragraph(out, &format!("        {place}: "), 12, message)?;
    }
    Ok(())
}

/// The figures to quote, with their errors.
fn result(out: &mut String, report: &RunReport, percentiles: &[f64]) -> std::fmt::Result {
    let latencies = report.latencies_ms();
    if latencies.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nResult, with {} % intervals:", 100.0 * report.confidence.level)?;
    let mut line = |name: &str, figure: &Figure| writeln!(out, "    {name:<36} {figure}");
    report.rates().iter().try_for_each(|rate| line(&format!("{}:", rate.name), rate))?;
    latencies.iter().try_for_each(|latency| match latency.percentile {
        None if report.open_loop.is_some() => line("mean response time (ms):", latency),
        None => line("mean latency (ms):", latency),
        Some(percentile) if percentiles.contains(&percentile) => line(&format!("{} (ms):", latency.name), latency),
        Some(_) => Ok(()),
    })
}

fn findings(out: &mut String, findings: &[Finding]) -> std::fmt::Result {
    if findings.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nFindings:")?;
    for finding in findings {
        paragraph(out, &format!("    [{}] ", finding.code), 8, &finding.message)?;
        paragraph(out, "        ", 8, &finding.advice)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::metrics::{Measurement, Now, Tally, Unsteady};
    use crate::report::example::{latencies, measurement, open_loop, report, report_of, report_over, spec, tally};
    use crate::report::{Setup, Status};

    #[test]
    fn a_summary_reads_like_sysbenchs_and_fits_80_columns() {
        let summary = summary(&report(), &[50.0, 95.0, 99.0, 99.9]);
        insta::assert_snapshot!(summary);
        assert!(summary.lines().all(|line| line.chars().count() <= COLUMNS), "{summary}");
    }

    #[test]
    fn a_run_without_errors_says_how_long_it_must_be_and_an_unsteady_one_what_was_seen() {
        let seen = |needs_s, unsteady| {
            let mut report = report();
            report.confidence.tps = None;
            (report.confidence.needs_s, report.confidence.unsteady) = (needs_s, unsteady);
            let findings = crate::report::findings::find(&report);
            let mut of_errors = findings.iter().filter(|finding| ["too-short", "unsteady"].contains(&&*finding.code));
            let found = of_errors.next().unwrap();
            assert!(of_errors.next().is_none(), "{findings:?}");
            format!("[{}] {}; {}", found.code, found.message, found.advice)
        };
        let drift = |first, last| Some(Unsteady::Drift { first, last });
        let shift = |from_s, to_s| Some(Unsteady::Shift { from_s, to_s, inside: 2900.0, outside: 51.25 });
        let all = [
            seen(Some(1234.2), None),
            seen(Some(1234.2), drift(2900.0, 2100.0)),
            seen(None, drift(2100.0, 2900.0)),
            seen(None, shift(0.0, 4.0)),
            seen(None, shift(4.0, 10.0)),
            seen(None, shift(4.0, 6.0)),
        ];
        insta::assert_snapshot!(all.join("\n"));
    }

    #[test]
    fn a_summary_of_an_open_loop_has_its_account_and_two_latencies() {
        let (spec, mut measurement) = open_loop();
        let summary = summary(&report_of(spec.clone(), &measurement), &[50.0, 99.9]);
        let of_open_loop = summary.split("\nOpen loop:").nth(1).unwrap().split("\nStatements").next().unwrap();
        assert!(of_open_loop.lines().all(|line| line.chars().count() <= 80), "{summary}");
        insta::assert_snapshot!(of_open_loop);
        assert!(summary.contains("mean response time (ms):             1.500 "), "{summary}");
        let findings = summary.split("\nFindings:").nth(1).unwrap();
        insta::assert_snapshot!("findings_of_an_open_loop", findings.split("    [client").next().unwrap());
        // Threads that were not run took more of the connections' time than the server.
        if let Some(open_loop) = &mut measurement.open_loop {
            open_loop.lateness = latencies(std::iter::repeat_n(2_000_000, 10));
        }
        let findings = report_of(spec, &measurement).findings;
        let missed = findings.into_iter().find(|finding| finding.code == "schedule-missed").unwrap();
        assert!(missed.advice.starts_with("this machine was the limit, not the server"), "{missed:?}");
        assert!(missed.advice.contains("2000.0 ms late on the average"), "{missed:?}");
    }

    #[test]
    fn the_share_that_ended_a_run_is_of_the_warm_up_too() {
        let said = |warmup: Tally, window: Tally| {
            let measurement = Measurement { warmup, window, ..measurement(2.0, Histogram::default()) };
            let target = report().target;
            let report = RunReport::new(Setup::new(spec(), target), &measurement, Status::TooManyErrors);
            report.findings.into_iter().find(|finding| finding.code == "too-many-errors").unwrap().message
        };
        let of = |transactions, failed_transactions, lost_transactions| Tally {
            transactions,
            failed_transactions,
            lost_transactions,
            ..Tally::default()
        };
        let message = said(of(80, 20, 0), of(90, 18, 8));
        let expected = "the run was stopped after 2.0 s: 30 of 208 transactions until then failed, warm-up included \
                        (14.4 %; --max-error-rate is 1.0 %), not counting the 8 that a lost connection cost";
        assert_eq!(message, expected);
        let message = said(of(0, 20, 4), of(0, 0, 0));
        assert!(message.ends_with("all 20 transactions until then failed, those of the warm-up included"), "{message}");
    }

    #[test]
    fn a_run_without_a_window_says_nothing_of_the_servers_counters() {
        let says = |elapsed_s| {
            let server = Some(crate::metrics::server::Counters::Unknown("gone".into()));
            let report = report_of(spec(), &Measurement { server, ..measurement(elapsed_s, Histogram::default()) });
            report.findings.iter().any(|finding| finding.code == "server-counters-unknown")
        };
        assert_eq!([0.0, 10.0].map(says), [false, true]);
    }

    #[test]
    fn a_window_of_less_than_a_second_says_nothing_of_the_clients_cpu() {
        let of_client = |elapsed_s| {
            let findings = report_over(elapsed_s, latencies(1000..=2000)).findings;
            findings.iter().filter(|finding| finding.code.starts_with("client-")).count()
        };
        assert_eq!((of_client(0.999), of_client(1.0)), (0, 1));
    }

    #[test]
    fn latencies_are_whole_where_they_add_up_to_the_connections_time() {
        let cut_off = |count| {
            let response = latencies(std::iter::repeat_n(1_000_000, count));
            report_over(10.0, response).findings.iter().any(|finding| finding.code == "latency-cut-off")
        };
        // 64 connections had 640 seconds, of which two were spent on transactions that failed; 5 % of the rest are 31.9.
        assert_eq!([638, 607, 606, 1].map(cut_off), [false, false, true, true]);
    }

    #[test]
    fn the_mean_that_latencies_should_have_leaves_out_the_time_of_what_failed() {
        let said = |given_up_s: u64| {
            let mut measured = measurement(10.0, latencies(std::iter::repeat_n(1_000_000, 320)));
            measured.window.given_up_ns = given_up_s * 1_000_000_000;
            let findings = report_of(spec(), &measured).findings;
            findings.into_iter().find(|finding| finding.code == "latency-cut-off").map(|finding| finding.message)
        };
        // Failures that took half of the connections' time leave nothing missing; quick ones hide nothing.
        assert_eq!(said(320), None);
        let quick = said(0).unwrap();
        assert!(quick.contains("cover 50 %") && quick.ends_with("the mean is 2000.0 ms, not 1000.0 ms"), "{quick}");
    }

    #[test]
    fn an_interval_line_is_sysbenchs_with_clock_and_requests() {
        let interval = Interval {
            start_s: 9.0,
            end_s: 10.0,
            ended_at: SystemTime::UNIX_EPOCH + Duration::from_secs(50_000),
            tally: Tally { retries: 0, failed_transactions: 0, errors: Default::default(), ..tally() },
            response: None,
            now: Now::default(),
            due: None,
        };
        let response = latencies(1000..=2000);
        insta::assert_snapshot!(interval_line(&interval, &response, 64, 95.0), @"[ 10s 13:53:20Z ] thds: 64 tps: 1000 rps: 18000 qps: 20000 (r/w/o: 14000/4000/2000) lat (ms,95%): 1.95 err/s: 0.00 reconn/s: 0.00");
        let retried = Interval { tally: tally(), ..interval };
        // The three errors are those that were retried.
        let open = Interval {
            now: Now { oldest: Some(Duration::from_micros(1234)), backlog: Some(17) },
            tally: Tally { shed: 4, ..tally() },
            ..retried.clone()
        };
        let line = interval_line(&open, &response, 64, 95.0);
        assert!(line.contains(" response (ms,95%): 1.95 ") && !line.contains(" lat "), "{line}");
        assert!(line.ends_with(" oldest (ms): 1.23 backlog: 17 shed/s: 4.00"), "{line}");
        let line = interval_line(&retried, &Histogram::default(), 64, 99.9);
        assert!(line.contains(" lat (ms,99.9%): - err/s: 0.00 "), "{line}");
        assert!(line.ends_with(" retry/s: 3.00"), "{line}");
    }

    #[test]
    fn advice_names_a_server_only_where_there_is_one() {
        let advice = |url: &str, process_share, machine_share| {
            let mut report = report();
            report.target.url = url.into();
            report.client =
                crate::report::Client { process_share, machine_share: Some(machine_share), ..report.client };
            let findings = crate::report::findings::find(&report);
            findings.into_iter().find(|finding| finding.code.starts_with("client-")).unwrap().advice
        };
        for (process_share, machine_share) in [(0.9, 0.95), (0.5, 0.99)] {
            assert!(advice("mysql://u@h:3306/d", process_share, machine_share).contains("server"));
            assert!(!advice("sqlite:a.sqlite", process_share, machine_share).contains("server"));
        }
    }

    #[test]
    fn what_a_server_says_is_one_line_and_harmless() {
        assert_eq!(printable("a\r\n  b\tc"), "a b c");
        assert_eq!(printable("\u{1b}[31mred\u{7}"), "\\u{1b}[31mred\\u{7}");
        assert_eq!(printable("a\u{202e}b\u{9b}2J"), "a\\u{202e}b\\u{9b}2J");
        assert_eq!(printable("der Schlüssel 'x' — doppelt"), "der Schlüssel 'x' — doppelt");
    }

    #[test]
    fn errors_of_transactions_outside_of_the_window_are_told() {
        let mut report = report();
        report.drained.errors = report.totals.counts.errors.clone();
        let shown = |report: &RunReport| {
            let summary = summary(report, &[50.0]);
            let line = summary.lines().find(|line| line.contains("ended after the window")).map(str::to_string);
            line.unwrap_or_default()
        };
        assert!(shown(&report).ends_with(" 64, with 3 errors"), "{}", shown(&report));
        report.drained.transactions = 0;
        report.drained.errors[0].count = 1;
        assert!(shown(&report).ends_with(" 0, with 1 error"), "{}", shown(&report));
    }

    #[test]
    fn parts_of_seconds_are_shown_only_where_there_are_some() {
        assert_eq!(trimmed(10.0), "10");
        assert_eq!(trimmed(0.25), "0.25");
        assert_eq!(trimmed(100.0), "100");
    }
}
