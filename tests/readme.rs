//! Every command in the README does what the README says.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands of the README: its lines indented by four spaces outside fences, with the heading they stand under.
fn commands() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let mut heading = String::new();
    let mut commands = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if fenced {
            continue;
        }
        if let Some(title) = line.strip_prefix("## ") {
            heading = title.to_owned();
        } else if let Some(command) = line.strip_prefix("    ") {
            commands.push((heading.clone(), command.to_owned()));
        }
    }
    commands
}

/// Runs a command as a newcomer would, from the project's root, but writes into a folder of its own and uses the program that was
/// built for the tests: the README's `cargo run --release` would build everything again, and `seekwise` may not be installed.
fn run(command: &str, scratch: &Path) -> std::process::Output {
    let program = env!("CARGO_BIN_EXE_seekwise");
    let command = command.replace("cargo run --release -- ", &format!("{program} "));
    let command = if let Some(rest) = command.strip_prefix("seekwise ") { format!("{program} {rest}") } else { command };
    let script = format!(
        "set -e; cd {:?}; for d in traces disks docs tests workloads; do ln -sfn {:?}/$d $d; done; {command}",
        scratch,
        root()
    );
    Command::new("bash").arg("-c").arg(script).output().unwrap()
}

#[test]
fn every_command_of_the_readme_runs() {
    let scratch = tempfile::tempdir().unwrap();
    let commands = commands();
    assert!(commands.len() >= 8, "the README shows only {} commands", commands.len());
    for (heading, command) in &commands {
        // The tests cannot run themselves.
        if heading == "Run the tests" {
            assert!(root().join(command).is_file(), "there is no {command}");
            continue;
        }
        let output = run(command, scratch.path());
        assert!(output.status.success(), "{command}\n{}", String::from_utf8_lossy(&output.stderr));
        let writes_a_file = ["convert", "import", "--output"].iter().any(|word| command.contains(word));
        assert!(!output.stdout.is_empty() || writes_a_file, "{command}: says nothing");
    }
}

#[test]
fn the_first_command_gives_advice_with_a_rule_and_writes_the_page() {
    let scratch = tempfile::tempdir().unwrap();
    let (_, first) = commands().remove(0);
    let output = run(&first, scratch.path());
    let advice = String::from_utf8(output.stdout).unwrap();
    let shown = std::fs::read_to_string(root().join("README.md")).unwrap();
    let verdict = advice.lines().next().unwrap();
    assert!(shown.contains(verdict), "the README shows another verdict than {verdict}");
    let rule = advice.lines().last().unwrap();
    assert!(rule.starts_with("ACTION==") && shown.contains(rule), "the README shows another rule than {rule}");
    assert!(page(&first, scratch.path()).contains("<svg"));
}

#[test]
fn the_comparison_prints_the_table_and_writes_the_page() {
    let scratch = tempfile::tempdir().unwrap();
    let (_, compare) = commands().into_iter().find(|(_, command)| command.contains("-- compare")).unwrap();
    let output = run(&compare, scratch.path());
    let table = String::from_utf8(output.stdout).unwrap();
    for spec in device_model::sched::classic() {
        assert!(table.contains(spec.name), "{} is missing in\n{table}", spec.name);
    }
    assert!(page(&compare, scratch.path()).contains("<svg"));
}

/// The page that a command has written.
fn page(command: &str, scratch: &Path) -> String {
    let page = command.split_whitespace().skip_while(|word| *word != "--html").nth(1).expect("the command writes a page");
    std::fs::read_to_string(scratch.join(page)).unwrap()
}
