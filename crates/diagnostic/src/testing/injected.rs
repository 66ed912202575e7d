//! Emulated faults in one block: which were injected, guaranteed by the test, and found.
//!
//! The faults of a block are the same in every pass. A wrong bit that an injected fault explains is emulated; any other
//! wrong bit is real, even in a line with an injected fault: emulation never hides an error of the memory itself.

use std::collections::HashMap;

use rampart_memory::fault::PlacedFault;
use rampart_memory::fault_map::MapOrigin;
use rampart_memory::{LineBits, RegionLine};

/// One block's injected faults.
#[derive(Debug, Default)]
pub struct InjectedFaults {
    faults: Vec<PlacedFault>,
    found: Vec<bool>,
    /// For each line that faults can make wrong: the faults, and the affected bits.
    victims: HashMap<RegionLine, Vec<(usize, LineBits)>>,
}

/// The results for the injected faults of completely tested blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InjectedTally {
    /// Injected.
    pub planted: usize,
    /// Of these, guaranteed by the test.
    pub promised: usize,
    /// Of the injected ones, found.
    pub found: usize,
    /// Guaranteed and not found.
    pub missed: Vec<String>,
}

impl InjectedFaults {
    /// These faults, none found yet.
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

    /// Records wrong bits in a line; returns whether injected faults explain them all.
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

    /// The results, for a completely tested block.
    pub fn tally(&self, promised: impl Fn(&PlacedFault) -> bool) -> InjectedTally {
        let mut tally = InjectedTally { planted: self.faults.len(), ..InjectedTally::default() };
        for (fault, &found) in self.faults.iter().zip(&self.found) {
            let promised = promised(fault);
            tally.promised += usize::from(promised);
            tally.found += usize::from(found);
            if promised && !found {
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
        let mut planted = InjectedFaults::new(vec![PlacedFault::permanent(FaultKind::StuckAt { cell, value: true })]);
        let wrong = |bits: &[u16]| {
            let line = bits.iter().fold(LineData::ZERO, |line, &bit| line.with_bit(LineBit::new(bit).unwrap(), true));
            LineBits(line)
        };
        assert_eq!(planted.saw(RegionLine(6), &wrong(&[9])), MapOrigin::Real);
        assert!(!planted.found[0]);
        assert_eq!(planted.saw(RegionLine(5), &wrong(&[9])), MapOrigin::Emulated);
        assert!(planted.found[0]);
        assert_eq!(
            planted.saw(RegionLine(5), &wrong(&[9, 10])),
            MapOrigin::Real,
            "one bit is explained, the other is not"
        );
    }
}
