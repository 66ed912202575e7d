//! The state of a frame in its zone's lists, in one byte.
//!
//! Only the first frame of a block has the block's state; the others are marked as inside of one. So giving out a block
//! of a thousand frames writes one byte.

use rampart_memory::BlockOrder;

use super::slots::span;
use crate::steps::{StepKind, step};
use crate::{End, Migratetype};

/// One frame's byte: whether it is retired, and the block that begins with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct State(u8);

const _: () = assert!(size_of::<State>() == 1, "a frame's state is one byte");

/// The block that begins with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// Nothing: it is inside of a block, or retired and on no list, or no frame of the zone.
    Nothing,
    /// A block that was given out.
    Held(BlockOrder),
    /// A block on a global list.
    Free(Migratetype, BlockOrder),
    /// A frame on the list of a CPU; it goes to this end of a global list when that list is emptied.
    Local(End),
}

impl State {
    const RETIRED: u8 = 1 << 7;
    const FREE: u8 = 1 << 6;
    const LOCAL: u8 = 1 << 5;
    const HELD: u8 = 1 << 4;
    /// Of a held block, which is on no CPU's list.
    const UNMOVABLE: u8 = Self::LOCAL;
    const ORDER: u8 = 0xf;
    const MIGRATETYPE_SHIFT: u32 = 4;

    /// Inside of a block.
    pub const INSIDE: Self = Self(0);

    /// Retired and on no list. Slots that are not frames of the zone have this state too, so nothing merges with them.
    pub const GONE: Self = Self(Self::RETIRED);

    pub const fn held(order: BlockOrder) -> Self {
        Self(Self::HELD | order.number())
    }

    pub const fn free(migratetype: Migratetype, order: BlockOrder) -> Self {
        Self(Self::FREE | (migratetype as u8) << Self::MIGRATETYPE_SHIFT | order.number())
    }

    pub const fn local(end: End) -> Self {
        Self(Self::LOCAL | end as u8)
    }

    /// Whether a block of exactly this order, on a global list, begins here.
    pub const fn is_free_block_of(self, order: BlockOrder) -> bool {
        self.0 & (Self::FREE | Self::ORDER) == Self::FREE | order.number()
    }

    pub const fn is_retired(self) -> bool {
        self.0 & Self::RETIRED != 0
    }

    pub const fn retired(self) -> Self {
        Self(self.0 | Self::RETIRED)
    }

    /// Returns this state of a held block, with pages that cannot move.
    pub const fn unmovable(self) -> Self {
        Self(self.0 | Self::UNMOVABLE)
    }

    /// Whether a block with pages that cannot move is held.
    pub const fn is_unmovable(self) -> bool {
        self.0 & (Self::FREE | Self::HELD | Self::UNMOVABLE) == Self::HELD | Self::UNMOVABLE
    }

    /// Whether a block of exactly this order is held.
    pub const fn is_held_block_of(self, order: BlockOrder) -> bool {
        self.0 & !Self::RETIRED & !Self::UNMOVABLE == Self::held(order).0
    }

    #[inline]
    pub fn begins(self) -> Begins {
        let order = BlockOrder::new(self.0 & Self::ORDER);
        if self.0 & Self::FREE != 0 {
            let migratetype =
                Migratetype::ALL[usize::from((self.0 & !Self::RETIRED & !Self::FREE) >> Self::MIGRATETYPE_SHIFT)];
            Begins::Free(migratetype, order.expect("a free block has an order"))
        } else if self.0 & Self::HELD != 0 {
            Begins::Held(order.expect("a held block has an order"))
        } else if self.0 & Self::LOCAL != 0 {
            Begins::Local(if self == Self::local(End::Front) { End::Front } else { End::Back })
        } else {
            Begins::Nothing
        }
    }

    /// Returns the first slot and the state of the block that a slot lies in; `None` if the slot is retired and on no
    /// list.
    ///
    /// A block begins at a multiple of its size, so eleven slots are checked, that of the smallest block first.
    pub fn beginning(states: &[Self], slot: u32) -> Option<(u32, Begins)> {
        BlockOrder::all().find_map(|order| {
            step(StepKind::Frame);
            let first = slot & !(span(order) - 1);
            let begins = states[first as usize].begins();
            let reaches = match begins {
                Begins::Nothing => false,
                Begins::Local(_) => first == slot,
                Begins::Free(_, size) | Begins::Held(size) => size >= order,
            };
            reaches.then_some((first, begins))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_back_as_it_was_written() {
        for order in BlockOrder::all() {
            assert_eq!(State::held(order).begins(), Begins::Held(order));
            assert_eq!(State::held(order).retired().begins(), Begins::Held(order));
            let unmovable = State::held(order).unmovable().retired();
            assert_eq!(unmovable.begins(), Begins::Held(order));
            assert!(unmovable.is_unmovable() && !State::held(order).is_unmovable());
            for held in [State::held(order), unmovable] {
                assert!(BlockOrder::all().all(|other| held.is_held_block_of(other) == (other == order)));
            }
            for migratetype in Migratetype::ALL {
                let free = State::free(migratetype, order);
                assert_eq!(free.begins(), Begins::Free(migratetype, order));
                assert!(BlockOrder::all().all(|other| free.is_free_block_of(other) == (other == order)));
            }
        }
        for end in [End::Front, End::Back] {
            assert_eq!(State::local(end).begins(), Begins::Local(end));
        }
        assert_eq!(State::INSIDE.begins(), Begins::Nothing);
        assert_eq!(State::GONE.begins(), Begins::Nothing);
    }

    #[test]
    fn what_is_not_free_is_never_taken_for_a_buddy() {
        let others = [State::INSIDE, State::GONE, State::local(End::Front), State::local(End::Back)];
        for order in BlockOrder::all() {
            let held = [State::held(order), State::held(order).unmovable()];
            assert!(others.iter().chain(&held).all(|state| !state.is_free_block_of(order)));
            assert!(others.iter().all(|state| !state.is_held_block_of(order) && !state.is_unmovable()));
            assert!(Migratetype::ALL.iter().all(|&own| !State::free(own, order).is_unmovable()));
        }
    }
}
