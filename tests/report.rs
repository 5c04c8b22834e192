//! `oltpbench report`: what was saved is shown again, in every format, as it was measured.

mod support;

use std::path::Path;

use support::program::{OutputAssertExt, fail, oltpbench, succeed, text};

/// A second of the simulated target, saved; what the run printed of it.
fn measured(file: &Path) -> String {
    let url = "simulated:?service-time=1ms";
    let mut command = oltpbench(&["run", "--url", url, "--threads", "2", "--time", "1", "--report-interval", "0"]);
    command.args(["--rand-seed", "7", "--json"]).arg(file);
    text(&command.assert().success().get_output().stdout)
}

#[test]
fn a_saved_run_is_shown_as_it_was_printed_and_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.json");
    let printed = measured(&file);
    let [file, directory] = [&file, folder.path()].map(|path| path.to_str().unwrap());

    let shown = succeed(&["report", file]);
    assert!(shown.starts_with("Setup:\n") && printed.contains(&shown), "{printed}\n{shown}");
    let markdown = succeed(&["report", "--format", "markdown", directory]);
    assert!(markdown.contains("\n| one | 2 | "), "{markdown}");
    let document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let again: serde_json::Value = serde_json::from_str(&succeed(&["report", "--format", "json", directory])).unwrap();
    assert_eq!(again, serde_json::json!([document]));
    let csv = succeed(&["report", "--format", "csv", directory]);
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let tps = rows.headers().unwrap().iter().position(|header| header == "tps").unwrap();
    let row = rows.records().next().unwrap().unwrap();
    assert_eq!(row[tps].parse::<f64>().ok(), document["totals"]["tps"].as_f64());
    let series = succeed(&["report", "--format", "csv-series", directory]);
    assert_eq!(series.lines().count(), 1 + document["series"].as_array().unwrap().len(), "{series}");
    let log = succeed(&["report", "--format", "hlog", directory]);
    assert!(log.contains("\nTag=response,"), "{log}");
    let list = succeed(&["report", "list", directory]);
    assert!(list.contains("threads:   2\n") && list.contains("one.json"), "{list}");
}

#[test]
fn an_output_file_appears_whole_and_several_runs_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    measured(&folder.path().join("a.json"));
    measured(&folder.path().join("b.json"));
    let directory = folder.path().to_str().unwrap();
    let both = succeed(&["report", directory]);
    assert!(both.starts_with("== a\n\nSetup:") && both.contains("\n== b\n\nSetup:"), "{both}");

    let output = folder.path().join("runs.csv");
    let out = output.to_str().unwrap();
    assert_eq!(succeed(&["report", "--format", "csv", "--output", out, directory]), "");
    assert_eq!(std::fs::read_to_string(&output).unwrap(), succeed(&["report", "--format", "csv", directory]));
    let error = fail(1, &["report", "--output", "/nonexistent/runs.csv", directory]);
    assert!(error.contains("/nonexistent/runs.csv"), "{error}");
}

#[test]
fn what_cannot_be_shown_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.json");
    assert!(fail(1, &["report", missing.to_str().unwrap()]).contains("missing.json cannot be read"));
    assert!(fail(1, &["report", "list", folder.path().to_str().unwrap()]).contains("holds no report"));
    assert!(fail(2, &["report"]).contains("<FILE>..."));
    assert!(fail(2, &["report", "list"]).contains("<DIR>"));
    assert!(fail(2, &["report", "--format", "pdf", "a.json"]).contains("markdown"));
}
