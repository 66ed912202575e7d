//! Faults of threads and of system calls.

#![expect(unsafe_code, reason = "system calls are given pages of a vault")]

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::thread;

use rustix::thread::gettid;

use super::super::{HUGE_PAGES, Side, Tracking, Vault};
use super::world::{fill, page, read, served, span, vault, vault_reaching, write};
use crate::userfaultfd::{Messages, Reach, Stop, Waited};
use crate::{PAGE_BYTES, PageKind};

#[test]
fn a_thread_that_touches_a_locked_page_waits_for_it() {
    let Some(vault) = vault(64, PageKind::Base, Tracking::Off) else { return };
    fill(&vault, vault.span());
    vault.lock(vault.span(), |_, _| ()).unwrap();
    let ((read, thread), served) = served(&vault, 1, || {
        thread::scope(|scope| scope.spawn(|| (read(&vault, Side::Program, 9, 1), gettid())).join().unwrap())
    });
    assert_eq!(read, 10);
    assert_eq!(served.missing.into_inner(), 1);
    assert_eq!(served.thread.into_inner(), u64::try_from(thread.as_raw_nonzero().get()).unwrap());
}

#[test]
fn threads_that_touch_the_same_pages_all_find_them() {
    for (kind, pages) in [(PageKind::Base, 4), (PageKind::Huge, HUGE_PAGES)] {
        let Some(vault) = vault(2 * HUGE_PAGES, kind, Tracking::Off) else { return };
        fill(&vault, vault.span());
        vault.lock(vault.span(), |_, _| ()).unwrap();
        let ((), served) = served(&vault, pages, || {
            let all =
                || vault.span().numbers().for_each(|page| assert_eq!(read(&vault, Side::Program, page, 1), page + 1));
            thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(all))));
        });
        assert!(served.missing.into_inner() >= vault.pages() / pages, "every piece was asked for");
    }
}

#[test]
fn no_write_is_lost_while_pages_are_locked_behind_the_writers() {
    const ROUNDS: u64 = 2_000;
    for (kind, pages) in [(PageKind::Base, 1), (PageKind::Huge, HUGE_PAGES)] {
        let Some(vault) = vault(2 * HUGE_PAGES, kind, Tracking::Off) else { return };
        fill(&vault, vault.span());
        vault.lock(vault.span(), |_, _| ()).unwrap();
        // Each thread adds one to a word of its own, all over the pages, and locks pages behind the others' backs.
        let add = |thread: u64| {
            let word = usize::try_from(thread).unwrap() + 8;
            for round in 0..ROUNDS {
                let page = (round * 389 + thread * 17) % vault.pages();
                write(&vault, Side::Program, page, word, read(&vault, Side::Program, page, word) + 1);
                if round % 10 == 0 {
                    let first = page / pages * pages;
                    let behind = (vault.pages() - first).min(pages.max(40));
                    let _order = vault.order.lock().unwrap();
                    let tally = vault.lock(span(first, behind), |_, _| ()).unwrap();
                    assert_eq!(tally.moved() + tally.holes, behind);
                }
            }
        };
        let add = &add;
        let ((), served) = served(&vault, pages, || {
            thread::scope(|scope| (0..3).for_each(|thread| drop(scope.spawn(move || add(thread)))));
        });
        assert!(served.missing.into_inner() > 0, "pages were locked meanwhile");
        vault.lock(vault.span(), |_, _| ()).unwrap();
        let sum =
            |thread: usize| vault.span().numbers().map(|page| read(&vault, Side::Vault, page, thread + 8)).sum::<u64>();
        assert_eq!([0, 1, 2].map(sum), [ROUNDS; 3], "{kind:?}");
    }
}

#[test]
fn a_page_that_was_never_touched_holds_zeros() {
    let Some(vault) = vault(8, PageKind::Base, Tracking::Off) else { return };
    let (value, served) = served(&vault, 8, || {
        write(&vault, Side::Program, 3, 7, 42);
        (read(&vault, Side::Program, 3, 0), read(&vault, Side::Program, 3, 7), read(&vault, Side::Program, 4, 7))
    });
    assert_eq!(value, (0, 42, 0));
    assert_eq!(served.missing.into_inner(), 2);
}

#[test]
fn system_calls_read_from_locked_pages_and_write_to_them() {
    let Some(vault) = vault_reaching(8, PageKind::Base, Tracking::Off, Reach::Everything) else { return };
    fill(&vault, vault.span());
    vault.lock(vault.span(), |_, _| ()).unwrap();
    let ((), served) = served(&vault, 1, || {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"to a locked page").unwrap();
        // SAFETY: the page is in the vault's range, which is written to by raw pointers only.
        let count = unsafe { libc::read(reader.as_raw_fd(), vault.address(Side::Program, 2).as_ptr().cast(), 16) };
        assert_eq!(count, 16);
        // SAFETY: the two pages are in the vault's range.
        let count =
            unsafe { libc::write(writer.as_raw_fd(), vault.address(Side::Program, 5).as_ptr().cast(), 2 * PAGE_BYTES) };
        assert_eq!(count, 8192);
        let mut copy = vec![0_u8; 2 * PAGE_BYTES];
        reader.read_exact(&mut copy).unwrap();
        assert_eq!((copy[8], copy[PAGE_BYTES + 8]), (6, 7));
    });
    assert_eq!(served.missing.into_inner(), 3);
    assert_eq!(read(&vault, Side::Program, 2, 0), u64::from_le_bytes(*b"to a loc").to_le());
}

#[test]
fn a_poisoned_page_fails_system_calls() {
    let Some(vault) = vault_reaching(8, PageKind::Base, Tracking::Off, Reach::Everything) else { return };
    vault.poison(Side::Program, page(3)).unwrap();
    let (_reader, writer) = std::io::pipe().unwrap();
    // SAFETY: the page is in the vault's range.
    let count = unsafe { libc::write(writer.as_raw_fd(), vault.address(Side::Program, 3).as_ptr().cast(), 8) };
    assert_eq!((count, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EFAULT)));
    vault.populate(page(2)).unwrap();
    let tally = vault.lock(vault.span(), |_, _| ()).unwrap();
    assert_eq!((tally.poisoned, tally.moved(), tally.holes), (1, 1, 6));
    vault.discard(Side::Program, page(3)).unwrap();
    vault.populate(page(3)).unwrap();
    assert_eq!(read(&vault, Side::Program, 3, 0), 0);
}

#[test]
fn a_handler_that_is_told_to_stop_stops() {
    let Some(vault) = vault(8, PageKind::Base, Tracking::Off) else { return };
    let (stop, mut messages) = (Stop::new().unwrap(), Messages::default());
    vault.poll(&mut messages).unwrap();
    assert!(messages.is_empty(), "nobody touched anything");
    let waited = thread::scope(|scope| {
        let handler = scope.spawn(|| vault.next(&mut messages, &stop).unwrap());
        stop.set();
        handler.join().unwrap()
    });
    assert_eq!(waited, Waited::Stopped);
    assert_eq!(vault.next(&mut Messages::default(), &stop).unwrap(), Waited::Stopped, "for good");
}

#[test]
fn an_address_belongs_to_one_page_of_one_side() {
    let Some(vault) = vault(8, PageKind::Base, Tracking::Off) else { return };
    for side in [Side::Program, Side::Vault] {
        let first = vault.address(side, 0).addr().get();
        assert_eq!(vault.find(first), Some((side, 0)));
        assert_eq!(vault.find(first + 7 * PAGE_BYTES + 4095), Some((side, 7)));
        assert!(vault.find(first + 8 * PAGE_BYTES).is_none_or(|found| found.0 != side));
        assert!(vault.find(first - 1).is_none_or(|found| found.0 != side));
    }
    assert_eq!(vault.program_base(), vault.address(Side::Program, 0));
    assert_eq!(vault.vault_base(), vault.address(Side::Vault, 0));
    let served = served(&vault, 1, || ()).1;
    assert_eq!(served.missing.load(Ordering::Relaxed), 0);
}

/// Lets the kernel write to a page.
pub(super) fn read_zeros_into(vault: &Vault, page: u64) {
    let zeros = std::fs::File::open("/dev/zero").unwrap();
    // SAFETY: the page is in the vault's range, which is written to by raw pointers only.
    let count = unsafe { libc::read(zeros.as_raw_fd(), vault.address(Side::Program, page).as_ptr().cast(), 16) };
    assert_eq!(count, 16);
}
