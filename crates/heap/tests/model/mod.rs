//! A model of the heap: what each object that a program can reach is, and what of it is lost.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::num::NonZeroU32;

use proptest::prelude::*;
use rampart_heap::wear::{ClusterBytes, Clustering, FailureShare, draw_failures};
use rampart_heap::{
    Canaries, Collection, CollectionStress, FailureGrain, HeapSettings, LOST, LineFailure, LineSize, LocalAllocator,
    ManagedHeap, NativeModel, ObjectRef, Shape, Violation,
};

const ROOTS: usize = 12;

/// What a program does.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    New {
        root: usize,
        references: u32,
        bytes: u32,
    },
    Link {
        from: usize,
        slot: u32,
        to: usize,
    },
    Load {
        root: usize,
        from: usize,
        slot: u32,
    },
    Drop {
        root: usize,
    },
    Pin {
        root: usize,
    },
    Unpin {
        root: usize,
    },
    /// A line of an object fails, or of what lies behind it.
    Fail {
        root: usize,
        line: u32,
    },
    /// The same, and its data is gone.
    Lose {
        root: usize,
        line: u32,
    },
    Collect(Collection),
}

/// A step of a program.
pub fn step() -> impl Strategy<Value = Step> {
    let root = 0..ROOTS;
    // Mostly small, some medium, few large: about what programs allocate.
    let bytes = prop_oneof![8 => 8_u32..64, 4 => 64_u32..2000, 2 => 2000_u32..8000, 1 => 8000_u32..40_000];
    let line = (0_u32..600).prop_map(|line| line.saturating_sub(300));
    let kind =
        prop_oneof![3 => Just(Collection::Nursery), 1 => Just(Collection::Full), 1 => Just(Collection::Compacting)];
    let new = |(root, references, bytes)| Step::New { root, references, bytes };
    prop_oneof![
        16 => (root.clone(), 0_u32..6, bytes).prop_map(new),
        12 => (root.clone(), 0_u32..6, root.clone()).prop_map(|(from, slot, to)| Step::Link { from, slot, to }),
        4 => (root.clone(), root.clone(), 0_u32..6).prop_map(|(root, from, slot)| Step::Load { root, from, slot }),
        2 => root.clone().prop_map(|root| Step::Drop { root }),
        1 => root.clone().prop_map(|root| Step::Pin { root }),
        1 => root.clone().prop_map(|root| Step::Unpin { root }),
        1 => (root.clone(), line.clone()).prop_map(|(root, line)| Step::Lose { root, line }),
        1 => (root, line).prop_map(|(root, line)| Step::Fail { root, line }),
        1 => kind.prop_map(Step::Collect),
    ]
}

/// A heap, and which of its lines have failed.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pages: usize,
    line: LineSize,
    grain: FailureGrain,
    share: f64,
    clustering: Clustering,
    stress: CollectionStress,
    is_generational: bool,
    seed: u64,
}

/// A heap of any kind.
pub fn setup() -> impl Strategy<Value = Setup> {
    let every = |most| CollectionStress::Every(NonZeroU32::new(most).expect("at least one"));
    let stress = prop_oneof![
        4 => Just(CollectionStress::Off),
        1 => Just(CollectionStress::EACH),
        1 => (2_u32..20).prop_map(every)
    ];
    let kinds = (prop::sample::select(&LineSize::ALL[..]), stress, prop::bool::weighted(0.9));
    let grain = prop::sample::select(&[FailureGrain::MemoryLine, FailureGrain::HeapLine][..]);
    let share = prop::sample::select(&[0.0, 0.1, 0.25, 0.5][..]);
    (64_usize..400, kinds, grain, share, prop::sample::select(&Clustering::ALL[..]), 0_u64..1000).prop_map(
        |(pages, (line, stress, is_generational), grain, share, clustering, seed)| Setup {
            pages,
            line,
            grain,
            share,
            clustering,
            stress,
            is_generational,
            seed,
        },
    )
}

/// What an object is in the model.
#[derive(Clone, Debug)]
struct Node {
    bytes: u32,
    references: Vec<Option<u64>>,
}

/// The heap and its model.
pub struct Pair {
    heap: ManagedHeap<NativeModel>,
    local: LocalAllocator,
    roots: [u32; ROOTS],
    /// The objects' identities.
    of_roots: [Option<u64>; ROOTS],
    nodes: HashMap<u64, Node>,
    next: u64,
    canaries: Canaries,
    /// What references to lost objects are; `None` until the collection that tells.
    lost: HashMap<u64, Option<u32>>,
}

impl Pair {
    /// Both, with nothing in them.
    pub fn new(setup: Setup) -> Self {
        let Setup { pages, line, grain, share, clustering, stress, is_generational, seed } = setup;
        let drawn = draw_failures(pages, FailureShare::new(share).unwrap(), ClusterBytes::LINE, seed);
        let settings = HeapSettings { line, grain, stress, is_generational, ..HeapSettings::default() };
        Self {
            heap: ManagedHeap::new(NativeModel, settings, clustering.addresses(drawn)).unwrap(),
            local: LocalAllocator::default(),
            roots: [0; ROOTS],
            of_roots: [None; ROOTS],
            nodes: HashMap::new(),
            next: 1,
            canaries: Canaries::default(),
            lost: HashMap::new(),
        }
    }

    /// An object that a program may read.
    fn object(&self, root: usize) -> Option<ObjectRef> {
        ObjectRef::new(self.roots[root]).filter(|object| object.offset() < LOST)
    }

    /// Those that lie in a line, and can be reached.
    fn in_line(&self, line: u32) -> Vec<u64> {
        let reached = self.reached();
        let overlaps = |(identity, at): &(u64, u32)| *at < line + 64 && line < at + self.nodes[identity].bytes;
        reached.into_iter().filter(overlaps).map(|(identity, _)| identity).collect()
    }

    /// All that can be reached, and is not lost.
    fn reached(&self) -> HashMap<u64, u32> {
        let mut at = HashMap::new();
        let mut pending: Vec<(u32, Option<u64>)> = self.roots.into_iter().zip(self.of_roots).collect();
        while let Some((offset, identity)) = pending.pop() {
            let Some(identity) = identity.filter(|identity| !self.lost.contains_key(identity)) else { continue };
            let object = ObjectRef::new(offset).unwrap();
            if at.insert(identity, offset).is_none() {
                let references = (0..).zip(&self.nodes[&identity].references);
                let slot = |slot| self.heap.region().read(NativeModel::slot(object, slot));
                pending.extend(references.map(|(number, reference)| (slot(number), *reference)));
            }
        }
        at
    }

    /// A line is lost: nothing in it can be read any more, and only what was in it is lost.
    fn lose(&mut self, offset: u32) {
        let line = offset / 64 * 64;
        let lost = self.in_line(line);
        if self.heap.lose_line(offset, &mut [&mut self.local]) != LineFailure::Lost {
            assert!(lost.is_empty(), "objects {lost:?} at {line:#x}");
            return;
        }
        self.canaries.forget(line);
        (0..8).for_each(|word| self.heap.region().write_double(line + 8 * word, 0x0bad_0bad_0bad_0bad));
        let before = self.heap.lost_objects().len();
        let count = lost.len();
        self.lost.extend(lost.into_iter().map(|identity| (identity, None)));
        self.collect(Collection::Nursery);
        // Some can be reached through lost ones only.
        assert!(self.heap.lost_objects().len() - before <= count);
        for object in &self.heap.lost_objects()[before..] {
            assert_eq!(object.header.is_none(), object.was_at < line + 64 && line < object.was_at + 16);
        }
    }

    /// Collects, and compares both.
    pub fn collect(&mut self, kind: Collection) {
        self.heap.collect(kind, &mut [&mut self.local], &mut self.roots, &mut |_| {});
        self.check();
        if kind != Collection::Nursery {
            let old: BTreeSet<u32> = self.heap.old_objects().map(ObjectRef::offset).collect();
            assert_eq!(old, self.reached().into_values().collect());
        }
        self.canaries.check(&self.heap).unwrap();
    }

    fn allocate(&mut self, bytes: u32) -> Option<u32> {
        let mut due = Some(self.heap.due());
        loop {
            if let Some(at) = self.heap.allocate(&mut self.local, bytes) {
                return Some(at);
            }
            let Some(kind) = due else {
                // What the program does about it needs memory, too.
                self.heap.open_reserve();
                return None;
            };
            self.collect(kind);
            due = kind.next();
        }
    }

    /// Does a step in both.
    pub fn run(&mut self, step: Step) {
        match step {
            Step::New { root, references, bytes } => {
                let shape = Shape::new(references, bytes).unwrap();
                let Some(at) = self.allocate(shape.size()) else { return };
                let object = NativeModel::initialize(self.heap.region(), at, shape);
                let identity = self.next;
                self.next += 1;
                let first = NativeModel::bytes_at(self.heap.region(), object).next_multiple_of(8);
                let end = object.offset() + shape.size();
                (first..end).step_by(8).for_each(|at| self.heap.region().write_double(at, identity));
                self.nodes.insert(identity, Node { bytes: shape.size(), references: vec![None; references as usize] });
                (self.roots[root], self.of_roots[root]) = (object.offset(), Some(identity));
            }
            Step::Link { from, slot, to } => {
                let (Some(object), Some(identity)) = (self.object(from), self.of_roots[from]) else { return };
                let Some(reference) = self.nodes.get_mut(&identity).unwrap().references.get_mut(slot as usize) else {
                    return;
                };
                *reference = self.of_roots[to];
                let slot = NativeModel::slot(object, slot);
                self.heap.region().mark_card(slot);
                self.heap.region().write(slot, self.roots[to]);
            }
            Step::Load { root, from, slot } => {
                let (Some(object), Some(identity)) = (self.object(from), self.of_roots[from]) else { return };
                let Some(reference) = self.nodes[&identity].references.get(slot as usize).copied() else { return };
                self.of_roots[root] = reference;
                self.roots[root] = self.heap.region().read(NativeModel::slot(object, slot));
            }
            Step::Drop { root } => (self.roots[root], self.of_roots[root]) = (0, None),
            Step::Pin { root } => {
                if let Some(object) = self.object(root) {
                    self.heap.pin(object);
                }
            }
            Step::Unpin { root } => {
                if let Some(object) = self.object(root) {
                    self.heap.unpin(object);
                }
            }
            Step::Fail { root, line } => {
                if let Some(object) = self.object(root) {
                    self.heap.fail_line(object.offset() + 64 * line, &mut [&mut self.local]);
                }
            }
            Step::Lose { root, line } => {
                if let Some(object) = self.object(root) {
                    self.lose(object.offset() + 64 * line);
                }
            }
            Step::Collect(kind) => self.collect(kind),
        }
    }

    /// The heap is sound, and all that can be reached is what the model has.
    fn check(&mut self) {
        let live = match self.heap.verify(self.roots) {
            Err(Violation::OnFailedLine(_)) if self.heap.vacating().is_some() => return,
            sound => sound.unwrap(),
        };
        let mut at: HashMap<u64, u32> = HashMap::new();
        let mut pending: Vec<(u32, Option<u64>)> = self.roots.into_iter().zip(self.of_roots).collect();
        while let Some((offset, identity)) = pending.pop() {
            let (Some(object), Some(identity)) = (ObjectRef::new(offset), identity) else {
                assert_eq!((offset, identity), (0, None));
                continue;
            };
            if let Some(known) = self.lost.get_mut(&identity) {
                assert!(offset >= LOST, "object {identity} is lost and can be read");
                assert_eq!(*known.get_or_insert(offset), offset, "object {identity} is lost twice");
                continue;
            }
            if let Some(before) = at.insert(identity, offset) {
                assert_eq!(before, offset, "object {identity} is there twice");
                continue;
            }
            let (node, region) = (&self.nodes[&identity], self.heap.region());
            assert_eq!(NativeModel::references(region, object) as usize, node.references.len());
            let first = NativeModel::bytes_at(region, object).next_multiple_of(8);
            for at in (first..object.offset() + node.bytes).step_by(8) {
                assert_eq!(region.read_double(at), identity);
            }
            for (slot, reference) in (0..).zip(&node.references) {
                pending.push((region.read(NativeModel::slot(object, slot)), *reference));
            }
        }
        let numbers: Vec<u32> = self.lost.values().flatten().copied().collect();
        assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len(), "two lost objects are the same");
        assert_eq!(live.objects, at.len() as u64);
        assert_eq!(live.bytes, at.keys().map(|identity| u64::from(self.nodes[identity].bytes)).sum::<u64>());
    }
}
