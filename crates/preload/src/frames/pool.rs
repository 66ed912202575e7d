//! Tested frames below a guarded heap.
//!
//! **Problem.** The kernel's frame for a page may be bad, and testing it takes a hundred times as long as touching it.
//! **Idea.** Memory is tested ahead of the program ([`PoolTarget`] sets the amount); a page that is used for the first
//! time is *moved* there, and a move carries the frame. Pages that the program keeps move to tested frames while they
//! are locked, and their old frames are tested then ([`rampart_guard::Replacement`]). A bad frame stays in the pool's
//! hands for as long as the process lives. **Why this way.** All tests are of memory that nobody uses, so they may
//! destroy its content and take their time; COMeT takes frames from the kernel's free lists for the same reason
//! [Rahman16, 3.3].
//!
//! A test says nothing about a page that the kernel moved to another frame meanwhile. Where frame numbers can be read
//! they are compared before the test, after it, and when the page is given away; elsewhere a move goes unnoticed.
//! Nothing is pinned for its test.
//!
//! No lock here is held for long, nor by a thread that yields to others: the fault handler must not wait for it.

#![allow(unsafe_code, reason = "copies pages between addresses")]

use std::collections::{BTreeMap, BTreeSet};
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::Thread;
use std::time::Instant;

use rampart_guard::pool_target::CHUNK_PAGES;
use rampart_guard::{Counter, EngineRefusal, FrameHistory, FrameSettings, GuardCounts, PoolTarget, Untested};
use rampart_linux::vault::{Side, Vault, VaultSpan};
use rampart_linux::{Block, Error, MemoryState, Pagemap, Roots, SteadyClock, SystemClock};
use rampart_memory::fault_map::{Evidence, MapOrigin};
use rampart_memory::{Bytes, Clock, FRAME_BYTES, Frame, Timestamp};
use rustix::process::{Resource, getrlimit};

use crate::convert::not_moved;
use crate::reporting::published::Published;

use super::chunks::{Chunk, Chunks, Raw};
use super::injected::InjectedFrames;
use super::known_bad::KnownBadPages;
use super::test::{FrameTest, giving_way};

/// The most chunks that are made for one waiting page: each may fail its test, be moved by the kernel, or be taken for
/// another page first. So many failures in a row come from a machine without good memory.
const TURNS: usize = 16;

/// Tested memory, and the way to make more.
pub struct TestedFramePool {
    vault: &'static Vault,
    settings: FrameSettings,
    test: FrameTest,
    clock: SteadyClock,
    shared: &'static Published,
    pagemap: Option<Pagemap>,
    chunks: Mutex<Chunks>,
    injected: Option<Mutex<InjectedFrames>>,
    known: &'static KnownBadPages,
    tester: OnceLock<Thread>,
}

/// A step of the tester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TesterStep {
    /// It tested memory for the pool.
    Ahead,
    /// It tested memory that the program had.
    Returned,
    /// There was nothing to do.
    None,
}

impl TestedFramePool {
    /// The variable with the settings of a pool.
    pub const SETTINGS: &str = "RAMPART_GUARD_FRAMES";

    /// A pool with these settings, of [`TestedFramePool::SETTINGS`], and the faults of [`InjectedFrames::FAULTS`];
    /// `None` without settings.
    pub fn asked_for(
        (settings, faults): (Option<String>, Option<String>),
        vault: &'static Vault,
        shared: &'static Published,
        known: &'static KnownBadPages,
    ) -> Result<Option<Self>, String> {
        let Some(text) = settings else { return Ok(None) };
        let mut settings: FrameSettings = text.parse().map_err(|error| format!("{}: {error}", Self::SETTINGS))?;
        settings.spare = settings.spare.min(room());
        let injected = faults.map(|faults| InjectedFrames::asked_for(&faults)).transpose()?;
        Ok(Some(Self::new(vault, shared, known, settings, injected)))
    }

    fn new(
        vault: &'static Vault,
        shared: &'static Published,
        known: &'static KnownBadPages,
        settings: FrameSettings,
        injected: Option<InjectedFrames>,
    ) -> Self {
        let clock = SteadyClock::default();
        let chunks = usize::try_from(settings.spare.frames() / CHUNK_PAGES).unwrap_or(usize::MAX);
        // A page that waits for tested memory gets it through the pool.
        let most = chunks.max(usize::from(settings.untested == Untested::Wait));
        Self {
            vault,
            test: FrameTest::new(&settings),
            shared,
            pagemap: Pagemap::open(&Roots::default()).ok(),
            chunks: Mutex::new(Chunks::new(PoolTarget::new(most, clock.now()))),
            injected: injected.map(Mutex::new),
            known,
            tester: OnceLock::new(),
            clock,
            settings,
        }
    }

    /// The settings.
    pub const fn settings(&self) -> &FrameSettings {
        &self.settings
    }

    /// Sets the thread that is woken when something must be tested.
    pub fn set_tester(&self, thread: Thread) {
        self.tester.set(thread).expect("a pool has one tester");
    }

    fn counts(&self) -> &GuardCounts {
        self.shared.counts
    }

    fn chunks(&self) -> MutexGuard<'_, Chunks> {
        self.chunks.lock().expect("no panic with the chunks in hand")
    }

    fn wake(&self) {
        if let Some(tester) = self.tester.get() {
            tester.unpark();
        }
    }

    /// Gives the program untouched pages, on tested frames. [`FrameHistory::Same`]: no memory fits, and no page was
    /// given.
    pub fn supply(&self, span: VaultSpan) -> FrameHistory {
        let turns = match self.settings.untested {
            Untested::Wait => TURNS,
            Untested::Allow => 0,
        };
        for _ in 0..turns {
            if let Some(given) = self.give_ready(span) {
                return given;
            }
            if self.refill(|work| work()).is_err() {
                return FrameHistory::Same;
            }
        }
        self.give_ready(span).unwrap_or(FrameHistory::Same)
    }

    /// Gives ready pages, if there are any and the program has none there; `None` if nothing is ready.
    fn give_ready(&self, span: VaultSpan) -> Option<FrameHistory> {
        let mut chunks = self.chunks();
        let given = loop {
            let Some(mut chunk) = chunks.take() else {
                chunks.target.missed(span.pages());
                break None;
            };
            if !self.is_still_good(&chunk, span.pages()) {
                chunks.waiting.push(chunk.raw());
                continue;
            }
            let given = self.vault.give(Side::Program, span, &mut chunk.block, chunk.next);
            self.with_injected(|injected| injected.given(span, chunk.next_names()));
            chunk.next += span.pages();
            let tested = chunk.tested;
            if given.is_err() {
                chunks.empty.push(chunk.block);
                break Some(FrameHistory::Same);
            }
            chunks.put_back(chunk);
            break Some(FrameHistory::Tested(tested));
        };
        let short = chunks.is_short();
        drop(chunks);
        if short {
            self.wake();
        }
        given
    }

    /// Whether the next pages of a chunk are on the tested frames, and nobody found these bad since; `true` if that is
    /// unknown.
    fn is_still_good(&self, chunk: &Chunk, pages: u64) -> bool {
        let mut now = Vec::new();
        self.frames_of(&chunk.block, &mut now);
        let next = usize::try_from(chunk.next).expect("a page of a chunk");
        let used = next..next + usize::try_from(pages).expect("pages of a chunk");
        let frames = now.get(used.clone());
        chunk.frames.get(used) == frames && frames.is_none_or(|frames| self.known.among(frames).is_empty())
    }

    /// Frames of a block's pages; none if the kernel does not show them.
    fn frames_of(&self, block: &Block, frames: &mut Vec<Option<Frame>>) {
        let known = self.pagemap.as_ref().is_some_and(|pagemap| block.frames(pagemap, frames).is_ok());
        if !known {
            frames.clear();
        }
    }

    /// Copies locked pages to tested frames, which replace theirs; the old ones wait for their test.
    pub fn re_place(&self, span: VaultSpan) -> Result<FrameHistory, EngineRefusal> {
        // Taken out, so that nobody waits for the copy.
        let Some(mut chunk) = self.chunks().take() else { return Ok(FrameHistory::Same) };
        if !self.is_still_good(&chunk, span.pages()) {
            self.chunks().waiting.push(chunk.raw());
            return Ok(FrameHistory::Same);
        }
        self.copy(span, &chunk);
        let mut old = match self.vault.take(span) {
            Ok(old) => old,
            Err(error) => {
                self.chunks().waiting.push(chunk.raw());
                return Err(not_moved(error));
            }
        };
        let given = self.vault.give(Side::Vault, span, &mut chunk.block, chunk.next);
        let names = self.with_injected(|injected| {
            let names = injected.returned(span);
            injected.given(span, chunk.next_names());
            names
        });
        chunk.next += span.pages();
        if let Err(error) = given {
            self.vault.discard(Side::Vault, span).expect("pages of ours are given back");
            self.vault.give(Side::Vault, span, &mut old, 0).expect("pages go back to where they were");
            self.chunks().empty.push(chunk.block);
            return Err(not_moved(error));
        }
        let tested = chunk.tested;
        let mut chunks = self.chunks();
        chunks.put_back(chunk);
        chunks.waiting.push(Raw { block: old, names: names.unwrap_or_default() });
        Ok(FrameHistory::Tested(tested))
    }

    /// Copies pages of the vault to the next pages of a chunk.
    fn copy(&self, span: VaultSpan, chunk: &Chunk) {
        assert!(span.pages() <= chunk.left(), "a chunk has whole blocks left");
        let bytes = |pages: u64| usize::try_from(pages * FRAME_BYTES).expect("an offset in memory");
        let from = self.vault.address(Side::Vault, span.first());
        // SAFETY: the pages are in the vault, by the guard's promise to the caller, and nobody else uses them;
        // the chunk is ours, has so many pages from there on, and lies elsewhere; nobody holds references to either.
        unsafe {
            let to = chunk.block.base().add(bytes(chunk.next));
            ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), bytes(span.pages()));
        }
    }

    /// Does one due task. On a thread that nobody waits for.
    pub fn work(&self) -> TesterStep {
        let mut chunks = self.chunks();
        let (ready, now) = (chunks.count(), self.clock.now());
        chunks.target.tick(ready, now);
        let empty = std::mem::take(&mut chunks.empty);
        let returned = next_batch(&mut chunks.waiting);
        let short = chunks.is_short();
        drop(chunks);
        drop(empty);
        if !returned.is_empty() {
            self.test(returned, giving_way);
            TesterStep::Returned
        } else if short && self.refill(giving_way).is_ok_and(|all_good| all_good) {
            TesterStep::Ahead
        } else {
            TesterStep::None
        }
    }

    fn with_injected<R>(&self, use_it: impl FnOnce(&mut InjectedFrames) -> R) -> Option<R> {
        self.injected.as_ref().map(|injected| use_it(&mut injected.lock().expect("no panic with faults in hand")))
    }

    /// Makes one chunk for the pool. `false` if some of it is bad.
    fn refill(&self, how: impl FnOnce(&mut dyn FnMut())) -> Result<bool, Error> {
        let block = self.known.claim(Bytes::new(CHUNK_PAGES * FRAME_BYTES), self.vault.options().kind)?;
        let names = self.with_injected(|injected| injected.name(CHUNK_PAGES)).unwrap_or_default();
        Ok(self.test(vec![Raw { block, names }], how))
    }

    /// Tests memory and sorts it. Returns whether all of it is good.
    fn test(&self, raw: Vec<Raw>, how: impl FnOnce(&mut dyn FnMut())) -> bool {
        let (tested, began) = (self.clock.now(), Instant::now());
        let (mut blocks, names): (Vec<_>, Vec<_>) = raw.into_iter().map(|raw| (raw.block, raw.names)).unzip();
        let before: Vec<_> = blocks.iter().map(|block| self.frames_now(block)).collect();
        // Others read evidence, so its time is that of the calendar.
        let (mut bad, at) = (BTreeMap::new(), SystemClock.now());
        how(&mut || bad = self.test.run(&mut blocks, at));
        let pages: u64 = blocks.iter().map(Block::pages).sum();
        self.counts().add(Counter::Tested, pages);
        self.counts().add_time(Counter::TestNanos, began.elapsed());
        let mut all_good = true;
        let bad = by_block(bad, blocks.iter().map(Block::pages));
        for (((mut block, names), frames), bad) in blocks.into_iter().zip(names).zip(before).zip(bad) {
            let mut failed: BTreeMap<u64, Why> =
                bad.into_iter().map(|(page, seen)| (page, Why::Failed(MapOrigin::Real, seen.into()))).collect();
            self.emulate(&mut block, &names, &frames, at, &mut failed);
            failed.extend(self.known.among(&frames).into_iter().map(|page| (page, Why::Known)));
            if !failed.is_empty() {
                all_good = false;
                self.retire(block, &frames, &failed);
            } else if self.frames_now(&block) == frames {
                self.chunks().add(Chunk { block, names, next: 0, tested, frames });
            } else {
                self.chunks().waiting.push(Raw { block, names });
            }
        }
        all_good
    }

    /// Tests the pages of a block with injected faults once more.
    fn emulate(
        &self,
        block: &mut Block,
        names: &[u64],
        frames: &[Option<Frame>],
        at: Timestamp,
        failed: &mut BTreeMap<u64, Why>,
    ) {
        for (page, &name) in (0..).zip(names) {
            let frame = frame_at(frames, page);
            let injected = self.with_injected(|injected| (injected.faults(name, frame), injected.seed(name)));
            let Some((faults, seed)) = injected.filter(|(faults, _)| !faults.is_empty()) else { continue };
            if let Some(seen) = self.test.run_emulated(block, page, (faults, seed), at) {
                failed.entry(page).or_insert(Why::Failed(MapOrigin::Emulated, seen.into()));
            }
        }
    }

    fn frames_now(&self, block: &Block) -> Vec<Option<Frame>> {
        let mut frames = Vec::new();
        self.frames_of(block, &mut frames);
        frames
    }

    /// Reports the frames that failed, keeps their pages and those of known bad frames, and gives the others back.
    fn retire(&self, block: Block, frames: &[Option<Frame>], bad: &BTreeMap<u64, Why>) {
        for (&page, why) in bad {
            let frame = frame_at(frames, page);
            match why {
                Why::Known => self.counts().add(Counter::Avoided, 1),
                // In this order: the process may end at any moment, and counted frames have been reported.
                Why::Failed(origin, seen) => {
                    self.shared.failed(frame, *origin, seen);
                    self.counts().add(Counter::Retired, 1);
                }
            }
        }
        let pages: Vec<u64> = bad.keys().copied().collect();
        let kept = self.known.keep(block, &pages, &really_failed(frames, bad));
        self.chunks().retired.extend(kept);
    }
}

/// The most memory that may be ready here.
fn room() -> Bytes {
    let group = MemoryState::read(&Roots::default()).ok().and_then(|state| state.cgroup);
    room_within(getrlimit(Resource::As).current, group.map(|group| group.headroom()))
}

/// A part of the process' address limit, and of the rest of its control group; without either there is no limit.
fn room_within(addresses: Option<u64>, group: Option<Bytes>) -> Bytes {
    let addresses = addresses.map(|limit| Bytes::new(limit / 64));
    let group = group.map(|rest| Bytes::new(rest.get() / 16));
    addresses.into_iter().chain(group).min().unwrap_or(Bytes::new(u64::MAX))
}

/// The frame of a page of a block, if the kernel shows it.
fn frame_at(frames: &[Option<Frame>], page: u64) -> Option<Frame> {
    usize::try_from(page).ok().and_then(|page| *frames.get(page)?)
}

/// The frames that failed a test themselves: an emulated fault is none of the memory's.
fn really_failed(frames: &[Option<Frame>], bad: &BTreeMap<u64, Why>) -> BTreeSet<Frame> {
    let is_real = |why: &Why| matches!(why, Why::Failed(MapOrigin::Real, _));
    bad.iter().filter(|(_, why)| is_real(why)).filter_map(|(&page, _)| frame_at(frames, page)).collect()
}

/// Why a frame must not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    /// It failed its test, with this evidence.
    Failed(MapOrigin, Box<Evidence>),
    /// It is on the list of known bad frames.
    Known,
}

/// What was found in pages, counted through blocks of so many pages, for each block, whose pages count from 0.
fn by_block<V>(mut found: BTreeMap<u64, V>, pages: impl Iterator<Item = u64>) -> Vec<BTreeMap<u64, V>> {
    let mut first = 0;
    let of_block = |pages: u64| {
        let rest = found.split_off(&(first + pages));
        let of_block =
            std::mem::replace(&mut found, rest).into_iter().map(|(page, seen)| (page - first, seen)).collect();
        first += pages;
        of_block
    };
    pages.map(of_block).collect()
}

/// Removes memory from a list until it makes up a chunk.
fn next_batch(waiting: &mut Vec<Raw>) -> Vec<Raw> {
    let mut pages = 0;
    let enough = waiting.iter().rev().take_while(|raw| {
        let fits = pages < CHUNK_PAGES;
        pages += raw.block.pages();
        fits
    });
    let from = waiting.len() - enough.count();
    waiting.split_off(from)
}

#[cfg(test)]
mod tests;
