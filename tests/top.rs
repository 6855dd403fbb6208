//! `seekwise-agent top` under the real kernel: fio in two cgroups shares an emulated disk.
//!
//! Has the requirements of `agent.rs`, and needs fio and a writable cgroup v2 hierarchy; skipped with a message otherwise. Uses only
//! cgroups created here, and enables no controller.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod emulated;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use emulated::{Place, agent, can_run, emulate, signal, text, until};

/// User id of `nobody`.
const NOBODY: u32 = 65_534;
/// A name with an escape sequence that must not reach a terminal.
const ODD: &str = "neigh\u{1b}[31mbour \u{2028}x";

/// Root of cgroup v2; `None` if it is missing or not writable.
fn hierarchy() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let place = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?.split(' ').nth(1)?;
    let trial = Path::new(place).join(format!("seekwise-trial-{}", std::process::id()));
    fs::create_dir(&trial).ok()?;
    fs::remove_dir(&trial).ok()?;
    Some(PathBuf::from(place))
}

/// A cgroup with processes; both are removed on drop.
struct Group {
    folder: PathBuf,
    processes: Vec<Child>,
}

impl Group {
    fn new(parent: &Path, name: &str) -> Group {
        let folder = parent.join(name);
        fs::create_dir_all(&folder).unwrap();
        Group { folder, processes: Vec::new() }
    }

    /// Starts a shell command in the cgroup.
    fn start(&mut self, command: &str) {
        let script = format!("echo $$ >\"$1/cgroup.procs\" && {command}");
        let mut bash = Command::new("bash");
        bash.args(["-c", &script, "bash"]).arg(&self.folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.processes.push(bash.spawn().unwrap());
    }

    fn fio(&mut self, options: &str) {
        self.start(&format!("exec fio --name=load --direct=1 --time_based --runtime=600 --size=128m {options}"));
    }

    fn end(&mut self) {
        // fio's workers run in separate sessions.
        fs::write(self.folder.join("cgroup.kill"), "1").unwrap();
        for mut process in self.processes.drain(..) {
            let _ = process.wait();
        }
        until("the cgroup is empty", || fs::remove_dir(&self.folder).is_ok() || !self.folder.exists());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.folder.exists() {
            self.end();
        }
    }
}

/// The process that emulates the disk, killed on drop.
struct Emulator(Child);

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// A mounted ext4 filesystem on a disk.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(disk: &str) -> Mounted {
        let folder = tempfile::tempdir().unwrap();
        assert!(Command::new("mkfs.ext4").args(["-q", "-F", disk]).status().unwrap().success());
        assert!(Command::new("mount").arg(disk).arg(folder.path()).status().unwrap().success());
        Mounted(folder)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Rows of the last table.
fn rows(place: &Place, arguments: &[&str]) -> Vec<Value> {
    let output = place.run(&[&["top", "--json", "--count", "3"], arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    lines[2]["units"].as_array().unwrap().clone()
}

fn row<'a>(rows: &'a [Value], unit: &str) -> &'a Value {
    rows.iter().find(|row| row["unit"] == unit).unwrap_or_else(|| panic!("no row of {unit:?} in {rows:#?}"))
}

#[test]
fn top_shows_slow_units_and_their_causes() {
    let mount = hierarchy();
    let has_fio = Command::new("fio").arg("--version").output().is_ok_and(|output| output.status.success());
    let has_ext4 = Command::new("mkfs.ext4").arg("-V").output().is_ok();
    let version_2 = (mount.is_none(), "a hierarchy of cgroups of version 2 that may be written to");
    if !can_run(&[version_2, (!has_fio, "fio"), (!has_ext4, "mkfs.ext4")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (emulator, disk) = emulate(&["--size", "256M", "--disk", "sata7200"], folder.path());
    let _emulator = Emulator(emulator);
    let place = Place::new("");
    let base_name = format!("seekwise-top-{}", std::process::id());
    let base = Group::new(mount.as_ref().unwrap(), &base_name);
    let mut victim = Group::new(&base.folder, "victim");
    let mut neighbour = Group::new(&base.folder, ODD);
    let (victim_name, neighbour_name) = (format!("/{base_name}/victim"), format!("/{base_name}/{ODD}"));
    let on = ["--on", disk.as_str(), "--interval", "2s"];

    let idle = place.run(&["top", "--on", &disk, "--interval", "200ms", "--count", "1"]);
    assert!(text(&idle.stdout).ends_with("no requests\n"), "{}{}", text(&idle.stdout), text(&idle.stderr));

    victim.fio(&format!("--filename={disk} --rw=randread --bs=8k"));
    let alone = rows(&place, &on);
    let before = row(&alone, &victim_name);
    assert_eq!(before["cgroup"], victim_name.as_str());
    assert_eq!(before["behind"][0]["unit"], victim_name.as_str(), "{before}");
    assert_eq!(before["behind"][0]["share_percent"], 100.0, "{before}");
    // Little's law. The utilisation by one request at a time depends on how soon fio is scheduled to issue the next one.
    let (wait, iops) = (before["wait"].as_f64().unwrap(), before["iops"].as_f64().unwrap());
    let median_s = before["read"]["p50_ms"].as_f64().unwrap() / 1e3;
    assert!(wait > 0.7 * iops * median_s && wait < 2.0 * iops * median_s && wait < 1.05, "{before}");

    neighbour.fio(&format!("--filename={disk} --rw=randread --bs=512k --ioengine=libaio --iodepth=16"));
    let both = rows(&place, &on);
    let (after, other) = (row(&both, &victim_name), row(&both, &neighbour_name));
    let behind = &after["behind"][0];
    assert_eq!(behind["unit"], neighbour_name.as_str(), "{after}");
    assert!(behind["share_percent"].as_f64().unwrap() > 60.0, "{after}");
    let shares: f64 = after["behind"].as_array().unwrap().iter().map(|one| one["share_percent"].as_f64().unwrap()).sum();
    assert!((shares - 100.0).abs() < 1e-6, "{after}");
    assert!(after["read"]["p99_ms"].as_f64() > before["read"]["p99_ms"].as_f64(), "{before}\n{after}");
    assert!(other["read_mb_s"].as_f64().unwrap() > 10.0 && other["wait"].as_f64().unwrap() > 8.0, "{other}");
    assert_eq!(both[0]["unit"], neighbour_name.as_str(), "it waits most, for it asks for sixteen at a time");

    let by_slice = rows(&place, &[&on[..], &["--slice"]].concat());
    assert_eq!(row(&by_slice, &base_name)["behind"][0]["share_percent"], 100.0, "{by_slice:#?}");

    for columns in ["200", "60"] {
        let plain = place.command(&["top", "--on", &disk, "--count", "1"]).env("COLUMNS", columns).output().unwrap();
        let plain = text(&plain.stdout);
        assert!(!plain.contains('\u{1b}') && !plain.contains('\u{2028}'), "{plain:?}");
        assert!(plain.lines().all(|line| line.chars().count() <= columns.parse().unwrap()), "{plain}");
        assert!(columns == "60" || plain.contains("neigh\u{fffd}[31mbour \u{fffd}x"), "{plain}");
    }

    the_commands_of_the_page_work(&place, &disk);

    let mut top = place.command(&["top", "--on", &disk, "--interval", "500ms", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    let mut has_row = |unit: &str| lines.next().unwrap().unwrap().contains(unit);
    until("the victim is seen", || has_row("victim"));
    victim.end();
    until("a unit that vanished has no row any more", || !has_row("victim"));
    // Short-lived processes, most of which end before they are looked up.
    let mut short = Group::new(&base.folder, "short");
    short.start(&format!("for i in {{1..300}}; do dd if={disk} of=/dev/null bs=4k count=1 skip=$i iflag=direct; done"));
    until("short processes are seen", || has_row("short\"") || has_row("[ended: dd]"));
    until("they end", || !has_row("short\"") && !has_row("[ended: dd]"));
    signal(top.id(), "-INT");
    assert_eq!(top.wait().unwrap().code(), Some(0));

    // Without privileges the message has the reason and a remedy.
    let mut command = Command::new(agent());
    let refused = command.args(["top", "--on", &disk, "--count", "1"]).uid(NOBODY).current_dir("/").output();
    if let Ok(refused) = refused {
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("its requests cannot be seen") && said.contains("run it as root"), "{said}");
    }

    drop((short, neighbour, victim));
    calls_of_fsync_on_ext4_are_the_units_that_made_them(&place, &disk, &base);
    drop(base);
}

/// On ext4, flushes are issued by the journal.
fn calls_of_fsync_on_ext4_are_the_units_that_made_them(place: &Place, disk: &str, base: &Group) {
    let mounted = Mounted::new(disk);
    let mut log = Group::new(&base.folder, "log");
    let file = mounted.0.path().join("log");
    log.start(&format!(
        "exec fio --name=log --filename={} --rw=write --bs=8k --size=64m --fsync=1 --time_based --runtime=600",
        file.display()
    ));
    let rows = rows(place, &["--on", disk, "--interval", "1s"]);
    let row = row(&rows, &format!("/seekwise-top-{}/log", std::process::id()));
    // A journal commit takes at least one revolution of the disk.
    assert!(row["fsync"]["p50_ms"].as_f64().unwrap() > 1.0, "{row}");
    let behind = row["behind"].as_array().unwrap();
    assert!(behind.iter().any(|one| one["unit"] == "[journal]" && one["share_percent"].as_f64().unwrap() > 10.0), "{row}");
    assert!(row["wait"].as_f64().unwrap() < 1.05, "one process waits for one thing at a time: {row}");
    log.end();
}

/// Commands of `docs/protect.md`, on this disk and limited to one table.
fn the_commands_of_the_page_work(place: &Place, disk: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protect.md");
    let page = fs::read_to_string(page).unwrap();
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("seekwise-agent top ")).collect();
    assert!(commands.len() > 2, "{commands:?}");
    for command in commands {
        let mut arguments: Vec<&str> = command.split(' ').map(|word| if word == "sda" { disk } else { word }).collect();
        if let Some(at) = arguments.iter().position(|word| *word == "--count") {
            arguments.truncate(at);
        }
        let output = place.run(&[&["top"], &arguments[..], &["--count", "1"]].concat());
        assert!(output.status.success() && !output.stdout.is_empty(), "{command}: {}", text(&output.stderr));
    }
}

#[test]
fn wrong_arguments_are_refused_by_name() {
    for (arguments, said) in [
        (&["--interval", "1h"][..], "from 100ms to 3600s"),
        (&["--count", "0"], "--count"),
        (&["--on", "no-such-disk"], "no-such-disk"),
        (&["--on"], "--on"),
    ] {
        let output = Command::new(agent()).arg("top").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
}
