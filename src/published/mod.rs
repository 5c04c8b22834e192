//! Published figures: what others measured, with the set-up that they told of, as files that are part of the program.
//!
//! Invariants: every field of a file is there, and what its source does not tell is `not stated`, so nothing is left
//! out unseen. A figure keeps the digits of its source.
//!
//! * [`text`]: what `oltpbench published` shows.
//!
//! A leaf: must not import any other module of the crate.

pub mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../published/", $name, ".yaml")))),*]
    };
}

/// Name and text of every file, in the order in which they are listed.
const FILES: [(&str, &str); 13] = files![
    "aurora-2015",
    "aurora-2017-peak",
    "aurora-2017-data-size",
    "aurora-2017-connections",
    "aurora-2017-replica-lag",
    "aurora-2017-tpcc",
    "cloudsql-article",
    "hackmysql-2023",
    "percona-2016",
    "polardb-8.0.1",
    "tidb-6.2",
    "tidb-8.1",
    "tidb-8.5",
];

#[derive(Debug, thiserror::Error)]
#[error("published/{file}.yaml, which is part of oltpbench, is broken ({reason}); report it")]
pub struct PublishedError {
    file: &'static str,
    reason: String,
}

/// One file: the runs of one table or text of a source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    #[serde(skip)]
    pub name: &'static str,
    pub source: Source,
    /// How the figures came from the source into the file, and what speaks for or against them.
    pub how_sure: String,
    pub columns: Vec<Column>,
    pub runs: Vec<Run>,
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub title: String,
    pub by: String,
    pub date: Stated<String>,
    pub address: Stated<String>,
}

/// What the figures of a column are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    pub name: String,
    pub unit: String,
    /// Such as a mean over the run, or a percentile.
    pub statistic: String,
    pub meaning: Meaning,
    /// How the figures of several clients make the one of all.
    pub over_clients: OverClients,
}

/// What a published figure counts or times, and so which of a run's figures it may be held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    Transactions,
    /// The "read/write requests" that sysbench 0.5 prints.
    Sysbench05Requests,
    /// The "queries" that sysbench 1.0 prints.
    Sysbench10Queries,
    /// Statements of other tools without BEGIN and COMMIT, and with them.
    DataStatements,
    AllStatements,
    ReadStatements,
    WriteStatements,
    TransactionMinMs,
    TransactionMeanMs,
    TransactionP95Ms,
    TransactionMaxMs,
    /// Nothing that a run of oltpbench measures.
    NoCounterpart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverClients {
    Sum,
    Lowest,
    Highest,
    /// They cannot be put together, as percentiles, or there was one.
    None,
}

/// One measurement; its values are by the names of columns.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub name: String,
    pub setup: Setup,
    pub values: BTreeMap<String, Figure>,
    /// Those of each client machine, where they were published.
    pub by_client: Vec<BTreeMap<String, Figure>>,
}

/// How a run was made. Names and forms are those that a report of oltpbench has for the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    pub server: Stated<String>,
    pub server_machine: Stated<String>,
    pub server_settings: Stated<String>,
    /// Such as a proxy.
    pub path: Stated<String>,
    pub encryption: Stated<String>,
    pub client_machine: Stated<String>,
    pub client_vcpus: Stated<u64>,
    pub client_place: Stated<String>,
    pub clients: Stated<u64>,
    /// Of each client.
    pub threads: Stated<u64>,
    pub pacing: Stated<String>,
    pub tool: Stated<String>,
    pub protocol: Stated<String>,
    pub workload: Stated<String>,
    /// Those of one transaction, such as `BEGIN, 10 point_select, COMMIT`.
    pub statements: Stated<String>,
    pub tables: Stated<u64>,
    pub table_size: Stated<u64>,
    pub table_drawn: Stated<String>,
    pub rand_type: Stated<String>,
    pub time_s: Stated<u64>,
    pub warmup_s: Stated<u64>,
    pub options: Vec<String>,
}

/// What a source tells, or that it does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stated<T> {
    Is(T),
    Not,
}

const NOT_STATED: &str = "not stated";

impl<T> Stated<T> {
    pub fn get(&self) -> Option<&T> {
        match self {
            Stated::Is(value) => Some(value),
            Stated::Not => None,
        }
    }
}

impl<T: fmt::Display> fmt::Display for Stated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stated::Is(value) => value.fmt(f),
            Stated::Not => f.write_str(NOT_STATED),
        }
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Stated<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.trim() {
            "" => Err(D::Error::custom("empty; write `not stated`")),
            NOT_STATED => Ok(Stated::Not),
            stated => stated.parse().map(Stated::Is).map_err(D::Error::custom),
        }
    }
}

/// A number with the digits of its source, which a float would not keep; `< 1000` is one that is not known better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    digits: String,
}

impl Figure {
    /// `None` for a bound.
    pub fn value(&self) -> Option<f64> {
        self.digits.parse().ok()
    }

    /// As it was published, with its thousands apart.
    pub fn grouped(&self) -> String {
        let (whole, decimals) = self.digits.split_at(self.digits.find('.').unwrap_or(self.digits.len()));
        let mut grouped = String::new();
        for (at, character) in whole.char_indices() {
            let in_number = whole[..at].ends_with(|before: char| before.is_ascii_digit());
            if in_number && (whole.len() - at) % 3 == 0 {
                grouped.push(',');
            }
            grouped.push(character);
        }
        grouped + decimals
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let number = digits.strip_prefix("< ").unwrap_or(&digits);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match are_digits(whole) && are_digits(decimals) {
            true => Ok(Figure { digits }),
            false => Err(D::Error::custom(format!("`{digits}` is no number of plain digits"))),
        }
    }
}

impl Setup {
    /// Name and value of each field but the options.
    fn fields(&self) -> [(&'static str, String); 21] {
        [
            ("server", self.server.to_string()),
            ("server's machine", self.server_machine.to_string()),
            ("server's settings", self.server_settings.to_string()),
            ("path", self.path.to_string()),
            ("encryption", self.encryption.to_string()),
            ("client's machine", self.client_machine.to_string()),
            ("client's vCPUs", self.client_vcpus.to_string()),
            ("client's place", self.client_place.to_string()),
            ("clients", self.clients.to_string()),
            ("threads a client", self.threads.to_string()),
            ("pacing", self.pacing.to_string()),
            ("tool", self.tool.to_string()),
            ("protocol", self.protocol.to_string()),
            ("workload", self.workload.to_string()),
            ("statements", self.statements.to_string()),
            ("tables", self.tables.to_string()),
            ("table size", self.table_size.to_string()),
            ("table drawn", self.table_drawn.to_string()),
            ("random ids", self.rand_type.to_string()),
            ("duration (s)", self.time_s.to_string()),
            ("warm-up (s)", self.warmup_s.to_string()),
        ]
    }
}

impl Publication {
    pub fn full_name(&self, run: &Run) -> String {
        format!("{}/{}", self.name, run.name)
    }

    fn check(&self) -> Result<(), String> {
        let columns: BTreeSet<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let runs: BTreeSet<&str> = self.runs.iter().map(|run| run.name.as_str()).collect();
        if columns.len() < self.columns.len() || runs.len() < self.runs.len() || runs.is_empty() {
            return Err("no runs, or two columns or runs of one name".into());
        }
        for run in &self.runs {
            let rows = run.by_client.iter().chain([&run.values]);
            if let Some(name) = rows.flat_map(BTreeMap::keys).find(|name| !columns.contains(name.as_str())) {
                return Err(format!("run {} has a value of `{name}`, which is no column", run.name));
            }
            if run.values.is_empty() || run.setup.options.is_empty() {
                return Err(format!("run {} has no values or no options", run.name));
            }
        }
        Ok(())
    }
}

fn parse(file: &'static str, yaml: &str) -> Result<Publication, PublishedError> {
    let broken = |reason: String| PublishedError { file, reason };
    let publication: Publication = serde_saphyr::from_str(yaml).map_err(|error| broken(error.to_string()))?;
    publication.check().map_err(broken)?;
    Ok(Publication { name: file, ..publication })
}

/// Every publication.
pub fn all() -> Result<Vec<Publication>, PublishedError> {
    FILES.iter().map(|(file, yaml)| parse(file, yaml)).collect()
}

/// A publication by its name, or a run of it by `publication/run`.
pub fn find<'a>(publications: &'a [Publication], name: &str) -> Option<(&'a Publication, Option<&'a Run>)> {
    let (file, run) = name.split_once('/').map_or((name, None), |(file, run)| (file, Some(run)));
    let publication = publications.iter().find(|publication| publication.name == file)?;
    match run {
        None => Some((publication, None)),
        Some(name) => Some((publication, Some(publication.runs.iter().find(|run| run.name == name)?))),
    }
}
