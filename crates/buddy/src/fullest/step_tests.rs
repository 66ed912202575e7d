//! How many words an operation looks at, at most, and what it changes in the usual case.

use rampart_memory::FrameBlock;

use super::counted::{AtomicCounts, counted};
use super::*;
use crate::Migratetype::{Movable, Unmovable};
use crate::ZoneKind::Normal;
use crate::testing::{block, request, zone};

fn on<T>(frames: u64, cpus: u32, bank: u64, test: impl FnOnce(&FullestBank<'_>) -> T) -> T {
    let zones = [zone(0, Normal, 0, frames)];
    let bank = BankSize::of_frames(bank).unwrap();
    let mut slices = FullestSlices::of(&zones, cpus, bank);
    let mut vacant = slices.vacant_zones();
    let memory = slices.lend(&mut vacant);
    test(&FullestBank::new(&zones, cpus, bank, &BankSets::plain(), memory).unwrap())
}

/// Returns the most words that an operation of a thread that is alone looks at. A look at a broken chunk takes at most
/// 8 + 8 words, and 8 more if it is taken or left: 24 with its bits. A search by hints looks at 128 broken chunks of
/// 16 units; there are five of them, and one where the CPU was last. The one by bits looks at each chunk twice at most.
/// Each search walks over the groups and the parts four times, the two for the emptiest bank also at four counts of
/// each group, and a bank that changes hands looks at each CPU. All of it is done for the low watermark and for the one
/// below.
fn most_looks(machine: &FullestBank<'_>) -> u64 {
    let memory = machine.zones[0].memory;
    let [chunks, groups, parts, cpus] =
        [memory.words.len(), memory.groups.len(), memory.parts.len(), memory.cpus.len()].map(|count| count as u64);
    let hinted = 6 * chunks.min(16 * 128);
    2 * (24 * (hinted + 2 * chunks) + 6 * 8 * (groups + parts) + 8 * groups + 4 * parts * cpus) + 200
}

/// A generator by Knuth (MMIX).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Allocates, frees and claims at random, and returns the most words that one operation of each kind looked at.
fn most_seen(machine: &FullestBank<'_>, frames: u64, cpus: u32, spare: usize) -> [u64; 3] {
    let mut random = 7;
    let mut held: Vec<FrameBlock> = Vec::new();
    let mut most = [0; 3];
    let mut note = |kind: usize, counts: AtomicCounts| most[kind] = most[kind].max(counts.looks);
    for _ in 0..40_000 {
        let draw = next(&mut random);
        let cpu = Cpu(u32::try_from(draw % u64::from(cpus)).unwrap());
        let is_full = machine.free_frames(ZoneIndex(0)) <= spare as u64;
        match draw / 8 % 8 {
            0..=3 => {
                let number = [0, 0, 0, 3, 6, 8, 9, 10][usize::try_from(next(&mut random) % 8).unwrap()];
                let migratetype = if draw & 4096 == 0 { Movable } else { Unmovable };
                let asked = Request { cpu, urgent: draw & 8192 == 0, ..request(number, migratetype) };
                let (counts, block) = counted(|| machine.allocate(asked));
                note(0, counts);
                held.extend(block);
            }
            4 => {
                let number = [0, 3, 9, 10][usize::try_from(next(&mut random) % 4).unwrap()];
                let first = ((next(&mut random) % frames) >> number) << number;
                let block = block(first, number);
                let (counts, claimed) = counted(|| machine.claim(block));
                note(2, counts);
                held.extend(claimed.then_some(block));
            }
            kind if !held.is_empty() && (kind > 5 || is_full) => {
                let place = usize::try_from(next(&mut random)).unwrap() % held.len();
                let block = held.swap_remove(place);
                let (counts, ()) = counted(|| machine.free(block, cpu));
                note(1, counts);
            }
            _ => {
                let (counts, block) = counted(|| machine.allocate(Request { cpu, ..request(0, Movable) }));
                note(0, counts);
                held.extend(block);
            }
        }
    }
    most
}

#[test]
fn an_operation_looks_at_no_more_words_than_the_bound() {
    for (banks, bank, cpus) in [(1, 1024, 1), (6, 2048, 2), (4, 4096, 8), (3, 65_536, 2)] {
        on(banks * bank, cpus, bank, |machine| {
            let seen = most_seen(machine, banks * bank, cpus, 64);
            let bound = most_looks(machine);
            println!("{banks} banks of {bank} frames, {cpus} CPUs: {seen:?} of {bound}");
            assert!(seen.iter().all(|&seen| seen <= bound), "{seen:?} of {bound}");
        });
    }
}

/// The memory is nearly full, every second frame is free, and a block of two is wanted: all is looked at in vain.
#[test]
fn a_refused_request_looks_at_no_more_words_than_the_bound() {
    let frames = 16 * 2048;
    on(frames, 2, 2048, |machine| {
        let all: Vec<FrameBlock> =
            std::iter::from_fn(|| machine.allocate(Request { urgent: true, ..request(0, Movable) })).collect();
        assert_eq!(all.len() as u64, frames);
        all.iter().filter(|block| block.first().number() % 2 == 1).for_each(|block| machine.free(*block, Cpu(0)));
        for number in [1, 6, 9, 10] {
            let asked = Request { urgent: true, ..request(number, Unmovable) };
            let (counts, block) = counted(|| machine.allocate(asked));
            assert_eq!(block, None);
            println!("order {number}: {counts:?} of {}", most_looks(machine));
            assert!(counts.looks <= most_looks(machine));
        }
    });
}

/// Returns the sum of what these operations do.
fn sum(counts: impl Iterator<Item = AtomicCounts>) -> AtomicCounts {
    counts.fold(AtomicCounts::default(), |sum, one| AtomicCounts {
        looks: sum.looks + one.looks,
        changes: sum.changes + one.changes,
        lines: sum.lines + one.lines,
    })
}

/// Atomic operations and cache lines written, for each operation of the loops of `bench banks`: half of the memory is
/// allocated, one block after the other, and freed in random order.
#[test]
fn a_usual_operation_changes_little_more_than_one_word_by_an_atomic_operation() {
    for (number, bank) in [(0_u8, 65_536_u64), (9, 65_536)] {
        let frames = 32 * 65_536;
        on(frames, 2, bank, |machine| {
            let count = usize::try_from((frames / 4) >> number).unwrap();
            let mut held = Vec::new();
            let allocate = || {
                let (counts, block) = counted(|| machine.allocate(request(number, Movable)));
                held.extend(block);
                counts
            };
            let allocated = sum(std::iter::repeat_with(allocate).take(count));
            let mut random = 3;
            for last in (1..held.len()).rev() {
                held.swap(last, usize::try_from(next(&mut random)).unwrap() % (last + 1));
            }
            let freed = sum(held.iter().map(|block| counted(|| machine.free(*block, Cpu(0))).0));
            for (name, sum) in [("allocate", allocated), ("free", freed)] {
                let each = |of: u64| of as f64 / count as f64;
                let (changes, lines) = (each(sum.changes), each(sum.lines));
                println!("order {number}: {name}: {changes:.3} atomic operations, {lines:.3} cache lines written");
                assert!(changes < 1.25 && lines < 2.3, "{name}: {changes} and {lines}");
            }
        });
    }
}
