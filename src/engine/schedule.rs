//! When a transaction is due, and which one is next.
//!
//! In the closed loop a connection begins its next transaction when the last one ended. In an open loop a [`Schedule`]
//! says when each ticket is due: it is a value, a function of the rates, the seed and the ticket, so any number of
//! threads follows the same times without a dispatcher, a queue or a lock. [`Arrivals`] is one thread's view of it, and
//! [`Progress`] the coordinator's.
//!
//! A Poisson process of any rate is one of rate 1 on another clock, and so are equal distances. Hence a ticket has a
//! *place*, its distance from the start in mean gaps, and the rates turn places into times.
//!
//! Invariant: due times never go down from one ticket to the next. Must not import: `target`, `report`, `cli`.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_distr::{Distribution, Exp1, Gamma};

use crate::metrics::{Histogram, Interval, OpenLoop as Account, Window};
use crate::spec::{Arrival, OpenLoop, RunSpec};
use crate::workload::Random;

/// Tickets whose gaps are drawn together, so that a thread need not draw those of tickets that others took.
const BLOCK: usize = 64;

/// Tells the stream of the gaps from those of the transactions, which begin with the same seed.
const GAPS: u64 = u64::from_be_bytes(*b"arrivals");

/// A rate from some time on.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Seconds since the run began, and the place that this is.
    start_s: f64,
    place: f64,
    rate: f64,
}

/// The times of an open loop, in nanoseconds since the run began, which is when the warm-up does.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrival: Arrival,
    seed: u64,
    pieces: Vec<Piece>,
    warmup_ns: u64,
    max_lateness_ns: Option<u64>,
    /// How long a block of a Poisson process is, in mean gaps.
    block_length: Gamma<f64>,
    /// The tickets that are due in the window, if it is long enough for all events.
    tickets: Range<u64>,
}

impl Schedule {
    pub fn new(open_loop: &OpenLoop, spec: &RunSpec) -> Schedule {
        let mut pieces: Vec<Piece> = Vec::new();
        for step in &open_loop.steps {
            let piece = match pieces.last() {
                // The warm-up has the rate of the first step.
                None => Piece { start_s: 0.0, place: 0.0, rate: step.rate },
                Some(last) => {
                    let start_s = (spec.warmup_time + step.start).as_secs_f64();
                    Piece { start_s, place: last.place + last.rate * (start_s - last.start_s), rate: step.rate }
                }
            };
            pieces.push(piece);
        }
        let warmup_ns = spec.warmup_time.as_nanos() as u64;
        let max_lateness_ns = open_loop.max_lateness.map(|lateness| lateness.as_nanos() as u64);
        let (arrival, seed) = (open_loop.arrival, spec.seed);
        let block_length = Gamma::new(BLOCK as f64, 1.0).expect("shape and scale are above 0");
        let tickets = 0..u64::MAX;
        let mut schedule = Schedule { arrival, seed, pieces, warmup_ns, max_lateness_ns, block_length, tickets };
        let first = schedule.arrivals(0).count_before(warmup_ns);
        schedule.tickets = first..spec.events.map_or(u64::MAX, |events| first.saturating_add(events));
        schedule
    }

    /// A thread's view, whose times count from the same origin as those of `window`.
    pub fn arrivals_in(&self, window: &Window) -> Arrivals<'_> {
        self.arrivals(window.start_ns().saturating_sub(self.warmup_ns))
    }

    fn arrivals(&self, origin_ns: u64) -> Arrivals<'_> {
        Arrivals { schedule: self, origin_ns, block: Block::first(self), places: None }
    }

    /// Whether a transaction is skipped that is due at one time and would begin at the other.
    pub fn sheds(&self, due_ns: u64, begin_ns: u64) -> bool {
        self.max_lateness_ns.is_some_and(|most| begin_ns.saturating_sub(due_ns) > most)
    }

    /// Nanoseconds since the run began.
    fn time_ns(&self, place: f64) -> u64 {
        let after = self.pieces.partition_point(|piece| piece.place <= place);
        let piece = &self.pieces[after.saturating_sub(1)];
        // Rounded, so that a ticket at the very start of a step is not taken for one of the step before.
        ((piece.start_s + (place - piece.place) / piece.rate) * 1e9).round() as u64
    }

    /// How many arrivals the rates mean between two times since the run began, in seconds.
    fn mean_arrivals(&self, from_s: f64, to_s: f64) -> f64 {
        let ends = self.pieces.iter().skip(1).map(|piece| piece.start_s).chain([f64::INFINITY]);
        let each = self
            .pieces
            .iter()
            .zip(ends)
            .map(|(piece, end_s)| piece.rate * (to_s.min(end_s) - from_s.max(piece.start_s)).max(0.0));
        each.sum()
    }
}

/// The places of one block of tickets: where it begins and ends, and the stream that its gaps come from.
#[derive(Clone, Debug)]
struct Block {
    number: u64,
    start: f64,
    end: f64,
    gaps: Random,
}

impl Block {
    fn first(schedule: &Schedule) -> Block {
        Block::at(schedule, 0, 0.0)
    }

    fn after(&self, schedule: &Schedule) -> Block {
        Block::at(schedule, self.number + 1, self.end)
    }

    /// The gaps of a Poisson process are exponential, so a block of them is as long as a gamma variate.
    fn at(schedule: &Schedule, number: u64, start: f64) -> Block {
        let mut gaps = Random::of(&[schedule.seed, GAPS, number]);
        let length = match schedule.arrival {
            Arrival::Constant => BLOCK as f64,
            Arrival::Poisson => schedule.block_length.sample(&mut gaps),
        };
        Block { number, start, end: start + length, gaps }
    }

    /// Exponential variates divided by their sum do not depend on it, so scaled to the block they are its gaps.
    fn places(&self, arrival: Arrival) -> [f64; BLOCK] {
        let mut places = [0.0; BLOCK];
        match arrival {
            Arrival::Constant => (0..BLOCK).for_each(|index| places[index] = self.start + index as f64),
            Arrival::Poisson => {
                let mut gaps = self.gaps.clone();
                let mut sum = 0.0;
                for place in &mut places {
                    let gap: f64 = Exp1.sample(&mut gaps);
                    sum += gap;
                    *place = sum;
                }
                let scale = (self.end - self.start) / sum;
                places.iter_mut().for_each(|place| *place = self.start + *place * scale);
                // Where the next block begins, whatever the rounding.
                places[BLOCK - 1] = self.end;
            }
        }
        places
    }
}

/// One thread's view of a schedule: asked for tickets, or for times, that do not go down.
pub struct Arrivals<'a> {
    schedule: &'a Schedule,
    origin_ns: u64,
    block: Block,
    /// Of the block's tickets, once one of them was asked for.
    places: Option<[f64; BLOCK]>,
}

impl<'a> Arrivals<'a> {
    pub fn schedule(&self) -> &'a Schedule {
        self.schedule
    }

    /// When `ticket` is due.
    pub fn due_ns(&mut self, ticket: u64) -> u64 {
        let (number, index) = (ticket / BLOCK as u64, (ticket % BLOCK as u64) as usize);
        while self.block.number < number {
            self.leave_block();
        }
        let place = self.places()[index];
        self.time_ns(place)
    }

    /// How many tickets are due before a time.
    pub fn count_before(&mut self, time_ns: u64) -> u64 {
        while self.time_ns(self.block.end) < time_ns {
            self.leave_block();
        }
        let places = *self.places();
        let before = places.partition_point(|&place| self.time_ns(place) < time_ns);
        self.block.number * BLOCK as u64 + before as u64
    }

    fn leave_block(&mut self) {
        self.block = self.block.after(self.schedule);
        self.places = None;
    }

    fn places(&mut self) -> &[f64; BLOCK] {
        self.places.get_or_insert_with(|| self.block.places(self.schedule.arrival))
    }

    fn time_ns(&self, place: f64) -> u64 {
        self.origin_ns.saturating_add(self.schedule.time_ns(place))
    }
}

/// Hands out the numbers of transactions, and says when there are no more.
#[derive(Debug)]
pub struct Tickets {
    next: AtomicU64,
    limit: Limit,
}

#[derive(Debug)]
enum Limit {
    /// Only time ends the run.
    Time,
    /// Closed loop: transactions still to be started inside the window.
    Events { events: u64, taken: AtomicU64 },
    /// Open loop: those due in the window, and how many of the warm-up were not begun.
    Scheduled { tickets: Range<u64>, dropped: AtomicU64 },
}

impl Tickets {
    pub fn new(events: Option<u64>, schedule: Option<&Schedule>) -> Tickets {
        let limit = match (schedule, events) {
            (Some(schedule), _) => Limit::Scheduled { tickets: schedule.tickets.clone(), dropped: AtomicU64::new(0) },
            (None, Some(events)) => Limit::Events { events, taken: AtomicU64::new(0) },
            (None, None) => Limit::Time,
        };
        Tickets { next: AtomicU64::new(0), limit }
    }

    /// The next ticket for a worker that is free at `now_ns`, or `None` when it shall stop. Warm-up transactions do
    /// not use up the events. In an open loop the ticket may be due later; what the warm-up left undone when the window
    /// begins is dropped.
    pub fn take(&self, now_ns: u64, window: &Window) -> Option<u64> {
        if now_ns >= window.end_ns() {
            return None;
        }
        let warm = now_ns >= window.start_ns();
        let next = || self.next.fetch_add(1, Ordering::Relaxed);
        match &self.limit {
            Limit::Time => Some(next()),
            Limit::Events { events, taken } => {
                let all_taken = warm && taken.fetch_add(1, Ordering::Relaxed) >= *events;
                (!all_taken).then(next)
            }
            Limit::Scheduled { tickets, dropped } => loop {
                let ticket = next();
                if !warm || ticket >= tickets.start {
                    break (ticket < tickets.end).then_some(ticket);
                }
                // All that are left before the window's first go with this one; only one thread finds them.
                let left = tickets.start.saturating_sub(self.next.fetch_max(tickets.start, Ordering::Relaxed));
                dropped.fetch_add(1 + left, Ordering::Relaxed);
            },
        }
    }

    /// Whether all events have been handed out, so that none is left to be taken.
    pub fn are_used_up(&self) -> bool {
        match &self.limit {
            Limit::Time => false,
            Limit::Events { events, taken } => taken.load(Ordering::Relaxed) >= *events,
            Limit::Scheduled { tickets, .. } => self.next.load(Ordering::Relaxed) >= tickets.end,
        }
    }

    /// How many of the window's tickets nobody has taken of those below `due`, once the window has begun.
    pub fn left_of(&self, due: u64) -> u64 {
        match &self.limit {
            Limit::Scheduled { tickets, .. } => {
                due.min(tickets.end).saturating_sub(self.next.load(Ordering::Relaxed).max(tickets.start))
            }
            Limit::Time | Limit::Events { .. } => 0,
        }
    }

    /// Transactions due in the warm-up that were not begun in it, once the window has begun.
    pub fn dropped(&self) -> u64 {
        match &self.limit {
            Limit::Scheduled { tickets, dropped } => {
                // No thread may have been free since.
                let left = tickets.start.saturating_sub(self.next.load(Ordering::Relaxed));
                dropped.load(Ordering::Relaxed) + left
            }
            Limit::Time | Limit::Events { .. } => 0,
        }
    }
}

/// How far an open loop is, for who watches it from the window's start on.
pub struct Progress<'a> {
    schedule: &'a Schedule,
    tickets: &'a Tickets,
    window: &'a Window,
    arrivals: Arrivals<'a>,
    highest_backlog: u64,
}

impl<'a> Progress<'a> {
    pub fn new(schedule: &'a Schedule, tickets: &'a Tickets, window: &'a Window) -> Progress<'a> {
        Progress { schedule, tickets, window, arrivals: schedule.arrivals_in(window), highest_backlog: 0 }
    }

    /// How many tickets are due by now, or were when the window ended.
    fn due(&mut self, now_ns: u64) -> u64 {
        self.arrivals.count_before(now_ns.saturating_add(1).min(self.window.end_ns()))
    }

    /// How many transactions are due and not begun.
    pub fn backlog(&mut self, now_ns: u64) -> u64 {
        let due = self.due(now_ns);
        let backlog = self.tickets.left_of(due);
        self.highest_backlog = self.highest_backlog.max(backlog);
        backlog
    }

    /// Whether all events are due.
    pub fn all_due(&mut self, now_ns: u64) -> bool {
        self.due(now_ns) >= self.schedule.tickets.end
    }

    /// When the last event is due; `None` where only time ends the run.
    pub fn last_due_ns(&self) -> Option<u64> {
        let tickets = &self.schedule.tickets;
        let last = tickets.end.checked_sub(1).filter(|last| tickets.end < u64::MAX && tickets.contains(last))?;
        Some(self.schedule.arrivals_in(self.window).due_ns(last))
    }

    /// Tells each interval how many transactions were due in it, once the window's end is known.
    pub fn count_due(&self, intervals: &mut [Interval]) {
        let mut arrivals = self.schedule.arrivals_in(self.window);
        let tickets = &self.schedule.tickets;
        let mut before = tickets.start;
        for (number, interval) in intervals.iter_mut().enumerate() {
            let end_ns = self.window.interval_end_ns(number as u64).min(self.window.end_ns());
            let until = arrivals.count_before(end_ns).min(tickets.end);
            interval.due = Some(until - before);
            before = until;
        }
    }

    /// The account, once the window's end is known, but for what workers counted.
    pub fn finish(mut self, now_ns: u64, service: Histogram, lateness: Histogram) -> Account {
        let not_begun = self.backlog(now_ns);
        let tickets = &self.schedule.tickets;
        // A view of its own: an end that was brought forward may lie before what this one was asked for.
        let until = self.schedule.arrivals_in(self.window).count_before(self.window.end_ns()).min(tickets.end);
        let (length_s, warmup_s) = (self.window.length_ns() as f64 / 1e9, self.schedule.warmup_ns as f64 / 1e9);
        Account {
            mean_due: self.schedule.mean_arrivals(warmup_s, warmup_s + length_s),
            due: until.saturating_sub(tickets.start),
            not_begun,
            highest_backlog: self.highest_backlog,
            // A run that ended in its warm-up has dropped nothing.
            dropped: if length_s > 0.0 { self.tickets.dropped() } else { 0 },
            service,
            lateness,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{IgnoredErrors, Step};
    use proptest::prelude::*;
    use std::time::Duration;

    const SECOND: u64 = 1_000_000_000;

    /// Steps of so many seconds each, the last of which goes on, after a warm-up.
    fn schedule(arrival: Arrival, seed: u64, warmup_s: f64, steps: &[(f64, f64)], events: Option<u64>) -> Schedule {
        let mut start_s = 0.0;
        let steps = steps.iter().map(|&(rate, length_s)| {
            let start = Duration::from_secs_f64(start_s);
            start_s += length_s;
            Step { start, rate }
        });
        let open_loop = OpenLoop { arrival, steps: steps.collect(), max_lateness: Some(Duration::from_millis(100)) };
        let spec = RunSpec {
            threads: 1,
            time: None,
            events,
            open_loop: None,
            warmup_time: Duration::from_secs_f64(warmup_s),
            interval: Duration::from_secs(1),
            server_interval: None,
            detail: true,
            seed,
            max_retries: 0,
            connect_concurrency: 1,
            ignored_errors: IgnoredErrors::All,
            max_error_rate: 1.0,
            forced_shutdown: Duration::ZERO,
            longest_outage: Duration::ZERO,
        };
        Schedule::new(&open_loop, &spec)
    }

    fn poisson(seed: u64, rate: f64) -> Schedule {
        schedule(Arrival::Poisson, seed, 0.0, &[(rate, 1.0)], None)
    }

    fn due(schedule: &Schedule, count: u64) -> Vec<u64> {
        let mut arrivals = schedule.arrivals(0);
        (0..count).map(|ticket| arrivals.due_ns(ticket)).collect()
    }

    #[test]
    fn equal_distances_are_exact_to_the_nanosecond_and_do_not_drift() {
        let thousand = schedule(Arrival::Constant, 1, 0.0, &[(1000.0, 1.0)], None);
        let mut arrivals = thousand.arrivals(7);
        for ticket in [0, 1, 2, 63, 64, 65, 1000, 86_400_000] {
            assert_eq!(arrivals.due_ns(ticket), 7 + ticket * 1_000_000);
        }
        let third = schedule(Arrival::Constant, 1, 0.0, &[(1.0 / 3.0, 1.0)], None);
        assert_eq!(due(&third, 3), [0, 3 * SECOND, 6 * SECOND]);
    }

    #[test]
    fn a_rate_changes_at_the_time_of_its_step() {
        for warmup_s in [0.0, 0.1, 7.3] {
            let steps = [(1000.0, 30.0), (2000.1, 10.0), (0.5, 20.0), (7.0, 1.0)];
            let schedule = schedule(Arrival::Constant, 1, warmup_s, &steps, None);
            let start_ns = (warmup_s * 1e9) as u64;
            let mut arrivals = schedule.arrivals(0);
            let counts = [0, 30, 40, 60].map(|second| arrivals.count_before(start_ns + second * SECOND));
            assert_eq!(counts[0], schedule.tickets.start);
            assert_eq!(counts[0], (1000.0 * warmup_s) as u64);
            // 20,001 and 10, to the unit.
            assert_eq!([1, 2, 3].map(|step| counts[step] - counts[step - 1]), [30_000, 20_001, 10], "{warmup_s}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_times_to_any_number_of_threads() {
        let schedule = poisson(42, 5000.0);
        let whole = due(&schedule, 20_000);
        for threads in [2, 7, 1000] {
            // Each thread sees some of the tickets only, and draws what it needs by itself.
            for thread in 0..threads {
                let mut arrivals = schedule.arrivals(0);
                let tickets = (thread..20_000).step_by(threads);
                assert!(tickets.into_iter().all(|ticket| arrivals.due_ns(ticket as u64) == whole[ticket]));
            }
        }
        assert_ne!(whole, due(&poisson(43, 5000.0), 20_000));
    }

    /// Gaps in units of their mean.
    fn gaps(seed: u64, count: u64) -> Vec<f64> {
        // Slow, so that a nanosecond is nothing.
        let times = due(&poisson(seed, 1.0), count);
        let before = std::iter::once(0).chain(times.iter().copied());
        before.zip(&times).map(|(before, &time)| (time - before) as f64 / 1e9).collect()
    }

    #[test]
    fn gaps_are_exponential_and_independent() {
        const COUNT: u64 = 100_000;
        for seed in 1..=5 {
            let gaps = gaps(seed, COUNT);
            let count = COUNT as f64;
            let mean = gaps.iter().sum::<f64>() / count;
            // The mean of n gaps has a standard deviation of 1/sqrt(n), 0.3 % here, by the nature of the process.
            assert!((mean - 1.0).abs() < 3.0 / count.sqrt(), "{mean}");
            let pairs = gaps.windows(2).map(|pair| (pair[0] - 1.0) * (pair[1] - 1.0)).sum::<f64>() / count;
            assert!(pairs.abs() < 4.0 / count.sqrt(), "{pairs}");
            let mut sorted = gaps;
            sorted.sort_by(f64::total_cmp);
            // Kolmogorov and Smirnov: of a hundred samples of an exponential distribution one is further away than 1.63.
            let away = sorted.iter().enumerate().map(|(index, gap)| {
                let expected = 1.0 - (-gap).exp();
                (expected - index as f64 / count).abs().max((expected - (index + 1) as f64 / count).abs())
            });
            let furthest = away.fold(0.0, f64::max) * count.sqrt();
            assert!(furthest < 1.63, "{furthest}");
        }
    }

    /// That counts have the mean, and a variance that is as large.
    fn assert_poisson(counts: &[u64], mean: f64) {
        let number = counts.len() as f64;
        let average = counts.iter().sum::<u64>() as f64 / number;
        assert!((average - mean).abs() < 3.0 * (mean / number).sqrt(), "{mean}: {average}");
        let variance = counts.iter().map(|&count| (count as f64 - average).powi(2)).sum::<f64>() / (number - 1.0);
        // The ratio has a standard deviation of sqrt(2 / number).
        assert!((variance / average - 1.0).abs() < 3.0 * (2.0 / number).sqrt(), "{mean}: {}", variance / average);
    }

    #[test]
    fn counts_in_equal_times_and_of_many_seeds_are_those_of_a_poisson_process() {
        // Over times longer and shorter than a block, so that its edges show.
        for mean in [10.0, 1000.0] {
            let schedule = poisson(3, mean);
            let mut arrivals = schedule.arrivals(0);
            let before: Vec<u64> = (0..=2000).map(|second| arrivals.count_before(second * SECOND)).collect();
            assert_poisson(&before.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>(), mean);
            let first = |seed| poisson(seed, mean).arrivals(0).count_before(SECOND);
            assert_poisson(&(1..=2000).map(first).collect::<Vec<_>>(), mean);
        }
    }

    proptest! {
        #[test]
        fn as_many_tickets_are_due_before_a_time_as_their_times_say(
            constant: bool, seed: u64, warmup_s in 0.0..2.0f64,
            steps in proptest::collection::vec((0.5..3000.0f64, 0.01..2.0f64), 1..4),
            mut times_ns in proptest::collection::vec(0..3 * SECOND, 1..8),
        ) {
            let arrival = if constant { Arrival::Constant } else { Arrival::Poisson };
            let schedule = schedule(arrival, seed, warmup_s, &steps, None);
            let due = due(&schedule, 12_000);
            prop_assert!(due.is_sorted());
            let mut arrivals = schedule.arrivals(0);
            times_ns.sort();
            for time_ns in times_ns {
                prop_assert_eq!(arrivals.count_before(time_ns), due.partition_point(|&due| due < time_ns) as u64);
            }
        }
    }

    #[test]
    fn a_budget_counts_only_what_starts_inside_the_window() {
        let window = Window::new(100, 1000, 10);
        let tickets = Tickets::new(Some(2), None);
        assert_eq!(tickets.take(0, &window), Some(0));
        assert_eq!(tickets.take(99, &window), Some(1));
        assert_eq!(tickets.take(100, &window), Some(2));
        assert!(!tickets.are_used_up());
        assert_eq!(tickets.take(101, &window), Some(3));
        assert!(tickets.are_used_up());
        assert_eq!(tickets.take(102, &window), None);
    }

    #[test]
    fn no_transaction_starts_after_the_window() {
        let window = Window::new(0, 1000, 10);
        let tickets = Tickets::new(None, None);
        assert_eq!(tickets.take(999, &window), Some(0));
        assert_eq!(tickets.take(1000, &window), None);
        assert!(!tickets.are_used_up());
    }

    #[test]
    fn what_the_warm_up_left_undone_is_dropped_and_counted() {
        // Ten tickets of the warm-up and two events.
        let schedule = schedule(Arrival::Constant, 1, 1.0, &[(10.0, 1.0)], Some(2));
        let window = Window::new(SECOND, u64::MAX, SECOND);
        let tickets = Tickets::new(Some(2), Some(&schedule));
        assert_eq!([0, 1, 2].map(|_| tickets.take(0, &window)), [Some(0), Some(1), Some(2)]);
        assert_eq!((tickets.left_of(11), tickets.dropped()), (1, 7), "no thread is free");
        assert_eq!(tickets.take(SECOND, &window), Some(10));
        assert_eq!((tickets.left_of(11), tickets.left_of(100), tickets.dropped()), (0, 1, 7));
        assert!(!tickets.are_used_up());
        assert_eq!([0, 1].map(|_| tickets.take(SECOND, &window)), [Some(11), None]);
        assert!(tickets.are_used_up());
        assert_eq!((tickets.left_of(100), tickets.dropped()), (0, 7));
    }

    #[test]
    fn a_transaction_is_skipped_only_beyond_the_lateness() {
        let schedule = poisson(1, 1.0);
        assert!(!schedule.sheds(5, 5 + SECOND / 10));
        assert!(schedule.sheds(5, 6 + SECOND / 10));
    }
}
