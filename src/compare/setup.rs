//! Whether runs may be compared: what makes their figures different beside what is compared.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::report::{AskedOpenLoop, RunReport, Spec};

/// Something that is not the same in all runs of two sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    pub what: String,
    /// All values that the side's runs have.
    pub baseline: Vec<String>,
    pub side: String,
    pub other: Vec<String>,
}

impl Difference {
    /// Such as `threads: 8, and 16 in b`.
    pub fn words(&self) -> String {
        format!("{}: {}, and {} in {}", self.what, self.baseline.join(" or "), self.other.join(" or "), self.side)
    }
}

type Property = (String, String);

/// Another text of a workload of the same name, and what is to be said where some runs do not tell theirs.
pub(super) fn workload_texts(
    baseline: &[&RunReport],
    side: &str,
    other: &[&RunReport],
) -> (Option<Difference>, Option<String>) {
    let both = || baseline.iter().chain(other).map(|run| &run.spec);
    let names: BTreeSet<&str> = both().map(|spec| spec.workload.as_str()).collect();
    // That other workloads have other texts goes without saying.
    if names.len() > 1 {
        return (None, None);
    }
    let texts = |runs: &[&RunReport]| {
        let texts: BTreeSet<String> = runs.iter().filter_map(|run| run.spec.workload_sha256.clone()).collect();
        texts
    };
    let (of_baseline, of_other) = (texts(baseline), texts(other));
    let difference = (of_baseline.union(&of_other).count() > 1).then(|| Difference {
        what: "the workload file was changed, SHA-256".into(),
        baseline: of_baseline.into_iter().collect(),
        side: side.into(),
        other: of_other.into_iter().collect(),
    });
    let untold = both().filter(|spec| spec.workload_sha256.is_none()).count();
    let warning = (untold > 0).then(|| {
        format!(
            "{untold} of {} runs are from before reports noted their workload's text, so that of {} may have been another one.",
            both().count(),
            names.into_iter().collect::<String>()
        )
    });
    (difference, warning)
}

/// What two sides' runs have otherwise, of the properties that `of` gives.
pub(super) fn differences<'a>(
    baseline: &[&'a RunReport],
    side: &str,
    other: &[&'a RunReport],
    of: fn(&RunReport) -> Vec<Property>,
) -> Vec<Difference> {
    let properties = |runs: &[&RunReport]| runs.iter().map(|run| of(run)).collect::<Vec<_>>();
    let (first, second) = (properties(baseline), properties(other));
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in first.iter().chain(&second).flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let values = |runs: &[Vec<Property>], name: &str| {
        let value =
            |run: &Vec<Property>| run.iter().find(|property| property.0 == name).map(|property| property.1.clone());
        let values: BTreeSet<String> = runs.iter().map(|run| value(run).unwrap_or_else(|| "none".into())).collect();
        values
    };
    let differing = names.into_iter().filter_map(|name| {
        let (baseline, other) = (values(&first, name), values(&second, name));
        (baseline.union(&other).count() > 1).then(|| Difference {
            what: name.clone(),
            baseline: baseline.into_iter().collect(),
            side: side.into(),
            other: other.into_iter().collect(),
        })
    });
    differing.collect()
}

/// What must be the same for figures to be of the same thing.
pub(super) fn of_load(run: &RunReport) -> Vec<Property> {
    let spec = &run.spec;
    let limit = |value: Option<String>| value.unwrap_or_else(|| "no limit".into());
    let mut properties: Vec<Property> = vec![
        ("workload".into(), spec.workload.clone()),
        ("threads".into(), spec.threads.to_string()),
        ("rate".into(), spec.open_loop.as_ref().map_or("closed loop".into(), AskedOpenLoop::rates_in_words)),
        ("time (s)".into(), limit(spec.time_s.map(|time_s| time_s.to_string()))),
        ("events".into(), limit(spec.events.map(|events| events.to_string()))),
        ("warm-up (s)".into(), spec.warmup_time_s.to_string()),
        ("statements".into(), spec.protocol.clone()),
        ("ids".into(), distribution(spec)),
        ("most retries".into(), spec.max_retries.to_string()),
        ("ignored errors".into(), spec.ignore_errors.clone()),
        ("timed".into(), if spec.detail { "statements" } else { "transactions" }.into()),
        ("validation".into(), if run.validation.is_some() { "on" } else { "off" }.into()),
    ];
    if let Some(open_loop) = &spec.open_loop {
        properties.push(("arrivals".into(), open_loop.arrival.clone()));
        properties.push(("overload".into(), open_loop.overload.clone()));
        properties.push(("most lateness (s)".into(), limit(open_loop.max_lateness_s.map(|most| most.to_string()))));
    }
    let options = spec.options.iter().filter(|option| !option.of_prepare_only);
    properties.extend(options.map(|option| (format!("option {}", option.name), option.value.clone())));
    properties
}

/// A distribution with the parameters that it has.
fn distribution(spec: &Spec) -> String {
    let parameters = spec.rand_parameters.of(&spec.rand_type).map(|parameters| format!(" ({parameters})"));
    spec.rand_type.clone() + &parameters.unwrap_or_default()
}

/// What may well be what is compared, or explain what is found: the server, the way to it, and the client.
pub(super) fn of_surroundings(run: &RunReport) -> Vec<Property> {
    let (target, client) = (&run.target, &run.client);
    let none = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".into());
    let timeout = target.statement_timeout_s.map_or("none".into(), |timeout_s| timeout_s.to_string());
    let mut properties: Vec<Property> = vec![
        ("server".into(), target.version.clone()),
        ("encryption".into(), none(&run.encryption)),
        ("compression".into(), none(&target.compression)),
        ("connections begin with".into(), none(&(!target.init_sql.is_empty()).then(|| target.init_sql.join("; ")))),
        ("statement timeout (s)".into(), timeout),
        ("client".into(), format!("{}, {} cores, {}", client.host, client.cores, client.kernel)),
        ("oltpbench".into(), run.oltpbench_version.clone()),
    ];
    properties.extend(target.variables.iter().map(|(name, value)| (name.clone(), value.clone())));
    properties
}
