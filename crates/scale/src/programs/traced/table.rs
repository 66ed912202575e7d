//! Traces of those programs of \[Ferreira21, tab. I\] that are public.
//!
//! The sizes of a rank are those of the [skeletons](crate::programs::workload::table). How each trace was recorded is
//! in `crates/scale/traces/README.md`.

use super::TracedWorkload;

const LJ: TracedWorkload = TracedWorkload {
    name: "lammps-lj",
    what: "molecular dynamics, Lennard-Jones liquid, 32,000 atoms a rank",
    source: "LAMMPS of 29 September 2021 (Debian 12), the problem of bench/in.lj with 256,000 atoms: its 100 steps and the output after \
             them",
    ranks: 8,
    file: include_bytes!("../../../traces/lammps-lj.trace.zst"),
    setup: 59,
    repeated: 5,
};

const CRACK: TracedWorkload = TracedWorkload {
    name: "lammps-crack",
    what: "molecular dynamics, crack in two dimensions, 132 atoms a rank",
    source: "LAMMPS of 29 September 2021 (Debian 12), examples/crack/in.crack on an eighth of its plate, for as many atoms a rank as \
             Ferreira21 has: its first 200 steps and the output after them",
    ranks: 8,
    file: include_bytes!("../../../traces/lammps-crack.trace.zst"),
    setup: 197,
    repeated: 195,
};

const LULESH: TracedWorkload = TracedWorkload {
    name: "lulesh",
    what: "shock hydrodynamics on an unstructured mesh, 27,000 elements a rank",
    source: "LULESH 2.0 (3e01c40), 30 elements along each axis (its default): its first 39 steps",
    ranks: 8,
    file: include_bytes!("../../../traces/lulesh.trace.zst"),
    setup: 1,
    repeated: 39,
};

const HPCG: TracedWorkload = TracedWorkload {
    name: "hpcg",
    what: "conjugate gradients with a multigrid preconditioner, 104^3 points a rank",
    source: "HPCG 3.1, reference (114602d), 104 points along each axis (its hpcg.dat): iterations 2 to 21",
    ranks: 8,
    file: include_bytes!("../../../traces/hpcg.trace.zst"),
    setup: 12,
    repeated: 60,
};

const MINIFE: TracedWorkload = TracedWorkload {
    name: "minife",
    what: "conjugate gradients on a finite element matrix, 100^3 elements a rank",
    source: "miniFE 2, ref (c79e0f7), 200 elements along each axis on two ranks along each: its iterations but the last",
    ranks: 8,
    file: include_bytes!("../../../traces/minife.trace.zst"),
    setup: 14,
    repeated: 398,
};

/// All traces, in the order of the skeletons.
pub const TRACES: [TracedWorkload; 5] = [LJ, CRACK, LULESH, HPCG, MINIFE];
