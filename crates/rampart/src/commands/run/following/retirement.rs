//! Retires the frames that a guarded program found bad, once the program no longer uses them.
//!
//! **Problem.** The kernel hands out a frame that is only on the map again as soon as the guard that holds it has
//! ended, until somebody runs `rampart map restore`. While the guard lives, the frame may be in use. **Idea.** Each
//! frame waits until the process that reported it has ended. The frame is then free, or another process has just got
//! it, and the kernel is asked to move its content and to retire it. **Why this way.** A soft retirement moves content
//! and loses none. A frame that the kernel refuses to retire is tried once more when the program has ended, even if one
//! of its processes runs on.

use rampart_memory::Frame;
use rampart_memory::fault_map::Retirement;

/// Retires a frame.
pub type Retire = Box<dyn Fn(Frame) -> Retirement>;

/// Bad frames that are not retired yet.
pub struct PendingRetirements {
    retire: Retire,
    /// Each frame with the process that reported it, and whether the kernel refused to retire it.
    waiting: Vec<(u32, Frame, bool)>,
}

impl PendingRetirements {
    /// None yet; `retire` will retire them.
    pub fn new(retire: Retire) -> Self {
        Self { retire, waiting: Vec::new() }
    }

    /// Adds a bad frame, which this process reported.
    pub fn add(&mut self, process: u32, frame: Frame) {
        if self.waiting.iter().all(|(_, waiting, _)| *waiting != frame) {
            self.waiting.push((process, frame, false));
        }
    }

    /// Retires frames whose process has ended; tries each once. Returns the retired ones.
    pub fn retire_ended(&mut self, has_ended: impl Fn(u32) -> bool) -> Vec<(Frame, Retirement)> {
        let mut retired = Vec::new();
        for (process, frame, was_refused) in &mut self.waiting {
            if *was_refused || !has_ended(*process) {
                continue;
            }
            match (self.retire)(*frame) {
                Retirement::Offlined => retired.push((*frame, Retirement::Offlined)),
                Retirement::Refused(_) | Retirement::Pending => *was_refused = true,
            }
        }
        self.waiting.retain(|(_, frame, _)| !retired.iter().any(|(done, _)| done == frame));
        retired
    }

    /// Retires all remaining frames, since the program has ended. Returns each with the result.
    pub fn retire_all(&mut self) -> Vec<(Frame, Retirement)> {
        std::mem::take(&mut self.waiting).into_iter().map(|(_, frame, _)| (frame, (self.retire)(frame))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use super::super::messages;

    fn frame(number: u64) -> Frame {
        Frame::new(number).unwrap()
    }

    #[test]
    fn a_frame_is_retired_once_its_process_has_ended_and_not_before() {
        let asked: Rc<RefCell<Vec<Frame>>> = Rc::default();
        let seen = Rc::clone(&asked);
        let mut pending = PendingRetirements::new(Box::new(move |frame| {
            seen.borrow_mut().push(frame);
            Retirement::Offlined
        }));
        pending.add(7, frame(1));
        pending.add(8, frame(2));
        pending.add(8, frame(1));
        assert_eq!(pending.retire_ended(|_| false), []);
        assert_eq!(pending.retire_ended(|process| process == 8), [(frame(2), Retirement::Offlined)]);
        assert_eq!(*asked.borrow(), [frame(2)]);
        assert_eq!(pending.retire_all(), [(frame(1), Retirement::Offlined)], "at the program's end at the latest");
        assert_eq!(pending.retire_all(), []);
        assert_eq!(*asked.borrow(), [frame(2), frame(1)]);
    }

    #[test]
    fn a_frame_that_the_kernel_refuses_is_tried_again_at_the_end_and_no_more() {
        let tries = Rc::new(Cell::new(0));
        let counted = Rc::clone(&tries);
        let mut pending = PendingRetirements::new(Box::new(move |_| {
            counted.set(counted.get() + 1);
            Retirement::Refused("in use".to_owned())
        }));
        pending.add(7, frame(1));
        (0..5).for_each(|_| assert_eq!(pending.retire_ended(|_| true), []));
        assert_eq!(tries.get(), 1);
        let results = pending.retire_all();
        assert_eq!(tries.get(), 2);
        let message = messages::retirement(&results[0]);
        assert!(message.contains("frame 0x1 is not retired: in use; `rampart map restore`"), "{message}");
    }
}
