//! COMeT beside testing on demand, over all programs [Rahman16, 4.2.2, fig. 11 and 12].

use super::super::outcome::{Measure, StudyClaim, range};
use super::super::runs::Runner;
use super::super::scenario::Setup;
use super::super::{Findings, rahman};
use super::{coverages, slowdowns, spec, table};

const COLUMNS: [&str; 2] = ["on demand", "COMeT"];

fn setups() -> [Setup; 2] {
    [Setup::on_demand(), Setup::comet()]
}

pub fn figure_11(runner: &Runner<'_>) -> Findings {
    let values = coverages(runner, &spec(), &setups());
    let known = |name: &str, at| {
        let (_, on_demand, comet) = rahman::FIGURE_11.into_iter().find(|(row, ..)| *row == name)?;
        Some([on_demand, comet][at])
    };
    let table = table(Measure::Coverage, &spec(), &COLUMNS, &values, known);
    let higher = values.iter().filter(|row| row[1] >= row[0].map(|on_demand| on_demand - 0.01)).count();
    let claims = vec![StudyClaim::new(
        "COMeT's coverage is higher than on demand's: it keeps tested pages in the free lists (4.2.2)",
        table.average("COMeT") > table.average("on demand"),
        format!("at least as high for {higher} of {} programs", values.len()),
    )];
    let remarks = vec![
        "coverage is the mean over time of the share of frames, free or used, whose test is good",
        "it is lower here, because two of the ten minutes, in which programs fill their memory, count too",
        "how many tested frames COMeT keeps is calibrated on povray's coverage, 19.5 %: so its coverage of povray is no evidence, \
         and by how much it exceeds testing on demand for other programs follows from that",
    ];
    Findings { tables: vec![table], claims, remarks }
}

pub fn figure_12(runner: &Runner<'_>) -> Findings {
    let values = slowdowns(runner, &spec(), &setups());
    let known = |name: &str, at| {
        let (_, on_demand, comet) = rahman::FIGURE_12.into_iter().find(|(row, ..)| *row == name)?;
        [on_demand, comet][at]
    };
    let table = table(Measure::Slowdown, &spec(), &COLUMNS, &values, known);
    let (least, most) = range(values.iter().filter_map(|row| row[0]));
    let (on_demand, comet) = (table.average("on demand"), table.average("COMeT"));
    let worse = values.iter().filter(|row| row[0] > row[1]).count();
    let claims = vec![
        StudyClaim::new(
            "testing on demand slows programs by more than 1.15 and less than 1.5 on average; Rahman16: by 1.34 (4.2.2)",
            (1.15..=1.5).contains(&on_demand),
            format!("{least:.2} to {most:.2}, {on_demand:.2} on average"),
        ),
        StudyClaim::new(
            "COMeT slows them by 1.02 to 1.06 on average; Rahman16: by 1.04 (4.2.2)",
            (1.02..=1.06).contains(&comet),
            format!("{comet:.3} on average"),
        ),
        StudyClaim::new(
            "every program is slower on demand than with COMeT (figure 12)",
            worse == values.len(),
            format!("{worse} of {}", values.len()),
        ),
    ];
    let remarks = vec![
        "programs that hold most of the memory are slower on demand here: every page in use is re-placed once a lifetime, and half \
         of the re-placements delay the program; Rahman does not give their number",
        "the calls of COMeT's timers, one per zone and two for the program's core, 160 a second, take 0.003 here; the difference \
         between 15 and 25 ms in figure 14 says nine times as much, but what a call does that takes so long is not said",
        "Rahman attributes most of COMeT's cost to pressure on memory (4.2.2), but here a tester past the caches moves 0.33 GB/s \
         of 4.3, and hardly anything waits for it",
    ];
    Findings { tables: vec![table], claims, remarks }
}
