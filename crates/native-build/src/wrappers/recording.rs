//! Wrappers that record calls.
//!
//! The code that records a call is written by hand (`mpi/trace/calls.h`: `after_Send` for `MPI_Send`). The wrapper
//! calls the MPI, then passes to `after_Send` the arguments that it has parameters for.
//!
//! Functions that communicate with other ranks and are not recorded are reported at their first call; all others have
//! no wrapper.

use std::fmt::Write as _;

use super::{STATUS, argument, companions, declarations, fortran_head, names};
use crate::header::{Function, Parameter, functions};

/// Functions that communicate with other ranks and are not simulated, by name, or by prefix with a final `*`.
const OTHERS: [&str; 51] = [
    "Accumulate",
    "Alltoallw",
    "Allgather_init",
    "Allgatherv_init",
    "Allreduce_init",
    "Alltoall_init",
    "Alltoallv_init",
    "Alltoallw_init",
    "Barrier_init",
    "Bcast_init",
    "Comm_accept",
    "Comm_connect",
    "Comm_idup*",
    "Comm_join",
    "Comm_spawn*",
    "Compare_and_swap",
    "Exscan_init",
    "Fetch_and_op",
    "File_*",
    "Gather_init",
    "Gatherv_init",
    "Get",
    "Get_accumulate",
    "Iallgather*",
    "Iallreduce",
    "Ialltoall*",
    "Ibarrier",
    "Ibcast",
    "Iexscan",
    "Igather*",
    "Improbe",
    "Imrecv",
    "Ineighbor_*",
    "Intercomm_*",
    "Ireduce*",
    "Iscan",
    "Iscatter*",
    "Isendrecv*",
    "Mprobe",
    "Mrecv",
    "Neighbor_*",
    "Precv_init",
    "Psend_init",
    "Put",
    "Raccumulate",
    "Reduce_init",
    "Rget*",
    "Rput",
    "Scan_init",
    "Scatter_init",
    "Win_*",
];

/// Types of handles, and the functions that convert Fortran's to C's.
const HANDLES: [(&str, &str); 5] = [
    ("MPI_Comm", "PMPI_Comm_f2c"),
    ("MPI_Datatype", "PMPI_Type_f2c"),
    ("MPI_Group", "PMPI_Group_f2c"),
    ("MPI_Op", "PMPI_Op_f2c"),
    ("MPI_Request", "PMPI_Request_f2c"),
];

/// Returns the wrappers of the functions of a preprocessed `mpi.h`; `calls`, the text of `calls.h`, declares which are
/// recorded.
pub fn generate(header: &str, calls: &str) -> String {
    let mut out =
        String::from("/* Generated from mpi.h by rampart. */\n#include \"calls.h\"\n#include \"fortran.h\"\n");
    out.push_str("#include \"record.h\"\n");
    let recorded = companions(calls, "after_");
    for Function { name, parameters } in functions(header, "int", "MPI_") {
        if let Some(after) = recorded.get(&name) {
            let asked: Option<Vec<&Parameter>> =
                after.parameters.iter().map(|asked| argument(asked, &parameters)).collect();
            let Some(asked) = asked else { continue };
            write_c(&mut out, &name, &parameters, &after.name, &asked);
            for by in IN_FORTRAN {
                write_fortran(&mut out, by, &name, &parameters, &after.name, &asked);
            }
        } else if is_other(&name) {
            other(&mut out, &name, &parameters);
        }
    }
    out
}

fn is_other(name: &str) -> bool {
    OTHERS.iter().any(|other| match other.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == *other || name.strip_suffix("_c") == Some(other),
    })
}

fn write_c(out: &mut String, name: &str, parameters: &[Parameter], after: &str, asked: &[&Parameter]) {
    let declared = declarations(parameters);
    let asked = asked.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    let _ = writeln!(out, "\nint MPI_{name}({declared})\n{{\n    bool own = enter();");
    for status in parameters.iter().filter(|one| one.kind == STATUS) {
        let status = &status.name;
        let _ = writeln!(out, "    MPI_Status mine;\n    {status} = {status} == MPI_STATUS_IGNORE ? &mine : {status};");
    }
    let _ = writeln!(out, "    int result = PMPI_{name}({});", names(parameters));
    let _ = writeln!(out, "    if (own && result == MPI_SUCCESS)\n        after_{after}({asked});");
    let _ = writeln!(out, "    leave();\n    return result;\n}}");
}

/// The entries of a function in Fortran, as macros of `fortran.h` write them. Each hands on to the library's own of its
/// kind.
const IN_FORTRAN: [&str; 2] = ["FORTRAN_77", "FORTRAN_2008"];

fn fortran_call(out: &mut String, by: &str, name: &str, parameters: &[Parameter]) {
    let handed: Vec<&str> = parameters.iter().map(|one| one.name.as_str()).chain(["ierror"]).collect();
    let small = name.to_ascii_lowercase();
    let own = if by == "FORTRAN_77" {
        format!("pmpi_{small}_")
    } else {
        let _ = writeln!(out, "    NEXT(mpi_{small});");
        "next".to_owned()
    };
    let _ = writeln!(out, "    {own}({});", handed.join(", "));
}

fn write_fortran(out: &mut String, by: &str, name: &str, parameters: &[Parameter], after: &str, asked: &[&Parameter]) {
    fortran_head(out, by, name, parameters, &[]);
    out.push_str("    bool own = enter();\n");
    for status in parameters.iter().filter(|one| one.kind == STATUS) {
        let status = &status.name;
        let _ = writeln!(out, "    MPI_Fint mine[FORTRAN_STATUS];");
        let _ = writeln!(out, "    {status} = is_status_ignored({status}) ? mine : {status};");
    }
    fortran_call(out, by, name, parameters);
    out.push_str("    if (own && *ierror == MPI_SUCCESS) {\n");
    let handed: Vec<String> = asked.iter().map(|one| converted_to_c(out, one)).collect();
    let _ = writeln!(out, "        after_{after}({});\n    }}\n    leave();\n}}", handed.join(", "));
}

/// Returns an argument of Fortran's converted to C; writes first the lines that the conversion needs.
fn converted_to_c(out: &mut String, parameter: &Parameter) -> String {
    let Parameter { kind, name, .. } = parameter;
    if kind == STATUS {
        let _ = writeln!(out, "        MPI_Status {name}_of_c;\n        PMPI_Status_f2c({name}, &{name}_of_c);");
        return format!("&{name}_of_c");
    }
    for (handle, convert) in HANDLES {
        if kind == handle {
            return format!("{convert}(*{name})");
        }
        if kind.strip_suffix(" *") == Some(handle) {
            let _ = writeln!(out, "        {handle} {name}_of_c = {convert}(*{name});");
            return format!("&{name}_of_c");
        }
    }
    if kind == "int" { format!("*{name}") } else { name.clone() }
}

/// Writes wrappers that report the function at its first call. Functions with Fortran strings, whose hidden lengths
/// `mpi.h` does not show, get none for Fortran.
fn other(out: &mut String, name: &str, parameters: &[Parameter]) {
    let declared = declarations(parameters);
    let report = format!(
        "    static bool reported;\n    if (!reported) {{\n        reported = true;\n        after_other(\"MPI_{name}\");\n    }}\n"
    );
    let _ =
        writeln!(out, "\nint MPI_{name}({declared})\n{{\n{report}    return PMPI_{name}({});\n}}", names(parameters));
    let for_fortran = |one: &Parameter| !one.kind.contains("char") && !one.kind.contains("function");
    if !name.ends_with("_c") && parameters.iter().all(for_fortran) {
        for by in IN_FORTRAN {
            fortran_head(out, by, name, parameters, &[]);
            out.push_str(&report);
            fortran_call(out, by, name, parameters);
            out.push_str("}\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: &str = "void after_Recv(int count, MPI_Datatype datatype, MPI_Status *status);\n\
        void after_Comm_dup(MPI_Comm *newcomm);\n#define after_Cart_create after_Comm_dup\n";

    #[test]
    fn a_recorded_function_hands_on_and_tells_what_is_asked_for() {
        let header =
            "__attribute__((x)) int MPI_Recv(void *buf, int count,\n   MPI_Datatype datatype, MPI_Status *status);";
        let made = generate(header, CALLS);
        let c = "int MPI_Recv(void *buf, int count, MPI_Datatype datatype, MPI_Status *status)\n{\n    bool own = enter();\n    \
            MPI_Status mine;\n    status = status == MPI_STATUS_IGNORE ? &mine : status;\n    \
            int result = PMPI_Recv(buf, count, datatype, status);\n    if (own && result == MPI_SUCCESS)\n        \
            after_Recv(count, datatype, status);\n    leave();\n    return result;\n}\n";
        assert!(made.contains(c), "{made}");
        assert!(made.contains("pmpi_recv_(buf, count, datatype, status, ierror);"), "{made}");
        assert!(made.contains("NEXT(mpi_recv);\n    next(buf, count, datatype, status, ierror);"), "{made}");
        assert!(made.contains("after_Recv(*count, PMPI_Type_f2c(*datatype), &status_of_c);"), "{made}");
    }

    #[test]
    fn an_argument_of_another_name_is_known_by_its_type() {
        let made = generate("int MPI_Cart_create(MPI_Comm old, const int dims[], MPI_Comm *comm_cart);", CALLS);
        assert!(made.contains("        after_Comm_dup(comm_cart);\n"), "{made}");
        assert!(made.contains("MPI_Comm comm_cart_of_c = PMPI_Comm_f2c(*comm_cart);"), "{made}");
    }

    #[test]
    fn what_is_not_recorded_is_named_or_left_alone() {
        let header = "int MPI_Put(const void *a, int n); int MPI_Comm_rank(MPI_Comm comm, int *rank);\
            int MPI_File_open(MPI_Comm comm, const char *name); extern int MPI_F; typedef int (MPI_X)(int);";
        let made = generate(header, CALLS);
        assert!(made.contains("after_other(\"MPI_Put\");") && made.contains("pmpi_put_(a, n, ierror);"), "{made}");
        assert!(made.contains("after_other(\"MPI_File_open\");") && !made.contains("pmpi_file_open_"), "{made}");
        assert!(!made.contains("Comm_rank") && !made.contains("MPI_X"), "{made}");
    }

    #[test]
    fn no_text_makes_the_generator_panic() {
        for header in
            ["int MPI_", "int MPI_X(", "int MPI_X(int", "int MPI_Put()", "int MPI_Put(,)", "void after_(", "int MPI_é("]
        {
            generate(header, header);
        }
    }
}
