//! Lines of a growing file, with a bound on the length of a line and of a read.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rampart_memory::ErrorBatch;

use crate::Error;

/// Bytes of the longest line; a longer one cannot be ours.
const LONGEST: usize = 1 << 16;

/// Bytes read at once, at most: thousands of errors.
const AT_ONCE: usize = 1 << 22;

/// What a poll returns: errors that were read before a failure come first, and the failure comes again.
pub(super) fn polled(batch: ErrorBatch, read: io::Result<()>, path: &Path) -> Result<ErrorBatch, Error> {
    match read {
        Err(cause) if batch == ErrorBatch::default() => Err(Error::Read { path: path.to_owned(), cause }),
        Ok(()) | Err(_) => Ok(batch),
    }
}

/// The end of the file, if it is no complete line yet.
#[derive(Debug, Default)]
pub(super) struct TailedLines {
    partial: Vec<u8>,
    too_long: bool,
}

/// Whether everything was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadProgress {
    /// All.
    AtTheEnd,
    /// The bound of a read was reached.
    MoreToCome,
}

impl TailedLines {
    /// Passes on each complete line that can be read without waiting, without its end; `None` for a line that is too
    /// long.
    pub(super) fn read(&mut self, mut file: &File, mut line: impl FnMut(Option<&str>)) -> io::Result<ReadProgress> {
        let mut buffer = vec![0; 1 << 16];
        let mut read = 0;
        while read < AT_ONCE {
            match file.read(&mut buffer) {
                Ok(0) => return Ok(ReadProgress::AtTheEnd),
                Ok(count) => {
                    self.push(&buffer[..count], &mut line);
                    read += count;
                }
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(ReadProgress::AtTheEnd),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(ReadProgress::MoreToCome)
    }

    /// Passes on the part of a line whose end will not come.
    pub(super) fn finish(&mut self, mut line: impl FnMut(Option<&str>)) {
        if self.too_long || !self.partial.is_empty() {
            self.end_line(&mut line);
        }
    }

    fn push(&mut self, bytes: &[u8], mut line: impl FnMut(Option<&str>)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(last) => {
                    self.keep(last);
                    self.end_line(&mut line);
                }
                None => self.keep(piece),
            }
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        self.too_long |= self.partial.len() + piece.len() > LONGEST;
        if self.too_long {
            self.partial.clear();
        } else {
            self.partial.extend_from_slice(piece);
        }
    }

    fn end_line(&mut self, line: &mut impl FnMut(Option<&str>)) {
        if self.too_long {
            line(None);
        } else {
            // A firmware's DIMM label may be anything.
            line(Some(&String::from_utf8_lossy(&self.partial)));
        }
        self.partial.clear();
        self.too_long = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn errors_that_were_read_before_a_failure_are_not_lost_by_it() {
        let path = Path::new("/errors");
        let failure = || Err(io::ErrorKind::InvalidInput.into());
        let some = || ErrorBatch { lost: 3, ..ErrorBatch::default() };
        assert_eq!(polled(some(), Ok(()), path).unwrap(), some());
        assert_eq!(polled(ErrorBatch::default(), Ok(()), path).unwrap(), ErrorBatch::default());
        assert_eq!(polled(some(), failure(), path).unwrap(), some());
        let failed = polled(ErrorBatch::default(), failure(), path).unwrap_err();
        assert!(matches!(failed, Error::Read { path: told, .. } if told == path));
    }

    #[test]
    fn a_line_that_is_too_long_is_told_and_not_kept() {
        let (mut lines, mut seen) = (TailedLines::default(), Vec::new());
        let mut see = |line: Option<&str>| seen.push(line.map(str::len));
        for _ in 0..100 {
            lines.push(&[b'x'; 1 << 12], &mut see);
            assert!(lines.partial.len() <= LONGEST);
        }
        lines.push(b"x\nshort\nwithout end", &mut see);
        lines.finish(&mut see);
        lines.finish(&mut see);
        assert_eq!(seen, [None, Some(5), Some(11)]);
    }

    proptest! {
        #[test]
        fn however_it_is_cut_the_lines_are_the_same(pieces in vec("[ab\n]{0,6}", 0..8)) {
            let (mut lines, mut seen) = (TailedLines::default(), Vec::new());
            let mut see = |line: Option<&str>| seen.push(line.unwrap().to_owned());
            for piece in &pieces {
                lines.push(piece.as_bytes(), &mut see);
            }
            lines.finish(&mut see);
            prop_assert_eq!(seen, pieces.concat().lines().map(str::to_owned).collect::<Vec<_>>());
        }
    }
}
