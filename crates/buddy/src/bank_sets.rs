//! Banks that an address mapping interleaves, and that go offline only together.
//!
//! **Problem.** With interleaving, the lines of one page lie in several banks, so one of them alone cannot go offline.
//! **Idea.** Such banks form a *set*, and what is done to a bank is done to its set [Panwar15, 4.4]. **Why this way.**
//! Which banks these are depends on the board, so the caller lists them; an allocator only asks for a bank's set.

use crate::Error;

/// Which banks form a set. A bank that is in none of the sets given is a set by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BankSets<'a> {
    /// Each bank that has company, ascending, and the first bank of its set.
    first_of: &'a [(u64, u64)],
}

impl<'a> BankSets<'a> {
    /// Returns sets of one bank each: no interleaving.
    #[must_use]
    pub const fn plain() -> Self {
        Self { first_of: &[] }
    }

    /// Returns these sets, each given by the numbers of its banks, from address 0 on. Banks that the machine does not
    /// have are allowed. `memory` needs an entry for each bank given; what it holds before does not matter.
    ///
    /// # Errors
    /// If a bank is in two sets, if the memory does not suffice.
    pub fn interleaved<S: IntoIterator<Item = u64>>(
        sets: impl IntoIterator<Item = S>,
        memory: &'a mut [(u64, u64)],
    ) -> Result<Self, Error> {
        let mut count = 0;
        for set in sets {
            let mut banks = set.into_iter().peekable();
            let Some(&first) = banks.peek() else { continue };
            for bank in banks {
                *memory.get_mut(count).ok_or(Error::TooLittleMemory)? = (bank, first);
                count += 1;
            }
        }
        let first_of = &mut memory[..count];
        first_of.sort_unstable();
        match first_of.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(Error::BankInTwoSets(pair[0].0)),
            None => Ok(Self { first_of }),
        }
    }

    /// Returns the number that all banks of a bank's set have in common, and no other bank has: that of one of them.
    #[must_use]
    pub fn set_of(self, bank: u64) -> u64 {
        let place = self.first_of.binary_search_by_key(&bank, |&(other, _)| other);
        place.map_or(bank, |place| self.first_of[place].1)
    }

    /// Returns all banks of a bank's set, itself too, whether the machine has them or not.
    pub fn company(self, bank: u64) -> impl Iterator<Item = u64> + 'a {
        let set = self.set_of(bank);
        let given = self.first_of.binary_search_by_key(&bank, |&(other, _)| other).is_ok();
        let (alone, others) = if given { (None, self.first_of) } else { (Some(bank), &[][..]) };
        alone.into_iter().chain(others.iter().filter(move |&&(_, of)| of == set).map(|&(other, _)| other))
    }
}

impl BankSets<'static> {
    /// Returns the sets of [Panwar15, table 4.1]: 128 banks on two nodes, each bank interleaved with the one 32 after
    /// it on its node. The table says 112-117 where it means 112-127: else ten banks would be in no set.
    #[must_use]
    pub const fn two_way_of_128() -> Self {
        Self { first_of: &TWO_WAY_OF_128 }
    }
}

const TWO_WAY_OF_128: [(u64, u64); 128] = {
    let mut first_of = [(0, 0); 128];
    let mut bank = 0;
    while bank < 128 {
        // The second half of each node's 64 banks belongs to the first.
        first_of[bank] = (bank as u64, (bank & !32) as u64);
        bank += 1;
    }
    first_of
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns the banks of each set that banks 0 to 199 are in.
    fn sets(sets: BankSets<'_>) -> Vec<Vec<u64>> {
        let mut members: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        (0..200).for_each(|bank| members.entry(sets.set_of(bank)).or_default().push(bank));
        members.into_values().collect()
    }

    #[test]
    fn the_pairs_of_table_4_1_are_a_partition_of_its_128_banks() {
        let sets = sets(BankSets::two_way_of_128());
        let (pairs, alone): (Vec<_>, Vec<_>) = sets.into_iter().partition(|set| set.len() == 2);
        assert!(alone.iter().flatten().copied().eq(128..200), "what the table does not name is a set by itself");
        let mut paired: Vec<u64> = pairs.iter().flatten().copied().collect();
        paired.sort_unstable();
        assert!(paired.into_iter().eq(0..128));
        // The rows of the table, with its misprint corrected.
        for (banks, with) in [(0..=15, 32..=47), (16..=31, 48..=63), (64..=79, 96..=111), (80..=95, 112..=127)] {
            assert!(banks.zip(with).all(|(bank, with)| pairs.contains(&vec![bank, with])));
        }
    }

    #[test]
    fn without_interleaving_every_bank_is_a_set() {
        assert!(sets(BankSets::plain()).iter().all(|set| set.len() == 1));
    }

    #[test]
    fn a_set_may_have_any_banks_but_no_bank_two_sets() {
        let mut memory = [(0, 0); 5];
        let given = BankSets::interleaved([vec![7, 3, 150], vec![], vec![0, 1]], &mut memory).unwrap();
        let company: Vec<_> = sets(given).into_iter().filter(|set| set.len() > 1).collect();
        assert_eq!(company, [vec![0, 1], vec![3, 7, 150]]);
        let all_of = |bank: u64| given.company(bank).collect::<Vec<_>>();
        assert!([0, 1].into_iter().all(|bank| all_of(bank) == [0, 1]));
        assert!([3, 7, 150].into_iter().all(|bank| all_of(bank) == [3, 7, 150]));
        assert!([2, 8, 199].into_iter().all(|bank| all_of(bank) == [bank]), "a bank without company");
        assert_eq!(BankSets::interleaved([[1, 2], [3, 1]], &mut memory), Err(Error::BankInTwoSets(1)));
        assert_eq!(BankSets::interleaved([[2, 2]], &mut memory), Err(Error::BankInTwoSets(2)));
        assert_eq!(BankSets::interleaved([[1, 2], [3, 4]], &mut memory[..3]), Err(Error::TooLittleMemory));
    }
}
