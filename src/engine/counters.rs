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
/// How long a server may take for the last reading once everything else is done.
const GRACE: Duration = Duration::from_secs(2);

/// Does `work`, which makes the recorder and ends with its window, and reads the counters of `server` beside it.
pub(super) fn beside<T: Sync + Send, R>(
    server: Option<&dyn Database>,
    shared: &Shared<T>,
    work: impl FnOnce() -> R,
) -> (R, Option<Counters>) {
    let Some(server) = server else { return (work(), None) };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().name("server-counters".into());
        let reader = reader.spawn_scoped(scope, || over_window(server, shared, &stop));
        let done = work();
        let counters = match reader {
            Ok(reader) => {
                let ended = Instant::now();
                let has_window = shared.recorder.get().is_some();
                while has_window && !reader.is_finished() && ended.elapsed() < GRACE {
                    std::thread::sleep(LOOK);
                }
                stop.store(true, Ordering::Relaxed);
                reader.join().unwrap_or_else(|_| Counters::Unknown("reading them failed".into()))
            }
            Err(error) => Counters::Unknown(format!("no thread could be started: {error}")),
        };
        (done, Some(counters))
    })
}

fn over_window<T>(server: &dyn Database, shared: &Shared<T>, stop: &AtomicBool) -> Counters {
    match readings(server, shared, stop) {
        Ok(Some((before, after))) => Counters::between(&before, &after),
        Ok(None) => Counters::Unknown("the server did not answer in time".into()),
        Err(fault) => Counters::Unknown(fault.to_string()),
    }
}

/// The readings at both ends of the window; `None` if `stop` was set before.
fn readings<T>(
    server: &dyn Database,
    shared: &Shared<T>,
    stop: &AtomicBool,
) -> Result<Option<(Reading, Reading)>, Fault> {
    // The recorder is there once all workers are connected. Only then may this take a connection too: the server may have
    // none left, which must cost the counters and not the run.
    let Some(recorder) = until(stop, || shared.recorder.get()) else { return Ok(None) };
    let mut control = server.control(stop)?;
    let window = recorder.window();
    let reached = |time_ns: u64| (shared.clock.now_ns() >= time_ns).then_some(());
    if until(stop, || reached(window.start_ns().min(window.end_ns()))).is_none() {
        return Ok(None);
    }
    let before = read(control.as_mut())?;
    if reached(window.end_ns()).is_some() {
        // Two readings after the window would say that nothing happened in it.
        return Ok(None);
    }
    if until(stop, || reached(window.end_ns())).is_none() {
        return Ok(None);
    }
    Ok(Some((before, read(control.as_mut())?)))
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
