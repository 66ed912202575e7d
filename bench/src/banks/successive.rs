//! Nanoseconds of single frames allocated one after the other, and then freed, beside [Panwar15, table 6.1].
//!
//! **Problem.** The slowest of millions of operations is an interrupt, not the allocator's doing. **Idea.** Each run of
//! an allocator does exactly the same, so the operation at one place takes as long in each run; what else the machine
//! does hits other places. The time of an operation is the least of all runs, and the slowest the most of these.
//! **Why this way.** A mean or a percentile would hide the one slow operation that the table is about.
//!
//! Reading the clock takes time too: the same loop without an operation is measured alike, and subtracted.

use std::hint::black_box;
use std::time::Instant;

use super::loops::Pages;

/// What is allocated, in pages, as in the table.
pub const COUNTS: [usize; 5] = [10_000, 100_000, 1_000_000, 2_000_000, 4_000_000];

/// Runs, each with an allocator of its own.
const RUNS: usize = 15;

/// Nanoseconds of a kind of operation.
#[derive(Clone, Copy, Debug)]
pub struct Successive {
    /// The mean of the fastest run, in which the clock is read twice.
    pub mean: f64,
    /// The slowest operation, each as fast as in its fastest run.
    pub worst: f64,
    /// The slowest operation of all runs, whatever slowed it.
    pub slowest_seen: f64,
}

/// The fastest time of each operation, and of the loop without the clock.
struct Fastest {
    each: Vec<u32>,
    total: f64,
    slowest: u32,
}

impl Fastest {
    fn new(count: usize) -> Self {
        Self { each: vec![u32::MAX; count], total: f64::INFINITY, slowest: 0 }
    }

    /// Times all operations together.
    fn together(&mut self, mut operation: impl FnMut(usize)) {
        let start = Instant::now();
        (0..self.each.len()).for_each(&mut operation);
        self.total = self.total.min(start.elapsed().as_secs_f64() * 1e9);
    }

    /// Times each operation.
    fn one_by_one(&mut self, mut operation: impl FnMut(usize)) {
        for (number, fastest) in self.each.iter_mut().enumerate() {
            let start = Instant::now();
            operation(number);
            let time = u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX);
            *fastest = (*fastest).min(time);
            self.slowest = self.slowest.max(time);
        }
    }

    fn result(&self, empty: &Self) -> Successive {
        let most = |fastest: &Self| f64::from(fastest.each.iter().copied().max().unwrap_or(0));
        Successive {
            mean: self.total / self.each.len() as f64,
            worst: (most(self) - most(empty)).max(0.0),
            slowest_seen: f64::from(self.slowest),
        }
    }
}

/// Measures the allocations and the frees of so many pages, in runs of their own.
pub struct Recorder {
    held: Vec<u64>,
    empty: Fastest,
    allocate: Fastest,
    free: Fastest,
}

impl Recorder {
    /// Runs a new allocator again and again. `lend` makes one and lends it to [`Recorder::run`].
    pub fn measure(count: usize, lend: impl Fn(&mut Self)) -> [Successive; 2] {
        let [empty, allocate, free] = [(); 3].map(|()| Fastest::new(count));
        let mut new = Self { held: vec![0; count], empty, allocate, free };
        for _ in 0..RUNS {
            new.empty.one_by_one(|number| {
                black_box(number);
            });
            lend(&mut new);
        }
        [new.allocate.result(&new.empty), new.free.result(&new.empty)]
    }

    /// Runs an allocator of which nothing is in use.
    pub fn run(&mut self, pages: &impl Pages) {
        let Self { held, allocate, free, .. } = self;
        let get = || pages.get(black_box(0), 0).expect("memory is free");
        let put = |first: u64| pages.put(first, black_box(0), 0);
        // The first time, Linux has yet to map the structures.
        held.iter_mut().for_each(|held| *held = get());
        held.iter().for_each(|&first| put(first));
        allocate.together(|number| held[number] = get());
        free.together(|number| put(held[number]));
        allocate.one_by_one(|number| held[number] = get());
        free.one_by_one(|number| put(held[number]));
    }
}

/// The nanoseconds of Buddy and Adaptive-Buddy of [Panwar15, table 6.1]: mean and worst.
const PANWAR15: [[(u32, u32); 2]; COUNTS.len()] = [
    [(285, 755), (267, 1_305)],
    [(266, 988), (260, 2_596)],
    [(260, 999), (255, 20_794)],
    [(250, 999), (255, 20_794)],
    [(249, 999), (277, 21_432)],
];

/// The name of an allocator, and how one is made and lent to [`Recorder::run`].
pub type Successor = (&'static str, fn(&mut Recorder));

/// Prints the table of these allocators.
pub fn print(allocators: &[Successor]) {
    println!("Pages allocated one after the other without a free, and then freed in the same order, on a machine of");
    println!(
        "32 GiB with banks of 256 MiB, one thread; ns per operation. mean: the fastest of {RUNS} runs. worst: the slowest"
    );
    println!(
        "operation, each as fast as in its fastest run, less that of an empty timed loop; in brackets the slowest"
    );
    println!("that was seen at all, with what else the machine did. Panwar15: mean and worst of table 6.1.\n");
    for (count, [linux, adaptive]) in COUNTS.into_iter().zip(PANWAR15) {
        println!("{count} pages{:20} allocate: mean, worst{:15} free: mean, worst", "", "");
        for (name, lend) in allocators {
            let measured = Recorder::measure(count, lend);
            let [allocate, free] = measured
                .map(|Successive { mean, worst, slowest_seen }| format!("{mean:7.1} {worst:8.0} [{slowest_seen:.0}]"));
            println!("  {name:28} {allocate:35} {free}");
        }
        for (name, (mean, worst)) in [("Buddy [Panwar15]", linux), ("Adaptive-Buddy [Panwar15]", adaptive)] {
            println!("  {name:28} {mean:7} {worst:8}");
        }
        println!();
    }
}
