//! Pages that a device may write to.

#![expect(unsafe_code, reason = "pages of a vault are registered with an io_uring")]

use io_uring::IoUring;
use rampart_skips::{Feature, granted};

use super::super::{Fate, HUGE_PAGES, Side, Tracking, Vault, VaultSpan};
use super::world::{are_huge, fill, page, read, span, vault, write};
use crate::PageKind;
use crate::userfaultfd::Wake;

/// Pins pages of the program's, as a program does for reads that a device writes itself.
fn pinned(vault: &Vault, spans: &[VaultSpan]) -> Option<IoUring> {
    let buffer = |span: &VaultSpan| libc::iovec {
        iov_base: vault.address(Side::Program, span.first()).as_ptr().cast(),
        iov_len: usize::try_from(span.bytes().get()).unwrap(),
    };
    let buffers: Vec<_> = spans.iter().map(buffer).collect();
    let ring = granted(&[Feature::IoUring], IoUring::new(1))?;
    // SAFETY: no request is ever queued, so the kernel neither reads nor writes the buffers, which it holds by itself.
    let registered = unsafe { ring.submitter().register_buffers(&buffers) };
    granted(&[Feature::LockedMemory], registered).map(|()| ring)
}

fn busy(vault: &Vault) -> Vec<u64> {
    let mut busy = Vec::new();
    let each = |span: VaultSpan, fate| {
        if fate == Fate::Busy {
            busy.extend(span.numbers());
        }
    };
    let tally = vault.lock(vault.span(), each).unwrap();
    assert_eq!(tally.busy, busy.len() as u64);
    assert_eq!(tally.moved() + tally.busy + tally.holes, vault.pages());
    busy
}

#[test]
fn exactly_the_pages_that_are_pinned_stay_with_the_program() {
    let Some(vault) = vault(128, PageKind::Base, Tracking::Off) else { return };
    fill(&vault, vault.span());
    let Some(ring) = pinned(&vault, &[span(21, 2), page(60), page(127)]) else { return };
    assert_eq!(busy(&vault), [21, 22, 60, 127]);
    write(&vault, Side::Program, 60, 3, 99);
    ring.submitter().unregister_buffers().unwrap();
    assert_eq!(busy(&vault), [0; 0], "they move once they are not pinned");
    assert_eq!((read(&vault, Side::Vault, 60, 3), read(&vault, Side::Vault, 60, 1)), (99, 61));
}

#[test]
fn a_huge_page_that_is_pinned_in_part_stays_whole() {
    let Some(vault) = vault(2 * HUGE_PAGES, PageKind::Huge, Tracking::Off) else { return };
    fill(&vault, vault.span());
    let mut huge = 0;
    vault.present(Side::Program, vault.span(), |run, state| huge += u64::from(state.huge) * run.pages()).unwrap();
    if !are_huge(huge == vault.pages()) {
        return;
    }
    let Some(ring) = pinned(&vault, &[page(600)]) else { return };
    assert_eq!(busy(&vault), span(512, 512).numbers().collect::<Vec<_>>());
    vault.unlock(span(0, 512), Wake::Now).unwrap();
    ring.submitter().unregister_buffers().unwrap();
    assert_eq!(busy(&vault), [0; 0]);
    let mut still = 0;
    vault.present(Side::Vault, vault.span(), |run, state| still += u64::from(state.huge) * run.pages()).unwrap();
    assert_eq!(still, vault.pages(), "a refusal splits nothing");
}
