use super::*;
use crate::costs::BankCosts;
use proptest::prelude::*;
use rampart_linux::{MemoryTables, PowerNode};
use rampart_memory::{Frame, FrameRange};
use std::collections::BTreeSet;

const BLOCK: u64 = 128 << 20;
const FRAMES: u64 = BLOCK / FRAME_BYTES;

fn block(number: u32, state: HotplugState, zones: BlockZones) -> MemoryBlock {
    MemoryBlock { number: HotplugBlock(number), state, zones, node: Some(Node(0)) }
}

fn normal() -> BlockZones {
    BlockZones::In("Normal".to_owned())
}

fn movable_zone() -> BlockZones {
    BlockZones::In("Movable".to_owned())
}

fn survey(blocks: Vec<MemoryBlock>, censuses: Option<&[Census]>, bank: u64) -> MemorySurvey {
    let blocks = MemoryBlocks { size: Bytes::new(BLOCK), blocks };
    MemorySurvey::new(&blocks, censuses, BankLayout::requested(Bytes::new(bank)))
}

fn census(counts: &[(FrameClass, u64)]) -> Census {
    let used: u64 = counts.iter().map(|(_, frames)| frames).sum();
    counts.iter().copied().chain([(FrameClass::Free, FRAMES - used)]).collect()
}

#[test]
fn a_block_can_be_emptied_unless_there_is_a_reason() {
    let in_use = |class| census(&[(class, 1)]);
    for (zones, census, expected) in [
        (normal(), census(&[]), None),
        (normal(), census(&[(FrameClass::Anonymous, 9), (FrameClass::File, 8), (FrameClass::HugeTlb, 512)]), None),
        (normal(), in_use(FrameClass::Poisoned), None),
        (normal(), in_use(FrameClass::Slab), Some(BlockObstacle::Unmovable)),
        (normal(), in_use(FrameClass::PageTable), Some(BlockObstacle::Unmovable)),
        (normal(), in_use(FrameClass::Kernel), Some(BlockObstacle::Unmovable)),
        (normal(), in_use(FrameClass::Reserved), Some(BlockObstacle::Unmovable)),
        (normal(), in_use(FrameClass::Offline), Some(BlockObstacle::Unmovable)),
        (movable_zone(), in_use(FrameClass::Kernel), None),
        (movable_zone(), in_use(FrameClass::Slab), Some(BlockObstacle::Unmovable)),
        (movable_zone(), in_use(FrameClass::Reserved), Some(BlockObstacle::Unmovable)),
        (BlockZones::Several, census(&[]), Some(BlockObstacle::SeveralZones)),
        (BlockZones::Several, in_use(FrameClass::Absent), Some(BlockObstacle::Hole)),
    ] {
        let seen = survey(vec![block(0, HotplugState::Online, zones)], Some(&[census]), BLOCK);
        assert_eq!(seen.blocks[0].obstacle, expected, "{census:?}");
    }
}

#[test]
fn without_root_only_states_and_zones_are_known() {
    let blocks = vec![
        block(0, HotplugState::Online, BlockZones::Several),
        block(1, HotplugState::Online, normal()),
        block(2, HotplugState::Offline, BlockZones::Choices(vec!["Normal".to_owned()])),
        block(3, HotplugState::GoingOffline, normal()),
    ];
    let seen = survey(blocks, None, 2 * BLOCK);
    let obstacles: Vec<_> = seen.blocks.iter().map(|block| block.obstacle).collect();
    let expected =
        [BlockObstacle::SeveralZones, BlockObstacle::Unknown, BlockObstacle::Offline, BlockObstacle::GoingOffline];
    assert_eq!(obstacles, expected.map(Some));
    assert!(!seen.uses_known && seen.totals.can_be_emptied == Bytes::ZERO && seen.totals.removable_banks == 0);
}

#[test]
fn a_block_that_is_offline_uses_nothing_and_a_bank_goes_only_whole() {
    let full = census(&[(FrameClass::Anonymous, 100)]);
    let stuck = census(&[(FrameClass::Slab, 3)]);
    let blocks = vec![
        block(0, HotplugState::Online, normal()),
        block(1, HotplugState::Offline, BlockZones::Choices(Vec::new())),
        block(2, HotplugState::Online, normal()),
        block(3, HotplugState::Online, normal()),
        block(9, HotplugState::Online, normal()),
    ];
    let mut all = vec![full, stuck, full, stuck];
    all.resize(10, census(&[]));
    let seen = survey(blocks, Some(&all), 2 * BLOCK);
    assert_eq!(seen.blocks[1].uses, FrameUseBytes::default(), "whatever its frames say");
    let totals = seen.totals;
    assert_eq!((totals.online, totals.offline), (Bytes::new(4 * BLOCK), Bytes::new(BLOCK)));
    assert_eq!((totals.can_be_emptied, totals.to_move), (Bytes::new(3 * BLOCK), Bytes::new(200 * FRAME_BYTES)));
    assert_eq!((totals.banks, totals.removable_banks), (3, 2), "banks 0 and 4, and not 1, with block 3");
    assert_eq!(seen.blocks[4].addresses, (9 * BLOCK, 10 * BLOCK - 1));
}

#[test]
fn what_moves_from_a_block_is_expected_in_the_fullest_of_its_node() {
    let used = |frames| census(&[(FrameClass::Anonymous, frames), (FrameClass::Free, FRAMES - frames)]);
    let blocks = (0..4).map(|number| block(number, HotplugState::Online, normal())).collect();
    let before = survey(blocks, Some(&[used(10), used(FRAMES - 3), used(20), used(5)]), BLOCK);
    let after = before.without(HotplugBlock(0));
    let movable: Vec<u64> = after.blocks.iter().map(|block| block.uses.movable.frames()).collect();
    assert_eq!(movable, [0, FRAMES, 27, 5]);
    let blocks = [normal(), movable_zone(), movable_zone(), normal()];
    let blocks = (0..).zip(blocks).map(|(number, zones)| block(number, HotplugState::Online, zones)).collect();
    let before = survey(blocks, Some(&[used(10), used(FRAMES - 3), used(20), used(5)]), BLOCK);
    let movable = |gone| {
        let after = before.without(HotplugBlock(gone));
        after.blocks.iter().map(|block| block.uses.movable.frames()).collect::<Vec<u64>>()
    };
    assert_eq!(movable(0), [0, FRAMES - 3, 20, 15], "nothing moves from another zone into ZONE_MOVABLE");
    assert_eq!(movable(1), [27, 0, FRAMES, 5], "and from there anywhere");
    assert_eq!(after.blocks[0].obstacle, Some(BlockObstacle::Offline));
    assert_eq!((after.totals.offline, after.totals.online), (Bytes::new(BLOCK), Bytes::new(3 * BLOCK)));
    assert_eq!(before.without(HotplugBlock(9)), before);
}

/// Blocks 0 and 1 are the machine's, the others those of virtio-mem.
fn origins() -> MemoryOrigins {
    MemoryOrigins::parse(
        "00000000-0fffffff : System RAM\n10000000-ffffffff : virtio0\n  10000000-ffffffff : System RAM (virtio_mem)\n",
    )
}

#[test]
fn what_the_host_can_have_back_is_its_own_memory_offline_or_empty() {
    let choices = || BlockZones::Choices(vec!["Movable".to_owned()]);
    let blocks = vec![
        block(0, HotplugState::Online, normal()),
        block(1, HotplugState::Offline, choices()),
        block(2, HotplugState::Offline, choices()),
        block(3, HotplugState::Online, normal()),
        block(4, HotplugState::Online, normal()),
        block(5, HotplugState::Offline, choices()),
    ];
    let mut censuses = vec![census(&[]); 6];
    censuses[4] = census(&[(FrameClass::Slab, 1)]);
    let blocks = MemoryBlocks { size: Bytes::new(BLOCK), blocks };
    let banks = || BankLayout::requested(Bytes::new(BLOCK));
    let seen = MemorySurvey::with_origins(&blocks, Some(&censuses), banks(), &origins());
    let of = |blocks: u64| Bytes::new(blocks * BLOCK);
    let expected = VirtioMemTotals { plugged: of(4), offline: of(2), can_be_emptied: of(1) };
    assert_eq!(seen.totals.virtio_mem, expected);
    assert_eq!(seen.blocks.iter().filter(|block| block.is_of_virtio_mem()).count(), 4);
    assert_eq!(seen.without(HotplugBlock(3)).totals.virtio_mem.offline, of(3));
    let unknown = MemorySurvey::new(&blocks, Some(&censuses), banks());
    assert_eq!(unknown.totals.virtio_mem, VirtioMemTotals::default());
    assert_eq!(unknown.blocks[2].origin, MemoryOrigin::Unknown);
}

#[test]
fn a_block_of_which_the_host_has_a_part_can_be_emptied_and_one_with_a_balloon_cannot() {
    let part = census(&[(FrameClass::Offline, 512), (FrameClass::Anonymous, 3)]);
    let blocks = vec![block(1, HotplugState::Online, normal()), block(2, HotplugState::Online, normal())];
    let blocks = MemoryBlocks { size: Bytes::new(BLOCK), blocks };
    let banks = BankLayout::requested(Bytes::new(BLOCK));
    let seen = MemorySurvey::with_origins(&blocks, Some(&[part; 3]), banks, &origins());
    assert_eq!(
        seen.blocks.iter().map(|block| block.obstacle).collect::<Vec<_>>(),
        [Some(BlockObstacle::Unmovable), None]
    );
    let uses = seen.blocks[1].uses;
    assert_eq!((uses.unplugged, uses.unmovable), (Bytes::new(512 * FRAME_BYTES), Bytes::ZERO));
    assert_eq!(seen.blocks[0].uses.unmovable, uses.unplugged);
}

proptest! {
    /// The banks of blocks are counted as a set counts them, whatever is larger, a bank or a block.
    #[test]
    fn banks_are_counted_once(numbers in proptest::collection::btree_set(0_u32..200, 0..40), shift in 0_u32..6) {
        let size = (BLOCK >> 3) << shift;
        let blocks: Vec<_> = numbers.iter().map(|&number| block(number, HotplugState::Online, normal())).collect();
        let seen = survey(blocks, None, size);
        let model: BTreeSet<u64> = numbers
            .iter()
            .flat_map(|&number| (0..8).map(move |part| (u64::from(number) * BLOCK + part * BLOCK / 8) / size))
            .collect();
        prop_assert_eq!(seen.totals.banks, model.len() as u64);
    }

    /// Nothing is lost: the uses of an online block make up the block.
    #[test]
    fn the_uses_of_a_block_make_up_the_block(
        counts in proptest::collection::vec(0_u64..2000, 11),
        origin in prop_oneof![Just(MemoryOrigin::Machine), Just(MemoryOrigin::VirtioMem), Just(MemoryOrigin::Unknown)],
        zone in prop_oneof![Just("Normal"), Just("Movable")],
    ) {
        let census: Census = FrameClass::ALL.into_iter().zip(counts.iter().copied()).collect();
        let uses = FrameUseBytes::of(&census, origin, &BlockZones::In(String::from(zone)));
        let sum = uses.free.get() + uses.used().get() + uses.retired.get() + uses.unplugged.get() + uses.hole.get();
        prop_assert_eq!(sum, counts.iter().sum::<u64>() * FRAME_BYTES);
    }
}

/// Banks of one block each, of which those of node 1 are a set: 0, 2 and one without a block.
fn with_a_set(censuses: &[Census]) -> MemorySurvey {
    let node = |id, block: u64| PowerNode {
        id,
        frames: FrameRange::new(Frame::new(block * FRAMES).unwrap(), FRAMES).unwrap(),
    };
    let tables = MemoryTables { nodes: vec![node(1, 0), node(1, 2), node(1, 9)], ..MemoryTables::default() };
    let blocks = (0..4).map(|number| block(number, HotplugState::Online, normal())).collect();
    let blocks = MemoryBlocks { size: Bytes::new(BLOCK), blocks };
    MemorySurvey::new(&blocks, Some(censuses), BankLayout::of_firmware(&tables, Bytes::new(4 * BLOCK)))
}

#[test]
fn a_bank_of_a_set_goes_only_with_all_others() {
    let (free, kernel, program) = (census(&[]), census(&[(FrameClass::Slab, 1)]), census(&[(FrameClass::File, 9)]));
    let totals = |censuses: [Census; 4]| with_a_set(&censuses).totals;
    assert_eq!((totals([free; 4]).removable_banks, totals([free; 4]).banks), (4, 4));
    assert_eq!(totals([kernel, free, free, free]).removable_banks, 2, "bank 2 stays with bank 0");
    assert_eq!(totals([kernel, free, kernel, free]).removable_banks, 2);
    assert_eq!(totals([free, kernel, free, free]).removable_banks, 3, "bank 1 is alone");
    // What moves out of a bank moves out of its set: block 1 is the cheapest, and block 0 comes with block 2.
    let survey = with_a_set(&[free, census(&[(FrameClass::File, 5)]), program, kernel]);
    let costs = BankCosts::of(&survey);
    let rank = |block: usize| costs.of_block(&survey.blocks[block]);
    assert_eq!(rank(0).3, 9 * FRAME_BYTES);
    assert!(rank(1) < rank(0) && rank(0) < rank(2) && rank(2) < rank(3));
    let survey = with_a_set(&[free, program, kernel, free]);
    let costs = BankCosts::of(&survey);
    assert!(
        costs.of_block(&survey.blocks[1]) < costs.of_block(&survey.blocks[0]),
        "the set of block 0 does not go whole"
    );
}
