//! The effect of exported pairs in GRUB 2.06: its search as a reference model.

use std::collections::BTreeSet;

use proptest::collection::btree_set;
use proptest::prelude::*;

use super::super::{BootTableEntry, Firmware, Purpose};
use super::*;
use crate::fault_map::{FailedFrame, MapOrigin};
use crate::{Frame, Timestamp};

fn badram(frames: impl IntoIterator<Item = u64>) -> BadRam {
    let mut map = FaultMap::new(MapOrigin::Real);
    for number in frames {
        map.insert(FailedFrame::condemned(Frame::new(number).unwrap(), Timestamp::default()));
    }
    BadRam::new(&map).unwrap()
}

/// Memory from the first address up to the second.
type Region = (u64, u64);

/// Steps after which the search counts as endless: it halves 64 bits.
const STEPS: usize = 1000;

/// The `n`th address that a pair matches, from the first: `n` in the bits that the mask leaves out.
fn nth(pair: AddressMask, n: u64) -> u64 {
    let free = (pair.mask.trailing_zeros()..64).filter(|bit| pair.mask >> bit & 1 == 0);
    let chosen = free.zip(0..).filter(|(_, place)| n >> place & 1 == 1);
    chosen.fold(pair.address & pair.mask, |address, (bit, _)| address | 1 << bit)
}

/// The first `n` whose address lies in a region or above it; `None` if the search never ends.
fn search(pair: AddressMask, region: Region) -> Option<u64> {
    if nth(pair, 0) >= region.0 {
        return Some(0);
    }
    let (mut low, mut high) = (0_u64, u64::MAX);
    for _ in 0..STEPS {
        if high.wrapping_sub(low) <= 1 {
            return Some(high);
        }
        // The sum overflows in C as it does here.
        let middle = low.wrapping_add(high) / 2;
        if nth(pair, middle) >= region.0 { high = middle } else { low = middle }
    }
    None
}

/// The blocks that GRUB leaves out of one region.
fn left_out(pair: AddressMask, region: Region) -> Option<Vec<Region>> {
    let size = 1 << pair.mask.trailing_zeros();
    let count = 1 << (pair.mask.count_zeros() - pair.mask.trailing_zeros());
    let numbers = (search(pair, region)?..count).map(|n| nth(pair, n));
    Some(numbers.take_while(|address| *address < region.1).map(|address| (address, address + size)).collect())
}

/// The rest of a region without a block.
fn without(region: Region, block: Region) -> impl Iterator<Item = Region> {
    let sides = [(region.0, region.1.min(block.0)), (region.0.max(block.1), region.1)];
    sides.into_iter().filter(|(first, end)| first < end)
}

/// The memory that GRUB leaves: each pair in turn, in each region that earlier pairs left. `None` if it never ends.
fn boot(list: &BadRam, mut regions: Vec<Region>) -> Option<Vec<Region>> {
    for pair in list.pairs() {
        for region in regions.clone() {
            for block in left_out(*pair, region)? {
                regions = regions.into_iter().flat_map(|region| without(region, block)).collect();
            }
        }
    }
    Some(regions)
}

fn frames_of(regions: &[Region]) -> BTreeSet<u64> {
    regions.iter().flat_map(|(first, end)| first / FRAME_BYTES..end / FRAME_BYTES).collect()
}

#[test]
fn a_mask_with_bit_63_hangs_grub_below_any_region() {
    let pair = AddressMask { address: 0x800_0000, mask: !0xfff };
    assert_eq!(search(pair, (0x1_0000_0000, 0x2_0000_0000)), None);
    let good = badram([0x8000]).pairs()[0];
    assert_eq!(good, AddressMask { address: 0x800_0000, mask: 0x7fff_ffff_ffff_f000 });
    assert_eq!(left_out(good, (0x1_0000_0000, 0x2_0000_0000)), Some(vec![]));
    assert_eq!(left_out(good, (0, 0x1_0000_0000)), Some(vec![(0x800_0000, 0x800_1000)]));
}

#[test]
fn more_than_the_boot_table_or_a_word_of_grub_holds_is_refused_with_the_count() {
    let memory = BootTableEntry { first: 0, last: 0xffff_ffff, purpose: Purpose::Memory };
    let table = BootTable::new(vec![memory; 1], Firmware::Bios);
    // One entry and the hook's two: 125 more fit.
    let sparse = |ranges: u64| badram((0..ranges).map(|n| 0x8000 + 2 * n));
    assert_eq!(sparse(125).check(&table), Ok(()));
    assert_eq!(sparse(126).check(&table), Err(ExportRefusal::Table { ranges: 126, entries: 129 }));
    let efi = BootTable::new(vec![memory; 1], Firmware::Efi);
    assert_eq!(sparse(63).check(&efi), Ok(()));
    assert_eq!(sparse(64).check(&efi), Err(ExportRefusal::Table { ranges: 64, entries: 129 }));
    // Runs of 14 frames that no larger block holds: 6 pairs each, of 29 bytes.
    let runs = |count: u64| badram((0..count).flat_map(|run| (1..15).map(move |n| 0x8000 + 16 * run + n)));
    assert_eq!(runs(47).check(&table), Ok(()));
    let bytes = 48 * 6 * 29 - 1;
    assert_eq!(runs(48).check(&table), Err(ExportRefusal::Word { frames: 672, pairs: 288, bytes }));
    assert!(runs(48).check(&table).unwrap_err().to_string().contains("672 bad frames"));
    assert_eq!(badram([]).check(&BootTable::new(vec![memory; 200], Firmware::Bios)), Ok(()), "not this list's fault");
}

const WINDOW: u64 = 256;

proptest! {
    #[test]
    fn grubs_search_ends_and_leaves_out_exactly_the_failed_frames(
        start in prop_oneof![0..4_u64, 0..(1_u64 << 40) / WINDOW - 1],
        runs in btree_set((0..WINDOW, 1..20_u64), 1..12),
        borders in btree_set(0..WINDOW, 0..6),
        gaps in 0..64_u64,
    ) {
        let start = start * WINDOW;
        let failed: BTreeSet<u64> =
            runs.into_iter().flat_map(|(first, count)| first..(first + count).min(WINDOW)).map(|n| start + n).collect();
        // Regions end and begin away from bad frames: a bad frame at the edge is memory, and its block begins in it.
        let good = |frame: u64| !failed.contains(&frame) && !failed.contains(&(frame.wrapping_sub(1)));
        let inner = borders.into_iter().map(|border| start + border).filter(|border| good(*border));
        let borders: Vec<u64> = [start].into_iter().chain(inner).chain([start + WINDOW]).collect();
        let mut regions: Vec<Region> = borders
            .windows(2)
            .enumerate()
            .filter(|(place, pair)| {
                let holds = failed.range(pair[0]..pair[1]).next().is_some();
                pair[0] < pair[1] && (holds || gaps >> place & 1 == 0)
            })
            .map(|(_, pair)| (pair[0] * FRAME_BYTES, pair[1] * FRAME_BYTES))
            .collect();
        // Above all blocks, where the search overflows.
        regions.push(((1 << 52) - FRAME_BYTES, 1 << 52));
        let all = frames_of(&regions);
        let left = boot(&badram(failed.iter().copied()), regions);
        prop_assert_eq!(left.map(|left| frames_of(&left)), Some(&all - &failed));
    }
}
