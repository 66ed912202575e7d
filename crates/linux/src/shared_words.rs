//! A file's words, while other processes write them: the RAM of an emulated machine.
//!
//! **Problem.** A program that disturbs another's memory must neither tear a word that the other writes nor undo a
//! write that it did not see. **Idea.** The file is mapped shared, and every access is one atomic operation on one
//! 64-bit word. **Why this way.** The processor's read-modify-write instructions change bits atomically with the plain
//! stores of the other process; no reference to the memory leaves this module.

#![expect(unsafe_code, reason = "mapping memory and accessing it by address is what this module is for")]

use std::fs::File;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{self, MapFlags, ProtFlags};

use crate::Error;

const WORD_BYTES: u64 = size_of::<u64>() as u64;

/// A mapped file, unmapped on drop.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<u64>,
    words: usize,
}

// SAFETY: a mapping belongs to the process and not to a thread, and its one owner may be any thread.
unsafe impl Send for SharedWords {}

impl SharedWords {
    /// Maps all whole words of a file for reading and writing.
    ///
    /// # Errors
    /// [`Error::MapFile`] if it is absent, holds no word, or the kernel does not map it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |cause| Error::MapFile { path: path.to_owned(), cause };
        let file = File::options().read(true).write(true).open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let words = usize::try_from(length / WORD_BYTES).expect("a file that can be mapped fits an address space");
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is asked for, so the kernel replaces no mapping that exists.
        let start =
            unsafe { mm::mmap(ptr::null_mut(), words * size_of::<u64>(), protection, MapFlags::SHARED, &file, 0) };
        let start = start.map_err(|errno| failed(errno.into()))?;
        Ok(Self {
            start: NonNull::new(start.cast()).expect("the kernel maps nothing at address 0 unless asked to"),
            words,
        })
    }

    /// The number of words.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.words
    }

    /// The content of a word. Panics outside of the file, like all functions below.
    #[must_use]
    #[inline]
    pub fn load(&self, word: usize) -> u64 {
        self.word(word).load(Ordering::Relaxed)
    }

    /// Sets a word to `value`.
    #[inline]
    pub fn store(&self, word: usize, value: u64) {
        self.word(word).store(value, Ordering::Relaxed);
    }

    /// Sets the bits of `mask` in a word.
    #[inline]
    pub fn set(&self, word: usize, mask: u64) {
        self.word(word).fetch_or(mask, Ordering::Relaxed);
    }

    /// Clears the bits of `mask` in a word.
    #[inline]
    pub fn clear(&self, word: usize, mask: u64) {
        self.word(word).fetch_and(!mask, Ordering::Relaxed);
    }

    /// Inverts the bits of `mask` in a word.
    #[inline]
    pub fn invert(&self, word: usize, mask: u64) {
        self.word(word).fetch_xor(mask, Ordering::Relaxed);
    }

    #[inline]
    fn word(&self, word: usize) -> &AtomicU64 {
        assert!(word < self.words, "word {word} of {}", self.words);
        // SAFETY: the word lies in the mapping, which lives as long as `self`, is readable and writable, and begins at
        // a page, so it is aligned. An atomic may change under its reference, and this process accesses it in no other
        // way.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(word)) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's own, and no reference into it outlives a call.
        let unmapped = unsafe { mm::munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn words_change_in_the_file_and_only_in_the_bits_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [0xf0_u8; 4099]).unwrap();
        let words = SharedWords::open(file.path()).unwrap();
        assert_eq!(words.count(), 512);
        words.set(0, 0x0f);
        words.clear(1, 0xf0);
        words.invert(2, 0xff);
        words.store(511, 7);
        let expected = [0xf0f0_f0f0_f0f0_f0ff, 0xf0f0_f0f0_f0f0_f000, 0xf0f0_f0f0_f0f0_f00f];
        assert_eq!([0, 1, 2].map(|word| words.load(word)), expected);
        drop(words);
        let bytes = fs::read(file.path()).unwrap();
        assert_eq!(bytes[..8], expected[0].to_ne_bytes());
        assert_eq!(bytes[511 * 8..512 * 8], 7_u64.to_ne_bytes());
    }

    #[test]
    fn another_mapping_of_the_file_sees_each_change_and_is_seen() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [0_u8; 4096]).unwrap();
        let [one, other] = [(); 2].map(|()| SharedWords::open(file.path()).unwrap());
        one.store(3, 5);
        other.set(3, 8);
        assert_eq!(one.load(3), 13);
    }

    #[test]
    fn an_absent_or_empty_file_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let (absent, empty) = (folder.path().join("absent"), folder.path().join("empty"));
        fs::write(&empty, "").unwrap();
        for path in [absent, empty] {
            let error = SharedWords::open(&path).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
        }
    }

    #[test]
    #[should_panic(expected = "word 512 of 512")]
    fn no_word_outside_of_the_file_is_touched() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [0_u8; 4096]).unwrap();
        let _ = SharedWords::open(file.path()).unwrap().load(512);
    }
}
