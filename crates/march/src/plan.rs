//! What a test run does: which march test on which background in which order.
//!
//! **Problem.** Faults between lines are found by the order of visits and need the whole march test; faults inside a
//! line are found by the data and need every background. The whole test on every background would do both at f times
//! the cost. **Idea.** Run the whole test on the solid background, once in each order asked for; then March X, six
//! operations, on each further background: it writes the background, its complement and the background again and reads
//! each, and state, inversion and idempotent coupling inside a line ask for no more (van de Goor and Tlili, *March
//! tests for word-oriented memories*, DATE 1998). So March C- at fidelity 10 takes 64 operations a line and not 100.
//! **Why nothing is claimed for it.** [`crate::coverage`] computes from these very passes what they find.

use std::fmt;

use serde::Serialize;

use crate::background::{Background, backgrounds};
use crate::{Fidelity, MarchTest, Order, named};

/// Which faults a pass is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aim {
    /// Faults of one cell, of addresses, and between cells of different lines: the order of visits counts.
    BetweenLines,
    /// Faults between bits of one line: any order will do.
    WithinLine,
}

/// One march test over all lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pass {
    /// The march test.
    pub test: MarchTest,
    /// What stands for 0 and 1.
    pub background: Background,
    /// The order in which lines are visited.
    pub order: Order,
    /// Which faults it is there for.
    pub aim: Aim,
}

/// A list of passes; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    test: MarchTest,
    fidelity: Fidelity,
    passes: Vec<Pass>,
}

impl Plan {
    /// The test on the solid background in each of the orders, then March X once on each further background of the
    /// fidelity. `seed` makes the random backgrounds. Panics without an order.
    #[must_use]
    pub fn new(test: MarchTest, fidelity: Fidelity, orders: &[Order], seed: u64) -> Self {
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
        Self { passes: whole.chain(further).collect(), test, fidelity }
    }

    /// The march test between lines.
    #[must_use]
    pub const fn test(&self) -> &MarchTest {
        &self.test
    }

    /// How many backgrounds it uses, each with its complement.
    #[must_use]
    pub const fn fidelity(&self) -> Fidelity {
        self.fidelity
    }

    /// What is done, in this order.
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

    /// The orders of the passes between lines.
    pub fn orders(&self) -> impl Iterator<Item = Order> + '_ {
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
        let orders: Vec<_> = self.orders().map(|order| order.to_string()).collect();
        write!(f, "{} in {} order", self.test, orders.join(" and "))?;
        if self.fidelity > Fidelity::MIN {
            write!(f, ", March X on {} more backgrounds", self.fidelity.backgrounds() - 1)?;
        }
        write!(f, ": {} operations a line", self.length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &str, fidelity: u32, orders: &[Order]) -> Plan {
        Plan::new(named::find(name).unwrap().test(), Fidelity::new(fidelity).unwrap(), orders, 7)
    }

    #[test]
    fn march_c_minus_on_ten_backgrounds_takes_64_operations_a_line() {
        let plan = plan("March C-", 10, &[Order::Sequential]);
        assert_eq!((plan.length(), plan.reads(), plan.writes()), (64, 32, 32));
        assert_eq!(plan.passes().len(), 10);
    }

    #[test]
    fn the_whole_test_runs_in_every_order_and_further_backgrounds_once() {
        let plan = plan("March G", 3, &[Order::Sequential, Order::Interleaved]);
        let passes: Vec<_> = plan.passes().iter().map(|p| (p.aim, p.background.name.as_str(), p.order)).collect();
        assert_eq!(
            passes,
            [
                (Aim::BetweenLines, "solid", Order::Sequential),
                (Aim::BetweenLines, "solid", Order::Interleaved),
                (Aim::WithinLine, "period 2", Order::Sequential),
                (Aim::WithinLine, "period 4", Order::Sequential),
            ]
        );
        assert_eq!((plan.length(), plan.delays()), (2 * 23 + 2 * 6, 4));
    }

    #[test]
    fn the_least_fidelity_is_the_test_alone() {
        let plan = plan("MATS+", 1, &[Order::Sequential]);
        assert_eq!(plan.to_string(), "{⇕(w0); ⇑(r0,w1); ⇓(r1,w0)} in sequential order: 5 operations a line");
    }
}
