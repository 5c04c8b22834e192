//! The workload file as YAML has it: its shape, its places, and what a file takes over from the one it extends.
//!
//! Unknown keys are errors. Every name and expression keeps its line and column, so that whatever is found wrong with
//! it later can be shown where it stands.
//!
//! Must not import: anything but the rest of `workload`.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_saphyr::Spanned;

use super::expression::{self, Ast};
use super::plan::Kind;
use super::{OptionDefinition, OptionValue, WorkloadError};

/// Characters of an expression that a message repeats.
const MOST_SHOWN: usize = 60;

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: u64,
    pub column: u64,
}

impl Place {
    pub fn error(&self, message: impl Into<String>) -> WorkloadError {
        WorkloadError::InFile { place: self.clone(), message: message.into() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A parsed expression with its place.
#[derive(Clone, Debug)]
pub struct Source {
    pub ast: Ast,
    pub place: Place,
}

/// One file, or a file with all that it extends.
#[derive(Clone, Debug, Default)]
pub struct Module {
    pub description: String,
    /// The place is that of the default.
    pub options: Vec<Named<OptionDefinition>>,
    pub tables: Vec<Named<TableFile>>,
    pub statements: Vec<Named<StatementFile>>,
    pub blocks: Vec<Named<Vec<StepFile>>>,
    pub transaction: Option<TransactionFile>,
    pub resizes_tables: Option<bool>,
}

#[derive(Clone, Debug)]
pub struct Named<T> {
    pub name: String,
    pub place: Place,
    pub value: T,
}

#[derive(Clone, Debug, Default)]
pub struct TableFile {
    pub count: Option<Source>,
    pub rows: Option<Source>,
    pub columns: Option<Vec<Named<ColumnFile>>>,
    pub key: Option<KeyFile>,
    pub indexes: Option<Vec<IndexFile>>,
    pub engine: Option<Source>,
    pub if_not_exists: Option<bool>,
}

#[derive(Clone, Debug)]
pub struct ColumnFile {
    pub kind: (String, Place),
    pub auto_increment: Option<Source>,
    pub default: Option<String>,
    pub value: Source,
}

#[derive(Clone, Debug)]
pub struct KeyFile {
    pub columns: Vec<String>,
    /// Whether it is the primary key; it is unless said otherwise.
    pub primary: Option<Source>,
    pub name: Option<String>,
}

#[derive(Clone, Debug)]
pub struct IndexFile {
    pub name: String,
    pub columns: Vec<String>,
    pub condition: Option<Source>,
    pub before_load: bool,
}

#[derive(Clone, Debug)]
pub struct StatementFile {
    pub kind: Kind,
    pub sql: (String, Place),
    pub table: Option<Source>,
    pub prepared: bool,
    pub arguments: Vec<Source>,
    pub lists: Vec<Named<ListFile>>,
}

#[derive(Clone, Debug)]
pub struct ListFile {
    pub repeat: Source,
    pub text: String,
    pub join: String,
    /// Variables of one repetition.
    pub variables: Vec<Named<Source>>,
    pub arguments: Vec<Source>,
}

#[derive(Clone, Debug)]
pub struct TransactionFile {
    pub begin: Option<Source>,
    pub steps: Vec<StepFile>,
}

#[derive(Clone, Debug)]
pub struct StepFile {
    pub condition: Option<Source>,
    pub repeat: Option<Source>,
    pub action: Action,
}

#[derive(Clone, Debug)]
pub enum Action {
    Let(Vec<Named<Source>>),
    Execute(String, Place),
    Use(String, Place),
    Steps(Vec<StepFile>),
}

/// What a file itself says, and the name of the one it extends.
pub struct Parsed {
    pub extends: Option<(String, Place)>,
    pub module: Module,
}

/// Parses one file; `file` is how it is called in messages.
pub fn parse(file: &str, text: &str) -> Result<Parsed, WorkloadError> {
    // Only `true` and `false` are YAML's own booleans here, since a column or variable may be called `n` or `y`.
    let options = serde_saphyr::options! { strict_booleans: true };
    let raw: raw::File =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| yaml_error(file, &error))?;
    Reader { file }.module(raw)
}

fn yaml_error(file: &str, error: &serde_saphyr::Error) -> WorkloadError {
    let location = error.location();
    let place = Place {
        file: file.to_string(),
        line: location.map_or(1, |location| location.line()),
        column: location.map_or(1, |location| location.column()),
    };
    // The library's text may repeat the place and show the source; the first line says what is wrong.
    let message = error.without_snippet().render_with_formatter(&serde_saphyr::UserMessageFormatter);
    let message = message.lines().next().unwrap_or("not YAML").to_string();
    let message = match message.find(" at line ") {
        Some(end) => message[..end].trim_end_matches(',').to_string(),
        None => message,
    };
    place.error(message)
}

impl Module {
    /// Takes over from `base` what this file does not say itself. An option, table set, statement or block of the
    /// same name replaces the base's; of a table set or an option, only the parts that are given.
    pub fn extend(&mut self, mut base: Module) -> Result<(), WorkloadError> {
        for own in std::mem::take(&mut self.tables) {
            match base.tables.iter_mut().find(|table| table.name == own.name) {
                Some(table) => table.value.replace_parts(own.value),
                None => base.tables.push(own),
            }
        }
        self.tables = base.tables;
        self.statements = replaced(base.statements, std::mem::take(&mut self.statements));
        self.blocks = replaced(base.blocks, std::mem::take(&mut self.blocks));
        for own in std::mem::take(&mut self.options) {
            match base.options.iter_mut().find(|option| option.name == own.name) {
                Some(option) => {
                    let value = own.value.over(&option.value).map_err(|message| own.place.error(message))?;
                    *option = Named { value, ..own };
                }
                None => base.options.push(own),
            }
        }
        self.options = base.options;
        self.transaction = self.transaction.take().or(base.transaction);
        self.resizes_tables = self.resizes_tables.or(base.resizes_tables);
        Ok(())
    }
}

fn replaced<T>(mut base: Vec<Named<T>>, own: Vec<Named<T>>) -> Vec<Named<T>> {
    base.retain(|named| !own.iter().any(|own| own.name == named.name));
    base.extend(own);
    base
}

impl TableFile {
    fn replace_parts(&mut self, own: TableFile) {
        self.count = own.count.or(self.count.take());
        self.rows = own.rows.or(self.rows.take());
        self.key = own.key.or(self.key.take());
        self.engine = own.engine.or(self.engine.take());
        self.columns = own.columns.or(self.columns.take());
        self.indexes = own.indexes.or(self.indexes.take());
        self.if_not_exists = own.if_not_exists.or(self.if_not_exists);
    }
}

/// The YAML's own shape, close to serde.
mod raw {
    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct File {
        pub description: String,
        pub extends: Option<Spanned<String>>,
        #[serde(default)]
        pub options: Ordered<Opt>,
        #[serde(default)]
        pub tables: Ordered<Table>,
        #[serde(default)]
        pub statements: Ordered<Statement>,
        #[serde(default)]
        pub blocks: Ordered<Vec<Spanned<Step>>>,
        pub transaction: Option<Transaction>,
        pub resizes_tables: Option<Switch>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Opt {
        pub default: Spanned<Scalar>,
        pub min: Option<i64>,
        pub max: Option<i64>,
        pub values: Option<Vec<String>>,
        #[serde(default)]
        pub help: String,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Table {
        pub count: Option<Spanned<Scalar>>,
        pub rows: Option<Spanned<Scalar>>,
        pub columns: Option<Ordered<Column>>,
        pub key: Option<Key>,
        pub indexes: Option<Vec<Index>>,
        pub engine: Option<Spanned<Scalar>>,
        pub if_not_exists: Option<Switch>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Column {
        pub r#type: Spanned<String>,
        pub auto_increment: Option<Spanned<Scalar>>,
        pub default: Option<Scalar>,
        pub value: Spanned<Scalar>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Key {
        pub columns: Vec<String>,
        pub primary: Option<Spanned<Scalar>>,
        pub name: Option<String>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Index {
        pub name: String,
        pub columns: Vec<String>,
        pub r#if: Option<Spanned<Scalar>>,
        #[serde(default)]
        pub before_load: Switch,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Statement {
        pub kind: Spanned<String>,
        pub sql: Spanned<String>,
        pub table: Option<Spanned<Scalar>>,
        pub prepared: Option<Switch>,
        #[serde(default)]
        pub arguments: Vec<Spanned<Scalar>>,
        #[serde(default)]
        pub lists: Ordered<List>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct List {
        pub repeat: Spanned<Scalar>,
        pub text: String,
        pub join: String,
        #[serde(default)]
        pub r#let: Ordered<Spanned<Scalar>>,
        pub arguments: Vec<Spanned<Scalar>>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Transaction {
        pub begin: Option<Spanned<Scalar>>,
        pub steps: Vec<Spanned<Step>>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Step {
        pub r#let: Option<Ordered<Spanned<Scalar>>>,
        pub execute: Option<Spanned<String>>,
        pub r#use: Option<Spanned<String>>,
        pub steps: Option<Vec<Spanned<Step>>>,
        pub r#if: Option<Spanned<Scalar>>,
        pub repeat: Option<Spanned<Scalar>>,
    }

    /// A number, on or off, or a text, which may be an expression.
    #[derive(Clone)]
    pub enum Scalar {
        Bool(bool),
        Int(i64),
        Text(String),
    }

    impl Scalar {
        pub fn text(&self) -> String {
            match self {
                Scalar::Bool(true) => "on".into(),
                Scalar::Bool(false) => "off".into(),
                Scalar::Int(value) => value.to_string(),
                Scalar::Text(text) => text.clone(),
            }
        }
    }

    impl<'de> Deserialize<'de> for Scalar {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
            struct ScalarVisitor;
            impl Visitor<'_> for ScalarVisitor {
                type Value = Scalar;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a number, on, off, or a text")
                }
                fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
                    Ok(Scalar::Bool(value))
                }
                fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
                    Ok(Scalar::Int(value))
                }
                fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Scalar, E> {
                    i64::try_from(value).map(Scalar::Int).map_err(|_| E::custom("the number is too large"))
                }
                fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
                    Ok(match value {
                        "on" => Scalar::Bool(true),
                        "off" => Scalar::Bool(false),
                        text => Scalar::Text(text.to_string()),
                    })
                }
            }
            deserializer.deserialize_any(ScalarVisitor)
        }
    }

    /// On or off, which are true and false.
    #[derive(Clone, Copy, Default)]
    pub struct Switch(pub bool);

    impl<'de> Deserialize<'de> for Switch {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Switch, D::Error> {
            match Scalar::deserialize(deserializer)? {
                Scalar::Bool(value) => Ok(Switch(value)),
                _ => Err(serde::de::Error::custom("this is on or off")),
            }
        }
    }

    /// A mapping in the order of the file, each key with its place.
    pub struct Ordered<T>(pub Vec<(Spanned<String>, T)>);

    impl<T> Default for Ordered<T> {
        fn default() -> Self {
            Ordered(Vec::new())
        }
    }

    impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ordered<T>, D::Error> {
            struct MapVisitor<T>(PhantomData<T>);
            impl<'de, T: Deserialize<'de>> Visitor<'de> for MapVisitor<T> {
                type Value = Ordered<T>;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("names with what they mean")
                }
                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered<T>, A::Error> {
                    let mut entries = Vec::new();
                    while let Some(entry) = map.next_entry()? {
                        entries.push(entry);
                    }
                    Ok(Ordered(entries))
                }
            }
            deserializer.deserialize_map(MapVisitor(PhantomData))
        }
    }
}

/// Turns the raw shape into a module: parses expressions and attaches places.
struct Reader<'a> {
    file: &'a str,
}

impl Reader<'_> {
    fn place<T>(&self, spanned: &Spanned<T>) -> Place {
        let location = spanned.referenced;
        Place { file: self.file.to_string(), line: location.line(), column: location.column() }
    }

    fn source(&self, spanned: &Spanned<raw::Scalar>) -> Result<Source, WorkloadError> {
        let (text, place) = (spanned.value.text(), self.place(spanned));
        let shown: String = text.chars().take(MOST_SHOWN).collect();
        let ast = expression::parse(&text).map_err(|message| place.error(format!("`{shown}`: {message}")))?;
        Ok(Source { ast, place })
    }

    fn optional(&self, spanned: &Option<Spanned<raw::Scalar>>) -> Result<Option<Source>, WorkloadError> {
        spanned.as_ref().map(|spanned| self.source(spanned)).transpose()
    }

    fn sources(&self, list: &[Spanned<raw::Scalar>]) -> Result<Vec<Source>, WorkloadError> {
        list.iter().map(|spanned| self.source(spanned)).collect()
    }

    fn text(&self, spanned: Spanned<String>) -> (String, Place) {
        let place = self.place(&spanned);
        (spanned.value, place)
    }

    fn named<R, T>(
        &self,
        entries: raw::Ordered<R>,
        read: impl Fn(R, &Place) -> Result<T, WorkloadError>,
    ) -> Result<Vec<Named<T>>, WorkloadError> {
        let entry = |(key, value): (Spanned<String>, R)| {
            let (name, place) = self.text(key);
            let value = read(value, &place)?;
            Ok(Named { name, place, value })
        };
        entries.0.into_iter().map(entry).collect()
    }

    fn module(&self, raw: raw::File) -> Result<Parsed, WorkloadError> {
        let options = raw.options.0.into_iter().map(|(key, option)| self.option(key, option));
        let options = options.collect::<Result<_, _>>()?;
        let module = Module {
            description: raw.description,
            options,
            tables: self.named(raw.tables, |table, _| self.table(table))?,
            statements: self.named(raw.statements, |statement, _| self.statement(statement))?,
            blocks: self.named(raw.blocks, |steps, _| self.steps(steps))?,
            transaction: raw.transaction.map(|transaction| self.transaction(transaction)).transpose()?,
            resizes_tables: raw.resizes_tables.map(|switch| switch.0),
        };
        Ok(Parsed { extends: raw.extends.map(|extends| self.text(extends)), module })
    }

    fn option(&self, key: Spanned<String>, raw: raw::Opt) -> Result<Named<OptionDefinition>, WorkloadError> {
        let (name, place) = self.text(key);
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(plain) {
            return Err(
                place.error(format!("`{name}` cannot be an option's name; use lower-case letters, digits and _"))
            );
        }
        if expression::Known::is_reserved(&name) {
            return Err(place.error(format!("`{name}` has a meaning of its own; choose another name")));
        }
        let place = self.place(&raw.default);
        let default = match raw.default.value {
            raw::Scalar::Bool(value) => OptionValue::Bool(value),
            raw::Scalar::Int(value) => OptionValue::Int(value),
            raw::Scalar::Text(text) => OptionValue::Text(text),
        };
        let raw::Opt { min, max, values, help, .. } = raw;
        let value = OptionDefinition { name: name.clone(), default, min, max, values, help };
        value.check().map_err(|message| place.error(message))?;
        Ok(Named { name, place, value })
    }

    fn table(&self, raw: raw::Table) -> Result<TableFile, WorkloadError> {
        let column = |column: raw::Column, _: &Place| {
            Ok(ColumnFile {
                kind: self.text(column.r#type),
                auto_increment: self.optional(&column.auto_increment)?,
                default: column.default.map(|default| default.text()),
                value: self.source(&column.value)?,
            })
        };
        let index = |index: &raw::Index| {
            Ok(IndexFile {
                name: index.name.clone(),
                columns: index.columns.clone(),
                condition: self.optional(&index.r#if)?,
                before_load: index.before_load.0,
            })
        };
        let key = raw
            .key
            .map(|key| Ok(KeyFile { columns: key.columns, primary: self.optional(&key.primary)?, name: key.name }));
        Ok(TableFile {
            count: self.optional(&raw.count)?,
            rows: self.optional(&raw.rows)?,
            columns: raw.columns.map(|columns| self.named(columns, column)).transpose()?,
            key: key.transpose()?,
            indexes: raw.indexes.map(|indexes| indexes.iter().map(index).collect()).transpose()?,
            engine: self.optional(&raw.engine)?,
            if_not_exists: raw.if_not_exists.map(|switch| switch.0),
        })
    }

    fn statement(&self, raw: raw::Statement) -> Result<StatementFile, WorkloadError> {
        let list = |list: raw::List, _: &Place| {
            Ok(ListFile {
                repeat: self.source(&list.repeat)?,
                text: list.text,
                join: list.join,
                variables: self.named(list.r#let, |value, _| self.source(&value))?,
                arguments: self.sources(&list.arguments)?,
            })
        };
        Ok(StatementFile {
            kind: self.kind(raw.kind)?,
            sql: self.text(raw.sql),
            table: self.optional(&raw.table)?,
            prepared: raw.prepared.is_none_or(|prepared| prepared.0),
            arguments: self.sources(&raw.arguments)?,
            lists: self.named(raw.lists, list)?,
        })
    }

    fn kind(&self, spanned: Spanned<String>) -> Result<Kind, WorkloadError> {
        match self.text(spanned) {
            (text, _) if text == "read" => Ok(Kind::Read),
            (text, _) if text == "write" => Ok(Kind::Write),
            (text, _) if text == "other" => Ok(Kind::Other),
            (text, place) => Err(place.error(format!("`{text}` is not a kind of statement; use read, write or other"))),
        }
    }

    fn transaction(&self, raw: raw::Transaction) -> Result<TransactionFile, WorkloadError> {
        Ok(TransactionFile { begin: self.optional(&raw.begin)?, steps: self.steps(raw.steps)? })
    }

    fn steps(&self, raw: Vec<Spanned<raw::Step>>) -> Result<Vec<StepFile>, WorkloadError> {
        raw.into_iter().map(|step| self.step(step)).collect()
    }

    fn step(&self, spanned: Spanned<raw::Step>) -> Result<StepFile, WorkloadError> {
        let place = self.place(&spanned);
        let raw = spanned.value;
        let mut actions = Vec::new();
        if let Some(variables) = raw.r#let {
            actions.push(Action::Let(self.named(variables, |value, _| self.source(&value))?));
        }
        if let Some(statement) = raw.execute {
            let (name, place) = self.text(statement);
            actions.push(Action::Execute(name, place));
        }
        if let Some(block) = raw.r#use {
            let (name, place) = self.text(block);
            actions.push(Action::Use(name, place));
        }
        if let Some(steps) = raw.steps {
            actions.push(Action::Steps(self.steps(steps)?));
        }
        let condition = self.optional(&raw.r#if)?;
        let repeat = self.optional(&raw.repeat)?;
        match actions.len() {
            1 => Ok(StepFile { condition, repeat, action: actions.remove(0) }),
            _ => Err(place.error("a step has exactly one of let, execute, use and steps")),
        }
    }
}
