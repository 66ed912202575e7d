//! The module's device: its owner claims chosen frames of the machine, sees them, and gives them back with a verdict.
//!
//! **Problem.** A claim can end at any time without its owner: memory is short, or its time is up. The owner must
//! neither die of a late touch nor judge frames that others have by then. **Idea.** A [`ClaimedFrames`] has the number
//! of its claim, which the module compares with each verdict, and a [`FrameWindow`], whose late touches meet other
//! memory. **Why this way.** The test loops need not know: they run to their next stop, where
//! [`is_all_lost`](crate::memory_loss::is_all_lost) ends them.
//!
//! Frames are claimed in two ways. [`ModuleDevice::claim`] takes a range that the owner chose, free or in use, and is
//! the one to begin with: it has nearly all frames. The kernel refuses it where a page that cannot be moved lies in the
//! same 2 MiB. What is free beside such pages, [`ModuleDevice::claim_listed`] takes from the kernel's free lists, block
//! by block; which block that is, the kernel says. Memory that comes online waits for its test before anybody uses it:
//! [`ModuleDevice::claim_new`].
//!
//! Source: `docs/kernel-abi.md`.

mod abi;
mod lists;
mod opened;
mod requests;
mod window;

use std::fs::OpenOptions;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use rampart_memory::{Frame, FrameRange, Node, TestLifetime};
use rustix::io::Errno;

pub use self::lists::{KernelFreeList, KernelMigratetype, KernelZone, ListPart, ListRefusal};
use self::opened::OpenedDevice;
pub use self::requests::{ModuleRequests, NewClaim};
pub use self::window::FrameAccess;
use self::window::FrameWindow;
use super::{DEVICE, KernelModuleView, LoadedModule};
use crate::memory_loss::MemoryLoss;
use crate::retire::goes_on_after_errors;
use crate::{Absence, Roots};

/// The device, which this process owns until this and all claims are dropped.
#[derive(Debug)]
pub struct ModuleDevice {
    module: Box<dyn ModuleRequests>,
    roots: Roots,
}

/// How frames are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimWay {
    /// Only if all are free.
    Free,
    /// The content of those in use is moved to other frames first.
    Move,
}

/// Why frames cannot be claimed.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum ClaimRefusal {
    /// {in_use} frames are in use, or the kernel cannot take them now
    Busy {
        /// How many frames were in use.
        in_use: u64,
    },
    /// a frame is no memory that is online, or is reserved or retired
    NotMemory,
    /// too little memory is free
    MemoryShort,
    /// the module refused a claim: {0}
    Unexpected(Errno),
}

/// Why a verdict was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum VerdictRefusal {
    /// the claim has ended before
    Late,
    /// more than a hundredth of the memory would be retired
    TooMany,
    /// the kernel would stop the machine at a bad frame (vm.memory_failure_recovery is 0)
    WouldStop,
    /// the module refused a verdict: {0}
    Unexpected(Errno),
}

/// The result of the test of claimed frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimVerdict<'a> {
    /// The test did not run to its end; these frames are bad all the same, and are retired.
    NotTested(&'a [Frame]),
    /// These frames are bad, and are retired; the others are good.
    Tested(&'a [Frame]),
}

impl ModuleDevice {
    /// Opens the device of the loaded module.
    ///
    /// # Errors
    /// If no module of this version is loaded, another process owns the device, or this process may not.
    pub fn open(roots: &Roots) -> Result<Self, Absence> {
        if LoadedModule::find(roots).is_none() {
            return Err(Absence::new(
                "it is not loaded",
                "`rampart kernel build`, then `rampart kernel load`, as root",
            ));
        }
        KernelModuleView::read(roots)?;
        let opened = OpenOptions::new().read(true).write(true).open(DEVICE);
        let file = opened.map_err(|cause| match cause.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::BUSY) => {
                let users =
                    LoadedModule::find(roots).map_or_else(|| "another process".to_owned(), |module| module.users());
                Absence::new(format!("{DEVICE} is in use ({users})"), "stop that program, then try again")
            }
            Some(Errno::PERM | Errno::ACCESS) => Absence::new(
                format!("{DEVICE} may not be opened"),
                "it needs CAP_SYS_ADMIN and CAP_SYS_RAWIO, outside of a container, and a kernel without lockdown",
            ),
            _ => Absence::of_file(DEVICE.as_ref(), &cause, "Rampart's module"),
        })?;
        Ok(Self::over(OpenedDevice(file), roots))
    }

    /// The device of anything that takes the module's requests, on the machine whose files are below `roots`.
    pub fn over(module: impl ModuleRequests + 'static, roots: &Roots) -> Self {
        Self { module: Box::new(module), roots: roots.clone() }
    }

    /// Shows that this process goes on: the time of all its claims begins anew. A claim ends after 30 s without.
    pub fn renew(&self) {
        self.module.renew();
    }

    /// Sets how long a test is good, by which the module counts what is allocated and freed. In whole seconds: both are
    /// rounded against the frames.
    ///
    /// # Errors
    /// If nothing of the lifetime is left.
    pub fn set_lifetime(&self, bound: TestLifetime) -> Result<(), Errno> {
        self.module.set_lifetime(bound)
    }

    /// Claims frames, at most [`ClaimedFrames::MOST`]. They hold zeros.
    ///
    /// # Errors
    /// If the kernel does not give all of them; then it keeps all.
    pub fn claim(self: &Arc<Self>, frames: FrameRange, way: ClaimWay) -> Result<ClaimedFrames, ClaimRefusal> {
        self.claimed(self.module.claim(frames, way)?).map_err(ClaimRefusal::Unexpected)
    }

    /// Claims the first block of a free list. Its frames hold zeros.
    ///
    /// A block that goes back is the first of its list again. So the owner keeps the blocks of one list until the list
    /// is empty, gives them back, and goes on to the next. While it has those of one order, the kernel allocates from
    /// the other orders; if it had all, the kernel would put its own memory among that of programs.
    ///
    /// # Errors
    /// If there is no such list, it is empty, or the kernel does not give a block.
    pub fn claim_listed(self: &Arc<Self>, list: KernelFreeList, part: ListPart) -> Result<ClaimedFrames, ListRefusal> {
        self.claimed(self.module.claim_listed(list, part)?).map_err(ListRefusal::Unexpected)
    }

    /// Claims a block of memory that came online on a node and was not used yet, at most 4 MiB. Its frames hold zeros.
    /// From the first call on, memory that comes online waits for this process. Given back as not tested, the block
    /// waits again.
    ///
    /// # Errors
    /// If none waits, or the kernel does not give a block.
    pub fn claim_new(self: &Arc<Self>, node: Node) -> Result<ClaimedFrames, ListRefusal> {
        self.claimed(self.module.claim_new(node)?).map_err(ListRefusal::Unexpected)
    }

    /// Claims a block of a node for which a task waits that allocates, on a kernel with `kernel/patches`. Its frames
    /// hold zeros. The task gets them with a good verdict, or without one, and waits for at most ten seconds.
    ///
    /// # Errors
    /// If no task waits for a block.
    pub fn claim_demanded(self: &Arc<Self>, node: Node) -> Result<ClaimedFrames, ListRefusal> {
        self.claimed(self.module.claim_demanded(node)?).map_err(ListRefusal::Unexpected)
    }

    /// Waits until a task waits for a block of any node, for at most this time.
    pub fn await_demand(&self, longest: Duration) {
        self.module.await_demand(longest);
    }

    /// A claim that this thread has just made, and a window of its frames; without a window, the claim ends.
    fn claimed(self: &Arc<Self>, claim: NewClaim) -> Result<ClaimedFrames, Errno> {
        let window = FrameWindow::map(self.module.memory(&claim), claim.frames).inspect_err(|_| {
            let _given = self.module.give_back(&claim, ClaimVerdict::NotTested(&[]));
        })?;
        Ok(ClaimedFrames { device: Arc::clone(self), claim, is_held: true, window })
    }
}

/// Frames that this process has claimed. Dropped, they go back as not tested.
#[derive(Debug)]
pub struct ClaimedFrames {
    device: Arc<ModuleDevice>,
    claim: NewClaim,
    /// Until it is given back.
    is_held: bool,
    window: FrameWindow,
}

impl ClaimedFrames {
    /// The most frames of one claim: 32 MiB (`RAMPART_CLAIM_MOST`).
    pub const MOST: u64 = abi::CLAIM_MOST;

    /// The frames.
    #[must_use]
    pub const fn frames(&self) -> FrameRange {
        self.claim.frames
    }

    /// How many of them were in use; what was in them was moved.
    #[must_use]
    pub const fn moved(&self) -> u64 {
        self.claim.moved
    }

    /// The address of the first frame in this process.
    #[must_use]
    pub const fn base(&self) -> NonNull<u8> {
        self.window.base()
    }

    /// Begins to access the frames from this thread. Late touches are harmless until the access is dropped.
    pub fn access(&mut self) -> FrameAccess<'_> {
        self.window.access()
    }

    /// Why the frames are no longer there, if an access found out.
    #[must_use]
    pub const fn loss(&self) -> Option<MemoryLoss> {
        self.window.loss()
    }

    /// Gives the frames back.
    ///
    /// # Errors
    /// If the verdict is not accepted. Unless it is too late, the frames stay claimed.
    pub fn give_back(&mut self, verdict: ClaimVerdict<'_>) -> Result<(), VerdictRefusal> {
        if !self.is_held {
            return Err(VerdictRefusal::Late);
        }
        let (ClaimVerdict::NotTested(bad) | ClaimVerdict::Tested(bad)) = verdict;
        // Asked each time: it can be changed at any time, and a bad frame is rare.
        if !bad.is_empty() && !goes_on_after_errors(&self.device.roots) {
            return Err(VerdictRefusal::WouldStop);
        }
        let given = self.device.module.give_back(&self.claim, verdict);
        self.is_held = given == Err(VerdictRefusal::TooMany);
        given
    }
}

impl Drop for ClaimedFrames {
    fn drop(&mut self) {
        if self.is_held {
            // It can only be too late.
            let _given = self.give_back(ClaimVerdict::NotTested(&[]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::fs;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::sync::Mutex;

    /// Whether each verdict was that of a whole test, and the number of bad frames.
    type Verdicts = Arc<Mutex<Vec<(bool, usize)>>>;

    /// Grants each claim. Refuses verdicts with the given answers first, then accepts them.
    #[derive(Debug)]
    struct Answers {
        /// A file that cannot be mapped, or one that can.
        memory: OwnedFd,
        answers: Mutex<Vec<VerdictRefusal>>,
        verdicts: Verdicts,
    }

    impl ModuleRequests for Answers {
        fn claim(&self, frames: FrameRange, _: ClaimWay) -> Result<NewClaim, ClaimRefusal> {
            Ok(NewClaim { number: 7, frames, moved: 3 })
        }
        fn claim_listed(&self, _: KernelFreeList, _: ListPart) -> Result<NewClaim, ListRefusal> {
            Err(ListRefusal::Empty)
        }
        fn claim_new(&self, _: Node) -> Result<NewClaim, ListRefusal> {
            Err(ListRefusal::NotOffered)
        }
        fn claim_demanded(&self, _: Node) -> Result<NewClaim, ListRefusal> {
            Err(ListRefusal::MemoryShort)
        }
        fn await_demand(&self, _: Duration) {}
        fn give_back(&self, claim: &NewClaim, verdict: ClaimVerdict<'_>) -> Result<(), VerdictRefusal> {
            assert_eq!(claim.number, 7);
            let (ClaimVerdict::NotTested(bad) | ClaimVerdict::Tested(bad)) = verdict;
            self.verdicts.lock().unwrap().push((matches!(verdict, ClaimVerdict::Tested(_)), bad.len()));
            self.answers.lock().unwrap().pop().map_or(Ok(()), Err)
        }
        fn set_lifetime(&self, _: TestLifetime) -> Result<(), Errno> {
            Err(Errno::INVAL)
        }
        fn renew(&self) {}
        fn memory(&self, _: &NewClaim) -> BorrowedFd<'_> {
            self.memory.as_fd()
        }
    }

    /// A device, its verdicts, and the folder of a kernel that goes on after errors, or does not.
    fn device(
        memory: OwnedFd,
        answers: &[VerdictRefusal],
        goes_on: &str,
    ) -> (Arc<ModuleDevice>, Verdicts, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("sys/vm")).unwrap();
        fs::write(folder.path().join("sys/vm/memory_failure_recovery"), goes_on).unwrap();
        let verdicts = Verdicts::default();
        let answers = Mutex::new(answers.iter().rev().cloned().collect());
        let module = Answers { memory, answers, verdicts: Arc::clone(&verdicts) };
        (Arc::new(ModuleDevice::over(module, &Roots::new(folder.path(), folder.path()))), verdicts, folder)
    }

    fn memory() -> OwnedFd {
        memfd_create("frames", MemfdFlags::CLOEXEC).unwrap()
    }

    fn frames() -> FrameRange {
        FrameRange::new(Frame::new(16).unwrap(), 4).unwrap()
    }

    #[test]
    fn a_claim_goes_back_once_and_without_a_verdict_as_not_tested() {
        let (device, verdicts, _folder) = device(memory(), &[VerdictRefusal::TooMany], "1\n");
        let mut claimed = device.claim(frames(), ClaimWay::Move).unwrap();
        assert_eq!((claimed.frames(), claimed.moved(), claimed.loss()), (frames(), 3, None));
        let bad = [Frame::new(17).unwrap()];
        assert_eq!(claimed.give_back(ClaimVerdict::Tested(&bad)), Err(VerdictRefusal::TooMany));
        assert_eq!(claimed.give_back(ClaimVerdict::Tested(&[])), Ok(()), "it was still claimed");
        assert_eq!(claimed.give_back(ClaimVerdict::Tested(&[])), Err(VerdictRefusal::Late));
        drop(claimed);
        assert_eq!(*verdicts.lock().unwrap(), [(true, 1), (true, 0)]);
        drop(device.claim(frames(), ClaimWay::Free).unwrap());
        assert_eq!(verdicts.lock().unwrap().last(), Some(&(false, 0)));
    }

    #[test]
    fn a_bad_frame_is_not_named_to_a_kernel_that_would_stop() {
        let (device, verdicts, _folder) = device(memory(), &[VerdictRefusal::Late], "0\n");
        let mut claimed = device.claim(frames(), ClaimWay::Free).unwrap();
        let bad = [Frame::new(17).unwrap()];
        assert_eq!(claimed.give_back(ClaimVerdict::NotTested(&bad)), Err(VerdictRefusal::WouldStop));
        assert_eq!(*verdicts.lock().unwrap(), []);
        assert_eq!(claimed.give_back(ClaimVerdict::NotTested(&[])), Err(VerdictRefusal::Late));
        drop(claimed);
        assert_eq!(*verdicts.lock().unwrap(), [(false, 0)], "what is too late is not said twice");
    }

    #[test]
    fn a_claim_without_a_window_ends() {
        let (_, cannot_be_mapped) = rustix::pipe::pipe().unwrap();
        let (device, verdicts, _folder) = device(cannot_be_mapped, &[], "1\n");
        assert!(matches!(device.claim(frames(), ClaimWay::Free), Err(ClaimRefusal::Unexpected(_))));
        assert_eq!(*verdicts.lock().unwrap(), [(false, 0)]);
    }
}
