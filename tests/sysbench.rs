//! sysbench 1.0 itself as the judge: what it sends, its defaults and its counts, against ours.
//!
//! Both run on the same MariaDB and the server's general log is compared. Without sysbench or MariaDB these tests say so
//! and count as skipped; with CI=true that is a failure.

mod support;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;

use support::Server;
use support::null_server::{Behaviour, NullServer};
use support::program::{offered_options, report, succeed, text};

/// Runs sysbench on the server at a port; `None` if it is not installed.
fn sysbench(port: u16, arguments: &[&str]) -> Option<String> {
    let port = format!("--mysql-port={port}");
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
    let mut deleted = None;
    let mut log = Vec::new();
    for row in rows {
        let (message, statement) = (&row[0], &row[1]);
        log.push((message.clone(), normal(statement, deleted)));
        // Preparing, and what other connections say, may come between the two.
        if let Some((_, id)) = statement.strip_prefix("DELETE").and_then(|rest| rest.split_once("id=")) {
            deleted = id.trim().parse().ok();
        } else if statement.starts_with("INSERT") && message != "Prepare" {
            deleted = None;
        }
    }
    log
}

/// A statement with white space and values made the same: numbers become N, texts of digits their template, other texts
/// 'S', lists of rows one row. How values belong together stays: the length of a range, and that the row which was
/// deleted just before is inserted again.
fn normal(statement: &str, deleted: Option<i64>) -> String {
    let mut plain = String::new();
    let line = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rest = line.as_str();
    let mut from = None;
    while let Some(character) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('\'') {
            let (text, after) = quoted.split_once('\'').expect("the end of a text");
            let is_template = text.chars().all(|character| character.is_ascii_digit() || character == '-');
            let shape = if is_template { text.replace(|digit: char| digit.is_ascii_digit(), "#") } else { "S".into() };
            plain.push_str(&format!("'{shape}'"));
            rest = after;
        } else if character.is_ascii_digit() {
            let digits = rest.find(|other: char| !other.is_ascii_digit()).unwrap_or(rest.len());
            let number: i64 = rest[..digits].parse().expect("a number of 64 bits");
            plain.push('N');
            match from {
                Some(from) if plain.ends_with("BETWEEN N AND N") => plain.push_str(&format!("+{}", number - from)),
                _ if plain.replace(' ', "").ends_with("VALUES(N") && deleted == Some(number) => {
                    plain.push_str(" again")
                }
                _ => {}
            }
            from = plain.ends_with("BETWEEN N").then_some(number);
            rest = &rest[digits..];
        } else {
            plain.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    // White space inside brackets means nothing; neither does the sign of a number.
    let mut plain = plain.replace("( ", "(").replace(" )", ")").replace(" (", "(").replace("-N", "N");
    while plain.contains("(N,N),(N,N)") {
        plain = plain.replace("(N,N),(N,N)", "(N,N)");
    }
    plain
}

/// What oltpbench asks beside the transactions, and how often at most; sysbench asks nothing.
const CHECKS: [(&str, usize); 8] = [
    // Before the run.
    ("SHOW SESSION VARIABLES WHERE Variable_name IN(", 1),
    ("SELECT table_name, column_name, ordinal_position FROM information_schema.columns WHERE", 1),
    ("SELECT column_name FROM information_schema.columns WHERE table_schema = 'S' AND table_name = 'S' AND", 1),
    ("SELECT table_name, GROUP_CONCAT(column_name ORDER BY seq_in_index) FROM information_schema.statistics", 1),
    ("SELECT 'S', MIN(id), MAX(id) FROM sbtestN", 1),
    // On each connection, of which there is one.
    ("SHOW SESSION VARIABLES WHERE Variable_name = 'S'", 1),
    // At both ends of the window, the first to know whether there are digests.
    ("SHOW VARIABLES WHERE Variable_name = 'S'", 2),
    ("SHOW GLOBAL STATUS", 2),
];

/// The statements of the transactions and how each was sent. Only the given checks, preparing, closing, leaving and
/// one ping for the session's status may come beside them.
fn of_run(log: Vec<(String, String)>, checks: &[(&str, usize)]) -> Vec<String> {
    let mut asked = vec![0; checks.len()];
    let mut statements = Vec::new();
    for (message, statement) in log {
        match message.as_str() {
            "Connect" | "Ping" | "Prepare" | "Close stmt" | "Quit" => {}
            // sysbench prepares COMMIT, and BEGIN where the server can; we send text.
            "Query" | "Execute" if statement == "BEGIN" || statement == "COMMIT" => statements.push(statement),
            "Query" | "Execute" => match checks.iter().position(|(check, _)| statement.starts_with(check)) {
                Some(check) => {
                    asked[check] += 1;
                    assert!(asked[check] <= checks[check].1, "asked once too often: {statement}");
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

/// Holds what a workload sends with some options against what sysbench sends with them; false without sysbench.
fn sends_the_same(server: &Server, name: &str, mode: &str, options: &[&str]) -> bool {
    let url = server.url();
    let size = match name {
        "bulk_insert" => &[],
        "select_random_points" | "select_random_ranges" => &SIZE[1..],
        _ => &SIZE,
    };
    let what = format!("{name} {mode} {options:?}");
    let options = [size, options, &["--threads=1"]].concat();
    let load = |command| succeed(&[&[command, "--workload", name, "--url", &url], &options[..]].concat());
    load("prepare");
    let ran = [&["run", mode], &options[..]].concat();
    let mut said = None;
    // sysbench counts each row of bulk_insert as an event, so it sends one statement for many.
    let events = if name == "bulk_insert" { "--events=1000" } else { "--events=10" };
    let theirs = logged(server, || said = sysbench(server.port(), &[&[name, events], &ran[..]].concat()));
    if said.is_none() {
        return false;
    }
    // Both begin with the same tables, also where these begin empty.
    load("cleanup");
    load("prepare");
    let events = if name == "bulk_insert" { "--events=1" } else { "--events=10" };
    let ours = logged(server, || {
        succeed(&[&ran[..], &["--workload", name, "--url", &url, events]].concat());
    });
    let (ours, theirs) = (of_run(ours, &CHECKS), of_run(theirs, &[]));
    assert!(!theirs.is_empty(), "{what}");
    assert_eq!(counted(&ours), counted(&theirs), "{what}");
    assert_eq!(ours, theirs, "{what}: the order");
    load("cleanup");
    true
}

#[test]
fn every_workload_sends_what_sysbench_sends() {
    let Some(server) = Server::mariadb(&[]) else { return };
    for name in succeed(&["workloads", "list"]).lines().filter_map(|line| line.split_whitespace().next()) {
        for mode in ["--db-ps-mode=auto", "--db-ps-mode=disable"] {
            if !sends_the_same(&server, name, mode, &[]) {
                return;
            }
        }
    }
}

#[test]
fn options_of_a_workload_change_what_is_sent_as_they_do_in_sysbench() {
    let Some(server) = Server::mariadb(&[]) else { return };
    let counts = [
        "--range-size=7",
        "--point-selects=3",
        "--simple-ranges=2",
        "--sum-ranges=0",
        "--order-ranges=3",
        "--distinct-ranges=4",
        "--index-updates=2",
        "--non-index-updates=3",
        "--delete-inserts=4",
    ];
    let changed: [(&str, &[&str]); 9] = [
        ("oltp_read_write", &counts),
        ("oltp_read_write", &["--skip-trx=on"]),
        ("oltp_read_only", &["--range-selects=off"]),
        ("oltp_write_only", &["--skip-trx=on", "--auto-inc=off", "--secondary=on"]),
        ("oltp_update_index", &["--index-updates=3"]),
        ("oltp_update_non_index", &["--non-index-updates=3"]),
        ("oltp_insert", &["--auto-inc=off"]),
        ("select_random_points", &["--random-points=3"]),
        ("select_random_ranges", &["--number-of-ranges=3", "--delta=9"]),
    ];
    for (name, options) in changed {
        if !sends_the_same(&server, name, "--db-ps-mode=auto", options) {
            return;
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
            theirs = sysbench(server.port(), &[&["oltp_read_write"], &SIZE[..], knobs, &["prepare"]].concat());
        });
        if theirs.is_none() {
            return;
        }
        let their_shapes = shapes(&server);
        sysbench(server.port(), &[&["oltp_read_write"], &SIZE[..], &["cleanup"]].concat());
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

/// Options of sysbench's that no workload here has: another database's.
const ANOTHER_DATABASE: [&str; 1] = ["pgsql-variant"];

/// sysbench's options of every script, which oltpbench offers only where the workload's statements use them.
const ANOTHER_WORKLOAD: [&str; 13] = [
    "delete-inserts",
    "distinct-ranges",
    "index-updates",
    "non-index-updates",
    "order-ranges",
    "point-selects",
    "range-selects",
    "range-size",
    "simple-ranges",
    "skip-trx",
    "sum-ranges",
    // select_random_points and select_random_ranges read the first table only.
    "tables",
    "random-points",
];

#[test]
fn workloads_have_sysbenchs_options_and_defaults_but_for_those_named_here() {
    let Some(server) = Server::mariadb(&[]) else { return };
    for name in succeed(&["workloads", "list"]).lines().filter_map(|line| line.split_whitespace().next()) {
        if name == "bulk_insert" {
            // It has no options in sysbench.
            continue;
        }
        let Some(help) = sysbench(server.port(), &[name, "help"]) else { return };
        let theirs = sysbench_options(&help);
        assert!(theirs.len() > 10, "{help}");
        let ours = succeed(&["run", "--workload", name, "--help"]);
        let offered = offered_options(ours.split("Options of workload").nth(1).unwrap());
        for (option, default) in &theirs {
            match (option.as_str(), offered.get(option)) {
                ("tables", Some(ours)) => assert_eq!(ours, "250", "{name}"),
                ("table-size", Some(ours)) => assert_eq!(ours, "25000", "{name}"),
                (_, Some(ours)) => assert_eq!(ours, default, "{name} --{option}"),
                (option, None) => {
                    let left_out = ANOTHER_DATABASE.contains(&option) || ANOTHER_WORKLOAD.contains(&option);
                    assert!(left_out, "{name} lacks --{option}");
                }
            }
        }
        for option in offered.keys().filter(|option| !theirs.contains_key(*option)) {
            assert_eq!(option, "one-table", "{name} has an option that sysbench has not");
        }
    }
    // Together the workloads offer each of them, so none was forgotten everywhere.
    let everywhere = succeed(&["run", "--mode", "read-write", "--help"]);
    let points = succeed(&["run", "--workload", "select_random_points", "--help"]);
    let offered =
        [offered_options(&everywhere), offered_options(&points)].map(|options| options.into_keys()).into_iter();
    let offered: Vec<String> = offered.flatten().collect();
    for option in ANOTHER_WORKLOAD {
        assert!(offered.iter().any(|offered| offered == option), "no workload has --{option}");
    }
}

/// sysbench's general options under another name here, or left out: PostgreSQL, debugging, and what has no use.
const ELSEWHERE: [(&str, &str); 34] = [
    ("mysql-host", "host"),
    ("mysql-port", "port"),
    ("mysql-socket", "socket"),
    ("mysql-user", "user"),
    ("mysql-password", "password-file"),
    ("mysql-db", "database"),
    ("mysql-ssl", "ssl-mode"),
    ("mysql-ignore-errors", "ignore-errors"),
    ("db-driver", "url"),
    ("config-file", "workload"),
    ("max-requests", "events"),
    ("max-time", "time"),
    ("num-threads", "threads"),
    ("mysql-ssl-cipher", ""),
    ("mysql-compression", "compress"),
    ("mysql-debug", ""),
    ("mysql-dry-run", ""),
    ("pgsql-host", ""),
    ("pgsql-port", ""),
    ("pgsql-user", ""),
    ("pgsql-password", ""),
    ("pgsql-db", ""),
    ("thread-stack-size", ""),
    ("report-checkpoints", ""),
    ("debug", ""),
    ("db-debug", ""),
    ("verbosity", ""),
    ("tx-rate", ""),
    // The histogram is in the JSON document.
    ("histogram", "json"),
    // These two are oltpbench's own before a command.
    ("version", ""),
    ("help", "help"),
    // sysbench prints one percentile, and waits for ever by default.
    ("percentile", "percentile"),
    ("forced-shutdown", "forced-shutdown"),
    // sysbench's default is special.
    ("rand-type", "rand-type"),
];

#[test]
fn general_options_have_sysbenchs_names_and_defaults_but_for_those_named_here() {
    let Some(server) = Server::mariadb(&[]) else { return };
    let Some(help) = sysbench(server.port(), &["--help"]) else { return };
    let theirs = sysbench_options(&help);
    let ours = offered_options(&succeed(&["run", "--help"]));
    for (option, default) in &theirs {
        match ELSEWHERE.iter().find(|(theirs, _)| theirs == option) {
            Some((_, "")) => assert!(!ours.contains_key(option), "--{option} is no longer left out"),
            Some((_, name)) => assert!(ours.contains_key(*name), "--{name}, which stands for sysbench's --{option}"),
            None => {
                let ours = ours.get(option).unwrap_or_else(|| panic!("--{option} is missing"));
                // 0 and 0.000000 are the same default.
                match (ours.parse::<f64>(), default.parse::<f64>()) {
                    (Ok(ours), Ok(default)) => assert_eq!(ours, default, "--{option}"),
                    _ => assert_eq!(ours, default, "--{option}"),
                }
            }
        }
    }
    for (option, _) in ELSEWHERE {
        assert!(theirs.contains_key(option), "sysbench has no --{option}");
    }
}

/// Name and default of the lines such as `  --range_size=N   Range size ... [100]`.
fn sysbench_options(help: &str) -> BTreeMap<String, String> {
    let option = |line: &str| {
        let option = line.trim().strip_prefix("--")?;
        let end = option.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')?;
        let default = option.strip_suffix(']').and_then(|rest| rest.rsplit('[').next()).unwrap_or_default();
        Some((option[..end].replace('_', "-"), default.to_string()))
    };
    help.lines().filter_map(option).collect()
}

#[test]
fn reads_writes_and_others_are_counted_as_sysbench_counts_them() {
    let Some(server) = Server::mariadb(&[]) else { return };
    let url = server.url();
    for name in succeed(&["workloads", "list"]).lines().filter_map(|line| line.split_whitespace().next()) {
        // sysbench counts each row of bulk_insert as an event, and as many as fit into one statement are one write.
        let (size, their_events, our_events): (&[&str], _, _) = match name {
            "bulk_insert" => (&[], "--events=1000", "--events=1"),
            "select_random_points" | "select_random_ranges" => (&SIZE[1..], "--events=50", "--events=50"),
            _ => (&SIZE, "--events=50", "--events=50"),
        };
        succeed(&[&["prepare", "--workload", name, "--url", &url, "--threads=1"], size].concat());
        let arguments = [&[name, "--threads=1", their_events], size, &["run"]].concat();
        let Some(theirs) = sysbench(server.port(), &arguments) else { return };
        if name == "bulk_insert" {
            server.sql("TRUNCATE sbtest.sbtest1");
        }
        let ours = report(&[&["run", "--workload", name, "--url", &url, our_events], size].concat());
        let value = |label: &str| -> u64 {
            let line = theirs.lines().find(|line| line.trim().starts_with(label)).expect(label);
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let counts =
            |totals: &serde_json::Value| ["reads", "writes", "other", "queries"].map(|key| totals[key].as_u64());
        let mut expected = ["read:", "write:", "other:", "total:"].map(value);
        if name == "oltp_delete" {
            // A DELETE that finds no row is a write here, and in sysbench something other.
            expected[1] += std::mem::take(&mut expected[2]);
        }
        assert_eq!(counts(&ours["totals"]), expected.map(Some), "{name}: reads, writes, other, total");
        let rows_an_event = if name == "bulk_insert" { 1000 } else { 1 };
        let transactions = ours["totals"]["transactions"].as_u64().unwrap();
        assert_eq!(transactions * rows_an_event, value("transactions:"), "{name}");
        succeed(&[&["cleanup", "--workload", name, "--url", &url], size].concat());
    }
}

#[test]
fn sysbench_takes_the_null_server_for_a_real_one_in_both_protocols() {
    for mode in ["--db-ps-mode=auto", "--db-ps-mode=disable"] {
        let server = NullServer::start(0, Behaviour::Prompt).unwrap();
        let arguments = ["oltp_point_select", "--threads=4", "--time=0", "--events=2000", "--table-size=25000", mode];
        let Some(theirs) = sysbench(server.port(), &[&arguments[..], &["run"]].concat()) else { return };
        assert_eq!(server.sent().rows, 2000, "{theirs}");
    }
}
