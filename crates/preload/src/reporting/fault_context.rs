//! The fault context of a page: the thread that touched it, the place in the program's code, and the page's allocation
//! site.
//!
//! A thread that waits at a page stands still, so the kernel shows its place (`/proc/PID/task/TID/syscall`, proc(5));
//! `addr2line -e FILE OFFSET` takes the mapped file and the offset in it. Names are not looked up here: the loader's
//! list is behind a lock that the thread may hold.

use std::fs;

use rampart_guard::PageIndex;

use crate::heap::call_sites::SITES;

/// A page that a thread waits for.
pub struct FaultContext {
    /// The page.
    pub page: PageIndex,
    /// The thread, as `gettid(2)` numbers it.
    pub thread: Option<u32>,
    /// Its place in the code, as `FILE+0xOFFSET`.
    pub code: Option<String>,
}

impl FaultContext {
    /// The context of this thread's fault.
    pub fn by(page: PageIndex, thread: Option<u32>) -> Self {
        let code = thread.and_then(|thread| {
            let at = counter(&fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()?)?;
            code_at(at)
        });
        Self { page, thread, code }
    }
}

/// The call site of the last large allocation in a page; `None`: there was none, or the code is gone.
pub fn site(page: PageIndex) -> Option<String> {
    let goes_on = SITES.of(usize::try_from(page.0).ok()?)?;
    // The call ends there.
    code_at(goes_on as u64 - 1)
}

/// The place of an address in the files that are mapped now.
fn code_at(address: u64) -> Option<String> {
    place(&fs::read_to_string("/proc/self/maps").ok()?, address)
}

/// The program counter is the last number of the line, whether the thread is in a system call or not.
fn counter(line: &str) -> Option<u64> {
    hexadecimal(line.split_whitespace().last()?.strip_prefix("0x")?)
}

/// The file that is mapped at an address, and the offset in it.
fn place(maps: &str, at: u64) -> Option<String> {
    maps.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (first, end) = fields.next()?.split_once('-')?;
        let (first, end) = (hexadecimal(first)?, hexadecimal(end)?);
        let offset = hexadecimal(fields.nth(1)?)?;
        let path = fields.nth(2)?;
        (first..end).contains(&at).then(|| format!("{path}+{:#x}", at - first + offset))
    })
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_named_by_its_file_and_offset() {
        let maps = "5500-5600 r--p 00000000 08:01 7 /usr/bin/job\n5600-5700 r-xp 00001000 08:01 7 /usr/bin/job\n7000-8000 rw-p 0 00:00 0 \n";
        assert_eq!(place(maps, 0x5610).as_deref(), Some("/usr/bin/job+0x1010"));
        assert_eq!((place(maps, 0x7010), place(maps, 0x9000)), (None, None));
        assert_eq!(counter("-1 0x7ffd0 0x5610\n"), Some(0x5610));
        assert_eq!((counter("running\n"), counter("")), (None, None));
    }
}
