//! The commands that README.md and the pages in docs/ show, and a way to run them.
//!
//! A command is a line of a fence. `sh` holds commands that work anywhere: they are run. `sh root` holds those that need root, a device,
//! another program or a long time: they are parsed by the program, so that every command and option exists. In README.md a line indented by
//! four spaces is a command as well, because `.ci/run` looks for one.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// How far a command can be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is run as it stands.
    Run,
    /// Only its arguments are checked.
    Parse,
}

/// A command that a page shows.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The title of the section, without `#`.
    pub heading: String,
    /// How far it can be tried.
    pub kind: Kind,
    /// The line, joined with those that follow a backslash.
    pub command: String,
}

/// The root of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands of a page, in their order. `page` is relative to the root of the project.
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

/// What a page shows of the output of a command, in a `text` fence: of the command that the fence begins with behind `$`, else of the last
/// one of the `sh` fence before it. `[…]` stands for parts that are left out.
pub struct Printed {
    /// Those before it in the fence that write a file, which it may read.
    pub prepared_by: Vec<String>,
    /// The command.
    pub command: String,
    /// What the page shows.
    pub text: String,
}

/// What a page shows of the outputs of commands that work anywhere.
pub fn printed_on(page: &str) -> Vec<Printed> {
    let text = std::fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}")).replace("\\\n", " ");
    // Every second part is in a fence.
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

/// The folder of the programs that were built for the tests.
pub fn programs() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

/// The command with the programs by their plain names: `cargo run` would build them again.
fn plain(command: &str) -> String {
    let command = command.strip_prefix("sudo ").unwrap_or(command);
    command.replace("cargo run --release -- ", "seekwise ").replace("target/release/", "")
}

/// The one of our programs that a command calls, if it calls one.
pub fn program_of(command: &str) -> Option<String> {
    let name = plain(command).split(' ').next()?.to_owned();
    name.starts_with("seekwise").then_some(name)
}

/// Runs a command as a newcomer would, from the project's root, but with the programs that were built for the tests, and files that it
/// writes go to `scratch`.
pub fn run(command: &str, scratch: &Path) -> Output {
    let links = "for d in traces disks docs tests workloads examples packaging; do ln -sfn \"$root/$d\" $d; done";
    let script = format!("set -e; root={:?}; {links}; {}", root(), plain(command));
    let path = format!("{}:{}", programs().display(), std::env::var("PATH").unwrap());
    Command::new("bash").arg("-c").arg(script).env("PATH", path).current_dir(scratch).output().unwrap()
}

/// What stands behind the arguments of a command: another one, a file, a comment.
fn without_tail(command: &str) -> &str {
    [" >", " | ", " # ", " &"].iter().filter_map(|tail| command.find(tail)).min().map_or(command, |end| &command[..end])
}

/// Has the program read its arguments and print its help instead of doing anything.
pub fn parse(command: &str, scratch: &Path) -> Output {
    run(&format!("{} --help", without_tail(command)), scratch)
}
