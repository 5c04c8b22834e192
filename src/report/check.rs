//! What `oltpbench check` says: a JSON document, and the text that is printed from it.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::text::{paragraph, printable};
use super::{Finding, Target};

/// Columns that the levels take.
const LEVEL_WIDTH: usize = 9;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckReport {
    pub schema_version: u32,
    pub oltpbench_version: String,
    pub target: Target,
    pub workload: String,
    pub threads: u32,
    pub protocol: String,
    pub checks: Vec<Checked>,
}

/// A finding, and how much it matters: `ok`, `note`, `warning` or `fatal`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checked {
    pub level: String,
    #[serde(flatten)]
    pub finding: Finding,
}

impl CheckReport {
    pub fn is_fatal(&self) -> bool {
        self.count("fatal") > 0
    }

    fn count(&self, level: &str) -> usize {
        self.checks.iter().filter(|check| check.level == level).count()
    }

    /// The report for a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing into a String cannot fail, so the results are dropped.
        let _ = self.write_text(&mut out);
        out
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "Check:")?;
        for (name, value) in [
            ("target:", &self.target.url),
            ("server:", &self.target.version),
            ("workload:", &self.workload),
            ("threads:", &self.threads.to_string()),
            ("statements:", &self.protocol),
        ] {
            writeln!(out, "    {name:<36} {}", printable(value))?;
        }
        writeln!(out)?;
        for check in &self.checks {
            let label = format!("{:<LEVEL_WIDTH$}", check.level);
            paragraph(out, &label, LEVEL_WIDTH, &check.finding.message)?;
            if !check.finding.advice.is_empty() {
                let indent = LEVEL_WIDTH + 2;
                paragraph(out, &" ".repeat(indent), indent, &check.finding.advice)?;
            }
        }
        if !self.checks.is_empty() {
            writeln!(out)?;
        }
        write!(out, "{}", self.verdict())
    }

    fn verdict(&self) -> String {
        let counted = |level: &str, count: usize| match count {
            1 => format!("1 {level}"),
            _ if level == "fatal" => format!("{count} fatal"),
            _ => format!("{count} {level}s"),
        };
        let levels = ["fatal", "warning", "note"].map(|level| (level, self.count(level)));
        let counts: Vec<String> =
            levels.iter().filter(|(_, count)| *count > 0).map(|(level, count)| counted(level, *count)).collect();
        match counts.is_empty() {
            _ if self.checks.is_empty() => "There is nothing to check here.".into(),
            true => "Nothing stands in the way of this run.".into(),
            false if self.is_fatal() => format!("{}: this run would fail.", counts.join(", ")),
            false => format!("{}: this run can go ahead.", counts.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::text::COLUMNS;

    fn report(checks: &[(&str, &str, &str)]) -> CheckReport {
        let checked = |&(level, message, advice): &(&str, &str, &str)| Checked {
            level: level.into(),
            finding: Finding::new("code", message, advice),
        };
        CheckReport {
            schema_version: 1,
            oltpbench_version: "0".into(),
            target: Target {
                url: "mysql://sysbench@10.0.0.5:3306/sbtest".into(),
                version: "MariaDB 10.11".into(),
                variables: Default::default(),
                password_command: false,
                compression: None,
                init_sql: Vec::new(),
                statement_timeout_s: None,
            },
            workload: "oltp_read_only".into(),
            threads: 500,
            protocol: "prepared".into(),
            checks: checks.iter().map(checked).collect(),
        }
    }

    #[test]
    fn a_check_is_read_in_80_columns_by_its_levels() {
        let text = report(&[
            ("ok", "the server takes writes", ""),
            (
                "note",
                "the tables take 1.4 GiB, the buffer pool has 128.0 MiB: this run reads from the disk",
                "for a run in memory raise innodb_buffer_pool_size or use fewer rows",
            ),
            (
                "warning",
                "250 tables and 500 threads need about 750 open tables; table_open_cache is 400",
                "raise table_open_cache to 750, or some are closed and opened again and again",
            ),
            (
                "fatal",
                "502 connections are needed; max_connections is 151, others have 3",
                "raise max_connections to 505",
            ),
        ])
        .text();
        insta::assert_snapshot!(text);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    }

    #[test]
    fn the_last_line_says_what_follows() {
        let verdict = |levels: &[&str]| {
            let checks: Vec<(&str, &str, &str)> = levels.iter().map(|level| (*level, "m", "a")).collect();
            report(&checks).verdict()
        };
        assert_eq!(verdict(&["ok"]), "Nothing stands in the way of this run.");
        assert_eq!(verdict(&[]), "There is nothing to check here.");
        assert_eq!(verdict(&["ok", "note", "warning", "warning"]), "2 warnings, 1 note: this run can go ahead.");
        assert_eq!(verdict(&["fatal", "fatal", "note"]), "2 fatal, 1 note: this run would fail.");
    }
}
