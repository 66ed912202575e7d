//! Moves pages out of the programs' emptiest banks, so that these can go offline [Panwar15, 4.3].
//!
//! **Problem.** Programs end and leave banks almost empty, but a bank goes offline only when its last page is gone.
//! **Idea.** One pass looks at all banks of programs, isolates those of the emptiest that are worth it
//! ([`SurplusAges`]) and for which the others have room, and only then moves their pages. **Why this way.** No page
//! lands in a bank that is to be emptied too, so none moves twice in a pass.
//!
//! A block that finds no room as a whole is split, as Linux splits huge pages, and moves in pieces; its pieces stay
//! where they are if not all of them find room.
//!
//! [`SurplusAges`]: super::patience::SurplusAges

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rampart_buddy::{BankPool, BankPools, Cpu, Migratetype, Request};
use rampart_memory::{BlockOrder, Bytes, FRAME_BYTES, FrameBlock, Node};

use super::held::{Held, SplitPiece};
use super::units::{UnitParts, units_of};
use super::{BankPart, SimulatedBanks};

/// What the passes did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MigrationCounts {
    /// Memory moved.
    pub moved: Bytes,
    /// Of that, memory that had moved before.
    pub moved_again: Bytes,
    /// Of that, memory that had moved in the same pass: none, as all banks are isolated first.
    pub moved_twice_in_a_pass: Bytes,
    /// Blocks that were split, because no block of their size was free.
    pub split: u64,
    /// Banks emptied.
    pub emptied: u64,
    /// Banks that were isolated, but kept a page for which there was no room.
    pub failed: u64,
}

/// Returns the units to empty: the emptiest of the programs', as long as the banks that stay online have room for their
/// pages and `reserve` frames more. The room for their pages must be in banks of programs on the same node: elsewhere
/// they would open an offline bank, and one bank would be emptied only to fill another.
pub(super) fn units_to_empty(units: &[UnitParts], reserve: u64) -> Vec<usize> {
    let online = units.iter().filter(|unit| unit.pool != BankPool::Offline);
    let mut room = online.map(|unit| unit.free).sum::<u64>();
    let mut beside = BTreeMap::<Node, u64>::new();
    for unit in units.iter().filter(|unit| unit.pool == BankPool::User) {
        *beside.entry(unit.node).or_default() += unit.free;
    }
    let mut candidates: Vec<usize> = (0..units.len()).filter(|&unit| units[unit].pool == BankPool::User).collect();
    candidates.sort_by_key(|&unit| (units[unit].used(), unit));
    candidates.retain(|&unit| {
        let UnitParts { frames, node, .. } = units[unit];
        let beside = beside.get_mut(&node).expect("the unit is of programs");
        // The unit's own free frames go with it.
        let fits = room >= frames + reserve && *beside >= frames;
        if fits {
            room -= frames;
            *beside -= frames;
        }
        fits
    });
    candidates
}

impl SimulatedBanks<'_> {
    /// Empties the banks that are worth it now, after so much time.
    pub(super) fn consolidate<'b>(
        &mut self,
        pools: &dyn BankPools,
        passed: u64,
        movable: impl Iterator<Item = &'b mut Held>,
    ) {
        let units = units_of(pools, &self.units, |part: &BankPart| {
            let first = part.frames.start();
            (self.bank_at(first), self.uses.node_of(first))
        });
        let reserve = self.reserve();
        let chosen = units_to_empty(&units, reserve);
        self.surplus.pass(passed, chosen.len(), units_to_empty(&units, reserve / 2).len());
        let fullness: Vec<(u64, u64)> = chosen.iter().map(|&unit| (units[unit].used(), units[unit].frames)).collect();
        let count = self.surplus.ripe(&fullness, self.settings.patience_micros);
        self.surplus.gone(count);
        let chosen = chosen.into_iter().take(count).map(|unit| &units[unit].parts);
        let isolated: Vec<usize> = chosen.flatten().copied().filter(|&part| pools.isolate(part)).collect();
        if !isolated.is_empty() {
            self.empty(pools, &isolated, movable);
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

    /// Moves all pages out of isolated parts, as far as there is room.
    fn empty<'b>(&mut self, pools: &dyn BankPools, isolated: &[usize], movable: impl Iterator<Item = &'b mut Held>) {
        self.pass += 1;
        // The place among the isolated parts, by bank.
        let mut places = vec![None; self.uses.banks().len()];
        for (place, &part) in isolated.iter().enumerate() {
            places[self.bank_at(pools.part(part).frames.start())] = Some(place);
        }
        let mut stays = vec![false; isolated.len()];
        let inside = movable.filter(|held| held.split.is_none());
        let mut leaving: Vec<(usize, &mut Held)> =
            inside.filter_map(|held| places[self.uses.bank_of(held.block)].map(|place| (place, held))).collect();
        // The largest blocks first: a bank that has to keep one keeps its small ones too; nothing moves in vain.
        leaving.sort_unstable_by_key(|(place, held)| (Reverse(held.block.order()), *place, held.block));
        for (place, held) in leaving {
            stays[place] |= !stays[place] && !self.move_whole(held) && !self.move_split(held);
        }
        let mut splits = std::mem::take(&mut self.splits);
        for piece in splits.pieces_mut() {
            if let Some(place) = places[self.uses.bank_of(piece.block)] {
                stays[place] |= !stays[place] && !self.move_piece(piece);
            }
        }
        self.splits = splits;
    }

    fn take_elsewhere(&mut self, order: BlockOrder, node: Node) -> Option<FrameBlock> {
        let request = Request { order, migratetype: Migratetype::Movable, cpu: Cpu(0), node, urgent: false };
        let block = self.allocator.allocate(request)?;
        self.note(block, Migratetype::Movable);
        Some(block)
    }

    fn note_moved(&mut self, frames: u64, last_pass: u32) {
        let add = |to: &mut Bytes| *to = Bytes::new(to.get() + frames * FRAME_BYTES);
        let counts = &mut self.report.migration;
        add(&mut counts.moved);
        if last_pass > 0 {
            add(&mut counts.moved_again);
        }
        if last_pass == self.pass {
            add(&mut counts.moved_twice_in_a_pass);
        }
    }

    /// Moves a block, and returns whether there was room for it elsewhere.
    fn move_whole(&mut self, held: &mut Held) -> bool {
        let mut piece = SplitPiece { block: held.block, pass: held.pass };
        let has_moved = self.move_piece(&mut piece);
        (held.block, held.pass) = (piece.block, piece.pass);
        has_moved
    }

    fn move_piece(&mut self, piece: &mut SplitPiece) -> bool {
        let node = self.uses.node_of(piece.block.first());
        let Some(block) = self.take_elsewhere(piece.block.order(), node) else { return false };
        self.note_moved(block.count(), piece.pass);
        self.give_back(piece.block, Migratetype::Movable, Cpu(0));
        *piece = SplitPiece { block, pass: self.pass };
        true
    }

    /// Moves a block in pieces, as large as there are, and returns whether there was room for all.
    fn move_split(&mut self, held: &mut Held) -> bool {
        let (whole, node) = (held.block, self.uses.node_of(held.block.first()));
        let (mut pieces, mut left, mut order) = (Vec::new(), whole.count(), whole.order().below());
        while let Some(size) = order.filter(|_| left > 0) {
            let fits = size.frames() <= left;
            if let Some(block) = fits.then(|| self.take_elsewhere(size, node)).flatten() {
                pieces.push(SplitPiece { block, pass: self.pass });
                left -= block.count();
            } else {
                order = size.below();
            }
        }
        if left > 0 {
            pieces.into_iter().for_each(|piece| self.give_back(piece.block, Migratetype::Movable, Cpu(0)));
            return false;
        }
        self.note_moved(whole.count(), held.pass);
        self.report.migration.split += 1;
        self.give_back(whole, Migratetype::Movable, Cpu(0));
        held.split = Some(self.splits.insert(pieces));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(number: usize, pool: BankPool, free: u64) -> UnitParts {
        UnitParts { parts: vec![number], frames: 1024, free, pool, node: Node(0) }
    }

    fn on_node(node: u32, unit: UnitParts) -> UnitParts {
        UnitParts { node: Node(node), ..unit }
    }

    #[test]
    fn the_emptiest_banks_of_programs_go_while_the_others_have_room() {
        let units = [
            unit(0, BankPool::Kernel, 500),
            unit(1, BankPool::User, 300),
            unit(2, BankPool::User, 1000),
            unit(3, BankPool::Offline, 1024),
            unit(4, BankPool::User, 900),
        ];
        // 2,700 frames are free online; each bank that goes takes 1,024.
        assert_eq!(units_to_empty(&units, 652), [2, 4]);
        assert_eq!(units_to_empty(&units, 653), [2]);
        assert_eq!(units_to_empty(&units, 1677), [] as [usize; 0]);
    }

    #[test]
    fn a_bank_goes_only_if_programs_have_room_for_its_pages_beside_it() {
        let kernel = unit(0, BankPool::Kernel, 1024);
        let units = |free| [kernel.clone(), unit(1, BankPool::User, 600), unit(2, BankPool::User, free)];
        assert_eq!(units_to_empty(&units(424), 0), [1]);
        assert_eq!(units_to_empty(&units(423), 0), [] as [usize; 0], "only the kernel has room");
    }

    #[test]
    fn room_on_another_node_counts_for_what_stays_free_only() {
        let near = [unit(0, BankPool::User, 900), unit(1, BankPool::User, 200), unit(2, BankPool::User, 800)];
        assert_eq!(units_to_empty(&near, 0), [0]);
        let [emptiest, full, other] = near;
        let far = [on_node(1, emptiest), full, other];
        // The emptiest bank has nowhere to go, the next one has.
        assert_eq!(units_to_empty(&far, 0), [] as [usize; 0]);
        let [emptiest, full, other] = far;
        assert_eq!(units_to_empty(&[emptiest, unit(3, BankPool::User, 224), full, other], 0), [3]);
    }

    #[test]
    fn neither_banks_of_the_kernel_nor_offline_ones_are_emptied() {
        let units =
            [unit(0, BankPool::Kernel, 1024), unit(1, BankPool::Kernel, 1023), unit(2, BankPool::Offline, 1024)];
        assert!(units_to_empty(&units, 0).is_empty());
    }
}
