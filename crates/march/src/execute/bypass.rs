//! Whether a method's reads come from the DRAM on this machine: measured at start-up.
//!
//! **Problem.** No instruction guarantees that a line has left every cache. A hypervisor, a new cache or a new
//! processor may keep it, or a prefetcher may fetch it again, and then the test passes whatever the DRAM does.
//! **Idea.** A cache shows by its speed. After the method has swept some memory, time single loads of its lines, and
//! compare them with loads of the same lines just after a touch and just after a flush. **Why this way.** The swept
//! memory would fit in a cache, so no line leaves it by chance; and one line per page is probed, in random order, so no
//! prefetcher helps.
//!
//! A busy machine disturbs such a measurement at times, so a measurement against a method is repeated (`settle`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::slice;
use std::thread;
use std::time::Duration;

use rampart_memory::{LINES_PER_FRAME, LineData, RegionLine};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::caches::Caches;
use super::ground::{SMALL, SMALL_PAGES};
use super::steps::{Read, Step};
use super::sweep::Sweep;
use super::watch::{Log, Unwatched};
use super::{Executor, MarchEngine, MarchSettings, Method, Region, arch};
use crate::{AddressSequence, Direction};

/// With fewer probes, a disturbed one would count too much.
const PROBES_AT_LEAST: usize = 64;

/// The largest tolerated share of loads at the speed of a cache; above it, the method tests the cache.
const TOLERATED: f64 = 0.05;

/// The number of measurements of each method before all are refused.
const ROUNDS: usize = 5;

/// The time between two rounds, so that a disturbance can end.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(30);

/// The measurement of one method.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BypassCheck {
    /// The method.
    pub method: Method,
    /// The conclusion.
    pub verdict: BypassVerdict,
    /// The share of loads at the speed of a cache after the method's sweeps, 0 to 1: the worst of writes alone and of
    /// reads with writes, in both sequences, as in this region and as in a small one.
    pub cached: f64,
    /// The median time of a load from a cache, in ticks of the processor's clock.
    pub cache_ticks: u64,
    /// The median time of a load from the DRAM.
    pub dram_ticks: u64,
}

/// Whether a method tests the DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BypassVerdict {
    /// At most 5 % of the loads after a sweep came at the speed of a cache.
    ReachesDram,
    /// The clock does not tell a cache from the DRAM here, or the region is too small.
    Unclear,
    /// More than 5 % did: this method tests the cache.
    ReadsCache,
}

/// No method bypasses the caches: each was measured several times, and most of the shares were too high.
#[derive(Clone, Debug, PartialEq)]
pub struct NoneBypasses {
    /// The best measurement of each method.
    pub methods: Vec<BypassCheck>,
}

impl fmt::Display for NoneBypasses {
    /// Each method with the share of its reads that came from a cache.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, seen) in self.methods.iter().enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            write!(f, "{separator}{}: {:.0} % of the reads came from a cache", seen.method, 100.0 * seen.cached)?;
        }
        Ok(())
    }
}

/// The first of the methods, the faster first, that bypasses the caches on this machine. The region's content is lost.
///
/// # Errors
/// If none does; never because of one measurement.
pub fn bypassing_method(engine: MarchEngine, region: &mut Region<'_>) -> Result<BypassCheck, NoneBypasses> {
    let faster_first = match engine.caches() {
        Caches::Release => &[Method::FlushBehind, Method::NonTemporal][..],
        Caches::Retain => &[Method::FlushInGroups, Method::NonTemporal, Method::FlushBehind],
    };
    settle_here(engine, faster_first, region)
}

/// The same for one method.
///
/// # Errors
/// If it does not bypass the caches.
pub fn check_method(engine: MarchEngine, method: Method, region: &mut Region<'_>) -> Result<BypassCheck, NoneBypasses> {
    settle_here(engine, &[method], region)
}

fn settle_here(engine: MarchEngine, methods: &[Method], region: &mut Region<'_>) -> Result<BypassCheck, NoneBypasses> {
    settle(methods, |method| measure(engine, method, region), || thread::sleep(BETWEEN_ROUNDS))
}

/// The first method that is seen to reach the DRAM. If none is in [`ROUNDS`] measurements of each, the first method
/// that most measurements cannot judge, as in an emulated machine, which has no caches.
fn settle(
    methods: &[Method],
    mut measure: impl FnMut(Method) -> BypassCheck,
    mut wait: impl FnMut(),
) -> Result<BypassCheck, NoneBypasses> {
    let mut seen: Vec<Vec<BypassCheck>> = vec![Vec::new(); methods.len()];
    for round in 0..ROUNDS {
        if round > 0 {
            wait();
        }
        for (&method, seen) in methods.iter().zip(&mut seen) {
            let measured = measure(method);
            if measured.verdict == BypassVerdict::ReachesDram {
                return Ok(measured);
            }
            seen.push(measured);
        }
        if round > 0 && seen.iter().flatten().all(|seen| seen.verdict == BypassVerdict::Unclear) {
            break;
        }
    }
    let best: Vec<_> = seen.into_iter().map(best_of_most).collect();
    match best.iter().find(|best| best.verdict == BypassVerdict::Unclear) {
        Some(unclear) => Ok(*unclear),
        None => Err(NoneBypasses { methods: best }),
    }
}

/// The best of the measurements whose verdict is the most frequent one.
fn best_of_most(seen: Vec<BypassCheck>) -> BypassCheck {
    let mut by_verdict: BTreeMap<BypassVerdict, Vec<BypassCheck>> = BTreeMap::new();
    for seen in seen {
        by_verdict.entry(seen.verdict).or_default().push(seen);
    }
    let most = by_verdict.into_values().max_by_key(Vec::len).unwrap_or_default();
    most.into_iter().min_by(|one, other| one.cached.total_cmp(&other.cached)).expect("every method was measured")
}

/// Measures one method, in some milliseconds, with the distances and strides of this region and of a small one. The
/// region's content is lost.
#[must_use]
pub fn measure(engine: MarchEngine, method: Method, region: &mut Region<'_>) -> BypassCheck {
    let executor = Executor { engine, settings: MarchSettings::new(method) };
    let blocks = BTreeSet::from([region.lines(), region.lines().min(SMALL)]);
    let mut probe = Probe::new(engine, region.first_pages(SMALL_PAGES));
    let touched = probe.touched();
    let flushed = probe.flushed();
    let data = LineData::ZERO;
    let write = Step { read: None, write: Some(data), evict: true };
    let read = Read { op: 0, expected: data };
    let read_write = Step { read: Some(read), write: Some(data.inverted()), evict: true };
    let swept: Vec<_> = blocks
        .into_iter()
        .flat_map(|lines| [AddressSequence::Sequential, AddressSequence::Strided].map(|order| (lines, order)))
        .flat_map(|(lines, order)| [(lines, order, &write), (lines, order, &read_write)])
        .map(|(lines, order, step)| {
            let bare = executor.sweep_as_in(lines, &mut probe.region, order, Direction::Up);
            let sweep = Sweep { steps: slice::from_ref(step), ..bare };
            let _ = sweep.run(&mut Log::new(&mut Unwatched));
            probe.load_ticks()
        })
        .collect();
    judge(method, &touched, &flushed, &swept)
}

/// Times single loads.
struct Probe<'r> {
    engine: MarchEngine,
    region: Region<'r>,
    /// A random line of each page, in random order.
    lines: Vec<RegionLine>,
}

impl<'r> Probe<'r> {
    fn new(engine: MarchEngine, region: Region<'r>) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let pages = 0..region.lines().div_ceil(LINES_PER_FRAME);
        let line_of = |page: u64| {
            let first = page * LINES_PER_FRAME;
            RegionLine(rng.random_range(first..region.lines().min(first + LINES_PER_FRAME)))
        };
        let mut lines: Vec<_> = pages.map(line_of).collect();
        lines.shuffle(&mut rng);
        Self { engine, region, lines }
    }

    /// The times of loads from a cache.
    fn touched(&self) -> Vec<u64> {
        self.load_ticks();
        self.load_ticks()
    }

    /// The times of loads of flushed lines.
    fn flushed(&self) -> Vec<u64> {
        for &line in &self.lines {
            // SAFETY: it is a line of the region.
            unsafe { self.engine.flush().line(self.region.at(line)) };
        }
        arch::fence();
        self.load_ticks()
    }

    fn load_ticks(&self) -> Vec<u64> {
        let ticks = |&line: &RegionLine| {
            let word = self.region.at(line).cast::<u64>();
            let start = arch::ticks();
            // SAFETY: it is the first word of a line of the region (`Region::from_raw`).
            unsafe { word.read_volatile() };
            arch::ticks() - start
        };
        self.lines.iter().map(ticks).collect()
    }
}

/// The verdict from the times of loads of the same lines: just touched, just flushed, and after each of several sweeps.
fn judge(method: Method, touched: &[u64], flushed: &[u64], swept: &[Vec<u64>]) -> BypassCheck {
    let (cache_ticks, dram_ticks) = (median(touched), median(flushed));
    // The limit lies nearer to the cache, since the DRAM answers faster when others do not use it. The last cache is
    // still below the limit: where a near one takes 19 ns and the DRAM 145, it takes 50.
    let limit = cache_ticks + dram_ticks.saturating_sub(cache_ticks) / 3;
    let share = |ticks: &[u64]| ticks.iter().filter(|&&ticks| ticks <= limit).count() as f64 / ticks.len() as f64;
    let cached = swept.iter().map(|ticks| share(ticks)).fold(0.0, f64::max);

    let told_apart = dram_ticks >= 2 * cache_ticks && share(flushed) <= TOLERATED && share(touched) >= 1.0 - TOLERATED;
    let verdict = if !told_apart || touched.len() < PROBES_AT_LEAST {
        BypassVerdict::Unclear
    } else if cached <= TOLERATED {
        BypassVerdict::ReachesDram
    } else {
        BypassVerdict::ReadsCache
    };
    BypassCheck { method, verdict, cached, cache_ticks, dram_ticks }
}

fn median(ticks: &[u64]) -> u64 {
    let mut sorted = ticks.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Background;
    use crate::execute::direct::Direct;
    use crate::execute::steps::{Stage, compile};
    use crate::execute::tests::Memory;
    use rampart_memory::fault::LineAccess;

    fn verdict(touched: u64, flushed: u64, cached_of_100: usize) -> BypassVerdict {
        let (touched, flushed) = (vec![touched; 100], vec![flushed; 100]);
        let swept = [&touched[..cached_of_100], &flushed[cached_of_100..]].concat();
        judge(Method::NonTemporal, &touched, &flushed, &[flushed.clone(), swept]).verdict
    }

    #[test]
    fn one_load_in_twenty_from_a_cache_is_tolerated_and_no_more() {
        assert_eq!(verdict(20, 145, 0), BypassVerdict::ReachesDram);
        assert_eq!(verdict(20, 145, 5), BypassVerdict::ReachesDram);
        assert_eq!(verdict(20, 145, 6), BypassVerdict::ReadsCache);
    }

    /// Between 20 ticks of a cache and 146 of the DRAM, a third of the way is 62.
    #[test]
    fn a_load_counts_as_one_from_a_cache_up_to_a_third_of_the_way_to_the_dram() {
        let (touched, flushed) = ([20; 64], [146; 64]);
        let cached = |ticks| judge(Method::NonTemporal, &touched, &flushed, &[vec![ticks; 64]]).cached;
        assert_eq!([20, 50, 62, 63, 146].map(cached), [1.0, 1.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn few_probes_prove_nothing_and_the_median_of_many_is_reported() {
        let check = |probes: u64| {
            let (touched, flushed): (Vec<_>, Vec<_>) = (0..probes).map(|probe| (probe, 1000 + probe)).unzip();
            judge(Method::NonTemporal, &touched, &flushed, slice::from_ref(&flushed))
        };
        assert_eq!(
            [1, 63, 64, 65].map(|probes| check(probes).verdict == BypassVerdict::Unclear),
            [true, true, false, false]
        );
        assert_eq!((check(65).cache_ticks, check(65).dram_ticks), (32, 1032));
    }

    #[test]
    fn where_the_clock_tells_no_cache_from_the_dram_nothing_is_claimed() {
        assert_eq!(verdict(0, 0, 0), BypassVerdict::Unclear);
        assert_eq!(verdict(100, 145, 50), BypassVerdict::Unclear);
    }

    /// Settles with measurements from lists of percentages, `None` where the clock tells nothing; the last is repeated.
    /// Also returns the number of waits.
    fn settled(shares: &[(Method, &[Option<usize>])]) -> (Result<BypassCheck, NoneBypasses>, usize) {
        let methods: Vec<_> = shares.iter().map(|(method, _)| *method).collect();
        let (mut asked, mut waits) = (vec![0; shares.len()], 0);
        let measure = |method| {
            let place = methods.iter().position(|known| *known == method).expect("one of the methods");
            let list = shares[place].1;
            let share = list[asked[place].min(list.len() - 1)];
            asked[place] += 1;
            let (touched, flushed) = (vec![20; 100], vec![if share.is_some() { 145 } else { 25 }; 100]);
            let cached = share.unwrap_or(50);
            judge(method, &touched, &flushed, &[[&touched[..cached], &flushed[cached..]].concat()])
        };
        (settle(&methods, measure, || waits += 1), waits)
    }

    #[test]
    fn the_first_method_that_is_seen_to_reach_the_dram_is_taken_and_one_bad_measurement_is_no_proof() {
        use Method::{FlushBehind, NonTemporal};
        let (first, waits) = settled(&[(FlushBehind, &[Some(0)]), (NonTemporal, &[Some(0)])]);
        assert_eq!((first.unwrap().method, waits), (FlushBehind, 0));
        let (second, waits) = settled(&[(FlushBehind, &[Some(90)]), (NonTemporal, &[Some(0)])]);
        assert_eq!((second.unwrap().method, waits), (NonTemporal, 0));
        for bad in 1..ROUNDS {
            let mut shares = vec![Some(90); bad];
            shares.push(Some(1));
            let (settled, waits) = settled(&[(FlushBehind, &shares)]);
            assert_eq!((settled.unwrap().verdict, waits), (BypassVerdict::ReachesDram, bad));
        }
    }

    #[test]
    fn methods_that_read_the_cache_whenever_they_are_measured_are_refused_with_the_least_share_of_each() {
        use Method::{FlushBehind, NonTemporal};
        let (refused, waits) = settled(&[(FlushBehind, &[Some(90), Some(12), Some(40)]), (NonTemporal, &[Some(50)])]);
        let refused = refused.unwrap_err();
        assert_eq!(refused.methods.iter().map(|seen| seen.cached).collect::<Vec<_>>(), [0.12, 0.5]);
        assert_eq!(
            refused.to_string(),
            "flush behind: 12 % of the reads came from a cache, non-temporal: 50 % of the reads came from a cache"
        );
        assert_eq!(waits, ROUNDS - 1);
    }

    /// In an emulated machine, or where others disturb every measurement.
    #[test]
    fn where_most_measurements_tell_nothing_nothing_is_refused() {
        let (unclear, waits) = settled(&[(Method::FlushBehind, &[None])]);
        assert_eq!((unclear.unwrap().verdict, waits), (BypassVerdict::Unclear, 1));
        let (unclear, _) = settled(&[(Method::FlushBehind, &[Some(90), Some(90), None])]);
        assert_eq!(unclear.unwrap().verdict, BypassVerdict::Unclear);
        let (refused, _) = settled(&[(Method::FlushBehind, &[None, Some(90)])]);
        assert!(refused.is_err(), "four of five");
        let (refused, _) = settled(&[(Method::FlushBehind, &[None, Some(90), None, Some(90)])]);
        assert!(refused.is_err(), "three of five");
    }

    #[test]
    fn a_sweep_that_leaves_lines_in_the_cache_is_never_said_to_reach_the_dram() {
        let memory = Memory::new(512 * LINES_PER_FRAME);
        let probe = Probe::new(MarchEngine::detect(), memory.region());
        let start = arch::ticks();
        let (touched, flushed, left) = (probe.touched(), probe.flushed(), probe.touched());
        let passed = arch::ticks() - start;
        assert_eq!([&touched, &flushed, &left].map(Vec::len), [512; 3], "a load of each page");
        let all = || [&touched, &flushed, &left].into_iter().flatten();
        assert!(all().sum::<u64>() <= passed, "loads take no longer than they all do");
        assert!(all().any(|ticks| ticks != &touched[0]), "times are not all alike");
        let check = judge(Method::FlushBehind, &touched, &flushed, &[left]);
        assert_ne!(check.verdict, BypassVerdict::ReachesDram, "{check:?}");
    }

    /// The verdict on what one load of each page of a region finds after `evict`.
    fn check_after(
        engine: MarchEngine,
        evict: &dyn Fn(&Region<'_>, &[RegionLine]),
    ) -> Result<BypassCheck, NoneBypasses> {
        let memory = Memory::new(512 * LINES_PER_FRAME);
        let probe = Probe::new(engine, memory.region());
        let measure = |method| {
            let (touched, flushed) = (probe.touched(), probe.flushed());
            probe.touched();
            evict(&probe.region, &probe.lines);
            judge(method, &touched, &flushed, &[probe.load_ticks()])
        };
        settle(&[Method::FlushBehind], measure, || thread::sleep(BETWEEN_ROUNDS))
    }

    #[test]
    fn an_evicted_region_and_lines_written_one_at_a_time_are_in_no_cache() {
        let engine = MarchEngine::detect();
        check_after(engine, &|region, _| engine.evict(region)).expect("the region was evicted");
        let stored = |region: &Region<'_>, lines: &[RegionLine]| {
            let mut direct = Direct::new(region, engine.flush());
            lines.iter().for_each(|&line| direct.store(line, LineData::ZERO));
        };
        check_after(engine, &stored).expect("the lines were evicted");
    }

    /// Loads of each line of a small region, each after a sweep of its own that ends the element or a batch.
    fn ticks_of_each_line(executor: &Executor, memory: &Memory, order: AddressSequence, notation: &str) -> Vec<u64> {
        let stages = compile(&notation.parse().unwrap(), &Background::solid());
        let [_, Stage::Sweep { direction, steps }, _] = &stages[..] else { panic!("three sweeps") };
        let zeros = Step { read: None, write: Some(LineData::ZERO), evict: true };
        let after_sweep = |line| {
            let (mut region, mut unwatched) = (memory.region(), Unwatched);
            let log = &mut Log::new(&mut unwatched);
            let sweep = Sweep { steps, ..executor.sweep(&mut region, order, *direction) };
            let _ = sweep.step(&zeros, 0..memory.lines(), log);
            let _ = sweep.run(log);
            Probe { engine: executor.engine, region, lines: vec![RegionLine(line)] }.load_ticks()[0]
        };
        (0..memory.lines()).map(after_sweep).collect()
    }

    #[test]
    fn after_any_step_no_line_is_in_a_cache_not_even_the_last_ones() {
        let memory = Memory::new(512);
        for engine in MarchEngine::all_available() {
            let probe = |line| Probe { engine, region: memory.region(), lines: vec![RegionLine(line)] };
            for method in Method::ALL {
                let executor = Executor { engine, settings: MarchSettings::new(method) };
                for element in ["^(w1); *(r1)", "v(r0,w1); *(r1)", "^(r0); *(r0)", "*(r0,w1,r1,w0); *(r0)"] {
                    let notation = format!("*(w0); {element}");
                    for order in [AddressSequence::Sequential, AddressSequence::Strided] {
                        let measure = |method| {
                            let touched: Vec<_> = (0..memory.lines()).map(|line| probe(line).touched()[0]).collect();
                            let flushed: Vec<_> = (0..memory.lines()).map(|line| probe(line).flushed()[0]).collect();
                            let swept = ticks_of_each_line(&executor, &memory, order, &notation);
                            judge(method, &touched, &flushed, &[swept])
                        };
                        settle(&[method], measure, || thread::sleep(BETWEEN_ROUNDS))
                            .unwrap_or_else(|refused| panic!("{engine}, {element}, {order}: {refused}"));
                    }
                }
            }
        }
    }

    #[test]
    fn regions_of_any_size_are_measured_with_every_engine() {
        for lines in [1, 70, 64 * LINES_PER_FRAME] {
            let memory = Memory::new(lines);
            for engine in MarchEngine::all_available() {
                let check = bypassing_method(engine, &mut memory.region()).expect("a method bypasses the caches");
                assert!((0.0..=1.0).contains(&check.cached), "{check:?}");
                let enough = lines >= 64 * LINES_PER_FRAME;
                assert_ne!(check.verdict, BypassVerdict::ReadsCache, "{engine}, {lines} lines: {check:?}");
                assert!(enough || check.verdict == BypassVerdict::Unclear, "{engine}, {lines} lines: {check:?}");
            }
            memory.content();
        }
    }
}
