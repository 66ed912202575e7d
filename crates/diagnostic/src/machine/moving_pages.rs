//! This machine, but for the frames of pages: a test says where each page is, and when it moves.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use rampart_linux::{Block, Roots};
use rampart_memory::FRAME_BYTES;

use super::MachineUnderTest;

/// Bit 63 of an entry of `/proc/self/pagemap`: the page has a frame.
pub const PRESENT: u64 = 1 << 63;

/// User addresses of x86-64 and aarch64 with four levels of page tables.
pub const ADDRESSES: u64 = 1 << 48;

/// The file that says in which frame each page is.
pub struct MovingPages {
    folder: tempfile::TempDir,
    pagemap: File,
}

impl MovingPages {
    /// No page has a frame. All other files are the kernel's.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (own, real) = (folder.path().join("self"), Roots::default());
        fs::create_dir(&own).unwrap();
        link_all(&real.proc(""), folder.path(), "self");
        link_all(&real.proc("self"), &own, "pagemap");
        let pagemap = File::create_new(own.join("pagemap")).unwrap();
        // Without a single entry, it takes no space on disk.
        pagemap.set_len(ADDRESSES / FRAME_BYTES * 8).unwrap();
        Self { folder, pagemap }
    }

    /// The machine with these pages.
    pub fn machine(&self) -> MachineUnderTest {
        MachineUnderTest::below(Roots::new(self.folder.path(), Roots::default().sys("")))
    }

    /// Puts the pages of a block into frames from `first` on.
    pub fn place(&self, block: &Block, first: u64) {
        let base = block.base().addr().get() as u64;
        (0..block.pages()).for_each(|page| self.put(base + page * FRAME_BYTES, first + page));
    }

    /// Puts the page at an address into a frame.
    pub fn put(&self, address: u64, frame: u64) {
        self.pagemap.write_all_at(&(PRESENT | frame).to_ne_bytes(), address / FRAME_BYTES * 8).unwrap();
    }
}

/// Links to what is in a folder, except for one name and for other processes.
fn link_all(from: &Path, to: &Path, except: &str) {
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        if name != except && !name.to_string_lossy().starts_with(|first: char| first.is_ascii_digit()) {
            symlink(from.join(&name), to.join(&name)).unwrap();
        }
    }
}
