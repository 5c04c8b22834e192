//! What surrounds a measurement on real servers: checks, loading and limits, and Ctrl-C while a server does not answer.

mod support;

use std::process::{Child, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::Server;
use support::program::{oltpbench, succeed, text};

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
    let errors = message.lines().filter(|line| !line.starts_with("Loading rows: "));
    assert_eq!(errors.count(), 1, "{message}");
}

#[test]
fn one_ctrl_c_ends_every_command_that_waits_for_a_server_to_answer_its_login() {
    for server in servers(&[]) {
        prepare(&server, &SMALL);
        server.pause();
        for command in ["prepare", "prewarm", "cleanup", "run"] {
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
        while server.status(&["Com_insert"])["Com_insert"] == 0 {
            sleep(Duration::from_millis(5));
        }
        server.pause();
        let output = interrupted(child);
        assert_interrupted(&output, "interrupted while loading rows; what is there is incomplete");
        server.resume();
    }
}

#[test]
fn one_ctrl_c_ends_a_statement_that_waits_for_a_lock() {
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
            rows.iter().any(|row| row.iter().any(|cell| cell.contains(what)))
        };
        while !processes("SELECT SLEEP") {
            sleep(Duration::from_millis(5));
        }
        for (command, sent, part) in [
            ("prewarm", "ANALYZE", "interrupted while reading tables; nothing was changed"),
            ("run", "SELECT 'sbtest1'", "interrupted while reading table sizes; nothing was changed"),
            ("cleanup", "DROP TABLE", "interrupted while dropping tables; run `oltpbench cleanup` again"),
        ] {
            let child = started(&server, &[&[command], &SMALL[..]].concat());
            while !processes(sent) {
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
}
