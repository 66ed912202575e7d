//! A small machine with the allocator under test and its reference model.

use proptest::prelude::*;
use proptest::sample::Index;
use rampart_buddy::{
    AdaptiveBuddy, ArrayBanks, BankPools, BankSearches, BankSets, BankSize, Cpu, FramePlace, HeapStorage, ListBanks,
    Migratetype, PageAllocator, Request, StealRule, Watermarks, Zone, ZoneIndex, ZoneKind,
};
use rampart_memory::{BlockOrder, Frame, FrameBlock, FrameRange, Node};

use crate::naive::{Kind, Naive};

/// The next step; an index picks among the held blocks or the parts.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Allocate { request: Request, times: usize },
    Free { which: Index, times: usize },
    Claim { frame: u64, order: BlockOrder },
    Retire { frame: u64 },
    RetireFirst { which: Index },
    Isolate { part: Index },
    Rejoin { part: Index },
    PutBestFirst,
}

/// What a machine is made of.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub bank: u64,
    pub interleaved: bool,
    pub kind: Kind,
}

pub fn setup() -> impl Strategy<Value = Setup> {
    let adaptive = [StealRule::MostFree, StealRule::Lowest].map(Kind::Adaptive);
    let kind = prop::sample::select(vec![adaptive[0], adaptive[1], Kind::Array, Kind::Array, Kind::List, Kind::List]);
    (prop_oneof![4 => Just(1024), 1 => Just(2048)], any::<bool>(), kind).prop_map(|(bank, interleaved, kind)| Setup {
        bank,
        interleaved: interleaved && matches!(kind, Kind::Adaptive(_)),
        kind,
    })
}

/// An allocator of any kind.
pub trait Banked: PageAllocator + BankPools {
    /// How far it searched, if it counts that.
    fn searches(&self) -> BankSearches;
}

impl Banked for AdaptiveBuddy<'static, HeapStorage> {
    fn searches(&self) -> BankSearches {
        BankSearches::default()
    }
}

impl Banked for ArrayBanks<'static, HeapStorage> {
    fn searches(&self) -> BankSearches {
        self.searches()
    }
}

impl Banked for ListBanks<'static, HeapStorage> {
    fn searches(&self) -> BankSearches {
        self.searches()
    }
}

fn order() -> impl Strategy<Value = BlockOrder> {
    prop_oneof![1 => 0_u8..4, 2 => 4_u8..9, 4 => 9_u8..=10].prop_map(|number| BlockOrder::new(number).unwrap())
}

fn request() -> impl Strategy<Value = Request> {
    let own = prop_oneof![
        4 => Just(Migratetype::Movable),
        2 => Just(Migratetype::Unmovable),
        1 => Just(Migratetype::Reclaimable),
    ];
    (order(), own, 0_u32..3, any::<bool>()).prop_map(|(order, migratetype, node, urgent)| Request {
        order,
        migratetype,
        cpu: Cpu(9),
        node: Node(node),
        urgent,
    })
}

/// A frame, in most cases of a zone.
fn frame() -> impl Strategy<Value = u64> {
    prop_oneof![512_u64..3072, 4096_u64..8492, 10_240_u64..13_312, 0_u64..14_000]
}

pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (request(), 1_usize..8).prop_map(|(request, times)| Step::Allocate { request, times }),
        7 => (any::<Index>(), 1_usize..10).prop_map(|(which, times)| Step::Free { which, times }),
        2 => (frame(), order()).prop_map(|(frame, order)| Step::Claim { frame, order }),
        1 => frame().prop_map(|frame| Step::Retire { frame }),
        1 => any::<Index>().prop_map(|which| Step::RetireFirst { which }),
        3 => any::<Index>().prop_map(|part| Step::Isolate { part }),
        2 => any::<Index>().prop_map(|part| Step::Rejoin { part }),
        1 => Just(Step::PutBestFirst),
    ]
}

pub struct World {
    pub allocator: Box<dyn Banked>,
    pub naive: Naive,
    watermarks: Vec<Watermarks>,
    pub allocated: u64,
    pub refused: u64,
    pub freed: u64,
    /// Calls of the allocator, but for questions.
    pub operations: u64,
}

impl World {
    /// Returns two nodes and three zones, some of which begin or end within a bank.
    pub fn new(Setup { bank, interleaved, kind }: Setup) -> Self {
        let zone = |node, kind, start, count| Zone {
            node: Node(node),
            kind,
            frames: FrameRange::new(Frame::new(start).unwrap(), count).unwrap(),
        };
        let zones = [
            zone(0, ZoneKind::Dma32, 512, 2560),
            zone(0, ZoneKind::Normal, 4096, 4396),
            zone(1, ZoneKind::Normal, 10_240, 3072),
        ];
        // With banks of 1,024 frames, the first pair lies in two zones, and bank 8 is partial.
        let mut memory = [(0, 0); 8];
        let sets = if interleaved {
            BankSets::interleaved([[1, 4], [5, 7], [2, 8], [12, 10]], &mut memory).unwrap()
        } else {
            BankSets::plain()
        };
        let size = BankSize::of_frames(bank).unwrap();
        let allocator: Box<dyn Banked> = match kind {
            Kind::Adaptive(steal) => Box::new(AdaptiveBuddy::new(&zones, size, &sets, steal).unwrap()),
            Kind::Array => Box::new(ArrayBanks::new(&zones, size).unwrap()),
            Kind::List => Box::new(ListBanks::new(&zones, size).unwrap()),
        };
        let watermarks = (0..3).map(|zone| allocator.watermarks(ZoneIndex(zone))).collect();
        let naive = Naive::new(&zones, bank, &sets, kind);
        Self { allocator, naive, watermarks, allocated: 0, refused: 0, freed: 0, operations: 0 }
    }

    /// Performs a step on both and compares the results.
    pub fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        self.operations += match step {
            Step::Allocate { times, .. } => times as u64,
            Step::Free { times, .. } => times.min(self.naive.held.len()) as u64,
            Step::Claim { .. } | Step::Retire { .. } | Step::RetireFirst { .. } | Step::PutBestFirst => 1,
            Step::Isolate { .. } | Step::Rejoin { .. } => 1,
        };
        match step {
            Step::Allocate { request, times } => (0..times).try_for_each(|_| self.allocate(request))?,
            Step::Free { which, times } => {
                for _ in 0..times.min(self.naive.held.len()) {
                    let (block, _) = *which.get(&self.naive.held);
                    self.allocator.free(block, Cpu(0));
                    self.naive.free(block);
                    self.freed += 1;
                }
            }
            Step::Claim { frame, order } => {
                let first = frame / order.frames() * order.frames();
                let block = FrameBlock::new(Frame::new(first).unwrap(), order).unwrap();
                let is_free = self.naive.is_free(first..first + order.frames());
                prop_assert_eq!(self.allocator.claim(block), is_free, "{}", block);
                if is_free {
                    self.naive.hold(block, None);
                }
            }
            Step::Retire { frame } => self.retire(frame)?,
            Step::RetireFirst { which } => {
                if !self.naive.held.is_empty() {
                    self.retire(which.get(&self.naive.held).0.first().number())?;
                }
            }
            Step::Isolate { part } => {
                let part = part.index(self.naive.parts.len());
                prop_assert_eq!(self.allocator.isolate(part), self.naive.isolate(part));
            }
            Step::Rejoin { part } => {
                let part = part.index(self.naive.parts.len());
                self.allocator.rejoin(part);
                self.naive.rejoin(part);
            }
            Step::PutBestFirst => {
                self.allocator.put_best_first();
                self.naive.put_best_first();
            }
        }
        Ok(())
    }

    /// A request gets a part of one of the blocks that it may get, and is refused only if there is none.
    fn allocate(&mut self, request: Request) -> Result<(), TestCaseError> {
        let expected = self.naive.expect(request, &self.watermarks);
        let got = self.allocator.allocate(request);
        prop_assert_eq!(got.is_some(), expected.is_some(), "{:?} got {:?} of {:?}", request, got, expected);
        let (Some(block), Some((pool, blocks))) = (got, expected) else {
            self.refused += 1;
            return Ok(());
        };
        let first = block.first().number();
        let lies_in = blocks.iter().any(|(start, size)| (*start..start + size.frames()).contains(&first));
        prop_assert!(block.order() == request.order && lies_in, "{} is not of {:?} of {:?}", block, blocks, pool);
        self.naive.hold(block, Some(request.migratetype));
        self.allocated += 1;
        Ok(())
    }

    fn retire(&mut self, frame: u64) -> Result<(), TestCaseError> {
        let before = self.place(frame);
        prop_assert_eq!(self.allocator.retire(Frame::new(frame).unwrap()), before);
        self.naive.retire(frame);
        Ok(())
    }

    /// Returns where the model says that a frame is.
    pub fn place(&self, frame: u64) -> FramePlace {
        let Some(part) = self.naive.part_of(frame) else { return FramePlace::Absent };
        if self.naive.is_held(frame) {
            return FramePlace::Held;
        }
        let mut blocks = self.naive.blocks(&part.frames).into_iter();
        match blocks.find(|(first, order)| (*first..first + order.frames()).contains(&frame)) {
            Some((first, order)) => FramePlace::Free(FrameBlock::new(Frame::new(first).unwrap(), order).unwrap()),
            None => FramePlace::Retired,
        }
    }
}
