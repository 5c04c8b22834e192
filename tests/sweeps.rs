//! Saved runs by threads or rate: what is in the table, where the knee is, the law that is fitted, and what it costs. Most
//! runs are documents that nobody measured, so that the truth is known; one experiment is of the simulated target.

mod support;

use std::path::Path;

use oltpbench::metrics::Histogram;
use oltpbench::report::Latency;
use serde_json::{Value, json};
use support::program::{OutputAssertExt, fail, number, oltpbench, report, succeed, text};

const WINDOW_S: f64 = 20.0;

/// A run that all others are made of.
fn template() -> Value {
    let mut run = report(&["run", "--mode", "point-select", "--url", "simulated:", "--events", "1", "--time", "20"]);
    run["started_at"] = json!("2026-01-01T00:00:00.000Z");
    for emptied in ["series", "statements", "findings"] {
        run[emptied] = json!([]);
    }
    run["spec"]["events"] = Value::Null;
    run["confidence"]["tps"] = Value::Null;
    run["totals"]["elapsed_s"] = json!(WINDOW_S);
    run
}

/// A run of a closed loop at a rate that never varied, whose response times are from half of the mean to one and a half.
fn run(template: &Value, threads: u32, tps: f64) -> Value {
    let mut run = template.clone();
    run["spec"]["threads"] = json!(threads);
    run["totals"]["tps"] = json!(tps);
    run["totals"]["transactions"] = json!((tps * WINDOW_S) as u64);
    set_latencies(&mut run, f64::from(threads) / tps, 3000);
    run
}

fn set_latencies(run: &mut Value, mean_s: f64, count: u32) {
    let mut histogram = Histogram::default();
    for at in 0..count {
        histogram.record((1e9 * mean_s * (0.5 + (f64::from(at) + 0.5) / f64::from(count))) as u64);
    }
    let latency = serde_json::to_value(Latency::new(&histogram)).unwrap();
    run["latency_us"]["response"] = latency.clone();
    run["latency_us"]["service"] = latency;
}

fn at_rate(mut run: Value, rate: f64) -> Value {
    run["spec"]["open_loop"] = json!({"arrival": "poisson", "steps": [{"start_s": 0.0, "rate": rate}],
        "overload": "queue", "max_lateness_s": null});
    run
}

fn with_finding(mut run: Value, code: &str) -> Value {
    run["findings"] = json!([{"code": code, "message": "m", "advice": "a"}]);
    run
}

/// A folder of an experiment's runs, each with its target; those of the same cell are repeats.
fn folder(runs: impl IntoIterator<Item = (&'static str, Value)>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (order, (target, mut run)) in (1..).zip(runs) {
        run["cell"] = json!({"target": target, "block": order, "order": order});
        std::fs::write(folder.path().join(format!("{order:03}.json")), run.to_string()).unwrap();
    }
    folder
}

/// Runs at the rates of the Universal Scalability Law.
fn of_law(template: &Value, [lambda, sigma, kappa]: [f64; 3], threads: &[u32]) -> Vec<(&'static str, Value)> {
    let rate = |n: f64| lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
    threads.iter().map(|&threads| ("db", run(template, threads, rate(f64::from(threads))))).collect()
}

/// Text and document of a command that must succeed.
#[track_caller]
fn sweep(folder: &Path, arguments: &[&str]) -> (String, Value) {
    let aside = tempfile::tempdir().unwrap();
    let json = aside.path().join("sweeps.json");
    let always = ["sweep", folder.to_str().unwrap(), "--json", json.to_str().unwrap()];
    let output = oltpbench(&[&always, arguments].concat()).assert().success().get_output().clone();
    let text = text(&output.stdout);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    (text, serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap())
}

/// A text without its ends of lines.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const DOUBLING: [u32; 6] = [1, 2, 4, 8, 16, 32];

#[test]
fn a_target_has_a_table_its_peak_its_knee_its_law_and_its_cost() {
    let template = template();
    let law = [500.0, 0.05, 0.002];
    let repeats = [0.99, 1.01].map(|by| of_law(&template, [by * law[0], law[1], law[2]], &DOUBLING));
    let folder = folder(repeats.concat());
    let (text, document) = sweep(folder.path(), &["--slo", "p99=5ms", "--price", "db=4.64/h"]);
    insta::assert_snapshot!(text, @r"
    db: oltp_point_select by threads, closed loop
        simulated:?service-time=0s, simulated

    threads runs       tps      +-      p50      p95      p99   in use efficiency
          1    2     500.0    14 %    2.000    2.901    2.981    1.00       100 %
          2    2     948.7    14 %    2.108    3.058    3.141    2.00        95 %
          4    2     1,703    14 %    2.348    3.406    3.500    4.00        85 %
          8    2     2,736    14 %    2.924    4.241    4.360    8.00        68 %
         16    2     3,587    14 %    4.460    6.469    6.647   16.00        45 %
         32    2     3,529    14 %    9.068    13.15    13.51   32.00        22 %

    Peak: 3,587 tps at 16 threads, p99 6.647 ms.
    Knee, the most with p99 of at most 5 ms: 2,736 tps at 8 threads, p99 4.360 ms
        (4.317 to 4.403 in 2 runs). Not so: too long at threads 16, 32.
    Universal Scalability Law: lambda 500.0 tps, sigma 0.05000, kappa 0.002000; at
        most 0 % off, at 4 threads. Its peak is 3,699 tps at 22 threads.
    Cost at 4.640 dollars an hour:
                      tps  dollars per million tps per dollar an hour
        peak        3,587               0.3593                  773.1
        knee        2,736               0.4711                  589.6

    tps and latencies of several runs are their geometric means. +- is the 95 %
    interval of tps, by the repeats or, of a single run, by the run itself. p50, p95
    and p99 are response times in ms; in use are connections by Little's law.
    ");
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["slo"], json!({"percentile": 99.0, "limit_us": 5000.0}));
    let sweep = &document["sweeps"][0];
    let fit = &sweep["scalability"]["fit"];
    // The geometric mean of two rates at 1 % from the law.
    for (name, truth) in ["lambda", "sigma", "kappa"].into_iter().zip([law[0] * f64::sqrt(0.99 * 1.01), law[1], law[2]])
    {
        assert!((number(fit, name) / truth - 1.0).abs() < 1e-6, "{name}: {fit}");
    }
    // N = sqrt((1 - sigma) / kappa)
    assert!((number(fit, "peak_threads") - f64::sqrt(0.95 / 0.002)).abs() < 1e-3, "{fit}");
    assert_eq!((&fit["is_extrapolated"], &fit["is_bad"]), (&json!(false), &json!(false)));
    let (peak, knee) = (&sweep["peak"], &sweep["knee"]);
    assert_eq!((&peak["cell"], &knee["cell"]), (&json!(4), &json!(3)));
    for best in [peak, knee] {
        let tps = number(&sweep["cells"][best["cell"].as_u64().unwrap() as usize], "tps.value");
        let an_hour = tps * 3600.0;
        let dollars = number(best, "cost.dollars_per_million_transactions");
        assert!((dollars * an_hour / 1e6 - 4.64).abs() < 1e-9, "{dollars}");
        assert!((number(best, "cost.tps_per_dollar_per_hour") * 4.64 - tps).abs() < 1e-9);
    }
    // A month has 730 hours.
    let (_, by_month) = self::sweep(folder.path(), &["--price", "db=3387.2/month"]);
    assert!((number(&by_month["sweeps"][0], "dollars_per_hour") - 4.64).abs() < 1e-12);
}

#[test]
fn an_open_loop_is_swept_over_rates_each_number_of_threads_by_itself() {
    let template = template();
    let mut overloaded = with_finding(at_rate(run(&template, 8, 1900.0), 3000.0), "schedule-missed");
    // It waits a second before it is sent, of which a connection knows nothing.
    set_latencies(&mut overloaded, 1.0, 3000);
    overloaded["latency_us"]["service"] = run(&template, 8, 1900.0)["latency_us"]["service"].clone();
    let mut half_used = at_rate(run(&template, 8, 999.0), 1000.0);
    set_latencies(&mut half_used, 4.0 / 999.0, 3000);
    let mut changing = at_rate(run(&template, 8, 999.0), 1000.0);
    changing["spec"]["open_loop"]["steps"] = json!([{"start_s": 0.0, "rate": 1.0}, {"start_s": 9.0, "rate": 2.0}]);
    let closed = run(&template, 8, 2000.0);
    let other_threads = at_rate(run(&template, 4, 999.0), 1000.0);
    let runs = [overloaded, half_used, changing, closed, other_threads];
    let folder = folder(runs.map(|run| ("db", run)));
    let (text, document) = sweep(folder.path(), &["--slo", "p95=50ms"]);
    insta::assert_snapshot!(text, @r"
    db: oltp_point_select by rate, open loop with 8 threads
        simulated:?service-time=0s, simulated
        findings, of 2 runs: schedule-missed in 1

       rate runs       tps      +-      p50      p95      p99   in use   of asked
       1000    1     999.0       -    4.004    5.808    5.968    4.00       100 %
       3000    1     1,900       -    1,000    1,450    1,490    8.00        63 %

    Peak: 1,900 tps at rate 3000, p99 1,490 ms. All its connections were in use, so
        more --threads may do more.
    Knee, the most with p95 of at most 50 ms: 999.0 tps at rate 1000, p95 5.808 ms.
        Not so: too long at rate 3000.

    db: oltp_point_select by threads, closed loop
        simulated:?service-time=0s, simulated

    threads runs       tps      +-      p50      p95      p99   in use efficiency
          8    1     2,000       -    4.000    5.800    5.960    8.00       100 %

    Peak: 2,000 tps at 8 threads, p99 5.960 ms.
    Knee, the most with p95 of at most 50 ms: 2,000 tps at 8 threads, p95 5.800 ms.
    Universal Scalability Law: not fitted: it has three parameters, so it takes 4
        numbers of threads or more, not 1.

    db: oltp_point_select by rate, open loop with 4 threads
        simulated:?service-time=0s, simulated

       rate runs       tps      +-      p50      p95      p99   in use   of asked
       1000    1     999.0       -    4.004    5.808    5.968    4.00       100 %

    Peak: 999.0 tps at rate 1000, p99 5.968 ms. All its connections were in use, so
        more --threads may do more.
    Knee, the most with p95 of at most 50 ms: 999.0 tps at rate 1000, p95 5.808 ms.

    Left out:
        003.json (its rate changes in the course of the run)

    tps and latencies of several runs are their geometric means. +- is the 95 %
    interval of tps, by the repeats or, of a single run, by the run itself. p50, p95
    and p99 are response times in ms; in use are connections by Little's law.
    ");
    assert_eq!(document["sweeps"].as_array().unwrap().len(), 3);
    assert_eq!(document["sweeps"][0]["scalability"], Value::Null);
}

#[test]
fn a_cell_keeps_an_objective_only_where_its_latencies_tell() {
    let template = template();
    let outcome = |run: Value, slo: &str| {
        let (text, document) = sweep(folder([("db", run)]).path(), &["--slo", slo]);
        let sweep = &document["sweeps"][0];
        let held = &sweep["cells"][0]["slo"];
        assert_eq!(sweep["knee"].is_null(), held["outcome"] != "kept", "{text}");
        (held["outcome"].as_str().unwrap().to_string(), held["reason"].as_str().unwrap_or_default().to_string())
    };
    let said = |outcome: &str, reason: &str| (outcome.to_string(), reason.to_string());
    let ten_ms = || run(&template, 10, 1000.0);
    assert_eq!(outcome(ten_ms(), "p99=20ms"), said("kept", ""));
    assert_eq!(outcome(ten_ms(), "p99=12ms"), said("missed", ""));
    assert_eq!(outcome(ten_ms(), "p50=10100us"), said("kept", ""));
    assert_eq!(outcome(ten_ms(), "p97.5=14ms"), said("missed", ""));
    // 3000 latencies have 3 beyond their 99.9th percentile.
    assert_eq!(outcome(ten_ms(), "p99.9=1s"), said("cannot_tell", "too few latencies beyond it"));
    let cut_off = || with_finding(ten_ms(), "latency-cut-off");
    assert_eq!(outcome(cut_off(), "p99=20ms"), said("cannot_tell", "the longest latencies were cut off"));
    assert_eq!(outcome(cut_off(), "p99=12ms"), said("missed", ""));
    let shed = at_rate(with_finding(ten_ms(), "transactions-shed"), 1000.0);
    assert_eq!(outcome(shed, "p99=20ms"), said("cannot_tell", "transactions were skipped"));
    let mut without = at_rate(ten_ms(), 1000.0);
    set_latencies(&mut without, 0.01, 0);
    assert_eq!(outcome(without, "p99=20ms"), said("cannot_tell", "too few latencies beyond it"));
}

#[test]
fn the_objective_is_about_the_mean_of_the_repeats_percentiles() {
    let template = template();
    // Their 99th percentiles are 14.9 and 18.6 ms.
    let repeats = || [("db", run(&template, 10, 1000.0)), ("db", run(&template, 10, 800.0))];
    let (text, document) = sweep(folder(repeats()).path(), &["--slo", "p99=17ms"]);
    assert_eq!(document["sweeps"][0]["cells"][0]["slo"]["outcome"], "kept", "{text}");
    assert!(unwrapped(&text).contains("p99 16.66 ms (14.90 to 18.63 in 2 runs)"), "{text}");
    let (text, _) = sweep(folder(repeats()).path(), &["--slo", "p99=16ms"]);
    assert!(
        unwrapped(&text).contains("none of what was measured is known to keep it. Not so: too long at threads 10."),
        "{text}"
    );
}

#[test]
fn connections_in_use_that_are_not_the_threads_are_marked_and_explained() {
    let template = template();
    let shorter = |by: f64| {
        let mut run = run(&template, 10, 1000.0);
        set_latencies(&mut run, by * 0.01, 3000);
        run
    };
    let mut failing = shorter(0.8);
    failing["totals"]["given_up_s"] = json!(0.2 * 10.0 * WINDOW_S);
    let mut counted = shorter(0.5);
    counted["spec"]["events"] = json!(1000);
    for (run, reason) in [
        (shorter(0.96), None),
        (shorter(1.04), None),
        (failing, Some("* 8.00 in use at 10 threads: failed transactions, which are in no latency, used 2.00.")),
        (with_finding(shorter(0.5), "latency-cut-off"), Some("much had not ended when the window closed")),
        (with_finding(shorter(0.5), "connections-lost"), Some("connections were lost")),
        (with_finding(shorter(0.5), "client-saturated"), Some("this machine had no CPU left")),
        (counted, Some("--events were used up before the end")),
        (shorter(0.9), Some("* 9.00 in use at 10 threads: no finding of the runs says why")),
        (shorter(1.2), Some("long transactions that began before the window ended in it")),
    ] {
        let (text, _) = sweep(folder([("db", run)]).path(), &[]);
        match reason {
            Some(reason) => assert!(unwrapped(&text).contains(reason) && text.contains("00* "), "{reason}: {text}"),
            None => assert!(!text.contains('*'), "{text}"),
        }
    }
}

#[test]
fn a_law_says_where_it_is_not_to_be_believed() {
    let template = template();
    let said = |law, threads: &[u32]| unwrapped(&sweep(folder(of_law(&template, law, threads)).path(), &[]).0);
    let few = said([500.0, 0.1, 0.001], &DOUBLING[..3]);
    assert!(
        few.contains("not fitted: it has three parameters, so it takes 4 numbers of threads or more, not 3."),
        "{few}"
    );
    let beyond = said([500.0, 0.1, 0.0001], &DOUBLING);
    assert!(beyond.contains("at 95 threads. Warning: the peak is not within what was measured"), "{beyond}");
    let below = said([500.0, 0.1, 0.1], &[8, 16, 32, 64]);
    assert!(below.contains("at 3.0 threads. Warning: the peak is not within what was measured"), "{below}");
    let saturated = said([500.0, 0.1, 0.0], &DOUBLING);
    assert!(saturated.contains("It has no peak: kappa is 0."), "{saturated}");
    let jagged =
        [(1, 100.0), (2, 200.0), (4, 150.0), (8, 400.0)].map(|(threads, tps)| ("db", run(&template, threads, tps)));
    let jagged = unwrapped(&sweep(folder(jagged).path(), &[]).0);
    assert!(jagged.contains("Warning: tps do not follow the law; do not use its peak."), "{jagged}");
    let falling =
        [(8, 1000.0), (16, 100.0), (32, 10.0), (64, 1.0)].map(|(threads, tps)| ("db", run(&template, threads, tps)));
    let falling = unwrapped(&sweep(folder(falling).path(), &[]).0);
    assert!(falling.contains("not fitted: tps falls with the number of threads faster than it can"), "{falling}");
}

#[test]
fn runs_of_other_set_ups_are_sweeps_of_their_own_and_others_are_left_out_by_name() {
    let template = template();
    let mut tuned = run(&template, 2, 900.0);
    tuned["target"]["variables"] = json!({"sync_binlog": "0"});
    let mut interrupted = run(&template, 4, 900.0);
    interrupted["status"] = json!("interrupted");
    let mut seeded = run(&template, 1, 510.0);
    seeded["spec"]["rand_seed"] = json!(77);
    let usual = run(&template, 1, 500.0);
    let runs = [("b", usual.clone()), ("b", tuned), ("b", seeded), ("b", interrupted), ("a", usual)];
    let (text, document) = sweep(folder(runs).path(), &[]);
    let named: Vec<(&str, Option<u64>, u64)> = document["sweeps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|sweep| {
            (sweep["target"].as_str().unwrap(), sweep["number"].as_u64(), sweep["cells"][0]["runs"].as_u64().unwrap())
        })
        .collect();
    // In the order of the files, which is that of the experiment.
    assert_eq!(named, [("b", Some(1), 2), ("b", Some(2), 1), ("a", None, 1)]);
    assert!(text.contains("b (2): oltp_point_select by threads, closed loop\n"), "{text}");
    assert!(text.contains("    sync_binlog: none, and 0 in (2)\n"), "{text}");
    assert!(text.contains("Left out:\n    004.json (interrupted)\n"), "{text}");
}

#[test]
fn wrong_wishes_are_one_line_and_exit_code_2() {
    let template = template();
    let folder = folder([("db", run(&template, 1, 500.0)), ("proxy", run(&template, 1, 400.0))]);
    let path = folder.path().to_str().unwrap();
    let first = folder.path().join("001.json");
    for (arguments, words) in [
        (&["--price", "dc=1/h"][..], "no target is called `dc`, which has a price; there is db, proxy"),
        (&["--price", "db=1/h", "--price", "db=2/h"], "target `db` has two prices"),
        (&["--price", "db=0/h"], "a price above 0"),
        (&["--price", "db=-1/h"], "a price above 0"),
        (&["--price", "db=nan/h"], "a price above 0"),
        (&["--price", "db=inf/h"], "a price above 0"),
        (&["--price", "db=1e-320/h"], "a price above 0"),
        (&["--price", "db=1"], "such as direct=4.64/h"),
        (&["--price", "db=1/year"], "such as direct=4.64/h"),
        (&["--price", "1/h"], "such as direct=4.64/h"),
        (&["--slo", "20ms"], "such as p99=20ms"),
        (&["--slo", "p99=20"], "such as p99=20ms"),
        (&["--slo", "p100=20ms"], "such as p99=20ms"),
        (&["--slo", "p999=20ms"], "such as p99=20ms"),
        (&["--slo", "p99=0ms"], "such as p99=20ms"),
        (&["--slo", "pNaN=1ms"], "such as p99=20ms"),
        (&[first.to_str().unwrap()], "001.json is given twice"),
    ] {
        let message = fail(2, &[&["sweep", path], arguments].concat());
        assert!(message.contains(words) && message.lines().count() == 1, "{arguments:?}: {message}");
    }
    assert!(fail(2, &["sweep"]).contains("FILE|FOLDER"));
    let empty = tempfile::tempdir().unwrap();
    assert!(fail(1, &["sweep", empty.path().to_str().unwrap()]).contains("holds no report"));
    let mut interrupted = run(&template, 1, 500.0);
    interrupted["status"] = json!("interrupted");
    let file = empty.path().join("run.json");
    std::fs::write(&file, interrupted.to_string()).unwrap();
    let message = fail(2, &["sweep", file.to_str().unwrap()]);
    assert!(message.contains("there is no run to show: run.json (interrupted)"), "{message}");
}

#[test]
fn an_experiment_that_was_measured_is_shown_as_its_reports_have_it() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("experiment");
    let dir = folder.to_str().unwrap();
    let grid = ["--target", "slow=simulated:?service-time=2ms", "--threads", "1,2,3,4", "--repeat", "2", "--dir", dir];
    succeed(&[&["run", "--mode", "point-select", "--time", "0.5"], &grid[..]].concat());
    let (_, document) = sweep(&folder, &["--slo", "p50=1h", "--price", "slow=1/h"]);
    let sweep = &document["sweeps"][0];
    assert_eq!((&sweep["target"], &sweep["varied"]), (&json!("slow"), &json!("threads")));
    let cells = sweep["cells"].as_array().unwrap();
    assert_eq!(cells.iter().map(|cell| cell["threads"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4]);
    for (at, cell) in (1..).zip(cells) {
        let of_run = |block: u32| {
            let file = folder.join(format!("b{block:02}-c{at:02}-slow-t{at}.json"));
            let run: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
            let mean_s = number(&run, "latency_us.service.mean") / 1e6;
            (number(&run, "totals.tps"), number(&run, "totals.tps") * mean_s)
        };
        let [first, second] = [of_run(1), of_run(2)];
        assert!((number(cell, "tps.value") / (first.0 * second.0).sqrt() - 1.0).abs() < 1e-9, "{cell}");
        assert!((number(cell, "connections_in_use") / ((first.1 + second.1) / 2.0) - 1.0).abs() < 1e-9, "{cell}");
        // More transactions than threads were never in flight, but for the ones that the window's start found.
        assert!(number(cell, "connections_in_use") < 1.5 * f64::from(at), "{cell}");
    }
    let most = cells.iter().map(|cell| number(cell, "tps.value")).fold(0.0, f64::max);
    let peak = sweep["peak"]["cell"].as_u64().unwrap() as usize;
    assert_eq!(number(&cells[peak], "tps.value"), most);
    assert_eq!(sweep["peak"]["cost"]["tps_per_dollar_per_hour"], most);
}
