//! What the client itself used: its own CPU time, and how busy the machine was.
//!
//! A client at its limit makes a server look slow, so each report says how near it came. The process's time comes
//! from CLOCK_PROCESS_CPUTIME_ID, the machine's from /proc/stat (proc(5)); where that file is missing (not Linux) or
//! cannot be right, the machine's share is left out rather than guessed.
//!
//! The machine is taken to be busy while it is not idle. Linux adds up a core's idle time to the nanosecond but, as it is
//! usually built, charges busy time by looking at each clock tick what runs: a thread that a timer or a socket woke just
//! after a tick, and that slept before the next one, is charged nothing. Clients consist of such threads, and the busy
//! columns then fall below what this process alone used.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// What /proc/stat counts in, on all processors but Alpha and Itanium.
const TICKS_PER_S: f64 = 100.0;
/// By how much the machine's share may be below the process's for the ticks' coarseness.
const ROUNDING: f64 = 0.05;

/// A reading of the counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    at: Instant,
    process_cpu_s: f64,
    machine: Option<MachineTicks>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct MachineTicks {
    cores: usize,
    /// Waiting for a disk included, during which a core is free for others.
    idle: u64,
    stolen: u64,
    all: u64,
}

/// Use between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Cores that this process may use.
    pub cores: usize,
    /// User and system time of this process, in seconds.
    pub cpu_s: f64,
    /// Share of those cores that this process used, from 0 to 1.
    pub process_share: f64,
    /// Share of them that anything used, and that the hypervisor took away. `None` where it is not known: without
    /// /proc/stat, where that counts cores that this process may not use, and where it contradicts the process's time.
    pub machine_share: Option<f64>,
    pub steal_share: Option<f64>,
}

impl Reading {
    pub fn now() -> Reading {
        let stat = std::fs::read_to_string("/proc/stat").ok();
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Reading {
            at: Instant::now(),
            process_cpu_s: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            machine: stat.as_deref().and_then(parse_machine_ticks),
        }
    }

    /// What was used since `earlier`.
    pub fn since(&self, earlier: &Reading) -> Usage {
        self.used(earlier, std::thread::available_parallelism().map_or(1, |cores| cores.get()))
    }

    fn used(&self, earlier: &Reading, cores: usize) -> Usage {
        let available_s = self.at.saturating_duration_since(earlier.at).as_secs_f64() * cores as f64;
        let share = |used_s: f64| if available_s > 0.0 { (used_s / available_s).clamp(0.0, 1.0) } else { 0.0 };
        let cpu_s = self.process_cpu_s - earlier.process_cpu_s;
        let process_share = share(cpu_s);
        let machine = self.machine.zip(earlier.machine).and_then(|(now, then)| {
            // Where the file is there for form's sake, as in some sandboxes, its counters stand still.
            let usable = now.cores == cores && then.cores == cores && now.all > then.all;
            let risen = |now: u64, then: u64| now.saturating_sub(then) as f64 / TICKS_PER_S;
            let (idle_s, stolen_s) = (risen(now.idle, then.idle), risen(now.stolen, then.stolen));
            let busy = share(available_s - idle_s - stolen_s);
            let possible = busy + ROUNDING >= process_share;
            (usable && possible).then(|| (busy.max(process_share), share(stolen_s)))
        });
        let (machine_share, steal_share) = machine.unzip();
        Usage { cores, cpu_s, process_share, machine_share, steal_share }
    }
}

/// The line `cpu user nice system idle iowait irq softirq steal ...`, which one such line for each core follows.
fn parse_machine_ticks(stat: &str) -> Option<MachineTicks> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).take(8).collect();
    let &[_, _, _, idle, iowait, _, _, stolen] = ticks.as_slice() else { return None };
    let cores = stat.lines().skip(1).take_while(|line| line.starts_with("cpu")).count();
    Some(MachineTicks { cores, idle: idle + iowait, stolen, all: ticks.iter().sum() })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_machine_line_is_split_into_idle_stolen_and_all() {
        let ticks = parse_machine_ticks("cpu  10 1 5 80 4 2 3 7 9 0\ncpu0 1 2\ncpu1 1 2\nintr 5\n").unwrap();
        assert_eq!(ticks, MachineTicks { cores: 2, idle: 84, stolen: 7, all: 112 });
        assert_eq!(parse_machine_ticks("intr 5"), None);
        assert_eq!(parse_machine_ticks(""), None);
    }

    /// Use of two cores over four seconds; the machine's counters in ticks.
    fn usage(process_cpu_s: f64, idle: u64, stolen: u64, all: u64, cores: usize) -> Usage {
        let none = MachineTicks { cores: 2, idle: 0, stolen: 0, all: 0 };
        let earlier = Reading { at: Instant::now(), process_cpu_s: 0.0, machine: Some(none) };
        let machine = Some(MachineTicks { idle, stolen, all, ..none });
        Reading { at: earlier.at + Duration::from_secs(4), process_cpu_s, machine }.used(&earlier, cores)
    }

    #[test]
    fn a_machine_is_as_busy_as_it_is_not_idle_whatever_the_ticks_missed() {
        // 8 s of cores of which 6 s were idle and 0.4 s stolen, though ticks saw but 0.1 s of anybody's work.
        let usage = usage(0.8, 600, 40, 650, 2);
        assert_eq!((usage.process_share, usage.steal_share), (0.1, Some(0.05)));
        assert!((usage.machine_share.unwrap() - 0.2).abs() < 1e-9, "{usage:?}");
    }

    #[test]
    fn a_machine_is_never_less_busy_than_this_process() {
        let rounded = usage(8.0, 2, 0, 800, 2);
        assert_eq!((rounded.process_share, rounded.machine_share), (1.0, Some(1.0)));
        let contradicted = usage(8.0, 400, 0, 800, 2);
        assert_eq!((contradicted.machine_share, contradicted.steal_share), (None, None));
    }

    #[test]
    fn counters_that_stand_still_or_are_of_other_cores_tell_nothing() {
        assert_eq!(usage(0.8, 0, 0, 0, 2).machine_share, None);
        let pinned = usage(4.0, 400, 0, 800, 1);
        assert_eq!((pinned.process_share, pinned.machine_share), (1.0, None));
    }

    #[test]
    fn time_spent_computing_is_seen() {
        let before = Reading::now();
        let start = std::time::Instant::now();
        let mut sum = 0u64;
        while start.elapsed().as_millis() < 30 {
            sum = std::hint::black_box(sum + 1);
        }
        let usage = Reading::now().since(&before);
        assert!(usage.cpu_s > 0.0 && usage.process_share > 0.0, "{usage:?}");
        assert!(usage.machine_share.is_none_or(|machine| machine >= usage.process_share), "{usage:?}");
    }
}
