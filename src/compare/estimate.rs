//! What is known of a ratio of two figures: its interval, whether it is another than 1, and what it would have taken to tell.
//!
//! All is done with logarithms, in which a ratio is a difference and twice is as far as half. Errors have Student's
//! distribution, and where there are enough runs for a rank test to tell, it must tell the same, so that nothing hangs on
//! that distribution. docs/comparing.md has the measured rates of wrong verdicts, also where figures are far from normal.
//!
//! Pure: no clock, no chance. Must not import anything of the crate but `metrics`.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::ranks;
use crate::metrics::Bounds;
use crate::metrics::statistics::LEVEL;

/// Chance of a wrong "better" or "worse" anywhere in a comparison.
pub const ALPHA: f64 = 1.0 - LEVEL;
/// Share of such experiments in which a difference of `LogRatio::could_show` would have been shown.
pub const POWER: f64 = 0.8;
/// What the arithmetic must aim at for that as measured: errors are estimated from few runs, and ranks ask for more.
const AIM: f64 = 0.9;
/// Width of a latency bucket, as a share. A difference that is no wider is none, however exactly it repeats.
const RESOLUTION: f64 = 0.001;
/// Variance of a figure for its rounding to a bucket alone: that of the uniform distribution.
const ROUNDING: f64 = RESOLUTION * RESOLUTION / 12.0;

/// Estimate of the logarithm of a ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRatio {
    pub value: f64,
    /// Standard error, and the degrees of freedom that it has.
    error: f64,
    freedom: f64,
    runs: Logs,
}

/// Logarithms that an estimate was made of.
#[derive(Clone, Debug, PartialEq)]
enum Logs {
    /// Of ratios.
    Pairs(Vec<f64>),
    /// Of the figures of each side.
    Sides([Vec<f64>; 2]),
}

impl LogRatio {
    /// Of ratios that were measured in pairs; two at least.
    pub fn paired(ratios: &[f64]) -> LogRatio {
        let logs = logs(ratios);
        let (mean, variance) = mean_and_variance(&logs);
        let error = (variance.max(2.0 * ROUNDING) / logs.len() as f64).sqrt();
        let freedom = logs.len() as f64 - 1.0;
        LogRatio { value: mean, error, freedom, runs: Logs::Pairs(logs) }
    }

    /// Of repeats that have nothing in common, after B. Welch (The Generalization of Student's Problem when Several Different
    /// Population Variances are Involved, Biometrika 34, 1947); one side at least has two. A side with one run is taken to
    /// vary as the other one.
    pub fn unpaired(baseline: &[f64], other: &[f64]) -> LogRatio {
        let logs = [baseline, other].map(logs);
        let sides = [&logs[0], &logs[1]].map(|logs| (logs.len() as f64, mean_and_variance(logs)));
        let [(few, (from, _)), (many, (to, _))] = sides;
        let variances = sides.map(|(count, (_, variance))| (count > 1.0).then(|| variance.max(ROUNDING)));
        let (error, freedom) = match variances {
            [Some(first), Some(second)] => {
                let (first, second) = (first / few, second / many);
                let freedom = (first + second).powi(2) / (first * first / (few - 1.0) + second * second / (many - 1.0));
                ((first + second).sqrt(), freedom)
            }
            [first, second] => {
                let known = first.or(second).unwrap_or(f64::INFINITY);
                ((known * (1.0 / few + 1.0 / many)).sqrt(), few.max(many) - 1.0)
            }
        };
        LogRatio { value: to - from, error, freedom, runs: Logs::Sides(logs) }
    }

    /// The ratio's interval; `None` where it has no end.
    pub fn bounds(&self) -> Option<Bounds> {
        let half_width = quantile(0.5 + LEVEL / 2.0, self.freedom) * self.error;
        around(self.value, half_width, half_width)
    }

    /// The chance of lying as far from a value as this does or farther, in either direction, if that is the true one; of so
    /// many comparisons. Alone and by Student's distribution it is below `ALPHA` where the value lies outside of `bounds`.
    pub fn chance_of(&self, truth: f64, comparisons: usize) -> f64 {
        let distance = (self.value - truth).abs() - RESOLUTION;
        let by_student = if distance > 0.0 { 2.0 * beyond(distance / self.error, self.freedom) } else { 1.0 };
        match self.has_ranks_for(comparisons) {
            true => by_student.max(self.chance_by_ranks(truth)),
            false => by_student,
        }
    }

    fn chance_by_ranks(&self, truth: f64) -> f64 {
        let beyond = |logs: &[f64]| logs.iter().map(|log| log - truth).collect::<Vec<_>>();
        match &self.runs {
            Logs::Pairs(ratios) => ranks::signed(&beyond(ratios)),
            Logs::Sides([baseline, other]) => ranks::of_sums(baseline, &beyond(other)),
        }
    }

    /// Whether there are enough runs for ranks to lead to a verdict among so many comparisons.
    pub fn has_ranks_for(&self, comparisons: usize) -> bool {
        let orders = match &self.runs {
            Logs::Pairs(ratios) => 2f64.powi(ratios.len() as i32),
            // The ways to take one side's runs of all.
            Logs::Sides([baseline, other]) => {
                (1..=baseline.len()).map(|taken| (other.len() + taken) as f64 / taken as f64).product()
            }
        };
        // Two of them, the most extreme to either side, are the least that can be told.
        2.0 * comparisons as f64 <= ALPHA * orders
    }

    /// The difference, as a share, that would have been told from none at a level in `POWER` of such experiments.
    pub fn could_show(&self, level: f64) -> Option<f64> {
        let students = quantile(1.0 - level / 2.0, self.freedom) + quantile(AIM, self.freedom);
        let share = (students * self.error + RESOLUTION).exp_m1();
        share.is_finite().then_some(share)
    }

    /// Whether two are the same but for rounding, as rates are of which one is a multiple of the other.
    pub fn is_same(&self, other: &LogRatio) -> bool {
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        near(self.value, other.value) && near(self.error, other.error)
    }
}

/// The interval of the ratio of two figures with intervals of their own, which are put together after G. Zou and A. Donner
/// (Construction of Confidence Limits about Effect Measures, Statistics in Medicine 27, 2008).
pub fn bounds_of_ratio((baseline, from): (f64, Bounds), (other, to): (f64, Bounds)) -> Option<Bounds> {
    // How far each end of an interval is away, in logarithms; one from 0 has no end.
    let ends = |value: f64, bounds: Bounds| [value / bounds.low, bounds.high / value].map(|end| end.ln().max(0.0));
    let ([from_low, from_high], [to_low, to_high]) = (ends(baseline, from), ends(other, to));
    around((other / baseline).ln(), f64::hypot(to_low, from_high), f64::hypot(to_high, from_low))
}

/// The interval of a ratio from its logarithm's; `None` where it has no end.
fn around(log: f64, below: f64, above: f64) -> Option<Bounds> {
    let bounds = Bounds { low: (log - below - RESOLUTION).exp(), high: (log + above + RESOLUTION).exp() };
    bounds.high.is_finite().then_some(bounds)
}

/// Geometric mean of a side's runs, and its interval where there are two at least.
pub fn geometric_mean(figures: &[f64]) -> (f64, Option<Bounds>) {
    let (mean, variance) = mean_and_variance(&logs(figures));
    let count = figures.len() as f64;
    let half_width = quantile(0.5 + LEVEL / 2.0, count - 1.0) * (variance.max(ROUNDING) / count).sqrt();
    (mean.exp(), around(mean, half_width, half_width))
}

/// The chances corrected for their number, after S. Holm (A Simple Sequentially Rejective Multiple Test Procedure,
/// Scandinavian Journal of Statistics 6, 1979): where none of the differences is true, the smallest is below `ALPHA` in no
/// more than that share of comparisons, whatever they have to do with each other.
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&one, &other| chances[one].total_cmp(&chances[other]));
    let mut corrected = vec![1.0; chances.len()];
    let mut least: f64 = 0.0;
    for (place, at) in order.into_iter().enumerate() {
        least = least.max(((chances.len() - place) as f64 * chances[at]).min(1.0));
        corrected[at] = least;
    }
    corrected
}

fn logs(figures: &[f64]) -> Vec<f64> {
    figures.iter().map(|figure| figure.ln()).collect()
}

/// Mean, and the variance of one value; infinite where there is only one.
fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, if values.len() > 1 { squares / (count - 1.0) } else { f64::INFINITY })
}

fn quantile(share: f64, freedom: f64) -> f64 {
    student(freedom).map_or(f64::INFINITY, |student| student.inverse_cdf(share))
}

/// Chance of more than a value.
fn beyond(value: f64, freedom: f64) -> f64 {
    student(freedom).map_or(0.5, |student| student.sf(value))
}

/// `None` without a degree of freedom, with which nothing is known.
fn student(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom).ok()
}
