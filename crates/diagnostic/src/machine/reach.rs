//! How far tests by the kernel module reach, and how old the last tests are.
//!
//! **Problem.** "All memory was tested" hides which part can be tested at all, and how long ago that was. **Idea.**
//! Each frame is in one group: free or in use where all of its 2 MiB can be moved, or in a block that holds a page that
//! cannot be. For each group, the frames are counted by their last test. **Why this way.** The kernel's unit of 2 MiB
//! decides what the module can claim, so the groups are what a test can reach.

use std::time::Duration;

use rampart_linux::kernel_module::{AgeTable, FrameAge, LastTest, age_clock};
use rampart_linux::{Absence, FlagTable, FrameClass, HotplugState, MemoryBlocks, Roots};
use rampart_memory::{Frame, FrameRange};
use serde::Serialize;

use super::PAGEBLOCK;

/// Where frames stand towards tests by the kernel module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameGroup {
    /// Free, and can be claimed.
    Free,
    /// In use, and can be claimed since the content can be moved.
    Movable,
    /// Free or movable, but in a block of 2 MiB with a page that cannot be moved.
    Beside,
    /// In use, and cannot be moved.
    Unmovable,
}

/// The frames of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GroupReach {
    /// The group.
    pub group: FrameGroup,
    /// Its frames.
    pub frames: u64,
    /// Those that were tested since the module was loaded.
    pub tested: u64,
    /// The age of the oldest test among these, in seconds.
    pub oldest_seconds: Option<u64>,
}

const GROUPS: [FrameGroup; 4] = [FrameGroup::Free, FrameGroup::Movable, FrameGroup::Beside, FrameGroup::Unmovable];

/// Counts all frames of the machine that are memory, by group. Reads 12 bytes a frame.
///
/// # Errors
/// If the module is not loaded, or the kernel does not show what frames are used for (root only).
pub fn reach(roots: &Roots) -> Result<Vec<GroupReach>, Absence> {
    let ages = AgeTable::open(roots)?;
    let blocks = MemoryBlocks::read(roots)?;
    let unread = |cause: String| Absence { reason: cause, remedy: "run as root".to_owned() };
    let flags = FlagTable::open(roots).map_err(|error| unread(error.to_string()))?;
    let mut counted = Counted { now: age_clock(), groups: GROUPS.map(empty) };
    for block in blocks.blocks.iter().filter(|block| block.state == HotplugState::Online) {
        let first = u64::from(block.number.0) * blocks.frames().get();
        let frames = Frame::new(first).and_then(|first| FrameRange::new(first, blocks.frames().get()));
        for part in frames.into_iter().flat_map(|frames| frames.cut_at_multiples(PAGEBLOCK)) {
            let classes = flags.classes(part).map_err(|error| unread(error.to_string()))?;
            let ages =
                ages.read(part).map_err(|error| unread(format!("the ages of frames cannot be read: {error}")))?;
            counted.add(&classes, &ages);
        }
    }
    Ok(counted.groups.to_vec())
}

const fn empty(group: FrameGroup) -> GroupReach {
    GroupReach { group, frames: 0, tested: 0, oldest_seconds: None }
}

struct Counted {
    now: Duration,
    groups: [GroupReach; 4],
}

impl Counted {
    /// Adds a block of 2 MiB.
    fn add(&mut self, classes: &[FrameClass], ages: &[FrameAge]) {
        let classes: Vec<_> = classes.iter().zip(ages).map(|(class, age)| age.class(*class)).collect();
        let whole = classes.iter().all(|&class| is_movable(class));
        for (class, age) in classes.into_iter().zip(ages) {
            let group = match class {
                FrameClass::Absent | FrameClass::Reserved | FrameClass::Poisoned | FrameClass::Offline => continue,
                FrameClass::Free | FrameClass::AtHand if whole => FrameGroup::Free,
                class if whole && is_movable(class) => FrameGroup::Movable,
                class if is_movable(class) => FrameGroup::Beside,
                _ => FrameGroup::Unmovable,
            };
            let counts = &mut self.groups[group as usize];
            counts.frames += 1;
            if let LastTest::Good(at) = age.last_test() {
                let age = self.now.saturating_sub(at).as_secs();
                counts.tested += 1;
                counts.oldest_seconds = counts.oldest_seconds.max(Some(age));
            }
        }
    }
}

/// Whether the kernel can move what is in the frame, if there is something.
pub const fn is_movable(class: FrameClass) -> bool {
    matches!(class, FrameClass::Free | FrameClass::AtHand | FrameClass::Anonymous | FrameClass::File)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_is_in_one_group_and_the_oldest_test_of_each_is_known() {
        use FrameClass::{Absent, Anonymous, File, Free, Kernel, Poisoned};
        let mut counted = Counted { now: Duration::from_secs(100), groups: GROUPS.map(empty) };
        let ages = |bits: [u32; 4]| bits.map(FrameAge::from_bits);
        counted.add(&[Free, Free, Anonymous, File], &ages([0, 51, 61, 1]));
        counted.add(&[Free, Kernel, File, Absent], &ages([11, 0, 0, 0]));
        counted.add(&[Free, Free, Poisoned, Free], &ages([91, 0, (1 << 29) - 1, 0]));
        counted.add(&[Kernel, Free, Free, Free], &ages([1 << 29 | 81, 0, 0, 0]));
        let group = |group, frames, tested, oldest_seconds| GroupReach { group, frames, tested, oldest_seconds };
        assert_eq!(
            counted.groups,
            [
                group(FrameGroup::Free, 6, 2, Some(50)),
                group(FrameGroup::Movable, 2, 2, Some(100)),
                group(FrameGroup::Beside, 5, 2, Some(90)),
                group(FrameGroup::Unmovable, 1, 0, None),
            ]
        );
    }
}
