//! `diagnostic-NAME`: an experiment of \[Rahman16\] on the simulated machine, our numbers beside the published ones.

use rampart_studies::{Effort, Experiment, MachineAllocator};

/// The names of all experiments.
pub fn names() -> String {
    rampart_studies::ALL.iter().map(|Experiment { name, .. }| *name).collect::<Vec<_>>().join(", ")
}

/// Runs one experiment.
pub fn run(name: &str) -> Result<(), String> {
    let experiment =
        rampart_studies::find(name).ok_or_else(|| format!("no experiment {name}: there are {}", names()))?;
    println!("{}", experiment.run(&Effort::full(), MachineAllocator::Buddy, &|_, _| {}));
    Ok(())
}
