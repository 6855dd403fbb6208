//! Extracts and runs the commands shown in README.md and the pages in docs/.
//!
//! A command is a line of a fence. `sh` holds commands that work anywhere: they are run. `sh root` holds those that need root, a device,
//! another program or a long time: they are parsed by the program, so that every command and option exists. In README.md a line indented by
//! four spaces is a command as well, because `.ci/run` looks for one.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// How a command can be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Run unchanged.
    Run,
    /// Only parse its arguments.
    Parse,
}

/// A command on a page.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The title of the section, without `#`.
    pub heading: String,
    /// How it can be tested.
    pub kind: Kind,
    /// The command line, with continuation lines joined.
    pub command: String,
}

/// Root folder of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files below a folder of the project, relative to its root, sorted. Folders of cargo's output are left out.
pub fn files_below(folder: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("target") {
                    folders.push(path);
                }
            } else if path.is_file() {
                files.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

/// The commands of a page, in order. `page` is relative to the root of the project.
pub fn of(page: &str) -> Vec<Shown> {
    let text = std::fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}")).replace("\\\n", " ");
    let mut heading = String::new();
    let mut fence: Option<String> = None;
    let mut shown = Vec::new();
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language.to_owned()) };
            continue;
        }
        let kind = match fence.as_deref() {
            Some("sh") => Kind::Run,
            Some("sh root") => Kind::Parse,
            None if page == "README.md" && line.starts_with("    ") => Kind::Run,
            None => {
                if line.starts_with('#') {
                    line.trim_start_matches('#').trim().clone_into(&mut heading);
                }
                continue;
            }
            Some(_) => continue,
        };
        let command = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if !command.is_empty() && !command.starts_with('#') {
            shown.push(Shown { heading: heading.clone(), kind, command });
        }
    }
    shown
}

/// Output of a command shown in a `text` fence. The command is the one after `$` at the start of the fence, else the last one of the
/// preceding `sh` fence. `[…]` stands for omitted parts.
pub struct Printed {
    /// Earlier commands of the fence that write files, which it may read.
    pub prepared_by: Vec<String>,
    /// The command.
    pub command: String,
    /// The output on the page.
    pub text: String,
}

/// Outputs on a page of commands without special requirements.
pub fn printed_on(page: &str) -> Vec<Printed> {
    let text = std::fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}")).replace("\\\n", " ");
    // Every second part is inside of a fence.
    let fences: Vec<(&str, &str)> = text.split("\n```").skip(1).step_by(2).filter_map(|fence| fence.split_once('\n')).collect();
    let mut printed = Vec::new();
    for (number, (_, text)) in fences.iter().enumerate().filter(|(_, (language, _))| *language == "text") {
        let before = number.checked_sub(1).map(|before| fences[before]).filter(|(language, _)| *language == "sh");
        let (commands, text) = match (text.strip_prefix("$ ").and_then(|text| text.split_once('\n')), before) {
            (Some(shown), _) => shown,
            (None, Some((_, commands))) => (commands, *text),
            (None, None) => continue,
        };
        let mut commands: Vec<String> = commands.lines().map(str::to_owned).collect();
        let command = commands.pop().unwrap_or_default();
        commands.retain(|command| command.contains(" > "));
        printed.push(Printed { prepared_by: commands, command, text: text.to_owned() });
    }
    printed
}

/// Folder of the programs built for the tests.
pub fn programs() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

/// Replaces `cargo run` by plain program names, to avoid a rebuild.
fn plain(command: &str) -> String {
    let command = command.strip_prefix("sudo ").unwrap_or(command);
    command.replace("cargo run --release -- ", "seekwise ").replace("target/release/", "")
}

/// The program of this project that a command calls; `None` if it calls another one.
pub fn program_of(command: &str) -> Option<String> {
    let name = plain(command).split(' ').next()?.to_owned();
    name.starts_with("seekwise").then_some(name)
}

/// Runs a command from the project's root, with the programs built for the tests; its output files are redirected to `scratch`.
pub fn run(command: &str, scratch: &Path) -> Output {
    let links = "for d in traces disks docs tests workloads examples packaging; do ln -sfn \"$root/$d\" $d; done";
    let script = format!("set -e; root={:?}; {links}; {}", root(), plain(command));
    let path = format!("{}:{}", programs().display(), std::env::var("PATH").unwrap());
    Command::new("bash").arg("-c").arg(script).env("PATH", path).current_dir(scratch).output().unwrap()
}

/// Shell syntax that ends the arguments of a command: operators, redirections, comments.
fn without_tail(command: &str) -> &str {
    [" >", " | ", " # ", " &"].iter().filter_map(|tail| command.find(tail)).min().map_or(command, |end| &command[..end])
}

/// Lets the program parse its arguments and print its help instead of running.
pub fn parse(command: &str, scratch: &Path) -> Output {
    run(&format!("{} --help", without_tail(command)), scratch)
}

/// Runs the commands of a page in sequence, in one folder.
pub fn try_page(page: &str) {
    let scratch = tempfile::tempdir().unwrap();
    for Shown { kind, command, .. } in of(page) {
        let Some(program) = program_of(&command) else {
            let file = command.split(' ').next().unwrap();
            let is_ours = file.contains('/') && !file.starts_with('/');
            assert!(!is_ours || root().join(file).is_file(), "{page}: there is no {file}");
            assert!(kind == Kind::Parse || is_ours || file == "cargo", "{page}: {command}: mark the fence `sh root`");
            continue;
        };
        if !programs().join(&program).is_file() {
            eprintln!("skipped: {command}: needs the program {program} as of today (cargo build --workspace)");
            continue;
        }
        let output = if kind == Kind::Run { run(&command, scratch.path()) } else { parse(&command, scratch.path()) };
        assert!(output.status.success(), "{page}: {command}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Texts in code style outside of fences, in order.
pub fn code_spans(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    let mut spans = Vec::new();
    // Every second part is inside of a fence. A span ends in its paragraph.
    for paragraph in text.split("```").step_by(2).flat_map(|outside| outside.split("\n\n")) {
        let parts: Vec<&str> = paragraph.split('`').collect();
        let spans_here = parts.iter().enumerate().filter(|(index, _)| index % 2 == 1 && index + 1 < parts.len());
        spans.extend(spans_here.map(|(_, span)| span.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    spans
}
