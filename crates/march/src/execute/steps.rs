//! An element as the steps that the inner loop knows.
//!
//! **Problem.** In `(r0,w1,r1,w0)` the second read, done at once, would see the write before it in the cache and not in
//! the DRAM; of two writes done at once, the first would never leave the processor. **Idea.** An element is cut
//! wherever an operation must not follow the one before it at once. The steps are then one read, one write, or a read
//! and then a write; between two steps the lines leave the caches. **Why this way.** The layers below need no other
//! distinction, and the elements of the common tests are one step each.

use rampart_memory::LineData;

use crate::{Background, Direction, Element, MarchTest, Op};

/// An element of a march test with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Sweep { direction: Direction, steps: Vec<Step> },
    Delay,
}

/// The operations on a line at one visit: a read, a write, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// First a read.
    pub read: Option<Read>,
    /// Then a write of this content.
    pub write: Option<LineData>,
    /// Whether the line must leave the caches afterwards: a write must reach the DRAM, and a read must come from it.
    /// Not needed after a read if the next operation on the line is a write.
    pub evict: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// Its index among the operations of its element.
    pub op: usize,
    pub expected: LineData,
}

impl Step {
    pub(super) fn operations(&self) -> u64 {
        u64::from(self.read.is_some()) + u64::from(self.write.is_some())
    }
}

/// The stages of a test, one for each of its elements.
pub(super) fn compile(test: &MarchTest, background: &Background) -> Vec<Stage> {
    let stage = |element: &Element| match element {
        Element::Sweep { direction, ops } => Stage::Sweep { direction: *direction, steps: steps_of(ops, background) },
        Element::Delay => Stage::Delay,
    };
    let mut stages: Vec<_> = test.elements().iter().map(stage).collect();
    let mut next_reads = false;
    let all = stages.iter_mut().rev().filter_map(|stage| match stage {
        Stage::Sweep { steps, .. } => Some(steps),
        Stage::Delay => None,
    });
    for step in all.flat_map(|steps| steps.iter_mut().rev()) {
        step.evict = step.write.is_some() || next_reads;
        next_reads = step.read.is_some();
    }
    stages
}

fn steps_of(ops: &[Op], background: &Background) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (op, operation) in ops.iter().enumerate() {
        match (*operation, steps.last_mut()) {
            (Op::Write(value), Some(last @ Step { write: None, .. })) => last.write = Some(background.line(value)),
            (Op::Write(value), _) => steps.push(Step { read: None, write: Some(background.line(value)), evict: true }),
            (Op::Read(value), _) => {
                let read = Read { op, expected: background.line(value) };
                steps.push(Step { read: Some(read), write: None, evict: true });
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps of each element, `!` where the line must leave the caches.
    fn shown(notation: &str) -> String {
        let letters = |step: &Step| {
            let read = step.read.as_ref().map_or("", |_| "r");
            let write = step.write.map_or("", |_| "w");
            format!("{read}{write}{}", if step.evict { "!" } else { "" })
        };
        let stages = compile(&notation.parse().unwrap(), &Background::solid());
        let stages = stages.iter().map(|stage| match stage {
            Stage::Sweep { steps, .. } => steps.iter().map(letters).collect::<Vec<_>>().join(" "),
            Stage::Delay => "Del".to_owned(),
        });
        stages.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn an_element_is_cut_before_every_read_and_between_writes() {
        assert_eq!(shown("{*(w0); ^(r0,w1,r1,w0); v(r0,r0,w1,w0)}"), "w!; rw! rw!; r! rw! w!");
    }

    #[test]
    fn a_line_may_stay_cached_after_a_read_if_a_write_or_nothing_comes_next() {
        assert_eq!(shown("{*(w0); ^(r0); v(w1); ^(r1); Del; *(r1)}"), "w!; r; w!; r!; Del; r");
    }

    #[test]
    fn reads_know_their_place_and_their_data() {
        let background = Background { name: "stripes".to_owned(), data: LineData([0x5555; 8]) };
        let stages = compile(&"{*(w1); ^(r1,w0,r0)}".parse().unwrap(), &background);
        let Stage::Sweep { steps, .. } = &stages[1] else { panic!("a sweep") };
        let reads: Vec<_> = steps.iter().filter_map(|step| step.read.clone()).collect();
        assert_eq!(
            reads,
            [Read { op: 0, expected: background.data.inverted() }, Read { op: 2, expected: background.data }]
        );
    }
}
