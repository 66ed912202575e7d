//! The measured loops, for any allocator.
//!
//! This file is also compiled into the program that measures LLFree, so that both run the same loops. It uses only the
//! standard library.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// An allocator of pages of a machine, shared by threads.
pub trait Pages: Sync {
    /// Allocates a block of movable pages, and returns its first frame.
    fn get(&self, order: u8, cpu: u32) -> Option<u64>;

    /// Frees a block.
    fn put(&self, first: u64, order: u8, cpu: u32);
}

/// Nanoseconds per operation and thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Of an allocation: half of the memory, one block after the other.
    pub allocate: f64,
    /// Of a free: the same blocks in random order.
    pub free: f64,
    /// Of an allocation between random frees, with half of the memory in use: 99.9 % take less. The time of reading the
    /// clock is subtracted.
    pub slowest: f64,
}

/// What can be measured: the order, and the number of threads.
const CASES: [(u8, u32); 4] = [(0, 1), (0, 2), (9, 1), (9, 2)];

/// Operations of a kind in one case, about.
const OPERATIONS: usize = 4 << 20;

/// Operations that are timed one by one.
const TIMED: usize = 1 << 18;

/// Returns what is measured if only blocks of one order are, or of any.
pub fn cases(only: Option<u8>) -> Vec<(u8, u32)> {
    CASES.into_iter().filter(|(order, _)| only.is_none_or(|only| only == *order)).collect()
}

/// Measures one case on a machine of this many frames. `pin` binds the calling thread to a CPU.
pub fn measure(pages: &impl Pages, frames: usize, (order, threads): (u8, u32), pin: fn(u32)) -> Times {
    let blocks = ((frames / 2) >> order) / threads as usize;
    let rounds = (OPERATIONS / threads as usize / blocks).max(1);
    let barrier = Barrier::new(threads as usize);
    let run = |cpu: u32| {
        pin(cpu);
        thread(pages, order, cpu, blocks, rounds, &barrier)
    };
    let times: Vec<Times> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|cpu| scope.spawn(move || run(cpu))).collect();
        handles.into_iter().map(|handle| handle.join().expect("no thread panics")).collect()
    });
    let mean = |of: fn(&Times) -> f64| times.iter().map(of).sum::<f64>() / f64::from(threads);
    Times { allocate: mean(|t| t.allocate), free: mean(|t| t.free), slowest: mean(|t| t.slowest) }
}

fn thread(pages: &impl Pages, order: u8, cpu: u32, blocks: usize, rounds: usize, barrier: &Barrier) -> Times {
    let mut held = Vec::with_capacity(blocks);
    let mut random = 0x9e37_79b9_7f4a_7c15 ^ u64::from(cpu);
    let (mut allocate, mut free) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..rounds {
        barrier.wait();
        let start = Instant::now();
        held.extend((0..blocks).map(|_| pages.get(black_box(order), cpu).expect("half of the memory is free")));
        allocate += start.elapsed();
        shuffle(&mut held, &mut random);
        barrier.wait();
        let start = Instant::now();
        held.drain(..).for_each(|first| pages.put(first, black_box(order), cpu));
        free += start.elapsed();
    }
    held.extend((0..blocks).map(|_| pages.get(order, cpu).expect("half of the memory is free")));
    barrier.wait();
    let slowest = slowest(pages, order, cpu, &mut held, &mut random);
    held.drain(..).for_each(|first| pages.put(first, order, cpu));
    let each = |time: Duration| time.as_secs_f64() * 1e9 / (blocks * rounds) as f64;
    Times { allocate: each(allocate), free: each(free), slowest }
}

/// Frees a random block and times the next allocation, again and again.
fn slowest(pages: &impl Pages, order: u8, cpu: u32, held: &mut [u64], random: &mut u64) -> f64 {
    let timed = |mut operation: Box<dyn FnMut() + '_>| {
        let mut times: Vec<u64> = (0..TIMED)
            .map(|_| {
                let start = Instant::now();
                operation();
                u64::try_from(start.elapsed().as_nanos()).expect("short")
            })
            .collect();
        times.sort_unstable();
        times[TIMED - TIMED / 1000] as f64
    };
    let empty = timed(Box::new(|| ()));
    let mut times: Vec<u64> = (0..TIMED)
        .map(|_| {
            let place = usize::try_from(next(random) % held.len() as u64).expect("an index");
            pages.put(held[place], order, cpu);
            let start = Instant::now();
            held[place] = pages.get(order, cpu).expect("a block was freed");
            u64::try_from(start.elapsed().as_nanos()).expect("short")
        })
        .collect();
    times.sort_unstable();
    (times[TIMED - TIMED / 1000] as f64 - empty).max(0.0)
}

/// Shuffles by Fisher and Yates.
fn shuffle(held: &mut [u64], random: &mut u64) {
    for last in (1..held.len()).rev() {
        let place = usize::try_from(next(random) % (last as u64 + 1)).expect("an index");
        held.swap(last, place);
    }
}

/// A generator by Marsaglia (xorshift64).
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
