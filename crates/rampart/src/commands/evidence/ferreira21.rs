//! The figures and tables of \[Ferreira21\].

use super::exhibit::{Exhibit, figure, table};

const RESULTS: &[&str] = &["docs/scale.md#results"];

/// Its figures.
pub const FIGURES: &[Exhibit] = &[
    figure("1", "How a delay of one process spreads to those that wait for its messages"),
    figure("2", "Detours of a node: none injected, a dry run, errors logged by software, by firmware")
        .by(&[
            "rampart noise --for 5m --html native.html",
            "rampart noise --for 5m --errors-every 10s --dry-run --html dry.html",
            "rampart noise --for 5m --errors-every 10s --html logged.html",
        ])
        .not_here("firmware that injects corrected errors (EINJ), for all but the first command"),
    figure("3", "Slowdown by errors on one node, by their rate")
        .by(&["rampart project sweep --figure 3 --html figure3.html"])
        .see(RESULTS),
    figure("4", "Slowdown on Cielo, Trinity and Summit")
        .by(&["rampart project sweep --figure 4 --html figure4.html"])
        .see(RESULTS),
    figure("5", "Slowdown on five exascale systems")
        .by(&["rampart project sweep --figure 5 --html figure5.html"])
        .see(RESULTS),
    figure("6", "Slowdown by errors so frequent that logging by software is felt")
        .by(&["rampart project sweep --figure 6 --html figure6.html"])
        .see(RESULTS),
    figure("7", "Slowdown by the time that an error takes, at 0.2 and 720 s between errors")
        .by(&["rampart project sweep --figure 7 --seeds 4 --html figure7.html"])
        .see(RESULTS),
];

/// Its tables.
pub const TABLES: &[Exhibit] = &[
    table("I", "Workloads").by(&["rampart project --list"]).note("traces of five of the programs on eight ranks, and models of all nine; the traces of [Ferreira21] are not public"),
    table("II", "Systems, and the rate of their corrected errors")
        .by(&["rampart project --list"])
        .but("mean times between errors and simulated nodes only, without memory and errors a GiB and year"),
];
