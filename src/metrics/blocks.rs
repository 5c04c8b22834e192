//! The window as blocks of equal length, for the errors of the figures: how much these vary from block to block.
//!
//! A run has 64 to 128 of them, however long it is: when there are more, neighbours become one. They consist of slices, and
//! so do not depend on the length of the intervals that are shown. What they hold of latencies are the buckets that are not
//! empty, so that a day of blocks needs a few megabytes, as ten minutes do.
//!
//! Must not import anything of the crate but `metrics`.

use super::histogram::Counts;
use super::{Histogram, Tally, Window};

/// One more, and neighbours become one.
const MOST_BLOCKS: usize = 128;
/// Length of a block before neighbours become one; up to half less where the intervals cannot be cut into such slices.
pub(super) const SHORTEST_NS: u64 = 100_000_000;

/// What ended in one block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Shorter than the others' where the window ends inside of it.
    pub length_s: f64,
    pub transactions: u64,
    pub read_write_requests: u64,
    pub queries: u64,
    /// Sum of the response times.
    pub response_ns: u128,
    pub responses: Counts,
}

impl Block {
    fn add(&mut self, more: &Block) {
        self.transactions += more.transactions;
        self.read_write_requests += more.read_write_requests;
        self.queries += more.queries;
        self.response_ns += more.response_ns;
        self.responses.add(&more.responses);
    }
}

/// The blocks of a window that has not ended.
pub struct Blocks {
    slices_per_block: u64,
    blocks: Vec<Block>,
    /// The block whose response times are still in a histogram of their own, because more of them will come.
    current: usize,
    response: Histogram,
}

impl Blocks {
    pub fn new(window: &Window) -> Blocks {
        let slices_per_block = (SHORTEST_NS / window.slice_ns()).max(1);
        Blocks { slices_per_block, blocks: Vec::new(), current: 0, response: Histogram::default() }
    }

    /// Adds what ended in a slice, or a part of it.
    pub fn add(&mut self, slice: u64, tally: &Tally, response: &Histogram) {
        while slice / self.slices_per_block >= MOST_BLOCKS as u64 {
            self.halve();
        }
        let index = (slice / self.slices_per_block) as usize;
        if self.blocks.len() <= index {
            self.blocks.resize_with(index + 1, Block::default);
        }
        let block = &mut self.blocks[index];
        block.transactions += tally.transactions;
        block.read_write_requests += tally.statements.read_write_requests();
        block.queries += tally.statements.queries();
        block.response_ns += response.sum_ns();
        if response.is_empty() {
            return;
        }
        if index > self.current {
            self.close_current();
            self.current = index;
        }
        match index == self.current {
            true => self.response.add(response),
            // A sample that a worker was late to hand in.
            false => self.blocks[index].responses.add(&Counts::of(response)),
        }
    }

    /// The blocks of the whole window, whose end is known now; those at its end may be empty.
    pub fn finish(mut self, window: &Window) -> Vec<Block> {
        let mut length_ns = window.slice_ns() * self.slices_per_block;
        while window.length_ns().div_ceil(length_ns) > MOST_BLOCKS as u64 {
            self.halve();
            length_ns *= 2;
        }
        self.close_current();
        // A window that was closed early has no blocks after its end, and nothing that they could hold is counted here.
        self.blocks.resize_with(window.length_ns().div_ceil(length_ns) as usize, Block::default);
        for (index, block) in self.blocks.iter_mut().enumerate() {
            let left_ns = window.length_ns() - index as u64 * length_ns;
            block.length_s = left_ns.min(length_ns) as f64 / 1e9;
        }
        self.blocks
    }

    fn close_current(&mut self) {
        if let Some(block) = self.blocks.get_mut(self.current)
            && !self.response.is_empty()
        {
            block.responses.add(&Counts::of(&self.response));
            self.response.reset();
        }
    }

    /// Makes one block of each two neighbours.
    fn halve(&mut self) {
        self.close_current();
        let halves = self.blocks.chunks(2).map(|pair| {
            let mut sum = pair[0].clone();
            pair[1..].iter().for_each(|block| sum.add(block));
            sum
        });
        self.blocks = halves.collect();
        self.current /= 2;
        self.slices_per_block *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Statements;

    const SECOND: u64 = 1_000_000_000;

    /// Adds `count` transactions of one latency.
    fn add(blocks: &mut Blocks, slice: u64, count: u64, latency_us: u64) {
        let mut response = Histogram::default();
        (0..count).for_each(|_| response.record(latency_us * 1000));
        let statements = Statements { reads: 10 * count, writes: 4 * count, other: 2 * count };
        blocks.add(slice, &Tally { transactions: count, statements, ..Tally::default() }, &response);
    }

    fn blocks_of(length_ns: u64, interval_ns: u64, each: impl Fn(u64) -> u64) -> Vec<Block> {
        let window = Window::new(SECOND, SECOND + length_ns, interval_ns);
        let mut blocks = Blocks::new(&window);
        let mut slice = 0;
        while window.slice_end_ns(slice) <= window.end_ns() {
            add(&mut blocks, slice, each(slice), 100);
            slice += 1;
        }
        blocks.finish(&window)
    }

    #[test]
    fn there_are_64_to_128_blocks_however_long_the_window_is() {
        for (length_s, count, block_s) in
            [(1, 10, 0.1), (10, 100, 0.1), (13, 65, 0.2), (60, 75, 0.8), (600, 94, 6.4), (3600, 71, 51.2)]
        {
            let blocks = blocks_of(length_s * SECOND, SECOND, |_| 1);
            assert_eq!((blocks.len(), blocks[0].length_s), (count, block_s), "{length_s} s");
            let (length, transactions) =
                blocks.iter().fold((0.0, 0), |sum, block| (sum.0 + block.length_s, sum.1 + block.transactions));
            assert!((length - length_s as f64).abs() < 1e-6, "{length}");
            assert_eq!(transactions, 10 * length_s);
            let responses: u64 = blocks.iter().map(|block| block.responses.len()).sum();
            assert_eq!(responses, transactions);
            let response_ns: u128 = blocks.iter().map(|block| block.response_ns).sum();
            assert_eq!(response_ns, 100_000 * u128::from(transactions));
        }
    }

    #[test]
    fn blocks_do_not_depend_on_the_intervals_that_are_shown() {
        let expected = blocks_of(30 * SECOND, SECOND, |_| 10);
        for interval_ns in [SECOND / 100, SECOND / 10, SECOND / 2, 10 * SECOND] {
            let per_slice = Window::new(0, 1, interval_ns).slice_ns() / (SECOND / 100);
            assert_eq!(blocks_of(30 * SECOND, interval_ns, |_| per_slice), expected, "{interval_ns}");
        }
        for (interval_ms, slice_ms) in [(250, 62.5), (70, 70.0), (1001, 91.0), (1009, 63.0625), (86_400_000, 100.0)] {
            let window = Window::new(0, 1, interval_ms * 1_000_000);
            assert_eq!(window.slice_ns() as f64 / 1e6, slice_ms, "{interval_ms}");
        }
    }

    #[test]
    fn a_late_sample_finds_its_block_and_a_silent_end_has_blocks() {
        let window = Window::new(0, 20 * SECOND, SECOND);
        let mut blocks = Blocks::new(&window);
        for (slice, latency_us) in [(3, 100), (150, 200), (0, 300), (3, 400), (150, 500)] {
            add(&mut blocks, slice, 1, latency_us);
        }
        let blocks = blocks.finish(&window);
        // Of two slices each.
        assert_eq!(blocks.len(), 100);
        let transactions: Vec<_> = [0, 1, 75, 99].map(|index| blocks[index].transactions).into();
        assert_eq!(transactions, [1, 2, 2, 0]);
        assert_eq!([0, 1, 75, 99].map(|index| blocks[index].response_ns), [300_000, 500_000, 700_000, 0]);
        assert_eq!([0, 1, 75, 99].map(|index| blocks[index].responses.len()), [1, 2, 2, 0]);
    }

    #[test]
    fn a_window_that_is_cut_has_no_blocks_after_its_end() {
        let window = Window::new(0, u64::MAX, SECOND);
        let mut blocks = Blocks::new(&window);
        add(&mut blocks, 7, 1, 100);
        add(&mut blocks, 900, 0, 100);
        let cut = Window::new(0, SECOND, SECOND);
        let blocks = blocks.finish(&cut);
        let lengths_s: Vec<_> = blocks.iter().map(|block| (block.length_s, block.transactions)).collect();
        assert_eq!(lengths_s, [(0.8, 1), (0.2, 0)]);
        assert!(Blocks::new(&cut).finish(&Window::new(0, 0, SECOND)).is_empty());
    }
}
