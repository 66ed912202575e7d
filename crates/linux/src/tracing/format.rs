//! Where the fields of a trace event lie.
//!
//! The kernel describes each in a file of text, with a line for each field, and tabs between its parts
//! (Documentation/trace/events.rst):
//!
//! ```text
//! field:unsigned long pfn;    offset:8;    size:8;    signed:0;
//! ```

/// The place of a field, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPlace {
    /// From the beginning of the record.
    pub offset: usize,
    /// Its length.
    pub size: usize,
}

impl FieldPlace {
    /// The field of a record as an unsigned number, in this machine's byte order; `None` if the record ends before it,
    /// or if it has not 1, 2, 4 or 8 bytes.
    #[must_use]
    pub fn number(self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        match self.size {
            1 => Some(bytes[0].into()),
            2 => Some(u16::from_ne_bytes(bytes.try_into().ok()?).into()),
            4 => Some(u32::from_ne_bytes(bytes.try_into().ok()?).into()),
            8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }
}

/// The fields that a text describes, by name. Lines that describe none are left out.
pub fn fields(text: &str) -> impl Iterator<Item = (&str, FieldPlace)> {
    text.lines().filter_map(|line| {
        let mut parts = line.trim_start().split(';');
        let name = parts.next()?.strip_prefix("field:")?.split([' ', '*']).next_back()?;
        let mut number = |key: &str| parts.next()?.trim_start().strip_prefix(key)?.parse().ok();
        Some((name, FieldPlace { offset: number("offset:")?, size: number("size:")? }))
    })
}

/// The number of an event, which its records begin with.
pub(super) fn event_number(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("ID: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As Linux 6.18 has it.
    const FORMAT: &str = "name: mm_page_free\nID: 655\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:unsigned long pfn;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:struct page *page;\toffset:16;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"page=%p field:x; offset:1\", REC->pfn\n";

    #[test]
    fn fields_are_found_by_their_names() {
        let found: Vec<_> = fields(FORMAT).map(|(name, place)| (name, place.offset, place.size)).collect();
        assert_eq!(found, [("common_type", 0, 2), ("pfn", 8, 8), ("page", 16, 4)]);
        assert_eq!(event_number(FORMAT), Some(655));
        assert_eq!(event_number("name: x\nID: y\n"), None);
    }

    #[test]
    fn a_field_is_read_where_it_lies() {
        let record: Vec<u8> = (1..=12).collect();
        let number = |offset, size| FieldPlace { offset, size }.number(&record);
        assert_eq!(number(2, 1), Some(3));
        assert_eq!(number(4, 2), Some(u16::from_ne_bytes([5, 6]).into()));
        assert_eq!(number(8, 4), Some(u32::from_ne_bytes([9, 10, 11, 12]).into()));
        assert_eq!(number(4, 8), Some(u64::from_ne_bytes([5, 6, 7, 8, 9, 10, 11, 12])));
        assert_eq!([number(9, 4), number(0, 3), number(usize::MAX, 8)], [None; 3]);
    }

    proptest! {
        #[test]
        fn any_text_has_fields_or_none(text: String) {
            let _ = (fields(&text).count(), event_number(&text));
        }
    }
}
