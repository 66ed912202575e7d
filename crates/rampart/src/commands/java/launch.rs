//! The arguments that `java` would get.

use std::ffi::OsString;
use std::path::PathBuf;

use rampart_memory::Bytes;
use rampart_native_build::JavaProgram;

use super::arguments::parse_heap;

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaLaunch {
    pub program: JavaProgram,
    pub arguments: Vec<OsString>,
    /// `-Xmx`.
    pub heap: Option<Bytes>,
}

impl JavaLaunch {
    /// Reads the arguments of `java`. `class_path` is what `CLASSPATH` has.
    ///
    /// # Errors
    /// What is wrong with them, and what to do.
    pub fn read(words: &[OsString], class_path: Option<OsString>) -> Result<Self, String> {
        let mut words = words.iter().cloned();
        let mut heap = None;
        let mut path = class_path.filter(|path| !path.is_empty()).unwrap_or_else(|| ".".into());
        let value = |name: &str, value: Option<OsString>| value.ok_or_else(|| format!("{name} needs a value"));
        loop {
            let word = value("--", words.next()).map_err(|_| "name a program: -jar FILE, or -cp PATH CLASS")?;
            let text = word.to_string_lossy().into_owned();
            match text.as_str() {
                "-jar" => {
                    let jar = PathBuf::from(value("-jar", words.next())?);
                    return Ok(Self { program: JavaProgram::Jar(jar), arguments: words.collect(), heap });
                }
                "-cp" | "-classpath" | "--class-path" => path = value(&text, words.next())?,
                _ if text.starts_with("--class-path=") => path = text["--class-path=".len()..].into(),
                _ if text.starts_with("-Xmx") => {
                    heap = Some(parse_heap(&text["-Xmx".len()..]).map_err(|wrong| format!("{text}: {wrong}"))?);
                }
                // The heap has its size from the start.
                _ if text.starts_with("-Xms") || text.starts_with("-Xss") => {}
                _ if text.starts_with('-') => {
                    return Err(format!("{text} is not supported: use only -Xmx, -cp and -jar"));
                }
                _ => {
                    let name = text.replace('/', ".");
                    let program = JavaProgram::Class { path, name };
                    return Ok(Self { program, arguments: words.collect(), heap });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<JavaLaunch, String> {
        JavaLaunch::read(&words.iter().map(OsString::from).collect::<Vec<_>>(), None)
    }

    #[test]
    fn it_is_read_as_java_reads_it() {
        let launch = |program, arguments: &[&str], heap| {
            Ok(JavaLaunch { program, arguments: arguments.iter().map(OsString::from).collect(), heap })
        };
        let class = |path: &str| JavaProgram::Class { path: path.into(), name: "a.Main".to_owned() };
        assert_eq!(read(&["-jar", "a.jar", "-cp", "x"]), launch(JavaProgram::Jar("a.jar".into()), &["-cp", "x"], None));
        let heap = Some(Bytes::from_mib(64));
        assert_eq!(read(&["-Xms1m", "-Xmx64m", "-cp", "x:y", "a.Main"]), launch(class("x:y"), &[], heap));
        assert_eq!(read(&["--class-path=x", "a/Main", "-jar"]), launch(class("x"), &["-jar"], None));
        assert_eq!(read(&["a.Main"]), launch(class("."), &[], None));
        let of_environment = JavaLaunch::read(&["a.Main".into()], Some("lib".into()));
        assert_eq!(of_environment, launch(class("lib"), &[], None));
    }

    #[test]
    fn what_cannot_be_obeyed_is_refused() {
        for (words, said) in [
            (&["-Dname=value", "Main"][..], "-Dname=value is not supported"),
            (&["-jar"], "-jar needs a value"),
            (&["-Xmx64"], "-Xmx64: give from 1MiB to 1GiB"),
            (&["-cp", "x"], "name a program"),
        ] {
            assert!(read(words).unwrap_err().starts_with(said), "{words:?}");
        }
    }
}
