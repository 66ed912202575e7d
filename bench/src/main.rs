//! Benches: our numbers beside those of the papers and of peers, measured in the same run.
//!
//! Others may use the machine, so ratios count; each comparison alternates (ours, theirs, ours, theirs).
//!
//! Libraries: `buddy_system_allocator` (a peer), `csv` (what runs wrote), `humantime` (durations on the command line),
//! `plotters` (drawings), `rand` and `rand_chacha` (inputs from a seed), `rusqlite` (the database load of `soak`),
//! `serde_json` (reports), `tempfile`.

mod arrays;
mod banks;
mod codes;
mod diagnostic;
mod guard;
mod guard_corruption;
mod guard_figures;
mod guard_flips;
mod guard_suites;
mod heap;
mod heap_soak;
mod hostile;
mod march;
mod median;
mod peers;
mod redmpi;
mod scale;
mod slowdown;
mod soak;
mod trace;
mod turns;

use std::process::ExitCode;

/// A bench: its name, its purpose, and its function.
type Bench = (&'static str, &'static str, fn(&[String]) -> Result<(), String>);

const BENCHES: [Bench; 23] = [
    ("arrays", "what the heap's arrays in leaves cost beside contiguous ones, by size of leaves", arrays::run),
    (
        "banks",
        "[tables|LLFREE [ORDER]] page allocators beside tables 4.2 and 6.1 of Panwar15, and, unless `tables`, LLFree, if the folder of its source is given, with an order only that; or `guests`: what pools take offline on guests; or `figures [draw|NAME...]`: simulations and figures of its chapters 2 and 5, in docs/figures/banks",
        banks::run,
    ),
    ("codes", "speed of the codes of pages beside a plain read and memcpy", codes::run),
    (
        "guard",
        "[PROGRAM...] what programs lose under `rampart run`, and how much of their heap is locked meanwhile",
        guard::run,
    ),
    (
        "guard-corruption",
        "[PAGES [OPTION...]] what becomes of locked pages that another process corrupts, by class and engine: 20 pages each",
        guard_corruption::run,
    ),
    (
        "guard-figures",
        "FILE.svg [PROGRAM...] time and unlocked memory against what is opened ahead and how soon it is locked again",
        guard_figures::run,
    ),
    ("guard-flips", "[N] what becomes of N flips in locked pages of a running program: 10000", guard_flips::run),
    ("flipped", "a program that looks at its memory, for `guard-flips`", guard_flips::flipped),
    (
        "guard-suites",
        "[FOLDER [NAME...]] test suites of redis, SQLite, CPython and NumPy without and under `rampart run`",
        guard_suites::run,
    ),
    ("guarded", "NAME programs of ours, for `guard`", guard::guarded),
    (
        "heap",
        "[cost|peers|sweep|redirection] [PROGRAM...] [runs=N] the heap beside MMTk's collectors at twice the minimum and at equal bytes, and beside itself without the state `failed`: 20 runs",
        heap::run,
    ),
    ("heap-soak", "[TIME] the heap under random load: its memory stays flat: 10m", heap_soak::run),
    (
        "hostile",
        "[PART OF A NAME] what becomes of a program that checks its own data, in a hundred hostile settings and by engine",
        hostile::run,
    ),
    ("march", "speed of march tests beside this machine's limit, memtester and stressapptest", march::run),
    (
        "parsec",
        "FOLDER [LIFETIME [OPTION...]] what PARSEC's programs lose while `rampart watch` runs, with 1 to 8 threads, beside figures 13, 18 and 19 of Rahman16",
        slowdown::parsec::run,
    ),
    (
        "redmpi",
        "[LIST] [pairs=N] [mpi=NAME] what replicas cost messages and LAMMPS, or the programs of a list (NAME RANKS PROGRAM [ARGUMENT...]), beside tables 3.4 to 3.12 of Fiala15: 11 pairs, openmpi",
        redmpi::run,
    ),
    (
        "redmpi-faults",
        "LIST [runs=N] [odds=X [replica=K] | change=WORD] [replicas=R] [mpi=NAME] [seed=S] [rampart=FILE] what becomes of flips in messages of the programs of a list, or of calls that are other ones, beside 3.7.2 of Fiala15: 100 runs with one flip each",
        redmpi::faults::run,
    ),
    (
        "scale",
        "[LOGGOPSIM TXT2BIN] events a second and memory of the simulator, beside LogGOPSim if it is named",
        scale::run,
    ),
    (
        "soak",
        "[TIME [MEMORY]] false alarms, and results of the programs beside: a compile and a database load",
        soak::run,
    ),
    (
        "trace",
        "real programs of MPI, simulated beside the time that they took, and what tracing them costs",
        trace::run,
    ),
    (
        "watch",
        "[LIFETIME] what real programs lose while `rampart watch` runs, and how much memory it reaches",
        slowdown::run,
    ),
    ("triad", "a loop bound by memory, for `watch`", slowdown::triad),
    ("hog", "a program that takes memory at once, for `watch`", slowdown::hog),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(experiment) = arguments.first().and_then(|name| name.strip_prefix("diagnostic-")) {
        return ended(diagnostic::run(experiment));
    }
    let named = arguments.first().and_then(|name| BENCHES.iter().find(|(known, ..)| known == name));
    let Some((.., run)) = named else {
        eprintln!("name a bench:");
        BENCHES.iter().for_each(|(name, shows, _)| eprintln!("  {name:<8} {shows}"));
        eprintln!("  diagnostic-NAME, an experiment of Rahman16: {}", diagnostic::names());
        return ExitCode::from(2);
    };
    ended(run(&arguments[1..]))
}

fn ended(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
