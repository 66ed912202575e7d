//! The figures of \[Gao13\], which has no numbered tables.

use super::exhibit::{Exhibit, figure};

const NO_BENCH: &str = "the bench of the failure-aware heap is not written";

/// Its figures.
pub const FIGURES: &[Exhibit] = &[
    figure("1", "How hardware clusters failed lines"),
    figure("2", "Blocks and lines of Immix' heap, with and without failures"),
    figure("3", "Time of DaCapo under mark-sweep, Immix and their sticky variants, by heap size").missing(NO_BENCH),
    figure("4", "Time of each program of DaCapo, at several shares of failed lines").missing(NO_BENCH),
    figure("5", "Compensating for failed memory, by heap size").missing(NO_BENCH),
    figure("6", "Immix' line size with failures that are not clustered, by heap size").missing(NO_BENCH),
    figure("7", "Immix' line size at twice the least heap, by the share of failed lines").missing(NO_BENCH),
    figure("8", "Size of clusters, with 10, 25 and 50 % of the lines failed").missing(NO_BENCH),
    figure("9", "Clustering by hardware: time, and demand for perfect pages").missing(NO_BENCH),
    figure("10", "Clusters of one and of two pages, for each program of DaCapo").missing(NO_BENCH),
];
