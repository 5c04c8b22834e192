//! The tests' null server as a program, to measure a client alone: `null-server [PORT]`.
//!
//! It prints the port on which it listens (a free one by default) and runs until it is ended.

#[path = "../tests/support/null_server.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod null_server;

use std::process::ExitCode;
use std::thread;

use null_server::{Behaviour, NullServer};

fn main() -> ExitCode {
    let port = std::env::args().nth(1).map_or(Ok(0), |port| port.parse());
    let Ok(port) = port else {
        eprintln!("null-server: the port must be a number up to 65535");
        return ExitCode::from(2);
    };
    match NullServer::start(port, Behaviour::Prompt) {
        Ok(server) => {
            println!("{}", server.port());
            loop {
                thread::park();
            }
        }
        Err(error) => {
            eprintln!("null-server: cannot listen on port {port} of 127.0.0.1: {error}");
            ExitCode::FAILURE
        }
    }
}
