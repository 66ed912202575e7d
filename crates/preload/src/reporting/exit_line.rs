//! The report at the end of a process.

use crate::heap::arenas::Usage;

/// The usage of a heap, as one line of JSON.
pub(crate) fn line(usage: &Usage) -> String {
    let Usage { range, cut, allocated, outside } = usage;
    let (pid, range, cut, allocated) = (std::process::id(), range.get(), cut.get(), allocated.get());
    format!(
        "{{\"pid\":{pid},\"range_bytes\":{range},\"cut_bytes\":{cut},\
         \"allocated_bytes\":{allocated},\"outside\":{outside}}}\n"
    )
}

#[cfg(test)]
mod tests {
    use rampart_memory::Bytes;

    use super::*;

    #[test]
    fn the_report_is_one_line_of_json() {
        let usage = Usage { range: Bytes::new(4096), cut: Bytes::new(2048), allocated: Bytes::new(1024), outside: 3 };
        let rest = ",\"range_bytes\":4096,\"cut_bytes\":2048,\"allocated_bytes\":1024,\"outside\":3}\n";
        assert_eq!(line(&usage), format!("{{\"pid\":{}{rest}", std::process::id()));
    }
}
