//! A table of what `rampart banks pools` and other policies take offline on real kernels, from the files that
//! `tests/qemu/banks` wrote: means of seeds with their 95 % intervals (Student, by the means of seeds).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rampart_scale::confidence::student;

/// A kernel, a load and a policy.
type Case = (String, String, String);

/// What one seed adds up to, over all its phases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct SeedSums {
    phases: f64,
    /// Blocks, and how many of them count beside an optimum: a phase in which programs have used up a part of the
    /// reserve does not make up for another.
    optimum: f64,
    within_optimum: f64,
    zone_optimum: f64,
    within_zone_optimum: f64,
    /// Free and offline memory, in MiB.
    spare: f64,
    offline_mib: f64,
    /// Attempts to empty a block.
    attempts: f64,
    failed: f64,
    given_up: f64,
    refaults: f64,
    migrated: f64,
    /// Processes that the kernel killed since the boot, for lack of memory, and allocations of its own that failed.
    killed: f64,
    lacked: f64,
}

/// How the boots of a case ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ends {
    boots: usize,
    /// The load, or a program of it, failed or was killed, or the kernel lacked memory.
    failed: usize,
}

/// Prints the table of the files in this folder.
pub fn print(folder: &Path) -> Result<(), String> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}: tests/qemu/banks writes it", path.display()))
    };
    print!("{}", table(&sums(&read("phases.csv")?)?, &ends(&read("runs.csv")?)?));
    Ok(())
}

/// A row, as its values by column.
type Row = BTreeMap<String, String>;

fn rows(text: &str) -> Result<Vec<Row>, String> {
    csv::Reader::from_reader(text.as_bytes())
        .deserialize()
        .collect::<csv::Result<_>>()
        .map_err(|error| error.to_string())
}

fn case_of(row: &Row) -> Result<Case, String> {
    let text = |column: &str| row.get(column).cloned().ok_or(format!("a row lacks {column}"));
    Ok((text("kernel")?, text("load")?, text("policy")?))
}

fn sums(text: &str) -> Result<BTreeMap<Case, BTreeMap<String, SeedSums>>, String> {
    let mut all: BTreeMap<Case, BTreeMap<String, SeedSums>> = BTreeMap::new();
    for row in rows(text)? {
        let number = |column: &str| {
            let value = row.get(column).and_then(|value| value.parse::<f64>().ok());
            value.ok_or_else(|| format!("a row has no number in column {column}: {row:?}"))
        };
        let seed = row.get("seed").cloned().unwrap_or_default();
        let seed = all.entry(case_of(&row)?).or_default().entry(seed).or_default();
        let (offline, optimum, zone_optimum) = (number("offline")?, number("optimum")?, number("zone_optimum")?);
        let offline_mib = offline * BLOCK_MIB;
        seed.phases += 1.0;
        seed.optimum += optimum;
        seed.within_optimum += offline.min(optimum);
        seed.zone_optimum += zone_optimum;
        seed.within_zone_optimum += offline.min(zone_optimum);
        seed.offline_mib += offline_mib;
        seed.spare += offline_mib + number("free_mib")?;
        seed.attempts += number("attempts")?;
        seed.failed += number("failed")?;
        seed.given_up += number("given_up")?;
        seed.refaults += number("refaults")?;
        seed.migrated += number("migrated")?;
        seed.killed = seed.killed.max(number("oom_kills")?);
        seed.lacked = seed.lacked.max(number("allocation_failures")?);
    }
    Ok(all)
}

/// The guests' memory blocks.
const BLOCK_MIB: f64 = 128.0;

/// Pages in a MiB.
const PAGES: f64 = 256.0;

fn ends(text: &str) -> Result<BTreeMap<Case, Ends>, String> {
    let mut all: BTreeMap<Case, Ends> = BTreeMap::new();
    for row in rows(text)? {
        let ends = all.entry(case_of(&row)?).or_default();
        ends.boots += 1;
        ends.failed += usize::from(row.get("passed").is_none_or(|passed| passed != "yes"));
    }
    Ok(all)
}

/// The mean of these values, and half of its 95 % interval.
#[expect(clippy::cast_precision_loss, reason = "a count of seeds")]
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, student(values.len()) * (squares / (count - 1.0) / count).sqrt())
}

/// A share of each seed, as `mean [least, most] %`, or without an interval if there is one seed only.
fn shown(seeds: &BTreeMap<String, SeedSums>, share: fn(&SeedSums) -> f64) -> String {
    let values: Vec<f64> = seeds.values().map(|seed| 100.0 * share(seed)).collect();
    let (mean, half) = mean(&values);
    if values.len() < 2 {
        return format!("{mean:.1}");
    }
    format!("{mean:.1} [{:.1}, {:.1}]", mean - half, mean + half)
}

fn table(sums: &BTreeMap<Case, BTreeMap<String, SeedSums>>, ends: &BTreeMap<Case, Ends>) -> String {
    let mut text = String::from(
        "| kernel, load | policy | seeds, phases | offline, % of optimum | by zone | c, % | attempts that succeeded | given up \
         | moved, GiB a phase | refaults | killed, failed allocations | boots that failed |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (case, ends) in ends {
        let (kernel, load, policy) = case;
        let Some(seeds) = sums.get(case) else {
            text +=
                &format!("| {kernel}, {load} | `{policy}` | 0 | | | | | | | | | {} of {} |\n", ends.failed, ends.boots);
            continue;
        };
        let sum = |of: fn(&SeedSums) -> f64| seeds.values().map(of).sum::<f64>();
        let tried = sum(|seed| seed.attempts);
        text += &format!(
            "| {kernel}, {load} | `{policy}` | {}, {} | {} | {} | {} | {} of {tried}{} | {} | {:.2} | {} | {}, {} | {} of {} |\n",
            seeds.len(),
            sum(|seed| seed.phases),
            shown(seeds, |seed| seed.within_optimum / seed.optimum),
            shown(seeds, |seed| seed.within_zone_optimum / seed.zone_optimum),
            shown(seeds, |seed| seed.offline_mib / seed.spare),
            tried - sum(|seed| seed.failed),
            if tried > 0.0 {
                format!(" ({:.1} %)", 100.0 - 100.0 * sum(|seed| seed.failed) / tried)
            } else {
                String::new()
            },
            sum(|seed| seed.given_up),
            sum(|seed| seed.migrated) / PAGES / 1024.0 / sum(|seed| seed.phases),
            sum(|seed| seed.refaults),
            sum(|seed| seed.killed),
            sum(|seed| seed.lacked),
            ends.failed,
            ends.boots,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: &str = "\
kernel,load,policy,seed,phase,offline,optimum,zone_optimum,free_mib,attempts,failed,given_up,refaults,migrated,\
oom_kills,allocation_failures
6.12,light,pools,1,0,10,10,8,128,6,1,1,0,262144,0,0
6.12,light,pools,1,1,8,10,8,384,4,1,0,3,0,2,1
6.12,light,pools,2,0,20,20,16,256,10,0,0,0,0,3,0
6.12,light,random,1,0,5,10,10,512,9,8,0,0,0,0,0
";

    const RUNS: &str = "\
kernel,load,policy,seed,phases,load_exit,passed
6.12,light,pools,1,2,0,yes
6.12,light,pools,2,1,0,yes
6.12,light,random,1,1,1,no
6.12,medium,random,1,0,1,no
";

    #[test]
    fn the_mean_is_that_of_seeds_and_its_interval_that_of_student() {
        let (of_seeds, half) = mean(&[90.0, 100.0]);
        assert!((of_seeds - 95.0).abs() < 1e-9);
        // The standard error of these two is 5, and 12.7062 of them are 95 %.
        assert!((half - 63.531).abs() < 1e-4, "{half}");
    }

    #[test]
    fn each_case_is_a_row_and_a_boot_without_a_phase_too() {
        let text = table(&sums(PHASES).unwrap(), &ends(RUNS).unwrap());
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| 6.12, light | `pools` | 2, 3 | 95.0 [31.5, 158.5] | 100.0 [100.0, 100.0] | 86.4 [28.6, 144.1] \
                 | 18 of 20 (90.0 %) | 1 | 0.33 | 3 | 5, 1 | 0 of 2 |",
                "| 6.12, light | `random` | 1, 1 | 50.0 | 50.0 | 55.6 | 1 of 9 (11.1 %) | 0 | 0.00 | 0 | 0, 0 | 1 of 1 |",
                "| 6.12, medium | `random` | 0 | | | | | | | | | 1 of 1 |",
            ]
        );
    }

    #[test]
    fn a_row_without_a_number_is_refused() {
        let broken = PHASES.replace(",10,10,8,", ",10,?,8,");
        assert!(sums(&broken).unwrap_err().contains("no number in column optimum"));
    }
}
