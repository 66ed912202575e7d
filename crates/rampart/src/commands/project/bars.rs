//! The bars of a simulated figure.

use rampart_scale::KnownProgram;
use rampart_scale::project::figure::FigureSetting;

/// A bar: a program on a number of nodes.
pub struct Bar {
    /// The program.
    pub program: KnownProgram,
    /// The number of nodes.
    pub nodes: u32,
    /// The slowdown by errors, and half of its 95 % interval; `None`: errors leave the program no time.
    pub cost: Option<(f64, f64)>,
}

/// The bars of one setting.
pub struct BarGroup {
    /// The errors, and the nodes on which they occur.
    pub setting: FigureSetting,
    /// One bar for each program.
    pub bars: Vec<Bar>,
}
