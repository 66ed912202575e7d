//! Where the structures of an allocator lie.
//!
//! **Problem.** The page allocator of a kernel cannot allocate its own structures, for nothing can be allocated before
//! it. **Idea.** Each allocator asks a [`Storage`] for its arrays while it is made, and never again. [`LentStorage`]
//! cuts them from memory that the caller hands in; [`HeapStorage`] allocates them, for simulations; `StorageNeeds` only
//! adds up their sizes. **Why this way.** What an allocator says that it needs, and what it takes, follow from the same
//! lines.

#[cfg(feature = "alloc")]
use alloc::{boxed::Box, vec};
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ops::DerefMut;

use bump_into::BumpInto;
use rampart_memory::Bytes;

use crate::Error;

/// Gives out the arrays that an allocator consists of.
pub trait Storage<'a>: Sized + 'a {
    /// An array.
    type Array<T: Send + 'a>: DerefMut<Target = [T]> + Send + 'a;

    /// Returns an array of so many items, each by its index.
    ///
    /// # Errors
    /// If the memory does not suffice, or the first error of an item.
    fn array<T: Send + 'a>(
        &self,
        length: usize,
        item: impl FnMut(usize) -> Result<T, Error>,
    ) -> Result<Self::Array<T>, Error>;

    /// Returns an array of so many copies.
    ///
    /// # Errors
    /// If the memory does not suffice.
    fn filled<T: Copy + Send + 'a>(&self, length: usize, value: T) -> Result<Self::Array<T>, Error>;
}

/// Memory that the caller lends.
#[derive(Debug)]
pub struct LentStorage<'a>(BumpInto<'a>);

impl<'a> LentStorage<'a> {
    /// Returns a storage in this memory.
    pub fn of(memory: &'a mut [MaybeUninit<u8>]) -> Self {
        Self(BumpInto::from_slice(memory))
    }
}

impl<'a> Storage<'a> for LentStorage<'a> {
    type Array<T: Send + 'a> = &'a mut [T];

    fn array<T: Send + 'a>(
        &self,
        length: usize,
        mut item: impl FnMut(usize) -> Result<T, Error>,
    ) -> Result<&'a mut [T], Error> {
        let mut error = Error::TooLittleMemory;
        let items = (0..length).map_while(|index| item(index).map_err(|other| error = other).ok());
        let array = self.0.alloc_n_with(length, items).ok().filter(|array| array.len() == length);
        array.ok_or(error)
    }

    fn filled<T: Copy + Send + 'a>(&self, length: usize, value: T) -> Result<&'a mut [T], Error> {
        self.0.alloc_n_with(length, core::iter::repeat(value)).map_err(|_| Error::TooLittleMemory)
    }
}

/// The heap of a program.
#[cfg(feature = "alloc")]
#[derive(Clone, Copy, Debug)]
pub struct HeapStorage;

#[cfg(feature = "alloc")]
impl<'a> Storage<'a> for HeapStorage {
    type Array<T: Send + 'a> = Box<[T]>;

    fn array<T: Send + 'a>(
        &self,
        length: usize,
        item: impl FnMut(usize) -> Result<T, Error>,
    ) -> Result<Self::Array<T>, Error> {
        (0..length).map(item).collect()
    }

    fn filled<T: Copy + Send + 'a>(&self, length: usize, value: T) -> Result<Self::Array<T>, Error> {
        Ok(vec![value; length].into_boxed_slice())
    }
}

/// Counts the bytes that other storages would give out. Its arrays are empty.
pub struct StorageNeeds(Cell<usize>);

impl StorageNeeds {
    /// Returns the bytes of all arrays of what is built in it, at whatever address the first is.
    pub fn of(build: impl FnOnce(&Self) -> Result<(), Error>) -> Result<Bytes, Error> {
        let measure = Self(Cell::new(0));
        build(&measure)?;
        Ok(Bytes::new(measure.0.get() as u64))
    }

    fn count<T>(&self, length: usize) {
        let bytes = size_of::<T>().saturating_mul(length).saturating_add(align_of::<T>() - 1);
        self.0.set(self.0.get().saturating_add(bytes));
    }
}

impl<'a> Storage<'a> for StorageNeeds {
    type Array<T: Send + 'a> = &'a mut [T];

    fn array<T: Send + 'a>(
        &self,
        length: usize,
        item: impl FnMut(usize) -> Result<T, Error>,
    ) -> Result<&'a mut [T], Error> {
        self.count::<T>(length);
        (0..length).map(item).try_for_each(|item| item.map(drop))?;
        Ok(&mut [])
    }

    fn filled<T: Copy + Send + 'a>(&self, length: usize, _: T) -> Result<&'a mut [T], Error> {
        self.count::<T>(length);
        Ok(&mut [])
    }
}
