//! The tables after a run: every row is read once, over a connection of its own, and held against what was written.
//!
//! Must not import: `metrics`, `report`, `cli`.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use super::ledger::{Added, TableKey, Touched};
use super::reads::count_differs;
use super::{Validator, values_of_texts};
use crate::engine::tables::query;
use crate::engine::{EngineError, Observer};
use crate::target::{Control, Database, Dialect};
use crate::workload::plan::Scratch;

/// Rows of one query.
const CHUNK: usize = 5000;

/// How far an audit came.
#[derive(Debug, Default)]
pub(super) struct Audit {
    pub(super) tables: u64,
    pub(super) rows: u64,
    /// Why not all tables were audited.
    pub(super) unaudited: Option<String>,
    /// Whether something ended it, or kept it from beginning.
    pub(super) cut_off: bool,
}

impl Audit {
    pub(super) fn cut_off(reason: String) -> Audit {
        Audit { unaudited: Some(reason), cut_off: true, ..Audit::default() }
    }
}

/// Reads all tables whose rows can be told. Must be called when no write is in flight any more.
pub(super) fn audit(
    validator: &Validator,
    database: &dyn Database,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
) -> Audit {
    let mut audit = Audit::default();
    let mut control = match database.prompt_control(interrupted) {
        Ok(control) => control,
        Err(fault) => return Audit::cut_off(EngineError::from(fault).to_string()),
    };
    let mut written = validator.ledger.take();
    let tables = validator
        .prepared
        .tables
        .iter()
        .enumerate()
        .flat_map(|(set, tables)| (1..=tables.count).map(move |number| TableKey { set, number }));
    let tables: Vec<TableKey> = tables.collect();
    let unclear = validator.prepared.tables.iter().find(|set| set.id_column().is_none());
    audit.unaudited = unclear.map(|set| format!("the rows of {} are not told by their id", set.name));
    for (done, &table) in tables.iter().enumerate() {
        observer.progress("Auditing tables", done as u64, tables.len() as u64, "tables");
        if validator.set(table).id_column().is_none() {
            continue;
        }
        let (touched, added) = written.remove(&table).unwrap_or_default();
        let mut of_table = OfTable {
            validator,
            table,
            touched,
            added,
            by_content: 0,
            next: i64::MIN,
            rows: 0,
            scratch: validator.prepared.scratch(),
        };
        match of_table.read(control.as_mut()) {
            Ok(()) => audit.tables += 1,
            Err(error) => {
                (audit.unaudited, audit.cut_off) = (Some(error.to_string()), true);
                break;
            }
        }
        audit.rows += of_table.rows;
    }
    observer.progress("Auditing tables", tables.len() as u64, tables.len() as u64, "tables");
    audit
}

/// The audit of one table, in the order of its ids.
struct OfTable<'a> {
    validator: &'a Validator,
    table: TableKey,
    touched: BTreeMap<i64, Touched>,
    added: Added,
    /// Rows that are known by their content alone.
    by_content: u64,
    /// The first id that nothing was said of.
    next: i64,
    rows: u64,
    scratch: Scratch,
}

type TextRow = Vec<Option<String>>;

impl OfTable<'_> {
    fn read(&mut self, control: &mut dyn Control) -> Result<(), EngineError> {
        let set = self.validator.set(self.table);
        let Some(key) = set.id_column() else { return Ok(()) };
        let (name, id_name) = (set.table_name(self.table.number), &set.columns[key].name);
        let id_of = |row: &TextRow| row.get(key)?.as_ref()?.parse::<i64>().ok();
        let mut after = None;
        loop {
            let from = after.map_or(String::new(), |id: i64| format!("WHERE {id_name} > {id} "));
            let rest = format!("{from}ORDER BY {id_name} LIMIT {CHUNK}");
            let sql = Dialect::select_rows(set, self.table.number, &rest);
            let mut rows = query(control, &sql, || format!("auditing {name}"))?;
            let full = rows.len() >= CHUNK;
            let last = rows.last().and_then(id_of);
            // Of an id that is not unique more rows may follow, so it is left to the next query.
            if full && rows.iter().any(|row| id_of(row) != last) {
                rows.retain(|row| id_of(row) != last);
            }
            after = rows.last().and_then(id_of);
            for same in rows.chunk_by(|one, other| id_of(one) == id_of(other)) {
                match id_of(&same[0]) {
                    Some(id) => self.id(id, same),
                    None => self.differs(|| "a row without an id is there".into()),
                }
            }
            if !full || after.is_none() {
                break;
            }
        }
        self.absent_before(None);
        self.count_by_content();
        Ok(())
    }

    fn differs(&self, message: impl FnOnce() -> String) {
        let validator = self.validator;
        let table = || format!("audit of {}", validator.set(self.table).table_name(self.table.number));
        validator.differs(table, message);
    }

    /// All rows of one id.
    fn id(&mut self, id: i64, rows: &[TextRow]) {
        self.absent_before(Some(id));
        self.rows += rows.len() as u64;
        let touched = self.touched.get(&id);
        let view = self.validator.view(self.table, id, touched, true);
        let by_content = !view.prepared && self.added.attempted > 0;
        if by_content {
            self.by_content += rows.len() as u64;
            let foreign = rows.iter().filter(|row| touched.is_none() && !self.is_added(row)).count();
            (0..foreign).for_each(|_| self.differs(|| count_differs(id, 1, &(0..=0))));
            return;
        }
        let count = rows.len() as i64;
        if !view.rows().contains(&count) {
            self.differs(|| count_differs(id, count, &view.rows()));
            return;
        }
        let set = self.validator.set(self.table);
        let columns: Vec<usize> = (0..set.columns.len()).collect();
        let prepared = match view.prepared {
            true => self.validator.prepared_row(self.table, id, &mut self.scratch),
            false => Vec::new(),
        };
        for row in rows {
            let row: Vec<Option<&[u8]>> = row.iter().map(|text| text.as_ref().map(String::as_bytes)).collect();
            let message = self.validator.columns_differ(self.table, id, &columns, &row, &prepared, &view);
            if let Some(message) = message {
                self.differs(|| message);
            }
        }
    }

    /// Whether a row is one of those that are known by their content.
    fn is_added(&self, row: &TextRow) -> bool {
        let values = values_of_texts(self.validator.set(self.table), row);
        let content = self.validator.content(self.table, values.into_iter().enumerate().collect());
        self.added.unknown || content.is_some_and(|content| self.added.contents.contains(&content))
    }

    /// Looks whether rows may be missing between the last id that was seen and the one that is; at the end, all that are
    /// left.
    fn absent_before(&mut self, id: Option<i64>) {
        let last = id.map_or(i64::MAX, |id| id.saturating_sub(1));
        let from = self.next;
        self.next = id.map_or(i64::MAX, |id| id.saturating_add(1));
        if from > last {
            return;
        }
        let rows = i64::try_from(self.validator.set(self.table).rows).unwrap_or(i64::MAX);
        let prepared = from.max(1)..=last.min(rows);
        let beside = self.touched.range(from..=last).map(|(id, _)| *id).filter(|id| !(1..=rows).contains(id));
        for id in beside.chain(prepared) {
            let view = self.validator.view(self.table, id, self.touched.get(&id), true);
            if *view.rows().start() > 0 {
                self.differs(|| count_differs(id, 0, &view.rows()));
            }
        }
    }

    fn count_by_content(&self) {
        let Added { attempted, settled, .. } = self.added;
        let deletes = self.touched.iter().filter(|(id, _)| !self.validator.is_prepared(self.table, **id));
        let deletes: u64 = deletes.map(|(_, touched)| touched.attempted_deletes()).sum();
        let expected = settled.saturating_sub(deletes)..=attempted;
        if attempted > 0 && !expected.contains(&self.by_content) {
            self.differs(|| {
                let (least, most) = (expected.start(), expected.end());
                format!("there are {} rows that this run inserted, not {least} to {most}", self.by_content)
            });
        }
    }
}
