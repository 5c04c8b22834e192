//! A target that only waits: known service times without I/O, the oracle of the engine's tests.
//!
//! Each statement takes the same service time (BEGIN and COMMIT take none); during the stall every statement waits
//! until the stall is over. With a service time of 0 it measures what the engine itself costs.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::{Fault, Session, Target};
use crate::spec::Simulation;
use crate::workload::plan::Call;

pub struct SimulatedTarget {
    simulation: Simulation,
}

impl SimulatedTarget {
    pub fn new(simulation: Simulation) -> SimulatedTarget {
        SimulatedTarget { simulation }
    }
}

impl Target for SimulatedTarget {
    type Session = SimulatedSession;

    fn connect(&self) -> Result<SimulatedSession, Fault> {
        Ok(SimulatedSession { simulation: self.simulation.clone() })
    }

    fn descriptors_per_session(&self) -> u64 {
        0
    }
}

pub struct SimulatedSession {
    simulation: Simulation,
}

/// When the first statement of any session came; the stall counts from it.
static FIRST_STATEMENT: OnceLock<Instant> = OnceLock::new();

impl Session for SimulatedSession {
    fn begin(&mut self, _writes: bool) -> Result<(), Fault> {
        Ok(())
    }

    fn execute(&mut self, _call: Call<'_>) -> Result<(), Fault> {
        if let Some((at, length)) = self.simulation.stall {
            let now = Instant::now();
            let stall = *FIRST_STATEMENT.get_or_init(|| now) + at;
            if now >= stall {
                std::thread::sleep((stall + length).saturating_duration_since(now));
            }
        }
        if self.simulation.service_time > Duration::ZERO {
            std::thread::sleep(self.simulation.service_time);
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}
