//! A guarantee to a cgroup under this machine's kernel, next to a neighbour that floods an emulated disk, with and without protection; all
//! limits are restored.
//!
//! Has the requirements of `agent.rs`, and needs fio and the controller `io` in cgroup v2, which it enables for its own cgroups; skipped with a
//! message otherwise.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

mod emulated;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use applier::cgroup::Hierarchy;
use applier::sysfs::{RealFiles, Sysfs};
use emulated::{Place, can_run, emulate, signal, until};

/// A cgroup with two children: one with a guarantee, and a neighbour.
struct Groups {
    folder: PathBuf,
    name: String,
}

impl Groups {
    /// Creates the cgroups; `None`, with the reason on standard error, if limits are not supported.
    fn new() -> Option<Groups> {
        Groups::make().map_err(|why| eprintln!("skipped: {why}")).ok()
    }

    fn make() -> Result<Groups, String> {
        let hierarchy = Hierarchy::find(&RealFiles, &Sysfs::real()).map_err(|error| error.to_string())?;
        let mount = hierarchy.mount.display().to_string();
        let controllers = fs::read_to_string(hierarchy.mount.join("cgroup.controllers")).unwrap_or_default();
        if !controllers.split_whitespace().any(|controller| controller == "io") {
            return Err(format!("needs the controller io in {mount}; version 1 has it at {:?}", hierarchy.blkio));
        }
        let enable = |folder: &Path| {
            let file = folder.join("cgroup.subtree_control");
            fs::write(&file, "+io").map_err(|error| format!("echo +io > {}: {error}", file.display()))
        };
        enable(&hierarchy.mount)?;
        let name = format!("seekwise-protect-{}", std::process::id());
        let groups = Groups { folder: hierarchy.mount.join(&name), name };
        for group in ["database", "backup"] {
            fs::create_dir_all(groups.folder.join(group)).map_err(|error| error.to_string())?;
        }
        enable(&groups.folder)?;
        Ok(groups)
    }

    fn path(&self, group: &str) -> String {
        format!("/{}/{group}", self.name)
    }

    /// Limits of a cgroup on a device according to the kernel; empty without any.
    fn limits(&self, group: &str) -> String {
        fs::read_to_string(self.folder.join(group).join("io.max")).unwrap()
    }

    /// Runs fio in one of the cgroups.
    fn fio(&self, group: &str, arguments: &str) -> Child {
        let procs = self.folder.join(group).join("cgroup.procs");
        let line = format!("echo $$ > {} && exec fio --name=job --direct=1 --output-format=json {arguments}", procs.display());
        Command::new("sh").args(["-c", &line]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for group in ["database", "backup", ""] {
            let _ = fs::remove_dir(self.folder.join(group));
        }
    }
}

/// Rate of a reader next to the flood in requests per second, measured some seconds after the start of both.
fn reads_next_to_a_flood(groups: &Groups, device: &str) -> f64 {
    let times = "--time_based --runtime=8 --ramp_time=4";
    let flood = groups.fio("backup", &format!("--filename={device} --rw=write --bs=1M --ioengine=libaio --iodepth=16 {times}"));
    let reader = groups.fio("database", &format!("--filename={device} --rw=randread --bs=8k --ioengine=psync {times}"));
    let text = String::from_utf8(reader.wait_with_output().unwrap().stdout).unwrap();
    let _ = flood.wait_with_output();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    result["jobs"][0]["read"]["iops"].as_f64().unwrap()
}

/// A running `seekwise-agent protect` with its output.
struct Agent {
    process: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Agent {
    fn new(place: &Place, groups: &Groups, device: &str) -> Agent {
        let (database, backup, journal) = (groups.path("database"), groups.path("backup"), place.path("journal"));
        let device = device.trim_start_matches("/dev/");
        let mut command = place.command(&[
            "protect",
            &database,
            "--at-least",
            "80iops",
            "--read-p99",
            "60ms",
            "--on",
            device,
            "--limit",
            &backup,
            "--journal",
            &journal,
        ]);
        let mut process = command.env("COLUMNS", "400").stdout(Stdio::piped()).spawn().unwrap();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let (lines, heard) = (BufReader::new(process.stdout.take().unwrap()).lines(), said.clone());
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| heard.lock().unwrap().push(line)));
        let agent = Agent { process, said };
        until("it protects", || agent.said().contains("Protecting"));
        agent
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }
}

#[test]
fn a_promise_is_kept_during_a_flood_and_every_limit_comes_back() {
    let has_fio = Command::new("fio").arg("--version").output().is_ok();
    if !can_run(&[(!has_fio, "fio")]) {
        return;
    }
    let Some(groups) = Groups::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (mut emulator, device) = emulate(&["--size", "1G", "--disk", "sata7200"], folder.path());
    let place = Place::new("");
    let before = groups.limits("backup");
    let alone = reads_next_to_a_flood(&groups, &device);
    let mut agent = Agent::new(&place, &groups, &device);
    let protected = reads_next_to_a_flood(&groups, &device);
    let said = agent.said();
    println!("{alone:.1} reads/s unprotected, {protected:.1} protected\n{said}");
    assert!(said.contains(&format!("{} is limited to", groups.path("backup"))), "{said}");
    assert!(protected > 5.0 * alone && protected > 60.0, "{alone} unprotected, {protected} protected: {said}");
    signal(agent.process.id(), "-INT");
    assert!(agent.process.wait().unwrap().success());
    assert_eq!(groups.limits("backup"), before, "{}", agent.said());
    // If it is killed while a limit is active, its applier restores everything within two seconds.
    let mut agent = Agent::new(&place, &groups, &device);
    let load = std::thread::spawn({
        let (folder, name, device) = (groups.folder.clone(), groups.name.clone(), device.clone());
        move || {
            let groups = std::mem::ManuallyDrop::new(Groups { folder, name });
            reads_next_to_a_flood(&groups, &device)
        }
    });
    until("the flood is limited", || groups.limits("backup") != before);
    agent.process.kill().unwrap();
    let killed = Instant::now();
    until("the limit is gone", || groups.limits("backup") == before);
    assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
    agent.process.wait().unwrap();
    load.join().unwrap();
    signal(emulator.id(), "-TERM");
    emulator.wait().unwrap();
}
