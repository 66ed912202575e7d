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

/// Appends a row of numbers, each with what it is.
pub fn tiles<'a>(body: &mut String, tiles: impl IntoIterator<Item = (String, &'a str)>) {
    body.push_str("<div class=tiles>\n");
    for (value, name) in tiles {
        let _ = writeln!(body, "<div class=tile><b>{}</b><span>{}</span></div>", escape(&value), escape(name));
    }
    body.push_str("</div>\n");
}

/// Appends a table, of rows of cells in the same order as its heads. A head that begins with `#` is one of numbers.
pub fn table(body: &mut String, heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let class = |head: &str| if head.starts_with('#') { " class=number" } else { "" };
    body.push_str("<div class=table><table>\n<tr>");
    for head in heads {
        let _ = write!(body, "<th{}>{}", class(head), escape(head.trim_start_matches('#')));
    }
    for row in rows {
        body.push_str("\n<tr>");
        for (head, cell) in heads.iter().zip(row) {
            let _ = write!(body, "<td{}>{}", class(head), escape(&cell));
        }
    }
    body.push_str("\n</table></div>\n");
}

/// Appends a drawing with the names of its colours.
pub fn figure(body: &mut String, names: &[&str], svg: &str, more: &str) {
    let key = |(index, name): (usize, &&str)| format!("<span class=\"key c{index}\"></span>{name}");
    let keys: String = names.iter().enumerate().map(key).collect();
    let _ = writeln!(body, "<figure>\n<figcaption>{keys}{more}</figcaption>\n{svg}\n</figure>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_table_or_a_tile_holds_is_text() {
        let mut body = String::new();
        table(&mut body, &["<what>", "#bytes"], [vec!["<script>&".to_owned(), "\"7'".to_owned()]]);
        tiles(&mut body, [("<b>".to_owned(), "a<b")]);
        assert!(body.contains("<th>&lt;what&gt;<th class=number>bytes\n<tr><td>&lt;script&gt;&amp;<td class=number>"));
        assert!(body.contains("&quot;7&#39;\n") && body.contains("<b>&lt;b&gt;</b><span>a&lt;b</span>"), "{body}");
        assert!(!body.contains("<script"), "{body}");
    }
}
