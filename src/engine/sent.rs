//! What each worker has sent so far, which others may read while it goes on.
//!
//! The recorder counts a statement once its transaction has ended, the server as soon as it arrives. To hold one against
//! the other at any moment each worker counts each statement here just before it sends it.
//!
//! Invariant: only the worker itself writes its counts, so that counting is a load and a store in cache lines of its own.
//! Relaxed, since a statement reaches the server by a system call, long after its count reached the memory.

use std::sync::atomic::{AtomicU64, Ordering};

/// A pair of cache lines, which processors fetch together.
#[repr(align(128))]
#[derive(Default)]
struct Lines([AtomicU64; COUNTS]);

const COUNTS: usize = 16;

/// One worker's counts, by the number of the statement.
pub(super) struct Sent(Box<[Lines]>);

impl Sent {
    /// Of `statements` kinds.
    pub(super) fn new(statements: usize) -> Sent {
        Sent((0..statements.div_ceil(COUNTS)).map(|_| Lines::default()).collect())
    }

    /// Counts one more. Must be called by the worker alone.
    pub(super) fn count(&self, statement: usize) {
        let count = self.at(statement);
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(super) fn get(&self, statement: usize) -> u64 {
        self.at(statement).load(Ordering::Relaxed)
    }

    fn at(&self, statement: usize) -> &AtomicU64 {
        &self.0[statement / COUNTS].0[statement % COUNTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statement_has_a_count_of_its_own() {
        let sent = Sent::new(2 * COUNTS + 1);
        (0..=2 * COUNTS).for_each(|statement| (0..statement).for_each(|_| sent.count(statement)));
        assert!((0..=2 * COUNTS).all(|statement| sent.get(statement) == statement as u64));
    }
}
