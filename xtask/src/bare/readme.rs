//! The section "Start" of README.md: the packages to install, and the commands to type.

/// The section's heading.
const START: &str = "## Start";

/// The beginning of its lines of packages.
const INSTALL: &str = "apt-get install ";

/// What README asks a newcomer to do, word for word.
#[derive(Debug, PartialEq, Eq)]
pub struct Start {
    /// Debian's names of the packages.
    pub packages: Vec<String>,
    /// The commands, word for word.
    pub commands: Vec<String>,
}

impl Start {
    /// Reads the blocks of shell commands in the section. `None` if it names no package, or another number of commands
    /// than two.
    pub fn of(readme: &str) -> Option<Self> {
        let (mut packages, mut commands) = (Vec::new(), Vec::new());
        for line in shell_lines(section(readme)?) {
            match line.strip_prefix(INSTALL) {
                Some(names) => packages.extend(names.split_whitespace().map(str::to_owned)),
                None => commands.push(line.to_owned()),
            }
        }
        (!packages.is_empty() && commands.len() == 2).then_some(Self { packages, commands })
    }
}

/// The text from the heading to the next one of its level.
fn section(readme: &str) -> Option<&str> {
    let (_before, rest) = readme.split_once(&format!("\n{START}\n"))?;
    Some(rest.split("\n## ").next().unwrap_or(rest))
}

/// The lines of blocks that are marked `sh`, without their comments.
fn shell_lines(text: &str) -> impl Iterator<Item = &str> {
    let blocks = text.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let lines = blocks.flat_map(str::lines).map(|line| line.split(" #").next().unwrap_or(line).trim());
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "\
# A tool

```sh
not this
```

## Start

Take `apt-get install nothing`:

```sh
# As root:
apt-get install gcc  libc6-dev make   # Debian's names
```

then

```sh
tool test --for 20s
tool check '#1'
```

## More

```sh
apt-get install more
nor that
```
";

    #[test]
    fn the_packages_and_both_commands_are_those_of_the_section() {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let start = Start::of(README).unwrap();
        assert_eq!(start.packages, words(&["gcc", "libc6-dev", "make"]));
        assert_eq!(start.commands, words(&["tool test --for 20s", "tool check '#1'"]));
    }

    #[test]
    fn a_section_that_lacks_packages_or_a_command_is_none() {
        for (from, to) in [("## Start", "## Stop"), ("apt-get install gcc", "# apt-get"), ("tool check '#1'\n", "")] {
            assert_eq!(Start::of(&README.replace(from, to)), None, "without {from}");
        }
    }

    #[test]
    fn our_own_readme_names_what_a_bare_machine_needs() {
        let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap();
        let start = Start::of(&readme).unwrap();
        assert!(start.commands.iter().all(|command| command.starts_with("cargo ")), "{start:?}");
        let is_name =
            |name: &String| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c));
        assert!(start.packages.iter().all(is_name), "{start:?}");
    }
}
