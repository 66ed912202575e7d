//! Transitions of pages: ordinary ones become the file's, and the file's become ordinary ones.
//!
//! Threads of the program use the pages meanwhile. None may write to a page between its copy and the moment that its
//! copy replaces it; a thread that comes too early waits, and tries again.

use std::ptr;

use rustix::io::Result;
use rustix::mm::Advice;

use super::{SharedRange, guarded, map_for_us_alone, map_zeros_over};
use crate::Error;
use crate::PAGE_BYTES;
use crate::program::replace;
use crate::span::VaultSpan;
use crate::userfaultfd::{Modes, Wake};

/// Pages that become ordinary at once: 64 MiB, which are in memory twice meanwhile. Each time adds a mapping to those
/// that the kernel allows.
const AT_ONCE: u64 = 1 << 14;

impl SharedRange {
    /// Ordinary pages, in one piece, become the file's; afterwards they may be in the program's page table or not.
    /// Waiting threads are not woken.
    pub(super) fn join(&self, span: VaultSpan) -> Result<()> {
        let area = self.program.area(span);
        let files = self.files();
        // From here on a thread that touches an absent page waits, and so does one that writes to a present page.
        self.register(area, Modes::MISSING.union(Modes::WRITE_PROTECT))?;
        let joined = self.copy_to_file(span).and_then(|()| {
            // SAFETY: the pages are our range's or a window's; what they hold was copied, and nobody wrote to one
            // since.
            unsafe { map_for_us_alone(area, &files.memory, span.offset().get()) }
        });
        if let Err(errno) = joined {
            // Threads that wait to write go on; if this fails too, nothing can be done.
            let _ = files.userfaultfd.allow_writes(area, Wake::Now);
            self.punch(span);
            return Err(errno);
        }
        self.of_file.set(span, true);
        self.register(area, self.of_file_modes())
    }

    fn copy_to_file(&self, span: VaultSpan) -> Result<()> {
        self.files().userfaultfd.protect(self.program.area(span))?;
        if self.is_huge() {
            // Otherwise a touch of the second mapping would be a signal where the pool is empty.
            self.populate(span)?;
        }
        self.each_present(span, |run| {
            for page in run.numbers() {
                let mut content = [0_u64; PAGE_BYTES / 8];
                // SAFETY: the page is readable memory of the program's, which nobody writes to; what lies behind is
                // ours alone.
                unsafe {
                    ptr::copy_nonoverlapping(self.address(page).as_ptr().cast(), &raw mut content, 1);
                    if content.iter().any(|&word| word != 0) {
                        ptr::copy_nonoverlapping(&raw const content, self.behind(page).as_ptr().cast(), 1);
                    }
                }
            }
            Ok(())
        })
    }

    /// Makes pages ordinary for good. They are the program's then, and all of them are present; those in one piece are
    /// one mapping of the kernel's, as mremap(2) requires.
    ///
    /// # Errors
    /// [`Error::Guarded`] if the kernel refuses, as without memory; some of the pages may be ordinary then.
    pub fn leave(&self, span: VaultSpan) -> std::result::Result<(), Error> {
        let _split = self.is_split();
        self.program.pieces(span).try_for_each(|piece| self.leave_piece(piece)).map_err(guarded("make ordinary"))
    }

    fn leave_piece(&self, piece: VaultSpan) -> Result<()> {
        let ordinary = self.of_file.runs(piece).filter(|(_, is_of_file)| !is_of_file);
        // A page that cannot be the file's, as with an empty pool of huge pages, stays ordinary, and a mapping of its
        // own.
        ordinary.map(|(run, _)| run).all(|run| self.join(run).is_ok());
        let of_file = self.of_file.runs(piece).filter(|(_, is_of_file)| *is_of_file);
        of_file.map(|(run, _)| run).try_for_each(|run| self.make_ordinary(run))
    }

    /// Pages of the file without content, in one piece, become ordinary. A thread that touches one meanwhile finds
    /// zeros, as it should.
    pub(super) fn abandon(&self, span: VaultSpan) -> Result<()> {
        let area = self.program.area(span);
        self.punch(span);
        // SAFETY: the pages are our range's or a window's, which are reached by raw pointers or by those whom faults
        // stop.
        unsafe { map_zeros_over(area) }?;
        self.of_file.set(span, false);
        self.register(area, Modes::MISSING)
    }

    /// Makes all pages ordinary, and keeps them so until [`SharedRange::unsplit`]: a fork needs this.
    ///
    /// # Errors
    /// As for [`SharedRange::leave`].
    pub fn split(&self) -> std::result::Result<(), Error> {
        let mut split = self.split.write().expect("no panic");
        *split = true;
        let mut rest = VaultSpan::new(0, self.of_file.reach());
        while let Some(span) = rest {
            let (part, behind) = span.split(span.first() + AT_ONCE);
            rest = behind;
            let of_file = part.into_iter().flat_map(|part| self.runs(part)).filter(|(_, is_of_file)| *is_of_file);
            for (run, _) in of_file {
                self.make_ordinary(run).map_err(guarded("make ordinary"))?;
            }
        }
        Ok(())
    }

    /// Ends [`SharedRange::split`] in the process that called it.
    pub fn unsplit(&self) {
        *self.split.write().expect("no panic") = false;
    }

    /// Pages of the file, in one piece, become ordinary, and threads that wait for them go on.
    fn make_ordinary(&self, span: VaultSpan) -> Result<()> {
        let area = self.program.area(span);
        // From here on a thread that touches one waits.
        self.take(span)?;
        // SAFETY: the pages are our range's or a window's, and nobody has one of them just now; the source is ours
        // alone, and as long.
        unsafe { replace(area, self.behind(span.first()), Advice::LinuxNoHugepage) }?;
        self.of_file.set(span, false);
        self.punch(span);
        // A page that is given back later, and touched again, must be noticed.
        self.register(area, Modes::MISSING)?;
        self.files().userfaultfd.wake(area)
    }
}
