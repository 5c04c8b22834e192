//! What a worker measures: a plan's statements played on a [`Connection`].
//!
//! Statements are prepared on first use, each for each of its tables. Where they are sent as text, their literals are
//! written straight into the packet. BEGIN, COMMIT and ROLLBACK are text, since MySQL does not prepare BEGIN.
//!
//! Must not import: sqlx, which is for the control connection.

use std::sync::Arc;

use super::connection::Connection;
use crate::spec::Protocol;
use crate::target::{Dialect, Fault, FaultClass, Session, placeholders, render_text};
use crate::workload::plan::{Call, Plan};

/// A number that no server gives a statement: MariaDB uses it for the statement prepared last
/// (kb:com_stmt_execute).
const NOT_PREPARED: u32 = u32::MAX;

/// What all sessions of a target share: the plan, and what can be known of its texts beforehand.
pub struct Statements {
    plan: Arc<Plan>,
    protocol: Protocol,
    /// Of each statement the number of its first text; those of its other tables follow.
    first: Vec<usize>,
    /// Of each text where its placeholders are; nothing for those that are prepared.
    placeholders: Vec<Box<[usize]>>,
}

impl Statements {
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn new(plan: Arc<Plan>, protocol: Protocol) -> Statements {
        let mut first = Vec::with_capacity(plan.statements.len());
        let mut all = Vec::with_capacity(plan.instances());
        for statement in &plan.statements {
            first.push(all.len());
            let prepared = protocol == Protocol::Prepared && statement.prepared;
            let places = |sql: &Arc<str>| if prepared { Box::default() } else { placeholders(sql).collect() };
            all.extend(statement.sql.iter().map(places));
        }
        Statements { plan, protocol, first, placeholders: all }
    }
}

pub struct MySqlSession {
    connection: Connection<'static>,
    statements: Arc<Statements>,
    /// The server's number of each text.
    prepared: Vec<u32>,
}

impl MySqlSession {
    pub fn new(connection: Connection<'static>, statements: Arc<Statements>) -> MySqlSession {
        let prepared = vec![NOT_PREPARED; statements.placeholders.len()];
        MySqlSession { connection, statements, prepared }
    }

    /// Prepares the text of a call.
    #[cold]
    fn prepare(&mut self, call: &Call<'_>, text: usize) -> Result<u32, Fault> {
        let plan = &self.statements.plan;
        let statement = self.connection.prepare(plan.sql(call))?;
        let given = call.arguments.iter().count();
        if usize::from(statement.parameters) != given {
            let name = &plan.statements[call.statement].name;
            return Err(Fault {
                class: FaultClass::Failed,
                code: 0,
                sqlstate: String::new(),
                message: format!(
                    "the server finds {} placeholders in statement `{name}`, which has {given} arguments",
                    statement.parameters
                ),
            });
        }
        self.prepared[text] = statement.statement;
        Ok(statement.statement)
    }
}

impl Session for MySqlSession {
    fn begin(&mut self, _writes: bool) -> Result<(), Fault> {
        self.connection.query("BEGIN").map(drop)
    }

    fn execute(&mut self, call: Call<'_>) -> Result<(), Fault> {
        let Statements { plan, protocol, first, placeholders } = &*self.statements;
        // Tables are numbered from 1.
        let text = first[call.statement] + call.table as usize - 1;
        if *protocol == Protocol::Text || !plan.statements[call.statement].prepared {
            let places = placeholders[text].iter().copied();
            let write = |out: &mut Vec<u8>| render_text(plan.sql(&call), places, call.arguments, Dialect::MySql, out);
            return self.connection.query_with(write).map(drop);
        }
        let statement = match self.prepared[text] {
            NOT_PREPARED => self.prepare(&call, text)?,
            statement => statement,
        };
        self.connection.execute(statement, call.arguments).map(drop)
    }

    fn commit(&mut self) -> Result<(), Fault> {
        self.connection.query("COMMIT").map(drop)
    }

    fn rollback(&mut self) -> Result<(), Fault> {
        self.connection.query("ROLLBACK").map(drop)
    }
}
