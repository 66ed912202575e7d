//! What the tests share: vaults, bytes behind raw pointers, and a handler of faults.

#![expect(unsafe_code, reason = "pages of a vault are read and written by raw pointers")]

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLockReadGuard};
use std::thread;

use rampart_memory::{Bytes, FRAME_BYTES, Frame};
use rampart_skips::{Feature, granted};

use super::super::{PageFault, Side, Tracking, Vault, VaultOptions, VaultSpan};
use crate::userfaultfd::FORKS;
use crate::userfaultfd::{FaultCause, Messages, MoveRefusal, Reach, Stop, Waited, Wake};
use crate::{Error, PAGE_BYTES, PageKind, Pagemap, Roots};

pub(super) const WORDS: usize = PAGE_BYTES / 8;

/// A vault that no other test's fork makes busy: a fork shares the pages of all of the process.
pub(super) struct Guarded {
    vault: Vault,
    /// Held by whoever moves pages, where more than one thread does.
    pub(super) order: Mutex<()>,
    _no_fork: RwLockReadGuard<'static, ()>,
}

impl Deref for Guarded {
    type Target = Vault;

    fn deref(&self) -> &Vault {
        &self.vault
    }
}

/// A vault; `None` where the kernel has none: then the test is skipped.
pub(super) fn vault(pages: u64, kind: PageKind, tracking: Tracking) -> Option<Guarded> {
    vault_reaching(pages, kind, tracking, Reach::UserCode)
}

/// A vault whose faults are served as far as `least`.
pub(super) fn vault_reaching(pages: u64, kind: PageKind, tracking: Tracking, least: Reach) -> Option<Guarded> {
    let no_fork = FORKS.read().unwrap_or_else(PoisonError::into_inner);
    unguarded(pages, kind, tracking, least).map(|vault| Guarded { vault, order: Mutex::new(()), _no_fork: no_fork })
}

/// A vault for a test that holds [`FORKS`] by itself.
pub(super) fn unguarded(pages: u64, kind: PageKind, tracking: Tracking, least: Reach) -> Option<Vault> {
    let options = VaultOptions { kind, tracking, least };
    let mut needs = vec![Feature::UserfaultfdMove];
    if tracking != Tracking::Off {
        needs.push(Feature::UserfaultfdWriteProtect);
    }
    if least == Reach::Everything {
        needs.push(Feature::UserfaultfdKernelFaults);
    }
    match Vault::reserve(Bytes::new(pages * FRAME_BYTES), options, &Roots::default()) {
        Err(error) if !matches!(error, Error::Absent(_)) => panic!("{error}"),
        outcome => granted(&needs, outcome),
    }
}

pub(super) fn span(first: u64, pages: u64) -> VaultSpan {
    VaultSpan::new(first, pages).unwrap()
}

pub(super) fn page(number: u64) -> VaultSpan {
    span(number, 1)
}

/// Writes one of the 512 words of a page; a page that is not there must have a handler.
pub(super) fn write(vault: &Vault, side: Side, page: u64, word: usize, value: u64) {
    assert!(word < WORDS);
    // SAFETY: the word is in the page, which lies in a range of the vault, and no reference to it exists.
    unsafe { vault.address(side, page).cast::<u64>().add(word).write_volatile(value) };
}

/// Reads a word as [`write`] writes one.
pub(super) fn read(vault: &Vault, side: Side, page: u64, word: usize) -> u64 {
    assert!(word < WORDS);
    // SAFETY: the word is in the page, which lies in a range of the vault, and no reference to it exists.
    unsafe { vault.address(side, page).cast::<u64>().add(word).read_volatile() }
}

/// Gives the program pages, each with its own number in it.
pub(super) fn fill(vault: &Vault, span: VaultSpan) {
    vault.populate(span).unwrap();
    for page in span.numbers() {
        write(vault, Side::Program, page, 1, page + 1);
    }
}

/// Whether the kernel gave huge pages; if it has none to give, the test is skipped.
pub(super) fn are_huge(huge: bool) -> bool {
    granted(&[Feature::TransparentHugePages], if huge { Ok(()) } else { Err("the kernel gave none") }).is_some()
}

/// The frames of pages; `None` where they are hidden: then the test is skipped.
pub(super) fn frames(vault: &Vault, side: Side, span: VaultSpan) -> Option<Vec<Frame>> {
    let pagemap = Pagemap::open(&Roots::default()).unwrap();
    let mut frames = Vec::new();
    vault.frames(side, span, &pagemap, &mut frames).unwrap();
    let known: Option<Vec<_>> = frames.into_iter().collect();
    granted(&[Feature::FrameNumbers], known.ok_or("they are hidden"))
}

/// What a handler did.
#[derive(Debug, Default)]
pub(super) struct Served {
    pub(super) missing: AtomicU64,
    pub(super) protected: AtomicU64,
    /// The thread of the last fault.
    pub(super) thread: AtomicU64,
}

/// Runs `program` while another thread serves the vault's faults, by pieces of `pages` pages.
pub(super) fn served<T>(vault: &Guarded, pages: u64, program: impl FnOnce() -> T) -> (T, Served) {
    let served = Served::default();
    let result = handled(vault, |fault| serve(vault, pages, fault, &served), program);
    (result, served)
}

/// Runs `program` while another thread handles each of the vault's faults.
pub(super) fn handled<T>(vault: &Vault, handle: impl Fn(PageFault) + Sync, program: impl FnOnce() -> T) -> T {
    let stop = Stop::new().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut messages = Messages::default();
            while vault.next(&mut messages, &stop).unwrap() == Waited::Messages {
                vault.faults(&messages).for_each(&handle);
            }
        });
        let _stop = StopAtEnd(&stop);
        program()
    })
}

/// Stops the handler even if the program panics, so that a failed test ends.
struct StopAtEnd<'a>(&'a Stop);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.set();
    }
}

fn serve(vault: &Guarded, pages: u64, fault: PageFault, served: &Served) {
    assert_eq!(fault.side, Side::Program, "nobody touches what is not in the vault");
    let piece = span(fault.page / pages * pages, pages);
    let _order = vault.order.lock().unwrap();
    served.thread.store(fault.thread.map_or(0, u64::from), Ordering::Relaxed);
    match fault.cause {
        FaultCause::Protected => {
            served.protected.fetch_add(1, Ordering::Relaxed);
            vault.allow_writes(piece).unwrap();
        }
        FaultCause::Missing => {
            served.missing.fetch_add(1, Ordering::Relaxed);
            match vault.unlock(piece, Wake::Now).map_err(|error| error.refusal) {
                Ok(()) => {}
                Err(MoveRefusal::Occupied) => vault.wake(piece).unwrap(),
                Err(MoveRefusal::Missing) => {
                    vault.populate(page(fault.page)).unwrap();
                    vault.wake(piece).unwrap();
                }
                Err(refusal) => panic!("{refusal}"),
            }
        }
        FaultCause::Minor => panic!("no page of a file is here"),
    }
}
