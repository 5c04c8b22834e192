//! The figures to quote of a run, each with its interval of confidence, and how a figure is written.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

use std::fmt::{Display, Formatter};

use super::RunReport;
use crate::metrics::Bounds;

/// A figure to quote; its `Display` has the digits that its interval leaves, and the interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Such as `tps` or `p95`.
    pub name: &'static str,
    /// Of a percentile, which one.
    pub percentile: Option<f64>,
    pub value: f64,
    /// `None` where the run does not tell.
    pub bounds: Option<Bounds>,
}

impl RunReport {
    /// tps, rps and qps.
    pub fn rates(&self) -> [Figure; 3] {
        let (totals, confidence) = (&self.totals, &self.confidence);
        let rate = |name, value, bounds| Figure { name, percentile: None, value, bounds };
        [
            rate("tps", totals.tps, confidence.tps),
            rate("rps", totals.rps, confidence.rps),
            rate("qps", totals.qps, confidence.qps),
        ]
    }

    /// Mean and percentiles of the response time in milliseconds; none where no transaction ended in the window.
    pub fn latencies_ms(&self) -> Vec<Figure> {
        let (response, of) = (&self.latency_us.response, &self.confidence.latency_us);
        if response.count == 0 {
            return Vec::new();
        }
        let in_ms = |bounds: Bounds| Bounds { low: bounds.low / 1e3, high: bounds.high / 1e3 };
        let figure = |(name, percentile, value_us, bounds): (_, _, f64, Option<Bounds>)| Figure {
            name,
            percentile,
            value: value_us / 1e3,
            bounds: bounds.map(in_ms),
        };
        let figures = [
            ("mean", None, response.mean, of.mean),
            ("p50", Some(50.0), response.p50, of.p50),
            ("p90", Some(90.0), response.p90, of.p90),
            ("p95", Some(95.0), response.p95, of.p95),
            ("p99", Some(99.0), response.p99, of.p99),
            ("p99.9", Some(99.9), response.p999, of.p999),
        ];
        figures.map(figure).into()
    }
}

impl Figure {
    /// The value with the digits that its interval leaves.
    pub fn shown_value(&self) -> String {
        grouped(self.value, self.decimals())
    }

    /// Its interval behind the value. One of a percentile, or one that ends at 0, need not reach as far up as down.
    pub fn shown_interval(&self) -> Option<String> {
        let Bounds { low, high } = self.bounds?;
        let decimals = self.decimals();
        let above = grouped(high - self.value, decimals);
        Some(match self.percentile.is_none() && grouped(self.value - low, decimals) == above {
            true => format!("± {above}"),
            false => format!("({} to {})", grouped(low, decimals), grouped(high, decimals)),
        })
    }

    fn decimals(&self) -> usize {
        decimals(self.value, self.bounds.map_or(0.0, |Bounds { low, high }| (high - low) / 2.0))
    }
}

/// Decimals that show two digits of the error; of milliseconds, none below the nanosecond.
pub fn decimals(value: f64, error: f64) -> usize {
    // Without an error, as if it were a hundredth.
    let error = if error > 0.0 { error } else { value / 100.0 };
    if error > 0.0 { (1.0 - error.log10().floor()).clamp(0.0, 6.0) as usize } else { 0 }
}

/// A value and the ends of its interval, with the digits that it leaves. An end that these would make 0 of, as where an
/// interval reaches over orders of magnitude, has two digits of its own.
pub fn with_ends(value: f64, bounds: Option<Bounds>) -> String {
    let Some(Bounds { low, high }) = bounds else {
        return format!("{} (no interval)", grouped(value, decimals(value, 0.0)));
    };
    let shared = decimals(value, (high - low) / 2.0);
    let [value, low, high] = [value, low, high].map(|each| match each * 10f64.powi(shared as i32) {
        below if below > 0.0 && below < 1.0 && each < 1e-6 => format!("{each:.1e}"),
        below if below > 0.0 && below < 1.0 => grouped(each, decimals(each, each)),
        _ => grouped(each, shared),
    });
    format!("{value} ({low} to {high})")
}

impl Display for Figure {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        let interval = self.shown_interval();
        write!(formatter, "{} {}", self.shown_value(), interval.as_deref().unwrap_or("(no interval)"))
    }
}

/// A figure with its thousands apart, as in 46,144.5.
pub fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// A number of things by their singular.
pub fn counted(count: u64, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_their_error_leaves() {
        let figure = |value, bounds| Figure { name: "tps", percentile: None, value, bounds };
        let around = |value: f64, error: f64| Some(Bounds { low: value - error, high: value + error });
        for (value, error, expected) in [
            (2884.4, 35.2, "2,884 ± 35"),
            (1_234_567.8, 4567.0, "1,234,568 ± 4,567"),
            (2884.43, 3.521, "2,884.4 ± 3.5"),
            (0.9876, 0.00012, "0.98760 ± 0.00012"),
            (1000.0, 0.0, "1,000 ± 0"),
            (12.5, 0.0, "12.50 ± 0.00"),
        ] {
            assert_eq!(figure(value, around(value, error)).to_string(), expected);
        }
        assert_eq!(figure(2884.43, None).to_string(), "2,884 (no interval)");
        assert_eq!(figure(2.5, None).to_string(), "2.500 (no interval)");
        let clamped = Some(Bounds { low: 0.0, high: 798.6 });
        assert_eq!(figure(388.2, clamped).to_string(), "388 (0 to 799)");
        assert_eq!(with_ends(0.9, Some(Bounds { low: 0.88, high: 0.92 })), "0.900 (0.880 to 0.920)");
        assert_eq!(with_ends(0.5, Some(Bounds { low: 0.0123, high: 310.0 })), "0.50 (0.012 to 310)");
        assert_eq!(with_ends(0.3, Some(Bounds { low: 2.5e-9, high: 310.0 })), "0.30 (2.5e-9 to 310)");
        let bounds = Some(Bounds { low: 5.051, high: 5.212 });
        let percentile = Figure { name: "p95", percentile: Some(95.0), value: 5.120, bounds };
        assert_eq!(percentile.to_string(), "5.120 (5.051 to 5.212)");
    }
}
