//! Pages from the kernel and from blocks.

use rampart_memory::Bytes;

use super::super::{HUGE_PAGES, Side, Tracking, Vault, VaultOptions};
use super::world::{frames, page, read, span, vault, write};
use crate::userfaultfd::{MoveRefusal, Reach, Wake};
use crate::{Block, Error, PageKind, Pagemap, Pinning, Roots};

#[test]
fn a_page_of_a_block_brings_its_frame() {
    let Some(vault) = vault(16, PageKind::Base, Tracking::Off) else { return };
    let mut block = Block::claim(Bytes::new(8 << 12), PageKind::Base).unwrap();
    let mut pool = Vec::new();
    block.frames(&Pagemap::open(&Roots::default()).unwrap(), &mut pool).unwrap();
    vault.give(Side::Program, span(4, 2), &mut block, 6).unwrap();
    vault.give(Side::Vault, page(9), &mut block, 0).unwrap();
    assert_eq!([read(&vault, Side::Program, 5, 0), read(&vault, Side::Vault, 9, 0)], [0, 0]);
    let Some(given) = frames(&vault, Side::Program, span(4, 2)) else { return };
    assert_eq!(given, [pool[6].unwrap(), pool[7].unwrap()]);
    assert_eq!(frames(&vault, Side::Vault, page(9)).unwrap(), [pool[0].unwrap()]);
}

#[test]
fn what_cannot_be_given_is_refused_and_stays() {
    let Some(vault) = vault(HUGE_PAGES, PageKind::Huge, Tracking::Off) else { return };
    let mut block = Block::claim(Bytes::from_mib(2), PageKind::Huge).unwrap();
    let refused = |block: &mut Block, pages| vault.give(Side::Program, span(0, pages), block, 0).unwrap_err().refusal;
    assert_eq!(refused(&mut block, 1), MoveRefusal::Splits);
    if block.pin_by(Pinning::Locked).is_ok() {
        assert_eq!(refused(&mut block, 512), MoveRefusal::Busy);
        block.unpin();
    }
    vault.populate(page(511)).unwrap();
    assert_eq!(refused(&mut block, 512), MoveRefusal::Occupied);
}

#[test]
fn a_huge_page_is_given_whole() {
    let Some(vault) = vault(2 * HUGE_PAGES, PageKind::Huge, Tracking::Off) else { return };
    let mut block = Block::claim(Bytes::from_mib(4), PageKind::Huge).unwrap();
    let mut pool = Vec::new();
    block.frames(&Pagemap::open(&Roots::default()).unwrap(), &mut pool).unwrap();
    vault.give(Side::Program, span(0, 512), &mut block, 512).unwrap();
    let Some(given) = frames(&vault, Side::Program, span(0, 512)) else { return };
    assert_eq!(given, pool[512..].iter().map(|frame| frame.unwrap()).collect::<Vec<_>>());
}

#[test]
fn zeros_come_in_huge_pages_where_there_is_room_for_them() {
    let Some(vault) = vault(4 * HUGE_PAGES, PageKind::Huge, Tracking::Off) else { return };
    vault.populate(span(512 - 3, 3 + 512 + 5)).unwrap();
    let mut found = Vec::new();
    vault
        .present(Side::Program, vault.span(), |run, state| {
            assert!(!state.zero, "each has a frame of its own");
            found.push((run.numbers(), state.huge));
        })
        .unwrap();
    if !super::world::are_huge(found.len() > 1) {
        return;
    }
    assert_eq!(found, [(509..512, false), (512..1024, true), (1024..1029, false)]);
    let error = vault.populate(span(1020, 10)).unwrap_err();
    assert_eq!((error.moved, error.refusal), (Bytes::ZERO, MoveRefusal::Occupied));
    write(&vault, Side::Program, 513, 0, 1);
    let error = vault.populate(span(512, 512)).unwrap_err();
    assert_eq!(error.refusal, MoveRefusal::Occupied);
    assert_eq!(read(&vault, Side::Program, 513, 0), 1, "what is there stays");
}

#[test]
fn what_is_discarded_is_as_if_never_touched() {
    let Some(vault) = vault(8, PageKind::Base, Tracking::Off) else { return };
    vault.populate(vault.span()).unwrap();
    vault.lock(span(0, 4), |_, _| ()).unwrap();
    vault.discard(Side::Vault, page(1)).unwrap();
    vault.discard(Side::Program, page(5)).unwrap();
    assert_eq!(vault.unlock(span(1, 2), Wake::Now).unwrap_err().refusal, MoveRefusal::Missing);
    vault.populate(page(1)).unwrap();
    vault.populate(page(5)).unwrap();
    assert_eq!([read(&vault, Side::Program, 1, 0), read(&vault, Side::Program, 5, 0)], [0, 0]);
}

#[test]
fn a_vault_that_is_only_prepared_is_ordinary_memory() {
    let Some(_no_fork) = vault(1, PageKind::Base, Tracking::Off) else { return };
    let options = VaultOptions { kind: PageKind::Base, tracking: Tracking::Off, least: Reach::UserCode };
    let vault = Vault::prepare(Bytes::new(8 << 12), options).unwrap();
    write(&vault, Side::Program, 3, 0, 7);
    assert_eq!([read(&vault, Side::Program, 3, 0), read(&vault, Side::Program, 4, 0)], [7, 0], "nobody serves faults");
    vault.discard(Side::Program, page(4)).unwrap();
    vault.open(&Roots::default()).unwrap();
    vault.arm().unwrap();
    let tally = vault.lock(vault.span(), |_, _| ()).unwrap();
    assert_eq!((tally.moved(), tally.holes, read(&vault, Side::Vault, 3, 0)), (1, 7, 7));
}

#[test]
fn a_vault_that_cannot_be_is_refused() {
    let reserve = |bytes, kind| {
        let options = VaultOptions { kind, tracking: Tracking::Off, least: Reach::UserCode };
        Vault::reserve(Bytes::new(bytes), options, &Roots::default()).unwrap_err()
    };
    assert!(matches!(reserve(0, PageKind::Base), Error::BlockSize { .. }));
    assert!(matches!(reserve(4097, PageKind::Huge), Error::BlockSize { .. }));
    assert!(matches!(reserve(1 << 46, PageKind::Huge), Error::BlockSize { .. }));
    assert!(matches!(reserve(2 << 20, PageKind::HugeTlb), Error::Guarded { .. }));
}
