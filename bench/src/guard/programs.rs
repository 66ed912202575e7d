//! Real programs: a server with its clients, a database, a compiler, and three language runtimes.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::{fs, str};

use super::Program;

/// Prepares a program, with its own folder for output.
type Ready = fn(&Path) -> Result<Box<Program>, String>;

/// All programs by name.
pub const PROGRAMS: [(&str, Ready); 7] = [
    ("redis and its benchmark", redis),
    ("SQLite, in memory", |_| Ok(words("sqlite3", &[":memory:", ROWS]))),
    ("C compiler, -O2", compiler),
    ("Python, NumPy", |_| python(NUMERICAL)),
    ("Python, small objects", |_| python(OBJECTS)),
    ("Java, compiled and run", java),
    ("Node.js, small objects", |_| Ok(words("node", &["-e", NODE]))),
];

/// A server; all its processes are guarded, and those of the clients too.
const SERVED: &str = "\
redis-server --port 0 --save '' --unixsocket \"$1\" & \
until redis-cli -s \"$1\" ping; do sleep 0.02; done && \
redis-benchmark -n 100000 -r 100000 -d 512 -t set,get,hset -q -s \"$1\" && \
redis-cli -s \"$1\" shutdown nosave; wait";

/// Rows of text, an index, and a join over both.
const ROWS: &str = "\
create table t (id integer primary key, square integer, text text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 600000)
insert into t select i, i * i % 1000003, 'row ' || i || ' of the table' from n;
create index squares on t (square);
select sum(a.id), max(length(b.text)) from t a join t b on b.square = a.id;
select count(distinct substr(text, 1, 7)) from t;";

/// Matrices and sorts.
const NUMERICAL: &str = "\
import numpy
x = numpy.random.default_rng(1).random((900, 900))
for _ in range(8):
    x = numpy.tanh(x @ x.T / 900)
y = [numpy.random.default_rng(i).random(200_000) for i in range(100)]
for part in y:
    part.sort()
";

/// Many small objects, visited again and again.
const OBJECTS: &str = "\
d = {i: (i, str(i)) for i in range(600_000)}
for k in range(4):
    assert sum(len(d[i][1]) for i in range(0, 600_000, 3)) > 0
";

/// The same in JavaScript.
const NODE: &str = "\
const d = new Map();
for (let i = 0; i < 600000; i++) d.set(i, { number: i, text: String(i) });
let sum = 0;
for (let k = 0; k < 20; k++) for (let i = 0; i < 600000; i += 3) sum += d.get(i).text.length;
if (sum <= 0) process.exit(1);
";

/// The same in Java, which compiles it first.
const JAVA: &str = "\
public class Objects {
    record Row(int number, String text) {}
    public static void main(String[] none) {
        var rows = new java.util.HashMap<Integer, Row>();
        for (int i = 0; i < 600000; i++) rows.put(i, new Row(i, Integer.toString(i)));
        long sum = 0;
        for (int k = 0; k < 20; k++) for (int i = 0; i < 600000; i += 3) sum += rows.get(i).text().length();
        if (sum <= 0) System.exit(1);
    }
}
";

/// Functions of the compiler's input.
const FUNCTIONS: usize = 500;

fn words(program: &'static str, arguments: &'static [&'static str]) -> Box<Program> {
    Box::new(move || {
        let mut command = Command::new(program);
        command.args(arguments);
        command
    })
}

fn redis(folder: &Path) -> Result<Box<Program>, String> {
    let socket = folder.join("redis.sock");
    Ok(Box::new(move || {
        let mut command = Command::new("sh");
        command.args(["-c", SERVED, "sh"]).arg(&socket);
        command
    }))
}

fn compiler(folder: &Path) -> Result<Box<Program>, String> {
    let mut text = "struct row { int number; double weight; struct row *next; };\n".to_owned();
    for number in 0..FUNCTIONS {
        let _ = writeln!(
            text,
            "double f{number}(struct row *row, int length) {{\n\
             double sum = {number};\n\
             for (int i = 0; i < length; i++) {{\n\
             if (row[i].number % {} == 0 && row[i].next) sum += row[i].weight * row[i].next->weight;\n\
             else switch (row[i].number & 3) {{ case 0: sum -= i; break; case 1: sum *= 1.5; break; default: sum += 1; }}\n\
             }}\n\
             return sum; }}",
            number % 97 + 2
        );
    }
    let source = written(&folder.join("program.c"), &text)?;
    let object = folder.join("program.o");
    Ok(Box::new(move || {
        let mut command = Command::new("cc");
        command.args(["-O2", "-c", "-o"]).arg(&object).arg(&source);
        command
    }))
}

fn java(folder: &Path) -> Result<Box<Program>, String> {
    let source = written(&folder.join("Objects.java"), JAVA)?;
    Ok(Box::new(move || {
        let mut command = Command::new("java");
        command.arg(&source);
        command
    }))
}

fn python(text: &'static str) -> Result<Box<Program>, String> {
    // `python3` may be a script that starts the real one.
    let said = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let said = said.map_err(|error| format!("python3: {error}"))?.stdout;
    let interpreter = str::from_utf8(&said).map_err(|error| error.to_string())?.trim().to_owned();
    Ok(Box::new(move || {
        let mut command = Command::new(&interpreter);
        command.args(["-c", text]).env("OPENBLAS_NUM_THREADS", "1");
        command
    }))
}

fn written(path: &Path, text: &str) -> Result<std::path::PathBuf, String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path.to_owned())
}
