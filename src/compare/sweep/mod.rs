//! What a target does at each number of threads, or at each rate that was asked for, and what that costs.
//!
//! [`sweeps`] makes a [`Sweeps`] of saved runs, a document of its own; what is printed is a view of it.
//!
//! * [`scalability`]: the Universal Scalability Law, fitted to rates.
//! * [`text`]: the document for a terminal; [`html`]: as a part of a page of runs.
//!
//! Invariants: only runs that were set up alike, but for their seeds, are of one cell; peak and knee are cells that were
//! measured, nothing between them; a cell keeps an objective only where its latencies can tell.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

mod html;
pub mod scalability;
pub mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::estimate::geometric_mean;
use super::sides::{Runs, whole};
use super::{Figure, Measured, setup};
use crate::metrics::statistics::FEWEST_BEYOND;
use crate::report::RunReport;
use crate::report::saved::{Saved, SavedError, file_name};
use crate::report::setup::Varied;
use scalability::{Law, Point};

/// Version of the document's layout.
pub const SCHEMA_VERSION: u32 = 1;

/// How far connections in use may be from the threads, as a share, before there is something to explain.
const LITTLE_LIMIT: f64 = 0.05;
/// How far the law may be from a point, as a share, before its peak means nothing.
const FIT_LIMIT: f64 = 0.1;

#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    #[error(transparent)]
    Saved(#[from] SavedError),
    #[error("{0} is given twice, and would count as two repeats; give it once")]
    Twice(PathBuf),
    #[error("there is no run to show: {0}")]
    NothingLeft(String),
    #[error("no target is called `{name}`, which has a price; there is {targets}")]
    UnknownTarget { name: String, targets: String },
    #[error("target `{0}` has two prices; give one")]
    TwoPrices(String),
}

/// An objective: so many of a hundred transactions take no longer than so long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slo {
    pub percentile: f64,
    pub limit_us: f64,
}

/// What a target costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    pub target: String,
    pub dollars_per_hour: f64,
}

/// The document.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sweeps {
    pub schema_version: u32,
    pub oltpbench_version: String,
    pub slo: Option<Slo>,
    pub sweeps: Vec<Sweep>,
    /// Runs that are in no sweep, with the reason.
    pub left_out: Vec<String>,
}

/// One target over numbers of threads in a closed loop, or over rates in an open one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sweep {
    /// Its name in the experiment, or the URL of a run by itself.
    pub target: String,
    /// From 1, where several sweeps would be called the same.
    pub number: Option<usize>,
    pub workload: String,
    pub url: String,
    pub server: String,
    pub varied: Varied,
    /// Of a sweep over rates.
    pub threads: Option<u32>,
    /// What is not as in the first one that would be called the same.
    pub differences: Vec<String>,
    /// How many runs have which finding.
    pub findings: BTreeMap<String, usize>,
    /// By threads, or by rate.
    pub cells: Vec<Cell>,
    /// The cell with the most tps.
    pub peak: Best,
    /// The one with the most tps among those that keep the objective.
    pub knee: Option<Best>,
    /// Of a closed loop.
    pub scalability: Option<Scalability>,
    pub dollars_per_hour: Option<f64>,
}

/// Repeats of one run. A figure of several is their geometric mean.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    pub threads: u32,
    /// `None` is the closed loop.
    pub rate: Option<f64>,
    pub runs: usize,
    /// The interval is that of the repeats; of a single run its own.
    pub tps: Measured,
    /// Percentiles of the response time; `None` where a run has no latency.
    pub p50_us: Option<f64>,
    pub p95_us: Option<f64>,
    pub p99_us: Option<f64>,
    /// Mean number of connections inside a transaction that committed, by Little's law: tps x mean service time.
    pub connections_in_use: f64,
    /// The same of those that failed.
    pub connections_of_failed: f64,
    /// Why connections in use are not the threads of a closed loop; `None` where they are.
    pub departure: Option<String>,
    /// Of threads, tps of each by that of the first cell; of rates, tps by what was asked for.
    pub efficiency: f64,
    /// `None` without an objective.
    pub slo: Option<AgainstSlo>,
}

/// A cell's latencies held against the objective.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgainstSlo {
    pub outcome: Outcome,
    /// Why it cannot be told.
    pub reason: Option<String>,
    /// The percentile that the objective is about, and its least and greatest in a run.
    pub value_us: Option<f64>,
    pub least_us: Option<f64>,
    pub greatest_us: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Kept,
    Missed,
    CannotTell,
}

/// A cell that is the best of some, by its place among the cells, and what its transactions cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    pub cell: usize,
    pub cost: Option<Cost>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    pub dollars_per_million_transactions: f64,
    pub tps_per_dollar_per_hour: f64,
}

/// The law of how tps goes with threads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scalability {
    /// `None` where there is none, with the reason.
    pub fit: Option<Fit>,
    pub reason: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fit {
    #[serde(flatten)]
    pub law: Law,
    /// Number of threads with the most tps by the law, and how many those are; `None` where it rises for ever.
    pub peak_threads: Option<f64>,
    pub peak_tps: Option<f64>,
    /// Whether the peak is at more threads than were measured, or at fewer.
    pub is_extrapolated: bool,
    /// The largest difference between the law and a cell, as a share of the cell's tps, and where.
    pub largest_residual: f64,
    pub residual_threads: u32,
    /// Whether it is too large to believe the law.
    pub is_bad: bool,
}

/// The sweeps of files and folders, whose runs are taken together.
pub fn sweeps(paths: &[PathBuf], slo: Option<Slo>, prices: &[Price]) -> Result<Sweeps, SweepError> {
    let (runs, mut left_out) = read(paths)?;
    let mut groups: Vec<(String, Varied, Vec<&RunReport>)> = Vec::new();
    for run in &runs {
        let varied = if run.report.spec.open_loop.is_some() { Varied::Rate } else { Varied::Threads };
        let reason = match varied.value(&run.report) {
            None => Some("its rate changes in the course of the run"),
            Some(_) if run.report.totals.tps <= 0.0 => Some("it has no rate"),
            Some(_) => None,
        };
        if let Some(reason) = reason {
            left_out.push(format!("{} ({reason})", file_name(&run.path)));
            continue;
        }
        let set_up = varied.set_up_but_for(&run.report);
        match groups.iter_mut().find(|group| group.0 == set_up) {
            Some(group) => group.2.push(&run.report),
            None => groups.push((set_up, varied, vec![&run.report])),
        }
    }
    if groups.is_empty() {
        return Err(SweepError::NothingLeft(left_out.join("; ")));
    }
    let priced = Prices::of(prices, groups.iter().map(|group| target(group.2[0])).collect())?;
    let mut sweeps: Vec<Sweep> =
        groups.iter().map(|(_, varied, runs)| Sweep::of(*varied, runs, slo, &priced)).collect();
    let runs: Vec<&[&RunReport]> = groups.iter().map(|group| group.2.as_slice()).collect();
    tell_apart(&mut sweeps, &runs);
    Ok(Sweeps {
        schema_version: SCHEMA_VERSION,
        oltpbench_version: env!("CARGO_PKG_VERSION").into(),
        slo,
        sweeps,
        left_out,
    })
}

/// All runs with figures, and those without.
fn read(paths: &[PathBuf]) -> Result<(Vec<Saved>, Vec<String>), SweepError> {
    let (mut runs, mut left_out, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for path in paths {
        let mut read: Runs = whole(path, file_name(path))?;
        for run in &read.runs {
            // A path that was just read leads somewhere; if not any more, it is as good a name.
            if !seen.insert(run.path.canonicalize().unwrap_or_else(|_| run.path.clone())) {
                return Err(SweepError::Twice(run.path.clone()));
            }
        }
        read.leave_out(false);
        runs.extend(read.runs);
        left_out.extend(read.left_out);
    }
    Ok((runs, left_out))
}

/// What a run's target is called.
fn target(run: &RunReport) -> &str {
    run.cell.as_ref().map_or(&run.target.url, |cell| &cell.target)
}

/// Prices by the names of targets that there are.
struct Prices<'a>(BTreeMap<&'a str, f64>);

impl<'a> Prices<'a> {
    fn of(prices: &'a [Price], targets: BTreeSet<&str>) -> Result<Prices<'a>, SweepError> {
        let mut priced = BTreeMap::new();
        for price in prices {
            if !targets.contains(price.target.as_str()) {
                let targets = targets.into_iter().collect::<Vec<_>>().join(", ");
                return Err(SweepError::UnknownTarget { name: price.target.clone(), targets });
            }
            if priced.insert(price.target.as_str(), price.dollars_per_hour).is_some() {
                return Err(SweepError::TwoPrices(price.target.clone()));
            }
        }
        Ok(Prices(priced))
    }
}

impl Sweep {
    /// Of runs that differ in what is varied alone.
    fn of(varied: Varied, runs: &[&RunReport], slo: Option<Slo>, prices: &Prices<'_>) -> Sweep {
        let mut places: Vec<(f64, Vec<&RunReport>)> = Vec::new();
        for run in runs {
            // Runs without one are in no sweep.
            let value = varied.value(run).unwrap_or_default();
            match places.iter_mut().find(|place| place.0 == value) {
                Some(place) => place.1.push(run),
                None => places.push((value, vec![run])),
            }
        }
        places.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut cells: Vec<Cell> = places.iter().map(|(_, runs)| Cell::of(runs, slo)).collect();
        let (threads, tps) = (cells[0].threads, cells[0].tps.value);
        for cell in &mut cells {
            cell.efficiency = match cell.rate {
                Some(rate) => cell.tps.value / rate,
                None => cell.tps.value / f64::from(cell.threads) / (tps / f64::from(threads)),
            };
        }
        let (first, dollars_per_hour) = (runs[0], prices.0.get(target(runs[0])).copied());
        let best =
            |cell: usize| Best { cell, cost: dollars_per_hour.map(|price| Cost::of(price, cells[cell].tps.value)) };
        let keeps = |cell: &usize| cells[*cell].slo.as_ref().is_some_and(|slo| slo.outcome == Outcome::Kept);
        let mut findings = BTreeMap::new();
        for finding in runs.iter().flat_map(|run| &run.findings) {
            *findings.entry(finding.code.clone()).or_default() += 1;
        }
        Sweep {
            target: target(first).into(),
            number: None,
            workload: first.spec.workload.clone(),
            url: first.target.url.clone(),
            server: first.target.version.clone(),
            varied,
            threads: (varied == Varied::Rate).then_some(first.spec.threads),
            differences: Vec::new(),
            findings,
            peak: best(fastest(&cells, |_| true).unwrap_or_default()),
            knee: fastest(&cells, keeps).map(best),
            scalability: (varied == Varied::Threads).then(|| Scalability::of(&cells)),
            dollars_per_hour,
            cells,
        }
    }
}

/// The cell with the most tps, the first one if there are several.
fn fastest(cells: &[Cell], wanted: impl Fn(&usize) -> bool) -> Option<usize> {
    // The last of equal ones is the greatest.
    (0..cells.len()).rev().filter(wanted).max_by(|&one, &other| cells[one].tps.value.total_cmp(&cells[other].tps.value))
}

impl Cell {
    /// Of repeats; `efficiency` is left to whoever knows the other cells.
    fn of(runs: &[&RunReport], slo: Option<Slo>) -> Cell {
        let tps = match runs {
            [run] => Figure::Tps.of(run),
            _ => {
                let (value, bounds) = geometric_mean(&values(runs, |run| run.totals.tps));
                Measured { value, bounds }
            }
        };
        let has_latencies = runs.iter().all(|run| run.latency_us.response.count > 0);
        let percentile = |of: fn(&RunReport) -> f64| has_latencies.then(|| geometric_mean(&values(runs, of)).0);
        let (in_use, of_failed) = (mean(&values(runs, in_use)), mean(&values(runs, of_failed)));
        let threads = runs[0].spec.threads;
        Cell {
            threads,
            rate: Varied::Rate.value(runs[0]),
            runs: runs.len(),
            tps,
            p50_us: percentile(|run| run.latency_us.response.p50),
            p95_us: percentile(|run| run.latency_us.response.p95),
            p99_us: percentile(|run| run.latency_us.response.p99),
            connections_in_use: in_use,
            connections_of_failed: of_failed,
            departure: departure(runs, in_use, of_failed),
            efficiency: 1.0,
            slo: slo.map(|slo| slo.held_against(runs)),
        }
    }
}

fn values(runs: &[&RunReport], of: impl Fn(&RunReport) -> f64) -> Vec<f64> {
    runs.iter().map(|run| of(run)).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// By Little's law; in an open loop the service time, since what waits for a connection uses none.
fn in_use(run: &RunReport) -> f64 {
    run.totals.tps * run.latency_us.service.mean / 1e6
}

fn of_failed(run: &RunReport) -> f64 {
    let elapsed_s = run.totals.elapsed_s;
    if elapsed_s > 0.0 { run.totals.counts.given_up_s / elapsed_s } else { 0.0 }
}

/// Why the connections that a closed loop used are not its threads, from what the runs tell.
fn departure(runs: &[&RunReport], in_use: f64, of_failed: f64) -> Option<String> {
    let threads = f64::from(runs[0].spec.threads);
    if runs[0].spec.open_loop.is_some() || (in_use / threads - 1.0).abs() <= LITTLE_LIMIT {
        return None;
    }
    if in_use > threads {
        return Some("long transactions that began before the window ended in it".into());
    }
    let found = |code: &str| runs.iter().any(|run| run.findings.iter().any(|finding| finding.code == code));
    let failed = format!("failed transactions, which are in no latency, used {of_failed:.2}");
    let reasons = [
        (of_failed > 0.01 * threads, failed.as_str()),
        (found("latency-cut-off"), "much had not ended when the window closed"),
        (found("connections-lost"), "connections were lost"),
        (found("overloaded"), "connections paused, since the server was overloaded"),
        (runs.iter().any(|run| run.spec.events.is_some()), "--events were used up before the end"),
        (found("client-saturated") || found("client-machine-busy"), "this machine had no CPU left"),
    ];
    let told: Vec<&str> = reasons.into_iter().filter(|reason| reason.0).map(|reason| reason.1).collect();
    Some(match told.is_empty() {
        true => {
            "no finding of the runs says why; transactions so short that oltpbench's own time between them counts, \
                 or long ones cut off by the window's end"
                .into()
        }
        false => told.join("; "),
    })
}

impl Slo {
    fn held_against(&self, runs: &[&RunReport]) -> AgainstSlo {
        let each: Option<Vec<f64>> =
            runs.iter().map(|run| run.latency_us.response.percentile(self.percentile)).collect();
        let fewest = runs.iter().map(|run| run.latency_us.response.count).min().unwrap_or_default();
        let found = |code: &str| runs.iter().any(|run| run.findings.iter().any(|finding| finding.code == code));
        let cannot_tell = |reason: &str, each: Option<Vec<f64>>| {
            AgainstSlo::new(Outcome::CannotTell, Some(reason.into()), each.as_deref())
        };
        let Some(each) = each else { return cannot_tell("a run's histogram cannot be read", None) };
        if (1.0 - self.percentile / 100.0) * (fewest as f64) < FEWEST_BEYOND {
            return cannot_tell("too few latencies beyond it", (fewest > 0).then_some(each));
        }
        // What is missing would only make it longer.
        if geometric_mean(&each).0 > self.limit_us {
            return AgainstSlo::new(Outcome::Missed, None, Some(&each));
        }
        if found("latency-cut-off") {
            return cannot_tell("the longest latencies were cut off", Some(each));
        }
        if found("transactions-shed") {
            return cannot_tell("transactions were skipped", Some(each));
        }
        AgainstSlo::new(Outcome::Kept, None, Some(&each))
    }
}

impl AgainstSlo {
    fn new(outcome: Outcome, reason: Option<String>, each: Option<&[f64]>) -> AgainstSlo {
        let end = |pick: fn(f64, f64) -> f64| each.and_then(|each| each.iter().copied().reduce(pick));
        AgainstSlo {
            outcome,
            reason,
            value_us: each.map(|each| geometric_mean(each).0),
            least_us: end(f64::min),
            greatest_us: end(f64::max),
        }
    }
}

impl Cost {
    fn of(dollars_per_hour: f64, tps: f64) -> Cost {
        Cost {
            dollars_per_million_transactions: dollars_per_hour / (tps * 3600.0) * 1e6,
            tps_per_dollar_per_hour: tps / dollars_per_hour,
        }
    }
}

impl Scalability {
    fn of(cells: &[Cell]) -> Scalability {
        let point = |cell: &Cell| Point { threads: f64::from(cell.threads), rate: cell.tps.value };
        match Law::fitted(&cells.iter().map(point).collect::<Vec<_>>()) {
            Ok(law) => Scalability { fit: Some(Fit::of(law, cells)), reason: None },
            Err(reason) => Scalability { fit: None, reason: Some(reason.to_string()) },
        }
    }
}

impl Fit {
    fn of(law: Law, cells: &[Cell]) -> Fit {
        let residual = |cell: &Cell| (law.rate(f64::from(cell.threads)) / cell.tps.value - 1.0).abs();
        let residuals = cells.iter().map(|cell| (residual(cell), cell.threads));
        let (largest_residual, residual_threads) =
            residuals.max_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or_default();
        let measured = cells.iter().map(|cell| f64::from(cell.threads));
        let (least, most) = measured.fold((f64::INFINITY, 0.0), |(least, most), at| (at.min(least), at.max(most)));
        let peak_threads = law.peak();
        Fit {
            law,
            peak_threads,
            peak_tps: peak_threads.map(|threads| law.rate(threads)),
            is_extrapolated: peak_threads.is_some_and(|threads| threads < least || threads > most),
            largest_residual,
            residual_threads,
            is_bad: largest_residual > FIT_LIMIT,
        }
    }
}

/// Numbers sweeps that would be called the same, and notes what is not alike in their runs.
fn tell_apart(sweeps: &mut [Sweep], runs: &[&[&RunReport]]) {
    let name = |sweep: &Sweep| (sweep.target.clone(), sweep.workload.clone(), sweep.varied, sweep.threads);
    let names: Vec<_> = sweeps.iter().map(name).collect();
    for at in 0..sweeps.len() {
        let alike: Vec<usize> = (0..sweeps.len()).filter(|&other| names[other] == names[at]).collect();
        if let [first, _, ..] = alike.as_slice() {
            let number = alike.iter().take_while(|&&other| other < at).count() + 1;
            let differences = [setup::of_load, setup::of_surroundings]
                .into_iter()
                .flat_map(|of| setup::differences(runs[*first], &format!("({number})"), runs[at], of));
            let differences =
                differences.filter(|difference| difference.what != "threads" && difference.what != "rate");
            sweeps[at].differences = differences.map(|difference| difference.words()).collect();
            sweeps[at].number = Some(number);
        }
    }
}
