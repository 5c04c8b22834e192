//! The command `compare`: runs against runs, or against a published figure.
//!
//! May import everything; clap's types go no further than here.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::options::parse_share;
use super::{CliError, published};
use crate::compare::{self, CompareError, Comparison, Options};

/// A regression of --fail-on-regression is shown.
const REGRESSION: u8 = 4;

const EXAMPLE: &str = "Examples:
  oltpbench compare before.json after.json
  oltpbench compare experiment/        # the targets of one experiment
  oltpbench compare last-month/ today/ --fail-on-regression 3%
  oltpbench compare run.json --published aurora-2015/read

The first one is the baseline. docs/comparing.md says how verdicts are made.";

impl From<CompareError> for CliError {
    fn from(error: CompareError) -> CliError {
        match error {
            CompareError::Saved(_) => CliError::Run(error.to_string()),
            _ => CliError::usage(error.to_string()),
        }
    }
}

pub(super) fn command() -> Command {
    let against_runs =
        |id: &'static str, help: &'static str| Arg::new(id).long(id).conflicts_with("published").help(help);
    Command::new("compare")
        .about("Hold saved runs against each other, or against a published figure")
        .after_help(EXAMPLE)
        .arg(
            Arg::new("files")
                .value_name("FILE|FOLDER")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(PathBuf))
                .help("Reports of `run --json`, or folders of repeats; a single folder's targets are compared"),
        )
        .arg(
            Arg::new("published")
                .long("published")
                .value_name("NAME")
                .help("Hold the runs against this one of `oltpbench published list`, without a verdict"),
        )
        .arg(
            against_runs(
                "force",
                "Compare runs of different loads too, and say how they differ; take runs that did not end well",
            )
            .action(ArgAction::SetTrue),
        )
        .arg(
            against_runs(
                "fail-on-regression",
                "Exit code 4 where a figure is shown to be worse by more than this, such as 3%",
            )
            .value_name("PERCENT")
            .value_parser(parse_limit),
        )
        .arg(
            against_runs("json", "Write the comparison to this file too")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf)),
        )
}

fn parse_limit(text: &str) -> Result<f64, String> {
    match parse_share(text) {
        Ok(share) if share < 1.0 => Ok(share),
        _ => Err("give a percentage from 0 to below 100, such as 3%".into()),
    }
}

pub(super) fn run(matches: &ArgMatches) -> Result<ExitCode, CliError> {
    let paths: Vec<PathBuf> = matches.get_many("files").into_iter().flatten().cloned().collect();
    if matches.contains_id("published") {
        return published::compare(&paths, published::name(matches, "published"));
    }
    let regression = matches.get_one::<f64>("fail-on-regression").copied();
    let json = matches.get_one::<PathBuf>("json").map(|path| super::file_beside_runs(path)).transpose()?;
    let comparison = compare::compare(&paths, Options { force: matches.get_flag("force"), regression })?;
    super::show(comparison.text().trim_end());
    json.map_or(Ok(()), |json| json.write(&comparison))?;
    exit_code(&comparison)
}

/// What was not compared may be what regressed, so it is no success.
fn exit_code(comparison: &Comparison) -> Result<ExitCode, CliError> {
    match (&comparison.regression, comparison.gaps()) {
        (Some(regression), _) if !regression.shown.is_empty() => Ok(ExitCode::from(REGRESSION)),
        (Some(_), gaps) if !gaps.is_empty() => Err(CliError::Run(format!(
            "no regression is shown, but not everything was compared ({}); measure what is missing",
            gaps.join("; ")
        ))),
        _ => Ok(ExitCode::SUCCESS),
    }
}
