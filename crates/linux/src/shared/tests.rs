//! Ranges on the running kernel; a test that it does not allow is skipped, with a message.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt as _;
use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rampart_skips::{Feature, granted};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::*;
use crate::PAGE_BYTES;
use crate::retire::{RetireOutcome, RetireRefusal, Retirer};
use crate::userfaultfd::{FORKS, Wake};

mod watched;

const PAGES: u64 = 1024;

/// What the kernel needs for any range.
const NEEDS: [Feature; 2] = [Feature::UserfaultfdMinor, Feature::UserfaultfdKernelFaults];

/// A range with a handler that gives touched pages, while `work` runs.
fn served<R>(kind: PageKind, work: impl FnOnce(&SharedRange) -> R) -> Option<R> {
    served_in_turn(kind, &Mutex::new(()), work)
}

/// As [`served`], for work that changes pages which others touch meanwhile: the handler's action on a page comes before
/// or after the work under `turn`, as the guard orders it by the lock of a block.
fn served_in_turn<R>(kind: PageKind, turn: &Mutex<()>, work: impl FnOnce(&SharedRange) -> R) -> Option<R> {
    let settle = |range: &SharedRange, fault: PageFault| {
        let _turn = turn.lock();
        range.settle(fault.page)
    };
    served_by(kind, settle, work)
}

fn served_by<R>(
    kind: PageKind,
    serve: impl Fn(&SharedRange, PageFault) -> Result<(), Error> + Sync,
    work: impl FnOnce(&SharedRange) -> R,
) -> Option<R> {
    let range = SharedRange::prepare(Bytes::new(PAGES * FRAME_BYTES), kind).unwrap();
    granted(&NEEDS, range.open(&Roots::default()))?;
    range.arm(&[]).unwrap();
    let stop = Stop::new().unwrap();
    Some(thread::scope(|scope| {
        scope.spawn(|| {
            let mut messages = Messages::default();
            while range.next(&mut messages, &stop).unwrap() == Waited::Messages {
                for fault in range.faults(&messages) {
                    if let Err(why) = serve(&range, fault) {
                        eprintln!("{fault:?}: {why}");
                        // A thread that waits for the page could never be joined.
                        process::abort();
                    }
                }
            }
        });
        let result = work(&range);
        stop.set();
        result
    }))
}

fn span(first: u64, pages: u64) -> VaultSpan {
    VaultSpan::new(first, pages).unwrap()
}

fn read(range: &SharedRange, page: u64) -> u64 {
    // SAFETY: the page is the range's, which lives, and its faults are served.
    unsafe { range.address(page).cast::<u64>().read_volatile() }
}

fn write(range: &SharedRange, page: u64, value: u64) {
    // SAFETY: as in `read`.
    unsafe { range.address(page).cast::<u64>().write_volatile(value) }
}

/// Fills so many pages from the first on, and writes to each.
fn fill_with(range: &SharedRange, pages: u64, value: u64) {
    range.fill(span(0, pages)).unwrap();
    (0..pages).for_each(|page| write(range, page, value));
}

fn behind(range: &SharedRange, page: u64) -> u64 {
    // SAFETY: the page is the mapping's behind the range.
    unsafe { range.behind(page).cast::<u64>().read_volatile() }
}

/// Only the kernel can retire a frame. It refuses a thread without the right to (or refuses all, if it cannot), and no
/// frame of this machine is lost by the test.
#[test]
fn a_locked_page_that_the_kernel_does_not_take_offline_is_not_said_to_be_retired() {
    let _no_forks = FORKS.read();
    let retire = |range: &SharedRange| {
        let mut rights = capabilities(None).unwrap();
        rights.effective.remove(CapabilitySet::SYS_ADMIN);
        set_capabilities(None, rights).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        fs::create_dir(roots.proc("self")).unwrap();
        let entry: u64 = (1 << 63) | 3;
        let at = range.behind(5).addr().get() / PAGE_BYTES * size_of::<u64>();
        let pagemap = File::create(roots.proc("self/pagemap")).unwrap();
        pagemap.write_all_at(&entry.to_ne_bytes(), at as u64).unwrap();
        let pagemap = Pagemap::open(&roots).unwrap();
        let retire = |frame| range.retire(&Retirer::new(&roots), Frame::new(frame).unwrap(), 5, &pagemap);
        (retire(3), retire(4))
    };
    // What comes of it is asserted afterwards: a panic here would leave the range's handler waiting.
    let seen = served(PageKind::Base, |range| {
        fill_with(range, 8, 77);
        range.lock(span(0, 8)).unwrap();
        let outcomes = thread::scope(|scope| scope.spawn(|| retire(range)).join().unwrap());
        (outcomes, behind(range, 5))
    });
    let Some(((own, other), content)) = seen else { return };
    assert!(matches!(own, RetireOutcome::Refused(RetireRefusal::Kernel(_))), "{own:?}");
    assert_eq!(other, RetireOutcome::Refused(RetireRefusal::Moved), "the page is on another frame");
    assert_eq!(content, 77);
}

#[test]
fn the_frame_of_a_page_that_was_replaced_is_held_and_can_be_read_again_and_again() {
    let _no_forks = FORKS.read();
    served(PageKind::Base, |range| {
        fill_with(range, 8, 77);
        range.lock(span(0, 8)).unwrap();
        let held = range.replace(3, None).unwrap();
        assert_eq!(behind(range, 3), 0, "it is on another frame, of zeros");
        // SAFETY: nobody else has the page now.
        unsafe { range.behind(3).cast::<u64>().write_volatile(5) };
        for _ in 0..2 {
            let mut content = [1; PAGE_BYTES];
            held.read(&mut content).unwrap();
            assert_eq!(content[..8], 77_u64.to_ne_bytes());
            assert!(content[8..].iter().all(|&byte| byte == 0));
        }
        assert_eq!([2, 3, 4].map(|page| behind(range, page)), [77, 5, 77]);
    });
}

#[test]
fn what_is_locked_keeps_its_content_is_seen_from_behind_and_is_there_for_who_touches_it() {
    let _no_forks = FORKS.read();
    served(PageKind::Base, |range| {
        range.fill(span(0, 8)).unwrap();
        assert!(range.of_file.has(7));
        (0..8).for_each(|page| write(range, page, page + 100));
        range.lock(span(0, 8)).unwrap();
        assert_eq!([0, 7].map(|page| behind(range, page)), [100, 107]);
        // SAFETY: nobody else has the page now.
        unsafe { range.behind(3).cast::<u64>().write_volatile(55) };
        range.unlock(span(0, 2), Wake::Now).unwrap();
        assert_eq!([0, 1, 3, 7].map(|page| read(range, page)), [100, 101, 55, 107]);
        range.lock(span(0, 8)).unwrap();
        // A system call waits as a thread does.
        let zero = File::open("/dev/zero").unwrap();
        // SAFETY: the page is the range's.
        let got = unsafe { libc::pread(zero.as_raw_fd(), range.address(5).as_ptr().cast(), 8, 0) };
        assert_eq!((got, read(range, 5)), (8, 0), "{}", io::Error::last_os_error());
    });
}

#[test]
fn what_was_used_before_becomes_the_files_when_it_is_first_locked() {
    let _no_forks = FORKS.read();
    let range = SharedRange::prepare(Bytes::new(PAGES * FRAME_BYTES), PageKind::Base).unwrap();
    write(&range, 3, 33);
    if granted(&NEEDS, range.open(&Roots::default())).is_none() {
        return;
    }
    range.arm(&[]).unwrap();
    let mut used = Vec::new();
    range.present(span(0, PAGES), |run| used.push(run)).unwrap();
    assert_eq!(used, [span(3, 1)]);
    range.lock(span(0, 8)).unwrap();
    assert_eq!([2, 3, 4].map(|page| behind(&range, page)), [0, 33, 0]);
    range.unlock(span(0, 8), Wake::Now).unwrap();
    assert_eq!([2, 3, 4].map(|page| read(&range, page)), [0, 33, 0]);
}

/// Writers count in ordinary pages and pages of the file while others lock and unlock them and change their kind: no
/// count is lost.
#[test]
fn no_write_is_lost_while_pages_change_their_kind() {
    let _no_forks = FORKS.read();
    let turn = Mutex::new(());
    served_in_turn(PageKind::Base, &turn, |range| {
        let count = |page: u64| {
            // SAFETY: the word is of a page of the range, which lives; it is only used so until the threads are joined.
            let word = unsafe { range.address(page).cast::<AtomicU64>().as_ref() };
            word.fetch_add(1, Ordering::Relaxed);
        };
        let (goes_on, counted) = (AtomicBool::new(true), AtomicU64::new(0));
        thread::scope(|scope| {
            for thread in 0..3_u64 {
                let (goes_on, counted) = (&goes_on, &counted);
                scope.spawn(move || {
                    for step in 0.. {
                        if !goes_on.load(Ordering::Relaxed) {
                            counted.fetch_add(step, Ordering::Relaxed);
                            break;
                        }
                        count((step * 7 + thread) % 64);
                    }
                });
            }
            for round in 0..200 {
                for first in (0..64).step_by(16) {
                    let _turn = turn.lock();
                    range.lock(span(first, 16)).unwrap();
                }
                match round % 4 {
                    0 => {
                        range.split().unwrap();
                        range.unsplit();
                    }
                    1 => {
                        let _turn = turn.lock();
                        range.leave(span(16, 16)).unwrap();
                    }
                    2 => {
                        let _turn = turn.lock();
                        range.unlock(span(0, 64), Wake::Now).unwrap();
                    }
                    _ => thread::sleep(Duration::from_millis(1)),
                }
            }
            goes_on.store(false, Ordering::Relaxed);
        });
        assert_eq!((0..64).map(|page| read(range, page)).sum::<u64>(), counted.into_inner());
    });
}

#[test]
fn what_is_given_back_reads_as_zeros_whatever_its_kind() {
    let _no_forks = FORKS.read();
    served(PageKind::Base, |range| {
        fill_with(range, 16, 9);
        range.lock(span(4, 4)).unwrap();
        range.leave(span(8, 4)).unwrap();
        for page in [1, 5, 9] {
            range.discard(span(page, 1)).unwrap();
        }
        assert_eq!((0..16).map(|page| read(range, page)).sum::<u64>(), 13 * 9);
        assert_eq!([1, 5, 9].map(|page| read(range, page)), [0; 3]);
    });
}

#[test]
fn pages_that_may_not_be_swapped_are_locked_split_and_given_back_too() {
    let _no_forks = FORKS.read();
    served(PageKind::Base, |range| {
        fill_with(range, 8, 9);
        // SAFETY: it changes neither content nor addresses.
        let refused = unsafe { libc::mlock(range.base().as_ptr().cast(), 8 * PAGE_BYTES) } != 0;
        let locked = if refused { Err(io::Error::last_os_error()) } else { Ok(()) };
        if granted(&[Feature::LockedMemory], locked).is_none() {
            return;
        }
        range.lock(span(0, 8)).unwrap();
        assert_eq!([behind(range, 1), read(range, 2)], [9, 9]);
        range.discard(span(3, 1)).unwrap();
        range.split().unwrap();
        range.unsplit();
        assert_eq!((0..8).map(|page| read(range, page)).sum::<u64>(), 7 * 9);
    });
}

/// As with an empty pool of huge pages by then.
#[test]
fn what_was_given_back_may_become_ordinary_memory_of_zeros() {
    let _no_forks = FORKS.read();
    served(PageKind::Base, |range| {
        fill_with(range, 8, 9);
        range.discard(span(0, 8)).unwrap();
        range.abandon(span(0, 8)).unwrap();
        assert_eq!((0..8).map(|page| read(range, page)).sum::<u64>(), 0);
        (0..8).for_each(|page| write(range, page, 7));
        range.lock(span(0, 8)).unwrap();
        assert_eq!((behind(range, 5), read(range, 6)), (7, 7));
    });
}

#[test]
fn a_page_that_the_hardware_gave_up_reads_as_zeros_and_those_beside_it_stay() {
    let _no_forks = FORKS.read();
    served(PageKind::Base, |range| {
        fill_with(range, 8, 9);
        range.lock(span(0, 8)).unwrap();
        let lost = range.find_behind(range.behind(3).addr().get() + 77).unwrap();
        range.replace_lost(lost).unwrap();
        assert_eq!([2, 3, 4].map(|page| behind(range, page)), [9, 0, 9]);
        assert_eq!([2, 3, 4].map(|page| read(range, page)), [9, 0, 9]);
        assert_eq!(range.find_behind(range.base().addr().get()), None);
    });
}

#[test]
fn a_child_has_a_copy_and_a_file_of_its_own() {
    let _forks = FORKS.write();
    served(PageKind::Base, |range| {
        range.fill(span(0, 64)).unwrap();
        (0..64).for_each(|page| write(range, page, page));
        range.lock(span(0, 32)).unwrap();
        range.split().unwrap();
        range.fill(span(64, 8)).unwrap();
        assert!(!range.of_file.has(64));
        // SAFETY: the child calls no function that waits for another thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let right = (0..64).all(|page| read(range, page) == page) && read(range, 70) == 0;
            (0..70).for_each(|page| write(range, page, 7));
            // SAFETY: it ends the child.
            unsafe { libc::_exit(i32::from(!right)) };
        }
        write(range, 5, 55);
        range.unsplit();
        let mut status = 0;
        // SAFETY: the child is ours and the place too.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        range.lock(span(0, 64)).unwrap();
        assert_eq!([4, 5, 6, 40].map(|page| behind(range, page)), [4, 55, 6, 40]);
        assert_eq!([4, 5, 6, 40].map(|page| read(range, page)), [4, 55, 6, 40]);
    });
}

/// With an empty pool of huge pages, its part is ordinary memory.
#[test]
fn huge_pages_of_the_pool_are_locked_as_one_and_where_there_are_none_memory_is_ordinary() {
    let _no_forks = FORKS.read();
    let has = has_huge_pages(&Roots::default());
    served(PageKind::HugeTlb, |range| {
        range.fill(span(0, HUGE_PAGES)).unwrap();
        let is_of_file = range.of_file.has(0);
        assert!(has || !is_of_file);
        write(range, 3, 33);
        let locked = range.lock(span(0, HUGE_PAGES));
        if is_of_file {
            locked.unwrap();
            assert_eq!(behind(range, 3), 33);
        } else {
            granted(&[Feature::HugePagePool], Err::<(), _>("the memory is ordinary"));
            assert!(locked.is_err());
        }
        assert_eq!(read(range, 3), 33);
        range.discard(span(3, 1)).unwrap();
        assert_eq!((read(range, 3), read(range, 4)), (0, 0));
    });
}
