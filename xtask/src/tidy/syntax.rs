//! Rust sources without the text that a rule must not see.
//!
//! **Problem.** A rule that reads names must not mistake a word of a comment or of a string for one. **Idea.** Blank
//! the unwanted text and keep every line break, so that the rest stays on its line. **Why no parser.** The rules need
//! words and punctuation only, and a parser would be the slowest part of the chores to compile.

/// The comments, with their slashes.
pub fn comments(text: &str) -> String {
    only(text, Kind::Comment)
}

/// The code, without the items that only tests use.
pub fn shipped_code(text: &str) -> String {
    without_tests(text, Kind::Code)
}

/// The string literals, without those of tests.
pub fn shipped_literals(text: &str) -> String {
    without_tests(text, Kind::Literal)
}

fn without_tests(text: &str, kind: Kind) -> String {
    let code = only(text, Kind::Code).into_bytes();
    let mut left = only(text, kind).into_bytes();
    for attribute in [TEST, ALL_TEST] {
        let mut from = 0;
        while let Some(start) = find(&code, attribute, from) {
            from = end_of_item(&code, start);
            blank(&mut left[start..from]);
        }
    }
    String::from_utf8(left).expect("whole items were blanked")
}

const TEST: &[u8] = b"#[cfg(test)]";
const ALL_TEST: &[u8] = b"#[cfg(all(test,";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

fn only(text: &str, wanted: Kind) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let (kind, end) = region(&text.as_bytes()[at..]);
        if kind != wanted {
            blank(&mut bytes[at..at + end]);
        }
        at += end;
    }
    String::from_utf8(bytes).expect("whole characters were blanked")
}

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

/// The kind of text at the start, and its length in bytes.
fn region(text: &[u8]) -> (Kind, usize) {
    match text {
        [b'/', b'/', ..] => (Kind::Comment, text.iter().position(|&b| b == b'\n').unwrap_or(text.len())),
        [b'/', b'*', ..] => (Kind::Comment, block_comment(text)),
        [b'"', ..] => (Kind::Literal, string(text)),
        [b'\'', b'\\', rest @ ..] => (Kind::Literal, find(rest, b"'", 1).map_or(text.len(), |end| end + 3)),
        [b'\'', ..] => character(text).map_or((Kind::Code, 1), |end| (Kind::Literal, end)),
        [b'r', b'"' | b'#', ..] => raw_string(text).map_or((Kind::Code, 1), |end| (Kind::Literal, end)),
        [b'b', b'r', rest @ ..] => {
            raw_string(&text[1..]).map_or((Kind::Code, text.len() - rest.len()), |end| (Kind::Literal, end + 1))
        }
        // A whole word at once, so that no letter inside it is mistaken for the `r` of a raw string.
        [first, ..] if is_word(*first) => (Kind::Code, text.iter().take_while(|&&byte| is_word(byte)).count()),
        _ => (Kind::Code, 1),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn find(text: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    text.get(from..)?.windows(wanted.len()).position(|window| window == wanted).map(|at| at + from)
}

fn block_comment(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    text.len()
}

fn string(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// The end of a literal of one character; `None` for a lifetime.
fn character(text: &[u8]) -> Option<usize> {
    let length = match *text.get(1)? {
        first if first.is_ascii() => 1,
        first => first.leading_ones() as usize,
    };
    (text.get(1 + length) == Some(&b'\'')).then_some(length + 2)
}

/// The end of a raw string; `None` for a raw name or a word.
fn raw_string(text: &[u8]) -> Option<usize> {
    let hashes = text.get(1..)?.iter().take_while(|&&byte| byte == b'#').count();
    (text.get(1 + hashes) == Some(&b'"')).then_some(())?;
    let mut closing = vec![b'"'];
    closing.resize(1 + hashes, b'#');
    Some(find(text, &closing, hashes + 2).map_or(text.len(), |end| end + closing.len()))
}

/// The end of the item whose attribute begins at `start`.
fn end_of_item(code: &[u8], start: usize) -> usize {
    let mut depth = 0_i32;
    let mut in_attribute = false;
    let is_use = is_use(&code[start..]);
    for (at, &byte) in code.iter().enumerate().skip(start) {
        match byte {
            b'#' if depth == 0 => in_attribute = true,
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth -= 1;
                let ends_block = byte == b'}' && depth == 0 && !is_use;
                if depth < 0 || (ends_block && !in_attribute) {
                    return if depth < 0 { at } else { at + 1 };
                }
                in_attribute &= depth > 0;
            }
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Whether the item after the attributes is an import, whose braces do not end it.
fn is_use(code: &[u8]) -> bool {
    let text = std::str::from_utf8(code).unwrap_or_default();
    let item = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("#["));
    item.is_some_and(|line| line.starts_with("use ") || line.starts_with("pub") && line.contains(" use "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        for (text, code_alone) in [
            ("a // b", "a     "),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("a\"b", c)"#, "f(      , c)"),
            (r###"f(r#"a"b"#, c)"###, "f(        , c)"),
            ("f(br\"a\", b'c', 'd', '\\'', 'é', x)", "f(     , b   ,    ,     ,     , x)"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("for_bar \"x\" r#type", "for_bar     r#type"),
            ("a\n\"b\nc\"\nd", "a\n  \n  \nd"),
        ] {
            assert_eq!(only(text, Kind::Code), code_alone, "{text}");
        }
    }

    #[test]
    fn literals_of_what_is_shipped_stand_alone() {
        let text = "f(\"/proc\"); // \"no\"\n#[cfg(test)] mod tests { fn t() { f(\"/sys\") } }";
        assert_eq!(shipped_literals(text).trim(), "\"/proc\"");
    }

    #[test]
    fn comments_stand_alone_on_their_lines() {
        assert_eq!(comments("let a = \"// no\"; // yes\nb"), format!("{}// yes\n ", " ".repeat(17)));
    }

    #[test]
    fn what_only_tests_are_built_from_is_not_shipped() {
        for (text, left) in [
            ("use a;\n#[cfg(test)]\nmod tests {\n fn f() { g(); }\n}\nuse b;", "use a; use b;"),
            ("#[cfg(test)] use a::{b, c};\nuse d;", "use d;"),
            ("#[cfg(test)]\n#[derive(Debug)]\npub struct S { a: [u8; 3] }\nfn f() {}", "fn f() {}"),
            ("struct S {\n #[cfg(test)]\n a: u8 }\nfn f() {}", "struct S { } fn f() {}"),
            ("#[cfg(all(test, unix))]\nmod tests;\nmod a;", "mod a;"),
            ("#[cfg(not(test))]\nmod a;", "#[cfg(not(test))] mod a;"),
        ] {
            let words: Vec<_> = shipped_code(text).split_whitespace().map(str::to_owned).collect();
            assert_eq!(words.join(" "), left, "{text}");
        }
    }
}
