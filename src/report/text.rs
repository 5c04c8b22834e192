//! The report as text for a terminal: sysbench's shape, with three named rates and the errors by code.

use std::fmt::Write;

use super::{Difference, ErrorEntry, Finding, Latency, RunReport, Status, Totals, Validation};
use crate::metrics::{Bounds, Histogram, Interval};

/// One line for an interval in sysbench's form, with the time of day (UTC) and the read/write requests added.
/// `percentile` of `response` is its latency. Its err/s are the errors that were not answered by a retry, unlike the
/// document's `errors`, which are all; retry/s stands at the end where there are any.
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
    let mut line = format!(
        "[ {}s {} ] thds: {threads} tps: {} rps: {} qps: {} (r/w/o: {}/{}/{}) lat (ms,{percentile}%): {latency} err/s: {} reconn/s: {}",
        trimmed(interval.end_s),
        &clock[11..19],
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

/// The whole summary. `percentiles` are those to be shown, such as `[50, 95, 99, 99.9]`.
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
    let (totals, bounds) = (&report.totals, report.confidence.tps);
    let plain = |value: f64| grouped(value, decimals(value, value / 100.0));
    let mut out = format!(
        "    tps {}, rps {}, p95 {} ms",
        bounds.map_or_else(|| plain(totals.tps), |_| with_error(totals.tps, bounds, 1.0)),
        plain(totals.rps),
        plain(report.latency_us.response.p95 / 1e3),
    );
    let codes: Vec<&str> = report.findings.iter().map(|finding| finding.code.as_str()).collect();
    if !codes.is_empty() {
        // Writing into a String cannot fail.
        let _ = write!(out, "\n    findings: {}", codes.join(", "));
    }
    out
}

fn setup(out: &mut String, report: &RunReport) -> std::fmt::Result {
    let spec = &report.spec;
    writeln!(out, "Setup:")?;
    let mut line = |name: &str, value: String| writeln!(out, "    {name:<36} {}", printable(&value));
    line("target:", report.target.url.clone())?;
    line("server:", report.target.version.clone())?;
    line("workload:", spec.workload.clone())?;
    if let Some(profile) = &spec.profile {
        line("profile:", profile.name.clone())?;
        for change in &profile.changed {
            let text = format!("{} is {} (profile: {})", change.option, change.value, change.profile_value);
            line("  changed:", text)?;
        }
    }
    let given = spec.options.iter().filter(|option| option.source == "command line");
    let (of_prepare, given): (Vec<_>, Vec<_>) = given.partition(|option| option.of_prepare_only);
    for (name, options) in [("options given:", given), ("given, but for prepare only:", of_prepare)] {
        let options: Vec<String> = options.iter().map(|option| format!("{}={}", option.name, option.value)).collect();
        if !options.is_empty() {
            line(name, options.join(", "))?;
        }
    }
    line("threads:", spec.threads.to_string())?;
    if spec.warmup_time_s > 0.0 {
        line("warm-up:", format!("{} s", spec.warmup_time_s))?;
    }
    line("statements:", spec.protocol.clone())?;
    if let Some(encryption) = &report.encryption {
        line("encryption:", encryption.clone())?;
    }
    if let Some(algorithm) = &report.target.compression {
        line("compression:", algorithm.clone())?;
    }
    if report.target.password_command {
        line("password:", "by --password-command".into())?;
    }
    for sql in &report.target.init_sql {
        line("connections begin with:", sql.clone())?;
    }
    line("ids, seed:", format!("{}, {}", spec.rand_type, spec.rand_seed))?;
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
        writeln!(out, "              {}", printable(&error.message))?;
    }
    Ok(())
}

fn general(out: &mut String, report: &RunReport) -> std::fmt::Result {
    let status = match report.status {
        Status::Completed => "",
        Status::Interrupted => " (interrupted)",
        Status::TooManyErrors => " (stopped: too many errors)",
        Status::ServerLost => " (stopped: the server was lost)",
    };
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
            (ended, 1) => writeln!(out, "    {name:<36} {ended}, with 1 error")?,
            (ended, errors) => writeln!(out, "    {name:<36} {ended}, with {errors} errors")?,
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
    line("  done in it:", kept.done.to_string())?;
    for (name, count) in [
        ("  skipped, too late:", kept.shed),
        ("  begun, ended after the window:", kept.drained),
        ("  begun, never ended:", kept.unfinished),
        ("  not begun at its end:", kept.not_begun),
        ("due in the warm-up, done in it:", kept.due_in_warmup),
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
    if report.statements.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nStatements (ms):")?;
    writeln!(out, "    {:<22} {:>12} {:>9} {:>9} {:>9} {:>9}", "", "count", "mean", "p50", "p95", "p99")?;
    let statements = report.statements.iter().map(|statement| (statement.name.as_str(), &statement.latency_us));
    let of_run = &report.latency_us;
    let beside = [
        ("prepare (in the above)", &of_run.prepare),
        ("connect (before)", &of_run.connect),
        ("connect again", &of_run.reconnect),
    ];
    for (name, latency) in statements.chain(beside.into_iter().filter(|(_, latency)| latency.count > 0)) {
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

fn validation(out: &mut String, validation: &Validation) -> std::fmt::Result {
    writeln!(out, "\nValidation:")?;
    let reads = format!("{} rows of {} statements", validation.rows, validation.reads);
    writeln!(out, "    {:<36} {reads}", "checked as they were read:")?;
    let audited = format!("{} rows of {} tables", validation.audited_rows, validation.audited_tables);
    writeln!(out, "    {:<36} {audited}", "checked after the run:")?;
    writeln!(out, "    {:<36} {}", "differences:", validation.differences)?;
    for Difference { place, message } in &validation.first_differences {
        writeln!(out, "        {place}: {}", printable(message))?;
    }
    Ok(())
}

/// The figures to quote, with their errors.
fn result(out: &mut String, report: &RunReport, percentiles: &[f64]) -> std::fmt::Result {
    let (totals, confidence, response) = (&report.totals, &report.confidence, &report.latency_us.response);
    if response.count == 0 {
        return Ok(());
    }
    writeln!(out, "\nResult, with {} % intervals:", 100.0 * confidence.level)?;
    let mut line = |name: &str, value: String| writeln!(out, "    {name:<36} {value}");
    line("tps:", with_error(totals.tps, confidence.tps, 1.0))?;
    line("rps:", with_error(totals.rps, confidence.rps, 1.0))?;
    line("qps:", with_error(totals.qps, confidence.qps, 1.0))?;
    let of = &confidence.latency_us;
    line("mean latency (ms):", with_error(response.mean, of.mean, 1e-3))?;
    let known = [
        (50.0, response.p50, of.p50),
        (90.0, response.p90, of.p90),
        (95.0, response.p95, of.p95),
        (99.0, response.p99, of.p99),
        (99.9, response.p999, of.p999),
    ];
    for (percentile, value, bounds) in known.into_iter().filter(|(percentile, ..)| percentiles.contains(percentile)) {
        line(&format!("p{percentile} (ms):"), with_bounds(value, bounds, 1e-3))?;
    }
    Ok(())
}

/// A figure whose error is the same on both sides, both times `scale`.
fn with_error(value: f64, bounds: Option<Bounds>, scale: f64) -> String {
    let Some(Bounds { high, .. }) = bounds else { return without_error(value * scale) };
    let (value, error) = (value * scale, (high - value) * scale);
    let decimals = decimals(value, error);
    format!("{} ± {}", grouped(value, decimals), grouped(error, decimals))
}

pub fn with_bounds(value: f64, bounds: Option<Bounds>, scale: f64) -> String {
    let Some(Bounds { low, high }) = bounds else { return without_error(value * scale) };
    let decimals = decimals(value * scale, (high - low) / 2.0 * scale);
    let [value, low, high] = [value, low, high].map(|each| grouped(each * scale, decimals));
    format!("{value} ({low} to {high})")
}

fn without_error(value: f64) -> String {
    format!("{} (no interval)", grouped(value, decimals(value, value / 100.0)))
}

/// Decimals that show two digits of the error; of milliseconds, none below the nanosecond.
fn decimals(value: f64, error: f64) -> usize {
    // Without an error, as if it were a hundredth.
    let error = if error > 0.0 { error } else { value / 100.0 };
    if error > 0.0 { (1.0 - error.log10().floor()).clamp(0.0, 6.0) as usize } else { 0 }
}

/// A figure with its thousands apart, as in 46,144.5.
pub fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

fn findings(out: &mut String, findings: &[Finding]) -> std::fmt::Result {
    if findings.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nFindings:")?;
    for finding in findings {
        writeln!(out, "    [{}] {}", finding.code, printable(&finding.message))?;
        writeln!(out, "        {}", printable(&finding.advice))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::metrics::client::Usage;
    use crate::metrics::{
        Confidence, ErrorCount, ErrorKey, Measurement, Now, OpenLoop, Outages, StatementLatency, Statements, Tally,
        Unsteady,
    };
    use crate::report::{AskedOpenLoop, Profile, ProfileChange, Setup, Spec, Step, Target, WorkloadOption};

    fn latencies(values_us: impl Iterator<Item = u64>) -> Histogram {
        let mut latencies = Histogram::default();
        values_us.for_each(|value_us| latencies.record(value_us * 1000));
        latencies
    }

    fn tally() -> Tally {
        let key = ErrorKey { code: 1213, sqlstate: "40001".into(), class: "retry", statement: "index_update".into() };
        let error = ErrorCount { count: 3, message: "Deadlock found when trying to get lock".into() };
        Tally {
            transactions: 1000,
            statements: Statements { reads: 14_000, writes: 4000, other: 2000 },
            failed_statements: Statements { reads: 28, writes: 3, other: 6 },
            retries: 3,
            failed_transactions: 2,
            lost_transactions: 0,
            ignored_transactions: 0,
            given_up_ns: 2_000_000_000,
            lost_connections: 0,
            reconnects: 0,
            prepares: 101,
            turned_to_text: 0,
            errors: [(key, error)].into(),
            due_inside: 0,
            shed: 0,
        }
    }

    fn confidence() -> Confidence {
        let bounds = |low, high| Some(Bounds { low, high });
        Confidence {
            blocks: 100,
            block_s: 0.1,
            tps: bounds(98.766, 101.234),
            rps: bounds(1777.8, 1822.2),
            qps: bounds(1975.3, 2024.7),
            mean_us: bounds(1488.0, 1512.0),
            percentiles_us: [bounds(1480.0, 1520.0), None, bounds(1940.0, 1962.0), bounds(1981.0, 2000.0), None],
            needs_s: None,
            unsteady: None,
        }
    }

    fn report() -> RunReport {
        report_over(10.0, latencies(1000..=2000))
    }

    /// Of 64 connections over a window.
    fn report_over(elapsed_s: f64, response: Histogram) -> RunReport {
        report_of(spec(), &measurement(elapsed_s, response))
    }

    fn report_of(spec: Spec, measurement: &Measurement) -> RunReport {
        let target = Target {
            url: "mysql://sbtest@10.0.0.5:3306/sbtest".into(),
            version: "MariaDB 10.11".into(),
            variables: Default::default(),
            password_command: true,
            compression: Some("zstd".into()),
            init_sql: Vec::new(),
            statement_timeout_s: None,
        };
        let mut report = RunReport::new(Setup::new(spec, target), measurement, Status::Completed);
        report.client.host = "client".into();
        report
    }

    fn spec() -> Spec {
        Spec {
            workload: "oltp_read_write".into(),
            profile: Some(Profile {
                name: "aurora-whitepaper".into(),
                changed: vec![ProfileChange {
                    option: "threads".into(),
                    value: "64".into(),
                    profile_value: "1000".into(),
                }],
            }),
            threads: 64,
            time_s: Some(10.0),
            events: None,
            open_loop: None,
            warmup_time_s: 0.0,
            interval_s: 1.0,
            protocol: "text".into(),
            rand_type: "uniform".into(),
            rand_parameters: crate::report::RandParameters {
                spec_iter: 12,
                spec_pct: 1,
                spec_res: 75,
                pareto_h: 0.2,
                zipfian_exp: 0.8,
                zipfian_scramble: true,
            },
            rand_seed: 42,
            max_retries: 10,
            ignore_errors: String::new(),
            max_error_rate: 0.01,
            forced_shutdown_s: 10.0,
            options: vec![WorkloadOption {
                name: "point_selects".into(),
                value: "10".into(),
                source: "command line".into(),
                of_prepare_only: false,
            }],
        }
    }

    fn measurement(elapsed_s: f64, response: Histogram) -> Measurement {
        Measurement {
            started_at: SystemTime::UNIX_EPOCH,
            elapsed_s,
            window: tally(),
            warmup: Tally::default(),
            drained: Tally { transactions: 64, ..Tally::default() },
            sent: 20_037,
            found_nothing: Vec::new(),
            unfinished: 0,
            away: 0,
            panicked: 0,
            response,
            open_loop: None,
            statements: vec![StatementLatency {
                name: "point_select".into(),
                kind: "read",
                latency: latencies(100..=199),
                first_part: None,
            }],
            prepares: latencies(300..=400),
            outages: Outages::default(),
            connects: latencies(2000..=2063),
            reconnects: Histogram::default(),
            encryption: Some("TLSv1.3 TLS_AES_256_GCM_SHA384".into()),
            series: Vec::new(),
            confidence: confidence(),
            client: Usage { cores: 4, cpu_s: 36.0, process_share: 0.9, machine_share: Some(0.95), steal_share: None },
            server: None,
            validation: None,
        }
    }

    #[test]
    fn a_summary_reads_like_sysbenchs_and_fits_80_columns() {
        let summary = summary(&report(), &[50.0, 95.0, 99.0, 99.9]);
        insta::assert_snapshot!(summary);
        let setup_and_figures = summary.split("Findings:").next().unwrap();
        assert!(setup_and_figures.lines().all(|line| line.chars().count() <= 80), "{summary}");
    }

    #[test]
    fn figures_have_the_digits_that_their_error_leaves() {
        let bounds = |value: f64, error: f64| Some(Bounds { low: value - error, high: value + error });
        for (value, error, expected) in [
            (2884.4, 35.2, "2,884 ± 35"),
            (1_234_567.8, 4567.0, "1,234,568 ± 4,567"),
            (2884.43, 3.521, "2,884.4 ± 3.5"),
            (0.9876, 0.00012, "0.98760 ± 0.00012"),
            (1000.0, 0.0, "1,000 ± 0"),
            (12.5, 0.0, "12.50 ± 0.00"),
        ] {
            assert_eq!(with_error(value, bounds(value, error), 1.0), expected);
        }
        assert_eq!(with_error(2884.43, None, 1.0), "2,884 (no interval)");
        assert_eq!(with_error(2.5, None, 1.0), "2.500 (no interval)");
        let bounds = Some(Bounds { low: 5_051.0, high: 5_212.0 });
        assert_eq!(with_bounds(5_120.0, bounds, 1e-3), "5.120 (5.051 to 5.212)");
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
        let late = latencies(1..=100);
        let open_loop = OpenLoop {
            mean_due: 12_000.0,
            due: 11_987,
            not_begun: 10_000,
            highest_backlog: 10_321,
            dropped: 12,
            service: latencies(900..=1899),
            lateness: late,
        };
        let mut measurement = measurement(10.0, latencies(1000..=2000));
        measurement.window = Tally { due_inside: 1000, shed: 923, ..measurement.window };
        measurement.drained = Tally { due_inside: 64, ..measurement.drained };
        measurement.open_loop = Some(open_loop);
        let mut spec = spec();
        spec.open_loop = Some(AskedOpenLoop {
            arrival: "poisson".into(),
            steps: vec![Step { start_s: 0.0, rate: 1000.0 }, Step { start_s: 5.0, rate: 1400.0 }],
            overload: "shed".into(),
            max_lateness_s: Some(0.25),
        });
        let summary = summary(&report_of(spec, &measurement), &[50.0, 99.9]);
        let of_open_loop = summary.split("\nOpen loop:").nth(1).unwrap().split("\nStatements").next().unwrap();
        assert!(of_open_loop.lines().all(|line| line.chars().count() <= 80), "{summary}");
        insta::assert_snapshot!(of_open_loop);
        let findings = summary.split("\nFindings:").nth(1).unwrap();
        insta::assert_snapshot!("findings_of_an_open_loop", findings.split("    [client").next().unwrap());
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
        insta::assert_snapshot!(interval_line(&interval, &response, 64, 95.0), @"[ 10s 13:53:20 ] thds: 64 tps: 1000 rps: 18000 qps: 20000 (r/w/o: 14000/4000/2000) lat (ms,95%): 1.95 err/s: 0.00 reconn/s: 0.00");
        let retried = Interval { tally: tally(), ..interval };
        // The three errors are those that were retried.
        let open = Interval {
            now: Now { oldest: Some(Duration::from_micros(1234)), backlog: Some(17) },
            tally: Tally { shed: 4, ..tally() },
            ..retried.clone()
        };
        assert!(interval_line(&open, &response, 64, 95.0).ends_with(" oldest (ms): 1.23 backlog: 17 shed/s: 4.00"));
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
