//! Which banks of the simulated machine are off, and since when.
//!
//! **Problem.** Banks go off and come on between two counts, and an allocator does not say when. **Idea.** A bank in
//! the offline pool is empty, so it can only change with the first block in it and the last one out of it. Those are
//! the moments to ask for its pool. **Why this way.** To ask for all pools at each request takes too long.

use rampart_buddy::{BankPool, BankPools};
use rampart_memory::Bytes;

use super::units::BankUnits;
use crate::power::{BankMeter, BankTimes};

/// The banks, on and off.
pub(super) struct BankSwitches<'a> {
    /// The allocator; without pools all banks stay on.
    pools: Option<&'a dyn BankPools>,
    /// The allocator's part of each bank. A bank in two zones has several: it stays on, so any of them will do.
    parts: Vec<Option<usize>>,
    units: BankUnits,
    meter: BankMeter,
}

impl<'a> BankSwitches<'a> {
    /// Begins with the pools as they are.
    pub fn new(pools: Option<&'a dyn BankPools>, bank: Bytes, units: BankUnits) -> Self {
        let count = units.all().map(<[usize]>::len).sum();
        let parts = pools.map_or_else(|| vec![None; count], |pools| part_of_each(pools, bank, count));
        let meter = BankMeter::new(parts.iter().map(|part| is_offline(pools, *part)).collect());
        Self { pools, parts, units, meter }
    }

    /// Lets time pass.
    pub const fn advance(&mut self, micros: u64) {
        self.meter.advance(micros);
    }

    /// A block was allocated in a bank: it is on, with those that are interleaved with it.
    pub fn filled(&mut self, bank: usize) {
        if self.meter.is_off(bank) {
            self.units.with(bank).iter().for_each(|&bank| self.meter.set(bank, false));
        }
    }

    /// The last block of a bank was freed. It may have been the last of those that are interleaved with it, too.
    pub fn emptied(&mut self, bank: usize) {
        for &bank in self.units.with(bank) {
            self.meter.set(bank, is_offline(self.pools, self.parts[bank]));
        }
    }

    /// Looks at all banks: an allocator may move empty ones between its pools.
    pub fn look(&mut self) {
        for bank in 0..self.parts.len() {
            self.meter.set(bank, is_offline(self.pools, self.parts[bank]));
        }
    }

    /// Returns the times up to now.
    pub const fn times(&self) -> BankTimes {
        self.meter.times()
    }
}

fn part_of_each(pools: &dyn BankPools, bank: Bytes, count: usize) -> Vec<Option<usize>> {
    let mut parts = vec![None; count];
    for part in 0..pools.parts() {
        let bank = pools.part(part).frames.start().address() / bank.get();
        parts[usize::try_from(bank).expect("a bank of the machine")] = Some(part);
    }
    parts
}

fn is_offline(pools: Option<&dyn BankPools>, part: Option<usize>) -> bool {
    pools.zip(part).is_some_and(|(pools, part)| pools.pool(part) == BankPool::Offline)
}

#[cfg(test)]
mod tests {
    use super::super::tests::MACHINE;
    use super::super::{AllocatorName, Held, MachineSettings, SimulatedBanks, on_machine};
    use super::*;
    use proptest::prelude::*;
    use rampart_buddy::{Cpu, Migratetype};
    use rampart_memory::{BlockOrder, Node};

    const POOLS: [AllocatorName; 3] =
        [AllocatorName::Adaptive, AllocatorName::AdaptiveArbitrary, AllocatorName::Fullest];

    /// Banks that are off, by the pools of all parts.
    fn off(machine: &SimulatedBanks<'_>) -> u128 {
        u128::from(machine.offline_banks().unwrap_or(0))
    }

    #[test]
    fn a_bank_is_on_from_its_first_page_until_it_is_in_the_offline_pool() {
        // FullestBank keeps the bank at hand until the next count.
        for (allocator, last) in [(POOLS[0], 111), (POOLS[1], 111), (POOLS[2], 1000)] {
            let report = on_machine(MachineSettings { allocator, ..MACHINE }, |machine| {
                machine.advance(10);
                let take = |machine: &mut SimulatedBanks<'_>| {
                    machine.allocate(BlockOrder::ZERO, Migratetype::Movable, Cpu(0), Node(0)).unwrap()
                };
                let (first, second) = (take(machine), take(machine));
                machine.advance(110);
                machine.free(first, Cpu(0));
                machine.advance(111);
                machine.free(second, Cpu(0));
                machine.observe(1000, std::iter::empty());
            });
            // Of 8 banks the one in two zones is always on.
            let expected = BankTimes { on_micros: 1000 + last - 10, off_micros: 7000 - (last - 10), changes: 2 };
            assert_eq!(report.unwrap().times, expected, "{allocator:?}");
        }
    }

    #[test]
    fn without_pools_every_bank_stays_on() {
        let report = on_machine(MACHINE, |machine| machine.observe(1000, std::iter::empty())).unwrap();
        assert_eq!(report.times, BankTimes { on_micros: 8000, off_micros: 0, changes: 0 });
    }

    proptest! {
        /// Between any two requests, the banks that are off are those in the offline pool.
        #[test]
        fn the_times_are_those_of_looking_at_every_pool_at_every_request(
            allocator in 0..POOLS.len(),
            steps in proptest::collection::vec((0_u64..50, 0_u8..=10, 0_usize..3, 0_u8..8, any::<usize>()), 1..200),
        ) {
            let (mut now, mut naive) = (0, 0);
            let report = on_machine(MachineSettings { allocator: POOLS[allocator], ..MACHINE }, |machine| {
                let mut held: Vec<Held> = Vec::new();
                for (passed, order, kind, action, which) in steps {
                    naive += u128::from(passed) * off(machine);
                    now += passed;
                    machine.advance(now);
                    let (order, kind) = (BlockOrder::new(order).unwrap(), Migratetype::ALL[kind]);
                    match action {
                        0..4 => held.extend(machine.allocate(order, kind, Cpu(0), Node(0))),
                        4..7 if !held.is_empty() => machine.free(held.swap_remove(which % held.len()), Cpu(1)),
                        _ => {
                            let movable = |held: &&mut Held| held.migratetype == Migratetype::Movable;
                            machine.observe(now, held.iter_mut().filter(movable));
                        }
                    }
                }
            });
            let times = report.unwrap().times;
            prop_assert_eq!(times.off_micros, naive);
            prop_assert_eq!(times.on_micros + times.off_micros, u128::from(now) * 8);
        }
    }
}
