//! Lines of a growing file, with a bound on the length of a line and of a read.

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
    pub(super) fn read(&mut self, mut file: impl Read, mut line: impl FnMut(Option<&str>)) -> io::Result<ReadProgress> {
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

    /// What reads of a file return, one after the other; then its end.
    struct Script(Vec<io::Result<Vec<u8>>>);

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let bytes = self.0.remove(0)?;
            buffer[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        }
    }

    #[test]
    fn an_interrupted_read_goes_on_an_empty_pipe_is_the_end_and_other_failures_are_told() {
        let read_to = |end: io::ErrorKind| {
            let mut seen = Vec::new();
            let script = vec![
                Ok(b"one\n".to_vec()),
                Err(io::ErrorKind::Interrupted.into()),
                Ok(b"two\nthr".to_vec()),
                Err(end.into()),
                Ok(b"never\n".to_vec()),
            ];
            let read = TailedLines::default().read(Script(script), |line| seen.extend(line.map(str::to_owned)));
            (read.map_err(|cause| cause.kind()), seen)
        };
        let seen = ["one".to_owned(), "two".to_owned()].to_vec();
        assert_eq!(read_to(io::ErrorKind::WouldBlock), (Ok(ReadProgress::AtTheEnd), seen.clone()));
        assert_eq!(read_to(io::ErrorKind::InvalidData), (Err(io::ErrorKind::InvalidData), seen));
    }

    #[test]
    fn a_read_ends_at_its_bound_though_more_would_come() {
        let buffer = 1 << 16;
        let script = |reads| Script((0..reads).map(|_| Ok(vec![b'\n'; buffer])).collect());
        let mut lines = 0;
        let read = TailedLines::default().read(script(100), |_| lines += 1);
        assert_eq!((read.unwrap(), lines), (ReadProgress::MoreToCome, AT_ONCE));
        let read = TailedLines::default().read(script(AT_ONCE / buffer - 1), |_| ());
        assert_eq!(read.unwrap(), ReadProgress::AtTheEnd);
    }

    #[test]
    fn a_line_of_the_bound_is_kept_and_one_of_a_byte_more_is_not() {
        for (first, kept) in [(LONGEST - 1, Some(LONGEST)), (LONGEST, None)] {
            let (mut lines, mut seen) = (TailedLines::default(), Vec::new());
            for piece in [&vec![b'x'; first][..], b"x", b"\n"] {
                lines.push(piece, |line| seen.push(line.map(str::len)));
            }
            assert_eq!(seen, [kept]);
        }
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
