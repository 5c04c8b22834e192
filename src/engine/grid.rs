//! An experiment as a value: the cells of a grid, the order of each repeat, and the seed of each run.
//!
//! Pure: the same grid and seed give the same experiment. Must not import: anything but `workload`, for its generator.

use rand::RngExt;
use rand::seq::SliceRandom;

use crate::workload::Random;

/// What is varied. Everything else is the same in all runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// How many targets there are.
    pub targets: usize,
    pub threads: Vec<u32>,
    /// Transactions a second; 0 is the closed loop.
    pub rates: Vec<f64>,
}

/// One combination of what is varied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// From 1; the same in every repeat.
    pub number: u32,
    /// Index of the target.
    pub target: usize,
    pub threads: u32,
    pub rate: f64,
}

impl Grid {
    /// All cells, targets innermost.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &threads in &self.threads {
            for &rate in &self.rates {
                for target in 0..self.targets {
                    let number = u32::try_from(cells.len() + 1).unwrap_or(u32::MAX);
                    cells.push(Cell { number, target, threads, rate });
                }
            }
        }
        cells
    }

    /// The cells in the order in which a block, counted from 1, measures them. A block of an even number has the order of
    /// the one before it reversed: whichever of two cells came first comes second now, so that what an early or a late
    /// place does to a run cancels out over the two blocks.
    pub fn block(&self, seed: u64, block: u32) -> Vec<Cell> {
        let is_reversed = block.is_multiple_of(2);
        let shuffled = if is_reversed { block.saturating_sub(1) } else { block };
        let mut cells = self.cells();
        cells.shuffle(&mut Random::of(&[seed, shuffled.into()]));
        if is_reversed {
            cells.reverse();
        }
        cells
    }
}

/// The seed of one run. Runs of one seed would touch the same rows, and the later ones find them in the server's cache, or
/// deleted.
pub fn run_seed(seed: u64, block: u32, number: u32) -> u64 {
    // Below 2^53 all readers of JSON know it exactly; 0 stands for none.
    Random::of(&[seed, block.into(), number.into()]).random_range(1..1 << 53)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn grid() -> Grid {
        Grid { targets: 2, threads: vec![1, 8, 64], rates: vec![0.0, 100.0] }
    }

    #[test]
    fn a_grid_has_every_combination_once() {
        let cells = grid().cells();
        let combinations: BTreeSet<_> =
            cells.iter().map(|cell| (cell.target, cell.threads, cell.rate as u64)).collect();
        assert_eq!((cells.len(), combinations.len()), (12, 12));
        assert!(cells.iter().zip(1..).all(|(cell, number)| cell.number == number));
    }

    #[test]
    fn each_block_has_all_cells_in_an_order_that_the_seed_gives() {
        let numbers = |seed, block| grid().block(seed, block).iter().map(|cell| cell.number).collect::<Vec<_>>();
        let mut sorted = numbers(7, 1);
        sorted.sort_unstable();
        assert_eq!(sorted, (1..=12).collect::<Vec<_>>());
        assert_eq!(numbers(7, 1), numbers(7, 1));
        assert_ne!(numbers(7, 1), numbers(7, 3));
        assert_ne!(numbers(7, 1), numbers(8, 1));
    }

    #[test]
    fn every_second_block_is_the_one_before_it_in_reverse() {
        for block in [1, 3, 5] {
            let mut next = grid().block(7, block + 1);
            next.reverse();
            assert_eq!(next, grid().block(7, block));
        }
    }

    #[test]
    fn which_target_a_pair_of_blocks_begins_with_is_chance() {
        let pair = Grid { targets: 2, threads: vec![1], rates: vec![0.0] };
        let first = (1..=2000).step_by(2).filter(|&block| pair.block(1, block)[0].target == 0).count();
        // By chance alone it would be outside in one of a million.
        assert!((423..=577).contains(&first), "{first}");
    }

    #[test]
    fn no_two_runs_have_a_seed_in_common() {
        let runs = (1..=100).flat_map(|block| (1..=100).map(move |number| run_seed(1, block, number)));
        let seeds: BTreeSet<u64> = runs.collect();
        assert_eq!(seeds.len(), 10_000);
        assert!(seeds.iter().all(|seed| (1..1 << 53).contains(seed)));
    }
}
