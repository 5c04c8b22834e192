//! The server's side of the report on real servers: its count beside ours, its counters while the run goes on.

mod support;

use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::Server;
use support::null_server::{Behaviour, NullServer};
use support::program::{count, document, fail, number, oltpbench, report, report_of, succeed, text, wait_until};

fn servers(arguments: &[&str]) -> Vec<Server> {
    [Server::mariadb(arguments), Server::mysql(arguments)].into_iter().flatten().collect()
}

const SMALL: [&str; 4] = ["--tables", "3", "--table-size", "1000"];

fn prepare(server: &Server, rest: &[&str]) {
    succeed(&[&["prepare", "--url", &server.url()], rest].concat());
}

/// A run on the server, with `work` beside it from the middle of its window on.
fn run_beside(server: &Server, arguments: &[&str], work: impl FnOnce()) -> (Value, String) {
    let url = server.url();
    let arguments = [&["run", "--url", url.as_str()], arguments, &SMALL].concat();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| report_of(oltpbench(&arguments)));
        let busy = Instant::now();
        // Its sessions begin to work with the window.
        while server.sql("SHOW PROCESSLIST").iter().filter(|row| row[1] == "sysbench").count() < 4 {
            assert!(busy.elapsed() < Duration::from_secs(60), "the run does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(700));
        work();
        let (document, output) = run.join().unwrap();
        (document, text(&output.stdout))
    })
}

fn has_finding(run: &Value, code: &str) -> bool {
    run["findings"].as_array().unwrap().iter().any(|finding| finding["code"] == code)
}

/// Whether the readings came in time to be told at all, which on a busy machine they may not.
fn is_compared(run: &Value) -> bool {
    assert!(run["server"].is_object() || has_finding(run, "server-counters-unknown"), "{run}");
    run["server"].is_object()
}

#[track_caller]
fn assert_agrees(run: &Value, what: &str) {
    assert!(!has_finding(run, "statements-unaccounted"), "{what}: {}", run["findings"]);
    if is_compared(run) {
        assert_eq!(run["server"]["comparison"]["agrees"], true, "{what}: {}", run["server"]);
        assert!(!has_finding(run, "server-disagrees"), "{what}");
    }
}

/// Server, least and most of a counter.
fn compared(run: &Value, counter: &str) -> Option<[u64; 3]> {
    let rows = run["server"]["comparison"]["statements"].as_array()?;
    let row = rows.iter().find(|row| row["counter"] == counter)?;
    Some(["server", "sent_least", "sent_most"].map(|name| count(row, name)))
}

#[test]
fn the_server_counts_what_was_sent_in_every_workload_and_protocol() {
    let list = succeed(&["workloads", "list"]);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for server in servers(&[]) {
        let url = server.url();
        for &name in &names {
            let size: &[&str] = match name {
                "bulk_insert" => &["--rows-per-insert", "500"],
                "select_random_points" | "select_random_ranges" => &["--table-size", "1000"],
                _ => &SMALL,
            };
            let load = [&["--workload", name, "--url", url.as_str(), "--threads", "4"], size].concat();
            succeed(&[&["prepare"], &load[..]].concat());
            let modes = if name == "bulk_insert" { &["auto"][..] } else { &["auto", "disable"] };
            for mode in modes {
                let rest = ["--time", "1", "--warmup-time", "0.2", "--db-ps-mode", mode];
                let (run, output) = report_of(oltpbench(&[&["run"], &load[..], &rest].concat()));
                // On a busy machine a server may stand still for longer than the window.
                assert!(output.status.success() || has_finding(&run, "no-transactions"), "{}", text(&output.stderr));
                let what = format!("{} {name} {mode}", run["target"]["version"]);
                assert_agrees(&run, &what);
                if let Some([counted, least, most]) = compared(&run, "Questions") {
                    assert!(counted > 0 && least <= counted && counted <= most, "{what}: {}", run["server"]);
                }
            }
            succeed(&[&["cleanup"], &load[..]].concat());
        }
    }
}

#[test]
fn another_clients_statements_are_a_finding_and_a_few_are_not() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let run = ["--mode", "point-select", "--threads", "4", "--time", "3"];
        let (few, text) = run_beside(&server, &run, || drop(server.sql("SELECT 1")));
        assert_agrees(&few, "one select more");
        if is_compared(&few) {
            assert!(text.contains("The server counted the same (within "), "{text}");
        }
        // More updates than the run sends, which is none.
        let statements = "UPDATE sbtest.sbtest1 SET k = k + 1 WHERE id = 1;".repeat(2000);
        let (busy, text) = run_beside(&server, &run, || drop(server.sql(&statements)));
        if is_compared(&busy) {
            assert!(has_finding(&busy, "server-disagrees"), "{}", busy["server"]);
            assert!(text.contains("Server, in the") && text.contains("another client uses the server"), "{text}");
        }
    }
}

#[test]
fn connections_that_are_killed_and_tables_that_are_closed_keep_the_agreement() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let run = ["--mode", "read-only", "--threads", "8", "--time", "3", "--max-error-rate", "100"];
        let (run, _) = run_beside(&server, &run, || {
            for _ in 0..5 {
                let processes = server.sql("SHOW PROCESSLIST");
                let ids = processes.iter().filter(|row| row[1] == "sysbench").map(|row| row[0].clone());
                // One that has gone meanwhile is no error of this test.
                ids.take(4).for_each(|id| drop(server.try_sql(&format!("KILL {id}"))));
                server.sql("FLUSH TABLES");
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        assert!(has_finding(&run, "connections-lost"), "{}", run["findings"]);
        assert_agrees(&run, "killed");
        assert_eq!(compared(&run, "Questions"), None, "what a new connection sends is not known");
    }
}

#[test]
fn no_session_is_closed_before_the_counters_were_read() {
    for server in servers(&["--general-log"]) {
        prepare(&server, &SMALL);
        let before = server.general_log().len();
        let run = ["run", "--url", &server.url(), "--threads", "8", "--time", "2"];
        let run = report(&[&run[..], &SMALL].concat());
        if !is_compared(&run) {
            continue;
        }
        let log = server.general_log();
        let lines: Vec<&str> = log[before..].lines().collect();
        let readings: Vec<usize> =
            (0..lines.len()).filter(|&line| lines[line].contains("SHOW GLOBAL STATUS")).collect();
        let [_, last] = readings[..] else { panic!("{} readings", readings.len()) };
        // A session is the one that played statements; they have numbers, which the log puts before what was sent.
        let number = |line: &str, what: &str| Some(line.split_once(what)?.0.split_whitespace().last()?.to_string());
        let players: Vec<String> = lines.iter().filter_map(|line| number(line, " Execute\t")).collect();
        let quit = |line: &usize| number(lines[*line], " Quit").is_some_and(|number| players.contains(&number));
        let first = (0..lines.len()).find(quit).expect("sessions that say goodbye");
        assert!(last < first, "{}", lines[last.min(first)..].join("\n"));
    }
}

#[test]
fn the_series_of_the_servers_counters_adds_up_to_their_whole_rise() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let arguments = ["run", "--url", &server.url(), "--mode", "read-write", "--threads", "4", "--time", "2"];
        let run = report(&[&arguments[..], &["--server-interval", "0.25"], &SMALL].concat());
        assert_agrees(&run, "with a series");
        if !is_compared(&run) {
            continue;
        }
        let series = run["server"]["series"].as_array().unwrap();
        assert!((2..=9).contains(&series.len()), "{series:?}");
        for name in ["Com_select", "Com_update", "Bytes_sent", "Questions", "Innodb_data_written"] {
            let sum: u64 = series.iter().map(|step| step["counters"][name].as_u64().unwrap_or(0)).sum();
            assert_eq!(sum, run["server"]["counters"][name].as_u64().unwrap_or(0), "{name}");
        }
        let ends = series.windows(2).all(|pair| pair[0]["end_s"] == pair[1]["start_s"]);
        assert!(ends && series.iter().all(|step| number(step, "answer_s") > 0.0), "{series:?}");
        let without = report(&[&arguments[..], &SMALL].concat());
        assert!(without["server"]["series"].as_array().is_none_or(Vec::is_empty));
    }
}

#[test]
fn many_readings_beside_few_statements_are_not_taken_for_another_client() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let arguments = ["run", "--url", &server.url(), "--mode", "point-select", "--threads", "4", "--time", "4"];
        let (run, output) =
            report_of(oltpbench(&[&arguments[..], &["--rate", "4", "--server-interval", "0.1"], &SMALL].concat()));
        assert_agrees(&run, "few statements");
        if is_compared(&run) {
            let [questions, _, most] = compared(&run, "Questions").unwrap();
            // More than the statements and what may be on its way, which is what this is about.
            assert!(questions > 16 + 3 * 4 && questions <= most, "{}", run["server"]);
            let text = text(&output.stdout);
            assert!(text.contains("These are too few to tell whether it counted the same."), "{text}");
            assert!(!text.contains("The server counted the same"), "{text}");
        }
    }
}

#[test]
fn statements_that_a_server_refuses_before_it_counts_them_are_not_missed() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        server.sql(
            "CREATE USER few_updates@'127.0.0.1' WITH MAX_UPDATES_PER_HOUR 20;
             CREATE USER few_queries@'127.0.0.1' WITH MAX_QUERIES_PER_HOUR 60;
             GRANT ALL ON sbtest.* TO few_updates@'127.0.0.1', few_queries@'127.0.0.1';",
        );
        let run_as = |user: &str, mode: &str| {
            let url = format!("mysql://{user}@127.0.0.1:{}/sbtest", server.port());
            // Prepared statements are not held against these limits, in either server.
            let run = ["run", "--url", &url, "--mode", mode, "--db-ps-mode", "disable", "--threads", "4"];
            let (run, _) =
                report_of(oltpbench(&[&run[..], &["--time", "4", "--max-error-rate", "100"], &SMALL].concat()));
            let errors = run["totals"]["errors"].as_array().unwrap();
            let refused = errors.iter().filter(|error| error["code"] == 1226).map(|error| count(error, "count"));
            // More than may be on their way at once.
            assert!(refused.sum::<u64>() > 3 * 4, "{mode}: {errors:?}");
            run
        };
        let run = run_as("few_updates", "update-index");
        assert_agrees(&run, "updates");
        if is_compared(&run) {
            let [counted, least, most] = compared(&run, "Com_update").unwrap();
            assert!(least <= counted && counted < most - 3 * 4, "{}", run["server"]);
        }
        // Here the counters may not be read any more, either.
        let run = run_as("few_queries", "point-select");
        assert!(!has_finding(&run, "server-disagrees"), "{}", run["server"]);
        let reason = run["findings"].as_array().unwrap().iter().find(|it| it["code"] == "server-counters-unknown");
        let reason = reason.map(|it| it["message"].as_str().unwrap().to_string()).unwrap_or_default();
        assert!(reason.contains("max_queries_per_hour") || reason.contains("max_questions"), "{}", run["findings"]);
    }
}

/// Hands each connection on to the port that is in `to` when it comes.
fn forward(to: Arc<AtomicU16>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", to.load(Ordering::SeqCst))).unwrap();
            for (mut from, mut to) in [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)] {
                std::thread::spawn(move || {
                    // Whichever side breaks first takes the other along.
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    port
}

#[test]
fn counters_of_two_servers_behind_one_address_are_not_subtracted() {
    let Some(first) = Server::mariadb(&[]) else { return };
    prepare(&first, &SMALL);
    let uptime = |server: &Server| server.status(&["Uptime"])["Uptime"];
    wait_until("a server that is older than the other", || uptime(&first) >= 6);
    let second = Server::mariadb(&[]).unwrap();
    assert!(uptime(&first) >= uptime(&second) + 4, "a difference that shows");
    let to = Arc::new(AtomicU16::new(first.port()));
    let url = format!("mysql://sysbench:sysbench@127.0.0.1:{}/sbtest", forward(Arc::clone(&to)));
    let run = ["run", "--url", &url, "--mode", "point-select", "--threads", "2", "--time", "600"];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let mut command = oltpbench(&[&run[..], &SMALL].concat());
    let child = command.arg("--json").arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Those that play transactions are idle for much less than two seconds.
    let mut readers = Vec::new();
    wait_until("the first reading", || {
        readers = first.sql(
            "SELECT id FROM information_schema.processlist WHERE user = 'sysbench' AND command = 'Sleep' AND time > 1",
        );
        !readers.is_empty()
    });
    to.store(second.port(), Ordering::SeqCst);
    for reader in &readers {
        first.sql(&format!("KILL {}", reader[0]));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let run = document(&file, &output);
    let unknown = run["findings"].as_array().unwrap().iter().find(|it| it["code"] == "server-counters-unknown");
    let message = unknown.unwrap_or_else(|| panic!("{}", run["server"]))["message"].as_str().unwrap();
    assert!(message.contains("the server's Uptime went from"), "{message}");
    assert!(run["server"].is_null(), "{}", run["server"]);
}

#[test]
fn a_server_that_does_not_count_statements_is_told_and_no_finding() {
    let server = NullServer::start(0, Behaviour::Prompt).unwrap();
    // Its only counter is of selects, and there is none of updates.
    let run = ["run", "--mode", "update-index", "--url", &server.url(), "--threads", "2", "--time", "1"];
    let (run, output) = report_of(oltpbench(&run));
    if is_compared(&run) {
        assert_eq!(run["server"]["not_compared"], "the server has no counter Com_update");
        assert!(text(&output.stdout).contains("cannot be held against"), "{}", text(&output.stdout));
    }
    assert!(!has_finding(&run, "server-disagrees"));
}

#[test]
fn a_pace_that_would_be_load_is_refused() {
    let error = fail(2, &["run", "--server-interval", "0.01"]);
    assert!(error.contains("at least 0.1 seconds"), "{error}");
}

#[test]
fn the_statements_that_took_the_server_longest_are_told_where_they_may_be_read() {
    for server in servers(&["--performance-schema=ON"]) {
        prepare(&server, &SMALL);
        let url = server.url();
        let run = ["run", "--url", &url, "--mode", "read-only", "--threads", "4", "--time", "1"];
        let run = [&run[..], &["--db-ps-mode", "disable"], &SMALL].concat();
        let denied = report(&run);
        if is_compared(&denied) {
            let reason = denied["server"]["digests_unknown"].as_str().unwrap_or_default();
            assert!(reason.contains("denied"), "{}", denied["server"]);
        }
        server.sql("GRANT SELECT ON performance_schema.* TO sysbench@'127.0.0.1', sysbench@'%'");
        let run = report(&run);
        assert_agrees(&run, "with digests");
        if is_compared(&run) {
            let digests = run["server"]["digests"].as_array().unwrap();
            assert!((5..=10).contains(&digests.len()), "{digests:?}");
            let points = digests.iter().find(|digest| {
                let text = digest["text"].as_str().unwrap().to_lowercase().replace("`id`", "id");
                text.trim_end() == "select `c` from `sbtest#` where id = ?"
            });
            // Between the questions for digests lies a little more than between the readings.
            let points = count(points.unwrap_or_else(|| panic!("{digests:?}")), "count");
            let [_, least, _] = compared(&run, "Com_select").unwrap();
            assert!(14 * points >= 10 * least.saturating_sub(14 * 4), "{points} of {least}: {digests:?}");
            assert!(digests.iter().all(|digest| number(digest, "total_s") > 0.0), "{digests:?}");
        }
    }
}

/// How often a statement found no row, and how often it was sent.
fn not_found(run: &Value) -> Vec<(String, u64, u64)> {
    let entries = run["rows_not_found"].as_array().unwrap().iter();
    let entry =
        |entry: &Value| (entry["statement"].as_str().unwrap().into(), count(entry, "count"), count(entry, "sent"));
    entries.map(entry).collect()
}

const GONE: &str = "\
description: Reads and writes of a row that is there and of one that is gone
extends: sbtest
statements:
  read_here: {kind: read, table: 1, sql: 'SELECT c FROM {sbtest} WHERE id=?', arguments: [1]}
  read_gone: {kind: read, table: 1, sql: 'SELECT c FROM {sbtest} WHERE id=?', arguments: [5]}
  touch_here: {kind: write, table: 1, sql: \"UPDATE {sbtest} SET pad='x' WHERE id=?\", arguments: [1]}
  touch_gone: {kind: write, table: 1, sql: \"UPDATE {sbtest} SET pad='x' WHERE id=?\", arguments: [5]}
transaction:
  steps:
    - execute: read_here
    - execute: read_gone
    - execute: touch_here
    - execute: touch_gone
";

#[test]
fn statements_that_find_no_row_are_counted_and_updates_that_change_nothing_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gone.yaml");
    std::fs::write(&file, GONE).unwrap();
    for server in servers(&[]) {
        let url = server.url();
        let load = ["--workload", file.to_str().unwrap(), "--url", &url, "--tables", "1", "--table-size", "10"];
        succeed(&[&["prepare"], &load[..]].concat());
        server.sql("DELETE FROM sbtest.sbtest1 WHERE id = 5");
        for mode in ["auto", "disable"] {
            let rest = ["--threads", "1", "--events", "100", "--time", "0", "--db-ps-mode", mode];
            let run = report(&[&["run"], &load[..], &rest].concat());
            let expected = [("read_gone".to_string(), 100, 100), ("touch_gone".to_string(), 100, 100)];
            assert_eq!(not_found(&run), expected, "{mode}");
            assert!(has_finding(&run, "rows-not-found"), "{}", run["findings"]);
        }
    }
}

#[test]
fn of_ten_rows_ten_can_be_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite:{}", folder.path().join("ten.sqlite").display());
    let servers = servers(&[]);
    for url in servers.iter().map(Server::url).chain([sqlite]) {
        let load = ["--workload", "oltp_delete", "--url", &url, "--tables", "1", "--table-size", "10"];
        succeed(&[&["prepare"], &load[..]].concat());
        let run = report(&[&["run"], &load[..], &["--threads", "1", "--events", "1000", "--time", "0"]].concat());
        assert_eq!(not_found(&run), [("delete".to_string(), 990, 1000)], "{url}");
    }
}
