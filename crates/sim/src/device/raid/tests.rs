//! Arrays of devices that store writes: at any time, the data of one member can be reconstructed from the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use block::{Op, Priority, StreamId};

use super::*;
use crate::cases::cases;

/// Contents and log of all devices of an array. A sector holds a number that identifies its last writer; a parity sector the
/// exclusive or of its stripe.
struct Ledger {
    level: u32,
    members: u64,
    unit: u64,
    failed: usize,
    held: Vec<Vec<u64>>,
    /// Data read by a stream, by member and sector, the only source of the data that it writes.
    known: BTreeMap<(StreamId, usize, u64), u64>,
    /// Device, operation, first sector, sectors, in order of completion.
    log: Vec<(usize, Op, u64, u32)>,
}

/// The content that write `stream` puts into sector `lba` of the array.
fn written(stream: StreamId, lba: u64) -> u64 {
    (u64::from(stream) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ lba.wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

impl Ledger {
    fn parity_of(&self, row: u64) -> usize {
        (self.members - 1 - row % self.members) as usize
    }

    /// The members and sectors that hold `lba`, computed independently.
    fn places(&self, lba: u64) -> Vec<(usize, u64)> {
        let (unit, offset) = (lba / self.unit, lba % self.unit);
        match self.level {
            0 => vec![((unit % self.members) as usize, unit / self.members * self.unit + offset)],
            1 => (0..self.members as usize).map(|member| (member, lba)).collect(),
            10 => [2 * unit, 2 * unit + 1]
                .map(|copy| ((copy % self.members) as usize, copy / self.members * self.unit + offset))
                .to_vec(),
            _ => {
                let (row, column) = (unit / (self.members - 1), unit % (self.members - 1));
                let member = (self.parity_of(row) as u64 + 1 + column) % self.members;
                vec![(member as usize, row * self.unit + offset)]
            }
        }
    }

    /// The array's sector held by a member's sector; `None`: parity, or nothing.
    fn content(&self, member: usize, sector: u64) -> Option<u64> {
        let (row, offset) = (sector / self.unit, sector % self.unit);
        let unit = match self.level {
            0 => row * self.members + member as u64,
            1 => return Some(sector),
            10 => (row * self.members + member as u64) / 2,
            5 if member == self.parity_of(row) => return None,
            _ => {
                let column = (member as u64 + self.members - self.parity_of(row) as u64 - 1) % self.members;
                row * (self.members - 1) + column
            }
        };
        Some(unit * self.unit + offset)
    }

    /// The content of a member's sector, reconstructed from what `stream` has read of other members; `None` if that is not enough.
    fn reconstructed(&self, stream: StreamId, member: usize, sector: u64) -> Option<u64> {
        let known = |member: usize, sector| self.known.get(&(stream, member, sector)).copied();
        if self.level == 5 {
            let others = (0..self.members as usize).filter(|&other| other != member);
            return others.map(|other| known(other, sector)).try_fold(0, |sum, value| Some(sum ^ value?));
        }
        let lba = self.content(member, sector)?;
        self.places(lba).into_iter().find_map(|(other, sector)| known(other, sector))
    }

    /// The parity that a write of `lba` to `end` must produce, from the data that it writes and has read.
    fn parity(&self, stream: StreamId, (lba, end): (u64, u64), parity: usize, sector: u64) -> Option<u64> {
        let (mut modified, mut constructed) = (self.known.get(&(stream, parity, sector)).copied(), Some(0));
        for member in (0..self.members as usize).filter(|&member| member != parity) {
            let old = self.known.get(&(stream, member, sector)).copied();
            let content = self.content(member, sector)?;
            if (lba..end).contains(&content) {
                modified = modified.and_then(|sum| Some(sum ^ old? ^ written(stream, content)));
                constructed = constructed.map(|sum| sum ^ written(stream, content));
            } else {
                constructed = constructed.and_then(|sum| Some(sum ^ old?));
            }
        }
        constructed.or(modified)
    }
}

/// A device that completes several requests at once, in any order.
struct Shadow {
    device: usize,
    depth: usize,
    state: u64,
    inside: Vec<(u64, Request)>,
    ledger: Arc<Mutex<Ledger>>,
    requests: Arc<Vec<(u64, u64)>>,
}

impl Shadow {
    fn perform(&self, request: &Request) {
        let mut ledger = self.ledger.lock().unwrap();
        // The spare has the last number, but the failed member's place.
        let member = if self.device as u64 == ledger.members { ledger.failed } else { self.device };
        ledger.log.push((self.device, request.op, request.lba, request.sectors));
        let stream = request.stream;
        for sector in request.lba..request.end() {
            if request.op == Op::Read {
                let value = ledger.held[self.device][sector as usize];
                ledger.known.insert((stream, member, sector), value);
                continue;
            }
            let content = ledger.content(member, sector);
            if request.op == Op::Discard {
                ledger.held[self.device][sector as usize] = 0;
                continue;
            }
            let value = if stream == REBUILD_STREAM {
                // An odd RAID 10 has an unused corner.
                ledger.reconstructed(stream, member, sector).or((ledger.level == 10).then_some(0))
            } else {
                let asked = self.requests[stream as usize];
                match content {
                    Some(lba) => {
                        assert!((asked.0..asked.1).contains(&lba), "stream {stream} writes {lba}, which was not asked for");
                        Some(written(stream, lba))
                    }
                    None => ledger.parity(stream, asked, member, sector),
                }
            };
            ledger.held[self.device][sector as usize] =
                value.unwrap_or_else(|| panic!("stream {stream} cannot know the data for sector {sector} of member {member}"));
        }
    }
}

impl Device for Shadow {
    fn capacity_sectors(&self) -> u64 {
        self.ledger.lock().unwrap().held[self.device].len() as u64
    }

    fn queue_depth(&self) -> usize {
        self.depth
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        assert!(self.wake_at().is_none_or(|at| at > now), "the past comes first");
        assert!(self.inside.len() < self.depth && request.sectors > 0 && request.end() <= self.capacity_sectors());
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.inside.push((now.0 + 10_000 + (self.state >> 33) % 200_000, *request));
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.inside.iter().map(|(at, _)| Nanos(*at)).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some(at) = self.wake_at().filter(|&at| at <= now) {
            let index = self.inside.iter().position(|(due, _)| *due == at.0).unwrap();
            let (_, request) = self.inside.remove(index);
            self.perform(&request);
            let none = Nanos::ZERO;
            done.push(Completion {
                id: request.id,
                at,
                seek: none,
                rotation: none,
                seek_cylinders: 0,
                cache_hit: false,
                work: None,
            });
        }
    }

    fn busy(&self) -> Nanos {
        Nanos::ZERO
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    level: u32,
    members: usize,
    unit: u64,
    sectors: u64,
    depth: usize,
    failure: Option<(usize, u64)>,
    spare: bool,
    rate: RebuildRate,
}

fn layout_of(number: u32, members: usize, unit: u64, smallest: u64) -> Result<ArrayLayout, String> {
    ArrayLayout::new(layout::level(number).unwrap(), members, unit, smallest)
}

/// LBA, sectors, operation, and µs since the previous request.
type Load = (u64, u32, Op, u64);

fn array(case: &Case, loads: &[Load]) -> (Raid, Arc<Mutex<Ledger>>, Vec<Request>) {
    let layout = layout_of(case.level, case.members, case.unit, case.sectors).unwrap();
    let capacity = layout.capacity();
    let requests: Vec<Request> = loads
        .iter()
        .enumerate()
        .map(|(index, &(lba, sectors, op, _))| {
            let lba = lba % capacity;
            let sectors = u64::from(sectors).min(capacity - lba) as u32;
            let (id, stream, priority) = (index as u32, index as u32, Priority::DEFAULT);
            Request { id, stream, op, sync: true, priority, sectors, lba, arrival: Nanos::ZERO }
        })
        .collect();
    let ledger = Arc::new(Mutex::new(Ledger {
        level: case.level,
        members: case.members as u64,
        unit: layout.unit,
        failed: case.failure.map_or(0, |(member, _)| member),
        held: vec![vec![0; case.sectors as usize]; case.members + 1],
        known: BTreeMap::new(),
        log: Vec::new(),
    }));
    let asked = Arc::new(requests.iter().map(|request| (request.lba, request.end())).collect::<Vec<_>>());
    let shadow = |device: usize| -> Box<dyn Device> {
        let (ledger, requests) = (ledger.clone(), asked.clone());
        Box::new(Shadow { device, depth: case.depth, state: device as u64, inside: Vec::new(), ledger, requests })
    };
    let failure = case.failure.map(|(member, at)| MemberFailure { member, at: Nanos(at) });
    let spare = case.spare.then(|| shadow(case.members));
    let raid = Raid::new(layout, (0..case.members).map(shadow).collect(), None, failure, spare, case.rate);
    (raid, ledger, requests)
}

/// An array after a load, the contents of its devices, its requests and its completions.
type Worked = (Raid, Arc<Mutex<Ledger>>, Vec<Request>, Vec<Completion>);

/// Serves a load, then lets an hour pass. `looks`: the host also calls at times that the array did not request.
fn work(case: &Case, loads: &[Load], looks: bool) -> Worked {
    let (mut raid, ledger, requests) = array(case, loads);
    let (mut now, mut next, mut done) = (Nanos::ZERO, 0, Vec::new());
    loop {
        let due = loads.get(next).map(|load| now + Nanos(load.3 * 1000)).filter(|_| next - done.len() < raid.queue_depth());
        let Some(at) = [due, raid.wake_at()].into_iter().flatten().min() else { break };
        assert!(at >= now, "the array wants to be called in the past");
        if looks {
            raid.advance(Nanos(now.0 + (at.0 - now.0) / 3), &mut done);
        }
        now = at;
        raid.advance(now, &mut done);
        if due == Some(now) {
            raid.submit(now, &requests[next]);
            next += 1;
        }
    }
    raid.advance(now + Nanos::from_secs_f64(3600.0), &mut done);
    (raid, ledger, requests, done)
}

fn levels() -> impl Strategy<Value = (u32, usize)> {
    prop_oneof![(Just(0), 2usize..6), (Just(1), 2usize..4), (Just(5), 3usize..7), (Just(10), 3usize..7),]
}

prop_compose! {
    fn cases_of_arrays()(
        (level, members) in levels(),
        unit in prop::sample::select(vec![1u64, 8, 64, 100]),
        sectors in 1100u64..3000,
        depth in 1usize..5,
        failed in prop::option::of((0usize..6, prop::sample::select(vec![0u64, 300_000, 2_000_000, 4_000_000]))),
        spare in any::<bool>(),
        rate in prop::sample::select(vec![(400_000u64, 1_000u64), (400_000, 200_000), (40_000_000, 1_000), (40_000_000, 40_000_000)]),
    ) -> Case {
        let failure = failed.filter(|_| level != 0).map(|(member, at)| (member % members, at));
        let rate = RebuildRate { idle_kib_s: rate.0, busy_kib_s: rate.1 };
        Case { level, members, unit, sectors, depth, failure, spare: spare && failure.is_some(), rate }
    }
}

fn loads() -> impl Strategy<Value = Vec<Load>> {
    // Close together, so that they conflict, and near the end of a rebuild's first piece; some long enough for several stripes.
    let lba = prop_oneof![
        0u64..64,
        (1u64..6, 480u64..560).prop_map(|(data, sector)| data * sector),
        // Stripes of 100 sectors are split by the end of a piece.
        (2u64..6, 0u64..5, 0u64..20).prop_map(|(data, column, sector)| data * 500 + column * 100 + sector),
        0u64..8000
    ];
    let sectors = prop_oneof![1u32..9, 1u32..9, 1u32..200];
    let op = prop::sample::select(vec![Op::Read, Op::Read, Op::Write, Op::Write, Op::Write, Op::Discard]);
    prop::collection::vec((lba, sectors, op, prop::sample::select(vec![0u64, 5, 60, 400])), 1..120)
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn every_request_completes_once_in_time_order(case in cases_of_arrays(), loads in loads()) {
        let (raid, _, requests, done) = work(&case, &loads, false);
        prop_assert_eq!(done.len(), requests.len());
        prop_assert_eq!(done.iter().map(|completion| completion.id).collect::<BTreeSet<_>>().len(), requests.len());
        prop_assert!(done.is_sorted_by_key(|completion| completion.at));
        prop_assert!(raid.accesses.is_empty(), "an access was never given back");
        prop_assert!(raid.operations.is_empty(), "an operation was never given back");
    }

    #[test]
    fn looking_at_an_array_changes_nothing(case in cases_of_arrays(), loads in loads()) {
        let (quiet, looked_at) = (work(&case, &loads, false), work(&case, &loads, true));
        prop_assert_eq!(quiet.3, looked_at.3);
        prop_assert_eq!(quiet.0.busy(), looked_at.0.busy());
    }

    #[test]
    fn reads_return_written_data_and_any_member_can_be_reconstructed(case in cases_of_arrays(), loads in loads()) {
        let worked = work(&case, &loads, false);
        check_reads(&worked);
        check_members(&case, &worked);
    }
}

/// Checks that every sector read was zero or a value written there.
fn check_reads((_, ledger, requests, _): &Worked) {
    let ledger = ledger.lock().unwrap();
    let sectors = |request: &Request| request.lba..request.end();
    let writes = requests.iter().filter(|request| request.op == Op::Write);
    let ever: BTreeSet<_> = writes.flat_map(|write| sectors(write).map(|lba| (lba, written(write.stream, lba)))).collect();
    for request in requests.iter().filter(|request| request.op == Op::Read) {
        for lba in sectors(request) {
            let places = ledger.places(lba);
            let read = places.iter().find_map(|&(member, sector)| ledger.known.get(&(request.stream, member, sector)).copied());
            let read = read.or_else(|| ledger.reconstructed(request.stream, places[0].0, places[0].1));
            assert!(read.is_some_and(|value| value == 0 || ever.contains(&(lba, value))), "LBA {lba} read as {read:?}");
        }
    }
}

/// The expected content of each sector: the last write by order of completion, which is that of the locks.
fn expected(case: &Case, ledger: &Ledger, requests: &[Request], done: &[Completion]) -> BTreeMap<u64, u64> {
    let mut last = BTreeMap::new();
    for request in done.iter().map(|completion| &requests[completion.id as usize]) {
        let stripe = ledger.unit * (ledger.members - 1);
        for lba in request.lba..request.end() {
            let first = lba / stripe * stripe;
            let covered = request.lba <= first && first + stripe <= request.end();
            match request.op {
                Op::Read => None,
                Op::Write => last.insert(lba, written(request.stream, lba)),
                Op::Discard if case.level == 5 && !covered => None,
                Op::Discard => last.insert(lba, 0),
            };
        }
    }
    last
}

/// Checks that every member holds its data, and that on RAID 5 the others reconstruct it; the failed one is reconstructed or read
/// from its spare.
fn check_members(case: &Case, (raid, ledger, requests, done): &Worked) {
    if case.level == 0 {
        return;
    }
    let ledger = ledger.lock().unwrap();
    let last = expected(case, &ledger, requests, done);
    let gone = case.failure.map(|(member, _)| member);
    assert_eq!(raid.redundancy.failed, gone.filter(|_| !case.spare));
    let now = |member: usize, sector: u64| match gone == Some(member) {
        true if case.spare => Some(ledger.held[case.members][sector as usize]),
        true => None,
        false => Some(ledger.held[member][sector as usize]),
    };
    for lba in 0..raid.capacity_sectors() {
        let expected = last.get(&lba).copied().unwrap_or(0);
        for (member, sector) in ledger.places(lba) {
            let itself = now(member, sector);
            assert!(itself.is_none_or(|value| value == expected), "LBA {lba} on member {member}");
            if case.level == 5 && (itself.is_none() || gone.is_none() || case.spare) {
                let others = (0..case.members).filter(|&other| other != member);
                let reconstructed = others.fold(0, |sum, other| sum ^ now(other, sector).unwrap_or(0));
                assert_eq!(reconstructed, expected, "LBA {lba} from the others");
            }
        }
    }
}

#[test]
fn a_write_across_the_position_of_a_rebuild_goes_to_the_spare_below_it() {
    for failed in 0..4 {
        let mut case = Case { failure: Some((failed, 0)), spare: true, ..whole(5, 4, 100) };
        case.rate = RebuildRate { idle_kib_s: 1000, busy_kib_s: 1000 };
        // The first piece ends at sector 512 of the members, and the second begins after 256 ms. Stripe 5 begins at sector 500.
        let loads: Vec<Load> = (0..3).map(|column| (5 * 300 + column * 100 + 6, 12, Op::Write, 20_000)).collect();
        check_members(&case, &work(&case, &loads, false));
    }
}

#[test]
fn a_discard_goes_to_all_copies_and_of_a_parity_to_whole_stripes() {
    let count = |level, members, lba, sectors| accesses(&whole(level, members, 16), (lba, sectors, Op::Discard, 0)).1;
    assert_eq!(count(0, 4, 0, 64), 4);
    assert_eq!(count(1, 3, 0, 64), 3);
    assert_eq!(count(10, 4, 0, 16), 2);
    assert_eq!(count(5, 4, 8, 39), 0, "no stripe is covered");
    assert_eq!(count(5, 4, 8, 100), 4, "one is");
}

fn whole(level: u32, members: usize, unit: u64) -> Case {
    Case { level, members, unit, sectors: 3000, depth: 4, failure: None, spare: false, rate: RebuildRate::default() }
}

/// Numbers of a request's accesses to members: reads and writes.
fn accesses(case: &Case, load: Load) -> (usize, usize) {
    let (_, ledger, ..) = work(case, &[load], false);
    let log = &ledger.lock().unwrap().log;
    let reads = log.iter().filter(|(_, op, ..)| *op == Op::Read).count();
    (reads, log.len() - reads)
}

#[test]
fn every_level_in_the_folder_is_listed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/device/raid");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let numbers = files.filter_map(|file| file.strip_prefix("raid")?.strip_suffix(".rs")?.parse().ok());
    assert_eq!(numbers.collect::<BTreeSet<u32>>(), LEVELS.iter().map(|level| level.number()).collect());
}

#[test]
fn a_layout_is_that_of_md() {
    let table = |layout: &ArrayLayout, rows: u64| -> Vec<Vec<Option<u64>>> {
        let mut table = vec![vec![None; layout.members]; rows as usize];
        for unit in 0..layout.capacity() / layout.unit {
            let places = match layout.level.number() {
                10 => raid10::copies(layout, unit).to_vec(),
                _ => {
                    let touched = raid5::bands(layout, unit * layout.unit, unit * layout.unit + 1)[0].touched;
                    vec![(touched.trailing_zeros() as usize, unit / (layout.members as u64 - 1))]
                }
            };
            for (member, row) in places.into_iter().filter(|&(_, row)| row < rows) {
                table[row as usize][member] = Some(unit);
            }
        }
        table
    };
    let five = layout_of(5, 4, 8, 80).unwrap();
    let rows = [[Some(0), Some(1), Some(2), None], [Some(4), Some(5), None, Some(3)], [Some(8), None, Some(6), Some(7)]];
    assert_eq!(table(&five, 3), rows);
    let three = layout_of(10, 3, 8, 80).unwrap();
    assert_eq!(table(&three, 3), [[0, 0, 1], [1, 2, 2], [3, 3, 4]].map(|row| row.map(Some)));
}

#[test]
fn capacity_follows_from_the_smallest_member_and_the_level() {
    // 10 whole stripe units of 8 sectors in 83.
    let capacity = |level, members| layout_of(level, members, 8, 83).unwrap().capacity();
    assert_eq!(capacity(0, 4), 320);
    assert_eq!(capacity(1, 4), 83);
    assert_eq!(capacity(5, 4), 240);
    assert_eq!(capacity(10, 4), 160);
    assert_eq!(capacity(10, 3), 15 * 8);
    let huge = layout_of(0, 64, 1, u64::MAX).unwrap();
    assert!(huge.capacity() > u64::MAX / 1024);
}

#[test]
fn a_small_write_costs_two_reads_and_two_writes_and_a_full_stripe_no_read() {
    let five = whole(5, 5, 16);
    assert_eq!(accesses(&five, (0, 8, Op::Write, 0)), (2, 2), "old data and old parity, new data and new parity");
    assert_eq!(accesses(&five, (0, 64, Op::Write, 0)), (0, 5), "four data and their parity");
    assert_eq!(accesses(&five, (0, 48, Op::Write, 0)), (1, 4), "three of four: the fourth is read, the parity written once");
    // Of three disks the data of one other are enough.
    assert_eq!(accesses(&whole(5, 3, 16), (0, 8, Op::Write, 0)), (1, 2));
    // Many stripes are one access to each member, since they are adjacent there.
    assert_eq!(accesses(&five, (0, 64 * 5, Op::Write, 0)), (0, 5));
}

#[test]
fn a_write_over_the_end_of_a_stripe_unit_touches_the_parity_only_where_it_writes() {
    let (_, ledger, ..) = work(&whole(5, 5, 16), &[(12, 8, Op::Write, 0)], false);
    let written: u32 = ledger.lock().unwrap().log.iter().filter(|(_, op, ..)| *op == Op::Write).map(|access| access.3).sum();
    assert_eq!(written, 8 + 4 + 4, "the data, and for each half of them the parity");
}

#[test]
fn a_read_of_a_failed_member_fans_out_to_all_the_others() {
    let mut five = whole(5, 5, 16);
    assert_eq!(accesses(&five, (16, 8, Op::Read, 0)), (1, 0));
    five.failure = Some((1, 0));
    assert_eq!(accesses(&five, (16, 8, Op::Read, 0)), (4, 0));
    assert_eq!(accesses(&five, (0, 8, Op::Read, 0)), (1, 0), "another member answers for itself");
    assert_eq!(accesses(&five, (0, 64, Op::Read, 0)), (4, 0), "a whole stripe reads the parity in place of the lost data");
    assert_eq!(accesses(&five, (16, 8, Op::Write, 0)), (3, 1), "written into the parity alone");
    five.failure = Some((4, 0));
    assert_eq!(accesses(&five, (0, 8, Op::Write, 0)), (0, 1), "without parity there is nothing to read");
}

#[test]
fn mirrors_write_twice_and_read_once_and_survive_a_failure() {
    for (level, members) in [(1, 2), (10, 4)] {
        let mut mirror = whole(level, members, 16);
        assert_eq!(accesses(&mirror, (0, 8, Op::Write, 0)), (0, 2));
        assert_eq!(accesses(&mirror, (0, 8, Op::Read, 0)), (1, 0));
        mirror.failure = Some((0, 0));
        assert_eq!((accesses(&mirror, (0, 8, Op::Write, 0)), accesses(&mirror, (0, 8, Op::Read, 0))), ((0, 1), (1, 0)));
    }
}

#[test]
fn a_rebuild_writes_every_sector_of_the_spare_once_at_its_rate_and_the_array_is_whole_again() {
    for (level, members) in [(1, 2), (5, 4), (10, 4), (10, 5)] {
        let mut case = Case { failure: Some((1, 0)), spare: true, ..whole(level, members, 10) };
        case.rate = RebuildRate { idle_kib_s: 1000, busy_kib_s: 1000 };
        let (mut raid, ledger, _) = array(&case, &[]);
        let mut done = Vec::new();
        // Six pieces: five of 256 KiB must have had their time before the last starts.
        raid.advance(Nanos::from_millis(1279), &mut done);
        assert!(raid.whole() < 3000, "RAID {level} is faster than its rate");
        raid.advance(Nanos::from_millis(1290), &mut done);
        assert_eq!((raid.whole(), raid.redundancy.failed), (3000, None), "RAID {level}");
        let mut times = vec![0; 3000];
        for &(device, op, lba, sectors) in &ledger.lock().unwrap().log {
            if op == Op::Write {
                assert_eq!(device, members, "only the spare is written");
                (lba..lba + u64::from(sectors)).for_each(|sector| times[sector as usize] += 1);
            }
        }
        assert!(times.iter().all(|&count| count == 1), "RAID {level}");
    }
}

#[test]
fn a_rebuild_yields_to_the_host() {
    let loads: Vec<Load> = (0..400).map(|index| (index * 37, 8, Op::Read, 0)).collect();
    let mut whole_at_end = Vec::new();
    for busy_kib_s in [1000, 100_000] {
        let mut case = Case { failure: Some((1, 0)), spare: true, ..whole(5, 4, 8) };
        case.rate = RebuildRate { idle_kib_s: 200_000, busy_kib_s };
        let (mut raid, _, requests) = array(&case, &loads);
        let (mut next, mut now, mut done) = (0, Nanos::ZERO, Vec::new());
        while done.len() < requests.len() {
            while next < requests.len() && next - done.len() < raid.queue_depth() {
                raid.submit(now, &requests[next]);
                next += 1;
            }
            now = raid.wake_at().unwrap();
            raid.advance(now, &mut done);
        }
        assert!(now < Nanos::from_millis(100), "{now}");
        whole_at_end.push(raid.whole());
    }
    assert!(whole_at_end[0] <= 512 && whole_at_end[1] > 512, "{whole_at_end:?}");
}

/// A device with a constant service time of one millisecond, one request at a time.
#[derive(Default)]
struct Constant {
    serving: Option<(Nanos, u32)>,
    busy: Nanos,
}

impl Device for Constant {
    fn capacity_sectors(&self) -> u64 {
        1 << 20
    }

    fn queue_depth(&self) -> usize {
        1
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        assert!(self.serving.is_none(), "one at a time");
        self.serving = Some((now + Nanos::from_millis(1), request.id));
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.serving.map(|(at, _)| at)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let none = Nanos::ZERO;
        if let Some((at, id)) = self.serving.take_if(|(at, _)| *at <= now) {
            self.busy += Nanos::from_millis(1);
            done.push(Completion { id, at, seek: none, rotation: none, seek_cylinders: 0, cache_hit: false, work: None });
        }
    }

    fn busy(&self) -> Nanos {
        self.busy
    }
}

fn plain(members: usize) -> Vec<Box<dyn Device>> {
    (0..members).map(|_| Box::new(Constant::default()) as Box<dyn Device>).collect()
}

/// Requests per second of an array for `count` requests with `depth` outstanding.
fn throughput(device: &mut dyn Device, depth: usize, count: u32, mut request: impl FnMut(u32) -> (Op, u64, u32)) -> f64 {
    let (mut next, mut now, mut done) = (0, Nanos::ZERO, Vec::new());
    while done.len() < count as usize {
        while next < count && (next as usize) - done.len() < depth {
            let ((op, lba, sectors), priority) = (request(next), Priority::DEFAULT);
            device.submit(now, &Request { id: next, stream: 0, op, sync: true, priority, sectors, lba, arrival: now });
            next += 1;
        }
        now = device.wake_at().unwrap();
        device.advance(now, &mut done);
    }
    f64::from(count) / now.as_secs_f64()
}

fn random(index: u32) -> u64 {
    (u64::from(index) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

#[test]
fn random_throughput_grows_with_the_members() {
    let rate = |level, members, op| {
        let layout = layout_of(level, members, 8, 1 << 20).unwrap();
        let mut raid = Raid::new(layout, plain(members), Some(256), None, None, RebuildRate::default());
        let capacity = raid.capacity_sectors();
        throughput(&mut raid, 256, 20_000, |index| (op, random(index) % (capacity / 8) * 8, 8)) / 1000.0
    };
    let near = |rate: f64, expected: f64| assert!((rate / expected - 1.0).abs() < 0.05, "{rate} should be about {expected}");
    near(rate(0, 8, Op::Read), 8.0);
    near(rate(1, 2, Op::Read), 2.0);
    near(rate(1, 2, Op::Write), 1.0);
    near(rate(10, 4, Op::Read), 4.0);
    near(rate(10, 4, Op::Write), 2.0);
    near(rate(5, 8, Op::Read), 8.0);
    near(rate(5, 8, Op::Write), 2.0);
}

#[test]
fn sequential_throughput_of_stripes_grows_with_the_disks() {
    let rate = |profile: &str| {
        let mut device = crate::profile::load(profile).unwrap().build(crate::profile::DeviceOptions::default());
        throughput(&mut *device, 4, 100, |index| (Op::Read, u64::from(index) * 2048, 2048))
    };
    let ratio = rate("raid0:disk=sata7200,disks=4,stripe_unit_kib=64") / rate("sata7200");
    assert!((3.6..4.2).contains(&ratio), "{ratio}");
}

#[test]
fn a_reader_in_sequence_stays_on_its_mirror_and_a_second_one_goes_to_the_other() {
    let layout = layout_of(1, 2, 1, 1 << 20).unwrap();
    let mut raid = Raid::new(layout, plain(2), None, None, None, RebuildRate::default());
    throughput(&mut raid, 1, 100, |index| (Op::Read, u64::from(index) * 8, 8));
    let busy: Vec<_> = raid.member_busy().collect();
    assert_eq!(busy, [Nanos::from_millis(100), Nanos::ZERO]);
    let mut raid = Raid::new(layout, plain(2), None, None, None, RebuildRate::default());
    throughput(&mut raid, 2, 100, |index| (Op::Read, u64::from(index / 2) * 8 + u64::from(index % 2) * 500_000, 8));
    assert!(raid.member_busy().all(|busy| busy == Nanos::from_millis(50)));
}

#[test]
fn an_array_is_busy_while_a_member_is_and_not_in_between() {
    let layout = layout_of(0, 2, 8, 1 << 20).unwrap();
    let mut raid = Raid::new(layout, plain(2), None, None, None, RebuildRate::default());
    throughput(&mut raid, 1, 10, |index| (Op::Read, u64::from(index) * 16, 16));
    assert_eq!(raid.busy(), Nanos::from_millis(10));
    raid.advance(Nanos::from_millis(500), &mut Vec::new());
    assert_eq!(raid.busy(), Nanos::from_millis(10));
}

#[test]
fn the_largest_request_and_one_beyond_the_end_do_not_overflow() {
    let layout = layout_of(5, 3, 1, 1 << 20).unwrap();
    let mut raid = Raid::new(layout, plain(3), None, None, None, RebuildRate::default());
    let done = throughput(&mut raid, 2, 2, |index| (Op::Write, [u64::MAX, 7][index as usize], 100_000));
    assert!(done > 0.0);
    assert!(raid.accesses.capacity() < 10_000, "{}", raid.accesses.capacity());
}

/// A device that takes time only for flushes.
struct Flushes {
    takes: Nanos,
    under_way: Vec<(Nanos, u32)>,
}

impl Device for Flushes {
    fn capacity_sectors(&self) -> u64 {
        1 << 20
    }

    fn queue_depth(&self) -> usize {
        1
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        self.under_way.push((now, request.id));
    }

    fn flush(&mut self, now: Nanos, id: u32) -> bool {
        self.under_way.push((now + self.takes, id));
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.under_way.iter().map(|(at, _)| *at).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let none = Nanos::ZERO;
        for (at, id) in self.under_way.extract_if(.., |(at, _)| *at <= now) {
            done.push(Completion { id, at, seek: none, rotation: none, seek_cylinders: 0, cache_hit: false, work: None });
        }
    }

    fn busy(&self) -> Nanos {
        Nanos::ZERO
    }
}

/// Completion times of two flushes of a mirror, sent at 0 and 1 ms, with these flush times of the members in milliseconds.
fn flushes(takes_ms: [u64; 3], failure: Option<MemberFailure>, spare_ms: Option<u64>) -> Vec<(u32, Nanos)> {
    let device = |ms| Box::new(Flushes { takes: Nanos::from_millis(ms), under_way: Vec::new() }) as Box<dyn Device>;
    let layout = layout_of(1, 3, 1, 1 << 20).unwrap();
    let members = takes_ms.into_iter().map(device).collect();
    let mut raid = Raid::new(layout, members, None, failure, spare_ms.map(device), RebuildRate { idle_kib_s: 1, busy_kib_s: 1 });
    let mut done = Vec::new();
    for (id, now) in [(7, Nanos::ZERO), (8, Nanos::from_millis(1))] {
        raid.advance(now, &mut done);
        assert!(raid.flush(now, id));
    }
    while done.len() < 2 {
        raid.advance(raid.wake_at().unwrap(), &mut done);
    }
    done.iter().map(|completion| (completion.id, completion.at)).collect()
}

#[test]
fn a_flush_waits_for_the_slowest_member_that_has_not_failed() {
    let ms = Nanos::from_millis;
    assert_eq!(flushes([2, 9, 4], None, None), [(7, ms(9)), (8, ms(10))]);
    let failure = |at| Some(MemberFailure { member: 1, at });
    assert_eq!(flushes([2, 9, 4], failure(Nanos::ZERO), None), [(7, ms(4)), (8, ms(5))]);
    assert_eq!(flushes([2, 9, 4], failure(ms(3)), None), [(7, ms(4)), (8, ms(5))]);
    assert_eq!(flushes([2, 9, 4], failure(ms(6)), None), [(7, ms(6)), (8, ms(6))], "the flush that waited for it alone is over");
    assert_eq!(flushes([2, 9, 4], failure(Nanos::ZERO), Some(20)), [(7, ms(20)), (8, ms(21))], "a spare is a member");
}

#[test]
fn an_array_of_devices_without_a_write_cache_has_nothing_to_flush() {
    let layout = layout_of(0, 2, 8, 1 << 20).unwrap();
    let mut raid = Raid::new(layout, plain(2), None, None, None, RebuildRate::default());
    assert!(!raid.flush(Nanos::ZERO, 0));
    assert_eq!(raid.wake_at(), None);
}
