//! Published figures as text of 80 columns: the list of them, and each with all that is known of it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Column, Figure, Publication, Run};

const WIDTH: usize = 80;

/// Every run by its full name, with the first of its figures.
pub fn list(publications: &[Publication]) -> String {
    let mut out = String::new();
    for publication in publications {
        wrapped(&mut out, "", &format!("{}: {}", publication.name, publication.source.cited()));
        for run in &publication.runs {
            let first = publication.columns.iter().find_map(|column| Some((column, run.values.get(&column.name)?)));
            let (column, figure) =
                first.map(|(column, figure)| (column.name.as_str(), figure.grouped())).unwrap_or_default();
            let _ = writeln!(out, "    {:<42} {figure:>14} {column}", publication.full_name(run));
        }
        out.push('\n');
    }
    out + "`oltpbench published show NAME` has the whole of one, `/RUN` or all its runs.\n"
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

/// What all runs have in common, then what they have not by the runs that have the same.
fn setups(out: &mut String, runs: &[&Run]) {
    let of_runs: Vec<_> = runs.iter().map(|run| run.setup.fields()).collect();
    let Some(first) = of_runs.first() else { return };
    let is_common = |at: usize| of_runs.iter().all(|fields| fields[at] == first[at]);
    out.push_str("\nSet-up:\n");
    for (_, (label, value)) in first.iter().enumerate().filter(|(at, _)| is_common(*at)) {
        wrapped(out, &format!("    {label:<18} "), value);
    }
    if (0..first.len()).all(is_common) {
        return;
    }
    out.push_str("\nSet-up by run:\n");
    for (at, (label, _)) in first.iter().enumerate().filter(|(at, _)| !is_common(*at)) {
        let mut names_by_value: Vec<(&str, Vec<&str>)> = Vec::new();
        for (run, fields) in runs.iter().zip(&of_runs) {
            let value = fields[at].1.as_str();
            match names_by_value.iter_mut().find(|(other, _)| *other == value) {
                Some((_, names)) => names.push(&run.name),
                None => names_by_value.push((value, vec![&run.name])),
            }
        }
        for (position, (value, names)) in names_by_value.iter().enumerate() {
            let label = if position == 0 { label } else { "" };
            let separator = if value.contains('\n') { "\n" } else { " " };
            wrapped(out, &format!("    {label:<18} "), &format!("{}:{separator}{value}", names.join(", ")));
        }
    }
}

/// Writes text behind a prefix, in lines that begin below its beginning. A word that is longer than a line stays whole.
pub fn wrapped(out: &mut String, prefix: &str, text: &str) {
    let indent = prefix.chars().count();
    let mut line = prefix.to_string();
    for paragraph in text.lines() {
        for word in paragraph.split_whitespace() {
            let length = line.chars().count();
            if length > indent && length + 1 + word.chars().count() > WIDTH {
                let _ = writeln!(out, "{}", line.trim_end());
                line = " ".repeat(indent);
            }
            if line.chars().count() > indent {
                line.push(' ');
            }
            line.push_str(word);
        }
        let _ = writeln!(out, "{}", line.trim_end());
        line = " ".repeat(indent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::all;

    fn shown(name: &str) -> String {
        let publications = all().unwrap();
        let (publication, run) = crate::published::find(&publications, name).unwrap();
        show(publication, run)
    }

    #[test]
    fn the_whitepapers_table_is_there_to_the_last_digit() {
        insta::assert_snapshot!(shown("aurora-2015"));
    }

    #[test]
    fn the_articles_table_is_there_to_the_last_digit() {
        insta::assert_snapshot!(shown("cloudsql-article"));
    }

    #[test]
    fn one_run_is_shown_without_what_others_have() {
        let run = shown("aurora-2017-peak/mysql-5.7-read");
        assert!(run.contains("125,000") && !run.contains("121,000") && !run.contains("write statements/s"), "{run}");
    }

    #[test]
    fn the_list_has_every_run() {
        insta::assert_snapshot!(list(&all().unwrap()));
    }

    #[test]
    fn everything_fits_80_columns_but_words_that_do_not() {
        let publications = all().unwrap();
        for text in publications.iter().map(|publication| show(publication, None)).chain([list(&publications)]) {
            for line in text.lines().filter(|line| line.chars().count() > WIDTH) {
                let longest = line.split_whitespace().map(|word| word.chars().count()).max().unwrap();
                assert!(longest > WIDTH - 24, "{line}");
            }
        }
    }
}
