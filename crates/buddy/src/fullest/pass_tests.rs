//! How many cache lines pass from one CPU to the other in an operation, where two CPUs share all of the memory.
//!
//! **Problem.** With two threads the slowest operations take several times as long on some days as on others. **Idea.**
//! A line that another CPU has changed takes long to come, and how long depends on where the CPUs are; how many such
//! lines an operation touches does not. Here two CPUs take turns, so every line that one changes is missing to the
//! other. **Why this way.** It is as bad as it can be, and the same on every machine.

use std::collections::HashMap;

use rampart_memory::FrameBlock;

use super::counted::{LineTouch, counted, touched};
use super::*;
use crate::Migratetype::Movable;
use crate::ZoneKind::Normal;
use crate::testing::{request, zone};

/// 8 GiB, as in `bench banks`, with banks of 256 MiB.
const FRAMES: u64 = 2 << 20;
const BANK: u64 = 65_536;

const OPERATIONS: usize = 1 << 17;

/// Which of two CPUs have each cache line, a bit each; a CPU that changes one takes it from the other.
#[derive(Default)]
struct Caches(HashMap<usize, u8>);

impl Caches {
    /// Returns how often a line passes to this CPU.
    fn passes(&mut self, cpu: usize, touched: &[LineTouch]) -> usize {
        let own = 1_u8 << cpu;
        let mut pass = |touch: &&LineTouch| {
            let having = self.0.entry(touch.line).or_insert(own);
            let passes = if touch.writes { *having != own } else { *having & own == 0 };
            *having = if touch.writes { own } else { *having | own };
            passes
        };
        touched.iter().filter(|touch| pass(touch)).count()
    }
}

/// A generator by Marsaglia (xorshift64).
fn below(state: &mut u64, end: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    usize::try_from(*state % end as u64).unwrap()
}

/// Half of the memory is in use, and the CPUs take turns: in each, one frees a burst of random blocks of its own and
/// allocates as many. Returns the passes of each allocation and of each free, ascending.
fn passes(machine: &FullestBank<'_>, number: u8, burst: usize) -> [Vec<usize>; 2] {
    let asked = |cpu| Request { cpu, ..request(number, Movable) };
    let cpus = [Cpu(0), Cpu(1)];
    let mut held: [Vec<FrameBlock>; 2] = Default::default();
    for place in 0..usize::try_from((FRAMES / 2) >> number).unwrap() {
        held[place % 2].push(machine.allocate(asked(cpus[place % 2])).unwrap());
    }
    let (mut random, mut caches) = (0x9e37_79b9_7f4a_7c15, Caches::default());
    let mut passes = [Vec::new(), Vec::new()];
    let turns = 2 * OPERATIONS / burst;
    for turn in 0..turns {
        let cpu = turn % 2;
        let (mut allocated, mut freed) = (Vec::new(), Vec::new());
        for _ in 0..burst {
            let place = below(&mut random, held[cpu].len());
            let old = held[cpu].swap_remove(place);
            counted(|| machine.free(old, cpus[cpu]));
            freed.push(caches.passes(cpu, &touched()));
        }
        for _ in 0..burst {
            held[cpu].push(counted(|| machine.allocate(asked(cpus[cpu]))).1.unwrap());
            allocated.push(caches.passes(cpu, &touched()));
        }
        // The first half brings the machine to the state that lasts.
        if turn >= turns / 2 {
            passes[0].extend(allocated);
            passes[1].extend(freed);
        }
    }
    passes.iter_mut().for_each(|passes| passes.sort_unstable());
    passes
}

/// `cargo test -p rampart-buddy cache_lines_pass -- --nocapture` prints the counts. What the lock of the lists of banks
/// guards is not counted, but the lock is.
#[test]
fn few_cache_lines_pass_between_two_cpus_that_take_turns() {
    let (zones, bank) = ([zone(0, Normal, 0, FRAMES)], BankSize::of_frames(BANK).unwrap());
    for (number, burst, most) in [(0, 1, [8, 7]), (9, 1, [0, 3]), (9, 8, [9, 5])] {
        let mut slices = FullestSlices::of(&zones, 2, bank);
        let mut vacant = slices.vacant_zones();
        let memory = slices.lend(&mut vacant);
        let machine = FullestBank::new(&zones, 2, bank, &BankSets::plain(), memory).unwrap();
        let operations = ["allocate", "free"].into_iter().zip(passes(&machine, number, burst)).zip(most);
        for ((name, all), most) in operations {
            let of = |of_1000: usize| all[(all.len() - 1) * of_1000 / 1000];
            let [half, nine, two_nines, three_nines] = [500, 900, 990, 999].map(of);
            println!(
                "order {number}, bursts of {burst}: {name}: 50 % {half}, 90 % {nine}, 99 % {two_nines}, 99.9 % \
                 {three_nines} lines"
            );
            assert!(three_nines <= most, "{three_nines} of {most}");
        }
    }
}
