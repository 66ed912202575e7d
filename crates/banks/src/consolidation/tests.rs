//! Consolidation on machines that the tests make.

use std::collections::BTreeMap;

use super::*;
use crate::BankLayout;
use crate::attempts::FIRST_REST;
use proptest::prelude::*;
use rampart_linux::{BlockZones, Census, FrameClass, MemoryBlock, MemoryBlocks, MemoryOrigin};

/// Frames of a block.
const FRAMES: u64 = 1000;
const BLOCK: Bytes = Bytes::new(FRAMES * 4096);

/// Nobody waited for memory.
const CALM: Option<f64> = Some(0.0);

/// A block of the machine: its node, its zone, and frames in use by class.
#[derive(Clone, Debug)]
struct Made {
    node: u32,
    zone: &'static str,
    state: HotplugState,
    used: Vec<(FrameClass, u64)>,
}

fn online(zone: &'static str, used: &[(FrameClass, u64)]) -> Made {
    Made { node: 0, zone, state: HotplugState::Online, used: used.to_vec() }
}

fn anonymous(frames: u64) -> Made {
    online("Normal", &[(FrameClass::Anonymous, frames)])
}

fn kernel() -> Made {
    online("Normal", &[(FrameClass::Slab, 10)])
}

/// The survey of these blocks, with `per_bank` blocks in each bank.
fn survey(made: &[Made], per_bank: u64) -> MemorySurvey {
    let blocks = (0..).zip(made).map(|(number, made)| MemoryBlock {
        number: HotplugBlock(number),
        state: made.state,
        zones: BlockZones::In(made.zone.to_owned()),
        node: Some(Node(made.node)),
    });
    let census = |made: &Made| -> Census {
        let used: u64 = made.used.iter().map(|(_, frames)| frames).sum();
        made.used.iter().copied().chain([(FrameClass::Free, FRAMES - used)]).collect()
    };
    let censuses: Vec<Census> = made.iter().map(census).collect();
    let banks = BankLayout::requested(Bytes::new(BLOCK.get() * per_bank));
    MemorySurvey::new(&MemoryBlocks { size: BLOCK, blocks: blocks.collect() }, Some(&censuses), banks)
}

fn blocks(count: u64) -> Bytes {
    Bytes::new(count * BLOCK.get())
}

fn goal(target: Bytes, reserve_percent: u32) -> ConsolidationGoal {
    ConsolidationGoal { target, reserve_percent, pressure_percent: 10 }
}

fn next(made: &[Made], per_bank: u64, target: Bytes, reserve_percent: u32) -> NextStep {
    Consolidation::new(goal(target, reserve_percent)).next(&survey(made, per_bank), CALM, Duration::ZERO)
}

fn offline(number: u32) -> NextStep {
    NextStep::Offline(HotplugBlock(number))
}

#[test]
fn the_cheapest_block_goes_first_and_of_two_the_higher() {
    let made = [kernel(), anonymous(30), anonymous(20), anonymous(20), anonymous(90)];
    assert_eq!(next(&made, 1, blocks(1), 5), offline(3));
}

#[test]
fn a_bank_that_goes_wholly_comes_before_a_cheaper_block_of_one_that_does_not() {
    let made = [kernel(), anonymous(1), anonymous(300), anonymous(200), anonymous(200), anonymous(350)];
    assert_eq!(next(&made, 2, blocks(1), 5), offline(3), "banks cost: never, 500, 550");
}

#[test]
fn bad_memory_goes_first() {
    let bad = online("Normal", &[(FrameClass::Anonymous, 500), (FrameClass::Poisoned, 1)]);
    assert_eq!(next(&[kernel(), anonymous(1), bad, anonymous(2)], 1, blocks(1), 5), offline(2));
}

#[test]
fn what_the_host_can_have_back_goes_before_what_is_cheaper() {
    let bad = online("Normal", &[(FrameClass::Anonymous, 5), (FrameClass::Poisoned, 1)]);
    let mut survey = survey(&[kernel(), anonymous(1), anonymous(9), bad], 1);
    survey.blocks[2].origin = MemoryOrigin::VirtioMem;
    let goal = goal(blocks(1), 5);
    assert_eq!(Consolidation::new(goal).next(&survey, CALM, Duration::ZERO), offline(3), "bad memory before all");
    survey.blocks.pop();
    assert_eq!(Consolidation::new(goal).next(&survey, CALM, Duration::ZERO), offline(2));
}

#[test]
fn a_reached_target_ends_it_and_so_does_the_lack_of_blocks() {
    let mut made = vec![kernel(), anonymous(30), anonymous(20)];
    assert_eq!(next(&made, 1, blocks(0), 5), NextStep::End(ConsolidationEnd::TargetReached));
    made[2].state = HotplugState::Offline;
    assert_eq!(next(&made, 1, blocks(1), 5), NextStep::End(ConsolidationEnd::TargetReached));
    made[1] = kernel();
    assert_eq!(next(&made, 1, blocks(2), 5), NextStep::End(ConsolidationEnd::NoCandidate));
}

#[test]
fn the_reserve_of_a_node_is_kept_to_the_frame() {
    // 3000 frames, 150 of them in reserve; without a block 1150 must be free.
    let free = |frames: u64| [kernel(), anonymous(990 - frames), anonymous(870)];
    assert_eq!(next(&free(20), 1, blocks(1), 5), offline(2));
    assert_eq!(next(&free(19), 1, blocks(1), 5), NextStep::End(ConsolidationEnd::Reserve));
    let mut two_nodes = [kernel(), anonymous(895), kernel(), kernel()];
    two_nodes[2..].iter_mut().for_each(|block| block.node = 1);
    assert_eq!(next(&two_nodes, 1, blocks(1), 5), NextStep::End(ConsolidationEnd::Reserve), "node 1 does not help");
}

#[test]
fn no_node_is_left_without_memory_for_the_kernel() {
    let movable = || online("Movable", &[]);
    assert_eq!(next(&[anonymous(0), movable(), movable()], 1, blocks(3), 5), offline(2));
    let mut made = [anonymous(0), movable(), movable()];
    made[1].used = vec![(FrameClass::Slab, 1)];
    made[2].used = vec![(FrameClass::Slab, 1)];
    assert_eq!(next(&made, 1, blocks(3), 5), NextStep::End(ConsolidationEnd::Reserve));
}

#[test]
fn a_block_that_failed_rests_longer_each_time_and_is_given_up() {
    let machine = survey(&[kernel(), anonymous(1), kernel()], 1);
    let mut consolidation = Consolidation::new(goal(blocks(1), 5));
    let at = Duration::from_secs;
    assert_eq!(consolidation.next(&machine, CALM, at(0)), offline(1));
    consolidation.failed(HotplugBlock(1), at(10));
    assert_eq!(consolidation.next(&machine, CALM, at(10)), NextStep::Wait(at(11)));
    assert_eq!(consolidation.next(&machine, CALM, at(11)), offline(1));
    consolidation.failed(HotplugBlock(1), at(12));
    assert_eq!(consolidation.next(&machine, CALM, at(12)), NextStep::Wait(at(14)));
    consolidation.failed(HotplugBlock(1), at(14));
    assert_eq!(consolidation.next(&machine, CALM, at(99)), NextStep::End(ConsolidationEnd::NoCandidate));
}

#[test]
fn while_one_block_rests_another_is_tried() {
    let machine = survey(&[kernel(), anonymous(1), anonymous(2)], 1);
    let mut consolidation = Consolidation::new(goal(blocks(1), 5));
    consolidation.failed(HotplugBlock(1), Duration::from_millis(5));
    assert_eq!(consolidation.next(&machine, CALM, Duration::from_millis(5)), offline(2));
    let after_the_rest = Duration::from_secs(60);
    assert_eq!(consolidation.next(&machine, CALM, after_the_rest), offline(2), "one that has not failed comes first");
    consolidation.failed(HotplugBlock(2), Duration::from_secs(2));
    assert_eq!(consolidation.next(&machine, CALM, after_the_rest), offline(1), "then the cheaper one");
}

/// Block 1 moves into block 2, and both into block 3. A program allocates 4 frames meanwhile, which look as if they had
/// moved.
#[test]
fn what_came_to_a_block_since_the_beginning_counts_as_moved_twice() {
    let machine = [kernel(), anonymous(1), anonymous(20), anonymous(300)];
    let frames = |frames: u64| Bytes::new(frames * 4096);
    let mut moved = MovedOut::begin(&survey(&machine, 1));
    moved.went(HotplugBlock(1), frames(1));
    assert_eq!((moved.moved, moved.twice), (frames(1), frames(0)));
    moved.went(HotplugBlock(2), frames(21));
    assert_eq!((moved.moved, moved.twice), (frames(22), frames(1)));
    moved.went(HotplugBlock(3), frames(300 + 21 + 4));
    assert_eq!((moved.moved, moved.twice), (frames(22 + 325), frames(1 + 22)), "no more than had moved");
}

/// A wait of exactly the limit is permitted. What is not known ends nothing, and what is reached comes first.
#[test]
fn programs_that_wait_for_memory_for_longer_than_the_limit_end_it() {
    let machine = survey(&[kernel(), anonymous(1), anonymous(2)], 1);
    let pressed = NextStep::End(ConsolidationEnd::Pressure);
    for (limit, waited, next) in [
        (10, None, offline(1)),
        (10, Some(0.0), offline(1)),
        (10, Some(0.1), offline(1)),
        (10, Some(0.1001), pressed),
        (10, Some(1.0), pressed),
        (0, Some(0.0), offline(1)),
        (0, Some(0.000_1), pressed),
        (100, Some(1.0), offline(1)),
    ] {
        let goal = ConsolidationGoal { pressure_percent: limit, ..goal(blocks(1), 5) };
        let decided = Consolidation::new(goal).next(&machine, waited, Duration::ZERO);
        assert_eq!(decided, next, "{waited:?} with a limit of {limit} %");
    }
    let mut resting = Consolidation::new(goal(blocks(1), 5));
    [1, 2].into_iter().for_each(|block| resting.failed(HotplugBlock(block), Duration::ZERO));
    assert_eq!(resting.next(&machine, Some(0.2), Duration::ZERO), pressed, "no wait for blocks that rest");
    let reached = Consolidation::new(goal(blocks(0), 5)).next(&machine, Some(1.0), Duration::ZERO);
    assert_eq!(reached, NextStep::End(ConsolidationEnd::TargetReached));
}

fn made() -> impl Strategy<Value = Made> {
    let class = prop_oneof![
        6 => Just(FrameClass::Anonymous),
        2 => Just(FrameClass::File),
        1 => Just(FrameClass::Slab),
        1 => Just(FrameClass::Poisoned),
    ];
    let zone = prop_oneof![Just("Normal"), Just("Movable")];
    (0..2_u32, zone, any::<bool>(), class, 0..=FRAMES).prop_map(|(node, zone, is_online, class, frames)| Made {
        node,
        zone,
        state: if is_online { HotplugState::Online } else { HotplugState::Offline },
        used: vec![(class, frames)],
    })
}

/// Takes a block offline as Linux does: its pages go to free frames of its node. Returns whether they all fit.
fn empty(machine: &mut [Made], block: usize) -> bool {
    let node = machine[block].node;
    let mut left: u64 =
        machine[block].used.iter().filter(|(class, _)| *class != FrameClass::Poisoned).map(|u| u.1).sum();
    machine[block].state = HotplugState::Offline;
    for other in machine.iter_mut().filter(|other| other.node == node && other.state == HotplugState::Online) {
        let free = FRAMES - other.used.iter().map(|(_, frames)| frames).sum::<u64>();
        let moved = left.min(free);
        other.used.push((FrameClass::Anonymous, moved));
        left -= moved;
    }
    left == 0
}

proptest! {
    /// A whole consolidation, with attempts that fail at random: it ends, programs keep their memory, each node its
    /// reserve and memory for the kernel, and no block is tried more often or earlier than it may. Once programs wait
    /// for memory for too long, no further block is tried.
    #[test]
    fn a_consolidation_ends_and_spares_what_it_must(
        mut machine in proptest::collection::vec(made(), 1..40),
        target in 0..30_u64,
        reserve_percent in 0..60_u32,
        per_bank in 1..4_u64,
        failures in proptest::collection::vec(any::<bool>(), 200),
        waits in proptest::collection::vec(0..12_u32, 200),
    ) {
        let goal = goal(blocks(target), reserve_percent);
        let (mut waits, mut waited) = (waits.into_iter(), 0);
        let mut consolidation = Consolidation::new(goal);
        let (mut now, mut failures) = (Duration::ZERO, failures.into_iter());
        let mut tried: BTreeMap<HotplugBlock, Vec<Duration>> = BTreeMap::new();
        let end = loop {
            let seen = survey(&machine, per_bank);
            // Rarely 11 %: most consolidations end for another reason.
            waited = waited.max(waits.next().filter(|percent| *percent < 11 || tried.len() > 8).unwrap_or(0));
            let block = match consolidation.next(&seen, Some(f64::from(waited) / 100.0), now) {
                NextStep::Offline(block) => block,
                NextStep::Wait(until) => {
                    prop_assert!(until > now);
                    now = until;
                    continue;
                }
                NextStep::End(end) => break end,
            };
            prop_assert!(waited <= 10, "programs wait");
            let attempts = tried.entry(block).or_default();
            if let Some(last) = attempts.last() {
                prop_assert!(now >= *last + FIRST_REST * (1 << (attempts.len() - 1)), "too early");
            }
            attempts.push(now);
            prop_assert!(attempts.len() <= 3, "too often");
            if failures.next() == Some(true) {
                consolidation.failed(block, now);
                continue;
            }
            let node = machine[block.0 as usize].node;
            prop_assert!(empty(&mut machine, block.0 as usize), "programs lack memory");
            let after = survey(&machine, per_bank);
            let of_node: Vec<_> = after.blocks.iter().filter(|block| block.node == Some(Node(node))).collect();
            let free: u64 = of_node.iter().map(|block| block.uses.free.get()).sum();
            let reserve = of_node.len() as u64 * BLOCK.get() / 100 * u64::from(reserve_percent);
            prop_assert!(free >= reserve, "{free} of {reserve}");
        };
        let offline = survey(&machine, per_bank).totals.offline;
        prop_assert_eq!(end == ConsolidationEnd::TargetReached, offline >= goal.target);
        prop_assert_eq!(end == ConsolidationEnd::Pressure, waited > 10 && offline < goal.target);
        prop_assert!(tried.is_empty() || offline.get() < goal.target.get() + BLOCK.get(), "no more than was asked");
    }
}
