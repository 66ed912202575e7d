//! One page of a ring buffer: records with their times.
//!
//! A page begins with a time, and with the number of bytes that are written behind it (`commit`). Each record begins
//! with a word of 32 bits: 5 for its kind or length, 27 for the time since the record before.
//!
//! | kind | meaning |
//! |---|---|
//! | 0 | the next word says how long the record is, itself included |
//! | 1 to 28 | the record is as many words long |
//! | 29 | padding: the rest of the page if the time is 0, else as many bytes as the next word says |
//! | 30 | more time passed than 27 bits can hold: the next word has the upper bits |
//! | 31 | a time by itself, without its upper five bits |
//!
//! Source: Linux, include/linux/ring_buffer.h, kernel/trace/ring_buffer.c.

use super::format::{FieldPlace, fields};

/// The kinds that are no length.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Bits of `commit` that are no length: events were lost before this page, and their number follows the records.
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const LENGTH: u64 = (1 << 27) - 1;

/// The bits of a time that a record of kind 31 lacks.
const UPPER_TIME: u64 = !((1 << 59) - 1);

/// How the kernel lays out the pages of its ring buffers (`events/header_page`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLayout {
    time: FieldPlace,
    commit: FieldPlace,
    data: FieldPlace,
}

/// Events that were lost before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissedEvents {
    /// None.
    None,
    /// So many.
    Count(u64),
    /// Some.
    Unknown,
}

/// What was read of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingRead {
    /// Lost before it.
    pub missed: MissedEvents,
    /// Whether all of it could be read; the kernel never writes a page that cannot.
    pub whole: bool,
}

impl RingLayout {
    /// Reads the kernel's description; `None` if it lacks something.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let place = |name: &str| fields(text).find(|(found, _)| *found == name).map(|(_, place)| place);
        let layout = Self { time: place("timestamp")?, commit: place("commit")?, data: place("data")? };
        (layout.data.offset.checked_add(layout.data.size)? <= 1 << 30).then_some(layout)
    }

    /// The bytes of a page.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.data.offset + self.data.size
    }

    /// Passes each record of a page to `see`, with its time in ns.
    pub fn read(&self, page: &[u8], see: impl FnMut(u64, &[u8])) -> RingRead {
        let (Some(time), Some(commit)) = (self.time.number(page), self.commit.number(page)) else {
            return RingRead { missed: MissedEvents::None, whole: false };
        };
        let data = page.get(self.data.offset..).unwrap_or_default();
        let length = usize::try_from(commit & LENGTH).unwrap_or(usize::MAX);
        let stored = FieldPlace { offset: length, size: self.commit.size }.number(data);
        let missed = match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
            (false, _) => MissedEvents::None,
            (true, true) => stored.map_or(MissedEvents::Unknown, MissedEvents::Count),
            (true, false) => MissedEvents::Unknown,
        };
        let records = data.get(..length);
        RingRead { missed, whole: records.and_then(|records| read_records(records, time, see)).is_some() }
    }
}

/// Reads all records; `None` if one is longer than what is there.
fn read_records(mut data: &[u8], mut time: u64, mut see: impl FnMut(u64, &[u8])) -> Option<()> {
    while !data.is_empty() {
        let (header, body) = data.split_first_chunk().map(|(word, body)| (u32::from_ne_bytes(*word), body))?;
        // The kernel is built for one byte order, and C lays out its bit fields in the same.
        let (kind, delta) = if cfg!(target_endian = "little") {
            (header & 31, u64::from(header >> 5))
        } else {
            (header >> 27, u64::from(header & ((1 << 27) - 1)))
        };
        let next_word = || body.first_chunk().map(|word| u32::from_ne_bytes(*word));
        let length = match kind {
            PADDING if delta == 0 => return Some(()),
            PADDING => next_word()? as usize,
            TIME_EXTEND => {
                time = time.wrapping_add((u64::from(next_word()?) << 27) + delta);
                4
            }
            TIME_STAMP => {
                time = (time & UPPER_TIME) | (u64::from(next_word()?) << 27) | delta;
                4
            }
            0 => {
                time = time.wrapping_add(delta);
                let length = next_word()? as usize;
                see(time, body.get(4..length)?);
                length.checked_next_multiple_of(4)?
            }
            words => {
                time = time.wrapping_add(delta);
                let length = words as usize * 4;
                see(time, body.get(..length)?);
                length
            }
        };
        data = body.get(length..)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As Linux has it on machines of 64 bits.
    pub const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn layout() -> RingLayout {
        RingLayout::parse(HEADER_PAGE).unwrap()
    }

    /// A page that begins at this time, as the kernel writes it.
    fn page(time: u64, commit: u64, data: &[u8]) -> Vec<u8> {
        let mut page = [&time.to_ne_bytes()[..], &commit.to_ne_bytes(), data].concat();
        page.resize(4096, 0);
        page
    }

    fn word(kind: u32, delta: u32) -> [u8; 4] {
        (kind | delta << 5).to_ne_bytes()
    }

    fn read(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, RingRead) {
        let mut seen = Vec::new();
        let read = layout().read(page, |time, record| seen.push((time, record.to_vec())));
        (seen, read)
    }

    #[test]
    fn every_kind_of_record_is_read() {
        let data = [
            &word(1, 5)[..],
            b"abcd",
            &word(TIME_EXTEND, 3),
            &2_u32.to_ne_bytes(),
            &word(0, 1),
            // Its own word, and six bytes.
            &10_u32.to_ne_bytes(),
            b"sixsix..",
            &word(PADDING, 1),
            &8_u32.to_ne_bytes(),
            b"gone",
            &word(TIME_STAMP, 7),
            &1_u32.to_ne_bytes(),
            &word(2, 0),
            b"12345678",
            &word(PADDING, 0),
            b"what lies behind is nothing",
        ]
        .concat();
        let begin = 1 << 60 | 100;
        let (seen, whole) = read(&page(begin, data.len() as u64, &data));
        let extended = begin + 5 + (2 << 27) + 3 + 1;
        let expected = [(begin + 5, &b"abcd"[..]), (extended, b"sixsix"), (1 << 60 | 1 << 27 | 7, b"12345678")];
        assert_eq!(seen, expected.map(|(time, record)| (time, record.to_vec())));
        assert_eq!(whole, RingRead { missed: MissedEvents::None, whole: true });
    }

    #[test]
    fn lost_events_are_known_with_their_number_if_there_is_room_for_it() {
        let record = [&word(1, 0)[..], b"abcd"].concat();
        let stored = [&record[..], &77_u64.to_ne_bytes()].concat();
        let missed = |commit, data: &[u8]| read(&page(0, commit, data)).1.missed;
        assert_eq!(missed(8, &stored), MissedEvents::None);
        assert_eq!(missed(8 | MISSED, &record), MissedEvents::Unknown);
        assert_eq!(missed(8 | MISSED | MISSED_STORED, &stored), MissedEvents::Count(77));
        assert_eq!(read(&page(0, 8 | MISSED | MISSED_STORED, &stored)).0.len(), 1);
    }

    #[test]
    fn what_the_kernel_never_writes_is_noticed() {
        let whole = |data: &[u8]| read(&page(0, data.len() as u64, data)).1.whole;
        assert!(whole(&[]));
        for cut in [
            &word(2, 0)[..],
            &[1, 2, 3],
            &word(0, 0),
            &[&word(0, 0)[..], &3_u32.to_ne_bytes()].concat(),
            &[&word(0, 0)[..], &u32::MAX.to_ne_bytes()].concat(),
            &[&word(PADDING, 1)[..], &9_u32.to_ne_bytes()].concat(),
            &word(TIME_EXTEND, 1),
        ] {
            assert!(!whole(cut), "{cut:?}");
        }
        assert!(!read(&page(0, 4081, &[])).1.whole);
        assert!(!read(&[0; 15]).1.whole);
    }

    #[test]
    fn a_description_that_lacks_a_part_is_none() {
        assert_eq!(layout().bytes(), 4096);
        for line in HEADER_PAGE.lines().filter(|line| !line.contains("overwrite")) {
            assert_eq!(RingLayout::parse(&HEADER_PAGE.replace(line, "")), None, "{line}");
        }
        assert_eq!(RingLayout::parse(&HEADER_PAGE.replace("4080", "18446744073709551615")), None);
    }

    proptest! {
        /// Records that a test writes come back, however long they are and whenever they were written.
        #[test]
        fn records_that_were_written_are_read(
            begin in 0_u64..1 << 58,
            records in proptest::collection::vec((0_u64..1 << 40, 1_usize..200), 0..15)
        ) {
            let (mut data, mut time, mut expected) = (Vec::new(), begin, Vec::new());
            let small = |number: u64| u32::try_from(number).unwrap();
            for (delta, length) in records {
                time += delta;
                let record = vec![7; length.next_multiple_of(4)];
                let (extension, mut delta) = (small(delta >> 27), small(delta & ((1 << 27) - 1)));
                if extension > 0 {
                    data.extend(word(TIME_EXTEND, delta));
                    data.extend(extension.to_ne_bytes());
                    delta = 0;
                }
                if record.len() <= 112 {
                    data.extend(word(small(record.len() as u64) / 4, delta));
                } else {
                    data.extend(word(0, delta));
                    data.extend((small(record.len() as u64) + 4).to_ne_bytes());
                }
                data.extend(&record);
                expected.push((time, record));
            }
            let (seen, read) = read(&page(begin, data.len() as u64, &data));
            prop_assert!(read.whole);
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes);
            let _ = read(&page(0, bytes.len() as u64, &bytes));
        }
    }
}
