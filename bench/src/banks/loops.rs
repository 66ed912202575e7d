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
    /// Of an allocation between random frees, with half of the memory in use: 99.9 % take less. The time of an empty
    /// timed loop is subtracted.
    pub slowest_allocate: f64,
    /// Of a free there.
    pub slowest_free: f64,
    /// Of an allocation when [`BURST`] random blocks are freed and then as many allocated, in the same way.
    pub slowest_allocate_in_bursts: f64,
    /// Of a free there.
    pub slowest_free_in_bursts: f64,
    /// Of the empty loop, with as many threads.
    pub slowest_nothing: f64,
}

/// The numbers of [`Times`].
pub const NUMBERS: usize = 7;

/// Frees, and then as many allocations, in a burst.
pub const BURST: usize = 8;

impl Times {
    /// Returns all numbers, in the order of the fields.
    pub const fn numbers(&self) -> [f64; NUMBERS] {
        [
            self.allocate,
            self.free,
            self.slowest_allocate,
            self.slowest_free,
            self.slowest_allocate_in_bursts,
            self.slowest_free_in_bursts,
            self.slowest_nothing,
        ]
    }

    /// Returns the times of these numbers.
    pub const fn of(numbers: [f64; NUMBERS]) -> Self {
        let [allocate, free, slowest_allocate, slowest_free, in_bursts_allocate, in_bursts_free, slowest_nothing] =
            numbers;
        Self {
            allocate,
            free,
            slowest_allocate,
            slowest_free,
            slowest_allocate_in_bursts: in_bursts_allocate,
            slowest_free_in_bursts: in_bursts_free,
            slowest_nothing,
        }
    }
}

/// What a thread of a case works on.
struct Turns<'a, P> {
    pages: &'a P,
    order: u8,
    cpu: u32,
    barrier: &'a Barrier,
}

/// Operations of a kind in one case, about.
const OPERATIONS: usize = 4 << 20;

/// Operations that are timed one by one.
const TIMED: usize = 1 << 18;

/// Measures one case on a machine of this many frames. `pin` binds the calling thread to a CPU.
pub fn measure(pages: &impl Pages, frames: usize, (order, threads): (u8, u32), pin: fn(u32)) -> Times {
    let blocks = ((frames / 2) >> order) / threads as usize;
    let rounds = (OPERATIONS / threads as usize / blocks).max(1);
    let barrier = Barrier::new(threads as usize);
    let run = |cpu: u32| {
        pin(cpu);
        thread(&Turns { pages, order, cpu, barrier: &barrier }, blocks, rounds)
    };
    let times: Vec<Times> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|cpu| scope.spawn(move || run(cpu))).collect();
        handles.into_iter().map(|handle| handle.join().expect("no thread panics")).collect()
    });
    let mean = |number: usize| times.iter().map(|times| times.numbers()[number]).sum::<f64>() / f64::from(threads);
    Times::of(std::array::from_fn(mean))
}

fn thread(turns: &Turns<'_, impl Pages>, blocks: usize, rounds: usize) -> Times {
    let Turns { pages, order, cpu, barrier } = *turns;
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
    let nothing = slowest_nothing(barrier);
    let [(slowest_allocate, slowest_free), (in_bursts_allocate, in_bursts_free)] =
        [1, BURST].map(|burst| slowest(turns, &mut held, &mut random, burst));
    barrier.wait();
    held.drain(..).for_each(|first| pages.put(first, order, cpu));
    let each = |time: Duration| time.as_secs_f64() * 1e9 / (blocks * rounds) as f64;
    let beyond_nothing = |time: f64| (time - nothing).max(0.0);
    Times {
        allocate: each(allocate),
        free: each(free),
        slowest_allocate: beyond_nothing(slowest_allocate),
        slowest_free: beyond_nothing(slowest_free),
        slowest_allocate_in_bursts: beyond_nothing(in_bursts_allocate),
        slowest_free_in_bursts: beyond_nothing(in_bursts_free),
        slowest_nothing: nothing,
    }
}

/// Returns the time that 99.9 % of the iterations of an empty timed loop take, which all threads of the case run at
/// once.
fn slowest_nothing(barrier: &Barrier) -> f64 {
    barrier.wait();
    let nothing = (0..TIMED).map(|_| {
        let start = Instant::now();
        nanoseconds(start, black_box(Instant::now()))
    });
    within(nothing.collect())
}

/// Frees some random blocks and allocates as many, again and again, each timed by itself. Returns the time that 99.9 %
/// of the allocations take, then of the frees.
fn slowest(turns: &Turns<'_, impl Pages>, held: &mut [u64], random: &mut u64, burst: usize) -> (f64, f64) {
    let Turns { pages, order, cpu, barrier } = *turns;
    let (mut allocate, mut free) = (Vec::with_capacity(TIMED), Vec::with_capacity(TIMED));
    barrier.wait();
    for _ in 0..TIMED / burst {
        let last = held.len() - burst..held.len();
        for place in last.clone().rev() {
            held.swap(place, below(random, place + 1));
            let old = black_box(held[place]);
            let start = Instant::now();
            pages.put(old, order, cpu);
            free.push(nanoseconds(start, Instant::now()));
        }
        for place in last {
            let start = Instant::now();
            held[place] = pages.get(order, cpu).expect("as many blocks were freed");
            allocate.push(nanoseconds(start, Instant::now()));
        }
    }
    (within(allocate), within(free))
}

fn nanoseconds(from: Instant, to: Instant) -> u64 {
    u64::try_from((to - from).as_nanos()).expect("short")
}

/// Returns the time that 99.9 % of the operations take at most.
fn within(mut times: Vec<u64>) -> f64 {
    times.sort_unstable();
    times[times.len() - times.len() / 1000] as f64
}

/// Shuffles by Fisher and Yates.
fn shuffle(held: &mut [u64], random: &mut u64) {
    for last in (1..held.len()).rev() {
        held.swap(last, below(random, last + 1));
    }
}

/// Returns a random index below this.
fn below(random: &mut u64, end: usize) -> usize {
    usize::try_from(next(random) % end as u64).expect("an index")
}

/// A generator by Marsaglia (xorshift64).
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
