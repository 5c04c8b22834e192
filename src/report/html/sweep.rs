//! Rates and latencies against what was varied: numbers of threads, or else rates that were asked for.
//!
//! Repeats of a run are one point, their mean, with a bar from the least to the greatest.
//!
//! Invariant: only runs that were set up alike, but for their seeds, are one point.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::chart::{Axis, Chart, Line, MOST_LINES, Point};
use crate::report::figures::grouped;
use crate::report::saved::Saved;
use crate::report::setup::{Varied, rate};
use crate::report::text::printable;
use crate::report::{RunReport, Status};

/// Nothing where all runs had the same number of threads and the same rate.
pub fn charts(runs: &[Saved]) -> Markup {
    let Some(sweep) = Sweep::of(runs) else { return html! {} };
    html! {
        h2 { "By " (sweep.varied.name()) }
        p.note {
            "A point is the mean of its repeats, and a bar reaches from the least to the greatest."
            @if sweep.numbered { " Lines that differ in more than their names say are numbered." }
            @if sweep.left_out > 0 { " Runs that ended early are left out: " (sweep.left_out) "." }
        }
        @for (title, scale, value) in FIGURES {
            @for lines in sweep.lines(scale, value).chunks(MOST_LINES) { (sweep.chart(title, scale, lines).figure()) }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Logarithmic,
}

type Value = fn(&RunReport) -> Option<f64>;

const FIGURES: [(&str, Scale, Value); 3] = [
    ("Transactions a second", Scale::Linear, |report| Some(report.totals.tps)),
    ("95th percentile of the response time (ms)", Scale::Logarithmic, |report| response_ms(report, 95.0)),
    ("99th percentile of the response time (ms)", Scale::Logarithmic, |report| response_ms(report, 99.0)),
];

fn response_ms(report: &RunReport, percentile: f64) -> Option<f64> {
    report.latencies_ms().iter().find(|figure| figure.percentile == Some(percentile)).map(|figure| figure.value)
}

fn values(varied: Varied, reports: &[&RunReport]) -> Vec<f64> {
    let mut values: Vec<f64> = reports.iter().filter_map(|report| varied.value(report)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

struct Sweep<'a> {
    varied: Varied,
    x: Axis,
    places: Vec<(f64, String)>,
    lines: Vec<Runs<'a>>,
    /// Whether some lines would have the same name without a number.
    numbered: bool,
    left_out: usize,
}

/// Those of a line.
struct Runs<'a> {
    name: String,
    /// What they have in common.
    set_up: String,
    of_places: Vec<Vec<&'a RunReport>>,
}

impl<'a> Sweep<'a> {
    fn of(runs: &'a [Saved]) -> Option<Sweep<'a>> {
        let whole: Vec<&RunReport> =
            runs.iter().map(|run| &run.report).filter(|report| report.status == Status::Completed).collect();
        let ascending = [Varied::Threads, Varied::Rate].map(|varied| (varied, values(varied, &whole)));
        let (varied, values) = ascending.into_iter().find(|(_, values)| values.len() > 1)?;
        let place = |value: f64| if varied == Varied::Threads { value.log2() } else { value };
        let places: Vec<(f64, String)> = values.iter().map(|value| (place(*value), value.to_string())).collect();
        let x = match varied {
            Varied::Threads => Axis::of_places("threads", &places),
            Varied::Rate => Axis::linear("transactions a second asked for", *values.last()?),
        };
        let mut lines = Vec::<Runs>::new();
        for (report, name) in whole.iter().zip(names(&whole, varied)) {
            let Some(value) = varied.value(report) else { continue };
            let set_up = varied.set_up_but_for(report);
            let line = lines.iter().position(|line| line.set_up == set_up).unwrap_or_else(|| {
                lines.push(Runs { name, set_up, of_places: vec![Vec::new(); places.len()] });
                lines.len() - 1
            });
            lines[line].of_places[values.partition_point(|each| *each < value)].push(report);
        }
        lines.sort_by(|a, b| a.name.cmp(&b.name));
        let numbered = number(&mut lines);
        Some(Sweep { varied, x, places, lines, numbered, left_out: runs.len() - whole.len() })
    }

    fn lines(&self, scale: Scale, value: Value) -> Vec<Line> {
        let mean = |runs: &Vec<&RunReport>| point(scale, runs.iter().filter_map(|run| value(run)).collect());
        let line = |runs: &Runs| Line { name: runs.name.clone(), points: runs.of_places.iter().map(mean).collect() };
        self.lines.iter().map(line).collect()
    }

    fn chart(&self, title: &str, scale: Scale, lines: &[Line]) -> Chart {
        let points = || lines.iter().flat_map(|line| line.points.iter().flatten());
        let ends = points().flat_map(|point| point.spread.map_or([point.at; 2], |(low, high)| [low, high]));
        let y = match scale {
            Scale::Linear => Axis::linear("transactions a second", ends.fold(0.0, f64::max)),
            Scale::Logarithmic => Axis::logarithmic("ms", ends.map(|at| 10_f64.powf(at))),
        };
        let title = format!("{title}, by {}", self.varied.name());
        Chart { title, note: String::new(), x: self.x.clone(), y, places: self.places.clone(), lines: lines.to_vec() }
    }
}

/// Of the repeats of a run.
fn point(scale: Scale, values: Vec<f64>) -> Option<Point> {
    let decimals = if scale == Scale::Linear { 1 } else { 3 };
    let at = |value: f64| if scale == Scale::Linear { value } else { value.log10() };
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let said = grouped(mean, decimals);
    Some(match values.len() {
        1 => Point { at: at(mean), spread: None, said },
        count => Point {
            at: at(mean),
            spread: Some((at(least), at(most))),
            said: format!("{said} (mean of {count}, {} to {})", grouped(least, decimals), grouped(most, decimals)),
        },
    })
}

/// What a run's line is called: as much as tells the lines apart.
fn names(reports: &[&RunReport], varied: Varied) -> Vec<String> {
    let target = |report: &RunReport| printable(report.cell.as_ref().map_or(&report.target.url, |cell| &cell.target));
    let workload = |report: &RunReport| printable(&report.spec.workload);
    let asked = |report: &RunReport| rate(report).map_or("no rate".to_string(), |rate| format!("{rate} a second"));
    let with_targets = distinct(reports, target).len() > 1;
    let with_workloads = distinct(reports, workload).len() > 1;
    let with_rates = varied == Varied::Threads && distinct(reports, asked).len() > 1;
    let name = |report: &&RunReport| {
        let parts = [
            with_targets.then(|| target(report)),
            with_workloads.then(|| workload(report)),
            with_rates.then(|| asked(report)),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { target(report) } else { parts.join(", ") }
    };
    reports.iter().map(name).collect()
}

/// Tells neighbours of the same name apart; `false` where there are none.
fn number(lines: &mut [Runs<'_>]) -> bool {
    let mut numbered = false;
    for alike in lines.chunk_by_mut(|a, b| a.name == b.name).filter(|alike| alike.len() > 1) {
        numbered = true;
        for (number, line) in alike.iter_mut().enumerate() {
            line.name = format!("{} ({})", line.name, number + 1);
        }
    }
    numbered
}

fn distinct<T: Ord>(reports: &[&RunReport], value: impl Fn(&RunReport) -> T) -> Vec<T> {
    reports.iter().map(|report| value(report)).collect::<BTreeSet<T>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    fn run(target: &str, threads: u32, tps: f64) -> Saved {
        let mut run = example::saved("a.json");
        run.report.cell = Some(example::cell(target, 1));
        run.report.spec.threads = threads;
        run.report.totals.tps = tps;
        run
    }

    #[test]
    fn repeats_are_one_point_and_targets_a_line_each() {
        let mut early = run("direct", 8, 1.0);
        early.report.status = Status::Interrupted;
        let runs =
            [run("direct", 8, 90.0), run("proxy", 8, 80.0), run("direct", 8, 110.0), run("direct", 1, 20.0), early];
        let sweep = Sweep::of(&runs).unwrap();
        let lines = sweep.lines(Scale::Linear, FIGURES[0].2);
        let said =
            |line: &Line| line.points.iter().map(|point| point.as_ref().map(|point| point.said.clone())).collect();
        let said: Vec<(&str, Vec<Option<String>>)> =
            lines.iter().map(|line| (line.name.as_str(), said(line))).collect();
        assert_eq!(
            said,
            [
                ("direct", vec![Some("20.0".into()), Some("100.0 (mean of 2, 90.0 to 110.0)".into())]),
                ("proxy", vec![None, Some("80.0".into())]),
            ]
        );
        assert_eq!(lines[0].points[1].as_ref().unwrap().spread, Some((90.0, 110.0)));
        assert_eq!((sweep.varied, sweep.left_out), (Varied::Threads, 1));
    }

    #[test]
    fn runs_that_were_set_up_otherwise_are_no_repeats() {
        let mut other = run("direct", 8, 110.0);
        other.report.spec.options[0].value = "1".into();
        let mut repeat = run("direct", 1, 30.0);
        repeat.report.spec.rand_seed = 43;
        let mut tuned = run("direct", 1, 25.0);
        tuned.report.target.variables.insert("sync_binlog".into(), "0".into());
        let runs = [run("direct", 8, 90.0), other, run("direct", 1, 20.0), repeat, tuned];
        let sweep = Sweep::of(&runs).unwrap();
        let lines: Vec<(&str, Vec<usize>)> = sweep
            .lines
            .iter()
            .map(|line| (line.name.as_str(), line.of_places.iter().map(Vec::len).collect()))
            .collect();
        assert_eq!(lines, [("direct (1)", vec![2, 1]), ("direct (2)", vec![0, 1]), ("direct (3)", vec![1, 0])]);
        assert!(sweep.numbered);
    }

    #[test]
    fn where_threads_are_the_same_rates_are_what_is_varied() {
        let run = |rate: Option<f64>| {
            let mut run = example::open_saved("a.json");
            match rate {
                Some(rate) => {
                    run.report.spec.open_loop.as_mut().unwrap().steps = vec![crate::report::Step { start_s: 0.0, rate }]
                }
                None => run.report.spec.open_loop = None,
            }
            run
        };
        let runs = [run(Some(500.0)), run(None), run(Some(100.0))];
        let sweep = Sweep::of(&runs).unwrap();
        assert_eq!(sweep.places, [(100.0, "100".to_string()), (500.0, "500".to_string())]);
        let lines = sweep.lines(Scale::Logarithmic, FIGURES[1].2);
        assert_eq!((lines.len(), lines[0].points.iter().flatten().count()), (1, 2));
        assert!(Sweep::of(&runs[..2]).is_none());
    }

    #[test]
    fn more_lines_than_a_chart_has_colours_make_more_charts() {
        let targets: Vec<String> = (0..=MOST_LINES).map(|number| format!("t{number}")).collect();
        let runs: Vec<Saved> = targets.iter().flat_map(|target| [run(target, 1, 1.0), run(target, 2, 2.0)]).collect();
        assert_eq!(charts(&runs).into_string().matches("<figure").count(), 2 * FIGURES.len());
    }
}
