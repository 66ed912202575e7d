//! Objects whose data is gone.
//!
//! **Problem.** A line fails, and nobody knows any more what was in it: an object that lay there must never be read
//! again, and nothing can be read of its header if that lay there. **Idea.** A full collection changes all references
//! to an object anyway. It gives each lost object a number, and writes that into all references to it: an offset where
//! no memory is. **Why this way.** Whoever uses a reference sees by its value that the object is lost, without reading
//! memory; references stay equal or different as they were; and what is left of the object is free.

use std::collections::{BTreeMap, BTreeSet};

use crate::geometry::{CAN_FAIL, MEMORY_LINE, ObjectRef, PAGE};
use crate::object::ObjectModel;
use crate::region::{CARDS, LOST};
use crate::wear::FailedLines;

/// An object that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostObject {
    /// What all references to it are now: at [`LOST`] or above.
    pub reference: ObjectRef,
    /// Where it was.
    pub was_at: u32,
    /// The first four words of it, if it had as many and none was lost: a runtime may tell its class from them.
    pub header: Option<[u32; 4]>,
    /// The fifth word, if there is one and neither it nor the header was lost.
    pub first: Option<u32>,
}

/// Lines whose data is gone, until a collection has dealt with them, and all objects that were in such lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostData {
    /// The offsets of lines of 64 B.
    lines: BTreeSet<u32>,
    /// During the collection: what references to an object become.
    numbers: BTreeMap<u32, ObjectRef>,
    objects: Vec<LostObject>,
}

/// The distance between references to lost objects: a multiple of the alignment of every model.
pub(crate) const APART: u32 = 16;

/// How many lost objects have numbers of their own: later ones share the last.
const MOST: usize = ((CARDS - LOST) / APART) as usize;

impl LostData {
    /// The data of the line at an offset is gone.
    pub fn add_line(&mut self, offset: u32) {
        self.lines.insert(offset / MEMORY_LINE * MEMORY_LINE);
    }

    /// The lines of the page at an offset whose data is gone.
    pub fn in_page(&self, page: u32) -> FailedLines {
        let lines = self.lines.range(page..page + PAGE).map(|line| (line - page) / MEMORY_LINE);
        lines.fold(FailedLines::NONE, FailedLines::with)
    }

    /// Whether a collection must find out which objects are lost.
    pub fn is_pending(&self) -> bool {
        CAN_FAIL && !self.lines.is_empty()
    }

    /// Whether what tells the size of an object, or whether it is marked, is lost.
    pub fn of_header<M: ObjectModel>(&self, object: ObjectRef) -> bool {
        self.any_in(object.offset(), M::ALIGN)
    }

    /// Whether something is lost of so many bytes from an offset.
    pub fn any_in(&self, offset: u32, bytes: u32) -> bool {
        self.lines.range(offset / MEMORY_LINE * MEMORY_LINE..offset + bytes).next().is_some()
    }

    /// What references to a lost object become.
    pub fn number(&self, object: ObjectRef) -> Option<ObjectRef> {
        self.numbers.get(&object.offset()).copied()
    }

    /// An object is lost: what references to it become.
    pub fn bury(&mut self, object: ObjectRef, header: Option<[u32; 4]>, first: Option<u32>) -> ObjectRef {
        let number = u32::try_from(self.objects.len().min(MOST - 1)).expect("few numbers");
        let reference = ObjectRef::new(LOST + number * APART).expect("it is not 0");
        self.numbers.insert(object.offset(), reference);
        if self.objects.len() < MOST {
            self.objects.push(LostObject { reference, was_at: object.offset(), header, first });
        }
        reference
    }

    /// The collection is over: no references to these lines are left.
    pub fn settle(&mut self) {
        self.lines.clear();
        self.numbers.clear();
    }

    /// All that were lost so far.
    pub fn objects(&self) -> &[LostObject] {
        &self.objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_objects_have_references_of_their_own_until_there_are_no_more_and_then_share_the_last() {
        let mut lost = LostData::default();
        let object = |number: usize| ObjectRef::new(APART * (1 + u32::try_from(number).unwrap())).unwrap();
        let references: Vec<u32> = (0..MOST + 3).map(|number| lost.bury(object(number), None, None).offset()).collect();
        assert!(references.iter().all(|at| (LOST..CARDS).contains(at) && at.is_multiple_of(APART)));
        assert!(references[..MOST].is_sorted_by(|one, next| one < next));
        assert!(references[MOST - 1..].iter().all(|at| *at == CARDS - APART));
        assert_eq!(lost.objects().len(), MOST);
        assert_eq!(lost.number(object(MOST + 1)).map(ObjectRef::offset), Some(CARDS - APART));
    }
}
