//! What a wrong command line may have meant: options of sysbench and of other workloads, and where they are here.
//!
//! Invariant: nothing that may be a password is repeated.

use clap::error::{ContextKind, ContextValue};

use super::choice::modes;
use crate::workload::Workload;

/// What a user of sysbench may look for under another name, and where it is.
const SYSBENCH_NAMES: [(&str, &str); 36] = [
    ("--num-threads", "use --threads"),
    ("--max-time", "use --time"),
    ("--max-requests", "use --events"),
    ("--oltp-tables-count", "use --tables"),
    ("--mysql-table-engine", "use --mysql-storage-engine"),
    ("--mysql-password", PASSWORD),
    ("--mysql-ssl", "use --ssl-mode"),
    ("--rand-init", "leave it out: ids are always random"),
    ("--db-driver", "leave it out: the --url says what is measured"),
    ("--test", "use --mode or --workload"),
    ("--oltp-read-only", "use --mode read-only"),
    ("--oltp-write-only", "use --mode write-only"),
    ("--histogram", "use --json, whose report holds the whole histogram"),
    ("--tx-rate", "use --rate"),
    ("--mysql-ssl-ca", "use --ssl-ca"),
    ("--mysql-ssl-cert", "use --ssl-cert"),
    ("--mysql-ssl-key", "use --ssl-key"),
    ("--mysql-compression", "use --compress zlib"),
    ("--mysql-compression-algorithms", "use --compress"),
    ("--mysql-dry-run", "use --url simulated:"),
    ("--config-file", "give its options on the command line"),
    ("--report-checkpoints", "use --json, whose report holds every interval"),
    ("--seed-rng", "use --rand-seed"),
    ("--init-rng", "use --rand-seed"),
    ("--oltp-dist-type", "use --rand-type"),
    ("--oltp-dist-iter", "use --rand-spec-iter"),
    ("--oltp-dist-pct", "use --rand-spec-pct"),
    ("--oltp-dist-res", "use --rand-spec-res"),
    ("--oltp-test-mode", "use --mode, and --skip-trx for nontrx"),
    ("--reconnect", "leave it out: a connection is kept for as long as it works"),
    ("--thread-init-timeout", "use --connect-timeout"),
    ("--thread-stack-size", "leave it out: threads need little"),
    ("--verbosity", LEVELS),
    ("--debug", LEVELS),
    ("--db-debug", LEVELS),
    ("--create-table-options", "use --mysql-storage-engine, or set the server's defaults for new tables"),
];

const LEVELS: &str = "leave it out: messages have no levels";

const PASSWORD: &str = "use OLTPBENCH_PASSWORD, --password-file, --ask-password or --password-command";

const NO_POSTGRES: &str = "measure a MySQL-compatible database or SQLite: oltpbench knows no PostgreSQL";

/// sysbench's names that are accepted too, which a message of clap does not repeat.
pub(super) const SYSBENCH_ALIASES: [(&str, &str); 6] = [
    ("--mysql-host", "--host"),
    ("--mysql-port", "--port"),
    ("--mysql-user", "--user"),
    ("--mysql-db", "--database"),
    ("--mysql-socket", "--socket"),
    ("--mysql-ignore-errors", "--ignore-errors"),
];

/// Advice on an option that is of sysbench and not of oltpbench, or for which clap would name another by its spelling.
fn advice_on_option(name: &str) -> Option<String> {
    match name {
        "--password" | "--pass" => return Some(format!("others would see it in the list of processes; {PASSWORD}")),
        "--db" | "--dbname" => return Some("use --database".into()),
        "--duration" => return Some("use --time".into()),
        "--interval" => return Some("use --report-interval".into()),
        _ => {}
    }
    if let Some((theirs, ours)) = SYSBENCH_NAMES.iter().find(|(theirs, _)| *theirs == name) {
        return Some(format!("instead of sysbench's {theirs}, {ours}"));
    }
    if name.starts_with("--pgsql-") {
        return Some(format!("instead of sysbench's {name}, {NO_POSTGRES}"));
    }
    if let Some(option) = name.strip_prefix("--oltp-") {
        return Some(format!("instead of sysbench 0.5's {name}, use --{option}"));
    }
    let of_others: Vec<&str> = Workload::builtin_names()
        .into_iter()
        .filter(|workload| {
            let options = Workload::load(workload).map(|workload| workload.options().to_vec()).unwrap_or_default();
            options.iter().any(|option| option.name.replace('_', "-") == name.trim_start_matches('-'))
        })
        .collect();
    if !of_others.is_empty() {
        return Some(format!("this workload does not use it ({} do)", of_others.join(", ")));
    }
    let theirs = name.starts_with("--mysql-");
    theirs.then(|| format!("sysbench's {name} has no counterpart here; leave it out"))
}

/// Whether clap's message repeats what may be the end of a URL that was given without quotes, and so of a password.
pub(super) fn may_show_password(error: &clap::Error) -> bool {
    let strange = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand].map(|kind| error.get(kind));
    let shown = strange.into_iter().flatten().map(ContextValue::to_string);
    shown.into_iter().any(|arg| !arg.starts_with("--") && arg.contains('@') && !arg.contains("://"))
}

/// Advice on a wrong command line beside what clap says, or an empty text.
pub(super) fn advice(args: &[String], error: &clap::Error) -> String {
    let alias = |arg: &String| {
        let name = arg.split('=').next().unwrap_or_default();
        SYSBENCH_ALIASES.iter().find(|(theirs, _)| *theirs == name)
    };
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (clap::error::ErrorKind::UnknownArgument, Some(ContextValue::String(option))) => {
            if let Some(advice) = advice_on_option(option) {
                return advice;
            }
        }
        (clap::error::ErrorKind::ArgumentConflict, _) => {
            if let Some((theirs, ours)) = args.iter().find_map(alias) {
                return format!("sysbench's {theirs} is called {ours} here");
            }
        }
        _ => {}
    }
    // An option's value may be a workload's name; only one that stands alone is in the wrong place.
    let alone = args.windows(2).find(|pair| {
        let (before, arg) = (&pair[0], &pair[1]);
        let is_mode = || modes().iter().any(|(mode, _)| mode == arg);
        !before.starts_with("--") && (Workload::builtin_source(arg).is_some() || is_mode())
    });
    match alone {
        Some(pair) => {
            let commands = ["prepare", "prewarm", "check", "run", "cleanup"];
            let command = args.iter().find(|arg| commands.contains(&arg.as_str())).map_or("run", String::as_str);
            format!("a workload is given by name: oltpbench {command} --workload {}", pair[1])
        }
        None => String::new(),
    }
}
