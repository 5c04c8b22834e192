//! `oltpbench report`: saved runs as text, Markdown, CSV, JSON, HTML or HdrHistogram logs, and what a folder of them holds.
//!
//! Measures nothing and asks no server. Must not import: `engine`, `target`, `workload`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use maud::Markup;

use super::CliError;
use crate::compare::sweep::sweeps;
use crate::compare::{self, CompareError, compare};
use crate::report::experiment::Experiment;
use crate::report::saved::{self, Saved, SavedError};
use crate::report::{RunReport, csv, hlog, html, list, markdown, text};

const EXAMPLE: &str = "Examples:
  oltpbench report run.json
  oltpbench report --format markdown direct.json proxy.json
  oltpbench report --format html --output run.html run.json
  oltpbench report --format csv --output runs.csv experiments/nightly
  oltpbench report list experiments/nightly";

#[derive(Args)]
struct ReportArgs {
    /// Files that run --json wrote, or folders of them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// What to make of them
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write to a file, which appears once it is whole, in place of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// As the run printed it
    Text,
    /// Tables of rates and latencies side by side, errors, set-up and findings
    Markdown,
    /// A row a run
    Csv,
    /// CSV with a row an interval
    CsvSeries,
    /// A list of the documents themselves
    Json,
    /// One page with charts that loads nothing
    Html,
    /// Latencies as a log of HdrHistogram's, for its tools
    Hlog,
}

pub(super) fn command() -> Command {
    let list = Command::new("list")
        .about("List the runs of a folder")
        .after_help("Example:\n  oltpbench report list experiments/nightly")
        .arg(
            clap::Arg::new("folder")
                .value_name("DIR")
                .help("Folder of reports that run --json or an experiment wrote")
                .required(true)
                .value_parser(clap::value_parser!(PathBuf)),
        );
    ReportArgs::augment_args(Command::new("report"))
        .about("Show saved runs as text, Markdown, CSV, JSON, HTML or histogram logs")
        .after_help(EXAMPLE)
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .subcommand(list)
}

pub(super) fn report(matches: &ArgMatches) -> Result<ExitCode, CliError> {
    if let Some(("list", matches)) = matches.subcommand() {
        let folder = matches.get_one::<PathBuf>("folder").expect("clap requires it");
        print(&listed(folder)?);
        return Ok(ExitCode::SUCCESS);
    }
    let args = ReportArgs::from_arg_matches(matches).map_err(CliError::Clap)?;
    let output = args.output.as_deref().map(super::file_beside_runs).transpose()?;
    let shown = shown(args.format, &args.files, &read(&args.files)?)?;
    match output {
        Some(file) => file.write_text(&shown)?,
        None => print(&shown),
    }
    Ok(ExitCode::SUCCESS)
}

/// An experiment of which not one run has a report has still something to list.
fn listed(folder: &Path) -> Result<String, CliError> {
    let unreadable = |error: SavedError| CliError::Run(error.to_string());
    let experiment = folder.join(saved::DESIGN).is_file().then(|| Experiment::read(folder)).transpose();
    let experiment = experiment.map_err(unreadable)?;
    let runs = match saved::read(folder) {
        Err(SavedError::Empty(_)) if experiment.is_some() => Vec::new(),
        runs => runs.map_err(unreadable)?,
    };
    Ok(list::list(&runs, &experiment.iter().flat_map(|known| known.without_result(folder)).collect::<Vec<_>>()))
}

fn read(paths: &[PathBuf]) -> Result<Vec<Saved>, CliError> {
    let mut runs = Vec::new();
    for path in paths {
        runs.extend(saved::read(path).map_err(|error| CliError::Run(error.to_string()))?);
    }
    Ok(runs)
}

fn shown(format: Format, paths: &[PathBuf], runs: &[Saved]) -> Result<String, CliError> {
    Ok(match format {
        Format::Text => texts(runs),
        Format::Markdown => markdown::markdown(runs),
        Format::Csv => csv::runs(runs),
        Format::CsvSeries => csv::series(runs),
        Format::Json => {
            let documents: Vec<&RunReport> = runs.iter().map(|run| &run.report).collect();
            serde_json::to_string_pretty(&documents).map_err(|error| CliError::Run(error.to_string()))? + "\n"
        }
        Format::Html => html::page(runs, &judged(paths)),
        Format::Hlog => hlog::log(runs).map_err(|error| CliError::Run(error.to_string()))?,
    })
}

/// What `compare` and `sweep` say of the same files, where these are of several targets or cells.
fn judged(paths: &[PathBuf]) -> Markup {
    let compared = compare(paths, compare::Options::default());
    let sweeps = sweeps(paths, None, &[]);
    maud::html! {
        @match &compared {
            Ok(comparison) => (comparison.html()),
            Err(CompareError::OneRun(_) | CompareError::OneTarget(_)) => {},
            Err(error) => { h2 { "Not compared" } p { (text::printable(&error.to_string())) } },
        }
        // What cannot be swept is said of the runs already.
        @if let Ok(sweeps) = &sweeps { (sweeps.html()) }
    }
}

/// One run as it was printed, several each below its name.
fn texts(runs: &[Saved]) -> String {
    let summary = |run: &Saved| text::summary(&run.report, &text::PERCENTILES);
    if let [run] = runs {
        return summary(run);
    }
    let labels = saved::labels(runs);
    let texts =
        runs.iter().zip(&labels).map(|(run, label)| format!("== {}\n\n{}", text::printable(label), summary(run)));
    texts.collect::<Vec<_>>().join("\n")
}

fn print(shown: &str) {
    super::note_loss(std::io::stdout().lock().write_all(shown.as_bytes()));
}
