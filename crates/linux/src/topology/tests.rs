//! Machines represented by their `/sys/block`.

use std::fs;
use std::path::Path;

use super::*;

/// A machine built for a test.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { root: tempfile::tempdir().unwrap() };
        fs::create_dir_all(machine.root.path().join("sys/block")).unwrap();
        fs::create_dir_all(machine.root.path().join("dev")).unwrap();
        machine
    }

    fn sysfs(&self) -> Sysfs {
        Sysfs::at(self.root.path())
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.root.path().join("sys/block").join(name)
    }

    /// Files of a device; a name that ends with / is a folder.
    fn files(self, device: &str, files: &[(&str, &str)]) -> Machine {
        for (name, text) in files {
            let path = self.folder(device).join(name);
            if name.ends_with('/') {
                fs::create_dir_all(path).unwrap();
            } else {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{text}\n")).unwrap();
            }
        }
        self
    }

    /// A device of 1 GiB without a queue.
    fn plain(self, name: &str, dev: &str) -> Machine {
        let files =
            [("dev", dev), ("size", "2097152"), ("ro", "0"), ("hidden", "0"), ("queue/zoned", "none"), ("queue/rotational", "1")];
        self.files(name, &files).files(name, &[("holders/", ""), ("slaves/", "")])
    }

    /// A disk with a queue.
    fn disk(self, name: &str, dev: &str) -> Machine {
        self.plain(name, dev).files(name, &[("mq/0/nr_tags", "32"), ("diskseq", "9")])
    }

    fn partition(self, disk: &str, name: &str, dev: &str, start: &str) -> Machine {
        let files = [("dev", dev), ("partition", "1"), ("start", start), ("size", "1024"), ("holders/", "")];
        let inside: Vec<(String, &str)> = files.iter().map(|(file, text)| (format!("{name}/{file}"), *text)).collect();
        let inside: Vec<(&str, &str)> = inside.iter().map(|(file, text)| (file.as_str(), *text)).collect();
        self.files(disk, &inside)
    }

    /// Puts `upper` on top of `lower`, which may be a partition such as `sda/sda1`.
    fn on(self, upper: &str, lower: &str) -> Machine {
        let below = Path::new(lower).file_name().unwrap().to_str().unwrap();
        self.files(upper, &[(&format!("slaves/{below}/"), "")]).files(lower, &[(&format!("holders/{upper}/"), "")])
    }

    fn devices(&self) -> Vec<Device> {
        devices(&self.sysfs()).unwrap()
    }

    fn stacks(&self) -> Vec<Stack> {
        stacks(&self.devices())
    }

    fn left_alone(&self, name: &str) -> Option<String> {
        self.devices().into_iter().find(|device| device.name == name).unwrap().left_alone
    }
}

/// Two mirrored disks with a volume group, and a third disk with a filesystem on each of two partitions.
fn server() -> Machine {
    Machine::new()
        .disk("sda", "8:0")
        .disk("sdb", "8:16")
        .disk("nvme0n1", "259:0")
        .plain("md0", "9:0")
        .plain("dm-0", "253:0")
        .plain("dm-1", "253:1")
        .files("dm-0", &[("dm/name", "vg-root"), ("dm/uuid", "LVM-x")])
        .files("dm-1", &[("dm/name", "vg-home"), ("dm/uuid", "LVM-y")])
        .files("md0", &[("md/level", "raid1")])
        .files("nvme0n1", &[("device/model", "PM9A3   ")])
        .partition("sda", "sda1", "8:1", "2048")
        .partition("sdb", "sdb1", "8:17", "2048")
        .partition("nvme0n1", "nvme0n1p1", "259:1", "2048")
        .partition("nvme0n1", "nvme0n1p2", "259:2", "8192")
        .on("md0", "sda/sda1")
        .on("md0", "sdb/sdb1")
        .on("dm-0", "md0")
        .on("dm-1", "md0")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn the_whole_stack_is_seen_and_each_layer_knows_its_part() {
    let devices = server().devices();
    let of = |name: &str| devices.iter().find(|device| device.name == name).unwrap();
    assert_eq!(of("sda").holders, ["md0"]);
    assert_eq!(of("md0").below, ["sda", "sdb"], "whole disks, though it is on partitions of them");
    assert_eq!(of("md0").holders, ["dm-0", "dm-1"]);
    assert!(of("sda").has_queue && !of("md0").has_queue && !of("dm-0").has_queue);
    assert_eq!((of("dm-1").model.as_deref(), of("nvme0n1").model.as_deref()), (Some("vg-home"), Some("PM9A3")));
    assert_eq!(
        (of("sda").kind, of("md0").kind, of("dm-0").kind, of("nvme0n1").kind),
        (DriverKind::Scsi, DriverKind::Md, DriverKind::DeviceMapper, DriverKind::Nvme)
    );
    let parts = &of("nvme0n1").partitions;
    assert_eq!((parts[1].name.as_str(), parts[1].number, parts[1].start), ("nvme0n1p2", (259, 2), 8192));
}

#[test]
fn schedulers_are_tuned_at_the_leaves_alike_and_read_ahead_at_the_tops() {
    let stacks = server().stacks();
    assert_eq!(stacks.len(), 2);
    let mirror = stacks.iter().find(|stack| stack.devices.contains(&"md0".to_owned())).unwrap();
    assert_eq!(mirror.devices, ["sda", "sdb", "md0", "dm-0", "dm-1"], "the lowest first");
    assert_eq!((mirror.queues.clone(), mirror.tops.clone()), (words(&["sda", "sdb"]), words(&["dm-0", "dm-1"])));
    let alone = stacks.iter().find(|stack| stack.devices.len() == 1).unwrap();
    assert_eq!((alone.queues.clone(), alone.tops.clone()), (words(&["nvme0n1"]), words(&["nvme0n1"])));
    assert!(stacks.iter().all(|stack| stack.left_alone.is_none()));
}

#[test]
fn a_disk_with_a_volume_on_one_partition_and_a_filesystem_on_another_is_a_top_as_well() {
    let machine = Machine::new()
        .disk("sda", "8:0")
        .plain("dm-0", "253:0")
        .partition("sda", "sda1", "8:1", "2048")
        .partition("sda", "sda2", "8:2", "8192")
        .on("dm-0", "sda/sda2");
    assert_eq!(machine.stacks()[0].tops, ["sda", "dm-0"]);
}

#[test]
fn encryption_on_a_volume_on_an_array_is_followed_all_the_way_down() {
    let machine = server().plain("dm-2", "253:2").on("dm-2", "dm-1");
    let stacks = machine.stacks();
    let mirror = &stacks.iter().find(|stack| stack.devices.contains(&"dm-2".to_owned())).unwrap();
    assert_eq!(mirror.queues, ["sda", "sdb"]);
    assert_eq!(mirror.tops, ["dm-0", "dm-2"]);
    assert_eq!(mirror.devices.last().map(String::as_str), Some("dm-2"));
}

#[test]
fn what_is_left_alone_says_why() {
    let machine = Machine::new()
        .disk("sda", "8:0")
        .files("sda", &[("queue/zoned", "host-managed")])
        .disk("sdb", "8:16")
        .files("sdb", &[("ro", "1")])
        .disk("sdc", "8:32")
        .files("sdc", &[("size", "0")])
        .disk("sr0", "11:0")
        .plain("zram0", "251:0")
        .disk("vda", "252:0");
    let reason = |name: &str| machine.left_alone(name).unwrap();
    assert_eq!(reason("sda"), "is a zoned device (host-managed): the order of its writes is not free");
    assert_eq!(reason("sdb"), "is read-only");
    assert_eq!(reason("sdc"), "is empty: no medium is in it, or nothing is attached to it");
    assert!(reason("sr0").contains("removable media"));
    assert_eq!(reason("zram0"), "is memory: nothing waits there for a disk");
    assert_eq!(machine.left_alone("vda"), None);
    let left: Vec<_> = machine.stacks().into_iter().filter_map(|stack| stack.left_alone).collect();
    assert_eq!(left.len(), 5);
    assert!(left.contains(&"sdb is read-only".to_owned()), "{left:?}");
}

#[test]
fn multipath_devices_and_their_paths_are_left_alone() {
    let machine = Machine::new()
        .disk("sda", "8:0")
        .disk("sdb", "8:16")
        .plain("dm-0", "253:0")
        .files("dm-0", &[("dm/uuid", "mpath-360000"), ("dm/name", "mpatha")])
        .on("dm-0", "sda")
        .on("dm-0", "sdb");
    assert_eq!(machine.left_alone("sda").unwrap(), "is a path of the multipath device dm-0, which chooses among its paths");
    assert!(machine.left_alone("dm-0").unwrap().starts_with("is a multipath device"));
    assert!(machine.stacks()[0].left_alone.is_some());
    // dmsetup gives it no such name.
    let machine =
        Machine::new().disk("sda", "8:0").disk("dm-0", "253:0").files("dm-0", &[("mq/0/nr_tags", "64")]).on("dm-0", "sda");
    assert!(machine.left_alone("sda").unwrap().starts_with("is a path of the multipath device dm-0"));
    assert!(machine.left_alone("dm-0").unwrap().starts_with("is a multipath device"));
}

#[test]
fn a_hidden_path_of_an_nvme_namespace_is_left_alone() {
    let machine = Machine::new().disk("nvme0c0n1", "0:0").files("nvme0c0n1", &[("hidden", "1")]);
    assert!(machine.left_alone("nvme0c0n1").unwrap().contains("which the kernel hides"));
}

#[test]
fn a_read_only_volume_does_not_keep_the_disk_below_it_from_being_tuned() {
    let machine = Machine::new()
        .disk("sda", "8:0")
        .plain("dm-0", "253:0")
        .plain("dm-1", "253:1")
        .files("dm-1", &[("ro", "1")])
        .on("dm-0", "sda")
        .on("dm-1", "sda");
    let stack = machine.stacks().remove(0);
    assert_eq!((stack.left_alone, stack.queues, stack.tops), (None, words(&["sda"]), words(&["dm-0"])));
}

#[test]
fn a_device_that_comes_or_goes_or_is_replaced_is_noticed() {
    let machine = server();
    let before = machine.devices();
    let machine = machine.disk("sdc", "8:32").files("sdb", &[("diskseq", "10")]);
    fs::remove_dir_all(machine.folder("nvme0n1")).unwrap();
    let after = machine.devices();
    let (came, went) = changes(&before, &after);
    assert_eq!((came, went), (vec!["sdb", "sdc"], vec!["nvme0n1", "sdb"]));
    assert_eq!(changes(&after, &after), (vec![], vec![]));
}

#[test]
fn a_device_that_goes_while_it_is_looked_at_is_left_out() {
    let machine = server();
    fs::remove_file(machine.folder("sda").join("size")).unwrap();
    assert!(machine.devices().iter().all(|device| device.name != "sda"));
}

#[test]
fn a_device_is_found_by_name_path_link_and_partition() {
    let machine = server();
    let dev = machine.root.path().join("dev");
    fs::create_dir_all(dev.join("disk/by-id")).unwrap();
    fs::write(dev.join("sda"), "").unwrap();
    std::os::unix::fs::symlink("../../sda", dev.join("disk/by-id/ata-X")).unwrap();
    let found = |given: &str| find(&machine.sysfs(), given).map(|(device, partition)| (device.name, partition));
    let path = |name: &str| dev.join(name).to_str().unwrap().to_owned();
    assert_eq!(found("sda").unwrap(), ("sda".to_owned(), None));
    assert_eq!(found(&path("sda")).unwrap(), ("sda".to_owned(), None));
    assert_eq!(found(&path("disk/by-id/ata-X")).unwrap(), ("sda".to_owned(), None));
    assert_eq!(found("nvme0n1p2").unwrap(), ("nvme0n1".to_owned(), Some("nvme0n1p2".to_owned())));
    let error = found("sdx").unwrap_err().to_string();
    assert!(error.starts_with("sdx: is no block device; there are /dev/dm-0, "), "{error}");
    assert!(found("/etc/passwd").is_err());
}

#[test]
fn errors_name_the_file_and_its_content() {
    let machine = server().files("sda", &[("size", "big")]);
    let error = devices(&machine.sysfs()).unwrap_err().to_string();
    assert!(error.ends_with("sda/size: is big, not a number"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    assert!(devices(&Sysfs::at(empty.path())).unwrap_err().to_string().contains("sys/block"));
}

#[test]
fn this_machine_can_be_described() {
    let Ok(devices) = devices(&Sysfs::real()) else { return eprintln!("skipped: there is no /sys/block here") };
    let members: usize = stacks(&devices).iter().map(|stack| stack.devices.len()).sum();
    assert_eq!(members, devices.len(), "each device is in one stack");
}
