//! Profiles: named sets of options that repeat a published experiment. A profile changes defaults; what the command
//! line gives wins over it.
//!
//! Must not import: `engine`, `target`, `metrics`, `report`.

use super::CliError;

/// What one profile sets for one workload.
pub(super) struct Profile {
    pub(super) name: &'static str,
    workload: &'static str,
    /// Option and value, as on the command line.
    pub(super) values: &'static [(&'static str, &'static str)],
}

/// The July 2015 Aurora whitepaper and the Cloud SQL article that repeated it: sysbench 0.5's oltp.lua, which sends
/// text, draws one table for a whole transaction and, unless told otherwise, draws ids by `special`.
const PROFILES: [Profile; 2] = [
    Profile {
        name: "aurora-whitepaper",
        workload: "oltp_read_only",
        values: &[
            ("threads", "500"),
            ("time", "600"),
            ("events", "0"),
            ("rate", "0"),
            ("warmup-time", "0"),
            ("db-ps-mode", "disable"),
            ("rand-type", "special"),
            ("rand-spec-iter", "12"),
            ("rand-spec-pct", "1"),
            ("rand-spec-res", "75"),
            ("tables", "250"),
            ("table-size", "25000"),
            ("one-table", "on"),
            ("point-selects", "10"),
            ("range-selects", "off"),
            ("skip-trx", "off"),
        ],
    },
    Profile {
        name: "aurora-whitepaper",
        workload: "oltp_read_write",
        values: &[
            ("threads", "1000"),
            ("time", "600"),
            ("events", "0"),
            ("rate", "0"),
            ("warmup-time", "0"),
            ("db-ps-mode", "disable"),
            ("rand-type", "uniform"),
            ("tables", "250"),
            ("table-size", "25000"),
            ("one-table", "on"),
            ("point-selects", "0"),
            ("range-selects", "off"),
            ("index-updates", "1"),
            ("non-index-updates", "1"),
            ("delete-inserts", "1"),
            ("skip-trx", "off"),
        ],
    },
];

/// The names of all profiles.
pub(super) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
    names.dedup();
    names
}

pub(super) fn find(name: &str, workload: &str) -> Result<&'static Profile, CliError> {
    let of_name: Vec<&Profile> = PROFILES.iter().filter(|profile| profile.name == name).collect();
    if of_name.is_empty() {
        return Err(CliError::usage(format!("there is no profile `{name}`; there is {}", names().join(", "))));
    }
    of_name.iter().find(|profile| profile.workload == workload).copied().ok_or_else(|| {
        let workloads: Vec<&str> = of_name.iter().map(|profile| profile.workload).collect();
        CliError::usage(format!(
            "profile {name} says nothing of workload {workload}; use it with {}",
            workloads.join(" or ")
        ))
    })
}
