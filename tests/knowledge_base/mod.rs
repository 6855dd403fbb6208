//! Runs commands with a knowledge base, and reads it.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::program;

/// `seekwise`; in the tests of `seekwise-lab` that program, for the commands that it has.
pub fn seekwise(arguments: &[&str]) -> Command {
    let has_command = ["compare", "simulate"].contains(&arguments[0]);
    let mut command = if has_command { Command::new(program::PROGRAM) } else { Command::new(program::sibling("seekwise")) };
    command.args(arguments).stdin(Stdio::null());
    command
}

pub fn run(arguments: &[&str]) -> Output {
    seekwise(arguments).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Standard output of a run without warnings.
pub fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

pub fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    assert!(output.stdout.is_empty(), "{arguments:?} printed figures");
    text(&output.stderr)
}

/// A random reader and a random writer that overload the disk for 20 s.
pub fn trace(folder: &Path) -> PathBuf {
    let mut lines = String::from("time_us,stream,op,lba,sectors,sync\n");
    for n in 0..4000u64 {
        let (op, sync) = if n % 3 == 0 { ("W", 0) } else { ("R", 1) };
        writeln!(lines, "{},{},{op},{},16,{sync}", n * 5_000, n % 3, (n * 104_729_000) % 1_000_000_000).unwrap();
    }
    let path = folder.join("mixed.csv");
    fs::write(&path, lines).unwrap();
    path
}

/// `compare` with a knowledge base under these controllers.
pub fn compare<'a>(trace: &'a str, kb: &'a str, controllers: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["compare", trace, "--kb", kb, "--scheduler", "deadline"];
    controllers.iter().for_each(|controller| arguments.extend(["--controller", controller]));
    arguments.extend(more);
    arguments
}

pub fn info(kb: &str) -> Value {
    serde_json::from_str(&succeeds(&["kb", "info", kb, "--check", "--json"])).unwrap()
}

pub const TABLES: [&str; 4] = ["windows", "decisions", "requests", "models"];

pub fn export(kb: &str, table: &str) -> String {
    succeeds(&["kb", "export", kb, "--table", table])
}
