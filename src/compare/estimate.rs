//! What is known of a ratio of two figures: its interval, whether it is another than 1, and what it would have taken to tell.
//!
//! All is done with logarithms, in which a ratio is a difference and twice is as far as half. Errors have Student's
//! distribution; docs/comparing.md has the measured coverage, also where figures are far from normal.
//!
//! Pure: no clock, no chance. Must not import anything of the crate but `metrics`.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::metrics::Bounds;
use crate::metrics::statistics::{LEVEL, degrees_of_freedom};

/// Chance of a wrong "better" or "worse" anywhere in a comparison.
pub const ALPHA: f64 = 1.0 - LEVEL;
/// Share of such experiments in which a difference of `LogRatio::could_show` would have been shown.
pub const POWER: f64 = 0.9;
/// Width of a latency bucket, as a share. A difference that is no wider is none, however exactly it repeats.
const RESOLUTION: f64 = 0.001;
/// Variance of a figure for its rounding to a bucket alone: that of the uniform distribution.
const ROUNDING: f64 = RESOLUTION * RESOLUTION / 12.0;

/// A figure of one run, and its interval from that run alone.
#[derive(Clone, Copy, Debug)]
pub struct Single {
    pub value: f64,
    pub bounds: Bounds,
    /// Parts of the window that the interval comes from.
    pub blocks: usize,
}

/// Estimate of the logarithm of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogRatio {
    pub value: f64,
    /// Standard errors towards lower and towards higher values.
    below: f64,
    above: f64,
    freedom: f64,
}

impl LogRatio {
    /// Of ratios that were measured in pairs; two at least.
    pub fn paired(ratios: &[f64]) -> LogRatio {
        let logs = logs(ratios);
        let (mean, variance) = mean_and_variance(&logs);
        let error = (variance.max(2.0 * ROUNDING) / logs.len() as f64).sqrt();
        LogRatio::even(mean, error, logs.len() as f64 - 1.0)
    }

    /// Of repeats that have nothing in common, after B. Welch (The Generalization of Student's Problem when Several Different
    /// Population Variances are Involved, Biometrika 34, 1947); one side at least has two. A side with one run is taken to
    /// vary as the other one.
    pub fn unpaired(baseline: &[f64], other: &[f64]) -> LogRatio {
        let sides = [baseline, other].map(|figures| (figures.len() as f64, mean_and_variance(&logs(figures))));
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
        LogRatio::even(to - from, error, freedom)
    }

    /// Of single runs, with the errors that each has by itself, which are put together after G. Zou and A. Donner
    /// (Construction of Confidence Limits about Effect Measures, Statistics in Medicine 27, 2008).
    pub fn of_single_runs(baseline: Single, other: Single) -> LogRatio {
        // How far each end of its interval is away, in logarithms; an interval from 0 has no end.
        let ends = |run: Single| [run.value / run.bounds.low, run.bounds.high / run.value].map(|end| end.ln().max(0.0));
        let ([from_low, from_high], [to_low, to_high]) = (ends(baseline), ends(other));
        let student = |run: Single| quantile(0.5 + LEVEL / 2.0, degrees_of_freedom(run.blocks));
        let (from_student, to_student) = (student(baseline), student(other));
        let error = |from: f64, to: f64| f64::hypot(from / from_student, to / to_student).max((2.0 * ROUNDING).sqrt());
        let squares = |run: Single, student: f64| {
            let [low, high] = ends(run);
            ((low.max(high) / student).powi(2), degrees_of_freedom(run.blocks))
        };
        let [(first, of_first), (second, of_second)] = [squares(baseline, from_student), squares(other, to_student)];
        let together = (first + second).powi(2) / (first * first / of_first + second * second / of_second);
        LogRatio {
            value: (other.value / baseline.value).ln(),
            below: error(from_high, to_low),
            above: error(from_low, to_high),
            // Neither error, or an endless one, has no ratio.
            freedom: if together.is_finite() { together } else { of_first.min(of_second) },
        }
    }

    fn even(value: f64, error: f64, freedom: f64) -> LogRatio {
        LogRatio { value, below: error, above: error, freedom }
    }

    /// The ratio's interval; `None` where it has no end.
    pub fn bounds(&self) -> Option<Bounds> {
        let student = quantile(0.5 + LEVEL / 2.0, self.freedom);
        let low = (self.value - student * self.below - RESOLUTION).exp();
        let high = (self.value + student * self.above + RESOLUTION).exp();
        high.is_finite().then_some(Bounds { low, high })
    }

    /// The chance of lying as far from a value as this does or farther, in either direction, if that is the true one. It is
    /// below `ALPHA` where the value lies outside of `bounds`.
    pub fn chance_of(&self, truth: f64) -> f64 {
        let distance = (self.value - truth).abs() - RESOLUTION;
        let error = if self.value > truth { self.below } else { self.above };
        match distance > 0.0 {
            true => 2.0 * beyond(distance / error, self.freedom),
            false => 1.0,
        }
    }

    /// The difference, as a share, that would have been told from none at a level in `POWER` of such experiments.
    pub fn could_show(&self, level: f64) -> Option<f64> {
        let students = quantile(1.0 - level / 2.0, self.freedom) + quantile(POWER, self.freedom);
        let share = (students * self.below.max(self.above) + RESOLUTION).exp_m1();
        share.is_finite().then_some(share)
    }

    /// Whether two are the same but for rounding, as rates are of which one is a multiple of the other.
    pub fn is_same(&self, other: &LogRatio) -> bool {
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        near(self.value, other.value) && near(self.below, other.below) && near(self.above, other.above)
    }
}

/// Geometric mean of a side's runs, and its interval where there are two at least.
pub fn geometric_mean(figures: &[f64]) -> (f64, Option<Bounds>) {
    let (mean, variance) = mean_and_variance(&logs(figures));
    let count = figures.len() as f64;
    let bounds = (figures.len() > 1).then(|| {
        let half_width = quantile(0.5 + LEVEL / 2.0, count - 1.0) * (variance.max(ROUNDING) / count).sqrt();
        Bounds { low: (mean - half_width).exp(), high: (mean + half_width).exp() }
    });
    (mean.exp(), bounds.filter(|bounds| bounds.high.is_finite()))
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
