//! How fast memory is used up.
//!
//! **Problem.** Between two looks, and while a block comes online, a burst of allocations may take more than a
//! threshold leaves. **Idea.** A pool grows as soon as its memory would reach the threshold before another block is
//! online, if memory is used up as fast as at the last look. **Why this way.** A larger reserve would do the same,
//! but cost memory all the time. What is in use counts, not what is free: blocks that join or leave a pool change
//! only the latter.

use std::collections::BTreeMap;
use std::time::Duration;

use rampart_memory::Node;

use super::node::NodeMemory;

/// It takes so long until a block is online: a look, the kernel's work on a block, and the same for a second block,
/// as a fast burst needs more than one.
const HORIZON: Duration = Duration::from_millis(200);

/// A rate is that of at least this time: a shorter one shows single steps of allocators and counters.
const CLOSE: Duration = Duration::from_millis(40);

/// After so long a burst counts half.
const HALF_LIFE: Duration = Duration::from_millis(100);

/// Who uses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryUser {
    /// The kernel, for itself.
    Kernel,
    /// Programs, in whichever pool.
    Programs,
}

/// All who use memory.
pub const USERS: [MemoryUser; 2] = [MemoryUser::Kernel, MemoryUser::Programs];

/// How fast each node's memory is used up.
#[derive(Clone, Debug, Default)]
pub struct UseRates(BTreeMap<(Node, MemoryUser), UseRate>);

#[derive(Clone, Copy, Debug)]
struct UseRate {
    at: Duration,
    used: u64,
    /// In bytes a second.
    rate: f64,
}

impl UseRates {
    /// Notes what is in use now.
    pub fn note(&mut self, node: Node, memory: &NodeMemory, now: Duration) {
        for (user, used) in USERS.into_iter().zip(used(memory)) {
            self.rate(node, user, used, now).note(used, now);
        }
    }

    /// Notes what is in use while a block is being emptied. Each user seems to use up to `isolated` bytes more, which
    /// is no burst.
    pub fn note_while_emptying(&mut self, node: Node, memory: &NodeMemory, isolated: [u64; 2], now: Duration) {
        for ((user, used), isolated) in USERS.into_iter().zip(used(memory)).zip(isolated) {
            let rate = self.rate(node, user, used, now);
            // A look before the kernel has isolated the block must not make a burst of the next one.
            rate.note(rate.used.max(used.saturating_sub(isolated)), now);
        }
    }

    fn rate(&mut self, node: Node, user: MemoryUser, used: u64, now: Duration) -> &mut UseRate {
        self.0.entry((node, user)).or_insert(UseRate { at: now, used, rate: 0.0 })
    }

    /// How much will be used up before a block is online, in bytes, if it goes on like this.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "memory in bytes")]
    pub fn soon(&self, node: Node, user: MemoryUser) -> u64 {
        self.0.get(&(node, user)).map_or(0, |rate| (rate.rate * HORIZON.as_secs_f64()) as u64)
    }

    /// How long so many bytes will last if it goes on like this, at most `most`.
    #[expect(clippy::cast_precision_loss, reason = "memory in bytes")]
    pub fn lasts(&self, node: Node, user: MemoryUser, bytes: u64, most: Duration) -> Duration {
        let rate = self.0.get(&(node, user)).map_or(0.0, |rate| rate.rate);
        most.min(Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(most))
    }
}

/// What each user uses, in the order of [`USERS`].
const fn used(memory: &NodeMemory) -> [u64; 2] {
    [memory.used_by_kernel(), memory.used_by_programs()]
}

impl UseRate {
    #[expect(clippy::cast_precision_loss, reason = "memory in bytes")]
    fn note(&mut self, used: u64, now: Duration) {
        let passed = now.saturating_sub(self.at);
        if passed < CLOSE {
            return;
        }
        let seen = used.saturating_sub(self.used) as f64 / passed.as_secs_f64();
        let faded = self.rate * 0.5_f64.powf(passed.as_secs_f64() / HALF_LIFE.as_secs_f64());
        *self = Self { at: now, used, rate: seen.max(faded) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::PoolMemory;
    use super::*;

    const NODE: Node = Node(0);
    const MIB: u64 = 1 << 20;

    /// The core holds `kernel` MiB of the kernel and 50 of programs, the user pool the other `programs`.
    fn memory(kernel: u64, programs: u64) -> NodeMemory {
        let pool = |used, lru| PoolMemory {
            managed: 1000 * MIB,
            free: (1000 - used) * MIB,
            lru: lru * MIB,
            ..PoolMemory::default()
        };
        NodeMemory { kernel: pool(kernel + 50, 50), user: pool(programs, programs) }
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn soon(rates: &UseRates) -> [u64; 2] {
        [MemoryUser::Kernel, MemoryUser::Programs].map(|user| rates.soon(NODE, user) / MIB)
    }

    #[test]
    fn a_burst_is_expected_to_go_on_and_fades_when_it_does_not() {
        let mut rates = UseRates::default();
        rates.note(NODE, &memory(100, 300), at(0));
        assert_eq!(soon(&rates), [0, 0], "one look shows no rate");
        rates.note(NODE, &memory(120, 200), at(50));
        assert_eq!(soon(&rates), [80, 0], "20 MiB in 50 ms; what is given back is not needed");
        rates.note(NODE, &memory(400, 200), at(89));
        assert_eq!(soon(&rates), [80, 0], "too soon after the last look");
        rates.note(NODE, &memory(120, 225), at(150));
        assert_eq!(soon(&rates), [40, 50], "half of it after 100 ms");
        rates.note(NODE, &memory(120, 225), at(2150));
        assert_eq!(soon(&rates), [0, 0]);
        assert_eq!(rates.soon(Node(1), MemoryUser::Kernel), 0);
    }

    #[test]
    fn memory_lasts_as_long_as_the_present_rate_allows() {
        let mut rates = UseRates::default();
        let lasts = |rates: &UseRates, bytes| rates.lasts(NODE, MemoryUser::Kernel, bytes, at(500));
        assert_eq!(lasts(&rates, 0), at(500), "nothing is known");
        rates.note(NODE, &memory(100, 300), at(0));
        assert_eq!([0, MIB].map(|bytes| lasts(&rates, bytes)), [at(500); 2], "nothing is taken");
        rates.note(NODE, &memory(120, 300), at(50));
        let margins = [0, 40, 199, 200, 1000].map(|mib| lasts(&rates, mib * MIB).as_millis());
        assert_eq!(margins, [0, 100, 497, 500, 500], "400 MiB a second");
    }

    #[test]
    fn a_block_that_joins_a_pool_is_no_burst() {
        let mut rates = UseRates::default();
        rates.note(NODE, &memory(100, 300), at(0));
        let mut grown = memory(100, 300);
        grown.kernel.managed += 128 * MIB;
        grown.kernel.free += 128 * MIB;
        rates.note(NODE, &grown, at(50));
        assert_eq!(soon(&rates), [0, 0]);
    }

    #[test]
    fn the_free_memory_of_a_block_that_is_being_emptied_is_no_burst() {
        let mut rates = UseRates::default();
        rates.note(NODE, &memory(100, 300), at(0));
        let emptying = |rates: &mut UseRates, programs, millis| {
            rates.note_while_emptying(NODE, &memory(100, programs), [0, 60 * MIB], at(millis));
            soon(rates)
        };
        assert_eq!(emptying(&mut rates, 300, 40), [0, 0], "not isolated yet");
        assert_eq!(emptying(&mut rates, 360, 80), [0, 0], "isolated");
        assert_eq!(emptying(&mut rates, 370, 120), [0, 50], "programs take 10 MiB in 40 ms besides");
        rates.note(NODE, &memory(100, 310), at(5000));
        assert_eq!(soon(&rates), [0, 0], "it is over");
    }

    #[test]
    fn what_programs_take_of_the_kernel_core_is_no_burst_of_the_kernel() {
        let mut rates = UseRates::default();
        rates.note(NODE, &memory(100, 300), at(0));
        let mut filled = memory(100, 300);
        filled.kernel.free -= 10 * MIB;
        filled.kernel.lru += 10 * MIB;
        rates.note(NODE, &filled, at(50));
        assert_eq!(soon(&rates), [0, 40]);
    }
}
