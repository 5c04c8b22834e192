//! What the whole-program tests share.
#![allow(dead_code)]
pub mod program;
