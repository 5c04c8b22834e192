//! Sweeps for a terminal of 80 columns.

use std::fmt::Write;

use super::{AgainstSlo, Best, Cell, Cost, LITTLE_LIMIT, Outcome, Scalability, Slo, Sweep, Sweeps};
use crate::compare::text::percent;
use crate::metrics::Bounds;
use crate::report::figures::{counted, decimals, grouped};
use crate::report::setup::Varied;
use crate::report::text::paragraph;

/// How to read a table of cells.
pub(super) const NOTES: &str = "tps and latencies of several runs are their geometric means. +- is the 95 % interval of tps, \
    by the repeats or, of a single run, by the run itself. p50, p95 and p99 are response times in ms; in use are \
    connections by Little's law.";

impl Sweeps {
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing into a String cannot fail, so the result is dropped.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        for sweep in &self.sweeps {
            sweep.write(out, self.slo)?;
            writeln!(out)?;
        }
        for (at, run) in self.left_out.iter().enumerate() {
            if at == 0 {
                writeln!(out, "Left out:")?;
            }
            paragraph(out, "    ", 8, run)?;
        }
        if !self.left_out.is_empty() {
            writeln!(out)?;
        }
        paragraph(out, "", 0, NOTES)
    }
}

impl Sweep {
    fn write(&self, out: &mut String, slo: Option<Slo>) -> std::fmt::Result {
        paragraph(out, "", 4, &self.name())?;
        paragraph(out, "    ", 4, &format!("{}, {}", self.url, self.server))?;
        for difference in &self.differences {
            paragraph(out, "    ", 8, difference)?;
        }
        let findings = self.findings.iter().map(|(code, count)| format!("{code} in {count}"));
        let findings: Vec<String> = findings.collect();
        if !findings.is_empty() {
            let runs = self.cells.iter().map(|cell| cell.runs).sum::<usize>();
            paragraph(out, "    ", 8, &format!("findings, of {runs} runs: {}", findings.join(", ")))?;
        }
        writeln!(out, "\n{}", line(self.heading().map(String::from)))?;
        for cell in &self.cells {
            let star = if cell.departure.is_some() { "*" } else { " " };
            let mut row = cell.row();
            row[7].push_str(star);
            writeln!(out, "{}", line(row))?;
        }
        writeln!(out)?;
        self.departures().try_for_each(|departure| paragraph(out, "* ", 2, &departure))?;
        paragraph(out, "Peak: ", 4, &self.peak_in_words())?;
        self.write_knee(out, slo)?;
        if let Some(scalability) = &self.scalability {
            paragraph(out, &format!("{LAW}: "), 4, &scalability.words())?;
        }
        self.write_cost(out)
    }

    /// What is swept, and how.
    pub(super) fn name(&self) -> String {
        let number = self.number.map_or(String::new(), |number| format!(" ({number})"));
        let threads = self
            .threads
            .map_or("closed loop".into(), |threads| format!("open loop with {}", counted(threads.into(), "thread")));
        format!("{}{number}: {} by {}, {threads}", self.target, self.workload, self.varied.name())
    }

    /// Of the table of cells.
    pub(super) fn heading(&self) -> [&'static str; 9] {
        let last = if self.varied == Varied::Threads { "efficiency" } else { "of asked" };
        [self.varied.name(), "runs", "tps", "+-", "p50", "p95", "p99", "in use", last]
    }

    /// Where connections in use are not those that there are, and why.
    pub(super) fn departures(&self) -> impl Iterator<Item = String> {
        let words = |cell: &Cell| {
            let reason = cell.departure.as_ref()?;
            Some(format!("{} in use at {}: {reason}.", grouped(cell.connections_in_use, 2), cell.words()))
        };
        self.cells.iter().filter_map(words)
    }

    pub(super) fn peak_in_words(&self) -> String {
        let cell = &self.cells[self.peak.cell];
        let p99 = cell.p99_us.map_or(String::new(), |_| format!(", p99 {} ms", ms(cell.p99_us)));
        let is_full = cell.rate.is_some() && cell.connections_in_use > (1.0 - LITTLE_LIMIT) * f64::from(cell.threads);
        let end = match self.is_last(&self.peak) {
            _ if is_full => " All its connections were in use, so more --threads may do more.",
            true => " More was not measured, and may do more.",
            false => "",
        };
        format!("{} tps at {}{p99}.{end}", digits(cell.tps.value), cell.words())
    }

    /// Whether it is where the sweep ends.
    fn is_last(&self, best: &Best) -> bool {
        self.cells.len() > 1 && best.cell + 1 == self.cells.len()
    }

    fn write_knee(&self, out: &mut String, slo: Option<Slo>) -> std::fmt::Result {
        let Some(slo) = slo else { return Ok(()) };
        let held: Vec<(&Cell, &AgainstSlo)> =
            self.cells.iter().filter_map(|cell| Some((cell, cell.slo.as_ref()?))).collect();
        let mut words = "none of what was measured is known to keep it.".to_string();
        if let Some((best, (cell, kept))) = self.knee.as_ref().and_then(|best| Some((best, *held.get(best.cell)?))) {
            let spread = at_percentile(slo, kept, cell.runs);
            words = format!("{} tps at {}, {spread}.", digits(cell.tps.value), cell.words());
            if self.is_last(best) {
                words.push_str(" More was not measured, and may keep it too.");
            }
        }
        let mut others: Vec<(&str, Vec<String>)> = Vec::new();
        for (cell, held) in held.iter().filter(|(_, held)| held.outcome != Outcome::Kept) {
            let reason = held.reason.as_deref().unwrap_or("too long");
            match others.iter_mut().find(|other| other.0 == reason) {
                Some(other) => other.1.push(place(cell)),
                None => others.push((reason, vec![place(cell)])),
            }
        }
        let others =
            others.iter().map(|(reason, places)| format!("{reason} at {} {}", self.varied.name(), places.join(", ")));
        let others: Vec<String> = others.collect();
        if !others.is_empty() {
            let _ = write!(words, " Not so: {}.", others.join("; "));
        }
        paragraph(out, &format!("Knee, the most with {slo}: "), 4, &words)
    }

    fn write_cost(&self, out: &mut String) -> std::fmt::Result {
        let Some(dollars) = self.dollars_per_hour else { return Ok(()) };
        writeln!(out, "Cost at {} dollars an hour:", digits(dollars))?;
        writeln!(out, "    {:<6} {:>10} {:>20} {:>22}", "", "tps", "dollars per million", "tps per dollar an hour")?;
        for (name, best) in [("peak", Some(&self.peak)), ("knee", self.knee.as_ref())] {
            let Some((best, Cost { dollars_per_million_transactions, tps_per_dollar_per_hour })) =
                best.and_then(|best| Some((best, best.cost?)))
            else {
                continue;
            };
            let tps = digits(self.cells[best.cell].tps.value);
            let (million, tps_per_dollar) = (digits(dollars_per_million_transactions), digits(tps_per_dollar_per_hour));
            writeln!(out, "    {name:<6} {tps:>10} {million:>20} {tps_per_dollar:>22}")?;
        }
        Ok(())
    }
}

pub(super) const LAW: &str = "Universal Scalability Law";

impl Scalability {
    pub(super) fn words(&self) -> String {
        let Some(fit) = &self.fit else {
            return format!("not fitted: {}.", self.reason.as_deref().unwrap_or_default());
        };
        let (sigma, kappa) = (parameter(fit.law.sigma), parameter(fit.law.kappa));
        let (off, at) = (percent(fit.largest_residual), counted(fit.residual_threads.into(), "thread"));
        let lambda = digits(fit.law.lambda);
        let mut words = format!("lambda {lambda} tps, sigma {sigma}, kappa {kappa}; at most {off} off, at {at}.");
        words += &match fit.peak_threads.zip(fit.peak_tps) {
            Some((threads, tps)) => {
                let threads = grouped(threads, usize::from(threads < 10.0));
                format!(" Its peak is {} tps at {threads} threads.", digits(tps))
            }
            None => " It has no peak: kappa is 0.".into(),
        };
        if fit.is_bad {
            words.push_str(" Warning: tps do not follow the law; do not use its peak.");
        } else if fit.is_extrapolated {
            words.push_str(" Warning: the peak is not within what was measured, so it is a guess.");
        }
        words
    }
}

impl std::fmt::Display for Slo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "p{} of at most {} ms", self.percentile, self.limit_us / 1e3)
    }
}

/// The objective's percentile, and how far apart the repeats have it.
fn at_percentile(slo: Slo, held: &AgainstSlo, runs: usize) -> String {
    let spread = match (held.least_us, held.greatest_us) {
        (least, greatest) if runs > 1 => format!(" ({} to {} in {runs} runs)", ms(least), ms(greatest)),
        _ => String::new(),
    };
    format!("p{} {} ms{spread}", slo.percentile, ms(held.value_us))
}

impl Cell {
    /// Its figures below `Sweep::heading`.
    pub(super) fn row(&self) -> [String; 9] {
        [
            place(self),
            self.runs.to_string(),
            digits(self.tps.value),
            self.tps.bounds.map_or("-".into(), half_width),
            ms(self.p50_us),
            ms(self.p95_us),
            ms(self.p99_us),
            grouped(self.connections_in_use, if self.connections_in_use < 100.0 { 2 } else { 0 }),
            format!("{:.0} %", 100.0 * self.efficiency),
        ]
    }

    /// Where it is in its sweep, as in `8 threads` or `rate 500`.
    fn words(&self) -> String {
        match self.rate {
            Some(rate) => format!("rate {rate}"),
            None => counted(self.threads.into(), "thread"),
        }
    }
}

/// The same below a heading that says which of the two it is.
fn place(cell: &Cell) -> String {
    cell.rate.map_or(cell.threads.to_string(), |rate| rate.to_string())
}

/// Nine columns that fit 80.
fn line(cells: [String; 9]) -> String {
    let widths = [7, 4, 9, 7, 8, 8, 8, 8, 10];
    let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
    cells.collect::<Vec<_>>().join(" ").trim_end().to_string()
}

/// How far an interval reaches to each side; of ratios, it is as far to both.
fn half_width(bounds: Bounds) -> String {
    match bounds.low > 0.0 {
        true => percent((bounds.high / bounds.low).sqrt() - 1.0),
        false => percent(f64::INFINITY),
    }
}

fn ms(value_us: Option<f64>) -> String {
    value_us.map_or("-".into(), |value_us| digits(value_us / 1e3))
}

/// Four digits or more, as of a figure whose error is a hundredth.
fn digits(value: f64) -> String {
    grouped(value, decimals(value, 0.0))
}

/// Of the law, which may be far below what a few digits show.
fn parameter(value: f64) -> String {
    if value == 0.0 || value >= 1e-4 { digits(value) } else { format!("{value:.3e}") }
}
