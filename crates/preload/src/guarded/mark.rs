//! Detects a process that has a copy of a guarded process' memory without an announced fork.
//!
//! **Problem.** A program can make a child by a system call of its own. The child has a copy of the guard's data, none
//! of its threads, and would wait for them. **Idea.** The kernel wipes a page (`MADV_WIPEONFORK`) in every process that
//! gets a copy of it, and only there: a child that borrows its parent's memory (vfork(2)) sees the parent's page. **Why
//! this way.** A check costs one load, so everything that uses the guard can check first.

#![allow(unsafe_code, reason = "maps a page")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use rampart_memory::PAGE_BYTES;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// A word that is 1 in the process that set it.
#[derive(Debug, Default)]
pub struct ProcessMark(AtomicPtr<AtomicU32>);

impl ProcessMark {
    /// A mark that is not set.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// From now on, copies of this process' memory can be recognised. Without a page, or if the kernel cannot wipe it,
    /// they cannot.
    pub fn set(&self) {
        if let Some(word) = self.word() {
            word.store(1, Ordering::Relaxed);
            return;
        }
        // SAFETY: a new mapping where the kernel chooses.
        let page = unsafe {
            mmap_anonymous(ptr::null_mut(), PAGE_BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let Ok(page) = page else { return };
        // SAFETY: the page is ours, and nobody knows of it yet.
        if unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) }.is_ok() {
            self.0.store(page.cast(), Ordering::Release);
            self.set();
        }
    }

    /// Whether this is a copy of the process that set it.
    pub fn is_wiped(&self) -> bool {
        self.word().is_some_and(|word| word.load(Ordering::Relaxed) == 0)
    }

    fn word(&self) -> Option<&AtomicU32> {
        // SAFETY: null, or a page of zeros that is aligned and never unmapped; any bits are a good word.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_with_a_copy_finds_it_wiped_and_can_set_it_again() {
        let mark = ProcessMark::new();
        assert!(!mark.is_wiped());
        mark.set();
        assert!(!mark.is_wiped());
        // SAFETY: the child loads and stores, and leaves at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let was_wiped = mark.is_wiped();
            mark.set();
            // SAFETY: it ends the child, which shares nothing that wants tidying.
            unsafe { libc::_exit(i32::from(!was_wiped || mark.is_wiped())) };
        }
        let mut status = 0;
        // SAFETY: the child is ours and the place too.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(status == 0 && !mark.is_wiped(), "{status:#x}");
    }
}
