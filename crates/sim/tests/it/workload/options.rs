//! Options that fit nowhere else: priorities of single I/Os, engines and files that move no data, sizes of files.

use block::PriorityClass;
use sim::host::Access;
use sim::workload::Workload;

use super::timing::run_against;
use super::{CAPACITY, placed};

/// The share of calls that have this class and level.
fn share(text: &str, letter: char, bytes: u32, class: PriorityClass, level: u8) -> f64 {
    let (server, _) = run_against(text, 10, None);
    let of_size = server.calls.iter().map(|(_, call)| call).filter(|call| {
        let (kind, _, _, length) = super::short(call.action);
        kind == letter && length == bytes
    });
    let (all, urgent): (Vec<_>, Vec<_>) =
        (of_size.clone().collect(), of_size.filter(|call| call.priority.class == class && call.priority.level == level).collect());
    urgent.len() as f64 / all.len() as f64
}

#[test]
fn some_ios_have_a_priority_of_their_own() {
    let text = "[j]\nrw=randrw\nnorandommap\nsize=80m\nioengine=libaio\niodepth=4\ndirect=1\ncmdprio_percentage=20,50\n";
    for (letter, wanted) in [('r', 0.2), ('w', 0.5)] {
        let found = share(text, letter, 4096, PriorityClass::RealTime, 0);
        assert!((found - wanted).abs() < 0.02, "{letter}: {found}");
    }
    let text = "[j]\nrw=randread\nnorandommap\nsize=400m\nbssplit=4k/50:16k/50\nioengine=io_uring\ndirect=1\ncmdprio_bssplit=4k/25/1/1:4k/60/3/2:16k/0\ncmdprio_class=2\nprioclass=2\nprio=6\n";
    for (bytes, class, level, wanted) in [
        (4096, PriorityClass::RealTime, 1, 0.25),
        (4096, PriorityClass::Idle, 2, 0.6),
        (4096, PriorityClass::BestEffort, 6, 0.15),
        (16384, PriorityClass::BestEffort, 6, 1.0),
    ] {
        let found = share(text, 'r', bytes, class, level);
        assert!((found - wanted).abs() < 0.02, "{bytes} {class:?} {level}: {found}");
    }
}

#[test]
fn the_null_engine_and_dev_null_need_no_room() {
    for text in
        ["[j]\nioengine=null\nsize=100t\n", "[j]\nfilename=/dev/null\nsize=100t\n[k]\nfilename=/dev/zero\nsize=1m\n[l]\nsize=1m\n"]
    {
        let placed = placed(text);
        assert!(placed.files()[0].extents.is_empty(), "{text}");
        assert_eq!(placed.requests(0).take(1000).count(), 1000);
    }
    // A job with the null engine does not touch the file that another one uses.
    let placed = placed("[a]\nfilename=f\nsize=1m\n[b]\nfilename=f\nsize=1m\nioengine=null\n");
    let empty: Vec<bool> = placed.files().iter().map(|file| file.extents.is_empty()).collect();
    assert_eq!(empty, [false, true]);
}

#[test]
fn a_file_that_fills_the_device_takes_the_free_space_and_a_later_job_finds_its_size() {
    let placed = placed(
        "[a]\nrw=write\nsize=1g\n[fill]\nfilename=f\nrw=write\nfill_device=1\n[read]\nstonewall\nfilename=f\nrw=read\nbs=1m\n",
    );
    let files = placed.files();
    let taken: u64 = files.iter().map(|file| file.bytes).sum();
    assert!(taken < CAPACITY * 512 && taken > CAPACITY * 512 / 10 * 9, "{taken}");
    let read: u64 = placed.requests(2).map(|action| u64::from(super::short(action).3)).sum();
    assert_eq!(read, files[1].bytes / (1 << 20) * (1 << 20));
    let refused = Workload::parse("[a]\nrw=read\n", "t").unwrap().place(CAPACITY, 1).unwrap_err().to_string();
    assert!(refused.contains("size is not given"), "{refused}");
}

#[test]
fn direct_io_stays_direct_when_it_is_read_back() {
    let placed = placed("[j]\nrw=write\nsize=16k\ndirect=1\nverify=md5\n");
    let direct =
        placed.requests(0).filter(|action| matches!(action, sim::host::Action::Access { access: Access::Direct, .. })).count();
    assert_eq!(direct, 8);
}

#[test]
fn a_file_that_fio_does_not_fill_before_it_is_written_is_new() {
    for (text, expected) in [
        ("[j]\nrw=write\nsize=1m\n", true),
        ("[j]\nrw=randwrite\nsize=1m\nverify=md5\nfdatasync=1\n", true),
        ("[j]\nrw=write\nsize=1m\noverwrite=0\n", true),
        ("[j]\nrw=write\nsize=1m\noverwrite=1\n", false),
        ("[j]\nrw=write\nsize=1m\ndirect=1\n", false),
        ("[j]\nrw=read\nsize=1m\n", false),
        ("[j]\nrw=rw\nsize=1m\n", false),
        ("[j]\nrw=write\nsize=1m\nfilename=/dev/sda\n", false),
        // A later job that reads it has it filled before the first begins.
        ("[j]\nfilename=f\nrw=write\nsize=1m\n[k]\nstonewall\nfilename=f\nrw=read\nsize=1m\n", false),
        ("[j]\nfilename=f\nrw=write\nsize=1m\nnumjobs=3\n", true),
    ] {
        assert_eq!(placed(text).files()[0].is_new, expected, "{text}");
    }
}
