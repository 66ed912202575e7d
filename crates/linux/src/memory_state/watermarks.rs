//! `/proc/zoneinfo`: the kernel's thresholds for free memory.

use rampart_memory::{Bytes, FRAME_BYTES};
use serde::Serialize;

use crate::Roots;
use crate::roots::text;

/// The free memory at which the kernel acts, summed over all zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelWatermarks {
    /// Below this, programs wait while the kernel reclaims for them, and it may kill one.
    pub min: Bytes,
    /// Below this, the kernel begins to reclaim in the background.
    pub low: Bytes,
    /// Above this, it stops again.
    pub high: Bytes,
}

impl KernelWatermarks {
    /// This machine's; `None` if it does not show them.
    #[must_use]
    pub fn read(roots: &Roots) -> Option<Self> {
        Self::parse(&text(&roots.proc("zoneinfo")).ok()?)
    }

    /// Reads the text of `/proc/zoneinfo`; `None` without a watermark, or with one that is no number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self { min: sum(text, "min")?, low: sum(text, "low")?, high: sum(text, "high")? })
    }
}

/// The sum of all lines `  key  PAGES`.
fn sum(text: &str, key: &str) -> Option<Bytes> {
    let mut values = text.lines().filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix(' ')).peekable();
    values.peek()?;
    let pages = values.try_fold(0_u64, |sum, value| sum.checked_add(value.trim().parse().ok()?))?;
    pages.checked_mul(FRAME_BYTES).map(Bytes::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: &str = "\
Node 0, zone      DMA
  pages free     3840
        boost    0
        min      55
        low      68
        high     81
        promo    94
        protection: (0, 3019, 4555, 4555, 4555)
      nr_free_pages 3840
  pagesets
    cpu: 0
              count:    0
              high:     512
              high_min: 512
Node 0, zone    DMA32
  pages free     769310
        min      11163
        low      13953
        high     16743
";

    #[test]
    fn watermarks_are_summed_over_zones_and_never_mixed_with_page_sets() {
        let marks = KernelWatermarks::parse(SAMPLE).unwrap();
        let pages = [marks.min, marks.low, marks.high].map(Bytes::frames);
        assert_eq!(pages, [55 + 11163, 68 + 13953, 81 + 16743]);
    }

    #[test]
    fn what_names_no_watermark_has_none() {
        for text in
            ["", "Node 0, zone DMA", "min 1\nlow 2\n", "min x\nlow 1\nhigh 1", "min 99999999999999999\nlow 1\nhigh 1"]
        {
            assert_eq!(KernelWatermarks::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "((min|low|high)?[ 0-9a-z:-]{0,24}\n){0,8}") {
            let _ = KernelWatermarks::parse(&text);
        }
    }
}
