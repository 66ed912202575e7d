//! The end of this process's own memory: a limit, and one line where it is reached.
//!
//! **Problem.** Rust aborts without memory, and Linux kills when it has promised too much. Neither says what to do, and
//! the second may hit another program. **Idea.** A process that reads foreign input gives itself a limit, and an
//! allocator that ends it with one line and exit code 2.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rampart_memory::Bytes;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::roots::text;
use crate::{Error, Roots};

/// Keeps all memory of this process in RAM once it was touched, as far as its limit allows (mlockall(2)): a process
/// that acts where memory is short must not wait for its own.
pub fn keep_in_ram() {
    // A process without the right to do so goes on: it is slower only where memory is short.
    let _refused = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
}

/// Lets the kernel kill nearly any other process first where memory runs out, as far as it is allowed: for a process
/// that brings memory.
pub fn outlive_others(roots: &Roots) {
    let file = roots.proc("self/oom_score_adj");
    // A service manager may have set it lower already.
    if text(&file).ok().and_then(|now| now.trim().parse().ok()).is_none_or(|now: i32| now > LATE) {
        // A process without the right to do so goes on.
        let _refused = fs::write(file, LATE.to_string());
    }
}

/// The last are those with -1000: the kernel never kills them. See proc_pid_oom_score_adj(5).
const LATE: i32 = -900;

/// The system's allocator. Without memory, the process ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneLineAtTheEnd;

const LINE: &[u8] = b"rampart: out of memory: ask for less, or free some\n";

/// Prints the line once, and ends the process. Nothing here allocates.
fn end() -> ! {
    static SAID: AtomicBool = AtomicBool::new(false);
    if SAID.swap(true, Ordering::Relaxed) {
        // Another thread prints it, and ends this one too.
        loop {
            std::thread::yield_now();
        }
    }
    let _unsaid = std::io::stderr().write_all(LINE);
    std::process::exit(2)
}

fn or_end(memory: *mut u8) -> *mut u8 {
    if memory.is_null() { end() } else { memory }
}

#[allow(unsafe_code)]
// SAFETY: each call is passed on to the system's allocator as it came, and its answer is given back as it is, but for
// null, after which nothing runs any more.
unsafe impl GlobalAlloc for OneLineAtTheEnd {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises of `alloc`, which are the same.
        or_end(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises of `alloc_zeroed`, which are the same.
        or_end(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the promises of `realloc`, which are the same, and `memory` came from the system's
        // allocator.
        or_end(unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises of `dealloc`, which are the same, and `memory` came from the system's
        // allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// The maximum of the first thread's stack, in bytes; `None`: as long as there is room.
#[must_use]
pub fn stack_limit() -> Option<u64> {
    getrlimit(Resource::Stack).current
}

/// From now on this process, and the children that it starts, may have so much private memory, and no more.
///
/// # Errors
/// If the kernel refuses the limit.
pub fn limit(most: Bytes) -> Result<(), Error> {
    let now = getrlimit(Resource::Data);
    let current = Some(now.current.map_or(most.get(), |current| current.min(most.get())));
    setrlimit(Resource::Data, Rlimit { current, maximum: now.maximum }).map_err(|cause| Error::Limit(cause.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_others_wait_for_is_killed_late_and_one_that_is_never_killed_stays_so() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        let file = roots.proc("self/oom_score_adj");
        outlive_others(&roots);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (before, after) in [("0\n", "-900"), ("-899\n", "-900"), ("-900\n", "-900\n"), ("-1000\n", "-1000\n")] {
            fs::write(&file, before).unwrap();
            outlive_others(&roots);
            assert_eq!(fs::read_to_string(&file).unwrap(), after);
        }
    }
}
