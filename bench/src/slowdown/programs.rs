//! Real programs, each divided into runs of some tenths of a second.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::{Program, cpu_seconds};
use crate::soak;

/// Prepares a program, with its own folder for output.
type Ready = fn(&Path) -> Result<Box<dyn Program>, String>;

/// All programs by name.
pub const PROGRAMS: [(&str, Ready); 5] = [
    ("compile (rustc -O)", |folder| {
        let folder = folder.to_owned();
        Ok(Box::new(Repeated(move || soak::compile(&folder, 40).map(drop))))
    }),
    ("database (SQLite)", |folder| {
        let folder = folder.to_owned();
        Ok(Box::new(Repeated(move || soak::load(&folder, 60_000).map(drop))))
    }),
    ("redis", |folder| Ok(Box::new(Redis::start(folder)?))),
    ("Python, numerical", |_| Ok(Box::new(Repeated(python)))),
    ("triad over 192 MiB", |_| Ok(Box::new(Repeated(triad_elsewhere)))),
];

/// Work that is repeated each time.
struct Repeated<F>(F);

impl<F: FnMut() -> Result<(), String>> Program for Repeated<F> {
    fn once(&mut self) -> Result<(), String> {
        (self.0)()
    }
}

/// A redis server, and redis' own benchmark against it.
struct Redis {
    server: Child,
    socket: PathBuf,
}

impl Redis {
    fn start(folder: &Path) -> Result<Self, String> {
        let socket = folder.join("redis.sock");
        let server = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("redis-server: {error}"))?;
        let redis = Self { server, socket };
        let up = (0..100).any(|_| {
            thread::sleep(Duration::from_millis(20));
            redis.socket.exists()
        });
        if up { Ok(redis) } else { Err("redis-server does not listen".to_owned()) }
    }
}

impl Program for Redis {
    fn once(&mut self) -> Result<(), String> {
        let load = ["-n", "10000", "-r", "100000", "-d", "512", "-t", "set,get,hset", "-q", "-s"];
        quiet(Command::new("redis-benchmark").args(load).arg(&self.socket))
    }

    fn cpu_seconds(&self) -> Result<f64, String> {
        Ok(cpu_seconds("self")? + cpu_seconds(&self.server.id().to_string())?)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // This bench started the server, and needs nothing in it.
        let _gone = self.server.kill();
        let _waited = self.server.wait();
    }
}

pub fn quiet(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} ended with {status}")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// Matrices if NumPy is installed, else the n-body problem in plain Python.
fn python() -> Result<(), String> {
    let text = "\
try:
    import numpy
    x = numpy.random.default_rng(1).random((500, 500))
    for _ in range(6):
        x = numpy.tanh(x @ x.T / 500)
    numpy.linalg.svd(x[:200, :200])
    numpy.sort(numpy.random.default_rng(2).random(2_000_000))
except ImportError:
    p = [[i * 0.1, i * 0.2, i * 0.3, 0.0, 0.0, 0.0] for i in range(24)]
    for _ in range(40):
        for a in p:
            for b in p:
                d = [b[k] - a[k] for k in range(3)]
                m = 0.001 / (sum(v * v for v in d) + 0.01) ** 1.5
                for k in range(3):
                    a[3 + k] += d[k] * m
        for a in p:
            for k in range(3):
                a[k] += 0.001 * a[3 + k]
";
    quiet(Command::new("python3").args(["-c", text]).env("OPENBLAS_NUM_THREADS", "1"))
}

/// The triad in a process of its own, to separate its time.
fn triad_elsewhere() -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    quiet(Command::new(own).arg("triad"))
}

/// STREAM's triad: a = b + s·c, over three arrays of 64 MiB.
pub fn triad(_arguments: &[String]) -> Result<(), String> {
    const LENGTH: usize = 8 << 20;
    let (b, c) = (vec![1.0_f64; LENGTH], vec![2.0_f64; LENGTH]);
    let mut a = vec![0.0_f64; LENGTH];
    for round in 0..20 {
        let scale = f64::from(round);
        a.iter_mut().zip(b.iter().zip(&c)).for_each(|(a, (b, c))| *a = b + scale * c);
        black_box(&mut a);
    }
    let right = a.iter().all(|value| (value - 39.0).abs() < f64::EPSILON);
    if right { Ok(()) } else { Err("the triad gave a wrong sum".to_owned()) }
}
