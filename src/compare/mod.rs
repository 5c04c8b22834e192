//! Saved runs held against other figures.
//!
//! [`compare`] makes a [`Comparison`] of runs against runs, a document of its own; what is printed is a view of it.
//!
//! * [`sides`]: which runs stand against which.
//! * [`setup`]: whether they may.
//! * [`estimate`]: ratios, their intervals, and the correction for their number; [`ranks`]: its rank tests.
//! * [`precision`]: whether an experiment needs more repeats.
//! * [`text`]: the comparison for a terminal, as Markdown; [`html`]: as a part of a page of runs.
//! * [`sweep`]: what a target does at each number of threads or rate, and what that costs; a document of its own.
//! * [`published`]: a run against a published figure, which has no verdict.
//!
//! Invariants: the baseline is always below the ratio; the first side is the baseline; a verdict is Holm's over all figures
//! of all cells; nothing is compared in silence that was not the same load.
//!
//! Imports `report`, `metrics`, `published`. Must not import: `engine`, `target`, `workload`, `cli`.

pub mod estimate;
mod html;
pub mod precision;
pub mod published;
mod ranks;
pub mod setup;
pub mod sides;
pub mod sweep;
pub mod text;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::metrics::Bounds;
use crate::metrics::statistics::{FEWEST_BEYOND, LEVEL};
use crate::report::RunReport;
use crate::report::saved::{Saved, SavedError, file_name};
use estimate::{ALPHA, LogRatio, bounds_of_ratio, geometric_mean, holm};
use setup::Difference;
use sides::{Cell, Runs, Sides};

/// Version of the document's layout.
pub const SCHEMA_VERSION: u32 = 1;

/// Why runs do not tell a percentile.
const TOO_FEW_BEYOND: &str = "too few latencies beyond it";

#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error(transparent)]
    Saved(#[from] SavedError),
    #[error("{0} is a single run by itself; give a second file or folder")]
    OneRun(PathBuf),
    #[error("{0} is of one target, so there is nothing to compare; give a second file or folder")]
    OneTarget(PathBuf),
    #[error(
        "{first} and {second} both have the run {run}, which is no different from itself; give another file or folder"
    )]
    OnBothSides { first: String, second: String, run: PathBuf },
    #[error("{0} is of no experiment, unlike other files of its folder; give it a folder of its own")]
    NotOfExperiment(PathBuf),
    #[error("{side} has no run to compare: {reasons}")]
    NothingLeft { side: String, reasons: String },
    #[error("{baseline} and {side} have no cell in common: {}; {}", .cells[0], .cells[1])]
    NothingInCommon { baseline: String, side: String, cells: [String; 2] },
    #[error("these runs are not comparable: {0}; measure again with the same, or give --force")]
    NotComparable(String),
    #[error("{side} has several runs of block {block} ({cell}); leave one in the folder")]
    TwoInBlock { side: String, cell: String, block: u32 },
}

/// What to do beside comparing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Compare what is not comparable, and take runs that did not end well.
    pub force: bool,
    /// What counts as a regression, as a share.
    pub regression: Option<f64>,
}

/// The document.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    pub schema_version: u32,
    pub oltpbench_version: String,
    /// Share of intervals that hold the true value.
    pub level: f64,
    pub correction: Correction,
    /// The first is the baseline.
    pub sides: Vec<Side>,
    /// What makes the runs not comparable; empty unless forced.
    pub differences: Vec<Difference>,
    /// What else is not the same in all runs: servers' versions and settings, encryption, the client.
    pub surroundings: Vec<Difference>,
    /// Cells that not all sides have.
    pub not_compared: Vec<String>,
    pub warnings: Vec<String>,
    pub pairs: Vec<Pair>,
    pub regression: Option<Regression>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Correction {
    /// `holm`.
    pub method: String,
    /// Chance of a wrong verdict among all.
    pub alpha: f64,
    /// How many there are; figures that are multiples of each other are one.
    pub comparisons: usize,
    /// How many of them have enough runs for a rank test. Verdicts of the others rest on Student's distribution alone.
    pub ranked: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Side {
    pub name: String,
    pub runs: Vec<Run>,
    /// Runs that are not in the comparison, with the reason.
    pub left_out: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    pub file: String,
    pub started_at: String,
    pub target: String,
    pub server: String,
    pub status: crate::report::Status,
    /// Codes of its findings.
    pub findings: Vec<String>,
}

/// A cell of one side against the baseline's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// The baseline's, where the other one's was forced to stand against it.
    pub cell: Cell,
    pub side: String,
    pub method: Method,
    /// Runs of the baseline and of the other side.
    pub runs: [usize; 2],
    pub figures: Vec<Compared>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// By the ratios inside the blocks of one experiment.
    Paired,
    /// By repeats that have nothing in common.
    Unpaired,
    /// A run by itself against another, each with its own errors only; no verdict comes of it.
    SingleRuns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    Tps,
    Rps,
    Qps,
    Mean,
    P50,
    P95,
    P99,
    P999,
}

/// A figure with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub value: f64,
    pub bounds: Option<Bounds>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Compared {
    pub figure: Figure,
    /// Rates a second, or microseconds; of several runs their geometric mean.
    pub baseline: Measured,
    pub other: Measured,
    /// The other side's by the baseline's.
    /// `None` where a side has none of it.
    pub ratio: Option<Measured>,
    /// The chance of so much difference without a true one, alone and corrected for the number of comparisons.
    pub chance: Option<f64>,
    pub corrected: Option<f64>,
    pub verdict: Verdict,
    /// The difference, as a share, that about 8 of 10 such experiments would have shown.
    pub could_show: Option<f64>,
    /// Why there is no verdict.
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Better,
    Worse,
    NoDifferenceShown,
    CannotTell,
}

/// What came of looking for regressions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Regression {
    /// As a share.
    pub limit: f64,
    /// Figures that are worse by more than the limit, shown with the same certainty as a verdict.
    pub shown: Vec<Regressed>,
    /// The regression that about 8 of 10 such experiments would have shown, whichever figure it is in.
    pub could_show: Option<f64>,
    /// Percentiles that the runs are too short to tell, by side and cell.
    #[serde(default)]
    pub not_judged: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Regressed {
    pub cell: String,
    pub side: String,
    pub figure: Figure,
    pub ratio: Measured,
}

impl Figure {
    const ALL: [Figure; 8] =
        [Figure::Tps, Figure::Rps, Figure::Qps, Figure::Mean, Figure::P50, Figure::P95, Figure::P99, Figure::P999];

    pub fn name(self) -> &'static str {
        match self {
            Figure::Tps => "tps",
            Figure::Rps => "rps",
            Figure::Qps => "qps",
            Figure::Mean => "mean",
            Figure::P50 => "p50",
            Figure::P95 => "p95",
            Figure::P99 => "p99",
            Figure::P999 => "p99.9",
        }
    }

    pub fn is_rate(self) -> bool {
        matches!(self, Figure::Tps | Figure::Rps | Figure::Qps)
    }

    /// The figure of a run, with its interval from that run alone.
    fn of(self, run: &RunReport) -> Measured {
        let (totals, latency) = (&run.totals, &run.latency_us.response);
        let (of_rates, of_latency) = (&run.confidence, &run.confidence.latency_us);
        let (value, bounds) = match self {
            Figure::Tps => (totals.tps, of_rates.tps),
            Figure::Rps => (totals.rps, of_rates.rps),
            Figure::Qps => (totals.qps, of_rates.qps),
            Figure::Mean => (latency.mean, of_latency.mean),
            Figure::P50 => (latency.p50, of_latency.p50),
            Figure::P95 => (latency.p95, of_latency.p95),
            Figure::P99 => (latency.p99, of_latency.p99),
            Figure::P999 => (latency.p999, of_latency.p999),
        };
        Measured { value, bounds }
    }

    /// Share of latencies beyond a percentile.
    fn beyond(self) -> Option<f64> {
        match self {
            Figure::Tps | Figure::Rps | Figure::Qps | Figure::Mean => None,
            Figure::P50 => Some(0.5),
            Figure::P95 => Some(0.05),
            Figure::P99 => Some(0.01),
            Figure::P999 => Some(0.001),
        }
    }

    /// Why runs do not tell this figure.
    fn reason_against(self, runs: &[&RunReport]) -> Option<String> {
        let fewest = runs.iter().map(|run| run.latency_us.response.count).min().unwrap_or_default();
        match self.beyond() {
            Some(share) if share * (fewest as f64) < FEWEST_BEYOND => Some(TOO_FEW_BEYOND.into()),
            _ if runs.iter().all(|run| self.of(run).value > 0.0) => None,
            _ => Some("a run has none".into()),
        }
    }
}

/// Runs of a cell that stand against each other.
struct Match<'a> {
    cell: Cell,
    side: &'a Runs,
    method: Method,
    baseline: Vec<&'a RunReport>,
    other: Vec<&'a RunReport>,
}

/// Compares the targets of one folder, or several files and folders; the first one is the baseline.
pub fn compare(paths: &[PathBuf], options: Options) -> Result<Comparison, CompareError> {
    let sides = Sides::read(paths, options.force)?;
    let Some((baseline, others)) = sides.sides.split_first() else {
        return Err(CompareError::OneTarget(paths.first().cloned().unwrap_or_default()));
    };
    let (mut matches, mut not_compared, mut warnings, mut surroundings) = (vec![], vec![], vec![], vec![]);
    for other in others {
        matches.extend(matches_of(&sides, baseline, other, options.force, &mut not_compared, &mut warnings)?);
        surroundings.extend(setup::differences(
            &reports(baseline),
            &other.name,
            &reports(other),
            setup::of_surroundings,
        ));
    }
    let mut differences: Vec<Difference> = Vec::new();
    for each in &matches {
        for difference in setup::differences(&each.baseline, &each.side.name, &each.other, setup::of_load) {
            if !differences.contains(&difference) {
                differences.push(difference);
            }
        }
        let (other_text, untold) = setup::workload_texts(&each.baseline, &each.side.name, &each.other);
        differences.extend(other_text.filter(|difference| !differences.contains(difference)));
        warnings.extend(untold);
        warnings.extend(each.warning(&baseline.name));
    }
    if !options.force && !differences.is_empty() {
        let words: Vec<String> = differences.iter().map(Difference::words).collect();
        return Err(CompareError::NotComparable(words.join("; ")));
    }
    let mut seen = BTreeSet::new();
    warnings.retain(|warning: &String| seen.insert(warning.clone()));
    let (pairs, regression, correction) = judged(&matches, options.regression);
    Ok(Comparison {
        schema_version: SCHEMA_VERSION,
        oltpbench_version: env!("CARGO_PKG_VERSION").into(),
        level: LEVEL,
        correction,
        sides: sides.sides.iter().map(Side::new).collect(),
        differences,
        surroundings,
        not_compared,
        warnings,
        pairs,
        regression,
    })
}

fn reports(side: &Runs) -> Vec<&RunReport> {
    side.runs.iter().map(|run| &run.report).collect()
}

impl Side {
    fn new(side: &Runs) -> Side {
        let run = |saved: &Saved| Run {
            file: file_name(&saved.path),
            started_at: saved.report.started_at.clone(),
            target: saved.report.target.url.clone(),
            server: saved.report.target.version.clone(),
            status: saved.report.status,
            findings: saved.report.findings.iter().map(|finding| finding.code.clone()).collect(),
        };
        Side { name: side.name.clone(), runs: side.runs.iter().map(run).collect(), left_out: side.left_out.clone() }
    }
}

/// The cells that a side has in common with the baseline.
fn matches_of<'a>(
    sides: &Sides,
    baseline: &'a Runs,
    other: &'a Runs,
    force: bool,
    not_compared: &mut Vec<String>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Match<'a>>, CompareError> {
    let (of_baseline, of_other) = (sides.cells(baseline), sides.cells(other));
    let (common, only): (Vec<&Cell>, Vec<&Cell>) =
        of_baseline.iter().partition(|cell| of_other.iter().any(|other| other.is_at(cell)));
    if common.is_empty() {
        // One cell on each side can only be meant for the other.
        let ([first], [second]) = (of_baseline.as_slice(), of_other.as_slice()) else {
            let words = |cells: &[Cell]| cells.iter().map(Cell::words).collect::<Vec<_>>().join(", ");
            return Err(CompareError::NothingInCommon {
                baseline: baseline.name.clone(),
                side: other.name.clone(),
                cells: [words(&of_baseline), words(&of_other)],
            });
        };
        if first.target != second.target && !force {
            let words = format!("targets {} and {}", first.words(), second.words());
            return Err(CompareError::NotComparable(words));
        }
        return Ok(vec![Match::new(sides, first, (baseline, first), (other, second), warnings)?]);
    }
    let missing = of_other.iter().filter(|cell| !common.iter().any(|other| other.is_at(cell)));
    not_compared.extend(only.iter().map(|cell| format!("{} (only in {})", cell.words(), baseline.name)));
    not_compared.extend(missing.map(|cell| format!("{} (only in {})", cell.words(), other.name)));
    common.into_iter().map(|cell| Match::new(sides, cell, (baseline, cell), (other, cell), warnings)).collect()
}

impl<'a> Match<'a> {
    fn new(
        sides: &Sides,
        cell: &Cell,
        (from, at): (&'a Runs, &Cell),
        (side, against): (&'a Runs, &Cell),
        warnings: &mut Vec<String>,
    ) -> Result<Match<'a>, CompareError> {
        let (baseline, other) = (sides.runs_at(from, at), sides.runs_at(side, against));
        let reports = |runs: Vec<&'a Saved>| runs.into_iter().map(|run| &run.report).collect::<Vec<_>>();
        let (mut baseline, mut other) = (reports(baseline), reports(other));
        let mut method = Method::Unpaired;
        if sides.interleaved {
            let common = common_blocks((from, &baseline), (side, &other), cell)?;
            if !common.is_empty() {
                let before = baseline.len() + other.len();
                for runs in [&mut baseline, &mut other] {
                    runs.retain(|run| block(run).is_some_and(|block| common.contains(&block)));
                    runs.sort_by_key(|run| block(run));
                }
                if baseline.len() + other.len() < before {
                    warnings.push(format!(
                        "{}: only the {} blocks in which both {} and {} have a run are compared.",
                        cell.words(),
                        common.len(),
                        from.name,
                        side.name
                    ));
                }
                method = Method::Paired;
                warnings.extend(always_first((from, &baseline), (side, &other), cell));
            }
        }
        if baseline.len() == 1 && other.len() == 1 {
            method = Method::SingleRuns;
        }
        Ok(Match { cell: cell.clone(), side, method, baseline, other })
    }

    /// What the errors do not cover.
    fn warning(&self, baseline: &str) -> Option<String> {
        let several = "measure both in turns, as by `run --target ... --target ... --repeat 5`";
        let side = &self.side.name;
        match (self.method, self.baseline.len(), self.other.len()) {
            (Method::Paired, ..) => None,
            (Method::SingleRuns, ..) => Some(format!(
                "One run of {baseline} against one of {side} has no verdict: the intervals are of each run by itself. What \
                 differs from run to run (the hour, a restart, another virtual machine) is not in them, and may be all \
                 there is to a difference; {several}."
            )),
            (Method::Unpaired, 1, _) | (Method::Unpaired, _, 1) => Some(format!(
                "{} has a single run, which is taken to vary as those of the other side do; {several}.",
                if self.other.len() == 1 { side } else { baseline }
            )),
            (Method::Unpaired, ..) => Some(format!(
                "The runs of {baseline} and {side} were not made in turns: what changed between them counts as a \
                 difference; {several}."
            )),
        }
    }

    /// What a verdict on a figure is made of, or why there is none.
    fn estimate(&self, figure: Figure) -> Result<LogRatio, String> {
        let both = [self.baseline.as_slice(), self.other.as_slice()].concat();
        if let Some(reason) = figure.reason_against(&both) {
            return Err(reason);
        }
        let values = |runs: &[&RunReport]| runs.iter().map(|run| figure.of(run).value).collect::<Vec<_>>();
        let (baseline, other) = (values(&self.baseline), values(&self.other));
        match self.method {
            Method::Paired => {
                let ratios: Vec<f64> = baseline.iter().zip(&other).map(|(baseline, other)| other / baseline).collect();
                Ok(LogRatio::paired(&ratios))
            }
            Method::Unpaired => Ok(LogRatio::unpaired(&baseline, &other)),
            Method::SingleRuns => Err("none, of a single run each".into()),
        }
    }

    /// The figure of one side.
    fn measured(&self, figure: Figure, runs: &[&RunReport]) -> Measured {
        match runs {
            [run] => figure.of(run),
            _ if runs.iter().any(|run| figure.of(run).value <= 0.0) => Measured { value: 0.0, bounds: None },
            _ => {
                let values: Vec<f64> = runs.iter().map(|run| figure.of(run).value).collect();
                let (value, bounds) = geometric_mean(&values);
                Measured { value, bounds }
            }
        }
    }

    /// A figure before the verdict, which depends on all others, and what that is to be made of.
    fn compared(&self, figure: Figure) -> (Compared, Option<LogRatio>) {
        let estimate = self.estimate(figure);
        let (baseline, other) = (self.measured(figure, &self.baseline), self.measured(figure, &self.other));
        let bounds = match (&estimate, self.method, baseline.bounds.zip(other.bounds)) {
            (Ok(estimate), ..) => estimate.bounds(),
            (Err(_), Method::SingleRuns, Some((from, to))) => {
                bounds_of_ratio((baseline.value, from), (other.value, to))
            }
            (Err(_), ..) => None,
        };
        let ratio = match &estimate {
            Ok(estimate) => Some(estimate.value.exp()),
            Err(_) => (baseline.value > 0.0 && other.value > 0.0).then(|| other.value / baseline.value),
        };
        let compared = Compared {
            figure,
            baseline,
            other,
            ratio: ratio.map(|value| Measured { value, bounds }),
            chance: None,
            corrected: None,
            verdict: Verdict::CannotTell,
            could_show: None,
            reason: estimate.as_ref().err().cloned(),
        };
        (compared, estimate.ok())
    }
}

fn block(run: &RunReport) -> Option<u32> {
    run.cell.as_ref().map(|cell| cell.block)
}

/// The blocks in which both sides have a run.
fn common_blocks(
    (from, baseline): (&Runs, &[&RunReport]),
    (side, other): (&Runs, &[&RunReport]),
    cell: &Cell,
) -> Result<BTreeSet<u32>, CompareError> {
    let blocks = |side: &Runs, runs: &[&RunReport]| {
        let mut blocks = BTreeSet::new();
        for block in runs.iter().filter_map(|run| block(run)) {
            if !blocks.insert(block) {
                return Err(CompareError::TwoInBlock { side: side.name.clone(), cell: cell.words(), block });
            }
        }
        Ok(blocks)
    };
    Ok(blocks(from, baseline)?.intersection(&blocks(side, other)?).copied().collect())
}

/// Whether one side came first in every block, so that what a block's first run meets is no chance. Orders that are reversed
/// from block to block leave that to experiments of which blocks are missing, or that were made without it.
fn always_first(
    (from, baseline): (&Runs, &[&RunReport]),
    (side, other): (&Runs, &[&RunReport]),
    cell: &Cell,
) -> Option<String> {
    let order = |run: &RunReport| run.cell.as_ref().map(|cell| cell.order);
    let first = baseline.iter().zip(other).filter(|(baseline, other)| order(baseline) < order(other)).count();
    let (first, second) = match first {
        0 => (side, from),
        all if all == baseline.len() => (from, side),
        _ => return None,
    };
    (baseline.len() > 1).then(|| {
        format!(
            "{}: {} came before {} in every block, so what befalls the earlier run counts as a difference; add repeats.",
            cell.words(),
            first.name,
            second.name
        )
    })
}

/// The verdicts of all figures, the regressions among them, and what they were corrected for.
fn judged(matches: &[Match<'_>], limit: Option<f64>) -> (Vec<Pair>, Option<Regression>, Correction) {
    let mut tests: Vec<LogRatio> = Vec::new();
    let mut limits: Vec<Limit> = Vec::new();
    // Of each figure of each pair, the number of its test.
    let mut numbers: Vec<Vec<Option<usize>>> = Vec::new();
    let mut pairs: Vec<Pair> = Vec::new();
    for each in matches {
        let first = tests.len();
        let (mut figures, mut of_figures) = (Vec::new(), Vec::new());
        for figure in Figure::ALL {
            let (compared, estimate) = each.compared(figure);
            figures.push(compared);
            of_figures.push(estimate.map(|estimate| {
                // Rates are multiples of each other where all transactions are alike: that is one question, not three.
                let rates = tests[first..].iter().position(|test| figure.is_rate() && test.is_same(&estimate));
                rates.map_or_else(
                    || {
                        tests.push(estimate);
                        limits.push(Limit::of(figure, limit.unwrap_or_default()));
                        tests.len() - 1
                    },
                    |at| first + at,
                )
            }));
        }
        let runs = [each.baseline.len(), each.other.len()];
        pairs.push(Pair { cell: each.cell.clone(), side: each.side.name.clone(), method: each.method, runs, figures });
        numbers.push(of_figures);
    }
    let chances: Vec<f64> = tests.iter().map(|test| test.chance_of(0.0, tests.len())).collect();
    let corrected = holm(&chances);
    let open = corrected.iter().filter(|&&chance| chance > ALPHA).count().max(1);
    let figures = pairs.iter_mut().flat_map(|pair| &mut pair.figures).zip(numbers.iter().flatten());
    for (compared, number) in figures {
        let Some(number) = *number else { continue };
        (compared.chance, compared.corrected) = (Some(chances[number]), Some(corrected[number]));
        compared.could_show = tests[number].could_show(ALPHA / open as f64);
        compared.verdict = match corrected[number] <= ALPHA {
            false => Verdict::NoDifferenceShown,
            true if compared.figure.is_rate() == (tests[number].value > 0.0) => Verdict::Better,
            true => Verdict::Worse,
        };
    }
    let regression = limit.map(|limit| regression(limit, &pairs, &numbers, &tests, &limits));
    let ranked = tests.iter().filter(|test| test.has_ranks_for(tests.len())).count();
    let correction = Correction { method: "holm".into(), alpha: ALPHA, comparisons: tests.len(), ranked };
    (pairs, regression, correction)
}

/// From where on a figure is worse by more than a share.
struct Limit {
    /// Of the ratio.
    logarithm: f64,
    /// A rate is worse below it, a time above.
    is_rate: bool,
}

impl Limit {
    fn of(figure: Figure, share: f64) -> Limit {
        let is_rate = figure.is_rate();
        Limit { logarithm: if is_rate { (1.0 - share).ln() } else { (1.0 + share).ln() }, is_rate }
    }

    fn is_passed_by(&self, test: &LogRatio) -> bool {
        if self.is_rate { test.value < self.logarithm } else { test.value > self.logarithm }
    }
}

/// Figures whose true ratio is shown to be beyond the limit, by the same tests and correction as verdicts.
fn regression(
    limit: f64,
    pairs: &[Pair],
    numbers: &[Vec<Option<usize>>],
    tests: &[LogRatio],
    limits: &[Limit],
) -> Regression {
    let chance = |(test, limit): (&LogRatio, &Limit)| match limit.is_passed_by(test) {
        true => test.chance_of(limit.logarithm, tests.len()),
        false => 1.0,
    };
    let corrected = holm(&tests.iter().zip(limits).map(chance).collect::<Vec<_>>());
    let mut shown = Vec::new();
    for (pair, numbers) in pairs.iter().zip(numbers) {
        let tested = pair.figures.iter().zip(numbers).filter_map(|(compared, number)| Some((compared, (*number)?)));
        shown.extend(tested.filter(|&(_, number)| corrected[number] <= ALPHA).map(|(compared, number)| Regressed {
            cell: pair.cell.words(),
            side: pair.side.clone(),
            figure: compared.figure,
            ratio: Measured { value: tests[number].value.exp(), bounds: tests[number].bounds() },
        }));
    }
    let level = ALPHA / tests.len().max(1) as f64;
    let needed = tests.iter().map(|test| test.could_show(level).unwrap_or(f64::INFINITY)).fold(0.0, f64::max);
    let could_show = (1.0 + limit) * (1.0 + needed) - 1.0;
    let could_show = (could_show.is_finite() && !tests.is_empty()).then_some(could_show);
    Regression { limit, shown, could_show, not_judged: pairs.iter().filter_map(Pair::not_judged).collect() }
}

impl Pair {
    fn place(&self) -> String {
        format!("{} ({})", self.side, self.cell.words())
    }

    /// The percentiles that its runs are too short to tell, such as `p99, p99.9 of b (oltp_read_only, 1 thread)`.
    fn not_judged(&self) -> Option<String> {
        let too_short = self.figures.iter().filter(|compared| compared.reason.as_deref() == Some(TOO_FEW_BEYOND));
        let names: Vec<&str> = too_short.map(|compared| compared.figure.name()).collect();
        (!names.is_empty()).then(|| format!("{} of {}", names.join(", "), self.place()))
    }

    /// What of it a verdict is missing on, and not for a run's length alone: all of it, or figures that one side has none of.
    fn gap(&self) -> Option<String> {
        let untold = self.figures.iter().filter(|compared| compared.verdict == Verdict::CannotTell);
        let untold: Vec<&Compared> = untold.collect();
        if untold.len() == self.figures.len() {
            let reason = untold.first().and_then(|compared| compared.reason.as_deref()).unwrap_or("unknown");
            return Some(format!("no figure of {} has a verdict: {reason}", self.place()));
        }
        let of_one_side =
            untold.iter().filter(|compared| (compared.baseline.value > 0.0) != (compared.other.value > 0.0));
        let names: Vec<&str> = of_one_side.map(|compared| compared.figure.name()).collect();
        (!names.is_empty()).then(|| format!("{} of {}: one side has none", names.join(", "), self.place()))
    }
}

impl Comparison {
    /// What keeps a comparison without a regression from saying that there is none.
    pub fn gaps(&self) -> Vec<String> {
        let left_out =
            self.sides.iter().flat_map(|side| side.left_out.iter().map(|run| format!("{}: {run}", side.name)));
        left_out.chain(self.not_compared.iter().cloned()).chain(self.pairs.iter().filter_map(Pair::gap)).collect()
    }
}
