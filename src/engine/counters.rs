//! The server's own counters over the window, read on a connection of its own while the run goes on.
//!
//! One reading is made when the window begins and one when it ends. Transactions in flight at those moments are partly in
//! them, so they tell what the server did meanwhile, not to the last statement what the report counts.
//! Must not import `report` or `cli`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::worker::Shared;
use crate::metrics::server::{Counters, Reading};
use crate::target::{Control, Database, Fault};

/// How often the window's start and end are looked for; the end may be brought forward at any time.
const LOOK: Duration = Duration::from_millis(5);
/// How long a server may keep the run waiting: for the login before the window, and for the last reading after it.
const GRACE: Duration = Duration::from_secs(2);
/// Share of the window that lies after the first reading, at least.
const COVERED: f64 = 0.9;

/// What the run and the reading thread tell each other.
#[derive(Default)]
pub(super) struct Reader {
    /// All workers are connected. Only then may the reader take a connection too: the server may have none left, which
    /// must cost the counters and not the run.
    may_log_in: AtomicBool,
    logged_in: AtomicBool,
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
}

/// Stops the reader, also when the run panics: its thread is joined in any case.
struct StopOnDrop<'a>(&'a Reader);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Does `work`, which makes the recorder and ends with its window, and reads the counters of `server` beside it.
pub(super) fn beside<T: Sync + Send, R>(
    server: Option<&dyn Database>,
    shared: &Shared<T>,
    work: impl FnOnce(Option<&Reader>) -> R,
) -> (R, Option<Counters>) {
    let Some(server) = server else { return (work(None), None) };
    let reader = Reader::default();
    std::thread::scope(|scope| {
        let stop = StopOnDrop(&reader);
        let thread = std::thread::Builder::new().name("server-counters".into());
        let thread = match thread.spawn_scoped(scope, || over_window(server, shared, &reader)) {
            Ok(thread) => thread,
            Err(error) => {
                return (work(None), Some(Counters::Unknown(format!("no thread could be started: {error}"))));
            }
        };
        let done = work(Some(&reader));
        let ended = Instant::now();
        while shared.recorder.get().is_some() && !thread.is_finished() && ended.elapsed() < GRACE {
            std::thread::sleep(LOOK);
        }
        drop(stop);
        let counters = thread.join().unwrap_or_else(|_| Counters::Unknown("reading them failed".into()));
        (done, Some(counters))
    })
}

fn over_window<T>(server: &dyn Database, shared: &Shared<T>, reader: &Reader) -> Counters {
    match readings(server, shared, reader) {
        Ok((before, after)) => Counters::between(&before, &after),
        Err(reason) => Counters::Unknown(reason),
    }
}

/// The readings at both ends of the window, or why there are none.
fn readings<T>(server: &dyn Database, shared: &Shared<T>, reader: &Reader) -> Result<(Reading, Reading), String> {
    let stop = &reader.stop;
    let over = || "the run was over before they could be read".to_string();
    let said = |fault: Fault| fault.to_string();
    until(stop, || reader.may_log_in.load(Ordering::Relaxed).then_some(())).ok_or_else(over)?;
    let control = server.control(stop);
    reader.logged_in.store(true, Ordering::Relaxed);
    let mut control = control.map_err(said)?;
    let recorder = until(stop, || shared.recorder.get()).ok_or_else(over)?;
    let window = recorder.window();
    let reached = |time_ns: u64| (shared.clock.now_ns() >= time_ns).then_some(());
    until(stop, || reached(window.start_ns().min(window.end_ns()))).ok_or_else(over)?;
    let before = read(control.as_mut()).map_err(said)?;
    let before_ns = shared.clock.now_ns();
    until(stop, || reached(window.end_ns())).ok_or_else(over)?;
    let covered = window.end_ns().saturating_sub(before_ns) as f64 / window.length_ns() as f64;
    // A window without a length is covered by nothing.
    if covered.is_nan() || covered < COVERED {
        return Err(format!("the first reading came so late that they cover {:.0} % of it", 100.0 * covered.max(0.0)));
    }
    // The connection was idle for the whole window, and a proxy may have closed it for that.
    let after = read(control.as_mut()).or_else(|_| read(server.control(stop)?.as_mut())).map_err(said)?;
    Ok((before, after))
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

fn read(control: &mut dyn Control) -> Result<Reading, Fault> {
    Ok(Reading { counters: control.counters()?, at: Instant::now() })
}
