//! Codes over a page of memory. They detect a change of the page, tell it from a change of the codes themselves, and
//! undo it.
//!
//! **Problem.** Faulty memory may change a page that nobody may write: a bit, a few bits of a word, a line that was
//! read or written at the wrong address, a column of a chip. The next user of the page must get the stored content or
//! an error. **Idea.** A CRC says whether the page is unchanged, at the speed of the memory; it alone decides. A second
//! code only guesses the change, and a guess counts only if the page then has the stored CRC [Fiala15, 4.3.2 and
//! 4.3.3]. **Why this way.** Correcting codes mistake some changes for others: three flips in a word look like one.
//! With the CRC as the judge, such a mistake ends as a reported error and never as a wrong page. And as long as nothing
//! is wrong, which is nearly always, reading a page costs only its CRC.
//!
//! # The schemes
//!
//! | name | bytes a page | corrects | also detects |
//! |---|---|---|---|
//! | `crc` | 8 (0.2 %) | nothing | see below |
//! | `crc+pq` | 136 (3.3 %) | any change of any one line of 64 bytes | the same |
//! | `crc+hamming` | 456 (11.1 %) | one flip in each of the 512 bit positions of a line, across the 64 lines | the same |
//! | `crc+secded` | 520 (12.7 %) | one flip in each of the 512 words of 64 bits | the same |
//!
//! FlipSphere's scheme is `crc+secded` ([Fiala15, tab. 4.1], without the second copy of the CRC).
//!
//! # Guarantees
//! 1. A change of the page alone is always detected if it has 1, 2 or 3 bits, any odd number of bits, or lies within 32
//!    consecutive bits; of all other changes, all but one in 2^32 are. This is CRC32C at this length, proved over the
//!    CRCs of all 32,768 single flips.
//! 2. A change that the table says is corrected is always corrected, if the codes were not hit too.
//! 3. A page is never reported as corrected unless it has a stored CRC. A change beyond the table is uncorrectable; if
//!    a scheme mistakes it for another change, the CRC refuses the result, except in at most four of 2^32 such cases.
//! 4. The CRC is stored twice, before and after the other codes, 128 bytes or more apart. A page with one damaged copy,
//!    whatever the change, is therefore known to be good, and its codes are corrected. The same holds for any change of
//!    the P and Q, the SECDED or the Hamming codes.
//! 5. If a page and its codes are hit together, a change that could be corrected in the page alone is still corrected
//!    as long as one copy of the CRC is whole and the correcting code was not hit. A flip in the SECDED code of another
//!    word does no harm either, nor one in the Hamming code of another bit position (except in the parity, together
//!    with a flip in line 0). Any other such pair may be uncorrectable, and is reported.
//!
//! One pair of cases cannot be told apart: a good page with both CRCs hit, and a page beyond correction. With `crc` the
//! copies lie side by side, and one destroyed line takes both.
//!
//! # Speed
//! [`CodeEngine`] has a set of kernels for each generation of processors. Each goes over a page once for all codes of a
//! scheme, faster than memory delivers it, so a code costs as much as reading its page.
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
#[cfg(test)]
mod reference_model;
mod scheme;
mod size;

pub use bits::PageBits;
pub use codec::{CodeVerdict, Codec};
pub use correct::{Correction, CorrectionOutcome};
pub use kernel::{CodeEngine, Page, Pages};
pub use page_data::PageData;
pub use scheme::{Scheme, UnknownScheme};
pub use size::{PAGE_BYTES, PAGE_LINES};

use size::LINE_BYTES;
