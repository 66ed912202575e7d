//! What tests skip: the file that they write, what is shown of it, and what may not be skipped in CI.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use rampart_skips::{Feature, Skip};

use crate::error::Error;
use crate::files;
use crate::tally::Tally;

/// The features that the machine of CI must have, one a line.
const REQUIRED: &str = ".ci/required-features";

/// The file of one run of the tests.
pub struct Skips {
    file: PathBuf,
    required: BTreeSet<Feature>,
}

impl Skips {
    /// Begins a fresh file. Where `CI` is `true`, what `.ci/required-features` lists may not be skipped.
    pub fn begin(root: &Path) -> Result<Self, Error> {
        let is_ci = env::var_os("CI").is_some_and(|value| value == "true");
        let required = if is_ci { required(root)? } else { BTreeSet::new() };
        Self::begin_with(files::target(root).join("skips.tsv"), required)
    }

    fn begin_with(file: PathBuf, required: BTreeSet<Feature>) -> Result<Self, Error> {
        let folder = file.parent().expect("a file in a folder");
        let begun = fs::create_dir_all(folder).and_then(|()| fs::write(&file, ""));
        match begun {
            Ok(()) => Ok(Self { file, required }),
            Err(cause) => Err(Error::Write { path: file, cause }),
        }
    }

    /// The file, for the environment variable [`rampart_skips::VARIABLE`] of tests.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Adds a skip of xtask's own.
    pub fn add(&self, feature: Feature, test: &str, why: &str) -> Result<(), Error> {
        let added = Skip::new(feature, test, why).append_to(&self.file);
        added.map_err(|cause| Error::Write { path: self.file.clone(), cause })
    }

    /// Prints what was skipped, and the counts as the very last line; fails if a test failed, or if something was
    /// skipped that may not be.
    pub fn close(&self, total: Tally) -> Result<(), Error> {
        println!();
        let total = total + self.show()?;
        println!("{total}");
        total.outcome()
    }

    /// Prints what was skipped, and returns the counts.
    pub fn show(&self) -> Result<Tally, Error> {
        let (lines, counts) = self.account()?;
        lines.iter().for_each(|line| println!("{line}"));
        Ok(counts)
    }

    fn account(&self) -> Result<(Vec<String>, Tally), Error> {
        Ok(account(&files::read(&self.file)?, &self.required))
    }
}

/// What a file of skips says, by feature, and the counts. A test that skips several parts for one reason counts once.
fn account(text: &str, required: &BTreeSet<Feature>) -> (Vec<String>, Tally) {
    let mut by_feature: BTreeMap<&str, BTreeSet<Skip>> = BTreeMap::new();
    let (mut unreadable, mut counts) = (Vec::new(), Tally::default());
    for line in text.lines() {
        match Skip::read(line) {
            Some(skip) => drop(by_feature.entry(skip.feature.name()).or_default().insert(skip)),
            None => unreadable.push(format!("this line of the file of skips says nothing: {line}")),
        }
    }
    let (mut lines, mut missing) = (Vec::new(), Vec::new());
    for (name, skips) in &by_feature {
        let Some(sample) = skips.first() else { continue };
        let number = skips.len();
        lines.push(format!("skipped {number:>4} for lack of {name}: {} ({})", sample.why, sample.test));
        if required.contains(&sample.feature) {
            missing.push(format!("{REQUIRED} lists {name}, and yet {number} skipped for lack of it"));
            counts.failed += number as u64;
        } else {
            counts.skipped += number as u64;
        }
    }
    counts.failed += unreadable.len() as u64;
    lines.extend(missing.into_iter().chain(unreadable));
    (lines, counts)
}

/// The features that the machine of CI must have.
fn required(root: &Path) -> Result<BTreeSet<Feature>, Error> {
    listed(&files::read(&root.join(REQUIRED))?)
}

fn listed(text: &str) -> Result<BTreeSet<Feature>, Error> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let names = lines.filter(|name| !name.is_empty());
    names.map(|name| Feature::named(name).ok_or_else(|| Error::NoFeature(name.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "slurm\ta::one\tno Slurm\nqemu\tb::two\tno QEMU\nslurm\ta::one\tno Slurm\nslurm\ta::three\tno\n";

    #[test]
    fn skips_are_listed_by_feature_and_a_test_counts_once() {
        let (lines, counts) = account(TEXT, &BTreeSet::new());
        assert_eq!(
            lines,
            ["skipped    1 for lack of qemu: no QEMU (b::two)", "skipped    2 for lack of slurm: no Slurm (a::one)",]
        );
        assert_eq!((counts.failed, counts.skipped), (0, 3));
        assert_eq!(account("", &BTreeSet::new()), (vec![], Tally::default()));
    }

    #[test]
    fn a_skip_of_what_must_be_there_is_a_failure() {
        let (lines, counts) = account(TEXT, &BTreeSet::from([Feature::Slurm, Feature::Root]));
        assert_eq!(lines.last().unwrap(), ".ci/required-features lists slurm, and yet 2 skipped for lack of it");
        assert_eq!((counts.failed, counts.skipped), (2, 1));
    }

    #[test]
    fn a_line_that_says_nothing_is_a_failure() {
        let (lines, counts) = account("half a li", &BTreeSet::new());
        assert_eq!((lines.len(), counts.failed, counts.skipped), (1, 1, 0));
    }

    #[test]
    fn the_list_of_features_has_comments_and_only_known_names() {
        let features = listed("# CI has\nroot\n\n qemu # an emulator\n").unwrap();
        assert_eq!(features, BTreeSet::from([Feature::Root, Feature::Qemu]));
        assert!(matches!(listed("root\nrot\n"), Err(Error::NoFeature(name)) if name == "rot"));
    }

    #[test]
    fn what_ci_must_have_is_known_and_holds_what_the_tests_of_memory_need() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the root");
        let features = required(root).expect("each name is a feature's");
        for feature in [
            Feature::Root,
            Feature::UserfaultfdMove,
            Feature::UserfaultfdMinor,
            Feature::UserfaultfdWriteProtect,
            Feature::FrameNumbers,
            Feature::Qemu,
            Feature::Mpi,
            Feature::Gfortran,
        ] {
            assert!(features.contains(&feature), "{feature}");
        }
    }

    #[test]
    fn a_fresh_file_takes_skips_and_closes_with_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("target/skips.tsv");
        fs::create_dir(folder.path().join("target")).unwrap();
        fs::write(&file, TEXT).unwrap();
        let skips = Skips::begin_with(file.clone(), BTreeSet::from([Feature::Qemu])).unwrap();
        assert_eq!(skips.account().unwrap(), (vec![], Tally::default()), "those of the last run are gone");
        skips.add(Feature::Slurm, "a", "no Slurm").unwrap();
        assert!(skips.close(Tally::default()).is_ok());
        skips.add(Feature::Qemu, "scenarios", "no QEMU").unwrap();
        assert!(matches!(skips.close(Tally::default()), Err(Error::TestsFailed)));
        let others = Skips::begin_with(file, BTreeSet::new()).unwrap();
        others.add(Feature::Qemu, "scenarios", "no QEMU").unwrap();
        assert!(others.close(Tally::default()).is_ok(), "only in CI");
    }
}
