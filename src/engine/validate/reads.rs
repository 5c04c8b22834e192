//! The rows that one statement read, against what may be there.
//!
//! Each check is of what holds at every isolation level: a row may be as any write left it that was attempted by now.
//! The order of rows is not looked at. Must not import: `target`, `metrics`, `report`, `cli`.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use super::Validator;
use super::ledger::{TableKey, fingerprint_of, value_read};
use crate::target::Row;
use crate::workload::plan::{Argument, Call, Scratch};
use crate::workload::shape::{Select, Term, Wanted};

/// A statement that asks for more ids than this is not checked, since all of their rows must be made.
const MOST_IDS: u64 = 100_000;
/// Characters of a text that a message shows.
const SHOWN_CHARACTERS: usize = 40;

/// Values that a statement asks for.
type Interval = RangeInclusive<i64>;

/// The values that a call asks for, in order and apart from each other; `None` if they are too many to be checked.
pub(super) fn asked(select: &Select, call: Call<'_>) -> Option<Vec<Interval>> {
    let mut numbers = call.arguments.iter().map(|argument| match argument {
        Argument::Int(number) => Some(number),
        Argument::Text(_) | Argument::Auto => None,
    });
    let mut all = Vec::with_capacity(select.terms.len());
    for term in &select.terms {
        let first = numbers.next()??;
        let last = if *term == Term::Equal { first } else { numbers.next()?? };
        all.push((first, last));
    }
    all.retain(|(first, last)| first <= last);
    all.sort_unstable();
    let mut apart: Vec<(i64, i64)> = Vec::with_capacity(all.len());
    for (first, last) in all {
        match apart.last_mut() {
            Some((_, before)) if first <= *before => *before = last.max(*before),
            _ => apart.push((first, last)),
        }
    }
    let count: u64 =
        apart.iter().fold(0, |sum, (first, last)| sum.saturating_add(last.abs_diff(*first).saturating_add(1)));
    (count <= MOST_IDS).then(|| apart.into_iter().map(|(first, last)| first..=last).collect())
}

/// Whether a statement that finds its rows by another column than their id can be checked, where nothing is written.
pub(super) fn is_checked_by_value(select: &Select) -> bool {
    match &select.wanted {
        Wanted::Count => true,
        Wanted::Columns { distinct, .. } => !distinct,
        Wanted::Sum(_) => false,
    }
}

/// Rows as they came.
#[derive(Default)]
pub(super) struct Seen {
    bytes: Vec<u8>,
    /// Of each value its length; `None` is NULL.
    lengths: Vec<Option<usize>>,
    /// Of each row its number of values.
    widths: Vec<usize>,
}

impl Seen {
    pub(super) fn push(&mut self, row: Row<'_>) {
        self.widths.push(row.len());
        for value in row {
            self.lengths.push(value.map(<[u8]>::len));
            self.bytes.extend_from_slice(value.unwrap_or_default());
        }
    }

    fn rows(&self) -> impl Iterator<Item = Vec<Option<&[u8]>>> {
        let (mut lengths, mut at) = (self.lengths.iter(), 0);
        self.widths.iter().map(move |&width| {
            let value = |length: &Option<usize>| {
                let start = at;
                at += length.unwrap_or(0);
                length.map(|_| &self.bytes[start..at])
            };
            lengths.by_ref().take(width).map(value).collect()
        })
    }
}

/// What is shown of a value.
fn shown(value: Option<&[u8]>) -> String {
    let Some(value) = value else { return "NULL".into() };
    let text = String::from_utf8_lossy(value);
    match text.chars().count() > SHOWN_CHARACTERS {
        true => format!("`{}...`", text.chars().take(SHOWN_CHARACTERS).collect::<String>()),
        false => format!("`{text}`"),
    }
}

/// Rows that a statement may read.
#[derive(Default)]
struct Candidates {
    /// Ids of rows that nothing touched, by what they hold.
    certain: HashMap<u64, Vec<i64>>,
    /// The other ids, and how many rows they have together.
    loose: Vec<i64>,
    fewest: i64,
    most: i64,
}

/// A statement whose rows are being checked.
struct Check<'a> {
    validator: &'a Validator,
    select: &'a Select,
    table: TableKey,
    asked: Vec<Interval>,
    scratch: &'a mut Scratch,
    messages: &'a mut Vec<String>,
}

/// Says what is wrong with the rows that a call read.
pub(super) fn check(
    validator: &Validator,
    select: &Select,
    call: Call<'_>,
    seen: &Seen,
    scratch: &mut Scratch,
    messages: &mut Vec<String>,
) {
    let Some(asked) = asked(select, call) else { return };
    validator.reads.fetch_add(1, Ordering::Relaxed);
    validator.rows.fetch_add(seen.widths.len() as u64, Ordering::Relaxed);
    let table = TableKey { set: select.set, number: call.table };
    let mut check = Check { validator, select, table, asked, scratch, messages };
    let width = match &select.wanted {
        Wanted::Columns { columns, .. } => columns.len(),
        Wanted::Sum(_) | Wanted::Count => 1,
    };
    if let Some(other) = seen.widths.iter().find(|&&other| other != width) {
        check.messages.push(format!("a row of {other} values came in place of one of {width}"));
        return;
    }
    let id_column = validator.set(table).id_column();
    match &select.wanted {
        Wanted::Count | Wanted::Sum(_) => check.single(seen, id_column == Some(select.column)),
        Wanted::Columns { columns, distinct: false } if columns.iter().any(|column| Some(*column) == id_column) => {
            check.rows_with_id(seen, columns, id_column);
        }
        Wanted::Columns { columns, distinct } if id_column == Some(select.column) => {
            check.rows_without_id(seen, columns, *distinct);
        }
        Wanted::Columns { .. } => check.row_count(seen.widths.len() as u64),
    }
}

impl Check<'_> {
    fn ids(&self) -> impl Iterator<Item = i64> + use<> {
        self.asked.clone().into_iter().flatten()
    }

    /// How the rows are called that were asked for.
    fn place(&self) -> String {
        let by = &self.validator.set(self.table).columns[self.select.column].name;
        match self.asked.as_slice() {
            [one] if one.start() == one.end() => format!("{by} {}", one.start()),
            [one] => format!("{by} {} to {}", one.start(), one.end()),
            [first, .., last] => format!("{by} {} to {} in {} parts", first.start(), last.end(), self.asked.len()),
            [] => "no row".into(),
        }
    }

    /// Rows whose values were asked for, where all of them are as prepared.
    fn prepared_count(&self) -> u64 {
        let key = (self.table.set, self.select.column);
        let Some(values) = self.validator.sorted.get(&key).map(|tables| &tables[self.table.number as usize - 1]) else {
            return 0;
        };
        let below = |limit: i64| values.partition_point(|&value| value < limit);
        let upto = |limit: i64| values.partition_point(|&value| value <= limit);
        self.asked.iter().map(|asked| (upto(*asked.end()) - below(*asked.start())) as u64).sum()
    }

    fn row_count(&mut self, count: u64) {
        let expected = self.prepared_count();
        if count != expected {
            let place = self.place();
            self.messages.push(format!("{count} rows of {place} were read, and there are {expected}"));
        }
    }

    /// A sum or a count, of rows found by id or by what they hold.
    fn single(&mut self, seen: &Seen, by_id: bool) {
        let mut rows = seen.rows();
        let (Some(row), None) = (rows.next(), rows.next()) else {
            let place = self.place();
            self.messages.push(format!("{} rows came in place of one figure of {place}", seen.widths.len()));
            return;
        };
        let found = row[0].and_then(|text| std::str::from_utf8(text).ok()?.parse::<i128>().ok());
        let sum = matches!(self.select.wanted, Wanted::Sum(_));
        let bounds = match by_id {
            true => self.bounds(),
            false => {
                let count = i128::from(self.prepared_count());
                Some((count, count, count))
            }
        };
        let Some((least, most, fewest)) = bounds else { return };
        let right = match (found, row[0]) {
            (Some(found), _) => (least..=most).contains(&found),
            // The sum of no rows is NULL.
            (None, None) => sum && fewest == 0,
            _ => false,
        };
        if !right {
            let what = if sum { "sum" } else { "count" };
            let expected = if least == most { least.to_string() } else { format!("between {least} and {most}") };
            let place = self.place();
            self.messages.push(format!("the {what} of {place} is {}, not {expected}", shown(row[0])));
        }
    }

    /// The least and the most that the figure can be, and the fewest rows it can be of; `None` where nothing is known.
    fn bounds(&mut self) -> Option<(i128, i128, i128)> {
        let (mut least, mut most, mut fewest) = (0, 0, 0);
        for id in self.ids() {
            let prepared = self.validator.is_prepared(self.table, id);
            if !prepared && self.validator.ledger.was_added_to(self.table) {
                return None;
            }
            let row = match (&self.select.wanted, prepared) {
                (Wanted::Sum(_), true) => self.validator.prepared_row(self.table, id, self.scratch),
                _ => Vec::new(),
            };
            let (rows, values) = self.validator.ledger.look(self.table, id, |touched| {
                let view = self.validator.view(self.table, id, touched, false);
                let values = match &self.select.wanted {
                    Wanted::Sum(column) if *view.rows().end() > 0 => view.bounds(*column, row.get(*column).copied()),
                    _ => Some(1..=1),
                };
                (view.rows(), values)
            });
            let (values, few, many) = (values?, i128::from(*rows.start()), i128::from(*rows.end()));
            let (low, high) = (i128::from(*values.start()), i128::from(*values.end()));
            least += (few * low).min(many * low);
            most += (few * high).max(many * high);
            fewest += few;
        }
        Some((least, most, fewest))
    }

    /// Rows that say which ones they are.
    fn rows_with_id(&mut self, seen: &Seen, columns: &[usize], id_column: Option<usize>) {
        let set = self.validator.set(self.table);
        let by_id = id_column == Some(self.select.column);
        let mut counts: HashMap<i64, i64> = HashMap::new();
        for row in seen.rows() {
            let value = |wanted: Option<usize>| {
                let at = columns.iter().position(|column| Some(*column) == wanted)?;
                value_read(set.columns[columns[at]].kind, row[at]?)
            };
            let Some(id) = value(id_column) else {
                self.messages.push("a row without an id was read".into());
                continue;
            };
            *counts.entry(id).or_default() += 1;
            let asked = |value: i64| self.asked.iter().any(|asked| asked.contains(&value));
            if value(Some(self.select.column)).is_some_and(|value| !asked(value)) {
                let place = self.place();
                self.messages.push(format!("id {id} was read, which is not among {place}"));
            }
            self.messages.extend(self.validator.row_differs(self.table, id, columns, &row, self.scratch));
        }
        match by_id {
            false => self.row_count(seen.widths.len() as u64),
            true => {
                for id in self.ids() {
                    let count = counts.get(&id).copied().unwrap_or(0);
                    let message = self.validator.ledger.look(self.table, id, |touched| {
                        let rows = self.validator.view(self.table, id, touched, false).rows();
                        (!rows.contains(&count)).then(|| count_differs(id, count, &rows))
                    });
                    let unknown =
                        !self.validator.is_prepared(self.table, id) && self.validator.ledger.was_added_to(self.table);
                    self.messages.extend(message.filter(|_| !unknown));
                }
            }
        }
    }

    /// Rows that do not say which ones they are: each must be the row of an id that was asked for, and those that no write
    /// has touched must be among them.
    fn rows_without_id(&mut self, seen: &Seen, columns: &[usize], distinct: bool) {
        let Some(Candidates { mut certain, loose, fewest, most }) = self.candidates(columns) else { return };
        let set = self.validator.set(self.table);
        let (mut explained, mut foreign) = (0i64, 0i64);
        for row in seen.rows() {
            let value = |(column, value): (&usize, &Option<&[u8]>)| value_read(set.columns[*column].kind, (*value)?);
            let values: Vec<Option<i64>> = columns.iter().zip(&row).map(value).collect();
            let key = fingerprint_of(values);
            if let Some(ids) = certain.get_mut(&key) {
                ids.pop();
                if ids.is_empty() || distinct {
                    certain.remove(&key);
                }
                continue;
            }
            let scratch = &mut *self.scratch;
            let differs = |id: &i64| self.validator.row_differs(self.table, *id, columns, &row, scratch);
            if loose.iter().map(differs).any(|difference| difference.is_none()) {
                explained += 1;
                continue;
            }
            foreign += 1;
            let message = self.foreign(columns, &row);
            self.messages.push(message);
        }
        // Texts that differ may be the same to the server, so of distinct ones a written one may stand for another.
        if !distinct || loose.is_empty() {
            self.missing(certain, foreign);
        }
        if explained > most || !distinct && explained + foreign < fewest {
            let place = self.place();
            self.messages.push(format!(
                "of the rows of {place} that were written to {explained} were read, and there are {fewest} to {most}"
            ));
        }
    }

    /// The rows that may be read; `None` if some are known by their content alone.
    fn candidates(&mut self, columns: &[usize]) -> Option<Candidates> {
        let mut candidates = Candidates::default();
        for id in self.ids() {
            let rows = self.validator.ledger.look(self.table, id, |touched| {
                touched.map(|touched| self.validator.view(self.table, id, Some(touched), false).rows())
            });
            match rows {
                Some(rows) => {
                    candidates.loose.push(id);
                    candidates.fewest += rows.start();
                    candidates.most += rows.end();
                }
                None if self.validator.is_prepared(self.table, id) => {
                    let row = self.validator.prepared_row(self.table, id, self.scratch);
                    let values: Vec<Option<i64>> = columns.iter().map(|&column| row.get(column).copied()).collect();
                    candidates.certain.entry(fingerprint_of(values)).or_default().push(id);
                }
                None if self.validator.ledger.was_added_to(self.table) => return None,
                None => {}
            }
        }
        Some(candidates)
    }

    /// What is said of a row that is none of those that were asked for.
    fn foreign(&mut self, columns: &[usize], row: &[Option<&[u8]>]) -> String {
        let mut ids = self.ids();
        if let (Some(id), None) = (ids.next(), ids.next())
            && let Some(message) = self.validator.row_differs(self.table, id, columns, row, self.scratch)
        {
            return message;
        }
        let set = self.validator.set(self.table);
        let names = columns.iter().map(|column| set.columns[*column].name.as_str()).collect::<Vec<_>>().join(", ");
        let texts = row.iter().map(|value| shown(*value)).collect::<Vec<_>>().join(", ");
        format!("no row of {} has {names} {texts}, which was read", self.place())
    }

    /// Ids whose rows did not come. A row that came in place of one was told already.
    fn missing(&mut self, certain: HashMap<u64, Vec<i64>>, foreign: i64) {
        let mut ids: Vec<i64> = certain.into_values().flatten().collect();
        ids.sort_unstable();
        for id in ids.into_iter().skip(foreign as usize) {
            self.messages.push(format!("the row of id {id} is missing, or is another"));
        }
    }
}

/// What is wrong with the number of rows of one id.
pub(super) fn count_differs(id: i64, count: i64, rows: &RangeInclusive<i64>) -> String {
    match (count, rows.end()) {
        (0, _) => format!("the row of id {id} is missing"),
        (_, 0) => format!("there is a row of id {id}, which neither prepare nor this run put there"),
        (_, most) => format!("there are {count} rows of id {id}, and at most {most} were put there"),
    }
}

impl Validator {
    /// What is wrong with the columns of a row that was read in a run; `None` if they may be so.
    pub(super) fn row_differs(
        &self,
        table: TableKey,
        id: i64,
        columns: &[usize],
        row: &[Option<&[u8]>],
        scratch: &mut Scratch,
    ) -> Option<String> {
        let prepared = match self.is_prepared(table, id) {
            true => self.prepared_row(table, id, scratch),
            false if self.ledger.was_added_to(table) => return None,
            false => Vec::new(),
        };
        self.ledger.look(table, id, |touched| {
            let view = self.view(table, id, touched, false);
            self.columns_differ(table, id, columns, row, &prepared, &view)
        })
    }

    /// The same, where row and writes are at hand.
    pub(super) fn columns_differ(
        &self,
        table: TableKey,
        id: i64,
        columns: &[usize],
        row: &[Option<&[u8]>],
        prepared: &[i64],
        view: &super::View<'_>,
    ) -> Option<String> {
        let set = self.set(table);
        columns.iter().zip(row).find_map(|(&column, value)| {
            let read = value.and_then(|value| value_read(set.columns[column].kind, value));
            // The id is what the row was found by.
            let right = Some(column) == set.id_column()
                || read.is_some_and(|read| view.allows(column, read, prepared.get(column).copied()));
            (!right).then(|| {
                let name = &set.columns[column].name;
                format!("{name} of id {id} is {}, which neither prepare nor this run put there", shown(*value))
            })
        })
    }
}
