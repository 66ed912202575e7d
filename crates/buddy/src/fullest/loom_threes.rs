//! Three threads on one shared word, in every schedule and without a bound of preemptions; and on a whole bank, with
//! one.

use loom::model::Builder;
use loom::thread;
use std::sync::Arc;

use super::group::GroupState;
use super::part::CHUNK_FRAMES;
use super::small::{check, machine, urgent};
use super::*;
use crate::Migratetype::{Movable, Unmovable};
use crate::testing::{block, order};

/// Runs three threads in every schedule with at most so many preemptions, if there is a bound, and then a check.
fn explore<S: Send + Sync + 'static>(
    bound: Option<usize>,
    begin: impl Fn() -> S + Send + Sync + 'static,
    threads: [fn(&S); 3],
    end: fn(&S),
) {
    let mut builder = Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = bound;
    let executions = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = Arc::clone(&executions);
    builder.check(move || {
        count.fetch_add(1, Relaxed);
        let shared = Arc::new(begin());
        let [one, two, three] = threads;
        let spawned = [one, two].map(|run| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || run(&shared))
        });
        three(&shared);
        spawned.into_iter().for_each(|thread| thread.join().unwrap());
        end(&shared);
    });
    println!("{} executions", executions.load(Relaxed));
}

/// A group with two whole chunks, known to all threads.
fn group() -> GroupState {
    let group = GroupState::default();
    group.begin();
    group.make_whole(1);
    group.make_whole(2);
    group.settle();
    group
}

#[test]
fn three_threads_take_chunks_of_a_group_and_one_gives_its_own_back() {
    type Shared = (GroupState, std::sync::atomic::AtomicU32);
    let keep = |(group, kept): &Shared| {
        kept.fetch_add(group.take_first(false).map_or(0, |_| 1), Relaxed);
    };
    let give_back = |(group, _): &Shared| {
        if let Some(place) = group.take_first(false) {
            assert!(group.give(1 << place).is_some(), "who took it has it");
        }
    };
    let begin = || (group(), std::sync::atomic::AtomicU32::new(0));
    explore(None, begin, [keep, keep, give_back], |(group, kept)| {
        let kept = kept.load(Relaxed);
        assert!(kept > 0 && group.whole().count_ones() + kept == 2, "no chunk is lost or taken twice");
    });
}

#[test]
fn two_chunks_are_taken_as_one_block_while_each_is_taken_alone() {
    let alone = |group: &GroupState| {
        if let Some(place) = group.take_first(false) {
            assert!(group.give(1 << place).is_some());
        }
    };
    let both = |group: &GroupState| {
        if group.take_first(true).is_some() {
            assert!(group.whole() == 0 && group.give(3) == Some(3), "nobody else has them");
        }
    };
    explore(None, group, [alone, both, both], |group| assert_eq!(group.whole(), 3));
}

#[test]
fn a_chunk_is_broken_by_one_of_three_threads() {
    let take = |group: &GroupState| {
        if group.take(1) {
            assert!(!group.break_whole(1), "it is not whole");
            assert!(group.give(1).is_some());
        }
    };
    let mend = |group: &GroupState| {
        if group.break_whole(1) {
            assert!(!group.take(1) && group.give(1).is_none(), "nobody has it as a whole");
            assert!(group.make_whole(1));
        }
    };
    explore(None, group, [take, mend, mend], |group| assert_eq!(group.whole(), 3));
}

#[test]
fn three_threads_offer_and_count_in_a_group() {
    let offer = |group: &GroupState| {
        group.offer(1, true);
        group.count(3);
    };
    let take_back = |group: &GroupState| {
        group.count(-3);
        group.offer(2, true);
        group.offer(2, false);
    };
    explore(None, group, [offer, take_back, offer], |group| {
        assert_eq!((group.some(), group.free()), (1, 2 * CHUNK_FRAMES as i64 + 3));
    });
}

/// A machine of one bank with the frames 0 and 1 free of a word, and nothing else.
fn two_frames() -> &'static FullestBank<'static> {
    let machine = machine(1, 3);
    assert!(machine.claim(block(512, 9)));
    (1..8).for_each(|word| assert!(machine.claim(block(word * 64, 6))));
    (1..6).for_each(|number| assert!(machine.claim(block(1 << number, number))));
    machine
}

#[test]
fn three_threads_take_frames_of_a_word_with_two() {
    let taken = Arc::new(std::sync::Mutex::new(Vec::new()));
    type Word = (&'static FullestBank<'static>, Arc<std::sync::Mutex<Vec<usize>>>);
    let take = |(machine, taken): &Word| {
        let slot = machine.zones[0].take_in_word(0, order(0));
        taken.lock().unwrap().extend(slot);
    };
    let begin = move || {
        taken.lock().unwrap().clear();
        (two_frames(), Arc::clone(&taken))
    };
    explore(None, begin, [take, take, take], |(_, taken)| {
        let mut taken = taken.lock().unwrap().clone();
        taken.sort_unstable();
        assert_eq!(taken, [0, 1], "each is taken once, and one thread finds none");
    });
}

/// Preemptions of three threads on a whole bank: each scans its words, so more take too long.
const BOUND: Option<usize> = Some(2);

#[test]
fn a_page_is_taken_claimed_and_freed_by_three_threads() {
    explore(
        BOUND,
        two_frames,
        [
            |machine| {
                let page = machine.allocate(urgent(0, Movable, 0));
                page.into_iter().for_each(|page| machine.free(page, Cpu(0)));
            },
            |machine| {
                if machine.claim(block(1, 0)) {
                    machine.free(block(1, 0), Cpu(1));
                }
            },
            |machine| machine.free(block(2, 1), Cpu(2)),
        ],
        |machine| assert_eq!(machine.free_frames(ZoneIndex(0)), 4),
    );
}

#[test]
fn a_bank_is_emptied_isolated_and_claimed_by_three_threads() {
    let begin = || {
        let machine = machine(1, 3);
        assert!(machine.claim(block(0, 9)));
        machine
    };
    explore(
        BOUND,
        begin,
        [
            |machine| machine.free(block(0, 9), Cpu(0)),
            |machine| {
                if machine.isolate(0) {
                    machine.rejoin(0);
                }
            },
            |machine| {
                assert!(machine.claim(block(512, 9)), "it is free all the time");
                machine.free(block(512, 9), Cpu(2));
            },
        ],
        |machine| {
            check(machine, &[], &[]);
            assert_eq!(machine.part(0).pool, BankPool::Offline, "all of it is free");
        },
    );
}

type Bank = (&'static FullestBank<'static>, std::sync::Mutex<Vec<(FrameBlock, crate::Migratetype)>>);

fn take_in((machine, held): &Bank, number: u8, migratetype: crate::Migratetype, cpu: u32) {
    let block = machine.allocate(urgent(number, migratetype, cpu));
    held.lock().unwrap().extend(block.map(|block| (block, migratetype)));
}

#[test]
fn the_last_chunk_is_taken_by_one_of_three_threads() {
    let begin = || {
        let machine = machine(1, 3);
        assert!(machine.claim(block(512, 9)));
        (machine, std::sync::Mutex::new(Vec::new()))
    };
    explore(
        Some(1),
        begin,
        [
            |bank| take_in(bank, 9, Movable, 0),
            |bank| take_in(bank, 9, Unmovable, 1),
            |bank| take_in(bank, 9, Movable, 2),
        ],
        |(machine, held)| {
            let mut held = held.lock().unwrap().clone();
            assert_eq!(held.len(), 1, "there is one chunk");
            held.push((block(512, 9), Movable));
            check(machine, &held, &[]);
        },
    );
}
