//! What a folder holds: a line a run, and before them what all have in common, so that lines stay short.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

use std::fmt::Write;

use super::AskedOpenLoop;
use super::experiment::Run;
use super::figures::grouped;
use super::saved::{Saved, file_name};
use super::setup::{Row, compare};
use super::text::{paragraph, printable};

/// Of values in columns, those that are numbers stand at the right.
const NUMBERS: [&str; 4] = ["threads", "rate", "block", "tps"];

/// Runs, and those that their experiment has no report of, with the reason.
pub fn list(runs: &[Saved], missing: &[(&Run, String)]) -> String {
    let mut out = String::new();
    if !runs.is_empty() {
        write_runs(&mut out, runs);
    }
    if !runs.is_empty() && !missing.is_empty() {
        out.push('\n');
    }
    // Writing into a String cannot fail, so the results are dropped.
    if !missing.is_empty() {
        let _ = writeln!(out, "Without a report:");
    }
    for (run, reason) in missing {
        let _ = paragraph(&mut out, &format!("    {}: ", printable(&run.words())), 8, &printable(reason));
    }
    out
}

fn write_runs(out: &mut String, runs: &[Saved]) {
    let compared = compare(&runs.iter().map(rows).collect::<Vec<_>>());
    // Writing into a String cannot fail, so the results are dropped.
    for (name, value) in compared.shared.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(out, "{:<10} {value}", format!("{name}:"));
    }
    let mut columns = compared.differing;
    // The file says which run a line is, also where there is only one.
    let files = runs.iter().map(|run| printable(&file_name(&run.path))).collect();
    columns.insert(0, ("file".into(), files));
    if !out.is_empty() {
        out.push('\n');
    }
    let widths: Vec<usize> = columns.iter().map(width).collect();
    let heads: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    line(out, &columns, &widths, &heads);
    for at in 0..runs.len() {
        let values: Vec<&str> = columns.iter().map(|(_, values)| values[at].as_str()).collect();
        line(out, &columns, &widths, &values);
    }
}

fn rows(run: &Saved) -> Vec<Row> {
    let report = &run.report;
    // Without parts of a second, which the file has, and with the Z of UTC.
    let started = report.started_at.split('.').next().unwrap_or_default().trim_end_matches('Z').replace('T', " ") + "Z";
    let target = report.cell.as_ref().map_or(&report.target.url, |cell| &cell.target);
    let mut rows = vec![
        ("name", report.name.clone().unwrap_or_default()),
        ("tags", report.tags_in_words()),
        ("target", target.clone()),
        ("workload", report.spec.workload.clone()),
        ("threads", report.spec.threads.to_string()),
        // Empty is the closed loop.
        ("rate", report.spec.open_loop.as_ref().map_or(String::new(), AskedOpenLoop::rates_in_words)),
        ("started", started),
        ("tps", grouped(report.totals.tps, 1)),
        ("status", report.status.words().unwrap_or("completed").to_string()),
    ];
    rows.extend(report.cell.as_ref().map(|cell| ("block", cell.block.to_string())));
    rows.into_iter().map(|(name, value)| (name.to_string(), printable(&value))).collect()
}

fn width((name, values): &(String, Vec<String>)) -> usize {
    values.iter().chain([name]).map(|text| text.chars().count()).max().unwrap_or(0)
}

fn line(out: &mut String, columns: &[(String, Vec<String>)], widths: &[usize], texts: &[&str]) {
    let cell = |((name, _), (width, text)): (&(String, Vec<String>), (&usize, &&str))| match NUMBERS.contains(&&**name)
    {
        true => format!("{text:>width$}"),
        false => format!("{text:<width$}"),
    };
    let cells: Vec<String> = columns.iter().zip(widths.iter().zip(texts)).map(cell).collect();
    let _ = writeln!(out, "{}", cells.join("  ").trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::experiment::State;
    use crate::report::{Status, example};

    #[test]
    fn runs_alike_are_short_lines_below_what_they_share() {
        let (mut a, mut b) =
            (example::saved("folder/b01-c01-direct-t64.json"), example::saved("b01-c02-proxy-t64.json"));
        a.report.cell = Some(example::cell("direct", 1));
        b.report.cell = Some(example::cell("proxy", 2));
        b.report.started_at = "2026-12-03T00:15:20.123Z".into();
        b.report.totals.tps = 12_345.67;
        b.report.status = Status::Interrupted;
        for run in [&mut a, &mut b] {
            run.report.name = Some("nightly".into());
            run.report.tags = [("zone".to_string(), "b\u{1b}[31m".to_string())].into();
        }
        let list = list(&[a, b], &[]);
        assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
        insta::assert_snapshot!(list);
    }

    #[test]
    fn one_run_is_a_line_too() {
        insta::assert_snapshot!(list(&[example::saved("run.json")], &[]));
    }

    #[test]
    fn runs_of_an_open_loop_have_their_rate_and_those_without_a_report_their_reason() {
        let missing = Run {
            file: "b01-c03-direct-t8.json".into(),
            block: 1,
            cell: 3,
            target: "direct".into(),
            threads: 8,
            rate: Some(500.0),
            state: State::Failed,
            order: Some(3),
            error: None,
        };
        let reason = "8 of 8 connections got no answer within the 10 s that --connect-timeout allows".to_string();
        let runs = [example::saved("closed.json"), example::open_saved("open.json")];
        let list = list(&runs, &[(&missing, reason)]);
        assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
        insta::assert_snapshot!(list);
    }
}
