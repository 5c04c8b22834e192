//! prepare, prewarm and cleanup.
//!
//! Loading is parallel across tables and inside them: the rows of a table are cut into segments, each of which one
//! connection inserts in primary-key order, so that pages fill from left to right however many connections load.
//! Row content is a function of (seed, set, table, id) alone, so it does not depend on how the work was cut.
//!
//! Must not import: `metrics`, `report`, `cli`.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::tables::{
    Table, existing, key_column, missing, not_counted, of_another, query, tables, too_many_rows, views, wrong_ids,
};
use super::{EngineError, Observer, UNCHANGED, descriptors, refuse};
use crate::target::bulk::{Bulk, Loader};
use crate::target::{Control, Database, Dialect, Fault, FaultClass};
use crate::workload::plan::{Build, Index, Plan};

/// Multi-row INSERTs are cut below this size, and below what the server accepts.
const STATEMENT_BYTES: usize = 1 << 20;
/// Room for the packet's header and for the server's own use.
const STATEMENT_MARGIN: usize = 16 << 10;
/// No segment is smaller than this, so that neighbours rarely touch the same page.
const FEWEST_SEGMENT_ROWS: u64 = 25_000;
/// Segments a connection gets on average, so that a slow one does not leave the others idle for long.
const SEGMENTS_PER_LOADER: u64 = 8;
/// How often progress is told.
const LOOK: Duration = Duration::from_millis(20);

/// What a command that was interrupted or failed leaves behind, for its last line.
const INCOMPLETE: &str = "what is there is incomplete, so run `oltpbench cleanup` before preparing again";
const SOME_LEFT: &str = "run `oltpbench cleanup` again to drop the tables that are left";

/// What `prepare` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub tables: u64,
    pub rows: u64,
    pub bulk: Bulk,
}

/// Rows `first..=last` of one table.
struct Segment<'a> {
    table: Table<'a>,
    first: u64,
    last: u64,
}

/// Creates and loads the plan's tables over `threads` connections, builds their indexes, and verifies row counts.
pub fn prepare(
    database: &dyn Database,
    plan: &Plan,
    threads: u32,
    seed: u64,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
) -> Result<Loaded, EngineError> {
    let dialect = database.dialect();
    refuse(not_counted(dialect, plan).or_else(|| too_many_rows(dialect, plan)))?;
    let mut control = database.control(interrupted)?;
    refuse_existing(control.as_mut(), dialect, plan)?;
    let limit = control.max_statement_bytes()?.min(STATEMENT_BYTES).saturating_sub(STATEMENT_MARGIN);
    drop(control);
    let (loaders, changed) = (database.loaders(threads.max(1)), AtomicBool::new(false));
    let mut crew = Crew { database, loaders, observer, interrupted, changed: &changed, left: INCOMPLETE };

    let tables = tables(plan);
    let create = |control: &mut dyn Control, table: &Table<'_>| create_table(control, dialect, table, &changed);
    crew.each("Creating tables", "tables", &tables, create)?;
    let segments = segments(&tables, crew.loaders);
    let rows = |segment: &Segment<'_>| segment.last + 1 - segment.first;
    let bulk = if segments.is_empty() { Bulk::Insert } else { database.bulk(interrupted)? };
    let load = Load { dialect, plan, seed, limit, bulk };
    let connect = |database: &dyn Database, interrupted| database.loader(bulk, interrupted);
    crew.work("Loading rows", "rows", &segments, rows, connect, |loader, segment, step| {
        load_segment(loader, &load, segment, step)
    })?;
    let indexes = indexes(&tables, Build::AfterLoad);
    crew.each("Building indexes", "indexes", &indexes, |control, (table, index)| {
        let sql = dialect.create_index(table.set, index, table.number);
        change(control, &sql, &changed, || format!("building index {} on {}", index.name(table.number), table.name()))
    })?;
    crew.each("Analyzing tables", "tables", &tables, |control, table| analyze(control, dialect, table))?;
    crew.each("Verifying tables", "tables", &tables, |control, table| verify(control, table))?;
    let rows = tables.iter().map(|table| table.set.rows).sum();
    Ok(Loaded { tables: tables.len() as u64, rows, bulk })
}

/// Reads every table and every secondary index once, so that the server's cache holds them. It writes nothing, so that it
/// serves a read-only server too.
pub fn prewarm(
    database: &dyn Database,
    plan: &Plan,
    threads: u32,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
) -> Result<u64, EngineError> {
    let dialect = database.dialect();
    refuse(missing(database.control(interrupted)?.as_mut(), dialect, plan)?)?;
    let tables = tables(plan);
    let (loaders, changed) = (threads.max(1), AtomicBool::new(false));
    let mut crew = Crew { database, loaders, observer, interrupted, changed: &changed, left: UNCHANGED };
    crew.each("Reading tables", "tables", &tables, |control, table| {
        query(control, &dialect.read_rows(table.set, table.number), || format!("reading {}", table.name()))?;
        for index in &table.set.indexes {
            let sql = dialect.read_index(table.set, index, table.number);
            query(control, &sql, || format!("reading index {} of {}", index.name(table.number), table.name()))?;
        }
        Ok(())
    })?;
    Ok(tables.len() as u64)
}

/// Drops the plan's tables, those that exist.
pub fn cleanup(
    database: &dyn Database,
    plan: &Plan,
    threads: u32,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
) -> Result<u64, EngineError> {
    let dialect = database.dialect();
    let mut control = database.control(interrupted)?;
    let existing = existing(control.as_mut(), dialect, plan)?;
    refuse(of_another(plan, &existing))?;
    if let Some(view) = views(control.as_mut(), dialect, plan)?.first() {
        return Err(EngineError::Tables(format!("{view} is a view, which prepare did not make; drop it yourself")));
    }
    drop(control);
    let tables: Vec<Table<'_>> =
        tables(plan).into_iter().filter(|table| existing.contains_key(&table.name())).collect();
    let (loaders, changed) = (database.loaders(threads.max(1)), AtomicBool::new(false));
    let mut crew = Crew { database, loaders, observer, interrupted, changed: &changed, left: SOME_LEFT };
    crew.each("Dropping tables", "tables", &tables, |control, table| {
        let sql = dialect.drop_table(table.set, table.number);
        change(control, &sql, &changed, || format!("dropping {}", table.name()))
    })?;
    Ok(tables.len() as u64)
}

/// What all segments are loaded with; `limit` is the size of a statement in bytes.
struct Load<'a> {
    dialect: Dialect,
    plan: &'a Plan,
    seed: u64,
    limit: usize,
    bulk: Bulk,
}

/// The connections that share a step's work.
struct Crew<'a> {
    database: &'a dyn Database,
    loaders: u32,
    observer: &'a mut dyn Observer,
    interrupted: &'a AtomicBool,
    /// Whether the database is no longer as it was.
    changed: &'a AtomicBool,
    /// What an interruption or an error leaves behind once it is not.
    left: &'static str,
}

/// What the connections of one step share.
struct Step<'a> {
    database: &'a dyn Database,
    interrupted: &'a AtomicBool,
    next: AtomicUsize,
    done: AtomicU64,
    stop: AtomicBool,
    error: Mutex<Option<EngineError>>,
}

impl<'a> Crew<'a> {
    /// Does `jobs`, each of which is one unit of progress.
    fn each<J: Sync>(
        &mut self,
        name: &str,
        unit: &str,
        jobs: &[J],
        job: impl Fn(&mut dyn Control, &J) -> Result<(), EngineError> + Sync,
    ) -> Result<(), EngineError> {
        self.work(
            name,
            unit,
            jobs,
            |_| 1,
            |database, interrupted| database.control(interrupted),
            |control: &mut (dyn Control + 'a), next, step| {
                job(control, next)?;
                step.done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            },
        )
    }

    /// Does `jobs` over as many connections as are useful, telling progress. The first error stops all.
    /// A job of `size` units adds to `done` what it has done, and ends early when `stop` is set.
    fn work<J: Sync, C: ?Sized>(
        &mut self,
        name: &str,
        unit: &str,
        jobs: &[J],
        size: impl Fn(&J) -> u64,
        connect: impl Fn(&'a dyn Database, &'a AtomicBool) -> Result<Box<C>, Fault> + Sync,
        job: impl Fn(&mut C, &J, &Step<'a>) -> Result<(), EngineError> + Sync,
    ) -> Result<(), EngineError> {
        let total: u64 = jobs.iter().map(size).sum();
        if total == 0 {
            return Ok(());
        }
        let count = self.loaders.min(u32::try_from(jobs.len()).unwrap_or(u32::MAX));
        descriptors::ensure(u64::from(count) * self.database.descriptors_per_control())?;
        let step = Step {
            database: self.database,
            interrupted: self.interrupted,
            next: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            error: Mutex::new(None),
        };
        std::thread::scope(|scope| {
            let mut workers = Vec::new();
            for number in 0..count {
                let body = || step.take_jobs(jobs, &connect, &job).unwrap_or_else(|error| step.fail(error));
                match std::thread::Builder::new().spawn_scoped(scope, body) {
                    Ok(worker) => workers.push(worker),
                    Err(source) => {
                        step.fail(EngineError::Thread { number, source });
                        break;
                    }
                }
            }
            loop {
                let finished = workers.iter().all(|worker| worker.is_finished());
                self.observer.progress(name, step.done.load(Ordering::Relaxed), total, unit);
                if finished {
                    break;
                }
                if self.interrupted.load(Ordering::Relaxed) {
                    step.stop.store(true, Ordering::Relaxed);
                }
                std::thread::park_timeout(LOOK);
            }
        });
        let left = if self.changed.load(Ordering::Relaxed) { self.left } else { UNCHANGED };
        match step.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None if !self.interrupted.load(Ordering::Relaxed) => Ok(()),
            None | Some(EngineError::Interrupted { .. }) => {
                Err(EngineError::Interrupted { step: name.to_lowercase(), left })
            }
            Some(error) if left == UNCHANGED => Err(error),
            Some(error) => Err(EngineError::Leaving { error: Box::new(error), left }),
        }
    }
}

impl<'a> Step<'a> {
    /// Keeps the first error and stops the other connections.
    fn fail(&self, error: EngineError) {
        self.stop.store(true, Ordering::Relaxed);
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    fn take_jobs<J, C: ?Sized>(
        &self,
        jobs: &[J],
        connect: impl Fn(&'a dyn Database, &'a AtomicBool) -> Result<Box<C>, Fault>,
        job: impl Fn(&mut C, &J, &Step<'a>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut connection = connect(self.database, self.interrupted)?;
        while !self.stop.load(Ordering::Relaxed) {
            let Some(next) = jobs.get(self.next.fetch_add(1, Ordering::Relaxed)) else { break };
            job(connection.as_mut(), next, self)?;
        }
        Ok(())
    }
}

fn indexes<'a>(tables: &[Table<'a>], build: Build) -> Vec<(Table<'a>, &'a Index)> {
    let of = |table: &Table<'a>| {
        let table = *table;
        table.set.indexes.iter().filter(move |index| index.build == build).map(move |index| (table, index))
    };
    tables.iter().flat_map(of).collect()
}

/// Cuts the tables' rows into pieces of about equal size, in order.
fn segments<'a>(tables: &[Table<'a>], loaders: u32) -> Vec<Segment<'a>> {
    let all: u64 = tables.iter().map(|table| table.set.rows).sum();
    let size = (all / (u64::from(loaders) * SEGMENTS_PER_LOADER)).max(FEWEST_SEGMENT_ROWS);
    let cut = |table: &Table<'a>| {
        let table = *table;
        let rows = table.set.rows;
        (0..rows.div_ceil(size)).map(move |piece| Segment {
            table,
            first: piece * size + 1,
            last: ((piece + 1) * size).min(rows),
        })
    };
    tables.iter().flat_map(cut).collect()
}

fn create_table(
    control: &mut dyn Control,
    dialect: Dialect,
    table: &Table<'_>,
    changed: &AtomicBool,
) -> Result<(), EngineError> {
    let what = || format!("creating table {}", table.name());
    change(control, &dialect.create_table(table.set, table.number), changed, what)?;
    if let Some(sql) = dialect.create_key(table.set, table.number) {
        change(control, &sql, changed, what)?;
    }
    for index in table.set.indexes.iter().filter(|index| index.build == Build::BeforeLoad) {
        change(control, &dialect.create_index(table.set, index, table.number), changed, what)?;
    }
    Ok(())
}

/// Loads a segment's rows in pieces of nearly the limit's size.
fn load_segment(
    loader: &mut dyn Loader,
    load: &Load<'_>,
    segment: &Segment<'_>,
    step: &Step<'_>,
) -> Result<(), EngineError> {
    let Table { set, number } = segment.table;
    let mut send = |rows: &str, count: u64, last: u64| -> Result<(), EngineError> {
        let what = || format!("loading rows of {} up to id {last}", set.table_name(number));
        loader.load(set, number, rows, count).map_err(|fault| EngineError::while_doing(what(), fault))?;
        step.done.fetch_add(count, Ordering::Relaxed);
        Ok(())
    };
    let mut scratch = load.plan.scratch();
    let mut row = String::new();
    let mut rows = String::with_capacity(load.limit);
    let mut count = 0;
    for id in segment.first..=segment.last {
        row.clear();
        load.bulk.push_row(load.dialect, set.row(load.seed, number, id, &mut scratch), &mut row);
        if count > 0 && rows.len() + row.len() + 1 > load.limit {
            send(&rows, count, id - 1)?;
            if step.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            rows.clear();
            count = 0;
        }
        if count > 0 {
            rows.push(load.bulk.separator());
        }
        rows.push_str(&row);
        count += 1;
    }
    if count > 0 {
        send(&rows, count, segment.last)?;
    }
    Ok(())
}

fn analyze(control: &mut dyn Control, dialect: Dialect, table: &Table<'_>) -> Result<(), EngineError> {
    let sql = dialect.analyze(table.set, table.number);
    let rows = query(control, &sql, || format!("analyzing {}", table.name()))?;
    // MySQL answers with rows of table, operation, kind of message and message, and even an error is one.
    let cell = |row: &[Option<String>], column: usize| row.get(column).cloned().flatten().unwrap_or_default();
    match rows.iter().find(|row| cell(row, 2).eq_ignore_ascii_case("error")) {
        Some(row) => Err(EngineError::Tables(format!("analyzing {}: the server says: {}", table.name(), cell(row, 3)))),
        None => Ok(()),
    }
}

fn verify(control: &mut dyn Control, table: &Table<'_>) -> Result<(), EngineError> {
    let key = key_column(table.set);
    let sql = format!("SELECT COUNT(*), MIN({key}), MAX({key}) FROM {}", table.name());
    let rows = query(control, &sql, || format!("counting the rows of {}", table.name()))?;
    let value = |column: usize| rows.first().and_then(|row| row.get(column)).and_then(Option::as_deref);
    let count = value(0).and_then(|count| count.parse().ok());
    let expected = table.set.rows;
    if count != Some(expected) {
        return Err(EngineError::Tables(format!(
            "{} holds {} rows instead of {expected}",
            table.name(),
            value(0).unwrap_or("no known number of")
        )));
    }
    match expected {
        0 => Ok(()),
        _ => refuse(wrong_ids(table, value(1), value(2))),
    }
}

fn refuse_existing(control: &mut dyn Control, dialect: Dialect, plan: &Plan) -> Result<(), EngineError> {
    let known = existing(control, dialect, plan)?;
    refuse(of_another(plan, &known))?;
    let all = tables(plan);
    let found = all.iter().filter(|table| !table.set.if_not_exists && known.contains_key(&table.name()));
    let found: Vec<String> = found.map(Table::name).collect();
    match found.first() {
        None => Ok(()),
        Some(name) => Err(EngineError::Tables(format!(
            "table {name} exists already ({} of {} tables); run `oltpbench cleanup` first if its data may go, or go on to `oltpbench run` if prepare was not interrupted",
            found.len(),
            all.len()
        ))),
    }
}

/// Changes the database, and sets `changed` if it did. A statement that was refused by its code did nothing; whether one did
/// whose answer did not come, nobody knows.
fn change(
    control: &mut dyn Control,
    sql: &str,
    changed: &AtomicBool,
    what: impl Fn() -> String,
) -> Result<(), EngineError> {
    let done = control.run(sql);
    let refused = |fault: &Fault| fault.code != 0 && fault.class != FaultClass::ConnectionLost;
    if !done.as_ref().is_err_and(refused) {
        changed.store(true, Ordering::Relaxed);
    }
    done.map(drop).map_err(|fault| EngineError::while_doing(what(), fault))
}
