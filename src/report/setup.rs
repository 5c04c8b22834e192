//! How a run was set up, as names and values for the views, and what differs between the set-ups of several runs.
//!
//! Values are as the user or the server gave them: each view makes them harmless in its own way.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

use serde::{Deserialize, Serialize};

use super::{AskedOpenLoop, RunReport, Spec, WorkloadOption};

/// A name and its value.
pub type Row = (String, String);

fn row(name: &str, value: impl ToString) -> Row {
    (name.to_string(), value.to_string())
}

/// What a reader of the figures asks first.
pub fn first(report: &RunReport) -> Vec<Row> {
    let (spec, target) = (&report.spec, &report.target);
    let mut rows: Vec<Row> = report.name.iter().map(|name| row("name", name)).collect();
    if !report.tags.is_empty() {
        rows.push(row("tags", report.tags_in_words()));
    }
    rows.extend([row("target", &target.url), row("server", &target.version), row("workload", &spec.workload)]);
    if let Some(profile) = &spec.profile {
        rows.push(row("profile", &profile.name));
        rows.extend(profile.changed.iter().map(|change| {
            let text = format!("{} is {} (profile: {})", change.option, change.value, change.profile_value);
            row("  changed", text)
        }));
    }
    // What was changed of a profile has been said.
    let changed =
        |name: &str| spec.profile.iter().flat_map(|profile| &profile.changed).any(|change| change.option == name);
    let told = |option: &WorkloadOption| !option.of_prepare_only && changed(&option.name);
    let given = |of_prepare_only| {
        options(spec, |option| is_given(option) && option.of_prepare_only == of_prepare_only && !told(option))
    };
    rows.extend(given(false).map(|options| row("options given", options)));
    rows.extend(given(true).map(|options| row("given, but for prepare only", options)));
    rows.push(row("threads", spec.threads));
    if spec.warmup_time_s > 0.0 {
        rows.push(row("warm-up", format!("{} s", spec.warmup_time_s)));
    }
    rows.push(row("statements", &spec.protocol));
    rows.extend(report.encryption.iter().map(|encryption| row("encryption", encryption)));
    rows.extend(target.compression.iter().map(|algorithm| row("compression", algorithm)));
    if target.password_command {
        rows.push(row("password", "by --password-command"));
    }
    rows.extend(target.init_sql.iter().map(|sql| row("connections begin with", sql)));
    rows.push(row("ids, seed", format!("{}, {}", spec.rand_type, spec.rand_seed)));
    rows
}

/// All the rest, but for the server's variables.
pub fn rest(report: &RunReport) -> Vec<Row> {
    let (spec, client) = (&report.spec, &report.client);
    let mut rows =
        vec![row("started", &report.started_at), row("measured for", format!("{} s", report.totals.elapsed_s))];
    rows.extend(report.cell.iter().flat_map(|cell| {
        [row("name of the target", &cell.target), row("block", cell.block), row("place in the order", cell.order)]
    }));
    rows.extend(spec.workload_sha256.iter().map(|sha256| row("SHA-256 of the workload", sha256)));
    rows.extend(options(spec, |option| !is_given(option)).map(|options| row("other options", options)));
    rows.extend(spec.time_s.map(|seconds| row("time asked for", format!("{seconds} s"))));
    rows.extend(spec.events.map(|events| row("events asked for", events)));
    match &spec.open_loop {
        Some(asked) => rows.extend(open_loop(asked)),
        None => rows.push(row("load", "closed loop: each thread sends its next transaction when one has ended")),
    }
    rows.push(row("interval", format!("{} s", spec.interval_s)));
    rows.extend(spec.rand_parameters.of(&spec.rand_type).map(|parameters| row("parameters of the ids", parameters)));
    rows.push(row("retries at most", spec.max_retries));
    if !spec.ignore_errors.is_empty() {
        rows.push(row("errors ignored", &spec.ignore_errors));
    }
    rows.push(row("failed transactions allowed", format!("{} %", 100.0 * spec.max_error_rate)));
    rows.push(row("timed", if spec.detail { "statements and transactions" } else { "transactions" }));
    rows.push(row("wait after the window at most", format!("{} s", spec.forced_shutdown_s)));
    rows.extend(report.target.statement_timeout_s.map(|seconds| row("statement timeout", format!("{seconds} s"))));
    rows.push(row("client", format!("{}, {} cores, {}", client.host, client.cores, client.kernel)));
    rows.push(row("oltpbench", &report.oltpbench_version));
    rows
}

/// The variables that the server was asked for.
pub fn variables(report: &RunReport) -> Vec<Row> {
    report.target.variables.iter().map(|(name, value)| row(name, value)).collect()
}

fn is_given(option: &WorkloadOption) -> bool {
    option.source == "command line"
}

fn options(spec: &Spec, which: impl Fn(&WorkloadOption) -> bool) -> Option<String> {
    let options = spec.options.iter().filter(|option| which(option));
    let options: Vec<String> = options.map(|option| format!("{}={}", option.name, option.value)).collect();
    (!options.is_empty()).then(|| options.join(", "))
}

fn open_loop(asked: &AskedOpenLoop) -> Vec<Row> {
    let steps = asked.steps.iter().map(|step| format!("{} per s from {} s", step.rate, step.start_s));
    let mut rows = vec![
        row("load", format!("open loop, {} arrivals", asked.arrival)),
        row("rate", steps.collect::<Vec<_>>().join(", ")),
    ];
    rows.extend(asked.max_lateness_s.map(|seconds| row("skipped if later than", format!("{seconds} s"))));
    rows
}

/// What runs of a sweep have otherwise than each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Varied {
    Threads,
    Rate,
}

impl Varied {
    pub fn name(self) -> &'static str {
        match self {
            Varied::Threads => "threads",
            Varied::Rate => "rate",
        }
    }

    /// A run of a closed loop has no place among rates.
    pub fn value(self, report: &RunReport) -> Option<f64> {
        match self {
            Varied::Threads => Some(f64::from(report.spec.threads)),
            Varied::Rate => rate(report),
        }
    }

    /// All that was asked for but the seed and what is varied: runs in which it is the same are of one sweep.
    pub fn set_up_but_for(self, report: &RunReport) -> String {
        let mut spec = report.spec.clone();
        spec.rand_seed = 0;
        match (self, &mut spec.open_loop) {
            (Varied::Threads, _) => spec.threads = 0,
            (Varied::Rate, Some(open_loop)) => open_loop.steps.clear(),
            (Varied::Rate, None) => {}
        }
        format!("{:?}{spec:?}{:?}", report.cell.as_ref().map(|cell| &cell.target), report.target)
    }
}

/// What was asked of an open loop whose rate is the same all the time.
pub fn rate(report: &RunReport) -> Option<f64> {
    match report.spec.open_loop.as_ref()?.steps.as_slice() {
        [step] => Some(step.rate),
        _ => None,
    }
}

/// What several runs have in common, and the names of what they have not, each with a value for each run, empty where
/// a run has none.
#[derive(Debug, PartialEq)]
pub struct Compared {
    pub shared: Vec<Row>,
    pub differing: Vec<(String, Vec<String>)>,
}

/// Names come in the order in which the runs bring them; values of a name that a run has more than once are joined.
pub fn compare(runs: &[Vec<Row>]) -> Compared {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in runs.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut compared = Compared { shared: Vec::new(), differing: Vec::new() };
    for name in names {
        let value = |rows: &Vec<Row>| {
            let values = rows.iter().filter(|row| row.0 == name).map(|row| row.1.as_str());
            values.collect::<Vec<_>>().join("; ")
        };
        let values: Vec<String> = runs.iter().map(value).collect();
        match values.iter().all(|value| *value == values[0]) {
            true => compared.shared.push(row(name, &values[0])),
            false => compared.differing.push((name.to_string(), values)),
        }
    }
    compared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn an_option_that_was_changed_of_a_profile_is_said_once() {
        let mut report = example::report();
        let value_of = |report: &RunReport, name: &str| {
            let of_name = first(report).into_iter().filter(|row| row.0 == name);
            of_name.map(|row| row.1).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(value_of(&report, "options given"), "point_selects=10");
        let changed = &mut report.spec.profile.as_mut().unwrap().changed;
        changed.push(crate::report::ProfileChange {
            option: "point_selects".into(),
            value: "10".into(),
            profile_value: "5".into(),
        });
        assert_eq!(value_of(&report, "options given"), "");
        assert!(value_of(&report, "  changed").ends_with("; point_selects is 10 (profile: 5)"));
    }

    #[test]
    fn what_runs_share_is_said_once_and_what_differs_of_each() {
        let one = example::report();
        let mut other = one.clone();
        other.spec.threads = 128;
        other.target.init_sql = vec!["SET a = 1".into(), "SET b = 2".into()];
        let compared = compare(&[first(&one), first(&other)]);
        let differing = |name: &str, values: [&str; 2]| (name.to_string(), values.map(String::from).to_vec());
        assert_eq!(
            compared.differing,
            [differing("threads", ["64", "128"]), differing("connections begin with", ["", "SET a = 1; SET b = 2"])]
        );
        assert_eq!(compared.shared.len(), first(&one).len() - 1);
        assert_eq!(compare(&[]), Compared { shared: vec![], differing: vec![] });
    }
}
