//! Control groups with a limit of memory.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rampart_skips::{Feature, skip};

/// A control group that is removed on drop.
pub struct ControlGroup(PathBuf);

impl ControlGroup {
    /// A group with so much memory; `None` where this user, or nobody, can create one: then the test is skipped.
    pub fn new(bytes: u64) -> Option<Self> {
        let group = Self::create(bytes);
        if group.is_none() {
            skip(Feature::ControlGroup, "no control group with a limit of memory can be made");
        }
        group
    }

    fn create(bytes: u64) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let (root, path, limit) = own.lines().find_map(|line| match line.split(':').collect::<Vec<_>>()[..] {
            [_, "memory", path] => Some(("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes")),
            ["0", "", path] if own.lines().count() == 1 => Some(("/sys/fs/cgroup", path, "memory.max")),
            _ => None,
        })?;
        let parents = [format!("{root}{path}"), root.to_owned()];
        let name = format!("rampart-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let group =
            parents.iter().map(|parent| PathBuf::from(parent).join(&name)).find(|group| fs::create_dir(group).is_ok());
        let group = Self(group?);
        fs::write(group.0.join(limit), bytes.to_string()).ok()?;
        Some(group)
    }

    /// What a shell does to enter it.
    pub fn enter(&self) -> String {
        format!("echo $$ > {}", self.0.join("cgroup.procs").display())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
