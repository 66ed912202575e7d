//! Which zone a frame lies in, and the order in which a request tries the zones.

use core::cmp::Reverse;

use rampart_memory::{Frame, Node};

use crate::{Error, Storage, Zone};

/// The zones of a machine, by frame and by node.
pub struct ZoneMap<'a, S: Storage<'a>> {
    /// The first and the last frame of each zone and its index, ascending.
    by_frame: S::Array<(Frame, Frame, usize)>,
    /// The nodes with memory, ascending.
    nodes: S::Array<Node>,
    /// For each of these nodes, one after the other, all zones as a request for it tries them.
    zonelists: S::Array<usize>,
}

impl<'a, S: Storage<'a>> ZoneMap<'a, S> {
    /// Returns the map of these zones, which may have holes between them.
    ///
    /// # Errors
    /// If there is no zone, if zones overlap or are too large, if the memory does not suffice.
    pub fn new(storage: &S, zones: &[Zone]) -> Result<Self, Error> {
        check_zones(zones)?;
        let bounds = |index: usize| Ok((zones[index].frames.start(), zones[index].frames.last(), index));
        let mut by_frame = storage.array(zones.len(), bounds)?;
        by_frame.sort_unstable();
        let count = nodes_of(zones).count();
        let mut rest = nodes_of(zones);
        let mut nodes = storage.array(count, |_| rest.next().ok_or(Error::NoZone))?;
        nodes.sort_unstable();
        let mut zonelists = storage.array(count * zones.len(), |place| Ok(place % zones.len()))?;
        for (zonelist, &own) in zonelists.chunks_exact_mut(zones.len()).zip(&*nodes) {
            zonelist.sort_unstable_by_key(|&zone| rank(own, &zones[zone]));
        }
        Ok(Self { by_frame, nodes, zonelists })
    }

    /// Returns the zone that a frame lies in.
    #[inline]
    pub fn zone_of(&self, frame: Frame) -> Option<usize> {
        self.by_frame
            .iter()
            .find(|(_, last, _)| frame <= *last)
            .filter(|(first, ..)| *first <= frame)
            .map(|(.., zone)| *zone)
    }

    /// Returns all zones in the order in which a request for a node tries them; for a node without memory, as for the
    /// node after it.
    #[inline]
    pub fn zonelist(&self, node: Node) -> &[usize] {
        let own = self.nodes.iter().position(|other| *other >= node).unwrap_or(0);
        let zones = self.by_frame.len();
        &self.zonelists[own * zones..(own + 1) * zones]
    }
}

/// Refuses zones that no machine has.
///
/// # Errors
/// If there is no zone, if zones overlap or are too large.
pub fn check_zones(zones: &[Zone]) -> Result<(), Error> {
    if zones.is_empty() {
        return Err(Error::NoZone);
    }
    if let Some(zone) = zones.iter().find(|zone| zone.frames.count() > Zone::MOST_FRAMES) {
        return Err(Error::TooLarge(zone.frames.count()));
    }
    let overlap = zones.iter().enumerate().find_map(|(index, zone)| {
        let others = zones.iter().enumerate().filter(|(other, _)| *other != index);
        others.map(|(_, other)| other.frames).find(|other| other.contains(zone.frames.start()))?;
        Some(zone.frames.start())
    });
    overlap.map_or(Ok(()), |frame| Err(Error::Overlap(frame)))
}

/// Returns the nodes of these zones, each once.
fn nodes_of(zones: &[Zone]) -> impl Iterator<Item = Node> {
    let is_first = |index: usize| zones[..index].iter().all(|other| other.node != zones[index].node);
    (0..zones.len()).filter(move |&index| is_first(index)).map(|index| zones[index].node)
}

/// Returns the place of a zone among those that a request for a node tries: the node's own, the highest kind first,
/// then those of the nodes after it, then those of the nodes before it (`build_zonelists` in mm/page_alloc.c, all
/// nodes being equally far).
pub fn rank(own: Node, zone: &Zone) -> impl Ord + use<> {
    (zone.node < own, zone.node, Reverse(zone.kind), zone.frames.start())
}
