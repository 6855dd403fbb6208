//! End-to-end tests of `seekwise check` on small systems below a folder.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::program::{refused, run, succeeds, text};
use serde_json::Value;

const MIXED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/mixed.parquet");

/// A system below a folder.
struct System(tempfile::TempDir);

impl System {
    /// Linux 6.18 with `sda`, a rotational disk under mq-deadline, and `nvme0n1`, flash with four hardware queues under none.
    fn new() -> System {
        let system = System(tempfile::tempdir().unwrap());
        system.write("proc/sys/kernel/osrelease", "6.18.0\n");
        system.disk("sda", "8:0", 1, 1, "none [mq-deadline] kyber bfq");
        system.disk("nvme0n1", "259:0", 0, 4, "[none] mq-deadline kyber bfq");
        system.write("sys/block/sda/queue/iosched/fifo_batch", "16\n");
        system
    }

    fn disk(&self, name: &str, number: &str, rotational: u8, queues: u32, schedulers: &str) {
        let file = |path: &str, text: &str| self.write(&format!("sys/block/{name}/{path}"), format!("{text}\n"));
        file("dev", number);
        file("size", "1000000");
        file("queue/rotational", &rotational.to_string());
        file("queue/scheduler", schedulers);
        file("queue/read_ahead_kb", "128");
        file("queue/nr_requests", "256");
        (0..queues).for_each(|queue| file(&format!("mq/{queue}/nr_tags"), "32"));
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Adds a rules file of the administrator.
    fn rules(&self, rules: &str) {
        self.write("etc/udev/rules.d/60-io.rules", rules);
    }

    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [&["check", "--root", self.path().to_str().unwrap()], more].concat()
    }

    /// The JSON output and the exit code, which must be 1 if and only if there are findings.
    fn json(&self) -> Value {
        let output = run(&self.arguments(&["--json"]));
        let json: Value = serde_json::from_str(&text(&output.stdout)).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
        let expected = i32::from(json["findings"] != 0);
        assert_eq!(output.status.code(), Some(expected), "{json:#}");
        json
    }

    /// Device, name and verdict of all settings.
    fn verdicts(&self) -> Vec<String> {
        let json = self.json();
        let row = |row: &Value| {
            let word = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
            format!("{} {}={}: {}", word("device"), word("setting"), word("value"), word("text"))
        };
        json["settings"].as_array().unwrap().iter().map(row).collect()
    }

    /// Asserts that there is one setting, with this verdict.
    #[track_caller]
    fn expect(&self, expected: &str) {
        let verdicts = self.verdicts();
        assert!(verdicts.iter().any(|verdict| verdict.contains(expected)), "{expected}\n{verdicts:#?}");
    }

    fn warnings(&self) -> String {
        self.json()["warnings"].as_array().unwrap().iter().map(|warning| warning.as_str().unwrap().to_owned() + "\n").collect()
    }
}

#[test]
fn a_system_that_sets_nothing_has_nothing_to_say() {
    let system = System::new();
    assert_eq!(succeeds(&system.arguments(&[])), "Nothing sets anything about block I/O.\n");
    assert_eq!(system.verdicts(), [""; 0]);
}

#[test]
fn the_guide_shows_what_is_printed_of_the_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let example = root.join("examples/system");
    let output = run(&["check", "--root", example.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let guide = fs::read_to_string(root.join("docs/guide/administrator.md")).unwrap();
    assert!(guide.contains(text(&output.stdout).trim_end()), "the guide is out of date: {}", text(&output.stdout));
}

#[test]
fn a_rule_that_the_kernel_follows_is_active() {
    let system = System::new();
    system.rules(
        "ACTION==\"add|change\", KERNEL==\"sd*\", ATTR{queue/rotational}==\"1\", \\\n  ATTR{queue/scheduler}=\"mq-deadline\"\n",
    );
    assert_eq!(system.verdicts(), ["sda scheduler=mq-deadline: in force"]);
    let shown = succeeds(&system.arguments(&[]));
    assert!(shown.contains("sda: rotational, mq-deadline is active"), "{shown}");
    assert!(shown.contains("/etc/udev/rules.d/60-io.rules:1  in force"), "{shown}");
}

#[test]
fn a_value_that_changed_since_is_not_active() {
    let system = System::new();
    system.rules("KERNEL==\"sda\", ATTR{queue/scheduler}=\"bfq\", ATTR{queue/read_ahead_kb}=\"1024\"\n");
    system.expect("sda scheduler=bfq: not in force: mq-deadline is");
    system.expect("sda read_ahead_kb=1024: not in force: 128 is");
    assert_eq!(system.json()["findings"], 2);
}

#[test]
fn of_two_rules_for_one_attribute_the_later_one_overrides() {
    let system = System::new();
    system.write("usr/lib/udev/rules.d/60-vendor.rules", "KERNEL==\"sd[a-z]\", ATTR{queue/scheduler}=\"bfq\"\n");
    system.write("etc/udev/rules.d/90-own.rules", "# mine\n\nKERNEL==\"sda\", ATTR{queue/scheduler}=\"mq-deadline\"\n");
    system.expect("sda scheduler=bfq: overridden by /etc/udev/rules.d/90-own.rules:3");
    system.expect("sda scheduler=mq-deadline: in force");
    assert_eq!(system.json()["findings"], 0, "to override a vendor's rule is what /etc is for");
}

#[test]
fn a_file_in_etc_replaces_the_vendors_file_of_its_name_and_dev_null_masks_it() {
    let system = System::new();
    for name in ["60-a.rules", "60-b.rules"] {
        system.write(&format!("usr/lib/udev/rules.d/{name}"), "KERNEL==\"sda\", ATTR{queue/scheduler}=\"bfq\"\n");
    }
    system.write("etc/udev/rules.d/60-a.rules", "KERNEL==\"sda\", ATTR{queue/nr_requests}=\"256\"\n");
    symlink("/dev/null", system.path().join("etc/udev/rules.d/60-b.rules")).unwrap();
    assert_eq!(system.verdicts(), ["sda nr_requests=256: in force"]);
}

#[test]
fn rules_are_skipped_by_goto_and_properties_that_earlier_ones_set_are_heeded() {
    let system = System::new();
    system.rules(
        "SUBSYSTEM!=\"block\", GOTO=\"end\"\n\
         ATTR{queue/scheduler}==\"none\", GOTO=\"end\"\n\
         KERNEL==\"sd*\", ENV{IS_DISK}=\"1\"\n\
         KERNEL==\"nvme*\", ATTR{queue/read_ahead_kb}=\"128\", GOTO=\"end\"\n\
         ENV{IS_DISK}==\"1\", ATTR{queue/nr_requests}=\"256\"\n\
         KERNEL!=\"sda\", ATTR{queue/scheduler}=\"bfq\"\n\
         LABEL=\"end\"\n",
    );
    let expected = [
        "sda nr_requests=256: in force",
        "nvme0n1 read_ahead_kb=128: in force",
        "- scheduler=bfq: does nothing: no device here matches its conditions",
    ];
    let mut verdicts = system.verdicts();
    verdicts.sort_by_key(|verdict| expected.iter().position(|expected| expected == verdict));
    assert_eq!(verdicts, expected);
}

#[test]
fn a_rule_for_disks_of_another_kind_does_nothing_and_is_no_finding() {
    let system = System::new();
    system.rules("KERNEL==\"sd*\", ATTR{queue/rotational}==\"0\", ATTR{queue/scheduler}=\"none\"\n");
    system.expect("- scheduler=none: does nothing: no device here matches");
    assert_eq!(system.json()["findings"], 0);
    let only = System(tempfile::tempdir().unwrap());
    only.disk("sda", "8:0", 1, 1, "none [mq-deadline]");
    only.rules("KERNEL==\"sd*\", ATTR{queue/rotational}==\"0\", ATTR{queue/scheduler}=\"none\"\n");
    only.expect("no device here matches ATTR{queue/rotational}==\"0\"");
}

#[test]
fn schedulers_that_went_are_named_with_their_successors() {
    for (scheduler, instead) in [("cfq", "bfq"), ("noop", "none")] {
        let system = System::new();
        system.rules(&format!("KERNEL==\"sda\", ATTR{{queue/scheduler}}=\"{scheduler}\"\n"));
        system.expect(&format!("does nothing: {scheduler} went with Linux 5.0; its place has {instead}"));
        assert_eq!(system.json()["findings"], 1);
    }
    let system = System::new();
    system.rules("KERNEL==\"sda\", ATTR{queue/scheduler}=\"deadline\"\n");
    system.expect("sda scheduler=deadline: in force");
}

#[test]
fn a_scheduler_that_the_kernel_does_not_offer_does_nothing_unless_it_is_a_module() {
    let system = System::new();
    system.rules("KERNEL==\"sda\", ATTR{queue/scheduler}=\"adios\"\n");
    system.expect("does nothing: this kernel does not offer adios here, but none, mq-deadline, kyber, bfq");
    system.write("lib/modules/6.18.0/kernel/block/adios.ko.zst", "");
    system.expect("sda scheduler=adios: not in force: mq-deadline is");
}

#[test]
fn a_refused_scheduler_does_not_override_one_that_works() {
    let system = System::new();
    system.rules("KERNEL==\"sda\", ATTR{queue/scheduler}=\"mq-deadline\"\nKERNEL==\"sda\", ATTR{queue/scheduler}=\"cfq\"\n");
    assert_eq!(system.verdicts()[0], "sda scheduler=mq-deadline: in force");
}

#[test]
fn attributes_of_another_scheduler_and_unknown_ones_do_nothing() {
    let system = System::new();
    system.rules(
        "KERNEL==\"sda\", ATTR{queue/iosched/slice_idle}=\"0\", ATTR{queue/iosched/fifo_batch}=\"16\", ATTR{queue/no_such}=\"1\"\n",
    );
    system.expect("iosched/slice_idle=0: does nothing: iosched/slice_idle is bfq's, and mq-deadline is active");
    system.expect("iosched/fifo_batch=16: in force");
    system.expect("no_such=1: does nothing: this kernel has no no_such here");
}

#[test]
fn a_tunable_that_is_set_before_its_scheduler_is_reset_by_it() {
    let system = System::new();
    system.rules("KERNEL==\"sda\", ATTR{queue/iosched/fifo_batch}=\"4\", ATTR{queue/scheduler}=\"mq-deadline\"\n");
    system.expect("iosched/fifo_batch=4: does nothing: /etc/udev/rules.d/60-io.rules:1 switches the scheduler after it");
}

#[test]
fn none_on_flash_with_several_queues_is_what_the_kernel_gives_anyway() {
    let system = System::new();
    system.rules("KERNEL==\"nvme*n*\", ATTR{queue/scheduler}=\"none\"\n");
    system.expect("nvme0n1 scheduler=none: does nothing: the kernel gives a device with 4 hardware queues none by itself");
    assert_eq!(system.json()["findings"], 0);
}

#[test]
fn a_condition_that_only_the_running_udev_knows_is_left_open() {
    let system = System::new();
    system.rules("KERNEL==\"sda\", ENV{ID_BUS}==\"usb\", ATTR{queue/read_ahead_kb}=\"128\"\n");
    system.expect("unknown: whether ENV{ID_BUS}==\"usb\" holds is not known here");
    system.write("run/udev/data/b8:0", "E:ID_BUS=ata\n");
    system.expect("does nothing");
    system.write("run/udev/data/b8:0", "E:ID_BUS=usb\n");
    system.expect("sda read_ahead_kb=128: in force");
}

#[test]
fn a_test_looks_below_the_root_and_what_is_imported_is_not_known() {
    let system = System::new();
    system.write("usr/bin/there", "");
    system.rules(
        "KERNEL==\"sda\", ENV{X}=\"1\"\n\
         KERNEL==\"sda\", TEST==\"/usr/bin/there\", TEST==\"queue/scheduler\", ATTR{queue/nr_requests}=\"256\"\n\
         KERNEL==\"sda\", TEST==\"/usr/bin/missing\", ATTR{queue/nr_requests}=\"64\"\n\
         KERNEL==\"sda\", TEST!=\"queue/none\", ENV{ID_X}==\"\", ATTR{queue/read_ahead_kb}=\"128\"\n\
         KERNEL==\"sda\", IMPORT{cmdline}=\"quiet\", ATTR{queue/scheduler}=\"bfq\"\n",
    );
    system.expect("sda nr_requests=256: in force");
    system.expect("- nr_requests=64: does nothing");
    system.expect("read_ahead_kb=128: unknown: whether ENV{ID_X}==\"\" holds");
    system.expect("scheduler=bfq: unknown: whether IMPORT{cmdline}=\"quiet\" holds");
}

#[test]
fn a_program_that_a_rule_runs_is_seen_to_write_a_scheduler() {
    let system = System::new();
    system.rules("KERNEL==\"sda\", RUN+=\"/bin/sh -c 'modprobe bfq; echo bfq > /sys$DEVPATH/queue/scheduler'\"\n");
    system.expect("sda scheduler=bfq: not in force");
}

#[test]
fn tuned_fights_with_udev_and_wins() {
    let system = System::new();
    system.rules("KERNEL==\"sda\", ATTR{queue/scheduler}=\"bfq\"\n");
    system.write("etc/tuned/active_profile", "mine\n");
    system.write("etc/tuned/profiles/mine/tuned.conf", "[main]\ninclude=base\n\n[disk]\ndevices=sd*\nreadahead=>64\n");
    system.write(
        "usr/lib/tuned/profiles/base/tuned.conf",
        "[disk]\nelevator=mq-deadline\nreadahead=4096\n[sysctl]\nvm.swappiness=10\n",
    );
    system.write("proc/sys/vm/swappiness", "10\n");
    system.expect("sda scheduler=bfq: fights with /usr/lib/tuned/profiles/base/tuned.conf:2, which wins: tuned starts after it");
    system.expect("sda scheduler=mq-deadline: in force");
    system.expect("sda read_ahead_kb=4096: overridden by /etc/tuned/profiles/mine/tuned.conf:6");
    system.expect("sda read_ahead_kb=>64: in force");
    system.expect("- vm.swappiness=10: in force");
    assert!(system.verdicts().iter().all(|verdict| !verdict.starts_with("nvme0n1")), "devices=sd* are not flash");
}

#[test]
fn an_active_loser_is_named() {
    let system = System::new();
    system.rules("KERNEL==\"sda\", ATTR{queue/scheduler}=\"mq-deadline\"\n");
    system.write("etc/tuned/active_profile", "mine\n");
    system.write("etc/tuned/mine/tuned.conf", "[disk]\ndevices=sda\nelevator=bfq\n");
    system.expect("sda scheduler=mq-deadline: fights with /etc/tuned/mine/tuned.conf:3");
    system.expect("sda scheduler=bfq: not in force: mq-deadline is, as /etc/udev/rules.d/60-io.rules:1 has it");
}

#[test]
fn profiles_that_include_each_other_or_are_not_there_end() {
    let system = System::new();
    system.write("etc/tuned/active_profile", "a\n");
    system.write("etc/tuned/a/tuned.conf", "[main]\ninclude=b\n[disk]\nelevator=none\nreplace=1\n");
    system.write("etc/tuned/b/tuned.conf", "[main]\ninclude=a,missing\n[disk]\nreadahead=128\nno pair\n");
    assert!(system.warnings().contains("/etc/tuned/b/tuned.conf: there is no profile missing"), "{}", system.warnings());
    assert!(system.warnings().contains("/etc/tuned/b/tuned.conf:5: \"no pair\" should be KEY=VALUE"));
    system.expect("sda read_ahead_kb=128: does nothing: /etc/tuned/a/tuned.conf:4 replaces its section");
    system.expect("nvme0n1 scheduler=none: does nothing: the kernel gives");
}

#[test]
fn sysctls_are_read_in_the_order_of_their_names_and_those_that_exclude_each_other_are_reported() {
    let system = System::new();
    system.write("proc/sys/vm/swappiness", "60\n");
    system.write("proc/sys/vm/dirty_ratio", "0\n");
    system.write("proc/sys/vm/dirty_bytes", "1048576\n");
    system.write("usr/lib/sysctl.d/50-default.conf", "vm.swappiness = 10\nkernel.sysrq = 1\n");
    system.write("etc/sysctl.d/60-own.conf", "; mine\nvm/swappiness=60\nvm.dirty_ratio=10\nwhat\n");
    system.write("etc/sysctl.conf", "vm.dirty_bytes = 1048576\n");
    system.expect("- vm.swappiness=10: overridden by /etc/sysctl.d/60-own.conf:2");
    system.expect("- vm.swappiness=60: in force");
    system.expect("vm.dirty_ratio=10: does nothing: vm.dirty_bytes at /etc/sysctl.conf:1 is set after it");
    system.expect("vm.dirty_bytes=1048576: in force");
    assert!(system.warnings().contains("/etc/sysctl.d/60-own.conf:4: \"what\" should be NAME = VALUE"));
    assert!(!system.verdicts().concat().contains("sysrq"), "it is not about block I/O");
}

#[test]
fn a_sysctl_and_tuned_fight() {
    let system = System::new();
    system.write("proc/sys/vm/swappiness", "10\n");
    system.write("etc/sysctl.d/10.conf", "vm.swappiness=60\n");
    system.write("etc/tuned/active_profile", "p\n");
    system.write("etc/tuned/p/tuned.conf", "[sysctl]\nvm.swappiness=10\n");
    let expected = "- vm.swappiness=60: fights with /etc/tuned/p/tuned.conf:2, which wins: tuned starts after it";
    assert!(system.verdicts().contains(&expected.to_owned()), "{:?}", system.verdicts());
}

#[test]
fn tlp_sets_disks_one_by_one_by_name_or_id() {
    let system = System::new();
    system.write("etc/tlp.d/10-disks.conf", "DISK_DEVICES=\"nvme0n1 ata-X1 sdz\"\nDISK_IOSCHED=\"bfq bfq bfq\"\n");
    system.write("etc/tlp.conf", "DISK_IOSCHED=\"keep mq-deadline bfq none\" # mine\nnonsense\n");
    fs::create_dir_all(system.path().join("dev/disk/by-id")).unwrap();
    system.write("dev/sda", "");
    symlink("../../sda", system.path().join("dev/disk/by-id/ata-X1")).unwrap();
    system.expect("sda scheduler=mq-deadline: in force");
    system.expect("- scheduler=bfq: does nothing: there is no disk sdz here");
    system.expect("- scheduler=none: does nothing: DISK_DEVICES names fewer disks");
    assert!(system.verdicts().iter().all(|verdict| !verdict.starts_with("nvme0n1")), "keep leaves it alone");
    assert!(system.warnings().contains("/etc/tlp.conf:2: \"nonsense\""));
}

#[test]
fn tmpfiles_write_attributes_and_the_first_line_for_a_path_counts() {
    let system = System::new();
    system.write(
        "etc/tmpfiles.d/io.conf",
        "w /sys/block/sd*/queue/nr_requests - - - - 64\nw! /sys/block/sda/queue/read_ahead_kb - - - - 128\n\
         w /sys/block/sdq/queue/scheduler - - - - bfq\nd /run/x 0755 root root -\nw /proc/sys/vm/swappiness - - - - 1\n",
    );
    system.write("usr/lib/tmpfiles.d/z.conf", "w /sys/block/sda/queue/read_ahead_kb - - - - 512\nw /x\n");
    system.expect("sda nr_requests=64: not in force: 256 is");
    system.expect("sda read_ahead_kb=128: in force");
    system.expect("read_ahead_kb=512: does nothing: /etc/tmpfiles.d/io.conf:2 is for the same path");
    system.expect("- scheduler=bfq: does nothing: there is no device sdq here");
    system.expect("- vm.swappiness=1: unknown");
    assert!(system.warnings().contains("/usr/lib/tmpfiles.d/z.conf:2: \"w /x\""), "{}", system.warnings());
}

#[test]
fn the_kernels_command_line_does_nothing_about_schedulers_since_5_0() {
    let system = System::new();
    system.write("proc/cmdline", "root=/dev/sda1 elevator=bfq scsi_mod.use_blk_mq=1 quiet\n");
    system.write("etc/default/grub", "# elevator=no\nGRUB_CMDLINE_LINUX=\"quiet elevator=deadline\"\n");
    system.expect("- elevator=bfq: does nothing: the kernel ignores elevator= since 5.0");
    system.expect("- elevator=deadline: does nothing");
    system.expect("- scsi_mod.use_blk_mq=1: does nothing");
    assert_eq!(system.json()["findings"], 3);
}

#[test]
fn what_is_malformed_is_a_warning_with_its_place_and_the_rest_is_read() {
    let system = System::new();
    system.rules("KERNEL==sda\nKERNEL==\"sda\", ATTR{queue/nr_requests}=\"256\"\n");
    system.write("etc/udev/rules.d/61-latin.rules", b"# caf\xe9\nKERNEL==\"sda\", ATTR{queue/read_ahead_kb}=\"128\"\n");
    system.write("etc/udev/rules.d/62-huge.rules", vec![b'#'; 2 << 20]);
    symlink("63-loop.rules", system.path().join("etc/udev/rules.d/63-loop.rules")).unwrap();
    fs::create_dir_all(system.path().join("etc/udev/rules.d/64-folder.rules")).unwrap();
    let warnings = system.warnings();
    for expected in [
        "/etc/udev/rules.d/60-io.rules:1: the value of KERNEL is \"sda\"; should be in quotation marks",
        "/etc/udev/rules.d/61-latin.rules:1: is not UTF-8",
        "/etc/udev/rules.d/62-huge.rules: has 2097152 bytes",
        "/etc/udev/rules.d/63-loop.rules: is a loop of links",
        "/etc/udev/rules.d/64-folder.rules: is not a file",
    ] {
        assert!(warnings.contains(expected), "{expected}\n{warnings}");
    }
    assert_eq!(system.verdicts(), ["sda nr_requests=256: in force", "sda read_ahead_kb=128: in force"]);
    let output = run(&system.arguments(&[]));
    assert!(text(&output.stderr).contains("60-io.rules:1"), "warnings are on standard error");
}

#[test]
fn an_image_without_a_kernel_shows_what_is_written() {
    let system = System(tempfile::tempdir().unwrap());
    system.rules("KERNEL==\"sda\", ATTR{queue/scheduler}=\"bfq\"\n");
    system.write("etc/sysctl.d/1.conf", "vm.swappiness=1\n");
    system.expect("- scheduler=bfq: does nothing: no device here");
    system.expect("- vm.swappiness=1: unknown: there is no kernel to ask");
}

#[test]
fn wrong_arguments_are_refused_and_one_device_can_be_asked_for() {
    let system = System::new();
    system.rules("ATTR{queue/nr_requests}=\"256\"\n");
    system.write("etc/sysctl.d/1.conf", "vm.swappiness=1\n");
    let shown = succeeds(&system.arguments(&["/dev/sda"]));
    assert!(shown.contains("sda:") && !shown.contains("nvme0n1") && !shown.contains("swappiness"), "{shown}");
    assert!(refused(&system.arguments(&["sdq"])).contains("sdq: is no block device below"));
    assert!(refused(&["check", "--root", "/no/such"]).contains("--root /no/such: should be a folder"));
    assert!(refused(&system.arguments(&["--disk", "sata7200"])).contains("--trace"));
    assert!(refused(&system.arguments(&["--trace", "/no/such/trace"])).contains("/no/such/trace"));
}

#[test]
fn with_a_load_each_active_setting_has_its_worth() {
    let system = System::new();
    system.write("sys/block/sda/queue/scheduler", "[none] mq-deadline kyber bfq\n");
    system.write("sys/block/sda/queue/nr_requests", "64\n");
    system.rules(
        "KERNEL==\"sda\", ATTR{queue/scheduler}=\"none\", ATTR{queue/nr_requests}=\"64\", ATTR{queue/read_ahead_kb}=\"128\"\n",
    );
    let arguments = system.arguments(&["sda", "--trace", MIXED, "--disk", "sata7200"]);
    let json: Value = serde_json::from_str(&succeeds(&[&arguments[..], &["--json"]].concat())).unwrap();
    let worth = json["worth"].as_array().unwrap();
    let of = |setting: &str| worth.iter().find(|worth| worth["setting"] == setting).unwrap_or_else(|| panic!("{json:#}"));
    let mean = |setting: &str, which: usize| of(setting)["mean_ms"][which].as_f64().unwrap();
    // Equal to `compare` under the configured scheduler, and under the kernel's default for one hardware queue.
    let compared = |scheduler: &str| {
        let arguments = ["compare", MIXED, "--disk", "sata7200", "--set", "nr_requests=64", "--scheduler", scheduler, "--json"];
        let json: Value = serde_json::from_str(&succeeds(&arguments)).unwrap();
        json["schedulers"][0]["figures"]["response_mean_ms"].as_f64().unwrap_or_else(|| panic!("{json:#}"))
    };
    assert_eq!([mean("scheduler", 0), mean("scheduler", 1)], [compared("none"), compared("mq-deadline")]);
    assert_ne!(mean("scheduler", 0), mean("scheduler", 1));
    assert_eq!(mean("scheduler", 0), mean("nr_requests", 0), "both are taken from the same whole");
    assert!(json["notes"].to_string().contains("read_ahead_kb of sda is not simulated with this load"), "{json:#}");
    let shown = succeeds(&arguments);
    assert!(shown.contains("what each setting is worth") && shown.contains("ms, without it"), "{shown}");
}
