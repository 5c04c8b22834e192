//! A comparison as a part of a page of runs.
//!
//! Invariant: maud escapes every text that is put in. The words are those of `text`.

use maud::{Markup, html};

use super::Comparison;
use crate::report::html::{head, scroll};
use crate::report::text::printable;

impl Comparison {
    pub fn html(&self) -> Markup {
        let baseline = self.sides.first().map_or(String::new(), |side| printable(&side.name));
        html! {
            h2 { "Compared with " (baseline) ", the baseline" }
            ul { @for side in &self.sides { li { (printable(&side.words())) } } }
            @for (title, items) in self.lists() {
                h3 { (title) }
                ul { @for item in items { li { (printable(&item)) } } }
            }
            @for pair in &self.pairs {
                @let name = format!("{}: {}", printable(&pair.side), printable(&pair.cell.words()));
                h3 { (name) }
                p.note { (pair.made_of()) }
                (scroll(&name, html! {
                    (head(&["", &baseline, &printable(&pair.side), "ratio"], &["verdict"]))
                    tbody { @for row in pair.shown().map(|compared| compared.row()) { tr {
                        th scope="row" { (row.figure) }
                        td { (row.baseline) }
                        td { (row.other) }
                        td { (row.ratio) }
                        td.text { (row.verdict) }
                    } } }
                }))
            }
            p.note { (self.notes()) }
        }
    }
}
