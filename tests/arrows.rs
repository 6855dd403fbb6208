//! Allowed dependencies between crates: the arrows of ARCHITECTURE.md.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::commands::{files_below, root};

/// The language of the project's claims, which every crate may use.
const FOR_ALL: &str = "statistics";

/// Allowed dependencies of each crate, next to [`FOR_ALL`]. A new crate needs a line here and in ARCHITECTURE.md.
const ARROWS: &[(&str, &[&str])] = &[
    ("statistics", &[]),
    ("block", &[]),
    ("endpoint", &[]),
    ("progress", &[]),
    ("trace", &["block"]),
    ("sim", &["block", "trace"]),
    ("observe", &["block"]),
    ("device-model", &["block"]),
    ("report", &["block"]),
    ("applier", &["block", "endpoint"]),
    ("uring", &[]),
    ("foreign", &["block", "sim"]),
    ("backing", &[]),
    ("emulate", &["seekwise", "terminal", "backing", "testbed", "block", "sim"]),
    ("terminal", &["progress", "report"]),
    ("control", &["block", "observe", "device-model"]),
    ("knowledge", &["block", "observe", "control"]),
    ("twin", &["block", "sim", "observe", "control", "device-model"]),
    ("testbed", &["progress", "report", "block", "sim", "control", "device-model"]),
    ("guarantee", &["testbed", "progress", "report", "block", "sim", "control", "device-model"]),
    (
        "experiment",
        &["guarantee", "testbed", "progress", "report", "knowledge", "twin", "block", "sim", "observe", "control", "device-model"],
    ),
    (
        "research",
        &[
            "protect",
            "experiment",
            "guarantee",
            "testbed",
            "progress",
            "report",
            "knowledge",
            "twin",
            "block",
            "sim",
            "observe",
            "control",
            "device-model",
        ],
    ),
    ("linux", &["applier", "experiment", "testbed", "progress", "report", "twin", "block", "sim", "observe", "control"]),
    ("protect", &["linux", "applier", "experiment", "progress", "report", "twin", "block", "sim", "observe", "control"]),
    (
        "agent",
        &[
            "protect",
            "linux",
            "applier",
            "endpoint",
            "experiment",
            "guarantee",
            "testbed",
            "terminal",
            "progress",
            "report",
            "knowledge",
            "twin",
            "block",
            "sim",
            "observe",
            "control",
        ],
    ),
    ("fleet", &["seekwise", "terminal", "report", "knowledge", "control"]),
    (
        "blockserver",
        &[
            "endpoint",
            "backing",
            "uring",
            "guarantee",
            "testbed",
            "terminal",
            "progress",
            "report",
            "twin",
            "block",
            "sim",
            "observe",
            "control",
        ],
    ),
    ("seekwise", PROGRAM),
    ("lab", RESEARCH_PROGRAM),
];

/// The Python package in `python/` may use `experiment` and the crates below it.
const PACKAGE: &[&str] = &[
    "experiment",
    "testbed",
    "progress",
    "report",
    "knowledge",
    "twin",
    "trace",
    "block",
    "sim",
    "observe",
    "control",
    "device-model",
];

/// The program `seekwise` may use everything except research crates; it uses the client of the applier.
const PROGRAM: &[&str] = &[
    "foreign",
    "protect",
    "linux",
    "applier",
    "endpoint",
    "experiment",
    "guarantee",
    "testbed",
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
    "protect",
    "linux",
    "applier",
    "emulate",
    "experiment",
    "guarantee",
    "testbed",
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

/// The folder of each crate, of the product and of research.
fn folders() -> Vec<PathBuf> {
    let inside = |folder: &str| std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    inside("crates").chain(inside("research")).filter(|folder| folder.join("Cargo.toml").is_file()).collect()
}

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
    let allowed: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    let mut found = Vec::new();
    for folder in folders() {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let may_know = allowed.get(name.as_str()).unwrap_or_else(|| panic!("{name} has no arrows"));
        // Tests enable features of their own crate by a dependency on it.
        for dependency in dependencies(&folder.join("Cargo.toml")).into_iter().filter(|dependency| *dependency != name) {
            let ours = allowed.contains_key(dependency.as_str());
            assert!(
                !ours || dependency == FOR_ALL || may_know.contains(&dependency.as_str()),
                "{name} must not depend on {dependency}"
            );
        }
        found.push(name);
    }
    for dependency in dependencies(&root().join("python/Cargo.toml")) {
        let ours = allowed.contains_key(dependency.as_str());
        assert!(!ours || dependency == FOR_ALL || PACKAGE.contains(&dependency.as_str()), "python must not depend on {dependency}");
    }
    found.sort();
    assert_eq!(found, allowed.keys().copied().collect::<Vec<_>>());
}

/// The crates that a program links.
fn linked(package: &str) -> BTreeSet<String> {
    graph(Some(package), "normal")
}

/// The crates of the graph of a package, or of the default members together, with these kinds of edges, each name once.
fn graph(package: Option<&str>, edges: &str) -> BTreeSet<String> {
    let tree = ["tree", "--offline", "--locked", "-e", edges, "--prefix", "none", "--no-dedupe"];
    let mut command = std::process::Command::new(env!("CARGO"));
    command.args(tree).current_dir(root());
    if let Some(package) = package {
        command.args(["-p", package]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// The applier runs as root, so it must be small enough to be reviewed.
#[test]
fn the_applier_is_made_of_few_crates() {
    let crates = linked("seekwise-applier");
    assert!(crates.len() <= 25, "{}: {crates:?}", crates.len());
}

#[test]
fn the_daemon_and_the_program_link_no_learner_and_no_paper() {
    for program in ["seekwise-agent", "seekwise"] {
        let crates = linked(program);
        assert!(crates.contains("seekwise-control"), "{crates:?}");
        for research in ["seekwise-research", "libsvm-rs"] {
            assert!(!crates.contains(research), "{program} links {research}");
        }
    }
    assert!(!linked("seekwise-agent").contains("askama"), "the daemon links page templates");
}

#[test]
fn the_block_server_links_no_comparison_and_no_knowledge_base() {
    let crates = linked("seekwise-serve");
    assert!(crates.contains("seekwise-guarantee"), "{crates:?}");
    for unneeded in ["seekwise-experiment", "seekwise-knowledge", "seekwise-research"] {
        assert!(!crates.contains(unneeded), "seekwise-serve links {unneeded}");
    }
}

/// `tests/bars/house` counts them.
#[test]
fn the_first_command_compiles_no_server_and_no_database() {
    // Without `-p`: the packages that `cargo run` builds, with the features that any of them wants.
    let crates = graph(None, "normal,build");
    assert!(crates.contains("seekwise-experiment"), "{crates:?}");
    for unneeded in
        ["seekwise-serve", "seekwise-fleet", "seekwise-emulate", "fuser", "libsqlite3-sys", "postgres", "rustls", "tokio"]
    {
        assert!(!crates.contains(unneeded), "the first command compiles {unneeded}");
    }
}

#[test]
fn every_dependency_has_its_reason_in_the_architecture() {
    let root = root();
    let workspace: toml::Table = std::fs::read_to_string(root.join("Cargo.toml")).unwrap().parse().unwrap();
    let architecture = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let listed = workspace["workspace"]["dependencies"].as_table().unwrap();
    for (name, dependency) in listed {
        let ours = dependency.get("path").is_some();
        assert!(ours || architecture.contains(&format!("| `{name}` |")), "ARCHITECTURE.md: no line for {name}");
        let mut manifests = folders().into_iter().chain([root.join("python")]);
        let used = manifests.any(|folder| dependencies(&folder.join("Cargo.toml")).contains(name));
        assert!(used, "Cargo.toml lists {name}, which no crate uses");
    }
}

/// Marks of second versions of `statistics`: entries of its tables, and names of its functions.
const SECOND_VERSIONS: &[&str] = &[
    "12.706",
    "12.71,",
    "4.303",
    "2.776",
    "2.262",
    "1.645",
    "0.231_641_9",
    "fn student",
    "fn t_quantile",
    "fn normal_quantile",
    "fn normal_tail",
    "fn normal_cumulative",
    "fn normal_cdf",
    "fn erf",
    "fn median(",
    "fn variance(",
];

/// Files with functions of these names that are something else: the median of a histogram; the middle, least and largest of some runs.
const OTHER_SUBJECTS: &[&str] = &["crates/trace/src/lint.rs", "crates/seekwise/benches/ratios.rs"];

#[test]
fn tables_and_formulas_of_statistics_stand_in_its_crate_only() {
    let is_checked = |file: &String| {
        file.ends_with(".rs") && !file.starts_with("crates/statistics/") && !OTHER_SUBJECTS.contains(&file.as_str())
    };
    let mut found = Vec::new();
    for file in ["crates", "research", "python", "examples"].into_iter().flat_map(files_below).filter(is_checked) {
        let text = std::fs::read_to_string(root().join(&file)).unwrap();
        let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        let is_percent = |line: &str| line.contains("100.0") && line.contains(".exp_m1()");
        let is_second = |line: &str| is_percent(line) || SECOND_VERSIONS.iter().any(|version| line.contains(version));
        let second = code.filter(|(_, line)| is_second(line));
        found.extend(second.map(|(number, line)| format!("{file}:{}: {}", number + 1, line.trim())));
    }
    assert!(found.is_empty(), "use the crate `statistics`:\n{}", found.join("\n"));
}

#[test]
fn crates_have_no_circles_between_their_modules() {
    let root = root();
    let mut found = String::new();
    for folder in folders() {
        let name = folder.strip_prefix(&root).unwrap().display().to_string();
        for circle in crate::circles::circles(&folder) {
            found += &format!("{name}: a circle between {}\n", circle.modules.join(", "));
            for ((from, to), place) in &circle.references {
                found += &format!("    {from} -> {to} at {}\n", place.trim_start_matches(&*root.to_string_lossy()));
            }
        }
    }
    assert!(found.is_empty(), "\n{found}");
}
