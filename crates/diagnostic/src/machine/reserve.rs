//! How much memory a test may take, and when it must give some back.
//!
//! **Problem.** A test needs all free memory; other programs may need it too at any moment, and must never notice the
//! test. **Idea.** Keep a reserve that only the programs may use. While more than the reserve is free, the test may
//! claim; when programs have used half of the reserve, or wait for memory at all, the test gives memory back until the
//! reserve is whole. **Why this way.** Between the two thresholds the test does nothing, so it does not follow every
//! allocation; and because it gives memory back long before the kernel's own watermarks are reached, it never causes
//! reclaim or starts the OOM killer.

use std::time::Duration;

use rampart_memory::Bytes;

use super::zones::ZonesOutlook;

/// The smallest claim: one huge page.
pub const SMALLEST_CLAIM: Bytes = Bytes::from_mib(2);

/// The state of the machine's memory at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// All memory that the kernel manages.
    pub total: Bytes,
    /// Unused memory that this process may still take (a container's limit counts).
    pub free: Bytes,
    /// Below this the kernel starts to reclaim.
    pub high_watermark: Bytes,
    /// Time, since boot, in which some task waited for memory. `None` if the kernel does not report it.
    pub stalled: Option<Duration>,
    /// Memory that another process keeps free, such as `rampart banks pools`: the test leaves it free too.
    pub kept_free: Bytes,
    /// Free memory by zone, where one is for programs alone.
    pub zones: Option<ZonesOutlook>,
}

/// The action that the test may or must take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Claim up to this much more.
    Claim(Bytes),
    /// Claim nothing, give nothing back.
    Keep,
    /// Give back at least this much.
    GiveBack(Bytes),
}

/// The policy: a reserve, and the last reading of the time that tasks waited.
#[derive(Clone, Debug)]
pub struct MemoryReserve {
    reserve: Bytes,
    stalled: Option<Duration>,
}

impl MemoryReserve {
    /// A reserve of 1/32 of the memory, between 32 MiB and 1 GiB, above the kernel's high watermark; but at most half
    /// of the free memory, so that a small machine is tested too.
    #[must_use]
    pub fn new(seen: &Outlook) -> Self {
        let share = (seen.total.get() / 32).clamp(Bytes::from_mib(32).get(), Bytes::from_mib(1024).get());
        let reserve = (share + seen.high_watermark.get()).min(seen.free.get() / 2);
        Self { reserve: Bytes::new(reserve), stalled: seen.stalled }
    }

    /// The memory that is not claimed now: if another process keeps more free, so does the test, since that process
    /// would bring memory online for it.
    #[must_use]
    pub fn bytes(&self, seen: &Outlook) -> Bytes {
        self.reserve.max(seen.kept_free)
    }

    /// How much could be claimed now.
    #[must_use]
    pub fn claimable(&self, seen: &Outlook) -> Bytes {
        self.spare(seen, |reserve| reserve)
    }

    /// How much more may be claimed of the request. The test's own memory, page tables and buffers, may take up to a
    /// quarter of the reserve: otherwise it could never test all of its request. Programs can still use half of the
    /// reserve before the test gives memory back.
    #[must_use]
    pub fn still_claimable(&self, seen: &Outlook) -> Bytes {
        self.spare(seen, |reserve| Bytes::new(reserve.get() - reserve.get() / 4))
    }

    /// What may be claimed if `left` of the reserve stays free in all, and of what stays free in each zone.
    fn spare(&self, seen: &Outlook, left: fn(Bytes) -> Bytes) -> Bytes {
        let reserve = self.bytes(seen);
        let of_zones = seen.zones.map_or(seen.free, |zones| zones.claimable(left(zones.floor(reserve))));
        seen.free.saturating_sub(left(reserve)).min(of_zones).round_down(SMALLEST_CLAIM)
    }

    /// Returns the advice for the present state of memory.
    pub fn advise(&mut self, seen: &Outlook) -> Advice {
        let waited = match (self.stalled, seen.stalled) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            _ => Duration::ZERO,
        };
        self.stalled = seen.stalled;
        let reserve = self.bytes(seen);
        let missing = reserve.saturating_sub(seen.free);
        if missing.get() > reserve.get() / 2 {
            return Advice::GiveBack(missing);
        }
        if waited > Duration::ZERO && missing > Bytes::ZERO {
            return Advice::GiveBack(missing);
        }
        match self.claimable(seen) {
            Bytes::ZERO => Advice::Keep,
            more => Advice::Claim(more),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn outlook(total_mib: u64, free_mib: u64) -> Outlook {
        Outlook {
            total: Bytes::from_mib(total_mib),
            free: Bytes::from_mib(free_mib),
            high_watermark: Bytes::from_mib(8),
            stalled: Some(Duration::ZERO),
            kept_free: Bytes::ZERO,
            zones: None,
        }
    }

    #[test]
    fn the_reserve_fits_the_machine() {
        let reserve = |total, free| MemoryReserve::new(&outlook(total, free)).bytes(&outlook(total, free));
        assert_eq!(reserve(24 << 10, 23 << 10), Bytes::from_mib(768 + 8));
        assert_eq!(reserve(1 << 20, 1 << 19), Bytes::from_mib(1024 + 8));
        assert_eq!(reserve(512, 300), Bytes::from_mib(40));
        assert_eq!(reserve(512, 20), Bytes::from_mib(10));
    }

    #[test]
    fn it_claims_above_the_reserve_keeps_at_it_and_gives_back_below_half() {
        let mut reserve = MemoryReserve::new(&outlook(512, 300));
        assert_eq!(reserve.advise(&outlook(512, 300)), Advice::Claim(Bytes::from_mib(260)));
        assert_eq!(reserve.advise(&outlook(512, 41)), Advice::Keep);
        assert_eq!(reserve.advise(&outlook(512, 25)), Advice::Keep);
        assert_eq!(reserve.advise(&outlook(512, 10)), Advice::GiveBack(Bytes::from_mib(30)));
    }

    #[test]
    fn what_the_test_itself_uses_comes_out_of_a_quarter_of_the_reserve() {
        let reserve = MemoryReserve::new(&outlook(512, 300));
        assert_eq!(reserve.claimable(&outlook(512, 300)), Bytes::from_mib(260));
        assert_eq!(reserve.still_claimable(&outlook(512, 300)), Bytes::from_mib(270));
        assert_eq!(reserve.still_claimable(&outlook(512, 31)), Bytes::ZERO, "30 of 40 MiB are left to programs");
        assert_eq!(reserve.still_claimable(&outlook(512, 36)), Bytes::from_mib(6));
    }

    #[test]
    fn it_gives_back_sooner_when_a_task_waited() {
        let mut reserve = MemoryReserve::new(&outlook(512, 300));
        let mut low = outlook(512, 35);
        low.stalled = Some(Duration::from_micros(1));
        assert_eq!(reserve.advise(&low), Advice::GiveBack(Bytes::from_mib(5)));
        assert_eq!(reserve.advise(&low), Advice::Keep, "no new waiting");
    }

    #[test]
    fn memory_that_another_process_keeps_free_is_not_claimed() {
        let mut reserve = MemoryReserve::new(&outlook(512, 300));
        let kept = |free| Outlook { kept_free: Bytes::from_mib(100), ..outlook(512, free) };
        assert_eq!(reserve.claimable(&kept(300)), Bytes::from_mib(200));
        assert_eq!(reserve.still_claimable(&kept(300)), Bytes::from_mib(224), "a quarter less, rounded to huge pages");
        assert_eq!(reserve.advise(&kept(99)), Advice::Keep);
        assert_eq!(reserve.advise(&kept(40)), Advice::GiveBack(Bytes::from_mib(60)));
        assert_eq!(reserve.advise(&outlook(512, 40)), Advice::Keep, "that process has ended");
    }

    #[test]
    fn the_kernels_zones_are_not_filled_however_much_is_free_in_all() {
        let reserve = MemoryReserve::new(&outlook(512, 300));
        let [user, core, core_open, core_high] = [100, 200, 30, 1].map(Bytes::from_mib);
        let zones = Some(ZonesOutlook { user, core, core_open, core_high });
        let seen = Outlook { zones, ..outlook(512, 300) };
        assert_eq!(
            reserve.claimable(&seen),
            Bytes::from_mib(98),
            "130 MiB for programs, less three quarters of 40 and 1"
        );
        assert_eq!(reserve.still_claimable(&seen), Bytes::from_mib(106), "less three quarters of that");
    }

    proptest! {
        /// A program that allocates at random beside the test: the memory that both hold never exceeds the machine's,
        /// the test always returns to the reserve, and it never holds memory that the program lacks.
        #[test]
        fn the_program_beside_it_always_finds_its_memory(demands in proptest::collection::vec(0_u64..400, 1..200)) {
            let total = 512_u64;
            let mut held = 0_u64;
            let mut reserve = MemoryReserve::new(&outlook(total, total - 60));
            for demand in demands {
                let free = |held: u64| total.saturating_sub(60 + demand + held);
                // A shortage beyond the free memory is not visible at once: it takes some rounds to give enough back.
                for _ in 0..32 {
                    match reserve.advise(&outlook(total, free(held))) {
                        Advice::Claim(more) => held += more.get() >> 20,
                        Advice::Keep => break,
                        Advice::GiveBack(some) => held -= held.min(some.get().div_ceil(1 << 20)),
                    }
                }
                let kept = reserve.bytes(&outlook(total, free(held))).get();
                let enough = 60 + demand + (kept >> 20) <= total;
                prop_assert!(!enough || free(held) >= kept >> 21, "{held} held, {} free", free(held));
            }
        }
    }
}
