//! The difference between the stored codes and the codes of the present page.

use rampart_memory::{LineBits, LineData};

use crate::LINE_BYTES;

/// Line `index` of a syndrome, as bits.
pub(super) fn line_of(syndrome: &[u8], index: usize) -> LineBits {
    let bytes = &syndrome[index * LINE_BYTES..][..LINE_BYTES];
    let word = |i: usize| u64::from_le_bytes(bytes[8 * i..][..8].try_into().expect("eight bytes"));
    LineBits(LineData(std::array::from_fn(word)))
}
