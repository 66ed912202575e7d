//! The functions that a preprocessed C header declares, such as `mpi.h`.
//!
//! **Problem.** Wrappers need the names and types of arguments, which each MPI declares differently. **Idea.** Search
//! instead of parsing C: after the preprocessor, a declaration of MPI is a result type, a name that begins with `MPI_`,
//! and a list of parameters in parentheses; skip all other text. **Why this way.** It reads every `mpi.h` tried so far
//! without a C front end, and the C compiler checks the generated code.

/// A function as a header declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, without the requested prefix.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
}

/// A parameter as a header declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its declaration.
    pub declared: String,
    /// Its type, with single blanks, and `[]` for an array.
    pub kind: String,
    /// Its name; empty if it has none.
    pub name: String,
}

/// Returns the functions of a text that return `result` and whose names have the prefix `begin`.
pub fn functions<'a>(text: &'a str, result: &'a str, begin: &'a str) -> impl Iterator<Item = Function> + 'a {
    text.match_indices(begin).filter_map(move |(place, _)| {
        let before = text[..place].trim_end().strip_suffix(result)?;
        if before.ends_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_') {
            return None;
        }
        let (name, rest) = text[place + begin.len()..].split_once('(')?;
        let name = name.trim();
        let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let end = closing(rest)?;
        plain.then(|| Function { name: name.to_owned(), parameters: parameters(&rest[..end]) })
    })
}

/// Returns the position that closes the parenthesis opened before this text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.find(|letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        depth == 0
    })
}

fn parameters(list: &str) -> Vec<Parameter> {
    let list = list.split_whitespace().collect::<Vec<_>>().join(" ");
    if list == "void" { Vec::new() } else { list.split(',').map(|one| parameter(one.trim())).collect() }
}

fn parameter(declared: &str) -> Parameter {
    let (plain, array) = declared.split_once('[').map_or((declared, ""), |(plain, _)| (plain.trim_end(), "[]"));
    let name_at = plain.rfind(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').map_or(0, |at| at + 1);
    let kind = format!("{}{array}", plain[..name_at].trim_end());
    Parameter { declared: declared.to_owned(), kind, name: plain[name_at..].to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_read_and_all_else_is_passed_over() {
        let header = "typedef int (MPI_X)(int); extern int MPI_F;\nint MPI_Init(void);\n\
            __attribute__((x)) int MPI_Waitall(int count, MPI_Request\n  requests[], MPI_Status *statuses);\n\
            double MPI_Wtime(void); MPI_Aint MPI_Aint_add(MPI_Aint a);";
        let found: Vec<Function> = functions(header, "int", "MPI_").collect();
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["Init", "Waitall"]);
        assert_eq!(found[0].parameters, []);
        let parts: Vec<(&str, &str)> =
            found[1].parameters.iter().map(|one| (one.kind.as_str(), one.name.as_str())).collect();
        assert_eq!(parts, [("int", "count"), ("MPI_Request[]", "requests"), ("MPI_Status *", "statuses")]);
        assert_eq!(found[1].parameters[1].declared, "MPI_Request requests[]");
    }
}
