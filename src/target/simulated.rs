//! A target that only waits: known service times without I/O, the oracle of the engine's tests.
//!
//! Each statement takes the same service time (BEGIN and COMMIT take none); during the stall every statement waits
//! until the stall is over. With a service time of 0 it measures what the engine itself costs.
//!
//! Must not import: `metrics`, `engine`, `report`, `cli`.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::{Fault, Session, Target};
use crate::spec::Simulation;
use crate::workload::plan::Call;

pub struct SimulatedTarget {
    simulation: Simulation,
    first_statement: Arc<OnceLock<Instant>>,
}

impl SimulatedTarget {
    pub fn new(simulation: Simulation) -> SimulatedTarget {
        SimulatedTarget { simulation, first_statement: Arc::default() }
    }
}

impl Target for SimulatedTarget {
    type Session = SimulatedSession;

    fn connect(&self) -> Result<SimulatedSession, Fault> {
        let first_statement = Arc::clone(&self.first_statement);
        Ok(SimulatedSession { simulation: self.simulation.clone(), first_statement })
    }

    fn descriptors_per_session(&self) -> u64 {
        0
    }
}

pub struct SimulatedSession {
    simulation: Simulation,
    /// When the first statement of any of the target's sessions came; the stall counts from it.
    first_statement: Arc<OnceLock<Instant>>,
}

impl Session for SimulatedSession {
    fn begin(&mut self, _writes: bool) -> Result<(), Fault> {
        Ok(())
    }

    fn execute(&mut self, _call: Call<'_>) -> Result<Option<u64>, Fault> {
        if let Some((at, length)) = self.simulation.stall {
            let now = Instant::now();
            let stall = *self.first_statement.get_or_init(|| now) + at;
            if now >= stall {
                std::thread::sleep((stall + length).saturating_duration_since(now));
            }
        }
        if self.simulation.service_time > Duration::ZERO {
            std::thread::sleep(self.simulation.service_time);
        }
        Ok(None)
    }

    fn commit(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::plan::Arguments;

    #[test]
    fn the_stall_counts_from_the_first_statement_of_the_target_and_not_of_another() {
        let stalled = |target: &SimulatedTarget| {
            let mut session = target.connect().unwrap();
            let started = Instant::now();
            session.execute(Call { statement: 0, table: 1, arguments: Arguments::of(&[], "") }).unwrap();
            started.elapsed() >= Duration::from_millis(100)
        };
        let at_once = || {
            let stall = Some((Duration::ZERO, Duration::from_millis(200)));
            SimulatedTarget::new(Simulation { service_time: Duration::ZERO, stall })
        };
        assert!(stalled(&at_once()));
        // The first target's stall is over by now, and a second one's has not begun.
        assert!(stalled(&at_once()));
    }
}
