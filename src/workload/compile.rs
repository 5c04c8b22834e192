//! A module and the run's settings become a plan: names are looked up, constants folded, statement texts written out
//! for every table.
//!
//! Must not import: anything but the rest of `workload`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::expression::{Compiled, Expression, Known, Scope};
use super::file::{Action, ListFile, Module, Named, Place, Source, StatementFile, StepFile, TableFile};
use super::plan::{
    ArgumentSource, Build, CallSite, Column, ColumnType, Index, Key, Kind, Plan, Statement, Step, TableSet,
    Transaction, ValueSource,
};
use super::{OptionValue, Settings, WorkloadError, nearest};

/// The most repetitions of a step or a list, and the most tables of a set: more is a typing error.
const MOST_REPETITIONS: i64 = 1_000_000;
const MOST_TABLES: i64 = 1_000_000;
/// The most steps of a transaction once its blocks are put in.
const MOST_STEPS: usize = 100_000;
/// The most statements of a transaction, for each of which a connection keeps a time.
const MOST_CALLS: usize = 1_000_000;
/// How many blocks may use one another in a row, so that no file can exhaust the stack.
const DEEPEST_USE: usize = 50;
/// The largest number of rows of a table.
const MOST_ROWS: i64 = i64::MAX / 4;

const PLAYING: [Known; 3] = [Known::Worker, Known::Ticket, Known::WorkerTicket];
const IN_LIST: [Known; 4] = [Known::Worker, Known::Ticket, Known::WorkerTicket, Known::Index];
const IN_ROW: [Known; 1] = [Known::Row];

/// Compiles `module`, which is called `file` in messages that have no better place.
pub(super) fn compile(module: &Module, file: &str, settings: &Settings) -> Result<Plan, WorkloadError> {
    let whole = Place { file: file.to_string(), line: 1, column: 1 };
    settings.random.check().map_err(|message| WorkloadError::Settings { message })?;
    let options = module.options.iter().map(|option| {
        let value = settings.options.get(&option.name).unwrap_or(&option.value.default);
        (option.name.clone(), value.clone())
    });
    let threads = ("threads".to_string(), OptionValue::Int(i64::from(settings.threads)));
    let mut compiler = Compiler {
        module,
        settings,
        options: options.chain([threads]).collect(),
        tables: Vec::new(),
        statements: Vec::new(),
        variables: Vec::new(),
        most_variables: 0,
        steps: 0,
        depth: 0,
    };
    for table in &module.tables {
        let set = compiler.table(table)?;
        compiler.tables.push(set);
    }
    let Some(transaction) = &module.transaction else {
        return Err(whole.error("there is no transaction; add one, or extend a workload that has one"));
    };
    let begin = match &transaction.begin {
        Some(source) => compiler.constant_truth(source)?,
        None => false,
    };
    let steps = compiler.steps(&transaction.steps)?;
    let (calls, writes) = compiler.count(&steps);
    if calls == 0 {
        return Err(whole.error("with these options a transaction has no statement; raise the number of one"));
    }
    if calls > MOST_CALLS {
        return Err(whole.error(format!("a transaction has {calls} statements; at most {MOST_CALLS} are possible")));
    }
    Ok(Plan {
        tables: compiler.tables,
        statements: compiler.statements,
        transaction: Transaction { begin, steps, writes: writes > 0, calls: calls + if begin { 2 } else { 0 } },
        resizes_tables: module.resizes_tables.unwrap_or(false),
        slots: compiler.most_variables,
    })
}

/// The names that `prepare` looks at: those of the tables.
pub(super) fn names_of_tables(module: &Module) -> Vec<String> {
    let mut sources: Vec<&Source> = Vec::new();
    for table in module.tables.iter().map(|table| &table.value) {
        sources.extend([&table.count, &table.rows, &table.engine].into_iter().flatten());
        sources.extend(table.key.iter().filter_map(|key| key.primary.as_ref()));
        sources.extend(table.indexes.iter().flatten().filter_map(|index| index.condition.as_ref()));
        for column in table.columns.iter().flatten() {
            sources.extend(column.value.auto_increment.iter().chain([&column.value.value]));
        }
    }
    names(&sources)
}

/// The names that a run looks at: those of the transaction, through blocks and statements, and how many tables and
/// rows there are. All steps are walked, also those that an option switches off, so that an unknown block or statement
/// is found in any case.
pub(super) fn names_of_run(module: &Module) -> Result<Vec<String>, WorkloadError> {
    let mut walk = Walk { module, sources: Vec::new(), using: Vec::new(), done: Vec::new() };
    for table in module.tables.iter().map(|table| &table.value) {
        walk.sources.extend([&table.count, &table.rows].into_iter().flatten());
    }
    if let Some(transaction) = &module.transaction {
        walk.sources.extend(&transaction.begin);
        walk.steps(&transaction.steps)?;
    }
    Ok(names(&walk.sources))
}

fn names(sources: &[&Source]) -> Vec<String> {
    let mut names = Vec::new();
    for source in sources {
        source.ast.names(&mut |name| names.push(name.to_string()));
    }
    names
}

/// Collects the expressions that can be reached.
struct Walk<'a> {
    module: &'a Module,
    sources: Vec<&'a Source>,
    /// Blocks being walked, to find one that uses itself, and those that were walked.
    using: Vec<&'a str>,
    done: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    fn steps(&mut self, steps: &'a [StepFile]) -> Result<(), WorkloadError> {
        for step in steps {
            self.sources.extend(step.condition.iter().chain(&step.repeat));
            match &step.action {
                Action::Let(variables) => self.sources.extend(variables.iter().map(|variable| &variable.value)),
                Action::Steps(steps) => self.steps(steps)?,
                Action::Use(name, place) => self.block(name, place)?,
                Action::Execute(name, place) => {
                    let statement = &statement(self.module, name, place)?.value;
                    self.sources.extend(statement.table.iter().chain(&statement.arguments));
                    for list in &statement.lists {
                        self.sources.extend([&list.value.repeat].into_iter().chain(&list.value.arguments));
                        self.sources.extend(list.value.variables.iter().map(|variable| &variable.value));
                    }
                }
            }
        }
        Ok(())
    }

    fn block(&mut self, name: &'a str, place: &Place) -> Result<(), WorkloadError> {
        let steps = &block(self.module, name, place)?.value;
        if self.using.contains(&name) {
            return Err(place.error(format!("block `{name}` uses itself: {} -> {name}", self.using.join(" -> "))));
        }
        refuse_depth(self.using.len(), place)?;
        if !self.done.contains(&name) {
            self.using.push(name);
            self.steps(steps)?;
            self.using.pop();
            self.done.push(name);
        }
        Ok(())
    }
}

fn refuse_depth(depth: usize, place: &Place) -> Result<(), WorkloadError> {
    match depth < DEEPEST_USE {
        true => Ok(()),
        false => Err(place.error(format!("more than {DEEPEST_USE} blocks use one another in a row"))),
    }
}

fn block<'a>(module: &'a Module, name: &str, place: &Place) -> Result<&'a Named<Vec<StepFile>>, WorkloadError> {
    named(&module.blocks, "block", name, place)
}

fn statement<'a>(module: &'a Module, name: &str, place: &Place) -> Result<&'a Named<StatementFile>, WorkloadError> {
    named(&module.statements, "statement", name, place)
}

fn named<'a, T>(all: &'a [Named<T>], what: &str, name: &str, place: &Place) -> Result<&'a Named<T>, WorkloadError> {
    all.iter().find(|named| named.name == name).ok_or_else(|| {
        let nearest = nearest(name, all.iter().map(|named| named.name.as_str()));
        place.error(format!("there is no {what} `{name}`{nearest}"))
    })
}

struct Compiler<'a> {
    module: &'a Module,
    settings: &'a Settings,
    options: BTreeMap<String, OptionValue>,
    tables: Vec<TableSet>,
    statements: Vec<Statement>,
    /// Variables in sight, outermost first; the position is the slot.
    variables: Vec<String>,
    most_variables: usize,
    steps: usize,
    /// How many blocks the current step is in.
    depth: usize,
}

impl Compiler<'_> {
    fn scope<'s>(&'s self, known: &'s [Known]) -> Scope<'s> {
        Scope { options: &self.options, variables: &self.variables, known, random: &self.settings.random }
    }

    fn constant_truth(&self, source: &Source) -> Result<bool, WorkloadError> {
        self.scope(&[]).constant_truth(&source.ast).map_err(|message| source.place.error(message))
    }

    fn int(&self, source: &Source, known: &[Known]) -> Result<Expression, WorkloadError> {
        self.scope(known).int(&source.ast).map_err(|message| source.place.error(message))
    }

    fn optional_truth(&self, source: &Option<Source>, default: bool) -> Result<bool, WorkloadError> {
        source.as_ref().map_or(Ok(default), |source| self.constant_truth(source))
    }

    /// A constant within bounds.
    fn number(&self, source: &Source, low: i64, high: i64) -> Result<i64, WorkloadError> {
        let value = self.scope(&[]).constant(&source.ast).map_err(|message| source.place.error(message))?;
        match (low..=high).contains(&value) {
            true => Ok(value),
            false => Err(source.place.error(format!("this is {value}, and must be between {low} and {high}"))),
        }
    }

    fn value(&self, source: &Source, known: &[Known]) -> Result<ValueSource, WorkloadError> {
        let compiled = self.scope(known).compile(&source.ast).map_err(|message| source.place.error(message))?;
        Ok(match compiled {
            Compiled::Int(expression) => ValueSource::Int(expression),
            Compiled::Text(text) => ValueSource::Text(text),
            Compiled::Template(template) => ValueSource::Template(template),
            Compiled::Auto => ValueSource::Auto,
            Compiled::Truth(_) => return Err(source.place.error("a number or a text is needed here, not on or off")),
        })
    }

    fn table(&self, named: &Named<TableFile>) -> Result<TableSet, WorkloadError> {
        let Named { name, place, value: file } = named;
        let missing = |what: &str| place.error(format!("table set `{name}` has no {what}"));
        identifier(name, place)?;
        let count = self.number(file.count.as_ref().ok_or_else(|| missing("count"))?, 1, MOST_TABLES)?;
        let rows = self.number(file.rows.as_ref().ok_or_else(|| missing("rows"))?, 0, MOST_ROWS)?;
        let columns = file.columns.iter().flatten().map(|column| self.column(column)).collect::<Result<Vec<_>, _>>()?;
        let key = file.key.as_ref().ok_or_else(|| missing("key"))?;
        let known = |column: &String| match columns.iter().any(|known| known.name == *column) {
            true => Ok(()),
            false => {
                let nearest = nearest(column, columns.iter().map(|column| column.name.as_str()));
                Err(place.error(format!("table set `{name}` has no column `{column}`{nearest}")))
            }
        };
        if key.columns.is_empty() {
            return Err(missing("column in its key"));
        }
        key.columns.iter().try_for_each(known)?;
        let mut indexes = Vec::new();
        for index in file.indexes.iter().flatten() {
            index.columns.iter().try_for_each(known)?;
            if index.columns.is_empty() {
                return Err(missing("column in one of its indexes"));
            }
            if self.optional_truth(&index.condition, true)? {
                let build = if index.before_load { Build::BeforeLoad } else { Build::AfterLoad };
                indexes.push(Index { name: index.name.clone(), columns: index.columns.clone(), build });
            }
        }
        let if_not_exists = file.if_not_exists.unwrap_or(false);
        if if_not_exists && (rows > 0 || !indexes.is_empty()) {
            return Err(place.error(format!(
                "table set `{name}` has `if_not_exists`, which is for tables without rows and indexes: prepare cannot tell what one that is there has"
            )));
        }
        let engine = file.engine.as_ref().map(|source| match self.value(source, &[])? {
            ValueSource::Text(text) => Ok(text),
            _ => Err(source.place.error("the engine is a text")),
        });
        let primary = self.optional_truth(&key.primary, true)?;
        Ok(TableSet {
            name: name.clone(),
            position: self.tables.len() as u32,
            count: count as u32,
            rows: rows as u64,
            columns,
            key: match primary {
                true => Key::Primary(key.columns.clone()),
                false => Key::Plain {
                    name: key.name.clone().ok_or_else(|| missing("name for a key that is not primary"))?,
                    columns: key.columns.clone(),
                },
            },
            indexes,
            engine: engine.transpose()?,
            if_not_exists,
        })
    }

    fn column(&self, named: &Named<super::file::ColumnFile>) -> Result<Column, WorkloadError> {
        let file = &named.value;
        identifier(&named.name, &named.place)?;
        let (kind, place) = &file.kind;
        let kind = column_type(kind).ok_or_else(|| {
            place.error(format!("`{kind}` is not a column type; use integer, bigint, char(N) or varchar(N)"))
        })?;
        Ok(Column {
            name: named.name.clone(),
            kind,
            auto_increment: self.optional_truth(&file.auto_increment, false)?,
            default: file.default.clone(),
            value: self.value(&file.value, &IN_ROW)?,
        })
    }

    /// Variables are seen to the end of the steps that set them.
    fn steps(&mut self, files: &[StepFile]) -> Result<Vec<Step>, WorkloadError> {
        let outer = self.variables.len();
        let steps = self.open_steps(files);
        self.variables.truncate(outer);
        steps
    }

    /// Leaves the variables in sight.
    fn open_steps(&mut self, files: &[StepFile]) -> Result<Vec<Step>, WorkloadError> {
        let mut steps = Vec::new();
        for file in files {
            if !self.optional_truth(&file.condition, true)? {
                continue;
            }
            let times = match &file.repeat {
                Some(source) => self.number(source, 0, MOST_REPETITIONS)? as u32,
                None => 1,
            };
            if times == 0 {
                continue;
            }
            self.steps += 1;
            if self.steps > MOST_STEPS {
                let message =
                    format!("the transaction has more than {MOST_STEPS} steps; does a block use others too often?");
                return Err(WorkloadError::Settings { message });
            }
            let inner = self.action(&file.action)?;
            match times {
                1 => steps.extend(inner),
                _ => steps.push(Step::Repeat { times, steps: inner }),
            }
        }
        Ok(steps)
    }

    fn action(&mut self, action: &Action) -> Result<Vec<Step>, WorkloadError> {
        match action {
            Action::Let(variables) => variables.iter().map(|variable| self.variable(variable)).collect(),
            Action::Steps(steps) => self.steps(steps),
            Action::Execute(name, place) => Ok(vec![Step::Execute(self.call(name, place)?)]),
            Action::Use(name, place) => {
                // The walk goes through each block once, so it may have seen less of a chain than there is.
                refuse_depth(self.depth, place)?;
                self.depth += 1;
                // A block stands for its steps, so what it sets is seen by those that follow.
                let steps = self.open_steps(&block(self.module, name, place)?.value);
                self.depth -= 1;
                steps
            }
        }
    }

    fn variable(&mut self, named: &Named<Source>) -> Result<Step, WorkloadError> {
        let (slot, value) = self.assignment(named, &PLAYING)?;
        Ok(Step::Set { slot, value })
    }

    /// Brings a variable into sight and gives its slot and what it is set to.
    fn assignment(&mut self, named: &Named<Source>, known: &[Known]) -> Result<(usize, Expression), WorkloadError> {
        identifier(&named.name, &named.place)?;
        if Known::is_reserved(&named.name) {
            return Err(named.place.error(format!("`{}` has a meaning of its own; choose another name", named.name)));
        }
        let value = self.int(&named.value, known)?;
        let slot = self.variables.len();
        self.variables.push(named.name.clone());
        self.most_variables = self.most_variables.max(slot + 1);
        Ok((slot, value))
    }

    fn call(&mut self, name: &str, place: &Place) -> Result<CallSite, WorkloadError> {
        let file = &statement(self.module, name, place)?.value;
        let template = SqlTemplate::new(file, self)?;
        let statement = match self.statements.iter().position(|statement| statement.name == name) {
            Some(known) => known,
            None => {
                self.statements.push(Statement {
                    name: name.to_string(),
                    kind: file.kind,
                    sql: template.texts(&self.tables),
                    prepared: file.prepared,
                });
                self.statements.len() - 1
            }
        };
        let table = match (&file.table, template.tables) {
            (Some(source), _) => self.int(source, &PLAYING)?,
            (None, 1) => Expression::Constant(1),
            (None, count) => {
                let message = format!("statement `{name}` does not say which of its {count} tables; add `table:`");
                return Err(file.sql.1.error(message));
            }
        };
        if let Expression::Constant(number) = table
            && !(1..=i64::from(template.tables)).contains(&number)
        {
            let message = format!("there is no table {number}; tables are numbered from 1 to {}", template.tables);
            return Err(file.table.as_ref().map_or(place, |source| &source.place).error(message));
        }
        let arguments = template.arguments(file, self)?;
        Ok(CallSite { statement, table, arguments })
    }

    /// Calls of the steps in all, and how many of them write.
    fn count(&self, steps: &[Step]) -> (usize, usize) {
        steps.iter().fold((0, 0), |(calls, writes), step| {
            let (more_calls, more_writes) = match step {
                Step::Set { .. } => (0, 0),
                Step::Execute(site) => (1, usize::from(self.statements[site.statement].kind == Kind::Write)),
                Step::Repeat { times, steps } => {
                    let (calls, writes) = self.count(steps);
                    (calls.saturating_mul(*times as usize), writes)
                }
            };
            (calls.saturating_add(more_calls), writes + more_writes)
        })
    }
}

/// Tables and columns become part of SQL text, so their names are plain; and of lower case, since whether `T` is the same
/// table as `t` depends on the server and its machine.
fn identifier(name: &str, place: &Place) -> Result<(), WorkloadError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    match name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(plain) {
        true => Ok(()),
        false => Err(place.error(format!("`{name}` cannot be a name here; use lower-case letters, digits and _"))),
    }
}

fn column_type(text: &str) -> Option<ColumnType> {
    let length = |prefix: &str| text.strip_prefix(prefix)?.strip_suffix(')')?.trim().parse().ok();
    match text {
        "integer" => Some(ColumnType::Integer),
        "bigint" => Some(ColumnType::BigInt),
        _ => length("char(").map(ColumnType::Char).or_else(|| length("varchar(").map(ColumnType::Varchar)),
    }
}

/// A statement's text, cut at its placeholders.
struct SqlTemplate<'a> {
    pieces: Vec<Piece<'a>>,
    /// How many tables there are to choose from; 1 where the text names none.
    tables: u32,
}

enum Piece<'a> {
    Text(&'a str),
    Argument,
    /// Index of the table set.
    Table(usize),
    List {
        list: &'a ListFile,
        times: u32,
    },
}

impl<'a> SqlTemplate<'a> {
    fn new(file: &'a StatementFile, compiler: &Compiler<'_>) -> Result<SqlTemplate<'a>, WorkloadError> {
        let (sql, place) = &file.sql;
        if find_outside_quotes(sql, &[';']).is_some() {
            return Err(place.error("a statement is one statement; make two of what `;` separates"));
        }
        let mut template = SqlTemplate { pieces: Vec::new(), tables: 1 };
        let mut sets = Vec::new();
        let mut rest = sql.as_str();
        while let Some(at) = find_outside_quotes(rest, &['?', '{']) {
            template.pieces.push(Piece::Text(&rest[..at]));
            if rest[at..].starts_with('?') {
                template.pieces.push(Piece::Argument);
                rest = &rest[at + 1..];
                continue;
            }
            let end = rest[at..].find('}').ok_or_else(|| place.error("a `{` has no `}`"))? + at;
            let name = &rest[at + 1..end];
            rest = &rest[end + 1..];
            if let Some(list) = file.lists.iter().find(|list| list.name == name) {
                let times = compiler.number(&list.value.repeat, 1, MOST_REPETITIONS)? as u32;
                template.pieces.push(Piece::List { list: &list.value, times });
            } else if let Some(set) = compiler.tables.iter().position(|set| set.name == name) {
                template.pieces.push(Piece::Table(set));
                sets.push(set);
            } else {
                let lists = file.lists.iter().map(|list| list.name.as_str());
                let names = compiler.tables.iter().map(|set| set.name.as_str()).chain(lists);
                let nearest = nearest(name, names);
                return Err(
                    place.error(format!("`{{{name}}}` is neither a table set nor a list of this statement{nearest}"))
                );
            }
        }
        template.pieces.push(Piece::Text(rest));
        let mut counts = sets.iter().map(|&set| compiler.tables[set].count);
        if let Some(first) = counts.next() {
            template.tables = first;
            if counts.any(|count| count != first) {
                return Err(place.error("the table sets of one statement must have the same count"));
            }
        }
        template.check_arguments(file)?;
        Ok(template)
    }

    fn check_arguments(&self, file: &StatementFile) -> Result<(), WorkloadError> {
        let wanted = self.pieces.iter().filter(|piece| matches!(piece, Piece::Argument)).count();
        let given = file.arguments.len();
        if wanted != given {
            return Err(file.sql.1.error(format!("the text has {wanted} `?`, and there are {given} arguments")));
        }
        for list in &file.lists {
            let (wanted, given) = (arguments_in(&list.value.text, &list.place)?, list.value.arguments.len());
            if wanted != given {
                return Err(list
                    .place
                    .error(format!("the list's text has {wanted} `?`, and there are {given} arguments")));
            }
        }
        Ok(())
    }

    /// The text for each table, its lists written out.
    fn texts(&self, sets: &[TableSet]) -> Vec<Arc<str>> {
        let text = |number: u32| {
            let mut text = String::new();
            for piece in &self.pieces {
                match piece {
                    Piece::Text(part) => text.push_str(part),
                    Piece::Argument => text.push('?'),
                    Piece::Table(set) => text.push_str(&sets[*set].table_name(number)),
                    Piece::List { list, times } => {
                        let parts = vec![list.text.as_str(); *times as usize];
                        text.push_str(&parts.join(&list.join));
                    }
                }
            }
            Arc::from(text)
        };
        (1..=self.tables).map(text).collect()
    }

    /// The arguments in the order of the text's placeholders.
    fn arguments(
        &self,
        file: &StatementFile,
        compiler: &mut Compiler<'_>,
    ) -> Result<Vec<ArgumentSource>, WorkloadError> {
        let mut single = file.arguments.iter();
        let mut arguments = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Argument => {
                    for source in single.by_ref().take(1) {
                        arguments.push(ArgumentSource::One(compiler.value(source, &PLAYING)?));
                    }
                }
                Piece::List { list, times } => {
                    let outer = compiler.variables.len();
                    let variables = list.variables.iter().map(|variable| compiler.assignment(variable, &IN_LIST));
                    let variables = variables.collect::<Result<_, _>>()?;
                    let sources = list.arguments.iter().map(|source| compiler.value(source, &IN_LIST));
                    let sources = sources.collect::<Result<_, _>>()?;
                    compiler.variables.truncate(outer);
                    arguments.push(ArgumentSource::Repeated { times: *times, variables, sources });
                }
                Piece::Text(_) | Piece::Table(_) => {}
            }
        }
        Ok(arguments)
    }
}

/// How many arguments the part of a list has.
fn arguments_in(part: &str, place: &Place) -> Result<usize, WorkloadError> {
    let (mut rest, mut count) = (part, 0);
    while let Some(at) = find_outside_quotes(rest, &['?', '{', ';']) {
        if !rest[at..].starts_with('?') {
            return Err(place.error("a list's text has `?` only; tables and other lists belong into `sql`"));
        }
        count += 1;
        rest = &rest[at + 1..];
    }
    Ok(count)
}

/// The place of the first of some characters that stands outside of quotes.
fn find_outside_quotes(sql: &str, wanted: &[char]) -> Option<usize> {
    let mut quote = None;
    for (at, character) in sql.char_indices() {
        match (quote, character) {
            (None, _) if wanted.contains(&character) => return Some(at),
            (None, '\'' | '"' | '`') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
    }
    None
}
