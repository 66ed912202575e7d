//! The modules of a crate, and their imports of one another.
//!
//! **Problem.** `use crate::Frame` names no module: it names something that the root re-exports. **Idea.** Every `use`
//! of a module gives a name to a path. Follow a path through these names to the module that defines the rest of it.
//! Tests are ignored: they may import anything.

use std::collections::BTreeMap;

use super::syntax::shipped_code;
use crate::tree::Tree;

/// A module by its names from the root; the root itself is empty.
pub type ModulePath = Vec<String>;

/// One crate's modules.
#[derive(Debug, Default)]
pub struct Modules {
    /// Each module's files: a module with one file per processor architecture has several.
    pub files: BTreeMap<ModulePath, Vec<String>>,
    /// The names that a module's `use` brings in, and where each leads.
    names: BTreeMap<ModulePath, BTreeMap<String, Path>>,
    mentions: Vec<Mention>,
}

/// An import of a module of the same crate, on a line of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Import {
    pub file: String,
    pub line: usize,
    pub from: ModulePath,
    pub to: ModulePath,
}

#[derive(Clone, Debug)]
enum Path {
    /// In this crate, from its root.
    Inside(Vec<String>),
    Outside,
}

#[derive(Debug)]
struct Mention {
    file: String,
    line: usize,
    from: ModulePath,
    path: Vec<String>,
}

impl Modules {
    /// Reads the crate in `folder` from its root's `mod` declarations down.
    pub fn of(tree: &Tree, folder: &str) -> Self {
        let mut modules = Self::default();
        let roots = ["lib.rs", "main.rs"].map(|root| format!("{folder}/src/{root}"));
        for root in roots {
            modules.read(tree, &root, Vec::new(), true);
        }
        modules
    }

    /// Every use of another module of the crate in shipped code. A re-export with `pub use` does not count.
    pub fn imports(&self) -> impl Iterator<Item = Import> {
        self.mentions.iter().filter_map(|mention| {
            let to = self.resolve(&mention.path, 16)?;
            let (file, line, from) = (mention.file.clone(), mention.line, mention.from.clone());
            (from != to).then_some(Import { file, line, from, to })
        })
    }

    #[expect(clippy::needless_pass_by_value, reason = "a module that is read is kept")]
    fn read(&mut self, tree: &Tree, file: &str, module: ModulePath, owns_folder: bool) {
        let Some(text) = tree.text(file) else { return };
        let code = shipped_code(text);
        let tokens = tokens(&code);
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let below = if owns_folder { folder } else { file.trim_end_matches(".rs") };
        let children = children(&tokens, text);
        self.files.entry(module.clone()).or_default().push(file.to_owned());
        self.mention(file, &module, &tokens, &children);
        for (name, path) in children {
            let child: ModulePath = module.iter().cloned().chain([name.clone()]).collect();
            match path {
                Some(path) => self.read(tree, &format!("{folder}/{path}"), child, true),
                None => {
                    self.read(tree, &format!("{below}/{name}.rs"), child.clone(), false);
                    self.read(tree, &format!("{below}/{name}/mod.rs"), child, true);
                }
            }
        }
    }

    fn mention(&mut self, file: &str, module: &ModulePath, tokens: &[Token], children: &[(String, Option<String>)]) {
        let mut inline = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            let scope: ModulePath = module.iter().cloned().chain(inline.iter().flatten().cloned()).collect();
            let here = |path: &[&str]| {
                let first = path.first().copied().unwrap_or_default();
                absolute(&scope, path, children.iter().any(|(child, _)| child == first))
            };
            let line = tokens[at].line;
            let mention = |path| Mention { file: file.to_owned(), line, from: module.clone(), path };
            match tokens[at].word {
                "mod" if text(tokens, at + 2) == "{" => {
                    inline.push(Some(text(tokens, at + 1).to_owned()));
                    at += 3;
                }
                "{" => {
                    inline.push(None);
                    at += 1;
                }
                "}" => {
                    inline.pop();
                    at += 1;
                }
                "use" if text(tokens, at + 1) != "<" => {
                    let mut imported = Vec::new();
                    let passed_on = at > 0 && [")", "pub"].contains(&tokens[at - 1].word);
                    at = use_tree(tokens, at + 1, &[], &mut imported);
                    for (path, name) in imported {
                        let path = here(&path);
                        if let (Path::Inside(path), false) = (&path, passed_on) {
                            self.mentions.push(mention(path.clone()));
                        }
                        self.names.entry(scope.clone()).or_default().insert(name.to_owned(), path);
                    }
                }
                _ => {
                    let (path, end) = path(tokens, at);
                    let before = at.checked_sub(1).map_or("", |before| tokens[before].word);
                    if let (2.., Path::Inside(path)) = (path.len(), here(&path))
                        && ![".", "::", "in"].contains(&before)
                    {
                        self.mentions.push(mention(path));
                    }
                    at = end;
                }
            }
        }
    }

    /// The module that defines what a path from the root leads to.
    fn resolve(&self, path: &[String], steps: usize) -> Option<ModulePath> {
        let known = (0..=path.len()).rev().find(|&length| self.files.contains_key(&path[..length]))?;
        let (module, rest) = path.split_at(known);
        let Some(name) = rest.first() else { return Some(module.to_vec()) };
        match self.names.get(module).and_then(|names| names.get(name)) {
            Some(Path::Outside) => None,
            Some(Path::Inside(onward)) if steps > 0 && onward != path => {
                let onward: Vec<String> = onward.iter().chain(&rest[1..]).cloned().collect();
                self.resolve(&onward, steps - 1)
            }
            _ => Some(module.to_vec()),
        }
    }
}

/// A path as it is written in a module, from the crate's root.
fn absolute(module: &[String], path: &[&str], begins_with_child: bool) -> Path {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let climbs = path.iter().take_while(|&&name| name == "super").count();
    match path {
        ["crate", rest @ ..] => Path::Inside(owned(rest)),
        ["self", "super", ..] => absolute(module, &path[1..], false),
        ["self", rest @ ..] => Path::Inside([module, &owned(rest)].concat()),
        ["super", ..] => {
            let left = module.len().saturating_sub(climbs);
            Path::Inside([&module[..left], &owned(&path[climbs..])].concat())
        }
        _ if begins_with_child => Path::Inside([module, &owned(path)].concat()),
        _ => Path::Outside,
    }
}

/// The modules that a file declares, each with the path that an attribute gives it. Attributes are read from the text,
/// whose strings are not blank.
fn children(tokens: &[Token], text: &str) -> Vec<(String, Option<String>)> {
    let lines: Vec<&str> = text.lines().collect();
    let declared = tokens.windows(3).filter(|three| three[0].word == "mod" && three[2].word == ";");
    let child = |three: &[Token]| {
        let above = three[0].line.checked_sub(2).map_or("", |line| lines[line].trim());
        let path = above.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]"));
        (three[1].word.to_owned(), path.map(str::to_owned))
    };
    declared.map(child).collect()
}

/// A word or a sign, and its line, counted from 1.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub word: &'a str,
    pub line: usize,
}

/// The words and signs of code; `::` is one sign.
pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (line, mut rest) in (1..).zip(code.lines()) {
        loop {
            rest = rest.trim_start();
            let Some(first) = rest.chars().next() else { break };
            let word = |c: char| c.is_alphanumeric() || c == '_';
            let length = match first {
                _ if word(first) => rest.find(|c| !word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            let (word, after) = rest.split_at(length);
            tokens.push(Token { word, line });
            rest = after;
        }
    }
    tokens
}

fn text<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.word)
}

/// The names joined by `::` from here on, and where they end.
fn path<'a>(tokens: &[Token<'a>], start: usize) -> (Vec<&'a str>, usize) {
    let mut names = vec![tokens[start].word];
    let mut at = start + 1;
    while text(tokens, at) == "::" && text(tokens, at + 1).starts_with(|c: char| c.is_alphabetic() || c == '_') {
        names.push(tokens[at + 1].word);
        at += 2;
    }
    (names, at)
}

/// The paths that a `use` brings in, each with its name there, and where the tree ends.
fn use_tree<'a>(
    tokens: &[Token<'a>],
    start: usize,
    above: &[&'a str],
    imported: &mut Vec<(Vec<&'a str>, &'a str)>,
) -> usize {
    let mut path = above.to_vec();
    let mut at = start;
    loop {
        match text(tokens, at) {
            "::" => at += 1,
            "{" => {
                at += 1;
                while !["}", ";", ""].contains(&text(tokens, at)) {
                    at = use_tree(tokens, at, &path, imported);
                    at += usize::from(text(tokens, at) == ",");
                }
                return at + 1;
            }
            "as" => {
                imported.push((path, text(tokens, at + 1)));
                return at + 2;
            }
            "," | "}" | ";" | "" => {
                let name = path.last().copied().unwrap_or_default();
                imported.push((path, name));
                return at;
            }
            "self" if !path.is_empty() => at += 1,
            name => {
                path.push(name);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports of a crate `c` of these files, as `line of file: module`.
    fn imports<const N: usize>(files: [(&str, &str); N]) -> Vec<String> {
        let tree = Tree::from(files.map(|(path, text)| (format!("c/src/{path}"), text)));
        let show = |import: Import| {
            let file = import.file.trim_start_matches("c/src/");
            format!("{file}:{}: {}", import.line, import.to.join("::"))
        };
        Modules::of(&tree, "c").imports().map(show).collect()
    }

    #[test]
    fn a_path_leads_to_the_module_that_defines_its_item() {
        for (line, to) in [
            ("use crate::b::B;", "b"),
            ("use crate::{b::{self, B}};", "b, b"),
            ("use super::b::B;", "b"),
            ("use self::super::b::B;", "b"),
            ("fn f() -> crate::b::B { todo }", "b"),
            ("fn f() { crate::b::d::g::<u8>() }", "b::d"),
            ("use crate::R;", "b"),
            ("use crate::Renamed;", "b::d"),
            ("use crate::b::D;", "b::d"),
            ("use crate::Outer;", ""),
            ("pub(in crate::b) fn f() {}", ""),
            ("// crate::b::B", ""),
            ("#[cfg(test)] mod tests { use crate::b::B; }", ""),
        ] {
            let found = imports([
                ("lib.rs", "mod a;\nmod b;\npub use b::{B as R, d::D as Renamed};\npub use other::Outer;"),
                ("a.rs", line),
                ("b/mod.rs", "mod d;\npub use d::D;\npub struct B;"),
                ("b/d.rs", "pub struct D;"),
            ]);
            let expected: Vec<_> =
                to.split(", ").filter(|to| !to.is_empty()).map(|to| format!("a.rs:1: {to}")).collect();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn what_the_root_defines_is_the_root_s() {
        assert_eq!(imports([("lib.rs", "mod a;\npub const N: u8 = 1;"), ("a.rs", "use crate::N;")]), ["a.rs:1: "]);
    }

    #[test]
    fn a_module_that_a_file_declares_is_named_without_more() {
        let files = [("lib.rs", "mod a;"), ("a.rs", "mod b;\nfn f() { b::g() }"), ("a/b.rs", "use super::f;")];
        assert_eq!(imports(files), ["a.rs:2: a::b", "a/b.rs:1: a"]);
    }

    #[test]
    fn twins_are_one_module_and_test_modules_are_none() {
        let tree = Tree::from([
            ("c/src/lib.rs", "#[path = \"x.rs\"]\nmod m;\n#[path = \"y.rs\"]\nmod m;\n#[cfg(test)]\nmod tests;"),
            ("c/src/x.rs", ""),
            ("c/src/y.rs", ""),
            ("c/src/tests.rs", ""),
        ]);
        let modules = Modules::of(&tree, "c");
        assert_eq!(modules.files.len(), 2);
        assert_eq!(modules.files[&vec!["m".to_owned()]], ["c/src/x.rs", "c/src/y.rs"]);
    }

    #[test]
    fn within_an_inline_module_super_is_the_file() {
        assert_eq!(
            imports([("lib.rs", "mod a;"), ("a.rs", "mod i { use super::f; use super::super::g; }")]),
            ["a.rs:1: "]
        );
    }
}
