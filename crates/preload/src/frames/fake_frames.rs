//! A test's kernel: it says where pages are and which frames are marked, and retires none.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::thread;

use rampart_linux::shared::{HeldFrame, SharedRange};
use rampart_linux::vault::VaultSpan;
use rampart_linux::{PageKind, Pagemap, Roots};
use rampart_memory::{Bytes, FRAME_BYTES, Frame};
use rampart_skips::{Feature, granted};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// The mark of a retired frame (`KPF_HWPOISON`).
const POISONED: u64 = 1 << 19;

/// The kernel's files in a folder.
pub struct FakeFrames {
    folder: tempfile::TempDir,
    pages: File,
    flags: File,
}

impl FakeFrames {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("self")).unwrap();
        let pages = File::create_new(folder.path().join("self/pagemap")).unwrap();
        // As long as the addresses of a process, and without a single entry.
        pages.set_len((1 << 48) / FRAME_BYTES * 8).unwrap();
        let flags = File::create_new(folder.path().join("kpageflags")).unwrap();
        flags.set_len(1 << 20).unwrap();
        Self { folder, pages, flags }
    }

    pub fn roots(&self) -> Roots {
        Roots::new(self.folder.path(), self.folder.path())
    }

    pub fn pagemap(&self) -> Pagemap {
        Pagemap::open(&self.roots()).unwrap()
    }

    /// Puts a page of the block that begins here into a frame: bit 63 of an entry says that it has one.
    pub fn put(&self, block: NonNull<u8>, page: u64, frame: u64) {
        let at = (block.addr().get() as u64 / FRAME_BYTES + page) * 8;
        self.pages.write_all_at(&(1 << 63 | frame).to_ne_bytes(), at).unwrap();
    }

    /// Says of a page that its frame was lost: bit 62, and the number above the type.
    pub fn lose(&self, block: NonNull<u8>, page: u64, frame: u64) {
        let at = (block.addr().get() as u64 / FRAME_BYTES + page) * 8;
        self.pages.write_all_at(&(1 << 62 | frame << 5).to_ne_bytes(), at).unwrap();
    }

    /// Marks a frame as retired.
    pub fn mark(&self, frame: Frame) {
        self.flags.write_all_at(&POISONED.to_ne_bytes(), frame.number() * 8).unwrap();
    }

    /// A page of zeros that has just left this frame; `None` where this kernel has no such ranges.
    pub fn held(&self, frame: u64) -> Option<HeldFrame> {
        let range = SharedRange::prepare(Bytes::from_mib(2), PageKind::Base).unwrap();
        granted(&[Feature::UserfaultfdMinor, Feature::UserfaultfdKernelFaults], range.open(&Roots::default()))?;
        range.arm(&[]).unwrap();
        let pages = VaultSpan::new(0, 8).unwrap();
        range.fill(pages).unwrap();
        // Another test may fork meanwhile.
        let is_locked = (0..10_000).any(|_| {
            thread::yield_now();
            range.lock(pages).is_ok()
        });
        assert!(is_locked);
        self.put(range.behind(3), 0, frame);
        Some(range.replace(3, Some(&self.pagemap())).unwrap())
    }
}

/// Runs this where the kernel of this machine retires nothing: in a thread without the right to request it.
pub fn without_right<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let in_thread = || {
        let mut rights = capabilities(None).unwrap();
        rights.effective.remove(CapabilitySet::SYS_ADMIN);
        set_capabilities(None, rights).unwrap();
        work()
    };
    thread::scope(|scope| scope.spawn(in_thread).join().unwrap())
}
