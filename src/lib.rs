//! A sysbench-style OLTP benchmark for MySQL-compatible databases.
//!
//! # Layout
//!
//! Data flows one way: spec -> plan -> engine -> metrics -> report -> compare.
//!
//! * [`cli`]: clap types become plain specs; the commands are dispatched. clap ends here.
//! * [`spec`]: what is run against what, as plain values.
//! * [`workload`]: a YAML file becomes a compiled plan.
//! * [`target`]: what is measured (MySQL and MariaDB, SQLite, a simulation).
//! * [`metrics`]: histograms, counters and intervals.
//! * [`engine`]: prepare, run, prewarm and cleanup.
//! * [`published`]: published figures with their set-ups.
//! * [`report`]: the JSON document and what is made from it: text, Markdown, CSV, HTML.
//! * [`compare`]: runs against runs, with verdicts, and against published figures; sweeps and their cost.
//!
//! ARCHITECTURE.md says which may import which.

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
