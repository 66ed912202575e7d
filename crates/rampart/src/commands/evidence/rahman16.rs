//! The figures and tables of \[Rahman16\].

use super::exhibit::{Exhibit, figure, table};

const EXPERIMENTS: &str = "docs/experiments.md";

/// Counts on real kernels in an emulated machine.
const KERNEL: &str = "docs/performance.md#with-the-kernel-module";

/// Programs of PARSEC beside the daemon, without its kernel module.
const PARSEC: &[&str] = &["cargo xtask bench parsec FOLDER"];

const PARSEC_RESULTS: &[&str] = &["docs/performance.md#programs-with-threads"];

const NO_MOVES: &str = "by threads only, and without the kernel module, so no page moves; inputs are smaller";

const SHOOTDOWNS: &[&str] =
    &["SCENARIOS=tests/qemu/measured OPTIONS=\"figure=21 numa=off\" cargo xtask qemu kernel_figures"];

const SHOOTDOWNS_BUT: &str = "counts of one program of ours, with 1 to 8 threads that share 32 MiB, in place of PARSEC";

/// Its figures.
pub const FIGURES: &[Exhibit] = &[
    figure("1", "Objects of one size in a bin of malloc"),
    figure("2", "States of a page"),
    figure("3", "Design of the diagnostic"),
    figure("4", "Components of the diagnostic in the kernel"),
    figure("5", "Design of COMeT"),
    figure("6", "Algorithm: used pages whose test expires"),
    figure("7", "Algorithm: handler of the global allocation timer"),
    figure("8", "Algorithm: tester of the global allocator"),
    figure("9", "States in which the test rate of a list changes"),
    figure("10", "Algorithm: the replenishment rate of a list"),
    figure("11", "Share of pages tested on demand and by COMeT, SPEC CPU2006")
        .by(&["rampart simulate figure11"])
        .see(&[EXPERIMENTS])
        .but("how many tested frames COMeT keeps is calibrated on povray's coverage"),
    figure("12", "Slowdown by testing on demand and by COMeT, SPEC CPU2006")
        .by(&["rampart simulate figure12", "cargo xtask bench watch"])
        .see(&[EXPERIMENTS, "docs/performance.md#testing-all-the-time-rampart-watch"])
        .note("the bench runs real programs beside the daemon, five others"),
    figure("13", "Slowdown by COMeT, five programs of PARSEC")
        .by(PARSEC)
        .see(PARSEC_RESULTS)
        .but("four of the five programs, with smaller inputs; without the kernel module, so no page moves"),
    figure("14", "Slowdown by the period of replenishment").by(&["rampart simulate figure14"]).see(&[EXPERIMENTS]),
    figure("15", "Share of pages tested, with migration and without")
        .by(&["SCENARIOS=tests/qemu/measured OPTIONS=\"figure=15 numa=off held=80\" cargo xtask qemu kernel_figures"])
        .see(&[KERNEL])
        .but(
            "one program of ours; the simulated programs are calibrated on this figure, so `rampart simulate figure15` is \
             no evidence",
        ),
    figure("16", "Slowdown by fixed and by adaptive test rates").by(&["rampart simulate figure16"]).see(&[EXPERIMENTS]),
    figure("17", "Slowdown as the test takes longer")
        .by(&[
            "rampart simulate figure17",
            "SCENARIOS=tests/qemu/measured OPTIONS=\"figure=17 numa=off iterations=1,3,5 lifetime=60\" \
             cargo xtask qemu kernel_figures",
        ])
        .see(&[EXPERIMENTS, KERNEL]),
    figure("18", "Slowdown of Canneal, by threads and by how often pages move")
        .by(PARSEC)
        .see(PARSEC_RESULTS)
        .but(NO_MOVES),
    figure("19", "Slowdown of Streamcluster, by threads and by how often pages move")
        .by(PARSEC)
        .see(PARSEC_RESULTS)
        .but(NO_MOVES),
    figure("20", "Slowdown of Ferret, by threads and by how often pages move")
        .not_here("the collection of images that Ferret searches: PARSEC's site, which had it, is offline"),
    figure("21", "TLB shootdowns of Canneal, by threads and by how often pages move")
        .by(SHOOTDOWNS)
        .see(&[KERNEL])
        .but(SHOOTDOWNS_BUT),
    figure("22", "TLB shootdowns of Streamcluster, by threads and by how often pages move")
        .by(SHOOTDOWNS)
        .see(&[KERNEL])
        .but(SHOOTDOWNS_BUT),
    figure("23", "TLB shootdowns of Ferret, by threads and by how often pages move")
        .by(SHOOTDOWNS)
        .see(&[KERNEL])
        .but(SHOOTDOWNS_BUT),
    figure("24", "Slowdown by COMeT on 16 cores, by the number of instances and the fidelity")
        .by(&["rampart simulate figure24 --for 3m"])
        .see(&[EXPERIMENTS]),
    figure("25", "Latency of the memory of a node, from the cores of each node")
        .not_here("a machine with several memory nodes"),
    figure("26", "Design of Asteroid"),
    figure("27", "Paths of tested and of requested pages"),
    figure("28", "Algorithm: a march test with cache indirect testing"),
    figure("29", "Parts of the test controller"),
    figure("30", "Algorithm: policy Adaptive"),
    figure("31", "Slowdown with each optimization of the testers, eight pairs of programs")
        .by(&[
            "rampart simulate figure31 --for 3m",
            "SCENARIOS=tests/qemu/measured OPTIONS=\"figure=31 numa=off\" cargo xtask qemu --patched kernel_figures",
        ])
        .see(&[EXPERIMENTS, KERNEL]),
    figure("32", "Slowdown with blocks tested on any node, and on their own")
        .by(&[
            "rampart simulate figure32 --for 3m",
            "SCENARIOS=tests/qemu/measured OPTIONS=\"figure=32\" cargo xtask qemu kernel_figures",
        ])
        .see(&[EXPERIMENTS, KERNEL]),
    figure("33", "Slowdown, fidelity and threads of Adaptive beside the best and the worst Fix")
        .by(&["rampart simulate figure33 --for 3m --seeds 5"])
        .see(&[EXPERIMENTS])
        .but("the worst Fix of L1, M1 and H2 is calibrated"),
    figure("34", "Slowdown of each program of the mix H2; demand and tests over time")
        .by(&["rampart simulate figure34"])
        .see(&[EXPERIMENTS]),
];

/// Its tables.
pub const TABLES: &[Exhibit] = &[
    table("1", "Settings of COMeT").note("docs/configuration.md has their keys"),
    table("2", "The two machines"),
    table("3", "Time and memory of SPEC's programs")
        .not_here("SPEC CPU2006, which is sold; `rampart simulate` takes these values as its input"),
    table("4", "Energy of a run of SPEC").not_here("a power meter"),
    table("5", "Slowdown under overload, by the number of instances")
        .by(&["rampart simulate table5"])
        .see(&[EXPERIMENTS]),
    table("6", "Settings of the test controller").note("docs/configuration.md has their keys"),
    table("7", "Mixes of programs"),
    table("8", "Slowdown by Adaptive and by Fix with 8 and 16 patterns, on L1 to H2")
        .by(&["rampart simulate tables8and9 --for 3m --seeds 5"])
        .see(&[EXPERIMENTS])
        .note("the document has only the fastest and the worst Fix"),
    table("9", "Slowdown by Adaptive and by Fix with 24 and 32 patterns, on L1 to H2")
        .by(&["rampart simulate tables8and9 --for 3m --seeds 5"])
        .see(&[EXPERIMENTS])
        .but("Fix1.32 of L1, M1 and H2 is calibrated; the document has only the fastest and the worst Fix"),
];
