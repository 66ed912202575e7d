//! What programs seldom use of MPI: messages in parts, generalized requests, shared file pointers, large counts, lists
//! of types in Fortran, the tool interface.

use std::collections::BTreeSet;
use std::process::Command;

use super::{Job, LIBRARIES, libraries};
use crate::trace::compiles;

const PROGRAM: &str = include_str!("../victims/whole.c");
const TABLE: &str = include_str!("../../../mpi/redmpi/functions.txt");
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
        let flips = ["--replicas", "3", "--inject", "flip:send:rate=1/3,replica=1,seed=5"];
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

/// Of each installed MPI: the names before parentheses in its header. Functions with large counts are treated as those
/// without; those of one MPI alone are refused, as all that are not listed.
#[test]
fn each_function_of_the_mpi_stands_in_the_table() {
    let words = |text: &str| -> BTreeSet<String> {
        let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let before = text.split('(').map(|part| part.trim_end().rsplit(|letter| !is_of_name(letter)).next());
        before.flatten().filter_map(|word| word.strip_prefix("MPI_")).map(str::to_owned).collect()
    };
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let listed: BTreeSet<&str> = lines.filter_map(|line| line.split(' ').next()).collect();
    for [compiler, _] in LIBRARIES {
        if !compiles(compiler) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("program.c");
        std::fs::write(&source, "#include <mpi.h>\n").unwrap();
        let header = Command::new(compiler).arg("-E").arg(&source).output().expect("it works");
        let functions = words(&String::from_utf8(header.stdout).unwrap());
        assert!(functions.len() > 350, "{compiler}: {}", functions.len());
        let missing: Vec<&String> = functions
            .iter()
            .filter(|name| !listed.contains(name.strip_suffix("_c").unwrap_or(name)) && name.as_str() != "Aint")
            .collect();
        assert!(missing.is_empty(), "{compiler}: {missing:?}");
    }
}
