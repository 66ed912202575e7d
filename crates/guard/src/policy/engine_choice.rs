//! The engine for a program, requested or the best that works here; and the method of its frame tests.
//!
//! **Problem.** Not every kernel lets a guard move pages, and not every processor lets a test bypass its caches.
//! **Idea.** The caller tries the engines and measures the methods, and passes in the results. This module decides, and
//! writes the notice for the user. **Why this way.** A test can imitate any machine.

use rampart_march::execute;
use rampart_march::execute::bypass::NoneBypasses;

use crate::settings::pages::EngineKind;
use crate::state::layout::MOST_PAGES;

/// The engine that guards the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenEngine {
    /// The engine.
    pub method: EngineKind,
    /// A notice for the user.
    pub notice: Option<String>,
}

/// Why no engine can guard the program.
#[derive(Clone, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
pub enum NoEngine {
    /// --engine {method} cannot guard here: {cause}; without --engine, one is chosen that can
    Asked {
        /// The requested engine.
        method: &'static str,
        /// Why it cannot.
        cause: String,
    },
    /// nothing can guard a program here: {0}
    Any(String),
}

/// The loss with an engine that locks by protections.
const LOST: &str =
    "a system call that the guard does not wrap fails on a locked page, io_uring is refused, and frames are not tested";

/// The loss with an engine whose pages belong to a file.
const LOST_SHARED: &str = "a fork copies the memory under guard, io_uring is refused, and frames are not tested";

/// Pages of a unit that can be a huge page of the pool.
const HUGE: u32 = MOST_PAGES;

/// The default unit.
const USUAL_UNIT_PAGES: u32 = 16;

/// The notice for the user about a requested engine.
fn notice(method: EngineKind) -> Option<String> {
    match method {
        // Known once the unit is: `notice_of_shared`.
        EngineKind::Move | EngineKind::Minor => None,
        EngineKind::Mprotect => Some(format!("mprotect: {LOST}")),
    }
}

/// The notice for the user about [`EngineKind::Minor`] with units of so many pages, with or without huge pages in the
/// pool.
#[must_use]
pub fn notice_of_shared(unit_pages: u32, has_huge_pages: bool) -> String {
    let pages = match (unit_pages, has_huge_pages) {
        (HUGE, true) => "pages of 2 MiB of the kernel's pool",
        (_, true) => "pages of 4 KiB, as --unit or --block says",
        (_, false) => "pages of 4 KiB, since no huge pages are reserved (sysctl vm.nr_overcommit_hugepages)",
    };
    format!("minor, with {pages}: {LOST_SHARED}")
}

/// Pages of the default unit, in blocks of so many: huge pages of the pool are locked whole.
#[must_use]
pub fn usual_unit_pages(method: EngineKind, block_pages: u32, has_huge_pages: bool) -> u32 {
    let from_pool = method == EngineKind::Minor && has_huge_pages && block_pages == HUGE;
    if from_pool { block_pages } else { USUAL_UNIT_PAGES.min(block_pages) }
}

/// Chooses the engine. `why_not` tries one and returns why it cannot guard, if it cannot; it is called only for
/// candidates.
///
/// # Errors
/// [`NoEngine::Asked`] if the requested one cannot guard, [`NoEngine::Any`] if none can.
pub fn choose(
    asked: Option<EngineKind>,
    why_not: impl Fn(EngineKind) -> Option<String>,
) -> Result<ChosenEngine, NoEngine> {
    if let Some(method) = asked {
        return match why_not(method) {
            None => Ok(ChosenEngine { method, notice: notice(method) }),
            Some(cause) => Err(NoEngine::Asked { method: method.name(), cause }),
        };
    }
    let Some(why) = why_not(EngineKind::Move) else {
        return Ok(ChosenEngine { method: EngineKind::Move, notice: None });
    };
    match why_not(EngineKind::Mprotect) {
        None => {
            let notice = format!("guarded by mprotect, where {LOST}: {why}");
            Ok(ChosenEngine { method: EngineKind::Mprotect, notice: Some(notice) })
        }
        Some(why) => Err(NoEngine::Any(why)),
    }
}

/// The tests of the program's frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenTests {
    /// The way of tests to the DRAM; `None`: frames are not tested.
    pub method: Option<execute::Method>,
    /// A notice for the user.
    pub notice: Option<String>,
}

/// Decides how frames are tested, by the method that was found to bypass the caches. `None`: there was no memory for
/// the measurement, so nothing is known, as on an emulated machine. Where tests would read a cache, frames are not
/// tested.
///
/// # Errors
/// If tests would read a cache, and were `asked` for.
pub fn choose_tests(
    asked: bool,
    found: Option<Result<execute::Method, NoneBypasses>>,
) -> Result<ChosenTests, NoneBypasses> {
    match found.unwrap_or(Ok(execute::Method::FlushBehind)) {
        Ok(method) => Ok(ChosenTests { method: Some(method), notice: None }),
        Err(seen) if asked => Err(seen),
        Err(seen) => {
            let notice = format!("frames are not tested: reads of their tests come from a cache here ({seen})");
            Ok(ChosenTests { method: None, notice: Some(notice) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampart_march::execute::bypass::{BypassCheck, BypassVerdict};

    const OLD: &str = "this kernel's userfaultfd lacks MOVE (Linux 6.8)";

    fn all_work(_: EngineKind) -> Option<String> {
        None
    }

    fn old_kernel(method: EngineKind) -> Option<String> {
        (method == EngineKind::Move).then(|| OLD.to_owned())
    }

    #[test]
    fn the_best_engine_that_works_is_chosen_and_a_worse_one_is_said_to_be_so() {
        let best = choose(None, all_work).unwrap();
        assert_eq!((best.method, best.notice), (EngineKind::Move, None));
        let next = choose(None, old_kernel).unwrap();
        assert_eq!(next.method, EngineKind::Mprotect);
        let notice = next.notice.unwrap();
        assert!(notice.contains(OLD) && notice.contains("fails") && !notice.contains('\n'), "{notice}");
    }

    #[test]
    fn an_engine_that_is_named_is_taken_or_refused_and_never_replaced() {
        for method in EngineKind::ALL {
            let chosen = choose(Some(method), all_work).unwrap();
            let loses = (method == EngineKind::Mprotect).then(|| format!("mprotect: {LOST}"));
            assert_eq!(chosen, ChosenEngine { method, notice: loses });
        }
        let refused = choose(Some(EngineKind::Move), old_kernel).unwrap_err().to_string();
        assert!(refused.contains("--engine move") && refused.contains(OLD) && !refused.contains('\n'), "{refused}");
    }

    #[test]
    fn of_a_file_it_is_said_which_pages_it_has() {
        let notices = [(HUGE, true), (16, true), (HUGE, false)].map(|(unit, has)| notice_of_shared(unit, has));
        let of = ["of 2 MiB", "--unit", "vm.nr_overcommit_hugepages"];
        assert!(
            notices.iter().zip(of).all(|(notices, of)| notices.contains(of) && notices.contains("a fork copies")),
            "{notices:?}"
        );
    }

    #[test]
    fn where_no_engine_works_that_is_said() {
        let none = |method| old_kernel(method).or_else(|| Some("cannot read /proc/self/mem".to_owned()));
        assert!(choose(None, none).unwrap_err().to_string().contains("/proc/self/mem"));
    }

    #[test]
    fn a_unit_is_a_whole_block_only_where_its_pages_are_huge_ones_of_the_pool() {
        assert_eq!(usual_unit_pages(EngineKind::Minor, HUGE, true), HUGE);
        assert_eq!(usual_unit_pages(EngineKind::Minor, HUGE, false), 16);
        assert_eq!(usual_unit_pages(EngineKind::Minor, 256, true), 16);
        assert_eq!(usual_unit_pages(EngineKind::Move, HUGE, true), 16);
        assert_eq!(usual_unit_pages(EngineKind::Mprotect, 4, true), 4);
    }

    #[test]
    fn frames_are_tested_past_the_caches_or_not_at_all() {
        let method = execute::Method::NonTemporal;
        let seen =
            BypassCheck { method, verdict: BypassVerdict::ReadsCache, cached: 0.4, cache_ticks: 20, dram_ticks: 145 };
        let refused = || NoneBypasses { methods: vec![seen] };
        assert_eq!(choose_tests(true, Some(Ok(method))).unwrap(), ChosenTests { method: Some(method), notice: None });
        let without = choose_tests(false, Some(Err(refused()))).unwrap();
        assert_eq!(without.method, None);
        assert!(without.notice.unwrap().contains("40 %"));
        assert_eq!(choose_tests(true, Some(Err(refused()))), Err(refused()));
        assert_eq!(choose_tests(true, None).unwrap().method, Some(execute::Method::FlushBehind));
    }
}
