//! Dependencies between the modules of this crate.

use std::path::{Path, PathBuf};

/// Every module of this crate and the modules it may use, each listed after those: no circle is possible.
const ARROWS: &[(&str, &[&str])] = &[
    ("scramble", &[]),
    ("streams", &[]),
    ("keyed", &["scramble"]),
    ("run", &["scramble"]),
    ("trace", &["keyed"]),
    ("device", &["streams"]),
    ("profile", &["device"]),
    ("diskspecs", &["device", "profile"]),
    ("validate", &["device"]),
    ("host", &["device", "run", "scramble", "streams"]),
    ("replay", &["host", "keyed", "run", "trace"]),
    ("store", &["host", "run", "streams"]),
    ("workload", &["host", "run", "scramble"]),
    ("reference", &["device", "host", "profile", "run"]),
];

/// The names of the modules that `code` refers to as `crate::NAME` or `crate::{NAME, …}`.
fn used_modules(code: &str) -> Vec<String> {
    let name = |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let after = code.split("crate::").skip(1);
    let groups =
        after.map(|text| text.strip_prefix('{').map_or(vec![text], |group| group.split('}').next().unwrap().split(',').collect()));
    groups.flatten().map(name).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn modules_use_only_modules_listed_before_them() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (number, (module, may_use)) in ARROWS.iter().enumerate() {
        let is_listed_before = |name: &&str| ARROWS[..number].iter().any(|(before, _)| before == name);
        assert!(may_use.iter().all(is_listed_before), "{module} may use only modules listed before it");
        let folder = src.join(module);
        let file = folder.with_extension("rs");
        let files = if folder.is_dir() { sources(&folder) } else { vec![] };
        for path in files.into_iter().chain(file.is_file().then_some(file)).filter(|path| !path.ends_with("tests.rs")) {
            let text = std::fs::read_to_string(&path).unwrap();
            // Unit tests stand at the end of a file and may use everything.
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            for name in used_modules(code) {
                let allowed = name == *module || may_use.contains(&name.as_str());
                assert!(allowed, "{} uses crate::{name}; {module} may use {may_use:?}", path.display());
            }
        }
    }
}

#[test]
fn every_module_is_listed() {
    let lib = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let public = lib.split("#[cfg(test)]").next().unwrap();
    let declared = public.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'));
    for module in declared {
        assert!(ARROWS.iter().any(|(name, _)| *name == module), "{module} is missing from ARROWS");
    }
}
