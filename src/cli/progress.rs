//! What a person sees while something runs: a bar on a terminal, a plain line now and then elsewhere.
//!
//! Progress goes to standard error, interval lines to standard output with the report. The lines have a printer of their
//! own, so that a reader that stops reading (a pager, Ctrl-S) does not hold up the run. Must not import: `target`, `workload`.

use std::io::IsTerminal;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::engine::Observer;
use crate::metrics::{Histogram, Interval};
use crate::report::figures::counted;
use crate::report::text;
use crate::spec::RunSpec;

/// Seconds between two plain lines about the same step.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// A step that is shorter than this needs no line of its own.
const QUIET: Duration = Duration::from_secs(1);

/// Tells progress, and prints interval lines if a percentile for them is given.
pub(super) struct Console {
    interval_percentile: Option<f64>,
    threads: u32,
    printer: Option<Printer>,
    terminal: bool,
    step: Option<Step>,
}

struct Step {
    name: String,
    started: Instant,
    last_line: Instant,
    bar: Option<ProgressBar>,
}

impl Console {
    pub(super) fn new(interval_percentile: Option<f64>) -> Console {
        let terminal = std::io::stderr().is_terminal();
        Console { interval_percentile, threads: 0, printer: None, terminal, step: None }
    }

    /// Waits until all interval lines are printed.
    pub(super) fn finish(self) {}

    /// Takes a bar off the screen, if there is one.
    fn clear(&mut self) {
        if let Some(bar) = self.step.take().and_then(|step| step.bar) {
            bar.finish_and_clear();
        }
    }

    fn show(&mut self, name: &str, done: u64, total: u64, unit: &str) {
        let now = Instant::now();
        if self.step.as_ref().is_none_or(|step| step.name != name) {
            self.clear();
            let bar = self.terminal.then(|| progress_bar(name, total, unit));
            self.step = Some(Step { name: name.to_string(), started: now, last_line: now, bar });
        }
        let Some(step) = self.step.as_mut() else { return };
        match &step.bar {
            Some(bar) => bar.set_position(done),
            None => {
                let age = now - step.started;
                let finished = done >= total && age >= QUIET;
                if finished || now - step.last_line >= LINE_EVERY {
                    step.last_line = now;
                    super::show_error(format_args!("{}", plain_line(name, done, total, unit, age)));
                }
            }
        }
        if done >= total {
            self.clear();
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.clear();
        if let Some(printer) = self.printer.take() {
            printer.finish();
        }
    }
}

/// A thread that prints lines, and may be held up.
struct Printer {
    lines: Sender<String>,
    thread: JoinHandle<()>,
}

impl Printer {
    /// `None` if there is no thread to be had; then the lines are printed by the caller.
    fn start() -> Option<Printer> {
        let (lines, received) = channel::<String>();
        let print = move || received.iter().for_each(super::show);
        let thread = std::thread::Builder::new().name("interval-lines".into()).spawn(print).ok()?;
        Some(Printer { lines, thread })
    }

    fn finish(self) {
        drop(self.lines);
        // It only prints, and a panic there has been reported by its own message.
        let _ = self.thread.join();
    }
}

fn progress_bar(name: &str, total: u64, unit: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    // indicatif itself obeys NO_COLOR; the template is fixed, so it cannot be refused.
    let template = format!("{{msg:16}} [{{bar:14}}] {{human_pos}}/{{human_len}} {unit}, {{rate}}/s, {{eta}} left");
    let rate = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
        // Writing into the bar's own text cannot fail.
        let _ = write!(text, "{:.0}", state.per_sec());
    };
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style.with_key("rate", rate).progress_chars("=> "));
    }
    bar.set_message(name.to_string());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn plain_line(name: &str, done: u64, total: u64, unit: &str, age: Duration) -> String {
    let rate = done as f64 / age.as_secs_f64().max(1e-3);
    let left = if done == 0 { String::new() } else { format!(", {:.0} s left", (total - done) as f64 / rate) };
    format!("{name}: {done} of {total} {unit}, {rate:.0} {unit}/s{left}")
}

impl Observer for Console {
    fn connecting(&mut self, connected: u32, threads: u32) {
        self.show("Connecting", connected.into(), threads.into(), "connections");
    }

    fn started(&mut self, spec: &RunSpec) {
        self.clear();
        self.threads = spec.threads;
        self.printer = self.interval_percentile.and_then(|_| Printer::start());
        let warmup = if spec.warmup_time.is_zero() {
            String::new()
        } else {
            format!(" after a warm-up of {} s", spec.warmup_time.as_secs_f64())
        };
        let length = match (spec.time, spec.events) {
            (Some(time), Some(events)) => format!("{} s or {}", time.as_secs_f64(), counted(events, "transaction")),
            (Some(time), None) => format!("{} s", time.as_secs_f64()),
            (None, Some(events)) => counted(events, "transaction"),
            (None, None) => "as long as you let it (Ctrl-C ends it with a report)".to_string(),
        };
        let threads = counted(spec.threads.into(), "thread");
        let rate = spec.open_loop.as_ref().map_or(String::new(), |open_loop| {
            let rates: Vec<String> = open_loop.steps.iter().map(|step| step.rate.to_string()).collect();
            format!(", open loop: {} per sec. ({})", rates.join(", "), open_loop.arrival.name())
        });
        super::show_error(format_args!("Running {threads} for {length}{warmup}{rate}"));
    }

    fn interval(&mut self, interval: &Interval, response: &Histogram) {
        let Some(percentile) = self.interval_percentile else { return };
        let line = text::interval_line(interval, response, self.threads, percentile);
        match &self.printer {
            // The printer lives as long as this does.
            Some(printer) => drop(printer.lines.send(line)),
            None => super::show(line),
        }
    }

    fn draining(&mut self, running: u32, left: Duration) {
        let connections = counted(running.into(), "connection");
        super::show_error(format_args!(
            "Waiting up to {} s more for the last transaction of {connections}; Ctrl-C ends the waiting",
            left.as_secs_f64().ceil()
        ));
    }

    fn progress(&mut self, step: &str, done: u64, total: u64, unit: &str) {
        self.show(step, done, total, unit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_has_rate_and_time_left() {
        let line = plain_line("Loading rows", 250, 1000, "rows", Duration::from_secs(5));
        assert_eq!(line, "Loading rows: 250 of 1000 rows, 50 rows/s, 15 s left");
    }
}
