//! The Universal Scalability Law, fitted to rates against numbers of threads: X(N) = lambda N / (1 + sigma (N-1) + kappa N (N-1)),
//! after N. Gunther (Guerrilla Capacity Planning, Springer 2007). lambda is the rate of one thread, sigma what threads lose by
//! waiting for each other, kappa what each pair of them costs, for which the rate falls again from some number on.
//!
//! N / X(N) = d + b N + c N (N-1) says the same with b = sigma / lambda, c = kappa / lambda and d = (1 - sigma) / lambda: it is
//! linear, and the law's bounds (sigma from 0 to 1, kappa from 0) are those of no negative coefficient. So each step of the fit
//! is a problem of linear least squares with three such coefficients, whose minimum is found exactly.
//!
//! Invariants: sigma is from 0 to 1, kappa not negative, and nothing is NaN or infinite, whatever the figures are.
//!
//! Pure: no clock, no chance. Must not import anything of the crate.

use serde::{Deserialize, Serialize};

/// Three parameters go through any three points.
pub const FEWEST_POINTS: usize = 4;
/// Steps of Gauss-Newton; it takes about five, more where the law does not fit.
const MOST_STEPS: usize = 50;
/// A step that makes the sum of squares smaller by less than this share is the last.
const SMALLEST_GAIN: f64 = 1e-12;
/// A column that is nearer to the others than this cannot be told from them.
const SMALLEST_ANGLE: f64 = 1e-10;

/// A number of threads and the rate that was measured with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub threads: f64,
    pub rate: f64,
}

/// The law with the parameters that are nearest to the points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Law {
    /// Rate of one thread.
    pub lambda: f64,
    pub sigma: f64,
    pub kappa: f64,
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum NoLaw {
    #[error("it has three parameters, so it takes {FEWEST_POINTS} numbers of threads or more, not {0}")]
    TooFewPoints(usize),
    #[error("tps falls with the number of threads faster than it can; measure fewer threads too")]
    FallsTooFast,
}

impl Law {
    /// The law that has the smallest squares of logarithms of its rates by those measured, so that all points count alike
    /// and twice is as far as half. Points are of different numbers of threads, and positive.
    pub fn fitted(points: &[Point]) -> Result<Law, NoLaw> {
        if points.len() < FEWEST_POINTS {
            return Err(NoLaw::TooFewPoints(points.len()));
        }
        let largest = points.iter().map(|point| point.rate).fold(0.0, f64::max);
        // In units of the largest rate.
        let inverse: Vec<f64> = points.iter().map(|point| point.threads / (point.rate / largest)).collect();
        // The start: relative errors of N/X itself.
        let mut coefficients = nearest(points, &inverse, &vec![1.0; points.len()]);
        let mut error = squares(points, &inverse, coefficients);
        for _ in 0..MOST_STEPS {
            // The logarithm of a sum, beside where it is now, is linear in the coefficients again.
            let at: Vec<f64> = points.iter().map(|point| value(coefficients, point.threads)).collect();
            let wanted: Vec<f64> = inverse.iter().zip(&at).map(|(inverse, at)| 1.0 + (inverse / at).ln()).collect();
            let goal = nearest(points, &at, &wanted);
            // Half a step where a whole one leads too far. All of them keep the bounds, since both ends do.
            let steps = (0..10).map(|halves| 0.5_f64.powi(halves));
            let mut steps = steps.map(|length| between(coefficients, goal, length));
            let Some(next) = steps.find(|next| squares(points, &inverse, *next) < error) else { break };
            let gain = error - squares(points, &inverse, next);
            (coefficients, error) = (next, error - gain);
            if gain <= SMALLEST_GAIN * error {
                break;
            }
        }
        Law::of(coefficients, largest).ok_or(NoLaw::FallsTooFast)
    }

    fn of([constant, linear, square]: [f64; 3], unit: f64) -> Option<Law> {
        let of_one = constant + linear;
        let law = Law { lambda: unit / of_one, sigma: linear / of_one, kappa: square / of_one };
        [law.lambda, law.sigma, law.kappa].iter().all(|parameter| parameter.is_finite()).then_some(law)
    }

    pub fn rate(&self, threads: f64) -> f64 {
        let beyond = threads - 1.0;
        self.lambda * threads / (1.0 + self.sigma * beyond + self.kappa * threads * beyond)
    }

    /// The number of threads with the highest rate, which need not be whole; `None` if the law rises for ever.
    pub fn peak(&self) -> Option<f64> {
        let threads = ((1.0 - self.sigma) / self.kappa).sqrt();
        // 0 by 0 is a rate that is the same at any number.
        if threads.is_nan() { Some(1.0) } else { threads.is_finite().then(|| threads.max(1.0)) }
    }
}

/// What each coefficient stands before.
fn columns(threads: f64) -> [f64; 3] {
    [1.0, threads, threads * (threads - 1.0)]
}

fn value(coefficients: [f64; 3], threads: f64) -> f64 {
    columns(threads).iter().zip(coefficients).map(|(column, coefficient)| column * coefficient).sum()
}

fn between(from: [f64; 3], to: [f64; 3], share: f64) -> [f64; 3] {
    std::array::from_fn(|at| from[at] + share * (to[at] - from[at]))
}

/// Sum of the squared logarithms of the law's values by those measured.
fn squares(points: &[Point], inverse: &[f64], coefficients: [f64; 3]) -> f64 {
    points.iter().zip(inverse).map(|(point, inverse)| (value(coefficients, point.threads) / inverse).ln().powi(2)).sum()
}

/// The coefficients from 0 on whose values, each in its unit, are nearest to what is wanted. The sum of squares is convex, so
/// its least is that of some of the coefficients alone while the others are 0: all seven choices are tried.
fn nearest(points: &[Point], units: &[f64], wanted: &[f64]) -> [f64; 3] {
    let rows: Vec<[f64; 3]> =
        points.iter().zip(units).map(|(point, unit)| columns(point.threads).map(|column| column / unit)).collect();
    let error = |coefficients: [f64; 3]| -> f64 {
        let row = |row: &[f64; 3]| -> f64 {
            row.iter().zip(coefficients).map(|(cell, coefficient)| cell * coefficient).sum()
        };
        rows.iter().zip(wanted).map(|(cells, wanted)| (row(cells) - wanted).powi(2)).sum()
    };
    let choices = (1..8_u8).filter_map(|choice| {
        let chosen: Vec<usize> = (0..3).filter(|at| choice >> at & 1 == 1).collect();
        solved(&rows, wanted, &chosen).filter(|coefficients| coefficients.iter().all(|&coefficient| coefficient >= 0.0))
    });
    choices.min_by(|one, other| error(*one).total_cmp(&error(*other))).unwrap_or_default()
}

/// Least squares of the chosen columns, made orthogonal one after the other (Gram-Schmidt); `None` if they cannot be told apart.
fn solved(rows: &[[f64; 3]], wanted: &[f64], chosen: &[usize]) -> Option<[f64; 3]> {
    let dot = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f64>();
    let mut rest = wanted.to_vec();
    let mut directions: Vec<Vec<f64>> = Vec::new();
    // Of each column its shares of the directions before, then its own length; and the share of what is wanted.
    let (mut lengths, mut shares) = (Vec::<Vec<f64>>::new(), Vec::new());
    for &at in chosen {
        let mut column: Vec<f64> = rows.iter().map(|row| row[at]).collect();
        let whole = dot(&column, &column).sqrt();
        let mut of_column = Vec::new();
        for direction in &directions {
            let share = dot(direction, &column);
            column.iter_mut().zip(direction).for_each(|(cell, along)| *cell -= share * along);
            of_column.push(share);
        }
        let length = dot(&column, &column).sqrt();
        if length.is_nan() || length <= SMALLEST_ANGLE * whole {
            return None;
        }
        column.iter_mut().for_each(|cell| *cell /= length);
        let share = dot(&column, &rest);
        rest.iter_mut().zip(&column).for_each(|(cell, along)| *cell -= share * along);
        of_column.push(length);
        lengths.push(of_column);
        shares.push(share);
        directions.push(column);
    }
    let mut coefficients = [0.0; 3];
    for (place, &at) in chosen.iter().enumerate().rev() {
        let later: f64 =
            (place + 1..chosen.len()).map(|other| lengths[other][place] * coefficients[chosen[other]]).sum();
        coefficients[at] = (shares[place] - later) / lengths[place][place];
    }
    Some(coefficients)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_law(law: Law, threads: &[f64]) -> Vec<Point> {
        threads.iter().map(|&threads| Point { threads, rate: law.rate(threads) }).collect()
    }

    /// Sum of squared logarithms, as the fit has it.
    fn error(law: &Law, points: &[Point]) -> f64 {
        points.iter().map(|point| (law.rate(point.threads) / point.rate).ln().powi(2)).sum()
    }

    fn threads() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::btree_set(1_u32..=2000, 4..12)
            .prop_map(|threads| threads.into_iter().map(f64::from).collect())
    }

    /// Some of them 0, as they are at the bounds.
    fn parameter(most: f64) -> impl Strategy<Value = f64> {
        prop_oneof![1 => Just(0.0), 4 => 0.0..most]
    }

    proptest! {
        #[test]
        fn the_law_itself_is_found_again(
            threads in threads(), lambda in 0.01..1e6_f64, sigma in parameter(1.0), kappa in parameter(0.1)
        ) {
            let law = Law { lambda, sigma, kappa };
            let points = of_law(law, &threads);
            let found = Law::fitted(&points).unwrap();
            for point in &points {
                prop_assert!((found.rate(point.threads) / point.rate - 1.0).abs() < 1e-9, "{found:?}");
            }
            // Far from one thread all that tells sigma from lambda are the last digits.
            if threads[0] == 1.0 && threads[1] <= 16.0 {
                prop_assert!((found.lambda / lambda - 1.0).abs() < 1e-6, "{found:?}");
                prop_assert!((found.sigma - sigma).abs() < 1e-6 && (found.kappa - kappa).abs() < 1e-6, "{found:?}");
            }
        }

        #[test]
        fn no_figures_lead_to_parameters_that_the_law_does_not_have(
            threads in threads(), exponents in prop::collection::vec(-300.0..300.0_f64, 12), narrow in any::<bool>()
        ) {
            let rate = |exponent: f64| 10_f64.powf(if narrow { exponent / 300.0 } else { exponent });
            let points: Vec<Point> = threads.iter().zip(exponents).map(|(&threads, exponent)| Point { threads, rate: rate(exponent) }).collect();
            match Law::fitted(&points) {
                Err(error) => prop_assert_eq!(error, NoLaw::FallsTooFast),
                Ok(law) => {
                    prop_assert!(law.lambda > 0.0 && law.lambda.is_finite(), "{law:?}");
                    prop_assert!((0.0..=1.0).contains(&law.sigma), "{law:?}");
                    prop_assert!(law.kappa >= 0.0 && law.kappa.is_finite(), "{law:?}");
                    prop_assert!(law.peak().is_none_or(|peak| peak >= 1.0 && peak.is_finite()), "{law:?}");
                }
            }
        }

        #[test]
        fn no_law_nearby_is_nearer_to_noisy_figures(
            others in threads(), sigma in parameter(0.5), kappa in parameter(0.01),
            noise in prop::collection::vec(-0.2..0.2_f64, 12), steps in prop::collection::vec(-0.05..0.05_f64, 3)
        ) {
            // With one thread among them there always is a law.
            let threads: Vec<f64> = others.into_iter().filter(|&threads| threads > 1.0).chain([1.0]).collect();
            let mut points = of_law(Law { lambda: 100.0, sigma, kappa }, &threads);
            points.iter_mut().zip(noise).for_each(|(point, noise)| point.rate *= 1.0 + noise);
            let found = Law::fitted(&points).unwrap();
            let moved = Law {
                lambda: found.lambda * (1.0 + steps[0]),
                sigma: (found.sigma + steps[1]).clamp(0.0, 1.0),
                kappa: (found.kappa * (1.0 + steps[2])).max(0.0),
            };
            prop_assert!(error(&found, &points) <= error(&moved, &points) * (1.0 + 1e-6), "{found:?} {moved:?}");
        }
    }

    #[test]
    fn three_points_and_a_rate_that_only_falls_are_no_law() {
        let law = Law { lambda: 1.0, sigma: 0.1, kappa: 0.01 };
        assert_eq!(Law::fitted(&of_law(law, &[1.0, 2.0, 4.0])), Err(NoLaw::TooFewPoints(3)));
        let falling = [8.0, 16.0, 32.0, 64.0].map(|threads: f64| Point { threads, rate: threads.powi(-3) });
        assert_eq!(Law::fitted(&falling), Err(NoLaw::FallsTooFast));
    }

    #[test]
    fn a_peak_is_where_the_law_is_highest() {
        let law = Law { lambda: 10.0, sigma: 0.19, kappa: 0.0001 };
        assert_eq!(law.peak(), Some(90.0));
        assert!(law.rate(90.0) > law.rate(89.0) && law.rate(90.0) > law.rate(91.0));
        assert_eq!(Law { kappa: 0.0, ..law }.peak(), None);
        assert_eq!(Law { sigma: 1.0, ..law }.peak(), Some(1.0));
        assert_eq!(Law { sigma: 1.0, kappa: 0.0, ..law }.peak(), Some(1.0));
    }
}
