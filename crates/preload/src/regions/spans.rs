//! Sets of addresses, as spans that do not touch.
//!
//! A program's mappings are a handful of spans, whatever the number of pages: a tree of spans by their starts is small
//! and answers all questions.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    /// The end of each span by its start; none touches the next.
    ends: BTreeMap<usize, usize>,
}

impl Spans {
    /// An empty set.
    pub(crate) const fn new() -> Self {
        Self { ends: BTreeMap::new() }
    }

    /// Adds addresses, some of which may already be in it.
    pub(crate) fn insert(&mut self, span: Range<usize>) {
        if span.is_empty() {
            return;
        }
        let (mut start, mut end) = (span.start, span.end);
        while let Some((&first, &last)) = self.ends.range(..=end).next_back().filter(|(_, last)| **last >= start) {
            self.ends.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.ends.insert(start, end);
    }

    /// Removes addresses, as far as they are in it.
    pub(crate) fn remove(&mut self, span: Range<usize>) {
        for part in self.parts(span.clone()) {
            let whole = self.run(part.start).expect("a part is in it");
            self.ends.remove(&whole.start);
            for rest in [whole.start..part.start, part.end..whole.end] {
                if !rest.is_empty() {
                    self.ends.insert(rest.start, rest.end);
                }
            }
        }
    }

    /// The span of an address.
    pub(crate) fn run(&self, address: usize) -> Option<Range<usize>> {
        let (&start, &end) = self.ends.range(..=address).next_back()?;
        (address < end).then_some(start..end)
    }

    /// Whether all of these addresses are in it.
    pub(crate) fn contains(&self, span: Range<usize>) -> bool {
        span.is_empty() || self.run(span.start).is_some_and(|run| span.end <= run.end)
    }

    /// The ones of these addresses that are in it, ascending.
    pub(crate) fn parts(&self, span: Range<usize>) -> Vec<Range<usize>> {
        let from = self.run(span.start).map_or(span.start, |run| run.start);
        let runs = self.ends.range(from..span.end.max(from));
        let parts = runs.map(|(&start, &end)| start.max(span.start)..end.min(span.end));
        parts.filter(|part| !part.is_empty()).collect()
    }

    /// The ones that are not, ascending.
    pub(crate) fn gaps(&self, span: Range<usize>) -> Vec<Range<usize>> {
        let mut rest = Self::new();
        rest.insert(span);
        self.iter().for_each(|run| rest.remove(run));
        rest.iter().collect()
    }

    /// All of it, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.ends.iter().map(|(&start, &end)| start..end)
    }

    /// The first `length` addresses of it that start at a multiple of `alignment`.
    pub(crate) fn first_fit(&self, length: usize, alignment: usize) -> Option<Range<usize>> {
        self.iter().find_map(|run| {
            let start = run.start.checked_next_multiple_of(alignment)?;
            let end = start.checked_add(length)?;
            (end <= run.end).then_some(start..end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    fn as_spans(all: &BTreeSet<usize>, within: Range<usize>) -> Vec<Range<usize>> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        for &address in all.range(within) {
            match spans.last_mut().filter(|last| last.end == address) {
                Some(last) => last.end += 1,
                None => spans.push(address..address + 1),
            }
        }
        spans
    }

    proptest! {
        #[test]
        fn it_is_what_a_set_of_single_addresses_is(
            steps in proptest::collection::vec((any::<bool>(), 0_usize..90, 0_usize..30), 1..40),
            (at, length, alignment) in (0_usize..100, 1_usize..40, 0_u32..4)
        ) {
            let (mut spans, mut naive) = (Spans::new(), BTreeSet::new());
            for (add, start, length) in steps {
                let span = start..start + length;
                if add {
                    spans.insert(span.clone());
                    naive.extend(span);
                } else {
                    spans.remove(span.clone());
                    span.for_each(|address| { naive.remove(&address); });
                }
            }
            let (asked, every) = (at..at + length, 0..200);
            prop_assert_eq!(spans.iter().collect::<Vec<_>>(), as_spans(&naive, every.clone()));
            prop_assert_eq!(spans.parts(asked.clone()), as_spans(&naive, asked.clone()));
            let missing = every.clone().filter(|address| !naive.contains(address)).collect();
            prop_assert_eq!(spans.gaps(asked.clone()), as_spans(&missing, asked.clone()));
            prop_assert_eq!(spans.contains(asked.clone()), asked.clone().all(|address| naive.contains(&address)));
            prop_assert_eq!(spans.run(at).is_some_and(|run| run.contains(&at)), naive.contains(&at));
            let fits = |start: &usize| (*start..start + length).all(|address| naive.contains(&address));
            let first = every.step_by(1 << alignment).find(fits);
            prop_assert_eq!(spans.first_fit(length, 1 << alignment).map(|span| span.start), first);
        }
    }
}
