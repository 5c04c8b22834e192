//! Which runs stand against which: the files and folders that were given become sides, and their runs cells.
//!
//! Invariant: a run that was given is in a cell or named as left out; none is dropped in silence.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::CompareError;
use crate::report::experiment::Experiment;
use crate::report::figures::counted;
use crate::report::saved::{self, DESIGN, Saved, SavedError, file_name};
use crate::report::{AskedOpenLoop, RunReport};

/// The finding after which the figures of a run that is no failure must not be used.
const UNACCOUNTED: &str = "statements-unaccounted";

/// What is compared with the other sides, or they with it.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    pub name: String,
    pub runs: Vec<Saved>,
    /// Runs that there are no figures of, with the reason.
    pub left_out: Vec<String>,
}

/// All sides, the baseline first.
pub(super) struct Sides {
    pub sides: Vec<Runs>,
    /// Whether they are the targets of one experiment, whose blocks make pairs.
    pub interleaved: bool,
    /// Whether cells have a target of their own beside the side that they belong to.
    by_target: bool,
}

/// What a cell's runs have in common on all sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// `None` where the targets are what is compared.
    pub target: Option<String>,
    pub workload: String,
    pub threads: u32,
    /// `None` is the closed loop.
    pub open_loop: Option<AskedOpenLoop>,
}

impl Sides {
    /// The targets of one folder, or as many files and folders as there are paths. Runs that did not end well are left out
    /// unless `force`.
    pub fn read(paths: &[PathBuf], force: bool) -> Result<Sides, CompareError> {
        let mut sides = match paths {
            [folder] => targets_of(folder)?,
            _ => paths
                .iter()
                .zip(names(paths))
                .map(|(path, name)| whole(path, name))
                .collect::<Result<_, SavedError>>()?,
        };
        refuse_runs_on_both(&sides)?;
        for side in &mut sides {
            side.leave_out(force);
            if side.runs.is_empty() {
                return Err(CompareError::NothingLeft { side: side.name.clone(), reasons: side.left_out.join("; ") });
            }
        }
        let interleaved = paths.len() == 1;
        let several = |side: &Runs| side.runs.iter().map(target_of).collect::<BTreeSet<_>>().len() > 1;
        Ok(Sides { by_target: !interleaved && sides.iter().any(several), sides, interleaved })
    }

    /// The runs of one folder that ended well, beside nothing.
    pub fn alone(folder: &Path) -> Result<Sides, CompareError> {
        let mut side = whole(folder, file_name(folder))?;
        side.leave_out(false);
        Ok(Sides { sides: vec![side], interleaved: false, by_target: false })
    }

    pub fn cell_of(&self, run: &RunReport) -> Cell {
        Cell {
            target: run.cell.as_ref().filter(|_| self.by_target).map(|cell| cell.target.clone()),
            workload: run.spec.workload.clone(),
            threads: run.spec.threads,
            open_loop: run.spec.open_loop.clone(),
        }
    }

    /// A side's cells, by rate and threads.
    pub fn cells(&self, side: &Runs) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        for run in &side.runs {
            let cell = self.cell_of(&run.report);
            if !cells.iter().any(|other| other.is_at(&cell)) {
                cells.push(cell);
            }
        }
        cells.sort_by(|one, other| {
            let key = |cell: &Cell| (cell.target.clone(), cell.workload.clone());
            let rate = |cell: &Cell| cell.steps().first().map_or(0.0, |step| step.1);
            let by_rate = rate(one).total_cmp(&rate(other));
            key(one).cmp(&key(other)).then(by_rate).then(one.threads.cmp(&other.threads))
        });
        cells
    }

    pub fn runs_at<'a>(&self, side: &'a Runs, cell: &Cell) -> Vec<&'a Saved> {
        side.runs.iter().filter(|run| self.cell_of(&run.report).is_at(cell)).collect()
    }
}

impl Cell {
    /// Whether the other one has the same place in a grid; arrivals and the like are a matter of comparability.
    pub(super) fn is_at(&self, other: &Cell) -> bool {
        let place = |cell: &Cell| (cell.target.clone(), cell.workload.clone(), cell.threads);
        place(self) == place(other) && self.steps() == other.steps()
    }

    fn steps(&self) -> Vec<(f64, f64)> {
        let steps = self.open_loop.iter().flat_map(|open_loop| &open_loop.steps);
        steps.map(|step| (step.start_s, step.rate)).collect()
    }

    /// Such as `oltp_read_only, 64 threads, rate 1000`.
    pub fn words(&self) -> String {
        let target = self.target.as_ref().map_or(String::new(), |target| format!("{target}: "));
        let threads = counted(u64::from(self.threads), "thread");
        let rate = |open_loop: &AskedOpenLoop| format!(", rate {}", open_loop.rates_in_words());
        let rate = self.open_loop.as_ref().map_or(String::new(), rate);
        format!("{target}{}, {threads}{rate}", self.workload)
    }
}

impl Runs {
    pub fn leave_out(&mut self, force: bool) {
        let (used, out): (Vec<Saved>, _) =
            self.runs.drain(..).partition(|run| match run.report.totals.counts.transactions {
                0 => false,
                _ => force || reason_against(&run.report).is_none(),
            });
        self.runs = used;
        self.left_out.extend(out.iter().map(|run| {
            let reason =
                reason_against(&run.report).unwrap_or_else(|| "not one transaction ended in the window".into());
            format!("{} ({reason})", file_name(&run.path))
        }));
    }
}

/// A file has one path, however it was given.
fn refuse_runs_on_both(sides: &[Runs]) -> Result<(), CompareError> {
    let mut seen: BTreeMap<PathBuf, &str> = BTreeMap::new();
    for side in sides {
        for run in &side.runs {
            let real = run.path.canonicalize().unwrap_or_else(|_| run.path.clone());
            if let Some(first) = seen.insert(real, &side.name) {
                let (first, second) = (first.into(), side.name.clone());
                return Err(CompareError::OnBothSides { first, second, run: run.path.clone() });
            }
        }
    }
    Ok(())
}

/// Why a run's figures are not to be used.
fn reason_against(run: &RunReport) -> Option<String> {
    let unaccounted = run.findings.iter().find(|finding| finding.code == UNACCOUNTED);
    run.failure().or_else(|| unaccounted.map(|finding| finding.message.clone()))
}

/// The targets of an experiment in its own order, the first being the baseline.
fn targets_of(folder: &Path) -> Result<Vec<Runs>, CompareError> {
    if folder.is_file() {
        return Err(CompareError::OneRun(folder.to_path_buf()));
    }
    let runs = saved::read(folder)?;
    let mut sides: Vec<Runs> = Vec::new();
    let experiment = if folder.join(DESIGN).is_file() { Some(Experiment::read(folder)?) } else { None };
    let planned = experiment.iter().flat_map(|experiment| &experiment.design.targets).map(|target| target.name.clone());
    // Without a design the files' names tell, which begin with block and cell.
    for name in planned.chain(runs.iter().filter_map(target_of)) {
        if !sides.iter().any(|side| side.name == name) {
            sides.push(Runs { name, runs: Vec::new(), left_out: Vec::new() });
        }
    }
    if sides.len() < 2 {
        return Err(CompareError::OneTarget(folder.to_path_buf()));
    }
    for run in runs {
        let name = target_of(&run).ok_or_else(|| CompareError::NotOfExperiment(run.path.clone()))?;
        if let Some(side) = sides.iter_mut().find(|side| side.name == name) {
            side.runs.push(run);
        }
    }
    for side in &mut sides {
        side.left_out = not_done(experiment.as_ref(), folder, Some(&side.name));
    }
    Ok(sides)
}

/// A file or a folder as one side.
pub(super) fn whole(path: &Path, name: String) -> Result<Runs, SavedError> {
    let experiment = if path.join(DESIGN).is_file() { Some(Experiment::read(path)?) } else { None };
    Ok(Runs { name, runs: saved::read(path)?, left_out: not_done(experiment.as_ref(), path, None) })
}

/// The runs of an experiment that have no result, of one target or of all.
fn not_done(experiment: Option<&Experiment>, folder: &Path, target: Option<&str>) -> Vec<String> {
    let runs = experiment.into_iter().flat_map(|experiment| experiment.without_result(folder));
    let runs = runs.filter(|(run, _)| target.is_none_or(|target| run.target == target));
    runs.map(|(run, reason)| format!("{} ({reason})", run.words())).collect()
}

fn target_of(run: &Saved) -> Option<String> {
    run.report.cell.as_ref().map(|cell| cell.target.clone())
}

/// What the paths are called: their last parts, or all of them where these do not tell them apart.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let short: Vec<String> = paths.iter().map(|path| file_name(path).trim_end_matches(".json").to_string()).collect();
    match short.iter().collect::<BTreeSet<_>>().len() == short.len() {
        true => short,
        false => paths.iter().map(|path| path.display().to_string()).collect(),
    }
}
