//! Guarantees that are kept.

use std::ops::Range;
use std::sync::Arc;

use block::tenants::ConstantTime;
use block::{Nanos, Roster, Tenant, parse};
use sim::device::hdd::spec::QueuePolicy;
use sim::host::{Queue, QueueSettings};
use sim::profile::{DeviceOptions, load};

use crate::promises::disk;
use crate::promises::loops::{Answer, Habit, ask};

/// A tenant's service compared with that of its reference disk.
#[derive(Debug)]
pub struct Kept {
    /// Requests answered.
    throughput: f64,
    /// Share of windows of one second in which it was served less than 95% of the reference disk's rate for the same requests.
    missed: f64,
    p99: f64,
}

fn p99(answers: &[Answer]) -> f64 {
    let mut responses: Vec<_> = answers.iter().map(|answer| answer.done - answer.asked).collect();
    responses.sort();
    responses[responses.len() * 99 / 100].as_millis_f64()
}

fn compare(here: &[Answer], alone: &[Answer], end: Nanos) -> Kept {
    let rate = |answers: &[Answer]| answers.iter().filter(|answer| answer.done <= end).count() as f64 / end.as_secs_f64();
    let seconds = (end.0 / 1_000_000_000) as usize;
    let count_at = |second: usize| here.partition_point(|answer| answer.done.0 <= second as u64 * 1_000_000_000);
    let reached = |count: usize| alone.get(count.saturating_sub(1)).map(|answer| answer.done.as_secs_f64());
    let windows: Vec<f64> = (0..seconds)
        .map_while(|second| Some(reached(count_at(second + 1))? - if second == 0 { 0.0 } else { reached(count_at(second))? }))
        .collect();
    let missed = windows.iter().filter(|&&window| window < 0.95).count() as f64 / windows.len().max(1) as f64;
    Kept { throughput: rate(here) / rate(alone), missed, p99: p99(here) / p99(alone) }
}

/// Runs tenants that share `host`, each guaranteed the disk `reference`.
pub fn share(host: &str, reference: &str, scheduler: &str, habits: &[Habit], seed: u64, end: Nanos) -> Vec<Kept> {
    let profile = load(host).unwrap();
    let promised = Arc::new(disk(reference));
    let part = (profile.capacity_sectors() / habits.len() as u64 / 8 * 8).min(promised.queue().capacity_sectors());
    let volumes: Vec<Range<u64>> = (0..habits.len() as u64).map(|n| n * part..(n + 1) * part).collect();
    let tenants = (0..habits.len()).map(|n| Tenant::new(format!("tenant {n}")).with_reference(promised.clone()));
    let owned = volumes.iter().cloned().zip(0..).collect();
    let roster = Roster::new(tenants.collect(), owned, &[], profile.disks() as u32).unwrap();

    let (spec, values) = parse(scheduler).unwrap();
    // An array has no limit of its own: requests that its disks cannot take yet wait in it.
    let device = profile.build(DeviceOptions { queue_depth: Some(64), queue_policy: None });
    let settings = QueueSettings::default();
    let mut queue = Queue::new((spec.build)(&settings.limits(), &values), device, settings);
    queue.set_roster(&roster);
    let asking: Vec<_> = habits.iter().zip(&volumes).zip(seed..).map(|((h, v), n)| (h.clone(), v.clone(), n)).collect();
    let here = ask(&mut queue, &asking, end);

    let alone = habits.iter().zip(seed..).map(|(habit, n)| {
        let longer = end + Nanos(end.0);
        ask(&mut promised.queue(), &[(habit.clone(), 0..part, n)], longer).remove(0)
    });
    here.iter().zip(alone).map(|(here, alone)| compare(here, &alone, end)).collect()
}

#[test]
fn a_host_with_the_capacity_serves_each_locality_as_well_as_its_reference_disk() {
    let end = Nanos::from_millis(20_000);
    for (host, reference, at_once, seed) in [
        ("raid0:disk=atlas10k,disks=8,stripe_unit_kib=4", "raid0:disk=barracuda,disks=2,stripe_unit_kib=4", 32, 5),
        ("raid0:disk=atlas10k,disks=12,stripe_unit_kib=64", "raid0:disk=barracuda,disks=2,stripe_unit_kib=64", 32, 6),
        ("raid0:disk=cheetah9LP,disks=12,stripe_unit_kib=16", "barracuda", 16, 7),
    ] {
        let habits = [0, 25, 50, 75, 100].map(|locality| Habit::saturating(locality, at_once));
        for (kept, habit) in share(host, reference, "youchoose", &habits, seed, end).iter().zip(&habits) {
            // One window: a volume that gets twice as much has 18 of them.
            assert!(kept.throughput >= 0.97 && kept.missed <= 1.0 / 18.0 && kept.p99 <= 1.1, "{host}, {habit:?}: {kept:?}");
        }
    }
}

#[test]
fn no_neighbour_takes_from_a_guaranteed_volume() {
    let (host, reference) = ("raid0:disk=atlas10k,disks=4,stripe_unit_kib=64", "barracuda");
    let end = Nanos::from_millis(20_000);
    let s = Nanos::from_millis;
    let bursts = (0..4).map(|n| s(n * 5_000 + 2_000)..s(n * 5_000 + 4_500)).collect();
    let neighbours = [
        ("polite", Habit::saturating(50, 1)),
        ("flood", Habit::saturating(0, 250)),
        ("huge", Habit { sectors: 2048, ..Habit::saturating(0, 32) }),
        ("writes", Habit { writes: 3, sync: false, ..Habit::saturating(0, 250) }),
        ("silent", Habit { active: bursts, ..Habit::saturating(0, 64) }),
        ("changes", Habit { locality: vec![(s(0), 100), (s(7_000), 75), (s(13_000), 0)], ..Habit::saturating(0, 32) }),
    ];
    let victims = [
        ("random x1", Habit::saturating(0, 1)),
        ("random x4", Habit::saturating(0, 4)),
        ("random x16", Habit::saturating(0, 16)),
        ("75% x8", Habit::saturating(75, 8)),
        ("100% x8", Habit::saturating(100, 8)),
        ("100% x32", Habit::saturating(100, 32)),
        ("thinks", Habit { think: s(15), ..Habit::saturating(25, 2) }),
    ];
    for (name, victim) in &victims {
        for (neighbour, habit) in &neighbours {
            let kept = &share(host, reference, "youchoose", &[victim.clone(), habit.clone()], 3, end)[0];
            assert!(kept.throughput >= 0.97, "{name} next to {neighbour}: {:.3} of its reference", kept.throughput);
            assert!(kept.missed <= 0.05, "{name} next to {neighbour}: {:.3} of its seconds missed", kept.missed);
        }
    }
}

#[test]
fn a_rare_reader_is_not_kept_by_a_disk_that_serves_the_nearest_first() {
    let (end, profile) = (Nanos::from_millis(60_000), load("sata7200").unwrap());
    let part = profile.capacity_sectors() / 8;
    let rarely = Arc::new(ConstantTime { request: Nanos::from_millis(50), sector: Nanos::ZERO });
    let tenants = vec![
        Tenant::new("rare").with_reference(rarely),
        Tenant::new("deep").with_reference(Arc::new(disk("raid0:disk=barracuda,disks=2,stripe_unit_kib=64"))),
    ];
    // Far from each other, so that the disk prefers the many requests of the one to a request of the other.
    let volumes = [0..part, 6 * part..7 * part];
    let roster = Roster::new(tenants, volumes.iter().cloned().zip(0..).collect(), &[], 1).unwrap();
    let habits = [Habit { think: Nanos::from_millis(400), ..Habit::saturating(0, 1) }, Habit::saturating(50, 24)];
    let asking: Vec<_> = habits.into_iter().zip(volumes).zip(5..).map(|((habit, volume), seed)| (habit, volume, seed)).collect();
    let responses = |scheduler: &str| {
        let (spec, values) = parse(scheduler).unwrap();
        let device = profile.build(DeviceOptions { queue_depth: Some(32), queue_policy: Some(QueuePolicy::Sstf) });
        let settings = QueueSettings::default();
        let mut queue = Queue::new((spec.build)(&settings.limits(), &values), device, settings);
        queue.set_roster(&roster);
        p99(&ask(&mut queue, &asking, end)[0])
    };
    let (ours, none) = (responses("youchoose"), responses("none"));
    assert!(none > 200.0, "{none} ms: the disk does not starve it by itself");
    assert!(ours < 150.0, "{ours} ms with 50 allowed, {none} without guarantees");
}
