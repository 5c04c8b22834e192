//! The program against servers that break the protocol, fall silent or hang up: each run ends on time, with one message
//! or with a report that counts what was really answered.

mod support;

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::null_server::{self, Behaviour, NullServer};
use support::program::{count, fail, oltpbench, report, report_of, text};

fn start(behaviour: Behaviour) -> NullServer {
    NullServer::start(0, behaviour).unwrap()
}

/// A second of point selects over four connections on one table, so that one command of each goes into preparing. Unless
/// `rest` says so, no number of errors stops it.
fn point_selects(server: &NullServer, rest: &[&str]) -> Command {
    let url = server.url();
    let arguments = ["run", "--mode", "point-select", "--url", &url, "--tables", "1", "--threads", "4", "--time", "1"];
    let mut command = oltpbench(&[&arguments[..], rest].concat());
    if !rest.contains(&"--max-error-rate") {
        command.args(["--max-error-rate", "100"]);
    }
    command
}

/// Runs with a report, and holds it against what the server sent.
#[track_caller]
fn judged(server: &NullServer, rest: &[&str]) -> (Value, Output) {
    let began = Instant::now();
    let (run, output) = report_of(point_selects(server, rest));
    // A second for the run and one for its stragglers; the rest is patience with a busy machine.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let ended = ["totals", "warmup", "drained"].map(|span| count(&run, &format!("{span}.transactions")));
    assert_eq!(ended.iter().sum::<u64>(), server.sent().rows, "{run}");
    assert!(server.sent().rows > 0, "{run}");
    assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
    (run, output)
}

/// Errors over the whole run by code.
fn errors(run: &Value, code: i64) -> u64 {
    let spans = ["totals", "warmup", "drained"].into_iter();
    let entries = spans.flat_map(|span| run[span]["errors"].as_array().unwrap());
    entries.filter(|entry| entry["code"] == code).map(|entry| count(entry, "count")).sum()
}

/// The single line that a run must end with that cannot begin.
#[track_caller]
fn refused(server: &NullServer) -> String {
    let began = Instant::now();
    let message = fail(1, &["run", "--mode", "point-select", "--url", &server.url()]);
    // A server that never answers is waited for ten seconds.
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    assert!(message.contains(&format!("127.0.0.1:{}", server.port())), "{message}");
    message
}

#[test]
fn a_run_on_the_null_server_counts_what_was_answered_in_both_protocols() {
    for mode in ["auto", "disable"] {
        let server = start(Behaviour::Prompt);
        let arguments = ["run", "--mode", "point-select", "--url", &server.url(), "--threads", "4", "--time", "0"];
        let run = report(&[&arguments[..], &["--events", "2000", "--db-ps-mode", mode]].concat());
        assert_eq!((count(&run, "totals.transactions"), server.sent().rows), (2000, 2000), "{mode}");
    }
}

#[test]
fn a_server_that_never_greets_is_refused_in_time() {
    let message = refused(&start(Behaviour::SilentAfter(0)));
    assert!(message.contains("no answer from"), "{message}");
}

#[test]
fn a_server_that_greets_with_garbage_is_refused() {
    refused(&start(Behaviour::GarbageAfter(0)));
}

#[test]
fn a_server_that_hangs_up_at_once_is_refused() {
    refused(&start(Behaviour::CloseAfter(0)));
}

#[test]
fn a_server_that_falls_silent_costs_the_stragglers_time_and_no_counted_transaction() {
    for mode in ["auto", "disable"] {
        let server = start(Behaviour::SilentAfter(50));
        let (run, output) = judged(&server, &["--db-ps-mode", mode, "--forced-shutdown", "1"]);
        assert_eq!(count(&run, "unfinished"), 4, "{run}");
        assert_eq!(output.status.code(), Some(1));
        let message = text(&output.stderr);
        assert!(message.contains("4 of 4 connections still waited for an answer"), "{message}");
    }
}

#[test]
fn each_silence_of_a_server_costs_one_timeout_and_one_connection() {
    for mode in ["auto", "disable"] {
        let server = start(Behaviour::SilentAfter(50));
        let (run, _) = judged(&server, &["--db-ps-mode", mode, "--statement-timeout", "0.4"]);
        assert_eq!((count(&run, "unfinished"), run["status"].as_str()), (0, Some("completed")), "{run}");
        assert!(count(&run, "totals.reconnects") >= 4, "{run}");
        let silences = run["totals"]["errors"].as_array().unwrap();
        assert!(silences.iter().all(|error| error["class"] == "connection lost"), "{silences:?}");
        assert!(silences[0]["message"].as_str().unwrap().contains("--statement-timeout"), "{silences:?}");
        // Each connection that was lost is one outage, and that of one which is opened again ends at once.
        let outages = count(&run, "latency_us.outage.count");
        assert_eq!(outages, count(&run, "totals.lost_connections"), "{run}");
        assert!(outages - count(&run, "outages.cut_off") <= count(&run, "totals.reconnects"), "{run}");
        assert_eq!(count(&run, "latency_us.reconnect.count"), count(&run, "totals.reconnects"), "{run}");
    }
}

#[test]
fn a_time_to_connect_can_be_set() {
    let server = start(Behaviour::SilentAfter(0));
    let began = Instant::now();
    let message = fail(1, &["run", "--url", &server.url(), "--connect-timeout", "0.3"]);
    assert!(message.contains("within 0.3 s"), "{message}");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[test]
fn a_server_that_takes_no_writes_any_more_is_left_for_a_new_connection() {
    let server = start(Behaviour::ErrorEach(20, 1290, "HY000"));
    let (run, _) = judged(&server, &[]);
    let spans = ["totals", "drained"];
    let reconnects: u64 = spans.iter().map(|span| count(&run, &format!("{span}.reconnects"))).sum();
    // Those met when the window was over were not worth a new connection.
    assert!((1..=server.sent().errors).contains(&reconnects), "{run}");
    assert_eq!(errors(&run, 1290), server.sent().errors, "{run}");
    assert_eq!(run["totals"]["errors"][0]["class"], "failover");
}

#[test]
fn a_server_that_is_overloaded_is_asked_again_after_a_pause() {
    let server = start(Behaviour::ErrorEach(20, 1226, "42000"));
    let (run, _) = judged(&server, &[]);
    let errors = errors(&run, 1226);
    // A second has room for 40 pauses of 25 ms and more on each connection, and for thousands of transactions.
    assert!((1..=4 * 41).contains(&errors) && errors == server.sent().errors, "{run}");
    assert_eq!(run["totals"]["errors"][0]["class"], "overload");
    assert_eq!((count(&run, "totals.lost_connections"), count(&run, "totals.reconnects")), (0, 0), "{run}");
    let findings = run["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["code"] == "overloaded"), "{findings:?}");
    assert!(findings.iter().all(|finding| finding["code"] != "latency-cut-off"), "{findings:?}");
}

#[test]
fn errors_that_are_ignored_fail_no_run_and_are_counted_apart() {
    for (list, failed) in [("1062", false), ("1054,1062", false), ("all", false), ("1054", true)] {
        let server = start(Behaviour::ErrorEach(20, 1062, "23000"));
        let (run, output) = judged(&server, &["--max-error-rate", "0", "--mysql-ignore-errors", list]);
        let counted = ["ignored_transactions", "failed_transactions"]
            .map(|name| ["totals", "drained"].iter().map(|span| count(&run, &format!("{span}.{name}"))).sum::<u64>());
        let errors = server.sent().errors;
        assert!(errors > 0);
        assert_eq!(counted, if failed { [0, errors] } else { [errors, 0] }, "{list}: {run}");
        assert_eq!(output.status.code(), Some(i32::from(failed)), "{list}: {}", text(&output.stderr));
        assert_eq!(run["totals"]["errors"][0]["class"], "duplicate");
    }
}

#[test]
fn a_server_that_answers_with_garbage_ends_no_run_and_adds_no_transaction() {
    for mode in ["auto", "disable"] {
        let server = start(Behaviour::GarbageAfter(50));
        let (run, _) = judged(&server, &["--db-ps-mode", mode, "--forced-shutdown", "1"]);
        // Where garbage reads as the length of a packet, the rest of it may be waited for in vain.
        assert!(errors(&run, 0) + count(&run, "unfinished") >= 4, "{run}");
    }
}

#[test]
fn connections_that_are_closed_again_and_again_are_opened_again_and_counted() {
    for mode in ["auto", "disable"] {
        let server = start(Behaviour::CloseAfter(50));
        let (run, _) = judged(&server, &["--db-ps-mode", mode]);
        let reconnects =
            ["totals", "drained"].map(|span| count(&run, &format!("{span}.reconnects"))).iter().sum::<u64>();
        assert!(reconnects > 0, "{run}");
        let undisturbed = start(Behaviour::Prompt);
        judged(&undisturbed, &["--db-ps-mode", mode]);
        // Those of the control plane are the same; what is more was opened anew.
        assert_eq!(server.sent().connections, undisturbed.sent().connections + reconnects, "{run}");
        assert!(errors(&run, 0) >= reconnects, "{run}");
    }
}

#[test]
fn every_error_of_the_server_is_counted_once() {
    for mode in ["auto", "disable"] {
        // A deadlock, which is tried again; and an unknown column, which is not.
        for (code, sqlstate) in [(1213, "40001"), (1054, "42S22")] {
            let server = start(Behaviour::ErrorEach(20, code, sqlstate));
            let (run, output) = judged(&server, &["--db-ps-mode", mode]);
            assert!(server.sent().errors > 0);
            assert_eq!(errors(&run, i64::from(code)), server.sent().errors, "{run}");
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        }
    }
}

#[test]
fn a_conflict_costs_a_rollback_and_the_same_transaction_again() {
    // A deadlock, a lock that took too long, and MariaDB's record that changed since it was read.
    for (code, sqlstate) in [(1213, "40001"), (1205, "HY000"), (1020, "HY000")] {
        let server = start(Behaviour::ErrorOnceAt("UPDATE", code, sqlstate));
        let arguments = ["run", "--mode", "read-write", "--url", &server.url(), "--events", "1", "--time", "0"];
        let run = report(&[&arguments[..], &["--db-ps-mode", "disable"]].concat());
        assert_eq!(server.sent().errors, 1);
        let heard = server.heard();
        let begin = heard.iter().position(|text| text == "BEGIN").unwrap();
        let rollback = heard.iter().position(|text| text == "ROLLBACK").unwrap();
        let (first, second) = (&heard[begin..rollback], &heard[rollback + 1..]);
        let commit = second.iter().position(|text| text == "COMMIT").unwrap();
        assert!(first.last().unwrap().starts_with("UPDATE"), "{first:?}");
        assert!(second[..commit].starts_with(first), "other arguments were sent: {first:?}\n{second:?}");
        // BEGIN, 14 reads, 4 writes and COMMIT; before it BEGIN, 14 reads, the update that failed and ROLLBACK.
        assert_eq!((commit + 1, first.len()), (20, 16), "{heard:?}");
        let totals = &run["totals"];
        let names = ["transactions", "retries", "failed_transactions", "reads", "writes", "other"];
        assert_eq!(names.map(|name| count(totals, name)), [1, 1, 0, 14, 4, 2], "{totals}");
        let failed = ["reads", "writes", "other"].map(|name| count(&totals["failed_attempts"], name));
        assert_eq!(failed, [14, 1, 2], "{totals}");
        let error = &totals["errors"][0];
        assert_eq!((count(error, "code"), count(error, "count")), (u64::from(code), 1), "{totals}");
        assert_eq!(error["class"], "retry");
    }
}

#[test]
fn the_servers_counters_are_told_as_what_they_rose_by_and_levels_are_left_out() {
    let server = start(Behaviour::Prompt);
    let arguments = ["run", "--mode", "point-select", "--url", &server.url(), "--time", "1"];
    // On a busy machine a first reading may come too late to be of use; then they are not told at all.
    let counters =
        (0..20).map(|_| report(&arguments)["server"]["counters"].take()).find(|counters| !counters.is_null());
    let [(name, first), _] = null_server::status(1);
    let [(_, second), _] = null_server::status(2);
    assert_eq!(counters, Some(serde_json::json!({ name: second - first })));
}

#[test]
fn two_hundred_logins_do_not_meet_a_server_at_once() {
    let server = start(Behaviour::GreetingAfter(Duration::from_millis(30)));
    let arguments = ["run", "--mode", "point-select", "--url", &server.url(), "--events", "1000", "--time", "0"];
    report(&[&arguments[..], &["--threads", "200"]].concat());
    let most = server.sent().most_at_once;
    assert!((1..=32).contains(&most), "{most} of 200 connections at once");
}
