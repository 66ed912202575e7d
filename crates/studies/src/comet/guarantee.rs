//! The gain of migration and of adaptive rates [Rahman16, 4.2.4, fig. 15 and 16].

use rampart_memory::FreeList;

use super::super::outcome::{Measure, StudyClaim};
use super::super::runs::{Runner, Runs};
use super::super::scenario::{Rule, Scenario, Setup};
use super::super::{Findings, rahman};
use super::{alone, coverages, slowdowns, spec, table};

pub fn figure_15(runner: &Runner<'_>) -> Findings {
    let setups = [Setup::comet(), Setup { migration: false, ..Setup::comet() }];
    let columns = ["with migration", "without"];
    let values = coverages(runner, &spec(), &setups);
    let known = |name: &str, at| {
        let (_, with, without) = rahman::FIGURE_15.into_iter().find(|(row, ..)| *row == name)?;
        Some([with, without][at])
    };
    let table = table(Measure::Coverage, &spec(), &columns, &values, known);
    let lost = |row| table.number(row, "with migration") - table.number(row, "without");
    let claims = vec![
        StudyClaim::new(
            "without migration coverage falls (4.2.4)",
            lost("average") > 0.03,
            format!("{:.3} to {:.3} on average", table.average("with migration"), table.average("without")),
        ),
        StudyClaim::new(
            "most for programs that hold pages long, such as zeusmp; little for calculix, mcf and milc (4.2.4)",
            ["calculix", "mcf", "milc"].iter().all(|program| lost(program) < lost("zeusmp")),
            ["zeusmp", "calculix", "mcf", "milc"].map(|program| format!("{program} {:.2}", lost(program))).join(", "),
        ),
    ];
    let remarks = vec![
        "no evidence: the share of pages that programs hold to their end is calibrated on this figure, on zeusmp's loss and on \
         the average one",
        "Rahman counts the age of a page from its allocation (4.1.2), so that turnover replaces it; here it counts from its \
         test, whoever has the page, and programs that replace much, such as mcf, lose as much as those that hold it",
    ];
    Findings { tables: vec![table], claims, remarks }
}

/// The mean number of blocks requested from each list in a monitoring period.
type Profile = Vec<(FreeList, f64)>;

fn profile(runs: &Runs) -> Profile {
    let lists = runs.first().asked.iter().enumerate();
    lists.map(|(at, &(list, _))| (list, runs.mean(|run| run.asked[at].1))).collect()
}

/// Returns, for each list, the rate that `pick` selects from those of all profiles.
fn across(profiles: &[Profile], pick: fn(f64, f64) -> f64) -> Profile {
    let picked = |at: usize| profiles.iter().map(|profile| profile[at].1).reduce(pick).unwrap_or(0.0);
    profiles[0].iter().enumerate().map(|(at, &(list, _))| (list, picked(at))).collect()
}

pub fn figure_16(runner: &Runner<'_>) -> Findings {
    let on_demand: Vec<Scenario> = spec().into_iter().map(|program| alone(program, Setup::on_demand())).collect();
    let profiles: Vec<Profile> = runner.run_all(&on_demand).iter().map(profile).collect();
    let steady = |rates: Profile| Setup { rule: Rule::Steady(rates), ..Setup::comet() };
    let (min, max) = (steady(across(&profiles, f64::min)), steady(across(&profiles, f64::max)));
    let mut values = Vec::new();
    for (program, profile) in spec().into_iter().zip(profiles) {
        let setups = [min.clone(), max.clone(), steady(profile), Setup::comet()];
        values.extend(slowdowns(runner, &[program], &setups));
    }
    let known = |name: &str, at: usize| match (name, at) {
        ("average", 2) => Some(rahman::FIGURE_16_AVERAGE[0]),
        ("average", 3) => Some(rahman::FIGURE_16_AVERAGE[1]),
        _ => None,
    };
    let columns = ["Min", "Max", "Application", "Adaptive"];
    let table = table(Measure::Slowdown, &spec(), &columns, &values, known);
    let [min, max, application, adaptive] = columns.map(|column| table.average(column));
    let claims = vec![
        StudyClaim::new(
            "with the least rates programs are tested on demand, and slow (4.2.4)",
            min > application + 0.02,
            format!("Min {min:.3}, Application {application:.3}"),
        ),
        StudyClaim::new(
            "the highest rates cost more than a program's own (4.2.4)",
            max >= application,
            format!("Max {max:.3}"),
        ),
        StudyClaim::new(
            "adaptive rates come close to a program's own, without a profile (4.2.4)",
            adaptive <= application + 0.02,
            format!("Adaptive {adaptive:.3}"),
        ),
    ];
    Findings { tables: vec![table], claims, remarks: Vec::new() }
}
