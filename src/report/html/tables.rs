//! The tables of a run: what its charts and headline do not show.

use maud::{Markup, html};

use crate::report::figures::grouped;
use crate::report::server::Verdict;
use crate::report::setup::{self, Row};
use crate::report::text::printable;
use crate::report::{Counts, OpenLoop, RunReport, Server, Validation, per_second};

type Count = fn(&Counts) -> u64;

pub fn tables(report: &RunReport) -> Markup {
    html! {
        (latencies(report))
        @if let Some(kept) = &report.open_loop { (open_loop(kept)) }
        (errors(report))
        (counts(report))
        @if let Some(validation) = &report.validation { (self::validation(validation)) }
        @if let Some(server) = &report.server { (counters(server)) }
        (pairs("Client", &client(report)))
        (pairs("Set-up", &[setup::first(report), setup::rest(report)].concat()))
        @let variables = setup::variables(report);
        @if !variables.is_empty() { details {
            summary { "Settings of the server (" (variables.len()) ")" }
            (scroll("Settings of the server", html! { (pair_rows(&variables)) }))
        } }
    }
}

/// A table that scrolls by itself where the screen is too narrow, also by keyboard. What stands above it says its name
/// to those who see.
pub fn scroll(name: &str, rows: Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(name) { table { caption.unseen { (name) } (rows) } } }
}

/// The first row of a table: columns of numbers, then columns of texts.
pub fn head(numbers: &[&str], texts: &[&str]) -> Markup {
    html! { thead { tr {
        @for name in numbers { th scope="col" { (name) } }
        @for name in texts { th.text scope="col" { (name) } }
    } } }
}

fn pairs(name: &str, rows: &[Row]) -> Markup {
    html! { h3 { (name) } table.pairs { caption.unseen { (name) } (pair_rows(rows)) } }
}

fn pair_rows(rows: &[Row]) -> Markup {
    html! { tbody { @for (name, value) in rows { tr {
        th scope="row" { (printable(name.trim())) }
        td.text { (printable(value)) }
    } } } }
}

fn latencies(report: &RunReport) -> Markup {
    let of = &report.latency_us;
    let mut rows = vec![("response".to_string(), &of.response)];
    rows.extend(report.open_loop.as_ref().map(|_| ("service".into(), &of.service)));
    for statement in &report.statements {
        rows.push((statement.name.clone(), &statement.latency_us));
        rows.extend(statement.first_part_us.as_ref().map(|first| (format!("{}, first part", statement.name), first)));
    }
    rows.extend([
        ("prepare (in the above)".into(), &of.prepare),
        ("connect (before)".into(), &of.connect),
        ("connect again".into(), &of.reconnect),
        ("without connection".into(), &of.outage),
    ]);
    html! {
        h3 { "Latencies (ms)" }
        (scroll("Latencies in milliseconds", html! {
            (head(&["of", "count", "mean", "min", "p50", "p90", "p95", "p99", "p99.9", "max"], &[]))
            tbody { @for (name, latency) in rows.iter().filter(|(_, latency)| latency.count > 0) { tr {
                th scope="row" { (printable(name)) }
                td { (whole(latency.count)) }
                @for us in [
                    latency.mean, latency.min, latency.p50, latency.p90, latency.p95, latency.p99, latency.p999, latency.max,
                ] { td { (grouped(us / 1e3, 3)) } }
            } } }
        }))
    }
}

fn open_loop(kept: &OpenLoop) -> Markup {
    let rows = [
        ("due in the window", kept.due),
        ("ended in it", kept.done),
        ("skipped, too late", kept.shed),
        ("begun, ended after the window", kept.drained),
        ("begun, never ended", kept.unfinished),
        ("not begun at its end", kept.not_begun),
        ("due in the warm-up, ended in the window", kept.due_in_warmup),
        ("due in the warm-up and dropped", kept.dropped_from_warmup),
        ("highest backlog", kept.highest_backlog),
    ];
    pairs("Open loop", &rows.map(|(name, count)| (name.to_string(), whole(count))))
}

fn errors(report: &RunReport) -> Markup {
    let spans = report.spans();
    let rows: Vec<_> =
        spans.iter().flat_map(|(span, counts)| counts.errors.iter().map(move |error| (span, error))).collect();
    html! {
        h3 { "Errors" }
        @if rows.is_empty() { p { "None." } } @else {
            (scroll("Errors", html! {
                (head(&["count", "code", "SQLSTATE"], &["class", "statement", "when", "first message"]))
                tbody { @for (span, error) in rows { tr {
                    td { (whole(error.count)) } td { (error.code) } td { (printable(&error.sqlstate)) }
                    td.text { (printable(&error.class)) } td.text { (printable(&error.statement)) } td.text { (span) }
                    td.long { (printable(&error.message)) }
                } } }
            }))
        }
    }
}

fn counts(report: &RunReport) -> Markup {
    let spans = report.spans();
    let rows: [(_, Count); 13] = [
        ("transactions", |counts| counts.transactions),
        ("read/write requests", |counts| counts.read_write_requests),
        ("queries", |counts| counts.queries),
        ("reads", |counts| counts.reads),
        ("writes", |counts| counts.writes),
        ("other", |counts| counts.other),
        ("retries", |counts| counts.retries),
        ("failed transactions", |counts| counts.failed_transactions),
        ("of them with their connection", |counts| counts.lost_transactions),
        ("ignored transactions", |counts| counts.ignored_transactions),
        ("lost connections", |counts| counts.lost_connections),
        ("reconnects", |counts| counts.reconnects),
        ("statements prepared", |counts| counts.prepares),
    ];
    html! {
        h3 { "Counts" }
        (scroll("Counts", html! {
            (head(&["of", spans[0].0, spans[1].0, spans[2].0], &[]))
            tbody { @for (name, count) in rows { tr {
                th scope="row" { (name) }
                @for (_, counts) in &spans { td { (whole(count(counts))) } }
            } } }
        }))
    }
}

fn validation(validation: &Validation) -> Markup {
    let mut rows = vec![
        ("checked as they were read", format!("{} rows of {} statements", validation.rows, validation.reads)),
        ("checked after the run", format!("{} rows of {} tables", validation.audited_rows, validation.audited_tables)),
    ];
    rows.extend(validation.unaudited.as_ref().map(|reason| ("not all, since", reason.clone())));
    if !validation.unchecked_statements.is_empty() {
        rows.push(("not checked", validation.unchecked_statements.join(", ")));
    }
    rows.push(("differences", validation.differences.to_string()));
    let rows = rows.into_iter().map(|(name, value)| (name.to_string(), value));
    let first = validation.first_differences.iter();
    let first = first.map(|difference| (difference.place.clone(), difference.message.clone()));
    pairs("Validation", &rows.chain(first).collect::<Vec<Row>>())
}

fn counters(server: &Server) -> Markup {
    html! {
        h3 { "The server's own counters" }
        p { "What they rose by " (server.span()) ", which is not quite the run's window." }
        @if let Some(comparison) = &server.comparison {
            @match comparison.verdict() {
                Verdict::Same => p { "Its count of statements agrees with ours:" },
                Verdict::TooFew => p { "Too few statements to tell whether its count agrees with ours:" },
                Verdict::Differs => p { "Its count of statements " strong { "does not agree" } " with ours:" },
            }
            (scroll("The server's count beside ours", html! {
                (head(&["counter", "counted", "sent at least", "sent at most"], &[]))
                tbody { @for row in &comparison.statements { tr {
                    th scope="row" { (printable(&row.counter)) }
                    @for count in [row.server, row.sent_least, row.sent_most] { td { (whole(count)) } }
                } } }
            }))
        }
        @if let Some(reason) = &server.not_compared { p { "Its count of statements cannot be held against ours: " (printable(reason)) } }
        @if !server.digests.is_empty() {
            p { "The statements that took the server the longest:" }
            (scroll("Statements by the server's time", html! {
                (head(&["count", "total (s)", "rows examined"], &["statement"]))
                tbody { @for digest in &server.digests { tr {
                    td { (whole(digest.count)) } td { (grouped(digest.total_s, 3)) } td { (whole(digest.rows_examined)) }
                    td.long { code { (printable(&digest.text)) } }
                } } }
            }))
        }
        @if let Some(reason) = &server.digests_unknown { p { "Its times of statements are not known: " (printable(reason)) } }
        details {
            summary { "All counters that rose (" (server.counters.len()) ")" }
            (scroll("Counters of the server", html! {
                (head(&["counter", "rise", "a second"], &[]))
                tbody { @for (name, rise) in &server.counters { tr {
                    th scope="row" { (printable(name)) }
                    td { (whole(*rise)) }
                    td { (grouped(per_second(*rise as f64, server.elapsed_s), 1)) }
                } } }
            }))
        }
    }
}

fn client(report: &RunReport) -> Vec<Row> {
    let (client, percent) = (&report.client, |share: f64| format!("{:.1} %", 100.0 * share));
    let used = format!("{:.2} s, {} of {} cores", client.cpu_s, percent(client.process_share), client.cores);
    let mut rows = vec![("CPU used by oltpbench", used)];
    rows.extend(client.machine_share.map(|share| ("CPU busy on the machine", percent(share))));
    rows.extend(client.steal_share.map(|share| ("taken away by the hypervisor", percent(share))));
    rows.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

fn whole(count: u64) -> String {
    grouped(count as f64, 0)
}
