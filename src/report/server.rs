//! The server's own counters in the report, as document, text and finding, and our count of statements beside them.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::Finding;
use super::figures::grouped;
use super::text::paragraph;
use crate::metrics::server::{self, Compared, Counters, DigestRise, Rises, Step};

/// Width of the spans beyond which an agreement means nothing: a tenth of what was sent might be missing, or somebody
/// else's.
const TELLING_UNCERTAINTY: f64 = 0.1;

/// What the server's counters rose by from just after the window's start to just after its end, for all that the server
/// did, with what was in flight at those moments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Server {
    pub elapsed_s: f64,
    /// By the server's names; those that did not rise are left out.
    pub counters: BTreeMap<String, u64>,
    /// `None` where the server's count says nothing of ours, for the reason beside it.
    #[serde(default)]
    pub comparison: Option<Comparison>,
    #[serde(default)]
    pub not_compared: Option<String>,
    /// The same rises in steps, of some of the counters, if --server-interval asked for them.
    #[serde(default)]
    pub series: Vec<ServerStep>,
    /// The statements of this database that took the server the longest together, by performance_schema; those of all
    /// clients. Empty where it keeps none.
    #[serde(default)]
    pub digests: Vec<Digest>,
    /// Why they could not be read.
    #[serde(default)]
    pub digests_unknown: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Digest {
    /// With `?` in place of literals, and `#` in place of a table's number.
    pub text: String,
    pub count: u64,
    pub total_s: f64,
    /// `None` where one before the window was longer.
    pub longest_s: Option<f64>,
    pub rows_examined: u64,
}

/// What the server counted beside what was sent between the same two readings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    pub agrees: bool,
    /// Width of the spans below as a share of what was sent: how exact an agreement is.
    pub uncertainty: f64,
    pub statements: Vec<ComparedCount>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedCount {
    /// The server's name.
    pub counter: String,
    pub server: u64,
    /// What of ours the server must have counted, and may have.
    pub sent_least: u64,
    pub sent_most: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerStep {
    /// Since the window's start.
    pub start_s: f64,
    pub end_s: f64,
    /// How long the server took to tell its counters at the end.
    pub answer_s: f64,
    pub counters: BTreeMap<String, u64>,
}

impl Server {
    pub(super) fn new(counters: &Counters) -> Option<Server> {
        let Counters::Known(Rises { elapsed_s, counters, comparison, series, digests }) = counters else { return None };
        Some(Server {
            elapsed_s: *elapsed_s,
            counters: counters.clone(),
            comparison: comparison.as_ref().ok().map(Comparison::new),
            not_compared: comparison.as_ref().err().cloned(),
            series: series.iter().map(ServerStep::new).collect(),
            digests: digests.iter().flatten().map(Digest::new).collect(),
            digests_unknown: digests.as_ref().err().cloned(),
        })
    }

    pub(super) fn text(&self, out: &mut String) -> std::fmt::Result {
        match (&self.comparison, &self.not_compared) {
            (Some(comparison), _) if comparison.verdict() == Verdict::Same => {
                writeln!(out, "\nServer, {}:", self.span())?;
                paragraph(out, "    ", 4, &comparison.agreement(self.elapsed_s))
            }
            (Some(comparison), _) => {
                writeln!(out, "\nServer, {}:", self.span())?;
                writeln!(out, "    {:<22} {:>14}    oltpbench sent", "", "counted")?;
                for ComparedCount { counter, server, sent_least, sent_most } in &comparison.statements {
                    let [server, least, most] = [server, sent_least, sent_most].map(|count| whole(*count));
                    writeln!(out, "    {counter:<22} {server:>14}    {least} to {most}")?;
                }
                match comparison.verdict() {
                    Verdict::TooFew => writeln!(out, "    These are too few to tell whether it counted the same."),
                    Verdict::Same | Verdict::Differs => Ok(()),
                }
            }
            (None, Some(reason)) => {
                writeln!(out, "\nServer:")?;
                paragraph(out, "    ", 4, &format!("Its count of statements cannot be held against these: {reason}"))
            }
            (None, None) => Ok(()),
        }
    }

    /// What its rates are over, which is not the run's window.
    pub(super) fn span(&self) -> String {
        format!("in the {:.1} s between its first reading and its last", self.elapsed_s)
    }

    /// The count that is furthest from what was sent, if it is too far.
    pub(super) fn finding(&self) -> Option<Finding> {
        let comparison = self.comparison.as_ref().filter(|comparison| !comparison.agrees)?;
        let rows = comparison.statements.iter();
        let ComparedCount { counter, server, sent_least, sent_most } =
            rows.max_by_key(|row| row.sent_least.saturating_sub(row.server).max(row.others()))?;
        let (bound, advice) = match server < sent_least {
            true => (
                format!("of which oltpbench sent at least {}", whole(*sent_least)),
                "a proxy answered from a cache or spread the statements over several servers, of which only one was asked; or statements were lost. Compare without the proxy",
            ),
            false => (
                format!("of which oltpbench sent at most {}", whole(*sent_most)),
                "another client uses the server, or its triggers and stored functions do: the figures were measured beside that load",
            ),
        };
        let (elapsed_s, server) = (self.elapsed_s, whole(*server));
        let message = format!("in {elapsed_s:.1} s the server counted {server} of {counter}, {bound}");
        Some(Finding::new("server-disagrees", message, advice))
    }
}

impl Digest {
    fn new(rise: &DigestRise) -> Digest {
        let DigestRise { text, count, total_s, longest_s, rows_examined } = rise.clone();
        Digest { text, count, total_s, longest_s, rows_examined }
    }
}

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Same,
    /// The counts fit, as many others would.
    TooFew,
    Differs,
}

impl Comparison {
    pub(super) fn verdict(&self) -> Verdict {
        match self.agrees {
            false => Verdict::Differs,
            true if self.uncertainty > TELLING_UNCERTAINTY => Verdict::TooFew,
            true => Verdict::Same,
        }
    }

    fn new(comparison: &server::Comparison) -> Comparison {
        let width: u64 = comparison.rows.iter().map(|row| row.most - row.least).max().unwrap_or(0);
        Comparison {
            agrees: comparison.agrees(),
            uncertainty: width as f64 / comparison.sent.max(1) as f64,
            statements: comparison.rows.iter().map(ComparedCount::new).collect(),
        }
    }

    fn agreement(&self, elapsed_s: f64) -> String {
        let counted = self.statements.iter().filter(|row| row.server > 0);
        let rates = counted.filter_map(|row| {
            let kind = row.counter.strip_prefix("Com_")?;
            Some(format!("{} {kind}s/s", grouped(row.server as f64 / elapsed_s, 0)))
        });
        let rates = rates.collect::<Vec<_>>().join(", ");
        // Rounded up, so that it promises nothing.
        let percent = (1e4 * self.uncertainty).ceil() / 1e2;
        let others = match self.statements.iter().map(ComparedCount::others).max() {
            None | Some(0) => String::new(),
            Some(others) => format!(", and {} statements of others", whole(others)),
        };
        format!("The server counted the same (within {percent} %): {rates}{others}")
    }
}

impl ComparedCount {
    fn new(row: &Compared) -> ComparedCount {
        ComparedCount { counter: row.counter.clone(), server: row.server, sent_least: row.least, sent_most: row.most }
    }

    fn others(&self) -> u64 {
        self.server.saturating_sub(self.sent_most)
    }
}

impl ServerStep {
    fn new(step: &Step) -> ServerStep {
        ServerStep {
            start_s: step.start_s,
            end_s: step.end_s,
            answer_s: step.answer_s,
            counters: step.counters.iter().map(|(name, rise)| (name.to_string(), *rise)).collect(),
        }
    }
}

fn whole(count: u64) -> String {
    grouped(count as f64, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::text::COLUMNS;

    fn server(rows: &[(&str, u64, u64, u64)]) -> Server {
        let row = |&(counter, server, least, most): &(&str, u64, u64, u64)| Compared {
            counter: counter.into(),
            server,
            least,
            most,
        };
        let rows: Vec<Compared> = rows.iter().map(row).collect();
        let sent = rows.iter().map(|row| row.most).max().unwrap();
        let comparison = server::Comparison { sent, rows };
        let (counters, series) = (BTreeMap::new(), Vec::new());
        let rises = Rises { elapsed_s: 10.0, counters, comparison: Ok(comparison), series, digests: Ok(Vec::new()) };
        Server::new(&Counters::Known(rises)).unwrap()
    }

    fn text(server: &Server) -> String {
        let mut text = String::new();
        server.text(&mut text).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        text
    }

    #[test]
    fn agreement_is_a_line_and_no_finding() {
        let agreed = server(&[
            ("Com_begin", 28_000, 27_990, 28_010),
            ("Com_commit", 28_000, 27_990, 28_010),
            ("Com_rollback", 0, 0, 8),
            ("Com_select", 400_012, 399_990, 400_010),
            ("Questions", 456_000, 455_900, 456_100),
        ]);
        insta::assert_snapshot!(text(&agreed));
        assert_eq!(agreed.finding(), None);
    }

    #[test]
    fn disagreement_is_a_table_and_a_finding_that_names_the_worst() {
        let busy = server(&[("Com_begin", 28_000, 27_990, 28_010), ("Com_select", 420_000, 399_990, 400_010)]);
        insta::assert_snapshot!(text(&busy));
        let finding = busy.finding().unwrap();
        assert_eq!(
            finding.message,
            "in 10.0 s the server counted 420,000 of Com_select, of which oltpbench sent at most 400,010"
        );
        assert!(finding.advice.starts_with("another client"), "{finding:?}");
        let halved = server(&[("Com_begin", 28_000, 27_990, 28_010), ("Com_select", 200_000, 399_990, 400_010)]);
        let finding = halved.finding().unwrap();
        assert!(finding.message.ends_with("at least 399,990") && finding.advice.starts_with("a proxy"), "{finding:?}");
    }

    #[test]
    fn counts_that_would_fit_many_others_are_shown_and_not_called_the_same() {
        let few = server(&[("Com_select", 12, 2, 28), ("Questions", 40, 30, 64)]);
        insta::assert_snapshot!(text(&few));
        assert_eq!(few.finding(), None);
        // A tenth is the most.
        let verdict = |least| server(&[("Com_select", 990, least, 1000)]).comparison.unwrap().verdict();
        assert_eq!((verdict(900), verdict(899)), (Verdict::Same, Verdict::TooFew));
        assert_eq!(server(&[("Com_select", 1, 2, 28)]).comparison.unwrap().verdict(), Verdict::Differs);
    }

    #[test]
    fn no_comparison_says_why() {
        let rises = Rises {
            elapsed_s: 10.0,
            counters: BTreeMap::new(),
            comparison: Err("the server has no counter Com_select".into()),
            series: Vec::new(),
            digests: Err("SELECT command denied".into()),
        };
        let server = Server::new(&Counters::Known(rises)).unwrap();
        assert!(text(&server).contains("cannot be held"), "{}", text(&server));
        assert_eq!(server.finding(), None);
    }
}
