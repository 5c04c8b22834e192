//! One measurement: connect everything, warm up, measure, drain.
//!
//! The calling thread coordinates; each connection has a thread of its own. The window is a value that all of them
//! read, so no phase needs a message: a transaction belongs to the phase in which it ends. A worker that hangs keeps
//! neither an interval line nor the end of the run waiting: after the drain's deadline it is left behind and counted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::schedule::{Schedule, Tickets};
use super::worker::{self, Clock, Shared, Worker};
use super::{EngineError, Observer, descriptors};
use crate::metrics::client::Reading;
use crate::metrics::{Histogram, Interval, Measurement, Recorder, StatementLatency, Tally, Window, histogram};
use crate::spec::RunSpec;
use crate::target::{Fault, Target};
use crate::workload::plan::{Kind, Plan};

/// How many connections are being opened at any moment, so that a thousand logins do not hit the server at once.
const CONNECTING_AT_ONCE: u32 = 32;
/// How long after an interval's end its line is made, so that samples on their way are in it.
const GRACE_NS: u64 = 5_000_000;
/// How often the coordinator looks for Ctrl-C and for too many errors.
const LOOK: Duration = Duration::from_millis(50);
/// Below this many failed transactions an error rate says nothing, unless nothing succeeded for `HOPELESS`.
const FEWEST_FAILURES: u64 = 10;
const HOPELESS: Duration = Duration::from_secs(5);
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

/// What a worker tells the coordinator.
enum Event {
    Connected,
    ConnectFailed(Fault),
    Ended,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Completed,
    Interrupted,
    TooManyErrors,
}

/// Measures `plan` on `target`. `interrupted` is looked at throughout; once it is set the run ends with what it has.
pub fn run<T: Target>(
    target: T,
    plan: Arc<Plan>,
    spec: &RunSpec,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
) -> Result<(Measurement, Ending), EngineError> {
    descriptors::ensure(u64::from(spec.threads) * target.descriptors_per_session())?;
    let shared = Arc::new(Shared {
        target,
        plan,
        schedule: Schedule::ClosedLoop,
        tickets: Tickets::new(spec.events),
        clock: Clock(Instant::now()),
        seed: spec.seed,
        max_retries: spec.max_retries,
        recorder: OnceLock::new(),
    });
    let gate = Arc::new(Gate::default());
    let (sender, events) = channel();
    let spawn = |number| spawn_worker(&shared, &gate, number, sender.clone());
    if let Err(error) = connect_all(spec.threads, spawn, &events, observer, interrupted) {
        gate.decide(false);
        return Err(error);
    }
    // From here on only workers hold senders, so the channel closes when the last one ends.
    drop(sender);
    let start_ns = shared.clock.now_ns() + nanos(spec.warmup_time);
    let end_ns = spec.time.map_or(u64::MAX, |time| start_ns.saturating_add(nanos(time)));
    let window = Window::new(start_ns, end_ns, nanos(spec.interval).max(1));
    let shards = (2 * std::thread::available_parallelism().map_or(1, |cores| cores.get())).min(spec.threads as usize);
    let recorder = Recorder::new(window, shards, shared.plan.statements.len() + 2);
    // Nobody else sets it, so this cannot fail.
    let _ = shared.recorder.set(recorder);
    observer.started(spec);
    gate.decide(true);
    Ok(Coordinator::new(&shared, spec, &events).measure(observer, interrupted))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// Starts the workers, a few at a time, until all are connected and wait at the gate.
fn connect_all(
    threads: u32,
    spawn: impl Fn(u32) -> Result<(), EngineError>,
    events: &Receiver<Event>,
    observer: &mut dyn Observer,
    interrupted: &AtomicBool,
) -> Result<(), EngineError> {
    let (mut started, mut connected) = (0, 0);
    while connected < threads {
        while started < threads && started - connected < CONNECTING_AT_ONCE {
            spawn(started)?;
            started += 1;
        }
        match events.recv_timeout(LOOK) {
            Ok(Event::Connected) => connected += 1,
            Ok(Event::ConnectFailed(fault)) => {
                return Err(EngineError::Connect { connected, threads, fault });
            }
            Ok(Event::Ended) => return Err(EngineError::WorkerDied),
            Err(_) => {}
        }
        observer.connecting(connected, threads);
        if interrupted.load(Ordering::Relaxed) {
            return Err(EngineError::InterruptedEarly);
        }
    }
    Ok(())
}

fn spawn_worker<T: Target>(
    shared: &Arc<Shared<T>>,
    gate: &Arc<Gate>,
    number: u32,
    sender: Sender<Event>,
) -> Result<(), EngineError> {
    let (shared, gate) = (Arc::clone(shared), Arc::clone(gate));
    let body = move || {
        // Sent even when the thread panics, so that the coordinator never waits for it.
        let _ended = OnDrop(sender.clone());
        match shared.target.connect() {
            Ok(session) => {
                // The receiver lives as long as the run; if it is gone nobody needs the message.
                let _ = sender.send(Event::Connected);
                if gate.wait() {
                    Worker::new(&shared, number, session).work();
                }
            }
            Err(fault) => {
                let _ = sender.send(Event::ConnectFailed(fault));
            }
        }
    };
    let builder = std::thread::Builder::new().name(format!("worker-{number}")).stack_size(STACK_BYTES);
    builder.spawn(body).map(drop).map_err(|source| EngineError::Thread { number, source })
}

struct OnDrop(Sender<Event>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(Event::Ended);
    }
}

/// The coordinator's side of the measurement.
struct Coordinator<'a, T> {
    shared: &'a Shared<T>,
    spec: &'a RunSpec,
    events: &'a Receiver<Event>,
    running: u32,
    began: Instant,
    started_at: SystemTime,
    series: Vec<Interval>,
    /// Sum of the intervals taken so far.
    tally: Tally,
    response: Histogram,
}

impl<'a, T: Target> Coordinator<'a, T> {
    fn new(shared: &'a Shared<T>, spec: &'a RunSpec, events: &'a Receiver<Event>) -> Coordinator<'a, T> {
        let started_at = SystemTime::now() + spec.warmup_time;
        Coordinator {
            shared,
            spec,
            events,
            running: spec.threads,
            began: Instant::now(),
            started_at,
            series: Vec::new(),
            tally: Tally::default(),
            response: histogram(),
        }
    }

    fn measure(mut self, observer: &mut dyn Observer, interrupted: &AtomicBool) -> (Measurement, Ending) {
        let window = self.shared.recorder().window();
        let mut before = Reading::now();
        let mut warm = self.spec.warmup_time.is_zero();
        let ending = loop {
            let now_ns = self.shared.clock.now_ns();
            if !warm && now_ns >= window.start_ns() {
                warm = true;
                before = Reading::now();
            }
            if self.running == 0 || now_ns >= window.end_ns() {
                break Ending::Completed;
            }
            if interrupted.load(Ordering::Relaxed) {
                break Ending::Interrupted;
            }
            if self.too_many_errors() {
                break Ending::TooManyErrors;
            }
            let line_ns = self.next_boundary_ns().saturating_add(GRACE_NS);
            if now_ns >= line_ns {
                self.take_interval(self.next_boundary_ns());
                observer.interval(&self.series[self.series.len() - 1]);
                continue;
            }
            let next_ns = line_ns.min(window.end_ns()).min(if warm { u64::MAX } else { window.start_ns() });
            self.wait(Duration::from_nanos(next_ns.saturating_sub(now_ns)).min(LOOK));
        };
        let now_ns = self.shared.clock.now_ns();
        // Workers that stop by themselves inside the window have used up the events: the last one's end is the run's.
        if self.running == 0 && now_ns < window.end_ns() {
            window.close(self.shared.recorder().last_end_ns().map_or(now_ns, |last_end_ns| last_end_ns + 1));
        } else if ending != Ending::Completed {
            window.close(now_ns);
        }
        let after = Reading::now();
        self.drain();
        self.finish(before, after, ending, observer)
    }

    fn next_boundary_ns(&self) -> u64 {
        let window = self.shared.recorder().window();
        window.start_ns() + (self.series.len() as u64 + 1) * window.interval_ns()
    }

    fn wait(&mut self, timeout: Duration) {
        match self.events.recv_timeout(timeout) {
            Ok(Event::Ended) => self.running -= 1,
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.running = 0,
        }
    }

    fn too_many_errors(&self) -> bool {
        let mut tally = Tally {
            transactions: self.tally.transactions,
            failed_transactions: self.tally.failed_transactions,
            ..Tally::default()
        };
        self.shared.recorder().peek(&mut tally);
        let hopeless = tally.transactions == 0 && self.began.elapsed() >= HOPELESS;
        (hopeless || tally.failed_transactions >= FEWEST_FAILURES) && tally.failure_rate() > self.spec.max_error_rate
    }

    /// Moves the oldest open interval into the series; it ends at `end_ns`.
    fn take_interval(&mut self, end_ns: u64) {
        let window = self.shared.recorder().window();
        let (mut tally, mut response) = (Tally::default(), histogram());
        self.shared.recorder().take_interval(&mut tally, &mut response);
        self.tally.merge(&tally);
        add(&mut self.response, &response);
        let seconds = |ns: u64| ns.saturating_sub(window.start_ns()) as f64 / 1e9;
        let start_s = self.series.last().map_or(0.0, |last| last.end_s);
        let end_s = seconds(end_ns);
        let ended_at = self.started_at + Duration::from_secs_f64(end_s);
        self.series.push(Interval { start_s, end_s, ended_at, tally, response });
    }

    /// Waits for transactions in flight, but no longer than the forced shutdown allows.
    fn drain(&mut self) {
        let deadline = Instant::now() + self.spec.forced_shutdown;
        while self.running > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.wait(left);
        }
    }

    fn finish(
        mut self,
        before: Reading,
        after: Reading,
        ending: Ending,
        observer: &mut dyn Observer,
    ) -> (Measurement, Ending) {
        let recorder = self.shared.recorder();
        let window = recorder.window();
        let remainder = recorder.finish();
        let end_ns = window.end_ns();
        let taken = self.series.len();
        while self.next_boundary_ns() < end_ns {
            self.take_interval(self.next_boundary_ns());
        }
        self.take_interval(end_ns.max(window.start_ns()));
        self.sweep_up();
        for interval in &self.series[taken..] {
            observer.interval(interval);
        }
        let elapsed_s = end_ns.saturating_sub(window.start_ns()) as f64 / 1e9;
        let measurement = Measurement {
            started_at: self.started_at,
            elapsed_s,
            window: self.tally,
            warmup: remainder.warmup,
            drained: remainder.drained,
            unfinished: self.running,
            response: self.response,
            statements: statement_latencies(&self.shared.plan, remainder.statements),
            series: self.series,
            client: after.since(&before, elapsed_s),
        };
        (measurement, ending)
    }

    /// Gives the last interval whatever arrived late, so that the intervals add up to the totals.
    fn sweep_up(&mut self) {
        let (mut tally, mut response) = (Tally::default(), histogram());
        for _ in 0..2 {
            self.shared.recorder().take_interval(&mut tally, &mut response);
        }
        self.tally.merge(&tally);
        add(&mut self.response, &response);
        if let Some(last) = self.series.last_mut() {
            last.tally.merge(&tally);
            add(&mut last.response, &response);
        }
    }
}

fn add(sum: &mut Histogram, more: &Histogram) {
    sum.add(more).expect("all histograms have the same range");
}

fn statement_latencies(plan: &Plan, latencies: Vec<Histogram>) -> Vec<StatementLatency> {
    let name = |(index, latency): (usize, Histogram)| StatementLatency {
        name: worker::statement_name(plan, index).to_string(),
        kind: match plan.statements.get(index).map(|statement| statement.kind) {
            Some(Kind::Read) => "read",
            Some(Kind::Write) => "write",
            Some(Kind::Other) | None => "other",
        },
        latency,
    };
    latencies.into_iter().enumerate().map(name).filter(|statement| !statement.latency.is_empty()).collect()
}
