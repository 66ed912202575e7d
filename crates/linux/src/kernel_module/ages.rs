//! When each frame was last tested, as the module keeps it: `/sys/kernel/rampart/ages`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rampart_memory::FrameRange;
use rustix::time::{ClockId, clock_gettime};

use super::counters::FOLDER;
use crate::{Absence, FrameClass, Roots};

/// The open table of ages. Needs root.
#[derive(Debug)]
pub struct AgeTable {
    file: File,
}

/// An entry of the table, as `kernel/rampart_abi.h` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameAge(u32);

/// What is known of a frame's last test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastTest {
    /// There was none.
    Never,
    /// It was good, at this time of the monotonic clock, in whole seconds.
    Good(Duration),
    /// It failed; the frame is retired.
    Bad,
}

impl FrameAge {
    const TESTED: u32 = (1 << 29) - 1;
    const BAD: u32 = Self::TESTED;
    const FREE: u32 = 1 << 29;

    /// An entry's bits.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The last test.
    #[must_use]
    pub fn last_test(self) -> LastTest {
        match self.0 & Self::TESTED {
            0 => LastTest::Never,
            Self::BAD => LastTest::Bad,
            second => LastTest::Good(Duration::from_secs(u64::from(second - 1))),
        }
    }

    /// What the frame is used for, if the kernel's flags say that it is used so: they are the same for memory of the
    /// kernel and for free frames on the list of a CPU.
    #[must_use]
    pub const fn class(self, by_flags: FrameClass) -> FrameClass {
        match by_flags {
            FrameClass::Kernel if self.0 & Self::FREE != 0 => FrameClass::AtHand,
            other => other,
        }
    }
}

impl AgeTable {
    /// Opens it.
    ///
    /// # Errors
    /// If the module is not loaded, or this user may not.
    pub fn open(roots: &Roots) -> Result<Self, Absence> {
        let path = roots.sys(FOLDER).join("ages");
        let file = File::open(&path).map_err(|cause| Absence::of_file(&path, &cause, "Rampart's module"))?;
        Ok(Self { file })
    }

    /// The entries of a range; what is no memory was never tested.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn read(&self, frames: FrameRange) -> std::io::Result<Vec<FrameAge>> {
        let count = usize::try_from(frames.count()).expect("a range to look at fits memory");
        let mut bytes = vec![0; count * size_of::<u32>()];
        let (mut done, start) = (0, frames.start().number() * size_of::<u32>() as u64);
        while done < bytes.len() {
            match self.file.read_at(&mut bytes[done..], start + done as u64)? {
                0 => break,
                more => done += more,
            }
        }
        Ok(bytes.as_chunks().0.iter().map(|entry| FrameAge(u32::from_ne_bytes(*entry))).collect())
    }
}

/// The time of the clock by which the module counts.
#[must_use]
pub fn age_clock() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::from_secs(u64::try_from(now.tv_sec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_memory::Frame;
    use std::fs;

    #[test]
    fn an_entry_has_the_second_of_its_last_test() {
        let last = |bits| FrameAge::from_bits(bits).last_test();
        assert_eq!(last(0), LastTest::Never);
        assert_eq!(last(1 << 31), LastTest::Never, "freed, and not tested before");
        assert_eq!(last(1), LastTest::Good(Duration::ZERO));
        assert_eq!(last(7 << 29 | 101), LastTest::Good(Duration::from_secs(100)));
        assert_eq!(last((1 << 29) - 1), LastTest::Bad);
        assert_eq!(last(u32::MAX), LastTest::Bad);
    }

    #[test]
    fn free_frames_at_hand_are_told_from_those_of_the_kernel() {
        use FrameClass::{Anonymous, AtHand, Kernel};
        let class = |bits, by_flags| FrameAge::from_bits(bits).class(by_flags);
        assert_eq!([class(1 << 29 | 5, Kernel), class(1 << 29, Anonymous)], [AtHand, Anonymous]);
        assert_eq!(class(!(1 << 29), Kernel), Kernel);
    }

    #[test]
    fn entries_behind_the_end_were_never_tested() {
        let root = tempfile::tempdir().unwrap();
        let roots = Roots::new(root.path(), root.path());
        assert!(AgeTable::open(&roots).unwrap_err().to_string().contains("ages does not exist"));
        fs::create_dir_all(roots.sys(FOLDER)).unwrap();
        let entries: Vec<u8> = [7_u32, 8, 9].iter().flat_map(|entry| entry.to_ne_bytes()).collect();
        fs::write(roots.sys(FOLDER).join("ages"), entries).unwrap();
        let range = FrameRange::new(Frame::new(1).unwrap(), 4).unwrap();
        let read = AgeTable::open(&roots).unwrap().read(range).unwrap();
        assert_eq!(read, [8, 9, 0, 0].map(FrameAge::from_bits));
    }
}
