//! What programs seldom use of MPI: messages in parts, generalized requests, shared file pointers, large counts, lists
//! of types in Fortran, the tool interface.

use super::{Job, libraries};

const PROGRAM: &str = include_str!("../victims/whole.c");
const IN_FORTRAN: &str = include_str!("../victims/types.f90");

/// The sum of all that depends on time is in the last message, which would differ.
#[test]
fn what_programs_seldom_use_is_compared_and_corrected_as_well() {
    for job in libraries().into_iter().filter_map(|[c, _]| Job::built(c, "program.c", PROGRAM)) {
        let plain = ["--replicas", "2"];
        let (output, document) = job.run_ranks("2", &plain, "all");
        assert_eq!((output.code, output.out.as_str()), (Some(0), "done\n"), "{output:?}");
        assert_eq!((&document["differed"], &document["output_mismatches"]), (&0.into(), &serde_json::json!([])));
        let compared = document["compared"].as_u64().unwrap();
        let flips = ["--replicas", "3", "--inject", "flip:odds=3,replica=1,seed=5"];
        let (output, document) = job.run_ranks("2", &flips, "all");
        assert_eq!((output.code, output.out.as_str()), (Some(0), "done\n"), "{output:?}");
        assert_eq!(document["compared"], compared / 2 * 3, "each replica compares as much: {document}");
        let number = |name: &str| document[name].as_u64().unwrap();
        assert!(number("injected") > 0 && number("replaced") >= number("injected"), "{document}");
        assert_eq!(number("replaced"), number("differed"), "one replica is wrong: {document}");
        for (argument, function) in [("tool", "MPI_T_cvar_write"), ("refused", "MPI_Open_port")] {
            let (output, document) = job.run_ranks("2", &plain, argument);
            assert_eq!(output.code, Some(1), "{output:?}");
            assert!(document["stopped"].as_str().unwrap().contains(function), "{document}");
        }
    }
}

/// Compared in each of four ranks: three operations with a piece for each, one with two neighbours, and a sum.
#[test]
fn lists_of_types_and_generalized_requests_work_in_fortran() {
    for job in libraries().into_iter().filter_map(|[_, fortran]| Job::built(fortran, "program.f90", IN_FORTRAN)) {
        let (output, document) = job.run(&["--replicas", "2"], "");
        assert_eq!((output.code, output.out.as_str()), (Some(0), "done\n"), "{output:?}");
        assert_eq!((&document["compared"], &document["differed"]), (&(2 * 4 * 5).into(), &0.into()), "{document}");
    }
}
