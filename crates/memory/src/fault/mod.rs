//! How memory can fail, and memory that fails on purpose (StealthWorks).
//!
//! **Problem.** A tester that has never met bad memory may not work. **Idea.** A fault model stands between the tester
//! and good memory and answers as bad memory would: the classic faults of the march-test literature, placed by frame or
//! at random from a seed, each on its own lines so that none hides another [Rahman16, end of ch. 4, reference 56].
//! **Why this way.** The parts are independent: [`model`] defines the faults, [`spec`] reads them from a text,
//! [`place`] places them, [`emulator`] applies them. The emulator accesses memory only through [`LineAccess`], so one
//! model serves real memory, a simulation and the coverage proofs.

mod cell;
mod describe;
mod draw;
pub mod emulator;
pub mod model;
pub mod place;
pub mod spec;

pub use cell::{FaultCell, LineSpan, NotAProbability, NotAWord, Probability, TransitionDirection, WordPattern};
pub use emulator::{Emulator, LineAccess};
pub use model::{
    AddressFault, Coupling, Effect, FaultKind, Floating, Idempotent, Persistence, PlacedFault, Reached, Wired,
};
pub use place::{Campaign, TooManyFaults};
pub use spec::{FaultClass, InjectionSpec, ParseInjectionError};
