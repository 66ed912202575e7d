//! What this machine has, by sources that no code under test uses to decide: the kernel's version and its files.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::Feature;

/// Bits of `CapEff` in `/proc/self/status`.
const IPC_LOCK: u32 = 14;
const SYS_PTRACE: u32 = 19;
const SYS_ADMIN: u32 = 21;

/// A sysctl that only kernels with userfaultfd have.
const UNPRIVILEGED: &str = "/proc/sys/vm/unprivileged_userfaultfd";

/// The kernel's pool of huge pages.
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// A sysctl of kernels with io_uring, since Linux 6.6.
const IO_URING_DISABLED: &str = "/proc/sys/kernel/io_uring_disabled";

/// Of so much free memory, tests never have all.
const ENOUGH_KIB: u64 = 4 << 20;

/// So many free pieces of 2 MiB are enough that the kernel never lacks one while a test runs.
const FREE_PIECES: u64 = 64;

/// Whether this process is root's.
#[must_use]
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Whether there is a program of this name on the path, or at this path.
#[must_use]
pub fn has_program(program: &str) -> bool {
    let runs =
        |path: &Path| fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    match std::env::var_os("PATH") {
        Some(path) if !program.contains('/') => std::env::split_paths(&path).any(|folder| runs(&folder.join(program))),
        _ => runs(Path::new(program)),
    }
}

/// The first of these flags that this processor lacks, by `/proc/cpuinfo`.
pub fn lacking_cpu_flag<'a>(flags: &[&'a str]) -> Option<&'a str> {
    lacking_flag(&text("/proc/cpuinfo"), flags)
}

/// Why this machine lacks a feature; `None` if it has it, or if nothing but the code under test could know.
#[must_use]
pub fn lacks(feature: Feature) -> Option<String> {
    match feature {
        Feature::Root => (!is_root()).then(|| "this is not root".to_owned()),
        Feature::FrameNumbers | Feature::FrameFlags => lacks_capability(SYS_ADMIN, "CAP_SYS_ADMIN"),
        Feature::LockedMemory => lacks_capability(IPC_LOCK, "CAP_IPC_LOCK"),
        Feature::Userfaultfd => lacks_userfaultfd((5, 11)),
        Feature::UserfaultfdKernelFaults => lacks_userfaultfd((4, 11)).or_else(lacks_kernel_faults),
        Feature::UserfaultfdMove => lacks_userfaultfd((6, 8)),
        Feature::UserfaultfdMinor => lacks_userfaultfd((5, 14)),
        Feature::UserfaultfdWriteProtect => lacks_userfaultfd((6, 7)),
        Feature::UserfaultfdProtectedContinue => lacks_userfaultfd((6, 4)),
        Feature::HugePagePool => lacks_huge_page_pool(),
        Feature::SmallPages => lacks_small_pages(&text("/proc/self/smaps")),
        Feature::IoUring => lacks_io_uring(),
        Feature::MemoryBlocks => lacks_file("/sys/devices/system/memory/block_size_bytes"),
        Feature::FreeMemory => lacks_free_memory(&text("/proc/meminfo")),
        Feature::TransparentHugePages => lacks_huge_pages(),
        Feature::TimeStampCounter => lacks_steady_counter(&text("/proc/cpuinfo")),
        Feature::X86 => (!cfg!(target_arch = "x86_64")).then(|| "this is another processor".to_owned()),
        _ => None,
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of a line of `/proc/self/status`.
fn status(name: &str) -> String {
    let status = text("/proc/self/status");
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default().trim().to_owned()
}

/// Whether this process has a capability, and not only in a user namespace of its own.
fn lacks_capability(bit: u32, name: &str) -> Option<String> {
    let has = u64::from_str_radix(&status("CapEff"), 16).is_ok_and(|set| set & (1 << bit) != 0);
    let outside = text("/proc/self/uid_map").split_whitespace().eq(["0", "0", "4294967295"]);
    match (has, outside) {
        (false, _) => Some(format!("this process lacks {name}")),
        (true, false) => Some(format!("this process has {name} in a user namespace only")),
        (true, true) => None,
    }
}

fn lacks_userfaultfd(since: (u32, u32)) -> Option<String> {
    let release = text("/proc/sys/kernel/osrelease");
    if release_of(&release) < Some(since) {
        return Some(format!("Linux {} is older than {}.{}", release.trim(), since.0, since.1));
    }
    if !Path::new(UNPRIVILEGED).exists() {
        return Some("this kernel is built without userfaultfd".to_owned());
    }
    (status("Seccomp") == "2").then(|| "a seccomp filter may forbid userfaultfd".to_owned())
}

fn lacks_kernel_faults() -> Option<String> {
    let device = || fs::OpenOptions::new().read(true).write(true).open("/dev/userfaultfd").is_ok();
    let may = text(UNPRIVILEGED).trim() == "1" || lacks_capability(SYS_PTRACE, "CAP_SYS_PTRACE").is_none() || device();
    (!may).then(|| "this user may not serve page faults of system calls".to_owned())
}

fn lacks_huge_pages() -> Option<String> {
    let enabled = text("/sys/kernel/mm/transparent_hugepage/enabled");
    if enabled.is_empty() || enabled.contains("[never]") {
        return Some("transparent huge pages are switched off".to_owned());
    }
    let free = free_pieces(&text("/proc/buddyinfo"));
    (free < FREE_PIECES).then(|| format!("{free} free pieces of 2 MiB are in one piece"))
}

fn lacks_huge_page_pool() -> Option<String> {
    let number = |name: &str| -> u64 { text(&format!("{POOL}/{name}")).trim().parse().unwrap_or(0) };
    let free = number("free_hugepages").saturating_sub(number("resv_hugepages"));
    (free + number("nr_overcommit_hugepages") == 0).then(|| "no huge pages are reserved".to_owned())
}

fn lacks_small_pages(smaps: &str) -> Option<String> {
    let size = smaps.lines().find_map(|line| line.strip_prefix("KernelPageSize:")).unwrap_or_default().trim();
    (size != "4 kB").then(|| format!("this kernel has pages of {size}"))
}

fn lacks_file(path: &str) -> Option<String> {
    (!Path::new(path).exists()).then(|| format!("there is no {path}"))
}

/// Kernels before Linux 6.6 do not say whether they have it.
fn lacks_io_uring() -> Option<String> {
    if let Some(lacking) = lacks_file(IO_URING_DISABLED) {
        return Some(lacking);
    }
    let allowed = match text(IO_URING_DISABLED).trim() {
        "0" => true,
        "1" => lacks_capability(SYS_ADMIN, "CAP_SYS_ADMIN").is_none(),
        _ => false,
    };
    (!allowed || status("Seccomp") == "2")
        .then(|| "io_uring is switched off, or a seccomp filter may forbid it".to_owned())
}

fn lacks_free_memory(meminfo: &str) -> Option<String> {
    let free = meminfo.lines().find_map(|line| line.strip_prefix("MemFree:")?.split_whitespace().next()?.parse().ok());
    let free: u64 = free.unwrap_or_default();
    (free < ENOUGH_KIB).then(|| format!("only {} MiB are free", free >> 10))
}

/// The major and minor version of a release such as `6.12.1-amd64`.
fn release_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// How many pieces of 2 MiB the free blocks of order 9 and above hold, by `/proc/buddyinfo`.
fn free_pieces(buddyinfo: &str) -> u64 {
    let of_zone = |line: &str| -> u64 {
        let counts = line.split_whitespace().skip(4).map(|count| count.parse().unwrap_or(0));
        counts.enumerate().skip(9).map(|(order, count): (usize, u64)| count << (order - 9)).sum()
    };
    buddyinfo.lines().map(of_zone).sum()
}

/// Whether the time-stamp counter goes on at one speed, by the flags that the kernel found.
fn lacks_steady_counter(cpuinfo: &str) -> Option<String> {
    let lacking = lacking_flag(cpuinfo, &["constant_tsc", "nonstop_tsc"])?;
    Some(format!("this processor has no time-stamp counter that goes at one speed: it lacks {lacking}"))
}

/// The first of these flags that the processor lacks.
fn lacking_flag<'a>(cpuinfo: &str, flags: &[&'a str]) -> Option<&'a str> {
    let had = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    flags.iter().copied().find(|flag| !had.split_whitespace().any(|one| one == *flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        assert_eq!(release_of("6.12.1-amd64\n"), Some((6, 12)));
        assert_eq!(release_of("6.8"), Some((6, 8)));
        assert!(release_of("6.12.1") > Some((6, 8)) && release_of("5.19.0-x") < Some((6, 8)));
        assert_eq!(release_of("none"), None);
    }

    #[test]
    fn free_memory_in_pieces_of_2_mib_is_counted_from_order_9_on() {
        let zones = "Node 0, zone      DMA      1 0 0 0 0 0 0 0 9 3 2\nNode 0, zone   Normal   9 9 9 9 9 9 9 9 9 1 0\n";
        assert_eq!(free_pieces(zones), 3 + 2 * 2 + 1);
        assert_eq!(free_pieces(""), 0);
    }

    #[test]
    fn four_gibibytes_are_enough_free_memory() {
        assert_eq!(lacks_free_memory("MemTotal: 9999999 kB\nMemFree:         4194304 kB\n"), None);
        assert_eq!(lacks_free_memory("MemFree: 2097152 kB\n").unwrap(), "only 2048 MiB are free");
    }

    #[test]
    fn a_counter_needs_both_flags() {
        assert_eq!(lacks_steady_counter("flags\t\t: fpu tsc constant_tsc nonstop_tsc avx\n"), None);
        assert!(lacks_steady_counter("flags\t\t: fpu tsc constant_tsc\n").is_some());
        assert!(lacks_steady_counter("").is_some());
    }

    #[test]
    fn a_program_is_found_on_the_path_or_at_its_path() {
        assert!(has_program("sh") && has_program("/bin/sh"));
        assert!(!has_program("no-such-program") && !has_program("/etc/passwd"));
    }

    #[test]
    fn without_rights_a_feature_of_root_is_lacking() {
        assert_eq!(lacks(Feature::Root).is_none(), is_root());
        assert!(is_root() || lacks(Feature::FrameNumbers).is_some());
        assert_eq!(lacks(Feature::Slurm), None, "only who needs it can know");
    }
}
