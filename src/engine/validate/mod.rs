//! Whether the database gives back what was put into it: each row that a run reads, and all rows after it.
//!
//! A row is what (seed, set, table, id) say, or what a write of this run put there. A reader may see any write that was
//! attempted by then, whatever the isolation; only after the run must every committed write have left its mark. What
//! cannot be told is not checked, and counted or named as such, so that what is reported is a difference. See
//! docs/validation.md.
//!
//! * [`ledger`]: what writes may have done, and what they did for sure.
//! * [`reads`]: the rows of one statement against it.
//! * [`audit`]: the tables after a run against it.
//!
//! Imports `target`, `workload` and `metrics`. Must not import: `report`, `cli`.

mod audit;
mod ledger;
mod reads;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::tables::query;
use super::{EngineError, Observer, refuse};
use crate::metrics::{Difference, Validation};
use crate::target::check::{Check, Level};
use crate::target::{Control, Database, Dialect, Fault, Session};
use crate::workload::plan::{Argument, Call, Column, Key, Plan, Scratch, TableSet};
use crate::workload::shape::{Change, Shape};
use ledger::{Ledger, TableKey, Touched, View, fingerprint_of, value_prepared, value_read, value_written};
use reads::Seen;

/// Differences that are told with all that is known of them.
const SHOWN: usize = 10;
/// Rows that are looked at before a run, to see how the tables were prepared.
const PROBED: u64 = 64;
/// Statements that insert more rows than this into a table without any are kept by content alone.
const MOST_BY_ID: usize = 100;
/// Rows of all tables whose values of a column are kept to find out which have one of them.
const MOST_SORTED: u64 = 50_000_000;

/// How the tables were prepared.
pub struct Prepared {
    pub seed: u64,
    /// The plan of the run with the settings of random numbers that `prepare` may have been given, likeliest first. Only
    /// its tables are looked at.
    pub plans: Vec<Arc<Plan>>,
}

/// What is checked of a run, shared by its workers.
pub struct Validator {
    /// What `prepare` made is a function of its tables and this seed.
    prepared: Arc<Plan>,
    seed: u64,
    /// Of each statement what it means, if that can be checked.
    shapes: Vec<Option<Shape>>,
    /// Of each statement whether it asked for too many rows at least once.
    skipped: Vec<AtomicBool>,
    /// Why tables are not audited, if they are not.
    unaudited: Option<String>,
    /// By set and column, for each table the values that its rows have in it, in order.
    sorted: BTreeMap<(usize, usize), Vec<Vec<i64>>>,
    ledger: Ledger,
    reads: AtomicU64,
    rows: AtomicU64,
    differences: AtomicU64,
    first: Mutex<Vec<Difference>>,
}

impl Validator {
    /// Finds out how the tables were prepared, and refuses those that hold something else altogether.
    pub fn new(
        database: &dyn Database,
        plan: &Plan,
        prepared: &Prepared,
        interrupted: &AtomicBool,
    ) -> Result<Validator, EngineError> {
        let seed = prepared.seed;
        let mut control = database.prompt_control(interrupted)?;
        let prepared = probe(control.as_mut(), prepared)?;
        let shapes: Vec<_> = (0..plan.statements.len()).map(|statement| Shape::of(plan, statement)).collect();
        let unclear = (0..shapes.len()).find(|&at| shapes[at].is_none() && Shape::may_write(plan, at));
        let unaudited =
            unclear.map(|at| format!("what statement `{}` writes is not understood", plan.statements[at].name));
        let mut validator = Validator {
            prepared,
            seed,
            skipped: shapes.iter().map(|_| AtomicBool::new(false)).collect(),
            shapes: if unaudited.is_some() { vec![None; shapes.len()] } else { shapes },
            unaudited,
            sorted: BTreeMap::new(),
            ledger: Ledger::new(),
            reads: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            differences: AtomicU64::new(0),
            first: Mutex::default(),
        };
        validator.sort_columns();
        Ok(validator)
    }

    /// Gets ready for statements that find rows by another column than their id, and gives up those that it cannot check.
    fn sort_columns(&mut self) {
        let written: Vec<usize> = self.shapes.iter().flatten().filter_map(Shape::written_set).collect();
        for at in 0..self.shapes.len() {
            let Some(Shape::Select(select)) = &self.shapes[at] else { continue };
            let set = &self.prepared.tables[select.set];
            if Some(select.column) == set.id_column() {
                continue;
            }
            let few = set.rows.saturating_mul(u64::from(set.count)) <= MOST_SORTED;
            if !few || written.contains(&select.set) || !reads::is_checked_by_value(select) {
                self.shapes[at] = None;
                continue;
            }
            let key = (select.set, select.column);
            if !self.sorted.contains_key(&key) {
                self.sorted.insert(key, self.sorted_column(key.0, key.1));
            }
        }
    }

    fn sorted_column(&self, set: usize, column: usize) -> Vec<Vec<i64>> {
        let mut scratch = self.prepared.scratch();
        let TableSet { count, rows, .. } = self.prepared.tables[set];
        let of_table = |number| {
            let table = TableKey { set, number };
            let mut values: Vec<i64> = (1..=rows as i64)
                .filter_map(|id| self.prepared_row(table, id, &mut scratch).get(column).copied())
                .collect();
            values.sort_unstable();
            values
        };
        (1..=count).map(of_table).collect()
    }

    fn set(&self, table: TableKey) -> &TableSet {
        &self.prepared.tables[table.set]
    }

    fn is_prepared(&self, table: TableKey, id: i64) -> bool {
        u64::try_from(id).is_ok_and(|id| (1..=self.set(table).rows).contains(&id))
    }

    /// The row that `prepare` made.
    fn prepared_row(&self, table: TableKey, id: i64, scratch: &mut Scratch) -> Vec<i64> {
        row_of(self.set(table), self.seed, table.number, id, scratch)
    }

    fn view<'a>(&self, table: TableKey, id: i64, touched: Option<&'a Touched>, over: bool) -> View<'a> {
        let unique = matches!(self.set(table).key, Key::Primary(_));
        View { touched, prepared: self.is_prepared(table, id), unique, over }
    }

    fn differs(&self, place: impl FnOnce() -> String, message: impl FnOnce() -> String) {
        self.differences.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.len() < SHOWN {
            first.push(Difference { place: place(), message: message() });
        }
    }

    /// Audits the tables, unless a connection is still in a transaction, and sums up.
    pub fn finish(
        &self,
        database: &dyn Database,
        plan: &Plan,
        unfinished: u32,
        observer: &mut dyn Observer,
        interrupted: &AtomicBool,
    ) -> Validation {
        let audit = match &self.unaudited {
            Some(reason) => audit::Audit { unaudited: Some(reason.clone()), ..audit::Audit::default() },
            None if interrupted.load(Ordering::Relaxed) => audit::Audit::cut_off("the run was interrupted".into()),
            None if unfinished > 0 => audit::Audit::cut_off(format!("{unfinished} transactions had not ended")),
            None => audit::audit(self, database, observer, interrupted),
        };
        let skips = |at: usize| self.shapes[at].is_none() || self.skipped[at].load(Ordering::Relaxed);
        let unchecked = plan.statements.iter().enumerate().filter(|(at, _)| skips(*at));
        Validation {
            reads: self.reads.load(Ordering::Relaxed),
            rows: self.rows.load(Ordering::Relaxed),
            unchecked: unchecked.map(|(_, statement)| statement.name.clone()).collect(),
            audited_tables: audit.tables,
            audited_rows: audit.rows,
            unaudited: audit.unaudited,
            audit_cut_off: audit.cut_off,
            differences: self.differences.load(Ordering::Relaxed),
            first: std::mem::take(&mut *self.first.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

impl Shape {
    /// The set whose rows it writes.
    fn written_set(&self) -> Option<usize> {
        match self {
            Shape::Select(_) => None,
            Shape::Update { set, .. } | Shape::Delete { set } | Shape::Insert { set, .. } => Some(*set),
        }
    }
}

/// The values of a row that `prepare` makes; empty for a set whose rows are not told by their id.
fn row_of(set: &TableSet, seed: u64, number: u32, id: i64, scratch: &mut Scratch) -> Vec<i64> {
    let row = set.row(seed, number, id as u64, scratch);
    let values = row.iter().zip(&set.columns).map(|(value, column)| value_prepared(column.kind, value));
    values.collect::<Option<_>>().unwrap_or_default()
}

/// The plan that made what the tables hold, by a look at some rows of the first table of each set.
fn probe(control: &mut dyn Control, prepared: &Prepared) -> Result<Arc<Plan>, EngineError> {
    let mut best: Option<(Vec<Fit>, Arc<Plan>)> = None;
    for plan in &prepared.plans {
        let fits = fits(control, plan, prepared.seed)?;
        let sum = |fits: &[Fit]| fits.iter().map(|fit| fit.right).sum::<u64>();
        if best.as_ref().is_none_or(|(known, _)| sum(&fits) > sum(known)) {
            best = Some((fits, Arc::clone(plan)));
        }
    }
    let Some((fits, plan)) = best else {
        return Err(EngineError::Tables("there is no plan to validate by".into()));
    };
    let wrong = fits.iter().find(|fit| 2 * fit.right < fit.looked_at);
    refuse(wrong.map(|fit| {
        Check::new(
            Level::Fatal,
            "validation",
            format!(
                "column {} of {} is not what `prepare` with seed {} makes, in {} of {} rows that were looked at",
                fit.column,
                fit.table,
                prepared.seed,
                fit.looked_at - fit.right,
                fit.looked_at
            ),
            "--validate needs tables that no earlier run has written to: `oltpbench cleanup` and `oltpbench prepare` \
             make them anew; if prepare was given --rand-seed or --rand-type, give --validate=SEED and that type",
        )
    }))?;
    Ok(plan)
}

/// How well a column of a table is what a plan makes.
struct Fit {
    table: String,
    column: String,
    looked_at: u64,
    right: u64,
}

fn fits(control: &mut dyn Control, plan: &Plan, seed: u64) -> Result<Vec<Fit>, EngineError> {
    let mut fits = Vec::new();
    let mut scratch = plan.scratch();
    for set in plan.tables.iter().filter(|set| set.rows > 0) {
        let Some(key) = set.id_column() else { continue };
        let first = fits.len();
        let fit = |column: &str| Fit { table: set.table_name(1), column: column.into(), looked_at: 0, right: 0 };
        fits.extend(set.columns.iter().map(|column| fit(&column.name)));
        let step = set.rows.div_ceil(PROBED);
        let ids = (1..=set.rows).step_by(step as usize).map(|id| id.to_string()).collect::<Vec<_>>().join(", ");
        let sql = Dialect::select_rows(set, 1, &format!("WHERE {} IN ({ids})", set.columns[key].name));
        for row in query(control, &sql, || format!("looking at {}", set.table_name(1)))? {
            let values = values_of_texts(set, &row);
            let Some(id) = values[key] else { continue };
            let expected = row_of(set, seed, 1, id, &mut scratch);
            for ((fit, value), expected) in fits[first..].iter_mut().zip(values).zip(expected) {
                fit.looked_at += 1;
                fit.right += u64::from(value == Some(expected));
            }
        }
    }
    Ok(fits)
}

/// The values of a row of all columns.
fn values_of_texts(set: &TableSet, row: &[Option<String>]) -> Vec<Option<i64>> {
    let value = |(at, column): (usize, &Column)| {
        row.get(at)?.as_ref().and_then(|text| value_read(column.kind, text.as_bytes()))
    };
    set.columns.iter().enumerate().map(value).collect()
}

/// A write that was answered and waits for its transaction to commit.
struct Effect {
    statement: usize,
    table: TableKey,
    /// `None` for rows that are kept by content.
    id: Option<i64>,
    /// Rows that it changed.
    changed: u64,
}

/// What one worker checks.
pub(super) struct Checking<'a> {
    validator: &'a Validator,
    scratch: Scratch,
    /// Whether each statement commits by itself.
    autocommit: bool,
    /// The rows of the last statement, if they are to be checked.
    seen: Option<Seen>,
    effects: Vec<Effect>,
    /// Differences of the last statement.
    messages: Vec<String>,
}

impl<'a> Checking<'a> {
    pub(super) fn new(validator: &'a Validator, plan: &Plan) -> Checking<'a> {
        Checking {
            validator,
            scratch: validator.prepared.scratch(),
            autocommit: !plan.transaction.begin,
            seen: None,
            effects: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// Sends a statement. A write is noted before, since another session may read it as soon as it is sent.
    pub(super) fn execute<S: Session>(&mut self, session: &mut S, call: Call<'_>) -> Result<Option<u64>, Fault> {
        self.seen = None;
        let validator = self.validator;
        match &validator.shapes[call.statement] {
            None => session.execute(call),
            Some(Shape::Select(select)) if reads::asked(select, call).is_some() => {
                let mut seen = Seen::default();
                let rows = session.execute_showing(call, &mut |row| seen.push(row))?;
                self.seen = Some(seen);
                Ok(rows)
            }
            Some(Shape::Select(_)) => {
                validator.skipped[call.statement].store(true, Ordering::Relaxed);
                session.execute(call)
            }
            Some(write) => {
                validator.attempt(write, call);
                let changed = session.execute(call)?;
                if let Some(changed) = changed {
                    self.note(write, call, changed);
                }
                Ok(changed)
            }
        }
    }

    /// Notes what a write did; what is not noted is never settled.
    fn note(&mut self, write: &Shape, call: Call<'_>, changed: u64) {
        let Some(set) = write.written_set() else { return };
        let table = TableKey { set, number: call.table };
        let validator = self.validator;
        let mut effect = |id| self.effects.push(Effect { statement: call.statement, table, id, changed });
        match write {
            Shape::Select(_) => {}
            Shape::Update { .. } | Shape::Delete { .. } => effect(Some(last_number(call))),
            Shape::Insert { columns, .. } => {
                let rows = call.arguments.iter().count() / columns.len();
                match validator.inserted_ids(set, columns, call) {
                    _ if changed != rows as u64 => {}
                    Some(ids) => ids.into_iter().for_each(|id| effect(Some(id))),
                    None => effect(None),
                }
            }
        }
        if self.autocommit {
            self.settle();
        }
    }

    /// Checks what the statement just answered has read, and hands on what is wrong with it.
    pub(super) fn check(&mut self, call: Call<'_>, mut tell: impl FnMut(&str)) {
        let Some(seen) = self.seen.take() else { return };
        let Some(Shape::Select(select)) = &self.validator.shapes[call.statement] else { return };
        reads::check(self.validator, select, call, &seen, &mut self.scratch, &mut self.messages);
        let table = || self.validator.prepared.tables[select.set].table_name(call.table);
        for message in self.messages.drain(..) {
            tell(&format!("{}: {message}", table()));
            self.validator.differs(table, || message);
        }
    }

    /// The transaction has committed, or was given up, or nobody knows how it ended.
    pub(super) fn ended(&mut self, committed: bool) {
        match committed {
            true => self.settle(),
            false => self.effects.clear(),
        }
    }

    fn settle(&mut self) {
        self.effects.drain(..).for_each(|effect| self.validator.settle(&effect));
    }
}

/// What a row has in each column, as far as that is known.
type Values = Vec<(usize, Option<i64>)>;

/// The last argument of a write, by which it finds its row.
fn last_number(call: Call<'_>) -> i64 {
    match call.arguments.iter().last() {
        Some(Argument::Int(number)) => number,
        _ => 0,
    }
}

impl Validator {
    /// The ids of the rows that an INSERT gives; `None` for those that are kept by content.
    fn inserted_ids(&self, set: usize, columns: &[usize], call: Call<'_>) -> Option<Vec<i64>> {
        let tables = &self.prepared.tables[set];
        let key = tables.id_column()?;
        let at = columns.iter().position(|column| *column == key)?;
        let ids = call.arguments.iter().skip(at).step_by(columns.len()).map(|id| match id {
            Argument::Int(number) => Some(number),
            Argument::Text(_) | Argument::Auto => None,
        });
        let ids: Vec<i64> = ids.collect::<Option<_>>()?;
        (tables.rows > 0 || ids.len() <= MOST_BY_ID).then_some(ids)
    }

    /// Notes what a write may do.
    fn attempt(&self, write: &Shape, call: Call<'_>) {
        let Some(set) = write.written_set() else { return };
        let table = TableKey { set, number: call.table };
        match write {
            Shape::Select(_) => {}
            Shape::Update { changes, .. } => self.ledger.touch(table, last_number(call), |touched| {
                let mut arguments = call.arguments.iter();
                for &(column, change) in changes {
                    let argument = if change == Change::To { arguments.next() } else { None };
                    let kind = self.set(table).columns[column].kind;
                    touched.change(column, change, argument.and_then(|argument| value_written(kind, argument)));
                }
            }),
            Shape::Delete { .. } => self.ledger.touch(table, last_number(call), Touched::delete),
            Shape::Insert { columns, .. } => self.attempt_insert(table, columns, call),
        }
    }

    fn attempt_insert(&self, table: TableKey, columns: &[usize], call: Call<'_>) {
        let mut arguments = call.arguments.iter();
        let value = |column: usize, argument| (column, value_written(self.set(table).columns[column].kind, argument));
        let rows = std::iter::from_fn(|| {
            let row: Values =
                columns.iter().zip(arguments.by_ref()).map(|(&at, argument)| value(at, argument)).collect();
            (!row.is_empty()).then_some(row)
        });
        match self.inserted_ids(table.set, columns, call) {
            Some(ids) => ids.into_iter().zip(rows).for_each(|(id, row)| {
                self.ledger.touch(table, id, |touched| {
                    touched.insert();
                    row.into_iter().for_each(|(column, value)| touched.put(column, value));
                });
            }),
            None => self.ledger.add(table, |added| {
                for row in rows {
                    added.attempted += 1;
                    match self.content(table, row) {
                        Some(content) => drop(added.contents.insert(content)),
                        None => added.unknown = true,
                    }
                }
            }),
        }
    }

    /// What tells a row that is kept by content from others: all of its values but its id.
    fn content(&self, table: TableKey, mut row: Values) -> Option<u64> {
        let key = self.set(table).id_column();
        row.retain(|(column, _)| Some(*column) != key);
        row.sort_unstable();
        row.iter().all(|(_, value)| value.is_some()).then(|| fingerprint_of(&row))
    }

    fn settle(&self, effect: &Effect) {
        let Effect { statement, table, id, changed } = *effect;
        let Some(id) = id else {
            self.ledger.add(table, |added| added.settled += changed);
            return;
        };
        match &self.shapes[statement] {
            Some(Shape::Update { changes, .. }) if changed > 0 => self.ledger.touch(table, id, |touched| {
                changes.iter().for_each(|&(column, change)| touched.settle_change(column, change));
            }),
            Some(Shape::Delete { .. }) => self.ledger.touch(table, id, |touched| touched.settle_delete(changed)),
            Some(Shape::Insert { .. }) => self.ledger.touch(table, id, Touched::settle_insert),
            None | Some(Shape::Select(_) | Shape::Update { .. }) => {}
        }
    }
}
