//! Which charts a run has: its intervals, and the curve of its latency percentiles.

use maud::{Markup, html};

use super::chart::{Axis, Chart, Line, Point, place_of};
use crate::metrics::histogram::percentile_us;
use crate::report::figures::grouped;
use crate::report::{Latency, RunReport, SeriesEntry};

/// More points than a chart is pixels wide would only make the file larger.
const MOST_POINTS: usize = 720;
/// Distance of the points of the percentile curve, on its axis.
const CURVE_STEP: f64 = 0.05;

type Count = fn(&SeriesEntry) -> u64;

pub fn charts(report: &RunReport) -> Markup {
    let series = Series::of(&report.series);
    let charts = [series.rates(), series.latencies(), series.errors(), series.backlog(), curve(report)];
    html! { @for chart in charts.into_iter().flatten() { (chart.figure()) } }
}

/// The intervals of a run, several of a long one taken together.
struct Series<'a> {
    groups: Vec<&'a [SeriesEntry]>,
    size: usize,
}

impl<'a> Series<'a> {
    fn of(series: &'a [SeriesEntry]) -> Series<'a> {
        let size = series.len().div_ceil(MOST_POINTS).max(1);
        Series { groups: series.chunks(size).collect(), size }
    }

    fn chart(&self, title: &'static str, how: &str, y: Axis, lines: Vec<Line>) -> Option<Chart> {
        let seconds = |at: f64| format!("{}", (at * 1e3).round() / 1e3);
        let place = |group: &&[SeriesEntry]| {
            let (first, last) = (group.first()?, group.last()?);
            let head = format!("{} to {} s", seconds(first.start_s), seconds(last.end_s));
            Some(((first.start_s + last.end_s) / 2.0, head))
        };
        let places: Vec<_> = self.groups.iter().filter_map(place).collect();
        let end_s = self.groups.last()?.last()?.end_s;
        let note = match self.size {
            1 => String::new(),
            size => format!("Each point is {size} intervals: {how}."),
        };
        Some(Chart { title: title.into(), note, x: Axis::time(end_s), y, places, lines })
    }

    /// A count a second, for each point.
    fn per_second(&self, name: &'static str, count: impl Fn(&SeriesEntry) -> f64) -> Line {
        let point = |group: &&[SeriesEntry]| {
            let seconds: f64 = group.iter().map(|interval| interval.end_s - interval.start_s).sum();
            let rate = group.iter().map(&count).sum::<f64>() / seconds;
            rate.is_finite().then(|| Point {
                at: rate,
                spread: None,
                said: grouped(rate, if rate < 100.0 { 2 } else { 1 }),
            })
        };
        Line { name: name.into(), points: self.groups.iter().map(point).collect() }
    }

    /// The highest of a group, for each point.
    fn highest(&self, name: &'static str, value: impl Fn(&SeriesEntry) -> Option<f64>) -> Line {
        let highest = |group: &&[SeriesEntry]| group.iter().filter_map(&value).reduce(f64::max);
        let point = |at: f64| Point { at, spread: None, said: grouped(at, 0) };
        Line { name: name.into(), points: self.groups.iter().map(highest).map(|value| value.map(point)).collect() }
    }

    fn rates(&self) -> Option<Chart> {
        let mut lines = vec![self.per_second("tps", |interval| interval.transactions as f64)];
        if self.has(|interval| interval.due.is_some()) {
            lines.push(self.per_second("due", |interval| interval.due.unwrap_or(0) as f64));
        }
        let axis = Axis::linear("transactions a second", greatest(&lines));
        self.chart("Transactions a second", "their mean rate", axis, lines)
    }

    fn latencies(&self) -> Option<Chart> {
        let in_ms = |name, value_us: fn(&SeriesEntry) -> Option<f64>| {
            let line = self.highest(name, move |interval| value_us(interval).map(|us| us / 1e3));
            Line {
                points: line.points.into_iter().map(|point| logarithm(point.map(|point| point.at))).collect(),
                ..line
            }
        };
        let lines = vec![
            in_ms("p50", |interval| interval.p50_us),
            in_ms("p95", |interval| interval.p95_us),
            in_ms("p99", |interval| interval.p99_us),
            in_ms("max", |interval| interval.max_us),
        ];
        let values = lines.iter().flat_map(|line| line.points.iter().flatten()).map(|point| 10_f64.powf(point.at));
        let axis = Axis::logarithmic("ms", values);
        self.has(|interval| interval.max_us.is_some())
            .then(|| self.chart("Response time (ms)", "the highest of their percentiles", axis, lines))?
    }

    fn errors(&self) -> Option<Chart> {
        let all: [(_, Count); 4] = [
            ("errors", |interval| interval.errors),
            ("retries", |interval| interval.retries),
            ("failed transactions", |interval| interval.failed_transactions),
            ("reconnects", |interval| interval.reconnects),
        ];
        let some = all.into_iter().filter(|(_, count)| self.has(|interval| count(interval) > 0));
        let lines: Vec<Line> =
            some.map(|(name, count)| self.per_second(name, move |interval| count(interval) as f64)).collect();
        let axis = Axis::linear("a second", greatest(&lines));
        if lines.is_empty() { None } else { self.chart("Errors a second", "their mean rate", axis, lines) }
    }

    fn backlog(&self) -> Option<Chart> {
        let lines = vec![self.highest("backlog", |interval| interval.backlog.map(|count| count as f64))];
        // At least so many, since there is no half of one.
        let axis = Axis::linear("transactions", greatest(&lines).max(5.0));
        self.has(|interval| interval.backlog.is_some())
            .then(|| self.chart("Due and not begun", "the highest of them", axis, lines))?
    }

    fn has(&self, what: impl Fn(&SeriesEntry) -> bool) -> bool {
        self.groups.iter().copied().flatten().any(what)
    }
}

fn greatest(lines: &[Line]) -> f64 {
    lines.iter().flat_map(|line| line.points.iter().flatten()).map(|point| point.at).fold(0.0, f64::max)
}

/// A latency at its place on a logarithmic axis.
fn logarithm(ms: Option<f64>) -> Option<Point> {
    ms.filter(|ms| *ms > 0.0).map(|ms| Point { at: ms.log10(), spread: None, said: grouped(ms, 3) })
}

/// Latency by percentile, as far as there are transactions beyond it.
fn curve(report: &RunReport) -> Option<Chart> {
    let count = report.latency_us.response.count;
    if count < 2 {
        return None;
    }
    let high = (count as f64).log10();
    let steps = (high / CURVE_STEP).floor() as u32;
    let mut percentiles: Vec<f64> =
        (0..=steps).map(|step| 100.0 * (1.0 - 10_f64.powf(-CURVE_STEP * f64::from(step)))).collect();
    // Those that have names are among the tooltips.
    percentiles.extend([50.0, 90.0, 95.0, 99.0, 99.9, 99.99].into_iter().filter(|&named| place_of(named) <= high));
    percentiles.sort_by(f64::total_cmp);
    percentiles.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    let line = |name, latency: &Latency| {
        let buckets = latency.buckets()?;
        let ms = |percentile| percentile_us(&buckets, percentile, latency.min, latency.max) / 1e3;
        Some(Line {
            name: String::from(name),
            points: percentiles.iter().map(|&percentile| logarithm(Some(ms(percentile)))).collect(),
        })
    };
    let mut lines = vec![line("response", &report.latency_us.response)?];
    if report.open_loop.is_some() {
        lines.extend(line("service", &report.latency_us.service));
    }
    let values = lines.iter().flat_map(|line| line.points.iter().flatten()).map(|point| 10_f64.powf(point.at));
    let axis = Axis::logarithmic("ms", values);
    let named = |&percentile: &f64| (place_of(percentile), format!("p{}", (percentile * 1e6).round() / 1e6));
    Some(Chart {
        title: "Latency by percentile (ms)".into(),
        note: "Of the whole window.".into(),
        x: Axis::percentiles(high),
        y: axis,
        places: percentiles.iter().map(named).collect(),
        lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn many_intervals_are_taken_together_by_mean_rate_and_highest_latency() {
        let first = example::saved("a.json").report.series.remove(0);
        let interval = |number: u32| SeriesEntry {
            start_s: f64::from(number),
            end_s: f64::from(number + 1),
            transactions: u64::from(number),
            max_us: (number != 2).then_some(1e3 * f64::from(number)),
            ..first.clone()
        };
        let intervals: Vec<SeriesEntry> = (0..1441).map(interval).collect();
        let series = Series::of(&intervals);
        let rates = series.rates().unwrap();
        assert_eq!((rates.places.len(), series.size), (481, 3));
        assert!(rates.note.contains("3 intervals: their mean rate"), "{}", rates.note);
        assert_eq!(rates.places[0], (1.5, "0 to 3 s".into()));
        let point = |at, said: &str| Some(Point { at, spread: None, said: said.into() });
        assert_eq!(rates.lines[0].points[0], point(1.0, "1.00"));
        // The last group has one interval.
        assert_eq!(rates.lines[0].points[480], point(1440.0, "1,440.0"));
        let latencies = series.latencies().unwrap();
        assert_eq!(latencies.lines[3].points[0], point(0.0, "1.000"));
    }

    #[test]
    fn the_curve_goes_as_far_as_there_are_transactions() {
        let curve = curve(&example::report()).unwrap();
        let (last, median) = (curve.places.last().unwrap(), curve.places.iter().position(|place| place.1 == "p50"));
        assert!(last.0 <= 1001_f64.log10() && last.0 > 2.9, "{last:?}");
        assert_eq!(curve.lines[0].points[median.unwrap()].as_ref().unwrap().said, "1.500");
    }

    #[test]
    fn what_did_not_happen_has_no_chart() {
        let series = Series::of(&[]);
        assert!(series.rates().is_none() && series.errors().is_none() && series.backlog().is_none());
    }
}
