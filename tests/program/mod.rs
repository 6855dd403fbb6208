//! Runs the program as a person would.

use std::process::{Command, Output, Stdio};

/// What the program does with these arguments.
pub fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seekwise")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// What was printed.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Standard output of a run that succeeds.
pub fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Standard error of a run that is refused, as wrong input is, before anything is printed.
pub fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    assert!(output.stdout.is_empty(), "{arguments:?} printed figures");
    text(&output.stderr)
}
