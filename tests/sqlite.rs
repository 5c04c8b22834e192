//! The whole program on embedded SQLite: prepare, run, prewarm, cleanup, demo.

mod support;

use sqlx::Connection;
use support::program::{count, fail, oltpbench, report, succeed, text};

/// A folder with a prepared database.
struct Database {
    _folder: tempfile::TempDir,
    url: String,
}

fn prepared(rest: &[&str]) -> Database {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("test.sqlite").display());
    succeed(&[&["prepare", "--url", &url], rest].concat());
    Database { _folder: folder, url }
}

/// All rows of sbtest1, by id.
fn rows(database: &Database) -> Vec<(i64, i64, String, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut connection = sqlx::SqliteConnection::connect(&database.url).await.unwrap();
        let query = sqlx::query_as("SELECT id, k, c, pad FROM sbtest1 ORDER BY id");
        let rows = query.fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        rows
    })
}

fn execute(database: &Database, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut connection = sqlx::SqliteConnection::connect(&database.url).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    })
}

const SMALL: [&str; 4] = ["--tables", "3", "--table-size", "2000"];

#[test]
fn read_only_counts_fourteen_reads_and_two_others_a_transaction() {
    let database = prepared(&SMALL);
    let url = database.url.as_str();
    let run =
        report(&[&["run", "--url", url, "--threads", "2", "--events", "300", "--time", "0"], &SMALL[..]].concat());
    assert_eq!(count(&run, "totals.transactions"), 300);
    assert_eq!(count(&run, "totals.reads"), 14 * 300);
    assert_eq!(count(&run, "totals.other"), 2 * 300);
    assert_eq!(count(&run, "totals.failed_transactions"), 0);
}

#[test]
fn several_writers_wait_for_each_other_and_nothing_is_lost() {
    let database = prepared(&SMALL);
    let url = database.url.as_str();
    let run = report(
        &[
            &["run", "--mode", "read-write", "--url", url, "--threads", "4", "--events", "400", "--time", "0"],
            &SMALL[..],
        ]
        .concat(),
    );
    assert_eq!(count(&run, "totals.transactions"), 400);
    assert_eq!(count(&run, "totals.writes"), 4 * 400);
    // Deletes and inserts are of the same id, so a second run finds tables of the same size.
    report(&[&["run", "--url", url, "--events", "10", "--time", "0"], &SMALL[..]].concat());
}

#[test]
fn text_and_prepared_statements_do_the_same_work() {
    let database = prepared(&SMALL);
    for mode in ["auto", "disable"] {
        let arguments = ["run", "--mode", "write-only", "--url", &database.url, "--events", "50", "--time", "0"];
        let run = report(&[&arguments[..], &["--db-ps-mode", mode], &SMALL[..]].concat());
        assert_eq!(count(&run, "totals.writes"), 200);
        assert_eq!(run["spec"]["protocol"], if mode == "auto" { "prepared" } else { "text" });
    }
}

#[test]
fn rows_are_the_same_however_the_load_was_cut() {
    // One table of 60,000 rows is cut into segments; the same rows come from a table that is loaded with others.
    let one = prepared(&["--tables", "1", "--table-size", "60000", "--threads", "8"]);
    let two = prepared(&["--tables", "2", "--table-size", "60000", "--threads", "1"]);
    let first = rows(&one);
    assert_eq!(first.len(), 60_000);
    assert!(first == rows(&two), "the rows of sbtest1 differ");
}

#[test]
fn prewarm_reads_and_cleanup_drops_every_table() {
    let database = prepared(&SMALL);
    let url = database.url.as_str();
    assert!(succeed(&[&["prewarm", "--url", url], &SMALL[..]].concat()).contains("Read 3 tables"));
    assert!(succeed(&[&["cleanup", "--url", url], &SMALL[..]].concat()).contains("Dropped 3 tables"));
    assert!(succeed(&[&["cleanup", "--url", url], &SMALL[..]].concat()).contains("Dropped 0 tables"));
    succeed(&[&["prepare", "--url", url], &SMALL[..]].concat());
}

#[test]
fn every_workload_runs_on_the_tables_that_its_own_prepare_made() {
    let list = succeed(&["workloads", "list"]);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names.len(), 11, "{list}");
    for name in names {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("test.sqlite").display());
        let size: &[&str] = if name == "bulk_insert" { &[] } else { &["--table-size", "500"] };
        let load = ["prepare", "--workload", name, "--url", &url, "--threads", "2"];
        succeed(&[&load[..], size].concat());
        let arguments = ["run", "--workload", name, "--url", &url, "--threads", "2", "--events", "20", "--time", "0"];
        let run = report(&[&arguments[..], size].concat());
        assert_eq!(count(&run, "totals.transactions"), 20, "{name}");
        assert_eq!(count(&run, "totals.failed_transactions"), 0, "{name}");
    }
}

#[test]
fn the_default_target_is_announced_in_the_first_line() {
    let folder = tempfile::tempdir().unwrap();
    let program = |arguments: &[&str]| {
        let output = oltpbench(arguments).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let first = program(&["prepare", "--tables", "1", "--table-size", "100"]);
    assert!(first.lines().next().unwrap().contains("oltpbench.sqlite"), "{first}");
    assert!(folder.path().join("oltpbench.sqlite").exists());
    let second = program(&["run", "--tables", "1", "--table-size", "100", "--events", "5"]);
    assert!(second.lines().next().unwrap().contains("embedded SQLite"), "{second}");
}

#[test]
fn tables_that_exist_are_kept_and_the_message_says_what_to_do() {
    let database = prepared(&SMALL);
    let message = fail(1, &[&["prepare", "--url", &database.url], &SMALL[..]].concat());
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("sbtest1") && message.contains("oltpbench cleanup"), "{message}");
}

#[test]
fn a_run_without_its_tables_says_to_prepare_and_makes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.sqlite");
    let message = fail(1, &["run", "--url", &format!("sqlite:{}", path.display())]);
    assert!(message.contains("oltpbench prepare"), "{message}");
    assert!(!path.exists());

    let database = prepared(&SMALL);
    let message = fail(1, &["run", "--url", &database.url, "--tables", "5", "--table-size", "2000"]);
    assert!(message.contains("sbtest4") && message.contains("oltpbench prepare"), "{message}");
    let message = fail(1, &["run", "--url", &database.url, "--tables", "3", "--table-size", "1000"]);
    assert!(message.contains("ids 1 to 2000") && message.contains("prepared with"), "{message}");
}

#[test]
fn tables_of_another_workload_are_neither_used_nor_dropped() {
    let database = prepared(&SMALL);
    let url = database.url.as_str();
    let bulk = ["--workload", "bulk_insert", "--url", url, "--threads", "2"];
    for command in ["prepare", "prewarm", "run", "cleanup"] {
        let message = fail(1, &[&[command], &bulk[..]].concat());
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.contains("sbtest1 has the columns id, k, c, pad, not id, k"), "{command}: {message}");
    }
    assert_eq!(rows(&database).len(), 2000);
    succeed(&[&["cleanup", "--url", url], &SMALL[..]].concat());

    // The same the other way round.
    succeed(&[&["prepare"], &bulk[..]].concat());
    for command in ["prepare", "run", "cleanup"] {
        let message = fail(1, &[&[command, "--url", url], &SMALL[..]].concat());
        assert!(message.contains("sbtest1 has the columns id, k, not id, k, c, pad"), "{command}: {message}");
    }
    // Ids of a second run would meet those of the first.
    report(&[&["run", "--events", "2"], &bulk[..]].concat());
    let message = fail(1, &[&["prepare"], &bulk[..]].concat());
    assert!(message.contains("rows instead of 0"), "{message}");
    let message = fail(1, &[&["run"], &bulk[..]].concat());
    assert!(message.contains("must be empty") && message.contains("oltpbench cleanup"), "{message}");
    assert!(succeed(&[&["cleanup"], &bulk[..]].concat()).contains("Dropped 2 tables"));
}

#[test]
fn a_view_is_not_counted_as_dropped() {
    let database = prepared(&SMALL);
    execute(&database, "DROP TABLE sbtest3");
    execute(&database, "CREATE VIEW sbtest3 AS SELECT * FROM sbtest2");
    let message = fail(1, &[&["cleanup", "--url", &database.url], &SMALL[..]].concat());
    assert!(message.contains("sbtest3 is a view"), "{message}");
    execute(&database, "DROP VIEW sbtest3");
    assert!(succeed(&[&["cleanup", "--url", &database.url], &SMALL[..]].concat()).contains("Dropped 2 tables"));
}

#[test]
fn inserts_that_sqlite_cannot_number_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("test.sqlite").display());
    let arguments = [&["--mode", "insert", "--url", &url, "--secondary=on"], &SMALL[..]].concat();
    for command in ["prepare", "run"] {
        let message = fail(1, &[&[command], &arguments[..]].concat());
        assert_eq!(message.lines().count(), 1, "{message}");
        // A run is refused for the missing file first.
        let part = if command == "prepare" { "leave out --secondary" } else { "oltpbench prepare" };
        assert!(message.contains(part), "{command}: {message}");
    }
    // Workloads that give ids themselves need no number.
    let database = prepared(&[&["--secondary=on"], &SMALL[..]].concat());
    let url = database.url.as_str();
    let run = ["run", "--url", url, "--secondary=on", "--events", "20", "--mode"];
    report(&[&run[..], &["read-write"], &SMALL[..]].concat());
    let message = fail(1, &[&run[..], &["insert"], &SMALL[..]].concat());
    assert!(message.contains("leave out --secondary"), "{message}");
}

#[test]
fn a_table_that_a_run_has_changed_is_told_from_one_of_other_options() {
    let database = prepared(&SMALL);
    let arguments = [&["--url", &database.url, "--events", "20"], &SMALL[..]].concat();
    report(&[&["run", "--mode", "insert"], &arguments[..]].concat());
    let message = fail(1, &[&["run"], &arguments[..]].concat());
    assert!(message.contains("but ids 1 to 2000 are expected") && message.contains("adds rows"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    execute(
        &database,
        "DELETE FROM sbtest1 WHERE id >= 2000; DELETE FROM sbtest2 WHERE id > 2000; DELETE FROM sbtest3 WHERE id > 2000",
    );
    let message = fail(1, &[&["run"], &arguments[..]].concat());
    assert!(message.contains("sbtest1 holds ids 1 to 1999") && message.contains("removes rows"), "{message}");
}

#[test]
fn a_message_with_line_breaks_and_escape_sequences_is_one_printable_line() {
    let database = prepared(&SMALL);
    for table in ["sbtest1", "sbtest2", "sbtest3"] {
        let trigger = format!(
            "CREATE TRIGGER {table}_refuse BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, 'first\nsecond \u{1b}[2Jthird'); END"
        );
        execute(&database, &trigger);
    }
    let arguments = ["run", "--mode", "update-index", "--url", &database.url, "--events", "20", "--time", "0"];
    let output = oltpbench(&[&arguments[..], &SMALL[..]].concat()).output().unwrap();
    let shown = text(&output.stdout);
    assert!(shown.contains("first second \\u{1b}[2Jthird\n") && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("note.txt");
    std::fs::write(&path, "this is no database, but long enough to be read as one: ".repeat(100)).unwrap();
    let message = fail(1, &["run", "--url", &format!("sqlite:{}", path.display())]);
    assert!(message.contains("not an SQLite database"), "{message}");
    let message = fail(1, &["prepare", "--url", &format!("sqlite:{}/x/y.sqlite", folder.path().display())]);
    assert!(message.contains("there is no folder"), "{message}");
}

#[test]
fn demo_shows_two_reports_and_what_to_type_next() {
    let shown = succeed(&["demo"]);
    assert_eq!(shown.matches("SQL statistics:").count(), 2, "{shown}");
    assert!(shown.contains("OLTPBENCH_URL"), "{shown}");
}
