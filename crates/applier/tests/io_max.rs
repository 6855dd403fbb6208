//! Limits of cgroups under this machine's kernel, with kills and with a rival, on a loop device.
//!
//! Needs root, losetup, and the controller `io` in the unified hierarchy; says what is missing where it cannot run. `SEEKWISE_KILLS` and
//! `SEEKWISE_RIVAL_TRIES` say how often it is tried.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use applier::cgroup::{Allowed, Hierarchy};
use applier::journal::Journal;
use applier::sysfs::{RealFiles, Sysfs};
use applier::{Client, ErrorKind, Moment, Rules, Scope, SetRequest, Writer};

const KILLS: u64 = 100;
const TRIES: u64 = 300;

/// One test at a time: an applier locks cgroups.
static ALONE: Mutex<()> = Mutex::new(());
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A cgroup and a loop device of its own.
struct Place {
    group: PathBuf,
    neighbour: String,
    device: String,
    number: String,
    folder: tempfile::TempDir,
}

impl Place {
    /// `None`, with the reason on standard error, where limits cannot be had.
    fn new() -> Option<Place> {
        Place::make().map_err(|why| eprintln!("skipped: {why}")).ok()
    }

    fn make() -> Result<Place, String> {
        let folder = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy::find(&RealFiles, &Sysfs::real()).map_err(|error| error.to_string())?;
        let controllers = fs::read_to_string(hierarchy.mount.join("cgroup.controllers")).map_err(|error| error.to_string())?;
        if !controllers.split_whitespace().any(|controller| controller == "io") {
            return Err(format!(
                "the controller io is not in {}; blkio of version 1 is at {:?}",
                hierarchy.mount.display(),
                hierarchy.blkio
            ));
        }
        let name = format!("seekwise-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let group = hierarchy.mount.join(&name);
        fs::write(hierarchy.mount.join("cgroup.subtree_control"), "+io").map_err(|error| format!("echo +io: {error}"))?;
        fs::create_dir_all(group.join("neighbour")).map_err(|error| format!("{}: {error}", group.display()))?;
        fs::write(group.join("cgroup.subtree_control"), "+io").map_err(|error| format!("echo +io: {error}"))?;
        let file = folder.path().join("disk");
        fs::File::create(&file).unwrap().set_len(16 << 20).unwrap();
        let made =
            Command::new("losetup").args(["--find", "--show"]).arg(&file).output().map_err(|error| format!("losetup: {error}"))?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into_owned());
        }
        let device = String::from_utf8(made.stdout).unwrap().trim().trim_start_matches("/dev/").to_owned();
        let number = fs::read_to_string(format!("/sys/block/{device}/dev")).unwrap().trim().to_owned();
        let place = Place { group, neighbour: format!("/{name}/neighbour"), device, number, folder };
        let text = format!("[limits]\nneighbours = [\"{}\"]\nfloor_mb_s = 1\n", place.neighbour);
        fs::write(place.path("agent.toml"), text).unwrap();
        Ok(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.group.join("neighbour/io.max")
    }

    /// The limits of the device, as the kernel says.
    fn limits(&self) -> String {
        let text = fs::read_to_string(self.file()).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{} ", self.number)));
        line.unwrap_or("none").to_owned()
    }

    fn echo(&self, limits: &str) {
        fs::write(self.file(), format!("{} {limits}", self.number)).unwrap();
    }

    fn applier(&self) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seekwise-applier"));
        command.arg("--config").arg(self.path("agent.toml")).arg("--socket").arg(self.path("applier.sock"));
        command.arg("--journal").arg(self.path("journal")).args(["--quiet", "--ends-with-stdin"]);
        let mut applier = command.stdin(Stdio::piped()).spawn().unwrap();
        let began = Instant::now();
        // It listens first, and answers once everything from before is put back.
        while Client::connect(&self.path("applier.sock")).and_then(|mut client| client.originals(None)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(30) && applier.try_wait().unwrap().is_none(), "the applier listens");
            std::thread::sleep(Duration::from_millis(2));
        }
        applier
    }

    fn wanted(&self, limits: String) -> SetRequest {
        let values = vec![(format!("io.max {}", self.device), limits)];
        SetRequest { scope: Scope::Cgroup(self.neighbour.clone()), values, expected: Vec::new(), why: "a test".to_owned() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &format!("/dev/{}", self.device)]).status();
        let _ = fs::remove_dir(self.group.join("neighbour"));
        let _ = fs::remove_dir(&self.group);
    }
}

/// A number below this one, the same for the same seed.
fn draw(seed: u64, below: u64) -> u64 {
    let mixed = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) % below
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("Uid:\t0\t"))
}

fn tries(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|tries| tries.parse().ok()).unwrap_or(usual)
}

#[test]
fn killed_at_any_moment_no_limit_is_left() {
    let _alone = ALONE.lock();
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let Some(place) = Place::new() else { return };
    let before = "rbps=max wbps=90000000 riops=max wiops=max";
    place.echo(before);
    let (mut limited, mut changes) = (0, 0);
    for round in 0..tries("SEEKWISE_KILLS", KILLS) {
        let mut applier = place.applier();
        // An agent, which is gone when its connection is.
        let stops = AtomicBool::new(false);
        let socket = place.path("applier.sock");
        let done = std::thread::scope(|scope| {
            let agent = scope.spawn(|| {
                let Ok(mut client) = Client::connect(&socket) else { return 0 };
                let mut done = 0;
                while !stops.load(Ordering::Relaxed) {
                    let limits = format!("wbps={} riops={}", 1_000_000 * (1 + done % 70), 1 + done % 9);
                    // The last one fails where its applier is killed.
                    if let Err(error) = client.set_if(place.wanted(limits)) {
                        assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
                        break;
                    }
                    done += 1;
                }
                done
            });
            std::thread::sleep(Duration::from_micros(draw(round, 20_000)));
            let kills_applier = round % 3 != 0;
            if kills_applier {
                applier.kill().unwrap();
                limited += u32::from(place.limits() != before);
            }
            stops.store(true, Ordering::Relaxed);
            agent.join().unwrap()
        });
        changes += done;
        if round % 3 == 0 {
            // Only the agent was: its applier puts everything back and goes on.
            let began = Instant::now();
            while place.limits() != before {
                assert!(began.elapsed() < Duration::from_secs(2), "round {round}: {}", place.limits());
                std::thread::sleep(Duration::from_millis(1));
            }
            applier.kill().unwrap();
        }
        assert_eq!(applier.wait().unwrap().signal(), Some(9));
        let mut next = place.applier();
        assert_eq!(place.limits(), before, "round {round}: after the next applier has begun");
        assert!(!place.path("journal/cgroup.journal").exists(), "round {round}");
        drop(next.stdin.take());
        assert!(next.wait().unwrap().success());
    }
    println!("{changes} changes; {limited} kills left a limit, which the next applier put back");
    assert!(limited > 0, "no kill came while there was a limit");
}

#[test]
fn a_rivals_limit_stays() {
    let _alone = ALONE.lock();
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let Some(place) = Place::new() else { return };
    let cgroups = Allowed { names: vec![place.neighbour.clone()], floor_bytes_per_s: 1_000_000, ..Allowed::default() };
    let journal = Journal::open(&mut RealFiles, &place.path("journal")).unwrap();
    let mut writer = Writer::new(Sysfs::real(), Box::new(RealFiles), journal, Rules { cgroups, ..Rules::default() });
    let (mut lost, mut noticed) = (0, 0);
    let all = tries("SEEKWISE_RIVAL_TRIES", TRIES);
    for round in 0..all {
        place.echo("rbps=max wbps=max riops=max wiops=max");
        let theirs = format!("rbps={} wbps=max riops=max wiops=max", 3_000_000 + round);
        let has_written = AtomicBool::new(false);
        let mut is_foreign = false;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut file = fs::OpenOptions::new().write(true).open(place.file()).unwrap();
                let until = Instant::now() + Duration::from_micros(draw(round, 3_000));
                while Instant::now() < until {}
                file.write_all(format!("{} {theirs}", place.number).as_bytes()).unwrap();
                has_written.store(true, Ordering::Relaxed);
            });
            let mut change = 0;
            while !has_written.load(Ordering::Relaxed) && !is_foreign {
                change += 1;
                // Below theirs, so that a limit of theirs never looks like ours.
                let set = writer.set(Moment::default(), &place.wanted(format!("wbps={}", 1_000_000 + change)));
                is_foreign =
                    set.is_err_and(|error| matches!(error.kind, ErrorKind::Foreign | ErrorKind::Kernel | ErrorKind::Stale));
            }
        });
        is_foreign |= !writer.foreign(&place.neighbour).unwrap().is_empty();
        noticed += u64::from(is_foreign);
        writer.restore(Some(&place.neighbour)).unwrap();
        let stays = place.limits() == theirs;
        lost += u64::from(!stays);
        assert!(stays || !is_foreign, "round {round}: {} and not {theirs}", place.limits());
        writer.resume(&place.neighbour).unwrap();
    }
    println!("{lost} of {all} were overwritten unnoticed, {noticed} were noticed");
    assert!(lost * 20 < all, "{lost} of {all} were overwritten");
    // The value before our first limit is the original.
    assert!(noticed * 2 > all, "only {noticed} of {all} were noticed");
    assert!(!Path::new(&place.path("journal/cgroup.journal")).exists());
}
