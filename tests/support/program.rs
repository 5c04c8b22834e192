//! Runs the built `oltpbench` and reads its JSON report.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

pub use assert_cmd::assert::OutputAssertExt;
use serde_json::Value;

/// The program, in an environment that no developer's settings reach.
pub fn oltpbench(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oltpbench"));
    command.args(arguments).env_remove("OLTPBENCH_URL").env_remove("OLTPBENCH_PASSWORD").env_remove("NO_COLOR");
    command
}

/// Standard output of a call that must succeed.
#[track_caller]
pub fn succeed(arguments: &[&str]) -> String {
    text(&oltpbench(arguments).assert().success().get_output().stdout)
}

/// The error line of a call that must fail with `code`.
#[track_caller]
pub fn fail(code: i32, arguments: &[&str]) -> String {
    let stderr = text(&oltpbench(arguments).assert().code(code).get_output().stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
    stderr
}

/// Runs with `--json` and gives the document, whatever the exit code.
pub fn report_of(mut command: Command) -> (Value, Output) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    command.arg("--json").arg(&file);
    let output = command.output().expect("the built program starts");
    (document(&file, &output), output)
}

pub fn document(file: &Path, output: &Output) -> Value {
    let json = std::fs::read_to_string(file)
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}", text(&output.stdout), text(&output.stderr)));
    serde_json::from_str(&json).unwrap()
}

/// The document of a run that must succeed.
#[track_caller]
pub fn report(arguments: &[&str]) -> Value {
    let (document, output) = report_of(oltpbench(arguments));
    output.assert().success();
    document
}

/// Name and default of each option in a part of our help.
pub fn offered_options(help: &str) -> BTreeMap<String, String> {
    let mut texts: Vec<(String, String)> = Vec::new();
    // The examples have options too.
    for line in help.lines().take_while(|line| *line != "Examples:") {
        let line = line.trim();
        let option = line.strip_prefix("--").or(line.strip_prefix("-h, --"));
        match (option, texts.last_mut()) {
            (Some(option), _) => {
                texts.push((option.split([' ', '[']).next().unwrap().into(), option.into()));
            }
            (None, Some((_, text))) => text.extend([" ", line]),
            (None, None) => {}
        }
    }
    let default = |text: &str| Some(text.split("[default: ").nth(1)?.split(']').next()?.to_string());
    texts.into_iter().map(|(option, text)| (option, default(&text).unwrap_or_default())).collect()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A count at a path such as `totals.transactions`.
pub fn count(document: &Value, path: &str) -> u64 {
    let value = path.split('.').fold(document, |value, key| &value[key]);
    value.as_u64().unwrap_or_else(|| panic!("{path} is {value}"))
}

pub fn number(document: &Value, path: &str) -> f64 {
    let value = path.split('.').fold(document, |value, key| &value[key]);
    value.as_f64().unwrap_or_else(|| panic!("{path} is {value}"))
}

/// Waits until something is so, however slow the machine is.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < patience, "in vain waited for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
