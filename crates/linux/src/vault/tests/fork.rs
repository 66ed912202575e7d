//! The state after a fork, in the parent and in the child.

#![expect(unsafe_code, reason = "processes are forked")]

use super::super::{Side, Tracking, Vault};
use super::world::{fill, read, span, unguarded, write};
use crate::userfaultfd::{FORKS, MoveRefusal, Reach, Wake};
use crate::{PageKind, Roots};
use std::sync::PoisonError;

const PAGES: u64 = 16;

/// Half of the pages locked, all with their number in them.
fn half_locked(tracking: Tracking) -> Option<Vault> {
    let vault = unguarded(PAGES, PageKind::Base, tracking, Reach::UserCode)?;
    fill(&vault, vault.span());
    vault.lock(span(0, PAGES / 2), |_, _| ()).unwrap();
    Some(vault)
}

/// A child that lives until it is dropped.
struct Child(libc::pid_t);

impl Child {
    /// Forks; the child does `work`, and reports whether it succeeded, or waits to be killed.
    fn fork(work: Option<&mut dyn FnMut() -> bool>) -> Self {
        // SAFETY: the child calls `work`, which takes no lock that another thread can hold now but the allocator's,
        // which the C library sees to, and never returns from here.
        let id = unsafe { libc::fork() };
        assert!(id >= 0, "a process can be forked");
        if id == 0 {
            match work {
                // SAFETY: leaves at once, and runs nothing of the parent's.
                Some(work) => unsafe { libc::_exit(i32::from(!work())) },
                None => loop {
                    // SAFETY: waits for a signal.
                    unsafe { libc::pause() };
                },
            }
        }
        Self(id)
    }

    fn succeeded(self) -> bool {
        let mut status = 0;
        // SAFETY: `status` is ours to be written.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        let succeeded = waited == self.0 && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
        std::mem::forget(self);
        succeeded
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: it is a child of ours that was not waited for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

#[test]
fn shared_pages_move_in_the_parent_once_they_are_its_own() {
    let _alone = FORKS.write().unwrap_or_else(PoisonError::into_inner);
    for tracking in [Tracking::Off, Tracking::Stopping] {
        let Some(vault) = half_locked(tracking) else { return };
        let (locked, unlocked) = vault.span().split(PAGES / 2);
        let (locked, unlocked) = (locked.unwrap(), unlocked.unwrap());
        if tracking == Tracking::Stopping {
            vault.protect_written(unlocked).unwrap();
        }
        let child = Child::fork(None);
        assert_eq!(vault.unlock(locked, Wake::Now).unwrap_err().refusal, MoveRefusal::Busy);
        assert_eq!(vault.lock(unlocked, |_, _| ()).unwrap().busy, PAGES / 2);
        drop(child);
        assert_eq!(vault.lock(unlocked, |_, _| ()).unwrap().busy, PAGES / 2, "nor does the child's end help");
        vault.unshare(Side::Vault, locked).unwrap();
        vault.unshare(Side::Program, unlocked).unwrap();
        vault.unlock(locked, Wake::Now).unwrap();
        assert_eq!(vault.lock(unlocked, |_, _| ()).unwrap().written, PAGES / 2);
        locked.numbers().for_each(|page| assert_eq!(read(&vault, Side::Program, page, 1), page + 1));
        unlocked.numbers().for_each(|page| assert_eq!(read(&vault, Side::Vault, page, 1), page + 1));
    }
}

#[test]
fn a_child_that_takes_over_gets_huge_pages() {
    let _alone = FORKS.write().unwrap_or_else(PoisonError::into_inner);
    let Some(mut vault) = unguarded(1024, PageKind::Huge, Tracking::Off, Reach::UserCode) else { return };
    fill(&vault, span(0, 512));
    let mut work = || {
        vault.reopen(&Roots::default()).is_ok()
            && vault.populate(span(512, 512)).is_ok()
            && (512..1024).all(|page| read(&vault, Side::Program, page, 1) == 0)
            && (0..512).all(|page| read(&vault, Side::Program, page, 1) == page + 1)
    };
    assert!(Child::fork(Some(&mut work)).succeeded());
}

#[test]
fn a_child_that_takes_over_finds_every_page() {
    let _alone = FORKS.write().unwrap_or_else(PoisonError::into_inner);
    let Some(mut vault) = half_locked(Tracking::Stopping) else { return };
    let mut work = || {
        let all = vault.span();
        let (locked, unlocked) = (span(0, PAGES / 2), span(PAGES / 2, PAGES / 2));
        vault.reopen(&Roots::default()).is_ok()
            && vault.unlock(locked, Wake::Now).is_err_and(|error| error.refusal == MoveRefusal::Busy)
            && vault.unshare(Side::Vault, all).is_ok()
            && vault.unlock(locked, Wake::Now).is_ok()
            && all.numbers().all(|page| read(&vault, Side::Program, page, 1) == page + 1)
            && vault.unshare(Side::Program, unlocked).is_ok()
            && vault.lock(unlocked, |_, _| ()).is_ok_and(|tally| tally.moved() == PAGES / 2)
            && vault.unlock(unlocked, Wake::Now).is_ok()
            && all.numbers().all(|page| {
                write(&vault, Side::Program, page, 1, 0);
                read(&vault, Side::Program, page, 1) == 0
            })
    };
    assert!(Child::fork(Some(&mut work)).succeeded());
    vault.unshare(Side::Vault, vault.span()).unwrap();
    vault.unlock(span(0, PAGES / 2), Wake::Now).unwrap();
    vault.span().numbers().for_each(|page| assert_eq!(read(&vault, Side::Program, page, 1), page + 1));
}

#[test]
fn pages_that_are_kept_from_children_stay_movable() {
    let _alone = FORKS.write().unwrap_or_else(PoisonError::into_inner);
    let Some(vault) = half_locked(Tracking::Off) else { return };
    vault.keep_from_children(&[]).unwrap();
    let child = Child::fork(None);
    vault.unlock(span(0, PAGES / 2), Wake::Now).unwrap();
    assert_eq!(vault.lock(vault.span(), |_, _| ()).unwrap().moved(), PAGES);
    drop(child);
    vault.give_to_children(&[]).unwrap();
    let _child = Child::fork(None);
    assert_eq!(vault.unlock(vault.span(), Wake::Now).unwrap_err().refusal, MoveRefusal::Busy);
}

/// Whether a child gets SIGSEGV at the first byte of a page of the program's.
fn is_gone_in_a_child(vault: &Vault, page: u64) -> bool {
    let mut touch = || read(vault, Side::Program, page, 1) == page + 1;
    let child = Child::fork(Some(&mut touch));
    let mut status = 0;
    // SAFETY: `status` is ours to be written, and the child is waited for once.
    assert_eq!(unsafe { libc::waitpid(child.0, &raw mut status, 0) }, child.0);
    std::mem::forget(child);
    let ended = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV;
    assert!(ended || libc::WEXITSTATUS(status) == 0, "it finds what is there or nothing: {status:#x}");
    ended
}

#[test]
fn a_child_finds_no_page_that_is_kept_from_it_and_those_that_are_not() {
    let _alone = FORKS.write().unwrap_or_else(PoisonError::into_inner);
    let Some(vault) = half_locked(Tracking::Off) else { return };
    let odd = span(PAGES - 2, 1);
    vault.keep_from_children(&[odd]).unwrap();
    vault.leave_to_children(span(PAGES - 4, 1)).unwrap();
    let gone = [0, PAGES - 4, PAGES - 3, PAGES - 2, PAGES - 1].map(|page| is_gone_in_a_child(&vault, page));
    assert_eq!(gone, [true, false, true, false, true], "locked, left, unlocked, odd, unlocked");
}
