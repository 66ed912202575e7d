//! Collections where there is still room.
//!
//! **Problem.** A runtime that forgets a root or a write barrier works until a collection comes at the wrong moment,
//! once in a million allocations. **Idea.** Under stress, that moment is every allocation. **Why this way.** The heap
//! says that there is no room, as it does when it is full: a runtime needs no code of its own for it.

use std::num::NonZeroU32;

use crate::collection::Collection;

/// Whether collections come although there is room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CollectionStress {
    /// They come when there is no room.
    #[default]
    Off,
    /// At most so many allocations pass between two collections. Of four collections, two are of young objects, one is
    /// full, and one is compacting, which moves most objects.
    Every(NonZeroU32),
}

impl CollectionStress {
    /// A collection before each allocation.
    pub const EACH: Self = Self::Every(NonZeroU32::MIN);

    /// Whether a collection must come first, after so many allocations without one.
    pub(crate) const fn is_due(self, allocations: u32) -> bool {
        match self {
            Self::Off => false,
            Self::Every(most) => allocations >= most.get(),
        }
    }

    /// What kind of collection follows so many; `None` if that is not chosen here.
    pub(crate) const fn kind(self, collections: u64) -> Option<Collection> {
        match self {
            Self::Off => None,
            Self::Every(_) => Some(match collections % 4 {
                1 => Collection::Full,
                3 => Collection::Compacting,
                _ => Collection::Nursery,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_stress_collections_of_all_kinds_come_after_so_many_allocations() {
        let every = CollectionStress::Every(NonZeroU32::new(3).unwrap());
        assert_eq!([0, 2, 3, 4].map(|allocations| every.is_due(allocations)), [false, false, true, true]);
        assert_eq!([0, 1].map(|allocations| CollectionStress::EACH.is_due(allocations)), [false, true]);
        assert!(!CollectionStress::Off.is_due(u32::MAX));
        let (young, full, compacting) = (Collection::Nursery, Collection::Full, Collection::Compacting);
        let kinds = [0, 1, 2, 3, 4].map(|collections| every.kind(collections));
        assert_eq!(kinds, [young, full, young, compacting, young].map(Some));
        assert_eq!(CollectionStress::Off.kind(1), None);
    }
}
