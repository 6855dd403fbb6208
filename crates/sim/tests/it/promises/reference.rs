//! The shadow of a reference disk takes as long as the disk.

use block::tenants::ServiceModel;
use block::{Nanos, Priority, Request};

use crate::promises::disk;
use crate::promises::loops::{Habit, ask};

/// The mean time between completions of a tenant alone on the disk, and that of the shadow for the same requests.
fn both(profile: &str, habit: &Habit, seed: u64, end: Nanos) -> (f64, f64) {
    let disk = disk(profile);
    let mut queue = disk.queue();
    let sectors = 0..queue.capacity_sectors();
    queue.record_events();
    let answers = ask(&mut queue, &[(habit.clone(), sectors, seed)], end);
    let last = answers[0].last().unwrap().done;
    let alone = last.as_secs_f64() / answers[0].len() as f64;

    let mut notes = Vec::new();
    queue.take_events(&mut notes);
    let mut shadow = disk.begin();
    let (mut clock, mut asked) = (Nanos::ZERO, 0);
    for note in notes {
        let sim::run::ServerEvent::Issued(issue) = note else { continue };
        let sim::run::Issue { lba, sectors, op, sync, stream, .. } = issue;
        let request = Request { id: 0, stream, op, sync, priority: Priority::DEFAULT, sectors, lba, arrival: clock };
        clock += shadow.service_time(clock, &request, asked.min(habit.at_once - 1));
        asked += 1;
    }
    (alone, clock.as_secs_f64() / f64::from(asked))
}

#[test]
fn the_shadow_of_a_reference_disk_takes_as_long_as_the_disk() {
    for (profile, seconds) in [
        ("barracuda", 10.0),
        ("raid0:disk=barracuda,disks=2,stripe_unit_kib=4", 10.0),
        ("sata7200", 4.0),
        ("raid1:disk=atlas10k,disks=2", 10.0),
        ("ssd-dftl", 0.1),
    ] {
        for at_once in [1, 8, 32] {
            for locality in [0, 50, 100] {
                let habit = Habit::saturating(locality, at_once);
                // A full write cache and 32 reads settle on one of several rates for seconds: the same seed takes 3.3 or 4.2 ms a request.
                let runs: Vec<_> = (7..15).map(|seed| both(profile, &habit, seed, Nanos::from_secs_f64(seconds))).collect();
                let (alone, shadow) = runs.iter().fold((0.0, 0.0), |sum, run| (sum.0 + run.0 / 8.0, sum.1 + run.1 / 8.0));
                let ratio = shadow / alone;
                println!("{profile} at_once {at_once} locality {locality}: {:.3} ms, {ratio:.4}", alone * 1e3);
                assert!(
                    (0.97..1.03).contains(&ratio),
                    "{profile}, {at_once} at once, {locality}%: {shadow} s, and {alone} s alone"
                );
            }
        }
    }
}
