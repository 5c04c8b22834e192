//! `oltpbench check` on real servers: what it calls fatal ends a run, and what it finds in order lets one through.

mod support;

use std::collections::BTreeMap;

use serde_json::Value;
use support::Server;
use support::program::{fail, oltpbench, report_of, succeed, text};

/// Servers that are installed; the support module says loudly which are not.
fn servers(arguments: &[&str]) -> Vec<Server> {
    [Server::mariadb(arguments), Server::mysql(arguments)].into_iter().flatten().collect()
}

const SMALL: [&str; 4] = ["--tables", "3", "--table-size", "1000"];

fn prepare(server: &Server) {
    succeed(&[&["prepare", "--url", &server.url()], &SMALL[..]].concat());
}

/// What a check says.
struct Said {
    /// Level and message of each check, by its code.
    checks: BTreeMap<String, (String, String)>,
    code: Option<i32>,
    text: String,
}

impl Said {
    #[track_caller]
    fn says(&self, code: &str, level: &str, part: &str) {
        let said = self.checks.get(code).unwrap_or_else(|| panic!("nothing of {code} in\n{}", self.text));
        assert!(said.0 == level && said.1.contains(part), "{code} is {said:?}, not {level} with {part:?}");
    }

    /// Codes of those that are neither ok nor notes.
    fn worries(&self) -> Vec<&str> {
        let bad = self.checks.iter().filter(|(_, (level, _))| level == "warning" || level == "fatal");
        bad.map(|(code, _)| code.as_str()).collect()
    }
}

fn check(url: &str, arguments: &[&str]) -> Said {
    let (document, output) = report_of(oltpbench(&[&["check", "--url", url], arguments].concat()));
    let of = |check: &Value, name: &str| check[name].as_str().unwrap().to_string();
    let checks = document["checks"].as_array().unwrap().iter();
    let checks = checks.map(|check| (of(check, "code"), (of(check, "level"), of(check, "message")))).collect();
    let said = Said { checks, code: output.status.code(), text: text(&output.stdout) };
    let lines = said.text.lines().skip_while(|line| !line.is_empty());
    assert!(lines.clone().all(|line| line.chars().count() <= 80), "{}", said.text);
    said
}

#[test]
fn a_user_who_may_not_send_the_statements_is_told_before_the_run() {
    for server in servers(&[]) {
        prepare(&server);
        server.sql("CREATE USER reader@'%' IDENTIFIED BY 'reader'; GRANT SELECT ON sbtest.* TO reader@'%'");
        let url = server.url().replace("sysbench:sysbench", "reader:reader");
        let said = check(&url, &[&["--mode", "read-write"], &SMALL[..]].concat());
        said.says("privileges", "fatal", "denied to user 'reader'");
        assert_eq!(said.code, Some(1), "{}", said.text);
        let said = check(&url, &[&["--mode", "read-only"], &SMALL[..]].concat());
        assert!(!said.checks.contains_key("privileges") && said.code == Some(0), "{}", said.text);
    }
}

/// Holds the verdict of a check against what a run of the same options then does.
#[track_caller]
fn a_run_agrees(server: &Server, arguments: &[&str]) -> Said {
    let said = check(&server.url(), arguments);
    let url = server.url();
    let run = [&["run", "--url", &url, "--events", "20", "--time", "0"], arguments].concat();
    let run = oltpbench(&run).output().unwrap();
    assert_eq!(said.code, run.status.code(), "{}\n{}", said.text, text(&run.stderr));
    let fails = said.text.ends_with("this run would fail.\n");
    assert_eq!(fails, said.code == Some(1), "{}", said.text);
    said
}

#[test]
fn a_server_in_good_order_gets_no_warning() {
    for server in servers(&["--table-open-cache=2000"]) {
        prepare(&server);
        for mode in ["read-only", "read-write"] {
            let said = a_run_agrees(&server, &[&["--mode", mode, "--threads", "8"], &SMALL[..]].concat());
            assert_eq!(said.worries(), [""; 0], "{}", said.text);
            said.says("tables", "ok", "3 sbtest of 1000 rows");
            said.says("max-connections", "ok", "10 connections are needed; max_connections is 1200");
            said.says("buffer-pool", "ok", "KiB");
            said.says("tls", "ok", "not encrypted");
            said.says("cores", "note", "8 threads");
            assert!(!said.checks.contains_key("not-known"), "{}", said.text);
        }
    }
}

#[test]
fn limits_that_are_too_small_are_told_with_their_figures() {
    let limits = [
        // Room for connections that a command before has not quite closed.
        "--max-connections=40",
        "--max-prepared-stmt-count=100",
        "--table-open-cache=20",
        "--innodb-open-files=20",
        "--innodb-buffer-pool-size=8M",
        "--general-log",
    ];
    for server in servers(&limits) {
        let large = ["--tables", "3", "--table-size", "20000", "--threads", "15"];
        succeed(&[&["prepare", "--url", &server.url()], &large[..4]].concat());
        let said = a_run_agrees(&server, &large);
        said.says("prepared-replaced-by-text", "warning", "up to 225 prepared statements and the server allows 100");
        said.says("server-open-files", "warning", "InnoDB keeps 20 files open");
        said.says("buffer-pool", "note", "this run reads from the disk");
        said.says("logging", "warning", "general log");
        // MySQL's cache has a part for each of several threads, MariaDB's for all.
        let tables = if server.version().contains("MariaDB") { "ok" } else { "warning" };
        said.says("table-open-cache", tables, "table_open_cache is");
        let said = a_run_agrees(&server, &[&large[..4], &["--threads", "50"]].concat());
        said.says("max-connections", "fatal", "52 connections are needed; max_connections is 40");
        said.says("table-open-cache", "warning", "3 tables and 50 threads");
    }
}

#[test]
fn an_accounts_limits_are_seen_without_any_right() {
    for server in servers(&[]) {
        prepare(&server);
        let limit = |limits: &str| {
            for host in ["%", "127.0.0.1", "localhost"] {
                server.sql(&format!("ALTER USER sysbench@'{host}' WITH {limits}"));
            }
        };
        limit("MAX_USER_CONNECTIONS 6 MAX_QUERIES_PER_HOUR 100000");
        let said = a_run_agrees(&server, &[&["--threads", "8"], &SMALL[..]].concat());
        said.says("max-user-connections", "fatal", "this user may have 6 connections");
        said.says("hourly-limit", "warning", "MAX_QUERIES_PER_HOUR 100000");
        limit("MAX_USER_CONNECTIONS 0 MAX_QUERIES_PER_HOUR 0 MAX_CONNECTIONS_PER_HOUR 9");
        server.sql("FLUSH USER_RESOURCES");
        let said = a_run_agrees(&server, &[&["--threads", "8"], &SMALL[..]].concat());
        said.says("hourly-limit", "fatal", "MAX_CONNECTIONS_PER_HOUR 9");
    }
}

#[test]
fn settings_that_change_figures_are_told() {
    let settings = ["--transaction-isolation=READ-COMMITTED", "--innodb-flush-log-at-trx-commit=2"];
    for server in servers(&settings) {
        prepare(&server);
        let writes = [&["--mode", "read-write"], &SMALL[..]].concat();
        let said = a_run_agrees(&server, &writes);
        said.says("isolation", "note", "READ-COMMITTED");
        said.says("durability", "note", "innodb_flush_log_at_trx_commit=2");
        assert!(!a_run_agrees(&server, &SMALL).checks.contains_key("durability"));
        server.sql("SET GLOBAL read_only = ON");
        a_run_agrees(&server, &writes).says("read-only", "fatal", "read_only is on");
        a_run_agrees(&server, &SMALL).says("read-only", "ok", "so is this workload");
        server.sql("SET GLOBAL read_only = OFF");
        let read_only = ["--init-sql", "SET SESSION TRANSACTION READ ONLY"];
        let said = a_run_agrees(&server, &[&read_only, &writes[..]].concat());
        said.says("read-only", "fatal", "sessions are read-only");
        assert_eq!(a_run_agrees(&server, &[&read_only, &SMALL[..]].concat()).code, Some(0));
        let message = fail(1, &[&["cleanup", "--url", &server.url()], &read_only[..], &SMALL[..]].concat());
        assert!(message.contains("transactions of this session are read-only; look at --init-sql"), "{message}");
        server.sql("SET GLOBAL autocommit = OFF");
        a_run_agrees(&server, &[&["--mode", "update-index"], &SMALL[..]].concat()).says("autocommit", "fatal", "off");
        assert!(!a_run_agrees(&server, &writes).checks.contains_key("autocommit"));
    }
    if let Some(server) = Server::mariadb(&["--query-cache-type=ON", "--query-cache-size=1M"]) {
        prepare(&server);
        a_run_agrees(&server, &SMALL).says("query-cache", "warning", "1.0 MiB");
    }
}

#[test]
fn encryption_is_told_as_it_came_to_be() {
    for server in servers(&[]) {
        prepare(&server);
        let said = a_run_agrees(&server, &[&["--ssl-mode", "preferred"], &SMALL[..]].concat());
        match server.version().contains("MariaDB") {
            // This one is started without a certificate.
            true => said.says("tls", "warning", "not encrypted although --ssl-mode is preferred"),
            false => said.says("tls", "ok", "encrypted by TLSv1.3 TLS_"),
        }
    }
}

#[test]
fn tables_that_do_not_suit_are_told() {
    for server in servers(&[]) {
        prepare(&server);
        a_run_agrees(&server, &["--tables", "5", "--table-size", "1000"]).says(
            "tables",
            "fatal",
            "table sbtest4 is missing (2 of 5 tables)",
        );
        let said = a_run_agrees(&server, &["--tables", "3", "--table-size", "1001"]);
        said.says("tables", "fatal", "sbtest1 holds ids 1 to 1000");
        server.sql("ALTER TABLE sbtest.sbtest3 ENGINE = MyISAM; DROP INDEX k_2 ON sbtest.sbtest2");
        let said = a_run_agrees(&server, &SMALL);
        said.says("storage-engine", "warning", "1 of 3 tables are MyISAM, not innodb");
        said.says("index-missing", "fatal", "table sbtest2 has no usable index on k (1 of 3 tables)");
        let kinds =
            if server.version().contains("MariaDB") { ["IGNORED", "NOT IGNORED"] } else { ["INVISIBLE", "VISIBLE"] };
        let set = |kind: &str| server.sql(&format!("ALTER TABLE sbtest.sbtest1 ALTER INDEX k_1 {kind}"));
        set(kinds[0]);
        a_run_agrees(&server, &SMALL).says(
            "index-missing",
            "fatal",
            "sbtest1 has no usable index on k (2 of 3 tables)",
        );
        set(kinds[1]);
        // Another name does as well, and so do more columns.
        server.sql("CREATE INDEX other ON sbtest.sbtest2 (k, c); ALTER TABLE sbtest.sbtest3 ENGINE = InnoDB");
        let said = a_run_agrees(&server, &SMALL);
        assert!(!said.checks.contains_key("index-missing") && !said.checks.contains_key("storage-engine"));
    }
}

#[test]
fn sqlite_is_checked_for_its_tables_and_a_simulation_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("test.sqlite").display());
    let message = fail(1, &["check", "--url", &url]);
    assert!(message.contains("there is no SQLite file"), "{message}");
    succeed(&[&["prepare", "--url", &url], &SMALL[..]].concat());
    let said = check(&url, &[&["--threads", "4"], &SMALL[..]].concat());
    assert_eq!((said.code, said.worries()), (Some(0), vec![]), "{}", said.text);
    assert!(said.text.ends_with("Nothing stands in the way of this run.\n"), "{}", said.text);
    said.says("file-size", "ok", "KiB");
    said.says("cores", "ok", "4 threads");
    check(&url, &["--tables", "4", "--table-size", "1000"]).says("tables", "fatal", "table sbtest4 is missing");

    succeed(&[&["cleanup", "--url", &url], &SMALL[..]].concat());
    succeed(&[&["prepare", "--url", &url, "--create-secondary", "off"], &SMALL[..]].concat());
    check(&url, &SMALL).says("index-missing", "fatal", "table sbtest1 has no usable index on k (3 of 3 tables)");
    let message = fail(1, &[&["run", "--url", &url, "--events", "1"], &SMALL[..]].concat());
    assert!(message.contains("table sbtest1 has no usable index on k"), "{message}");
    assert!(check(&url, &[&["--create-secondary", "off"], &SMALL[..]].concat()).worries().is_empty());

    let said = check("simulated:", &["--threads", "4"]);
    assert_eq!((said.code, said.checks.len()), (Some(0), 0));
    let message = fail(2, &["check", "--url", "simulated:", "--validate"]);
    assert!(message.contains("--validate needs a database"), "{message}");
}

#[test]
fn a_profile_counts_for_a_check_as_for_its_run() {
    let text = succeed(&["check", "--url", "simulated:", "--mode", "read-write", "--profile", "aurora-whitepaper"]);
    assert!(text.contains("threads:                             1000"), "{text}");
    assert!(text.contains("statements:                          text"), "{text}");
}
