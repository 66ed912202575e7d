//! Addresses of which a part is used: the rest cannot be accessed, and takes no memory.
//!
//! A heap names its objects by offsets of 32 bits. With all addresses that these can name in one reservation, none
//! leads into memory of others.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use rampart_memory::Bytes;
use rustix::io::Errno;

use crate::block::mapping::Mapping;

/// Reserved addresses, released on drop.
#[derive(Debug)]
pub struct AddressReservation(Mapping);

impl AddressReservation {
    /// Reserves whole pages of addresses.
    ///
    /// # Errors
    /// If the process may not have as many.
    pub fn new(bytes: Bytes) -> io::Result<Self> {
        let bytes = usize::try_from(bytes.get()).map_err(|_| Errno::NOMEM)?;
        Ok(Self(Mapping::inaccessible(bytes)?))
    }

    /// The first address.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.0.base()
    }

    /// Lets a part, in whole pages, be read and written. It holds zeros.
    ///
    /// # Errors
    /// If the kernel does not grant as much memory.
    pub fn open(&self, part: Range<usize>) -> io::Result<()> {
        Ok(self.0.open(part)?)
    }
}
