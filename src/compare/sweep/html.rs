//! Sweeps as a part of a page of runs, which has their charts.
//!
//! Invariant: maud escapes every text that is put in. The words are those of `text`.

use maud::{Markup, html};

use super::text::{LAW, NOTES};
use super::{Sweep, Sweeps};
use crate::report::html::{head, scroll};
use crate::report::text::printable;

impl Sweeps {
    /// Nothing of targets with one cell, which there is nothing to say of.
    pub fn html(&self) -> Markup {
        let sweeps: Vec<&Sweep> = self.sweeps.iter().filter(|sweep| sweep.cells.len() > 1).collect();
        html! { @if !sweeps.is_empty() {
            h2 { "Peak and scalability" }
            @for sweep in sweeps { (sweep.html()) }
            p.note { (NOTES) }
        } }
    }
}

impl Sweep {
    fn html(&self) -> Markup {
        let name = printable(&self.name());
        html! {
            h3 { (name) }
            p.note { (printable(&format!("{}, {}", self.url, self.server))) }
            @for difference in &self.differences { p.note { (printable(difference)) } }
            (scroll(&name, html! {
                (head(&self.heading(), &[]))
                tbody { @for cell in &self.cells {
                    @let [place, figures @ ..] = cell.row();
                    tr { th scope="row" { (place) } @for figure in figures { td { (figure) } } }
                } }
            }))
            @for departure in self.departures() { p.note { (printable(&departure)) } }
            dl {
                dt { "Peak" }
                dd { (self.peak_in_words()) }
                @if let Some(scalability) = &self.scalability { dt { (LAW) } dd { (scalability.words()) } }
            }
        }
    }
}
