//! A machine whose files in `/proc` and `/sys` a test writes: how much memory is free, in which frame each page is, and
//! what each frame is used for. The memory that is claimed is real.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use rampart_linux::memory_loss::raise_hardware_error;
use rampart_linux::{Block, Roots, SystemClock};
use rampart_memory::{Bytes, Clock, FRAME_BYTES, Frame, Timestamp};

use super::MachineUnderTest;
use super::moving_pages::{ADDRESSES, PRESENT};

/// Bits of an entry of `/proc/kpageflags`.
pub const SLAB: u64 = 1 << 7;
pub const FREE: u64 = 1 << 10;
pub const ANONYMOUS: u64 = 1 << 12;
pub const POISONED: u64 = 1 << 19;
pub const RESERVED: u64 = 1 << 32;

const ENTRY: u64 = 8;

/// The machine's files.
pub struct FakeMachine {
    _folder: tempfile::TempDir,
    roots: Roots,
    pagemap: File,
}

impl FakeMachine {
    /// All memory of the machine.
    pub const TOTAL: Bytes = Bytes::from_mib(1024);

    /// A machine of which half is free; no page has a frame, and nobody knows what frames are used for. The kernel
    /// retires each frame that it is asked to.
    pub fn new() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let roots = Roots::new(folder.path().join("proc"), folder.path().join("sys"));
        fs::create_dir_all(roots.proc("self")).unwrap();
        fs::create_dir_all(roots.proc("sys/vm")).unwrap();
        fs::write(roots.proc("sys/vm/memory_failure_recovery"), "1\n").unwrap();
        fs::create_dir_all(roots.sys("devices/system/memory")).unwrap();
        fs::write(roots.sys("devices/system/memory/soft_offline_page"), "").unwrap();
        let pagemap = File::create_new(roots.proc("self/pagemap")).unwrap();
        pagemap.set_len(ADDRESSES / FRAME_BYTES * ENTRY).unwrap();
        let fake = Self { _folder: folder, roots, pagemap };
        fake.set_free(Bytes::from_mib(512));
        fake.set_used(Bytes::ZERO);
        fake
    }

    pub fn machine(&self) -> MachineUnderTest {
        MachineUnderTest::below(self.roots.clone())
    }

    pub fn set_free(&self, free: Bytes) {
        let text = format!("MemTotal: {} kB\nMemFree: {} kB\n", Self::TOTAL.get() >> 10, free.get() >> 10);
        fs::write(self.roots.proc("meminfo"), text).unwrap();
    }

    /// Sets how much memory this process uses.
    pub fn set_used(&self, used: Bytes) {
        let kib = used.get() >> 10;
        fs::write(self.roots.proc("self/status"), format!("VmSize: {kib} kB\nVmRSS: {kib} kB\n")).unwrap();
    }

    /// Puts the pages of a block into frames from `first` on.
    pub fn place(&self, block: &Block, first: u64) {
        let entries: Vec<u8> =
            (first..first + block.pages()).flat_map(|frame| (PRESENT | frame).to_ne_bytes()).collect();
        self.pagemap.write_all_at(&entries, block.base().addr().get() as u64 / FRAME_BYTES * ENTRY).unwrap();
    }

    /// Puts the page at an address into a frame.
    pub fn put(&self, address: u64, frame: u64) {
        self.pagemap.write_all_at(&(PRESENT | frame).to_ne_bytes(), address / FRAME_BYTES * ENTRY).unwrap();
    }

    /// Says what the frames from 0 on are used for. From then on, a frame that the kernel does not mark is not retired.
    pub fn use_frames(&self, flags: impl IntoIterator<Item = u64>) {
        let entries: Vec<u8> = flags.into_iter().flat_map(u64::to_ne_bytes).collect();
        fs::write(self.roots.proc("kpageflags"), entries).unwrap();
    }

    /// Adds a node with these CPUs and without memory.
    pub fn add_node(&self, number: usize, cpus: &str) {
        let node = self.roots.sys("devices/system/node").join(format!("node{number}"));
        fs::create_dir_all(&node).unwrap();
        fs::write(node.join("cpulist"), cpus).unwrap();
    }

    /// Adds a memory block of 1 MiB.
    pub fn add_memory_block(&self, number: u32, state: &str, zone: &str) {
        let folder = self.roots.sys("devices/system/memory");
        let block = folder.join(format!("memory{number}"));
        fs::create_dir_all(block.join("node0")).unwrap();
        fs::write(folder.join("block_size_bytes"), "100000").unwrap();
        fs::write(block.join("state"), state).unwrap();
        fs::write(block.join("valid_zones"), zone).unwrap();
    }

    /// Shows that no frame below this number was ever tested, as the kernel module does.
    pub fn add_ages(&self, frames: u64) {
        let folder = self.roots.sys("kernel/rampart");
        fs::create_dir_all(&folder).unwrap();
        File::create(folder.join("ages")).unwrap().set_len(frames * 4).unwrap();
    }

    /// Gives programs a zone of their own.
    pub fn add_user_zone(&self) {
        let zone = |name| format!("Node 0, zone {name}\n  pages free 65536\n        high 0\n        managed 131072\n");
        fs::write(self.roots.proc("zoneinfo"), format!("{}{}", zone("Normal"), zone("Movable"))).unwrap();
    }

    /// Whether the kernel was asked to retire a frame.
    pub fn was_asked_to_retire(&self, frame: Frame) -> bool {
        let asked = fs::read_to_string(self.roots.sys("devices/system/memory/soft_offline_page")).unwrap();
        asked.starts_with(&format!("{:#x}", frame.address()))
    }
}

/// Where the hardware finds an error at the next reading of a [`FailingClock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardwareError {
    At(u64),
    /// At no address: the kernel cannot take the page away.
    Nowhere,
}

/// A clock that is read at each mismatch. Then, in the middle of a test, the hardware finds an error, once.
#[derive(Clone, Debug, Default)]
pub struct FailingClock(Arc<Mutex<Option<HardwareError>>>);

impl FailingClock {
    pub fn fail(&self, error: HardwareError) {
        *self.0.lock().unwrap() = Some(error);
    }
}

impl Clock for FailingClock {
    fn now(&self) -> Timestamp {
        match self.0.lock().unwrap().take() {
            None => {}
            Some(HardwareError::At(address)) => raise_hardware_error(usize::try_from(address).ok()),
            Some(HardwareError::Nowhere) => raise_hardware_error(None),
        }
        SystemClock.now()
    }
}
