//! `--kb`: observations of controllers are stored, are used by later runs, and never make a run fail.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::fs;
use std::path::Path;

use knowledge::Knowledge;
use serde_json::Value;

use crate::knowledge_base::*;

#[test]
fn the_gene_pool_of_a_load_is_kept_and_the_next_search_for_it_begins_with_that() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, kb) = (trace(folder.path()), folder.path().join("a.kb"));
    let (trace, kb) = (trace.to_str().unwrap(), kb.to_str().unwrap());
    let search = || succeeds(&compare(trace, kb, &["genetic:children=4,child_ms=500,trials=8"], &[]));
    search();
    let models = info(kb)["models"].clone();
    let is_pool = |model: &Value| model["name"].as_str().unwrap().starts_with("gene pool on sata7200: ");
    assert!(models.as_array().unwrap().iter().any(is_pool), "{models}");
    assert!(!export(kb, "decisions").contains("re-introduced"));
    search();
    assert!(export(kb, "decisions").contains("of its gene pool are re-introduced"));
}

#[test]
fn what_is_clearly_no_knowledge_base_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, path) = (trace(folder.path()), |name: &str| folder.path().join(name).to_str().unwrap().to_owned());
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("text"), "not a database\n".repeat(100)).unwrap();
    drop(Knowledge::open(Path::new(&path("later"))).unwrap());
    let mut later = fs::read(path("later")).unwrap();
    // The header's user_version.
    later[60..64].copy_from_slice(&7_u32.to_be_bytes());
    fs::write(path("later"), later).unwrap();
    let cases = [
        ("folder", "is a folder; a knowledge base is a file"),
        ("text", "is no database"),
        ("later", "has schema version 7, this seekwise knows those up to 3"),
        ("missing/a.kb", "there is no folder"),
    ];
    for (name, words) in cases {
        let before = fs::read(path(name)).ok();
        for command in ["compare", "simulate"] {
            let message = refused(&[command, trace.to_str().unwrap(), "--controller", "fixed", "--kb", &path(name)]);
            assert!(message.contains("--kb") && message.contains(name) && message.contains(words), "{name}: {message}");
        }
        assert_eq!(fs::read(path(name)).ok(), before, "{name} was changed");
    }
    let alone = refused(&["compare", trace.to_str().unwrap(), "--kb", &path("new")]);
    assert!(alone.contains("--kb: is for controllers, and no --controller is given"), "{alone}");
    refused(&["compare", &path("no trace"), "--kb", &path("new"), "--controller", "fixed"]);
    assert!(!Path::new(&path("new")).exists(), "it was created though nothing was run");
}

#[test]
fn what_stands_in_the_way_is_a_warning_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, kb) = (trace(folder.path()), folder.path().join("a.kb"));
    let (trace, name) = (trace.to_str().unwrap(), kb.to_str().unwrap());
    let controllers = ["rotate", "fixed"];
    let expected = succeeds(&compare(trace, name, &controllers, &[]));
    let warns = |words: &str| {
        let output = run(&compare(trace, name, &controllers, &[]));
        let warning = text(&output.stderr);
        assert!(output.status.success() && text(&output.stdout) == expected, "{warning}");
        assert!(warning.starts_with("seekwise: warning: --kb ") && warning.contains(name), "{warning}");
        assert!(warning.contains(words) && warning.lines().count() == 1, "{warning}");
    };
    let mut locked = Knowledge::open(&kb).unwrap();
    let batch = locked.batch().unwrap();
    warns("another program keeps it locked; try again when that is done; not all that was lived through is kept");
    drop(batch);
    drop(locked);
    let mut bytes = fs::read(&kb).unwrap();
    bytes[8192..].fill(0x5a);
    fs::write(&kb, &bytes).unwrap();
    warns("the runs go on without it");
    assert_eq!(fs::read(&kb).unwrap(), bytes, "a damaged file is left as it is");
}
