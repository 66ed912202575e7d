//! Bars of a figure, simulated.

use rampart_scale::project::figure::FigureSetting;

/// One bar.
pub struct Bar {
    /// The workload's name.
    pub workload: &'static str,
    /// On how many nodes it was run.
    pub nodes: u32,
    /// What errors cost it, and half of the interval; `None`: they leave it no time.
    pub cost: Option<(f64, f64)>,
}

/// A group of bars.
pub struct Group {
    /// What is asked.
    pub setting: FigureSetting,
    /// A bar for each workload.
    pub bars: Vec<Bar>,
}
