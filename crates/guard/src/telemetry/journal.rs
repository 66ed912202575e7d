//! The guard's journal: a file of records that another process reads, also after a `kill -9`.
//!
//! **Problem.** Counts show totals and no times; and a picture of a program's accesses [Fiala15, fig. 4.1, 4.2, 4.6]
//! needs each of them. **Idea.** Records of one size follow a header with their number: a record is written first and
//! counted after, so counted records are whole. **Why this way.** No step of the writer waits, allocates or reads back;
//! concatenated files of many processes are such a file again.
//!
//! All words have 64 bits, little-endian. A section is a header and its records; a file is sections of one kind.
//!
//! | word of the header | |
//! |---|---|
//! | 0 | the kind, eight letters: `rmp-smpl` for [`super::samples`], `rmp-accs` for [`super::accesses`] |
//! | 1 | [`VERSION`] |
//! | 2 | words of a record |
//! | 3 | the process |
//! | 4 | records that follow |
//! | 5 | records that were lost: there was no room for them |
//!
//! Source: none; the format is ours, and docs/run-report.md documents it.

/// The version of the format; it grows when a word changes its meaning.
pub const VERSION: u64 = 1;

/// Words of a header.
const HEADER: usize = 6;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 8 * HEADER;

/// The kind of a section's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display)]
pub enum SectionKind {
    /// samples
    Samples,
    /// accesses
    Accesses,
}

impl SectionKind {
    const fn letters(self) -> [u8; 8] {
        match self {
            Self::Samples => *b"rmp-smpl",
            Self::Accesses => *b"rmp-accs",
        }
    }

    /// Words of a record.
    #[must_use]
    pub const fn words(self) -> usize {
        match self {
            Self::Samples => crate::telemetry::samples::WORDS,
            Self::Accesses => crate::telemetry::accesses::WORDS,
        }
    }
}

/// The header of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of the records.
    pub kind: SectionKind,
    /// Their process, as `getpid(2)` numbers it.
    pub process: u32,
    /// The number of records that follow.
    pub records: u64,
    /// The number of lost records.
    pub lost: u64,
}

impl Header {
    /// Its form in a file.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let Self { kind, process, records, lost } = self;
        let words = [u64::from_le_bytes(kind.letters()), VERSION, kind.words() as u64, process.into(), records, lost];
        let mut bytes = [0; HEADER_BYTES];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }
}

/// Why a file is no journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum JournalError {
    /// it has no {0} of a guard: give a file that `rampart run` wrote
    Foreign(SectionKind),
    /// another version of Rampart wrote it: draw it with that one
    Version,
    /// it is cut off, {missing} bytes are missing: copy it whole
    CutOff {
        /// The number of missing bytes, at least.
        missing: u64,
    },
}

/// Records of one process, in the order of their writing.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// Their header.
    pub header: Header,
    words: &'a [[u8; 8]],
}

impl<'a> Section<'a> {
    /// Each record, with as many words as its kind has.
    pub fn records(self) -> impl ExactSizeIterator<Item = impl Iterator<Item = u64> + 'a> + 'a {
        self.words
            .chunks_exact(self.header.kind.words())
            .map(|words| words.iter().map(|word| u64::from_le_bytes(*word)))
    }
}

/// The sections of a file, which are all of this kind. Bytes after the records of the last one may be uncounted: those
/// of a killed process.
///
/// # Errors
/// The first defect.
pub fn sections(file: &[u8], kind: SectionKind) -> Result<Vec<Section<'_>>, JournalError> {
    let mut rest = file;
    let mut sections = Vec::new();
    while sections.is_empty() || rest.starts_with(&kind.letters()) {
        let section;
        (section, rest) = first(rest, kind)?;
        sections.push(section);
    }
    Ok(sections)
}

fn first(bytes: &[u8], kind: SectionKind) -> Result<(Section<'_>, &[u8]), JournalError> {
    if !bytes.starts_with(&kind.letters()) {
        return Err(JournalError::Foreign(kind));
    }
    let (words, _) = bytes.as_chunks::<8>();
    let Some((header, words)) = words.split_at_checked(HEADER) else {
        return Err(JournalError::CutOff { missing: (HEADER_BYTES - bytes.len()) as u64 });
    };
    let word = |index: usize| u64::from_le_bytes(header[index]);
    if (word(1), word(2)) != (VERSION, kind.words() as u64) {
        return Err(JournalError::Version);
    }
    let (records, lost) = (word(4), word(5));
    let process = u32::try_from(word(3)).map_err(|_| JournalError::Foreign(kind))?;
    let words_needed = records.saturating_mul(kind.words() as u64);
    let found = usize::try_from(words_needed).ok().and_then(|words_needed| words.split_at_checked(words_needed));
    let Some((words, _)) = found else {
        return Err(JournalError::CutOff {
            missing: words_needed.saturating_sub(words.len() as u64).saturating_mul(8),
        });
    };
    let section = Section { header: Header { kind, process, records, lost }, words };
    Ok((section, &bytes[HEADER_BYTES + 8 * words.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(sections: &[(u32, Vec<[u64; 2]>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (process, records) in sections {
            let header = Header {
                kind: SectionKind::Accesses,
                process: *process,
                records: records.len() as u64,
                lost: (*process).into(),
            };
            bytes.extend(header.to_bytes());
            bytes.extend(records.as_flattened().iter().flat_map(|word| word.to_le_bytes()));
        }
        bytes
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_back_and_what_is_cut_off_is_refused(
            written in proptest::collection::vec((any::<u32>(), proptest::collection::vec(any::<[u64; 2]>(), 0..9)), 1..5),
            cut: proptest::sample::Index
        ) {
            let bytes = file(&written);
            let read = sections(&bytes, SectionKind::Accesses).unwrap();
            let pairs = |section: &Section<'_>| {
                let records = section.records().map(|words| words.collect::<Vec<_>>().try_into().unwrap());
                (section.header.process, records.collect::<Vec<[u64; 2]>>())
            };
            let read: Vec<_> = read.iter().map(pairs).collect();
            prop_assert_eq!(&read, &written);
            // Whole sections before the cut are a good file; anything else is refused in one line.
            let cut = cut.index(bytes.len());
            match sections(&bytes[..cut], SectionKind::Accesses) {
                Ok(some) => prop_assert!(some.len() < written.len()),
                Err(error) => prop_assert_eq!(error.to_string().lines().count(), 1),
            }
        }
    }

    #[test]
    fn bytes_that_are_not_counted_are_passed_over() {
        let mut bytes = file(&[(7, vec![[1, 2]])]);
        bytes.extend([0; 11]);
        assert_eq!(sections(&bytes, SectionKind::Accesses).unwrap().len(), 1);
    }

    #[test]
    fn other_files_and_other_versions_are_refused_by_name() {
        let good = file(&[(7, vec![])]);
        let error = |bytes: &[u8]| sections(bytes, SectionKind::Accesses).unwrap_err();
        assert_eq!(error(b""), JournalError::Foreign(SectionKind::Accesses));
        assert_eq!(error(b"\x7fELF and so on"), JournalError::Foreign(SectionKind::Accesses));
        assert_eq!(sections(&good, SectionKind::Samples).unwrap_err(), JournalError::Foreign(SectionKind::Samples));
        assert_eq!(error(&good[..20]), JournalError::CutOff { missing: 28 });
        let mut other = good;
        other[8] = 9;
        assert_eq!(error(&other), JournalError::Version);
    }
}
