//! Traces of page allocation into files, compressed by zstd or not.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rampart_banks::PageEvent;

/// Bytes that are written at once: what the file takes of the machine is then little and seldom.
const AT_ONCE: usize = 1 << 20;

/// The fastest level: a trace is compressed while it is recorded.
const LEVEL: i32 = 1;

/// A trace that is being written.
pub struct PageTraceFile {
    file: Destination,
    /// The first failure, after which nothing is written.
    failure: Option<io::Error>,
}

enum Destination {
    Plain(BufWriter<File>),
    Compressed(BufWriter<zstd::Encoder<'static, File>>),
}

impl PageTraceFile {
    /// Makes the file, compressed if its name ends in `.zst`.
    ///
    /// # Errors
    /// Why it cannot be made; it must not exist.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let file = if path.extension().is_some_and(|extension| extension == "zst") {
            Destination::Compressed(BufWriter::with_capacity(AT_ONCE, zstd::Encoder::new(file, LEVEL)?))
        } else {
            Destination::Plain(BufWriter::with_capacity(AT_ONCE, file))
        };
        Ok(Self { file, failure: None })
    }

    /// Writes an event.
    pub fn write(&mut self, event: PageEvent) {
        if self.failure.is_none() {
            let bytes = event.to_bytes();
            let written = match &mut self.file {
                Destination::Plain(file) => file.write_all(&bytes),
                Destination::Compressed(file) => file.write_all(&bytes),
            };
            self.failure = written.err();
        }
    }

    /// Whether a write has failed.
    pub const fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Ends the file, and returns its length.
    ///
    /// # Errors
    /// The first failure.
    pub fn finish(self) -> io::Result<u64> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let file = match self.file {
            Destination::Plain(file) => file.into_inner()?,
            Destination::Compressed(file) => file.into_inner()?.finish()?,
        };
        Ok(file.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::page_trace;

    #[test]
    fn a_trace_is_written_as_its_name_says_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let event = PageEvent::from_bytes([0; 16]).unwrap();
        let [plain, compressed] = ["trace.pat", "trace.pat.zst"].map(|name| {
            let path = folder.path().join(name);
            let mut file = PageTraceFile::create(&path).unwrap();
            (0..100_000).for_each(|_| file.write(event));
            let length = file.finish().unwrap();
            assert_eq!(page_trace::read(&path).unwrap(), vec![event; 100_000]);
            assert!(PageTraceFile::create(&path).is_err(), "it exists");
            length
        });
        assert!(plain == 1_600_000 && compressed < 10_000, "{plain} {compressed}");
    }

    #[test]
    fn a_full_disk_is_noticed() {
        let file = BufWriter::with_capacity(AT_ONCE, OpenOptions::new().write(true).open("/dev/full").unwrap());
        let mut trace = PageTraceFile { file: Destination::Plain(file), failure: None };
        let event = PageEvent::from_bytes([0; 16]).unwrap();
        (0..2 * AT_ONCE / 16).for_each(|_| trace.write(event));
        assert!(trace.has_failed());
        assert_eq!(trace.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
