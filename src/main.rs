//! The `oltpbench` command: parse, call, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    oltpbench::cli::main()
}
