//! `hostile`: a table, setting × engine: results of a program that checks its own data, compared with a run without a
//! guard.

use rampart_trials::ENGINES;
use rampart_trials::hostile::{Ground, SETTINGS, Setting, Verdict};

use crate::guard::Guard;

/// The number of cells with each verdict.
#[derive(Debug, Default)]
struct Tally {
    right: u64,
    left_alone: u64,
    refused: u64,
    wrong: u64,
    skipped: u64,
}

/// Runs the bench.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let named = |setting: &&Setting| arguments.first().is_none_or(|part| setting.name.contains(part));
    let programs = Guard::programs()?;
    let ground = Ground::new(&programs).map_err(|error| error.to_string())?;
    let mut tally = Tally::default();
    println!("| setting | {} |", ENGINES.join(" | "));
    println!("|---|---|---|---|");
    for setting in SETTINGS.iter().filter(named) {
        let cells = match ground.try_setting(setting, &ENGINES).map_err(|error| error.to_string())? {
            Ok(verdicts) => verdicts.iter().map(|verdict| tally.add(verdict)).collect::<Vec<_>>().join(" | "),
            Err(why) => {
                tally.skipped += 1;
                format!("skipped: {why} | | ")
            }
        };
        println!("| {} | {cells} |", setting.name);
    }
    println!();
    println!(
        "{} right, {} left alone, {} refused, {} wrong; {} settings skipped",
        tally.right, tally.left_alone, tally.refused, tally.wrong, tally.skipped
    );
    if tally.wrong > 0 { Err(format!("{} cells are wrong", tally.wrong)) } else { Ok(()) }
}

impl Tally {
    /// Counts a verdict, and returns its cell.
    fn add(&mut self, verdict: &Verdict) -> String {
        let (count, cell) = match verdict {
            Verdict::Right => (&mut self.right, "right".to_owned()),
            Verdict::LeftAlone => (&mut self.left_alone, "left alone".to_owned()),
            Verdict::Refused(line) => (&mut self.refused, format!("refused: {line}")),
            Verdict::Wrong(what) => (&mut self.wrong, format!("WRONG: {what}")),
        };
        *count += 1;
        cell.replace('|', "\\|")
    }
}
