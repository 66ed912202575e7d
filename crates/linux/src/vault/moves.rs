//! Moves of pages: into the vault, out of it, and from their sources.

#![expect(unsafe_code, reason = "pages are moved between ranges that are ours")]

use std::ptr::NonNull;

use rampart_memory::{Bytes, FRAME_BYTES};
use rustix::io::Errno;
use rustix::mm::Advice;

use super::{HUGE_PAGES, Side, Tracking, Vault, VaultSpan, guarded};
use crate::userfaultfd::{Area, MoveError, MoveRefusal, PageFilter, PageRun, PageState, Wake};
use crate::{Block, Error, PAGE_BYTES, PageKind, Pinning};

/// The source of zero pages.
#[repr(align(4096))]
struct Zeros([u8; PAGE_BYTES]);

static ZEROS: Zeros = Zeros([0; PAGE_BYTES]);

/// The fate of adjacent pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They are on the other side now.
    Moved {
        /// Whether they were written since [`Vault::protect_written`], or never protected, at the look-up just before.
        written: bool,
    },
    /// They were on neither side, or have been on the other side for long.
    Hole,
    /// They stay in their place: pinned for a device, or shared since a fork.
    Busy,
    /// They are on both sides, which is our own bug; they stay.
    Occupied,
    /// They have no content any more, by [`Vault::poison`] or because the hardware reported an error that the kernel
    /// could not correct; they stay.
    Poisoned,
}

/// The number of pages with each [`Fate`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveCounts {
    /// Moved, and written.
    pub written: u64,
    /// Moved, and not written.
    pub clean: u64,
    /// Absent.
    pub holes: u64,
    /// Pinned or shared.
    pub busy: u64,
    /// On both sides.
    pub occupied: u64,
    /// Without content.
    pub poisoned: u64,
}

impl MoveCounts {
    fn count(&mut self, span: VaultSpan, fate: Fate) {
        let count = match fate {
            Fate::Moved { written: true } => &mut self.written,
            Fate::Moved { written: false } => &mut self.clean,
            Fate::Hole => &mut self.holes,
            Fate::Busy => &mut self.busy,
            Fate::Occupied => &mut self.occupied,
            Fate::Poisoned => &mut self.poisoned,
        };
        *count += span.pages();
    }

    /// Pages that moved.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.written + self.clean
    }
}

impl Vault {
    /// Moves those of the pages to the program that are in the vault and can move, and reports the fate of each. For
    /// spans with holes; one request more than [`Vault::unlock`].
    ///
    /// # Errors
    /// [`MoveRefusal::Kernel`] if the kernel refuses altogether.
    pub fn unlock_present(
        &self,
        span: VaultSpan,
        wake: Wake,
        each: impl FnMut(VaultSpan, Fate),
    ) -> Result<MoveCounts, MoveError> {
        self.carry(Side::Vault, span, wake, each)
    }

    /// Moves those of the program's pages to the vault that are present and can move, and reports the fate of each, by
    /// ascending page. Moved pages are ours alone from the call on.
    ///
    /// Nobody waits in the vault, so nobody is woken.
    ///
    /// # Errors
    /// [`MoveRefusal::Kernel`] if the kernel refuses altogether.
    pub fn lock(&self, span: VaultSpan, each: impl FnMut(VaultSpan, Fate)) -> Result<MoveCounts, MoveError> {
        self.carry(Side::Program, span, Wake::Later, each)
    }

    fn carry(
        &self,
        from: Side,
        span: VaultSpan,
        wake: Wake,
        mut each: impl FnMut(VaultSpan, Fate),
    ) -> Result<MoveCounts, MoveError> {
        let mut tally = MoveCounts::default();
        let mut report = |span, fate| {
            tally.count(span, fate);
            each(span, fate);
        };
        let mut rest = Some(span);
        for run in self.scan().runs(self.area(from, span), PageFilter::Present) {
            let run = run.map_err(kernel)?;
            let found = self.span_of(from, run);
            VaultSpan::come_to(&mut rest, found).into_iter().for_each(|hole| report(hole, Fate::Hole));
            self.carry_run(from, found, run.state, wake, &mut report)?;
        }
        rest.into_iter().for_each(|hole| report(hole, Fate::Hole));
        Ok(tally)
    }

    /// Moves present pages, around those that refuse.
    fn carry_run(
        &self,
        from: Side,
        span: VaultSpan,
        state: PageState,
        wake: Wake,
        report: &mut impl FnMut(VaultSpan, Fate),
    ) -> Result<(), MoveError> {
        let to = if from == Side::Program { Side::Vault } else { Side::Program };
        let mut rest = Some(span);
        while let Some(span) = rest {
            let _mlocked = self.mlocked();
            // SAFETY: both ranges are our own, and are reached by raw pointers only.
            let moved =
                unsafe { self.userfaultfd().move_pages(self.area(from, span).start, self.area(to, span), wake) };
            let (arrived, refused) = match moved {
                Ok(()) => (Some(span), None),
                Err(MoveError { moved, refusal }) => {
                    let (arrived, refused) = span.split(span.first() + moved.frames());
                    (arrived, refused.map(|refused| (refused, refusal)))
                }
            };
            arrived.into_iter().for_each(|arrived| report(arrived, Fate::Moved { written: state.written }));
            let Some((refused, refusal)) = refused else { return Ok(()) };
            // One entry of the page table stands for a whole huge page, and so does one refusal.
            let next = if state.huge { (refused.first() / HUGE_PAGES + 1) * HUGE_PAGES } else { refused.first() + 1 };
            let (refused, behind) = refused.split(next);
            let fate = match refusal {
                MoveRefusal::Busy => Fate::Busy,
                MoveRefusal::Occupied => Fate::Occupied,
                MoveRefusal::Missing => Fate::Hole,
                MoveRefusal::Poisoned => Fate::Poisoned,
                other => return Err(MoveError { moved: Bytes::ZERO, refusal: other }),
            };
            refused.into_iter().for_each(|refused| report(refused, fate));
            rest = behind;
        }
        Ok(())
    }

    /// Gives zero pages, with the kernel's frames, to the program where it never touched any. Threads that wait for
    /// them go on after [`Vault::wake`]. Huge pages where `span` has whole ones, the vault is of [`PageKind::Huge`],
    /// and the kernel has some.
    ///
    /// # Errors
    /// [`MoveRefusal::Occupied`] at a page that the program has, [`MoveRefusal::Kernel`] if the kernel is out of
    /// memory.
    pub fn populate(&self, span: VaultSpan) -> Result<(), MoveError> {
        let huge = self.options.kind == PageKind::Huge;
        for piece in span.by_huge_page() {
            let result = if huge && piece.is_huge() {
                self.populate_huge(piece)
            } else {
                self.populate_base(piece, Wake::Later)
            };
            result.map_err(behind(span, piece))?;
        }
        Ok(())
    }

    /// Lets the kernel make a huge page where no faults are ours, and moves it.
    fn populate_huge(&self, span: VaultSpan) -> Result<(), MoveError> {
        let (_mlocked, fresh) = (self.mlocked(), self.fresh());
        let whole = 0..fresh.bytes();
        fresh.advise(whole.clone(), Advice::LinuxPopulateWrite).map_err(kernel)?;
        let to = self.area(Side::Program, span);
        // SAFETY: both ranges are our own, and are reached by raw pointers only.
        let moved = unsafe { self.userfaultfd().move_pages(fresh.base(), to, Wake::Later) };
        if moved.is_err() {
            // A page that did not move must not wait here with its memory; a failure of this too leaves only zeros.
            let _ = fresh.advise(whole, Advice::LinuxDontNeed);
        }
        moved
    }

    pub(super) fn populate_base(&self, span: VaultSpan, wake: Wake) -> Result<(), MoveError> {
        for page in span.numbers() {
            let to = self.area(Side::Program, VaultSpan::page(page).expect("a page of this vault"));
            // SAFETY: the source is a page of zeros that nobody writes to; the destination is our own range, which is
            // reached by raw pointers only.
            unsafe { self.userfaultfd().copy(NonNull::from(&ZEROS.0).cast(), to, wake) }.map_err(|errno| {
                MoveError { moved: Bytes::new((page - span.first()) * FRAME_BYTES), refusal: errno.into() }
            })?;
        }
        Ok(())
    }

    /// Gives pages of a block, with their frames, to one side without pages. Threads that wait for them go on after
    /// [`Vault::wake`]. The block's pages are as after [`Block::discard`].
    ///
    /// A huge page moves whole only where `span` and the pages of the block are whole ones; parts of one would lose the
    /// frames of zero pages, and are refused. So blocks for pages of 4 KiB are of [`PageKind::Base`].
    ///
    /// # Errors
    /// The progress and the refusal: [`MoveRefusal::Busy`] from a pinned block, [`MoveRefusal::Splits`] for a part of a
    /// huge page, [`MoveRefusal::Occupied`] where a page is.
    ///
    /// # Panics
    /// If the block has not as many pages from `page` on.
    pub fn give(&self, side: Side, span: VaultSpan, block: &mut Block, page: u64) -> Result<(), MoveError> {
        let refuse = |refusal| Err(MoveError { moved: Bytes::ZERO, refusal });
        let end = page.checked_add(span.pages());
        assert!(end.is_some_and(|end| end <= block.pages()), "a block gives pages that it has");
        if block.pinning() != Pinning::None {
            return refuse(MoveRefusal::Busy);
        }
        if block.kind() != PageKind::Base && !(span.is_huge() && page.is_multiple_of(HUGE_PAGES)) {
            return refuse(MoveRefusal::Splits);
        }
        let offset = usize::try_from(page * FRAME_BYTES).expect("an offset in memory");
        // SAFETY: the sum lies in the block, as just asserted.
        let from = unsafe { block.base().add(offset) };
        let (to, mlocked) = (self.area(side, span), self.mlocked());
        // SAFETY: the block is lent to us, the range is our own, and both are reached by raw pointers only.
        unsafe {
            mlocked.make_alike(Area { start: from, bytes: to.bytes });
            self.userfaultfd().move_pages(from, to, Wake::Later)
        }
    }

    /// Makes pages that are shared with a child process ours alone, so that they move again: the kernel copies those
    /// that are still shared to other frames, which were not tested. For other pages it changes nothing, but they count
    /// as written.
    ///
    /// Every page is shared after a fork, and a child that ends or runs another program does not change that: a move is
    /// refused until the page is written to.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel is out of memory.
    pub fn unshare(&self, side: Side, span: VaultSpan) -> Result<(), Error> {
        if side == Side::Program && self.options.tracking == Tracking::Stopping {
            self.allow_writes(span)?; // what follows is a write, and would wait for us
        }
        // By runs, because populating an absent page is a fault that waits for us too.
        for run in self.scan().runs(self.area(side, span), PageFilter::Present) {
            let run = run.map_err(guarded("look up pages of"))?;
            self.advise(side, self.span_of(side, run), Advice::LinuxPopulateWrite).map_err(guarded("unshare"))?;
        }
        Ok(())
    }

    /// The pages of a run that was found on one side.
    pub(super) fn span_of(&self, side: Side, run: PageRun) -> VaultSpan {
        let page = |address: usize| self.find(address).filter(|found| found.0 == side).map(|(_, page)| page);
        page(run.start)
            .and_then(|first| VaultSpan::new(first, run.bytes as u64 / FRAME_BYTES))
            .expect("what is found in a range lies in it")
    }
}

/// A refusal of the kernel before anything moved.
pub(super) fn kernel(errno: Errno) -> MoveError {
    MoveError { moved: Bytes::ZERO, refusal: MoveRefusal::Kernel(errno) }
}

/// The progress in a span, from that in a piece of it.
pub(super) fn behind(span: VaultSpan, piece: VaultSpan) -> impl FnOnce(MoveError) -> MoveError {
    let done = (piece.first() - span.first()) * FRAME_BYTES;
    move |MoveError { moved, refusal }| MoveError { moved: Bytes::new(done + moved.get()), refusal }
}
