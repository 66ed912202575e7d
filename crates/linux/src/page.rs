//! The size of pages: 4 KiB, or nothing here works.

use rampart_memory::{Bytes, FRAME_BYTES};

use crate::Error;

/// Bytes in a page; as many as in a frame.
pub(crate) const PAGE_BYTES: usize = 4096;

const _: () = assert!(PAGE_BYTES as u64 == FRAME_BYTES);

pub(crate) fn check_page_size() -> Result<(), Error> {
    match rustix::param::page_size() {
        PAGE_BYTES => Ok(()),
        other => Err(Error::PageSize(Bytes::new(other as u64))),
    }
}
