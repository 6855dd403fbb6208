//! Finds cyclic dependencies between the modules of a crate, and between the files of a module.
//!
//! The modules of a crate are the files and folders of `src`, without `lib.rs` and `main.rs`; those of a folder are its files and folders,
//! without `mod.rs`. A module refers to another of its folder by `crate::path::other`, by as many `super::` as lead to the folder, or by a
//! name that the folder's own file re-exports from it. Tests, comments and doc comments do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Location (`file:line`) of one reference, by the names of the referring and the referenced module.
pub type References = BTreeMap<(String, String), String>;

/// A strongly connected set of modules in alphabetical order, with the references between them.
pub struct Circle {
    pub modules: Vec<String>,
    pub references: References,
}

/// All cycles between the modules of the crate in this folder, and between the files of each of its modules, in alphabetical order.
pub fn circles(package: &Path) -> Vec<Circle> {
    let src = package.join("src");
    let files = sources(&src);
    let folders: BTreeSet<&[String]> =
        files.iter().flat_map(|file| (0..file.path.len()).map(|depth| &file.path[..depth])).collect();
    folders.into_iter().flat_map(|folder| circles_in(folder, &files, &src)).collect()
}

fn circles_in(folder: &[String], files: &[Source], src: &Path) -> Vec<Circle> {
    let references = references(folder, files, src);
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        references.keys().map(|(from, _)| (from.as_str(), reachable(from, &references))).collect();
    let meets = |a: &str, b: &str| reach.get(a).is_some_and(|seen| seen.contains(b));
    let mut circles: Vec<Circle> = Vec::new();
    for &module in reach.keys().filter(|module| meets(module, module)) {
        if circles.iter().all(|circle| !circle.modules.iter().any(|other| other == module)) {
            let modules: Vec<String> =
                reach.keys().filter(|other| meets(module, other) && meets(other, module)).map(|&other| other.to_owned()).collect();
            let among = |(from, to): &(String, String)| modules.contains(from) && modules.contains(to);
            let references = references.iter().filter(|(pair, _)| among(pair)).map(|(k, v)| (k.clone(), v.clone())).collect();
            circles.push(Circle { modules, references });
        }
    }
    circles
}

/// Modules reachable from a module. It includes the module itself only if it is part of a cycle.
fn reachable<'a>(module: &str, references: &'a References) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![module];
    while let Some(next) = open.pop() {
        for (_, to) in references.keys().filter(|(from, _)| from == next) {
            if seen.insert(to.as_str()) {
                open.push(to);
            }
        }
    }
    seen
}

/// A source file with the path of its module.
struct Source {
    path: Vec<String>,
    file: PathBuf,
    code: String,
}

impl Source {
    fn read(path: Vec<String>, file: PathBuf) -> Source {
        let code = product_code(&std::fs::read_to_string(&file).unwrap());
        Source { path, file, code }
    }
}

/// References between the modules of a folder.
fn references(folder: &[String], files: &[Source], src: &Path) -> References {
    let inside = || files.iter().filter(|source| source.path.len() > folder.len() && source.path.starts_with(folder));
    let modules: BTreeSet<&str> = inside().map(|source| source.path[folder.len()].as_str()).collect();
    let root = match folder {
        [] => product_code(&std::fs::read_to_string(src.join("lib.rs")).unwrap_or_default()),
        _ => files.iter().find(|source| source.path == folder).map(|source| source.code.clone()).unwrap_or_default(),
    };
    let exported = exported(&root);
    let mut found = References::new();
    for source in inside() {
        let module = &source.path[folder.len()];
        for (at, name) in named_in(folder, &source.code, source.path.len() - folder.len()) {
            let to = if modules.contains(name) { name } else { exported.get(name).map_or(name, String::as_str) };
            if modules.contains(to) && to != module {
                let line = source.code[..at].matches('\n').count() + 1;
                found.entry((module.clone(), to.to_owned())).or_insert_with(|| format!("{}:{line}", source.file.display()));
            }
        }
    }
    found
}

/// Source files under `src` except tests.
fn sources(src: &Path) -> Vec<Source> {
    let mut files = Vec::new();
    let mut open = vec![(Vec::new(), src.to_owned())];
    while let Some((module, folder)) = open.pop() {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let inner = || module.iter().cloned().chain([name.clone()]).collect();
            match (path.is_dir(), name.as_str()) {
                (_, "tests" | "fixtures") => {}
                (true, _) => open.push((inner(), path)),
                (false, "lib" | "main") if module.is_empty() => {}
                (false, "mod") => files.push(Source::read(module.clone(), path)),
                (false, _) if path.extension().is_some_and(|kind| kind == "rs") => files.push(Source::read(inner(), path)),
                _ => {}
            }
        }
    }
    files
}

/// Source code without comments and items under `#[cfg(test)]`; line numbers are preserved. Relies on rustfmt: an item ends at the
/// first closing line with its own indentation.
fn product_code(text: &str) -> String {
    let mut code = String::new();
    let mut test: Option<&str> = None;
    for line in text.lines() {
        let indentation = &line[..line.len() - line.trim_start().len()];
        if line.trim() == "#[cfg(test)]" {
            test = Some(indentation);
        } else if test.is_none() {
            code.push_str(if line.trim_start().starts_with("//") { "" } else { line.split(" // ").next().unwrap_or("") });
        } else if test == Some(indentation) && !line.trim().is_empty() && line.ends_with([';', '}']) {
            test = None;
        }
        code.push('\n');
    }
    code
}

/// Re-exports of a folder's own file: the module of each name.
fn exported(root: &str) -> BTreeMap<&str, String> {
    let mut names = BTreeMap::new();
    for statement in root.split(';').filter_map(|text| text.trim_start().strip_prefix("pub use ")) {
        let path = statement.trim_start_matches("self::").trim_start_matches("crate::");
        let module = path.split("::").next().unwrap_or(path);
        let words = path[module.len()..].split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        names.extend(words.map(|word| (word, module.to_owned())));
    }
    names
}

/// Names referenced in a folder, with their locations: `a` in `crate::folder::a::b`, `a` and `c` in `crate::folder::{a::b, c}`; likewise
/// after as many `super::` as the module is deep in the folder.
fn named_in<'a>(folder: &[String], code: &'a str, depth: usize) -> Vec<(usize, &'a str)> {
    let down: String = folder.iter().map(|name| format!("{name}::")).collect();
    let mut found = Vec::new();
    for prefix in [format!("crate::{down}"), "super::".repeat(depth)] {
        for (at, _) in code.match_indices(&prefix) {
            let begins =
                !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') && !code[..at].ends_with("pub(in ");
            if begins {
                found.extend(heads(&code[at + prefix.len()..]).map(|name| (at, name)));
            }
        }
    }
    found
}

/// First component of a path, or of each path in a braced group.
fn heads(path: &str) -> impl Iterator<Item = &str> {
    let mut nested = 0;
    let group = path.starts_with('{');
    let end = path.find(|c| {
        nested += i32::from(c == '{') - i32::from(c == '}');
        group && nested == 0
    });
    let inner = if group { &path[1..end.unwrap_or(path.len())] } else { path };
    let mut nested = 0;
    let parts = inner.split(move |c| {
        nested += i32::from(c == '{') - i32::from(c == '}');
        nested == 0 && c == ','
    });
    let name =
        |part: &'_ str| part.trim_start().find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(part.trim_start().len());
    parts.take(if group { usize::MAX } else { 1 }).map(move |part| &part.trim_start()[..name(part)])
}
