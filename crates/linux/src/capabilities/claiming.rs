//! Probes of the features that a test of free memory uses.

use std::fs::OpenOptions;
use std::path::Path;
use std::ptr::NonNull;

use rampart_memory::{Bytes, Frame};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::memory_state::Pressure;
use crate::roots::{number, text};
use crate::{Absence, Block, Error, FlagTable, PageKind, Pagemap, PinRefusal, Pinning, Roots};

const PAGE_MONITOR: &str = "CONFIG_PROC_PAGE_MONITOR";

const ONE_PAGE: Bytes = Bytes::new(rampart_memory::FRAME_BYTES);

/// Looks up the page that holds a variable of ours.
pub(super) fn frame_numbers(roots: &Roots) -> Result<String, Absence> {
    let lacks = |error| of_error(error, PAGE_MONITOR);
    let pagemap = Pagemap::open(roots).map_err(lacks)?;
    let variable = 1_u8;
    let mut frames = Vec::new();
    pagemap.frames_of(NonNull::from(&variable), 1, &mut frames).map_err(lacks)?;
    frames[0].map(|_| "by /proc/self/pagemap".to_owned()).ok_or_else(|| {
        Absence::new(
            "the kernel hides frame numbers from this user, so pages are tested and frames are unknown",
            "run as root (CAP_SYS_ADMIN), outside of a container",
        )
    })
}

/// Reads the flags of frame 0, which every machine has.
pub(super) fn frame_flags(roots: &Roots) -> Result<String, Absence> {
    let lacks = |error| of_error(error, PAGE_MONITOR);
    let first = Frame::new(0).expect("0 is a frame number");
    match FlagTable::open(roots).and_then(|table| table.of(first)).map_err(lacks)? {
        Some(_) => Ok("by /proc/kpageflags".to_owned()),
        None => Err(Absence::new("/proc/kpageflags is empty", "run outside of the container")),
    }
}

pub(super) fn memory_pressure(roots: &Roots) -> Result<String, Absence> {
    Pressure::require(roots)
        .map(|pressure| format!("some {:.2} %, full {:.2} %", pressure.some.avg10, pressure.full.avg10))
}

pub(super) fn transparent_huge_pages(roots: &Roots) -> Result<String, Absence> {
    let path = roots.sys("kernel/mm/transparent_hugepage/enabled");
    let text = text(&path).map_err(|cause| Absence::of_file(&path, &cause, "CONFIG_TRANSPARENT_HUGEPAGE"))?;
    match chosen(&text) {
        Some(mode @ ("always" | "madvise")) => Ok(mode.to_owned()),
        _ => Err(Absence::new(
            format!("{} is {}", path.display(), text.trim()),
            format!("echo madvise > {}", path.display()),
        )),
    }
}

/// The choice in brackets, as in `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    text.split_once('[')?.1.split_once(']').map(|(choice, _)| choice)
}

pub(super) fn huge_page_pool(roots: &Roots) -> Result<String, Absence> {
    let pool = roots.sys("kernel/mm/hugepages/hugepages-2048kB");
    let count = |name: &str| number(&pool.join(name)).unwrap_or(0);
    match (count("nr_hugepages"), count("free_hugepages")) {
        (0, _) => Err(Absence::new(
            "no pages of 2 MiB are reserved",
            "sysctl vm.nr_hugepages=N to test with them; they are not needed where pinning is available",
        )),
        (all, free) => Ok(format!("{free} of {all} pages of 2 MiB are free")),
    }
}

/// Registers a page with an `io_uring`, and reports how much this process may pin.
pub(super) fn pinning(_: &Roots) -> Result<String, Absence> {
    one_page()?.pin_by(Pinning::Registered).map_err(of_refusal)?;
    Ok(format!("by buffers registered with io_uring, {}", lock_limit()))
}

/// Locks a page, and reports how much this process may lock.
pub(super) fn memory_locking(_: &Roots) -> Result<String, Absence> {
    one_page()?.pin_by(Pinning::Locked).map_err(of_refusal)?;
    Ok(lock_limit())
}

fn lock_limit() -> String {
    let privileged = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    match getrlimit(Resource::Memlock).current {
        Some(limit) if !privileged => format!("up to {}", Bytes::new(limit)),
        _ => "without limit".to_owned(),
    }
}

/// Whether the kernel can be told to keep more memory free while a test runs.
pub(super) fn free_reserve(roots: &Roots) -> Result<String, Absence> {
    let path = roots.proc("sys/vm/min_free_kbytes");
    writable(&path, "sysctl")?;
    Ok(format!("vm.min_free_kbytes is {}", number(&path).unwrap_or(0)))
}

/// Opens a file for writing, and writes nothing.
pub(super) fn writable(path: &Path, kernel: &str) -> Result<(), Absence> {
    OpenOptions::new().write(true).open(path).map(drop).map_err(|cause| Absence::of_file(path, &cause, kernel))
}

fn one_page() -> Result<Block, Absence> {
    Block::claim(ONE_PAGE, PageKind::Base).map_err(|error| of_error(error, "pages of 4 KiB"))
}

fn of_error(error: Error, kernel: &str) -> Absence {
    match error {
        Error::Read { path, cause } => Absence::of_file(&path, &cause, kernel),
        Error::Claim { .. } => {
            Absence::new("there is not one page of memory left", "end programs that fill the memory")
        }
        other => Absence::new(other.to_string(), format!("use a kernel with {kernel}")),
    }
}

fn of_refusal(refusal: PinRefusal) -> Absence {
    Absence::new(refusal.to_string(), refusal.remedy())
}

#[cfg(test)]
mod tests {
    use super::super::fake::machine;
    use super::*;
    use std::fs;

    #[test]
    fn hidden_frame_numbers_are_no_frame_numbers() {
        let (_folder, roots) = machine(&[("self/pagemap", "")]);
        // As long as the address space, and without a single entry: it takes no space on disk.
        let pagemap = fs::File::options().write(true).open(roots.proc("self/pagemap")).unwrap();
        pagemap.set_len((1 << 47) / 512).unwrap();
        assert!(frame_numbers(&roots).unwrap_err().remedy.contains("root"));
    }

    #[test]
    fn transparent_huge_pages_are_there_unless_never() {
        let state = |mode| {
            let (_folder, roots) = machine(&[("kernel/mm/transparent_hugepage/enabled", mode)]);
            transparent_huge_pages(&roots)
        };
        assert_eq!(state("always [madvise] never\n").unwrap(), "madvise");
        assert!(state("always madvise [never]\n").unwrap_err().remedy.starts_with("echo madvise > "));
        assert!(state("nonsense").is_err());
    }

    #[test]
    fn a_pool_without_pages_is_none() {
        let pool = "kernel/mm/hugepages/hugepages-2048kB";
        let state = |all, free| {
            let (_folder, roots) =
                machine(&[(&format!("{pool}/nr_hugepages"), all), (&format!("{pool}/free_hugepages"), free)]);
            huge_page_pool(&roots)
        };
        assert_eq!(state("8\n", "3\n").unwrap(), "3 of 8 pages of 2 MiB are free");
        assert!(state("0\n", "0\n").unwrap_err().remedy.contains("vm.nr_hugepages"));
    }

    #[test]
    fn pressure_that_is_switched_off_says_how_to_switch_it_on() {
        let (_folder, roots) = machine(&[]);
        assert!(memory_pressure(&roots).unwrap_err().remedy.contains("psi=1"));
        let text = "some avg10=1.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        let (_folder, roots) = machine(&[("pressure/memory", text)]);
        assert_eq!(memory_pressure(&roots).unwrap(), "some 1.50 %, full 0.00 %");
    }

    #[test]
    fn a_reserve_that_can_be_written_can_be_raised() {
        let (_folder, roots) = machine(&[("sys/vm/min_free_kbytes", "67584\n")]);
        assert_eq!(free_reserve(&roots).unwrap(), "vm.min_free_kbytes is 67584");
        assert_eq!(number(&roots.proc("sys/vm/min_free_kbytes")), Some(67584), "the probe wrote nothing");
    }
}
