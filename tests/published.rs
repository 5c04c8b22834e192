//! Published figures as the program shows them, and runs against them.

mod support;

use std::path::Path;

use serde_json::{Value, json};
use support::program::{fail, report, succeed};

fn save(folder: &Path, run: &Value) -> String {
    let path = folder.join("run.json");
    std::fs::write(&path, run.to_string()).unwrap();
    path.to_str().unwrap().to_string()
}

fn run_of(arguments: &[&str]) -> Value {
    report(&[&["run", "--url", "simulated:", "--threads", "2", "--time", "0", "--events", "50"], arguments].concat())
}

/// A run with the figures of one that took an hour on a real server.
fn measured_run() -> Value {
    let mut run = run_of(&["--mode", "read-only", "--profile", "aurora-whitepaper"]);
    run["oltpbench_version"] = json!("1.2.3");
    run["target"]["version"] = json!("8.0.36 MySQL Community Server");
    run["target"]["variables"] = json!({"innodb_buffer_pool_size": "134217728"});
    run["client"]["cores"] = json!(16);
    run["findings"] = json!([{"code": "unsteady", "message": "", "advice": ""}]);
    for (name, value) in [("elapsed_s", 600.0), ("tps", 3804.215), ("rps", 38042.15), ("qps", 45650.58)] {
        run["totals"][name] = json!(value);
    }
    for (name, value) in [("mean", 131.4e3), ("min", 2.41e3), ("p95", 180.22e3), ("max", 902.1e3)] {
        run["latency_us"]["response"][name] = json!(value);
    }
    run
}

#[test]
fn a_run_is_held_against_a_published_figure_with_all_that_differs() {
    let folder = tempfile::tempdir().unwrap();
    let file = save(folder.path(), &measured_run());
    let text = succeed(&["compare", &file, "--published", "aurora-2015/read"]);
    insta::assert_snapshot!(text.replace(&file, "run.json"));
    // A word of a verdict would be more than one run and one printed figure can bear.
    for verdict in ["significant", "faster", "slower", "better", "worse"] {
        assert!(!text.contains(verdict), "{verdict}");
    }
}

#[test]
fn every_rate_is_held_against_the_one_that_counts_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = save(folder.path(), &measured_run());
    let against = |name: &str| {
        let text = succeed(&["compare", &file, "--published", name]);
        assert!(text.lines().all(|line| line.len() <= 80 || line.contains("https://")), "{text}");
        text
    };
    let ratio = |text: &str, figure: &str| {
        let line = text
            .lines()
            .find(|line| line.split_whitespace().next() == Some(figure))
            .unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().last().unwrap().to_string()
    };
    let unlike = ratio(&against("tidb-8.5/read-only-50"), "tps");
    assert_eq!(unlike, "-");
    let article = against("cloudsql-article/read-proxy");
    assert_eq!(ratio(&article, "rps"), "0.475", "38042.15 / 80102.26");
    // PolarDB's QPS has neither BEGIN nor COMMIT, Finch's has both.
    assert_eq!(ratio(&against("polardb-8.0.1/2c8g"), "rps"), "0.309", "38042.15 / 123234.31");
    let finch = against("hackmysql-2023/rds");
    assert_eq!(ratio(&finch, "qps"), "1.59", "45650.58 / 28656");
    assert_eq!(ratio(&finch, "writes/s"), "-", "the run wrote nothing");
    assert!(
        finch.contains("Known of one side only") && finch.contains("protocol           text; published: not stated")
    );
}

/// The part of a comparison that lists what is alike.
fn alike(run: &Value, name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let text = succeed(&["compare", &save(folder.path(), run), "--published", name]);
    text.split("Alike:").nth(1).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_same_workload_is_recognised_by_its_statements() {
    let whitepaper = ["--profile", "aurora-whitepaper", "--events", "50", "--time", "0"];
    let text = ["--db-ps-mode", "disable", "--rand-type", "uniform"];
    for (arguments, name) in [
        ([&["--mode", "read-only"][..], &whitepaper].concat(), "aurora-2015/read"),
        ([&["--mode", "read-write"][..], &whitepaper].concat(), "aurora-2015/write"),
        ([&["--mode", "read-write"][..], &whitepaper].concat(), "hackmysql-2023/aurora"),
        ([&["--mode", "read-write", "--one-table", "on"][..], &text].concat(), "percona-2016/4m-rows"),
        (vec!["--mode", "point-select"], "tidb-8.1/point-select-50"),
        (vec!["--mode", "update-index"], "tidb-8.1/update-index-100"),
        (vec!["--mode", "update-non-index"], "tidb-8.1/update-non-index-100"),
        (vec!["--mode", "insert"], "tidb-8.1/insert-100"),
        (vec!["--mode", "read-only"], "tidb-8.5/read-only-50"),
        (vec!["--mode", "write-only"], "tidb-8.5/write-only-50"),
    ] {
        let mode = arguments[1];
        let mut given = vec!["run", "--url", "simulated:", "--threads", "2"];
        if !arguments.contains(&"--events") {
            given.extend(["--events", "50", "--time", "0"]);
        }
        given.extend(arguments);
        let alike = alike(&report(&given), name);
        assert!(alike.contains("statements ("), "{mode}, {name}: {alike}");
        assert!(alike.contains("table drawn ("), "{mode}, {name}: {alike}");
    }
    let other = alike(&run_of(&["--mode", "read-only"]), "aurora-2015/read");
    assert!(!other.contains("statements (") && !other.contains("protocol ("), "{other}");
}

#[test]
fn a_name_that_is_not_there_is_answered_with_the_nearest() {
    for (name, nearest) in [
        ("aurora-2015/raed", "`aurora-2015/read`"),
        ("hackmysql2023", "`hackmysql-2023`"),
        ("tidb-8.5/point-select", "`tidb-8.5/point-select-"),
    ] {
        let message = fail(2, &["published", "show", name]);
        assert!(message.contains(nearest), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    assert!(fail(2, &["compare", "run.json", "--published", "aurora-2015/writes"]).contains("`aurora-2015/write`"));
    let message = fail(2, &["compare", "run.json", "--published", "aurora-2015"]);
    assert!(message.contains("several runs; give one of aurora-2015/read, aurora-2015/write"), "{message}");
}

#[test]
fn what_no_run_measures_is_not_divided_by() {
    let folder = tempfile::tempdir().unwrap();
    let file = save(folder.path(), &measured_run());
    let message = fail(2, &["compare", &file, "--published", "aurora-2017-tpcc/aurora-500-10gb"]);
    assert!(message.contains("has tpmC, which no run of oltpbench measures"), "{message}");
    assert!(fail(1, &["compare", "gone.json", "--published", "aurora-2015/read"]).contains("gone.json cannot be read"));
}
