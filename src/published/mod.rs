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
    /// Name and value of each field.
    fn fields(&self) -> [(&'static str, String); 22] {
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
            ("options", self.options.join("\n")),
        ]
    }
}

impl Source {
    /// In one line, without the address.
    pub fn cited(&self) -> String {
        let date = self.date.get().map(|date| format!(", {date}")).unwrap_or_default();
        format!("{}; {}{date}", self.title, self.by)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Digits without their point, at a number of decimals.
    fn scaled(figure: &Figure, decimals: usize) -> u64 {
        let (whole, rest) = figure.digits.split_once('.').unwrap_or((&figure.digits, ""));
        format!("{whole}{rest:0<decimals$}").parse().unwrap()
    }

    fn decimals(figure: &Figure) -> usize {
        figure.digits.split_once('.').map_or(0, |(_, decimals)| decimals.len())
    }

    #[test]
    fn what_clients_published_adds_up_to_what_all_did() {
        let mut compared = 0;
        for publication in all().unwrap() {
            for run in publication.runs.iter().filter(|run| !run.by_client.is_empty()) {
                assert_eq!(
                    run.setup.clients.get(),
                    Some(&(run.by_client.len() as u64)),
                    "{}",
                    publication.full_name(run)
                );
                for column in &publication.columns {
                    let clients: Vec<&Figure> = run.by_client.iter().map(|client| &client[&column.name]).collect();
                    let places = clients.iter().map(|figure| decimals(figure)).max().unwrap();
                    let values = clients.iter().map(|figure| scaled(figure, places));
                    let expected = match column.over_clients {
                        OverClients::Sum => values.sum(),
                        OverClients::Lowest => values.min().unwrap(),
                        OverClients::Highest => values.max().unwrap(),
                        OverClients::None => {
                            assert_eq!(run.values.get(&column.name), None, "{}", column.name);
                            continue;
                        }
                    };
                    let all = scaled(&run.values[&column.name], places);
                    assert_eq!(all, expected, "{} {}", publication.full_name(run), column.name);
                    compared += 1;
                }
            }
        }
        assert_eq!(compared, 2 * 6);
    }

    /// Reads and writes of one transaction; those between BEGIN and COMMIT.
    fn data_statements(statements: &str) -> f64 {
        let counts = statements.split(", ").filter_map(|part| part.split_once(' '));
        counts.map(|(count, _)| count.parse::<f64>().unwrap()).sum()
    }

    #[test]
    fn rates_of_one_run_agree_with_the_statements_of_its_transactions() {
        let mut compared = 0;
        for publication in all().unwrap() {
            let of = |row: &BTreeMap<String, Figure>, wanted: &[Meaning]| {
                let column = publication.columns.iter().find(|column| wanted.contains(&column.meaning))?;
                row.get(&column.name)?.value()
            };
            for run in &publication.runs {
                let Some(statements) = run.setup.statements.get() else { continue };
                for row in run.by_client.iter().chain([&run.values]) {
                    let Some(tps) = of(row, &[Meaning::Transactions]) else { continue };
                    let data = data_statements(statements);
                    let around = if statements.starts_with("BEGIN") { 2.0 } else { 0.0 };
                    let name = publication.full_name(run);
                    // Sums that were added up by hand from windows that did not match are 0.25 % apart.
                    let mut agree = |rate: Option<f64>, each: f64| {
                        let Some(rate) = rate else { return };
                        assert!((rate / tps / each - 1.0).abs() < 0.003, "{name}: {rate} is not {each} x {tps}");
                        compared += 1;
                    };
                    agree(
                        of(row, &[Meaning::Sysbench05Requests, Meaning::DataStatements, Meaning::WriteStatements]),
                        data,
                    );
                    agree(of(row, &[Meaning::Sysbench10Queries, Meaning::AllStatements]), data + around);
                    // Little's law: a closed loop without think time.
                    let in_flight = of(row, &[Meaning::TransactionMeanMs]).map(|mean| mean * tps / 1e3);
                    if let (Some(in_flight), Some(threads)) = (in_flight, run.setup.threads.get()) {
                        assert!((in_flight / *threads as f64 - 1.0).abs() < 0.003, "{name}: {in_flight} of {threads}");
                        compared += 1;
                    }
                }
            }
        }
        assert!(compared > 30, "{compared}");
    }

    #[test]
    fn a_field_that_is_missing_misspelt_or_empty_is_refused() {
        for (file, yaml) in FILES {
            let lines: Vec<&str> = yaml.lines().collect();
            let first_setup = lines.iter().position(|line| line.contains("setup: &")).unwrap() + 1;
            let options = lines.iter().position(|line| line.starts_with("      options:")).unwrap();
            let fields: Vec<usize> = (1..5).chain(first_setup..options).collect();
            assert_eq!(fields.len(), 4 + 21, "{file}");
            for at in fields {
                let changed = |line: Option<String>| {
                    let mut changed: Vec<String> = lines.iter().map(|line| line.to_string()).collect();
                    changed.splice(at..=at, line);
                    parse(file, &changed.join("\n"))
                };
                assert!(changed(Some(lines[at].into())).is_ok());
                assert!(changed(None).is_err(), "{file} without {}", lines[at]);
                let (key, _) = lines[at].split_once(": ").unwrap();
                assert!(changed(Some(format!("{key}s: 1"))).is_err(), "{file}: {key}s");
                // Title and author are always known.
                assert!(at < 3 || changed(Some(format!("{key}: ''"))).is_err(), "{file}: {key} is empty");
            }
        }
    }

    #[test]
    fn a_source_is_an_address_that_can_be_opened_or_is_said_to_be_unknown() {
        for publication in all().unwrap() {
            let address = publication.source.address.get();
            assert!(address.is_none_or(|address| address.starts_with("https://") && !address.contains(' ')));
            assert!(publication.how_sure.starts_with("Confirmed"), "{}", publication.name);
            assert_eq!(address.is_none(), publication.name == "cloudsql-article");
        }
    }

    #[test]
    fn a_figure_keeps_its_digits_and_nothing_else_is_one() {
        let figure = |text: &str| serde_saphyr::from_str::<Figure>(text);
        for (digits, shown) in
            [("535164.20", "535,164.20"), ("100", "100"), ("1000", "1,000"), ("< 1000", "< 1,000"), ("< 100", "< 100")]
        {
            assert_eq!(figure(digits).unwrap().grouped(), shown);
        }
        assert_eq!(figure("2.00").unwrap().value(), Some(2.0));
        assert_eq!(figure("< 1000").unwrap().value(), None);
        for wrong in ["1,000", "1e3", "-1", ".5", "5.", "about 5", "0x10", "nan", "''", "1.2.3"] {
            assert!(figure(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_finds_a_publication_or_a_run_of_it() {
        let publications = all().unwrap();
        let found = |name: &str| find(&publications, name).map(|(of, run)| (of.name, run.map(|run| run.name.as_str())));
        assert_eq!(found("aurora-2015"), Some(("aurora-2015", None)));
        assert_eq!(found("aurora-2015/read"), Some(("aurora-2015", Some("read"))));
        assert_eq!([found("aurora"), found("aurora-2015/"), found("aurora-2015/x"), found("")], [None; 4]);
    }
}
