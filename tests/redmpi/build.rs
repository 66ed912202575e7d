//! Compiles the C of `mpi/redmpi` that decides, as it is compiled on a user's machine.

fn main() {
    println!("cargo::rerun-if-changed=../../mpi/redmpi");
    cc::Build::new()
        .std("c11")
        .define("_GNU_SOURCE", None)
        .include("../../mpi/redmpi")
        .file("../../mpi/redmpi/agreement.c")
        .file("../../mpi/redmpi/comparison.c")
        .file("../../mpi/redmpi/ending.c")
        .file("../../mpi/redmpi/history.c")
        .file("../../mpi/redmpi/paths.c")
        .file("../../mpi/redmpi/spare_heap.c")
        .file("../../mpi/redmpi/succession.c")
        .file("src/size.c")
        .compile("decides");
}
