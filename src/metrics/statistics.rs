//! How far the figures of one run can be trusted, and whether the run was steady: arithmetic on its blocks.
//!
//! Blocks that follow each other are alike, since a slow moment of a server lasts; taken for independent, they would promise
//! errors that are too small. So the variance of a sum is taken from the slow waves of the series, its projections on a few
//! cosines, as E. Lazarus, D. Lewis, J. Stock and M. Watson recommend (HAR Inference: Recommendations for Practice, Journal
//! of Business & Economic Statistics 36, 2018): 0.4 n^(2/3) cosines of n blocks, and Student's t with as many degrees of
//! freedom. What alikeness takes from these waves is given back by the lag-1 autocorrelation.
//!
//! A mean is a ratio of two sums, of latencies and of their number; so is the share of latencies below a percentile, whose
//! interval is read off at the distribution (R. Woodruff, Confidence Intervals for Medians and Other Position Measures,
//! Journal of the American Statistical Association 47, 1952). docs/accuracy.md has the measured coverage.
//!
//! Pure: no clock, no chance. Must not import anything of the crate but `metrics`.

use std::f64::consts::PI;

use super::blocks::Block;
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
const FEWEST_BEYOND: f64 = 20.0;
/// Autocorrelation of neighbours above which no interval is given: the series wanders over times that are no small part of
/// the run, and nobody knows how far it would go on to.
const MOST_ALIKE: f64 = 0.9;
/// Up to this one the measured coverage is right.
const ALIKE: f64 = 0.8;
/// Probability of taking a steady series for an unsteady one, if its blocks are not alike.
const FALSE_ALARM: f64 = 0.01;
/// Difference between thirds, as a share of the rate, that is worth a word.
const UNSTEADY_SHARE: f64 = 0.05;
/// Quantiles of Student's t at 0.975 for 3 to 10 degrees of freedom.
const STUDENT: [f64; 8] = [3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281];

/// An interval of confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// A rate that rose or fell by more than chance does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unsteady {
    /// tps of the first, the second and the last third of the window.
    pub thirds: [f64; 3],
}

impl Confidence {
    pub fn of(blocks: &[Block]) -> Confidence {
        let used = blocks.iter().filter(|block| block.transactions > 0).count();
        let elapsed_s: f64 = blocks.iter().map(|block| block.length_s).sum();
        let block_s = blocks.first().map_or(0.0, |block| block.length_s);
        let bare = Confidence { blocks: blocks.len(), block_s, ..Confidence::default() };
        if used < FEWEST_BLOCKS {
            // Without a transaction nothing is known of how many there might be.
            let needs_s = (used > 0).then(|| elapsed_s.max(block_s) * FEWEST_BLOCKS as f64 / used as f64);
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
        let count = cosines(self.residuals.len());
        let student = STUDENT.get(count.checked_sub(3)?)?;
        let waves = (1..=count).map(|wave| projection(&self.residuals, wave).powi(2));
        let seen = (1..=count).map(|wave| share_at(wave, self.residuals.len(), self.autocorrelation));
        let variance = waves.sum::<f64>() / seen.sum::<f64>();
        Some(student * (variance * self.residuals.len() as f64).sqrt() / self.below)
    }
}

/// How many cosines are taken of a series: 3 of 20 blocks, 10 of 128.
fn cosines(blocks: usize) -> usize {
    (0.4 * (blocks as f64).powf(2.0 / 3.0)).round() as usize
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
    let (low, ..) = all.at_rank(low * total)?;
    let (high, ..) = all.at_rank(high * total)?;
    Some(Bounds { low: low.edges_ns().0 as f64 / 1e3, high: high.edges_ns().1 as f64 / 1e3 })
}

/// Whether the rate drifted or stepped: then the two slowest waves, which trends and lasting shifts are made of, are larger
/// than those that follow. In a steady series the ratio of their mean squares has Fisher's distribution, whose tail for two
/// degrees of freedom above has a closed form.
fn unsteady(blocks: &[Block], tps: &Ratio) -> Option<Unsteady> {
    let count = cosines(blocks.len());
    let square = |wave| projection(&tps.residuals, wave).powi(2);
    let slow = (square(1) + square(2)) / 2.0;
    let others = (3..3 + count).map(square).sum::<f64>() / count as f64;
    let chance = (1.0 + 2.0 * slow / (others * count as f64)).powf(-(count as f64) / 2.0);
    let thirds = thirds(blocks);
    let spread = thirds.iter().copied().fold(0.0, f64::max) - thirds.iter().copied().fold(f64::MAX, f64::min);
    (chance < FALSE_ALARM && spread >= UNSTEADY_SHARE * tps.value).then_some(Unsteady { thirds })
}

/// tps of each third of the blocks.
fn thirds(blocks: &[Block]) -> [f64; 3] {
    [0, 1, 2].map(|third| {
        let part = &blocks[third * blocks.len() / 3..(third + 1) * blocks.len() / 3];
        let transactions: u64 = part.iter().map(|block| block.transactions).sum();
        transactions as f64 / part.iter().map(|block| block.length_s).sum::<f64>()
    })
}
