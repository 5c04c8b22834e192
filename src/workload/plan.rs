//! The compiled plan: what one transaction does, ready to be played without parsing or allocating.
//!
//! A plan is made once from a workload file and the run's settings, then shared by all workers. A worker plays it
//! with [`Plan::play`], which draws arguments into the worker's own [`Scratch`] and hands each statement to a
//! [`Player`] (the engine's session). The same [`Operation`] always gives the same statements with the same
//! arguments, which is what makes a retry repeat itself and a run reproducible.
//!
//! Must not import: anything but the rest of `workload`.

use std::sync::Arc;

use super::expression::{Context, Expression};
use super::values::{Random, Template};

/// What a statement does, by what the workload file says it is and never by what it happened to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Read,
    Write,
    Other,
}

/// The identity of one transaction; all its random draws are a function of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The run's seed.
    pub seed: u64,
    /// Number of this transaction in the run, from 0, over all workers.
    pub ticket: u64,
    /// Number of the worker, from 0.
    pub worker: u32,
    /// Number of this transaction among the worker's own, from 0.
    pub worker_ticket: u64,
}

/// One argument of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument<'a> {
    Int(i64),
    Text(&'a str),
    /// The next value of an auto-increment column, chosen by the server.
    Auto,
}

/// The arguments of one call, in the order of the statement's placeholders. They live in the worker's [`Scratch`].
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    values: &'a [Value],
    text: &'a str,
}

/// One statement to be sent.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Index into [`Plan::statements`].
    pub statement: usize,
    /// Which table of the statement's set, from 1; 1 where the statement has no set.
    pub table: u32,
    pub arguments: Arguments<'a>,
}

/// Receives what a plan does; the engine's session is one.
pub trait Player {
    type Fault;
    /// Opens a transaction; `writes` says whether any of its statements is a write.
    fn begin(&mut self, writes: bool) -> Result<(), Self::Fault>;
    fn execute(&mut self, call: Call<'_>) -> Result<(), Self::Fault>;
    fn commit(&mut self) -> Result<(), Self::Fault>;
}

impl<'a> Arguments<'a> {
    /// Arguments whose texts are ranges of `text`.
    pub fn of(values: &'a [Value], text: &'a str) -> Arguments<'a> {
        Arguments { values, text }
    }

    pub fn iter(self) -> impl Iterator<Item = Argument<'a>> {
        self.values.iter().map(move |value| match *value {
            Value::Int(number) => Argument::Int(number),
            Value::Text { start, end } => Argument::Text(&self.text[start..end]),
            Value::Auto => Argument::Auto,
        })
    }
}

/// An argument as the scratch holds it: a number, or a range of the scratch's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Int(i64),
    Text { start: usize, end: usize },
    Auto,
}

/// A worker's buffers. They grow to what the largest statement needs and are kept, so that playing does not allocate.
#[derive(Debug)]
pub struct Scratch {
    slots: Vec<i64>,
    values: Vec<Value>,
    text: String,
}

/// A compiled workload.
#[derive(Debug)]
pub struct Plan {
    pub tables: Vec<TableSet>,
    pub statements: Vec<Statement>,
    pub transaction: Transaction,
    /// Whether the workload itself adds or removes rows for good, so that a table's size is no error.
    pub resizes_tables: bool,
    /// Number of variables a transaction sets.
    pub(super) slots: usize,
}

/// A statement and its text for every table of its set.
#[derive(Debug)]
pub struct Statement {
    pub name: String,
    pub kind: Kind,
    /// Text with `?` placeholders; index is table number - 1.
    pub sql: Vec<Arc<str>>,
    /// False for statements that are always sent as text.
    pub prepared: bool,
}

/// A place where a statement is executed, with what its table and its arguments are there.
#[derive(Debug)]
pub(super) struct CallSite {
    pub(super) statement: usize,
    pub(super) table: Expression,
    pub(super) arguments: Vec<ArgumentSource>,
}

/// Where one or several arguments of a statement come from.
#[derive(Debug)]
pub(super) enum ArgumentSource {
    One(ValueSource),
    /// A list's part, repeated; its variables and arguments are drawn anew each time.
    Repeated {
        times: u32,
        variables: Vec<(usize, Expression)>,
        sources: Vec<ValueSource>,
    },
}

impl ArgumentSource {
    fn is_auto(&self) -> bool {
        match self {
            ArgumentSource::One(source) => matches!(source, ValueSource::Auto),
            ArgumentSource::Repeated { sources, .. } => {
                sources.iter().any(|source| matches!(source, ValueSource::Auto))
            }
        }
    }
}

#[derive(Debug)]
pub(super) enum ValueSource {
    Int(Expression),
    Text(String),
    Template(Template),
    Auto,
}

/// What one transaction does.
#[derive(Debug)]
pub struct Transaction {
    /// Whether BEGIN and COMMIT stand around the steps.
    pub begin: bool,
    pub(super) steps: Vec<Step>,
    pub(super) writes: bool,
    pub(super) calls: usize,
}

#[derive(Debug)]
pub(super) enum Step {
    Set { slot: usize, value: Expression },
    Execute(CallSite),
    Repeat { times: u32, steps: Vec<Step> },
}

/// A family of numbered tables of one shape.
#[derive(Debug)]
pub struct TableSet {
    pub name: String,
    /// Which set of the plan it is, from 0, so that tables of the same number in two sets differ.
    pub(super) position: u32,
    /// Tables are numbered from 1 to this.
    pub count: u32,
    /// Rows of each table after `prepare`, with ids from 1.
    pub rows: u64,
    pub columns: Vec<Column>,
    pub key: Key,
    pub indexes: Vec<Index>,
    pub engine: Option<String>,
    /// Whether `prepare` accepts a table that is there already.
    pub if_not_exists: bool,
}

#[derive(Debug)]
pub struct Column {
    pub name: String,
    pub kind: ColumnType,
    pub auto_increment: bool,
    pub default: Option<String>,
    pub(super) value: ValueSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    Integer,
    BigInt,
    Char(u32),
    Varchar(u32),
}

/// The index that finds a row by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    Primary(Vec<String>),
    /// Not unique and not clustered; sysbench's --secondary.
    Plain {
        name: String,
        columns: Vec<String>,
    },
}

#[derive(Debug)]
pub struct Index {
    pub(super) name: String,
    pub columns: Vec<String>,
    pub build: Build,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    BeforeLoad,
    AfterLoad,
}

impl Index {
    /// Its name on table `number`.
    pub fn name(&self, number: u32) -> String {
        self.name.replace("{table}", &number.to_string())
    }
}

impl TableSet {
    pub fn table_name(&self, number: u32) -> String {
        format!("{}{number}", self.name)
    }

    /// Content of row `id` of table `number`, in the order of the columns: a function of (seed, set, number, id) alone.
    pub fn row<'s>(&self, seed: u64, number: u32, id: u64, scratch: &'s mut Scratch) -> Arguments<'s> {
        // The number alone in the first set, whose content stays that of versions which did not tell sets apart.
        let table = u64::from(self.position) << 32 | u64::from(number);
        let mut random = Random::of(&[seed, table, id]);
        let context = Context { slots: &[], row: id as i64, worker: 0, ticket: 0, worker_ticket: 0, index: 0, seed };
        scratch.values.clear();
        scratch.text.clear();
        for column in &self.columns {
            push(&column.value, &context, &mut random, &mut scratch.values, &mut scratch.text);
        }
        Arguments { values: &scratch.values, text: &scratch.text }
    }
}

/// Draws one value.
fn push(source: &ValueSource, context: &Context<'_>, random: &mut Random, values: &mut Vec<Value>, text: &mut String) {
    let start = text.len();
    match source {
        ValueSource::Int(expression) => {
            values.push(Value::Int(expression.evaluate(context, random)));
            return;
        }
        ValueSource::Auto => {
            values.push(Value::Auto);
            return;
        }
        ValueSource::Text(constant) => text.push_str(constant),
        ValueSource::Template(template) => template.render(random, text),
    }
    values.push(Value::Text { start, end: text.len() });
}

impl Plan {
    /// Whether a statement leaves the number of a new row to the server.
    pub fn numbers_by_server(&self) -> bool {
        fn any(steps: &[Step]) -> bool {
            steps.iter().any(|step| match step {
                Step::Set { .. } => false,
                Step::Execute(site) => site.arguments.iter().any(ArgumentSource::is_auto),
                Step::Repeat { steps, .. } => any(steps),
            })
        }
        any(&self.transaction.steps)
    }

    pub fn scratch(&self) -> Scratch {
        Scratch { slots: vec![0; self.slots], values: Vec::new(), text: String::new() }
    }

    /// Plays one transaction. The same operation gives the same calls with the same arguments.
    pub fn play<P: Player>(&self, operation: Operation, scratch: &mut Scratch, player: &mut P) -> Result<(), P::Fault> {
        let mut random = Random::of(&[operation.seed, operation.ticket]);
        if self.transaction.begin {
            player.begin(self.transaction.writes)?;
        }
        self.play_steps(&self.transaction.steps, operation, &mut random, scratch, player)?;
        if self.transaction.begin {
            player.commit()?;
        }
        Ok(())
    }

    fn play_steps<P: Player>(
        &self,
        steps: &[Step],
        operation: Operation,
        random: &mut Random,
        scratch: &mut Scratch,
        player: &mut P,
    ) -> Result<(), P::Fault> {
        for step in steps {
            match step {
                Step::Set { slot, value } => {
                    let drawn = value.evaluate(&context(operation, &scratch.slots, 0), random);
                    scratch.slots[*slot] = drawn;
                }
                Step::Execute(site) => {
                    let call = self.call(site, operation, random, scratch);
                    player.execute(call)?;
                }
                Step::Repeat { times, steps } => {
                    for _ in 0..*times {
                        self.play_steps(steps, operation, random, scratch, player)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn call<'s>(
        &self,
        site: &CallSite,
        operation: Operation,
        random: &mut Random,
        scratch: &'s mut Scratch,
    ) -> Call<'s> {
        let Scratch { slots, values, text } = scratch;
        values.clear();
        text.clear();
        let table = site.table.evaluate(&context(operation, slots, 0), random);
        for source in &site.arguments {
            match source {
                ArgumentSource::One(source) => push(source, &context(operation, slots, 0), random, values, text),
                ArgumentSource::Repeated { times, variables, sources } => {
                    for repetition in 0..i64::from(*times) {
                        for (slot, value) in variables {
                            slots[*slot] = value.evaluate(&context(operation, slots, repetition), random);
                        }
                        for source in sources {
                            push(source, &context(operation, slots, repetition), random, values, text);
                        }
                    }
                }
            }
        }
        // A table outside of its set becomes the nearest one, so that no expression can reach past the texts.
        let table = table.clamp(1, self.statements[site.statement].sql.len() as i64) as u32;
        Call { statement: site.statement, table, arguments: Arguments { values, text } }
    }

    /// Whether any statement of the transaction is a write.
    pub fn writes(&self) -> bool {
        self.transaction.writes
    }

    /// Calls of one transaction, BEGIN and COMMIT included.
    pub fn calls_per_transaction(&self) -> usize {
        self.transaction.calls
    }

    /// How many different texts there are, over all statements and tables.
    pub fn instances(&self) -> usize {
        self.statements.iter().map(|statement| statement.sql.len()).sum()
    }

    /// The text of a call.
    pub fn sql(&self, call: &Call<'_>) -> &Arc<str> {
        &self.statements[call.statement].sql[call.table as usize - 1]
    }
}

fn context(operation: Operation, slots: &[i64], index: i64) -> Context<'_> {
    Context {
        slots,
        row: 0,
        worker: i64::from(operation.worker),
        ticket: operation.ticket as i64,
        worker_ticket: operation.worker_ticket as i64,
        index,
        seed: operation.seed,
    }
}
