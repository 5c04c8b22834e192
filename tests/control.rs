//! What surrounds a measurement on real servers: checks, loading and limits, and Ctrl-C while a server does not answer.

mod support;

use std::process::{Child, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::Server;
use support::program::{count, fail, number, oltpbench, report, succeed, text};
use support::proxy::{Proxy, installed};

/// Servers that are installed; the support module says loudly which are not.
fn servers(arguments: &[&str]) -> Vec<Server> {
    [Server::mariadb(arguments), Server::mysql(arguments)].into_iter().flatten().collect()
}

const SMALL: [&str; 4] = ["--tables", "3", "--table-size", "1000"];

fn prepare(server: &Server, rest: &[&str]) {
    succeed(&[&["prepare", "--url", &server.url()], rest].concat());
}

/// Starts the program and returns once it watches for Ctrl-C.
fn started(server: &Server, arguments: &[&str]) -> Child {
    let mut program = oltpbench(arguments);
    let child =
        program.env("OLTPBENCH_URL", server.url()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    // Bit N - 1 of this mask stands for a handler of signal N; SIGINT is 2.
    let watches = |status: String| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim().to_string();
        u64::from_str_radix(&mask, 16).unwrap() & 0b10 != 0
    };
    while !watches(std::fs::read_to_string(&status).unwrap()) {
        sleep(Duration::from_millis(5));
    }
    child
}

/// Sends one Ctrl-C and gives what the program ends with. One that does not end is killed, and has no exit code.
fn interrupted(mut child: Child) -> Output {
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
        }
        sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

#[track_caller]
fn assert_interrupted(output: &Output, part: &str) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(message.contains(part), "{message}");
    // Lines of progress may stand above it.
    let errors = message.lines().filter(|line| line.starts_with("error: "));
    assert_eq!(errors.count(), 1, "{message}");
    assert!(message.lines().last().unwrap().starts_with("error: "), "{message}");
}

#[test]
fn one_ctrl_c_ends_every_command_that_waits_for_a_server_to_answer_its_login() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        server.pause();
        for command in ["prepare", "prewarm", "cleanup", "check", "run"] {
            let child = started(&server, &[&[command], &SMALL[..]].concat());
            // Long enough to be waiting, and much less than a login may take.
            sleep(Duration::from_millis(300));
            assert_interrupted(&interrupted(child), "interrupted while connecting");
        }
        server.resume();
    }
}

#[test]
fn one_ctrl_c_ends_a_load_whose_server_stopped_answering() {
    for server in servers(&[]) {
        let many = ["--tables", "4", "--table-size", "10000000", "--threads", "4"];
        let child = started(&server, &[&["prepare"], &many[..]].concat());
        // The way of loading is tried once before.
        while server.status(&["Com_insert", "Com_load"]).values().sum::<u64>() < 2 {
            sleep(Duration::from_millis(5));
        }
        server.pause();
        let output = interrupted(child);
        assert_interrupted(&output, "interrupted while loading rows; what is there is incomplete");
        server.resume();
    }
}

#[test]
fn a_statement_that_waits_for_a_lock_is_ended_by_one_ctrl_c_or_by_its_time() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let mut client = server.client();
        let socket = format!("--socket={}", server.socket().display());
        // It holds the lock until it is killed.
        client.args(["--user=root", "--protocol=socket", &socket, "sbtest"]);
        client.args(["--execute", "LOCK TABLES sbtest2 WRITE; SELECT SLEEP(1000)"]);
        let mut holder = client.stdout(Stdio::null()).spawn().unwrap();
        let processes = |what: &str| {
            let rows = server.sql("SHOW FULL PROCESSLIST");
            rows.iter().filter(|row| row.iter().any(|cell| cell.contains(what))).count()
        };
        while processes("SELECT SLEEP") == 0 {
            sleep(Duration::from_millis(5));
        }
        // Nobody is there for Ctrl-C in a nightly job.
        for command in ["check", "run"] {
            let url = server.url();
            let message = fail(1, &[&[command, "--url", &url, "--connect-timeout", "0.5"], &SMALL[..]].concat());
            assert!(message.contains("reading table sizes: the connection broke: no answer within 0.5 s"), "{message}");
            assert!(message.contains("--connect-timeout"), "{message}");
        }
        for (command, sent, part) in [
            ("prewarm", "SUM(LENGTH", "interrupted while reading tables; nothing was changed"),
            ("run", "SELECT 'sbtest1'", "interrupted while reading table sizes; nothing was changed"),
            ("cleanup", "DROP TABLE", "interrupted while dropping tables; run `oltpbench cleanup` again"),
        ] {
            // A server may not have noticed yet that a client gave its statement up.
            let before = processes(sent);
            let child = started(&server, &[&[command], &SMALL[..]].concat());
            while processes(sent) <= before {
                sleep(Duration::from_millis(5));
            }
            assert_interrupted(&interrupted(child), part);
        }
        holder.kill().unwrap();
        holder.wait().unwrap();
    }
}

/// The program under a limit of open files, as `ulimit` sets it.
fn limited(limit: &str, arguments: &[&str]) -> Output {
    let program = oltpbench(arguments);
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")]).arg(program.get_program());
    shell.args(arguments).env_remove("OLTPBENCH_URL").output().unwrap()
}

#[test]
fn many_connections_raise_the_soft_limit_of_open_files() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("test.sqlite").display());
    succeed(&[&["prepare", "--url", &url], &SMALL[..]].concat());
    let run = ["run", "--mode", "point-select", "--url", &url, "--threads", "100", "--events", "200"];
    let output = limited("-Sn 100", &[&run[..], &SMALL[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    for server in servers(&[]) {
        let load = ["--url", &server.url(), "--threads", "60", "--tables", "60", "--table-size", "10"];
        for command in ["prepare", "prewarm", "cleanup"] {
            let output = limited("-Sn 100", &[&[command], &load[..]].concat());
            assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        }
    }
}

#[test]
fn a_hard_limit_of_open_files_that_is_too_low_is_named_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("test.sqlite").display());
    succeed(&[&["prepare", "--url", &url], &SMALL[..]].concat());
    let output = limited("-n 100", &[&["run", "--url", &url, "--threads", "100"], &SMALL[..]].concat());
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("864 open files") && message.contains("the hard limit is 100"), "{message}");
    assert!(message.contains("ulimit -n 864") && message.contains("fewer --threads"), "{message}");
    let dir = folder.path().join("experiment").display().to_string();
    let experiment = ["run", "--url", &url, "--threads", "1,100", "--time", "600", "--dir", &dir];
    let output = limited("-n 100", &[&experiment[..], &SMALL[..]].concat());
    let message = text(&output.stderr);
    assert!(output.status.code() == Some(1) && message.contains("864 open files"), "before any run: {message}");
    assert!(!folder.path().join("experiment").exists());
}

#[test]
fn a_server_whose_innodb_is_read_only_is_refused_for_writes_before_anything_else() {
    for server in servers(&["--innodb-read-only"]) {
        let message = fail(1, &[&["run", "--mode", "read-write", "--url", &server.url()], &SMALL[..]].concat());
        assert!(message.contains("innodb_read_only is on") && message.contains("primary's address"), "{message}");
        let message = fail(1, &[&["prepare", "--url", &server.url()], &SMALL[..]].concat());
        assert!(message.contains("read-only; use the primary's address"), "{message}");
    }
}

#[test]
fn what_a_server_reports_as_a_row_of_its_analysis_is_an_error() {
    for server in servers(&[]) {
        // bulk_insert accepts tables that are there, so this view passes for one until it is analyzed.
        server.sql("CREATE TABLE sbtest.t (id INT, k INT); CREATE VIEW sbtest.sbtest1 AS SELECT * FROM sbtest.t");
        let message = fail(1, &["prepare", "--workload", "bulk_insert", "--threads", "1", "--url", &server.url()]);
        assert!(
            message.contains("analyzing sbtest1: the server says: ") && message.contains("BASE TABLE"),
            "{message}"
        );
    }
}

#[test]
fn a_users_limit_of_connections_ends_the_run_before_it_begins() {
    let run = |server: &Server, code: &str| {
        prepare(server, &[&SMALL[..], &["--threads", "2"]].concat());
        let message = fail(1, &[&["run", "--url", &server.url(), "--threads", "40"], &SMALL[..]].concat());
        let last = message.lines().last().unwrap();
        assert!(last.contains("allows user `sysbench` no more connections") && last.contains(code), "{message}");
    };
    for server in servers(&[]) {
        for host in ["%", "127.0.0.1", "localhost"] {
            server.sql(&format!("ALTER USER sysbench@'{host}' WITH MAX_USER_CONNECTIONS 5"));
        }
        run(&server, "error 1226");
    }
    for server in servers(&["--max-user-connections=5"]) {
        run(&server, "error 1203");
    }
}

#[test]
fn a_prepare_that_fails_says_what_it_leaves_behind() {
    for server in servers(&[]) {
        server.sql(
            "CREATE USER loader@'%' IDENTIFIED BY 'loader'; GRANT SELECT, INSERT, CREATE ON sbtest.* TO loader@'%'",
        );
        let url = format!("mysql://loader:loader@127.0.0.1:{}/sbtest", server.port());
        let message = fail(1, &[&["prepare", "--url", &url], &SMALL[..]].concat());
        let last = message.lines().last().unwrap();
        // MySQL and MariaDB word it differently, so only what is ours is held.
        assert!(last.contains("building index k_") && last.contains("run `oltpbench cleanup`"), "{message}");
    }
}

#[test]
fn counters_are_read_although_a_proxy_closes_connections_that_are_idle_for_the_window() {
    let Some(haproxy) = installed("haproxy") else { return };
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let proxy = Proxy::start(&haproxy, server.port());
        let url = format!("mysql://sysbench:sysbench@127.0.0.1:{}/sbtest", proxy.port());
        let arguments = ["run", "--mode", "point-select", "--url", &url, "--threads", "2", "--time", "4"];
        let run = report(&[&arguments[..], &SMALL].concat());
        let selects = count(&run, "server.counters.Com_select");
        assert!(selects > 0, "{}", run["findings"]);
        assert_eq!(count(&run, "totals.reconnects"), 0);
        // The connection that was closed, and the one that took its place.
        assert!(count(&run, "server.counters.Connections") >= 1, "{}", run["server"]);
    }
}

#[test]
fn a_proxy_that_is_restarted_costs_each_connection_one_transaction_and_not_the_run() {
    let Some(haproxy) = installed("haproxy") else { return };
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        let mut proxy = Proxy::start(&haproxy, server.port());
        let url = format!("mysql://sysbench:sysbench@127.0.0.1:{}/sbtest", proxy.port());
        // More failed transactions than --max-error-rate lets fail, were they not an outage's.
        let arguments = ["run", "--mode", "read-only", "--url", &url, "--threads", "16", "--time", "4"];
        let selects = || server.status(&["Com_select"])["Com_select"];
        let before = selects();
        let run = std::thread::scope(|scope| {
            let run = scope.spawn(|| report(&[&arguments[..], &["--db-ps-mode", "disable"], &SMALL].concat()));
            while selects() < before + 500 {
                sleep(Duration::from_millis(20));
            }
            proxy.restart();
            run.join().unwrap()
        });
        assert_eq!(run["status"], "completed");
        let totals = &run["totals"];
        assert!(count(totals, "reconnects") >= 16, "{totals}");
        assert_eq!(count(totals, "lost_transactions"), count(totals, "failed_transactions"), "{totals}");
        let outage = number(&run, "outages.all_connections.longest_s");
        assert!(outage > 0.0 && outage <= number(&run, "latency_us.outage.max") / 1e6, "{}", run["outages"]);
    }
}

#[test]
fn writes_that_a_session_would_never_commit_are_refused_wherever_that_was_set() {
    for server in servers(&[]) {
        let url = server.url();
        prepare(&server, &SMALL);
        let run = |more: &[&str]| {
            let arguments = ["run", "--mode", "update-non-index", "--events", "20", "--time", "0", "--url", &url];
            [&arguments[..], &SMALL[..], more].concat().into_iter().map(str::to_string).collect::<Vec<_>>()
        };
        let refused = |more: &[&str]| {
            let arguments = run(more);
            let message = fail(1, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(message.contains("autocommit is off on this connection"), "{message}");
        };
        let writes = |more: &[&str]| {
            let arguments = run(more);
            let before = server.sql("CHECKSUM TABLE sbtest.sbtest1, sbtest.sbtest2, sbtest.sbtest3");
            report(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            assert_ne!(server.sql("CHECKSUM TABLE sbtest.sbtest1, sbtest.sbtest2, sbtest.sbtest3"), before);
        };
        let (on, off) = (["--init-sql", "SET autocommit = 1"], ["--init-sql", "SET autocommit = 0"]);
        writes(&[]);
        refused(&off);
        server.sql("SET GLOBAL init_connect = 'SET autocommit = 0'");
        refused(&[]);
        writes(&on);
        server.sql("SET GLOBAL init_connect = ''; SET GLOBAL autocommit = OFF");
        refused(&[]);
        writes(&on);
        // What commits by itself may have it off.
        report(
            &[&["run", "--mode", "read-write", "--events", "20", "--time", "0", "--url", &url], &SMALL[..]].concat(),
        );
    }
}

#[test]
fn a_load_leaves_the_same_rows_whichever_way_the_server_allows() {
    for server in servers(&[]) {
        let load = |allowed: &str, threads: &str| {
            server.sql(&format!("SET GLOBAL local_infile = {allowed}"));
            let said = succeed(&[&["prepare", "--url", &server.url(), "--threads", threads], &SMALL[..]].concat());
            let sums = server.sql("CHECKSUM TABLE sbtest.sbtest1, sbtest.sbtest2, sbtest.sbtest3");
            succeed(&[&["cleanup", "--url", &server.url()], &SMALL[..]].concat());
            (said, sums)
        };
        let (said, lines) = load("ON", "3");
        assert!(said.contains("by LOAD DATA LOCAL"), "{said}");
        let (said, inserts) = load("OFF", "1");
        assert!(said.contains("by multi-row INSERT"), "{said}");
        assert_eq!(lines, inserts);
        assert!(lines.iter().all(|table| table[1] != "0" && table[1] != "NULL"), "{lines:?}");
    }
}

#[test]
fn a_load_and_a_run_keep_every_byte_whatever_the_servers_modes_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.yaml");
    let workload = |text: &str| {
        let yaml = format!(
            "description: d\ntables:\n  own:\n    count: 1\n    rows: 10\n    columns:\n      id: {{type: bigint, value: row}}\n      \
             t: {{type: char(9), value: \"string('{text}')\"}}\n    key: {{columns: [id]}}\nstatements:\n  \
             one:\n    kind: write\n    table: table\n    sql: \"UPDATE {{own}} SET t=? WHERE id=?\"\n    \
             arguments: [\"string('{text}')\", ticket + 1]\n\
             transaction:\n  begin: on\n  steps:\n    - let: {{table: 1}}\n    - execute: one\n"
        );
        std::fs::write(&file, yaml).unwrap();
        file.to_str().unwrap().to_string()
    };
    for server in servers(&["--autocommit=0", "--local-infile=ON", "--sql-mode=NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES"])
    {
        let said = succeed(&["prepare", "--workload", &workload("a\\\\b"), "--url", &server.url()]);
        assert!(said.contains("by LOAD DATA LOCAL"), "{said}");
        let stored = || server.sql("SELECT DISTINCT HEX(t) FROM sbtest.own1");
        assert_eq!(stored(), [["615C62"]]);
        for mode in ["auto", "disable"] {
            server.sql("UPDATE sbtest.own1 SET t=''; COMMIT");
            let run = ["run", "--threads", "2", "--events", "10", "--time", "0", "--db-ps-mode", mode];
            report(&[&run[..], &["--workload", &workload("a\\\\b"), "--url", &server.url()]].concat());
            assert_eq!(stored(), [["615C62"]], "{mode}");
        }
        succeed(&["cleanup", "--workload", &workload("a"), "--url", &server.url()]);
        let message = fail(1, &["prepare", "--workload", &workload("much too long"), "--url", &server.url()]);
        assert!(message.contains("1265") || message.contains("1406"), "{message}");
    }
}
