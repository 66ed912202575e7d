//! SIGSEGV as a fault of the guard, beside the program's own use of it.
//!
//! **Problem.** Where pages are locked by permissions, a touch of one is a SIGSEGV, and a program has but one handler for
//! it. **Idea.** The handler is ours. A fault on a page of ours is served; any other goes on to what the program has set by
//! `sigaction` or `signal`, which come here first and note it. **Why this way.** The program finds its handler set and
//! called as if it were alone: with its mask, its flags, its context, and the right to jump out.
//!
//! A thread that has SIGSEGV blocked is ended by the kernel at its first such fault. So the calls that set masks leave
//! SIGSEGV out, and what they report lacks it.

#![allow(unsafe_code, reason = "signal handlers and the C interface")]

use std::ffi::{c_int, c_void};
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use libc::{SIG_DFL, SIG_ERR, SIG_IGN, SIGSEGV, sigaction as Action, siginfo_t, sigset_t};

use rampart_guard::accesses::Touch;

use crate::GROUND;
use crate::guarded::Answer;
use crate::next::Next;

type SetAction = unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int;
type SetHandler = unsafe extern "C" fn(c_int, usize) -> usize;
type SetMask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;
type Suspend = unsafe extern "C-unwind" fn(*const sigset_t) -> c_int;

// SAFETY: the signatures are those of sigaction(2), signal(2), sigprocmask(2), pthread_sigmask(3) and sigsuspend(2).
static SIGACTION: Next<SetAction> = unsafe { Next::named(c"sigaction") };
// SAFETY: as above.
static SIGNAL: Next<SetHandler> = unsafe { Next::named(c"signal") };
// SAFETY: as above.
static SIGPROCMASK: Next<SetMask> = unsafe { Next::named(c"sigprocmask") };
// SAFETY: as above.
static PTHREAD_SIGMASK: Next<SetMask> = unsafe { Next::named(c"pthread_sigmask") };
// SAFETY: as above.
static SIGSUSPEND: Next<Suspend> = unsafe { Next::named(c"sigsuspend") };

/// Whether the handler is ours.
static OURS: AtomicBool = AtomicBool::new(false);

/// What the program wants done about SIGSEGV.
static PROGRAMS: Noted = Noted::new();

/// Faults on pages that were left to the program, by thread: the second at one address is the program's.
static LEFT: [(AtomicUsize, AtomicUsize); 64] = [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 64];

/// From now on faults are ours first. Before the first page is locked.
pub(crate) fn install() {
    let mut action: Action = plain();
    action.sa_sigaction = on_fault as *const () as usize;
    // On the stack that the program sets for signals, if it does: so the overflow of a stack still reaches its handler.
    // Other signals may come meanwhile, and their handlers touch locked pages too.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
    let mut before = plain();
    // SAFETY: both are places of ours; the handler is a function that lives as long as the process.
    let set = unsafe { SIGACTION.get()(SIGSEGV, &raw const action, &raw mut before) };
    assert_eq!(set, 0, "SIGSEGV can be caught");
    PTHREAD_SIGMASK.get();
    PROGRAMS.store(&before);
    OURS.store(true, Ordering::Release);
    unblock();
}

/// A thread that was started with SIGSEGV blocked, as by a shell, would end at its first fault.
fn unblock() {
    let mut only = MaybeUninit::<sigset_t>::zeroed();
    // SAFETY: the set is a place of ours, filled by the first call.
    unsafe {
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), SIGSEGV);
        PTHREAD_SIGMASK.get()(libc::SIG_UNBLOCK, only.as_ptr(), ptr::null_mut());
    }
}

/// No handler, no mask, no flags.
fn plain() -> Action {
    // SAFETY: an action is plain data, and all zeros is SIG_DFL.
    unsafe { mem::zeroed() }
}

extern "C-unwind" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: it is this thread's own variable.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    // SAFETY: the kernel hands a handler with SA_SIGINFO what happened, with an address if the fault is of memory.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    // SAFETY: as above.
    let ours = if code > 0 { GROUND.fault(address, unsafe { touch(context) }) } else { None };
    let served = match ours {
        Some(Answer::TryAgain) => true,
        Some(Answer::Left) => !is_second(address),
        None => false,
    };
    if !served {
        // SAFETY: they are what the kernel handed over.
        unsafe { hand_on(signal, info, context) };
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Whether the fault that a handler is called for is of a write, as far as the processor tells.
///
/// # Safety
/// The context is one that the kernel hands to a handler.
unsafe fn touch(context: *const c_void) -> Touch {
    #[cfg(target_arch = "x86_64")]
    let writes = {
        // Bit 1 of the error code of a page fault (Intel SDM, volume 3, 4.7).
        const WRITE: i64 = 1 << 1;
        let error = usize::try_from(libc::REG_ERR).expect("a register has a number");
        // SAFETY: the caller's promise.
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[error] & WRITE != 0 }
    };
    // Elsewhere the kernel does not say so in one word: it counts as a read.
    #[cfg(not(target_arch = "x86_64"))]
    let writes = {
        let _ = context;
        false
    };
    if writes { Touch::Write } else { Touch::Read }
}

/// Whether this thread's last fault on a page that was left was here too. Then it was tried again, and failed again.
fn is_second(address: usize) -> bool {
    let thread =
        usize::try_from(rustix::thread::gettid().as_raw_nonzero().get()).expect("a thread's number is positive");
    let (whose, last) = &LEFT[thread % LEFT.len()];
    let same_thread = whose.swap(thread, Ordering::Relaxed) == thread;
    last.swap(address, Ordering::Relaxed) == address && same_thread
}

/// Does what the program wants done about SIGSEGV.
///
/// # Safety
/// The arguments are those of a signal handler that runs now.
unsafe fn hand_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let action = PROGRAMS.load();
    // SAFETY: the kernel's, by the caller's promise.
    let was_sent = unsafe { (*info).si_code } <= 0;
    match action.sa_sigaction {
        SIG_IGN if was_sent => {}
        SIG_DFL | SIG_IGN => {
            let default = plain();
            // SAFETY: the place is ours. A fault comes again when this handler returns, a signal that was sent now.
            unsafe {
                SIGACTION.get()(SIGSEGV, &raw const default, ptr::null_mut());
                if was_sent {
                    libc::raise(SIGSEGV);
                }
            }
        }
        handler => {
            if action.sa_flags & libc::SA_RESETHAND != 0 {
                PROGRAMS.store(&plain());
            }
            let mask = without_faults(&action.sa_mask);
            let mut before = MaybeUninit::<sigset_t>::zeroed();
            // SAFETY: the sets are places of ours. The program said by its flags which of the two functions it is.
            unsafe {
                PTHREAD_SIGMASK.get()(libc::SIG_BLOCK, &raw const mask, before.as_mut_ptr());
                if action.sa_flags & libc::SA_SIGINFO == 0 {
                    mem::transmute::<usize, extern "C-unwind" fn(c_int)>(handler)(signal);
                } else {
                    type Told = extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);
                    mem::transmute::<usize, Told>(handler)(signal, info, context);
                }
                PTHREAD_SIGMASK.get()(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
            }
        }
    }
}

fn without_faults(set: &sigset_t) -> sigset_t {
    let mut set = *set;
    // SAFETY: it is a set of ours.
    unsafe { libc::sigdelset(&raw mut set, SIGSEGV) };
    set
}

/// A set that a program hands over, as it is good for us; `None` where it hands none.
///
/// # Safety
/// Null, or a set.
unsafe fn masked(set: *const sigset_t) -> Option<sigset_t> {
    // SAFETY: the caller's promise.
    unsafe { set.as_ref() }.map(without_faults)
}

fn pointer<T>(value: Option<&T>) -> *const T {
    value.map_or(ptr::null(), ptr::from_ref)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: the caller's promise.
    let new = unsafe { new.as_ref() }.copied();
    let mut before = plain();
    let done = if OURS.load(Ordering::Acquire) && signal == SIGSEGV {
        before = PROGRAMS.load();
        new.iter().for_each(|new| PROGRAMS.store(new));
        0
    } else {
        let ours = OURS.load(Ordering::Acquire);
        let new = new.map(|new| if ours { Action { sa_mask: without_faults(&new.sa_mask), ..new } } else { new });
        // SAFETY: the action is as the caller promises, and the place for the old one is ours.
        unsafe { SIGACTION.get()(signal, pointer(new.as_ref()), &raw mut before) }
    };
    if done == 0 && !old.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *old = before };
    }
    done
}

/// As glibc has it: what was interrupted is begun again.
#[unsafe(no_mangle)]
unsafe extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    if signal != SIGSEGV || !OURS.load(Ordering::Acquire) || handler == SIG_ERR {
        // SAFETY: the caller's promise.
        return unsafe { SIGNAL.get()(signal, handler) };
    }
    let before = PROGRAMS.load().sa_sigaction;
    let mut action = plain();
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    PROGRAMS.store(&action);
    before
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigprocmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change_mask(&SIGPROCMASK, how, set, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { change_mask(&PTHREAD_SIGMASK, how, set, old) }
}

/// # Safety
/// As for sigprocmask(2).
unsafe fn change_mask(next: &Next<SetMask>, how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    if !OURS.load(Ordering::Acquire) || how == libc::SIG_UNBLOCK {
        // SAFETY: the caller's promise.
        return unsafe { next.get()(how, set, old) };
    }
    let mut before = MaybeUninit::<sigset_t>::zeroed();
    // SAFETY: the caller's promise; the kernel writes to a place of ours, since the caller's may be locked.
    unsafe {
        let set = masked(set);
        let done = next.get()(how, pointer(set.as_ref()), before.as_mut_ptr());
        if done == 0 && !old.is_null() {
            *old = before.assume_init();
        }
        done
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigsuspend(set: *const sigset_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let ours = if OURS.load(Ordering::Acquire) { masked(set) } else { None };
        SIGSUSPEND.get()(ours.as_ref().map_or(set, ptr::from_ref))
    }
}

const WORDS: usize = size_of::<Action>() / 8;
const _: () = assert!(size_of::<Action>().is_multiple_of(8) && align_of::<Action>() <= 8);

/// Actions that are kept, the last of which counts: a signal handler reads it while another thread, or the very code that it
/// interrupts, writes the next.
struct Noted {
    kept: [[AtomicU64; WORDS]; Self::KEPT],
    written: AtomicUsize,
    last: AtomicUsize,
}

impl Noted {
    /// A reader is wrong only if so many are written while it reads.
    const KEPT: usize = 16;

    const fn new() -> Self {
        let kept = [const { [const { AtomicU64::new(0) }; WORDS] }; Self::KEPT];
        Self { kept, written: AtomicUsize::new(1), last: AtomicUsize::new(0) }
    }

    fn store(&self, action: &Action) {
        let place = self.written.fetch_add(1, Ordering::Relaxed) % Self::KEPT;
        // SAFETY: an action is as long as so many words, and plain data; what pads it is copied without a meaning.
        let words: [MaybeUninit<u64>; WORDS] = unsafe { mem::transmute_copy(action) };
        for (kept, word) in self.kept[place].iter().zip(words) {
            // SAFETY: every action here comes from `plain`, from the kernel or from a program's whole structure.
            kept.store(unsafe { word.assume_init() }, Ordering::Relaxed);
        }
        self.last.store(place, Ordering::Release);
    }

    fn load(&self) -> Action {
        let kept = &self.kept[self.last.load(Ordering::Acquire)];
        let words: [u64; WORDS] = std::array::from_fn(|word| kept[word].load(Ordering::Relaxed));
        // SAFETY: the words are those of an action, which is plain data; the restorer is the C library's affair.
        unsafe { mem::transmute_copy(&words) }
    }
}
