//! The nine workloads [Ferreira21, tab. I], each number with its source.
//!
//! A *measured* number was printed by a public run of the program; a *derived* one follows from its public source and
//! problem; an *assumed* one is neither, because \[Ferreira21\] does not give the inputs. No number was chosen for the
//! result that it gives.
//!
//! The computing rate of 0.607 GFlop/s is that of one core of a Cray XC40: Trinity's 0.1826 PFlop/s in HPCG on 301,056
//! cores (HPCG list, November 2015).

use super::{Phase, RepeatedPhases, Workload};
use crate::time::Time;

const fn micros(micros: u64) -> Phase {
    Phase::Compute(Time::from_nanos(micros * 1000))
}

const fn once(phases: &'static [Phase]) -> RepeatedPhases {
    RepeatedPhases { times: 1, phases }
}

const fn shift(axis: usize, up: bool, bytes: u64) -> Phase {
    Phase::Shift { axis, up, bytes }
}

/// A step of molecular dynamics in three dimensions: positions go out axis by axis, forces come back (`CommBrick`).
const fn brick(compute: Phase, bytes: u64) -> [Phase; 13] {
    [
        shift(0, true, bytes),
        shift(0, false, bytes),
        shift(1, true, bytes),
        shift(1, false, bytes),
        shift(2, true, bytes),
        shift(2, false, bytes),
        compute,
        shift(2, false, bytes),
        shift(2, true, bytes),
        shift(1, false, bytes),
        shift(1, true, bytes),
        shift(0, false, bytes),
        shift(0, true, bytes),
    ]
}

const LJ_STEP: [Phase; 13] = brick(micros(22_600), 63_400);
const LJ: Workload = Workload {
    name: "lammps-lj",
    what: "molecular dynamics, Lennard-Jones liquid, 32,000 atoms a rank",
    source: "LAMMPS bench/in.lj: 22.6 ms a step of 32,000 atoms (measured: its log of 6 October 2016, one core), output after 100 steps, \
             neighbours every 20 steps unchecked; a face is 2.8 x 33.6 x 33.6 at a density of 0.8442, 24 B an atom (derived); output \
             reduces 4 values of 8 B and one of 48 B (derived)",
    traced: 128,
    axes: 3,
    periodic: true,
    cycle: &[
        RepeatedPhases { times: 100, phases: &LJ_STEP },
        once(&[Phase::Allreduce(8), Phase::Allreduce(8), Phase::Allreduce(8), Phase::Allreduce(48)]),
    ],
};

const SNAP_STEP: [Phase; 13] = brick(micros(1915), 1724);
const SNAP: Workload = Workload {
    name: "lammps-snap",
    what: "molecular dynamics, SNAP potential of tantalum, 32 atoms a rank",
    source: "LAMMPS examples/snap/in.snap.Ta06A: 1.915 ms a step of 32 atoms and 431 ghosts in six messages, 24 B an atom (measured: its \
             log of 15 June 2020, four cores); neighbours are checked in every step, which reduces 4 B (derived)",
    traced: 128,
    axes: 3,
    periodic: true,
    cycle: &[once(&SNAP_STEP), once(&[Phase::Allreduce(4)])],
};

const CRACK: Workload = Workload {
    name: "lammps-crack",
    what: "molecular dynamics, crack in two dimensions, 127 atoms a rank",
    source: "LAMMPS examples/crack/in.crack: 8,141 atoms on the 64 ranks of Ferreira21, 0.175 us an atom and step (measured: its log of 27 \
             November 2018, four cores); a side is 2.8 x 11.7 at a density of 0.93, 24 B an atom (derived); neighbours are checked in each \
             step but five of 47, which reduces 4 B (measured), and here in each",
    traced: 64,
    axes: 2,
    periodic: false,
    cycle: &[once(&[
        shift(0, true, 731),
        shift(0, false, 731),
        shift(1, true, 731),
        shift(1, false, 731),
        micros(22),
        shift(1, false, 731),
        shift(1, true, 731),
        shift(0, false, 731),
        shift(0, true, 731),
        Phase::Allreduce(4),
    ])],
};

const LULESH: Workload = Workload {
    name: "lulesh",
    what: "shock hydrodynamics on an unstructured mesh, 27,000 elements a rank",
    source: "LULESH 2.0, 30 elements along each axis (its default): forces of 3 fields to 26 neighbours, positions and velocities of 6, \
             gradients of 3 to 6, and one reduced time step of 8 B (derived: lulesh-comm.cc); 1 us an element and step (assumed: public \
             runs print 0.5 to 1.1); 60 % of it before the first exchange, 20 % before each other (assumed)",
    traced: 125,
    axes: 3,
    periodic: false,
    cycle: &[once(&[
        Phase::Allreduce(8),
        micros(16_200),
        Phase::Exchange([23_064, 744, 24]),
        micros(5400),
        Phase::Exchange([46_128, 1488, 48]),
        micros(5400),
        Phase::Exchange([21_600, 0, 0]),
    ])],
};

/// A halo of values of 8 B around a cube of points, and the computing that needs it.
const fn halo(side: u64) -> Phase {
    Phase::Exchange([side * side * 8, side * 8, 8])
}

const HPCG: Workload = Workload {
    name: "hpcg",
    what: "conjugate gradients with a multigrid preconditioner, 104^3 points a rank",
    source: "HPCG 3.1, reference, 104 points along each axis (its hpcg.dat): four levels, 27 values a row; two smoothings of 4 and two \
             products of 2 operations a value on each level but the coarsest, which is smoothed once; three dot products an iteration \
             (derived: its ComputeMG_ref.cpp and CG_ref.cpp), at 0.607 GFlop/s",
    traced: 128,
    axes: 3,
    periodic: false,
    cycle: &[once(&[
        halo(104),
        micros(200_300),
        halo(104),
        micros(100_100),
        halo(52),
        micros(25_000),
        halo(52),
        micros(12_500),
        halo(26),
        micros(3130),
        halo(26),
        micros(1560),
        halo(13),
        micros(391),
        halo(26),
        micros(3130),
        halo(52),
        micros(25_000),
        halo(104),
        micros(200_300),
        Phase::Allreduce(8),
        halo(104),
        micros(107_500),
        Phase::Allreduce(8),
        micros(7400),
        Phase::Allreduce(8),
    ])],
};

const MINIFE: Workload = Workload {
    name: "minife",
    what: "conjugate gradients on a finite element matrix, 100^3 points a rank",
    source: "miniFE 2.0: a product with 27 values a row and a halo, then two dot products of 8 B an iteration (derived: cg_solve.hpp), at \
             0.607 GFlop/s; 100 points along each axis (assumed)",
    traced: 128,
    axes: 3,
    periodic: false,
    cycle: &[once(&[halo(100), micros(92_300), Phase::Allreduce(8), micros(6600), Phase::Allreduce(8), micros(6600)])],
};

const CTH: Workload = Workload {
    name: "cth",
    what: "shock physics, 64^3 cells a rank",
    source: "no source is public: 64 cells along each axis, 40 fields of 8 B, three sweeps a step with a halo over faces each, and two \
             reduced values of 8 B a step; 5 us a cell and step (all assumed)",
    traced: 128,
    axes: 3,
    periodic: false,
    cycle: &[once(&[
        Phase::Exchange([1_310_720, 0, 0]),
        micros(437_000),
        Phase::Exchange([1_310_720, 0, 0]),
        micros(437_000),
        Phase::Exchange([1_310_720, 0, 0]),
        micros(437_000),
        Phase::Allreduce(8),
        Phase::Allreduce(8),
    ])],
};

const MILC: Workload = Workload {
    name: "milc",
    what: "quantum chromodynamics on a lattice, 8 x 8 x 8 x 9 sites a rank",
    source: "MILC 7, conjugate gradients of ks_imp_dyn: two products an iteration, each after a halo of one and of three sites in four \
             dimensions, 48 B a site of one parity, two reduced values of 8 B, 1,187 operations a site (derived: d_congrad5_fn.c), at \
             0.607 GFlop/s; the lattice of a rank (assumed: small as in the NERSC-8 benchmarks)",
    traced: 128,
    axes: 4,
    periodic: true,
    cycle: &[once(&[
        Phase::Exchange([55_300, 0, 0]),
        micros(4505),
        Phase::Exchange([55_300, 0, 0]),
        micros(4505),
        Phase::Allreduce(8),
        Phase::Allreduce(8),
    ])],
};

const SPARC_SWEEP: [Phase; 2] = [Phase::Exchange([40_960, 1280, 40]), micros(40_000)];
const SPARC: Workload = Workload {
    name: "sparc",
    what: "compressible flow, implicit, 32^3 cells a rank",
    source: "no source is public: 32 cells along each axis, 5 unknowns of 8 B, ten sweeps a step with a halo each of 40 ms, 400 ms to \
             assemble, two reduced norms of 40 B a step (all assumed)",
    traced: 128,
    axes: 3,
    periodic: false,
    cycle: &[
        once(&[Phase::Exchange([40_960, 1280, 40]), micros(400_000), Phase::Allreduce(40)]),
        RepeatedPhases { times: 10, phases: &SPARC_SWEEP },
        once(&[Phase::Allreduce(40)]),
    ],
};

/// All workloads, in the order of the table.
pub const WORKLOADS: [Workload; 9] = [LJ, SNAP, CRACK, LULESH, HPCG, CTH, MILC, MINIFE, SPARC];
