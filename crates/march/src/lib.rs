//! March tests: written in the field's notation, proved by a fault simulator, run at the speed of the DRAM.
//!
//! **Problem.** The value of a memory test is what it provably finds, and only if its reads come from the DRAM and not
//! from a cache. **Idea.** A march test is data ([`MarchTest`]): the same value is parsed, shown, simulated against
//! every fault of the field's models, and compiled to loops. **Why this way.** The coverage in the report is computed
//! from the test that ran, in the order in which it ran.
//!
//! Libraries: `displaydoc` and `thiserror` for errors, `rand`/`rand_chacha` for backgrounds from a seed, `serde` for
//! reports.

pub mod background;
pub mod coverage;
pub mod execute;
pub mod named;
pub mod notation;
pub mod order;
pub mod plan;
pub mod simulator;
pub mod test;

pub use background::Background;
pub use coverage::{KindCoverage, guarantees, plan_coverage};
pub use named::{MarchChoice, NamedTest};
pub use notation::NotationError;
pub use order::{AddressSequence, Visit};
pub use plan::{Aim, Part, Pass, Plan};
pub use rampart_memory::Fidelity;
pub use test::{Direction, Element, MarchTest, Op};
