//! A wrapper that counts the calls of one function, which the user chose (`mpi/redmpi/timesteps.h`).
//!
//! It is in a library of its own, preloaded before the one that has the other wrappers, and calls the next function of
//! the same name. So a job in which nothing is to be counted pays nothing for it.

use std::fmt::Write as _;

use super::{declarations, declared_in_fortran, names};
use crate::header::{Function, Parameter, functions};

const HEAD: &str = "/* Generated from mpi.h by rampart. */
#include <dlfcn.h>
#include <mpi.h>
#include <stddef.h>

#include \"timesteps.h\"
";

/// Returns the wrapper of the function of this name, `MPI_Allreduce` or the like; `None` if the preprocessed `mpi.h`
/// declares none that has a fixed number of arguments and returns an error code.
pub fn generate(header: &str, name: &str) -> Option<String> {
    let short = name.strip_prefix("MPI_")?;
    let is_fixed = |one: &Function| one.parameters.iter().all(|parameter| !parameter.name.is_empty());
    let Function { parameters, .. } =
        functions(header, "int", "MPI_").find(|one| one.name == short && is_fixed(one))?;
    let mut out = HEAD.to_owned();
    let declared = declarations(&parameters);
    let _ = writeln!(out, "\nint {name}({declared})\n{{\n    static int (*next)({declared});");
    write_count(&mut out, name);
    let _ = writeln!(out, "    return next({});\n}}", names(&parameters));
    // Strings of Fortran have hidden lengths, which `mpi.h` does not show.
    let for_fortran = |one: &Parameter| !one.kind.contains("char") && !one.kind.contains("function");
    if parameters.iter().all(for_fortran) {
        let declared: Vec<String> = parameters.iter().map(declared_in_fortran).collect();
        let declared = declared.iter().map(String::as_str).chain(["MPI_Fint *ierror"]).collect::<Vec<_>>().join(", ");
        let handed: Vec<&str> = parameters.iter().map(|one| one.name.as_str()).chain(["ierror"]).collect();
        for name in fortran_names(name) {
            let _ = writeln!(out, "\nvoid {name}({declared})\n{{\n    static void (*next)({declared});");
            write_count(&mut out, &name);
            let _ = writeln!(out, "    next({});\n}}", handed.join(", "));
        }
    }
    Some(out)
}

/// The names that Fortran compilers give to a function, and those that it has in the module `mpi_f08`.
fn fortran_names(name: &str) -> [String; 6] {
    let small = name.to_ascii_lowercase();
    let [plain, one, two] = ["", "_", "__"].map(|end| format!("{small}{end}"));
    [plain, one, two, name.to_ascii_uppercase(), format!("{small}_f08_"), format!("{small}_f08ts_")]
}

fn write_count(out: &mut String, symbol: &str) {
    let _ = writeln!(
        out,
        "    if (!next)\n        next = dlsym(RTLD_NEXT, \"{symbol}\");\n    rampart_timestep(__builtin_return_address(0));"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chosen_function_counts_and_calls_the_next_of_its_name() {
        let header = "int MPI_Waitall(int count, MPI_Request requests[]); int MPI_Pcontrol(const int level, ...);\
            int MPI_File_open(const char *name); double MPI_Wtime(void);";
        let made = generate(header, "MPI_Waitall").unwrap();
        let c = "int MPI_Waitall(int count, MPI_Request requests[])\n{\n    \
            static int (*next)(int count, MPI_Request requests[]);\n    if (!next)\n        \
            next = dlsym(RTLD_NEXT, \"MPI_Waitall\");\n    rampart_timestep(__builtin_return_address(0));\n    return next(count, requests);\n}\n";
        assert!(made.contains(c), "{made}");
        assert!(made.contains("dlsym(RTLD_NEXT, \"mpi_waitall_\");"), "{made}");
        assert!(made.contains("    next(count, requests, ierror);\n"), "{made}");
        assert!(made.contains("dlsym(RTLD_NEXT, \"mpi_waitall_f08ts_\");"), "{made}");
        assert!(!generate(header, "MPI_File_open").unwrap().contains("void mpi_"), "its string has a hidden length");
        for other in ["MPI_Wait", "Waitall", "MPI_Pcontrol", "MPI_Wtime", "MPI_", ""] {
            assert_eq!(generate(header, other), None, "{other}");
        }
    }
}
