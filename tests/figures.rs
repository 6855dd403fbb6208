//! Figures of the documentation: pages have those of docs/facts.toml and those that the code counts, and none is too old.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use sim::trace;

use crate::commands::{files_below, programs, root};

const FACTS: &str = "docs/facts.toml";
const MARK: &str = "<!-- fact: ";
/// Pages on which each measured figure needs a key.
const MEASURED: &[&str] = &[
    "README.md",
    "SECURITY.md",
    "docs/accuracy.md",
    "docs/benchmark/block-server.md",
    "docs/benchmark/protect.md",
    "docs/evaluation.md",
    "docs/fleet.md",
    "docs/limitations.md",
    "docs/python.md",
    "docs/tenants.md",
];

/// A measured figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fact {
    value: Parts,
    command: String,
    date: toml::value::Datetime,
    commit: String,
    /// Folders of the code that is measured.
    #[serde(default)]
    covers: Vec<String>,
}

/// One text of the page, or several in this order.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Parts {
    One(String),
    Many(Vec<String>),
}

impl Parts {
    fn all(&self) -> &[String] {
        match self {
            Parts::One(part) => std::slice::from_ref(part),
            Parts::Many(parts) => parts,
        }
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The facts; a key that is defined twice is an error of TOML.
fn facts() -> BTreeMap<String, Fact> {
    toml::from_str(&read(FACTS)).unwrap_or_else(|error| panic!("{FACTS}: {error}"))
}

/// Text with single blanks, without typographic differences.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether `text` has `part` as a whole: neither within a longer number nor within a longer word. Returns the place behind it.
fn find(text: &str, part: &str) -> Option<usize> {
    let extends = |own: Option<char>, other: Option<char>| match (own, other) {
        (Some(own), Some(other)) => own.is_alphanumeric() && other.is_alphanumeric(),
        _ => false,
    };
    // A point or comma between digits belongs to the number.
    let continues =
        |before: &str| before.ends_with(['.', ',']) && before[..before.len() - 1].ends_with(|last: char| last.is_ascii_digit());
    text.match_indices(part).find_map(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + part.len()..]);
        let is_cut = extends(before.chars().next_back(), part.chars().next())
            || extends(part.chars().next_back(), after.chars().next())
            || (part.starts_with(|first: char| first.is_ascii_digit()) && continues(before))
            || (part.ends_with(|last: char| last.is_ascii_digit())
                && after.starts_with(['.', ','])
                && after[1..].starts_with(|next: char| next.is_ascii_digit()));
        (!is_cut).then_some(at + part.len())
    })
}

/// A comment that names keys.
struct Use {
    keys: Vec<String>,
    /// The row, list item or paragraph before the comment, back to the comment before it.
    text: String,
}

/// The comments of a page. A paragraph ends at an empty line; a list item and, if the comment is within it, a table row are of their own.
fn uses(page: &str) -> Vec<Use> {
    let mut found = Vec::new();
    let mut block = String::new();
    for line in page.lines() {
        let is_item = line.trim_start().starts_with("- ") || line.trim_start().starts_with("* ");
        if line.trim().is_empty() || is_item {
            block.clear();
        }
        let mut rest = line;
        while let Some((before, after)) = rest.split_once(MARK) {
            let (keys, behind) = after.split_once("-->").expect("a comment ends on its line");
            // A comment in a row is about that row only.
            let own = if line.starts_with('|') { before.to_owned() } else { format!("{block} {before}") };
            let keys = keys.split(',').map(|key| key.trim().to_owned()).collect();
            found.push(Use { keys, text: plain(&own) });
            block.clear();
            rest = behind;
        }
        block += " ";
        block += rest;
    }
    found
}

/// Faults of a page's comments.
fn faults(page: &str, text: &str, facts: &BTreeMap<String, Fact>, used: &mut BTreeSet<String>) -> Vec<String> {
    let mut faults = Vec::new();
    for Use { keys, text } in uses(text) {
        for key in keys {
            let Some(fact) = facts.get(&key) else {
                faults.push(format!("{page}: {FACTS} has no key {key}"));
                continue;
            };
            let mut rest = text.as_str();
            for part in fact.value.all() {
                match find(rest, &plain(part)) {
                    Some(end) => rest = &rest[end..],
                    None => faults.push(format!("{page}: {key} is {part:?} in {FACTS}; the page says: {text}")),
                }
            }
            used.insert(key);
        }
    }
    faults
}

#[test]
fn pages_have_the_figures_of_the_facts_file() {
    let (facts, mut used, mut wrong) = (facts(), BTreeSet::new(), Vec::new());
    for page in crate::docs::pages() {
        wrong.extend(faults(&page, &read(&page), &facts, &mut used));
    }
    wrong.extend(facts.keys().filter(|key| !used.contains(*key)).map(|key| format!("{FACTS}: no page uses {key}")));
    for (key, fact) in &facts {
        let is_whole = !fact.command.is_empty() && fact.date.date.is_some() && fact.commit.len() >= 7;
        if !is_whole {
            wrong.push(format!("{FACTS}: {key} needs a command, a date and a commit"));
        }
        let missing = fact.covers.iter().filter(|folder| !root().join(folder).is_dir());
        wrong.extend(missing.map(|folder| format!("{FACTS}: {key} covers {folder}, which does not exist")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_unknown_or_cut_figure_is_found() {
    let facts: BTreeMap<String, Fact> = toml::from_str(
        "[gain]\nvalue = \"5%\"\ncommand = \"x\"\ndate = 2026-01-02\ncommit = \"1234567\"\n\
         [row]\nvalue = [\"1 | 2\", \"3 | 4\"]\ncommand = \"x\"\ndate = 2026-01-02\ncommit = \"1234567\"\n",
    )
    .unwrap();
    let count = |text: &str| faults("page", text, &facts, &mut BTreeSet::new()).len();
    for right in
        ["It gains\n5%. <!-- fact: gain -->", "| a | 1 | 2 |\n| b | 3 | 4 |\n<!-- fact: row -->", "| 5% <!-- fact: gain --> |"]
    {
        assert_eq!(count(right), 0, "{right}");
    }
    for wrong in [
        "6% <!-- fact: gain -->",
        "15% <!-- fact: gain -->",
        "1.5% <!-- fact: gain -->",
        "5%\n\nand 6% <!-- fact: gain -->",
        "- 5%\n- 6% <!-- fact: gain -->",
        "| 5% |\n| 6% <!-- fact: gain --> |",
        "5% <!-- fact: loss -->",
        "| b | 3 | 4 |\n| a | 1 | 2 |\n<!-- fact: row -->",
    ] {
        assert_eq!(count(wrong), 1, "{wrong}");
    }
}

/// A release in CHANGELOG.md.
struct Release {
    version: String,
    date: String,
    /// Folders that it changed; `None`: all.
    changed: Option<Vec<String>>,
}

/// The releases, latest first. Unreleased changes are none.
fn releases(changelog: &str) -> Vec<Release> {
    let sections = changelog.split("\n## [").skip(1).filter_map(|section| {
        let (heading, text) = section.split_once('\n')?;
        let (version, date) = heading.split_once("] - ")?;
        let code = text.split_once("<!-- code: ").and_then(|(_, rest)| rest.split_once("-->"));
        let changed = code.map(|(code, _)| code.split(',').map(|folder| folder.trim().to_owned()).collect());
        Some(Release { version: version.to_owned(), date: date.trim().to_owned(), changed })
    });
    sections.collect()
}

/// The release that makes a figure too old: the latest that changed the measured code, if the figure is older than the release before that.
fn outdated(fact: &Fact, releases: &[Release]) -> Option<String> {
    let is_changed = |release: &Release| {
        let touches = |folders: &Vec<String>| fact.covers.iter().any(|folder| folders.contains(folder));
        !fact.covers.is_empty() && release.changed.as_ref().is_none_or(touches)
    };
    let latest = releases.iter().position(is_changed)?;
    let before = releases.get(latest + 1)?;
    // ISO dates compare as text.
    (fact.date.to_string() < before.date).then(|| releases[latest].version.clone())
}

#[test]
fn no_figure_is_older_than_the_code_by_more_than_a_release() {
    let releases = releases(&read("CHANGELOG.md"));
    for (key, fact) in facts() {
        let since = outdated(&fact, &releases);
        assert!(since.is_none(), "{key}: version {} changed {:?}; repeat {}", since.unwrap(), fact.covers, fact.command);
    }
}

#[test]
fn old_figures_are_found() {
    let changelog = "# C\n\n## [Unreleased]\n\n## [0.3.0] - 2026-03-01\n<!-- code: crates/sim -->\n\n## [0.2.0] - 2026-02-01\n- x\n\n\
                     ## [0.1.0] - 2026-01-01\n- y\n";
    let all = releases(changelog);
    let fact = |covers: &str, date: &str| -> Fact {
        toml::from_str(&format!("value = \"1\"\ncommand = \"x\"\ncommit = \"1234567\"\ndate = {date}\ncovers = [\"{covers}\"]"))
            .unwrap()
    };
    assert_eq!(outdated(&fact("crates/sim", "2026-01-31"), &all).as_deref(), Some("0.3.0"));
    assert_eq!(outdated(&fact("crates/sim", "2026-02-01"), &all), None);
    // Version 0.2.0 says not which code it changed.
    assert_eq!(outdated(&fact("crates/twin", "2025-12-31"), &all).as_deref(), Some("0.2.0"));
    assert_eq!(outdated(&fact("crates/twin", "2026-01-01"), &all), None);
}

/// Whether a paragraph has a measured figure: a percentage, a count of cases, or a factor.
fn is_measured(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().map(|word| word.trim_matches(|c: char| "(),.;:".contains(c))).collect();
    let is_number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit()) && word.parse::<f64>().is_ok();
    words.iter().any(|word| word.strip_suffix('%').is_some_and(is_number))
        || words.windows(3).any(|three| is_number(three[0]) && three[1] == "of" && is_number(three[2]))
        || words.windows(2).any(|two| is_number(two[0]) && two[0].contains('.') && two[1] == "times")
}

/// Paragraphs of these pages that state a rule, a level of confidence or another's figure with such a number, by their first words.
const RULES: &[&str] = &[
    "A stream can starve",
    "The paper's 29.63%",
    "Seeds 1 to 5, with 95% intervals",
    "The section *Decisions* of the output",
    "`--memory` runs each workload",
    "shows the gain of each change for each type",
    "## Drawn cases in the simulator",
];

#[test]
fn each_measured_figure_has_a_key() {
    let mut without = Vec::new();
    for page in MEASURED {
        let text = read(page);
        // Every second part is inside of a fence.
        let outside: Vec<&str> = text.split("\n```").step_by(2).collect();
        for block in outside.join("\n\n").replace("\n- ", "\n\n- ").replace("\n* ", "\n\n* ").split("\n\n") {
            let words = plain(block.trim_start_matches(['-', '*', ' ']));
            if is_measured(&words) && !words.contains(MARK) && !RULES.iter().any(|rule| words.starts_with(rule)) {
                without.push(format!("{page}: {words}"));
            }
        }
    }
    assert!(without.is_empty(), "no key of {FACTS}:\n{}", without.join("\n"));
}

/// The paragraph or row of a page that has this text.
fn row(page: &str, start: &str) -> String {
    let text = read(page);
    text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{page}: no line starts with {start}")).to_owned()
}

/// Words in code style.
fn names(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn counts_on_pages_are_those_of_the_code() {
    let formats = trace::ALL.len();
    for page in ["README.md", "ARCHITECTURE.md"] {
        assert!(
            read(page).contains(&format!("{formats} trace formats")) || read(page).contains(&format!("({formats} formats)")),
            "{page}: {formats}"
        );
    }
    let table = read("docs/reference/traces.md");
    for format in trace::ALL {
        assert!(table.contains(&format!("`{}`", format.name)), "docs/reference/traces.md lacks {}", format.name);
    }
    let readme = row("README.md", "| schedulers |");
    for spec in block::sched::of_linux() {
        assert!(readme.contains(&format!("`{}`", spec.name)), "README.md lacks {}", spec.name);
    }
}

/// Limits in SECURITY.md: its words, the end of the path of the file that sets the limit, and the value there.
const LIMITS: &[(&str, &str, &str)] = &[
    ("60 scheduler switches per device and minute", "applier/src/writer.rs", "switches_per_minute: 60"),
    ("32 connections", "applier/src/server.rs", "usize = 32;"),
    ("refused by user, four at a time", "applier/src/server.rs", "usize = 4;"),
    ("Each control connection may send 4 KiB", "control_socket/server.rs", "u64 = 4096;"),
    ("has to be there within 5 s", "control_socket/server.rs", "from_secs(5);"),
    ("16 connections of privileged users and 16 of all others", "control_socket/server.rs", "usize = 16;"),
    ("16 connections in all", "endpoint/src/metrics.rs", "usize = 16;"),
    ("at most 2,048 clients", "src/door.rs", "usize = 2048;"),
    ("handshake times out after 30 s", "nbd/mod.rs", "from_secs(30);"),
    ("at most 256 requests or 64 MiB of a client", "nbd/connection.rs", "usize = 256;"),
    ("256 requests or 64 MiB of a client", "nbd/connection.rs", "u64 = 64 << 20;"),
    ("an option is at most 64 KiB", "nbd/handshake.rs", "u32 = 64 << 10;"),
];

#[test]
fn limits_in_security_are_those_of_the_code() {
    let security = plain(&read("SECURITY.md"));
    let files = files_below("crates");
    for (words, file, value) in LIMITS {
        assert!(security.contains(words), "SECURITY.md does not say: {words}");
        let mut found = files.iter().filter(|path| Path::new(path).ends_with(file));
        let has_value = found.any(|path| read(path).contains(value));
        assert!(has_value, "SECURITY.md says: {words}; {file} has no `{value}`");
    }
}

#[test]
fn security_lists_every_file_that_root_writes() {
    let applier = programs().join("seekwise-applier");
    if !applier.is_file() {
        eprintln!("skipped: needs seekwise-applier as of today (cargo build --workspace)");
        return;
    }
    let listed = String::from_utf8(Command::new(applier).arg("--list").output().unwrap().stdout).unwrap();
    let below = |prefix: &str| -> BTreeSet<String> {
        let paths = listed.lines().filter_map(|line| line.split('\t').next());
        paths.filter_map(|path| path.strip_prefix(prefix)).filter(|name| !name.contains('/')).map(str::to_owned).collect()
    };
    for (prefix, start) in [
        ("/sys/block/*/queue/", "| `/sys/block/*/queue/` |"),
        ("/proc/sys/vm/", "| `/proc/sys/vm/`"),
        ("/sys/fs/cgroup/**/", "| below `/sys/fs/cgroup`"),
    ] {
        let line = row("SECURITY.md", start);
        let second = line.split('|').nth(2).unwrap();
        assert_eq!(names(second), below(prefix), "SECURITY.md, {start}");
    }
    let tunables = row("SECURITY.md", "| `/sys/block/*/queue/iosched/` |");
    let owners = listed.lines().filter_map(|line| line.split_once(", under ")).map(|(_, owner)| owner);
    for owner in owners.collect::<BTreeSet<&str>>() {
        assert!(tunables.contains(&format!("`{owner}`")), "SECURITY.md lacks the tunables of {owner}");
    }
}

/// The page says which test attacks each statement of SECURITY.md.
#[test]
fn every_test_that_the_page_of_attacks_names_is_there() {
    let page = std::fs::read_to_string(root().join("docs/development/attacks.md")).unwrap();
    let named = page.split('`').skip(1).step_by(2).filter(|name| name.contains('_') && !name.contains([' ', '/']));
    let missing: BTreeSet<String> = named.map(|name| format!("fn {name}(")).collect();
    assert!(missing.len() > 60, "the page names only {}", missing.len());
    let sources: Vec<String> =
        ["crates", "tests"].iter().flat_map(|folder| files_below(folder)).filter(|file| file.ends_with(".rs")).collect();
    let texts: Vec<String> = sources.iter().map(|file| std::fs::read_to_string(root().join(file)).unwrap()).collect();
    let missing: Vec<&String> = missing.iter().filter(|test| !texts.iter().any(|text| text.contains(test.as_str()))).collect();
    assert!(missing.is_empty(), "these tests are not there: {missing:?}");
}
