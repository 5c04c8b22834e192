//! How long connections were without a transaction: each by itself, and all of them at once.
//!
//! A connection is away from the error that cost it until its worker's next transaction has committed, however often it
//! is opened meanwhile. All are away from the moment when the last one is until the first that commits again;
//! one whose worker found no event left to begin counts as there.
//!
//! Invariant: an outage counts if it touches the window and has not ended before it: with its whole length if it ended
//! inside the window, and with its length until the window's end if it did not. Must not import anything of the crate but
//! `metrics`.

use std::collections::BTreeMap;

use super::Histogram;

/// The outages of a window.
#[derive(Clone, Debug, Default)]
pub struct Outages {
    /// Those of each connection.
    pub each: Histogram,
    /// How many of them had not ended when the window did, and lasted longer than they count.
    pub cut_off: u64,
    pub all: AllAway,
}

/// The times when all connections were away at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllAway {
    pub count: u64,
    pub longest_ns: u64,
    pub total_ns: u64,
}

impl AllAway {
    fn add(&mut self, length_ns: u64) {
        self.count += 1;
        self.longest_ns = self.longest_ns.max(length_ns);
        self.total_ns += length_ns;
    }
}

/// Who is away, and the outages that have ended.
#[derive(Debug)]
pub(super) struct Away {
    connections: usize,
    /// Since when each that is away is, by its worker's number.
    since_ns: BTreeMap<u32, u64>,
    all_since_ns: Option<u64>,
    ended: Outages,
}

impl Away {
    pub(super) fn new(connections: u32) -> Away {
        let connections = connections as usize;
        Away { connections, since_ns: BTreeMap::new(), all_since_ns: None, ended: Outages::default() }
    }

    /// The worker's connection is of no more use. One that is away already stays away since its first error.
    pub(super) fn lost(&mut self, worker: u32, at_ns: u64) {
        self.since_ns.entry(worker).or_insert(at_ns);
        if self.since_ns.len() == self.connections && self.all_since_ns.is_none() {
            self.all_since_ns = self.since_ns.values().copied().max();
        }
    }

    /// A transaction of the worker has committed again, before the window's end. Before its start it only ends the outage.
    pub(super) fn back(&mut self, worker: u32, at_ns: u64, in_window: bool) {
        let since_ns = self.since_ns.remove(&worker);
        let all_since_ns = self.all_since_ns.take();
        if !in_window {
            return;
        }
        if let Some(since_ns) = since_ns {
            self.ended.each.record(at_ns.saturating_sub(since_ns));
        }
        // Workers tell of themselves in any order, so the last one may have been lost only after this one was back.
        if let Some(length_ns) = all_since_ns.and_then(|since_ns| at_ns.checked_sub(since_ns)) {
            self.ended.all.add(length_ns);
        }
    }

    pub(super) fn all_since_ns(&self) -> Option<u64> {
        self.all_since_ns
    }

    /// All outages of a window that ends at `end_ns`.
    pub(super) fn until(&self, end_ns: u64) -> Outages {
        let mut outages = self.ended.clone();
        // Those that began after the window are none of it.
        let length = |since_ns: u64| Some(end_ns.saturating_sub(since_ns)).filter(|&length_ns| length_ns > 0);
        for length_ns in self.since_ns.values().filter_map(|&since_ns| length(since_ns)) {
            outages.each.record(length_ns);
            outages.cut_off += 1;
        }
        if let Some(length_ns) = self.all_since_ns.and_then(length) {
            outages.all.add(length_ns);
        }
        outages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(outages: &Outages) -> (u64, f64, u64, AllAway) {
        (outages.each.len(), outages.each.max_us(), outages.cut_off, outages.all)
    }

    #[test]
    fn an_outage_lasts_from_the_first_error_to_the_first_commit() {
        let mut away = Away::new(2);
        away.lost(0, 1_000);
        // A server that lets it in and is still of no use.
        away.lost(0, 5_000);
        away.back(0, 9_000, true);
        assert_eq!(summary(&away.until(20_000)), (1, 8.0, 0, AllAway::default()));
    }

    #[test]
    fn an_outage_that_does_not_end_counts_until_the_windows_end() {
        let mut away = Away::new(3);
        away.lost(0, 2_000);
        away.lost(1, 4_000);
        // Lost while the rest was waited for.
        away.lost(2, 11_000);
        let outages = away.until(10_000);
        assert_eq!(summary(&outages), (2, 8.0, 2, AllAway::default()));
        assert_eq!(outages.each.min_us(), 6.0);
    }

    #[test]
    fn all_are_away_from_the_last_loss_to_the_first_commit() {
        let mut away = Away::new(2);
        for (lost_ns, back_ns) in [([1_000, 3_000], 10_000), ([20_000, 21_000], 23_000)] {
            away.lost(1, lost_ns[0]);
            away.lost(0, lost_ns[1]);
            away.back(1, back_ns, true);
            away.back(0, back_ns + 1, true);
        }
        let all = AllAway { count: 2, longest_ns: 7_000, total_ns: 9_000 };
        assert_eq!(away.until(30_000).all, all);
        away.lost(0, 25_000);
        away.lost(1, 26_000);
        let all = AllAway { count: 3, longest_ns: 7_000, total_ns: 13_000 };
        assert_eq!(away.until(30_000).all, all);
    }

    #[test]
    fn one_that_was_back_before_the_last_was_lost_ends_no_outage_of_all() {
        let mut away = Away::new(2);
        away.lost(0, 1_000);
        away.lost(1, 5_000);
        away.back(0, 4_000, true);
        assert_eq!(away.until(9_000).all, AllAway::default());
    }

    #[test]
    fn what_ended_before_the_window_is_no_outage_of_it() {
        let mut away = Away::new(1);
        away.lost(0, 1_000);
        away.back(0, 2_000, false);
        assert_eq!(summary(&away.until(9_000)), (0, 0.0, 0, AllAway::default()));
    }
}
