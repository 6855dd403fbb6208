//! A competing writer on a real device: a loop device with the kernel's own schedulers.
//!
//! Needs root and losetup; skipped with a message otherwise. `SEEKWISE_RIVAL_TRIES` sets the number of tries.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use applier::journal::Journal;
use applier::sysfs::{RealFiles, Sysfs};
use applier::{Client, ErrorKind, Listen, Moment, Options, Rules, Scope, SetRequest, Writer};
use block::Nanos;
use control::{Setting, Target as _};
use linux::target::LinuxTarget;

const TRIES: usize = 60;

/// A loop device over a file of 16 MiB.
struct Loop {
    path: String,
    _file: tempfile::NamedTempFile,
}

impl Loop {
    fn new() -> Option<Loop> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(16 << 20).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output().ok()?;
        let path = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        made.status.success().then_some(Loop { path, _file: file })
    }

    fn name(&self) -> &str {
        self.path.trim_start_matches("/dev/")
    }

    fn attribute(&self) -> PathBuf {
        Path::new("/sys/block").join(self.name()).join("queue/scheduler")
    }

    fn scheduler(&self) -> String {
        let text = fs::read_to_string(self.attribute()).unwrap();
        text.split(['[', ']']).nth(1).unwrap_or("none").to_owned()
    }

    fn set(&self, scheduler: &str) -> bool {
        fs::write(self.attribute(), scheduler).is_ok()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

#[test]
fn a_rival_wins_at_every_moment_of_a_switch() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let Some(device) = Loop::new() else {
        eprintln!("skipped: needs losetup and a free loop device");
        return;
    };
    let (ours, theirs) = ("mq-deadline", "kyber");
    if !device.set(ours) || !device.set(theirs) || !device.set("none") {
        eprintln!("skipped: {} has not the schedulers none, {ours} and {theirs}", device.path);
        return;
    }
    let tries = std::env::var("SEEKWISE_RIVAL_TRIES").ok().and_then(|tries| tries.parse().ok()).unwrap_or(TRIES);
    let folder = tempfile::tempdir().unwrap();
    let (stop, ends) = UnixStream::pair().unwrap();
    let socket = folder.path().join("socket");
    let options = Options {
        journal: folder.path().join("journal"),
        listen: Listen::At(socket.clone()),
        rules: Rules { switches_per_minute: u32::MAX, ..Rules::default() },
        log: |_| {},
        ..Options::new(OwnedFd::from(ends))
    };
    let serving = std::thread::spawn(move || applier::serve(options));
    let mut applier = loop {
        match Client::connect(&socket) {
            Ok(client) => break client,
            Err(_) => std::thread::yield_now(),
        }
    };
    let connect = || Client::connect(&socket).unwrap();
    let mut target = LinuxTarget::new(&Sysfs::real(), device.name(), "loop", connect(), |name| !name.starts_with("vm/")).unwrap();
    let setting = |text: &str| Setting::parse(text).unwrap();

    // The daemon does the same when a change is refused.
    let stand_down = |target: &LinuxTarget, applier: &mut Client| {
        let changes = target.external_changes().into_iter().map(|change| (change.attribute, change.ours));
        let changes: Vec<(String, String)> = changes.collect();
        applier.release(device.name(), &changes).unwrap();
    };

    // Duration of a switch, including overhead.
    let began = Instant::now();
    target.apply(Nanos::ZERO, &setting(ours)).unwrap();
    let switch = began.elapsed();
    applier.restore(Some(device.name())).unwrap();

    let (mut broken, mut unknown) = (Vec::new(), Vec::new());
    for number in 0..tries {
        applier.resume(device.name()).unwrap();
        assert!(device.set("none"));
        target.begin().unwrap();
        // From before the switch until after it.
        let after = switch.mul_f64(1.3 * number as f64 / tries as f64);
        let barrier = Barrier::new(2);
        let (first, second) = std::thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                let began = Instant::now();
                // At a random moment, or as soon as it sees the agent's write.
                let waits_for_ours = number % 4 == 3;
                while if waits_for_ours {
                    device.scheduler() != ours && began.elapsed() < switch * 3
                } else {
                    began.elapsed() < after
                } {
                    std::hint::spin_loop();
                }
                assert!(device.set(theirs));
            });
            barrier.wait();
            std::thread::sleep(Duration::from_micros(200));
            let first = target.apply(Nanos::ZERO, &setting(ours)).map_err(|error| error.reason);
            if first.is_err() {
                stand_down(&target, &mut connect());
            }
            // A controller that continues at once.
            let second = target.apply(Nanos::ZERO, &setting(&format!("{ours}:fifo_batch=1"))).map_err(|error| error.reason);
            (first, second)
        });
        let journal = applier.foreign(device.name()).unwrap();
        let is_noticed = !journal.is_empty() || !target.external_changes().is_empty();
        // An earlier decision is not applied over the competitor's choice later.
        let third = target.apply(Nanos::ZERO, &setting("none")).map_err(|error| error.reason);
        let now = device.scheduler();
        let line = format!("{after:?}: {now} is active; {first:?}, {second:?}, {third:?}");
        match now.as_str() {
            _ if !is_noticed || third.is_ok() => broken.push(line),
            now if now == theirs => {}
            // The write was replaced unnoticed, which cannot be detected: the original value is back.
            "none" => unknown.push(line),
            _ => broken.push(line),
        }
    }
    applier.resume(device.name()).unwrap();
    assert!(device.set("none"));
    drop((target, applier, stop));
    serving.join().unwrap().unwrap();
    println!("the rival won {} of {tries} times", tries - unknown.len() - broken.len());
    assert!(broken.is_empty(), "{} of {tries}:\n{}", broken.len(), broken.join("\n"));
    assert!(unknown.len() * 20 <= tries, "{} of {tries}:\n{}", unknown.len(), unknown.join("\n"));
}

#[test]
fn a_second_applier_is_refused_a_device_that_another_one_sets() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let Some(device) = Loop::new().filter(|device| device.set("mq-deadline") && device.set("none")) else {
        eprintln!("skipped: needs losetup, a free loop device and the scheduler mq-deadline");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let writer = |name: &str| {
        let mut files = RealFiles;
        let journal = Journal::open(&mut files, &folder.path().join(name)).unwrap();
        Writer::new(Sysfs::real(), Box::new(files), journal, Rules::default())
    };
    let set = |writer: &mut Writer, scheduler: &str| {
        let values = vec![("scheduler".to_owned(), scheduler.to_owned())];
        let (scope, why) = (Scope::Device(device.name().to_owned()), "a test".to_owned());
        let wanted = SetRequest { scope, values, expected: Vec::new(), why };
        writer.set(Moment::default(), &wanted).map(drop)
    };
    let (mut first, mut second) = (writer("first"), writer("second"));
    set(&mut first, "mq-deadline").unwrap();
    let error = set(&mut second, "none").unwrap_err();
    assert!(error.kind == ErrorKind::InUse && error.message.contains("another seekwise-applier sets it"), "{error}");
    assert_eq!(device.scheduler(), "mq-deadline");
    first.end().unwrap();
    drop(first);
    set(&mut second, "mq-deadline").unwrap();
    second.end().unwrap();
}
