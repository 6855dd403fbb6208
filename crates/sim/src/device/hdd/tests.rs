//! A disk small enough to compute by hand, and properties over random disks and random requests.

mod parts;

use std::collections::BTreeSet;
use std::sync::Arc;

use block::{Nanos, Op, Priority, Request};
use proptest::prelude::*;

use super::Hdd;
use super::layout::HddLayout;
use super::model::HddModel;
use super::spec::*;
use crate::cases::cases;
use crate::device::{Completion, Device};

/// One revolution is 10 ms, a track has 100 sectors (0.1 ms each), there are 2 surfaces and 20 cylinders.
fn tiny() -> HddSpecification {
    HddSpecification {
        name: "tiny".into(),
        description: "for tests".into(),
        geometry: Geometry {
            surfaces: 2,
            cylinders: 20,
            capacity_sectors: None,
            mapping: Mapping::Conventional,
            sparing: Sparing::None,
            sparing_range_cylinders: 1,
            skew_in_revolutions: false,
        },
        mechanics: MechanicsSpecification {
            rotation_rpm: 6000.0,
            head_switch_ms: 0.5,
            write_settle_ms: 0.25,
            reacquire_ms: 0.0,
            minimum_write_seek_ms: 0.0,
        },
        seek: Seek::Table { points: vec![(1, 1.0), (20, 2.9)] },
        write_seek: None,
        bus: Bus { read_sector_ms: 0.01, write_sector_ms: 0.01 },
        cache: CacheSpecification {
            segments: 2,
            segment_sectors: 50,
            write_segments: 1,
            dedicated_write_segment: false,
            keeps_data: true,
            read_hits_on_written_data: true,
            read_ahead: ReadAhead::None,
            read_ahead_trigger: ReadAheadTrigger::EveryRead,
            read_ahead_min_sectors: 0,
            read_ahead_max_sectors: 0,
            read_ahead_over_requested: false,
            read_ahead_after_hit: false,
            joins_read_ahead: false,
            reads_sectors_on_the_way: false,
            zero_latency_reads: false,
            zero_latency_writes: false,
            write_cache: WriteCache::Off,
            combines_writes: true,
            works_during_media_access: false,
            stops_in_sector: false,
            read_watermark: 0.0,
        },
        overheads: Overheads::default(),
        queue: HddQueue::new(8, QueuePolicy::Fifo),
        limits: None,
        zones: vec![zone(0, 19, 100)],
    }
}

fn zone(first_cylinder: u32, last_cylinder: u32, sectors_per_track: u32) -> ZoneSpecification {
    ZoneSpecification {
        first_cylinder,
        last_cylinder,
        sectors_per_track,
        first_sector_offset: 0.0,
        reserved_sectors: 0,
        track_skew: 10.0,
        cylinder_skew: 20.0,
        spares: 0,
        slips: Vec::new(),
        remaps: Vec::new(),
    }
}

fn disk(spec: &HddSpecification) -> Hdd {
    Hdd::new(Arc::new(HddModel::new(spec).unwrap()), None, None)
}

fn request(id: u32, op: Op, lba: u64, sectors: u32) -> Request {
    Request { id, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors, lba, arrival: Nanos::ZERO }
}

fn micros(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

/// Runs until the disk is idle.
fn finish(disk: &mut Hdd) -> Vec<Completion> {
    let mut done = Vec::new();
    while let Some(at) = disk.wake_at() {
        disk.advance(at, &mut done);
    }
    done
}

fn serve(disk: &mut Hdd, now: Nanos, op: Op, lba: u64, sectors: u32) -> Completion {
    let mut done = Vec::new();
    disk.advance(now, &mut done);
    disk.submit(now, &request(0, op, lba, sectors));
    *finish(disk).last().unwrap()
}

#[test]
fn a_read_takes_seek_rotation_and_transfer() {
    let mut spec = tiny();
    spec.overheads.read_miss_after_read_ms = 0.3;
    spec.overheads.read_completion_ms = 0.05;
    // Cylinder 10, first track: 10 × (one track switch + one cylinder switch) = 10 × (10 + 20) sectors of skew: angle 0.
    let lba = 10 * 200 + 30;
    let done = serve(&mut disk(&spec), micros(2_000), Op::Read, lba, 4);
    // Command until 2.3 ms, seek of 10 cylinders 1.9 ms until 4.2; sector 30 passed at 3 ms and passes again at 13.
    assert_eq!(done.seek, micros(1_900));
    assert_eq!(done.rotation, micros(13_000 - 4_200));
    assert_eq!(done.seek_cylinders, 10);
    assert!(!done.cache_hit);
    // Four sectors until 13.4, the last one over the bus until 13.41, reported at 13.46.
    assert_eq!(done.at, micros(13_460));
}

#[test]
fn a_slow_bus_and_not_the_media_decides_when_a_read_is_across() {
    let mut spec = tiny();
    spec.bus.read_sector_ms = 1.0;
    let done = serve(&mut disk(&spec), Nanos::ZERO, Op::Read, 50, 4);
    // The first sector is in memory at 5.1 ms, then four go over the bus.
    assert_eq!(done.at, micros(9_100));
}

#[test]
fn a_write_waits_for_the_media_and_settles_unless_the_write_cache_is_on() {
    let mut spec = tiny();
    let through = serve(&mut disk(&spec), Nanos::ZERO, Op::Write, 200 + 40, 2);
    // One cylinder: 1 ms and 0.25 to settle; skew 30 sectors: sector 40 begins at 7 ms and two of them end at 7.2.
    assert_eq!((through.seek, through.at), (micros(1_250), micros(7_200)));
    spec.cache.write_cache = WriteCache::On;
    spec.overheads.write_hit_after_read_ms = 0.2;
    let mut cached = disk(&spec);
    let early = serve(&mut cached, Nanos::ZERO, Op::Write, 200 + 40, 2);
    assert_eq!((early.at, early.cache_hit), (micros(220), true));
    assert_eq!(cached.busy(), micros(7_200), "a buffered write keeps the disk busy until it is on the media");
}

#[test]
fn a_drive_that_writes_sooner_than_it_reads_takes_less_than_the_seek_but_never_less_than_nothing() {
    let mut spec = tiny();
    spec.mechanics.write_settle_ms = -0.4;
    assert_eq!(serve(&mut disk(&spec), Nanos::ZERO, Op::Write, 200 + 40, 2).seek, micros(600));
    spec.mechanics.write_settle_ms = -3.0;
    assert_eq!(serve(&mut disk(&spec), Nanos::ZERO, Op::Write, 200 + 40, 2).seek, Nanos::ZERO);
}

#[test]
fn two_reads_share_the_bus_even_if_the_arm_goes_ahead() {
    let mut spec = tiny();
    spec.bus.read_sector_ms = 1.0;
    spec.queue.preseek = Preseek::BeforeCompletion;
    let mut disk = disk(&spec);
    disk.submit(Nanos::ZERO, &request(0, Op::Read, 0, 4));
    disk.submit(Nanos::ZERO, &request(1, Op::Read, 10, 4));
    // The second write is on the media at 1.1 ms, while the bus carries the first until 4.1.
    let times: Vec<_> = finish(&mut disk).iter().map(|completion| completion.at).collect();
    assert_eq!(times, [micros(4_100), micros(8_100)]);
}

#[test]
fn a_read_of_a_buffered_write_hits_it_or_waits_until_it_is_on_the_media() {
    let mut spec = tiny();
    spec.cache.write_cache = WriteCache::On;
    // Written from 1.0 to 1.4 ms; read from memory at once, or from the media when sector 10 passes again.
    for (allowed, expected) in [(true, 540), (false, 11_410)] {
        spec.cache.read_hits_on_written_data = allowed;
        spec.cache.works_during_media_access = true;
        let mut disk = disk(&spec);
        disk.submit(Nanos::ZERO, &request(0, Op::Write, 10, 4));
        assert_eq!(serve(&mut disk, micros(500), Op::Read, 10, 4).at, micros(expected));
    }
}

#[test]
fn data_that_come_too_late_cost_a_write_a_revolution() {
    let mut spec = tiny();
    spec.bus.write_sector_ms = 4.0;
    let done = serve(&mut disk(&spec), Nanos::ZERO, Op::Write, 10, 1);
    // The sector passes at 1 ms, its data arrive at 4 ms: it is written at 11 ms.
    assert_eq!(done.at, micros(11_100));
}

#[test]
fn a_write_touches_the_media_no_sooner_than_its_least_delay_after_its_data() {
    let mut spec = tiny();
    spec.bus.write_sector_ms = 1.0;
    spec.mechanics.minimum_write_seek_ms = 0.6;
    // The data arrive at 1 ms, the write may start at 1.6: sector 16 is caught, sector 15 is not.
    assert_eq!(serve(&mut disk(&spec), Nanos::ZERO, Op::Write, 16, 1).at, micros(1_700));
    assert_eq!(serve(&mut disk(&spec), Nanos::ZERO, Op::Write, 15, 1).at, micros(11_600));
}

#[test]
fn a_drive_is_back_on_the_bus_when_enough_has_come() {
    let mut spec = tiny();
    spec.cache.read_watermark = 0.5;
    spec.overheads.first_reselect_ms = 2.0;
    // Half of the ten sectors are in memory at 5.5 ms, the last at 6; the drive has reselected by then.
    assert_eq!(serve(&mut disk(&spec), Nanos::ZERO, Op::Read, 50, 10).at, micros(6_010));
    // At the first sector it has to reselect first: at 2 ms, then ten sectors cross the bus.
    assert_eq!(serve(&mut disk(&spec), Nanos::ZERO, Op::Read, 0, 10).at, micros(2_100));
}

#[test]
fn a_transfer_over_a_track_boundary_switches_heads_within_the_skew() {
    let mut spec = tiny();
    let done = serve(&mut disk(&spec), Nanos::ZERO, Op::Read, 98, 4);
    // Track 0 ends at 10 ms; the next one starts 10 sectors on, at 11 ms: enough for the head switch of 0.5.
    assert_eq!(done.at, micros(11_210));
    spec.mechanics.head_switch_ms = 1.5;
    let missed = serve(&mut disk(&spec), Nanos::ZERO, Op::Read, 98, 4);
    assert_eq!(missed.at, micros(21_210), "a head switch longer than the skew misses a revolution");
}

#[test]
fn an_access_on_the_same_cylinder_has_to_find_the_track_again_but_a_stream_does_not() {
    let mut spec = tiny();
    spec.mechanics.reacquire_ms = 0.7;
    let done = serve(&mut disk(&spec), Nanos::ZERO, Op::Read, 98, 4);
    assert_eq!(done.seek, micros(700));
    assert_eq!(done.at, micros(11_210));
}

#[test]
fn a_read_of_data_read_ahead_is_a_hit_and_the_next_one_continues_it() {
    let mut spec = tiny();
    spec.cache.read_ahead = ReadAhead::Segment;
    spec.overheads.read_hit_after_read_ms = 0.1;
    let mut disk = disk(&spec);
    serve(&mut disk, Nanos::ZERO, Op::Read, 0, 4);
    // At 2 ms the sectors up to 19 have passed.
    let hit = serve(&mut disk, micros(2_000), Op::Read, 10, 5);
    assert_eq!((hit.at, hit.cache_hit), (micros(2_150), true));
    // At 3 ms those up to 29: 28 and 29 are in memory, 30 and 31 follow until 3.2, and then the last one crosses the bus.
    let partial = serve(&mut disk, micros(3_000), Op::Read, 28, 4);
    assert_eq!(partial.at, micros(3_210));
}

#[test]
fn a_reader_that_follows_its_read_ahead_loses_no_revolution_where_the_drive_lets_it_join() {
    let mut spec = tiny();
    spec.cache.read_ahead = ReadAhead::Segment;
    for (joins, second) in [(true, 810), (false, 10_810)] {
        spec.cache.joins_read_ahead = joins;
        let mut disk = disk(&spec);
        let first = serve(&mut disk, Nanos::ZERO, Op::Read, 0, 4);
        assert_eq!(first.at, micros(410));
        assert_eq!(serve(&mut disk, first.at, Op::Read, 4, 4).at, micros(second));
    }
}

#[test]
fn a_drive_that_reads_ahead_after_a_sequence_hits_only_from_the_third_read_on() {
    let mut spec = tiny();
    spec.cache.read_ahead = ReadAhead::Segment;
    for (trigger, expected) in
        [(ReadAheadTrigger::EveryRead, [false, true, true]), (ReadAheadTrigger::AfterSequence, [false, false, true])]
    {
        spec.cache.read_ahead_trigger = trigger;
        let mut disk = disk(&spec);
        let hits =
            [(0, 0), (50, 4), (100, 8)].map(|(millis, lba)| serve(&mut disk, micros(millis * 1000), Op::Read, lba, 4).cache_hit);
        assert_eq!(hits, expected, "{trigger:?}");
    }
}

#[test]
fn a_write_between_two_reads_does_not_end_their_sequence_but_a_gap_between_them_does() {
    let mut spec = tiny();
    spec.cache.read_ahead = ReadAhead::Segment;
    spec.cache.read_ahead_trigger = ReadAheadTrigger::AfterSequence;
    spec.cache.segments = 3;
    for (second, hit) in [(4, true), (5, false)] {
        let mut disk = disk(&spec);
        serve(&mut disk, micros(0), Op::Read, 0, 4);
        serve(&mut disk, micros(50_000), Op::Write, 2000, 4);
        serve(&mut disk, micros(100_000), Op::Read, second, 4);
        assert_eq!(serve(&mut disk, micros(150_000), Op::Read, second + 4, 4).cache_hit, hit, "second read at {second}");
    }
}

#[test]
fn whole_tracks_are_read_ahead_even_where_the_maximum_is_shorter_than_a_track() {
    let mut spec = tiny();
    spec.cache.read_ahead = ReadAhead::NextTrack;
    spec.cache.segment_sectors = 200;
    // A maximum below the track of 100 sectors is ignored; from there on it applies, if read-ahead may overwrite data already sent.
    for (over_requested, most, last, hit) in
        [(false, 10, 96, true), (true, 10, 96, true), (true, 10, 100, false), (true, 120, 100, true)]
    {
        spec.cache.read_ahead_over_requested = over_requested;
        spec.cache.read_ahead_max_sectors = most;
        let mut disk = disk(&spec);
        serve(&mut disk, Nanos::ZERO, Op::Read, 20, 4);
        assert_eq!(serve(&mut disk, micros(100_000), Op::Read, last, 4).cache_hit, hit, "{over_requested} {most} {last}");
    }
}

#[test]
fn a_seek_curve_of_its_own_for_writes_is_settled_already() {
    let mut spec = tiny();
    spec.write_seek = Some(Seek::Table { points: vec![(1, 1.4), (20, 3.3)] });
    assert_eq!(serve(&mut disk(&spec), Nanos::ZERO, Op::Read, 200 + 40, 2).seek, micros(1_000));
    assert_eq!(serve(&mut disk(&spec), Nanos::ZERO, Op::Write, 200 + 40, 2).seek, micros(1_400));
    // On the current cylinder a write still switches heads (0.5 ms) and settles (0.25 ms).
    assert_eq!(serve(&mut disk(&spec), Nanos::ZERO, Op::Write, 100, 2).seek, micros(750));
}

#[test]
fn a_segment_keeps_no_more_than_its_size_and_read_ahead_stops_when_it_is_full() {
    let mut spec = tiny();
    spec.cache.read_ahead = ReadAhead::Segment;
    let mut disk = disk(&spec);
    serve(&mut disk, Nanos::ZERO, Op::Read, 0, 4);
    assert!(serve(&mut disk, micros(50_000), Op::Read, 45, 5).cache_hit, "the last sector of the segment");
    assert!(!serve(&mut disk, micros(60_000), Op::Read, 50, 1).cache_hit, "the first one behind it");
}

#[test]
fn read_ahead_may_take_the_room_of_data_already_sent() {
    let mut spec = tiny();
    spec.cache.read_ahead = ReadAhead::Segment;
    spec.cache.read_ahead_over_requested = true;
    spec.cache.read_ahead_max_sectors = 50;
    let mut disk = disk(&spec);
    serve(&mut disk, Nanos::ZERO, Op::Read, 0, 4);
    assert!(serve(&mut disk, micros(50_000), Op::Read, 50, 4).cache_hit);
    assert!(!serve(&mut disk, micros(60_000), Op::Read, 0, 4).cache_hit);
}

#[test]
fn reads_hit_written_data_only_where_the_drive_allows_it() {
    let mut spec = tiny();
    spec.cache.write_cache = WriteCache::On;
    for allowed in [true, false] {
        spec.cache.read_hits_on_written_data = allowed;
        let mut disk = disk(&spec);
        serve(&mut disk, Nanos::ZERO, Op::Write, 10, 4);
        assert_eq!(serve(&mut disk, micros(50_000), Op::Read, 10, 4).cache_hit, allowed);
    }
}

#[test]
fn a_drive_that_reads_in_any_order_needs_one_revolution_for_a_track() {
    let mut spec = tiny();
    spec.cache.segment_sectors = 100;
    let slow = serve(&mut disk(&spec), micros(5_050), Op::Read, 0, 100);
    spec.cache.zero_latency_reads = true;
    let fast = serve(&mut disk(&spec), micros(5_050), Op::Read, 0, 100);
    // The head settles within sector 50: 51 to 99 are read first, then 0 to 50 until 15.1 ms.
    assert_eq!((slow.at, fast.at), (micros(20_010), micros(15_600)));
}

#[test]
fn consecutive_writes_share_a_segment_and_go_to_the_media_in_one_piece() {
    let mut spec = tiny();
    spec.cache.write_cache = WriteCache::On;
    let mut disk = disk(&spec);
    disk.submit(Nanos::ZERO, &request(1, Op::Write, 50, 4));
    disk.submit(Nanos::ZERO, &request(2, Op::Write, 54, 4));
    assert_eq!(finish(&mut disk).len(), 2);
    assert_eq!(disk.busy(), micros(5_800), "sectors 50 to 57 pass from 5.0 to 5.8 ms");
}

#[test]
fn shortest_positioning_first_serves_a_batch_sooner_than_arrival_order() {
    let last = |policy| {
        let mut spec = tiny();
        spec.queue = HddQueue { preseek: Preseek::BeforeCompletion, ..HddQueue::new(8, policy) };
        let mut disk = disk(&spec);
        for (id, lba) in [3900, 10, 3500, 240, 3000, 60, 2200, 900].into_iter().enumerate() {
            disk.submit(Nanos::ZERO, &request(id as u32, Op::Read, lba, 2));
        }
        finish(&mut disk).last().unwrap().at
    };
    let (fifo, sstf, sptf) = (last(QueuePolicy::Fifo), last(QueuePolicy::Sstf), last(QueuePolicy::Sptf));
    assert!(sptf < sstf && sstf < fifo, "{sptf} {sstf} {fifo}");
}

#[test]
fn idle_time_and_read_ahead_are_not_busy_time() {
    let mut spec = tiny();
    spec.cache.read_ahead = ReadAhead::Segment;
    let mut disk = disk(&spec);
    let first = serve(&mut disk, Nanos::ZERO, Op::Read, 0, 4).at;
    let second = serve(&mut disk, micros(100_000), Op::Read, 2000, 4).at;
    assert_eq!(disk.busy(), first + (second - micros(100_000)));
}

#[test]
fn times_at_the_end_of_the_clock_saturate() {
    let mut disk = disk(&tiny());
    let end = Nanos(u64::MAX - 5);
    disk.submit(end, &request(0, Op::Read, u64::MAX - 1, 4_000_000_000));
    disk.submit(end, &request(1, Op::Write, 0, u32::MAX));
    assert_eq!(finish(&mut disk).len(), 2);
}

#[test]
fn a_spare_at_the_front_that_is_bad_itself_takes_no_data() {
    let geometry = Geometry { sparing: Sparing::SectorsPerCylinderFront, ..tiny().geometry };
    let mut bad = zone(0, 19, 100);
    // Of cylinder 1 (sectors 200 to 399, the first three of them spares) the last spare and a data sector are bad.
    (bad.spares, bad.slips) = (3, vec![202, 300]);
    let layout = HddLayout::new(&geometry, &[bad]).unwrap();
    let physical = |lba| {
        let place = layout.locate(lba);
        (place.cylinder * 2 + u32::from(place.head)) * 100 + place.sector
    };
    assert_eq!([196, 197, 198, 199, 295, 296].map(physical), [199, 201, 203, 204, 301, 302]);
}

fn sparings() -> impl Strategy<Value = Sparing> {
    prop::sample::select(vec![
        Sparing::None,
        Sparing::Track,
        Sparing::SectorsPerCylinder,
        Sparing::SectorsPerTrack,
        Sparing::SectorsPerCylinderSlipToEnd,
        Sparing::SectorsPerCylinderFront,
        Sparing::SectorsPerCylinderFrontSlipToEnd,
        Sparing::EndOfDisk,
        Sparing::SectorsPerRange,
        Sparing::Zone,
        Sparing::ZoneSlipToEnd,
    ])
}

prop_compose! {
    fn geometries()(
        sparing in sparings(),
        mapping in prop::sample::select(vec![Mapping::Conventional, Mapping::SerpentinePerZone, Mapping::Serpentine]),
        surfaces in 1u16..5,
        zones in prop::collection::vec((1u32..9, 2u32..30, 0u32..6, 0u32..20, 0f64..20.0, prop::collection::vec(0u32..900, 0..6)), 1..4),
        range in 1u32..4,
    ) -> (Geometry, Vec<ZoneSpecification>) {
        let mut next = 0;
        let zones: Vec<ZoneSpecification> = zones.into_iter().map(|(cylinders, per_track, spares, reserved, skew, slips)| {
            let first = next;
            next += cylinders;
            let mut zone = zone(first, next - 1, per_track);
            (zone.spares, zone.reserved_sectors, zone.slips) = (spares, reserved, slips);
            (zone.track_skew, zone.cylinder_skew) = (skew.trunc(), (skew * 1.5).trunc());
            zone
        }).collect();
        let geometry = Geometry {
            surfaces, cylinders: next, capacity_sectors: None, mapping, sparing,
            sparing_range_cylinders: range, skew_in_revolutions: false,
        };
        (geometry, zones)
    }
}

prop_compose! {
    /// The tiny disk with any behaviour, and a bus slower or faster than the media.
    fn disks()(
        depth in 1u32..33,
        policy in prop::sample::select(vec![QueuePolicy::Fifo, QueuePolicy::Sstf, QueuePolicy::Sptf]),
        preseek in prop::sample::select(vec![Preseek::AfterCompletion, Preseek::DuringCompletion, Preseek::BeforeCompletion]),
        write_cache in prop::sample::select(vec![WriteCache::Off, WriteCache::Sequential, WriteCache::On]),
        read_ahead in prop::sample::select(vec![
            ReadAhead::None, ReadAhead::Track, ReadAhead::Cylinder, ReadAhead::Segment, ReadAhead::NextTrack]),
        flags in prop::array::uniform16(any::<bool>()),
        segments in 2u32..6,
        bus in prop::sample::select(vec![0.0, 0.01, 0.1, 0.3]),
        settle in prop::sample::select(vec![-0.3, 0.0, 0.25]),
        watermark in prop::sample::select(vec![0.0, 0.5, 1.0]),
    ) -> HddSpecification {
        let mut spec = tiny();
        spec.queue = HddQueue { preseek, ..HddQueue::new(depth, policy) };
        spec.bus = Bus { read_sector_ms: bus, write_sector_ms: bus };
        let cache = &mut spec.cache;
        (cache.segments, cache.write_segments) = (segments, 1 + u32::from(flags[0]));
        (cache.write_cache, cache.read_ahead) = (write_cache, read_ahead);
        [cache.keeps_data, cache.read_hits_on_written_data, cache.read_ahead_over_requested, cache.read_ahead_after_hit] =
            [flags[1], flags[2], flags[3], flags[4]];
        [cache.reads_sectors_on_the_way, cache.zero_latency_reads, cache.zero_latency_writes, cache.combines_writes] =
            [flags[5], flags[6], flags[6], flags[7]];
        (cache.works_during_media_access, cache.dedicated_write_segment) = (flags[8], flags[9]);
        [cache.joins_read_ahead, cache.stops_in_sector] = [flags[10], flags[11]];
        cache.read_watermark = watermark;
        if flags[4] {
            cache.read_ahead_min_sectors = 10;
            cache.read_ahead_max_sectors = 30;
        }
        spec.mechanics.write_settle_ms = settle;
        if flags[12] {
            (spec.mechanics.reacquire_ms, spec.mechanics.minimum_write_seek_ms) = (0.4, 0.6);
        }
        if flags[13] {
            let overheads = &mut spec.overheads;
            (overheads.request_ms, overheads.read_miss_after_read_ms, overheads.read_hit_after_write_ms) = (0.05, 0.3, 0.2);
            (overheads.write_hit_after_read_ms, overheads.write_miss_after_write_ms, overheads.read_completion_ms) = (0.2, 0.4, 0.1);
            (overheads.first_reselect_ms, overheads.data_preparation_ms, overheads.write_completion_ms) = (0.15, 0.02, 0.1);
        }
        if flags[14] {
            spec.zones = vec![zone(0, 9, 100), zone(10, 19, 80)];
        }
        spec
    }
}

/// A request of a random load: LBA, sectors, whether it is a read, and µs until it arrives after the disk is idle.
type Load = (u64, u32, bool, u64);

fn loads() -> impl Strategy<Value = Vec<Load>> {
    prop::collection::vec((0u64..3600, 1u32..120, any::<bool>(), 0u64..20_000), 1..120)
}

/// The result of a random load.
struct Served {
    submitted: Vec<Nanos>,
    completed: Vec<Completion>,
    disk: Hdd,
    end: Nanos,
}

/// Serves a load with at most the disk's queue depth in flight. `always`: the disk is never idle. `looks`: the host also calls when
/// the disk did not ask for it.
fn work(spec: &HddSpecification, loads: &[Load], always: bool, looks: bool) -> Result<Served, TestCaseError> {
    let mut disk = disk(spec);
    let mut submitted = Vec::new();
    let mut completed: Vec<Completion> = Vec::new();
    let (mut now, mut steps) = (Nanos::ZERO, 0);
    while submitted.len() < loads.len() || disk.wake_at().is_some() {
        steps += 1;
        prop_assert!(steps < 10_000, "the disk does not come to rest");
        let before = completed.len();
        let outstanding = submitted.len() - before;
        let next = loads
            .get(submitted.len())
            .filter(|next| outstanding < disk.queue_depth() && (always && outstanding < 2 || next.3 % 3 != steps % 3));
        if let Some(&(lba, sectors, read, gap)) = next {
            now += Nanos(gap * 1000 * u64::from(outstanding == 0 && !always));
            disk.advance(now, &mut completed);
            let op = if read { Op::Read } else { Op::Write };
            let lba = lba.min(disk.capacity_sectors() - 1);
            let sectors = sectors.min((disk.capacity_sectors() - lba) as u32);
            disk.submit(now, &request(submitted.len() as u32, op, lba, sectors));
            submitted.push(now);
        } else if let Some(at) = disk.wake_at() {
            prop_assert!(at >= now, "the disk wants to wake up in the past");
            if looks {
                disk.advance(Nanos(now.0 + (at.0 - now.0) / 3), &mut completed);
            }
            now = at;
            disk.advance(now, &mut completed);
        }
        prop_assert!(completed[before..].iter().all(|completion| completion.at <= now));
    }
    Ok(Served { submitted, completed, disk, end: now })
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn every_lba_has_a_place_of_its_own_that_is_not_bad((geometry, zones) in geometries()) {
        let Ok(layout) = HddLayout::new(&geometry, &zones) else { return Ok(()) };
        let mut taken = BTreeSet::new();
        for lba in 0..layout.capacity_sectors {
            let place = layout.locate(lba);
            let zone = &zones[usize::from(place.zone)];
            prop_assert!((zone.first_cylinder..=zone.last_cylinder).contains(&place.cylinder));
            prop_assert!(place.head < geometry.surfaces && place.sector < zone.sectors_per_track);
            prop_assert!(place.run >= 1);
            prop_assert!(taken.insert((place.cylinder, place.head, place.sector)), "LBA {} shares its place", lba);
            if geometry.mapping == Mapping::Conventional
                && !matches!(geometry.sparing, Sparing::None | Sparing::Track)
            {
                let track = (place.cylinder - zone.first_cylinder) * u32::from(geometry.surfaces) + u32::from(place.head);
                prop_assert!(!zone.slips.contains(&(track * zone.sectors_per_track + place.sector)), "LBA {} is on a slip", lba);
            }
        }
    }

    #[test]
    fn within_a_run_sectors_follow_each_other_at_equal_angles((geometry, zones) in geometries()) {
        let Ok(layout) = HddLayout::new(&geometry, &zones) else { return Ok(()) };
        let mut lba = 0;
        while lba < layout.capacity_sectors {
            let first = layout.locate(lba);
            let width = layout.zones[usize::from(first.zone)].sector_angle;
            for offset in 1..u64::from(first.run).min(layout.capacity_sectors - lba) {
                let place = layout.locate(lba + offset);
                prop_assert!(place.same_track(&first));
                prop_assert_eq!(u64::from(place.sector), u64::from(first.sector) + offset);
                prop_assert_eq!(place.angle, first.angle.wrapping_add(width.wrapping_mul(offset)));
                prop_assert_eq!(layout.further(&first, offset as u32), place);
            }
            let last = layout.track_end(lba, &first) - 1;
            prop_assert!(layout.locate(last).same_track(&first));
            prop_assert_eq!(layout.track_start(last, &layout.locate(last)), layout.track_start(lba, &first));
            lba += u64::from(first.run);
        }
    }

    #[test]
    fn every_request_completes_once_in_time_order_and_the_disk_comes_to_rest(spec in disks(), loads in loads()) {
        let done = work(&spec, &loads, false, false)?;
        let mut seen = BTreeSet::new();
        let mut last = Nanos::ZERO;
        for completion in &done.completed {
            prop_assert!(completion.at >= last, "out of order");
            last = completion.at;
            let took = completion.at.0.checked_sub(done.submitted[completion.id as usize].0);
            prop_assert!(took.is_some_and(|took| took >= (completion.seek + completion.rotation).0), "{:?}", completion);
            prop_assert!(seen.insert(completion.id), "completed twice");
        }
        prop_assert_eq!(seen.len(), loads.len());
        prop_assert_eq!(done.disk.cache.dirty, 0, "a write never reached the media");
        prop_assert!(done.disk.busy() <= done.end);
    }

    #[test]
    fn a_disk_that_always_has_work_is_always_busy(spec in disks(), loads in loads()) {
        let done = work(&spec, &loads, true, false)?;
        prop_assert_eq!(done.disk.busy(), done.end);
    }

    #[test]
    fn looking_at_a_disk_changes_nothing(spec in disks(), loads in loads()) {
        let (quiet, watched) = (work(&spec, &loads, false, false)?, work(&spec, &loads, false, true)?);
        prop_assert_eq!(quiet.completed, watched.completed);
        prop_assert_eq!(quiet.disk.busy(), watched.disk.busy());
    }

    #[test]
    fn no_data_come_faster_than_media_and_bus_carry_them(spec in disks(), loads in loads()) {
        let done = work(&spec, &loads, true, false)?;
        let sectors = |(lba, sectors, ..): &Load| {
            let lba = (*lba).min(done.disk.capacity_sectors() - 1);
            lba..(lba + u64::from(*sectors)).min(done.disk.capacity_sectors())
        };
        let mut written = vec![false; 4000];
        let mut from_media = BTreeSet::new();
        for load in &loads {
            for lba in sectors(load) {
                if load.2 && !written[lba as usize] { from_media.insert(lba); }
                written[lba as usize] |= !load.2;
            }
        }
        let last = done.completed.last().map_or(0, |completion| completion.at.0);
        let media = from_media.len() as u64 * 100_000;
        prop_assert!(last + 1000 >= media, "{} sectors from the media in {} ns", from_media.len(), last);
        let carried: u64 = loads.iter().map(sectors).map(|range| range.end - range.start).sum();
        let bus = carried * (spec.bus.read_sector_ms * 1e6).round() as u64;
        prop_assert!(last >= bus, "{carried} sectors over the bus in {last} ns, which takes {bus}");
    }
}

#[test]
fn a_discard_takes_the_command_and_moves_nothing() {
    let mut spec = tiny();
    spec.overheads.request_ms = 0.5;
    let model = Arc::new(HddModel::new(&spec).unwrap());
    let times = |requests: &[(Op, u64)]| {
        let mut disk = Hdd::new(model.clone(), None, None);
        let mut times = Vec::new();
        for &(op, lba) in requests {
            let now = times.last().copied().unwrap_or_default();
            let request = Request { id: 0, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors: 8, lba, arrival: now };
            disk.submit(now, &request);
            let mut done = Vec::new();
            while let Some(at) = disk.wake_at() {
                disk.advance(at, &mut done);
            }
            times.push(done[0].at);
        }
        times
    };
    // The discards are at opposite ends, and the arm has not moved: only the command and half a millisecond of rotation are between
    // them.
    let discards = times(&[(Op::Discard, 3000), (Op::Discard, 0)]);
    assert_eq!(discards, [Nanos::from_micros(500), Nanos::from_micros(1000)]);
    let (with, without) = (times(&[(Op::Discard, 3000), (Op::Read, 0)]), times(&[(Op::Discard, 0), (Op::Read, 0)]));
    assert_eq!(with, without);
}

/// Advances to `now` and flushes. Returns the time at which the flush is complete.
fn flush(disk: &mut Hdd, now: Nanos) -> Nanos {
    disk.advance(now, &mut Vec::new());
    assert!(disk.flush(now, u32::MAX));
    let done = finish(disk);
    assert_eq!(done.iter().filter(|completion| completion.id == u32::MAX).count(), 1);
    done.iter().find(|completion| completion.id == u32::MAX).unwrap().at
}

#[test]
fn a_flush_is_done_when_the_last_buffered_write_is_on_the_media_and_without_one_after_the_command() {
    let mut spec = tiny();
    assert!(!disk(&spec).flush(Nanos::ZERO, 7), "a drive that writes through has nothing to flush");
    spec.cache.write_cache = WriteCache::On;
    let mut cached = disk(&spec);
    cached.submit(Nanos::ZERO, &request(0, Op::Write, 200 + 40, 2));
    // See above: the write is acknowledged after 20 µs, and on the media after 7.2 ms.
    assert_eq!(flush(&mut cached, micros(20)), micros(7_200));
    assert_eq!(cached.busy(), micros(7_200));
    spec.overheads.write_completion_ms = 0.1;
    spec.overheads.request_ms = 0.3;
    assert_eq!(flush(&mut disk(&spec), micros(50)), micros(450));
}

/// Issues reads on one cylinder as fast as they are served, while writes to another are in memory. Returns the number of reads
/// completed before the writes are on the media.
fn reads_before_writes_are_down(flushes: bool) -> usize {
    let mut spec = tiny();
    (spec.cache.write_cache, spec.cache.segments, spec.cache.write_segments) = (WriteCache::On, 8, 4);
    (spec.cache.works_during_media_access, spec.queue.policy) = (true, QueuePolicy::Sptf);
    let mut disk = disk(&spec);
    for id in 0..4 {
        disk.submit(Nanos::ZERO, &request(id, Op::Read, u64::from(id) * 23, 1));
    }
    let (mut now, mut done, mut reads) = (Nanos::ZERO, Vec::new(), 0);
    for id in [90, 91] {
        disk.submit(now, &request(id, Op::Write, 2000 + u64::from(id) * 10, 1));
    }
    while reads < 200 && disk.cache.dirty > 0 {
        now = disk.wake_at().unwrap();
        disk.advance(now, &mut done);
        for completion in done.drain(..) {
            match completion.id {
                91 if flushes => assert!(disk.flush(now, 99)),
                90.. => {}
                _ => {
                    reads += 1;
                    disk.submit(now, &request(completion.id, Op::Read, (reads as u64 * 37) % 200, 1));
                }
            }
        }
    }
    reads
}

#[test]
fn a_flush_goes_before_the_reads_that_would_keep_writes_in_memory() {
    let (with, without) = (reads_before_writes_are_down(true), reads_before_writes_are_down(false));
    assert!(with <= 4 && without == 200, "{with} reads with a flush, {without} without");
}

#[test]
fn a_flush_comes_after_the_requests_in_the_drive_and_before_those_that_arrive_later() {
    let mut spec = tiny();
    (spec.cache.write_cache, spec.cache.segments, spec.cache.write_segments) = (WriteCache::On, 8, 4);
    (spec.cache.works_during_media_access, spec.queue.policy) = (true, QueuePolicy::Sptf);
    let mut disk = disk(&spec);
    for (id, op, lba) in [(0, Op::Read, 0), (1, Op::Write, 2000), (2, Op::Read, 300)] {
        disk.submit(Nanos::ZERO, &request(id, op, lba, 1));
    }
    assert!(disk.flush(Nanos::ZERO, 97));
    // A hit, a write that would fit into the cache, another flush, and a read.
    for (id, op, lba) in [(3, Op::Read, 2000), (4, Op::Write, 2500)] {
        disk.submit(Nanos::ZERO, &request(id, op, lba, 1));
    }
    assert!(disk.flush(Nanos::ZERO, 98));
    disk.submit(Nanos::ZERO, &request(5, Op::Read, 0, 1));
    let order: Vec<u32> = finish(&mut disk).iter().map(|completion| completion.id).collect();
    assert_eq!(order[3], 97, "{order:?}");
    assert_eq!(order[4..], [3, 4, 98, 5]);
}

/// Longest response of one reader while writes in order keep the cache full, and the number of writes in the meantime.
fn reader_beside_a_full_cache() -> (Nanos, usize) {
    let mut spec = tiny();
    (spec.cache.write_cache, spec.cache.segments, spec.cache.write_segments) = (WriteCache::On, 8, 4);
    (spec.cache.works_during_media_access, spec.queue.policy) = (true, QueuePolicy::Sptf);
    let mut disk = disk(&spec);
    let (mut next, mut written) = (0, 0);
    let mut write = |disk: &mut Hdd, now, id| {
        disk.submit(now, &request(id, Op::Write, next % 1800, 8));
        next += 8;
    };
    (10..18).for_each(|id| write(&mut disk, Nanos::ZERO, id));
    let (mut done, mut began, mut longest) = (Vec::new(), Nanos::ZERO, Nanos::ZERO);
    disk.submit(Nanos::ZERO, &request(0, Op::Read, 2000, 1));
    for read in 0..50u64 {
        let mut waits = true;
        while waits {
            let now = disk.wake_at().unwrap();
            disk.advance(now, &mut done);
            for completion in done.drain(..) {
                if completion.id == 0 {
                    longest = longest.max(completion.at - began);
                    disk.submit(now, &request(0, Op::Read, 2001 + read * 37 % 400, 1));
                    (began, waits) = (now, false);
                } else {
                    written += 1;
                    write(&mut disk, now, completion.id);
                }
            }
        }
    }
    (longest, written)
}

#[test]
fn a_full_write_cache_leaves_a_reader_its_turn_and_is_not_starved_by_it() {
    let model = HddModel::new(&tiny()).unwrap();
    let (longest, written) = reader_beside_a_full_cache();
    assert!(longest.0 <= 4 * model.longest_access, "{longest:?}, longest access {} ns", model.longest_access);
    assert!(written >= 100, "{written} writes while 50 reads were served");
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn a_flush_is_done_once_and_leaves_no_earlier_write_in_memory(spec in disks(), loads in loads(), at in 0usize..40) {
        let mut disk = disk(&spec);
        let (mut now, mut done) = (Nanos::ZERO, Vec::new());
        let count = loads.len().min(disk.queue_depth()).min(at + 1);
        for (id, &(lba, sectors, read, gap)) in loads[..count].iter().enumerate() {
            disk.submit(now, &request(id as u32, if read { Op::Read } else { Op::Write }, lba, sectors));
            now += Nanos(gap * 100);
            disk.advance(now, &mut done);
        }
        let flushes = u32::from(disk.flush(now, 1000)) + u32::from(disk.flush(now, 1001));
        let acknowledged = done.len();
        let mut flushed = 0;
        while let Some(at) = disk.wake_at() {
            let before = done.len();
            disk.advance(at, &mut done);
            flushed += done[before..].iter().filter(|completion| completion.id >= 1000).count() as u32;
            if flushed == flushes && acknowledged == count {
                prop_assert_eq!(disk.cache.dirty, 0);
            }
        }
        prop_assert_eq!((flushed, flushes == 0), (flushes, spec.cache.write_cache == WriteCache::Off));
        prop_assert_eq!(done.len(), count + flushes as usize);
    }
}
