//! Reference models of the codes, bit by bit from their definitions. The kernels are tested against them.

use crate::PageData;
use crate::hsiao::COLUMNS;

/// The CRC32C of a message.
pub(crate) fn crc32c(message: &[u8]) -> u32 {
    !crc32c_state(u32::MAX, message)
}

/// The state after a message: polynomial division, a bit at a time.
pub(crate) fn crc32c_state(state: u32, message: &[u8]) -> u32 {
    message.iter().fold(state, |state, &byte| {
        (0..8).fold(state ^ u32::from(byte), |state, _| state >> 1 ^ if state & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

/// The product in GF(256) modulo 0x11d: long multiplication, then long division.
pub(crate) fn product(one: u8, other: u8) -> u8 {
    let long = (0..8).filter(|bit| other >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u16::from(one) << bit);
    let rest =
        (8..16).rev().fold(long, |rest, bit| if rest >> bit & 1 == 1 { rest ^ 0x11d << (bit - 8) } else { rest });
    u8::try_from(rest).expect("less than the divisor")
}

/// P, the sum of the lines; then Q, the sum of line i times 2^(63-i).
pub(crate) fn p_and_q(page: &PageData) -> Vec<u8> {
    let bytes = page.to_bytes();
    let (mut p, mut q) = ([0; 64], [0; 64]);
    for (line, exponent) in bytes.chunks(64).zip((0..64).rev()) {
        let weight = (0..exponent).fold(1, |weight, _| product(weight, 2));
        for (i, &byte) in line.iter().enumerate() {
            p[i] ^= byte;
            q[i] ^= product(weight, byte);
        }
    }
    [p, q].concat()
}

/// The check byte of each word: the sum of the columns of its set bits.
pub(crate) fn secded(page: &PageData) -> Vec<u8> {
    let words = page.lines.iter().flat_map(|line| line.0);
    words.map(|word| (0..64).filter(|bit| word >> bit & 1 == 1).fold(0, |sum, bit| sum ^ COLUMNS[bit])).collect()
}

/// For each bit of a line's index, the sum of the lines whose index has it; then the sum of all.
pub(crate) fn hamming(page: &PageData) -> Vec<u8> {
    let bytes = page.to_bytes();
    let sum = |which: &dyn Fn(usize) -> bool| {
        let lines = bytes.chunks(64).enumerate().filter(|(i, _)| which(*i));
        lines.fold([0; 64], |sum: [u8; 64], (_, line)| std::array::from_fn(|byte| sum[byte] ^ line[byte]))
    };
    let by_bit = (0..6).flat_map(|bit| sum(&|line| line >> bit & 1 == 1));
    by_bit.chain(sum(&|_| true)).collect()
}
