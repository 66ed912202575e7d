//! The pages of a heap, by what works in them: the operating system's side [Gao13, 3.2.1] and 5.
//!
//! **Problem.** Large objects need whole pages, and small ones need hardly more than lines; the fewer pages are
//! perfect, the more each of them is worth. **Idea.** Pages lie in pools, perfect and imperfect. A page is a token:
//! address translation puts any page at any address, so large objects take perfect pages wherever these are, and blocks
//! are put together from what is left: imperfect pages first, in pairs whose failures lie at the outer ends, so that
//! what works of both is contiguous; pages in which nothing works never. If there is no perfect page, one of ordinary
//! DRAM is borrowed: meanwhile two imperfect pages of the heap are withheld, one for its bytes and one as a penalty:
//! those with the most failed lines, as blocks get the others. When a block would take a perfect page, that page is
//! withheld in their place. A page below objects that cannot move is replaced even if the heap cannot pay. **Why this
//! way.** The price keeps borrowed memory from being better than memory that fails: otherwise a heap would run the
//! faster, the more of it has failed.

mod imperfect;

use std::cmp::Ordering;

use self::imperfect::ImperfectPages;
use crate::geometry::{BLOCK_PAGES, CAN_FAIL, MEMORY_LINE, PAGE, narrow};
use crate::wear::FailedLines;

/// A page of the heap's own, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageToken(u32);

/// A page that backs a part of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapPage {
    /// One of its own.
    Own(PageToken),
    /// A perfect one, borrowed.
    Borrowed,
}

impl HeapPage {
    /// The heap's own page of a number.
    pub(crate) const fn own(number: u32) -> Self {
        Self::Own(PageToken(number))
    }

    /// Its number, if it is one of the heap's own.
    #[must_use]
    pub const fn number(self) -> Option<u32> {
        match self.token() {
            Some(PageToken(number)) => Some(number),
            None => None,
        }
    }

    const fn token(self) -> Option<PageToken> {
        match self {
            Self::Own(token) => Some(token),
            Self::Borrowed => None,
        }
    }
}

/// The pages of a block, from its start; `None` where it has none.
pub(crate) type BlockPages = [Option<HeapPage>; BLOCK_PAGES];

/// What a borrowed page takes from the heap: the pages that nobody may use meanwhile.
const PRICE: usize = 2;

/// Many pages are borrowed if there is more than one for this many of the heap's own.
const MANY_BORROWED: usize = 16;

/// The pools.
#[derive(Debug)]
pub(crate) struct PagePools {
    failed: Vec<FailedLines>,
    /// Whether any page has failed lines: if not, no page needs a look.
    has_failed: bool,
    perfect: Vec<PageToken>,
    /// Imperfect pages whose failures lie nearer to their start.
    failed_low: ImperfectPages,
    /// Imperfect pages whose failures lie nearer to their end.
    failed_high: ImperfectPages,
    /// The price of borrowed pages that are not paid back.
    withheld: Vec<[PageToken; PRICE]>,
    /// Perfect pages with which others were paid back.
    paid_back: Vec<PageToken>,
    /// Borrowed pages for which the heap could not pay.
    unpaid: usize,
    /// As many can be borrowed at a time, beside those.
    borrowable: usize,
    /// Pages in which nothing works.
    idle: Vec<PageToken>,
    demand: PerfectDemand,
}

/// How many perfect pages were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfectDemand {
    /// All requests, in pages [Gao13, fig. 9b].
    pub requested: u64,
    /// Of these, borrowed.
    pub borrowed: u64,
    /// The most pages that were borrowed at a time.
    pub most_borrowed: u64,
}

impl PagePools {
    /// All pages of a heap, of which these lines have failed.
    pub fn new(failed: Vec<FailedLines>) -> Self {
        assert!(CAN_FAIL || failed.iter().all(|page| page.is_perfect()), "built for memory without failed lines");
        let mut pools = Self {
            perfect: Vec::new(),
            failed_low: ImperfectPages::default(),
            failed_high: ImperfectPages::default(),
            withheld: Vec::new(),
            paid_back: Vec::new(),
            unpaid: 0,
            borrowable: usize::MAX,
            idle: Vec::new(),
            demand: PerfectDemand::default(),
            has_failed: CAN_FAIL && failed.iter().any(|page| !page.is_perfect()),
            failed,
        };
        // The last one that is put on a list is the first to be taken.
        (0..pools.failed.len()).rev().for_each(|number| pools.put(PageToken(narrow(number))));
        pools
    }

    /// From now on, at most so many pages are borrowed at a time, but for those below objects that cannot move: the
    /// operating system has no more perfect memory [Gao13, 3.2.1].
    pub const fn borrow_at_most(&mut self, pages: usize) {
        self.borrowable = pages;
    }

    /// Whether any page has failed lines, or had.
    pub const fn has_failed(&self) -> bool {
        CAN_FAIL && self.has_failed
    }

    /// The failed lines of a page.
    pub fn failed(&self, page: HeapPage) -> FailedLines {
        match page {
            HeapPage::Own(PageToken(token)) if self.has_failed => self.failed[token as usize],
            HeapPage::Own(_) | HeapPage::Borrowed => FailedLines::NONE,
        }
    }

    /// Marks further lines of a page in use as failed.
    pub fn fail(&mut self, page: HeapPage, lines: FailedLines) {
        if let HeapPage::Own(PageToken(token)) = page {
            let failed = &mut self.failed[token as usize];
            *failed = failed.union(lines);
            self.has_failed = true;
        }
    }

    /// The failed lines of a page are these now.
    pub fn set_failed(&mut self, page: HeapPage, failed: FailedLines) {
        let HeapPage::Own(token) = page else { return };
        self.has_failed |= !failed.is_perfect();
        let before = std::mem::replace(&mut self.failed[token.0 as usize], failed);
        let place = self.perfect.iter().position(|listed| *listed == token);
        let was_there = place.map(|place| self.perfect.remove(place)).is_some()
            || self.failed_low.remove(token, before)
            || self.failed_high.remove(token, before);
        if was_there || before == FailedLines::ALL && self.idle.contains(&token) {
            self.idle.retain(|idle| *idle != token);
            self.put(token);
        }
    }

    /// All pages, whatever works in them.
    pub const fn pages(&self) -> usize {
        self.failed.len()
    }

    /// What works of all pages, in bytes.
    pub fn capacity(&self) -> u64 {
        let all = self.failed.len() as u64 * u64::from(PAGE);
        if !self.has_failed {
            return all;
        }
        let lost: u64 = self.failed.iter().map(|page| u64::from(page.count())).sum();
        all - lost * u64::from(MEMORY_LINE)
    }

    /// What works of the pages that are not withheld, and the borrowed ones, in bytes.
    pub fn usable_bytes(&self) -> u64 {
        let working = |token: PageToken| u64::from(PAGE - self.failed[token.0 as usize].count() * MEMORY_LINE);
        let withheld: u64 = self.withheld_pages().map(working).sum();
        self.capacity() - withheld + self.borrowed() as u64 * u64::from(PAGE)
    }

    /// The pages that can be taken.
    pub fn available(&self) -> usize {
        self.perfect.len() + self.imperfect()
    }

    /// What works of them, in bytes.
    pub fn working_bytes(&self) -> u64 {
        if !self.has_failed {
            return self.available() as u64 * u64::from(PAGE);
        }
        let lost = (self.failed_low.failed() + self.failed_high.failed()) as u64;
        self.available() as u64 * u64::from(PAGE) - lost * u64::from(MEMORY_LINE)
    }

    fn imperfect(&self) -> usize {
        if CAN_FAIL { self.failed_low.len() + self.failed_high.len() } else { 0 }
    }

    /// The pages that are borrowed now.
    pub fn borrowed(&self) -> usize {
        self.withheld.len() + self.paid_back.len() + self.unpaid
    }

    /// Whether many pages are borrowed: more than a sixteenth of the heap.
    pub fn has_many_borrowed(&self) -> bool {
        self.borrowed() * MANY_BORROWED > self.pages()
    }

    /// The pages that nobody may use, as others are borrowed.
    fn withheld_pages(&self) -> impl Iterator<Item = PageToken> {
        self.withheld.as_flattened().iter().chain(&self.paid_back).copied()
    }

    /// How many perfect pages were asked for.
    pub const fn demand(&self) -> PerfectDemand {
        self.demand
    }

    /// Takes pages for a block that may have failed lines. Perfect ones among them first pay for what is borrowed.
    pub fn take_block(&mut self) -> Option<BlockPages> {
        if self.available() < BLOCK_PAGES {
            return None;
        }
        let mut pages = std::array::from_fn(|place| self.take_relaxed(place).map(HeapPage::Own));
        if pages.iter().flatten().all(|page| self.failed(*page).is_perfect()) {
            pages.sort_unstable_by_key(|page| (page.is_none(), page.and_then(HeapPage::number)));
        }
        Some(pages)
    }

    /// Takes perfect pages, as many as there are places, and borrows what is missing; takes none and returns `false` if
    /// the heap cannot pay for that.
    #[inline]
    #[must_use]
    pub fn take_perfect(&mut self, places: &mut [HeapPage]) -> bool {
        // Pages that follow each other are put below addresses by one call.
        if let Some(left) = self.perfect.len().checked_sub(places.len()) {
            let taken = &mut self.perfect[left..];
            taken.sort_unstable();
            places.iter_mut().zip(&*taken).for_each(|(place, token)| *place = HeapPage::Own(*token));
            self.perfect.truncate(left);
        } else if !self.take_and_borrow(places) {
            return false;
        }
        self.demand.requested += places.len() as u64;
        true
    }

    #[cold]
    #[inline(never)]
    fn take_and_borrow(&mut self, places: &mut [HeapPage]) -> bool {
        let missing = self.missing(places.len());
        if self.imperfect() < PRICE * missing || self.borrowed().saturating_add(missing) > self.borrowable {
            return false;
        }
        places.fill_with(|| self.take_perfect_page().expect("the heap can pay for all"));
        places.sort_unstable_by_key(|page| page.number().unwrap_or(u32::MAX));
        self.demand.most_borrowed = self.demand.most_borrowed.max(self.borrowed() as u64);
        true
    }

    /// How many pages must be borrowed if `count` perfect ones are wanted.
    const fn missing(&self, count: usize) -> usize {
        count.saturating_sub(self.perfect.len())
    }

    /// By how much [`Self::available`] falls when `count` perfect pages are taken: by one for each of the heap's own,
    /// and by [`PRICE`] for each borrowed one.
    pub const fn taken_by(&self, count: usize) -> usize {
        count + self.missing(count) * (PRICE - 1)
    }

    /// Whether there are so many perfect pages.
    pub const fn has_perfect(&self, count: usize) -> bool {
        self.perfect.len() >= count
    }

    /// Whether the next perfect page of a block pays for a borrowed one.
    pub const fn owes(&self) -> bool {
        CAN_FAIL && !self.withheld.is_empty()
    }

    fn take_perfect_page(&mut self) -> Option<HeapPage> {
        if let Some(own) = self.perfect.pop() {
            return Some(HeapPage::Own(own));
        }
        if self.imperfect() < PRICE || self.borrowed() >= self.borrowable {
            return None;
        }
        let price = std::array::from_fn(|_| self.take_worst().expect("there are as many"));
        self.withheld.push(price);
        self.demand.borrowed += 1;
        Some(HeapPage::Borrowed)
    }

    /// A perfect page in the place of one with objects that cannot move: borrowed, whether the heap can pay or not.
    pub fn replace(&mut self, page: HeapPage) -> HeapPage {
        // First, as it may be one of the pages that are withheld for the new one.
        self.give_back(page);
        let perfect = self.take_perfect_page().unwrap_or_else(|| {
            self.unpaid += 1;
            self.demand.borrowed += 1;
            HeapPage::Borrowed
        });
        self.demand.requested += 1;
        self.demand.most_borrowed = self.demand.most_borrowed.max(self.borrowed() as u64);
        perfect
    }

    /// Takes a page that may have failed lines, for a place in a block: imperfect ones first. A perfect one pays for a
    /// borrowed one.
    fn take_relaxed(&mut self, place: usize) -> Option<PageToken> {
        if !self.has_failed {
            return self.perfect.pop();
        }
        loop {
            if let Some(imperfect) = self.take_imperfect(place) {
                return Some(imperfect);
            }
            let perfect = self.perfect.pop()?;
            let Some(price) = self.withheld.pop() else { return Some(perfect) };
            self.paid_back.push(perfect);
            price.into_iter().for_each(|token| self.put(token));
        }
    }

    /// Takes an imperfect page whose failures lie at the outer end of its pair, if there is one.
    fn take_imperfect(&mut self, place: usize) -> Option<PageToken> {
        let (outer, inner) = match place % 2 {
            0 => (&mut self.failed_low, &mut self.failed_high),
            _ => (&mut self.failed_high, &mut self.failed_low),
        };
        outer.pop_best().or_else(|| inner.pop_best())
    }

    /// Takes the imperfect page with the most failed lines, if there is one.
    fn take_worst(&mut self) -> Option<PageToken> {
        if self.failed_low.most_failed() > self.failed_high.most_failed() {
            self.failed_low.pop_worst()
        } else {
            self.failed_high.pop_worst()
        }
    }

    fn put(&mut self, token: PageToken) {
        let failed = self.failed(HeapPage::Own(token));
        // Before what fails is counted: most pages are perfect.
        if failed.is_perfect() {
            self.perfect.push(token);
        } else {
            self.put_imperfect(token, failed);
        }
    }

    /// Not inlined: where no line has failed, no page comes here.
    #[inline(never)]
    fn put_imperfect(&mut self, token: PageToken, failed: FailedLines) {
        let (low, high) = failed.halves();
        match (failed, low.cmp(&high)) {
            (FailedLines::ALL, _) => self.idle.push(token),
            (_, Ordering::Less) => self.failed_high.push(token, failed),
            (_, Ordering::Equal | Ordering::Greater) => self.failed_low.push(token, failed),
        }
    }

    /// Gives a page back.
    #[inline]
    pub fn give_back(&mut self, page: HeapPage) {
        match page {
            HeapPage::Own(token) => self.put(token),
            HeapPage::Borrowed => self.give_back_borrowed(),
        }
    }

    #[inline(never)]
    fn give_back_borrowed(&mut self) {
        if self.unpaid > 0 {
            self.unpaid -= 1;
        } else if let Some(token) = self.paid_back.pop() {
            self.put(token);
        } else {
            self.withheld.pop().into_iter().flatten().for_each(|token| self.put(token));
        }
    }

    /// Gives pages back.
    pub fn give_back_all(&mut self, pages: impl IntoIterator<Item = HeapPage>) {
        if self.has_failed() {
            pages.into_iter().for_each(|page| self.give_back(page));
        } else {
            // None of them is borrowed.
            self.perfect.extend(pages.into_iter().filter_map(HeapPage::token));
        }
    }

    /// The bytes of its tables.
    pub fn metadata_bytes(&self) -> u64 {
        (self.failed.len() * (size_of::<FailedLines>() + size_of::<PageToken>())) as u64
    }
}

const _: () = assert!(PAGE == 4096 && size_of::<PageToken>() == 4);

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: FailedLines = FailedLines::from_bits(u64::MAX >> 32);

    /// Pools of pages of which every second is perfect.
    fn pools(pages: usize) -> PagePools {
        PagePools::new((0..pages).map(|page| if page % 2 == 0 { FailedLines::NONE } else { HALF }).collect())
    }

    /// `count` perfect pages.
    fn perfect(pools: &mut PagePools, count: usize) -> Option<Vec<HeapPage>> {
        let mut pages = vec![HeapPage::Borrowed; count];
        pools.take_perfect(&mut pages).then_some(pages)
    }

    #[test]
    fn blocks_get_imperfect_pages_first_in_pairs_that_fail_at_their_outer_ends() {
        let high = FailedLines::from_bits(!HALF.bits());
        let kinds = [FailedLines::NONE, HALF, high, FailedLines::ALL];
        let mut pools = PagePools::new(kinds.repeat(8));
        assert_eq!((pools.pages(), pools.available()), (32, 24), "pages in which nothing works are not there");
        let mut failed = || pools.take_block().map(|block| block.map(|page| pools.failed(page.unwrap())));
        assert_eq!(failed(), Some([HALF, high].repeat(4).try_into().unwrap()));
        assert_eq!(failed(), Some([HALF, high].repeat(4).try_into().unwrap()));
        assert_eq!(failed(), Some([FailedLines::NONE; 8]));
        assert_eq!(failed(), None);
    }

    #[test]
    fn a_borrowed_page_costs_two_until_a_block_pays_it_back() {
        let mut pools = pools(24);
        let large = perfect(&mut pools, 14).unwrap();
        assert_eq!((pools.borrowed(), pools.available()), (2, 24 - 12 - 2 * 2));
        // What comes back perfect pays for it when a block takes it.
        let (own, borrowed): (Vec<_>, Vec<_>) = large.into_iter().partition(|page| matches!(page, HeapPage::Own(_)));
        pools.give_back_all(own);
        let blocks = [pools.take_block(), pools.take_block()].map(Option::unwrap);
        let perfect = blocks.as_flattened().iter().flatten().filter(|page| pools.failed(**page).is_perfect()).count();
        // Eight imperfect ones, two perfect ones that repay two and free four imperfect ones, and four perfect ones.
        assert_eq!((perfect, pools.available(), pools.borrowed()), (4, 6, 2));
        pools.give_back_all(borrowed);
        assert_eq!((pools.available(), pools.borrowed()), (8, 0));
        pools.give_back_all(blocks.as_flattened().iter().flatten().copied());
        assert_eq!(pools.available(), 24);
    }

    #[test]
    fn nothing_is_taken_of_what_the_heap_cannot_pay_for() {
        let mut pools = pools(16);
        assert_eq!(perfect(&mut pools, 13), None, "8 perfect ones, and 8 imperfect ones for 4 more");
        assert_eq!((pools.available(), pools.borrowed(), pools.demand()), (16, 0, PerfectDemand::default()));
        pools.borrow_at_most(3);
        assert_eq!(perfect(&mut pools, 12), None);
        pools.borrow_at_most(4);
        assert_eq!([8, 12].map(|count| pools.taken_by(count)), [8, 16]);
        assert_eq!(perfect(&mut pools, 12).unwrap().len(), 12);
        assert_eq!((pools.available(), pools.take_block()), (0, None));
    }

    #[test]
    fn a_refused_request_leaves_what_is_paid_back_as_it_is() {
        let mut pools = pools(24);
        let mut large = perfect(&mut pools, 14).unwrap();
        // Perfect pages come back, and pay for both borrowed ones.
        pools.give_back_all(large.drain(..12));
        let blocks = [pools.take_block(), pools.take_block()];
        let state =
            |pools: &PagePools| (pools.borrowed(), pools.withheld_pages().count(), pools.available(), pools.demand());
        let before = state(&pools);
        assert_eq!((before.0, before.1), (2, 2), "{blocks:?}");
        assert_eq!(perfect(&mut pools, before.2 + 1), None);
        assert_eq!(state(&pools), before);
    }

    #[test]
    fn a_block_has_its_pages_from_its_start_if_there_are_too_few() {
        let mut pools = PagePools::new([vec![FailedLines::NONE; 8], vec![HALF; 2]].concat());
        let taken = perfect(&mut pools, 9).unwrap();
        // The two pages withheld for the borrowed one have no working line any more: paying it back frees nothing.
        (8..10).for_each(|number| pools.set_failed(HeapPage::own(number), FailedLines::ALL));
        pools.give_back_all(taken.into_iter().filter(|page| page.number().is_some()));
        let block = pools.take_block().unwrap();
        assert_eq!(block.map(|page| page.is_some()), [true, true, true, true, true, true, true, false]);
    }

    #[test]
    fn a_page_that_is_replaced_is_a_part_of_the_price() {
        let mut pools = PagePools::new(vec![HALF; 9]);
        let block = pools.take_block().unwrap();
        assert_eq!(pools.available(), 1);
        assert_eq!(pools.replace(block[0].unwrap()), HeapPage::Borrowed);
        assert_eq!((pools.available(), pools.withheld_pages().count()), (0, 2));
    }

    #[test]
    fn a_page_that_changes_goes_where_its_failed_lines_belong_once_nobody_has_it() {
        let mut pools = pools(8);
        let page = HeapPage::own(0);
        let is = |pools: &PagePools, perfect, available| {
            assert!(pools.has_perfect(perfect) && !pools.has_perfect(perfect + 1));
            let imperfect = (available - perfect) as u64;
            let lost = u64::from(HALF.count()) * imperfect * u64::from(MEMORY_LINE);
            assert_eq!((pools.available(), pools.working_bytes()), (available, available as u64 * 4096 - lost));
        };
        is(&pools, 4, 8);
        let high = FailedLines::from_bits(!HALF.bits());
        let steps = [(HALF, 3, 8), (high, 3, 8), (FailedLines::ALL, 3, 7), (FailedLines::ALL, 3, 7)];
        for (failed, perfect, available) in steps.into_iter().chain([(FailedLines::NONE, 4, 8)]) {
            pools.set_failed(page, failed);
            assert_eq!(pools.failed(page), failed);
            is(&pools, perfect, available);
        }
        // Two pages in which nothing works come back one by one.
        let all = [(page, FailedLines::ALL), (HeapPage::own(2), FailedLines::ALL)];
        let none = all.map(|(page, _)| (page, FailedLines::NONE));
        for ((page, failed), left) in all.into_iter().chain(none).zip([3, 2, 3, 4]) {
            pools.set_failed(page, failed);
            is(&pools, left, 4 + left);
        }
        let taken = perfect(&mut pools, 4).unwrap();
        assert!(taken.contains(&page));
        for failed in [FailedLines::ALL, HALF] {
            pools.set_failed(page, failed);
            is(&pools, 0, 4);
        }
        pools.set_failed(HeapPage::Borrowed, HALF);
        assert!(pools.failed(HeapPage::Borrowed).is_perfect());
        pools.give_back_all(taken);
        is(&pools, 3, 8);
        // What fails later counts even if nothing had failed at the start.
        let mut whole = PagePools::new(vec![FailedLines::NONE; 8]);
        assert_eq!(whole.capacity(), 8 * 4096);
        whole.set_failed(page, HALF);
        assert_eq!((whole.capacity(), whole.failed(page)), (8 * 4096 - 2048, HALF));
        whole.fail(page, FailedLines::NONE.with(63));
        assert_eq!(whole.failed(page), HALF.with(63));
    }

    #[test]
    fn what_is_withheld_and_borrowed_is_counted_until_it_is_given_back() {
        let mut pools = pools(24);
        let large = perfect(&mut pools, 14).unwrap();
        assert_eq!((pools.borrowed(), pools.withheld_pages().count()), (2, 4));
        // A block takes eight imperfect pages; no perfect one is left to replace a page of it, nor two others to pay.
        let block = pools.take_block().unwrap();
        let replaced = pools.replace(block[0].unwrap());
        assert_eq!((replaced, pools.borrowed(), pools.withheld_pages().count()), (HeapPage::Borrowed, 3, 4));
        let demand = PerfectDemand { requested: 15, borrowed: 3, most_borrowed: 3 };
        assert_eq!((pools.demand(), pools.available()), (demand, 1));
        pools.give_back(replaced);
        assert_eq!((pools.borrowed(), pools.withheld_pages().count(), pools.available()), (2, 4, 1));
        // Perfect pages pay back what is borrowed, one each.
        let (own, borrowed): (Vec<_>, Vec<_>) = large.into_iter().partition(|page| page.number().is_some());
        pools.give_back_all(own);
        let second = pools.take_block().unwrap();
        assert_eq!((pools.borrowed(), pools.withheld_pages().count()), (2, 2));
        pools.give_back_all(borrowed);
        assert_eq!((pools.borrowed(), pools.withheld_pages().count()), (0, 0));
        pools.give_back_all(block.into_iter().skip(1).chain(second).flatten());
        assert_eq!((pools.available(), pools.demand()), (24, demand));
    }

    #[test]
    fn pages_with_few_failed_lines_are_used_and_those_with_many_are_withheld() {
        // At either end, each number of failed lines.
        let (low, high) = (|lines| u64::MAX >> (64 - lines), |lines| u64::MAX << (64 - lines));
        let failed = (1..=32).flat_map(|lines| [low(lines), high(lines)].map(FailedLines::from_bits));
        let mut pools = PagePools::new(failed.collect());
        let all: u32 = (1..=32).map(|lines| 2 * (64 - lines)).sum();
        assert_eq!(pools.usable_bytes(), u64::from(all * MEMORY_LINE));
        let borrowed = perfect(&mut pools, 8).unwrap();
        let mut withheld: Vec<u32> =
            pools.withheld_pages().map(|page| pools.failed(HeapPage::Own(page)).count()).collect();
        withheld.sort_unstable();
        assert_eq!(withheld, (25..=32).flat_map(|lines| [lines; 2]).collect::<Vec<_>>());
        let lost: u32 = (25..=32).map(|lines| 2 * (64 - lines)).sum();
        assert_eq!(pools.usable_bytes(), u64::from((all - lost + 8 * 64) * MEMORY_LINE));
        let block = pools.take_block().unwrap();
        let used = block.map(|page| pools.failed(page.unwrap()).count());
        assert_eq!(used, [1, 1, 2, 2, 3, 3, 4, 4]);
        pools.give_back_all(borrowed.into_iter().chain(block.into_iter().flatten()));
        assert_eq!((pools.usable_bytes(), pools.available()), (u64::from(all * MEMORY_LINE), 64));
    }
}
