//! Nanoseconds per allocation and free of our page allocators, beside LLFree and a lock-based buddy allocator.
//!
//! Each allocator manages 8 GiB in one zone, with banks of 256 MiB where it knows banks. All take turns. Before that,
//! [Panwar15, tables 4.2 and 6.1], and how often the cache of `ListBanks` helps.

mod atomics;
mod cache;
mod figures;
mod guests;
mod line_passes;
mod loops;
mod structures;
mod successive;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use buddy_system_allocator::FrameAllocator;
use rampart_buddy::{
    AdaptiveBuddy, ArrayBanks, BankSets, BankSize, Buddy, Cpu, FullestBank, FullestSlices, ListBanks, Locked,
    Migratetype, PageAllocator, Request, StealRule, Zone, ZoneKind,
};
use rampart_linux::cpu::{CpuNumber, bind};
use rampart_memory::{BlockOrder, Frame, FrameBlock, FrameRange, Node};

use crate::median::median;
use atomics::AtomicsPerOperation;
use loops::{BURST, NUMBERS, Pages, Times};
use successive::Successor;

/// Frames of the machine: 8 GiB.
const FRAMES: usize = 2 << 20;

/// 256 MiB.
const BANK: BankSize = BankSize::of_frames(65_536).expect("a power of two");

const CPUS: u32 = 2;

/// Each allocator has so many turns.
const TURNS: usize = 10;

struct Shared<A>(A);

impl<A: PageAllocator> Pages for Shared<A> {
    fn get(&self, order: u8, cpu: u32) -> Option<u64> {
        let order = BlockOrder::new(order).expect("a good order");
        let request = Request { order, migratetype: Migratetype::Movable, cpu: Cpu(cpu), node: Node(0), urgent: false };
        self.0.allocate(request).map(|block| block.first().number())
    }

    fn put(&self, first: u64, order: u8, cpu: u32) {
        let block = Frame::new(first).and_then(|first| FrameBlock::new(first, BlockOrder::new(order)?));
        self.0.free(block.expect("a block that it gave"), Cpu(cpu));
    }
}

/// `buddy_system_allocator`, whose frame allocator has no lock of its own.
struct Plain(Mutex<FrameAllocator<12>>);

impl Pages for Plain {
    fn get(&self, order: u8, _: u32) -> Option<u64> {
        self.0.lock().expect("no thread panics").alloc(1 << order).map(|first| first as u64)
    }

    fn put(&self, first: u64, order: u8, _: u32) {
        let first = usize::try_from(first).expect("a frame of the machine");
        self.0.lock().expect("no thread panics").dealloc(first, 1 << order);
    }
}

fn pin(cpu: u32) {
    if let Err(error) = bind(CpuNumber(cpu)) {
        eprintln!("bench: a thread is not pinned: {error}");
    }
}

fn zones() -> [Zone; 1] {
    zones_of(FRAMES)
}

/// Returns a machine of so many frames in one zone.
fn zones_of(frames: usize) -> [Zone; 1] {
    let frames = Frame::new(0).and_then(|first| FrameRange::new(first, frames as u64));
    [Zone { node: Node(0), kind: ZoneKind::Normal, frames: frames.expect("a machine has frames") }]
}

fn fullest(case: (u8, u32)) -> Times {
    let mut slices = FullestSlices::of(&zones(), CPUS, BANK);
    let mut vacant = slices.vacant_zones();
    let memory = slices.lend(&mut vacant);
    let allocator = FullestBank::new(&zones(), CPUS, BANK, &BankSets::plain(), memory).expect("a good machine");
    loops::measure(&Shared(allocator), FRAMES, case, pin)
}

fn without_local_lists(case: (u8, u32)) -> Times {
    let buddy = Buddy::without_local_lists(&zones(), ()).expect("a good machine");
    loops::measure(&Shared(Locked::new(buddy)), FRAMES, case, pin)
}

fn linux(case: (u8, u32)) -> Times {
    let buddy = Buddy::new(&zones(), CPUS, ()).expect("a good machine");
    loops::measure(&Shared(Locked::new(buddy)), FRAMES, case, pin)
}

fn plain(case: (u8, u32)) -> Times {
    let mut frames = FrameAllocator::new();
    frames.add_frame(0, FRAMES);
    loops::measure(&Plain(Mutex::new(frames)), FRAMES, case, pin)
}

/// The allocators of table 6.1, each with how a machine of 32 GiB is made and lent.
const SUCCESSIVE: [Successor; 5] = [
    ("Buddy, with lists of CPUs", |recorder| {
        recorder.run(&Shared(Locked::new(Buddy::new(&zones_of(4 * FRAMES), CPUS, ()).expect("a good machine"))));
    }),
    ("ArrayBanks", |recorder| {
        recorder.run(&Shared(ArrayBanks::new(&zones_of(4 * FRAMES), BANK).expect("a good machine")));
    }),
    ("ListBanks", |recorder| {
        recorder.run(&Shared(ListBanks::new(&zones_of(4 * FRAMES), BANK).expect("a good machine")));
    }),
    ("AdaptiveBuddy", |recorder| {
        let adaptive = AdaptiveBuddy::new(&zones_of(4 * FRAMES), BANK, &BankSets::plain(), StealRule::MostFree);
        recorder.run(&Shared(adaptive.expect("a good machine")));
    }),
    ("FullestBank", |recorder| {
        let zones = zones_of(4 * FRAMES);
        let mut slices = FullestSlices::of(&zones, CPUS, BANK);
        let mut vacant = slices.vacant_zones();
        let memory = slices.lend(&mut vacant);
        recorder
            .run(&Shared(FullestBank::new(&zones, CPUS, BANK, &BankSets::plain(), memory).expect("a good machine")));
    }),
];

/// `[tables|guests [FOLDER]|figures|LLFREE [ORDER]]` only what stands beside [Panwar15, tables 4.2 and 6.1], the table
/// of the files that `tests/qemu/banks` wrote, simulations and their figures, or the folder of LLFree's source; with an
/// order, blocks of that alone are measured, and there are no tables.
pub fn run(arguments: &[String]) -> Result<(), String> {
    match arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("guests", folder)) => {
            return guests::print(Path::new(folder.first().map_or("docs/figures/banks/guests", String::as_str)));
        }
        Some(("figures", rest)) => return figures::run(rest),
        Some((llfree, [order])) => {
            let order = order.parse().map_err(|_| format!("{order}: an order is a number"))?;
            return measure(Some(Path::new(llfree)), Some(order));
        }
        _ => {}
    }
    structures::print();
    cache::print(&zones(), BANK);
    // A thread of its own is pinned, not the one that starts others.
    let successive = || {
        pin(0);
        successive::print(&SUCCESSIVE);
    };
    std::thread::scope(|scope| scope.spawn(successive).join()).map_err(|_| String::from("a measured loop panicked"))?;
    if arguments.first().is_some_and(|only| only == "tables") {
        return Ok(());
    }
    measure(arguments.first().map(Path::new), None)
}

/// Measures an allocator of its own with blocks of an order and so many threads.
type MeasureCase = fn((u8, u32)) -> Times;

/// The allocators of the table, each with how it is measured; the first is compared with LLFree.
const OWN: [(&str, MeasureCase); 4] = [
    ("FullestBank", fullest),
    ("Buddy, with lists of CPUs", linux),
    ("Buddy, without them", without_local_lists),
    ("buddy_system_allocator", plain),
];

/// What can be measured: the order, and the number of threads.
const CASES: [(u8, u32); 4] = [(0, 1), (0, 2), (9, 1), (9, 2)];

/// Measures the allocators, LLFree too if the folder of its source is given, with blocks of all orders or of one, and
/// prints the times.
fn measure(llfree: Option<&Path>, order: Option<u8>) -> Result<(), String> {
    let cases: Vec<_> = CASES.into_iter().filter(|case| order.is_none_or(|only| only == case.0)).collect();
    if cases.is_empty() {
        return Err(String::from("blocks of order 0 or 9 are measured"));
    }
    let atomics = atomics::count()?;
    let peer = llfree.map(build).transpose()?;
    let mut names = OWN.map(|(name, _)| name).to_vec();
    names.extend(peer.is_some().then_some("LLFree"));
    let mut times = vec![vec![Vec::new(); cases.len()]; names.len()];
    let mut line_passes = Vec::new();
    for turn in 0..TURNS {
        for (place, &case) in cases.iter().enumerate() {
            for (allocator, (_, measure)) in OWN.into_iter().enumerate() {
                times[allocator][place].push(measure(case));
                // One right after the other, for a ratio that the rest of the machine changes least.
                if let Some(peer) = peer.as_ref().filter(|_| allocator == 0) {
                    times[OWN.len()][place].push(measure_peer(peer, case)?);
                }
            }
        }
        line_passes.push(line_passes::measure(pin));
        eprint!("\r{} of {TURNS} turns", turn + 1);
    }
    eprintln!();
    line_passes::print(line_passes);
    print(&cases, &names, &times, &atomics);
    Ok(())
}

fn print(cases: &[(u8, u32)], names: &[&str], times: &[Vec<Vec<Times>>], atomics: &[AtomicsPerOperation]) {
    println!("8 GiB, banks of 256 MiB; ns per operation and thread: median [least, most] of {TURNS} turns.");
    println!(
        "Slowest: 99.9 % of the operations take less, where each allocation follows a random free. Without 99.9 %"
    );
    println!("of an empty timed loop, which as many threads ran at once; that is *nothing*.");
    println!("In bursts: the same, with {BURST} frees and then as many allocations at a time.");
    println!("Atomics, lines: atomic operations, and cache lines written, of one thread on any machine.");
    for (place, &(order, threads)) in cases.iter().enumerate() {
        println!("\norder {order}, {threads} {}", if threads == 1 { "thread" } else { "threads" });
        for (name, times) in names.iter().zip(times) {
            let show = |of: fn(&Times) -> f64| {
                let mut all: Vec<f64> = times[place].iter().map(of).collect();
                all.sort_unstable_by(f64::total_cmp);
                format!("{:7.1} [{:.1}, {:.1}]", median(all.clone()), all[0], all[all.len() - 1])
            };
            let (allocate, free) = (show(|t| t.allocate), show(|t| t.free));
            println!("  {name:26} allocate {allocate:24} free {free}");
            let slowest = [show(|t| t.slowest_allocate), show(|t| t.slowest_free), show(|t| t.slowest_nothing)];
            println!("  {:26} slowest: allocate {:24} free {:24} nothing {}", "", slowest[0], slowest[1], slowest[2]);
            let (allocate, free) = (show(|t| t.slowest_allocate_in_bursts), show(|t| t.slowest_free_in_bursts));
            println!("  {:26} in bursts: allocate {allocate:22} free {free}", "");
            if *name == "FullestBank" {
                print_atomics(order, atomics);
            }
        }
        if let [ours, .., theirs] = times
            && names.contains(&"LLFree")
        {
            let ratio = |of: fn(&Times) -> f64| {
                let pairs = ours[place].iter().zip(&theirs[place]).map(|(ours, theirs)| of(ours) / of(theirs));
                median(pairs.collect())
            };
            println!(
                "  FullestBank / LLFree       allocate {:.2}  free {:.2}",
                ratio(|t| t.allocate),
                ratio(|t| t.free)
            );
        }
    }
}

fn print_atomics(order: u8, atomics: &[AtomicsPerOperation]) {
    print!("  {:26}", "");
    for of in atomics.iter().filter(|of| of.order == order) {
        let count = format!("{:.2} atomics, {:.2} lines", of.atomics, of.lines);
        print!(" {} {count:24}", of.operation);
    }
    println!();
}

/// Builds a program that measures LLFree, from its source.
fn build(llfree: &Path) -> Result<PathBuf, String> {
    let source = llfree.join("core").canonicalize().map_err(|error| format!("{}: {error}", llfree.display()))?;
    let folder = std::env::temp_dir().join("rampart-bench-llfree");
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(&folder)).map_err(|error| error.to_string())?;
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    write(
        "Cargo.toml",
        &format!(
            "[package]\nname = \"llfree-driver\"\nedition = \"2024\"\n\n[dependencies]\nlibc = \"0.2\"\n\
             llfree = {{ path = {source:?}, features = [\"std\"] }}\n\n\
             [profile.release]\nlto = \"fat\"\ncodegen-units = 1\n\n[workspace]\n"
        ),
    )?;
    write("src/main.rs", include_str!("llfree_driver.rs"))?;
    write("src/loops.rs", include_str!("loops.rs"))?;
    // Its own build uses instructions that only some machines have; so may this one.
    let native = "-C target-cpu=native";
    let mut cargo = Command::new("cargo");
    let built = cargo
        .args(["build", "--release", "--target-dir", "target"])
        .env("RUSTFLAGS", native)
        .current_dir(&folder)
        .status();
    if !built.map_err(|error| error.to_string())?.success() {
        return Err(String::from("LLFree cannot be built: give the folder of a clone of github.com/luhsra/llfree-rs"));
    }
    Ok(folder.join("target/release/llfree-driver"))
}

fn measure_peer(program: &Path, (order, threads): (u8, u32)) -> Result<Times, String> {
    let arguments = [FRAMES.to_string(), order.to_string(), threads.to_string()];
    let output = Command::new(program).args(arguments).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().map_while(|number| number.parse().ok()).collect();
    let times = <[f64; NUMBERS]>::try_from(numbers).map_err(|_| format!("LLFree's program failed: {text}"))?;
    Ok(Times::of(times))
}
