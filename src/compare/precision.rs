//! How precisely an experiment tells its figures so far, and whether more repeats are made for it.
//!
//! What is looked at is what [`super::compare()`] shows: the ratio of each other target to the first one, in each cell. With a
//! single target it is the mean of each cell. The figure is tps, or where a rate was asked for, which tps only repeats, p95.
//!
//! Invariant: whether to go on depends on the width of intervals alone, never on where they lie, so that no verdict is waited
//! for. A width that is small by chance ends an experiment early all the same, so the interval of one that ends by itself
//! holds the truth a little less often than 95 of 100 times; docs/experiments.md has how often.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

use std::path::Path;

use super::estimate::geometric_mean;
use super::sides::{Cell, Sides};
use super::{CompareError, Figure, Measured, Method, Options, Pair, compare};

/// When enough repeats are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// How far the ends of each interval may be from its figure, as a share of that.
    pub width: f64,
    /// How many repeats are made at most.
    pub most_repeats: u32,
}

/// The widest interval of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Widest {
    /// How far its end is from its figure, as a share of that; infinite where it has none.
    pub width: f64,
    /// Such as `tps of proxy by direct, oltp_read_only, 64 threads`; where it has no interval also why.
    pub figure: String,
}

impl Goal {
    /// How many repeats to go on to; `None` where no more are made. They come in twos, of opposite orders.
    pub fn next(&self, repeats: u32, width: f64) -> Option<u32> {
        let next = (repeats / 2 * 2 + 2).min(self.most_repeats);
        (width > self.width && next > repeats).then_some(next)
    }

    /// Such as `±2.00 %`.
    pub fn width_in_words(&self) -> String {
        in_words(self.width)
    }

    /// About how many repeats it takes, as far as those made tell: errors fall with the square root of their number.
    pub fn repeats_needed(&self, repeats: u32, width: f64) -> Option<f64> {
        let needed = f64::from(repeats) * (width / self.width).powi(2);
        needed.is_finite().then(|| needed.ceil())
    }
}

impl Widest {
    fn of(words: String, figure: Option<Measured>, reason: Option<&str>) -> Widest {
        let width = figure.and_then(|figure| {
            let bounds = figure.bounds?;
            Some((bounds.high / figure.value - 1.0).max(1.0 - bounds.low / figure.value))
        });
        let why = reason.map_or(String::new(), |reason| format!(" ({reason})"));
        Widest { width: width.unwrap_or(f64::INFINITY), figure: words + &why }
    }

    /// Such as `±2.04 %`: with two places, so that one that is just too wide does not look as if it were not.
    pub fn width_in_words(&self) -> String {
        if self.width.is_finite() { in_words(self.width) } else { "not known".into() }
    }
}

fn in_words(width: f64) -> String {
    format!("±{:.2} %", 100.0 * width)
}

/// The widest interval of an experiment's folder; `None` where nothing in it has one.
pub fn widest(folder: &Path) -> Result<Option<Widest>, CompareError> {
    let intervals = match compare(&[folder.to_path_buf()], Options::default()) {
        Ok(comparison) => {
            let baseline = comparison.sides.first().map(|side| side.name.clone()).unwrap_or_default();
            comparison.pairs.iter().filter_map(|pair| of_ratio(pair, &baseline)).collect()
        }
        Err(CompareError::OneTarget(_)) => of_means(folder)?,
        Err(error) => return Err(error),
    };
    Ok(intervals.into_iter().max_by(|one, other| one.width.total_cmp(&other.width)))
}

fn figure_of(cell: &Cell) -> Figure {
    if cell.open_loop.is_some() { Figure::P95 } else { Figure::Tps }
}

fn of_ratio(pair: &Pair, baseline: &str) -> Option<Widest> {
    let figure = figure_of(&pair.cell);
    let compared = pair.figures.iter().find(|compared| compared.figure == figure)?;
    // What differs from run to run is in the interval of pairs only.
    let ratio = compared.ratio.filter(|_| pair.method == Method::Paired && compared.reason.is_none());
    let words = format!("{} of {} by {baseline}, {}", figure.name(), pair.side, pair.cell.words());
    Some(Widest::of(words, ratio, compared.reason.as_deref()))
}

fn of_means(folder: &Path) -> Result<Vec<Widest>, CompareError> {
    let sides = Sides::alone(folder)?;
    let runs = sides.sides.first();
    let widest = |cell: Cell| {
        let runs = runs.map(|runs| sides.runs_at(runs, &cell)).unwrap_or_default();
        let figure = figure_of(&cell);
        let reports: Vec<_> = runs.iter().map(|run| &run.report).collect();
        let reason = figure.reason_against(&reports);
        let mean = reason.is_none().then(|| {
            let values: Vec<f64> = reports.iter().map(|report| figure.of(report).value).collect();
            let (value, bounds) = geometric_mean(&values);
            Measured { value, bounds }
        });
        Widest::of(format!("{} of {}", figure.name(), cell.words()), mean, reason.as_deref())
    };
    Ok(runs.map(|runs| sides.cells(runs)).unwrap_or_default().into_iter().map(widest).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_come_in_twos_until_the_width_or_the_most() {
        let goal = Goal { width: 0.02, most_repeats: 13 };
        assert_eq!(
            [goal.next(10, 0.03), goal.next(11, 0.03), goal.next(12, f64::INFINITY)],
            [Some(12), Some(12), Some(13)]
        );
        assert_eq!([goal.next(10, 0.02), goal.next(13, 0.03), goal.next(20, 0.03)], [None; 3]);
        assert_eq!(goal.repeats_needed(10, 0.04), Some(40.0));
        assert_eq!(goal.repeats_needed(10, f64::INFINITY), None);
    }
}
