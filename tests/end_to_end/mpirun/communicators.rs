//! Communicators that the MPI makes or uses in ways of its own.

use super::{Job, libraries};

const NEIGHBORS: &str = include_str!("../victims/neighbors.c");
const DUPLICATES: &str = include_str!("../victims/duplicates.c");

/// `MPI_Ineighbor_alltoall` of Open MPI 4.1.4 exchanges both pieces (`mpi/redmpi/neighbors.h`); so do
/// `MPI_Neighbor_alltoallv` and `MPI_Neighbor_alltoallw` of MPICH 4.0.2, also without replicas. `MPI_Ialltoallv` of
/// Open MPI may wait for a piece without data (`mpi/redmpi/exchanges.h`).
#[test]
fn what_goes_to_the_left_comes_from_the_right_where_both_are_one_process() {
    let Some(job) = Job::built("mpicc.openmpi", "program.c", NEIGHBORS) else { return };
    let (output, document) = job.run(&["--replicas", "2"], "");
    assert_eq!((output.code, output.out.as_str()), (Some(0), "0 wrong\n"), "{output:?}");
    // Three exchanges in each of two grids and the sum, in each of eight processes.
    assert_eq!((&document["compared"], &document["differed"]), (&56.into(), &0.into()), "{document}");
}

/// Open MPI 4.1.4 waited for ever (`mpi/redmpi/duplicates.h`).
#[test]
fn communicators_are_duplicated_several_at_a_time() {
    for job in libraries().into_iter().filter_map(|[c, _]| Job::built(c, "program.c", DUPLICATES)) {
        for replicas in ["2", "3"] {
            let (output, document) = job.run(&["--replicas", replicas], "");
            assert_eq!((output.code, output.out.as_str()), (Some(0), "sum 20\n"), "{output:?}");
            assert_eq!(document["differed"], 0, "{document}");
        }
    }
}
