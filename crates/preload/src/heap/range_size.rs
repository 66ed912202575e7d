//! The length of a heap's range.

use std::env;

use rampart_memory::Bytes;
use rustix::process::{Resource, getrlimit};

use crate::error::Error;

/// The smallest range that can be requested.
pub const SMALLEST_RANGE: Bytes = Bytes::from_mib(64);

/// Addresses, not memory: eight times the memory of a large machine, and 1/128 of all addresses.
const USUAL_RANGE: Bytes = Bytes::from_mib(1 << 20);

/// The length of the range.
pub(crate) struct Size {
    pub(crate) bytes: Bytes,
    /// Less than requested, because the process may have no more addresses.
    pub(crate) is_limited: bool,
}

/// The length in the environment, or else [`USUAL_RANGE`]; but at most one of so many `parts` of the process' address
/// limit.
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
