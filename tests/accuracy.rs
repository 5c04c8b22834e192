//! How often the intervals of a run's figures hold the true value, and how often a steady run is called unsteady: measured
//! on simulated runs whose true values are known. docs/accuracy.md and docs/experiments.md quote what this prints:
//!
//!     cargo test --test accuracy -- --nocapture --test-threads 1

use oltpbench::compare::estimate::LogRatio;
use oltpbench::compare::precision::Goal;
use oltpbench::metrics::blocks::{Block, Blocks};
use oltpbench::metrics::statistics::PERCENTILES;
use oltpbench::metrics::{Bounds, Confidence, Histogram, Statements, Tally, Window};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Poisson, StandardNormal};

const RUNS: u64 = 1000;
const SECOND: u64 = 1_000_000_000;
/// Latencies in a slice.
const EACH: u64 = 50;
/// Slices a second.
const SLICES: u64 = 10;

/// A first-order autoregression of variance 1.
struct Wandering {
    memory: f64,
    now: f64,
}

impl Wandering {
    /// `memory` is how much of it is left after one step, from 0 for none.
    fn new(memory: f64, random: &mut StdRng) -> Wandering {
        Wandering { memory, now: normal(random) }
    }

    fn step(&mut self, random: &mut StdRng) -> f64 {
        self.now = self.memory * self.now + (1.0 - self.memory * self.memory).sqrt() * normal(random);
        self.now
    }
}

fn normal(random: &mut StdRng) -> f64 {
    StandardNormal.sample(random)
}

/// The blocks of a window, of which a function fills each slice.
fn blocks(length_s: u64, mut slice: impl FnMut(u64, &mut Histogram) -> u64) -> Vec<Block> {
    let window = Window::new(0, length_s * SECOND, SECOND);
    let mut blocks = Blocks::new(&window);
    let mut response = Histogram::default();
    for number in 0..length_s * SLICES {
        let transactions = slice(number, &mut response);
        let statements = Statements { reads: 10 * transactions, writes: 4 * transactions, other: 2 * transactions };
        blocks.add(number, &Tally { transactions, statements, ..Tally::default() }, &response);
        if !response.is_empty() {
            response.reset();
        }
    }
    blocks.finish(&window)
}

/// A run whose transactions come at `rate(second)`, but for a wandering of a tenth.
fn run_at(seed: u64, length_s: u64, memory: f64, rate: impl Fn(f64) -> f64) -> Confidence {
    let mut random = StdRng::seed_from_u64(seed);
    let mut wandering = Wandering::new(memory, &mut random);
    let blocks = blocks(length_s, |slice, _| {
        let at = rate(slice as f64 / SLICES as f64) * (1.0 + 0.1 * wandering.step(&mut random)).max(0.0);
        Poisson::new(at / SLICES as f64).unwrap().sample(&mut random) as u64
    });
    Confidence::of(&blocks)
}

#[derive(Default)]
struct Coverage {
    given: u64,
    held: u64,
    width: f64,
}

impl Coverage {
    fn add(&mut self, bounds: Option<Bounds>, truth: f64) {
        if let Some(Bounds { low, high }) = bounds {
            self.given += 1;
            self.held += u64::from((low..=high).contains(&truth));
            self.width += (high - low) / 2.0 / truth;
        }
    }

    /// Percentage of the intervals that hold the true value.
    #[track_caller]
    fn judge(&self, what: &str, right: std::ops::RangeInclusive<f64>) {
        let percentage = 100.0 * self.held as f64 / self.given as f64;
        let width = 100.0 * self.width / self.given as f64;
        println!("{what:<52} {percentage:>5.1} % of {:>4}, mean half width {width:.2} %", self.given);
        assert!(right.contains(&percentage), "{what}: {percentage}");
    }
}

#[test]
fn intervals_of_rates_hold_the_true_rate_in_95_of_100_runs() {
    for (length_s, memory) in [(2, 0.0), (5, 0.0), (5, 0.5), (10, 0.0), (10, 0.7), (60, 0.0), (60, 0.95), (600, 0.99)] {
        let mut coverage = Coverage::default();
        for seed in 0..RUNS {
            let confidence = run_at(seed, length_s, memory, |_| 1000.0);
            coverage.add(confidence.tps, 1000.0);
            let (tps, qps) = (confidence.tps, confidence.qps);
            // Proportional to each other, and so are their errors.
            let relative = tps.zip(qps).map(|(tps, qps)| (16.0 * tps.high - qps.high).abs() / qps.high);
            assert!(relative.is_none_or(|relative| relative < 1e-9), "{confidence:?}");
        }
        coverage.judge(&format!("tps, {length_s} s, {memory} left after 0.1 s"), 93.0..=97.0);
    }
}

#[test]
fn intervals_of_experiments_that_end_when_they_are_narrow_hold_the_true_ratio() {
    const EXPERIMENTS: u64 = 10_000;
    const DEVIATION: f64 = 0.05;
    let mut random = StdRng::seed_from_u64(1);
    for (least, right) in [(4, 91.0..=96.0), (6, 92.0..=96.0), (10, 93.0..=96.0)] {
        for width in [0.06, 0.04, 0.03, 0.02] {
            let goal = Goal { width, most_repeats: 1000 };
            let (mut coverage, mut repeats_made) = (Coverage::default(), 0);
            for _ in 0..EXPERIMENTS {
                let (mut ratios, mut repeats) = (Vec::new(), least);
                let bounds = loop {
                    ratios.resize_with(repeats as usize, || (DEVIATION * normal(&mut random)).exp());
                    let estimate = LogRatio::paired(&ratios);
                    let (ratio, bounds) = (estimate.value.exp(), estimate.bounds().unwrap());
                    match goal.next(repeats, (bounds.high / ratio - 1.0).max(1.0 - bounds.low / ratio)) {
                        Some(next) => repeats = next,
                        None => break bounds,
                    }
                };
                coverage.add(Some(bounds), 1.0);
                repeats_made += u64::from(repeats);
            }
            let mean = repeats_made as f64 / EXPERIMENTS as f64;
            coverage.judge(&format!("until ±{:.0} %, {least} at least, {mean:.1} made", 100.0 * width), right.clone());
        }
    }
}

/// Quantiles of the standard normal distribution at `PERCENTILES`.
const NORMAL_QUANTILES: [f64; 5] = [0.0, 1.281552, 1.644854, 2.326348, 3.090232];

#[test]
fn intervals_of_latencies_hold_the_true_value_in_95_of_100_runs() {
    // Log-normal about a millisecond: the moment's and the transaction's own part.
    for (length_s, memory, of_moment) in [(10, 0.0, 0.0), (10, 0.7, 0.1), (30, 0.9, 0.2)] {
        let own = 0.5;
        let deviation = f64::hypot(of_moment, own);
        let mut mean = Coverage::default();
        let mut percentiles: [Coverage; 5] = Default::default();
        for seed in 0..RUNS {
            let mut random = StdRng::seed_from_u64(seed);
            let mut wandering = Wandering::new(memory, &mut random);
            let blocks = blocks(length_s, |_, response| {
                let moment = of_moment * wandering.step(&mut random);
                for _ in 0..EACH {
                    response.record((1e6 * (moment + own * normal(&mut random)).exp()) as u64);
                }
                EACH
            });
            let confidence = Confidence::of(&blocks);
            mean.add(confidence.mean_us, 1e3 * (deviation * deviation / 2.0).exp());
            for (at, coverage) in percentiles.iter_mut().enumerate() {
                let truth = 1e3 * (deviation * NORMAL_QUANTILES[at]).exp();
                coverage.add(confidence.percentiles_us[at], truth);
            }
        }
        let of = format!("{length_s} s, {memory} left after 0.1 s, {of_moment} common");
        mean.judge(&format!("mean, {of}"), 93.0..=97.0);
        for (coverage, percentile) in percentiles.iter().zip(PERCENTILES) {
            match percentile {
                // Only a few of these latencies lie beyond it.
                99.9 => assert_eq!(coverage.given, 0),
                _ => coverage.judge(&format!("p{percentile}, {of}"), 93.0..=97.0),
            }
        }
    }
}

#[test]
fn a_steady_run_is_seldom_called_unsteady() {
    for (length_s, memory) in [(10, 0.0), (10, 0.5), (10, 0.7), (60, 0.0), (60, 0.95), (600, 0.99)] {
        let alarms = (0..RUNS).filter(|&seed| run_at(seed, length_s, memory, |_| 1000.0).unsteady.is_some()).count();
        let percentage = 100.0 * alarms as f64 / RUNS as f64;
        println!("false alarms, {length_s} s, {memory} left after 0.1 s: {percentage:.1} %");
        assert!(percentage <= 5.0, "{percentage}");
    }
}

#[test]
fn a_drift_and_a_lasting_shift_are_found() {
    let found = |memory, rate: fn(f64) -> f64| {
        let found = (0..RUNS).filter(|&seed| run_at(seed, 60, memory, rate).unsteady.is_some()).count();
        100.0 * found as f64 / RUNS as f64
    };
    for (what, rate, least) in [
        ("falls by 20 % bit by bit", (|second| 1100.0 - 200.0 * second / 60.0) as fn(f64) -> f64, 70.0),
        ("falls by 20 % after 20 s", |second| if second < 20.0 { 1000.0 } else { 800.0 }, 95.0),
        ("falls to a third after 48 s", |second| if second < 48.0 { 1000.0 } else { 333.0 }, 95.0),
        ("falls by 30 % from 20 s to 40 s", |second| if (20.0..40.0).contains(&second) { 700.0 } else { 1000.0 }, 95.0),
    ] {
        let percentage = found(0.5, rate);
        println!("found, 60 s, 0.5 left after 0.1 s: {what}: {percentage:.1} %");
        assert!(percentage >= least, "{what}: {percentage}");
    }
}
