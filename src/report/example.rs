//! A run for the tests of the views: what it measured is made up, and always the same.

use std::time::{Duration, SystemTime};

use super::saved::Saved;
use super::{
    AskedOpenLoop, Cell, Profile, ProfileChange, RandParameters, RunReport, Setup, Spec, Status, Step, Target,
    WorkloadOption,
};
use crate::metrics::client::Usage;
use crate::metrics::series::IntervalLatency;
use crate::metrics::{
    Bounds, Confidence, ErrorCount, ErrorKey, Histogram, Interval, Measurement, Now, OpenLoop, Outages,
    StatementLatency, Statements, Tally,
};

pub fn latencies(values_us: impl Iterator<Item = u64>) -> Histogram {
    let mut latencies = Histogram::default();
    values_us.for_each(|value_us| latencies.record(value_us * 1000));
    latencies
}

pub fn tally() -> Tally {
    let key = ErrorKey { code: 1213, sqlstate: "40001".into(), class: "retry", statement: "index_update".into() };
    let error = ErrorCount { count: 3, message: "Deadlock found when trying to get lock".into() };
    Tally {
        transactions: 1000,
        statements: Statements { reads: 14_000, writes: 4000, other: 2000 },
        failed_statements: Statements { reads: 28, writes: 3, other: 6 },
        retries: 3,
        failed_transactions: 2,
        lost_transactions: 0,
        ignored_transactions: 0,
        given_up_ns: 2_000_000_000,
        lost_connections: 0,
        reconnects: 0,
        prepares: 101,
        turned_to_text: 0,
        errors: [(key, error)].into(),
        due_inside: 0,
        shed: 0,
    }
}

fn confidence() -> Confidence {
    let bounds = |low, high| Some(Bounds { low, high });
    Confidence {
        blocks: 100,
        block_s: 0.1,
        tps: bounds(98.766, 101.234),
        rps: bounds(1777.8, 1822.2),
        qps: bounds(1975.3, 2024.7),
        mean_us: bounds(1488.0, 1512.0),
        percentiles_us: [bounds(1480.0, 1520.0), None, bounds(1940.0, 1962.0), bounds(1981.0, 2000.0), None],
        needs_s: None,
        unsteady: None,
    }
}

/// With two intervals, in the second of which nothing ended.
pub fn saved(path: &str) -> Saved {
    let mut measurement = measurement(10.0, latencies(1000..=2000));
    measurement.series = vec![interval(0, tally(), Some(&measurement.response)), interval(1, Tally::default(), None)];
    Saved { path: path.into(), report: fixed(report_of(spec(), &measurement)) }
}

/// The same with a schedule.
pub fn open_saved(path: &str) -> Saved {
    let (spec, measurement) = open_loop();
    Saved { path: path.into(), report: fixed(report_of(spec, &measurement)) }
}

/// The version is not that of the day, so that golden files outlast releases.
fn fixed(report: RunReport) -> RunReport {
    RunReport { oltpbench_version: "0.0.0".into(), ..report }
}

fn interval(second: u32, tally: Tally, response: Option<&Histogram>) -> Interval {
    Interval {
        start_s: f64::from(second),
        end_s: f64::from(second + 1),
        ended_at: SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(second) + 1),
        tally,
        response: response.and_then(IntervalLatency::of),
        now: Now { oldest: Some(Duration::from_micros(1234)), backlog: None },
        due: None,
    }
}

pub fn cell(target: &str, order: u32) -> Cell {
    Cell { target: target.into(), block: 1, order }
}

/// An open loop that was overloaded.
pub fn open_loop() -> (Spec, Measurement) {
    let open_loop = OpenLoop {
        mean_due: 12_000.0,
        due: 11_987,
        not_begun: 10_000,
        highest_backlog: 10_321,
        dropped: 12,
        service: latencies(900..=1899),
        lateness: latencies(1..=100),
    };
    let mut measurement = measurement(10.0, latencies(1000..=2000));
    measurement.window = Tally { due_inside: 1000, shed: 923, ..measurement.window };
    measurement.drained = Tally { due_inside: 64, ..measurement.drained };
    measurement.open_loop = Some(open_loop);
    let mut spec = spec();
    spec.open_loop = Some(AskedOpenLoop {
        arrival: "poisson".into(),
        steps: vec![Step { start_s: 0.0, rate: 1000.0 }, Step { start_s: 5.0, rate: 1400.0 }],
        overload: "shed".into(),
        max_lateness_s: Some(0.25),
    });
    (spec, measurement)
}

pub fn report() -> RunReport {
    report_over(10.0, latencies(1000..=2000))
}

/// Of 64 connections over a window.
pub fn report_over(elapsed_s: f64, response: Histogram) -> RunReport {
    report_of(spec(), &measurement(elapsed_s, response))
}

pub fn report_of(spec: Spec, measurement: &Measurement) -> RunReport {
    let target = Target {
        url: "mysql://sbtest@10.0.0.5:3306/sbtest".into(),
        version: "MariaDB 10.11".into(),
        variables: Default::default(),
        password_command: true,
        compression: Some("zstd".into()),
        init_sql: Vec::new(),
        statement_timeout_s: None,
    };
    let mut report = RunReport::new(Setup::new(spec, target), measurement, Status::Completed);
    (report.client.host, report.client.kernel) = ("client".into(), "Linux 6.1".into());
    report
}

pub fn spec() -> Spec {
    Spec {
        workload: "oltp_read_write".into(),
        workload_sha256: Some("0123456789abcdef".repeat(4)),
        profile: Some(Profile {
            name: "aurora-whitepaper".into(),
            changed: vec![ProfileChange { option: "threads".into(), value: "64".into(), profile_value: "1000".into() }],
        }),
        threads: 64,
        time_s: Some(10.0),
        events: None,
        open_loop: None,
        warmup_time_s: 0.0,
        interval_s: 1.0,
        detail: true,
        protocol: "text".into(),
        rand_type: "uniform".into(),
        rand_parameters: RandParameters {
            spec_iter: 12,
            spec_pct: 1,
            spec_res: 75,
            pareto_h: 0.2,
            zipfian_exp: 0.8,
            zipfian_scramble: true,
        },
        rand_seed: 42,
        max_retries: 10,
        ignore_errors: String::new(),
        max_error_rate: 0.01,
        forced_shutdown_s: 10.0,
        options: vec![WorkloadOption {
            name: "point_selects".into(),
            value: "10".into(),
            source: "command line".into(),
            of_prepare_only: false,
        }],
    }
}

pub fn measurement(elapsed_s: f64, response: Histogram) -> Measurement {
    Measurement {
        started_at: SystemTime::UNIX_EPOCH,
        elapsed_s,
        window: tally(),
        warmup: Tally::default(),
        drained: Tally { transactions: 64, ..Tally::default() },
        sent: 20_037,
        found_nothing: Vec::new(),
        unfinished: 0,
        away: 0,
        panicked: 0,
        response,
        open_loop: None,
        statements: vec![StatementLatency {
            name: "point_select".into(),
            kind: "read",
            latency: latencies(100..=199),
            first_part: None,
        }],
        prepares: latencies(300..=400),
        outages: Outages::default(),
        connects: latencies(2000..=2063),
        reconnects: Histogram::default(),
        encryption: Some("TLSv1.3 TLS_AES_256_GCM_SHA384".into()),
        series: Vec::new(),
        confidence: confidence(),
        client: Usage { cores: 4, cpu_s: 36.0, process_share: 0.9, machine_share: Some(0.95), steal_share: None },
        server: None,
        validation: None,
    }
}
