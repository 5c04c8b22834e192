//! What is said when a server does not let the program in or not as it was asked to, and when its tables are not those
//! of the workload.

mod support;

use support::null_server::{Behaviour, NullServer};
use support::program::{fail, oltpbench, report, report_of, succeed};
use support::server::Server;

fn servers(arguments: &[&str]) -> impl Iterator<Item = Server> {
    [Server::mariadb(arguments), Server::mysql(arguments)].into_iter().flatten()
}

/// The URL of another account of the same server.
fn url_of(server: &Server, account: &str) -> String {
    format!("mysql://{account}@127.0.0.1:{}/sbtest", server.port())
}

#[test]
fn a_refused_login_says_whether_there_was_a_password_and_what_else_it_may_be() {
    for server in servers(&[]) {
        server.sql("CREATE USER 'locked'@'%' IDENTIFIED BY 'hunter2'; CREATE USER 'secure'@'%' REQUIRE SSL");
        let said = |url: &str| {
            let message = fail(1, &["run", "--url", url]);
            assert_eq!(message.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{message}");
            message
        };
        let message = said(&url_of(&server, "locked"));
        assert!(message.contains("user `locked` without a password; give it in OLTPBENCH_PASSWORD"), "{message}");
        let message = said(&url_of(&server, "locked:wrong"));
        assert!(message.contains("user `locked` with this password"), "{message}");
        let message = said(&url_of(&server, "secure"));
        assert!(message.contains("use --ssl-mode required"), "{message}");
        let message = said(&format!("{}?ssl-mode=preferred", url_of(&server, "locked")));
        assert!(!message.contains("--ssl-mode required"), "{message}");
    }
}

#[test]
fn a_server_for_encrypted_connections_only_is_met_with_the_option_for_them() {
    for server in servers(&[]) {
        // The tests' own connection goes over the socket, which counts as secure.
        server.sql("SET GLOBAL require_secure_transport = ON");
        let message = fail(1, &["run", "--url", &server.url()]);
        assert!(message.contains("use --ssl-mode required"), "{message}");
        // MariaDB calls it a refused login.
        if !server.version().contains("MariaDB") {
            assert!(message.contains("takes encrypted connections only"), "{message}");
        }
    }
}

#[test]
fn encryption_that_was_preferred_and_not_to_be_had_is_a_finding() {
    let Some(server) = Server::mariadb(&["--skip-ssl"]) else { return };
    let size = ["--tables", "1", "--table-size", "100"];
    succeed(&[&["prepare", "--url", &server.url()], &size[..]].concat());
    for (mode, told) in [("preferred", true), ("disabled", false)] {
        let arguments = ["run", "--url", &server.url(), "--events", "20", "--ssl-mode", mode];
        let (report, _) = report_of(oltpbench(&[&arguments[..], &size[..]].concat()));
        let findings = report["findings"].as_array().unwrap();
        assert_eq!(findings.iter().any(|finding| finding["code"] == "tls"), told, "{mode}: {findings:?}");
    }
}

#[test]
fn encryption_is_that_of_the_own_connection_and_not_what_the_server_says_of_one() {
    // Behind a proxy that ends TLS the server would say a cipher; this one says nothing at all.
    let server = NullServer::start(0, Behaviour::Prompt).unwrap();
    let url = server.url();
    for (mode, told) in [("preferred", true), ("disabled", false)] {
        let arguments = ["run", "--mode", "point-select", "--url", &url, "--events", "20", "--time", "0"];
        let report = report(&[&arguments[..], &["--ssl-mode", mode]].concat());
        let findings = report["findings"].as_array().unwrap();
        assert_eq!(findings.iter().any(|finding| finding["code"] == "tls"), told, "{mode}: {findings:?}");
    }
    let said = succeed(&["check", "--mode", "point-select", "--url", &url, "--ssl-mode", "preferred"]);
    assert!(said.contains("connections are not encrypted although --ssl-mode is preferred"), "{said}");
}

#[test]
fn tables_of_another_workload_and_views_are_neither_used_nor_dropped() {
    for server in servers(&[]) {
        let url = server.url();
        let size = ["--tables", "2", "--table-size", "100"];
        succeed(&[&["prepare", "--url", &url], &size[..]].concat());
        for command in ["prepare", "run", "cleanup"] {
            let message = fail(1, &[command, "--workload", "bulk_insert", "--url", &url, "--threads", "2"]);
            assert!(message.contains("sbtest1 has the columns id, k, c, pad, not id, k"), "{command}: {message}");
        }
        // A key that a server adds by itself is no column of the workload's.
        server.sql("ALTER TABLE sbtest.sbtest1 ADD COLUMN hidden INT DEFAULT 7 INVISIBLE");
        report(&[&["run", "--url", &url, "--events", "10", "--mode", "read-write"], &size[..]].concat());
        server.sql("DROP TABLE sbtest.sbtest2; CREATE VIEW sbtest.sbtest2 AS SELECT * FROM sbtest.sbtest1");
        let message = fail(1, &[&["cleanup", "--url", &url], &size[..]].concat());
        assert!(message.contains("sbtest2 is a view"), "{message}");
        server.sql("DROP VIEW sbtest.sbtest2");
        assert!(succeed(&[&["cleanup", "--url", &url], &size[..]].concat()).contains("Dropped 1 table "));
    }
}

#[test]
fn what_a_users_rights_do_not_let_it_see_or_do_is_said_and_nothing_made_is_called_incomplete() {
    for server in servers(&[]) {
        for (user, rights) in [("maker", "CREATE"), ("reader", "SELECT"), ("writer", "CREATE, INSERT")] {
            server.sql(&format!("CREATE USER '{user}'@'%'; GRANT {rights} ON sbtest.* TO '{user}'@'%'"));
        }
        let size = ["--tables", "2", "--table-size", "100"];
        let arguments = |command: &'static str, url: &'static str| (command, url_of(&server, url));
        let failed = |(command, url): (&str, String)| fail(1, &[&[command, "--url", &url], &size[..]].concat());
        let message = failed(arguments("prepare", "reader"));
        assert!(message.contains("CREATE command denied") && !message.contains("cleanup"), "{message}");
        let nothing = succeed(&[&["cleanup", "--url", &url_of(&server, "maker")], &size[..]].concat());
        assert!(nothing.contains("Dropped 0 tables: ") && nothing.contains("that this user may see"), "{nothing}");

        succeed(&[&["prepare", "--url", &server.url()], &size[..]].concat());
        for command in ["prepare", "run", "prewarm", "cleanup"] {
            let message = failed(arguments(command, "maker"));
            assert!(message.contains("sbtest1 is there, but this user may not see its columns"), "{message}");
            assert!(message.contains("grant SELECT, INSERT"), "{message}");
        }
        // One that sees them and may not drop them leaves them all.
        let message = failed(arguments("cleanup", "writer"));
        assert!(message.contains("DROP command denied") && !message.contains("cleanup"), "{message}");
        let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'sbtest'";
        assert_eq!(server.sql(tables), [["2"]]);
        // What was begun is there.
        succeed(&[&["cleanup", "--url", &server.url()], &size[..]].concat());
        let message = failed(arguments("prepare", "maker"));
        assert!(message.contains("what is there is incomplete, so run `oltpbench cleanup`"), "{message}");
    }
}

#[test]
fn more_rows_than_a_servers_integer_can_number_are_refused_before_a_table_is_made() {
    for server in servers(&[]) {
        let size = ["--tables", "1", "--table-size", "2147483648"];
        let message = fail(1, &[&["prepare", "--url", &server.url()], &size[..]].concat());
        let told = "sbtest cannot have 2147483648 rows: an INTEGER such as its id ends at 2147483647";
        assert!(message.contains(told), "{message}");
        assert!(server.sql("SHOW TABLES FROM sbtest").is_empty());
    }
}
