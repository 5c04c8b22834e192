//! What a check before a run says: how bad it is, what was found, and what to do next.
//!
//! Those who look make [`Check`]s, each about one thing; whoever asked decides what follows from them.
//!
//! Must not import: `metrics`, `engine`, `report`, `cli`.

use crate::spec::Protocol;
use crate::workload::plan::Plan;

/// How much something matters to a run, from the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Ok,
    /// What to know when the figures are compared with others.
    Note,
    /// The figures will not be what they seem, or the run may fail.
    Warning,
    /// The run fails, or its figures would mean nothing.
    Fatal,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Fatal => "fatal",
        }
    }
}

/// What was found about one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub level: Level,
    /// Stable, for scripts.
    pub code: &'static str,
    pub message: String,
    /// What to do; empty where nothing is to be done.
    pub advice: String,
}

impl Check {
    pub fn new(level: Level, code: &'static str, message: impl Into<String>, advice: impl Into<String>) -> Check {
        Check { level, code, message: message.into(), advice: advice.into() }
    }

    /// One that is in order if something holds, and otherwise of this level, with advice.
    pub fn held(
        holds: bool,
        level: Level,
        code: &'static str,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Check {
        if holds { Check::ok(code, message) } else { Check::new(level, code, message, advice) }
    }

    pub fn ok(code: &'static str, message: impl Into<String>) -> Check {
        Check::new(Level::Ok, code, message, "")
    }
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.advice.is_empty() {
            true => f.write_str(&self.message),
            false => write!(f, "{}; {}", self.message, self.advice),
        }
    }
}

/// What a run asks of its target.
#[derive(Clone, Copy)]
pub struct Demand<'a> {
    pub plan: &'a Plan,
    pub threads: u32,
    pub protocol: Protocol,
}

impl Demand<'_> {
    /// Connections of a run: one for each thread, one that reads the server's counters, and one that may still be closing
    /// after the checks.
    pub fn connections(&self) -> u64 {
        u64::from(self.threads) + 2
    }

    /// How many tables the plan has.
    pub fn tables(&self) -> u64 {
        self.plan.tables.iter().map(|set| u64::from(set.count)).sum()
    }
}

/// A number of things by their singular.
pub fn counted(count: u64, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

/// A size as a person reads it, in steps of 1024.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be shown as 1024.0 of the smaller unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_the_unit_that_keeps_them_short() {
        assert_eq!(size(0), "0.0 KiB");
        assert_eq!(size(134_217_728), "128.0 MiB");
        assert_eq!(size((1 << 30) - 1), "1.0 GiB");
        assert_eq!(size(u64::MAX), "16384.0 PiB");
    }
}
