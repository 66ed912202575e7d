//! The figures and tables of \[Fiala15\].

use super::exhibit::{Exhibit, figure, table};

const REPLICAS: &[&str] = &["rampart project sweep --figure 3.1 --html figure3.1.html"];

const REPLICA_TABLES: &[&str] = &["docs/replicas.md#tables-31-to-33"];

/// A list has a line for each program: `cg 4 /folder/cg.A.x`.
const LISTED: &[&str] = &["cargo xtask bench redmpi LIST"];

const COST: &[&str] = &["docs/performance.md#replicas-rampart-mpirun"];

const SMALLER: &str =
    "4 ranks and a smaller class, and CPU time beside plain jobs at once, in place of 128 to 512 ranks";

const SPREAD: &[&str] = &["docs/redmpi.md#how-an-error-spreads"];

const STEPS: &str =
    "each step of the program must call MPI_Pcontrol; the document has the numbers of such jobs, not the drawings";

/// The mini-checkpoints and the MPI of chapter 5.
const NO_MINI_CKPTS: &str = "mini-ckpts is not written";

const NO_LIBRLMPI: &str = "neither mini-ckpts nor librlmpi is written";

const GUARD: &[&str] = &["docs/performance.md#guarding-programs-rampart-run"];

const GRID_NOTE: &str = "the document has default and other settings beside the best rows, not the grid";

const CO_PROCESSOR: &str = "a Xeon Phi co-processor (Knights Corner), to which pages are copied by DMA";

/// Its figures.
pub const FIGURES: &[Exhibit] = &[
    figure("3.1", "Time to completion with 1, 2 and 3 replicas, by the number of nodes")
        .by(REPLICAS)
        .see(&["docs/replicas.md#figure-31"]),
    figure("3.2", "Messages of the protocol All-to-all"),
    figure("3.3", "Calls of MPI that All-to-all takes the place of"),
    figure("3.4", "Messages of the protocol MsgPlusHash"),
    figure("3.5", "Ranks of a job with three replicas"),
    figure("3.6", "Formulas from native to virtual ranks, and back"),
    figure("3.7", "How MsgPlusHash corrects a message"),
    figure("3.8", "Layers of an MPI"),
    figure("3.9", "Layers of an MPI with RedMPI"),
    figure("3.10", "NPB LU: who sends corrupt messages to whom, at four points in time")
        .by(&["rampart mpirun -n 64 --replicas 2 --inject flip:send:step=3,rank=5,replica=1 --propagation lu.html -- \
             ./lu.W.x"])
        .see(SPREAD)
        .note(STEPS),
    figure("3.11", "NPB LU: corrupt messages and tainted ranks, by step")
        .by(&["rampart mpirun -n 64 --replicas 2 --inject flip:send:step=3,rank=5,replica=1 --propagation lu.html -- \
             ./lu.W.x"])
        .see(SPREAD)
        .note(STEPS),
    figure("3.12", "NPB BT: corrupt messages and tainted ranks, by step")
        .by(&["rampart mpirun -n 64 --replicas 2 --inject flip:send:step=3,rank=5,replica=1 --propagation bt.html -- \
             ./bt.W.x"])
        .see(SPREAD)
        .note(STEPS),
    figure("3.13", "NPB SP: corrupt messages and tainted ranks, by step")
        .by(&["rampart mpirun -n 64 --replicas 2 --inject flip:send:step=3,rank=5,replica=1 --propagation sp.html -- \
             ./sp.W.x"])
        .see(SPREAD)
        .note(STEPS),
    figure("3.14", "NPB MG: corrupt messages and tainted ranks, by step")
        .by(&["rampart mpirun -n 64 --replicas 2 --inject flip:send:at=100,rank=5,replica=1 --propagation mg.html -- \
             ./mg.S.x"])
        .see(SPREAD)
        .note("each step of the program must call MPI_Pcontrol; only flips in some messages (at=) spread"),
    figure("3.15", "NPB CG: corrupt messages and tainted ranks, by step")
        .by(&["rampart mpirun -n 64 --replicas 2 --inject flip:send:step=3,rank=5,replica=1 --propagation cg.html -- \
             ./cg.S.x"])
        .see(SPREAD)
        .note(STEPS),
    figure("3.16", "Sweep3D: corrupt messages and tainted ranks, by step")
        .by(&["rampart mpirun -n 64 --replicas 2 --step MPI_Allreduce --inject flip:send:at=100,rank=5,replica=1 \
             --propagation snap.html -- ./snap input output"])
        .see(SPREAD)
        .but("SNAP, its successor, in place of Sweep3D"),
    figure("3.17", "NPB FT: corrupt messages and tainted ranks, by step, after four flips")
        .by(&["rampart mpirun -n 64 --replicas 2 --inject flip:send:step=3,rank=5,replica=1 --propagation ft.html -- \
             ./ft.S.x"])
        .see(SPREAD)
        .but("one flip in a job, and jobs with flips in other ranks, in place of four flips in one job"),
    figure("4.1", "Pages that bench (listing 4.1) unlocks, at four moments")
        .by(&[
            "rampart run --interval 200ms --trace-access rows.bin -- target/release/rampart-bench guarded rows",
            "rampart access rows.bin --html rows.html",
        ])
        .note("`cargo xtask bench` without a name builds the program"),
    figure("4.2", "Pages that bench-rand (listing 4.2) unlocks, at four moments")
        .by(&[
            "rampart run --interval 200ms --trace-access chunks.bin -- target/release/rampart-bench guarded chunks",
            "rampart access chunks.bin --html chunks.html",
        ])
        .note("`cargo xtask bench` without a name builds the program"),
    figure("4.3", "Time and unlocked pages of bench and bench-rand, by the pages unlocked ahead")
        .by(&["cargo xtask bench guard-figures figures.svg"])
        .but("up to 128 pages ahead; [Fiala15] goes on to 1,024"),
    figure("4.4", "Parts of FlipSphere"),
    figure("4.5", "NAS FT with detection only: time and unlocked memory, by pages ahead and relock interval")
        .by(&[
            "rampart run --engine mprotect --codes crc --block 4KiB --cap 1GiB --interval 25ms --prefetch 32 \
             --report ft.json -- ./ft",
            "cargo xtask bench guard-figures figures.svg ./ft",
        ])
        .but("the first command gives one point; the second draws the grid from 50 ms on, with codes that correct"),
    figure("4.6", "Two patterns in which NAS FT accesses its memory")
        .by(&["rampart run --trace-access ft.bin -- ./ft", "rampart access ft.bin --html ft.html"]),
    figure("5.1", "PRAMFS beside file systems that use the page cache"),
    figure("5.2", "Registers that a system call and an interrupt save"),
    figure("5.3", "Time of the OpenMP programs of NPB, threads not pinned").missing(NO_MINI_CKPTS),
    figure("5.4", "Interrupts and system calls of NAS CG").missing(NO_MINI_CKPTS),
    figure("5.5", "Time of NAS CG with far more threads than cores").missing(NO_MINI_CKPTS),
    figure("5.6", "System calls of NAS CG with far more threads than cores").missing(NO_MINI_CKPTS),
    figure("5.7", "Time of the OpenMP programs of NPB, threads pinned").missing(NO_MINI_CKPTS),
    figure("5.8", "OSU benchmarks of Open MPI and of librlmpi").missing(NO_LIBRLMPI),
    figure("5.9", "Time of MPI programs under Open MPI, librlmpi and mini-ckpts").missing(NO_LIBRLMPI),
    figure("5.10", "Time that each kernel panic costs MPI programs").missing(NO_LIBRLMPI),
];

/// Its tables.
pub const TABLES: &[Exhibit] = &[
    table("3.1", "Failures of five clusters")
        .by(REPLICAS)
        .see(REPLICA_TABLES)
        .note("quoted, with the mean time between failures that follows"),
    table("3.2", "Where the time of a job of 168 hours goes, by the number of nodes").by(REPLICAS).see(REPLICA_TABLES),
    table("3.3", "Where the time of a job on 100,000 nodes goes, by its length").by(REPLICAS).see(REPLICA_TABLES),
    table("3.4", "What replicas cost LAMMPS, input chain.scaled")
        .by(&["cargo xtask bench redmpi"])
        .but("the input melt on 2 ranks, in place of chain.scaled on 128 to 512"),
    table("3.5", "What replicas cost LAMMPS, input chute.scaled")
        .missing("the bench runs LAMMPS with the input melt only, beside table 3.4"),
    table("3.6", "What replicas cost Sweep3D")
        .missing("neither Sweep3D nor SNAP, its successor, was measured; `cargo xtask bench redmpi LIST` can do so"),
    table("3.7", "What replicas cost HPCCG").by(LISTED).see(COST).but(SMALLER),
    table("3.8", "What replicas cost NPB CG").by(LISTED).see(COST).but(SMALLER),
    table("3.9", "What replicas cost NPB EP").by(LISTED).see(COST).but(SMALLER),
    table("3.10", "What replicas cost NPB FT").by(LISTED).see(COST).but(SMALLER),
    table("3.11", "What replicas cost NPB LU").by(LISTED).see(COST).but(SMALLER),
    table("3.12", "What replicas cost NPB MG").by(LISTED).see(COST).but(SMALLER),
    table("4.1", "Memory that the codes of a page take")
        .by(&["cargo xtask bench codes", "cargo test -p rampart-codes the_paper_stores_four_bytes_and_512"])
        .note("ours stores the CRC twice"),
    table("4.2", "Speed of making codes, by threads, on the host and on a co-processor")
        .by(&["cargo xtask bench codes"])
        .see(&["docs/performance.md#codes"])
        .but("the host only; the document has one thread"),
    table("4.3", "NAS FT: time and unlocked memory, copied to a co-processor").not_here(CO_PROCESSOR),
    table("4.4", "NAS FT: time and unlocked memory, without copying")
        .by(&["cargo xtask bench guard-figures figures.svg ./ft", "cargo xtask bench guard ./ft"])
        .see(GUARD)
        .note(GRID_NOTE),
    table("4.5", "NAS CG: time and unlocked memory, copied to a co-processor").not_here(CO_PROCESSOR),
    table("4.6", "NAS CG: time and unlocked memory, without copying")
        .by(&["cargo xtask bench guard-figures figures.svg ./cg", "cargo xtask bench guard ./cg"])
        .see(GUARD)
        .note(GRID_NOTE),
    table("5.1", "What mini-ckpts saves of a process"),
    table("5.2", "Which memory of a process mini-ckpts saves"),
    table("5.3", "Classes of the OpenMP programs of NPB"),
    table("5.4", "Classes and inputs of the MPI programs"),
    table("5.5", "Time of a cold and of a warm boot").missing(NO_MINI_CKPTS),
    table("5.6", "Time to write memory of PRAMFS, by core").missing(NO_MINI_CKPTS),
    table("5.7", "Time of MPI programs with librlmpi and mini-ckpts, beside Open MPI").missing(NO_LIBRLMPI),
    table("5.8", "Time that kernel panics cost MPI programs, by their number").missing(NO_LIBRLMPI),
];
