//! MySQL and MariaDB over TCP or a Unix socket: one connection a session, never a pool.
//!
//! The protocol is spoken here, since the client's cost of each statement takes part in the measurement. What is not
//! measured (control connections, loading) uses the same client, so that nothing trusts or logs in as sessions do not.
//!
//! * [`session`]: a plan's statements on a connection.
//! * [`load`]: rows in bulk.
//! * [`check`]: what a server's answers mean for a run.
//! * [`connection`]: login, commands and answers over a stream.
//! * [`wire`], [`response`], [`auth`]: the protocol as pure functions of bytes.
//! * [`values`]: rows as text, for a run that looks at them.
//! * [`compress`]: frames between packets and stream; [`password`]: what to log in with.
//! * [`stream`]: sockets, with or without TLS; [`tls`]: whom it trusts.
//!
//! Must not import: `metrics`, `engine`, `report`, `cli`.

pub mod auth;
pub mod check;
pub mod compress;
pub mod connection;
mod load;
mod password;
pub mod response;
mod session;
mod stream;
mod tls;
mod values;
pub mod wire;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use self::connection::{Connection, Endpoint};
pub use self::session::MySqlSession;
use self::session::Statements;
pub use self::tls::TlsError;
use super::bulk::{Bulk, Loader};
use super::check::{Check, Demand};
use super::{Control, Counting, Counts, Database, Dialect, Digest, Facts, Fault, FaultClass, Target};
use crate::spec::{MySqlAddress, Protocol, SslMode, without_literals};
use crate::workload::plan::Plan;

/// ER_ACCESS_DENIED_ERROR.
const ACCESS_DENIED: i64 = 1045;
/// ER_ACCESS_DENIED_NO_PASSWORD_ERROR.
const ACCESS_DENIED_WITHOUT_PASSWORD: i64 = 1698;
/// ER_SECURE_TRANSPORT_REQUIRED.
const SECURE_TRANSPORT_REQUIRED: i64 = 3159;

/// Variables that change results or limit a run; what a server does not have is left out of the report.
const VARIABLES: [&str; 28] = [
    "autocommit",
    "binlog_format",
    "innodb_buffer_pool_size",
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_io_capacity",
    "innodb_log_file_size",
    "innodb_read_only",
    "innodb_redo_log_capacity",
    "innodb_thread_concurrency",
    "log_bin",
    "max_allowed_packet",
    "max_connections",
    "max_prepared_stmt_count",
    "performance_schema",
    "query_cache_type",
    "read_only",
    "super_read_only",
    "sync_binlog",
    "table_open_cache",
    "thread_handling",
    "transaction_isolation",
    "transaction_read_only",
    "tx_isolation",
    "tx_read_only",
    "version",
    "version_comment",
];

/// Beginnings of the names of status variables that say what a run cost the server.
const COUNTERS: [&str; 24] = [
    "Aborted_",
    "Bytes_",
    "Com_",
    "Connections",
    "Created_tmp_",
    "Handler_",
    "Innodb_buffer_pool_read",
    "Innodb_buffer_pool_wait_free",
    "Innodb_buffer_pool_write_requests",
    "Innodb_data_",
    "Innodb_dblwr_",
    "Innodb_deadlocks",
    "Innodb_log_",
    "Innodb_os_log_",
    "Innodb_pages_",
    "Innodb_row_lock_",
    "Innodb_rows_",
    "Opened_table",
    "Queries",
    "Questions",
    "Select_",
    "Slow_queries",
    "Sort_",
    "Table_",
];

/// Parts of the names of those among them that also fall: levels, averages and highest values.
const LEVELS: [&str; 4] = ["pending", "current", "_avg", "_max"];

fn is_counter(name: &str) -> bool {
    let begins = COUNTERS.iter().any(|beginning| name.starts_with(beginning));
    begins && !LEVELS.iter().any(|part| name.contains(part))
}

/// Executing a prepared statement counts as its kind, too, and once more if its table was closed or changed since it was
/// prepared. What is measured of this is in docs/server.md.
const COUNTING: Counting = Counting {
    of: counter_of,
    all: "Questions",
    again: "Com_stmt_reprepare",
    series: &[
        "Bytes_received",
        "Bytes_sent",
        "Com_commit",
        "Com_delete",
        "Com_insert",
        "Com_rollback",
        "Com_select",
        "Com_update",
        "Connections",
        "Created_tmp_disk_tables",
        "Handler_read_key",
        "Handler_read_next",
        "Innodb_buffer_pool_read_requests",
        "Innodb_buffer_pool_reads",
        "Innodb_buffer_pool_wait_free",
        "Innodb_data_fsyncs",
        "Innodb_data_read",
        "Innodb_data_written",
        "Innodb_log_waits",
        "Innodb_os_log_written",
        "Innodb_pages_read",
        "Innodb_pages_written",
        "Innodb_row_lock_time",
        "Innodb_row_lock_waits",
        "Questions",
        "Table_open_cache_misses",
    ],
};

/// The counter of a statement, where its text leaves no doubt. One that reads and writes, names several tables to write
/// to, or calls something is counted under other names, or several.
fn counter_of(sql: &str) -> Option<&'static str> {
    let upper = sql.to_ascii_uppercase();
    let words: Vec<&str> = upper.split_whitespace().collect();
    let has = |word: &str| words.iter().any(|other| other.trim_matches(['(', ')']) == word);
    let several = |before: &str| {
        let tables = words.iter().take_while(|word| **word != before);
        tables.into_iter().any(|word| word.contains(',') || matches!(*word, "JOIN" | "USING"))
    };
    // Several statements in one text are counted one by one.
    if sql.trim_end_matches([';', ' ']).contains(';') {
        return None;
    }
    match *words.first()? {
        "SELECT" => Some("Com_select"),
        "INSERT" if !has("SELECT") => Some("Com_insert"),
        "REPLACE" if !has("SELECT") => Some("Com_replace"),
        "UPDATE" if !several("SET") => Some("Com_update"),
        "DELETE" if !several("WHERE") => Some("Com_delete"),
        "BEGIN" => Some("Com_begin"),
        "COMMIT" => Some("Com_commit"),
        "ROLLBACK" => Some("Com_rollback"),
        _ => None,
    }
}

pub struct MySqlTarget {
    endpoint: Arc<Endpoint>,
    statements: Arc<Statements>,
}

impl MySqlTarget {
    pub fn new(address: MySqlAddress, plan: Arc<Plan>, protocol: Protocol) -> Result<MySqlTarget, TlsError> {
        let endpoint = Arc::new(Endpoint::new(address)?);
        Ok(MySqlTarget { endpoint, statements: Arc::new(Statements::new(plan, protocol)) })
    }

    /// The same address and password, with statements sent in another way.
    pub fn sending_by(&self, protocol: Protocol) -> MySqlTarget {
        let plan = Arc::clone(self.statements.plan());
        MySqlTarget { endpoint: Arc::clone(&self.endpoint), statements: Arc::new(Statements::new(plan, protocol)) }
    }

    /// Prepared statements one session may hold: one for each statement and table.
    pub fn prepared_statements_per_session(plan: &Plan) -> u64 {
        let prepared = plan.statements.iter().filter(|statement| statement.prepared);
        prepared.map(|statement| statement.sql.len() as u64).sum()
    }
}

impl Target for MySqlTarget {
    type Session = MySqlSession;

    fn connect(&self) -> Result<MySqlSession, Fault> {
        // A worker that hangs is left behind by the engine, so nothing interrupts it here.
        let address = &self.endpoint.address;
        let mut connection = Connection::open(&self.endpoint)?;
        // What a session asks first belongs to connecting, and so does how long that may take.
        connection.limit_silence(Some(address.connect_timeout), "--connect-timeout")?;
        let began = Instant::now();
        let session = MySqlSession::new(connection, Arc::clone(&self.statements), address.statement_timeout);
        session.map_err(|fault| match fault.class {
            FaultClass::ConnectionLost if fault.code == 0 && began.elapsed() >= address.connect_timeout => {
                silent(address)
            }
            _ => fault,
        })
    }

    fn descriptors_per_session(&self) -> u64 {
        1
    }
}

impl Database for MySqlTarget {
    fn dialect(&self) -> Dialect {
        Dialect::MySql
    }

    fn control<'a>(&self, interrupted: &'a AtomicBool) -> Result<Box<dyn Control + 'a>, Fault> {
        let connection = Connection::open_until(&self.endpoint, interrupted)?;
        Ok(Box::new(MySqlControl { connection, ssl_mode: self.endpoint.address.ssl_mode }))
    }

    fn prompt_control<'a>(&self, interrupted: &'a AtomicBool) -> Result<Box<dyn Control + 'a>, Fault> {
        let address = &self.endpoint.address;
        let mut connection = Connection::open_until(&self.endpoint, interrupted)?;
        connection.limit_silence(Some(address.connect_timeout), "--connect-timeout")?;
        Ok(Box::new(MySqlControl { connection, ssl_mode: address.ssl_mode }))
    }

    fn bulk(&self, interrupted: &AtomicBool) -> Result<Bulk, Fault> {
        load::bulk(&self.endpoint, self.statements.plan(), interrupted)
    }

    fn loader<'a>(&self, bulk: Bulk, interrupted: &'a AtomicBool) -> Result<Box<dyn Loader + 'a>, Fault> {
        Ok(Box::new(load::MySqlLoader::open(&self.endpoint, bulk, interrupted)?))
    }

    fn loaders(&self, wanted: u32) -> u32 {
        wanted
    }

    fn descriptors_per_control(&self) -> u64 {
        1
    }
}

struct MySqlControl<'a> {
    connection: Connection<'a>,
    ssl_mode: SslMode,
}

impl MySqlControl<'_> {
    /// A setting of this session. Unlike `SELECT @@name` this is no error where the server does not have it.
    fn variable(&mut self, name: &str) -> Result<Option<String>, Fault> {
        let rows = self.rows(&format!("SHOW VARIABLES WHERE Variable_name = '{name}'"))?;
        Ok(rows.into_iter().flatten().nth(1).flatten())
    }
}

impl Control for MySqlControl<'_> {
    fn run(&mut self, sql: &str) -> Result<u64, Fault> {
        self.connection.query(sql).map(|answer| answer.affected).map_err(say_read_only)
    }

    fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Fault> {
        let rows = self.connection.rows(sql).map_err(say_read_only)?;
        rows.into_iter().map(|row| row.into_iter().map(|value| value.map(text).transpose()).collect()).collect()
    }

    fn facts(&mut self) -> Result<Facts, Fault> {
        let list = VARIABLES.map(|name| format!("'{name}'")).join(", ");
        // The session's own values, as those that are measured have them: init_connect or --init-sql may have set them.
        let rows = self.rows(&format!("SHOW SESSION VARIABLES WHERE Variable_name IN ({list})"))?;
        let mut variables: Vec<(String, String)> = rows
            .into_iter()
            .filter_map(|row| match <[Option<String>; 2]>::try_from(row) {
                Ok([Some(name), value]) => Some((name, value.unwrap_or_default())),
                _ => None,
            })
            .collect();
        variables.sort();
        let mut facts = Facts { version: String::new(), variables, encryption: self.connection.encryption() };
        let version = facts.variable("version").unwrap_or("of unknown version");
        let product = match version.contains("MariaDB") {
            true => "MariaDB",
            false => "MySQL",
        };
        facts.version = format!("{product} {version}");
        Ok(facts)
    }

    fn counters(&mut self) -> Result<Counts, Fault> {
        let mut counts = Counts::default();
        for row in self.rows("SHOW GLOBAL STATUS")? {
            let Ok([Some(name), Some(value)]) = <[Option<String>; 2]>::try_from(row) else { continue };
            if name == "Uptime" {
                counts.uptime_s = value.parse().ok();
            } else if is_counter(&name) {
                counts.counters.extend(value.parse().ok().map(|value| (name, value)));
            }
        }
        Ok(counts)
    }

    fn counting(&self) -> Option<&'static Counting> {
        Some(&COUNTING)
    }

    fn digests(&mut self) -> Result<Vec<Digest>, Fault> {
        if self.variable("performance_schema")?.as_deref() != Some("ON") {
            return Ok(Vec::new());
        }
        // Without this question, which is no part of a run.
        let rows = self.rows(
            "SELECT DIGEST, DIGEST_TEXT, COUNT_STAR, SUM_TIMER_WAIT, MAX_TIMER_WAIT, SUM_ROWS_EXAMINED \
             FROM performance_schema.events_statements_summary_by_digest \
             WHERE SCHEMA_NAME = DATABASE() AND DIGEST_TEXT NOT LIKE '%events_statements_summary_by_digest%'",
        )?;
        Ok(rows.into_iter().filter_map(digest).collect())
    }

    fn check(&mut self, facts: &Facts, demand: &Demand<'_>) -> Result<Vec<Check>, Fault> {
        let ssl_mode = self.ssl_mode;
        check::of_server(self, facts, demand, ssl_mode)
    }

    fn refusals(&self, facts: &Facts, plan: &Plan) -> Vec<Check> {
        check::refusals(facts, plan)
    }

    fn max_statement_bytes(&mut self) -> Result<usize, Fault> {
        let bytes = self.variable("max_allowed_packet")?;
        Ok(bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(1 << 20))
    }
}

fn digest(row: Vec<Option<String>>) -> Option<Digest> {
    let [id, text, count, total, longest, examined] = <[Option<String>; 6]>::try_from(row).ok()?;
    let number = |text: Option<String>| text?.parse().ok();
    Some(Digest {
        id: id?,
        text: text?,
        count: number(count)?,
        total_ps: number(total)?,
        longest_ps: number(longest)?,
        rows_examined: number(examined)?,
    })
}

/// How the server is called in messages; never with a password.
fn place(address: &MySqlAddress) -> String {
    match &address.socket {
        Some(socket) => format!("socket {}", socket.display()),
        None if address.host.contains(':') => format!("[{}]:{}", address.host, address.port),
        None => format!("{}:{}", address.host, address.port),
    }
}

/// Classifies by error numbers (dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html,
/// mariadb.com/kb/en/mariadb-error-code-reference, docs.pingcap.com/tidb/stable/error-codes), and by the message where a
/// number has two meanings.
fn class_of(code: u16, message: &str) -> FaultClass {
    match code {
        // Record has changed (MariaDB), lock timeout, deadlock.
        1020 | 1205 | 1213 => FaultClass::Retry,
        // Group replication did not certify the transaction, since it conflicts with another member's.
        3101 => FaultClass::Retry,
        // TiDB: write conflicts (9007 in TiKV), a commit that failed and was rolled back, a table that was altered
        // meanwhile, locks that took too long to resolve.
        8002 | 8005 | 8022 | 8028 | 9004 | 9007 => FaultClass::Retry,
        // Shutdown, killed, and what is said to a client that was idle for too long. 2006 and 2013 come from proxies.
        1053 | 1927 | 2006 | 2013 | 3169 | 4031 => FaultClass::ConnectionLost,
        // read_only and the like, a READ ONLY transaction, InnoDB's read-only mode, group replication's refusals.
        1290 | 1792 | 1836 | 3100 => FaultClass::Failover,
        // Galera: the node has left the cluster's primary component. Else this is a command that a server does not know.
        1047 if message.contains("WSREP") => FaultClass::Failover,
        // Connections, those of a user, another limit of the user, prepared statements.
        1040 | 1203 | 1226 | 1461 => FaultClass::Overload,
        // TiDB: TiKV is busy, a region is not available, too many requests.
        9003 | 9005 | 9008 => FaultClass::Overload,
        1062 => FaultClass::Duplicate,
        // KILL QUERY, MariaDB's max_statement_time, MySQL's max_execution_time; TiDB's PD and TiKV did not answer it.
        1317 | 1969 | 3024 | 9001 | 9002 => FaultClass::Timeout,
        _ => FaultClass::Failed,
    }
}

/// What a server says is in the character set of the connection, unless it is told to disregard that.
fn text(bytes: Vec<u8>) -> Result<String, Fault> {
    String::from_utf8(bytes).map_err(|error| Fault {
        class: FaultClass::Failed,
        code: 0,
        sqlstate: String::new(),
        message: format!("the server answered `{}`, which is not UTF-8", error.as_bytes().escape_ascii()),
    })
}

const READ_ONLY: &str = "the server is read-only; use the primary's address";

/// Says of what prepares and removes tables that it met a replica, which a run would have refused.
fn say_read_only(mut fault: Fault) -> Fault {
    // 1005 and 1290 have other causes too, and say which; 1874 is InnoDB's own.
    let says_so = || ["read-only", "read_only", "read only"].iter().any(|word| fault.message.contains(word));
    let cause = match fault.code {
        1792 => "transactions of this session are read-only; look at --init-sql and the server's transaction_read_only",
        1836 | 1874 => READ_ONLY,
        1005 | 1290 if says_so() => READ_ONLY,
        _ => return fault,
    };
    fault.message = format!("{cause} (error {}: {})", fault.code, fault.message);
    fault
}

/// The fault of a statement of --init-sql. What a server says of a statement may repeat parts of it, so it is left out
/// where there is a literal, which may be a password.
fn init_fault(sql: &str, fault: Fault) -> Fault {
    let shown = without_literals(sql);
    let said = match fault.code {
        0 => fault.message,
        code if shown != sql => format!("error {code}, whose text may repeat what is in quotes"),
        _ => fault.message,
    };
    Fault { message: format!("--init-sql `{shown}` failed: {said}"), ..fault }
}

/// Whether a server refuses to let somebody in.
fn is_refusal(fault: &Fault) -> bool {
    matches!(fault.code, ACCESS_DENIED | ACCESS_DENIED_WITHOUT_PASSWORD)
}

/// The fault of a server that does not complete a connection in time.
fn silent(address: &MySqlAddress) -> Fault {
    Fault {
        class: FaultClass::ConnectionLost,
        code: 0,
        sqlstate: String::new(),
        message: format!(
            "no answer from {} within {} s; check the address, the firewall and that the server runs, or raise \
             --connect-timeout",
            place(address),
            address.connect_timeout.as_secs_f64()
        ),
    }
}

/// Why a connection failed, where it was not the server that said no.
enum Cause {
    Silence,
    Nobody,
    /// With advice.
    Certificate(&'static str),
    Other,
}

impl Cause {
    fn of(error: &io::Error) -> Cause {
        match (error.kind(), tls::advice(error)) {
            (_, Some(advice)) => Cause::Certificate(advice),
            (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, _) => Cause::Silence,
            (io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound, _) => Cause::Nobody,
            _ => Cause::Other,
        }
    }
}

/// Says what to do about a connection that cannot be had.
fn connect_fault(address: &MySqlAddress, mut fault: Fault, cause: Cause) -> Fault {
    let (place, user, database) = (place(address), &address.user, &address.database);
    let advice = match (fault.code, cause) {
        (ACCESS_DENIED | ACCESS_DENIED_WITHOUT_PASSWORD, _) => {
            let password = match (&address.password_command, &address.password) {
                (Some(_), _) => "with what --password-command prints; look whether that is the password",
                (None, Some(_)) => {
                    "with this password; give it in OLTPBENCH_PASSWORD, --password-file or --ask-password"
                }
                (None, None) => "without a password; give it in OLTPBENCH_PASSWORD, --password-file or --ask-password",
            };
            // MariaDB does not say that this is what it misses, nor does MySQL where it is the account that demands it.
            let tls = match address.ssl_mode {
                SslMode::Disabled => "; if account or server demand encryption, use --ssl-mode required",
                _ => "",
            };
            format!("{place} refuses user `{user}` {password}{tls}")
        }
        (SECURE_TRANSPORT_REQUIRED, _) => {
            format!("{place} takes encrypted connections only; use --ssl-mode required")
        }
        (1044, _) => format!("user `{user}` may not use database `{database}` at {place}; grant it the rights"),
        (1049, _) => {
            format!("there is no database `{database}` at {place}; make it with CREATE DATABASE {database}")
        }
        (1040, _) => format!("{place} has no connection left; raise its max_connections or use fewer --threads"),
        (1203 | 1226, _) => {
            format!("{place} allows user `{user}` no more connections; raise its limit or use fewer --threads")
        }
        (0, Cause::Silence) => return silent(address),
        (0, Cause::Certificate(advice)) => format!("{place} is not trusted: {advice}"),
        (0, Cause::Nobody) => {
            format!("no server answers at {place}; check the address and that the server runs")
        }
        (0, _) => format!("no connection to {place}"),
        _ => format!("{place} refuses the connection"),
    };
    let code = if fault.code == 0 { String::new() } else { format!("error {}: ", fault.code) };
    fault.message = format!("{advice} ({code}{})", fault.message);
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_no_text_is_an_error_that_shows_it() {
        assert_eq!(text("größe".into()).unwrap(), "größe");
        let fault = text(b"gr\xf6\xdfe".to_vec()).unwrap_err();
        assert_eq!((fault.class, fault.code), (FaultClass::Failed, 0));
        assert!(fault.message.contains("`gr\\xf6\\xdfe`"), "{fault}");
    }

    #[test]
    fn errors_are_classified_by_what_they_mean_for_the_run() {
        for (class, codes) in [
            (FaultClass::Retry, &[1020, 1205, 1213, 3101, 8002, 8005, 8022, 8028, 9004, 9007][..]),
            (FaultClass::ConnectionLost, &[1053, 1927, 2006, 2013, 3169, 4031]),
            (FaultClass::Failover, &[1290, 1792, 1836, 3100]),
            (FaultClass::Overload, &[1040, 1203, 1226, 1461, 9003, 9005, 9008]),
            (FaultClass::Duplicate, &[1062]),
            (FaultClass::Timeout, &[1317, 1969, 3024, 9001, 9002]),
            // An unknown command, an unknown column, TiDB's time after which old rows are gone.
            (FaultClass::Failed, &[1047, 1054, 9006]),
        ] {
            assert!(codes.iter().all(|&code| class_of(code, "") == class), "{class:?}");
        }
        let galera = "WSREP has not yet prepared node for application use";
        assert_eq!(class_of(1047, galera), FaultClass::Failover);
    }
}
