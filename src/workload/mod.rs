//! Workloads: a YAML file becomes a compiled plan that the engine plays.
pub mod plan;
