//! Reservations and limits on simulated disks.

use block::{Nanos, Rate, Rates};

use crate::tenants::{Asker, Pace, Pattern, run};

fn anywhere(sectors: u32) -> Pattern {
    Pattern::Random { from: 0, to: 1_000, sectors }
}

fn closed(depth: u32) -> Pace {
    Pace::Closed { depth, think: Nanos::ZERO }
}

#[test]
fn explore() {
    for device in [
        "/work/shared/cases/tenants/disks/sas10k.toml",
        "/work/shared/cases/tenants/disks/old7200.toml",
        "/work/shared/cases/tenants/disks/eco5400.toml",
        "/work/shared/cases/tenants/disks/satassd.toml",
        "/work/shared/cases/tenants/disks/r10x8.toml",
        "sata7200",
    ] {
        for (iops, depth, floods, weight) in
            [(0, 4, 1, 1), (60, 4, 1, 1), (60, 4, 3, 50), (100, 4, 1, 1), (50, 1, 1, 1), (120, 16, 3, 1), (300, 4, 1, 1)]
        {
            let rates = Rates { reservation: Rate::iops(iops), ..Rates::default() };
            let mut askers = vec![Asker { rates, ..Asker::reader(1, anywhere(16), closed(depth)) }];
            for _ in 0..floods {
                askers.push(Asker::reader(weight, anywhere(16), closed(128)));
            }
            let end = Nanos::from_millis(40_000);
            let outcome = run(device, "mclock", &askers, 1, end);
            let mut seconds = outcome.tenants[0].per_second(end, |_| 1);
            let mean = seconds.iter().sum::<u64>() as f64 / 40.0;
            let first = seconds[0];
            seconds.sort();
            let others: usize = outcome.tenants[1..].iter().map(|t| t.done.len()).sum();
            let low = seconds.iter().filter(|s| **s as f64 <= 0.95 * iops as f64).count();
            println!(
                "{:10} {iops} x{depth} w{weight}: mean {mean:.1} first {first} min {:?} low {low} others {:.0}",
                &device[device.len() - 12..],
                &seconds[..3],
                others as f64 / 40.0
            );
        }
    }
}
