//! Very many open files and processes: memory of the kernel above all.
//!
//! **Problem.** What spreads the kernel's pages over a machine is its own bookkeeping for "a large number of files or a
//! large number of processes" [Panwar15, 5.2]. **Idea.** As many files are open and as many processes run as there, all
//! the time, each for an exponentially distributed while. Each takes what Linux keeps for it, in pages of its sizes.
//! **Why this way.** Objects of several files share a page, which stays until the last of them is closed: so pages of
//! the kernel outlive most of what they were allocated for.

use rampart_buddy::Migratetype;

use super::{FILES, MINUTE, STEP_MICROS};

/// Processes at a time, on 32 GiB.
pub const PROCESSES: u64 = 10_000;

/// How long a file is open, and a process runs, on average.
const FILE_MICROS: u64 = 30 * MINUTE;
const PROCESS_MICROS: u64 = 10 * MINUTE;

/// Blocks of one kind that one file or process takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrowdBlock {
    /// Whose it is.
    pub migratetype: Migratetype,
    /// Its size.
    pub order: u8,
    /// So many of them.
    pub blocks: u64,
    /// So many files or processes share each, which stays until the last of them ends.
    pub shared_by: u32,
}

/// So many begin in each step, and live so long on average.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// At a time, on 32 GiB.
    pub count: u64,
    /// Their mean lifetime.
    pub mean_micros: u64,
    /// What each takes.
    pub takes: &'static [CrowdBlock],
}

const fn shared(migratetype: Migratetype, order: u8, shared_by: u32) -> CrowdBlock {
    CrowdBlock { migratetype, order, blocks: 1, shared_by }
}

const fn own(migratetype: Migratetype, order: u8, blocks: u64) -> CrowdBlock {
    CrowdBlock { migratetype, order, blocks, shared_by: 1 }
}

/// Small files: a cached page; inodes of 1.2 KiB in slabs of 32 KiB, directory entries of 192 bytes, and descriptions
/// of open files of 256 bytes, in slabs of a page.
const OPEN_FILES: Crowd = Crowd {
    count: FILES,
    mean_micros: FILE_MICROS,
    takes: &[
        own(Migratetype::Movable, 0, 1),
        shared(Migratetype::Reclaimable, 3, 27),
        shared(Migratetype::Reclaimable, 0, 21),
        shared(Migratetype::Unmovable, 0, 16),
    ],
};

/// Processes: 256 KiB of their own, a stack of 16 KiB, eight page tables, four pages for signals, descriptors and the
/// description of their memory, and a third of a slab of 32 KiB for the description of the task.
const RUNNING: Crowd = Crowd {
    count: PROCESSES,
    mean_micros: PROCESS_MICROS,
    takes: &[
        own(Migratetype::Movable, 0, 64),
        own(Migratetype::Unmovable, 2, 1),
        own(Migratetype::Unmovable, 0, 12),
        shared(Migratetype::Unmovable, 3, 3),
    ],
};

/// Both.
pub const CROWDS: [Crowd; 2] = [OPEN_FILES, RUNNING];

impl Crowd {
    /// Returns how many have begun until a time, on a machine of this share of 32 GiB: as many in each step as end in
    /// it, once there are as many as there shall be.
    #[must_use]
    pub const fn begun(&self, micros: u64, frames: u64, frames_of_all: u64) -> u64 {
        let begun = self.count as u128 * micros as u128 * frames as u128;
        #[expect(clippy::cast_possible_truncation, reason = "files of a simulated run")]
        let begun = (begun / (self.mean_micros as u128 * frames_of_all as u128)) as u64;
        begun
    }

    /// Returns how many of these blocks the `number`-th of the crowd begins.
    #[must_use]
    pub const fn begins(block: &CrowdBlock, number: u64) -> u64 {
        if number.is_multiple_of(block.shared_by as u64) { block.blocks } else { 0 }
    }
}

/// Returns when the last of so many ends, of which each lives exponentially long: `uniform` is drawn from 0 to 1.
#[must_use]
pub fn last_of(uniform: f64, sharers: u32, mean_micros: u64) -> u64 {
    let longest = -(-uniform.powf(1.0 / f64::from(sharers))).ln_1p();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "µs")]
    let micros = (longest * mean_micros as f64) as u64;
    micros.max(STEP_MICROS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_begin_as_end() {
        let [files, processes] = CROWDS;
        assert_eq!((files.begun(FILE_MICROS, 8, 8), processes.begun(PROCESS_MICROS, 4, 8)), (450_000, 5_000));
        assert_eq!(processes.begun(0, 8, 8), 0);
    }

    #[test]
    fn a_page_begins_with_the_first_of_those_that_share_it() {
        let block = shared(Migratetype::Unmovable, 0, 16);
        assert_eq!((0..32).map(|number| Crowd::begins(&block, number)).sum::<u64>(), 2);
        assert_eq!(Crowd::begins(&own(Migratetype::Movable, 0, 64), 7), 64);
    }

    #[test]
    fn the_last_of_several_ends_later() {
        let half = last_of(0.5, 1, 60 * MINUTE);
        assert!((half as f64 / (60.0 * MINUTE as f64) - 2.0_f64.ln()).abs() < 1e-6);
        // Of n the last ends after n has halved log2(n) times, and a half-life or so.
        let last = last_of(0.5, 16, 60 * MINUTE) as f64 / (60.0 * MINUTE as f64);
        assert!((last - -(1.0 - 0.5_f64.powf(1.0 / 16.0)).ln()).abs() < 1e-6 && last > 3.0, "{last}");
    }
}
