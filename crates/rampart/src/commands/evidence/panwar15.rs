//! The figures and tables of \[Panwar15\].

use super::exhibit::{Exhibit, figure, table};

/// Simulates all loads, and draws what they gave.
const FIGURE_RUNS: &[&str] = &["cargo xtask bench banks figures"];

const TABLES_BENCH: &[&str] = &["cargo xtask bench banks tables"];

/// Programs in an emulated machine, then their drawing.
const PROGRAMS: &[&str] = &[
    "SETS=\"all=5 burst_tests=2 cache_tests=1 most_files=1\" tests/qemu/programs",
    "cargo xtask bench banks figures draw",
];

const PROGRAMS_TABLE: &[&str] = &["SETS=\"all=5\" tests/qemu/programs"];

const BANKS: &str = "docs/performance-banks.md#page-allocators-of-banks";

const COST: &str = "docs/performance-banks.md#cost-of-pools-for-programs";

const PROGRAMS_DRAWN: &[&str] = &["docs/figures/banks/figures-6.1-6.3.svg", COST];

/// Its figures.
pub const FIGURES: &[Exhibit] = &[
    figure("2.1", "Zones of Linux"),
    figure("2.2", "Free lists of Linux, by order and migratetype"),
    figure("2.3", "Free memory of a node, section by section: most is free, and no section is")
        .by(FIGURE_RUNS)
        .see(&["docs/figures/banks/figure-2.3.svg", BANKS]),
    figure("2.4", "Sections with memory of the kernel, under Linux' buddy allocator")
        .by(FIGURE_RUNS)
        .see(&["docs/figures/banks/figures-2.4-5.1.svg", BANKS]),
    figure("4.1", "Array of bank-buddy allocators"),
    figure("4.2", "List of bank-buddy allocators"),
    figure("4.3", "Adaptive-Buddy"),
    figure("5.1", "Sections with memory of the kernel, under Adaptive-Buddy")
        .by(FIGURE_RUNS)
        .see(&["docs/figures/banks/figures-2.4-5.1.svg", BANKS]),
    figure("5.2", "Removable memory over time, under both allocators")
        .by(FIGURE_RUNS)
        .see(&["docs/figures/banks/figure-5.2.svg", BANKS]),
    figure("5.3", "Free and offline memory over time, without migration")
        .by(FIGURE_RUNS)
        .see(&["docs/figures/banks/figures-5.3-5.4.svg", BANKS]),
    figure("5.4", "Free and offline memory over time, with migration")
        .by(FIGURE_RUNS)
        .see(&["docs/figures/banks/figures-5.3-5.4.svg", BANKS]),
    figure("5.5", "Memory that migrated, and memory that went offline by that")
        .by(FIGURE_RUNS)
        .see(&["docs/figures/banks/figure-5.5.svg", BANKS]),
    figure("6.1", "System time of kernbench")
        .by(PROGRAMS)
        .see(PROGRAMS_DRAWN)
        .but("instructions of an emulated machine, system and user together, and a build of 32 files"),
    figure("6.2", "User time of kernbench")
        .by(PROGRAMS)
        .see(PROGRAMS_DRAWN)
        .but("instructions of an emulated machine, system and user together, and a build of 32 files"),
    figure("6.3", "Operations a second of filebench, by the size of the file system")
        .by(PROGRAMS)
        .see(PROGRAMS_DRAWN)
        .but("instructions of an emulated machine, and a file server of ours"),
];

/// Its tables.
pub const TABLES: &[Exhibit] = &[
    table("1.1", "Power of DDR3 modules")
        .not_here("a power meter; `rampart banks replay --watts-per-gib` takes a value"),
    table("1.2", "Power of the states of mobile DRAM, relative to reading and writing")
        .not_here("a power meter; `rampart banks replay` computes energy from these values"),
    table("4.1", "Which banks are interleaved with which"),
    table("4.2", "Size of the structures of each allocator")
        .by(TABLES_BENCH)
        .see(&["docs/performance-allocators.md#size-of-the-structures"]),
    table("5.1", "Offline memory under a light and a medium load, on 32 and 4 GB, plain and interleaved")
        .by(FIGURE_RUNS)
        .see(&[BANKS, "docs/figures/banks/runs.csv"]),
    table("5.2", "Offline memory beside the optimum").by(FIGURE_RUNS).see(&[BANKS, "docs/figures/banks/runs.csv"]),
    table("6.1", "Time of an allocation, mean and worst, of many in a row")
        .by(TABLES_BENCH)
        .see(&["docs/performance-allocators.md#successive-allocations"])
        .note("allocators in a program of ours, not in a kernel"),
    table("6.2", "Programs of PARSEC, in words"),
    table("6.3", "System and user time of PARSEC's programs")
        .by(PROGRAMS_TABLE)
        .see(&[COST])
        .but("instructions of an emulated machine, and seven computations of ours in place of PARSEC"),
    table("6.4", "Micro-benchmarks of AIM9")
        .by(PROGRAMS_TABLE)
        .see(&[COST])
        .but("instructions of an emulated machine, and tests of ours that are modelled on AIM9"),
];
