//! `/proc/meminfo`: the machine's memory as a whole.

use rampart_memory::Bytes;
use serde::Serialize;

/// The kernel's data on the machine's memory (proc_meminfo(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemInfo {
    /// All memory that the kernel manages.
    pub total: Bytes,
    /// Unused memory.
    pub free: Bytes,
    /// Memory that programs could get without swapping; [`MemInfo::free`] on kernels that do not show it.
    pub available: Bytes,
    /// Memory that the kernel retired for hardware errors; `None` on kernels that do not retire.
    pub hardware_corrupted: Option<Bytes>,
}

impl MemInfo {
    /// Reads the text of `/proc/meminfo`; `None` if it names no total or no free memory.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let free = kib_of(text, "MemFree")?;
        Some(Self {
            total: kib_of(text, "MemTotal")?,
            free,
            available: kib_of(text, "MemAvailable").unwrap_or(free),
            hardware_corrupted: kib_of(text, "HardwareCorrupted"),
        })
    }
}

/// The value of a line `Key:   123 kB`; a node's `meminfo` has `Node 0` before the key.
pub(crate) fn kib_of(text: &str, key: &str) -> Option<Bytes> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        if name.rsplit(' ').next() != Some(key) {
            return None;
        }
        let kib: u64 = value.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
        kib.checked_mul(1024).map(Bytes::new)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: &str = "MemTotal:       24684096 kB\nMemFree:        24320908 kB\nMemAvailable:   24342768 kB\n\
                          Buffers:             608 kB\nHardwareCorrupted:     8 kB\nHugePages_Total:       0\n";

    #[test]
    fn memory_is_read_from_a_kernel_s_text() {
        let info = MemInfo::parse(SAMPLE).unwrap();
        assert_eq!(info.total, Bytes::new(24_684_096 << 10));
        assert_eq!(info.free, Bytes::new(24_320_908 << 10));
        assert_eq!(info.available, Bytes::new(24_342_768 << 10));
        assert_eq!(info.hardware_corrupted, Some(Bytes::new(8 << 10)));
    }

    #[test]
    fn a_kernel_that_does_not_say_what_is_available_has_what_is_free() {
        let info = MemInfo::parse("MemTotal: 100 kB\nMemFree: 40 kB\n").unwrap();
        assert_eq!((info.available, info.hardware_corrupted), (Bytes::new(40 << 10), None));
    }

    #[test]
    fn the_keys_of_a_node_come_after_its_name() {
        let text = "Node 1 MemTotal:       512 kB\nNode 1 MemFree:          8 kB\n";
        assert_eq!(kib_of(text, "MemTotal"), Some(Bytes::new(512 << 10)));
        assert_eq!(kib_of(text, "Total"), None);
    }

    #[test]
    fn a_value_that_is_no_size_is_none() {
        for text in
            ["MemTotal: kB", "MemTotal: -1 kB", "MemTotal: 12", "MemTotal 12 kB", "MemTotal: 18446744073709551615 kB"]
        {
            assert_eq!(kib_of(text, "MemTotal"), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "(MemTotal|MemFree|[a-zA-Z ]{0,8}):[ 0-9kB\n\u{0}-\u{ff}]{0,40}") {
            let _ = MemInfo::parse(&text);
        }
    }
}
