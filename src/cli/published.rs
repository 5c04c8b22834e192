//! The commands of published figures: `published`, and `compare` against one.
//!
//! May import everything; clap's types go no further than here.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ArgMatches;

use super::CliError;
use crate::compare;
use crate::published::{self, Publication, PublishedError, Run};
use crate::report::saved;
use crate::workload::nearest;

impl From<PublishedError> for CliError {
    fn from(error: PublishedError) -> CliError {
        CliError::Run(error.to_string())
    }
}

pub(super) fn published(matches: &ArgMatches) -> Result<ExitCode, CliError> {
    let publications = published::all()?;
    match matches.subcommand() {
        Some(("show", matches)) => {
            let (publication, run) = find(&publications, name(matches, "name"))?;
            super::show(published::text::show(publication, run).trim_end());
        }
        _ => super::show(published::text::list(&publications).trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Each run of the files against the published run of a name.
pub(super) fn compare(files: &[PathBuf], name: &str) -> Result<ExitCode, CliError> {
    let publications = published::all()?;
    let (publication, run) = find(&publications, name)?;
    let run = match (run, publication.runs.as_slice()) {
        (Some(run), _) => run,
        (None, [run]) => run,
        (None, runs) => {
            let names: Vec<String> = runs.iter().map(|run| publication.full_name(run)).collect();
            return Err(CliError::usage(format!("{name} has several runs; give one of {}", names.join(", "))));
        }
    };
    let mut is_first = true;
    for file in files {
        for saved in saved::read(file).map_err(|error| CliError::Run(error.to_string()))? {
            let path = saved.path.display().to_string();
            let text = compare::published::text(&path, &saved.report, publication, run)
                .map_err(|error| CliError::usage(error.to_string()))?;
            super::show(format_args!("{}{}", if is_first { "" } else { "\n" }, text.trim_end()));
            is_first = false;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn name<'a>(matches: &'a ArgMatches, argument: &str) -> &'a str {
    matches.get_one::<String>(argument).map(String::as_str).unwrap_or_default()
}

fn find<'a>(publications: &'a [Publication], name: &str) -> Result<(&'a Publication, Option<&'a Run>), CliError> {
    published::find(publications, name).ok_or_else(|| {
        let runs = publications.iter().flat_map(|publication| {
            let full_names = publication.runs.iter().map(|run| publication.full_name(run));
            full_names.chain([publication.name.to_string()])
        });
        let names: Vec<String> = runs.collect();
        let nearest = nearest(name, names.iter().map(String::as_str));
        CliError::usage(format!("there is no published figure `{name}`{nearest}; see `oltpbench published list`"))
    })
}
