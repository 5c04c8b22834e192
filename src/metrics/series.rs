//! The run as a series of intervals: collects the slices that the recorder hands over, and reduces what is over to figures.
//!
//! An interval stays open for [`SETTLING_NS`] after its end, for samples that a worker was late to hand in (it may be
//! preempted between its clock and its shard); then its histogram becomes a few figures, so that a day of intervals
//! needs no memory to speak of.
//!
//! Invariant: the intervals add up to the totals. A sample that is later still is counted in the oldest open interval.
//! Must not import anything of the crate but `metrics`.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use super::blocks::{Block, Blocks};
use super::{Histogram, Tally, Window};

/// How long after its end an interval still takes samples.
const SETTLING_NS: u64 = 1_000_000_000;

/// One interval of the series.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Seconds since the window's start.
    pub start_s: f64,
    pub end_s: f64,
    /// When it ended, by the wall clock.
    pub ended_at: SystemTime,
    pub tally: Tally,
    /// `None` where no transaction ended.
    pub response: Option<IntervalLatency>,
    /// How things stood when the interval was told.
    pub now: Now,
    /// Transactions of an open loop that were due in the interval; known once the run is over.
    pub due: Option<u64>,
}

/// How things stand at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Now {
    /// Age of the oldest transaction in flight; `None` where there is none.
    pub oldest: Option<Duration>,
    /// Transactions of an open loop that are due and not begun.
    pub backlog: Option<u64>,
}

/// Response times of one interval in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IntervalLatency {
    pub mean_us: f64,
    pub p50_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
}

impl IntervalLatency {
    pub fn of(response: &Histogram) -> Option<IntervalLatency> {
        (!response.is_empty()).then(|| IntervalLatency {
            mean_us: response.mean_us(),
            p50_us: response.percentile_us(50.0),
            p95_us: response.percentile_us(95.0),
            p99_us: response.percentile_us(99.0),
            max_us: response.max_us(),
        })
    }
}

#[derive(Default)]
struct Open {
    tally: Tally,
    response: Histogram,
    now: Now,
}

/// The intervals of a window, from the first to the latest that was heard of.
pub struct Series {
    started_at: SystemTime,
    settled: Vec<Interval>,
    /// Those after the settled ones, without a gap.
    open: VecDeque<Open>,
    blocks: Blocks,
    /// Sums of the settled ones.
    tally: Tally,
    response: Histogram,
}

/// All intervals and their sums.
pub struct Finished {
    pub intervals: Vec<Interval>,
    pub blocks: Vec<Block>,
    pub tally: Tally,
    pub response: Histogram,
}

impl Series {
    /// `started_at` is the window's start by the wall clock.
    pub fn new(started_at: SystemTime, window: &Window) -> Series {
        Series {
            started_at,
            settled: Vec::new(),
            open: VecDeque::new(),
            blocks: Blocks::new(window),
            tally: Tally::default(),
            response: Histogram::default(),
        }
    }

    /// Adds counts of a slice.
    pub fn add(&mut self, slice: u64, window: &Window, tally: &Tally, response: &Histogram) {
        self.blocks.add(slice, tally, response);
        let open = self.open(window.interval_of(slice));
        open.tally.merge(tally);
        open.response.add(response);
    }

    /// Interval `number` as far as it is known, with its response times; it is told `now`.
    pub fn interval(&mut self, number: u64, now: Now, window: &Window) -> (Interval, &Histogram) {
        let started_at = self.started_at;
        let open = self.open(number);
        open.now = now;
        (open.figures(number, window, started_at), &open.response)
    }

    /// Reduces the intervals that ended long enough before `now_ns`.
    pub fn settle(&mut self, now_ns: u64, window: &Window) {
        while window.interval_end_ns(self.settled.len() as u64).saturating_add(SETTLING_NS) <= now_ns {
            let Some(oldest) = self.open.pop_front() else { return };
            self.settle_one(&oldest, window);
        }
    }

    fn settle_one(&mut self, oldest: &Open, window: &Window) {
        self.tally.merge(&oldest.tally);
        self.response.add(&oldest.response);
        self.settled.push(oldest.figures(self.settled.len() as u64, window, self.started_at));
    }

    /// Ends the series with the window, whose end is known now.
    pub fn finish(mut self, window: &Window) -> Finished {
        let count = window.intervals();
        if count > 0 {
            self.open(count - 1);
        }
        while let Some(oldest) = self.open.pop_front() {
            self.settle_one(&oldest, window);
        }
        // A window that was closed early has no intervals after its end. What they hold are errors met outside of a
        // transaction, and they belong to the last one.
        let after = self.settled.split_off(self.settled.len().min(count as usize));
        if let Some(last) = self.settled.last_mut() {
            after.iter().for_each(|interval| last.tally.merge(&interval.tally));
            last.end_s = seconds(window.length_ns());
            last.ended_at = self.started_at + Duration::from_nanos(window.length_ns());
        }
        Finished {
            intervals: self.settled,
            blocks: self.blocks.finish(window),
            tally: self.tally,
            response: self.response,
        }
    }

    fn open(&mut self, number: u64) -> &mut Open {
        let index = number.saturating_sub(self.settled.len() as u64) as usize;
        while self.open.len() <= index {
            self.open.push_back(Open::default());
        }
        &mut self.open[index]
    }
}

impl Open {
    fn figures(&self, number: u64, window: &Window, started_at: SystemTime) -> Interval {
        let since_start = |time_ns: u64| time_ns.min(window.end_ns()).saturating_sub(window.start_ns());
        let start_ns = number.checked_sub(1).map_or(0, |before| since_start(window.interval_end_ns(before)));
        let end_ns = since_start(window.interval_end_ns(number));
        Interval {
            start_s: seconds(start_ns),
            end_s: seconds(end_ns),
            ended_at: started_at + Duration::from_nanos(end_ns),
            tally: self.tally.clone(),
            response: IntervalLatency::of(&self.response),
            now: self.now,
            due: None,
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn transactions(count: u64, latency_us: u64) -> (Tally, Histogram) {
        let mut response = Histogram::default();
        (0..count).for_each(|_| response.record(latency_us * 1000));
        (Tally { transactions: count, ..Tally::default() }, response)
    }

    /// Adds transactions of one latency to an interval of a second.
    fn add(series: &mut Series, number: u64, count: u64, latency_us: u64) {
        let (tally, response) = transactions(count, latency_us);
        series.add(10 * number, &Window::new(0, u64::MAX, SECOND), &tally, &response);
    }

    fn series(parts: &[(u64, u64)]) -> Series {
        let mut series = Series::new(SystemTime::UNIX_EPOCH, &Window::new(0, u64::MAX, SECOND));
        for &(number, count) in parts {
            add(&mut series, number, count, 100);
        }
        series
    }

    fn counts(finished: &Finished) -> Vec<u64> {
        finished.intervals.iter().map(|interval| interval.tally.transactions).collect()
    }

    #[test]
    fn intervals_fill_the_window_even_where_nothing_happened() {
        let window = Window::new(SECOND, SECOND + 3 * SECOND + SECOND / 2, SECOND);
        let finished = series(&[(1, 5)]).finish(&window);
        assert_eq!(counts(&finished), [0, 5, 0, 0]);
        let ends: Vec<_> = finished.intervals.iter().map(|interval| (interval.start_s, interval.end_s)).collect();
        assert_eq!(ends, [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 3.5)]);
        assert!(finished.intervals[0].response.is_none());
        assert_eq!(finished.intervals[3].ended_at, SystemTime::UNIX_EPOCH + Duration::from_millis(3500));
    }

    #[test]
    fn a_late_sample_finds_its_interval_until_that_has_settled() {
        let window = Window::new(0, 10 * SECOND, SECOND);
        let mut series = series(&[(0, 1), (1, 1)]);
        series.settle(2 * SECOND - 1, &window);
        add(&mut series, 0, 1, 300);
        assert_eq!(series.interval(0, Now::default(), &window).0.tally.transactions, 2);
        series.settle(2 * SECOND, &window);
        add(&mut series, 0, 1, 300);
        let finished = series.finish(&window);
        assert_eq!(counts(&finished)[..3], [2, 2, 0]);
        assert_eq!(finished.intervals[0].response.unwrap().max_us, 300.0);
        assert_eq!((finished.tally.transactions, finished.response.len()), (4, 4));
    }

    #[test]
    fn a_window_that_is_cut_after_its_last_transaction_ends_there() {
        let window = Window::new(0, SECOND + SECOND / 4, SECOND);
        let mut series = series(&[(0, 3), (1, 2), (2, 0)]);
        // Interval lines were made for three seconds before it was known that there is nothing after 1.25.
        series.settle(5 * SECOND, &Window::new(0, u64::MAX, SECOND));
        let finished = series.finish(&window);
        assert_eq!(counts(&finished), [3, 2]);
        assert_eq!(finished.intervals[1].end_s, 1.25);
    }

    #[test]
    fn a_window_without_length_has_no_intervals() {
        let finished = series(&[]).finish(&Window::new(SECOND, SECOND, SECOND));
        assert!(finished.intervals.is_empty());
    }
}
