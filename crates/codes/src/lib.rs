//! Codes over a page of memory: what is stored beside it so that a change is seen, told from a change of the codes
//! themselves, and undone.
//!
//! **Problem.** A page that nobody may write is still changed now and then by the memory under it: a bit, a few bits of
//! a word, a line that was read or written at the wrong address, a column of a chip. Whoever uses the page next must
//! get what was stored or be told. **Idea.** A CRC says whether the page is as it was, at the speed of the memory; it
//! alone decides. A second code beside it only guesses what was changed, and no guess is kept whose page does not have
//! the stored CRC [Fiala15, 4.3.2 and 4.3.3]. **Why this way.** Correction codes see some changes as others: three
//! flips in a word look like one. With the CRC as judge such a mistake ends as an error that is told and never as a
//! page that is wrong; and as long as nothing is wrong, which is nearly always, reading a page costs its CRC and no
//! more.
//!
//! # The schemes
//!
//! | name | bytes a page | corrects | and else sees |
//! |---|---|---|---|
//! | `crc` | 8 (0.2 %) | nothing | see below |
//! | `crc+pq` | 136 (3.3 %) | any change of any one line of 64 bytes | the same |
//! | `crc+hamming` | 456 (11.1 %) | one flip in each of the 512 bit positions of a line, across the 64 lines | the same |
//! | `crc+secded` | 520 (12.7 %) | one flip in each of the 512 words of 64 bits | the same |
//!
//! FlipSphere's scheme is `crc+secded` ([Fiala15, tab. 4.1], less the second copy of the CRC).
//!
//! # What is promised
//! 1. Of a change of the page alone, every one is seen that is of 1, 2 or 3 bits, of any odd number of bits, or
//!    confined to 32 bits in a row; of any others all but one in 2^32. This is CRC32C at this length, proved over the
//!    CRCs of all 32,768 single flips.
//! 2. What the table says is corrected is corrected, for certain, where the codes were not hit too.
//! 3. A page is never said to be corrected unless it has a stored CRC. A change beyond the table is uncorrectable; one
//!    that a scheme takes for another is refused by the CRC, but for at most four in 2^32 of those.
//! 4. The CRC is stored twice, before and after the other codes, 128 bytes or more apart. So a page whose one copy was
//!    hit, by whatever change, is known to be good, and its codes are put right: so it is with any change of the P and
//!    Q, the SECDED or the Hamming codes.
//! 5. A page and its codes hit together: what could be corrected in the page alone still is, if one copy of the CRC is
//!    whole and what corrects was not hit; nor does a flip do harm in the SECDED codes of another word, or in the
//!    Hamming codes of another bit position (but one in their parity to a flip in line 0). Any other such pair may be
//!    uncorrectable, and is told.
//!
//! What cannot be told apart: a good page both of whose CRCs were hit, from a page that is beyond correction. With
//! `crc` the copies lie side by side, and one destroyed line takes both.
//!
//! # Speed
//! [`Engine`] has a set of kernels for each generation of processors. Each goes over a page once for all codes of a
//! scheme, faster than memory delivers it, so the price of a code is that of reading its page.
//!
//! Libraries: `displaydoc` and `thiserror` for errors.

#![deny(unsafe_code)]

mod bits;
mod codec;
mod correct;
mod crc;
mod gf256;
mod hsiao;
#[expect(unsafe_code, reason = "instructions of processors, and pages that memory may change are never borrowed")]
mod kernel;
mod page_data;
mod scheme;
mod size;
#[cfg(test)]
mod twin;

pub use bits::PageBits;
pub use codec::{Codec, Verdict};
pub use correct::{Correction, Outcome};
pub use kernel::{Engine, Page, Pages};
pub use page_data::PageData;
pub use scheme::{Scheme, UnknownScheme};
pub use size::{PAGE_BYTES, PAGE_LINES};

use size::LINE_BYTES;
