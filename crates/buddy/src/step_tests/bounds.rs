//! The formulas, for each of which the worst case is in `worst`.
//!
//! k is the order of a block, of 0 to 10. A block is cut, or merged, 10 - k times at most. No two buddies are both
//! free, so at most half of the blocks among some frames are free, each of one frame at worst.

use crate::steps::counted::Steps;
use crate::zone::{LOCAL_BATCH, LOCAL_HIGH};
use crate::{BankSize, Migratetype, Zone};

/// The most steps of each operation.
pub trait Bounds {
    fn allocate(&self, k: u8, own: Migratetype) -> Steps;
    fn free(&self, k: u8, has_retired: bool) -> Steps;
    fn claim(&self, k: u8, has_retired: bool) -> Steps;
    fn retire(&self) -> Steps;

    /// Of an isolation and of its end.
    fn isolate(&self) -> Steps {
        Steps::default()
    }

    fn put_best_first(&self) -> Steps {
        Steps::default()
    }
}

/// Orders from k on, and how often a block of order k is merged.
const fn orders_from(k: u8) -> u64 {
    11 - k as u64
}

const fn above(k: u8) -> u64 {
    10 - k as u64
}

/// Looks at the block of each order that a frame may lie in.
const BEGINNING: Steps = Steps::new(0, 11, 0);

/// Takes a block off its list. Its state is read and changed; a bank counts it.
const fn remove(banks: u64) -> Steps {
    Steps::new(1, 2, banks)
}

/// Merges a block with its buddies: each is looked at and removed. Then the block is put on a list.
fn give(k: u8, removed: Steps, inserted: Steps) -> Steps {
    above(k) * (Steps::new(0, 1, 0) + removed) + inserted
}

/// Gives a block back. If a frame nearby is retired, its frames are looked at. If one of its own is, so are those of
/// each half, of each quarter and so on; at most half of its frames are blocks then, none of which has a free buddy.
fn give_good(k: u8, removed: Steps, inserted: Steps, has_retired: bool) -> Steps {
    let (frames, one) = (1 << k, Steps::new(0, 1, 0));
    let clean = one + give(k, removed, inserted);
    if !has_retired {
        return clean;
    }
    let looked_at = Steps::new(0, (u64::from(k) + 3) * frames, 0);
    let parts = frames / 2 * (one + inserted);
    // A frame that is retired is on no list from now on.
    let retired = frames * one;
    (frames * one + clean).max(looked_at + parts + retired)
}

/// Gives a block of order 10 back one frame of which was retired: its halves, the halves of one of these and so on are
/// looked at; ten blocks are left.
fn give_around_one(inserted: Steps) -> Steps {
    let blocks_looked_at = 1 + 2 * 10;
    let frames_looked_at = (1 << 10) + 2 * ((1 << 10) - 1);
    Steps::new(0, blocks_looked_at + frames_looked_at + 1, 0) + 10 * (Steps::new(0, 1, 0) + inserted)
}

/// Which of the allocators of banks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PolicyKind {
    Array,
    List,
    Pools,
}

/// The bounds of the allocators of [Panwar15, 4].
pub struct PoolBounds {
    kind: PolicyKind,
    zones: u64,
    /// Parts of banks, of the machine and of the zone with most.
    parts: u64,
    most_parts: u64,
    /// The most parts of a set, and their frames.
    set: u64,
    set_frames: u64,
}

impl PoolBounds {
    pub fn of(zones: &[Zone], bank: u64, set: u64, kind: PolicyKind) -> Self {
        let size = BankSize::of_frames(bank).unwrap();
        let parts = |zone: &Zone| size.bank_of(zone.frames.last()) - size.bank_of(zone.frames.start()) + 1;
        Self {
            kind,
            zones: zones.len() as u64,
            parts: zones.iter().map(parts).sum(),
            most_parts: zones.iter().map(parts).max().unwrap(),
            set,
            set_frames: set * bank,
        }
    }

    /// Puts a block on a list. With pools, its bank's pool says on which.
    fn inserted(&self) -> Steps {
        Steps::new(1, 1, if self.kind == PolicyKind::Pools { 2 } else { 1 })
    }

    /// Cuts a block of order k out of one of order 10 at most. A set counts it as held.
    fn carve(&self, k: u8) -> Steps {
        remove(1) + above(k) * self.inserted() + Steps::new(0, 1, 1)
    }

    /// Moves a set. With pools, each of its frames is looked at, and half of them are free blocks that go from one list
    /// to another: this is the most that any operation does.
    fn shelve(&self) -> Steps {
        let (frames, set) = (self.set_frames, Steps::new(0, 0, self.set));
        set + match self.kind {
            PolicyKind::Array => Steps::default(),
            PolicyKind::List => Steps::new(2, 0, 0),
            PolicyKind::Pools => Steps::new(0, frames, 0) + frames / 2 * Steps::new(2, 3, 0),
        }
    }

    /// Moves a set all of whose frames are free: in blocks of order 10, unless some are retired.
    fn shelve_empty(&self, has_retired: bool) -> Steps {
        if self.kind == PolicyKind::Pools && !has_retired {
            self.set_frames / 1024 * Steps::new(2, 4, 0) + Steps::new(0, 0, self.set)
        } else {
            self.shelve()
        }
    }

    /// Looks for a block, down to the low watermark and below it, in vain everywhere but in one zone at last.
    fn find(&self, k: u8, own: Migratetype) -> Steps {
        let is_program = own == Migratetype::Movable;
        match self.kind {
            // A bank is looked at twice: for room, and whether it is isolated.
            PolicyKind::Array => 2 * Steps::new(0, 0, 2 * self.parts) + Steps::new(orders_from(k), 0, 1),
            // A bank is on one list of three. The cached one of a zone is looked at twice. If the kernel takes one of
            // programs, the free frames of each are compared. Then the found one's list is looked at.
            PolicyKind::List => {
                let most_free = if is_program { 0 } else { self.most_parts };
                2 * Steps::new(self.parts + 3 * self.zones, 0, self.parts + 2 * self.zones)
                    + Steps::new(orders_from(k), 0, most_free + 1)
            }
            // The lists of three pools; the kernel looks at the banks of programs in place of the third.
            PolicyKind::Pools => {
                let banks = if is_program { 0 } else { 2 * 2 * self.parts + self.most_parts * self.set + 1 };
                2 * Steps::new(3 * orders_from(k) * self.zones, 0, 0) + Steps::new(0, 0, banks)
            }
        }
    }
}

impl Bounds for PoolBounds {
    fn allocate(&self, k: u8, own: Migratetype) -> Steps {
        // A program is never given a bank that is in use by others.
        let moved = if own == Migratetype::Movable && self.kind == PolicyKind::Pools {
            self.shelve_empty(true).max(self.shelve_empty(false))
        } else {
            self.shelve()
        };
        self.find(k, own) + moved + self.carve(k)
    }

    fn free(&self, k: u8, has_retired: bool) -> Steps {
        // Whether the set is empty; with an array, also whether it is the kernel's, and whether its pages can move.
        let looks = if self.kind == PolicyKind::Array { 3 } else { 1 };
        let ended = Steps::new(0, 2, 1 + looks);
        ended + give_good(k, remove(1), self.inserted(), has_retired) + self.shelve_empty(has_retired)
    }

    fn claim(&self, k: u8, has_retired: bool) -> Steps {
        BEGINNING + Steps::new(0, 0, 1) + self.shelve_empty(has_retired) + self.carve(k)
    }

    fn retire(&self) -> Steps {
        let looks = 2 * BEGINNING + Steps::new(0, 1 + 2, 0);
        looks + remove(1) + give_around_one(self.inserted())
    }

    fn isolate(&self) -> Steps {
        Steps::new(0, 0, 1 + self.set) + self.shelve()
    }

    fn put_best_first(&self) -> Steps {
        if self.kind != PolicyKind::List {
            return Steps::default();
        }
        // Two lists of each zone are walked, and the best of each is put first.
        Steps::new(self.parts + 2 * self.zones + 2 * 2 * self.zones, 0, 2 * self.parts)
    }
}

/// The bounds of `Buddy` behind a lock.
pub struct BuddyBounds {
    pub zones: u64,
    pub cpus: u64,
}

/// Frames of a pageblock.
const PAGEBLOCK: u64 = 512;

const INSERTED: Steps = Steps::new(1, 1, 0);

impl BuddyBounds {
    /// Moves free blocks to the lists of another migratetype.
    fn moved(blocks: u64) -> Steps {
        blocks * (remove(0) + INSERTED)
    }

    /// Looks for a block on the lists of its own migratetype and of the two others.
    fn looks(k: u8) -> Steps {
        Steps::new(3 * orders_from(k), 0, 0)
    }

    /// Takes a block off the lists of a zone. Of another migratetype, the pageblock moves.
    fn find(k: u8) -> Steps {
        let pageblock = Steps::new(0, PAGEBLOCK, 0) + Self::moved(PAGEBLOCK / 2);
        Self::looks(k) + pageblock + remove(0) + above(k) * INSERTED
    }

    /// Fills the list of a CPU. All blocks that moved, but for those of the last pageblock, are used up by this batch.
    /// A frame that is borrowed is cut three times at most, a block that moved once for each of its frames and ten
    /// times besides.
    fn refill() -> Steps {
        let batch = u64::from(LOCAL_BATCH);
        let each = Self::looks(0) + Steps::new(0, PAGEBLOCK, 0) + remove(0) + INSERTED;
        batch * each + Self::moved(batch + PAGEBLOCK / 2) + (3 * batch + 10) * INSERTED
    }

    /// Gives so many frames of a CPU back: of its three lists two are empty at worst.
    fn drain(frames: u64) -> Steps {
        frames * (Steps::new(3, 0, 0) + remove(0) + give(0, remove(0), INSERTED))
    }

    /// Empties the lists of all CPUs. After a free they have less than the limit, and two of the three lists may be
    /// filled by a batch each before the next one.
    fn drain_all(&self) -> Steps {
        self.zones * self.cpus * Self::drain(u64::from(LOCAL_HIGH - 1 + 2 * LOCAL_BATCH))
    }
}

impl Bounds for BuddyBounds {
    /// A request looks in vain down to the low watermark and to the one below, then empties the lists of the CPUs.
    fn allocate(&self, k: u8, _: Migratetype) -> Steps {
        let local = if k == 0 { Steps::new(2, 0, 0) } else { Steps::default() };
        let found = if k == 0 { Self::refill() + remove(0) } else { Self::find(k) };
        3 * self.zones * (Self::looks(k) + local) + self.drain_all() + found + Steps::new(0, 1, 0)
    }

    fn free(&self, k: u8, has_retired: bool) -> Steps {
        let ended = Steps::new(0, 2, 0);
        let own_list = INSERTED + Steps::new(0, 1, 0) + Self::drain(u64::from(LOCAL_BATCH));
        ended + if k == 0 { own_list } else { give_good(k, remove(0), INSERTED, has_retired) }
    }

    fn claim(&self, k: u8, _: bool) -> Steps {
        2 * BEGINNING + self.drain_all() + remove(0) + above(k) * INSERTED + Steps::new(0, 1, 0)
    }

    fn retire(&self) -> Steps {
        2 * BEGINNING + Steps::new(0, 1 + 2, 0) + self.drain_all() + remove(0) + give_around_one(INSERTED)
    }
}
