//! An embedded SQLite file: what a newcomer measures before owning a server.
//!
//! Opened in WAL mode, so that readers and the one writer do not wait for each other, with synchronous = NORMAL (a
//! commit does not wait for the disk) and a busy timeout; a writing transaction starts with BEGIN IMMEDIATE, since
//! a lock that is upgraded later fails at once instead of waiting. Its figures say nothing of a server's.
//!
//! Must not import: `metrics`, `engine`, `report`, `cli`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::query::Query;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteRow, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions, Row, Sqlite};
use tokio::runtime::Runtime;

use super::bulk::{Bulk, Loader};
use super::check::{Check, Demand, size};
use super::{
    Control, Counts, Database, Dialect, Facts, Fault, FaultClass, Literals, Session, Target, interruption,
    placeholders, render_text,
};
use crate::spec::Protocol;
use crate::workload::plan::{Argument, Call, Kind, Plan, TableSet};

/// How long a statement waits for the writer's lock before it counts as busy.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// SQLite's SQLITE_MAX_SQL_LENGTH as it is built by default.
const MAX_SQL_LENGTH: usize = 1_000_000;
/// How often a control connection that waits looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

pub struct SqliteTarget {
    path: PathBuf,
    plan: Arc<Plan>,
    protocol: Protocol,
    create: bool,
}

impl SqliteTarget {
    /// `create` says whether a file that is not there is made; a run must not make an empty one.
    pub fn new(path: PathBuf, plan: Arc<Plan>, protocol: Protocol, create: bool) -> SqliteTarget {
        SqliteTarget { path, plan, protocol, create }
    }

    fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new()
            .filename(&self.path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(false)
            .statement_cache_capacity(self.plan.instances() + 8)
            .disable_statement_logging()
    }

    fn open(&self, options: SqliteConnectOptions) -> Result<(Runtime, SqliteConnection), Fault> {
        let runtime = session_runtime()?;
        let connection = runtime.block_on(options.connect()).map_err(|error| self.open_fault(error))?;
        Ok((runtime, connection))
    }

    fn control_connection<'a>(&self, interrupted: &'a AtomicBool) -> Result<SqliteControl<'a>, Fault> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.exists()) {
            return Err(Fault {
                class: FaultClass::Failed,
                code: 14,
                sqlstate: String::new(),
                message: format!("there is no folder {} for the SQLite file; make it first", folder.display()),
            });
        }
        let (runtime, connection) = self.open(self.options().create_if_missing(self.create))?;
        Ok(SqliteControl { connection, runtime, interrupted })
    }

    fn open_fault(&self, error: sqlx::Error) -> Fault {
        let mut fault = fault(error);
        fault.message = match fault.code & 0xff {
            14 if !self.path.exists() && !self.create => {
                format!("there is no SQLite file {}; make it with `oltpbench prepare`", self.path.display())
            }
            8 | 14 => format!(
                "the SQLite file {} cannot be opened: {}; this user must be able to write it and its folder",
                self.path.display(),
                fault.message
            ),
            26 => format!("{} is not an SQLite database; give another file", self.path.display()),
            _ => format!("the SQLite file {} cannot be opened: {}", self.path.display(), fault.message),
        };
        fault
    }
}

impl Target for SqliteTarget {
    type Session = SqliteSession;

    fn connect(&self) -> Result<SqliteSession, Fault> {
        let (runtime, connection) = self.open(self.options())?;
        let plan = Arc::clone(&self.plan);
        Ok(SqliteSession { connection, runtime, plan, protocol: self.protocol, text: String::new() })
    }

    /// The database, its write-ahead log and shared memory, and the event loop's own.
    fn descriptors_per_session(&self) -> u64 {
        8
    }
}

impl Database for SqliteTarget {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn control<'a>(&self, interrupted: &'a AtomicBool) -> Result<Box<dyn Control + 'a>, Fault> {
        Ok(Box::new(self.control_connection(interrupted)?))
    }

    fn bulk(&self, _interrupted: &AtomicBool) -> Result<Bulk, Fault> {
        Ok(Bulk::Insert)
    }

    fn loader<'a>(&self, _bulk: Bulk, interrupted: &'a AtomicBool) -> Result<Box<dyn Loader + 'a>, Fault> {
        Ok(Box::new(self.control_connection(interrupted)?))
    }

    /// SQLite has one writer at a time; more connections would only wait for each other.
    fn loaders(&self, _wanted: u32) -> u32 {
        1
    }

    fn descriptors_per_control(&self) -> u64 {
        self.descriptors_per_session()
    }
}

pub struct SqliteSession {
    connection: SqliteConnection,
    runtime: Runtime,
    plan: Arc<Plan>,
    protocol: Protocol,
    /// The statement being sent, where it is sent as text.
    text: String,
}

impl SqliteSession {
    /// Writes the call's text, if it is to be sent as one.
    fn sends_text(&mut self, call: &Call<'_>) -> bool {
        if self.protocol == Protocol::Prepared && self.plan.statements[call.statement].prepared {
            return false;
        }
        let sql = self.plan.sql(call);
        self.text.clear();
        render_text(sql, placeholders(sql), call.arguments, Literals::Sqlite, &mut self.text);
        true
    }

    fn simple(&mut self, sql: &'static str) -> Result<(), Fault> {
        let done = self.runtime.block_on(sqlx::raw_sql(sql).execute(&mut self.connection));
        done.map(drop).map_err(fault)
    }
}

fn prepared_query(plan: &Plan, call: &Call<'_>) -> Query<'static, Sqlite, SqliteArguments> {
    let mut query = sqlx::query(AssertSqlSafe(Arc::clone(plan.sql(call))));
    for argument in call.arguments.iter() {
        query = match argument {
            Argument::Int(value) => query.bind(value),
            Argument::Text(value) => query.bind(value.to_owned()),
            Argument::Auto => query.bind(None::<i64>),
        };
    }
    query
}

/// The values of a row, whatever their type.
fn texts(row: &SqliteRow) -> Result<Vec<Option<String>>, sqlx::Error> {
    (0..row.len()).map(|column| row.try_get_unchecked(column)).collect()
}

impl Session for SqliteSession {
    fn begin(&mut self, writes: bool) -> Result<(), Fault> {
        self.simple(if writes { "BEGIN IMMEDIATE" } else { "BEGIN" })
    }

    fn execute(&mut self, call: Call<'_>) -> Result<Option<u64>, Fault> {
        let done = match self.sends_text(&call) {
            true => {
                let query = sqlx::raw_sql(AssertSqlSafe(self.text.as_str()));
                self.runtime.block_on(query.execute(&mut self.connection))
            }
            false => self.runtime.block_on(prepared_query(&self.plan, &call).execute(&mut self.connection)),
        };
        // After a read it would be what the last write had changed.
        let writes = self.plan.statements[call.statement].kind == Kind::Write;
        done.map(|done| writes.then(|| done.rows_affected())).map_err(fault)
    }

    fn execute_showing(&mut self, call: Call<'_>, show: &mut dyn FnMut(super::Row<'_>)) -> Result<Option<u64>, Fault> {
        let found = match self.sends_text(&call) {
            true => {
                let query = sqlx::raw_sql(AssertSqlSafe(self.text.as_str()));
                self.runtime.block_on(query.fetch_all(&mut self.connection))
            }
            false => self.runtime.block_on(prepared_query(&self.plan, &call).fetch_all(&mut self.connection)),
        };
        let rows = found.map_err(fault)?;
        for row in &rows {
            let texts = texts(row).map_err(fault)?;
            show(&texts.iter().map(|text| text.as_ref().map(String::as_bytes)).collect::<Vec<_>>());
        }
        Ok(Some(rows.len() as u64))
    }

    fn commit(&mut self) -> Result<(), Fault> {
        self.simple("COMMIT")
    }

    fn rollback(&mut self) -> Result<(), Fault> {
        self.simple("ROLLBACK")
    }
}

struct SqliteControl<'a> {
    connection: SqliteConnection,
    runtime: Runtime,
    interrupted: &'a AtomicBool,
}

impl Loader for SqliteControl<'_> {
    fn load(&mut self, set: &TableSet, number: u32, rows: &str, _count: u64) -> Result<(), Fault> {
        self.run(&(Dialect::Sqlite.insert_prefix(set, number) + rows)).map(drop)
    }
}

impl Control for SqliteControl<'_> {
    fn run(&mut self, sql: &str) -> Result<u64, Fault> {
        wait(&self.runtime, self.interrupted, async {
            let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await;
            done.map(|done| done.rows_affected()).map_err(fault)
        })
    }

    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Fault> {
        let rows = wait(&self.runtime, self.interrupted, async {
            sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut self.connection).await.map_err(fault)
        })?;
        rows.iter().map(texts).collect::<Result<_, _>>().map_err(fault)
    }

    fn facts(&mut self) -> Result<Facts, Fault> {
        let version = self.rows("SELECT sqlite_version()")?;
        let version = version.into_iter().flatten().flatten().next().unwrap_or_default();
        let mut variables = Vec::new();
        for name in ["journal_mode", "synchronous", "cache_size", "page_size"] {
            let value = self.rows(&format!("PRAGMA {name}"))?;
            let value = value.into_iter().flatten().flatten().next().unwrap_or_default();
            variables.push((name.to_string(), value));
        }
        Ok(Facts { version: format!("SQLite {version} (embedded)"), variables, encryption: None })
    }

    /// An embedded database counts nothing.
    fn counters(&mut self) -> Result<Counts, Fault> {
        Ok(Counts::default())
    }

    fn check(&mut self, _facts: &Facts, _demand: &Demand<'_>) -> Result<Vec<Check>, Fault> {
        let bytes = self.rows("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")?;
        let bytes = bytes.into_iter().flatten().flatten().next().and_then(|bytes| bytes.parse().ok());
        Ok(bytes.map(|bytes| Check::ok("file-size", format!("the file has {}", size(bytes)))).into_iter().collect())
    }

    fn max_statement_bytes(&mut self) -> Result<usize, Fault> {
        Ok(MAX_SQL_LENGTH)
    }
}

/// The runtime inside a session: one thread, ended with the session.
fn session_runtime() -> Result<Runtime, Fault> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| Fault {
        class: FaultClass::ConnectionLost,
        code: 0,
        sqlstate: String::new(),
        message: format!("no event loop could be made for a connection: {error}"),
    })
}

/// Waits for `work` until the user has enough of it. The connection is of no more use then.
fn wait<T>(
    runtime: &Runtime,
    interrupted: &AtomicBool,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    runtime.block_on(async {
        let mut work = std::pin::pin!(work);
        while !interrupted.load(Ordering::Relaxed) {
            if let Ok(done) = tokio::time::timeout(LOOK, work.as_mut()).await {
                return done;
            }
        }
        Err(interruption())
    })
}

fn fault(error: sqlx::Error) -> Fault {
    let (code, message) = match &error {
        sqlx::Error::Database(database) => {
            let code = database.code().and_then(|code| code.parse().ok()).unwrap_or(0);
            (code, database.message().to_string())
        }
        other => (0, other.to_string()),
    };
    // The primary result code is the low byte: 5 is SQLITE_BUSY, 6 SQLITE_LOCKED (sqlite.org/rescode.html).
    let class = match (&error, code & 0xff) {
        (sqlx::Error::Database(_), 5 | 6) => FaultClass::Retry,
        (sqlx::Error::Database(_), _) => FaultClass::Failed,
        _ => FaultClass::ConnectionLost,
    };
    Fault { class, code, sqlstate: String::new(), message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Settings, Workload};

    #[test]
    fn a_lock_that_is_held_for_too_long_is_worth_another_try() {
        let folder = tempfile::tempdir().unwrap();
        let plan = Workload::load("oltp_write_only").unwrap().compile(&Settings::default()).unwrap();
        let path = folder.path().join("test.sqlite");
        let target = SqliteTarget::new(path, Arc::new(plan), Protocol::Text, true);
        drop(target.control(&AtomicBool::new(false)).unwrap());
        let (mut holder, mut waiter) = (target.connect().unwrap(), target.connect().unwrap());
        waiter.simple("PRAGMA busy_timeout = 1").unwrap();
        holder.begin(true).unwrap();
        let fault = waiter.begin(true).unwrap_err();
        assert_eq!((fault.class, fault.code), (FaultClass::Retry, 5), "{fault}");
        holder.commit().unwrap();
        waiter.begin(true).unwrap();
    }
}
