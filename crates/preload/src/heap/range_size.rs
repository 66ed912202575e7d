//! How long the range of a heap is.

use std::env;

use rampart_memory::Bytes;
use rustix::process::{Resource, getrlimit};

use crate::error::Error;

/// The smallest range that can be asked for.
pub const SMALLEST_RANGE: Bytes = Bytes::from_mib(64);

/// Addresses, not memory: as many as eight times the memory of a large machine, and 1/128 of those that there are.
const USUAL_RANGE: Bytes = Bytes::from_mib(1 << 20);

/// How long the range is to be.
pub(crate) struct Size {
    pub(crate) bytes: Bytes,
    /// Less than was asked for, since the process may have no more addresses.
    pub(crate) is_limited: bool,
}

/// What the environment says, or else [`USUAL_RANGE`]; but at most one of so many `parts` of the addresses that the
/// process may have.
pub(crate) fn range_size(parts: u64) -> Result<Size, Error> {
    let asked = match env::var_os("RAMPART_GUARD_RANGE") {
        Some(text) => text.to_str().and_then(|text| text.parse().ok()).ok_or(Error::RangeSize)?,
        None => USUAL_RANGE,
    };
    if asked < SMALLEST_RANGE {
        return Err(Error::RangeSize);
    }
    let limit = getrlimit(Resource::As).current.unwrap_or(u64::MAX);
    let most = Bytes::new(limit / parts);
    Ok(Size { bytes: asked.min(most), is_limited: most < asked })
}
