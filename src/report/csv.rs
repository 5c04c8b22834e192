//! Runs as CSV after RFC 4180: a row a run, or a row an interval.
//!
//! Invariants: headers are frozen, new ones come at the end of a row; numbers have all their digits, a point and no
//! thousands; what is not known is empty. A text that a spreadsheet would take for a formula has an apostrophe before it.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

use csv::Terminator;

use super::saved::Saved;
use super::text::printable;
use super::{Counts, Latency, LatencyBounds, RunReport, SeriesEntry};
use crate::metrics::Bounds;

/// A header and what stands below it.
type RunColumn = (&'static str, fn(&Saved) -> String);
type IntervalColumn = (&'static str, fn(&Saved, &SeriesEntry) -> String);

const RUNS: &[RunColumn] = &[
    ("file", |run| text(&run.path.display().to_string())),
    ("name", |run| optional_text(run.report.name.as_deref())),
    ("tags", |run| text(&run.report.tags_in_words())),
    ("target", |run| optional_text(run.report.cell.as_ref().map(|cell| cell.target.as_str()))),
    ("block", |run| optional(run.report.cell.as_ref().map(|cell| cell.block))),
    ("order", |run| optional(run.report.cell.as_ref().map(|cell| cell.order))),
    ("status", |run| run.report.status.code().to_string()),
    ("started_at", |run| text(&run.report.started_at)),
    ("oltpbench_version", |run| text(&run.report.oltpbench_version)),
    ("url", |run| text(&run.report.target.url)),
    ("server_version", |run| text(&run.report.target.version)),
    ("workload", |run| text(&run.report.spec.workload)),
    ("profile", |run| optional_text(run.report.spec.profile.as_ref().map(|profile| profile.name.as_str()))),
    ("threads", |run| run.report.spec.threads.to_string()),
    ("asked_tps", |run| optional(run.report.open_loop.as_ref().map(|open_loop| open_loop.asked_tps))),
    ("protocol", |run| text(&run.report.spec.protocol)),
    ("rand_type", |run| text(&run.report.spec.rand_type)),
    ("rand_seed", |run| run.report.spec.rand_seed.to_string()),
    ("warmup_time_s", |run| run.report.spec.warmup_time_s.to_string()),
    ("elapsed_s", |run| run.report.totals.elapsed_s.to_string()),
    ("tps", |run| run.report.totals.tps.to_string()),
    ("tps_low", |run| low(run.report.confidence.tps)),
    ("tps_high", |run| high(run.report.confidence.tps)),
    ("rps", |run| run.report.totals.rps.to_string()),
    ("rps_low", |run| low(run.report.confidence.rps)),
    ("rps_high", |run| high(run.report.confidence.rps)),
    ("qps", |run| run.report.totals.qps.to_string()),
    ("qps_low", |run| low(run.report.confidence.qps)),
    ("qps_high", |run| high(run.report.confidence.qps)),
    ("transactions", |run| counts(run).transactions.to_string()),
    ("read_write_requests", |run| counts(run).read_write_requests.to_string()),
    ("queries", |run| counts(run).queries.to_string()),
    ("reads", |run| counts(run).reads.to_string()),
    ("writes", |run| counts(run).writes.to_string()),
    ("other", |run| counts(run).other.to_string()),
    ("retries", |run| counts(run).retries.to_string()),
    ("failed_transactions", |run| counts(run).failed_transactions.to_string()),
    ("ignored_transactions", |run| counts(run).ignored_transactions.to_string()),
    ("errors", |run| counts(run).error_count().to_string()),
    ("lost_connections", |run| counts(run).lost_connections.to_string()),
    ("reconnects", |run| counts(run).reconnects.to_string()),
    ("unfinished", |run| run.report.unfinished.to_string()),
    ("response_min_us", |run| of(response(run), |latency| latency.min)),
    ("response_mean_us", |run| of(response(run), |latency| latency.mean)),
    ("response_mean_low_us", |run| low(bounds(run).mean)),
    ("response_mean_high_us", |run| high(bounds(run).mean)),
    ("response_p50_us", |run| of(response(run), |latency| latency.p50)),
    ("response_p50_low_us", |run| low(bounds(run).p50)),
    ("response_p50_high_us", |run| high(bounds(run).p50)),
    ("response_p90_us", |run| of(response(run), |latency| latency.p90)),
    ("response_p90_low_us", |run| low(bounds(run).p90)),
    ("response_p90_high_us", |run| high(bounds(run).p90)),
    ("response_p95_us", |run| of(response(run), |latency| latency.p95)),
    ("response_p95_low_us", |run| low(bounds(run).p95)),
    ("response_p95_high_us", |run| high(bounds(run).p95)),
    ("response_p99_us", |run| of(response(run), |latency| latency.p99)),
    ("response_p99_low_us", |run| low(bounds(run).p99)),
    ("response_p99_high_us", |run| high(bounds(run).p99)),
    ("response_p999_us", |run| of(response(run), |latency| latency.p999)),
    ("response_p999_low_us", |run| low(bounds(run).p999)),
    ("response_p999_high_us", |run| high(bounds(run).p999)),
    ("response_max_us", |run| of(response(run), |latency| latency.max)),
    ("service_mean_us", |run| of(&run.report.latency_us.service, |latency| latency.mean)),
    ("service_p50_us", |run| of(&run.report.latency_us.service, |latency| latency.p50)),
    ("service_p95_us", |run| of(&run.report.latency_us.service, |latency| latency.p95)),
    ("service_p99_us", |run| of(&run.report.latency_us.service, |latency| latency.p99)),
    ("service_max_us", |run| of(&run.report.latency_us.service, |latency| latency.max)),
    ("due", |run| optional(run.report.open_loop.as_ref().map(|open_loop| open_loop.due))),
    ("shed", |run| optional(run.report.open_loop.as_ref().map(|open_loop| open_loop.shed))),
    ("not_begun", |run| optional(run.report.open_loop.as_ref().map(|open_loop| open_loop.not_begun))),
    ("highest_backlog", |run| optional(run.report.open_loop.as_ref().map(|open_loop| open_loop.highest_backlog))),
    ("client_host", |run| text(&run.report.client.host)),
    ("client_cores", |run| run.report.client.cores.to_string()),
    ("client_process_share", |run| run.report.client.process_share.to_string()),
    ("client_machine_share", |run| optional(run.report.client.machine_share)),
    ("findings", |run| text(&codes(&run.report))),
];

const INTERVALS: &[IntervalColumn] = &[
    ("file", |run, _| text(&run.path.display().to_string())),
    ("name", |run, _| optional_text(run.report.name.as_deref())),
    ("start_s", |_, interval| interval.start_s.to_string()),
    ("end_s", |_, interval| interval.end_s.to_string()),
    ("ended_at", |_, interval| text(&interval.ended_at)),
    ("transactions", |_, interval| interval.transactions.to_string()),
    ("tps", |_, interval| interval.tps.to_string()),
    ("rps", |_, interval| interval.rps.to_string()),
    ("qps", |_, interval| interval.qps.to_string()),
    ("retries", |_, interval| interval.retries.to_string()),
    ("failed_transactions", |_, interval| interval.failed_transactions.to_string()),
    ("reconnects", |_, interval| interval.reconnects.to_string()),
    ("errors", |_, interval| interval.errors.to_string()),
    ("due", |_, interval| optional(interval.due)),
    ("shed", |_, interval| optional(interval.shed)),
    ("backlog", |_, interval| optional(interval.backlog)),
    ("oldest_us", |_, interval| optional(interval.oldest_us)),
    ("mean_us", |_, interval| optional(interval.mean_us)),
    ("p50_us", |_, interval| optional(interval.p50_us)),
    ("p95_us", |_, interval| optional(interval.p95_us)),
    ("p99_us", |_, interval| optional(interval.p99_us)),
    ("max_us", |_, interval| optional(interval.max_us)),
];

/// A row a run.
pub fn runs(runs: &[Saved]) -> String {
    let rows = runs.iter().map(|run| RUNS.iter().map(|(_, cell)| cell(run)).collect());
    table(RUNS.iter().map(|(header, _)| *header), rows)
}

/// A row an interval, those of one run after those of another.
pub fn series(runs: &[Saved]) -> String {
    let intervals = runs.iter().flat_map(|run| run.report.series.iter().map(move |interval| (run, interval)));
    let rows = intervals.map(|(run, interval)| INTERVALS.iter().map(|(_, cell)| cell(run, interval)).collect());
    table(INTERVALS.iter().map(|(header, _)| *header), rows)
}

fn table<'a>(headers: impl Iterator<Item = &'a str>, rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut writer = csv::WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    // Writing into memory cannot fail, so the results are dropped.
    let _ = writer.write_record(headers);
    for row in rows {
        let _ = writer.write_record(row);
    }
    // All fields are texts, so their bytes are one.
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

fn counts(run: &Saved) -> &Counts {
    &run.report.totals.counts
}

fn response(run: &Saved) -> &Latency {
    &run.report.latency_us.response
}

fn bounds(run: &Saved) -> &LatencyBounds {
    &run.report.confidence.latency_us
}

/// A figure of latencies, of which there may be none.
fn of(latency: &Latency, value_us: impl Fn(&Latency) -> f64) -> String {
    optional((latency.count > 0).then(|| value_us(latency)))
}

fn low(bounds: Option<Bounds>) -> String {
    optional(bounds.map(|bounds| bounds.low))
}

fn high(bounds: Option<Bounds>) -> String {
    optional(bounds.map(|bounds| bounds.high))
}

fn codes(report: &RunReport) -> String {
    report.findings.iter().map(|finding| finding.code.as_str()).collect::<Vec<_>>().join(" ")
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn optional_text(value: Option<&str>) -> String {
    value.map_or_else(String::new, text)
}

/// What a user or a server named, as one line that is no formula.
fn text(value: &str) -> String {
    let line = printable(value);
    if line.starts_with(['=', '+', '-', '@']) { format!("'{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn headers_are_frozen() {
        let headers = |columns: &str| columns.lines().next().unwrap().replace(',', "\n");
        insta::assert_snapshot!("headers_of_runs", headers(&runs(&[])));
        insta::assert_snapshot!("headers_of_a_series", headers(&series(&[])));
    }

    #[test]
    fn a_run_is_a_row_with_all_digits() {
        insta::assert_snapshot!(runs(&[example::saved("folder/a.json"), example::open_saved("folder/b.json")]));
    }

    #[test]
    fn an_interval_is_a_row_and_what_did_not_happen_is_empty() {
        insta::assert_snapshot!(series(&[example::saved("a.json"), example::open_saved("b.json")]));
    }

    #[test]
    fn cells_are_quoted_and_no_formulas() {
        let mut run = example::saved("a.json");
        run.report.name = Some("=HYPERLINK(\"x\"),\r\nnext".into());
        let rows = runs(&[run]);
        assert!(rows.contains("a.json,\"'=HYPERLINK(\"\"x\"\"), next\","), "{rows}");
        let mut reader = csv::Reader::from_reader(rows.as_bytes());
        let record = reader.records().next().unwrap().unwrap();
        assert_eq!((record.len(), &record[1]), (RUNS.len(), "'=HYPERLINK(\"x\"), next"));
    }
}
