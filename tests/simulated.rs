//! The engine against a target whose service times are known: counts, windows, ends and interruptions.
//!
//! No test here depends on how fast the machine is: lower bounds come from the service time, sums from arithmetic.

mod support;

use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use support::program::{OutputAssertExt, count, document, number, oltpbench, report, report_of, succeed, text};

const POINT: [&str; 3] = ["run", "--mode", "point-select"];

fn point(url: &str, rest: &[&str]) -> serde_json::Value {
    report(&[&POINT[..], &["--url", url], rest].concat())
}

/// How many of a latency's values are at least `least_ms`.
fn at_least(latency: &serde_json::Value, least_ms: u64) -> u64 {
    let bytes = STANDARD.decode(latency["histogram"].as_str().unwrap()).unwrap();
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    histogram.count_between(least_ms * 1_000_000, u64::MAX)
}

fn codes(run: &serde_json::Value) -> Vec<&str> {
    run["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

#[test]
fn a_number_of_events_is_met_exactly_by_any_number_of_threads() {
    for threads in ["1", "7", "64"] {
        let run = point("simulated:", &["--threads", threads, "--events", "5000", "--time", "0"]);
        assert_eq!(count(&run, "totals.transactions"), 5000);
        assert_eq!(count(&run, "totals.reads"), 5000);
        assert_eq!(count(&run, "drained.transactions"), 0);
        assert_eq!(count(&run, "latency_us.response.count"), 5000);
    }
}

#[test]
fn rates_are_counts_over_the_window() {
    let run = report(&["run", "--mode", "read-only", "--url", "simulated:", "--threads", "4", "--time", "1"]);
    assert_eq!(number(&run, "totals.elapsed_s"), 1.0);
    assert_eq!(number(&run, "totals.tps"), count(&run, "totals.transactions") as f64);
    let transactions = count(&run, "totals.transactions");
    assert!(transactions > 0);
    assert_eq!(count(&run, "totals.reads"), 14 * transactions);
    assert_eq!(count(&run, "totals.read_write_requests"), 14 * transactions);
    assert_eq!(count(&run, "totals.queries"), 16 * transactions);
    assert_eq!(count(&run, "totals.other"), 2 * transactions);
}

#[test]
fn intervals_add_up_to_the_totals() {
    let run = point("simulated:?service-time=1ms", &["--threads", "8", "--time", "1.05", "--report-interval", "0.1"]);
    let series = run["series"].as_array().unwrap();
    assert_eq!(series.len(), 11, "ten intervals of 0.1 s and one of 0.05 s");
    let sum: u64 = series.iter().map(|interval| interval["transactions"].as_u64().unwrap()).sum();
    assert_eq!(sum, count(&run, "totals.transactions"));
    assert_eq!(series[10]["end_s"].as_f64(), Some(1.05));
}

#[test]
fn no_latency_is_shorter_than_the_service_time_and_no_connection_is_in_two_transactions() {
    let run = point("simulated:?service-time=20ms", &["--threads", "8", "--time", "2"]);
    assert!(number(&run, "latency_us.response.min") >= 20_000.0);
    let concurrency = number(&run, "totals.tps") * number(&run, "latency_us.response.mean") / 1e6;
    // Little's law: eight connections cannot be in more than eight transactions. A billionth is for the arithmetic.
    assert!(0.0 < concurrency && concurrency <= 8.0 * (1.0 + 1e-9), "{concurrency}");
}

#[test]
fn without_detail_transactions_are_timed_and_statements_counted() {
    let read_only = ["run", "--mode", "read-only", "--url", "simulated:?service-time=100us", "--events", "20"];
    let run = report(&[&read_only[..], &["--time", "0", "--detail", "off"]].concat());
    assert_eq!((count(&run, "totals.transactions"), count(&run, "totals.queries")), (20, 20 * 16));
    assert_eq!(count(&run, "latency_us.response.count"), 20);
    assert!(number(&run, "latency_us.response.min") >= 16.0 * 100.0, "{}", run["latency_us"]["response"]);
    assert_eq!(run["statements"].as_array().unwrap().len(), 0);
    assert_eq!(run["spec"]["detail"], false);
    let timed = report(&[&read_only[..], &["--time", "0"]].concat());
    assert!(timed["statements"].as_array().unwrap().iter().all(|statement| count(statement, "latency_us.count") > 0));
    assert_eq!(timed["spec"]["detail"], true);
}

#[test]
fn a_stall_is_seen_by_every_connection() {
    let url = "simulated:?service-time=1ms&stall-at=300ms&stall-for=500ms";
    let run = point(url, &["--threads", "5", "--time", "1.5"]);
    let response = &run["latency_us"]["response"];
    assert_eq!(at_least(response, 0), count(&run, "totals.transactions"));
    // Each connection is in one transaction when the stall begins and in that or the next one until it ends. On a busy
    // machine the first may oversleep into the stall, but the two together last as long as it, so one lasts half of it.
    let long = at_least(response, 250);
    assert!(long >= 5, "{long} of 5 connections saw the stall");
}

#[test]
fn latencies_that_miss_what_was_in_flight_are_not_passed_off_as_whole() {
    // The stall outlasts the window, so the longest transaction of each connection is in no latency.
    let url = "simulated:?service-time=5ms&stall-at=300ms&stall-for=1s";
    let run = point(url, &["--threads", "4", "--time", "0.8"]);
    assert!(codes(&run).contains(&"latency-cut-off"), "{:?}", codes(&run));
    let empty = run["series"].as_array().unwrap();
    assert!(empty.iter().all(|interval| interval["transactions"] != 0 || interval["p95_us"].is_null()));
}

#[test]
fn warm_up_is_counted_apart_and_in_no_rate() {
    let run = point("simulated:?service-time=5ms", &["--threads", "4", "--warmup-time", "0.5", "--time", "0.5"]);
    assert!(count(&run, "warmup.transactions") > 0);
    assert_eq!(number(&run, "totals.elapsed_s"), 0.5);
    assert_eq!(count(&run, "latency_us.response.count"), count(&run, "totals.transactions"));
}

#[test]
fn a_server_that_hangs_does_not_keep_the_run_from_ending() {
    let started = Instant::now();
    let arguments = ["--url", "simulated:?service-time=1h", "--threads", "3", "--time", "0.3"];
    let arguments = [&POINT[..], &arguments, &["--forced-shutdown", "0.2"]].concat();
    let (run, output) = report_of(oltpbench(&arguments));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("3 of 3 connections still waited"), "{}", text(&output.stderr));
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(count(&run, "unfinished"), 3);
    assert_eq!(count(&run, "totals.transactions"), 0);
    let codes: Vec<_> = run["findings"].as_array().unwrap().iter().map(|finding| &finding["code"]).collect();
    assert!(codes.iter().any(|code| *code == "unfinished"), "{codes:?}");
}

#[test]
fn a_hanging_transaction_shows_in_each_interval_by_its_age() {
    let arguments =
        ["--url", "simulated:?service-time=1h", "--threads", "3", "--time", "2", "--report-interval", "0.5"];
    let (run, output) = report_of(oltpbench(&[&POINT[..], &arguments, &["--forced-shutdown", "0.2"]].concat()));
    let ages: Vec<f64> =
        run["series"].as_array().unwrap().iter().map(|each| each["oldest_us"].as_f64().unwrap()).collect();
    assert!(ages.len() == 4 && ages.is_sorted() && ages[3] >= 1e6, "{ages:?}");
    assert!(
        text(&output.stdout)
            .lines()
            .next()
            .unwrap()
            .contains(" lat (ms,95%): - err/s: 0.00 reconn/s: 0.00 oldest (ms): ")
    );
}

#[test]
fn events_that_never_end_do_not_keep_a_run_without_a_time_limit_from_ending() {
    let arguments = ["--url", "simulated:?service-time=1h", "--threads", "3", "--time", "0", "--events", "3"];
    let (run, output) = report_of(oltpbench(&[&POINT[..], &arguments, &["--forced-shutdown", "0.2"]].concat()));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((count(&run, "unfinished"), count(&run, "totals.transactions")), (3, 0));
}

/// Starts a run, and interrupts it once its transactions are under way.
fn interrupted(arguments: &[&str]) -> (serde_json::Value, std::process::Output) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let output = signalled(arguments, &file, &[rustix::process::Signal::INT]);
    (document(&file, &output), output)
}

/// Starts a run that writes its document to `file`, and sends it these signals, a while after each other, once its
/// transactions are under way.
fn signalled(arguments: &[&str], file: &std::path::Path, signals: &[rustix::process::Signal]) -> std::process::Output {
    let mut command = oltpbench(&[&POINT[..], arguments].concat());
    command.arg("--json").arg(file).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The line on standard error shows that the run is under way.
    let mut first = [0];
    std::io::Read::read_exact(child.stderr.as_mut().unwrap(), &mut first).unwrap();
    for &signal in signals {
        std::thread::sleep(Duration::from_millis(200));
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_second_signal_ends_the_waiting_with_a_report_and_a_third_one_the_program() {
    use rustix::process::Signal;
    let folder = tempfile::tempdir().unwrap();
    let hanging = ["--url", "simulated:?service-time=1h", "--threads", "2", "--time", "0", "--forced-shutdown", "600"];
    for second in [[Signal::INT, Signal::INT], [Signal::TERM, Signal::TERM], [Signal::HUP, Signal::TERM]] {
        let file = folder.path().join("run.json");
        let output = signalled(&hanging, &file, &second);
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        let run = document(&file, &output);
        assert_eq!((run["status"].as_str(), count(&run, "unfinished")), (Some("interrupted"), 2));
        std::fs::remove_file(file).unwrap();
    }
    // Nobody reads the named pipe, so the report is not to be had.
    let pipe = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let output = signalled(&hanging, &pipe, &[Signal::INT; 3]);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
}

#[test]
fn a_limit_of_file_sizes_costs_the_file_and_not_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let program = oltpbench(&[]);
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", "ulimit -f 1 && exec \"$0\" \"$@\""]).arg(program.get_program()).args(POINT);
    shell.args(["--url", "simulated:?service-time=1ms", "--events", "50", "--json"]);
    let output = shell.arg(folder.path().join("run.json")).output().unwrap();
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(shown.contains("transactions:") && said.contains("cannot be written"), "{shown}{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn an_interrupted_wait_for_the_last_transactions_is_told_and_ends_the_run_as_interrupted() {
    // The window is over soon, so the interruption meets the waiting.
    let arguments = ["--url", "simulated:?service-time=1h", "--threads", "2", "--time", "0.1"];
    let (run, output) = interrupted(&[&arguments[..], &["--forced-shutdown", "600"]].concat());
    assert_eq!(output.status.code(), Some(130));
    assert_eq!((run["status"].as_str(), count(&run, "unfinished")), (Some("interrupted"), 2));
}

#[test]
fn a_wait_for_the_last_transactions_of_more_than_a_second_is_told() {
    let arguments = ["--url", "simulated:?service-time=1h", "--threads", "2", "--time", "0.1"];
    let (_, output) = report_of(oltpbench(&[&POINT[..], &arguments, &["--forced-shutdown", "1.5"]].concat()));
    let told = text(&output.stderr);
    assert!(told.contains("Waiting up to 1 s more for the last transaction of 2 connections"), "{told}");
}

#[test]
fn a_thousand_connections_run_and_end() {
    let run = point("simulated:?service-time=50ms", &["--threads", "1000", "--events", "3000", "--time", "0"]);
    assert_eq!(count(&run, "totals.transactions"), 3000);
    assert_eq!(count(&run, "unfinished"), 0);
}

#[test]
fn ctrl_c_sigterm_and_a_lost_terminal_report_what_was_measured() {
    use rustix::process::Signal;
    // A terminal that closes sends two.
    for signals in [&[Signal::INT][..], &[Signal::TERM], &[Signal::HUP, Signal::HUP]] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.json");
        // Under nohup the tests themselves ignore SIGHUP, and what they start would too.
        let mut command = std::process::Command::new("env");
        command.arg("--default-signal=HUP").arg(env!("CARGO_BIN_EXE_oltpbench")).args(POINT);
        command.args(["--url", "simulated:?service-time=200ms", "--time", "0"]);
        command.arg("--json").arg(&file).args(["--threads", "8", "--report-interval", "0.5"]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The first interval line shows that the run is under way.
        let mut first = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
        let process = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(process, signals[0]).unwrap();
        for &again in &signals[1..] {
            // Late enough to be a signal of its own, and early enough for the answer in flight to keep the run waiting.
            std::thread::sleep(Duration::from_millis(5));
            rustix::process::kill_process(process, again).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        let run = document(&file, &output);
        assert_eq!(run["status"], "interrupted");
        assert!(count(&run, "totals.transactions") > 0);
    }
}

#[test]
fn a_json_path_that_is_a_link_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    std::fs::write(place("run.json"), "older").unwrap();
    std::os::unix::fs::symlink("run.json", place("link")).unwrap();
    // As /dev/stdout does.
    std::os::unix::fs::symlink("/proc/self/fd/1", place("stdout")).unwrap();
    let run = |link: &str| {
        let mut command = oltpbench(&[&POINT[..], &["--url", "simulated:?service-time=1ms", "--events", "5"]].concat());
        command.arg("--json").arg(place(link)).stdout(std::fs::File::create(place("out")).unwrap());
        assert!(command.status().unwrap().success());
        assert!(place(link).is_symlink(), "{link}");
        std::fs::read_to_string(place("out")).unwrap()
    };
    assert!(!run("link").contains("schema_version"));
    assert!(std::fs::read_to_string(place("run.json")).unwrap().contains("schema_version"));
    let both = run("stdout");
    assert!(both.contains("schema_version") && both.contains("SQL statistics:"), "{both}");
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 4, "nothing else was left behind");
}

#[test]
fn the_text_does_not_wait_for_the_reader_of_a_named_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, out) = (folder.path().join("pipe"), folder.path().join("out"));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut command = oltpbench(&[&POINT[..], &["--url", "simulated:?service-time=1ms", "--events", "5"]].concat());
    command.arg("--json").arg(&pipe).stdout(std::fs::File::create(&out).unwrap());
    let mut child = command.spawn().unwrap();
    // The suite's own limit of time ends a program that waits for ever.
    while !std::fs::read_to_string(&out).unwrap().contains("SQL statistics:") {
        assert!(child.try_wait().unwrap().is_none(), "it ended without a text");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(std::fs::read_to_string(&pipe).unwrap().contains("schema_version"));
    assert!(child.wait().unwrap().success());
}

#[test]
fn under_nohup_a_lost_terminal_does_not_end_the_run() {
    let program = oltpbench(&[]);
    let mut command = std::process::Command::new("nohup");
    command.arg(program.get_program()).args(POINT).args(["--url", "simulated:?service-time=1ms", "--time", "1.5"]);
    command.args(["--report-interval", "0.1"]).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut first = [0];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::HUP).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("1.5000s\n"), "{}", text(&output.stdout));
}

#[test]
fn a_reader_that_stops_reading_holds_up_neither_the_run_nor_ctrl_c() {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // As much as a pipe holds on Linux, so that the first interval line blocks.
    std::io::Write::write_all(&mut writer, &[b'\n'; 65536]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let mut command = oltpbench(&[&POINT[..], &["--url", "simulated:?service-time=1ms", "--time", "0"]].concat());
    command.arg("--json").arg(&file).args(["--report-interval", "0.1"]);
    command.stdout(writer).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(command);
    std::thread::sleep(Duration::from_secs(1));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    while !file.exists() {
        assert!(Instant::now() < patience, "no report while nobody reads");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut shown = String::new();
    std::io::Read::read_to_string(&mut reader, &mut shown).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let run: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(run["status"], "interrupted");
    let lines = shown.lines().filter(|line| line.starts_with("[ ")).count();
    assert_eq!(lines, run["series"].as_array().unwrap().len(), "each interval has its line");
    assert!(shown.find("SQL statistics:") > shown.rfind("[ "), "the summary comes last");
}

#[test]
fn an_interruption_in_the_warm_up_ends_the_run_at_once_and_says_that_nothing_was_measured() {
    let started = SystemTime::now();
    let arguments = ["--url", "simulated:?service-time=1ms", "--warmup-time", "600", "--time", "600"];
    let (run, output) = interrupted(&arguments);
    assert!(started.elapsed().unwrap() < Duration::from_secs(600));
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(count(&run, "totals.transactions"), 0);
    assert!(count(&run, "warmup.transactions") > 0);
    let began = humantime::parse_rfc3339(run["started_at"].as_str().unwrap()).unwrap();
    assert!(began <= SystemTime::now(), "{}", run["started_at"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("[interrupted] the run was stopped during its warm-up"), "{shown}");
    assert!(shown.contains("there are no figures") && !shown.contains("figures hold"), "{shown}");
}

#[test]
fn the_same_seed_is_reported_and_a_new_one_is_drawn_otherwise() {
    let seed = |rest: &[&str]| count(&point("simulated:", &[&["--events", "1"], rest].concat()), "spec.rand_seed");
    assert_eq!(seed(&["--rand-seed", "42"]), 42);
    assert_ne!(seed(&[]), seed(&[]));
}

#[test]
fn a_profile_sets_the_published_run_and_says_what_was_changed() {
    let run = report(&[
        "run",
        "--mode",
        "read-write",
        "--profile",
        "aurora-whitepaper",
        "--url",
        "simulated:?service-time=10ms",
        "--threads",
        "20",
        "--time",
        "1",
    ]);
    let transactions = count(&run, "totals.transactions");
    assert_eq!(count(&run, "totals.read_write_requests"), 4 * transactions);
    assert_eq!(count(&run, "totals.writes"), 4 * transactions);
    assert_eq!(run["spec"]["protocol"], "text");
    let changed = run["spec"]["profile"]["changed"].as_array().unwrap();
    let changed: Vec<_> = changed.iter().map(|change| (&change["option"], &change["profile_value"])).collect();
    assert_eq!(changed.len(), 2, "{changed:?}");
    assert_eq!((changed[0].0.as_str(), changed[0].1.as_str()), (Some("threads"), Some("1000")));
    assert_eq!((changed[1].0.as_str(), changed[1].1.as_str()), (Some("time"), Some("600")));

    let run = report(&[
        "run",
        "--mode",
        "read-only",
        "--profile",
        "aurora-whitepaper",
        "--url",
        "simulated:?service-time=1ms",
        "--threads",
        "20",
        "--time",
        "1",
    ]);
    assert_eq!(count(&run, "totals.read_write_requests"), 10 * count(&run, "totals.transactions"));
    assert_eq!(run["spec"]["rand_type"], "special");
}

#[test]
fn the_report_appears_as_text_even_when_the_json_file_cannot_be_written() {
    // Every write to /dev/full fails as on a full disk.
    let output = oltpbench(&[&POINT[..], &["--url", "simulated:", "--events", "10", "--json", "/dev/full"]].concat())
        .output()
        .unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout.contains("transactions:                        10 "), "{stdout}");
    assert!(stderr.contains("/dev/full") && stderr.contains("No space left"), "{stderr}");
    assert!(std::fs::metadata("/dev/full").is_ok_and(|device| !device.is_file()), "the device was replaced");
}

#[test]
fn the_document_carries_its_version_and_no_loose_ends() {
    let (run, _) = report_of(oltpbench(&[&POINT[..], &["--url", "simulated:", "--events", "100"]].concat()));
    assert_eq!(run["schema_version"], 1);
    for key in ["spec", "target", "client", "totals", "latency_us", "statements", "series", "findings", "status"] {
        assert!(!run[key].is_null(), "{key}");
    }
    assert_eq!(run["statements"][0]["latency_us"]["count"], 100);
}

#[test]
fn text_and_document_say_the_same() {
    let shown = succeed(&[&POINT[..], &["--url", "simulated:", "--events", "1234", "--time", "0"]].concat());
    assert!(shown.contains("transactions:                        1234 "), "{shown}");
    assert!(shown.contains("read/write requests:                 1234 "), "{shown}");
}

#[test]
fn every_figure_of_a_run_has_its_interval() {
    // Without --report-interval, and with one that leaves too few intervals to tell anything.
    for rest in [&[][..], &["--report-interval", "3"]] {
        let url = "simulated:?service-time=2ms";
        let run = point(url, &[&["--threads", "8", "--time", "3"], rest].concat());
        assert_eq!((number(&run, "confidence.level"), count(&run, "confidence.blocks")), (0.95, 30));
        let confidence = &run["confidence"];
        // On a busy machine the rate may wander too much for an interval, which is said then.
        assert!(confidence["tps"].is_object() || confidence["needs_s"].is_number(), "{confidence}");
        for (figure, bounds) in [
            ("totals.tps", &confidence["tps"]),
            ("totals.rps", &confidence["rps"]),
            ("totals.qps", &confidence["qps"]),
            ("latency_us.response.mean", &confidence["latency_us"]["mean"]),
            ("latency_us.response.p50", &confidence["latency_us"]["p50"]),
            ("latency_us.response.p95", &confidence["latency_us"]["p95"]),
        ] {
            let value = number(&run, figure);
            let holds = || number(bounds, "low") <= value && value <= number(bounds, "high");
            assert!(bounds.is_null() || holds(), "{figure}: {value} {bounds}");
        }
    }
}

#[test]
fn a_finding_that_is_not_wanted_makes_the_exit_code_3() {
    let short = [&POINT[..], &["--url", "simulated:?service-time=1ms", "--time", "0.3"]].concat();
    let fail_on = |codes| report_of(oltpbench(&[&short[..], &["--fail-on", codes]].concat()));
    let (run, output) = fail_on("client-steal,too-short");
    assert_eq!(output.status.code(), Some(3));
    assert!(run["confidence"]["tps"].is_null() && number(&run, "confidence.needs_s") >= 2.0);
    let (said, shown) = (text(&output.stderr), text(&output.stdout));
    assert!(
        said.contains("do not tell how far figures without an interval can be trusted (--fail-on too-short)"),
        "{said}"
    );
    assert!(shown.contains("[too-short]") && shown.contains(" (no interval)"), "{shown}");
    assert_eq!(fail_on("no-transactions").1.status.code(), Some(0));
    let unknown =
        text(&oltpbench(&[&short[..], &["--fail-on", "too-shrt"]].concat()).assert().code(2).get_output().stderr);
    assert!(unknown.contains("too-shrt") && unknown.contains("server-lost, connections-panicked"), "{unknown}");
}

/// A run whose arrivals come at equal distances, so that it is known what is due when. Its counts must add up.
fn open(url: &str, rest: &[&str]) -> serde_json::Value {
    let (run, output) = report_of(oltpbench(&[&POINT[..], &["--url", url, "--arrival", "constant"], rest].concat()));
    assert!([Some(0), Some(1)].contains(&output.status.code()), "{}", text(&output.stderr));
    let kept = |name: &str| count(&run, &format!("open_loop.{name}"));
    let ended: u64 = ["done", "shed", "drained", "unfinished", "not_begun"].map(kept).iter().sum();
    assert_eq!(kept("due"), ended, "{}", run["open_loop"]);
    assert_eq!(kept("unfinished"), count(&run, "unfinished"), "what was begun and did not end has a thread that waits");
    let of_all = |name: &str| -> u64 {
        run["series"].as_array().unwrap().iter().map(|interval| interval[name].as_u64().unwrap()).sum()
    };
    let transactions = count(&run, "totals.transactions");
    assert_eq!((of_all("due"), of_all("transactions")), (kept("due"), transactions));
    // The simulated target fails none.
    assert_eq!(kept("done") + kept("due_in_warmup"), transactions);
    assert_eq!(count(&run, "latency_us.response.count"), kept("done"));
    assert_eq!(count(&run, "latency_us.service.count"), transactions);
    run
}

#[test]
fn an_open_loop_makes_due_what_was_asked_for_and_counts_what_became_of_it() {
    let url = "simulated:?service-time=1ms";
    let run = open(url, &["--threads", "16", "--rate", "1000", "--time", "2.5", "--report-interval", "0.5"]);
    assert_eq!((count(&run, "open_loop.due"), number(&run, "open_loop.asked_tps")), (2500, 1000.0));
    assert!(run["series"].as_array().unwrap().iter().all(|interval| interval["due"] == 500));
    // Response time holds the wait for a connection as well.
    let latency = |name: &str| number(&run, &format!("latency_us.{name}"));
    assert!(latency("service.min") >= 1000.0 && latency("response.mean") >= latency("service.mean"));
    assert!(latency("response.max") >= number(&run, "open_loop.lateness_us.max") + 1000.0);
    assert_eq!(run["spec"]["open_loop"]["overload"], "queue");
}

#[test]
fn the_rate_is_a_fraction_and_the_events_end_the_run_once_they_were_due() {
    let run = open("simulated:", &["--threads", "64", "--rate", "12.5", "--events", "20", "--time", "0"]);
    // The twentieth is due after nineteen gaps of 80 ms. The threads took all tickets at once.
    assert_eq!((count(&run, "open_loop.due"), count(&run, "totals.transactions")), (20, 20));
    assert!(number(&run, "totals.elapsed_s") >= 1.52);
    // Too few are due in this time to use the events up, so it lasts as long as it should.
    let run = open("simulated:", &["--threads", "64", "--rate", "12.5", "--events", "20", "--time", "1"]);
    assert_eq!((count(&run, "open_loop.due"), number(&run, "totals.elapsed_s")), (13, 1.0));
    // Waiting for an event to be due is not waiting for its end.
    let events = ["--threads", "4", "--rate", "2", "--events", "4", "--time", "0", "--forced-shutdown", "0.3"];
    assert_eq!(count(&open("simulated:", &events), "totals.transactions"), 4);
}

#[test]
fn rates_change_at_the_times_of_their_steps() {
    let steps = ["--rate-steps", "200:500ms,1000:1,0.5:0.5s", "--report-interval", "0.5", "--warmup-time", "0.25"];
    let run = open("simulated:", &[&["--threads", "8"], &steps[..]].concat());
    let due: Vec<_> = run["series"].as_array().unwrap().iter().map(|interval| interval["due"].as_u64()).collect();
    // The last step's first transaction is due as it begins.
    assert_eq!(due, [100, 500, 500, 1].map(Some));
    assert_eq!((number(&run, "totals.elapsed_s"), number(&run, "open_loop.asked_tps")), (2.0, 1100.25 / 2.0));
    assert_eq!(
        count(&run, "warmup.transactions")
            + count(&run, "open_loop.due_in_warmup")
            + count(&run, "open_loop.dropped_from_warmup"),
        50
    );
}

#[test]
fn a_stall_makes_late_all_that_were_due_in_it() {
    let url = "simulated:?service-time=1ms&stall-at=1s&stall-for=2s";
    let run = open(url, &["--threads", "8", "--rate", "1000", "--time", "6"]);
    assert_eq!(count(&run, "open_loop.due"), 6000);
    // Of 2000 that are due in the stall those of its last half waited for less than a second.
    let response = &run["latency_us"]["response"];
    let late = at_least(response, 1000) + count(&run, "open_loop.not_begun");
    assert!(late >= 990, "{late}");
    assert!(number(&run, "latency_us.response.p95") >= 1_600_000.0, "{}", response["p95"]);
    // Only the eight that were sent saw the server stall. A ninth comes where a thread overslept a whole second.
    let sent = at_least(&run["latency_us"]["service"], 1000);
    assert!((1..=16).contains(&sent), "{sent}");
    assert!(count(&run, "open_loop.highest_backlog") >= 1000);
    assert_eq!(count(&run, "open_loop.shed"), 0);
}

#[test]
fn what_would_begin_too_late_is_shed_and_counted() {
    let url = "simulated:?service-time=1ms&stall-at=1s&stall-for=2s";
    let shed = ["--overload", "shed", "--max-lateness", "100ms"];
    let run = open(url, &[&["--threads", "8", "--rate", "1000", "--time", "4"], &shed[..]].concat());
    assert_eq!(count(&run, "open_loop.due"), 4000);
    // 2000 are due in the stall: eight are sent, and the last 100 are not too late when it ends.
    assert!(count(&run, "open_loop.shed") >= 1890, "{}", run["open_loop"]);
    // What was begun was begun in time.
    let slow = number(&run, "latency_us.service.max") + 100_000.0;
    assert!(number(&run, "latency_us.response.max") <= slow);
    assert!(number(&run, "open_loop.lateness_us.max") <= 100_000.0);
    assert!(
        codes(&run).contains(&"transactions-shed") && codes(&run).contains(&"schedule-missed"),
        "{:?}",
        codes(&run)
    );
    assert_eq!(
        (count(&run, "totals.failed_transactions"), run["spec"]["open_loop"]["overload"].as_str()),
        (0, Some("shed"))
    );
}

#[test]
fn an_overload_leaves_a_queue_that_is_counted_and_a_finding() {
    // Two connections do at most 100 transactions a second.
    let run = open("simulated:?service-time=20ms", &["--threads", "2", "--rate", "1000", "--time", "1.5"]);
    assert_eq!(count(&run, "open_loop.due"), 1500);
    assert!(count(&run, "totals.transactions") <= 150);
    assert!(count(&run, "open_loop.not_begun") >= 1500 - 152, "{}", run["open_loop"]);
    assert!(count(&run, "open_loop.highest_backlog") >= count(&run, "open_loop.not_begun"));
    let last = run["series"].as_array().unwrap().last().unwrap();
    assert_eq!(last["backlog"].as_u64(), Some(count(&run, "open_loop.not_begun")));
    assert!(codes(&run).contains(&"schedule-missed") && codes(&run).contains(&"latency-cut-off"), "{:?}", codes(&run));
}

#[test]
fn the_backlog_of_a_warm_up_stays_out_of_the_window() {
    // The warm-up stalls for all of its time but the first 200 ms, and a little longer.
    let url = "simulated:?stall-at=200ms&stall-for=1.9s";
    let run = open(url, &["--threads", "4", "--rate", "1000", "--warmup-time", "2", "--time", "2"]);
    assert_eq!(count(&run, "open_loop.due"), 2000);
    let dropped = count(&run, "open_loop.dropped_from_warmup");
    assert_eq!(count(&run, "warmup.transactions") + count(&run, "open_loop.due_in_warmup") + dropped, 2000);
    // The stall counts from the first statement, which a busy machine may delay.
    assert!(dropped >= 1000, "{dropped}");
    // Those that were in flight across the start took 1.8 s by themselves; they are counted, and are in no response time.
    assert!(at_least(&run["latency_us"]["service"], 1000) <= 4);
    let first = number(&run, "latency_us.response.max");
    assert!(first < 1_800_000.0, "{first}: no wait from before the window");
}

#[test]
fn an_interruption_wakes_those_that_wait_for_their_time() {
    let started = Instant::now();
    let arguments =
        ["--url", "simulated:", "--threads", "4", "--rate", "0.001", "--arrival", "constant", "--time", "0"];
    let (run, output) = interrupted(&[&arguments[..], &["--forced-shutdown", "600"]].concat());
    assert_eq!(output.status.code(), Some(130));
    assert!(started.elapsed() < Duration::from_secs(60));
    assert_eq!((count(&run, "open_loop.due"), count(&run, "unfinished")), (1, 0));
}

#[test]
fn a_server_that_hangs_leaves_an_exact_account_of_the_schedule() {
    let hangs = ["--threads", "3", "--rate", "100", "--time", "0.5", "--forced-shutdown", "0.2"];
    let run = open("simulated:?service-time=1h", &hangs);
    let count = |name: &str| count(&run, &format!("open_loop.{name}"));
    assert_eq!((count("due"), count("done"), count("unfinished"), count("not_begun")), (50, 0, 3, 47));
}

#[test]
fn a_seed_makes_the_same_arrivals_whatever_the_number_of_threads() {
    let due = |threads: &str, seed: &str| {
        let arguments = ["--threads", threads, "--rate", "700", "--time", "1", "--rand-seed", seed];
        let run = point("simulated:", &[&arguments[..], &["--report-interval", "0.1"]].concat());
        assert_eq!(run["spec"]["open_loop"]["arrival"], "poisson");
        run["series"].as_array().unwrap().iter().map(|each| each["due"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(due("1", "7"), due("16", "7"));
    assert_ne!(due("1", "7"), due("1", "8"));
}

#[test]
fn a_closed_loop_has_no_schedule_and_one_kind_of_latency() {
    let run = point("simulated:", &["--events", "10"]);
    assert!(run["open_loop"].is_null() && run["spec"]["open_loop"].is_null());
    assert!(run["series"][0]["backlog"].is_null() && run["series"][0]["due"].is_null());
    assert_eq!(run["latency_us"]["response"], run["latency_us"]["service"]);
}
