//! Errors from a file that another program writes: a JSON object on each line.
//!
//! **Problem.** Not only the kernel sees errors: so do firmware, a management controller, a test of ours. **Idea.** A
//! program that sees one appends a line to a file, in the form of [`MemoryError`]:
//!
//! ```json
//! {"at": 1714557600000000, "severity": "corrected", "count": 1, "frame": 1193046}
//! ```
//!
//! **Why a file.** It needs no protocol and no server, it keeps lines that were written while nobody read, and `tail
//! -f` shows it.
//!
//! The file may be truncated and rewritten, or renamed and replaced, as logrotate(8) does. Of a truncated file, only
//! lines that were read before are known; one that grew beyond its old length before the next poll looks as if it had
//! only grown.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rampart_memory::{ErrorBatch, MemoryError};
use rustix::fs::OFlags;

use super::lines::{ReadProgress, TailedLines, polled};
use crate::Error;

/// A file that is read from its start on, as it grows.
#[derive(Debug)]
pub struct FileFeed {
    path: PathBuf,
    file: File,
    lines: TailedLines,
}

impl FileFeed {
    /// Opens the file; its present content comes with the first [`FileFeed::poll`].
    ///
    /// # Errors
    /// [`Error::Read`] if it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = open(path).map_err(|cause| Error::Read { path: path.to_owned(), cause })?;
        Ok(Self { path: path.to_owned(), file, lines: TailedLines::default() })
    }

    /// The errors of all complete lines since the last poll, at most 4 MiB of them. Empty lines are skipped.
    ///
    /// # Errors
    /// [`Error::Read`] if the file cannot be read; nothing is lost by that.
    pub fn poll(&mut self) -> Result<ErrorBatch, Error> {
        let mut batch = ErrorBatch::default();
        let read = self.read(&mut batch);
        polled(batch, read, &self.path)
    }

    fn read(&mut self, batch: &mut ErrorBatch) -> io::Result<()> {
        if self.file.metadata()?.len() < self.file.stream_position()? {
            self.lines.finish(|line| take(line, batch));
            self.file.rewind()?;
        }
        // Checked first: once it exists, nothing more is written to the old file.
        let successor = self.successor()?;
        let progress = self.lines.read(&self.file, |line| take(line, batch))?;
        if let (Some(successor), ReadProgress::AtTheEnd) = (successor, progress) {
            self.lines.finish(|line| take(line, batch));
            self.file = successor;
            self.lines.read(&self.file, |line| take(line, batch))?;
        }
        Ok(())
    }

    /// The file that has the name now, if it is another one.
    fn successor(&self) -> io::Result<Option<File>> {
        let identity = |data: fs::Metadata| (data.dev(), data.ino());
        match open(&self.path) {
            Ok(file) if identity(file.metadata()?) == identity(self.file.metadata()?) => Ok(None),
            Ok(file) => Ok(Some(file)),
            // Between a file and the next, there may be none.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(cause),
        }
    }
}

/// Opens a file for reading; of a pipe, without waiting for its writer.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

/// The error on a line; `None` without one.
#[must_use]
pub fn parse_line(line: &str) -> Option<MemoryError> {
    serde_json::from_str(line).ok()
}

fn take(line: Option<&str>, batch: &mut ErrorBatch) {
    if line.is_some_and(|line| line.trim().is_empty()) {
        return;
    }
    match line.and_then(parse_line) {
        Some(error) => batch.errors.push(error),
        None => batch.unreadable += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_memory::{Severity, Timestamp};
    use std::io::Write;

    struct Feed {
        _folder: tempfile::TempDir,
        path: PathBuf,
        feed: FileFeed,
    }

    fn feed() -> Feed {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("errors.jsonl");
        fs::write(&path, "").unwrap();
        let feed = FileFeed::open(&path).unwrap();
        Feed { _folder: folder, path, feed }
    }

    impl Feed {
        fn append(&self, text: &str) {
            OpenOptions::new().append(true).create(true).open(&self.path).unwrap().write_all(text.as_bytes()).unwrap();
        }

        /// The counts of the returned errors, and the number of other lines.
        fn poll(&mut self) -> (Vec<u32>, u64) {
            let batch = self.feed.poll().unwrap();
            (batch.errors.iter().map(|error| error.count).collect(), batch.unreadable)
        }
    }

    fn line(count: u32) -> String {
        format!("{{\"at\":5,\"severity\":\"corrected\",\"count\":{count}}}\n")
    }

    #[test]
    fn a_line_is_read_once_and_only_when_it_is_whole() {
        let mut feed = feed();
        let (start, end) = (&line(2)[..10], &line(2)[10..]);
        feed.append(&format!("{}\n{start}", line(1)));
        assert_eq!(feed.poll(), (vec![1], 0));
        assert_eq!(feed.poll(), (vec![], 0));
        feed.append(end);
        assert_eq!(feed.poll(), (vec![2], 0));
    }

    #[test]
    fn what_a_line_says_is_what_is_told() {
        let mut feed = feed();
        feed.append(
            "{\"at\":5,\"severity\":\"uncorrected\",\"count\":1,\"frame\":1193046,\"place\":{\"label\":\"A1\"}}\n",
        );
        let error = feed.feed.poll().unwrap().errors.remove(0);
        assert_eq!((error.at, error.severity), (Timestamp::from_micros(5), Severity::Uncorrected));
        assert_eq!((error.frame.unwrap().number(), error.place.unwrap().label), (0x12_3456, "A1".to_owned()));
    }

    #[test]
    fn a_line_that_is_none_of_ours_is_counted() {
        let mut feed = feed();
        feed.append(&format!("garbage\n{{\"at\":5}}\n{}{}\n", line(1), "x".repeat(1 << 17)));
        assert_eq!(feed.poll(), (vec![1], 3));
    }

    #[test]
    fn a_file_that_is_cut_off_is_read_from_its_start() {
        let mut feed = feed();
        feed.append(&format!("{}{}", line(1), line(2)));
        assert_eq!(feed.poll(), (vec![1, 2], 0));
        fs::write(&feed.path, line(3)).unwrap();
        assert_eq!(feed.poll(), (vec![3], 0));
    }

    #[test]
    fn a_file_that_is_replaced_is_read_to_its_end_and_then_the_next() {
        let mut feed = feed();
        feed.append(&line(1));
        assert_eq!(feed.poll(), (vec![1], 0));
        feed.append(&line(2));
        fs::rename(&feed.path, feed.path.with_extension("old")).unwrap();
        assert_eq!(feed.poll(), (vec![2], 0), "while there is no next one");
        OpenOptions::new()
            .append(true)
            .open(feed.path.with_extension("old"))
            .and_then(|mut old| old.write_all(line(3).trim_end().as_bytes()))
            .unwrap();
        feed.append(&line(4));
        assert_eq!(feed.poll(), (vec![3, 4], 0), "a last line may lack its end");
    }

    #[test]
    fn a_name_that_leads_nowhere_is_an_error_until_it_leads_somewhere_and_nothing_is_lost() {
        let mut feed = feed();
        let old = feed.path.with_extension("old");
        feed.append(line(1).trim_end());
        assert_eq!(feed.poll(), (vec![], 0), "the line has no end yet");
        fs::rename(&feed.path, &old).unwrap();
        std::os::unix::fs::symlink(&feed.path, &feed.path).unwrap();
        fs::write(&old, "").unwrap();
        assert_eq!(feed.poll(), (vec![1], 0), "the old file was cut off: its last line may lack its end");
        for _ in 0..2 {
            assert!(matches!(feed.feed.poll(), Err(Error::Read { path, .. }) if path == feed.path));
        }
        fs::remove_file(&feed.path).unwrap();
        fs::write(&feed.path, line(2)).unwrap();
        assert_eq!(feed.poll(), (vec![2], 0));
    }

    #[test]
    fn a_file_that_is_not_there_is_refused() {
        let error = FileFeed::open(Path::new("/proc/nowhere/errors")).unwrap_err();
        assert!(matches!(error, Error::Read { .. }));
    }
}
