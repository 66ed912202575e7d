//! `rampart banks pools`: makes three pools of memory blocks, and keeps them until it is stopped.
//!
//! **Problem.** Memory must come back online before programs lack it, also while this process empties a block or
//! searches one. **Idea.** The quick look, at zones, is repeated every 50 ms, or more often while memory is used up
//! fast, and as soon as the kernel begins to reclaim; an attempt to empty a block ends as soon as it shows that memory
//! is needed. A block that the kernel can have of programs is found by a glance at a few frames of each. The slow look,
//! at all frames, is kept for blocks that go offline. **Why this way.** When the kernel begins to reclaim, a fast burst
//! lacks memory a few milliseconds later: the looks before keep most bursts from getting so far. This process is locked
//! in RAM, comes before others on the CPU, and is killed last, so that it acts even then.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rampart_banks::{
    EmptiedBlock, FrameSearch, MemorySurvey, Pool, PoolDemand, PoolMove, PoolSettings, PoolSizes, Pools, PoolsSeen,
};
use rampart_linux::memory_state::{Overcommit, ZoneMemory};
use rampart_linux::tracing::ReclaimNotice;
use rampart_linux::{
    HotplugRefusal, HotplugState, MemoryBlocks, MemoryOrigins, OnlineUse, Patience, Roots, cpu, hotplug, own_memory,
};
use rampart_memory::HotplugBlock;

use super::arguments::PoolsArguments;
use super::culprits::Culprits;
use super::mover::{BlockMover, RestoredBlock};
use super::pool_events::{PoolEvent, Printer};
use super::pressure_watch::PressureWatch;
use super::{banks_of, glance, look};
use crate::error::Error;
use crate::inputs::pools::{FOLDER, PoolsFile, PoolsState};
use crate::output::text;
use crate::process::signals;

/// The time between two quick looks is at least this, even if the kernel reclaims all the time.
const AT_LEAST: Duration = Duration::from_millis(5);

/// After so long without a move the sizes of the pools are shown.
const AT_REST: Duration = Duration::from_secs(2);

/// A look at all frames serves for so many times as long as it took.
const SURVEY_LASTS: u32 = 20;

fn pool_of(survey: &MemorySurvey, number: HotplugBlock) -> Pool {
    let block = survey.find(number).expect("a block of the survey");
    Pool::of(block.state, &block.zones)
}

fn sizes(survey: &MemorySurvey) -> PoolSizes {
    PoolSizes::sum(survey.block, survey.blocks.iter().map(|block| Pool::of(block.state, &block.zones)))
}

/// Makes the pools and keeps them, or shows how they would begin. Returns 0, or 2 if not all could be restored.
pub fn run(arguments: &PoolsArguments) -> Result<u8, Error> {
    let roots = Roots::default();
    let survey = look(&roots, None)?.known()?;
    let settings =
        PoolSettings { reserve_percent: arguments.reserve, core_percent: arguments.core, dwell: arguments.dwell };
    let pools = Pools::new(settings, &survey);
    let printer = Printer { json: arguments.json, began: Instant::now() };
    printer.print(&PoolEvent::Banks { banks: survey.banks.clone() })?;
    if arguments.apply {
        return Keeper::begin(&roots, arguments, pools, &survey, printer)?.run();
    }
    warn(&roots, &printer)?;
    plan(pools, survey, &printer)?;
    if !arguments.json {
        text::print("dry run     nothing was changed: --apply does it\n")?;
    }
    Ok(0)
}

/// Names the requests that only memory online can grant.
fn warn(roots: &Roots, printer: &Printer) -> Result<(), Error> {
    match Overcommit::read(roots) {
        Some(setting @ (Overcommit::Guess | Overcommit::Never)) => printer.print(&PoolEvent::Overcommit { setting }),
        Some(Overcommit::Always) | None => Ok(()),
    }
}

/// Shows the moves if each succeeded and programs did nothing.
fn plan(mut pools: Pools, mut survey: MemorySurvey, printer: &Printer) -> Result<(), Error> {
    let now = Duration::ZERO;
    while let Some(demand) = pools.demand(PoolsSeen { zones: &survey.zones(), pressed: false }, now) {
        let Some(next) = pools.step(demand, &survey.zones(), &survey, now) else {
            pools.unmet(demand, Duration::ZERO, now);
            continue;
        };
        let from = pool_of(&survey, next.block);
        survey = expected(&survey, next);
        pools.moved(next, &survey, now);
        printer.print(&PoolEvent::Block { block: next.block, from, to: next.to, refusal: None })?;
    }
    printer.print(&PoolEvent::Rest(sizes(&survey)))
}

/// The survey once a block is in its new pool.
fn expected(survey: &MemorySurvey, moved: PoolMove) -> MemorySurvey {
    let without = survey.without(moved.block);
    match moved.to {
        Pool::Offline => without,
        Pool::User => without.with(moved.block, "Movable"),
        Pool::Kernel => without.with(moved.block, "Normal"),
    }
}

/// The pools of this machine, kept.
struct Keeper<'a> {
    roots: &'a Roots,
    arguments: &'a PoolsArguments,
    pools: Pools,
    mover: BlockMover<'a>,
    stop: Arc<AtomicBool>,
    printer: Printer,
    /// The last look at all frames, when it was, and how long it took.
    survey: Option<(MemorySurvey, Instant, Duration)>,
    pressure: PressureWatch,
    /// `None` where the kernel does not give it: then the looks must do.
    reclaim: Option<ReclaimNotice>,
    /// The blocks that went offline here.
    ours: BTreeSet<HotplugBlock>,
    /// All blocks that were ever seen.
    known: BTreeSet<HotplugBlock>,
    published: Published,
}

impl<'a> Keeper<'a> {
    fn begin(
        roots: &'a Roots,
        arguments: &'a PoolsArguments,
        pools: Pools,
        survey: &MemorySurvey,
        printer: Printer,
    ) -> Result<Self, Error> {
        let mover = BlockMover::open(roots)?;
        warn(roots, &printer)?;
        let stop = signals::stop_flag()?;
        own_memory::keep_in_ram();
        own_memory::outlive_others(roots);
        cpu::be_prompt();
        hotplug::write_back();
        let published = Published::begin(PoolsState::new(pools.whole_reserve()))?;
        let reclaim = match ReclaimNotice::open(roots) {
            Ok(notice) => Some(notice),
            Err(absence) => {
                printer.print(&PoolEvent::NoReclaimNotice { reason: absence.to_string() })?;
                None
            }
        };
        Ok(Self {
            roots,
            arguments,
            pools,
            mover,
            stop,
            printer,
            survey: None,
            pressure: PressureWatch::default(),
            reclaim,
            ours: BTreeSet::new(),
            known: survey.blocks.iter().map(|block| block.number).collect(),
            published,
        })
    }

    fn run(mut self) -> Result<u8, Error> {
        let kept = self.keep();
        // The end comes too if nobody reads what is printed any more: a machine is not left half offline.
        let patience = Patience { deadline: self.arguments.deadline, stops: &|| false };
        let blocks = self.mover.restore(&BTreeSet::new(), patience)?;
        let code = if blocks.iter().all(RestoredBlock::is_back) { 0 } else { 2 };
        kept?;
        self.printer.print(&PoolEvent::Restored { blocks })?;
        Ok(code)
    }

    /// Meets each demand until it is stopped.
    fn keep(&mut self) -> Result<(), Error> {
        let mut last_move = Some(Instant::now());
        while !self.is_over() {
            let zones = self.zones()?;
            let pressed = self.pressure.is_pressed(self.roots);
            match self.pools.demand(PoolsSeen { zones: &zones, pressed }, self.now()) {
                Some(demand) if self.meet(demand, &zones)? => last_move = Some(Instant::now()),
                Some(_) => {}
                None => self.rest(self.pools.next_look(&zones)),
            }
            if last_move.take_if(|moved| moved.elapsed() > AT_REST).is_some() {
                self.printer.print(&PoolEvent::Rest(sizes(&self.blocks()?.1)))?;
            }
        }
        Ok(())
    }

    /// Waits for the next look, or until the kernel begins to reclaim.
    fn rest(&self, most: Duration) {
        thread::sleep(AT_LEAST);
        let rest = most.saturating_sub(AT_LEAST);
        match &self.reclaim {
            Some(notice) => {
                notice.wait(rest);
            }
            None => thread::sleep(rest),
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.arguments.for_.is_some_and(|limit| self.now() >= limit)
    }

    fn now(&self) -> Duration {
        self.printer.began.elapsed()
    }

    fn zones(&self) -> Result<Vec<ZoneMemory>, Error> {
        ZoneMemory::read(self.roots).ok_or(Error::NoZones)
    }

    /// The blocks as they are now, without the use of their frames.
    fn blocks(&self) -> Result<(MemoryBlocks, MemorySurvey), Error> {
        let blocks = MemoryBlocks::read(self.roots).map_err(Error::NoBlocks)?;
        let banks = banks_of(self.roots, &blocks, None).0;
        let survey = MemorySurvey::with_origins(&blocks, None, banks, &MemoryOrigins::read(self.roots));
        Ok((blocks, survey))
    }

    /// Moves a block, if one meets the demand. Returns whether one moved.
    fn meet(&mut self, demand: PoolDemand, zones: &[ZoneMemory]) -> Result<bool, Error> {
        let began = Instant::now();
        let (blocks, quick) = self.blocks()?;
        self.pools.resized(&quick);
        self.notice_returns(&quick)?;
        if let Some(next) = self.pools.step(demand, zones, &quick, self.now()) {
            return self.carry_out(demand, next, &quick);
        }
        if let Some(search) = self.pools.search(demand, zones) {
            let survey = match search {
                FrameSearch::Sampled => glance(self.roots, blocks).known()?,
                FrameSearch::Full => self.survey()?,
            };
            if let Some(next) = self.pools.step(demand, zones, &survey, self.now()) {
                return self.carry_out(demand, next, &survey);
            }
        }
        self.pools.unmet(demand, began.elapsed(), self.now());
        Ok(false)
    }

    /// Notices blocks that something else brought online: offline ones, and those of memory that was added.
    fn notice_returns(&mut self, survey: &MemorySurvey) -> Result<(), Error> {
        let is_present = |block: &HotplugBlock| survey.find(*block).is_some();
        // What the host took back is no return.
        self.ours.retain(is_present);
        let back = self.ours.extract_if(.., |block| pool_of(survey, *block) != Pool::Offline).collect::<Vec<_>>();
        for block in back {
            self.survey = None;
            self.pools.came_back(block, self.now());
            self.published.change(|state| state.came_back += 1);
            self.printer.print(&PoolEvent::CameBack { block, culprits: Culprits::find(self.roots) })?;
        }
        for block in survey.blocks.iter().filter(|block| self.known.insert(block.number)) {
            let to = Pool::of(block.state, &block.zones);
            if to != Pool::Offline {
                let culprits = Culprits::find(self.roots);
                self.printer.print(&PoolEvent::Added { block: block.number, to, culprits })?;
            }
        }
        Ok(())
    }

    /// A survey with the use of frames, not much older than it took.
    fn survey(&mut self) -> Result<MemorySurvey, Error> {
        let fresh = self.survey.as_ref().filter(|(_, when, took)| when.elapsed() <= *took * SURVEY_LASTS);
        if let Some((survey, ..)) = fresh {
            return Ok(survey.clone());
        }
        let began = Instant::now();
        let survey = look(self.roots, None)?.known()?;
        self.survey = Some((survey.clone(), Instant::now(), began.elapsed()));
        Ok(survey)
    }

    fn carry_out(&mut self, demand: PoolDemand, next: PoolMove, survey: &MemorySurvey) -> Result<bool, Error> {
        let block = survey.find(next.block).expect("a block of the survey");
        let from = Pool::of(block.state, &block.zones);
        let before = EmptiedBlock { demand, pool: from, free: block.uses.free, movable: block.uses.movable };
        let refusal = self.attempt(next, before)?.err();
        match &refusal {
            None => {
                self.pools.moved(next, survey, self.now());
                self.published.change(|state| state.moved(from, next));
                if next.to == Pool::Offline {
                    self.ours.insert(next.block)
                } else {
                    self.ours.remove(&next.block)
                };
                if let Some((survey, ..)) = &mut self.survey {
                    *survey = expected(survey, next);
                }
            }
            Some(HotplugRefusal::Stopped) => self.pools.interrupted(demand, self.now()),
            Some(_) => {
                // It may be online in another zone than it was meant for.
                let (now, _) = self.blocks()?;
                if now.find(next.block).is_some_and(|block| block.state != HotplugState::Offline) {
                    self.ours.remove(&next.block);
                }
                self.pools.failed(next.block, self.now());
                self.published.change(|state| state.failures += 1);
                self.survey = None;
            }
        }
        let went = refusal.is_none();
        let refusal = refusal.map(|refusal| refusal.to_string());
        self.printer.print(&PoolEvent::Block { block: next.block, from, to: next.to, refusal })?;
        Ok(went)
    }

    fn attempt(&mut self, next: PoolMove, before: EmptiedBlock) -> Result<Result<(), HotplugRefusal>, Error> {
        if before.pool != Pool::Offline
            && let Err(refusal) = self.empty(next.block, before)?
        {
            return Ok(Err(refusal));
        }
        Ok(match next.to {
            Pool::Offline => Ok(()),
            Pool::User => self.mover.bring_online(next.block, OnlineUse::Movable),
            Pool::Kernel => self.mover.bring_online(next.block, OnlineUse::Kernel),
        })
    }

    /// Takes a block offline, unless memory is needed more urgently meanwhile.
    fn empty(&mut self, block: HotplugBlock, before: EmptiedBlock) -> Result<Result<(), HotplugRefusal>, Error> {
        let (blocks, _) = self.blocks()?;
        let Some(block) = blocks.find(block) else { return Ok(Err(HotplugRefusal::Busy)) };
        if block.state != HotplugState::Online {
            return Ok(Ok(()));
        }
        let (roots, stop, began) = (self.roots, &self.stop, self.printer.began);
        let any_offline = blocks.blocks.iter().any(|block| block.state == HotplugState::Offline);
        // One thread asks, while this one waits for the kernel.
        let watched = Mutex::new((&mut self.pools, &mut self.pressure));
        let lacks_memory = || {
            let mut watched = watched.lock().expect("nobody panics with this lock");
            let (pools, pressure) = &mut *watched;
            let zones = ZoneMemory::read(roots).unwrap_or_default();
            let seen = PoolsSeen { zones: &zones, pressed: pressure.is_pressed(roots) };
            match pools.lacks_memory(seen, before, began.elapsed()) {
                // It can have a block of programs.
                Some(Pool::Kernel) => true,
                Some(_) => any_offline,
                None => false,
            }
        };
        let stops = || stop.load(Ordering::Relaxed) || lacks_memory();
        self.mover.take_offline(block, Patience { deadline: self.arguments.deadline, stops: &stops })
    }
}

/// What others see of the pools. Where it cannot be written, the pools are kept nevertheless.
struct Published {
    file: PoolsFile,
    state: PoolsState,
}

impl Published {
    fn begin(state: PoolsState) -> Result<Self, Error> {
        let folder = Path::new(FOLDER);
        let file = PoolsFile::create(folder).map_err(|cause| Error::OfflineRecord(folder.join("pools.json"), cause))?;
        let mut published = Self { file, state };
        published.change(|_| ());
        Ok(published)
    }

    fn change(&mut self, change: impl FnOnce(&mut PoolsState)) {
        change(&mut self.state);
        let _old = self.file.write(&self.state);
    }
}
