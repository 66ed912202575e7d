//! Content, frames and holes, against a model.

use proptest::prelude::*;

use super::super::{Fate, HUGE_PAGES, MoveCounts, Side, Tracking, Vault, VaultSpan};
use super::world::{WORDS, fill, frames, page, read, span, vault, write};
use crate::PageKind;
use crate::userfaultfd::{MoveRefusal, Wake};
use rampart_memory::Bytes;

/// Pages of the property's vault: two huge pages' places.
const PAGES: u64 = 2 * HUGE_PAGES;

const CASES: u32 = 20;

/// Steps of the property; all cases together make 10,000.
const STEPS: usize = 500;

#[derive(Clone, Copy, Debug)]
enum Step {
    Lock(VaultSpan),
    Unlock(VaultSpan),
    Write { page: u64, word: usize, value: u64 },
    Discard(Side, VaultSpan),
    Populate(u64),
}

/// One page, one huge page's place, or any span.
fn spans() -> impl Strategy<Value = VaultSpan> {
    prop_oneof![
        (0..PAGES).prop_map(page),
        (0..PAGES / HUGE_PAGES).prop_map(|huge| span(huge * HUGE_PAGES, HUGE_PAGES)),
        (0..PAGES, 1..100_u64).prop_map(|(first, pages)| span(first, pages.min(PAGES - first))),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => spans().prop_map(Step::Lock),
        6 => spans().prop_map(Step::Unlock),
        6 => (0..PAGES, 0..WORDS, any::<u64>()).prop_map(|(page, word, value)| Step::Write { page, word, value }),
        1 => (prop_oneof![Just(Side::Program), Just(Side::Vault)], 0..PAGES)
            .prop_map(|(side, number)| Step::Discard(side, page(number))),
        1 => (0..PAGES).prop_map(Step::Populate),
    ]
}

/// The reference model: all content, and the place of each page.
struct Model {
    words: Vec<u64>,
    places: Vec<Option<Side>>,
}

impl Model {
    fn new() -> Self {
        let pages = usize::try_from(PAGES).unwrap();
        Self { words: vec![0; pages * WORDS], places: vec![None; pages] }
    }

    fn place(&mut self, page: u64) -> &mut Option<Side> {
        &mut self.places[usize::try_from(page).unwrap()]
    }

    fn content(&mut self, page: u64) -> &mut [u64] {
        let first = usize::try_from(page).unwrap() * WORDS;
        &mut self.words[first..first + WORDS]
    }

    /// Moves present pages, and returns whether each page was present.
    fn carry(&mut self, span: VaultSpan, from: Side, to: Side) -> Vec<bool> {
        let mut step = |page| {
            let place = self.place(page);
            let moves = *place == Some(from);
            if moves {
                *place = Some(to);
            }
            moves
        };
        span.numbers().map(&mut step).collect()
    }

    fn check(&mut self, vault: &Vault, page: u64) {
        if let Some(side) = *self.place(page) {
            for (word, expected) in self.content(page).iter().enumerate() {
                assert_eq!(read(vault, side, page, word), *expected, "page {page}, word {word}");
            }
        }
    }

    /// Performs one step on both.
    fn step(&mut self, vault: &Vault, step: Step) {
        match step {
            Step::Lock(span) => {
                let (fates, tally) = fates(|each| vault.lock(span, each).unwrap());
                assert_moved(span, &self.carry(span, Side::Program, Side::Vault), &fates, tally);
                self.check(vault, span.first());
            }
            Step::Unlock(span) => {
                let (fates, tally) = fates(|each| vault.unlock_present(span, Wake::Now, each).unwrap());
                assert_moved(span, &self.carry(span, Side::Vault, Side::Program), &fates, tally);
                self.check(vault, span.end() - 1);
            }
            Step::Write { page, word, value } => {
                if *self.place(page) == Some(Side::Program) {
                    write(vault, Side::Program, page, word, value);
                    self.content(page)[word] = value;
                }
            }
            Step::Discard(side, span) => {
                vault.discard(side, span).unwrap();
                for page in span.numbers().filter(|&page| *self.place(page) == Some(side)).collect::<Vec<_>>() {
                    *self.place(page) = None;
                    self.content(page).fill(0);
                }
            }
            Step::Populate(number) => {
                if self.place(number).is_none() {
                    vault.populate(page(number)).unwrap();
                    *self.place(number) = Some(Side::Program);
                }
            }
        }
    }
}

/// The reported fate of each page, in order.
fn fates(call: impl FnOnce(&mut dyn FnMut(VaultSpan, Fate)) -> MoveCounts) -> (Vec<(u64, Fate)>, MoveCounts) {
    let mut fates = Vec::new();
    let tally = call(&mut |span, fate| fates.extend(span.numbers().map(|page| (page, fate))));
    (fates, tally)
}

fn assert_moved(span: VaultSpan, moved: &[bool], fates: &[(u64, Fate)], tally: MoveCounts) {
    let expected: Vec<_> = span
        .numbers()
        .zip(moved)
        .map(|(page, &moved)| (page, if moved { Fate::Moved { written: true } } else { Fate::Hole }))
        .collect();
    assert_eq!(fates, expected);
    let count = moved.iter().filter(|&&moved| moved).count() as u64;
    assert_eq!(tally, MoveCounts { written: count, holes: span.pages() - count, ..MoveCounts::default() });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn content_survives_any_order_of_locking_and_unlocking(
        huge in any::<bool>(), steps in prop::collection::vec(steps(), STEPS),
    ) {
        let kind = if huge { PageKind::Huge } else { PageKind::Base };
        if let Some(vault) = vault(PAGES, kind, Tracking::Off) {
            let mut model = Model::new();
            vault.populate(span(0, HUGE_PAGES)).unwrap();
            model.places[..512].fill(Some(Side::Program));
            for step in steps {
                model.step(&vault, step);
            }
            (0..PAGES).for_each(|page| model.check(&vault, page));
        }
    }
}

#[test]
fn a_page_keeps_its_frame_wherever_it_is() {
    for kind in [PageKind::Base, PageKind::Huge] {
        let Some(vault) = vault(2 * HUGE_PAGES, kind, Tracking::Off) else { return };
        let all = vault.span();
        fill(&vault, all);
        let Some(before) = frames(&vault, Side::Program, all) else { return };
        let mut huge = 0;
        vault.present(Side::Program, all, |run, state| huge += u64::from(state.huge) * run.pages()).unwrap();
        assert_eq!(vault.lock(all, |_, _| ()).unwrap(), MoveCounts { written: all.pages(), ..MoveCounts::default() });
        assert_eq!(frames(&vault, Side::Vault, all), Some(before.clone()), "{kind:?}");
        let mut locked = 0;
        vault.present(Side::Vault, all, |run, state| locked += u64::from(state.huge) * run.pages()).unwrap();
        assert_eq!(locked, huge, "a huge page moves whole");
        vault.unlock(all, Wake::Now).unwrap();
        assert_eq!(frames(&vault, Side::Program, all), Some(before), "{kind:?}");
        all.numbers().for_each(|page| assert_eq!(read(&vault, Side::Program, page, 1), page + 1));
    }
}

#[test]
fn a_page_is_not_unlocked_twice() {
    for kind in [PageKind::Base, PageKind::Huge] {
        let Some(vault) = vault(HUGE_PAGES, kind, Tracking::Off) else { return };
        fill(&vault, vault.span());
        vault.lock(vault.span(), |_, _| ()).unwrap();
        vault.unlock(vault.span(), Wake::Now).unwrap();
        let error = vault.unlock(vault.span(), Wake::Now).unwrap_err();
        assert_eq!((error.moved, error.refusal), (Bytes::ZERO, MoveRefusal::Occupied), "{kind:?}");
    }
}

#[test]
fn a_page_that_was_never_touched_is_a_hole_on_both_sides() {
    let Some(vault) = vault(64, PageKind::Base, Tracking::Off) else { return };
    for number in [0, 7, 8, 63] {
        fill(&vault, page(number));
    }
    let mut moved = Vec::new();
    let tally = vault.lock(vault.span(), |span, fate| moved.push((span.numbers(), fate))).unwrap();
    let there = Fate::Moved { written: true };
    assert_eq!(moved, [(0..1, there), (1..7, Fate::Hole), (7..9, there), (9..63, Fate::Hole), (63..64, there)]);
    assert_eq!((tally.moved(), tally.holes), (4, 60));
    let error = vault.unlock(span(7, 10), Wake::Now).unwrap_err();
    assert_eq!((error.moved.frames(), error.refusal), (2, MoveRefusal::Missing), "it stops at the hole");
}

#[test]
fn many_runs_are_found_as_well_as_few() {
    let Some(vault) = vault(512, PageKind::Base, Tracking::Off) else { return };
    (0..512).step_by(2).for_each(|number| fill(&vault, page(number)));
    let tally = vault.lock(vault.span(), |span, _| assert_eq!(span.pages(), 1)).unwrap();
    assert_eq!((tally.moved(), tally.holes), (256, 256));
}

#[test]
fn a_part_of_a_huge_page_loses_its_frame_if_it_holds_zeros_only() {
    let Some(vault) = vault(HUGE_PAGES, PageKind::Huge, Tracking::Off) else { return };
    vault.populate(vault.span()).unwrap();
    write(&vault, Side::Program, 1, 0, 1);
    let Some(before) = frames(&vault, Side::Program, span(0, 2)) else { return };
    assert_eq!(vault.lock(span(0, 2), |_, _| ()).unwrap().moved(), 2);
    let after = frames(&vault, Side::Vault, span(0, 2)).unwrap();
    assert_eq!(after[1], before[1], "a page that holds something is the same page");
    let mut zero = Vec::new();
    vault.present(Side::Vault, span(0, 2), |run, state| zero.extend(run.numbers().map(|_| state.zero))).unwrap();
    assert_eq!(zero, [after[0] != before[0], false], "a page without a frame of its own says so");
    assert_eq!((read(&vault, Side::Vault, 0, 0), read(&vault, Side::Vault, 1, 0)), (0, 1));
}

#[test]
fn what_a_cut_leaves_without_a_frame_gets_one_when_it_is_unlocked() {
    let Some(vault) = vault(HUGE_PAGES, PageKind::Huge, Tracking::Off) else { return };
    let filled = [1, 17, 20, 100];
    vault.populate(vault.span()).unwrap();
    filled.into_iter().for_each(|number| write(&vault, Side::Program, number, 0, 1));
    vault.lock(vault.span(), |_, _| ()).unwrap();
    let mut is_huge = false;
    vault.present(Side::Vault, vault.span(), |_, state| is_huge = state.huge).unwrap();
    if !super::world::are_huge(is_huge) {
        return;
    }
    // The first page of a huge page splits it, and moves as it is.
    for part in [span(0, 16), span(16, 16), span(64, 448), span(32, 32)] {
        vault.unlock(part, Wake::Now).unwrap();
    }
    let mut zeros = 0;
    vault.present(Side::Program, span(1, 511), |run, state| zeros += u64::from(state.zero) * run.pages()).unwrap();
    assert_eq!(zeros, 0);
    vault.span().numbers().for_each(|number| {
        assert_eq!(read(&vault, Side::Program, number, 0), u64::from(filled.contains(&number)), "page {number}");
    });
    assert_eq!(vault.lock(vault.span(), |_, _| ()).unwrap().moved(), 512, "nothing was left behind in the vault");
}
