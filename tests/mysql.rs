//! The whole program on real MariaDB and MySQL servers, with the server's own counters as the judge.

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use oltpbench::spec::{MySqlAddress, TargetAddress};
use oltpbench::target::mysql::connection::{Connection, Endpoint};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::Server;
use support::program::{count, fail, number, oltpbench, report, report_of, succeed, text, wait_until};

/// Servers that are installed; the support module says loudly which are not.
fn servers(arguments: &[&str]) -> Vec<Server> {
    [Server::mariadb(arguments), Server::mysql(arguments)].into_iter().flatten().collect()
}

const SMALL: [&str; 4] = ["--tables", "3", "--table-size", "1000"];

fn prepare(server: &Server, rest: &[&str]) {
    succeed(&[&["prepare", "--url", &server.url()], rest].concat());
}

const COMMANDS: [&str; 7] =
    ["Com_select", "Com_insert", "Com_update", "Com_delete", "Com_begin", "Com_commit", "Com_rollback"];

/// What the server counted during `work`.
fn counted<R>(server: &Server, work: impl FnOnce() -> R) -> (R, BTreeMap<String, u64>) {
    let before = server.status(&COMMANDS);
    let result = work();
    let after = server.status(&COMMANDS);
    (result, after.into_iter().map(|(name, value)| (name.clone(), value - before[&name])).collect())
}

/// SELECTs that a run sends before it measures: which tables exist, what ids they hold (not asked where a workload that
/// changes their size may have run), how unused indexes are told, and which indexes they have.
fn control_selects(resized: bool) -> u64 {
    3 + u64::from(!resized)
}

/// What a transaction of each workload sends with default options, in the order of [`COMMANDS`] without the last.
const TRANSACTIONS: [(&str, [u64; 6]); 11] = [
    ("bulk_insert", [0, 1, 0, 0, 0, 0]),
    ("oltp_delete", [0, 0, 0, 1, 0, 0]),
    ("oltp_insert", [0, 1, 0, 0, 0, 0]),
    ("oltp_point_select", [1, 0, 0, 0, 0, 0]),
    ("oltp_read_only", [14, 0, 0, 0, 1, 1]),
    ("oltp_read_write", [14, 1, 2, 1, 1, 1]),
    ("oltp_update_index", [0, 0, 1, 0, 0, 0]),
    ("oltp_update_non_index", [0, 0, 1, 0, 0, 0]),
    ("oltp_write_only", [0, 1, 2, 1, 1, 1]),
    ("select_random_points", [1, 0, 0, 0, 0, 0]),
    ("select_random_ranges", [1, 0, 0, 0, 0, 0]),
];

/// Under which of [`COMMANDS`] the server counts a statement of the report.
fn command_of(statement: &str) -> &'static str {
    match statement {
        "point_select" | "simple_range" | "sum_range" | "order_range" | "distinct_range" => "Com_select",
        "random_points" | "random_ranges" => "Com_select",
        "insert" | "bulk_insert" => "Com_insert",
        "index_update" | "non_index_update" => "Com_update",
        "delete" => "Com_delete",
        "BEGIN" => "Com_begin",
        "COMMIT" => "Com_commit",
        other => panic!("the report has a statement {other}, which this test does not know"),
    }
}

/// A count over the whole run: inside the window, before it and after it.
fn overall(run: &Value, path: &str) -> u64 {
    ["totals", "warmup", "drained"].iter().map(|span| count(run, &format!("{span}.{path}"))).sum()
}

/// Everything of a kind that was sent, also in attempts that failed.
fn sent(run: &Value, kind: &str) -> u64 {
    overall(run, kind) + overall(run, &format!("failed_attempts.{kind}"))
}

/// Holds a run against the server: every kind of command by itself, and reads, writes and others as sums, which also
/// say what the attempts that failed sent of each.
fn agrees_with_server(
    run: &Value,
    server: &BTreeMap<String, u64>,
    transaction: [u64; 6],
    selects_before: u64,
    what: &str,
) {
    assert_eq!(sent(run, "reads") + selects_before, server["Com_select"], "{what}: reads");
    let writes = server["Com_insert"] + server["Com_update"] + server["Com_delete"];
    assert_eq!(sent(run, "writes"), writes, "{what}: writes");
    let others = server["Com_begin"] + server["Com_commit"] + server["Com_rollback"];
    assert_eq!(sent(run, "other"), others, "{what}: others");

    let committed = overall(run, "transactions");
    let given_up = overall(run, "retries") + overall(run, "failed_transactions");
    for (command, each) in COMMANDS.into_iter().zip(transaction) {
        let counted = server[command] - if command == "Com_select" { selects_before } else { 0 };
        // An attempt that was given up began, and got to some statement before its COMMIT.
        let (least, most) = match command {
            "Com_begin" => (each * given_up, each * given_up),
            "Com_commit" => (0, 0),
            _ => (0, each * given_up),
        };
        let expected = each * committed + least..=each * committed + most;
        assert!(expected.contains(&counted), "{what}: {command} is {counted}, not in {expected:?}");
        let timed = run["statements"].as_array().unwrap().iter();
        let timed = timed.filter(|statement| command_of(statement["name"].as_str().unwrap()) == command);
        let timed: u64 = timed.map(|statement| count(statement, "latency_us.count")).sum();
        assert_eq!(timed, each * count(run, "totals.transactions"), "{what}: {command} in the window");
    }
    let begins = transaction[4];
    assert_eq!(server["Com_rollback"], begins * given_up, "{what}: rollbacks");
}

#[test]
fn every_workload_counts_what_the_server_counts() {
    let list = succeed(&["workloads", "list"]);
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    assert!(names.eq(TRANSACTIONS.map(|(name, _)| name)), "{list}");
    for server in servers(&[]) {
        let url = server.url();
        for (name, transaction) in TRANSACTIONS {
            let size: &[&str] = match name {
                "bulk_insert" => &["--rows-per-insert", "500"],
                "select_random_points" | "select_random_ranges" => &["--table-size", "1000"],
                _ => &SMALL,
            };
            // Transactions of several writes can deadlock, and what is repeated has no fixed number of statements.
            let threads = if matches!(name, "oltp_read_write" | "oltp_write_only") { "1" } else { "4" };
            let load = [&["--workload", name, "--url", url.as_str(), "--threads", threads], size].concat();
            succeed(&[&["prepare"], &load[..]].concat());
            for mode in ["auto", "disable"] {
                let rest = ["--events", "200", "--time", "0", "--warmup-time", "0.2", "--db-ps-mode", mode];
                let arguments = [&["run"], &load[..], &rest].concat();
                let (run, server_counts) = counted(&server, || report(&arguments));
                let what = format!("{} {name} {mode}", run["target"]["version"]);
                let resized = matches!(name, "oltp_insert" | "oltp_delete");
                agrees_with_server(&run, &server_counts, transaction, control_selects(resized), &what);
                assert!(count(&run, "totals.transactions") >= 200, "{what}");
                if name == "bulk_insert" {
                    // Its ids start at 1 in each run, so the second one needs empty tables.
                    succeed(&[&["cleanup"], &load[..]].concat());
                    succeed(&[&["prepare"], &load[..]].concat());
                }
            }
            succeed(&[&["cleanup"], &load[..]].concat());
        }
    }
}

#[test]
fn prepared_statements_are_counted_where_they_were_prepared() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let before = server.status(&["Com_stmt_prepare"])["Com_stmt_prepare"];
        let arguments = ["run", "--mode", "read-only", "--url", &server.url(), "--threads", "4", "--time", "0.5"];
        let run = report(&[&arguments[..], &SMALL[..]].concat());
        // Each of four connections has five kinds of statement on each of three tables.
        assert_eq!(overall(&run, "prepares"), 60, "{run}");
        assert_eq!(server.status(&["Com_stmt_prepare"])["Com_stmt_prepare"] - before, 60);
        assert_eq!(count(&run, "latency_us.prepare.count"), count(&run, "totals.prepares"));
        // A long warm-up leaves none for the window.
        let run = report(&[&arguments[..], &SMALL[..], &["--warmup-time", "1"]].concat());
        assert_eq!((count(&run, "warmup.prepares"), count(&run, "totals.prepares")), (60, 0), "{run}");
        assert_eq!(count(&run, "latency_us.prepare.count"), 0);
    }
}

#[test]
fn connections_that_meet_the_limit_of_prepared_statements_go_on_with_text() {
    for server in servers(&["--max-prepared-stmt-count=20"]) {
        prepare(&server, &SMALL);
        // The run needs 12, which is less than the limit; but what somebody else holds leaves 2, and each connection wants 3.
        let address = match TargetAddress::parse(&server.url()).unwrap() {
            TargetAddress::MySql(address) => address,
            other => panic!("{other:?}"),
        };
        let mut other = Connection::open(&Endpoint::new(*address).unwrap()).unwrap();
        for _ in 0..18 {
            other.prepare("SELECT 1").unwrap();
        }
        let arguments = ["run", "--mode", "point-select", "--url", &server.url(), "--threads", "4", "--time", "0.5"];
        let (run, server_counts) = counted(&server, || report(&[&arguments[..], &SMALL[..]].concat()));
        assert_eq!(overall(&run, "turned_to_text"), 4, "{run}");
        assert_eq!(overall(&run, "prepares"), 2, "{run}");
        assert_eq!(overall(&run, "transactions") + control_selects(false), server_counts["Com_select"]);
        assert_eq!(run["totals"]["errors"], Value::Array(Vec::new()));
        let findings = run["findings"].as_array().unwrap();
        assert!(findings.iter().any(|finding| finding["code"] == "turned-to-text"), "{findings:?}");
    }
}

#[test]
fn the_document_holds_what_the_servers_own_counters_rose_by() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let arguments = ["run", "--mode", "point-select", "--url", &server.url(), "--threads", "4", "--time", "1"];
        let run = report(&[&arguments[..], &["--warmup-time", "0.3"], &SMALL[..]].concat());
        assert!((0.5..10.0).contains(&number(&run, "server.elapsed_s")), "{}", run["server"]);
        let selects = run["server"]["counters"]["Com_select"].as_u64().unwrap();
        // The readings are made a little after the window's ends, while up to four statements are in flight. What is told
        // of them to the last digit is a matter of tests/misbehaving.rs.
        let after = count(&run, "totals.reads") + count(&run, "drained.reads");
        assert!(selects > 0 && selects <= after + 4, "{selects} of {after}");
        assert!(run["server"]["counters"]["Threads_running"].is_null(), "a level is no counter");
        let known = run["findings"].as_array().unwrap().iter().all(|f| f["code"] != "server-counters-unknown");
        assert!(known, "{}", run["findings"]);
    }
}

#[test]
fn a_run_that_is_ended_by_time_counts_what_was_in_flight_apart() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        // Reads only first: a deadlock of read-write adds statements of attempts that failed, so its bounds are wider.
        let arguments = ["run", "--mode", "read-only", "--url", &server.url(), "--threads", "8", "--time", "1"];
        let arguments = [&arguments[..], &["--warmup-time", "0.3"], &SMALL[..]].concat();
        let (run, server_counts) = counted(&server, || report(&arguments));
        agrees_with_server(&run, &server_counts, [14, 0, 0, 0, 1, 1], control_selects(false), "ended by time");
        assert!(count(&run, "drained.transactions") > 0, "nothing was in flight");
        let arguments = ["run", "--mode", "read-write", "--url", &server.url(), "--threads", "8", "--time", "1"];
        let arguments = [&arguments[..], &["--warmup-time", "0.3"], &SMALL[..]].concat();
        let (run, server_counts) = counted(&server, || report(&arguments));
        let transaction = [14, 1, 2, 1, 1, 1];
        agrees_with_server(&run, &server_counts, transaction, control_selects(false), "ended by time");
        assert_eq!(number(&run, "totals.elapsed_s"), 1.0);
    }
}

#[test]
fn deadlocks_are_retried_and_still_every_statement_is_accounted_for() {
    for server in servers(&[]) {
        // Ten rows and long transactions: conflicts are certain.
        let hot = ["--tables", "1", "--table-size", "10"];
        prepare(&server, &hot);
        let knobs = ["--index-updates", "5", "--non-index-updates", "5", "--max-retries", "1000"];
        let arguments = ["run", "--mode", "write-only", "--url", &server.url(), "--threads", "8", "--events", "400"];
        let arguments = [&arguments[..], &["--time", "0"], &knobs[..], &hot[..]].concat();
        let (run, server_counts) = counted(&server, || report(&arguments));
        let transaction = [0, 1, 10, 1, 1, 1];
        agrees_with_server(&run, &server_counts, transaction, control_selects(false), "deadlocks");
        assert_eq!(count(&run, "totals.transactions"), 400);
        assert_eq!(server_counts["Com_commit"], 400);
        let retries = count(&run, "totals.retries");
        assert!(retries > 0, "there were no deadlocks, so this test tested nothing");
        let errors = run["totals"]["errors"].as_array().unwrap();
        assert!(errors.iter().all(|error| error["class"] == "retry"), "{errors:?}");
        let counted: u64 = errors.iter().map(|error| error["count"].as_u64().unwrap()).sum();
        assert_eq!(counted, retries);
    }
}

#[test]
fn both_protocols_reach_the_server_as_asked() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        for (mode, protocol) in [("auto", "prepared"), ("disable", "text")] {
            let before = server.status(&["Com_stmt_execute"]);
            let arguments = ["run", "--mode", "point-select", "--url", &server.url(), "--events", "100", "--time", "0"];
            let run = report(&[&arguments[..], &["--db-ps-mode", mode], &SMALL[..]].concat());
            let executed = server.status(&["Com_stmt_execute"])["Com_stmt_execute"] - before["Com_stmt_execute"];
            assert_eq!(run["spec"]["protocol"], protocol);
            assert_eq!(executed, if mode == "auto" { 100 } else { 0 });
        }
    }
}

#[test]
fn text_replaces_prepared_statements_that_do_not_fit_and_the_report_says_so() {
    for server in servers(&["--max-prepared-stmt-count=100"]) {
        prepare(&server, &SMALL);
        let arguments = ["run", "--url", &server.url(), "--threads", "20", "--events", "50", "--time", "0"];
        let run = report(&[&arguments[..], &SMALL[..]].concat());
        assert_eq!(run["spec"]["protocol"], "text");
        assert_eq!(run["findings"][0]["code"], "prepared-replaced-by-text");
        assert_eq!(count(&run, "totals.failed_transactions"), 0);
    }
}

#[test]
fn a_unix_socket_and_separate_options_work_like_a_url() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let folder = tempfile::tempdir().unwrap();
        let password = folder.path().join("password");
        std::fs::write(&password, "sysbench\n").unwrap();
        let socket = server.socket();
        let login = ["--user", "sysbench", "--database", "sbtest", "--password-file", password.to_str().unwrap()];
        let run = ["run", "--mode", "point-select", "--events", "20", "--time", "0"];
        let by_socket = ["--socket", socket.to_str().unwrap()];
        report(&[&run[..], &by_socket, &login[..], &SMALL[..]].concat());
        let port = server.port().to_string();
        let by_port = ["--host", "127.0.0.1", "--port", &port];
        let mut command = oltpbench(&[&run[..], &by_port, &["--user", "sysbench"], &SMALL[..]].concat());
        command.env("OLTPBENCH_PASSWORD", "sysbench");
        let (document, output) = report_of(command);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(document["totals"]["transactions"], 20);
        assert!(!document.to_string().replace("password_command", "").contains("password"), "{document}");
    }
}

#[test]
fn an_encrypted_connection_can_be_required() {
    // MariaDB 10.11 has no certificate of its own, MySQL makes one.
    for server in [Server::mysql(&[])].into_iter().flatten() {
        prepare(&server, &SMALL);
        let arguments = ["run", "--mode", "point-select", "--url", &server.url(), "--events", "20", "--time", "0"];
        let run = report(&[&arguments[..], &["--ssl-mode", "required"], &SMALL[..]].concat());
        assert!(run["target"]["url"].as_str().unwrap().contains("ssl-mode=required"));
    }
}

#[test]
fn the_profiles_of_the_article_report_ten_and_four_requests_a_transaction() {
    for server in servers(&[]) {
        prepare(&server, &["--tables", "250", "--table-size", "100"]);
        for (mode, factor) in [("read-only", 10), ("read-write", 4)] {
            let arguments = ["run", "--mode", mode, "--profile", "aurora-whitepaper", "--url", &server.url()];
            let small = ["--threads", "50", "--time", "1", "--table-size", "100"];
            let run = report(&[&arguments[..], &small].concat());
            let transactions = count(&run, "totals.transactions");
            assert!(transactions > 0);
            assert_eq!(count(&run, "totals.read_write_requests"), factor * transactions);
            assert_eq!(run["spec"]["protocol"], "text");
        }
    }
}

#[test]
fn what_a_login_lacks_is_said_in_one_line_without_the_password() {
    for server in servers(&[]) {
        let port = server.port();
        for (url, part) in [
            (format!("mysql://sysbench:hunter2@127.0.0.1:{port}/sbtest"), "OLTPBENCH_PASSWORD"),
            (format!("mysql://nobody:hunter2@127.0.0.1:{port}/sbtest"), "refuses user `nobody`"),
            (format!("mysql://sysbench:sysbench@127.0.0.1:{port}/missing"), "missing"),
            ("mysql://sysbench:hunter2@127.0.0.1:1/sbtest".to_string(), "no server answers at 127.0.0.1:1"),
            ("mysql://sysbench:hunter2@no-such-host.invalid/sbtest".to_string(), "no-such-host.invalid"),
        ] {
            for command in ["run", "prepare", "cleanup", "prewarm"] {
                let mut program = oltpbench(&[command]);
                let output = program.env("OLTPBENCH_URL", &url).output().unwrap();
                let message = text(&output.stderr);
                assert_eq!(output.status.code(), Some(1), "{message}");
                assert!(message.contains(part), "{message}");
                assert!(!message.contains("hunter2"), "{message}");
                assert_eq!(message.lines().count(), 1, "{message}");
            }
        }
    }
}

#[test]
fn every_connection_says_goodbye() {
    for server in servers(&[]) {
        let before = server.status(&["Aborted_clients"]);
        prepare(&server, &SMALL);
        let prewarmed = succeed(&[&["prewarm", "--url", &server.url()], &SMALL[..]].concat());
        assert!(prewarmed.contains("Read 3 tables"), "{prewarmed}");
        report(&[&["run", "--url", &server.url(), "--threads", "8", "--time", "0.3"], &SMALL[..]].concat());
        assert_eq!(server.status(&["Aborted_clients"]), before);
    }
}

#[test]
fn too_many_connections_end_the_run_before_it_begins() {
    for server in servers(&["--max-connections=20"]) {
        prepare(&server, &SMALL);
        let message = fail(1, &[&["run", "--url", &server.url(), "--threads", "60"], &SMALL[..]].concat());
        let last = message.lines().last().unwrap();
        assert!(last.contains("max_connections") && last.contains("of 60 connections"), "{message}");
    }
}

#[test]
fn a_read_only_server_is_refused_for_writes_and_used_for_reads() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        server.sql("SET GLOBAL read_only = ON");
        let arguments = ["run", "--url", &server.url(), "--events", "10", "--time", "0"];
        let message = fail(1, &[&arguments[..], &["--mode", "read-write"], &SMALL[..]].concat());
        assert!(message.contains("read-only"), "{message}");
        report(&[&arguments[..], &["--mode", "read-only"], &SMALL[..]].concat());
        succeed(&[&["prewarm", "--url", &server.url()], &SMALL[..]].concat());
        for (command, what) in [("cleanup", "dropping sbtest"), ("prepare", "creating table sbtest")] {
            let message = fail(1, &[&[command, "--url", &server.url()], &SMALL[..]].concat());
            let last = message.lines().last().unwrap();
            assert!(last.contains(what) && last.contains("read-only; use the primary's address"), "{message}");
            server
                .sql("SET GLOBAL read_only = OFF; DROP TABLE IF EXISTS sbtest.sbtest1, sbtest.sbtest2, sbtest.sbtest3");
            server.sql("SET GLOBAL read_only = ON");
        }
    }
}

#[test]
fn a_server_killed_in_mid_run_leaves_a_report() {
    for mut server in servers(&[]) {
        prepare(&server, &SMALL);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.json");
        let arguments = ["run", "--url", &server.url(), "--threads", "4", "--time", "60", "--report-interval", "0.2"];
        let mut command = oltpbench(&[&arguments[..], &SMALL[..]].concat());
        command.arg("--json").arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut first = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        server.kill();
        let started = Instant::now();
        // Four failed transactions of many are fewer than 1 %, so the run goes on trying until it is stopped.
        std::thread::sleep(Duration::from_millis(500));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(started.elapsed().as_secs() < 20);
        let run = support::program::document(&file, &output);
        assert_eq!(run["status"], "interrupted");
        let lost = run["totals"]["errors"].as_array().unwrap().iter().any(|error| error["class"] == "connection lost");
        assert!(lost, "{}", run["totals"]);
        let refused = run["totals"]["errors"].as_array().unwrap().iter().any(|error| error["statement"] == "connect");
        assert!(refused, "attempts to connect again belong to the window: {}", run["totals"]);
        let findings = run["findings"].as_array().unwrap();
        assert!(findings.iter().any(|finding| finding["code"] == "connections-lost"), "{findings:?}");
        assert!(count(&run, "totals.transactions") > 0);
    }
}

/// The report of a run of four connections, during which something happens.
fn disturbed(arguments: &[&str], what: impl FnOnce(&Child)) -> Value {
    let arguments = [&["run", "--threads", "4", "--report-interval", "0.2"], arguments, &SMALL].concat();
    let mut command = oltpbench(&arguments);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    command.arg("--json").arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    what(&child);
    let output = child.wait_with_output().unwrap();
    support::program::document(&file, &output)
}

/// Numbers of the program's connections: those of its run and the one that reads the counters.
fn sessions(server: &Server) -> Vec<String> {
    let rows = server.sql("SELECT id FROM information_schema.processlist WHERE user = 'sysbench'");
    rows.into_iter().flatten().collect()
}

/// Ends a run without a limit of time once its four connections are there and so many more statements were answered that
/// each of them had its share.
fn end_once_all_are_back(server: &Server, program: &Child, statements: u64) {
    wait_until("four connections", || sessions(server).len() >= 4);
    let asked = || server.status(&["Questions"])["Questions"];
    let enough = asked() + statements;
    wait_until("statements", || asked() >= enough);
    kill_process(Pid::from_child(program), Signal::INT).unwrap();
}

#[test]
fn connections_that_are_killed_are_replaced_and_begin_as_the_first_ones_did() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        server.sql("CREATE TABLE sbtest.begun (id INT AUTO_INCREMENT PRIMARY KEY, word TEXT)");
        let (url, inserts) = (server.url(), "INSERT INTO begun (word) VALUES ('it''s'); SELECT * FROM begun");
        let init = ["--init-sql", inserts, "--init-sql", "SET SESSION max_sort_length = 999"];
        let run = disturbed(&[&["--mode", "read-only", "--url", &url, "--time", "0"], &init[..]].concat(), |program| {
            for session in sessions(&server) {
                // The one that reads the counters is among them, and may have ended by itself.
                let _ = server.try_sql(&format!("KILL {session}"));
            }
            end_once_all_are_back(&server, program, 5000);
        });
        assert_eq!(count(&run, "totals.reconnects"), 4, "{}", run["totals"]);
        assert_eq!(count(&run, "latency_us.outage.count"), 4, "{}", run["totals"]);
        // Eight sessions, one connection that looks at the tables, and one or two that read the counters.
        let begun = server.sql("SELECT COUNT(*) FROM sbtest.begun")[0][0].parse::<u32>().unwrap();
        assert!((10..=11).contains(&begun), "{begun}");
        assert_eq!(run["target"]["init_sql"][0], "INSERT INTO begun (word) VALUES ('...'");
    }
}

#[test]
fn connections_that_prepare_and_clean_up_begin_as_those_of_a_run() {
    for server in servers(&[]) {
        server.sql("CREATE TABLE sbtest.begun (user TEXT)");
        let url = server.url();
        let begun = || server.sql("SELECT COUNT(*) FROM sbtest.begun")[0][0].parse::<u64>().unwrap();
        let mut before = 0;
        // The first connection, that which tries how to load, one that loads, and one for each other step.
        for (command, fewest) in [("prepare", 7), ("prewarm", 2), ("check", 1), ("cleanup", 2)] {
            let init = ["--init-sql", "INSERT INTO begun VALUES (USER())", "--threads", "1"];
            succeed(&[&[command, "--url", &url], &init[..], &SMALL[..]].concat());
            assert!(begun() - before >= fewest, "{command}: {}", begun() - before);
            before = begun();
        }
    }
}

#[test]
fn an_init_sql_that_fails_or_blocks_is_told_without_what_it_has_in_quotes() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let url = server.url();
        for command in ["run", "check", "prewarm", "cleanup"] {
            for (sql, timeout, said) in [
                ("SET nonsense", "10", "--init-sql `SET nonsense` failed: "),
                ("SET PASSWORD 'hunter2'", "10", "--init-sql `SET PASSWORD '...'` failed: error 1064, whose text"),
                (
                    "DO SLEEP(1000)",
                    "0.5",
                    "--init-sql `DO SLEEP(1000)` failed: no answer within 0.5 s (--connect-timeout)",
                ),
            ] {
                let arguments = [command, "--url", &url, "--init-sql", sql, "--connect-timeout", timeout];
                let message = fail(1, &[&arguments[..], &SMALL[..]].concat());
                assert!(message.contains(said) && !message.contains("hunter2"), "{command}: {message}");
            }
        }
        let TargetAddress::MySql(mut address) = TargetAddress::parse(&url).unwrap() else { unreachable!() };
        address.init_sql = vec!["DO SLEEP(1000)".into()];
        address.connect_timeout = Duration::from_millis(500);
        let silent =
            |address: &MySqlAddress| Connection::open(&Endpoint::new(address.clone()).unwrap()).err().unwrap().message;
        assert!(
            silent(&address).ends_with("failed: no answer within 0.5 s (--connect-timeout)"),
            "{}",
            silent(&address)
        );
        address.statement_timeout = Some(Duration::from_secs(1));
        assert!(silent(&address).ends_with(": no answer within 1 s (--statement-timeout)"), "{}", silent(&address));
    }
}

#[test]
fn an_open_loop_counts_what_the_server_counts_and_accounts_for_what_was_due_when_connections_break() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let url = server.url();
        let arguments = ["--mode", "read-only", "--url", &url, "--rate", "100", "--arrival", "constant"];
        let due = |run: &Value| {
            let kept = |name: &str| count(run, &format!("open_loop.{name}"));
            let ended: u64 = ["done", "shed", "drained", "unfinished", "not_begun"].map(kept).iter().sum();
            assert_eq!(kept("due"), ended, "{}", run["open_loop"]);
            kept("due")
        };
        let whole =
            [&["run", "--threads", "4", "--time", "1", "--warmup-time", "0.3"], &arguments[..], &SMALL].concat();
        let (run, server_counts) = counted(&server, || report(&whole));
        agrees_with_server(&run, &server_counts, [14, 0, 0, 0, 1, 1], control_selects(false), "open loop");
        assert_eq!(due(&run), 100);

        let run = disturbed(&[&["--time", "3", "--max-error-rate", "100"], &arguments[..]].concat(), |_| {
            std::thread::sleep(Duration::from_millis(500));
            for session in server.sql("SELECT id FROM information_schema.processlist WHERE user = 'sysbench'") {
                // It may have ended by itself.
                let _ = server.try_sql(&format!("KILL {}", session[0]));
            }
        });
        assert_eq!((due(&run), count(&run, "totals.reconnects")), (300, 4), "{}", run["totals"]);
        assert_eq!(count(&run, "latency_us.response.count"), count(&run, "totals.transactions"));
    }
}

#[test]
fn writes_go_on_once_a_server_takes_them_again() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let url = server.url();
        let arguments = ["--mode", "update-non-index", "--url", &url, "--time", "0", "--max-error-rate", "100"];
        let run = disturbed(&arguments, |program| {
            let first = sessions(&server);
            let new = |server: &Server| sessions(server).iter().filter(|session| !first.contains(session)).count();
            server.sql("SET GLOBAL read_only = 1");
            // The one that stays reads the counters.
            wait_until("all connections to be left", || {
                sessions(&server).iter().filter(|id| first.contains(id)).count() <= 1
            });
            server.sql("SET GLOBAL read_only = 0");
            wait_until("four connections more", || new(&server) >= 4);
            let updates = server.status(&["Handler_update"])["Handler_update"];
            wait_until("updates", || server.status(&["Handler_update"])["Handler_update"] > updates + 100);
            kill_process(Pid::from_child(program), Signal::INT).unwrap();
        });
        let errors = run["totals"]["errors"].as_array().unwrap();
        assert!(errors.iter().all(|error| error["code"] == 1290 && error["class"] == "failover"), "{errors:?}");
        assert!(overall(&run, "reconnects") >= 4, "{run}");
        // An outage goes on while a connection is let in and refused; the run's own ended with the first update.
        assert_eq!(count(&run, "latency_us.outage.count"), 4, "{}", run["outages"]);
        assert!(count(&run, "outages.cut_off") < 4, "{}", run["outages"]);
        assert_eq!(count(&run, "outages.all_connections.count"), 1, "{}", run["outages"]);
        let findings = run["findings"].as_array().unwrap();
        let lost = findings.iter().find(|finding| finding["code"] == "connections-lost").unwrap();
        assert!(lost["message"].as_str().unwrap().contains("; all at once were for "), "{lost}");
        assert!(lost["message"].as_str().unwrap().contains("connections were left since their server"), "{lost}");
    }
}

#[test]
fn a_rollback_that_is_refused_costs_the_connection_and_is_told_so() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        server.sql("CREATE USER 'limited'@'%' WITH MAX_QUERIES_PER_HOUR 200; GRANT ALL ON sbtest.* TO 'limited'@'%'");
        let url = server.url().replace("sysbench:sysbench@", "limited@");
        let arguments = ["run", "--mode", "read-only", "--url", &url, "--threads", "4", "--time", "1"];
        let (run, output) = report_of(oltpbench(&[&arguments[..], &["--max-error-rate", "100"], &SMALL[..]].concat()));
        let errors = run["totals"]["errors"].as_array().unwrap();
        assert!(!errors.is_empty() && errors.iter().all(|error| error["code"] == 1226), "{errors:?}");
        let refused = errors.iter().filter(|error| error["statement"] == "ROLLBACK").map(|error| count(error, "count"));
        assert_eq!(count(&run, "totals.lost_connections"), refused.sum::<u64>(), "{}", run["totals"]);
        assert!(count(&run, "totals.lost_connections") > 0, "{}", run["totals"]);
        // Each meets an error or two, and then pauses.
        let all: u64 = errors.iter().map(|error| count(error, "count")).sum();
        assert!(all <= 4 * 2 * 41, "{errors:?}");
        assert!(!text(&output.stdout).contains("[connections-lost] 0 connections"), "{}", text(&output.stdout));
    }
}

#[test]
fn a_server_that_comes_back_is_connected_to_again() {
    for mut server in servers(&[]) {
        prepare(&server, &SMALL);
        let url = server.url();
        // Without a limit of time, since nobody knows how long a server takes to start.
        let run = disturbed(&["--url", &url, "--time", "0"], |program| {
            server.kill();
            server.restart();
            end_once_all_are_back(&server, program, 0);
        });
        // One that had no time for a transaction since counts as of the time after the window.
        assert_eq!(overall(&run, "reconnects"), 4, "{run}");
        assert_eq!(run["status"], "interrupted");
    }
}

#[test]
fn tables_of_another_size_are_refused() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        for size in ["999", "1001"] {
            let arguments = ["run", "--url", &server.url(), "--tables", "3", "--table-size", size];
            let message = fail(1, &arguments);
            assert!(message.contains("sbtest1 holds ids 1 to 1000"), "{message}");
            assert!(message.contains(&format!("ids 1 to {size} are expected")), "{message}");
        }
    }
}

#[test]
fn a_load_fits_into_the_packets_that_the_server_takes() {
    for server in servers(&["--max-allowed-packet=32K"]) {
        for allowed in ["ON", "OFF"] {
            server.sql(&format!("SET GLOBAL local_infile = {allowed}"));
            prepare(&server, &SMALL);
            assert_eq!(server.sql("SELECT COUNT(*), MAX(id) FROM sbtest.sbtest3"), [["1000", "1000"]]);
            succeed(&[&["cleanup", "--url", &server.url()], &SMALL[..]].concat());
        }
    }
}

#[test]
fn a_password_typed_at_a_terminal_logs_in() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let program = oltpbench(&[]);
        let program = program.get_program().to_str().unwrap();
        let port = server.port();
        let login = format!("--host 127.0.0.1 --port {port} --user sysbench --database sbtest --ask-password");
        let run = format!("{program} run --mode point-select --events 20 --time 0 {login} {}", SMALL.join(" "));
        // It runs a command at a terminal of its own, and hands on what is typed here.
        let mut terminal = std::process::Command::new("script");
        terminal.args(["--quiet", "--return", "--command", &run, "/dev/null"]);
        terminal.env_remove("OLTPBENCH_URL").env("OLTPBENCH_PASSWORD", "not this one");
        let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut screen = child.stdout.take().unwrap();
        let mut shown = Vec::new();
        while !text(&shown).contains("Password of sysbench: ") {
            let mut byte = [0];
            screen.read_exact(&mut byte).unwrap_or_else(|_| panic!("{}", text(&shown)));
            shown.push(byte[0]);
        }
        let mut keyboard = child.stdin.take().unwrap();
        keyboard.write_all(b"sysbench\n").unwrap();
        screen.read_to_end(&mut shown).unwrap();
        drop(keyboard);
        assert!(child.wait().unwrap().success(), "{}", text(&shown));
        assert!(text(&shown).contains("transactions:                        20 "), "{}", text(&shown));
    }
}

#[test]
fn errors_above_the_allowed_rate_stop_the_run_with_a_report() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        // Every update of it fails.
        server.sql("CREATE TRIGGER sbtest.refuse BEFORE UPDATE ON sbtest.sbtest1 FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'");
        let arguments = ["run", "--mode", "update-non-index", "--url", &server.url(), "--threads", "2", "--time", "30"];
        let (run, output) = report_of(oltpbench(&[&arguments[..], &SMALL[..]].concat()));
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.lines().any(|line| line.starts_with("error: the run was stopped: too many")), "{said}");
        assert_eq!(run["status"], "too_many_errors");
        assert!(number(&run, "totals.elapsed_s") < 20.0);
        assert_eq!(run["totals"]["errors"][0]["code"], 1644);
        assert!(text(&output.stdout).contains("1644"), "{}", text(&output.stdout));
    }
}

#[test]
fn a_statement_whose_placeholders_the_server_counts_otherwise_fails_and_is_not_left_open() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.yaml");
    let yaml = "description: d\ntables:\n  own:\n    count: 1\n    rows: 10\n    columns:\n      id: {type: bigint, value: row}\n    \
                key: {columns: [id]}\nstatements:\n  one: {kind: read, table: table, \
                sql: \"SELECT id /* ? */ FROM {own} WHERE id=?\", arguments: [1, 2]}\n\
                transaction:\n  steps:\n    - let: {table: 1}\n    - execute: one\n";
    std::fs::write(&file, yaml).unwrap();
    let workload = ["--workload", file.to_str().unwrap()];
    for server in servers(&[]) {
        prepare(&server, &workload);
        let names = ["Com_stmt_prepare", "Com_stmt_close"];
        let before = server.status(&names);
        let url = server.url();
        let arguments = ["run", "--url", &url, "--events", "3", "--time", "0", "--max-error-rate", "100"];
        let (run, _) = report_of(oltpbench(&[&arguments[..], &workload].concat()));
        let after = server.status(&names);
        assert_eq!(names.map(|name| after[name] - before[name]), [3, 3], "{run}");
        let message = run["totals"]["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains("finds 1 placeholders in statement `one`, which has 2 arguments"), "{message}");
    }
}

#[test]
fn a_result_that_comes_in_several_parts_is_timed_until_its_first_part_too() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let run = ["run", "--url", &server.url(), "--threads", "2", "--events", "50", "--range-size", "1000"];
        let run = report(&[&run[..], &SMALL].concat());
        let statements = run["statements"].as_array().unwrap();
        let of = |name: &str| statements.iter().find(|statement| statement["name"] == name).unwrap();
        // A thousand rows of 120 bytes are more than one reading of the buffer; one row is not.
        let range = of("simple_range");
        assert!(count(range, "first_part_us.count") > 0, "{range}");
        assert!(count(range, "first_part_us.count") <= count(range, "latency_us.count"), "{range}");
        assert!(number(range, "first_part_us.mean") < number(range, "latency_us.mean"), "{range}");
        assert!(of("point_select")["first_part_us"].is_null() && of("COMMIT")["first_part_us"].is_null());
    }
}

/// The transactions that committed, each as its statements with their arguments, in no order.
fn committed(server: &Server, work: impl FnOnce()) -> Vec<Vec<String>> {
    server.sql("SET GLOBAL log_output='TABLE'; TRUNCATE mysql.general_log; SET GLOBAL general_log=ON");
    work();
    let rows = server.sql(
        "SET GLOBAL general_log=OFF; SELECT thread_id, argument FROM mysql.general_log
         WHERE user_host LIKE 'sysbench%' AND command_type IN ('Query', 'Execute')",
    );
    let (mut open, mut committed) = (BTreeMap::<String, Vec<String>>::new(), Vec::new());
    for row in rows {
        match row[1].as_str() {
            "BEGIN" => drop(open.insert(row[0].clone(), Vec::new())),
            "COMMIT" => committed.extend(open.remove(&row[0])),
            "ROLLBACK" => drop(open.remove(&row[0])),
            // What the run asks beforehand is in no transaction.
            statement => {
                if let Some(sent) = open.get_mut(&row[0]) {
                    sent.push(statement.into());
                }
            }
        }
    }
    committed.sort();
    committed
}

#[test]
fn a_seed_sends_the_same_transactions_with_the_same_arguments_on_any_number_of_threads() {
    for server in servers(&[]) {
        let url = server.url();
        prepare(&server, &SMALL);
        for mode in ["auto", "disable"] {
            let sent = |seed: &str, threads: &str| {
                let run = ["run", "--mode", "read-write", "--url", &url, "--db-ps-mode", mode, "--rand-type", "pareto"];
                let ends = ["--rand-seed", seed, "--threads", threads, "--events", "40", "--time", "0"];
                committed(&server, || drop(succeed(&[&run[..], &ends, &SMALL].concat())))
            };
            let alone = sent("7", "1");
            assert_eq!((alone.len(), alone[0].len()), (40, 18), "{}", server.version());
            assert_eq!(sent("7", "5"), alone, "{} {mode}", server.version());
            assert_ne!(sent("8", "5"), alone, "another seed");
        }
    }
}
