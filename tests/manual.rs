//! Shell completions and manual pages.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{PROGRAM, refused, run, sibling, succeeds, text};

#[test]
fn completions_are_printed_for_every_shell_and_bash_takes_them() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = succeeds(&["completions", shell]);
        assert!(script.contains("validate") && script.contains("queue-depth"), "{shell}: {script}");
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("seekwise.bash");
    std::fs::write(&script, succeeds(&["completions", "bash"])).unwrap();
    let check =
        "source \"$0\"; COMP_WORDS=(seekwise trace con); COMP_CWORD=2; _seekwise seekwise con trace; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", check]).arg(&script).stdin(Stdio::null()).output().unwrap();
    assert_eq!(text(&output.stdout), "convert\n", "{}", text(&output.stderr));
    assert!(refused(&["completions", "cmd"]).contains("bash"));
}

/// Completions that bash offers for the last word.
fn offered(script: &Path, words: &[&str]) -> Vec<String> {
    let check = "source \"$0\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); cur=${COMP_WORDS[COMP_CWORD]}; \
                 _seekwise seekwise \"$cur\" \"${COMP_WORDS[COMP_CWORD - 1]}\"; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", check]).arg(script).args(words).stdin(Stdio::null()).output().unwrap();
    text(&output.stdout).split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_shell_offers_the_names_that_the_program_knows_and_paths_are_taken_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("seekwise.bash");
    std::fs::write(&script, succeeds(&["completions", "bash"])).unwrap();
    let offered = |words: &[&str]| offered(&script, words);
    assert_eq!(offered(&["seekwise", "compare", "a.csv", "--disk", "sata"]), ["sata7200"]);
    assert_eq!(offered(&["seekwise", "simulate", "a.csv", "--scheduler", "mq"]), ["mq-deadline"]);
    assert_eq!(offered(&["seekwise", "compare", "--controller", "ge"]), ["genetic"]);
    assert_eq!(offered(&["seekwise", "compare", "--controller", "per"]), [""; 0], "a controller of the other program");
    assert_eq!(offered(&["seekwise", "advise", "--candidates", "kernel-"]), ["kernel-tuned"]);
    assert_eq!(offered(&["seekwise", "simulate", "--format", "parq"]), ["parquet"]);
    assert_eq!(offered(&["seekwise", "compare", "genetic/random"]), ["genetic/random-read"]);
    assert_eq!(offered(&["seekwise", "scheduler", "show", "fair"]), ["fairio"]);
    let zsh = succeeds(&["completions", "zsh"]);
    assert!(zsh.contains(":{_alternative \"names\\:name\\:(atlas10k barracuda "), "names of disks, and files");
    assert!(zsh.contains(":{_alternative \"names\\:name\\:(fairio/btio "), "names of workloads, and files");
    assert!(zsh.contains("]:NAME[\\:KEY=VALUE,...]:(noop ") && !zsh.contains("]:NAME[:"), "a colon would end the name");
    assert!(zsh.contains("\n'*:load -- ") && !zsh.contains("'*::load -- "), "options follow the load");
    assert!(zsh.contains(":(noop sstf clook ") && zsh.contains(":(fixed rotate "), "names of schedulers and controllers alone");
    let fish = succeeds(&["completions", "fish"]);
    let line = |begins: &str| fish.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("{begins}"));
    let using = "complete -c seekwise -n \"__fish_seekwise_using_subcommand";
    assert!(line(&format!("{using} compare\" -a")).contains(" genetic/random-read "));
    assert!(line(&format!("{using} scheduler; and __fish_seen_subcommand_from show\" -f -a")).contains(" bfq "));
    assert!(line(&format!("{using} disk; and __fish_seen_subcommand_from show\" -a")).contains(" barracuda "));
    assert!(line(&format!("{using} compare\" -l disk ")).ends_with(" -r -F -a \"atlas10k\\t''"));
    assert!(line(&format!("{using} compare\" -l controller ")).ends_with(" -r -f -a \"fixed\\t''"));
    let profile = folder.path().join("mine.toml");
    std::fs::write(&profile, succeeds(&["disk", "show", "sata7200"])).unwrap();
    succeeds(&["simulate", "genetic/random-read", "--disk", profile.to_str().unwrap(), "--scheduler", "mq-deadline:fifo_batch=4"]);
}

#[test]
fn every_command_has_a_manual_page_that_names_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    succeeds(&["man", "--output", path]);
    let page = std::fs::read_to_string(folder.path().join("seekwise-compare.1")).unwrap();
    assert!(page.contains(".TH SEEKWISE-COMPARE 1") && page.contains("\\-\\-queue\\-depth"), "{page}");
    assert_eq!(succeeds(&["man", "compare"]), page);
    assert_eq!(succeeds(&["man"]), std::fs::read_to_string(folder.path().join("seekwise.1")).unwrap());
    let convert = succeeds(&["man", "trace", "convert"]);
    assert_eq!(convert, std::fs::read_to_string(folder.path().join("seekwise-trace-convert.1")).unwrap());
    assert!(convert.contains("seekwise trace convert"), "{convert}");
}

#[test]
fn what_has_no_page_and_no_folder_is_said() {
    assert!(refused(&["man", "trace", "nothing"]).contains("trace nothing: there is no such command"));
    assert!(refused(&["man", "--output", "/no/such/folder"]).contains("/no/such/folder: there is no such folder"));
}

/// `seekwise serve` and `seekwise fleet` start programs of their own: same output, errors and exit code.
#[test]
fn commands_of_other_programs_are_those_programs() {
    for (command, name, arguments) in [
        ("serve", "seekwise-serve", &["volume", "status", "--control", "/nowhere/control"][..]),
        ("serve", "seekwise-serve", &["volume", "create", "--help"]),
        ("fleet", "seekwise-fleet", &["init", "a.kb"]),
        ("fleet", "seekwise-fleet", &["report", "--help"]),
    ] {
        let started = run(&[&[command], arguments].concat());
        let itself = Command::new(sibling(name)).args(arguments).output().unwrap();
        assert_eq!(started.status.code(), itself.status.code(), "{command} {arguments:?}");
        assert!(started.stdout == itself.stdout && started.stderr == itself.stderr, "{}", text(&started.stderr));
    }
}

#[test]
fn a_program_that_is_not_installed_is_named_with_the_command_that_builds_it() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("seekwise");
    std::fs::copy(PROGRAM, &alone).unwrap();
    let output = Command::new(&alone).args(["serve", "volume", "status"]).env("PATH", folder.path()).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("seekwise-serve is not installed"), "{said}");
    assert!(said.contains("cargo build --release -p seekwise-serve"), "{said}");
}
