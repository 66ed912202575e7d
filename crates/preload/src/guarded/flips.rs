//! Memory that is made to err: flips that fall into locked pages at a rate, from a seed.
//!
//! `RAMPART_GUARD_INJECT=every=1000,seed=3`, in microseconds, has one fall each millisecond.

use std::env;
use std::time::{Duration, Instant};

use rampart_guard::{Guard, PageIndex};

use super::memory::AnyEngine;

/// Flips that fall in one step of the keeper, at most.
const MOST_FLIPS: u128 = 64;

/// What falls, and when.
pub struct Flips {
    every: Duration,
    last: Instant,
    state: u64,
}

impl Flips {
    /// As `RAMPART_GUARD_INJECT` has it, if it is set.
    pub fn from_environment() -> Option<Self> {
        let text = env::var("RAMPART_GUARD_INJECT").ok()?;
        let of = |name: &str| text.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
        let every = Duration::from_micros(of("every")?).max(Duration::from_micros(1));
        Some(Self { every, last: Instant::now(), state: of("seed").unwrap_or(1) })
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Those that are due, but for what the keeper has no time for.
    pub fn fall(&mut self, guard: &Guard<'_, AnyEngine>) {
        let due = self.last.elapsed().as_nanos() / self.every.as_nanos();
        if due == 0 {
            return;
        }
        self.last = Instant::now();
        for _ in 0..due.min(MOST_FLIPS) {
            // What falls into what is open does no harm: nothing is flipped.
            let pages = guard.used_pages().max(1);
            let (place, bit) = (self.random(), self.random());
            guard.inject(PageIndex(place % pages), &[u32::try_from(bit % 32768).expect("a bit of a page")]);
        }
    }
}
