//! `seekwise check`: finds the configuration files that set block I/O attributes, and checks whether each setting is active.
//!
//! ```text
//! kernel.rs, sysctl.rs, udev.rs, tmpfiles.rs, tuned.rs, tlp.rs ──▶ setting::Found ──▶ verdict ──▶ output
//!                 read through root.rs                                     ▲ state.rs: the kernel's values now
//! ```

mod kernel;
mod output;
mod pattern;
mod root;
mod setting;
mod state;
mod sysctl;
mod tlp;
mod tmpfiles;
mod tuned;
mod udev;
mod verdict;
mod worth;

use std::io;
use std::path::PathBuf;

use anyhow::{bail, ensure};
use experiment::comparison::Experiment;
use linux::topology::{Device, TopologyError, devices};
use terminal::{Failed, Terminal, eprint_line, print};
use testbed::pool::Workers;

use crate::arguments::DISK;
use root::Root;
use setting::{Disk, Found};
use state::State;
use worth::Worths;

/// Arguments of `seekwise check`.
#[derive(clap::Args)]
pub struct CheckArguments {
    /// Devices, as in sda; the machine's settings and those of devices that are not there are shown only without [default: all]
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,
    /// The folder that is the root of the system: a mounted image, or a copy of its /etc, /usr/lib, /run, /proc and /sys
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    root: PathBuf,
    /// Also simulate this load on --disk, and show what each setting in force is worth: the response time without it
    #[arg(long, value_name = "TRACE|JOB.fio|WORKLOAD")]
    trace: Option<PathBuf>,
    /// The disk to simulate: a profile's name (`seekwise disk list`) or file, or an array [default: sata7200]
    #[arg(long, value_name = "NAME|FILE|ARRAY", requires = "trace")]
    disk: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &CheckArguments) -> anyhow::Result<()> {
    ensure!(args.root.is_dir(), "--root {}: should be a folder", args.root.display());
    let root = Root::at(&args.root);
    let devices = wanted(args, &root)?;
    let disks: Vec<Disk> = devices.iter().map(|device| Disk { device, root: &root }).collect();
    let mut found = find(&root, &disks);
    let mut judged = verdict::judge(&mut found, &disks, &State::of_machine(&root));
    if !args.devices.is_empty() {
        judged.retain(|judged| judged.setting.device.is_some());
    }
    found.warnings.iter().for_each(|warning| eprint_line(warning));
    let worths = match &args.trace {
        Some(load) => {
            let experiment = Experiment::of_jobs(load, args.disk.as_deref().unwrap_or(DISK));
            worth::simulate(&experiment, &judged, &disks, Workers::new(&Terminal::default(), None))?
        }
        None => Worths::default(),
    };
    let text = match args.json {
        true => output::json(&judged, &found.warnings, &worths)?,
        false => output::text(&judged, &disks, &worths, terminal::style().0),
    };
    print(&text)?;
    match output::findings(&judged) {
        0 => Ok(()),
        1 => Err(Failed("1 setting does not do what it says".to_owned()).into()),
        findings => Err(Failed(format!("{findings} settings do not do what they say")).into()),
    }
}

/// The block devices to check: all, or those named.
fn wanted(args: &CheckArguments, root: &Root) -> anyhow::Result<Vec<Device>> {
    let all = match devices(&root.sysfs()) {
        Ok(all) => all,
        // The root is an image of a system that is not running.
        Err(TopologyError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if args.devices.is_empty() {
        return Ok(all);
    }
    for name in &args.devices {
        let bare = name.trim_start_matches("/dev/");
        if !all.iter().any(|device| device.name == bare) {
            let known: Vec<&str> = all.iter().map(|device| device.name.as_str()).collect();
            bail!("{name}: is no block device below {}; there are {}", args.root.display(), known.join(", "));
        }
    }
    let is_named = |device: &Device| args.devices.iter().any(|name| name.trim_start_matches("/dev/") == device.name);
    Ok(all.into_iter().filter(is_named).collect())
}

/// Reads all configurations.
fn find(root: &Root, disks: &[Disk]) -> Found {
    let mut found = Found::default();
    kernel::read(root, &mut found);
    sysctl::read(root, &mut found);
    udev::read(root, disks, &mut found);
    tmpfiles::read(root, disks, &mut found);
    tuned::read(root, disks, &mut found);
    tlp::read(root, disks, &mut found);
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use rand::{Rng as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// The parts of the files, in any order.
    const PIECES: &[&str] = &[
        "KERNEL",
        "==",
        "=",
        "\"",
        "sd*",
        "{",
        "}",
        "[",
        "]",
        "ATTR{queue/scheduler}",
        "GOTO",
        "LABEL",
        "x",
        ",",
        " ",
        "\\",
        "\n",
        "\n",
        "#",
        "elevator=",
        "w /sys/block/sda/queue/scheduler",
        " - - - - ",
        "[disk]\n",
        "include=p\n",
        "readahead=>",
        "DISK_IOSCHED=",
        "'",
        "vm.dirty_ratio",
        "é",
        "\u{0}",
        "RUN+=\"echo > /queue/",
        "[!",
        "1",
        "ENV",
        "|",
        "devices=!",
        "${x}",
        "DISK_DEVICES+=",
    ];

    #[test]
    fn no_text_makes_it_panic() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (path, text) in [("dev", "8:0"), ("size", "8"), ("queue/scheduler", "[none] bfq"), ("mq/0/nr_tags", "1")] {
            write(&format!("sys/block/sda/{path}"), text);
        }
        write("etc/tuned/active_profile", "p");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let files =
            ["udev/rules.d/a.rules", "sysctl.d/a.conf", "tmpfiles.d/a.conf", "tuned/p/tuned.conf", "tlp.conf", "kernel/cmdline"];
        let mut judged = 0;
        for _ in 0..400 {
            for file in files {
                let length = random.random_range(0..60);
                let text: String = (0..length).map(|_| PIECES[random.random_range(0..PIECES.len())]).collect();
                write(&format!("etc/{file}"), &text);
            }
            let root = Root::at(folder.path());
            let devices = devices(&root.sysfs()).unwrap();
            let disks: Vec<Disk> = devices.iter().map(|device| Disk { device, root: &root }).collect();
            let mut found = find(&root, &disks);
            let verdicts = verdict::judge(&mut found, &disks, &State::of_machine(&root));
            judged += verdicts.len();
            output::text(&verdicts, &disks, &Worths::default(), Some(70));
            output::json(&verdicts, &found.warnings, &Worths::default()).unwrap();
        }
        assert!(judged > 100, "the texts make settings, too: {judged}");
    }
}
