//! What would go wrong on a MySQL or MariaDB server, before it does.
//!
//! [`Server`] is asked once, over a control connection; everything else is a pure function of what it answered and of
//! what the run demands. A server that does not have a variable, or does not show it to this user, is no error: a check
//! that lacks it says nothing, and one line tells what is not known. A value of 0 is "no limit" where MySQL means that.
//!
//! Must not import: `metrics`, `engine`, `report`, `cli`.

use std::collections::BTreeMap;

use crate::spec::{Protocol, SslMode};
use crate::target::check::{Check, Demand, Level, counted, size};
use crate::target::schema::quoted;
use crate::target::{Control, Facts, Fault, FaultClass};
use crate::workload::plan::Plan;

/// What the checks ask for beside the variables of [`Facts`]. As SHOW SESSION VARIABLES gives them, max_user_connections
/// is what holds for this account, whether by the account's own limit or by the server's.
const VARIABLES: [&str; 10] = [
    "aurora_version",
    "autocommit",
    "general_log",
    "innodb_open_files",
    "long_query_time",
    "max_user_connections",
    "open_files_limit",
    "query_cache_size",
    "slow_query_log",
    "table_open_cache_instances",
];
const STATUS: [&str; 2] = ["Prepared_stmt_count", "Threads_connected"];
/// An account's limits of what it may do in an hour.
const HOURLY: [&str; 3] = ["MAX_QUERIES_PER_HOUR", "MAX_UPDATES_PER_HOUR", "MAX_CONNECTIONS_PER_HOUR"];
/// Tables asked about in one query.
const TABLES_PER_QUERY: usize = 100;
/// Share of the buffer pool that data may take and still stay in it; the pool also holds undo pages and hashes.
const FITTING: f64 = 0.9;
/// What a server opens beside connections and tables: logs, its own tables, sockets.
const SERVERS_OWN_FILES: u64 = 50;
/// A slow log with a limit below this writes most statements of a benchmark.
const SLOW_S: f64 = 0.01;

/// A table as the server keeps it.
#[derive(Clone, Debug)]
struct Stored {
    /// As the plan wants it.
    wanted_engine: Option<String>,
    engine: String,
    bytes: u64,
}

/// What the server said.
#[derive(Clone, Debug, Default)]
struct Server {
    facts: Facts,
    variables: BTreeMap<String, String>,
    status: BTreeMap<String, String>,
    /// Connections of this user, with the one that asked.
    users_connections: Option<u64>,
    /// Those of [`HOURLY`] that the account has; `None` where not known.
    hourly: Option<BTreeMap<&'static str, u64>>,
    /// What the server says of the first of the plan's statements that this user may not send.
    denied: Option<String>,
    tables: Vec<Stored>,
}

type Rows = Vec<Vec<Option<String>>>;

/// Rows of a query that a server may refuse, which gives none.
fn rows_if_allowed(control: &mut dyn Control, sql: &str) -> Result<Rows, Fault> {
    match control.rows(sql) {
        Err(fault) if fault.class == FaultClass::Failed => Ok(Rows::new()),
        rows => rows,
    }
}

fn pairs(rows: Rows) -> BTreeMap<String, String> {
    let pair = |row: Vec<Option<String>>| match <[Option<String>; 2]>::try_from(row) {
        Ok([Some(name), value]) => Some((name, value.unwrap_or_default())),
        _ => None,
    };
    rows.into_iter().filter_map(pair).collect()
}

impl Server {
    fn ask(control: &mut dyn Control, facts: &Facts, plan: &Plan) -> Result<Server, Fault> {
        let mut shown = |what: &str, names: &[&str]| {
            rows_if_allowed(control, &format!("SHOW {what} WHERE Variable_name IN ({})", quoted(names))).map(pairs)
        };
        let variables = shown("SESSION VARIABLES", &VARIABLES)?;
        let status = shown("GLOBAL STATUS", &STATUS)?;
        let mut cell = |sql: &str| -> Result<Option<String>, Fault> {
            Ok(rows_if_allowed(control, sql)?.into_iter().flatten().next().flatten())
        };
        let users_connections =
            cell("SELECT COUNT(*) FROM information_schema.processlist WHERE user = SUBSTRING_INDEX(USER(), '@', 1)")?;
        let account = cell("SHOW CREATE USER CURRENT_USER()")?;
        Ok(Server {
            facts: facts.clone(),
            variables,
            status,
            users_connections: users_connections.and_then(|count| count.parse().ok()),
            hourly: account.as_deref().map(hourly_limits),
            denied: denied(control, plan)?,
            tables: stored(control, plan)?,
        })
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.facts.variable(name).or_else(|| self.variables.get(name).map(String::as_str))
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.variable(name).or_else(|| self.status.get(name).map(String::as_str))?.parse().ok()
    }

    /// A limit of which 0 means none.
    fn limit(&self, name: &str) -> Option<u64> {
        self.number(name).filter(|&limit| limit > 0)
    }

    fn is_on(&self, name: &str) -> bool {
        self.variable(name).is_some_and(is_on)
    }
}

fn is_on(value: &str) -> bool {
    matches!(value, "ON" | "1")
}

/// EXPLAIN changes nothing, and takes the rights of the statement that it explains. What it cannot explain is not looked at.
fn denied(control: &mut dyn Control, plan: &Plan) -> Result<Option<String>, Fault> {
    for statement in &plan.statements {
        match control.rows(&format!("EXPLAIN {}", statement.sql[0].replace('?', "0"))) {
            // To a table, or to a column of it.
            Err(fault) if matches!(fault.code, 1142 | 1143) => return Ok(Some(fault.message)),
            Err(fault) if matches!(fault.class, FaultClass::ConnectionLost | FaultClass::Interrupted) => {
                return Err(fault);
            }
            // Such as of a table that is missing, or of a write to a server that is read-only, which are told by themselves.
            _ => {}
        }
    }
    Ok(None)
}

/// The plan's tables as far as they are there.
fn stored(control: &mut dyn Control, plan: &Plan) -> Result<Vec<Stored>, Fault> {
    // MySQL keeps sizes for a day unless it is told not to; others do not have this variable, and no need of it.
    match control.run("SET SESSION information_schema_stats_expiry = 0") {
        Err(fault) if fault.class != FaultClass::Failed => return Err(fault),
        _ => {}
    }
    let mut tables = Vec::new();
    for set in &plan.tables {
        let names: Vec<String> = (1..=set.count).map(|number| set.table_name(number)).collect();
        for chunk in names.chunks(TABLES_PER_QUERY) {
            let sql = format!(
                "SELECT engine, data_length + index_length FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ({})",
                quoted(chunk)
            );
            tables.extend(rows_if_allowed(control, &sql)?.into_iter().filter_map(|row| match row.as_slice() {
                // A view has neither.
                [Some(engine), Some(bytes)] => Some(Stored {
                    wanted_engine: set.engine.clone(),
                    engine: engine.clone(),
                    bytes: bytes.parse().ok()?,
                }),
                _ => None,
            }));
        }
    }
    Ok(tables)
}

/// What an account may do in an hour, by the text of its CREATE USER. The text holds a hash of the password, so nothing
/// of it but the numbers is kept.
fn hourly_limits(account: &str) -> BTreeMap<&'static str, u64> {
    let mut words = account.split_whitespace();
    let mut limits = BTreeMap::new();
    while let Some(word) = words.next() {
        if let Some(name) = HOURLY.into_iter().find(|name| *name == word)
            && let Some(limit) = words.next().and_then(|limit| limit.parse().ok()).filter(|&limit| limit > 0)
        {
            limits.insert(name, limit);
        }
    }
    limits
}

/// Everything that is worth a word, in the order in which it is shown.
pub(super) fn of_server(
    control: &mut dyn Control,
    facts: &Facts,
    demand: &Demand<'_>,
    ssl_mode: SslMode,
) -> Result<Vec<Check>, Fault> {
    let server = Server::ask(control, facts, demand.plan)?;
    Ok(judge(&server, demand, ssl_mode))
}

fn judge(server: &Server, demand: &Demand<'_>, ssl_mode: SslMode) -> Vec<Check> {
    // TiDB takes InnoDB's variables and those of its caches, and heeds none of them.
    let heeded = !server.facts.version.contains("TiDB");
    let checks = [
        engines(server),
        read_only(&server.facts, demand.plan),
        privileges(server),
        connections(server, demand),
        users_connections(server, demand),
        hourly(server, demand),
        prepared_statements(server, demand),
        table_cache(server, demand).filter(|_| heeded),
        open_files(server, demand).filter(|_| heeded),
        memory(server).filter(|_| heeded),
        isolation(server),
        autocommit(server, demand.plan),
        durability(server, demand.plan).filter(|_| heeded),
        query_cache(server),
        logging(server),
        performance_schema(server),
        Some(tls(&server.facts, ssl_mode)),
        not_known(server),
    ];
    checks.into_iter().flatten().collect()
}

/// What a run must not begin with, of what its facts tell.
pub fn refusals(facts: &Facts, plan: &Plan) -> Vec<Check> {
    read_only(facts, plan).into_iter().filter(|check| check.level == Level::Fatal).collect()
}

fn read_only(facts: &Facts, plan: &Plan) -> Option<Check> {
    const CODE: &str = "read-only";
    // MariaDB's read_only has more values than ON and OFF; an Aurora reader is known by innodb_read_only.
    let names = ["read_only", "super_read_only", "innodb_read_only"];
    // TiDB says 0 for OFF.
    let off = |value: &str| matches!(value, "OFF" | "0");
    let is_on = |name: &&str| facts.variable(name).is_some_and(|value| !off(value));
    let on = names.into_iter().find(is_on);
    // What a session begins each transaction with, whatever the server takes.
    let of_session = ["transaction_read_only", "tx_read_only"].into_iter().find(is_on);
    if let Some(name) = of_session.filter(|_| on.is_none() && plan.writes()) {
        return Some(Check::new(
            Level::Fatal,
            CODE,
            format!("sessions are read-only ({name} is on) and this workload writes"),
            "leave it out of --init-sql, or set the server's default to OFF",
        ));
    }
    on.or(facts.variable("read_only"))?;
    Some(match (on, plan.writes()) {
        (Some(name), true) => Check::new(
            Level::Fatal,
            CODE,
            format!("the server is read-only ({name} is on) and this workload writes"),
            "use the primary's address, or --mode read-only",
        ),
        (Some(name), false) => Check::ok(CODE, format!("the server is read-only ({name} is on); so is this workload")),
        (None, _) => Check::ok(CODE, "the server takes writes"),
    })
}

/// Without autocommit and without BEGIN everything a connection does is one transaction without an end. What holds is the
/// session's value, which a run looks at by itself on each of its connections.
fn autocommit(server: &Server, plan: &Plan) -> Option<Check> {
    if plan.transaction.begin || server.variables.get("autocommit")? != "OFF" {
        return None;
    }
    let (level, message) = match plan.writes() {
        true => {
            (Level::Fatal, "autocommit is off and this workload sends no COMMIT: nothing would be written for good")
        }
        false => {
            (Level::Warning, "autocommit is off and this workload sends no COMMIT: each connection reads old rows")
        }
    };
    let advice = "give --init-sql 'SET autocommit = 1', or do without --skip-trx";
    Some(Check::new(level, "autocommit", message, advice))
}

fn privileges(server: &Server) -> Option<Check> {
    let denied = server.denied.as_deref()?;
    Some(Check::new(
        Level::Fatal,
        "privileges",
        format!("this user may not send all of the workload's statements: {denied}"),
        "grant it SELECT, INSERT, UPDATE and DELETE on the database",
    ))
}

fn connections(server: &Server, demand: &Demand<'_>) -> Option<Check> {
    let limit = server.limit("max_connections")?;
    // The one that asked will be gone.
    let others = server.number("Threads_connected").map_or(0, |connected| connected.saturating_sub(1));
    let needed = demand.connections();
    let in_all = needed.saturating_add(others);
    let found = format!("{needed} connections are needed; max_connections is {limit}, others have {others}");
    let advice = format!(
        "raise max_connections to {in_all} or use fewer --threads; only a proxy that shares connections takes more"
    );
    Some(enough_connections("max-connections", demand, others, limit, found, advice))
}

/// Too few for the threads end a run; too few for what it asks beside them cost the server's counters.
fn enough_connections(
    code: &'static str,
    demand: &Demand<'_>,
    others: u64,
    limit: u64,
    found: String,
    advice: String,
) -> Check {
    let level = if u64::from(demand.threads).saturating_add(others) > limit { Level::Fatal } else { Level::Warning };
    Check::held(demand.connections().saturating_add(others) <= limit, level, code, found, advice)
}

fn users_connections(server: &Server, demand: &Demand<'_>) -> Option<Check> {
    let limit = server.limit("max_user_connections")?;
    let others = server.users_connections.map_or(0, |connected| connected.saturating_sub(1));
    let needed = demand.connections();
    let in_all = needed.saturating_add(others);
    let found = format!("this user may have {} and has {others}; {needed} are needed", counted(limit, "connection"));
    let advice = format!("raise max_user_connections, the server's or the account's, to {in_all}");
    Some(enough_connections("max-user-connections", demand, others, limit, found, advice))
}

fn hourly(server: &Server, demand: &Demand<'_>) -> Option<Check> {
    const CODE: &str = "hourly-limit";
    let matters = |name: &str| name != "MAX_UPDATES_PER_HOUR" || demand.plan.writes();
    let limits = server.hourly.as_ref()?.iter().filter(|(name, _)| matters(name));
    let limits: Vec<(&str, u64)> = limits.map(|(name, limit)| (*name, *limit)).collect();
    let listed = limits.iter().map(|(name, limit)| format!("{name} {limit}")).collect::<Vec<_>>().join(", ");
    let too_few = limits.iter().any(|&(name, limit)| name == HOURLY[2] && limit < demand.connections());
    let level = match (limits.is_empty(), too_few) {
        (true, _) => return None,
        (false, true) => Level::Fatal,
        (false, false) => Level::Warning,
    };
    Some(Check::new(
        level,
        CODE,
        format!("the account has {listed}; what goes over it fails with error 1226"),
        "lift it by ALTER USER ... WITH and the limit's name and 0",
    ))
}

/// Text in place of prepared statements where the server cannot hold all that a run may need. What others hold is left out:
/// a run that follows another must not take statements that are just being closed for a reason.
pub fn prepared_replaced(facts: &Facts, demand: &Demand<'_>) -> Option<Check> {
    let (needed, limit) = (prepared_needed(demand)?, prepared_limit(facts)?);
    (needed > limit).then(|| {
        Check::new(
            Level::Warning,
            "prepared-replaced-by-text",
            format!("the run needs up to {needed} prepared statements and the server allows {limit}: text is sent"),
            format!("for prepared statements raise max_prepared_stmt_count to {needed} (at most 4194304)"),
        )
    })
}

fn prepared_statements(server: &Server, demand: &Demand<'_>) -> Option<Check> {
    const CODE: &str = "prepared-statements";
    let (needed, limit) = (prepared_needed(demand)?, prepared_limit(&server.facts)?);
    let in_use = server.number("Prepared_stmt_count").unwrap_or(0);
    let in_all = needed.saturating_add(in_use);
    prepared_replaced(&server.facts, demand).or_else(|| {
        let found = format!("up to {needed} prepared statements are needed; the server allows {limit}");
        Some(match in_all <= limit {
            true => Check::ok(CODE, found),
            false => Check::new(
                Level::Warning,
                CODE,
                format!("{found}, others hold {in_use}"),
                format!("raise max_prepared_stmt_count to {in_all}, or statements may fail with error 1461"),
            ),
        })
    })
}

/// How many prepared statements a run may hold; none of a run that sends text.
fn prepared_needed(demand: &Demand<'_>) -> Option<u64> {
    let of_each = super::MySqlTarget::prepared_statements_per_session(demand.plan);
    (demand.protocol == Protocol::Prepared).then_some(u64::from(demand.threads) * of_each)
}

/// Proxies and compatible servers may have no such limit.
fn prepared_limit(facts: &Facts) -> Option<u64> {
    facts.variable("max_prepared_stmt_count")?.parse().ok()
}

/// Each connection belongs to one part of MySQL's cache and opens every table in it; more are open only while several
/// connections of a part use the same table. MariaDB makes parts only when its cache is contended, so it counts as one.
fn table_cache(server: &Server, demand: &Demand<'_>) -> Option<Check> {
    let cache = server.limit("table_open_cache")?;
    let parts = match server.variable("version").is_some_and(|version| version.contains("MariaDB")) {
        true => 1,
        false => server.limit("table_open_cache_instances").unwrap_or(1),
    };
    let (tables, threads) = (demand.tables(), u64::from(demand.threads));
    let needed = (tables + threads.div_ceil(parts)).saturating_mul(parts);
    let in_parts = if parts > 1 { format!(" in {parts} parts") } else { String::new() };
    let (of_tables, of_threads) = (counted(tables, "table"), counted(threads, "thread"));
    let found = format!("{of_tables} and {of_threads} need about {needed} open tables");
    let found = format!("{found}; table_open_cache is {cache}{in_parts}");
    let advice = format!("raise table_open_cache to {needed}, or some are closed and opened again and again");
    Some(Check::held(needed <= cache, Level::Warning, "table-open-cache", found, advice))
}

fn open_files(server: &Server, demand: &Demand<'_>) -> Option<Check> {
    const CODE: &str = "server-open-files";
    let advice = |name: &str, needed: u64| format!("raise {name} to {needed}; it takes a restart of the server");
    let needed = demand.connections() + demand.tables() + SERVERS_OWN_FILES;
    if let Some(limit) = server.limit("open_files_limit").filter(|&limit| limit < needed) {
        let found = format!("the server may open {limit} files; connections and tables need about {needed}");
        return Some(Check::new(Level::Warning, CODE, found, advice("open_files_limit", needed)));
    }
    let needed = demand.tables() + SERVERS_OWN_FILES;
    let limit = server.limit("innodb_open_files").filter(|&limit| limit < needed)?;
    let found = format!("InnoDB keeps {limit} files open; the tables need about {needed}");
    Some(Check::new(Level::Warning, CODE, found, advice("innodb_open_files", needed)))
}

/// Which of two different runs it will be.
fn memory(server: &Server) -> Option<Check> {
    const CODE: &str = "buffer-pool";
    let pool = server.limit("innodb_buffer_pool_size")?;
    let bytes = server.tables.iter().filter(|table| is_innodb(&table.engine)).map(|table| table.bytes);
    let data = bytes.fold(0, u64::saturating_add);
    if data == 0 {
        return None;
    }
    let found = format!("the tables take {}, the buffer pool has {}", size(data), size(pool));
    Some(match data as f64 <= FITTING * pool as f64 {
        true => Check::ok(CODE, format!("{found}: once read (oltpbench prewarm), all is in memory")),
        false => Check::new(
            Level::Note,
            CODE,
            format!("{found}: this run reads from the disk"),
            "for a run in memory raise innodb_buffer_pool_size or use fewer rows",
        ),
    })
}

fn is_innodb(engine: &str) -> bool {
    engine.eq_ignore_ascii_case("innodb")
}

fn engines(server: &Server) -> Option<Check> {
    let differs = |table: &&Stored| {
        let wanted = table.wanted_engine.as_ref();
        wanted.is_some_and(|wanted| !wanted.eq_ignore_ascii_case(&table.engine))
    };
    let others: Vec<&Stored> = server.tables.iter().filter(differs).collect();
    let first = others.first()?;
    let wanted = first.wanted_engine.as_deref().unwrap_or_default();
    Some(Check::new(
        Level::Warning,
        "storage-engine",
        format!("{} of {} tables are {}, not {wanted}", others.len(), server.tables.len(), first.engine),
        "prepare them again, or give the storage engine that is meant",
    ))
}

fn isolation(server: &Server) -> Option<Check> {
    let name = ["transaction_isolation", "tx_isolation"].into_iter().find(|name| server.variable(name).is_some())?;
    let value = server.variable(name)?;
    let found = format!("{name} is {value}");
    let advice = "the default is REPEATABLE-READ: compare with runs at the same level";
    Some(Check::held(value == "REPEATABLE-READ", Level::Note, "isolation", found, advice))
}

fn durability(server: &Server, plan: &Plan) -> Option<Check> {
    const CODE: &str = "durability";
    let flush = server.variable("innodb_flush_log_at_trx_commit").filter(|_| plan.writes())?;
    let mut settings = vec![format!("innodb_flush_log_at_trx_commit={flush}")];
    let mut safe = flush == "1";
    // Aurora's storage has no use for it, whatever it says.
    let aurora = server.variable("aurora_version").is_some();
    if let Some(doublewrite) = server.variable("innodb_doublewrite").filter(|_| !aurora) {
        settings.push(format!("innodb_doublewrite={doublewrite}"));
        safe &= !matches!(doublewrite, "OFF" | "0" | "DETECT_ONLY");
    }
    if let Some(log_bin) = server.variable("log_bin") {
        settings.push(format!("log_bin={log_bin}"));
        if let Some(sync) = server.variable("sync_binlog").filter(|_| is_on(log_bin)) {
            settings.push(format!("sync_binlog={sync}"));
            safe &= sync == "1";
        }
    }
    let settings = settings.join(", ");
    Some(match safe {
        true => Check::ok(CODE, format!("every commit survives a crash: {settings}")),
        false => Check::new(
            Level::Note,
            CODE,
            format!("a crash may cost commits or pages: {settings}"),
            "writes are faster for it; compare only with runs of the same settings",
        ),
    })
}

fn query_cache(server: &Server) -> Option<Check> {
    let size_of_cache = server.limit("query_cache_size").filter(|_| server.is_on("query_cache_type"))?;
    Some(Check::new(
        Level::Warning,
        "query-cache",
        format!("the query cache ({}) answers in place of the tables, and writes wait for it", size(size_of_cache)),
        "SET GLOBAL query_cache_type = OFF",
    ))
}

fn logging(server: &Server) -> Option<Check> {
    const CODE: &str = "logging";
    let slow = server.variable("long_query_time").and_then(|time| time.parse().ok()).unwrap_or(f64::INFINITY);
    if server.is_on("general_log") {
        let advice = "SET GLOBAL general_log = OFF";
        return Some(Check::new(Level::Warning, CODE, "the general log takes down every statement", advice));
    }
    if server.is_on("slow_query_log") && slow < SLOW_S {
        let found = format!("the slow log takes down every statement above {slow} s");
        return Some(Check::new(Level::Warning, CODE, found, "SET GLOBAL slow_query_log = OFF"));
    }
    None
}

fn performance_schema(server: &Server) -> Option<Check> {
    let state = server.variable("performance_schema")?;
    let found = format!("performance_schema is {state} (MySQL's default is ON, MariaDB's OFF)");
    Some(Check::ok("performance-schema", found))
}

const TLS: &str = "tls";

/// The server is not asked, since behind a proxy it speaks of another connection.
fn tls(facts: &Facts, mode: SslMode) -> Check {
    let asked = format!("--ssl-mode is {}", mode.name());
    match (&facts.encryption, mode) {
        (None, SslMode::Disabled) => Check::ok(TLS, format!("connections are not encrypted; {asked}")),
        (None, _) => unencrypted(mode),
        (Some(encryption), _) => Check::ok(TLS, format!("connections are encrypted by {encryption}; {asked}")),
    }
}

fn unencrypted(mode: SslMode) -> Check {
    Check::new(
        Level::Warning,
        TLS,
        format!("connections are not encrypted although --ssl-mode is {}", mode.name()),
        "the server offers no TLS: give it a certificate, or measure with --ssl-mode disabled",
    )
}

/// What to know of a run whose encryption was preferred and not to be had.
pub fn not_encrypted(facts: &Facts, mode: SslMode) -> Option<Check> {
    (mode == SslMode::Preferred && facts.encryption.is_none()).then(|| unencrypted(mode))
}

/// What the checks could not see, of the things that any MySQL has.
fn not_known(server: &Server) -> Option<Check> {
    let variables = [
        "innodb_buffer_pool_size",
        "innodb_flush_log_at_trx_commit",
        "max_connections",
        "max_prepared_stmt_count",
        "read_only",
        "table_open_cache",
    ];
    let mut missing: Vec<&str> = variables.into_iter().filter(|name| server.variable(name).is_none()).collect();
    missing.extend(STATUS.into_iter().filter(|name| !server.status.contains_key(*name)));
    if server.hourly.is_none() {
        missing.push("the account's hourly limits");
    }
    (!missing.is_empty()).then(|| {
        Check::new(
            Level::Note,
            "not-known",
            format!("not known: {}", missing.join(", ")),
            "the server does not have it or does not show it to this user",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{OptionValue, RandomSettings, Settings, Workload};

    fn plan(workload: &str, options: &[(&str, OptionValue)]) -> Plan {
        let mut all = BTreeMap::from([("tables".to_string(), OptionValue::Int(10))]);
        all.extend(options.iter().map(|(name, value)| (name.to_string(), value.clone())));
        let settings = Settings { options: all, threads: 100, random: RandomSettings::default() };
        Workload::load(workload).unwrap().compile(&settings).unwrap()
    }

    /// A server on which nothing stands in the way of 100 threads, with some of its answers changed; `None` is no answer.
    fn server(changes: &[(&str, Option<&str>)]) -> Server {
        let mut answers = BTreeMap::from([
            ("innodb_buffer_pool_size", "1073741824"),
            ("innodb_doublewrite", "ON"),
            ("innodb_flush_log_at_trx_commit", "1"),
            ("innodb_open_files", "2000"),
            ("log_bin", "ON"),
            ("long_query_time", "10.000000"),
            ("max_connections", "151"),
            ("max_prepared_stmt_count", "16382"),
            ("max_user_connections", "0"),
            ("open_files_limit", "20000"),
            ("performance_schema", "OFF"),
            ("query_cache_size", "1048576"),
            ("query_cache_type", "OFF"),
            ("read_only", "OFF"),
            ("sync_binlog", "1"),
            ("table_open_cache", "2000"),
            ("table_open_cache_instances", "8"),
            ("transaction_isolation", "REPEATABLE-READ"),
            ("version", "10.11.14-MariaDB"),
        ]);
        let mut status = BTreeMap::from([("Prepared_stmt_count", "0"), ("Threads_connected", "1")]);
        for (name, value) in changes {
            let of = if STATUS.contains(name) { &mut status } else { &mut answers };
            match value {
                Some(value) => of.insert(name, value),
                None => of.remove(name),
            };
        }
        let owned = |(name, value): (&str, &str)| (name.to_string(), value.to_string());
        Server {
            facts: Facts {
                version: "MariaDB 10.11.14".into(),
                variables: answers.into_iter().map(owned).collect(),
                encryption: None,
            },
            variables: BTreeMap::new(),
            status: status.into_iter().map(owned).collect(),
            users_connections: Some(1),
            hourly: Some(BTreeMap::new()),
            denied: None,
            tables: vec![Stored { wanted_engine: Some("innodb".into()), engine: "InnoDB".into(), bytes: 90 << 20 }; 10],
        }
    }

    fn checks(server: &Server, plan: &Plan, protocol: Protocol) -> Vec<Check> {
        judge(server, &Demand { plan, threads: 100, protocol }, SslMode::Disabled)
    }

    /// The one check that is not ok.
    #[track_caller]
    fn only(checks: Vec<Check>) -> Check {
        let mut bad: Vec<Check> = checks.into_iter().filter(|check| check.level != Level::Ok).collect();
        assert_eq!(bad.len(), 1, "{bad:#?}");
        bad.remove(0)
    }

    #[test]
    fn a_server_in_good_order_gives_no_reason_to_worry() {
        let plan = plan("oltp_read_write", &[]);
        let checks = checks(&server(&[]), &plan, Protocol::Prepared);
        assert!(checks.iter().all(|check| check.level == Level::Ok && check.advice.is_empty()), "{checks:#?}");
        let codes: Vec<&str> = checks.iter().map(|check| check.code).collect();
        let expected = [
            "read-only",
            "max-connections",
            "prepared-statements",
            "table-open-cache",
            "buffer-pool",
            "isolation",
            "durability",
            "performance-schema",
            "tls",
        ];
        assert_eq!(codes, expected);
    }

    #[test]
    fn each_setting_that_matters_is_told_with_its_figures_and_the_way_out() {
        use Level::{Fatal, Note, Warning};
        let plan = plan("oltp_read_write", &[]);
        for (changes, level, code, message, advice) in [
            (&[("read_only", Some("ON"))][..], Fatal, "read-only", "read_only is on", "primary's address"),
            (&[("innodb_read_only", Some("ON"))], Fatal, "read-only", "innodb_read_only", ""),
            (&[("tx_read_only", Some("ON"))], Fatal, "read-only", "sessions are read-only (tx_read_only", "--init-sql"),
            (&[("max_connections", Some("99"))], Fatal, "max-connections", "102 connections", "to 102"),
            (&[("max_connections", Some("101"))], Warning, "max-connections", "102 connections", "to 102"),
            (&[("Threads_connected", Some("53"))], Fatal, "max-connections", "is 151, others have 52", "to 154"),
            (&[("Threads_connected", Some("51"))], Warning, "max-connections", "is 151, others have 50", "to 152"),
            (&[("max_user_connections", Some("99"))], Fatal, "max-user-connections", "may have 99", "to 102"),
            (&[("max_prepared_stmt_count", Some("8999"))], Warning, "prepared-replaced-by-text", "9000", "to 9000"),
            (&[("Prepared_stmt_count", Some("7383"))], Warning, "prepared-statements", "hold 7383", "to 16383"),
            (&[("table_open_cache", Some("109"))], Warning, "table-open-cache", "is 109", "to 110"),
            // By parts: 16 x (10 tables + 7 threads).
            (
                &[
                    ("version", Some("8.4.3")),
                    ("table_open_cache", Some("271")),
                    ("table_open_cache_instances", Some("16")),
                ],
                Warning,
                "table-open-cache",
                "is 271 in 16 parts",
                "to 272",
            ),
            (&[("open_files_limit", Some("161"))], Warning, "server-open-files", "open 161 files", "to 162"),
            (&[("innodb_open_files", Some("59"))], Warning, "server-open-files", "keeps 59 files", "to 60"),
            (&[("innodb_buffer_pool_size", Some("1000000000"))], Note, "buffer-pool", "900.0 MiB", "fewer rows"),
            (&[("transaction_isolation", Some("READ-COMMITTED"))], Note, "isolation", "READ-COMMITTED", "same level"),
            (&[("innodb_flush_log_at_trx_commit", Some("2"))], Note, "durability", "commit=2", "same settings"),
            (&[("sync_binlog", Some("0"))], Note, "durability", "sync_binlog=0", "same settings"),
            (&[("innodb_doublewrite", Some("OFF"))], Note, "durability", "doublewrite=OFF", "same settings"),
            (&[("query_cache_type", Some("ON"))], Warning, "query-cache", "1.0 MiB", "query_cache_type = OFF"),
            (&[("general_log", Some("ON"))], Warning, "logging", "general log", "general_log = OFF"),
            (
                &[("slow_query_log", Some("ON")), ("long_query_time", Some("0.000000"))],
                Warning,
                "logging",
                "above 0 s",
                "slow_query_log = OFF",
            ),
        ] {
            let check = only(checks(&server(changes), &plan, Protocol::Prepared));
            assert_eq!((check.level, check.code), (level, code), "{check}");
            assert!(check.message.contains(message) && check.advice.contains(advice), "{changes:?}: {check}");
        }
    }

    #[test]
    fn a_limit_that_is_just_enough_is_enough() {
        let plan = plan("oltp_read_write", &[]);
        for (name, value) in [
            ("max_connections", "102"),
            ("Threads_connected", "50"),
            ("max_user_connections", "102"),
            ("max_prepared_stmt_count", "9000"),
            ("Prepared_stmt_count", "7382"),
            ("table_open_cache", "110"),
            ("open_files_limit", "162"),
            ("innodb_open_files", "60"),
            ("innodb_buffer_pool_size", "1048576000"),
            ("slow_query_log", "ON"),
            // A limit of 0 is none.
            ("max_connections", "0"),
            ("open_files_limit", "0"),
        ] {
            let checks = checks(&server(&[(name, Some(value))]), &plan, Protocol::Prepared);
            assert!(checks.iter().all(|check| check.level == Level::Ok), "{name}={value}: {checks:#?}");
        }
    }

    #[test]
    fn a_server_that_says_0_for_off_takes_writes() {
        let tidb = server(&[("read_only", Some("0")), ("innodb_read_only", Some("0"))]);
        assert!(refusals(&tidb.facts, &plan("oltp_read_write", &[])).is_empty());
    }

    #[test]
    fn auroras_storage_needs_no_doublewrite() {
        let aurora = server(&[("innodb_doublewrite", Some("OFF")), ("aurora_version", Some("3.08.0"))]);
        let check = durability(&aurora, &plan("oltp_insert", &[])).unwrap();
        assert!(check.level == Level::Ok && !check.message.contains("doublewrite"), "{check}");
    }

    #[test]
    fn what_only_writes_and_prepared_statements_meet_is_no_matter_to_others() {
        let changes = [
            ("read_only", Some("ON")),
            ("max_prepared_stmt_count", Some("1")),
            ("innodb_flush_log_at_trx_commit", Some("0")),
        ];
        let checks = checks(&server(&changes), &plan("oltp_read_only", &[]), Protocol::Text);
        assert!(checks.iter().all(|check| check.level == Level::Ok), "{checks:#?}");
        assert!(checks.iter().any(|check| check.message.contains("read_only is on")), "{checks:#?}");
    }

    #[test]
    fn writes_that_nothing_commits_are_refused_and_reads_warned_of() {
        let variables = BTreeMap::from([("autocommit".to_string(), "OFF".to_string())]);
        let server = Server { variables, ..server(&[]) };
        let skip_trx = [("skip_trx", OptionValue::Bool(true))];
        for (plan, level) in [
            (plan("oltp_insert", &[]), Some(Level::Fatal)),
            (plan("oltp_read_only", &skip_trx), Some(Level::Warning)),
            (plan("oltp_read_write", &[]), None),
        ] {
            assert_eq!(autocommit(&server, &plan).map(|check| check.level), level);
        }
    }

    #[test]
    fn an_accounts_hourly_limits_are_read_and_its_hash_is_not() {
        let account = "CREATE USER `sysbench`@`%` IDENTIFIED BY PASSWORD '*B9049AE9' WITH MAX_QUERIES_PER_HOUR 100000 MAX_CONNECTIONS_PER_HOUR 0 MAX_USER_CONNECTIONS 5";
        assert_eq!(hourly_limits(account), BTreeMap::from([("MAX_QUERIES_PER_HOUR", 100_000)]));
        let plan = plan("oltp_read_only", &[]);
        let limited = |name, limit| Server { hourly: Some(BTreeMap::from([(name, limit)])), ..server(&[]) };
        let check = only(checks(&limited("MAX_QUERIES_PER_HOUR", 100_000), &plan, Protocol::Text));
        assert_eq!((check.level, check.code), (Level::Warning, "hourly-limit"));
        assert!(check.message.contains("MAX_QUERIES_PER_HOUR 100000; "), "{check}");
        let check = only(checks(&limited("MAX_CONNECTIONS_PER_HOUR", 101), &plan, Protocol::Text));
        assert_eq!(check.level, Level::Fatal);
        // Nothing is updated here.
        let none = checks(&limited("MAX_UPDATES_PER_HOUR", 1), &plan, Protocol::Text);
        assert!(none.iter().all(|check| check.level == Level::Ok), "{none:#?}");
    }

    #[test]
    fn tables_of_another_engine_are_counted() {
        let mut server = server(&[]);
        server.tables[3].engine = "MyISAM".into();
        let check = only(checks(&server, &plan("oltp_read_only", &[]), Protocol::Text));
        assert_eq!((check.level, check.code), (Level::Warning, "storage-engine"));
        assert!(check.message.contains("1 of 10 tables are MyISAM, not innodb"), "{check}");
    }

    #[test]
    fn encryption_that_was_asked_for_and_not_given_is_told() {
        let plain = Facts::default();
        assert_eq!(tls(&plain, SslMode::Disabled).level, Level::Ok);
        assert_eq!(tls(&plain, SslMode::Preferred).level, Level::Warning);
        assert_eq!(not_encrypted(&plain, SslMode::Disabled), None);
        assert_eq!(not_encrypted(&plain, SslMode::Preferred), Some(tls(&plain, SslMode::Preferred)));
        // As a server says that is behind a proxy, to which the connection is encrypted.
        let variables = vec![("Ssl_cipher".to_string(), String::new())];
        let encryption = Some("TLSv1.3 TLS_AES_128_GCM_SHA256".to_string());
        let encrypted = Facts { encryption, variables, ..Facts::default() };
        let check = tls(&encrypted, SslMode::Preferred);
        assert_eq!(check.level, Level::Ok);
        assert!(check.message.contains("encrypted by TLSv1.3 TLS_AES_128_GCM_SHA256"), "{check}");
        assert_eq!(not_encrypted(&encrypted, SslMode::Preferred), None);
    }

    #[test]
    fn numbers_that_no_server_has_are_judged_like_others() {
        let most = u64::MAX.to_string();
        let largest = ["Threads_connected", "Prepared_stmt_count", "table_open_cache_instances", "version"];
        let changes = largest.map(|name| (name, Some(if name == "version" { "8.4.3" } else { &most })));
        let table = Stored { wanted_engine: Some("innodb".into()), engine: "InnoDB".into(), bytes: u64::MAX };
        let server = Server {
            users_connections: Some(u64::MAX),
            tables: vec![table; 2],
            ..server(&[&changes[..], &[("max_user_connections", Some("500"))]].concat())
        };
        let checks = checks(&server, &plan("oltp_read_write", &[]), Protocol::Prepared);
        let bad: Vec<&str> = checks.iter().filter(|check| check.level > Level::Ok).map(|check| check.code).collect();
        let expected =
            ["max-connections", "max-user-connections", "prepared-statements", "table-open-cache", "buffer-pool"];
        assert_eq!(bad, expected, "{checks:#?}");
        let advice = |code| &checks.iter().find(|check| check.code == code).unwrap().advice;
        assert!(advice("max-connections").contains(&most), "{checks:#?}");
    }

    #[test]
    fn a_server_that_shows_nothing_gives_one_note_of_what_is_not_known() {
        let check = only(checks(&Server::default(), &plan("oltp_read_write", &[]), Protocol::Prepared));
        assert_eq!((check.level, check.code), (Level::Note, "not-known"));
        assert!(check.message.contains("max_connections") && check.message.contains("Threads_connected"), "{check}");
    }
}
