//! Whether a method's reads come from the DRAM on this machine: measured, at start-up.
//!
//! **Problem.** No instruction promises that a line has left every cache; a hypervisor, a new cache or a new processor may
//! keep it, and then the test passes whatever the DRAM does. **Idea.** A cache is told by its speed. After the method
//! has swept some memory, single loads of lines of it are timed, against loads of the same lines when they were just
//! touched and when they were just flushed. **Why this way.** The memory swept would fit in the cache, so nothing leaves
//! it by chance; one line a page is probed, in random order, so no prefetcher helps.
//!
//! Measured elsewhere: 145 ns from the DRAM, 50 from the last cache, 19 from a nearer one.

use rampart_memory::{LINES_PER_FRAME, LineData, RegionLine};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::steps::{Read, Step};
use super::watch::{Log, Unwatched};
use super::{Engine, Executor, Method, Region, Settings, arch};
use crate::{Direction, Order};

/// Pages swept and probed at most: 2 MiB.
const PAGES: usize = 512;

/// With fewer probes, one that was disturbed counts for too much.
const PROBES_AT_LEAST: usize = 64;

/// The share of loads at the speed of a cache above which a method is said to test the cache.
const TOLERATED: f64 = 0.05;

/// What was measured of one method.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Honesty {
    /// The method.
    pub method: Method,
    /// What follows.
    pub verdict: Verdict,
    /// The share of loads at the speed of a cache after the method's sweep, 0 to 1: of both orders, the worse.
    pub cached: f64,
    /// The same share when the lines were known to be flushed.
    pub cached_when_flushed: f64,
    /// The median time of a load from a cache, in ticks of the processor's clock.
    pub cache_ticks: u64,
    /// The median time of a load from the DRAM.
    pub dram_ticks: u64,
}

/// Whether a method tests the DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// At most 5 % of the loads after a sweep came at the speed of a cache.
    ReachesDram,
    /// The clock does not tell a cache from the DRAM here, or the region is too small to say.
    Unclear,
    /// More than 5 % did: this method tests the cache.
    ReadsCache,
}

/// The first of the methods, the faster first, that is honest on this machine, with what was measured of it; if none is,
/// the one of which least came from the cache. What the region held is lost.
#[must_use]
pub fn honest_method(engine: Engine, region: &mut Region<'_>) -> Honesty {
    let flushing = measure(engine, Method::FlushBehind, region);
    if flushing.verdict == Verdict::ReachesDram {
        return flushing;
    }
    let streaming = measure(engine, Method::NonTemporal, region);
    let compared = streaming.verdict.cmp(&flushing.verdict).then(streaming.cached.total_cmp(&flushing.cached));
    if compared.is_lt() { streaming } else { flushing }
}

/// Measures one method, in some milliseconds. What the region held is lost.
#[must_use]
pub fn measure(engine: Engine, method: Method, region: &mut Region<'_>) -> Honesty {
    let mut region = region.first_pages(PAGES);
    let probes = probes(region.lines());
    let executor = Executor { engine, settings: Settings::new(method) };

    let timed = |region: &Region<'_>| -> Vec<u64> { probes.iter().map(|&line| load_ticks(region, line)).collect() };
    let touch = |region: &Region<'_>| drop(timed(region));
    touch(&region);
    let from_cache = timed(&region);
    evict(engine, &region, &probes);
    let from_dram = timed(&region);
    let (cache_ticks, dram_ticks) = (median(&from_cache), median(&from_dram));
    let middle = cache_ticks.midpoint(dram_ticks);
    let share = |ticks: &[u64]| ticks.iter().filter(|&&ticks| ticks < middle).count() as f64 / probes.len() as f64;

    let cached_when_flushed = share(&from_dram);
    let after_sweep = [Order::Sequential, Order::Interleaved].map(|order| {
        touch(&region);
        write_sweep(&executor, &mut region, order, false);
        let w = share(&timed(&region));
        write_sweep(&executor, &mut region, order, true);
        (w, share(&timed(&region)))
    });
    eprintln!("{method:?} {after_sweep:?}");
    let cached = after_sweep[0].1.max(after_sweep[1].1);
    let told_apart = probes.len() >= PROBES_AT_LEAST
        && dram_ticks >= 2 * cache_ticks
        && cached_when_flushed <= TOLERATED
        && share(&from_cache) >= 1.0 - TOLERATED;
    let verdict = match cached {
        _ if !told_apart => Verdict::Unclear,
        share if share <= TOLERATED => Verdict::ReachesDram,
        _ => Verdict::ReadsCache,
    };
    Honesty { method, verdict, cached, cached_when_flushed, cache_ticks, dram_ticks }
}

/// A random line of each page, in random order.
fn probes(lines: u64) -> Vec<RegionLine> {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let pages = (0..lines).step_by(LINES_PER_FRAME as usize);
    let mut probes: Vec<_> =
        pages.map(|page| RegionLine(rng.random_range(page..lines.min(page + LINES_PER_FRAME)))).collect();
    probes.shuffle(&mut rng);
    probes
}

fn load_ticks(region: &Region<'_>, line: RegionLine) -> u64 {
    let word = region.at(line).cast::<u64>();
    let start = arch::ticks();
    // SAFETY: it is the first word of a line of the region (`Region::from_raw`).
    unsafe { word.read_volatile() };
    arch::ticks() - start
}

fn evict(engine: Engine, region: &Region<'_>, lines: &[RegionLine]) {
    for &line in lines {
        // SAFETY: it is a line of the region.
        unsafe { engine.flush().line(region.at(line)) };
    }
    arch::fence();
}

fn write_sweep(executor: &Executor, region: &mut Region<'_>, order: Order, rw: bool) {
    let zeros = LineData::ZERO;
    let write = Step { read: None, write: Some(zeros), evict: true };
    let read = Read { op: 0, expected: zeros };
    let read_write = Step { read: Some(read), write: Some(zeros.inverted()), evict: true };
    let lines = region.lines();
    let sweep = executor.sweep(region, order, Direction::Up);
    let _ = sweep.step(if rw { &read_write } else { &write }, 0..lines, &mut Log::new(&mut Unwatched));
}

fn median(ticks: &[u64]) -> u64 {
    let mut sorted = ticks.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}
