//! The ways in which this machine reaches its registries: a bare root uses the same.

/// An archive of Debian packages that this machine's apt uses.
#[derive(Debug, PartialEq, Eq)]
pub struct Archive {
    uri: String,
    release: String,
    component: String,
}

/// Makes `apt-get indextargets` print one archive a line, as [`archives`] reads it.
pub const TARGETS: [&str; 4] =
    ["indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"];

/// The archives of a Debian release, its updates included.
pub fn archives(targets: &str, suite: &str) -> Vec<Archive> {
    let of_suite =
        |release: &str| release.strip_prefix(suite).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    let mut archives = Vec::new();
    for line in targets.lines() {
        let [uri, release, component] = line.split_whitespace().collect::<Vec<_>>()[..] else { continue };
        let archive = Archive { uri: uri.to_owned(), release: release.to_owned(), component: component.to_owned() };
        if of_suite(release) && !archives.contains(&archive) {
            archives.push(archive);
        }
    }
    archives
}

/// The source of the release itself, not of its updates.
pub fn mirror<'a>(archives: &'a [Archive], suite: &str) -> Option<&'a str> {
    archives.iter().find(|archive| archive.release == suite).map(|archive| archive.uri.as_str())
}

/// The text of a `sources.list`.
pub fn sources(archives: &[Archive]) -> String {
    let line = |archive: &Archive| format!("deb {} {} {}\n", archive.uri, archive.release, archive.component);
    archives.iter().map(line).collect()
}

/// Whether an environment variable tells cargo, apt or their TLS how to reach a registry.
pub fn is_of_registries(variable: &str) -> bool {
    let cargo = ["CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTR", "CARGO_SOURCE_"];
    let tls = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
    cargo.iter().any(|prefix| variable.starts_with(prefix))
        || tls.contains(&variable)
        || variable.to_ascii_lowercase().ends_with("_proxy")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGETS: &str = "\
http://a/security/ bookworm-security main
http://a/debian/ bookworm main
http://a/debian/ bookworm main
http://a/debian/ bookworm-updates main
http://b/node/ nodistro main
http://a/debian/ bookwormish main
not a line of three words
";

    #[test]
    fn the_archives_of_a_release_are_taken_over_each_once() {
        let archives = archives(TARGETS, "bookworm");
        assert_eq!(
            sources(&archives),
            "deb http://a/security/ bookworm-security main\n\
             deb http://a/debian/ bookworm main\n\
             deb http://a/debian/ bookworm-updates main\n"
        );
        assert_eq!(mirror(&archives, "bookworm"), Some("http://a/debian/"));
        assert_eq!(mirror(&archives[..1], "bookworm"), None);
    }

    #[test]
    fn only_what_leads_to_registries_is_taken_from_the_environment() {
        for variable in ["CARGO_HTTP_CAINFO", "CARGO_REGISTRIES_X_INDEX", "SSL_CERT_FILE", "https_proxy", "NO_PROXY"] {
            assert!(is_of_registries(variable), "{variable}");
        }
        for variable in ["PATH", "HOME", "CARGO", "CARGO_MANIFEST_DIR", "CARGO_TARGET_DIR", "RUSTFLAGS", "LD_PRELOAD"] {
            assert!(!is_of_registries(variable), "{variable}");
        }
    }
}
