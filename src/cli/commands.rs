//! What each command does: it makes a target and a plan, hands them to the engine, and prints what comes back.
//!
//! May import everything; clap's types go no further than here.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{ArgMatches, FromArgMatches};

use super::choice::Choice;
use super::options::{
    CONNECT_CONCURRENCY, DATA_SEED, GridArgs, LONGEST_OUTAGE, LoadArgs, PsMode, RandomArgs, RunArgs, new_seed,
};
use super::progress::Console;
use super::target::{DEFAULT_SQLITE, NamedUrl, TargetArgs};
use super::{CliError, experiment};
use crate::engine::run::Ending;
use crate::engine::validate::{Prepared, Validator};
use crate::engine::{check, load, run as measure};
use crate::metrics::Measurement;
use crate::report::check::{CheckReport, Checked};
use crate::report::figures::counted;
use crate::report::text::{self, printable};
use crate::report::{self, Cell, Finding, JsonFile, RunReport, Setup, Status};
use crate::spec::{IgnoredErrors, MySqlAddress, OpenLoop, Protocol, RunSpec, TargetAddress, without_literals};
use crate::target::check::{Check, Demand};
use crate::target::mysql::{self, MySqlTarget};
use crate::target::simulated::SimulatedTarget;
use crate::target::sqlite::SqliteTarget;
use crate::target::{Database, Facts, Target};
use crate::workload::plan::Plan;
use crate::workload::{RandomSettings, Settings, Workload};

fn parse<A: FromArgMatches>(matches: &ArgMatches) -> Result<A, CliError> {
    A::from_arg_matches(matches).map_err(CliError::Clap)
}

/// The target's address, announced when nobody chose it.
fn address(matches: &ArgMatches, statement_timeout: Option<Duration>) -> Result<TargetAddress, CliError> {
    let (address, by_default) = parse::<TargetArgs>(matches)?.address(statement_timeout)?;
    if by_default {
        super::show(format_args!(
            "No --url given: using the embedded SQLite file {DEFAULT_SQLITE}; its figures say nothing of a server."
        ));
    }
    Ok(address)
}

fn compile(choice: &Choice, matches: &ArgMatches, threads: u32) -> Result<Arc<Plan>, CliError> {
    let settings = choice.settings(matches, threads)?;
    let plan = choice.workload.compile(&settings).map_err(|error| CliError::usage(error.to_string()))?;
    Ok(Arc::new(plan))
}

/// The database behind an address, for the commands that make, read or drop tables.
fn database(address: &TargetAddress, plan: &Arc<Plan>, create: bool) -> Result<Box<dyn Database>, CliError> {
    let plan = Arc::clone(plan);
    match address {
        TargetAddress::MySql(mysql) => Ok(Box::new(mysql_target(mysql, plan, Protocol::Text)?)),
        TargetAddress::Sqlite(path) => Ok(Box::new(SqliteTarget::new(path.clone(), plan, Protocol::Text, create))),
        TargetAddress::Simulated(_) => Err(CliError::usage(
            "a simulated: target has no tables; `oltpbench run` measures it without preparing anything",
        )),
    }
}

fn mysql_target(address: &MySqlAddress, plan: Arc<Plan>, protocol: Protocol) -> Result<MySqlTarget, CliError> {
    MySqlTarget::new(address.clone(), plan, protocol).map_err(|error| CliError::usage(error.to_string()))
}

pub(super) fn prepare(choice: &Choice, matches: &ArgMatches, interrupted: &AtomicBool) -> Result<ExitCode, CliError> {
    let address = address(matches, None)?;
    let (args, random) = (parse::<LoadArgs>(matches)?, parse::<RandomArgs>(matches)?);
    let plan = compile(choice, matches, args.threads)?;
    let seed = random.seed().unwrap_or(DATA_SEED);
    let database = database(&address, &plan, true)?;
    load_tables(database.as_ref(), &plan, args.threads, seed, &address.redacted(), interrupted)?;
    Ok(ExitCode::SUCCESS)
}

fn load_tables(
    database: &dyn Database,
    plan: &Plan,
    threads: u32,
    seed: u64,
    place: &str,
    interrupted: &AtomicBool,
) -> Result<(), CliError> {
    let started = Instant::now();
    let mut console = Console::new(None);
    let loaded = load::prepare(database, plan, threads, seed, &mut console, interrupted)?;
    let seconds = started.elapsed().as_secs_f64();
    let rows = match loaded.rows {
        0 => format!("no rows, in {seconds:.1} s"),
        rows => {
            let (counted, by) = (counted(rows, "row"), loaded.bulk.name());
            format!("{counted} by {by} in {seconds:.1} s ({:.0} rows/s)", rows as f64 / seconds.max(1e-3))
        }
    };
    let tables = counted(loaded.tables, "table");
    super::show(format_args!("Prepared {tables} in {place}: {rows}; row counts and ids are verified"));
    Ok(())
}

pub(super) fn prewarm(choice: &Choice, matches: &ArgMatches, interrupted: &AtomicBool) -> Result<ExitCode, CliError> {
    let address = address(matches, None)?;
    let args = parse::<LoadArgs>(matches)?;
    let plan = compile(choice, matches, args.threads)?;
    let started = Instant::now();
    let database = database(&address, &plan, false)?;
    let mut console = Console::new(None);
    let tables = load::prewarm(database.as_ref(), &plan, args.threads, &mut console, interrupted)?;
    super::show(format_args!(
        "Read {} with all indexes in {:.1} s",
        counted(tables, "table"),
        started.elapsed().as_secs_f64()
    ));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn cleanup(choice: &Choice, matches: &ArgMatches, interrupted: &AtomicBool) -> Result<ExitCode, CliError> {
    let address = address(matches, None)?;
    let args = parse::<LoadArgs>(matches)?;
    let plan = compile(choice, matches, args.threads)?;
    let database = database(&address, &plan, false)?;
    let mut console = Console::new(None);
    let dropped = load::cleanup(database.as_ref(), &plan, args.threads, &mut console, interrupted)?;
    let place = address.redacted();
    match dropped {
        0 => super::show(format_args!("Dropped 0 tables: {place} has none of this workload's that this user may see")),
        _ => super::show(format_args!("Dropped {} of {place}", counted(dropped, "table"))),
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn run(choice: &Choice, matches: &ArgMatches, interrupted: &AtomicBool) -> Result<ExitCode, CliError> {
    let (args, grid) = (parse::<RunArgs>(matches)?, parse::<GridArgs>(matches)?);
    let random = parse::<RandomArgs>(matches)?;
    let asked = Asked { choice, matches, name: grid.name.clone(), tags: grid.tags()?, args, random };
    if grid.is_experiment(&asked.args) {
        return experiment::run(&asked, &grid, interrupted);
    }
    let address = address(matches, asked.args.statement_timeout)?;
    let (threads, rate) = (asked.args.most_threads(), asked.args.rate.first().copied().unwrap_or_default());
    let job = asked.job(address, threads, rate, asked.random.seed().unwrap_or_else(new_seed))?;
    let json = asked.args.json.as_deref().map(JsonFile::at).transpose()?;
    let mut console = asked.console();
    let report = asked.measure(&job, None, &mut console, interrupted)?;
    // The file first, since a reader of standard output may be slow or gone; but the text appears whatever happens to it.
    // A pipe last, since its reader may never come.
    let (pipe, file) =
        json.map_or((None, None), |json| if json.is_pipe() { (Some(json), None) } else { (None, Some(json)) });
    let written = file.map_or(Ok(()), |json| json.write(&report));
    console.finish();
    super::show(format_args!("\n{}", text::summary(&report, &asked.args.percentile)));
    if asked.args.json.is_none() && super::READER_GONE.load(Ordering::Relaxed) {
        return Err(CliError::Run(
            "the reader of standard output went away before the report; --json FILE keeps it".into(),
        ));
    }
    written?;
    pipe.map_or(Ok(()), |json| json.write(&report))?;
    let code = exit_code(&report, interrupted)?;
    match asked.unwanted(&report).filter(|_| code == ExitCode::SUCCESS) {
        Some(finding) => Err(finding),
        None => Ok(code),
    }
}

fn refuse_validation(args: &RunArgs, address: &TargetAddress) -> Result<(), CliError> {
    if args.validate.0.is_some() && matches!(address, TargetAddress::Simulated(_)) {
        return Err(CliError::usage("--validate needs a database; a simulated: target has no rows"));
    }
    Ok(())
}

/// How the tables of a run that validates may have been prepared: with its own settings of random numbers, or with none.
fn prepared(
    choice: &Choice,
    matches: &ArgMatches,
    plan: &Arc<Plan>,
    threads: u32,
    seed: u64,
) -> Result<Prepared, CliError> {
    let settings = Settings { random: RandomSettings::default(), ..choice.settings(matches, threads)? };
    let without = choice.workload.compile(&settings).map_err(|error| CliError::usage(error.to_string()))?;
    Ok(Prepared { seed, plans: vec![Arc::clone(plan), Arc::new(without)] })
}

/// A command line that asks for one run, or for those of an experiment.
pub(super) struct Asked<'a> {
    pub(super) choice: &'a Choice,
    pub(super) matches: &'a ArgMatches,
    pub(super) args: RunArgs,
    pub(super) random: RandomArgs,
    pub(super) name: Option<String>,
    pub(super) tags: BTreeMap<String, String>,
}

impl Asked<'_> {
    pub(super) fn job(&self, address: TargetAddress, threads: u32, rate: f64, seed: u64) -> Result<Job, CliError> {
        let plan = compile(self.choice, self.matches, threads)?;
        let spec = self.args.spec(threads, rate, seed, self.matches)?;
        let prepared = |seed| prepared(self.choice, self.matches, &plan, threads, seed);
        refuse_validation(&self.args, &address)?;
        let prepared = self.args.validate.0.map(prepared).transpose()?;
        Ok(Job { address, plan, spec, wanted: self.args.db_ps_mode, prepared })
    }

    /// The target's address, for those who gave it no name.
    pub(super) fn address(&self) -> Result<TargetAddress, CliError> {
        address(self.matches, self.args.statement_timeout)
    }

    pub(super) fn addresses(&self, targets: &[NamedUrl]) -> Result<Vec<TargetAddress>, CliError> {
        parse::<TargetArgs>(self.matches)?.addresses(targets, self.args.statement_timeout)
    }

    /// What a person sees of one run.
    pub(super) fn console(&self) -> Console {
        Console::new(self.args.prints_intervals().then(|| self.args.interval_percentile()))
    }

    pub(super) fn described(&self, job: &Job, protocol: Protocol) -> report::Spec {
        report::Spec {
            profile: self.choice.reported_profile(self.matches, &job.spec),
            rand_type: self.random.type_name(),
            options: self.choice.reported_options(self.matches),
            ..described(&self.choice.workload, &job.spec, protocol, &self.random.settings())
        }
    }

    /// Makes one run; `cell` is its place in an experiment.
    pub(super) fn measure(
        &self,
        job: &Job,
        cell: Option<Cell>,
        console: &mut Console,
        interrupted: &AtomicBool,
    ) -> Result<RunReport, CliError> {
        let outcome = job.measure(console, interrupted)?;
        let spec = self.described(job, outcome.protocol);
        let (name, tags) = (self.name.clone(), self.tags.clone());
        Ok(outcome.report(&job.address, |target| Setup { name, tags, cell, ..Setup::new(spec, target) }))
    }

    /// What --fail-on says to a run's findings.
    pub(super) fn unwanted(&self, report: &RunReport) -> Option<CliError> {
        let finding = report.findings.iter().find(|finding| self.args.fail_on.contains(&finding.code))?;
        Some(CliError::Unwanted(format!("{} (--fail-on {})", finding.message, finding.code)))
    }
}

/// Says what would go wrong with a run of these options.
pub(super) fn check(choice: &Choice, matches: &ArgMatches, interrupted: &AtomicBool) -> Result<ExitCode, CliError> {
    let args = parse::<RunArgs>(matches)?;
    // Of an experiment's runs the largest asks for the most.
    let threads = args.most_threads();
    // Only for what it refuses.
    for &rate in &args.rate {
        args.spec(threads, rate, DATA_SEED, matches)?;
    }
    let address = address(matches, args.statement_timeout)?;
    refuse_validation(&args, &address)?;
    let plan = compile(choice, matches, threads)?;
    let json = args.json.as_deref().map(super::file_beside_runs).transpose()?;
    let demand = Demand { plan: &plan, threads, protocol: wanted_protocol(args.db_ps_mode, &plan) };
    let shared = || Arc::clone(&plan);
    let (facts, checks) = match &address {
        TargetAddress::Simulated(_) => (simulated_facts(), Vec::new()),
        TargetAddress::Sqlite(path) => {
            let target = SqliteTarget::new(path.clone(), shared(), demand.protocol, false);
            check::examine(&target, &address, &demand, interrupted)?
        }
        TargetAddress::MySql(mysql) => {
            let target = mysql_target(mysql, shared(), demand.protocol)?;
            check::examine(&target, &address, &demand, interrupted)?
        }
    };
    let checked = |check: Check| Checked { level: check.level.name().into(), finding: finding(check) };
    let report = CheckReport {
        schema_version: report::SCHEMA_VERSION,
        oltpbench_version: env!("CARGO_PKG_VERSION").into(),
        workload: choice.workload.name().into(),
        threads,
        protocol: fitting_protocol(&facts, &demand).0.name().into(),
        target: reported_target(&address, facts),
        checks: checks.into_iter().map(checked).collect(),
    };
    super::show(report.text());
    json.map_or(Ok(()), |json| json.write(&report))?;
    Ok(if report.is_fatal() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

pub(super) fn reported_target(address: &TargetAddress, facts: Facts) -> report::Target {
    let mysql = match address {
        TargetAddress::MySql(mysql) => Some(mysql),
        TargetAddress::Sqlite(_) | TargetAddress::Simulated(_) => None,
    };
    report::Target {
        url: address.redacted(),
        version: facts.version,
        variables: facts.variables.into_iter().collect(),
        password_command: mysql.is_some_and(|mysql| mysql.password_command.is_some()),
        compression: mysql.and_then(|mysql| mysql.compression).map(|algorithm| algorithm.name().into()),
        init_sql: mysql.map_or_else(Vec::new, |mysql| mysql.init_sql.iter().map(|sql| without_literals(sql)).collect()),
        statement_timeout_s: mysql.and_then(|mysql| mysql.statement_timeout).map(|timeout| timeout.as_secs_f64()),
    }
}

/// What the report says of a run with no profile and no options given.
fn described(workload: &Workload, spec: &RunSpec, protocol: Protocol, random: &RandomSettings) -> report::Spec {
    report::Spec {
        workload: workload.name().to_string(),
        workload_sha256: Some(workload.sha256().to_string()),
        profile: None,
        threads: spec.threads,
        time_s: spec.time.map(|time| time.as_secs_f64()),
        events: spec.events,
        open_loop: spec.open_loop.as_ref().map(described_open_loop),
        warmup_time_s: spec.warmup_time.as_secs_f64(),
        interval_s: spec.interval.as_secs_f64(),
        detail: spec.detail,
        protocol: protocol.name().to_string(),
        rand_type: "uniform".to_string(),
        rand_parameters: report::RandParameters {
            spec_iter: random.spec_iter,
            spec_pct: random.spec_pct,
            spec_res: random.spec_res,
            pareto_h: random.pareto_h,
            zipfian_exp: random.zipfian_exp,
            zipfian_scramble: random.zipfian_scramble,
        },
        rand_seed: spec.seed,
        max_retries: spec.max_retries,
        ignore_errors: spec.ignored_errors.to_string(),
        max_error_rate: spec.max_error_rate,
        forced_shutdown_s: spec.forced_shutdown.as_secs_f64(),
        options: Vec::new(),
    }
}

fn described_open_loop(open_loop: &OpenLoop) -> report::AskedOpenLoop {
    let steps = open_loop.steps.iter().map(|step| report::Step { start_s: step.start.as_secs_f64(), rate: step.rate });
    report::AskedOpenLoop {
        arrival: open_loop.arrival.name().into(),
        steps: steps.collect(),
        overload: if open_loop.max_lateness.is_some() { "shed" } else { "queue" }.into(),
        max_lateness_s: open_loop.max_lateness.map(|lateness| lateness.as_secs_f64()),
    }
}

/// A run that was stopped, or in which too much failed, is no success even though it has a report.
fn exit_code(report: &RunReport, interrupted: &AtomicBool) -> Result<ExitCode, CliError> {
    // It may also have been interrupted when all was measured, in what --validate does then.
    match (report.status, report.failure(), interrupted.load(Ordering::Relaxed)) {
        (Status::Interrupted, ..) | (_, None, true) => Ok(ExitCode::from(130)),
        (_, Some(failure), true) => Err(CliError::Interrupted(failure)),
        (_, Some(failure), false) => Err(CliError::Run(failure)),
        (_, None, false) => Ok(ExitCode::SUCCESS),
    }
}

/// A measurement to be made.
pub(super) struct Job {
    pub(super) address: TargetAddress,
    pub(super) plan: Arc<Plan>,
    pub(super) spec: RunSpec,
    wanted: PsMode,
    /// How the tables were prepared, for a run that validates.
    prepared: Option<Prepared>,
}

/// What is known before a measurement begins.
struct Ready<'a> {
    facts: Facts,
    protocol: Protocol,
    findings: Vec<Finding>,
    /// Where the server's own counters are read.
    server: Option<&'a dyn Database>,
    /// Where the tables are.
    tables: Option<&'a dyn Database>,
}

impl Ready<'_> {
    /// Of a target that keeps no counters.
    fn plain(facts: Facts, protocol: Protocol) -> Ready<'static> {
        Ready { facts, protocol, findings: Vec::new(), server: None, tables: None }
    }
}

/// What came of it.
struct Outcome {
    measurement: Measurement,
    ending: Ending,
    facts: Facts,
    protocol: Protocol,
    findings: Vec<Finding>,
}

impl Job {
    fn demand(&self) -> Demand<'_> {
        let protocol = wanted_protocol(self.wanted, &self.plan);
        Demand { plan: &self.plan, threads: self.spec.threads, protocol }
    }

    /// How statements are to be sent, if the server can hold what that takes.
    pub(super) fn wanted_protocol(&self) -> Protocol {
        self.demand().protocol
    }

    /// Refuses what `measure` would refuse, before it would connect.
    pub(super) fn admit(&self, interrupted: &AtomicBool) -> Result<Facts, CliError> {
        let (demand, plan) = (self.demand(), || Arc::clone(&self.plan));
        match &self.address {
            TargetAddress::Simulated(_) => Ok(simulated_facts()),
            TargetAddress::Sqlite(path) => {
                let target = SqliteTarget::new(path.clone(), plan(), demand.protocol, false);
                Ok(check::admit_early(&target, &self.address, &demand, interrupted)?)
            }
            TargetAddress::MySql(mysql) => {
                let target = mysql_target(mysql, plan(), demand.protocol)?;
                Ok(check::admit_early(&target, &self.address, &demand, interrupted)?)
            }
        }
    }

    fn measure(&self, console: &mut Console, interrupted: &AtomicBool) -> Result<Outcome, CliError> {
        let demand = self.demand();
        let wanted = demand.protocol;
        let plan = || Arc::clone(&self.plan);
        match &self.address {
            TargetAddress::Simulated(simulation) => {
                let (target, facts) = (SimulatedTarget::new(simulation.clone()), simulated_facts());
                self.measure_on(target, Ready::plain(facts, wanted), console, interrupted)
            }
            TargetAddress::Sqlite(path) => {
                let target = SqliteTarget::new(path.clone(), plan(), wanted, false);
                let facts = check::admit(&target, &self.address, &demand, interrupted)?;
                let tables = SqliteTarget::new(path.clone(), plan(), wanted, false);
                let ready = Ready { tables: Some(&tables), ..Ready::plain(facts, wanted) };
                self.measure_on(target, ready, console, interrupted)
            }
            TargetAddress::MySql(mysql) => {
                let database = mysql_target(mysql, plan(), wanted)?;
                let facts = check::admit(&database, &self.address, &demand, interrupted)?;
                let (protocol, mut findings) = fitting_protocol(&facts, &demand);
                findings.extend(mysql::check::not_encrypted(&facts, mysql.ssl_mode).map(finding));
                let target = database.sending_by(protocol);
                let ready = Ready { facts, protocol, findings, server: Some(&database), tables: Some(&database) };
                self.measure_on(target, ready, console, interrupted)
            }
        }
    }

    fn measure_on<T: Target>(
        &self,
        target: T,
        ready: Ready<'_>,
        console: &mut Console,
        interrupted: &AtomicBool,
    ) -> Result<Outcome, CliError> {
        let Ready { facts, protocol, findings, server, tables } = ready;
        for finding in &findings {
            super::show_error(printable(&format!("{}; {}", finding.message, finding.advice)));
        }
        let validated = self.prepared.as_ref().zip(tables);
        let validator = validated.map(|(prepared, tables)| Validator::new(tables, &self.plan, prepared, interrupted));
        let validator = validator.transpose()?.map(Arc::new);
        let plan = Arc::clone(&self.plan);
        let (mut measurement, ending) =
            measure::run(target, plan, &self.spec, server, validator.as_ref(), console, interrupted)?;
        if let Some((validator, tables)) = validator.zip(tables) {
            let unfinished = measurement.unfinished;
            measurement.validation = Some(validator.finish(tables, &self.plan, unfinished, console, interrupted));
        }
        Ok(Outcome { measurement, ending, facts, protocol, findings })
    }
}

/// How statements are to be sent; some workloads send all of theirs as text.
fn wanted_protocol(mode: PsMode, plan: &Plan) -> Protocol {
    let prepares = plan.statements.iter().any(|statement| statement.prepared);
    match mode {
        PsMode::Auto if prepares => Protocol::Prepared,
        _ => Protocol::Text,
    }
}

/// Prepared statements if the server can hold all that the run may need, text otherwise.
fn fitting_protocol(facts: &Facts, demand: &Demand<'_>) -> (Protocol, Vec<Finding>) {
    match mysql::check::prepared_replaced(facts, demand) {
        Some(check) => (Protocol::Text, vec![finding(check)]),
        None => (demand.protocol, Vec::new()),
    }
}

fn finding(check: Check) -> Finding {
    Finding::new(check.code, check.message, check.advice)
}

fn simulated_facts() -> Facts {
    Facts { version: "simulated".into(), ..Facts::default() }
}

impl Outcome {
    /// `setup` is made for the target as it was found.
    fn report(self, address: &TargetAddress, setup: impl FnOnce(report::Target) -> Setup) -> RunReport {
        let setup = setup(reported_target(address, self.facts));
        let status = match self.ending {
            Ending::Completed => Status::Completed,
            Ending::Interrupted => Status::Interrupted,
            Ending::TooManyErrors => Status::TooManyErrors,
            Ending::ServerLost => Status::ServerLost,
        };
        RunReport::new(Setup { findings: self.findings, ..setup }, &self.measurement, status)
    }
}

pub(super) fn workloads(matches: &ArgMatches) -> Result<ExitCode, CliError> {
    match matches.subcommand() {
        Some(("show", matches)) => {
            let name = matches.get_one::<String>("name").map(String::as_str).unwrap_or_default();
            match Workload::builtin_source(name) {
                Some(source) => super::show(source.trim_end()),
                None => {
                    // Loading gives the message that names the nearest workload.
                    let error = Workload::load(name).err().map(|error| error.to_string());
                    let error = error.unwrap_or_else(|| format!("{name} is a file, not a built-in workload"));
                    return Err(CliError::usage(error));
                }
            }
        }
        _ => {
            for name in Workload::builtin_names() {
                let workload = Workload::load(name).map_err(|error| CliError::Run(error.to_string()))?;
                super::show(format_args!("{name:<24} {}", workload.description()));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

const DEMO_TABLES: i64 = 4;
const DEMO_TABLE_SIZE: i64 = 10_000;
const DEMO_THREADS: u32 = 4;
const DEMO_TIME: Duration = Duration::from_secs(4);

/// Prepares a small database in a temporary folder, measures read-only and read-write, and says what to type next.
pub(super) fn demo(interrupted: &AtomicBool) -> Result<ExitCode, CliError> {
    super::show(format_args!("A demonstration on embedded SQLite; its figures say nothing of a server.\n"));
    let folder = tempfile::tempdir()
        .map_err(|error| CliError::Run(format!("no temporary folder could be made: {error}; set TMPDIR to one")))?;
    let path = folder.path().join("demo.sqlite");
    let address = TargetAddress::Sqlite(path);
    for (position, name) in ["oltp_read_only", "oltp_read_write"].into_iter().enumerate() {
        let workload = Workload::load(name).map_err(|error| CliError::Run(error.to_string()))?;
        let plan = Arc::new(demo_plan(&workload)?);
        if position == 0 {
            let database = database(&address, &plan, true)?;
            load_tables(database.as_ref(), &plan, DEMO_THREADS, DATA_SEED, "a temporary SQLite file", interrupted)?;
        }
        super::show(format_args!("\n== {name}: {DEMO_THREADS} threads for {} s\n", DEMO_TIME.as_secs()));
        let report = demo_run(&workload, plan, &address, interrupted)?;
        super::show(format_args!("\n{}", text::summary(&report, &text::PERCENTILES)));
        let code = exit_code(&report, interrupted)?;
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
    }
    super::show(NEXT);
    Ok(ExitCode::SUCCESS)
}

const NEXT: &str = "== Next, with a server of yours (an empty database and a user that may write to it):

    export OLTPBENCH_URL=mysql://USER@HOST:3306/DATABASE OLTPBENCH_PASSWORD=...
    oltpbench prepare
    oltpbench run --mode read-only --threads 100 --time 60 --report-interval 10
    oltpbench run --mode read-write --threads 100 --time 60 --json run.json
    oltpbench cleanup";

fn demo_plan(workload: &Workload) -> Result<Plan, CliError> {
    use crate::workload::OptionValue::Int;
    let options = [("tables".to_string(), Int(DEMO_TABLES)), ("table_size".to_string(), Int(DEMO_TABLE_SIZE))].into();
    let settings = Settings { options, threads: DEMO_THREADS, random: RandomSettings::default() };
    workload.compile(&settings).map_err(|error| CliError::Run(error.to_string()))
}

fn demo_run(
    workload: &Workload,
    plan: Arc<Plan>,
    address: &TargetAddress,
    interrupted: &AtomicBool,
) -> Result<RunReport, CliError> {
    let spec = RunSpec {
        threads: DEMO_THREADS,
        time: Some(DEMO_TIME),
        events: None,
        open_loop: None,
        warmup_time: Duration::ZERO,
        interval: Duration::from_secs(1),
        server_interval: None,
        detail: true,
        seed: new_seed(),
        max_retries: 10,
        connect_concurrency: CONNECT_CONCURRENCY,
        ignored_errors: IgnoredErrors::These(Vec::new()),
        max_error_rate: 0.01,
        forced_shutdown: Duration::from_secs(10),
        longest_outage: LONGEST_OUTAGE,
    };
    let job = Job { address: address.clone(), plan, spec, wanted: PsMode::Auto, prepared: None };
    let outcome = job.measure(&mut Console::new(Some(95.0)), interrupted)?;
    let described = described(workload, &job.spec, outcome.protocol, &RandomSettings::default());
    Ok(outcome.report(address, |target| Setup::new(described, target)))
}
