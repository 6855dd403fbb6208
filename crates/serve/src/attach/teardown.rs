//! Takes down what a record tells of: the queue's settings, the loop device, the mount.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};

use super::queue::{self, Queue};
use super::record::{Plan, Record, State};

/// What waits longer for an emulator is stuck: FUSE is told to fail everything.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes down what emulators left behind that were killed together with their supervisors. Says what it did.
pub fn recover() -> Vec<String> {
    let mut said = Vec::new();
    for record in Record::orphans() {
        let plan = &record.state.plan;
        if let Some(process) = emulator_of(plan) {
            said.push(format!(
                "{}: left to process {process}, which emulates it; kill that if it hangs",
                plan.mountpoint.display()
            ));
            continue;
        }
        said.push(format!("cleaning up after an emulated disk that was killed: {}", record.state.plan.mountpoint.display()));
        said.extend(take_down(record));
    }
    said
}

/// The process that emulates it, if it lives: it is about to start another supervisor.
fn emulator_of(plan: &Plan) -> Option<u32> {
    let process = plan.source.rsplit('-').next()?.parse().ok()?;
    // Another process may have the number now; one that ended and was not waited for has no command line.
    let command = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
    command.split(|&byte| byte == 0).any(|argument| argument == b"emulate").then_some(process)
}

/// Takes everything down, and says what could not be.
pub(super) fn take_down(record: Record) -> Vec<String> {
    let guard = fail_requests_if_stuck(&record.state.plan);
    let mut said = restore_and_detach(&record.state);
    said.extend(unmount_all(&record.state.plan));
    drop(guard);
    record.end();
    said
}

/// Until the returned sender is dropped in time. Fails requests even if the emulator is alive but does not answer.
fn fail_requests_if_stuck(plan: &Plan) -> mpsc::Sender<()> {
    let (guard, waiting) = mpsc::channel();
    let plan = plan.clone();
    thread::spawn(move || {
        while waiting.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            if is_mounted(&plan) {
                // Refused because the file is in use, it has failed all requests nevertheless.
                let _ = unmount(&plan.mountpoint, UnmountFlags::FORCE);
            }
        }
    });
    guard
}

fn restore_and_detach(state: &State) -> Vec<String> {
    let mut said = Vec::new();
    // A supervisor that died between attaching and recording left a device that only the kernel knows of.
    let mut names = queue::loops_of(&state.plan.file).unwrap_or_default();
    if let Some(device) = &state.device {
        said.extend(Queue::of(&device.name).restore(&device.before, device.driver_depth).iter().map(ToString::to_string));
        let is_ours = queue::backing_file(&device.name).is_some_and(|file| file.ends_with(super::super::fuse::FILE));
        if is_ours && !names.contains(&device.name) && is_mounted(&state.plan) {
            names.push(device.name.clone());
        }
    }
    for name in names {
        match run("losetup", &["-d".as_ref(), format!("/dev/{name}").as_ref()]) {
            Err(error) => said.push(format!("/dev/{name}: {error}")),
            Ok(_) if !is_gone(&name, &state.plan.file) => {
                said.push(format!("/dev/{name}: is still in use: its requests fail from now on, and it goes when its users do"));
            }
            Ok(_) => {}
        }
    }
    said
}

/// The kernel lets go a moment after the last close.
fn is_gone(name: &str, file: &Path) -> bool {
    for _ in 0..50 {
        if queue::backing_file(name).is_none_or(|backing| backing != file.to_string_lossy()) {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Whether this disk's file system is mounted. Asks the kernel's list, because looking at the folder asks the emulator.
fn is_mounted(plan: &Plan) -> bool {
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") else { return false };
    mounts.lines().any(|line| {
        let after = line.split_once(" - ").map(|(_, after)| after);
        after.and_then(|after| after.split(' ').nth(1)) == Some(plan.source.as_str())
    })
}

fn unmount_all(plan: &Plan) -> Option<String> {
    // It could be mounted more than once, by `mount --bind`; each of these takes one away.
    for _ in 0..8 {
        if !is_mounted(plan) {
            return None;
        }
        let result = unmount(&plan.mountpoint, UnmountFlags::empty())
            .or_else(|_| unmount(&plan.mountpoint, UnmountFlags::DETACH))
            .map_err(io::Error::from)
            .or_else(|_| run("fusermount3", &["-u".as_ref(), "-z".as_ref(), plan.mountpoint.as_os_str()]).map(|_| ()));
        if let Err(error) = result {
            return Some(format!("{}: cannot unmount: {error}", plan.mountpoint.display()));
        }
    }
    None
}

/// Runs a program and returns what it printed.
pub(super) fn run(program: &str, arguments: &[&std::ffi::OsStr]) -> io::Result<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().map_err(|error| {
        let missing = error.kind() == io::ErrorKind::NotFound;
        if missing { io::Error::new(error.kind(), format!("{program}: is not installed")) } else { error }
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program}: {}", message.trim())))
}
