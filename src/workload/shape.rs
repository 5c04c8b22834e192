//! What a statement means for rows, read from its text: which rows it reads or writes, by which of its arguments.
//!
//! Only plain statements on one table are understood, such as those of the built-in workloads; of any other nothing is
//! claimed. A table set is *plain* if its rows can be told from (seed, table, id) alone and found by one column.
//!
//! Must not import: anything but the rest of `workload`.

use super::expression::{Expression, Known};
use super::plan::{ColumnType, Key, Kind, Plan, TableSet, ValueSource};

/// A statement that is understood. Columns are numbered from 0, in the order of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    Select(Select),
    /// Changes columns of the rows whose id is the last argument; each [`Change::To`] takes one of the arguments before.
    Update {
        set: usize,
        changes: Vec<(usize, Change)>,
    },
    /// Deletes the rows whose id is the only argument.
    Delete {
        set: usize,
    },
    /// Inserts rows; the arguments are the values of these columns, row after row. They are all columns of the set.
    Insert {
        set: usize,
        columns: Vec<usize>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    To,
    By(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Select {
    pub set: usize,
    pub wanted: Wanted,
    /// The column whose values tell which rows are read.
    pub column: usize,
    /// A row is read if one of these holds for that column.
    pub terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    Columns {
        columns: Vec<usize>,
        distinct: bool,
    },
    /// Of a column of integers.
    Sum(usize),
    Count,
}

/// A condition that takes one argument, or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    Equal,
    Between,
}

impl Shape {
    /// What a statement of a plan means; `None` where its text does not say it plainly.
    pub fn of(plan: &Plan, statement: usize) -> Option<Shape> {
        let statement = &plan.statements[statement];
        let mut cursor = Cursor { words: words(statement.sql.first()?)?, at: 0 };
        let shape = cursor.statement(&plan.tables)?;
        cursor.ended().then_some(shape)
    }

    /// Whether a statement that is not understood may change rows.
    pub fn may_write(plan: &Plan, statement: usize) -> bool {
        let statement = &plan.statements[statement];
        let first = statement.sql.first().and_then(|sql| sql.split_whitespace().next()).unwrap_or_default();
        statement.kind != Kind::Read || !first.eq_ignore_ascii_case("select")
    }
}

/// More are not told apart.
const MOST_COLUMNS: usize = 1 << 16;

impl TableSet {
    /// The column that is the row's id, for a plain set.
    pub fn id_column(&self) -> Option<usize> {
        let (Key::Primary(names) | Key::Plain { columns: names, .. }) = &self.key;
        let [name] = names.as_slice() else { return None };
        let key = self.columns.iter().position(|column| column.name == *name)?;
        let is_row = matches!(self.columns[key].value, ValueSource::Int(Expression::Known(Known::Row)));
        // Of a value of another kind the server would make one of the column's.
        let told = self.columns.iter().all(|column| match column.value {
            ValueSource::Int(_) => column.kind.is_integer(),
            ValueSource::Text(_) | ValueSource::Template(_) => !column.kind.is_integer(),
            ValueSource::Auto => false,
        });
        (is_row && told && self.columns.len() <= MOST_COLUMNS).then_some(key)
    }
}

impl ColumnType {
    pub fn is_integer(self) -> bool {
        matches!(self, ColumnType::Integer | ColumnType::BigInt)
    }
}

/// Words, numbers and signs of a text; keywords are in lower case, as all names are. `None` if there is anything else.
fn words(sql: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = sql.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => {
                rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            '(' | ')' | ',' | '=' | '+' | '*' | '?' => 1,
            _ => return None,
        };
        words.push(rest[..length].to_ascii_lowercase());
        rest = rest[length..].trim_start();
    }
    Some(words)
}

struct Cursor {
    words: Vec<String>,
    at: usize,
}

impl Cursor {
    fn ended(&self) -> bool {
        self.at == self.words.len()
    }

    fn next(&mut self) -> Option<&str> {
        self.at += 1;
        self.words.get(self.at - 1).map(String::as_str)
    }

    /// Takes these words if they are next.
    fn takes(&mut self, words: &[&str]) -> bool {
        let there = self.words[self.at.min(self.words.len())..].iter().take(words.len()).eq(words);
        self.at += if there { words.len() } else { 0 };
        there
    }

    fn needs(&mut self, words: &[&str]) -> Option<()> {
        self.takes(words).then_some(())
    }

    fn statement(&mut self, sets: &[TableSet]) -> Option<Shape> {
        match self.next()? {
            "select" => self.select(sets).map(Shape::Select),
            "update" => {
                let set = self.table(sets)?;
                self.needs(&["set"])?;
                let key = sets[set].id_column()?;
                let changes = self.changes(&sets[set])?;
                self.by_id(&sets[set])?;
                changes.iter().all(|(column, _)| *column != key).then_some(Shape::Update { set, changes })
            }
            "delete" => {
                self.needs(&["from"])?;
                let set = self.table(sets)?;
                self.by_id(&sets[set])?;
                Some(Shape::Delete { set })
            }
            "insert" => {
                self.needs(&["into"])?;
                let set = self.table(sets)?;
                let columns = self.inserted_columns(&sets[set])?;
                self.rows(columns.len())?;
                Some(Shape::Insert { set, columns })
            }
            _ => None,
        }
    }

    /// The plain set whose first table is named.
    fn table(&mut self, sets: &[TableSet]) -> Option<usize> {
        let name = self.next()?;
        let set = sets.iter().position(|set| set.table_name(1) == name)?;
        sets[set].id_column().map(|_| set)
    }

    fn column(&mut self, set: &TableSet) -> Option<usize> {
        let name = self.next()?;
        set.columns.iter().position(|column| column.name == name)
    }

    /// WHERE with the id's column.
    fn by_id(&mut self, set: &TableSet) -> Option<()> {
        self.needs(&["where"])?;
        let column = self.column(set)?;
        self.needs(&["=", "?"])?;
        (Some(column) == set.id_column()).then_some(())
    }

    fn changes(&mut self, set: &TableSet) -> Option<Vec<(usize, Change)>> {
        let mut changes = Vec::new();
        loop {
            let column = self.column(set)?;
            self.needs(&["="])?;
            let change = match self.next()? {
                "?" => Change::To,
                name if name == set.columns[column].name && set.columns[column].kind.is_integer() => {
                    self.needs(&["+"])?;
                    Change::By(self.next()?.parse().ok()?)
                }
                _ => return None,
            };
            // Of two changes of one column it depends on the server what the second one sees.
            if changes.iter().any(|(known, _)| *known == column) {
                return None;
            }
            changes.push((column, change));
            if !self.takes(&[","]) {
                return Some(changes);
            }
        }
    }

    /// All columns of the set, in some order, each once.
    fn inserted_columns(&mut self, set: &TableSet) -> Option<Vec<usize>> {
        let all = 0..set.columns.len();
        let mut columns: Vec<usize> = all.clone().collect();
        if self.takes(&["("]) {
            columns.clear();
            loop {
                columns.push(self.column(set)?);
                match self.next()? {
                    "," => {}
                    ")" => break,
                    _ => return None,
                }
            }
        }
        self.needs(&["values"])?;
        (columns.len() == all.len() && all.into_iter().all(|column| columns.contains(&column))).then_some(columns)
    }

    /// Rows of so many arguments each.
    fn rows(&mut self, columns: usize) -> Option<()> {
        loop {
            self.needs(&["(", "?"])?;
            (1..columns).try_for_each(|_| self.needs(&[",", "?"]))?;
            self.needs(&[")"])?;
            if !self.takes(&[","]) {
                return Some(());
            }
        }
    }

    fn select(&mut self, sets: &[TableSet]) -> Option<Select> {
        // The table that the columns are of is named behind them.
        let start = self.at;
        self.at = start + self.words[start..].iter().position(|word| word == "from")? + 1;
        let set = self.table(sets)?;
        let behind = std::mem::replace(&mut self.at, start);
        let wanted = self.wanted(&sets[set])?;
        self.needs(&["from"])?;
        self.at = behind;
        self.needs(&["where"])?;
        let (column, terms) = self.terms(&sets[set])?;
        if self.takes(&["order", "by"]) {
            self.column(&sets[set])?;
        }
        Some(Select { set, wanted, column, terms })
    }

    fn wanted(&mut self, set: &TableSet) -> Option<Wanted> {
        if self.takes(&["count", "("]) {
            // No column of a set can be NULL.
            if !self.takes(&["*"]) {
                self.column(set)?;
            }
            self.needs(&[")"])?;
            return Some(Wanted::Count);
        }
        if self.takes(&["sum", "("]) {
            let column = self.column(set)?;
            self.needs(&[")"])?;
            return set.columns[column].kind.is_integer().then_some(Wanted::Sum(column));
        }
        let distinct = self.takes(&["distinct"]);
        let mut columns = vec![self.column(set)?];
        while self.takes(&[","]) {
            columns.push(self.column(set)?);
        }
        Some(Wanted::Columns { columns, distinct })
    }

    /// Conditions on one column of integers, of which one must hold.
    fn terms(&mut self, set: &TableSet) -> Option<(usize, Vec<Term>)> {
        let mut terms = Vec::new();
        let mut of = None;
        loop {
            let column = self.column(set)?;
            if *of.get_or_insert(column) != column || !set.columns[column].kind.is_integer() {
                return None;
            }
            match self.next()? {
                "=" => {
                    self.needs(&["?"])?;
                    terms.push(Term::Equal);
                }
                "between" => {
                    self.needs(&["?", "and", "?"])?;
                    terms.push(Term::Between);
                }
                "in" => {
                    self.needs(&["(", "?"])?;
                    terms.push(Term::Equal);
                    while self.takes(&[",", "?"]) {
                        terms.push(Term::Equal);
                    }
                    self.needs(&[")"])?;
                }
                _ => return None,
            }
            if !self.takes(&["or"]) {
                return of.map(|column| (column, terms));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Settings, Workload};

    fn plan(name: &str) -> Plan {
        Workload::load(name).unwrap().compile(&Settings { threads: 2, ..Settings::default() }).unwrap()
    }

    /// What a text means on the sbtest tables, whose columns are id, k, c and pad.
    fn shape(sql: &str) -> Option<Shape> {
        let sets = plan("oltp_read_only").tables;
        let mut cursor = Cursor { words: words(sql)?, at: 0 };
        let shape = cursor.statement(&sets)?;
        cursor.ended().then_some(shape)
    }

    #[test]
    fn every_statement_of_the_built_in_workloads_is_understood() {
        for name in Workload::builtin_names() {
            let plan = plan(name);
            for (index, statement) in plan.statements.iter().enumerate() {
                let shape = Shape::of(&plan, index).unwrap_or_else(|| panic!("{name}: {}", statement.sql[0]));
                assert_eq!(matches!(shape, Shape::Select(_)), statement.kind == Kind::Read, "{name}: {shape:?}");
            }
        }
    }

    #[test]
    fn a_text_means_what_it_says() {
        let select = |wanted, column, terms: &[Term]| Select { set: 0, wanted, column, terms: terms.to_vec() };
        let columns = |columns: &[usize], distinct| Wanted::Columns { columns: columns.to_vec(), distinct };
        for (sql, expected) in [
            ("select c from sbtest1 where id = ?", select(columns(&[2], false), 0, &[Term::Equal])),
            (
                "SELECT DISTINCT c, pad FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
                select(columns(&[2, 3], true), 0, &[Term::Between]),
            ),
            ("SELECT SUM(k) FROM sbtest1 WHERE k IN (?, ?)", select(Wanted::Sum(1), 1, &[Term::Equal; 2])),
            (
                "SELECT COUNT(*) FROM sbtest1 WHERE k=? OR k BETWEEN ? AND ?",
                select(Wanted::Count, 1, &[Term::Equal, Term::Between]),
            ),
        ] {
            assert_eq!(shape(sql), Some(Shape::Select(expected)), "{sql}");
        }
        let changes = vec![(1, Change::By(2)), (2, Change::To)];
        assert_eq!(shape("UPDATE sbtest1 SET k=k+2, c=? WHERE id=?"), Some(Shape::Update { set: 0, changes }));
        let insert = shape("INSERT INTO sbtest1 (pad, c, k, id) VALUES (?, ?, ?, ?)");
        assert_eq!(insert, Some(Shape::Insert { set: 0, columns: vec![3, 2, 1, 0] }));
    }

    #[test]
    fn nothing_is_claimed_of_what_is_not_plain() {
        for sql in [
            "SELECT c FROM sbtest1 WHERE id=1",
            "SELECT c FROM sbtest1 WHERE id=? LIMIT 1",
            "SELECT c FROM sbtest1 WHERE id=? AND k=?",
            "SELECT c FROM sbtest1 WHERE id=? OR k=?",
            "SELECT c FROM sbtest1 WHERE c=?",
            "SELECT c FROM sbtest1, sbtest2 WHERE id=?",
            "SELECT c FROM sbtest2 WHERE id=?",
            "SELECT SUM(c) FROM sbtest1 WHERE id=?",
            "SELECT MAX(k) FROM sbtest1 WHERE id=?",
            "SELECT c FROM sbtest1",
            "UPDATE sbtest1 SET id=? WHERE id=?",
            "UPDATE sbtest1 SET k=k+1 WHERE k=?",
            "UPDATE sbtest1 SET k=c+1 WHERE id=?",
            "UPDATE sbtest1 SET k=k+1, k=? WHERE id=?",
            "UPDATE sbtest1 SET c='x' WHERE id=?",
            "DELETE FROM sbtest1 WHERE id BETWEEN ? AND ?",
            "INSERT INTO sbtest1 (id, k, c) VALUES (?, ?, ?)",
            "INSERT INTO sbtest1 (id, k, c, c) VALUES (?, ?, ?, ?)",
            "INSERT INTO sbtest1 VALUES (?, ?, ?, ?) ON DUPLICATE KEY UPDATE k=?",
            "REPLACE INTO sbtest1 VALUES (?, ?, ?, ?)",
            "CALL p(?)",
            "",
        ] {
            assert_eq!(shape(sql), None, "{sql}");
        }
    }
}
