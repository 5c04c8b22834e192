//! A comparison for a terminal of 80 columns, which is Markdown too.

use std::fmt::Write;

use super::estimate::POWER;
use super::setup::Difference;
use super::{Compared, Comparison, Correction, Measured, Method, Pair, Side, Verdict};
use crate::metrics::Bounds;
use crate::report::figures::{counted, with_ends};
use crate::report::markdown::escaped;
use crate::report::text::{paragraph, printable};

/// Names are cut here in the headings of tables; the list of sides has them whole.
const LONGEST_NAME: usize = 26;

impl Comparison {
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing into a String cannot fail, so the result is dropped.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let baseline = self.sides.first().map_or("", |side| side.name.as_str());
        writeln!(out, "## Compared with {}, the baseline\n", escaped(baseline))?;
        for side in &self.sides {
            write_item(out, &side.words())?;
        }
        for (title, items) in self.lists() {
            writeln!(out, "\n**{title}:**\n")?;
            items.iter().try_for_each(|item| write_item(out, item))?;
        }
        for pair in &self.pairs {
            write_pair(out, baseline, pair)?;
        }
        writeln!(out)?;
        paragraph(out, "", 0, &marked(&self.notes()))?;
        self.write_regression(out)
    }

    /// What a reader of the figures should know, by headings of which none is empty.
    pub(super) fn lists(&self) -> Vec<(&'static str, Vec<String>)> {
        let left_out =
            self.sides.iter().flat_map(|side| side.left_out.iter().map(|run| format!("{}: {run}", side.name)));
        let mut lists = vec![
            ("Left out", left_out.collect()),
            ("Cells that are not compared", self.not_compared.clone()),
            ("Not the same, and compared by --force", self.differences.iter().map(Difference::words).collect()),
            ("Not the same either", self.surroundings.iter().map(Difference::words).collect()),
            ("Findings of the runs (docs/findings.md)", self.sides.iter().flat_map(Side::findings).collect()),
            ("Warning", self.warnings.clone()),
        ];
        lists.retain(|(_, items): &(_, Vec<String>)| !items.is_empty());
        lists
    }

    /// How to read intervals and verdicts.
    pub(super) fn notes(&self) -> String {
        let figures = || self.pairs.iter().flat_map(|pair| &pair.figures);
        let Correction { alpha, comparisons, ranked, .. } = self.correction;
        let mut notes = format!("Intervals are of {:.0} % each.", 100.0 * self.level);
        if comparisons > 0 {
            let _ = write!(
                notes,
                " Verdicts are corrected for their number (Holm): the chance of a wrong one among {comparisons} is {:.0} %.",
                100.0 * alpha
            );
        }
        if ranked < comparisons {
            notes.push_str(
                " With so few runs that takes their ratios to vary about as normal ones do (docs/comparing.md).",
            );
        }
        if figures().any(|compared| compared.verdict == Verdict::NoDifferenceShown) {
            let _ = write!(
                notes,
                " Where no difference is shown there may be one: the figure in brackets is the smallest that about {:.0} of 100 \
                 such experiments would have shown.",
                100.0 * POWER
            );
        }
        if figures().any(is_by_chance) {
            notes.push_str(" *: the interval by itself leaves 1 out, which among so many happens by chance.");
        }
        notes
    }

    fn write_regression(&self, out: &mut String) -> std::fmt::Result {
        let Some(regression) = &self.regression else { return Ok(()) };
        let limit = percent(regression.limit);
        writeln!(out)?;
        for regressed in &regression.shown {
            let text = format!(
                "**Regression** of more than {limit}: {} of {}, {}: {} times the baseline's.",
                regressed.figure.name(),
                escaped(&regressed.side),
                escaped(&regressed.cell),
                ratio(regressed.ratio)
            );
            paragraph(out, "", 0, &text)?;
        }
        if regression.shown.is_empty() {
            let could =
                regression.could_show.map_or("No experiment of this size would show one".to_string(), |could| {
                    format!(
                        "About {:.0} of 100 such experiments would have shown one of {}",
                        100.0 * POWER,
                        percent(could)
                    )
                });
            paragraph(out, "", 0, &format!("No regression of more than {limit} is shown. {could}."))?;
        }
        if !regression.not_judged.is_empty() {
            let figures = escaped(&regression.not_judged.join("; "));
            let text = format!("**Not judged**, since too few latencies lie beyond it: {figures}. Longer runs tell.");
            paragraph(out, "", 0, &text)?;
        }
        Ok(())
    }
}

/// A star is no markup.
fn marked(text: &str) -> String {
    text.replace('*', "\\*")
}

impl Side {
    pub(super) fn words(&self) -> String {
        let distinct = |of: fn(&super::Run) -> &String| {
            let mut found: Vec<&str> = Vec::new();
            for run in &self.runs {
                if !found.contains(&of(run).as_str()) {
                    found.push(of(run));
                }
            }
            found.join(" and ")
        };
        let runs = counted(self.runs.len() as u64, "run");
        let began = self.runs.iter().map(|run| run.started_at.as_str()).min().unwrap_or_default();
        let minute = began.get(..16).unwrap_or(began).replace('T', " ");
        format!(
            "{}: {runs} from {minute} UTC, {}, {}",
            self.name,
            distinct(|run| &run.target),
            distinct(|run| &run.server)
        )
    }

    fn findings(&self) -> Vec<String> {
        let mut codes: Vec<&String> = self.runs.iter().flat_map(|run| &run.findings).collect();
        codes.sort();
        codes.dedup();
        let words = codes.iter().map(|code| {
            let count = self.runs.iter().filter(|run| run.findings.contains(code)).count();
            format!("{code} in {count} of {}", self.runs.len())
        });
        let words: Vec<String> = words.collect();
        if words.is_empty() { Vec::new() } else { vec![format!("{}: {}", self.name, words.join(", "))] }
    }
}

fn write_item(out: &mut String, text: &str) -> std::fmt::Result {
    paragraph(out, "- ", 2, &escaped(text))
}

fn write_pair(out: &mut String, baseline: &str, pair: &Pair) -> std::fmt::Result {
    writeln!(out, "\n### {}: {}\n", escaped(&pair.side), escaped(&pair.cell.words()))?;
    writeln!(out, "{}\n", pair.made_of())?;
    let rows: Vec<Row> = pair.shown().map(Compared::row).collect();
    let figures = rows.iter().map(|row| [row.figure.clone(), row.baseline.clone(), row.other.clone()]);
    write_table(out, ["", &cut(baseline), &cut(&pair.side)], figures.collect())?;
    writeln!(out)?;
    let ratios = rows.iter().map(|row| [row.figure.clone(), row.ratio.clone(), marked(&row.verdict)]);
    write_table(out, ["", "ratio", "verdict"], ratios.collect())
}

impl Pair {
    /// Of which runs, and how they were put together.
    pub(super) fn made_of(&self) -> String {
        match (self.method, self.runs) {
            (Method::Paired, [blocks, _]) => format!("{}, in pairs; geometric means", counted(blocks as u64, "block")),
            (Method::Unpaired, [first, second]) => {
                format!("{first} and {second} runs, not in pairs; geometric means")
            }
            (Method::SingleRuns, _) => "a single run each".to_string(),
        }
    }

    /// The figures that one side at least has.
    pub(super) fn shown(&self) -> impl Iterator<Item = &Compared> {
        self.figures.iter().filter(|compared| compared.baseline.value > 0.0 || compared.other.value > 0.0)
    }
}

/// A compared figure in words.
pub(super) struct Row {
    pub figure: String,
    pub baseline: String,
    pub other: String,
    pub ratio: String,
    pub verdict: String,
}

impl Compared {
    pub(super) fn row(&self) -> Row {
        let (figure, scale) = match self.figure.is_rate() {
            true => (self.figure.name().to_string(), 1.0),
            false => (format!("{} (ms)", self.figure.name()), 1e-3),
        };
        let measured = |Measured { value, bounds }: Measured| {
            let bounds = bounds.map(|Bounds { low, high }| Bounds { low: low * scale, high: high * scale });
            with_ends(value * scale, bounds)
        };
        Row {
            figure,
            baseline: measured(self.baseline),
            other: measured(self.other),
            ratio: self.ratio.map_or("-".into(), ratio),
            verdict: verdict(self),
        }
    }
}

fn write_table(out: &mut String, heading: [&str; 3], rows: Vec<[String; 3]>) -> std::fmt::Result {
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count()).chain([heading[at].chars().count()]);
        cells.max().unwrap_or_default()
    };
    let widths = [width(0), width(1), width(2)];
    let line = |cells: [&str; 3]| {
        let cells = cells.iter().zip(widths).map(|(cell, width)| format!(" {cell:<width$} |"));
        format!("|{}", cells.collect::<String>())
    };
    writeln!(out, "{}", line(heading))?;
    writeln!(out, "|{}", widths.map(|width| format!("{}|", "-".repeat(width + 2))).concat())?;
    for row in &rows {
        writeln!(out, "{}", line([&row[0], &row[1], &row[2]]))?;
    }
    Ok(())
}

fn verdict(compared: &Compared) -> String {
    match compared.verdict {
        Verdict::Better => "better".into(),
        Verdict::Worse => "worse".into(),
        Verdict::CannotTell => compared.reason.clone().unwrap_or_else(|| "cannot tell".into()),
        Verdict::NoDifferenceShown => {
            let star = if is_by_chance(compared) { "*" } else { "" };
            let least = compared.could_show.map_or("none could be".to_string(), percent);
            format!("no difference shown{star} ({least})")
        }
    }
}

/// Whether a figure's own interval would have it another, and the correction does not.
fn is_by_chance(compared: &Compared) -> bool {
    let leaves_out =
        compared.ratio.and_then(|ratio| ratio.bounds).is_some_and(|bounds| bounds.low > 1.0 || bounds.high < 1.0);
    compared.verdict == Verdict::NoDifferenceShown && leaves_out
}

fn ratio(ratio: Measured) -> String {
    match ratio.bounds {
        Some(_) => with_ends(ratio.value, ratio.bounds),
        None => format!("{:.3}", ratio.value),
    }
}

pub(super) fn percent(share: f64) -> String {
    match 100.0 * share {
        large if large >= 1000.0 => "over 1000 %".into(),
        large if large >= 10.0 => format!("{large:.0} %"),
        small => format!("{:.1} %", small).replace(".0 %", " %"),
    }
}

/// A name that leaves room for the table.
fn cut(name: &str) -> String {
    let name = printable(name);
    escaped(&match name.chars().count() {
        fits if fits <= LONGEST_NAME => name,
        count => format!("...{}", name.chars().skip(count + 3 - LONGEST_NAME).collect::<String>()),
    })
}
