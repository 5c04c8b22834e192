//! What a worker measures: a plan's statements played on a [`Connection`].
//!
//! Statements are prepared on first use, each for each of its tables. Where they are sent as text, their literals are
//! written straight into the packet. BEGIN, COMMIT and ROLLBACK are text, since MySQL does not prepare BEGIN. A session
//! that the server lets prepare no more sends text from then on.
//!
//! Must not import: `metrics`, `engine`, `report`, `cli`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::response::{Answer, Form, Rows, Skip};
use super::values::Values;
use crate::spec::Protocol;
use crate::target::{Fault, FaultClass, Literals, Prepares, Row, Session, placeholders, render_text};
use crate::workload::plan::{Call, Plan};

/// A number that no server gives a statement: MariaDB uses it for the statement prepared last
/// (kb:com_stmt_execute).
const NOT_PREPARED: u32 = u32::MAX;

/// ER_MAX_PREPARED_STMT_COUNT_REACHED.
const TOO_MANY_STATEMENTS: i64 = 1461;

/// What all sessions of a target share: the plan, and what can be known of its texts beforehand.
pub struct Statements {
    plan: Arc<Plan>,
    protocol: Protocol,
    /// Of each statement the number of its first text; those of its other tables follow.
    first: Vec<usize>,
    /// Of each text where its placeholders are.
    placeholders: Vec<Box<[usize]>>,
}

impl Statements {
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    pub fn new(plan: Arc<Plan>, protocol: Protocol) -> Statements {
        let mut first = Vec::with_capacity(plan.statements.len());
        let mut all = Vec::with_capacity(plan.instances());
        for statement in &plan.statements {
            first.push(all.len());
            all.extend(statement.sql.iter().map(|sql| placeholders(sql).collect()));
        }
        Statements { plan, protocol, first, placeholders: all }
    }
}

pub struct MySqlSession {
    connection: Connection<'static>,
    statements: Arc<Statements>,
    protocol: Protocol,
    literals: Literals,
    /// The server's number of each text.
    prepared: Vec<u32>,
    prepares: Prepares,
}

impl MySqlSession {
    /// Refuses a connection on which the plan's writes would never be committed. From then on a statement may take as long
    /// as `statement_timeout` says.
    pub fn new(
        mut connection: Connection<'static>,
        statements: Arc<Statements>,
        statement_timeout: Option<Duration>,
    ) -> Result<MySqlSession, Fault> {
        let plan = &statements.plan;
        if plan.writes() && !plan.transaction.begin && !autocommits(&mut connection)? {
            return Err(failed(
                "autocommit is off on this connection and the workload sends no COMMIT: nothing would be written for \
                 good; give --init-sql 'SET autocommit = 1', or do without --skip-trx"
                    .into(),
            ));
        }
        let literals = match connection.ping()?.escapes_by_backslash() {
            true => Literals::MySql,
            false => Literals::MySqlNoBackslashEscapes,
        };
        connection.limit_silence(statement_timeout, "--statement-timeout")?;
        let prepared = vec![NOT_PREPARED; statements.placeholders.len()];
        let protocol = statements.protocol;
        Ok(MySqlSession { connection, statements, protocol, literals, prepared, prepares: Prepares::default() })
    }

    /// Prepares the text of a call; `None` if the server's limit is reached, for this session from now on.
    #[cold]
    fn prepare(&mut self, call: &Call<'_>, text: usize) -> Result<Option<u32>, Fault> {
        let plan = &self.statements.plan;
        let began = Instant::now();
        let statement = match self.connection.prepare(plan.sql(call)) {
            Err(fault) if fault.code == TOO_MANY_STATEMENTS => {
                self.protocol = Protocol::Text;
                self.prepares.refused = true;
                return Ok(None);
            }
            prepared => prepared?,
        };
        // 64 bits of nanoseconds last for 584 years.
        self.prepares.took_ns.push(began.elapsed().as_nanos() as u64);
        let given = call.arguments.iter().count();
        if usize::from(statement.parameters) != given {
            // The next transaction tries it anew, and a server keeps only so many.
            self.connection.close(statement.statement)?;
            let name = &plan.statements[call.statement].name;
            return Err(failed(format!(
                "the server finds {} placeholders in statement `{name}`, which has {given} arguments",
                statement.parameters
            )));
        }
        self.prepared[text] = statement.statement;
        Ok(Some(statement.statement))
    }

    fn answer(&mut self, call: &Call<'_>, rows: &mut impl Rows) -> Result<Answer, Fault> {
        let Statements { plan, first, .. } = &*self.statements;
        // Tables are numbered from 1.
        let text = first[call.statement] + call.table as usize - 1;
        if self.protocol == Protocol::Text || !plan.statements[call.statement].prepared {
            return self.execute_text(call, text, rows);
        }
        let statement = match self.prepared[text] {
            NOT_PREPARED => self.prepare(call, text)?,
            statement => Some(statement),
        };
        match statement {
            Some(statement) => {
                rows.expect(Form::Binary);
                self.connection.execute_into(statement, call.arguments, rows)
            }
            None => self.execute_text(call, text, rows),
        }
    }

    fn execute_text(&mut self, call: &Call<'_>, text: usize, rows: &mut impl Rows) -> Result<Answer, Fault> {
        let Statements { plan, placeholders, .. } = &*self.statements;
        let (places, literals) = (placeholders[text].iter().copied(), self.literals);
        let write = |out: &mut Vec<u8>| render_text(plan.sql(call), places, call.arguments, literals, out);
        rows.expect(Form::Text);
        self.connection.query_into(write, rows)
    }
}

/// The session's own value, since init_connect, a proxy or --init-sql may have set another than the server's. The status
/// that comes with each answer does not tell: MySQL 9.7 says "on" in a session that has it off by the server's default.
fn autocommits(connection: &mut Connection<'_>) -> Result<bool, Fault> {
    let rows = connection.rows("SHOW SESSION VARIABLES WHERE Variable_name = 'autocommit'")?;
    Ok(rows.into_iter().flatten().nth(1).flatten().is_none_or(|value| value != b"OFF"))
}

fn failed(message: String) -> Fault {
    Fault { class: FaultClass::Failed, code: 0, sqlstate: String::new(), message }
}

impl Session for MySqlSession {
    fn begin(&mut self, _writes: bool) -> Result<(), Fault> {
        self.connection.query("BEGIN").map(drop)
    }

    fn execute(&mut self, call: Call<'_>) -> Result<Option<u64>, Fault> {
        self.answer(&call, &mut Skip).map(|answer| Some(answer.rows_met()))
    }

    fn execute_showing(&mut self, call: Call<'_>, show: &mut dyn FnMut(Row<'_>)) -> Result<Option<u64>, Fault> {
        self.answer(&call, &mut Values::new(show)).map(|answer| Some(answer.rows_met()))
    }

    fn commit(&mut self) -> Result<(), Fault> {
        self.connection.query("COMMIT").map(drop)
    }

    fn rollback(&mut self) -> Result<(), Fault> {
        self.connection.query("ROLLBACK").map(drop)
    }

    fn encryption(&self) -> Option<String> {
        self.connection.encryption()
    }

    fn first_part(&mut self) -> Option<Instant> {
        self.connection.first_part()
    }

    fn take_prepares(&mut self, prepares: &mut Prepares) {
        // Almost always there is nothing, since a statement is prepared once.
        if !self.prepares.is_empty() {
            prepares.took_ns.append(&mut self.prepares.took_ns);
            prepares.refused |= std::mem::take(&mut self.prepares.refused);
        }
    }
}
