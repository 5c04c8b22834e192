//! Published figures as text of 80 columns: the list of them, and each with all that is known of it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Column, Figure, Publication, Run};

const WIDTH: usize = 80;

/// Every run by its full name, with the first of its figures.
pub fn list(publications: &[Publication]) -> String {
    let mut out = String::new();
    for publication in publications {
        let source = &publication.source;
        wrapped(&mut out, "", &format!("{}: {}; {}, {}", publication.name, source.title, source.by, source.date));
        for run in &publication.runs {
            let first = publication.columns.iter().find_map(|column| Some((column, run.values.get(&column.name)?)));
            let (column, figure) =
                first.map(|(column, figure)| (column.name.as_str(), figure.grouped())).unwrap_or_default();
            let _ = writeln!(out, "    {:<42} {figure:>14} {column}", publication.full_name(run));
        }
        out.push('\n');
    }
    out + "`oltpbench published show NAME` shows one, NAME with or without what is behind `/`.\n"
}

/// A publication, or one run of it, whole.
pub fn show(publication: &Publication, only: Option<&Run>) -> String {
    let runs: Vec<&Run> = only.map_or_else(|| publication.runs.iter().collect(), |run| vec![run]);
    let mut out = String::new();
    let name = only.map_or_else(|| publication.name.to_string(), |run| publication.full_name(run));
    let source = &publication.source;
    wrapped(&mut out, &format!("{name}: "), &source.title);
    for (label, value) in [
        ("by", source.by.clone()),
        ("date", source.date.to_string()),
        ("address", source.address.to_string()),
        ("how sure", publication.how_sure.clone()),
    ] {
        wrapped(&mut out, &format!("    {label:<9} "), &value);
    }
    out.push('\n');
    figures(&mut out, &publication.columns, &runs);
    out.push_str("\nColumns:\n");
    for column in publication.columns.iter().filter(|column| runs.iter().any(|run| is_in(column, run))) {
        wrapped(&mut out, &format!("    {:<20} ", column.name), &format!("{}; {}", column.unit, column.statistic));
    }
    setups(&mut out, &runs);
    if !publication.notes.is_empty() {
        out.push_str("\nNotes:\n");
        publication.notes.iter().for_each(|note| wrapped(&mut out, "    - ", note));
    }
    out
}

fn is_in(column: &Column, run: &Run) -> bool {
    run.by_client.iter().chain([&run.values]).any(|row| row.contains_key(&column.name))
}

/// The table: a row for each run, or one for each client and one for all.
fn figures(out: &mut String, columns: &[Column], runs: &[&Run]) {
    let columns: Vec<&Column> = columns.iter().filter(|column| runs.iter().any(|run| is_in(column, run))).collect();
    let mut rows: Vec<(String, Option<&BTreeMap<String, Figure>>)> = Vec::new();
    for run in runs {
        if run.by_client.is_empty() {
            rows.push((run.name.clone(), Some(&run.values)));
        } else {
            rows.push((format!("{}:", run.name), None));
            rows.extend((1..).zip(&run.by_client).map(|(number, row)| (format!("client {number}"), Some(row))));
            rows.push(("all".into(), Some(&run.values)));
        }
    }
    let shown = |row: Option<&BTreeMap<String, Figure>>, column: &Column| match row {
        Some(row) => row.get(&column.name).map_or("-".to_string(), Figure::grouped),
        None => String::new(),
    };
    let label_width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| rows.iter().map(|(_, row)| shown(*row, column).len()).max().unwrap_or(0).max(column.name.len()))
        .collect();
    let mut line = |label: &str, cells: Vec<String>| {
        let cells: String = cells.iter().zip(&widths).map(|(cell, width)| format!(" {cell:>width$}")).collect();
        let _ = writeln!(out, "{}", format!("{label:<label_width$}{cells}").trim_end());
    };
    line("", columns.iter().map(|column| column.name.clone()).collect());
    for (label, row) in &rows {
        line(label, columns.iter().map(|column| shown(*row, column)).collect());
    }
}

/// What all runs have in common once, and what they have not for each.
fn setups(out: &mut String, runs: &[&Run]) {
    let Some(first) = runs.first() else { return };
    let mut part = |heading: String, run: &Run, in_common: bool| {
        let is_common = |at: usize| runs.iter().all(|other| other.setup.fields()[at] == first.setup.fields()[at]);
        let fields = run.setup.fields().into_iter().enumerate().filter(|(at, _)| is_common(*at) == in_common);
        let fields: Vec<_> = fields.map(|(_, field)| field).collect();
        let options_are_common = runs.iter().all(|other| other.setup.options == first.setup.options);
        let options = if options_are_common == in_common { run.setup.options.as_slice() } else { &[] };
        if fields.is_empty() && options.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n{heading}:");
        for (label, value) in fields {
            wrapped(out, &format!("    {label:<18} "), &value);
        }
        for (at, options) in options.iter().enumerate() {
            wrapped(out, &format!("    {:<18} ", if at == 0 { "options" } else { "" }), options);
        }
    };
    part("Set-up".into(), first, true);
    for run in runs {
        part(format!("Set-up of {}", run.name), run, false);
    }
}

/// Writes text behind a prefix, in lines that begin below its beginning. A word that is longer than a line stays whole.
pub fn wrapped(out: &mut String, prefix: &str, text: &str) {
    let mut line = prefix.to_string();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = " ".repeat(prefix.chars().count());
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(out, "{}", line.trim_end());
}
