//! The places of this process' mappings, and which of them are outside the guarded ranges.

use std::fs;
use std::ops::Range;

/// The mappings of this process.
pub(crate) fn mapped() -> Vec<Range<usize>> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(addresses).collect()
}

/// The addresses in a line of proc_pid_maps(5), unless they are the kernel's.
fn addresses(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).ok());
    Some(start?..end?).filter(|range| range.end <= 1 << 63)
}

/// The parts of a mapping outside some places.
pub(crate) fn beside(mapping: &Range<usize>, places: &[Range<usize>]) -> Vec<Range<usize>> {
    let without = |parts: Vec<Range<usize>>, place: &Range<usize>| {
        let cut = |part: &Range<usize>| [part.start..part.end.min(place.start), part.start.max(place.end)..part.end];
        parts.iter().flat_map(cut).filter(|part| part.start < part.end).collect()
    };
    places.iter().fold(vec![mapping.clone()], without)
}

#[cfg(test)]
mod tests {
    use rampart_memory::PAGE_BYTES;

    use super::*;

    #[test]
    fn a_line_of_a_process_maps_says_where_a_mapping_lies() {
        let line = "7ffc1000-7ffc3000 rw-p 00000000 00:00 0                          [stack]";
        assert_eq!(addresses(line), Some(0x7ffc_1000..0x7ffc_3000));
        let kernels = "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]";
        assert_eq!([kernels, "", "nonsense"].map(addresses), [None, None, None]);
    }

    #[test]
    fn the_mappings_of_this_process_are_found() {
        let here = 1;
        let address = (&raw const here).addr();
        assert_eq!(mapped().iter().filter(|mapping| mapping.contains(&address)).count(), 1);
    }

    #[test]
    fn what_lies_beside_the_guarded_ranges_is_found() {
        let pages = |range: Range<usize>| range.start * PAGE_BYTES..range.end * PAGE_BYTES;
        let places = [(4..8), (10..12)].map(pages);
        let beside = |range| beside(&pages(range), &places);
        assert_eq!(beside(0..3), [pages(0..3)]);
        assert_eq!(beside(2..20), [(2..4), (8..10), (12..20)].map(pages));
        assert!(beside(5..7).is_empty() && beside(4..8).is_empty());
        assert_eq!(beside(6..9), [pages(8..9)]);
    }
}
