//! A heap on frames of this machine, of which the tests say which lines have failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rampart_heap::wear::FailedLines;
use rampart_heap::{
    Collection, FrameMemory, HeapMemory, HeapSettings, LOST, LocalAllocator, ManagedHeap, NativeModel, ObjectRef, Shape,
};
use rampart_linux::memory_loss::raise_hardware_notice;
use rampart_linux::{PageView, PlacedPages, Roots};
use rampart_memory::Frame;
use rampart_skips::{Feature, granted};

/// The working pages of the heaps: 8 MiB.
const PAGES: u32 = 2048;

const CANARY: u8 = 0xa5;

/// Half of the lines, as two-page clusters have them.
const HALF: FailedLines = FailedLines::from_bits(u64::MAX >> 32);

/// A program: chains of objects, each of which knows its chain and its place in it.
struct Program {
    heap: ManagedHeap<NativeModel>,
    local: LocalAllocator,
    chains: Vec<u32>,
    lengths: Vec<u32>,
}

impl Program {
    fn new(memory: FrameMemory, chains: usize) -> Self {
        let heap = ManagedHeap::on(NativeModel, HeapSettings::default(), Box::new(memory)).unwrap();
        Self { heap, local: LocalAllocator::default(), chains: vec![0; chains], lengths: vec![0; chains] }
    }

    fn collect(&mut self, kind: Collection) {
        self.heap.collect(kind, &mut [&mut self.local], &mut self.chains, &mut |_| {});
    }

    /// One more object in front of a chain.
    fn push(&mut self, chain: usize, bytes: u32) {
        let shape = Shape::new(1, bytes.max(16)).unwrap();
        let at = self.heap.allocate(&mut self.local, shape.size()).unwrap_or_else(|| {
            self.collect(Collection::Full);
            self.heap.allocate(&mut self.local, shape.size()).expect("the program fits the heap")
        });
        let region = self.heap.region();
        let object = NativeModel::initialize(region, at, shape);
        let content = NativeModel::bytes_at(region, object);
        region.fill(content, bytes, 0x11);
        region.write(content, u32::try_from(chain).unwrap());
        region.write(content + 4, self.lengths[chain]);
        region.write(content + 8, bytes);
        region.write(NativeModel::slot(object, 0), self.chains[chain]);
        self.chains[chain] = object.offset();
        self.lengths[chain] += 1;
    }

    fn drop_chain(&mut self, chain: usize) {
        (self.chains[chain], self.lengths[chain]) = (0, 0);
    }

    /// Follows all chains to their ends, or to what is lost; returns how many objects were seen, and how many chains
    /// end early.
    fn check(&self) -> (u32, u32) {
        let (mut seen, mut cut) = (0, 0);
        for (chain, root) in self.chains.iter().enumerate() {
            let (mut next, mut left) = (*root, self.lengths[chain]);
            while let Some(object) = ObjectRef::new(next) {
                if object.offset() >= LOST {
                    cut += 1;
                    left = 0;
                    break;
                }
                left -= 1;
                let region = self.heap.region();
                let content = NativeModel::bytes_at(region, object);
                assert_eq!([0, 4].map(|word| region.read(content + word)), [u32::try_from(chain).unwrap(), left]);
                let bytes = region.read(content + 8);
                assert!((12..bytes & !3).step_by(4).all(|word| region.read(content + word) == 0x1111_1111));
                seen += 1;
                next = region.read(NativeModel::slot(object, 0));
            }
            assert_eq!(left, 0, "no object is missing");
        }
        self.heap.verify(self.chains.iter().copied().filter(|root| *root < LOST)).unwrap();
        (seen, cut)
    }

    /// Objects of many sizes, of which most die; some are large.
    fn work(&mut self, steps: u32) {
        let chains = self.chains.len();
        for step in 0..steps {
            let chain = step as usize * 7 % chains;
            if step % 11 == 0 {
                self.drop_chain(chain);
            }
            let bytes = match step % 64 {
                0 => 20_000 + step % 5 * 4096,
                1..8 => 300 + step % 3000,
                _ => 16 + step % 90,
            };
            self.push(chain, bytes & !3);
            if step % 4096 == 4095 {
                self.collect(Collection::Nursery);
            }
        }
    }
}

fn place_canaries(view: &PageView, failed: &[FailedLines]) {
    of_lines(failed, |page, byte| view.write(page, byte, CANARY));
}

fn of_lines(failed: &[FailedLines], mut each: impl FnMut(u32, usize)) {
    for (page, failed) in (0..).zip(failed) {
        failed.lines().for_each(|line| (0..64).for_each(|byte| each(page, line as usize * 64 + byte)));
    }
}

fn memory(pages: PlacedPages, lines_of: impl Fn(Frame) -> FailedLines + Send + Sync + 'static) -> Option<FrameMemory> {
    granted(&[Feature::FrameNumbers], FrameMemory::of(pages, PAGES, Box::new(lines_of)))
}

#[test]
fn nothing_is_written_to_failed_lines_of_frames_and_large_objects_lie_on_perfect_pages_from_anywhere() {
    let pages = PlacedPages::new(&Roots::default(), 4 * PAGES).unwrap();
    let view = pages.view().unwrap();
    // Nine of ten frames have failed lines: large objects need borrowed pages.
    let lines_of = |frame: Frame| match frame.number() % 10 {
        0 => FailedLines::NONE,
        1 => FailedLines::ALL,
        2..7 => HALF,
        7 => FailedLines::from_bits(!HALF.bits()),
        _ => FailedLines::from_bits(1 << 17),
    };
    let Some(memory) = memory(pages, lines_of) else { return };
    let (failed, counts) = (memory.map_failures(), memory.counts());
    assert!(counts.imperfect * 2 > counts.pages && counts.failed_lines > counts.pages, "{counts:?}");
    let working = counts.pages * 64 - counts.failed_lines;
    assert!((u64::from(PAGES) * 64..u64::from(PAGES) * 64 + 64).contains(&working), "pages make up for failed lines");
    place_canaries(&view, &failed);
    let mut program = Program::new(memory, 50);
    program.work(40_000);
    assert!(program.check().0 > 100);
    program.collect(Collection::Compacting);
    assert!(program.heap.demand().borrowed > 0 && program.heap.counts().moved > 0);
    assert_eq!(program.check().1, 0);
    drop(program);
    of_lines(&failed, |page, byte| assert_eq!(view.read(page, byte), CANARY, "page {page}, byte {byte}"));
}

#[test]
fn without_a_perfect_frame_large_objects_get_no_memory_and_small_ones_do() {
    let pages = PlacedPages::new(&Roots::default(), 4 * PAGES).unwrap();
    let Some(memory) = memory(pages, |_| FailedLines::from_bits(1)) else { return };
    let mut program = Program::new(memory, 10);
    let large = Shape::new(1, 40_000).unwrap();
    assert_eq!(program.heap.allocate(&mut program.local, large.size()), None);
    (0..1000).for_each(|count| program.push(count % 10, 100));
    program.collect(Collection::Full);
    let refused = program.heap.counts().refused;
    assert!(refused.perfect_frames > 0 && refused.mappings == 0, "{refused:?}");
    assert_eq!(program.check(), (1000, 0));
}

#[test]
fn a_line_that_fails_below_a_large_object_changes_its_page_and_not_its_content() {
    let pages = PlacedPages::new(&Roots::default(), 4 * PAGES).unwrap();
    let view = pages.view().unwrap();
    let Some(memory) = memory(pages, |_| FailedLines::NONE) else { return };
    let mut program = Program::new(memory, 1);
    program.push(0, 40_000);
    let large = program.chains[0];
    let before = view_of(&program, &view, large);
    program.heap.fail_line(large + 64, &mut [&mut program.local]);
    assert_ne!(view_of(&program, &view, large), before, "another page is there");
    assert_eq!(program.check(), (1, 0));
}

#[test]
fn a_borrowed_page_with_a_line_that_has_failed_is_not_borrowed_again() {
    let pages = PlacedPages::new(&Roots::default(), 4 * PAGES).unwrap();
    let view = pages.view().unwrap();
    let is_perfect = Arc::new(AtomicBool::new(false));
    let of_frame = Arc::clone(&is_perfect);
    let lines_of = move |_| FailedLines::from_bits(u64::from(!of_frame.load(Ordering::Relaxed)));
    let Some(memory) = memory(pages, lines_of) else { return };
    let mut program = Program::new(memory, 2);
    is_perfect.store(true, Ordering::Relaxed);
    program.push(0, 40_000);
    let before = view_of(&program, &view, program.chains[0]);
    program.heap.fail_line(program.chains[0] + 64, &mut [&mut program.local]);
    program.push(1, 100_000);
    let second = (program.chains[1]..program.chains[1] + 100_000).step_by(4096);
    assert!(second.map(|at| view_of(&program, &view, at)).all(|page| page != before));
    assert_eq!(program.check(), (2, 0));
}

/// The page below an offset: the one in which a write there is seen.
fn view_of(program: &Program, view: &PageView, offset: u32) -> u32 {
    let at = offset + 32;
    let before = program.heap.region().read(at);
    let seen = |value: u32, page: u32| (0..4).all(|byte| view.read(page, 32 + byte) == value.to_le_bytes()[byte]);
    program.heap.region().write(at, 0x600d_cafe);
    let pages: Vec<u32> = (0..PAGES + 512).filter(|page| seen(0x600d_cafe, *page)).collect();
    program.heap.region().write(at, before);
    assert_eq!(pages.len(), 1);
    pages[0]
}

#[test]
fn pages_that_get_other_frames_are_noticed_and_only_objects_on_their_failed_lines_are_lost() {
    let mut pages = PlacedPages::new(&Roots::default(), 4 * PAGES).unwrap();
    pages.only_lock();
    let view = pages.view().unwrap();
    let has_failed = Arc::new(AtomicBool::new(false));
    let is_failed = Arc::clone(&has_failed);
    // The frames that the heap begins on are good, and some of those that it moves to are not.
    let lines_of = move |frame: Frame| match (is_failed.load(Ordering::Relaxed), frame.number() % 16) {
        (true, 5) => FailedLines::from_bits(1 << 3 | 1 << 40),
        _ => FailedLines::NONE,
    };
    let Some(memory) = memory(pages, lines_of) else { return };
    let mut program = Program::new(memory, 50);
    program.work(30_000);
    let whole = program.check();
    assert_eq!(whole.1, 0);
    assert!(!program.heap.take_up_calls(&mut [&mut program.local]) && program.heap.lost_objects().is_empty());

    has_failed.store(true, Ordering::Relaxed);
    if granted(&[Feature::TransparentHugePages], view.make_huge(0, PAGES / 512)).is_none() {
        return;
    }
    assert!(program.heap.take_up_calls(&mut [&mut program.local]), "objects may be lost");
    assert_eq!(program.heap.counts().changed_pages, u64::from(PAGES));
    program.collect(Collection::Full);
    let lost = program.heap.lost_objects().len();
    let (seen, cut) = program.check();
    assert!(lost > 0 && cut > 0 && seen > 0 && seen < whole.0, "{lost} lost, {cut} chains cut, {seen} of {whole:?}");

    // From now on, nothing is written there either. A huge page begins at a multiple of 512 frames.
    let of_page = |page| if page % 16 == 5 { FailedLines::from_bits(1 << 3 | 1 << 40) } else { FailedLines::NONE };
    let failed: Vec<FailedLines> = (0..PAGES).map(of_page).collect();
    place_canaries(&view, &failed);
    (0..50).for_each(|chain| program.drop_chain(chain));
    program.work(30_000);
    assert_eq!(program.check().1, 0);
    of_lines(&failed, |page, byte| assert_eq!(view.read(page, byte), CANARY, "page {page}, byte {byte}"));
}

#[test]
fn objects_on_a_page_that_the_hardware_has_lost_are_lost_and_no_others() {
    let pages = PlacedPages::new(&Roots::default(), 4 * PAGES).unwrap();
    let Some(memory) = memory(pages, |_| FailedLines::NONE) else { return };
    let mut program = Program::new(memory, 50);
    program.work(30_000);
    program.push(0, 40_000);
    let (whole, large) = (program.check(), program.chains[0]);
    let small = program.chains[1];
    let page = small / 4096 * 4096;
    // The kernel may tell the same page twice.
    for offset in [large + 8192, page, small] {
        raise_hardware_notice(program.heap.region().base().addr().get() + offset as usize);
    }
    assert_eq!(program.check(), whole, "nothing happens before the program stands still");
    assert!(program.heap.take_up_calls(&mut [&mut program.local]));
    assert_eq!(program.heap.counts().changed_pages, 2);
    program.collect(Collection::Full);
    let is_live = |at: u32| {
        let frames = program.heap.frames();
        frames.iter().any(|(frame, is_free)| frame.at == Some(at / 4096 * 4096) && !is_free)
    };
    assert!(
        program.chains.iter().all(|root| *root == 0 || *root >= LOST || is_live(*root)),
        "the frames of objects are known"
    );
    let lost = program.heap.lost_objects();
    let is_there = |at: u32| page < at + (8 << 10) && at < page + 4096 || at == large;
    assert!(lost.len() >= 2 && lost.iter().all(|object| is_there(object.was_at)), "{lost:?}");
    let (seen, cut) = program.check();
    assert!(cut >= 2 && seen < whole.0);
    program.work(30_000);
    program.check();
    assert!(!program.heap.take_up_calls(&mut [&mut program.local]), "it is told once");
}
