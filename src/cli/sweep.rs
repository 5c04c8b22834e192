//! The command `sweep`: saved runs by threads or rate, with knee, scalability and cost.
//!
//! May import everything but `engine`, `target` and `workload`; clap's types go no further than here.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches};

use super::CliError;
use crate::compare::sweep::{self, Price, Slo, SweepError};

const EXAMPLE: &str = "Examples:
  oltpbench run --threads 1,2,4,8,16,32 --repeat 3 --time 60 --dir sweep
  oltpbench sweep sweep
  oltpbench sweep sweep --slo p99=20ms --price direct=4.64/h --price proxy=3500/month

docs/sweeps.md says what the figures mean.";

/// A month of 365 / 12 days.
const HOURS_PER_MONTH: f64 = 730.0;

impl From<SweepError> for CliError {
    fn from(error: SweepError) -> CliError {
        match error {
            SweepError::Saved(_) => CliError::Run(error.to_string()),
            _ => CliError::usage(error.to_string()),
        }
    }
}

#[derive(Args)]
struct SweepArgs {
    /// Folders of experiments, or files that run --json wrote
    #[arg(value_name = "FILE|FOLDER", required = true)]
    files: Vec<PathBuf>,
    /// Show the most tps at which this percentile of the response time is no longer than this
    #[arg(long, value_name = "p99=20ms", value_parser = parse_slo)]
    slo: Option<Slo>,
    /// What a target costs, by the hour (/h) or by 730 hours (/month); once for each
    #[arg(long = "price", value_name = "TARGET=4.64/h", value_parser = parse_price)]
    prices: Vec<Price>,
    /// Write the sweeps to this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(super) fn command() -> Command {
    SweepArgs::augment_args(Command::new("sweep"))
        .about("Show tps and latency of saved runs by threads or rate, and what they cost")
        .after_help(EXAMPLE)
}

pub(super) fn run(matches: &ArgMatches) -> Result<ExitCode, CliError> {
    let args = SweepArgs::from_arg_matches(matches).map_err(CliError::Clap)?;
    let json = args.json.as_deref().map(super::file_beside_runs).transpose()?;
    let sweeps = sweep::sweeps(&args.files, args.slo, &args.prices)?;
    super::show(sweeps.text().trim_end());
    json.map_or(Ok(()), |json| json.write(&sweeps))?;
    Ok(ExitCode::SUCCESS)
}

fn parse_slo(text: &str) -> Result<Slo, String> {
    let slo = || {
        let (percentile, limit) = text.split_once('=')?;
        let percentile = percentile.strip_prefix('p')?.parse::<f64>().ok().filter(|&of| of > 0.0 && of < 100.0)?;
        let limit = humantime::parse_duration(limit).ok().filter(|limit| !limit.is_zero())?;
        Some(Slo { percentile, limit_us: limit.as_secs_f64() * 1e6 })
    };
    slo().ok_or_else(|| "give a percentile between 0 and 100 and a time with its unit, such as p99=20ms".into())
}

fn parse_price(text: &str) -> Result<Price, String> {
    let price = || {
        // A name may be a URL, which may have the sign too.
        let (target, price) = text.rsplit_once('=')?;
        let (dollars, unit) = price.split_once('/')?;
        let hours = match unit {
            "h" => 1.0,
            "month" => HOURS_PER_MONTH,
            _ => return None,
        };
        let dollars_per_hour = dollars.parse::<f64>().ok()? / hours;
        // What is beyond was not meant, and would be divided by.
        (1e-6..=1e9).contains(&dollars_per_hour).then(|| Price { target: target.into(), dollars_per_hour })
    };
    price().ok_or_else(|| "give a target's name and a price above 0, such as direct=4.64/h or direct=3400/month".into())
}
