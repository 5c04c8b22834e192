//! Runs that were saved: one file, or a folder of an experiment's.
//!
//! Invariant: a document is read whole or refused by the name of its file; none is left out in silence.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{RunReport, SCHEMA_VERSION};

/// What an experiment's folder has beside its runs: how it was planned.
pub const DESIGN: &str = "experiment.json";

#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    #[error("{path} cannot be read ({source}); give a file that run --json wrote, or a folder of them")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} is no report of a run ({reason}); give a file that run --json wrote")]
    NotAReport { path: PathBuf, reason: String },
    #[error(
        "{path} has version {version} of the document, which this oltpbench (version {SCHEMA_VERSION}) does not read; \
         use the oltpbench that wrote it, or a later one"
    )]
    Version { path: PathBuf, version: u32 },
    #[error("{path} is no design of an experiment ({reason}); give a folder that `oltpbench run` made for one")]
    NoExperiment { path: PathBuf, reason: String },
    #[error("{0} holds no report; give a folder with files that run --json wrote")]
    Empty(PathBuf),
}

/// A run and the file that it was read from.
#[derive(Clone, Debug)]
pub struct Saved {
    pub path: PathBuf,
    pub report: RunReport,
}

/// A path's last part.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The run of a file, or those of a folder's `*.json` files in the order of their names.
pub fn read(path: &Path) -> Result<Vec<Saved>, SavedError> {
    if !path.is_dir() {
        return Ok(vec![read_file(path)?]);
    }
    let unreadable = |source| SavedError::Read { path: path.to_path_buf(), source };
    let entries = std::fs::read_dir(path).map_err(unreadable)?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    files.retain(|file| file.extension().is_some_and(|name| name == "json") && !file.ends_with(DESIGN));
    files.sort();
    if files.is_empty() {
        return Err(SavedError::Empty(path.to_path_buf()));
    }
    files.iter().map(|file| read_file(file)).collect()
}

/// What to call each run where several stand side by side: its name where that tells them apart, or its file's.
pub fn labels(runs: &[Saved]) -> Vec<String> {
    let stem = |run: &Saved| Some(run.path.file_stem()?.to_string_lossy().into_owned());
    let tell_apart = |labels: &Vec<String>| labels.iter().collect::<BTreeSet<_>>().len() == runs.len();
    let named = runs.iter().map(|run| run.report.name.clone()).collect::<Option<Vec<_>>>();
    let by_file = || runs.iter().map(stem).collect::<Option<Vec<_>>>();
    let by_path = || runs.iter().map(|run| run.path.display().to_string()).collect();
    named.filter(tell_apart).or_else(|| by_file().filter(tell_apart)).unwrap_or_else(by_path)
}

fn read_file(path: &Path) -> Result<Saved, SavedError> {
    Ok(Saved { path: path.to_path_buf(), report: document(path)? })
}

/// A document of this version.
pub(super) fn document<T: DeserializeOwned>(path: &Path) -> Result<T, SavedError> {
    #[derive(Deserialize)]
    struct Versioned {
        schema_version: u32,
    }
    let bytes = std::fs::read(path).map_err(|source| SavedError::Read { path: path.to_path_buf(), source })?;
    let not_a_report =
        |error: serde_json::Error| SavedError::NotAReport { path: path.to_path_buf(), reason: error.to_string() };
    let Versioned { schema_version: version } = serde_json::from_slice(&bytes).map_err(not_a_report)?;
    if version != SCHEMA_VERSION {
        return Err(SavedError::Version { path: path.to_path_buf(), version });
    }
    serde_json::from_slice(&bytes).map_err(not_a_report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_called_by_what_tells_them_apart() {
        let called = |runs: [(&str, Option<&str>); 2]| {
            let saved = runs.map(|(path, name)| {
                let mut saved = crate::report::example::saved(path);
                saved.report.name = name.map(Into::into);
                saved
            });
            labels(&saved)
        };
        assert_eq!(called([("x/a.json", Some("one")), ("y/a.json", Some("two"))]), ["one", "two"]);
        assert_eq!(called([("x/a.json", Some("one")), ("x/b.json", Some("one"))]), ["a", "b"]);
        assert_eq!(called([("x/a.json", Some("one")), ("y/a.json", None)]), ["x/a.json", "y/a.json"]);
    }

    #[test]
    fn what_is_no_report_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| read(path).unwrap_err().to_string();
        assert!(refused(folder.path()).contains("holds no report"));
        assert!(refused(&folder.path().join("gone.json")).contains("gone.json cannot be read"));
        let file = folder.path().join("a.json");
        std::fs::write(folder.path().join(DESIGN), "{}").unwrap();
        std::fs::write(&file, "{\"schema_version\": 999}").unwrap();
        assert!(refused(folder.path()).contains("a.json has version 999"), "{}", refused(folder.path()));
        std::fs::write(&file, "{\"schema_version\": 1}").unwrap();
        assert!(refused(&file).contains("a.json is no report of a run (missing field"), "{}", refused(&file));
        std::fs::write(&file, "hello").unwrap();
        assert!(
            refused(&file).contains("a.json is no report of a run (expected value at line 1"),
            "{}",
            refused(&file)
        );
    }
}
