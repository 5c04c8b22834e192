//! sysbench 1.0 itself as the judge: what it sends, its defaults and its counts, against ours.
//!
//! Both run on the same MariaDB and the server's general log is compared. Without sysbench or MariaDB these tests say so
//! and count as skipped; with CI=true that is a failure.

mod support;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;

use support::Server;
use support::program::{report, succeed, text};

/// Runs sysbench on the server; `None` if it is not installed.
fn sysbench(server: &Server, arguments: &[&str]) -> Option<String> {
    let port = format!("--mysql-port={}", server.port());
    let login = ["--mysql-host=127.0.0.1", "--mysql-user=sysbench", "--mysql-password=sysbench", "--mysql-db=sbtest"];
    match Command::new("sysbench").args(login).arg(port).args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{arguments:?}\n{}{}", text(&output.stdout), text(&output.stderr));
            Some(text(&output.stdout))
        }
        Err(_) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "sysbench is not installed");
            let _ = writeln!(std::io::stderr(), "SKIPPED: sysbench is not installed (apt-get install sysbench)");
            None
        }
    }
}

/// What the server was sent meanwhile by the tests' user, in order: the kind of message and what it said.
fn logged(server: &Server, work: impl FnOnce()) -> Vec<(String, String)> {
    server.sql("SET GLOBAL log_output='TABLE'; TRUNCATE mysql.general_log; SET GLOBAL general_log=ON");
    work();
    let rows = server.sql(
        "SET GLOBAL general_log=OFF; SELECT command_type, argument FROM mysql.general_log
         WHERE user_host LIKE 'sysbench%'",
    );
    rows.into_iter().map(|row| (row[0].clone(), normal(&row[1]))).collect()
}

/// A statement with white space and values made the same: numbers become N, texts 'S', lists of rows one row.
fn normal(statement: &str) -> String {
    let mut plain = String::new();
    let mut characters = statement.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect::<Vec<_>>();
    characters.push(' ');
    let mut at = 0;
    while at < characters.len() {
        let character = characters[at];
        if character == '\'' {
            at += 1;
            while characters[at] != '\'' {
                at += 1;
            }
            plain.push_str("'S'");
        } else if character.is_ascii_digit() {
            while characters[at + 1].is_ascii_digit() {
                at += 1;
            }
            plain.push('N');
        } else {
            plain.push(character);
        }
        at += 1;
    }
    // White space inside brackets means nothing; neither does the sign of a number.
    let plain = plain.replace("( ", "(").replace(" )", ")").replace(" (", "(").replace("-N", "N");
    let mut shorter = plain.trim().to_string();
    while shorter.contains("(N,N),(N,N)") {
        shorter = shorter.replace("(N,N),(N,N)", "(N,N)");
    }
    shorter
}

/// What oltpbench asks before a run, each once at most; sysbench asks nothing.
const CHECKS: [&str; 4] = [
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN(",
    "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN(",
    "SELECT 'S', MIN(id), MAX(id) FROM sbtestN",
    "SELECT @@max_prepared_stmt_count",
];

/// The statements of the transactions and how each was sent. Only the given checks, preparing, closing and leaving may
/// come beside them.
fn of_run(log: Vec<(String, String)>, checks: &[&str]) -> Vec<String> {
    let mut asked = Vec::new();
    let mut statements = Vec::new();
    for (message, statement) in log {
        match message.as_str() {
            "Prepare" | "Close stmt" | "Quit" => {}
            // sysbench prepares these two where the server can; see ARCHITECTURE.md.
            "Query" | "Execute" if statement == "BEGIN" || statement == "COMMIT" => statements.push(statement),
            "Query" | "Execute" => match checks.iter().find(|check| statement.starts_with(**check)) {
                Some(check) => {
                    assert!(!asked.contains(check), "asked twice: {statement}");
                    asked.push(*check);
                }
                None => {
                    assert!(statement.contains("sbtestN"), "neither a check nor of a transaction: {statement}");
                    statements.push(format!("{message} {statement}"));
                }
            },
            _ => panic!("an unexpected message: {message} {statement}"),
        }
    }
    statements
}

/// How often each statement came.
fn counted(statements: &[String]) -> BTreeMap<&str, usize> {
    statements.iter().fold(BTreeMap::new(), |mut counts, statement| {
        *counts.entry(statement.as_str()).or_default() += 1;
        counts
    })
}

const SIZE: [&str; 2] = ["--tables=2", "--table-size=200"];

#[test]
fn every_workload_sends_what_sysbench_sends() {
    let Some(server) = Server::mariadb(&[]) else { return };
    let url = server.url();
    for name in succeed(&["workloads", "list"]).lines().filter_map(|line| line.split_whitespace().next()) {
        let (ours_size, theirs_size): (&[&str], &[&str]) = match name {
            "bulk_insert" => (&[], &[]),
            "select_random_points" | "select_random_ranges" => (&["--table-size=200"], &["--table-size=200"]),
            _ => (&SIZE, &SIZE),
        };
        for mode in ["auto", "disable"] {
            let load = [&["prepare", "--workload", name, "--url", &url, "--threads", "1"], ours_size].concat();
            succeed(&load);
            let ps = format!("--db-ps-mode={mode}");
            let mut theirs = None;
            // sysbench counts each row of bulk_insert as an event, so it sends one statement for many.
            let events = if name == "bulk_insert" { "--events=1000" } else { "--events=10" };
            let statements = logged(&server, || {
                theirs = sysbench(&server, &[&[name, "--threads=1", events, &ps], theirs_size, &["run"]].concat());
            });
            if theirs.is_none() {
                return;
            }
            let theirs = of_run(statements, &[]);
            if name == "bulk_insert" {
                server.sql("TRUNCATE sbtest.sbtest1");
            }
            let events = if name == "bulk_insert" { "--events=1" } else { "--events=10" };
            let log = logged(&server, || {
                let run = ["run", "--workload", name, "--url", &url, "--threads=1", events, &ps];
                succeed(&[&run[..], ours_size].concat());
            });
            let ours = of_run(log, &CHECKS);
            assert!(!theirs.is_empty(), "{name} {mode}");
            assert_eq!(counted(&ours), counted(&theirs), "{name} {mode}");
            assert_eq!(ours, theirs, "{name} {mode}: the order");
            succeed(&[&["cleanup", "--workload", name, "--url", &url], ours_size].concat());
        }
    }
}

#[test]
fn prepare_makes_the_tables_that_sysbench_makes() {
    let Some(server) = Server::mariadb(&[]) else { return };
    let url = server.url();
    let shapes = |server: &Server| {
        ["sbtest1", "sbtest2"].map(|table| {
            let create = server.sql(&format!("SHOW CREATE TABLE sbtest.{table}"))[0][1].clone();
            // The next auto-increment value depends on who chose the ids; ours are explicit.
            create.split_whitespace().filter(|word| !word.starts_with("AUTO_INCREMENT=")).collect::<Vec<_>>().join(" ")
        })
    };
    for knobs in [
        &[][..],
        &["--auto-inc=off"],
        &["--secondary=on"],
        &["--create-secondary=off"],
        &["--mysql-storage-engine=myisam"],
    ] {
        let mut theirs = None;
        let their_log = logged(&server, || {
            theirs = sysbench(&server, &[&["oltp_read_write"], &SIZE[..], knobs, &["prepare"]].concat());
        });
        if theirs.is_none() {
            return;
        }
        let their_shapes = shapes(&server);
        sysbench(&server, &[&["oltp_read_write"], &SIZE[..], &["cleanup"]].concat());
        let our_log = logged(&server, || {
            succeed(&[&["prepare", "--url", &url], &SIZE[..], knobs].concat());
        });
        assert_eq!(shapes(&server), their_shapes, "{knobs:?}");
        let ddl = |log: &[(String, String)]| {
            let statements = log.iter().map(|(_, statement)| statement);
            let mut ddl: Vec<String> =
                statements.filter(|statement| statement.starts_with("CREATE")).cloned().collect();
            ddl.sort();
            ddl
        };
        assert_eq!(ddl(&our_log), ddl(&their_log), "{knobs:?}");
        let rows =
            server.sql("SELECT COUNT(*), MIN(id), MAX(id), MIN(LENGTH(c)), MAX(LENGTH(pad)) FROM sbtest.sbtest2");
        assert_eq!(rows, [["200", "1", "200", "119", "59"]]);
        succeed(&[&["cleanup", "--url", &url], &SIZE[..]].concat());
    }
}

#[test]
fn defaults_are_sysbenchs_but_for_those_that_the_manual_names() {
    let Some(server) = Server::mariadb(&[]) else { return };
    for name in succeed(&["workloads", "list"]).lines().filter_map(|line| line.split_whitespace().next()) {
        if name == "bulk_insert" {
            // It has no options in sysbench.
            continue;
        }
        let Some(help) = sysbench(&server, &[name, "help"]) else { return };
        let ours = succeed(&["run", "--workload", name, "--help"]);
        let offered = offered_options(&ours);
        let theirs: BTreeMap<String, String> = help.lines().filter_map(sysbench_option).collect();
        assert!(theirs.len() > 10, "{help}");
        let own = ["tables", "table-size"];
        for (option, default) in &offered {
            match theirs.get(option) {
                Some(_) if own.contains(&option.as_str()) => {}
                Some(theirs) => assert_eq!(default, theirs, "{name} --{option}"),
                None => assert_eq!(option, "one-table", "{name} has an option that sysbench has not"),
            }
        }
        if !name.starts_with("select") {
            assert_eq!(offered.get("tables").map(String::as_str), Some("250"));
        }
        assert_eq!(offered.get("table-size").map(String::as_str), Some("25000"));
    }
    let Some(help) = sysbench(&server, &["--help"]) else { return };
    for (option, default) in [
        ("threads", "1"),
        ("events", "0"),
        ("time", "10"),
        ("rand-spec-iter", "12"),
        ("rand-spec-pct", "1"),
        ("rand-spec-res", "75"),
        ("rand-pareto-h", "0.2"),
        ("db-ps-mode", "auto"),
    ] {
        let theirs: BTreeMap<String, String> = help.lines().filter_map(sysbench_option).collect();
        let found = theirs.get(option).map(|value| value.trim_start_matches('0').to_string());
        assert_eq!(found.as_deref(), Some(default.trim_start_matches('0')), "sysbench's --{option}");
        let ours = succeed(&["run", "--help"]);
        let at = ours.find(&format!("--{option} ")).unwrap_or_else(|| panic!("--{option} is missing"));
        let default = format!("[default: {default}]");
        assert!(ours[at..].split("\n  -").next().unwrap().contains(&default), "--{option} {default}\n{ours}");
    }
}

/// Name and default of a line such as `  --range_size=N   Range size ... [100]`.
fn sysbench_option(line: &str) -> Option<(String, String)> {
    let option = line.trim().strip_prefix("--")?;
    let end = option.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')?;
    let default = line.trim().strip_suffix(']')?.rsplit('[').next()?;
    Some((option[..end].replace('_', "-"), default.to_string()))
}

/// Name and default of each option of the workload, from our help.
fn offered_options(help: &str) -> BTreeMap<String, String> {
    let own = help.split("Options of workload").nth(1).expect("a heading for the workload's options");
    let mut options = BTreeMap::new();
    for part in own.split("      --").skip(1) {
        let name = part.split([' ', '[', '\n']).next().unwrap().to_string();
        let default = part.split("[default: ").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
        options.insert(name, default.to_string());
    }
    options
}

#[test]
fn reads_writes_and_others_are_counted_as_sysbench_counts_them() {
    let Some(server) = Server::mariadb(&[]) else { return };
    let url = server.url();
    for name in ["oltp_read_only", "oltp_read_write", "oltp_write_only", "oltp_point_select", "oltp_update_non_index"] {
        succeed(&[&["prepare", "--workload", name, "--url", &url], &SIZE[..]].concat());
        let arguments = [&[name, "--threads=1", "--events=50"], &SIZE[..], &["run"]].concat();
        let Some(theirs) = sysbench(&server, &arguments) else { return };
        let ours = report(&[&["run", "--workload", name, "--url", &url, "--events=50"], &SIZE[..]].concat());
        for (label, key) in [("read:", "reads"), ("write:", "writes"), ("other:", "other"), ("total:", "queries")] {
            let line = theirs.lines().find(|line| line.trim().starts_with(label)).expect(label);
            let value: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
            assert_eq!(ours["totals"][key].as_u64(), Some(value), "{name} {label}");
        }
        succeed(&[&["cleanup", "--workload", name, "--url", &url], &SIZE[..]].concat());
    }
}
