//! What is done with each allocator.

use core::array::from_fn;
use core::mem::MaybeUninit;

use rampart_buddy::{
    AdaptiveBuddy, ArrayBanks, BankSets, BankSize, Buddy, CpuState, FramePlace, FullestBank, FullestMemory,
    FullestNeeds, FullestZone, GroupState, ListBanks, Locked, Migratetype, PageAllocator, PartState, Request,
    StealRule, Zone, ZoneIndex, ZoneKind,
};
use rampart_memory::{BlockOrder, Bytes, Frame, FrameBlock, FrameRange, Node, Tested};
use spin::mutex::SpinMutex;

/// Memory for the structures of one allocator.
static MEMORY: SpinMutex<[MaybeUninit<u8>; 1 << 20]> = SpinMutex::new([MaybeUninit::uninit(); 1 << 20]);

const CPUS: u32 = 2;
const BANK: BankSize = BankSize::of_frames(4096).expect("a power of two");
const SETS: BankSets<'static> = BankSets::plain();
const FRAMES: u64 = 4 * 4096;
const HELD: usize = 512;

/// Two nodes of 32 MiB.
fn zones() -> [Zone; 2] {
    [(0, 0), (1, FRAMES / 2)].map(|(node, start)| {
        let frames = Frame::new(start).and_then(|first| FrameRange::new(first, FRAMES / 2));
        Zone { node: Node(node), kind: ZoneKind::Normal, frames: frames.expect("a zone") }
    })
}

/// Runs each allocator.
pub fn all() {
    let memory = &mut *MEMORY.lock();
    let zones = zones();
    assert_fits(Buddy::<Tested>::needs(&zones, CPUS).expect("a machine"));
    drive(&Locked::new(Buddy::within(memory, &zones, CPUS, Tested::NEVER).expect("a machine")));
    assert_fits(ArrayBanks::needs(&zones, BANK).expect("a machine"));
    drive(&ArrayBanks::within(memory, &zones, BANK).expect("a machine"));
    assert_fits(ListBanks::needs(&zones, BANK).expect("a machine"));
    drive(&ListBanks::within(memory, &zones, BANK).expect("a machine"));
    assert_fits(AdaptiveBuddy::needs(&zones, BANK).expect("a machine"));
    drive(&AdaptiveBuddy::within(memory, &zones, BANK, &SETS, StealRule::MostFree).expect("a machine"));
    fullest(&zones);
}

fn assert_fits(needed: Bytes) {
    assert!(needed.get() <= 1 << 20);
}

fn fullest(zones: &[Zone]) {
    const CHUNKS: usize = FRAMES as usize / 512;
    let needs = FullestNeeds::of(zones, CPUS, BANK);
    assert!(needs.chunks <= CHUNKS && needs.groups <= 4 && needs.parts <= 4 && needs.cpus <= 4 && needs.zonelists <= 4);
    let memory = FullestMemory {
        zones: &mut from_fn::<_, 2, _>(|_| FullestZone::default()),
        zonelists: &mut [0; 4],
        words: &from_fn::<_, CHUNKS, _>(|_| Default::default()),
        retired: &from_fn::<_, CHUNKS, _>(|_| Default::default()),
        groups: &from_fn::<_, 4, _>(|_| GroupState::default()),
        parts: &from_fn::<_, 4, _>(|_| PartState::default()),
        cpus: &from_fn::<_, 4, _>(|_| CpuState::default()),
    };
    drive(&FullestBank::new(zones, CPUS, BANK, &SETS, memory).expect("a machine"));
}

/// Allocates, frees, claims and retires; then no frame is lost, and none was given twice.
fn drive(pages: &impl PageAllocator) {
    let mut held: [Option<FrameBlock>; HELD] = [None; HELD];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..100_000 {
        // A generator of Marsaglia (xorshift64).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let place = &mut held[(state >> 8) as usize % HELD];
        *place = match place.take() {
            None => pages.allocate(request(state >> 20)),
            Some(block) => {
                pages.free(block, cpu(state));
                None
            }
        };
    }
    let counts = pages.statistics();
    assert!(counts.allocated > 10_000 && counts.freed > 10_000);
    for (number, one) in held.iter().enumerate() {
        let others = held[..number].iter().flatten();
        assert!(one.iter().all(|one| others.clone().all(|other| !one.frames().any(|frame| other.contains(frame)))));
    }
    held.into_iter().flatten().for_each(|block| pages.free(block, cpu(state)));
    let first = FrameBlock::new(Frame::new(1024).expect("a frame"), BlockOrder::MAX).expect("a block");
    assert!(pages.claim(first), "all frames are free");
    assert!(!pages.claim(first), "these are held");
    pages.free(first, cpu(state));
    pages.retire(first.first());
    assert!(pages.place(first.first()) == FramePlace::Retired && !pages.claim(first));
    assert!((0..FRAMES / 1024).filter(|number| *number != 1).all(|number| pages.claim(block(number))), "none is lost");
    assert_eq!(pages.free_frames(ZoneIndex(0)), 1023);
}

fn block(number: u64) -> FrameBlock {
    Frame::new(number * 1024).and_then(|first| FrameBlock::new(first, BlockOrder::MAX)).expect("a block")
}

fn cpu(random: u64) -> rampart_buddy::Cpu {
    rampart_buddy::Cpu(random as u32 & 1)
}

fn request(random: u64) -> Request {
    let order = BlockOrder::new([0, 0, 0, 1, 2, 3, 5, 9][random as usize % 8]).expect("an order");
    let migratetype = Migratetype::ALL[(random >> 3) as usize % 3];
    Request { order, migratetype, cpu: cpu(random >> 6), node: Node((random >> 7) as u32 & 1), urgent: false }
}
