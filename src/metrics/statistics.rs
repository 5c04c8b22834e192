//! How far the figures of one run can be trusted, and whether the run was steady: arithmetic on its blocks.
//!
//! Blocks that follow each other are alike, since a slow moment of a server lasts; taken for independent, they would promise
//! errors that are too small. So the variance of a sum is taken from the slow waves of the series, its projections on a few
//! cosines, as E. Lazarus, D. Lewis, J. Stock and M. Watson recommend (HAR Inference: Recommendations for Practice, Journal
//! of Business & Economic Statistics 36, 2018), with Student's t of as many degrees of freedom. What the waves are too fast
//! to see of the likeness is added by the lag-1 autocorrelation.
//!
//! A mean is a ratio of two sums, of latencies and of their number; so is the share of latencies below a percentile, whose
//! interval is read off at the distribution (R. Woodruff, Confidence Intervals for Medians and Other Position Measures,
//! Journal of the American Statistical Association 47, 1952). docs/accuracy.md has the measured coverage.
//!
//! Pure: no clock, no chance. Must not import anything of the crate but `metrics`.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use super::blocks::{Block, SHORTEST_NS};
use super::histogram::Counts;

/// Share of runs whose interval holds the true value.
pub const LEVEL: f64 = 0.95;
/// What `Confidence` is made by, in the words of a report.
pub const METHOD: &str =
    "equal-weighted cosines over blocks, corrected for lag-1 autocorrelation, Student's t; percentiles after Woodruff";
/// The percentiles that have an interval.
pub const PERCENTILES: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

/// Blocks in which something ended; fewer say too little of how they vary.
const FEWEST_BLOCKS: usize = 20;
/// Latencies beyond a percentile; with fewer its interval would hang on a handful.
pub const FEWEST_BEYOND: f64 = 20.0;
/// Autocorrelation of neighbours above which no interval is given: the series wanders over times that are no small part of
/// the run, and nobody knows how far it would go on to.
const MOST_ALIKE: f64 = 0.9;
/// Up to this one the measured coverage is right.
const ALIKE: f64 = 0.8;
/// Fewer blocks, those of 6.4 seconds, do not tell a shift from chance.
const FEWEST_FOR_SHAPES: usize = 64;
/// What a shape must explain of a series, in variances, to be no chance. Of steady series of 64 to 128 blocks with an
/// autocorrelation of up to 0.7 the best shape explains so much in 1 to 2 of a hundred, as simulated.
const CRITICAL: f64 = 40.0;
/// Change of tps, as a share of it, that is worth a word.
const UNSTEADY_SHARE: f64 = 0.05;
/// Cosines of n blocks by which variances are estimated, as a multiple of n^(2/3). For intervals there are fewer than
/// recommended, since a series that is part memory and part chance has more in its slowest waves than its lag-1
/// autocorrelation tells: with 0.4 the measured coverage was 92 % where it is 94 % with 0.3.
const COSINES: f64 = 0.3;
/// What a shape leaves has lost some of its slowest waves.
const SHAPE_COSINES: f64 = 0.8;
const FEWEST_COSINES: usize = 3;
/// Quantiles of Student's t at 0.975 for 3 to 8 degrees of freedom.
const STUDENT: [f64; 6] = [3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060];

/// An interval of confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    pub low: f64,
    pub high: f64,
}

impl Bounds {
    fn around(value: f64, half_width: f64) -> Bounds {
        // None of the figures can be negative.
        Bounds { low: (value - half_width).max(0.0), high: value + half_width }
    }
}

/// The intervals of a run's figures; `None` where there can be none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Confidence {
    pub blocks: usize,
    /// Length of a block.
    pub block_s: f64,
    pub tps: Option<Bounds>,
    pub rps: Option<Bounds>,
    pub qps: Option<Bounds>,
    /// Of the response times, in microseconds.
    pub mean_us: Option<Bounds>,
    /// Those of `PERCENTILES`.
    pub percentiles_us: [Option<Bounds>; PERCENTILES.len()],
    /// Where `tps` has none: how long a window would have to be for one, in seconds.
    pub needs_s: Option<f64>,
    pub unsteady: Option<Unsteady>,
}

/// How tps changed by more than chance would have it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Unsteady {
    /// Bit by bit: tps of the first and of the last third of the window.
    Drift { first: f64, last: f64 },
    /// At once: tps from one time of the window to another, and in the rest of it.
    Shift { from_s: f64, to_s: f64, inside: f64, outside: f64 },
}

impl Confidence {
    pub fn of(blocks: &[Block]) -> Confidence {
        let used = blocks.iter().filter(|block| block.transactions > 0).count();
        let elapsed_s = length_s(blocks);
        let block_s = blocks.first().map_or(0.0, |block| block.length_s);
        let bare = Confidence { blocks: blocks.len(), block_s, ..Confidence::default() };
        if used < FEWEST_BLOCKS {
            let shortest_s = FEWEST_BLOCKS as f64 * SHORTEST_NS as f64 / 1e9;
            // Without a transaction nothing is known of how many there might be.
            let needs_s = (used > 0).then(|| shortest_s.max(elapsed_s * FEWEST_BLOCKS as f64 / used as f64));
            return Confidence { needs_s, ..bare };
        }
        let rate = |count: fn(&Block) -> u64| Ratio::new(blocks, |block| (count(block) as f64, block.length_s));
        let tps = rate(|block| block.transactions);
        let mean = Ratio::new(blocks, |block| (block.response_ns as f64 / 1e3, block.responses.len() as f64));
        let mut all = Counts::default();
        blocks.iter().for_each(|block| all.add(&block.responses));
        Confidence {
            tps: tps.bounds(),
            rps: rate(|block| block.read_write_requests).bounds(),
            qps: rate(|block| block.queries).bounds(),
            mean_us: mean.bounds(),
            percentiles_us: PERCENTILES.map(|percentile| percentile_bounds(blocks, &all, percentile / 100.0)),
            // Alikeness falls exponentially with distance.
            needs_s: tps.is_wandering().then(|| elapsed_s * ALIKE.ln() / tps.autocorrelation.ln()),
            unsteady: unsteady(blocks, &tps),
            ..bare
        }
    }
}

/// A sum over another one, both over blocks.
struct Ratio {
    value: f64,
    below: f64,
    /// What each block has more above than the ratio would give it; their sum is 0.
    residuals: Vec<f64>,
    /// Of neighbours, without the bias that a short series has.
    autocorrelation: f64,
}

impl Ratio {
    fn new(blocks: &[Block], parts: impl Fn(&Block) -> (f64, f64)) -> Ratio {
        let parts: Vec<_> = blocks.iter().map(parts).collect();
        let (above, below) = parts.iter().fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        let value = if below > 0.0 { above / below } else { 0.0 };
        let residuals: Vec<f64> = parts.iter().map(|part| part.0 - value * part.1).collect();
        Ratio { value, below, autocorrelation: autocorrelation(&residuals), residuals }
    }

    fn is_wandering(&self) -> bool {
        self.autocorrelation >= MOST_ALIKE
    }

    fn bounds(&self) -> Option<Bounds> {
        self.half_width().map(|half_width| Bounds::around(self.value, half_width))
    }

    /// Half the width of the interval of the ratio.
    fn half_width(&self) -> Option<f64> {
        if self.is_wandering() || self.below <= 0.0 {
            return None;
        }
        let student = STUDENT.get(cosines(self.residuals.len(), COSINES) - FEWEST_COSINES)?;
        let variance = variance(&self.residuals, self.autocorrelation, COSINES);
        Some(student * (variance * self.residuals.len() as f64).sqrt() / self.below)
    }
}

/// How many cosines are taken of a series.
fn cosines(blocks: usize, multiple: f64) -> usize {
    ((multiple * (blocks as f64).powf(2.0 / 3.0)).round() as usize).max(FEWEST_COSINES)
}

/// What each of a series adds to the variance of its sum, its likeness to its neighbours included.
fn variance(residuals: &[f64], autocorrelation: f64, multiple: f64) -> f64 {
    let waves = 1..=cosines(residuals.len(), multiple);
    let seen: f64 = waves.clone().map(|wave| share_at(wave, residuals.len(), autocorrelation)).sum();
    waves.map(|wave| projection(residuals, wave).powi(2)).sum::<f64>() / seen
}

/// Projection on a cosine of `wave` half periods, scaled so that each of a series without memory has its variance.
fn projection(residuals: &[f64], wave: usize) -> f64 {
    let count = residuals.len() as f64;
    let terms = residuals.iter().enumerate();
    let sum: f64 = terms.map(|(at, residual)| residual * (PI * wave as f64 * (at as f64 + 0.5) / count).cos()).sum();
    (2.0 / count).sqrt() * sum
}

/// Lag-1 autocorrelation, 0 where it is negative: then the waves are what they are. A series of n falls short of it by about
/// (1 + 4 r) / n (F. Marriott and J. Pope, Bias in the Estimation of Autocorrelations, Biometrika 41, 1954).
fn autocorrelation(residuals: &[f64]) -> f64 {
    let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let found = if squares > 0.0 { products / squares } else { 0.0 };
    (found + (1.0 + 4.0 * found) / residuals.len().max(1) as f64).clamp(0.0, 0.99)
}

/// Spectrum of a first-order autoregression at a wave, as a share of that of the infinitely slow wave, which is what a
/// sum's variance comes from.
fn share_at(wave: usize, blocks: usize, autocorrelation: f64) -> f64 {
    let cosine = (PI * wave as f64 / blocks as f64).cos();
    (1.0 - autocorrelation).powi(2) / (1.0 - 2.0 * autocorrelation * cosine + autocorrelation.powi(2))
}

/// The interval of a quantile from 0 to 1: where the distribution's share below lies as far from it as chance would take
/// the share below the true quantile.
fn percentile_bounds(blocks: &[Block], all: &Counts, quantile: f64) -> Option<Bounds> {
    let total = all.len() as f64;
    if (1.0 - quantile) * total < FEWEST_BEYOND {
        return None;
    }
    let (bucket, below, inside) = all.at_rank(quantile * total)?;
    // The quantile lies so far into its bucket, and so it is taken to in each block.
    let part = (quantile * total - below as f64) / inside as f64;
    let shares = Ratio::new(blocks, |block| {
        let (below, inside) = block.responses.split(bucket);
        (below as f64 + part * inside as f64, block.responses.len() as f64)
    });
    let half_width = shares.half_width()?;
    let (low, high) = (quantile - half_width, quantile + half_width);
    if low <= 0.0 || (1.0 - high) * total < 1.0 {
        return None;
    }
    // The figure itself is of the nearest rank, which is counted from 1.
    let (low, ..) = all.at_rank(low * total - 1.0)?;
    let (high, ..) = all.at_rank(high * total)?;
    Some(Bounds { low: low.edges_ns().0 as f64 / 1e3, high: high.edges_ns().1 as f64 / 1e3 })
}

/// What a series may do in place of being steady. A change that lasts for less than a tenth of it is not looked for.
#[derive(Clone, Copy)]
enum Shape {
    /// A straight line, that falls or rises by this from the first to the last block.
    Line { rise: f64 },
    /// Blocks from one number to before another one that lie higher by this than the rest.
    Step { first: usize, end: usize, height: f64 },
}

impl Shape {
    /// The one that explains most of the residuals, with the sum of squares that it explains. A run has at most 128 blocks,
    /// so all are tried.
    fn best(residuals: &[f64]) -> (Shape, f64) {
        let count = residuals.len() as f64;
        let middle = (count - 1.0) / 2.0;
        let slope_squares: f64 = (0..residuals.len()).map(|at| (at as f64 - middle).powi(2)).sum();
        let covariance: f64 = residuals.iter().enumerate().map(|(at, each)| (at as f64 - middle) * each).sum();
        let line = Shape::Line { rise: covariance / slope_squares * (count - 1.0) };
        let mut best = (line, covariance.powi(2) / slope_squares);
        let shortest = residuals.len().div_ceil(10);
        for first in 0..residuals.len() {
            let mut sum = 0.0;
            for end in first + 1..=residuals.len().min(first + residuals.len() - shortest) {
                sum += residuals[end - 1];
                let inside = (end - first) as f64;
                // The residuals' sum is 0, so the rest has the opposite sum.
                let height = sum / inside + sum / (count - inside);
                if end - first >= shortest && height * sum > best.1 {
                    best = (Shape::Step { first, end, height }, height * sum);
                }
            }
        }
        best
    }

    /// The residuals without the shape.
    fn taken_from(self, residuals: &[f64]) -> Vec<f64> {
        let count = residuals.len() as f64;
        let shape = |at: usize| match self {
            Shape::Line { rise } => rise * (at as f64 / (count - 1.0) - 0.5),
            Shape::Step { first, end, height } => {
                height * (f64::from(u8::from((first..end).contains(&at))) - (end - first) as f64 / count)
            }
        };
        residuals.iter().enumerate().map(|(at, residual)| residual - shape(at)).collect()
    }
}

/// Whether the rate drifted or stepped: the shape that fits best explains far more than what is left would by chance.
fn unsteady(blocks: &[Block], tps: &Ratio) -> Option<Unsteady> {
    if blocks.len() < FEWEST_FOR_SHAPES {
        return None;
    }
    let (shape, explained) = Shape::best(&tps.residuals);
    let rest = shape.taken_from(&tps.residuals);
    let variance = variance(&rest, autocorrelation(&rest), SHAPE_COSINES);
    let change = match shape {
        Shape::Line { rise } => rise,
        Shape::Step { height, .. } => height,
    };
    if explained <= CRITICAL * variance || change.abs() < UNSTEADY_SHARE * tps.value * blocks[0].length_s {
        return None;
    }
    let third = blocks.len() / 3;
    Some(match shape {
        Shape::Line { .. } => {
            Unsteady::Drift { first: rate(&blocks[..third]), last: rate(&blocks[blocks.len() - third..]) }
        }
        Shape::Step { first, end, .. } => Unsteady::Shift {
            from_s: length_s(&blocks[..first]),
            to_s: length_s(&blocks[..end]),
            inside: rate(&blocks[first..end]),
            outside: rate(blocks[..first].iter().chain(&blocks[end..])),
        },
    })
}

fn length_s<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> f64 {
    blocks.into_iter().map(|block| block.length_s).sum()
}

fn rate<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> f64 {
    let (transactions, length_s) =
        blocks.into_iter().fold((0, 0.0), |sum, block| (sum.0 + block.transactions, sum.1 + block.length_s));
    transactions as f64 / length_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Histogram;

    /// Blocks of a second with so many transactions of a millisecond each.
    fn blocks(counts: impl IntoIterator<Item = u64>) -> Vec<Block> {
        let block = |transactions: u64| {
            let mut response = Histogram::default();
            (0..transactions).for_each(|_| response.record(1_000_000));
            Block {
                length_s: 1.0,
                transactions,
                read_write_requests: 14 * transactions,
                queries: 16 * transactions,
                response_ns: response.sum_ns(),
                responses: Counts::of(&response),
            }
        };
        counts.into_iter().map(block).collect()
    }

    /// 0 or 1 without a pattern that matters.
    fn noise(at: u64) -> u64 {
        (at * at * at + 7 * at) % 11 % 2
    }

    #[test]
    fn the_quantiles_of_student_are_where_its_distribution_says() {
        // M. Abramowitz and I. Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4: the share within t.
        let share_within = |t: f64, freedom: usize| {
            let (angle, even) = ((t / (freedom as f64).sqrt()).atan(), freedom.is_multiple_of(2));
            let (mut term, mut sum) = (if even { 1.0 } else { angle.cos() }, 0.0);
            for step in (if even { 0 } else { 1 }..freedom - 1).step_by(2) {
                sum += term;
                term *= angle.cos().powi(2) * (step + 1) as f64 / (step + 2) as f64;
            }
            let series = angle.sin() * sum;
            if even { series } else { 2.0 / PI * (angle + series) }
        };
        for (at, t) in STUDENT.into_iter().enumerate() {
            let found = share_within(t, at + FEWEST_COSINES);
            assert!((found - LEVEL).abs() < 1e-5, "{} degrees of freedom: {found}", at + FEWEST_COSINES);
        }
        assert_eq!(cosines(128, COSINES) - FEWEST_COSINES, STUDENT.len() - 1);
    }

    #[test]
    fn a_run_that_never_varies_has_no_error_but_that_of_the_buckets() {
        let confidence = Confidence::of(&blocks([100; 64]));
        assert_eq!(confidence.tps, Some(Bounds { low: 100.0, high: 100.0 }));
        assert_eq!(confidence.rps, Some(Bounds { low: 1400.0, high: 1400.0 }));
        assert_eq!(confidence.mean_us, Some(Bounds { low: 1000.0, high: 1000.0 }));
        let bucket = Some(Bounds { low: 999.936, high: 1000.447 });
        // Only six latencies lie beyond the last one.
        assert_eq!(confidence.percentiles_us, [bucket, bucket, bucket, bucket, None]);
        assert_eq!((confidence.unsteady, confidence.needs_s), (None, None));
    }

    #[test]
    fn too_few_blocks_have_no_interval_and_say_how_long_it_would_take() {
        let confidence = Confidence::of(&blocks([5; 19]));
        assert_eq!((confidence.tps, confidence.mean_us, confidence.percentiles_us), (None, None, [None; 5]));
        assert_eq!(confidence.needs_s, Some(20.0));
        // A block in which nothing ended is none to tell by.
        let seldom = (0..100).map(|at| u64::from(at % 10 == 0));
        assert_eq!(Confidence::of(&blocks(seldom)).needs_s, Some(200.0));
        let nothing = Confidence::of(&blocks([0; 100]));
        assert_eq!((nothing.tps, nothing.needs_s, nothing.blocks), (None, None, 100));
        assert_eq!(Confidence::of(&[]), Confidence::default());
        assert!(Confidence::of(&blocks((0..20).map(|at| 100 + noise(at)))).tps.is_some());
    }

    #[test]
    fn a_rate_that_wanders_through_the_whole_run_has_no_interval() {
        // There and back, once.
        let wave = (0..100).map(|at| (1000.0 + 100.0 * (at as f64 / 100.0 * 2.0 * PI).sin()) as u64);
        let confidence = Confidence::of(&blocks(wave));
        assert_eq!((confidence.tps, confidence.blocks), (None, 100));
        let needs_s = confidence.needs_s.unwrap();
        assert!(needs_s > 500.0, "{needs_s}");
    }

    #[test]
    fn a_shift_is_told_with_its_time_and_a_drift_with_its_ends() {
        let shift = (0..100).map(|at| if at < 70 { 100 } else { 60 } + noise(at));
        let Some(Unsteady::Shift { from_s, to_s, inside, outside }) = Confidence::of(&blocks(shift)).unsteady else {
            panic!("no shift was found")
        };
        assert!((from_s, to_s) == (0.0, 70.0) || (from_s, to_s) == (70.0, 100.0), "{from_s} {to_s}");
        let (low, high) = (inside.min(outside), inside.max(outside));
        assert!((60.0..=61.0).contains(&low) && (100.0..=101.0).contains(&high), "{low} {high}");
        let dip = (0..100).map(|at| if (20..35).contains(&at) { 60 } else { 100 } + noise(at));
        let unsteady = Confidence::of(&blocks(dip)).unsteady;
        assert!(matches!(unsteady, Some(Unsteady::Shift { from_s: 20.0, to_s: 35.0, .. })), "{unsteady:?}");
        let drift = Confidence::of(&blocks((0..100).map(|at| 1000 - 3 * at + noise(at)))).unsteady;
        let Some(Unsteady::Drift { first, last }) = drift else { panic!("{drift:?}") };
        assert_eq!((first.round(), last.round()), (952.0, 751.0));
    }

    #[test]
    fn a_change_that_is_sure_but_small_is_not_worth_a_word() {
        let shift =
            |by: u64| Confidence::of(&blocks((0..100).map(|at| 1000 + if at < 50 { by } else { 0 } + noise(at))));
        assert_eq!(shift(40).unsteady, None);
        assert!(shift(60).unsteady.is_some());
    }
}
