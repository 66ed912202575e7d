//! Pages that are put at any address keep what is in them, and their frames.

#![expect(clippy::cast_possible_truncation, reason = "each page holds the lowest byte of its number")]

use std::fs;

use rampart_linux::{AddressReservation, Error, PageView, Pinning, PlacedPages, Roots};
use rampart_memory::{Bytes, PAGE_BYTES};
use rampart_skips::{Feature, granted, skip};

/// Pages that can be added later.
const MORE: u32 = 16384;

/// Pages, and the region that they are put in: the pages are dropped first.
struct Placed {
    pages: PlacedPages,
    view: PageView,
    region: AddressReservation,
}

fn placed(count: u32, only_locked: bool) -> Option<Placed> {
    let region = AddressReservation::new(Bytes::new(u64::from(count) * PAGE_BYTES as u64)).unwrap();
    let mut pages = PlacedPages::new(&Roots::default(), count + MORE).unwrap();
    if only_locked {
        pages.only_lock();
    }
    let added = pages.add(count);
    assert_eq!(granted(&[Feature::FrameNumbers], added)?, 0..count);
    // SAFETY: the region is this test's, is reached by raw pointers only, and is dropped after the pages.
    unsafe { pages.attach(region.base(), count as usize * PAGE_BYTES) };
    let view = pages.view().unwrap();
    Some(Placed { pages, view, region })
}

impl Placed {
    fn read(&self, offset: usize) -> u8 {
        // SAFETY: the tests read where they have put pages.
        unsafe { self.region.base().add(offset).read_volatile() }
    }

    fn write(&self, offset: usize, value: u8) {
        // SAFETY: as for `read`.
        unsafe { self.region.base().add(offset).write_volatile(value) };
    }
}

#[test]
fn scattered_pages_are_contiguous_where_they_are_put_and_keep_what_is_in_them() {
    let Some(mut placed) = placed(64, false) else { return };
    for page in 0..64 {
        placed.view.write(page, 7, page as u8);
    }
    let frames = placed.pages.frames().to_vec();
    // 37 and 64 have no common divisor: each page once, no two that follow each other.
    let order: Vec<u32> = (0..64).map(|place| place * 37 % 64).collect();
    placed.pages.place(0, &order).unwrap();
    for (place, page) in order.iter().enumerate() {
        assert_eq!(u32::from(placed.read(place * PAGE_BYTES + 7)), *page);
        placed.write(place * PAGE_BYTES + 8, 100 + *page as u8);
    }
    placed.pages.clear(0, 64);
    placed.pages.place(0, &(0..64).collect::<Vec<_>>()).unwrap();
    assert!(
        (0..64).all(|page| placed.read(page * PAGE_BYTES + 8) == 100 + page as u8),
        "they moved with their content"
    );
    assert_eq!(placed.pages.moved().unwrap(), [], "and with their frames");
    assert_eq!(placed.pages.frames(), frames);
}

#[test]
fn lines_are_copied_one_by_one() {
    let Some(mut placed) = placed(2, false) else { return };
    for line in 0..64 {
        placed.view.write(0, line * 64 + 63, 1);
    }
    placed.pages.copy(0, 1, !(1 << 5));
    assert!((0..64).all(|line| (placed.view.read(1, line * 64 + 63) == 1) == (line != 5)));
}

#[test]
fn another_frame_below_a_page_is_noticed_once() {
    let Some(mut placed) = placed(64, false) else { return };
    if placed.pages.pinning() != Pinning::Registered {
        return skip(Feature::IoUring, "frames would be used again at once");
    }
    placed.pages.place(0, &[9, 10]).unwrap();
    let before = placed.pages.frames().to_vec();
    // The pins keep the old frames from being used again.
    (8..12).for_each(|page| placed.pages.renew(page).unwrap());
    let moved = placed.pages.moved().unwrap();
    assert_eq!(moved.iter().map(|moved| moved.page).collect::<Vec<_>>(), [8, 9, 10, 11]);
    for page in &moved {
        assert!(!page.is_lost && page.frame == placed.pages.frames()[page.page as usize]);
        assert!(!before.contains(&page.frame));
    }
    assert_eq!(placed.pages.moved().unwrap(), []);
    placed.write(0, 3);
    assert_eq!(placed.view.read(9, 0), 3, "what is put at an address stays there with its new frame");
}

/// Compaction moves pages that are only locked, and none that are pinned.
#[test]
fn pages_that_compaction_moves_are_noticed_with_their_content_and_pinned_ones_stay() {
    const PAGES: u32 = MORE;
    let (Some(mut pinned), Some(mut locked)) = (placed(1, false), placed(1, true)) else { return };
    // Frames between theirs are free again when all have theirs: that is what compaction mends.
    let mut between = vec![0_u8; PAGES as usize * PAGE_BYTES];
    for place in between.chunks_mut(PAGE_BYTES) {
        locked.pages.add(1).unwrap();
        place[0] = 1;
    }
    pinned.pages.add(PAGES).unwrap();
    drop(between);
    for page in 0..PAGES {
        locked.view.write(page, 0, page as u8);
    }
    if granted(&[Feature::Root], fs::write("/proc/sys/vm/compact_memory", "1")).is_none() {
        return;
    }
    let before = locked.pages.frames().to_vec();
    let moved = locked.pages.moved().unwrap();
    println!("compaction moved {} of {PAGES} locked pages", moved.len());
    for moved in moved {
        assert!(!moved.is_lost && moved.frame != before[moved.page as usize]);
    }
    assert!((0..PAGES).all(|page| locked.view.read(page, 0) == page as u8));
    if pinned.pages.pinning() == Pinning::Registered {
        assert_eq!(pinned.pages.moved().unwrap(), []);
    }
}

#[test]
fn a_process_that_may_not_know_its_frames_is_told_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots::new(folder.path(), folder.path());
    assert!(matches!(PlacedPages::new(&roots, 1), Err(Error::Read { .. })));
    // Entries of pages whose frames are hidden: present, with number 0. The file is sparse, and this is its end.
    fs::create_dir(folder.path().join("self")).unwrap();
    let pagemap = fs::File::create(folder.path().join("self/pagemap")).unwrap();
    pagemap.set_len(1 << 38).unwrap();
    let mut pages = PlacedPages::new(&roots, 1).unwrap();
    let hidden = pages.add(1).unwrap_err().to_string();
    assert!(hidden.ends_with("run as root, outside of a container"), "{hidden}");
}

/// What the kernel does when huge pages are wanted: 512 pages get the frames of one.
#[test]
fn pages_that_become_one_huge_page_are_noticed_with_their_content_and_their_places() {
    const HUGE: u32 = 512;
    let Some(mut placed) = placed(HUGE, true) else { return };
    let order: Vec<u32> = (0..HUGE).rev().collect();
    placed.pages.place(0, &order).unwrap();
    order.iter().for_each(|page| placed.view.write(*page, 0, *page as u8));
    if granted(&[Feature::TransparentHugePages], placed.view.make_huge(0, 1)).is_none() {
        return;
    }
    let frames = placed.pages.frames().to_vec();
    let moved = placed.pages.moved().unwrap();
    assert_eq!(moved.len(), HUGE as usize);
    assert!(moved.iter().all(|moved| !moved.is_lost && moved.frame != frames[moved.page as usize]));
    assert!(placed.pages.frames().windows(2).all(|two| two[0].number() + 1 == two[1].number()));
    assert!((0..).zip(order).all(|(place, page)| placed.read(place * PAGE_BYTES) == page as u8));
}

/// A child would share anonymous pages until one of both writes, and the writer gets another frame.
#[test]
fn a_fork_changes_no_frame() {
    for only_locked in [false, true] {
        let Some(mut placed) = placed(64, only_locked) else { return };
        placed.pages.place(0, &(0..64).collect::<Vec<_>>()).unwrap();
        (0..64).for_each(|page| placed.write(page * PAGE_BYTES, page as u8));
        let mut ends = [0; 2];
        // SAFETY: the child makes system calls only, and leaves without running anything of this process.
        let child = unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            let child = libc::fork();
            if child == 0 {
                libc::close(ends[1]);
                libc::read(ends[0], (&raw mut ends).cast(), 1);
                libc::_exit(0);
            }
            child
        };
        assert!(child > 0);
        (0..64).for_each(|page| placed.write(page * PAGE_BYTES, 100 + page as u8));
        assert_eq!(placed.pages.moved().unwrap(), [], "the child is there");
        assert!((0..64).all(|page| placed.view.read(page, 0) == 100 + page as u8));
        // SAFETY: both ends are ours, and so is the child, which ends when the pipe is closed.
        unsafe {
            assert_eq!(ends.map(|end| libc::close(end)), [0, 0]);
            assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
        }
        assert_eq!(placed.pages.moved().unwrap(), [], "it is gone");
    }
}
