//! `seekwise learn iocost` on an emulated disk under this machine's kernel: the kernel accepts its lines, and shares are closer to the weights
//! than with the kernel's own model.
//!
//! Has the requirements of `emulate.rs`, and needs mkfs.ext4 and io.cost in cgroup v2; skipped with a message otherwise.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

mod program;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use program::{PROGRAM, refused, text};
use serde_json::Value;

/// The reader is entitled to three quarters of the device.
const WEIGHTS: [(&str, u32); 2] = [("reader", 300), ("stream", 100)];
const READERS_SHARE: f64 = 0.75;

fn run(command: &str) -> Output {
    Command::new("sh").args(["-c", command]).stdin(Stdio::null()).output().unwrap()
}

fn succeeds(command: &str) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Root of the cgroup v2 hierarchy with the controller `io`, or why there is none.
fn hierarchy() -> Result<PathBuf, String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"));
    let mount = PathBuf::from(mount.and_then(|line| line.split(' ').nth(1)).ok_or("needs a cgroup2 hierarchy")?);
    fs::write(mount.join("cgroup.subtree_control"), "+io").map_err(|error| format!("needs the controller io: {error}"))?;
    let programs = ["fio --version", "losetup --version", "mkfs.ext4 -V"];
    let missing = programs.iter().find(|program| !run(program).status.success());
    let missing = missing.map(|program| program.split(' ').next().unwrap());
    if let Some(missing) = missing.or((!Path::new("/dev/fuse").exists()).then_some("/dev/fuse")) {
        return Err(format!("needs {missing}"));
    }
    if mount.join("io.cost.model").exists() { Ok(mount) } else { Err("needs CONFIG_BLK_CGROUP_IOCOST".to_owned()) }
}

/// An emulated disk with a filesystem, and two cgroups with weights; all are removed on drop.
struct Scene {
    emulator: Child,
    device: String,
    number: String,
    cgroups: PathBuf,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(cgroups: PathBuf, disk: &[&str]) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let backing = folder.path().join("backing");
        let mounted = folder.path().join("mounted");
        [&backing, &mounted].iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let mut emulator = Command::new(program::sibling("seekwise-emulate"));
        emulator.arg("--attach").args(disk).arg(&backing).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut emulator = emulator.spawn().unwrap();
        let mut lines = BufReader::new(emulator.stdout.take().unwrap()).lines();
        let device = lines.next().unwrap().unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        let number = fs::read_to_string(format!("/sys/block/{}/dev", device.trim_start_matches("/dev/"))).unwrap();
        let scene = Scene { emulator, device, number: number.trim().to_owned(), cgroups, folder };
        let (device, mounted) = (&scene.device, mounted.display());
        succeeds(&format!(
            "mkfs.ext4 -q -N 64 -E lazy_itable_init=0,lazy_journal_init=0 -J size=4 {device} && mount {device} {mounted}"
        ));
        for (name, weight) in WEIGHTS {
            let group = scene.group(name);
            fs::create_dir(&group).unwrap();
            fs::write(group.join("io.weight"), format!("{weight}")).unwrap();
        }
        scene
    }

    fn mounted(&self) -> String {
        self.folder.path().join("mounted").display().to_string()
    }

    fn group(&self, name: &str) -> PathBuf {
        self.cgroups.join(format!("seekwise-iocost-{}-{name}", std::process::id()))
    }

    fn write(&self, file: &str, line: &str) {
        fs::write(self.cgroups.join(file), line).unwrap_or_else(|error| panic!("{file}: {line}: {error}"));
    }

    /// The disk's line of a cgroup file, without the device number.
    fn line(&self, file: &str) -> String {
        let text = fs::read_to_string(self.cgroups.join(file)).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{} ", self.number)));
        line.unwrap_or_default().to_owned()
    }

    /// Runs fio in a cgroup; returns requests per second.
    fn fio(&self, group: Option<&str>, arguments: &str) -> impl FnOnce() -> f64 + use<> {
        let procs = group.map(|group| format!("echo $$ > {}/cgroup.procs && ", self.group(group).display()));
        let line = format!(
            "{}exec fio --name=job --direct=1 --ioengine=libaio --time_based --runtime=6 --ramp_time=3 --filename={} \
             --output-format=json {arguments}",
            procs.unwrap_or_default(),
            self.device
        );
        let child = Command::new("sh").args(["-c", &line]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        move || {
            let said = text(&child.wait_with_output().unwrap().stdout);
            let result: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
            result["jobs"][0]["read"]["iops"].as_f64().unwrap()
        }
    }

    /// The reader's share of the device: small random reads compete with large sequential ones, each normalised by its rate alone.
    fn readers_share(&self, alone: [f64; 2]) -> f64 {
        let both = [self.fio(Some("reader"), LOADS[0]), self.fio(Some("stream"), LOADS[1])];
        let [reader, stream] = both.map(|fio| fio());
        let (reader, stream) = (reader / alone[0], stream / alone[1]);
        println!("the reader gets {reader:.3} of its rate alone, the stream {stream:.3}");
        reader / (reader + stream)
    }
}

/// Parameters of fio: small random reads, and large sequential ones.
const LOADS: [&str; 2] = ["--rw=randread --bs=4k --iodepth=32", "--rw=read --bs=512k --iodepth=8"];

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::write(self.cgroups.join("io.cost.qos"), format!("{} enable=0", self.number));
        let _ = run(&format!("umount {}", self.mounted()));
        let _ = run(&format!("kill -TERM {}", self.emulator.id()));
        let _ = self.emulator.wait();
        for (name, _) in WEIGHTS {
            let _ = fs::remove_dir(self.group(name));
        }
    }
}

fn learn(scene: &Scene, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["learn", "iocost", &scene.device]).args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_kernel_takes_the_lines_and_shares_come_near_their_weights() {
    let cgroups = match hierarchy() {
        Ok(cgroups) => cgroups,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let scene = Scene::new(cgroups, &["--disk", "cloud-volume", "--size", "2G"]);

    // Twice the space is required, and the folder must be on the device.
    let said = text(&learn(&scene, &["--size", "1500M"]).stderr);
    assert!(said.contains("only where there is twice as much"), "{said}");
    let said = text(&learn(&scene, &["--scratch", "/proc"]).stderr);
    assert!(said.contains("/proc: is on a filesystem without a single block device"), "{said}");

    let output = learn(&scene, &["--for", "20", "--size", "64M", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let learned: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    println!("{}\n{}", learned["io_cost_model"], learned["io_cost_qos"]);
    println!("{}", serde_json::to_string(&learned["learned"]).unwrap());
    assert!(fs::read_dir(scene.mounted()).unwrap().all(|entry| entry.unwrap().file_name() == "lost+found"), "nothing is left");

    let alone = LOADS.map(|load| scene.fio(None, load)());
    // The kernel's own model.
    scene.write("io.cost.model", &format!("{} ctrl=auto", scene.number));
    scene.write("io.cost.qos", &format!("{} enable=1 ctrl=auto", scene.number));
    let by_default = scene.readers_share(alone);
    // While io.cost is enabled, only its own model could be measured.
    let said = text(&learn(&scene, &["--size", "64M"]).stderr);
    assert!(said.contains("io.cost is enabled") && said.contains("enable=0"), "{said}");

    for (file, key) in [("io.cost.model", "io_cost_model"), ("io.cost.qos", "io_cost_qos")] {
        let line = learned[key].as_str().unwrap();
        scene.write(file, line);
        assert_eq!(format!("{} {}", scene.number, scene.line(file)), line, "read back");
    }
    let by_model = scene.readers_share(alone);
    println!(
        "the reader's share: {by_default:.3} by the kernel's model, {by_model:.3} by the learned one, {READERS_SHARE} by weight"
    );
    assert!((by_model - READERS_SHARE).abs() < (by_default - READERS_SHARE).abs(), "{by_model} instead of {by_default}");
}

#[test]
fn what_cannot_be_learned_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv").display().to_string();
    fs::write(&trace, "time_ms,lba,sectors,op\n0,0,8,read\n").unwrap();
    for (arguments, reason) in [
        (&[trace.as_str()][..], "response times are needed"),
        (&[&trace, "--for", "60"], "--for: is for a block device"),
        (&["/dev/no-such-disk"], "no block device"),
        (&["/dev/no-such-disk", "--device", "1"], "--device: is for a trace"),
        (&[&trace, "--capacity-gb", "0"], "is not within"),
        (&[], "DEVICE|TRACE"),
    ] {
        let said = refused(&[&["learn", "iocost"], arguments].concat());
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
    assert!(refused(&["learn", "device"]).contains("it is `seekwise disk learn` now"));
    assert!(refused(&["learn", "train", "x.csv"]).contains("it is `seekwise-lab learn` now"));
}

#[test]
fn a_trace_is_enough_for_the_figures_of_its_disk() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv").display().to_string();
    let mut lines = "time_ms,lba,sectors,op,response_ms\n".to_owned();
    let mut at = 0.0;
    for index in 0..1_200_u64 {
        let (op, response) = (["read", "read", "write"][index as usize % 3], 4.0 + (index * 37 % 160) as f64 / 10.0);
        lines += &format!("{at:.3},{},8,{op},{response}\n", index * 7_919_000 % 16_000_000);
        at += response + 2.0;
    }
    fs::write(&trace, lines).unwrap();
    let output = program::run(&["learn", "iocost", &trace, "--model", "ACME 1"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    println!("{said}");
    assert!(said.contains("MAJ:MIN ctrl=user model=linear rbps=") && said.contains("block:*:name:ACME_1:fwrev:*:"), "{said}");
    assert_eq!(program::succeeds(&["learn", "iocost", &trace, "--as", "qos"]).split(' ').next(), Some("MAJ:MIN"));
    let random: f64 =
        said.lines().find(|line| line.contains("rrandiops ")).unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!((60.0..400.0).contains(&random), "{said}");
}
