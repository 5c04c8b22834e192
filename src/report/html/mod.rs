//! Runs as one page of HTML that loads nothing: figures, findings, charts, tables, and the whole set-up.
//!
//! Invariants: maud escapes every text that is put in; what is not escaped is made here, of numbers and of words of this
//! module. The page's policy lets no script run but its own, and nothing be loaded. Each chart's values are in a table.
//!
//! * [`charts`]: which charts a run has.
//! * [`sweep`]: those of runs with several numbers of threads, or rates.
//! * [`chart`]: how one is drawn.
//! * [`tables`]: all else of a run.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

mod chart;
mod charts;
mod sweep;
mod tables;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::RunReport;
use super::figures::Figure;
use super::saved::{Saved, labels};
use super::setup;
use super::text::printable;
pub use tables::{head, scroll};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The whole page. `judged` is what others made of these runs, and stands before each of them.
pub fn page(runs: &[Saved], judged: &Markup) -> String {
    let labels: Vec<String> = labels(runs).iter().map(|label| printable(label)).collect();
    let title = title(runs, &labels);
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'",
        STANDARD.encode(Sha256::digest(SCRIPT))
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " - oltpbench" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    @if runs.len() > 1 {
                        (overview(runs, &labels))
                        (judged)
                        (sweep::charts(runs))
                        (differences(runs, &labels))
                    }
                    @for (number, (run, label)) in runs.iter().zip(&labels).enumerate() {
                        (section(number, &run.report, label, runs.len()))
                    }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn title(runs: &[Saved], labels: &[String]) -> String {
    let name = runs.first().and_then(|run| run.report.name.as_deref());
    let of_all = name.filter(|name| runs.iter().all(|run| run.report.name.as_deref() == Some(name)));
    match (labels, of_all) {
        ([label], _) => label.clone(),
        (_, Some(name)) => format!("{}: {} runs", printable(name), runs.len()),
        (_, None) => format!("{} runs", runs.len()),
    }
}

fn status(report: &RunReport) -> Markup {
    html! { @if let Some(words) = report.status.words() { " " span.status { "(" (words) ")" } } }
}

/// All runs side by side.
fn overview(runs: &[Saved], labels: &[String]) -> Markup {
    let cells = |report: &RunReport| -> Vec<Option<Figure>> {
        let latencies = report.latencies_ms();
        let named = |name| latencies.iter().find(|figure| figure.name == name).copied();
        let [tps, rps, _] = report.rates();
        vec![Some(tps), Some(rps), named("mean"), named("p95"), named("p99")]
    };
    html! {
        (scroll("All runs", html! {
            (head(&["run", "threads", "tps", "rps", "mean (ms)", "p95 (ms)", "p99 (ms)"], &["findings"]))
            tbody { @for (number, (run, label)) in runs.iter().zip(labels).enumerate() { tr {
                th scope="row" { a href={ "#run-" (number + 1) } { (label) } (status(&run.report)) }
                td { (run.report.spec.threads) }
                @for figure in cells(&run.report) { (shown(figure.as_ref())) }
                td.long { @for finding in &run.report.findings { code { (printable(&finding.code)) } " " } }
            } } }
        }))
        p.note { "Intervals are those of each run by itself." }
    }
}

fn differences(runs: &[Saved], labels: &[String]) -> Markup {
    let rows = |run: &Saved| [setup::first(&run.report), setup::rest(&run.report)].concat();
    let differing = setup::compare(&runs.iter().map(rows).collect::<Vec<_>>()).differing;
    let names: Vec<&str> = differing.iter().map(|(name, _)| name.trim()).collect();
    html! { @if !differing.is_empty() {
        h2 { "What differs" }
        (scroll("What differs", html! {
            (head(&["run"], &names))
            tbody { @for (number, label) in labels.iter().enumerate() { tr {
                th scope="row" { (label) }
                @for (_, values) in &differing { td.text { (printable(&values[number])) } }
            } } }
        }))
    } }
}

/// A cell with a figure above its interval.
fn shown(figure: Option<&Figure>) -> Markup {
    html! { td {
        @if let Some(figure) = figure {
            (figure.shown_value()) @if let Some(interval) = figure.shown_interval() { small { (interval) } }
        } @else { "-" }
    } }
}

/// Of several runs, each can be opened by itself; links to it do so.
fn section(number: usize, report: &RunReport, label: &str, of: usize) -> Markup {
    let figures = html! {
        (headline(report))
        (findings(report))
        (charts::charts(report))
        (tables::tables(report))
    };
    let id = format!("run-{}", number + 1);
    if of > 1 {
        return html! { details.run {
            summary { h2 { (label) (status(report)) } }
            section id=(id) aria-label=(label) { (figures) }
        } };
    }
    let threads = if report.spec.threads == 1 { "thread" } else { "threads" };
    html! { section id=(id) {
        h2 { (printable(&report.spec.workload)) ", " (report.spec.threads) " " (threads) (status(report)) }
        p.note { (printable(&report.target.version)) " at " (printable(&report.target.url)) ", " (printable(&report.started_at)) }
        (figures)
    } }
}

fn headline(report: &RunReport) -> Markup {
    let latencies = report.latencies_ms().into_iter().filter(|figure| ["mean", "p95", "p99"].contains(&figure.name));
    let figures: Vec<(Figure, String)> = (report.rates().into_iter().map(|figure| (figure, figure.name.to_string())))
        .chain(latencies.map(|figure| (figure, format!("{} response (ms)", figure.name))))
        .collect();
    html! {
        dl.figures { @for (figure, name) in figures { div {
            dt { (name) }
            dd { (figure.shown_value()) small { (figure.shown_interval().as_deref().unwrap_or("no interval")) } }
        } } }
        p.note {
            "With " (100.0 * report.confidence.level) " % intervals. tps are committed transactions a second, rps reads and \
             writes, qps all statements."
        }
    }
}

fn findings(report: &RunReport) -> Markup {
    html! { @if !report.findings.is_empty() {
        h3 { "Findings: know these before quoting the figures" }
        ul.findings { @for finding in &report.findings { li {
            p { code { (printable(&finding.code)) } " " (printable(&finding.message)) }
            p.note { (printable(&finding.advice)) }
        } } }
    } }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::report::example;

    const HOSTILE: &str = "\"'><script>alert(1)</script>&lt;";

    /// Headings, captions and titles of charts, in their order.
    fn outline(page: &str) -> String {
        let body = page.split("<main>").nth(1).unwrap();
        let part = |text: &str| {
            let (tag, said) = text.split_once('>')?;
            let tag = tag.split(' ').next()?;
            ["h1", "h2", "h3", "caption", "summary", "strong", "dt"].contains(&tag).then(|| format!("{tag}: {said}\n"))
        };
        body.split('<').filter_map(part).collect()
    }

    /// With all that a report can have.
    fn full() -> RunReport {
        let mut document = serde_json::to_value(example::open_saved("a.json").report).unwrap();
        document["series"] = serde_json::to_value(example::saved("a.json").report.series).unwrap();
        document["series"][0]["backlog"] = json!(3);
        document["name"] = json!("nightly");
        document["tags"] = json!({ "zone": "b" });
        document["target"]["variables"] = json!({ "max_connections": "100" });
        let latency = document["latency_us"]["response"].clone();
        document["statements"][0]["first_part_us"] = latency;
        let compared = json!([{ "counter": "Com_select", "server": 5, "sent_least": 6, "sent_most": 7 }]);
        document["server"] = json!({
            "elapsed_s": 10.0,
            "counters": { "Questions": 20_000 },
            "comparison": { "agrees": false, "uncertainty": 0.1, "statements": compared },
            "not_compared": "a reason",
            "digests": [{ "text": "SELECT ?", "count": 1, "total_s": 1.0, "longest_s": null, "rows_examined": 1 }],
            "digests_unknown": "a reason",
        });
        document["validation"] = json!({
            "reads": 1, "rows": 2, "unchecked_statements": ["c"], "audited_tables": 3, "audited_rows": 4,
            "unaudited": "a reason", "differences": 1, "first_differences": [{ "place": "here", "message": "other" }],
        });
        serde_json::from_value(document).unwrap()
    }

    fn saved(report: RunReport) -> Saved {
        Saved { path: "a.json".into(), report }
    }

    #[test]
    fn a_page_has_all_of_a_run_and_of_several() {
        insta::assert_snapshot!("outline_of_a_run", outline(&page(&[saved(full())], &html! {})));
        let mut other = full();
        other.spec.threads = 1;
        insta::assert_snapshot!("outline_of_two_runs", outline(&page(&[saved(full()), saved(other)], &html! {})));
    }

    #[test]
    fn no_text_of_a_report_is_read_as_html() {
        let mut document = serde_json::to_value(full()).unwrap();
        spoil(&mut document);
        let report: RunReport = serde_json::from_value(document).unwrap();
        let mut other = report.clone();
        other.spec.threads = 1;
        for page in [page(&[saved(report.clone())], &html! {}), page(&[saved(report), saved(other)], &html! {})] {
            assert_eq!(page.matches("<script").count(), 1, "{page}");
            assert!(page.matches("&lt;script&gt;alert(1)&lt;/script&gt;&amp;lt;").count() > 50, "{page}");
        }
    }

    /// Puts markup into all texts and names that are not of a fixed set.
    fn spoil(value: &mut Value) {
        match value {
            Value::String(text) => text.insert_str(0, HOSTILE),
            Value::Array(values) => values.iter_mut().for_each(spoil),
            Value::Object(fields) => {
                let fixed = ["status", "histogram"];
                fields
                    .iter_mut()
                    .filter(|(name, _)| !fixed.contains(&name.as_str()))
                    .for_each(|(_, value)| spoil(value));
                for names in ["tags", "variables", "counters"] {
                    let Some(Value::Object(names)) = fields.get_mut(names) else { continue };
                    *names =
                        std::mem::take(names).into_iter().map(|(name, of)| (format!("{HOSTILE}{name}"), of)).collect();
                }
            }
            _ => {}
        }
    }
}
