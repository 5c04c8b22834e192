//! Experiments: grids of runs in a folder, gone on with after a stop, on targets that need no server and on MariaDB.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::Server;
use support::program::{OutputAssertExt, count, fail, oltpbench, report, succeed, text};

const FAST: &str = "fast=simulated:?service-time=100us";
const SLOW: &str = "slow=simulated:?service-time=1ms";
const POINT: [&str; 3] = ["run", "--mode", "point-select"];

/// A folder's path, to be made by the program.
fn new_folder(parent: &tempfile::TempDir) -> PathBuf {
    parent.path().join("experiment")
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The documents of the runs that are done, in the order of their files' names.
fn documents(folder: &Path) -> Vec<(String, Value)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    // What was being written when the program was killed stays behind under another name.
    let document =
        |path: &PathBuf| path.extension().is_some_and(|name| name == "json") && !path.ends_with("experiment.json");
    let mut files: Vec<PathBuf> = entries.filter(document).collect();
    files.sort();
    files.iter().map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), json(path))).collect()
}

/// What `experiment.json` says of its runs under a key.
fn of_runs(folder: &Path, key: &str) -> Vec<Value> {
    let experiment = json(&folder.join("experiment.json"));
    experiment["runs"].as_array().unwrap().iter().map(|run| run[key].clone()).collect()
}

fn with<'a>(arguments: &[&[&'a str]]) -> Vec<&'a str> {
    [&POINT[..], &arguments.concat()].concat()
}

#[test]
fn a_grid_measures_every_combination_once_a_repeat_and_block_by_block() {
    let parent = tempfile::tempdir().unwrap();
    let folder = new_folder(&parent);
    let dir = folder.to_str().unwrap();
    let grid = ["--target", FAST, "--target", SLOW, "--threads", "1,3", "--rate", "0,200", "--repeat", "2"];
    let rest = ["--time", "0.1", "--dir", dir, "--name", "try", "--tag", "region=here", "--rand-seed", "7"];
    let output = succeed(&with(&[&grid, &rest]));
    assert!(output.contains("2 targets x 2 numbers of threads x 2 rates x 2 repeats = 16 runs"), "{output}");
    assert!(output.contains("Time needed: 2s and"), "{output}");
    let documents = documents(&folder);
    assert_eq!(documents.len(), 16);
    let cell = |run: &Value| {
        let spec = &run["spec"];
        (run["cell"]["target"].to_string(), spec["threads"].to_string(), spec["open_loop"].is_null())
    };
    let mut seeds = BTreeSet::new();
    for block in 1..=2 {
        let of_block: Vec<_> = documents.iter().filter(|(_, run)| run["cell"]["block"] == block).collect();
        assert_eq!(of_block.iter().map(|(_, run)| cell(run)).collect::<BTreeSet<_>>().len(), 8);
        let orders: BTreeSet<u64> = of_block.iter().map(|(_, run)| count(run, "cell.order")).collect();
        assert_eq!(orders, (8 * block - 7..=8 * block).collect());
        seeds.extend(of_block.iter().map(|(_, run)| count(run, "spec.rand_seed")));
    }
    assert_eq!(seeds.len(), 16, "runs of one seed would find each other's rows in the server's cache");
    assert!(documents.iter().all(|(_, run)| run["name"] == "try" && run["tags"]["region"] == "here"));
    assert!(documents.iter().any(|(name, _)| name == "b02-c08-slow-t3-r200.json"), "{documents:?}");
    let table: Vec<&str> = output.lines().skip_while(|line| !line.starts_with("target ")).collect();
    assert_eq!(table.len(), 9, "{output}");
    assert!(output.lines().all(|line| line.chars().count() <= 80), "{output}");
}

#[test]
fn the_seed_gives_the_order_and_repeats_differ() {
    let parent = tempfile::tempdir().unwrap();
    let order = |name: &str, seed: &str| {
        let folder = parent.path().join(name);
        let dir = folder.to_str().unwrap();
        let grid = ["--threads", "1,2,3,4,5,6", "--repeat", "2", "--url", "simulated:", "--rand-seed", seed];
        succeed(&with(&[&grid, &["--events", "1", "--time", "0", "--dir", dir]]));
        of_runs(&folder, "cell")
    };
    let (first, again, other) = (order("a", "1"), order("b", "1"), order("c", "2"));
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert_ne!(first[..6], first[6..]);
}

#[test]
fn a_single_run_has_its_name_and_tags_and_no_folder() {
    let rest = ["--url", "simulated:", "--events", "1", "--time", "0", "--name", "n", "--tag", "k=v=w"];
    let run = report(&with(&[&rest]));
    assert_eq!((&run["name"], &run["tags"]["k"], &run["cell"]), (&"n".into(), &"v=w".into(), &Value::Null));
}

#[test]
fn one_repeat_that_was_asked_for_is_an_experiment_of_one() {
    let parent = tempfile::tempdir().unwrap();
    let mut command = oltpbench(&with(&[&["--url", "simulated:", "--events", "1", "--time", "0", "--repeat", "1"]]));
    let output = text(&command.current_dir(&parent).assert().success().get_output().stdout);
    let folder = output.lines().find_map(|line| line.strip_prefix("Reports: ")).unwrap();
    assert!(folder.starts_with("oltpbench-20"), "{output}");
    let documents = documents(&parent.path().join(folder));
    assert_eq!(documents.len(), 1);
    assert_eq!(documents[0].0, "b01-c01-target-t1.json");
}

#[test]
fn a_run_that_fails_is_marked_and_the_rest_go_on() {
    let parent = tempfile::tempdir().unwrap();
    let folder = new_folder(&parent);
    let dir = folder.to_str().unwrap();
    let targets = ["--target", "dead=simulated:?service-time=1h", "--target", FAST, "--repeat", "2"];
    let options = ["--time", "0.1", "--forced-shutdown", "0.5"];
    let all = with(&[&targets, &options, &["--dir", dir]]);
    let output = oltpbench(&all).assert().code(1).get_output().clone();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(stderr.contains("2 of 4 runs failed"), "{stderr}");
    assert!(stdout.contains("Failed:\n    dead, 1 thread, repeat 1: 1 of 1 connections"), "{stdout}");
    let states = of_runs(&folder, "state");
    assert_eq!(states.iter().filter(|state| *state == "failed").count(), 2);
    assert_eq!(states.iter().filter(|state| *state == "done").count(), 2);
    assert!(documents(&folder).iter().all(|(_, run)| run["cell"]["target"] == "fast"));
    // Nothing was measured there.
    assert!(!folder.join("failed").exists());
    let list = succeed(&["report", "list", dir]);
    let missing: Vec<&str> = list.lines().skip_while(|line| !line.starts_with("Without a report:")).collect();
    assert!(missing.len() >= 3 && missing[1].starts_with("    dead, 1 thread, repeat 1: 1 of 1 connec"), "{list}");
    let before = documents(&folder);
    let message = fail(1, &with(&[&targets, &options, &["--resume", dir]]));
    assert!(message.contains("2 of 4 runs failed"), "{message}");
    assert_eq!(documents(&folder), before);
    let orders: BTreeSet<u64> = of_runs(&folder, "order").iter().map(|order| order.as_u64().unwrap()).collect();
    assert!(orders.is_superset(&[5, 6].into()), "{orders:?}");
}

#[test]
fn what_a_failed_run_measured_is_kept_apart() {
    let parent = tempfile::tempdir().unwrap();
    let folder = new_folder(&parent);
    let dir = folder.to_str().unwrap();
    // Its first statements come before the stall, which lasts beyond the end.
    let stalled = "stalled=simulated:?service-time=1ms&stall-at=200ms&stall-for=1h";
    let arguments = with(&[&["--target", stalled, "--time", "0.5", "--forced-shutdown", "0.1", "--dir", dir]]);
    fail(1, &arguments);
    assert!(documents(&folder).is_empty());
    assert!(succeed(&["report", "list", dir]).starts_with("Without a report:\n    stalled, 1 thread, repeat 1: "));
    let kept = json(&folder.join("failed/b01-c01-stalled-t1.json"));
    assert!(count(&kept, "totals.transactions") > 0);
}

/// Starts an experiment and returns once the report of its first run is there.
fn started(arguments: &[&str], folder: &Path) -> Child {
    let child = oltpbench(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !folder.exists() || documents_or_none(folder) == 0 {
        assert!(Instant::now() < deadline, "no run was done");
        sleep(Duration::from_millis(10));
    }
    child
}

/// How many reports there are, also while they are being written.
fn documents_or_none(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with('b')).count()
}

#[test]
fn ctrl_c_ends_the_run_with_its_report_and_resume_measures_the_rest() {
    let parent = tempfile::tempdir().unwrap();
    let folder = new_folder(&parent);
    let dir = folder.to_str().unwrap();
    let grid = ["--target", FAST, "--target", SLOW, "--repeat", "2", "--time", "3"];
    let child = started(&with(&[&grid, &["--dir", dir]]), &folder);
    let resume = with(&[&grid, &["--resume", dir]]);
    let message = fail(2, &resume);
    assert!(message.contains("another oltpbench measures into"), "{message}");
    // Long enough for the next run to have measured something, and much less than it lasts.
    sleep(Duration::from_millis(500));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains(&format!("--resume {dir}")), "{stderr}");
    assert!(stdout.contains("[interrupted] the run was stopped after"), "{stdout}");
    let before = documents(&folder);
    assert!((1..4).contains(&before.len()), "{before:?}");
    let output = succeed(&resume);
    assert!(output.contains(&format!("Done before: {} of 4 runs", before.len())), "{output}");
    let after = documents(&folder);
    assert_eq!(after.len(), 4);
    assert!(before.iter().all(|run| after.contains(run)), "what was done is not measured again");
    assert!(after.iter().all(|(_, run)| run["status"] == "completed"));
    assert_eq!(of_runs(&folder, "state"), ["done"; 4]);
}

#[test]
fn what_was_done_when_the_program_was_killed_stays_done() {
    let parent = tempfile::tempdir().unwrap();
    let folder = new_folder(&parent);
    let dir = folder.to_str().unwrap();
    let grid = ["--target", FAST, "--repeat", "3", "--time", "1"];
    let mut child = started(&with(&[&grid, &["--dir", dir]]), &folder);
    child.kill().unwrap();
    child.wait().unwrap();
    let before = documents(&folder);
    // Killed between the report and the note of it, when the run was made for the first time or after it had failed.
    let path = folder.join("experiment.json");
    let mut after = Vec::new();
    for noted in ["\"planned\"", "\"failed\""] {
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap().replace("\"done\"", noted)).unwrap();
        succeed(&with(&[&grid, &["--resume", dir]]));
        after = documents(&folder);
        assert_eq!(after.len(), 3);
        assert!(before.iter().all(|run| after.contains(run)), "{before:?}\n{after:?}");
    }
    let orders: BTreeSet<u64> = after.iter().map(|(_, run)| count(run, "cell.order")).collect();
    assert_eq!(orders.len(), 3);
}

#[test]
fn only_the_same_experiment_is_gone_on_with_and_may_get_more_repeats() {
    let parent = tempfile::tempdir().unwrap();
    let folder = new_folder(&parent);
    let dir = folder.to_str().unwrap();
    let same = ["--target", FAST, "--threads", "1,2", "--time", "0.1"];
    succeed(&with(&[&same, &["--repeat", "2", "--dir", dir]]));
    let resume = ["--resume", dir];
    for (other, part) in [
        (&["--target", FAST, "--threads", "1,2", "--time", "0.2"][..], "spec.time_s is 0.2 and was 0.1"),
        (&["--target", FAST, "--threads", "1,4", "--time", "0.1"], "threads is [1,4] and was [1,2]"),
        (&["--target", SLOW, "--threads", "1,2", "--time", "0.1"], "targets.1.name is \"slow\" and was \"fast\""),
        (&[&same[..], &["--rand-seed", "5"]].concat(), "seed is 5 and was"),
        (&[&same[..], &["--repeat", "1"]].concat(), "has 2 repeats"),
        (&[&same[..], &["--tag", "a=b"]].concat(), "--name or --tag was another"),
        (&[&same[..], &["--mode", "read-write"]].concat(), "--mode"),
    ] {
        let message = fail(2, &with(&[other, &resume]));
        assert!(message.contains(part), "{part}: {message}");
    }
    let before = documents(&folder);
    succeed(&with(&[&same, &resume]));
    assert_eq!(documents(&folder), before);
    succeed(&with(&[&same, &["--repeat", "3"], &resume]));
    assert_eq!(documents(&folder).len(), 6);
    assert_eq!(of_runs(&folder, "order").len(), 6);
}

#[test]
fn repeats_are_added_until_the_intervals_are_as_narrow_as_asked() {
    let parent = tempfile::tempdir().unwrap();
    let folder = new_folder(&parent);
    let dir = folder.to_str().unwrap();
    let grid = ["--target", FAST, "--target", SLOW, "--time", "0.1", "--until-precision", "90%"];
    let output = succeed(&with(&[&grid, &["--repeat", "4", "--max-repeats", "6", "--dir", dir]]));
    assert!(output.contains("Time needed: 1s to 2s and"), "{output}");
    assert!(output.contains("After 4 repeats the widest interval is ±"), "{output}");
    assert!(
        output.contains("asked for is ±90.00 %\n    tps of slow by fast, oltp_point_select, 1 thread\n"),
        "{output}"
    );
    assert_eq!(documents(&folder).len(), 8);
    assert_eq!(json(&folder.join("experiment.json"))["until_precision"], 0.9);
    // It goes on with more at least than were planned, and never with fewer.
    for (repeat, documents_then) in [("6", 12), ("4", 12)] {
        let output = succeed(&with(&[&grid, &["--repeat", repeat, "--max-repeats", "6", "--resume", dir]]));
        assert!(output.contains("After 6 repeats the widest interval is ±"), "{output}");
        assert_eq!(documents(&folder).len(), documents_then);
    }
}

#[test]
fn repeats_end_at_the_most_that_may_be_made_and_it_is_said_why() {
    let parent = tempfile::tempdir().unwrap();
    let folder = new_folder(&parent);
    let dir = folder.to_str().unwrap();
    // Fewer than the 200 latencies of which 10 lie beyond p95, which is the figure where a rate is asked for.
    let grid = ["--target", FAST, "--time", "0.5", "--rate", "50", "--until-precision", "2", "--repeat", "4"];
    let output =
        oltpbench(&with(&[&grid, &["--max-repeats", "7", "--dir", dir]])).assert().success().get_output().clone();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    for repeats in [4, 6, 7] {
        let said = format!("After {repeats} repeats the widest interval is not known; asked for is ±2.00 %");
        assert!(stdout.contains(&said), "{stdout}");
    }
    assert!(
        stdout.contains("    p95 of oltp_point_select, 1 thread, rate 50 (too few latencies beyond it)\n"),
        "{stdout}"
    );
    assert!(stderr.contains("Note: no more repeats are made (--max-repeats 7)"), "{stderr}");
    assert_eq!(documents(&folder).len(), 7);
}

#[test]
fn repeats_are_not_added_where_no_figures_tell() {
    let parent = tempfile::tempdir().unwrap();
    let folder = new_folder(&parent);
    // Every transaction of the second target is one that no run of it is long enough for.
    let slow = "slow=simulated:?service-time=5s";
    let grid =
        ["--target", FAST, "--target", slow, "--time", "0.1", "--forced-shutdown", "0.1", "--until-precision", "2"];
    let rest = ["--repeat", "4", "--dir", folder.to_str().unwrap()];
    let output = oltpbench(&with(&[&grid, &rest])).assert().get_output().clone();
    let stderr = text(&output.stderr);
    assert!(stderr.contains("Note: no repeats are added for --until-precision, since slow has no run"), "{stderr}");
    assert_eq!(of_runs(&folder, "state").len(), 8);
}

#[test]
fn a_workload_file_that_was_changed_is_another_experiment() {
    let parent = tempfile::tempdir().unwrap();
    let (folder, base, file) = (new_folder(&parent), parent.path().join("base.yaml"), parent.path().join("own.yaml"));
    let statement = "{do_it: {kind: read, sql: \"SELECT 1\"}}";
    let text = format!("description: base\nstatements: {statement}\ntransaction: {{steps: [{{execute: do_it}}]}}\n");
    std::fs::write(&base, &text).unwrap();
    std::fs::write(&file, "description: own\nextends: ./base.yaml\n").unwrap();
    let (dir, file) = (folder.to_str().unwrap(), file.to_str().unwrap());
    let run = ["run", "--workload", file, "--target", FAST, "--events", "5", "--time", "0"];
    succeed(&[&run[..], &["--dir", dir]].concat());
    std::fs::write(&base, text.replace("SELECT 1", "SELECT 2")).unwrap();
    let resume = [&run[..], &["--resume", dir, "--repeat", "2"]].concat();
    let message = fail(2, &resume);
    assert!(message.contains("the workload file was changed") && message.lines().count() == 1, "{message}");
    // An experiment that did not note the text is gone on with, and it says so.
    let design = folder.join("experiment.json");
    let mut experiment = json(&design);
    experiment["design"]["spec"].as_object_mut().unwrap().remove("workload_sha256").unwrap();
    std::fs::write(&design, experiment.to_string()).unwrap();
    let output = oltpbench(&resume).assert().success().get_output().clone();
    assert!(support::program::text(&output.stderr).contains("from before it noted the workload's text"));
}

#[test]
fn what_makes_no_experiment_is_refused_before_anything_is_measured() {
    let parent = tempfile::tempdir().unwrap();
    let folder = new_folder(&parent);
    let full = parent.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("notes.txt"), "mine").unwrap();
    let (dir, full) = (folder.to_str().unwrap(), full.to_str().unwrap());
    for (arguments, part) in [
        (&["--target", FAST, "--target", "FAST=simulated:"][..], "--target has the name fast more than once"),
        (&["--url", "simulated:", "--threads", "1,1"], "--threads has 1 more than once"),
        (&["--url", "simulated:", "--rate", "5,5.0"], "--rate has 5 more than once"),
        (&["--target", FAST, "--json", "x.json"], "--json is for a single run"),
        (&["--target", FAST, "--time", "0"], "--time or --events"),
        (&["--target", FAST, "--url", "simulated:"], "--url"),
        (&["--target", "mysql://u:hunter2@h/d"], "NAME=URL"),
        (&["--target", "mysql:u:hunter2@h/d"], "NAME=URL"),
        (&["--target", "mysql://u:hunter2 and more@h/d"], "NAME=URL"),
        (&["--target", "mysql://u:hunter2@h/d?socket=/s"], "NAME=URL"),
        (&["--target", "a/b=simulated:"], "up to 20 letters"),
        (&["--target", "=simulated:"], "up to 20 letters"),
        (&["--target", "a=mysql://u:hunter2@h:port/d"], "--target a: the target URL is not a URL"),
        (&["--target", FAST, "--password-file", "/dev/null"], "only for mysql:// targets"),
        (&["--target", FAST, "--tag", "region"], "KEY=VALUE"),
        (&["--target", FAST, "--tag", "a=1", "--tag", "a=2"], "--tag has a key more than once"),
        (&["--target", FAST, "--repeat", "0"], "1..=1000"),
        (&["--target", FAST, "--until-precision", "0.1%"], "from 0.2 to below 100"),
        (&["--target", FAST, "--until-precision", "2%", "--repeat", "3"], "needs --repeat 4 or more"),
        (&["--target", FAST, "--until-precision", "2%", "--max-repeats", "9"], "less than the 10 repeats"),
        (&["--target", FAST, "--max-repeats", "9"], "--until-precision"),
        (&["--target", FAST, "--dir", full], "is not empty"),
        (&["--target", FAST, "--resume", full], "is no design of an experiment"),
        (&["--target", FAST, "--resume", dir], "cannot be opened"),
        (&["--target", FAST, "--resume", dir, "--dir", dir], "cannot be used with"),
        (&["--target", FAST, "--rate", "0,5", "--rate-steps", "5:1s"], "exclude each other"),
    ] {
        let message = fail(2, &with(&[arguments]));
        assert!(message.contains(part), "{part}: {message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
    // A port below those for clients that nothing listens on.
    let unreachable = ["--target", FAST, "--target", "gone=mysql://u:hunter2@127.0.0.1:1/d", "--dir", dir];
    let message = fail(1, &with(&[&unreachable]));
    assert!(message.contains("target gone: ") && !message.contains("hunter2"), "{message}");
    assert!(!folder.exists());
}

#[test]
fn sqlite_files_are_targets_side_by_side() {
    let parent = tempfile::tempdir().unwrap();
    let folder = new_folder(&parent);
    let small = ["--tables", "2", "--table-size", "500"];
    let urls = ["a", "b"].map(|name| format!("sqlite:{}", parent.path().join(name).display()));
    for url in &urls {
        succeed(&[&["prepare", "--url", url], &small[..]].concat());
    }
    let named = [format!("a={}", urls[0]), format!("b={}", urls[1])];
    let grid = ["run", "--mode", "read-write", "--target", &named[0], "--target", &named[1], "--threads", "1,2"];
    let rest = ["--events", "50", "--time", "0", "--dir", folder.to_str().unwrap()];
    let output = succeed(&[&grid[..], &small, &rest].concat());
    assert!(output.contains("Time needed: unknown"), "{output}");
    let documents = documents(&folder);
    assert_eq!(documents.len(), 4);
    for (_, run) in &documents {
        assert_eq!(count(run, "totals.transactions"), 50);
        let url = if run["cell"]["target"] == "a" { &urls[0] } else { &urls[1] };
        assert_eq!(run["target"]["url"], url.as_str());
    }
}

#[test]
fn two_names_for_one_server_are_measured_alike_and_no_password_is_written() {
    let Some(server) = Server::mariadb(&[]) else { return };
    server.sql("CREATE USER bench IDENTIFIED BY 'hunter2'; GRANT ALL ON sbtest.* TO bench");
    let parent = tempfile::tempdir().unwrap();
    let (folder, password) = (new_folder(&parent), parent.path().join("password"));
    std::fs::write(&password, "hunter2\n").unwrap();
    let small = ["--tables", "2", "--table-size", "500"];
    succeed(&[&["prepare", "--url", &server.url()], &small[..]].concat());
    let in_url = format!("one=mysql://bench:hunter2@127.0.0.1:{}/sbtest", server.port());
    let other = format!("two=mysql://bench@127.0.0.1:{}/sbtest", server.port());
    let dir = folder.to_str().unwrap();
    // A server has room for so many connections only; the largest runs are refused by it, and the others made.
    server.sql("SET GLOBAL max_connections = 12");
    let grid = ["run", "--target", &in_url, "--target", &other, "--threads", "1,4,64", "--events", "200"];
    let rest = ["--time", "0", "--password-file", password.to_str().unwrap(), "--dir", dir];
    let output = oltpbench(&[&grid[..], &small, &rest].concat()).assert().code(1).get_output().clone();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(said.contains("2 of 6 runs failed") && said.contains("64 threads, repeat 1: "), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    let documents = documents(&folder);
    assert_eq!(documents.len(), 4);
    for (_, run) in &documents {
        assert_eq!(count(run, "totals.reads"), 14 * 200);
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        assert!(!std::fs::read_to_string(&path).unwrap().contains("hunter2"), "{}", path.display());
    }
}
