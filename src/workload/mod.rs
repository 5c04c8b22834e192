//! Workloads: a YAML file becomes a compiled plan that the engine plays.
//!
//! * [`file`]: the YAML's shape, with places; what a file takes over from the one it extends.
//! * [`expression`]: the language's small expressions.
//! * [`compile`]: module and settings become a plan.
//! * [`plan`]: what one transaction does, ready to be played; the tables.
//! * [`shape`]: what a statement means for rows, by its text.
//! * [`values`]: random numbers and texts.
//!
//! The language is described in docs/workloads.md. A leaf: must not import any other module of the crate.

mod compile;
mod expression;
mod file;
pub mod plan;
pub mod shape;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use file::{Module, Place};
use plan::Plan;
pub use values::{Random, RandomKind, RandomSettings};

/// What the OLTP workloads share; it has no transaction of its own.
const SHARED: &str = "sbtest";

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../workloads/", $name, ".yaml")))),*]
    };
}

/// The largest workload file.
const MOST_BYTES: u64 = 1 << 20;

/// Name and text of every built-in file.
const BUILTIN: [(&str, &str); 12] = builtin![
    "bulk_insert",
    "oltp_delete",
    "oltp_insert",
    "oltp_point_select",
    "oltp_read_only",
    "oltp_read_write",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_write_only",
    "select_random_points",
    "select_random_ranges",
    "sbtest",
];

#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    #[error("{place}: {message}")]
    InFile { place: Place, message: String },
    #[error("there is no workload `{name}`{nearest}; see `oltpbench workloads list`, or give a .yaml file")]
    Unknown { name: String, nearest: String },
    #[error("the workload file {path} cannot be read: {source}", path = path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{message}")]
    Settings { message: String },
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    Int(i64),
    Bool(bool),
    Text(String),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Int(value) => value.fmt(f),
            OptionValue::Bool(value) => f.write_str(if *value { "on" } else { "off" }),
            OptionValue::Text(text) => f.write_str(text),
        }
    }
}

/// An option of a workload; its type is that of its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionDefinition {
    pub name: String,
    pub default: OptionValue,
    pub min: Option<i64>,
    pub max: Option<i64>,
    /// The texts that are accepted; any if there are none.
    pub values: Option<Vec<String>>,
    pub help: String,
}

impl OptionDefinition {
    /// Reads a value as the command line gives it; the error says what is accepted.
    pub fn parse(&self, text: &str) -> Result<OptionValue, String> {
        match self.default {
            OptionValue::Bool(_) => match text.to_ascii_lowercase().as_str() {
                "on" | "true" | "yes" | "1" => Ok(OptionValue::Bool(true)),
                "off" | "false" | "no" | "0" => Ok(OptionValue::Bool(false)),
                _ => Err("use on or off".into()),
            },
            OptionValue::Int(_) => {
                let value: i64 = text.parse().map_err(|_| format!("`{text}` is not a whole number"))?;
                match (self.min, self.max) {
                    (Some(min), Some(max)) if !(min..=max).contains(&value) => {
                        Err(format!("{value} is not between {min} and {max}"))
                    }
                    (Some(min), None) if value < min => Err(format!("{value} is below {min}")),
                    (None, Some(max)) if value > max => Err(format!("{value} is above {max}")),
                    _ => Ok(OptionValue::Int(value)),
                }
            }
            OptionValue::Text(_) => match &self.values {
                Some(values) if !values.iter().any(|value| value == text) => {
                    Err(format!("`{text}` is not one of {}", values.join(", ")))
                }
                _ => Ok(OptionValue::Text(text.to_string())),
            },
        }
    }

    /// Refuses limits that do not fit the type, and a default that is outside of them.
    fn check(&self) -> Result<(), String> {
        if (self.min.is_some() || self.max.is_some()) && !matches!(self.default, OptionValue::Int(_)) {
            return Err("min and max are for options whose default is a number".into());
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            return Err(format!("min is {min}, above max, which is {max}"));
        }
        if self.values.is_some() && !matches!(self.default, OptionValue::Text(_)) {
            return Err("values are for options whose default is a text".into());
        }
        self.parse(&self.default.to_string()).map(drop)
    }

    /// This definition with what it leaves open taken from `base`. The type stays, since the base's own expressions
    /// count on it.
    fn over(&self, base: &OptionDefinition) -> Result<OptionDefinition, String> {
        if std::mem::discriminant(&self.default) != std::mem::discriminant(&base.default) {
            return Err(format!(
                "the default of `{}` must be of the type that it has so far: {}",
                self.name, base.default
            ));
        }
        let merged = OptionDefinition {
            name: self.name.clone(),
            default: self.default.clone(),
            min: self.min.or(base.min),
            max: self.max.or(base.max),
            values: self.values.clone().or_else(|| base.values.clone()),
            help: if self.help.is_empty() { base.help.clone() } else { self.help.clone() },
        };
        merged.check().map(|()| merged)
    }
}

/// What a workload is compiled with.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Values of options; one that is absent has its default.
    pub options: BTreeMap<String, OptionValue>,
    pub threads: u32,
    pub random: RandomSettings,
}

/// A workload that was read, not yet compiled.
#[derive(Clone, Debug)]
pub struct Workload {
    name: String,
    /// A file of the same name is not.
    is_builtin: bool,
    file: String,
    module: Module,
    /// Those options that the workload looks at.
    options: Vec<OptionDefinition>,
    /// The names that a run looks at.
    of_run: Vec<String>,
    sha256: String,
}

impl Workload {
    /// The built-in workloads, sorted; what they share is not listed.
    pub fn builtin_names() -> Vec<&'static str> {
        BUILTIN.iter().map(|(name, _)| *name).filter(|name| *name != SHARED).collect()
    }

    /// The text of a built-in file, that of the shared one too.
    pub fn builtin_source(name: &str) -> Option<&'static str> {
        BUILTIN.iter().find(|(builtin, _)| *builtin == name).map(|(_, text)| *text)
    }

    /// Reads a built-in workload by its name, or a file.
    pub fn load(name: &str) -> Result<Workload, WorkloadError> {
        let mut reading = Reading::default();
        let builtin = Workload::builtin_source(name).filter(|_| name != SHARED);
        let is_builtin = builtin.is_some();
        let (file, module) = match builtin {
            Some(text) => {
                let file = format!("{name}.yaml");
                (file.clone(), reading.module(&file, None, text)?)
            }
            None if is_path(name) => {
                let path = Path::new(name);
                let text =
                    read_file(path).map_err(|source| WorkloadError::Read { path: path.to_path_buf(), source })?;
                (name.to_string(), reading.module(name, Some(path), &text)?)
            }
            None => {
                let nearest = nearest(name, Workload::builtin_names().into_iter());
                return Err(WorkloadError::Unknown { name: name.into(), nearest });
            }
        };
        let of_run = compile::names_of_run(&module)?;
        let of_tables = compile::names_of_tables(&module);
        let used = |name: &String| of_run.contains(name) || of_tables.contains(name);
        let options = module.options.iter().filter(|option| used(&option.name));
        let options = options.map(|option| option.value.clone()).collect();
        let name = Path::new(name).file_stem().map_or(name.to_string(), |stem| stem.to_string_lossy().into_owned());
        Ok(Workload { name, is_builtin, file, module, options, of_run, sha256: reading.sha256() })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Of its text and the texts that it extends, in hexadecimal digits: a name says too little of a file that can change.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    pub fn is_builtin(&self) -> bool {
        self.is_builtin
    }

    /// One line on what it does.
    pub fn description(&self) -> &str {
        &self.module.description
    }

    /// Its options, in the order of the files. An option that nothing looks at is not among them.
    pub fn options(&self) -> &[OptionDefinition] {
        &self.options
    }

    /// Whether an option changes what a run does, and not only what `prepare` makes.
    pub fn matters_to_run(&self, option: &str) -> bool {
        self.of_run.iter().any(|name| name == option)
    }

    pub fn compile(&self, settings: &Settings) -> Result<Plan, WorkloadError> {
        compile::compile(&self.module, &self.file, settings)
    }
}

/// Reads a whole file, but not an endless one.
fn read_file(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MOST_BYTES {
        true => Err(std::io::Error::other("it is larger than 1 MiB")),
        false => Ok(text),
    }
}

fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml") || Path::new(name).is_file()
}

/// A workload that is being read.
#[derive(Default)]
struct Reading {
    /// The files so far, each extending the next.
    chain: Vec<String>,
    texts: Sha256,
}

impl Reading {
    /// Reads a file and all that it extends.
    fn module(&mut self, file: &str, path: Option<&Path>, text: &str) -> Result<Module, WorkloadError> {
        let real = path.and_then(|path| path.canonicalize().ok()).map(|real| real.display().to_string());
        self.chain.push(real.unwrap_or_else(|| file.to_string()));
        // With its length before it, a text cannot be taken for two.
        self.texts.update((text.len() as u64).to_le_bytes());
        self.texts.update(text);
        let file::Parsed { extends, mut module } = file::parse(file, text)?;
        if let Some((base, place)) = extends {
            let base = match Workload::builtin_source(&base) {
                Some(text) => {
                    self.refuse_circle(&format!("{base}.yaml"), &place)?;
                    self.module(&format!("{base}.yaml"), None, text)?
                }
                None if is_path(&base) => {
                    let path = path.and_then(Path::parent).unwrap_or(Path::new("")).join(&base);
                    let unreadable =
                        |error: std::io::Error| place.error(format!("{} cannot be read: {error}", path.display()));
                    // Two spellings of one path must not hide a circle.
                    let real = path.canonicalize().map_err(unreadable)?.display().to_string();
                    self.refuse_circle(&real, &place)?;
                    let text = read_file(&path).map_err(unreadable)?;
                    self.module(&path.display().to_string(), Some(&path), &text)?
                }
                None => {
                    let nearest = nearest(&base, BUILTIN.iter().map(|(name, _)| *name));
                    return Err(place.error(format!("there is no workload `{base}`{nearest}")));
                }
            };
            module.extend(base)?;
        }
        Ok(module)
    }

    fn refuse_circle(&self, file: &str, place: &Place) -> Result<(), WorkloadError> {
        match self.chain.iter().any(|known| known == file) {
            true => Err(place.error(format!("the file extends itself: {} -> {file}", self.chain.join(" -> ")))),
            false => Ok(()),
        }
    }

    fn sha256(self) -> String {
        self.texts.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// How alike two names must be, from 0 to 1, for one to be suggested for the other.
const LIKENESS: f64 = 0.75;

/// A question to be put behind what is said of a wrong name, ` (did you mean ...?)`; empty if no candidate looks like it.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let likeness = |candidate: &&str| strsim::jaro_winkler(name, candidate);
    let best = candidates.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match best.filter(|best| likeness(best) >= LIKENESS) {
        Some(best) => format!(" (did you mean `{best}`?)"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
