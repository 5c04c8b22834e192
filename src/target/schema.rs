//! The DDL, INSERT and maintenance text of a plan's tables, in the target's dialect.
//!
//! The MySQL text is that of sysbench 1.0.20 but for white space, so that both tools leave the same schema behind.
//!
//! Must not import: `metrics`, `engine`, `report`, `cli`.

use std::fmt::Write;

use crate::workload::plan::{Column, ColumnType, Index, Key, TableSet};

/// Whose SQL is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    MySql,
    Sqlite,
}

impl Dialect {
    pub fn create_table(self, set: &TableSet, number: u32) -> String {
        let mut columns: Vec<String> = set.columns.iter().map(|column| self.column(set, column)).collect();
        match &set.key {
            // SQLite takes the key of a row id alias inside the column's own definition.
            Key::Primary(_) if self.row_id(set).is_some() => {}
            Key::Primary(names) => columns.push(format!("PRIMARY KEY ({})", names.join(", "))),
            Key::Plain { name, columns: names } if self == Dialect::MySql => {
                columns.push(format!("KEY {name} ({})", names.join(", ")));
            }
            Key::Plain { .. } => {}
        }
        let exists = if set.if_not_exists { "IF NOT EXISTS " } else { "" };
        let engine = match (&set.engine, self) {
            (Some(engine), Dialect::MySql) => format!(" /*! ENGINE = {engine} */"),
            _ => String::new(),
        };
        format!("CREATE TABLE {exists}{} ({}){engine}", set.table_name(number), columns.join(", "))
    }

    /// What must follow CREATE TABLE before the load: the key that SQLite cannot declare inside it.
    pub fn create_key(self, set: &TableSet, number: u32) -> Option<String> {
        match &set.key {
            Key::Plain { name, columns } if self == Dialect::Sqlite => {
                let table = set.table_name(number);
                Some(format!("CREATE INDEX {name}_{table} ON {table}({})", columns.join(", ")))
            }
            _ => None,
        }
    }

    /// The single integer primary key column, which in SQLite is the row id.
    pub fn row_id(self, set: &TableSet) -> Option<&str> {
        match (&set.key, self) {
            (Key::Primary(names), Dialect::Sqlite) if names.len() == 1 => {
                let integer = |column: &&Column| matches!(column.kind, ColumnType::Integer | ColumnType::BigInt);
                let column = set.columns.iter().filter(integer).find(|column| column.name == names[0]);
                column.map(|column| column.name.as_str())
            }
            _ => None,
        }
    }

    fn column(self, set: &TableSet, column: &Column) -> String {
        let mut text = format!("{} {}", column.name, column_type(column.kind));
        if self.row_id(set) == Some(&column.name) {
            // Only the type name INTEGER makes a primary key the row id.
            return format!("{} INTEGER NOT NULL PRIMARY KEY", column.name);
        }
        match &column.default {
            Some(default) => {
                let _ = write!(text, " DEFAULT '{}' NOT NULL", default.replace('\'', "''"));
            }
            None => text.push_str(" NOT NULL"),
        }
        if column.auto_increment && self == Dialect::MySql {
            text.push_str(" AUTO_INCREMENT");
        }
        text
    }

    pub fn create_index(self, set: &TableSet, index: &Index, number: u32) -> String {
        format!("CREATE INDEX {} ON {}({})", index.name(number), set.table_name(number), index.columns.join(", "))
    }

    /// The start of a multi-row INSERT, up to and with VALUES.
    pub fn insert_prefix(self, set: &TableSet, number: u32) -> String {
        format!("INSERT INTO {} ({}) VALUES ", set.table_name(number), column_names(set))
    }

    /// Loads lines in a character set into all columns. The file's name is only a name.
    pub fn load_data(set: &TableSet, number: u32, charset: &str) -> String {
        format!(
            "LOAD DATA LOCAL INFILE 'oltpbench' INTO TABLE {} CHARACTER SET {charset} ({})",
            set.table_name(number),
            column_names(set)
        )
    }

    pub fn drop_table(self, set: &TableSet, number: u32) -> String {
        format!("DROP TABLE IF EXISTS {}", set.table_name(number))
    }

    pub fn analyze(self, set: &TableSet, number: u32) -> String {
        match self {
            Dialect::MySql => format!("ANALYZE TABLE {}", set.table_name(number)),
            Dialect::Sqlite => format!("ANALYZE {}", set.table_name(number)),
        }
    }

    /// A query that gives table and name of each column of those tables that exist, in the columns' order, and each table
    /// once more without a name, since a user may see a table but none of its columns. Views count; columns that
    /// `INSERT INTO t VALUES` and `SELECT *` do not see, such as a key that MySQL adds by itself, do not.
    pub fn existing_columns(self, names: &[String]) -> String {
        let list = quoted(names);
        match self {
            Dialect::MySql => format!(
                "SELECT table_name, column_name, ordinal_position FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name IN ({list}) AND COALESCE(extra, '') NOT LIKE '%INVISIBLE%' UNION ALL SELECT table_name, NULL, 0 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ({list}) ORDER BY 1, 3"
            ),
            Dialect::Sqlite => format!(
                "SELECT tables.name, columns.name FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns WHERE tables.type IN ('table', 'view') AND tables.name IN ({list}) ORDER BY tables.name, cid"
            ),
        }
    }

    /// A query that gives the names of those that are views.
    pub fn views(self, names: &[String]) -> String {
        let list = quoted(names);
        match self {
            Dialect::MySql => format!(
                "SELECT table_name FROM information_schema.views WHERE table_schema = DATABASE() AND table_name IN ({list})"
            ),
            Dialect::Sqlite => format!("SELECT name FROM sqlite_master WHERE type = 'view' AND name IN ({list})"),
        }
    }

    /// A query for the column of the server's list of indexes which tells those that take no part in queries. `None`, and no
    /// row, where there are no such indexes.
    pub fn index_flag(self) -> Option<&'static str> {
        let sql = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'information_schema' AND table_name = 'STATISTICS' AND column_name IN ('IGNORED', 'IS_VISIBLE')";
        (self == Dialect::MySql).then_some(sql)
    }

    /// A query that gives one row for each index of these tables: the table, and the index's columns with commas between.
    /// Those that take no part in queries, by the column that [`Dialect::index_flag`] found, are left out.
    pub fn indexes(self, names: &[String], flag: Option<&str>) -> String {
        let list = quoted(names);
        let used = match flag {
            Some("IGNORED") => " AND ignored = 'NO'",
            Some(_) => " AND is_visible = 'YES'",
            None => "",
        };
        match self {
            Dialect::MySql => format!(
                "SELECT table_name, GROUP_CONCAT(column_name ORDER BY seq_in_index) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name IN ({list}){used} GROUP BY table_name, index_name"
            ),
            Dialect::Sqlite => format!(
                "SELECT tbl_name, (SELECT group_concat(name) FROM pragma_index_info(indexes.name)) FROM sqlite_master AS indexes WHERE type = 'index' AND tbl_name IN ({list})"
            ),
        }
    }

    /// A query of all columns of those rows of a table that `rest` picks.
    pub fn select_rows(set: &TableSet, number: u32, rest: &str) -> String {
        format!("SELECT {} FROM {} {rest}", column_names(set), set.table_name(number))
    }

    /// A query that reads a whole table through its clustered index.
    pub fn read_rows(self, set: &TableSet, number: u32) -> String {
        let sum: Vec<String> = set.columns.iter().map(|column| format!("SUM(LENGTH({}))", column.name)).collect();
        let force = match (self, &set.key) {
            (Dialect::MySql, Key::Primary(_)) => " FORCE INDEX (PRIMARY)",
            _ => "",
        };
        format!("SELECT {} FROM {}{force}", sum.join(", "), set.table_name(number))
    }

    /// A query that reads one secondary index and nothing else.
    pub fn read_index(self, set: &TableSet, index: &Index, number: u32) -> String {
        let force = match self {
            Dialect::MySql => format!("FORCE INDEX ({})", index.name(number)),
            Dialect::Sqlite => format!("INDEXED BY {}", index.name(number)),
        };
        format!(
            "SELECT COUNT({}) FROM {} {force} WHERE {} IS NOT NULL",
            index.columns[0],
            set.table_name(number),
            index.columns[0]
        )
    }
}

/// Names as a list of literals; a workload's names are letters, digits and `_`.
pub(super) fn quoted(names: &[impl AsRef<str>]) -> String {
    names.iter().map(|name| format!("'{}'", name.as_ref())).collect::<Vec<_>>().join(", ")
}

fn column_names(set: &TableSet) -> String {
    set.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn column_type(kind: ColumnType) -> String {
    match kind {
        ColumnType::Integer => "INTEGER".into(),
        ColumnType::BigInt => "BIGINT".into(),
        ColumnType::Char(length) => format!("CHAR({length})"),
        ColumnType::Varchar(length) => format!("VARCHAR({length})"),
    }
}
