//! The options of a run, an experiment and a load by clap's derive, and what they become. Names are sysbench 1.0's where it
//! has one. Those of a target are in `target`, those of a workload in `choice`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueEnum};

use super::choice::mode_help;
use super::target::{NamedUrl, parse_named_url};
use super::{CliError, without_passwords};
use crate::compare::precision::Goal;
use crate::report::findings::CODES;
use crate::spec::{Arrival, IgnoredErrors, OpenLoop, RunSpec, Step};
use crate::workload::{RandomKind, RandomSettings};

/// Numbers below this are exact in every reader of JSON, many of which know only floating point.
const EXACT: u64 = 1 << 53;

/// The seed of a prepare that is given none: the same data each time.
pub(super) const DATA_SEED: u64 = 0;

/// A seed for a run that is given none.
pub(super) fn new_seed() -> u64 {
    rand::random_range(1..EXACT)
}

/// Reports are shown to others, and a name may be the URL of what it is the name of.
fn parse_name(text: &str) -> Result<String, Infallible> {
    Ok(without_passwords(text))
}

fn parse_tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), without_passwords(value))),
        _ => Err("a tag is KEY=VALUE, such as region=europe-west1".into()),
    }
}

/// Repeats with --until-precision where --repeat does not say how many are made at least. With so many the intervals of
/// experiments that end by themselves hold what they should; docs/experiments.md has the figures.
const LEAST_REPEATS: u32 = 10;
/// With fewer, intervals are small by chance too often.
const FEWEST_REPEATS: u32 = 4;
/// Repeats with --until-precision at most, unless --max-repeats is given.
const MOST_REPEATS: u32 = 30;

/// How many repeats an experiment has.
#[derive(Clone, Copy)]
pub(super) struct Repeats {
    /// By --repeat.
    pub(super) asked: Option<u32>,
    pub(super) least: u32,
    /// When those beyond are made.
    pub(super) goal: Option<Goal>,
}

#[derive(Args, Clone)]
#[command(next_help_heading = "Experiment")]
pub(super) struct GridArgs {
    /// A target and its name, such as direct=mysql://10.0.0.5/sbtest, in place of --url; may be given several times
    #[arg(long, value_name = "NAME=URL", value_parser = parse_named_url, conflicts_with_all = ["url", "host", "port", "user", "database", "socket"])]
    pub(super) target: Vec<NamedUrl>,
    /// How often each combination of target, threads and rate is measured; repeats have different orders
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    pub(super) repeat: Option<u32>,
    /// Go on after --repeat [then 10 by default] until each target's figure is known to so much, such as 2%
    #[arg(long, value_parser = parse_precision, value_name = "PERCENT")]
    until_precision: Option<f64>,
    /// How many repeats --until-precision makes at most [default: 30]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N", requires = "until_precision")]
    max_repeats: Option<u32>,
    /// New folder for the experiment's reports [default: named after the time]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Go on with the experiment in DIR, which the same command began
    #[arg(long, value_name = "DIR", conflicts_with = "dir")]
    pub(super) resume: Option<PathBuf>,
    /// Name of the run or experiment, for reports
    #[arg(long, value_name = "TEXT", value_parser = parse_name)]
    pub(super) name: Option<String>,
    /// Something to tell runs apart by, such as region=europe-west1, for reports; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_tag)]
    tag: Vec<(String, String)>,
}

impl GridArgs {
    /// Whether this is an experiment in place of a run by itself.
    pub(super) fn is_experiment(&self, args: &RunArgs) -> bool {
        let several = args.threads.len() > 1 || args.rate.len() > 1 || !self.target.is_empty();
        let repeated = self.repeat.is_some() || self.until_precision.is_some();
        several || repeated || self.dir.is_some() || self.resume.is_some()
    }

    pub(super) fn repeats(&self) -> Result<Repeats, CliError> {
        let Some(width) = self.until_precision else {
            return Ok(Repeats { asked: self.repeat, least: self.repeat.unwrap_or(1), goal: None });
        };
        let least = self.repeat.unwrap_or(LEAST_REPEATS);
        if least < FEWEST_REPEATS {
            return Err(CliError::usage(format!(
                "--until-precision needs --repeat {FEWEST_REPEATS} or more, since an interval of fewer is small by chance"
            )));
        }
        let most_repeats = self.max_repeats.unwrap_or(least.max(MOST_REPEATS));
        if most_repeats < least {
            return Err(CliError::usage(format!(
                "--max-repeats {most_repeats} is less than the {least} repeats that are made at least (--repeat)"
            )));
        }
        Ok(Repeats { asked: self.repeat, least, goal: Some(Goal { width, most_repeats }) })
    }

    pub(super) fn tags(&self) -> Result<BTreeMap<String, String>, CliError> {
        let tags: BTreeMap<String, String> = self.tag.iter().cloned().collect();
        match tags.len() == self.tag.len() {
            true => Ok(tags),
            false => Err(CliError::usage("--tag has a key more than once; give each once")),
        }
    }
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Workload")]
pub(super) struct WorkloadArgs {
    // What it says is in `mode_help`.
    #[arg(long, value_name = "MODE", conflicts_with = "workload", help = mode_help())]
    mode: Option<String>,
    /// A workload's name (see `oltpbench workloads list`) or its YAML file
    #[arg(long, value_name = "NAME|FILE")]
    workload: Option<String>,
    /// Repeat a published experiment, whose options then are the defaults: --help beside it shows them [possible values:
    /// aurora-whitepaper]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Random numbers")]
pub(super) struct RandomArgs {
    /// Distribution of the ids
    #[arg(long, value_enum, default_value = "uniform", value_name = "TYPE")]
    rand_type: RandType,
    /// Seed of everything random, below 2^53; 0 takes a new one for each run, and the same one for each prepare
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..EXACT), value_name = "N")]
    rand_seed: u64,
    /// gaussian and special: number of uniform draws that are averaged
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    rand_spec_iter: u32,
    /// special: size of the hot window, in percent of the table
    #[arg(long, default_value_t = 1, value_name = "PERCENT")]
    rand_spec_pct: u32,
    /// special: percentage of draws that fall into the hot window
    #[arg(long, default_value_t = 75, value_name = "PERCENT")]
    rand_spec_res: u32,
    /// pareto: shape
    #[arg(long, default_value_t = 0.2, value_name = "H")]
    rand_pareto_h: f64,
    /// zipfian: exponent
    #[arg(long, default_value_t = 0.8, value_name = "S")]
    rand_zipfian_exp: f64,
    /// zipfian: spread the hottest ids over the table (on) or keep them at its start, as sysbench does (off)
    #[arg(long, value_enum, default_value = "on", value_name = "on|off")]
    rand_zipfian_scramble: Switch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RandType {
    Uniform,
    Gaussian,
    Special,
    Pareto,
    Zipfian,
}

impl RandType {
    fn kind(self) -> RandomKind {
        match self {
            RandType::Uniform => RandomKind::Uniform,
            RandType::Gaussian => RandomKind::Gaussian,
            RandType::Special => RandomKind::Special,
            RandType::Pareto => RandomKind::Pareto,
            RandType::Zipfian => RandomKind::Zipfian,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl RandomArgs {
    /// The seed, if one was given.
    pub(super) fn seed(&self) -> Option<u64> {
        Some(self.rand_seed).filter(|&seed| seed != 0)
    }

    pub(super) fn settings(&self) -> RandomSettings {
        RandomSettings {
            kind: self.rand_type.kind(),
            spec_iter: self.rand_spec_iter,
            spec_pct: self.rand_spec_pct,
            spec_res: self.rand_spec_res,
            pareto_h: self.rand_pareto_h,
            zipfian_exp: self.rand_zipfian_exp,
            zipfian_scramble: self.rand_zipfian_scramble == Switch::On,
        }
    }

    /// The distribution's name, as on the command line.
    pub(super) fn type_name(&self) -> String {
        self.rand_type.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PsMode {
    /// Prepared statements, where the server can hold as many as are needed
    Auto,
    /// Text
    Disable,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Run")]
pub(super) struct RunArgs {
    /// Number of connections, each with a thread of its own; several, such as 1,8,64, are runs of an experiment
    #[arg(long, default_value = "1", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "N,...")]
    pub(super) threads: Vec<u32>,
    /// Number of connections that are being opened at any moment before the run
    #[arg(long, default_value_t = CONNECT_CONCURRENCY, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    connect_concurrency: u32,
    /// Length of the measurement in seconds; 0 is no limit
    #[arg(long, default_value = "10", value_parser = parse_seconds, value_name = "SECONDS")]
    time: Duration,
    /// Number of transactions after which the run ends; 0 is no limit. Those in flight at the end of a warm-up come on top
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..EXACT), value_name = "N")]
    events: u64,
    /// Open loop: transactions a second, such as 1000 or 0.5, which are due whether the server keeps up or not; 0 is the
    /// closed loop, in which each connection begins its next transaction when the last one ended. Several are runs of an
    /// experiment
    #[arg(long, default_value = "0", value_delimiter = ',', value_parser = parse_rate, value_name = "N,...")]
    pub(super) rate: Vec<f64>,
    /// Open loop of several rates, one after another, such as 1000:30s,2000:30s; also sets --time
    #[arg(long, value_parser = parse_rate_step, value_delimiter = ',', value_name = "RATE:TIME,...")]
    rate_steps: Vec<(f64, Duration)>,
    /// Open loop: transactions are due at random, as sysbench's are, or at equal distances [default: poisson]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "poisson|constant")]
    arrival: Option<ArrivalName>,
    /// Open loop: begin transactions that are due while all connections are busy as soon as one is free, or skip those
    /// that are later than --max-lateness [default: queue]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "queue|shed")]
    overload: Option<Overload>,
    /// How late a transaction may begin before it is skipped, such as 100ms or 0.1
    #[arg(long, value_parser = parse_lateness, value_name = "TIME")]
    max_lateness: Option<Duration>,
    /// Seconds to run before measuring
    #[arg(long, default_value = "0", value_parser = parse_seconds, value_name = "SECONDS")]
    warmup_time: Duration,
    /// Seconds between interval lines, such as 10 or 0.5; 0 prints none
    #[arg(long, default_value = "0", value_parser = parse_interval, value_name = "SECONDS")]
    report_interval: Duration,
    /// Seconds between readings of the server's own counters, for a series in the JSON report [default: none]
    #[arg(long, value_parser = parse_server_interval, value_name = "SECONDS")]
    server_interval: Option<Duration>,
    /// Time each statement, BEGIN and COMMIT by itself, or transactions alone
    #[arg(long, value_enum, default_value = "on", hide_possible_values = true, value_name = "on|off")]
    detail: Switch,
    /// Percentiles to print; the interval lines show the 95th, or the last one given
    #[arg(long, default_value = "50,95,99,99.9", value_delimiter = ',', value_parser = parse_percentile, value_name = "LIST")]
    pub(super) percentile: Vec<f64>,
    /// Prepared statements or text
    #[arg(long, value_enum, default_value = "auto", value_name = "MODE")]
    pub(super) db_ps_mode: PsMode,
    /// How often a transaction is repeated after a deadlock, a lock timeout or a busy database
    #[arg(long, default_value_t = 10, value_name = "N")]
    max_retries: u32,
    /// Codes of errors that cost their transaction but are no failure, such as 1062,3024, or all
    #[arg(long, alias = "mysql-ignore-errors", default_value = "", hide_default_value = true, value_parser = parse_ignored_errors, value_name = "LIST")]
    ignore_errors: IgnoredErrors,
    /// Percentage of failed transactions above which the run stops, without those that a lost connection cost
    #[arg(long, default_value = "1", value_parser = parse_share, value_name = "PERCENT")]
    max_error_rate: f64,
    /// Codes of findings that make the exit code 3, such as unsteady,client-saturated; docs/findings.md lists them
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(CODES), hide_possible_values = true, value_name = "LIST")]
    pub(super) fail_on: Vec<String>,
    /// Check each row that is read, and after the run all rows, against what `prepare` and this run's writes put there: on,
    /// off, or the SEED of `prepare --rand-seed`. It costs client CPU and memory
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "off", default_missing_value = "on", value_parser = parse_validate, value_name = "on|off|SEED")]
    pub(super) validate: Validate,
    /// Seconds to wait for transactions in flight once the time is over
    #[arg(long, default_value = "10", value_parser = parse_forced_shutdown, value_name = "SECONDS")]
    forced_shutdown: Duration,
    /// Seconds that the server may be silent in a statement, before its connection counts as lost [default: no limit]
    #[arg(long, value_parser = parse_timeout, value_name = "SECONDS")]
    pub(super) statement_timeout: Option<Duration>,
    /// Write the whole report to FILE as JSON
    #[arg(long, value_name = "FILE", value_parser = parse_json_file)]
    pub(super) json: Option<PathBuf>,
}

/// The seed of the tables of a run that validates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validate(pub(super) Option<u64>);

fn parse_validate(text: &str) -> Result<Validate, String> {
    match text {
        "off" => Ok(Validate(None)),
        "on" => Ok(Validate(Some(DATA_SEED))),
        seed => match seed.parse() {
            Ok(seed) if seed < EXACT => Ok(Validate(Some(seed))),
            _ => Err("use on, off, or the seed that prepare was given".into()),
        },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ArrivalName {
    Poisson,
    Constant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Overload {
    Queue,
    Shed,
}

/// So that a thousand logins do not hit the server at once.
pub(super) const CONNECT_CONCURRENCY: u32 = 32;

/// Length of the series' intervals when no interval lines are asked for.
const SERIES_INTERVAL: Duration = Duration::from_secs(1);

/// A managed server's failover takes a minute or two; one that is away for longer does not come back by itself.
pub(super) const LONGEST_OUTAGE: Duration = Duration::from_secs(180);

impl RunArgs {
    /// The run of one of the numbers of threads and one of the rates. `matches` tells what was given from what is a default.
    pub(super) fn spec(&self, threads: u32, rate: f64, seed: u64, matches: &ArgMatches) -> Result<RunSpec, CliError> {
        Ok(RunSpec {
            threads,
            time: self.length(matches)?,
            events: Some(self.events).filter(|&events| events > 0),
            open_loop: self.open_loop(rate)?,
            warmup_time: self.warmup_time,
            interval: if self.prints_intervals() { self.report_interval } else { SERIES_INTERVAL },
            server_interval: self.server_interval,
            detail: self.detail == Switch::On,
            seed,
            max_retries: self.max_retries,
            connect_concurrency: self.connect_concurrency,
            ignored_errors: self.ignore_errors.clone(),
            max_error_rate: self.max_error_rate,
            forced_shutdown: self.forced_shutdown,
            longest_outage: LONGEST_OUTAGE,
        })
    }

    /// Length of the window.
    fn length(&self, matches: &ArgMatches) -> Result<Option<Duration>, CliError> {
        if self.rate_steps.is_empty() {
            return Ok(Some(self.time).filter(|time| !time.is_zero()));
        }
        let sum = self.rate_steps.iter().map(|(_, length)| *length).sum();
        if matches.value_source("time") == Some(ValueSource::CommandLine) && self.time != sum {
            return Err(CliError::usage(format!(
                "--rate-steps last {} and --time is {}; leave --time out",
                humantime::format_duration(sum),
                humantime::format_duration(self.time)
            )));
        }
        Ok(Some(sum))
    }

    /// The most connections that any of the runs opens.
    pub(super) fn most_threads(&self) -> u32 {
        self.threads.iter().copied().max().unwrap_or(1)
    }

    fn open_loop(&self, rate: f64) -> Result<Option<OpenLoop>, CliError> {
        let refused = |message: &str| Err(CliError::usage(message));
        let is_closed = rate == 0.0 && self.rate_steps.is_empty();
        if is_closed && self.rate.iter().any(|&rate| rate > 0.0) {
            return Ok(None);
        }
        if is_closed {
            let useless = [
                ("--arrival", self.arrival.is_some()),
                ("--overload", self.overload.is_some()),
                ("--max-lateness", self.max_lateness.is_some()),
            ];
            return match useless.iter().find(|(_, given)| *given) {
                Some((name, _)) => refused(&format!("{name} is only for an open loop; give --rate, or leave it out")),
                None => Ok(None),
            };
        }
        if rate > 0.0 && !self.rate_steps.is_empty() {
            return refused("--rate and --rate-steps exclude each other; leave --rate out");
        }
        match (self.overload, self.max_lateness) {
            (Some(Overload::Shed), None) => return refused("--overload shed needs --max-lateness, such as 100ms"),
            (None | Some(Overload::Queue), Some(_)) => return refused("--max-lateness needs --overload shed"),
            _ => {}
        }
        let mut steps = vec![Step { start: Duration::ZERO, rate }];
        if !self.rate_steps.is_empty() {
            let mut start = Duration::ZERO;
            let step = |&(rate, length): &(f64, Duration)| {
                let step = Step { start, rate };
                start += length;
                step
            };
            steps = self.rate_steps.iter().map(step).collect();
        }
        let arrival = match self.arrival {
            None | Some(ArrivalName::Poisson) => Arrival::Poisson,
            Some(ArrivalName::Constant) => Arrival::Constant,
        };
        Ok(Some(OpenLoop { arrival, steps, max_lateness: self.max_lateness }))
    }

    pub(super) fn prints_intervals(&self) -> bool {
        !self.report_interval.is_zero()
    }

    /// The percentile of the interval lines.
    pub(super) fn interval_percentile(&self) -> f64 {
        if self.percentile.contains(&95.0) { 95.0 } else { self.percentile.last().copied().unwrap_or(95.0) }
    }
}

pub(super) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds, such as 10 or 0.5".to_string())?;
    // A year; longer is a typing error, and keeps nanoseconds within 64 bits.
    if !(0.0..=31_536_000.0).contains(&seconds) {
        return Err("seconds must be between 0 and 31536000 (a year)".into());
    }
    // It would be rounded to 0, which has a meaning of its own, or be too short to measure anything.
    if seconds > 0.0 && seconds < 0.001 {
        return Err("seconds must be 0 or at least 0.001".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A time with a unit, or in seconds.
fn parse_forced_shutdown(text: &str) -> Result<Duration, String> {
    match text {
        "off" => Err("a run always ends; give seconds, such as 10".into()),
        _ => parse_seconds(text),
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = parse_seconds(text) {
        return Ok(seconds);
    }
    let time = humantime::parse_duration(text).map_err(|_| "not a time, such as 30s, 100ms or 0.5".to_string())?;
    parse_seconds(&time.as_secs_f64().to_string())
}

/// Telling all of its counters costs a server about a millisecond.
fn parse_server_interval(text: &str) -> Result<Duration, String> {
    match parse_seconds(text)? {
        pace if pace < Duration::from_millis(100) => Err("must be at least 0.1 seconds".into()),
        pace => Ok(pace),
    }
}

fn parse_lateness(text: &str) -> Result<Duration, String> {
    parse_time(text).and_then(|time| if time.is_zero() { Err("must be above 0".into()) } else { Ok(time) })
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "not a number of transactions a second, such as 1000".to_string())?;
    match rate {
        0.0 => Ok(0.0),
        // Slower or faster is a typing error.
        _ if (0.001..=1e7).contains(&rate) => Ok(rate),
        _ => Err("a rate is between 0.001 and 10000000, or 0 for the closed loop".into()),
    }
}

fn parse_rate_step(text: &str) -> Result<(f64, Duration), String> {
    let (rate, time) = text.split_once(':').ok_or("a step is RATE:TIME, such as 1000:30s")?;
    match (parse_rate(rate.trim())?, parse_time(time.trim())?) {
        (rate, time) if rate > 0.0 && !time.is_zero() => Ok((rate, time)),
        _ => Err("a step has a rate and a time above 0".into()),
    }
}

pub(super) fn parse_timeout(text: &str) -> Result<Duration, String> {
    parse_seconds(text).and_then(|timeout| if timeout.is_zero() { Err("must be above 0".into()) } else { Ok(timeout) })
}

fn parse_ignored_errors(text: &str) -> Result<IgnoredErrors, String> {
    if text == "all" {
        return Ok(IgnoredErrors::All);
    }
    let code = |text: &str| match text.trim().parse() {
        Ok(code) if ERROR_CODES.contains(&code) => Ok(code),
        _ => Err(format!("`{}` is no code; give those from 1 to {}, such as 1062,3024, or all", text.trim(), u16::MAX)),
    };
    match text {
        "" => Ok(IgnoredErrors::These(Vec::new())),
        list => list.split(',').map(code).collect::<Result<_, _>>().map(IgnoredErrors::These),
    }
}

/// MySQL's protocol has 16 bits for a code, and SQLite's are smaller.
const ERROR_CODES: std::ops::RangeInclusive<i64> = 1..=u16::MAX as i64;

fn parse_json_file(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" | "" => Err("give a file, or /dev/stdout for standard output".into()),
        file => Ok(file.into()),
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match parse_seconds(text)? {
        interval if !interval.is_zero() && interval < Duration::from_millis(10) => {
            Err("an interval is at least 0.01 seconds".into())
        }
        // Another one cannot be cut into the equal parts of which the errors of the figures are made.
        interval if interval.subsec_nanos() % 1_000_000 != 0 => {
            Err("an interval is a whole number of milliseconds, such as 10 or 0.5".into())
        }
        interval => Ok(interval),
    }
}

fn parse_percentile(text: &str) -> Result<f64, String> {
    let percentile: f64 = text.trim().parse().map_err(|_| "not a number, such as 99 or 99.9".to_string())?;
    if percentile > 0.0 && percentile <= 100.0 { Ok(percentile) } else { Err("must be above 0 and at most 100".into()) }
}

/// A percentage as a share of one.
pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percentage: f64 = number.parse().map_err(|_| "not a percentage, such as 1".to_string())?;
    if (0.0..=100.0).contains(&percentage) { Ok(percentage / 100.0) } else { Err("must be between 0 and 100".into()) }
}

/// Not below what intervals have by rounding alone.
fn parse_precision(text: &str) -> Result<f64, String> {
    match parse_share(text)? {
        share if (0.002..1.0).contains(&share) => Ok(share),
        _ => Err("give a percentage from 0.2 to below 100, such as 2%".into()),
    }
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadArgs {
    /// Number of connections that work at once
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N")]
    pub(super) threads: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_numbers_are_refused_with_their_bounds() {
        assert!(parse_seconds("-1").unwrap_err().contains("between 0"));
        assert!(parse_seconds("soon").unwrap_err().contains("number of seconds"));
        assert!(parse_seconds("nan").is_err());
        for nothing in ["1e-300", "1e-10", "0.0009"] {
            assert!(parse_seconds(nothing).unwrap_err().contains("at least 0.001"));
            assert!(parse_interval(nothing).is_err());
        }
        assert_eq!(parse_seconds("0.001"), Ok(Duration::from_millis(1)));
        assert_eq!(parse_seconds("-0"), Ok(Duration::ZERO));
        assert!(parse_percentile("0").is_err() && parse_percentile("100.1").is_err());
        assert!(parse_interval("0.001").is_err());
        assert!(parse_interval("0.3333").unwrap_err().contains("whole number of milliseconds"));
        for whole in ["0.01", "0.07", "1.001", "86399.999"] {
            assert!(parse_interval(whole).is_ok(), "{whole}");
        }
        assert_eq!(parse_share("2.5%").unwrap(), 0.025);
    }
}
