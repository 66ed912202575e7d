//! How much memory there is to take, and how much other programs need it.
//!
//! **Problem.** A test that takes the last free memory gets a program killed, perhaps itself. **Idea.** One
//! [`MemoryState`] holds everything that changes from one moment to the next: free and available memory, the time that
//! programs lose to reclaim, and the limit of a container; [`KernelWatermarks`], at which the kernel begins to reclaim,
//! are constant, and [`ZoneMemory`] shows zones one by one. **Why this way.** The parsers are functions from text to
//! values and the decision is made above, so the memory reserve can be tested without a machine.

mod cgroup;
pub(crate) mod meminfo;
mod overcommit;
mod pressure;
mod watermarks;
mod zones;

use rampart_memory::Bytes;
use serde::Serialize;

pub use self::cgroup::CgroupMemory;
pub use self::meminfo::MemInfo;
pub use self::overcommit::Overcommit;
pub use self::pressure::{Pressure, Stall};
pub use self::watermarks::KernelWatermarks;
pub use self::zones::ZoneMemory;
use crate::roots::require;
use crate::{Error, Roots};

/// Memory at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MemoryState {
    /// The whole machine.
    pub machine: MemInfo,
    /// Time lost to a lack of memory; `None` on a kernel without PSI or with it switched off.
    pub pressure: Option<Pressure>,
    /// The binding control group; `None` if none has a limit.
    pub cgroup: Option<CgroupMemory>,
}

impl MemoryState {
    /// Reads everything. Missing parts other than `/proc/meminfo` are `None`.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::Malformed`] if `/proc/meminfo` does not show them.
    pub fn read(roots: &Roots) -> Result<Self, Error> {
        let path = roots.proc("meminfo");
        let machine =
            MemInfo::parse(&require(&path)?).ok_or(Error::Malformed { path, expected: "MemTotal and MemFree" })?;
        Ok(Self { machine, pressure: Pressure::read(roots), cgroup: CgroupMemory::read(roots, machine.total) })
    }

    /// All memory that this process could ever have: the machine's, or its container's limit.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.cgroup.map_or(self.machine.total, |group| group.limit.min(self.machine.total))
    }

    /// Unused memory that this process could take.
    #[must_use]
    pub fn free(&self) -> Bytes {
        self.within_group(self.machine.free)
    }

    /// Memory that this process could take without swapping; some of it holds cached files now.
    #[must_use]
    pub fn available(&self) -> Bytes {
        self.within_group(self.machine.available)
    }

    fn within_group(&self, bytes: Bytes) -> Bytes {
        self.cgroup.map_or(bytes, |group| group.headroom().min(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_container_s_limit_counts_as_the_machine() {
        let group =
            CgroupMemory { limit: Bytes::from_mib(512), usage: Bytes::from_mib(500), inactive_files: Bytes::ZERO };
        let machine = MemInfo {
            total: Bytes::from_mib(4096),
            free: Bytes::from_mib(3000),
            available: Bytes::from_mib(3500),
            hardware_corrupted: None,
        };
        let free = MemoryState { machine, ..MemoryState::default() };
        assert_eq!((free.total(), free.free(), free.available()), (machine.total, machine.free, machine.available));
        let bound = MemoryState { cgroup: Some(group), ..free };
        assert_eq!(bound.total(), Bytes::from_mib(512));
        assert_eq!((bound.free(), bound.available()), (Bytes::from_mib(12), Bytes::from_mib(12)));
    }

    #[test]
    fn only_meminfo_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::new(folder.path(), folder.path());
        assert!(matches!(MemoryState::read(&roots), Err(Error::Read { .. })));
        fs::write(folder.path().join("meminfo"), "nonsense").unwrap();
        assert!(matches!(MemoryState::read(&roots), Err(Error::Malformed { .. })));
        fs::write(folder.path().join("meminfo"), "MemTotal: 8 kB\nMemFree: 4 kB\n").unwrap();
        let state = MemoryState::read(&roots).unwrap();
        assert_eq!((state.total(), state.free()), (Bytes::new(8192), Bytes::new(4096)));
        assert_eq!((state.pressure, state.cgroup), (None, None));
        assert_eq!(KernelWatermarks::read(&roots), None);
    }

    #[test]
    fn this_machine_has_memory_and_some_is_available() {
        let state = MemoryState::read(&Roots::default()).unwrap();
        assert!(state.total() > Bytes::ZERO);
        assert!(state.free() <= state.total());
        if let Some(marks) = KernelWatermarks::read(&Roots::default()) {
            assert!(marks.min <= marks.low && marks.low <= marks.high);
        }
    }
}
