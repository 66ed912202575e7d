//! The injected faults of one block: which the test must find, and which it found.
//!
//! The faults of a block are the same in every pass. A wrong bit that an injected fault explains is emulated; any other
//! wrong bit is real, even in a line with an injected fault: injection never hides an error of the memory itself.

use std::collections::HashMap;

use rampart_memory::fault::PlacedFault;
use rampart_memory::fault_map::MapOrigin;
use rampart_memory::{LineBits, RegionLine};

/// The injected faults of one block.
#[derive(Debug, Default)]
pub struct InjectedFaults {
    faults: Vec<PlacedFault>,
    found: Vec<bool>,
    /// For each line that faults can corrupt: these faults, and the bits that each can corrupt.
    victims: HashMap<RegionLine, Vec<(usize, LineBits)>>,
}

/// The results for the injected faults of completely tested blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InjectedTally {
    /// Injected faults.
    pub injected: usize,
    /// Of these, faults within the test's detection guarantee.
    pub guaranteed: usize,
    /// Of the injected faults, those found.
    pub found: usize,
    /// Faults within the guarantee that were not found.
    pub missed: Vec<String>,
}

impl InjectedFaults {
    /// Makes a set of faults, none of them found yet.
    pub fn new(faults: Vec<PlacedFault>) -> Self {
        let mut victims: HashMap<_, Vec<_>> = HashMap::new();
        for (number, fault) in faults.iter().enumerate() {
            for (line, bits) in fault.victims() {
                victims.entry(line).or_default().push((number, bits));
            }
        }
        Self { found: vec![false; faults.len()], faults, victims }
    }

    /// Whether there are no faults.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// The faults, for an emulator.
    pub fn faults(&self) -> &[PlacedFault] {
        &self.faults
    }

    /// Records wrong bits in a line; returns [`MapOrigin::Emulated`] if injected faults explain them all.
    pub fn saw(&mut self, line: RegionLine, wrong: &LineBits) -> MapOrigin {
        let mut explained = LineBits::default();
        for (number, bits) in self.victims.get(&line).into_iter().flatten() {
            if !bits.intersection(wrong).is_empty() {
                self.found[*number] = true;
                explained = explained.union(bits);
            }
        }
        if wrong.minus(&explained).is_empty() { MapOrigin::Emulated } else { MapOrigin::Real }
    }

    /// Returns the results, after the block was tested completely. `guaranteed` says whether the test must find a
    /// fault.
    pub fn tally(&self, guaranteed: impl Fn(&PlacedFault) -> bool) -> InjectedTally {
        let mut tally = InjectedTally { injected: self.faults.len(), ..InjectedTally::default() };
        for (fault, &found) in self.faults.iter().zip(&self.found) {
            let guaranteed = guaranteed(fault);
            tally.guaranteed += usize::from(guaranteed);
            tally.found += usize::from(found);
            if guaranteed && !found {
                tally.missed.push(fault.to_string());
            }
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_memory::fault::{FaultCell, FaultKind};
    use rampart_memory::{LineBit, LineData};

    #[test]
    fn a_wrong_bit_that_no_planted_fault_explains_is_real() {
        let cell = FaultCell { line: RegionLine(5), bit: LineBit::new(9).unwrap() };
        let mut injected = InjectedFaults::new(vec![PlacedFault::permanent(FaultKind::StuckAt { cell, value: true })]);
        let wrong = |bits: &[u16]| {
            let line = bits.iter().fold(LineData::ZERO, |line, &bit| line.with_bit(LineBit::new(bit).unwrap(), true));
            LineBits(line)
        };
        assert_eq!(injected.saw(RegionLine(6), &wrong(&[9])), MapOrigin::Real);
        assert!(!injected.found[0]);
        assert_eq!(injected.saw(RegionLine(5), &wrong(&[9])), MapOrigin::Emulated);
        assert!(injected.found[0]);
        assert_eq!(
            injected.saw(RegionLine(5), &wrong(&[9, 10])),
            MapOrigin::Real,
            "one bit is explained, the other is not"
        );
    }

    #[test]
    fn a_guaranteed_fault_that_was_not_found_is_missed() {
        let fault = |line| {
            let cell = FaultCell { line: RegionLine(line), bit: LineBit::new(9).unwrap() };
            PlacedFault::permanent(FaultKind::StuckAt { cell, value: true })
        };
        let faults = [1, 2, 3, 4].map(fault);
        let mut injected = InjectedFaults::new(faults.to_vec());
        assert!(!injected.is_empty() && InjectedFaults::new(Vec::new()).is_empty());
        let wrong = LineBits(LineData::ZERO.with_bit(LineBit::new(9).unwrap(), true));
        for line in [1, 2, 3] {
            injected.saw(RegionLine(line), &wrong);
        }
        let tally = |of: &[PlacedFault]| injected.tally(|fault| of.contains(fault));
        let expected = InjectedTally { injected: 4, guaranteed: 3, found: 3, missed: vec![faults[3].to_string()] };
        assert_eq!(tally(&[faults[0], faults[2], faults[3]]), expected);
        assert_eq!(tally(&[faults[0]]), InjectedTally { injected: 4, guaranteed: 1, found: 3, missed: vec![] });
    }
}
