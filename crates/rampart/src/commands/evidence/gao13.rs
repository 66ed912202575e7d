//! The figures of \[Gao13\], which has no numbered tables.

use super::exhibit::{Exhibit, figure};

const FIGURES_OF_RUNS: &str = "rampart heap figures";
const OTHER_PROGRAMS: &str = "other Java programs: TeaVM refuses those of DaCapo (docs/java-programs.md)";

/// Its figures.
pub const FIGURES: &[Exhibit] = &[
    figure("1", "How hardware clusters failed lines"),
    figure("2", "Blocks and lines of Immix' heap, with and without failures").by(&["rampart heap show"]),
    figure("3", "Time of DaCapo under mark-sweep, Immix and their sticky variants, by heap size")
        .by(&["rampart heap bench --figure 3", FIGURES_OF_RUNS])
        .but("Immix and Sticky Immix only; other Java programs"),
    figure("4", "Time of each program of DaCapo, at several shares of failed lines")
        .by(&["rampart heap bench --figure 4", FIGURES_OF_RUNS])
        .but(OTHER_PROGRAMS),
    figure("5", "Compensating for failed memory, by heap size")
        .by(&["rampart heap bench --figure 5", FIGURES_OF_RUNS])
        .but(OTHER_PROGRAMS),
    figure("6", "Immix' line size with failures that are not clustered, by heap size")
        .by(&["rampart heap bench --figure 6", FIGURES_OF_RUNS])
        .but(OTHER_PROGRAMS),
    figure("7", "Immix' line size at twice the least heap, by the share of failed lines")
        .by(&["rampart heap bench --figure 7", FIGURES_OF_RUNS])
        .but(OTHER_PROGRAMS),
    figure("8", "Size of clusters, with 10, 25 and 50 % of the lines failed")
        .by(&["rampart heap bench --figure 8", FIGURES_OF_RUNS])
        .but(OTHER_PROGRAMS),
    figure("9", "Clustering by hardware: time, and demand for perfect pages")
        .by(&["rampart heap bench --figure 9", FIGURES_OF_RUNS])
        .but(OTHER_PROGRAMS),
    figure("10", "Clusters of one and of two pages, for each program of DaCapo")
        .by(&["rampart heap bench --figure 10", FIGURES_OF_RUNS])
        .but(OTHER_PROGRAMS),
];
