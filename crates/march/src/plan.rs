//! The plan of a test run: the march tests, their backgrounds, and their address sequences.
//!
//! **Problem.** Faults between lines are found by the order of visits and need the whole march test; faults inside a
//! line are found by the data and need every background. The whole test on each of f backgrounds would find both at f
//! times the cost. **Idea.** Run the whole test on the solid background, once in each requested sequence. Then run
//! March X, six operations, on each further background: it writes the background, its complement and the background
//! again and reads each, which is all that state, inversion and idempotent coupling inside a line need (van de Goor and
//! Tlili, *March tests for word-oriented memories*, DATE 1998). So March C- at fidelity 10 takes 64 operations per line
//! and not 100. **Why no coverage is stated here.** [`crate::coverage`] computes from the passes themselves what they
//! find.
//!
//! **Slow retention.** A test that stays with its block reads too early to see a cell that loses its value some 100 ms
//! after a write. [`Plan::with_delayed_reads`] lets the block *rest* while the tester goes on with others. The first
//! pass does its last read after a rest, and the last pass, which exchanges 0 and 1, is followed by one more read after
//! a second rest. So each cell is checked for both values, for one more read.

use std::fmt;
use std::ops::Range;

use rampart_memory::Fidelity;
use serde::Serialize;

use crate::background::{Background, backgrounds};
use crate::{AddressSequence, MarchTest, named};

/// The faults that a pass should find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aim {
    /// Faults of one cell, of addresses, and between cells of different lines: the order of visits counts.
    BetweenLines,
    /// Faults between bits of one line: any sequence will do.
    WithinLine,
}

/// One march test over all lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pass {
    /// The march test.
    pub test: MarchTest,
    /// The data for 0 and 1.
    pub background: Background,
    /// The sequence in which lines are visited.
    pub order: AddressSequence,
    /// The faults that it should find.
    pub aim: Aim,
}

/// A list of passes; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    test: MarchTest,
    fidelity: Fidelity,
    passes: Vec<Pass>,
    rests: Vec<Rest>,
}

/// A `Del` element of a pass during which the tester leaves the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Rest {
    pass: usize,
    element: usize,
}

/// Elements of a pass that are done without a rest between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'p> {
    /// The pass.
    pub pass: &'p Pass,
    /// The elements.
    pub elements: Range<usize>,
    /// Whether the block has rested before them.
    pub rested: bool,
}

impl<'p> Part<'p> {
    /// All elements of a pass.
    #[must_use]
    pub fn whole(pass: &'p Pass) -> Self {
        Self { pass, elements: 0..pass.test.elements().len(), rested: false }
    }
}

impl Plan {
    /// The test on the solid background in each of the sequences, then March X once on each further background of the
    /// fidelity. `seed` gives the random backgrounds. Panics without a sequence.
    #[must_use]
    pub fn new(test: MarchTest, fidelity: Fidelity, orders: &[AddressSequence], seed: u64) -> Self {
        assert!(!orders.is_empty(), "a plan visits lines in some order");
        let within = named::find("March X").expect("March X is a named test").test();
        let whole = orders.iter().map(|&order| Pass {
            test: test.clone(),
            background: Background::solid(),
            order,
            aim: Aim::BetweenLines,
        });
        let further = backgrounds(fidelity, seed).skip(1).map(|background| Pass {
            test: within.clone(),
            background,
            order: orders[0],
            aim: Aim::WithinLine,
        });
        Self { passes: whole.chain(further).collect(), test, fidelity, rests: Vec::new() }
    }

    /// The same plan with rests: its last pass is in the last of its sequences and followed by one more read, after a
    /// rest. With several sequences, the first pass also rests before its last read, and the last pass has 0 and 1
    /// exchanged.
    #[must_use]
    pub fn with_delayed_reads(mut self) -> Self {
        let whole = self.passes.iter().rposition(|pass| pass.aim == Aim::BetweenLines).expect("a plan has an order");
        let mut last = self.passes.remove(whole);
        if whole > 0 {
            let element = self.passes[0].test.rest_before_last_read();
            self.rests.push(Rest { pass: 0, element });
            last.test = last.test.complement();
        }
        let element = last.test.rest_and_read();
        self.rests.push(Rest { pass: self.passes.len(), element });
        self.passes.push(last);
        self
    }

    /// The stages of a block, from rest to rest.
    #[must_use]
    pub fn stages(&self) -> Vec<Vec<Part<'_>>> {
        let mut stages = vec![Vec::new()];
        for (number, pass) in self.passes.iter().enumerate() {
            let whole = Part::whole(pass);
            let stage = stages.last_mut().expect("there is always one");
            match self.rest_in(number) {
                Some(element) => {
                    let end = whole.elements.end;
                    stage.push(Part { elements: 0..element, ..whole });
                    stages.push(vec![Part { pass, elements: element + 1..end, rested: true }]);
                }
                None => stage.push(whole),
            }
        }
        stages
    }

    /// The index of the stage after which the march tests are complete: only a read after a rest may follow.
    #[must_use]
    pub fn tested_after(&self) -> usize {
        self.rests.len().saturating_sub(1)
    }

    /// The element of a pass during which the tester leaves the block.
    #[must_use]
    pub fn rest_in(&self, pass: usize) -> Option<usize> {
        self.rests.iter().find(|rest| rest.pass == pass).map(|rest| rest.element)
    }

    /// The number of rests of a block.
    #[must_use]
    pub fn rests(&self) -> usize {
        self.rests.len()
    }

    /// The march test between lines.
    #[must_use]
    pub const fn test(&self) -> &MarchTest {
        &self.test
    }

    /// The number of backgrounds, each with its complement.
    #[must_use]
    pub const fn fidelity(&self) -> Fidelity {
        self.fidelity
    }

    /// The passes, in order.
    #[must_use]
    pub fn passes(&self) -> &[Pass] {
        &self.passes
    }

    /// Reads of each line.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.passes.iter().map(|pass| pass.test.reads()).sum()
    }

    /// Writes of each line.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.passes.iter().map(|pass| pass.test.writes()).sum()
    }

    /// Operations on each line.
    #[must_use]
    pub fn length(&self) -> usize {
        self.reads() + self.writes()
    }

    /// Pauses of the whole run, in which nothing is read or written.
    #[must_use]
    pub fn delays(&self) -> usize {
        self.passes.iter().map(|pass| pass.test.delays()).sum()
    }

    /// The address sequences of the passes between lines.
    pub fn sequences(&self) -> impl Iterator<Item = AddressSequence> + '_ {
        self.passes.iter().filter(|pass| pass.aim == Aim::BetweenLines).map(|pass| pass.order)
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, background {}, {}", self.test, self.background, self.order)
    }
}

impl fmt::Display for Plan {
    /// One line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let orders: Vec<_> = self.sequences().map(|order| order.to_string()).collect();
        write!(f, "{} in {} order", self.test, orders.join(" and "))?;
        if self.fidelity > Fidelity::MIN {
            write!(f, ", March X on {} more backgrounds", self.fidelity.backgrounds() - 1)?;
        }
        if !self.rests.is_empty() {
            f.write_str(", with a delayed read")?;
        }
        write!(f, ": {} operations a line", self.length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &str, fidelity: u32, orders: &[AddressSequence]) -> Plan {
        Plan::new(named::find(name).unwrap().test(), Fidelity::new(fidelity).unwrap(), orders, 7)
    }

    #[test]
    fn march_c_minus_on_ten_backgrounds_takes_64_operations_a_line() {
        let plan = plan("March C-", 10, &[AddressSequence::Sequential]);
        assert_eq!((plan.length(), plan.reads(), plan.writes()), (64, 32, 32));
        assert_eq!(plan.passes().len(), 10);
    }

    #[test]
    fn the_whole_test_runs_in_every_order_and_further_backgrounds_once() {
        let plan = plan("March G", 3, &[AddressSequence::Sequential, AddressSequence::Strided]);
        let passes: Vec<_> = plan.passes().iter().map(|p| (p.aim, p.background.name.as_str(), p.order)).collect();
        assert_eq!(
            passes,
            [
                (Aim::BetweenLines, "solid", AddressSequence::Sequential),
                (Aim::BetweenLines, "solid", AddressSequence::Strided),
                (Aim::WithinLine, "period 2", AddressSequence::Sequential),
                (Aim::WithinLine, "period 4", AddressSequence::Sequential),
            ]
        );
        assert_eq!((plan.length(), plan.delays()), (2 * 23 + 2 * 6, 4));
    }

    /// The notation of each part, stage by stage.
    fn stages(plan: &Plan) -> Vec<Vec<String>> {
        let shown = |part: &Part<'_>| {
            let elements = &part.pass.test.elements()[part.elements.clone()];
            let elements: Vec<_> = elements.iter().map(|element| format!("{element:#}")).collect();
            format!("{}{} {}", if part.rested { "rested " } else { "" }, elements.join(";"), part.pass.background.name)
        };
        plan.stages().iter().map(|stage| stage.iter().map(shown).collect()).collect()
    }

    #[test]
    fn in_two_orders_both_values_rest_at_one_read_more() {
        let plan = plan("MATS+", 2, &[AddressSequence::Sequential, AddressSequence::Strided]);
        let rested = plan.clone().with_delayed_reads();
        assert_eq!(
            stages(&rested),
            [
                vec!["*(w0);^(r0,w1);v(r1,w0) solid"],
                vec!["rested *(r0) solid", "*(w0);^(r0,w1);v(r1,w0);*(r0) period 2", "*(w1);^(r1,w0);v(r0,w1) solid"],
                vec!["rested *(r1) solid"],
            ]
        );
        assert_eq!((rested.length(), rested.tested_after()), (plan.length() + 2, 1));

        // March C- reads last anyway: the first rest costs nothing.
        let plan = self::plan("March C-", 1, &[AddressSequence::Sequential, AddressSequence::Strided]);
        let rested = plan.clone().with_delayed_reads();
        assert_eq!(rested.length(), plan.length() + 1);
        assert_eq!(stages(&rested)[1][0], "rested *(r0) solid");
        assert_eq!(stages(&rested)[2], ["rested *(r1) solid"]);
    }

    #[test]
    fn in_one_order_a_plan_ends_with_a_read_after_a_rest_and_without_rests_it_is_one_stage() {
        let plan = plan("MATS+", 1, &[AddressSequence::Strided]);
        assert_eq!((stages(&plan), plan.tested_after()), (vec![vec!["*(w0);^(r0,w1);v(r1,w0) solid".to_owned()]], 0));
        let rested = plan.with_delayed_reads();
        assert_eq!(stages(&rested), [["*(w0);^(r0,w1);v(r1,w0) solid"], ["rested *(r0) solid"]]);
        assert_eq!((rested.rests(), rested.tested_after()), (1, 0));
    }

    #[test]
    fn a_plan_and_its_passes_are_shown_in_a_line_each() {
        let plan = plan("MATS+", 3, &[AddressSequence::Sequential, AddressSequence::Strided]);
        let test = "{⇕(w0); ⇑(r0,w1); ⇓(r1,w0)}";
        let shown = format!("{test} in sequential and strided order, March X on 2 more backgrounds");
        assert_eq!(plan.to_string(), format!("{shown}: 22 operations a line"));
        assert_eq!(plan.passes()[1].to_string(), format!("{test}, background solid, strided"));
        let rested = plan.with_delayed_reads().to_string();
        assert_eq!(rested, format!("{shown}, with a delayed read: 24 operations a line"));
    }

    #[test]
    fn the_least_fidelity_is_the_test_alone() {
        let plan = plan("MATS+", 1, &[AddressSequence::Sequential]);
        assert_eq!(plan.to_string(), "{⇕(w0); ⇑(r0,w1); ⇓(r1,w0)} in sequential order: 5 operations a line");
    }
}
