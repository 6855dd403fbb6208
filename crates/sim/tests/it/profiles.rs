//! Profiles and DiskSim imports: errors are precise, and nothing makes them panic.

use std::path::Path;

use crate::cases::cases;
use block::{Nanos, Op, Priority, Request};
use proptest::prelude::*;
use sim::device::Device;
use sim::device::hdd::spec::Seek;
use sim::diskspecs::{ImportOptions, import_text};
use sim::profile::keys::UNSTATED;
use sim::profile::{BUILT_IN, DeviceOptions, KINDS, Profile, load};

fn changed(name: &str, from: &str, to: &str) -> String {
    let text = load(name).unwrap().text().to_owned();
    assert!(text.contains(from), "{name} does not say `{from}`");
    text.replacen(from, to, 1)
}

fn error_of(text: &str) -> String {
    Profile::parse(text, "my.toml").unwrap_err().to_string()
}

#[test]
fn every_built_in_disk_loads_and_builds() {
    for (name, _) in BUILT_IN {
        let profile = load(name).unwrap();
        assert_eq!(profile.name(), *name);
        let device = profile.build(DeviceOptions::default());
        assert_eq!(device.capacity_sectors(), profile.capacity_sectors());
    }
}

#[test]
fn an_unknown_disk_is_an_error_that_names_those_there_are() {
    let error = load("atlas11k").unwrap_err().to_string();
    assert!(error.contains("atlas11k") && error.contains("atlas10k") && error.contains("sata7200"), "{error}");
}

#[test]
fn an_unknown_key_is_an_error_that_names_file_line_and_key() {
    let error = error_of(&changed("atlas10k", "head_switch_ms", "head_swich_ms"));
    assert!(error.starts_with("my.toml:") && error.contains("head_swich_ms"), "{error}");
}

#[test]
fn impossible_values_are_errors_that_name_key_value_and_range() {
    for (from, to, expected) in [
        ("surfaces = 6", "surfaces = 0", ["geometry.surfaces", "0", "1 to 1024"]),
        ("cylinders = 10042", "cylinders = 0", ["geometry.cylinders", "0", "1 to"]),
        ("cylinders = 10042", "cylinders = 100", ["last_cylinder", "432", "99"]),
        ("capacity_sectors = 17938986", "capacity_sectors = 99938986", ["geometry.capacity_sectors", "99938986", "1 to 17966953"]),
        ("rotation_rpm = 10025.0", "rotation_rpm = 0.0", ["mechanics.rotation_rpm", "0", "60 to 1000000"]),
        ("rotation_rpm = 10025.0", "rotation_rpm = nan", ["mechanics.rotation_rpm", "NaN", "60 to 1000000"]),
        ("head_switch_ms = 0.176", "head_switch_ms = -1.0", ["mechanics.head_switch_ms", "-1", "0 to"]),
        ("sectors_per_track = 334", "sectors_per_track = 0", ["zone[0]", "sectors_per_track", "0"]),
        ("spares = 89", "spares = 4000000", ["zone[0]", "spares", "4000000"]),
        ("segments = 10", "segments = 0", ["cache.segments", "0", "1 to 4096"]),
        ("write_segments = 1", "write_segments = 11", ["cache.write_segments", "11", "1 to 10"]),
        ("depth = 1", "depth = 0", ["queue.depth", "0", "1 to 1024"]),
        ("track_skew = 63.0", "track_skew = inf", ["zone[0].track_skew", "inf", "0 to"]),
        ("write_settle_ms = 0.487", "write_settle_ms = -4e6", ["mechanics.write_settle_ms", "-4000000", "-1000 to 1000 ms"]),
        ("[[1, 1.245]", "[[1, -1.245]", ["my.toml:26: seek.points[0][1]", "-1.245", "0 to 1000"]),
        ("[[1, 1.245]", "[[1, nan]", ["my.toml:26: seek.points[0][1]", "NaN", "0 to 1000"]),
        ("[[1, 1.245]", "[[1, 4e3]", ["my.toml:26: seek.points[0][1]", "4000", "0 to 1000"]),
        ("request_ms = 0.0", "request_ms = -0.1", ["my.toml:66: overheads.request_ms", "-0.1", "0 to 1000 ms"]),
        ("[[1, 1.245]", "[[3, 1.245]", ["seek.points", "distance 2 follows 3", "ascend"]),
    ] {
        let error = error_of(&changed("atlas10k", from, to));
        assert!(error.starts_with("my.toml") && expected.iter().all(|part| error.contains(part)), "{to}: {error}");
    }
}

#[test]
fn impossible_limits_are_errors_that_name_key_value_and_remedy() {
    for (limits, expected) in [
        ("", "my.toml: limits: operations_per_second or mb_s is required"),
        ("operations_per_second = 0", "limits.operations_per_second: 0 should be 0.1 to 1000000000 operations/s"),
        ("mb_s = nan", "limits.mb_s: NaN should be 0.001 to 1000000 MB/s"),
        ("mb_s = 1\noperation_kib = 256", "limits.operation_kib: 256 without operations_per_second"),
        ("mb_s = 1\nburst_mb_s = 9", "limits.burst_mb_s: 9 without burst_mb"),
        ("mb_s = 1\nburst_mb = 9", "limits.burst_mb: 9 without burst_mb_s"),
        ("mb_s = 1\nburst_mb = 0", "limits.burst_mb: 0 should be 0.001 to 1000000000 MB"),
        ("mb_s = 2\nburst_mb = 1\nburst_mb_s = 2", "limits.burst_mb_s: 2 should be more than 2, which is mb_s"),
        ("mb_s = 1\nburst_operations = 9", "limits.burst_operations: 9 without operations_per_second"),
        ("mb_s = 1\nburst_operations_per_second = 9", "limits.burst_operations_per_second: 9 without operations_per_second"),
        ("mb = 1", "mb"),
    ] {
        for disk in ["atlas10k", "nvme-tlc", "raid5-5x-sata7200"] {
            let error = error_of(&with_limits(disk, limits));
            assert!(error.starts_with("my.toml") && error.contains(expected), "{disk}, {limits}: {error}");
        }
    }
}

fn with_limits(disk: &str, limits: &str) -> String {
    format!("{}\n[limits]\n{limits}\n", load(disk).unwrap().text())
}

#[test]
fn devices_of_every_kind_keep_the_limits_of_their_profiles() {
    for disk in ["atlas10k", "nvme-tlc", "raid5-5x-sata7200"] {
        let profile = Profile::parse(&with_limits(disk, "operations_per_second = 10"), disk).unwrap();
        let last_ms = |profile: &Profile| {
            let mut device = profile.build(DeviceOptions { queue_depth: Some(8), queue_policy: None });
            let (mut done, priority) = (Vec::new(), Priority::DEFAULT);
            for id in 0..3 {
                let lba = 8 * u64::from(id);
                let arrival = Nanos::ZERO;
                device.submit(arrival, &Request { id, stream: 0, op: Op::Read, sync: true, priority, sectors: 8, lba, arrival });
            }
            while done.len() < 3 {
                device.advance(device.wake_at().unwrap(), &mut done);
            }
            done[2].at.as_millis_f64()
        };
        let (limited, not) = (last_ms(&profile), last_ms(&load(disk).unwrap()));
        assert!(not < 100.0 && (200.0..300.0).contains(&limited), "{disk}: {limited} ms, without limits {not} ms");
        assert!(profile.annotated().contains("operations_per_second = 10  # operations/s, 0.1 to 1000000000"));
    }
}

#[test]
fn a_hard_disk_with_limits_reads_back_as_written() {
    let profile = Profile::parse(&with_limits("atlas10k", "mb_s = 4.5\nburst_mb_s = 9\nburst_mb = 100"), "my.toml").unwrap();
    let specification = &profile.hdd().unwrap().specification;
    let again = Profile::from_hdd(specification, "again.toml").unwrap();
    assert!(again.text().contains("burst_mb = 100.0"), "{}", again.text());
    assert_eq!(&again.hdd().unwrap().specification, specification);
}

/// The atlas10k with another seek curve.
fn with_seek(seek: &str) -> String {
    let text = load("atlas10k").unwrap().text().to_owned();
    let (start, end) = (text.find("[seek]").unwrap(), text.find("[bus]").unwrap());
    format!("{}[seek]\n{seek}\n{}", &text[..start], &text[end..])
}

#[test]
fn impossible_seek_times_are_errors_that_name_key_value_and_range() {
    assert!(Profile::parse(&with_seek("kind = 'linear'\nsingle_ms = 1\naverage_ms = 5\nfull_ms = 9"), "my.toml").is_ok());
    for (seek, expected) in [
        ("kind = 'constant'\ntime_ms = -1", "seek.time_ms: -1 should be 0 to 1000 ms"),
        ("kind = 'linear'\nsingle_ms = 0\naverage_ms = 0\nfull_ms = 0", "seek.full_ms: 0 should be 0.001 to 1000 ms"),
        ("kind = 'curve'\nsingle_ms = -0.5\naverage_ms = 5\nfull_ms = 9", "seek.single_ms: -0.5 should be 0 to 1000 ms"),
        ("kind = 'curve'\nsingle_ms = 1\naverage_ms = nan\nfull_ms = 9", "seek.average_ms: NaN should be 0 to 1000 ms"),
        (
            "kind = 'linear'\nsingle_ms = 1\naverage_ms = 5\nfull_ms = 4",
            "seek.full_ms: 4 should be at least average_ms, which is 5",
        ),
        (
            "kind = 'linear'\nsingle_ms = 6\naverage_ms = 5\nfull_ms = 9",
            "seek.average_ms: 5 should be at least single_ms, which is 6",
        ),
    ] {
        let error = error_of(&with_seek(seek));
        assert!(error.starts_with("my.toml") && error.contains(expected), "{seek}: {error}");
    }
}

#[test]
fn every_key_has_a_meaning_and_a_default() {
    for (kind, table) in KINDS.iter().flat_map(|kind| kind.tables().into_iter().map(move |table| (kind.name, table))) {
        for key in &table.keys {
            let name = format!("{kind} {} {}", table.heading, key.name);
            assert!(!key.meaning.is_empty(), "{name} has no meaning");
            assert_ne!(key.default.as_deref(), Some(UNSTATED), "{name} does not say its default");
        }
    }
}

#[test]
fn a_profile_shown_with_units_is_the_same_profile() {
    for (name, _) in BUILT_IN {
        let profile = load(name).unwrap();
        let shown = profile.annotated();
        let again = Profile::parse(&shown, name).unwrap();
        assert_eq!(again.capacity_sectors(), profile.capacity_sectors());
        let without = |text: &str| text.lines().map(|line| line.split("  # ").next().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(without(&shown), without(profile.text()), "{name}");
    }
    let shown = load("atlas10k").unwrap().annotated();
    for line in [
        "head_switch_ms = 0.176  # ms, 0 to 1000",
        "surfaces = 6  # 1 to 1024",
        "track_skew = 63.0  # sectors or revolutions, 0 to 1000000",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}");
    }
    assert!(load("nvme-tlc").unwrap().annotated().contains("# µs, 0 to 1000000"));
}

#[test]
fn a_queue_depth_out_of_range_becomes_the_nearest_in_range() {
    let depth =
        |depth| load("sata7200").unwrap().build(DeviceOptions { queue_depth: Some(depth), queue_policy: None }).queue_depth();
    assert_eq!([depth(0), depth(7), depth(u32::MAX)], [1, 7, 1024]);
}

const DISK: &str = "
# a disk
disksim_disk Test {
   Model = dm_disk T {
      Number of data surfaces = 2, Number of cylinders = 10, Block count = 2000,
      Mechanical Model = dm_mech_g1 {
         Access time type = trackSwitchPlusRotation, Seek type = linear,
         Single cylinder seek time = 1.0, Average seek time = 5.0, Full strobe seek time = 9.0,
         Add. write settling delay = 0.5, Head switch time = 1.0,
         Rotation speed (in rpms) = 6000, Percent error in rpms = 0.0
      },
      Layout Model = dm_layout_g1 {
         LBN-to-PBN mapping scheme = 0, Sparing scheme used = 0, Rangesize for sparing = 1,
         Zones = [ dm_layout_g1_zone {
            First cylinder number = 0, Last cylinder number = 9, Blocks per track = 100,
            Offset of first block = 0.0, Empty space at zone front = 0,
            Skew for track switch = 10.0, Skew for cylinder switch = 20.0, Number of spares = 0,
            slips = [], defects = [] } ]
      }
   },
   Bulk sector transfer time = 0.1, Max queue length = 1, Number of buffer segments = 2,
   Segment size (in blks) = 100, Maximum number of write segments = 1, Fast write level = 2
}
";

fn imported(text: &str) -> Result<sim::diskspecs::Imported, String> {
    import_text(text, Path::new("my.diskspecs"), ImportOptions::default()).map_err(|error| error.to_string())
}

#[test]
fn a_whole_system_is_imported_with_the_slowest_of_its_buses() {
    let system = format!(
        "disksim_bus B0 {{ type = 1, Read block transfer time = 0.2, Write block transfer time = 0.05 }}
         {DISK} instantiate [ bus0, bus1 ] as B0 instantiate [ disk0 ] as Test
         topology disksim_iodriver driver0 [ disksim_bus bus0 [ disksim_disk disk0 [] ] ]
         disksim_pf Proc {{ Number of processors = 1 }}"
    );
    let bus = imported(&system).unwrap().profile.hdd().unwrap().specification.bus.clone();
    assert_eq!((bus.read_sector_ms, bus.write_sector_ms), (0.2, 0.1));
}

/// Four disks under an organisation with these parameters in place of a RAID 5's.
fn organised(changes: &[(&str, &str)]) -> String {
    let mut organisation = "disksim_logorg org0 { Addressing mode = Array, Distribution scheme = Striped,
        Redundancy scheme = Parity_rotated, devices = [ disk0 .. disk3 ], Stripe unit = 64, Synch writes for safety = 0,
        Number of copies = 2, Copy choice on read = 6, RMW vs. reconstruct = 0.5, Parity stripe unit = 64,
        Parity rotation type = 1 }"
        .to_owned();
    for (from, to) in changes {
        assert!(organisation.contains(from), "{from}");
        organisation = organisation.replacen(from, to, 1);
    }
    format!("{DISK} instantiate [ disk0 .. disk3 ] as Test {organisation}")
}

#[test]
fn disks_under_a_logical_organisation_are_imported_as_an_array() {
    for (changes, level, disks, unit) in [
        (&[][..], 5, 4, Some(32.0)),
        (&[("Parity_rotated", "Noredun"), ("Stripe unit = 64", "Stripe unit = 7")], 0, 4, Some(3.5)),
        (&[("Parity_rotated", "Shadowed")], 10, 4, Some(32.0)),
        (&[("Striped", "Asis"), ("Parity_rotated", "Shadowed"), ("[ disk0 .. disk3 ]", "[ disk0, disk1 ]")], 1, 2, None),
    ] {
        let array = imported(&organised(changes)).unwrap().array.unwrap();
        assert_eq!((array.level, array.disks, array.stripe_unit_kib), (level, Some(disks), unit), "{changes:?}");
    }
    // Disks that are used each by itself are no array.
    let alone = imported(&organised(&[("= Array", "= Parts"), ("Striped", "Asis"), ("Parity_rotated", "Noredun")])).unwrap();
    assert!(alone.array.is_none() && alone.notes.iter().any(|note| note.contains("one of them is imported")), "{:?}", alone.notes);
    assert!(imported(DISK).unwrap().array.is_none());
}

#[test]
fn an_organisation_that_no_array_has_is_an_error_that_names_it() {
    for (changes, expected) in [
        (
            &[("Parity_rotated", "Parity_disk")][..],
            "`org0`, an organisation of 4 disks: Distribution scheme `Striped` with Redundancy",
        ),
        (&[("Striped", "Random"), ("Parity_rotated", "Noredun")], "Distribution scheme `Random` with Redundancy scheme `Noredun`"),
        (&[("= Array", "= Parts")], "Addressing mode: `Parts` is not supported; `Array` is"),
        (&[("rotation type = 1", "rotation type = 3")], "Parity rotation type: 3 is not supported; 1, left symmetric, is"),
        (&[("Parity stripe unit = 64", "Parity stripe unit = 32")], "Parity stripe unit: 32 should be 64"),
        (
            &[("Stripe unit = 64", "Stripe unit = 5000"), ("Parity stripe unit = 64", "Parity stripe unit = 5000")],
            "a stripe unit of 2500 KiB",
        ),
        (&[("disk0 .. disk3", "disk0 .. disk1")], "RAID 5 of 2 disks: it takes 3 to 64"),
        (&[("disk0 .. disk3", "disk0 .. disk99")], "an organisation of 100 disks: 64 is the most"),
        (&[("disk0 .. disk3", "disk3 .. disk0")], "`disk3 .. disk0` should be a range such as"),
        (&[("Parity_rotated", "Shadowed"), ("copies = 2", "copies = 3")], "Redundancy scheme `Shadowed` is not supported"),
    ] {
        let error = imported(&organised(changes)).unwrap_err();
        assert!(error.starts_with("my.diskspecs:") && error.contains(expected), "{changes:?}: {error}");
    }
    let two =
        organised(&[]) + &organised(&[]).split_once("disksim_logorg").map(|(_, rest)| format!(" disksim_logorg{rest}")).unwrap();
    assert!(imported(&two).unwrap_err().contains("`org0` is a second array after `org0`"));
}

#[test]
fn a_write_that_settles_sooner_than_a_read_is_imported() {
    let text = DISK.replacen("settling delay = 0.5", "settling delay = -0.483", 1);
    assert_eq!(imported(&text).unwrap().profile.hdd().unwrap().specification.mechanics.write_settle_ms, -0.483);
}

#[test]
fn a_file_with_no_disk_or_several_is_an_error_that_lists_its_content() {
    let several = imported(&format!("{DISK} {}", DISK.replace("disk Test", "disk Other"))).unwrap_err();
    assert!(several.contains("2 disks, Test (my.diskspecs:3), Other (my.diskspecs:26)"), "{several}");
    let simple = imported("disksim_simpledisk SD0 { Block count = 100000, Access time = 9.5 }").unwrap_err();
    assert!(simple.starts_with("my.diskspecs:1: `disksim_simpledisk` is no disk with platters"), "{simple}");
}

#[test]
fn the_fourth_column_of_a_seek_curve_is_that_of_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dual.diskspecs");
    std::fs::write(&path, DISK.replacen("Seek type = linear", "Seek type = extracted, Full seek curve = dual.seek", 1)).unwrap();
    let import = |curve: &str| {
        std::fs::write(folder.path().join("dual.seek"), format!("Seek distances measured: 2\n{curve}")).unwrap();
        let imported = sim::diskspecs::import(&path, ImportOptions::default()).map_err(|error| error.to_string());
        imported.map(|imported| imported.profile.hdd().unwrap().specification.clone())
    };
    let dual = import("1, 0.5, 0.02, 0.65\n9, 1.5, 0.02, 1.7\n").unwrap();
    assert_eq!(dual.seek, Seek::Table { points: vec![(1, 0.5), (9, 1.5)] });
    assert_eq!(dual.write_seek, Some(Seek::Table { points: vec![(1, 0.65), (9, 1.7)] }));
    assert_eq!(import("1, 0.5, 0.02\n9, 1.5,\n").unwrap().write_seek, None);
    for (curve, expected) in [
        ("1, 0.5, 0.02, 0.65\n9, 1.5\n", "dual.seek:3: the fourth column"),
        ("1, 0.5\n9, 1.5, 0.02, 1.7\n", "dual.seek:3: a fourth column"),
        ("1, 0.5, 0.02, fast\n", "dual.seek:2: fourth column, the seek time of a write: `fast`"),
    ] {
        let error = import(curve).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_bus_that_no_file_describes_is_asked_for() {
    let text = DISK.replacen("Bulk sector transfer time = 0.1, ", "", 1);
    let options = |read, write| ImportOptions { bus_read_sector_ms: read, bus_write_sector_ms: write };
    for given in [options(None, None), options(Some(0.1), None), options(None, Some(0.1))] {
        let error = import_text(&text, Path::new("my.diskspecs"), given).unwrap_err().to_string();
        assert!(error.starts_with("my.diskspecs:3: Bulk sector transfer time"), "{error}");
        assert!(error.contains(".parv") && error.contains("--bus-read-sector-ms and --bus-write-sector-ms"), "{error}");
    }
    let both = import_text(&text, Path::new("my.diskspecs"), options(Some(0.1), Some(0.2))).unwrap();
    let bus = &both.profile.hdd().unwrap().specification.bus;
    assert_eq!((bus.read_sector_ms, bus.write_sector_ms), (0.1, 0.2));
}

#[test]
fn unsupported_or_wrong_parameters_are_errors_with_file_and_line() {
    for (from, to, expected) in [
        ("Seek type = linear", "Seek type = magic", "my.diskspecs:7: Seek type: `magic`"),
        ("trackSwitchPlusRotation", "averageRotation", "averageRotation"),
        ("dm_layout_g1 {", "dm_layout_g4 {", "my.diskspecs:12: Layout Model: blocks of type `dm_layout_g4`"),
        ("Blocks per track = 100", "Blocks per track = 0", "my.diskspecs:15: Blocks per track: 0"),
        ("Sparing scheme used = 0", "Sparing scheme used = 11", "my.diskspecs:13: Sparing scheme used: 11"),
        ("Head switch time = 1.0,", "", "`Head switch time` is missing"),
        ("Bulk sector transfer time = 0.1", "Bulk sector transfer time 0.1", "`=` should follow"),
        ("Block count = 2000", "Block count = 2000, Block count = 3", "set twice"),
        ("slips = []", "slips = [ x ]", "slips should be a number"),
        ("Model = dm_disk T {", "Model = source nowhere.model, Other = dm_disk T {", "nowhere.model"),
    ] {
        assert!(DISK.contains(from));
        let error = imported(&DISK.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(expected) && error.contains("my.diskspecs"), "{to}: {error}");
    }
}

#[test]
fn sizes_beyond_all_disks_are_errors_not_overflows() {
    for sparing in 0..=10 {
        let text = DISK.replacen("Sparing scheme used = 0", &format!("Sparing scheme used = {sparing}"), 1);
        let text = text.replacen("data surfaces = 2", "data surfaces = 65535", 1).replacen("slips = []", "slips = [ 5 ]", 1);
        let text = text.replacen("Last cylinder number = 9", "Last cylinder number = 4294967295", 1);
        let text = text.replacen("Blocks per track = 100", "Blocks per track = 4294967295", 1);
        let error = imported(&text).unwrap_err();
        assert!(error.contains("zone[0]"), "{error}");
    }
}

#[test]
fn slips_that_no_spare_can_take_are_noted_and_left_out() {
    let text = DISK.replacen("Sparing scheme used = 0", "Sparing scheme used = 2", 1);
    let text =
        text.replacen("Number of spares = 0", "Number of spares = 1", 1).replacen("slips = []", "slips = [ 5, 7, 300, 99999 ]", 1);
    let imported = imported(&text).unwrap();
    assert_eq!(imported.profile.hdd().unwrap().specification.zones[0].slips, [5, 300]);
    assert!(imported.notes.iter().any(|note| note.contains("slips: 2 of the zone")), "{:?}", imported.notes);
}

#[test]
fn a_file_that_names_itself_and_deep_nesting_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("loop.diskspecs");
    std::fs::write(&path, "source loop.diskspecs\n").unwrap();
    let error = sim::diskspecs::import(&path, ImportOptions::default()).unwrap_err().to_string();
    assert!(error.contains("names itself"), "{error}");
    let error = imported(&format!("a {{ b = {}", "[".repeat(100_000))).unwrap_err();
    assert!(error.contains("deep"), "{error}");
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn no_bytes_make_the_parsers_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = imported(&text);
        let _ = Profile::parse(&text, "x");
    }

    #[test]
    fn no_change_of_a_disk_makes_import_or_disk_panic(
        changes in prop::collection::vec((0usize..1600, prop::sample::select(vec![
            "0", "1", "9", "4294967295", "-1", "1e30", "nan", "{", "}", "[", "]", "=", ",", "\n", "#", "source ", "."]), 0usize..6), 1..4),
    ) {
        let mut text = DISK.to_owned();
        for (at, insert, remove) in changes {
            let at = at.min(text.len());
            text.replace_range(at..(at + remove).min(text.len()), insert);
        }
        if let Ok(imported) = imported(&text) {
            let profile = imported.profile;
            let mut device = profile.build(DeviceOptions::default());
            let capacity = device.capacity_sectors();
            let requests: Vec<_> = (0..20).map(|i| sim::validate::MeasuredRequest {
                lba: capacity / 20 * i,
                sectors: (capacity - capacity / 20 * i).min(7) as u32,
                op: if i % 3 == 0 { block::Op::Write } else { block::Op::Read },
                response_ms: 1.0,
                think: block::Nanos::from_millis(i),
            }).collect();
            prop_assert!(sim::validate::replay(&mut *device, &requests, |_| false).is_some());
        }
    }

    #[test]
    fn no_change_of_a_profile_makes_it_panic(
        at in 0usize..4000,
        insert in prop::sample::select(vec!["0", "9", "99999", "-", ".", "nan", "[", "]", "\"", "\n", "="]),
        remove in 0usize..4,
    ) {
        let mut text = load("barracuda").unwrap().text().to_owned();
        let at = at.min(text.len());
        text.replace_range(at..(at + remove).min(text.len()), insert);
        let _ = Profile::parse(&text, "x");
    }
}

/// Seconds that `count` requests take, `depth` at a time, until the disk is at rest.
fn seconds(name: &str, op: Op, count: u32, sectors: u32, depth: u32, lba: &dyn Fn(u32) -> u64) -> f64 {
    let mut device = load(name).unwrap().build(DeviceOptions { queue_depth: Some(depth), queue_policy: None });
    let (mut now, mut next, mut finished, mut done) = (Nanos::ZERO, 0, 0, Vec::new());
    while finished < count {
        while next < count && next - finished < depth {
            let (lba, priority) = (lba(next), Priority::DEFAULT);
            device.submit(now, &Request { id: next, stream: 0, op, sync: true, priority, sectors, lba, arrival: now });
            next += 1;
        }
        now = device.wake_at().unwrap();
        device.advance(now, &mut done);
        finished += done.len() as u32;
        done.clear();
    }
    // Data in the write cache are not written yet.
    while let Some(at) = device.wake_at() {
        now = at;
        device.advance(now, &mut done);
    }
    now.as_secs_f64()
}

/// Megabytes per second of 1,024 MiB in a row, 1 MiB each.
fn sequential(name: &str, op: Op, from: u64, depth: u32) -> f64 {
    1024.0 * 2048.0 * 512.0 / 1e6 / seconds(name, op, 1024, 2048, depth, &|i| from + u64::from(i) * 2048)
}

/// Mean ms of 2,000 random reads of 4 KiB.
fn random(name: &str, depth: u32) -> f64 {
    let capacity = load(name).unwrap().capacity_sectors() - 8;
    let shuffled = |i: u32| {
        let x = u64::from(i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
    };
    seconds(name, Op::Read, 2000, 8, depth, &|i| shuffled(i) % capacity) / 2000.0 * 1e3
}

#[test]
fn the_present_day_disk_reaches_its_published_speeds() {
    for (op, depth) in [(Op::Read, 1), (Op::Read, 32), (Op::Write, 1), (Op::Write, 32)] {
        let outer = sequential("sata7200", op, 0, depth);
        let inner = sequential("sata7200", op, 7_810_000_000, depth);
        println!("{op:?}, {depth} at once: {outer:.0} to {inner:.0} MB/s");
        assert!((165.0..190.0).contains(&outer), "{op:?}, {depth} at once: outer {outer} MB/s, published 175");
        assert!((78.0..95.0).contains(&inner), "{op:?}, {depth} at once: inner {inner} MB/s, published 83");
    }
    let (single, queued) = (random("sata7200", 1), random("sata7200", 32));
    println!("{single:.2} ms a random read alone, {queued:.2} ms of 32");
    // Average seek 7.4 ms and half a revolution 4.2 ms.
    assert!((11.0..12.6).contains(&single), "{single} ms");
    assert!(queued < 0.5 * single, "32 at once: {queued} ms each");
}

#[test]
fn impossible_values_of_a_flash_device_are_errors_that_name_key_value_and_range() {
    for (from, to, expected) in [
        ("kind = \"ssd\"", "kind = \"tape\"", ["my.toml:", "tape", "ssd"]),
        ("channels = 4", "chanels = 4", ["my.toml:", "chanels", "channels"]),
        ("channels = 4", "channels = 0", ["flash.channels", "0", "1 to 64"]),
        ("page_bytes = 4096", "page_bytes = 3000", ["flash.page_bytes", "3000", "power of two within 512 to 32768"]),
        ("pages_per_block = 64", "pages_per_block = 5000", ["flash.pages_per_block", "5000", "2 to 4096"]),
        ("blocks_per_plane = 9600", "blocks_per_plane = 1000000", ["flash:", "2048000000 pages", "134217728"]),
        ("read_us = 21.76", "read_us = -1.0", ["flash.read_us", "-1", "0 to 1000000"]),
        ("program_us = 90.76", "program_us = nan", ["flash.program_us", "NaN", "0 to 1000000"]),
        ("channel_mb_s = 400.0", "channel_mb_s = 0.0", ["flash.channel_mb_s", "0", "0.1 to 1000000"]),
        ("capacity_sectors = 125045424", "capacity_sectors = 0", ["capacity_sectors", "0", "1 to"]),
        ("capacity_sectors = 125045424", "capacity_sectors = 157286400", ["capacity_sectors", "157286400", "1 to 156"]),
        ("low_free_blocks = 8", "low_free_blocks = 3", ["garbage_collection.low_free_blocks", "3", "4 to 1048576"]),
        ("low_free_blocks = 8", "low_free_blocks = 9601", ["garbage_collection.low_free_blocks", "9601", "4 to 9600"]),
        ("high_free_blocks = 9", "high_free_blocks = 7", ["garbage_collection.high_free_blocks", "7", "8 to 9600"]),
        ("cached_entries = 131072", "cached_entries = 0", ["mapping.cached_entries", "0", "1 to"]),
        ("entries_per_fetch = 1", "entries_per_fetch = 2048", ["mapping.entries_per_fetch", "2048", "1 to 1024"]),
        ("depth = 32", "depth = 0", ["queue.depth", "0", "1 to 1024"]),
        ("dies_per_channel = 4", "dies_per_channel = 65", ["flash.dies_per_channel", "65", "1 to 64"]),
        ("planes_per_die = 2", "planes_per_die = 17", ["flash.planes_per_die", "17", "1 to 16"]),
        ("blocks_per_plane = 9600", "blocks_per_plane = 7", ["flash.blocks_per_plane", "7", "8 to 1048576"]),
        ("blocks_per_plane = 9600", "blocks_per_plane = 12", ["capacity_sectors", "125045424", "no room"]),
        ("erase_us = 2000.0", "erase_us = 1e9", ["flash.erase_us", "1000000000", "0 to 1000000"]),
        ("transfer_mb_s = 280.0", "transfer_mb_s = inf", ["interface.transfer_mb_s", "inf", "0.1 to 1000000"]),
        ("wear_spread = 1000", "wear_spread = 0", ["garbage_collection.wear_spread", "0", "1 to 1000000"]),
        ("wear_spread = 1000", "wear_spread = -1", ["garbage_collection.wear_spread", "-1", "1 to 1000000"]),
        ("pages_per_block = 64", "pages_per_block = 1", ["flash.pages_per_block", "1", "2 to 4096"]),
    ] {
        let error = error_of(&changed("ssd-dftl", from, to));
        assert!(error.starts_with("my.toml") && expected.iter().all(|part| error.contains(part)), "{to}: {error}");
    }
}

#[test]
fn a_key_of_a_hard_disk_is_unknown_to_a_flash_device_and_the_other_way_round() {
    let error = error_of(&(load("ssd-dftl").unwrap().text().to_owned() + "[mechanics]\nrotation_rpm = 7200.0\n"));
    assert!(error.contains("mechanics"), "{error}");
    let error = error_of(&changed("atlas10k", "[geometry]", "[flash]\nchannels = 1\n[geometry]"));
    assert!(error.contains("flash"), "{error}");
}

/// Requests a second of a device in the state that its profile says, `depth` at once.
fn requests_a_second(name: &str, depth: u32, requests: u32, op: Op, sectors: u32, lba: &dyn Fn(u32) -> u64) -> f64 {
    let mut device = load(name).unwrap().build(DeviceOptions { queue_depth: Some(depth), queue_policy: None });
    speed_of(&mut *device, depth, requests, op, sectors, lba)
}

fn speed_of(device: &mut dyn Device, depth: u32, requests: u32, op: Op, sectors: u32, lba: &dyn Fn(u32) -> u64) -> f64 {
    let (mut now, mut next, mut finished, mut done) = (Nanos::ZERO, 0, 0, Vec::new());
    while finished < requests {
        while next < requests && next - finished < depth {
            let (id, lba, priority) = (next, lba(next), Priority::DEFAULT);
            device.submit(now, &Request { id, stream: 0, op, sync: true, priority, sectors, lba, arrival: now });
            next += 1;
        }
        now = device.wake_at().unwrap();
        device.advance(now, &mut done);
        finished += done.len() as u32;
        done.clear();
    }
    f64::from(requests) / now.as_secs_f64()
}

#[test]
fn a_lone_page_of_the_dftl_device_takes_the_published_times_at_the_flash() {
    let one = |op| {
        let mut device = load("ssd-dftl").unwrap().build(DeviceOptions::default());
        let mut took = Vec::new();
        // The second finds its entry of the map in memory.
        for id in 0..2 {
            let (now, priority) = (Nanos::from_millis(u64::from(id)), Priority::DEFAULT);
            device.submit(now, &Request { id, stream: 0, op, sync: true, priority, sectors: 8, lba: 0, arrival: now });
            let mut done = Vec::new();
            while let Some(at) = device.wake_at() {
                device.advance(at, &mut done);
            }
            took.push((done[0].at - now).0 as f64 / 1e3);
        }
        // In addition to the flash there are the controller's 10 us and 4 KiB on the link at 280 MB/s.
        took[1] - 10.0 - 4096.0 / 280.0
    };
    let (read, write) = (one(Op::Read), one(Op::Write));
    assert!((read - 32.0).abs() < 0.01, "{read} us, published 32");
    assert!((write - 101.0).abs() < 0.01, "{write} us, published 101");
}

#[test]
fn the_nvme_drive_has_the_speeds_that_its_profile_states() {
    let name = "nvme-tlc";
    let scattered = |i: u32| u64::from(i.wrapping_mul(2_654_435_761)) % 488_000_000 / 8 * 8;
    let in_order = |i: u32| u64::from(i) * 256;
    let megabytes = |speed: f64| speed * 256.0 * 512.0 / 1e6;
    let figures = [
        ("MB/s read in order", 3200.0, megabytes(requests_a_second(name, 32, 20_000, Op::Read, 256, &in_order))),
        ("MB/s written in order", 300.0, megabytes(requests_a_second(name, 32, 20_000, Op::Write, 256, &in_order))),
        ("reads a second, one at a time", 14_000.0, requests_a_second(name, 1, 20_000, Op::Read, 8, &scattered)),
        ("reads a second, 128 at a time", 330_000.0, requests_a_second(name, 128, 200_000, Op::Read, 8, &scattered)),
        // 800 MB: many times the buffer.
        ("writes a second, one at a time", 50_000.0, requests_a_second(name, 1, 200_000, Op::Write, 8, &scattered)),
    ];
    for (what, published, here) in figures {
        println!("{what}: {here:.0}, published {published:.0}");
    }
    for (what, published, here) in figures {
        assert!((here / published - 1.0).abs() < 0.07, "{what}: {here}, published {published}");
    }
}

/// A quarter of the drive, with as much spare flash for its size, long overwritten at random 4 KiB at a time.
#[test]
fn random_writes_of_4_kib_have_the_steady_state_of_a_drive_that_maps_them() {
    let text = changed("nvme-tlc", "initial_state = \"sequential\"", "initial_state = \"random\"");
    let text = text.replacen("blocks_per_plane = 1366", "blocks_per_plane = 342", 1);
    let text = text.replacen("capacity_sectors = 488397168", "capacity_sectors = 122099288", 1);
    let run = |text: &str| {
        let mut device = Profile::parse(text, "quarter.toml").unwrap().build(DeviceOptions::default());
        let scattered = |i: u32| u64::from(i.wrapping_mul(2_654_435_761)) % 122_099_280 / 8 * 8;
        let speed = speed_of(&mut *device, 32, 300_000, Op::Write, 8, &scattered);
        (speed, device.flash().unwrap().write_amplification().unwrap())
    };
    let (packed, amplification) = run(&text);
    let (pages, by_pages) = run(&text.replacen("unit_bytes = 4096", "unit_bytes = 16384", 1));
    // 16 planes of 342 blocks, of which 6 are free and two open, hold the logical pages in units of a quarter of a page.
    let logical = 122_099_288.0 / 8.0 / 16.0 / (768.0 * 4.0);
    let expected = greedy_write_amplification((342.0 - 8.0) / logical, 768.0 * 4.0);
    println!(
        "4 KiB units: {packed:.0}/s, amplification {amplification:.2}, closed form {expected:.2}; pages: {pages:.0}/s, {by_pages:.1}"
    );
    assert!((amplification / expected - 1.0).abs() < 0.05, "{amplification}, closed form {expected}");
    // The programs alone would allow this; reading, transferring and erasing take a tenth more.
    let most = 16.0 * 4.0 / 850e-6 / amplification;
    assert!(packed < most && packed > 0.85 * most && packed > 20.0 * pages, "{packed} of at most {most}, {pages} a second");
    // A page of which a quarter was written costs four times as much, and no less is moved.
    assert!(by_pages > 3.5 * amplification, "{by_pages}");
}

/// Write amplification of greedy collection under uniform random writes (Desnoyers, SYSTOR 2012): physical over logical pages is
/// `a`, a block has `n` pages, and is collected when `x` of them are left, where a = n (H(n) - H(x)) / (n - x).
fn greedy_write_amplification(a: f64, n: f64) -> f64 {
    let (mut low, mut high) = (0.0, n - 1e-6);
    for _ in 0..100 {
        let x: f64 = (low + high) / 2.0;
        if n * ((n + 0.5).ln() - (x + 0.5).ln()) / (n - x) > a { low = x } else { high = x }
    }
    n / (n - low)
}
