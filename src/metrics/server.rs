//! What the server counted meanwhile: readings of its counters, their differences, and this program's count beside them.
//!
//! Between asking the server and its answer time passes in which statements go on. So what this program had sent is noted
//! before and after: the server's count was made in between. It also misses statements that were on their way, at most one
//! for each connection, and those that went down with a connection or were refused. From these follow the least and the
//! most that the server may have counted between two readings; see docs/server.md.
//!
//! Must not import anything of the crate but `metrics`.

use std::collections::BTreeMap;

/// Share of all statements that other clients may have sent without a word, since servers are watched.
const OTHERS_LIMIT: f64 = 0.001;
/// By how much a server's Uptime may rise beside the time between its readings: a second since it tells whole ones, and
/// one more and a share of the time for clocks that do not run alike.
const UPTIME_TOLERANCE_S: f64 = 2.0;
const UPTIME_TOLERANCE: f64 = 0.001;

/// What this program had sent at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Statements by the counter of the server that counts them.
    pub by_counter: BTreeMap<&'static str, u64>,
    pub statements: u64,
    /// Statements of the connection that reads the counters.
    pub own: u64,
    /// Those of `statements` that the server may not have counted: each that it refused, and one for each connection that
    /// broke.
    pub maybe_uncounted: u64,
    /// Attempts to connect again, which may send statements that are counted nowhere else.
    pub reconnects: u64,
}

/// The server's counters at one moment, by its own names.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Nanoseconds since the run's origin.
    pub asked_ns: u64,
    pub answered_ns: u64,
    /// Whole seconds since the server's start, if it tells.
    pub uptime_s: Option<u64>,
    pub counters: BTreeMap<String, u64>,
    /// Before the question and after the answer.
    pub sent: [Sent; 2],
}

/// How a server counts statements.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    /// The counter of all statements of clients.
    pub all: &'static str,
    /// The counter of executions that had to begin anew, and were counted twice by their kind.
    pub again: &'static str,
    /// Statements that may be on their way at once: one for each connection.
    pub in_flight: u64,
}

/// What the counters rose by.
#[derive(Clone, Debug, PartialEq)]
pub enum Counters {
    Known(Rises),
    /// They could not be read, for this reason.
    Unknown(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rises {
    /// Seconds between the readings.
    pub elapsed_s: f64,
    /// The counters that changed.
    pub counters: BTreeMap<String, u64>,
    /// Or why there is no comparison.
    pub comparison: Result<Comparison, String>,
    /// In between, if that was asked for.
    pub series: Vec<Step>,
    /// The shapes of statement that took the longest together, or why they are not known.
    pub digests: Result<Vec<DigestRise>, String>,
}

/// What was counted meanwhile of statements of one shape.
#[derive(Clone, Debug, PartialEq)]
pub struct DigestRise {
    pub text: String,
    pub count: u64,
    pub total_s: f64,
    /// `None` where an earlier one was longer than all of these.
    pub longest_s: Option<f64>,
    pub rows_examined: u64,
}

/// The part of the rises between two readings.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Seconds since the window's start.
    pub start_s: f64,
    pub end_s: f64,
    /// How long the server took for the reading at its end.
    pub answer_s: f64,
    pub counters: BTreeMap<&'static str, u64>,
}

/// What this program sent beside what the server counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    pub rows: Vec<Compared>,
    /// Statements sent, at most.
    pub sent: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    pub counter: String,
    pub server: u64,
    /// What the server may have counted of ours.
    pub least: u64,
    pub most: u64,
}

impl Compared {
    /// What the server counted beyond what can be ours.
    pub fn others(&self) -> u64 {
        self.server.saturating_sub(self.most)
    }

    /// What it did not count although it was sent.
    pub fn missing(&self) -> u64 {
        self.least.saturating_sub(self.server)
    }
}

impl Comparison {
    /// Whether the server counted what was sent, and hardly anything else.
    pub fn agrees(&self) -> bool {
        let tolerated = (OTHERS_LIMIT * self.sent as f64) as u64;
        self.rows.iter().all(|row| row.missing() == 0 && row.others() <= tolerated)
    }

    fn between(first: &Reading, last: &Reading, counting: &Counting) -> Result<Comparison, String> {
        let (start, end) = (&first.sent, &last.sent);
        let in_flight = counting.in_flight;
        let rise = |name: &str| {
            let before = first.counters.get(name).copied().unwrap_or(0);
            last.counters.get(name).map(|after| after.saturating_sub(before))
        };
        let row = |counter: &str, ours: &dyn Fn(&Sent) -> u64, more: u64| {
            let least = ours(&end[0]).saturating_sub(ours(&start[1]));
            Some(Compared {
                counter: counter.to_string(),
                server: rise(counter)?,
                least: least.saturating_sub(in_flight + end[1].maybe_uncounted - start[0].maybe_uncounted),
                most: ours(&end[1]) - ours(&start[0]) + in_flight + more,
            })
        };
        let again = rise(counting.again).unwrap_or(0);
        let mut rows = Vec::new();
        for &counter in end[1].by_counter.keys() {
            let compared = row(counter, &|sent| sent.by_counter.get(counter).copied().unwrap_or(0), again);
            rows.push(compared.ok_or_else(|| format!("the server has no counter {counter}"))?);
        }
        if start[0].reconnects == end[1].reconnects {
            // Connections that are done say goodbye, which counts as a statement.
            rows.extend(row(counting.all, &|sent| sent.statements + sent.own, in_flight));
        }
        Ok(Comparison { rows, sent: end[1].statements - start[0].statements })
    }
}

/// What rose by how much, or why the difference of two readings means nothing.
pub fn rises_between(before: &Reading, after: &Reading) -> Result<BTreeMap<String, u64>, String> {
    one_server(before, after)?;
    let mut rises = BTreeMap::new();
    for (name, &value) in &after.counters {
        // A counter that appears only once it counts was 0.
        match value.checked_sub(before.counters.get(name).copied().unwrap_or(0)) {
            Some(0) => {}
            Some(rise) => drop(rises.insert(name.clone(), rise)),
            None => {
                return Err(format!(
                    "{name} went back, so they were reset (FLUSH STATUS), or the server was restarted"
                ));
            }
        }
    }
    Ok(rises)
}

/// Refuses readings of two servers, as a name or a proxy may lead to, or of two lives of one. Their counters need not fall.
/// A server's Uptime rises as time does, and says of which server it is to a few seconds.
fn one_server(before: &Reading, after: &Reading) -> Result<(), String> {
    let Some((from_s, to_s)) = before.uptime_s.zip(after.uptime_s) else { return Ok(()) };
    let seconds = |from_ns: u64, to_ns: u64| to_ns.saturating_sub(from_ns) as f64 / 1e9;
    let (shortest_s, longest_s) =
        (seconds(before.answered_ns, after.asked_ns), seconds(before.asked_ns, after.answered_ns));
    let tolerated_s = UPTIME_TOLERANCE_S + UPTIME_TOLERANCE * longest_s;
    let risen_s = to_s as f64 - from_s as f64;
    if (shortest_s - tolerated_s..=longest_s + tolerated_s).contains(&risen_s) {
        return Ok(());
    }
    Err(format!(
        "in {longest_s:.1} s the server's Uptime went from {from_s} to {to_s} s, so it was restarted, or its clock was \
         set, or these are two servers to which one address leads"
    ))
}

impl Counters {
    /// `counting` is how the server counts statements, or why that says nothing of this run.
    pub fn between(first: &Reading, last: &Reading, counting: Result<Counting, String>) -> Counters {
        match rises_between(first, last) {
            Ok(counters) => Counters::Known(Rises {
                elapsed_s: last.answered_ns.saturating_sub(first.answered_ns) as f64 / 1e9,
                counters,
                comparison: counting.and_then(|counting| Comparison::between(first, last, &counting)),
                series: Vec::new(),
                digests: Ok(Vec::new()),
            }),
            Err(reason) => Counters::Unknown(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SELECT: &str = "Com_select";
    const COUNTING: Counting = Counting { all: "Questions", again: "Com_stmt_reprepare", in_flight: 4 };

    fn reading(counters: &[(&str, u64)]) -> Reading {
        let counters = counters.iter().map(|&(name, value)| (name.to_string(), value)).collect();
        Reading { asked_ns: 0, answered_ns: 0, uptime_s: None, counters, sent: Default::default() }
    }

    fn sent(selects: u64, lost: u64) -> Sent {
        let by_counter = [(SELECT, selects)].into();
        Sent { by_counter, statements: selects, own: 0, maybe_uncounted: lost, reconnects: lost }
    }

    fn compared(first: Reading, last: Reading) -> Comparison {
        match Counters::between(&first, &last, Ok(COUNTING)) {
            Counters::Known(rises) => rises.comparison.unwrap(),
            Counters::Unknown(reason) => panic!("{reason}"),
        }
    }

    #[test]
    fn only_what_rose_is_kept_and_a_restart_makes_it_unknown() {
        let before = reading(&[("Com_select", 5), ("Com_insert", 7), ("Bytes_sent", 10)]);
        let after = reading(&[("Com_select", 9), ("Com_insert", 7), ("Bytes_sent", 30), ("Com_begin", 2)]);
        let Counters::Known(rises) = Counters::between(&before, &after, Ok(COUNTING)) else { panic!("none went back") };
        let expected = [("Bytes_sent", 20), ("Com_begin", 2), ("Com_select", 4)];
        assert_eq!(rises.counters, expected.map(|(name, rise)| (name.to_string(), rise)).into());
        assert!(matches!(Counters::between(&after, &before, Ok(COUNTING)), Counters::Unknown(_)));
    }

    #[test]
    fn a_server_may_count_what_was_sent_while_it_was_asked_and_not_more() {
        let first = Reading { sent: [sent(100, 0), sent(110, 0)], ..reading(&[(SELECT, 1000)]) };
        let at = |server: u64| {
            let last = Reading { sent: [sent(5000, 0), sent(5020, 0)], ..reading(&[(SELECT, 1000 + server)]) };
            compared(first.clone(), last)
        };
        let Comparison { rows, sent } = at(4900);
        assert_eq!((rows[0].least, rows[0].most, sent), (5000 - 110 - 4, 5020 - 100 + 4, 4920));
        assert!(at(4886).agrees() && !at(4885).agrees());
        // A thousandth may be somebody else's.
        assert!(at(4924).agrees() && at(4928).agrees() && !at(4929).agrees());
        assert_eq!((at(4885).rows[0].missing(), at(4929).rows[0].others()), (1, 5));
    }

    #[test]
    fn a_lost_connection_may_cost_a_statement_and_hides_the_sum() {
        let first = Reading { sent: [sent(0, 0), sent(0, 0)], ..reading(&[(SELECT, 0), ("Questions", 0)]) };
        let counters = [(SELECT, 93), ("Questions", 96), ("Com_stmt_reprepare", 2)];
        let last = Reading { sent: [sent(100, 3), sent(100, 3)], ..reading(&counters) };
        let rows = compared(first, last).rows;
        assert_eq!(rows, [Compared { counter: SELECT.into(), server: 93, least: 93, most: 106 }]);
    }

    #[test]
    fn statements_that_were_refused_may_be_missing_and_no_more() {
        let refused = |statements| Sent { reconnects: 0, ..sent(statements, statements / 10) };
        let first = Reading { sent: [refused(0), refused(0)], ..reading(&[(SELECT, 0), ("Questions", 0)]) };
        let at = |selects: u64| {
            let counters = [(SELECT, selects), ("Questions", 1000)];
            compared(first.clone(), Reading { sent: [refused(1000), refused(1000)], ..reading(&counters) })
        };
        assert!(at(900).agrees() && at(896).agrees() && !at(895).agrees());
    }

    #[test]
    fn the_readers_own_statements_are_not_somebody_elses_however_many_they_are() {
        // Few statements of the run, and a hundred readings in between.
        let with_own = |own| Sent { own, ..sent(20, 0) };
        let at = |own, questions| Reading {
            sent: [with_own(own), with_own(own)],
            ..reading(&[(SELECT, 20), ("Questions", questions)])
        };
        let comparison = compared(at(1, 21), at(101, 121));
        assert!(comparison.agrees(), "{comparison:?}");
        // Beside them may be what is on its way, and the goodbyes of connections.
        assert!(compared(at(1, 21), at(101, 129)).agrees());
        assert!(!compared(at(1, 21), at(101, 130)).agrees());
    }

    #[test]
    fn readings_of_two_servers_or_of_two_lives_of_one_are_no_rise() {
        let at = |time_s: f64, uptime_s: Option<u64>, selects: u64| Reading {
            asked_ns: (time_s * 1e9) as u64,
            answered_ns: ((time_s + 0.5) * 1e9) as u64,
            uptime_s,
            ..reading(&[(SELECT, selects)])
        };
        let rises = |after: Reading| rises_between(&at(1.0, Some(5000), 10), &after);
        // 10 s later, of which one is the answers'.
        for uptime_s in [Some(5008), Some(5010), Some(5012), None] {
            assert_eq!(rises(at(11.0, uptime_s, 30)), Ok([(SELECT.to_string(), 20)].into()), "{uptime_s:?}");
        }
        for uptime_s in [0, 4, 4990, 5007, 5013, 7000, u64::MAX] {
            let reason = rises(at(11.0, Some(uptime_s), 30)).unwrap_err();
            let expected = format!("in 10.5 s the server's Uptime went from 5000 to {uptime_s} s, so it was restarted");
            assert!(reason.starts_with(&expected), "{reason}");
        }
        // Clocks differ by more in an hour.
        assert!(rises(at(3601.0, Some(8605), 30)).is_ok() && rises(at(3601.0, Some(8607), 30)).is_err());
        assert!(matches!(
            Counters::between(&at(1.0, Some(5000), 10), &at(11.0, Some(3), 30), Ok(COUNTING)),
            Counters::Unknown(_)
        ));
    }

    #[test]
    fn a_server_without_such_a_counter_is_not_compared() {
        let reading = Reading { sent: [sent(0, 0), sent(1, 0)], ..reading(&[("Uptime", 1)]) };
        let Counters::Known(rises) = Counters::between(&reading, &reading, Ok(COUNTING)) else { panic!() };
        assert_eq!(rises.comparison, Err("the server has no counter Com_select".into()));
    }

    proptest! {
        /// Connections send, the server counts a little later or never, and somewhere in between both are read.
        #[test]
        fn a_server_that_counts_only_ours_is_never_accused(
            events in proptest::collection::vec((0usize..4, 0u8..10), 8..200),
            cuts in proptest::array::uniform6(0usize..200),
        ) {
            let mut cuts = cuts.map(|cut| cut % events.len());
            cuts.sort();
            let (mut ours, mut server) = (sent(0, 0), 0);
            let mut on_its_way = [false; 4];
            let mut noted = Vec::new();
            for (index, &(connection, chance)) in events.iter().enumerate() {
                for _ in cuts.iter().filter(|&&cut| cut == index) {
                    noted.push((ours.clone(), server));
                }
                on_its_way[connection] = !on_its_way[connection];
                if !on_its_way[connection] {
                    // One in ten goes down with its connection, or is refused.
                    if chance == 0 { ours.maybe_uncounted += 1 } else { server += 1 }
                } else {
                    ours.statements += 1;
                    *ours.by_counter.get_mut(SELECT).unwrap() += 1;
                }
            }
            let reading = |at: usize| Reading {
                sent: [noted[at].0.clone(), noted[at + 2].0.clone()],
                ..reading(&[(SELECT, noted[at + 1].1)])
            };
            let rows = compared(reading(0), reading(3)).rows;
            prop_assert!(rows[0].missing() == 0 && rows[0].others() == 0, "{:?}", rows);
        }
    }
}
