//! Frames that a guarded program found bad are retired when the program lets them go.
//!
//! **Problem.** A frame that is only on the map is handed out again as soon as the guard that holds it has ended, until
//! somebody runs `rampart map restore`. While the guard lives the frame may be in use. **Idea.** Each frame waits for
//! the process that reported it. Once that has ended the frame is free, or somebody else's for a moment, and the kernel
//! is asked to move what is there and to keep the frame. **Why this way.** Nobody is harmed: a soft retirement moves
//! content and loses none. What is still refused then is tried once more when the program has ended, also where a
//! process of it runs on.

use rampart_memory::Frame;
use rampart_memory::fault_map::Retirement;

/// What retires a frame.
pub type Retire = Box<dyn Fn(Frame) -> Retirement>;

/// Frames that wait.
pub struct Retiring {
    retire: Retire,
    /// Each with the process that reported it, and whether the kernel refused it before.
    waiting: Vec<(u32, Frame, bool)>,
}

impl Retiring {
    /// None yet.
    pub fn new(retire: Retire) -> Self {
        Self { retire, waiting: Vec::new() }
    }

    /// A process has reported a frame as bad.
    pub fn add(&mut self, process: u32, frame: Frame) {
        if self.waiting.iter().all(|(_, waiting, _)| *waiting != frame) {
            self.waiting.push((process, frame, false));
        }
    }

    /// Tries frames whose process has ended, each once. Returns those that are retired.
    pub fn look(&mut self, has_ended: impl Fn(u32) -> bool) -> Vec<(Frame, Retirement)> {
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

    /// The program has ended: tries all that are left, and returns what became of them.
    pub fn end(&mut self) -> Vec<(Frame, Retirement)> {
        std::mem::take(&mut self.waiting).into_iter().map(|(_, frame, _)| (frame, (self.retire)(frame))).collect()
    }
}

/// What became of a frame, for people.
pub fn said((frame, retirement): &(Frame, Retirement)) -> String {
    match retirement {
        Retirement::Offlined => format!("frame {frame} is retired"),
        Retirement::Refused(why) => format!("frame {frame} is not retired: {why}; `rampart map restore` tries again"),
        Retirement::Pending => format!("frame {frame} is not retired; `rampart map restore` tries again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    fn frame(number: u64) -> Frame {
        Frame::new(number).unwrap()
    }

    #[test]
    fn a_frame_is_retired_once_its_process_has_ended_and_not_before() {
        let asked: Rc<RefCell<Vec<Frame>>> = Rc::default();
        let seen = Rc::clone(&asked);
        let mut retiring = Retiring::new(Box::new(move |frame| {
            seen.borrow_mut().push(frame);
            Retirement::Offlined
        }));
        retiring.add(7, frame(1));
        retiring.add(8, frame(2));
        retiring.add(8, frame(1));
        assert_eq!(retiring.look(|_| false), []);
        assert_eq!(retiring.look(|process| process == 8), [(frame(2), Retirement::Offlined)]);
        assert_eq!(*asked.borrow(), [frame(2)]);
        assert_eq!(retiring.end(), [(frame(1), Retirement::Offlined)], "at the program's end at the latest");
        assert_eq!(retiring.end(), []);
        assert_eq!(*asked.borrow(), [frame(2), frame(1)]);
    }

    #[test]
    fn a_frame_that_the_kernel_refuses_is_tried_again_at_the_end_and_no_more() {
        let tries = Rc::new(Cell::new(0));
        let counted = Rc::clone(&tries);
        let mut retiring = Retiring::new(Box::new(move |_| {
            counted.set(counted.get() + 1);
            Retirement::Refused("in use".to_owned())
        }));
        retiring.add(7, frame(1));
        (0..5).for_each(|_| assert_eq!(retiring.look(|_| true), []));
        assert_eq!(tries.get(), 1);
        let ended = retiring.end();
        assert_eq!(tries.get(), 2);
        assert!(
            said(&ended[0]).contains("frame 0x1 is not retired: in use; `rampart map restore`"),
            "{}",
            said(&ended[0])
        );
    }
}
