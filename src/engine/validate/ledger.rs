//! What the writes of a run may have done to rows, and what they did for sure.
//!
//! A write is *attempted* before it is sent, so that whoever reads what it put there finds it here; it is *settled* once
//! its transaction has committed. What was rolled back, or whose outcome nobody knows, stays attempted for good. So while
//! the run goes on a row may be as any attempted write left it; once all is over, it must be as settled writes say, give or
//! take those that were not settled.
//!
//! Values are numbers: integers themselves, texts by a fingerprint of 64 bits. Must not import: `report`, `cli`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::workload::plan::{Argument, ColumnType};
use crate::workload::shape::Change;

/// Locks, so that workers rarely meet at one.
const SHARDS: usize = 64;

/// The value that `prepare` gives a column; `None` for one of another kind.
pub(super) fn value_prepared(kind: ColumnType, argument: Argument<'_>) -> Option<i64> {
    match argument {
        Argument::Int(number) if kind.is_integer() => Some(number),
        Argument::Text(text) if !kind.is_integer() => Some(fingerprint(text.as_bytes())),
        Argument::Int(_) | Argument::Text(_) | Argument::Auto => None,
    }
}

/// The value that a write gives a column; `None` where it is not known what the column makes of it.
pub(super) fn value_written(kind: ColumnType, argument: Argument<'_>) -> Option<i64> {
    let fits = match (kind, argument) {
        (ColumnType::Integer, Argument::Int(number)) => i32::try_from(number).is_ok(),
        (ColumnType::Char(length) | ColumnType::Varchar(length), Argument::Text(text)) => {
            text.chars().count() <= length as usize
        }
        _ => true,
    };
    value_prepared(kind, argument).filter(|_| fits)
}

/// The value of a column as it was read; `None` for what no column of this kind can hold.
pub(super) fn value_read(kind: ColumnType, bytes: &[u8]) -> Option<i64> {
    match kind {
        ColumnType::Integer | ColumnType::BigInt => std::str::from_utf8(bytes).ok()?.parse().ok(),
        ColumnType::Char(_) | ColumnType::Varchar(_) => Some(fingerprint(bytes)),
    }
}

/// Servers drop the spaces at the end of a CHAR.
fn fingerprint(text: &[u8]) -> i64 {
    let length = text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    fingerprint_of(&text[..length]) as i64
}

pub(super) fn fingerprint_of(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// One table of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TableKey {
    pub(super) set: usize,
    pub(super) number: u32,
}

/// What writes did to a column of a row.
#[derive(Debug, Default)]
struct Cell {
    column: usize,
    /// What they may have put there.
    put: BTreeSet<i64>,
    /// The most they may have added, and what they added for sure.
    added: i64,
    added_for_sure: i64,
    /// Whether one of them replaced what was there before, for sure.
    replaced: bool,
}

/// What writes did to the rows of one id, of which there is more than one only if the key is not unique.
#[derive(Debug, Default)]
pub(super) struct Touched {
    cells: Vec<Cell>,
    inserts: u64,
    deletes: u64,
    /// Of these, those that are not settled.
    open_inserts: u64,
    open_deletes: u64,
    /// Rows inserted less rows deleted, for sure.
    net: i64,
    /// Whether something was put there of which it is not known what the column made of it.
    unknown: bool,
}

impl Touched {
    fn cell(&mut self, column: usize) -> &mut Cell {
        let at = self.cells.iter().position(|cell| cell.column == column).unwrap_or_else(|| {
            self.cells.push(Cell { column, ..Cell::default() });
            self.cells.len() - 1
        });
        &mut self.cells[at]
    }

    pub(super) fn put(&mut self, column: usize, value: Option<i64>) {
        match value {
            Some(value) => {
                self.cell(column).put.insert(value);
            }
            None => self.unknown = true,
        }
    }

    pub(super) fn change(&mut self, column: usize, change: Change, value: Option<i64>) {
        match change {
            Change::By(number) => self.cell(column).added += number,
            Change::To => self.put(column, value),
        }
    }

    pub(super) fn insert(&mut self) {
        self.inserts += 1;
        self.open_inserts += 1;
    }

    pub(super) fn delete(&mut self) {
        self.deletes += 1;
        self.open_deletes += 1;
    }

    pub(super) fn settle_change(&mut self, column: usize, change: Change) {
        match change {
            Change::By(number) => self.cell(column).added_for_sure += number,
            Change::To => self.cell(column).replaced = true,
        }
    }

    pub(super) fn settle_insert(&mut self) {
        self.open_inserts -= 1;
        self.net += 1;
    }

    pub(super) fn settle_delete(&mut self, rows: u64) {
        self.open_deletes -= 1;
        self.net -= i64::try_from(rows).unwrap_or(i64::MAX);
    }

    pub(super) fn attempted_deletes(&self) -> u64 {
        self.deletes
    }
}

/// The rows of one id as they may be.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) touched: Option<&'a Touched>,
    /// Whether `prepare` made a row of this id.
    pub(super) prepared: bool,
    pub(super) unique: bool,
    /// Whether all writes are over.
    pub(super) over: bool,
}

impl View<'_> {
    /// How many there may be.
    pub(super) fn rows(&self) -> RangeInclusive<i64> {
        let prepared = i64::from(self.prepared);
        let Some(touched) = self.touched else { return prepared..=prepared };
        let (sure, inserts, deletes) = match self.over {
            true => (prepared + touched.net, touched.open_inserts, touched.open_deletes),
            false => (prepared, touched.inserts, touched.deletes),
        };
        let most = sure.saturating_add_unsigned(inserts).max(0);
        let least = if deletes > 0 { 0 } else { sure.max(0) };
        match self.unique {
            true => least.min(1)..=most.min(1),
            false => least..=most,
        }
    }

    /// What a column may have been before something was added to it, the least and the most that was.
    fn cell(&self, column: usize) -> (Option<&Cell>, i64, i64) {
        let Some(touched) = self.touched else { return (None, 0, 0) };
        let Some(cell) = touched.cells.iter().find(|cell| cell.column == column) else { return (None, 0, 0) };
        // What is added to a row goes with it, and what is put there anew has it or not.
        let lasts = touched.inserts == 0 && touched.deletes == 0 && cell.put.is_empty();
        (Some(cell), if self.over && lasts { cell.added_for_sure } else { 0 }, cell.added)
    }

    fn prepared_value(&self, cell: Option<&Cell>, prepared: Option<i64>) -> Option<i64> {
        prepared.filter(|_| !(self.over && cell.is_some_and(|cell| cell.replaced)))
    }

    /// Whether a column may have a value, where `prepare` gave it `prepared`.
    pub(super) fn allows(&self, column: usize, value: i64, prepared: Option<i64>) -> bool {
        let (cell, least, most) = self.cell(column);
        let bases = value.saturating_sub(most)..=value.saturating_sub(least);
        self.touched.is_some_and(|touched| touched.unknown)
            || self.prepared_value(cell, prepared).is_some_and(|base| bases.contains(&base))
            || cell.is_some_and(|cell| cell.put.range(bases).next().is_some())
    }

    /// The lowest and the highest value that a column may have; `None` if nothing is known.
    pub(super) fn bounds(&self, column: usize, prepared: Option<i64>) -> Option<RangeInclusive<i64>> {
        if self.touched.is_some_and(|touched| touched.unknown) {
            return None;
        }
        let (cell, least, most) = self.cell(column);
        let bases = || {
            self.prepared_value(cell, prepared)
                .into_iter()
                .chain(cell.iter().flat_map(|cell| [cell.put.first(), cell.put.last()].into_iter().flatten().copied()))
        };
        Some(bases().min()?.saturating_add(least)..=bases().max()?.saturating_add(most))
    }
}

/// Rows of a table that are known by their content alone: those whose number the server chose, and those of bulk inserts.
#[derive(Debug, Default)]
pub(super) struct Added {
    pub(super) contents: HashSet<u64>,
    pub(super) attempted: u64,
    pub(super) settled: u64,
    /// Whether it is not known what a column made of one of them.
    pub(super) unknown: bool,
}

type Rows = HashMap<(TableKey, i64), Touched>;

pub(super) struct Ledger {
    hash: RandomState,
    shards: Box<[Mutex<Rows>]>,
    added: Mutex<HashMap<TableKey, Added>>,
}

/// What was locked is whole even if its holder panicked: each change is a few numbers.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    pub(super) fn new() -> Ledger {
        Ledger {
            hash: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            added: Mutex::default(),
        }
    }

    fn shard(&self, table: TableKey, id: i64) -> MutexGuard<'_, Rows> {
        lock(&self.shards[self.hash.hash_one((table, id)) as usize % SHARDS])
    }

    pub(super) fn touch(&self, table: TableKey, id: i64, touch: impl FnOnce(&mut Touched)) {
        touch(self.shard(table, id).entry((table, id)).or_default());
    }

    pub(super) fn look<R>(&self, table: TableKey, id: i64, look: impl FnOnce(Option<&Touched>) -> R) -> R {
        look(self.shard(table, id).get(&(table, id)))
    }

    pub(super) fn add(&self, table: TableKey, add: impl FnOnce(&mut Added)) {
        add(lock(&self.added).entry(table).or_default());
    }

    /// Whether rows were added that are known by their content alone.
    pub(super) fn was_added_to(&self, table: TableKey) -> bool {
        lock(&self.added).contains_key(&table)
    }

    /// All that is known, by table.
    pub(super) fn take(&self) -> BTreeMap<TableKey, (BTreeMap<i64, Touched>, Added)> {
        let mut tables: BTreeMap<TableKey, (BTreeMap<i64, Touched>, Added)> = BTreeMap::new();
        for shard in &self.shards {
            for ((table, id), touched) in lock(shard).drain() {
                tables.entry(table).or_default().0.insert(id, touched);
            }
        }
        for (table, added) in lock(&self.added).drain() {
            tables.entry(table).or_default().1 = added;
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: usize = 1;

    fn view(touched: &Touched, over: bool) -> View<'_> {
        View { touched: Some(touched), prepared: true, unique: true, over }
    }

    #[test]
    fn an_untouched_row_is_there_as_it_was_prepared() {
        let view = View { touched: None, prepared: true, unique: true, over: false };
        assert_eq!(view.rows(), 1..=1);
        assert!(view.allows(K, 5, Some(5)) && !view.allows(K, 6, Some(5)));
        assert_eq!(View { prepared: false, ..view }.rows(), 0..=0);
    }

    #[test]
    fn what_was_added_counts_once_it_was_attempted_and_must_be_there_once_it_was_settled() {
        let mut touched = Touched::default();
        (0..3).for_each(|_| touched.change(K, Change::By(1), None));
        touched.settle_change(K, Change::By(1));
        let allowed =
            |over| (0..10).filter(|&value| view(&touched, over).allows(K, value, Some(5))).collect::<Vec<_>>();
        assert_eq!(allowed(false), [5, 6, 7, 8]);
        assert_eq!(allowed(true), [6, 7, 8]);
        assert_eq!(view(&touched, true).bounds(K, Some(5)), Some(6..=8));
    }

    #[test]
    fn a_value_that_was_replaced_for_sure_may_be_read_until_all_is_over() {
        let mut touched = Touched::default();
        touched.change(2, Change::To, Some(7));
        assert!(view(&touched, true).allows(2, 1, Some(1)) && view(&touched, true).allows(2, 7, Some(1)));
        touched.settle_change(2, Change::To);
        assert!(view(&touched, false).allows(2, 1, Some(1)));
        assert!(!view(&touched, true).allows(2, 1, Some(1)) && view(&touched, true).allows(2, 7, Some(1)));
    }

    #[test]
    fn a_row_that_is_deleted_and_inserted_may_be_missing_until_all_is_over() {
        let mut touched = Touched::default();
        touched.delete();
        assert_eq!((view(&touched, false).rows(), view(&touched, true).rows()), (0..=1, 0..=1));
        touched.insert();
        touched.put(K, Some(9));
        touched.settle_delete(1);
        touched.settle_insert();
        assert_eq!((view(&touched, false).rows(), view(&touched, true).rows()), (0..=1, 1..=1));
        // Of two such transactions at once, one may find nothing to delete and lose its insert.
        touched.delete();
        touched.insert();
        assert_eq!(view(&touched, true).rows(), 0..=1);
        assert!(view(&touched, false).allows(K, 9, Some(5)) && !view(&touched, false).allows(K, 10, Some(5)));
    }

    #[test]
    fn values_that_a_column_cannot_hold_are_not_known() {
        assert_eq!(value_written(ColumnType::Integer, Argument::Int(1 << 40)), None);
        assert_eq!(
            value_written(ColumnType::BigInt, Argument::Int(1 << 40)),
            value_read(ColumnType::BigInt, b"1099511627776")
        );
        assert_eq!(value_written(ColumnType::Char(2), Argument::Text("abc")), None);
        assert_eq!(value_written(ColumnType::Char(5), Argument::Text("ab ")), value_read(ColumnType::Char(5), b"ab"));
        let mut touched = Touched::default();
        touched.put(K, None);
        assert!(view(&touched, true).allows(K, 123, Some(1)));
        assert_eq!(view(&touched, true).bounds(K, Some(1)), None);
    }
}
