//! Fake memory: two ranges in tables, a program that reads and writes by page, and errors on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use rampart_codes::{PageBits, PageData, Pages};
use rampart_memory::{Frame, Timestamp};

use crate::engine::{EngineRefusal, FrameHistory, GuardEngine, Writes};
use crate::state::layout::{PageIndex, PageSpan};

/// Where each page is, by its number.
#[derive(Debug)]
pub struct FakeEngine {
    program: Mutex<Vec<Option<PageData>>>,
    vault: Mutex<Vec<Option<PageData>>>,
    /// Pages of the program whose first write stops, and whether pages unlocked for reading are watched so.
    watched: Mutex<BTreeSet<u64>>,
    pub watches: bool,
    /// Pages that a device uses.
    pub pinned: Mutex<BTreeSet<u64>>,
    /// The most blocks that may be unlocked at once.
    pub most_open: usize,
    /// The time of the tested frames' test; `None`: there are none.
    pub tested: Mutex<Option<Timestamp>>,
    /// Whether pages refuse to move to them.
    pub refuses: Mutex<bool>,
    /// The frame of each page.
    frames: Mutex<Vec<u64>>,
    /// Frames with a bit that reads as 1 whatever is written, and how often it does so before it heals.
    pub stuck: Mutex<BTreeMap<u64, (usize, u32)>>,
    /// Frames whose pages moved away, and which were tested.
    pub tested_frames: Mutex<Vec<u64>>,
    /// The first page and the number of pages for which threads were woken, in order.
    pub woken: Mutex<Vec<(u64, u64)>>,
    /// The same of what was left to the program.
    pub left: Mutex<Vec<(u64, u64)>>,
    /// The time of the test of the frames for first uses; `None`: there are none.
    pub supplies: Mutex<Option<Timestamp>>,
}

/// The second frames of pages.
pub const SECOND_FRAMES: u64 = 0x10_000;

impl FakeEngine {
    pub fn new(pages: usize) -> Self {
        Self {
            program: Mutex::new(vec![None; pages]),
            vault: Mutex::new(vec![None; pages]),
            watched: Mutex::default(),
            watches: false,
            pinned: Mutex::default(),
            most_open: usize::MAX,
            tested: Mutex::default(),
            refuses: Mutex::default(),
            frames: Mutex::new((0x1000..).take(pages).collect()),
            stuck: Mutex::default(),
            tested_frames: Mutex::default(),
            woken: Mutex::default(),
            left: Mutex::default(),
            supplies: Mutex::default(),
        }
    }

    /// The page's present frame has a stuck bit from now on.
    pub fn stick(&self, page: u64, bit: usize) {
        let frame = self.frames.lock().unwrap()[at(page)];
        self.stuck.lock().unwrap().insert(frame, (bit, u32::MAX));
    }

    /// The read content of a page that was written with this content: its frame may have a stuck bit.
    fn as_read(&self, page: usize, data: &mut PageData) {
        let frame = self.frames.lock().unwrap()[page];
        let mut stuck = self.stuck.lock().unwrap();
        let Some((bit, times)) = stuck.get_mut(&frame).filter(|(_, times)| *times > 0) else { return };
        *times -= 1;
        let (line, word) = (*bit / 512, *bit / 64 % 8);
        data.lines[line].0[word] |= 1 << (*bit % 64);
    }

    /// The program's view of a page; `None`: it faults.
    pub fn read(&self, page: u64) -> Option<PageData> {
        let mut data = self.program.lock().unwrap()[at(page)].clone()?;
        self.as_read(at(page), &mut data);
        Some(data)
    }

    /// The program writes a page; `false`: it faults.
    pub fn write(&self, page: u64, data: PageData) -> bool {
        let mut program = self.program.lock().unwrap();
        let goes_on = program[at(page)].is_some() && !self.is_watched(page);
        if goes_on {
            program[at(page)] = Some(data);
        }
        goes_on
    }

    pub fn is_watched(&self, page: u64) -> bool {
        self.watched.lock().unwrap().contains(&page)
    }

    /// Changes a bit of a page that the program has, without a write.
    pub fn decay(&self, page: u64, bit: usize) {
        let mut program = self.program.lock().unwrap();
        program[at(page)].as_mut().expect("the program has it").flip(&PageBits::from_iter([bit]));
    }

    pub fn is_in_vault(&self, page: u64) -> bool {
        self.vault.lock().unwrap()[at(page)].is_some()
    }
}

fn at(page: u64) -> usize {
    usize::try_from(page).unwrap()
}

fn pages(span: PageSpan) -> std::ops::Range<usize> {
    at(span.first.0)..at(span.first.0 + span.count.get())
}

impl GuardEngine for FakeEngine {
    fn unlock(&self, span: PageSpan) -> Result<(), EngineRefusal> {
        let (mut program, mut vault) = (self.program.lock().unwrap(), self.vault.lock().unwrap());
        for page in pages(span) {
            assert!(program[page].is_none(), "page {page} is in one place");
            program[page] = vault[page].take();
        }
        Ok(())
    }

    fn unlock_watched(&self, span: PageSpan) -> Result<Writes, EngineRefusal> {
        self.unlock(span)?;
        if !self.watches {
            return Ok(Writes::GoOn);
        }
        self.watched.lock().unwrap().extend(pages(span).map(|page| page as u64));
        Ok(Writes::Stop)
    }

    fn settle_watched(&self, page: PageIndex) -> bool {
        self.program.lock().unwrap()[at(page.0)].is_some()
    }

    fn allow_writes(&self, span: PageSpan) {
        self.watched.lock().unwrap().retain(|page| !pages(span).contains(&at(*page)));
    }

    fn lock(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal> {
        if pages(span).any(|page| self.pinned.lock().unwrap().contains(&(page as u64))) {
            return Err(EngineRefusal::Pinned);
        }
        let (mut program, mut vault) = (self.program.lock().unwrap(), self.vault.lock().unwrap());
        for page in pages(span) {
            assert!(vault[page].is_none(), "page {page} is in one place");
            vault[page] = program[page].take();
        }
        drop((program, vault));
        self.allow_writes(span);
        Ok(FrameHistory::Same)
    }

    fn fill(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal> {
        let mut program = self.program.lock().unwrap();
        for page in pages(span) {
            program[page].get_or_insert(PageData::ZERO);
        }
        Ok(FrameHistory::Untested)
    }

    fn supply(&self, span: PageSpan) -> FrameHistory {
        let Some(tested) = *self.supplies.lock().unwrap() else { return FrameHistory::Same };
        self.fill(span).map_or(FrameHistory::Same, |_| FrameHistory::Tested(tested))
    }

    fn leave(&self, span: PageSpan) -> Result<(), EngineRefusal> {
        self.left.lock().unwrap().push((span.first.0, span.count.get()));
        Ok(())
    }

    fn re_place(&self, span: PageSpan) -> Result<FrameHistory, EngineRefusal> {
        let Some(tested) = *self.tested.lock().unwrap() else { return Ok(FrameHistory::Same) };
        if *self.refuses.lock().unwrap() {
            return Err(EngineRefusal::Pinned);
        }
        for page in pages(span) {
            let mut data = self.vault.lock().unwrap()[page].take().expect("the page is in the vault");
            self.as_read(page, &mut data);
            self.vault.lock().unwrap()[page] = Some(data);
            self.frames.lock().unwrap()[page] += SECOND_FRAMES;
        }
        Ok(FrameHistory::Tested(tested))
    }

    fn discard(&self, span: PageSpan) {
        let (mut program, mut vault) = (self.program.lock().unwrap(), self.vault.lock().unwrap());
        pages(span).for_each(|page| (program[page], vault[page]) = (None, None));
        drop((program, vault));
        self.allow_writes(span);
    }

    fn wake(&self, span: PageSpan) {
        self.woken.lock().unwrap().push((span.first.0, span.count.get()));
    }

    fn most_unlocked(&self) -> usize {
        self.most_open
    }

    fn with_vault(&self, span: PageSpan, look: &mut dyn FnMut(&mut Pages<'_>)) {
        let mut data: Vec<_> =
            pages(span).map(|page| self.vault.lock().unwrap()[page].clone().expect("it is in the vault")).collect();
        pages(span).zip(&mut data).for_each(|(page, data)| self.as_read(page, data));
        let before = data.clone();
        look(&mut Pages::from(&mut *data));
        let written = pages(span).zip(data.into_iter().zip(before)).filter(|(_, (data, before))| data != before);
        written.for_each(|(page, (data, _))| self.vault.lock().unwrap()[page] = Some(data));
    }

    fn replace(&self, page: PageIndex, content: &PageData) -> Result<(), EngineRefusal> {
        let mut frames = self.frames.lock().unwrap();
        self.tested_frames.lock().unwrap().push(frames[at(page.0)]);
        frames[at(page.0)] += SECOND_FRAMES;
        let before = self.vault.lock().unwrap()[at(page.0)].replace(content.clone());
        assert!(before.is_some(), "{page:?} is in the vault");
        Ok(())
    }

    fn flip(&self, page: PageIndex, bit: u32) {
        let mut vault = self.vault.lock().unwrap();
        vault[at(page.0)].as_mut().expect("it is in the vault").flip(&PageBits::from_iter([bit as usize]));
    }

    /// The next reading thread finds the loss.
    fn give_up(&self, page: PageIndex) -> bool {
        self.vault.lock().unwrap()[at(page.0)] = Some(PageData::ZERO);
        true
    }

    fn frame(&self, page: PageIndex) -> Option<Frame> {
        Frame::new(self.frames.lock().unwrap()[at(page.0)])
    }
}
