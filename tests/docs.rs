//! The pages in docs/ that the program prints are what it prints now.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::process::Command;

#[test]
fn the_schedulers_page_is_current() {
    let output = Command::new(env!("CARGO_BIN_EXE_seekwise")).args(["scheduler", "manual"]).output().unwrap();
    let kept = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schedulers.md")).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(kept == printed, "docs/schedulers.md is out of date: run `seekwise scheduler manual >docs/schedulers.md`");
}

#[test]
fn the_controllers_page_is_current() {
    let output = Command::new(env!("CARGO_BIN_EXE_seekwise")).args(["controller", "manual"]).output().unwrap();
    let kept = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/controllers.md")).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(kept == printed, "docs/controllers.md is out of date: run `seekwise controller manual >docs/controllers.md`");
}

#[test]
fn the_hosts_page_is_current() {
    let output = Command::new(env!("CARGO_BIN_EXE_seekwise")).args(["host", "manual"]).output().unwrap();
    let kept = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/host.md")).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(kept == printed, "docs/host.md is out of date: run `seekwise host manual >docs/host.md`");
}

#[test]
fn the_page_of_disk_profiles_is_current() {
    let output = Command::new(env!("CARGO_BIN_EXE_seekwise")).args(["disk", "manual"]).output().unwrap();
    let kept = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/disks.md")).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(kept == printed, "docs/disks.md is out of date: run `seekwise disk manual >docs/disks.md`");
}
