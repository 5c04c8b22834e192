//! Runs held against runs: how often a verdict is wrong and how often a difference is found, on made-up experiments whose
//! truth is known; what is refused; and real servers. docs/comparing.md quotes what this prints:
//!
//!     cargo test --test comparing -- --nocapture --test-threads 1

mod support;

use std::path::Path;

use oltpbench::compare::{self, Comparison, Figure, Options, Pair, Verdict};
use oltpbench::metrics::Histogram;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Poisson, StandardNormal, StudentT};
use serde_json::{Value, json};
use support::Server;
use support::program::{OutputAssertExt, fail, oltpbench, report, succeed, text};
use support::proxy::{Proxy, installed};

const EXPERIMENTS: u64 = 400;
/// Runs of 20 s, in which a moment is 0.1 s.
const MOMENTS: u32 = 200;
const MOMENT_S: f64 = 0.1;
/// How much of a moment's deviation is left in the next one, and how large it is.
const MEMORY: f64 = 0.9;
const OF_MOMENT: f64 = 0.04;
/// Latencies that are recorded in a moment, and how far each is from the moment's.
const EACH: usize = 10;
const OF_LATENCY: f64 = 0.5;
/// Deviation of what all runs of a block have in common, and of what each run has by itself.
const OF_BLOCK: f64 = 0.03;
const OF_RUN: f64 = 0.01;

fn normal(random: &mut StdRng) -> f64 {
    StandardNormal.sample(random)
}

/// What a run has of its own beside its moments, as a logarithm of its rate; `is_first` of its block.
type OfRun = fn(random: &mut StdRng, is_first: bool) -> f64;

fn of_normal(random: &mut StdRng, _is_first: bool) -> f64 {
    OF_RUN * normal(random)
}

/// Now and then far out, as Student's t with 2 degrees of freedom, which has no variance.
fn of_outliers(random: &mut StdRng, _is_first: bool) -> f64 {
    OF_RUN * StudentT::new(2.0).unwrap().sample(random)
}

/// One run of five meets something that costs it a tenth.
fn of_mishaps(random: &mut StdRng, _is_first: bool) -> f64 {
    of_normal(random, false) - if random.random_bool(0.2) { 0.1 } else { 0.0 }
}

/// The first run of a block is slower, as after a pause.
fn of_order(random: &mut StdRng, is_first: bool) -> f64 {
    of_normal(random, is_first) - if is_first { 0.05 } else { 0.0 }
}

/// Makes documents of runs that nobody made.
struct Maker {
    template: Value,
    histogram: Histogram,
}

impl Maker {
    fn new() -> Maker {
        let arguments = ["run", "--mode", "point-select", "--url", "simulated:", "--events", "1", "--time", "20"];
        let mut template = report(&arguments);
        for emptied in ["series", "statements", "findings"] {
            template[emptied] = json!([]);
        }
        Maker { template, histogram: Histogram::default() }
    }

    /// A run at a rate that is `log` of the usual one away, with latencies that are as much away to the other side.
    fn run(&mut self, random: &mut StdRng, log: f64) -> Value {
        self.histogram.reset();
        let mut moment = normal(random);
        let mut transactions = 0.0;
        for _ in 0..MOMENTS {
            moment = MEMORY * moment + (1.0 - MEMORY * MEMORY).sqrt() * normal(random);
            let at = log + OF_MOMENT * moment;
            transactions += Poisson::new(1000.0 * MOMENT_S * at.exp()).unwrap().sample(random);
            for _ in 0..EACH {
                self.histogram.record((1e6 * (OF_LATENCY * normal(random) - at).exp()) as u64);
            }
        }
        self.of(transactions / (f64::from(MOMENTS) * MOMENT_S))
    }

    /// A run of a rate, whose latencies are those of the histogram.
    fn of(&self, tps: f64) -> Value {
        let mut run = self.template.clone();
        run["totals"]["transactions"] = json!(1000);
        for (name, statements) in [("tps", 1.0), ("rps", 14.0), ("qps", 16.0)] {
            run["totals"][name] = json!(tps * statements);
        }
        let latency = &mut run["latency_us"]["response"];
        latency["count"] = json!(self.histogram.len());
        latency["mean"] = json!(self.histogram.mean_us());
        for (name, percentile) in [("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("p999", 99.9)] {
            latency[name] = json!(self.histogram.percentile_us(percentile));
        }
        run
    }
}

fn save(folder: &Path, name: &str, run: &Value) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(name), run.to_string()).unwrap();
}

/// Saves a run as one of an experiment.
fn save_in_block(folder: &Path, target: &str, block: u32, mut run: Value) {
    run["cell"] = json!({"target": target, "block": block, "order": 1});
    save(folder, &format!("b{block:02}-{target}.json"), &run);
}

fn compared(paths: &[&Path]) -> Comparison {
    let paths: Vec<_> = paths.iter().map(|path| path.to_path_buf()).collect();
    compare::compare(&paths, Options::default()).unwrap()
}

/// An experiment of two targets, of which the second one's rate is `log` away, in blocks; or of two folders.
fn experiment(maker: &mut Maker, seed: u64, blocks: u32, is_paired: bool, of_run: OfRun, log: f64) -> Pair {
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    for block in 1..=blocks {
        let of_block = if is_paired { OF_BLOCK * normal(&mut random) } else { 0.0 };
        let first = random.random_range(0..2);
        for (at, target) in ["a", "b"].into_iter().enumerate() {
            let by = of_block + of_run(&mut random, at == first) + if at == 1 { log } else { 0.0 };
            let run = maker.run(&mut random, by);
            match is_paired {
                true => save_in_block(folder.path(), target, block, run),
                false => save(&folder.path().join(target), &format!("{block}.json"), &run),
            }
        }
    }
    let mut comparison = match is_paired {
        true => compared(&[folder.path()]),
        false => compared(&[&folder.path().join("a"), &folder.path().join("b")]),
    };
    // Rates are one, and there are too few latencies for p99.9.
    assert_eq!(comparison.correction.comparisons, 5);
    comparison.pairs.pop().unwrap()
}

fn verdict(pair: &Pair, figure: Figure) -> Verdict {
    pair.figures.iter().find(|compared| compared.figure == figure).unwrap().verdict
}

/// In how many of a hundred experiments a verdict is of any figure.
fn wrong(blocks: u32, is_paired: bool, of_run: OfRun) -> f64 {
    let mut maker = Maker::new();
    let is_wrong = |seed: &u64| {
        let pair = experiment(&mut maker, *seed, blocks, is_paired, of_run, 0.0);
        pair.figures.iter().any(|compared| matches!(compared.verdict, Verdict::Better | Verdict::Worse))
    };
    100.0 * (0..EXPERIMENTS).filter(is_wrong).count() as f64 / EXPERIMENTS as f64
}

#[test]
fn without_a_difference_at_most_5_of_100_experiments_show_one() {
    let noises: [(&str, OfRun); 4] =
        [("normal", of_normal), ("outliers", of_outliers), ("mishaps", of_mishaps), ("order", of_order)];
    for (what, of_run) in noises {
        for (blocks, is_paired) in [(3, true), (5, true), (8, true), (10, true), (5, false), (10, false)] {
            let percentage = wrong(blocks, is_paired, of_run);
            let how = if is_paired { "pairs" } else { "runs a side" };
            println!("wrong verdicts, {what}, {blocks} {how}: {percentage:.1} %");
            assert!(percentage <= 5.0, "{what}, {blocks} {how}: {percentage}");
        }
    }
}

#[test]
fn a_difference_of_5_percent_is_found_with_10_repeats() {
    let mut maker = Maker::new();
    for (blocks, is_paired, least) in [(5, true, 0.0), (8, true, 0.0), (10, true, 90.0), (10, false, 90.0)] {
        let mut found = 0;
        for seed in 0..EXPERIMENTS {
            let pair = experiment(&mut maker, seed, blocks, is_paired, of_normal, 0.95f64.ln());
            assert_ne!(verdict(&pair, Figure::Tps), Verdict::Better, "{seed}");
            found += u64::from(verdict(&pair, Figure::Tps) == Verdict::Worse);
        }
        let percentage = 100.0 * found as f64 / EXPERIMENTS as f64;
        println!("5 % found, {blocks} {}: {percentage:.1} %", if is_paired { "pairs" } else { "runs a side" });
        assert!(percentage >= least, "{percentage}");
    }
}
