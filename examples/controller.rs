//! A controller of one's own, run on a simulated disk: it selects bfq while several streams are active.
//!
//! ```text
//! cargo run --release -p seekwise-experiment --example controller
//! ```
//! The same type can control a real block device: it sees windows and a `Target`, and knows no clock and no kernel.

use block::Nanos;
use control::{Controller, Decision, Setting, Target, Window, WindowLength};
use experiment::bench::Bench;
use progress::monitor::Quiet;
use testbed::world::World;

/// Selects bfq while several streams are active, else mq-deadline.
struct ByStreams;

impl Controller for ByStreams {
    fn name(&self) -> &'static str {
        "by-streams"
    }

    fn begin(&mut self, _now: Nanos, _target: &dyn Target) -> Decision {
        Decision::keep("no window yet")
    }

    fn window_length(&self) -> WindowLength {
        WindowLength { time: Some(Nanos::from_millis(1_000)), requests: None }
    }

    fn decide(&mut self, window: &Window, _target: &dyn Target) -> Decision {
        let streams = window.features.get("streams").unwrap_or(0.0);
        let name = if streams > 1.5 { "bfq" } else { "mq-deadline" };
        match Setting::parse(name) {
            Ok(setting) => Decision::set(setting, format!("{streams} streams")),
            Err(error) => Decision::keep(error.to_string()),
        }
    }
}

/// Two readers in order, of which the second begins after three seconds.
const JOBS: &str = "[global]\nrw=read\nbs=128k\nsize=1g\ndirect=1\ntime_based\nruntime=6\n[first]\n[second]\nstartdelay=3\n";

fn decisions() -> anyhow::Result<Vec<String>> {
    let bench = Bench::new(JOBS, "readers.fio", World::new("sata7200", None, None)?, 1)?;
    let original = Setting::parse("mq-deadline")?;
    let observed = bench.run(&original, Box::new(ByStreams), false, &Quiet::default())?;
    let decided = observed.steered.steering().decisions().iter();
    Ok(decided.map(|one| format!("{:.0} s: {}: {}", one.at.as_secs_f64(), one.to, one.why)).collect())
}

fn main() -> anyhow::Result<()> {
    for decision in decisions()? {
        println!("{decision}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_switches_to_bfq_once_the_second_reader_is_there() -> anyhow::Result<()> {
        let decisions = decisions()?;
        assert!(decisions[1].contains(": mq-deadline: 1 streams"), "{decisions:?}");
        assert!(decisions.iter().any(|text| text.contains(": bfq: 2 streams")), "{decisions:?}");
        Ok(())
    }
}
