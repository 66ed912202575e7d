//! Wrappers for replicated programs.
//!
//! What becomes of each function stands in a table (`mpi/redmpi/functions.txt`); a function that is not there ends the
//! job, so that none is passed on wrong. A communicator of the program is given to the MPI as that of the team. A
//! collective operation is described by the function of its name in `mpi/redmpi/collectives.h`.
//!
//! Fortran's wrappers convert their arguments and call the functions of C, since these decide. Only what is harmless
//! goes to Fortran's own functions, which know strings and logicals better.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Companion, STATUS, argument, companions, declarations, fortran_head, hidden_lengths, names};
use crate::header::{Function, Parameter, functions};

/// What becomes of a function of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    /// Written by hand; with Fortran's, if they are `paired`.
    Own { paired: bool },
    /// Performed by the team, and its output compared.
    Collective(Ends),
    /// Performed by the team; makes a communicator.
    Creates,
    /// Performed by the team.
    Team,
    /// Left to the MPI.
    Local,
    /// Ends the job.
    Refused,
}

/// When a collective operation ends, and its output is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// When the call does.
    Now,
    /// With its request.
    Later,
    /// With its request, each time that the program starts it.
    Persistent,
}

impl Ends {
    /// Returns the name of the operation of this kind, as it is called when it ends at once.
    fn operation(self, name: &str) -> String {
        match self {
            Self::Now => name.to_owned(),
            Self::Later => {
                let mut letters = name.chars().skip(1);
                letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
            }
            Self::Persistent => name.trim_end_matches("_init").to_owned(),
        }
    }
}

impl Treatment {
    fn named(name: &str) -> Self {
        match name {
            "own" => Self::Own { paired: false },
            "paired" => Self::Own { paired: true },
            "collective" => Self::Collective(Ends::Now),
            "later" => Self::Collective(Ends::Later),
            "persistent" => Self::Collective(Ends::Persistent),
            "creates" => Self::Creates,
            "team" => Self::Team,
            "local" => Self::Local,
            _ => Self::Refused,
        }
    }
}

/// Types of handles, and the functions that convert between Fortran's and C's.
const HANDLES: [(&str, &str, &str); 9] = [
    ("MPI_Comm", "PMPI_Comm_f2c", "PMPI_Comm_c2f"),
    ("MPI_Datatype", "PMPI_Type_f2c", "PMPI_Type_c2f"),
    ("MPI_Errhandler", "PMPI_Errhandler_f2c", "PMPI_Errhandler_c2f"),
    ("MPI_Group", "PMPI_Group_f2c", "PMPI_Group_c2f"),
    ("MPI_Info", "PMPI_Info_f2c", "PMPI_Info_c2f"),
    ("MPI_Message", "PMPI_Message_f2c", "PMPI_Message_c2f"),
    ("MPI_Op", "PMPI_Op_f2c", "PMPI_Op_c2f"),
    ("MPI_Request", "request_from_fortran", "request_to_fortran"),
    ("MPI_Win", "PMPI_Win_f2c", "PMPI_Win_c2f"),
];

const COMM: &str = "MPI_Comm";
const COUNT: &str = "MPI_Count";

/// Returns the wrappers of the functions of a preprocessed `mpi.h`. `table` says what becomes of each; `descriptions`,
/// the text of `collectives.h`, declares the functions that describe collective operations.
pub fn generate(header: &str, table: &str, descriptions: &str) -> String {
    let mut out = String::from("/* Generated from mpi.h by rampart. */\n");
    for include in [
        "bindings",
        "collectives",
        "communicators",
        "decisions",
        "events",
        "fortran",
        "receives",
        "requests",
        "teams",
        "waits",
    ] {
        let _ = writeln!(out, "#include \"{include}.h\"");
    }
    let table: BTreeMap<&str, Treatment> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(name, treatment)| (name, Treatment::named(treatment)))
        .collect();
    let descriptions = companions(descriptions, "describe_");
    let mut written = Vec::new();
    for Function { name, parameters } in functions(header, "int", "MPI_") {
        if written.contains(&name) {
            continue;
        }
        match treatment(&table, &name) {
            Treatment::Refused if is_large(&table, &name, &parameters) => write_large(&mut out, &name, &parameters),
            treatment => write(&mut out, &name, &parameters, treatment, &descriptions),
        }
        written.push(name);
    }
    out
}

/// Functions with large counts are left alone as their brothers are, and refused otherwise.
fn treatment(table: &BTreeMap<&str, Treatment>, name: &str) -> Treatment {
    let of = |name: &str| table.get(name).copied();
    let large = || name.strip_suffix("_c").and_then(of).filter(|&treatment| treatment == Treatment::Local);
    of(name).or_else(large).unwrap_or(Treatment::Refused)
}

/// Whether a function is that of a supported one with large counts, none of them in a list.
fn is_large(table: &BTreeMap<&str, Treatment>, name: &str, parameters: &[Parameter]) -> bool {
    let small = name.strip_suffix("_c").and_then(|name| table.get(name));
    small.is_some_and(|&treatment| treatment != Treatment::Refused)
        && parameters.iter().all(|one| one.kind == COUNT || !one.kind.contains(COUNT))
}

/// Large counts are passed on as small ones, which nearly all are.
fn write_large(out: &mut String, name: &str, parameters: &[Parameter]) {
    let given = names(parameters);
    let _ = writeln!(out, "\nint MPI_{name}({})\n{{", declarations(parameters));
    let _ = writeln!(out, "    if (teams.is_quiet)\n        return PMPI_{name}({given});");
    let handed: Vec<String> = parameters
        .iter()
        .map(|one| if one.kind == COUNT { format!("small({}, \"MPI_{name}\")", one.name) } else { one.name.clone() })
        .collect();
    let _ = writeln!(out, "    return MPI_{}({});\n}}", name.trim_end_matches("_c"), handed.join(", "));
}

fn write(
    out: &mut String,
    name: &str,
    parameters: &[Parameter],
    treatment: Treatment,
    descriptions: &BTreeMap<String, Companion>,
) {
    match treatment {
        Treatment::Local | Treatment::Own { paired: true } => {}
        Treatment::Own { paired: false } => write_fortran(out, name, parameters),
        Treatment::Refused => {
            write_refusal(out, name, parameters);
        }
        Treatment::Team => {
            write_team(out, name, parameters);
            // What stands for weights differs between the kinds of Fortran.
            let write = if parameters.iter().any(are_weights) { write_fortran } else { write_fortran_of_team };
            write(out, name, parameters);
        }
        Treatment::Creates => {
            write_creation(out, name, parameters);
            write_fortran(out, name, parameters);
        }
        Treatment::Collective(ends) => {
            let description = descriptions.get(&ends.operation(name));
            let Some(described) = description.and_then(|own| Described::of(own, parameters)) else {
                return write_refusal(out, name, parameters);
            };
            write_collective(out, name, parameters, &described, ends);
            write_fortran(out, name, parameters);
        }
    }
}

/// A collective operation and the arguments of its description.
struct Described<'a> {
    as_of: &'a str,
    asked: Vec<&'a Parameter>,
}

impl<'a> Described<'a> {
    /// Its first parameter is what it describes.
    fn of(own: &'a Companion, parameters: &'a [Parameter]) -> Option<Self> {
        let asked = own.parameters.iter().skip(1).map(|one| argument(one, parameters));
        Some(Self { as_of: &own.name, asked: asked.collect::<Option<_>>()? })
    }
}

/// Writes the head of a wrapper, which passes the call on while there are no teams, and else uses the team's
/// communicators.
fn write_head(out: &mut String, name: &str, parameters: &[Parameter]) {
    let _ = writeln!(out, "\nint MPI_{name}({})\n{{", declarations(parameters));
    let _ = writeln!(out, "    if (teams.is_quiet)\n        return PMPI_{name}({});", names(parameters));
    for comm in parameters.iter().filter(|one| one.kind == COMM) {
        let _ = writeln!(out, "    {0} = real_comm({0});", comm.name);
    }
}

fn write_team(out: &mut String, name: &str, parameters: &[Parameter]) {
    write_head(out, name, parameters);
    let _ = writeln!(out, "    return PMPI_{name}({});\n}}", names(parameters));
}

fn write_creation(out: &mut String, name: &str, parameters: &[Parameter]) {
    write_head(out, name, parameters);
    let made = parameters.iter().find(|one| one.kind == "MPI_Comm *").map_or("", |one| &one.name);
    // Of this one, only members of the group call, and not all of the communicator.
    if name == "Comm_create_group" {
        out.push_str("    flush_decisions();\n");
    } else {
        let of = parameters.iter().find(|one| one.kind == COMM).map_or("", |one| &one.name);
        let _ = writeln!(out, "    meet({of});");
    }
    let _ = writeln!(out, "    int result = PMPI_{name}({});", names(parameters));
    let _ = writeln!(out, "    if (result == MPI_SUCCESS)\n        after_new_communicator(*{made});");
    let _ = writeln!(out, "    return result;\n}}");
}

/// A blocking operation is performed as one that ends later: receives of this process may need us meanwhile. All ranks
/// do so, since the two kinds do not match.
fn write_collective(out: &mut String, name: &str, parameters: &[Parameter], described: &Described<'_>, ends: Ends) {
    write_head(out, name, parameters);
    let asked: String = described.asked.iter().map(|one| format!(", {}", one.name)).collect();
    let given = names(parameters);
    let comm = parameters.iter().find(|one| one.kind == COMM).map_or("", |one| &one.name);
    let _ = writeln!(out, "    struct transfer transfer = {{ 0 }};\n    MPI_Request native;");
    let _ = writeln!(out, "    describe_{}(&transfer{asked});", described.as_of);
    let _ = writeln!(out, "    name_transfer(&transfer, \"MPI_{name}\", {comm});");
    if ends != Ends::Persistent {
        out.push_str("    before_transfer(&transfer);\n");
    }
    match (ends, parameters.split_last()) {
        (Ends::Now, _) | (_, None) => {
            let mut letters = name.chars();
            let first = letters.next().map(|letter| letter.to_ascii_lowercase()).unwrap_or_default();
            out.push_str("    begin_wait(transfer.name, NULL, -1, -1);\n");
            let _ = writeln!(out, "    int result = PMPI_I{first}{}({given}, &native);", letters.as_str());
            let _ = writeln!(out, "    if (result == MPI_SUCCESS)");
            let _ = writeln!(out, "        result = complete(&native, MPI_STATUS_IGNORE);");
            let _ = writeln!(out, "    if (result == MPI_SUCCESS)\n        after_transfer(&transfer);");
            out.push_str("    end_wait();\n");
        }
        (Ends::Later | Ends::Persistent, Some((request, rest))) => {
            let kind = if ends == Ends::Later { "" } else { "persistent_" };
            let _ = writeln!(out, "    int result = PMPI_{name}({}, &native);", names(rest));
            let _ = writeln!(out, "    if (result == MPI_SUCCESS)");
            let _ = writeln!(out, "        *{} = {kind}transfer_request(&transfer, native);", request.name);
        }
    }
    out.push_str("    return result;\n}\n");
}

fn write_refusal(out: &mut String, name: &str, parameters: &[Parameter]) {
    let refusal = format!("    if (refuses())\n        stop_job(\"MPI_{name}, which is not supported\");\n");
    let declared = declarations(parameters);
    let _ =
        writeln!(out, "\nint MPI_{name}({declared})\n{{\n{refusal}    return PMPI_{name}({});\n}}", names(parameters));
    if !name.ends_with("_c") && !name.starts_with("T_") {
        let lengths = hidden_lengths(parameters);
        fortran_head(out, "FORTRAN", name, parameters, &lengths);
        out.push_str(&refusal);
        let given = parameters.iter().map(|one| one.name.as_str()).chain(["error"]);
        let given: Vec<&str> = given.chain(lengths.iter().map(String::as_str)).collect();
        let _ = writeln!(out, "    pmpi_{}_({});\n}}", name.to_ascii_lowercase(), given.join(", "));
    }
}

/// Fortran's own function does it, with the team's communicator.
fn write_fortran_of_team(out: &mut String, name: &str, parameters: &[Parameter]) {
    let lengths = hidden_lengths(parameters);
    fortran_head(out, "FORTRAN", name, parameters, &lengths);
    let mut handed = Vec::new();
    for one in parameters {
        if one.kind == COMM {
            let _ = writeln!(out, "    MPI_Fint own_{0} = team_in_fortran(*{0});", one.name);
            handed.push(format!("&own_{}", one.name));
        } else {
            handed.push(one.name.clone());
        }
    }
    handed.push("error".to_owned());
    handed.extend(lengths);
    let _ = writeln!(out, "    pmpi_{}_({});\n}}", name.to_ascii_lowercase(), handed.join(", "));
}

/// Writes a wrapper for Fortran that calls the one for C.
fn write_fortran(out: &mut String, name: &str, parameters: &[Parameter]) {
    fortran_head(out, "FORTRAN", name, parameters, &[]);
    let mut back = String::new();
    let handed: Vec<String> = parameters.iter().map(|one| converted(out, &mut back, one)).collect();
    let _ = writeln!(out, "    *error = MPI_{name}({});\n{back}}}", handed.join(", "));
}

/// Whether these are weights of a graph, or what stands for them.
fn are_weights(parameter: &Parameter) -> bool {
    parameter.kind.ends_with("int[]") && parameter.name.ends_with("weights")
}

/// Returns an argument of Fortran's as C takes it. Writes the lines that the conversion needs before the call, and into
/// `back` those that hand back what comes of it.
fn converted(out: &mut String, back: &mut String, parameter: &Parameter) -> String {
    let Parameter { kind, name, .. } = parameter;
    if kind == STATUS {
        let _ = writeln!(out, "    MPI_Status {name}_of_c = status_from_fortran({name});");
        let _ = writeln!(back, "    status_to_fortran(&{name}_of_c, {name});");
        return format!("&{name}_of_c");
    }
    for (handle, from, to) in HANDLES {
        if kind == handle {
            return format!("{from}(*{name})");
        }
        if kind.strip_suffix(" *") == Some(handle) {
            let _ = writeln!(out, "    {handle} {name}_of_c = {from}(*{name});");
            let _ = writeln!(back, "    *{name} = {to}({name}_of_c);");
            return format!("&{name}_of_c");
        }
        if kind.ends_with("[]") && kind.contains(handle) {
            let _ = writeln!(out, "    stop_job(\"{name} in Fortran, which is not supported\");");
            return "NULL".to_owned();
        }
    }
    match kind.as_str() {
        "int" | "MPI_Aint" => format!("*{name}"),
        kind if kind.contains("void") || are_weights(parameter) => format!("buffer_from_fortran({name})"),
        _ => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# a line\nComm_size team\nComm_dup creates\nBcast collective\nIbcast later\nBcast_init persistent\nSend own\nWait paired\n";
    const DESCRIPTIONS: &str =
        "void describe_Bcast(struct transfer *transfer, void *buffer, int count, MPI_Comm comm);\n";

    fn made(header: &str) -> String {
        generate(header, TABLE, DESCRIPTIONS)
    }

    #[test]
    fn a_collective_operation_is_performed_by_the_team_and_compared() {
        let made = made("int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm);");
        assert!(made.contains("    comm = real_comm(comm);\n"), "{made}");
        assert!(made.contains("    describe_Bcast(&transfer, buffer, count, comm);\n"), "{made}");
        assert!(made.contains("PMPI_Ibcast(buffer, count, datatype, root, comm, &native);"), "{made}");
        let fortran = "*error = MPI_Bcast(buffer_from_fortran(buffer), *count, PMPI_Type_f2c(*datatype), *root, \
            PMPI_Comm_f2c(*comm));";
        assert!(made.contains(fortran), "{made}");
    }

    #[test]
    fn what_ends_later_gets_a_request_of_ours() {
        let made = made("int MPI_Ibcast(void *buffer, int count, MPI_Comm comm, MPI_Request *request);");
        assert!(made.contains("*request = transfer_request(&transfer, native);"), "{made}");
        assert!(made.contains("*request = request_to_fortran(request_of_c);"), "{made}");
    }

    #[test]
    fn what_is_started_again_and_again_is_described_once() {
        let made =
            made("int MPI_Bcast_init(void *buffer, int count, MPI_Comm comm, MPI_Info info, MPI_Request *request);");
        assert!(made.contains("    describe_Bcast(&transfer, buffer, count, comm);\n"), "{made}");
        assert!(!made.contains("before_transfer"), "{made}");
        assert!(made.contains("*request = persistent_transfer_request(&transfer, native);"), "{made}");
    }

    #[test]
    fn what_is_harmless_gets_the_communicator_of_the_team() {
        let made =
            made("int MPI_Comm_size(MPI_Comm comm, int *size); int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm);");
        assert!(made.contains("    comm = real_comm(comm);\n    return PMPI_Comm_size(comm, size);"), "{made}");
        assert!(made.contains("pmpi_comm_size_(&own_comm, size, error);"), "{made}");
        assert!(made.contains("after_new_communicator(*newcomm);"), "{made}");
    }

    #[test]
    fn what_is_not_in_the_table_ends_the_job() {
        let made =
            made("int MPI_Put(const void *a, int n); int MPI_Send(int n); int MPI_Wait(int n); int MPI_Put_c(int n);");
        assert!(made.contains("stop_job(\"MPI_Put, which is not supported\");"), "{made}");
        assert!(made.contains("stop_job(\"MPI_Put_c, which is not supported\");"), "{made}");
        assert!(made.contains("*error = MPI_Send(*n);") && !made.contains("int MPI_Send(int"), "{made}");
        assert!(!made.contains("Wait"), "{made}");
    }

    #[test]
    fn large_counts_are_passed_on_as_small_ones() {
        let made = made("int MPI_Send_c(const void *buf, MPI_Count count); int MPI_Bcast_c(const MPI_Count counts[]);");
        assert!(made.contains("return MPI_Send(buf, small(count, \"MPI_Send_c\"));"), "{made}");
        assert!(made.contains("stop_job(\"MPI_Bcast_c, which is not supported\");"), "{made}");
    }

    #[test]
    fn no_text_makes_the_generator_panic() {
        for header in ["int MPI_", "int MPI_X(", "int MPI_Bcast()", "int MPI_Ibcast()", "int MPI_é(", "void describe_("]
        {
            generate(header, header, header);
        }
    }
}
