//! Files of comma-separated values, with comments on their first lines.

use std::path::Path;

use csv::ReaderBuilder;

/// A file.
pub struct Csv {
    /// The comments, without `# `.
    pub comments: Vec<String>,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A row of `runs.csv`.
pub struct RunRow {
    /// The kind of run.
    pub name: String,
    /// How to repeat it.
    pub command: String,
    values: Vec<(String, String)>,
}

impl RunRow {
    /// Returns a number; `None` if the field is empty or there is no such column.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.values.iter().find(|(name, _)| name == column)?.1.parse().ok()
    }
}

impl Csv {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn parse(text: &str) -> csv::Result<Self> {
        let comments = text.lines().filter(|line| line.starts_with('#'));
        let comments = comments.map(|line| line.trim_start_matches(['#', ' ']).to_owned()).collect();
        let mut reader = ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
        let columns = reader.headers()?.iter().map(str::to_owned).collect();
        let rows = reader.deserialize().collect::<csv::Result<_>>()?;
        Ok(Self { comments, columns, rows })
    }

    fn place(&self, column: &str) -> Result<usize, String> {
        self.columns.iter().position(|name| name == column).ok_or_else(|| format!("no column {column}"))
    }

    /// Returns a column of numbers; empty fields count as 0.
    pub fn numbers(&self, column: &str) -> Result<Vec<f64>, String> {
        let place = self.place(column)?;
        Ok(self.rows.iter().map(|row| row[place].parse().unwrap_or(0.0)).collect())
    }

    /// Returns points: a column against another one.
    pub fn points(&self, x: &str, y: &str) -> Result<Vec<(f64, f64)>, String> {
        Ok(self.numbers(x)?.into_iter().zip(self.numbers(y)?).collect())
    }

    /// Returns the number of a row that is named in its first column.
    pub fn named(&self, name: &str, column: &str) -> Result<f64, String> {
        let place = self.place(column)?;
        let row = self.rows.iter().find(|row| row[0] == name).ok_or_else(|| format!("no row {name}"))?;
        row[place].parse().map_err(|_| format!("no number in row {name}"))
    }

    /// Returns the numbers of a column, in the rows that have these values in other columns.
    pub fn numbers_where(&self, column: &str, wanted: &[(&str, &str)]) -> Result<Vec<f64>, String> {
        let place = self.place(column)?;
        let wanted: Vec<(usize, &str)> =
            wanted.iter().map(|(column, value)| Ok((self.place(column)?, *value))).collect::<Result<_, String>>()?;
        let rows = self.rows.iter().filter(|row| wanted.iter().all(|&(place, value)| row[place] == value));
        rows.map(|row| row[place].parse().map_err(|_| format!("no number in column {column}"))).collect()
    }

    /// Returns the rows of `runs.csv`.
    pub fn runs(&self) -> Result<Vec<RunRow>, String> {
        let (name, command) = (self.place("name")?, self.place("command")?);
        let row = |row: &Vec<String>| RunRow {
            name: row[name].clone(),
            command: row[command].clone(),
            values: self.columns.iter().cloned().zip(row.iter().cloned()).collect(),
        };
        Ok(self.rows.iter().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_columns_and_rows_are_read() {
        let csv = Csv::parse("# made by\n# commit 1\nname,command,c\na,run a,0.5\nb,run b,\n").unwrap();
        assert_eq!(csv.comments, ["made by", "commit 1"]);
        assert_eq!(csv.numbers("c").unwrap(), [0.5, 0.0]);
        assert_eq!((csv.named("a", "c"), csv.named("b", "c").is_err()), (Ok(0.5), true));
        assert_eq!(csv.numbers_where("c", &[("name", "a"), ("command", "run a")]), Ok(vec![0.5]));
        assert_eq!(csv.numbers_where("c", &[("name", "c")]), Ok(Vec::new()));
        assert!(csv.numbers_where("c", &[("name", "b")]).is_err() && csv.numbers_where("c", &[("d", "a")]).is_err());
        let runs = csv.runs().unwrap();
        assert_eq!((runs[1].name.as_str(), runs[1].command.as_str()), ("b", "run b"));
        assert_eq!((runs[0].number("c"), runs[1].number("c"), runs[0].number("d")), (Some(0.5), None, None));
        assert!(Csv::parse("a,b\n1\n").is_err());
    }
}
