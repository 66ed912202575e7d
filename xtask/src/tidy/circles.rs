//! No two modules of a crate import each other, neither directly nor through others: neither could be read without the
//! other.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::modules::{ModulePath, Modules};
use crate::tree::Tree;

/// Known circles: their files, and the reason.
const KNOWN: &[(&[&str], &str)] = &[(
    &["crates/march/src/execute/aarch64.rs", "crates/march/src/execute/kernel.rs"],
    "the loop is written over an architecture's registers, and prefetches and flushes with its instructions",
)];

/// Each circle of modules is reported once, at its first file.
pub fn check(tree: &Tree) -> Vec<Violation> {
    check_but(tree, KNOWN)
}

fn check_but(tree: &Tree, known: &[(&[&str], &str)]) -> Vec<Violation> {
    let circles: Vec<Vec<String>> = tree.crates().flat_map(|(folder, _)| circles(&Modules::of(tree, folder))).collect();
    let new = circles.iter().filter(|circle| !known.iter().any(|(files, _)| files.iter().eq(*circle)));
    let gone = known.iter().filter(|(files, _)| !circles.iter().any(|circle| files.iter().eq(circle)));
    let gone =
        gone.map(|(files, _)| Violation::new(files[0], "this circle is gone: take it off xtask/src/tidy/circles.rs"));
    new.map(|circle| report(circle)).chain(gone).collect()
}

fn report(circle: &[String]) -> Violation {
    let what =
        format!("these files name each other in a circle: {}; move what they share below them", circle.join(", "));
    Violation::new(&circle[0], what)
}

/// Sets of files, each of which leads to each other of its set; sorted.
fn circles(modules: &Modules) -> Vec<Vec<String>> {
    let mut named: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
    for import in modules.imports().filter(|import| !import.from.starts_with(&import.to)) {
        named.entry(import.from).or_default().insert(import.to);
    }
    let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
        named.keys().map(|module| (module, reached(&named, module))).collect();
    let mut circles = Vec::new();
    let mut seen = BTreeSet::new();
    for (&module, far) in &reached {
        let leads_back = |other: &&&ModulePath| reached.get(**other).is_some_and(|back| back.contains(module));
        let circle: Vec<&ModulePath> = far.iter().filter(leads_back).copied().collect();
        if circle.len() > 1 && seen.insert(circle.clone()) {
            circles.push(circle.iter().map(|module| modules.files[*module][0].clone()).collect());
        }
    }
    circles
}

/// All modules that a module names, directly or by way of others.
fn reached<'a>(named: &'a BTreeMap<ModulePath, BTreeSet<ModulePath>>, module: &ModulePath) -> BTreeSet<&'a ModulePath> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&ModulePath> = named[module].iter().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(named.get(module).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    /// A crate of three modules with the given imports.
    fn crate_of(a: &str, b: &str, c: &str) -> Tree {
        let files = [
            ("Cargo.toml", ""),
            ("src/lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;"),
            ("src/a.rs", a),
            ("src/b.rs", b),
            ("src/c.rs", c),
        ];
        Tree::from(files.map(|(path, text)| (format!("x/{path}"), text)))
    }

    #[test]
    fn modules_that_name_each_other_one_way_pass() {
        assert_eq!(check_but(&crate_of("use crate::{b::B, c::C};", "use crate::c::C;", ""), &[]), []);
    }

    #[test]
    fn a_circle_is_reported_once_however_long_it_is() {
        let expected = |files: &str| {
            format!("x/src/a.rs: these files name each other in a circle: {files}; move what they share below them")
        };
        assert_eq!(
            lines(&check_but(&crate_of("use crate::b::B;", "use crate::A;", ""), &[])),
            [expected("x/src/a.rs, x/src/b.rs")]
        );
        assert_eq!(
            lines(&check_but(&crate_of("use crate::b::B;", "use crate::c::C;", "fn f() { crate::a::g() }"), &[])),
            [expected("x/src/a.rs, x/src/b.rs, x/src/c.rs")]
        );
    }

    #[test]
    fn a_folder_s_own_file_and_what_it_holds_are_no_circle() {
        let tree = Tree::from([
            ("x/Cargo.toml", ""),
            ("x/src/lib.rs", "mod a;"),
            ("x/src/a.rs", "mod b;\nuse b::B;\npub struct A;"),
            ("x/src/a/b.rs", "use super::A;"),
        ]);
        assert_eq!(check_but(&tree, &[]), []);
    }

    #[test]
    fn a_circle_that_is_known_passes_until_it_is_gone() {
        let known: &[(&[&str], &str)] = &[(&["x/src/a.rs", "x/src/b.rs"], "why")];
        assert_eq!(check_but(&crate_of("use crate::b::B;", "use crate::A;", ""), known), []);
        assert_eq!(
            lines(&check_but(&crate_of("use crate::b::B;", "", ""), known)),
            ["x/src/a.rs: this circle is gone: take it off xtask/src/tidy/circles.rs"]
        );
    }
}
