//! The one loop: a worker plays transactions on its session until there are no more.
//!
//! Each worker is an OS thread that owns its session, its scratch and its buffers; it shares the ticket counter and a
//! shard of the recorder. Without errors a transaction costs one clock reading a statement (or one in all, if they are
//! not timed), one atomic that all workers share (the ticket) and one lock that is rarely contended (the shard), and no
//! allocation; in an open loop also a wait until it is due, with a clock reading after it.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::schedule::{Arrivals, Progress, Schedule, Tickets};
use super::sent::Sent;
use super::validate::{Checking, Validator};
use crate::metrics::{Connection, ErrorKey, Outcome, Paced, Recorder, Sample, Statements};
use crate::spec::IgnoredErrors;
use crate::target::{Fault, FaultClass, Prepares, Session, Target};
use crate::workload::plan::{Call, Kind, Operation, Plan, Player, Scratch};

/// Pauses between attempts to connect again, and after a transaction that an overloaded server refused: the first, and
/// the longest after doubling. Each is cut by chance to between half and all of it, so that connections that were refused
/// together do not come back together.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often a worker that pauses looks whether the window's end was brought forward.
const LOOK: Duration = Duration::from_millis(100);

/// Nanoseconds since the run's origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(pub(super) Instant);

impl Clock {
    pub(super) fn now_ns(self) -> u64 {
        self.ns_at(Instant::now())
    }

    fn ns_at(self, time: Instant) -> u64 {
        // 64 bits of nanoseconds last for 584 years.
        time.saturating_duration_since(self.0).as_nanos() as u64
    }
}

/// When a worker began the transaction that it is in, and 0 while it is in none. Only that worker writes it, so it has a
/// cache line pair of its own.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Begun(AtomicU64);

impl Begun {
    pub(super) fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&begun_ns| begun_ns > 0)
    }

    fn set(&self, begun_ns: u64) {
        self.0.store(begun_ns, Ordering::Relaxed);
    }
}

/// What all workers of a run share.
pub(super) struct Shared<T> {
    pub(super) target: T,
    pub(super) plan: Arc<Plan>,
    /// `None` in the closed loop.
    pub(super) schedule: Option<Schedule>,
    pub(super) tickets: Tickets,
    pub(super) clock: Clock,
    /// Whether each statement is timed.
    pub(super) detail: bool,
    pub(super) seed: u64,
    pub(super) max_retries: u32,
    pub(super) ignored_errors: IgnoredErrors,
    /// Workers that have no connection at the moment.
    pub(super) away: AtomicU32,
    /// Workers that had none when the run was over.
    pub(super) never_back: AtomicU32,
    /// Of each worker.
    pub(super) begun: Box<[Begun]>,
    /// What each worker has sent, by [`sent`]'s numbers.
    pub(super) sent: Box<[Sent]>,
    /// Statements so far that the server may not have counted, since it refused them or their connection broke.
    pub(super) maybe_uncounted: AtomicU64,
    /// Attempts to connect again so far.
    pub(super) reconnects: AtomicU64,
    /// Set once all are connected, when the window is known.
    pub(super) recorder: OnceLock<Recorder>,
    /// `None` for a run that does not look at rows.
    pub(super) validator: Option<Arc<Validator>>,
}

impl<T> Shared<T> {
    /// Workers ask for it only behind the gate, which opens once it is set.
    pub(super) fn recorder(&self) -> &Recorder {
        self.recorder.get().expect("the recorder is set before the gate opens")
    }

    /// The coordinator's view of an open loop.
    pub(super) fn progress(&self) -> Option<Progress<'_>> {
        let schedule = self.schedule.as_ref()?;
        Some(Progress::new(schedule, &self.tickets, self.recorder().window()))
    }

    /// How a transaction ends that a fault cost.
    fn outcome_of(&self, fault: &Fault) -> Outcome {
        // A connection that broke has no code of the server; MySQL's clients call that 2006 or 2013.
        let broke = fault.class == FaultClass::ConnectionLost && fault.code == 0;
        let codes = if broke { &[2006, 2013][..] } else { &[fault.code] };
        match codes.iter().any(|&code| self.ignored_errors.contain(code)) {
            true => Outcome::Ignored,
            false if fault.class.ends_session() => Outcome::Lost,
            false => Outcome::Failed,
        }
    }
}

/// A transaction to be played now.
struct Start {
    ticket: u64,
    due_ns: u64,
    now_ns: u64,
    /// In an open loop only.
    paced: Option<Paced>,
}

pub(super) struct Worker<'a, T: Target> {
    shared: &'a Shared<T>,
    number: u32,
    /// `None` in the closed loop.
    arrivals: Option<Arrivals<'a>>,
    /// `None` after the connection was lost.
    session: Option<T::Session>,
    scratch: Scratch,
    latencies: Vec<(u16, u64)>,
    errors: Vec<(ErrorKey, String)>,
    prepares: Prepares,
    /// Whether the session was lost and no transaction has committed since.
    away: bool,
    /// Whether the last transaction was refused by a server that has no more of something.
    overloaded: bool,
    /// How long the next pause is, if there was cause for one since a transaction committed.
    pause: Option<Duration>,
    /// For the next sample.
    connection: Connection,
    checking: Option<Checking<'a>>,
}

impl<'a, T: Target> Worker<'a, T> {
    pub(super) fn new(shared: &'a Shared<T>, number: u32, session: T::Session) -> Worker<'a, T> {
        Worker {
            shared,
            number,
            arrivals: shared.schedule.as_ref().map(|schedule| schedule.arrivals_in(shared.recorder().window())),
            session: Some(session),
            scratch: shared.plan.scratch(),
            // A call may have two: until its result began to come, and until its end.
            latencies: Vec::with_capacity(2 * shared.plan.calls_per_transaction()),
            errors: Vec::new(),
            prepares: Prepares::default(),
            away: false,
            overloaded: false,
            pause: None,
            connection: Connection::Unchanged,
            checking: shared.validator.as_ref().map(|validator| Checking::new(validator, &shared.plan)),
        }
    }

    /// Gives the session back, if it was not lost.
    pub(super) fn work(mut self) -> Option<T::Session> {
        if self.arrivals.is_some() {
            wake_promptly();
        }
        let mut now_ns = self.shared.clock.now_ns();
        let mut worker_ticket = 0;
        // A worker without a connection takes no ticket: it is done.
        while self.session.is_some()
            && let Some(start) = self.next_start(now_ns)
        {
            let operation =
                Operation { seed: self.shared.seed, ticket: start.ticket, worker: self.number, worker_ticket };
            let begun = &self.shared.begun[self.number as usize];
            begun.set(start.now_ns);
            now_ns = self.transact(operation, &start);
            begun.set(0);
            worker_ticket += 1;
            if self.session.is_none() {
                now_ns = self.reconnect();
            } else if self.overloaded {
                now_ns = self.rest();
            }
        }
        self.session
    }

    /// The next transaction, once it is due; `None` when there is none any more before the window's end.
    ///
    /// One that was taken and is due before the end is begun even if the thread wakes after it, or shed: what nobody took
    /// is all that was not begun.
    fn next_start(&mut self, mut now_ns: u64) -> Option<Start> {
        let recorder = self.shared.recorder();
        let Some(arrivals) = self.arrivals.as_mut() else {
            let ticket = self.shared.tickets.take(now_ns, recorder.window())?;
            return Some(Start { ticket, due_ns: now_ns, now_ns, paced: None });
        };
        let schedule = arrivals.schedule();
        loop {
            let ticket = self.shared.tickets.take(now_ns, recorder.window())?;
            let due_ns = arrivals.due_ns(ticket);
            let slept = now_ns < due_ns;
            while let Some(wait_ns) = due_ns.min(recorder.window().end_ns()).checked_sub(now_ns).filter(|&ns| ns > 0) {
                std::thread::park_timeout(Duration::from_nanos(wait_ns));
                now_ns = self.shared.clock.now_ns();
            }
            if due_ns >= recorder.window().end_ns() {
                return None;
            }
            if !schedule.sheds(due_ns, now_ns) {
                return Some(Start { ticket, due_ns, now_ns, paced: Some(Paced { begun_ns: now_ns, slept }) });
            }
            recorder.shed(self.number, due_ns, now_ns);
            now_ns = self.shared.clock.now_ns();
        }
    }

    /// Plays one transaction to its end, repeating it with the same arguments after a conflict, and records it.
    /// Returns the time at which it ended.
    fn transact(&mut self, operation: Operation, start: &Start) -> u64 {
        let Some(session) = self.session.as_mut() else { return start.now_ns };
        let plan = &self.shared.plan;
        let mut failed = Statements::default();
        let mut retries = 0;
        let mut start_ns = start.now_ns;
        let mut lost = false;
        let (outcome, statements, end_ns) = loop {
            self.latencies.clear();
            let counts = &self.shared.sent[self.number as usize];
            let mut attempt = Attempt {
                session,
                plan,
                counts,
                latencies: &mut self.latencies,
                clock: self.shared.clock,
                detail: self.shared.detail,
                now_ns: start_ns,
                sent: Statements::default(),
                open: false,
                current: 0,
                checking: self.checking.as_mut(),
                errors: &mut self.errors,
            };
            let played = plan.play(operation, &mut self.scratch, &mut attempt);
            if let Some(checking) = &mut attempt.checking {
                checking.ended(played.is_ok());
            }
            let Err(fault) = played else { break (Outcome::Committed, attempt.sent, attempt.ended_ns()) };
            self.overloaded = fault.class == FaultClass::Overload;
            // Before the ROLLBACK, which then is the one statement on its way.
            self.shared.maybe_uncounted.fetch_add(u64::from(fault.class.may_be_uncounted()), Ordering::Relaxed);
            let given_up = attempt.give_up(&fault);
            lost = given_up.is_err();
            let (sent, now_ns) = (attempt.sent, attempt.now_ns);
            failed += sent;
            let again = !lost
                && fault.class == FaultClass::Retry
                && retries < self.shared.max_retries
                && now_ns < self.shared.recorder().window().end_ns();
            if !again {
                let outcome = match (self.shared.outcome_of(&fault), given_up) {
                    (Outcome::Failed, Err(last)) => self.shared.outcome_of(&last),
                    (outcome, _) => outcome,
                };
                break (outcome, Statements::default(), now_ns);
            }
            retries += 1;
            start_ns = now_ns;
        };
        session.take_prepares(&mut self.prepares);
        if lost {
            self.session = None;
            // What broke the connection, or the ROLLBACK that failed.
            self.shared.maybe_uncounted.fetch_add(1, Ordering::Relaxed);
            self.away = true;
            self.connection = Connection::Lost;
        } else if outcome == Outcome::Committed {
            self.overloaded = false;
            self.pause = None;
            if std::mem::take(&mut self.away) {
                self.connection = Connection::Back;
            }
        }
        self.record(start, end_ns, outcome, statements, failed, retries);
        end_ns
    }

    /// Records errors that were met outside of a transaction.
    fn record_errors(&mut self, now_ns: u64) {
        let start = Start { ticket: 0, due_ns: now_ns, now_ns, paced: None };
        self.record(&start, now_ns, Outcome::Nothing, Statements::default(), Statements::default(), 0);
    }

    fn record(
        &mut self,
        start: &Start,
        end_ns: u64,
        outcome: Outcome,
        statements: Statements,
        failed_statements: Statements,
        retries: u32,
    ) {
        let sample = Sample {
            due_ns: start.due_ns,
            end_ns,
            paced: start.paced,
            outcome,
            statements,
            latencies: &self.latencies,
            failed_statements,
            retries,
            errors: &self.errors,
            connection: std::mem::replace(&mut self.connection, Connection::Unchanged),
            prepares: &self.prepares.took_ns,
            turned_to_text: self.prepares.refused,
        };
        self.shared.recorder().record(self.number, &sample);
        self.errors.clear();
        self.prepares.clear();
    }

    /// Connects again, until it works or there is nothing left to do. Returns the time.
    ///
    /// The first attempt is made at once, unless the server is overloaded; the pauses before later ones grow until a
    /// transaction commits, since a server may let a client in and still be of no use, as one that became a replica.
    fn reconnect(&mut self) -> u64 {
        self.shared.away.fetch_add(1, Ordering::Relaxed);
        let window = self.shared.recorder().window();
        let mut now_ns = self.shared.clock.now_ns();
        loop {
            match self.pause {
                None if !self.overloaded => self.pause = Some(FIRST_PAUSE),
                _ => now_ns = self.rest(),
            }
            if now_ns >= window.end_ns() || self.shared.tickets.are_used_up() {
                self.shared.never_back.fetch_add(1, Ordering::Relaxed);
                break;
            }
            let began_ns = now_ns;
            self.shared.reconnects.fetch_add(1, Ordering::Relaxed);
            let connected = self.shared.target.connect();
            now_ns = self.shared.clock.now_ns();
            match connected {
                Ok(session) => {
                    self.session = Some(session);
                    self.connection = Connection::Reopened { took_ns: now_ns - began_ns };
                }
                Err(fault) => self.errors.push(error("connect", &fault)),
            }
            // Recorded at once, so that an outage shows in the interval in which it happens.
            self.record_errors(now_ns);
            if self.session.is_some() {
                break;
            }
        }
        self.shared.away.fetch_sub(1, Ordering::Relaxed);
        now_ns
    }

    /// Pauses, each time twice as long until a transaction commits, but not beyond the run's end, whenever that comes.
    /// Returns the time.
    fn rest(&mut self) -> u64 {
        let pause = self.pause.unwrap_or(FIRST_PAUSE);
        self.pause = Some((pause * 2).min(LONGEST_PAUSE));
        let window = self.shared.recorder().window();
        let mut now_ns = self.shared.clock.now_ns();
        let over_ns = now_ns + pause.mul_f64(rand::random_range(0.5..=1.0)).as_nanos() as u64;
        loop {
            let left_ns = over_ns.min(window.end_ns()).saturating_sub(now_ns);
            if left_ns == 0 || self.shared.tickets.are_used_up() {
                return now_ns;
            }
            std::thread::sleep(Duration::from_nanos(left_ns).min(LOOK));
            now_ns = self.shared.clock.now_ns();
        }
    }
}

/// Lets this thread's timers end when they should: Linux lets them be 50 us late otherwise, to wake the processor less.
fn wake_promptly() {
    // Where it is refused they are that much later, and the report shows it.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// One try of a transaction: counts what is sent, times each statement, and remembers what was sent last.
struct Attempt<'a, 'c, S> {
    session: &'a mut S,
    plan: &'a Plan,
    /// Counts of the whole run.
    counts: &'a Sent,
    latencies: &'a mut Vec<(u16, u64)>,
    clock: Clock,
    detail: bool,
    /// When it began, or the last statement that was timed had its answer.
    now_ns: u64,
    sent: Statements,
    /// Whether BEGIN was answered and neither COMMIT nor ROLLBACK was.
    open: bool,
    current: usize,
    checking: Option<&'a mut Checking<'c>>,
    errors: &'a mut Vec<(ErrorKey, String)>,
}

impl<S: Session> Attempt<'_, '_, S> {
    fn answered(&mut self) {
        if !self.detail {
            return;
        }
        let now_ns = self.clock.now_ns();
        // A plan has few statements; a u16 keeps the entries small.
        self.latencies.push((self.current as u16, now_ns - self.now_ns));
        self.now_ns = now_ns;
    }

    fn ended_ns(&self) -> u64 {
        if self.detail { self.now_ns } else { self.clock.now_ns() }
    }

    /// Looks at the rows that were read. What that takes is part of the transaction's time, and of no statement's.
    #[cold]
    fn check(&mut self, call: Call<'_>) {
        let Some(checking) = &mut self.checking else { return };
        let statement = statement_name(self.plan, self.current);
        checking.check(call, |message| self.errors.push((difference(statement), message.to_string())));
        self.now_ns = self.clock.now_ns();
    }

    /// Notes the error and leaves the transaction by ROLLBACK. The error is that for which the session must be replaced.
    fn give_up(&mut self, fault: &Fault) -> Result<(), Fault> {
        self.errors.push(error(statement_name(self.plan, self.current), fault));
        let given_up = if fault.class.ends_session() {
            Err(fault.clone())
        } else if self.open {
            self.sent.other += 1;
            self.counts.count(rollback_index(self.plan));
            // A session whose transaction cannot be ended must not go on inside it.
            self.session.rollback().inspect_err(|fault| self.errors.push(error("ROLLBACK", fault)))
        } else {
            Ok(())
        };
        self.now_ns = self.clock.now_ns();
        given_up
    }
}

impl<S: Session> Player for Attempt<'_, '_, S> {
    type Fault = Fault;

    fn begin(&mut self, writes: bool) -> Result<(), Fault> {
        self.current = begin_index(self.plan);
        self.sent.other += 1;
        self.counts.count(self.current);
        self.session.begin(writes)?;
        self.open = true;
        self.answered();
        Ok(())
    }

    fn execute(&mut self, call: Call<'_>) -> Result<(), Fault> {
        self.current = call.statement;
        match self.plan.statements[call.statement].kind {
            Kind::Read => self.sent.reads += 1,
            Kind::Write => self.sent.writes += 1,
            Kind::Other => self.sent.other += 1,
        }
        self.counts.count(self.current);
        let rows = match &mut self.checking {
            None => self.session.execute(call)?,
            Some(checking) => checking.execute(self.session, call)?,
        };
        if self.detail
            && let Some(time) = self.session.first_part()
        {
            let took_ns = self.clock.ns_at(time).saturating_sub(self.now_ns);
            self.latencies.push((first_part_index(self.plan, self.current) as u16, took_ns));
        }
        self.answered();
        if self.checking.is_some() {
            self.check(call);
        }
        if rows == Some(0) && self.plan.statements[self.current].kind != Kind::Other {
            self.counts.count(nothing_index(self.plan, self.current));
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Fault> {
        self.current = commit_index(self.plan);
        self.sent.other += 1;
        self.counts.count(self.current);
        self.session.commit()?;
        self.open = false;
        self.answered();
        Ok(())
    }
}

/// BEGIN and COMMIT are timed under the two numbers after the plan's own statements.
pub(super) fn begin_index(plan: &Plan) -> usize {
    plan.statements.len()
}

pub(super) fn commit_index(plan: &Plan) -> usize {
    plan.statements.len() + 1
}

/// What the first parts of results took that came in several is timed under the numbers after those.
pub(super) fn first_part_index(plan: &Plan, statement: usize) -> usize {
    commit_index(plan) + 1 + statement
}

/// How many latencies are kept apart.
pub(super) fn latency_kinds(plan: &Plan) -> usize {
    first_part_index(plan, plan.statements.len())
}

/// ROLLBACK is counted, and not timed.
pub(super) fn rollback_index(plan: &Plan) -> usize {
    plan.statements.len() + 2
}

/// Statements that found no row are counted once more, under the numbers after those of what is sent.
pub(super) fn nothing_index(plan: &Plan, statement: usize) -> usize {
    rollback_index(plan) + 1 + statement
}

/// How often all workers have sent the statement of this number so far.
pub(super) fn sent<T>(shared: &Shared<T>, statement: usize) -> u64 {
    shared.sent.iter().map(|sent| sent.get(statement)).sum()
}

pub(super) fn statement_name(plan: &Plan, index: usize) -> &str {
    match index - index.min(plan.statements.len()) {
        0 if index < plan.statements.len() => &plan.statements[index].name,
        0 => "BEGIN",
        _ => "COMMIT",
    }
}

/// What a row that is not what it must be is counted under.
fn difference(statement: &str) -> ErrorKey {
    ErrorKey { code: 0, sqlstate: String::new(), class: "validation", statement: statement.to_string() }
}

fn error(statement: &str, fault: &Fault) -> (ErrorKey, String) {
    let key = ErrorKey {
        code: fault.code,
        sqlstate: fault.sqlstate.clone(),
        class: fault.class.name(),
        statement: statement.to_string(),
    };
    (key, fault.message.clone())
}
