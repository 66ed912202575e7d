//! The content of the victim's pages, computed as the victim does, and the codes of a page as the guard's design
//! defines them.

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// A page's bytes.
pub type Page = [u8; PAGE_BYTES];

/// The finalizer of splitmix64.
pub fn mix(seed: u64) -> u64 {
    let x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A number below `end`, from a random one.
pub fn below(random: u64, end: usize) -> usize {
    usize::try_from(random % end as u64).expect("it is below a usize")
}

/// The content that the victim writes to a page.
pub fn page(number: u64, generation: u64) -> Page {
    let mut page = [0; PAGE_BYTES];
    for (word, bytes) in (0..).zip(page.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&mix(number << 32 | generation << 16 | word).to_le_bytes());
    }
    page
}

/// CRC32C [RFC 3720, B.4].
pub fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)))
}

/// P of RAID 6: the sum of the lines of a page.
pub fn p(page: &Page) -> [u8; 64] {
    page.chunks_exact(64).fold([0; 64], |sum, line| std::array::from_fn(|byte| sum[byte] ^ line[byte]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_is_that_of_its_standard() {
        // RFC 3720, B.4: 32 bytes of zeros, and "123456789" as in every catalogue.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn p_and_any_63_lines_give_the_last() {
        let page = page(3, 1);
        let mut rest = page;
        rest[640..704].fill(0);
        let (with, without) = (p(&page), p(&rest));
        assert!((0..64).all(|byte| with[byte] ^ without[byte] == page[640 + byte]));
    }

    #[test]
    fn pages_and_generations_differ() {
        assert!(page(1, 0) != page(2, 0) && page(1, 0) != page(1, 1));
    }
}
