//! Checks that the real servers the other tests rely on start, answer, come back and leave nothing behind.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use support::Server;

#[test]
fn mariadb_answers_restarts_and_leaves_nothing() {
    if let Some(server) = Server::mariadb(&["--general-log"]) {
        answers_restarts_and_leaves_nothing(server);
    }
}

#[test]
fn mysql_answers_restarts_and_leaves_nothing() {
    if let Some(server) = Server::mysql(&["--general-log"]) {
        answers_restarts_and_leaves_nothing(server);
    }
}

#[test]
fn failed_start_shows_the_servers_log() {
    for start in [Server::mariadb, Server::mysql] {
        if start(&[]).is_none() {
            continue;
        }
        let failure = catch_unwind(AssertUnwindSafe(|| start(&["--no-such-option"])));
        let message = failure.err().and_then(|panic| panic.downcast::<String>().ok());
        let message = message.expect("a panic with a message");
        assert!(message.contains("ended at its start") && message.contains("no-such-option"), "{message}");
    }
}

fn answers_restarts_and_leaves_nothing(mut server: Server) {
    assert_eq!(server.sql("SELECT 1"), [["1"]]);
    assert_eq!(server.sql(r"SELECT 'a\tb\nc\\d', NULL; SELECT 'é'"), [vec!["a\tb\nc\\d", "NULL"], vec!["é"]]);
    assert_eq!(server.sql("SELECT @@max_connections"), [["1200"]]);
    assert!(server.try_sql("SELECT none").unwrap_err().contains("Unknown column"));
    assert!(server.general_log().contains("SELECT @@max_connections"));
    let before = server.status(&["Com_select"])["Com_select"];
    assert_eq!(server.status(&["Com_select"])["Com_select"], before, "asking for the status counts as no select");
    server.sql("SELECT 2");
    assert!(server.status(&["Com_select"])["Com_select"] > before);

    assert_eq!(over_tcp(&server, "SELECT DATABASE()"), "sbtest\n");
    over_tcp(&server, "CREATE TABLE kept (id INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO kept VALUES (7)");
    let (port, first) = (server.port(), process(&server));
    server.restart();
    assert_eq!(server.port(), port);
    assert!(!first.exists(), "the first process is gone");
    assert_eq!(over_tcp(&server, "SELECT id FROM kept"), "7\n");

    server.kill();
    assert!(server.try_sql("SELECT 1").is_err());
    server.restart();
    assert_eq!(over_tcp(&server, "SELECT id FROM kept"), "7\n");

    let (last, folder) = (process(&server), server.folder().to_path_buf());
    assert!(last.exists() && folder.exists());
    drop(server);
    assert!(!last.exists(), "the last process is gone");
    assert!(!folder.exists(), "the folder is gone");
}

/// Runs statements as the tests' user on the tests' database, over TCP.
fn over_tcp(server: &Server, statements: &str) -> String {
    let output = server
        .client()
        .args(["--host=127.0.0.1", "--user=sysbench", "--password=sysbench", "--batch", "--skip-column-names"])
        .args([format!("--port={}", server.port()), format!("--execute={statements}"), "sbtest".to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{statements}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn process(server: &Server) -> PathBuf {
    Path::new("/proc").join(server.pid().expect("a running server").to_string())
}
