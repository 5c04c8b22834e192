//! Holds the import arrows of ARCHITECTURE.md against the code: which module may name which.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Each module with those it may import. `main` only calls `cli`, and nothing may import `cli`.
const ARROWS: [(&str, &[&str]); 7] = [
    ("cli", &["engine", "metrics", "report", "spec", "target", "workload"]),
    ("engine", &["metrics", "spec", "target", "workload"]),
    ("report", &["metrics"]),
    ("target", &["spec", "workload"]),
    ("metrics", &[]),
    ("spec", &[]),
    ("workload", &[]),
];

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The first part of every `crate::` path in a file, comments left out.
fn imports(source: &str) -> Vec<String> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let names = code.flat_map(|line| line.split("crate::").skip(1).map(str::to_string).collect::<Vec<_>>());
    names.map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()).collect()
}

#[test]
fn modules_import_only_what_the_architecture_allows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let arrows: BTreeMap<_, _> = ARROWS.into_iter().collect();
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut checked = 0;
    for file in files {
        let relative = file.strip_prefix(&root).unwrap();
        let first = relative.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        let module = first.trim_end_matches(".rs");
        if module == "main" || module == "lib" {
            continue;
        }
        let allowed = arrows.get(module).unwrap_or_else(|| panic!("module {module} has no arrows here"));
        for import in imports(&std::fs::read_to_string(&file).unwrap()) {
            let fine = import == module || allowed.contains(&import.as_str());
            assert!(fine, "{} imports {import}, which {module} may not", relative.display());
            checked += 1;
        }
    }
    assert!(checked > 20, "only {checked} imports were found; does this test still read the code?");
}

#[test]
fn every_module_says_its_job_in_its_first_line() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    for file in files {
        let source = std::fs::read_to_string(&file).unwrap();
        assert!(source.starts_with("//! "), "{} has no module header", file.display());
    }
}
