//! The memory limit of this process' control group.
//!
//! **Problem.** In a container, `/proc/meminfo` shows the machine, but the kernel kills at the container's limit.
//! **Idea.** Of this process' group and all groups above it, find the one that leaves the least. **Why this way.**
//! Limits nest, and any of them may be the binding one. A container often sees its own group as the root of the tree,
//! or a path that only its host has: missing folders are skipped, and the root is always read.
//!
//! Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.

use std::path::{Component, Path, PathBuf};

use rampart_memory::Bytes;
use serde::Serialize;

use crate::Roots;
use crate::roots::{number, text};

/// The control group that leaves this process the least memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CgroupMemory {
    /// The most that the group may use.
    pub limit: Bytes,
    /// Its usage, cached files included.
    pub usage: Bytes,
    /// Part of the usage: recently unused cached files, which the kernel drops before the limit hurts.
    pub inactive_files: Bytes,
}

impl CgroupMemory {
    /// Memory that the group may still take before programs in it suffer.
    #[must_use]
    pub fn headroom(&self) -> Bytes {
        self.limit.saturating_sub(self.usage.saturating_sub(self.inactive_files))
    }

    /// The group that leaves this process the least; `None` without control groups or without a limit below `total`.
    pub(super) fn read(roots: &Roots, total: Bytes) -> Option<Self> {
        let (version, path) = Version::of_process(&text(&roots.proc("self/cgroup")).ok()?)?;
        ancestors(&roots.sys(version.root()), &path)
            .filter_map(|folder| version.read(&folder))
            .filter(|group| group.limit < total)
            .min_by_key(Self::headroom)
    }
}

/// The two interfaces that the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl Version {
    /// The interface that rules this process' memory, and its group's path, from the text of `/proc/self/cgroup`: lines
    /// `number:controllers:path`, where version 2 is number 0 without controllers (cgroups(7)).
    fn of_process(text: &str) -> Option<(Self, PathBuf)> {
        let mut v2 = None;
        for line in text.lines() {
            let (number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            if controllers.split(',').any(|controller| controller == "memory") {
                return Some((Self::V1, path.into()));
            }
            if number == "0" && controllers.is_empty() {
                v2 = Some((Self::V2, path.into()));
            }
        }
        v2
    }

    /// The mount point of the tree, below `/sys`.
    fn root(self) -> &'static str {
        match self {
            Self::V1 => "fs/cgroup/memory",
            Self::V2 => "fs/cgroup",
        }
    }

    /// One group's limit and usage; `None` if it has no limit.
    fn read(self, folder: &Path) -> Option<CgroupMemory> {
        let (limits, usage, inactive): (&[&str], _, _) = match self {
            Self::V1 => (&["memory.limit_in_bytes"], "memory.usage_in_bytes", "total_inactive_file"),
            Self::V2 => (&["memory.max", "memory.high"], "memory.current", "inactive_file"),
        };
        let limit = limits.iter().filter_map(|name| number(&folder.join(name))).min()?;
        let usage = number(&folder.join(usage))?;
        let statistics = text(&folder.join("memory.stat")).unwrap_or_default();
        let inactive_files = statistic(&statistics, inactive).unwrap_or(0);
        Some(CgroupMemory {
            limit: Bytes::new(limit),
            usage: Bytes::new(usage),
            inactive_files: Bytes::new(inactive_files),
        })
    }
}

/// The folders of a group and of all above it, up to and including `root`. A path that leaves the tree counts as the
/// root.
fn ancestors(root: &Path, path: &Path) -> impl Iterator<Item = PathBuf> {
    let names = path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
    let inside = path.components().all(|part| !matches!(part, Component::ParentDir));
    let group: PathBuf = if inside { names.collect() } else { PathBuf::new() };
    let root = root.to_owned();
    group.ancestors().map(|above| root.join(above)).collect::<Vec<_>>().into_iter()
}

/// The value of a line `key 123`.
fn statistic(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use tempfile::TempDir;

    const MACHINE: Bytes = Bytes::from_mib(1024);

    fn tree(files: &[(&str, &str)]) -> (TempDir, Roots) {
        let folder = TempDir::new().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let roots = Roots::new(folder.path().join("proc"), folder.path().join("sys"));
        (folder, roots)
    }

    #[test]
    fn the_tightest_of_nested_groups_binds() {
        let (_folder, roots) = tree(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "104857600\n"),
            ("sys/fs/cgroup/a/memory.current", "94371840\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 1048576\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.high", "52428800\n"),
            ("sys/fs/cgroup/a/b/memory.current", "1048576\n"),
        ]);
        let group = CgroupMemory::read(&roots, MACHINE).unwrap();
        assert_eq!(group.limit, Bytes::from_mib(100));
        assert_eq!(group.headroom(), Bytes::from_mib(11));
    }

    #[test]
    fn a_container_that_sees_only_its_own_group_has_its_limit() {
        let (_folder, roots) = tree(&[
            ("proc/self/cgroup", "4:memory:/docker/0123\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "67108864\n"),
            ("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 4096\n"),
        ]);
        let group = CgroupMemory::read(&roots, MACHINE).unwrap();
        assert_eq!((group.limit, group.inactive_files), (Bytes::from_mib(256), Bytes::new(4096)));
    }

    #[test]
    fn a_limit_above_the_machine_is_none() {
        let (_folder, roots) = tree(&[
            ("proc/self/cgroup", "4:memory:/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n"),
        ]);
        assert_eq!(CgroupMemory::read(&roots, MACHINE), None);
    }

    #[test]
    fn a_path_never_leads_out_of_the_tree() {
        let folders: Vec<_> = ancestors(Path::new("/group"), Path::new("/../../etc")).collect();
        assert_eq!(folders, [Path::new("/group")]);
        let folders: Vec<_> = ancestors(Path::new("/group"), Path::new("/a/b")).collect();
        assert_eq!(folders, ["/group/a/b", "/group/a", "/group"].map(Path::new));
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[0-9:,a-z/.\n ]{0,80}") {
            if let Some((_, path)) = Version::of_process(&text) {
                prop_assert!(ancestors(Path::new("/group"), &path).all(|folder| folder.starts_with("/group")));
            }
        }
    }
}
