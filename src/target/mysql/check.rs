//! What would go wrong on a MySQL or MariaDB server, before it does.
//!
//! [`Server`] is asked once, over a control connection; everything else is a pure function of what it answered and of
//! what the run demands. A server that does not have a variable, or does not show it to this user, is no error: a check
//! that lacks it says nothing, and one line tells what is not known. A value of 0 is "no limit" where MySQL means that.
//!
//! Must not import: `metrics`, `engine`, `report`, `cli`.

use std::collections::BTreeMap;

use crate::spec::{Protocol, SslMode};
use crate::target::check::{Check, Demand, Level, size};
use crate::target::schema::quoted;
use crate::target::{Control, Facts, Fault, FaultClass};
use crate::workload::plan::Plan;

/// What the checks ask for beside the variables of [`Facts`]. As SHOW SESSION VARIABLES gives them, max_user_connections
/// is what holds for this account, whether by the account's own limit or by the server's.
const VARIABLES: [&str; 8] = [
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
    /// Empty where the session is not encrypted.
    cipher: Option<String>,
    /// Connections of this user, with the one that asked.
    users_connections: Option<u64>,
    /// Those of [`HOURLY`] that the account has; `None` where not known.
    hourly: Option<BTreeMap<&'static str, u64>>,
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
        let cipher = shown("SESSION STATUS", &["Ssl_cipher"])?.remove("Ssl_cipher");
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
            cipher,
            users_connections: users_connections.and_then(|count| count.parse().ok()),
            hourly: account.as_deref().map(hourly_limits),
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
    let prepared_in_use = server.number("Prepared_stmt_count").unwrap_or(0);
    let checks = [
        engines(server),
        read_only(&server.facts, demand.plan),
        connections(server, demand),
        users_connections(server, demand),
        hourly(server, demand),
        prepared_statements(&server.facts, prepared_in_use, demand),
        table_cache(server, demand),
        open_files(server, demand),
        memory(server),
        isolation(server),
        autocommit(&server.facts, demand.plan),
        durability(server, demand.plan),
        query_cache(server),
        logging(server),
        tls(server, ssl_mode),
        not_known(server),
    ];
    checks.into_iter().flatten().collect()
}

/// What a run must not begin with, of what its facts tell.
pub fn refusals(facts: &Facts, plan: &Plan) -> Vec<Check> {
    let checks = [read_only(facts, plan), autocommit(facts, plan)];
    checks.into_iter().flatten().filter(|check| check.level == Level::Fatal).collect()
}

fn read_only(facts: &Facts, plan: &Plan) -> Option<Check> {
    const CODE: &str = "read-only";
    // MariaDB's read_only has more values than ON and OFF; an Aurora reader is known by innodb_read_only.
    let names = ["read_only", "super_read_only", "innodb_read_only"];
    let on = names.into_iter().find(|name| facts.variable(name).is_some_and(|value| value != "OFF"));
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

/// Without autocommit and without BEGIN everything a connection does is one transaction without an end.
fn autocommit(facts: &Facts, plan: &Plan) -> Option<Check> {
    if plan.transaction.begin || facts.variable("autocommit")? != "OFF" {
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
    Some(Check::new(level, "autocommit", message, "SET GLOBAL autocommit = ON, or do without --skip-trx"))
}

fn connections(server: &Server, demand: &Demand<'_>) -> Option<Check> {
    const CODE: &str = "max-connections";
    let limit = server.limit("max_connections")?;
    // The one that asked will be gone.
    let others = server.number("Threads_connected").map_or(0, |connected| connected.saturating_sub(1));
    let needed = demand.connections();
    let found = format!("{needed} connections are needed; max_connections is {limit}, others have {others}");
    Some(match needed + others <= limit {
        true => Check::ok(CODE, found),
        false => Check::new(
            Level::Fatal,
            CODE,
            found,
            format!(
                "raise max_connections to {} or use fewer --threads; only a proxy that shares connections takes more",
                needed + others
            ),
        ),
    })
}

fn users_connections(server: &Server, demand: &Demand<'_>) -> Option<Check> {
    const CODE: &str = "max-user-connections";
    let limit = server.limit("max_user_connections")?;
    let others = server.users_connections.map_or(0, |connected| connected.saturating_sub(1));
    let needed = demand.connections();
    let found = format!("this user may have {limit} connections and has {others}; {needed} are needed");
    Some(match needed + others <= limit {
        true => Check::ok(CODE, found),
        false => Check::new(
            Level::Fatal,
            CODE,
            found,
            format!("raise max_user_connections, the server's or the account's, to {}", needed + others),
        ),
    })
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

/// Prepared statements a run may hold, against what the server can hold. `in_use` are those of others; a run that
/// follows another must not take the ones that are just being closed for a reason to send text, so it leaves them out.
pub fn prepared_statements(facts: &Facts, in_use: u64, demand: &Demand<'_>) -> Option<Check> {
    const CODE: &str = "prepared-statements";
    if demand.protocol == Protocol::Text {
        return None;
    }
    // Proxies and compatible servers may have no such limit.
    let limit: u64 = facts.variable("max_prepared_stmt_count")?.parse().ok()?;
    let needed = u64::from(demand.threads) * super::MySqlTarget::prepared_statements_per_session(demand.plan);
    if needed > limit {
        return Some(Check::new(
            Level::Warning,
            PREPARED_REPLACED,
            format!("the run needs up to {needed} prepared statements and the server allows {limit}: text is sent"),
            format!("for prepared statements raise max_prepared_stmt_count to {needed} (at most 4194304)"),
        ));
    }
    Some(match needed + in_use > limit {
        true => Check::new(
            Level::Warning,
            CODE,
            format!("up to {needed} prepared statements are needed; the server allows {limit}, others hold {in_use}"),
            format!("raise max_prepared_stmt_count to {}, or statements may fail with error 1461", needed + in_use),
        ),
        false => Check::ok(CODE, format!("up to {needed} prepared statements are needed; the server allows {limit}")),
    })
}

/// Code of the check by which a run sends text instead of prepared statements.
pub const PREPARED_REPLACED: &str = "prepared-replaced-by-text";

/// Each connection belongs to one part of MySQL's cache and opens every table in it; more are open only while several
/// connections of a part use the same table. MariaDB makes parts only when its cache is contended, so it counts as one.
fn table_cache(server: &Server, demand: &Demand<'_>) -> Option<Check> {
    const CODE: &str = "table-open-cache";
    let cache = server.limit("table_open_cache")?;
    let parts = match server.variable("version").is_some_and(|version| version.contains("MariaDB")) {
        true => 1,
        false => server.limit("table_open_cache_instances").unwrap_or(1),
    };
    let (tables, threads) = (demand.tables(), u64::from(demand.threads));
    let needed = (tables + threads.div_ceil(parts)) * parts;
    let in_parts = if parts > 1 { format!(" in {parts} parts") } else { String::new() };
    let found = format!("{tables} tables and {threads} threads need about {needed} open tables");
    let found = format!("{found}; table_open_cache is {cache}{in_parts}");
    Some(match needed <= cache {
        true => Check::ok(CODE, found),
        false => Check::new(
            Level::Warning,
            CODE,
            found,
            format!("raise table_open_cache to {needed}, or tables are closed and opened again all the time"),
        ),
    })
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
    let data: u64 = server.tables.iter().filter(|table| is_innodb(&table.engine)).map(|table| table.bytes).sum();
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
    const CODE: &str = "isolation";
    let name = ["transaction_isolation", "tx_isolation"].into_iter().find(|name| server.variable(name).is_some())?;
    let value = server.variable(name)?;
    let found = format!("{name} is {value}");
    Some(match value {
        "REPEATABLE-READ" => Check::ok(CODE, found),
        _ => {
            Check::new(Level::Note, CODE, found, "the default is REPEATABLE-READ: compare with runs at the same level")
        }
    })
}

fn durability(server: &Server, plan: &Plan) -> Option<Check> {
    const CODE: &str = "durability";
    let flush = server.variable("innodb_flush_log_at_trx_commit").filter(|_| plan.writes())?;
    let mut settings = vec![format!("innodb_flush_log_at_trx_commit={flush}")];
    let mut safe = flush == "1";
    if let Some(doublewrite) = server.variable("innodb_doublewrite") {
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
    let state =
        if server.is_on("performance_schema") { "on, as is MySQL's default" } else { "off, as is MariaDB's default" };
    server.variable("performance_schema").map(|_| Check::ok(CODE, format!("performance_schema is {state}")))
}

fn tls(server: &Server, mode: SslMode) -> Option<Check> {
    const CODE: &str = "tls";
    let cipher = server.cipher.as_deref()?;
    let asked = format!("--ssl-mode is {}", mode.name());
    Some(match (cipher, mode) {
        ("", SslMode::Disabled) => Check::ok(CODE, format!("connections are not encrypted; {asked}")),
        ("", _) => Check::new(
            Level::Warning,
            CODE,
            format!("connections are not encrypted although {asked}"),
            "the server offers no TLS: give it a certificate, or measure with --ssl-mode disabled",
        ),
        (cipher, _) => Check::ok(CODE, format!("connections are encrypted by {cipher}; {asked}")),
    })
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
