//! The claimed steps that are not under test: steps to test, and steps that are only held.

use rampart_memory::{Bytes, Node, Tested};

/// A claimed step that is not under test.
#[derive(Debug)]
pub struct HeldStep<R> {
    pub region: R,
    pub bytes: Bytes,
    pub node: Node,
    /// Pages in bad frames.
    pub bad: Vec<u64>,
}

/// All claimed steps that are not under test.
#[derive(Debug)]
pub struct HeldSteps<R> {
    untested: Vec<UntestedStep<R>>,
    held: Vec<HeldStep<R>>,
    bytes: Bytes,
}

#[derive(Debug)]
struct UntestedStep<R> {
    held: HeldStep<R>,
    preferred: bool,
    oldest: Tested,
}

impl<R> Default for HeldSteps<R> {
    fn default() -> Self {
        Self { untested: Vec::new(), held: Vec::new(), bytes: Bytes::ZERO }
    }
}

impl<R> HeldSteps<R> {
    /// Their total size.
    pub const fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Whether some steps must be tested.
    pub const fn has_work(&self) -> bool {
        !self.untested.is_empty()
    }

    /// Adds a step that need not be tested.
    pub fn hold(&mut self, held: HeldStep<R>) {
        self.bytes = Bytes::new(self.bytes.get() + held.bytes.get());
        self.held.push(held);
    }

    /// Adds a step to test; `oldest` is the oldest test of its frames.
    pub fn add_work(&mut self, held: HeldStep<R>, preferred: bool, oldest: Tested) {
        self.bytes = Bytes::new(self.bytes.get() + held.bytes.get());
        self.untested.push(UntestedStep { held, preferred, oldest });
    }

    /// Takes the next step of a node to test: preferred steps first, then the step with the oldest test.
    pub fn take_work(&mut self, node: Node) -> Option<HeldStep<R>> {
        let of_node = self.untested.iter().enumerate().filter(|(_, step)| step.held.node == node);
        let (next, _) = of_node.min_by_key(|(_, step)| (!step.preferred, step.oldest))?;
        // `remove` keeps the order, so that among equal steps the one claimed first comes first.
        let held = self.untested.remove(next).held;
        self.bytes = self.bytes.saturating_sub(held.bytes);
        Some(held)
    }

    /// Takes a step to give back, held ones first, and returns whether it still had to be tested.
    pub fn give_up(&mut self) -> Option<(HeldStep<R>, bool)> {
        let (held, untested) = match self.held.pop() {
            Some(held) => (held, false),
            None => (self.youngest()?, true),
        };
        self.bytes = self.bytes.saturating_sub(held.bytes);
        Some((held, untested))
    }

    fn youngest(&mut self) -> Option<HeldStep<R>> {
        let (last, _) = self.untested.iter().enumerate().max_by_key(|(_, step)| (!step.preferred, step.oldest))?;
        Some(self.untested.remove(last).held)
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
            let mut steps = HeldSteps::default();
            let tested = |micros| Tested::at(Timestamp::from_micros(micros));
            steps.add_work(step('a'), false, tested(9));
            steps.add_work(step('b'), false, tested(3));
            steps.add_work(step('c'), true, tested(9));
            steps.hold(step('d'));
            steps
        };
        let mut steps = fill();
        assert_eq!(steps.bytes(), Bytes::from_mib(8));
        let order: String = std::iter::from_fn(|| steps.take_work(Node(0))).map(|held| held.region).collect();
        assert_eq!(order, "cba");
        assert!(fill().take_work(Node(1)).is_none());

        let mut steps = fill();
        let order: Vec<_> = std::iter::from_fn(|| steps.give_up()).map(|(held, work)| (held.region, work)).collect();
        assert_eq!(order, [('d', false), ('a', true), ('b', true), ('c', true)]);
        assert_eq!(steps.bytes(), Bytes::ZERO);
    }
}
