//! Many runs, and how sure their mean is.

pub mod confidence;
pub mod parallel_runs;
