//! A signal with our handler, and the program's action for it.

use std::ffi::{c_int, c_void};
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use libc::{SIG_DFL, SIG_IGN, sigaction as Action, siginfo_t, sigset_t};

use crate::BACKING;

use super::actions::{PTHREAD_SIGMASK, SIGACTION, plain, without_faults};

/// A handler that the kernel calls.
pub type Handler = extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);

/// One signal.
pub struct Caught {
    signal: c_int,
    /// Whether the handler is ours.
    ours: AtomicBool,
    /// The program's action.
    programs: Noted,
}

impl Caught {
    /// Not caught yet.
    pub const fn new(signal: c_int) -> Self {
        Self { signal, ours: AtomicBool::new(false), programs: Noted::new() }
    }

    /// From now on this handler gets the signal first.
    pub fn install(&self, handler: Handler) {
        let mut action: Action = plain();
        action.sa_sigaction = handler as *const () as usize;
        // On the program's signal stack, if it has one: so the overflow of a stack still reaches its handler. Other
        // signals may come meanwhile, and their handlers touch locked pages too.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
        let mut before = plain();
        // SAFETY: both are places of ours; the handler is a function that lives as long as the process.
        let set = unsafe { SIGACTION.get()(self.signal, &raw const action, &raw mut before) };
        assert_eq!(set, 0, "the signal can be caught");
        PTHREAD_SIGMASK.get();
        self.programs.store(&before);
        self.ours.store(true, Ordering::Release);
    }

    /// Whether it is this signal, and caught.
    pub fn is_ours(&self, signal: c_int) -> bool {
        signal == self.signal && self.ours.load(Ordering::Acquire)
    }

    /// The program's action.
    pub fn programs(&self) -> Action {
        self.programs.load()
    }

    /// Records the program's action.
    pub fn set_programs(&self, action: &Action) {
        self.programs.store(action);
    }

    /// The mask while a handler of the program's runs.
    fn mask_of(&self, action: &Action) -> sigset_t {
        let mut mask = action.sa_mask;
        if action.sa_flags & libc::SA_NODEFER == 0 {
            // SAFETY: it is a set of ours.
            unsafe { libc::sigaddset(&raw mut mask, self.signal) };
        }
        mask
    }

    /// Performs the program's action, in its handler with SIGSEGV unblocked if `wants_faults`.
    ///
    /// # Safety
    /// The arguments are those of a signal handler that is running now.
    pub unsafe fn hand_on(&self, info: *mut siginfo_t, context: *mut c_void, wants_faults: bool) {
        let (signal, action) = (self.signal, self.programs());
        // SAFETY: the kernel's, as the caller guarantees.
        let was_sent = unsafe { (*info).si_code } <= 0;
        match action.sa_sigaction {
            SIG_IGN if was_sent => {}
            SIG_DFL | SIG_IGN => {
                BACKING.unlock_for_dump();
                let default = plain();
                // SAFETY: the place is ours. A fault comes again when this handler returns, a signal that was sent now.
                unsafe {
                    SIGACTION.get()(signal, &raw const default, ptr::null_mut());
                    if was_sent {
                        libc::raise(signal);
                    }
                }
            }
            handler => {
                if action.sa_flags & libc::SA_RESETHAND != 0 {
                    self.set_programs(&plain());
                }
                let mask = if wants_faults { without_faults(&action.sa_mask) } else { self.mask_of(&action) };
                let mut before = MaybeUninit::<sigset_t>::zeroed();
                // SAFETY: the sets are places of ours. The program said by its flags which of the two functions it is.
                unsafe {
                    PTHREAD_SIGMASK.get()(libc::SIG_BLOCK, &raw const mask, before.as_mut_ptr());
                    let handler = ptr::with_exposed_provenance::<()>(handler);
                    if action.sa_flags & libc::SA_SIGINFO == 0 {
                        mem::transmute::<*const (), extern "C-unwind" fn(c_int)>(handler)(signal);
                    } else {
                        type Handler = extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);
                        mem::transmute::<*const (), Handler>(handler)(signal, info, context);
                    }
                    PTHREAD_SIGMASK.get()(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
                }
            }
        }
    }
}

/// The words of a set of signals, which has no padding.
const SET_WORDS: usize = size_of::<sigset_t>() / 8;
const _: () = assert!(size_of::<sigset_t>().is_multiple_of(8));

/// The fields of an action. What pads the structure is not initialized, so it is no list of words itself.
struct KeptAction {
    handler: AtomicUsize,
    flags: AtomicI32,
    mask: [AtomicU64; SET_WORDS],
    restorer: AtomicPtr<()>,
}

/// Recorded actions, the last of which counts: a signal handler reads it while another thread, or the very code that it
/// interrupts, writes the next.
struct Noted {
    kept: [KeptAction; Self::KEPT],
    written: AtomicUsize,
    last: AtomicUsize,
}

impl Noted {
    /// A reader is wrong only if so many are written while it reads.
    const KEPT: usize = 16;

    const fn new() -> Self {
        let kept = [const { KeptAction::new() }; Self::KEPT];
        Self { kept, written: AtomicUsize::new(1), last: AtomicUsize::new(0) }
    }

    fn store(&self, action: &Action) {
        let place = self.written.fetch_add(1, Ordering::Relaxed) % Self::KEPT;
        self.kept[place].store(action);
        self.last.store(place, Ordering::Release);
    }

    fn load(&self) -> Action {
        self.kept[self.last.load(Ordering::Acquire)].load()
    }
}

impl KeptAction {
    const fn new() -> Self {
        Self {
            handler: AtomicUsize::new(0),
            flags: AtomicI32::new(0),
            mask: [const { AtomicU64::new(0) }; SET_WORDS],
            restorer: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn store(&self, action: &Action) {
        self.handler.store(action.sa_sigaction, Ordering::Relaxed);
        self.flags.store(action.sa_flags, Ordering::Relaxed);
        // SAFETY: a set is so many words, all of them initialized.
        let words: [u64; SET_WORDS] = unsafe { mem::transmute(action.sa_mask) };
        for (kept, word) in self.mask.iter().zip(words) {
            kept.store(word, Ordering::Relaxed);
        }
        let restorer = action.sa_restorer.map_or(ptr::null_mut(), |function| function as *mut ());
        self.restorer.store(restorer, Ordering::Relaxed);
    }

    fn load(&self) -> Action {
        let mut action = plain();
        action.sa_sigaction = self.handler.load(Ordering::Relaxed);
        action.sa_flags = self.flags.load(Ordering::Relaxed);
        let words: [u64; SET_WORDS] = std::array::from_fn(|word| self.mask[word].load(Ordering::Relaxed));
        // SAFETY: a set is so many words, and plain data. The restorer is null, or the function that was kept.
        unsafe {
            action.sa_mask = mem::transmute::<[u64; SET_WORDS], sigset_t>(words);
            action.sa_restorer =
                mem::transmute::<*mut (), Option<extern "C" fn()>>(self.restorer.load(Ordering::Relaxed));
        }
        action
    }
}
