//! Shares of disk time, on a disk that reports the disk time of each request.

use std::sync::Arc;

use block::tenants::ConstantTime;
use block::{Nanos, Pick, Request, Room, Roster, Scheduler, Tenant};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::crowd::{Asks, Crowd, Manner, Neighbour};
use crate::{insert_all, ms, pick_all, read, scheduler};

/// Each tenant's share of the disk's time between two times, in percent.
fn shares(crowd: &mut Crowd, from: Nanos, to: Nanos) -> Vec<f64> {
    crowd.run_until(from);
    let before = crowd.disk_time.clone();
    crowd.run_until(to);
    let times: Vec<f64> = crowd.disk_time.iter().zip(before).map(|(after, before)| (*after - before).as_secs_f64()).collect();
    let all: f64 = times.iter().sum();
    times.iter().map(|time| 100.0 * time / all).collect()
}

/// The same in the second half of a minute.
fn shares_under(setting: &str, neighbours: &[Neighbour], depth: usize) -> Vec<f64> {
    shares(&mut Crowd::new(scheduler(setting), neighbours, depth), ms(30_000), ms(60_000))
}

fn assert_shares(shares: &[f64], expected: &[f64], tolerance: f64) {
    let off = shares.iter().zip(expected).any(|(share, expected)| (share - expected).abs() > tolerance);
    assert!(!off, "{shares:.2?} should be {expected:?}");
}

fn random(weight: u32, sectors: u32) -> Neighbour {
    Neighbour::flood(weight, Asks::Random { sectors })
}

#[test]
fn disk_time_and_not_requests_is_shared_by_weight() {
    for setting in ["fairio", "fairio:order=clook", "fairio:order=arrival", "fairio:order=arrival,cycle_ms=1000"] {
        assert_shares(&shares_under(setting, &[random(1, 8), random(3, 2_048)], 8), &[25.0, 75.0], 0.7);
    }
}

#[test]
fn small_differences_of_weights_matter() {
    let neighbours = [random(997, 8), random(1_003, 64), random(8_000, 8)];
    assert_shares(&shares_under("fairio", &neighbours, 1), &[9.97, 10.03, 80.0], 0.05);
}

#[test]
fn without_reported_disk_time_the_spacing_of_completions_is_charged() {
    let mut crowd = Crowd::new(scheduler("fairio"), &[random(1, 8), random(1, 2_048)], 8);
    crowd.tells_work = false;
    assert_shares(&shares(&mut crowd, ms(10_000), ms(60_000)), &[50.0, 50.0], 1.0);
}

#[test]
fn a_tenant_with_few_requests_gets_its_share_next_to_one_that_fills_the_device() {
    for at_once in [1, 2, 8] {
        let modest = Neighbour { manner: Manner::Floods { at_once }, ..random(1, 8) };
        assert_shares(&shares_under("fairio", &[modest, random(1, 8)], 32), &[50.0, 50.0], 0.5);
    }
}

#[test]
fn unused_shares_go_to_others_without_a_charge() {
    // The second tenant is active for two seconds after eight in which the first had the disk to itself.
    let (on, off) = (ms(2_000), ms(8_000));
    let guest = Neighbour { manner: Manner::ComesAndGoes { at_once: 80, on, off }, ..random(1, 8) };
    let mut crowd = Crowd::new(scheduler("fairio"), &[random(1, 8), guest], 8);
    for round in 2..8 {
        let begin = ms(10_000 * round);
        let together = shares(&mut crowd, begin + ms(300), begin + ms(1_900));
        assert!((together[0] - 50.0).abs() < 6.0, "in round {round} {together:.1?}");
        let alone = shares(&mut crowd, begin + ms(3_500), begin + ms(9_900));
        assert!(alone[0] > 99.0, "in round {round} {alone:.1?}");
    }
    assert_eq!(crowd.wasted, Nanos::ZERO);
}

/// A scheduler that knows the cost of the requests of two tenants, with volumes at sector 0 and at a million.
fn knowing_two(setting: &str, cost: Nanos, disks: u32) -> Box<dyn Scheduler> {
    knowing(setting, [1, 1], cost, disks)
}

fn knowing(setting: &str, weights: [u32; 2], cost: Nanos, disks: u32) -> Box<dyn Scheduler> {
    let mut fairio = scheduler(setting);
    let tenants = weights.map(|weight| Tenant::new("").with_weight(weight)).to_vec();
    fairio.set_roster(&Roster::new(tenants, vec![(0..1_000_000, 0), (1_000_000..2_000_000, 1)], &[], disks).unwrap());
    for n in 0..50 {
        insert_all(&mut *fairio, ms(n), [read(0, 0), read(1, 1_000_000)]);
        for request in pick_all(&mut *fairio, ms(n)) {
            fairio.record_disk_time(&request, cost);
            fairio.completed(ms(n), &request, cost);
        }
    }
    fairio
}

/// How many of the first tenant's requests go before one of the second that arrived after them.
fn in_a_row(setting: &str, disks: u32) -> usize {
    let mut fairio = knowing_two(setting, ms(5), disks);
    insert_all(&mut *fairio, ms(100), (10..410).map(|n| read(n, u64::from(n) * 100)));
    insert_all(&mut *fairio, ms(100), (410..810).map(|n| read(n, 1_000_000 + u64::from(n) * 100)));
    let next_is_of_second =
        |fairio: &mut dyn Scheduler| matches!(fairio.pick(ms(100)), Pick::Go(request) if request.lba >= 1_000_000);
    // The rest of a cycle that began before.
    while !next_is_of_second(&mut *fairio) {}
    while next_is_of_second(&mut *fairio) {}
    1 + (0..800).take_while(|_| !next_is_of_second(&mut *fairio)).count()
}

#[test]
fn a_share_of_a_cycle_is_served_in_a_row_and_covers_all_disks() {
    // Half of 100 ms is 10 requests of 5 ms.
    let in_a_row =
        |cycle_ms: u32, disks| in_a_row(&format!("fairio:order=arrival,cycle_ms={cycle_ms},storage_load_threshold=1024"), disks);
    assert_eq!([in_a_row(100, 1), in_a_row(100, 4), in_a_row(400, 1)], [10, 40, 40]);
}

#[test]
fn a_share_below_the_threshold_accumulates_over_cycles() {
    // A tenth of 100 ms is 2 requests of 5 ms.
    for (threshold, fewest, most) in [(1, 1, 3), (10, 9, 14)] {
        let setting = format!("fairio:order=arrival,cycle_ms=100,storage_load_threshold=1024,class_threshold={threshold}");
        let mut fairio = knowing(&setting, [1, 9], ms(5), 1);
        insert_all(&mut *fairio, ms(100), (10..410).map(|n| read(n, u64::from(n) * 100)));
        insert_all(&mut *fairio, ms(100), (410..2_410).map(|n| read(n, 1_000_000 + u64::from(n) * 100)));
        let mut rows = vec![0];
        for _ in 0..1_000 {
            let Pick::Go(request) = fairio.pick(ms(100)) else { panic!("nothing goes") };
            fairio.record_disk_time(&request, ms(5));
            fairio.completed(ms(100), &request, ms(5));
            match (request.lba < 1_000_000, rows.last_mut()) {
                (true, Some(row)) => *row += 1,
                (false, Some(0)) => {}
                _ => rows.push(0),
            }
        }
        let served: u32 = rows.iter().sum();
        assert!((85..=115).contains(&served), "a tenth, {served} of 1,000");
        // The first and the last may be incomplete.
        let rows = &rows[1..rows.len() - 2];
        assert!(rows.iter().all(|row| (fewest..=most).contains(row)), "with a threshold of {threshold}: {rows:?}");
    }
}

#[test]
fn the_device_queue_is_limited_to_what_keeps_the_disks_busy() {
    // Two cycles' 20 requests for each disk, and one more cycle.
    for (disks, most) in [(1, 60), (8, 480)] {
        let mut fairio = knowing_two("fairio:cycle_ms=100", ms(5), disks);
        insert_all(&mut *fairio, ms(100), (10..410).map(|n| read(n, u64::from(n) * 100)));
        insert_all(&mut *fairio, ms(100), (410..810).map(|n| read(n, 1_000_000 + u64::from(n) * 100)));
        let went = pick_all(&mut *fairio, ms(100));
        assert!((16 * disks as usize..=most).contains(&went.len()), "{} went to {disks} disks", went.len());
        assert!(matches!(fairio.pick(ms(100)), Pick::WaitUntil(_)));
        for request in &went[..went.len() - 1] {
            fairio.completed(ms(200), request, ms(100));
        }
        assert!(matches!(fairio.pick(ms(200)), Pick::Go(_)), "most of it is done");
    }
}

#[test]
fn predicted_costs_are_final() {
    let model = |millis| Arc::new(ConstantTime { request: ms(millis), sector: Nanos::ZERO });
    let tenants = vec![Tenant::new("a").with_reference(model(2)), Tenant::new("b").with_reference(model(6)).with_weight(2)];
    let roster = Roster::new(tenants, vec![(0..1_000_000, 0), (1_000_000..2_000_000, 1)], &[], 1).unwrap();
    let mut fairio = scheduler("fairio:disk_time=predicted,cycle_ms=100");
    fairio.set_roster(&roster);
    insert_all(&mut *fairio, ms(0), (0..900).map(|n| read(n, u64::from(n) * 100)));
    insert_all(&mut *fairio, ms(0), (900..1_800).map(|n| read(n, 1_000_000 + u64::from(n) * 100)));
    let mut served = [0, 0];
    for n in 0..1_000 {
        let Pick::Go(request) = fairio.pick(ms(n)) else { panic!("nothing goes") };
        served[usize::from(request.lba >= 1_000_000)] += 1;
        fairio.record_disk_time(&request, ms(1 + n % 50));
        fairio.completed(ms(n), &request, ms(1));
    }
    // At 2 and 6 ms, 3 of the one and 2 of the other have disk times of 1 to 2.
    assert!((590..=610).contains(&served[0]), "{served:?}");
}

#[test]
fn a_new_roster_applies_to_queued_requests() {
    let mut fairio = scheduler("fairio");
    insert_all(&mut *fairio, ms(0), (0..50).map(|n| Request { stream: n, ..read(n, u64::from(n) * 1_000) }));
    let Pick::Go(first) = fairio.pick(ms(0)) else { panic!("nothing goes") };
    fairio
        .set_roster(&Roster::new(["a", "b"].map(Tenant::new).to_vec(), vec![(0..25_000, 0), (25_000..50_000, 1)], &[], 1).unwrap());
    // It was dispatched before, and its tenant has another number now.
    fairio.completed(ms(1), &first, ms(1));
    assert_eq!(crate::serve_all(&mut *fairio, ms(2)).len(), 49);
}

#[test]
fn tenants_on_both_rosters_keep_their_accounts() {
    // The first has two volumes' requests at the device when a third tenant joins before it on the roster.
    let roster = |names: &[&str]| {
        let tenants = names.iter().map(|name| Tenant::new(*name)).collect();
        let begin = |name: &str| 1_000_000 * u64::from(name.as_bytes()[0] - b'a');
        let volumes = names.iter().enumerate().map(|(number, name)| (begin(name)..begin(name) + 1_000_000, number)).collect();
        Roster::new(tenants, volumes, &[], 1).unwrap()
    };
    let mut fairio = scheduler("fairio:cycle_ms=100");
    fairio.set_roster(&roster(&["b", "c"]));
    insert_all(&mut *fairio, ms(0), (0..100).map(|n| read(n, 1_000_000 + u64::from(n) * 100)));
    insert_all(&mut *fairio, ms(0), (100..200).map(|n| read(n, 2_000_000 + u64::from(n) * 100)));
    let mut served = [0, 0, 0];
    let mut serve = |fairio: &mut dyn Scheduler, now| {
        let Pick::Go(request) = fairio.pick(now) else { panic!("nothing goes") };
        served[(request.lba / 1_000_000) as usize] += 1;
        // Those of b take nine times as long.
        let took = ms(if request.lba < 2_000_000 { 9 } else { 1 });
        fairio.record_disk_time(&request, took);
        fairio.completed(now, &request, took);
        served
    };
    (0..40).for_each(|n| _ = serve(&mut *fairio, ms(n)));
    let Pick::Go(at_device) = fairio.pick(ms(40)) else { panic!("nothing goes") };
    fairio.set_roster(&roster(&["a", "b", "c"]));
    let Pick::Go(next) = fairio.pick(ms(41)) else { panic!("nothing goes") };
    fairio.record_disk_time(&at_device, ms(1));
    fairio.completed(ms(42), &at_device, ms(1));
    fairio.record_disk_time(&next, ms(1));
    fairio.completed(ms(42), &next, ms(1));
    let [_, b, c] = (43..83).map(|n| serve(&mut *fairio, ms(n))).last().unwrap();
    assert!((7..=11).contains(&b), "a tenth is of b, by costs that were learned before: {b} and {c}");
}

#[test]
fn while_others_may_return_the_number_at_the_device_is_limited() {
    for threshold in [2, 16] {
        let mut fairio = knowing_two(&format!("fairio:cycle_ms=100,storage_load_threshold={threshold}"), ms(5), 1);
        insert_all(&mut *fairio, ms(100), [read(1, 1_000_000)]);
        insert_all(&mut *fairio, ms(100), (10..200).map(|n| read(n, u64::from(n) * 100)));
        let went = pick_all(&mut *fairio, ms(100)).len();
        assert!((11..=21).contains(&went) || went == threshold, "{went} went; a share of 10 or so, and one of the other tenant");
        assert!(matches!(fairio.pick(ms(100)), Pick::WaitUntil(_)), "with one of the other tenant at the device");
    }
}

#[test]
fn a_tenant_that_floods_the_queue_leaves_half_to_others() {
    // Some have `nr_requests` tags for each tenant and for all others: half of them are 128 here.
    let of_tenants = [("youchoose", 86, 258), ("mclock", 86, 258), ("virtual-clock", 86, 258), ("guarantee", 86, 258)];
    for (name, nr_requests, all) in [("fairio", 256, 256), ("io-cost", 256, 256)].into_iter().chain(of_tenants) {
        let room = Room { nr_requests, device: 32 };
        let mut scheduler = scheduler(name);
        let tenants = vec![Tenant::new("a"), Tenant::new("b").with_weight(3)];
        scheduler.set_roster(&Roster::new(tenants, vec![(0..1_000_000, 0), (1_000_000..2_000_000, 1)], &[], 1).unwrap());
        let depth = scheduler.tags(&room).unwrap().depth;
        let open = |scheduler: &dyn Scheduler, lba| scheduler.open_tags(depth, &read(9_999, lba));
        insert_all(&mut *scheduler, ms(0), (0..100).map(|n| read(n, u64::from(n) * 100)));
        assert_eq!(open(&*scheduler, 0), all, "{name}: no other tenant has requests, and it holds less than half");
        insert_all(&mut *scheduler, ms(0), [read(100, 1_000_000)]);
        assert_eq!(open(&*scheduler, 0), all.div_ceil(2), "{name}: it holds more than a fourth of a half");
        assert_eq!(open(&*scheduler, 1_000_000), all, "{name}");
        insert_all(&mut *scheduler, ms(0), (101..197).map(|n| read(n, 1_000_000 + u64::from(n) * 100)));
        assert_eq!(open(&*scheduler, 1_000_000), all.div_ceil(2), "{name}: three fourths of a half are 96 or 97");
        let mut now = ms(0);
        let first = loop {
            match scheduler.pick(now) {
                Pick::Go(request) => break request,
                Pick::WaitUntil(time) => now = time,
                Pick::Empty => panic!("{name}: they wait"),
            }
        };
        assert_eq!(open(&*scheduler, 1_000_000), all.div_ceil(2), "{name}: a request at the device holds its tag");
        scheduler.completed(now + ms(1), &first, ms(1));
        let mut rest = vec![];
        scheduler.drain(&mut rest);
        assert_eq!(rest.len(), 196, "{name}");
        assert_eq!(open(&*scheduler, 0), all, "{name}: nothing is held any more");
    }
}

/// A noisy neighbour.
fn neighbour() -> impl Strategy<Value = Neighbour> {
    let asks = prop_oneof![
        (1..64u32).prop_map(|pages| Asks::Random { sectors: 8 * pages }),
        Just(Asks::Random { sectors: 4_096 }),
        (1..256u32).prop_map(|pages| Asks::Sequential { sectors: 8 * pages }),
        (2..60u64).prop_map(|every| Asks::NowAndThenHuge { every }),
    ];
    let manner = prop_oneof![
        (1..200u32).prop_map(|at_once| Manner::Floods { at_once }),
        (1..400u32, 20..3_000u64).prop_map(|(size, every)| Manner::Bursts { size, every: ms(every) }),
        (1..200u32, 1..2_000u64, 1..2_000u64).prop_map(|(at_once, on, off)| Manner::ComesAndGoes {
            at_once,
            on: ms(on),
            off: ms(off),
        }),
    ];
    (1..20u32, asks, manner, any::<bool>()).prop_map(|(weight, asks, manner, buffered_writes)| Neighbour {
        weight,
        asks,
        manner,
        buffered_writes,
    })
}

/// Checks that, with any neighbours, a tenant that always has requests gets its share, and that the disk is always busy.
fn assert_share_is_kept(victim: Neighbour, others: &[Neighbour], depth: usize, setting: &str) -> Result<(), TestCaseError> {
    let neighbours: Vec<Neighbour> = [victim].into_iter().chain(others.iter().copied()).collect();
    let weights: u32 = neighbours.iter().map(|neighbour| neighbour.weight).sum();
    let share = 100.0 * f64::from(victim.weight) / f64::from(weights);
    let mut crowd = Crowd::new(scheduler(setting), &neighbours, depth);
    let got = shares(&mut crowd, ms(10_000), ms(60_000))[0];
    prop_assert!(got > share - 1.0, "{got:.2} points instead of {share:.2}");
    prop_assert_eq!(crowd.wasted, Nanos::ZERO);
    Ok(())
}

#[test]
fn no_neighbour_takes_the_share_of_another_tenant() {
    let config = Config { cases: 96, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let victim = (1..20u32, 1..128u32, 1..100u32);
    let setting =
        prop_oneof![Just("fairio"), Just("fairio:order=clook"), Just("fairio:order=arrival"), Just("fairio:cycle_ms=500")];
    let strategy = (victim, proptest::collection::vec(neighbour(), 1..5), 1..40usize, setting);
    let outcome = runner.run(&strategy, |((weight, pages, at_once), others, depth, setting)| {
        // It always has one in flight, if only at the device.
        let manner = Manner::Floods { at_once };
        let victim = Neighbour { manner, ..random(weight, 8 * pages) };
        assert_share_is_kept(victim, &others, depth, setting)
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
