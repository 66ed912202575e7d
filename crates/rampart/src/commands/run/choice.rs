//! Which engine guards a program: the one that was asked for, or the best that can work here.

use rampart_guard::Method;
use rampart_linux::protect::Protected;
use rampart_linux::shared::SharedRange;
use rampart_linux::userfaultfd::Reach;
use rampart_linux::vault::{Tracking, Vault, VaultOptions};
use rampart_linux::{PageKind, Roots};
use rampart_memory::Bytes;

use crate::error::Error;

/// Tries an engine on a little memory: what it said, or nothing if it works.
pub fn why_not(method: Method) -> Option<String> {
    let (bytes, roots) = (Bytes::from_mib(2), Roots::default());
    let options = VaultOptions { kind: PageKind::Base, tracking: Tracking::Off, least: Reach::Everything };
    let refused = match method {
        Method::Move => Vault::reserve(bytes, options, &roots).err(),
        Method::Minor => SharedRange::prepare(bytes, PageKind::Base).and_then(|range| range.open(&roots)).err(),
        Method::Mprotect => {
            Protected::prepare(bytes, PageKind::Base, &roots).and_then(|range| range.open(&roots)).err()
        }
    };
    refused.map(|error| error.to_string())
}

/// What guards the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// By which method.
    pub method: Method,
    /// What the user is to know of it.
    pub said: Option<String>,
}

/// What is lost where pages are locked by permissions.
const LOST: &str =
    "a system call that the guard does not wrap fails on a locked page, io_uring is refused, and frames are not tested";

/// What is lost where they are those of a file.
const LOST_SHARED: &str = "a fork copies the memory under guard, io_uring is refused, and frames are not tested";

/// Pages of a unit that can be of the pool of huge pages.
const HUGE: u32 = rampart_guard::layout::MOST_PAGES;

/// What the user is to know of an engine that was asked for.
fn said(method: Method) -> Option<String> {
    match method {
        // Said when it is known of which pages: `of_shared`.
        Method::Move | Method::Minor => None,
        Method::Mprotect => Some(format!("mprotect: {LOST}")),
    }
}

/// What the user is to know of [`Method::Minor`] with units of so many pages, where the pool of huge pages has some or not.
#[must_use]
pub fn of_shared(unit_pages: u32, has_huge_pages: bool) -> String {
    let pages = match (unit_pages, has_huge_pages) {
        (HUGE, true) => "pages of 2 MiB of the kernel's pool",
        (_, true) => "pages of 4 KiB, as --unit or --block says",
        (_, false) => "pages of 4 KiB, since no huge pages are reserved (sysctl vm.nr_overcommit_hugepages)",
    };
    format!("minor, with {pages}: {LOST_SHARED}")
}

/// Chooses. `why_not` is asked about those engines only that may be chosen.
///
/// # Errors
/// [`Error::Engine`] if the one that was asked for cannot work, [`Error::NoEngine`] if none can.
pub fn choose(asked: Option<Method>, why_not: impl Fn(Method) -> Option<String>) -> Result<Choice, Error> {
    if let Some(method) = asked {
        return match why_not(method) {
            None => Ok(Choice { method, said: said(method) }),
            Some(cause) => Err(Error::Engine { method: method.name(), cause }),
        };
    }
    let Some(why) = why_not(Method::Move) else { return Ok(Choice { method: Method::Move, said: None }) };
    match why_not(Method::Mprotect) {
        None => {
            let said = format!("guarded by mprotect, where {LOST}: {why}");
            Ok(Choice { method: Method::Mprotect, said: Some(said) })
        }
        Some(why) => Err(Error::NoEngine(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "this kernel's userfaultfd lacks MOVE (Linux 6.8)";

    fn all_work(_: Method) -> Option<String> {
        None
    }

    fn old_kernel(method: Method) -> Option<String> {
        (method == Method::Move).then(|| OLD.to_owned())
    }

    #[test]
    fn the_best_engine_that_works_is_chosen_and_a_worse_one_is_said_to_be_so() {
        let best = choose(None, all_work).unwrap();
        assert_eq!((best.method, best.said), (Method::Move, None));
        let next = choose(None, old_kernel).unwrap();
        assert_eq!(next.method, Method::Mprotect);
        let said = next.said.unwrap();
        assert!(said.contains(OLD) && said.contains("fails") && !said.contains('\n'), "{said}");
    }

    #[test]
    fn an_engine_that_is_named_is_taken_or_refused_and_never_replaced() {
        assert_eq!(choose(Some(Method::Mprotect), all_work).unwrap().method, Method::Mprotect);
        let refused = choose(Some(Method::Move), old_kernel).unwrap_err().to_string();
        assert!(refused.contains("--engine move") && refused.contains(OLD) && !refused.contains('\n'), "{refused}");
    }

    #[test]
    fn of_a_file_it_is_said_which_pages_it_has() {
        let told = [(HUGE, true), (16, true), (HUGE, false)].map(|(unit, has)| of_shared(unit, has));
        let of = ["of 2 MiB", "--unit", "vm.nr_overcommit_hugepages"];
        assert!(told.iter().zip(of).all(|(told, of)| told.contains(of) && told.contains("a fork copies")), "{told:?}");
    }

    #[test]
    fn where_no_engine_works_that_is_said() {
        let none = |method| old_kernel(method).or_else(|| Some("cannot read /proc/self/mem".to_owned()));
        assert!(choose(None, none).unwrap_err().to_string().contains("/proc/self/mem"));
    }
}
