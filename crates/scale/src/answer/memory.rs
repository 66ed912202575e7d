//! Estimates the memory that an answer needs, before it is computed.
//!
//! **Problem.** A file of some gigabytes, or a question about millions of nodes, needs more memory than the machine
//! has; the kernel then kills a program. **Idea.** The need follows from the length of the file or from the number of
//! nodes. **Why this way.** An estimate on the safe side costs nothing. A question that does not fit is refused at
//! once, and the message names a question that fits.

use rampart_memory::Bytes;

/// Memory to read and run a GOAL schedule, per byte of its file. Most take far less; but a file may have one rank only,
/// and while a rank is read, an operation takes 60 bytes and its dependencies. It may have seven bytes of text.
const GOAL_BYTES_A_BYTE: u64 = 16;

/// Memory for recorded detours, per byte of their file: a detour takes 16 bytes, plus its length once more, and has six
/// bytes of text.
const NOISE_BYTES_A_BYTE: u64 = 8;

/// Roughly the memory that the program of a GOAL file of this size takes, without its runs.
#[must_use]
pub fn of_goal_file(bytes: u64) -> Bytes {
    Bytes::new(bytes.saturating_mul(GOAL_BYTES_A_BYTE))
}

/// Roughly the memory that a file of recorded detours of this size takes.
#[must_use]
pub fn of_noise_file(bytes: u64) -> Bytes {
    Bytes::new(bytes.saturating_mul(NOISE_BYTES_A_BYTE))
}

/// The largest power of two below `nodes` for which a program fits into the available memory; 1 if none does.
#[must_use]
pub fn fewer_nodes_that_fit(nodes: u32, available: Bytes, needed: impl Fn(u32) -> Bytes) -> u32 {
    let mut fewer = (0..nodes.checked_ilog2().unwrap_or(0)).rev().map(|power| 1 << power);
    fewer.find(|fewer| needed(*fewer) <= available).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_claims_any_length_has_an_estimate() {
        assert_eq!(of_goal_file(10), Bytes::new(160));
        assert_eq!(of_noise_file(10), Bytes::new(80));
        assert_eq!([of_goal_file(u64::MAX), of_noise_file(u64::MAX)], [Bytes::new(u64::MAX); 2]);
    }

    #[test]
    fn where_so_many_nodes_do_not_fit_the_next_power_of_two_that_does_is_found() {
        let needed = |nodes: u32| Bytes::new(100 * u64::from(nodes));
        assert_eq!(fewer_nodes_that_fit(1000, Bytes::new(60_000), needed), 256);
        assert_eq!(fewer_nodes_that_fit(1024, Bytes::new(51_200), needed), 512);
        assert_eq!(fewer_nodes_that_fit(1024, Bytes::new(1), needed), 1);
        assert_eq!(fewer_nodes_that_fit(1, Bytes::new(1), needed), 1);
        assert_eq!(fewer_nodes_that_fit(0, Bytes::new(1), needed), 1);
    }
}
