//! Requests to the kernel at the opening: features of a userfaultfd, and the faults that a range is registered for.

use std::fmt;

/// Features of a userfaultfd, as a set. Source: include/uapi/linux/userfaultfd.h, `UFFD_FEATURE_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u64);

const NAMES: [(Features, &str); 12] = [
    (Features::EVENT_REMAP, "EVENT_REMAP"),
    (Features::EVENT_REMOVE, "EVENT_REMOVE"),
    (Features::EVENT_UNMAP, "EVENT_UNMAP"),
    (Features::WRITE_PROTECT, "PAGEFAULT_FLAG_WP"),
    (Features::THREAD_ID, "THREAD_ID"),
    (Features::MINOR_HUGETLB, "MINOR_HUGETLBFS"),
    (Features::MINOR_SHARED, "MINOR_SHMEM"),
    (Features::WRITE_PROTECT_SHARED, "WP_HUGETLBFS_SHMEM"),
    (Features::WRITE_PROTECT_HOLES, "WP_UNPOPULATED"),
    (Features::POISON, "POISON (Linux 6.6)"),
    (Features::WRITE_PROTECT_ASYNC, "WP_ASYNC (Linux 6.7)"),
    (Features::MOVE, "MOVE (Linux 6.8)"),
];

impl Features {
    /// None: page faults on missing pages are reported all the same.
    pub const NONE: Self = Self(0);
    /// Writes to write-protected pages of anonymous memory are reported.
    pub const WRITE_PROTECT: Self = Self(1 << 0);
    /// `mremap` is reported, and waits until the message is read.
    pub const EVENT_REMAP: Self = Self(1 << 2);
    /// `madvise(MADV_DONTNEED)` and the like are reported, and wait until the message is read.
    pub const EVENT_REMOVE: Self = Self(1 << 3);
    /// `munmap` is reported, and waits until the message is read.
    pub const EVENT_UNMAP: Self = Self(1 << 6);
    /// A fault names its thread.
    pub const THREAD_ID: Self = Self(1 << 8);
    /// Minor faults of huge pages of the kernel's pool.
    pub const MINOR_HUGETLB: Self = Self(1 << 9);
    /// Minor faults of shared memory.
    pub const MINOR_SHARED: Self = Self(1 << 10);
    /// Write protection of shared memory and of huge pages of the kernel's pool.
    pub const WRITE_PROTECT_SHARED: Self = Self(1 << 12);
    /// Absent pages can be write-protected too, which leaves a marker that keeps pages from moving there.
    pub const WRITE_PROTECT_HOLES: Self = Self(1 << 13);
    /// Pages can be made to fail every access.
    pub const POISON: Self = Self(1 << 14);
    /// The kernel records writes to write-protected pages and lets them go ahead. Implies
    /// [`Features::WRITE_PROTECT_HOLES`].
    pub const WRITE_PROTECT_ASYNC: Self = Self(1 << 15);
    /// Pages can be moved.
    pub const MOVE: Self = Self(1 << 16);

    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// These and others.
    #[must_use]
    pub const fn union(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These without others.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether all of `others` are among these.
    #[must_use]
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl fmt::Display for Features {
    /// The kernel's names, and the version that brought the newest of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (_, name) in NAMES.iter().filter(|(feature, _)| self.contains(*feature)) {
            write!(f, "{between}{name}")?;
            between = ", ";
        }
        Ok(())
    }
}

/// The faults that a range is registered for, as a set. Source: `UFFDIO_REGISTER_MODE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes(u64);

impl Modes {
    /// Faults on absent pages.
    pub const MISSING: Self = Self(1 << 0);
    /// Writes to pages that are write-protected.
    pub const WRITE_PROTECT: Self = Self(1 << 1);
    /// Faults on pages that are in the file and not in the page table.
    pub const MINOR: Self = Self(1 << 2);

    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// These and others.
    #[must_use]
    pub const fn union(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_shown_as_the_kernel_calls_it() {
        let features = Features::MOVE.union(Features::THREAD_ID);
        assert_eq!(features.to_string(), "THREAD_ID, MOVE (Linux 6.8)");
        assert_eq!(features.without(Features::MOVE).to_string(), "THREAD_ID");
        assert_eq!(Features::NONE.to_string(), "");
    }

    #[test]
    fn every_feature_has_a_name_of_its_own() {
        let all = NAMES.iter().fold(Features::NONE, |all, (feature, _)| {
            assert!(feature.bits().is_power_of_two() && !all.contains(*feature), "{feature:?}");
            all.union(*feature)
        });
        assert_eq!(all.to_string().split(", ").count(), NAMES.len());
    }
}
