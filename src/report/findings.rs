//! What a reader must know before believing a report's figures. Each finding has a code and says what to do.
//!
//! Must not import: `cli`, `engine`, `target`.

use serde::{Deserialize, Serialize};

use super::figures::{counted, grouped};
use super::{Counts, ErrorEntry, Latency, OpenLoop, RowsNotFound, RunReport, Server, Status};
use crate::metrics::Unsteady;

/// The codes of all findings that a run's report may hold. docs/findings.md says what they mean.
pub const CODES: [&str; 28] = [
    "interrupted",
    "too-many-errors",
    "server-lost",
    "connections-panicked",
    "unfinished",
    "no-transactions",
    "validation",
    "validation-incomplete",
    "failed-transactions",
    "ignored-transactions",
    "connections-lost",
    "overloaded",
    "too-short",
    "unsteady",
    "schedule-missed",
    "transactions-shed",
    "latency-cut-off",
    "prepares-in-window",
    "prepared-replaced-by-text",
    "turned-to-text",
    "tls",
    "client-saturated",
    "client-machine-busy",
    "client-steal",
    "rows-not-found",
    "server-disagrees",
    "server-counters-unknown",
    "statements-unaccounted",
];

/// Share of the machine above which the client, not the server, may have been the limit.
const CLIENT_LIMIT: f64 = 0.8;
/// The same for everything on the machine together.
const MACHINE_LIMIT: f64 = 0.95;
/// CPU time taken away by the hypervisor that is worth a word.
const STEAL_LIMIT: f64 = 0.05;
/// Shorter than this a window says nothing of the CPU: the machine's counters go by hundredths of a second.
const SHORTEST_CPU_S: f64 = 1.0;

/// What attempts to connect again are called where errors name a statement.
const CONNECT: &str = "connect";
/// Class of the errors that make a connection pause.
const OVERLOAD: &str = "overload";
const FAILOVER: &str = "failover";
/// Share of the connections' time that the latencies must cover to be believed.
const CUT_OFF_LIMIT: f64 = 0.95;

/// Share of the connections' time that preparing statements may take unnoticed.
const PREPARE_LIMIT: f64 = 0.01;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable, for scripts.
    pub code: String,
    pub message: String,
    pub advice: String,
}

impl Finding {
    pub fn new(code: &str, message: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { code: code.into(), message: message.into(), advice: advice.into() }
    }
}

/// All that can be seen in the report itself.
pub(super) fn find(report: &RunReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(ending(report));
    findings.extend(validation(report));
    findings.extend(errors(report));
    findings.extend(ignored(report));
    findings.extend(lost_connections(report));
    findings.extend(overloaded(report));
    findings.extend(too_short(report));
    findings.extend(unsteady(report));
    findings.extend(schedule_missed(report));
    findings.extend(shed(report));
    findings.extend(cut_off(report));
    findings.extend(cut_off_schedule(report));
    findings.extend(prepares(report));
    findings.extend(turned_to_text(report));
    findings.extend(client(report));
    findings.extend(rows_not_found(report));
    findings.extend(report.server.as_ref().and_then(Server::finding));
    findings
}

fn sum(counts: &Counts, wanted: impl Fn(&ErrorEntry) -> bool) -> u64 {
    counts.errors.iter().filter(|error| wanted(error)).map(|error| error.count).sum()
}

/// Whether some connection was away for a part of the window.
fn were_away(report: &RunReport) -> bool {
    report.latency_us.outage.count > 0 || report.totals.counts.lost_connections > 0
}

/// Connections that were away inside the window, and whether they came back.
fn lost_connections(report: &RunReport) -> Option<Finding> {
    let spans = [&report.warmup, &report.totals.counts, &report.drained];
    let in_all = |count: fn(&Counts) -> u64| spans.iter().map(|span| count(span)).sum::<u64>();
    let (broke, back) = (in_all(|span| span.lost_connections), in_all(|span| span.reconnects));
    let refused = in_all(|span| sum(span, |error| error.statement == CONNECT));
    let left = in_all(|span| sum(span, |error| error.class == FAILOVER && error.statement != CONNECT)).min(broke);
    let lost = match left {
        0 => format!("{} broke", counted(broke, "connection")),
        1 if broke == 1 => "1 connection was left since its server took no writes any more".into(),
        left if left == broke => format!("{left} connections were left since their server took no writes any more"),
        left => format!(
            "{} broke and {left} were left since their server took no writes any more",
            counted(broke - left, "connection")
        ),
    };
    let before = match report.warmup.lost_connections {
        0 => String::new(),
        before => format!(" ({before} of them before the window)"),
    };
    were_away(report).then(|| {
        Finding::new(
            "connections-lost",
            format!(
                "{lost}{before}, {back} came back, {} to connect again failed, and {} at the end{}",
                counted(refused, "attempt"),
                if report.away == 1 { "1 was away".into() } else { format!("{} were away", report.away) },
                outages(report)
            ),
            "while a connection was away it sent nothing, and the rates are lower for it",
        )
    })
}

/// How long connections were without a transaction.
fn outages(report: &RunReport) -> String {
    let (each, cut_off, all) = (&report.latency_us.outage, report.outages.cut_off, &report.outages.all_connections);
    let mut text = match each.count {
        0 => String::new(),
        _ => format!("; the longest was without a transaction for {:.2} s", each.max / 1e6),
    };
    if cut_off > 0 {
        text += &format!(" ({cut_off} still were when the window ended)");
    }
    match all.count {
        0 => {}
        1 => text += &format!("; all at once were for {:.2} s", all.total_s),
        times => {
            text += &format!(
                "; all at once were {times} times, for {:.2} s and at most {:.2} s",
                all.total_s, all.longest_s
            );
        }
    }
    text
}

/// How often the server had no more of something for a transaction of the window.
fn refused_for_overload(report: &RunReport) -> u64 {
    sum(&report.totals.counts, |error| error.class == OVERLOAD && error.statement != CONNECT)
}

fn overloaded(report: &RunReport) -> Option<Finding> {
    let refused = refused_for_overload(report);
    (refused > 0).then(|| {
        Finding::new(
            "overloaded",
            format!("the server refused {} since it had no more of what it limits", counted(refused, "statement")),
            "each cost its connection a pause of up to 2 s, and the rates are lower for it; raise the limit that the error names",
        )
    })
}

/// A run that cannot tell how far its figures can be trusted. One that changed has no one rate, however long it is.
fn too_short(report: &RunReport) -> Option<Finding> {
    let changed = report.confidence.unsteady.is_some() || is_stepped(report);
    let needs_s = report.confidence.needs_s.filter(|_| !changed)?;
    Some(Finding::new(
        "too-short",
        format!(
            "{:.1} s of this run do not tell how far figures without an interval can be trusted",
            report.totals.elapsed_s
        ),
        format!(
            "measure for at least {} s ({}) for intervals of confidence",
            grouped(needs_s.ceil(), 0),
            if report.spec.events.is_some() { "more --events" } else { "--time" }
        ),
    ))
}

/// Whether the rate changes inside the window because it was asked to.
fn is_stepped(report: &RunReport) -> bool {
    report.spec.open_loop.as_ref().is_some_and(|asked| asked.steps.len() > 1)
}

/// A rate that changed inside the window: its mean is none that the server ever had.
fn unsteady(report: &RunReport) -> Option<Finding> {
    let tps = |tps: f64| grouped(tps, if tps < 100.0 { 1 } else { 0 });
    // A block that lasts to the window's end ends there but for the arithmetic.
    let end_s = report.totals.elapsed_s - report.confidence.block_s / 2.0;
    let (seen, rose) = match report.confidence.unsteady.filter(|_| !is_stepped(report))? {
        Unsteady::Drift { first, last } => {
            let seen = match first < last {
                true => "rose",
                false => "fell",
            };
            let (from, to) = (tps(first), tps(last));
            let seen = format!("tps {seen} bit by bit, from {from} in the first third of the run to {to} in the last");
            (seen, Some(first < last))
        }
        Unsteady::Shift { from_s, to_s, inside, outside } if from_s > 0.0 && to_s < end_s => {
            let (inside, outside) = (tps(inside), tps(outside));
            (format!("tps was {inside} from {from_s:.1} s to {to_s:.1} s, and {outside} before and after"), None)
        }
        Unsteady::Shift { from_s, to_s, inside, outside } => {
            let (first, then, at_s) = if from_s > 0.0 { (outside, inside, from_s) } else { (inside, outside, to_s) };
            (format!("tps was {} for {at_s:.1} s, and {} after that", tps(first), tps(then)), Some(first < then))
        }
    };
    let advice = match rose {
        Some(true) => "the warm-up may be too short: raise --warmup-time, or prewarm; the figures are means of both",
        Some(false) => {
            "burst credit may be used up, or the data have outgrown the cache; the figures are means of both: wait for a steady state (--warmup-time)"
        }
        None => {
            "a checkpoint, a backup or a neighbour may be behind it; the figures are means of both: look at the series, and repeat the run"
        }
    };
    Some(Finding::new("unsteady", seen, advice))
}

/// Share of an open loop's transactions that may be begun not at all, or not be in the latencies, unnoticed.
const MISSED_LIMIT: f64 = 0.01;

/// The server, or the number of connections, did not keep up with the schedule.
fn schedule_missed(report: &RunReport) -> Option<Finding> {
    let open_loop = report.open_loop.as_ref()?;
    let missed = (open_loop.not_begun + open_loop.shed) as f64 > MISSED_LIMIT * open_loop.due as f64;
    // Below that share of a long run a queue may still be long, and grow.
    let queued = open_loop.not_begun as f64 > open_loop.asked_tps;
    (missed || queued).then(|| {
        Finding::new(
            "schedule-missed",
            format!(
                "{:.2} transactions a second were asked for and {:.2} committed; of {} that were due {} had not begun at the end, {} were skipped, and up to {} waited for a connection",
                open_loop.asked_tps,
                report.totals.tps,
                open_loop.due,
                open_loop.not_begun,
                open_loop.shed,
                open_loop.highest_backlog
            ),
            match late_client(report, open_loop) {
                Some(late) => format!("{late}: use a client machine with idle cores, and measure again"),
                None => "the server or the number of connections was the limit: ask for a lower --rate, or give more --threads; where a queue grows, response times say how long the run was".into(),
            },
        )
    })
}

/// What this machine took of the connections' time, if it is more than the server did: connections that were free and
/// whose threads did not run when a transaction was due.
fn late_client(report: &RunReport, open_loop: &OpenLoop) -> Option<String> {
    let total = |latency: &Latency| latency.mean * latency.count as f64;
    let (late, service) = (&open_loop.lateness_us, &report.latency_us.service);
    (total(late) > total(service)).then(|| {
        format!(
            "this machine was the limit, not the server: connections that were free began transactions {:.1} ms late on the average and up to {:.1} ms, which adds up to more than all transactions took",
            late.mean / 1e3,
            late.max / 1e3
        )
    })
}

fn shed(report: &RunReport) -> Option<Finding> {
    let shed = report.open_loop.as_ref().map_or(0, |open_loop| open_loop.shed);
    let most_s = report.spec.open_loop.as_ref().and_then(|asked| asked.max_lateness_s).unwrap_or_default();
    (shed > 0).then(|| {
        Finding::new(
            "transactions-shed",
            format!("{shed} transactions were skipped, since they would have begun more than {most_s} s late"),
            "they are in no rate and in no latency: users whose requests were turned away",
        )
    })
}

/// The latencies of an open loop miss what had not ended when the window closed.
fn cut_off_schedule(report: &RunReport) -> Option<Finding> {
    let open_loop = report.open_loop.as_ref()?;
    let missing = open_loop.drained + open_loop.unfinished + open_loop.not_begun;
    (missing as f64 > (1.0 - CUT_OFF_LIMIT) * open_loop.due as f64).then(|| {
        Finding::new(
            "latency-cut-off",
            format!(
                "{missing} of {} transactions that were due in the window had not ended when it closed, and are in no latency",
                open_loop.due
            ),
            "the longest are among them: do not quote these latencies; run longer (--time) or ask for a lower --rate",
        )
    })
}

/// In a closed loop a connection is always inside a transaction, so the latencies of all that ended in the window add up
/// to connections x window (Little's law), but for what was still in flight at its end.
fn cut_off(report: &RunReport) -> Option<Finding> {
    let response = &report.latency_us.response;
    let counts = &report.totals.counts;
    // Transactions that were given up are in no latency, and took their part of the connections' time.
    let in_latencies_s = response.mean * response.count as f64 / 1e6;
    let available_s = f64::from(report.spec.threads) * report.totals.elapsed_s - counts.given_up_s;
    // Connections that find no event left are idle, lost ones are away, refused ones pause; none of it is cut off.
    if report.open_loop.is_some()
        || report.spec.events.is_some()
        || were_away(report)
        || refused_for_overload(report) > 0
        || response.count == 0
        || in_latencies_s >= CUT_OFF_LIMIT * available_s
    {
        return None;
    }
    Some(Finding::new(
        "latency-cut-off",
        format!(
            "the latencies cover {:.0} % of the connections' time{}; the rest went into transactions that had not ended when the window closed. By Little's law the mean is {:.1} ms, not {:.1} ms",
            100.0 * in_latencies_s / available_s,
            if counts.given_up_s > 0.0 { ", without that of transactions that were given up" } else { "" },
            1e3 * available_s / response.count as f64,
            response.mean / 1e3
        ),
        "do not quote these latencies; run longer (--time) so that what is cut off becomes small",
    ))
}

/// Statements are prepared on first use, which belongs into the warm-up.
fn prepares(report: &RunReport) -> Option<Finding> {
    let prepare = &report.latency_us.prepare;
    let took_s = prepare.mean * prepare.count as f64 / 1e6;
    let available_s = f64::from(report.spec.threads) * report.totals.elapsed_s;
    (took_s > PREPARE_LIMIT * available_s).then(|| {
        Finding::new(
            "prepares-in-window",
            format!(
                "{} statements were prepared inside the window, for {:.1} % of the connections' time",
                prepare.count,
                100.0 * took_s / available_s
            ),
            "rates are lower and latencies higher for it; prepare in a warm-up (--warmup-time), or run longer",
        )
    })
}

fn turned_to_text(report: &RunReport) -> Option<Finding> {
    let counts = [&report.warmup, &report.totals.counts, &report.drained];
    let turned: u64 = counts.iter().map(|counts| counts.turned_to_text).sum();
    (turned > 0).then(|| {
        Finding::new(
            "turned-to-text",
            format!(
                "{} met the server's limit of prepared statements (error 1461) and sent text from then on",
                counted(turned, "connection")
            ),
            "the figures mix both ways; raise max_prepared_stmt_count, or choose text by --db-ps-mode disable",
        )
    })
}

fn ending(report: &RunReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    let stopped = match report.totals.elapsed_s {
        0.0 => "the run was stopped during its warm-up, so nothing was measured".to_string(),
        elapsed_s => format!("the run was stopped after {elapsed_s:.1} s"),
    };
    match report.status {
        Status::Completed => {}
        Status::Interrupted => {
            let advice = match report.totals.elapsed_s {
                0.0 => "there are no figures; let a run go on for longer than its --warmup-time",
                _ => "the figures hold for that time only",
            };
            findings.push(Finding::new("interrupted", stopped, advice));
        }
        Status::TooManyErrors => findings.push(Finding::new(
            "too-many-errors",
            format!("{stopped}: {}", too_many_errors(report)),
            "see the errors above; do not use these figures",
        )),
        Status::ServerLost => findings.push(Finding::new(
            "server-lost",
            format!("{stopped}: the server was away and did not come back"),
            "the rates include the time without a server; do not use these figures",
        )),
    }
    if report.panicked > 0 {
        findings.push(Finding::new(
            "connections-panicked",
            format!("a fault of oltpbench itself ended {}", counted(report.panicked.into(), "connection")),
            "please report it with the message above; do not use these figures",
        ));
    }
    if report.unfinished > 0 {
        findings.push(Finding::new(
            "unfinished",
            format!(
                "{} still waited for an answer when the run ended",
                counted(report.unfinished.into(), "connection")
            ),
            "the server hung or was slower than --forced-shutdown allows; their transactions are not counted",
        ));
    }
    if report.totals.counts.transactions == 0 && report.status == Status::Completed {
        findings.push(Finding::new(
            "no-transactions",
            "not one transaction ended inside the measured window",
            "run longer (--time), or look at the server",
        ));
    }
    findings
}

/// The figures that ended the run. They are of all that had ended until then, those of the warm-up too.
fn too_many_errors(report: &RunReport) -> String {
    let spans = [&report.warmup, &report.totals.counts];
    let sum = |count: fn(&Counts) -> u64| spans.iter().map(|span| count(span)).sum::<u64>();
    let (committed, failed) = (sum(|span| span.transactions), sum(|span| span.failed_transactions));
    let lost = sum(|span| span.lost_transactions);
    if committed == 0 {
        return format!("all {failed} transactions until then failed, those of the warm-up included");
    }
    let (errors, all) = (failed.saturating_sub(lost), committed + failed);
    let without = match lost {
        0 => String::new(),
        lost => format!(", not counting the {lost} that a lost connection cost"),
    };
    format!(
        "{errors} of {all} transactions until then failed, warm-up included ({:.1} %; --max-error-rate is {:.1} %){without}",
        100.0 * errors as f64 / all as f64,
        100.0 * report.spec.max_error_rate
    )
}

/// What the database gave back is not what was put there, or nobody looked at all of it.
fn validation(report: &RunReport) -> Vec<Finding> {
    let Some(validation) = &report.validation else { return Vec::new() };
    let mut findings = Vec::new();
    if validation.differences > 0 {
        findings.push(Finding::new(
            "validation",
            format!(
                "{} between what is there and what was put there",
                counted(validation.differences, "difference")
            ),
            "do not use these figures before you know why: an earlier run or another client that wrote to these tables leaves such rows too, so prepare them anew and repeat the run",
        ));
    }
    let mut left_out: Vec<String> =
        validation.unaudited.iter().map(|reason| format!("the audit ended early: {reason}")).collect();
    if !validation.unchecked_statements.is_empty() {
        left_out
            .push(format!("statements of which no row was checked: {}", validation.unchecked_statements.join(", ")));
    }
    if !left_out.is_empty() {
        findings.push(Finding::new("validation-incomplete", left_out.join("; "), "what was not looked at may differ"));
    }
    findings
}

/// A statement that finds nothing costs a server less than one that does.
fn rows_not_found(report: &RunReport) -> Option<Finding> {
    let each = report.rows_not_found.iter().map(|RowsNotFound { statement, count, sent }| {
        format!("{count} of {sent} {statement} ({:.2} %)", 100.0 * *count as f64 / (*sent).max(1) as f64)
    });
    let each = each.collect::<Vec<_>>().join(", ");
    (!each.is_empty()).then(|| {
        Finding::new(
            "rows-not-found",
            format!("statements of the whole run that found no row: {each}"),
            "they cost less than those that find one; where rows are deleted, by this workload or another, prepare the tables anew before each run",
        )
    })
}

/// What the workers sent must all be in the report, unless some of them were left behind.
pub(super) fn unaccounted(report: &RunReport, sent: u64) -> Option<Finding> {
    let spans = [&report.warmup, &report.totals.counts, &report.drained];
    let each = spans.map(|span| {
        let failed = &span.failed_attempts;
        span.queries + failed.reads + failed.writes + failed.other
    });
    let reported: u64 = each.iter().sum();
    (reported != sent && report.unfinished == 0 && report.panicked == 0).then(|| {
        Finding::new(
            "statements-unaccounted",
            format!("{sent} statements were sent in the whole run, and {reported} are counted in this report"),
            "this is a fault of oltpbench itself; please report it, and do not use these figures",
        )
    })
}

pub(super) fn server_unknown(reason: &str) -> Finding {
    Finding::new(
        "server-counters-unknown",
        format!("the server's own counters over the window are not known: {reason}"),
        "the figures do not depend on them",
    )
}

fn errors(report: &RunReport) -> Option<Finding> {
    let failed = report.totals.counts.failed_transactions;
    (failed > 0 && report.status != Status::TooManyErrors).then(|| {
        Finding::new(
            "failed-transactions",
            format!("{} failed ({:.2} %)", counted(failed, "transaction"), 100.0 * report.totals.counts.failure_rate()),
            "they are in no rate and in no latency; see the errors by code",
        )
    })
}

fn ignored(report: &RunReport) -> Option<Finding> {
    let ignored = report.totals.counts.ignored_transactions;
    (ignored > 0).then(|| {
        Finding::new(
            "ignored-transactions",
            format!(
                "{ignored} transactions were given up for errors that --ignore-errors {} names",
                report.spec.ignore_errors
            ),
            "they are in no rate and in no latency, and count as no failure; see the errors by code",
        )
    })
}

fn client(report: &RunReport) -> Vec<Finding> {
    let client = &report.client;
    let embedded = !report.target.url.starts_with("mysql:");
    if report.totals.elapsed_s < SHORTEST_CPU_S {
        return Vec::new();
    }
    let percent = |share: f64| (100.0 * share).round();
    let mut findings = Vec::new();
    if client.process_share >= CLIENT_LIMIT {
        findings.push(Finding::new(
            "client-saturated",
            format!(
                "oltpbench itself used {} % of the {} it may use",
                percent(client.process_share),
                counted(client.cores as u64, "core")
            ),
            match embedded {
                true => "what is measured works inside oltpbench, so this is its limit too: only a faster machine shows more",
                false => "the server may be faster than these figures: use a larger client machine, or several",
            },
        ));
    } else if let Some(machine) = client.machine_share.filter(|&share| share >= MACHINE_LIMIT) {
        findings.push(Finding::new(
            "client-machine-busy",
            format!(
                "this machine was {} % busy, {} % of it by oltpbench",
                percent(machine),
                percent(client.process_share / machine)
            ),
            match embedded {
                true => "something else runs here and takes CPU time from what is measured: stop it",
                false => {
                    "something else runs here, such as the server itself: figures from a client machine of its own are higher"
                }
            },
        ));
    }
    if let Some(steal) = client.steal_share.filter(|&share| share >= STEAL_LIMIT) {
        findings.push(Finding::new(
            "client-steal",
            format!("the hypervisor took {} % of this machine's CPU time away", percent(steal)),
            "use a client machine with dedicated cores",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_documentation_lists_every_code() {
        let rows = include_str!("../../docs/findings.md").lines().filter_map(|line| line.strip_prefix("| `"));
        let documented: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
        assert_eq!(documented, CODES);
    }

    #[test]
    fn every_code_that_is_given_is_listed() {
        let source = [include_str!("findings.rs"), include_str!("server.rs")];
        let literal = |call: &'static str| call.trim_start().strip_prefix('"')?.split('"').next();
        let code = source.iter().map(|source| source.split("#[cfg(test)]").next().unwrap());
        let given = code.flat_map(|code| code.split("Finding::new(").skip(1)).filter_map(literal);
        // These are noticed before a run, by its checks.
        let given: BTreeSet<_> = given.chain(["prepared-replaced-by-text", "tls"]).collect();
        assert_eq!(given, CODES.into());
    }
}
