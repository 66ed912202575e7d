//! `/proc/zoneinfo`: the free memory of each zone of each node.

use rampart_memory::{Bytes, FRAME_BYTES, Node};
use serde::Serialize;

use crate::Roots;
use crate::roots::text;

/// A zone that has memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ZoneMemory {
    /// Its node.
    pub node: Node,
    /// Its name, such as `Normal`.
    pub name: String,
    /// Memory that the kernel gives out, free or not.
    pub managed: Bytes,
    /// Free memory, without what lies ready for single CPUs.
    pub free: Bytes,
    /// Below this, the kernel reclaims.
    pub high: Bytes,
    /// So much of the zone the kernel keeps back from memory that could lie in the zone `Movable`
    /// (`vm.lowmem_reserve_ratio`).
    pub protected: Bytes,
    /// Memory of programs and of files, which the kernel keeps on its LRU lists.
    pub lru: Bytes,
}

/// The zones in the order of the kernel's list `protection`, from the lowest.
const ZONES: [&str; 5] = ["DMA", "DMA32", "Normal", "Movable", "Device"];

impl ZoneMemory {
    /// Reads all zones; `None` if this machine does not show them.
    #[must_use]
    pub fn read(roots: &Roots) -> Option<Vec<Self>> {
        Self::parse(&text(&roots.proc("zoneinfo")).ok()?)
    }

    /// Free memory that the kernel gives to requests which could lie in the zone `Movable`, before it reclaims.
    #[must_use]
    pub fn open(&self) -> Bytes {
        self.free.saturating_sub(Bytes::new(self.protected.get() + self.high.get()))
    }

    /// Reads the text of `/proc/zoneinfo`, and leaves out zones without memory; `None` if a number is missing.
    #[must_use]
    pub fn parse(text: &str) -> Option<Vec<Self>> {
        let parts = text.split("\nNode ").map(|part| part.strip_prefix("Node ").unwrap_or(part));
        let zones: Option<Vec<Self>> = parts.map(zone).collect();
        Some(zones?.into_iter().filter(|zone| zone.managed > Bytes::ZERO).collect())
    }
}

/// A zone of the text after the word `Node`: `0, zone   Normal`, then lines `key  PAGES`. It is read in one pass, as
/// somebody may look many times a second; from the pages of single CPUs on, nothing is looked for.
fn zone(part: &str) -> Option<ZoneMemory> {
    let (head, rest) = part.split_once('\n')?;
    let (node, name) = head.split_once(", zone")?;
    let name = name.trim();
    let (mut managed, mut free, mut high) = (None, None, None);
    let (mut protection, mut lru) = (Bytes::ZERO, Bytes::ZERO);
    for line in rest.lines().map(str::trim_start).take_while(|line| !line.starts_with("pagesets")) {
        let Some((key, value)) = line.split_once(' ') else { continue };
        match key {
            "pages" if value.starts_with("free ") => free = Some(pages(&value[5..])?),
            "high" if high.is_none() => high = Some(pages(value)?),
            "managed" => managed = Some(pages(value)?),
            "protection:" => protection = protected(name, value)?,
            "nr_zone_inactive_anon"
            | "nr_zone_active_anon"
            | "nr_zone_inactive_file"
            | "nr_zone_active_file"
            | "nr_zone_unevictable" => lru = Bytes::new(lru.get().checked_add(pages(value)?.get())?),
            _ => {}
        }
    }
    Some(ZoneMemory {
        node: Node(node.parse().ok()?),
        name: name.to_owned(),
        managed: managed?,
        free: free?,
        high: high?,
        protected: protection,
        lru,
    })
}

fn pages(number: &str) -> Option<Bytes> {
    number.trim().parse::<u64>().ok()?.checked_mul(FRAME_BYTES).map(Bytes::new)
}

/// The entry for `Movable` of the list `(0, 3019, 4555, 4555, 4555)`, which has one for each kind of zone that the
/// kernel is built with.
fn protected(name: &str, list: &str) -> Option<Bytes> {
    let line = list.strip_prefix('(')?;
    let entries: Option<Vec<u64>> = line.trim_end_matches(')').split(", ").map(|entry| entry.parse().ok()).collect();
    let entries = entries?;
    // A kernel without the zone `Device` has four entries, and one without DMA fewer: `Movable` is at the end.
    let from_end = if entries.len() == ZONES.len() { 2 } else { 1 };
    let entry = entries.len().checked_sub(from_end).and_then(|place| entries.get(place));
    let is_below = ZONES.iter().position(|zone| *zone == name) < ZONES.iter().position(|zone| *zone == "Movable");
    entry.filter(|_| is_below).map_or(Some(Bytes::ZERO), |pages| pages.checked_mul(FRAME_BYTES).map(Bytes::new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 11
  pages free     3840
        boost    0
        min      55
        low      68
        high     81
        managed  3840
        protection: (0, 3019, 4555, 4555, 4555)
      nr_free_pages 3841
      nr_zone_inactive_anon 5
      nr_zone_active_anon 70
      nr_zone_inactive_file 600
      nr_zone_active_file 8000
      nr_zone_unevictable 10000
      nr_zone_write_pending 99999
  pagesets
    cpu: 0
              count:    0
              high:     512
              high_min: 512
Node 1, zone   Normal
  pages free     769310
        high     16743
        present  800000
        managed  790000
Node 1, zone  Movable
  pages free     0
        high     32
        managed  0
";

    #[test]
    fn each_zone_with_memory_is_read() {
        let frames =
            |zone: &ZoneMemory| [zone.free, zone.high, zone.managed, zone.protected, zone.lru].map(Bytes::frames);
        let zones = ZoneMemory::parse(SAMPLE).unwrap();
        let seen: Vec<_> = zones.iter().map(|zone| (zone.node.0, zone.name.as_str(), frames(zone))).collect();
        assert_eq!(seen, [(0, "DMA", [3840, 81, 3840, 4555, 18_675]), (1, "Normal", [769_310, 16_743, 790_000, 0, 0])]);
    }

    #[test]
    fn a_zone_without_a_number_is_refused() {
        for text in ["", "Node 0, zone DMA", "Node x, zone DMA\n", "Node 0, zone DMA\n  pages free 1\n high 2\n"] {
            assert_eq!(ZoneMemory::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "((Node|pages free|high|managed)?[ ,0-9a-z:-]{0,24}\n){0,8}") {
            let _ = ZoneMemory::parse(&text);
        }
    }
}
