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

#[cfg(test)]
mod tests {
    use super::super::super::fake::{findings, run, with_slowdowns};
    use super::super::super::simulate::Run;
    use super::*;
    use rampart_diagnostic::control::PolicyName;

    fn by_coverage(on_demand: f64, of_comet: fn(&str) -> f64) -> Findings {
        findings(figure_11, move |scenario| {
            let comet = scenario.setup.as_ref().is_some_and(|setup| setup.policy == PolicyName::Comet);
            let coverage = if comet { of_comet(scenario.programs[0]) } else { on_demand };
            Run { coverage, ..run(vec![1.0]) }
        })
    }

    #[test]
    fn a_program_counts_as_covered_as_well_up_to_a_hundredth() {
        let found = by_coverage(0.25, |program| match program {
            "povray" => 0.24,
            "mcf" => 0.2375,
            _ => 0.5,
        });
        assert_eq!(found.tables[0].printed("mcf"), "0.250 0.237");
        let published: Vec<_> = found.tables[0].published().into_iter().map(|(row, _, known)| (row, known)).collect();
        let expected = [("povray", 0.153), ("povray", 0.195), ("cactusADM", 0.99), ("cactusADM", 0.986)];
        assert_eq!(published, [&expected[..], &[("average", 0.464), ("average", 0.514)]].concat());
        assert_eq!((found.hold(), &*found.claims[0].because), (vec![true], "at least as high for 27 of 28 programs"));
        assert_eq!(by_coverage(0.25, |_| 0.25).hold(), [false]);
    }

    fn by_policy(on_demand: f64, of_comet: fn(&str) -> f64) -> Findings {
        with_slowdowns(figure_12, move |scenario, setup| {
            Some(if setup.policy == PolicyName::Comet { of_comet(scenario.programs[0]) } else { on_demand })
        })
    }

    #[test]
    fn every_program_must_be_slower_on_demand() {
        let found = by_policy(1.34, |_| 1.04);
        assert_eq!(found.tables[0].printed("bzip2"), "1.340 1.040");
        let published: Vec<_> = found.tables[0].published().into_iter().map(|(row, _, known)| (row, known)).collect();
        let (bzip2, cactus) = ([("bzip2", 1.48), ("bzip2", 1.05)], [("cactusADM", 1.50), ("cactusADM", 1.05)]);
        let average = [("average", 1.34), ("average", 1.04)];
        assert_eq!(published, [&[("povray", 1.15)], &bzip2[..], &cactus, &average].concat());
        assert_eq!(found.hold(), [true, true, true]);
        let equal = by_policy(1.25, |program| if program == "povray" { 1.25 } else { 1.0 });
        assert_eq!((equal.hold(), &*equal.claims[2].because), (vec![true, false, false], "27 of 28"));
        assert_eq!(by_policy(1.125, |_| 1.25).hold(), [false, false, false]);
    }
}
