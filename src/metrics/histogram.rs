//! Latencies of one kind: counted in buckets, with their exact extremes and sum beside.
//!
//! Invariants: recording never allocates; no percentile lies outside of the extremes; the extremes, the mean and the
//! number are exact, percentiles to three digits. Must not import anything of the crate.

/// Numbers of latencies by nanoseconds, in buckets a thousandth wide.
pub type Buckets = hdrhistogram::Histogram<u64>;

/// The longest latency, one hour; a longer one is recorded as this.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Latencies in nanoseconds. The buckets know their extremes and their mean only to a bucket's width.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Buckets,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl Default for Histogram {
    /// Empty, and of full range from the start.
    fn default() -> Histogram {
        let buckets = Buckets::new_with_max(LONGEST_NS, 3).expect("one hour at three digits is a valid range");
        Histogram { buckets, min_ns: u64::MAX, max_ns: 0, sum_ns: 0 }
    }
}

impl Histogram {
    pub fn record(&mut self, latency_ns: u64) {
        let latency_ns = latency_ns.min(LONGEST_NS);
        self.buckets.saturating_record(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        self.sum_ns += u128::from(latency_ns);
    }

    pub fn add(&mut self, more: &Histogram) {
        self.buckets.add(&more.buckets).expect("all histograms have the same range");
        self.min_ns = self.min_ns.min(more.min_ns);
        self.max_ns = self.max_ns.max(more.max_ns);
        self.sum_ns += more.sum_ns;
    }

    /// Empties it and keeps its memory.
    pub fn reset(&mut self) {
        self.buckets.reset();
        (self.min_ns, self.max_ns, self.sum_ns) = (u64::MAX, 0, 0);
    }

    pub fn len(&self) -> u64 {
        self.buckets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    pub fn buckets(&self) -> &Buckets {
        &self.buckets
    }

    /// 0 for an empty histogram, as are the others.
    pub fn min_us(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.min_ns as f64 / 1e3 }
    }

    pub fn max_us(&self) -> f64 {
        self.max_ns as f64 / 1e3
    }

    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    pub fn mean_us(&self) -> f64 {
        self.sum_ns as f64 / self.len().max(1) as f64 / 1e3
    }

    pub fn percentile_us(&self, percentile: f64) -> f64 {
        percentile_us(&self.buckets, percentile, self.min_us(), self.max_us())
    }
}

/// The number of a bucket; they are in the order of their latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket(u32);

/// What it takes for three digits: a latency of more bits is known by its first ones.
const BUCKET_BITS: u32 = 11;

impl Bucket {
    fn of(latency_ns: u64) -> Bucket {
        let shift = (u64::BITS - latency_ns.leading_zeros()).saturating_sub(BUCKET_BITS);
        // The first bits fill 11 bits, so a longer latency has a greater number.
        Bucket((shift << BUCKET_BITS) | (latency_ns >> shift) as u32)
    }

    /// Shortest and longest latency of the bucket, in nanoseconds.
    pub fn edges_ns(self) -> (u64, u64) {
        let (shift, first) = (self.0 >> BUCKET_BITS, u64::from(self.0 & ((1 << BUCKET_BITS) - 1)));
        (first << shift, ((first + 1) << shift) - 1)
    }
}

/// A histogram without its empty buckets, which are most of them: a few kilobytes in place of 270.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(Vec<(Bucket, u64)>);

impl Counts {
    pub fn of(histogram: &Histogram) -> Counts {
        let recorded = histogram.buckets.iter_recorded();
        Counts(recorded.map(|bucket| (Bucket::of(bucket.value_iterated_to()), bucket.count_at_value())).collect())
    }

    pub fn add(&mut self, more: &Counts) {
        let (mine, theirs) = (std::mem::take(&mut self.0), &more.0);
        let mut sum = Vec::with_capacity(mine.len() + theirs.len());
        let (mut mine, mut theirs) = (mine.into_iter().peekable(), theirs.iter().copied().peekable());
        while let (Some(a), Some(b)) = (mine.peek().copied(), theirs.peek().copied()) {
            if a.0 <= b.0 {
                mine.next();
            }
            if b.0 <= a.0 {
                theirs.next();
            }
            sum.push((a.0.min(b.0), if a.0 <= b.0 { a.1 } else { 0 } + if b.0 <= a.0 { b.1 } else { 0 }));
        }
        sum.extend(mine);
        sum.extend(theirs);
        sum.shrink_to_fit();
        self.0 = sum;
    }

    pub fn len(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bucket that holds a rank, counted from 0, with the number of those below it and of those in it. A rank above all
    /// is the last one; `None` if there is none.
    pub fn at_rank(&self, rank: f64) -> Option<(Bucket, u64, u64)> {
        let mut below = 0;
        let last = self.0.last()?.0;
        for &(bucket, count) in &self.0 {
            if rank < (below + count) as f64 || bucket == last {
                return Some((bucket, below, count));
            }
            below += count;
        }
        None
    }

    /// How many are in the buckets below this one, and how many in it.
    pub fn split(&self, bucket: Bucket) -> (u64, u64) {
        let at = self.0.partition_point(|(each, _)| *each < bucket);
        let inside = self.0.get(at).filter(|(each, _)| *each == bucket).map_or(0, |(_, count)| *count);
        (self.0[..at].iter().map(|(_, count)| count).sum(), inside)
    }
}

/// A percentile in microseconds: the upper edge of its bucket, but never outside of the exact extremes.
pub fn percentile_us(buckets: &Buckets, percentile: f64, min_us: f64, max_us: f64) -> f64 {
    let edge_ns = buckets.value_at_quantile(quantile(buckets.len(), percentile));
    (edge_ns as f64 / 1e3).max(min_us).min(max_us)
}

/// What the buckets take for the nearest rank of a percentile, which is exact to a millionth.
///
/// They multiply by the count and round up, so 99.9 / 100 in binary would lead to rank 1000 of 1000 instead of 999. Half
/// a rank below the right one rounds up to it.
fn quantile(count: u64, percentile: f64) -> f64 {
    let millionths = (percentile * 1e6).round() as u128;
    let rank = (u128::from(count) * millionths).div_ceil(100_000_000).max(1);
    (rank as f64 - 0.5) / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(latencies_ns: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        latencies_ns.iter().for_each(|&latency_ns| histogram.record(latency_ns));
        histogram
    }

    #[test]
    fn extremes_and_mean_are_exact_whatever_the_buckets_width() {
        // At these values a bucket is wider than a microsecond.
        let (low, high) = (1_234_567_891, 98_765_432_123);
        let mut histogram = of(&[high]);
        histogram.add(&of(&[]));
        histogram.add(&of(&[low, low]));
        assert_eq!((histogram.min_us(), histogram.max_us()), (low as f64 / 1e3, high as f64 / 1e3));
        assert_eq!(histogram.mean_us(), (low + low + high) as f64 / 3.0 / 1e3);
        for percentile in [0.001, 1.0, 50.0, 66.0, 67.0, 99.9, 100.0] {
            let found = histogram.percentile_us(percentile);
            assert!((histogram.min_us()..=histogram.max_us()).contains(&found), "{percentile}: {found}");
        }
        assert_eq!(histogram.percentile_us(100.0), histogram.max_us());
    }

    #[test]
    fn a_histogram_that_was_reset_remembers_nothing() {
        let mut histogram = of(&[5, u64::MAX]);
        assert_eq!(histogram.max_us(), LONGEST_NS as f64 / 1e3);
        histogram.reset();
        assert!(histogram.is_empty());
        assert_eq!((histogram.min_us(), histogram.mean_us(), histogram.max_us()), (0.0, 0.0, 0.0));
        assert_eq!(histogram.percentile_us(50.0), 0.0);
        histogram.record(7_000);
        assert_eq!((histogram.min_us(), histogram.max_us()), (7.0, 7.0));
    }

    proptest! {
        #[test]
        fn counts_have_the_buckets_of_the_histogram_they_come_from(
            latencies_ns in proptest::collection::vec(prop_oneof![0u64..5000, 0..LONGEST_NS + 1], 1..50),
            cut in 0usize..50,
        ) {
            let (some, others) = latencies_ns.split_at(cut.min(latencies_ns.len()));
            let mut counts = Counts::of(&of(some));
            counts.add(&Counts::of(&of(others)));
            let all = of(&latencies_ns);
            prop_assert_eq!(&counts, &Counts::of(&all));
            prop_assert_eq!(counts.len(), latencies_ns.len() as u64);
            for &latency_ns in &latencies_ns {
                let bucket = Bucket::of(latency_ns);
                let buckets = all.buckets();
                let edges_ns = (buckets.lowest_equivalent(latency_ns), buckets.highest_equivalent(latency_ns));
                prop_assert_eq!(bucket.edges_ns(), edges_ns);
                let (below, inside) = counts.split(bucket);
                prop_assert_eq!(below, latencies_ns.iter().filter(|&&each| each < edges_ns.0).count() as u64);
                prop_assert_eq!(inside, buckets.count_at(latency_ns));
                prop_assert_eq!(counts.at_rank(below as f64), Some((bucket, below, inside)));
                prop_assert_eq!(counts.at_rank((below + inside) as f64 - 0.5), Some((bucket, below, inside)));
            }
        }
    }

    #[test]
    fn a_percentile_is_the_nearest_rank_however_many_were_recorded() {
        for count in [1, 7, 999, 1000, 1001, 2000, 10_000, 123_000] {
            let rank = (count * 999u64).div_ceil(1000);
            // All up to that rank are short and all above it long, so one rank too many or too few is seen.
            let mut histogram = Histogram::default();
            (1..rank).for_each(|_| histogram.record(1_000_000));
            histogram.record(2_000_000);
            (rank..count).for_each(|_| histogram.record(4_000_000));
            assert_eq!((histogram.percentile_us(99.9) / 1e3).round(), 2.0, "{count}");
        }
    }
}
