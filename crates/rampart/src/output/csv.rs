//! Tables for other programs.

use csv::Writer;

/// A table of comma-separated values (RFC 4180), except that lines end in LF only.
pub fn csv<const N: usize>(heads: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut writer = Writer::from_writer(Vec::new());
    let written = std::iter::once(heads.map(str::to_owned)).chain(rows).try_for_each(|row| writer.write_record(&row));
    written.expect("all rows have one length, and a vector takes every byte");
    let bytes = writer.into_inner().expect("a vector takes every byte");
    String::from_utf8(bytes).expect("text in, text out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_with_a_comma_or_a_quote_stays_one_cell() {
        let text = csv(["name", "size"], [["a, \"b\"".to_owned(), "1".to_owned()], [String::new(), "2".to_owned()]]);
        assert_eq!(text, "name,size\n\"a, \"\"b\"\"\",1\n,2\n");
    }
}
