//! Profiles of arrays, in files and in one line: the arrays they make, and errors.

use sim::profile::{DeviceOptions, Profile, load};

fn error_of(line: &str) -> String {
    load(line).unwrap_err().to_string()
}

#[test]
fn an_array_in_one_line_and_the_same_in_a_file_are_one() {
    let line = load("raid5:disk=atlas10k,disks=5,stripe_unit_kib=64").unwrap();
    let text = "kind = 'raid'\nlevel = 5\nmember = 'atlas10k'\ncount = 5\nstripe_unit_kib = 64\n";
    let file = Profile::parse(text, "my.toml").unwrap();
    let disk = load("atlas10k").unwrap().capacity_sectors();
    assert_eq!(line.capacity_sectors(), disk / 128 * 128 * 4);
    assert_eq!(file.capacity_sectors(), line.capacity_sectors());
    assert_eq!(line.build(DeviceOptions::default()).capacity_sectors(), line.capacity_sectors());
    assert_eq!(line.name(), "raid5:disk=atlas10k,disks=5,stripe_unit_kib=64");
    assert_eq!(line.description(), "RAID 5 of 5 atlas10k, stripe unit 64 KiB");
}

#[test]
fn the_queue_depth_of_an_array_defaults_to_the_sum_of_its_members() {
    let array = load("raid0:disk=sata7200,disks=3").unwrap();
    assert_eq!(array.build(DeviceOptions::default()).queue_depth(), 96);
    assert_eq!(array.build(DeviceOptions { queue_depth: Some(7), queue_policy: None }).queue_depth(), 7);
}

#[test]
fn arrays_may_be_members_and_disks_may_differ() {
    let mirrors = load("raid0:disk=(raid1:disk=atlas10k,disks=2),disks=4,stripe_unit_kib=16").unwrap();
    let disk = load("atlas10k").unwrap().capacity_sectors();
    assert_eq!(mirrors.capacity_sectors(), disk / 32 * 32 * 4);
    let mixed = Profile::parse("kind='raid'\nlevel=1\nmembers=['atlas10k', 'barracuda']", "mixed.toml").unwrap();
    assert_eq!(mixed.capacity_sectors(), load("barracuda").unwrap().capacity_sectors(), "the smallest counts");
    assert_eq!(mixed.description(), "RAID 1 of 2 different disks");
}

#[test]
fn the_text_changes_with_a_members_text_and_loads_again() {
    let array = load("raid1:disk=atlas10k,disks=2").unwrap();
    let again = Profile::parse(array.text(), "again").unwrap();
    assert_eq!(again.capacity_sectors(), array.capacity_sectors());
    for line in load("atlas10k").unwrap().text().lines() {
        assert!(array.text().contains(line), "{line}");
    }
}

#[test]
fn files_are_resolved_next_to_the_file_that_names_them_and_none_contains_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("disk.toml"), load("barracuda").unwrap().text()).unwrap();
    let array = |member: &str| format!("kind = 'raid'\nlevel = 1\ndisk = '{member}'\ndisks = 2\n");
    std::fs::write(path("outer.toml"), array("inner.toml")).unwrap();
    std::fs::write(path("inner.toml"), array("disk.toml")).unwrap();
    assert_eq!(load(&path("outer.toml")).unwrap().capacity_sectors(), load("barracuda").unwrap().capacity_sectors());
    std::fs::write(path("inner.toml"), array("outer.toml")).unwrap();
    let error = error_of(&path("outer.toml"));
    assert!(error.contains("inner.toml: ") && error.contains("an array must not be its own member"), "{error}");
}

#[test]
fn invalid_arrays_are_errors_that_name_key_value_and_remedy() {
    for (line, expected) in [
        ("raid5:disk=atlas10k,disks=2", "RAID 5 of 2 disks: it takes 3 to 64"),
        ("raid10:disk=atlas10k,disks=2", "RAID 10 of 2 disks: it takes 3 to 64"),
        ("raid1:disk=atlas10k,disks=1", "disks: 1 should be 2 to 64"),
        ("raid0:disk=atlas10k,disks=0", "disks: 0 should be 2 to 64"),
        ("raid0:disk=atlas10k,disks=65", "disks: 65 should be 2 to 64"),
        ("raid0:disk=atlas10k,disks=18446744073709551616", "disks"),
        ("raid0:disk=atlas10k,disks=-1", "disks"),
        ("raid0:disk=atlas10k", "disks is missing"),
        ("raid0:disks=4", "disk is missing"),
        ("raid0", "no disks"),
        ("raid0:", "no disks"),
        ("raid6:disk=atlas10k,disks=4", "level: 6 is none of 0, 1, 5 and 10"),
        ("raidx:disk=atlas10k,disks=4", "`raidx` is no array"),
        ("raid0:disk=atlas10k,disks=4,stripe_unit_kib=0", "stripe_unit_kib: 0 should be a multiple of 0.5"),
        ("raid0:disk=atlas10k,disks=4,stripe_unit_kib=0.25", "stripe_unit_kib: 0.25 should be"),
        ("raid0:disk=atlas10k,disks=4,stripe_unit_kib=-4", "stripe_unit_kib: -4 should be"),
        ("raid0:disk=atlas10k,disks=4,stripe_unit_kib=nan", "stripe_unit_kib: NaN should be"),
        ("raid0:disk=atlas10k,disks=4,stripe_unit_kib=1e300", "stripe_unit_kib"),
        ("raid0:disk=atlas10k,disks=4,stripe_unit_kib=9000000", "a stripe unit of 9000000 KiB: 0.5 to 8969493 KiB is right"),
        ("raid0:disk=atlas10k,disks=4,failed=1", "RAID 0 does not survive a failure"),
        ("raid5:disk=atlas10k,disks=4,failed=4", "failed: 4 should be 0 to 3"),
        ("raid5:disk=atlas10k,disks=4,failed=1,failed=2", "failed is given twice"),
        ("raid5:disk=atlas10k,disks=4,fail_at_s=3", "fail_at_s without failed"),
        ("raid5:disk=atlas10k,disks=4,failed=1,fail_at_s=-3", "fail_at_s: -3 should be 0 to"),
        ("raid5:disk=atlas10k,disks=4,spare=atlas10k", "spare without failed"),
        ("raid5:disk=atlas10k,disks=4,failed=1,spare=barracuda", "it takes 17938984 to replace a member"),
        ("raid5:disk=atlas10k,disks=4,rebuild_kib_s=0", "rebuild_kib_s: 0 should be 1 or more KiB/s"),
        ("raid5:disk=atlas10k,disks=4,rebuild_kib_s=10,rebuild_busy_kib_s=11", "rebuild_busy_kib_s: 11 should be 1 to 10"),
        ("raid5:disk=atlas11k,disks=4", "atlas11k: neither a file"),
        ("raid5:disk=atlas10k,disk=4,disks", "disk is given twice"),
        ("raid5:disks", "`disks` should be key=value"),
        ("raid5:disk=atlas10k,disks=4,chunk=4", "unknown field `chunk`"),
        ("raid5:disk=atlas10k,disks=4,level=0", "level: for profile files only"),
        ("raid0:disk=(raid1:disk=atlas10k,disks=2,disks=4", "a `(` without its `)`"),
        ("raid0:disk=raid1:disk=atlas10k),disks=4", "a `)` without its `(`"),
        ("raid0:disk=(raid0:disk=atlas10k,disks=9),disks=9", "81 disks"),
    ] {
        let error = error_of(line);
        assert!(error.starts_with(line) && error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn errors_in_files_name_the_line() {
    let error = |text: &str| Profile::parse(text, "my.toml").unwrap_err().to_string();
    let both = "kind = 'raid'\nlevel = 1\ndisk = 'atlas10k'\ndisks = 2\nmembers = ['atlas10k', 'atlas10k']";
    assert!(error(both).starts_with("my.toml: both members and disk or disks"), "{}", error(both));
    let unknown = "kind = 'raid'\nlevel = 1\ndisk = 'atlas10k'\ndisks = 2\nfailing = 1";
    assert!(error(unknown).starts_with("my.toml:5: unknown field `failing`"), "{}", error(unknown));
    let two = "kind = 'raid'\nlevel = 5\ndisk = 'atlas10k'\ndisks = 4\nfailed = [1, 2]";
    assert!(error(two).starts_with("my.toml:5: "), "{}", error(two));
}

#[test]
fn arrays_in_arrays_without_end_are_refused() {
    let mut line = "atlas10k".to_owned();
    for _ in 0..40 {
        line = format!("raid1:disk=({line}),disks=2");
    }
    let error = error_of(&line);
    assert!(error.contains("6 is the most"), "{error}");
}
