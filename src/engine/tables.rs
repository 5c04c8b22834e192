//! A plan's tables as they are in a database: which there are, and whether they suit a run.
//!
//! Must not import: `metrics`, `report`, `cli`.

use std::collections::HashMap;

use super::EngineError;
use crate::target::check::{Check, Level};
use crate::target::{Control, Dialect};
use crate::workload::plan::{ColumnType, Key, Plan, TableSet};

/// Tables asked about in one query.
const TABLES_PER_QUERY: usize = 100;
const CODE: &str = "tables";
/// How tables are made anew. prepare and cleanup have to be told which, as the run was.
const ANEW: &str = "`oltpbench cleanup` and `oltpbench prepare` with this run's --mode or --workload and its options of tables (bulk_insert: --threads) make them anew";

/// One table of a set.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) set: &'a TableSet,
    pub(super) number: u32,
}

impl Table<'_> {
    pub(super) fn name(&self) -> String {
        self.set.table_name(self.number)
    }
}

pub(super) fn tables(plan: &Plan) -> Vec<Table<'_>> {
    plan.tables.iter().flat_map(|set| (1..=set.count).map(move |number| Table { set, number })).collect()
}

/// The column that holds a row's id: the first of the table's key.
pub(super) fn key_column(set: &TableSet) -> &str {
    match &set.key {
        Key::Primary(columns) | Key::Plain { columns, .. } => &columns[0],
    }
}

/// Those that exist, by name, with their columns as far as this user may see them.
pub(super) fn existing(
    control: &mut dyn Control,
    dialect: Dialect,
    plan: &Plan,
) -> Result<HashMap<String, Vec<String>>, EngineError> {
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    for chunk in tables(plan).chunks(TABLES_PER_QUERY) {
        for row in query(control, &dialect.existing_columns(&names(chunk)), || "listing tables".into())? {
            if let [Some(table), column, ..] = row.as_slice() {
                found.entry(table.clone()).or_default().extend(column.clone());
            }
        }
    }
    Ok(found)
}

/// Names of those that are views.
pub(super) fn views(control: &mut dyn Control, dialect: Dialect, plan: &Plan) -> Result<Vec<String>, EngineError> {
    let mut found = Vec::new();
    for chunk in tables(plan).chunks(TABLES_PER_QUERY) {
        let rows = query(control, &dialect.views(&names(chunk)), || "listing views".into())?;
        found.extend(rows.into_iter().flatten().flatten());
    }
    Ok(found)
}

/// Whether every table is there and of the plan's shape, holds the ids that a run will ask for, and has its indexes:
/// without them a run would measure full scans.
pub(super) fn check(control: &mut dyn Control, dialect: Dialect, plan: &Plan) -> Result<Check, EngineError> {
    if let Some(check) = not_counted(dialect, plan) {
        return Ok(check);
    }
    if let Some(check) = missing(control, dialect, plan)? {
        return Ok(check);
    }
    if let Some(check) = wrong_size(control, plan)? {
        return Ok(check);
    }
    if let Some(check) = missing_index(control, dialect, plan)? {
        return Ok(check);
    }
    let sets = plan.tables.iter().map(|set| match plan.resizes_tables {
        true => format!("{} {}", set.count, set.name),
        false => format!("{} {} of {} rows", set.count, set.name, set.rows),
    });
    Ok(Check::ok(CODE, format!("all tables are there with their indexes: {}", sets.collect::<Vec<_>>().join(", "))))
}

/// The first table that is not there, or is another workload's.
pub(super) fn missing(control: &mut dyn Control, dialect: Dialect, plan: &Plan) -> Result<Option<Check>, EngineError> {
    let found = existing(control, dialect, plan)?;
    let all = names(&tables(plan));
    let missing: Vec<&String> = all.iter().filter(|name| !found.contains_key(*name)).collect();
    // Beside tables that are there already prepare makes none.
    let advice = match missing.len() == all.len() {
        true => "run `oltpbench prepare` with the options of this run first".into(),
        false => format!(
            "give the number of tables that were prepared; if prepare was interrupted or there are too few, {ANEW}"
        ),
    };
    let missing = missing.first().map(|name| {
        Check::new(
            Level::Fatal,
            CODE,
            format!("table {name} is missing ({} of {} tables)", missing.len(), all.len()),
            advice,
        )
    });
    Ok(of_another(plan, &found).or(missing))
}

/// The first table that has other columns than the plan's. Names such as sbtest1 are those of several workloads, and
/// what one of them made must not be taken for what another needs, or be dropped for it.
pub(super) fn of_another(plan: &Plan, found: &HashMap<String, Vec<String>>) -> Option<Check> {
    tables(plan).iter().find_map(|table| {
        let there = found.get(&table.name())?;
        if there.is_empty() {
            return Some(Check::new(
                Level::Fatal,
                CODE,
                format!("table {} is there, but this user may not see its columns", table.name()),
                "grant SELECT, INSERT, UPDATE, DELETE, CREATE, DROP and INDEX on the database to this user, or use another",
            ));
        }
        let wanted: Vec<&str> = table.set.columns.iter().map(|column| column.name.as_str()).collect();
        let same = there.len() == wanted.len() && there.iter().zip(&wanted).all(|(a, b)| a.eq_ignore_ascii_case(b));
        (!same).then(|| {
            Check::new(
                Level::Fatal,
                CODE,
                format!("table {} has the columns {}, not {}", table.name(), there.join(", "), wanted.join(", ")),
                "it is not this workload's: drop it if it may go, by `oltpbench cleanup` with the --workload that made it or by DROP TABLE, or use another database",
            )
        })
    })
}

/// A table whose new rows should get the next number, where SQLite gives none: only its row id counts up.
pub(super) fn not_counted(dialect: Dialect, plan: &Plan) -> Option<Check> {
    let counts = |set: &TableSet| {
        let mut automatic = set.columns.iter().filter(|column| column.auto_increment);
        automatic.all(|column| dialect.row_id(set) == Some(&column.name))
    };
    let set = plan.tables.iter().find(|set| dialect == Dialect::Sqlite && plan.numbers_by_server() && !counts(set))?;
    Some(Check::new(
        Level::Fatal,
        CODE,
        format!("SQLite gives new rows of {} no number, as their key is not primary", set.name),
        "leave out --secondary, or measure a MySQL or MariaDB server",
    ))
}

/// A table whose ids would not fit in their column as prepare makes it: a server's INTEGER has 32 bits, SQLite's has 64.
pub(super) fn too_many_rows(dialect: Dialect, plan: &Plan) -> Option<Check> {
    let most = i32::MAX.unsigned_abs();
    let cannot = |set: &&TableSet| {
        let mut columns = set.columns.iter();
        let is_integer = columns.any(|column| column.name == key_column(set) && column.kind == ColumnType::Integer);
        is_integer && set.rows > u64::from(most)
    };
    let set = plan.tables.iter().find(|set| dialect == Dialect::MySql && cannot(set))?;
    let id = key_column(set);
    Some(Check::new(
        Level::Fatal,
        CODE,
        format!("{} cannot have {} rows: an INTEGER such as its {id} ends at {most}", set.name, set.rows),
        "give a smaller --table-size, and more --tables",
    ))
}

/// The first table whose ids are not those that a run needs. A workload that resizes its tables takes any, but those that
/// it fills itself from the first id on.
fn wrong_size(control: &mut dyn Control, plan: &Plan) -> Result<Option<Check>, EngineError> {
    let mut tables = tables(plan);
    tables.retain(|table| !plan.resizes_tables || table.set.rows == 0 && !plan.numbers_by_server());
    for chunk in tables.chunks(TABLES_PER_QUERY) {
        let parts = chunk.iter().map(|table| {
            let (name, key) = (table.name(), key_column(table.set));
            format!("SELECT '{name}', MIN({key}), MAX({key}) FROM {name}")
        });
        let sql = parts.collect::<Vec<_>>().join(" UNION ALL ");
        let rows = query(control, &sql, || "reading table sizes".into())?;
        // UNION ALL promises no order, but each row names its table.
        for table in chunk {
            let row = rows.iter().find(|row| row.first().and_then(Option::as_deref) == Some(&table.name()));
            let id = |column: usize| row.and_then(|row| row.get(column)).and_then(Option::as_deref);
            let wrong = wrong_ids(table, id(1), id(2));
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
    }
    Ok(None)
}

/// What is wrong with a table whose first and last id are these.
pub(super) fn wrong_ids(table: &Table<'_>, first: Option<&str>, last: Option<&str>) -> Option<Check> {
    let rows = table.set.rows;
    let wanted = (Some("1".to_string()), Some(rows.to_string()));
    let found = (first.map(str::to_string), last.map(str::to_string));
    if rows == 0 && found == (None, None) || rows > 0 && found == wanted {
        return None;
    }
    let range = |range: (Option<String>, Option<String>)| match range {
        (Some(first), Some(last)) => format!("ids {first} to {last}"),
        _ => "no rows".to_string(),
    };
    if rows == 0 {
        return Some(Check::new(
            Level::Fatal,
            CODE,
            format!("{} holds {}, but must be empty", table.name(), range(found)),
            format!("a run of this workload begins with empty tables; {ANEW}"),
        ));
    }
    let wanted = range(wanted);
    let last = last.and_then(|last| last.parse::<i128>().ok());
    let cause = match last {
        None => "prepare was interrupted",
        Some(last) if last > i128::from(rows) => "a workload that adds rows (such as insert) ran on it",
        Some(_) => "prepare was interrupted or a workload that removes rows (such as delete) ran on it",
    };
    Some(Check::new(
        Level::Fatal,
        CODE,
        format!("{} holds {}, but {wanted} are expected", table.name(), range(found)),
        format!("give the options it was prepared with; if {cause}, {ANEW}"),
    ))
}

/// The first table that lacks an index which the plan gives it, as an interrupted prepare leaves them.
fn missing_index(control: &mut dyn Control, dialect: Dialect, plan: &Plan) -> Result<Option<Check>, EngineError> {
    let mut indexed: HashMap<String, Vec<String>> = HashMap::new();
    let tables = tables(plan);
    let what = || "listing indexes".into();
    let flag = match dialect.index_flag() {
        Some(sql) => query(control, sql, what)?.into_iter().flatten().next().flatten(),
        None => None,
    };
    for chunk in tables.chunks(TABLES_PER_QUERY) {
        for row in query(control, &dialect.indexes(&names(chunk), flag.as_deref()), what)? {
            if let [Some(table), Some(columns)] = row.as_slice() {
                indexed.entry(table.clone()).or_default().push(columns.clone());
            }
        }
    }
    let lacking = tables.iter().filter_map(|table| {
        let there = indexed.remove(&table.name()).unwrap_or_default();
        let wanted = wanted_indexes(table.set, dialect);
        Some((table.name(), wanted.into_iter().find(|columns| !there.iter().any(|index| serves(index, columns)))?))
    });
    let lacking: Vec<(String, String)> = lacking.collect();
    Ok(lacking.first().map(|(table, columns)| {
        Check::new(
            Level::Fatal,
            "index-missing",
            format!("table {table} has no usable index on {columns} ({} of {} tables)", lacking.len(), tables.len()),
            format!(
                "make it with CREATE INDEX, or give the options that the tables were prepared with, such as --create-secondary off; if prepare was interrupted, {ANEW}"
            ),
        )
    }))
}

/// The columns of a table's indexes, each list with commas between.
fn wanted_indexes(set: &TableSet, dialect: Dialect) -> Vec<String> {
    let key = match &set.key {
        // A row id is found without an index.
        _ if dialect.row_id(set).is_some() => None,
        Key::Primary(columns) | Key::Plain { columns, .. } => Some(columns.join(",")),
    };
    key.into_iter().chain(set.indexes.iter().map(|index| index.columns.join(","))).collect()
}

/// Whether an index finds rows by these columns: it begins with them, whatever its name.
fn serves(index: &str, columns: &str) -> bool {
    index.strip_prefix(columns).is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
}

fn names(tables: &[Table<'_>]) -> Vec<String> {
    tables.iter().map(Table::name).collect()
}

pub(super) fn query(
    control: &mut dyn Control,
    sql: &str,
    what: impl Fn() -> String,
) -> Result<Vec<Vec<Option<String>>>, EngineError> {
    control.rows(sql).map_err(|fault| EngineError::while_doing(what(), fault))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::workload::{OptionValue, RandomSettings, Settings, Workload};

    #[test]
    fn what_is_wrong_with_a_table_has_the_cause_that_it_can_have() {
        let settings = |workload: &str| {
            let options = [("table_size".to_string(), OptionValue::Int(1000))].into();
            let options = if workload == "bulk_insert" { BTreeMap::new() } else { options };
            let settings = Settings { options, threads: 4, random: RandomSettings::default() };
            Workload::load(workload).unwrap().compile(&settings).unwrap()
        };
        let (filled, empty) = (settings("oltp_read_only"), settings("bulk_insert"));
        let advice = |plan: &Plan, ids: [Option<&str>; 2]| {
            let check = wrong_ids(&tables(plan)[0], ids[0], ids[1]).unwrap();
            assert!(check.advice.contains("--mode or --workload and its options of tables"), "{check}");
            check.advice.split("; ").last().unwrap().split("`oltpbench").next().unwrap().to_string()
        };
        assert_eq!(advice(&filled, [None, None]), "if prepare was interrupted, ");
        let removed = "if prepare was interrupted or a workload that removes rows (such as delete) ran on it, ";
        assert_eq!(advice(&filled, [Some("1"), Some("999")]), removed);
        let added = "if a workload that adds rows (such as insert) ran on it, ";
        assert_eq!(advice(&filled, [Some("1"), Some("1001")]), added);
        assert_eq!(advice(&empty, [Some("1"), Some("1")]), "");
        assert!(wrong_ids(&tables(&filled)[0], Some("1"), Some("1000")).is_none());
    }

    #[test]
    fn an_index_serves_the_columns_it_begins_with() {
        for (index, columns, serves_them) in [
            ("k", "k", true),
            ("k,c", "k", true),
            ("k,c", "k,c", true),
            ("kk", "k", false),
            ("c,k", "k", false),
            ("k", "k,c", false),
            ("", "k", false),
        ] {
            assert_eq!(serves(index, columns), serves_them, "{index:?} for {columns:?}");
        }
    }
}
