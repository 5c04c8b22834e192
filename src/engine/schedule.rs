//! When a transaction is due, and which one is next.
//!
//! A [`Schedule`] is a value: it turns a ticket into the time at which that transaction should start. The closed loop
//! is the schedule that is always due, so each connection sends its next transaction as soon as the last one ended.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::Window;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    ClosedLoop,
}

impl Schedule {
    /// When the transaction of `ticket` is due, for a worker that is free at `now_ns`.
    pub fn due_ns(self, _ticket: u64, now_ns: u64) -> u64 {
        match self {
            Schedule::ClosedLoop => now_ns,
        }
    }
}

/// Hands out the numbers of transactions, and says when there are no more.
#[derive(Debug)]
pub struct Tickets {
    next: AtomicU64,
    /// Transactions still to be started inside the window; `None` if only time ends the run.
    budget: Option<Budget>,
}

#[derive(Debug)]
struct Budget {
    events: u64,
    taken: AtomicU64,
}

impl Tickets {
    pub fn new(events: Option<u64>) -> Tickets {
        let budget = events.map(|events| Budget { events, taken: AtomicU64::new(0) });
        Tickets { next: AtomicU64::new(0), budget }
    }

    /// The next ticket for a worker that is free at `now_ns`, or `None` when it shall stop. Warm-up transactions do
    /// not use up the budget.
    pub fn take(&self, now_ns: u64, window: &Window) -> Option<u64> {
        if now_ns >= window.end_ns() {
            return None;
        }
        if let Some(budget) = self.budget.as_ref().filter(|_| now_ns >= window.start_ns())
            && budget.taken.fetch_add(1, Ordering::Relaxed) >= budget.events
        {
            return None;
        }
        Some(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether all events have been handed out, so that only those in flight are left.
    pub fn are_used_up(&self) -> bool {
        self.budget.as_ref().is_some_and(|budget| budget.taken.load(Ordering::Relaxed) >= budget.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_counts_only_what_starts_inside_the_window() {
        let window = Window::new(100, 1000, 10);
        let tickets = Tickets::new(Some(2));
        assert_eq!(tickets.take(0, &window), Some(0));
        assert_eq!(tickets.take(99, &window), Some(1));
        assert_eq!(tickets.take(100, &window), Some(2));
        assert!(!tickets.are_used_up());
        assert_eq!(tickets.take(101, &window), Some(3));
        assert!(tickets.are_used_up());
        assert_eq!(tickets.take(102, &window), None);
    }

    #[test]
    fn no_transaction_starts_after_the_window() {
        let window = Window::new(0, 1000, 10);
        let tickets = Tickets::new(None);
        assert_eq!(tickets.take(999, &window), Some(0));
        assert_eq!(tickets.take(1000, &window), None);
        assert!(!tickets.are_used_up());
    }
}
