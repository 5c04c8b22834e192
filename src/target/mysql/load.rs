//! Rows in bulk over a [`Connection`], by the lines of LOAD DATA LOCAL or by INSERT.
//!
//! Must not import: `metrics`, `engine`, `report`, `cli`.

use std::sync::atomic::AtomicBool;

use super::connection::{Connection, Endpoint};
use crate::target::bulk::{Bulk, Loader};
use crate::target::{Dialect, Fault, FaultClass};
use crate::workload::plan::{Plan, TableSet};

/// Understood by every server; all text of this program is in it.
const UTF8: &str = "utf8mb4";
/// Warnings that something goes out of use, such as the character set utf8mb3.
const DEPRECATIONS: [&str; 2] = ["1287", "3719"];
/// A load commits each of its statements, and writes its escapes with backslashes.
const LOADERS_SESSION: [&str; 2] =
    ["SET autocommit = 1", "SET sql_mode = REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '')"];
/// Character sets in which neither a client nor a file can be.
const WIDE: [&str; 4] = ["ucs2", "utf16", "utf16le", "utf32"];

pub struct MySqlLoader<'a> {
    connection: Connection<'a>,
    bulk: Bulk,
    /// That of the database, in which new tables keep their text.
    charset: String,
    /// What the server takes the text of statements to be.
    spoken: String,
}

impl<'a> MySqlLoader<'a> {
    pub fn open(endpoint: &Endpoint, bulk: Bulk, interrupted: &'a AtomicBool) -> Result<MySqlLoader<'a>, Fault> {
        let mut connection = Connection::open_to_load(endpoint, interrupted)?;
        for sql in LOADERS_SESSION {
            // A proxy may refuse to pass it on; what it is for is the exception.
            allowed(connection.query(sql))?;
        }
        let charset = cell(&mut connection, "SELECT @@character_set_database")?;
        let charset = charset.filter(|charset| !WIDE.contains(&charset.as_str())).unwrap_or_else(|| UTF8.into());
        Ok(MySqlLoader { connection, bulk, charset, spoken: UTF8.into() })
    }

    /// LOAD DATA LOCAL makes warnings of what are errors elsewhere, such as a value that is too long, and stores another.
    fn refuse_warnings(&mut self) -> Result<(), Fault> {
        for warning in self.connection.rows("SHOW WARNINGS")? {
            let cell = |column: usize| warning.get(column).and_then(Option::as_deref).unwrap_or_default();
            let (code, message) = (String::from_utf8_lossy(cell(1)), String::from_utf8_lossy(cell(2)));
            if !DEPRECATIONS.contains(&code.as_ref()) {
                return Err(altered(format!("the server would store other values (warning {code}: {message})")));
            }
        }
        Ok(())
    }

    fn speak(&mut self, charset: &str) -> Result<(), Fault> {
        if self.spoken != charset {
            self.connection.query(&format!("SET NAMES {charset}"))?;
            self.spoken = charset.into();
        }
        Ok(())
    }
}

/// What came of something that a server or a proxy may refuse; nothing if it did.
fn allowed<R>(done: Result<R, Fault>) -> Result<Option<R>, Fault> {
    match done {
        Err(fault) if fault.class == FaultClass::Failed => Ok(None),
        done => done.map(Some),
    }
}

/// The first value of a query.
fn cell(connection: &mut Connection<'_>, sql: &str) -> Result<Option<String>, Fault> {
    let rows = allowed(connection.rows(sql))?;
    Ok(rows.into_iter().flatten().flatten().next().flatten().and_then(|value| String::from_utf8(value).ok()))
}

/// LOAD DATA LOCAL where the server allows it, which is tried without a row: a proxy may refuse what its server allows.
/// The plan's tables must be there.
pub fn bulk(endpoint: &Endpoint, plan: &Plan, interrupted: &AtomicBool) -> Result<Bulk, Fault> {
    let mut connection = Connection::open_to_load(endpoint, interrupted)?;
    let Some(set) = plan.tables.first() else { return Ok(Bulk::Insert) };
    if cell(&mut connection, "SELECT @@local_infile")?.as_deref() != Some("1") {
        return Ok(Bulk::Insert);
    }
    match connection.load(&Dialect::load_data(set, 1, UTF8), "") {
        Ok(_) => Ok(Bulk::LoadData),
        Err(fault) if fault.class == FaultClass::Interrupted => Err(fault),
        Err(_) => Ok(Bulk::Insert),
    }
}

impl Loader for MySqlLoader<'_> {
    /// Text in the database's own character set needs no conversion, which costs a server with latin1 tables (MariaDB's
    /// default) a quarter of a load. ASCII is the same in all of them.
    fn load(&mut self, set: &TableSet, number: u32, rows: &str, count: u64) -> Result<(), Fault> {
        let charset = if rows.is_ascii() { self.charset.clone() } else { UTF8.into() };
        let answer = match self.bulk {
            Bulk::LoadData => self.connection.load(&Dialect::load_data(set, number, &charset), rows),
            Bulk::Insert => {
                self.speak(&charset)?;
                let prefix = Dialect::MySql.insert_prefix(set, number);
                self.connection.query_with(|out| {
                    out.extend_from_slice(prefix.as_bytes());
                    out.extend_from_slice(rows.as_bytes());
                })
            }
        };
        let answer = answer.map_err(super::say_read_only)?;
        if answer.affected != count {
            return Err(altered(format!("the server took {} of {count} rows", answer.affected)));
        }
        match answer.warnings {
            0 => Ok(()),
            _ => self.refuse_warnings(),
        }
    }
}

fn altered(message: String) -> Fault {
    Fault { class: FaultClass::Failed, code: 0, sqlstate: String::new(), message }
}
