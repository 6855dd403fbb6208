use std::collections::{BTreeMap, BTreeSet};

use super::{placed, short, stream};

fn offsets(stream: &[super::Short]) -> Vec<u64> {
    stream.iter().map(|&(_, _, offset, _)| offset / 4096).collect()
}

#[test]
fn random_io_visits_every_block_once_in_an_order_that_is_not_theirs() {
    let blocks = offsets(&stream("rw=randread size=40m"));
    assert_eq!(blocks.len(), 10240);
    assert_eq!(blocks.iter().collect::<BTreeSet<_>>().len(), 10240);
    let ascending = blocks.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((4600..5700).contains(&ascending), "{ascending}");
}

#[test]
fn without_the_map_some_blocks_come_twice_and_some_never() {
    let blocks = offsets(&stream("rw=randread size=40m norandommap"));
    let different = blocks.iter().collect::<BTreeSet<_>>().len() as f64;
    assert_eq!(blocks.len(), 10240);
    // Of n draws from n, 1 - 1/e are different.
    assert!((different / 10240.0 - 0.632).abs() < 0.02, "{different}");
}

#[test]
fn one_seed_gives_one_stream_and_jobs_differ() {
    let of = |options: &str, job| {
        placed(&format!("[j]\nsize=1m\nrw=randread\nnumjobs=2\n{options}\n"))
            .requests(job)
            .map(short)
            .map(|s| s.2)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("", 0), of("", 0));
    assert_ne!(of("", 0), of("", 1));
    assert_ne!(of("", 0), of("randseed=7", 0));
}

#[test]
fn jobs_can_be_drawn_again_in_spite_of_randrepeat() {
    let placed = placed("[j]\nrw=randread\nsize=1m\nrandrepeat=1\n");
    let drawn = |draw| placed.clone().redrawn(draw).requests(0).map(short).collect::<Vec<_>>();
    assert_eq!(drawn(0), placed.requests(0).map(short).collect::<Vec<_>>());
    assert!(drawn(1) != drawn(0) && drawn(2) != drawn(0) && drawn(2) != drawn(1));
}

#[test]
fn each_seed_draws_other_random_numbers_in_spite_of_randrepeat_and_the_first_those_of_fio() {
    for options in ["randrepeat=1", "randseed=7", "randrepeat=0\nrandseed=7"] {
        let placed = placed(&format!("[j]\nrw=randread\nsize=1m\n{options}\n"));
        let drawn = |seed| placed.clone().drawn_by(seed).requests(0).map(short).collect::<Vec<_>>();
        assert_eq!(drawn(1), placed.requests(0).map(short).collect::<Vec<_>>(), "{options}");
        assert!(drawn(0) != drawn(1) && drawn(2) != drawn(1) && drawn(3) != drawn(2), "{options}");
    }
    // The seed decides already.
    let placed = placed("[j]\nrw=randread\nsize=1m\nrandrepeat=0\n");
    assert!(placed.clone().drawn_by(2).requests(0).map(short).eq(placed.requests(0).map(short)));
}

#[test]
fn without_randrepeat_the_run_decides_the_random_numbers() {
    let workload = |options: &str, seed| {
        let workload = sim::workload::Workload::parse(&format!("[j]\nsize=1m\nrw=randread\n{options}\n"), "t").unwrap();
        workload.place(super::CAPACITY, seed).unwrap().requests(0).map(short).collect::<Vec<_>>()
    };
    assert_eq!(workload("", 1), workload("", 2));
    assert_ne!(workload("randrepeat=0", 1), workload("randrepeat=0", 2));
}

#[test]
fn mixes_and_sizes_have_their_shares() {
    let stream = stream("rw=randrw rwmixread=70 size=1g io_size=200m norandommap bssplit=4k/50:64k/20:8k/30,4k/90:16k/10");
    let reads: Vec<_> = stream.iter().filter(|s| s.0 == 'r').collect();
    let writes: Vec<_> = stream.iter().filter(|s| s.0 == 'w').collect();
    let share = |part: usize, whole: usize| part as f64 / whole as f64;
    assert!((share(reads.len(), stream.len()) - 0.7).abs() < 0.02, "{} of {}", reads.len(), stream.len());
    for (list, bytes, expected) in
        [(&reads, 4096, 0.5), (&reads, 65536, 0.2), (&reads, 8192, 0.3), (&writes, 4096, 0.9), (&writes, 16384, 0.1)]
    {
        let found = share(list.iter().filter(|s| s.3 == bytes).count(), list.len());
        assert!((found - expected).abs() < 0.02, "{bytes}: {found}");
    }
}

#[test]
fn a_range_of_sizes_holds_each_multiple_as_often() {
    let stream = stream("rw=randread bsrange=4k-16k size=1g io_size=200m norandommap");
    for bytes in [4096, 8192, 12288, 16384] {
        let share = stream.iter().filter(|s| s.3 == bytes).count() as f64 / stream.len() as f64;
        assert!((share - 0.25).abs() < 0.02, "{bytes}: {share}");
    }
    assert!(self::stream("rw=randread bsrange=1k-8k bs_unaligned size=1m").iter().any(|s| s.3 % 1024 != 0));
}

#[test]
fn a_percentage_is_random_and_the_rest_follows_on() {
    let stream = stream("rw=randread percentage_random=30 size=4g io_size=200m norandommap");
    let following = stream.windows(2).filter(|pair| pair[1].2 == pair[0].2 + 4096).count() as f64 / stream.len() as f64;
    assert!((following - 0.7).abs() < 0.01, "{following}");
}

#[test]
fn a_random_offset_lasts_for_as_many_as_the_suffix_says() {
    let sequential = stream("rw=randread:4 size=4g io_size=40m norandommap");
    let identical = stream("rw=randread:4 rw_sequencer=identical size=4g io_size=40m norandommap");
    for (index, (pair, same)) in sequential.windows(2).zip(identical.windows(2)).enumerate() {
        if index % 4 != 3 {
            assert_eq!(pair[1].2, pair[0].2 + 4096, "{index}");
            assert_eq!(same[1].2, same[0].2, "{index}");
        }
    }
}

#[test]
fn popular_blocks_are_scattered_over_the_file() {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for block in offsets(&stream("rw=randread random_distribution=zipf:1.2 size=256m io_size=800m")) {
        *counts.entry(block).or_default() += 1;
    }
    let mut ranked: Vec<(u64, u64)> = counts.into_iter().map(|(block, count)| (count, block)).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    // zeta(65536; 1.2) = 5.05: the most popular block gets a fifth, the next 2^-1.2 of that.
    let zeta: f64 = (1..=65536).map(|i| f64::from(i).powf(-1.2)).sum();
    assert!((ranked[0].0 as f64 / 204_800.0 * zeta - 1.0).abs() < 0.03, "{:?}", ranked[0]);
    assert!((ranked[1].0 as f64 / ranked[0].0 as f64 - 0.435).abs() < 0.03, "{:?}", ranked[1]);
    let distances = ranked[..20].windows(2).map(|pair| pair[0].1.abs_diff(pair[1].1));
    assert!(distances.min() > Some(100), "{:?}", &ranked[..20]);
}

#[test]
fn strided_zones_are_left_after_their_size_and_random_io_stays_in_its_zone() {
    let stream = stream("rw=randread size=64m io_size=4m zonemode=strided zonesize=64k zonerange=1m zoneskip=3m");
    for (index, &(_, _, offset, _)) in stream.iter().enumerate() {
        let zone = (index as u64 / 16) % 16 * (4 << 20);
        assert!((zone..zone + (1 << 20)).contains(&offset), "{index}: {offset}");
    }
    assert_eq!(stream.len(), 1024);
}

#[test]
fn fsync_follows_every_nth_write() {
    let stream = stream("rw=randwrite size=1m fsync=8");
    let syncs: Vec<usize> = (0..stream.len()).filter(|&index| stream[index].0 == 'S').collect();
    assert_eq!(syncs, (0..31).map(|i| i * 9 + 8).collect::<Vec<_>>());
    assert_eq!(self::stream("rw=write size=16k end_fsync=1").last(), Some(&('S', 0, 0, 0)));
}

#[test]
fn a_job_that_only_time_ends_goes_on_and_covers_all_blocks_again_and_again() {
    let placed = placed("[j]\nrw=randread\nsize=64k\ntime_based\nruntime=1\nnumber_ios=3\n");
    let blocks = offsets(&placed.requests(0).take(1600).map(short).collect::<Vec<_>>());
    for round in blocks.chunks(16) {
        assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 16, "{round:?}");
    }
    assert_eq!(blocks.len(), 1600);
}

#[test]
fn files_are_served_in_turn_or_at_random() {
    let files = |options: &str| stream(options).iter().map(|s| s.1).collect::<Vec<_>>();
    assert_eq!(files("nrfiles=3 size=24k"), [0, 1, 2, 0, 1, 2]);
    assert_eq!(files("nrfiles=2 size=32k file_service_type=roundrobin:2"), [0, 0, 1, 1, 0, 0, 1, 1]);
    assert_eq!(files("nrfiles=2 size=32k file_service_type=sequential"), [0, 0, 0, 0, 1, 1, 1, 1]);
    let random = files("nrfiles=4 size=64m file_service_type=random");
    let first = &random[..2000];
    for file in 0..4 {
        let share = first.iter().filter(|&&f| f == file).count() as f64 / 2000.0;
        assert!((share - 0.25).abs() < 0.05, "{file}: {share}");
    }
}

#[test]
fn a_random_draw_costs_no_memory_and_little_time_even_over_a_large_device() {
    // A map of 2^33 bits is the most there is; one of 2^34 is refused.
    let text = |size: &str| format!("[j]\nfilename=/dev/sda\nrw=randread\nbs=512\nsize={size}\n");
    let place = |size| sim::workload::Workload::parse(&text(size), "t").unwrap().place(1 << 36, 1);
    assert!(place("16t").unwrap_err().to_string().contains("norandommap"));
    assert_eq!(place("1g").unwrap().requests(0).take(1000).count(), 1000);
}
