//! A pool over a vault, with no thread but the test's.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rampart_guard::BadFrames;
use rampart_linux::PageKind;
use rampart_linux::userfaultfd::Reach;
use rampart_linux::vault::{Tracking, VaultOptions, VaultSpan};
use rampart_memory::LineData;
use rampart_skips::{Feature, granted};

use super::*;
use crate::frames::fake_frames::FakeFrames;

/// A vault of so many MiB; `None` where the kernel has none: then the test is skipped.
fn vault(kind: PageKind, mib: u64) -> Option<&'static Vault> {
    let options = VaultOptions { kind, tracking: Tracking::Off, least: Reach::UserCode };
    match Vault::reserve(Bytes::from_mib(mib), options, &Roots::default()) {
        Err(error) if !matches!(error, Error::Absent(_)) => panic!("{error}"),
        outcome => granted(&[Feature::UserfaultfdMove], outcome).map(|vault| &*Box::leak(Box::new(vault))),
    }
}

/// The file of these frames; the folder may go afterwards.
fn known_frames<const N: usize>(shared: &'static Published, frames: [Frame; N]) -> &'static KnownBadPages {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(BadFrames::FILE), BadFrames::from_iter(frames).to_string()).unwrap();
    Box::leak(Box::new(KnownBadPages::begin(Some(folder.path()), shared.counts).unwrap()))
}

fn pool(vault: &'static Vault, faults: Option<&str>) -> TestedFramePool {
    let injected = faults.map(|faults| InjectedFrames::new(&faults.parse().unwrap()).unwrap());
    let settings = "untested=wait,test=mats+".parse().unwrap();
    let shared: &'static Published = Box::leak(Box::new(Published::new()));
    TestedFramePool::new(vault, shared, known_frames(shared, []), settings, injected)
}

fn work(pool: &TestedFramePool) {
    while pool.work() != TesterStep::None {}
}

fn span(first: u64, pages: u64) -> VaultSpan {
    VaultSpan::new(first, pages).unwrap()
}

/// Locks pages that are there. Another test may fork meanwhile: pages that two processes share do not move.
fn lock_all(vault: &Vault, span: VaultSpan) {
    let mut moved = 0;
    while moved < span.pages() {
        moved += vault.lock(span, |_, _| {}).unwrap().moved();
        thread::yield_now();
    }
}

/// The first word of a page in the vault.
fn word(vault: &Vault, page: u64) -> *mut u64 {
    vault.address(Side::Vault, page).cast().as_ptr()
}

/// Frames of pages in the vault; empty if the kernel does not show them.
fn frames(vault: &Vault, pool: &TestedFramePool, span: VaultSpan) -> BTreeSet<Frame> {
    let mut frames = Vec::new();
    vault.frames(Side::Vault, span, pool.pagemap.as_ref().unwrap(), &mut frames).unwrap();
    let frames: BTreeSet<Frame> = frames.into_iter().flatten().collect();
    granted(&[Feature::FrameNumbers], if frames.is_empty() { Err("they are hidden") } else { Ok(()) });
    frames
}

#[test]
fn a_page_that_is_new_brings_zeros_on_frames_that_were_tested() {
    for (kind, pages) in [(PageKind::Base, 16), (PageKind::Huge, 512)] {
        let Some(vault) = vault(kind, 8) else { return };
        let pool = pool(vault, None);
        let mut tested = BTreeSet::new();
        for first in (0..4 * pages).step_by(usize::try_from(pages).unwrap()) {
            work(&pool);
            let chunk = pool.chunks().take().expect("the target is not short");
            tested.extend(chunk.frames.iter().flatten().copied());
            pool.chunks().put_back(chunk);
            assert!(matches!(pool.supply(span(first, pages)), FrameHistory::Tested(_)));
        }
        lock_all(vault, span(0, 4 * pages));
        // SAFETY: the pages are in the vault, and nobody else uses them.
        assert!((0..4 * pages).all(|page| unsafe { word(vault, page).read() } == 0));
        assert!(frames(vault, &pool, span(0, 4 * pages)).is_subset(&tested));
        assert_eq!(pool.counts().get(Counter::Tested) % 512, 0);
    }
}

/// Two in three of the first chunks have a bad frame.
#[test]
fn a_page_that_waits_is_given_no_untested_frame_when_trays_fail() {
    let Some(vault) = vault(PageKind::Huge, 32) else { return };
    let pool = pool(vault, Some("stuck-at:32,seed=5"));
    for chunk in 0..16 {
        assert!(matches!(pool.supply(span(chunk * CHUNK_PAGES, CHUNK_PAGES)), FrameHistory::Tested(_)));
    }
    assert!(pool.counts().get(Counter::Retired) > 4);
}

/// A re-placement has the chunk in hand meanwhile.
#[test]
fn a_page_that_waits_is_given_no_untested_frame_when_others_take_the_trays() {
    let Some(vault) = vault(PageKind::Base, 64) else { return };
    let pool = pool(vault, None);
    let (kept, new) = (span(0, 16), 16..1024);
    vault.populate(kept).unwrap();
    vault.lock(kept, |_, _| {}).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let taking = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // Another test may have forked, so that its pages are shared for a moment.
                let _ = pool.re_place(kept);
                pool.chunks().waiting.clear();
            }
        });
        let tested = |first| matches!(pool.supply(span(first, 16)), FrameHistory::Tested(_));
        let all_tested = new.step_by(16).all(tested);
        done.store(true, Ordering::Relaxed);
        taking.join().unwrap();
        assert!(all_tested);
    });
}

#[test]
fn a_frame_that_fails_below_a_page_is_retired_and_the_page_keeps_its_content() {
    for (kind, pages) in [(PageKind::Base, 16), (PageKind::Huge, 512)] {
        let Some(vault) = vault(kind, 16) else { return };
        // Of the first 16,384 tested frames, one in eight is bad.
        let pool = pool(vault, Some("stuck-at:2048,seed=5"));
        let all = span(0, 2048);
        vault.populate(all).unwrap();
        vault.lock(all, |_, _| {}).unwrap();
        // SAFETY: the pages are in the vault, and nobody else uses them.
        all.numbers().for_each(|page| unsafe { word(vault, page).write(page + 1) });
        let mut re_placed = 0;
        for first in all.numbers().step_by(usize::try_from(pages).unwrap()) {
            // Nearly every huge page of the first 32 has a bad frame, and is of no use.
            let done = (0..50).any(|_| {
                work(&pool);
                match pool.re_place(span(first, pages)) {
                    Ok(frames) => frames != FrameHistory::Same,
                    // Another test has forked.
                    Err(refusal) => {
                        assert_eq!(refusal, EngineRefusal::Pinned);
                        vault.unshare(Side::Vault, span(first, pages)).unwrap();
                        false
                    }
                }
            });
            re_placed += u64::from(done) * pages;
        }
        work(&pool);
        assert_eq!(re_placed, 2048, "{kind:?}");
        // SAFETY: as above.
        assert!(all.numbers().all(|page| unsafe { word(vault, page).read() } == page + 1), "{kind:?}");
        let retired = pool.counts().get(Counter::Retired);
        assert!(retired > 128, "{kind:?}: {retired}");
        let mut kept = BTreeSet::new();
        for page in &pool.chunks().retired {
            kept.extend(pool.frames_now(page).into_iter().flatten());
        }
        let used = frames(vault, &pool, all);
        assert!(used.is_disjoint(&kept), "{kind:?}: a frame that failed is used");
        assert!(used.is_empty() || kept.len() as u64 == retired, "{kind:?}: each is kept");
    }
}

#[test]
fn a_frame_that_is_known_to_be_bad_is_never_used() {
    let Some(vault) = vault(PageKind::Base, 4) else { return };
    let pool = pool(vault, None);
    let block = Block::claim(Bytes::from_mib(2), PageKind::Base).unwrap();
    let frames = pool.frames_now(&block);
    let bad = frames.first().copied().flatten().ok_or("they are hidden");
    let Some(bad) = granted(&[Feature::FrameNumbers], bad) else { return };
    let pool = TestedFramePool { known: known_frames(pool.shared, [bad]), ..pool };
    // Memory that the program had.
    assert!(!pool.test(vec![Raw { block, names: Vec::new() }], |work| work()));
    assert_eq!([Counter::Avoided, Counter::Retired].map(|counter| pool.counts().get(counter)), [1, 0]);
    let held: Vec<_> = pool.chunks().retired.iter().flat_map(|page| pool.frames_now(page)).collect();
    assert_eq!(held, [Some(bad)]);
    // Memory from the kernel: a frame that nobody holds is given out again, in the end to the pool.
    pool.chunks().retired.clear();
    for _ in 0..100 {
        let block = pool.known.claim(Bytes::from_mib(2), PageKind::Base).unwrap();
        assert!(!pool.frames_now(&block).contains(&Some(bad)));
    }
}

#[test]
fn memory_that_moved_during_its_test_waits_for_another() {
    let Some(vault) = vault(PageKind::Base, 4) else { return };
    let pages = FakeFrames::new();
    let pool = TestedFramePool { pagemap: Some(pages.pagemap()), ..pool(vault, None) };
    let claim = || Block::claim(Bytes::from_mib(2), PageKind::Base).unwrap();
    let (stays, moves) = (claim(), claim());
    (0..512).for_each(|page| pages.put(stays.base(), page, 1000 + page));
    (0..512).for_each(|page| pages.put(moves.base(), page, 2000 + page));
    let (moved, kept) = (moves.base(), stays.base());
    let raw = [stays, moves].map(|block| Raw { block, names: Vec::new() });
    let all_good = pool.test(raw.into(), |work| {
        work();
        pages.put(moved, 7, 5000);
    });
    assert!(all_good, "no frame is bad");
    let mut chunks = pool.chunks();
    let waiting: Vec<_> = chunks.waiting.iter().map(|raw| raw.block.base()).collect();
    assert_eq!(waiting, [moved]);
    assert_eq!(chunks.take().map(|chunk| chunk.block.base()), Some(kept));
    assert!(chunks.take().is_none());
}

#[test]
fn memory_that_moved_after_its_test_is_neither_given_away_nor_put_below_a_page() {
    let Some(vault) = vault(PageKind::Base, 4) else { return };
    let pages = FakeFrames::new();
    let pool = TestedFramePool { pagemap: Some(pages.pagemap()), ..pool(vault, None) };
    let (new, kept) = (span(0, 16), span(16, 16));
    vault.populate(kept).unwrap();
    lock_all(vault, kept);
    let ready = || {
        work(&pool);
        let mut chunk = pool.chunks().take().expect("the target is not short");
        chunk.frames = (1000..1512).map(Frame::new).collect();
        (0..512).for_each(|page| pages.put(chunk.block.base(), page, 1000 + page));
        // The first page that would be used.
        pages.put(chunk.block.base(), chunk.next, 5000);
        let base = chunk.block.base();
        pool.chunks().put_back(chunk);
        base
    };
    let is_waiting = |base| pool.chunks().waiting.iter().any(|raw| raw.block.base() == base);
    let moved = ready();
    assert!(matches!(pool.supply(new), FrameHistory::Tested(_)), "of memory that did not move");
    assert!(is_waiting(moved));
    pool.chunks().waiting.clear();
    let moved = ready();
    assert_eq!(pool.re_place(kept), Ok(FrameHistory::Same));
    assert!(is_waiting(moved));
}

#[test]
fn a_bad_page_is_found_in_its_block() {
    let found = BTreeMap::from([(0, 'a'), (15, 'b'), (16, 'c'), (20, 'd'), (49, 'e')]);
    let by_block = by_block(found, [16, 4, 16, 16].into_iter());
    let expected = [
        BTreeMap::from([(0, 'a'), (15, 'b')]),
        BTreeMap::from([(0, 'c')]),
        BTreeMap::from([(0, 'd')]),
        BTreeMap::from([(13, 'e')]),
    ];
    assert_eq!(by_block, expected);
}

#[test]
fn only_a_frame_that_failed_itself_is_to_be_retired() {
    let seen = Evidence {
        at: Timestamp::default(),
        line: 0,
        expected: LineData::default(),
        found: LineData::default(),
        reread: LineData::default(),
        test: String::new(),
        element: 0,
        background: String::new(),
    };
    let failed = |origin| Why::Failed(origin, seen.clone().into());
    let bad = BTreeMap::from([
        (0, failed(MapOrigin::Real)),
        (1, failed(MapOrigin::Emulated)),
        (2, Why::Known),
        (3, failed(MapOrigin::Real)),
    ]);
    let frames = [Frame::new(10), Frame::new(11), Frame::new(12), None];
    assert_eq!(really_failed(&frames, &bad), BTreeSet::from([Frame::new(10).unwrap()]));
}

#[test]
fn little_is_ready_where_there_are_few_addresses_or_the_group_has_little_left() {
    let room = |addresses, group: Option<u64>| room_within(addresses, group.map(Bytes::from_mib));
    assert_eq!(room(Some(640 << 20), None), Bytes::from_mib(10));
    assert_eq!(room(None, Some(320)), Bytes::from_mib(20));
    assert_eq!(room(Some(640 << 20), Some(320)), Bytes::from_mib(10));
    assert_eq!(room(Some(6400 << 20), Some(320)), Bytes::from_mib(20));
    assert_eq!(room(None, None), Bytes::new(u64::MAX), "as much as was asked for");
    assert!(super::room() > Bytes::new(0));
}

#[test]
fn what_waits_is_tested_a_chunk_at_a_time_the_last_first() {
    let raw = |pages: u64| {
        let block = Block::claim(Bytes::new(pages * FRAME_BYTES), PageKind::Base).unwrap();
        Raw { block, names: Vec::new() }
    };
    let pages = |batch: &[Raw]| batch.iter().map(|raw| raw.block.pages()).collect::<Vec<_>>();
    let mut waiting: Vec<_> = [16; 40].into_iter().map(raw).collect();
    assert_eq!(pages(&next_batch(&mut waiting)), [16; 32]);
    assert_eq!(pages(&next_batch(&mut waiting)), [16; 8]);
    assert!(next_batch(&mut waiting).is_empty());
    let mut waiting: Vec<_> = [16, 500, 12].into_iter().map(raw).collect();
    assert_eq!((pages(&next_batch(&mut waiting)), pages(&waiting)), (vec![500, 12], vec![16]));
}

#[test]
fn the_tester_is_woken_when_the_pool_runs_short() {
    let Some(vault) = vault(PageKind::Base, 4) else { return };
    let pool = pool(vault, None);
    let (woken, done) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let tester = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                thread::park();
                woken.store(true, Ordering::Relaxed);
            }
        });
        pool.set_tester(tester.thread().clone());
        assert!(matches!(pool.supply(span(0, 16)), FrameHistory::Tested(_)));
        // Ten seconds at most.
        for _ in 0..10_000 {
            if woken.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let was_woken = woken.load(Ordering::Relaxed);
        done.store(true, Ordering::Relaxed);
        tester.thread().unpark();
        assert!(was_woken);
    });
}

#[test]
fn a_pool_is_made_as_it_was_asked_for() {
    let Some(vault) = vault(PageKind::Base, 4) else { return };
    let shared: &'static Published = Box::leak(Box::new(Published::new()));
    let asked = |settings: Option<&str>, faults: Option<&str>| {
        let asked = (settings.map(str::to_owned), faults.map(str::to_owned));
        TestedFramePool::asked_for(asked, vault, shared, known_frames(shared, []))
    };
    assert!(matches!(asked(None, Some("stuck-at:9")), Ok(None)));
    let pool = asked(Some("untested=wait,spare=0,test=mats+"), Some("stuck-at:9,seed=4")).unwrap().unwrap();
    assert_eq!((pool.settings().untested, pool.settings().spare), (Untested::Wait, Bytes::new(0)));
    assert_eq!(pool.with_injected(|injected| injected.seed(0)), Some(4));
    assert!(asked(Some("test=mats+"), None).unwrap().unwrap().injected.is_none());
    let refused = [(Some("test=sorted"), None), (Some("test=mats+"), Some("rust:9"))]
        .map(|(settings, faults)| asked(settings, faults).err().expect("they make no sense"));
    assert!(refused[0].starts_with("RAMPART_GUARD_FRAMES: ") && refused[1].starts_with("RAMPART_GUARD_FAULTS: "));
}

#[test]
fn each_re_placement_takes_the_next_pages_of_a_chunk() {
    let Some(vault) = vault(PageKind::Base, 4) else { return };
    let pool = pool(vault, None);
    vault.populate(span(0, 48)).unwrap();
    lock_all(vault, span(0, 48));
    for pages in [0, 16, 32].map(|first| span(first, 16)) {
        let is_done = (0..50).any(|_| {
            work(&pool);
            let re_placed = pool.re_place(pages);
            if re_placed.is_err() {
                // Another test has forked.
                vault.unshare(Side::Vault, pages).unwrap();
            }
            matches!(re_placed, Ok(FrameHistory::Tested(_)))
        });
        assert!(is_done);
        let chunk = pool.chunks().take().expect("most of it is left");
        assert!(chunk.next >= 16 && chunk.left() == CHUNK_PAGES - chunk.next, "{}", chunk.next);
        pool.chunks().put_back(chunk);
    }
}
