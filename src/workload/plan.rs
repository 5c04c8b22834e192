//! The compiled plan: what one transaction does, ready to be played without parsing or allocating.
//!
//! A plan is made once from a workload file and the run's settings, then shared by all workers. A worker plays it
//! with [`Plan::play`], which draws arguments into the worker's own [`Scratch`] and hands each statement to a
//! [`Player`] (the engine's session). The same [`Operation`] always gives the same statements with the same
//! arguments, which is what makes a retry repeat itself and a run reproducible.
//!
//! Must not import: anything but the rest of `workload`.

use std::sync::Arc;

/// What a statement does, by what the workload file says it is and never by what it happened to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Read,
    Write,
    Other,
}

/// The identity of one transaction; all its random draws are a function of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The run's seed.
    pub seed: u64,
    /// Number of this transaction in the run, from 0, over all workers.
    pub ticket: u64,
    /// Number of the worker, from 0.
    pub worker: u32,
    /// Number of this transaction among the worker's own, from 0.
    pub worker_ticket: u64,
}

/// One argument of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument<'a> {
    Int(i64),
    Text(&'a str),
}

/// The arguments of one call, in the order of the statement's placeholders. They live in the worker's [`Scratch`].
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    values: &'a [Value],
    text: &'a str,
}

/// One statement to be sent.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Index into [`Plan::statements`].
    pub statement: usize,
    /// Which table of the statement's set, from 1; 1 where the statement has no set.
    pub table: u32,
    pub arguments: Arguments<'a>,
}

/// Receives what a plan does; the engine's session is one.
pub trait Player {
    type Fault;
    /// Opens a transaction; `writes` says whether any of its statements is a write.
    fn begin(&mut self, writes: bool) -> Result<(), Self::Fault>;
    fn execute(&mut self, call: Call<'_>) -> Result<(), Self::Fault>;
    fn commit(&mut self) -> Result<(), Self::Fault>;
}

/// A compiled workload.
#[derive(Debug)]
pub struct Plan {
    pub workload: String,
    pub tables: Vec<TableSet>,
    pub statements: Vec<Statement>,
    pub transaction: Transaction,
    /// Whether the workload itself adds or removes rows for good, so that a table's size is no error.
    pub resizes_tables: bool,
}

/// A statement and its text for every table of its set.
#[derive(Debug)]
pub struct Statement {
    pub name: String,
    pub kind: Kind,
    /// Text with `?` placeholders; index is table number - 1.
    pub sql: Vec<Arc<str>>,
    /// False for statements that are always sent as text (as sysbench does for oltp_insert and bulk_insert).
    pub prepared: bool,
    /// Number of `?` placeholders.
    pub parameters: usize,
}
