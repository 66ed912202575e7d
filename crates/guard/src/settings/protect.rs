//! The memory of a program that is guarded.
//!
//! The heap always is, and alone by default: a program uses memory of `malloc` only as the C library's rules allow, and
//! nothing else knows of its pages. A program's own mappings and its static data have more uses: as stacks of
//! coroutines, as memory that is shared with devices, as data that the C library itself reads. All these work where
//! pages move; where faults are signals, some do not. So they are guarded only on request.

use std::fmt;
use std::str::FromStr;

use rampart_memory::{Bytes, FRAME_BYTES};

/// Memory that is guarded besides the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protect {
    /// The writable data of the executable: initialised (`.data`) and not (`.bss`).
    pub data: bool,
    /// Anonymous private mappings of the program of at least so many bytes.
    pub mappings: Option<Bytes>,
}

/// The default minimum size of guarded mappings: what Python and other allocators request at once.
pub const USUAL_MAPPING: Bytes = Bytes::from_mib(1);

/// the memory to protect is a list such as heap,bss,mmap or heap,mmap=4MiB; the heap is always in it, and mmap is at
/// least 4KiB
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub struct ProtectError;

/// `heap`, `bss` and `mmap` or `mmap=SIZE`, with commas between, in any order, or with `+`, as [`Protect`] is
/// displayed.
impl FromStr for Protect {
    type Err = ProtectError;

    fn from_str(text: &str) -> Result<Self, ProtectError> {
        let (mut protect, mut heap) = (Self::default(), false);
        for part in text.split([',', '+']) {
            match part.split_once('=') {
                None if part == "heap" => heap = true,
                None if part == "bss" => protect.data = true,
                None if part == "mmap" => protect.mappings = Some(USUAL_MAPPING),
                Some(("mmap", size)) => {
                    let size = size.parse().ok().filter(|size| *size >= Bytes::new(FRAME_BYTES));
                    protect.mappings = Some(size.ok_or(ProtectError)?);
                }
                _ => return Err(ProtectError),
            }
        }
        if heap { Ok(protect) } else { Err(ProtectError) }
    }
}

/// With `+` between the parts, so that it can stand in a list.
impl fmt::Display for Protect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "heap{}", if self.data { "+bss" } else { "" })?;
        self.mappings.map_or(Ok(()), |size| write!(f, "+mmap={}", size.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_in_any_order_and_shown_so_that_it_is_read_back() {
        let all = Protect { data: true, mappings: Some(Bytes::from_mib(4)) };
        assert_eq!("mmap=4MiB,heap,bss".parse(), Ok(all));
        assert_eq!(all.to_string().parse(), Ok(all));
        assert_eq!("heap".parse(), Ok(Protect::default()));
        assert_eq!("heap,mmap".parse(), Ok(Protect { data: false, mappings: Some(USUAL_MAPPING) }));
    }

    #[test]
    fn what_is_no_memory_and_what_leaves_the_heap_out_is_refused() {
        for bad in ["", "bss", "mmap", "heap,", "heap,stack", "heap,mmap=", "heap,mmap=1KiB", "heap=3", "heap,bss="] {
            assert_eq!(bad.parse::<Protect>(), Err(ProtectError), "{bad}");
        }
    }
}
