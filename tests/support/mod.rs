//! What the whole-program tests share: real servers, and running the built program.

// Each test binary uses a part of it only.
#![allow(dead_code, unused_imports)]

pub mod browser;
pub mod null_server;
pub mod program;
pub mod proxy;
pub mod server;

pub use server::Server;
