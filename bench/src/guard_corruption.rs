//! `guard-corruption`: a table, class of corruption × engine: how many pages were corrected, stopped their program, or
//! were read wrong.

use rampart_trials::ENGINES;
use rampart_trials::corruption::{Class, attack};

use crate::guard::Guard;

/// Pages per class and engine, unless an argument sets another number.
const PAGES: u64 = 20;

/// Runs the bench.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let pages =
        arguments.first().map_or(Ok(PAGES), |text| text.parse().map_err(|_| "say how many pages".to_owned()))?;
    let options: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    let programs = Guard::programs()?;
    let mut unsound = 0;
    println!("{:<36}{:<24}{:<24}{:<24}", "", ENGINES[0], ENGINES[1], ENGINES[2]);
    for class in Class::OF_PAGES.into_iter().chain(Class::OF_CODES) {
        print!("{:<36}", class.name());
        let mut odd = Vec::new();
        for engine in ENGINES {
            let fates =
                attack(&programs, engine, class, pages, &options).map_err(|error| format!("{engine}: {error}"))?;
            print!("{fates:<24}");
            unsound += u64::from(!fates.is_sound());
            odd.extend(fates.odd.into_iter().map(|what| format!("  {engine}: {what}")));
        }
        println!();
        odd.iter().for_each(|line| println!("{line}"));
    }
    println!("{pages} pages each, every one hit up to three times, where it lay while it was locked");
    if unsound > 0 { Err(format!("{unsound} cells are unsound")) } else { Ok(()) }
}
