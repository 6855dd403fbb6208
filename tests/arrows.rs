//! Which crate may know which: the arrows of ARCHITECTURE.md.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod circles;

use std::collections::BTreeMap;
use std::path::Path;

/// What each crate may depend on. A crate that is not here does not exist yet: give it a line, here and in ARCHITECTURE.md.
const ARROWS: &[(&str, &[&str])] = &[
    ("block", &[]),
    ("progress", &[]),
    ("sim", &["block"]),
    ("observe", &["block"]),
    ("device-model", &["block"]),
    ("report", &["block"]),
    ("applier", &["block"]),
    ("serve", &["block", "sim"]),
    ("terminal", &["progress", "report"]),
    ("control", &["block", "observe", "device-model"]),
    ("knowledge", &["block", "observe", "control"]),
    ("twin", &["block", "sim", "observe", "control", "device-model"]),
    ("experiment", &["progress", "report", "knowledge", "twin", "block", "sim", "observe", "control", "device-model"]),
    ("research", &["experiment", "progress", "report", "knowledge", "twin", "block", "sim", "observe", "control", "device-model"]),
    (
        "agent",
        &["applier", "experiment", "terminal", "progress", "report", "knowledge", "twin", "block", "sim", "observe", "control"],
    ),
    ("seekwise", PROGRAM),
    ("lab", RESEARCH_PROGRAM),
];

/// The program `seekwise` may use everything but research; of the applier it uses the client.
const PROGRAM: &[&str] = &[
    "agent",
    "applier",
    "serve",
    "experiment",
    "terminal",
    "progress",
    "report",
    "knowledge",
    "twin",
    "block",
    "sim",
    "observe",
    "control",
    "device-model",
];

/// The program `seekwise-lab` may use everything.
const RESEARCH_PROGRAM: &[&str] = &[
    "seekwise",
    "research",
    "agent",
    "applier",
    "serve",
    "experiment",
    "terminal",
    "progress",
    "report",
    "knowledge",
    "twin",
    "block",
    "sim",
    "observe",
    "control",
    "device-model",
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

/// Root runs it, so what it is made of can be read in a day.
#[test]
fn the_applier_is_made_of_few_crates() {
    let tree = ["tree", "--offline", "--locked", "-p", "seekwise-applier", "-e", "normal", "--prefix", "none", "--no-dedupe"];
    let output = std::process::Command::new(env!("CARGO")).args(tree).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let crates: std::collections::BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.len() <= 25, "{}: {crates:?}", crates.len());
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

/// Circles between modules that are still there, by crate. A circle that is gone leaves this list, and no new one comes in.
const KNOWN: &[(&str, &[&str])] = &[
    ("block", &["holders", "knowledge", "queue", "sched"]),
    ("sim", &["device", "profile"]),
    ("learn", &["controller", "experience", "knowledge", "search", "steering"]),
    ("report", &["advice", "paper", "plot", "truth"]),
    ("serve", &["backend", "disk"]),
    ("laboratory", &["comparison", "device_model", "steered", "tenants"]),
    ("laboratory", &["paper", "placement"]),
    ("agent", &["advice", "configuration", "control", "daemon", "learning", "metrics"]),
    ("agent", &["applier", "journal"]),
];

#[test]
fn crates_have_no_circles_between_their_modules() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = String::new();
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for (name, _) in ARROWS {
        for circle in circles::circles(&crates.join(name)) {
            let modules: Vec<&str> = circle.modules.iter().map(String::as_str).collect();
            if !KNOWN.contains(&(*name, &modules)) {
                wrong += &format!("crates/{name}: a circle between {}\n", modules.join(", "));
                for ((from, to), place) in &circle.references {
                    wrong += &format!("    {from} -> {to} at crates{}\n", place.trim_start_matches(&*crates.to_string_lossy()));
                }
            }
            found.push((name.to_string(), circle.modules));
        }
    }
    for (name, modules) in KNOWN {
        let is_there = found.iter().any(|(other, circle)| other == name && circle == modules);
        wrong += &if is_there { String::new() } else { format!("KNOWN: crates/{name} has no circle of {}\n", modules.join(", ")) };
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
