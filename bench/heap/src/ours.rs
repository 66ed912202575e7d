//! Our heap, with its native objects.

use std::process;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rampart_heap::wear::FailedLines;
use rampart_heap::{HeapSettings, LocalAllocator, ManagedHeap, NativeModel, ObjectRef, RootSet, Shape};

use crate::arguments::Tables;
use crate::heap::{HeapUnderTest, OUT_OF_MEMORY, Reference, RootStack};

const PAGE: u64 = 4096;

/// Our heap. `STICKY`: whether young objects are collected by themselves, so that stores need a barrier.
pub struct RampartHeap<const STICKY: bool> {
    heap: ManagedHeap<NativeModel>,
    local: LocalAllocator,
    roots: RootStack,
    pauses: Vec<f64>,
}

struct Roots<'r>(&'r RootStack);

impl RootSet for Roots<'_> {
    fn visit(&mut self, visit: &mut dyn FnMut(u32) -> u32) {
        for root in self.0.held() {
            let reference = root.load(Ordering::Relaxed);
            if reference != 0 {
                root.store(visit(reference), Ordering::Relaxed);
            }
        }
    }
}

/// What a heap of so many bytes is made of, without the tables if they count as part of it.
fn pages<const STICKY: bool>(bytes: u64, tables: Tables) -> Result<u64, rampart_heap::Error> {
    let pages = bytes / PAGE;
    if tables == Tables::Apart {
        return Ok(pages);
    }
    let of_tables = made::<STICKY>(pages)?.metadata_bytes().div_ceil(PAGE);
    Ok(pages - of_tables.min(pages))
}

fn made<const STICKY: bool>(pages: u64) -> Result<ManagedHeap<NativeModel>, rampart_heap::Error> {
    let settings = HeapSettings { is_generational: STICKY, ..HeapSettings::default() };
    let perfect = vec![FailedLines::NONE; usize::try_from(pages).expect("addresses have 64 bits")];
    ManagedHeap::new(NativeModel, settings, perfect)
}

impl<const STICKY: bool> RampartHeap<STICKY> {
    /// A heap of so many bytes. One that is too small for the library is out of memory from the start.
    pub fn new(bytes: u64, tables: Tables) -> Self {
        let heap = pages::<STICKY>(bytes, tables).and_then(made::<STICKY>).unwrap_or_else(|error| {
            eprintln!("{error}");
            process::exit(OUT_OF_MEMORY)
        });
        Self { heap, local: LocalAllocator::default(), roots: RootStack::default(), pauses: Vec::new() }
    }

    #[cold]
    #[inline(never)]
    fn allocate_after_collection(&mut self, bytes: u32) -> u32 {
        let mut kind = Some(self.heap.due());
        while let Some(due) = kind {
            let start = Instant::now();
            self.heap.collect(due, &mut [&mut self.local], &mut Roots(&self.roots), &mut |_| {});
            self.pauses.push(start.elapsed().as_secs_f64());
            if let Some(at) = self.heap.allocate(&mut self.local, bytes) {
                return at;
            }
            kind = due.next();
        }
        process::exit(OUT_OF_MEMORY)
    }
}

impl<const STICKY: bool> HeapUnderTest for RampartHeap<STICKY> {
    #[inline]
    fn allocate(&mut self, references: u32, bytes: u32) -> Reference {
        let shape = Shape::new(references, bytes).expect("programs have small objects");
        let at = match self.heap.allocate(&mut self.local, shape.size()) {
            Some(at) => at,
            None => self.allocate_after_collection(shape.size()),
        };
        NativeModel::initialize(self.heap.region(), at, shape).offset()
    }

    #[inline]
    fn load(&self, object: Reference, slot: u32) -> Reference {
        self.heap.region().read(slot_of(object, slot))
    }

    #[inline]
    fn store(&mut self, object: Reference, slot: u32, value: Reference) {
        let at = slot_of(object, slot);
        if STICKY {
            self.heap.region().mark_card(at);
        }
        self.heap.region().write(at, value);
    }

    #[inline]
    fn write_double(&mut self, object: Reference, references: u32, index: u32, value: u64) {
        self.heap.region().write_double(slot_of(object, references) + 8 * index, value);
    }

    fn roots(&self) -> &RootStack {
        &self.roots
    }

    fn pauses(&self) -> Vec<f64> {
        self.pauses.clone()
    }
}

#[inline]
fn slot_of(object: Reference, slot: u32) -> u32 {
    NativeModel::slot(ObjectRef::new(object).expect("programs look at an object before they use it"), slot)
}
