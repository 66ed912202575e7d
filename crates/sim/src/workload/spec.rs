//! SPEC CPU2006 [Rahman16, tab. 3].

use super::{Intensity, ProgramDemand, WorkloadProgram};

/// The 28 programs, sorted by their share of memory as in [Rahman16, tab. 3].
pub const SPEC: [WorkloadProgram; 28] = [
    program("povray", 751.5, 14.9, 0.4, ProgramDemand::Low, Intensity::Cached),
    program("calculix", 2557.2, 19.9, 0.1, ProgramDemand::High, Intensity::Cached),
    program("namd", 1173.0, 20.3, 0.4, ProgramDemand::Low, Intensity::Cached),
    program("gcc", 111.6, 21.2, 0.4, ProgramDemand::High, Intensity::Cached),
    program("gobmk", 193.7, 21.3, 0.4, ProgramDemand::Medium, Intensity::Cached),
    program("h264ref", 189.5, 22.5, 0.4, ProgramDemand::Low, Intensity::Cached),
    program("sphinx3", 1579.6, 24.1, 0.4, ProgramDemand::Low, Intensity::Mixed),
    program("hmmer", 494.0, 24.7, 0.4, ProgramDemand::Low, Intensity::Cached),
    program("soplex", 570.9, 27.5, 0.4, ProgramDemand::Medium, Intensity::Mixed),
    program("perlbench", 542.6, 29.0, 0.4, ProgramDemand::Medium, Intensity::Cached),
    program("sjeng", 1634.1, 31.2, 0.4, ProgramDemand::Low, Intensity::Cached),
    program("astar", 518.3, 31.3, 0.4, ProgramDemand::High, Intensity::Mixed),
    program("dealII", 942.7, 32.5, 0.4, ProgramDemand::Low, Intensity::Cached),
    program("tonto", 1782.8, 34.5, 0.4, ProgramDemand::Low, Intensity::Cached),
    program("omnetpp", 994.9, 35.2, 0.4, ProgramDemand::Medium, Intensity::Mixed),
    program("gromacs", 1632.7, 35.7, 0.4, ProgramDemand::Medium, Intensity::Cached),
    program("gamess", 1632.0, 36.8, 0.4, ProgramDemand::Low, Intensity::Cached),
    program("libquantum", 1789.6, 42.2, 0.4, ProgramDemand::Low, Intensity::Bound),
    program("leslie3d", 2179.2, 45.3, 0.4, ProgramDemand::Medium, Intensity::Bound),
    program("xalancbmk", 797.8, 52.6, 0.4, ProgramDemand::Low, Intensity::Mixed),
    program("zeusmp", 1555.8, 62.8, 0.59, ProgramDemand::Medium, Intensity::Mixed),
    program("lbm", 1340.6, 67.3, 0.4, ProgramDemand::Low, Intensity::Bound),
    program("milc", 1242.0, 82.2, 0.1, ProgramDemand::High, Intensity::Bound),
    program("mcf", 948.3, 93.9, 0.1, ProgramDemand::Medium, Intensity::Bound),
    program("gemsFDTD", 1966.3, 95.4, 0.073, ProgramDemand::Medium, Intensity::Bound),
    program("bwaves", 1405.2, 97.6, 0.4, ProgramDemand::Medium, Intensity::Bound),
    program("bzip2", 261.8, 98.4, 0.4, ProgramDemand::Low, Intensity::Cached),
    program("cactusADM", 2395.7, 98.7, 0.4, ProgramDemand::Medium, Intensity::Mixed),
];

/// Returns the program of this name, also in the spelling of [Rahman16, tab. 7].
#[must_use]
pub fn find(name: &str) -> Option<&'static WorkloadProgram> {
    let known = match name {
        "libquant" => "libquantum",
        "cactus" => "cactusADM",
        "gems" | "GemsFDTD" => "gemsFDTD",
        "caclulix" => "calculix",
        other => other,
    };
    SPEC.iter().find(|program| program.name == known)
}

const fn program(
    name: &'static str,
    seconds: f64,
    percent: f64,
    long_held: f64,
    demand: ProgramDemand,
    intensity: Intensity,
) -> WorkloadProgram {
    WorkloadProgram { name, seconds, share: percent / 100.0, long_held, demand, intensity }
}
