//! Rank tests, exact at any number of runs: what chance would make of their order, whatever their distribution is.
//!
//! Ranks are doubled, so that those which equal values share are whole numbers; the distribution of a sum of ranks is counted
//! out for the ranks that are there, so equal values need no correction.
//!
//! Pure. Must not import anything of the crate.

/// The chance that differences lie as far to one side of 0 as these do if each could as well have had the other sign: the
/// signed-rank test of F. Wilcoxon (Individual Comparisons by Ranking Methods, Biometrics Bulletin 1, 1945).
pub fn signed(differences: &[f64]) -> f64 {
    let differences: Vec<f64> = differences.iter().copied().filter(|difference| *difference != 0.0).collect();
    let ranks = doubled_ranks(&differences.iter().map(|difference| difference.abs()).collect::<Vec<_>>());
    let found = differences.iter().zip(&ranks).filter(|(difference, _)| **difference > 0.0).map(|(_, rank)| rank).sum();
    let all: usize = ranks.iter().sum();
    let mut ways = vec![0.0; all + 1];
    ways[0] = 1.0;
    for rank in ranks {
        for sum in (rank..=all).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    as_far(&ways, found, all as f64 / 2.0)
}

/// The chance that one sample's ranks lie as far from the other's as these do if both are of one distribution: the rank-sum
/// test of the same paper.
pub fn of_sums(one: &[f64], other: &[f64]) -> f64 {
    let ranks = doubled_ranks(&[one, other].concat());
    let found: usize = ranks[..one.len()].iter().sum();
    let all: usize = ranks.iter().sum();
    // By the number of ranks that were taken, and their sum.
    let mut ways = vec![vec![0.0; all + 1]; one.len() + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        for taken in (1..ways.len()).rev() {
            let (fewer, more) = ways.split_at_mut(taken);
            for (sum, way) in more[0][rank..].iter_mut().zip(&fewer[taken - 1]) {
                *sum += way;
            }
        }
    }
    let mean = all as f64 * one.len() as f64 / (one.len() + other.len()) as f64;
    as_far(&ways[one.len()], found, mean)
}

/// Share of ways that lead as far from the mean as the one that was found.
fn as_far(ways: &[f64], found: usize, mean: f64) -> f64 {
    // Means are multiples of a half or of a fraction that floating point does not hold.
    let distance = (found as f64 - mean).abs() - 1e-6;
    let far = ways.iter().enumerate().filter(|(sum, _)| (*sum as f64 - mean).abs() >= distance);
    far.map(|(_, ways)| ways).sum::<f64>() / ways.iter().sum::<f64>()
}

/// Twice the rank of each value, from 2; equal ones share the mean of theirs.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        2 * below + equal + 1
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }

    #[test]
    fn chances_of_signed_ranks_are_those_that_can_be_counted_by_hand() {
        assert_near(signed(&[]), 1.0);
        assert_near(signed(&[0.1, 0.2, 0.3, 0.4, 0.5]), 2.0 / 32.0);
        // Only the smallest has the other sign: of 32 ways two lead to 0 or 1 below, and two above.
        assert_near(signed(&[-0.1, 0.2, 0.3, 0.4, 0.5]), 4.0 / 32.0);
        // Equal ones share their ranks: sums of 3 x 2, and both signs of all are as far.
        assert_near(signed(&[0.1, 0.1, 0.1]), 2.0 / 8.0);
        assert_near(signed(&[0.0, 0.1, -0.1]), 1.0);
    }

    #[test]
    fn chances_of_rank_sums_are_those_that_can_be_counted_by_hand() {
        // Of the 252 ways to take five of ten.
        assert_near(of_sums(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]), 2.0 / 252.0);
        assert_near(of_sums(&[6.0, 7.0, 8.0, 9.0, 10.0], &[1.0, 2.0, 3.0, 4.0, 5.0]), 2.0 / 252.0);
        assert_near(of_sums(&[1.0, 2.0, 3.0, 4.0, 6.0], &[5.0, 7.0, 8.0, 9.0, 10.0]), 4.0 / 252.0);
        assert_near(of_sums(&[1.0], &[2.0, 3.0]), 2.0 / 3.0);
        assert_near(of_sums(&[1.0, 1.0], &[1.0, 1.0]), 1.0);
    }
}
