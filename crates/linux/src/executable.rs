//! Programs that cannot have a preloaded library with the C library's `malloc`.
//!
//! **Problem.** The loader of musl cannot load a library of glibc's, and the runtimes of sanitizers refuse to start
//! behind another `malloc`: such programs would not run at all. Others ignore the library, so that their user wrongly
//! believes them guarded. **Idea.** The file shows its kind before it is executed: its interpreter (`PT_INTERP`), the
//! libraries that it needs (`DT_NEEDED`) and the names that it defines (elf(5)). **Why this way.** Nothing is executed
//! to find out. And nothing is allocated: the caller may be a child that borrows its parent's memory (vfork(2)).

use std::ffi::CStr;

use rustix::fd::OwnedFd;
use rustix::fs::{self, Access, Mode, OFlags, Stat};
use rustix::io::pread;

/// Why a program cannot be guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, displaydoc::Display)]
pub enum LeftAlone {
    /// it is linked statically
    Static,
    /// its C library is musl
    Musl,
    /// it brings the {0} sanitizer
    Sanitizer(&'static str),
    /// it is of another processor architecture
    Architecture,
    /// it gets another user's rights when it starts (setuid, setgid)
    Rights,
}

impl LeftAlone {
    /// Whether the program does not run with the library, or complains about it.
    #[must_use]
    pub fn is_harmed(self) -> bool {
        matches!(self, Self::Sanitizer(_) | Self::Architecture)
    }
}

/// Sanitizers that replace `malloc` or need all addresses, with their libraries and the names that they define when
/// linked statically.
const SANITIZERS: [(&str, &[u8], &[u8]); 5] = [
    ("address", b"libasan.so", b"\0__asan_init\0"),
    ("thread", b"libtsan.so", b"\0__tsan_init\0"),
    ("leak", b"liblsan.so", b"\0__lsan_init\0"),
    ("hwaddress", b"libhwasan.so", b"\0__hwasan_init\0"),
    ("memory", b"libmsan.so", b"\0__msan_init\0"),
];

/// The nesting of scripts as interpreters of scripts, as in the kernel.
const DEPTH: usize = 4;

/// The length that the kernel reads of the first line of a script; longer than any name here.
const LINE: usize = 256;

/// The longest path, with its final zero.
pub const PATH_BYTES: usize = libc::PATH_MAX as usize;

/// The file that execvp(3) would execute by this name: the first in the folders of `PATH` that can be executed. An
/// empty folder is the current one. A name with a `/` in it is a path already. Nothing is allocated.
pub fn search<'a>(name: &CStr, folders: &[u8], found: &'a mut [u8; PATH_BYTES]) -> Option<&'a CStr> {
    let name = name.to_bytes_with_nul();
    let length = if name.contains(&b'/') {
        joined(found, &[name])?
    } else {
        folders.split(|&byte| byte == b':').find_map(|folder| {
            let folder = if folder.is_empty() { b"." } else { folder };
            let length = joined(found, &[folder, b"/", name])?;
            CStr::from_bytes_with_nul(&found[..length]).is_ok_and(can_be_executed).then_some(length)
        })?
    };
    CStr::from_bytes_with_nul(&found[..length]).ok()
}

/// Joins the parts; returns the length, if they fit.
fn joined(path: &mut [u8; PATH_BYTES], parts: &[&[u8]]) -> Option<usize> {
    let mut length = 0;
    for byte in parts.iter().copied().flatten() {
        *path.get_mut(length)? = *byte;
        length += 1;
    }
    Some(length)
}

fn can_be_executed(path: &CStr) -> bool {
    let is_file = |stat: Stat| fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::RegularFile;
    fs::access(path, Access::EXEC_OK).is_ok() && fs::stat(path).is_ok_and(is_file)
}

/// Why the program of this file cannot be guarded; `None` if it can, or cannot be read.
#[must_use]
pub fn left_alone(path: &CStr) -> Option<LeftAlone> {
    let mut name = [0; LINE];
    let mut file = open(path)?;
    for _ in 0..DEPTH {
        let mut start = [0; LINE];
        let length = pread(&file, &mut start, 0).ok()?;
        let Some(line) = start[..length].strip_prefix(b"#!") else {
            return of_image(&file);
        };
        name = interpreter(line)?;
        file = open(CStr::from_bytes_until_nul(&name).ok()?)?;
    }
    let _ = name;
    None
}

fn open(path: &CStr) -> Option<OwnedFd> {
    let file = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()).ok()?;
    (fs::FileType::from_raw_mode(fs::fstat(&file).ok()?.st_mode) == fs::FileType::RegularFile).then_some(file)
}

/// The file that a script's first line names, with a final zero.
fn interpreter(line: &[u8]) -> Option<[u8; LINE]> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let mut name = [0; LINE];
    name.get_mut(..end)?.copy_from_slice(&line[..end]);
    (end < LINE).then_some(name)
}

/// The facts about a file that its loader needs.
#[derive(Default)]
struct Image {
    interpreter: Option<Part>,
    dynamic: Option<Part>,
    /// The mapped parts of the file, with their addresses.
    mapped: [(u64, Part); 16],
}

/// A part of a file.
#[derive(Clone, Copy, Default)]
struct Part {
    offset: u64,
    bytes: u64,
}

/// Numbers of elf(5).
const CLASS_64: u8 = 2;
const MACHINE: u64 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
const LOAD: u64 = 1;
const DYNAMIC: u64 = 2;
const INTERPRETER: u64 = 3;
const END: u64 = 0;
const NEEDED: u64 = 1;
const STRINGS: u64 = 5;
const STRING_BYTES: u64 = 10;

fn of_image(file: &OwnedFd) -> Option<LeftAlone> {
    let header: [u8; 64] = read(file, 0)?;
    if header[..4] != *b"\x7fELF" {
        return None;
    }
    if header[4] != CLASS_64 || number(&header, 18, 2) != MACHINE {
        return Some(LeftAlone::Architecture);
    }
    if gets_rights(&fs::fstat(file).ok()?) {
        return Some(LeftAlone::Rights);
    }
    let image = Image::read(file, &header)?;
    let Some(interpreter) = image.interpreter else { return Some(LeftAlone::Static) };
    let mut name = [0; LINE];
    let length = usize::try_from(interpreter.bytes).ok()?.min(LINE);
    pread(file, &mut name[..length], interpreter.offset).ok()?;
    if contains(&name, b"ld-musl") { Some(LeftAlone::Musl) } else { image.sanitizer(file).map(LeftAlone::Sanitizer) }
}

/// Whether the kernel gives a program other rights than ours, so that its loader ignores the environment.
fn gets_rights(file: &Stat) -> bool {
    let mode = Mode::from_raw_mode(file.st_mode);
    mode.contains(Mode::SUID) && file.st_uid != rustix::process::geteuid().as_raw()
        || mode.contains(Mode::SGID | Mode::XGRP) && file.st_gid != rustix::process::getegid().as_raw()
}

impl Image {
    fn read(file: &OwnedFd, header: &[u8; 64]) -> Option<Self> {
        let (start, size, count) = (number(header, 32, 8), number(header, 54, 2), number(header, 56, 2));
        let mut image = Self::default();
        let mut mapped = 0;
        for index in 0..count {
            let entry: [u8; 56] = read(file, start.checked_add(index * size)?)?;
            let part = Part { offset: number(&entry, 8, 8), bytes: number(&entry, 32, 8) };
            match number(&entry, 0, 4) {
                INTERPRETER => image.interpreter = Some(part),
                DYNAMIC => image.dynamic = Some(part),
                LOAD if mapped < image.mapped.len() => {
                    image.mapped[mapped] = (number(&entry, 16, 8), part);
                    mapped += 1;
                }
                _ => {}
            }
        }
        Some(image)
    }

    /// The sanitizer that it needs or defines.
    fn sanitizer(&self, file: &OwnedFd) -> Option<&'static str> {
        let dynamic = self.dynamic?;
        let find = |wanted| self.entries(file, dynamic).find(|&(tag, _)| tag == wanted).map(|(_, value)| value);
        let strings = self.offset(find(STRINGS)?)?;
        for (_, at) in self.entries(file, dynamic).filter(|&(tag, _)| tag == NEEDED) {
            let mut name = [0; 32];
            let length = pread(file, &mut name, strings.checked_add(at)?).ok()?;
            if let Some(known) = SANITIZERS.iter().find(|known| name[..length].starts_with(known.1)) {
                return Some(known.0);
            }
        }
        defined(file, Part { offset: strings, bytes: find(STRING_BYTES)? })
    }

    /// Tags and values.
    fn entries<'a>(&self, file: &'a OwnedFd, dynamic: Part) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let entry = move |index: u64| -> Option<[u8; 16]> { read(file, dynamic.offset.checked_add(index * 16)?) };
        let entries = (0..dynamic.bytes / 16).map_while(entry);
        entries.map(|entry| (number(&entry, 0, 8), number(&entry, 8, 8))).take_while(|&(tag, _)| tag != END)
    }

    /// The file offset of an address.
    fn offset(&self, address: u64) -> Option<u64> {
        let inside = |(start, part): &(u64, Part)| {
            address.checked_sub(*start).filter(|&inside| inside < part.bytes).map(|inside| part.offset + inside)
        };
        self.mapped.iter().find_map(inside)
    }
}

/// The sanitizer whose name is among the names of a file.
fn defined(file: &OwnedFd, names: Part) -> Option<&'static str> {
    /// Longer than any of the names, so that none is split.
    const OVERLAP: u64 = 32;
    let mut window = [0; 4096];
    let mut at = 0;
    while at < names.bytes {
        let length = pread(file, &mut window, names.offset.checked_add(at)?).ok()?;
        let length = length.min(usize::try_from(names.bytes - at).unwrap_or(usize::MAX));
        if let Some(known) = SANITIZERS.iter().find(|known| contains(&window[..length], known.2)) {
            return Some(known.0);
        }
        at += (length as u64).checked_sub(OVERLAP).filter(|&step| step > 0)?;
    }
    None
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Bytes of a file; `None` beyond its end.
fn read<const BYTES: usize>(file: &OwnedFd, at: u64) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    (pread(file, &mut bytes, at) == Ok(BYTES)).then_some(bytes)
}

/// A number of so many bytes, the lowest first.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes[at..at + length].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use rampart_skips::{Feature, granted, skip};

    use super::*;

    fn of(path: &Path) -> Option<LeftAlone> {
        left_alone(&CString::new(path.to_str().unwrap()).unwrap())
    }

    /// `None` where it cannot be built here.
    fn built(folder: &Path, compiler: &str, options: &[&str]) -> Option<PathBuf> {
        let (source, program) = (folder.join("main.c"), folder.join("main"));
        let text = "#ifdef RUNTIME\nvoid __tsan_init(void) {}\n#endif\nint main(void) { return 0; }";
        std::fs::write(&source, text).unwrap();
        let done = Command::new(compiler).args(options).arg(&source).arg("-o").arg(&program).output();
        let done = done.is_ok_and(|done| done.status.success());
        if !done {
            let feature = match options {
                [] => Feature::of_program(compiler),
                ["-static"] => Feature::StaticLibc,
                _ => Feature::Sanitizers,
            };
            skip(feature, format!("{compiler} {options:?} builds nothing here"));
        }
        done.then_some(program)
    }

    #[test]
    fn a_program_says_what_it_does_not_bear() {
        let folder = tempfile::tempdir().unwrap();
        let sanitizer = |name| Some(LeftAlone::Sanitizer(name));
        let known: [(&str, &[&str], Option<LeftAlone>); 9] = [
            ("cc", &[], None),
            ("cc", &["-no-pie"], None),
            ("cc", &["-static"], Some(LeftAlone::Static)),
            ("cc", &["-static-pie"], Some(LeftAlone::Static)),
            ("musl-gcc", &[], Some(LeftAlone::Musl)),
            ("cc", &["-fsanitize=address"], sanitizer("address")),
            ("cc", &["-rdynamic", "-DRUNTIME"], sanitizer("thread")),
            ("cc", &["-fsanitize=thread"], sanitizer("thread")),
            ("cc", &["-fsanitize=undefined"], None),
        ];
        for (compiler, options, expected) in known {
            if let Some(program) = built(folder.path(), compiler, options) {
                assert_eq!(of(&program), expected, "{compiler} {options:?}");
            }
        }
    }

    #[test]
    fn a_program_is_found_as_it_would_be_executed() {
        let folder = tempfile::tempdir().unwrap();
        let [first, last] = ["first", "last"].map(|name| folder.path().join(name));
        for (path, mode) in [(&first, 0o644), (&last, 0o755)] {
            std::fs::create_dir(path).unwrap();
            std::fs::write(path.join("program"), "").unwrap();
            std::fs::set_permissions(path.join("program"), PermissionsExt::from_mode(mode)).unwrap();
        }
        std::fs::create_dir(first.join("folder")).unwrap();
        let folders = format!("/none:{}:{}", first.display(), last.display());
        let found = |name: &CStr| {
            let mut found = [0; PATH_BYTES];
            let path = search(name, folders.as_bytes(), &mut found)?;
            Some(path.to_str().unwrap().to_owned())
        };
        assert_eq!(found(c"program"), Some(format!("{}/program", last.display())), "the first cannot be executed");
        assert_eq!(found(c"folder"), None);
        assert_eq!(found(c"none"), None);
        assert_eq!(found(c"./none").as_deref(), Some("./none"));
        let too_long = CString::new("x".repeat(PATH_BYTES)).unwrap();
        assert_eq!(found(&too_long), None);
    }

    #[test]
    fn a_script_is_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = built(folder.path(), "cc", &["-static"]) else { return };
        let write = |name: &str, content: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let script = write("script", format!("#! \t{} -x\nrest\n", program.display()));
        let of_script = write("of-script", format!("#!{}", script.display()));
        assert_eq!([of(&script), of(&of_script)], [Some(LeftAlone::Static); 2]);
        let itself = write("itself", format!("#!{}\n", folder.path().join("itself").display()));
        let odd = [itself, write("text", "echo".into()), write("empty", String::new()), write("line", "#!".into())];
        for path in odd.iter().map(PathBuf::as_path).chain([folder.path(), Path::new("/dev/zero"), Path::new("/none")])
        {
            assert_eq!(of(path), None, "{}", path.display());
        }
        std::fs::write(&script, &std::fs::read(&program).unwrap()[..100]).unwrap();
        assert_eq!(of(&script), None, "it is cut off");
    }

    #[test]
    fn a_program_of_another_user_that_gives_rights_ignores_the_library() {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = built(folder.path(), "cc", &[]) else { return };
        let nobody = Some(65_534);
        if granted(&[Feature::Root], std::os::unix::fs::chown(&program, nobody, nobody)).is_none() {
            return;
        }
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
        assert_eq!(of(&program), Some(LeftAlone::Rights));
    }
}
