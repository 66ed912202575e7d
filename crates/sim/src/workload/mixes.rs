//! The mixes of [Rahman16, tab. 7], and pairs for [Rahman16, fig. 31].

/// Programs that run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Its name, L1 to H2.
    pub name: &'static str,
    /// The programs, and the number of instances of each.
    pub parts: &'static [(&'static str, usize)],
}

impl Mix {
    /// Returns the name of every instance; those of one program follow each other. Cores belong to the nodes in turn,
    /// so each program with more than one instance runs on both nodes, as in [Rahman16, fig. 34].
    #[must_use]
    pub fn programs(&self) -> Vec<&'static str> {
        self.parts.iter().flat_map(|&(name, count)| std::iter::repeat_n(name, count)).collect()
    }
}

/// [Rahman16, tab. 7].
pub const MIXES: [Mix; 8] = [
    Mix {
        name: "L1",
        parts: &[
            ("namd", 2),
            ("bzip2", 2),
            ("povray", 2),
            ("tonto", 1),
            ("hmmer", 1),
            ("sphinx3", 1),
            ("lbm", 1),
            ("libquantum", 1),
            ("gamess", 1),
        ],
    },
    Mix {
        name: "L2",
        parts: &[
            ("perlbench", 1),
            ("bwaves", 1),
            ("gemsFDTD", 1),
            ("gromacs", 1),
            ("sjeng", 1),
            ("h264ref", 1),
            ("tonto", 1),
            ("namd", 1),
            ("bzip2", 1),
            ("povray", 1),
            ("hmmer", 1),
            ("lbm", 1),
        ],
    },
    Mix {
        name: "L3",
        parts: &[
            ("omnetpp", 2),
            ("mcf", 1),
            ("cactusADM", 1),
            ("soplex", 1),
            ("gobmk", 1),
            ("tonto", 1),
            ("namd", 1),
            ("bzip2", 1),
            ("povray", 1),
            ("hmmer", 1),
            ("lbm", 1),
        ],
    },
    Mix {
        name: "M1",
        parts: &[
            ("omnetpp", 2),
            ("mcf", 1),
            ("cactusADM", 1),
            ("soplex", 1),
            ("gobmk", 1),
            ("perlbench", 1),
            ("bwaves", 1),
            ("gemsFDTD", 1),
            ("zeusmp", 1),
            ("leslie3d", 1),
            ("gromacs", 1),
        ],
    },
    Mix {
        name: "M2",
        parts: &[
            ("astar", 2),
            ("calculix", 2),
            ("omnetpp", 1),
            ("mcf", 1),
            ("cactusADM", 1),
            ("soplex", 1),
            ("perlbench", 1),
            ("bwaves", 1),
            ("gemsFDTD", 1),
            ("zeusmp", 1),
        ],
    },
    Mix {
        name: "M3",
        parts: &[
            ("astar", 3),
            ("calculix", 3),
            ("omnetpp", 2),
            ("mcf", 1),
            ("cactusADM", 1),
            ("soplex", 1),
            ("gobmk", 1),
        ],
    },
    Mix {
        name: "H1",
        parts: &[
            ("milc", 2),
            ("gcc", 2),
            ("astar", 2),
            ("calculix", 2),
            ("omnetpp", 1),
            ("mcf", 1),
            ("cactusADM", 1),
            ("soplex", 1),
        ],
    },
    Mix { name: "H2", parts: &[("milc", 3), ("gcc", 3), ("astar", 3), ("calculix", 3)] },
];

/// Eight pairs for [Rahman16, fig. 31], the least demanding first. Rahman says only that they span low to moderate
/// demand.
pub const PAIRS: [[&str; 2]; 8] = [
    ["povray", "namd"],
    ["hmmer", "tonto"],
    ["sphinx3", "libquantum"],
    ["gromacs", "sjeng"],
    ["perlbench", "gobmk"],
    ["soplex", "omnetpp"],
    ["leslie3d", "zeusmp"],
    ["bwaves", "mcf"],
];
