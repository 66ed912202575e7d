//! Whether the kernel writes a core dump of this process when a signal ends it (core(5)).

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Resource, getrlimit};

/// The destination of dumps: a file, or after `|` a program that reads them.
const PATTERN: &str = "/proc/sys/kernel/core_pattern";

/// Whether it may: by its limit, which does not count if a program takes dumps. Async-signal-safe.
pub fn is_written() -> bool {
    getrlimit(Resource::Core).current != Some(0) || is_piped()
}

fn is_piped() -> bool {
    let mut first = [0];
    let file = open(PATTERN, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    file.is_ok_and(|file| rustix::io::read(&file, &mut first) == Ok(1)) && first == *b"|"
}
