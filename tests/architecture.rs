//! Holds the import arrows of ARCHITECTURE.md against the code: which module may name which.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Each module with those it may import. Nothing may import `cli` but `main`, which only calls it.
const ARROWS: [(&str, &[&str]); 10] = [
    ("main", &["cli"]),
    ("cli", &["compare", "engine", "metrics", "published", "report", "spec", "target", "workload"]),
    ("compare", &["metrics", "published", "report"]),
    ("engine", &["metrics", "spec", "target", "workload"]),
    ("report", &["metrics"]),
    ("target", &["spec", "workload"]),
    ("metrics", &[]),
    ("published", &[]),
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

/// The module that a file below src holds: `a/mod.rs` is a, `a/b.rs` is a::b.
fn module_of(file: &Path) -> Vec<String> {
    let path = file.with_extension("");
    let mut module: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    module
}

fn is_punct(token: Option<&TokenTree>, character: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == word)
}

/// Whether `::` comes at a place.
fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':')
}

/// Follows a path whose next segment, `*` or braces are at `at`, and notes each end of it, counted from the crate's
/// root. Returns where the code goes on.
fn follow(tokens: &[TokenTree], mut at: usize, mut path: Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(segment)) if segment == "self" => {}
            Some(TokenTree::Ident(segment)) if segment == "super" => {
                // Above the root there is nothing; the word stays, and is no module's name.
                if path.pop().is_none() {
                    path.push("super".into());
                }
            }
            Some(TokenTree::Ident(segment)) => path.push(segment.to_string()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let branches: Vec<TokenTree> = group.stream().into_iter().collect();
                for branch in branches.split(|token| is_punct(Some(token), ',')).filter(|branch| !branch.is_empty()) {
                    follow(branch, 0, path.clone(), found);
                }
                return at + 1;
            }
            _ => {
                found.push(path);
                return at;
            }
        }
        at += 1;
        if !is_path_separator(tokens, at) {
            found.push(path);
            return at;
        }
        at += 2;
    }
}

/// Everything of the crate that code names by `crate::`, `oltpbench::`, `self::` or `super::`, counted from the crate's
/// root; `module` is where the code stands.
fn named(code: TokenStream, module: &[String], found: &mut Vec<Vec<String>>) {
    let tokens: Vec<TokenTree> = code.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        let before = |back: usize| at.checked_sub(back).and_then(|at| tokens.get(at));
        match &tokens[at] {
            // Visibility names modules, but takes nothing from them.
            TokenTree::Group(group) if is_word(before(1), "pub") && group.delimiter() == Delimiter::Parenthesis => {}
            TokenTree::Group(group) => match before(1) {
                Some(TokenTree::Ident(name)) if is_word(before(2), "mod") => {
                    named(group.stream(), &[module, &[name.to_string()]].concat(), found);
                }
                _ => named(group.stream(), module, found),
            },
            TokenTree::Ident(word) => {
                let goes_on = is_path_separator(&tokens, at + 1);
                if word == "crate" || word == "oltpbench" {
                    if goes_on {
                        at = follow(&tokens, at + 3, Vec::new(), found);
                        continue;
                    }
                    if is_word(tokens.get(at + 1), "as") {
                        found.push(Vec::new());
                    }
                }
                if word == "super" || word == "self" && goes_on {
                    at = follow(&tokens, at, module.to_vec(), found);
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// The first parts of the paths that a file names: modules of the crate, or `crate` for its root itself.
fn imports(file: &Path, source: &str) -> Vec<String> {
    let code = source.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut found = Vec::new();
    named(code, &module_of(file), &mut found);
    found.into_iter().map(|path| path.into_iter().next().unwrap_or_else(|| "crate".into())).collect()
}

/// Those of a file's imports that its module may not have.
fn forbidden(file: &Path, imports: &[String]) -> Vec<String> {
    let arrows: BTreeMap<_, _> = ARROWS.into_iter().collect();
    let module = &module_of(file)[0];
    let allowed = arrows.get(module.as_str()).unwrap_or_else(|| panic!("module {module} has no arrows here"));
    imports.iter().filter(|name| *name != module && !allowed.contains(&name.as_str())).cloned().collect()
}

#[test]
fn imports_are_seen_however_they_are_written() {
    for (file, source, expected) in [
        ("spec.rs", "use crate::cli;", &["cli"][..]),
        ("spec.rs", "use super::cli;", &["cli"]),
        ("spec.rs", "use super::*;", &["crate"]),
        ("spec.rs", "use crate as all; use all::cli;", &["crate"]),
        ("spec.rs", "use self::super::{cli, metrics as m};", &["cli", "metrics"]),
        ("spec.rs", "pub(crate) struct A; pub(in crate::cli) fn f(&self) { self.a }", &[]),
        ("target/mod.rs", "use super::{spec, super::engine}; use self::mysql::A;", &["super"]),
        ("target/mysql.rs", "use super::super::engine::run;", &["engine"]),
        ("target/mysql.rs", "use super::{A, super::report}; use crate::spec::{B, C};", &["report"]),
        ("metrics/mod.rs", "mod tests { use super::*; fn f() -> super::super::report::A {} }", &["report"]),
        ("workload/plan.rs", "fn f() { g!(oltpbench::engine::run::<u8>()) }", &["engine"]),
        ("engine/run.rs", "use crate::{target::{mysql, sqlite}, report::text, cli as c};", &["report", "cli"]),
        ("report/text.rs", "// crate::cli\nconst A: &str = \"{ crate::cli\"; /* super::super::cli */", &[]),
        ("main.rs", "use oltpbench::{cli, engine};", &["engine"]),
    ] {
        let file = Path::new(file);
        assert_eq!(forbidden(file, &imports(file, source)), expected, "{}: {source}", file.display());
    }
}

#[test]
fn modules_import_only_what_the_architecture_allows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut checked = 0;
    for file in files {
        let relative = file.strip_prefix(&root).unwrap();
        // The library's root only declares the modules.
        if relative == Path::new("lib.rs") {
            continue;
        }
        let imports = imports(relative, &std::fs::read_to_string(&file).unwrap());
        checked += imports.len();
        let forbidden = forbidden(relative, &imports);
        assert!(forbidden.is_empty(), "{} imports {forbidden:?}, which it may not", relative.display());
    }
    assert!(checked > 100, "only {checked} imports were found; does this test still read the code?");
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
