//! Pages into blocks of their own.

use rampart_memory::FRAME_BYTES;

use super::super::{HUGE_PAGES, Side, Tracking};
use super::world::{fill, frames, read, span, vault, write};
use crate::userfaultfd::MoveRefusal;
use crate::{PageKind, Pagemap, Roots};

#[test]
fn what_is_taken_keeps_content_and_frames_and_comes_back_by_giving() {
    for (kind, pages) in [(PageKind::Base, 4), (PageKind::Huge, HUGE_PAGES)] {
        let Some(vault) = vault(2 * pages, kind, Tracking::Off) else { return };
        let taken = span(pages, pages);
        fill(&vault, taken);
        let before = frames(&vault, Side::Program, taken);
        vault.lock(taken, |_, _| {}).unwrap();
        let mut block = vault.take(taken).unwrap();
        assert_eq!(block.bytes(), taken.bytes());
        let mut there = Vec::new();
        block.frames(&Pagemap::open(&Roots::default()).unwrap(), &mut there).unwrap();
        if let Some(before) = &before {
            assert_eq!(there.into_iter().map(Option::unwrap).collect::<Vec<_>>(), *before);
        }
        vault.present(Side::Vault, vault.span(), |run, _| panic!("{run:?} is left in the vault")).unwrap();
        vault.give(Side::Vault, taken, &mut block, 0).unwrap();
        assert!(taken.numbers().all(|page| read(&vault, Side::Vault, page, 1) == page + 1));
        assert_eq!(frames(&vault, Side::Vault, taken), before);
    }
}

#[test]
fn what_is_taken_is_ordinary_memory_that_can_be_discarded_and_touched() {
    let Some(vault) = vault(2, PageKind::Base, Tracking::Off) else { return };
    fill(&vault, span(0, 2));
    vault.lock(span(0, 2), |_, _| {}).unwrap();
    let mut block = vault.take(span(0, 1)).unwrap();
    block.discard(0..1).unwrap();
    block.pin_by(crate::Pinning::Locked).expect("a page is locked, which populates it");
    assert_eq!(read(&vault, Side::Vault, 1, 1), 2, "the other page is where it was");
}

#[test]
fn pages_of_which_one_is_missing_stay() {
    let Some(vault) = vault(4, PageKind::Base, Tracking::Off) else { return };
    fill(&vault, span(0, 4));
    vault.lock(span(0, 2), |_, _| {}).unwrap();
    let refused = vault.take(span(0, 4)).unwrap_err();
    assert_eq!((refused.refusal, refused.moved.get() / FRAME_BYTES), (MoveRefusal::Missing, 0));
    write(&vault, Side::Vault, 1, 1, 7);
    assert_eq!([read(&vault, Side::Vault, 0, 1), read(&vault, Side::Vault, 1, 1)], [1, 7]);
}
