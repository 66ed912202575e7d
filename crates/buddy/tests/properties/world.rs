//! A small machine with the allocator under test, its reference model, and the last mark of each frame.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use rampart_buddy::{
    Buddy, Cpu, End, FramePlace, FreeLists, HeapStorage, ListName, Migratetype, Request, Zone, ZoneIndex, ZoneKind,
};
use rampart_memory::{BlockOrder, Frame, FrameBlock, FrameRange, Node, Tested, Timestamp};

use crate::naive::Naive;

pub const CPUS: u32 = 2;

/// The next step; an index picks among the blocks that exist then.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Allocate { request: Request, times: usize },
    Free { which: Index, times: usize, cpu: Cpu, fresh: bool, end: End },
    Take { list: ListName, end: End },
    Claim { which: Index },
    Put { which: Index, fresh: bool, end: End },
    Split { which: Index },
    Retire { number: u64 },
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![Just(End::Front), Just(End::Back)]
}

fn order() -> impl Strategy<Value = BlockOrder> {
    prop_oneof![4 => Just(0), 2 => 1_u8..4, 1 => 4_u8..=10].prop_map(|number| BlockOrder::new(number).unwrap())
}

fn request() -> impl Strategy<Value = Request> {
    (order(), prop::sample::select(&Migratetype::ALL), 0..CPUS, 0_u32..3, prop::bool::weighted(0.1)).prop_map(
        |(order, migratetype, cpu, node, urgent)| Request {
            order,
            migratetype,
            cpu: Cpu(cpu),
            node: Node(node),
            urgent,
        },
    )
}

pub fn step() -> impl Strategy<Value = Step> {
    let list = (0_usize..3, order(), prop::sample::select(&Migratetype::ALL))
        .prop_map(|(zone, order, migratetype)| ListName { zone: ZoneIndex(zone), order, migratetype });
    prop_oneof![
        6 => (request(), 1_usize..250).prop_map(|(request, times)| Step::Allocate { request, times }),
        6 => (any::<Index>(), 1_usize..250, 0..CPUS, any::<bool>(), end())
            .prop_map(|(which, times, cpu, fresh, end)| Step::Free { which, times, cpu: Cpu(cpu), fresh, end }),
        2 => (list, end()).prop_map(|(list, end)| Step::Take { list, end }),
        1 => any::<Index>().prop_map(|which| Step::Claim { which }),
        2 => (any::<Index>(), any::<bool>(), end()).prop_map(|(which, fresh, end)| Step::Put { which, fresh, end }),
        1 => any::<Index>().prop_map(|which| Step::Split { which }),
        1 => (0_u64..5100).prop_map(|number| Step::Retire { number }),
    ]
}

pub struct World {
    pub buddy: Buddy<'static, Tested, HeapStorage>,
    pub naive: Vec<Naive>,
    pub held: Vec<(FrameBlock, Tested)>,
    /// The mark with which each frame was last given back.
    pub known: BTreeMap<Frame, Tested>,
    now: u64,
    /// Calls of the allocator, but for questions.
    pub operations: u64,
}

impl World {
    /// Returns two nodes and three zones, none of which begins or ends with a large block.
    pub fn new() -> Self {
        Self::of(|zones, mark| Buddy::new(zones, CPUS, mark).unwrap(), true)
    }

    /// Returns the same without lists of the CPUs.
    pub fn without_local_lists() -> Self {
        Self::of(|zones, mark| Buddy::without_local_lists(zones, mark).unwrap(), false)
    }

    fn of(buddy: fn(&[Zone], Tested) -> Buddy<'static, Tested, HeapStorage>, has_local: bool) -> Self {
        let zone = |node, kind, start, count| Zone {
            node: Node(node),
            kind,
            frames: FrameRange::new(Frame::new(start).unwrap(), count).unwrap(),
        };
        let zones = [
            zone(0, ZoneKind::Dma, 3, 700),
            zone(0, ZoneKind::Normal, 1000, 1300),
            zone(1, ZoneKind::Normal, 4196, 900),
        ];
        let start = tested(1);
        let naive = |(index, &zone)| Naive::new(ZoneIndex(index), zone, start, has_local);
        let naive = zones.iter().enumerate().map(naive).collect();
        let frames = zones.iter().flat_map(|zone| zone.frames.start().number()..=zone.frames.last().number());
        let known = frames.map(|number| (Frame::new(number).unwrap(), start)).collect();
        Self { buddy: buddy(&zones, start), naive, held: Vec::new(), known, now: 2, operations: 0 }
    }

    /// Performs a step on both and compares the results.
    pub fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        self.now += 1;
        self.operations += match step {
            Step::Allocate { times, .. } => times as u64,
            Step::Free { times, .. } => times.min(self.held.len()) as u64,
            Step::Put { .. } | Step::Take { .. } | Step::Claim { .. } | Step::Split { .. } | Step::Retire { .. } => 1,
        };
        match step {
            Step::Allocate { request, times } => (0..times).try_for_each(|_| self.allocate(request))?,
            Step::Free { which, times, cpu, fresh, end } => {
                for _ in 0..times {
                    let Some((block, mark)) = self.release(which, fresh) else { break };
                    self.model_of(block.first()).free(block, cpu, mark, end);
                    self.buddy.free(block, cpu, mark, end);
                }
            }
            Step::Put { which, fresh, end } => {
                if let Some((block, mark)) = self.release(which, fresh) {
                    self.model_of(block.first()).put(block, mark, end);
                    self.buddy.put(block, mark, end);
                }
            }
            Step::Take { list, end } => {
                let taken = self.buddy.take(list, end);
                prop_assert_eq!(taken, self.naive[list.zone.0].take(list, end));
                self.hold(taken)?;
            }
            Step::Claim { which } => {
                let free: Vec<_> = self.naive.iter().flat_map(|zone| zone.lists.values().flatten().copied()).collect();
                if !free.is_empty() {
                    let (block, mark) = *which.get(&free);
                    prop_assert_eq!(self.buddy.claim(block), Some(mark));
                    self.model_of(block.first()).claim(block);
                    self.hold(Some((block, mark)))?;
                }
            }
            Step::Split { which } => {
                if let Some((block, mark)) = self.pick(which) {
                    self.buddy.split(block);
                    self.held.extend(block.frames().map(|frame| (FrameBlock::of(frame), mark)));
                }
            }
            Step::Retire { number } => self.retire(Frame::new(number).unwrap())?,
        }
        Ok(())
    }

    fn allocate(&mut self, request: Request) -> Result<(), TestCaseError> {
        let allocated = self.buddy.allocate(request).map(|got| (got.block, got.mark));
        prop_assert_eq!(allocated, self.naive_allocate(request));
        self.hold(allocated)
    }

    fn naive_allocate(&mut self, request: Request) -> Option<(FrameBlock, Tested)> {
        let low: Vec<u64> = self.zones().map(|zone| self.buddy.watermarks(zone).low).collect();
        let min: Vec<u64> = self.zones().map(|zone| self.buddy.watermarks(zone).min).collect();
        let floor = if request.urgent { vec![0; 3] } else { min };
        let found = self.naive_first(request, &low).or_else(|| self.naive_first(request, &floor));
        found.or_else(|| {
            self.naive.iter_mut().for_each(Naive::drain_all);
            self.naive_first(request, &floor)
        })
    }

    fn naive_first(&mut self, request: Request, floor: &[u64]) -> Option<(FrameBlock, Tested)> {
        let Request { order, migratetype, cpu, node, .. } = request;
        let zonelist = if node == Node(1) { [2, 1, 0] } else { [1, 0, 2] };
        zonelist.into_iter().find_map(|zone| self.naive[zone].allocate(order, migratetype, cpu, floor[zone]))
    }

    fn retire(&mut self, frame: Frame) -> Result<(), TestCaseError> {
        let was = self.buddy.retire(frame);
        if !self.known.contains_key(&frame) {
            prop_assert_eq!(was, FramePlace::Absent);
            return Ok(());
        }
        let held = self.held.iter().any(|(block, _)| block.contains(frame));
        let model = self.model_of(frame);
        if was == FramePlace::Local {
            prop_assert!(model.local.values().flatten().any(|(other, ..)| *other == frame));
            model.drain_all();
        }
        prop_assert_eq!(was == FramePlace::Held, held);
        prop_assert_eq!(was == FramePlace::Retired, model.retired.contains(&frame) && !held);
        model.retired.insert(frame);
        let lying_in = model.lists.values().flatten().find(|(block, _)| block.contains(frame)).copied();
        if let Some((block, _)) = lying_in {
            let mark = model.claim(block).unwrap();
            model.put(block, mark, End::Back);
        }
        Ok(())
    }

    /// Records a block that was given out, and checks that its mark is no newer than that of any of its frames.
    fn hold(&mut self, given: Option<(FrameBlock, Tested)>) -> Result<(), TestCaseError> {
        if let Some((block, mark)) = given {
            prop_assert!(
                block.frames().all(|frame| mark <= self.known[&frame]),
                "{block} is said to be newer than it is"
            );
            self.held.push((block, mark));
        }
        Ok(())
    }

    /// Removes a block from those held, and returns it with its new mark.
    fn release(&mut self, which: Index, fresh: bool) -> Option<(FrameBlock, Tested)> {
        let (block, old) = self.pick(which)?;
        let mark = if fresh { tested(self.now) } else { old };
        self.known.extend(block.frames().map(|frame| (frame, mark)));
        Some((block, mark))
    }

    fn pick(&mut self, which: Index) -> Option<(FrameBlock, Tested)> {
        (!self.held.is_empty()).then(|| self.held.swap_remove(which.index(self.held.len())))
    }

    fn model_of(&mut self, frame: Frame) -> &mut Naive {
        let zone = self.buddy.zones().find(|(_, zone)| zone.frames.contains(frame)).unwrap().0;
        &mut self.naive[zone.0]
    }

    pub fn zones(&self) -> impl Iterator<Item = ZoneIndex> + use<> {
        (0..3).map(ZoneIndex)
    }
}

fn tested(moment: u64) -> Tested {
    Tested::at(Timestamp::from_micros(moment))
}
