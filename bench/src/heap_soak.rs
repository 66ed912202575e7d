//! `heap-soak`: the heap under random load, whose memory must stay flat.
//!
//! Objects of all sizes come, refer to others and go, lines fail all the while, and the heap is verified. The first
//! quarter of the time warms it up; after that, the process and the heap's tables must hardly grow.

use std::time::{Duration, Instant};

use rampart_heap::wear::{ClusterBytes, FailureShare, draw_failures};
use rampart_heap::{Collection, HeapSettings, LOST, LocalAllocator, ManagedHeap, NativeModel, ObjectRef, Shape};
use rampart_linux::{ProcessUsage, Roots as SystemRoots};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// 128 MiB.
const PAGES: usize = 32_768;

/// Every second one holds an object with references, the others those that these refer to.
const ROOTS: usize = 4096;

const REFERENCES: u32 = 4;

/// Steps between two looks at the clock.
const STEPS: usize = 1_000_000;

/// What the process and the tables may grow after the first quarter of the time.
const GROWTH: f64 = 1.02;

struct Load {
    heap: ManagedHeap<NativeModel>,
    local: LocalAllocator,
    roots: Vec<u32>,
    random: ChaCha8Rng,
    allocated: u64,
    failed: u64,
}

impl Load {
    fn new() -> Result<Self, String> {
        let share = FailureShare::new(0.1).ok_or("a share")?;
        let failed = draw_failures(PAGES, share, ClusterBytes::LINE, 1);
        let heap = ManagedHeap::new(NativeModel, HeapSettings::default(), failed).map_err(|error| error.to_string())?;
        let (local, roots) = (LocalAllocator::default(), vec![0; ROOTS]);
        Ok(Self { heap, local, roots, random: ChaCha8Rng::seed_from_u64(1), allocated: 0, failed: 0 })
    }

    fn collect(&mut self, kind: Collection) {
        self.heap.collect(kind, &mut [&mut self.local], &mut self.roots, &mut |_| {});
    }

    fn allocate(&mut self, shape: Shape) -> Result<ObjectRef, String> {
        let at = self.heap.allocate_or_collect(&mut self.local, shape.size(), &mut self.roots);
        let at = at.ok_or("the heap is out of memory")?;
        self.allocated += u64::from(shape.size());
        Ok(NativeModel::initialize(self.heap.region(), at, shape))
    }

    /// Mostly small objects, some medium, few large.
    fn bytes(&mut self) -> u32 {
        match self.random.random_range(0..1000) {
            0..600 => self.random.random_range(8..64),
            600..900 => self.random.random_range(64..2000),
            900..995 => self.random.random_range(2000..8000),
            _ => self.random.random_range(8000..200_000),
        }
    }

    /// Replaces an object by a new one; with references to others, if it is one of those.
    fn step(&mut self) -> Result<(), String> {
        let root = self.random.random_range(0..ROOTS);
        let references = if root % 2 == 0 { 0 } else { REFERENCES };
        let shape = Shape::new(references, self.bytes()).ok_or("a shape")?;
        let object = self.allocate(shape)?;
        self.roots[root] = object.offset();
        let region = self.heap.region();
        for number in 0..references {
            let to = self.random.random_range(0..ROOTS / 2) * 2;
            region.write(NativeModel::slot(object, number), self.roots[to]);
        }
        let old = self.roots[self.random.random_range(0..ROOTS / 2) * 2 + 1];
        if let Some(old) = ObjectRef::new(old).filter(|old| old.offset() < LOST && references == 0) {
            let slot = NativeModel::slot(old, self.random.random_range(0..REFERENCES));
            region.mark_card(slot);
            region.write(slot, object.offset());
        }
        Ok(())
    }

    /// A line of an object fails, until one in fifty has.
    fn fail(&mut self) {
        let object = self.roots[self.random.random_range(0..ROOTS)];
        if object != 0 && self.failed < (PAGES as u64) * 64 / 50 {
            self.heap.fail_line(object, &mut [&mut self.local]);
            self.failed += 1;
        }
    }

    fn work(&mut self) -> Result<(), String> {
        for step in 0..STEPS {
            self.step()?;
            if step % 1000 == 0 {
                self.fail();
            }
        }
        // What is there between two collections depends on when they come.
        self.collect(Collection::Full);
        let live = self.heap.verify(self.roots.iter().copied()).map_err(|violation| violation.to_string())?;
        if live.objects < ROOTS as u64 { Err(format!("only {} objects are left", live.objects)) } else { Ok(()) }
    }
}

/// What a process has.
struct Sizes {
    resident: u64,
    tables: u64,
}

/// Runs the bench for the time of the first argument (default 10m).
pub fn run(arguments: &[String]) -> Result<(), String> {
    let time = arguments.first().map_or(Ok(Duration::from_secs(600)), |text| humantime::parse_duration(text));
    let time = time.map_err(|error| format!("{error}: give a time such as 10m"))?;
    let mut load = Load::new()?;
    let began = Instant::now();
    let mut samples: Vec<Sizes> = Vec::new();
    let mut warm = 0;
    while began.elapsed() < time {
        load.work()?;
        let usage = ProcessUsage::read(&SystemRoots::default()).map_err(|error| error.to_string())?;
        let resident = usage.memory.resident.get();
        samples.push(Sizes { resident, tables: load.heap.metadata_bytes() });
        if began.elapsed() < time / 4 {
            warm = samples.len();
        }
    }
    report(&load, &samples, warm)
}

fn report(load: &Load, samples: &[Sizes], warm: usize) -> Result<(), String> {
    let counts = load.heap.counts();
    println!(
        "heap-soak: {:.1} GB allocated, {} nursery and {} full collections, {} lines failed, {} objects moved",
        load.allocated as f64 / 1e9,
        counts.nursery,
        counts.full,
        load.failed,
        counts.moved
    );
    let (before, after) = samples.split_at(warm.clamp(1, samples.len()));
    flat("resident", before, after, |sizes| sizes.resident)?;
    flat("tables", before, after, |sizes| sizes.tables)
}

/// Prints a size before and after, and fails if it grew.
fn flat(name: &str, before: &[Sizes], after: &[Sizes], of: fn(&Sizes) -> u64) -> Result<(), String> {
    let most = |samples: &[Sizes]| samples.iter().map(of).max().unwrap_or(0) as f64 / 1_048_576.0;
    let (at_first, later) = (most(before), most(after));
    println!("{name:<10} {at_first:>9.2} MiB at most in the first quarter, {later:>9.2} MiB later");
    if later > at_first * GROWTH {
        return Err(format!("{name} memory grew by more than {:.0} %", (GROWTH - 1.0) * 100.0));
    }
    Ok(())
}
