//! `--validate` on SQLite, MariaDB and MySQL: runs that nobody disturbs show no difference, and whatever was done to a
//! row behind a run's back is found.

mod support;

use std::time::{Duration, Instant};

use serde_json::Value;
use sqlx::Connection;
use support::Server;
use support::program::{count, fail, oltpbench, report, report_of, succeed, text};

/// Where tables can be.
enum Place {
    File { folder: tempfile::TempDir, url: String },
    Server(Server),
}

impl Place {
    fn all() -> Vec<Place> {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("test.sqlite").display());
        let servers = [Server::mariadb(&[]), Server::mysql(&[])].into_iter().flatten().map(Place::Server);
        std::iter::once(Place::File { folder, url }).chain(servers).collect()
    }

    fn url(&self) -> String {
        match self {
            Place::File { url, .. } => url.clone(),
            Place::Server(server) => server.url(),
        }
    }

    fn execute(&self, sql: &str) {
        match self {
            Place::Server(server) => drop(server.sql(&format!("USE sbtest;\n{sql}"))),
            Place::File { url, .. } => {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(async {
                    let mut connection = sqlx::SqliteConnection::connect(url).await.unwrap();
                    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
                    connection.close().await.unwrap();
                });
            }
        }
    }

    /// Makes the tables of a workload anew, whichever were there.
    fn prepare(&self, workload: &[&str]) {
        match self {
            Place::Server(_) => self.execute("DROP TABLE IF EXISTS sbtest1, sbtest2, sbtest3, sbtest4"),
            Place::File { folder, .. } => {
                let files = std::fs::read_dir(folder.path()).unwrap();
                files.for_each(|file| std::fs::remove_file(file.unwrap().path()).unwrap());
            }
        }
        succeed(&[&["prepare", "--url", &self.url()], workload].concat());
    }

    /// A run that validates, whatever comes of it.
    fn run(&self, workload: &[&str], rest: &[&str]) -> (Value, i32) {
        let url = self.url();
        let run = ["run", "--url", &url, "--time", "0", "--rand-seed", "1", "--validate"];
        let (document, output) = report_of(oltpbench(&[&run[..], workload, rest].concat()));
        (document, output.status.code().unwrap())
    }
}

#[track_caller]
fn assert_clean(run: &Value, what: &str) {
    assert_eq!(run["validation"]["differences"], 0, "{what}: {}", run["validation"]);
    assert!(run["validation"]["unaudited"].is_null(), "{what}: {}", run["validation"]);
    assert_eq!(codes(run, "validation"), 0, "{what}");
    assert_eq!(errors(run), 0, "{what}");
}

/// Findings whose codes begin so.
fn codes(run: &Value, start: &str) -> usize {
    let findings = run["findings"].as_array().unwrap().iter();
    findings.filter(|finding| finding["code"].as_str().unwrap().starts_with(start)).count()
}

/// Errors of class validation in the whole run.
fn errors(run: &Value) -> u64 {
    let spans = ["totals", "warmup", "drained"].iter();
    let errors = spans.flat_map(|span| run[span]["errors"].as_array().unwrap());
    errors.filter(|error| error["class"] == "validation").map(|error| count(error, "count")).sum()
}

/// The first differences, one a line.
fn differences(run: &Value) -> String {
    let first = run["validation"]["first_differences"].as_array().unwrap().iter();
    let line = |difference: &Value| {
        format!("{}: {}", difference["place"].as_str().unwrap(), difference["message"].as_str().unwrap())
    };
    first.map(line).collect::<Vec<_>>().join("\n")
}

const SMALL: [&str; 4] = ["--tables", "2", "--table-size", "400"];

#[test]
fn no_workload_shows_a_difference_that_is_none() {
    let list = succeed(&["workloads", "list"]);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for place in Place::all() {
        for name in &names {
            let size: &[&str] = match *name {
                "bulk_insert" => &["--rows-per-insert", "200"],
                "select_random_points" | "select_random_ranges" => &["--table-size", "1000"],
                _ => &SMALL,
            };
            let workload = [&["--workload", name, "--threads", "4"], size].concat();
            for mode in ["auto", "disable"] {
                place.prepare(&workload);
                let (run, code) = place.run(&workload, &["--events", "200", "--db-ps-mode", mode]);
                let what = format!("{} {name} {mode}", run["target"]["version"]);
                assert_clean(&run, &what);
                assert_eq!(code, 0, "{what}: {run}");
                let tables = if *name == "bulk_insert" {
                    4
                } else if name.starts_with("select") {
                    1
                } else {
                    2
                };
                assert_eq!(count(&run, "validation.audited_tables"), tables, "{what}");
                assert_eq!(run["validation"]["unchecked_statements"], Value::Array(Vec::new()), "{what}");
                let reads = ["totals", "drained"].map(|span| count(&run, &format!("{span}.reads")));
                let failed = ["totals", "drained"].map(|span| count(&run, &format!("{span}.failed_attempts.reads")));
                // Of an attempt that failed the last read may have met the error.
                let sent = reads[0] + reads[1] + failed[0] + failed[1];
                assert!(count(&run, "validation.reads") >= reads[0] + reads[1], "{what}: {run}");
                assert!(count(&run, "validation.reads") <= sent, "{what}: {run}");
            }
        }
    }
}

#[test]
fn writers_that_meet_at_few_rows_show_no_difference() {
    let hot = ["--tables", "1", "--table-size", "20"];
    let busy = ["--threads", "8", "--events", "600", "--max-retries", "1000", "--ignore-errors", "1062,1555,2067"];
    for place in Place::all() {
        for options in [
            &[][..],
            &["--skip-trx", "on"],
            &["--secondary", "on"],
            &["--secondary", "on", "--skip-trx", "on"],
            &["--index-updates", "5", "--non-index-updates", "5", "--rand-type", "pareto"],
        ] {
            let workload = [&["--mode", "read-write", "--range-size", "5"], &hot[..], options].concat();
            place.prepare(&workload);
            let (run, code) = place.run(&workload, &busy);
            assert_clean(&run, &format!("{} {options:?}", run["target"]["version"]));
            assert_eq!(code, 0, "{options:?}: {run}");
        }
        for options in [&["--mode", "insert", "--auto-inc", "off"][..], &["--mode", "update-index"]] {
            let workload = [options, &hot[..]].concat();
            place.prepare(&workload);
            let (run, _) = place.run(&workload, &busy);
            assert_clean(&run, &format!("{} {options:?}", run["target"]["version"]));
        }
    }
}

#[test]
fn what_an_isolation_level_allows_is_no_difference() {
    let workload = ["--mode", "read-write", "--tables", "1", "--table-size", "50", "--range-size", "20"];
    for place in Place::all().into_iter().filter(|place| matches!(place, Place::Server(_))) {
        for level in ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
            place.prepare(&workload);
            let begin = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
            let rest = ["--threads", "8", "--events", "500", "--max-retries", "1000", "--init-sql", &begin];
            let (run, code) = place.run(&workload, &rest);
            assert_clean(&run, &format!("{} {level}", run["target"]["version"]));
            assert_eq!(code, 0, "{level}: {run}");
        }
    }
}

#[test]
fn a_server_that_crashes_and_comes_back_has_lost_nothing() {
    for mut server in [Server::mariadb(&[]), Server::mysql(&[])].into_iter().flatten() {
        let workload = [&["--mode", "write-only"], &SMALL[..]].concat();
        let url = server.url();
        succeed(&[&["prepare", "--url", &url], &workload[..]].concat());
        let rest = ["--threads", "8", "--events", "6000", "--time", "0", "--max-error-rate", "100", "--validate"];
        let arguments = [&["run", "--url", url.as_str()], &workload[..], &rest].concat();
        let rows = |server: &Server| {
            server.try_sql("SELECT SUM(k) FROM sbtest.sbtest1").map_or(String::new(), |rows| rows[0][0].clone())
        };
        let run = std::thread::scope(|scope| {
            let run = scope.spawn(|| report_of(oltpbench(&arguments)).0);
            let (before, began) = (rows(&server), Instant::now());
            while rows(&server) == before {
                assert!(began.elapsed() < Duration::from_secs(60), "the run does not begin");
                std::thread::sleep(Duration::from_millis(20));
            }
            server.kill();
            server.restart();
            run.join().unwrap()
        });
        assert!(count(&run, "totals.lost_connections") > 0, "the crash came too late: {run}");
        assert_clean(&run, run["target"]["version"].as_str().unwrap());
    }
}

#[test]
fn connections_that_are_killed_in_their_transactions_show_no_difference() {
    for server in [Server::mariadb(&[]), Server::mysql(&[])].into_iter().flatten() {
        for options in [&["--skip-trx", "off"][..], &["--skip-trx", "on"]] {
            let workload = [&["--mode", "write-only"], options, &SMALL].concat();
            let url = server.url();
            server.sql("DROP TABLE IF EXISTS sbtest.sbtest1, sbtest.sbtest2");
            succeed(&[&["prepare", "--url", &url], &workload[..]].concat());
            let rest = ["--threads", "8", "--time", "5", "--ignore-errors", "all", "--validate"];
            let arguments = [&["run", "--url", url.as_str()], &workload[..], &rest].concat();
            let run = std::thread::scope(|scope| {
                let run = scope.spawn(|| report_of(oltpbench(&arguments)).0);
                let sessions = || server.sql("SHOW PROCESSLIST").iter().filter(|row| row[1] == "sysbench").count();
                let began = Instant::now();
                while sessions() < 8 {
                    assert!(began.elapsed() < Duration::from_secs(60), "the run does not begin");
                    std::thread::sleep(Duration::from_millis(20));
                }
                // Well before the run ends, so that its audit keeps its connection.
                let began = Instant::now();
                while began.elapsed() < Duration::from_secs(1) {
                    for row in server.sql("SHOW PROCESSLIST").iter().filter(|row| row[1] == "sysbench").take(2) {
                        let _ = server.try_sql(&format!("KILL {}", row[0]));
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
                run.join().unwrap()
            });
            assert!(count(&run, "totals.lost_connections") > 0, "{run}");
            assert_clean(&run, &format!("{} {options:?}", run["target"]["version"]));
        }
    }
}

#[test]
fn a_row_that_was_changed_is_found_where_it_is_read_and_by_the_audit() {
    for place in Place::all() {
        for mode in ["auto", "disable"] {
            let tiny = ["--tables", "1", "--table-size", "50", "--db-ps-mode", mode];
            place.prepare(&tiny[..4]);
            place.execute("UPDATE sbtest1 SET c='changed' WHERE id=7");
            let (run, code) = place.run(&[&["--mode", "point-select"], &tiny[..]].concat(), &["--events", "500"]);
            assert_eq!((code, codes(&run, "validation")), (1, 1), "{run}");
            assert_eq!(count(&run, "totals.failed_transactions"), 0);
            assert!(errors(&run) > 0 && count(&run, "validation.differences") == errors(&run) + 1, "{run}");
            let expected = "sbtest1: c of id 7 is `changed`, which neither prepare nor this run put there";
            assert!(differences(&run).starts_with(expected), "{}", differences(&run));

            // Ranges tell of it too, and so do rows that are found by what they hold.
            let (run, _) = place
                .run(&[&["--mode", "read-only", "--point-selects", "0"], &tiny[..]].concat(), &["--events", "100"]);
            assert!(differences(&run).contains("has c `changed`"), "{}", differences(&run));
            place.execute("UPDATE sbtest1 SET k=k+1 WHERE id=8");
            for name in ["select_random_points", "select_random_ranges"] {
                let workload = ["--workload", name, "--table-size", "50", "--db-ps-mode", mode];
                let (run, code) = place.run(&workload, &["--events", "200"]);
                assert!(code == 1 && errors(&run) > 0, "{name}: {run}");
            }
        }
    }
}

#[test]
fn a_row_that_is_missing_and_one_too_many_are_found() {
    for place in Place::all() {
        let tiny = ["--tables", "2", "--table-size", "50"];
        place.prepare(&tiny);
        place.execute("DELETE FROM sbtest1 WHERE id=7");
        let (run, code) = place.run(&[&["--mode", "read-only"], &tiny[..]].concat(), &["--events", "20"]);
        assert!(code == 1 && errors(&run) > 0, "{run}");
        let all = differences(&run);
        assert!(all.contains("the row of id 7 is missing") && all.contains("the sum of id"), "{all}");
        // A run that reads nothing leaves it to the audit.
        let (run, code) = place.run(&[&["--mode", "update-index"], &tiny[..]].concat(), &["--events", "20"]);
        assert_eq!((code, errors(&run)), (1, 0), "{run}");
        assert_eq!(differences(&run), "audit of sbtest1: the row of id 7 is missing");
        assert_eq!(count(&run, "validation.audited_rows"), 99);

        place.prepare(&tiny);
        // Between the first id and the last one there is no gap, so the run is not refused for it only if it resizes.
        place.execute("INSERT INTO sbtest2 (id, k, c, pad) VALUES (51, 1, 'a', 'b')");
        let (run, code) = place.run(&[&["--mode", "delete"], &tiny[..]].concat(), &["--events", "20"]);
        assert_eq!((code, count(&run, "validation.differences")), (1, 1), "{run}");
        let expected = "audit of sbtest2: there is a row of id 51, which neither prepare nor this run put there";
        assert_eq!(differences(&run), expected);
        // New rows do not hide it, although the server numbers them.
        place.prepare(&tiny);
        place.execute("INSERT INTO sbtest2 (id, k, c, pad) VALUES (51, 1, 'a', 'b')");
        let (run, code) = place.run(&[&["--mode", "insert"], &tiny[..]].concat(), &["--events", "20"]);
        assert_eq!((code, codes(&run, "validation")), (1, 1), "{run}");
        assert!(differences(&run).contains("there is a row of id 51"), "{}", differences(&run));
    }
}

#[test]
fn a_write_that_is_undone_behind_a_runs_back_is_found() {
    // Each update is undone at once, as by a server that forgets what it said it had committed.
    let forgetful = |place: &Place, column: &str| match place {
        Place::File { .. } => format!(
            "CREATE TRIGGER forget AFTER UPDATE ON sbtest1 WHEN new.{column} <> old.{column} BEGIN \
             UPDATE sbtest1 SET {column} = old.{column} WHERE id = old.id; END"
        ),
        Place::Server(_) => {
            format!("CREATE TRIGGER forget BEFORE UPDATE ON sbtest1 FOR EACH ROW SET new.{column} = old.{column}")
        }
    };
    let tiny = ["--tables", "1", "--table-size", "50"];
    for place in Place::all() {
        for (mode, column) in [("update-index", "k"), ("update-non-index", "c")] {
            place.prepare(&tiny);
            place.execute(&forgetful(&place, column));
            let (run, code) = place.run(&[&["--mode", mode], &tiny[..]].concat(), &["--events", "10"]);
            assert_eq!((code, errors(&run)), (1, 0), "{run}");
            let differing = count(&run, "validation.differences");
            assert!((1..=10).contains(&differing), "{run}");
            assert!(
                differences(&run).starts_with(&format!("audit of sbtest1: {column} of id ")),
                "{}",
                differences(&run)
            );
        }
    }
}

#[test]
fn tables_that_were_prepared_otherwise_are_refused_or_taken_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("test.sqlite").display());
    let tables = [&["--url", &url], &SMALL[..]].concat();
    let run = [&["run", "--events", "20", "--time", "0"], &tables[..]].concat();
    succeed(&[&["prepare", "--rand-seed", "7"], &tables[..]].concat());
    let message = fail(1, &[&run[..], &["--validate"]].concat());
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("prepare` with seed 0 makes") && message.contains("--validate=SEED"), "{message}");
    assert_clean(&report(&[&run[..], &["--validate=7"]].concat()), "the seed that was given");
    // k follows the distribution that prepare was given, or that of the run.
    let special = [&run[..], &["--rand-type", "special"]].concat();
    assert_clean(&report(&[&special[..], &["--validate=7"]].concat()), "prepared with another distribution");
    succeed(&[&["cleanup"], &tables[..]].concat());
    succeed(&[&["prepare", "--rand-type", "special"], &tables[..]].concat());
    assert_clean(&report(&[&special[..], &["--validate"]].concat()), "prepared with the same distribution");
    let message = fail(1, &[&run[..], &["--validate"]].concat());
    assert!(message.contains("column k of sbtest1"), "{message}");
    let message = fail(2, &["run", "--url", "simulated:", "--validate"]);
    assert!(message.contains("--validate needs a database"), "{message}");
}

#[test]
fn what_is_not_understood_is_not_checked_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("test.sqlite").display());
    let write = |name: &str, statement: &str| {
        let file = folder.path().join(name);
        let yaml = format!(
            "description: of a test\nextends: sbtest\nstatements:\n  mine: {statement}\ntransaction:\n  begin: true\n  steps:\n    - let: {{table: 1, id: \"random(1, table_size)\"}}\n    - execute: mine\n    - execute: point_select\n"
        );
        std::fs::write(&file, yaml).unwrap();
        file.display().to_string()
    };
    let read = write(
        "read.yaml",
        "{kind: read, table: table, sql: \"SELECT MAX(k) FROM {sbtest} WHERE id=?\", arguments: [id]}",
    );
    let run = |file: &str| {
        let tables = ["--workload", file, "--url", &url, "--tables", "1", "--table-size", "50"];
        let _ = std::fs::remove_file(folder.path().join("test.sqlite"));
        succeed(&[&["prepare"], &tables[..]].concat());
        report(&[&["run", "--events", "20", "--time", "0", "--validate"], &tables[..]].concat())
    };
    let reads = run(&read);
    assert_eq!(reads["validation"]["unchecked_statements"], serde_json::json!(["mine"]));
    assert_eq!((count(&reads, "validation.reads"), count(&reads, "validation.audited_rows")), (20, 50));
    assert_eq!(codes(&reads, "validation-incomplete"), 1);
    let writes = write(
        "write.yaml",
        "{kind: write, table: table, sql: \"UPDATE {sbtest} SET c='x' WHERE id=?\", arguments: [id]}",
    );
    let writes = run(&writes);
    assert_eq!((count(&writes, "validation.reads"), count(&writes, "validation.audited_rows")), (0, 0));
    assert_eq!(writes["validation"]["unaudited"], "what statement `mine` writes is not understood");
}

#[test]
fn the_text_shows_what_was_checked_and_the_first_differences() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("test.sqlite").display());
    let place = Place::File { folder, url };
    let tiny = ["--tables", "1", "--table-size", "50"];
    place.prepare(&tiny);
    let url = place.url();
    let run = [&["run", "--mode", "point-select", "--url", &url, "--events", "100", "--time", "0"], &tiny[..]].concat();
    let without = succeed(&run);
    assert!(!without.contains("Validation"), "{without}");
    let shown = succeed(&[&run[..], &["--validate"]].concat());
    assert!(shown.contains("100 rows of 100 statements") && shown.contains("50 rows of 1 table"), "{shown}");
    place.execute("UPDATE sbtest1 SET c='changed' WHERE id <= 20");
    let output = oltpbench(&[&run[..], &["--validate"]].concat()).output().unwrap();
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    let part = shown.split("\nValidation:").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(part.lines().all(|line| line.chars().count() <= 80), "{part}");
    let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(part.matches("neither prepare nor this run put there").count(), 10, "{shown}");
    assert!(shown.contains("validation       point_select"), "{shown}");
    assert!(text(&output.stderr).contains("see Validation"), "{}", text(&output.stderr));
}
