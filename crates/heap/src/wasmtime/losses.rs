//! The classes of lost objects, and what is thrown where a program reads one.
//!
//! **Problem.** An error names the class of the object whose data is lost. If the header is lost, too, no memory says
//! the class. **Idea.** The elements of an array are an object of their own, and the array still has its class. Of
//! other objects, the code that tries to read one knows which type it expects, and live objects of that type have a
//! class. **Why this way.** A table of the classes of all objects, in perfect memory, would cost at each allocation.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{HeapShare, INSTEAD, WeakNumber, lock};
use crate::region::LOST;
use crate::space::lost::APART;

/// What is known of lost objects.
#[derive(Debug, Default)]
pub(super) struct LostShare {
    /// Lines to be lost: for tests.
    doomed: Vec<u32>,
    /// The exceptions, by their slots.
    exceptions: Vec<Option<WeakNumber>>,
    /// The class of classes.
    class_of_classes: Option<WeakNumber>,
    /// The class of each lost object, by its number.
    classes: Vec<Option<WeakNumber>>,
    /// The class of an object that refers to a lost one, by the number of the lost one.
    holders: BTreeMap<u32, Option<WeakNumber>>,
    /// The class that all live objects of a type share; `None` if they have several.
    classes_of_types: BTreeMap<u32, Option<WeakNumber>>,
    /// The type that the program expected when it last tried to read a lost object, by the number of the object.
    expected: BTreeMap<u32, u32>,
}

/// An object is lost, by its number: its data cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display, thiserror::Error)]
#[displaydoc("the data of object {0} is lost")]
pub struct DataLost(pub u32);

/// What is known of the class of a lost object. Each class is the offset of what stands for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostClass {
    /// The class.
    pub known: Option<u32>,
    /// The class of an object that refers to it.
    pub holder: Option<u32>,
    /// The class that the program expected when it last tried to read it.
    pub expected: Option<u32>,
}

impl DataLost {
    /// Whether a reference stands for an object that is there. Numbers of 31 bits, whose lowest bit is set, are no
    /// references.
    ///
    /// # Errors
    /// If the object is lost.
    pub const fn check(reference: u32) -> Result<(), Self> {
        if reference < LOST || reference & INSTEAD != 0 { Ok(()) } else { Err(Self((reference - LOST) / APART)) }
    }
}

impl HeapShare {
    /// The line at an offset is to be lost at the next collection: for tests.
    pub fn doom(&self, offset: u32) {
        lock(&self.lost).doomed.push(offset);
    }

    /// The lines that are to be lost now.
    pub fn take_doomed(&self) -> Vec<u32> {
        std::mem::take(&mut lock(&self.lost).doomed)
    }

    /// One more exception for lost objects, at an offset of the region. The host must keep it alive.
    pub fn add_lost_exception(&self, offset: u32) {
        let exception = self.weaken(offset);
        lock(&self.lost).exceptions.push(exception);
    }

    /// The offset of the exception for a lost object. The last one serves all that have none of their own.
    pub fn lost_exception(&self, lost: DataLost) -> Option<u32> {
        let exceptions = &lock(&self.lost).exceptions;
        let slot = (lost.0 as usize).min(exceptions.len().checked_sub(1)?);
        exceptions[slot].and_then(|number| self.object(number))
    }

    /// The class of classes is at an offset of the region. The host must keep it alive.
    pub fn set_class_of_classes(&self, offset: u32) {
        let class = self.weaken(offset);
        lock(&self.lost).class_of_classes = class;
    }

    /// The offset of the class of classes, if the host has said it.
    pub fn class_of_classes(&self) -> Option<u32> {
        let class = lock(&self.lost).class_of_classes;
        class.and_then(|class| self.object(class))
    }

    /// Notes the next lost object, and the offset of its class, if that is known.
    pub fn add_lost_class(&self, offset: Option<u32>) {
        let class = offset.and_then(|offset| self.weaken(offset));
        lock(&self.lost).classes.push(class);
    }

    /// How many objects are lost.
    pub fn lost_objects(&self) -> usize {
        lock(&self.lost).classes.len()
    }

    /// Whether any lost object of this number or a higher one has no known class.
    pub fn is_class_missing(&self, first: usize) -> bool {
        lock(&self.lost).classes.iter().skip(first).any(Option::is_none)
    }

    /// An object of the class at an offset refers to a lost one.
    pub fn set_holder(&self, lost: DataLost, offset: u32) {
        lock(&self.lost).holders.entry(lost.0).or_insert_with(|| self.weaken(offset));
    }

    /// A live object of a type is of the class at an offset.
    pub fn set_class_of_type(&self, ty: u32, offset: u32) {
        match lock(&self.lost).classes_of_types.entry(ty) {
            Entry::Vacant(place) => {
                place.insert(self.weaken(offset));
            }
            Entry::Occupied(mut known) => {
                if known.get().is_some_and(|number| self.object(number) != Some(offset)) {
                    known.insert(None);
                }
            }
        }
    }

    /// The program has tried to read a lost object, and expected it to be of a type, if it said any.
    pub fn set_expected(&self, lost: DataLost, ty: Option<u32>) {
        if let Some(ty) = ty {
            lock(&self.lost).expected.insert(lost.0, ty);
        }
    }

    /// What is known of the class of a lost object.
    pub fn lost_class(&self, lost: DataLost) -> LostClass {
        let share = lock(&self.lost);
        let at = |number: Option<&Option<WeakNumber>>| {
            let offset = number.copied().flatten().and_then(|number| self.object(number));
            // The class may be lost, too.
            offset.filter(|offset| *offset < LOST)
        };
        LostClass {
            known: at(share.classes.get(lost.0 as usize)),
            holder: at(share.holders.get(&lost.0)),
            expected: at(share.expected.get(&lost.0).and_then(|ty| share.classes_of_types.get(ty))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_class_is_what_the_object_its_holder_and_the_last_access_say() {
        let share = HeapShare::default();
        share.add_lost_class(Some(64));
        assert!(!share.is_class_missing(0));
        share.add_lost_class(None);
        share.add_lost_class(Some(80));
        assert_eq!([0, 1, 2].map(|first| share.is_class_missing(first)), [true, true, false]);
        assert_eq!(share.lost_objects(), 3);
        share.set_class_of_type(7, 96);
        share.set_class_of_type(8, 112);
        share.set_class_of_type(8, 112);
        let of = |number| share.lost_class(DataLost(number));
        assert_eq!(of(0), LostClass { known: Some(64), ..LostClass::default() });
        assert_eq!([of(1), of(3)], [LostClass::default(); 2]);
        share.set_holder(DataLost(1), 128);
        share.set_expected(DataLost(1), Some(7));
        assert_eq!(of(1), LostClass { known: None, holder: Some(128), expected: Some(96) });
        share.set_expected(DataLost(1), Some(8));
        share.set_expected(DataLost(1), None);
        assert_eq!(of(1).expected, Some(112));
        assert_eq!(of(2), LostClass { known: Some(80), ..LostClass::default() });
    }

    #[test]
    fn a_number_of_31_bits_is_no_lost_object() {
        assert_eq!(DataLost::check(LOST + 5 * APART), Err(DataLost(5)));
        assert_eq!([LOST + 5 * APART + 1, u32::MAX, LOST - APART].map(DataLost::check), [Ok(()); 3]);
    }

    #[test]
    fn a_class_that_is_lost_itself_is_not_told() {
        let share = HeapShare::default();
        share.add_lost_class(Some(LOST));
        share.set_class_of_type(7, LOST);
        share.set_expected(DataLost(0), Some(7));
        assert_eq!(share.lost_class(DataLost(0)), LostClass::default());
    }

    #[test]
    fn a_type_of_several_classes_says_none() {
        let share = HeapShare::default();
        share.set_expected(DataLost(0), Some(7));
        for (offset, class) in [(96, Some(96)), (112, None), (96, None)] {
            share.set_class_of_type(7, offset);
            assert_eq!(share.lost_class(DataLost(0)).expected, class);
        }
    }
}
