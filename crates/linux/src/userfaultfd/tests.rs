//! Requests on the running kernel, for memory that no vault has; a test that it does not allow is skipped, with a
//! message.

#![expect(unsafe_code, reason = "memory is registered, and processes are forked")]

use std::ptr::{self, NonNull};
use std::sync::{PoisonError, RwLock};
use std::thread;

use rampart_skips::{Feature, granted};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::{
    Area, FaultCause, Features, Messages, Modes, PageFilter, PageScan, Reach, Route, Stop, UffdFault, UffdMessage,
    Userfaultfd, Waited, Wake,
};
use crate::block::mapping::Mapping;
use crate::{PAGE_BYTES, Roots};

/// Written by tests that fork, and read by those whose pages a fork would share with the child.
pub(crate) static FORKS: RwLock<()> = RwLock::new(());

/// `None` where the kernel lacks what the features need: then the test is skipped.
fn open(features: Features, needs: Feature) -> Option<Userfaultfd> {
    granted(&[needs], Userfaultfd::open(features, Reach::UserCode))
}

/// The message for a thread that the kernel does not name.
fn fault(area: Area, write: bool, cause: FaultCause) -> UffdMessage {
    UffdMessage::Fault(UffdFault { address: area.start.addr().get(), write, cause, thread: None })
}

fn page(start: NonNull<u8>, number: usize) -> Area {
    // SAFETY: the callers ask for pages that they mapped.
    Area { start: unsafe { start.add(number * PAGE_BYTES) }, bytes: PAGE_BYTES }
}

fn read(area: Area) -> u8 {
    // SAFETY: the page is mapped, and no reference to it exists.
    unsafe { area.start.read_volatile() }
}

fn write(area: Area, value: u8) {
    // SAFETY: the page is mapped, and no reference to it exists.
    unsafe { area.start.write_volatile(value) };
}

/// Lets another thread touch memory, waits for the kernel's message, and answers it.
fn answered<T: Send>(
    faults: &Userfaultfd,
    area: Area,
    touch: impl FnOnce(Area) -> T + Send,
    answer: impl FnMut(UffdMessage),
) -> T {
    let (stop, mut messages) = (Stop::new().unwrap(), Messages::default());
    let (start, bytes) = (area.start.expose_provenance(), area.bytes);
    thread::scope(|scope| {
        let toucher = scope.spawn(move || touch(Area { start: NonNull::with_exposed_provenance(start), bytes }));
        assert_eq!(faults.wait(&stop).unwrap(), Waited::Messages);
        faults.read(&mut messages).unwrap();
        assert_eq!(messages.len(), 1);
        messages.iter().for_each(answer);
        toucher.join().unwrap()
    })
}

#[test]
fn what_a_kernel_lacks_is_named() {
    let unheard_of = Features::from_bits(1 << 62);
    match Userfaultfd::open(Features::MOVE.union(unheard_of), Reach::UserCode) {
        Ok(_) => panic!("no kernel has that"),
        Err(absence) => assert!(!absence.reason.is_empty() && !absence.remedy.is_empty(), "{absence}"),
    }
}

#[test]
fn a_missing_page_is_copied_or_filled_with_zeros() {
    let Some(faults) = open(Features::NONE, Feature::Userfaultfd) else { return };
    let memory = Mapping::reserved(4 * PAGE_BYTES).unwrap();
    // SAFETY: no reference to the memory exists.
    unsafe { faults.register(Area { start: memory.base(), bytes: memory.bytes() }, Modes::MISSING) }.unwrap();
    let (first, second) = (page(memory.base(), 0), page(memory.base(), 1));
    let source = [7_u8; PAGE_BYTES];
    let found = answered(&faults, first, read, |message| {
        assert_eq!(message, fault(first, false, FaultCause::Missing));
        // SAFETY: the source is ours, and no reference to the destination exists.
        unsafe { faults.copy(NonNull::from(&source).cast(), first, Wake::Now) }.unwrap();
    });
    assert_eq!(found, 7);
    // SAFETY: no reference to the memory exists.
    let zero = |wake| unsafe { faults.zero_pages(second, wake) };
    answered(
        &faults,
        second,
        |page| write(page, 9),
        |message| {
            assert_eq!(message, fault(second, true, FaultCause::Missing));
            zero(Wake::Later).unwrap();
            faults.wake(second).unwrap();
        },
    );
    assert_eq!((read(second), zero(Wake::Now)), (9, Err(Errno::EXIST)));
    faults.unregister(Area { start: memory.base(), bytes: memory.bytes() }).unwrap();
    assert_eq!(read(page(memory.base(), 3)), 0, "as without a handler");
}

#[test]
fn a_copy_that_is_protected_stops_its_first_writer() {
    let Some(faults) = open(Features::WRITE_PROTECT, Feature::UserfaultfdWriteProtect) else { return };
    let memory = Mapping::reserved(PAGE_BYTES).unwrap();
    let (area, source) = (page(memory.base(), 0), [7_u8; PAGE_BYTES]);
    // SAFETY: no reference to the memory exists, and the source is ours.
    unsafe {
        faults.register(area, Modes::MISSING.union(Modes::WRITE_PROTECT)).unwrap();
        faults.copy_protected(NonNull::from(&source).cast(), area, Wake::Now).unwrap();
    }
    let scan = PageScan::open(&Roots::default()).unwrap();
    let written = || scan.runs(area, PageFilter::Written).map(|run| run.unwrap().bytes).sum::<usize>();
    assert_eq!((read(area), written()), (7, 0));
    answered(
        &faults,
        area,
        |page| write(page, 8),
        |message| {
            assert_eq!(message, fault(area, true, FaultCause::Protected));
            faults.allow_writes(area, Wake::Now).unwrap();
        },
    );
    assert_eq!((read(area), written()), (8, PAGE_BYTES));
}

#[test]
fn pages_of_a_file_are_mapped_when_they_are_asked_for() {
    let Some(faults) = open(Features::MINOR_SHARED, Feature::UserfaultfdMinor) else { return };
    let file = memfd_create("pages", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, PAGE_BYTES as u64).unwrap();
    let map = || {
        // SAFETY: no address is asked for, so no mapping is replaced.
        let start = unsafe {
            mmap(ptr::null_mut(), PAGE_BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)
        };
        page(NonNull::new(start.unwrap().cast()).unwrap(), 0)
    };
    let (program, behind) = (map(), map());
    write(behind, 5);
    // SAFETY: no reference to the memory exists.
    unsafe { faults.register(program, Modes::MINOR) }.unwrap();
    let found = answered(&faults, program, read, |message| {
        assert_eq!(message, fault(program, false, FaultCause::Minor));
        write(behind, 6);
        // SAFETY: no reference to the memory exists.
        unsafe { faults.map_file_pages(program, false, Wake::Now) }.unwrap();
    });
    assert_eq!(found, 6, "what was there when it was mapped");
    for area in [program, behind] {
        // SAFETY: the page was mapped above, and nobody uses it after this.
        unsafe { munmap(area.start.as_ptr().cast(), area.bytes) }.unwrap();
    }
}

#[test]
fn what_a_program_does_with_its_addresses_is_told() {
    let Some(faults) = open(Features::EVENT_REMOVE, Feature::Userfaultfd) else { return };
    let memory = Mapping::reserved(4 * PAGE_BYTES).unwrap();
    // SAFETY: no reference to the memory exists.
    unsafe { faults.register(Area { start: memory.base(), bytes: memory.bytes() }, Modes::MISSING) }.unwrap();
    let part = Area { start: page(memory.base(), 1).start, bytes: 2 * PAGE_BYTES };
    let discard = |part: Area| {
        // SAFETY: the part lies in the mapping, and no reference to it exists.
        unsafe { madvise(part.start.as_ptr().cast(), part.bytes, Advice::LinuxDontNeed) }.unwrap();
    };
    answered(&faults, part, discard, |message| {
        let start = part.start.addr().get();
        assert_eq!(message, UffdMessage::Removed { start, end: start + part.bytes });
    });
}

/// Runs in a child process without privileges: 0 if everything is right.
fn as_nobody() -> i32 {
    // SAFETY: the calls change who this process is, and no memory.
    let nobody = unsafe {
        libc::setgid(65534) == 0 && libc::setuid(65534) == 0 && libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) == 0
    };
    let Ok(faults) = Userfaultfd::open(Features::NONE, Reach::UserCode) else { return 2 };
    match (nobody, faults.route()) {
        (true, Route::UserModeOnly) => {
            let refused = Userfaultfd::open(Features::NONE, Reach::Everything);
            i32::from(!refused.is_err_and(|absence| absence.remedy.contains("vm.unprivileged_userfaultfd")))
        }
        _ => i32::from(faults.route().reach() != Reach::Everything),
    }
}

#[test]
fn a_user_without_privileges_is_told_what_is_not_served() {
    if open(Features::NONE, Feature::Userfaultfd).is_none() {
        return;
    }
    let _alone = FORKS.write().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the child never returns from here, and what it allocates is safe to after a fork (glibc's own promise).
    let child = unsafe { libc::fork() };
    if child == 0 {
        let result = as_nobody();
        // SAFETY: leaves at once, and runs nothing of the parent's.
        unsafe { libc::_exit(result) };
    }
    let mut status = 0;
    // SAFETY: `status` is ours to be written.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
}
