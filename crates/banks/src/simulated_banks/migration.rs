//! Moves pages out of the programs' emptiest banks, so that these can go offline [Panwar15, 4.3].
//!
//! **Problem.** Programs end and leave banks almost empty, but a bank goes offline only when its last page is gone.
//! **Idea.** One pass looks at all banks of programs, isolates as many of the emptiest as the others have room for, and
//! only then moves their pages. **Why this way.** No page lands in a bank that is to be emptied too, so none moves
//! twice in a pass.

use std::cmp::Reverse;

use rampart_buddy::{BankPart, BankPool, BankPools, Cpu, Request};
use rampart_memory::{Bytes, FRAME_BYTES, Frame, Node};

use super::{Held, SimulatedBanks};

/// What the passes did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MigrationCounts {
    /// Memory moved.
    pub moved: Bytes,
    /// Banks emptied.
    pub emptied: u64,
    /// Banks that were isolated, but kept a page for which there was no room.
    pub failed: u64,
}

/// A bank that is fuller than this share, in eighths, is not worth what must move: it would go offline a little sooner,
/// and would probably be needed soon again.
const MOST_USED_EIGHTHS: u64 = 7;

/// Returns the banks to empty: the emptiest of the programs', as long as the banks that stay online have room for their
/// pages and `reserve` frames more, but none that is nearly full.
pub(super) fn banks_to_empty(parts: &[BankPart], reserve: u64) -> Vec<usize> {
    let online = parts.iter().filter(|part| part.pool != BankPool::Offline);
    let mut room = online.map(|part| part.free).sum::<u64>();
    let used = |part: usize| parts[part].frames.count() - parts[part].free;
    let mut candidates: Vec<usize> = (0..parts.len()).filter(|&part| parts[part].pool == BankPool::User).collect();
    candidates.sort_by_key(|&part| (used(part), part));
    candidates
        .into_iter()
        .take_while(|&part| {
            // The bank's own free frames go with it.
            let taken = parts[part].frames.count();
            let fits = room >= taken + reserve;
            room = room.saturating_sub(taken);
            fits && used(part) * 8 <= taken * MOST_USED_EIGHTHS
        })
        .collect()
}

impl SimulatedBanks<'_> {
    /// Empties the banks that can be emptied now.
    pub(super) fn consolidate<'b>(&mut self, pools: &dyn BankPools, movable: impl Iterator<Item = &'b mut Held>) {
        let parts: Vec<BankPart> = (0..pools.parts()).map(|part| pools.part(part)).collect();
        let chosen = banks_to_empty(&parts, self.reserve());
        let isolated: Vec<usize> = chosen.into_iter().filter(|&part| pools.isolate(part)).collect();
        let place = |frame: Frame| isolated.iter().position(|&part| parts[part].frames.contains(frame));
        if !isolated.is_empty() {
            let inside = movable.filter_map(|held| place(held.block.first()).map(|place| (place, held)));
            let mut leaving: Vec<(usize, &mut Held)> = inside.collect();
            // The largest blocks first: a bank that has to keep one keeps its small ones too; nothing moves in vain.
            leaving.sort_unstable_by_key(|(place, held)| (Reverse(held.block.order()), *place, held.block));
            let mut stays = vec![false; isolated.len()];
            for (place, held) in leaving {
                if !stays[place] && !self.move_elsewhere(held) {
                    stays[place] = true;
                }
            }
        }
        for part in isolated {
            if pools.pool(part) == BankPool::Offline {
                self.report.migration.emptied += 1;
            } else {
                self.report.migration.failed += 1;
                pools.rejoin(part);
            }
        }
    }

    /// Moves a block, and returns whether there was room elsewhere.
    fn move_elsewhere(&mut self, held: &mut Held) -> bool {
        let (order, migratetype) = (held.block.order(), held.migratetype);
        let request = Request { order, migratetype, cpu: Cpu(0), node: Node(0), urgent: false };
        let Some(block) = self.allocator.allocate(request) else { return false };
        let moved = Held { block, ..*held };
        self.count(moved, u64::wrapping_add);
        self.free(*held, Cpu(0));
        *held = moved;
        self.report.migration.moved = Bytes::new(self.report.migration.moved.get() + block.count() * FRAME_BYTES);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_buddy::ZoneIndex;
    use rampart_memory::FrameRange;

    fn part(number: u64, pool: BankPool, free: u64) -> BankPart {
        let frames = FrameRange::new(Frame::new(number * 1024).unwrap(), 1024).unwrap();
        BankPart { zone: ZoneIndex(0), frames, free, pool, is_partial: false }
    }

    #[test]
    fn the_emptiest_banks_of_programs_go_while_the_others_have_room() {
        let parts = [
            part(0, BankPool::Kernel, 500),
            part(1, BankPool::User, 300),
            part(2, BankPool::User, 1000),
            part(3, BankPool::Offline, 1024),
            part(4, BankPool::User, 900),
        ];
        // 2,700 frames are free online; each bank that goes takes 1,024.
        assert_eq!(banks_to_empty(&parts, 652), [2, 4]);
        assert_eq!(banks_to_empty(&parts, 653), [2]);
        assert_eq!(banks_to_empty(&parts, 1677), [] as [usize; 0]);
    }

    #[test]
    fn a_bank_that_is_nearly_full_is_not_emptied() {
        let room = part(0, BankPool::Kernel, 1024);
        assert_eq!(banks_to_empty(&[room, part(1, BankPool::User, 128)], 0), [1]);
        assert_eq!(banks_to_empty(&[room, part(1, BankPool::User, 127)], 0), [] as [usize; 0]);
    }

    #[test]
    fn neither_banks_of_the_kernel_nor_offline_ones_are_emptied() {
        let parts =
            [part(0, BankPool::Kernel, 1024), part(1, BankPool::Kernel, 1023), part(2, BankPool::Offline, 1024)];
        assert!(banks_to_empty(&parts, 0).is_empty());
    }
}
