//! Every schedule of two threads on one shared word or flag, with the weak orders that loads of a machine may see.
//!
//! Run them with `RUSTFLAGS="--cfg loom" cargo test --release -p rampart-buddy --lib loom`.
//!
//! Each test is exhaustive up to five preemptions (`LOOM_MAX_PREEMPTIONS` says another number): most bugs need two
//! or fewer. Without a bound the scans of the sixteen words of a bank take hours.

use loom::model::Builder;
use loom::thread;
use rampart_memory::FrameBlock;

use super::small::{check, check_and_claim, machine, urgent};
use super::*;
use crate::Migratetype::{self, Movable, Unmovable};
use crate::testing::block;
use crate::{BankPool, testing};

type Held = Vec<(FrameBlock, Migratetype)>;

/// Runs a test in every schedule.
fn explore(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = builder.preemption_bound.or(Some(5));
    let executions = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = std::sync::Arc::clone(&executions);
    builder.check(move || {
        count.fetch_add(1, Relaxed);
        test();
    });
    println!("{} executions", executions.load(Relaxed));
}

/// Runs two threads on a machine, and returns what they hold.
fn race(
    machine: &'static FullestBank<'static>,
    one: impl FnOnce(&FullestBank<'_>) -> Held + 'static,
    other: impl FnOnce(&FullestBank<'_>) -> Held,
) -> Held {
    let thread = thread::spawn(move || one(machine));
    let mut held = other(machine);
    held.extend(thread.join().unwrap());
    held
}

fn take(machine: &FullestBank<'_>, number: u8, migratetype: Migratetype, cpu: u32) -> Held {
    machine.allocate(urgent(number, migratetype, cpu)).map(|block| (block, migratetype)).into_iter().collect()
}

#[test]
fn a_page_is_taken_while_another_of_its_word_is_freed() {
    explore(|| {
        let machine = machine(1, 2);
        let [kept, freed] = [0, 1].map(|_| machine.allocate(urgent(0, Movable, 0)).unwrap());
        let mut held = race(
            machine,
            move |machine| {
                machine.free(freed, Cpu(1));
                Held::new()
            },
            |machine| take(machine, 0, Movable, 0),
        );
        assert_eq!(held.len(), 1, "most pages are free");
        held.push((kept, Movable));
        check_and_claim(machine, &held, &[]);
    });
}

/// Two threads free the last two blocks of a bank at once, and it goes offline.
fn free_the_last(machine: &'static FullestBank<'static>, blocks: [FrameBlock; 2]) {
    let give = move |cpu: u32| {
        move |machine: &FullestBank<'_>| {
            machine.free(blocks[cpu as usize], Cpu(cpu));
            Held::new()
        }
    };
    race(machine, give(0), give(1));
    assert_eq!(machine.part(0).pool, BankPool::Offline);
    check(machine, &[], &[]);
}

#[test]
fn two_threads_free_the_last_pages_of_a_word() {
    explore(|| {
        let machine = machine(1, 3);
        let halves = [0, 1].map(|_| machine.allocate(urgent(5, Movable, 2)).unwrap());
        free_the_last(machine, halves);
    });
}

#[test]
fn two_threads_free_the_last_single_pages_of_a_word() {
    explore(|| {
        let machine = machine(1, 2);
        let pages = [block(0, 0), block(1, 0)];
        assert!(pages.into_iter().all(|page| machine.claim(page)));
        free_the_last(machine, pages);
    });
}

#[test]
fn a_page_that_two_threads_free_at_once_is_noticed() {
    explore(|| {
        let machine = machine(1, 2);
        let page = block(0, 0);
        assert!(machine.claim(page) && machine.claim(block(2, 1)));
        let give = |cpu: u32| {
            move |machine: &FullestBank<'_>| {
                let freed = std::panic::AssertUnwindSafe(|| machine.free(page, Cpu(cpu)));
                let noticed = std::panic::catch_unwind(freed).is_err();
                noticed.then_some((page, Movable)).into_iter().collect()
            }
        };
        assert_eq!(race(machine, give(0), give(1)).len(), 1, "one thread panics");
    });
}

#[test]
fn a_page_is_freed_while_the_last_free_ones_of_its_chunk_are_taken() {
    explore(|| {
        let machine = machine(1, 2);
        let freed = block(2, 0);
        let kept = [block(3, 0), block(4, 2), block(8, 3), block(16, 4), block(32, 5), block(64, 6), block(128, 7)];
        let kept = kept.into_iter().chain([block(256, 8), block(512, 9)]);
        assert!(machine.claim(freed) && kept.clone().all(|block| machine.claim(block)));
        let mut held = race(
            machine,
            move |machine| {
                machine.free(freed, Cpu(1));
                Held::new()
            },
            |machine| [1, 1].into_iter().flat_map(|number| take(machine, number, Movable, 0)).collect(),
        );
        held.extend(kept.map(|block| (block, Movable)));
        check(machine, &held, &[]);
    });
}

#[test]
fn a_block_of_words_is_taken_while_a_page_of_them_is() {
    explore(|| {
        let machine = machine(1, 2);
        assert!(machine.claim(block(512, 9)) && machine.claim(block(0, 8)));
        let held = race(machine, |machine| take(machine, 7, Movable, 0), |machine| take(machine, 0, Unmovable, 1));
        assert_eq!(held.len(), 2, "there is enough for both");
        let mut all = vec![(block(512, 9), Movable), (block(0, 8), Movable)];
        all.extend(held);
        check(machine, &all, &[]);
    });
}

#[test]
fn a_page_is_claimed_while_words_around_it_are_taken_in_vain() {
    explore(|| {
        let machine = machine(1, 2);
        assert!(machine.claim(block(512, 9)) && machine.claim(block(511, 0)));
        let mut held = race(
            machine,
            |machine| take(machine, 7, Movable, 0),
            |machine| {
                let pages = [block(64, 0), block(3, 0)];
                pages.into_iter().filter(|&page| machine.claim(page)).map(|page| (page, Movable)).collect()
            },
        );
        let is_held = held.iter().any(|(block, _)| block.contains(testing::frame(3)));
        assert!(is_held, "a page that is free all the time is claimed");
        held.extend([(block(512, 9), Movable), (block(511, 0), Movable)]);
        check(machine, &held, &[]);
    });
}

#[test]
fn a_page_is_freed_while_its_chunk_is_found_exhausted() {
    explore(|| {
        let machine = machine(1, 2);
        let [freed, kept @ ..] = [block(0, 6), block(64, 6), block(128, 7), block(256, 8), block(512, 9)];
        assert!(machine.claim(freed) && kept.into_iter().all(|block| machine.claim(block)));
        let mut held = race(
            machine,
            move |machine| {
                machine.free(freed, Cpu(1));
                Held::new()
            },
            |machine| take(machine, 7, Movable, 0),
        );
        held.extend(kept.map(|block| (block, Movable)));
        check(machine, &held, &[]);
    });
}

#[test]
fn a_whole_chunk_is_broken_and_taken() {
    explore(|| {
        let machine = machine(1, 2);
        assert!(machine.claim(block(512, 9)));
        let held = race(machine, |machine| take(machine, 9, Movable, 0), |machine| take(machine, 0, Unmovable, 1));
        assert_eq!(held.len(), 1, "either the chunk or a page of it");
        check(machine, &[(block(512, 9), Movable), held[0]], &[]);
    });
}

#[test]
fn a_page_is_claimed_while_its_chunk_merges() {
    explore(|| {
        let machine = machine(1, 2);
        let page = block(0, 0);
        assert!(machine.claim(page));
        let held = race(
            machine,
            move |machine| {
                machine.free(page, Cpu(0));
                Held::new()
            },
            |machine| {
                assert!(machine.claim(block(9, 0)), "it is free all the time");
                vec![(block(9, 0), Movable)]
            },
        );
        check_and_claim(machine, &held, &[]);
    });
}

#[test]
fn a_bank_goes_offline_while_its_other_chunk_is_taken() {
    explore(|| {
        let machine = machine(1, 2);
        assert!(machine.claim(block(0, 9)));
        let held = race(
            machine,
            |machine| {
                machine.free(block(0, 9), Cpu(0));
                Held::new()
            },
            |machine| take(machine, 9, Unmovable, 1),
        );
        assert_eq!(held.len(), 1, "a chunk is free all the time");
        check_and_claim(machine, &held, &[]);
    });
}

#[test]
fn a_bank_goes_offline_while_a_chunk_is_claimed() {
    explore(|| {
        let machine = machine(1, 2);
        assert!(machine.claim(block(0, 9)));
        let held = race(
            machine,
            |machine| {
                machine.free(block(0, 9), Cpu(0));
                Held::new()
            },
            |machine| {
                assert!(machine.claim(block(512, 9)), "it is free all the time");
                vec![(block(512, 9), Movable)]
            },
        );
        check_and_claim(machine, &held, &[]);
    });
}

/// Isolates the only bank, of which CPU 0 has a block, while a CPU takes another. If CPU 0 has a page, it has the chunk
/// of that page for itself.
fn isolate_while_taking(held: u8, number: u8, cpu: u32) {
    explore(move || {
        let machine = machine(1, 2);
        let first = machine.allocate(urgent(held, Movable, 0)).unwrap();
        let free = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let then = std::sync::Arc::clone(&free);
        let mut held = race(
            machine,
            move |machine| {
                assert!(machine.isolate(0));
                then.store(machine.part(0).free, Relaxed);
                Held::new()
            },
            move |machine| take(machine, number, Movable, cpu),
        );
        assert!(machine.part(0).free >= free.load(Relaxed), "a page came into the bank after it was isolated");
        assert!(machine.allocate(urgent(0, Movable, cpu)).is_none(), "the bank is isolated");
        machine.rejoin(0);
        held.push((first, Movable));
        check(machine, &held, &[]);
    });
}

#[test]
fn an_isolated_bank_is_reserved_by_nobody() {
    isolate_while_taking(0, 0, 1);
}

#[test]
fn an_isolated_bank_gets_no_chunk() {
    isolate_while_taking(0, 9, 1);
}

#[test]
fn a_bank_is_isolated_while_a_cpu_takes_of_its_own_chunk() {
    isolate_while_taking(0, 0, 0);
}

#[test]
fn a_bank_is_isolated_while_a_cpu_takes_a_chunk_beside_its_last_one() {
    isolate_while_taking(9, 9, 0);
}

/// Retires a page while it is freed, beside so many others that are held.
fn retire_while_freeing(others: usize) {
    explore(move || {
        let machine = machine(1, 2);
        let held: Held = (0..others).flat_map(|_| take(machine, 0, Movable, 0)).collect();
        let page = machine.allocate(urgent(0, Movable, 0)).unwrap();
        race(
            machine,
            move |machine| {
                machine.free(page, Cpu(0));
                Held::new()
            },
            move |machine| {
                machine.retire(page.first());
                assert!(!machine.claim(page), "a retired frame is claimed");
                Held::new()
            },
        );
        assert_eq!(machine.place(page.first()), FramePlace::Retired);
        check_and_claim(machine, &held, &[page.first()]);
    });
}

#[test]
fn the_last_page_of_a_word_is_retired_while_it_is_freed() {
    retire_while_freeing(0);
}

#[test]
fn a_page_is_retired_while_it_is_freed_beside_another() {
    retire_while_freeing(1);
}

#[test]
fn the_last_page_of_a_chunk_is_freed_while_the_chunk_is_left() {
    explore(|| {
        let machine = machine(1, 2);
        let page = machine.allocate(urgent(0, Movable, 0)).unwrap();
        race(
            machine,
            move |machine| {
                machine.free(page, Cpu(0));
                Held::new()
            },
            |machine| {
                machine.isolate(0);
                Held::new()
            },
        );
        check(machine, &[], &[]);
        assert_eq!(machine.part(0).pool, BankPool::Offline, "nobody has the chunk, so it is whole again");
    });
}

#[test]
fn the_only_free_page_is_never_out_of_sight() {
    explore(|| {
        let machine = machine(1, 2);
        assert!(machine.claim(block(512, 9)));
        (1..8).for_each(|word| assert!(machine.claim(block(word * 64, 6))));
        assert!(machine.claim(block(32, 5)));
        (1..5).for_each(|number| assert!(machine.claim(block(1 << number, number))));
        let take_and_give = |cpu: u32| {
            move |machine: &FullestBank<'_>| {
                let page = machine.allocate(urgent(0, Movable, cpu)).expect("a page for each thread is free");
                machine.free(page, Cpu(cpu));
                Held::new()
            }
        };
        race(machine, take_and_give(0), take_and_give(1));
        assert_eq!(machine.free_frames(ZoneIndex(0)), 2);
    });
}
