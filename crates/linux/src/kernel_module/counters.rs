//! What the loaded module shows in its folder of `/sys`, without its device [Rahman16, A.2.1].

use std::collections::BTreeMap;

use serde::Serialize;

use crate::roots::text;
use crate::{Absence, Roots};

/// The module's folder, below `/sys`.
pub(super) const FOLDER: &str = "kernel/rampart";

/// How the module is used, and what it has counted since it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelModuleView {
    /// The version of its interface.
    pub abi: u32,
    /// The process that owns its device, if one does.
    pub owner: Option<u32>,
    /// Blocks allocated and freed [Rahman16, A.1.3], without rows of zeros; `None` if only root may read them.
    pub demand: Option<Vec<DemandCount>>,
    /// What its counters miss; `None` if only root may read that.
    pub missed: Option<MissedFrames>,
    /// How many of these blocks were tested, without rows of zeros; `None` if only root may read that.
    pub tested: Option<Vec<TestedCount>>,
    /// What became of claimed frames; `None` if only root may read that.
    pub claims: Option<ClaimCounts>,
    /// What became of memory that came online; `None` if only root may read that, or the module is too old.
    pub new_memory: Option<NewMemoryCounts>,
    /// What became of blocks that were asked for without a valid test; `None` on a kernel without `kernel/patches`, or
    /// if only root may read that.
    pub on_demand: Option<OnDemandCounts>,
}

/// Blocks that were asked for without a valid test since the module was loaded, on a kernel with `kernel/patches`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OnDemandCounts {
    /// Tested, and handed out.
    pub good: u64,
    /// Tested, and kept, since frames of them are bad.
    pub bad: u64,
    /// Handed out untested to who could not wait.
    pub atomic: u64,
    /// Handed out untested to the tester itself.
    pub owner: u64,
    /// Handed out untested, since nobody tested.
    pub no_tester: u64,
    /// Handed out untested, since the tester was late.
    pub late: u64,
    /// Of those handed out untested, how many were asked for by each way through the kernel: functions, the innermost
    /// first. Those that are asked for most come first.
    pub untested_by: Vec<(u64, String)>,
}

/// Memory that came online since the module was loaded, in frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NewMemoryCounts {
    /// What becomes of it.
    pub policy: NewMemoryPolicy,
    /// In use after a test.
    pub tested: u64,
    /// In use without one.
    pub untested: u64,
    /// What waits for its test, by node.
    pub waiting: BTreeMap<u32, u64>,
}

/// What becomes of memory that comes online.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NewMemoryPolicy {
    /// It is used at once.
    #[default]
    Use,
    /// It is tested before its first use, while a program asks for that.
    Test,
    /// It waits until it was tested.
    Withhold,
    /// Another driver decides (virtio-mem, a balloon).
    Taken,
}

/// Blocks of one kind by their tests, since the module was loaded [Rahman16, A.1.3].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TestedCount {
    /// Their node.
    pub node: u32,
    /// Their migratetype, by the kernel's name.
    pub migratetype: String,
    /// Their order: a block has 2 to this power frames.
    pub order: u32,
    /// Allocated while the test of each frame was valid.
    pub allocated_tested: u64,
    /// Allocated otherwise.
    pub allocated_untested: u64,
    /// Those of `allocated_tested` that were not in use since their test.
    pub allocated_unfreed: u64,
    /// Freed while the test of each frame was valid.
    pub returned_fresh: u64,
    /// Freed otherwise.
    pub returned_expired: u64,
}

/// Claimed frames, since the module was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClaimCounts {
    /// Claimed now.
    pub held: u64,
    /// Given back as tested.
    pub tested: u64,
    /// Retired.
    pub retired: u64,
    /// Taken back since the owner was gone.
    pub lost_owner: u64,
    /// Taken back since their time was up.
    pub lost_time: u64,
    /// Taken back since memory was short.
    pub lost_pressure: u64,
    /// Taken back since their memory block went offline.
    pub lost_offline: u64,
    /// Moved out of claimed frames, to frames whose test was valid [Rahman16, figure 6].
    pub moved_fresh: u64,
    /// The same, to frames whose test had ended.
    pub moved_expired: u64,
    /// The same, to frames that were never tested.
    pub moved_never: u64,
}

/// Blocks of one kind, since the module was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DemandCount {
    /// Their node.
    pub node: u32,
    /// Their migratetype, by the kernel's name.
    pub migratetype: String,
    /// Their order: a block has 2 to this power frames.
    pub order: u32,
    /// How many were allocated.
    pub allocated: u64,
    /// How many were freed.
    pub freed: u64,
}

/// Frames, as the kernel counts them and as the module saw them: the difference passed by the tracepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MissedFrames {
    /// Allocated frames, by the kernel's counters.
    pub allocated: u64,
    /// Of these, what the module saw.
    pub allocated_seen: u64,
    /// Freed frames, by the kernel's counters.
    pub freed: u64,
    /// Of these, what the module saw.
    pub freed_seen: u64,
}

impl TestedCount {
    /// Reads all that the module shows, without rows of zeros; `None` if it is not loaded, or only root may read that.
    #[must_use]
    pub fn read_all(roots: &Roots) -> Option<Vec<Self>> {
        parse_tested(&text(&roots.sys(FOLDER).join("tested")).ok()?)
    }
}

impl ClaimCounts {
    /// Reads what the module shows; `None` if it is not loaded, or only root may read that.
    #[must_use]
    pub fn read(roots: &Roots) -> Option<Self> {
        parse_claims(&text(&roots.sys(FOLDER).join("claims")).ok()?)
    }
}

impl NewMemoryCounts {
    /// Reads what the module shows; `None` if it is not loaded or too old, or only root may read that.
    #[must_use]
    pub fn read(roots: &Roots) -> Option<Self> {
        parse_new_memory(&text(&roots.sys(FOLDER).join("new_memory")).ok()?)
    }
}

impl OnDemandCounts {
    /// Reads what the module shows; `None` if it is not loaded, or not on such a kernel, or only root may read that.
    #[must_use]
    pub fn read(roots: &Roots) -> Option<Self> {
        let shown = |name: &str| text(&roots.sys(FOLDER).join(name)).ok();
        parse_on_demand(&shown("on_demand")?, &shown("untested")?)
    }
}

impl KernelModuleView {
    /// Reads what the module shows.
    ///
    /// # Errors
    /// If the version of the interface cannot be read, or is not [`super::ABI`]: the rest could be misread.
    pub fn read(roots: &Roots) -> Result<Self, Absence> {
        let folder = roots.sys(FOLDER);
        let abi = folder.join("abi");
        let version = text(&abi).map_err(|cause| Absence::of_file(&abi, &cause, "Rampart's module"))?;
        let version = version.trim();
        if version.parse() != Ok(super::ABI) {
            return Err(Absence::new(
                format!("the loaded module has ABI {version}, and this version of Rampart needs {}", super::ABI),
                "`rampart kernel unload`, then `build` and `load`",
            ));
        }
        let owner = text(&folder.join("owner")).ok().and_then(|owner| owner.trim().parse().ok());
        let shown = |name: &str| text(&folder.join(name)).ok();
        let demand = shown("demand").and_then(|text| parse_demand(&text));
        let missed = shown("missed").and_then(|text| parse_missed(&text));
        let (tested, claims) = (TestedCount::read_all(roots), ClaimCounts::read(roots));
        let (new_memory, on_demand) = (NewMemoryCounts::read(roots), OnDemandCounts::read(roots));
        Ok(Self { abi: super::ABI, owner, demand, missed, tested, claims, new_memory, on_demand })
    }
}

/// Reads the module's file `demand`: rows of `node migratetype order allocated freed`. Rows of zeros are left out.
/// `None` if a row is not understood.
#[must_use]
pub fn parse_demand(text: &str) -> Option<Vec<DemandCount>> {
    let row = |line: &str| -> Option<DemandCount> {
        let mut words = line.split_whitespace();
        let (node, migratetype) = (words.next()?.parse().ok()?, words.next()?.to_owned());
        let order = words.next()?.parse().ok()?;
        let [allocated, freed] = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
        Some(DemandCount { node, migratetype, order, allocated, freed })
    };
    let rows: Option<Vec<DemandCount>> = text.lines().map(row).collect();
    rows.map(|rows| rows.into_iter().filter(|row| row.allocated > 0 || row.freed > 0).collect())
}

/// Reads the module's file `tested`: rows of `node migratetype order`, and five numbers. Rows of zeros are left out.
/// `None` if a row is not understood.
#[must_use]
pub fn parse_tested(text: &str) -> Option<Vec<TestedCount>> {
    let row = |line: &str| -> Option<TestedCount> {
        let mut words = line.split_whitespace();
        let (node, migratetype) = (words.next()?.parse().ok()?, words.next()?.to_owned());
        let order = words.next()?.parse().ok()?;
        let mut number = || words.next()?.parse().ok();
        Some(TestedCount {
            node,
            migratetype,
            order,
            allocated_tested: number()?,
            allocated_untested: number()?,
            allocated_unfreed: number()?,
            returned_fresh: number()?,
            returned_expired: number()?,
        })
    };
    let rows: Option<Vec<TestedCount>> = text.lines().map(row).collect();
    let is_empty = |row: &TestedCount| {
        let allocated = row.allocated_tested | row.allocated_untested;
        (allocated | row.returned_fresh | row.returned_expired) == 0
    };
    rows.map(|rows| rows.into_iter().filter(|row| !is_empty(row)).collect())
}

/// Reads the module's file `claims`: lines of a name and a number. `None` if one of them is missing or not understood.
#[must_use]
pub fn parse_claims(text: &str) -> Option<ClaimCounts> {
    let number = |name: &str| numbered(text, name);
    Some(ClaimCounts {
        held: number("held")?,
        tested: number("tested")?,
        retired: number("retired")?,
        lost_owner: number("lost_owner")?,
        lost_time: number("lost_time")?,
        lost_pressure: number("lost_pressure")?,
        lost_offline: number("lost_offline")?,
        moved_fresh: number("moved_fresh")?,
        moved_expired: number("moved_expired")?,
        moved_never: number("moved_never")?,
    })
}

/// Reads the module's file `new_memory`: lines of a name and a value, and `waiting NODE FRAMES` for each node on which
/// memory waits. `None` if one of them is missing or not understood.
#[must_use]
pub fn parse_new_memory(text: &str) -> Option<NewMemoryCounts> {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let policy = match value("policy")? {
        "use" => NewMemoryPolicy::Use,
        "test" => NewMemoryPolicy::Test,
        "withhold" => NewMemoryPolicy::Withhold,
        "taken" => NewMemoryPolicy::Taken,
        _ => return None,
    };
    let waiting = text.lines().filter_map(|line| line.strip_prefix("waiting ")).map(|row| {
        let (node, frames) = row.split_once(' ')?;
        Some((node.parse().ok()?, frames.parse().ok()?))
    });
    Some(NewMemoryCounts {
        policy,
        tested: numbered(text, "tested")?,
        untested: numbered(text, "untested")?,
        waiting: waiting.collect::<Option<_>>()?,
    })
}

/// Reads the module's files `on_demand`, lines of a name and a number, and `untested`, lines of a number and functions.
/// `None` if a line is missing or not understood.
#[must_use]
pub fn parse_on_demand(on_demand: &str, untested: &str) -> Option<OnDemandCounts> {
    let number = |name: &str| numbered(on_demand, name);
    let ways = untested.lines().map(|line| {
        let (blocks, way) = line.split_once(' ')?;
        Some((blocks.parse().ok()?, way.to_owned()))
    });
    let mut untested_by: Vec<(u64, String)> = ways.collect::<Option<_>>()?;
    untested_by.sort_by(|one, other| other.cmp(one));
    Some(OnDemandCounts {
        good: number("good")?,
        bad: number("bad")?,
        atomic: number("atomic")?,
        owner: number("owner")?,
        no_tester: number("no_tester")?,
        late: number("late")?,
        untested_by,
    })
}

/// The number in a line of a name and a number.
fn numbered(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Reads the module's file `missed`: two lines, `allocated KERNEL SEEN` and `freed KERNEL SEEN`. `None` if one of them
/// is missing or not understood.
#[must_use]
pub fn parse_missed(text: &str) -> Option<MissedFrames> {
    let pair = |name: &str| -> Option<(u64, u64)> {
        let numbers = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        let (kernel, seen) = numbers.split_once(' ')?;
        Some((kernel.parse().ok()?, seen.parse().ok()?))
    };
    let ((allocated, allocated_seen), (freed, freed_seen)) = (pair("allocated")?, pair("freed")?);
    Some(MissedFrames { allocated, allocated_seen, freed, freed_seen })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn shown(files: &[(&str, &str)]) -> Result<KernelModuleView, Absence> {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(FOLDER);
        fs::create_dir_all(&folder).unwrap();
        for (name, content) in files {
            fs::write(folder.join(name), content).unwrap();
        }
        KernelModuleView::read(&Roots::new(root.path(), root.path()))
    }

    #[test]
    fn what_the_module_counts_is_read_without_rows_of_zeros() {
        let demand = "     0 Movable      9                   12                    3\n\
                      \u{20}    0 Isolate      0                    0                    0\n\
                      \u{20}    1 Unmovable    0                    0          18446744073\n";
        let missed = "allocated 1000 900\nfreed 800 800\n";
        let tested = "     0 Isolate      0  0 0 0 0 0\n     0 Movable      9  7 5 6 1 2\n";
        let claims = "held 1\ntested 2\nretired 3\nlost_owner 4\nlost_time 5\nlost_pressure 6\nlost_offline 7\n\
                      moved_fresh 8\nmoved_expired 9\nmoved_never 10\n";
        let new_memory = "policy withhold\ntested 5\nuntested 6\nwaiting 0 1024\nwaiting 2 7\n";
        let files = [("abi", "1\n"), ("owner", "812\n"), ("demand", demand), ("missed", missed)];
        let on_demand = "good 1\nbad 2\natomic 3\nowner 4\nno_tester 5\nlate 6\n";
        let untested = "7 a<b\n9 c\n";
        let shown_by_patch = [("on_demand", on_demand), ("untested", untested)];
        let more = [("tested", tested), ("claims", claims), ("new_memory", new_memory)];
        let files = [&files[..], &shown_by_patch[..]].concat();
        let view = shown(&[&files[..], &more[..]].concat()).unwrap();
        let row = |node, migratetype: &str, order, allocated, freed| {
            let migratetype = migratetype.to_owned();
            DemandCount { node, migratetype, order, allocated, freed }
        };
        let rows = vec![row(0, "Movable", 9, 12, 3), row(1, "Unmovable", 0, 0, 18_446_744_073)];
        let missed = MissedFrames { allocated: 1000, allocated_seen: 900, freed: 800, freed_seen: 800 };
        let tested = TestedCount {
            node: 0,
            migratetype: "Movable".to_owned(),
            order: 9,
            allocated_tested: 7,
            allocated_untested: 5,
            allocated_unfreed: 6,
            returned_fresh: 1,
            returned_expired: 2,
        };
        let claims = ClaimCounts {
            held: 1,
            tested: 2,
            retired: 3,
            lost_owner: 4,
            lost_time: 5,
            lost_pressure: 6,
            lost_offline: 7,
            moved_fresh: 8,
            moved_expired: 9,
            moved_never: 10,
        };
        let expected = KernelModuleView {
            abi: 1,
            owner: Some(812),
            demand: Some(rows),
            missed: Some(missed),
            tested: Some(vec![tested]),
            claims: Some(claims),
            new_memory: Some(NewMemoryCounts {
                policy: NewMemoryPolicy::Withhold,
                tested: 5,
                untested: 6,
                waiting: BTreeMap::from([(0, 1024), (2, 7)]),
            }),
            on_demand: Some(OnDemandCounts {
                good: 1,
                bad: 2,
                atomic: 3,
                owner: 4,
                no_tester: 5,
                late: 6,
                untested_by: vec![(9, "c".to_owned()), (7, "a<b".to_owned())],
            }),
        };
        assert_eq!(view, expected);
    }

    #[test]
    fn a_module_that_nobody_owns_and_whose_counters_are_hidden_is_read_all_the_same() {
        let view = shown(&[("abi", "1\n"), ("owner", "none\n")]).unwrap();
        let expected = KernelModuleView { abi: 1, ..KernelModuleView::default() };
        assert_eq!(view, expected);
    }

    #[test]
    fn a_row_that_is_not_understood_is_not_guessed() {
        for demand in ["0 Movable 9 12\n", "0 Movable nine 12 3\n", "\n"] {
            assert_eq!(shown(&[("abi", "1\n"), ("demand", demand)]).unwrap().demand, None, "{demand}");
        }
        assert_eq!(shown(&[("abi", "1\n"), ("missed", "allocated 5 5\n")]).unwrap().missed, None);
        assert_eq!(shown(&[("abi", "1\n"), ("tested", "0 Movable 9 1 2 3 4\n")]).unwrap().tested, None);
        assert_eq!(shown(&[("abi", "1\n"), ("claims", "held 1\ntested 2\n")]).unwrap().claims, None);
        let new_memory = [
            "policy test\ntested 1\n",
            "policy x\ntested 1\nuntested 1\n",
            "policy use\ntested 1\nuntested 1\nwaiting 1\n",
        ];
        for new in new_memory {
            assert_eq!(shown(&[("abi", "1\n"), ("new_memory", new)]).unwrap().new_memory, None, "{new}");
        }
        let on_demand = "good 1\nbad 2\natomic 3\nowner 4\nno_tester 5\n";
        assert_eq!(parse_on_demand(on_demand, ""), None);
        assert_eq!(parse_on_demand(&format!("{on_demand}late 6\n"), "seven a\n"), None);
    }

    #[test]
    fn a_module_of_another_version_is_not_read() {
        let absence = shown(&[("abi", "2\n"), ("owner", "none\n")]).unwrap_err().to_string();
        assert!(absence.contains("ABI 2, and this version of Rampart needs 1; `rampart kernel unload`"), "{absence}");
        assert!(shown(&[]).unwrap_err().to_string().contains("kernel/rampart/abi does not exist"));
    }

    /// The module's header and this crate agree on the version.
    #[test]
    fn the_version_is_that_of_the_module_s_header() {
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel/rampart_abi.h");
        let header = fs::read_to_string(header).unwrap();
        let version = header.lines().find_map(|line| line.strip_prefix("#define RAMPART_ABI "));
        assert_eq!(version.map(str::trim), Some(super::super::ABI.to_string().as_str()));
    }
}
