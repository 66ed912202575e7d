//! Files that a user names, read without being surprised by what they are.
//!
//! **Problem.** A device never ends, a FIFO never begins, and a file of a terabyte takes no room on the disk. **Idea.**
//! Only a regular file is read, no more of it than is allowed, and what it would need is compared with free memory
//! first.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use rampart_linux::{MemoryState, Roots};
use rampart_memory::Bytes;

/// Why a file is not read, with what to do.
pub type Refusal = String;

/// The length of a regular file.
pub fn length(path: &Path) -> Result<u64, Refusal> {
    let file = fs::metadata(path).map_err(|error| error.to_string())?;
    match file.file_type() {
        kind if kind.is_file() => Ok(file.len()),
        kind if kind.is_dir() => Err("it is a directory: name a file".to_owned()),
        _ => Err("it is a device, a pipe or a socket: name a regular file".to_owned()),
    }
}

/// All of a regular file, if that is at most so much.
pub fn read(path: &Path, most: Bytes) -> Result<Vec<u8>, Refusal> {
    let too_long = || format!("it is longer than {most}: name a shorter one");
    let length = length(path)?;
    if length > most.get() {
        return Err(too_long());
    }
    let (mut bytes, told) = (Vec::new(), |error: std::io::Error| error.to_string());
    // It may have grown meanwhile, or may not say how long it is.
    File::open(path).map_err(told)?.take(most.get().saturating_add(1)).read_to_end(&mut bytes).map_err(told)?;
    if bytes.len() as u64 > most.get() { Err(too_long()) } else { Ok(bytes) }
}

/// The same as text.
pub fn read_text(path: &Path, most: Bytes) -> Result<String, Refusal> {
    String::from_utf8(read(path, most)?).map_err(|_| "it is no text: name another file".to_owned())
}

/// The first bytes of a regular file, at most so many.
pub fn begin(path: &Path, most: usize) -> Result<Vec<u8>, Refusal> {
    length(path)?;
    let (mut bytes, told) = (Vec::new(), |error: std::io::Error| error.to_string());
    File::open(path).map_err(told)?.take(most as u64).read_to_end(&mut bytes).map_err(told)?;
    Ok(bytes)
}

/// Refuses what needs more memory than is free.
pub fn fits(needed: Bytes, remedy: &str) -> Result<(), Refusal> {
    let available = MemoryState::read(&Roots::default()).map_err(|error| error.to_string())?.available();
    if needed > available {
        return Err(format!("it would take about {needed} of memory and {available} are free: {remedy}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_of_a_reasonable_length_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "abc").unwrap();
        assert_eq!(read(&file, Bytes::new(3)), Ok(b"abc".to_vec()));
        assert_eq!(begin(&file, 2), Ok(b"ab".to_vec()));
        assert!(read(&file, Bytes::new(2)).unwrap_err().contains("longer than"));
        fs::write(&file, [255]).unwrap();
        assert!(read_text(&file, Bytes::new(2)).unwrap_err().contains("no text"));
        for (path, told) in [("/dev/zero", "a device"), ("/dev/urandom", "a device"), ("/", "a directory")] {
            for refused in [read(Path::new(path), Bytes::new(9)), begin(Path::new(path), 9)] {
                assert!(refused.unwrap_err().contains(told), "{path}");
            }
        }
        // Says that it has no bytes, and has many.
        assert!(read(Path::new("/proc/cpuinfo"), Bytes::new(9)).unwrap_err().contains("longer than"));
        assert!(read(Path::new("/nowhere"), Bytes::new(9)).is_err());
    }

    #[test]
    fn what_needs_more_than_is_free_is_refused_with_a_remedy() {
        assert_eq!(fits(Bytes::new(1), "x"), Ok(()));
        assert!(fits(Bytes::new(u64::MAX), "use a shorter one").unwrap_err().ends_with("free: use a shorter one"));
    }
}
