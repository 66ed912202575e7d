//! Ring buffers that Linux 6.18 wrote, and made-up trees of tracefs.

use super::*;

const HEADER_PAGE: &str = include_str!("header_page.format");
const ALLOCATIONS: &str = include_str!("mm_page_alloc.format");
const FREES: &str = include_str!("mm_page_free.format");

/// The first page of the buffer of each CPU while a shell ran, and the same events as the kernel printed them: µs,
/// thread, frame, order, change.
const RECORDED: [(&[u8], &str); 2] =
    [(include_bytes!("cpu0.ring"), include_str!("cpu0.txt")), (include_bytes!("cpu1.ring"), include_str!("cpu1.txt"))];

/// A folder that tracefs might have filled.
fn fill(folder: &Path) -> io::Result<()> {
    for (name, text) in [
        ("trace_clock", ""),
        ("buffer_size_kb", ""),
        ("tracing_on", "1"),
        ("events/header_page", HEADER_PAGE),
        ("events/kmem/mm_page_alloc/format", ALLOCATIONS),
        ("events/kmem/mm_page_alloc/enable", "0"),
        ("events/kmem/mm_page_free/format", FREES),
        ("events/kmem/mm_page_free/enable", "0"),
        ("per_cpu/cpu0/stats", "entries: 9\noverrun: 0\ncommit overrun: 0\ndropped events: 0\n"),
        ("per_cpu/cpu1/stats", "entries: 9\noverrun: 40\ncommit overrun: 1\nbytes: 7\ndropped events: 2\n"),
    ] {
        fs::create_dir_all(folder.join(name).parent().unwrap())?;
        fs::write(folder.join(name), text)?;
    }
    (0..2).try_for_each(|cpu| fs::write(folder.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw")), RECORDED[cpu].0))
}

/// A machine with tracefs.
fn machine() -> (tempfile::TempDir, Roots) {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots::new(folder.path(), folder.path());
    fs::create_dir_all(roots.sys("kernel/tracing/events")).unwrap();
    fs::create_dir(roots.sys("kernel/tracing/instances")).unwrap();
    (folder, roots)
}

fn shown(event: KernelPageEvent) -> String {
    let change = match event.change {
        KernelPageChange::Allocated(migratetype) => format!("alloc {migratetype}"),
        KernelPageChange::Freed => "free".to_owned(),
    };
    let KernelPageEvent { nanos, thread, frame, order, .. } = event;
    // The kernel rounds to the nearest µs.
    format!("{} {thread} {frame} {} {change}\n", (nanos + 500) / 1000, order.number())
}

#[test]
fn events_are_those_that_the_kernel_prints() {
    let (_folder, roots) = machine();
    let mut feed = PageEventFeed::open_by(&roots, Bytes::from_mib(4), fill).unwrap();
    let mut seen = [String::new(), String::new()];
    feed.poll(|event| seen[event.cpu as usize] += &shown(event)).unwrap();
    assert_eq!(seen, RECORDED.map(|(_, text)| text));
    feed.poll(|event| panic!("{event:?}")).unwrap();
}

#[test]
fn only_our_instance_is_switched_on_and_what_was_lost_is_counted() {
    let (_folder, roots) = machine();
    let feed = PageEventFeed::open_by(&roots, Bytes::from_mib(4), fill).unwrap();
    let written = |name: &str| fs::read_to_string(feed.instance.path(name)).unwrap();
    let switches = ["events/kmem/mm_page_alloc/enable", "events/kmem/mm_page_free/enable"].map(written);
    assert_eq!(switches, ["1", "1"]);
    assert_eq!([written("trace_clock"), written("buffer_size_kb")], ["mono", "4096"]);
    assert_eq!(feed.counts().unwrap(), FeedCounts { lost: 43, failed: 0, unreadable: 0 });
    feed.stop().unwrap();
    assert_eq!(written("tracing_on"), "0");
}

#[test]
fn a_page_that_says_how_many_events_were_lost_is_believed() {
    let (_folder, roots) = machine();
    let marked = |folder: &Path| {
        fill(folder)?;
        let mut page = RECORDED[0].0.to_vec();
        // Bit 31 of `commit`, without a number: there is no room for one.
        page[8 + 3] |= 0x80;
        fs::write(folder.join("per_cpu/cpu0/trace_pipe_raw"), page)?;
        fs::write(folder.join("per_cpu/cpu1/stats"), "")
    };
    let mut feed = PageEventFeed::open_by(&roots, Bytes::from_mib(4), marked).unwrap();
    feed.poll(drop).unwrap();
    assert_eq!(feed.counts().unwrap().lost, 1);
}

fn records() -> PageRecords {
    PageRecords::parse(ALLOCATIONS, FREES).unwrap()
}

/// An allocation, as the kernel writes it.
fn allocation(frame: u64, order: u32, migratetype: i32) -> Vec<u8> {
    let number = u16::try_from(records().allocation.number).unwrap();
    let start = [&number.to_ne_bytes()[..], &[0, 0], &77_u32.to_ne_bytes(), &frame.to_ne_bytes()].concat();
    [&start[..], &order.to_ne_bytes(), &[0; 12], &migratetype.to_ne_bytes()].concat()
}

#[test]
fn what_is_no_event_of_a_page_is_told_apart() {
    let event = |record: &[u8]| records().event(record);
    let good = allocation(5, 3, 1);
    let Record::Event { thread, frame, order, change } = event(&good) else { panic!() };
    assert_eq!((thread, frame.number(), order.number()), (77, 5, 3));
    assert_eq!(change, KernelPageChange::Allocated(1));
    assert!(matches!(event(&allocation(u64::MAX, 3, 1)), Record::Failed));
    assert!(matches!(event(&allocation(0, 3, 1)), Record::Failed));
    assert!(matches!(event(&allocation(5, 11, 1)), Record::Unreadable));
    assert!(matches!(event(&allocation(1 << 41, 0, 1)), Record::Unreadable));
    assert!(matches!(event(&good[..20]), Record::Unreadable));
    assert!(matches!(event(&[&[0xff, 0xff], &good[2..]].concat()), Record::Other));
    assert!(matches!(event(&[1]), Record::Other));
}

#[test]
fn a_kernel_without_tracefs_or_with_other_events_says_what_to_do() {
    let (_folder, roots) = machine();
    fs::remove_dir(roots.sys("kernel/tracing/events")).unwrap();
    let absence = PageEventFeed::open(&roots, Bytes::from_mib(1)).unwrap_err();
    assert!(absence.remedy.contains("mount -t tracefs"), "{absence}");
    let (_folder, roots) = machine();
    let renamed = |folder: &Path| {
        fill(folder)?;
        fs::write(folder.join("events/kmem/mm_page_free/format"), FREES.replace("pfn", "page"))
    };
    let absence = PageEventFeed::open_by(&roots, Bytes::from_mib(1), renamed).unwrap_err();
    assert!(absence.reason.contains("describes its page events"), "{absence}");
    let instance = folder(&roots).join(format!("instances/rampart-{}", std::process::id()));
    assert!(fs::read_dir(instance).is_ok(), "tracefs removes what it made, an ordinary folder stays");
}
