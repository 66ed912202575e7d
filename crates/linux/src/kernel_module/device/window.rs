//! A view of claimed frames that survives the end of their claim.
//!
//! **Problem.** The module may take frames back while a test loop writes to them; the next touch is a SIGBUS, which
//! kills. The loop cannot look before each access, nor be left by a jump. **Idea.** A thread says which window it
//! accesses. At a SIGBUS in it, the handler puts ordinary memory in the place of the whole window and notes the loss;
//! the loop goes on, in vain, until it looks. **Why this way.** A SIGBUS comes to the thread that caused it, so what
//! the handler needs is the thread's own: no table, no lock. A test looks every few hundred KiB, so only so much memory
//! is taken in place of the lost one.
//!
//! Sources: sigaction(2); `BUS_ADRERR` and `BUS_MCEERR_AR` of Linux, include/uapi/asm-generic/siginfo.h.

#![expect(unsafe_code, reason = "memory is mapped, and a signal handler put in place")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::zeroed;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null, null_mut};
use std::sync::OnceLock;

use libc::{SA_ONSTACK, SA_SIGINFO, SIG_DFL, SIG_IGN, SIGBUS, siginfo_t};
use rampart_memory::{FRAME_BYTES, Frame, FrameRange};
use rustix::io::Result;
use rustix::mm::{self, MapFlags, ProtFlags};

/// Why frames are no longer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowLoss {
    /// Their claim has ended.
    Ended,
    /// The hardware found an error in this frame that it could not correct, and the kernel took it away.
    HardwareError(Frame),
}

/// What of the loss a signal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LateTouch {
    None,
    Ended,
    /// At this address.
    HardwareError(usize),
}

/// The window that a thread accesses, and what became of it; of no bytes if there is none.
#[derive(Clone, Copy)]
struct Accessed {
    base: usize,
    bytes: usize,
    touch: LateTouch,
}

const NOTHING: Accessed = Accessed { base: 0, bytes: 0, touch: LateTouch::None };

thread_local! {
    static ACCESSED: Cell<Accessed> = const { Cell::new(NOTHING) };
}

/// What was done at a SIGBUS before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// A mapping of frames, in the order of their numbers.
#[derive(Debug)]
pub(super) struct FrameWindow {
    base: NonNull<u8>,
    frames: FrameRange,
    loss: Option<WindowLoss>,
}

// SAFETY: a window is addresses of this process, which are the same in all its threads.
unsafe impl Send for FrameWindow {}

impl FrameWindow {
    /// Maps frames of a file in which each is at its own physical address.
    pub(super) fn map(file: impl AsFd, frames: FrameRange) -> Result<Self> {
        catch_late_touches();
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let at = frames.start().number() * FRAME_BYTES;
        // SAFETY: the kernel chooses addresses that nothing else uses; they are handed out as a raw pointer only.
        let base = unsafe { mm::mmap(null_mut(), bytes(frames), both, MapFlags::SHARED, file, at)? };
        Ok(Self { base: NonNull::new(base.cast()).expect("a mapping is not at 0"), frames, loss: None })
    }

    /// The address of the first frame.
    pub(super) const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Begins an access from this thread, which has no other. A window that was lost stays so: other memory is in its
    /// place, whose touches cause no signal.
    pub(super) fn access(&mut self) -> FrameAccess<'_> {
        assert!(ACCESSED.get().bytes == 0, "a thread accesses one window at a time");
        let touch = if self.loss.is_some() { LateTouch::Ended } else { LateTouch::None };
        ACCESSED.set(Accessed { base: self.base.addr().get(), bytes: bytes(self.frames), touch });
        FrameAccess { window: self, of_this_thread: PhantomData }
    }

    /// Why the frames are gone, as far as accesses that ended saw it.
    pub(super) const fn loss(&self) -> Option<WindowLoss> {
        self.loss
    }

    fn seen(&self) -> Option<WindowLoss> {
        match ACCESSED.get().touch {
            LateTouch::None => self.loss,
            LateTouch::Ended => self.loss.or(Some(WindowLoss::Ended)),
            LateTouch::HardwareError(address) => {
                let page = (address - self.base.addr().get()) as u64 / FRAME_BYTES;
                self.frames.start().checked_add(page).map(WindowLoss::HardwareError)
            }
        }
    }
}

impl Drop for FrameWindow {
    fn drop(&mut self) {
        // SAFETY: the addresses are this window's own, and its users promise that it outlives their accesses.
        let _unmapped = unsafe { mm::munmap(self.base.as_ptr().cast(), bytes(self.frames)) };
    }
}

/// An access to a window by the thread that began it.
#[derive(Debug)]
pub struct FrameAccess<'a> {
    window: &'a mut FrameWindow,
    of_this_thread: PhantomData<*const ()>,
}

impl FrameAccess<'_> {
    /// The address of the first frame. All of the window can be read and written, also if its frames are gone.
    #[must_use]
    pub const fn base(&self) -> NonNull<u8> {
        self.window.base
    }

    /// The number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        bytes(self.window.frames)
    }
}

/// Whether the frames of the window that this thread accesses are gone: a touch came too late.
#[must_use]
pub fn late_touch() -> bool {
    ACCESSED.get().touch != LateTouch::None
}

impl Drop for FrameAccess<'_> {
    fn drop(&mut self) {
        self.window.loss = self.window.seen();
        ACCESSED.set(NOTHING);
    }
}

fn bytes(frames: FrameRange) -> usize {
    usize::try_from(frames.bytes().get()).expect("a mapping is smaller than the addresses")
}

/// Puts the handler in place, once a process.
fn catch_late_touches() {
    BEFORE.get_or_init(|| {
        // SAFETY: all zeros is a valid `sigaction`, which the first call fills in; the second has a handler with the
        // signature that SA_SIGINFO demands, which only does what a signal handler may do.
        unsafe {
            let mut before: libc::sigaction = zeroed();
            libc::sigaction(SIGBUS, null(), &raw mut before);
            let mut ours: libc::sigaction = zeroed();
            ours.sa_sigaction = see_signal as *const () as usize;
            ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
            libc::sigaction(SIGBUS, &raw const ours, null_mut());
            before
        }
    });
}

extern "C" fn see_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a valid siginfo_t to a handler with SA_SIGINFO, and a SIGBUS has an address in it.
    let (address, code) = unsafe { ((*info).si_addr().addr(), (*info).si_code) };
    let accessed = ACCESSED.get();
    let is_ours = address.wrapping_sub(accessed.base) < accessed.bytes;
    if !is_ours || !put_memory_in_place_of(accessed) {
        return pass_on(signal, info, context);
    }
    let touch = if code == libc::BUS_MCEERR_AR { LateTouch::HardwareError(address) } else { LateTouch::Ended };
    ACCESSED.set(Accessed { touch, ..accessed });
}

fn put_memory_in_place_of(window: Accessed) -> bool {
    let both = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: the addresses are a window's, which is accessed by this thread only, through raw pointers, and whose
    // content has been lost.
    let mapped = unsafe { mm::mmap_anonymous(window.base as *mut c_void, window.bytes, both, flags) };
    mapped.is_ok()
}

/// Does what was done before this module caught the signal.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get() else { return reset() };
    let handler = before.sa_sigaction;
    if handler == SIG_DFL || handler == SIG_IGN {
        return reset();
    }
    if before.sa_flags & SA_SIGINFO != 0 {
        // SAFETY: with SA_SIGINFO, a handler that is neither of the two constants is a function of this signature.
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = unsafe { std::mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: without SA_SIGINFO, it is one of this signature.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
        handler(signal);
    }
}

/// The instruction that caused the signal is repeated, and ends the process.
fn reset() {
    // SAFETY: a default action calls nothing.
    unsafe { libc::signal(SIGBUS, SIG_DFL) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::os::fd::OwnedFd;

    const FRAMES: u64 = 4;

    /// A file in place of the device, in which only the first `present` of the window's frames are there.
    fn window(present: u64) -> (OwnedFd, FrameWindow) {
        let first = Frame::new(16).unwrap();
        let file = memfd_create("window", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, (16 + present) * FRAME_BYTES).unwrap();
        let window = FrameWindow::map(&file, FrameRange::new(first, FRAMES).unwrap()).unwrap();
        (file, window)
    }

    fn touch(access: &FrameAccess<'_>, page: u64, value: u8) -> u8 {
        let at = usize::try_from(page * FRAME_BYTES).unwrap();
        assert!(at < access.bytes());
        // SAFETY: the byte is in the window, as just asserted.
        unsafe {
            let byte = access.base().as_ptr().add(at);
            byte.write_volatile(value);
            byte.read_volatile()
        }
    }

    #[test]
    fn a_late_touch_meets_other_memory_and_is_noted() {
        let (file, mut window) = window(FRAMES);
        let access = window.access();
        assert_eq!((touch(&access, 3, 7), late_touch()), (7, false));
        drop(access);
        assert_eq!(window.loss(), None);
        ftruncate(&file, 16 * FRAME_BYTES).unwrap();
        let access = window.access();
        assert_eq!((touch(&access, 3, 8), late_touch()), (8, true));
        assert_eq!(touch(&access, 0, 9), 9, "all of the window is other memory");
        drop(access);
        assert_eq!(window.loss(), Some(WindowLoss::Ended));
        assert!(!late_touch(), "the next window is not lost");
        let access = window.access();
        assert!(late_touch(), "what is lost stays lost, though no touch shows it");
        drop(access);
        assert_eq!(window.loss(), Some(WindowLoss::Ended));
    }

    #[test]
    fn a_loss_is_the_thread_s_own() {
        let (_file, mut lost) = window(0);
        let access = lost.access();
        touch(&access, 1, 1);
        std::thread::spawn(|| {
            let (_file, mut there) = window(FRAMES);
            let access = there.access();
            assert_eq!((touch(&access, 1, 5), late_touch()), (5, false));
            drop(access);
            assert_eq!(there.loss(), None);
        })
        .join()
        .unwrap();
        assert!(late_touch());
    }

    #[test]
    fn an_error_of_the_hardware_names_its_frame() {
        let (_file, mut window) = window(FRAMES);
        let access = window.access();
        let address = access.base().addr().get() + 2 * 4096 + 64;
        // A process may send itself a signal with any content.
        // SAFETY: all zeros is a valid siginfo_t; the kernel copies it, and the address is only compared.
        unsafe {
            let mut info: siginfo_t = zeroed();
            info.si_signo = SIGBUS;
            info.si_code = libc::BUS_MCEERR_AR;
            (&raw mut info).cast::<u8>().add(16).cast::<usize>().write(address);
            let (process, thread) = (libc::getpid(), libc::gettid());
            assert_eq!(libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, SIGBUS, &raw const info), 0);
        }
        assert!(late_touch());
        drop(access);
        drop(window.access());
        assert_eq!(window.loss(), Frame::new(18).map(WindowLoss::HardwareError));
    }
}
