//! Chapter 4: COMeT beside testing on demand, on a machine with two cores and 1 GB.

use std::time::Duration;

use rampart_memory::{Fidelity, FreeList};
use rampart_sim::workload::SPEC;

use super::outcome::{Cell, Claim, Drawn, Measure, Table, mean};
use super::runs::{Run, Runner};
use super::scenario::{Rule, Scenario, Setup, TestedMachine};
use super::{Findings, thesis};

/// The subset that most of 4.2.3 to 4.2.6 is about, the least demanding first.
const SUBSET: [&str; 7] = ["povray", "calculix", "gromacs", "zeusmp", "mcf", "gemsFDTD", "bzip2"];

fn spec() -> Vec<&'static str> {
    SPEC.iter().map(|program| program.name).collect()
}

fn alone(program: &'static str, setup: Setup) -> Scenario {
    Scenario { machine: TestedMachine::PentiumD, programs: vec![program], setup: Some(setup) }
}

/// Runs each program with each setup, and gives what `measure` makes of it.
fn measured(
    runner: &Runner<'_>,
    programs: &[&'static str],
    setups: &[Setup],
    measure: impl Fn(&Runner<'_>, &Scenario, &Run) -> Option<f64>,
) -> Vec<Vec<Option<f64>>> {
    let scenarios: Vec<Scenario> =
        programs.iter().flat_map(|&program| setups.iter().map(move |setup| alone(program, setup.clone()))).collect();
    let runs = runner.run_all(&scenarios);
    let values: Vec<_> = scenarios.iter().zip(&runs).map(|(scenario, run)| measure(runner, scenario, run)).collect();
    values.chunks(setups.len()).map(<[_]>::to_vec).collect()
}

fn slowdown(runner: &Runner<'_>, scenario: &Scenario, run: &Run) -> Option<f64> {
    runner.slowdown(scenario, run)
}

/// A table of programs and their average, with the thesis' numbers where `known` has one for a row and a column.
fn table(
    title: &str,
    measure: Measure,
    programs: &[&str],
    columns: &[&str],
    values: &[Vec<Option<f64>>],
    known: impl Fn(&str, usize) -> Option<f64>,
) -> Table {
    let row = |name: &str, values: &[Option<f64>]| {
        let cells = values.iter().enumerate();
        (name.to_owned(), cells.map(|(at, &ours)| Cell { ours, thesis: known(name, at) }).collect())
    };
    let average: Vec<Option<f64>> =
        (0..columns.len()).map(|at| mean(values.iter().filter_map(|row| row[at]))).collect();
    let rows = programs.iter().zip(values).map(|(name, values)| row(name, values));
    Table {
        title: title.to_owned(),
        measure,
        drawn: Drawn::Bars,
        of: "program",
        columns: columns.iter().map(|&name| name.to_owned()).collect(),
        rows: rows.chain([row("average", &average)]).collect(),
    }
}

fn claim(says: &'static str, holds: bool, because: String) -> Claim {
    Claim { says, holds, because }
}

pub fn figure_11(runner: &Runner<'_>) -> Findings {
    let values = measured(runner, &spec(), &[Setup::on_demand(), Setup::comet()], |_, _, run| Some(run.coverage));
    let known = |name: &str, at| {
        let (_, on_demand, comet) = thesis::FIGURE_11.into_iter().find(|(row, ..)| *row == name)?;
        Some([on_demand, comet][at])
    };
    let table = table("Page coverage", Measure::Coverage, &spec(), &["on demand", "COMeT"], &values, known);
    let both: Vec<(f64, f64)> = values.iter().filter_map(|row| row[0].zip(row[1])).collect();
    let higher = both.iter().filter(|(on_demand, comet)| *comet >= on_demand - 0.01).count();
    let claims = vec![claim(
        "COMeT's coverage is higher than on demand's: it keeps tested pages in the free lists (4.2.2)",
        table.ours("average", "COMeT") > table.ours("average", "on demand"),
        format!("at least as high for {higher} of {} programs", both.len()),
    )];
    Findings {
        tables: vec![table],
        claims,
        remarks: vec![
            "coverage is the mean over time of the share of frames, free or used, whose test is good",
            "it is lower here, since the two minutes count in which programs fill their memory, of ten",
        ],
    }
}

pub fn figure_12(runner: &Runner<'_>) -> Findings {
    let values = measured(runner, &spec(), &[Setup::on_demand(), Setup::comet()], slowdown);
    let known = |name: &str, at| {
        let (_, on_demand, comet) = thesis::FIGURE_12.into_iter().find(|(row, ..)| *row == name)?;
        [on_demand, comet][at]
    };
    let table = table("Slowdown", Measure::Slowdown, &spec(), &["on demand", "COMeT"], &values, known);
    let on_demand: Vec<f64> = values.iter().filter_map(|row| row[0]).collect();
    let (least, most) = on_demand.iter().fold((f64::INFINITY, 0.0_f64), |(l, m), &v| (l.min(v), m.max(v)));
    let averages = (table.ours("average", "on demand"), table.ours("average", "COMeT"));
    let worse = values.iter().filter(|row| row[0] > row[1]).count();
    let claims = vec![
        claim(
            "testing on demand slows programs by more than 1.15 and less than 1.5 on average; the thesis by 1.34 (4.2.2)",
            averages.0.is_some_and(|mean| (1.15..=1.5).contains(&mean)),
            format!("{least:.2} to {most:.2}, {:.2} on average", averages.0.unwrap_or(f64::NAN)),
        ),
        claim(
            "COMeT slows them by 1.02 to 1.06 on average; the thesis by 1.04 (4.2.2)",
            averages.1.is_some_and(|mean| (1.02..=1.06).contains(&mean)),
            format!("{:.3} on average", averages.1.unwrap_or(f64::NAN)),
        ),
        claim(
            "every program is slower on demand than with COMeT (figure 12)",
            worse == values.len(),
            format!("{worse} of {}", values.len()),
        ),
    ];
    let remarks = vec![
        "programs that hold most of the memory are slower on demand here: every page in use is renewed once a lifetime, and half \
         of the renewals hold the program up; how many did in the thesis it does not tell",
        "more than half of COMeT's cost is its timers' here, one for each zone and two for the program's core, 160 calls a second; \
         the thesis puts most of it down to pressure on memory (4.2.2), where a tester that goes past the caches moves 0.33 GB/s of \
         4.3 here, and hardly anything waits for it",
    ];
    Findings { tables: vec![table], claims, remarks }
}

pub fn window(runner: &Runner<'_>) -> Findings {
    let programs = ["calculix", "zeusmp", "cactusADM", "gemsFDTD", "mcf", "gromacs"];
    let setups = [120, 180, 240]
        .map(|seconds| Setup::comet().with_lifetime(Duration::from_secs(seconds), Duration::from_secs(10)));
    let values = measured(runner, &programs, &setups, slowdown);
    let known = |name: &str, at| {
        let (_, two, three) = thesis::WINDOW.into_iter().find(|(row, ..)| *row == name)?;
        [Some(two), three, None][at]
    };
    let table = table("Slowdown", Measure::Slowdown, &programs, &["2 min", "3 min", "4 min"], &values, known);
    let of = |column| table.ours("average", column).unwrap_or(f64::NAN);
    let (two, three, four) = (of("2 min"), of("3 min"), of("4 min"));
    let claims = vec![
        claim("two minutes are the worst (4.2.3)", two > three, format!("{two:.3}, {three:.3} at three")),
        claim(
            "four have little gain over three (4.2.3)",
            (three - four).abs() < (two - three).abs(),
            format!("{three:.3} and {four:.3}"),
        ),
    ];
    Findings { tables: vec![table], claims, remarks: Vec::new() }
}

pub fn delta(runner: &Runner<'_>) -> Findings {
    let programs = ["zeusmp", "calculix", "mcf", "gromacs"];
    let setups = [5, 10, 20, 30]
        .map(|seconds| Setup::comet().with_lifetime(Duration::from_secs(180), Duration::from_secs(seconds)));
    let values = measured(runner, &programs, &setups, slowdown);
    let known = |name: &str, at: usize| (name == "zeusmp").then(|| thesis::DELTA_ZEUSMP[at]);
    let table = table("Slowdown", Measure::Slowdown, &programs, &["5 s", "10 s", "20 s", "30 s"], &values, known);
    let all: Vec<f64> = ["5 s", "10 s", "20 s", "30 s"].iter().filter_map(|c| table.ours("average", c)).collect();
    let spread = all.iter().fold(0.0_f64, |m, &v| m.max(v)) - all.iter().fold(f64::INFINITY, |m, &v| m.min(v));
    let claims = vec![claim("δ makes only a small change (4.2.3)", spread < 0.03, format!("{spread:.3} on average"))];
    let remarks = vec![
        "here a page is looked up δ before it expires and renewed in the last second, so that δ changes little; the thesis' \
         handler renews at once all that expire in the next δ (figure 6), which takes more tested frames than COMeT keeps",
    ];
    Findings { tables: vec![table], claims, remarks }
}

pub fn figure_14(runner: &Runner<'_>) -> Findings {
    let setups = [15, 25, 35, 45].map(|millis| {
        let comet = Setup::comet();
        let monitoring = Duration::from_millis(millis);
        Setup { settings: crate::control::Settings { monitoring, ..comet.settings }, ..comet }
    });
    let values = measured(runner, &SUBSET, &setups, slowdown);
    let known = |name: &str, at: usize| {
        if name == "average" { thesis::FIGURE_14_AVERAGE.get(at).copied() } else { None }
    };
    let columns = ["15 ms", "25 ms", "35 ms", "45 ms"];
    let table = table("Slowdown", Measure::Slowdown, &SUBSET, &columns, &values, known);
    let of = |column| table.ours("average", column).unwrap_or(f64::NAN);
    let claims = vec![
        claim(
            "15 ms costs more than 25 ms (4.2.3)",
            of("15 ms") > of("25 ms"),
            format!("{:.3} and {:.3}", of("15 ms"), of("25 ms")),
        ),
        claim(
            "25, 35 and 45 ms differ little (4.2.3)",
            (of("25 ms") - of("45 ms")).abs() <= (of("15 ms") - of("25 ms")).abs().max(0.005),
            format!("{:.3}, {:.3} and {:.3}", of("25 ms"), of("35 ms"), of("45 ms")),
        ),
    ];
    Findings { tables: vec![table], claims, remarks: vec!["the thesis' average is over all of SPEC, ours over seven"] }
}

pub fn figure_15(runner: &Runner<'_>) -> Findings {
    let setups = [Setup::comet(), Setup { migration: false, ..Setup::comet() }];
    let values = measured(runner, &spec(), &setups, |_, _, run| Some(run.coverage));
    let known = |name: &str, at| {
        let (_, with, without) = thesis::FIGURE_15.into_iter().find(|(row, ..)| *row == name)?;
        Some([with, without][at])
    };
    let columns = ["with migration", "without"];
    let table = table("Page coverage", Measure::Coverage, &spec(), &columns, &values, known);
    let of = |row: &str, column| table.ours(row, column).unwrap_or(f64::NAN);
    let lost = |row| of(row, "with migration") - of(row, "without");
    let claims = vec![
        claim(
            "without migration coverage falls (4.2.4)",
            lost("average") > 0.03,
            format!("{:.3} to {:.3} on average", of("average", "with migration"), of("average", "without")),
        ),
        claim(
            "most for programs that hold pages long, such as zeusmp; little for calculix, mcf and milc (4.2.4)",
            ["calculix", "mcf", "milc"].iter().all(|program| lost(program) < lost("zeusmp")),
            format!(
                "zeusmp {:.2}, calculix {:.2}, mcf {:.2}, milc {:.2}",
                lost("zeusmp"),
                lost("calculix"),
                lost("mcf"),
                lost("milc")
            ),
        ),
    ];
    let remarks = vec![
        "the thesis counts the age of a page from its allocation (4.1.2), so that turnover renews it; here it counts from its \
         test, whoever has the page, and programs that replace much, such as mcf, lose as much as those that hold it",
    ];
    Findings { tables: vec![table], claims, remarks }
}

/// What a program asks of each list in a monitoring period, on average.
fn profile(run: &Run) -> Vec<(FreeList, f64)> {
    run.asked.clone()
}

pub fn figure_16(runner: &Runner<'_>) -> Findings {
    let on_demand: Vec<Scenario> = spec().into_iter().map(|program| alone(program, Setup::on_demand())).collect();
    let profiles: Vec<_> = runner.run_all(&on_demand).iter().map(profile).collect();
    let across = |pick: fn(f64, f64) -> f64| {
        let mut rates = profiles[0].clone();
        for (at, (_, rate)) in rates.iter_mut().enumerate() {
            *rate = profiles.iter().map(|profile| profile[at].1).reduce(pick).unwrap_or(0.0);
        }
        rates
    };
    let steady = |rates: Vec<(FreeList, f64)>| Setup { rule: Rule::Steady(rates), ..Setup::comet() };
    let (min, max) = (steady(across(f64::min)), steady(across(f64::max)));
    let mut values = Vec::new();
    for (program, profile) in spec().into_iter().zip(&profiles) {
        let setups = [min.clone(), max.clone(), steady(profile.clone()), Setup::comet()];
        values.extend(measured(runner, &[program], &setups, slowdown));
    }
    let known = |name: &str, at: usize| match (name, at) {
        ("average", 2) => Some(thesis::FIGURE_16_AVERAGE[0]),
        ("average", 3) => Some(thesis::FIGURE_16_AVERAGE[1]),
        _ => None,
    };
    let columns = ["Min", "Max", "Application", "Adaptive"];
    let table = table("Slowdown", Measure::Slowdown, &spec(), &columns, &values, known);
    let of = |column| table.ours("average", column).unwrap_or(f64::NAN);
    let claims = vec![
        claim(
            "with the least rates programs are tested on demand, and slow (4.2.4)",
            of("Min") > of("Application") + 0.02,
            format!("Min {:.3}, Application {:.3}", of("Min"), of("Application")),
        ),
        claim(
            "the highest rates cost more than a program's own (4.2.4)",
            of("Max") >= of("Application"),
            format!("Max {:.3}", of("Max")),
        ),
        claim(
            "adaptive rates come close to a program's own, without a profile (4.2.4)",
            of("Adaptive") <= of("Application") + 0.02,
            format!("Adaptive {:.3}", of("Adaptive")),
        ),
    ];
    Findings { tables: vec![table], claims, remarks: Vec::new() }
}

pub fn table_5(runner: &Runner<'_>) -> Findings {
    let programs = thesis::TABLE_5.map(|(name, _)| name);
    let scenarios: Vec<Scenario> = programs
        .into_iter()
        .flat_map(|program| (1..=5).map(move |count| (program, count)))
        .map(|(program, count)| Scenario { programs: vec![program; count], ..alone(program, Setup::comet()) })
        .collect();
    let runs = runner.run_all(&scenarios);
    let values: Vec<_> = scenarios.iter().zip(&runs).map(|(scenario, run)| runner.slowdown(scenario, run)).collect();
    let rows = thesis::TABLE_5.iter().zip(values.chunks(5));
    let rows: Vec<_> = rows
        .map(|((name, known), ours)| {
            let cells = ours.iter().zip(known).map(|(&ours, &thesis)| Cell { ours, thesis }).collect();
            ((*name).to_owned(), cells)
        })
        .collect();
    let rising = values.chunks(5).filter(|row| {
        let known: Vec<f64> = row.iter().flatten().copied().collect();
        known.last() >= known.first()
    });
    let rising = rising.count();
    let fits = |at: usize| {
        thesis::TABLE_5.iter().zip(values.chunks(5)).all(|((_, known), ours)| known[at].is_some() == ours[at].is_some())
    };
    let agreeing = (0..5).filter(|&at| fits(at)).count();
    let worst = values.iter().flatten().copied().fold(0.0_f64, f64::max);
    let table = Table {
        title: "Slowdown".to_owned(),
        measure: Measure::Slowdown,
        drawn: Drawn::Bars,
        of: "program",
        columns: (1..=5).map(|count| format!("{count} instances")).collect(),
        rows,
    };
    let claims = vec![
        claim("slowdown rises with the load (4.2.5)", rising == 5, format!("for {rising} of 5 programs")),
        claim("even the worst is acceptable: 1.14 (4.2.5)", worst <= 1.2, format!("{worst:.3}")),
        claim(
            "memory runs out where the thesis' did (table 5)",
            agreeing == 5,
            format!("{agreeing} of 5 columns agree"),
        ),
    ];
    Findings {
        tables: vec![table],
        claims,
        remarks: vec![
            "memory runs out sooner here: three instances of lbm, 67.3 % of memory each by table 3, fit only if they have half of \
             that in common or on disk, of which the thesis tells nothing; povray's whole share is 14.9 %",
            "two instances are slowed more here: both cores run programs, so that each second of the tester is taken from them",
        ],
    }
}

pub fn figure_17(runner: &Runner<'_>) -> Findings {
    let programs = thesis::FIGURE_17_AT_5.map(|(name, _)| name);
    let setups =
        [1, 2, 3, 4, 5].map(|times| Setup::comet_on(TestedMachine::PentiumD, Fidelity::new(times).expect("1 to 5")));
    let values = measured(runner, &programs, &setups, slowdown);
    let rows = (0..5).map(|at| {
        let cells = thesis::FIGURE_17_AT_5.iter().zip(&values);
        let cells = cells.map(|((_, known), row)| Cell { ours: row[at], thesis: (at == 4).then_some(*known) });
        ((at + 1).to_string(), cells.collect())
    });
    let table = Table {
        title: "Slowdown".to_owned(),
        measure: Measure::Slowdown,
        drawn: Drawn::Lines,
        of: "iterations",
        columns: programs.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    };
    let of = |row: &str, program| table.ours(row, program).unwrap_or(f64::NAN);
    let claims = vec![
        claim(
            "a longer test slows programs more (4.2.6)",
            programs.iter().all(|program| of("5", program) >= of("1", program)),
            programs.map(|program| format!("{program} {:.3} to {:.3}", of("1", program), of("5", program))).join(", "),
        ),
        claim(
            "mcf and zeusmp suffer most, gromacs and calculix less (4.2.6)",
            of("5", "mcf").min(of("5", "zeusmp")) > of("5", "gromacs").max(of("5", "calculix")),
            "at five iterations".to_owned(),
        ),
    ];
    let remarks = vec![
        "mcf and zeusmp fall off a cliff here where the thesis has 1.25: five iterations of 0.4 ms over mcf's 246,000 pages are \
         492 s of testing in each 170 s, on two cores; the thesis does not guarantee its bound when it is late (4.1.2), and here \
         a page that is late is tested before its program goes on",
    ];
    Findings { tables: vec![table], claims, remarks }
}
