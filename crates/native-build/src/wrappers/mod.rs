//! The wrappers around MPI's functions, generated from the `mpi.h` at hand.
//!
//! **Problem.** MPI has 400 functions, which each library declares differently, and each has entries for C, for
//! Fortran, and for Fortran 2008. **Idea.** What a library of ours does at a call is written by hand, in functions that
//! take the arguments that they need by the names of `mpi.h`. The code that is the same for every function is generated
//! from its declaration. **Why this way.** The C compiler checks the result against the same `mpi.h` that the program
//! was built with.
//!
//! `recording` makes those of `mpi/trace`, `replicating` those of `mpi/redmpi`, and `counting` one that is preloaded
//! before these.

pub mod counting;
pub mod recording;
pub mod replicating;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::header::{Parameter, functions};

const STATUS: &str = "MPI_Status *";

/// A function of ours that is called beside one of MPI.
struct Companion {
    name: String,
    parameters: Vec<Parameter>,
}

/// Returns the functions that a header of ours declares with a prefix, by the name of the MPI function: those of
/// `void PREFIXName(...)`, and of `#define PREFIXName PREFIXOther`.
fn companions(header: &str, prefix: &str) -> BTreeMap<String, Companion> {
    let written: BTreeMap<String, Vec<Parameter>> =
        functions(header, "void", prefix).map(|one| (one.name, one.parameters)).collect();
    let same = header.lines().filter_map(|line| {
        let (name, as_of) = line.strip_prefix("#define ")?.strip_prefix(prefix)?.split_once(' ')?;
        Some((name.to_owned(), as_of.strip_prefix(prefix)?.to_owned()))
    });
    let own = written.keys().map(|name| (name.clone(), name.clone()));
    let found = own.chain(same).filter_map(|(name, other)| {
        let parameters = written.get(&other)?.clone();
        Some((name, Companion { name: other, parameters }))
    });
    found.collect()
}

/// Returns the argument of this name, or the only one of its type.
fn argument<'a>(asked: &Parameter, given: &'a [Parameter]) -> Option<&'a Parameter> {
    let named = given.iter().find(|one| one.name == asked.name);
    named.or_else(|| {
        let mut alike = given.iter().filter(|one| one.kind == asked.kind);
        alike.next().filter(|_| alike.next().is_none())
    })
}

fn listed<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let listed: Vec<&str> = parts.into_iter().collect();
    if listed.is_empty() { "void".to_owned() } else { listed.join(", ") }
}

fn declarations(parameters: &[Parameter]) -> String {
    listed(parameters.iter().map(|one| one.declared.as_str()))
}

fn names(parameters: &[Parameter]) -> String {
    parameters.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Declares an argument for Fortran, which passes all by address.
fn declared_in_fortran(parameter: &Parameter) -> String {
    let kind = match parameter.kind.as_str() {
        kind if kind.contains("void") => "void",
        kind if kind.contains("MPI_Aint") => "MPI_Aint",
        kind if kind.contains("MPI_Count") => "MPI_Count",
        kind if kind.contains("MPI_Offset") => "MPI_Offset",
        _ => "MPI_Fint",
    };
    format!("{kind} *{}", parameter.name)
}

/// The lengths of Fortran's strings, which come last and which `mpi.h` does not show.
fn hidden_lengths(parameters: &[Parameter]) -> Vec<String> {
    let strings = parameters.iter().filter(|one| one.kind.contains("char"));
    strings.map(|one| format!("length_of_{}", one.name)).collect()
}

/// Writes the head of a wrapper for Fortran, by a macro of `fortran.h`; `more` are parameters after those of MPI.
fn fortran_head(out: &mut String, by: &str, name: &str, parameters: &[Parameter], more: &[String]) {
    let (small, large) = (name.to_ascii_lowercase(), name.to_ascii_uppercase());
    let mut declared: Vec<String> = parameters.iter().map(declared_in_fortran).collect();
    declared.push("MPI_Fint *ierror".to_owned());
    declared.extend(more.iter().map(|name| format!("size_t {name}")));
    let _ = writeln!(out, "\n{by}(mpi_{small}, MPI_{large}, ({}))\n{{", declared.join(", "));
    out.push_str("    ERROR_IS_OPTIONAL(ierror);\n");
}
