//! Pages that the kernel gives out and gets back: the events `kmem:mm_page_alloc` and `kmem:mm_page_free`.
//!
//! **Problem.** Events come at up to a million a second, on each CPU into a buffer of its own, and a full buffer loses
//! the oldest. **Idea.** Large buffers, read as the kernel wrote them; what was lost nevertheless is counted by
//! the kernel. **Why these two events.** Every free path comes through `mm_page_free` (`free_pages_prepare` in
//! mm/page_alloc.c); `mm_page_free_batched` only says how it came there, and would count pages twice. The event of an
//! allocation is missing where pages are taken in bulk (`alloc_pages_bulk`, for vmalloc and network drivers) and by
//! range (`alloc_contig_range`): of those pages, only the free is seen.
//!
//! Times are those of the monotonic clock, which is the same on all CPUs.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rampart_memory::{BlockOrder, Bytes, Frame};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::format::{FieldPlace, event_number, fields};
use super::instance::{TraceInstance, folder};
use super::ring_page::{MissedEvents, RingLayout};
use crate::{Absence, Error, Roots, roots};

/// The options of a kernel that has the events.
const KERNEL: &str = "CONFIG_FTRACE and CONFIG_EVENT_TRACING";

const ALLOCATION: &str = "events/kmem/mm_page_alloc";
const FREE: &str = "events/kmem/mm_page_free";

/// What happened to a block of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelPageChange {
    /// The kernel gave it out, for memory of this migratetype: 0 unmovable, 1 movable, 2 reclaimable.
    Allocated(u32),
    /// It came back.
    Freed,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelPageEvent {
    /// Time of the monotonic clock.
    pub nanos: u64,
    /// The CPU.
    pub cpu: u32,
    /// The thread that ran there, by the number that the whole machine knows it by; 0 is an idle CPU.
    pub thread: u32,
    /// The first frame.
    pub frame: Frame,
    /// The size.
    pub order: BlockOrder,
    /// What happened.
    pub change: KernelPageChange,
}

/// Events that are no [`KernelPageEvent`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedCounts {
    /// The kernel lost them: they were not read in time.
    pub lost: u64,
    /// Allocations that failed: nothing was given out.
    pub failed: u64,
    /// They could not be read, or are of a block beyond order 10.
    pub unreadable: u64,
}

/// The events of all CPUs, from the opening of the feed until it is dropped.
#[derive(Debug)]
pub struct PageEventFeed {
    // Dropped before the instance: one that is being read cannot be removed.
    cpus: Vec<CpuRing>,
    records: PageRecords,
    layout: RingLayout,
    /// The most pages that are read of a CPU at one poll, so that each poll ends.
    most: u64,
    /// One page.
    buffer: Vec<u8>,
    counts: FeedCounts,
    instance: TraceInstance,
}

/// The ring buffer of a CPU.
#[derive(Debug)]
struct CpuRing {
    number: u32,
    pipe: File,
    path: PathBuf,
}

impl PageEventFeed {
    /// Makes a trace instance with this much buffer for each CPU, and switches the events on.
    ///
    /// # Errors
    /// Why there are no such events, or not for this user.
    pub fn open(roots: &Roots, buffer: Bytes) -> Result<Self, Absence> {
        if !folder(roots).join("events").exists() {
            return Err(Absence::new(
                format!("{} is empty, so nothing can be traced", folder(roots).display()),
                "run as root, and mount tracefs there: mount -t tracefs tracefs /sys/kernel/tracing",
            ));
        }
        Self::open_by(roots, buffer, |folder| fs::create_dir(folder))
    }

    /// `make` makes the folder of an instance; the kernel then fills it.
    fn open_by(roots: &Roots, buffer: Bytes, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<Self, Absence> {
        let instance = TraceInstance::create(roots, KERNEL, make)?;
        instance.write("trace_clock", "mono")?;
        instance.write("buffer_size_kb", &buffer.get().div_ceil(1024).to_string())?;
        let changed = || Absence::new("this kernel describes its page events in another way", "report its version");
        let records = PageRecords::read(&instance)?.ok_or_else(changed)?;
        let layout = RingLayout::parse(&instance.read("events/header_page")?).ok_or_else(changed)?;
        let mut cpus = Vec::new();
        for (number, folder) in roots::numbered(&instance.path("per_cpu"), "cpu") {
            let name = format!("per_cpu/cpu{number}/trace_pipe_raw");
            cpus.push(CpuRing { number, pipe: instance.open(&name)?, path: folder.join("trace_pipe_raw") });
        }
        let buffer_pages = buffer.get().div_ceil(layout.bytes() as u64) + 1;
        let counts = FeedCounts::default();
        let feed =
            Self { cpus, records, layout, most: buffer_pages, buffer: vec![0; layout.bytes()], counts, instance };
        feed.instance.write(&format!("{FREE}/enable"), "1")?;
        feed.instance.write(&format!("{ALLOCATION}/enable"), "1")?;
        Ok(feed)
    }

    /// The time of the events' clock, in ns.
    #[must_use]
    pub fn now() -> u64 {
        let time = clock_gettime(ClockId::Monotonic);
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
    }

    /// Passes all events since the last poll to `see`: those of one CPU in their order, then those of the next.
    ///
    /// # Errors
    /// [`Error::Read`] if the trace cannot be read.
    pub fn poll(&mut self, mut see: impl FnMut(KernelPageEvent)) -> Result<(), Error> {
        let Self { cpus, records, layout, most, buffer, counts, .. } = self;
        for cpu in cpus {
            for _ in 0..*most {
                let read = match cpu.pipe.read(buffer) {
                    Ok(0) => break,
                    Ok(read) => read,
                    Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => break,
                    Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
                    // A CPU that was never online has no buffer yet.
                    Err(cause) if Errno::from_io_error(&cause) == Some(Errno::NODEV) => break,
                    Err(cause) => return Err(Error::Read { path: cpu.path.clone(), cause }),
                };
                let page = layout.read(&buffer[..read], |nanos, record| match records.event(record) {
                    Record::Event { thread, frame, order, change } => {
                        see(KernelPageEvent { nanos, cpu: cpu.number, thread, frame, order, change });
                    }
                    Record::Failed => counts.failed += 1,
                    Record::Unreadable => counts.unreadable += 1,
                    Record::Other => {}
                });
                counts.unreadable += u64::from(!page.whole);
                counts.lost += match page.missed {
                    MissedEvents::None => 0,
                    MissedEvents::Count(count) => count,
                    MissedEvents::Unknown => 1,
                };
            }
        }
        Ok(())
    }

    /// Switches the events off; what was recorded until then can still be read.
    ///
    /// # Errors
    /// Why they stay on.
    pub fn stop(&self) -> Result<(), Absence> {
        self.instance.write("tracing_on", "0")
    }

    /// Returns what could not be passed on so far.
    ///
    /// # Errors
    /// Why the kernel's counts cannot be read.
    pub fn counts(&self) -> Result<FeedCounts, Absence> {
        let mut lost = 0;
        for cpu in &self.cpus {
            lost += lost_events(&self.instance.read(&format!("per_cpu/cpu{}/stats", cpu.number))?);
        }
        // A page may not say how many events were lost before it; the kernel's sum does.
        Ok(FeedCounts { lost: self.counts.lost.max(lost), ..self.counts })
    }
}

/// The lost events in the statistics of a CPU's buffer.
fn lost_events(statistics: &str) -> u64 {
    let lost = ["overrun", "commit overrun", "dropped events"];
    let lines = statistics.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(name, _)| lost.contains(name)).filter_map(|(_, number)| number.trim().parse::<u64>().ok()).sum()
}

/// What a record says.
enum Record {
    Event {
        thread: u32,
        frame: Frame,
        order: BlockOrder,
        change: KernelPageChange,
    },
    /// An allocation that failed.
    Failed,
    /// One of the two events, but not as described.
    Unreadable,
    /// Of another event: options of the whole machine may add some.
    Other,
}

/// The places of the fields of both events.
#[derive(Clone, Copy, Debug)]
struct PageRecords {
    allocation: PageRecord,
    migratetype: FieldPlace,
    free: PageRecord,
}

/// The places of the fields of one event.
#[derive(Clone, Copy, Debug)]
struct PageRecord {
    number: u64,
    kind: FieldPlace,
    thread: FieldPlace,
    frame: FieldPlace,
    order: FieldPlace,
}

impl PageRecords {
    /// Reads the kernel's descriptions; `Ok(None)` if one lacks something.
    fn read(instance: &TraceInstance) -> Result<Option<Self>, Absence> {
        let allocation = instance.read(&format!("{ALLOCATION}/format"))?;
        let free = instance.read(&format!("{FREE}/format"))?;
        Ok(Self::parse(&allocation, &free))
    }

    fn parse(allocation: &str, free: &str) -> Option<Self> {
        let migratetype = field(allocation, "migratetype")?;
        Some(Self { allocation: PageRecord::parse(allocation)?, migratetype, free: PageRecord::parse(free)? })
    }

    fn event(&self, record: &[u8]) -> Record {
        match self.allocation.kind.number(record) {
            Some(kind) if kind == self.allocation.number => {
                let migratetype = self.migratetype.number(record).and_then(|number| u32::try_from(number).ok());
                let change = migratetype.map(KernelPageChange::Allocated);
                change.map_or(Record::Unreadable, |change| self.allocation.event(record, change))
            }
            Some(kind) if kind == self.free.number => self.free.event(record, KernelPageChange::Freed),
            _ => Record::Other,
        }
    }
}

impl PageRecord {
    fn parse(text: &str) -> Option<Self> {
        Some(Self {
            number: event_number(text)?,
            kind: field(text, "common_type")?,
            thread: field(text, "common_pid")?,
            frame: field(text, "pfn")?,
            order: field(text, "order")?,
        })
    }

    fn event(&self, record: &[u8], change: KernelPageChange) -> Record {
        /// The frame of an allocation that failed. Frame 0 is the firmware's; some kernels use it for the same.
        const NONE: [u64; 2] = [u64::MAX, 0];
        let number = self.frame.number(record);
        if change != KernelPageChange::Freed && number.is_some_and(|number| NONE.contains(&number)) {
            return Record::Failed;
        }
        let read = || {
            let thread = u32::try_from(self.thread.number(record)?).ok()?;
            let order = BlockOrder::new(u8::try_from(self.order.number(record)?).ok()?)?;
            Some(Record::Event { thread, frame: Frame::new(number?)?, order, change })
        };
        read().unwrap_or(Record::Unreadable)
    }
}

fn field(text: &str, name: &str) -> Option<FieldPlace> {
    fields(text).find(|(found, _)| *found == name).map(|(_, place)| place)
}

#[cfg(test)]
mod tests;
