//! A sysbench-style OLTP benchmark for MySQL-compatible databases.
//!
//! # Layout
//!
//! Data flows one way: spec -> plan -> engine -> metrics -> report -> compare.
//!
//! * [`cli`]: clap types become plain specs; the commands are dispatched. clap ends here.
//! * [`spec`]: what is run against what, as plain values. A leaf.
//! * [`workload`]: a YAML file becomes a compiled plan. A leaf.
//! * [`target`]: what is measured (MySQL and MariaDB, SQLite, a simulation). Imports `workload` and `spec`.
//! * [`metrics`]: histograms, counters and intervals. A leaf.
//! * [`engine`]: prepare, run, prewarm and cleanup. Imports `target`, `workload`, `metrics`, `spec`.
//! * [`published`]: published figures with their set-ups. A leaf.
//! * [`report`]: the JSON document and the text that is printed from it. Imports `metrics`.
//! * [`compare`]: runs against runs, with verdicts, and against published figures. Imports `report`, `metrics`, `published`.
//!
//! `tests/architecture.rs` checks these arrows.

#![forbid(unsafe_code)]
// The readers of these docs are developers: a module's header names its private parts too.
#![allow(rustdoc::private_intra_doc_links)]

pub mod cli;
pub mod compare;
pub mod engine;
pub mod metrics;
pub mod published;
pub mod report;
pub mod spec;
pub mod target;
pub mod workload;
