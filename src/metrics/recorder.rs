//! Where workers put their samples: a few locked shards, not one for each connection.
//!
//! A worker takes its shard's lock once a transaction. At the end of an interval the engine swaps the shards' open
//! interval for an empty one, so an interval line costs the workers nothing, a stuck worker delays no line, and a
//! thousand connections do not cost a thousand sets of histograms.
//!
//! Invariants: a sample belongs to the window if its transaction ended inside it; every sample is counted exactly once,
//! in the warm-up, in an interval or in the drain. Its interval is the one in which it ended, as long as the engine takes
//! intervals no later than one after their end; what ends later than that is counted in the second open one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{ErrorKey, Histogram, Statements, Tally, histogram};

/// The measured span, in nanoseconds since the run's origin. Its end can be brought forward while workers run.
#[derive(Debug)]
pub struct Window {
    start_ns: u64,
    interval_ns: u64,
    end_ns: AtomicU64,
}

/// Where a point in time lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Warmup,
    Interval(u64),
    Drain,
}

impl Window {
    /// `end_ns` is `u64::MAX` for a run without a time limit. `interval_ns` must not be 0.
    pub fn new(start_ns: u64, end_ns: u64, interval_ns: u64) -> Window {
        assert!(interval_ns > 0, "an interval has a length");
        Window { start_ns, interval_ns, end_ns: AtomicU64::new(end_ns) }
    }

    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// Relaxed, since all a late reader does is one transaction more, which then counts as drained.
    pub fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    /// Ends the window at `now_ns` unless it ends earlier anyway.
    pub fn close(&self, now_ns: u64) {
        self.end_ns.fetch_min(now_ns, Ordering::Relaxed);
    }

    fn place(&self, time_ns: u64) -> Place {
        if time_ns < self.start_ns {
            Place::Warmup
        } else if time_ns >= self.end_ns() {
            Place::Drain
        } else {
            Place::Interval((time_ns - self.start_ns) / self.interval_ns)
        }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    /// Given up, after retries or at once.
    Failed,
    /// There was none: the sample only brings errors met outside of a transaction.
    Nothing,
}

/// One transaction as a worker saw it, whether it committed or not.
#[derive(Debug)]
pub struct Sample<'a> {
    /// When it was due; in a closed loop, when it was sent.
    pub due_ns: u64,
    pub end_ns: u64,
    pub outcome: Outcome,
    /// Statements of the attempt that committed.
    pub statements: Statements,
    /// Latency of each of those statements: index of the statement and nanoseconds.
    pub latencies: &'a [(u16, u64)],
    /// Statements of the attempts before, and of the one that was given up.
    pub failed_statements: Statements,
    pub retries: u32,
    pub errors: &'a [(ErrorKey, String)],
    pub reconnects: u32,
}

struct OpenInterval {
    tally: Tally,
    response: Histogram,
}

impl OpenInterval {
    fn new() -> OpenInterval {
        OpenInterval { tally: Tally::default(), response: histogram() }
    }
}

struct Shard {
    warmup: Tally,
    /// Number of the interval that `open[0]` collects; `open[1]` collects the one after, for samples that end after
    /// the boundary and arrive before the swap.
    number: u64,
    open: [OpenInterval; 2],
    drained: Tally,
    statements: Vec<Histogram>,
    last_end_ns: Option<u64>,
}

impl Shard {
    fn new(statements: usize) -> Shard {
        Shard {
            warmup: Tally::default(),
            number: 0,
            open: [OpenInterval::new(), OpenInterval::new()],
            drained: Tally::default(),
            statements: (0..statements).map(|_| histogram()).collect(),
            last_end_ns: None,
        }
    }

    fn add(&mut self, place: Place, sample: &Sample<'_>) {
        let tally = match place {
            Place::Warmup => &mut self.warmup,
            Place::Drain => &mut self.drained,
            Place::Interval(number) => {
                self.last_end_ns = self.last_end_ns.max(Some(sample.end_ns));
                let open = &mut self.open[usize::from(number > self.number)];
                if sample.outcome == Outcome::Committed {
                    open.response.saturating_record(sample.end_ns.saturating_sub(sample.due_ns));
                    for &(statement, latency_ns) in sample.latencies {
                        self.statements[usize::from(statement)].saturating_record(latency_ns);
                    }
                }
                &mut open.tally
            }
        };
        match sample.outcome {
            Outcome::Committed => {
                tally.transactions += 1;
                tally.statements += sample.statements;
            }
            Outcome::Failed => tally.failed_transactions += 1,
            Outcome::Nothing => {}
        }
        if !sample.errors.is_empty() || sample.reconnects > 0 {
            tally.failed_statements += sample.failed_statements;
            tally.retries += u64::from(sample.retries);
            tally.reconnects += u64::from(sample.reconnects);
            for (key, message) in sample.errors {
                tally.add_error(key, 1, message);
            }
        }
    }
}

/// Padded to a cache line pair, so that workers on different shards do not slow each other down.
#[repr(align(128))]
struct Slot(Mutex<Shard>);

/// Collects the samples of all workers.
pub struct Recorder {
    window: Window,
    shards: Box<[Slot]>,
}

/// What [`Recorder::finish`] hands over, beside the last intervals.
pub struct Remainder {
    pub warmup: Tally,
    pub drained: Tally,
    pub statements: Vec<Histogram>,
}

impl Recorder {
    /// `statements` is how many kinds of statement the samples' latencies name.
    pub fn new(window: Window, shards: usize, statements: usize) -> Recorder {
        let shards = (0..shards.max(1)).map(|_| Slot(Mutex::new(Shard::new(statements)))).collect();
        Recorder { window, shards }
    }

    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Counts one transaction. Costs a lock that is rarely contended and, without errors, no allocation.
    pub fn record(&self, worker: u32, sample: &Sample<'_>) {
        let place = self.window.place(sample.end_ns);
        self.shard(worker as usize % self.shards.len()).add(place, sample);
    }

    /// Takes the oldest open interval of every shard, adding it to `tally` and `response`.
    pub fn take_interval(&self, tally: &mut Tally, response: &mut Histogram) {
        let mut spare = OpenInterval::new();
        for index in 0..self.shards.len() {
            {
                let mut shard = self.shard(index);
                shard.open.swap(0, 1);
                std::mem::swap(&mut shard.open[1], &mut spare);
                shard.number += 1;
            }
            tally.merge(&spare.tally);
            response.add(&spare.response).expect("all histograms have the same range");
            spare.tally.clear();
            spare.response.reset();
        }
    }

    /// Adds the counts of the warm-up and of what is still open, for a look between two intervals.
    pub fn peek(&self, tally: &mut Tally) {
        for index in 0..self.shards.len() {
            let shard = self.shard(index);
            tally.merge(&shard.warmup);
            tally.merge(&shard.open[0].tally);
            tally.merge(&shard.open[1].tally);
        }
    }

    /// When the last transaction inside the window ended; `None` if there was none.
    pub fn last_end_ns(&self) -> Option<u64> {
        (0..self.shards.len()).filter_map(|index| self.shard(index).last_end_ns).max()
    }

    /// Everything that belongs to no interval, once the workers are done.
    pub fn finish(&self) -> Remainder {
        let mut remainder = Remainder { warmup: Tally::default(), drained: Tally::default(), statements: Vec::new() };
        for index in 0..self.shards.len() {
            let shard = self.shard(index);
            remainder.warmup.merge(&shard.warmup);
            remainder.drained.merge(&shard.drained);
            for (statement, latency) in shard.statements.iter().enumerate() {
                if remainder.statements.len() <= statement {
                    remainder.statements.push(histogram());
                }
                remainder.statements[statement].add(latency).expect("all histograms have the same range");
            }
        }
        remainder
    }

    /// A worker that panicked while it held the lock left whole counters behind, so they are still used.
    fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.shards[index].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn committed(end_ns: u64) -> Sample<'static> {
        Sample {
            due_ns: end_ns.saturating_sub(1_000_000),
            end_ns,
            outcome: Outcome::Committed,
            statements: Statements { reads: 10, writes: 0, other: 2 },
            latencies: &[(0, 1_000_000)],
            failed_statements: Statements::default(),
            retries: 0,
            errors: &[],
            reconnects: 0,
        }
    }

    fn take(recorder: &Recorder) -> (Tally, Histogram) {
        let (mut tally, mut response) = (Tally::default(), histogram());
        recorder.take_interval(&mut tally, &mut response);
        (tally, response)
    }

    #[test]
    fn a_sample_is_counted_where_its_transaction_ended() {
        let recorder = Recorder::new(Window::new(SECOND, 3 * SECOND, SECOND), 2, 1);
        for end_ns in [SECOND - 1, SECOND, 2 * SECOND - 1, 2 * SECOND, 3 * SECOND - 1, 3 * SECOND] {
            recorder.record(0, &committed(end_ns));
        }
        assert_eq!(take(&recorder).0.transactions, 2);
        assert_eq!(take(&recorder).0.transactions, 2);
        let rest = recorder.finish();
        assert_eq!((rest.warmup.transactions, rest.drained.transactions), (1, 1));
        assert_eq!(recorder.last_end_ns(), Some(3 * SECOND - 1));
        assert_eq!(rest.statements[0].len(), 4);
    }

    #[test]
    fn a_sample_that_arrives_after_the_swap_is_late_but_not_lost() {
        let recorder = Recorder::new(Window::new(0, 10 * SECOND, SECOND), 1, 1);
        take(&recorder);
        recorder.record(0, &committed(SECOND / 2));
        assert_eq!(take(&recorder).0.transactions, 1);
    }

    #[test]
    fn closing_the_window_early_turns_the_rest_into_drained() {
        let recorder = Recorder::new(Window::new(0, u64::MAX, SECOND), 1, 1);
        recorder.window().close(SECOND / 2);
        recorder.window().close(SECOND);
        recorder.record(0, &committed(SECOND / 2 - 1));
        recorder.record(0, &committed(SECOND / 2));
        assert_eq!(take(&recorder).0.transactions, 1);
        assert_eq!(recorder.finish().drained.transactions, 1);
    }

    #[test]
    fn a_failed_transaction_counts_its_statements_apart_and_has_no_latency() {
        let recorder = Recorder::new(Window::new(0, SECOND, SECOND), 1, 1);
        let key = ErrorKey { code: 1213, sqlstate: "40001".into(), class: "retry", statement: "point_select".into() };
        let errors = [(key.clone(), "Deadlock found".to_string()), (key.clone(), "another text".to_string())];
        let sample = Sample {
            outcome: Outcome::Failed,
            statements: Statements::default(),
            latencies: &[],
            failed_statements: Statements { reads: 1, writes: 2, other: 2 },
            retries: 1,
            errors: &errors,
            ..committed(5)
        };
        recorder.record(0, &sample);
        let (tally, response) = take(&recorder);
        assert_eq!((tally.transactions, tally.failed_transactions, tally.retries), (0, 1, 1));
        assert_eq!(tally.statements.queries(), 0);
        assert_eq!(tally.failed_statements.queries(), 5);
        assert_eq!(tally.errors[&key].count, 2);
        assert_eq!(tally.errors[&key].message, "Deadlock found");
        assert_eq!(tally.failure_rate(), 1.0);
        assert!(response.is_empty());
    }

    proptest! {
        #[test]
        fn intervals_warmup_and_drain_add_up_to_every_sample(
            ends in proptest::collection::vec((0u64..8 * SECOND, 0u32..7), 0..300),
            swaps in 0usize..12,
        ) {
            let recorder = Recorder::new(Window::new(SECOND, 6 * SECOND, SECOND / 2), 3, 1);
            let mut counted = 0;
            let mut latencies = 0;
            for (index, &(end_ns, worker)) in ends.iter().enumerate() {
                recorder.record(worker, &committed(end_ns));
                if index % 30 == 29 && index / 30 < swaps {
                    let (tally, response) = take(&recorder);
                    counted += tally.transactions;
                    latencies += response.len();
                }
            }
            for _ in 0..2 {
                let (tally, response) = take(&recorder);
                counted += tally.transactions;
                latencies += response.len();
            }
            let rest = recorder.finish();
            prop_assert_eq!(counted, latencies);
            prop_assert_eq!(rest.statements[0].len(), counted);
            prop_assert_eq!(counted + rest.warmup.transactions + rest.drained.transactions, ends.len() as u64);
        }
    }
}
