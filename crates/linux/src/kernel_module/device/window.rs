//! A view of claimed frames that survives the end of their claim (`memory_loss`).

#![expect(unsafe_code, reason = "memory is mapped")]

use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};

use rampart_memory::{FRAME_BYTES, FrameRange};
use rustix::io::Result;
use rustix::mm::{self, MapFlags, ProtFlags};

use crate::memory_loss::{MemoryLoss, SurvivingAccess};

/// A mapping of frames, in the order of their numbers.
#[derive(Debug)]
pub(super) struct FrameWindow {
    base: NonNull<u8>,
    frames: FrameRange,
    loss: Option<MemoryLoss>,
}

// SAFETY: a window is addresses of this process, which are the same in all its threads.
unsafe impl Send for FrameWindow {}

impl FrameWindow {
    /// Maps frames of a file in which each is at its own physical address.
    pub(super) fn map(file: impl AsFd, frames: FrameRange) -> Result<Self> {
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
        let access = SurvivingAccess::to_claim(self.base, bytes(self.frames), self.loss);
        FrameAccess { window: self, access }
    }

    /// Why the frames are gone, as far as accesses that ended saw it.
    pub(super) const fn loss(&self) -> Option<MemoryLoss> {
        self.loss
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
    access: SurvivingAccess,
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

impl Drop for FrameAccess<'_> {
    fn drop(&mut self) {
        self.window.loss = self.access.loss();
    }
}

fn bytes(frames: FrameRange) -> usize {
    usize::try_from(frames.bytes().get()).expect("a mapping is smaller than the addresses")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_loss::{is_all_lost, raise_hardware_error};
    use rampart_memory::Frame;
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
        assert_eq!((touch(&access, 3, 7), is_all_lost()), (7, false));
        drop(access);
        assert_eq!(window.loss(), None);
        ftruncate(&file, 16 * FRAME_BYTES).unwrap();
        let access = window.access();
        assert_eq!((touch(&access, 3, 8), is_all_lost()), (8, true));
        assert_eq!(touch(&access, 0, 9), 9, "all of the window is other memory");
        drop(access);
        assert_eq!(window.loss(), Some(MemoryLoss::Ended));
        assert!(!is_all_lost(), "the next window is not lost");
        let access = window.access();
        assert!(is_all_lost(), "what is lost stays lost, though no touch shows it");
        drop(access);
        assert_eq!(window.loss(), Some(MemoryLoss::Ended));
    }

    #[test]
    fn a_loss_is_the_thread_s_own() {
        let (_file, mut lost) = window(0);
        let access = lost.access();
        touch(&access, 1, 1);
        std::thread::spawn(|| {
            let (_file, mut there) = window(FRAMES);
            let access = there.access();
            assert_eq!((touch(&access, 1, 5), is_all_lost()), (5, false));
            drop(access);
            assert_eq!(there.loss(), None);
        })
        .join()
        .unwrap();
        assert!(is_all_lost());
    }

    #[test]
    fn an_error_of_the_hardware_is_told_apart_with_and_without_an_address() {
        for offset in [Some(2 * 4096 + 64), None] {
            let (_file, mut window) = window(FRAMES);
            let access = window.access();
            raise_hardware_error(offset.map(|offset| access.base().addr().get() + offset));
            assert!(is_all_lost());
            assert_eq!(touch(&access, 3, 9), 9, "all of the window is other memory");
            drop(access);
            drop(window.access());
            assert_eq!(window.loss(), Some(MemoryLoss::HardwareError));
        }
    }
}
