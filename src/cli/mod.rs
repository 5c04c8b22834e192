//! The command line: clap types become plain specs here, the commands are dispatched, and errors become exit codes.
//!
//! * [`options`]: the options of a run, an experiment and a load, and what they become.
//! * [`target`]: those that say where to measure, with passwords and TLS.
//! * [`choice`]: the workload and profile that are chosen, with the options that these bring.
//! * [`profile`]: named sets of options that repeat a published experiment.
//! * [`advice`]: what a wrong command line may have meant.
//! * [`commands`]: what each command does.
//! * [`compare`]: runs against runs, or against a published figure.
//! * [`experiment`]: a grid of runs, measured into a folder.
//! * [`progress`]: what a person sees meanwhile.
//! * [`published`]: published figures, and runs against them.
//! * [`report`]: saved runs, shown again.
//! * [`sweep`]: saved runs by threads or rate.
//!
//! clap ends here: nothing below knows of it. May import everything; nothing imports it but `main`.

mod advice;
mod choice;
mod commands;
mod compare;
mod experiment;
mod options;
mod profile;
mod progress;
mod published;
mod report;
mod sweep;
mod target;

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use clap::builder::{IntoResettable, StyledStr};
use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, Args, Command};

use crate::engine::EngineError;
use crate::report::text::printable;
use crate::report::{JsonFile, ReportError, saved};
use choice::Choice;
use options::{GridArgs, LoadArgs, RandomArgs, RunArgs, WorkloadArgs};
use target::TargetArgs;

/// Exit codes: 0 success, 1 the run failed, 2 wrong usage, 3 an unwanted finding, 4 a regression, 130 interrupted (as a
/// shell reports SIGINT).
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error("{0}")]
    Usage(String),
    /// clap has its own way of showing help and errors.
    #[error(transparent)]
    Clap(#[from] clap::Error),
    #[error("{0}")]
    Run(String),
    /// A run that ended well has a finding of --fail-on.
    #[error("{0}")]
    Unwanted(String),
    #[error("{0}")]
    Interrupted(String),
}

impl CliError {
    fn usage(message: impl Into<String>) -> CliError {
        CliError::Usage(message.into())
    }

    /// The same of a part of the whole, such as one target of several.
    fn of(self, part: &str) -> CliError {
        let said = |message: String| format!("{part}: {message}");
        match self {
            CliError::Clap(error) => CliError::Clap(error),
            CliError::Usage(message) => CliError::Usage(said(message)),
            CliError::Run(message) => CliError::Run(said(message)),
            CliError::Unwanted(message) => CliError::Unwanted(said(message)),
            CliError::Interrupted(message) => CliError::Interrupted(said(message)),
        }
    }

    fn report(self, args: &[String]) -> ExitCode {
        match self {
            CliError::Clap(error) => match error.kind() {
                ErrorKind::DisplayHelp
                | ErrorKind::DisplayVersion
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                    note_loss(error.print());
                    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
                }
                _ if advice::may_show_password(&error) => {
                    say("an argument with an `@` is in a place where none belongs; put a URL in quotes after --url", 2)
                }
                ErrorKind::TooManyValues => {
                    let option = error.get(ContextKind::InvalidArg).map_or(String::new(), |option| option.to_string());
                    say(&format!("{option} takes no value; leave it out"), 2)
                }
                _ => {
                    let (said, advice) = (one_line(&error.to_string()), advice::advice(args, &error));
                    match advice.is_empty() {
                        true => say(&said, 2),
                        // clap's own tip would only be a likely spelling.
                        false => say(&format!("{}; {advice}", said.split("; ").next().unwrap_or_default()), 2),
                    }
                }
            },
            CliError::Usage(message) => say(&message, 2),
            CliError::Run(message) => say(&message, 1),
            CliError::Unwanted(message) => say(&message, 3),
            CliError::Interrupted(message) => say(&message, 130),
        }
    }
}

/// What clap says of a wrong command line, without its usage and on one line.
fn one_line(text: &str) -> String {
    let said = text.split("\nUsage:").next().unwrap_or(text).split("\nFor more information").next().unwrap_or(text);
    let parts: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    parts.join("; ").trim_start_matches("error: ").replace("; tip: ", "; ").replace(":; ", ": ")
}

/// One line, whatever a server put into its message.
fn say(message: &str, code: u8) -> ExitCode {
    show_error(format!("error: {}", without_passwords(&printable(message))));
    ExitCode::from(code)
}

/// A file for what is no report of a run; it must not take the place of one.
fn file_beside_runs(path: &std::path::Path) -> Result<JsonFile, CliError> {
    if saved::read(path).is_ok_and(|_| path.is_file()) {
        let path = path.display();
        return Err(CliError::usage(format!(
            "{path} holds the report of a run, which would be lost; give another file"
        )));
    }
    Ok(JsonFile::at(path)?)
}

/// Hides what stands between a `:` and an `@` of one word, as the password of a URL does: a message, or the name of a run,
/// may repeat an argument that was given in the wrong place.
fn without_passwords(text: &str) -> String {
    text.split_inclusive(char::is_whitespace).map(without_password).collect()
}

fn without_password(word: &str) -> String {
    let login = word.find("://").map_or(0, |scheme| scheme + 3);
    // The last `@`, since a password may hold one that is not encoded.
    let password = word[login..].find(':').zip(word[login..].rfind('@')).filter(|(colon, at)| colon < at);
    match password {
        Some((colon, at)) => format!("{}:***{}", &word[..login + colon], &word[login + at..]),
        None => word.into(),
    }
}

/// Why text for standard output was lost, once some was: of a program that prints from several threads, its end must know.
static LOST_OUTPUT: OnceLock<String> = OnceLock::new();

/// Prints a line to standard output. What cannot be printed is no reason to lose the measurement; the program says so at
/// its end.
fn show(line: impl Display) {
    note_loss(writeln!(std::io::stdout().lock(), "{line}"));
}

/// Whether the reader of standard output has gone away, as in `oltpbench workloads list | head -1`. It had what it wanted,
/// unless it was to get a measurement.
static READER_GONE: AtomicBool = AtomicBool::new(false);

fn note_loss(printed: std::io::Result<()>) {
    let Err(error) = printed.and_then(|()| std::io::stdout().flush()) else { return };
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => READER_GONE.store(true, Ordering::Relaxed),
        _ => drop(LOST_OUTPUT.get_or_init(|| error.to_string())),
    }
}

/// Prints a line to standard error; where that cannot be done there is nobody to be told.
fn show_error(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> CliError {
        match error {
            EngineError::InterruptedEarly | EngineError::Interrupted { .. } => CliError::Interrupted(error.to_string()),
            _ => CliError::Run(error.to_string()),
        }
    }
}

impl From<ReportError> for CliError {
    fn from(error: ReportError) -> CliError {
        CliError::Run(error.to_string())
    }
}

/// Runs the program and gives its exit code.
pub fn main() -> ExitCode {
    let args: Result<Vec<String>, _> = std::env::args_os().map(|arg| arg.into_string().map(choice::dashed)).collect();
    // Not shown, since it may hold a password.
    let Ok(args) = args else { return say("an argument is not UTF-8; names of files and passwords must be", 2) };
    let code = dispatch(&args).unwrap_or_else(|error| error.report(&args));
    match LOST_OUTPUT.get() {
        None => code,
        Some(error) => {
            let said = say(&format!("standard output could not be written ({error}); its text is incomplete"), 1);
            if code == ExitCode::SUCCESS { said } else { code }
        }
    }
}

fn dispatch(args: &[String]) -> Result<ExitCode, CliError> {
    // The workload decides which options these commands have, so it must be known before they are read.
    let takes_workload =
        matches!(args.get(1).map(String::as_str), Some("prepare" | "prewarm" | "check" | "run" | "cleanup"));
    let choice = if takes_workload { Some(Choice::of(&args[2..])?) } else { None };
    let matches = command(choice.as_ref())?.try_get_matches_from(args)?;
    let interrupted = watch_signals()?;
    match (matches.subcommand(), choice) {
        (Some(("run", matches)), Some(choice)) => commands::run(&choice, matches, &interrupted),
        (Some(("check", matches)), Some(choice)) => commands::check(&choice, matches, &interrupted),
        (Some(("prepare", matches)), Some(choice)) => commands::prepare(&choice, matches, &interrupted),
        (Some(("prewarm", matches)), Some(choice)) => commands::prewarm(&choice, matches, &interrupted),
        (Some(("cleanup", matches)), Some(choice)) => commands::cleanup(&choice, matches, &interrupted),
        (Some(("report", matches)), _) => report::report(matches),
        (Some(("workloads", matches)), _) => commands::workloads(matches),
        (Some(("compare", matches)), _) => compare::run(matches),
        (Some(("sweep", matches)), _) => sweep::run(matches),
        (Some(("published", matches)), _) => published::published(matches),
        (Some(("demo", _)), _) => commands::demo(&interrupted),
        _ => unreachable!("clap requires one of the commands above"),
    }
}

/// How many of SIGINT, SIGTERM and SIGHUP end the program whatever it does: the first one asks a run for its report, the
/// second one, which the run hears too, no longer to wait for what has not been answered.
const ENOUGH_SIGNALS: u32 = 3;

/// Sets the flag at each signal but the last one, which ends the program.
fn watch_signals() -> Result<Arc<AtomicBool>, CliError> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    let flag = Arc::new(AtomicBool::new(false));
    let flagged = Arc::clone(&flag);
    let watch = || {
        // A write beyond the limit of file sizes then is an error like any other, in place of the end of the program.
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
        // Under nohup a lost terminal must not end the run.
        let ends = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| signal != SIGHUP || !is_ignored(SIGHUP));
        let mut signals = signal_hook::iterator::Signals::new(ends)?;
        let count_signals = move || {
            let mut count = 0;
            for signal in signals.forever() {
                // A terminal that closes sends two, one by its shell and one by the kernel.
                if signal == SIGHUP && count > 0 {
                    continue;
                }
                count += 1;
                if count == ENOUGH_SIGNALS {
                    signal_hook::low_level::exit(130);
                }
                flagged.store(true, Ordering::Relaxed);
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(count_signals)
    };
    watch().map_err(|error: std::io::Error| CliError::Run(format!("signals cannot be watched: {error}")))?;
    Ok(flag)
}

/// Whether the program was started with this signal ignored: the mask `SigIgn` of /proc/self/status (proc(5)). Where it
/// cannot be read, the signal keeps what it was started with.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_none_or(|mask| mask >> (signal - 1) & 1 == 1)
}

const ABOUT: &str = "Measures how many transactions a second a MySQL-compatible database does, and how fast.

The usual order is prepare, run, cleanup; `oltpbench demo` shows it without a server.";

const EXIT_CODES: &str = "Exit codes: 0 done, 1 the run failed, 2 wrong usage, 3 a finding of --fail-on,
4 a regression of --fail-on-regression, 130 interrupted.";

const RUN_EXAMPLE: &str = "Examples:
  oltpbench run --mode read-only --threads 500 --time 600
  oltpbench run --mode read-write --threads 64 --time 60 --json run.json
  oltpbench run --profile aurora-whitepaper --url mysql://user@10.0.0.5/sbtest
  oltpbench run --threads 1,8,64 --repeat 10 \\
      --target direct=mysql://10.0.0.5/sbtest \\
      --target proxy=mysql://10.0.0.9/sbtest

Each workload has its own options: oltpbench run --mode insert --help";

const CHECK_EXAMPLE: &str = "Example:
  oltpbench check --mode read-write --threads 500 --url mysql://user@10.0.0.5/db

It takes the options of the run that it is for, but those of an experiment,
looks at this machine, the server and the tables, and changes nothing.
Exit code 1 says that the run would fail.";

const PREPARE_EXAMPLE: &str = "Examples:
  oltpbench prepare --url mysql://sysbench@10.0.0.5/sbtest
  oltpbench prepare --tables 10 --table-size 1000000 --threads 16";

const PREWARM_EXAMPLE: &str = "Example:
  oltpbench prewarm --url mysql://sysbench@10.0.0.5/sbtest";

const CLEANUP_EXAMPLE: &str = "Example:
  oltpbench cleanup --url mysql://sysbench@10.0.0.5/sbtest";

const WORKLOADS_EXAMPLE: &str = "Examples:
  oltpbench workloads list
  oltpbench workloads show oltp_read_only > mine.yaml
  oltpbench run --workload mine.yaml";

const PUBLISHED_EXAMPLE: &str = "Examples:
  oltpbench published list
  oltpbench published show aurora-2015
  oltpbench compare run.json --published aurora-2015/read";

const DEMO_EXAMPLE: &str = "Example:
  oltpbench demo";

/// The whole command; the options of a workload are there once it is known.
fn command(choice: Option<&Choice>) -> Result<Command, CliError> {
    let workload = |command: Command| {
        let command = RandomArgs::augment_args(WorkloadArgs::augment_args(TargetArgs::augment_args(command)));
        match choice {
            Some(choice) => choice.extend(command),
            None => Ok(command),
        }
    };
    let command = Command::new("oltpbench")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(format!("{DEMO_EXAMPLE}\n\n{EXIT_CODES}"))
        .max_term_width(100)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(workload(LoadArgs::augment_args(named(
            "prepare",
            "Create the workload's tables and fill them",
            PREPARE_EXAMPLE,
        )))?)
        .subcommand(workload(LoadArgs::augment_args(named(
            "prewarm",
            "Read all tables and indexes once, so that they are in the server's cache",
            PREWARM_EXAMPLE,
        )))?)
        .subcommand(
            workload(RunArgs::augment_args(named(
                "check",
                "Say what would go wrong with a run, before it does",
                CHECK_EXAMPLE,
            )))?
            .mut_arg("json", |json| json.help("Write the checks to FILE as JSON, a document of its own")),
        )
        .subcommand(workload(GridArgs::augment_args(RunArgs::augment_args(named(
            "run",
            "Measure the workload and print a report",
            format!("{RUN_EXAMPLE}\n\n{EXIT_CODES}"),
        ))))?)
        .subcommand(workload(LoadArgs::augment_args(named("cleanup", "Drop the workload's tables", CLEANUP_EXAMPLE)))?)
        .subcommand(report::command())
        .subcommand(workloads_command())
        .subcommand(compare::command())
        .subcommand(sweep::command())
        .subcommand(published_command())
        .subcommand(named(
            "demo",
            "Show prepare and run on a small embedded SQLite database: no server, no options",
            DEMO_EXAMPLE,
        ));
    Ok(command)
}

fn named(name: &'static str, about: &'static str, example: impl IntoResettable<StyledStr>) -> Command {
    Command::new(name).about(about).after_help(example)
}

fn workloads_command() -> Command {
    named("workloads", "List the built-in workloads or show one's file", WORKLOADS_EXAMPLE)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(named("list", "List the built-in workloads", "Example:\n  oltpbench workloads list"))
        .subcommand(
            named("show", "Print a workload's file", "Example:\n  oltpbench workloads show oltp_read_only")
                .arg(name_argument("Name of a workload")),
        )
}

fn published_command() -> Command {
    named("published", "List published figures, or show one with its set-up and source", PUBLISHED_EXAMPLE)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(named("list", "List the published figures", "Example:\n  oltpbench published list"))
        .subcommand(
            named(
                "show",
                "Show one with all that is known of it",
                "Example:\n  oltpbench published show aurora-2015/read",
            )
            .arg(name_argument("A name of `oltpbench published list`")),
        )
}

fn name_argument(help: &'static str) -> Arg {
    Arg::new("name").value_name("NAME").required(true).help(help)
}
