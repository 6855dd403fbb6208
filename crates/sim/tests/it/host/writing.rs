use block::{Nanos, Op};
use sim::host::{Access, Action};
use sim::run::Finished;
use sim::streams::FLUSHER;

use crate::host::machine::{KIB, MIB, Machine, direct, files, fsync, in_order, read, scramble, write};

fn seconds(seconds: u64) -> Nanos {
    Nanos::from_millis(1000 * seconds)
}

#[test]
fn a_page_dirty_for_longer_than_the_expiry_is_written_within_the_next_period() {
    for start_ms in [0, 1_700, 7_300, 12_345] {
        let mut machine = Machine::new(files(&[MIB, MIB]), "");
        machine.call(1, write(1, 0, 4096));
        machine.pass_until(Nanos::from_millis(start_ms));
        let dirtied = machine.now;
        machine.call(1, write(0, 8 * KIB, 4096));
        machine.pass_until(seconds(60));
        let seen = machine.seen();
        let write = seen.iter().find(|seen| seen.covers(16)).expect("it is written");
        let age = write.at - dirtied;
        assert!(age >= seconds(30) && age <= seconds(35), "written after {age}");
        assert_eq!((write.op, write.stream), (Op::Write, FLUSHER));
        assert_eq!(machine.host.tally().dirty, 0);
    }
}

#[test]
fn a_page_that_is_written_all_the_time_is_never_dirty_for_longer_than_expiry_and_period() {
    let mut machine = Machine::new(files(&[MIB]), "dirty_expire_centisecs=200,dirty_writeback_centisecs=100");
    for step in 0..400 {
        machine.pass_until(Nanos::from_millis(step * 50));
        machine.call(1, write(0, 0, 4096));
    }
    let times: Vec<u64> = machine.seen().iter().map(|seen| seen.at.0 / 1_000_000).collect();
    assert!(times.len() >= 6 && times.windows(2).all(|pair| pair[1] - pair[0] <= 3_100), "{times:?}");
}

#[test]
fn without_a_period_old_pages_stay_until_one_is_set() {
    let mut machine = Machine::new(files(&[MIB]), "dirty_writeback_centisecs=0");
    machine.call(1, write(0, 0, 4096));
    machine.pass_until(seconds(100));
    assert!(machine.seen().is_empty());
    let number = sim::host::TUNABLES.iter().position(|tunable| tunable.name == "dirty_writeback_centisecs").unwrap();
    machine.host.set(machine.now, number, 100).unwrap();
    machine.pass_until(seconds(102));
    assert_eq!(machine.seen().len(), 1);
}

#[test]
fn a_fast_writer_is_slowed_to_the_devices_speed_and_dirty_pages_stay_within_their_limit() {
    let mut machine = Machine::new(files(&[4096 * MIB]), "memory_mib=256,dirty_ratio=10,dirty_background_ratio=5");
    let mut written_at_10 = None;
    let mut offset = 0;
    while machine.now < seconds(20) {
        machine.call(1, write(0, offset, 256 * KIB));
        offset += 256 * KIB;
        // Dirty and on its way, in 256 MiB of which the watermarks are not available.
        assert!(machine.host.tally().dirty <= 65_536 / 10, "{:?}", machine.host.tally());
        if written_at_10.is_none() && machine.now >= seconds(10) {
            written_at_10 = Some(offset);
        }
    }
    let rate = (offset - written_at_10.unwrap()) as f64 / 1e6 / 10.0;
    // 100 MB/s less 100 µs for each request of 1 MiB or more.
    assert!((90.0..=101.0).contains(&rate), "{rate} MB/s");
    assert!(machine.host.tally().throttled > seconds(15), "{:?}", machine.host.tally());
    let large = machine.seen().iter().filter(|seen| seen.sectors >= 1024).count();
    assert!(large * 10 > machine.seen().len() * 9, "{large} of {} are large", machine.seen().len());
}

#[test]
fn a_limit_in_bytes_holds_for_any_memory_and_a_ratio_that_is_set_ends_it() {
    for memory in ["memory_mib=256", "memory_mib=1024"] {
        let settings = format!("{memory},dirty_bytes={},dirty_background_bytes={}", 8 * MIB, 4 * MIB);
        let mut machine = Machine::new(files(&[512 * MIB]), &settings);
        machine.race(vec![in_order(write, 0, 3 * MIB, 256 * KIB)]);
        assert!(machine.seen().is_empty(), "below the background limit nothing is written back");
        machine.race(vec![in_order(write, 0, 256 * MIB, 256 * KIB)]);
        let tally = machine.host.tally();
        assert!(tally.dirty_peak <= 2048 && tally.dirty_peak > 1024, "{tally:?}");
        let number = sim::host::TUNABLES.iter().position(|tunable| tunable.name == "dirty_ratio").unwrap();
        machine.host.set(machine.now, number, 10).unwrap();
        assert_eq!(machine.host.settings().dirty_bytes, 0);
        machine.race(vec![in_order(write, 0, 256 * MIB, 256 * KIB)]);
        assert!(machine.host.tally().dirty_peak > 2048, "{:?}", machine.host.tally());
    }
}

#[test]
fn dirty_pages_stay_within_their_limit_with_any_number_of_writers() {
    let mut machine = Machine::new(files(&[64 * MIB; 16]), "memory_mib=64,dirty_ratio=1,dirty_background_ratio=0");
    machine.race((0..16).map(|file| in_order(write, file, 20 * MIB, 4 * KIB)).collect());
    let tally = machine.host.tally();
    assert!(tally.dirty_peak <= 16_384 / 100 && tally.dirty_peak > 16_384 / 200, "{tally:?}");
    let shares: Vec<u64> = (0..16u64)
        .map(|file| {
            machine.seen().iter().filter(|seen| seen.lba / (64 * MIB / 512) == file).map(|seen| u64::from(seen.sectors)).sum()
        })
        .collect();
    let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    assert!(most < &(2 * least), "{shares:?}");
}

#[test]
fn write_back_begins_at_the_background_share_and_not_before() {
    let mut machine = Machine::new(files(&[512 * MIB]), "memory_mib=1024");
    machine.race(vec![in_order(write, 0, 90 * MIB, MIB)]);
    assert!(machine.seen().is_empty());
    machine.race(vec![in_order(write, 0, 200 * MIB, MIB)]);
    machine.pass_until(machine.now + seconds(3));
    let dirty = machine.host.tally().dirty;
    assert!(dirty <= 26_214 && dirty > 20_000, "{dirty} pages are left of a background share of 26,000");
}

#[test]
fn fsync_returns_when_its_pages_are_down_and_waits_for_no_other_file() {
    let mut machine = Machine::with("deadline", files(&[64 * MIB, MIB]), "");
    machine.race(vec![in_order(write, 0, 48 * MIB, MIB)]);
    machine.call(1, write(1, 0, 64 * KIB));
    let start = machine.now;
    let done = machine.call(1, fsync(1));
    assert!(matches!(done, Finished::Flush(_)));
    let seen = machine.seen();
    assert_eq!(seen.iter().map(|seen| u64::from(seen.sectors)).sum::<u64>(), 128, "its own 64 KiB and nothing else");
    assert!(done.at() - start >= Nanos::from_micros(100) && machine.host.tally().dirty == 48 * 256);
    let nothing = machine.call(1, fsync(1));
    assert_eq!(nothing.at(), machine.now);
    assert_eq!(machine.seen().len(), seen.len(), "a second fsync has nothing to do");
}

#[test]
fn fsync_waits_for_write_back_begun_by_another_process() {
    let mut machine = Machine::new(files(&[64 * MIB]), "dirty_expire_centisecs=0,dirty_writeback_centisecs=10");
    machine.race(vec![in_order(write, 0, 16 * MIB, MIB)]);
    machine.pass_until(machine.now + Nanos::from_millis(101));
    assert!(!machine.seen().is_empty() && machine.host.tally().written_back < 4096);
    machine.call(1, fsync(0));
    assert_eq!((machine.host.tally().written_back, machine.host.tally().dirty), (4096, 0));
}

#[test]
fn fsync_ends_soon_with_a_queue_that_others_keep_full() {
    let mut machine = Machine::new(files(&[64 * MIB, 64 * MIB]), "nr_requests=4");
    for page in 0..64 {
        machine.call(9, write(1, page * 64 * KIB, 4096));
    }
    let synced = machine.start(9, fsync(1));
    let others = |number: u64| direct(Op::Read, 0, scramble(number) % 16_384 * 4096, 4096);
    let mut number = 0;
    while number < 32 {
        number += 1;
        machine.start(1, others(number));
    }
    let done = loop {
        assert!(machine.step());
        let finished = machine.take_finished();
        if let Some(done) = finished.iter().find(|done| done.token() == synced) {
            break *done;
        }
        for _ in finished {
            number += 1;
            machine.start(1, others(number));
        }
    };
    // 64 pages of its own, each behind at most 32 others, at 141 µs each.
    assert!(done.at() < Nanos::from_millis(64 * 33 * 141 / 1000), "{}", done.at());
}

#[test]
fn a_page_written_again_while_it_is_written_back_is_written_back_again() {
    let mut machine = Machine::new(files(&[MIB]), "");
    machine.call(1, write(0, 0, 4096));
    machine.start(2, fsync(0));
    assert_eq!(machine.seen().len(), 1, "under way");
    machine.start(1, write(0, 0, 4096));
    machine.pass_until(machine.now + Nanos::from_millis(10));
    assert_eq!((machine.seen().len(), machine.host.tally().dirty), (1, 1));
    machine.call(1, fsync(0));
    assert_eq!((machine.seen().len(), machine.host.tally().dirty), (2, 0));
}

#[test]
fn a_synchronous_write_returns_when_its_range_is_down_and_leaves_the_rest_of_the_file() {
    let mut machine = Machine::new(files(&[MIB]), "");
    machine.call(1, write(0, 512 * KIB, 4096));
    let access = Access::Synchronous;
    machine.call(1, Action::Access { op: Op::Write, file: 0, offset: 0, bytes: 8192, access });
    let seen = machine.seen();
    assert_eq!((seen.len(), seen[0].lba, seen[0].sectors, seen[0].stream), (1, 0, 16, 1));
    assert_eq!(machine.host.tally().dirty, 1);
}

#[test]
fn a_part_of_a_page_that_is_not_there_is_read_before_it_is_written_and_a_whole_page_is_not() {
    let mut machine = Machine::new(files(&[MIB]), "");
    machine.call(1, write(0, 4096, 4096));
    assert!(machine.seen().is_empty());
    machine.call(1, write(0, 40_960 + 100, 200));
    let seen = machine.seen();
    assert_eq!((seen.len(), seen[0].op, seen[0].lba, seen[0].sectors), (1, Op::Read, 80, 8));
    machine.call(1, write(0, 40_960 + 1000, 200));
    assert_eq!(machine.seen().len(), 1, "now it is there");
}

#[test]
fn a_page_of_a_new_file_is_not_read_before_it_is_written_in_part_unless_it_was_written_and_forgotten() {
    let mut files = files(&[64 * MIB]);
    files[0].is_new = true;
    let mut machine = Machine::new(files, "memory_mib=16");
    // As etcd does: each write ends in the middle of a page, where the next begins.
    for call in 0..100 {
        machine.call(1, write(0, call * 2300, 2300));
        machine.call(1, fsync(0));
    }
    assert!(machine.seen().iter().all(|seen| seen.op == Op::Write), "{:?}", machine.seen());
    assert!(machine.seen().len() >= 100);
    machine.forget();
    // Elsewhere, before the end of the written part and behind it.
    machine.call(1, write(0, 32 * MIB + 100, 200));
    machine.call(1, write(0, 16 * MIB + 100, 200));
    assert!(machine.seen().is_empty());
    // More than fits into memory follows: the first pages are on the device, and no longer here.
    machine.race(vec![Box::new((0..24).map(|step| write(0, 33 * MIB + step * MIB, MIB)))]);
    machine.call(1, fsync(0));
    machine.forget();
    machine.call(1, write(0, 100, 200));
    assert_eq!((machine.seen().len(), machine.seen()[0].op), (1, Op::Read));
}

#[test]
fn a_read_of_dirty_pages_touches_no_device() {
    let mut machine = Machine::new(files(&[MIB]), "");
    machine.call(1, write(0, 0, 64 * KIB));
    machine.call(2, read(0, 0, 64 * KIB));
    assert!(machine.seen().is_empty());
}

#[test]
fn direct_calls_see_and_replace_cached_pages() {
    let mut machine = Machine::new(files(&[MIB]), "");
    machine.call(1, write(0, 0, 8192));
    machine.call(2, direct(Op::Read, 0, 0, 4096));
    let ops: Vec<_> = machine.seen().iter().map(|seen| (seen.op, seen.lba, seen.sectors)).collect();
    assert_eq!(ops, [(Op::Write, 0, 8), (Op::Read, 0, 8)], "written back first, then read; and nothing else");
    machine.call(2, direct(Op::Write, 0, 0, 8192));
    machine.forget();
    machine.call(1, read(0, 4096, 4096));
    assert_eq!(machine.seen().len(), 1, "the cached page was thrown away");
}

#[test]
fn a_discard_drops_the_dirty_pages_of_its_range_only() {
    let mut machine = Machine::new(files(&[MIB]), "");
    machine.call(1, write(0, 0, 64 * KIB));
    machine.call(1, direct(Op::Discard, 0, 4096 + 512, 32 * KIB));
    assert_eq!(machine.host.tally().dirty, 16 - 7);
    let seen = machine.seen();
    assert_eq!((seen.len(), seen[0].op, seen[0].lba, seen[0].sectors), (1, Op::Discard, 9, 64));
}

#[test]
fn the_flusher_takes_files_in_turn() {
    let mut machine =
        Machine::new(files(&[256 * MIB, 256 * MIB]), "memory_mib=4096,dirty_writeback_centisecs=100,dirty_expire_centisecs=50");
    machine.race(vec![in_order(write, 0, 200 * MIB, MIB)]);
    machine.race(vec![in_order(write, 1, 200 * MIB, MIB)]);
    machine.pass_until(machine.now + seconds(10));
    let files: Vec<bool> = machine.seen().iter().map(|seen| seen.lba >= 256 * MIB / 512).collect();
    let turns = files.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!((4..60).contains(&turns), "{turns} turns");
    assert_eq!(machine.host.tally().written_back, 2 * 51_200);
}

#[test]
fn scattered_dirty_pages_go_down_in_the_order_of_the_file() {
    let mut machine = Machine::new(files(&[256 * MIB]), "");
    let pages = (0..500).map(|number| write(0, scramble(number) % 65_536 * 4096, 4096));
    machine.race(vec![Box::new(pages)]);
    machine.call(0, fsync(0));
    assert!(machine.seen().windows(2).all(|pair| pair[0].lba < pair[1].lba));
}

#[test]
fn invalidating_drops_the_clean_pages_of_the_range_and_writes_the_dirty_ones() {
    let mut machine = Machine::new(files(&[MIB, MIB]), "read_ahead_kb=0");
    machine.call(1, read(0, 0, MIB));
    machine.call(1, read(1, 0, MIB));
    machine.call(1, write(0, 256 * KIB, 64 * KIB));
    machine.forget();
    // From the middle of a page, which stays, to the middle of another.
    machine.start(1, Action::Invalidate { file: 0, offset: 126 * KIB, bytes: 512 * KIB });
    machine.pass_until(machine.now + seconds(1));
    assert!(machine.take_finished().is_empty(), "it is not reported");
    let seen = machine.seen();
    assert!(seen.iter().all(|seen| seen.op == Op::Write) && seen.iter().map(|seen| seen.sectors).sum::<u32>() == 128);
    machine.forget();
    machine.call(1, read(1, 0, MIB));
    for (from, to, there) in [(0, 128, true), (128, 256, false), (256, 320, true), (320, 636, false), (636, 1024, true)] {
        machine.forget();
        machine.call(1, read(0, from * KIB, (to - from) * KIB));
        let read: u32 = machine.seen().iter().map(|seen| seen.sectors).sum();
        assert_eq!(u64::from(read), if there { 0 } else { (to - from) * 2 }, "{from} to {to}");
    }
}

#[test]
fn invalidating_a_file_larger_than_the_cache_drops_no_page_of_another() {
    let mut machine = Machine::new(files(&[1024 * MIB, MIB]), "read_ahead_kb=0");
    machine.call(1, read(0, 900 * MIB, 64 * KIB));
    machine.call(1, read(1, 0, 64 * KIB));
    machine.start(1, Action::Invalidate { file: 0, offset: 0, bytes: u64::MAX });
    machine.forget();
    machine.call(1, read(1, 0, 64 * KIB));
    assert!(machine.seen().is_empty());
    machine.call(1, read(0, 900 * MIB, 64 * KIB));
    assert_eq!(machine.seen().iter().map(|seen| seen.sectors).sum::<u32>(), 128);
}
