//! Pages are locked, unlocked, given and given back.

use std::sync::atomic::Ordering;

use rustix::io::{Errno, Result};
use rustix::mm::Advice;

use super::{SharedRange, guarded, map_for_us_alone};
use crate::Error;
use crate::span::VaultSpan;
use crate::userfaultfd::{PageFilter, Wake};

/// Whether the first write to an unlocked page stops.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    /// It stops.
    Stop,
    /// It goes on.
    GoOn,
}

impl SharedRange {
    /// Locks pages: the next touch of each is a fault. Ordinary ones become the file's.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses, as without memory for the file, or if everything is
    /// [split](SharedRange::split). Some of the pages may be locked then.
    pub fn lock(&self, span: VaultSpan) -> std::result::Result<(), Error> {
        let split = self.is_split();
        let locked = if *split { Err(Errno::BUSY) } else { self.lock_pages(span) };
        locked.map_err(guarded("lock"))
    }

    fn lock_pages(&self, span: VaultSpan) -> Result<()> {
        for (run, is_of_file) in self.runs(span) {
            if !is_of_file {
                self.join(run)?;
            }
            self.take(run)?;
            if !is_of_file {
                self.files().userfaultfd.wake(self.program.area(run))?;
            }
        }
        Ok(())
    }

    /// Unlocks pages. A page that the program has already stays.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses, as without memory for a page that was given back meanwhile.
    pub fn unlock(&self, span: VaultSpan, wake: Wake) -> std::result::Result<(), Error> {
        let _split = self.is_split();
        let of_file = self.runs(span).filter(|(_, is_of_file)| *is_of_file);
        for (run, _) in of_file {
            self.map(run, Writes::GoOn, wake).map_err(guarded("unlock"))?;
        }
        Ok(())
    }

    /// As [`SharedRange::unlock`]; also, the first write to each page sends a
    /// [`FaultCause::Protected`](crate::userfaultfd::FaultCause::Protected), and its thread waits until
    /// [`SharedRange::allow_writes`]. `false`: writes go unseen, because the kernel cannot do it, or some of the pages
    /// are ordinary, or the program had one already. Threads that wait for them go on after [`SharedRange::wake`].
    ///
    /// # Errors
    /// As for [`SharedRange::unlock`].
    pub fn unlock_watched(&self, span: VaultSpan) -> std::result::Result<bool, Error> {
        let split = self.is_split();
        let gives_watched = &self.files().gives_watched;
        if gives_watched.load(Ordering::Acquire) && self.runs(span).all(|(_, is_of_file)| is_of_file) {
            let given = self.program.pieces(span).try_for_each(|piece| self.give(piece, Writes::Stop, Wake::Later));
            match given {
                Ok(()) => return Ok(true),
                Err(Errno::INVAL) => gives_watched.store(false, Ordering::Release),
                // If it could not be given as a whole, it is given page by page below.
                Err(_) => {}
            }
        }
        drop(split);
        self.unlock(span, Wake::Later)?;
        self.allow_writes(span).map(|()| false)
    }

    /// As [`SharedRange::settle`], for a page that was unlocked watched: it stays so.
    ///
    /// # Errors
    /// As for [`SharedRange::settle`].
    pub fn settle_watched(&self, page: u64) -> std::result::Result<(), Error> {
        let _split = self.is_split();
        self.map(self.entry(page), Writes::Stop, Wake::Now).map_err(guarded("give a page of"))
    }

    /// Ends the watch of these pages: threads that wait to write go on. For a huge page, all of it.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn allow_writes(&self, span: VaultSpan) -> std::result::Result<(), Error> {
        let _split = self.is_split();
        for (run, is_of_file) in self.runs(self.entries(span)) {
            let area = self.program.area(run);
            let allowed = if is_of_file && self.files().stops_writes {
                self.files().userfaultfd.allow_writes(area, Wake::Now)
            } else {
                self.files().userfaultfd.wake(area)
            };
            allowed.map_err(guarded("allow writes to"))?;
        }
        Ok(())
    }

    /// Gives the program zero pages that it never touched. Threads that wait for them go on after
    /// [`SharedRange::wake`].
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses, as without memory.
    pub fn fill(&self, span: VaultSpan) -> std::result::Result<(), Error> {
        let split = self.is_split();
        if !*split && self.bring(span).is_ok() {
            return Ok(());
        }
        // Used meanwhile, or the process forks, or the pool of huge pages is empty.
        for (run, is_of_file) in self.runs(span) {
            let given = if is_of_file { self.abandon(run) } else { Ok(()) };
            given
                .and_then(|()| run.numbers().try_for_each(|page| self.zero(page)))
                .map_err(guarded("give pages of"))?;
        }
        Ok(())
    }

    /// Makes absent pages the file's, and gives them to the program.
    fn bring(&self, span: VaultSpan) -> Result<()> {
        self.populate(span)?;
        for (run, is_of_file) in self.runs(span) {
            if !is_of_file {
                self.each_present(run, |_| Err(Errno::EXIST))?;
                let area = self.program.area(run);
                // SAFETY: the pages are our range's or a window's; nobody has them yet, as was just seen, and nobody
                // gets one: who touches one waits for the thread that is here.
                unsafe { map_for_us_alone(area, &self.files().memory, run.offset().get()) }?;
                self.of_file.set(run, true);
                self.register(area, self.of_file_modes())?;
            }
            self.map(run, Writes::GoOn, Wake::Later)?;
        }
        Ok(())
    }

    /// A thread faulted on a page that the program should have: gives it, or zeros if there is nothing, and wakes
    /// waiting threads.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses, as without memory.
    pub fn settle(&self, page: u64) -> std::result::Result<(), Error> {
        let _split = self.is_split();
        if self.of_file.has(page) {
            return self.map(self.entry(page), Writes::GoOn, Wake::Now).map_err(guarded("give a page of"));
        }
        self.zero(page).map_err(guarded("give a page of"))
    }

    /// Gives zeros for an absent ordinary page, and wakes threads that wait for it.
    fn zero(&self, page: u64) -> Result<()> {
        let area = self.program.area(VaultSpan::page(page).expect("a page of this range"));
        // SAFETY: the page is our range's or a window's, which are reached by raw pointers or by those whom faults
        // stop.
        match unsafe { self.files().userfaultfd.zero_pages(area, Wake::Now) } {
            // It is present already, or the kernel serves its faults, because other memory of the program's is there by
            // now.
            Err(Errno::EXIST | Errno::NOENT | Errno::INVAL) => self.files().userfaultfd.wake(area),
            other => other,
        }
    }

    /// Wakes threads that wait in the program's range.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn wake(&self, span: VaultSpan) -> std::result::Result<(), Error> {
        self.program
            .pieces(span)
            .try_for_each(|piece| self.files().userfaultfd.wake(self.program.area(piece)))
            .map_err(guarded("wake threads at"))
    }

    /// Returns the frames of pages to the kernel, locked or not. They read as zeros from now on. Needs none of the open
    /// files, so any thread may call it.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses.
    pub fn discard(&self, span: VaultSpan) -> std::result::Result<(), Error> {
        let _split = self.is_split();
        for (run, is_of_file) in self.runs(span) {
            if is_of_file {
                self.punch(run);
            } else {
                self.program.advise(run, Advice::LinuxDontNeed).map_err(guarded("discard"))?;
            }
        }
        Ok(())
    }

    /// The hardware lost a locked page of the file: it gets another frame, of zeros. For a huge page, all of it does.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses, as without memory.
    pub fn replace_lost(&self, page: u64) -> std::result::Result<(), Error> {
        let entry = self.entry(page);
        let start = usize::try_from(entry.offset().get()).expect("an offset in memory");
        let bytes = usize::try_from(entry.bytes().get()).expect("pages in memory");
        let gone = self.behind.advise(start..start + bytes, Advice::LinuxRemove);
        gone.and_then(|()| self.populate(entry)).map_err(guarded("replace a lost page of"))
    }

    /// Removes pages of the file from the program's page table.
    pub(super) fn take(&self, span: VaultSpan) -> Result<()> {
        self.program.advise(span, Advice::LinuxDontNeed)
    }

    /// Removes pages from the file; if the kernel refuses, as for mlocked memory, they are written with zeros.
    pub(super) fn punch(&self, span: VaultSpan) {
        let start = usize::try_from(span.offset().get()).expect("an offset in memory");
        let bytes = usize::try_from(span.bytes().get()).expect("pages in memory");
        if self.behind.advise(start..start + bytes, Advice::LinuxRemove).is_err() {
            for word in (start..start + bytes).step_by(8) {
                // SAFETY: the word is of the mapping behind, which is writable and reached by raw pointers only.
                unsafe { self.behind.at(word).cast::<u64>().write_volatile(0) };
            }
        }
    }

    /// Puts pages of the file into the program's page table, none of which is present.
    fn give(&self, span: VaultSpan, writes: Writes, wake: Wake) -> Result<()> {
        let protected = writes == Writes::Stop;
        // SAFETY: the pages are our range's or a window's, which are reached by raw pointers or by those whom faults
        // stop.
        unsafe { self.files().userfaultfd.map_file_pages(self.program.area(span), protected, wake) }
    }

    /// As [`SharedRange::give`], but some may be present, and some may not be in the file.
    fn map(&self, span: VaultSpan, writes: Writes, wake: Wake) -> Result<()> {
        let mapped = |span| self.give(span, writes, wake);
        match mapped(span) {
            Ok(()) => return Ok(()),
            // A page is present already, or one is not in the file.
            Err(Errno::EXIST | Errno::FAULT) => {}
            Err(errno) => return Err(errno),
        }
        let mut next = span.first();
        while next < span.end() {
            let entry = self.entry(next);
            let result = match mapped(entry) {
                Err(Errno::FAULT) => self.populate(entry).and_then(|()| mapped(entry)),
                other => other,
            };
            match result {
                Ok(()) => {}
                Err(Errno::EXIST) if wake == Wake::Now => self.files().userfaultfd.wake(self.program.area(entry))?,
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            next = entry.end();
        }
        Ok(())
    }

    /// Populates pages of the file, with zeros where it has none.
    pub(super) fn populate(&self, span: VaultSpan) -> Result<()> {
        let start = usize::try_from(span.offset().get()).expect("an offset in memory");
        let bytes = usize::try_from(span.bytes().get()).expect("pages in memory");
        self.behind.advise(start..start + bytes, Advice::LinuxPopulateWrite)
    }

    /// A span in pieces of one kind each, each in one piece of memory.
    pub(super) fn runs(&self, span: VaultSpan) -> impl Iterator<Item = (VaultSpan, bool)> {
        self.program.pieces(span).flat_map(|piece| self.of_file.runs(piece))
    }

    /// Calls `each` for the runs of pages that are in the program's page table, or in swap, until it fails.
    pub(super) fn each_present(&self, span: VaultSpan, mut each: impl FnMut(VaultSpan) -> Result<()>) -> Result<()> {
        for piece in self.program.pieces(span) {
            for run in self.files().scan.runs(self.program.area(piece), PageFilter::Present) {
                let run = run?;
                let first = self.find(run.start).expect("what is found in a range lies in it");
                each(VaultSpan::new(first, run.bytes as u64 / rampart_memory::FRAME_BYTES).expect("a run has pages"))?;
            }
        }
        Ok(())
    }
}
