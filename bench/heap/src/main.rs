//! One program on one heap; `cargo xtask bench heap` builds and runs this, and compares.
//!
//! The loops are written once, over [`HeapUnderTest`], and compiled in one unit with our heap and with MMTk's
//! collectors. References have 32 bits on all heaps, so objects have the same layout; each heap aligns them as it must.
//!
//! Prints, as JSON: the hash of the last run, its seconds, those of processor time of all threads, how long each of its
//! collections took, and the most memory that the process had, and had when the heap was made.
//!
//! Libraries: `mmtk` (the peers).

#![deny(unsafe_code)]

mod arguments;
mod heap;
#[cfg(feature = "mmtk")]
mod mmtk_heap;
mod ours;
mod programs;

use std::process::ExitCode;
use std::time::Instant;
use std::{env, fs};

use arguments::{Arguments, Collector};
use heap::HeapUnderTest;
use ours::RampartHeap;

fn main() -> ExitCode {
    let given: Vec<String> = env::args().skip(1).collect();
    let arguments = match Arguments::parse(&given) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let Arguments { bytes, tables, .. } = arguments;
    match arguments.collector {
        Collector::Sticky => measure(RampartHeap::<true>::new(bytes, tables), arguments),
        Collector::Immix => measure(RampartHeap::<false>::new(bytes, tables), arguments),
        #[cfg(feature = "mmtk")]
        Collector::Mmtk(plan) => {
            let heap = mmtk_heap::BoundHeap::new(plan, bytes);
            match heap.has_barrier() {
                true => measure(mmtk_heap::MmtkHeap::<true>(heap), arguments),
                false => measure(mmtk_heap::MmtkHeap::<false>(heap), arguments),
            }
        }
        #[cfg(not(feature = "mmtk"))]
        Collector::Mmtk(_) => {
            eprintln!("this was built without MMTk");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn measure(mut heap: impl HeapUnderTest, arguments: Arguments) {
    let Arguments { program, size, runs, .. } = arguments;
    let start_kib = memory_kib("VmRSS:");
    let (mut seconds, mut processor, mut before, mut hash) = (0.0, 0.0, 0, 0);
    for _ in 0..runs {
        before = heap.pauses().len();
        let (start, used) = (Instant::now(), processor_seconds());
        hash = program.run(&mut heap, size);
        seconds = start.elapsed().as_secs_f64();
        processor = processor_seconds() - used;
    }
    let pauses = &heap.pauses()[before..];
    let (peak_kib, start_kib) = (json(memory_kib("VmHWM:")), json(start_kib));
    println!(
        r#"{{"hash": "{hash:x}", "seconds": {seconds}, "processor": {processor}, "pauses": {pauses:?}, "peak_kib": {peak_kib}, "start_kib": {start_kib}}}"#
    );
}

fn json(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

/// An amount of memory of this process.
fn memory_kib(field: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let amount = status.lines().find_map(|line| line.strip_prefix(field))?;
    amount.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The processor time of all threads of this process. (What `/proc` says of it is old by up to one tick.)
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
