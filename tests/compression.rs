//! Compressed connections to real servers, with the servers' own counters and status as the judge.

mod support;

use std::sync::atomic::AtomicBool;

use oltpbench::spec::{Algorithm, TargetAddress};
use oltpbench::target::mysql::connection::{Connection, Endpoint};
use support::Server;
use support::program::{count, fail, report, succeed};

/// Servers with what each of them offers.
fn servers(arguments: &[&str]) -> Vec<(Server, &'static [Algorithm])> {
    let mariadb = Server::mariadb(arguments).map(|server| (server, &[Algorithm::Zlib][..]));
    let mysql = Server::mysql(arguments).map(|server| (server, &Algorithm::ALL[..]));
    [mariadb, mysql].into_iter().flatten().collect()
}

const SMALL: [&str; 4] = ["--tables", "2", "--table-size", "1000"];

fn endpoint(server: &Server, algorithm: Option<Algorithm>) -> Endpoint {
    let TargetAddress::MySql(mut address) = TargetAddress::parse(&server.url()).unwrap() else { unreachable!() };
    address.compression = algorithm;
    Endpoint::new(*address).unwrap()
}

fn status(connection: &mut Connection<'_>, name: &str) -> String {
    let rows = connection.rows(&format!("SHOW SESSION STATUS LIKE '{name}'")).unwrap();
    String::from_utf8(rows[0][1].clone().unwrap()).unwrap()
}

#[test]
fn a_compressed_run_does_what_its_report_counts() {
    for (server, algorithms) in servers(&["--local-infile=ON"]) {
        let url = server.url();
        for algorithm in algorithms.iter().map(|algorithm| algorithm.name()) {
            let compressed = ["--url", &url, "--compress", algorithm];
            let said = succeed(&[&["prepare"], &compressed[..], &SMALL].concat());
            assert!(said.contains("2000 rows by LOAD DATA LOCAL"), "{said}");
            for ps_mode in ["auto", "disable"] {
                let names = ["Com_commit", "Com_update", "Com_insert", "Com_delete"];
                let before = server.status(&names);
                let options = ["--threads", "4", "--time", "0", "--events", "100", "--db-ps-mode", ps_mode];
                let arguments = [&["run", "--mode", "read-write"], &compressed[..], &options, &SMALL].concat();
                let run = report(&arguments);
                let after = server.status(&names);
                let rose: Vec<u64> = names.iter().map(|&name| after[name] - before[name]).collect();
                let retries = count(&run, "totals.retries");
                assert_eq!((retries, rose), (0, vec![100, 200, 100, 100]), "{}", run["totals"]);
                assert_eq!(count(&run, "totals.transactions"), 100);
                assert_eq!(run["target"]["compression"], algorithm);
            }
            succeed(&[&["cleanup"], &compressed[..], &SMALL].concat());
        }
        let plain = [&["prepare", "--url", &url], &SMALL[..]].concat();
        succeed(&plain);
        let run = report(&[&["run", "--url", &url, "--time", "0", "--events", "1"], &SMALL[..]].concat());
        assert!(run["target"]["compression"].is_null());
    }
}

#[test]
fn the_server_sees_the_compression_that_was_asked_for() {
    for (server, algorithms) in servers(&[]) {
        let mut plain = Connection::open(&endpoint(&server, None)).unwrap();
        assert_eq!(status(&mut plain, "Compression"), "OFF");
        for &algorithm in algorithms {
            let mut connection = Connection::open(&endpoint(&server, Some(algorithm))).unwrap();
            assert_eq!(status(&mut connection, "Compression"), "ON");
            if algorithms.len() > 1 {
                assert_eq!(status(&mut connection, "Compression_algorithm"), algorithm.name());
            }
            let bytes = |connection: &mut Connection<'_>| -> u64 { status(connection, "Bytes_sent").parse().unwrap() };
            let before = bytes(&mut connection);
            assert_eq!(connection.query("SELECT REPEAT('oltpbench', 10000)").unwrap().rows, 1);
            assert!(bytes(&mut connection) - before < 10_000);
        }
    }
}

#[test]
fn statements_and_rows_of_any_length_go_through_and_errors_come_back() {
    for (server, algorithms) in servers(&["--max-allowed-packet=64M"]) {
        for &algorithm in algorithms {
            let mut connection = Connection::open(&endpoint(&server, Some(algorithm))).unwrap();
            let mut query = |sql: &str| connection.rows(sql).map_err(|fault| fault.code);
            for length in [1_usize, 49, 50, 51, 16_384, 1 << 20, (1 << 24) - 20, (1 << 24) + 5] {
                let sql = format!("SELECT '{}'", "ab".repeat(length / 2));
                let rows = query(&sql).unwrap_or_else(|code| panic!("{algorithm:?} {length}: {code}"));
                assert_eq!(rows[0][0].as_ref().unwrap().len(), length / 2 * 2);
            }
            // Several results, whose packets the server numbers as it likes.
            assert_eq!(query("SELECT 1; SELECT REPEAT('x', 100); SELECT 3").unwrap().len(), 3);
            assert_eq!(query("nonsense").unwrap_err(), 1064);
            assert_eq!(query("SELECT 1").unwrap().len(), 1);
        }
    }
}

#[test]
fn a_file_of_several_packets_is_loaded() {
    for (server, algorithms) in servers(&["--local-infile=ON"]) {
        server.sql("CREATE TABLE sbtest.loaded (c VARCHAR(100))");
        let rows = "one row of many, which are all the same and so compress well\n".repeat(60_000);
        assert!(rows.len() > 3 << 20);
        for &algorithm in algorithms {
            let never = AtomicBool::new(false);
            let mut connection = Connection::open_to_load(&endpoint(&server, Some(algorithm)), &never).unwrap();
            let answer = connection.load("LOAD DATA LOCAL INFILE 'x' INTO TABLE loaded", &rows).unwrap();
            assert_eq!((answer.affected, answer.warnings), (60_000, 0));
            assert_eq!(connection.query("SELECT 1").unwrap().rows, 1);
        }
    }
}

#[test]
fn a_compressed_connection_may_be_encrypted_and_says_why_it_was_killed() {
    for (server, algorithms) in servers(&[]) {
        for &algorithm in algorithms {
            let mut connection = Connection::open(&endpoint(&server, Some(algorithm))).unwrap();
            let id = connection.rows("SELECT CONNECTION_ID()").unwrap()[0][0].clone().unwrap();
            server.sql(&format!("KILL {}", String::from_utf8(id).unwrap()));
            let fault = connection.query("SELECT 1").unwrap_err();
            assert_eq!(fault.class.name(), "connection lost", "{fault:?}");
        }
    }
    let Some(server) = Server::mysql(&[]) else { return };
    for algorithm in Algorithm::ALL {
        let mut endpoint = endpoint(&server, Some(algorithm));
        endpoint.address.ssl_mode = oltpbench::spec::SslMode::Required;
        let mut connection = Connection::open(&endpoint).unwrap();
        assert_eq!(status(&mut connection, "Compression"), "ON");
        assert!(status(&mut connection, "Ssl_cipher").contains("TLS"));
    }
}

#[test]
fn what_a_server_does_not_offer_is_an_error_that_names_what_it_does() {
    let run = |server: &Server, algorithm: &str| {
        let url = server.url();
        succeed(&[&["prepare", "--url", &url], &SMALL[..]].concat());
        fail(1, &[&["run", "--url", &url, "--compress", algorithm], &SMALL[..]].concat())
    };
    if let Some(server) = Server::mariadb(&[]) {
        let message = run(&server, "zstd");
        assert!(message.contains("does not offer --compress zstd, but zlib"), "{message}");
    }
    if let Some(server) = Server::mysql(&["--protocol-compression-algorithms=uncompressed"]) {
        let message = run(&server, "zlib");
        assert!(message.contains("nor any other compression; leave it out"), "{message}");
    }
    let message = fail(2, &["run", "--url", "mysql://h/d", "--compress", "lz4"]);
    assert!(message.contains("use zlib or zstd"), "{message}");
    let message = fail(2, &["run", "--url", "simulated:", "--compress", "zlib"]);
    assert!(message.contains("--compress is only for mysql:// targets"), "{message}");
}
