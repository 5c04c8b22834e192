//! What the client itself used: its own CPU time, and how busy the machine was.
//!
//! A client at its limit makes a server look slow, so each report says how near it came. The process's time comes
//! from CLOCK_PROCESS_CPUTIME_ID, the machine's from the first line of /proc/stat (proc(5)); where that file is
//! missing (not Linux) the machine's share is left out rather than guessed.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// A reading of the counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    at: Instant,
    process_cpu_s: f64,
    machine: Option<MachineTicks>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct MachineTicks {
    busy: u64,
    stolen: u64,
    all: u64,
}

/// Use between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    pub cores: usize,
    /// User and system time of this process, in seconds.
    pub cpu_s: f64,
    /// Share of the machine's cores that this process used, from 0 to 1.
    pub process_share: f64,
    /// Share of the machine that anything used, and that the hypervisor took away; `None` where not known.
    pub machine_share: Option<f64>,
    pub steal_share: Option<f64>,
}

impl Reading {
    pub fn now() -> Reading {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let stat = std::fs::read_to_string("/proc/stat").ok();
        Reading {
            at: Instant::now(),
            process_cpu_s: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            machine: stat.as_deref().and_then(parse_machine_ticks),
        }
    }

    /// What was used since `earlier`.
    pub fn since(&self, earlier: &Reading) -> Usage {
        let elapsed_s = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let cpu_s = self.process_cpu_s - earlier.process_cpu_s;
        let machine = self.machine.zip(earlier.machine).filter(|(now, then)| now.all > then.all);
        let share = |part: u64, all: u64| part as f64 / all as f64;
        Usage {
            cores,
            cpu_s,
            process_share: if elapsed_s > 0.0 { cpu_s / (elapsed_s * cores as f64) } else { 0.0 },
            machine_share: machine.map(|(now, then)| share(now.busy.saturating_sub(then.busy), now.all - then.all)),
            steal_share: machine.map(|(now, then)| share(now.stolen.saturating_sub(then.stolen), now.all - then.all)),
        }
    }
}

/// The line `cpu user nice system idle iowait irq softirq steal guest guest_nice`; guest time is already in user.
fn parse_machine_ticks(stat: &str) -> Option<MachineTicks> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).take(8).collect();
    let &[user, nice, system, idle, iowait, irq, softirq, stolen] = ticks.as_slice() else { return None };
    let busy = user + nice + system + irq + softirq;
    Some(MachineTicks { busy, stolen, all: busy + idle + iowait + stolen })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_line_is_split_into_busy_stolen_and_all() {
        let ticks = parse_machine_ticks("cpu  10 1 5 80 4 2 3 7 9 0\ncpu0 1 2\n").unwrap();
        assert_eq!(ticks, MachineTicks { busy: 21, stolen: 7, all: 112 });
        assert_eq!(parse_machine_ticks("intr 5"), None);
        assert_eq!(parse_machine_ticks(""), None);
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
    }
}
