//! The heap of a runtime.

use crate::collection::{Collection, RootSet};
use crate::collector::{self, Survivors, Trace, TraceCounts};
use crate::error::Error;
use crate::geometry::{BLOCK_BYTES, BLOCK_PAGES, FailureGrain, HeapBlock, LineSize, ObjectRef, PAGE};
use crate::memory::{HeapMemory, RefusalCounts, SimulatedMemory, attach};
use crate::object::{CollectorWord, ObjectModel};
use crate::pace::{CollectionCause, CollectionPace, LittleBelow};
use crate::pools::PerfectDemand;
use crate::region::{HeapRegion, LOST};
use crate::space::allocator::LocalAllocator;
use crate::space::lost::LostObject;
use crate::space::{CompactionRoom, ImmixSpace, LineFailure, Source};
use crate::stress::CollectionStress;
use crate::wear::FailedLines;

/// The largest heap, 2 GiB: large objects must find contiguous addresses beside it.
pub const MOST: u64 = 1 << 31;

/// How often a compacting collection goes through the heap at most. What is free can double each time.
const MOST_PASSES: usize = 12;

/// It goes on if the last pass has freed so many bytes.
const LEAST_GAIN: u64 = BLOCK_BYTES as u64 / 2;

/// If one part of so many of the heap lies between objects, a collection that moves them is worth its time.
const SPARSE: u64 = 8;

/// How a collection marks.
type Mark<'m, M> = &'m dyn Fn(&Trace<'_, M>, &mut ImmixSpace, &mut dyn RootSet) -> TraceCounts;

/// Whether a heap can have so many pages.
///
/// # Errors
/// If they are more than [`MOST`] or less than four blocks.
pub(crate) fn check_size(pages: usize) -> Result<(), Error> {
    let (given, least) = (pages as u64 * u64::from(PAGE), u64::from(4 * BLOCK_BYTES));
    if given < least {
        return Err(Error::TooSmall { given, least });
    }
    if given > MOST { Err(Error::TooLarge { given, most: MOST }) } else { Ok(()) }
}

/// How a heap is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeapSettings {
    /// The size of lines.
    pub line: LineSize,
    /// What a failed line takes from the heap.
    pub grain: FailureGrain,
    /// Larger objects get pages of their own; at most half a block.
    pub large_above: u32,
    /// The share of pages that only collections use, to move objects.
    pub headroom: f64,
    /// Whether young objects are collected by themselves (Sticky Immix); else each collection is a full one (Immix).
    pub is_generational: bool,
    /// If a collection of young objects leaves the program a smaller share of what works of the heap, the next one is a
    /// full one, provided that it pays.
    pub full_below: f64,
    /// How many perfect pages are borrowed at a time at most, but for those below objects that cannot move.
    pub borrowable: usize,
    /// Whether collections come although there is room, to find errors of the runtime.
    pub stress: CollectionStress,
}

impl Default for HeapSettings {
    fn default() -> Self {
        Self {
            line: LineSize::L256,
            grain: FailureGrain::MemoryLine,
            large_above: 8 << 10,
            headroom: 0.025,
            is_generational: true,
            full_below: 0.2,
            borrowable: usize::MAX,
            stress: CollectionStress::Off,
        }
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapCounts {
    /// Collections of young objects.
    pub nursery: u64,
    /// Full collections, and compacting ones.
    pub full: u64,
    /// Objects that were marked where they are.
    pub marked: u64,
    /// Objects that were moved.
    pub moved: u64,
    /// The bytes of those.
    pub moved_bytes: u64,
    /// Pages that were replaced, as objects on failed lines could not move.
    pub replaced: u64,
    /// Pages that the memory has changed below the heap.
    pub changed_pages: u64,
    /// How often memory was out as pages could not be mapped, and not for lack of pages of the heap.
    pub refused: RefusalCounts,
    /// Dirty cards that the collections found.
    pub cards: u64,
    /// Of all collections, those that several threads marked in.
    pub helped: u64,
    /// The most bytes of objects that a collection of all objects has found; of large ones, whole pages.
    pub most_live_bytes: u64,
    /// The largest stack of references to follow, of all markers together, in bytes.
    pub most_stack_bytes: u64,
}

/// A garbage-collected heap on pages of which lines have failed.
#[derive(Debug)]
pub struct ManagedHeap<M> {
    /// Before the region: the memory below it goes first.
    space: ImmixSpace,
    region: HeapRegion,
    model: M,
    settings: HeapSettings,
    /// Larger objects, under stress all, are not just taken from a hole.
    hole_limit: u32,
    /// How many allocations under stress there were since the last collection.
    allocations: u32,
    next: Collection,
    pace: CollectionPace,
    counts: HeapCounts,
}

impl<M: ObjectModel> ManagedHeap<M> {
    /// A heap of as many pages as `failed` has, of which these lines have failed.
    ///
    /// # Errors
    /// If that is more than [`MOST`] or less than four blocks, or the memory is not to be had.
    pub fn new(model: M, settings: HeapSettings, failed: Vec<FailedLines>) -> Result<Self, Error> {
        Self::on(model, settings, Box::new(SimulatedMemory::new(failed)))
    }

    /// The addresses that a heap of so many pages uses: blocks, and four times as much for large objects, which
    /// must find contiguous addresses.
    fn addresses(pages: usize) -> u64 {
        let bytes = pages as u64 * u64::from(PAGE);
        let all = (bytes + u64::from(2 * BLOCK_BYTES)).next_multiple_of(u64::from(BLOCK_BYTES)) + 4 * bytes;
        all.min(LOST.into())
    }

    /// A heap on a memory, in a region of its own.
    ///
    /// # Errors
    /// As [`ManagedHeap::new`].
    pub fn on(model: M, settings: HeapSettings, memory: Box<dyn HeapMemory>) -> Result<Self, Error> {
        check_size(memory.pages())?;
        let reserve = Self::addresses(memory.pages());
        Self::over(HeapRegion::reserve(reserve)?, reserve, model, settings, memory)
    }

    /// A heap on a memory, below a region of which the first `end` bytes may be used.
    ///
    /// # Errors
    /// As [`ManagedHeap::new`].
    pub fn over(
        region: HeapRegion,
        end: u64,
        model: M,
        settings: HeapSettings,
        mut memory: Box<dyn HeapMemory>,
    ) -> Result<Self, Error> {
        const { assert!(matches!(M::ALIGN, 8 | 16) && M::COLLECTOR_WORD + 4 <= M::ALIGN, "see `ObjectModel::ALIGN`") };
        check_size(memory.pages())?;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "pages"
        )]
        let headroom = ((memory.pages() as f64 * settings.headroom) as usize).max(BLOCK_PAGES);
        let settings = HeapSettings { large_above: settings.large_above.min(BLOCK_BYTES / 2), ..settings };
        attach(&mut *memory, &region, end);
        let mut space = ImmixSpace::new(memory, settings.line, settings.grain, headroom, end, M::ALIGN);
        space.pools.borrow_at_most(settings.borrowable);
        let next = if settings.is_generational { Collection::Nursery } else { Collection::Full };
        let hole_limit = if settings.stress == CollectionStress::Off { settings.large_above } else { 0 };
        let pace = CollectionPace::default();
        Ok(Self {
            space,
            region,
            model,
            settings,
            hole_limit,
            allocations: 0,
            next,
            pace,
            counts: HeapCounts::default(),
        })
    }

    /// The memory.
    pub const fn region(&self) -> &HeapRegion {
        &self.region
    }

    pub(crate) const fn space(&self) -> &ImmixSpace {
        &self.space
    }

    pub(crate) const fn space_mut(&mut self) -> &mut ImmixSpace {
        &mut self.space
    }

    /// The objects' model.
    pub const fn model(&self) -> &M {
        &self.model
    }

    /// What happened so far.
    pub const fn counts(&self) -> HeapCounts {
        self.counts
    }

    /// How many perfect pages were asked for.
    pub const fn demand(&self) -> PerfectDemand {
        self.space.pools.demand()
    }

    /// The bytes of the collector's own data, which lies in perfect memory: all tables, the cards if it uses them, and
    /// the largest stack that markers have had.
    pub fn metadata_bytes(&self) -> u64 {
        let cards = if self.settings.is_generational { self.space.card_bytes() } else { 0 };
        self.space.metadata_bytes() + cards + self.counts.most_stack_bytes
    }

    /// Objects of so many bytes and less may be taken from a hole that is at hand, without asking the heap.
    pub(crate) const fn hole_limit(&self) -> u32 {
        self.hole_limit
    }

    /// Whether collections come although there is room: then the runtime asks the heap for each object.
    pub fn is_stressed(&self) -> bool {
        self.settings.stress != CollectionStress::Off
    }

    /// Memory for an object of `bytes`, a multiple of [`ObjectModel::ALIGN`]; `None` if there is room only after a
    /// collection, or if [`HeapSettings::stress`] wants one first. What is in it is left over from others; the bits of
    /// the collector's word must be made 0.
    #[inline]
    pub fn allocate(&mut self, local: &mut LocalAllocator, bytes: u32) -> Option<u32> {
        debug_assert!(bytes.is_multiple_of(M::ALIGN));
        if bytes > self.hole_limit {
            return self.allocate_large_or_under_stress(local, bytes);
        }
        local.allocate(&mut self.space, bytes, Source::Mutator)
    }

    #[cold]
    #[inline(never)]
    fn allocate_large_or_under_stress(&mut self, local: &mut LocalAllocator, bytes: u32) -> Option<u32> {
        if self.settings.stress.is_due(self.allocations) {
            return None;
        }
        self.allocations += 1;
        if bytes > self.settings.large_above {
            return self.space.take_large(bytes, Source::Mutator);
        }
        local.allocate(&mut self.space, bytes, Source::Mutator)
    }

    /// Memory as [`ManagedHeap::allocate`] gives it, after collections if need be, each of a stronger kind than the
    /// last; `None` if memory is out. For programs with one allocator and no weak references.
    #[inline]
    pub fn allocate_or_collect(
        &mut self,
        local: &mut LocalAllocator,
        bytes: u32,
        roots: &mut dyn RootSet,
    ) -> Option<u32> {
        self.allocate(local, bytes).or_else(|| self.allocate_after_collections(local, bytes, roots))
    }

    #[cold]
    #[inline(never)]
    fn allocate_after_collections(
        &mut self,
        local: &mut LocalAllocator,
        bytes: u32,
        roots: &mut dyn RootSet,
    ) -> Option<u32> {
        let mut due = Some(self.due());
        while let Some(kind) = due {
            self.collect(kind, &mut [local], roots, &mut |_| {});
            if let Some(at) = self.allocate(local, bytes) {
                return Some(at);
            }
            due = kind.next();
        }
        None
    }

    /// Whether an object of `bytes` would fit if nothing else were there. If not, no collection helps.
    pub fn could_hold(&self, bytes: u32) -> bool {
        u64::from(bytes) <= self.space.pools.pages() as u64 * u64::from(PAGE)
    }

    /// The program gets an error, as it has run out of memory. Its handlers need memory, too: until a collection has
    /// found enough again, they may use a part of what is set aside for collections.
    pub fn open_reserve(&mut self) {
        self.space.open_reserve();
    }

    /// Keeps an object where it is, in all collections.
    pub fn pin(&mut self, object: ObjectRef) {
        self.set_word(object, self.word(object).pinned());
    }

    /// Lets an object move again.
    pub fn unpin(&mut self, object: ObjectRef) {
        self.set_word(object, self.word(object).unpinned());
    }

    fn word(&self, object: ObjectRef) -> CollectorWord {
        CollectorWord::of::<M>(&self.region, object)
    }

    fn set_word(&self, object: ObjectRef, word: CollectorWord) {
        word.write::<M>(&self.region, object);
    }

    /// A line of 64 B has failed, at an offset in the region. It is never allocated again. A large object gets another
    /// page at once. Other objects stay until the collection that [`LineFailure::InUse`] names; until then the caller
    /// (hardware or operating system) must keep the line readable and writable.
    pub fn fail_line(&mut self, offset: u32, locals: &mut [&mut LocalAllocator]) -> LineFailure {
        self.fail_lines(&[offset], locals)[0]
    }

    /// As [`Self::fail_line`], for lines that failed together: each page of a large object is replaced at most once.
    pub fn fail_lines(&mut self, offsets: &[u32], locals: &mut [&mut LocalAllocator]) -> Vec<LineFailure> {
        let failures = self.space.fail_lines(offsets);
        self.leave_vacating(locals);
        failures
    }

    /// Nobody allocates in blocks that objects must leave.
    fn leave_vacating(&mut self, locals: &mut [&mut LocalAllocator]) {
        for (block, due) in &self.space.vacating {
            locals.iter_mut().for_each(|local| local.leave(*block));
            if *due == Collection::Full {
                self.next = Collection::Full;
            }
        }
    }

    /// A line of 64 B has failed, and its data is gone. If nothing was in it, that is all. If an object may have been
    /// in it ([`LineFailure::Lost`]), the caller collects before the program goes on: that finds out which objects are
    /// lost. No collection reads anything in the line.
    pub fn lose_line(&mut self, offset: u32, locals: &mut [&mut LocalAllocator]) -> LineFailure {
        self.lose_lines(&[offset], locals)[0]
    }

    /// As [`Self::lose_line`], of several lines.
    pub fn lose_lines(&mut self, offsets: &[u32], locals: &mut [&mut LocalAllocator]) -> Vec<LineFailure> {
        let failures = self.space.lose_lines(offsets);
        self.leave_vacating(locals);
        if failures.contains(&LineFailure::Lost) {
            self.next = Collection::Full;
        }
        failures
    }

    /// Asks the memory what has changed, and heeds it: from now on, no object is allocated on lines that have failed
    /// since. Returns whether objects may be lost: then the caller collects before the program goes on.
    pub fn take_up_calls(&mut self, locals: &mut [&mut LocalAllocator]) -> bool {
        let changes = self.space.memory.up_calls();
        self.counts.changed_pages += changes.len() as u64;
        for at in changes.iter().filter_map(|change| change.at) {
            locals.iter_mut().for_each(|local| local.leave(HeapBlock::at(at)));
        }
        let is_lost = self.space.change_pages(&changes);
        self.leave_vacating(locals);
        if is_lost {
            self.next = Collection::Full;
        }
        is_lost
    }

    /// The objects that are lost. References to one are what [`LostObject::reference`] says, at [`LOST`] or above.
    pub fn lost_objects(&self) -> &[LostObject] {
        self.space.lost.objects()
    }

    /// The old objects: after a full collection, all that are live.
    pub fn old_objects(&self) -> impl Iterator<Item = ObjectRef> {
        let ImmixSpace { starts, large, .. } = &self.space;
        let is_old = |object: &ObjectRef| !CollectorWord::of::<M>(&self.region, *object).is_young();
        let large_ones = large.objects().filter_map(|(at, _)| ObjectRef::new(at)).filter(is_old);
        starts.within(0, large.first()).chain(large_ones)
    }

    /// Whether objects lie on lines that have failed: a collection of this kind moves them.
    pub fn vacating(&self) -> Option<Collection> {
        let due = self.space.vacating.iter().map(|(_, due)| *due);
        due.max_by_key(|due| *due == Collection::Full)
    }

    /// What kind of collection is due when there is no room.
    pub const fn due(&self) -> Collection {
        self.next
    }

    /// Collects: whatever cannot be reached from the roots is gone, of all objects or of the young ones. Objects may
    /// move; roots and references are changed to their new places. `finish` is called before unreachable objects are
    /// freed, for weak references.
    pub fn collect(
        &mut self,
        kind: Collection,
        locals: &mut [&mut LocalAllocator],
        roots: &mut dyn RootSet,
        finish: &mut dyn FnMut(&Survivors<'_, M>),
    ) {
        self.collect_by(kind, locals, roots, finish, &collector::mark);
    }

    /// Collects as [`Self::collect`] does, with several threads that mark.
    pub(crate) fn collect_in_parallel(
        &mut self,
        kind: Collection,
        markers: usize,
        locals: &mut [&mut LocalAllocator],
        roots: &mut dyn RootSet,
        finish: &mut dyn FnMut(&Survivors<'_, M>),
    ) where
        M: Sync,
    {
        self.collect_by(kind, locals, roots, finish, &|trace, space, roots| {
            collector::mark_in_parallel(trace, space, roots, markers)
        });
    }

    /// A compacting collection has as many passes as free more: each can use what the one before has freed. It ends
    /// once more than little is free, and the pages of the large object that the program got no memory for.
    fn collect_by(
        &mut self,
        kind: Collection,
        locals: &mut [&mut LocalAllocator],
        roots: &mut dyn RootSet,
        finish: &mut dyn FnMut(&Survivors<'_, M>),
        mark: Mark<'_, M>,
    ) {
        let wanted = std::mem::take(&mut self.space.refused_pages);
        // What is lost can be referred to from anywhere. And a compacting collection begins with the sizes of all
        // objects; those of lost ones must not be read.
        let is_losing = self.space.lost.is_pending();
        if is_losing || kind != Collection::Compacting {
            let kind = if is_losing { Collection::Full } else { kind };
            self.pass(kind, CompactionRoom::Lines, locals, roots, finish, mark);
        }
        if kind != Collection::Compacting {
            return;
        }
        // If many pages are borrowed, most objects may fit no hole.
        let is_dear = self.space.pools.has_many_borrowed();
        let mut room = if is_dear { CompactionRoom::Pages } else { CompactionRoom::Lines };
        for pass in 0..MOST_PASSES {
            let before = self.space.room(room);
            self.pass(kind, room, locals, roots, finish, mark);
            let now = self.space.room(room);
            let has_gained = now >= before + LEAST_GAIN;
            let goes_on = has_gained && self.little().holds(now);
            let is_wanting = !self.space.has_pages_for(wanted);
            room = match room {
                // No pages were emptied, but small objects may still fit holes.
                CompactionRoom::Pages if !has_gained && pass == 0 => CompactionRoom::Lines,
                CompactionRoom::Pages if goes_on || has_gained && is_wanting => room,
                CompactionRoom::Lines if goes_on => room,
                CompactionRoom::Lines if is_wanting => CompactionRoom::Pages,
                _ => break,
            };
        }
    }

    fn pass(
        &mut self,
        kind: Collection,
        room: CompactionRoom,
        locals: &mut [&mut LocalAllocator],
        roots: &mut dyn RootSet,
        finish: &mut dyn FnMut(&Survivors<'_, M>),
        mark: Mark<'_, M>,
    ) {
        let has_refused = std::mem::take(&mut self.space.has_refused);
        let cause = if has_refused { CollectionCause::OutOfMemory } else { CollectionCause::Request };
        let before = self.space.free_bytes();
        locals.iter_mut().for_each(|local| local.retire());
        let trace = Trace::begin(&self.region, &self.model, &mut self.space, kind, room);
        self.counts.cards += trace.dirty_cards;
        let traced = mark(&trace, &mut self.space, roots);
        finish(&trace.survivors(&self.space));
        trace.end(&mut self.space);
        self.space.close_reserve();
        match kind {
            Collection::Nursery => self.counts.nursery += 1,
            Collection::Full | Collection::Compacting => {
                self.counts.full += 1;
                let live = traced.live_bytes + self.space.large.pages() as u64 * u64::from(PAGE);
                self.counts.most_live_bytes = self.counts.most_live_bytes.max(live);
            }
        }
        self.counts.refused = self.space.refused;
        self.counts.marked += traced.marked;
        self.counts.moved += traced.moved;
        self.counts.moved_bytes += traced.moved_bytes;
        self.counts.replaced += traced.replaced;
        self.counts.helped += u64::from(traced.is_helped);
        self.counts.most_stack_bytes = self.counts.most_stack_bytes.max(traced.stack_bytes);
        self.allocations = 0;
        let chosen = self.settings.stress.kind(self.counts.nursery + self.counts.full);
        let free = self.space.free_bytes();
        let is_full_due = self.pace.ends(kind, cause, &traced, before, free, self.little());
        let of_use = match cause {
            CollectionCause::Request => free,
            // What is set aside for collections is of use to them.
            CollectionCause::OutOfMemory => free.saturating_sub(before.saturating_sub(self.space.headroom_bytes())),
        };
        let next = match self.vacating() {
            Some(Collection::Full) => Collection::Full,
            _ => self.next_after(kind, is_full_due, traced.live_bytes + of_use),
        };
        // Under stress, all kinds come by turns.
        self.next = chosen.filter(|chosen| *chosen != Collection::Nursery).unwrap_or(next);
    }

    /// What is due after a collection. So many bytes hold objects in blocks, or are free and of use.
    fn next_after(&self, kind: Collection, is_full_due: bool, accounted: u64) -> Collection {
        let next = if self.settings.is_generational { Collection::Nursery } else { Collection::Full };
        match kind {
            Collection::Nursery if is_full_due => Collection::Full,
            Collection::Full if self.is_tight() && self.is_sparse(accounted) => Collection::Compacting,
            _ => next,
        }
    }

    fn little(&self) -> LittleBelow {
        LittleBelow { capacity: self.space.pools.capacity(), share: self.settings.full_below }
    }

    /// Whether little is free, of use or not.
    fn is_tight(&self) -> bool {
        self.little().holds(self.space.free_bytes())
    }

    /// Whether much is neither used nor free and of use: it lies between objects, on lines with others, or in holes
    /// that are too short.
    fn is_sparse(&self, accounted: u64) -> bool {
        let usable = self.space.pools.usable_bytes();
        accounted + self.space.large.pages() as u64 * u64::from(PAGE) + usable / SPARSE < usable
    }
}
