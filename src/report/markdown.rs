//! Runs as Markdown: rates and latencies side by side with their intervals, then errors, set-up and findings.
//!
//! Invariant: nothing that a user or a server named is read as Markdown or HTML.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

use std::fmt::{Result, Write};

use super::figures::Figure;
use super::saved::{Saved, labels};
use super::setup::{self, Row, compare};
use super::text::printable;
use super::{ErrorEntry, RunReport};

/// A run under the name that the tables give it.
struct Named<'a> {
    label: String,
    report: &'a RunReport,
}

impl Named<'_> {
    fn new<'a>(run: &'a Saved, label: &str) -> Named<'a> {
        let ended = run.report.status.words().map_or(String::new(), |words| format!(" ({words})"));
        Named { label: escaped(label) + &ended, report: &run.report }
    }
}

pub fn markdown(runs: &[Saved]) -> String {
    let runs: Vec<Named<'_>> = runs.iter().zip(labels(runs)).map(|(run, label)| Named::new(run, &label)).collect();
    let mut out = String::new();
    // Writing into a String cannot fail, so the results are dropped.
    let _ = rates(&mut out, &runs);
    let _ = latencies(&mut out, &runs);
    let _ = errors(&mut out, &runs);
    let _ = set_up(&mut out, "Set-up", &runs, &|report| [setup::first(report), setup::rest(report)].concat());
    let _ = set_up(&mut out, "Server settings", &runs, &setup::variables);
    let _ = findings(&mut out, &runs);
    out
}

fn rates(out: &mut String, runs: &[Named<'_>]) -> Result {
    let level = runs.first().map_or(0.0, |run| 100.0 * run.report.confidence.level);
    writeln!(out, "| run | threads | tps | rps | requests per transaction |\n|---|---:|---:|---:|---:|")?;
    for Named { label, report } in runs {
        let [tps, rps, _] = report.rates();
        let counts = &report.totals.counts;
        let each = match counts.transactions {
            0 => "-".to_string(),
            transactions => format!("{:.2}", counts.read_write_requests as f64 / transactions as f64),
        };
        writeln!(out, "| {label} | {} | {} | {} | {each} |", report.spec.threads, shown(&tps), shown(&rps))?;
    }
    writeln!(out, "\ntps are committed transactions a second, rps are read and write requests a second.")?;
    writeln!(out, "Intervals are those of each run by itself, at {level} %; `-` is where a run does not tell.")
}

fn latencies(out: &mut String, runs: &[Named<'_>]) -> Result {
    writeln!(out, "\n## Latency (ms)\n")?;
    writeln!(out, "| run | mean | p50 | p90 | p95 | p99 | p99.9 | max |\n|---|---:|---:|---:|---:|---:|---:|---:|")?;
    for Named { label, report } in runs {
        let mut cells: Vec<String> = report.latencies_ms().iter().map(shown).collect();
        match cells.is_empty() {
            true => cells.resize(7, "-".into()),
            false => cells.push(format!("{:.3}", report.latency_us.response.max / 1e3)),
        }
        writeln!(out, "| {label} | {} |", cells.join(" | "))?;
    }
    match runs.iter().any(|run| run.report.open_loop.is_some()) {
        true => writeln!(out, "\nOf an open loop these are response times, from when a transaction was due."),
        false => Ok(()),
    }
}

fn shown(figure: &Figure) -> String {
    format!("{} {}", figure.shown_value(), figure.shown_interval().as_deref().unwrap_or("(-)"))
}

fn errors(out: &mut String, runs: &[Named<'_>]) -> Result {
    let mut errors: Vec<(&String, &str, &ErrorEntry)> = Vec::new();
    for Named { label, report } in runs {
        for (span, counts) in report.spans() {
            errors.extend(counts.errors.iter().map(|error| (label, span, error)));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## Errors\n")?;
    writeln!(
        out,
        "| run | when | count | code | class | statement | first message |\n|---|---|---:|---:|---|---|---|"
    )?;
    for (label, span, error) in errors {
        let ErrorEntry { count, code, class, statement, message, .. } = error;
        let [class, statement, message] = [class, statement, message].map(|text| escaped(text));
        writeln!(out, "| {label} | {span} | {count} | {code} | {class} | {statement} | {message} |")?;
    }
    Ok(())
}

/// What all runs share as a list of two columns, and what differs as a row for each run.
fn set_up(out: &mut String, heading: &str, runs: &[Named<'_>], rows: &dyn Fn(&RunReport) -> Vec<Row>) -> Result {
    let compared = compare(&runs.iter().map(|run| rows(run.report)).collect::<Vec<_>>());
    if compared.shared.is_empty() && compared.differing.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## {heading}")?;
    if !compared.differing.is_empty() {
        let names: Vec<String> = compared.differing.iter().map(|(name, _)| escaped(name)).collect();
        writeln!(out, "\n| run | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()))?;
        for (at, Named { label, .. }) in runs.iter().enumerate() {
            let values: Vec<String> = compared.differing.iter().map(|(_, values)| escaped(&values[at])).collect();
            writeln!(out, "| {label} | {} |", values.join(" | "))?;
        }
    }
    if !compared.shared.is_empty() {
        writeln!(out, "\n| {} | |\n|---|---|", if runs.len() > 1 { "all runs" } else { "" })?;
    }
    compared.shared.iter().try_for_each(|(name, value)| writeln!(out, "| {} | {} |", escaped(name), escaped(value)))
}

fn findings(out: &mut String, runs: &[Named<'_>]) -> Result {
    if runs.iter().all(|run| run.report.findings.is_empty()) {
        return Ok(());
    }
    writeln!(out, "\n## Findings\n")?;
    for Named { label, report } in runs {
        let of = if runs.len() > 1 { format!("{label}: ") } else { String::new() };
        for finding in &report.findings {
            let [code, message, advice] = [&finding.code, &finding.message, &finding.advice].map(|text| escaped(text));
            writeln!(out, "- {of}**{code}**: {message}; {advice}")?;
        }
    }
    Ok(())
}

/// A text as one line that reads the same when it is rendered.
pub fn escaped(text: &str) -> String {
    let line = printable(text);
    let mut escaped = String::new();
    for (at, character) in line.char_indices() {
        // Inside of a word an underscore is only that.
        let is_plain = |neighbour: Option<char>| neighbour.is_some_and(char::is_alphanumeric);
        let special = match character {
            '_' => !(is_plain(line[..at].chars().next_back()) && is_plain(line[at + 1..].chars().next())),
            '#' | '+' | '-' => at == 0,
            _ => "\\`*[]<>|~&$".contains(character),
        };
        if special {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Finding, Status, example};

    #[test]
    fn one_run_has_figures_with_intervals_set_up_and_findings() {
        insta::assert_snapshot!(markdown(&[example::saved("run.json")]));
    }

    #[test]
    fn runs_stand_side_by_side_and_what_differs_is_told() {
        let (direct, mut proxy) = (example::saved("direct.json"), example::open_saved("proxy.json"));
        proxy.report.target.url = "mysql://sbtest@127.0.0.1:3307/sbtest".into();
        proxy.report.status = Status::Interrupted;
        insta::assert_snapshot!(markdown(&[direct, proxy]));
    }

    #[test]
    fn nothing_named_elsewhere_is_read_as_markdown() {
        assert_eq!(escaped("oltp_read_only"), "oltp_read_only");
        assert_eq!(escaped("_a_ __b"), "\\_a\\_ \\_\\_b");
        assert_eq!(escaped("a|b <img src=x> [c](d) `e` \\"), "a\\|b \\<img src=x\\> \\[c\\](d) \\`e\\` \\\\");
        assert_eq!(escaped("# a\nb"), "\\# a b");
        let mut run = example::saved("a.json");
        run.report.name = Some("|<script>".into());
        run.report.target.version = "8.0 | <b>".into();
        run.report.target.variables = [("a|b".to_string(), "<i>".to_string())].into();
        run.report.findings = vec![Finding::new("tls", "<u>", "|")];
        run.report.totals.counts.errors[0].message = "<s>|".into();
        let text = markdown(&[run]);
        for tag in ["script", "b", "i", "u", "s"] {
            assert!(text.contains(&format!("\\<{tag}\\>")) && !text.contains(&format!(" <{tag}>")), "{tag}: {text}");
        }
    }
}
