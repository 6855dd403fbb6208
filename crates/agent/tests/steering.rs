//! A device behind the applier's socket, controlled as by a controller.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

mod support;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use applier::sysfs::Sysfs;
use applier::{self, ApplierError, Client, ErrorKind, Listen, Options, Rules};
use block::Nanos;
use control::{Setting, Target};
use linux::target::LinuxTarget;
use support::kernel::{Count, Disk, Fault, Machine};

/// An applier in this process, on a machine in memory.
struct Applier {
    folder: tempfile::TempDir,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<Result<(), ApplierError>>>,
    count: Count,
}

impl Applier {
    fn of(machine: &Machine) -> Applier {
        Applier::with_fault(machine, Fault::Nothing)
    }

    /// An applier with this fault.
    fn with_fault(machine: &Machine, fault: Fault) -> Applier {
        let folder = tempfile::tempdir().unwrap();
        let (stop, ends) = UnixStream::pair().unwrap();
        let (files, count) = machine.process(fault);
        let options = Options {
            files: Box::new(files),
            listen: Listen::At(folder.path().join("socket")),
            rules: Rules { machine: true, ..Rules::default() },
            log: |_| {},
            ..Options::new(OwnedFd::from(ends))
        };
        let thread = std::thread::spawn(move || applier::serve(options));
        let applier = Applier { folder, stop: Some(stop), thread: Some(thread), count };
        while Client::connect(&applier.socket()).is_err() {
            std::thread::yield_now();
        }
        applier
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket()).unwrap()
    }

    fn plant(&self, machine: &Machine, allowed: impl Fn(&str) -> bool) -> LinuxTarget {
        let files = Box::new(machine.process(Fault::Nothing).0);
        LinuxTarget::with_files(&Sysfs::real(), files, "sda", "Barracuda", self.client(), allowed).unwrap()
    }

    fn end(mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap().unwrap();
        assert!(!Path::new(&self.socket()).exists());
    }
}

fn setting(text: &str) -> Setting {
    Setting::parse(text).unwrap()
}

/// Applies settings in sequence; returns the active setting after each, or why it was refused.
fn apply(plant: &mut LinuxTarget, texts: &[&str]) -> Vec<String> {
    let mut one = |text: &&str| match plant.apply(Nanos::ZERO, &setting(text)) {
        Ok(()) => plant.setting().to_string(),
        Err(error) => error.to_string(),
    };
    texts.iter().map(&mut one).collect()
}

#[test]
fn settings_are_read_back_as_they_were_applied() {
    let machine = Machine::new();
    let applier = Applier::of(&machine);
    let mut plant = applier.plant(&machine, |_| true);
    let settings = [
        "bfq:slice_idle=0,timeout_sync=500 nr_requests=64 read_ahead_kb=1024",
        "bfq",
        "kyber:read_lat_nsec=5000000 nomerges=2 swappiness=10",
        "mq-deadline:fifo_batch=1",
        "mq-deadline:async_depth=32",
        "mq-deadline nr_requests=32",
        "mq-deadline:write_expire=1",
        "none read_ahead_kb=64 wbt_lat_usec=0",
        "bfq dirty_ratio=40",
        "none",
    ];
    assert_eq!(apply(&mut plant, &settings), settings);
    // After a restart the device reports the same values except for those that the kernel rounds.
    for text in settings {
        apply(&mut plant, &[text]);
        let afresh = applier.plant(&machine, |_| true);
        assert_eq!(afresh.setting().to_string(), text.replace("write_expire=1", "write_expire=4"));
    }
    drop(plant);
    applier.end();
}

/// External changes known to the applier's journal or to the target.
fn external_changes(applier: &Applier, target: &LinuxTarget) -> Vec<String> {
    let journal = applier.client().foreign("sda").unwrap();
    let changes = journal.into_iter().chain(target.external_changes());
    changes.map(|change| format!("{} {} -> {}", change.attribute, change.ours, change.now.unwrap_or_default())).collect()
}

/// Whether an attribute has this value.
fn has(machine: &Machine, name: &str, value: &str) -> bool {
    let now = machine.cat(name);
    if name == "scheduler" { now.contains(&format!("[{value}]")) } else { now == value }
}

#[test]
fn an_administrator_wins_while_nothing_of_the_agents_is_active() {
    for (name, value) in [("scheduler", "kyber"), ("scheduler", "none"), ("read_ahead_kb", "64"), ("iosched/fifo_batch", "3")] {
        // Also after the agent has set and restored it.
        for settings in [&[][..], &["bfq read_ahead_kb=1024", "mq-deadline"]] {
            let machine = Machine::new();
            let applier = Applier::of(&machine);
            let mut target = applier.plant(&machine, |_| true);
            apply(&mut target, settings);
            machine.echo(value, name);
            let refused = &apply(&mut target, &["bfq:slice_idle=0 read_ahead_kb=2048"])[0];
            assert!(refused.starts_with("cannot set bfq"), "{name}={value}: {refused}");
            assert!(has(&machine, name, value), "{name}={value}: {}", machine.cat(name));
            let changes = external_changes(&applier, &target);
            assert!(changes.iter().any(|change| change.starts_with(name)), "{name}={value}: {changes:?}");
            drop(target);
            applier.end();
            assert!(has(&machine, name, value), "{name}={value} after {settings:?}: put back over it, {}", machine.cat(name));
        }
    }
}

#[test]
fn a_rival_at_any_operation_of_a_switch_wins_and_is_noticed() {
    let switches = ["bfq:slice_idle=0 read_ahead_kb=1024", "mq-deadline nr_requests=64"];
    let (looked, operations) = {
        let machine = Machine::new();
        let applier = Applier::of(&machine);
        let mut target = applier.plant(&machine, |_| true);
        let looked = applier.count.operations();
        apply(&mut target, &switches);
        let operations = applier.count.operations();
        drop(target);
        applier.end();
        (looked, operations)
    };
    let (mut tries, mut lost) = (0, Vec::new());
    for (name, value) in [("scheduler", "kyber"), ("read_ahead_kb", "64")] {
        for at in looked + 1..=operations {
            let machine = Machine::new();
            let applier = Applier::with_fault(&machine, Fault::Rival(at, name, value));
            let mut target = applier.plant(&machine, |_| true);
            let results = apply(&mut target, &switches);
            tries += 1;
            if has(&machine, name, value) {
                assert!(!external_changes(&applier, &target).is_empty(), "{name}={value} at {at}: {results:?}");
                let again = apply(&mut target, &["mq-deadline read_ahead_kb=512"]);
                assert!(again[0].starts_with("cannot set"), "{name}={value} at {at}: {results:?} {again:?}");
            } else {
                // A change between the read and the write cannot be detected.
                lost.push(format!("{name}={value} at {at}: {results:?}"));
            }
            drop(target);
            applier.end();
        }
    }
    assert!(lost.len() <= 4, "{} of {tries} were overwritten:\n{}", lost.len(), lost.join("\n"));
}

#[test]
fn originals_of_a_removed_device_are_not_those_of_the_next() {
    let machine = Machine::new();
    let applier = Applier::of(&machine);
    let mut target = applier.plant(&machine, |_| true);
    apply(&mut target, &["bfq read_ahead_kb=1024"]);
    assert!(!applier.client().originals(Some("sda")).unwrap().is_empty());
    machine.unplug();
    machine.plug(Disk::new("another", 7));
    assert!(applier.client().originals(Some("sda")).unwrap().is_empty());
    drop(target);
    applier.end();
}

#[test]
fn tunables_that_a_setting_does_not_name_have_their_original_values() {
    let machine = Machine::new();
    for (name, value) in
        [("nr_requests", "100"), ("iosched/fifo_batch", "7"), ("iosched/async_depth", "33"), ("read_ahead_kb", "512")]
    {
        machine.echo(value, name);
    }
    let before = machine.disk();
    let applier = Applier::of(&machine);
    let mut plant = applier.plant(&machine, |_| true);
    let found = plant.setting();
    assert_eq!(found.to_string(), "mq-deadline:fifo_batch=7,async_depth=33");
    apply(&mut plant, &["bfq nr_requests=8 read_ahead_kb=64 max_sectors_kb=256", "kyber nomerges=1"]);
    assert_eq!(
        (machine.cat("nr_requests"), machine.cat("read_ahead_kb"), machine.cat("max_sectors_kb")),
        ("128".into(), "512".into(), "1280".into())
    );
    plant.apply(Nanos::ZERO, &found).unwrap();
    let now = support::kernel::Disk { max_user_sectors_kb: 0, ..machine.disk() };
    assert_eq!(now, before, "even the tunables that the switches lost");
    drop(plant);
    applier.end();
    assert_eq!(machine.disk(), before);
}

#[test]
fn the_values_at_resume_are_restored() {
    let machine = Machine::new();
    let applier = Applier::of(&machine);
    let mut plant = applier.plant(&machine, |_| true);
    apply(&mut plant, &["kyber read_ahead_kb=64"]);
    machine.echo("1024", "read_ahead_kb");
    plant.applier().resume("sda").unwrap();
    plant.begin().unwrap();
    assert_eq!(apply(&mut plant, &["bfq", "none"]), ["bfq", "none"]);
    assert_eq!(machine.cat("read_ahead_kb"), "1024", "it is the administrator's");
    drop(plant);
    applier.end();
}

#[test]
fn a_range_is_the_devices_own() {
    let machine = Machine::new();
    let applier = Applier::of(&machine);
    let mut plant = applier.plant(&machine, |_| true);
    let largest = plant.tunables().into_iter().find(|tunable| tunable.name == "max_sectors_kb").unwrap();
    assert_eq!(largest.max.to_string(), machine.cat("max_hw_sectors_kb"), "what the driver takes");
    let said = apply(&mut plant, &["none max_sectors_kb=16384"]);
    assert!(said[0].contains(&largest.max.to_string()), "{said:?}");
    drop(plant);
    applier.end();
}

#[test]
fn what_is_not_allowed_is_neither_offered_nor_set() {
    let machine = Machine::new();
    let applier = Applier::of(&machine);
    let mut plant = applier.plant(&machine, |name| name == "scheduler" || name == "iosched/fifo_batch");
    assert!(plant.tunables().is_empty());
    let refused =
        apply(&mut plant, &["mq-deadline:read_expire=100", "kyber read_ahead_kb=64", "deadline", "mq-deadline:fifo_batch=4"]);
    assert!(refused[0].ends_with("iosched/read_expire may not be set here"), "{refused:?}");
    assert!(refused[1].ends_with("read_ahead_kb may not be set here"), "{refused:?}");
    assert!(refused[2].contains("deadline is not offered here"), "{refused:?}");
    assert_eq!(refused[3], "mq-deadline:fifo_batch=4");
    let fixed = applier.plant(&machine, |name| name == "read_ahead_kb");
    assert_eq!(fixed.schedulers().iter().map(|spec| spec.name).collect::<Vec<_>>(), ["mq-deadline"]);
    drop((plant, fixed));
    applier.end();
}

#[test]
fn if_a_device_cannot_be_set_the_machine_keeps_its_settings() {
    let machine = Machine::new();
    let applier = Applier::of(&machine);
    let mut plant = applier.plant(&machine, |_| true);
    apply(&mut plant, &["bfq"]);
    machine.echo("77", "iosched/timeout_sync");
    let refused = apply(&mut plant, &["bfq swappiness=10"]);
    assert!(refused[0].contains("changed externally"), "{refused:?}");
    assert_eq!(machine.vm()["swappiness"], 60);
    drop(plant);
    applier.end();
}

#[test]
fn everything_is_restored_when_the_acting_client_disconnects() {
    let machine = Machine::new();
    let before = (machine.disk(), machine.vm());
    let applier = Applier::of(&machine);
    let mut plant = applier.plant(&machine, |_| true);
    apply(&mut plant, &["bfq read_ahead_kb=64 swappiness=1"]);
    let mut looking = applier.client();
    assert!(!looking.originals(None).unwrap().is_empty());
    drop(plant);
    let began = std::time::Instant::now();
    while !looking.originals(None).unwrap().is_empty() {
        assert!(began.elapsed().as_secs() < 10, "nothing was put back");
    }
    assert_eq!((machine.disk(), machine.vm()), before);
    // A client that only read changes nothing by disconnecting.
    let mut other = applier.client();
    other.set(applier::Scope::Device("sda".to_owned()), &[("nomerges".to_owned(), "2".to_owned())], "a test").unwrap();
    drop(looking);
    assert_eq!(applier.client().originals(Some("sda")).unwrap()[0].ours.as_deref(), Some("2"));
    drop(other);
    applier.end();
}

#[test]
fn nonsense_gets_an_answer_and_does_no_harm() {
    use std::io::{BufRead, BufReader, Write};
    let machine = Machine::new();
    let applier = Applier::of(&machine);
    for nonsense in ["", "{", "{\"set\":{}}", "{\"reboot\":{}}", "[1,2]", &"x".repeat(300_000)] {
        let mut stream = UnixStream::connect(applier.socket()).unwrap();
        // The applier may have closed the connection before everything was written.
        let _ = writeln!(stream, "{nonsense}");
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap_or_default();
        assert!(answer.is_empty() || answer.contains("this is no request"), "{nonsense:.20}: {answer}");
    }
    assert_eq!(applier.client().can("sdz").unwrap_err().kind, ErrorKind::NoDevice);
    let error = Client::connect(&applier.folder.path().join("nothing")).unwrap_err();
    assert_eq!((error.kind, error.message.contains("is the applier running")), (ErrorKind::Unreachable, true));
    applier.end();
    assert_eq!(machine.disk(), Machine::new().disk());
}

#[test]
fn a_second_applier_does_not_take_the_socket_of_one_that_runs() {
    let machine = Machine::new();
    let first = Applier::of(&machine);
    let (_stop, ends) = UnixStream::pair().unwrap();
    let second = Options {
        files: Box::new(machine.process(Fault::Nothing).0),
        listen: Listen::At(first.socket()),
        log: |_| {},
        ..Options::new(OwnedFd::from(ends))
    };
    let error = applier::serve(second).unwrap_err();
    assert!(error.message.contains("another applier listens there"), "{error}");
    first.client().can("sda").unwrap();
    first.end();
}

#[test]
fn a_journal_that_others_may_write_to_is_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let (_stop, ends) = UnixStream::pair().unwrap();
    let listen = Listen::At(folder.path().join("socket"));
    let options = Options { journal: folder.path().to_owned(), listen, log: |_| {}, ..Options::new(OwnedFd::from(ends)) };
    let error = applier::serve(options).unwrap_err();
    assert!(error.kind == ErrorKind::Journal && error.message.contains("only the applier may write there"), "{error}");
}
