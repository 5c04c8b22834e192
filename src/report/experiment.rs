//! An experiment's `experiment.json`: what it is to measure, and what became of each of its runs.
//!
//! Invariants: it holds no password; it is written after each run, and only when the run's own document is on disk. Figures
//! are not in it: its table is a view of the documents.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::figures::{counted, grouped};
use super::saved::{self, DESIGN, SavedError};
use super::text::paragraph;
use super::{JsonFile, ReportError, Spec, Target};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Experiment {
    pub schema_version: u32,
    pub oltpbench_version: String,
    /// UTC, RFC 3339.
    pub started_at: String,
    pub name: Option<String>,
    pub tags: BTreeMap<String, String>,
    pub design: Design,
    /// How wide intervals may be, as a share of the figure, for which repeats were added; `None` where their number was set.
    #[serde(default)]
    pub until_precision: Option<f64>,
    /// In the order in which they are measured, block by block.
    pub runs: Vec<Run>,
}

/// What is varied, and what all runs have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Design {
    pub targets: Vec<NamedTarget>,
    pub threads: Vec<u32>,
    /// Transactions a second; 0 is the closed loop, or what `spec` has of `steps`.
    pub rates: Vec<f64>,
    pub seed: u64,
    /// That of the first cell. In others threads and rate are those of the cell, and every run has a seed of its own.
    pub spec: Spec,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NamedTarget {
    pub name: String,
    #[serde(flatten)]
    pub target: Target,
}

/// One run of the experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Name of its document in the folder.
    pub file: String,
    /// Its repeat, from 1.
    pub block: u32,
    /// Its cell, from 1: the same in every block.
    pub cell: u32,
    pub target: String,
    pub threads: u32,
    /// `None` is the closed loop, or what the design has of steps.
    pub rate: Option<f64>,
    pub state: State,
    /// Its place in the order in which runs were made, from 1; the last one's if there were several.
    pub order: Option<u32>,
    /// Why it failed.
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Planned,
    Done,
    /// If anything was measured, its document is in the folder `failed`.
    Failed,
    /// Ended early by the user; its document as that of `Failed`.
    Interrupted,
}

impl Experiment {
    /// The experiment of a folder.
    pub fn read(folder: &Path) -> Result<Experiment, SavedError> {
        saved::document(&folder.join(DESIGN)).map_err(|error| match error {
            SavedError::Read { path, source } => SavedError::NoExperiment { path, reason: source.to_string() },
            SavedError::NotAReport { path, reason } => SavedError::NoExperiment { path, reason },
            other => other,
        })
    }

    /// Replaces the folder's file.
    pub fn write(&self, folder: &Path) -> Result<(), ReportError> {
        JsonFile::at(&folder.join(DESIGN))?.write(self)
    }

    pub fn in_state(&self, state: State) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.state == state)
    }

    /// The runs that have no report in the folder, with the reason.
    pub fn without_result(&self, folder: &Path) -> Vec<(&Run, String)> {
        let missing = self.runs.iter().filter(|run| !folder.join(&run.file).exists());
        let reason = |run: &Run| match run.state {
            State::Planned => "not measured yet".into(),
            State::Interrupted => "interrupted".into(),
            State::Failed => run.error.clone().unwrap_or_else(|| "failed".into()),
            State::Done => format!("its report {} is gone", run.file),
        };
        missing.map(|run| (run, reason(run))).collect()
    }

    /// The geometric means of each cell's runs that are done, from the documents in the folder, and what failed. A comparison
    /// has them too, so both put targets in the same order.
    pub fn text(&self, folder: &Path) -> Result<String, SavedError> {
        let mut rows = BTreeMap::<u32, Row<'_>>::new();
        for run in &self.runs {
            let row = rows.entry(run.cell).or_insert_with(|| Row { run, planned: 0, figures: Vec::new() });
            row.planned += 1;
            if run.state == State::Done {
                row.figures.extend(saved::read(&folder.join(&run.file))?.iter().map(|saved| {
                    let (totals, latency) = (&saved.report.totals, &saved.report.latency_us);
                    [totals.tps, totals.rps, latency.response.p95 / 1e3]
                }));
            }
        }
        let mut out = String::new();
        // Writing into a String cannot fail, so the results are dropped.
        let _ = write_table(&mut out, rows.values());
        let _ = self.write_failures(&mut out);
        Ok(out)
    }

    fn write_failures(&self, out: &mut String) -> std::fmt::Result {
        let failed: Vec<&Run> = self.in_state(State::Failed).collect();
        if !failed.is_empty() {
            writeln!(out, "\nFailed:")?;
        }
        for run in failed {
            let reason = run.error.as_deref().unwrap_or("the reason is unknown");
            paragraph(out, &format!("    {}: ", run.words()), 8, reason)?;
        }
        Ok(())
    }
}

impl Run {
    /// Which one it is, as in `direct, 64 threads, repeat 2`.
    pub fn words(&self) -> String {
        let threads = counted(self.threads.into(), "thread");
        let rate = self.rate.map_or(String::new(), |rate| format!(", rate {rate}"));
        format!("{}, {threads}{rate}, repeat {}", self.target, self.block)
    }
}

/// A cell of the grid: one of its runs, and of those that are done tps, rps and p95 in milliseconds.
struct Row<'a> {
    run: &'a Run,
    planned: usize,
    figures: Vec<[f64; 3]>,
}

fn write_table<'a>(out: &mut String, rows: impl Iterator<Item = &'a Row<'a>> + Clone) -> std::fmt::Result {
    let with_rates = rows.clone().any(|row| row.run.rate.is_some());
    let rate_column = |text: String| if with_rates { format!("{text:>9}") } else { String::new() };
    let heading = rate_column("rate".into());
    writeln!(out, "Geometric means over the repeats\n")?;
    writeln!(
        out,
        "{:<20} {:>7}{heading} {:>9} {:>10} {:>11} {:>9}",
        "target", "threads", "repeats", "tps", "rps", "p95 (ms)"
    )?;
    for row in rows {
        let mean = |at: usize, decimals: usize| match row.figures.len() {
            0 => "-".to_string(),
            count => {
                let logs = row.figures.iter().map(|figures| figures[at].ln());
                grouped((logs.sum::<f64>() / count as f64).exp(), decimals)
            }
        };
        let repeats = match row.figures.len() {
            all if all == row.planned => all.to_string(),
            done => format!("{done} of {}", row.planned),
        };
        writeln!(
            out,
            "{:<20} {:>7}{} {repeats:>9} {:>10} {:>11} {:>9}",
            row.run.target,
            row.run.threads,
            rate_column(row.run.rate.map_or("-".into(), |rate| rate.to_string())),
            mean(0, 1),
            mean(1, 1),
            mean(2, 2),
        )?;
    }
    Ok(())
}

impl Design {
    /// What this design has otherwise than `other`, as in `spec.time_s is 10 and was 20`. What the servers said of their
    /// settings is not compared, nor where passwords come from; the workload's text only where both have it.
    pub fn differences_from(&self, other: &Design) -> Vec<String> {
        let mut found = Vec::new();
        if let (Some(is), Some(was)) = (&self.spec.workload_sha256, &other.spec.workload_sha256)
            && self.spec.workload == other.spec.workload
            && is != was
        {
            found.push(format!("the workload file was changed (its SHA-256 is {is} and was {was})"));
        }
        if let (Some(this), Some(other)) = (as_read(self), as_read(other)) {
            compare("", &this, &other, &mut found);
        }
        found
    }
}

/// A design as a reader of its file has it, whose floating point may differ from the writer's in the last bit.
fn as_read(design: &Design) -> Option<Value> {
    serde_json::from_str(&serde_json::to_string(design).ok()?).ok()
}

const NOT_COMPARED: [&str; 3] = ["variables", "password_command", "workload_sha256"];

fn compare(path: &str, this: &Value, other: &Value, found: &mut Vec<String>) {
    let below = |key: &dyn std::fmt::Display| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
    match (this, other) {
        (Value::Object(these), Value::Object(others)) => {
            let keys: std::collections::BTreeSet<&String> = these.keys().chain(others.keys()).collect();
            for key in keys.into_iter().filter(|key| !NOT_COMPARED.contains(&key.as_str())) {
                let of = |values: &serde_json::Map<String, Value>| values.get(key).cloned().unwrap_or(Value::Null);
                compare(&below(key), &of(these), &of(others), found);
            }
        }
        (Value::Array(these), Value::Array(others))
            if these.len() == others.len() && these.iter().any(Value::is_object) =>
        {
            for (at, (this, other)) in these.iter().zip(others).enumerate() {
                compare(&below(&(at + 1)), this, other, found);
            }
        }
        _ if this != other => found.push(format!("{path} is {this} and was {other}")),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::RandParameters;

    fn design() -> Design {
        let parameters = RandParameters {
            spec_iter: 12,
            spec_pct: 1,
            spec_res: 75,
            pareto_h: 0.2,
            zipfian_exp: 0.8,
            zipfian_scramble: true,
        };
        let spec = Spec {
            workload: "oltp_read_only".into(),
            workload_sha256: None,
            profile: None,
            threads: 1,
            time_s: Some(0.1 + 0.2),
            events: None,
            open_loop: None,
            warmup_time_s: 0.0,
            interval_s: 1.0,
            detail: true,
            protocol: "text".into(),
            rand_type: "uniform".into(),
            rand_parameters: parameters,
            rand_seed: 1,
            max_retries: 10,
            ignore_errors: String::new(),
            max_error_rate: 0.01,
            forced_shutdown_s: 10.0,
            options: Vec::new(),
        };
        let target = Target {
            url: "mysql://u@h:3306/d".into(),
            version: "8.0.35".into(),
            variables: BTreeMap::new(),
            password_command: false,
            compression: None,
            init_sql: Vec::new(),
            statement_timeout_s: None,
        };
        let named = NamedTarget { name: "direct".into(), target };
        Design { targets: vec![named], threads: vec![1, 8], rates: vec![0.0], seed: 1, spec }
    }

    #[test]
    fn a_design_is_its_own_and_differs_by_what_matters() {
        let saved: Design = serde_json::from_str(&serde_json::to_string(&design()).unwrap()).unwrap();
        let mut now = design();
        now.targets[0].target.variables.insert("max_connections".into(), "200".into());
        now.targets[0].target.password_command = true;
        assert_eq!(now.differences_from(&saved), [""; 0]);
        now.targets[0].target.version = "8.0.36".into();
        now.threads.push(64);
        now.spec.max_retries = 3;
        assert_eq!(
            now.differences_from(&saved),
            [
                "spec.max_retries is 3 and was 10",
                "targets.1.version is \"8.0.36\" and was \"8.0.35\"",
                "threads is [1,8,64] and was [1,8]",
            ]
        );
    }

    #[test]
    fn another_text_of_the_workload_is_another_design_where_both_are_known() {
        let with = |sha256: Option<&str>| {
            let mut design = design();
            design.spec.workload_sha256 = sha256.map(Into::into);
            design
        };
        let differences = with(Some("12")).differences_from(&with(Some("ab")));
        assert_eq!(differences, ["the workload file was changed (its SHA-256 is 12 and was ab)"]);
        assert_eq!(with(Some("12")).differences_from(&with(Some("12"))), [""; 0]);
        assert_eq!(with(Some("12")).differences_from(&with(None)), [""; 0]);
    }

    #[test]
    fn a_table_fits_80_columns_and_shows_what_is_missing() {
        let run = |target: &str, rate, state| Run {
            file: String::new(),
            block: 1,
            cell: 1,
            target: target.into(),
            threads: 1000,
            rate,
            state,
            order: None,
            error: Some("the server was away for too long".into()),
        };
        let (first, second) = (run("a-name-of-20-letters", Some(12_345.5), State::Done), run("b", None, State::Failed));
        let rows = [
            Row { run: &first, planned: 3, figures: vec![[99_000.0, 990_000.0, 1000.0], [101_000.0, 1.01e6, 4000.0]] },
            Row { run: &second, planned: 1, figures: Vec::new() },
        ];
        let mut table = String::new();
        write_table(&mut table, rows.iter()).unwrap();
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        insta::assert_snapshot!(table, @r"
        Geometric means over the repeats

        target               threads     rate   repeats        tps         rps  p95 (ms)
        a-name-of-20-letters    1000  12345.5    2 of 3   99,995.0   999,950.0  2,000.00
        b                       1000        -    0 of 1          -           -         -
        ");
    }
}
