//! Blocks of real memory of this machine. Whether it has a feature is asked elsewhere, and its capability must agree.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use rampart_linux::block::PinReport;
use rampart_linux::retire::RetireRefusal;
use rampart_linux::{
    Block, Capability, CapabilityState, Error, Feature, FlagTable, FrameClass, PageKind, Pagemap, Pinning,
    RetireOutcome, Retirer, Roots, capabilities,
};
use rampart_memory::{Bytes, Frame};
use rampart_skips::{Feature as Needed, granted};
use rustix::thread::{CapabilitySet, capabilities as rights_of, set_capabilities as set_rights_of};

const SIZE: Bytes = Bytes::from_mib(64);
const KINDS: [PageKind; 2] = [PageKind::Base, PageKind::Huge];

/// Taken by every test that pins: what a user may lock is one sum, and tests that run at once would take it from each
/// other.
fn turn_to_pin() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn has(feature: Feature) -> bool {
    capabilities::of(feature, &Roots::default()).is_available()
}

/// Whether this process may lock memory without limit; if not, a part of the test is skipped.
fn may_lock_without_limit() -> bool {
    let Capability { state, .. } = capabilities::of(Feature::MemoryLocking, &Roots::default());
    let said = matches!(&state, CapabilityState::Available { detail } if detail == "without limit");
    granted(&[Needed::LockedMemory], if said { Ok(()) } else { Err(format!("{state:?}")) }).is_some()
}

fn claim(bytes: Bytes, kind: PageKind) -> Block {
    Block::claim(bytes, kind).expect("a machine that runs tests has this much memory")
}

fn frames(block: &Block) -> Vec<Option<Frame>> {
    let mut frames = Vec::new();
    if let Ok(pagemap) = Pagemap::open(&Roots::default()) {
        block.frames(&pagemap, &mut frames).unwrap();
    }
    frames
}

/// Moves pages, where this process may; without the right, pages may still move by themselves.
fn compact() {
    let _ = fs::write("/proc/sys/vm/compact_memory", "1");
}

fn byte(block: &Block, page: u64) -> u8 {
    let offset = usize::try_from(page * 4096).unwrap();
    assert!(page < block.pages());
    // SAFETY: the page lies inside the block, which is mapped and readable, and no reference to it exists.
    unsafe { block.base().add(offset).read_volatile() }
}

fn set_byte(block: &Block, page: u64, value: u8) {
    let offset = usize::try_from(page * 4096).unwrap();
    assert!(page < block.pages());
    // SAFETY: the page lies inside the block, which is mapped and writable, and no reference to it exists.
    unsafe { block.base().add(offset).write_volatile(value) };
}

#[test]
fn a_pinned_block_keeps_its_frames_and_no_two_pages_share_one() {
    let _turn = turn_to_pin();
    for kind in KINDS {
        let mut block = claim(SIZE, kind);
        let PinReport { pinning, refusals } = block.pin();
        assert_eq!(pinning, block.pinning());
        assert_eq!(pinning == Pinning::Registered, refusals.is_empty(), "{refusals:?}");

        let before = frames(&block);
        compact();
        let after = frames(&block);
        let numbers = if has(Feature::FrameNumbers) { Ok(()) } else { Err("they are said to be hidden") };
        if granted(&[Needed::FrameNumbers], numbers).is_none() {
            assert!(before.iter().all(Option::is_none));
            continue;
        }
        assert_eq!(before.len() as u64, SIZE.frames());
        let mut distinct: Vec<_> = before.iter().map(|frame| frame.expect("every page is present")).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), before.len());
        if pinning.holds_frames() {
            assert_eq!(before, after);
        }
    }
}

#[test]
fn pins_are_refused_only_where_the_machine_says_so() {
    let _turn = turn_to_pin();
    let one_page = PageKind::Base.granule();
    let mut block = claim(one_page, PageKind::Base);
    for (pinning, capability, needs) in [
        (Pinning::Registered, Feature::Pinning, &[Needed::IoUring, Needed::LockedMemory][..]),
        (Pinning::Locked, Feature::MemoryLocking, &[Needed::LockedMemory]),
    ] {
        let pinned = block.pin_by(pinning);
        assert_eq!(pinned.is_ok(), has(capability), "{pinned:?}");
        granted(needs, pinned);
    }
    assert!(block.pin_by(Pinning::HugeTlb).is_err(), "its pages are not of the pool");
    block.unpin();
    assert_eq!(block.pinning(), Pinning::None);
}

#[test]
fn the_huge_page_pool_gives_what_it_has_or_an_error() {
    let _turn = turn_to_pin();
    match Block::claim(Bytes::from_mib(2), PageKind::HugeTlb) {
        Ok(mut block) => {
            assert!(block.pin().pinning >= Pinning::HugeTlb);
        }
        Err(Error::Claim { bytes, .. }) => assert_eq!(bytes, Bytes::from_mib(2)),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_block_starts_at_a_huge_page_and_holds_zeros() {
    for (bytes, kind) in [(SIZE, PageKind::Huge), (Bytes::new(12 << 10), PageKind::Huge), (SIZE, PageKind::Base)] {
        let block = claim(bytes, kind);
        assert_eq!(block.bytes(), bytes);
        assert!(block.base().addr().get().is_multiple_of(2 << 20));
        assert!((0..block.pages()).all(|page| byte(&block, page) == 0));
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    for (bytes, kind) in [
        (0, PageKind::Huge),
        (4095, PageKind::Base),
        (4096, PageKind::HugeTlb),
        (1 << 47, PageKind::Huge),
        (u64::MAX - 4095, PageKind::Base),
    ] {
        let refused = Block::claim(Bytes::new(bytes), kind);
        assert!(matches!(refused, Err(Error::BlockSize { .. })), "{bytes} {kind:?} {refused:?}");
    }
}

#[test]
fn more_than_there_is_is_an_error_and_not_a_kill() {
    let refused = Block::claim(Bytes::new(1 << 46), PageKind::Huge);
    assert!(matches!(refused, Err(Error::Claim { .. })), "{refused:?}");
}

#[test]
fn discarded_pages_read_as_zeros_and_the_others_keep_their_content() {
    let mut block = claim(Bytes::from_mib(4), PageKind::Huge);
    (0..block.pages()).for_each(|page| set_byte(&block, page, 1));
    block.discard(2..5).unwrap();
    let zeros: Vec<_> = (0..block.pages()).filter(|&page| byte(&block, page) == 0).collect();
    assert_eq!(zeros, [2, 3, 4]);
    block.discard(7..7).unwrap();
    assert!(matches!(block.discard(0..1025), Err(Error::PageOutside { page: 1025, pages: 1024 })));
    assert!(matches!(block.discard(u64::MAX..u64::MAX), Err(Error::PageOutside { .. })));
}

#[test]
fn offered_pages_are_zeros_or_what_they_were() {
    let mut block = claim(Bytes::from_mib(4), PageKind::Huge);
    (0..block.pages()).for_each(|page| set_byte(&block, page, 7));
    block.offer().unwrap();
    assert!((0..block.pages()).all(|page| [0, 7].contains(&byte(&block, page))));
}

#[test]
fn pinned_pages_cannot_be_given_back() {
    let _turn = turn_to_pin();
    let mut block = claim(Bytes::from_mib(2), PageKind::Base);
    if block.pin().pinning == Pinning::None {
        assert!(!may_lock_without_limit());
        return;
    }
    assert!(matches!(block.offer(), Err(Error::Pinned)));
    assert!(matches!(block.discard(0..1), Err(Error::Pinned)));
    block.unpin();
    block.offer().unwrap();
    block.discard(0..1).unwrap();
}

#[test]
fn pages_that_are_kept_keep_their_frames_and_content() {
    let _turn = turn_to_pin();
    for kind in KINDS {
        let mut block = claim(Bytes::from_mib(4), kind);
        let last = block.pages() - 1;
        for page in [0, 5, 6, last] {
            set_byte(&block, page, u8::try_from(page % 251).unwrap() + 1);
        }
        block.pin();
        let (pinning, before) = (block.pinning(), frames(&block));
        let kept = block.keep_only(&[last, 5, 6, 0, 5]).unwrap();
        compact();
        assert_eq!(kept.len(), 4);
        for (block, page) in kept.iter().zip([0, 5, 6, last]) {
            assert_eq!(block.pages(), 1);
            assert_eq!(byte(block, 0), u8::try_from(page % 251).unwrap() + 1);
            if !may_lock_without_limit() {
                continue;
            }
            assert!(block.pinning() >= pinning);
            if pinning.holds_frames() && !before.is_empty() {
                assert_eq!(frames(block), [before[usize::try_from(page).unwrap()]]);
            }
        }
    }
}

#[test]
fn nothing_is_kept_of_a_block_of_which_no_page_is_asked_for() {
    assert!(claim(Bytes::from_mib(2), PageKind::Huge).keep_only(&[]).unwrap().is_empty());
    for outside in [512, u64::MAX] {
        let refused = claim(Bytes::from_mib(2), PageKind::Huge).keep_only(&[0, outside]);
        assert!(matches!(refused, Err(Error::PageOutside { page, pages: 512 }) if page == outside));
    }
}

#[test]
fn a_claimed_page_is_counted_as_a_program_s_memory() {
    let _turn = turn_to_pin();
    let Some(table) = granted(&[Needed::FrameFlags], FlagTable::open(&Roots::default())) else {
        assert!(!has(Feature::FrameFlags));
        return;
    };
    let mut block = claim(Bytes::from_mib(8), PageKind::Base);
    block.pin();
    let census = table.census().unwrap();
    assert!(census.count(FrameClass::Anonymous) >= block.pages());
    for frame in frames(&block).into_iter().flatten() {
        assert_eq!(table.of(frame).unwrap().unwrap().class(), FrameClass::Anonymous);
    }
}

#[test]
fn a_page_that_is_elsewhere_is_never_retired_in_place_of_the_frame() {
    let pagemap = Pagemap::open(&Roots::default()).expect("every process has one");
    let mut block = claim(PageKind::Base.granule(), PageKind::Base);
    let elsewhere = Frame::new(0).unwrap();
    let outcome = Retirer::new(&Roots::default()).retire_own(elsewhere, &mut block, 0, &pagemap);
    assert_eq!(outcome, RetireOutcome::Refused(RetireRefusal::Moved));
}

/// A machine without files to retire frames by and without their flags, on which the block's first page is on `frame`.
fn machine_with_first_page_on(frame: Frame, block: &Block) -> (tempfile::TempDir, Roots) {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots::new(folder.path(), folder.path());
    fs::create_dir(roots.proc("self")).unwrap();
    let entry = (1_u64 << 63) | frame.number();
    let at = block.base().addr().get() as u64 / 4096 * 8;
    File::create(roots.proc("self/pagemap")).unwrap().write_all_at(&entry.to_ne_bytes(), at).unwrap();
    (folder, roots)
}

/// Only the kernel can retire a frame. It refuses a thread without the right to (or refuses all, if it cannot), and no
/// frame of this machine is lost by the test.
#[test]
fn a_page_that_the_kernel_does_not_take_offline_is_not_said_to_be_retired() {
    let unprivileged = thread::spawn(|| {
        let mut rights = rights_of(None).unwrap();
        rights.effective.remove(CapabilitySet::SYS_ADMIN);
        set_rights_of(None, rights).unwrap();
        let mut block = claim(PageKind::Base.granule(), PageKind::Base);
        let frame = Frame::new(3).unwrap();
        let (_folder, roots) = machine_with_first_page_on(frame, &block);
        let pagemap = Pagemap::open(&roots).unwrap();
        Retirer::new(&roots).retire_own(frame, &mut block, 0, &pagemap)
    });
    let outcome = unprivileged.join().unwrap();
    assert!(matches!(outcome, RetireOutcome::Refused(RetireRefusal::Kernel(_))), "{outcome:?}");
}
