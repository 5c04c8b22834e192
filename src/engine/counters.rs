//! The server's own counters over the window, read on a connection of its own while the run goes on.
//!
//! One reading is made when the window begins and one when it ends, and others in between if they are asked for. With each
//! goes what the workers had sent before and after it, so that the server's count can be held against ours.
//! A reading that takes long delays nothing but itself. Must not import `report` or `cli`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::digests;
use super::worker::{self, Shared};
use crate::metrics::Window;
use crate::metrics::server::{Counters, Counting, Reading, Sent, Step, rises_between};
use crate::target::{Control, Counts, Database, Digest, Fault, FaultClass};
use crate::workload::plan::Plan;

/// How often the window's start and end are looked for; the end may be brought forward at any time.
const LOOK: Duration = Duration::from_millis(5);
/// How long a server may keep the run waiting: for the login before the window, and for the last reading after it.
const GRACE: Duration = Duration::from_secs(2);
/// Share of the window that lies after the first reading, at least.
const COVERED: f64 = 0.9;
/// Why they are not known of a run that ends while a question is under way.
const OVER: &str = "the run was over before they could be read";

/// What the run and the reading thread tell each other.
#[derive(Default)]
pub(super) struct Reader {
    /// All workers are connected. Only then may the reader take a connection too: the server may have none left, which
    /// must cost the counters and not the run.
    may_log_in: AtomicBool,
    logged_in: AtomicBool,
    done: AtomicBool,
    stop: AtomicBool,
}

impl Reader {
    /// Lets it log in, so that its first reading is not late, and waits for that, but not for long.
    pub(super) fn log_in(&self, interrupted: &AtomicBool) {
        self.may_log_in.store(true, Ordering::Relaxed);
        let since = Instant::now();
        while !self.logged_in.load(Ordering::Relaxed) && since.elapsed() < GRACE && !interrupted.load(Ordering::Relaxed)
        {
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until the last reading was made or has failed, but not for long.
    pub(super) fn wait_for_last_reading(&self) {
        let since = Instant::now();
        while !self.done.load(Ordering::Relaxed) && since.elapsed() < GRACE {
            std::thread::sleep(LOOK);
        }
    }
}

/// Stops the reader, also when the run panics: its thread is joined in any case.
struct StopOnDrop<'a>(&'a Reader);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Does `work`, which makes the recorder and ends with its window, and reads the counters of `server` beside it, at this
/// `pace` if there is one.
pub(super) fn beside<T: Sync + Send, R>(
    server: Option<&dyn Database>,
    pace: Option<Duration>,
    shared: &Shared<T>,
    work: impl FnOnce(Option<&Reader>) -> R,
) -> (R, Option<Counters>) {
    let Some(server) = server else { return (work(None), None) };
    let reader = Reader::default();
    std::thread::scope(|scope| {
        let stop = StopOnDrop(&reader);
        let thread = std::thread::Builder::new().name("server-counters".into());
        let read = || {
            let counters = over_window(server, pace, shared, &reader).unwrap_or_else(Counters::Unknown);
            reader.done.store(true, Ordering::Relaxed);
            counters
        };
        let thread = match thread.spawn_scoped(scope, read) {
            Ok(thread) => thread,
            Err(error) => {
                return (work(None), Some(Counters::Unknown(format!("no thread could be started: {error}"))));
            }
        };
        let done = work(Some(&reader));
        drop(stop);
        let counters = thread.join().unwrap_or_else(|_| Counters::Unknown("reading them failed".into()));
        (done, Some(counters))
    })
}

/// What the counters rose by over the window, or why that is not known.
fn over_window<T>(
    server: &dyn Database,
    pace: Option<Duration>,
    shared: &Shared<T>,
    reader: &Reader,
) -> Result<Counters, String> {
    let stop = &reader.stop;
    let over = || OVER.to_string();
    until(stop, || reader.may_log_in.load(Ordering::Relaxed).then_some(())).ok_or_else(over)?;
    let control = server.prompt_control(stop);
    reader.logged_in.store(true, Ordering::Relaxed);
    let control = control.map_err(why)?;
    let recorder = until(stop, || shared.recorder.get()).ok_or_else(over)?;
    let window = recorder.window();
    let names = counter_names(control.as_ref(), &shared.plan);
    let mut source = Source { server, control, stop, shared, names, asked: 0, reconnects: 0 };
    let reached = |time_ns: u64| (shared.clock.now_ns() >= time_ns).then_some(());
    until(stop, || reached(window.start_ns().min(window.end_ns()))).ok_or_else(over)?;
    if window.end_ns() <= window.start_ns() {
        return Err("the run ended before its window began".into());
    }
    // Outside of the readings, which would count it.
    let digests_before = source.digests();
    let first = source.read()?;
    let mut steps = Steps { start_ns: window.start_ns(), latest: first.clone(), steps: Vec::new() };
    if let Some(pace) = pace {
        source.read_at(pace, window, &mut steps)?;
    }
    until(stop, || reached(window.end_ns())).ok_or_else(over)?;
    let covered = window.end_ns().saturating_sub(first.answered_ns) as f64 / window.length_ns() as f64;
    // A window without a length is covered by nothing.
    if covered.is_nan() || covered < COVERED {
        return Err(format!("the first reading came so late that they cover {:.0} % of it", 100.0 * covered.max(0.0)));
    }
    let last = source.read()?;
    let counting = source.names.as_ref().map(|_| source.counting()).map_err(String::clone);
    let mut counters = Counters::between(&first, &last, counting);
    if let Counters::Known(rises) = &mut counters {
        let digests = digests_before.and_then(|before| Ok((before, source.digests()?)));
        rises.digests = digests.map(|(before, after)| digests::longest(&before, after, &shared.plan));
        if pace.is_some() {
            steps.add(last, source.series())?;
            rises.series = steps.steps;
        }
    }
    Ok(counters)
}

/// The counter of each kind of statement that a worker counts, or why there is not one for each.
fn counter_names(control: &dyn Control, plan: &Plan) -> Result<Vec<&'static str>, String> {
    let counting = control.counting().ok_or("it does not count statements")?;
    let texts = plan.statements.iter().map(|statement| (statement.name.as_str(), &*statement.sql[0]));
    let own = plan.transaction.begin.then_some([("BEGIN", "BEGIN"), ("COMMIT", "COMMIT"), ("ROLLBACK", "ROLLBACK")]);
    let name = |(name, sql): (&str, &str)| {
        let counter = (counting.of)(sql);
        counter.ok_or_else(|| format!("under which names the server counts the statement `{name}` is not known"))
    };
    texts.chain(own.into_iter().flatten()).map(name).collect()
}

/// Where readings come from.
struct Source<'a, T> {
    server: &'a dyn Database,
    control: Box<dyn Control + 'a>,
    stop: &'a AtomicBool,
    shared: &'a Shared<T>,
    names: Result<Vec<&'static str>, String>,
    /// How often the counters were asked for, and connections opened again to do so.
    asked: u64,
    reconnects: u64,
}

impl<T> Source<'_, T> {
    /// Reads at this pace inside the window, until it ends.
    fn read_at(&mut self, pace: Duration, window: &Window, steps: &mut Steps) -> Result<(), String> {
        let pace_ns = pace.as_nanos() as u64;
        let mut tried_ns = steps.latest.answered_ns;
        loop {
            // Those that a slow or failed answer has left no time for are left out.
            let done = tried_ns.saturating_sub(window.start_ns()) / pace_ns;
            let due_ns = window.start_ns().saturating_add((done + 1).saturating_mul(pace_ns));
            let reached = || (self.shared.clock.now_ns() >= due_ns.min(window.end_ns())).then_some(());
            until(self.stop, reached).ok_or(OVER)?;
            if due_ns >= window.end_ns() {
                return Ok(());
            }
            // What rose while one failed is in the next one.
            if let Ok(reading) = self.read() {
                steps.add(reading, self.series())?;
            }
            tried_ns = self.shared.clock.now_ns();
        }
    }

    /// The connection may have been closed for being idle; then it is opened again.
    fn read(&mut self) -> Result<Reading, String> {
        let read = self.try_read().or_else(|_| {
            self.reconnects += 1;
            self.control = self.server.prompt_control(self.stop)?;
            self.try_read()
        });
        read.map_err(why)
    }

    fn try_read(&mut self) -> Result<Reading, Fault> {
        // Before what was sent is noted, since the answer counts its question.
        self.asked += 1;
        let (asked_ns, before) = (self.shared.clock.now_ns(), self.sent());
        let Counts { uptime_s, counters } = self.control.counters()?;
        let (answered_ns, after) = (self.shared.clock.now_ns(), self.sent());
        Ok(Reading { asked_ns, answered_ns, uptime_s, counters, sent: [before, after] })
    }

    fn digests(&mut self) -> Result<Vec<Digest>, String> {
        self.control.digests().map_err(why)
    }

    /// What the workers and this connection have sent so far.
    fn sent(&self) -> Sent {
        let mut sent = Sent {
            own: self.asked,
            maybe_uncounted: self.shared.maybe_uncounted.load(Ordering::Relaxed),
            reconnects: self.shared.reconnects.load(Ordering::Relaxed) + self.reconnects,
            ..Sent::default()
        };
        for (statement, name) in self.names.iter().flatten().enumerate() {
            let count = worker::sent(self.shared, statement);
            *sent.by_counter.entry(name).or_default() += count;
            sent.statements += count;
        }
        sent
    }

    fn counting(&self) -> Counting {
        let (all, again) = self.control.counting().map_or(("", ""), |counting| (counting.all, counting.again));
        Counting { all, again, in_flight: self.shared.sent.len() as u64 }
    }

    fn series(&self) -> &'static [&'static str] {
        self.control.counting().map_or(&[], |counting| counting.series)
    }
}

/// The series between readings.
struct Steps {
    /// Of the window.
    start_ns: u64,
    latest: Reading,
    steps: Vec<Step>,
}

impl Steps {
    fn add(&mut self, reading: Reading, names: &[&'static str]) -> Result<(), String> {
        let rises = rises_between(&self.latest, &reading)?;
        let since_start_s = |time_ns: u64| time_ns.saturating_sub(self.start_ns) as f64 / 1e9;
        self.steps.push(Step {
            start_s: since_start_s(self.latest.answered_ns),
            end_s: since_start_s(reading.answered_ns),
            answer_s: reading.answered_ns.saturating_sub(reading.asked_ns) as f64 / 1e9,
            counters: names.iter().filter_map(|&name| Some((name, *rises.get(name)?))).collect(),
        });
        self.latest = reading;
        Ok(())
    }
}

fn why(fault: Fault) -> String {
    // Nobody interrupts a reader but the end of its run.
    if fault.class == FaultClass::Interrupted { OVER.into() } else { fault.message }
}

fn until<R>(stop: &AtomicBool, reached: impl Fn() -> Option<R>) -> Option<R> {
    loop {
        match reached() {
            None if stop.load(Ordering::Relaxed) => return None,
            None => std::thread::sleep(LOOK),
            found => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, AtomicU64};
    use std::sync::{Arc, OnceLock};

    use super::*;
    use crate::engine::schedule::Tickets;
    use crate::engine::worker::Clock;
    use crate::spec::IgnoredErrors;
    use crate::target::bulk::{Bulk, Loader};
    use crate::target::check::{Check, Demand};
    use crate::target::{Dialect, Facts};
    use crate::workload::{Settings, Workload};

    /// A server that fails so many questions for its counters, each with the connection, before it answers others.
    #[derive(Clone, Default)]
    struct Ailing {
        failures: Arc<AtomicU32>,
        asked: Arc<AtomicU32>,
    }

    impl Database for Ailing {
        fn dialect(&self) -> Dialect {
            Dialect::MySql
        }

        fn control<'a>(&self, _interrupted: &'a AtomicBool) -> Result<Box<dyn Control + 'a>, Fault> {
            Ok(Box::new(self.clone()))
        }

        fn bulk(&self, _interrupted: &AtomicBool) -> Result<Bulk, Fault> {
            unreachable!("nothing is loaded")
        }

        fn loader<'a>(&self, _bulk: Bulk, _interrupted: &'a AtomicBool) -> Result<Box<dyn Loader + 'a>, Fault> {
            unreachable!("nothing is loaded")
        }

        fn loaders(&self, wanted: u32) -> u32 {
            wanted
        }

        fn descriptors_per_control(&self) -> u64 {
            0
        }
    }

    impl Control for Ailing {
        fn run(&mut self, _sql: &str) -> Result<u64, Fault> {
            unreachable!("only counters are read")
        }

        fn rows(&mut self, _sql: &str) -> Result<Vec<Vec<Option<String>>>, Fault> {
            unreachable!("only counters are read")
        }

        fn facts(&mut self) -> Result<Facts, Fault> {
            unreachable!("only counters are read")
        }

        fn counters(&mut self) -> Result<Counts, Fault> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let failures = self.failures.load(Ordering::Relaxed);
            self.failures.store(failures.saturating_sub(1), Ordering::Relaxed);
            match failures {
                0 => Ok(Counts::default()),
                _ => Err(Fault {
                    class: FaultClass::ConnectionLost,
                    code: 0,
                    sqlstate: String::new(),
                    message: "gone".into(),
                }),
            }
        }

        fn check(&mut self, _facts: &Facts, _demand: &Demand<'_>) -> Result<Vec<Check>, Fault> {
            unreachable!("only counters are read")
        }

        fn max_statement_bytes(&mut self) -> Result<usize, Fault> {
            unreachable!("only counters are read")
        }
    }

    /// What a run shares that began so long ago and has no workers.
    fn shared(age: Duration) -> Shared<()> {
        let plan = Workload::load("oltp_point_select").unwrap().compile(&Settings::default()).unwrap();
        Shared {
            target: (),
            plan: Arc::new(plan),
            schedule: None,
            tickets: Tickets::new(None, None),
            clock: Clock(Instant::now() - age),
            detail: false,
            seed: 1,
            max_retries: 0,
            ignored_errors: IgnoredErrors::These(Vec::new()),
            away: AtomicU32::new(0),
            never_back: AtomicU32::new(0),
            begun: Box::default(),
            sent: Box::default(),
            maybe_uncounted: AtomicU64::new(0),
            reconnects: AtomicU64::new(0),
            recorder: OnceLock::new(),
            validator: None,
        }
    }

    fn source<'a>(server: &'a Ailing, shared: &'a Shared<()>, stop: &'a AtomicBool) -> Source<'a, ()> {
        let control = server.control(stop).unwrap();
        Source { server, control, stop, shared, names: Err("not asked".into()), asked: 0, reconnects: 0 }
    }

    #[test]
    fn a_reading_notes_what_the_reader_itself_has_sent() {
        let (server, shared, stop) = (Ailing::default(), shared(Duration::ZERO), AtomicBool::new(false));
        let mut source = source(&server, &shared, &stop);
        let mut read = || {
            let reading = source.read().unwrap();
            reading.sent.map(|sent| (sent.own, sent.reconnects))
        };
        assert_eq!([read(), read()], [[(1, 0); 2], [(2, 0); 2]]);
        server.failures.store(1, Ordering::Relaxed);
        assert_eq!(read(), [(4, 1); 2]);
        assert_eq!(server.asked.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_reader_that_waits_after_a_failure_heeds_the_end_of_its_run() {
        const PACE: Duration = Duration::from_secs(120);
        // The second reading is due, and the one after it is not for a minute.
        let shared = shared(PACE * 3 / 2);
        let (server, stop) = (Ailing::default(), AtomicBool::new(false));
        server.failures.store(u32::MAX, Ordering::Relaxed);
        let window = Window::new(0, u64::MAX, 1_000_000_000);
        let first = Reading {
            asked_ns: 0,
            answered_ns: 0,
            uptime_s: None,
            counters: Default::default(),
            sent: Default::default(),
        };
        let mut steps = Steps { start_ns: 0, latest: first, steps: Vec::new() };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Once on its first connection, and once on another.
                while server.asked.load(Ordering::Relaxed) < 2 {
                    std::thread::sleep(LOOK);
                }
                stop.store(true, Ordering::Relaxed);
            });
            let ended = source(&server, &shared, &stop).read_at(PACE, &window, &mut steps);
            assert_eq!(ended, Err(OVER.to_string()));
        });
        assert!(shared.clock.now_ns() < (PACE * 2).as_nanos() as u64, "it slept until the next reading was due");
        assert_eq!((server.asked.load(Ordering::Relaxed), steps.steps.len()), (2, 0));
    }
}
