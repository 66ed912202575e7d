//! Neighbours in grids.

use super::Job;

const PROGRAM: &str = include_str!("../victims/neighbors.c");

/// `MPI_Ineighbor_alltoall` of Open MPI 4.1.4 exchanges both pieces (`mpi/redmpi/neighbors.h`). MPICH 4.0.2 does so in
/// `MPI_Neighbor_alltoallv` and `MPI_Neighbor_alltoallw` without replicas, too.
#[test]
fn what_goes_to_the_left_comes_from_the_right_where_both_are_one_process() {
    let Some(job) = Job::built("mpicc.openmpi", "program.c", PROGRAM) else {
        println!("skipped: no MPI (mpicc.openmpi)");
        return;
    };
    let (output, document) = job.run(&["--replicas", "2"], "");
    assert_eq!((output.code, output.out.as_str()), (Some(0), "0 wrong\n"), "{output:?}");
    // Three exchanges in each of two grids and the sum, in each of eight processes.
    assert_eq!((&document["compared"], &document["differed"]), (&56.into(), &0.into()), "{document}");
}
