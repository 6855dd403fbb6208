//! Runs the program under test from the command line.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Path of the program of the test's package.
pub const PROGRAM: &str = match (
    option_env!("CARGO_BIN_EXE_seekwise"),
    option_env!("CARGO_BIN_EXE_seekwise-lab"),
    option_env!("CARGO_BIN_EXE_seekwise-fleet"),
    option_env!("CARGO_BIN_EXE_seekwise-emulate"),
) {
    (Some(program), ..) | (None, Some(program), ..) | (None, None, Some(program), _) | (None, None, None, Some(program)) => program,
    (None, None, None, None) => panic!("the test belongs to a package without one of the programs"),
};

/// Path of another program of the workspace. Built if missing, because cargo builds only programs of the packages under test.
pub fn sibling(name: &str) -> PathBuf {
    let path = Path::new(PROGRAM).with_file_name(name);
    if !path.exists() {
        let built = Command::new(env!("CARGO")).args(["build", "--quiet", "--locked", "--workspace", "--bin", name]).status();
        assert!(built.unwrap().success() && path.exists(), "cannot build {name}");
    }
    path
}

/// Runs the program with these arguments.
pub fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Standard output of a run that must succeed.
pub fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Standard error of a run that must be rejected as invalid input, without output.
pub fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    assert!(output.stdout.is_empty(), "{arguments:?} printed figures");
    text(&output.stderr)
}
