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
        let name = name.trim_end_matches(LARGE);
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
const HANDLES: [(&str, &str, &str); 10] = [
    ("MPI_Comm", "PMPI_Comm_f2c", "PMPI_Comm_c2f"),
    ("MPI_Datatype", "PMPI_Type_f2c", "PMPI_Type_c2f"),
    ("MPI_Errhandler", "PMPI_Errhandler_f2c", "PMPI_Errhandler_c2f"),
    ("MPI_File", "PMPI_File_f2c", "PMPI_File_c2f"),
    ("MPI_Group", "PMPI_Group_f2c", "PMPI_Group_c2f"),
    ("MPI_Info", "PMPI_Info_f2c", "PMPI_Info_c2f"),
    ("MPI_Message", "PMPI_Message_f2c", "PMPI_Message_c2f"),
    ("MPI_Op", "PMPI_Op_f2c", "PMPI_Op_c2f"),
    ("MPI_Request", "request_from_fortran", "request_to_fortran"),
    ("MPI_Win", "PMPI_Win_f2c", "PMPI_Win_c2f"),
];

const COMM: &str = "MPI_Comm";
const TYPE: &str = "MPI_Datatype";

/// A list of numbers in the description of a collective operation, whatever type they have in its arguments.
const NUMBERS: &str = "struct numbers";

/// The end of the name of a function with large counts: there is one beside each function with counts in MPI 4.
const LARGE: &str = "_c";

/// Blocking operations that functions of `mpi/redmpi/exchanges.h` and `mpi/redmpi/neighbors.h` perform.
const PERFORMED: [&str; 5] =
    ["Alltoallv", "Alltoallw", "Neighbor_alltoall", "Neighbor_alltoallv", "Neighbor_alltoallw"];

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
        "exchanges",
        "fortran",
        "neighbors",
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
    let declared: Vec<Function> = functions(header, "int", "MPI_").collect();
    let mut written = Vec::new();
    for Function { name, parameters } in &declared {
        if written.contains(&name) {
            continue;
        }
        written.push(name);
        let small = name.strip_suffix(LARGE).filter(|small| !table.contains_key(name.as_str()) && !small.is_empty());
        let treatment = table.get(small.unwrap_or(name)).copied().unwrap_or(Treatment::Refused);
        let brother = small.and_then(|small| declared.iter().find(|one| one.name == small));
        match (treatment, brother) {
            (Treatment::Own { .. }, Some(brother)) => write_large(&mut out, name, parameters, brother),
            _ => write(&mut out, name, parameters, treatment, &descriptions),
        }
    }
    out
}

/// A function with large counts calls the one with small counts, for which the library is written: nearly all counts
/// are small, and elements that are too many are handed on as one element of a larger type.
fn write_large(out: &mut String, name: &str, parameters: &[Parameter], small: &Function) {
    let given = names(parameters);
    let _ = writeln!(out, "\nint MPI_{name}({})\n{{", declarations(parameters));
    let _ = writeln!(out, "    if (teams.is_quiet)\n        return PMPI_{name}({given});");
    let mut handed: Vec<String> = parameters.iter().map(|one| one.name.clone()).collect();
    let mut back = String::new();
    for (place, (one, as_small)) in parameters.iter().zip(&small.parameters).enumerate() {
        if one.kind == as_small.kind {
            continue;
        }
        let name_of = &one.name;
        match parameters.get(place + 1) {
            Some(of) if of.kind == TYPE => {
                let _ = writeln!(out, "    struct elements few_{name_of} = few({name_of}, {});", of.name);
                let _ = writeln!(back, "    forget_few(&few_{name_of});");
                handed[place] = format!("few_{name_of}.count");
                handed[place + 1] = format!("few_{name_of}.type");
            }
            _ => handed[place] = format!("small({name_of}, \"MPI_{name}\")"),
        }
    }
    let _ = writeln!(out, "    int result = MPI_{}({});\n{back}    return result;\n}}", small.name, handed.join(", "));
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
            if name.ends_with(LARGE) {
                return;
            }
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
            if !name.ends_with(LARGE) {
                write_fortran(out, name, parameters);
            }
        }
    }
}

/// A collective operation and the arguments of its description.
struct Described<'a> {
    as_of: &'a str,
    /// What its description is called with.
    given: Vec<String>,
}

impl<'a> Described<'a> {
    /// Its first parameter is what it describes.
    fn of(own: &'a Companion, parameters: &'a [Parameter]) -> Option<Self> {
        let given = own.parameters.iter().skip(1).map(|asked| {
            let name = &argument(asked, parameters)?.name;
            Some(if asked.kind == NUMBERS { format!("NUMBERS({name})") } else { name.clone() })
        });
        Some(Self { as_of: &own.name, given: given.collect::<Option<_>>()? })
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
    let asked: String = described.given.iter().map(|one| format!(", {one}")).collect();
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
            out.push_str("    begin_wait(transfer.name, NULL, -1, -1);\n");
            if PERFORMED.contains(&name) {
                let _ = writeln!(out, "    int result = perform_{name}({given});");
            } else {
                let mut letters = name.chars();
                let first = letters.next().map(|letter| letter.to_ascii_lowercase()).unwrap_or_default();
                let _ = writeln!(out, "    int result = PMPI_I{first}{}({given}, &native);", letters.as_str());
                let _ = writeln!(out, "    if (result == MPI_SUCCESS)");
                let _ = writeln!(out, "        result = complete(&native, MPI_STATUS_IGNORE);");
            }
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
    if !name.ends_with(LARGE) && !name.starts_with("T_") {
        let lengths = hidden_lengths(parameters);
        fortran_head(out, "FORTRAN", name, parameters, &lengths);
        out.push_str(&refusal);
        let given = parameters.iter().map(|one| one.name.as_str()).chain(["ierror"]);
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
    handed.push("ierror".to_owned());
    handed.extend(lengths);
    let _ = writeln!(out, "    pmpi_{}_({});\n}}", name.to_ascii_lowercase(), handed.join(", "));
}

/// Writes a wrapper for Fortran that calls the one for C.
fn write_fortran(out: &mut String, name: &str, parameters: &[Parameter]) {
    fortran_head(out, "FORTRAN", name, parameters, &[]);
    let mut back = String::new();
    let handed: Vec<String> = parameters
        .iter()
        .map(|one| {
            if is_list_of_types(one) {
                types(out, &mut back, one, name, parameters)
            } else {
                converted(out, &mut back, one)
            }
        })
        .collect();
    let _ = writeln!(out, "    *ierror = MPI_{name}({});\n{back}}}", handed.join(", "));
}

fn is_list_of_types(parameter: &Parameter) -> bool {
    parameter.kind.ends_with("[]") && parameter.kind.contains(TYPE)
}

/// Returns a list of types as C takes it. They are as many as the pieces that the process gives or gets; those of the
/// pieces that it gives mean nothing where it gives none. An MPI may use the list until the operation has ended.
fn types(out: &mut String, back: &mut String, list: &Parameter, name: &str, parameters: &[Parameter]) -> String {
    let are_sent = list.name.starts_with("send");
    let Some(comm) = parameters.iter().find(|one| one.kind == COMM) else { return "NULL".to_owned() };
    let is_of_neighbors = name.to_ascii_lowercase().contains("neighbor");
    let pieces = format!("pieces_of(real_comm(PMPI_Comm_f2c(*{})), {is_of_neighbors}, {are_sent})", comm.name);
    let buffer = parameters.iter().find(|one| are_sent && one.name == "sendbuf");
    let count = buffer.map_or_else(
        || pieces.clone(),
        |buffer| format!("buffer_from_fortran({}) == MPI_IN_PLACE ? 0 : {pieces}", buffer.name),
    );
    let list = &list.name;
    let _ = writeln!(out, "    MPI_Datatype *{list}_of_c = types_from_fortran({list}, {count});");
    let request = parameters.iter().find(|one| one.kind == "MPI_Request *");
    let _ = match request {
        Some(request) => writeln!(back, "    keep_types({}_of_c, {list}_of_c);", request.name),
        None => writeln!(back, "    forget_types({list}_of_c);"),
    };
    format!("{list}_of_c")
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
    }
    match kind.as_str() {
        "int" | "MPI_Aint" | "MPI_Count" | "MPI_Offset" => format!("*{name}"),
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
        let fortran = "*ierror = MPI_Bcast(buffer_from_fortran(buffer), *count, PMPI_Type_f2c(*datatype), *root, \
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
        assert!(made.contains("pmpi_comm_size_(&own_comm, size, ierror);"), "{made}");
        assert!(made.contains("after_new_communicator(*newcomm);"), "{made}");
    }

    #[test]
    fn what_is_not_in_the_table_ends_the_job() {
        let made =
            made("int MPI_Put(const void *a, int n); int MPI_Send(int n); int MPI_Wait(int n); int MPI_Put_c(int n);");
        assert!(made.contains("stop_job(\"MPI_Put, which is not supported\");"), "{made}");
        assert!(made.contains("stop_job(\"MPI_Put_c, which is not supported\");"), "{made}");
        assert!(made.contains("*ierror = MPI_Send(*n);") && !made.contains("int MPI_Send(int"), "{made}");
        assert!(!made.contains("Wait"), "{made}");
    }

    #[test]
    fn many_elements_are_passed_on_as_one_of_a_larger_type() {
        let made = made(
            "int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int unit);\
             int MPI_Send_c(const void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Aint unit);",
        );
        assert!(made.contains("struct elements few_count = few(count, datatype);"), "{made}");
        let call =
            "MPI_Send(buf, few_count.count, few_count.type, small(unit, \"MPI_Send_c\"));\n    forget_few(&few_count);";
        assert!(made.contains(call), "{made}");
        assert!(!made.contains("mpi_send_c"), "Fortran has no such names: {made}");
    }

    #[test]
    fn a_collective_operation_with_large_counts_is_described_as_the_one_with_small_counts() {
        let descriptions = "void describe_Bcast(struct transfer *transfer, void *buffer, struct numbers counts);\n";
        let list = "(void *buffer, const MPI_Count counts[], MPI_Comm comm";
        let header = format!(
            "int MPI_Bcast_c{list}); int MPI_Ibcast_c{list}, MPI_Request *request); int MPI_Bcast_init_c{list}, MPI_Request *request);"
        );
        let made = generate(&header, TABLE, descriptions);
        assert_eq!(made.matches("    describe_Bcast(&transfer, buffer, NUMBERS(counts));\n").count(), 3, "{made}");
        assert!(made.contains("PMPI_Ibcast_c(buffer, counts, comm, &native);"), "{made}");
        assert!(made.contains("persistent_transfer_request(&transfer, native);"), "{made}");
    }

    #[test]
    fn lists_of_types_are_converted_from_fortran() {
        let descriptions = "void describe_Bcast(struct transfer *transfer, const MPI_Datatype recvtypes[]);\n";
        let header = "int MPI_Bcast(const void *sendbuf, const MPI_Datatype sendtypes[], const MPI_Datatype recvtypes[], MPI_Comm comm);";
        let made = generate(header, TABLE, descriptions);
        let sent = "types_from_fortran(sendtypes, buffer_from_fortran(sendbuf) == MPI_IN_PLACE ? 0 : pieces_of(";
        assert!(made.contains(sent) && made.contains("    forget_types(sendtypes_of_c);"), "{made}");
        assert!(
            made.contains("types_from_fortran(recvtypes, pieces_of(real_comm(PMPI_Comm_f2c(*comm)), false, false));"),
            "{made}"
        );
    }

    #[test]
    fn no_text_makes_the_generator_panic() {
        for header in ["int MPI_", "int MPI_X(", "int MPI_Bcast()", "int MPI_Ibcast()", "int MPI_é(", "void describe_("]
        {
            generate(header, header, header);
        }
    }
}
