//! How long a cache line takes from one CPU to the other.
//!
//! **Problem.** Where two threads share an allocator, its slowest operations wait for cache lines that the other CPU
//! has changed. How long one takes depends on where the host puts the CPUs, and that changes from day to day. **Idea.**
//! Two threads add one to a number in turns, so its line passes each time. **Why this way.** The time is that of the
//! lines alone, so times of allocators can be read beside it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::median::median;

/// A cache line of its own, and of the neighbour that comes along with it.
#[repr(align(128))]
struct OwnLine(AtomicU64);

/// Returns how many nanoseconds a cache line takes from one CPU to another that waits for it: the median of some
/// hundred short games of two threads that add one in turns.
pub fn measure(pin: fn(u32)) -> f64 {
    const GAMES: u64 = 200;
    const PASSES: u64 = 200;
    let (line, barrier) = (OwnLine(AtomicU64::new(0)), Barrier::new(2));
    let play = |cpu: u32| {
        pin(cpu);
        let game = |game: u64| {
            barrier.wait();
            let start = Instant::now();
            for pass in (game * PASSES..(game + 1) * PASSES).filter(|pass| pass % 2 == u64::from(cpu)) {
                while line.0.load(Ordering::Acquire) != pass {
                    std::hint::spin_loop();
                }
                line.0.store(pass + 1, Ordering::Release);
            }
            start.elapsed().as_secs_f64() * 1e9 / PASSES as f64
        };
        median((0..GAMES).map(game).collect())
    };
    std::thread::scope(|scope| {
        let players = [0, 1].map(|cpu| scope.spawn(move || play(cpu)));
        let [first, other] = players.map(|player| player.join().expect("no thread panics"));
        first.max(other)
    })
}

/// Prints how long a cache line takes from one CPU to the other: an operation that meets lines which the other CPU has
/// changed takes that for each.
pub fn print(mut passes: Vec<f64>) {
    passes.sort_unstable_by(f64::total_cmp);
    let (least, most) = (passes[0], passes[passes.len() - 1]);
    let median = median(passes);
    println!("A cache line passes from one CPU to the other in {median:.0} [{least:.0}, {most:.0}] ns.");
}
