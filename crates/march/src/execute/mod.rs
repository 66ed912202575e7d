//! March tests as loops over real memory that reach the DRAM.
//!
//! **Problem.** Between a program and its DRAM are caches that answer most reads and keep most writes; a test that lets
//! them do so is fast and finds nothing. A test that bypasses them line by line is correct and ten times slower than
//! the DRAM. **Idea.** After every step of an element its lines are in no cache, so that the next read of each comes
//! from the DRAM ([`Method`]); the cost of this is hidden behind the accesses to other lines, of which some hundred are
//! in flight at once. [Rahman16, 5.2.3.4, A.2.2] writes and flushes a line at a time and reads a page back; this code
//! runs at the speed of the DRAM. **Why this way.** Lines in flight blur the order of visits, but only inside a window
//! of known width ([`MarchSettings::window`]), and two address sequences together put every pair of lines outside of it
//! once ([`crate::order`]).
//!
//! # Guarantees
//! 1. The operations on one line are done in the order of the notation. A read that follows a write or a read of its
//!    line, in the same element or in another, comes from the DRAM. So elements such as `(r0,w1,r1)` are cut into
//!    steps, and a step is done to a batch of lines before the next step (`steps`).
//! 2. If the visits of two lines are a window or more apart, all operations of the element on the first have reached
//!    the DRAM before any on the second begins. Inside the window, reads may happen early and writes late, and a step
//!    of the element may be done on both lines before the next is done on either.
//! 3. Lines with emulated faults are visited in exactly the order of the notation, one operation after the other.
//! 4. At a mismatch the line is read again, from the DRAM, before it is written.
//!
//! A program cannot see beyond the last cache: the memory controller may answer a read from its queue of writes, and
//! the DRAM from an open row. For this reason too, batches and windows are as large as the order allows.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
compile_error!("march tests run on x86-64 and aarch64: write the `arch` module of this processor beside theirs");
pub mod bypass;
mod caches;
mod direct;
mod engine;
mod front;
mod ground;
mod kernel;
pub mod limit;
mod region;
mod steps;
mod sweep;
#[cfg(test)]
mod tests;
mod walk;
mod watch;

use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use rampart_memory::fault::Emulator;
use rampart_memory::{LINES_PER_FRAME, RegionLine};
use serde::Serialize;

pub use self::engine::MarchEngine;
use self::ground::Ground;
pub use self::region::Region;
use self::steps::{Stage, compile};
use self::sweep::Sweep;
use self::walk::Walk;
use self::watch::Log;
pub use self::watch::{MarchOutcome, Mismatch, Watch};
use crate::{AddressSequence, Direction, Part, Pass, Visit};

/// The most visits by which a line may be read early besides our prefetch: by the prefetcher in the cache (20 lines),
/// and by a processor that runs ahead of the loop (a reorder buffer of 512 operations holds some 27 visits).
const UNASKED_AHEAD: u64 = 47;

/// The distance of the prefetch in visits: 1 KiB.
const AHEAD: u64 = 16;

/// The distance of the prefetch in visits where the second cache has room for so many lines on their way.
const FAR_AHEAD: u64 = 64;

/// How lines are evicted from the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Writes go through the caches, and every line is flushed some visits later. Reads and write-backs overlap, so
    /// this is the faster method where many lines may be open at once and a flush among accesses suffices.
    FlushBehind,
    /// The same, but some lines are flushed at a time, and lines are prefetched four times as far ahead and only into
    /// the second cache. A processor waits for few lines at once in its first cache (24 on Zen 4), and for more of them
    /// in its second.
    FlushInGroups,
    /// Writes go past the caches (non-temporal stores). Lines that were read before are flushed nevertheless, some at a
    /// time, since prefetchers fetch a few again; all lines are flushed where the caches retain what is written past
    /// them.
    NonTemporal,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::FlushBehind, Self::FlushInGroups, Self::NonTemporal];

    /// Its name in commands and settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FlushBehind => "flush-behind",
            Self::FlushInGroups => "flush-in-groups",
            Self::NonTemporal => "non-temporal",
        }
    }

    /// The method of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FlushBehind => "flush behind",
            Self::FlushInGroups => "flush in groups",
            Self::NonTemporal => "non-temporal",
        })
    }
}

/// How to run a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MarchSettings {
    /// How lines are evicted from the caches.
    pub method: Method,
    /// The most lines that may be visited and still be on their way to the DRAM, and the lines of a batch: a multiple
    /// of 64, rounded up; fewer in a region too small for it.
    pub open: u64,
    /// The length of a delay of the test.
    pub delay: Duration,
    /// How long a block rests before a delayed read ([`crate::Plan::with_delayed_reads`]): ten times the retention time
    /// of a cell that barely escapes the refresh, and as long as other testers' patterns rest in a gigabyte.
    pub retention: Duration,
}

impl MarchSettings {
    /// Open lines by default: 32 KiB, the least with which flushing behind reaches its full speed.
    pub const OPEN: u64 = 512;

    /// With this method, [`MarchSettings::OPEN`] lines open, delays of 100 ms (refresh must keep a cell for 64 ms), and
    /// rests of a second.
    #[must_use]
    pub const fn new(method: Method) -> Self {
        Self { method, open: Self::OPEN, delay: Duration::from_millis(100), retention: Duration::from_secs(1) }
    }

    /// The number of open lines in a region of `lines`: few enough that two address sequences make the window harmless,
    /// but at least a page. While the loop was in a page, prefetchers were seen to fetch its visited lines again; so
    /// lines are flushed when the loop has left their page.
    fn open_in(&self, lines: u64) -> u64 {
        let fits = Visit::safe_window(lines).saturating_sub(self.read_ahead(lines));
        let pages = self.open.div_ceil(LINES_PER_FRAME).min(fits / LINES_PER_FRAME).max(1);
        pages * LINES_PER_FRAME
    }

    /// The distance of the prefetch in a region of `lines`, in visits: as far as the window stays harmless.
    fn ahead_in(&self, lines: u64) -> u64 {
        let farthest = if self.method == Method::FlushInGroups { FAR_AHEAD } else { AHEAD };
        Visit::safe_window(lines).saturating_sub(UNASKED_AHEAD + LINES_PER_FRAME).clamp(AHEAD, farthest)
    }

    /// The most visits by which a line of a region of `lines` may be read early.
    fn read_ahead(&self, lines: u64) -> u64 {
        self.ahead_in(lines) + UNASKED_AHEAD
    }

    /// The width of the window, in a region of `lines`, inside which the order of visits may be blurred.
    #[must_use]
    pub fn window(&self, lines: u64) -> u64 {
        self.open_in(lines) + self.read_ahead(lines)
    }

    /// Whether the two address sequences together put every pair of a region of `lines` outside the window once: so in
    /// all regions of 2 MiB and more. In a smaller one the processor's own read-ahead is wider than any window that can
    /// be made harmless.
    #[must_use]
    pub fn keeps_order(&self, lines: u64) -> bool {
        self.window(lines) <= Visit::safe_window(lines)
    }

    /// The order of visits over a region of `lines`.
    #[must_use]
    pub fn visit(&self, order: AddressSequence, lines: u64) -> Visit {
        Visit::new(order, lines, self.window(lines).min(Visit::safe_window(lines)))
    }
}

/// Runs march tests on memory. It makes no system call and stores nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Executor {
    /// The instruction set.
    pub engine: MarchEngine,
    /// Everything else.
    pub settings: MarchSettings,
}

impl Executor {
    /// Runs one pass over a region, with the faults of `emulator` on its lines, and reports to `watch`. The region's
    /// content is lost. Panics if a fault to emulate lies outside the region.
    pub fn run(
        &self,
        region: &mut Region<'_>,
        pass: &Pass,
        emulator: Option<&mut Emulator>,
        watch: &mut dyn Watch,
    ) -> MarchOutcome {
        self.run_part(region, &Part::whole(pass), emulator, watch)
    }

    /// The same for a part of a pass. Where the region rests first, the caller has made sure that it rested for at
    /// least [`MarchSettings::retention`].
    pub fn run_part(
        &self,
        region: &mut Region<'_>,
        part: &Part<'_>,
        mut emulator: Option<&mut Emulator>,
        watch: &mut dyn Watch,
    ) -> MarchOutcome {
        let pass = part.pass;
        let mut log = Log::new(watch);
        let stages = compile(&pass.test, &pass.background);
        if let Some(emulator) = emulator.as_deref_mut().filter(|_| part.rested) {
            emulator.pause(&mut self.ground(region).direct(), self.settings.retention);
        }
        let all = stages.iter().enumerate();
        let end =
            all.filter(|(element, _)| part.elements.contains(element)).try_for_each(|(element, stage)| match stage {
                Stage::Sweep { direction, steps } => {
                    let bare = self.sweep(region, pass.order, *direction);
                    let emulated = emulated_positions(&bare, emulator.as_deref());
                    let sweep = Sweep { element, steps, emulated: &emulated, ..bare };
                    if let Some(emulator) = emulator.as_deref_mut() {
                        sweep.emulate(emulator, &mut log)?;
                    }
                    sweep.run(&mut log)?;
                    log.report()
                }
                Stage::Delay => {
                    log.pause(self.settings.delay)?;
                    if let Some(emulator) = emulator.as_deref_mut() {
                        emulator.pause(&mut self.ground(region).direct(), self.settings.delay);
                    }
                    ControlFlow::Continue(())
                }
            });
        log.outcome(end)
    }

    /// A sweep that does nothing yet.
    fn sweep<'s>(&self, region: &'s mut Region<'_>, order: AddressSequence, direction: Direction) -> Sweep<'s> {
        let lines = region.lines();
        self.sweep_as_in(lines, region, order, direction)
    }

    /// The same, with the distances and strides that a region of `lines` has.
    fn sweep_as_in<'s>(
        &self,
        lines: u64,
        region: &'s mut Region<'_>,
        order: AddressSequence,
        direction: Direction,
    ) -> Sweep<'s> {
        let walk = Walk::new(self.settings.visit(order, lines).over(region.lines()), region.lines(), direction);
        Sweep { ground: self.ground_as_in(lines, region), order, element: 0, walk, steps: &[], emulated: &[] }
    }

    fn ground<'s>(&self, region: &'s mut Region<'_>) -> Ground<'s> {
        let lines = region.lines();
        self.ground_as_in(lines, region)
    }

    fn ground_as_in<'s>(&self, lines: u64, region: &'s mut Region<'_>) -> Ground<'s> {
        let MarchSettings { method, .. } = self.settings;
        let (open, ahead) = (self.settings.open_in(lines), self.settings.ahead_in(lines));
        Ground { engine: self.engine, method, open, ahead, region }
    }
}

/// The positions of the lines with emulated faults, ascending.
fn emulated_positions(sweep: &Sweep<'_>, emulator: Option<&Emulator>) -> Vec<u64> {
    let lines = emulator.map_or(&[][..], Emulator::lines);
    let last = RegionLine(sweep.ground.region.lines() - 1);
    assert!(lines.iter().all(|&line| line <= last), "emulated faults lie in the region, whose last line is {}", last.0);
    let mut positions: Vec<_> = lines.iter().map(|&line| sweep.walk.position(line)).collect();
    positions.sort_unstable();
    positions
}
