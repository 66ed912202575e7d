//! The model of a march test: elements, each a direction and the operations done on every cell before the next.
//!
//! The model is that of A. J. van de Goor, *Testing Semiconductor Memories*, 1991, chapter 4; a *cell* here is a
//! 64-byte line, 0 stands for the background and 1 for its complement.

use std::fmt;

use serde::{Serialize, Serializer};

/// One operation on one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `r0` or `r1`: read, and expect the background (`false`) or its complement (`true`).
    Read(bool),
    /// `w0` or `w1`: write the background (`false`) or its complement (`true`).
    Write(bool),
}

/// The direction in which an element visits the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// ⇑: ascending in the visiting order.
    Up,
    /// ⇓: descending.
    Down,
    /// ⇕: either. Run ascending.
    Any,
}

/// A part of a march test.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// All operations on one cell, then on the next.
    Sweep {
        /// The direction of the visits.
        direction: Direction,
        /// The operations on each cell; never empty.
        ops: Vec<Op>,
    },
    /// `Del`: a delay, so that cells that leak lose their charge.
    Delay,
}

/// A march test. It is made by parsing its notation, so it is never empty and never reads a value that it has not
/// written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MarchTest {
    elements: Vec<Element>,
}

impl MarchTest {
    pub(crate) const fn from_elements(elements: Vec<Element>) -> Self {
        Self { elements }
    }

    /// Its elements, in order.
    #[must_use]
    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    /// Operations on each cell: the k of the field's kN.
    #[must_use]
    pub fn length(&self) -> usize {
        self.operations().count()
    }

    /// Reads of each cell.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.operations().filter(|op| matches!(op, Op::Read(_))).count()
    }

    /// Writes of each cell.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.length() - self.reads()
    }

    /// Pauses.
    #[must_use]
    pub fn delays(&self) -> usize {
        self.elements.iter().filter(|element| matches!(element, Element::Delay)).count()
    }

    /// The same test with 0 and 1 exchanged.
    #[must_use]
    pub fn complement(&self) -> Self {
        let exchanged = |op: &Op| match *op {
            Op::Read(value) => Op::Read(!value),
            Op::Write(value) => Op::Write(!value),
        };
        let elements = self.elements.iter().map(|element| match element {
            Element::Sweep { direction, ops } => {
                Element::Sweep { direction: *direction, ops: ops.iter().map(exchanged).collect() }
            }
            Element::Delay => Element::Delay,
        });
        Self { elements: elements.collect() }
    }

    /// Puts a `Del` before the last element if that only reads; otherwise [`Self::rest_and_read`]. Returns the index of
    /// the `Del`.
    pub(crate) fn rest_before_last_read(&mut self) -> usize {
        let only_reads = |op: &Op| matches!(op, Op::Read(_));
        match self.elements.last() {
            Some(Element::Sweep { ops, .. }) if ops.iter().all(only_reads) => {
                let place = self.elements.len() - 1;
                self.elements.insert(place, Element::Delay);
                place
            }
            _ => self.rest_and_read(),
        }
    }

    /// Adds a `Del` and a read of the last written value. Returns the index of the `Del`.
    pub(crate) fn rest_and_read(&mut self) -> usize {
        let last = self.operations().last().expect("a march test has operations");
        let (Op::Read(value) | Op::Write(value)) = *last;
        let place = self.elements.len();
        self.elements.push(Element::Delay);
        self.elements.push(Element::Sweep { direction: Direction::Any, ops: vec![Op::Read(value)] });
        place
    }

    fn operations(&self) -> impl Iterator<Item = &Op> {
        self.elements.iter().flat_map(|element| match element {
            Element::Sweep { ops, .. } => ops.as_slice(),
            Element::Delay => &[],
        })
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (letter, value) = match self {
            Self::Read(value) => ('r', value),
            Self::Write(value) => ('w', value),
        };
        write!(f, "{letter}{}", u8::from(*value))
    }
}

impl fmt::Display for Element {
    /// In the field's Unicode notation; with `#`, in ASCII.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Sweep { direction, ops } = self else { return f.write_str("Del") };
        let arrow = match (direction, f.alternate()) {
            (Direction::Up, false) => "⇑",
            (Direction::Down, false) => "⇓",
            (Direction::Any, false) => "⇕",
            (Direction::Up, true) => "^",
            (Direction::Down, true) => "v",
            (Direction::Any, true) => "*",
        };
        let ops = ops.iter().map(Op::to_string).collect::<Vec<_>>().join(",");
        write!(f, "{arrow}({ops})")
    }
}

impl fmt::Display for MarchTest {
    /// In the field's Unicode notation, `{⇕(w0); ⇑(r0,w1); ⇓(r1)}`; with `#`, in ASCII.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, element) in self.elements.iter().enumerate() {
            f.write_str(if i == 0 { "{" } else { "; " })?;
            fmt::Display::fmt(element, f)?;
        }
        f.write_str("}")
    }
}

impl Serialize for MarchTest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
pub(crate) mod arbitrary {
    //! Any sound march test, for properties.

    use super::*;
    use proptest::prelude::*;

    /// Tests of up to 12 elements of up to 7 operations after a first write, with delays among them.
    pub(crate) fn any_test() -> impl Strategy<Value = MarchTest> {
        let direction = prop_oneof![Just(Direction::Up), Just(Direction::Down), Just(Direction::Any)];
        // An operation is a write of a value, or a read of the present value.
        let sweep = (direction, prop::collection::vec(any::<Option<bool>>(), 1..8));
        prop::collection::vec(prop::option::weighted(0.8, sweep), 0..12).prop_map(|elements| {
            let mut holds = false;
            let mut ops_of = |writes: Vec<Option<bool>>| {
                let op = |write: Option<bool>| {
                    holds = write.unwrap_or(holds);
                    write.map_or(Op::Read(holds), Op::Write)
                };
                writes.into_iter().map(op).collect()
            };
            let mut built = vec![Element::Sweep { direction: Direction::Any, ops: vec![Op::Write(false)] }];
            built.extend(elements.into_iter().map(|element| match element {
                None => Element::Delay,
                Some((direction, writes)) => Element::Sweep { direction, ops: ops_of(writes) },
            }));
            MarchTest::from_elements(built)
        })
    }
}
