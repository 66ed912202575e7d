//! What the teams of a job wrote into files.
//!
//! **Problem.** All replicas write the same files, and one of them may write them wrong. **Idea.** Each team has a
//! folder of its own for what it writes, and for marks of what it removes (`mpi/redmpi/files.h`). When the job has
//! ended, the versions are compared, and the one that most teams have is put in place. **Why this way.** Where all is
//! well, that costs one reading of the files, and for most of them a rename; and a file is right even if the replica
//! that was hit never sends a wrong message [Fiala15, 3.3.2.2.1].
//!
//! A job that ends in the middle leaves some replicas behind the others. There a file counts that begins with what the
//! others have. Versions of which none is the right one are kept beside its place, so that nothing is lost.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::output::{JobEnd, Undecided};

/// What is read of a file at once.
const CHUNK: usize = 1 << 20;

/// The name of a mark of what was removed begins with this.
const WHITEOUT: &str = ".wh.";

/// A file that some teams wrote otherwise than others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMismatch {
    pub path: PathBuf,
    /// Replicas whose version is not that of the majority, or `None` if there is no majority.
    pub wrong: Option<Vec<u32>>,
    /// The first byte that differs; `None` if one version is no file.
    pub offset: Option<u64>,
    /// Where the versions are, if there is no majority.
    pub kept: Vec<PathBuf>,
}

/// A file that could not be put in place.
#[derive(Debug)]
pub struct Misplaced {
    pub path: PathBuf,
    pub cause: io::Error,
}

/// What a team made of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    Untouched,
    Removed,
    /// With these permissions.
    Folder(u32),
    Link(PathBuf),
    /// In the team's folder, with so many bytes.
    File(PathBuf, u64),
}

impl Version {
    /// The permissions of a folder that was made.
    const fn mode(&self) -> Option<u32> {
        if let Self::Folder(mode) = self { Some(*mode) } else { None }
    }
}

/// The files of a job.
pub struct JobFiles {
    /// Folders of what each team wrote, and of what it removed.
    upper: Vec<PathBuf>,
    whiteouts: Vec<PathBuf>,
    /// The numbers of these teams.
    teams: Vec<u32>,
    end: JobEnd,
    undecided: Undecided,
}

impl JobFiles {
    /// Of a job that has ended. `teams` are those that count.
    pub fn of(folder: &Path, teams: &[u32], end: JobEnd, undecided: Undecided) -> Self {
        let folders = |name: &str| teams.iter().map(|team| folder.join(format!("{name}.{team}"))).collect();
        Self { upper: folders("upper"), whiteouts: folders("whiteouts"), teams: teams.to_owned(), end, undecided }
    }

    /// Puts what most teams have written in place, and removes what most have removed.
    ///
    /// # Errors
    /// The first file that cannot be read, or not be put in place; all others are in place.
    pub fn settle(&self) -> Result<Vec<FileMismatch>, Misplaced> {
        let (mut mismatches, mut decided, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        for path in self.paths()? {
            match self.decide(&path, &mut mismatches) {
                Ok(version) => decided.extend(version.map(|version| (path, version))),
                Err(cause) => failures.push(Misplaced { path, cause }),
            }
        }
        // What is removed first makes room; deep paths come after those above them. Permissions come last, since a
        // folder may be closed to its owner.
        let (removed, made): (Vec<_>, Vec<_>) =
            decided.into_iter().partition(|(_, version)| *version == Version::Removed);
        let steps = removed.iter().rev().chain(&made).map(|(path, version)| (path, place(path, version)));
        let modes = made.iter().rev().filter_map(|(path, version)| Some((path, set_mode(path, version.mode()?))));
        for (path, done) in steps.chain(modes) {
            failures.extend(done.err().map(|cause| Misplaced { path: path.clone(), cause }));
        }
        failures.into_iter().next().map_or(Ok(mismatches), Err)
    }

    /// The version that counts.
    fn decide(&self, path: &Path, mismatches: &mut Vec<FileMismatch>) -> io::Result<Option<Version>> {
        let mut versions = self.versions(path)?;
        let choice = self.choose(&versions)?;
        mismatches.extend(self.mismatch(path, &versions, choice)?);
        Ok(choice.map(|choice| versions.swap_remove(choice)))
    }

    /// All paths that a team has touched, folders before what is in them.
    fn paths(&self) -> Result<BTreeSet<PathBuf>, Misplaced> {
        let mut paths = BTreeSet::new();
        for (folders, is_whiteout) in [(&self.upper, false), (&self.whiteouts, true)] {
            for folder in folders {
                walk(folder, Path::new("/"), &mut |path, name, is_folder| {
                    let name = if is_whiteout { name.as_bytes().strip_prefix(WHITEOUT.as_bytes()) } else { None };
                    match name {
                        Some(name) => _ = paths.insert(path.with_file_name(OsStr::from_bytes(name))),
                        None if is_whiteout && is_folder => {}
                        None => _ = paths.insert(path.to_owned()),
                    }
                })
                .map_err(|cause| Misplaced { path: folder.clone(), cause })?;
            }
        }
        Ok(paths)
    }

    fn versions(&self, path: &Path) -> io::Result<Vec<Version>> {
        let teams = self.upper.iter().zip(&self.whiteouts);
        teams.map(|(upper, whiteouts)| version(path, upper, whiteouts)).collect()
    }

    /// The team whose version counts.
    fn choose(&self, versions: &[Version]) -> io::Result<Option<usize>> {
        let needed = versions.len() / 2 + 1;
        if self.end != JobEnd::Complete
            && let Some(team) = self.furthest(versions, needed)?
        {
            return Ok(Some(team));
        }
        for (team, version) in versions.iter().enumerate() {
            let mut votes = 0;
            for other in versions {
                votes += usize::from(difference(version, other)?.is_none());
            }
            if votes >= needed {
                return Ok(Some(team));
            }
        }
        Ok((self.undecided == Undecided::First).then_some(0))
    }

    /// If each version begins the longer ones: the longest one; of a job that was stopped, the longest one that most
    /// teams have written.
    fn furthest(&self, versions: &[Version], needed: usize) -> io::Result<Option<usize>> {
        let progress = |team: &usize| match &versions[*team] {
            Version::Untouched => (0, 0),
            Version::Removed => (1, 0),
            Version::Folder(_) | Version::Link(_) => (2, 0),
            Version::File(_, length) => (3, *length),
        };
        let mut teams: Vec<usize> = (0..versions.len()).collect();
        teams.sort_by_key(|team| std::cmp::Reverse(progress(team)));
        for pair in teams.windows(2) {
            match (&versions[pair[0]], &versions[pair[1]]) {
                (Version::File(long, _), Version::File(short, length)) => {
                    if first_difference(long, short)?.is_some_and(|offset| offset < *length) {
                        return Ok(None);
                    }
                }
                (_, Version::Untouched) | (Version::File(..), Version::Removed) => {}
                (one, other) if one == other => {}
                _ => return Ok(None),
            }
        }
        Ok(Some(if self.end == JobEnd::Stopped { teams[needed - 1] } else { teams[0] }))
    }

    /// Who has another version than the one that counts.
    fn mismatch(&self, path: &Path, versions: &[Version], choice: Option<usize>) -> io::Result<Option<FileMismatch>> {
        let right = &versions[choice.unwrap_or(0)];
        let (mut wrong, mut offset) = (Vec::new(), None);
        for (&team, version) in self.teams.iter().zip(versions) {
            if let Some(place) = difference(right, version)? {
                wrong.push(team);
                offset = offset.or(place);
            }
        }
        if wrong.is_empty() || choice.is_some() && self.end != JobEnd::Complete {
            return Ok(None);
        }
        let is_majority = 2 * wrong.len() < versions.len();
        let kept = if choice.is_none() { keep_all(path, &self.teams, versions)? } else { Vec::new() };
        Ok(Some(FileMismatch { path: path.to_owned(), wrong: is_majority.then_some(wrong), offset, kept }))
    }
}

/// Calls a function for all in a folder, with its path below it; a folder that does not exist is empty.
fn walk(folder: &Path, below: &Path, see: &mut dyn FnMut(&Path, &OsStr, bool)) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let (name, is_folder) = (entry.file_name(), entry.file_type()?.is_dir());
        let path = below.join(&name);
        see(&path, &name, is_folder);
        if is_folder {
            walk(&entry.path(), &path, see)?;
        }
    }
    Ok(())
}

/// The metadata of what is there itself; `None` if nothing is.
fn look(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        found => found.map(Some),
    }
}

/// A path in a folder of a team.
fn in_folder(folder: &Path, path: &Path) -> PathBuf {
    folder.join(path.strip_prefix("/").unwrap_or(path))
}

fn version(path: &Path, upper: &Path, whiteouts: &Path) -> io::Result<Version> {
    let own = in_folder(upper, path);
    let mut mark = OsString::from(WHITEOUT);
    mark.push(path.file_name().unwrap_or_default());
    Ok(match look(&own)? {
        // The folders above a file are there in any case.
        Some(found) if found.is_dir() && look(path)?.is_some_and(|there| there.is_dir()) => Version::Untouched,
        Some(found) if found.is_dir() => Version::Folder(found.permissions().mode() & 0o7777),
        Some(found) if found.is_symlink() => Version::Link(fs::read_link(&own)?),
        Some(found) if found.is_file() => Version::File(own, found.len()),
        // A pipe or a socket, which is of no use after the job.
        Some(_) => Version::Untouched,
        None if look(&in_folder(whiteouts, path).with_file_name(mark))?.is_some() => Version::Removed,
        None => Version::Untouched,
    })
}

/// `None` if two versions are the same; else the first byte that differs, if both are files.
fn difference(one: &Version, other: &Version) -> io::Result<Option<Option<u64>>> {
    match (one, other) {
        (Version::File(one, _), Version::File(other, _)) => Ok(first_difference(one, other)?.map(Some)),
        _ => Ok((one != other).then_some(None)),
    }
}

/// The first byte that differs between two files; if one begins the other, its length.
fn first_difference(one: &Path, other: &Path) -> io::Result<Option<u64>> {
    if one == other {
        return Ok(None);
    }
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (mut left, mut right) = (Vec::with_capacity(CHUNK), Vec::with_capacity(CHUNK));
    let mut place = 0;
    loop {
        for (file, chunk) in [(&mut one, &mut left), (&mut other, &mut right)] {
            chunk.clear();
            file.take(CHUNK as u64).read_to_end(chunk)?;
        }
        if left != right {
            let common = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
            return Ok(Some(place + common as u64));
        }
        if left.is_empty() {
            return Ok(None);
        }
        place += left.len() as u64;
    }
}

/// Keeps the version of each team beside the path.
fn keep_all(path: &Path, teams: &[u32], versions: &[Version]) -> io::Result<Vec<PathBuf>> {
    let mut kept = Vec::new();
    for (team, version) in teams.iter().zip(versions) {
        if let Version::File(own, _) = version {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".replica-{team}"));
            let beside = PathBuf::from(name);
            beside.parent().map_or(Ok(()), fs::create_dir_all)?;
            move_file(own, &beside)?;
            kept.push(beside);
        }
    }
    Ok(kept)
}

/// Makes a path what a version says.
fn place(path: &Path, version: &Version) -> io::Result<()> {
    let is_there = |kind: fn(&Metadata) -> bool| io::Result::Ok(look(path)?.is_some_and(|there| kind(&there)));
    match version {
        Version::Untouched => Ok(()),
        Version::Removed => remove(path),
        Version::Folder(_) => {
            if is_there(Metadata::is_dir)? {
                return Ok(());
            }
            remove(path)?;
            fs::create_dir_all(path)
        }
        Version::Link(target) => {
            remove(path)?;
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            symlink(target, path)
        }
        Version::File(own, _) if is_there(Metadata::is_file)? && first_difference(path, own)?.is_none() => {
            set_mode(path, fs::metadata(own)?.permissions().mode())
        }
        Version::File(own, _) => {
            if is_there(Metadata::is_dir)? {
                remove(path)?;
            }
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            put_file(own, path)
        }
    }
}

/// Removes what is there, if anything is.
fn remove(path: &Path) -> io::Result<()> {
    match look(path)? {
        None => Ok(()),
        Some(there) if there.is_dir() => fs::remove_dir(path),
        Some(_) => fs::remove_file(path),
    }
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let there = fs::metadata(path)?.permissions();
    if there.mode() & 0o7777 == mode & 0o7777 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// A file that others own or that has other names keeps them: its content changes. Any other is replaced in one step.
fn put_file(own: &Path, path: &Path) -> io::Result<()> {
    let written = fs::metadata(own)?;
    let is_shared = |there: &Metadata| {
        there.is_file() && (there.nlink() > 1 || (there.uid(), there.gid()) != (written.uid(), written.gid()))
    };
    if look(path)?.is_some_and(|there| is_shared(&there)) {
        return write_into(own, path);
    }
    match move_file(own, path) {
        // The folder is closed to us, and the file is not.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => write_into(own, path),
        moved => moved,
    }
}

fn write_into(own: &Path, path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    io::copy(&mut File::open(own)?, &mut file).map(|_| ())
}

/// By a rename if that can be; else the file gets its name when it is complete.
fn move_file(own: &Path, path: &Path) -> io::Result<()> {
    if let Some(folder) = own.parent() {
        let mode = fs::metadata(folder)?.permissions().mode();
        set_mode(folder, mode | 0o700)?;
    }
    match fs::rename(own, path) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy_file(own, path),
        renamed => renamed,
    }
}

fn copy_file(own: &Path, path: &Path) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".rampart-{}", std::process::id()));
    let beside = PathBuf::from(name);
    let copied = fs::copy(own, &beside).and_then(|_| fs::rename(&beside, path));
    if copied.is_err() {
        _ = fs::remove_file(&beside);
    }
    copied
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job, and a folder that its program writes to.
    struct Job {
        folder: tempfile::TempDir,
        place: tempfile::TempDir,
        replicas: u32,
    }

    impl Job {
        fn of(replicas: u32) -> Self {
            Self { folder: tempfile::tempdir().unwrap(), place: tempfile::tempdir().unwrap(), replicas }
        }

        fn real(&self, name: &str) -> PathBuf {
            self.place.path().canonicalize().unwrap().join(name)
        }

        fn own(&self, kind: &str, team: u32, name: &str) -> PathBuf {
            let path = in_folder(&self.folder.path().join(format!("{kind}.{team}")), &self.real(name));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        }

        /// Each team writes its text, if it has one.
        fn write(&self, name: &str, texts: &[Option<&str>]) {
            for (team, text) in (0..).zip(texts) {
                text.map(|text| fs::write(self.own("upper", team, name), text).unwrap());
            }
        }

        fn remove(&self, name: &str, teams: &[u32]) {
            for &team in teams {
                fs::write(self.own("whiteouts", team, &format!(".wh.{name}")), "").unwrap();
            }
        }

        fn settle(&self, end: JobEnd, undecided: Undecided) -> Vec<FileMismatch> {
            JobFiles::of(self.folder.path(), &(0..self.replicas).collect::<Vec<_>>(), end, undecided).settle().unwrap()
        }

        fn text(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.real(name)).ok()
        }
    }

    #[test]
    fn what_most_teams_wrote_is_put_in_place() {
        let job = Job::of(3);
        fs::write(job.real("file"), "old").unwrap();
        job.write("file", &[Some("new"), Some("nEw"), Some("new")]);
        job.write("only one", &[None, None, Some("x")]);
        let mismatches = job.settle(JobEnd::Complete, Undecided::Nothing);
        let expected = |name, wrong, offset| FileMismatch { path: job.real(name), wrong, offset, kept: Vec::new() };
        assert_eq!(mismatches[0], expected("file", Some(vec![1]), Some(1)));
        assert_eq!(mismatches[1], expected("only one", Some(vec![2]), None));
        assert_eq!((job.text("file").as_deref(), job.text("only one")), (Some("new"), None));
    }

    /// The text of a majority is there; else nothing has changed, and each version is kept.
    #[test]
    fn a_majority_decides_as_the_definition_says() {
        let mut seed = 7_u32;
        let mut next = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        for _ in 0..300 {
            let replicas = 2 + next(4);
            let job = Job::of(replicas);
            let texts: Vec<Option<&str>> =
                (0..replicas).map(|_| [None, Some("a"), Some("ab"), Some("b")][next(4) as usize]).collect();
            job.write("file", &texts);
            let mismatches = job.settle(JobEnd::Complete, Undecided::Nothing);
            let votes = |text| texts.iter().filter(|one| **one == text).count();
            let right = texts.iter().copied().find(|&text| 2 * votes(text) > texts.len());
            assert_eq!(job.text("file").as_deref(), right.flatten(), "{texts:?}");
            let wrong =
                right.map(|right| (0..replicas).filter(|&team| texts[team as usize] != right).collect::<Vec<_>>());
            assert_eq!(mismatches.is_empty(), wrong.as_ref().is_some_and(Vec::is_empty), "{texts:?}");
            for one in mismatches {
                assert_eq!(one.wrong, wrong, "{texts:?}");
                let kept: Vec<String> = one.kept.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
                let all: Vec<&str> = texts.iter().filter_map(|text| *text).filter(|_| wrong.is_none()).collect();
                assert_eq!(kept, all, "{texts:?}");
            }
        }
    }

    #[test]
    fn a_job_that_ends_in_the_middle_leaves_the_furthest_version_that_counts() {
        for (end, texts, expected) in [
            (JobEnd::CutOff, [Some("one"), Some("one two"), Some("one")], Some("one two")),
            (JobEnd::CutOff, [None, Some("one"), None], Some("one")),
            (JobEnd::Stopped, [Some("one"), Some("one two"), Some("one t")], Some("one t")),
            (JobEnd::Stopped, [None, Some("one"), None], None),
            (JobEnd::CutOff, [Some("one"), Some("oNe two"), Some("one")], Some("one")),
            (JobEnd::Stopped, [Some("a"), Some("b"), Some("c")], None),
        ] {
            let job = Job::of(3);
            job.write("file", &texts);
            let mismatches = job.settle(end, Undecided::Nothing);
            assert_eq!(job.text("file").as_deref(), expected, "{end:?} {texts:?}");
            assert_eq!(mismatches.is_empty(), texts[2] != Some("c"), "{end:?} {texts:?}");
        }
    }

    #[test]
    fn without_a_majority_the_first_counts_if_the_user_wants_to_go_on() {
        let job = Job::of(2);
        job.write("file", &[Some("a"), Some("b")]);
        let mismatches = job.settle(JobEnd::Complete, Undecided::First);
        assert_eq!((job.text("file").as_deref(), mismatches[0].wrong.as_ref()), (Some("a"), None));
        assert!(mismatches[0].kept.is_empty());
    }

    #[test]
    fn folders_links_and_removals_are_put_in_place() {
        let job = Job::of(2);
        for name in ["gone", "kept", "becomes"] {
            fs::create_dir(job.real(name)).unwrap();
        }
        fs::write(job.real("gone/inner"), "").unwrap();
        fs::write(job.real("kept/inner"), "x").unwrap();
        job.remove("gone", &[0, 1]);
        for team in 0..2 {
            fs::write(job.own("whiteouts", team, "gone/.wh.inner"), "").unwrap();
            fs::write(job.own("upper", team, "new/deep/file"), "deep").unwrap();
            fs::write(job.own("upper", team, "kept/more"), "more").unwrap();
            symlink("kept/more", job.own("upper", team, "link")).unwrap();
            fs::write(job.own("upper", team, "becomes"), "a file").unwrap();
        }
        job.remove("kept", &[1]);
        let mismatches = job.settle(JobEnd::Complete, Undecided::Nothing);
        assert!(mismatches.is_empty(), "a folder of files that are there is not removed: {mismatches:?}");
        assert!(!job.real("gone").exists());
        assert_eq!(job.text("new/deep/file").as_deref(), Some("deep"));
        assert_eq!((job.text("link").as_deref(), job.text("kept/inner").as_deref()), (Some("more"), Some("x")));
        assert_eq!(job.text("becomes").as_deref(), Some("a file"));
    }

    #[test]
    fn a_new_folder_of_a_job_that_ends_in_the_middle_is_put_in_place_with_what_is_in_it() {
        for replicas in [2, 3] {
            let job = Job::of(replicas);
            fs::write(job.own("upper", 0, "run/out"), "one").unwrap();
            assert!(job.settle(JobEnd::CutOff, Undecided::Nothing).is_empty(), "{replicas}");
            assert_eq!(job.text("run/out").as_deref(), Some("one"), "{replicas}");
        }
    }

    #[test]
    fn what_cannot_be_put_in_place_keeps_nothing_else_from_it() {
        let job = Job::of(2);
        fs::write(job.real("b"), "a file").unwrap();
        job.write("a", &[Some("1"), Some("1")]);
        job.write("b/c", &[Some("2"), Some("2")]);
        job.write("d", &[Some("3"), Some("3")]);
        // The program has made a folder of it, but its mark of the removed file is gone.
        fs::create_dir(job.real("d")).unwrap();
        fs::write(job.real("d/other"), "").unwrap();
        let files = JobFiles::of(job.folder.path(), &[0, 1], JobEnd::Complete, Undecided::Nothing);
        assert_eq!(files.settle().unwrap_err().path, job.real("d"));
        assert_eq!((job.text("a").as_deref(), job.text("b/c").as_deref()), (Some("1"), Some("2")));
    }

    /// Its permissions are set when what is in it is there.
    #[test]
    fn a_folder_that_is_closed_gets_its_files() {
        let job = Job::of(2);
        for team in 0..2 {
            let file = job.own("upper", team, "results/file");
            fs::write(&file, "x").unwrap();
            fs::set_permissions(file.parent().unwrap(), Permissions::from_mode(0o555)).unwrap();
        }
        assert!(job.settle(JobEnd::Complete, Undecided::Nothing).is_empty());
        assert_eq!(job.text("results/file").as_deref(), Some("x"));
        assert_eq!(fs::metadata(job.real("results")).unwrap().permissions().mode() & 0o777, 0o555);
    }

    #[test]
    fn a_file_with_two_names_keeps_both_and_a_pipe_is_left_out() {
        let job = Job::of(2);
        fs::write(job.real("file"), "old").unwrap();
        fs::hard_link(job.real("file"), job.real("other name")).unwrap();
        job.write("file", &[Some("new"), Some("new")]);
        for team in 0..2 {
            let pipe = job.own("upper", team, "pipe");
            assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        }
        assert!(job.settle(JobEnd::Complete, Undecided::Nothing).is_empty());
        assert_eq!((job.text("other name").as_deref(), job.real("pipe").exists()), (Some("new"), false));
    }

    #[test]
    fn a_file_that_is_as_it_was_is_left_alone() {
        let job = Job::of(2);
        fs::write(job.real("file"), "same").unwrap();
        let before = fs::metadata(job.real("file")).unwrap().modified().unwrap();
        job.write("file", &[Some("same"), Some("same")]);
        assert!(job.settle(JobEnd::Complete, Undecided::Nothing).is_empty());
        assert_eq!(fs::metadata(job.real("file")).unwrap().modified().unwrap(), before);
    }
}
