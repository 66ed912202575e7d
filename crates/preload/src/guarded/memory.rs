//! The memory that a heap stands on under guard, by the method that the knobs name.

use std::ops::Range;
use std::ptr::NonNull;

use rampart_codes::Pages;
use rampart_guard::accesses::Touch;
use rampart_guard::{Engine, Frames, Knobs, Method, PageIndex, Refusal, Served, Span};
use rampart_linux::protect::Protected;
use rampart_linux::userfaultfd::{Messages, Reach, Stop};
use rampart_linux::vault::{self, Side, Tracking, Vault, VaultOptions};
use rampart_linux::{Error, PageKind, Roots, Window};
use rampart_memory::{Bytes, FRAME_BYTES, Frame};

use super::engine::{VaultEngine, as_vault};
use super::frames::{Known, Pool};
use super::mailbox::Mailbox;
use super::protect::ProtectEngine;
use super::shared::Shared;

/// Huge pages and what is larger are blocks of this many pages.
const HUGE: u32 = rampart_guard::layout::MOST_PAGES;

/// One range, and how its pages are taken away. It lives as long as the process.
#[derive(Debug)]
pub enum Memory {
    /// With a vault, and faults as messages.
    Moved(Vault),
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
                Self::Protected(range, _) => range.show(windows),
            }
        }
    }

    /// In a child process, after a fork, where all is open: it is ordinary memory again. Pages that were left to the program keep
    /// the rights that it gave them.
    pub fn prepare_again(&mut self, left: &[vault::Span]) -> Result<(), Error> {
        match self {
            Self::Moved(vault) => vault.prepare_again(),
            Self::Protected(range, mailbox) => {
                mailbox.forget_all();
                range.prepare_again(left)
            }
        }
    }

    /// Opens what the kernel is asked by, in the calling thread's table of files.
    pub fn open(&self) -> Result<(), Error> {
        match self {
            Self::Moved(vault) => vault.open(&Roots::default()),
            Self::Protected(range, _) => range.open(&Roots::default()),
        }
    }

    /// The content of pages is not needed, before it is armed. `false`: it stays.
    pub fn forget(&self, first: u64, pages: u64) -> bool {
        vault::Span::new(first, pages).is_some_and(|span| match self {
            Self::Moved(vault) => vault.discard(Side::Program, span).is_ok(),
            Self::Protected(range, _) => range.discard(span).is_ok(),
        })
    }

    /// From now on the first touch of a page is a fault; `used` bytes from the start on are there already.
    pub fn arm(&self, used: Bytes, left: &[Span]) -> Result<(), Error> {
        match self {
            Self::Moved(vault) => {
                let left: Vec<_> = left.iter().map(|span| as_vault(*span)).collect();
                vault.arm_around(&left)
            }
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
            Self::Protected(..) => {
                span.numbers().for_each(each);
                Ok(())
            }
        }
    }

    pub fn base(&self) -> NonNull<u8> {
        match self {
            Self::Moved(vault) => vault.program_base(),
            Self::Protected(range, _) => range.base(),
        }
    }

    pub fn bytes(&self) -> Bytes {
        let pages = match self {
            Self::Moved(vault) => vault.pages(),
            Self::Protected(range, _) => range.pages(),
        };
        Bytes::new(pages * FRAME_BYTES)
    }

    /// The page of the program's range that an address is in.
    pub fn find(&self, address: usize) -> Option<u64> {
        match self {
            Self::Moved(vault) => vault.find(address).filter(|(side, _)| *side == Side::Program).map(|(_, page)| page),
            Self::Protected(range, _) => range.find(address),
        }
    }

    /// Where the program knows a page.
    pub fn address(&self, page: PageIndex) -> usize {
        let first = match self {
            Self::Moved(vault) => vault.address(Side::Program, page.0),
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
            Self::Moved(_) => None,
            Self::Protected(_, mailbox) => Some(mailbox),
        }
    }

    /// Waits for faults and has them served, until it is to stop.
    pub fn serve(&self, stop: &Stop, serve: impl Fn(PageIndex, Touch, Option<u32>) -> Served) {
        match self {
            Self::Moved(vault) => {
                let mut messages = Messages::default();
                while vault.next(&mut messages, stop).is_ok() {
                    for fault in vault.faults(&messages) {
                        assert_eq!(fault.side, Side::Program, "nobody reads what is not in the vault");
                        let touch = if fault.write { Touch::Write } else { Touch::Read };
                        serve(PageIndex(fault.page), touch, fault.thread);
                    }
                }
            }
            Self::Protected(_, mailbox) => loop {
                mailbox.serve(|page, touch| serve(page, touch, None));
            },
        }
    }

    /// Tested frames to put below it, if they are wished for; by permissions pages cannot be put elsewhere.
    pub fn pool(
        &'static self,
        shared: &'static Shared,
        known: &'static Known,
    ) -> Result<Option<&'static Pool>, String> {
        match self {
            Self::Moved(vault) => {
                Ok(Pool::from_environment(vault, shared, known)?.map(|pool| &*Box::leak(Box::new(pool))))
            }
            Self::Protected(..) => Ok(None),
        }
    }

    /// What the guard asks of it.
    pub fn engine(&'static self, pool: Option<&'static Pool>, known: &'static Known) -> AnyEngine {
        match self {
            Self::Moved(vault) => AnyEngine::Moved(VaultEngine::new(vault, pool, known)),
            Self::Protected(range, _) => AnyEngine::Protected(ProtectEngine::new(range)),
        }
    }
}

/// One of the engines. The guard is compiled once, and which of them it has costs it a comparison.
pub enum AnyEngine {
    Moved(VaultEngine),
    Protected(ProtectEngine),
}

impl AnyEngine {
    /// As [`VaultEngine::replace_lost`]; what is read by the kernel is not read by a thread of ours.
    pub fn replace_lost(&self, address: usize) -> Option<(PageIndex, Option<Frame>)> {
        match self {
            Self::Moved(engine) => engine.replace_lost(address),
            Self::Protected(_) => None,
        }
    }
}

impl Engine for AnyEngine {
    fn open(&self, span: Span) -> Result<(), Refusal> {
        match self {
            Self::Moved(engine) => engine.open(span),
            Self::Protected(engine) => engine.open(span),
        }
    }

    fn close(&self, span: Span) -> Result<Frames, Refusal> {
        match self {
            Self::Moved(engine) => engine.close(span),
            Self::Protected(engine) => engine.close(span),
        }
    }

    fn supply(&self, span: Span) -> Frames {
        match self {
            Self::Moved(engine) => engine.supply(span),
            Self::Protected(engine) => engine.supply(span),
        }
    }

    fn fill(&self, span: Span) -> Result<Frames, Refusal> {
        match self {
            Self::Moved(engine) => engine.fill(span),
            Self::Protected(engine) => engine.fill(span),
        }
    }

    fn renew(&self, span: Span) -> Result<Frames, Refusal> {
        match self {
            Self::Moved(engine) => engine.renew(span),
            Self::Protected(engine) => engine.renew(span),
        }
    }

    fn settle(&self, page: PageIndex) -> Result<Frames, Refusal> {
        match self {
            Self::Moved(engine) => engine.settle(page),
            Self::Protected(engine) => engine.settle(page),
        }
    }

    fn discard(&self, span: Span) {
        match self {
            Self::Moved(engine) => engine.discard(span),
            Self::Protected(engine) => engine.discard(span),
        }
    }

    fn zero(&self, span: Span) {
        match self {
            Self::Moved(engine) => engine.zero(span),
            Self::Protected(engine) => engine.zero(span),
        }
    }

    fn wake(&self, span: Span) {
        match self {
            Self::Moved(engine) => engine.wake(span),
            Self::Protected(engine) => engine.wake(span),
        }
    }

    fn most_open(&self) -> usize {
        match self {
            Self::Moved(engine) => engine.most_open(),
            Self::Protected(engine) => engine.most_open(),
        }
    }

    fn with_vault<R>(&self, span: Span, look: impl FnOnce(&mut Pages<'_>) -> R) -> R {
        match self {
            Self::Moved(engine) => engine.with_vault(span, look),
            Self::Protected(engine) => engine.with_vault(span, look),
        }
    }

    fn flip(&self, page: PageIndex, bit: u32) {
        match self {
            Self::Moved(engine) => engine.flip(page, bit),
            Self::Protected(engine) => engine.flip(page, bit),
        }
    }

    fn give_up(&self, page: PageIndex) -> bool {
        match self {
            Self::Moved(engine) => engine.give_up(page),
            Self::Protected(engine) => engine.give_up(page),
        }
    }

    fn frame(&self, page: PageIndex) -> Option<Frame> {
        match self {
            Self::Moved(engine) => engine.frame(page),
            Self::Protected(engine) => engine.frame(page),
        }
    }
}
