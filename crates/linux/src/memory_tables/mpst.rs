//! MPST, the memory power state table: the ranges of memory that change their power state as a whole.
//!
//! Source: ACPI 6.5, Memory Power State Table; ACPI 6.0 has the same layout in 5.2.21, table 5-88. The header precedes
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 36 | 4 | the channel to the platform, and reserved |
//! | 40 | 2 | how many structures of nodes there are |
//! | 42 | 2 | reserved |
//! | 44 | | the structures, and after them the characteristics of the states, which are not read |
//!
//! and each memory power node structure (ACPI 6.0, 5.2.21.4, table 5-93) is
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | flags: bit 0 enabled, bit 1 power managed, bit 2 hot-pluggable |
//! | 2 | 2 | the node |
//! | 4 | 4 | the length of the structure |
//! | 8 | 8 | the address |
//! | 16 | 8 | the length of the range |
//! | 24 | 4 | how many states follow, of 2 bytes each |
//! | 28 | 4 | how many physical components follow, of 2 bytes each |

use rampart_memory::{FRAME_BYTES, FrameRange};

use super::Table;
use crate::Error;

/// The offset of the first node.
const NODES: usize = 44;

/// The length of a node without states and components.
const NODE: usize = 32;

const ENABLED: u8 = 1;
const POWER_MANAGED: u8 = 2;

/// A range of a memory power node. A node of several ranges is several of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerNode {
    /// The firmware's number of the node.
    pub id: u16,
    /// Its memory.
    pub frames: FrameRange,
}

/// Reads an MPST. Returns the ranges that are enabled and power-managed, ascending. Of two of which one lies in the
/// other only the larger is returned, as an operating system should choose it (ACPI 6.0, 5.2.21.4).
///
/// # Errors
/// [`Error::FirmwareTable`].
pub fn parse_mpst(bytes: &[u8]) -> Result<Vec<PowerNode>, Error> {
    let table = Table::new("MPST", bytes)?;
    let mut offset = NODES;
    let mut nodes = Vec::new();
    for _ in 0..table.u16(40)? {
        let length = usize::try_from(table.u32(offset + 4)?).unwrap_or(usize::MAX);
        nodes.extend(node(table.part(offset, length)?)?);
        offset += length;
    }
    outermost(table, nodes)
}

/// Reads a structure of its own length; `None` if it does not count.
fn node(node: Table<'_>) -> Result<Option<PowerNode>, Error> {
    let lists = u64::from(node.u32(24)?) + u64::from(node.u32(28)?);
    if NODE as u64 + 2 * lists > node.bytes.len() as u64 {
        return Err(node.wrong("a node is longer than its length"));
    }
    if node.u8(0)? & (ENABLED | POWER_MANAGED) != ENABLED | POWER_MANAGED {
        return Ok(None);
    }
    let frames = node.frames(node.u64(8)?, node.u64(16)?, FRAME_BYTES)?;
    Ok(Some(PowerNode { id: node.u16(2)?, frames }))
}

fn outermost(table: Table<'_>, mut nodes: Vec<PowerNode>) -> Result<Vec<PowerNode>, Error> {
    nodes.sort_by_key(|node| (node.frames.start(), std::cmp::Reverse(node.frames.last())));
    let mut kept: Vec<PowerNode> = Vec::new();
    for node in nodes {
        match kept.last() {
            Some(last) if node.frames.last() <= last.frames.last() => {}
            Some(last) if node.frames.start() <= last.frames.last() => {
                return Err(table.wrong("two nodes overlap, and none lies in the other"));
            }
            _ => kept.push(node),
        }
    }
    Ok(kept)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tests::{refusal, sealed, table};
    use super::*;
    use proptest::prelude::*;

    /// Node 7, 1 GiB from 4 GiB on, and node 9, 512 MiB from 1 GiB on, byte by byte.
    #[rustfmt::skip]
    pub fn two_nodes() -> Vec<u8> {
        table("MPST", &[
            0, 0, 0, 0,  2, 0,  0, 0,
            // Two states and one component.
            3, 0,  7, 0,  38, 0, 0, 0,  0, 0, 0, 0, 1, 0, 0, 0,  0, 0, 0, 0x40, 0, 0, 0, 0,
            2, 0, 0, 0,  1, 0, 0, 0,  0, 0,  1, 1,  5, 0,
            // No states, no components, hot-pluggable.
            7, 0,  9, 0,  32, 0, 0, 0,  0, 0, 0, 0x40, 0, 0, 0, 0,  0, 0, 0, 0x20, 0, 0, 0, 0,
            0, 0, 0, 0,  0, 0, 0, 0,
            // The characteristics of two states.
            2, 0,  0, 0,
            0, 0, 0, 0,  100, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
            1, 1, 0, 0,  100, 0, 0, 0,  50, 0, 0, 0,  9, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
        ])
    }

    const GIB: u64 = 1 << 30;

    fn structure(flags: u8, id: u16, address: u64, length: u64) -> Vec<u8> {
        let mut bytes = vec![flags, 0];
        bytes.extend(id.to_le_bytes());
        bytes.extend(32_u32.to_le_bytes());
        bytes.extend(address.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend([0; 8]);
        bytes
    }

    fn parse(structures: &[Vec<u8>]) -> Result<Vec<(u16, u64, u64)>, Error> {
        let count = u16::try_from(structures.len()).unwrap().to_le_bytes();
        let body = [&[0; 4], &count[..], &[0; 2], &structures.concat(), &[0; 4]].concat();
        parse_mpst(&table("MPST", &body)).map(|nodes| nodes.iter().map(|node| plain(*node)).collect())
    }

    fn plain(node: PowerNode) -> (u16, u64, u64) {
        (node.id, node.frames.start().address(), node.frames.bytes().get())
    }

    #[test]
    fn nodes_are_read_byte_by_byte_in_the_order_of_their_addresses() {
        let nodes: Vec<_> = parse_mpst(&two_nodes()).unwrap().into_iter().map(plain).collect();
        assert_eq!(nodes, [(9, GIB, GIB / 2), (7, 4 * GIB, GIB)]);
        assert_eq!(parse(&[]).unwrap(), []);
    }

    #[test]
    fn only_nodes_that_are_enabled_and_power_managed_count() {
        let nodes: Vec<Vec<u8>> =
            (0_u8..8).map(|flags| structure(flags, flags.into(), u64::from(flags) * GIB, GIB)).collect();
        assert_eq!(parse(&nodes).unwrap(), [(3, 3 * GIB, GIB), (7, 7 * GIB, GIB)]);
        // What is wrong in one that does not count does no harm.
        assert_eq!(parse(&[structure(0, 1, 1, 1)]).unwrap(), []);
    }

    #[test]
    fn of_nested_nodes_the_largest_counts_and_others_may_not_overlap() {
        // The example of ACPI 6.0, 5.2.21.4: MPN0 covers 1 to 2 GiB, MPN1 1 to 4 GiB.
        let nested = [structure(3, 0, GIB, GIB), structure(3, 1, GIB, 3 * GIB), structure(3, 2, 3 * GIB, GIB)];
        assert_eq!(parse(&nested).unwrap(), [(1, GIB, 3 * GIB)]);
        let side_by_side = [structure(3, 1, GIB, GIB), structure(3, 1, 2 * GIB, GIB)];
        assert_eq!(parse(&side_by_side).unwrap().len(), 2);
        let across = [structure(3, 0, GIB, 2 * GIB), structure(3, 1, 2 * GIB, 2 * GIB)];
        assert_eq!(refusal(parse(&across)), "two nodes overlap, and none lies in the other");
    }

    #[test]
    fn a_table_that_ends_too_early_or_has_wrong_lengths_is_refused() {
        let good = two_nodes();
        let with = |offset: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[offset] = value;
            refusal(parse_mpst(&sealed(bytes)))
        };
        // Number of nodes; length of the first; its states; its components; its address.
        assert_eq!(with(41, 1), "it ends within a structure");
        assert_eq!(with(48, 255), "it ends within a structure");
        assert_eq!(with(48, 37), "a node is longer than its length");
        assert_eq!(with(48, 0), "it ends within a structure");
        assert_eq!(with(71, 255), "a node is longer than its length");
        assert_eq!(with(75, 255), "a node is longer than its length");
        assert_eq!(with(52, 1), "a range of addresses is empty, too large or not aligned");
        assert_eq!(refusal(parse_mpst(&table("MPST", &[0; 5]))), "it ends within a structure");
    }

    proptest! {
        /// What is returned are ranges of the table, in order, that hold every other range; without overlap in part.
        #[test]
        fn the_outermost_ranges_hold_all_others(
            ranges in proptest::collection::vec((0_u64..20, 1_u64..8), 0..8)
        ) {
            let nodes: Vec<_> = (0..).zip(&ranges).map(|(id, (at, length))| structure(3, id, at * GIB, length * GIB)).collect();
            let in_part = |(a, b): (u64, u64), (c, d): (u64, u64)| a < c && c < a + b && a + b < c + d;
            let overlaps = ranges.iter().any(|one| ranges.iter().any(|other| in_part(*one, *other)));
            match parse(&nodes) {
                Err(error) => prop_assert!(overlaps, "{error}"),
                Ok(kept) => {
                    prop_assert!(kept.windows(2).all(|pair| pair[0].1 + pair[0].2 <= pair[1].1));
                    for (at, length) in ranges {
                        let holds = |kept: &&(u16, u64, u64)| kept.1 <= at * GIB && (at + length) * GIB <= kept.1 + kept.2;
                        prop_assert!(kept.iter().any(|range| holds(&range)));
                    }
                }
            }
        }

        #[test]
        fn no_body_is_too_strange(body: Vec<u8>) {
            let _ = parse_mpst(&table("MPST", &body));
            let _ = parse_mpst(&body);
        }
    }
}
