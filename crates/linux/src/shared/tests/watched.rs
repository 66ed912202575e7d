//! Pages whose first write stops.

use super::*;
use crate::userfaultfd::FaultCause;

/// A handler's record of first writes.
#[derive(Default)]
struct Seen(Mutex<Vec<u64>>);

impl Seen {
    fn serve(&self, range: &SharedRange, fault: PageFault) -> Result<(), Error> {
        if fault.cause != FaultCause::Protected {
            return range.settle(fault.page);
        }
        self.0.lock().unwrap().push(fault.page);
        range.allow_writes(span(fault.page, 1))
    }

    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Of filled and locked pages, the first so many are unlocked watched. `false`: it cannot be tested here.
fn watch(range: &SharedRange, pages: u64) -> bool {
    let filled = pages.max(16);
    fill_with(range, filled, 9);
    let of_file = if range.of_file.has(0) { Ok(()) } else { Err("the memory is ordinary") };
    if granted(&[Feature::HugePagePool], of_file).is_none() {
        return false;
    }
    range.lock(span(0, filled)).unwrap();
    let watches = if range.unlock_watched(span(0, pages)).unwrap() { Ok(()) } else { Err("writes are not stopped") };
    granted(&[Feature::UserfaultfdProtectedContinue], watches).is_some()
}

/// Runs work on a range with so many watched pages, with a handler that records first writes.
fn watched(kind: PageKind, pages: u64, work: impl FnOnce(&SharedRange, &Seen)) {
    let _no_forks = FORKS.read();
    let seen = Seen::default();
    let serve = |range: &SharedRange, fault| seen.serve(range, fault);
    served_by(kind, serve, |range| {
        if watch(range, pages) {
            work(range, &seen);
        }
    });
}

#[test]
fn the_first_write_to_a_page_that_is_watched_stops_and_reads_do_not() {
    watched(PageKind::Base, 8, |range, seen| {
        assert_eq!((0..8).map(|page| read(range, page)).sum::<u64>(), 8 * 9);
        assert!(seen.take().is_empty());
        write(range, 3, 1);
        write(range, 3, 2);
        assert_eq!(seen.take(), [3], "once");
        // A system call stops as a thread does.
        let zero = File::open("/dev/zero").unwrap();
        // SAFETY: the page is the range's.
        let got = unsafe { libc::pread(zero.as_raw_fd(), range.address(5).as_ptr().cast(), 8, 0) };
        assert_eq!((got, read(range, 5), seen.take()), (8, 0, vec![5]), "{}", io::Error::last_os_error());
        // A present page stays watched, whoever learns that.
        range.settle_watched(6).unwrap();
        write(range, 6, 1);
        assert_eq!(seen.take(), [6]);
    });
}

/// A message covers 4 KiB or the first of them, and writes to a part of an entry cannot be allowed.
#[test]
fn the_first_write_to_a_huge_page_that_is_watched_stops_and_those_to_the_rest_of_it_go_on() {
    watched(PageKind::HugeTlb, HUGE_PAGES, |range, seen| {
        assert_eq!(read(range, 3), 9);
        assert!(seen.take().is_empty());
        write(range, 300, 1);
        write(range, 3, 2);
        assert_eq!(seen.take().len(), 1, "once");
        range.lock(span(0, HUGE_PAGES)).unwrap();
        assert_eq!([2, 3, 300].map(|page| behind(range, page)), [9, 2, 1]);
    });
}

#[test]
fn what_was_watched_and_locked_is_watched_no_more() {
    watched(PageKind::Base, 16, |range, seen| {
        assert_eq!(read(range, 3), 9);
        range.lock(span(0, 16)).unwrap();
        range.unlock(span(0, 8), Wake::Now).unwrap();
        (0..16).for_each(|page| write(range, page, 5));
        range.lock(span(0, 16)).unwrap();
        assert!(range.unlock_watched(span(0, 16)).unwrap());
        range.leave(span(0, 4)).unwrap();
        range.discard(span(4, 4)).unwrap();
        range.allow_writes(span(8, 4)).unwrap();
        (0..12).for_each(|page| write(range, page, 6));
        assert!(seen.take().is_empty());
        range.split().unwrap();
        write(range, 13, 7);
        range.unsplit();
        assert!(seen.take().is_empty());
        assert!(!range.unlock_watched(span(0, 16)).unwrap(), "ordinary pages are not watched");
    });
}

/// Between the moment that a page is unlocked watched and the moment that it is locked again, nobody changes it without
/// a message.
#[test]
fn no_write_goes_by_unseen_while_others_write_all_the_while() {
    let _no_forks = FORKS.read();
    // Whether a page may have been written since it was unlocked.
    let written = Mutex::new([true; 16]);
    let serve = |range: &SharedRange, fault: PageFault| {
        let mut written = written.lock().unwrap();
        written[usize::try_from(fault.page).unwrap()] = true;
        if fault.cause == FaultCause::Protected {
            range.allow_writes(span(fault.page, 1))
        } else {
            range.settle(fault.page)
        }
    };
    let mut unwritten = 0;
    served_by(PageKind::Base, serve, |range| {
        if !watch(range, 16) {
            return;
        }
        let goes_on = AtomicBool::new(true);
        thread::scope(|scope| {
            for thread in 0..2_u64 {
                let goes_on = &goes_on;
                scope.spawn(move || {
                    let mut step = thread;
                    while goes_on.load(Ordering::Relaxed) {
                        step = step.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(thread + 1);
                        let page = step >> 60;
                        // Most of them read.
                        if step >> 50 & 7 == 0 {
                            write(range, page, step);
                        } else {
                            read(range, page);
                        }
                    }
                });
            }
            for round in 0..1_000_u64 {
                let page = round % 16;
                let place = usize::try_from(page).unwrap();
                let was = {
                    let mut written = written.lock().unwrap();
                    range.lock(span(page, 1)).unwrap();
                    let was = behind(range, page);
                    assert!(range.unlock_watched(span(page, 1)).unwrap());
                    range.wake(span(page, 1)).unwrap();
                    written[place] = false;
                    was
                };
                thread::yield_now();
                let written = written.lock().unwrap();
                range.lock(span(page, 1)).unwrap();
                if !written[place] {
                    assert_eq!(behind(range, page), was, "round {round}");
                    unwritten += 1;
                }
                range.unlock(span(page, 1), Wake::Now).unwrap();
            }
            goes_on.store(false, Ordering::Relaxed);
        });
        assert!(unwritten > 0);
    });
}
