//! The cost of each operation, and how testers and programs slow each other.
//!
//! **Why a model.** Rahman's machines and programs are not available. Each number below has a source or a derivation.
//! Numbers fitted to a result of Rahman's are marked *calibrated*; no other number is fitted.
//!
//! **Memory.** A channel serves lines one after the other, each for its transfer time. At utilization U a line waits U
//! / (2 (1 − U)) transfers for those before it (Pollaczek and Khinchine, for constant service times). An access takes
//! only the latency if memory is otherwise idle, so it takes f = 1 + U / (2 (1 − U)) · transfer / latency times as
//! long. A program that spends the share m of its time on memory runs 1 − m + m · f times as long; a tester, which
//! spends all its time on memory, f times.
//!
//! **CPUs.** Runnable programs and testers that have work share the cores evenly, each at most one.

use std::time::Duration;

use rampart_memory::Fidelity;

/// How a tester reaches the DRAM [Rahman16, 5.2.3.4].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Word by word, past the caches.
    Direct,
    /// Line by line, through the caches, each line flushed.
    CacheIndirect,
}

/// The costs of one machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Time to test a frame with the two patterns of fidelity 1, word by word.
    pub direct: Duration,
    /// Time for the same test through the caches.
    pub indirect: Duration,
    /// Bytes that a direct test of a frame moves at fidelity 1: a line for each access to a word.
    pub direct_bytes: f64,
    /// Bytes that an indirect test moves.
    pub indirect_bytes: f64,
    /// How much longer a test takes on another node's memory.
    pub remote: f64,
    /// Bandwidth of a node's memory, in bytes per second.
    pub bandwidth: f64,
    /// The number of channels that share the bandwidth.
    pub channels: u32,
    /// Time of an access to local memory that is otherwise idle.
    pub latency: Duration,
    /// Time of an allocation or a release without tests.
    pub page_fault: Duration,
    /// Time to copy a page and update its page table entry and the other cores' TLBs.
    pub migration: Duration,
    /// The probability that a program touches a page while it is moved, and waits ([Rahman16, 4.2.2] calls it probable
    /// if much memory is in use). An assumption, the same for both machines.
    pub touched: f64,
    /// Time that a core with a program loses when a tester unmaps a frame. Each frame is mapped only for its test
    /// [Rahman16, A.2.2]. Before Linux 2.6.28 `vunmap` interrupted all cores and flushed their TLBs; since then it
    /// flushes them lazily.
    pub unmapping: Duration,
    /// Time of a call of a handler that takes blocks. Allocation waits for its lock, or the program for its core.
    pub handler: Duration,
    /// Additional time for each block that the handler takes or gives back.
    pub handler_block: Duration,
}

impl Costs {
    /// Pentium D 930, 3 GHz, DDR2-533 behind a shared bus.
    ///
    /// | number | from |
    /// |---|---|
    /// | direct test 0.4 ms | [Rahman16, tab. 1] |
    /// | its bytes | MATS, 4n: 512 words × 4 accesses, a line of 64 B each |
    /// | indirect test | 4 passes over 4 KiB at a third of the bandwidth, one core; not used in [Rahman16, ch. 4] |
    /// | 4.3 GB/s | one channel of DDR2-533 |
    /// | latency 195 ns | that of the direct test, each access of which opens and closes its row [Rahman16, 4.2.1] |
    /// | page fault 1 µs | `lmbench` of the time |
    /// | migration 15 µs | 4 KiB at 1 GB/s, and an interrupt to the other core |
    /// | unmapping 2.3 µs | an interrupt, like a page fault; page walks for 64 TLB entries, each two reads of 10 ns from the L2 cache |
    /// | handler 20 µs + 0.5 µs | a timer's interrupt, 10 µs with what it evicts from the caches: 5 to 15 in [Tsafrir07, abstract]; 11 orders, two lines each, missed in the caches [Rahman16, fig. 7]; two wakeups of testers, each an interrupt as above. For each block that is taken, misses on one or two list entries; for each that is passed over, one latency |
    #[must_use]
    pub const fn pentium_d() -> Self {
        Self {
            direct: Duration::from_micros(400),
            indirect: Duration::from_micros(12),
            direct_bytes: 512.0 * 4.0 * 64.0,
            indirect_bytes: 4.0 * 4096.0,
            remote: 1.0,
            bandwidth: 4.3e9,
            channels: 1,
            latency: Duration::from_nanos(195),
            page_fault: Duration::from_micros(1),
            migration: Duration::from_micros(15),
            touched: 0.5,
            unmapping: Duration::from_nanos(2_300),
            handler: Duration::from_micros(20),
            handler_block: Duration::from_nanos(500),
        }
    }

    /// PowerEdge T620: two Xeon E5-2650, DDR3-1333 in four channels a node.
    ///
    /// | number | from |
    /// |---|---|
    /// | direct test 160 µs | 512 words × 4 accesses at 80 ns, the latency of local memory |
    /// | indirect test 5.5 µs | 4 passes over 4 KiB at 3 GB/s, the rate at which a core writes and flushes |
    /// | remote 1.6 | 130 ns against 80 ns; [Rahman16, fig. 25] is a picture of another machine |
    /// | 34 GB/s | four fifths of 4 × 10.7 GB/s |
    /// | latency 80 ns | as above |
    /// | unmapping nothing | Linux 3.1.7 |
    /// | migration 6 µs | as above, on a core three times as fast, with more cores to interrupt |
    /// | handler 7 µs + 0.2 µs | as above, on a core three times as fast |
    #[must_use]
    pub const fn t620() -> Self {
        Self {
            direct: Duration::from_micros(160),
            indirect: Duration::from_nanos(5_500),
            direct_bytes: 512.0 * 4.0 * 64.0,
            indirect_bytes: 4.0 * 4096.0,
            remote: 1.6,
            bandwidth: 34e9,
            channels: 4,
            latency: Duration::from_nanos(80),
            page_fault: Duration::from_nanos(500),
            migration: Duration::from_micros(6),
            touched: 0.5,
            unmapping: Duration::ZERO,
            handler: Duration::from_micros(7),
            handler_block: Duration::from_nanos(200),
        }
    }

    /// Returns the time to test one frame of local memory that is otherwise idle, in seconds.
    #[must_use]
    pub fn test(&self, access: Access, fidelity: Fidelity) -> f64 {
        let once = match access {
            Access::Direct => self.direct,
            Access::CacheIndirect => self.indirect,
        };
        once.as_secs_f64() * f64::from(fidelity.backgrounds())
    }

    /// Returns the bytes per second that a tester moves.
    #[must_use]
    pub fn traffic(&self, access: Access) -> f64 {
        match access {
            Access::Direct => self.direct_bytes / self.direct.as_secs_f64(),
            Access::CacheIndirect => self.indirect_bytes / self.indirect.as_secs_f64(),
        }
    }

    /// Returns by what factor an access slows down when `traffic` bytes per second are requested from a node.
    #[must_use]
    pub fn memory_slowdown(&self, traffic: f64) -> f64 {
        // Beyond the bandwidth all requesters are slowed until the traffic fits; 0.9 keeps the wait finite.
        let utilization = (traffic / self.bandwidth).min(0.9);
        let overcommitted = (traffic / self.bandwidth / 0.9).max(1.0);
        let transfer = LINE * f64::from(self.channels) / self.bandwidth;
        let waits = utilization / (2.0 * (1.0 - utilization)) * transfer / self.latency.as_secs_f64();
        (1.0 + waits) * overcommitted
    }
}

/// Bytes per line.
const LINE: f64 = 64.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_slows_as_it_fills() {
        let costs = Costs::t620();
        let at = [0.0, 0.1, 0.5, 0.9, 1.8].map(|share| costs.memory_slowdown(share * costs.bandwidth));
        assert!((at[0] - 1.0).abs() < 1e-12);
        let transfer = 64.0 * 4.0 / 34.0;
        assert!((at[2] - 1.0 - transfer / 2.0 / 80.0).abs() < 1e-9, "half full, a line waits for half a transfer");
        assert!(at.windows(2).all(|pair| pair[0] < pair[1]), "{at:?}");
        assert!((at[4] - 2.0 * at[3]).abs() < 1e-9, "twice what fits takes twice as long");
    }

    #[test]
    fn a_test_takes_longer_with_its_patterns_and_much_longer_past_the_caches() {
        let costs = Costs::t620();
        let of = |access, backgrounds| costs.test(access, Fidelity::new(backgrounds).unwrap());
        assert!((of(Access::Direct, 4) - 4.0 * of(Access::Direct, 1)).abs() < 1e-12);
        assert!(of(Access::Direct, 4) > 10.0 * of(Access::CacheIndirect, 4));
        let table_1 = Costs::pentium_d().test(Access::Direct, Fidelity::MIN);
        assert!((table_1 - 0.0004).abs() < 1e-12);
    }
}
