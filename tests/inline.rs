//! Names in the running text of pages: commands, options, files, services, keys and crates exist.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::commands::{code_spans, files_below, programs, root};

/// The programs of this project.
fn program_names() -> impl Iterator<Item = &'static str> {
    include_str!("../packaging/programs").lines()
}

/// Folders whose files are named by their path from the root.
const FOLDERS: &[&str] =
    &["crates", "disks", "docs", "examples", "packaging", "python", "research", "tests", "traces", "workloads", ".ci"];

/// Options of other programs, of scripts, and of earlier versions where a page says so.
const FOREIGN: &[&str] = &[
    "--compat",
    "--full",
    "--product",
    "--locked",
    "--release",
    "--profile",
    "--workspace",
    "--write_iolog",
    "--features",
    "--no-run",
    "--wal-dir",
];

/// Names with underscores that belong to other programs.
const FOREIGN_NAMES: &[&str] = &["io_method", "submit_bio_noacct", "genetic_algorithm", "raw_send_socket"];

/// Pages that name files, options and keys as they were.
const HISTORY: &[&str] = &["CHANGELOG.md", "docs/papers.md"];

/// Helps of the programs, each asked for once.
#[derive(Default)]
struct Helps(RefCell<BTreeMap<String, Option<String>>>);

impl Helps {
    /// The help of a command such as `seekwise disk show`; `None` if the program, or one that it starts, is not built.
    fn of(&self, command: &str) -> Option<String> {
        if let Some(known) = self.0.borrow().get(command) {
            return known.clone();
        }
        let mut words = command.split(' ');
        let program = programs().join(words.next()?);
        let output = program.is_file().then(|| Command::new(program).args(words).arg("--help").output().unwrap());
        let help =
            output.filter(|output| output.status.success()).map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        self.0.borrow_mut().insert(command.to_owned(), help.clone());
        help
    }

    /// All options of a program and its commands.
    fn options(&self, command: &str, into: &mut BTreeSet<String>) {
        let Some(help) = self.of(command) else { return };
        into.extend(options(&help));
        commands(&help).iter().filter(|name| *name != "help").for_each(|name| self.options(&format!("{command} {name}"), into));
    }
}

/// The subcommands that a help lists.
fn commands(help: &str) -> Vec<String> {
    let Some((_, rest)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let section = rest.split("\n\n").next().unwrap_or_default();
    // Descriptions are on the same line or indented further.
    let names = section.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The long options that a help names.
fn options(help: &str) -> BTreeSet<String> {
    let words = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|word| word.starts_with("--") && word.len() > 2).map(|word| word.trim_end_matches('-').to_owned()).collect()
}

/// The option that a word begins with, without its value; `None` for other words.
fn option(word: &str) -> Option<String> {
    let name: String = word.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
    (name.starts_with("--") && name.len() > 2 && !name.contains("---")).then_some(name)
}

/// The fault of a command in running text; `None` if all of it exists, or its program is not built.
fn fault_of_command(helps: &Helps, span: &str) -> Option<String> {
    let span = span.strip_prefix("sudo ").unwrap_or(span);
    let end = [" >", " | ", " && ", " < ", " || "].iter().filter_map(|tail| span.find(tail)).min().unwrap_or(span.len());
    let mut command = span.split(' ').next()?.to_owned();
    let mut help = helps.of(&command)?;
    let mut is_command = true;
    for word in span[..end].split(' ').skip(1) {
        if let Some(option) = option(word) {
            is_command = false;
            if !options(&help).contains(&option) && !["--help", "--version"].contains(&option.as_str()) {
                return Some(format!("{command} has no option {option}"));
            }
            continue;
        }
        let known = commands(&help);
        if !is_command || known.is_empty() || !word.starts_with(|first: char| first.is_ascii_lowercase()) {
            is_command = false;
            continue;
        }
        // `a|b` stands for either.
        let name = word.split('|').next().unwrap_or(word);
        if !known.iter().any(|one| one == name) {
            return Some(format!("{command} has no command {name}"));
        }
        command = format!("{command} {name}");
        help = helps.of(&command)?;
    }
    None
}

/// Whether a span has a placeholder, which stands for any name.
fn is_pattern(span: &str) -> bool {
    let is_upper = |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase());
    span.contains(['*', '…', '{', '<', '$'])
        || span.split(|c: char| !c.is_ascii_alphanumeric()).any(is_upper)
        || span.contains("raidN")
}

/// The path at the beginning of a span, if it is one of this project.
fn path(span: &str) -> Option<&str> {
    let path = span.split([' ', '#', ':']).next()?;
    let (folder, rest) = path.split_once('/')?;
    (FOLDERS.contains(&folder) && !rest.contains("//") && !is_pattern(path)).then_some(path)
}

/// All words of code and configurations: letters, digits and underscores.
fn words_of_code() -> BTreeSet<String> {
    let folders = FOLDERS.iter().filter(|folder| root().join(folder).is_dir());
    let is_code = |file: &String| {
        let ending = Path::new(file).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        !["md", "parquet", "zst", "gz", "png", "tsv"].contains(&ending)
    };
    let mut words = BTreeSet::new();
    for file in folders.flat_map(|folder| files_below(folder)).filter(is_code) {
        // Binary files have no names.
        let Ok(text) = std::fs::read_to_string(root().join(file)) else { continue };
        words.extend(
            text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).map(str::to_owned),
        );
    }
    words
}

/// Whether a span is a key or another name with an underscore, such as `read_p99_ms` or `floor_mb_s = 2`.
fn key(span: &str) -> Option<&str> {
    let name = span.split(['=', ' ', ':', '(']).next()?;
    let is_name = name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    (is_name && name.starts_with(|first: char| first.is_ascii_lowercase()) && !name.ends_with('_')).then_some(name)
}

/// The faults of a page.
fn faults(page: &str, helps: &Helps, all_options: &BTreeSet<String>, words: &BTreeSet<String>, spans: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    for span in spans {
        let program = span.strip_prefix("sudo ").unwrap_or(span).split(' ').next().unwrap_or_default();
        let fault = if program_names().any(|name| name == program) {
            fault_of_command(helps, span)
        } else if let Some(option) = option(span) {
            let is_known = all_options.is_empty() || all_options.contains(&option) || FOREIGN.contains(&option.as_str());
            (!is_known).then(|| format!("no program has the option {option}"))
        } else if let Some(path) = path(span) {
            (!root().join(path).exists()).then(|| format!("there is no {path}"))
        } else if span.starts_with("seekwise") && (span.ends_with(".service") || span.ends_with(".socket")) {
            let unit = Path::new("packaging/systemd").join(span);
            (!root().join(unit).is_file()).then(|| format!("there is no unit {span}"))
        } else if let Some(key) = key(span) {
            // The registry of metrics adds the prefix, and the unit or `_total`.
            let bare = key.strip_prefix("seekwise_serve_").or_else(|| key.strip_prefix("seekwise_")).unwrap_or(key);
            let bare = if bare == key {
                bare
            } else {
                ["_bytes", "_seconds", "_total"].iter().find_map(|unit| bare.strip_suffix(unit)).unwrap_or(bare)
            };
            let is_known = [key, bare].iter().any(|name| words.contains(*name) || FOREIGN_NAMES.contains(name));
            (!is_known).then(|| format!("nothing in the code is called {key}"))
        } else {
            None
        };
        faults.extend(fault.map(|fault| format!("{page}: `{span}`: {fault}")));
    }
    faults
}

/// Faults of `crate NAME` and `-p NAME` on a page.
fn crates(page: &str, text: &str) -> Vec<String> {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let after = |mark: &str| -> Vec<String> {
        let names = text
            .split(mark)
            .skip(1)
            .map(|rest| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect());
        names.filter(|name: &String| !name.is_empty()).collect()
    };
    let exists = |name: &String| {
        ["crates", "research"].iter().any(|folder| root().join(folder).join(name).is_dir())
            || lock.contains(&format!("name = \"{name}\""))
    };
    let is_missing =
        |name: &String| !exists(name) && !exists(&format!("seekwise-{name}")) && !FOREIGN_NAMES.contains(&name.as_str());
    let mut missing: Vec<String> = after("crate `").into_iter().filter(is_missing).collect();
    missing.extend(after(" -p ").into_iter().filter(|name| name.starts_with("seekwise") && is_missing(name)));
    missing.into_iter().map(|name| format!("{page}: there is no crate {name}")).collect()
}

#[test]
fn names_in_the_running_text_exist() {
    let (helps, words, mut all_options) = (Helps::default(), words_of_code(), BTreeSet::new());
    program_names().for_each(|program| helps.options(program, &mut all_options));
    if let Some(program) = program_names().find(|program| !programs().join(program).is_file()) {
        eprintln!("skipped: options alone: needs {program} as of today (cargo build --workspace)");
        all_options.clear();
    }
    let mut found = Vec::new();
    for page in crate::docs::pages().iter().filter(|page| !HISTORY.contains(&page.as_str())) {
        found.extend(faults(page, &helps, &all_options, &words, &code_spans(page)));
        found.extend(crates(page, &std::fs::read_to_string(root().join(page)).unwrap()));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn names_that_do_not_exist_are_found() {
    let helps = Helps::default();
    let options: BTreeSet<String> = ["--speed".to_owned()].into();
    let words: BTreeSet<String> = ["read_p99_ms".to_owned()].into();
    let count = |span: &str| faults("page", &helps, &options, &words, &[span.to_owned()]).len();
    for right in [
        "seekwise disk list",
        "seekwise advise /dev/sda --speed 5",
        "sudo seekwise trace capture /dev/sda --for 30",
        "--speed 5",
        "crates/block/src/lib.rs",
        "research/bars/NAME --only x",
        "seekwise-agent.service",
        "read_p99_ms = 20",
        "echo +io > /sys/fs/cgroup/x",
    ] {
        assert_eq!(count(right), 0, "{right}");
    }
    for wrong in [
        "seekwise disks",
        "seekwise disk lst",
        "seekwise advise x --sped 5",
        "--sped",
        "crates/block/src/no.rs",
        "seekwise-gone.service",
        "read_p98_ms",
    ] {
        assert_eq!(count(wrong), 1, "{wrong}");
    }
    assert_eq!(crates("page", "The crate `block`, the crate `blok` and cargo test -p seekwise-blok").len(), 2);
}
