//! What is measured: MySQL and MariaDB, SQLite, or a simulation.
//!
//! A [`Target`] opens [`Session`]s, one for each worker, which play a plan's statements; dispatch is static, so that a
//! worker's loop is compiled for its target. Schema, loading and server facts go over a [`Control`] connection, which
//! nobody measures.
//!
//! * [`mysql`]: MySQL and MariaDB over TCP or a Unix socket.
//! * [`sqlite`]: an embedded SQLite file.
//! * [`simulated`]: known service times without I/O, the oracle of the engine's tests.
//! * [`bulk`]: rows in bulk, for loading.
//! * [`check`]: what a check before a run says.
//! * [`schema`]: the DDL and INSERT text of a plan's tables, in the target's dialect.
//!
//! Imports `workload` and `spec`. Must not import: `metrics`, `engine`, `report`, `cli`.

pub mod bulk;
pub mod check;
pub mod mysql;
pub mod schema;
pub mod simulated;
pub mod sqlite;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::workload::plan::{Argument, Arguments, Call, Plan};

use bulk::{Bulk, Loader};
use check::{Check, Demand};
pub use schema::Dialect;

/// What an error means for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultClass {
    /// The transaction lost a conflict and may be repeated: a deadlock, a lock timeout, a busy database.
    Retry,
    /// The session is of no more use.
    ConnectionLost,
    /// The server takes no writes (any more): the session belongs to another one, which its name may lead to by now.
    Failover,
    /// The server has no more of what is limited: connections, statements.
    Overload,
    /// A key exists already.
    Duplicate,
    /// The server gave up a statement that took too long, or somebody ended it.
    Timeout,
    /// Anything else: the transaction failed; the session goes on.
    Failed,
    /// The user stopped the program while a control connection waited.
    Interrupted,
}

impl FaultClass {
    pub fn name(self) -> &'static str {
        match self {
            FaultClass::Retry => "retry",
            FaultClass::ConnectionLost => "connection lost",
            FaultClass::Failover => "failover",
            FaultClass::Overload => "overload",
            FaultClass::Duplicate => "duplicate",
            FaultClass::Timeout => "timeout",
            FaultClass::Failed => "failed",
            FaultClass::Interrupted => "interrupted",
        }
    }

    /// Whether the session has to be replaced by a new one.
    pub fn ends_session(self) -> bool {
        matches!(self, FaultClass::ConnectionLost | FaultClass::Failover)
    }

    /// Whether the server may have refused the statement before it counted it, and kept the session. What conflicts, takes
    /// too long or exists already was executed.
    pub fn may_be_uncounted(self) -> bool {
        matches!(self, FaultClass::Overload | FaultClass::Failed)
    }
}

/// An error of a target, already classified.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub class: FaultClass,
    /// The server's code; 0 where there is none, as for a connection that broke.
    pub code: i64,
    /// Empty where there is none.
    pub sqlstate: String,
    pub message: String,
}

/// The values of a row as text; NULL is `None`.
pub type Row<'a> = &'a [Option<&'a [u8]>];

/// A connection that plays statements for one worker. It is opened, used and closed on the worker's own thread.
pub trait Session {
    /// `writes` says whether a statement of the transaction will write.
    fn begin(&mut self, writes: bool) -> Result<(), Fault>;
    /// Sends one statement and reads its result to the end. Gives how many rows it read or wrote, where that is known: of
    /// an UPDATE those that it found, even if they had the new values already.
    fn execute(&mut self, call: Call<'_>) -> Result<Option<u64>, Fault>;
    /// The same with each row that is read shown to `show`, which costs more. A session without rows shows none.
    fn execute_showing(&mut self, call: Call<'_>, _show: &mut dyn FnMut(Row<'_>)) -> Result<Option<u64>, Fault> {
        self.execute(call)
    }
    fn commit(&mut self) -> Result<(), Fault>;
    fn rollback(&mut self) -> Result<(), Fault>;
    /// Version and cipher of TLS; `None` without it.
    fn encryption(&self) -> Option<String> {
        None
    }
    /// When the first part of the last statement's result was there; `None` if it came as a whole, or where that is not
    /// known.
    fn first_part(&mut self) -> Option<Instant> {
        None
    }
    /// Moves what was prepared since the last call into `prepares`; nothing for a session that does not tell.
    fn take_prepares(&mut self, _prepares: &mut Prepares) {}
}

/// Statements that a session prepared beside playing them. Their time is also part of the play's.
#[derive(Debug, Default)]
pub struct Prepares {
    pub took_ns: Vec<u64>,
    /// Whether the server's limit of prepared statements was met, from which on the session sends text.
    pub refused: bool,
}

impl Prepares {
    pub fn is_empty(&self) -> bool {
        self.took_ns.is_empty() && !self.refused
    }

    pub fn clear(&mut self) {
        self.took_ns.clear();
        self.refused = false;
    }
}

/// A connection for schema, loading, checks and facts.
pub trait Control {
    /// Runs one statement and gives the number of rows it changed.
    fn run(&mut self, sql: &str) -> Result<u64, Fault>;
    /// Runs one query and gives its rows as text, NULL as `None`.
    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Fault>;
    /// What the report says of the server.
    fn facts(&mut self) -> Result<Facts, Fault>;
    /// What the server has counted since its start. It is asked by one statement, since that is counted, too.
    fn counters(&mut self) -> Result<Counts, Fault>;
    /// How those count statements; `None` if they do not.
    fn counting(&self) -> Option<&'static Counting> {
        None
    }
    /// What the server keeps of each shape of statement in this database.
    fn digests(&mut self) -> Result<Vec<Digest>, Fault> {
        Ok(Vec::new())
    }
    /// What would go wrong with a run of this demand where [`Control::facts`] are `facts`; whether its tables are there
    /// and hold what they must is not looked at.
    fn check(&mut self, facts: &Facts, demand: &Demand<'_>) -> Result<Vec<Check>, Fault>;
    /// Those of them that a run is refused for, by its facts alone.
    fn refusals(&self, _facts: &Facts, _plan: &Plan) -> Vec<Check> {
        Vec::new()
    }
    /// The largest statement the server takes, in bytes.
    fn max_statement_bytes(&mut self) -> Result<usize, Fault>;
}

/// A server's counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Whole seconds since its start, if it tells.
    pub uptime_s: Option<u64>,
    /// Those that only rise, by the server's names.
    pub counters: BTreeMap<String, u64>,
}

/// How a server's counters count the statements of its clients.
pub struct Counting {
    /// The counter of a statement of this text, if it has one that counts nothing else.
    pub of: fn(&str) -> Option<&'static str>,
    /// The counter of all statements.
    pub all: &'static str,
    /// The counter of executions that had to begin anew, and were counted twice by their kind.
    pub again: &'static str,
    /// Those that tell how the server does while it works.
    pub series: &'static [&'static str],
}

/// What a server counted of statements that differ in their literals alone, since it was last told to forget.
#[derive(Clone, Debug)]
pub struct Digest {
    /// The server's name for them.
    pub id: String,
    pub text: String,
    pub count: u64,
    pub total_ps: u64,
    pub longest_ps: u64,
    pub rows_examined: u64,
}

/// A database that can be prepared and cleaned up.
pub trait Database: Sync {
    fn dialect(&self) -> Dialect;
    /// Once `interrupted` is set, whatever the connection waits for ends with [`FaultClass::Interrupted`]; a statement on
    /// a large table may take hours, so nothing else but the answer ends it.
    fn control<'a>(&self, interrupted: &'a AtomicBool) -> Result<Box<dyn Control + 'a>, Fault>;
    /// The same for questions that a server answers at once unless it hangs or somebody has locked what they are about: it
    /// is lost where that takes as long as a session may take to connect.
    fn prompt_control<'a>(&self, interrupted: &'a AtomicBool) -> Result<Box<dyn Control + 'a>, Fault> {
        self.control(interrupted)
    }
    /// How rows are best loaded into the plan's tables, which are there.
    fn bulk(&self, interrupted: &AtomicBool) -> Result<Bulk, Fault>;
    /// A connection that loads rows so, and waits as [`Database::control`]'s does.
    fn loader<'a>(&self, bulk: Bulk, interrupted: &'a AtomicBool) -> Result<Box<dyn Loader + 'a>, Fault>;
    /// How many connections may load at once to any use, at most `wanted`.
    fn loaders(&self, wanted: u32) -> u32;
    /// File descriptors one control connection needs; a loader needs no more.
    fn descriptors_per_control(&self) -> u64;
}

/// Something whose sessions can be measured.
pub trait Target: Send + Sync + 'static {
    type Session: Session;
    fn connect(&self) -> Result<Self::Session, Fault>;
    /// File descriptors one session needs.
    fn descriptors_per_session(&self) -> u64;
}

/// What the report says of the server.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Product and version, such as `MariaDB 10.11.14`.
    pub version: String,
    /// Settings that change results, by name.
    pub variables: Vec<(String, String)>,
    /// Version and cipher of TLS on the connection that asked; `None` without it.
    pub encryption: Option<String>,
}

impl Facts {
    /// A setting's value, if the server has it.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// How a session reads literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Literals {
    MySql,
    /// With the SQL mode NO_BACKSLASH_ESCAPES.
    MySqlNoBackslashEscapes,
    Sqlite,
}

impl Literals {
    /// Those of a session in its dialect's usual mode.
    pub(crate) fn of(dialect: Dialect) -> Literals {
        match dialect {
            Dialect::MySql => Literals::MySql,
            Dialect::Sqlite => Literals::Sqlite,
        }
    }
}

/// What literals are appended to: text, or a packet that holds text.
pub(crate) trait Text {
    fn push_str(&mut self, text: &str);
}

impl Text for String {
    fn push_str(&mut self, text: &str) {
        self.push_str(text);
    }
}

impl Text for Vec<u8> {
    fn push_str(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }
}

/// Where `sql` has its `?` placeholders. A `?` inside quotes is none.
fn placeholders(sql: &str) -> impl Iterator<Item = usize> {
    let mut quote = None;
    let is_placeholder = move |&(_, byte): &(usize, u8)| {
        match (quote, byte) {
            (None, b'?') => return true,
            (None, b'\'' | b'"' | b'`') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
        false
    };
    sql.bytes().enumerate().filter(is_placeholder).map(|(at, _)| at)
}

/// Appends `sql` with literals in place of its placeholders, for statements that are sent as text.
fn render_text(
    sql: &str,
    placeholders: impl Iterator<Item = usize>,
    arguments: Arguments<'_>,
    literals: Literals,
    text: &mut impl Text,
) {
    let mut done = 0;
    for (at, value) in placeholders.zip(arguments.iter()) {
        text.push_str(&sql[done..at]);
        render_literal(value, literals, text);
        done = at + 1;
    }
    text.push_str(&sql[done..]);
}

/// Appends a value as an SQL literal.
pub(crate) fn render_literal(value: Argument<'_>, literals: Literals, text: &mut impl Text) {
    match value {
        Argument::Int(number) => text.push_str(itoa::Buffer::new().format(number)),
        // 0 asks MySQL for the next value, and is what sysbench sends.
        Argument::Auto => text.push_str(if literals == Literals::Sqlite { "NULL" } else { "0" }),
        Argument::Text(value) => {
            text.push_str("'");
            push_escaped(value, text, |byte| match byte {
                b'\'' => Some("''"),
                b'\\' if literals == Literals::MySql => Some("\\\\"),
                _ => None,
            });
            text.push_str("'");
        }
    }
}

/// Appends a value with other text in place of those bytes, all of them ASCII, that `escape` gives one for.
fn push_escaped(value: &str, text: &mut impl Text, escape: impl Fn(u8) -> Option<&'static str>) {
    let mut done = 0;
    for (at, byte) in value.bytes().enumerate() {
        if let Some(escaped) = escape(byte) {
            text.push_str(&value[done..at]);
            text.push_str(escaped);
            done = at + 1;
        }
    }
    text.push_str(&value[done..]);
}

fn interruption() -> Fault {
    Fault {
        class: FaultClass::Interrupted,
        code: 0,
        sqlstate: String::new(),
        message: "interrupted while waiting for an answer".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::plan::Value;

    #[test]
    fn placeholders_become_literals_and_quoted_question_marks_stay() {
        let values = [Value::Int(-7), Value::Text { start: 0, end: 5 }];
        let arguments = Arguments::of(&values, "a'b\\c");
        let mut text = String::new();
        let sql = "UPDATE `t?` SET c='?' WHERE id=? AND c=?";
        render_text(sql, placeholders(sql), arguments, Literals::MySql, &mut text);
        assert_eq!(text, "UPDATE `t?` SET c='?' WHERE id=-7 AND c='a''b\\\\c'");
        let mut packet = b"> ".to_vec();
        render_text("SELECT ?, ?", placeholders("SELECT ?, ?"), arguments, Literals::Sqlite, &mut packet);
        assert_eq!(packet, b"> SELECT -7, 'a''b\\c'");
        packet.clear();
        render_literal(Argument::Text("a'b\\c"), Literals::MySqlNoBackslashEscapes, &mut packet);
        assert_eq!(packet, b"'a''b\\c'");
    }
}
