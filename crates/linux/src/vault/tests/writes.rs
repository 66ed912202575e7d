//! Which pages were written, against a model.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;

use super::super::{Fate, HUGE_PAGES, MoveCounts, PageFault, Side, Tracking, Vault, VaultSpan};
use super::world::{fill, handled, page, read, served, span, vault, write};
use crate::PageKind;
use crate::userfaultfd::{FaultCause, MoveRefusal, Wake};

const PAGES: u64 = 96;

fn written(vault: &Vault, span: VaultSpan) -> Vec<u64> {
    let mut written = Vec::new();
    vault.written(span, |run| written.extend(run.numbers())).unwrap();
    written
}

fn huge_pages(vault: &Vault) -> u64 {
    let mut pages = 0;
    vault.present(Side::Program, vault.span(), |run, state| pages += u64::from(state.huge) * run.pages()).unwrap();
    pages / HUGE_PAGES
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_pages_that_were_written_are_known_exactly(
        stopping in any::<bool>(),
        holes in prop::collection::btree_set(0..PAGES, 0..20),
        read_pages in prop::collection::vec(0..PAGES, 0..40),
        written_pages in prop::collection::btree_set(0..PAGES, 0..40),
    ) {
        let tracking = if stopping { Tracking::Stopping } else { Tracking::Noting };
        if let Some(vault) = vault(PAGES, PageKind::Base, tracking) {
            let there = |page: &u64| !holes.contains(page);
            (0..PAGES).filter(there).for_each(|number| fill(&vault, page(number)));
            prop_assert_eq!(written(&vault, vault.span()), (0..PAGES).filter(there).collect::<Vec<_>>());
            vault.protect_written(vault.span()).unwrap();
            prop_assert_eq!(written(&vault, vault.span()), [0; 0]);

            let expected: BTreeSet<u64> = written_pages.into_iter().filter(there).collect();
            let ((), served) = served(&vault, 1, || {
                for page in read_pages.into_iter().filter(there) {
                    assert_eq!(read(&vault, Side::Program, page, 1), page + 1);
                }
                expected.iter().for_each(|&page| write(&vault, Side::Program, page, 0, 5));
            });
            prop_assert_eq!(served.missing.into_inner(), 0);
            prop_assert_eq!(served.protected.into_inner(), if stopping { expected.len() as u64 } else { 0 });
            prop_assert_eq!(written(&vault, vault.span()), expected.iter().copied().collect::<Vec<_>>());

            let tally = vault.lock(vault.span(), |_, _| ()).unwrap();
            prop_assert_eq!(tally.written, expected.len() as u64);
            prop_assert_eq!(tally.clean + tally.written + tally.holes, PAGES);
            prop_assert_eq!(tally.holes, holes.len() as u64);
            vault.unlock_present(vault.span(), Wake::Now, |_, _| ()).unwrap();
            prop_assert_eq!(written(&vault, vault.span()).len() as u64, tally.moved(), "a move ends protection");
        }
    }
}

/// The recipe of the module's docs: a page is protected before the thread that waits for it goes on, and what it holds
/// is noted after that.
#[test]
fn a_page_that_is_not_called_written_holds_what_it_held_when_it_was_protected() {
    const PAGES: u64 = 64;
    let Some(vault) = vault(PAGES, PageKind::Base, Tracking::Stopping) else { return };
    fill(&vault, vault.span());
    vault.lock(vault.span(), |_, _| ()).unwrap();
    let held: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
    let held = |page: u64| &held[usize::try_from(page).unwrap()];
    let sum = |side, page| (1..4).map(|word| read(&vault, side, page, word)).sum::<u64>();
    let serve = |fault: PageFault| {
        let (number, piece) = (fault.page, page(fault.page));
        let _order = vault.order.lock().unwrap();
        match (fault.cause, vault.unlock(piece, Wake::Later).map_err(|error| error.refusal)) {
            (FaultCause::Missing, Ok(())) => {
                vault.protect_written(piece).unwrap();
                held(number).store(sum(Side::Program, number), Ordering::Relaxed);
                vault.wake(piece).unwrap();
            }
            (FaultCause::Protected, Err(MoveRefusal::Occupied)) => vault.allow_writes(piece).unwrap(),
            // It was locked meanwhile, or unlocked for another thread; whoever waits asks again.
            (_, Err(MoveRefusal::Occupied)) => vault.wake(piece).unwrap(),
            (_, Ok(())) => {
                vault.lock(piece, |_, _| ()).unwrap();
                vault.wake(piece).unwrap();
            }
            (_, Err(refusal)) => panic!("{refusal}"),
        }
    };
    let look = |run: VaultSpan, fate| {
        if fate == (Fate::Moved { written: false }) {
            for page in run.numbers() {
                assert_eq!(sum(Side::Vault, page), held(page).load(Ordering::Relaxed), "page {page}");
            }
        }
    };
    // Reads mostly, writes now and then, and locks pages behind the other thread's back.
    let work = |thread: u64| {
        let mut tally = MoveCounts::default();
        for round in 0..2_000 {
            let page = (round * 29 + thread * 11) % PAGES;
            let value = read(&vault, Side::Program, page, 2);
            if round % 7 == 0 {
                write(&vault, Side::Program, page, usize::try_from(thread).unwrap() + 2, value + round);
            }
            if round % 5 == 0 {
                let _order = vault.order.lock().unwrap();
                let locked = vault.lock(span(page, (PAGES - page).min(9)), look).unwrap();
                tally.clean += locked.clean;
                tally.written += locked.written;
            }
        }
        tally
    };
    let work = &work;
    let tallies = handled(&vault, serve, || {
        thread::scope(|scope| {
            let workers = [0, 1].map(|thread| scope.spawn(move || work(thread)));
            workers.map(|worker| worker.join().unwrap())
        })
    });
    assert!(tallies.iter().all(|tally| tally.clean > 0 && tally.written > 0), "{tallies:?}");
}

#[test]
fn writes_by_system_calls_are_noticed() {
    for tracking in [Tracking::Stopping, Tracking::Noting] {
        let reach = crate::userfaultfd::Reach::Everything;
        let Some(vault) = super::world::vault_reaching(8, PageKind::Base, tracking, reach) else { return };
        fill(&vault, vault.span());
        vault.protect_written(vault.span()).unwrap();
        served(&vault, 1, || super::faults::read_zeros_into(&vault, 5));
        assert_eq!(written(&vault, vault.span()), [5], "{tracking:?}");
    }
}

#[test]
fn a_write_that_stops_keeps_a_huge_page_whole_and_a_noted_one_splits_it() {
    for (tracking, huge_after) in [(Tracking::Stopping, 2), (Tracking::Noting, 1)] {
        let Some(vault) = vault(2 * HUGE_PAGES, PageKind::Huge, tracking) else { return };
        fill(&vault, vault.span());
        if !super::world::are_huge(huge_pages(&vault) == 2) {
            return;
        }
        vault.protect_written(vault.span()).unwrap();
        assert_eq!((written(&vault, vault.span()), huge_pages(&vault)), (vec![], 2));
        served(&vault, HUGE_PAGES, || write(&vault, Side::Program, 700, 0, 1));
        assert_eq!(huge_pages(&vault), huge_after, "{tracking:?}");
        let expected = if tracking == Tracking::Stopping { span(512, 512) } else { page(700) };
        assert_eq!(written(&vault, vault.span()), expected.numbers().collect::<Vec<_>>(), "{tracking:?}");
    }
}

#[test]
fn a_page_that_waits_for_its_protection_wakes_nobody() {
    let Some(vault) = vault(4, PageKind::Base, Tracking::Stopping) else { return };
    fill(&vault, vault.span());
    vault.lock(vault.span(), |_, _| ()).unwrap();
    vault.unlock(vault.span(), Wake::Later).unwrap();
    vault.protect_written(vault.span()).unwrap();
    vault.wake(vault.span()).unwrap();
    assert_eq!(written(&vault, vault.span()), [0; 0]);
    assert_eq!(read(&vault, Side::Program, 2, 1), 3);
}

#[test]
fn without_tracking_everything_counts_as_written() {
    let Some(vault) = vault(4, PageKind::Base, Tracking::Off) else { return };
    fill(&vault, vault.span());
    assert!(vault.protect_written(vault.span()).is_err());
    assert_eq!(written(&vault, vault.span()), [0, 1, 2, 3]);
}
