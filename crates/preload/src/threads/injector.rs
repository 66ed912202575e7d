//! Injected memory errors: at a rate, from a seed, bits of locked pages flip, or the hardware loses such pages.
//!
//! `RAMPART_GUARD_INJECT=flip,every=1000,seed=3`, in microseconds, flips a bit each millisecond; `poison` instead of
//! `flip` loses a page.

use std::env;
use std::time::{Duration, Instant};

use rampart_guard::{Guard, GuardEngine, PageIndex};

/// The most errors in one step of the maintenance thread.
const MOST_ERRORS: u128 = 64;

/// The errors, and their times.
pub struct ErrorInjector {
    /// Whether whole pages are lost; otherwise bits flip.
    poison: bool,
    every: Duration,
    last: Instant,
    state: u64,
}

impl ErrorInjector {
    /// The injector of `RAMPART_GUARD_INJECT`, if it is set.
    pub fn from_environment() -> Option<Self> {
        let text = env::var("RAMPART_GUARD_INJECT").ok()?;
        let of = |name: &str| text.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
        let every = Duration::from_micros(of("every")?).max(Duration::from_micros(1));
        let poison = text.starts_with("poison,");
        Some(Self { poison, every, last: Instant::now(), state: of("seed").unwrap_or(1) })
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Injects the errors that are due, as far as the maintenance thread has time.
    pub fn err(&mut self, guard: &Guard<'_, impl GuardEngine + ?Sized>) {
        let due = self.last.elapsed().as_nanos() / self.every.as_nanos();
        if due == 0 {
            return;
        }
        self.last = Instant::now();
        for _ in 0..due.min(MOST_ERRORS) {
            // An error in unlocked memory is left out.
            let page = PageIndex(self.random() % guard.used_pages().max(1));
            if self.poison {
                guard.inject_loss(page);
            } else {
                let bit = self.random() % 32768;
                guard.inject(page, &[u32::try_from(bit).expect("a bit of a page")]);
            }
        }
    }
}
