//! Locks units.

use rampart_memory::Timestamp;

use crate::engine::{FrameHistory, GuardEngine};
use crate::policy::unlocked_queue::UnlockedUnits;
use crate::state::table::BlockState;
use crate::telemetry::counts::Counter;

use super::Guard;

impl<E: GuardEngine + ?Sized> Guard<'_, E> {
    /// A late maintenance thread must not leave more unlocked than the kernel can keep apart.
    pub(crate) fn make_room(&self, now: Timestamp) {
        while self.unlocked_queue().count() >= self.most {
            let oldest = self.unlocked_queue().oldest();
            let Some(unlocked) = oldest else { return };
            self.lock_units(unlocked, now);
        }
    }

    /// Moves units that were unlocked together to the vault, then makes their codes. In between, a fault may take them
    /// back. Unused pre-verified units are as locked as before.
    pub(crate) fn lock_units(&self, unlocked: UnlockedUnits, now: Timestamp) {
        let UnlockedUnits { block, units } = unlocked;
        let mut known = self.table.lock(block);
        let let_go = units & known.pre_verified;
        known.pre_verified -= let_go;
        self.counts.subtract(Counter::Unlocked, self.layout().pages_of(let_go));
        let units = units & known.unlocked;
        if known.state != BlockState::Used || units.is_empty() {
            self.unlocked_queue().went(block);
            return;
        }
        let (mut rest, mut refused) = (units, false);
        let asked = self.clock.stopwatch();
        for span in self.layout().spans(block, units) {
            if known.holders > 0 {
                break;
            }
            let Ok(frames) = self.engine.lock(span) else {
                refused = true;
                break;
            };
            if frames != FrameHistory::Same {
                // Pages were missing, or shared since a fork.
                known.watched -= self.layout().units_of(span);
            }
            self.note_frames(&mut known, frames);
            rest -= self.layout().units_of(span);
        }
        self.interrupted(asked);
        if !rest.is_empty() {
            self.unwatch(block, &mut known, rest);
            self.counts.add(Counter::Pinned, 1);
            let rest = UnlockedUnits { block, units: rest };
            let mut queue = self.unlocked_queue();
            if refused { queue.refused(rest, now) } else { queue.stays(rest, now) }
        } else {
            self.unlocked_queue().went(block);
        }
        let locked = units - rest;
        if locked.is_empty() {
            return;
        }
        self.counts.add(Counter::Locked, 1);
        self.counts.subtract(Counter::Unlocked, self.layout().pages_of(locked));
        let unwritten = locked & known.watched;
        self.counts.add(Counter::Unwritten, self.layout().pages_of(unwritten));
        known.unlocked -= locked;
        known.watched -= locked;
        known.pending |= locked - unwritten;
        drop(known);
        self.encode(block, locked);
    }
}
