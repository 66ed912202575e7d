//! Benches: ours beside the papers' and the peers' numbers, measured in the same run.
//!
//! Others may use the machine, so ratios are what counts; each comparison is made in turns (ours, theirs, ours, theirs).
//!
//! Libraries: `humantime` (durations on the command line), `rusqlite` (the database load of `soak`), `serde_json` (reports),
//! `tempfile`.

mod march;
mod peers;
mod soak;

use std::process::ExitCode;

/// A bench: its name, what it shows, and how it is run.
type Bench = (&'static str, &'static str, fn(&[String]) -> Result<(), String>);

const BENCHES: [Bench; 2] = [
    ("march", "speed of march tests beside this machine's limit, memtester and stressapptest", march::run),
    (
        "soak",
        "[TIME [MEMORY]] false alarms, and results of the programs beside: a compile and a database load",
        soak::run,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = arguments.first().and_then(|name| BENCHES.iter().find(|(known, ..)| known == name));
    let Some((.., run)) = named else {
        eprintln!("name a bench:");
        BENCHES.iter().for_each(|(name, shows, _)| eprintln!("  {name:<8} {shows}"));
        return ExitCode::from(2);
    };
    match run(&arguments[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
