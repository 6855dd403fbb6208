//! Our targets for this paper.

use crate::report::paper::Bar;

use super::runs::OURS;
use super::scenes::{HOSTS, LOCALITIES, Scene};
use super::sharing::{Kept, P99_PERCENT, Results, THROUGHPUT_PERCENT, VIOLATED_PERCENT};
use crate::paper::aims::{at_least, at_most};

/// Maximum throughput loss when a neighbour changes its load, in percent.
const LOSS_PERCENT: f64 = 3.0;

/// Targets for volumes that share a host.
pub fn sharing(results: &Results) -> Vec<Bar> {
    let (able, unable): (Vec<_>, Vec<_>) = results.hosts().into_iter().partition(|(_, needs)| *needs <= 1.0);
    let of = |of: &dyn Fn(&Kept) -> f64| {
        let mut values = Vec::new();
        for &(host, _) in &able {
            let kept = results.kept(Scene::Localities(host), OURS);
            for (number, locality) in LOCALITIES.iter().enumerate() {
                let value = kept.as_ref().map(|kept| of(&kept[number]));
                values.push((format!("{}, {locality}%", HOSTS[host].0), value));
            }
        }
        values
    };
    let unable: Vec<&str> = unable.iter().map(|(host, _)| HOSTS[*host].0).collect();
    let detail = if unable.is_empty() { String::new() } else { format!("; insufficient capacity: {}", unable.join(", ")) };
    let losses = [(Scene::Change, 1, "figure 8"), (Scene::Real, 0, "figure 9")];
    let losses = losses.map(|(scene, volume, name)| (name.to_owned(), results.loss_percent(scene, OURS, volume)));
    vec![
        at_least(
            "throughput",
            "throughput of a volume against its reference disk’s, worst locality and host",
            THROUGHPUT_PERCENT,
            of(&|kept| kept.throughput_percent),
            &detail,
        ),
        at_least(
            "windows",
            "windows of 1 s with at least 95% of the reference, worst locality and host",
            100.0 - VIOLATED_PERCENT,
            of(&|kept| 100.0 - kept.violated_percent[1]),
            &detail,
        ),
        at_most(
            "p99",
            "p99 response time against the reference disk’s, worst locality and host",
            P99_PERCENT,
            of(&|kept| kept.p99_percent),
            &detail,
        ),
        at_most("neighbour", "throughput that a volume loses when its neighbour changes", LOSS_PERCENT, losses.to_vec(), ""),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::super::runs::{OURS, Runs, UNDERS};
    use super::super::scenes::{HOSTS, Lengths};
    use super::*;

    /// Whether the targets for throughput, windows and p99 are met if `of` gives each volume's rate under youchoose.
    fn met(of: impl Fn(f64) -> f64) -> Vec<Option<bool>> {
        let runs = Runs::made_up(HOSTS.len(), &of);
        assert!(UNDERS[OURS].name == "youchoose");
        let results = Results { runs: &runs, lengths: Lengths::new(true) };
        sharing(&results).iter().map(|bar| bar.met).collect()
    }

    #[test]
    fn volumes_served_as_on_their_reference_disks_meet_the_bars_and_a_scheduler_that_serves_one_worse_misses_them() {
        assert_eq!(met(|rate| rate)[..3], [Some(true); 3]);
        // The slowest is served at half its rate.
        assert_eq!(met(|rate| if rate < 200.0 { rate / 2.0 } else { rate })[..3], [Some(false); 3]);
        assert_eq!(met(|rate| rate)[3], None, "a bar without a run is not met");
    }
}
