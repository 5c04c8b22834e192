//! Runs held against other figures.
//!
//! * [`published`]: a run against a published figure.
//!
//! Imports `report`, `published`. Must not import: `engine`, `target`, `workload`, `cli`.

pub mod published;
