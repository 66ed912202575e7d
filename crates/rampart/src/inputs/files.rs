//! Reads files that a user names, whatever they are.
//!
//! **Problem.** Reading a device may never end, reading a FIFO may never begin, and a sparse file can be a terabyte
//! long. **Idea.** Only a regular file is read, up to a limit, and the memory that its content would need is compared
//! with free memory first.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use rampart_linux::{MemoryState, Roots};
use rampart_memory::Bytes;

/// Why a file is not read, and what to do.
pub type FileRefusal = String;

/// Returns the length of a regular file.
pub fn length(path: &Path) -> Result<u64, FileRefusal> {
    let file = fs::metadata(path).map_err(|error| error.to_string())?;
    match file.file_type() {
        kind if kind.is_file() => Ok(file.len()),
        kind if kind.is_dir() => Err("it is a directory: name a file".to_owned()),
        _ => Err("it is a device, a pipe or a socket: name a regular file".to_owned()),
    }
}

/// Reads a regular file of at most `max` bytes.
pub fn read(path: &Path, max: Bytes) -> Result<Vec<u8>, FileRefusal> {
    let too_long = || format!("it is longer than {max}: name a shorter one");
    let length = length(path)?;
    if length > max.get() {
        return Err(too_long());
    }
    let (mut bytes, refused) = (Vec::new(), |error: std::io::Error| error.to_string());
    // The file may have grown meanwhile, or may not report its length.
    File::open(path).map_err(refused)?.take(max.get().saturating_add(1)).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > max.get() { Err(too_long()) } else { Ok(bytes) }
}

/// Opens a regular file to read its first bytes, at most `max`, one after the other.
pub fn open(path: &Path, max: Bytes) -> Result<impl BufRead, FileRefusal> {
    length(path)?;
    Ok(BufReader::new(File::open(path).map_err(|error| error.to_string())?).take(max.get()))
}

/// Reads a regular file of at most `max` bytes as text.
pub fn read_text(path: &Path, max: Bytes) -> Result<String, FileRefusal> {
    String::from_utf8(read(path, max)?).map_err(|_| "it is not UTF-8 text: name another file".to_owned())
}

/// Reads the first bytes of a regular file, at most `max`.
pub fn read_start(path: &Path, max: usize) -> Result<Vec<u8>, FileRefusal> {
    length(path)?;
    let (mut bytes, refused) = (Vec::new(), |error: std::io::Error| error.to_string());
    File::open(path).map_err(refused)?.take(max as u64).read_to_end(&mut bytes).map_err(refused)?;
    Ok(bytes)
}

/// Refuses work that needs more memory than is free.
pub fn check_memory(needed: Bytes, remedy: &str) -> Result<(), FileRefusal> {
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
        assert_eq!(read_start(&file, 2), Ok(b"ab".to_vec()));
        assert!(read(&file, Bytes::new(2)).unwrap_err().contains("longer than"));
        fs::write(&file, [255]).unwrap();
        assert!(read_text(&file, Bytes::new(2)).unwrap_err().contains("not UTF-8 text"));
        for (path, kind) in [("/dev/zero", "a device"), ("/dev/urandom", "a device"), ("/", "a directory")] {
            for refused in [read(Path::new(path), Bytes::new(9)), read_start(Path::new(path), 9)] {
                assert!(refused.unwrap_err().contains(kind), "{path}");
            }
        }
        // A file that reports length 0 and has many bytes.
        assert!(read(Path::new("/proc/cpuinfo"), Bytes::new(9)).unwrap_err().contains("longer than"));
        assert!(read(Path::new("/nowhere"), Bytes::new(9)).is_err());
    }

    #[test]
    fn what_needs_more_than_is_free_is_refused_with_a_remedy() {
        assert_eq!(check_memory(Bytes::new(1), "x"), Ok(()));
        assert!(
            check_memory(Bytes::new(u64::MAX), "use a shorter one").unwrap_err().ends_with("free: use a shorter one")
        );
    }
}
