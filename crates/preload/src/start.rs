//! The first allocation of a process.
//!
//! **Problem.** It comes before any constructor, from the loader or from another library's constructor, when the C
//! library cannot start a thread yet. **Idea.** It reserves the range, by system calls only; what needs a whole C
//! library waits for the constructor (`process`). **Why this way.** So nothing of the program lies outside the range,
//! however early it came.

use std::env;

use rampart_memory::Bytes;
use rustix::process::{Resource, getrlimit};

use crate::Error;
use crate::heap::{Heap, SMALLEST_RANGE};

/// Addresses, not memory: as many as eight times the memory of a large machine, and 1/128 of those that there are.
const USUAL_RANGE: Bytes = Bytes::from_mib(1 << 20);

/// Starts the heap as the environment asks. If it cannot be, says so and goes on outside: the program matters more.
pub(crate) fn start(heap: &'static Heap) {
    let started = range_size(heap.parts()).and_then(|size| {
        if size.is_limited {
            heap.overflow();
        }
        heap.start(size.bytes)
    });
    if let Err(why) = started {
        heap.fail();
        say(&format!("rampart: the heap is not guarded: {why}\n"));
    }
}

/// How long the range is to be.
struct Size {
    bytes: Bytes,
    /// Less than was asked for, since the process may have no more addresses.
    is_limited: bool,
}

/// What the environment says, or else [`USUAL_RANGE`]; but at most one of so many `parts` of the addresses that the process may have.
fn range_size(parts: u64) -> Result<Size, Error> {
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

/// Writes to standard error, without the standard library's locks; a closed one is no reason to fail.
pub(crate) fn say(text: &str) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
}
