//! The pages in docs/: generated pages are up to date, commands on the others work, and links resolve.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{Printed, files_below, parse, root, run, try_page};

/// Pages with long-running commands; each has its own test, so that they run in parallel: `docs/evaluation.md`, which is about
/// `seekwise-lab`, with the tests of that. `traces/README.md` and `workloads/README.md` are outside of the book but tested with it.
const LONG: &[&str] = &["docs/guide/administrator.md", "docs/guide/operator.md", "docs/guide/researcher.md", "docs/evaluation.md"];

/// Folder of pages that share a test.
const RECIPES: &str = "docs/recipes";

fn is_current(page: &str, printed_by: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_seekwise")).args(printed_by).output().unwrap();
    let kept = std::fs::read_to_string(root().join(page)).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(kept == printed, "{page} is out of date: run `seekwise {} >{page}`", printed_by.join(" "));
}

#[test]
fn the_schedulers_page_is_current() {
    is_current("docs/reference/schedulers.md", &["scheduler", "manual"]);
}

#[test]
fn the_controllers_page_is_current() {
    is_current("docs/reference/controllers.md", &["controller", "manual"]);
}

#[test]
fn the_hosts_page_is_current() {
    is_current("docs/reference/host.md", &["host", "manual"]);
}

#[test]
fn the_page_of_disk_profiles_is_current() {
    is_current("docs/reference/disks.md", &["disk", "manual"]);
}

#[test]
fn the_page_of_json_output_is_current() {
    is_current("docs/reference/json.md", &["schema", "manual"]);
}

/// Markdown files below a folder of the project, relative to its root, sorted.
fn pages_in(folder: &str) -> Vec<String> {
    files_below(folder).into_iter().filter(|file| file.ends_with(".md")).collect()
}

/// All pages for readers.
pub fn pages() -> Vec<String> {
    let others = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "traces/README.md",
        "workloads/README.md",
    ];
    pages_in("docs").into_iter().chain(others.map(str::to_owned)).collect()
}

#[test]
fn the_commands_of_the_administrators_guide_work() {
    try_page("docs/guide/administrator.md");
}

#[test]
fn the_commands_of_the_operators_guide_work() {
    try_page("docs/guide/operator.md");
}

#[test]
fn the_commands_of_the_researchers_guide_work() {
    try_page("docs/guide/researcher.md");
}

#[test]
fn the_commands_of_the_recipes_work() {
    let recipes = pages_in(RECIPES);
    assert!(!recipes.is_empty(), "there is no page in {RECIPES}");
    recipes.iter().for_each(|page| try_page(page));
}

#[test]
fn the_commands_of_all_other_pages_work() {
    // The README has a stricter test.
    let is_tried = |page: &str| LONG.contains(&page) || page.starts_with(RECIPES) || page == "README.md";
    pages().iter().filter(|page| !is_tried(page)).for_each(|page| try_page(page));
    LONG.iter().for_each(|page| assert!(root().join(page).is_file(), "there is no {page}"));
}

/// Unwraps the lines of a page.
fn in_words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn outputs_on_pages_are_what_the_commands_print_now() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut compared, mut missed) = (Vec::new(), Vec::new());
    for page in pages() {
        for Printed { prepared_by, command, text } in crate::commands::printed_on(&page) {
            prepared_by.iter().for_each(|command| assert!(run(command, scratch.path()).status.success(), "{page}: {command}"));
            let output = run(&command, scratch.path());
            assert!(output.status.success(), "{page}: {command}\n{}", String::from_utf8_lossy(&output.stderr));
            let now = String::from_utf8(output.stdout).unwrap();
            let is_printed = |part: &String| in_words(&now).contains(part);
            if let Some(part) = text.split("[…]").map(in_words).find(|part| !is_printed(part)) {
                missed.push(format!("{page}: {command} does not print\n{part}\nbut\n{now}"));
            }
            compared.push(page.clone());
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
    for page in ["docs/reference/tenants.md", "README.md", "docs/recipes/postgresql.md"] {
        assert!(compared.iter().any(|one| one == page), "{page}: no output was compared, of {compared:?}");
    }
}

#[test]
fn options_that_do_not_exist_are_found_by_parsing_alone() {
    let scratch = tempfile::tempdir().unwrap();
    assert!(parse("sudo seekwise advise /dev/sda --counters # as root", scratch.path()).status.success());
    assert!(!parse("sudo seekwise advise /dev/sda --no-such-option", scratch.path()).status.success());
    assert!(!parse("seekwise no-such-command", scratch.path()).status.success());
}

/// Targets of links to files, without anchors.
fn links_of(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.map(|target| target.split('#').next().unwrap_or_default());
    files.filter(|target| !target.is_empty() && !target.contains("://")).map(str::to_owned).collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    for page in pages() {
        let folder = root().join(&page).parent().map(Path::to_owned).unwrap();
        for target in links_of(&page) {
            assert!(folder.join(&target).exists(), "{page}: there is no {target}");
        }
    }
}

/// The anchors of a page's headings, as mdBook and code hosts make them.
fn anchors_of(page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap();
    let outside: Vec<&str> = text.split("\n```").step_by(2).collect();
    let headings = outside.iter().flat_map(|part| part.lines()).filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        kept.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn anchors_of_links_are_headings() {
    for page in pages() {
        let text = std::fs::read_to_string(root().join(&page)).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|link| !link.contains("://"));
        for (file, anchor) in links.filter_map(|link| link.split_once('#')) {
            let own = root().join(&page);
            let target = if file.is_empty() { own } else { own.parent().unwrap().join(file) };
            if target.extension().is_some_and(|ending| ending == "md") {
                assert!(anchors_of(&target).contains(&anchor.to_owned()), "{page}: {file} has no heading for #{anchor}");
            }
        }
    }
}

#[test]
fn the_summary_lists_every_page_of_the_book() {
    let listed: Vec<PathBuf> = links_of("docs/SUMMARY.md").iter().map(|page| Path::new("docs").join(page)).collect();
    for page in pages_in("docs").iter().filter(|page| *page != "docs/SUMMARY.md") {
        assert!(listed.contains(&PathBuf::from(page)), "docs/SUMMARY.md does not list {page}");
    }
}
