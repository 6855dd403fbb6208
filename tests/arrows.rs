//! Which crate may know which: the arrows of ARCHITECTURE.md.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::collections::BTreeMap;
use std::path::Path;

/// What each crate may depend on. A crate that is not here does not exist yet: give it a line, here and in ARCHITECTURE.md.
const ARROWS: &[(&str, &[&str])] = &[
    ("block", &[]),
    ("sim", &["block"]),
    ("observe", &["block"]),
    ("device-model", &["block"]),
    ("control", &["block", "observe", "device-model"]),
    ("knowledge", &["block", "observe", "control"]),
    ("twin", &["block", "sim", "observe", "control", "device-model"]),
    ("progress", &[]),
    ("report", &["block"]),
    ("serve", &["block", "sim"]),
    ("experiment", &["block", "sim", "observe", "control", "device-model", "knowledge", "twin", "progress", "report"]),
    ("research", &["block", "sim", "observe", "control", "device-model", "knowledge", "twin", "progress", "report", "experiment"]),
    ("terminal", &["report", "progress"]),
    (
        "agent",
        &[
            "block",
            "sim",
            "observe",
            "control",
            "device-model",
            "knowledge",
            "twin",
            "progress",
            "report",
            "experiment",
            "terminal",
        ],
    ),
    (
        "seekwise",
        &[
            "block",
            "sim",
            "observe",
            "control",
            "device-model",
            "knowledge",
            "twin",
            "progress",
            "report",
            "experiment",
            "serve",
            "agent",
            "terminal",
        ],
    ),
    (
        "lab",
        &[
            "block",
            "sim",
            "observe",
            "control",
            "device-model",
            "knowledge",
            "twin",
            "progress",
            "report",
            "experiment",
            "research",
            "serve",
            "agent",
            "terminal",
            "seekwise",
        ],
    ),
];

fn dependencies(manifest: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(manifest).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    ["dependencies", "dev-dependencies", "build-dependencies"]
        .iter()
        .filter_map(|kind| manifest.get(*kind)?.as_table())
        .flat_map(|table| table.keys().cloned())
        .collect()
}

#[test]
fn crates_depend_on_each_other_along_the_arrows_only() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let allowed: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&crates).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let may_know = allowed.get(name.as_str()).unwrap_or_else(|| panic!("crates/{name} has no arrows"));
        for dependency in dependencies(&crates.join(&name).join("Cargo.toml")) {
            let ours = allowed.contains_key(dependency.as_str());
            assert!(!ours || may_know.contains(&dependency.as_str()), "crates/{name} must not depend on {dependency}");
        }
        found.push(name);
    }
    found.sort();
    assert_eq!(found, allowed.keys().copied().collect::<Vec<_>>());
}

#[test]
fn every_dependency_has_its_reason_in_the_architecture() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let workspace: toml::Table = std::fs::read_to_string(root.join("Cargo.toml")).unwrap().parse().unwrap();
    let architecture = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let listed = workspace["workspace"]["dependencies"].as_table().unwrap();
    for (name, dependency) in listed {
        let ours = dependency.get("path").is_some();
        assert!(ours || architecture.contains(&format!("| `{name}` |")), "ARCHITECTURE.md: no line for {name}");
        let used = ARROWS.iter().any(|(unit, _)| dependencies(&root.join("crates").join(unit).join("Cargo.toml")).contains(name));
        assert!(used, "Cargo.toml lists {name}, which no crate uses");
    }
}
