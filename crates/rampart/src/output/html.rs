//! Pages: one HTML document that contains all its drawings and needs no network.
//!
//! Text that comes from outside, such as a program's name and arguments, goes through [`escape`].

use std::fmt::Write as _;

/// Returns a page with this title and body.
pub fn document(title: &str, body: &str) -> String {
    let (title, style) = (escape(title), include_str!("page.css"));
    format!(
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
         <meta name=color-scheme content=\"light dark\">\n<title>rampart: {title}</title>\n\
         <style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Escapes text for an element or a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Appends a drawing with the names of its colours.
pub fn figure(body: &mut String, names: &[&str], svg: &str, more: &str) {
    let key = |(index, name): (usize, &&str)| format!("<span class=\"key c{index}\"></span>{name}");
    let keys: String = names.iter().enumerate().map(key).collect();
    let _ = writeln!(body, "<figure>\n<figcaption>{keys}{more}</figcaption>\n{svg}\n</figure>");
}
