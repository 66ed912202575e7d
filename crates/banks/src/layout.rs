//! The boundaries of banks.

use std::ops::RangeInclusive;

use rampart_memory::{Bank, Bytes, HotplugBlock};
use serde::Serialize;

/// Banks of one size, from address 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BankLayout {
    /// The size of a bank.
    pub size: Bytes,
    /// Where the size comes from.
    pub source: BankSource,
}

/// Where the size of a bank comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, displaydoc::Display)]
#[serde(rename_all = "snake_case")]
pub enum BankSource {
    /// assumed
    Assumed,
    /// as requested
    Requested,
}

impl BankLayout {
    /// The banks that [Panwar15, 5.1] assumes: of 256 MiB, and of 128 MiB on a machine with up to 4 GiB.
    #[must_use]
    pub fn assumed(memory: Bytes) -> Self {
        let size = if memory > Bytes::from_mib(4 << 10) { Bytes::from_mib(256) } else { Bytes::from_mib(128) };
        Self { size, source: BankSource::Assumed }
    }

    /// The banks in which a block of `size` bytes lies.
    #[must_use]
    pub fn of(&self, block: HotplugBlock, size: Bytes) -> RangeInclusive<Bank> {
        let bank = |address: u64| Bank(u32::try_from(address / self.size.get()).unwrap_or(u32::MAX));
        let start = u64::from(block.0) * size.get();
        bank(start)..=bank(start + (size.get() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_machine_has_smaller_banks() {
        assert_eq!(BankLayout::assumed(Bytes::from_mib(4 << 10)).size, Bytes::from_mib(128));
        assert_eq!(BankLayout::assumed(Bytes::from_mib(5 << 10)).size, Bytes::from_mib(256));
    }

    #[test]
    fn a_bank_may_hold_several_blocks_and_a_block_several_banks() {
        let banks = BankLayout { size: Bytes::from_mib(256), source: BankSource::Requested };
        let of = |block, mib| {
            let banks = banks.of(HotplugBlock(block), Bytes::from_mib(mib));
            (banks.start().0, banks.end().0)
        };
        assert_eq!([of(0, 128), of(1, 128), of(2, 128), of(7, 128)], [(0, 0), (0, 0), (1, 1), (3, 3)]);
        assert_eq!([of(0, 2048), of(3, 2048)], [(0, 7), (24, 31)]);
    }
}
