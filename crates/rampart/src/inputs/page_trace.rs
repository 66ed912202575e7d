//! Traces of page allocation from files, compressed by zstd or not.

use std::fs::File;
use std::io::{BufReader, Read, Seek as _};
use std::path::Path;

use rampart_banks::{PageEvent, read_page_trace};

use super::files::{FileRefusal, length};

/// The first bytes of a file that zstd compressed (RFC 8878, 3.1.1).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Reads a trace.
pub fn read(path: &Path) -> Result<Vec<PageEvent>, FileRefusal> {
    length(path)?;
    let refused = |error: std::io::Error| error.to_string();
    let mut file = File::open(path).map_err(refused)?;
    let mut start = Vec::new();
    file.by_ref().take(ZSTD.len() as u64).read_to_end(&mut start).map_err(refused)?;
    file.rewind().map_err(refused)?;
    let events = if start == ZSTD {
        read_page_trace(BufReader::new(zstd::Decoder::new(file).map_err(refused)?))
    } else {
        read_page_trace(BufReader::new(file))
    };
    events.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_whether_it_is_compressed_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let plain = [0_u8; 48];
        std::fs::write(&path, plain).unwrap();
        let events = read(&path).unwrap();
        assert_eq!(events.len(), 3);
        std::fs::write(&path, zstd::encode_all(&plain[..], 1).unwrap()).unwrap();
        assert_eq!(read(&path).unwrap(), events);
        let cut = zstd::encode_all(&plain[..], 1).unwrap();
        std::fs::write(&path, &cut[..cut.len() - 3]).unwrap();
        assert!(read(&path).unwrap_err().starts_with("the trace cannot be read: "));
        assert!(read(folder.path()).unwrap_err().contains("directory"));
    }
}
