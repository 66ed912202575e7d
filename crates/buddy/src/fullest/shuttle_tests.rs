//! Random schedules of two and three threads on whole machines.
//!
//! Run them with `RUSTFLAGS="--cfg shuttle" cargo test --release -p rampart-buddy --lib shuttle`. The variable
//! `SHUTTLE_SCHEDULES` sets how many schedules each test tries with each of the two schedulers.

use std::sync::{Arc, Mutex};

use rampart_memory::FrameBlock;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use super::small::{BANK, check_and_claim, machine, urgent};
use super::*;
use crate::Migratetype::{self, Movable, Unmovable};
use crate::testing::{block, frame};

/// Runs a test in random schedules, and in those of three preemptions at most.
fn explore(test: fn()) {
    let schedules = std::env::var("SHUTTLE_SCHEDULES").map_or(10_000, |text| text.parse().expect("a number"));
    shuttle::check_random(test, schedules);
    shuttle::check_pct(test, schedules, 3);
}

/// What a thread does at each step.
#[derive(Clone, Copy, Default)]
struct Mix {
    claims: bool,
    isolates: bool,
    retires: bool,
}

/// What the threads have in common: blocks on the way to be freed elsewhere, and retired frames.
#[derive(Default)]
struct Common {
    passed: Mutex<Vec<(FrameBlock, Migratetype)>>,
    retired: Mutex<Vec<Frame>>,
}

fn churn(machine: &FullestBank<'_>, cpu: u32, steps: u32, mix: Mix, common: &Common) -> Vec<(FrameBlock, Migratetype)> {
    let mut random = thread_rng();
    let mut held = Vec::new();
    for _ in 0..steps {
        match random.gen_range(0..12_u32) {
            0..=4 => {
                let number = [0, 0, 0, 1, 5, 6, 8, 9, 10][random.gen_range(0..9_usize)];
                let migratetype = if random.gen_range(0..2_u32) == 0 { Movable } else { Unmovable };
                if let Some(block) = machine.allocate(urgent(number, migratetype, cpu)) {
                    held.push((block, migratetype));
                }
            }
            5..=6 if !held.is_empty() => {
                let (block, _) = held.swap_remove(random.gen_range(0..held.len()));
                machine.free(block, Cpu(cpu));
            }
            7 => common.passed.lock().unwrap().extend(held.pop()),
            8 => {
                let passed = common.passed.lock().unwrap().pop();
                passed.into_iter().for_each(|(block, _)| machine.free(block, Cpu(cpu)));
            }
            9 if mix.claims => {
                let number = [0, 3, 7, 9, 10][random.gen_range(0..5_usize)];
                let first = random.gen_range(0..2 * BANK) >> number << number;
                let claimed = block(first, number);
                if machine.claim(claimed) {
                    held.push((claimed, Movable));
                }
            }
            10 if mix.isolates => {
                let part = random.gen_range(0..2_usize);
                if machine.isolate(part) {
                    thread::yield_now();
                    machine.rejoin(part);
                }
            }
            11 if mix.retires => {
                let retired = frame(random.gen_range(0..8_u64) * 100);
                machine.retire(retired);
                common.retired.lock().unwrap().push(retired);
            }
            _ => {}
        }
    }
    held
}

fn share(threads: u32, steps: u32, mix: Mix) {
    let machine = machine(2, threads);
    let common = Arc::new(Common::default());
    let spawn = |cpu| {
        let common = Arc::clone(&common);
        thread::spawn(move || churn(machine, cpu, steps, mix, &common))
    };
    let threads: Vec<_> = (0..threads).map(spawn).collect();
    let mut held: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    held.extend(common.passed.lock().unwrap().drain(..));
    let mut retired = common.retired.lock().unwrap().clone();
    retired.sort_unstable();
    retired.dedup();
    finish(machine, &held, &retired);
}

/// Checks a machine whose retired frames may still be held.
fn finish(machine: &FullestBank<'_>, held: &[(FrameBlock, Migratetype)], retired: &[Frame]) {
    if retired.is_empty() {
        check_and_claim(machine, held, &[]);
        return;
    }
    held.iter().for_each(|(block, _)| machine.free(*block, Cpu(0)));
    for &frame in retired {
        assert_eq!(machine.place(frame), FramePlace::Retired, "{frame}");
    }
    check_and_claim(machine, &[], retired);
}

#[test]
fn two_threads_allocate_and_free() {
    explore(|| share(2, 8, Mix::default()));
}

#[test]
fn three_threads_allocate_and_free() {
    explore(|| share(3, 6, Mix::default()));
}

#[test]
fn two_threads_claim_too() {
    explore(|| share(2, 8, Mix { claims: true, ..Mix::default() }));
}

#[test]
fn three_threads_isolate_and_rejoin_too() {
    explore(|| share(3, 6, Mix { claims: true, isolates: true, ..Mix::default() }));
}

#[test]
fn three_threads_retire_too() {
    explore(|| share(3, 6, Mix { claims: true, isolates: true, retires: true }));
}

/// The memory is full but for one page and what two threads pass around: the page is always found.
#[test]
fn a_request_is_not_refused_while_a_page_is_free_all_the_time() {
    explore(|| {
        let machine = machine(1, 3);
        // The last chunk but for its first 64 frames; three of them are free.
        assert!(machine.claim(block(0, 9)));
        (1..8).for_each(|word| assert!(machine.claim(block(512 + word * 64, 6))));
        (3..64).for_each(|page| assert!(machine.claim(block(512 + page, 0))));
        let threads: Vec<_> = (0..3_u32)
            .map(|cpu| {
                thread::spawn(move || {
                    let migratetype = if cpu == 0 { Unmovable } else { Movable };
                    for _ in 0..3 {
                        let page = machine.allocate(urgent(0, migratetype, cpu)).expect("a page is free all the time");
                        machine.free(page, Cpu(cpu));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Nobody but the one thread that allocates takes the last chunk, while others make its bank empty and take of it.
#[test]
fn a_request_is_not_refused_while_a_chunk_is_free_all_the_time() {
    explore(|| {
        let machine = machine(2, 3);
        assert!(machine.claim(block(0, 10)) && machine.claim(block(1024, 9)));
        let empties = thread::spawn(move || {
            machine.free(block(1024, 9), Cpu(1));
            if machine.claim(block(1024, 9)) {
                machine.free(block(1024, 9), Cpu(1));
            }
        });
        let claims = thread::spawn(move || {
            for number in [0, 6, 9] {
                if machine.claim(block(1024, number)) {
                    machine.free(block(1024, number), Cpu(2));
                }
            }
        });
        for (number, migratetype) in [(9, Movable), (0, Unmovable), (9, Unmovable), (8, Movable)] {
            let block = machine.allocate(urgent(number, migratetype, 0)).expect("a chunk is free all the time");
            machine.free(block, Cpu(0));
        }
        empties.join().unwrap();
        claims.join().unwrap();
    });
}

/// After `isolate` has returned, nothing new lies in the part.
#[test]
fn an_isolated_part_gets_no_page() {
    explore(|| {
        let machine = machine(2, 2);
        let first = machine.allocate(urgent(0, Movable, 0)).unwrap();
        let part = usize::try_from(first.first().number() / BANK).unwrap();
        let isolated = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let sees = Arc::clone(&isolated);
        let other = thread::spawn(move || {
            let mut held = Vec::new();
            for (number, migratetype) in [(9, Movable), (0, Movable), (0, Movable), (0, Unmovable), (0, Movable)] {
                let before = sees.load(SeqCst);
                let Some(block) = machine.allocate(urgent(number, migratetype, 1)) else { continue };
                let lies = usize::try_from(block.first().number() / BANK).unwrap() == part;
                assert!(!(before && lies), "{block} lies in an isolated part");
                held.push((block, migratetype));
            }
            held
        });
        if machine.isolate(part) {
            isolated.store(true, SeqCst);
        }
        let mut held = other.join().unwrap();
        machine.rejoin(part);
        held.push((first, Movable));
        check_and_claim(machine, &held, &[]);
    });
}

/// A retired frame is not given to a request that begins afterwards.
#[test]
fn a_retired_frame_is_not_given_out() {
    explore(|| {
        let machine = machine(1, 2);
        let held = machine.allocate(urgent(5, Movable, 0)).unwrap();
        let bad = held.first();
        let free = thread::spawn(move || machine.free(held, Cpu(0)));
        let retire = thread::spawn(move || {
            machine.retire(bad);
            for number in [0, 5, 9] {
                let got = machine.allocate(urgent(number, Movable, 1));
                assert!(got.is_none_or(|got| !got.contains(bad)), "{bad} is retired and given out");
                got.into_iter().for_each(|got| machine.free(got, Cpu(1)));
            }
            assert!(!machine.claim(FrameBlock::of(bad)), "{bad} is retired and claimed");
        });
        free.join().unwrap();
        retire.join().unwrap();
        check_and_claim(machine, &[], &[bad]);
    });
}

/// A bank is offline once its last page is freed, whoever frees what.
#[test]
fn a_bank_whose_pages_two_threads_free_goes_offline() {
    explore(|| {
        let machine = machine(1, 3);
        let halves = [0, 1].map(|_| machine.allocate(urgent(5, Movable, 2)).unwrap());
        let threads = [0, 1].map(|cpu: u32| {
            let half = halves[cpu as usize];
            thread::spawn(move || machine.free(half, Cpu(cpu)))
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(machine.part(0).pool, BankPool::Offline);
    });
}
