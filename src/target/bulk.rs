//! Rows in bulk: how they are written, and the connection that loads them.
//!
//! A load sends many rows at once, in the form that the database takes fastest: LOAD DATA LOCAL, whose lines come from
//! memory and never from a file, or multi-row INSERT.
//!
//! Must not import: `metrics`, `engine`, `report`, `cli`.

use super::schema::Dialect;
use super::{Fault, Literals, push_escaped, render_literal};
use crate::workload::plan::{Argument, Arguments, TableSet};

/// How rows are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bulk {
    Insert,
    LoadData,
}

/// A connection that loads rows.
pub trait Loader {
    /// Loads `count` rows into table `number` of a set, written one after the other by [`Bulk::push_row`].
    fn load(&mut self, set: &TableSet, number: u32, rows: &str, count: u64) -> Result<(), Fault>;
}

impl Bulk {
    /// What a person reads.
    pub fn name(self) -> &'static str {
        match self {
            Bulk::Insert => "multi-row INSERT",
            Bulk::LoadData => "LOAD DATA LOCAL",
        }
    }

    /// What stands between two rows.
    pub fn separator(self) -> char {
        match self {
            Bulk::Insert => ',',
            Bulk::LoadData => '\n',
        }
    }

    /// Appends a row: the values of all columns in the order of the table.
    pub fn push_row(self, dialect: Dialect, values: Arguments<'_>, out: &mut String) {
        for (column, value) in values.iter().enumerate() {
            match self {
                Bulk::Insert => {
                    out.push(if column == 0 { '(' } else { ',' });
                    render_literal(value, Literals::of(dialect), out);
                }
                Bulk::LoadData => {
                    if column > 0 {
                        out.push('\t');
                    }
                    push_field(value, out);
                }
            }
        }
        if self == Bulk::Insert {
            out.push(')');
        }
    }
}

/// A field of LOAD DATA with its default clauses: tabs between fields, escapes by backslash
/// (dev.mysql.com/doc/refman/en/load-data.html).
fn push_field(value: Argument<'_>, out: &mut String) {
    match value {
        Argument::Int(number) => out.push_str(itoa::Buffer::new().format(number)),
        // 0 asks for the next value.
        Argument::Auto => out.push('0'),
        Argument::Text(text) => push_escaped(text, out, |byte| match byte {
            b'\\' => Some("\\\\"),
            b'\t' => Some("\\t"),
            b'\n' => Some("\\n"),
            _ => None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::plan::Value;

    #[test]
    fn a_row_is_a_line_of_fields_or_a_list_of_literals() {
        let values = [Value::Int(-7), Value::Text { start: 0, end: 6 }, Value::Text { start: 6, end: 6 }];
        let row = |bulk: Bulk| {
            let mut out = String::new();
            bulk.push_row(Dialect::MySql, Arguments::of(&values, "a'b\\\t\n"), &mut out);
            out
        };
        assert_eq!(row(Bulk::Insert), "(-7,'a''b\\\\\t\n','')");
        assert_eq!(row(Bulk::LoadData), "-7\ta'b\\\\\\t\\n\t");
    }
}
