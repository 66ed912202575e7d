//! How memory can fail, and memory that fails on purpose (StealthWorks).
//!
//! **Problem.** A tester that has never met bad memory is only believed to work. **Idea.** A fault model stands between
//! the tester and good memory and answers as bad memory would: the classic faults of the march-test literature, placed
//! by frame or at random from a seed, each with lines of its own so that none hides another
//! [Rahman16, end of ch. 4, reference 56]. **Why this way.** The parts know nothing of each
//! other's work: [`model`] says what can be wrong, [`spec`] how a person asks for it, [`place`] where it lies,
//! [`emulator`] what it does; and the emulator sees memory only through [`LineAccess`], so one model serves real
//! memory, a simulation and the coverage proofs alike.

mod cell;
mod describe;
mod draw;
pub mod emulator;
pub mod model;
pub mod place;
pub mod spec;

pub use cell::{Cell, Direction, LineSpan, NotAProbability, NotAWord, Probability, WordPattern};
pub use emulator::{Emulator, LineAccess};
pub use model::{
    AddressFault, Coupling, Effect, FaultKind, Floating, Idempotent, Persistence, PlacedFault, Reached, Wired,
};
pub use place::{Campaign, TooManyFaults};
pub use spec::{FaultClass, InjectionSpec, ParseInjectionError};
