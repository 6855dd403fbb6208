//! Undoes the setup in a record: the queue settings, the loop device, the mount.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};

use super::queue::{self, Queue};
use super::record::{Plan, Record, State};

/// Time after which a step counts as stuck, and FUSE has to fail all requests.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes down the disks of emulators that were killed together with their supervisors. Returns messages for the user.
pub fn recover() -> Vec<String> {
    let mut messages = Vec::new();
    for record in Record::orphans() {
        let plan = &record.state.plan;
        if let Some(process) = emulator_of(plan) {
            messages.push(format!(
                "{}: left to process {process}, which emulates it; kill that if it hangs",
                plan.mountpoint.display()
            ));
            continue;
        }
        messages.push(format!("cleaning up after an emulated disk that was killed: {}", record.state.plan.mountpoint.display()));
        messages.extend(take_down(record));
    }
    messages
}

/// The emulator's process id; `None` if it is dead. A live one is about to start another supervisor.
fn emulator_of(plan: &Plan) -> Option<u32> {
    let process = plan.source.rsplit('-').next()?.parse().ok()?;
    // The id may be reused by another process; a zombie has no command line.
    let command = std::fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let program = command.split(|&byte| byte == 0).next()?;
    program.ends_with(b"seekwise-emulate").then_some(process)
}

/// Takes everything down, and returns messages about failures.
pub(super) fn take_down(record: Record) -> Vec<String> {
    let guard = fail_requests_if_stuck(&record.state.plan);
    let mut messages = restore_and_detach(&record.state);
    messages.extend(unmount_all(&record.state.plan));
    drop(guard);
    record.end();
    messages
}

/// Fails all requests, even if the emulator is alive but stuck, unless the returned sender is dropped in time.
fn fail_requests_if_stuck(plan: &Plan) -> mpsc::Sender<()> {
    let (guard, waiting) = mpsc::channel();
    let plan = plan.clone();
    thread::spawn(move || {
        while waiting.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            if is_mounted(&plan) {
                // Although refused for a file in use, it has failed all requests.
                let _ = unmount(&plan.mountpoint, UnmountFlags::FORCE);
            }
        }
    });
    guard
}

fn restore_and_detach(state: &State) -> Vec<String> {
    let mut messages = Vec::new();
    // A supervisor that died between attaching and recording left a device that only the kernel knows.
    let mut names = queue::loops_of(&state.plan.file).unwrap_or_default();
    if let Some(device) = &state.device {
        messages.extend(Queue::of(&device.name).restore(&device.before, device.driver_depth).iter().map(ToString::to_string));
        let is_ours = queue::backing_file(&device.name).is_some_and(|file| file.ends_with(super::super::fuse::FILE));
        if is_ours && !names.contains(&device.name) && is_mounted(&state.plan) {
            names.push(device.name.clone());
        }
    }
    for name in names {
        match run("losetup", &["-d".as_ref(), format!("/dev/{name}").as_ref()]) {
            Err(error) => messages.push(format!("/dev/{name}: {error}")),
            Ok(_) if !is_gone(&name, &state.plan.file) => {
                messages
                    .push(format!("/dev/{name}: is still in use: its requests fail from now on, and it goes when its users do"));
            }
            Ok(_) => {}
        }
    }
    messages
}

/// Whether the loop device is detached. The kernel needs a moment after the last close.
fn is_gone(name: &str, file: &Path) -> bool {
    for _ in 0..50 {
        if queue::backing_file(name).is_none_or(|backing| backing != file.to_string_lossy()) {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Whether the file system of this disk is mounted. Reads the kernel's list, because accessing the folder would block on the emulator.
fn is_mounted(plan: &Plan) -> bool {
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") else { return false };
    mounts.lines().any(|line| {
        let after = line.split_once(" - ").map(|(_, after)| after);
        after.and_then(|after| after.split(' ').nth(1)) == Some(plan.source.as_str())
    })
}

fn unmount_all(plan: &Plan) -> Option<String> {
    // `mount --bind` may have mounted it several times; each pass removes one mount.
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

/// Runs a program and returns its output.
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
