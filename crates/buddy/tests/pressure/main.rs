//! What the choice of a bank is worth when the kernel must take memory among programs [Panwar15, 4.1.2, 4.2].
//!
//! **Problem.** As long as any bank is offline, the kernel takes none from programs, and the loads of
//! `rampart banks replay` leave some offline. **Idea.** Programs use up all memory and leave holes, many in some banks
//! and few in others; then the kernel wants more. A bank in which it gets a page can never be emptied again. **Why this
//! way.** The fewer free frames the chosen bank has, the sooner the kernel takes the next one.

use rampart_buddy::{
    AdaptiveBuddy, BankSets, BankSize, Buddy, Cpu, FullestBank, FullestSlices, Locked, Migratetype, PageAllocator,
    Request, StealRule, Zone, ZoneKind,
};
use rampart_memory::{BlockOrder, Frame, FrameBlock, FrameRange, Node, Tested};

const BANK: u64 = 1024;
const BANKS: u64 = 64;

/// The kernel's pages: 2 % of the memory.
const PAGES: u64 = BANKS * BANK / 50;

fn zone() -> Zone {
    let frames = FrameRange::new(Frame::new(0).unwrap(), BANKS * BANK).unwrap();
    Zone { node: Node(0), kind: ZoneKind::Normal, frames }
}

fn page(migratetype: Migratetype) -> Request {
    Request { order: BlockOrder::ZERO, migratetype, cpu: Cpu(0), node: Node(0), urgent: true }
}

/// A number from 0 to `below`, without the last.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Returns in how many banks the kernel's pages lie.
fn tainted(allocator: &impl PageAllocator, seed: u64) -> usize {
    let mut state = seed;
    let held: Vec<FrameBlock> = std::iter::from_fn(|| allocator.allocate(page(Migratetype::Movable))).collect();
    assert_eq!(held.len() as u64, BANKS * BANK);
    // From each bank up to a tenth is freed.
    let holes: Vec<u64> = (0..BANKS).map(|_| draw(&mut state, BANK / 10)).collect();
    let bank = |block: FrameBlock| block.first().number() / BANK;
    for block in held {
        if draw(&mut state, BANK) < holes[usize::try_from(bank(block)).unwrap()] {
            allocator.free(block, Cpu(0));
        }
    }
    let pages = (0..PAGES).map(|_| allocator.allocate(page(Migratetype::Unmovable)).expect("frames are free"));
    pages.map(bank).collect::<std::collections::BTreeSet<u64>>().len()
}

fn banked(steal: StealRule) -> impl PageAllocator {
    let size = BankSize::of_frames(BANK).unwrap();
    AdaptiveBuddy::new(&[zone()], size, &BankSets::plain(), steal).unwrap()
}

fn of_fullest_bank(seed: u64) -> usize {
    let (zones, size) = ([zone()], BankSize::of_frames(BANK).unwrap());
    let mut slices = FullestSlices::of(&zones, 1, size);
    let mut vacant = slices.vacant_zones();
    let memory = slices.lend(&mut vacant);
    tainted(&FullestBank::new(&zones, 1, size, &BankSets::plain(), memory).unwrap(), seed)
}

/// `cargo test -p rampart-buddy --test pressure -- --nocapture` prints the banks with memory of the kernel.
#[test]
fn the_emptiest_bank_of_the_programs_serves_the_kernel_longer_than_an_arbitrary_one() {
    for seed in 1..=10 {
        let buddy = tainted(&Locked::new(Buddy::new(&[zone()], 1, Tested::NEVER).unwrap()), seed);
        let arbitrary = tainted(&banked(StealRule::Lowest), seed);
        let emptiest = tainted(&banked(StealRule::MostFree), seed);
        let fullest = of_fullest_bank(seed);
        println!(
            "seed {seed}: of {BANKS} banks, tainted with Buddy {buddy}, AdaptiveBuddy with an arbitrary bank \
             {arbitrary}, with the emptiest {emptiest}, FullestBank {fullest}"
        );
        assert!(4 * emptiest <= 3 * arbitrary && arbitrary <= buddy, "{emptiest} {arbitrary} {buddy}");
        assert!(4 * fullest <= 3 * arbitrary, "{fullest} {arbitrary}");
    }
}
