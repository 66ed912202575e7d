//! A march test of memory that nobody uses.

#![allow(unsafe_code, reason = "memory under test is reached by its addresses")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::ptr::NonNull;
use std::thread;
use std::time::Duration;

use rampart_codes::PageData;
use rampart_guard::FrameSettings;
use rampart_linux::Block;
use rampart_linux::cpu::{Scheduling, schedule_as};
use rampart_march::execute::{Executor, MarchEngine, MarchSettings, Mismatch, Region, Watch};
use rampart_march::{AddressSequence, Aim, Background, Fidelity, Part, Pass, Plan};
use rampart_memory::fault::{Emulator, PlacedFault};
use rampart_memory::fault_map::Evidence;
use rampart_memory::{FRAME_BYTES, LINES_PER_FRAME, PAGE_BYTES, Timestamp};

/// The content of a tested page.
const ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// The tests of frames.
pub struct FrameTest {
    executor: Executor,
    plan: Plan,
    /// Whether cells keep 0, and whether they keep 1, during a rest.
    rests: [Pass; 2],
}

impl FrameTest {
    /// The march test on the solid background, by address.
    pub fn new(settings: &FrameSettings) -> Self {
        Self {
            executor: Executor { engine: MarchEngine::detect(), settings: MarchSettings::new(settings.method) },
            plan: Plan::new(settings.test.test.clone(), Fidelity::MIN, &[AddressSequence::Sequential], 0),
            rests: ["{⇕(w0); Del; ⇕(r0)}", "{⇕(w1); Del; ⇕(r1)}"].map(|test| Pass {
                test: test.parse().expect("a march test"),
                background: Background::solid(),
                order: AddressSequence::Sequential,
                aim: Aim::BetweenLines,
            }),
        }
    }

    /// Tests blocks as one region from `at` on, and leaves zeros in them. Returns the first evidence for each page that
    /// failed, counted through all blocks.
    pub fn run(&self, blocks: &mut [Block], at: Timestamp) -> BTreeMap<u64, Evidence> {
        let pages: Vec<NonNull<u8>> = blocks.iter().flat_map(addresses).collect();
        let mut failed = BTreeMap::new();
        for pass in self.plan.passes() {
            let mut region = match blocks {
                [block] => Region::from(block),
                // SAFETY: 1. blocks are private anonymous memory of this process, all of it present, until they are
                // dropped;
                // 2. they are lent to us alone for as long as the region lives, and no device knows them; 3.
                //    nobody makes references to them. No page is in two blocks.
                _ => unsafe { Region::from_pages(&pages) },
            };
            self.executor.run(&mut region, pass, None, &mut Failing { pass, at, failed: &mut failed });
        }
        for page in pages {
            // SAFETY: as above.
            unsafe { page.cast::<[u8; PAGE_BYTES]>().write(ZEROS) };
        }
        failed
    }

    /// Tests the page of a block with these emulated faults, and leaves zeros in it. Returns the evidence if it failed.
    pub fn run_emulated(
        &self,
        block: &mut Block,
        page: u64,
        (faults, seed): (Vec<PlacedFault>, u64),
        at: Timestamp,
    ) -> Option<Evidence> {
        let address =
            addresses(block).nth(usize::try_from(page).expect("a page of a block")).expect("the block has it");
        // SAFETY: as in `run`.
        unsafe { self.run_page(address, Some(&mut Emulator::new(faults, seed)), at) }
    }

    /// Tests one page, and leaves zeros in it. Returns the evidence if it failed.
    ///
    /// # Safety
    /// As for [`Region::from_raw`], of a page.
    pub unsafe fn run_page(
        &self,
        address: NonNull<u8>,
        mut emulator: Option<&mut Emulator>,
        at: Timestamp,
    ) -> Option<Evidence> {
        let mut failed = BTreeMap::new();
        for pass in self.plan.passes() {
            // SAFETY: guaranteed by the caller.
            let mut region = unsafe { Region::from_raw(address, LINES_PER_FRAME) };
            let mut failing = Failing { pass, at, failed: &mut failed };
            self.executor.run(&mut region, pass, emulator.as_deref_mut(), &mut failing);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { address.cast::<[u8; PAGE_BYTES]>().write(ZEROS) };
        failed.pop_first().map(|(_, evidence)| evidence)
    }

    /// Writes 0 or 1 to all cells of a page, which then rests.
    ///
    /// # Safety
    /// As for [`FrameTest::run_page`].
    pub unsafe fn begin_rest(&self, address: NonNull<u8>, one: bool, at: Timestamp) {
        // SAFETY: guaranteed by the caller.
        let seen = unsafe { self.run_element(address, one, 0, at) };
        assert_eq!(seen, None, "what is written is not compared");
    }

    /// Reads a page that has rested. Returns the evidence if it failed.
    ///
    /// # Safety
    /// As for [`FrameTest::run_page`].
    pub unsafe fn end_rest(&self, address: NonNull<u8>, one: bool, at: Timestamp) -> Option<Evidence> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.run_element(address, one, 2, at) }
    }

    unsafe fn run_element(&self, address: NonNull<u8>, one: bool, element: usize, at: Timestamp) -> Option<Evidence> {
        let (pass, mut failed) = (&self.rests[usize::from(one)], BTreeMap::new());
        let part = Part { pass, elements: element..element + 1, rested: element > 0 };
        // SAFETY: guaranteed by the caller.
        let mut region = unsafe { Region::from_raw(address, LINES_PER_FRAME) };
        self.executor.run_part(&mut region, &part, None, &mut Failing { pass, at, failed: &mut failed });
        failed.pop_first().map(|(_, evidence)| evidence)
    }

    /// Writes a page to the memory, so that no cache has it.
    ///
    /// # Safety
    /// As for [`FrameTest::run_page`].
    pub unsafe fn write(&self, address: NonNull<u8>, content: &PageData) {
        // SAFETY: guaranteed by the caller.
        let region = unsafe {
            address.cast::<PageData>().write_volatile(content.clone());
            Region::from_raw(address, LINES_PER_FRAME)
        };
        self.executor.engine.evict(&region);
    }
}

/// Runs work on this thread while it yields to all others. Only meanwhile: a thread that waits for its turn must hold
/// nothing that others wait for.
pub fn giving_way(work: &mut dyn FnMut()) {
    // If the kernel refuses, the test competes with the program.
    let _ = schedule_as(Scheduling::Idle);
    work();
    let _ = schedule_as(Scheduling::Normal);
}

/// The pages of a block.
fn addresses(block: &Block) -> impl Iterator<Item = NonNull<u8>> {
    let base = block.base();
    (0..block.pages()).map(move |page| {
        let offset = usize::try_from(page * FRAME_BYTES).expect("an offset in memory");
        // SAFETY: the page is in the block.
        unsafe { base.add(offset) }
    })
}

/// Pages with a wrong line.
struct Failing<'a> {
    pass: &'a Pass,
    at: Timestamp,
    /// The first evidence for each.
    failed: &'a mut BTreeMap<u64, Evidence>,
}

impl Watch for Failing<'_> {
    fn mismatch(&mut self, seen: &Mismatch) {
        self.failed.entry(seen.line.page()).or_insert_with(|| Evidence {
            at: self.at,
            line: seen.line.in_page(),
            expected: seen.expected,
            found: seen.found,
            reread: seen.reread,
            test: self.pass.test.to_string(),
            element: u32::try_from(seen.element).unwrap_or(u32::MAX),
            background: self.pass.background.name.clone(),
        });
    }

    fn advanced(&mut self, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn pause(&mut self, delay: Duration) -> ControlFlow<()> {
        thread::sleep(delay);
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use rampart_linux::PageKind;
    use rampart_memory::Bytes;

    use super::*;

    #[test]
    fn good_memory_passes_and_holds_zeros_afterwards_in_one_block_as_in_many() {
        let test = FrameTest::new(&"test=mats+".parse().unwrap());
        for count in [1, 3] {
            let claim = |_| Block::claim(Bytes::new(4 * FRAME_BYTES), PageKind::Base).unwrap();
            let mut blocks: Vec<_> = (0..count).map(claim).collect();
            let pages: Vec<_> = blocks.iter().flat_map(addresses).collect();
            assert_eq!(pages.len(), 4 * count);
            // SAFETY: the pages are the blocks', which are ours alone.
            pages.iter().for_each(|page| unsafe { page.cast::<[u8; PAGE_BYTES]>().write([7; PAGE_BYTES]) });
            assert!(test.run(&mut blocks, Timestamp::default()).is_empty());
            // SAFETY: as above.
            assert!(pages.iter().all(|page| unsafe { page.cast::<[u8; PAGE_BYTES]>().read() } == ZEROS));
        }
    }

    #[test]
    fn work_that_gives_way_is_done_once() {
        let mut times = 0;
        giving_way(&mut || times += 1);
        assert_eq!(times, 1);
    }
}
