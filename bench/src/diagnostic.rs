//! `diagnostic-NAME`: one of Rahman's experiments on the simulated machine, ours beside his numbers.

use rampart_studies::{Effort, Experiment};

/// The names of all.
pub fn names() -> String {
    rampart_studies::ALL.iter().map(|Experiment { name, .. }| *name).collect::<Vec<_>>().join(", ")
}

/// Runs one.
pub fn run(name: &str) -> Result<(), String> {
    let experiment =
        rampart_studies::find(name).ok_or_else(|| format!("no experiment {name}: there are {}", names()))?;
    println!("{}", experiment.run(&Effort::full(), &|_, _| {}));
    Ok(())
}
