//! What the built-in workloads do, call by call, and what is said about wrong files.

use proptest::prelude::*;

use super::plan::{Argument, Call, Kind, Operation, Plan, Player};
use super::*;

/// Writes down what is played.
#[derive(Default)]
struct Recording {
    lines: Vec<String>,
    statements: Vec<usize>,
    texts: Vec<String>,
}

impl Player for Recording {
    type Fault = std::convert::Infallible;

    fn begin(&mut self, writes: bool) -> Result<(), Self::Fault> {
        self.lines.push(format!("BEGIN writes={writes}"));
        Ok(())
    }

    fn execute(&mut self, call: Call<'_>) -> Result<(), Self::Fault> {
        let arguments: Vec<String> = call
            .arguments
            .iter()
            .map(|argument| match argument {
                Argument::Int(value) => value.to_string(),
                Argument::Text(text) => text.to_string(),
                Argument::Auto => "auto".into(),
            })
            .collect();
        self.lines.push(format!("{} {} [{}]", call.statement, call.table, arguments.join(", ")));
        self.statements.push(call.statement);
        self.texts.push(arguments.join("|"));
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Self::Fault> {
        self.lines.push("COMMIT".into());
        Ok(())
    }
}

fn settings(options: &[(&str, OptionValue)]) -> Settings {
    let options = options.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    Settings { options, threads: 4, random: RandomSettings::default() }
}

fn plan(name: &str, options: &[(&str, OptionValue)]) -> Plan {
    Workload::load(name).unwrap().compile(&settings(options)).unwrap()
}

fn operation(ticket: u64) -> Operation {
    Operation { seed: 1, ticket, worker: 2, worker_ticket: 5 }
}

fn played(plan: &Plan, operation: Operation) -> Recording {
    let mut recording = Recording::default();
    let Ok(()) = plan.play(operation, &mut plan.scratch(), &mut recording);
    recording
}

#[test]
fn every_workload_has_sysbenchs_reads_writes_and_others() {
    let table = [
        ("oltp_read_only", (14, 0, 2)),
        ("oltp_read_write", (14, 4, 2)),
        ("oltp_write_only", (0, 4, 2)),
        ("oltp_point_select", (1, 0, 0)),
        ("oltp_update_index", (0, 1, 0)),
        ("oltp_update_non_index", (0, 1, 0)),
        ("oltp_delete", (0, 1, 0)),
        ("oltp_insert", (0, 1, 0)),
        ("bulk_insert", (0, 1, 0)),
        ("select_random_points", (1, 0, 0)),
        ("select_random_ranges", (1, 0, 0)),
    ];
    assert_eq!(table.len(), Workload::builtin_names().len());
    for (name, (reads, writes, others)) in table {
        let plan = plan(name, &[]);
        let recording = played(&plan, operation(0));
        let count = |kind| recording.statements.iter().filter(|&&index| plan.statements[index].kind == kind).count();
        let transaction = if plan.transaction.begin { 2 } else { 0 };
        assert_eq!(
            (count(Kind::Read), count(Kind::Write), count(Kind::Other) + transaction),
            (reads, writes, others),
            "{name}"
        );
        assert_eq!(plan.calls_per_transaction(), recording.lines.len(), "{name}");
        assert_eq!(plan.writes(), writes > 0, "{name}");
    }
}

#[test]
fn the_text_of_every_statement_is_sysbenchs() {
    let mut texts = String::new();
    for name in Workload::builtin_names() {
        let small = settings(&[("rows_per_insert", OptionValue::Int(2)), ("random_points", OptionValue::Int(3))]);
        for statement in Workload::load(name).unwrap().compile(&small).unwrap().statements {
            texts += &format!("{name}: {} = {}\n", statement.name, statement.sql[0]);
        }
    }
    insta::assert_snapshot!(texts);
}

#[test]
fn one_kind_of_statement_stays_on_one_table_in_a_transaction() {
    let plan = plan("oltp_read_only", &[]);
    let lines = played(&plan, operation(3)).lines;
    let table = |line: &String| line.split(' ').nth(1).unwrap().to_string();
    let point_selects: Vec<String> = lines[1..11].iter().map(table).collect();
    assert!(point_selects.iter().all(|table| *table == point_selects[0]), "{lines:?}");
    let all: std::collections::BTreeSet<String> = lines[1..15].iter().map(table).collect();
    assert!(all.len() > 1, "each kind draws a table of its own: {lines:?}");
}

#[test]
fn one_table_keeps_a_whole_transaction_on_it() {
    let plan = plan("oltp_read_write", &[("one_table", OptionValue::Bool(true))]);
    let lines = played(&plan, operation(3)).lines;
    let tables: std::collections::BTreeSet<&str> =
        lines[1..lines.len() - 1].iter().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(tables.len(), 1, "{lines:?}");
}

#[test]
fn a_deleted_row_is_inserted_again_with_its_id() {
    let plan = plan("oltp_write_only", &[]);
    let texts = played(&plan, operation(9)).texts;
    assert!(texts[3].starts_with(&format!("{}|", texts[2])), "{texts:?}");
}

#[test]
fn a_range_ends_range_size_minus_one_after_its_start() {
    let plan = plan("oltp_read_only", &[("point_selects", OptionValue::Int(0))]);
    for text in played(&plan, operation(1)).texts {
        let (from, to) = text.split_once('|').unwrap();
        assert_eq!(to.parse::<i64>().unwrap() - from.parse::<i64>().unwrap(), 99);
    }
}

#[test]
fn unique_ids_do_not_repeat_in_a_run_and_differ_between_runs() {
    let plan = plan("oltp_insert", &[("auto_inc", OptionValue::Bool(false))]);
    let id = |seed, ticket| {
        let operation = Operation { seed, ..operation(ticket) };
        played(&plan, operation).texts[0].split('|').next().unwrap().parse::<i64>().unwrap()
    };
    let ids: std::collections::BTreeSet<i64> = (0..5000).map(|ticket| id(1, ticket)).collect();
    assert_eq!(ids.len(), 5000);
    assert!(ids.iter().all(|id| i32::try_from(*id).is_ok()));
    assert_ne!(id(1, 0), id(2, 0));
}

#[test]
fn bulk_insert_goes_on_where_the_connections_last_insert_ended() {
    let plan = plan("bulk_insert", &[("rows_per_insert", OptionValue::Int(3))]);
    let recording = played(&plan, operation(0));
    assert_eq!(recording.lines, ["0 3 [16, 16, 17, 17, 18, 18]"]);
}

#[test]
fn random_points_stay_in_the_connections_segment() {
    let plan = plan("select_random_points", &[("table_size", OptionValue::Int(1000))]);
    for ticket in 0..50 {
        for id in played(&plan, operation(ticket)).texts[0].split('|') {
            let id: i64 = id.parse().unwrap();
            assert!((500..=750).contains(&id), "worker 2 of 4 reads the third quarter, not {id}");
        }
    }
}

#[test]
fn a_workload_offers_only_options_that_it_looks_at() {
    let names = |workload: &str| -> Vec<String> {
        Workload::load(workload).unwrap().options().iter().map(|option| option.name.clone()).collect()
    };
    let table = ["tables", "table_size", "auto_inc", "secondary", "create_secondary", "mysql_storage_engine"];
    assert_eq!(names("oltp_point_select"), table);
    assert!(names("oltp_read_only").contains(&"order_ranges".to_string()));
    assert!(!names("oltp_read_only").contains(&"index_updates".to_string()));
    assert_eq!(names("bulk_insert"), ["rows_per_insert"]);
    assert!(!names("select_random_points").contains(&"tables".to_string()));
}

#[test]
fn rows_depend_on_seed_table_and_id_only() {
    let plan = plan("oltp_read_only", &[]);
    let row = |seed, number, id| {
        let mut scratch = plan.scratch();
        let arguments = plan.tables[0].row(seed, number, id, &mut scratch);
        arguments.iter().map(|argument| format!("{argument:?}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row(0, 1, 7), row(0, 1, 7));
    assert_ne!(row(0, 1, 7), row(1, 1, 7));
    assert_ne!(row(0, 1, 7), row(0, 2, 7));
    assert_ne!(row(0, 1, 7), row(0, 1, 8));
    insta::assert_snapshot!(row(0, 1, 1));
}

#[test]
fn tables_of_the_same_number_in_two_sets_hold_different_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.yaml");
    let set = "{count: 1, rows: 5, columns: {id: {type: integer, value: row}, c: {type: char(9), value: \"string('#########')\"}}, key: {columns: [id]}}";
    let statements = "statements:\n  s: {kind: read, sql: SELECT 1}\ntransaction: {steps: [{execute: s}]}\n";
    std::fs::write(&path, format!("description: d\ntables:\n  a: {set}\n  b: {set}\n{statements}")).unwrap();
    let plan = Workload::load(path.to_str().unwrap()).unwrap().compile(&settings(&[])).unwrap();
    let row = |set: usize| {
        let mut scratch = plan.scratch();
        format!("{:?}", plan.tables[set].row(0, 1, 1, &mut scratch).iter().collect::<Vec<_>>())
    };
    assert_ne!(row(0), row(1));
}

#[test]
fn a_variable_may_have_a_name_that_older_yaml_reads_as_a_boolean() {
    for name in ["n", "y", "no", "yes"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.yaml");
        let statement = format!("s: {{kind: read, sql: \"SELECT ?\", arguments: [{name}], prepared: off}}");
        let steps = format!("{{let: {{{name}: 7}}}}, {{execute: s}}");
        let text = format!("description: d\nstatements:\n  {statement}\ntransaction: {{steps: [{steps}]}}\n");
        std::fs::write(&path, text).unwrap();
        let plan = Workload::load(path.to_str().unwrap()).unwrap().compile(&settings(&[])).unwrap();
        assert_eq!(played(&plan, operation(0)).lines, ["0 1 [7]"], "{name}");
        assert!(!plan.statements[0].prepared, "on and off are booleans still");
    }
}

/// The message for a file of which `text` is a part that follows a head that is right.
fn message(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.yaml");
    std::fs::write(&path, text).unwrap();
    let error = Workload::load(path.to_str().unwrap()).and_then(|workload| workload.compile(&settings(&[])).map(drop));
    let message = error.expect_err(text).to_string();
    message.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn what_is_wrong_in_a_file_is_shown_by_line_and_column() {
    let transaction = "transaction:\n  steps:\n";
    let head = "description: d\nextends: sbtest\n";
    let files = [
        ("description: d\nextends: sbtest\nstepz: []\n".to_string(), "mine.yaml:3:1: ", "stepz"),
        (format!("{head}options:\n  x: {{default: 1, mim: 2}}\n"), "mine.yaml:4:19: ", "mim"),
        (format!("{head}options:\n  x: {{default: 5, max: 2}}\n"), "mine.yaml:4:16: ", "above 2"),
        (format!("{head}options:\n  x: {{default: 5, min: 9, max: 3}}\n"), "mine.yaml:4:16: ", "min is 9, above max"),
        (format!("{head}options:\n  row: {{default: 5}}\n"), "mine.yaml:4:3: ", "meaning of its own"),
        ("description: d\nextends: sbtets\n".to_string(), "mine.yaml:2:10: ", "did you mean `sbtest`"),
        ("description: d\nextends: mine.yaml\n".to_string(), "mine.yaml:2:10: ", "extends itself"),
        (format!("{head}{transaction}    - use: point_selectz\n"), "mine.yaml:5:12: ", "did you mean `point_selects`"),
        (format!("{head}{transaction}    - execute: point_selct\n"), "mine.yaml:5:16: ", "did you mean `point_select`"),
        (
            format!("{head}{transaction}    - execute: point_select\n"),
            "sbtest.yaml:",
            "`table` is neither an option nor a variable",
        ),
        (
            format!("{head}blocks:\n  a: [{{use: b}}]\n  b: [{{use: a}}]\n{transaction}    - use: a\n"),
            "mine.yaml:5:",
            "uses itself: a -> b -> a",
        ),
        (format!("{head}{transaction}    - let: {{x: \"1 +\"}}\n"), "mine.yaml:5:16: ", "ends too early"),
        (format!("{head}{transaction}    - let: {{x: skip_trx}}\n"), "mine.yaml:5:16: ", "a number is needed"),
        (
            format!("{head}{transaction}    - let: {{x: 1}}\n      use: point_selects\n"),
            "mine.yaml:5:7: ",
            "exactly one of",
        ),
        (
            format!("{head}{transaction}    - repeat: -1\n      use: point_selects\n"),
            "mine.yaml:5:15: ",
            "between 0 and",
        ),
        (
            format!("{head}{transaction}    - repeat: worker\n      use: point_selects\n"),
            "mine.yaml:5:15: ",
            "no value here",
        ),
        (
            format!("{head}statements:\n  s: {{kind: reed, sql: SELECT 1}}\n{transaction}    - execute: s\n"),
            "mine.yaml:4:13: ",
            "read, write or other",
        ),
        (
            format!("{head}statements:\n  s: {{kind: read, sql: \"SELECT ?\"}}\n{transaction}    - execute: s\n"),
            "mine.yaml:4:24: ",
            "1 `?`, and there are 0",
        ),
        (
            format!(
                "{head}statements:\n  s: {{kind: read, sql: \"SELECT 1 FROM {{sbtset}}\"}}\n{transaction}    - execute: s\n"
            ),
            "mine.yaml:4:24: ",
            "did you mean `sbtest`",
        ),
        (
            format!(
                "{head}statements:\n  s: {{kind: read, sql: \"SELECT 1 FROM {{sbtest}}\"}}\n{transaction}    - execute: s\n"
            ),
            "mine.yaml:4:24: ",
            "which of its 250 tables",
        ),
        (
            format!(
                "{head}tables:\n  sbtest:\n    columns:\n      id: {{type: integr, value: row}}\n{transaction}    - use: point_selects\n"
            ),
            "mine.yaml:6:18: ",
            "integer, bigint",
        ),
        (
            format!(
                "{head}statements:\n  s: {{kind: read, sql: \"SELECT 1; SELECT 2\"}}\n{transaction}    - execute: s\n"
            ),
            "mine.yaml:4:24: ",
            "is one statement",
        ),
        (
            format!(
                "{head}statements:\n  s: {{kind: read, table: 0, sql: \"SELECT 1 FROM {{sbtest}}\"}}\n{transaction}    - execute: s\n"
            ),
            "mine.yaml:4:26: ",
            "there is no table 0",
        ),
        ("description: d\nextends: ././mine.yaml\n".to_string(), "mine.yaml:2:10: ", "extends itself"),
        (format!("{head}options:\n  tables: {{default: -5}}\n"), "mine.yaml:4:21: ", "between 1 and"),
        (format!("{head}options:\n  tables: {{default: on}}\n"), "mine.yaml:4:21: ", "type that it has"),
        (format!("{head}options:\n  x: {{default: on, min: 1}}\n"), "mine.yaml:4:16: ", "default is a number"),
        (format!("{head}options:\n  x: {{default: c, values: [a, b]}}\n"), "mine.yaml:4:16: ", "one of a, b"),
        (format!("{head}options:\n  x: {{default: 1}}\n  x: {{default: 1}}\n"), "mine.yaml:5:3: ", "duplicate"),
        (format!("{head}{transaction}    - {{if: off, use: nothing}}\n"), "mine.yaml:5:22: ", "no block `nothing`"),
        (format!("{head}{transaction}    - let: {{x: \"if(off, tabels, 1)\"}}\n"), "mine.yaml:5:16: ", "`tables`"),
        (
            format!(
                "{head}statements:\n  s: {{kind: read, sql: \"{{l}}\", lists: {{l: {{repeat: 1, text: \"{{sbtest}}\", join: x, arguments: []}}}}}}\n{transaction}    - execute: s\n"
            ),
            "mine.yaml:4:39: ",
            "a list's text has `?` only",
        ),
        ("description: d\n".to_string(), "mine.yaml:1:1: ", "no transaction"),
        ("description: [\n".to_string(), "mine.yaml:", ""),
        ("- 1\n".to_string(), "mine.yaml:1:", ""),
        (String::new(), "mine.yaml:1:", ""),
    ];
    let mut messages = String::new();
    for (text, place, part) in files {
        let message = message(&text);
        assert!(message.starts_with(place) && message.contains(part), "{text}\n{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        messages += &message;
        messages += "\n";
    }
    insta::assert_snapshot!(messages);
}

#[test]
fn no_chain_of_blocks_exhausts_the_stack() {
    let part = "more than 50 blocks use one another in a row";
    let mut text = "description: d\nextends: sbtest\nblocks:\n  b0: []\n".to_string();
    for level in 1..10_000 {
        text += &format!("  b{level}: [{{use: b{}}}]\n", level - 1);
    }
    assert_eq!(
        message(&format!("{text}transaction: {{steps: [{{use: b9999}}]}}\n")),
        format!("mine.yaml:9954:17: {part}")
    );
    // Each step on its own goes only a little deeper than those before it.
    let steps: String = (0..10_000).step_by(40).map(|level| format!("    - use: b{level}\n")).collect();
    assert!(message(&format!("{text}transaction:\n  steps:\n{steps}")).contains(part));
}

#[test]
fn blocks_that_multiply_are_stopped() {
    let mut text = "description: d\nextends: sbtest\nblocks:\n  b0: [{execute: s}]\n".to_string();
    for level in 1..40 {
        text += &format!("  b{level}: [{{use: b{0}}}, {{use: b{0}}}]\n", level - 1);
    }
    text += "statements:\n  s: {kind: read, sql: SELECT 1}\ntransaction: {steps: [{use: b39}]}\n";
    assert!(message(&text).contains("more than 100000 steps"), "{}", message(&text));
}

#[test]
fn repeats_that_multiply_are_stopped() {
    let text = "description: d\nextends: sbtest\nstatements:\n  s: {kind: read, sql: SELECT 1}\ntransaction:\n  steps:\n    - repeat: 1000000\n      steps: [{repeat: 1000000, execute: s}]\n";
    assert!(message(text).contains("at most 1000000"), "{}", message(text));
}

#[test]
fn an_option_that_is_overridden_keeps_its_limits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.yaml");
    std::fs::write(&path, "description: d\nextends: oltp_point_select\noptions:\n  tables: {default: 3}\n").unwrap();
    let workload = Workload::load(path.to_str().unwrap()).unwrap();
    let tables = &workload.options()[0];
    assert_eq!((tables.name.as_str(), &tables.default, tables.min), ("tables", &OptionValue::Int(3), Some(1)));
    assert_eq!(tables.help, "Number of tables");
    assert_eq!(workload.compile(&settings(&[])).unwrap().tables[0].count, 3);
}

#[test]
fn a_file_can_take_away_what_the_file_it_extends_has() {
    let folder = tempfile::tempdir().unwrap();
    let extending = |base: &str, rest: &str| {
        let path = folder.path().join("mine.yaml");
        std::fs::write(&path, format!("description: d\nextends: {base}\n{rest}")).unwrap();
        Workload::load(path.to_str().unwrap()).unwrap().compile(&settings(&[])).unwrap()
    };
    let plan = extending("oltp_read_only", "tables: {sbtest: {indexes: []}}\n");
    assert!(plan.tables[0].indexes.is_empty());
    let plan = extending("bulk_insert", "resizes_tables: off\ntables: {sbtest: {if_not_exists: off}}\n");
    assert!(!plan.resizes_tables && !plan.tables[0].if_not_exists);
    // What it does not name stays.
    let plan = extending("bulk_insert", "tables: {sbtest: {count: 2}}\n");
    assert!(plan.resizes_tables && plan.tables[0].if_not_exists);
    assert_eq!(extending("oltp_read_only", "").tables[0].indexes.len(), 1);
}

#[test]
fn only_empty_tables_may_be_there_already_and_rows_take_no_numbers_of_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.yaml");
    for (tables, part) in [
        ("rows: 5", "has `if_not_exists`, which is for tables without rows and indexes"),
        ("indexes: [{name: k, columns: [k]}]", "has `if_not_exists`, which is for tables without rows and indexes"),
        (
            "columns: {id: {type: integer, value: row}, k: {type: integer, value: unique()}}",
            "`unique()` has no value here",
        ),
    ] {
        std::fs::write(&path, format!("description: d\nextends: bulk_insert\ntables: {{sbtest: {{{tables}}}}}\n"))
            .unwrap();
        let compiled = Workload::load(path.to_str().unwrap()).and_then(|workload| workload.compile(&settings(&[])));
        let error = compiled.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_transaction_without_statements_is_refused() {
    let zero = [("point_selects", OptionValue::Int(0)), ("range_selects", OptionValue::Bool(false))];
    let error = Workload::load("oltp_read_only").unwrap().compile(&settings(&zero)).unwrap_err().to_string();
    assert!(error.contains("no statement"), "{error}");
}

#[test]
fn the_example_of_the_manual_compiles() {
    let manual = include_str!("../../docs/workloads.md");
    let example = manual.split("```yaml").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("example.yaml");
    std::fs::write(&path, example).unwrap();
    let plan = Workload::load(path.to_str().unwrap()).unwrap().compile(&settings(&[])).unwrap();
    assert!(played(&plan, operation(0)).lines.len() > 2);
}

proptest! {
    #[test]
    fn the_same_operation_gives_the_same_calls(ticket: u64, seed: u64, worker in 0u32..4) {
        let plan = plan("oltp_read_write", &[]);
        let operation = Operation { seed, ticket, worker, worker_ticket: 0 };
        // A worker keeps its scratch from one operation to the next; what is left in it must not matter.
        let mut scratch = plan.scratch();
        let mut first = Recording::default();
        let Ok(()) = plan.play(operation, &mut scratch, &mut first);
        let mut second = Recording::default();
        let Ok(()) = plan.play(operation, &mut scratch, &mut second);
        prop_assert_eq!(&first.lines, &second.lines);
        prop_assert_eq!(first.lines, played(&plan, Operation { worker: 3 - worker, ..operation }).lines);
    }
}
