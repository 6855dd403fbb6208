//! Which modules of this crate may know which.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use std::path::{Path, PathBuf};

/// The modules around the event loop, and what each may use of this crate. The loop uses nothing that it runs.
const ARROWS: &[(&str, &[&str])] = &[
    ("run", &["scramble"]),
    ("host", &["device", "run", "scramble", "streams"]),
    ("replay", &["host", "keyed", "run", "trace"]),
    ("workload", &["host", "run", "scramble"]),
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn modules_use_each_other_along_the_arrows_only() {
    for (module, may_use) in ARROWS {
        for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(module)) {
            let text = std::fs::read_to_string(&path).unwrap();
            // Unit tests stand at the end of a file and may use everything.
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            for used in code.split("crate::").skip(1) {
                let name: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let allowed = name == *module || may_use.contains(&name.as_str());
                assert!(allowed, "{} uses crate::{name}; {module} may use {may_use:?}", path.display());
            }
        }
    }
}
