//! Which zone a frame lies in, and the order in which a request tries the zones.

use alloc::vec::Vec;
use core::cmp::Reverse;

use rampart_memory::{Frame, Node};

use crate::{Error, Zone};

/// The zones of a machine, by frame and by node.
pub struct ZoneMap {
    /// The first and the last frame of each zone and its index, ascending.
    by_frame: Vec<(Frame, Frame, usize)>,
    /// For each node, ascending, all zones as a request for it tries them.
    by_node: Vec<(Node, Vec<usize>)>,
}

impl ZoneMap {
    /// Returns the map of these zones, which may have holes between them.
    ///
    /// # Errors
    /// If there is no zone, if zones overlap or are too large.
    pub fn new(zones: &[Zone]) -> Result<Self, Error> {
        if zones.is_empty() {
            return Err(Error::NoZone);
        }
        if let Some(zone) = zones.iter().find(|zone| zone.frames.count() > Zone::MOST_FRAMES) {
            return Err(Error::TooLarge(zone.frames.count()));
        }
        let by_frame = by_frame(zones);
        match by_frame.windows(2).find(|pair| pair[1].0 <= pair[0].1) {
            Some(pair) => Err(Error::Overlap(pair[1].0)),
            None => Ok(Self { by_frame, by_node: by_node(zones) }),
        }
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
        let own = self.by_node.iter().find(|(other, _)| *other >= node);
        let (_, zonelist) = own.unwrap_or(&self.by_node[0]);
        zonelist
    }
}

fn by_frame(zones: &[Zone]) -> Vec<(Frame, Frame, usize)> {
    let bounds = |(index, zone): (usize, &Zone)| (zone.frames.start(), zone.frames.last(), index);
    let mut by_frame: Vec<_> = zones.iter().enumerate().map(bounds).collect();
    by_frame.sort_unstable();
    by_frame
}

/// Returns the place of a zone among those that a request for a node tries: the node's own, the highest kind first,
/// then those of the nodes after it, then those of the nodes before it (`build_zonelists` in mm/page_alloc.c, all
/// nodes being equally far).
pub fn rank(own: Node, zone: &Zone) -> impl Ord + use<> {
    (zone.node < own, zone.node, Reverse(zone.kind), zone.frames.start())
}

/// Returns the zones of each node in the order in which requests for it try them.
fn by_node(zones: &[Zone]) -> Vec<(Node, Vec<usize>)> {
    let mut nodes: Vec<Node> = zones.iter().map(|zone| zone.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let of = |own: Node| {
        let mut order: Vec<usize> = (0..zones.len()).collect();
        order.sort_by_key(|&zone| rank(own, &zones[zone]));
        (own, order)
    };
    nodes.into_iter().map(of).collect()
}
