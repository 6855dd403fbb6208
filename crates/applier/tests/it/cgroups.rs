//! Lines of cgroups are written all or none, survive interruptions, and are restored.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::kernel::{Cgroup, Count, Disk, EIO, Fault, Machine};
use applier::cgroup::Allowed;
use applier::journal::Journal;
use applier::sysfs::Sysfs;
use applier::{ApplierError, Changed, ErrorKind, Moment, Outcome, Rules, Scope, SetRequest, Writer};

const BACKUP: &str = "/system.slice/backup.service";
const BUILD: &str = "/user.slice/user-1000.slice/build.scope";

/// A machine with two neighbours, one of which has a limit of its own.
fn machine() -> Machine {
    let machine = Machine::new();
    machine.make_cgroup(BACKUP);
    machine.make_cgroup(BUILD);
    machine.echo("8:0 wbps=50000000", &format!("{BACKUP}/io.max"));
    machine.echo("8:16 rbps=7000000", &format!("{BACKUP}/io.max"));
    machine
}

fn process(machine: &Machine, fault: Fault) -> (Result<Writer, String>, Count) {
    let (mut files, count) = machine.process(fault);
    let opened = Journal::open(&mut files, Path::new("/var/lib/seekwise")).map_err(|error| error.to_string());
    let names = vec!["backup.service".to_owned(), "user.slice".to_owned(), "gone.service".to_owned()];
    let cgroups = Allowed { names, io_cost: true, floor_bytes_per_s: 1_000_000 };
    let rules = Rules { cgroups, ..Rules::default() };
    (opened.map(|journal| Writer::new(Sysfs::real(), Box::new(files), journal, rules)), count)
}

fn writer(machine: &Machine) -> Writer {
    process(machine, Fault::Nothing).0.unwrap()
}

/// Each a file's name and a value, of the device `sda`.
fn set(writer: &mut Writer, cgroup: &str, lines: &[(&str, &str)]) -> Result<Vec<Changed>, ApplierError> {
    let values = lines.iter().map(|(name, value)| (format!("{name} sda"), (*value).to_owned())).collect();
    writer.set(
        Moment::default(),
        &SetRequest { scope: Scope::Cgroup(cgroup.to_owned()), values, expected: Vec::new(), why: "a test".to_owned() },
    )
}

fn limit(machine: &Machine, cgroup: &str) -> Option<String> {
    machine.cgroups()[cgroup].lines.get(&("io.max", "8:0".to_owned())).cloned()
}

/// Some seconds of a controller: limits that change, a weight with one, and none any more.
const LIFE: &[(&str, &[(&str, &str)])] = &[
    (BACKUP, &[("io.max", "wbps=20000000")]),
    (BUILD, &[("io.max", "rbps=5000000 wbps=5000000"), ("io.weight", "50")]),
    (BACKUP, &[("io.max", "rbps=9000000 wbps=10000000")]),
    ("/", &[("io.cost.qos", "enable=1 ctrl=user rpct=95")]),
    (BACKUP, &[("io.max", "rbps=max wbps=50000000")]),
    (BUILD, &[("io.max", "rbps=max wbps=2000000")]),
];

fn live(machine: &Machine, fault: Fault) -> (bool, Count) {
    let (opened, count) = process(machine, fault);
    let Ok(mut writer) = opened else { return (false, count) };
    let lived = writer.end().is_ok() && LIFE.iter().all(|(cgroup, lines)| set(&mut writer, cgroup, lines).is_ok());
    (lived, count)
}

/// The lines of all cgroups. io.cost's stays once it was there, with its defaults.
fn lines(machine: &Machine) -> BTreeMap<String, Cgroup> {
    let mut cgroups = machine.cgroups();
    let is_default = |line: &String| line.starts_with("enable=0 ctrl=auto");
    cgroups.values_mut().for_each(|cgroup| cgroup.lines.retain(|(file, _), line| *file != "io.cost.qos" || !is_default(line)));
    cgroups
}

fn is_as_before(machine: &Machine, what: &str) {
    assert_eq!(lines(machine), lines(&self::machine()), "{what}");
    let kept: Vec<String> = machine.journal().into_keys().filter(|name| !name.ends_with(".unfinished")).collect();
    assert!(kept.is_empty(), "{what}: {kept:?} is left in the journal");
    assert!(machine.too_early().is_empty(), "{what}: {:?}: not in the journal on the disk before", machine.too_early());
}

#[test]
fn only_the_devices_line_is_written_and_put_back() {
    let machine = machine();
    let mut first = writer(&machine);
    let changed = set(&mut first, BACKUP, &[("io.max", "wbps=20000000")]).unwrap();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].before.as_deref(), Some("rbps=max wbps=50000000 riops=max wiops=max"));
    assert_eq!(changed[0].now.as_deref(), Some("rbps=max wbps=20000000 riops=max wiops=max"));
    assert_eq!(machine.cgroups()[BACKUP].lines[&("io.max", "8:16".to_owned())], "rbps=7000000 wbps=max riops=max wiops=max");
    assert!(set(&mut first, BACKUP, &[("io.max", "wbps=20000000")]).unwrap().is_empty(), "it is so");
    set(&mut first, BACKUP, &[("io.max", "rbps=max wbps=max riops=max wiops=max")]).unwrap();
    assert_eq!(limit(&machine, BACKUP).as_deref(), Some("rbps=max wbps=50000000 riops=max wiops=max"), "the limit of its own");
    let originals = first.originals(None).unwrap();
    assert_eq!((originals[0].scope.name(), originals[0].attribute.as_str()), (BACKUP, "io.max sda"));
    // Of one cgroup, as when its client leaves.
    set(&mut first, BUILD, &[("io.max", "rbps=5000000")]).unwrap();
    assert_eq!(first.end_of(BACKUP).unwrap().len(), 1);
    assert!(limit(&machine, BUILD).is_some());
    let restored = first.restore(None).unwrap();
    assert!(restored.len() == 1 && matches!(restored[0].outcome, Outcome::Back { .. }), "{restored:?}");
    is_as_before(&machine, "restored");
}

#[test]
fn killed_at_any_write_every_line_comes_back() {
    let (lived, count) = live(&machine(), Fault::Nothing);
    assert!(lived);
    let mut points = 0;
    for at in 1..=count.writes() + 1 {
        for fault in [Fault::KilledBefore(at), Fault::KilledIn(at)] {
            let machine = machine();
            live(&machine, fault.clone());
            // And killed again while it puts back.
            for again in 1..=4 {
                if let (Ok(mut second), _) = process(&machine, Fault::KilledBefore(again)) {
                    let _ = second.end();
                }
            }
            writer(&machine).end().unwrap();
            is_as_before(&machine, &format!("{fault:?}"));
            points += 1;
        }
    }
    println!("{points} points");
    assert!(points > 70, "only {points} points");
}

#[test]
fn after_a_kill_at_any_write_an_external_line_stays() {
    let rival = "rbps=3000000 wbps=max riops=max wiops=max";
    let (_, count) = live(&machine(), Fault::Nothing);
    for at in 1..=count.writes() + 1 {
        for fault in [Fault::KilledBefore(at), Fault::KilledIn(at)] {
            let machine = machine();
            live(&machine, fault.clone());
            machine.echo(&format!("8:0 {rival}"), &format!("{BACKUP}/io.max"));
            writer(&machine).end().unwrap();
            let cgroups = lines(&machine);
            assert_eq!(limit(&machine, BACKUP).as_deref(), Some(rival), "{fault:?}");
            assert_eq!(
                (&cgroups[BUILD], &cgroups["/"]),
                (&lines(&self::machine())[BUILD], &lines(&self::machine())["/"]),
                "{fault:?}"
            );
        }
    }
}

#[test]
fn an_error_at_any_write_leaves_nothing_half_set() {
    let (_, count) = live(&machine(), Fault::Nothing);
    // The first two make the journal's folder.
    for at in 3..=count.writes() {
        for fault in [Fault::Fails(at, EIO), Fault::Full(at)] {
            let is_full = matches!(fault, Fault::Full(_));
            let machine = machine();
            let mut writer = process(&machine, fault.clone()).0.unwrap();
            for (cgroup, wanted) in LIFE {
                let before = lines(&machine);
                if let Err(error) = set(&mut writer, cgroup, wanted) {
                    assert_eq!(lines(&machine), before, "{cgroup} {wanted:?}, {fault:?}: {error}");
                    assert!(is_full || set(&mut writer, cgroup, wanted).is_ok(), "{fault:?}: the error is over");
                }
            }
            let _ = writer.end();
            self::writer(&machine).end().unwrap();
            is_as_before(&machine, &format!("{fault:?}"));
        }
    }
}

#[test]
fn external_writes_at_any_moment_stay() {
    let rival = "rbps=3000000 wbps=max riops=max wiops=max";
    let (_, count) = live(&machine(), Fault::Nothing);
    let (mut lost, mut stood_down) = (0, 0);
    for at in 1..=count.operations() {
        let machine = machine();
        let fault = Fault::Rival(at, "/system.slice/backup.service/io.max", "8:0 rbps=3000000 wbps=max riops=max wiops=max");
        let mut writer = process(&machine, fault).0.unwrap();
        let _ = writer.end();
        let done: Vec<bool> = LIFE.iter().map(|(cgroup, lines)| set(&mut writer, cgroup, lines).is_ok()).collect();
        let others = [done[1], done[3], done[5]];
        assert_eq!(others, [true; 3], "at {at}: the agent stands down on that cgroup alone");
        stood_down += usize::from(done.contains(&false));
        let foreign = writer.foreign(BACKUP).unwrap();
        writer.end().unwrap();
        // Between reading a line and writing it there is a moment in which no change can be noticed.
        let stays = limit(&machine, BACKUP).as_deref() == Some(rival);
        lost += usize::from(!stays);
        assert!(stays || foreign.is_empty(), "at {at}: {foreign:?}");
    }
    println!("{lost} of {} overwritten, {stood_down} noticed", count.operations());
    assert!(lost * 50 < count.operations(), "{lost} of {} were overwritten", count.operations());
    assert!(stood_down * 4 > count.operations(), "only {stood_down} of {} were noticed", count.operations());
}

#[test]
fn an_external_line_is_neither_overwritten_nor_put_back_until_resume() {
    let machine = machine();
    let mut first = writer(&machine);
    set(&mut first, BACKUP, &[("io.max", "wbps=20000000")]).unwrap();
    set(&mut first, BUILD, &[("io.max", "wbps=20000000")]).unwrap();
    // That the administrator takes the limit away is a decision, too.
    machine.echo("8:0 wbps=max", &format!("{BACKUP}/io.max"));
    let error = set(&mut first, BACKUP, &[("io.max", "wbps=10000000")]).unwrap_err();
    assert!(
        error.kind == ErrorKind::Foreign && error.message.contains("wbps=max riops=max wiops=max, and the agent had left it at"),
        "{error}"
    );
    set(&mut first, BUILD, &[("io.max", "wbps=10000000")]).unwrap();
    first.release(Moment::default(), BACKUP, &[]).unwrap();
    let mut second = writer(&machine);
    let restored = second.end().unwrap();
    let of = |cgroup: &str| restored.iter().find(|one| one.scope.name() == cgroup).unwrap().outcome.clone();
    assert!(matches!(of(BACKUP), Outcome::Foreign { .. }) && matches!(of(BUILD), Outcome::Back { .. }), "{restored:?}");
    assert_eq!(
        set(&mut second, BACKUP, &[("io.max", "wbps=10000000")]).unwrap_err().kind,
        ErrorKind::Foreign,
        "until it is resumed"
    );
    assert!(second.foreign(BACKUP).unwrap()[0].released);
    second.resume(BACKUP).unwrap();
    set(&mut second, BACKUP, &[("io.max", "wbps=10000000")]).unwrap();
    second.end().unwrap();
    assert_eq!(limit(&machine, BACKUP), None, "an external value is the original by now");
}

#[test]
fn what_a_decision_rests_on_is_checked() {
    let machine = machine();
    let value = |text: &str| ("io.max sda".to_owned(), text.to_owned());
    let wanted = |expected| SetRequest {
        scope: Scope::Cgroup(BACKUP.to_owned()),
        values: vec![value("wbps=9000000")],
        expected: vec![value(expected)],
        why: String::new(),
    };
    let error = writer(&machine).set(Moment::default(), &wanted("wbps=max")).unwrap_err();
    assert!(error.kind == ErrorKind::Stale && error.message.contains("wbps=50000000 riops=max wiops=max by now"), "{error}");
    writer(&machine).set(Moment::default(), &wanted("wbps=50000000")).unwrap();
}

#[test]
fn a_removed_cgroup_is_no_error_and_one_that_comes_back_is_another() {
    let machine = machine();
    let mut writer = writer(&machine);
    set(&mut writer, BACKUP, &[("io.max", "wbps=20000000")]).unwrap();
    machine.remove_cgroup(BACKUP);
    assert_eq!(set(&mut writer, BACKUP, &[("io.max", "wbps=10000000")]).unwrap_err().kind, ErrorKind::NoDevice);
    assert!(writer.foreign(BACKUP).unwrap().is_empty());
    machine.make_cgroup(BACKUP);
    assert!(writer.foreign(BACKUP).unwrap().is_empty(), "the record is of the cgroup before");
    set(&mut writer, BACKUP, &[("io.max", "wbps=10000000")]).unwrap();
    assert_eq!(limit(&machine, BACKUP).as_deref(), Some("rbps=max wbps=10000000 riops=max wiops=max"));
    writer.end().unwrap();
    assert_eq!(limit(&machine, BACKUP), None, "the new one had no limit");
    // Gone at the end: forgotten; nothing is written to its successor.
    set(&mut writer, BACKUP, &[("io.max", "wbps=20000000")]).unwrap();
    machine.remove_cgroup(BACKUP);
    machine.make_cgroup(BACKUP);
    machine.echo("8:0 wbps=20000000", &format!("{BACKUP}/io.max"));
    assert_eq!(writer.restore(None).unwrap()[0].outcome, Outcome::Gone);
    assert!(limit(&machine, BACKUP).is_some() && machine.journal().is_empty());
}

#[test]
fn a_cgroup_or_a_device_that_goes_at_any_moment_leaves_nothing_behind() {
    let (_, count) = live(&machine(), Fault::Nothing);
    for at in 1..=count.operations() {
        for fault in [Fault::CgroupRemoved(at, BACKUP), Fault::Unplugged(at)] {
            let machine = machine();
            let (opened, so_far) = process(&machine, fault.clone());
            let mut writer = opened.unwrap();
            for (cgroup, lines) in LIFE {
                let trouble = set(&mut writer, cgroup, lines).err();
                let kind = trouble.as_ref().map(|error| error.kind);
                assert!(
                    kind.is_none_or(|kind| kind == ErrorKind::NoDevice || kind == ErrorKind::NotAllowed),
                    "{fault:?}: {trouble:?}"
                );
            }
            if so_far.operations() < at {
                break;
            }
            machine.make_cgroup(BACKUP);
            machine.plug(Disk::new("S2", 2));
            let theirs = machine.cgroups()[BACKUP].clone();
            if theirs.lines.is_empty() {
                machine.echo("8:0 wbps=20000000", &format!("{BACKUP}/io.max"));
            }
            let before = limit(&machine, BACKUP);
            writer.end().unwrap();
            assert_eq!(limit(&machine, BACKUP), before, "{fault:?}: it is another cgroup, or another device");
            let kept: Vec<String> = machine.journal().into_keys().filter(|name| !name.ends_with(".unfinished")).collect();
            assert!(kept.is_empty(), "{fault:?}: {kept:?}");
        }
    }
}

#[test]
fn a_journal_of_an_earlier_boot_is_cleared() {
    let machine = machine();
    live(&machine, Fault::Nothing);
    machine.reboot();
    machine.make_cgroup(BACKUP);
    let restored = writer(&machine).end().unwrap();
    assert!(!restored.is_empty() && restored.iter().all(|one| one.outcome == Outcome::EarlierBoot), "{restored:?}");
    assert!(machine.journal().is_empty());
}

#[test]
fn of_a_damaged_journal_everything_readable_comes_back_and_the_rest_is_kept() {
    let machine = machine();
    set(&mut writer(&machine), BACKUP, &[("io.max", "wbps=20000000")]).unwrap();
    set(&mut writer(&machine), BUILD, &[("io.max", "wbps=20000000")]).unwrap();
    machine.damage("cgroup.journal", |bytes| bytes[20] ^= 1);
    let mut writer = writer(&machine);
    assert_eq!(set(&mut writer, BUILD, &[("io.max", "wbps=10000000")]).unwrap_err().kind, ErrorKind::Journal);
    let restored = writer.restore(None).unwrap();
    assert!(restored.iter().any(|one| matches!(&one.outcome, Outcome::Failed { reason } if reason.contains("a copy is in"))));
    assert!(restored.iter().any(|one| one.scope.name() == BUILD && matches!(one.outcome, Outcome::Back { .. })), "{restored:?}");
}

#[test]
fn what_is_not_allowed_is_refused_with_what_would_be_right() {
    let machine = machine();
    machine.make_cgroup("/system.slice/other.service");
    machine.make_cgroup("/system.slice/seekwise-applier.service");
    let mut writer = writer(&machine);
    let refused: [(&str, &str, &str, &str); 12] = [
        ("/system.slice/other.service", "io.max", "wbps=5000000", "neighbours = [\"other.service\"] below [limits] would"),
        ("/user.slice/../system.slice", "io.max", "wbps=5000000", "should be a path in the unified hierarchy"),
        ("/user.slice//build", "io.max", "wbps=5000000", "should be a path in the unified hierarchy"),
        (BACKUP, "io.latency", "5", "is not an attribute that can be set there; known are io.max DEVICE, io.weight DEVICE"),
        (BACKUP, "cgroup.procs", "1", "is not an attribute"),
        (BACKUP, "io.cost.qos", "enable=1", "is not an attribute"),
        ("/", "io.max", "wbps=5000000", "is not an attribute that can be set there; known are io.cost.qos DEVICE"),
        (BACKUP, "io.max", "wbps=999999", "999999 bytes/s is below the floor of 1000000 bytes/s, which is floor_mb_s of [limits]"),
        (BACKUP, "io.max", "wbps=0", "should be a number from 1"),
        (BACKUP, "io.weight", "10001", "should be a number from 1 to 10000, or default"),
        (BACKUP, "io.max", "wbps=5000000\n8:16 wbps=5000000", "should be as in"),
        ("/gone.service", "io.max", "wbps=5000000", "there is no such cgroup"),
    ];
    for (cgroup, name, value, words) in refused {
        let error = set(&mut writer, cgroup, &[(name, value)]).unwrap_err();
        assert!(error.message.contains(words), "{cgroup} {name} {value:?}: {error}");
        assert!(matches!(error.kind, ErrorKind::NotAllowed | ErrorKind::NoDevice), "{error}");
    }
    let error = set(&mut writer, BACKUP, &[("io.max", "wbps=5000000"), ("io.max", "rbps=5000000")]).unwrap_err();
    assert!(error.message.contains("io.max sda is given twice"), "{error}");
    let before = lines(&machine);
    assert_eq!((&before[BACKUP], &before[BUILD]), (&lines(&self::machine())[BACKUP], &lines(&self::machine())[BUILD]));
    // The applier would limit itself.
    let cgroups = Allowed { names: vec!["system.slice".to_owned()], ..Allowed::default() };
    let (mut files, _) = machine.process(Fault::Nothing);
    let journal = Journal::open(&mut files, Path::new("/var/lib/seekwise")).unwrap();
    let mut other = Writer::new(Sysfs::real(), Box::new(files), journal, Rules { cgroups, ..Rules::default() });
    for own in ["/system.slice", "/system.slice/seekwise-applier.service"] {
        let error = set(&mut other, own, &[("io.max", "wbps=5000000")]).unwrap_err();
        assert!(error.message.contains("the applier itself runs in it"), "{error}");
    }
    set(&mut other, "/system.slice/other.service", &[("io.max", "wbps=5000000")]).unwrap();
}

#[test]
fn without_the_controller_the_command_is_named_that_enables_it() {
    let machine = machine();
    machine.enable_io("/user.slice", false);
    let mut writer = writer(&machine);
    let error = set(&mut writer, BUILD, &[("io.max", "wbps=5000000")]).unwrap_err();
    let words =
        "the controller io is not enabled for it; `echo +io > /sys/fs/cgroup/user.slice/cgroup.subtree_control` would do so";
    assert!(error.kind == ErrorKind::NotAllowed && error.message.contains(words), "{error}");
    let can = writer.can(BUILD).unwrap();
    assert!(can.iter().all(|one| one.refused.as_ref().is_some_and(|why| why.contains("echo +io"))), "{can:?}");
    let can = writer.can(BACKUP).unwrap();
    assert_eq!(can.iter().map(|one| one.attribute.as_str()).collect::<Vec<_>>(), ["io.max", "io.weight", "io.bfq.weight"]);
    assert!(can[0].refused.is_none() && can[0].value.contains("8:16 rbps=7000000"), "{can:?}");
    // Taken away while there is a limit, it goes with the limit.
    set(&mut writer, BACKUP, &[("io.max", "wbps=5000000")]).unwrap();
    machine.enable_io("/system.slice", false);
    assert_eq!(writer.restore(None).unwrap()[0].outcome, Outcome::Gone);
    assert_eq!(writer.at_exit(BACKUP, applier::AtExit::Keep).unwrap_err().kind, ErrorKind::NotAllowed);
}
