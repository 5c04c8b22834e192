//! Where workers put their samples: a few locked shards, not one for each connection.
//!
//! A worker takes its shard's lock once a transaction. The window is cut into slices, of which intervals consist. Each
//! shard keeps its open slices by number and the engine takes those that are over, so an interval line costs the workers
//! nothing, a stuck worker delays no line, an engine that is late puts no sample into a wrong slice, and a thousand
//! connections do not cost a thousand sets of histograms.
//!
//! Invariants: a sample belongs to the window if its transaction ended inside it, and to the slice in which it ended;
//! every sample is counted exactly once, in the warm-up, in a slice or in the drain. Must not import anything of the
//! crate but `metrics`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::outages::{Away, Outages};
use super::{ErrorKey, Histogram, Statements, Tally};

/// The longest slice. Most intervals are cut into slices of this length, none into shorter ones than half of it.
const LONGEST_SLICE_NS: u64 = 100_000_000;

/// The measured span, in nanoseconds since the run's origin. Its end can be brought forward while workers run.
#[derive(Debug)]
pub struct Window {
    start_ns: u64,
    slice_ns: u64,
    /// How many slices an interval has.
    slices: u64,
    end_ns: AtomicU64,
}

/// Where a point in time lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Warmup,
    Slice(u64),
    Drain,
}

impl Window {
    /// `end_ns` is `u64::MAX` for a run without a time limit. `interval_ns` must not be 0.
    pub fn new(start_ns: u64, end_ns: u64, interval_ns: u64) -> Window {
        assert!(interval_ns > 0, "an interval has a length");
        let fewest = interval_ns.div_ceil(LONGEST_SLICE_NS);
        // Below twice as many there is one for every interval of whole milliseconds, and others are refused.
        let slices = (fewest..2 * fewest).find(|slices| interval_ns.is_multiple_of(*slices)).unwrap_or(1);
        Window { start_ns, slice_ns: interval_ns / slices, slices, end_ns: AtomicU64::new(end_ns) }
    }

    pub fn slice_ns(&self) -> u64 {
        self.slice_ns
    }

    /// When a slice ends, unless the window ends before.
    pub fn slice_end_ns(&self, slice: u64) -> u64 {
        self.start_ns.saturating_add(self.slice_ns.saturating_mul(slice.saturating_add(1)))
    }

    /// Which interval a slice is a part of.
    pub fn interval_of(&self, slice: u64) -> u64 {
        slice / self.slices
    }

    fn interval_ns(&self) -> u64 {
        self.slice_ns * self.slices
    }

    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Relaxed, since all a late reader does is one transaction more, which then counts as drained.
    pub fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    /// Nanoseconds from the start to the end; 0 for a window that was closed before it began.
    pub fn length_ns(&self) -> u64 {
        self.end_ns().saturating_sub(self.start_ns)
    }

    /// When interval `number` ends, unless the window ends before.
    pub fn interval_end_ns(&self, number: u64) -> u64 {
        self.start_ns.saturating_add(self.interval_ns().saturating_mul(number.saturating_add(1)))
    }

    /// How many intervals the window has, the last of which may be shorter.
    pub fn intervals(&self) -> u64 {
        self.length_ns().div_ceil(self.interval_ns())
    }

    fn contains(&self, time_ns: u64) -> bool {
        self.start_ns <= time_ns && time_ns < self.end_ns()
    }

    fn place(&self, time_ns: u64) -> Place {
        if time_ns < self.start_ns {
            Place::Warmup
        } else if time_ns >= self.end_ns() {
            Place::Drain
        } else {
            Place::Slice((time_ns - self.start_ns) / self.slice_ns)
        }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    /// Given up, after retries or at once.
    Failed,
    /// The same, and the error was the end of its connection.
    Lost,
    /// Given up for an error that is no failure.
    Ignored,
    /// There was none: the sample only brings errors met outside of a transaction.
    Nothing,
}

/// How a transaction of an open loop began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paced {
    pub begun_ns: u64,
    /// Whether its worker had nothing to do and waited for it to be due, so that it begins late only as the timer is.
    pub slept: bool,
}

/// What a sample says of its worker's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// It was there, or still is not.
    Unchanged,
    /// The transaction's error cost it.
    Lost,
    /// It was opened again, which took so long.
    Reopened { took_ns: u64 },
    /// The transaction is the first to commit since it was lost.
    Back,
}

/// One transaction as a worker saw it, whether it committed or not.
#[derive(Debug)]
pub struct Sample<'a> {
    /// When it was due; in a closed loop, when it was sent.
    pub due_ns: u64,
    pub end_ns: u64,
    /// `None` in a closed loop, in which a transaction begins when it is due.
    pub paced: Option<Paced>,
    pub outcome: Outcome,
    /// Statements of the attempt that committed.
    pub statements: Statements,
    /// Latency of each of those statements: index of the statement and nanoseconds.
    pub latencies: &'a [(u16, u64)],
    /// Statements of the attempts before, and of the one that was given up.
    pub failed_statements: Statements,
    pub retries: u32,
    pub errors: &'a [(ErrorKey, String)],
    pub connection: Connection,
    /// Nanoseconds that each statement took that was prepared on the way.
    pub prepares: &'a [u64],
    pub turned_to_text: bool,
}

impl Sample<'_> {
    /// From its begin to its end.
    fn service_ns(&self) -> u64 {
        let begun_ns = self.paced.map_or(self.due_ns, |paced| paced.begun_ns);
        self.end_ns.saturating_sub(begun_ns)
    }
}

/// What a shard has collected of one slice.
struct OpenSlice {
    number: u64,
    tally: Tally,
    response: Histogram,
}

impl OpenSlice {
    fn new() -> OpenSlice {
        OpenSlice { number: 0, tally: Tally::default(), response: Histogram::default() }
    }
}

/// Transactions of all phases by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    pub committed: u64,
    pub failed: u64,
    /// Of those that failed, the ones whose error cost the connection.
    pub lost: u64,
}

impl Outcomes {
    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Committed => self.committed += 1,
            Outcome::Failed | Outcome::Lost => {
                self.failed += 1;
                self.lost += u64::from(outcome == Outcome::Lost);
            }
            Outcome::Ignored | Outcome::Nothing => {}
        }
    }
}

/// Emptied slices that a shard keeps for its next ones, so that a new one is not allocated under its lock.
const SPARES: usize = 2;

struct Shard {
    warmup: Tally,
    /// The slices that were not taken yet: one or two, more while the engine is late.
    open: Vec<OpenSlice>,
    spares: Vec<OpenSlice>,
    drained: Tally,
    statements: Vec<Histogram>,
    prepares: Histogram,
    reconnects: Histogram,
    /// Of an open loop: from a transaction's begin to its end, and from when one was due to when its waiting worker began
    /// it.
    service: Histogram,
    lateness: Histogram,
    /// When the last transaction inside the window ended.
    last_end_ns: Option<u64>,
    outcomes: Outcomes,
}

impl Shard {
    fn new(statements: usize) -> Shard {
        Shard {
            warmup: Tally::default(),
            open: Vec::with_capacity(2 * SPARES),
            spares: (0..SPARES).map(|_| OpenSlice::new()).collect(),
            drained: Tally::default(),
            statements: (0..statements).map(|_| Histogram::default()).collect(),
            prepares: Histogram::default(),
            reconnects: Histogram::default(),
            service: Histogram::default(),
            lateness: Histogram::default(),
            last_end_ns: None,
            outcomes: Outcomes::default(),
        }
    }

    /// `due_inside` is whether the transaction is one of an open loop and was due in the window.
    fn add(&mut self, place: Place, due_inside: bool, sample: &Sample<'_>) {
        self.outcomes.count(sample.outcome);
        let tally = match place {
            Place::Warmup => &mut self.warmup,
            Place::Drain => &mut self.drained,
            Place::Slice(number) => self.measure(number, due_inside, sample),
        };
        count(tally, due_inside, sample);
    }

    /// Records what took how long inside the window, and gives the tally of its slice.
    fn measure(&mut self, number: u64, due_inside: bool, sample: &Sample<'_>) -> &mut Tally {
        if sample.outcome != Outcome::Nothing {
            self.last_end_ns = self.last_end_ns.max(Some(sample.end_ns));
        }
        let open = open_slice(&mut self.open, &mut self.spares, number);
        if sample.outcome == Outcome::Committed {
            // What was due before the window may have waited in the warm-up, which is none of its business.
            if due_inside || sample.paced.is_none() {
                open.response.record(sample.end_ns.saturating_sub(sample.due_ns));
            }
            if sample.paced.is_some() {
                self.service.record(sample.service_ns());
            }
            for &(statement, latency_ns) in sample.latencies {
                self.statements[usize::from(statement)].record(latency_ns);
            }
        }
        if let Some(paced) = sample.paced.filter(|paced| paced.slept) {
            self.lateness.record(paced.begun_ns.saturating_sub(sample.due_ns));
        }
        for &took_ns in sample.prepares {
            self.prepares.record(took_ns);
        }
        if let Connection::Reopened { took_ns } = sample.connection {
            self.reconnects.record(took_ns);
        }
        &mut open.tally
    }

    /// Takes one slice of a number below `before`. It neither allocates nor gives memory back, which the next sample
    /// would have to ask for again.
    fn take(&mut self, before: u64) -> Option<OpenSlice> {
        let index = self.open.iter().position(|open| open.number < before)?;
        Some(self.open.remove(index))
    }
}

fn count(tally: &mut Tally, due_inside: bool, sample: &Sample<'_>) {
    match sample.outcome {
        Outcome::Committed => {
            tally.transactions += 1;
            tally.statements += sample.statements;
        }
        Outcome::Failed | Outcome::Lost => {
            tally.failed_transactions += 1;
            tally.lost_transactions += u64::from(sample.outcome == Outcome::Lost);
            tally.given_up_ns += sample.service_ns();
        }
        Outcome::Ignored => {
            tally.ignored_transactions += 1;
            tally.given_up_ns += sample.service_ns();
        }
        Outcome::Nothing => {}
    }
    tally.due_inside += u64::from(due_inside && sample.outcome != Outcome::Nothing);
    match sample.connection {
        Connection::Lost => tally.lost_connections += 1,
        Connection::Reopened { .. } => tally.reconnects += 1,
        Connection::Unchanged | Connection::Back => {}
    }
    if !sample.errors.is_empty() {
        tally.failed_statements += sample.failed_statements;
        tally.retries += u64::from(sample.retries);
        for (key, message) in sample.errors {
            tally.add_error(key, 1, message);
        }
    }
    tally.prepares += sample.prepares.len() as u64;
    tally.turned_to_text += u64::from(sample.turned_to_text);
}

/// The open slice of this number, which is the last one but around a boundary.
fn open_slice<'a>(open: &'a mut Vec<OpenSlice>, spares: &mut Vec<OpenSlice>, number: u64) -> &'a mut OpenSlice {
    let index = open.iter().rposition(|open| open.number == number).unwrap_or_else(|| {
        open.push(OpenSlice { number, ..spares.pop().unwrap_or_else(OpenSlice::new) });
        open.len() - 1
    });
    &mut open[index]
}

/// Padded to a cache line pair, so that workers on different shards do not slow each other down.
#[repr(align(128))]
struct Slot(Mutex<Shard>);

/// The shards of a recorder to come, allocated before the clock of its window starts.
pub struct Shards(Box<[Slot]>);

impl Shards {
    /// `statements` is how many kinds of statement the samples' latencies name.
    pub fn new(count: usize, statements: usize) -> Shards {
        Shards((0..count.max(1)).map(|_| Slot(Mutex::new(Shard::new(statements)))).collect())
    }
}

/// Collects the samples of all workers.
pub struct Recorder {
    window: Window,
    shards: Box<[Slot]>,
    /// Locked inside a shard's lock, by the few samples that lose a connection or are the first after that.
    away: Mutex<Away>,
}

/// What [`Recorder::finish`] hands over, beside the slices.
pub struct Remainder {
    pub warmup: Tally,
    pub drained: Tally,
    pub statements: Vec<Histogram>,
    pub prepares: Histogram,
    pub reconnects: Histogram,
    pub service: Histogram,
    pub lateness: Histogram,
}

impl Recorder {
    /// Of so many `connections`, whose workers have the numbers from 0.
    pub fn new(window: Window, shards: Shards, connections: u32) -> Recorder {
        Recorder { window, shards: shards.0, away: Mutex::new(Away::new(connections)) }
    }

    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Counts one transaction. Costs a lock that is rarely contended and, without errors, no allocation but for the first
    /// sample of a slice that finds no spare one.
    pub fn record(&self, worker: u32, sample: &Sample<'_>) {
        let mut shard = self.shard(worker as usize % self.shards.len());
        // Under the lock, so that no sample is placed by an end that is about to change; see `close`.
        let place = self.window.place(sample.end_ns);
        let due_inside = sample.paced.is_some() && self.window.contains(sample.due_ns);
        shard.add(place, due_inside, sample);
        match (sample.connection, place) {
            (Connection::Lost, _) => self.away().lost(worker, sample.end_ns),
            // Who comes back only after the window was away until its end.
            (Connection::Back, Place::Warmup | Place::Slice(_)) => {
                self.away().back(worker, sample.end_ns, place != Place::Warmup);
            }
            _ => {}
        }
    }

    /// Counts a transaction of an open loop that was skipped for being late. One that was due in the warm-up is the
    /// warm-up's, whenever it was skipped.
    pub fn shed(&self, worker: u32, due_ns: u64, now_ns: u64) {
        let mut shard = self.shard(worker as usize % self.shards.len());
        let place = self.window.place(if self.window.contains(due_ns) { now_ns } else { due_ns });
        let tally = match place {
            Place::Warmup => &mut shard.warmup,
            Place::Drain => &mut shard.drained,
            Place::Slice(number) => {
                let Shard { open, spares, last_end_ns, .. } = &mut *shard;
                *last_end_ns = (*last_end_ns).max(Some(now_ns));
                &mut open_slice(open, spares, number).tally
            }
        };
        tally.shed += 1;
    }

    /// Ends the window now, unless it ended before. All shards are locked meanwhile: what was recorded before ended
    /// before, and what is recorded later knows the new end.
    pub fn close(&self, now_ns: impl FnOnce() -> u64) {
        let _locked: Vec<_> = (0..self.shards.len()).map(|index| self.shard(index)).collect();
        self.window.end_ns.fetch_min(now_ns(), Ordering::Relaxed);
    }

    /// Brings the window's end forward to `end_ns`, once no worker records any more.
    pub fn cut(&self, end_ns: u64) {
        self.window.end_ns.fetch_min(end_ns, Ordering::Relaxed);
    }

    /// Hands over what ended in slices of a number below `before`, in pieces: each shard's part by itself, and a slice
    /// again if samples came in after it had been taken.
    pub fn take(&self, before: u64, mut collect: impl FnMut(u64, &Tally, &Histogram)) {
        for index in 0..self.shards.len() {
            loop {
                // Bound first, so that the lock is free while the slice is collected.
                let taken = self.shard(index).take(before);
                let Some(mut slice) = taken else { break };
                collect(slice.number, &slice.tally, &slice.response);
                slice.tally = Tally::default();
                slice.response.reset();
                let mut shard = self.shard(index);
                if shard.spares.len() < SPARES {
                    shard.spares.push(slice);
                }
            }
        }
    }

    /// What became of the transactions so far, of all phases.
    pub fn outcomes(&self) -> Outcomes {
        (0..self.shards.len()).fold(Outcomes::default(), |sum, index| {
            let more = self.shard(index).outcomes;
            Outcomes {
                committed: sum.committed + more.committed,
                failed: sum.failed + more.failed,
                lost: sum.lost + more.lost,
            }
        })
    }

    /// When the last transaction inside the window ended; `None` if there was none.
    pub fn last_end_ns(&self) -> Option<u64> {
        (0..self.shards.len()).filter_map(|index| self.shard(index).last_end_ns).max()
    }

    /// Everything that belongs to no slice, once the workers are done.
    pub fn finish(&self) -> Remainder {
        let mut remainder = Remainder {
            warmup: Tally::default(),
            drained: Tally::default(),
            statements: Vec::new(),
            prepares: Histogram::default(),
            reconnects: Histogram::default(),
            service: Histogram::default(),
            lateness: Histogram::default(),
        };
        for index in 0..self.shards.len() {
            let shard = self.shard(index);
            remainder.warmup.merge(&shard.warmup);
            remainder.drained.merge(&shard.drained);
            for (sum, part) in [
                (&mut remainder.prepares, &shard.prepares),
                (&mut remainder.reconnects, &shard.reconnects),
                (&mut remainder.service, &shard.service),
                (&mut remainder.lateness, &shard.lateness),
            ] {
                sum.add(part);
            }
            for (statement, latency) in shard.statements.iter().enumerate() {
                if remainder.statements.len() <= statement {
                    remainder.statements.push(Histogram::default());
                }
                remainder.statements[statement].add(latency);
            }
        }
        remainder
    }

    /// Since when no connection has had a transaction that committed, if all of them broke.
    pub fn all_away_since_ns(&self) -> Option<u64> {
        self.away().all_since_ns()
    }

    /// The outages of the window, once its end is final.
    pub fn outages(&self) -> Outages {
        // A run that was stopped in its warm-up has no window to have any in.
        match self.window.length_ns() {
            0 => Outages::default(),
            _ => self.away().until(self.window.end_ns()),
        }
    }

    fn away(&self) -> MutexGuard<'_, Away> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker that panicked while it held the lock left whole counters behind, so they are still used.
    fn shard(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.shards[index].0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    /// Intervals of this length are one slice.
    const SLICE: u64 = LONGEST_SLICE_NS;

    fn committed(end_ns: u64) -> Sample<'static> {
        Sample {
            due_ns: end_ns.saturating_sub(1_000_000),
            end_ns,
            paced: None,
            outcome: Outcome::Committed,
            statements: Statements { reads: 10, writes: 0, other: 2 },
            latencies: &[(0, 1_000_000)],
            failed_statements: Statements::default(),
            retries: 0,
            errors: &[],
            connection: Connection::Unchanged,
            prepares: &[],
            turned_to_text: false,
        }
    }

    fn recorder(window: Window, shards: usize) -> Recorder {
        Recorder::new(window, Shards::new(shards, 1), 1)
    }

    /// Transactions by slice.
    fn take(recorder: &Recorder, before: u64) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        recorder.take(before, |number, tally, response| {
            assert_eq!(tally.transactions, response.len());
            *counts.entry(number).or_default() += tally.transactions;
        });
        counts
    }

    #[test]
    fn a_sample_is_counted_where_its_transaction_ended() {
        let recorder = recorder(Window::new(SLICE, 3 * SLICE, SLICE), 2);
        for end_ns in [SLICE - 1, SLICE, 2 * SLICE - 1, 2 * SLICE, 3 * SLICE - 1, 3 * SLICE] {
            recorder.record(0, &committed(end_ns));
        }
        assert_eq!(take(&recorder, 1), [(0, 2)].into());
        assert_eq!(take(&recorder, 2), [(1, 2)].into());
        let rest = recorder.finish();
        assert_eq!((rest.warmup.transactions, rest.drained.transactions), (1, 1));
        assert_eq!(recorder.last_end_ns(), Some(3 * SLICE - 1));
        assert_eq!(recorder.outcomes(), Outcomes { committed: 6, failed: 0, lost: 0 });
        assert_eq!(rest.statements[0].len(), 4);
    }

    #[test]
    fn a_sample_that_arrives_after_its_slice_was_taken_keeps_its_place() {
        let recorder = recorder(Window::new(0, 10 * SLICE, SLICE), 1);
        recorder.record(0, &committed(SLICE / 2));
        assert_eq!(take(&recorder, 1), [(0, 1)].into());
        recorder.record(0, &committed(SLICE / 2 + 1));
        recorder.record(0, &committed(SLICE));
        assert_eq!(take(&recorder, 2), [(0, 1), (1, 1)].into());
    }

    #[test]
    fn closing_the_window_early_turns_the_rest_into_drained() {
        let recorder = recorder(Window::new(0, u64::MAX, SLICE), 1);
        recorder.close(|| SLICE / 2);
        recorder.close(|| SLICE);
        recorder.record(0, &committed(SLICE / 2 - 1));
        recorder.record(0, &committed(SLICE / 2));
        assert_eq!(take(&recorder, u64::MAX), [(0, 1)].into());
        assert_eq!(recorder.finish().drained.transactions, 1);
        assert_eq!((recorder.window().length_ns(), recorder.window().intervals()), (SLICE / 2, 1));
    }

    #[test]
    fn a_window_closed_in_the_warm_up_is_empty() {
        let window = Window::new(SLICE, u64::MAX, SLICE);
        assert!(window.intervals() > 1 << 30);
        let recorder = recorder(window, 1);
        recorder.close(|| SLICE / 2);
        assert_eq!((recorder.window().length_ns(), recorder.window().intervals()), (0, 0));
    }

    #[test]
    fn a_failed_transaction_counts_its_statements_apart_and_has_no_latency() {
        let recorder = recorder(Window::new(0, SLICE, SLICE), 1);
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
        assert_eq!(recorder.outcomes(), Outcomes { committed: 0, failed: 1, lost: 0 });
        recorder.record(0, &Sample { outcome: Outcome::Lost, ..committed(SLICE) });
        assert_eq!(recorder.outcomes(), Outcomes { committed: 0, failed: 2, lost: 1 });
        let mut taken = Vec::new();
        recorder.take(1, |_, tally, response| taken.push((tally.clone(), response.clone())));
        let [(tally, response)] = &taken[..] else { panic!("one slice of one shard") };
        assert_eq!((tally.transactions, tally.failed_transactions, tally.retries), (0, 1, 1));
        assert_eq!(tally.given_up_ns, 5);
        assert_eq!(tally.statements.queries(), 0);
        assert_eq!(tally.failed_statements.queries(), 5);
        assert_eq!(tally.errors[&key].count, 2);
        assert_eq!(tally.errors[&key].message, "Deadlock found");
        assert!(response.is_empty());
    }

    proptest! {
        #[test]
        fn every_sample_is_counted_once_and_in_the_slice_in_which_it_ended(
            ends in proptest::collection::vec((0u64..8 * SLICE, 0u32..7), 0..300),
            takes in proptest::collection::vec((0usize..300, 0u64..20), 0..12),
        ) {
            let (start, end, length) = (SLICE, 6 * SLICE, SLICE / 2);
            let recorder = recorder(Window::new(start, end, length), 3);
            let mut counted: BTreeMap<u64, u64> = BTreeMap::new();
            let mut add = |taken: BTreeMap<u64, u64>| {
                taken.into_iter().for_each(|(number, count)| *counted.entry(number).or_default() += count);
            };
            for (index, &(end_ns, worker)) in ends.iter().enumerate() {
                recorder.record(worker, &committed(end_ns));
                for &(_, before) in takes.iter().filter(|(at, _)| *at == index) {
                    let taken = take(&recorder, before);
                    prop_assert!(taken.keys().all(|&number| number < before));
                    add(taken);
                }
            }
            add(take(&recorder, u64::MAX));
            let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
            for &(end_ns, _) in ends.iter().filter(|(end_ns, _)| (start..end).contains(end_ns)) {
                *expected.entry((end_ns - start) / length).or_default() += 1;
            }
            prop_assert_eq!(&counted, &expected);
            let rest = recorder.finish();
            prop_assert_eq!(rest.warmup.transactions, ends.iter().filter(|(end_ns, _)| *end_ns < start).count() as u64);
            prop_assert_eq!(rest.drained.transactions, ends.iter().filter(|(end_ns, _)| *end_ns >= end).count() as u64);
            prop_assert_eq!(rest.statements[0].len(), expected.values().sum::<u64>());
        }
    }
}
