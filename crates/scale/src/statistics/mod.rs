//! Many runs, and the accuracy of their mean.

pub mod confidence;
pub mod parallel_runs;
