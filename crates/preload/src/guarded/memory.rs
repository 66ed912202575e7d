//! The memory that a heap stands on under guard, by the method that the knobs name.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use rampart_guard::accesses::Touch;
use rampart_guard::{Knobs, Method, PageIndex, Served, Span};
use rampart_linux::protect::Protected;
use rampart_linux::shared::{SharedRange, has_huge_pages};
use rampart_linux::userfaultfd::{Cause, Messages, Reach, Stop, Waited};
use rampart_linux::vault::{self, PageFault, Side, Tracking, Vault, VaultOptions};
use rampart_linux::{Error, PageKind, Roots, Window};
use rampart_memory::{Bytes, FRAME_BYTES};

use super::any::AnyEngine;
use super::engine::{VaultEngine, as_vault};
use super::frames::{Known, Pool};
use super::mailbox::Mailbox;
use super::minor::MinorEngine;
use super::protect::ProtectEngine;
use super::shared::Shared;
use super::suspects::Suspects;

/// Huge pages and what is larger are blocks of this many pages.
const HUGE: u32 = rampart_guard::layout::MOST_PAGES;

/// One range, and how its pages are taken away. It lives as long as the process.
#[derive(Debug)]
pub enum Memory {
    /// With a vault, and faults as messages.
    Moved(Vault),
    /// In a file that is mapped twice, and faults as messages.
    Shared(SharedRange),
    /// By permissions, and faults as signals.
    Protected(Protected, Box<Mailbox>),
}

impl Memory {
    /// Reserves the range. For now it is ordinary memory.
    pub fn prepare(bytes: Bytes, knobs: &Knobs) -> Result<Self, Error> {
        let kind = if knobs.block_pages == HUGE { PageKind::Huge } else { PageKind::Base };
        match knobs.method {
            Method::Move => {
                let options = VaultOptions { kind, tracking: Tracking::Off, least: Reach::Everything };
                Vault::prepare(bytes, options).map(Self::Moved)
            }
            Method::Minor => {
                // The pool's pages are locked whole.
                let from_pool = knobs.unit_pages == HUGE && has_huge_pages(&Roots::default());
                SharedRange::prepare(bytes, if from_pool { PageKind::HugeTlb } else { PageKind::Base })
                    .map(Self::Shared)
            }
            Method::Mprotect => {
                let range = Protected::prepare(bytes, kind, &Roots::default())?;
                Ok(Self::Protected(range, Box::new(Mailbox::new())))
            }
        }
    }

    /// Takes memory that the program has elsewhere for pages of the range, before it is armed.
    ///
    /// # Safety
    /// As of [`Vault::show`].
    pub unsafe fn show(&self, windows: &[Window]) -> &[Window] {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Moved(vault) => vault.show(windows),
                Self::Shared(range) => range.show(windows),
                Self::Protected(range, _) => range.show(windows),
            }
        }
    }

    /// In a child process, after a fork, where all is open: it is ordinary memory again. Pages that were left to the program keep
    /// the rights that it gave them.
    pub fn prepare_again(&mut self, left: &[vault::Span]) -> Result<(), Error> {
        match self {
            Self::Moved(vault) => vault.prepare_again(),
            Self::Shared(range) => range.prepare_again(),
            Self::Protected(range, mailbox) => {
                mailbox.forget_all();
                range.prepare_again(left)
            }
        }
    }

    /// In a child process where all is open and no guard begins: it is ordinary memory, with room for more.
    pub fn stay_alone(&self, left: &[vault::Span]) -> Result<(), Error> {
        match self {
            // What was never used is memory that no userfaultfd knows of in this process.
            Self::Moved(_) | Self::Shared(_) => Ok(()),
            Self::Protected(range, _) => range.unlock_first(range.pages(), left),
        }
    }

    /// Whether the kernel counts what is locked as data of the process: private memory that may be written.
    pub fn locks_data(&self) -> bool {
        matches!(self, Self::Moved(_))
    }

    /// After all was opened: what is locked by permissions, or of a file, is ordinary memory, of the first `used` bytes even
    /// what the program never touched.
    pub fn let_go(&self, used: Bytes, left: &[vault::Span]) -> Result<(), Error> {
        match self {
            Self::Moved(_) => Ok(()),
            Self::Shared(range) => range.split(),
            Self::Protected(range, _) => range.unlock_first(used.frames(), left),
        }
    }

    /// Where pages are locked by permissions: gives the program pages that it never had. `false`: the kernel does not.
    pub fn give(&self, first: u64, pages: u64) -> bool {
        match self {
            Self::Moved(_) | Self::Shared(_) => true,
            Self::Protected(range, _) => vault::Span::new(first, pages).is_some_and(|span| range.unlock(span).is_ok()),
        }
    }

    /// Opens what the kernel is asked by, in the calling thread's table of files.
    pub fn open(&self) -> Result<(), Error> {
        match self {
            Self::Moved(vault) => vault.open(&Roots::default()),
            Self::Shared(range) => range.open(&Roots::default()),
            Self::Protected(range, _) => range.open(&Roots::default()),
        }
    }

    /// The content of pages is not needed, before it is armed. `false`: it stays.
    pub fn forget(&self, first: u64, pages: u64) -> bool {
        vault::Span::new(first, pages).is_some_and(|span| match self {
            Self::Moved(vault) => vault.discard(Side::Program, span).is_ok(),
            Self::Shared(range) => range.discard(span).is_ok(),
            Self::Protected(range, _) => range.discard(span).is_ok(),
        })
    }

    /// From now on core dumps have these pages.
    pub fn dump(&self, first: u64, pages: u64) {
        // What the kernel refuses is missing in a core dump, which is no reason to fail.
        let _ = vault::Span::new(first, pages).map(|span| match self {
            Self::Moved(vault) => vault.dump(span),
            Self::Shared(range) => range.dump(span),
            Self::Protected(range, _) => range.dump(span),
        });
    }

    /// From now on the first touch of a page is a fault; `used` bytes from the start on are there already.
    pub fn arm(&self, used: Bytes, left: &[Span]) -> Result<(), Error> {
        let left: Vec<_> = left.iter().map(|span| as_vault(*span)).collect();
        match self {
            Self::Moved(vault) => vault.arm_around(&left),
            Self::Shared(range) => range.arm(&left),
            Self::Protected(range, _) => {
                let rest = vault::Span::new(used.frames(), range.pages() - used.frames());
                rest.map_or(Ok(()), |rest| range.lock(rest))
            }
        }
    }

    /// Calls `each` for the pages that were used before it was armed, of the first `used` bytes; ascending, and maybe for
    /// some that were not.
    pub fn each_used(&self, used: Bytes, mut each: impl FnMut(u64)) -> Result<(), Error> {
        let Some(span) = vault::Span::new(0, used.frames()) else { return Ok(()) };
        match self {
            Self::Moved(vault) => vault.present(Side::Program, span, |run, _| run.numbers().for_each(&mut each)),
            Self::Shared(range) => range.present(span, |run| run.numbers().for_each(&mut each)),
            Self::Protected(..) => {
                span.numbers().for_each(each);
                Ok(())
            }
        }
    }

    pub fn base(&self) -> NonNull<u8> {
        match self {
            Self::Moved(vault) => vault.program_base(),
            Self::Shared(range) => range.base(),
            Self::Protected(range, _) => range.base(),
        }
    }

    pub fn bytes(&self) -> Bytes {
        let pages = match self {
            Self::Moved(vault) => vault.pages(),
            Self::Shared(range) => range.pages(),
            Self::Protected(range, _) => range.pages(),
        };
        Bytes::new(pages * FRAME_BYTES)
    }

    /// The page of the program's range that an address is in.
    pub fn find(&self, address: usize) -> Option<u64> {
        match self {
            Self::Moved(vault) => vault.find(address).filter(|(side, _)| *side == Side::Program).map(|(_, page)| page),
            Self::Shared(range) => range.find(address),
            Self::Protected(range, _) => range.find(address),
        }
    }

    /// Where the program knows a page.
    pub fn address(&self, page: PageIndex) -> usize {
        let first = match self {
            Self::Moved(vault) => vault.address(Side::Program, page.0),
            Self::Shared(range) => range.address(page.0),
            Self::Protected(range, _) => range.address(page.0),
        };
        first.addr().get()
    }

    /// The pages at these addresses, as far as they are of the program's range.
    pub fn pages_at(&self, addresses: Range<usize>) -> Option<vault::Span> {
        let first = self.find(addresses.start)?;
        vault::Span::new(first, addresses.len() as u64 / FRAME_BYTES)
    }

    /// Where faults are signals: how a signal handler has them served.
    pub fn mailbox(&self) -> Option<&Mailbox> {
        match self {
            Self::Moved(_) | Self::Shared(_) => None,
            Self::Protected(_, mailbox) => Some(mailbox),
        }
    }

    /// Whether a page that a device uses is locked like any other.
    pub fn misses_devices(&self) -> bool {
        !matches!(self, Self::Moved(_))
    }

    /// Whether a locked page is not where the program knows it, for whoever reads its memory without a fault.
    pub fn hides_what_is_locked(&self) -> bool {
        !matches!(self, Self::Protected(..))
    }

    /// Before a fork, after all was opened: a child gets a copy of everything. Ends with [`Memory::unsplit`].
    pub fn split(&self) -> Result<(), Error> {
        match self {
            Self::Shared(range) => range.split(),
            Self::Moved(_) | Self::Protected(..) => Ok(()),
        }
    }

    /// In the parent, after the fork.
    pub fn unsplit(&self) {
        match self {
            Self::Shared(range) => range.unsplit(),
            Self::Moved(_) | Self::Protected(..) => {}
        }
    }

    /// From now on a child that nobody announces finds no page that can be locked, and ends where it touches one; but for pages that the
    /// program decides about.
    pub fn keep_from_children(&self, odd: &[vault::Span]) -> Result<(), Error> {
        match self {
            Self::Moved(vault) => vault.keep_from_children(odd),
            // Pages of the file are kept from them as long as they are of the file; a locked page without rights ends a child too.
            Self::Shared(_) | Self::Protected(..) => Ok(()),
        }
    }

    /// Ends [`Memory::keep_from_children`].
    pub fn give_to_children(&self, odd: &[vault::Span]) -> Result<(), Error> {
        match self {
            Self::Moved(vault) => vault.give_to_children(odd),
            Self::Shared(_) | Self::Protected(..) => Ok(()),
        }
    }

    /// Begins [`Memory::keep_from_children`] again for pages that the program decided about.
    pub fn take_from_children(&self, span: Span) -> Result<(), Error> {
        match self {
            Self::Moved(vault) => vault.take_from_children(as_vault(span)),
            Self::Shared(_) | Self::Protected(..) => Ok(()),
        }
    }

    /// Keeps all of it in RAM, as mlockall(2) does: each page from its first touch on.
    pub fn mlock(&self) -> Result<(), Error> {
        match self {
            Self::Moved(vault) => vault.mlock(),
            Self::Shared(range) => range.mlock(),
            Self::Protected(range, _) => range.mlock(),
        }
    }

    /// Before all memory of the process is let go.
    pub fn munlock(&self) {
        if let Self::Moved(vault) = self {
            vault.munlock();
        }
    }

    /// Where it lies, with all that stands behind it.
    pub fn places(&self) -> Vec<Range<usize>> {
        match self {
            Self::Moved(vault) => vault.places(),
            Self::Shared(range) => range.places(),
            Self::Protected(range, _) => range.places(),
        }
    }

    /// Waits for faults and has them served, and first writes to what is watched, until it is to stop.
    ///
    /// # Errors
    /// Why no more can be served: whoever faults next would wait for ever.
    pub fn serve(
        &self,
        stop: &Stop,
        serve: impl Fn(PageIndex, Touch, Option<u32>) -> Served,
        written: impl Fn(PageIndex) -> Served,
    ) -> Result<(), Error> {
        let serve_one = |fault: PageFault| {
            assert_eq!(fault.side, Side::Program, "nobody reads what is not in the vault");
            let touch = if fault.write { Touch::Write } else { Touch::Read };
            match fault.cause {
                Cause::Protected => written(PageIndex(fault.page)),
                Cause::Missing | Cause::Minor => serve(PageIndex(fault.page), touch, fault.thread),
            };
        };
        let mut messages = Messages::default();
        match self {
            Self::Moved(vault) => {
                while vault.next(&mut messages, stop)? == Waited::Messages {
                    vault.faults(&messages).for_each(serve_one);
                }
                Ok(())
            }
            Self::Shared(range) => {
                while range.next(&mut messages, stop)? == Waited::Messages {
                    range.faults(&messages).for_each(serve_one);
                }
                Ok(())
            }
            Self::Protected(_, mailbox) => loop {
                mailbox.serve(|page, touch| serve(page, touch, None));
            },
        }
    }

    /// Tested frames to put below it, if they are wished for; only what moves can be put elsewhere.
    pub fn pool(
        &'static self,
        shared: &'static Shared,
        known: &'static Known,
    ) -> Result<Option<&'static Pool>, String> {
        match self {
            Self::Moved(vault) => {
                Ok(Pool::from_environment(vault, shared, known)?.map(|pool| &*Box::leak(Box::new(pool))))
            }
            Self::Shared(_) | Self::Protected(..) => Ok(None),
        }
    }

    /// What the guard asks of it.
    pub fn engine(
        &'static self,
        pool: Option<&'static Pool>,
        known: &'static Known,
        suspects: Arc<Suspects>,
    ) -> AnyEngine {
        match self {
            Self::Moved(vault) => AnyEngine::Moved(VaultEngine::new(vault, pool, known, suspects)),
            Self::Shared(range) => AnyEngine::Shared(MinorEngine::new(range, suspects)),
            Self::Protected(range, _) => AnyEngine::Protected(ProtectEngine::new(range, suspects)),
        }
    }
}
