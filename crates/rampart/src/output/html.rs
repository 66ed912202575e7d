//! Pages: one HTML document that contains all its drawings and needs no network.
//!
//! Text that comes from outside, such as a program's name and arguments, is escaped by the library, wherever it stands.
//! Only drawings are put in as they are: their texts are ours, or were escaped by what draws them.

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

/// Returns a page with this title and body.
pub fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "rampart: " (title) }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body { main { (body) } }
        }
    };
    page.into_string() + "\n"
}

/// A row of numbers, each with what it is.
pub fn tiles<'a>(tiles: impl IntoIterator<Item = (String, &'a str)>) -> Markup {
    html! {
        div.tiles {
            @for (value, name) in tiles {
                div.tile { b { (value) } span { (name) } }
            }
        }
    }
}

/// A table, of rows of cells in the same order as its heads. A head that begins with `#` is one of numbers.
pub fn table<T: Render>(heads: &[&str], rows: impl IntoIterator<Item = Vec<T>>) -> Markup {
    let class = |head: &str| head.starts_with('#').then_some("number");
    html! {
        div.table {
            table {
                tr {
                    @for head in heads {
                        th class=[class(head)] { (head.trim_start_matches('#')) }
                    }
                }
                @for row in rows {
                    tr {
                        @for (head, cell) in heads.iter().zip(row) {
                            td class=[class(head)] { (cell) }
                        }
                    }
                }
            }
        }
    }
}

/// A drawing with the names of its colours, and more to say of it.
pub fn figure(names: &[&str], svg: String, more: impl Render) -> Markup {
    html! {
        figure {
            figcaption {
                @for (index, name) in names.iter().enumerate() {
                    span class={ "key c" (index) } {} (name)
                }
                (more)
            }
            (drawing(svg))
        }
    }
}

/// A drawing as SVG, which is part of the page.
pub const fn drawing(svg: String) -> Markup {
    PreEscaped(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_table_or_a_tile_holds_is_text() {
        let cells = table(&["<what>", "#bytes"], [vec!["<script>&", "\"7\""]]).into_string();
        assert!(cells.contains("<tr><th>&lt;what&gt;</th><th class=\"number\">bytes</th></tr>"), "{cells}");
        let row = "<tr><td>&lt;script&gt;&amp;</td><td class=\"number\">&quot;7&quot;</td></tr>";
        assert!(cells.contains(row) && !cells.contains("<script"), "{cells}");
        let tile = tiles([("<b>".to_owned(), "a<b")]).into_string();
        assert!(tile.contains("<b>&lt;b&gt;</b><span>a&lt;b</span>"), "{tile}");
        let page = document("<script>", &tiles([]));
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<title>rampart: &lt;script&gt;</title>"));
    }

    #[test]
    fn a_drawing_is_part_of_the_page_and_what_is_said_of_it_is_text() {
        let drawn = figure(&["one", "two"], "<svg></svg>".to_owned(), " <3").into_string();
        let keys = "<span class=\"key c0\"></span>one<span class=\"key c1\"></span>two &lt;3</figcaption>";
        assert!(drawn.contains(keys) && drawn.contains("<svg></svg>"), "{drawn}");
    }
}
