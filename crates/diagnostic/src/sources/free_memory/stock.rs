//! The steps that are claimed and in nobody's hands: those to be tested, and those that are only held.

use rampart_memory::{Bytes, Node, Tested};

/// A claimed step that is not under test.
#[derive(Debug)]
pub struct HeldStep<R> {
    pub region: R,
    pub bytes: Bytes,
    pub node: Node,
    /// Pages on bad frames.
    pub bad: Vec<u64>,
}

/// All steps.
#[derive(Debug)]
pub struct HeldSteps<R> {
    work: Vec<Work<R>>,
    held: Vec<HeldStep<R>>,
    bytes: Bytes,
}

#[derive(Debug)]
struct Work<R> {
    held: HeldStep<R>,
    preferred: bool,
    oldest: Tested,
}

impl<R> Default for HeldSteps<R> {
    fn default() -> Self {
        Self { work: Vec::new(), held: Vec::new(), bytes: Bytes::ZERO }
    }
}

impl<R> HeldSteps<R> {
    /// Their size.
    pub const fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Whether some are to be tested.
    pub const fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// Keeps a step that need not be tested.
    pub fn hold(&mut self, held: HeldStep<R>) {
        self.bytes = Bytes::new(self.bytes.get() + held.bytes.get());
        self.held.push(held);
    }

    /// Keeps a step that must be tested: `oldest` is the time of its oldest frame's test.
    pub fn add_work(&mut self, held: HeldStep<R>, preferred: bool, oldest: Tested) {
        self.bytes = Bytes::new(self.bytes.get() + held.bytes.get());
        self.work.push(Work { held, preferred, oldest });
    }

    /// The next step of a node to test: a preferred one, then the one with the oldest test.
    pub fn work(&mut self, node: Node) -> Option<HeldStep<R>> {
        let of_node = self.work.iter().enumerate().filter(|(_, work)| work.held.node == node);
        let (next, _) = of_node.min_by_key(|(_, work)| (!work.preferred, work.oldest))?;
        // In order, so that of equal ones the one claimed first is next.
        let held = self.work.remove(next).held;
        self.bytes = self.bytes.saturating_sub(held.bytes);
        Some(held)
    }

    /// A step to give back, held ones first, and whether it still had to be tested.
    pub fn give_up(&mut self) -> Option<(HeldStep<R>, bool)> {
        let (held, untested) = match self.held.pop() {
            Some(held) => (held, false),
            None => (self.youngest()?, true),
        };
        self.bytes = self.bytes.saturating_sub(held.bytes);
        Some((held, untested))
    }

    fn youngest(&mut self) -> Option<HeldStep<R>> {
        let (last, _) = self.work.iter().enumerate().max_by_key(|(_, work)| (!work.preferred, work.oldest))?;
        Some(self.work.remove(last).held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use rampart_memory::Timestamp;

    fn step(region: char) -> HeldStep<char> {
        HeldStep { region, bytes: Bytes::from_mib(2), node: Node(0), bad: Vec::new() }
    }

    #[test]
    fn preferred_then_oldest_steps_are_tested_first_and_given_up_last() {
        let fill = || {
            let mut stock = HeldSteps::default();
            let tested = |micros| Tested::at(Timestamp::from_micros(micros));
            stock.add_work(step('a'), false, tested(9));
            stock.add_work(step('b'), false, tested(3));
            stock.add_work(step('c'), true, tested(9));
            stock.hold(step('d'));
            stock
        };
        let mut stock = fill();
        assert_eq!(stock.bytes(), Bytes::from_mib(8));
        let order: String = std::iter::from_fn(|| stock.work(Node(0))).map(|held| held.region).collect();
        assert_eq!(order, "cba");
        assert!(fill().work(Node(1)).is_none());

        let mut stock = fill();
        let order: Vec<_> = std::iter::from_fn(|| stock.give_up()).map(|(held, work)| (held.region, work)).collect();
        assert_eq!(order, [('d', false), ('a', true), ('b', true), ('c', true)]);
        assert_eq!(stock.bytes(), Bytes::ZERO);
    }
}
