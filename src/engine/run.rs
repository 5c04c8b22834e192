//! One measurement: connect everything, warm up, measure, drain.
//!
//! The calling thread coordinates; each connection has a thread of its own. The window is a value that all of them
//! read, so no phase needs a message: a transaction belongs to the phase in which it ends. A worker that hangs keeps
//! neither an interval line nor the end of the run waiting: after the drain's deadline it is left behind and counted.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime};

use super::schedule::{Progress, Schedule, Tickets};
use super::sent::Sent;
use super::validate::Validator;
use super::worker::{self, Begun, Clock, Shared, Worker};
use super::{EngineError, Observer, check, counters, descriptors, refuse};
use crate::metrics::client::{Reading, Usage};
use crate::metrics::recorder::{Outcomes, Remainder};
use crate::metrics::{
    Confidence, FoundNothing, Histogram, Measurement, Now, Recorder, Series, Shards, StatementLatency, Window,
};
use crate::spec::RunSpec;
use crate::target::{Database, Fault, Session, Target};
use crate::workload::plan::{Kind, Plan};

/// How long after an interval's end its line is made, so that samples on their way are in it.
const GRACE_NS: u64 = 5_000_000;
/// How often the coordinator looks for Ctrl-C and for too many errors.
const LOOK: Duration = Duration::from_millis(50);
/// How long the end is waited for before that is told.
const SILENCE: Duration = Duration::from_secs(1);
/// Below this many failed transactions an error rate says nothing, unless nothing succeeded for `HOPELESS`.
const FEWEST_FAILURES: u64 = 10;
const HOPELESS: Duration = Duration::from_secs(5);
/// How long a run waits at its end for its sessions to be closed.
const LONGEST_CLOSE: Duration = Duration::from_secs(1);
/// A worker's stack: the deepest call is a database driver's.
const STACK_BYTES: usize = 512 << 10;

/// Where connected workers wait until all are.
#[derive(Default)]
struct Gate {
    /// `Some(true)`: go; `Some(false)`: the run was called off.
    decision: Mutex<Option<bool>>,
    decided: Condvar,
}

impl Gate {
    fn decide(&self, go: bool) {
        *self.decision.lock().unwrap_or_else(PoisonError::into_inner) = Some(go);
        self.decided.notify_all();
    }

    fn wait(&self) -> bool {
        let decision = self.decision.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.decided.wait_while(decision, |decision| decision.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).unwrap_or(false)
    }
}

/// What workers pass on their way.
#[derive(Default)]
struct Gates {
    start: Gate,
    /// Sessions stay open until the server's counters were read: MariaDB adds up those of its connections while they go,
    /// and may leave one out or count it twice.
    close: Gate,
}

/// What a worker tells the coordinator.
enum Event {
    Connected {
        took: Duration,
        encryption: Option<String>,
    },
    ConnectFailed(Fault),
    /// It plays no more, and keeps its session.
    Ended {
        panicked: bool,
    },
    /// Its session is closed, too.
    Closed,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Completed,
    Interrupted,
    TooManyErrors,
    /// All connections were without a transaction for the longest outage that is waited for.
    ServerLost,
}

/// Measures `plan` on `target`; `server` is where its counters can be read, and `validator` looks at all rows if there is
/// one. `interrupted` is looked at throughout; once it is set the run ends with what it has.
pub fn run<T: Target>(
    target: T,
    plan: Arc<Plan>,
    spec: &RunSpec,
    server: Option<&dyn Database>,
    validator: Option<&Arc<Validator>>,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
) -> Result<(Measurement, Ending), EngineError> {
    refuse(check::threads(spec.threads))?;
    descriptors::ensure(open_files(&target, server, spec.threads))?;
    let schedule = spec.open_loop.as_ref().map(|open_loop| Schedule::new(open_loop, spec));
    let counts = worker::nothing_index(&plan, plan.statements.len());
    let shared = Arc::new(Shared {
        target,
        plan,
        tickets: Tickets::new(spec.events, schedule.as_ref()),
        schedule,
        clock: Clock(Instant::now()),
        detail: spec.detail,
        seed: spec.seed,
        max_retries: spec.max_retries,
        ignored_errors: spec.ignored_errors.clone(),
        away: AtomicU32::new(0),
        never_back: AtomicU32::new(0),
        begun: (0..spec.threads).map(|_| Begun::default()).collect(),
        sent: (0..spec.threads).map(|_| Sent::new(counts)).collect(),
        maybe_uncounted: AtomicU64::new(0),
        reconnects: AtomicU64::new(0),
        recorder: OnceLock::new(),
        validator: validator.map(Arc::clone),
    });
    let measure = |reader: Option<&counters::Reader>| connect_and_measure(&shared, spec, reader, observer, interrupted);
    let (measured, server) = counters::beside(server, spec.server_interval, &shared, measure);
    measured.map(|(measurement, ending)| (Measurement { server, ..measurement }, ending))
}

/// File descriptors of all connections, with the one that reads the counters of `server`.
pub(super) fn open_files<T: Target>(target: &T, server: Option<&dyn Database>, threads: u32) -> u64 {
    let for_counters = server.map_or(0, |server| server.descriptors_per_control());
    u64::from(threads) * target.descriptors_per_session() + for_counters
}

fn connect_and_measure<T: Target>(
    shared: &Arc<Shared<T>>,
    spec: &RunSpec,
    counters: Option<&counters::Reader>,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
) -> Result<(Measurement, Ending), EngineError> {
    let gates = Arc::new(Gates::default());
    let (sender, events) = channel();
    let spawn = |number| spawn_worker(shared, &gates, number, sender.clone());
    let connects = match connect_all(spec, spawn, &events, observer, interrupted) {
        Ok(connects) => connects,
        Err(error) => {
            gates.start.decide(false);
            return Err(error);
        }
    };
    // From here on only workers hold senders, so the channel closes when the last one ends.
    drop(sender);
    if let Some(counters) = counters {
        counters.log_in(interrupted);
    }
    observer.started(spec);
    let count = (2 * std::thread::available_parallelism().map_or(1, |cores| cores.get())).min(spec.threads as usize);
    let shards = Shards::new(count, worker::latency_kinds(&shared.plan));
    // The window begins now, so nothing slow may come between this and the gate.
    let started_at = SystemTime::now() + spec.warmup_time;
    let start_ns = shared.clock.now_ns() + nanos(spec.warmup_time);
    let end_ns = spec.time.map_or(u64::MAX, |time| start_ns.saturating_add(nanos(time)));
    let window = Window::new(start_ns, end_ns, nanos(spec.interval).max(1));
    // Nobody else sets it, so this cannot fail.
    let _ = shared.recorder.set(Recorder::new(window, shards, spec.threads));
    gates.start.decide(true);
    let measured = Coordinator::new(shared, spec, &events, started_at, connects).measure(observer, interrupted);
    if let Some(counters) = counters {
        counters.wait_for_last_reading();
    }
    gates.close.decide(true);
    let open = spec.threads - measured.0.unfinished;
    wait_for_close(open, &events);
    Ok(measured)
}

/// Waits until sessions are closed as they should be, which a server sees, but not for a server that hangs.
fn wait_for_close(mut open: u32, events: &Receiver<Event>) {
    let since = Instant::now();
    while open > 0
        && let Ok(event) = events.recv_timeout(LONGEST_CLOSE.saturating_sub(since.elapsed()))
    {
        open -= u32::from(matches!(event, Event::Closed));
    }
}

/// How the connections of a run came about.
struct Connects {
    times: Histogram,
    /// That of the first one.
    encryption: Option<String>,
    /// Their threads.
    workers: Vec<Thread>,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// Starts the workers, a few at a time, until all are connected and wait at the gate.
fn connect_all(
    spec: &RunSpec,
    spawn: impl Fn(u32) -> Result<Thread, EngineError>,
    events: &Receiver<Event>,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
) -> Result<Connects, EngineError> {
    let threads = spec.threads;
    let mut connects = Connects { times: Histogram::default(), encryption: None, workers: Vec::new() };
    let (mut started, mut connected) = (0, 0);
    while connected < threads {
        while started < threads && started - connected < spec.connect_concurrency {
            connects.workers.push(spawn(started)?);
            started += 1;
        }
        match events.recv_timeout(LOOK) {
            Ok(Event::Connected { took, encryption }) => {
                connected += 1;
                connects.times.record(nanos(took));
                connects.encryption = connects.encryption.or(encryption);
            }
            Ok(Event::ConnectFailed(fault)) => {
                return Err(EngineError::Connect { connected, threads, fault });
            }
            Ok(Event::Ended { .. } | Event::Closed) => return Err(EngineError::WorkerDied),
            Err(_) => {}
        }
        observer.connecting(connected, threads);
        if interrupted.load(Ordering::Relaxed) {
            return Err(EngineError::InterruptedEarly);
        }
    }
    Ok(connects)
}

fn spawn_worker<T: Target>(
    shared: &Arc<Shared<T>>,
    gates: &Arc<Gates>,
    number: u32,
    sender: Sender<Event>,
) -> Result<Thread, EngineError> {
    let (shared, gates) = (Arc::clone(shared), Arc::clone(gates));
    let body = move || {
        // Sent even when the thread panics, so that the coordinator never waits for it.
        let _closed = OnDrop(sender.clone(), || Event::Closed);
        let ended = OnDrop(sender.clone(), || Event::Ended { panicked: std::thread::panicking() });
        let began = Instant::now();
        match shared.target.connect() {
            Ok(session) => {
                let connected = Event::Connected { took: began.elapsed(), encryption: session.encryption() };
                // The receiver lives as long as the run; if it is gone nobody needs the message.
                let _ = sender.send(connected);
                if gates.start.wait() {
                    let _session = Worker::new(&shared, number, session).work();
                    drop(ended);
                    gates.close.wait();
                }
            }
            Err(fault) => {
                let _ = sender.send(Event::ConnectFailed(fault));
            }
        }
    };
    let builder = std::thread::Builder::new().name(format!("worker-{number}")).stack_size(STACK_BYTES);
    builder.spawn(body).map(|worker| worker.thread().clone()).map_err(|source| EngineError::Thread { number, source })
}

struct OnDrop(Sender<Event>, fn() -> Event);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(self.1());
    }
}

/// The coordinator's side of the measurement.
struct Coordinator<'a, T> {
    shared: &'a Shared<T>,
    spec: &'a RunSpec,
    events: &'a Receiver<Event>,
    running: u32,
    panicked: u32,
    began: Instant,
    started_at: SystemTime,
    connects: Connects,
    /// `None` in a closed loop.
    progress: Option<Progress<'a>>,
    /// Age of the oldest transaction in flight when the window ended.
    oldest_at_end: Option<Duration>,
    series: Series,
    /// Slices that were taken once they were over.
    taken: u64,
    /// Intervals that were told to the observer.
    told: u64,
    /// Since when there has been no event left to begin.
    used_up_since: Option<Instant>,
}

impl<'a, T: Target> Coordinator<'a, T> {
    fn new(
        shared: &'a Shared<T>,
        spec: &'a RunSpec,
        events: &'a Receiver<Event>,
        started_at: SystemTime,
        connects: Connects,
    ) -> Coordinator<'a, T> {
        Coordinator {
            shared,
            spec,
            events,
            running: spec.threads,
            panicked: 0,
            began: Instant::now(),
            started_at,
            connects,
            progress: shared.progress(),
            oldest_at_end: None,
            series: Series::new(started_at, shared.recorder().window()),
            taken: 0,
            told: 0,
            used_up_since: None,
        }
    }

    fn measure(mut self, observer: &mut dyn Observer, interrupted: &AtomicBool) -> (Measurement, Ending) {
        let mut before = Reading::now();
        let mut ending = self.watch(&mut before, observer, interrupted);
        let after = Reading::now();
        self.oldest_at_end = self.oldest();
        let recorder = self.shared.recorder();
        if ending != Ending::Completed {
            recorder.close(|| self.shared.clock.now_ns());
            // Those that wait for their next transaction to be due look for the window's end.
            self.connects.workers.iter().for_each(Thread::unpark);
        }
        if !self.drain(ending, observer, interrupted) {
            ending = Ending::Interrupted;
        }
        let remainder = recorder.finish();
        let nothing_after = remainder.drained.ended_transactions() == 0;
        if (self.running == 0 || self.used_up_since.is_some()) && self.used_up() && nothing_after {
            // The events were used up inside the window: it ends with the last of them, but holds all that was due.
            let last_due_ns = self.progress.as_ref().and_then(Progress::last_due_ns);
            recorder.cut(recorder.last_end_ns().max(last_due_ns).map_or(u64::MAX, |last_ns| last_ns + 1));
        }
        // Without a limit of time it may still be open, if all workers died.
        recorder.cut(self.shared.clock.now_ns());
        (self.finish(remainder, after.since(&before), observer), ending)
    }

    /// Waits for the end of the window, telling its intervals. Sets `before` anew where the window begins.
    fn watch(&mut self, before: &mut Reading, observer: &mut dyn Observer, interrupted: &AtomicBool) -> Ending {
        let window = self.shared.recorder().window();
        let mut warm = self.spec.warmup_time.is_zero();
        loop {
            let now_ns = self.shared.clock.now_ns();
            if !warm && now_ns >= window.start_ns() {
                warm = true;
                *before = Reading::now();
            }
            if now_ns >= window.start_ns() {
                self.backlog();
            }
            if self.running == 0 || now_ns >= window.end_ns() || self.overdue() {
                return Ending::Completed;
            }
            if interrupted.load(Ordering::Relaxed) {
                return Ending::Interrupted;
            }
            if self.too_many_errors() {
                return Ending::TooManyErrors;
            }
            if self.server_lost(now_ns) {
                return Ending::ServerLost;
            }
            let slice_ns = window.slice_end_ns(self.taken).saturating_add(GRACE_NS);
            if now_ns >= slice_ns {
                self.taken += 1;
                self.take(self.taken);
                if window.interval_of(self.taken) > self.told {
                    self.tell_next(self.oldest(), observer);
                    self.series.settle(now_ns, window);
                }
                continue;
            }
            let next_ns = slice_ns.min(window.end_ns()).min(if warm { u64::MAX } else { window.start_ns() });
            self.wait(Duration::from_nanos(next_ns.saturating_sub(now_ns)).min(LOOK));
        }
    }

    /// Takes what ended in slices of a number below `before`.
    fn take(&mut self, before: u64) {
        let recorder = self.shared.recorder();
        let window = recorder.window();
        recorder.take(before, |slice, tally, response| self.series.add(slice, window, tally, response));
    }

    /// Tells the next interval, of which all slices were taken.
    fn tell_next(&mut self, oldest: Option<Duration>, observer: &mut dyn Observer) {
        let recorder = self.shared.recorder();
        let now = Now { oldest, backlog: self.backlog() };
        let (interval, response) = self.series.interval(self.told, now, recorder.window());
        observer.interval(&interval, response);
        self.told += 1;
    }

    /// Age of the oldest transaction in flight.
    fn oldest(&self) -> Option<Duration> {
        let now_ns = self.shared.clock.now_ns();
        let first_ns = self.shared.begun.iter().filter_map(Begun::get).min();
        first_ns.map(|first_ns| Duration::from_nanos(now_ns.saturating_sub(first_ns)))
    }

    /// How many transactions of an open loop are due and not begun. Called inside the window or after it.
    fn backlog(&mut self) -> Option<u64> {
        let now_ns = self.shared.clock.now_ns();
        self.progress.as_mut().map(|progress| progress.backlog(now_ns))
    }

    /// Whether all events have been begun, or could have been.
    fn used_up(&mut self) -> bool {
        let now_ns = self.shared.clock.now_ns();
        // In an open loop those that wait for their time are taken, too.
        self.shared.tickets.are_used_up() && self.progress.as_mut().is_none_or(|progress| progress.all_due(now_ns))
    }

    fn wait(&mut self, timeout: Duration) {
        match self.events.recv_timeout(timeout) {
            Ok(Event::Ended { panicked }) => {
                self.running -= 1;
                self.panicked += u32::from(panicked);
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.running = 0,
        }
    }

    fn too_many_errors(&self) -> bool {
        let Outcomes { committed, failed, lost } = self.shared.recorder().outcomes();
        let hopeless = committed == 0 && failed > 0 && self.began.elapsed() >= HOPELESS;
        // An outage costs each connection a transaction. It is measured, and ends the run only if it does not end.
        let errors = if hopeless { failed } else { failed - lost };
        (hopeless || errors >= FEWEST_FAILURES)
            && errors as f64 > self.spec.max_error_rate * (committed + failed) as f64
    }

    /// Whether no transaction has committed on any connection for too long since all of them broke. A server may let them
    /// in again and still be of no use, as one that became a replica.
    fn server_lost(&self, now_ns: u64) -> bool {
        let away_ns = self.shared.recorder().all_away_since_ns().map(|since_ns| now_ns.saturating_sub(since_ns));
        away_ns.is_some_and(|away_ns| Duration::from_nanos(away_ns) >= self.spec.longest_outage)
    }

    /// Whether the last events of a run have not ended for as long as a forced shutdown waits.
    fn overdue(&mut self) -> bool {
        self.used_up() && self.used_up_since.get_or_insert_with(Instant::now).elapsed() >= self.spec.forced_shutdown
    }

    /// Waits for transactions in flight, but no longer than the forced shutdown allows, nor than somebody who interrupts
    /// the waiting itself; `false` if that happened.
    fn drain(&mut self, ending: Ending, observer: &mut dyn Observer, interrupted: &AtomicBool) -> bool {
        if ending != Ending::Interrupted {
            return self.wait_for_last_transactions(observer, interrupted);
        }
        // The interruption was heard; its flag is down meanwhile, so that the next one can be heard too.
        interrupted.store(false, Ordering::Relaxed);
        let drained = self.wait_for_last_transactions(observer, interrupted);
        interrupted.store(true, Ordering::Relaxed);
        drained
    }

    fn wait_for_last_transactions(&mut self, observer: &mut dyn Observer, interrupted: &AtomicBool) -> bool {
        let since = self.used_up_since.unwrap_or_else(Instant::now);
        let mut told = false;
        while self.running > 0 {
            let left = self.spec.forced_shutdown.saturating_sub(since.elapsed());
            if left.is_zero() {
                break;
            }
            if interrupted.load(Ordering::Relaxed) {
                return false;
            }
            if !told && since.elapsed() >= SILENCE {
                told = true;
                observer.draining(self.running, left);
            }
            self.wait(left.min(LOOK));
        }
        true
    }

    fn finish(mut self, remainder: Remainder, client: Usage, observer: &mut dyn Observer) -> Measurement {
        self.take(u64::MAX);
        let recorder = self.shared.recorder();
        let window = recorder.window();
        while self.told < window.intervals() {
            self.tell_next(self.oldest_at_end, observer);
        }
        let mut series = self.series.finish(window);
        let open_loop = self.progress.map(|progress| {
            progress.count_due(&mut series.intervals);
            progress.finish(self.shared.clock.now_ns(), remainder.service, remainder.lateness)
        });
        let away = self.shared.away.load(Ordering::Relaxed);
        Measurement {
            // A run that ended during its warm-up never came to the start of its window.
            started_at: self.started_at.min(SystemTime::now()),
            elapsed_s: window.length_ns() as f64 / 1e9,
            window: series.tally,
            sent: (0..=worker::rollback_index(&self.shared.plan)).map(|kind| worker::sent(self.shared, kind)).sum(),
            found_nothing: found_nothing(self.shared),
            warmup: remainder.warmup,
            drained: remainder.drained,
            // One that is still being connected again has no transaction to end.
            unfinished: self.running.saturating_sub(away),
            away: away + self.shared.never_back.load(Ordering::Relaxed),
            panicked: self.panicked,
            response: series.response,
            open_loop,
            statements: statement_latencies(&self.shared.plan, remainder.statements),
            prepares: remainder.prepares,
            outages: recorder.outages(),
            connects: self.connects.times,
            reconnects: remainder.reconnects,
            encryption: self.connects.encryption,
            series: series.intervals,
            confidence: Confidence::of(&series.blocks),
            client,
            server: None,
            validation: None,
        }
    }
}

/// Statements that found no row at least once.
fn found_nothing<T>(shared: &Shared<T>) -> Vec<FoundNothing> {
    let each = shared.plan.statements.iter().enumerate().map(|(index, statement)| FoundNothing {
        statement: statement.name.clone(),
        count: worker::sent(shared, worker::nothing_index(&shared.plan, index)),
        sent: worker::sent(shared, index),
    });
    each.filter(|statement| statement.count > 0).collect()
}

fn statement_latencies(plan: &Plan, mut latencies: Vec<Histogram>) -> Vec<StatementLatency> {
    let mut first_parts = latencies.split_off(worker::first_part_index(plan, 0).min(latencies.len())).into_iter();
    // BEGIN and COMMIT, which come after the plan's statements, have none.
    let name = |(index, latency): (usize, Histogram)| StatementLatency {
        name: worker::statement_name(plan, index).to_string(),
        kind: match plan.statements.get(index).map(|statement| statement.kind) {
            Some(Kind::Read) => "read",
            Some(Kind::Write) => "write",
            Some(Kind::Other) | None => "other",
        },
        latency,
        first_part: first_parts.next().filter(|first_part| !first_part.is_empty()),
    };
    latencies.into_iter().enumerate().map(name).filter(|statement| !statement.latency.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Interval;
    use crate::spec::IgnoredErrors;
    use crate::target::FaultClass;
    use crate::workload::plan::Call;
    use crate::workload::{RandomSettings, Settings, Workload};

    /// What its sessions do once `good` statements were answered.
    #[derive(Clone, Copy)]
    enum Then {
        Panic,
        /// Breaks, and can never be connected to again.
        Vanish,
        /// Breaks, and can be connected to again at once.
        Break,
        /// Takes no writes any more, as do the sessions that are opened later.
        Replica,
        /// Has no more of something, and breaks at the ROLLBACK.
        BreakInRollback,
        /// Has no more of something, neither for a statement nor for a ROLLBACK if `stuck`.
        Overload {
            stuck: bool,
        },
    }

    struct Failing {
        good: u32,
        then: Then,
        gone: Arc<AtomicBool>,
    }

    struct FailingSession {
        left: u32,
        then: Then,
        gone: Arc<AtomicBool>,
    }

    fn broken() -> Fault {
        Fault { class: FaultClass::ConnectionLost, code: 0, sqlstate: String::new(), message: "gone".into() }
    }

    fn overload() -> Fault {
        Fault { class: FaultClass::Overload, code: 1226, sqlstate: String::new(), message: "no more".into() }
    }

    fn read_only() -> Fault {
        Fault { class: FaultClass::Failover, code: 1290, sqlstate: String::new(), message: "read only".into() }
    }

    impl Target for Failing {
        type Session = FailingSession;

        fn connect(&self) -> Result<FailingSession, Fault> {
            let left = match (self.gone.load(Ordering::Relaxed), self.then) {
                (true, Then::Replica) => 0,
                (true, _) => return Err(broken()),
                (false, _) => self.good,
            };
            Ok(FailingSession { left, then: self.then, gone: Arc::clone(&self.gone) })
        }

        fn descriptors_per_session(&self) -> u64 {
            0
        }
    }

    impl Session for FailingSession {
        fn begin(&mut self, _writes: bool) -> Result<(), Fault> {
            Ok(())
        }

        fn execute(&mut self, _call: Call<'_>) -> Result<Option<u64>, Fault> {
            match (self.left.checked_sub(1), self.then) {
                (Some(left), _) => {
                    self.left = left;
                    Ok(None)
                }
                (None, Then::Panic) => panic!("a fault that a test asked for"),
                (None, Then::Vanish) => {
                    self.gone.store(true, Ordering::Relaxed);
                    Err(broken())
                }
                (None, Then::Break) => Err(broken()),
                (None, Then::Replica) => {
                    self.gone.store(true, Ordering::Relaxed);
                    Err(read_only())
                }
                (None, Then::Overload { .. } | Then::BreakInRollback) => Err(overload()),
            }
        }

        fn commit(&mut self) -> Result<(), Fault> {
            Ok(())
        }

        fn rollback(&mut self) -> Result<(), Fault> {
            match self.then {
                Then::Overload { stuck: true } => Err(overload()),
                Then::BreakInRollback => Err(broken()),
                _ => Ok(()),
            }
        }
    }

    struct Silent;

    impl Observer for Silent {}

    fn spec() -> RunSpec {
        RunSpec {
            threads: 4,
            time: None,
            events: None,
            open_loop: None,
            warmup_time: Duration::ZERO,
            interval: Duration::from_millis(10),
            server_interval: None,
            detail: true,
            seed: 1,
            max_retries: 0,
            connect_concurrency: 32,
            ignored_errors: IgnoredErrors::These(Vec::new()),
            max_error_rate: 1.0,
            forced_shutdown: Duration::from_secs(10),
            longest_outage: Duration::from_millis(300),
        }
    }

    /// Four connections with 50 good statements each, without a limit of time.
    fn run_failing(then: Then) -> (Measurement, Ending) {
        run_with(then, &spec())
    }

    fn run_with(then: Then, spec: &RunSpec) -> (Measurement, Ending) {
        run_workload("oltp_point_select", then, spec)
    }

    fn run_workload(name: &str, then: Then, spec: &RunSpec) -> (Measurement, Ending) {
        let settings = Settings { options: Default::default(), threads: 4, random: RandomSettings::default() };
        let plan = Workload::load(name).unwrap().compile(&settings).unwrap();
        let target = Failing { good: 50, then, gone: Arc::default() };
        run(target, Arc::new(plan), spec, None, None, &mut Silent, &AtomicBool::new(false)).unwrap()
    }

    fn sum(series: &[Interval]) -> u64 {
        series.iter().map(|interval| interval.tally.transactions).sum()
    }

    #[test]
    fn workers_that_panic_are_counted_and_the_run_ends() {
        let (measurement, ending) = run_failing(Then::Panic);
        assert_eq!(ending, Ending::Completed);
        assert_eq!((measurement.panicked, measurement.unfinished), (4, 0));
        assert_eq!((measurement.window.transactions, sum(&measurement.series)), (200, 200));
        assert!(measurement.elapsed_s < 60.0, "{}", measurement.elapsed_s);
    }

    #[test]
    fn a_server_that_stays_away_ends_a_run_without_a_limit_of_time() {
        let (measurement, ending) = run_failing(Then::Vanish);
        assert_eq!(ending, Ending::ServerLost);
        // The first to fail takes the server with it; the others' connections last for all of their statements.
        assert_eq!(measurement.window.transactions, 200);
        assert_eq!(measurement.window.failed_transactions, 4);
        assert_eq!((measurement.panicked, measurement.unfinished), (0, 0));
        assert!(measurement.elapsed_s >= 0.3, "{}", measurement.elapsed_s);
        // None came back, so each outage lasts to the end, and there is one of all of them.
        let outages = &measurement.outages;
        assert_eq!((outages.each.len(), outages.cut_off, outages.all.count), (4, 4, 1));
        assert!(outages.all.longest_ns >= 300_000_000, "{outages:?}");
        assert!(outages.each.min_us() >= outages.all.longest_ns as f64 / 1e3, "{outages:?}");
        assert!(outages.each.max_us() <= measurement.elapsed_s * 1e6, "{outages:?}");
        assert_eq!((measurement.window.lost_connections, measurement.reconnects.len()), (4, 0));
    }

    #[test]
    fn a_server_that_lets_clients_in_and_takes_no_writes_any_more_is_lost_too() {
        let (measurement, ending) = run_failing(Then::Replica);
        assert_eq!(ending, Ending::ServerLost);
        assert_eq!(measurement.window.transactions, 200);
        assert!(measurement.window.reconnects > 0, "{:?}", measurement.window);
        assert_eq!(measurement.outages.all.count, 1);
        assert!(measurement.outages.all.longest_ns >= 300_000_000, "{:?}", measurement.outages);
    }

    #[test]
    fn a_transaction_whose_connection_breaks_at_its_rollback_is_lost() {
        let spec = RunSpec { events: Some(24), ..spec() };
        let (measurement, ending) = run_workload("oltp_read_only", Then::BreakInRollback, &spec);
        assert_eq!(ending, Ending::Completed);
        let window = &measurement.window;
        assert!(window.failed_transactions > 0, "{window:?}");
        let lost = (window.lost_transactions, window.lost_connections);
        assert_eq!(lost, (window.failed_transactions, window.failed_transactions));
    }

    #[test]
    fn each_connection_that_is_opened_again_is_timed_and_so_is_its_outage() {
        let (measurement, ending) = run_with(Then::Break, &RunSpec { events: Some(1000), ..spec() });
        assert_eq!(ending, Ending::Completed);
        let window = &measurement.window;
        assert!(window.reconnects > 4, "{window:?}");
        assert_eq!(measurement.reconnects.len(), window.reconnects);
        // Whoever is opened again commits, unless the events are used up by then.
        let ended = measurement.outages.each.len() - measurement.outages.cut_off;
        assert!(window.reconnects - ended <= 4, "{window:?}, {:?}", measurement.outages);
        assert_eq!(window.failed_transactions, window.lost_connections);
    }

    #[test]
    fn an_overloaded_server_is_given_pauses_and_left_where_it_refuses_a_rollback() {
        // Three transactions of 14 statements each commit on a connection. Without a new one at least 12 of 24 fail, so
        // some worker meets three errors, after two pauses; with one for each error some worker meets it after a pause.
        for (stuck, least_failed, least_s) in [(false, 12, 0.075), (true, 3, 0.025)] {
            let spec = RunSpec { events: Some(24), ..spec() };
            let (measurement, ending) = run_workload("oltp_read_only", Then::Overload { stuck }, &spec);
            assert_eq!(ending, Ending::Completed);
            let window = &measurement.window;
            let failed = window.failed_transactions;
            assert_eq!(window.transactions + failed, 24, "{window:?}");
            assert!(failed >= least_failed, "{window:?}");
            assert!(measurement.elapsed_s >= least_s, "{}", measurement.elapsed_s);
            assert_eq!(window.lost_connections, if stuck { failed } else { 0 }, "{window:?}");
            assert_eq!(window.reconnects > 0, stuck, "{window:?}");
            let rollbacks = window.errors.iter().filter(|(key, _)| key.statement == "ROLLBACK");
            assert_eq!(rollbacks.map(|(_, error)| error.count).sum::<u64>(), window.lost_connections);
        }
    }

    #[test]
    fn connections_lost_before_the_window_are_away_in_it() {
        let longest_outage = Duration::from_secs(600);
        let (warmup_time, time) = (Duration::from_millis(200), Some(Duration::from_millis(200)));
        let (measurement, ending) = run_with(Then::Vanish, &RunSpec { warmup_time, time, longest_outage, ..spec() });
        assert_eq!(ending, Ending::Completed);
        assert_eq!((measurement.away, measurement.unfinished), (4, 0));
    }
}
