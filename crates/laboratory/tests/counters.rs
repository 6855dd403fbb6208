//! Whether promises that rest on counters alone are honest: beside what real runs gain, in the world for choices.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use laboratory::exam::counting::Counting;
use laboratory::monitor::Quiet;
use laboratory::pool::Crew;
use laboratory::worlds::Which;

#[test]
fn gains_lie_within_two_errors_of_what_counters_promise() {
    let seeds: u32 = std::env::var("SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let seed: u64 = std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let world = if std::env::var("WORLD").is_ok() { Which::Learn } else { Which::Build };
    let counting = Counting { seed, seeds, world, is_quick: true, candidates: Vec::new() };
    let report = counting.measure(Crew::new(&Quiet::default(), None)).unwrap();
    println!("{}", report.text(Some(150)));
    for asked in &report.asked {
        println!("{} / {} {:?} {:?} sims {}", asked.load, asked.in_force, asked.unanswered, asked.facts, asked.requests);
        for p in &asked.promised {
            println!(
                "   {:20} promised {:+.3} ± {:.3} requests {:+.3} processes {:+.3} starves {} {}",
                p.setting, p.gain, p.error, p.of_requests, p.of_processes, p.starves, p.starved
            );
        }
    }
}
