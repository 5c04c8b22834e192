//! What was measured: counters, latency histograms and the series of intervals.
//!
//! * [`recorder`]: where workers put their samples, and where the engine takes finished intervals from.
//! * [`histogram`]: latencies and their percentiles.
//! * [`outages`]: how long connections were without a transaction.
//! * [`series`]: those intervals in order, and their sums.
//! * [`blocks`]: the window cut in another way, for what follows.
//! * [`statistics`]: how far the figures can be trusted, and whether the run was steady.
//! * [`client`]: what this machine and this process used meanwhile.
//! * [`server`]: what the server's own counters rose by.
//!
//! Times are nanoseconds since the run's origin.
//! A leaf: must not import any other module of the crate, so that no way of measuring knows what is measured.

pub mod blocks;
pub mod client;
pub mod histogram;
pub mod outages;
pub mod recorder;
pub mod series;
pub mod server;
pub mod statistics;

use std::collections::BTreeMap;
use std::time::SystemTime;

pub use histogram::Histogram;
pub use outages::Outages;
pub use recorder::{Connection, Outcome, Paced, Recorder, Sample, Shards, Window};
pub use series::{Interval, Now, Series};
pub use statistics::{Bounds, Confidence, Unsteady};

/// Statements sent, by what the workload says they are. BEGIN, COMMIT and ROLLBACK are `other`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statements {
    pub reads: u64,
    pub writes: u64,
    pub other: u64,
}

impl Statements {
    /// sysbench 0.5's "read/write requests", the unit of most published figures.
    pub fn read_write_requests(self) -> u64 {
        self.reads + self.writes
    }

    /// sysbench 1.0's "queries".
    pub fn queries(self) -> u64 {
        self.reads + self.writes + self.other
    }
}

impl std::ops::AddAssign for Statements {
    fn add_assign(&mut self, more: Statements) {
        self.reads += more.reads;
        self.writes += more.writes;
        self.other += more.other;
    }
}

/// What one kind of error is counted under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorKey {
    /// The server's code; 0 where there is none, as for a connection that broke.
    pub code: i64,
    pub sqlstate: String,
    /// What it means for the run: retry, connection lost, failed and so on.
    pub class: &'static str,
    /// The statement that met it.
    pub statement: String,
}

/// How often one kind of error came, and what its first message said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorCount {
    pub count: u64,
    pub message: String,
}

/// Counts over some span of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Transactions that committed.
    pub transactions: u64,
    /// Statements of the attempts that committed.
    pub statements: Statements,
    /// Statements of the attempts that did not, ROLLBACK included.
    pub failed_statements: Statements,
    /// Attempts repeated after a deadlock, a lock timeout or the like.
    pub retries: u64,
    /// Transactions given up.
    pub failed_transactions: u64,
    /// Those of them whose error cost the connection.
    pub lost_transactions: u64,
    /// Those given up for an error that is no failure.
    pub ignored_transactions: u64,
    /// How long these two took, all together.
    pub given_up_ns: u64,
    /// Connections that broke or had to be left, and those that were opened again.
    pub lost_connections: u64,
    pub reconnects: u64,
    /// Statements prepared on the way; in no count of statements.
    pub prepares: u64,
    /// Connections that met the server's limit of prepared statements and sent text from then on.
    pub turned_to_text: u64,
    pub errors: BTreeMap<ErrorKey, ErrorCount>,
    /// Transactions of an open loop that ended here, however they did, and were due in the window.
    pub due_inside: u64,
    /// Transactions of an open loop that were skipped, since they would have begun too late.
    pub shed: u64,
}

impl Tally {
    pub fn merge(&mut self, more: &Tally) {
        self.transactions += more.transactions;
        self.statements += more.statements;
        self.failed_statements += more.failed_statements;
        self.retries += more.retries;
        self.failed_transactions += more.failed_transactions;
        self.lost_transactions += more.lost_transactions;
        self.ignored_transactions += more.ignored_transactions;
        self.given_up_ns += more.given_up_ns;
        self.lost_connections += more.lost_connections;
        self.reconnects += more.reconnects;
        self.prepares += more.prepares;
        self.turned_to_text += more.turned_to_text;
        self.due_inside += more.due_inside;
        self.shed += more.shed;
        for (key, error) in &more.errors {
            self.add_error(key, error.count, &error.message);
        }
    }

    fn add_error(&mut self, key: &ErrorKey, count: u64, message: &str) {
        match self.errors.get_mut(key) {
            Some(known) => known.count += count,
            None => {
                self.errors.insert(key.clone(), ErrorCount { count, message: message.into() });
            }
        }
    }

    /// Transactions that ended, however they did.
    pub fn ended_transactions(&self) -> u64 {
        self.transactions + self.failed_transactions + self.ignored_transactions
    }

    /// Errors of every kind, retried ones included.
    pub fn error_count(&self) -> u64 {
        self.errors.values().map(|error| error.count).sum()
    }
}

/// Latency of one kind of statement over the window.
#[derive(Clone, Debug)]
pub struct StatementLatency {
    pub name: String,
    pub kind: &'static str,
    pub latency: Histogram,
    /// Until the first part of a result was there, of results that came in several.
    pub first_part: Option<Histogram>,
}

/// What an open loop measures beside.
#[derive(Clone, Debug)]
pub struct OpenLoop {
    /// How many transactions the rates mean for the window.
    pub mean_due: f64,
    /// How many were due in it.
    pub due: u64,
    /// Those of them that no connection had begun when it ended.
    pub not_begun: u64,
    /// The most that were due and not begun, of the looks that were taken.
    pub highest_backlog: u64,
    /// Those due in the warm-up that had not begun when it ended, and were dropped.
    pub dropped: u64,
    /// From the begin of a transaction to its end.
    pub service: Histogram,
    /// From when a transaction was due to its begin, where a connection had waited for it.
    pub lateness: Histogram,
}

/// How often a statement read or wrote no row, in the whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundNothing {
    pub statement: String,
    pub count: u64,
    pub sent: u64,
}

/// What was found by looking at what the database gave back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// Statements whose rows were checked, and those rows.
    pub reads: u64,
    pub rows: u64,
    /// Statements that were not checked, by name.
    pub unchecked: Vec<String>,
    /// What was read after the run.
    pub audited_tables: u64,
    pub audited_rows: u64,
    /// Why not all tables were read then.
    pub unaudited: Option<String>,
    /// Whether that is because the reading began or went on no more, and not because of what the tables are.
    pub audit_cut_off: bool,
    pub differences: u64,
    /// The first of them.
    pub first: Vec<Difference>,
}

/// One difference between what is there and what was put there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The table, and whether it was met after the run.
    pub place: String,
    pub message: String,
}

/// Everything one run measured.
#[derive(Clone, Debug)]
pub struct Measurement {
    pub started_at: SystemTime,
    /// Length of the window.
    pub elapsed_s: f64,
    /// Counts of transactions that ended inside the window.
    pub window: Tally,
    /// Those that ended during warm-up, and those in flight when the window closed. Never part of a rate; with
    /// `window` they add up to all that the server saw.
    pub warmup: Tally,
    pub drained: Tally,
    /// Statements of all kinds that were sent in the whole run, as the workers counted them.
    pub sent: u64,
    /// Those that found no row.
    pub found_nothing: Vec<FoundNothing>,
    /// Connections whose transaction had not ended when the program stopped waiting.
    pub unfinished: u32,
    /// Connections that were lost and not back when the run was over.
    pub away: u32,
    /// Connections whose thread ended by a fault of this program.
    pub panicked: u32,
    pub response: Histogram,
    /// `None` for a closed loop.
    pub open_loop: Option<OpenLoop>,
    pub statements: Vec<StatementLatency>,
    /// What it took to prepare statements inside the window; a part of what their first executions took.
    pub prepares: Histogram,
    pub outages: Outages,
    /// What it took to open each connection before the run, and to open one again inside the window.
    pub connects: Histogram,
    pub reconnects: Histogram,
    /// Version and cipher of TLS; `None` for connections without it.
    pub encryption: Option<String>,
    pub series: Vec<Interval>,
    pub confidence: Confidence,
    pub client: client::Usage,
    /// `None` for a target without counters.
    pub server: Option<server::Counters>,
    /// `None` for a run that was not asked to look.
    pub validation: Option<Validation>,
}
