//! Accesses to memory that survive its loss.
//!
//! **Problem.** Memory can go away while a test loop writes to it: the kernel module takes frames back, or the hardware
//! finds an uncorrectable error. The next touch is a SIGBUS, which kills. A check before each access would cost too
//! much, and a handler must not jump out of Rust code. **Idea.** A thread says which memory it accesses. At a SIGBUS in
//! it, the handler puts ordinary memory in the place of what is gone and notes the loss. The loop runs on in that
//! memory, without meaning, until it checks for a loss. **Why this way.** A SIGBUS comes to the thread that caused it,
//! so what the handler needs is the thread's own: no table, no lock. A test checks every few hundred KiB, which limits
//! how much memory is put in place.
//!
//! Frames that the kernel module handed out are lost together, as their claim is. Of a program's own memory, only the
//! pages with errors are lost.
//!
//! Sources: sigaction(2); `BUS_ADRERR`, `BUS_MCEERR_AR` and `SI_KERNEL` of Linux, include/uapi/asm-generic/siginfo.h;
//! `kill_me_maybe` of arch/x86/kernel/cpu/mce/core.c.

#![expect(unsafe_code, reason = "a signal handler maps memory")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io;
use std::marker::PhantomData;
use std::mem::zeroed;
use std::ptr::{NonNull, null, null_mut};
use std::sync::OnceLock;

use libc::{SA_ONSTACK, SA_SIGINFO, SIG_DFL, SIG_IGN, SIGBUS, siginfo_t};
use rampart_memory::PAGE_BYTES;
use rustix::mm::{self, MapFlags, ProtFlags};

use crate::loss_notices;

/// Of a signal by which the kernel ends what it cannot go on with.
const SI_KERNEL: c_int = 0x80;

/// The most pages of one access that are lost one by one; with one more, all of its memory is.
const MOST_PAGES: usize = 16;

/// The exit code of a process that asked for notices of lost pages ([`want_loss_notices`]) and touched one before it
/// could heed the notice.
pub const LOST_ACCESS_EXIT: c_int = 86;

/// Why all memory of an access is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLoss {
    /// The claim of its frames has ended.
    Ended,
    /// The hardware found an error in it that it could not correct; the kernel has marked the frame.
    HardwareError,
}

/// Whose memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Module,
    Program,
}

/// The memory that a thread accesses, and what became of it; of no bytes if there is none.
#[derive(Clone, Copy)]
struct Accessed {
    base: usize,
    bytes: usize,
    owner: Owner,
    loss: Option<MemoryLoss>,
    /// Numbers of lost pages, from the first page on.
    lost: [Option<usize>; MOST_PAGES],
}

const NOTHING: Accessed = Accessed { base: 0, bytes: 0, owner: Owner::Program, loss: None, lost: [None; MOST_PAGES] };

thread_local! {
    static ACCESSED: Cell<Accessed> = const { Cell::new(NOTHING) };
}

/// What was done at a SIGBUS before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// An access to memory by the thread that began it, which has no other.
#[derive(Debug)]
pub struct SurvivingAccess {
    of_this_thread: PhantomData<*const ()>,
}

impl SurvivingAccess {
    /// Begins an access to frames that the kernel module hands out, or that are lost already.
    pub(crate) fn to_claim(base: NonNull<u8>, bytes: usize, loss: Option<MemoryLoss>) -> Self {
        Self::begin(Accessed { base: base.addr().get(), bytes, owner: Owner::Module, loss, ..NOTHING })
    }

    /// Begins an access to whole pages of this process.
    pub(crate) fn to_own(base: NonNull<u8>, bytes: usize) -> Self {
        Self::begin(Accessed { base: base.addr().get(), bytes, owner: Owner::Program, ..NOTHING })
    }

    fn begin(accessed: Accessed) -> Self {
        catch_signals();
        assert!(ACCESSED.get().bytes == 0, "a thread accesses one memory at a time");
        ACCESSED.set(accessed);
        Self { of_this_thread: PhantomData }
    }

    /// Why all of the memory is gone.
    #[must_use]
    pub fn loss(&self) -> Option<MemoryLoss> {
        ACCESSED.get().loss
    }

    /// The pages in which the hardware found errors that it could not correct, as far as they are known.
    pub fn lost_pages(&self) -> impl Iterator<Item = u64> + use<> {
        ACCESSED.get().lost.into_iter().flatten().map(|page| page as u64)
    }
}

impl Drop for SurvivingAccess {
    fn drop(&mut self) {
        ACCESSED.set(NOTHING);
    }
}

/// Whether all memory that this thread accesses is gone: a touch came too late.
#[must_use]
pub fn is_all_lost() -> bool {
    ACCESSED.get().loss.is_some()
}

/// Whether a page of the memory that this thread accesses is gone: what is read there says nothing about its frame.
#[must_use]
pub fn is_page_lost(page: u64) -> bool {
    let accessed = ACCESSED.get();
    accessed.loss.is_some() || accessed.lost.iter().flatten().any(|lost| *lost as u64 == page)
}

/// Puts the handler in place, once a process.
fn catch_signals() {
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
    if code == libc::BUS_MCEERR_AO && loss_notices::note(address) {
        return;
    }
    match change_by(ACCESSED.get(), code, address) {
        Some(change) if put_memory_in_place_of(change.base, change.bytes) => ACCESSED.set(change.after),
        // What was done before is Rust's own search for the end of a stack.
        _ if code == libc::BUS_MCEERR_AR && loss_notices::are_wanted() => end_at(address),
        _ => pass_on(signal, info, context),
    }
}

/// Ends the process, which cannot go on without the data that it was about to use. It says so, as far as a signal
/// handler may.
fn end_at(address: usize) -> ! {
    let mut line =
        *b"the hardware has lost the memory at 0x0000000000000000, which the program was about to use: ended\n";
    let digits = line.iter().position(|byte| *byte == b'x').expect("a number is in the line") + 1;
    for (at, place) in (0..16).rev().zip(digits..) {
        line[place] = b"0123456789abcdef"[address >> (4 * at) & 15];
    }
    // SAFETY: the line is memory of so many bytes; both calls may be made by a signal handler.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        libc::_exit(LOST_ACCESS_EXIT);
    }
}

/// What a signal does to memory: what is known of it then, and which part is to be replaced.
struct Change {
    after: Accessed,
    base: usize,
    bytes: usize,
}

impl Accessed {
    const fn lose_all(mut self, loss: MemoryLoss) -> Change {
        self.loss = Some(loss);
        Change { base: self.base, bytes: self.bytes, after: self }
    }

    fn lose_page(mut self, page: usize) -> Change {
        match self.lost.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(page),
            None => return self.lose_all(MemoryLoss::HardwareError),
        }
        Change { base: self.base + page * PAGE_BYTES, bytes: PAGE_BYTES, after: self }
    }
}

/// `None` if the signal is not about the memory.
fn change_by(accessed: Accessed, code: c_int, address: usize) -> Option<Change> {
    let offset = address.wrapping_sub(accessed.base);
    let is_inside = offset < accessed.bytes;
    match (code, accessed.owner) {
        (libc::BUS_MCEERR_AR, Owner::Program) if is_inside => Some(accessed.lose_page(offset / PAGE_BYTES)),
        (libc::BUS_MCEERR_AR, Owner::Module) if is_inside => Some(accessed.lose_all(MemoryLoss::HardwareError)),
        // The kernel names no address where it cannot take the page away, such as from a driver. What else has this
        // code, such as a bad stack pointer, comes again when the memory has been replaced.
        (SI_KERNEL, _) if accessed.bytes > 0 && accessed.loss.is_none() => {
            Some(accessed.lose_all(MemoryLoss::HardwareError))
        }
        (_, Owner::Module) if is_inside => Some(accessed.lose_all(MemoryLoss::Ended)),
        _ => None,
    }
}

fn put_memory_in_place_of(base: usize, bytes: usize) -> bool {
    let both = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: the addresses are of memory that is accessed by this thread only, through raw pointers, and whose content
    // has been lost.
    let mapped = unsafe { mm::mmap_anonymous(base as *mut c_void, bytes, both, flags) };
    mapped.is_ok()
}

/// Does what was done before this module caught the signal.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get() else { return reset() };
    let handler = before.sa_sigaction;
    if handler == SIG_DFL || handler == SIG_IGN {
        return reset();
    }
    let handler = std::ptr::with_exposed_provenance::<()>(handler);
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

/// Does to this thread what the kernel does when the hardware finds an error in memory that the thread reads: a SIGBUS
/// at this address, or at none where the kernel cannot take the page away. A test of what follows needs no bad memory.
/// Without an access to this memory, the process ends.
pub fn raise_hardware_error(at: Option<usize>) {
    match at {
        Some(address) => signal(libc::BUS_MCEERR_AR, address),
        None => signal(SI_KERNEL, 0),
    }
}

/// Asks for notices of lost pages before they are read ([`crate::take_loss_notices`]), for all memory of this process,
/// until it ends. The calling thread gets the signals, and must live as long as the memory.
///
/// # Errors
/// The kernel's, as of one that cannot handle memory errors; without notices, the program ends at the first touch, with
/// a line on standard error and the exit code [`LOST_ACCESS_EXIT`].
pub fn want_loss_notices() -> io::Result<()> {
    catch_signals();
    loss_notices::want()
}

/// Does to this thread what the kernel does when the hardware finds an error in memory that nobody reads.
pub fn raise_hardware_notice(address: usize) {
    signal(libc::BUS_MCEERR_AO, address);
}

/// Sends this thread a SIGBUS as of the kernel.
fn signal(code: c_int, address: usize) {
    // A process may send itself a signal with any content.
    // SAFETY: all zeros is a valid siginfo_t; the kernel copies it, and the address is only compared.
    unsafe {
        let mut info: siginfo_t = zeroed();
        info.si_signo = SIGBUS;
        info.si_code = code;
        (&raw mut info).cast::<u8>().add(16).cast::<usize>().write(address);
        let (process, thread) = (libc::getpid(), libc::gettid());
        let sent = libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, SIGBUS, &raw const info);
        assert_eq!(sent, 0, "a thread may signal itself");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, PageKind};
    use rampart_memory::Bytes;

    const PAGES: usize = 512;

    /// A block of which each page holds its number and 1.
    fn block() -> Block {
        let block = Block::claim(Bytes::new((PAGES * PAGE_BYTES) as u64), PageKind::Base).unwrap();
        (0..PAGES).for_each(|page| assert_eq!(word(&block, page, Some(page + 1)), page + 1));
        block
    }

    /// Writes the first word of a page, and returns it.
    fn word(block: &Block, page: usize, value: Option<usize>) -> usize {
        assert!(page < PAGES);
        // SAFETY: the word is in the block, as just asserted, and nobody else accesses it.
        unsafe {
            let word = block.base().as_ptr().add(page * PAGE_BYTES).cast::<usize>();
            value.into_iter().for_each(|value| word.write_volatile(value));
            word.read_volatile()
        }
    }

    fn address(block: &Block, page: usize) -> usize {
        block.base().addr().get() + page * PAGE_BYTES + 64
    }

    #[test]
    fn of_a_program_s_memory_only_the_pages_with_errors_are_lost() {
        let block = block();
        let access = block.access();
        for page in [7, 3] {
            raise_hardware_error(Some(address(&block, page)));
        }
        assert_eq!(access.lost_pages().collect::<Vec<_>>(), [7, 3]);
        assert_eq!([2, 3, 7].map(is_page_lost), [false, true, true]);
        assert_eq!([2, 3, 7].map(|page| word(&block, page, None)), [3, 0, 0], "other memory is there");
        assert!(access.loss().is_none() && !is_all_lost());
        drop(access);
        assert!(!is_page_lost(3), "the next access begins anew");
        drop(block.access());
    }

    #[test]
    fn an_error_without_an_address_loses_all() {
        let block = block();
        let access = block.access();
        raise_hardware_error(None);
        assert_eq!(access.loss(), Some(MemoryLoss::HardwareError));
        assert!(is_all_lost() && is_page_lost(0));
        assert_eq!([0, PAGES - 1].map(|page| word(&block, page, None)), [0, 0]);
    }

    #[test]
    fn with_too_many_pages_all_is_lost() {
        let block = block();
        let access = block.access();
        for page in 0..MOST_PAGES {
            raise_hardware_error(Some(address(&block, page)));
        }
        assert_eq!((access.lost_pages().count(), access.loss()), (MOST_PAGES, None));
        raise_hardware_error(Some(address(&block, MOST_PAGES)));
        assert_eq!(access.loss(), Some(MemoryLoss::HardwareError));
    }

    #[test]
    fn what_is_not_about_the_memory_is_passed_on() {
        let is_passed_on = |accessed, code, address| change_by(accessed, code, address).is_none();
        let own = Accessed { base: 4096, bytes: 8192, ..NOTHING };
        assert!(is_passed_on(NOTHING, SI_KERNEL, 0), "no memory is accessed");
        assert!(is_passed_on(own, libc::BUS_MCEERR_AR, 4095) && is_passed_on(own, libc::BUS_MCEERR_AR, 4096 + 8192));
        assert!(is_passed_on(own, libc::BUS_ADRERR, 5000), "a program's memory does not end");
        let lost = Accessed { loss: Some(MemoryLoss::HardwareError), ..own };
        assert!(is_passed_on(lost, SI_KERNEL, 0), "it would come for ever");
    }
    #[test]
    fn a_touch_of_lost_memory_before_its_notice_is_heeded_ends_the_process_with_a_line() {
        let mut ends = [0; 2];
        // SAFETY: the child makes system calls only, and leaves by the handler.
        let child = unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            let child = libc::fork();
            if child == 0 {
                libc::dup2(ends[1], libc::STDERR_FILENO);
                let _no_notices = want_loss_notices();
                raise_hardware_error(Some(0x1234_5000));
                libc::_exit(0);
            }
            libc::close(ends[1]);
            child
        };
        assert!(child > 0);
        let (mut said, mut status) = ([0; 200], 0);
        // SAFETY: the buffer has so many bytes; the end and the child are ours.
        let read = unsafe {
            let read = libc::read(ends[0], said.as_mut_ptr().cast(), said.len());
            libc::close(ends[0]);
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            read
        };
        let said = std::str::from_utf8(&said[..usize::try_from(read).unwrap()]).unwrap();
        assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, LOST_ACCESS_EXIT));
        let expected =
            "the hardware has lost the memory at 0x0000000012345000, which the program was about to use: ended\n";
        assert_eq!(said, expected);
    }
}
