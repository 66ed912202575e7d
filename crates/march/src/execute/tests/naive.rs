//! The reference model: the definition of a march test, operation by operation, without any cache.

use std::ops::ControlFlow;
use std::time::Duration;

use rampart_memory::fault::{Emulator, LineAccess};
use rampart_memory::{LineData, RegionLine};

use super::Memory;
use crate::execute::{Mismatch, Watch};
use crate::{Direction, Element, Op, Pass, Visit};

/// The memory's lines by their numbers in a region.
pub(super) struct Lines<'m> {
    pub memory: &'m Memory,
    /// Whether the pages are taken last to first.
    pub pages_reversed: bool,
}

impl Lines<'_> {
    fn place(&self, line: RegionLine) -> RegionLine {
        let page = if self.pages_reversed { self.memory.lines() / 64 - 1 - line.page() } else { line.page() };
        RegionLine(page * 64 + u64::from(line.in_page()))
    }
}

impl LineAccess for Lines<'_> {
    fn load(&mut self, line: RegionLine) -> LineData {
        self.memory.get(self.place(line))
    }

    fn store(&mut self, line: RegionLine, data: LineData) {
        self.memory.set(self.place(line), data);
    }
}

/// Runs a pass as [`crate::execute::Executor::run`] does; false if it was stopped.
pub(super) fn run(
    mut memory: Lines<'_>,
    pass: &Pass,
    visit: Visit,
    delay: Duration,
    emulator: &mut Emulator,
    watch: &mut dyn Watch,
) -> bool {
    let ascending: Vec<_> = visit.columns().flat_map(|c| (0..c.count).map(move |i| c.first.0 + i * c.stride)).collect();
    for (element, stage) in pass.test.elements().iter().enumerate() {
        let Element::Sweep { direction, ops } = stage else {
            if watch.pause(delay) == ControlFlow::Break(()) {
                return false;
            }
            emulator.pause(&mut memory, delay);
            continue;
        };
        let mut lines = ascending.clone();
        if *direction == Direction::Down {
            lines.reverse();
        }
        for line in lines.iter().copied().map(RegionLine) {
            for (op, operation) in ops.iter().enumerate() {
                match *operation {
                    Op::Write(value) => emulator.write(&mut memory, line, pass.background.line(value)),
                    Op::Read(value) => {
                        let expected = pass.background.line(value);
                        let found = emulator.read(&mut memory, line);
                        if found != expected {
                            let reread = emulator.read(&mut memory, line);
                            let (order, emulated) = (pass.order, emulator.lines().contains(&line));
                            watch.mismatch(&Mismatch { line, expected, found, reread, element, op, order, emulated });
                        }
                    }
                }
            }
        }
        if watch.advanced(lines.len() as u64 * ops.len() as u64) == ControlFlow::Break(()) {
            return false;
        }
    }
    true
}
