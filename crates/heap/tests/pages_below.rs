//! What a heap asks of its memory: pages lie below addresses as the heap says, each at one place, whatever the memory
//! refuses, changes or loses.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use proptest::prelude::*;
use rampart_heap::wear::{ClusterBytes, FailedLines, FailureShare, draw_failures};
use rampart_heap::{
    BLOCK_BYTES, Collection, HeapMemory, HeapPage, HeapPageChange, HeapSettings, LOST, LineFailure, LineSize,
    LineState, LocalAllocator, ManagedHeap, NativeModel, NotMapped, ObjectRef, Shape,
};

const PAGE: u32 = 4096;
const LINE: u32 = 64;
const ROOTS: usize = 40;

/// What lies below the addresses, and what the memory is about to do.
#[derive(Debug, Default)]
struct Below {
    pages: BTreeMap<u32, HeapPage>,
    /// All of the heap's own pages that were somewhere.
    seen: BTreeMap<u32, HeapPage>,
    /// So many requests are refused.
    refuse: u64,
    refused: u64,
    changes: Vec<HeapPageChange>,
    /// Lines whose data is gone, until the next collection.
    lost: BTreeSet<u32>,
    /// Whether the heap knows of each of them.
    all_are_known: bool,
}

/// A memory that checks what it is asked.
#[derive(Debug)]
struct CheckedMemory {
    failed: Vec<FailedLines>,
    below: Arc<Mutex<Below>>,
}

impl Below {
    fn put(&mut self, at: u32, page: HeapPage) -> Option<HeapPage> {
        assert!(at.is_multiple_of(PAGE) && at < LOST, "{at:#x}");
        let elsewhere = self.pages.values().any(|there| page.number().is_some() && *there == page);
        assert!(!elsewhere, "{page:?} lies at two places");
        self.seen.extend(page.number().map(|number| (number, page)));
        self.pages.insert(at, page)
    }

    fn lost_in(&self, at: u32) -> FailedLines {
        let lines = self.lost.range(at..at + PAGE).map(|line| (line - at) / LINE);
        lines.fold(FailedLines::NONE, FailedLines::with)
    }
}

impl CheckedMemory {
    fn below(&self) -> MutexGuard<'_, Below> {
        self.below.lock().unwrap()
    }
}

impl HeapMemory for CheckedMemory {
    fn pages(&self) -> usize {
        self.failed.len()
    }

    fn map_failures(&self) -> Vec<FailedLines> {
        self.failed.clone()
    }

    #[expect(unsafe_code, reason = "the trait has it so")]
    unsafe fn attach(&mut self, _base: NonNull<u8>, _bytes: usize) {}

    fn map_imperfect(&mut self, at: u32, pages: &[HeapPage]) -> Result<(), NotMapped> {
        let mut below = self.below();
        if below.refuse > 0 {
            (below.refuse, below.refused) = (below.refuse - 1, below.refused + 1);
            return Err(NotMapped::NoMapping);
        }
        for (at, page) in (at..).step_by(PAGE as usize).zip(pages) {
            assert_eq!(below.put(at, *page), None, "there is a page at {at:#x}");
        }
        Ok(())
    }

    fn unmap(&mut self, at: u32, pages: usize) {
        let mut below = self.below();
        (at..).step_by(PAGE as usize).take(pages).for_each(|at| _ = below.pages.remove(&at));
    }

    fn replace(&mut self, at: u32, page: HeapPage, unreadable: FailedLines) {
        let mut below = self.below();
        assert!(unreadable.is_subset_of(below.lost_in(at)), "data of {at:#x} is there, and is not kept");
        let is_read = below.all_are_known && unreadable != below.lost_in(at);
        assert!(!is_read, "data of {at:#x} is gone, and is to be kept");
        assert!(below.put(at, page).is_some(), "there is no page at {at:#x}");
    }

    fn up_calls(&mut self) -> Vec<HeapPageChange> {
        std::mem::take(&mut self.below().changes)
    }
}

#[derive(Clone, Debug)]
enum Step {
    New {
        root: usize,
        bytes: u32,
    },
    Drop {
        root: usize,
    },
    Pin {
        root: usize,
    },
    Fail {
        root: usize,
        line: u32,
    },
    Lose {
        root: usize,
        line: u32,
    },
    /// A page becomes another one, with these failed lines; the first so many of them lose their data.
    Change {
        page: usize,
        failed: u64,
        lost: usize,
    },
    Refuse {
        requests: u64,
    },
    Collect(Collection),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![6 => 16_u32..200, 4 => 200_u32..8000, 2 => 8000_u32..40_000];
    let kinds = &[Collection::Nursery, Collection::Full, Collection::Compacting][..];
    let few = (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(one, two, three)| one & two & three);
    prop_oneof![
        30 => (0..ROOTS, bytes).prop_map(|(root, bytes)| Step::New { root, bytes }),
        5 => (0..ROOTS).prop_map(|root| Step::Drop { root }),
        2 => (0..ROOTS).prop_map(|root| Step::Pin { root }),
        3 => (0..ROOTS, 0_u32..200).prop_map(|(root, line)| Step::Fail { root, line }),
        2 => (0..ROOTS, 0_u32..200).prop_map(|(root, line)| Step::Lose { root, line }),
        3 => (0_usize..1000, few, 0_usize..3).prop_map(|(page, failed, lost)| Step::Change { page, failed, lost }),
        1 => (1_u64..4).prop_map(|requests| Step::Refuse { requests }),
        5 => prop::sample::select(kinds).prop_map(Step::Collect),
    ]
}

struct Program {
    heap: ManagedHeap<NativeModel>,
    local: LocalAllocator,
    below: Arc<Mutex<Below>>,
    roots: Vec<u32>,
    bytes: Vec<u32>,
}

impl Program {
    fn new(pages: usize, share: f64, seed: u64) -> Self {
        let failed = draw_failures(pages, FailureShare::new(share).unwrap(), ClusterBytes::LINE, seed);
        let below = Arc::new(Mutex::new(Below::default()));
        let memory = Box::new(CheckedMemory { failed, below: Arc::clone(&below) });
        let settings = HeapSettings { line: LineSize::L64, ..HeapSettings::default() };
        let heap = ManagedHeap::on(NativeModel, settings, memory).unwrap();
        Self { heap, local: LocalAllocator::default(), below, roots: vec![0; ROOTS], bytes: vec![0; ROOTS] }
    }

    fn object(&self, root: usize) -> Option<ObjectRef> {
        ObjectRef::new(self.roots[root]).filter(|object| object.offset() < LOST)
    }

    /// Collects: an object is lost if and only if it lies in one of the lost lines.
    fn collect(&mut self, kind: Collection) {
        let lost = std::mem::take(&mut self.below.lock().unwrap().lost);
        let expected: Vec<bool> = (0..ROOTS).map(|root| self.is_lost(root, &lost)).collect();
        self.below.lock().unwrap().lost = lost;
        self.heap.collect(kind, &mut [&mut self.local], &mut self.roots, &mut |_| {});
        let mut below = self.below.lock().unwrap();
        below.lost.clear();
        assert_eq!(self.heap.counts().refused.mappings, below.refused);
        drop(below);
        for (root, expected) in expected.into_iter().enumerate() {
            assert_eq!(self.roots[root] >= LOST, expected, "object {root}");
        }
    }

    fn is_lost(&self, root: usize, lost: &BTreeSet<u32>) -> bool {
        let (at, bytes) = (self.roots[root], self.bytes[root]);
        at >= LOST || at != 0 && lost.range(at / LINE * LINE..at + bytes).next().is_some()
    }

    fn allocate(&mut self, bytes: u32) -> Option<u32> {
        let mut due = Some(self.heap.due());
        loop {
            if let Some(at) = self.heap.allocate(&mut self.local, bytes) {
                return Some(at);
            }
            let kind = due?;
            self.collect(kind);
            due = kind.next();
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::New { root, bytes } => {
                let shape = Shape::new(0, bytes).unwrap();
                (self.roots[root], self.bytes[root]) = (0, 0);
                let Some(at) = self.allocate(shape.size()) else { return };
                let object = NativeModel::initialize(self.heap.region(), at, shape);
                self.heap.region().write(at + shape.size() - 4, u32::try_from(root).unwrap());
                (self.roots[root], self.bytes[root]) = (object.offset(), shape.size());
            }
            Step::Drop { root } => self.roots[root] = 0,
            Step::Pin { root } => self.object(root).into_iter().for_each(|object| self.heap.pin(object)),
            Step::Fail { root, line } => {
                let Some(object) = self.object(root) else { return };
                self.heap.fail_line(object.offset() + LINE * line, &mut [&mut self.local]);
            }
            Step::Lose { root, line } => {
                let Some(object) = self.object(root) else { return };
                let at = (object.offset() / LINE + line) * LINE;
                {
                    let mut below = self.below.lock().unwrap();
                    below.all_are_known = true;
                    below.lost.insert(at);
                }
                if self.heap.lose_line(at, &mut [&mut self.local]) == LineFailure::Lost {
                    self.collect(Collection::Nursery);
                } else {
                    assert!(!self.is_lost(root, &BTreeSet::from([at])), "object {root} is lost, and nobody is told");
                    self.below.lock().unwrap().lost.remove(&at);
                }
            }
            Step::Change { page, failed, lost } => self.change(page, failed, lost),
            Step::Refuse { requests } => self.below.lock().unwrap().refuse = requests,
            Step::Collect(kind) => self.collect(kind),
        }
    }

    /// The failed lines of the page at an address, as the heap has them.
    fn failed_at(&self, at: u32) -> FailedLines {
        let lines = self.heap.failed_lines().filter(|(line, _)| line / PAGE * PAGE == at);
        lines.fold(FailedLines::NONE, |failed, (line, _)| failed.with(line % PAGE / LINE))
    }

    fn change(&mut self, page: usize, failed: u64, lost: usize) {
        if self.heap.vacating().is_some() {
            return;
        }
        let own: Vec<HeapPage> = self.below.lock().unwrap().seen.values().copied().collect();
        if own.is_empty() {
            return;
        }
        let page = own[page % own.len()];
        let place = self.below.lock().unwrap().pages.iter().find(|(_, there)| **there == page).map(|(at, _)| *at);
        let Some(at) = place else {
            let change =
                HeapPageChange { page, at: None, failed: FailedLines::from_bits(failed), lost: FailedLines::NONE };
            self.below.lock().unwrap().changes.push(change);
            assert!(!self.heap.take_up_calls(&mut [&mut self.local]));
            return;
        };
        let now = FailedLines::from_bits(failed);
        let lost = now.lines().take(lost).fold(FailedLines::NONE, FailedLines::with);
        // The page of a large object is replaced. Objects in a block move from the lines that have failed since.
        let is_large = !self.heap.snapshot().iter().any(|block| block.block.start() == at / BLOCK_BYTES * BLOCK_BYTES);
        let failed = now.union(lost);
        let mut below = self.below.lock().unwrap();
        below.all_are_known = false;
        below.lost.extend(lost.lines().map(|line| at + line * LINE));
        below.changes.push(HeapPageChange { page, at: Some(at), failed, lost });
        drop(below);
        let before = self.heap.counts().changed_pages;
        let is_lost = self.heap.take_up_calls(&mut [&mut self.local]);
        assert_eq!(self.heap.counts().changed_pages, before + 1);
        if !is_large {
            assert_eq!(self.failed_at(at), failed, "the page at {at:#x}");
        }
        if is_lost {
            self.collect(Collection::Nursery);
            return;
        }
        let lost = std::mem::take(&mut self.below.lock().unwrap().lost);
        assert!(
            !(0..ROOTS).any(|root| self.object(root).is_some() && self.is_lost(root, &lost)),
            "an object is lost, and nobody is told"
        );
    }

    /// What lies below the addresses is what the heap says.
    fn check(&self) {
        let below = self.below.lock().unwrap();
        let mut in_blocks = 0;
        for block in self.heap.snapshot() {
            for (at, lines) in (block.block.start()..).step_by(PAGE as usize).zip(block.lines.chunks(64)) {
                assert_eq!(lines[0] != LineState::NoPage, below.pages.contains_key(&at), "{at:#x}");
                in_blocks += usize::from(lines[0] != LineState::NoPage);
            }
        }
        assert_eq!(below.pages.len(), in_blocks + self.heap.large_pages());
        for (line, number) in self.heap.failed_lines() {
            let page = below.pages.get(&(line / PAGE * PAGE)).expect("a failed line is one of a page");
            assert_eq!(page.number(), Some(number), "at {line:#x}");
        }
        for (root, bytes) in self.bytes.iter().enumerate() {
            let Some(object) = self.object(root) else { continue };
            let pages = object.offset() / PAGE..=(object.offset() + bytes - 1) / PAGE;
            pages.for_each(|page| assert!(below.pages.contains_key(&(page * PAGE)), "object {root} lies nowhere"));
            assert_eq!(self.heap.region().read(object.offset() + bytes - 4) as usize, root);
        }
        drop(below);
        if self.heap.vacating().is_none() {
            let there = self.roots.iter().filter(|root| (1..LOST).contains(*root)).count() as u64;
            assert_eq!(self.heap.verify(self.roots.clone()).map(|live| live.objects), Ok(there));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn pages_lie_where_the_heap_says(
        pages in 40_usize..200,
        share in prop::sample::select(&[0.0, 0.1, 0.5][..]),
        seed in 0_u64..1000,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut program = Program::new(pages, share, seed);
        for step in &steps {
            program.run(step);
            program.check();
        }
    }
}
