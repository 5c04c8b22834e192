//! Runs things: the measurement, and what prepares and removes its data.
//!
//! * [`grid`]: which runs an experiment has, and in what order.
//! * [`run`]: one measurement, from connecting to draining.
//! * [`worker`]: the loop of one connection.
//! * [`schedule`]: when a transaction is due, and which one is next.
//! * [`sent`]: what each worker has sent so far.
//! * [`counters`]: the server's own counters over the window.
//! * [`digests`]: which statements kept the server busy.
//! * [`descriptors`]: the limit of open files.
//! * [`load`]: prepare, prewarm, cleanup.
//! * [`tables`]: a plan's tables as they are in a database, and whether they suit a run.
//! * [`check`]: what would go wrong with a run.
//! * [`validate`]: whether what is read is what was written.
//!
//! Imports `target`, `workload`, `metrics` and `spec`. Must not import: `report`, `cli`; it prints nothing, but tells
//! an [`Observer`].

pub mod check;
mod counters;
mod descriptors;
mod digests;
pub mod grid;
pub mod load;
pub mod run;
mod schedule;
mod sent;
mod tables;
pub mod validate;
mod worker;

use std::time::Duration;

use crate::metrics::{Histogram, Interval};
use crate::spec::RunSpec;
use crate::target::check::{Check, Level};
use crate::target::{Fault, FaultClass};

/// Hears what happens while it happens.
pub trait Observer {
    fn connecting(&mut self, _connected: u32, _threads: u32) {}
    /// All are connected and the run begins.
    fn started(&mut self, _spec: &RunSpec) {}
    /// An interval is over; with its response times.
    fn interval(&mut self, _interval: &Interval, _response: &Histogram) {}
    /// The window is over, and `running` connections are waited for, at most for the time `left`; an interruption ends the
    /// waiting.
    fn draining(&mut self, _running: u32, _left: Duration) {}
    /// A step of loading goes on: `done` of `total` units, which `unit` names.
    fn progress(&mut self, _step: &str, _done: u64, _total: u64, _unit: &str) {}
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("{0}")]
    Refused(Check),
    #[error("{connected} of {threads} connections were open when one failed: {fault}")]
    Connect { connected: u32, threads: u32, fault: Fault },
    #[error(
        "thread {number} could not be started ({source}); use fewer --threads, or raise `ulimit -u` or the service's limit of tasks"
    )]
    Thread { number: u32, source: std::io::Error },
    #[error("a worker thread ended before the run began; please report this")]
    WorkerDied,
    #[error("interrupted before the measurement began")]
    InterruptedEarly,
    /// `left` says what that leaves behind.
    #[error("interrupted while {step}; {left}")]
    Interrupted { step: String, left: &'static str },
    #[error("{what}: {fault}")]
    Statement { what: String, fault: Fault },
    /// `left` says what an error leaves behind.
    #[error("{error}; {left}")]
    Leaving { error: Box<EngineError>, left: &'static str },
    #[error("{0}")]
    Fault(Fault),
    #[error("{0}")]
    Tables(String),
}

/// Ends with what would make a run fail, or its figures mean nothing.
fn refuse(checks: impl IntoIterator<Item = Check>) -> Result<(), EngineError> {
    let fatal = checks.into_iter().find(|check| check.level == Level::Fatal);
    fatal.map_or(Ok(()), |check| Err(EngineError::Refused(check)))
}

/// What an interruption leaves behind that changes nothing.
const UNCHANGED: &str = "nothing was changed";

impl EngineError {
    /// A control connection's error while it did `what`.
    fn while_doing(what: String, fault: Fault) -> EngineError {
        match fault.class {
            FaultClass::Interrupted => EngineError::Interrupted { step: what, left: UNCHANGED },
            _ => EngineError::Statement { what, fault },
        }
    }
}

impl From<Fault> for EngineError {
    fn from(fault: Fault) -> EngineError {
        match fault.class {
            FaultClass::Interrupted => EngineError::Interrupted { step: "connecting".into(), left: UNCHANGED },
            _ => EngineError::Fault(fault),
        }
    }
}
