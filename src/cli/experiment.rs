//! An experiment: the runs of a grid, made one after another into a folder, and gone on with after a stop.
//!
//! Invariants: a run's document is on disk before the next run begins, and `experiment.json` tells of it only afterwards; a
//! run that fails costs only itself; nothing that is written holds a password. Of `compare` it asks only whether more repeats
//! are needed. Must not import: `published`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

use super::commands::{Asked, Job, reported_target};
use super::options::{GridArgs, Repeats, new_seed};
use super::progress::Console;
use super::{CliError, without_passwords};
use crate::compare::precision::{Goal, widest};
use crate::engine::grid::{self, Grid};
use crate::report::experiment::{Design, Experiment, NamedTarget, Run, State};
use crate::report::figures::counted;
use crate::report::text::{self, printable};
use crate::report::{Cell, JsonFile, ReportError, RunReport, SCHEMA_VERSION, Status, saved};
use crate::spec::{RunSpec, TargetAddress};

/// What a target is called that nobody named.
const UNNAMED: &str = "target";

/// Folder for the documents of runs that failed or were interrupted after they had measured something.
const FAILED: &str = "failed";

/// Measures all runs that are not done, and prints a table of them all.
pub(super) fn run(asked: &Asked<'_>, args: &GridArgs, interrupted: &AtomicBool) -> Result<ExitCode, CliError> {
    refuse_single(asked)?;
    let targets = targets(asked, args)?;
    let grid = grid_of(asked, targets.len())?;
    let repeats = args.repeats()?;
    let begun = args.resume.as_deref().map(Folder::existing).transpose()?;
    let before = begun.as_ref().map(|folder| folder.experiment()).transpose()?;
    let known = before.as_ref().map(|experiment| experiment.design.seed);
    let seed = asked.random.seed().or(known).unwrap_or_else(new_seed);
    let jobs = jobs(asked, &targets, &grid, seed)?;
    let design = design(asked, &targets, &grid, seed, &jobs, interrupted)?;
    let experiment = match before {
        Some(before) => resumed(asked, before, design, &grid, repeats)?,
        None => begin(asked, design, &grid, repeats),
    };
    let folder = match begun {
        Some(folder) => folder,
        None => Folder::new(args.dir.as_deref())?,
    };
    let mut work = Work { asked, jobs, grid, goal: repeats.goal, experiment, folder };
    work.adopt()?;
    work.save()?;
    work.announce();
    work.measure_all(interrupted)?;
    work.end()
}

/// Options of a run by itself, and runs that would never give way to the next one.
fn refuse_single(asked: &Asked<'_>) -> Result<(), CliError> {
    let (args, refused) = (&asked.args, |message: &str| Err(CliError::usage(message)));
    if args.json.is_some() {
        return refused("--json is for a single run; an experiment has a report of each run in its folder (--dir)");
    }
    let rate = args.rate.first().copied().unwrap_or_default();
    let spec = args.spec(args.most_threads(), rate, 1, asked.matches)?;
    if spec.time.is_none() && spec.events.is_none() {
        return refused("each run of an experiment must end by itself; give --time or --events");
    }
    Ok(())
}

struct NamedAddress {
    name: String,
    address: TargetAddress,
}

fn targets(asked: &Asked<'_>, args: &GridArgs) -> Result<Vec<NamedAddress>, CliError> {
    if args.target.is_empty() {
        return Ok(vec![NamedAddress { name: UNNAMED.into(), address: asked.address()? }]);
    }
    // Names are parts of file names, which some file systems do not tell apart by case.
    let names = args.target.iter().map(|target| target.name.to_ascii_lowercase());
    refuse_repeated("--target has the name", names)?;
    let addresses = asked.addresses(&args.target)?;
    let named = args.target.iter().zip(addresses);
    Ok(named.map(|(target, address)| NamedAddress { name: target.name.clone(), address }).collect())
}

fn grid_of(asked: &Asked<'_>, targets: usize) -> Result<Grid, CliError> {
    let (threads, rates) = (asked.args.threads.clone(), asked.args.rate.clone());
    refuse_repeated("--threads has", threads.iter().map(u32::to_string))?;
    refuse_repeated("--rate has", rates.iter().map(f64::to_string))?;
    Ok(Grid { targets, threads, rates })
}

fn refuse_repeated(what: &str, values: impl Iterator<Item = String>) -> Result<(), CliError> {
    let mut seen = BTreeSet::new();
    for value in values {
        if seen.contains(&value) {
            return Err(CliError::usage(format!("{what} {value} more than once; --repeat measures a cell again")));
        }
        seen.insert(value);
    }
    Ok(())
}

/// The measurement of each cell by its number, so that what is wrong with one is told before any is made.
fn jobs(asked: &Asked<'_>, targets: &[NamedAddress], grid: &Grid, seed: u64) -> Result<BTreeMap<u32, Job>, CliError> {
    let job = |cell: grid::Cell| {
        let address = targets[cell.target].address.clone();
        Ok((cell.number, asked.job(address, cell.threads, cell.rate, seed)?))
    };
    grid.cells().into_iter().map(job).collect()
}

/// Asks each target whether its largest run can be made, since it may be hours until that one's turn comes.
fn design(
    asked: &Asked<'_>,
    targets: &[NamedAddress],
    grid: &Grid,
    seed: u64,
    jobs: &BTreeMap<u32, Job>,
    interrupted: &AtomicBool,
) -> Result<Design, CliError> {
    let first = jobs.values().next().ok_or_else(|| CliError::usage("an experiment needs a run"))?;
    let spec = asked.described(first, first.wanted_protocol());
    let mut described = Vec::new();
    for (index, target) in targets.iter().enumerate() {
        let cells = grid.cells().into_iter().filter(|cell| cell.target == index);
        let jobs = cells.filter_map(|cell| jobs.get(&cell.number));
        let Some(largest) = jobs.max_by_key(|job| job.spec.threads) else { continue };
        let facts = largest.admit(interrupted).map_err(|error| error.of(&format!("target {}", target.name)))?;
        let reported = reported_target(&target.address, facts);
        described.push(NamedTarget { name: target.name.clone(), target: reported });
    }
    Ok(Design { targets: described, threads: grid.threads.clone(), rates: grid.rates.clone(), seed, spec })
}

fn begin(asked: &Asked<'_>, design: Design, grid: &Grid, repeats: Repeats) -> Experiment {
    let runs = (1..=repeats.least).flat_map(|block| block_of(grid, &design, block)).collect();
    Experiment {
        schema_version: SCHEMA_VERSION,
        oltpbench_version: env!("CARGO_PKG_VERSION").into(),
        started_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        name: asked.name.clone(),
        tags: asked.tags.clone(),
        design,
        until_precision: repeats.goal.map(|goal| goal.width),
        runs,
    }
}

/// The runs of one repeat, in their order.
fn block_of(grid: &Grid, design: &Design, block: u32) -> Vec<Run> {
    let run = |cell: grid::Cell| {
        let target = design.targets[cell.target].name.clone();
        let rate = Some(cell.rate).filter(|&rate| rate > 0.0);
        let rate_in_name = rate.map_or(String::new(), |rate| format!("-r{rate}"));
        Run {
            file: format!("b{block:02}-c{:02}-{target}-t{}{rate_in_name}.json", cell.number, cell.threads),
            block,
            cell: cell.number,
            target,
            threads: cell.threads,
            rate,
            state: State::Planned,
            order: None,
            error: None,
        }
    };
    grid.block(design.seed, block).into_iter().map(run).collect()
}

/// An experiment to go on with. It may be given more repeats, and is otherwise what it was.
fn resumed(
    asked: &Asked<'_>,
    before: Experiment,
    design: Design,
    grid: &Grid,
    repeats: Repeats,
) -> Result<Experiment, CliError> {
    let refused = |message: String| Err(CliError::usage(format!("--resume: {message}")));
    if before.oltpbench_version != env!("CARGO_PKG_VERSION") {
        return refused(format!(
            "the experiment was begun by oltpbench {}, and this is {}; go on with that one, or begin anew",
            before.oltpbench_version,
            env!("CARGO_PKG_VERSION")
        ));
    }
    if (&before.name, &before.tags) != (&asked.name, &asked.tags) {
        return refused("its --name or --tag was another one; give those that it began with".into());
    }
    if let Some(difference) = design.differences_from(&before.design).into_iter().next() {
        return refused(format!("this is another experiment, since {difference}; give the command that began it"));
    }
    if before.design.spec.workload_sha256.is_none() {
        super::show_error(
            "Note: its experiment.json is from before it noted the workload's text; see that it is the same.",
        );
    }
    let planned = before.runs.iter().map(|run| run.block).max().unwrap_or(0);
    let wanted = match repeats.goal {
        // Those that were added before are no contradiction to the least number.
        Some(_) => repeats.least.max(planned),
        None => repeats.asked.unwrap_or(planned),
    };
    if wanted < planned {
        return refused(format!("the experiment has {planned} repeats; give --repeat {planned} or more"));
    }
    let mut experiment = before;
    experiment.until_precision = repeats.goal.map(|goal| goal.width).or(experiment.until_precision);
    experiment.runs.extend((planned + 1..=wanted).flat_map(|block| block_of(grid, &design, block)));
    Ok(experiment)
}

/// The folder of an experiment, locked against others: two of them at once would measure each other.
struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// A folder in which nothing is yet.
    fn new(path: Option<&Path>) -> Result<Folder, CliError> {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string().replace(':', "-");
        let path = path.map_or_else(|| format!("oltpbench-{now}").into(), Path::to_path_buf);
        let refused = |error: std::io::Error| {
            CliError::usage(format!("{} cannot be the folder of an experiment ({error}); give --dir", path.display()))
        };
        std::fs::create_dir_all(&path).map_err(refused)?;
        if std::fs::read_dir(&path).map_err(refused)?.next().is_some() {
            return Err(CliError::usage(format!(
                "{} is not empty; give another --dir, or --resume to go on with an experiment",
                path.display()
            )));
        }
        Folder::locked(path)
    }

    fn existing(path: &Path) -> Result<Folder, CliError> {
        Folder::locked(path.to_path_buf())
    }

    fn locked(path: PathBuf) -> Result<Folder, CliError> {
        let refused = |error: std::io::Error| CliError::usage(format!("{} cannot be opened ({error})", path.display()));
        let lock = File::open(&path).map_err(refused)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Folder { path, _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                Err(CliError::usage(format!("another oltpbench measures into {}; wait for its end", path.display())))
            }
            Err(error) => Err(refused(error.into())),
        }
    }

    fn experiment(&self) -> Result<Experiment, CliError> {
        Experiment::read(&self.path).map_err(|error| CliError::usage(format!("--resume: {error}")))
    }
}

/// An experiment that is being made.
struct Work<'a> {
    asked: &'a Asked<'a>,
    /// By the number of their cell.
    jobs: BTreeMap<u32, Job>,
    grid: Grid,
    /// When repeats beyond those that are planned are made.
    goal: Option<Goal>,
    experiment: Experiment,
    folder: Folder,
}

impl Work<'_> {
    fn file(&self, run: &Run) -> PathBuf {
        self.folder.path.join(&run.file)
    }

    fn save(&self) -> Result<(), CliError> {
        self.experiment.write(&self.folder.path).map_err(|error| self.lost(error))
    }

    /// What cannot be written ends the experiment, since all that follows would be lost too.
    fn lost(&self, ReportError::Write { path, source }: ReportError) -> CliError {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let path = path.display();
        let needed = match source.kind() {
            StorageFull | QuotaExceeded => "make room",
            FileTooLarge => "raise `ulimit -f`",
            _ => "make it writable",
        };
        CliError::Run(format!("{path} cannot be written ({source}); {needed}, then {}", self.how_to_go_on()))
    }

    fn how_to_go_on(&self) -> String {
        format!("give the same command with --resume {} (and without --dir) to go on", self.folder.path.display())
    }

    fn count(&self, state: State) -> usize {
        self.experiment.in_state(state).count()
    }

    /// Takes runs for done whose document is there, though the program was killed before it could note that.
    fn adopt(&mut self) -> Result<(), CliError> {
        for at in 0..self.experiment.runs.len() {
            let run = &self.experiment.runs[at];
            let file = self.file(run);
            if run.state == State::Done || !file.exists() {
                continue;
            }
            let seed = grid::run_seed(self.experiment.design.seed, run.block, run.cell);
            let saved = saved::read(&file).map_err(|error| CliError::usage(format!("--resume: {error}")))?;
            let whole = |report: &RunReport| report.spec.rand_seed == seed && fate(report, false).0 == State::Done;
            if let Some(saved) = saved.into_iter().find(|saved| whole(&saved.report)) {
                let run = &mut self.experiment.runs[at];
                (run.state, run.order) = (State::Done, saved.report.cell.map(|cell| cell.order));
            }
        }
        Ok(())
    }

    /// What is going to be measured, where it goes and how long it takes.
    fn announce(&self) {
        let (grid, blocks) = (&self.grid, self.blocks() as usize);
        let factors = [
            (grid.targets, "target", "targets"),
            (grid.threads.len(), "number of threads", "numbers of threads"),
            (grid.rates.len(), "rate", "rates"),
            (blocks, "repeat", "repeats"),
        ];
        let factors = factors.map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }));
        let runs = self.experiment.runs.len();
        super::show(format_args!("Experiment: {} = {}", factors.join(" x "), counted(runs as u64, "run")));
        match self.count(State::Done) {
            0 => {}
            done => super::show(format_args!("Done before: {done} of {}", counted(runs as u64, "run"))),
        }
        super::show(match (self.time_left(0), self.time_of_more()) {
            (Some(left), Some(Duration::ZERO)) => format!("Time needed: {} and what connecting takes", in_words(left)),
            (Some(left), Some(more)) => {
                format!("Time needed: {} to {} and what connecting takes", in_words(left), in_words(left + more))
            }
            _ => "Time needed: unknown, since a run lasts until its --events are done".into(),
        });
        super::show(format_args!("Reports: {}", self.folder.path.display()));
        if self.jobs.values().any(|job| job.plan.resizes_tables) {
            super::show_error("Note: this workload adds or removes rows for good, so each run finds other tables.");
        }
    }

    fn blocks(&self) -> u32 {
        self.experiment.runs.iter().map(|run| run.block).max().unwrap_or(0)
    }

    /// Windows and warm-ups of the repeats that may be added.
    fn time_of_more(&self) -> Option<Duration> {
        let block: Option<Duration> = self.jobs.values().map(|job| length(&job.spec)).sum();
        let more = self.goal.map_or(0, |goal| goal.most_repeats.saturating_sub(self.blocks()));
        block.map(|block| block * more)
    }

    /// Windows and warm-ups of the runs from a place on that are not done.
    fn time_left(&self, from: usize) -> Option<Duration> {
        let runs = self.experiment.runs[from..].iter().filter(|run| run.state != State::Done);
        runs.map(|run| self.jobs.get(&run.cell).and_then(|job| length(&job.spec))).sum()
    }

    fn measure_all(&mut self, interrupted: &AtomicBool) -> Result<(), CliError> {
        loop {
            self.measure_planned(interrupted)?;
            let Some(goal) = self.goal else { return Ok(()) };
            if interrupted.load(Ordering::Relaxed) || !self.add_repeats(goal)? {
                return Ok(());
            }
        }
    }

    /// Plans more repeats if they are needed, and says what the figures are known to.
    fn add_repeats(&mut self, goal: Goal) -> Result<bool, CliError> {
        let made = self.blocks();
        let widest = match widest(&self.folder.path) {
            Ok(Some(widest)) => widest,
            Ok(None) => return Ok(false),
            Err(error) => {
                super::show_error(format_args!("Note: no repeats are added for --until-precision, since {error}"));
                return Ok(false);
            }
        };
        super::show(format_args!(
            "\nAfter {made} repeats the widest interval is {}; asked for is {}\n    {}",
            widest.width_in_words(),
            goal.width_in_words(),
            widest.figure
        ));
        let Some(next) = goal.next(made, widest.width) else {
            if widest.width > goal.width {
                super::show_error(format_args!("Note: no more repeats are made (--max-repeats {})", goal.most_repeats));
            }
            return Ok(false);
        };
        if let Some(needed) = goal.repeats_needed(made, widest.width) {
            super::show(format_args!(
                "    about {needed} repeats are needed for that; {} are made at most",
                goal.most_repeats
            ));
        }
        let (grid, design) = (&self.grid, &self.experiment.design);
        let added: Vec<Run> = (made + 1..=next).flat_map(|block| block_of(grid, design, block)).collect();
        self.experiment.runs.extend(added);
        self.save()?;
        Ok(true)
    }

    fn measure_planned(&mut self, interrupted: &AtomicBool) -> Result<(), CliError> {
        for at in 0..self.experiment.runs.len() {
            if interrupted.load(Ordering::Relaxed) {
                return Ok(());
            }
            if self.experiment.runs[at].state != State::Done {
                self.measure(at, interrupted)?;
            }
        }
        Ok(())
    }

    fn measure(&mut self, at: usize, interrupted: &AtomicBool) -> Result<(), CliError> {
        let run = &self.experiment.runs[at];
        let left = self.time_left(at).map_or(String::new(), |left| format!("; {} left", in_words(left)));
        let all = self.experiment.runs.len();
        super::show(format_args!("\n[{}/{all}] {}{left}", at + 1, run.words()));
        let order = 1 + self.experiment.runs.iter().filter_map(|run| run.order).max().unwrap_or(0);
        let cell = Cell { target: run.target.clone(), block: run.block, order };
        let seed = grid::run_seed(self.experiment.design.seed, run.block, run.cell);
        let Some(job) = self.jobs.get_mut(&run.cell) else {
            return Err(CliError::usage(format!("the experiment has no cell {}; it was changed by hand", run.cell)));
        };
        job.spec.seed = seed;
        let mut console = self.asked.console();
        match self.asked.measure(job, Some(cell), &mut console, interrupted) {
            Ok(report) => {
                let fate = fate(&report, interrupted.load(Ordering::Relaxed));
                self.keep(at, order, &report, fate, console)
            }
            // Before it began.
            Err(CliError::Interrupted(_)) => Ok(()),
            Err(error) => {
                console.finish();
                self.note(at, order, State::Failed, Some(error.to_string()));
                self.save()
            }
        }
    }

    /// Writes what was measured, and prints it.
    fn keep(
        &mut self,
        at: usize,
        order: u32,
        report: &RunReport,
        (state, error): Fate,
        console: Console,
    ) -> Result<(), CliError> {
        let run = &self.experiment.runs[at];
        let written = match state {
            State::Done => write(&self.file(run), report),
            // Apart, so that nobody takes it for a result.
            _ if report.totals.counts.transactions > 0 => write(&self.folder.path.join(FAILED).join(&run.file), report),
            _ => Ok(()),
        };
        console.finish();
        if state != State::Done || written.is_err() {
            super::show(format_args!("\n{}", text::summary(report, &self.asked.args.percentile)));
        } else {
            super::show(text::headline(report));
        }
        written.map_err(|error| self.lost(error))?;
        self.note(at, order, state, error);
        self.save()
    }

    fn note(&mut self, at: usize, order: u32, state: State, error: Option<String>) {
        let run = &mut self.experiment.runs[at];
        let error = error.map(|error| without_passwords(&printable(&error)));
        if let Some(error) = &error {
            super::show_error(format_args!("{} failed: {error}", run.words()));
        }
        (run.state, run.order, run.error) = (state, Some(order), error);
    }

    /// Prints the table and says how the experiment ended.
    fn end(self) -> Result<ExitCode, CliError> {
        let unreadable = |error: saved::SavedError| CliError::Run(error.to_string());
        let folder = &self.folder.path;
        super::show(format_args!("\n{}", self.experiment.text(folder).map_err(unreadable)?.trim_end()));
        let (all, failed) = (self.experiment.runs.len(), self.count(State::Failed));
        let done = self.count(State::Done);
        if done + failed < all {
            return Err(CliError::Interrupted(format!(
                "interrupted; {done} of {} are done; {}",
                counted(all as u64, "run"),
                self.how_to_go_on()
            )));
        }
        if failed > 0 {
            let again = format!("--resume {} makes them again", folder.display());
            let runs = counted(all as u64, "run");
            return Err(CliError::Run(format!("{failed} of {runs} failed; the same command with {again}")));
        }
        if !self.asked.args.fail_on.is_empty() {
            for saved in saved::read(folder).map_err(unreadable)? {
                self.asked.unwanted(&saved.report).map_or(Ok(()), Err)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn write(path: &Path, report: &RunReport) -> Result<(), ReportError> {
    if let Some(folder) = path.parent() {
        let failed = |source| ReportError::Write { path: path.to_path_buf(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    JsonFile::at(path)?.write(report)
}

/// What a run is to its experiment, and why it failed.
type Fate = (State, Option<String>);

fn fate(report: &RunReport, interrupted: bool) -> Fate {
    match (report.status, report.failure()) {
        (Status::Interrupted, _) => (State::Interrupted, None),
        // What was measured is whole, but nobody would ever audit it.
        (_, Some(_)) if interrupted && report.audit_cut_off() => (State::Interrupted, None),
        (_, None) => (State::Done, None),
        (_, error) => (State::Failed, error),
    }
}

/// How long a run takes at least, where it is known.
fn length(spec: &RunSpec) -> Option<Duration> {
    spec.time.map(|time| spec.warmup_time + time)
}

fn in_words(time: Duration) -> String {
    humantime::format_duration(Duration::from_secs(time.as_secs_f64().ceil() as u64)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Validation, example};

    #[test]
    fn a_run_whose_audit_was_cut_off_is_made_again() {
        let mut report = example::report();
        assert_eq!(fate(&report, true), (State::Done, None), "it was whole when the user interrupted");
        report.validation = Some(Validation {
            reads: 1,
            rows: 1,
            unchecked_statements: Vec::new(),
            audited_tables: 0,
            audited_rows: 0,
            unaudited: Some("the run was interrupted".into()),
            audit_cut_off: true,
            differences: 0,
            first_differences: Vec::new(),
        });
        let (state, error) = fate(&report, false);
        assert!(state == State::Failed && error.unwrap().contains("the audit of --validate was cut off"));
        assert_eq!(fate(&report, true), (State::Interrupted, None));
    }
}
