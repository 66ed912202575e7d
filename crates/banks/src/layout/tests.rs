use super::*;
use proptest::prelude::*;
use rampart_memory::Frame;

const MIB: u64 = 1 << 20;

fn frames(mib: u64, length: u64) -> FrameRange {
    FrameRange::new(Frame::new(mib * 256).unwrap(), length * 256).unwrap()
}

fn node(id: u16, mib: u64, length: u64) -> PowerNode {
    PowerNode { id, frames: frames(mib, length) }
}

fn window(mib: u64, length: u64) -> CxlWindow {
    CxlWindow { frames: frames(mib, length), ways: 2, granularity: Bytes::new(1024) }
}

fn layout(nodes: Vec<PowerNode>, windows: Vec<CxlWindow>) -> BankLayout {
    let tables = MemoryTables { nodes, windows, refused: Vec::new() };
    BankLayout::of_firmware(&tables, Bytes::from_mib(1024))
}

/// The banks of blocks of 128 MiB.
fn of(layout: &BankLayout, block: u32) -> (u32, u32) {
    let banks = layout.of(HotplugBlock(block), Bytes::from_mib(128));
    (banks.start().0, banks.end().0)
}

#[test]
fn a_small_machine_has_smaller_banks() {
    assert_eq!(BankLayout::assumed(Bytes::from_mib(4 << 10)).size, Bytes::from_mib(128));
    assert_eq!(BankLayout::assumed(Bytes::from_mib(5 << 10)).size, Bytes::from_mib(256));
}

#[test]
fn a_bank_may_hold_several_blocks_and_a_block_several_banks() {
    let banks = BankLayout::requested(Bytes::from_mib(256));
    let of = |block, mib| {
        let banks = banks.of(HotplugBlock(block), Bytes::from_mib(mib));
        (banks.start().0, banks.end().0)
    };
    assert_eq!([of(0, 128), of(1, 128), of(2, 128), of(7, 128)], [(0, 0), (0, 0), (1, 1), (3, 3)]);
    assert_eq!([of(0, 2048), of(3, 2048)], [(0, 7), (24, 31)]);
}

#[test]
fn without_tables_the_size_is_assumed() {
    assert_eq!(layout(Vec::new(), Vec::new()), BankLayout::assumed(Bytes::from_mib(1024)));
}

#[test]
fn banks_of_the_firmware_have_any_size_and_the_others_the_assumed_one() {
    // 0 to 256: two banks of 128. 256 to 576: node 7. 576 to 640: what is left of a bank. From 640 on: 128 each.
    let banks = layout(vec![node(7, 256, 320)], Vec::new());
    assert_eq!(
        [0, 1, 2, 3, 4, 5, 6].map(|block| of(&banks, block)),
        [(0, 0), (1, 1), (2, 2), (2, 2), (2, 3), (4, 4), (5, 5)]
    );
    assert_eq!(banks.source, BankSource::Firmware);
    let named = NamedBank {
        bank: Bank(2),
        addresses: (256 * MIB, 576 * MIB - 1),
        table: FirmwareTable::Mpst,
        set: None,
        interleave: None,
    };
    assert_eq!(banks.named, [named]);
}

#[test]
fn the_ranges_of_a_node_are_a_set() {
    let banks = layout(vec![node(1, 0, 128), node(2, 128, 128), node(1, 512, 128)], Vec::new());
    let sets: Vec<_> = banks.named.iter().map(|named| (named.bank.0, named.set)).collect();
    assert_eq!(sets, [(0, Some(Bank(0))), (1, None), (4, Some(Bank(0)))]);
    assert_eq!([0, 1, 2, 4, 9].map(|bank| banks.set_of(Bank(bank)).0), [0, 1, 2, 0, 9]);
}

#[test]
fn a_window_of_cxl_memory_is_a_bank_unless_a_node_lies_in_it() {
    let banks = layout(vec![node(1, 512, 64)], vec![window(256, 256), window(768, 256), window(512, 128)]);
    let seen: Vec<_> = banks.named.iter().map(|named| (named.addresses.0 / MIB, named.table)).collect();
    assert_eq!(seen, [(256, FirmwareTable::Cedt), (512, FirmwareTable::Mpst), (768, FirmwareTable::Cedt)]);
    let interleave = Some(BankInterleave { ways: 2, granularity: Bytes::new(1024) });
    assert_eq!(banks.named.iter().map(|named| named.interleave).collect::<Vec<_>>(), [interleave, None, interleave]);
    assert!(banks.named.iter().all(|named| named.set.is_none()));
}

proptest! {
    /// Against a walk over all memory, MiB by MiB: a bank ends where the firmware says, or at a multiple of the size.
    #[test]
    fn numbers_are_those_of_a_walk_over_all_memory(
        gaps in proptest::collection::vec((0_u64..300, 1_u64..300, 0_u16..3), 0..6)
    ) {
        let (mut at, mut nodes) = (0, Vec::new());
        for (gap, length, id) in gaps {
            nodes.push(node(id, at + gap, length));
            at += gap + length;
        }
        let banks = layout(nodes.clone(), Vec::new());
        let place = |mib: u64| nodes.iter().position(|node| node.frames.contains(Frame::new(mib * 256).unwrap()));
        let mut number = 0;
        for mib in 0..at + 400 {
            let is_new = match (mib.checked_sub(1).map(place), place(mib)) {
                (None, _) => false,
                (Some(None), None) => mib % 128 == 0,
                (Some(before), now) => before != now,
            };
            number += u32::from(is_new);
            prop_assert_eq!(banks.at(mib * MIB).0, number, "at {} MiB", mib);
            prop_assert_eq!(banks.at(mib * MIB + MIB - 1).0, number);
        }
        let expected = |named: &NamedBank| nodes.iter().find(|node| node.frames.start().address() == named.addresses.0);
        for named in &banks.named {
            let id = expected(named).unwrap().id;
            let first = banks.named.iter().find(|other| expected(other).unwrap().id == id).unwrap();
            prop_assert_eq!(banks.set_of(named.bank), first.bank);
        }
    }
}
