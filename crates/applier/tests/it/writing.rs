//! Settings are written all or none, survive interruptions, and are restored.

use std::path::{Path, PathBuf};

use crate::support::kernel::{Count, Disk, EIO, EROFS, Fault, Machine, Throttle};
use applier::journal::Journal;
use applier::sysfs::Sysfs;
use applier::{AtExit, ErrorKind, MayKeep, Moment, Outcome, Rules, Scope, SetRequest, Writer};
use block::Nanos;

const JOURNAL: &str = "/var/lib/seekwise";

/// A process that may write, to which this happens.
fn process(machine: &Machine, fault: Fault) -> (Result<Writer, String>, Count) {
    let (mut files, count) = machine.process(fault);
    let opened = Journal::open(&mut files, Path::new(JOURNAL)).map_err(|error| error.to_string());
    let rules = Rules { machine: true, may_keep: MayKeep::by(|device| Ok(device == "sda")), ..Rules::default() };
    (opened.map(|journal| Writer::new(Sysfs::real(), Box::new(files), journal, rules)), count)
}

fn writer(machine: &Machine) -> Writer {
    process(machine, Fault::Nothing).0.unwrap()
}

/// `"sda scheduler=bfq nomerges=2"`
fn wanted(text: &str) -> SetRequest {
    let mut words = text.split(' ');
    let scope = Scope::from(words.next().unwrap().to_owned());
    let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap();
    SetRequest { scope, values: words.map(pair).collect(), expected: Vec::new(), why: "a test".to_owned() }
}

fn set(writer: &mut Writer, text: &str) -> Result<Vec<applier::Changed>, applier::ApplierError> {
    writer.set(Moment::default(), &wanted(text))
}

/// An administrator's own settings, all but the defaults.
fn tuned_by_hand() -> Machine {
    let machine = Machine::new();
    for (name, value) in
        [("nr_requests", "100"), ("iosched/fifo_batch", "7"), ("iosched/async_depth", "33"), ("read_ahead_kb", "512")]
    {
        machine.echo(value, name);
    }
    machine
}

/// Settings one after the other, as an agent makes them.
const SCENARIOS: &[&[&str]] = &[
    &["sda scheduler=bfq iosched/slice_idle=0 iosched/timeout_sync=500 read_ahead_kb=1024", "sda scheduler=kyber nr_requests=8"],
    &["sda nr_requests=32 iosched/fifo_batch=1", "sda scheduler=none", "sda scheduler=mq-deadline iosched/fifo_batch=64"],
    &[
        "sda max_sectors_kb=256 nomerges=2 rq_affinity=2",
        "sda max_sectors_kb=1024",
        "sda scheduler=bfq iosched/strict_guarantees=1",
    ],
    &["vm vm/dirty_bytes=1000000 vm/dirty_background_ratio=3", "vm vm/swappiness=10 vm/dirty_background_bytes=100000"],
];

/// Makes the settings until the process is killed. Whether it lived to the end.
fn live(machine: &Machine, settings: &[&str], fault: Fault) -> (bool, Count) {
    let (opened, count) = process(machine, fault);
    let Ok(mut writer) = opened else { return (false, count) };
    let lived = writer.end().is_ok() && settings.iter().all(|text| set(&mut writer, text).is_ok());
    (lived, count)
}

fn is_as(machine: &Machine, original: &Machine, what: &str) {
    assert_eq!(machine.disk(), original.disk(), "{what}");
    assert_eq!(machine.vm(), original.vm(), "{what}");
    let kept: Vec<String> = machine.journal().into_keys().filter(|name| !name.ends_with(".unfinished")).collect();
    assert!(kept.is_empty(), "{what}: {kept:?} is left in the journal");
    assert!(
        machine.too_early().is_empty(),
        "{what}: {:?}: the old value was not on the disk before the new one",
        machine.too_early()
    );
}

#[test]
fn killed_at_any_write_every_original_comes_back() {
    let mut points = 0;
    for settings in SCENARIOS {
        let (lived, count) = live(&tuned_by_hand(), settings, Fault::Nothing);
        assert!(lived, "{settings:?}");
        for at in 1..=count.writes() + 1 {
            for fault in [Fault::KilledBefore(at), Fault::KilledIn(at)] {
                let machine = tuned_by_hand();
                live(&machine, settings, fault.clone());
                writer(&machine).end().unwrap();
                is_as(&machine, &tuned_by_hand(), &format!("{settings:?} {fault:?}"));
                points += 1;
            }
        }
    }
    println!("{points} points");
    assert!(points > 200, "only {points} points");
}

#[test]
fn killed_again_while_it_puts_back_every_original_comes_back() {
    for settings in SCENARIOS {
        let (_, count) = live(&tuned_by_hand(), settings, Fault::Nothing);
        for first in (1..=count.writes() + 1).step_by(3) {
            let after_first = || {
                let machine = tuned_by_hand();
                live(&machine, settings, Fault::KilledIn(first));
                machine
            };
            let (mut second, count) = process(&after_first(), Fault::Nothing);
            second.as_mut().unwrap().end().unwrap();
            for at in 1..=count.writes() {
                for fault in [Fault::KilledBefore(at), Fault::KilledIn(at)] {
                    let machine = after_first();
                    if let (Ok(mut second), _) = process(&machine, fault.clone()) {
                        let _ = second.end();
                    }
                    writer(&machine).end().unwrap();
                    is_as(&machine, &tuned_by_hand(), &format!("{settings:?} {first} {fault:?}"));
                }
            }
        }
    }
}

#[test]
fn an_error_at_any_write_leaves_nothing_half_set() {
    for settings in SCENARIOS {
        let (_, count) = live(&tuned_by_hand(), settings, Fault::Nothing);
        // The first two make the journal's folder.
        for at in 3..=count.writes() {
            let machine = tuned_by_hand();
            let (opened, _) = process(&machine, Fault::Fails(at, EIO));
            let mut writer = opened.unwrap();
            for text in *settings {
                let before = (machine.disk(), machine.vm());
                match set(&mut writer, text) {
                    Ok(_) => {}
                    Err(error) => {
                        let there = (machine.disk(), machine.vm());
                        assert_eq!(there, before, "{text}, error at {at}: {error}");
                        // The error is over: it can be done now.
                        set(&mut writer, text).unwrap();
                    }
                }
            }
            writer.end().unwrap();
            writer.end().unwrap();
            is_as(&machine, &tuned_by_hand(), &format!("{settings:?}, error at {at}"));
        }
    }
}

#[test]
fn a_full_disk_under_the_journal_leaves_nothing_half_set_and_keeps_nothing_from_being_put_back() {
    for settings in SCENARIOS {
        let (_, count) = live(&tuned_by_hand(), settings, Fault::Nothing);
        for at in 3..=count.writes() {
            let machine = tuned_by_hand();
            let mut writer = process(&machine, Fault::Full(at)).0.unwrap();
            for text in *settings {
                let before = (machine.disk(), machine.vm());
                if let Err(error) = set(&mut writer, text) {
                    assert_eq!(error.kind, ErrorKind::Journal, "{error}");
                    assert!(error.message.contains("cannot write it: No space left"), "{error}");
                    assert_eq!((machine.disk(), machine.vm()), before, "{text}, full at {at}");
                }
            }
            writer.end().unwrap();
            is_as(&machine, &tuned_by_hand(), &format!("{settings:?}, full at {at}"));
        }
    }
}

/// A compromised daemon asks that its changes stay on a device for which the configuration does not say so.
#[test]
fn a_client_alone_cannot_make_a_change_outlast_the_applier() {
    let machine = tuned_by_hand();
    let process = || {
        let (mut files, _) = machine.process(Fault::Nothing);
        let journal = Journal::open(&mut files, Path::new(JOURNAL)).unwrap();
        Writer::new(Sysfs::real(), Box::new(files), journal, Rules::default())
    };
    let mut writer = process();
    set(&mut writer, "sda scheduler=bfq").unwrap();
    let error = writer.at_exit("sda", AtExit::Keep).unwrap_err();
    let expected = "sda: settings are restored at the end: the applier's configuration does not have exit = \"keep\" for it";
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::NotAllowed, expected));
    drop(writer);
    assert!(!process().end().unwrap().is_empty(), "it is put back, also by the next applier");
    is_as(&machine, &tuned_by_hand(), "after the end");
}

#[test]
fn kept_settings_are_whole_after_a_kill_at_any_write() {
    let settings = SCENARIOS[0];
    let fresh = || {
        let machine = tuned_by_hand();
        let mut first = writer(&machine);
        first.at_exit("sda", AtExit::Keep).unwrap();
        set(&mut first, settings[0]).unwrap();
        machine
    };
    let before = fresh().disk();
    let (_, count) = live(&fresh(), &settings[1..], Fault::Nothing);
    let whole = {
        let machine = fresh();
        live(&machine, &settings[1..], Fault::Nothing);
        machine.disk()
    };
    for at in 1..=count.writes() + 1 {
        let machine = fresh();
        live(&machine, &settings[1..], Fault::KilledIn(at));
        assert!(writer(&machine).end().unwrap().is_empty(), "nothing is put back");
        let now = machine.disk();
        assert!(now == before || now == whole, "killed at {at}: neither the one nor the other: {now:#?}");
        writer(&machine).restore(None).unwrap();
        is_as(&machine, &tuned_by_hand(), &format!("killed at {at}, kept and restored"));
    }
}

#[test]
fn external_writes_at_any_moment_stay() {
    const RIVALS: &[(&str, &str)] = &[("read_ahead_kb", "64"), ("scheduler", "kyber"), ("nr_requests", "77"), ("nomerges", "1")];
    let settings =
        ["sda scheduler=bfq read_ahead_kb=1024 nomerges=2 nr_requests=200", "sda scheduler=mq-deadline read_ahead_kb=256"];
    let (_, count) = live(&tuned_by_hand(), &settings, Fault::Nothing);
    let mut lost = 0;
    for (name, value) in RIVALS {
        for at in 1..=count.operations() {
            let machine = tuned_by_hand();
            let (opened, _) = process(&machine, Fault::Rival(at, name, value));
            let mut writer = opened.unwrap();
            let _ = writer.end();
            let done: Vec<bool> = settings.iter().map(|text| set(&mut writer, text).is_ok()).collect();
            writer.end().unwrap();
            // Between reading a value and writing it there is a moment in which no change can be noticed.
            let stays = machine.cat(name).contains(&if *name == "scheduler" { format!("[{value}]") } else { (*value).to_owned() });
            lost += usize::from(!stays);
            let journal = machine.journal();
            assert!(stays || done[0], "{name}={value} at {at}: {done:?} {journal:?}");
        }
    }
    let tries = RIVALS.len() * count.operations();
    assert!(lost * 50 < tries, "{lost} of {tries} were overwritten");
}

#[test]
fn an_external_value_is_neither_overwritten_nor_restored_until_resume() {
    let machine = tuned_by_hand();
    let mut first = writer(&machine);
    set(&mut first, "sda scheduler=bfq nomerges=2 read_ahead_kb=1024").unwrap();
    assert!(first.foreign("sda").unwrap().is_empty());
    machine.echo("64", "read_ahead_kb");
    let foreign = first.foreign("sda").unwrap();
    assert_eq!(
        (foreign[0].attribute.as_str(), foreign[0].ours.as_str(), foreign[0].now.as_deref()),
        ("read_ahead_kb", "1024", Some("64"))
    );
    let error = set(&mut first, "sda nomerges=1").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Foreign);
    assert!(error.message.contains("read_ahead_kb is 64, and the agent had left it at 1024"), "{error}");
    first.release(Moment::default(), "sda", &[]).unwrap();
    // Another process remembers.
    let mut second = writer(&machine);
    let restored = second.end().unwrap();
    let of = |name: &str| restored.iter().find(|restored| restored.attribute == name).unwrap().outcome.clone();
    assert_eq!(of("read_ahead_kb"), Outcome::Foreign { now: Some("64".to_owned()) });
    assert_eq!(of("nomerges"), Outcome::Back { instead_of: "2".to_owned() });
    assert_eq!((machine.cat("read_ahead_kb"), machine.cat("iosched/fifo_batch")), ("64".to_owned(), "7".to_owned()));
    assert_eq!(
        set(&mut second, "sda nomerges=1").unwrap_err().kind,
        ErrorKind::Foreign,
        "the agent stands down until it is resumed"
    );
    assert!(second.foreign("sda").unwrap()[0].released);
    second.resume("sda").unwrap();
    set(&mut second, "sda read_ahead_kb=2048").unwrap();
    second.end().unwrap();
    assert_eq!(machine.cat("read_ahead_kb"), "64", "an external value is the original by now");
}

#[test]
fn an_external_change_of_what_was_never_set_is_remembered_until_resume() {
    let machine = tuned_by_hand();
    let mut first = writer(&machine);
    machine.echo("kyber", "scheduler");
    let known = ("scheduler".to_owned(), "mq-deadline".to_owned());
    first.release(Moment::default(), "sda", std::slice::from_ref(&known)).unwrap();
    let error = first.release(Moment::default(), "sda", &[("colour".to_owned(), "red".to_owned())]).unwrap_err();
    assert!(error.kind == ErrorKind::NotAllowed && error.message.contains("'colour' is not an attribute"), "{error}");
    // Another process remembers, and puts nothing back over it.
    let mut second = writer(&machine);
    assert_eq!(second.end().unwrap()[0].outcome, Outcome::Foreign { now: Some("kyber".to_owned()) });
    let foreign = second.foreign("sda").unwrap();
    assert!(foreign.len() == 1 && foreign[0].released && foreign[0].ours == "mq-deadline", "{foreign:?}");
    assert_eq!(set(&mut second, "sda scheduler=bfq").unwrap_err().kind, ErrorKind::Foreign);
    second.resume("sda").unwrap();
    assert!(second.foreign("sda").unwrap().is_empty());
    set(&mut second, "sda scheduler=bfq").unwrap();
    second.end().unwrap();
    assert!(machine.cat("scheduler").contains("[kyber]"), "an external value is the original by now");
}

#[test]
fn what_the_caller_knows_of_is_released_also_where_the_journal_does_not_tell_it() {
    let machine = Machine::new();
    let mut first = writer(&machine);
    set(&mut first, "sda scheduler=kyber").unwrap();
    // Another program wrote a scheduler at the moment of a switch to bfq, and was replaced unnoticed: kyber came back.
    let change = ("scheduler".to_owned(), "bfq".to_owned());
    first.release(Moment::default(), "sda", &[change]).unwrap();
    let mut second = writer(&machine);
    let foreign = second.foreign("sda").unwrap();
    assert!(foreign.iter().any(|one| one.released && one.attribute == "scheduler" && one.ours == "bfq"), "{foreign:?}");
    assert_eq!(set(&mut second, "sda scheduler=none").unwrap_err().kind, ErrorKind::Foreign);
    second.resume("sda").unwrap();
    assert!(second.foreign("sda").unwrap().is_empty());
    set(&mut second, "sda scheduler=none").unwrap();
}

#[test]
fn a_client_cannot_make_the_applier_forget_an_original_by_a_false_report() {
    for claimed in ["77", "0", "128"] {
        let machine = tuned_by_hand();
        let before = machine.cat("read_ahead_kb");
        let mut writer = writer(&machine);
        set(&mut writer, "sda read_ahead_kb=0").unwrap();
        writer.release(Moment::default(), "sda", &[("read_ahead_kb".to_owned(), claimed.to_owned())]).unwrap();
        writer.resume("sda").unwrap();
        assert_eq!(writer.originals(Some("sda")).unwrap().len(), 1, "claimed {claimed}");
        writer.restore(None).unwrap();
        assert_eq!(machine.cat("read_ahead_kb"), before, "claimed {claimed}");
    }
}

#[test]
fn an_external_change_of_a_tunable_ends_with_its_scheduler() {
    let machine = tuned_by_hand();
    let mut first = writer(&machine);
    set(&mut first, "sda scheduler=bfq iosched/slice_idle=0").unwrap();
    machine.echo("3", "iosched/slice_idle");
    first.release(Moment::default(), "sda", &[]).unwrap();
    assert_eq!(set(&mut first, "sda nomerges=1").unwrap_err().kind, ErrorKind::Foreign);
    // The scheduler goes back, and bfq's tunable with it: nothing is left that could refuse a change.
    first.restore(None).unwrap();
    assert!(first.foreign("sda").unwrap().is_empty(), "{:?}", first.foreign("sda"));
    set(&mut first, "sda scheduler=bfq iosched/slice_idle=1").unwrap();
    first.end().unwrap();
    is_as(&machine, &tuned_by_hand(), "a void record");
    assert!(machine.journal().is_empty(), "{:?}", machine.journal());
}

#[test]
fn whoever_switches_the_scheduler_takes_with_it_what_a_switch_resets() {
    let machine = tuned_by_hand();
    let mut writer = writer(&machine);
    set(&mut writer, "sda scheduler=bfq nomerges=2").unwrap();
    machine.echo("kyber", "scheduler");
    let restored = writer.restore(None).unwrap();
    let theirs: Vec<&str> =
        restored.iter().filter(|one| matches!(one.outcome, Outcome::Foreign { .. })).map(|one| one.attribute.as_str()).collect();
    assert!(["scheduler", "nr_requests", "iosched/fifo_batch"].iter().all(|name| theirs.contains(name)), "{theirs:?}");
    assert_eq!((machine.disk().scheduler, machine.disk().nr_requests, machine.disk().nomerges), ("kyber".to_owned(), 128, 0));
}

#[test]
fn everything_is_checked_before_anything_is_written() {
    let machine = tuned_by_hand();
    let mut writer = writer(&machine);
    let refused = [
        (
            "sda read_ahead_kb=64 rotational=0",
            ErrorKind::NotAllowed,
            "'rotational' is not an attribute that can be set there; known are scheduler, ",
        ),
        ("sda read_ahead_kb=64 ../../vda/queue/nomerges=0", ErrorKind::NotAllowed, "is not an attribute"),
        ("sda nomerges=3", ErrorKind::NotAllowed, "nomerges=3 should be a whole number from 0 to 2"),
        ("sda nomerges=much", ErrorKind::NotAllowed, "should be a whole number"),
        ("sda max_sectors_kb=4096", ErrorKind::NotAllowed, "max_sectors_kb=4096 should be a whole number from 4 to 1280"),
        (
            "sda scheduler=cfq",
            ErrorKind::NotAllowed,
            "scheduler=cfq should be one that this kernel offers here: none, mq-deadline, kyber, bfq",
        ),
        ("sda iosched/slice_idle=0", ErrorKind::NotAllowed, "iosched/slice_idle is bfq's, and mq-deadline is or would be active"),
        ("sda scheduler=none nr_requests=4", ErrorKind::NotAllowed, "nr_requests is not set under none"),
        ("sda nomerges=1 nomerges=2", ErrorKind::NotAllowed, "nomerges is given twice"),
        ("sda vm/swappiness=1", ErrorKind::NotAllowed, "'vm/swappiness' is not an attribute"),
        ("vm vm/dirty_bytes=0", ErrorKind::NotAllowed, "vm/dirty_bytes=0 should be a whole number from 8192"),
        ("sdz nomerges=1", ErrorKind::NoDevice, "there is no /sys/block/sdz"),
        ("../sda nomerges=1", ErrorKind::NoDevice, "is no device"),
    ];
    for (text, kind, words) in refused {
        let error = set(&mut writer, text).unwrap_err();
        assert_eq!(error.kind, kind, "{text}: {error}");
        assert!(error.message.contains(words), "{text}: {error}");
    }
    let stale = SetRequest { expected: vec![("nomerges".to_owned(), "1".to_owned())], ..wanted("sda nomerges=2") };
    let error = writer.set(Moment::default(), &stale).unwrap_err();
    assert_eq!((error.kind, error.message.contains("is 0 by now")), (ErrorKind::Stale, true), "{error}");
    is_as(&machine, &tuned_by_hand(), "nothing was written");
}

#[test]
fn read_only_sysfs_is_named_and_nothing_is_set() {
    let machine = tuned_by_hand();
    let mut writer = process(&machine, Fault::Forbidden(EROFS)).0.unwrap();
    let error = set(&mut writer, "sda read_ahead_kb=64").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden);
    assert!(error.message.contains("/sys/block/sda/queue/read_ahead_kb: cannot write 64"), "{error}");
    assert!(error.message.contains("ProtectKernelTunables"), "{error}");
    assert_eq!(writer.can("sda").unwrap_err().kind, ErrorKind::Forbidden, "the self-test is loud");
    assert_eq!(process(&machine, Fault::Forbidden(13)).0.unwrap().can("sda").unwrap_err().kind, ErrorKind::Forbidden);
    is_as(&machine, &tuned_by_hand(), "nothing was written");
}

/// A USB disk takes one request at a time, and the kernel has two for it, but raises any number below four that is written.
#[test]
fn fewer_requests_than_can_be_set_are_left_alone() {
    let machine = Machine::new();
    machine.unplug();
    machine.plug(Disk { tags: 1, tags_in_use: 1, scheduler: "mq-deadline".to_owned(), nr_requests: 2, ..Disk::new("usb", 7) });
    let before = machine.disk();
    let can = writer(&machine).can("sda").unwrap();
    assert_eq!(machine.disk(), before);
    let requests = can.iter().find(|can| can.attribute == "nr_requests").unwrap();
    assert_eq!(requests.refused.as_deref(), Some("it is 2, and the kernel takes at least 4"));
}

#[test]
fn the_proof_that_everything_can_be_set_changes_nothing_not_even_what_is_hidden() {
    for scheduler in ["none", "mq-deadline", "kyber", "bfq"] {
        let machine = Machine::new();
        machine.echo(scheduler, "scheduler");
        if scheduler == "bfq" {
            machine.echo("8500", "iosched/slice_idle_us");
        }
        machine.echo("1000000", "vm/dirty_bytes");
        let before = (machine.disk(), machine.vm());
        let can = writer(&machine).can("sda").unwrap();
        writer(&machine).can("vm").unwrap();
        assert_eq!((machine.disk(), machine.vm()), before, "{scheduler}");
        let of = |name: &str| can.iter().find(|can| can.attribute == name).unwrap();
        assert_eq!(of("scheduler").words, ["none", "mq-deadline", "kyber", "bfq"]);
        assert_eq!(of("max_sectors_kb").range, Some((4, 1280)));
        assert_eq!(of("nr_requests").refused.is_some(), scheduler == "none");
        let tunables = can.iter().filter(|can| can.attribute.starts_with("iosched/")).count();
        assert_eq!(
            tunables,
            [0, 7, 2, 10][["none", "mq-deadline", "kyber", "bfq"].iter().position(|name| *name == scheduler).unwrap()]
        );
    }
}

#[test]
fn side_effects_of_a_switch_are_reported_with_its_stall() {
    let machine = tuned_by_hand();
    let changed = set(&mut writer(&machine), "sda scheduler=bfq iosched/timeout_sync=10").unwrap();
    let of = |name: &str| changed.iter().find(|change| change.attribute == name).unwrap_or_else(|| panic!("{name}: {changed:#?}"));
    assert_eq!(of("scheduler").stall_microseconds, 35_000);
    let timeout = of("iosched/timeout_sync");
    assert_eq!((timeout.wanted.as_deref(), timeout.now.as_deref()), (Some("10"), Some("12")), "the kernel counts in ticks");
    assert_eq!((of("nr_requests").wanted.as_deref(), of("nr_requests").now.as_deref()), (None, Some("128")), "by the kernel");
    assert_eq!((of("wbt_lat_usec").before.as_deref(), of("wbt_lat_usec").now.as_deref()), (Some("75000"), Some("0")));
    assert!(changed.iter().all(|change| change.attribute != "read_ahead_kb"));
}

#[test]
fn when_bfq_takes_over_it_is_shown_a_burst_of_readers() {
    let machine = tuned_by_hand();
    let mut writer = writer(&machine);
    let burst = (PathBuf::from("/dev/sda"), 8);
    let read_after = |writer: &mut Writer, text: &str| {
        set(writer, text).unwrap();
        machine.read().len()
    };
    assert_eq!(read_after(&mut writer, "sda scheduler=kyber"), 0, "it judges no stream by how it begins");
    assert_eq!(read_after(&mut writer, "sda scheduler=bfq iosched/timeout_sync=500"), 1);
    assert_eq!(read_after(&mut writer, "sda scheduler=bfq iosched/slice_idle=0"), 1, "it was in force");
    let machine = tuned_by_hand();
    machine.echo("bfq", "scheduler");
    set(&mut process(&machine, Fault::Nothing).0.unwrap(), "sda scheduler=none").unwrap();
    assert_eq!(machine.read(), []);
    process(&machine, Fault::Nothing).0.unwrap().end().unwrap();
    assert_eq!(machine.read(), [burst], "put back, it takes over as well");
}

#[test]
fn a_disk_that_cannot_be_read_is_no_reason_not_to_switch_and_is_named() {
    let machine = tuned_by_hand();
    let changed = set(&mut process(&machine, Fault::Unreadable(13)).0.unwrap(), "sda scheduler=bfq").unwrap();
    let switch = changed.iter().find(|change| change.attribute == "scheduler").unwrap();
    assert_eq!(switch.now.as_deref(), Some("bfq"));
    assert!(switch.note.starts_with("/dev/sda: cannot read: Permission denied"), "{}", switch.note);
}

#[test]
fn read_ahead_outlives_what_resets_it() {
    let machine = tuned_by_hand();
    set(&mut writer(&machine), "sda max_sectors_kb=512").unwrap();
    assert_eq!((machine.disk().max_sectors_kb, machine.disk().read_ahead_kb), (512, 512));
}

#[test]
fn hidden_state_comes_back_as_far_as_the_kernel_lets_it() {
    let machine = Machine::new();
    machine.echo("none", "scheduler");
    // Made a dumb disk by hand: the driver's queue is 4, and stays so.
    machine.echo("4", "nr_requests");
    let before = machine.disk();
    let mut writer = writer(&machine);
    set(&mut writer, "sda scheduler=bfq nr_requests=32 max_sectors_kb=256").unwrap();
    set(&mut writer, "sda scheduler=none").unwrap();
    writer.restore(None).unwrap();
    assert_eq!(machine.disk(), before, "tags in use, and the largest request as the kernel's own choice");
    let changed = set(&mut writer, "sda wbt_lat_usec=0").unwrap();
    assert!(changed[0].note.contains("set by hand"), "{changed:?}");
    writer.restore(None).unwrap();
    let after = Disk { throttle: Throttle::OnDefault, ..machine.disk() };
    assert_eq!(after, before, "the value is back");
    assert_eq!(machine.disk().throttle, Throttle::OnManual, "that it was set by hand cannot be undone, which the note says");
}

#[test]
fn default_write_back_throttling_is_off_under_bfq() {
    let machine = Machine::new();
    let mut writer = writer(&machine);
    set(&mut writer, "sda scheduler=bfq wbt_lat_usec=-1").unwrap();
    assert_eq!(
        (machine.cat("wbt_lat_usec"), machine.disk().throttle),
        ("0".to_owned(), Throttle::OffDefault),
        "nothing had to be written"
    );
    set(&mut writer, "sda scheduler=kyber wbt_lat_usec=5000").unwrap();
    set(&mut writer, "sda wbt_lat_usec=-1").unwrap();
    assert_eq!(machine.cat("wbt_lat_usec"), "75000");
    set(&mut writer, "sda scheduler=bfq wbt_lat_usec=-1").unwrap();
    assert_eq!(machine.cat("wbt_lat_usec"), "0", "even after it was set by hand");
}

#[test]
fn schedulers_are_not_switched_without_end() {
    let machine = Machine::new();
    let mut writer = writer(&machine);
    let at = |seconds: u64| Moment { now: Nanos::from_millis(1000 * seconds), unix_seconds: seconds };
    for number in 0..60 {
        let to = ["bfq", "kyber"][number % 2];
        writer.set(at(number as u64 / 2), &wanted(&format!("sda scheduler={to}"))).unwrap();
    }
    let error = writer.set(at(30), &wanted("sda scheduler=none")).unwrap_err();
    assert_eq!((error.kind, error.message.contains("60 times within a minute")), (ErrorKind::TooSoon, true), "{error}");
    writer.set(at(30), &wanted("sda nomerges=2")).unwrap();
    writer.set(at(61), &wanted("sda scheduler=none")).unwrap();
    writer.restore(None).unwrap();
    is_as(&machine, &Machine::new(), "going back is always allowed");
}

#[test]
fn a_journal_of_an_earlier_boot_is_cleared_and_says_so() {
    let machine = tuned_by_hand();
    live(&machine, SCENARIOS[0], Fault::Nothing);
    live(&machine, SCENARIOS[3], Fault::Nothing);
    set(&mut writer(&machine), "vm vm/swappiness=1").unwrap();
    set(&mut writer(&machine), "sda nomerges=1").unwrap();
    machine.reboot();
    let restored = writer(&machine).end().unwrap();
    assert!(restored.len() >= 2 && restored.iter().all(|one| one.outcome == Outcome::EarlierBoot), "{restored:?}");
    is_as(&machine, &Machine::new(), "after a reboot");
}

#[test]
fn a_device_that_vanishes_leaves_no_trace_and_another_one_is_left_alone() {
    let machine = tuned_by_hand();
    let mut writer = writer(&machine);
    set(&mut writer, "sda nomerges=2").unwrap();
    machine.unplug();
    let error = set(&mut writer, "sda nomerges=1").unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoDevice);
    let other = Disk { nomerges: 2, ..Disk::new("S2", 2) };
    machine.plug(other.clone());
    assert!(writer.foreign("sda").unwrap().is_empty(), "the record is of another disk");
    let restored = writer.restore(None).unwrap();
    assert!(!restored.is_empty() && restored.iter().all(|one| one.outcome == Outcome::Gone), "{restored:?}");
    assert_eq!(machine.disk(), other);
    set(&mut writer, "sda nomerges=1").unwrap();
    machine.unplug();
    let restored = writer.restore(None).unwrap();
    assert!(restored.iter().all(|one| one.outcome == Outcome::Gone), "{restored:?}");
    assert!(machine.journal().is_empty());
}

#[test]
fn a_loop_device_that_is_made_anew_is_not_the_one_that_was_removed() {
    let machine = tuned_by_hand();
    let disk = |folder| Disk { is_removable: true, folder, ..Disk::new("", 0) };
    machine.plug(disk(1));
    let mut writer = writer(&machine);
    set(&mut writer, "sda scheduler=mq-deadline nomerges=2").unwrap();
    machine.unplug();
    machine.plug(disk(2));
    assert!(writer.foreign("sda").unwrap().is_empty(), "the record is of the removed one");
    set(&mut writer, "sda nomerges=1").unwrap();
    writer.end().unwrap();
    assert_eq!(machine.disk(), disk(2));
}

#[test]
fn a_new_file_behind_a_loop_device_inherits_its_settings_and_no_stand_down() {
    let machine = tuned_by_hand();
    let empty = Disk { is_removable: true, ..Disk::new("", 1) };
    machine.plug(empty.clone());
    let mut writer = writer(&machine);
    set(&mut writer, "sda scheduler=bfq read_ahead_kb=512").unwrap();
    // The kernel resets the read-ahead for another file, and leaves the scheduler.
    let next = Disk { read_ahead_kb: 1_024, sequence: 2, folder: 1, ..machine.disk() };
    machine.plug(next.clone());
    assert!(writer.foreign("sda").unwrap().is_empty());
    set(&mut writer, "sda nomerges=1").unwrap();
    machine.echo("kyber", "scheduler");
    writer.release(Moment::default(), "sda", &[]).unwrap();
    assert!(set(&mut writer, "sda nomerges=2").is_err(), "an administrator wins");
    machine.plug(Disk { sequence: 3, ..machine.disk() });
    set(&mut writer, "sda nomerges=2").unwrap();
    writer.end().unwrap();
    let kept = Disk { scheduler: "kyber".to_owned(), ..next };
    assert_eq!((machine.disk().scheduler, machine.disk().nomerges), (kept.scheduler, 0));
    assert_eq!(machine.disk().read_ahead_kb, 1_024);
}

#[test]
fn of_a_damaged_journal_everything_readable_comes_back_and_the_rest_is_kept_and_named() {
    let machine = tuned_by_hand();
    set(&mut writer(&machine), "sda nomerges=2 read_ahead_kb=1024 rq_affinity=2").unwrap();
    machine.damage("sda.journal", |bytes| bytes[20] ^= 1);
    let mut writer = writer(&machine);
    let error = set(&mut writer, "sda nomerges=1").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Journal);
    assert!(error.message.contains("sda.journal line 1: its check does not match"), "{error}");
    let restored = writer.restore(None).unwrap();
    let back = restored.iter().filter(|one| matches!(one.outcome, Outcome::Back { .. })).count();
    let told = restored.iter().any(|one| matches!(&one.outcome, Outcome::Failed { reason } if reason.contains("a copy is in")));
    assert_eq!((back, told), (2, true), "{restored:?}");
    assert_eq!(machine.journal().into_keys().collect::<Vec<_>>(), ["sda.damaged-1"]);
    set(&mut writer, "sda rq_affinity=0").unwrap();
}

#[test]
fn a_device_pulled_out_at_any_moment_leaves_nothing_behind() {
    let settings = SCENARIOS[0];
    let (_, count) = live(&tuned_by_hand(), settings, Fault::Nothing);
    for at in 1..=count.operations() {
        let machine = tuned_by_hand();
        let (opened, so_far) = process(&machine, Fault::Unplugged(at));
        let mut writer = opened.unwrap();
        let done: Vec<_> = settings.iter().map(|text| set(&mut writer, text)).collect();
        let trouble = done.iter().filter_map(|done| done.as_ref().err());
        trouble.for_each(|error| assert_eq!(error.kind, ErrorKind::NoDevice, "pulled out at {at}: {error}"));
        if so_far.operations() < at {
            break;
        }
        // Another disk of that name is none of the agent's business.
        let other = Disk { nomerges: 2, ..Disk::new("S2", 2) };
        machine.plug(other.clone());
        writer.end().unwrap();
        assert_eq!(machine.disk(), other, "pulled out at {at}");
        let kept = machine.journal().into_keys().filter(|name| !name.ends_with(".unfinished")).count();
        assert_eq!(kept, 0, "pulled out at {at}");
    }
}
