//! Commands in the README have the output that the README shows.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::path::Path;

use crate::commands::{Kind, Shown, root, run};

/// Maximum size of the README, in bytes.
const MAX_BYTES: usize = 8_000;

fn shown() -> Vec<Shown> {
    crate::commands::of("README.md")
}

#[test]
fn every_command_of_the_readme_runs() {
    let scratch = tempfile::tempdir().unwrap();
    let commands = shown();
    assert!(commands.len() >= 4, "the README shows only {} commands", commands.len());
    for Shown { heading, kind, command } in &commands {
        // The command that runs the tests is not run from a test.
        if heading == "Run the tests" {
            assert!(root().join(command).is_file(), "there is no {command}");
            continue;
        }
        if *kind == Kind::Parse {
            let output = crate::commands::program_of(command).map(|_| crate::commands::parse(command, scratch.path()));
            assert!(output.is_none_or(|output| output.status.success()), "{command}: is no command of the program");
            continue;
        }
        let output = run(command, scratch.path());
        assert!(output.status.success(), "{command}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "{command}: says nothing");
    }
}

#[test]
fn the_tests_command_is_the_second_one() {
    let indented = std::fs::read_to_string(root().join("README.md")).unwrap();
    let second = indented.lines().filter(|line| line.starts_with("    ")).nth(1);
    assert_eq!(second, Some("    tests/run"));
}

#[test]
fn the_readme_is_short() {
    let bytes = std::fs::metadata(root().join("README.md")).unwrap().len();
    assert!(bytes <= MAX_BYTES as u64, "README.md has {bytes} bytes, and should have at most {MAX_BYTES}");
}

#[test]
fn the_first_command_gives_advice_with_a_rule_and_writes_the_page() {
    let scratch = tempfile::tempdir().unwrap();
    let first = shown().remove(0).command;
    let output = run(&first, scratch.path());
    let advice = String::from_utf8(output.stdout).unwrap();
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let verdict = advice.lines().next().unwrap();
    assert!(readme.contains(verdict), "the README shows another verdict than {verdict}");
    let rule = advice.lines().last().unwrap();
    assert!(rule.starts_with("ACTION==") && readme.contains(rule), "the README shows another rule than {rule}");
    assert!(page(&first, scratch.path()).contains("<svg"));
}

#[test]
fn the_comparison_prints_the_table_and_writes_the_page() {
    let scratch = tempfile::tempdir().unwrap();
    let compare = shown().into_iter().find(|shown| shown.command.contains("-- compare")).unwrap().command;
    let output = run(&compare, scratch.path());
    let table = String::from_utf8(output.stdout).unwrap();
    for spec in device_model::sched::classic() {
        assert!(table.contains(spec.name), "{} is missing in\n{table}", spec.name);
    }
    assert!(page(&compare, scratch.path()).contains("<svg"));
}

/// The page written by a command.
fn page(command: &str, scratch: &Path) -> String {
    let page = command.split_whitespace().skip_while(|word| *word != "--html").nth(1).expect("the command writes a page");
    std::fs::read_to_string(scratch.join(page)).unwrap()
}
