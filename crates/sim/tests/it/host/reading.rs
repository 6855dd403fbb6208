use block::{Nanos, Op};
use sim::host::Advice;

use crate::host::machine::{KIB, MIB, Machine, direct, files, in_order, read, scramble, sectors, write};

#[test]
fn a_second_read_of_a_cached_file_touches_no_device() {
    let mut machine = Machine::new(files(&[8 * MIB]), "");
    machine.race(vec![in_order(read, 0, 8 * MIB, 64 * KIB)]);
    machine.forget();
    let before = machine.host.tally();
    let start = machine.now;
    machine.race(vec![in_order(read, 0, 8 * MIB, 64 * KIB)]);
    assert!(machine.seen().is_empty());
    assert_eq!(machine.host.tally().hits - before.hits, 2048);
    // 128 calls of 500 ns and 2,048 pages of 400 ns.
    assert_eq!(machine.now - start, Nanos(128 * 500 + 2048 * 400));
}

#[test]
fn a_sequential_readers_requests_grow_to_the_window_and_no_further() {
    for kib in [128, 512] {
        let mut machine = Machine::new(files(&[8 * MIB]), &format!("read_ahead_kb={kib}"));
        machine.race(vec![in_order(read, 0, 8 * MIB, 4 * KIB)]);
        let sizes: Vec<u64> = machine.seen().iter().map(|seen| u64::from(seen.sectors) / 2).collect();
        assert_eq!(sizes[0], 16, "{sizes:?}");
        assert!(sizes.windows(2).all(|pair| pair[0] <= pair[1] || pair[1] == *sizes.last().unwrap()), "{sizes:?}");
        assert_eq!(sizes.iter().max(), Some(&kib), "{sizes:?}");
        assert_eq!(sizes.iter().sum::<u64>(), 8 * KIB);
        assert!(sizes.iter().filter(|&&size| size == kib).count() as u64 >= 8 * KIB / kib - 4, "{sizes:?}");
    }
}

#[test]
fn a_sequential_reader_finds_most_pages_there_already() {
    let mut machine = Machine::new(files(&[32 * MIB]), "");
    machine.race(vec![in_order(read, 0, 32 * MIB, 4 * KIB)]);
    let tally = machine.host.tally();
    assert_eq!((tally.read_ahead_wasted, tally.hits + tally.misses), (0, 8192));
    assert!(tally.read_ahead_used > 8000, "{tally:?}");
}

#[test]
fn a_random_reader_reads_nothing_ahead() {
    let mut machine = Machine::new(files(&[256 * MIB]), "");
    let pages = (1..500).map(|number| read(0, (1 + scramble(number) % 65_000) * 4096, 4096));
    machine.race(vec![Box::new(pages)]);
    assert_eq!(machine.host.tally().read_ahead, 0);
    assert!(machine.seen().iter().all(|seen| seen.sectors == 8));
}

#[test]
fn sequential_advice_doubles_the_window_and_random_advice_disables_read_ahead() {
    let sizes = |advice| {
        let mut machine = Machine::new(files(&[8 * MIB]), "read_ahead_kb=128");
        for call in in_order(read, 0, 8 * MIB, 16 * KIB) {
            machine.call_advised(1, advice, call);
        }
        machine.seen().iter().map(|seen| u64::from(seen.sectors) / 2).collect::<Vec<_>>()
    };
    assert_eq!(sizes(Advice::Normal).into_iter().max(), Some(128));
    assert_eq!(sizes(Advice::Sequential).into_iter().max(), Some(256));
    assert_eq!(sizes(Advice::Random), [16; 512]);
}

#[test]
fn without_read_ahead_a_call_reads_page_by_page() {
    let mut machine = Machine::new(files(&[MIB]), "read_ahead_kb=0");
    machine.call(1, read(0, 0, 64 * KIB));
    assert_eq!(machine.seen().iter().map(|seen| seen.sectors).collect::<Vec<_>>(), [8; 16]);
}

#[test]
fn nothing_is_read_behind_a_files_end() {
    let mut machine = Machine::new(files(&[100 * KIB + 700, MIB]), "read_ahead_kb=512");
    let last = machine.call(1, read(0, 96 * KIB, 4 * KIB + 700));
    machine.call(2, read(0, 0, 4 * KIB));
    assert_eq!(sectors(&last), 10);
    let end = machine.seen().iter().map(|seen| seen.lba + u64::from(seen.sectors)).max().unwrap();
    assert_eq!(end, (100 * KIB).div_ceil(512) + 8);
    assert_eq!(sectors(&machine.call(3, read(0, 200 * KIB, 4096))), 0, "a read behind the end moves nothing");
}

#[test]
fn a_call_of_nothing_or_on_a_file_that_is_not_there_ends_at_once() {
    for files in [files(&[]), files(&[MIB])] {
        let mut machine = Machine::new(files, "");
        for action in [read(7, 0, 4096), write(7, u64::MAX, 4096), crate::host::machine::fsync(7), read(0, u64::MAX - 1, 4096)] {
            let done = machine.call(1, action);
            assert_eq!((done.at(), sectors(&done)), (Nanos::ZERO, 0));
        }
        assert!(machine.seen().is_empty());
    }
}

#[test]
fn a_page_under_way_is_awaited_and_not_read_again() {
    let mut machine = Machine::new(files(&[4 * MIB]), "");
    let readers = (0..4).map(|_| in_order(read, 0, 4 * MIB, 16 * KIB));
    machine.race(readers.collect());
    let sectors: u64 = machine.seen().iter().map(|seen| u64::from(seen.sectors)).sum();
    assert!(sectors <= 4 * MIB / 512, "{sectors} sectors");
}

#[test]
fn each_of_several_sequential_readers_keeps_a_window_of_its_own() {
    let mut machine = Machine::new(files(&[64 * MIB]), "");
    let reader = |from: u64| Box::new((0..1024).map(move |page| read(0, from + page * 4096, 4096))) as Box<dyn Iterator<Item = _>>;
    machine.race((0..4).map(|number| reader(number * 16 * MIB)).collect());
    // Where a window still waits when its reader comes to it, the next one joins it.
    let full = machine.seen().into_iter().filter(|seen| seen.sectors >= 256);
    let sectors: u64 = full.map(|seen| u64::from(seen.sectors)).sum();
    assert!(sectors > 4 * 24 * 256, "{sectors} sectors in full windows");
}

#[test]
fn reading_further_ahead_makes_interleaved_readers_on_a_hard_disk_much_faster() {
    let throughput = |kib: u64| {
        let settings = format!("read_ahead_kb={kib}");
        let mut machine = Machine::on_disk("sata7200", "noop", files(&[4096 * MIB]), &settings);
        let reader = |from: u64| {
            Box::new((0..384).map(move |piece| read(0, from + piece * 64 * KIB, 64 * KIB))) as Box<dyn Iterator<Item = _>>
        };
        machine.race((0..4).map(|number| reader(number * 1024 * MIB)).collect());
        4.0 * 24.0 / machine.now.as_secs_f64()
    };
    let (small, large) = (throughput(128), throughput(2048));
    assert!(large > 2.0 * small, "{small} and {large} MiB/s");
}

#[test]
fn a_setting_changed_in_the_middle_holds_from_then_on() {
    let mut machine = Machine::new(files(&[64 * MIB]), "");
    machine.race(vec![in_order(read, 0, 4 * MIB, 4 * KIB)]);
    let number = sim::host::TUNABLES.iter().position(|tunable| tunable.name == "read_ahead_kb").unwrap();
    machine.host.set(machine.now, number, 1024).unwrap();
    assert_eq!(machine.host.settings().value(number), Some(1024));
    machine.forget();
    let from = 4 * MIB;
    machine.race(vec![Box::new((0..4096).map(move |page| read(0, from + page * 4096, 4096)))]);
    assert_eq!(machine.seen().iter().map(|seen| seen.sectors).max(), Some(2048));
    let error = machine.host.set(machine.now, number, -1).unwrap_err().to_string();
    assert_eq!(error, "host: read_ahead_kb=-1 should be a whole number from 0 to 65536 KiB");
    assert!(machine.host.set(machine.now, 99, 1).is_err());
}

#[test]
fn requests_are_no_larger_than_max_sectors_and_merge_as_nomerges_says() {
    let sizes = |settings: &str| {
        let mut machine = Machine::new(files(&[64 * MIB]), settings);
        machine.call(1, direct(Op::Read, 0, 0, 4 * MIB));
        machine.race(vec![in_order(write, 0, 4 * MIB, MIB)]);
        machine.call(1, crate::host::machine::fsync(0));
        machine.seen().iter().map(|seen| seen.sectors).max().unwrap()
    };
    assert_eq!(sizes("max_sectors_kb=256"), 512);
    assert_eq!(sizes("max_sectors_kb=64"), 128);
    // A bio holds 1 MiB: larger requests come of merging.
    assert_eq!(sizes("nomerges=0,max_sectors_kb=4096"), 8192);
    let mut machine = Machine::new(files(&[64 * MIB]), "nomerges=2,max_sectors_kb=4096");
    machine.race(vec![in_order(write, 0, 4 * MIB, MIB)]);
    machine.call(1, crate::host::machine::fsync(0));
    assert_eq!(machine.seen().iter().map(|seen| seen.sectors).max(), Some(2048));
}
