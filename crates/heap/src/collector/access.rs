//! How a marker gets at what markers share: alone, without a cost, or among others.

use crate::geometry::ObjectRef;
use crate::object::{CollectorWord, ObjectModel};
use crate::region::HeapRegion;
use crate::space::ImmixSpace;
use crate::space::starts::ObjectStarts;
use crate::sync::{Mutex, spin_loop};

/// What comes of the attempt to have an object to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// This marker decides what becomes of it, and publishes that.
    Won(CollectorWord),
    /// It was marked or moved already.
    Found(CollectorWord),
}

/// The way of a marker to objects and to the space.
pub(crate) trait MarkerAccess {
    /// Whether the marker has an object to itself. `is_live` says whether a word is that of a marked object.
    fn claim<M: ObjectModel>(region: &HeapRegion, object: ObjectRef, is_live: impl Fn(CollectorWord) -> bool) -> Claim;

    /// Others see the word of an object that this marker had to itself, and all that it wrote before.
    fn publish<M: ObjectModel>(region: &HeapRegion, object: ObjectRef, word: CollectorWord);

    /// An old object is here.
    fn insert_start(starts: &ObjectStarts, object: ObjectRef);

    /// Uses the space.
    fn with_space<R>(&mut self, using: impl FnOnce(&mut ImmixSpace) -> R) -> R;
}

/// The only marker.
pub(crate) struct Alone<'s>(pub &'s mut ImmixSpace);

/// One of several markers.
pub(crate) struct Among<'m, 's>(pub &'m Mutex<&'s mut ImmixSpace>);

impl MarkerAccess for Alone<'_> {
    #[inline]
    fn claim<M: ObjectModel>(region: &HeapRegion, object: ObjectRef, is_live: impl Fn(CollectorWord) -> bool) -> Claim {
        let word = CollectorWord::of::<M>(region, object);
        if word.is_forwarded() || is_live(word) { Claim::Found(word) } else { Claim::Won(word) }
    }

    #[inline]
    fn publish<M: ObjectModel>(region: &HeapRegion, object: ObjectRef, word: CollectorWord) {
        word.write::<M>(region, object);
    }

    #[inline]
    fn insert_start(starts: &ObjectStarts, object: ObjectRef) {
        starts.insert(object);
    }

    #[inline]
    fn with_space<R>(&mut self, using: impl FnOnce(&mut ImmixSpace) -> R) -> R {
        using(self.0)
    }
}

impl MarkerAccess for Among<'_, '_> {
    fn claim<M: ObjectModel>(region: &HeapRegion, object: ObjectRef, is_live: impl Fn(CollectorWord) -> bool) -> Claim {
        let at = object.offset() + M::COLLECTOR_WORD;
        loop {
            let word = CollectorWord(region.acquire(at));
            if word.is_claimed() {
                // The other one copies at most half a block.
                spin_loop();
            } else if word.is_forwarded() || is_live(word) {
                return Claim::Found(word);
            } else if region.replace_if(at, word.0, word.claimed().0) {
                return Claim::Won(word);
            }
        }
    }

    fn publish<M: ObjectModel>(region: &HeapRegion, object: ObjectRef, word: CollectorWord) {
        region.release(object.offset() + M::COLLECTOR_WORD, word.0);
    }

    fn insert_start(starts: &ObjectStarts, object: ObjectRef) {
        starts.insert_among_others(object);
    }

    fn with_space<R>(&mut self, using: impl FnOnce(&mut ImmixSpace) -> R) -> R {
        using(&mut self.0.lock())
    }
}
