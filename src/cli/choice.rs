//! The workload and profile that a command line chooses, and the options that these bring.
//!
//! In names of options `-` and `_` are the same. A profile changes defaults before the command line is read, so anything given
//! wins over it. clap's types go no further than here.

use std::collections::BTreeMap;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches};

use super::CliError;
use super::advice::SYSBENCH_ALIASES;
use super::options::RandomArgs;
use super::profile::{self, Profile};
use crate::report;
use crate::spec::RunSpec;
use crate::workload::{OptionDefinition, OptionValue, Settings, Workload, nearest};

/// The workload and profile a command line chooses. They are found before the rest is read, since they decide which
/// options there are and what their defaults are.
pub(super) struct Choice {
    pub(super) workload: Workload,
    pub(super) profile: Option<&'static Profile>,
}

impl Choice {
    pub(super) fn of(args: &[String]) -> Result<Choice, CliError> {
        let name = match (value_of(args, "--workload"), value_of(args, "--mode")) {
            (Some(workload), _) if modes().iter().any(|(mode, _)| *mode == workload) => workload_of_mode(&workload)?,
            (Some(workload), _) => workload,
            (None, mode) => workload_of_mode(mode.as_deref().unwrap_or("read-only"))?,
        };
        if Path::new(&name).extension().is_some_and(|extension| extension == "lua") {
            return Err(CliError::usage(format!(
                "{name} is a script of sysbench, which oltpbench does not run; those of OLTP are built in by their names \
                 (`oltpbench workloads list`), and docs/workloads.md says how to write others as YAML"
            )));
        }
        let workload = Workload::load(&name).map_err(|error| CliError::usage(error.to_string()))?;
        let profile = match value_of(args, "--profile") {
            Some(_) if !workload.is_builtin() => {
                return Err(CliError::usage(format!(
                    "--profile is for built-in workloads, and {name} is a file of yours"
                )));
            }
            Some(profile) => Some(profile::find(&profile, workload.name())?),
            None => None,
        };
        Ok(Choice { workload, profile })
    }

    fn profile_value(&self, option: &str) -> Option<&'static str> {
        let values = self.profile?.values;
        values.iter().find(|(name, _)| *name == option).map(|(_, value)| *value)
    }

    /// Adds the workload's options to a command, and lets the profile change its defaults.
    pub(super) fn extend(&self, mut command: Command) -> Result<Command, CliError> {
        let heading = format!("Options of workload {}", self.workload.name());
        let fixed: Vec<String> = command.get_arguments().map(|arg| arg.get_id().to_string()).collect();
        for id in &fixed {
            // A profile's threads are those of a run; a load is as fast with a few.
            if id == "threads" && !matches!(command.get_name(), "run" | "check") {
                continue;
            }
            if let Some(value) = self.profile_value(&id.replace('_', "-")) {
                command = command.mut_arg(id, |arg| arg.default_value(value));
            }
        }
        command = command.next_help_heading(heading);
        for definition in self.workload.options() {
            let is_alias =
                |(theirs, _): &(&str, &str)| theirs.trim_start_matches('-').replace('-', "_") == definition.name;
            if fixed.contains(&definition.name)
                || SYSBENCH_ALIASES.iter().any(is_alias)
                || matches!(definition.name.as_str(), "help" | "version")
            {
                return Err(CliError::usage(format!(
                    "workload {} has an option `{}`, which oltpbench has itself; give it another name",
                    self.workload.name(),
                    definition.name
                )));
            }
            command = command.arg(self.option(definition));
        }
        // A negative number is a wrong value, not an unknown option.
        Ok(command.mut_args(|arg| match arg.get_action() {
            clap::ArgAction::SetTrue => arg,
            _ => arg.allow_negative_numbers(true),
        }))
    }

    fn option(&self, definition: &OptionDefinition) -> Arg {
        let long = definition.name.replace('_', "-");
        let default = self.profile_value(&long).map_or_else(|| definition.default.to_string(), str::to_string);
        let parser = definition.clone();
        let arg = Arg::new(knob_id(&definition.name))
            .long(long)
            .help(definition.help.clone() + &accepted(definition))
            .default_value(default)
            .value_parser(move |text: &str| parser.parse(text));
        match &definition.default {
            // As in sysbench, a switch alone turns it on.
            OptionValue::Bool(_) => arg.value_name("on|off").num_args(0..=1).default_missing_value("on"),
            OptionValue::Int(_) => arg.value_name("N"),
            OptionValue::Text(_) => arg.value_name("TEXT"),
        }
    }

    /// What the workload is compiled with.
    pub(super) fn settings(&self, matches: &ArgMatches, threads: u32) -> Result<Settings, CliError> {
        let random = RandomArgs::from_arg_matches(matches).map_err(CliError::Clap)?;
        let mut options = BTreeMap::new();
        for definition in self.workload.options() {
            if let Some(value) = matches.get_one::<OptionValue>(&knob_id(&definition.name)) {
                options.insert(definition.name.clone(), value.clone());
            }
        }
        Ok(Settings { options, threads, random: random.settings() })
    }

    /// The workload's options with their values and where each came from. Those that only `prepare` looks at are among
    /// them if they were given: a run accepts them, as sysbench does, but takes the tables as they are.
    pub(super) fn reported_options(&self, matches: &ArgMatches) -> Vec<report::WorkloadOption> {
        let report = |definition: &OptionDefinition| {
            let id = knob_id(&definition.name);
            let value = matches.get_one::<OptionValue>(&id).unwrap_or(&definition.default);
            let source = match matches.value_source(&id) {
                Some(ValueSource::CommandLine) => "command line",
                _ if self.profile_value(&definition.name.replace('_', "-")).is_some() => "profile",
                _ => "default",
            };
            report::WorkloadOption {
                name: definition.name.clone(),
                value: value.to_string(),
                source: source.to_string(),
                of_prepare_only: !self.workload.matters_to_run(&definition.name),
            }
        };
        let options = self.workload.options().iter().map(report);
        options.filter(|option| !option.of_prepare_only || option.source == "command line").collect()
    }

    /// The profile, and what the command line changed of it in this run.
    pub(super) fn reported_profile(&self, matches: &ArgMatches, spec: &RunSpec) -> Option<report::Profile> {
        let profile = self.profile?;
        let value = |option: &str| match option {
            // Those that an experiment varies, and those that --rate-steps sets.
            "threads" => Some(spec.threads.to_string()),
            "time" => Some(spec.time.unwrap_or_default().as_secs_f64().to_string()),
            "rate" => {
                let steps = spec.open_loop.iter().flat_map(|open_loop| &open_loop.steps);
                let rates: Vec<String> = steps.map(|step| step.rate.to_string()).collect();
                Some(if rates.is_empty() { "0".to_string() } else { rates.join(", ") })
            }
            _ => given_value(matches, &option.replace('-', "_")),
        };
        let changed = profile.values.iter().filter_map(|(option, profile_value)| {
            let value = value(option).filter(|value| !is_same(value, profile_value))?;
            let (option, profile_value) = (option.replace('-', "_"), profile_value.to_string());
            Some(report::ProfileChange { option, value, profile_value })
        });
        Some(report::Profile { name: profile.name.to_string(), changed: changed.collect() })
    }
}

/// What an option accepts, as clap writes it behind the help of its own options.
fn accepted(definition: &OptionDefinition) -> String {
    match (&definition.values, definition.min, definition.max) {
        (Some(values), ..) => format!(" [possible values: {}]", values.join(", ")),
        (None, Some(min), Some(max)) => format!(" [{min} to {max}]"),
        (None, Some(min), None) => format!(" [{min} or more]"),
        (None, None, Some(max)) => format!(" [{max} at most]"),
        (None, None, None) => String::new(),
    }
}

/// An option's value as text, whether it is one of the workload or one of the run.
fn given_value(matches: &ArgMatches, name: &str) -> Option<String> {
    // A switch has several spellings, such as `off` and `no`, so its value counts, not its text.
    let of_workload = matches.try_get_one::<OptionValue>(&knob_id(name)).ok().flatten();
    let of_run = || matches.try_get_raw(name).ok().flatten()?.next().map(|raw| raw.to_string_lossy().into_owned());
    of_workload.map(OptionValue::to_string).or_else(of_run)
}

/// Whether two texts have the same value: a number has several spellings.
fn is_same(a: &str, b: &str) -> bool {
    a == b || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
}

/// A workload's option has an id of its own, so that it cannot clash with a field of the fixed options.
fn knob_id(name: &str) -> String {
    format!("workload:{name}")
}

/// Makes `--table_size` into `--table-size`, in the name only.
pub(super) fn dashed(arg: String) -> String {
    match arg.strip_prefix("--") {
        Some(rest) => {
            let (name, value) = match rest.split_once('=') {
                Some((name, value)) => (name, format!("={value}")),
                None => (rest, String::new()),
            };
            format!("--{}{value}", name.replace('_', "-"))
        }
        None => arg,
    }
}

fn value_of(args: &[String], option: &str) -> Option<String> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.strip_prefix(option) {
            Some("") => return args.next().cloned(),
            Some(value) if value.starts_with('=') => return Some(value[1..].to_string()),
            _ => {}
        }
    }
    None
}

/// The modes, and the workloads that they are short for.
pub(super) fn modes() -> Vec<(String, String)> {
    let mode = |workload: &str| workload.strip_prefix("oltp_").unwrap_or(workload).replace('_', "-");
    Workload::builtin_names().into_iter().map(|workload| (mode(workload), workload.to_string())).collect()
}

fn mode_names() -> String {
    modes().into_iter().map(|(mode, _)| mode).collect::<Vec<_>>().join(", ")
}

pub(super) fn mode_help() -> String {
    format!(
        "Short for a workload: read-only is oltp_read_only, and so on [default: read-only] [possible values: {}]",
        mode_names()
    )
}

fn workload_of_mode(mode: &str) -> Result<String, CliError> {
    let dashed = mode.replace('_', "-");
    let modes = modes();
    if let Some((_, workload)) = modes.iter().find(|(short, workload)| *short == dashed || workload == mode) {
        return Ok(workload.clone());
    }
    let nearest = nearest(&dashed, modes.iter().map(|(short, _)| short.as_str()));
    Err(CliError::usage(format!(
        "there is no mode `{mode}`{nearest}; modes: {}; own workloads go by --workload",
        mode_names()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn underscores_in_option_names_become_dashes_and_values_stay() {
        assert_eq!(dashed("--table_size=1_0".into()), "--table-size=1_0");
        assert_eq!(dashed("--skip_trx".into()), "--skip-trx");
        assert_eq!(dashed("oltp_read_only".into()), "oltp_read_only");
    }

    #[test]
    fn an_early_option_is_found_in_both_spellings() {
        let args = ["run", "--mode=read-write", "--profile", "x"].map(String::from);
        assert_eq!(value_of(&args, "--mode").as_deref(), Some("read-write"));
        assert_eq!(value_of(&args, "--profile").as_deref(), Some("x"));
        assert_eq!(value_of(&args, "--workload"), None);
    }

    #[test]
    fn an_unknown_mode_names_the_nearest() {
        let error = workload_of_mode("raed-only").unwrap_err().to_string();
        assert!(error.contains("did you mean `read-only`?"), "{error}");
        assert_eq!(workload_of_mode("read_write").unwrap(), "oltp_read_write");
    }
}
