//! A run held against a published figure: their ratios, and every difference of set-up that is found.
//!
//! Invariants: only figures of the same meaning are divided, and by which rule is said; those of transactions only where a
//! transaction is as many requests on both sides. Nothing is called better, worse or
//! significant: a published figure comes without its error, and from a set-up that is never quite the same.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

use std::fmt::Write;

use crate::published::text::wrapped;
use crate::published::{Meaning, Publication, Run, Setup, Stated};
use crate::report::figures::grouped;
use crate::report::text::printable;
use crate::report::{RunReport, Statement, Status};

#[derive(Debug, thiserror::Error)]
pub enum AgainstPublishedError {
    #[error(
        "{name} has {columns}, which no run of oltpbench measures; `oltpbench published show {name}` says what it is"
    )]
    NothingInCommon { name: String, columns: String },
}

/// What there is to say of `report`, which was read from `file`, beside a published run.
pub fn text(
    file: &str,
    report: &RunReport,
    publication: &Publication,
    run: &Run,
) -> Result<String, AgainstPublishedError> {
    let pairs = pairs(report, publication, run);
    if pairs.is_empty() {
        let columns: Vec<&str> = run.values.keys().map(String::as_str).collect();
        return Err(AgainstPublishedError::NothingInCommon {
            name: publication.full_name(run),
            columns: columns.join(", "),
        });
    }
    let mut out = String::new();
    wrapped(&mut out, "", &format!("{} against {}", printable(file), publication.full_name(run)));
    let source = &publication.source;
    wrapped(&mut out, "    ", &source.cited());
    wrapped(&mut out, "    ", &source.address.to_string());
    out.push('\n');
    ratios(&mut out, &pairs, unlike_transactions(report, publication, run));
    out.push_str("\nRules:\n");
    for pair in &pairs {
        wrapped(&mut out, &format!("    {:<10} ", pair.figure), &format!("{}: {}", pair.column, pair.rule));
    }
    for_clients_only(&mut out, publication, run);
    state(&mut out, report);
    set_ups(&mut out, report, &run.setup);
    Ok(out)
}

/// A figure of the run beside the published one of the same meaning.
struct Pair<'a> {
    figure: &'static str,
    /// `None` where the run has none, such as no latency without a transaction.
    measured: Option<f64>,
    published: &'a crate::published::Figure,
    column: &'a str,
    rule: &'static str,
    /// Whether it counts or times transactions, and not statements.
    of_transactions: bool,
}

fn pairs<'a>(report: &RunReport, publication: &'a Publication, run: &'a Run) -> Vec<Pair<'a>> {
    let pair = |column: &'a crate::published::Column| {
        let published = run.values.get(&column.name)?;
        let (figure, rule) = counterpart(column.meaning)?;
        let of_transactions = match column.meaning {
            Meaning::Transactions
            | Meaning::TransactionMinMs
            | Meaning::TransactionMeanMs
            | Meaning::TransactionP95Ms
            | Meaning::TransactionMaxMs => true,
            Meaning::Sysbench05Requests
            | Meaning::Sysbench10Queries
            | Meaning::DataStatements
            | Meaning::AllStatements
            | Meaning::ReadStatements
            | Meaning::WriteStatements
            | Meaning::NoCounterpart => false,
        };
        let (measured, column) = (measured(report, column.meaning), column.name.as_str());
        Some(Pair { figure, measured, published, column, rule, of_transactions })
    };
    publication.columns.iter().filter_map(pair).collect()
}

/// The figure of oltpbench that counts or times the same, and why.
fn counterpart(meaning: Meaning) -> Option<(&'static str, &'static str)> {
    Some(match meaning {
        Meaning::Transactions => ("tps", "transactions that committed"),
        Meaning::Sysbench05Requests => (
            "rps",
            "the read/write requests of sysbench 0.5 are reads and writes, without BEGIN and COMMIT, as rps are",
        ),
        Meaning::Sysbench10Queries => {
            ("qps", "the queries of sysbench 1.0 are reads, writes, BEGIN and COMMIT, as those of qps are")
        }
        Meaning::DataStatements => ("rps", "statements without BEGIN and COMMIT are reads and writes, as rps are"),
        Meaning::AllStatements => ("qps", "statements with BEGIN and COMMIT, as those of qps are"),
        Meaning::ReadStatements => ("reads/s", "the reads of rps"),
        Meaning::WriteStatements => ("writes/s", "the writes of rps: INSERT, UPDATE and DELETE, without COMMIT"),
        Meaning::TransactionMinMs => ("min ms", "of a transaction; lower the longer a run is"),
        Meaning::TransactionMeanMs => ("mean ms", "of a transaction, BEGIN and COMMIT included"),
        Meaning::TransactionP95Ms => ("p95 ms", "of a transaction, BEGIN and COMMIT included"),
        Meaning::TransactionMaxMs => ("max ms", "of a transaction; higher the longer a run is"),
        Meaning::NoCounterpart => return None,
    })
}

fn measured(report: &RunReport, meaning: Meaning) -> Option<f64> {
    let (totals, response) = (&report.totals, &report.latency_us.response);
    let a_second = |count: u64| if totals.elapsed_s > 0.0 { count as f64 / totals.elapsed_s } else { 0.0 };
    let figure = match meaning {
        Meaning::Transactions => totals.tps,
        Meaning::Sysbench05Requests | Meaning::DataStatements => totals.rps,
        Meaning::Sysbench10Queries | Meaning::AllStatements => totals.qps,
        Meaning::ReadStatements => a_second(totals.counts.reads),
        Meaning::WriteStatements => a_second(totals.counts.writes),
        Meaning::TransactionMinMs => response.min / 1e3,
        Meaning::TransactionMeanMs => response.mean / 1e3,
        Meaning::TransactionP95Ms => response.p95 / 1e3,
        Meaning::TransactionMaxMs => response.max / 1e3,
        Meaning::NoCounterpart => return None,
    };
    Some(figure).filter(|figure| *figure > 0.0)
}

/// Requests of a transaction here and there, where they are known and not as many. What retries and their pieces add to a
/// count, and the rounding of printed rates, is far below the one request that transactions of different work differ by.
fn unlike_transactions(report: &RunReport, publication: &Publication, run: &Run) -> Option<[f64; 2]> {
    let counts = &report.totals.counts;
    let here = (counts.transactions > 0).then(|| counts.read_write_requests as f64 / counts.transactions as f64)?;
    let there = run.setup.statements.get().map(|statements| requests_in(statements));
    let there = there.or_else(|| {
        let value = |of: &[Meaning]| {
            let column = publication.columns.iter().find(|column| of.contains(&column.meaning))?;
            run.values.get(&column.name)?.value().filter(|value| *value > 0.0)
        };
        Some(value(&[Meaning::Sysbench05Requests, Meaning::DataStatements])? / value(&[Meaning::Transactions])?)
    })?;
    ((here / there - 1.0).abs() > 0.02).then_some([here, there])
}

/// How many requests `BEGIN, 10 point_select, COMMIT` has.
fn requests_in(statements: &str) -> f64 {
    let count = |statement: &str| statement.split_once(' ').and_then(|(count, _)| count.parse::<f64>().ok());
    statements.split(", ").filter_map(count).sum()
}

fn ratios(out: &mut String, pairs: &[Pair], unlike: Option<[f64; 2]>) {
    let _ = writeln!(out, "    {:<10} {:>18} {:>18} {:>12}", "", "this run", "published", "ratio");
    for pair in pairs {
        let ratio = pair.measured.zip(pair.published.value()).filter(|(_, published)| *published > 0.0);
        let ratio = ratio.filter(|_| unlike.is_none() || !pair.of_transactions);
        let _ = writeln!(
            out,
            "    {:<10} {:>18} {:>18} {:>12}",
            pair.figure,
            pair.measured.map_or("none".into(), |measured| grouped(measured, 2)),
            pair.published.grouped(),
            ratio.map_or("-".into(), |(measured, published)| significant(measured / published)),
        );
    }
    out.push('\n');
    if let Some([here, there]) = unlike {
        let names = pairs.iter().filter(|pair| pair.of_transactions).map(|pair| pair.figure).collect::<Vec<_>>();
        if !names.is_empty() {
            let [here, there] = [here, there].map(|requests| format!("{requests:.1}").replace(".0", ""));
            let text = format!(
                "{}: no ratio, since the transactions are unlike: one is {here} requests here and {there} in the \
                 published run.",
                names.join(", ")
            );
            wrapped(out, "    ", &text);
            out.push('\n');
        }
    }
    wrapped(
        out,
        "    ",
        "A ratio is no verdict: the published figure comes without its error, and from another set-up.",
    );
}

/// Three digits that mean something.
fn significant(ratio: f64) -> String {
    let decimals = (2.0 - ratio.log10().floor()).clamp(0.0, 9.0) as usize;
    grouped(ratio, decimals)
}

/// Percentiles and means of several clients cannot be put together, so there is nothing to divide by.
fn for_clients_only(out: &mut String, publication: &Publication, run: &Run) {
    let has = |name: &String| run.by_client.iter().any(|client| client.contains_key(name));
    let columns = publication.columns.iter().filter(|column| counterpart(column.meaning).is_some());
    let columns: Vec<&str> = columns
        .filter(|column| has(&column.name) && !run.values.contains_key(&column.name))
        .map(|column| column.name.as_str())
        .collect();
    if !columns.is_empty() {
        let text = format!("{}: published for each client only, which cannot be put together", columns.join(", "));
        wrapped(out, &format!("    {:<10} ", "-"), &text);
    }
}

/// What a reader must know of the run itself.
fn state(out: &mut String, report: &RunReport) {
    let ended = match report.status {
        Status::Completed => None,
        Status::Interrupted => Some("interrupted"),
        Status::TooManyErrors => Some("ended early by errors"),
        Status::ServerLost => Some("ended early without a server"),
    };
    let mut codes: Vec<&str> = report.findings.iter().map(|finding| finding.code.as_str()).collect();
    codes.dedup();
    let found = (!codes.is_empty()).then(|| format!("findings: {} (docs/findings.md)", codes.join(", ")));
    let said: Vec<String> = ended.map(String::from).into_iter().chain(found).collect();
    if !said.is_empty() {
        out.push('\n');
        wrapped(out, "This run: ", &printable(&said.join("; ")));
    }
}

/// One point of the set-up, as the report and the source tell of it; `None` is what they do not tell.
struct Point {
    label: &'static str,
    here: Option<String>,
    published: Option<String>,
}

fn set_ups(out: &mut String, report: &RunReport, setup: &Setup) {
    let points = points(report, setup);
    let is_known = |point: &&Point| point.here.is_some() && point.published.is_some();
    let (known, unknown): (Vec<&Point>, Vec<&Point>) = points.iter().partition(is_known);
    let (alike, different): (Vec<&Point>, Vec<&Point>) =
        known.into_iter().partition(|point| point.here == point.published);
    for (heading, points) in [("Different set-up", different), ("Known of one side only", unknown)] {
        if points.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{heading}:");
        for point in points {
            let here = point.here.as_deref().unwrap_or("not in the report");
            let published = point.published.as_deref().unwrap_or("not stated");
            wrapped(out, &format!("    {:<18} ", point.label), &printable(&format!("{here}; published: {published}")));
        }
    }
    if !alike.is_empty() {
        let alike: Vec<String> = alike
            .iter()
            .map(|point| format!("{} ({})", point.label, point.here.as_deref().unwrap_or_default()))
            .collect();
        out.push_str("\nAlike:\n");
        wrapped(out, "    ", &printable(&alike.join("; ")));
    }
}

fn points(report: &RunReport, setup: &Setup) -> Vec<Point> {
    let spec = &report.spec;
    let option = |name: &str| spec.options.iter().find(|option| option.name == name).map(|option| option.value.clone());
    let stated = |text: &Stated<String>| text.get().cloned();
    let number = |number: &Stated<u64>| number.get().map(u64::to_string);
    let connections = setup.clients.get().zip(setup.threads.get()).map(|(clients, threads)| clients * threads);
    let pool = report.target.variables.get("innodb_buffer_pool_size");
    let pacing = match &report.open_loop {
        None => "closed loop".to_string(),
        Some(open_loop) => format!("open loop, {} tps asked for", grouped(open_loop.asked_tps, 0)),
    };
    let point = |label, here: Option<String>, published: Option<String>| Point { label, here, published };
    let mut points = vec![
        point("tool", Some(format!("oltpbench {}", report.oltpbench_version)), stated(&setup.tool)),
        point("server", Some(report.target.version.clone()), stated(&setup.server)),
        point("server's machine", None, stated(&setup.server_machine)),
        point("server's settings", None, stated(&setup.server_settings)),
        point("buffer pool (B)", pool.cloned(), None),
        point("path", None, stated(&setup.path)),
        point("encryption", Some(report.encryption.clone().unwrap_or("none".into())), stated(&setup.encryption)),
        point("client's machine", None, stated(&setup.client_machine)),
        point("client's vCPUs", Some(report.client.cores.to_string()), number(&setup.client_vcpus)),
        point("client's place", None, stated(&setup.client_place)),
        point("clients", Some("1".into()), number(&setup.clients)),
        point("threads a client", Some(spec.threads.to_string()), number(&setup.threads)),
        point("threads in all", Some(spec.threads.to_string()), connections.map(|all| all.to_string())),
        point("pacing", Some(pacing), stated(&setup.pacing)),
        point("protocol", Some(spec.protocol.clone()), stated(&setup.protocol)),
        point("statements", statements(report), stated(&setup.statements)),
        point("tables", option("tables"), number(&setup.tables)),
        point("table size", option("table_size"), number(&setup.table_size)),
        point("table drawn", table_drawn(report), stated(&setup.table_drawn)),
        point("random ids", Some(spec.rand_type.clone()), stated(&setup.rand_type)),
        point("duration (s)", Some(seconds(report.totals.elapsed_s)), number(&setup.time_s)),
        point("warm-up (s)", Some(seconds(spec.warmup_time_s)), number(&setup.warmup_s)),
    ];
    if setup.statements == Stated::Not {
        points.push(point("workload", None, stated(&setup.workload)));
    }
    if let Some(compression) = &report.target.compression {
        points.push(point("compression", Some(compression.clone()), None));
    }
    if !report.target.init_sql.is_empty() {
        points.push(point("--init-sql", Some(report.target.init_sql.join("; ")), None));
    }
    points.retain(|point| point.here.is_some() || point.published.is_some());
    points
}

/// Whole seconds without decimals.
fn seconds(seconds: f64) -> String {
    format!("{seconds:.1}").trim_end_matches(".0").to_string()
}

/// The statements of one transaction, in the form that [`Setup`] has.
fn statements(report: &RunReport) -> Option<String> {
    let transactions = report.totals.counts.transactions as f64;
    if transactions == 0.0 {
        return None;
    }
    let each = |statement: &Statement| {
        let count = statement.latency_us.count as f64 / transactions;
        // Attempts that failed sent some of theirs too.
        let shown = if (count - count.round()).abs() < 0.1 { count.round().to_string() } else { format!("{count:.1}") };
        (shown != "0").then(|| format!("{shown} {}", statement.name))
    };
    let of_data = report.statements.iter().filter(|statement| statement.kind != "other").filter_map(each);
    let around = |name: &str| {
        let is_sent =
            report.statements.iter().any(|statement| statement.name == name && statement.latency_us.count > 0);
        is_sent.then(|| name.to_string())
    };
    let all: Vec<String> = around("BEGIN").into_iter().chain(of_data).chain(around("COMMIT")).collect();
    Some(all.join(", "))
}

/// How often a transaction draws its table: with one kind of statement, `one_table` changes nothing.
fn table_drawn(report: &RunReport) -> Option<String> {
    let kinds =
        report.statements.iter().filter(|statement| statement.kind != "other" && statement.latency_us.count > 0);
    let counts: Vec<u64> = kinds.map(|statement| statement.latency_us.count).collect();
    let one_table =
        report.spec.options.iter().find(|option| option.name == "one_table").map(|option| option.value == "on");
    let is_once = match (one_table, counts.as_slice()) {
        (Some(true), _) | (Some(false), [_]) => true,
        (Some(false), _) => false,
        (None, [count]) => *count == report.totals.counts.transactions,
        (None, _) => return None,
    };
    Some(if is_once { "once a transaction" } else { "once a kind of statement" }.into())
}
