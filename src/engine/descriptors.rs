//! Open files: each connection needs some, and the usual soft limit of 1024 is too low for many connections.
//!
//! Must not import: anything but the rest of `engine`.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::EngineError;

/// What the program needs beside its connections: standard streams, files it writes, libraries.
const OWN: u64 = 64;

/// Raises the soft limit of open files to what `for_sessions` descriptors need, or says which limit is in the way.
pub(super) fn ensure(for_sessions: u64) -> Result<(), EngineError> {
    let needed = for_sessions + OWN;
    let limit = getrlimit(Resource::Nofile);
    // `None` stands for unlimited.
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(hard) = limit.maximum.filter(|&hard| hard < needed) {
        return Err(EngineError::Descriptors { needed, limit: hard, kind: "hard" });
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum });
    raised.map_err(|_| EngineError::Descriptors { needed, limit: limit.current.unwrap_or(0), kind: "soft" })
}
