//! The zones of a machine.

use core::ops::Index;

use rampart_memory::Frame;

use super::zone::FullestZone;

/// The zones of a machine. The first is stored in the allocator itself, the others in a slice. So on a machine with one
/// zone, the chain of loads of each operation is shorter by one.
#[derive(Debug)]
pub struct FullestZones<'a> {
    pub first: FullestZone<'a>,
    pub others: &'a [FullestZone<'a>],
}

impl<'a> FullestZones<'a> {
    pub const fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Returns the zone of a machine that has only one; `None` if there are more.
    #[inline]
    pub fn only(&self) -> Option<&FullestZone<'a>> {
        self.others.is_empty().then_some(&self.first)
    }

    pub fn get(&self, index: usize) -> Option<&FullestZone<'a>> {
        index.checked_sub(1).map_or(Some(&self.first), |other| self.others.get(other))
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &FullestZone<'a>> {
        core::iter::once(&self.first).chain(self.others)
    }

    /// Returns the zone of a frame.
    #[inline]
    pub fn of(&self, frame: Frame) -> Option<&FullestZone<'a>> {
        if self.first.contains(frame) {
            return Some(&self.first);
        }
        self.others.iter().find(|zone| zone.contains(frame))
    }
}

impl<'a> Index<usize> for FullestZones<'a> {
    type Output = FullestZone<'a>;

    fn index(&self, index: usize) -> &FullestZone<'a> {
        if index == 0 { &self.first } else { &self.others[index - 1] }
    }
}
