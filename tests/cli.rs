//! Help, and bad input: one clear line and exit code 2.

mod support;

use support::program::{OutputAssertExt, fail, offered_options, oltpbench, report, succeed, text};

#[test]
fn every_command_has_help_with_an_example() {
    for command in [
        "prepare",
        "prewarm",
        "check",
        "run",
        "cleanup",
        "report",
        "workloads",
        "compare",
        "sweep",
        "published",
        "demo",
    ] {
        let help = succeed(&[command, "--help"]);
        assert!(help.contains("Example") && help.contains(&format!("oltpbench {command}")), "{help}");
    }
    let help = succeed(&["--help"]);
    for command in [
        "prepare",
        "prewarm",
        "check",
        "run",
        "cleanup",
        "report",
        "workloads",
        "compare",
        "sweep",
        "published",
        "demo",
    ] {
        assert!(help.contains(command), "{help}");
    }
}

#[test]
fn help_lists_the_options_of_the_workload_that_was_chosen() {
    let help = succeed(&["run", "--mode", "read-only", "--help"]);
    for option in ["--point-selects", "--range-size", "--skip-trx", "--tables", "--table-size", "--threads"] {
        assert!(help.contains(option), "{option} is missing in\n{help}");
    }
    let help = succeed(&["run", "--workload", "select_random_points", "--help"]);
    assert!(help.contains("--random-points") && !help.contains("--point-selects"), "{help}");
    let help = succeed(&["run", "--mode", "point-select", "--help"]);
    assert!(!help.contains("--order-ranges"), "an option that does nothing is offered:\n{help}");
}

#[test]
fn dashes_and_underscores_are_the_same_in_option_names() {
    let arguments =
        ["run", "--url", "simulated:", "--table_size=500", "--point_selects", "3", "--skip_trx", "--events=5"];
    let report = report(&arguments);
    assert_eq!(report["totals"]["reads"], 5 * 7);
    assert_eq!(report["totals"]["other"], 0);
}

#[test]
fn every_help_has_an_example_that_can_be_typed_and_keeps_within_80_columns() {
    let commands = ["prepare", "prewarm", "check", "run", "cleanup", "report", "compare", "published", "demo"];
    for command in [&[][..], &["report", "list"], &["published", "show"], &["workloads", "show"]]
        .into_iter()
        .chain(commands.iter().map(std::slice::from_ref))
    {
        let output = oltpbench(&[command, &["--help"]].concat()).env("COLUMNS", "80").output().unwrap();
        let help = text(&output.stdout);
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{command:?}: {wide:?}");
        let examples = help.split("Example").nth(1).unwrap_or_else(|| panic!("{command:?} has no example"));
        assert!(examples.contains("\n  oltpbench "), "{command:?}: {examples}");
        // A line that was folded would begin with the rest of an option.
        let folded = examples.lines().skip(1).find(|line| line.starts_with("  ") && !line.contains("oltpbench"));
        assert!(folded.is_none_or(|line| line.starts_with("      --")), "{command:?}: {folded:?}");
    }
    let help = succeed(&["--help"]);
    assert!(help.contains("Exit codes: 0 done") && succeed(&["run", "--help"]).contains("130 interrupted"), "{help}");
    assert!(succeed(&["check", "--help"]).contains("Write the checks to FILE"));
    let profile = succeed(&["run", "--profile", "aurora-whitepaper", "--help"]);
    assert!(profile.contains("[default: 500]"), "{profile}");
}

#[test]
fn a_misspelt_name_is_answered_with_the_nearest() {
    for (arguments, nearest) in [
        (["run", "--mode", "raed-only"], "read-only"),
        (["run", "--workload", "oltp_readonly"], "oltp_read_only"),
        (["run", "--profile", "aurora"], "aurora-whitepaper"),
        (["run", "--treads", "5"], "--threads"),
        (["run", "--point-select", "5"], "--point-selects"),
        (["workloads", "show", "oltp_readonly"], "oltp_read_only"),
    ] {
        let message = fail(2, &arguments);
        assert!(message.contains(nearest) && !message.contains("?;"), "{arguments:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn a_user_of_sysbench_is_shown_the_way() {
    for (arguments, advice) in [
        (["run", "--max-time=5"], "use --time"),
        (["run", "--num_threads=5"], "use --threads"),
        (["run", "--oltp-range-size=5"], "use --range-size"),
        (["run", "--oltp-table-size=5"], "use --table-size"),
        (["run", "--oltp_dist_type=special"], "use --rand-type"),
        (["run", "--mysql-ssl-ca=ca.pem"], "use --ssl-ca"),
        (["run", "--mysql-compression=on"], "use --compress zlib"),
        (["run", "--mysql-debug"], "sysbench's --mysql-debug has no counterpart here; leave it out"),
        (["run", "--db-driver=mysql"], "the --url says what is measured"),
        (["run", "--pgsql-host=h"], "knows no PostgreSQL"),
        (["run", "--thread-init-timeout=5"], "use --connect-timeout"),
        (["run", "--verbosity=5"], "messages have no levels"),
        (["run", "--forced-shutdown=off"], "a run always ends"),
        (["run", "--delete-inserts=5"], "does not use it (oltp_read_write, oltp_write_only do)"),
        (["run", "--workload=/usr/share/sysbench/oltp_read_only.lua"], "is a script of sysbench"),
        (["run", "--tables-size=5"], "'--table-size'"),
        (["run", "--mysql-password=hunter2"], "use OLTPBENCH_PASSWORD"),
        (["run", "--password=hunter2"], "use OLTPBENCH_PASSWORD, --password-file"),
        (["run", "--db=hunter2"], "use --database"),
        (["run", "--interval=1"], "use --report-interval"),
        (["run", "mysql://u:hunter2@127.0.0.1:1/d"], "mysql://u:***@127.0.0.1:1/d"),
        (["run", "--mode=mysql://u:hunter2@127.0.0.1:1/d"], "u:***@"),
        (["run", "--threads=mysql://u:hunter2@h/d"], "u:***@"),
        (["oltp_read_only", "run"], "--workload oltp_read_only"),
        (["run", "oltp_read_only"], "--workload oltp_read_only"),
    ] {
        let message = fail(2, &arguments);
        assert!(message.contains(advice) && !message.contains("hunter2"), "{arguments:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    let message = fail(2, &["run", "--url", "simulated:", "--mysql_host=h"]);
    assert!(message.contains("sysbench's --mysql-host is called --host here"), "{message}");
    let message = fail(2, &["workloads", "show"]);
    assert!(message.contains("not provided: <NAME>"), "{message}");
    // Advice is on what is wrong, not on what else was given.
    let message = fail(2, &["run", "--mysql-host=h", "--threads=0"]);
    assert!(message.contains("1..=100000") && !message.contains("sysbench"), "{message}");
    for arguments in [["--mode", "oltp_insert"], ["--workload", "insert"]] {
        let report = report(&[&["run", "--url", "simulated:", "--events", "3"], &arguments[..]].concat());
        assert_eq!(report["spec"]["workload"], "oltp_insert");
        assert_eq!(report["spec"]["protocol"], "text", "all of its statements are sent as text");
    }
}

#[test]
fn prepare_ends_with_what_it_made_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("test.sqlite").display());
    let said = |rest: &[&str]| succeed(&[&["prepare", "--url", &url], rest].concat());
    let made = said(&["--tables", "1", "--table-size", "1"]);
    assert!(made.starts_with(&format!("Prepared 1 table in {url}: 1 row by multi-row INSERT in ")), "{made}");
    assert!(made.ends_with(" rows/s); row counts and ids are verified\n"), "{made}");
    succeed(&["cleanup", "--url", &url, "--tables", "1"]);
    let empty = said(&["--workload", "bulk_insert", "--threads", "2"]);
    assert!(empty.starts_with(&format!("Prepared 2 tables in {url}: no rows, in ")), "{empty}");
}

#[test]
fn a_report_of_a_run_is_replaced_by_nothing_but_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json").display().to_string();
    let run = ["run", "--url", "simulated:", "--events", "10", "--json", &file];
    succeed(&run);
    for command in [
        &["check", "--url", "simulated:", "--json", &file][..],
        &["report", "--format", "csv", "--output", &file, &file],
        &["compare", &file, &file, "--json", &file],
    ] {
        let message = fail(2, command);
        assert!(message.contains("holds the report of a run"), "{command:?}: {message}");
    }
    succeed(&["report", &file]);
    succeed(&run);
}

#[test]
fn parts_of_an_address_say_that_they_stand_in_place_of_the_environments() {
    let mut command = oltpbench(&["check", "--port", "1", "--host", "127.0.0.1"]);
    let output = command.env("OLTPBENCH_URL", "simulated:").output().unwrap();
    assert!(text(&output.stderr).contains("OLTPBENCH_URL is not used"), "{}", text(&output.stderr));
}

#[test]
fn every_built_in_workload_is_a_mode() {
    let help = succeed(&["run", "--help"]);
    let refusal = fail(2, &["run", "--mode", "nonsense"]);
    let list = succeed(&["workloads", "list"]);
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    for workload in list.lines().filter_map(|line| line.split_whitespace().next()) {
        let mode = workload.trim_start_matches("oltp_").replace('_', "-");
        assert!(help.contains(&mode) && refusal.contains(&mode), "{mode}: {help}\n{refusal}");
        for name in [&mode, workload] {
            let report = report(&["run", "--url", "simulated:", "--events", "3", "--time", "0", "--mode", name]);
            assert_eq!(report["spec"]["workload"], workload);
        }
    }
}

#[test]
fn wrong_values_are_refused_with_their_bounds() {
    for (option, value, part) in [
        ("--threads", "0", "1..=100000"),
        ("--time", "-5", "between 0"),
        ("--time", "1e-300", "0 or at least 0.001"),
        ("--warmup-time", "1e-10", "0 or at least 0.001"),
        ("--report-interval", "1e-10", "0 or at least 0.001"),
        ("--report-interval", "10.0005", "whole number of milliseconds"),
        ("--forced-shutdown", "1e-10", "0 or at least 0.001"),
        ("--table-size", "many", "many"),
        ("--tables", "0", "1"),
        ("--percentile", "101", "at most 100"),
        ("--rand-type", "normal", "uniform"),
        ("--max-error-rate", "200", "between 0 and 100"),
        ("--url", "postgres://h/d", "mysql://"),
        ("--url", "mysql://user:hunter2@h:port/d", "not a URL"),
        ("--url", "mysql://h/d?socket=", "path of a Unix socket"),
        ("--url", "mysql://h/d?ssl-mode=required&ssl-mode=disabled", "`ssl-mode` more than once"),
        ("--url", "mysql://h/d?sslmode=required", "unknown parameter `sslmode`"),
        ("--ignore-errors", "1213,,1062", "`` is no code; give those from 1 to 65535"),
        ("--ignore-errors", "1213,", "`` is no code"),
        ("--ignore-errors", "-1", "`-1` is no code"),
        ("--ignore-errors", "0", "`0` is no code"),
        ("--ignore-errors", "99999999999999999999", "`99999999999999999999` is no code"),
        ("--json", "/nowhere/run.json", "/nowhere/run.json"),
        ("--json", "-", "/dev/stdout"),
        ("--json", "", "/dev/stdout"),
        ("--json", "run.json/", "run.json/"),
        ("--json", &"x".repeat(256), "too long"),
        ("--skip-trx", "perhaps", "on"),
        ("--rand-pareto-h", "2", "pareto"),
        ("--rand-spec-iter", "4294967295", "1..=1000"),
        ("--rand-seed", "9007199254740992", "9007199254740992"),
        ("--events", "18446744073709551615", "9007199254740992"),
        ("--rate", "many", "number of transactions a second"),
        ("--rate", "-1", "between 0.001"),
        ("--rate", "nan", "between 0.001"),
        ("--rate-steps", "1000", "RATE:TIME"),
        ("--rate-steps", "1000:soon", "not a time"),
        ("--rate-steps", "1000:10s,0:10s", "above 0"),
        ("--max-lateness", "0", "above 0"),
        ("--arrival", "sometimes", "poisson"),
    ] {
        let option_value = format!("{option}={value}");
        let url: &[&str] = if option == "--url" { &[] } else { &["--url", "simulated:"] };
        let arguments = [&["run", option_value.as_str()], url].concat();
        let message = text(&oltpbench(&arguments).assert().code(vec![1, 2]).get_output().stderr);
        assert!(message.contains(part), "{option_value}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(!message.contains("hunter2") && !message.contains("panicked"), "{message}");
        assert!(!message.contains("Running"), "it was noticed only after the run: {message}");
    }
}

#[test]
fn options_of_an_open_loop_that_contradict_each_other_are_refused() {
    let steps = ["--rate-steps", "100:1s,200:1s"];
    for (arguments, part) in [
        (&["--arrival", "constant"][..], "--arrival is only for an open loop; give --rate"),
        (&["--overload", "queue"], "--overload is only for an open loop"),
        (&["--max-lateness", "1s"], "--max-lateness is only for an open loop"),
        (&["--rate", "1", "--overload", "shed"], "--overload shed needs --max-lateness"),
        (&["--rate", "1", "--max-lateness", "1s"], "--max-lateness needs --overload shed"),
        (&["--rate", "1", "--overload", "queue", "--max-lateness", "1s"], "--max-lateness needs --overload shed"),
        (&[&steps[..], &["--rate", "100"]].concat(), "exclude each other"),
        (&[&steps[..], &["--time", "3"]].concat(), "last 2s and --time is 3s"),
    ] {
        for command in ["run", "check"] {
            let message = fail(2, &[&[command, "--url", "simulated:"], arguments].concat());
            assert!(message.contains(part), "{arguments:?}: {message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }
    succeed(&[&["run", "--url", "simulated:", "--time", "2"], &steps[..]].concat());
}

#[test]
fn options_that_only_prepare_looks_at_are_accepted_and_told_apart() {
    let arguments = ["run", "--url", "simulated:", "--events", "5", "--secondary", "--range-size", "7"];
    let (report, output) = support::program::report_of(oltpbench(&arguments));
    let text = text(&output.stdout);
    let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
    assert!(line("options given:").ends_with(" range_size=7"), "{text}");
    assert!(line("given, but for prepare only:").ends_with(" secondary=on"), "{text}");
    let options = report["spec"]["options"].as_array().unwrap();
    let told: Vec<&str> = options
        .iter()
        .filter(|option| option["of_prepare_only"] == true)
        .map(|option| option["name"].as_str().unwrap())
        .collect();
    assert_eq!(told, ["secondary"]);
}

#[test]
fn a_seed_is_exact_in_every_reader_of_json() {
    for seed in [&["--rand-seed", "9007199254740991"][..], &[]] {
        let report = report(&[&["run", "--url", "simulated:", "--events", "5"], seed].concat());
        let written = report["spec"]["rand_seed"].as_u64().unwrap();
        assert!((1..1 << 53).contains(&written), "{written}");
        assert!(seed.is_empty() || written == (1 << 53) - 1);
    }
}

#[test]
fn more_threads_than_the_machine_can_hold_are_refused_before_one_is_made() {
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    if most.trim().parse::<u64>().unwrap() >= 400_000 {
        return;
    }
    let message = fail(1, &["run", "--url", "simulated:", "--threads", "100000"]);
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("vm.max_map_count"), "{message}");
}

#[test]
fn a_profiles_options_are_spelt_as_the_workloads_are() {
    let arguments = ["run", "--profile", "aurora-whitepaper", "--url", "simulated:", "--events", "5"];
    let report = report(&[&arguments[..], &["--threads", "1", "--point-selects", "3"]].concat());
    let changed = report["spec"]["profile"]["changed"].as_array().unwrap();
    let named = |option: &serde_json::Value, key: &str| option[key].as_str().unwrap().to_string();
    let changed: Vec<String> = changed.iter().map(|change| named(change, "option")).collect();
    assert_eq!(changed, ["threads", "events", "point_selects"]);
    let options = report["spec"]["options"].as_array().unwrap();
    assert!(options.iter().any(|option| named(option, "name") == "point_selects"));
}

#[test]
fn whatever_changes_a_profiles_load_is_named_and_another_spelling_is_no_change() {
    let profile = ["run", "--profile", "aurora-whitepaper", "--url", "simulated:?service-time=1ms", "--threads", "2"];
    let changed = |rest: &[&str]| {
        let report = report(&[&profile[..], rest].concat());
        let changed = report["spec"]["profile"]["changed"].as_array().unwrap().clone();
        let change = |change: &serde_json::Value| format!("{}={}", change["option"], change["value"]).replace('"', "");
        changed.iter().map(change).collect::<Vec<_>>()
    };
    assert_eq!(changed(&["--time", "0.1", "--rand-spec-res", "0"]), ["threads=2", "time=0.1", "rand_spec_res=0"]);
    assert_eq!(changed(&["--rate-steps", "50:0.1s,100:0.1s"]), ["threads=2", "time=0.2", "rate=50, 100"]);
    assert_eq!(changed(&["--events", "5", "--time", "600.0", "--rand-spec-pct", "01"]), ["threads=2", "events=5"]);
}

#[test]
fn a_profile_is_not_taken_for_a_file_that_has_a_built_in_workloads_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("oltp_read_only.yaml");
    std::fs::write(&path, "description: mine\nextends: oltp_point_select\n").unwrap();
    let file = path.to_str().unwrap();
    let message = fail(2, &["run", "--url", "simulated:", "--workload", file, "--profile", "aurora-whitepaper"]);
    assert!(message.contains("--profile is for built-in workloads"), "{message}");
}

#[test]
fn an_argument_that_is_not_utf8_is_refused_and_not_shown() {
    let argument = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"--url=mysql://u:hunter2\xff@h/d");
    let output = oltpbench(&["run"]).arg(argument).output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("not UTF-8") && !message.contains("hunter2"), "{message}");
}

#[test]
fn a_negative_number_is_a_wrong_value_and_not_an_unknown_option() {
    let message = fail(2, &["run", "--url", "simulated:", "--threads", "-3"]);
    assert!(message.contains("-3") && message.contains("1..=100000"), "{message}");
    let message = fail(2, &["run", "--url", "simulated:", "--tables", "-3"]);
    assert!(message.contains("not between 1 and"), "{message}");
}

#[test]
fn a_wrong_workload_file_is_shown_by_file_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.yaml");
    std::fs::write(&file, "description: x\nextends: sbtest\ntransaction:\n  stepz: []\n").unwrap();
    let name = file.to_str().unwrap();
    let message = fail(2, &["run", "--workload", name, "--url", "simulated:"]);
    assert!(message.contains("mine.yaml:4:3"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    let message = fail(2, &["run", "--workload", "/nowhere/mine.yaml", "--url", "simulated:"]);
    assert!(message.contains("/nowhere/mine.yaml"), "{message}");
}

#[test]
fn a_shown_workload_can_be_run_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.yaml");
    std::fs::write(&file, succeed(&["workloads", "show", "oltp_read_write"])).unwrap();
    let report =
        report(&["run", "--workload", file.to_str().unwrap(), "--url", "simulated:", "--events", "10", "--time", "0"]);
    assert_eq!(report["totals"]["queries"], 200);
}

#[test]
fn an_option_of_a_workload_cannot_take_the_name_of_one_of_oltpbenchs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.yaml");
    let text = "description: d\nextends: oltp_read_only\noptions:\n  time: {default: 5}\ntransaction:\n  steps:\n    - let: {x: time}\n    - use: draw_shared_table\n    - use: point_selects\n";
    std::fs::write(&file, text).unwrap();
    let message = fail(2, &["run", "--workload", file.to_str().unwrap(), "--url", "simulated:"]);
    assert!(message.contains("option `time`"), "{message}");
}

#[test]
fn a_reader_that_goes_away_costs_no_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let mut command = oltpbench(&["run", "--url", "simulated:", "--time", "0.5", "--report-interval", "0.1"]);
    command.arg("--json").arg(&file).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(support::program::document(&file, &output)["status"], "completed");
    // Without a file the report is lost, and that is no success.
    let mut command = oltpbench(&["run", "--url", "simulated:", "--events", "10"]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--json FILE keeps it"), "{}", text(&output.stderr));
    let mut child = oltpbench(&["workloads", "list"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success(), "its reader has what it wanted");
}

#[test]
fn text_that_cannot_be_written_is_a_failure_whatever_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = format!("sqlite:{}", folder.path().join("test.sqlite").display());
    let size = ["--tables", "1", "--table-size", "10", "--url", &sqlite];
    for command in [
        &["prepare"][..],
        &["prewarm"],
        &["check"],
        &["run", "--events", "5", "--report-interval", "1"],
        &["cleanup"],
        &["workloads", "list"],
        &["workloads", "show", "oltp_insert"],
        &["run", "--help"],
        &["--version"],
    ] {
        let takes_size = matches!(command, ["prepare" | "prewarm" | "check" | "cleanup"] | ["run", "--events", ..]);
        let arguments = if takes_size { [command, &size].concat() } else { command.to_vec() };
        let full = std::fs::File::create("/dev/full").unwrap();
        let output = oltpbench(&arguments).stdout(full).output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {message}");
        assert_eq!(message.matches("standard output could not be written").count(), 1, "{command:?}: {message}");
    }
}

#[test]
fn a_password_in_the_url_is_noted_where_others_could_see_it() {
    let url = "mysql://user:hunter2@127.0.0.1:1/d";
    let message = fail(1, &["run", "--url", url]);
    assert!(message.contains("OLTPBENCH_PASSWORD") && !message.contains("hunter2"), "{message}");
    let output = oltpbench(&["run"]).env("OLTPBENCH_URL", url).output().unwrap();
    assert!(!text(&output.stderr).contains("other users"), "{}", text(&output.stderr));
}

#[test]
fn a_password_in_a_strange_place_is_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file").display().to_string();
    for (arguments, part) in [
        (&["--url", "sqlite://u:hunter2@h/d"][..], "no user, password or host"),
        (&["--target", "a=sqlite://u:hunter2@h/d"], "no user, password or host"),
        (&["--url", "mysql://u:hunter2", "hunter2@h/d"], "put a URL in quotes"),
        (&["--host", "u:hunter2@h"], "--host is a host's name or address alone"),
        (&["--ask-password=hunter2"], "--ask-password takes no value"),
        (&["--workload", "u:hunter2@h"], "u:***@h"),
        (&["--percentile", "mysql://u:hunter2@h/d"], "u:***@h"),
        (&["--url", "simulated:", "--json", &format!("{file}/u:hunter2@h")], "u:***@h"),
    ] {
        let output = oltpbench(&[&["run"], arguments].concat()).output().unwrap();
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(!output.status.success() && said.contains(part), "{arguments:?}: {said}");
        assert!(!said.contains("hunter2"), "{arguments:?}: {said}");
    }
    let named = ["--name", "mysql://u:hunter2@h/d", "--tag", "url=mysql://u:hunter2@h/d"];
    let run = report(&[&["run", "--url", "simulated:", "--events", "3"], &named[..]].concat());
    assert_eq!((&run["name"], &run["tags"]["url"]), (&"mysql://u:***@h/d".into(), &"mysql://u:***@h/d".into()));
}

#[test]
fn output_has_no_colour_when_it_is_no_terminal() {
    let output = oltpbench(&["run", "--url", "simulated:", "--events", "10"]).output().unwrap();
    assert!(!text(&output.stdout).contains('\u{1b}') && !text(&output.stderr).contains('\u{1b}'));
}

#[test]
fn the_whitepapers_profile_is_what_each_of_its_clients_ran() {
    let both = [
        ("time", "600"),
        ("events", "0"),
        ("rate", "0"),
        ("warmup-time", "0"),
        ("db-ps-mode", "disable"),
        ("tables", "250"),
        ("table-size", "25000"),
        ("one-table", "on"),
        ("range-selects", "off"),
        ("skip-trx", "off"),
    ];
    let reads = [
        ("threads", "500"),
        ("rand-type", "special"),
        ("rand-spec-iter", "12"),
        ("rand-spec-pct", "1"),
        ("rand-spec-res", "75"),
        ("point-selects", "10"),
    ];
    let writes = [
        ("threads", "1000"),
        ("rand-type", "uniform"),
        ("point-selects", "0"),
        ("index-updates", "1"),
        ("non-index-updates", "1"),
        ("delete-inserts", "1"),
    ];
    for (mode, own) in [("read-only", &reads[..]), ("read-write", &writes[..])] {
        let arguments = ["--mode", mode, "--profile", "aurora-whitepaper", "--help"];
        let offered = offered_options(&succeed(&[&["run"], &arguments[..]].concat()));
        for &(option, value) in both.iter().chain(own) {
            assert_eq!(offered.get(option).map(String::as_str), Some(value), "{mode} --{option}");
        }
        // A load takes the tables of the profile, but not its threads.
        let offered = offered_options(&succeed(&[&["prepare"], &arguments[..]].concat()));
        assert_eq!((offered["tables"].as_str(), offered["threads"].as_str()), ("250", "8"), "{mode}");
    }
}

#[test]
fn the_percentiles_that_were_asked_for_are_shown_and_no_others() {
    let arguments = ["run", "--url", "simulated:?service-time=1ms", "--mode", "point-select", "--time", "0.5"];
    let interval = ["--report-interval", "0.1"];
    let shown = |list: &str| succeed(&[&arguments[..], &interval, &["--percentile", list]].concat());
    let of_latency = |shown: &str| -> Vec<String> {
        let lines = shown.split("Latency (ms):").nth(1).unwrap().lines();
        let names = lines.filter_map(|line| line.split_whitespace().next());
        names.filter(|name| name.starts_with('p')).take_while(|name| name.ends_with(':')).map(str::to_string).collect()
    };
    let several = shown("1,95,99.99");
    assert_eq!(of_latency(&several), ["p1:", "p95:", "p99.99:"], "{several}");
    assert!(several.contains(" lat (ms,95%): "), "{several}");
    let others = shown("25,75");
    assert_eq!(of_latency(&others), ["p25:", "p75:"], "{others}");
    assert!(others.contains(" lat (ms,75%): ") && !others.contains("(ms,95%)"), "{others}");
}

#[test]
fn a_password_can_be_asked_for_only_at_a_terminal() {
    let program = oltpbench(&[]);
    let mut command = std::process::Command::new("setsid");
    command.arg("--wait").arg(program.get_program()).args(["run", "--user", "u", "--ask-password"]);
    let message = text(&command.stdin(std::process::Stdio::null()).assert().code(2).get_output().stderr);
    assert!(message.contains("no password could be asked for") && message.contains("--password-file"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn only_commands_that_run_statements_take_a_time_for_them() {
    for command in ["prepare", "prewarm", "cleanup"] {
        let message = fail(2, &[command, "--host", "h", "--statement-timeout", "1"]);
        assert!(message.contains("--statement-timeout"), "{message}");
        assert!(!succeed(&[command, "--help"]).contains("--statement-timeout"));
    }
    let message = fail(2, &["run", "--url", "simulated:", "--statement-timeout", "1"]);
    assert!(message.contains("--statement-timeout is only for mysql:// targets"), "{message}");
}
