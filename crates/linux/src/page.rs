//! The size of pages: 4 KiB, or nothing here works.

use rampart_memory::{Bytes, PAGE_BYTES};

use crate::Error;

pub(crate) fn check_page_size() -> Result<(), Error> {
    match rustix::param::page_size() {
        PAGE_BYTES => Ok(()),
        other => Err(Error::PageSize(Bytes::new(other as u64))),
    }
}
