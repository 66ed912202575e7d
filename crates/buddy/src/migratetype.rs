//! Whether a page can be moved, which decides among which pages it may lie.

/// Whether an allocated page can be moved or reclaimed. Free blocks are on separate lists by this type, so that pages
/// that cannot be moved do not scatter [Panwar15, 2.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Migratetype {
    /// Stays where it is: page tables, the kernel's own data.
    Unmovable,
    /// Can be copied elsewhere: memory of programs, the page cache.
    Movable,
    /// Cannot be moved, but can be given up: caches of inodes and directory entries.
    Reclaimable,
}

impl Migratetype {
    /// All, in the order of [`Migratetype::index`].
    pub const ALL: [Self; 3] = [Self::Unmovable, Self::Movable, Self::Reclaimable];

    /// The number of migratetypes.
    pub const COUNT: usize = Self::ALL.len();

    /// Returns the index in [`Migratetype::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the types whose blocks a request of this type takes when its own lists are empty, the preferred first
    /// (`fallbacks` in mm/page_alloc.c, Linux 2.6.24 and later).
    #[must_use]
    pub const fn fallbacks(self) -> [Self; 2] {
        match self {
            Self::Unmovable => [Self::Reclaimable, Self::Movable],
            Self::Movable => [Self::Reclaimable, Self::Unmovable],
            Self::Reclaimable => [Self::Unmovable, Self::Movable],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_falls_back_to_the_two_others() {
        for (place, own) in Migratetype::ALL.into_iter().enumerate() {
            assert_eq!(own.index(), place);
            let mut all = [own, own.fallbacks()[0], own.fallbacks()[1]];
            all.sort_unstable();
            assert_eq!(all, Migratetype::ALL);
        }
    }
}
