//! `march`: the speed of march tests on real memory, as a fraction of this machine's own limit.
//!
//! The limit is that of operations that do not overlap: for each line, its writes at the speed of writing alone and its
//! reads at the speed of reading alone, both measured in turn with the tests. The design's figures, from another
//! machine: 4.05 GB/s and 93 % for MATS+, 1.91 and 90 % for March C- (one core, 64 MiB); 63 to 70 % for random frames
//! in batches of 64.

use std::ops::ControlFlow;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rampart_linux::{Block, CpuNumber, PageKind, cpu};
use rampart_march::execute::limit::Limit;
use rampart_march::execute::{Executor, MarchEngine, MarchSettings, Method, Mismatch, Region, Watch};
use rampart_march::{AddressSequence, Aim, Background, MarchTest, Pass};
use rampart_memory::Bytes;

use crate::median::median;
use crate::peers;

/// How often each figure is measured; the median counts.
const ROUNDS: usize = 5;

/// Memory per core.
const MEMORY: Bytes = Bytes::from_mib(256);

/// Pages of a batch of random frames.
const BATCH: usize = 64;

const TESTS: [(&str, &str); 4] = [
    ("one pattern", "*(w0); *(r0)"),
    ("MATS+", "*(w0); ^(r0,w1); v(r1,w0)"),
    ("March C-", "*(w0); ^(r0,w1); ^(r1,w0); v(r0,w1); v(r1,w0); *(r0)"),
    ("March B", "*(w0); ^(r0,w1,r1,w0,r0,w1); ^(r1,w0,w1); v(r1,w0,w1,w0); v(r0,w1,w0)"),
];

/// How memory is divided.
#[derive(Clone, Copy)]
enum Cut {
    Blocks(Bytes),
    RandomFrames,
}

struct Quiet;

impl Watch for Quiet {
    fn mismatch(&mut self, mismatch: &Mismatch) {
        println!("MISMATCH {mismatch:?}");
    }
    fn advanced(&mut self, _operations: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn pause(&mut self, _delay: Duration) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Runs the bench.
pub fn run(_arguments: &[String]) -> Result<(), String> {
    let engine = MarchEngine::detect();
    println!("march tests, {engine}, {MEMORY} a core, median of {ROUNDS}");
    println!("GB/s of memory tested, and % of the limit of operations that do not overlap\n");
    let mut one_pattern = 0.0;
    let mut by_cores = Vec::new();
    for cores in [1, 2] {
        let cpus = allowed_cpus(cores)?;
        println!("{cores} core(s)            {:>33}{:>36}{:>36}", "flush behind", "flush in groups", "non-temporal");
        println!("{:<21}{}", "test, cut", "  sequential     strided        both".repeat(3));
        for cut in [Cut::Blocks(Bytes::from_mib(64)), Cut::Blocks(Bytes::from_mib(2)), Cut::RandomFrames] {
            for (name, notation) in TESTS {
                let test: MarchTest = notation.parse().map_err(|error| format!("{error}"))?;
                let row = measure_row(engine, &cpus, cut, &test);
                if cores == 1 && name == "one pattern" {
                    one_pattern = row.iter().map(|cell| cell.rate).fold(one_pattern, f64::max);
                }
                print_row(name, cut, &row);
                by_cores.push((cores, row));
            }
        }
        println!();
    }
    scaling(&by_cores);
    beside_peers(one_pattern, series(engine)?);
    Ok(())
}

/// Patterns of memtester's tests of solid bits and of checkerboards: data and complement in turn.
const SERIES: u32 = 64;

/// Bytes per second, for each pattern of a series as memtester applies it, on one core. Each pattern is written and
/// read back; reading it back and writing the next is one sweep here, and two in memtester.
fn series(engine: MarchEngine) -> Result<f64, String> {
    let sweeps: String = (1..SERIES).map(|next| format!(" ^(r{},w{});", 1 - next % 2, next % 2)).collect();
    let notation = format!("*(w0);{sweeps} *(r{})", 1 - SERIES % 2);
    let test: MarchTest = notation.parse().map_err(|error| format!("{error}"))?;
    let executor = Executor { engine, settings: MarchSettings::new(Method::FlushBehind) };
    let cell =
        measure(executor, &allowed_cpus(1)?, Cut::Blocks(Bytes::from_mib(64)), &test, AddressSequence::Sequential);
    Ok(cell.rate * f64::from(SERIES))
}

struct Cell {
    rate: f64,
    limit: f64,
}

fn allowed_cpus(cores: usize) -> Result<Vec<CpuNumber>, String> {
    let topology = rampart_linux::Topology::read(&rampart_linux::Roots::default());
    let cpus: Vec<CpuNumber> = topology.allowed.into_iter().take(cores).collect();
    if cpus.len() < cores { Err(format!("this machine has no {cores} CPUs")) } else { Ok(cpus) }
}

/// All methods, each in both address sequences; the limit is measured in turn with each.
fn measure_row(engine: MarchEngine, cpus: &[CpuNumber], cut: Cut, test: &MarchTest) -> Vec<Cell> {
    let mut row = Vec::new();
    for method in Method::ALL {
        let executor = Executor { engine, settings: MarchSettings::new(method) };
        let sequential = measure(executor, cpus, cut, test, AddressSequence::Sequential);
        if matches!(cut, Cut::RandomFrames) {
            row.push(sequential);
            continue;
        }
        let strided = measure(executor, cpus, cut, test, AddressSequence::Strided);
        let both = one_after_the_other(&sequential, &strided);
        row.extend([sequential, strided, both]);
    }
    row
}

/// Both address sequences, as `rampart test` runs them by default.
fn one_after_the_other(one: &Cell, other: &Cell) -> Cell {
    let combined = |one: f64, other: f64| (one.recip() + other.recip()).recip();
    Cell { rate: combined(one.rate, other.rate), limit: combined(one.limit, other.limit) }
}

/// All cores at once, each on its own memory.
fn measure(executor: Executor, cpus: &[CpuNumber], cut: Cut, test: &MarchTest, order: AddressSequence) -> Cell {
    let pass = Pass { test: test.clone(), background: Background::solid(), order, aim: Aim::BetweenLines };
    let together = Barrier::new(cpus.len());
    let cells: Vec<Cell> = thread::scope(|scope| {
        let core = |&cpu| {
            let (pass, together) = (&pass, &together);
            scope.spawn(move || on_one_core(executor, cpu, cut, pass, together))
        };
        let cores: Vec<_> = cpus.iter().map(core).collect();
        cores.into_iter().map(|core| core.join().expect("no panic")).collect()
    });
    Cell { rate: cells.iter().map(|cell| cell.rate).sum(), limit: cells.iter().map(|cell| cell.limit).sum() }
}

fn on_one_core(executor: Executor, on: CpuNumber, cut: Cut, pass: &Pass, together: &Barrier) -> Cell {
    cpu::bind(on).expect("an allowed CPU");
    let kind = if matches!(cut, Cut::RandomFrames) { PageKind::Base } else { PageKind::Huge };
    let mut block = Block::claim(MEMORY, kind).expect("memory for the bench");
    let pages = shuffled_pages(&block);
    let (mut rates, mut limits) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        together.wait();
        let limit = Limit::measure(executor.engine, &mut Region::from(&mut block));
        limits.push(limit.of(pass.test.reads(), pass.test.writes()));
        together.wait();
        let start = Instant::now();
        let bytes = sweep(executor, &mut block, &pages, cut, pass);
        rates.push(bytes as f64 / start.elapsed().as_secs_f64());
    }
    Cell { rate: median(rates), limit: median(limits) }
}

/// One pass over the memory, piece by piece. Returns the bytes tested.
fn sweep(executor: Executor, block: &mut Block, pages: &[NonNull<u8>], cut: Cut, pass: &Pass) -> u64 {
    let lines = block.bytes().get() / rampart_memory::LINE_BYTES;
    match cut {
        Cut::Blocks(bytes) => {
            let each = bytes.get() / rampart_memory::LINE_BYTES;
            for first in (0..lines).step_by(usize::try_from(each).expect("small")) {
                let offset = usize::try_from(first * rampart_memory::LINE_BYTES).expect("inside a block");
                // SAFETY: 1. the part lies in the block, which is private memory of this process, present until it is
                // dropped;
                // 2. the block is borrowed mutably here and no other region of it lives; 3. nobody has a reference to
                //    it.
                let mut region = unsafe { Region::from_raw(block.base().add(offset), each) };
                executor.run(&mut region, pass, None, &mut Quiet);
            }
        }
        Cut::RandomFrames => {
            for batch in pages.chunks(BATCH) {
                // SAFETY: as above, for each page; the list is a permutation of the block's pages, so none is in it
                // twice.
                let mut region = unsafe { Region::from_pages(batch) };
                executor.run(&mut region, pass, None, &mut Quiet);
            }
        }
    }
    block.bytes().get()
}

/// The block's pages in an order that no prefetcher predicts, the same each time.
fn shuffled_pages(block: &Block) -> Vec<NonNull<u8>> {
    let count = usize::try_from(block.pages()).expect("pages of a block");
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = 88_172_645_463_325_252_u64;
    for last in (1..count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(last, usize::try_from(state % (last as u64 + 1)).expect("an index"));
    }
    // SAFETY: each page lies in the block.
    order.into_iter().map(|page| unsafe { block.base().add(page * 4096) }).collect()
}

fn print_row(name: &str, cut: Cut, row: &[Cell]) {
    let cut = match cut {
        Cut::Blocks(bytes) => bytes.to_string(),
        Cut::RandomFrames => "frames".to_owned(),
    };
    print!("{:<21}", format!("{name}, {cut}"));
    let shown = |cell: &Cell| format!("{:>6.2} {:>3.0} %", cell.rate / 1e9, 100.0 * cell.rate / cell.limit);
    let width = 12 * (9 / row.len());
    println!("{}", row.iter().map(|cell| format!("{:<width$}", format!("{:>12}", shown(cell)))).collect::<String>());
}

/// Two cores compared with one, by the best cell of each row.
fn scaling(rows: &[(usize, Vec<Cell>)]) {
    let best = |cores: usize| -> Vec<f64> {
        let of = rows.iter().filter(|(known, _)| *known == cores);
        of.map(|(_, row)| row.iter().map(|cell| cell.rate).fold(0.0, f64::max)).collect()
    };
    let ratios: Vec<f64> = best(1).iter().zip(best(2)).map(|(one, two)| two / one).collect();
    println!("two cores beside one, each row's best: {}", list(&ratios));
}

fn list(ratios: &[f64]) -> String {
    ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(" ")
}

fn beside_peers(one_pattern: f64, series: f64) {
    match peers::memtester(3) {
        Some(theirs) => {
            println!("memtester, one core, {SERIES} patterns in a series: {:.2} GB/s a pattern", theirs / 1e9);
            for (what, ours) in [("the same series", series), ("one pattern alone", one_pattern)] {
                println!("ours, {what}: {:.2} GB/s a pattern, {:.2} times memtester", ours / 1e9, ours / theirs);
            }
        }
        None => println!("memtester is not installed: apt-get install memtester"),
    }
    match peers::stressapptest() {
        Some(theirs) => println!("stressapptest copies {:.2} GB/s with one thread", theirs / 1e9),
        None => println!("stressapptest is not installed: apt-get install stressapptest"),
    }
}
