//! What the server counted meanwhile: two readings of its counters and their differences.
//!
//! Must not import anything of the crate but `metrics`.

use std::collections::BTreeMap;
use std::time::Instant;

/// The server's counters at one moment, by its own names.
#[derive(Clone, Debug)]
pub struct Reading {
    pub at: Instant,
    pub counters: BTreeMap<String, u64>,
}

/// What they rose by.
#[derive(Clone, Debug, PartialEq)]
pub enum Counters {
    /// Seconds between the readings, and the counters that changed.
    Known { elapsed_s: f64, rises: BTreeMap<String, u64> },
    /// They could not be read, for this reason.
    Unknown(String),
}

impl Counters {
    pub fn between(before: &Reading, after: &Reading) -> Counters {
        let mut rises = BTreeMap::new();
        for (name, &value) in &after.counters {
            // A counter that appears only once it counts was 0.
            match value.checked_sub(before.counters.get(name).copied().unwrap_or(0)) {
                Some(0) => {}
                Some(rise) => drop(rises.insert(name.clone(), rise)),
                None => {
                    return Counters::Unknown(format!(
                        "{name} went back, so they were reset (FLUSH STATUS), or the server was restarted"
                    ));
                }
            }
        }
        Counters::Known { elapsed_s: after.at.saturating_duration_since(before.at).as_secs_f64(), rises }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(counters: &[(&str, u64)]) -> Reading {
        let counters = counters.iter().map(|&(name, value)| (name.to_string(), value)).collect();
        Reading { at: Instant::now(), counters }
    }

    #[test]
    fn only_what_rose_is_kept_and_a_restart_makes_it_unknown() {
        let before = reading(&[("Com_select", 5), ("Com_insert", 7), ("Bytes_sent", 10)]);
        let after = reading(&[("Com_select", 9), ("Com_insert", 7), ("Bytes_sent", 30), ("Com_begin", 2)]);
        let Counters::Known { rises, .. } = Counters::between(&before, &after) else { panic!("nothing went back") };
        let expected = [("Bytes_sent", 20), ("Com_begin", 2), ("Com_select", 4)];
        assert_eq!(rises, expected.map(|(name, rise)| (name.to_string(), rise)).into());
        assert!(matches!(Counters::between(&after, &before), Counters::Unknown(_)));
    }
}
