//! Open files: each connection needs some, and the usual soft limit of 1024 is too low for many connections.
//!
//! Must not import: anything but `target::check` and the rest of `engine`.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{EngineError, refuse};
use crate::target::check::{Check, Level};

/// What the program needs beside its connections: standard streams, files it writes, libraries.
const OWN: u64 = 64;
const CODE: &str = "open-files";

/// What is wrong with a limit that the needed files exceed.
fn lacking(needed: u64, limit: u64, kind: &str) -> Check {
    Check::new(
        Level::Fatal,
        CODE,
        format!("{needed} open files are needed and the {kind} limit is {limit}"),
        format!("raise it with `ulimit -n {needed}`, as root or in /etc/security/limits.conf, or use fewer --threads"),
    )
}

/// Whether [`ensure`] can raise the limit far enough.
pub(super) fn check(for_sessions: u64) -> Check {
    let (needed, limit) = (for_sessions + OWN, getrlimit(Resource::Nofile));
    // `None` stands for unlimited.
    match limit.maximum {
        Some(hard) if hard < needed => lacking(needed, hard, "hard"),
        Some(hard) => Check::ok(CODE, format!("{needed} open files are needed here; the hard limit is {hard}")),
        None => Check::ok(CODE, format!("{needed} open files are needed here; there is no limit")),
    }
}

/// Raises the soft limit of open files to what `for_sessions` descriptors need, or says which limit is in the way.
pub(super) fn ensure(for_sessions: u64) -> Result<(), EngineError> {
    let (needed, limit) = (for_sessions + OWN, getrlimit(Resource::Nofile));
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    refuse(Some(check(for_sessions)))?;
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum });
    raised.map_err(|_| EngineError::Refused(lacking(needed, limit.current.unwrap_or(0), "soft")))
}
