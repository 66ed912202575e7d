//! MPICH 5, with its own ABI and with the standard one [MPI 5.0, chapter 20].

use super::{Job, PROGRAM, installed};

#[test]
fn programs_of_the_standard_abi_are_compared_and_corrected() {
    let Some(mpi) = installed("mpich5") else { return };
    let launcher = mpi.join("mpirun");
    let launcher = ["--launcher", launcher.to_str().unwrap()];
    for compiler in ["mpicc", "mpicc_abi"] {
        let job = Job::built(mpi.join(compiler).to_str().unwrap(), "program.c", PROGRAM).unwrap();
        let (output, document) = job.run(&[&launcher[..], &["--replicas", "2"]].concat(), "all");
        assert_eq!((output.code, output.out.as_str()), (Some(0), "done\n"), "{output:?}");
        assert_eq!((&document["differed"], &document["stopped"]), (&0.into(), &serde_json::Value::Null), "{document}");
        let (right, _) = job.run(&[&launcher[..], &["--replicas", "2"]].concat(), "ring");
        let flips = ["--replicas", "3", "--inject", "flip:send:at=7,rank=2,replica=1"];
        let (output, document) = job.run(&[&launcher[..], &flips].concat(), "ring");
        assert_eq!((output.code, &output.out), (Some(0), &right.out), "{document}");
        assert_eq!((&document["injected"], &document["replaced"]), (&1.into(), &document["differed"]), "{document}");
        assert!(document["replaced"].as_u64() > Some(0), "{document}");
    }
}

/// Of two ABIs of one MPI, the library must have the program's.
#[test]
fn a_compiler_of_the_other_abi_is_refused_in_one_line() {
    let Some(mpi) = installed("mpich5") else { return };
    let named = |name: &str| mpi.join(name).to_str().unwrap().to_owned();
    let job = Job::built(&named("mpicc_abi"), "program.c", PROGRAM).unwrap();
    let words = ["--launcher", &named("mpirun"), "--mpicc", &named("mpicc")];
    let output = job.command("2", &words, "ring").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("the program needs an MPI with the standard ABI, and"), "{said}");
}
