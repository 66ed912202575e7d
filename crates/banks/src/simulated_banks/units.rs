//! Units that go offline together: banks, or sets of interleaved ones.

use rampart_buddy::{BankPart, BankPool, BankPools, BankSets};
use rampart_memory::Node;

/// The units of the machine.
#[derive(Clone, Debug)]
pub struct BankUnits {
    /// The banks of each unit.
    banks: Vec<Vec<usize>>,
    /// The unit of each bank.
    of_bank: Vec<usize>,
}

/// Returns which banks are interleaved, so many ways: those that are as far apart as a node has units [Panwar15, table
/// 4.1]. `memory` has an entry for each bank.
pub fn interleaved(nodes: u64, banks: u64, ways: u64, memory: &mut [(u64, u64)]) -> BankSets<'_> {
    if ways == 1 {
        return BankSets::plain();
    }
    let of_node = banks / nodes;
    let distance = of_node / ways;
    let first = (0..nodes).flat_map(|node| (0..distance).map(move |bank| node * of_node + bank));
    let sets = first.map(|first| (0..ways).map(move |way| first + way * distance));
    BankSets::interleaved(sets, memory).expect("each bank is in one set")
}

impl BankUnits {
    /// Returns those of so many banks.
    pub fn new(sets: &BankSets<'_>, banks: usize) -> Self {
        let mut new = Self { banks: Vec::new(), of_bank: vec![0; banks] };
        for bank in 0..banks {
            let first = usize::try_from(sets.set_of(bank as u64)).expect("a bank of the machine");
            // Sets are named by their first bank, which is their lowest.
            if first == bank {
                new.of_bank[bank] = new.banks.len();
                new.banks.push(Vec::new());
            }
            let unit = new.of_bank[first];
            new.of_bank[bank] = unit;
            new.banks[unit].push(bank);
        }
        new
    }

    /// Returns the banks of each unit.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &[usize]> {
        self.banks.iter().map(Vec::as_slice)
    }

    /// Returns the banks that go with a bank, itself included.
    pub fn with(&self, bank: usize) -> &[usize] {
        &self.banks[self.of_bank[bank]]
    }

    /// Returns the number of banks that a unit has.
    pub fn ways(&self) -> u64 {
        self.banks.first().map_or(1, |banks| banks.len() as u64)
    }
}

/// The parts that the allocator has of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitParts {
    /// The parts.
    pub parts: Vec<usize>,
    /// All frames.
    pub frames: u64,
    /// Free frames.
    pub free: u64,
    /// The pool.
    pub pool: BankPool,
    /// The node.
    pub node: Node,
}

impl UnitParts {
    /// Returns its frames in use.
    pub const fn used(&self) -> u64 {
        self.frames - self.free
    }
}

/// Returns the parts of each unit. `place` gives the bank and the node of a part.
pub fn units_of(
    pools: &dyn BankPools,
    units: &BankUnits,
    place: impl Fn(&BankPart) -> (usize, Node),
) -> Vec<UnitParts> {
    let empty = UnitParts { parts: Vec::new(), frames: 0, free: 0, pool: BankPool::Offline, node: Node(0) };
    let mut all = vec![empty; units.banks.len()];
    for number in 0..pools.parts() {
        let part = pools.part(number);
        let (bank, node) = place(&part);
        let unit = &mut all[units.of_bank[bank]];
        unit.parts.push(number);
        unit.frames += part.frames.count();
        unit.free += part.free;
        unit.pool = part.pool;
        unit.node = node;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banks_are_interleaved_as_in_table_4_1() {
        let (mut two, mut one) = ([(0, 0); 128], [(0, 0); 128]);
        assert_eq!(interleaved(2, 128, 2, &mut two), BankSets::two_way_of_128());
        assert_eq!(interleaved(2, 128, 1, &mut one), BankSets::plain());
    }

    #[test]
    fn every_bank_is_in_one_unit_of_its_node() {
        for (nodes, banks, ways) in [(1, 32, 2), (2, 128, 2), (2, 16, 4), (4, 8, 1)] {
            let count = usize::try_from(banks).unwrap();
            let units = BankUnits::new(&interleaved(nodes, banks, ways, &mut vec![(0, 0); count]), count);
            let mut all: Vec<usize> = units.all().flatten().copied().collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..usize::try_from(banks).unwrap()));
            assert_eq!((units.ways(), units.all().len() as u64), (ways, banks / ways));
            for unit in units.all() {
                assert!(unit.iter().all(|&bank| units.with(bank) == unit));
                let node = |bank: usize| bank as u64 / (banks / nodes);
                assert!(unit.iter().all(|&bank| node(bank) == node(unit[0])), "{unit:?}");
            }
        }
    }
}
