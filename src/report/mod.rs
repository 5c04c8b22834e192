//! The report: one JSON document a run, and the text that is printed from it.
//!
//! Everything printed is a view of [`RunReport`]. Its fields are plain and named with their units; a change of their
//! meaning changes [`SCHEMA_VERSION`]. It is built from what was measured and from a [`Setup`] that the caller fills
//! in, and never holds a password.
//!
//! * [`check`]: what `oltpbench check` says, as a document and as text.
//! * [`csv`]: a row a run, or a row an interval, for spreadsheets and scripts.
//! * [`experiment`]: what a grid of runs is to measure, and what became of them.
//! * [`figures`]: the figures to quote, with their intervals.
//! * [`findings`]: what a reader must know before believing a run's figures.
//! * [`hlog`]: latency distributions for the tools of HdrHistogram.
//! * [`html`]: runs as one page with charts.
//! * [`list`]: the runs of a folder, in a line each.
//! * [`markdown`]: runs side by side, to be pasted into an article.
//! * [`saved`]: reports read back from files and folders.
//! * [`server`]: the server's own counters beside ours.
//! * [`setup`]: how runs were set up, and what differs between them.
//! * [`text`]: a run's report for a terminal.
//!
//! Imports `metrics`. Must not import: `engine`, `target`, `workload`, `cli`.

pub mod check;
pub mod csv;
#[cfg(test)]
pub(crate) mod example;
pub mod experiment;
pub mod figures;
pub mod findings;
pub mod hlog;
pub mod html;
pub mod list;
pub mod markdown;
pub mod saved;
pub mod server;
pub mod setup;
pub mod text;

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use crate::metrics::client::Usage;
use crate::metrics::histogram::{Buckets, percentile_us};
use crate::metrics::server::Counters;
use crate::metrics::statistics::{self, Bounds, Unsteady};
use crate::metrics::{
    self, ErrorCount, ErrorKey, FoundNothing, Histogram, Interval, Measurement, StatementLatency, Statements, Tally,
};

pub use findings::Finding;
pub use server::Server;

/// Version of the document's layout.
pub const SCHEMA_VERSION: u32 = 1;

/// One run, as it is saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    pub schema_version: u32,
    pub oltpbench_version: String,
    pub status: Status,
    /// Start of the measured window, UTC, RFC 3339.
    pub started_at: String,
    /// As --name and --tag gave them.
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Where the run stands in its experiment; `None` for a run by itself.
    #[serde(default)]
    pub cell: Option<Cell>,
    pub spec: Spec,
    pub target: Target,
    /// Version and cipher of TLS between the sessions and what they connected to; `None` without it.
    pub encryption: Option<String>,
    pub client: Client,
    pub totals: Totals,
    /// `None` for a closed loop.
    pub open_loop: Option<OpenLoop>,
    /// Transactions that ended before the window and after it. They are in no rate; with `totals` they add up to
    /// what the server saw.
    pub warmup: Counts,
    pub drained: Counts,
    /// Connections whose last transaction had not ended when the run stopped waiting for it.
    pub unfinished: u32,
    /// Connections that were lost and not back when the run was over.
    pub away: u32,
    /// Connections that a fault of oltpbench itself ended.
    pub panicked: u32,
    pub latency_us: Latencies,
    pub outages: Outages,
    pub statements: Vec<Statement>,
    pub series: Vec<SeriesEntry>,
    pub confidence: Confidence,
    /// Statements that read or wrote no row, as far as the target tells.
    #[serde(default)]
    pub rows_not_found: Vec<RowsNotFound>,
    /// `None` where the target has no counters, or where a finding says why they are not known.
    pub server: Option<Server>,
    /// What `--validate` found; `None` without it.
    #[serde(default)]
    pub validation: Option<Validation>,
    pub findings: Vec<Finding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Completed,
    Interrupted,
    /// Ended early, since more transactions failed than were allowed.
    TooManyErrors,
    /// Ended early, since the server was away for too long.
    ServerLost,
}

impl Status {
    /// As in the document.
    pub fn code(self) -> &'static str {
        match self {
            Status::Completed => "completed",
            Status::Interrupted => "interrupted",
            Status::TooManyErrors => "too_many_errors",
            Status::ServerLost => "server_lost",
        }
    }

    /// Why a run ended before it should have.
    pub fn words(self) -> Option<&'static str> {
        match self {
            Status::Completed => None,
            Status::Interrupted => Some("interrupted"),
            Status::TooManyErrors => Some("stopped: too many errors"),
            Status::ServerLost => Some("stopped: the server was lost"),
        }
    }
}

/// A run's place in an experiment. Runs of the same target, threads, rate and workload are repeats of each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The target's name in the experiment.
    pub target: String,
    /// The repeat that it belongs to, from 1. All cells of a block are measured before the next block begins, in a
    /// shuffled order or that of the block before in reverse, so drift falls on all alike and they may be compared in
    /// pairs. A run that failed may have been made again later, which `order` tells.
    pub block: u32,
    /// The run's place in the order in which the experiment was done, from 1.
    pub order: u32,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    pub workload: String,
    /// Of the workload's text and the texts that it extends; `None` in documents from before it was noted.
    #[serde(default)]
    pub workload_sha256: Option<String>,
    pub profile: Option<Profile>,
    pub threads: u32,
    /// `None` is no limit.
    pub time_s: Option<f64>,
    pub events: Option<u64>,
    /// `None` is the closed loop.
    pub open_loop: Option<AskedOpenLoop>,
    pub warmup_time_s: f64,
    pub interval_s: f64,
    /// Whether each statement was timed, or transactions alone.
    pub detail: bool,
    /// How statements reach the server: `prepared` or `text`.
    pub protocol: String,
    pub rand_type: String,
    pub rand_parameters: RandParameters,
    pub rand_seed: u64,
    pub max_retries: u32,
    /// As it was given: codes, or `all`.
    pub ignore_errors: String,
    pub max_error_rate: f64,
    pub forced_shutdown_s: f64,
    /// Those of the workload's own options that matter to a run, and those that were given.
    pub options: Vec<WorkloadOption>,
}

/// The schedule of an open loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskedOpenLoop {
    /// `poisson` or `constant`.
    pub arrival: String,
    pub steps: Vec<Step>,
    /// `queue` or `shed`.
    pub overload: String,
    pub max_lateness_s: Option<f64>,
}

impl AskedOpenLoop {
    /// Such as `500`, or `500, 1000 from 30 s`.
    pub fn rates_in_words(&self) -> String {
        let words = self.steps.iter().map(|step| match step.start_s {
            0.0 => step.rate.to_string(),
            start_s => format!("{} from {start_s} s", step.rate),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Transactions a second from a time after the window's start on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub start_s: f64,
    pub rate: f64,
}

/// The distributions' parameters, named as the --rand-* options; a run uses those of its type.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RandParameters {
    pub spec_iter: u32,
    pub spec_pct: u32,
    pub spec_res: u32,
    pub pareto_h: f64,
    pub zipfian_exp: f64,
    pub zipfian_scramble: bool,
}

impl RandParameters {
    /// Those that a distribution has, in words.
    pub fn of(&self, rand_type: &str) -> Option<String> {
        match rand_type {
            "special" => Some(format!("iter {}, pct {}, res {}", self.spec_iter, self.spec_pct, self.spec_res)),
            "gaussian" => Some(format!("iter {}", self.spec_iter)),
            "pareto" => Some(format!("h {}", self.pareto_h)),
            "zipfian" => {
                let order = if self.zipfian_scramble { "scrambled" } else { "in order" };
                Some(format!("exponent {}, {order}", self.zipfian_exp))
            }
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Profile {
    pub name: String,
    /// Options that the command line set to something else than the profile.
    pub changed: Vec<ProfileChange>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProfileChange {
    pub option: String,
    pub value: String,
    pub profile_value: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkloadOption {
    pub name: String,
    pub value: String,
    /// `default`, `profile` or `command line`.
    pub source: String,
    /// Whether it only says how `prepare` makes tables. The run took them as they were.
    pub of_prepare_only: bool,
}

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Target {
    /// Without the password.
    pub url: String,
    pub version: String,
    pub variables: BTreeMap<String, String>,
    /// Whether a command printed the password.
    pub password_command: bool,
    /// How the connections that are measured were compressed; `None` if they were not.
    pub compression: Option<String>,
    /// Statements that each connection began with, up to what they have in quotes.
    pub init_sql: Vec<String>,
    pub statement_timeout_s: Option<f64>,
}

/// Where the load came from and what it cost there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Client {
    pub host: String,
    pub kernel: String,
    /// Cores that oltpbench may use.
    pub cores: usize,
    pub cpu_s: f64,
    /// Share of those cores, from 0 to 1, that oltpbench used.
    pub process_share: f64,
    /// The same for everything on the machine, and for what the hypervisor took away; `None` where not known, as where
    /// oltpbench may not use all of its cores.
    pub machine_share: Option<f64>,
    pub steal_share: Option<f64>,
}

/// Counts and rates over the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    pub elapsed_s: f64,
    pub tps: f64,
    pub rps: f64,
    pub qps: f64,
    #[serde(flatten)]
    pub counts: Counts,
}

/// Counts over some span of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    pub transactions: u64,
    /// Reads and writes: sysbench 0.5's read/write requests.
    pub read_write_requests: u64,
    /// Reads, writes and others: sysbench 1.0's queries.
    pub queries: u64,
    pub reads: u64,
    pub writes: u64,
    pub other: u64,
    pub retries: u64,
    pub failed_transactions: u64,
    /// Those of them whose error cost the connection, as in an outage or a failover. `max_error_rate` is not about them.
    #[serde(default)]
    pub lost_transactions: u64,
    /// Transactions given up for an error that `ignore_errors` names.
    pub ignored_transactions: u64,
    /// How long failed and ignored transactions took, all together.
    #[serde(default)]
    pub given_up_s: f64,
    /// Statements of attempts that did not commit; not in the counts above.
    pub failed_attempts: FailedAttempts,
    /// Connections that broke or had to be left, and those that were opened again.
    pub lost_connections: u64,
    pub reconnects: u64,
    /// Statements prepared on the way, which are in none of the counts above.
    pub prepares: u64,
    /// Connections that met the server's limit of prepared statements and sent text from then on.
    pub turned_to_text: u64,
    /// Every error of the span, also those that were retried, met by ROLLBACK or by attempts to connect again.
    pub errors: Vec<ErrorEntry>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAttempts {
    pub reads: u64,
    pub writes: u64,
    pub other: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorEntry {
    pub code: i64,
    pub sqlstate: String,
    pub class: String,
    pub statement: String,
    pub count: u64,
    /// The first one's message.
    pub message: String,
}

/// How a schedule was kept: what became of the transactions that were due in the window. `due` is the sum of `done`,
/// `shed`, `drained`, `unfinished` and `not_begun`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Mean rate that was asked for over the window. What a Poisson process makes due varies by about its root.
    pub asked_tps: f64,
    pub due: u64,
    /// Ended in the window, however they did: failed and ignored ones are among them.
    pub done: u64,
    /// Skipped, since they would have begun later than `max_lateness_s` after they were due.
    pub shed: u64,
    /// Begun, and ended after the window.
    pub drained: u64,
    /// Begun, and not ended when the run stopped waiting.
    pub unfinished: u64,
    /// Due and not begun when the window ended.
    pub not_begun: u64,
    /// The most that were due and not begun at once, of about twenty looks a second.
    pub highest_backlog: u64,
    /// Transactions that ended in the window and were due in the warm-up: they are in `totals` and in the service time,
    /// not in the response time.
    pub due_in_warmup: u64,
    /// Transactions due in the warm-up that were skipped, or had not begun when it ended.
    pub dropped_from_warmup: u64,
    /// How late a transaction began though a connection was free and waited for it: the error of the timer.
    pub lateness_us: Latency,
}

/// Response time counts from when a transaction was due, service time from when it was sent; in a closed loop they
/// are the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latencies {
    pub response: Latency,
    pub service: Latency,
    /// Of preparing statements inside the window, which is also part of what their first executions took.
    pub prepare: Latency,
    /// From the error that cost a connection to its next committed transaction, for outages that ended inside the window.
    /// Those that had not ended when the window did are in it too, with their length until then; see `outages.cut_off`.
    pub outage: Latency,
    /// Of opening a connection before the run, TLS, login and --init-sql included.
    pub connect: Latency,
    /// The same of opening one again inside the window, from the beginning of the attempt that succeeded.
    pub reconnect: Latency,
}

/// What `latency_us.outage`, which has one entry for each outage of a connection, does not say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outages {
    /// How many of its entries are outages that lasted to the window's end or longer. `away` are those of their
    /// connections that were not opened again either.
    pub cut_off: u64,
    /// The outages of the run as a whole: from the error that cost the last connection that was left, to the first
    /// transaction that committed afterwards on any, or to the window's end.
    pub all_connections: AllConnections,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllConnections {
    pub count: u64,
    pub longest_s: f64,
    pub total_s: f64,
}

/// A latency distribution in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub mean: f64,
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    /// HdrHistogram V2, deflated, base64; its values are nanoseconds to three digits, while `min`, `max` and `mean` are
    /// exact.
    pub histogram: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Statement {
    pub name: String,
    pub kind: String,
    pub latency_us: Latency,
    /// The same until the first part of a result was there, of those results that took more than one reading of the
    /// connection's buffer, 16 KiB; `None` without such, and on SQLite.
    #[serde(default)]
    pub first_part_us: Option<Latency>,
}

/// One interval.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SeriesEntry {
    pub start_s: f64,
    pub end_s: f64,
    /// Its end by the wall clock, UTC, RFC 3339 with milliseconds.
    pub ended_at: String,
    pub transactions: u64,
    pub tps: f64,
    pub rps: f64,
    pub qps: f64,
    pub retries: u64,
    pub failed_transactions: u64,
    pub reconnects: u64,
    /// All errors of the interval, retried ones included; the err/s of its line leaves out the `retries`.
    pub errors: u64,
    /// Of an open loop: transactions due in the interval, those skipped in it, and those due and not begun when
    /// its line was made.
    pub due: Option<u64>,
    pub shed: Option<u64>,
    pub backlog: Option<u64>,
    /// Age of the oldest transaction in flight when the interval's line was made; `None` where there is none.
    pub oldest_us: Option<f64>,
    /// Response times; `None` where no transaction ended in the interval.
    pub mean_us: Option<f64>,
    pub p50_us: Option<f64>,
    pub p95_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub max_us: Option<f64>,
}

/// Intervals of confidence of the window's figures: how far they can be trusted as figures of this run's server, data and
/// hour. `None` where the run does not tell; docs/accuracy.md says how they are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confidence {
    /// Share of intervals that hold the true value.
    pub level: f64,
    pub method: String,
    /// The equal parts of the window by whose differences the errors are known.
    pub blocks: usize,
    pub block_s: f64,
    pub tps: Option<Bounds>,
    pub rps: Option<Bounds>,
    pub qps: Option<Bounds>,
    /// Of the response times.
    pub latency_us: LatencyBounds,
    /// How long a window would have to be for an interval of `tps`, where there is none.
    pub needs_s: Option<f64>,
    /// How the rate changed inside the window; `None` where it was steady, or the window too short to tell.
    pub unsteady: Option<Unsteady>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyBounds {
    pub mean: Option<Bounds>,
    pub p50: Option<Bounds>,
    pub p90: Option<Bounds>,
    pub p95: Option<Bounds>,
    pub p99: Option<Bounds>,
    pub p999: Option<Bounds>,
}

/// How often a statement read or wrote no row, in the whole run with its warm-up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RowsNotFound {
    pub statement: String,
    pub count: u64,
    /// Out of so many.
    pub sent: u64,
}

/// What the database gave back, held against what was put there; docs/validation.md.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validation {
    /// Statements whose rows were checked in the whole run, and how many rows those were.
    pub reads: u64,
    pub rows: u64,
    /// Statements of which nothing was checked, by name.
    pub unchecked_statements: Vec<String>,
    pub audited_tables: u64,
    pub audited_rows: u64,
    /// Why the audit after the run is not of all tables; `None` where it is.
    pub unaudited: Option<String>,
    /// Whether that is since something ended it, or kept it from beginning, and not since the tables cannot be audited.
    #[serde(default)]
    pub audit_cut_off: bool,
    /// All of them, those of reads being in `errors` with class `validation` too.
    pub differences: u64,
    /// The first ten.
    pub first_differences: Vec<Difference>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    pub place: String,
    pub message: String,
}

/// What the caller knows of a run beside its measurement.
#[derive(Clone, Debug)]
pub struct Setup {
    pub spec: Spec,
    pub target: Target,
    /// What was noticed before the run, such as a protocol that had to be replaced.
    pub findings: Vec<Finding>,
    pub name: Option<String>,
    pub tags: BTreeMap<String, String>,
    pub cell: Option<Cell>,
}

impl Setup {
    /// Of a run by itself, before which nothing was noticed.
    pub fn new(spec: Spec, target: Target) -> Setup {
        Setup { spec, target, findings: Vec::new(), name: None, tags: BTreeMap::new(), cell: None }
    }
}

impl RunReport {
    /// What was counted, and when.
    pub fn spans(&self) -> [(&'static str, &Counts); 3] {
        [("measured", &self.totals.counts), ("warm-up", &self.warmup), ("after the window", &self.drained)]
    }

    /// Why its figures are those of no proper run, if they are.
    pub fn failure(&self) -> Option<String> {
        let (counts, threads) = (&self.totals.counts, self.spec.threads);
        let (rate, most) = (100.0 * counts.error_rate(), 100.0 * self.spec.max_error_rate);
        match self.status {
            Status::Interrupted => Some("interrupted".into()),
            Status::TooManyErrors => {
                Some("the run was stopped: too many transactions failed; see the errors by code".into())
            }
            Status::ServerLost => Some("the run was stopped: the server was away for too long".into()),
            Status::Completed if self.panicked > 0 => Some(format!(
                "a fault of oltpbench itself ended {} of {threads} connections; please report it",
                self.panicked
            )),
            Status::Completed if self.unfinished > 0 => Some(format!(
                "{} of {threads} connections still waited for an answer when the program stopped waiting; the server \
                 hangs or is too slow",
                self.unfinished
            )),
            Status::Completed if counts.transactions == 0 => {
                Some("not one transaction ended inside the measured window".into())
            }
            Status::Completed if self.differences() > 0 => Some(format!(
                "{} between what the database gave and what was put there; see Validation",
                figures::counted(self.differences(), "difference")
            )),
            Status::Completed if self.away > 0 => Some(format!(
                "{} of {threads} connections were lost and did not come back before the end; see the errors by code",
                self.away
            )),
            Status::Completed if rate > most => Some(format!(
                "{rate:.1} % of the measured transactions failed, more than --max-error-rate {most:.1} %; see the \
                 errors by code"
            )),
            Status::Completed if self.audit_cut_off() => {
                Some("the audit of --validate was cut off, so what it did not come to may differ; see Findings".into())
            }
            Status::Completed => None,
        }
    }

    pub fn new(setup: Setup, measurement: &Measurement, status: Status) -> RunReport {
        let response = Latency::new(&measurement.response);
        let mut report = RunReport {
            schema_version: SCHEMA_VERSION,
            oltpbench_version: env!("CARGO_PKG_VERSION").to_string(),
            status,
            started_at: humantime::format_rfc3339_millis(measurement.started_at).to_string(),
            name: setup.name,
            tags: setup.tags,
            cell: setup.cell,
            spec: setup.spec,
            target: setup.target,
            encryption: measurement.encryption.clone(),
            client: Client::new(&measurement.client),
            totals: Totals::new(&measurement.window, measurement.elapsed_s),
            open_loop: OpenLoop::new(measurement),
            warmup: Counts::new(&measurement.warmup),
            drained: Counts::new(&measurement.drained),
            unfinished: measurement.unfinished,
            away: measurement.away,
            panicked: measurement.panicked,
            latency_us: Latencies {
                service: match &measurement.open_loop {
                    Some(open_loop) => Latency::new(&open_loop.service),
                    None => response.clone(),
                },
                response,
                prepare: Latency::new(&measurement.prepares),
                outage: Latency::new(&measurement.outages.each),
                connect: Latency::new(&measurement.connects),
                reconnect: Latency::new(&measurement.reconnects),
            },
            outages: Outages::new(&measurement.outages),
            statements: measurement.statements.iter().map(Statement::new).collect(),
            series: measurement.series.iter().map(SeriesEntry::new).collect(),
            confidence: Confidence::new(&measurement.confidence),
            rows_not_found: measurement.found_nothing.iter().map(RowsNotFound::new).collect(),
            server: measurement.server.as_ref().and_then(Server::new),
            validation: measurement.validation.as_ref().map(Validation::new),
            findings: setup.findings,
        };
        report.findings.extend(findings::find(&report));
        report.findings.extend(findings::unaccounted(&report, measurement.sent));
        // Of a window that never began there is nothing to know.
        if let Some(Counters::Unknown(reason)) = measurement.server.as_ref().filter(|_| measurement.elapsed_s > 0.0) {
            report.findings.push(findings::server_unknown(reason));
        }
        let listed = |finding: &Finding| findings::CODES.contains(&finding.code.as_str());
        debug_assert!(report.findings.iter().all(listed), "{:?}", report.findings);
        report
    }
}

impl RunReport {
    /// As in `--tag`, with semicolons between.
    fn tags_in_words(&self) -> String {
        self.tags.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("; ")
    }

    /// Between what was read and what was put there.
    pub fn differences(&self) -> u64 {
        self.validation.as_ref().map_or(0, |validation| validation.differences)
    }

    pub fn audit_cut_off(&self) -> bool {
        self.validation.as_ref().is_some_and(|validation| validation.audit_cut_off)
    }
}

impl Totals {
    fn new(tally: &Tally, elapsed_s: f64) -> Totals {
        let rate = |count: u64| per_second(count as f64, elapsed_s);
        let counts = Counts::new(tally);
        Totals {
            elapsed_s,
            tps: rate(counts.transactions),
            rps: rate(counts.read_write_requests),
            qps: rate(counts.queries),
            counts,
        }
    }
}

impl OpenLoop {
    fn new(measurement: &Measurement) -> Option<OpenLoop> {
        let open_loop = measurement.open_loop.as_ref()?;
        let (window, drained) = (&measurement.window, &measurement.drained);
        let shed = window.shed + drained.shed;
        let begun = open_loop.due.saturating_sub(open_loop.not_begun + shed);
        Some(OpenLoop {
            asked_tps: per_second(open_loop.mean_due, measurement.elapsed_s),
            due: open_loop.due,
            done: window.due_inside,
            shed,
            drained: drained.due_inside,
            unfinished: begun.saturating_sub(window.due_inside + drained.due_inside),
            not_begun: open_loop.not_begun,
            highest_backlog: open_loop.highest_backlog,
            due_in_warmup: window.ended_transactions().saturating_sub(window.due_inside),
            dropped_from_warmup: open_loop.dropped + measurement.warmup.shed,
            lateness_us: Latency::new(&open_loop.lateness),
        })
    }
}

impl Counts {
    fn new(tally: &Tally) -> Counts {
        let Statements { reads, writes, other } = tally.statements;
        let failed = tally.failed_statements;
        Counts {
            transactions: tally.transactions,
            read_write_requests: tally.statements.read_write_requests(),
            queries: tally.statements.queries(),
            reads,
            writes,
            other,
            retries: tally.retries,
            failed_transactions: tally.failed_transactions,
            lost_transactions: tally.lost_transactions,
            ignored_transactions: tally.ignored_transactions,
            given_up_s: tally.given_up_ns as f64 / 1e9,
            failed_attempts: FailedAttempts { reads: failed.reads, writes: failed.writes, other: failed.other },
            lost_connections: tally.lost_connections,
            reconnects: tally.reconnects,
            prepares: tally.prepares,
            turned_to_text: tally.turned_to_text,
            errors: tally.errors.iter().map(|(key, error)| ErrorEntry::new(key, error)).collect(),
        }
    }

    /// Transactions that ended, however they did.
    fn ended_transactions(&self) -> u64 {
        self.transactions + self.failed_transactions + self.ignored_transactions
    }

    fn error_count(&self) -> u64 {
        self.errors.iter().map(|error| error.count).sum()
    }

    /// Share of transactions that failed for good, from 0 to 1.
    pub fn failure_rate(&self) -> f64 {
        self.failed_transactions as f64 / self.succeeded_and_failed()
    }

    /// The same without those that an outage cost: what `max_error_rate` is about.
    pub fn error_rate(&self) -> f64 {
        self.failed_transactions.saturating_sub(self.lost_transactions) as f64 / self.succeeded_and_failed()
    }

    /// At least 1, to divide by.
    fn succeeded_and_failed(&self) -> f64 {
        (self.transactions + self.failed_transactions).max(1) as f64
    }
}

fn per_second(count: f64, elapsed_s: f64) -> f64 {
    if elapsed_s > 0.0 { count / elapsed_s } else { 0.0 }
}

impl ErrorEntry {
    fn new(key: &ErrorKey, error: &ErrorCount) -> ErrorEntry {
        ErrorEntry {
            code: key.code,
            sqlstate: key.sqlstate.clone(),
            class: key.class.to_string(),
            statement: key.statement.clone(),
            count: error.count,
            message: error.message.clone(),
        }
    }
}

impl Latency {
    pub fn new(histogram: &Histogram) -> Latency {
        Latency {
            count: histogram.len(),
            mean: histogram.mean_us(),
            min: histogram.min_us(),
            p50: histogram.percentile_us(50.0),
            p90: histogram.percentile_us(90.0),
            p95: histogram.percentile_us(95.0),
            p99: histogram.percentile_us(99.0),
            p999: histogram.percentile_us(99.9),
            max: histogram.max_us(),
            histogram: encode(histogram.buckets()),
        }
    }

    /// Any percentile, from the stored histogram; `None` if it cannot be read.
    pub fn percentile(&self, percentile: f64) -> Option<f64> {
        self.buckets().map(|buckets| percentile_us(&buckets, percentile, self.min, self.max))
    }

    /// The stored histogram; `None` if it cannot be read.
    pub fn buckets(&self) -> Option<Buckets> {
        let bytes = STANDARD.decode(&self.histogram).ok()?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
    }
}

fn encode(buckets: &Buckets) -> String {
    let mut bytes = Vec::new();
    // Serialising into memory fails only on a counter above 2^63.
    match V2DeflateSerializer::new().serialize(buckets, &mut bytes) {
        Ok(_) => STANDARD.encode(bytes),
        Err(_) => String::new(),
    }
}

impl Outages {
    fn new(outages: &metrics::Outages) -> Outages {
        let all = outages.all;
        Outages {
            cut_off: outages.cut_off,
            all_connections: AllConnections {
                count: all.count,
                longest_s: all.longest_ns as f64 / 1e9,
                total_s: all.total_ns as f64 / 1e9,
            },
        }
    }
}

impl Statement {
    fn new(statement: &StatementLatency) -> Statement {
        Statement {
            name: statement.name.clone(),
            kind: statement.kind.to_string(),
            latency_us: Latency::new(&statement.latency),
            first_part_us: statement.first_part.as_ref().map(Latency::new),
        }
    }
}

impl SeriesEntry {
    fn new(interval: &Interval) -> SeriesEntry {
        let rate = |count: u64| per_second(count as f64, interval.end_s - interval.start_s);
        let (tally, response) = (&interval.tally, interval.response.as_ref());
        SeriesEntry {
            start_s: interval.start_s,
            end_s: interval.end_s,
            ended_at: humantime::format_rfc3339_millis(interval.ended_at).to_string(),
            transactions: tally.transactions,
            tps: rate(tally.transactions),
            rps: rate(tally.statements.read_write_requests()),
            qps: rate(tally.statements.queries()),
            retries: tally.retries,
            failed_transactions: tally.failed_transactions,
            reconnects: tally.reconnects,
            errors: tally.error_count(),
            due: interval.due,
            shed: interval.due.map(|_| tally.shed),
            backlog: interval.now.backlog,
            oldest_us: interval.now.oldest.map(|oldest| oldest.as_secs_f64() * 1e6),
            mean_us: response.map(|response| response.mean_us),
            p50_us: response.map(|response| response.p50_us),
            p95_us: response.map(|response| response.p95_us),
            p99_us: response.map(|response| response.p99_us),
            max_us: response.map(|response| response.max_us),
        }
    }
}

impl Confidence {
    fn new(measured: &metrics::Confidence) -> Confidence {
        let [p50, p90, p95, p99, p999] = measured.percentiles_us;
        Confidence {
            level: statistics::LEVEL,
            method: statistics::METHOD.into(),
            blocks: measured.blocks,
            block_s: measured.block_s,
            tps: measured.tps,
            rps: measured.rps,
            qps: measured.qps,
            latency_us: LatencyBounds { mean: measured.mean_us, p50, p90, p95, p99, p999 },
            needs_s: measured.needs_s,
            unsteady: measured.unsteady,
        }
    }
}

impl RowsNotFound {
    fn new(counted: &FoundNothing) -> RowsNotFound {
        RowsNotFound { statement: counted.statement.clone(), count: counted.count, sent: counted.sent }
    }
}

impl Validation {
    fn new(found: &metrics::Validation) -> Validation {
        let first = found.first.iter();
        Validation {
            reads: found.reads,
            rows: found.rows,
            unchecked_statements: found.unchecked.clone(),
            audited_tables: found.audited_tables,
            audited_rows: found.audited_rows,
            unaudited: found.unaudited.clone(),
            audit_cut_off: found.audit_cut_off,
            differences: found.differences,
            first_differences: first
                .map(|difference| Difference { place: difference.place.clone(), message: difference.message.clone() })
                .collect(),
        }
    }
}

impl Client {
    fn new(usage: &Usage) -> Client {
        let system = rustix::system::uname();
        Client {
            host: system.nodename().to_string_lossy().into_owned(),
            kernel: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
            cores: usage.cores,
            cpu_s: usage.cpu_s,
            process_share: usage.process_share,
            machine_share: usage.machine_share,
            steal_share: usage.steal_share,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("the report cannot be written to {path} ({source}); give another file")]
    Write { path: PathBuf, source: std::io::Error },
}

/// A JSON file to come. Whether it can be written is tried before a run, so that a wrong path costs no measurement; it
/// is written to the side and appears under its name only once it is whole.
pub struct JsonFile {
    path: PathBuf,
}

impl JsonFile {
    pub fn at(path: &Path) -> Result<JsonFile, ReportError> {
        let mut file = JsonFile { path: path.to_path_buf() };
        if path.is_symlink() && !file.is_direct() {
            // The link stays, and what it leads to is written.
            file.path = path.canonicalize().map_err(|source| file.error(source))?;
        }
        file.try_out().map_err(|source| file.error(source))?;
        Ok(file)
    }

    /// What would fail after the run, as far as it can be known before.
    fn try_out(&self) -> std::io::Result<()> {
        let is_folder = self.path.is_dir() || self.path.as_os_str().as_encoded_bytes().ends_with(b"/");
        if is_folder || self.path.as_os_str().is_empty() {
            return Err(std::io::ErrorKind::IsADirectory.into());
        }
        match std::fs::metadata(&self.path) {
            // A file that may not be overwritten is not replaced either, though its folder may allow it.
            Ok(_) if self.standard_stream().is_none() => access(&self.path, Access::WRITE_OK)?,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            // Such as a name that is too long.
            Err(error) => return Err(error),
        }
        // A pipe is not tried: its reader would take the end of the trial for the end of the report.
        if self.is_direct() { Ok(()) } else { self.open_aside().map(drop) }
    }

    pub fn write(&self, report: &impl Serialize) -> Result<(), ReportError> {
        self.write_by(|file| {
            let mut buffered = std::io::BufWriter::new(file);
            serde_json::to_writer_pretty(&mut buffered, report)?;
            buffered.write_all(b"\n")?;
            buffered.flush()
        })
    }

    pub fn write_text(&self, text: &str) -> Result<(), ReportError> {
        self.write_by(|file| file.write_all(text.as_bytes()))
    }

    fn write_by(&self, write: impl FnOnce(&mut std::fs::File) -> std::io::Result<()>) -> Result<(), ReportError> {
        let written = match self.is_direct() {
            true => self.open_direct().and_then(|mut file| write(&mut file)),
            false => self.open_aside().and_then(|mut file| {
                write(file.as_file_mut())?;
                file.as_file().sync_all()?;
                file.persist(&self.path).map(drop).map_err(|error| error.error)
            }),
        };
        written.map_err(|source| self.error(source))
    }

    /// A device, a pipe, or a standard stream whatever it leads to, must be written to, not replaced. A folder fails when
    /// it is opened.
    fn is_direct(&self) -> bool {
        let is_special = std::fs::metadata(&self.path).is_ok_and(|metadata| !metadata.is_file());
        is_special || self.standard_stream().is_some()
    }

    /// A pipe with a name, which waits for its reader.
    pub fn is_pipe(&self) -> bool {
        let is_pipe = std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.file_type().is_fifo());
        is_pipe && self.standard_stream().is_none()
    }

    fn open_direct(&self) -> std::io::Result<std::fs::File> {
        match self.standard_stream() {
            Some(stream) => Ok(stream),
            None => std::fs::OpenOptions::new().write(true).open(&self.path),
        }
    }

    /// The program's own output that the path leads to, as /dev/stdout does. It shares its position with the text there,
    /// which opening the file behind it once more would not.
    fn standard_stream(&self) -> Option<std::fs::File> {
        let path = std::fs::metadata(&self.path).ok()?;
        let streams = [std::io::stdout().as_fd().try_clone_to_owned(), std::io::stderr().as_fd().try_clone_to_owned()];
        let mut files = streams.into_iter().flatten().map(std::fs::File::from);
        files.find(|file| file.metadata().is_ok_and(|file| (file.dev(), file.ino()) == (path.dev(), path.ino())))
    }

    fn open_aside(&self) -> std::io::Result<tempfile::NamedTempFile> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        builder.prefix(".oltpbench-").suffix(".tmp").permissions(permissions()).tempfile_in(folder)
    }

    fn error(&self, source: std::io::Error) -> ReportError {
        ReportError::Write { path: self.path.clone(), source }
    }
}

/// A report is an ordinary file, unlike a temporary one, which only its owner may read.
fn permissions() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_histogram_gives_the_percentiles_back() {
        let mut recorded = Histogram::default();
        (1..=1000).for_each(|value_us| recorded.record(value_us * 1000));
        let latency = Latency::new(&recorded);
        assert_eq!(latency.count, 1000);
        for (percentile, expected) in [(50.0, 500.0), (95.0, 950.0), (99.0, 990.0), (100.0, 1000.0)] {
            let found = latency.percentile(percentile).unwrap();
            assert!((found - expected).abs() <= expected * 0.001, "{percentile}: {found}");
        }
        assert_eq!(latency.percentile(100.0), Some(latency.max));
        assert_eq!(Latency { histogram: "damaged".into(), ..latency }.percentile(50.0), None);
    }

    #[test]
    fn no_percentile_lies_outside_of_what_was_recorded() {
        // Odd and large, so that the edges of their buckets lie elsewhere.
        for recorded_ns in [1_234_567, 12_345_678_901, 3_599_999_999_999] {
            let mut recorded = Histogram::default();
            recorded.record(recorded_ns);
            let latency = Latency::new(&recorded);
            let exact = recorded_ns as f64 / 1e3;
            assert_eq!([latency.min, latency.mean, latency.p50, latency.p999, latency.max], [exact; 5]);
            assert_eq!(latency.percentile(1.0), Some(exact));
        }
        assert_eq!(Latency::new(&Histogram::default()).min, 0.0);
    }

    #[test]
    fn a_json_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        JsonFile::at(&path).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let too_long = "x".repeat(256);
        for wrong in ["missing/run.json", "", "run/", &too_long] {
            assert!(JsonFile::at(&folder.path().join(wrong)).is_err(), "{wrong}");
        }
        assert!(JsonFile::at(Path::new("")).is_err());
    }
}
