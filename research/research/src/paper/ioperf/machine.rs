//! The machine of the paper, and the performance of access patterns on it.

use std::sync::Arc;

use block::Nanos;
use control::controller::{ControllerInput, Fixed};
use control::experience::{Experience, WINDOW};
use control::search::Space;
use control::search::ioperf::Pattern;
use control::{Controller, Setting, Window};
use observe::Preference;
use observe::performance::Performance;
use sim::host::HostSettings;
use sim::workload::random::Mix;
use testbed::chance;
use testbed::world::{Device, World};

use experiment::bench::{Bench, Observed};
use progress::monitor::Monitor;

/// See the setup of the page.
const DISK: &str = "sata7200@1";
const HOST: &str = "memory_mib=512,swap_mib=1024,anonymous_mib=128";
/// Host tunables in the chromosome.
const GENES_OF_HOST: [&str; 2] = ["read_ahead_kb", "swappiness"];
/// Initial seconds of a run that are excluded from results: files are opened, and the cache is empty.
pub const SETTLES_S: u64 = 10;

/// A kernel: its default scheduler, and those that it offers.
pub struct Kernel {
    /// The name on the page.
    pub name: &'static str,
    /// The default scheduler.
    pub found: &'static str,
    /// Its schedulers.
    pub schedulers: [&'static str; 4],
}

impl Kernel {
    /// Linux 2.6.29 as the paper describes it.
    pub const OF_THE_PAPER: Kernel =
        Kernel { name: "Linux 2.6.29", found: "anticipatory", schedulers: ["noop", "anticipatory", "deadline", "cfq"] };
    /// Linux of today.
    pub const OF_TODAY: Kernel =
        Kernel { name: "today’s Linux", found: "mq-deadline", schedulers: ["none", "mq-deadline", "kyber", "bfq"] };

    /// The default setting.
    ///
    /// # Errors
    /// None for the kernels defined here.
    pub fn default(&self) -> anyhow::Result<Setting> {
        Ok(Setting::parse(self.found)?)
    }

    /// The input of controllers.
    ///
    /// # Errors
    /// As [`default`](Kernel::default).
    pub fn brief(&self, seed: u64) -> anyhow::Result<ControllerInput> {
        self.brief_of(seed, Arc::default())
    }

    /// The input of controllers, with prior experience.
    ///
    /// # Errors
    /// As [`default`](Kernel::default).
    pub fn brief_of(&self, seed: u64, experience: Arc<Experience>) -> anyhow::Result<ControllerInput> {
        let candidates = self.schedulers.iter().map(|name| Setting::parse(name)).collect::<Result<_, _>>()?;
        Ok(ControllerInput { preference: preference()?, candidates, seed, experience, ..ControllerInput::default() })
    }

    /// The genes: the scheduler, its tunables if `tunes` is set, and the paper's host tunables.
    ///
    /// # Errors
    /// As [`default`](Kernel::default).
    pub fn space(&self, tunes: bool) -> anyhow::Result<Space> {
        let host = sim::host::TUNABLES.iter().filter(|tunable| GENES_OF_HOST.contains(&tunable.name));
        Ok(Space::new(&self.brief(0)?.candidates, tunes, host))
    }
}

/// Performance of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Got {
    /// Throughput of all processes in bytes per second.
    pub bytes_per_s: f64,
    /// Mean latency of their calls, in seconds.
    pub latency_s: f64,
    /// Mean latency of read calls, and of write calls, in seconds; `None` without any.
    pub read_s: Option<f64>,
    /// See `read_s`.
    pub write_s: Option<f64>,
    /// Share of the time that the device spent on seeks and rotation, 0 to 1; `None` if unknown.
    pub positioning: Option<f64>,
}

impl Got {
    /// Throughput gain over another result, in percent.
    pub fn gain_percent(&self, other: &Got) -> f64 {
        100.0 * (self.bytes_per_s / other.bytes_per_s - 1.0)
    }

    /// Increase in latency over another result, in percent.
    pub fn slower_percent(&self, other: &Got) -> f64 {
        100.0 * (self.latency_s / other.latency_s - 1.0)
    }
}

/// A random workload as in Table 1.
pub fn pattern(name: &str, seed: u64, number: usize) -> Pattern {
    let mut random = chance::source(name, seed, number as u32);
    let seed = rand::Rng::random::<u64>(&mut random);
    let drawn = sim::workload::random::mixes(seed).next();
    let drawn = drawn.unwrap_or(Mix { processes: 1, read_percent: 0, random_percent: 0, request_kib: 1 });
    let Mix { processes, read_percent, random_percent, request_kib } = drawn;
    Pattern { processes, read_percent, random_percent, request_kib }
}

fn job_file(pattern: &Pattern, seconds: u64) -> String {
    let Pattern { processes, read_percent, random_percent, request_kib } = pattern;
    let request_kib = request_kib.max(&1);
    format!(
        "[global]\nioengine=psync\nfadvise_hint=0\nrw=randrw\nrandrepeat=0\nfilename=mixes\nsize=1g\noffset_increment=1g\ntime_based\n\
         runtime={seconds}\n\n[mix]\nnumjobs={processes}\nrwmixread={read_percent}\npercentage_random={random_percent}\nbs={request_kib}k\n"
    )
}

/// The weights: the paper's fitness is bytes divided by latency, and does not consider fairness.
///
/// # Errors
/// None for these weights.
pub fn preference() -> anyhow::Result<Preference> {
    Ok(Preference::new(3, 3, 1)?)
}

/// The device identity under which knowledge of this machine is stored.
///
/// # Errors
/// None for this disk.
pub fn device() -> anyhow::Result<String> {
    Ok(world()?.device())
}

fn world() -> anyhow::Result<World> {
    Ok(World { host: HostSettings::parse(HOST)?, ..Device::parse(DISK)?.world()? })
}

/// A run of a pattern on the machine.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// The access pattern.
    pub pattern: &'a Pattern,
    /// The setting at the beginning.
    pub default: &'a Setting,
    /// Duration in seconds.
    pub seconds: u64,
    /// Seed of its requests.
    pub seed: u64,
}

impl Run<'_> {
    fn steered(&self, controller: Box<dyn Controller>, monitor: &dyn Monitor) -> anyhow::Result<Observed> {
        let Run { pattern, default, seconds, seed } = *self;
        // The kernels' schedulers do not learn.
        let bench = Bench::new(&job_file(pattern, seconds), &pattern.to_string(), world()?, seed)?.without_learning();
        bench.run(default, controller, false, monitor)
    }

    /// Runs the pattern under a constant setting, with windows suitable for experience.
    ///
    /// # Errors
    /// The work was interrupted.
    pub fn observe(&self, setting: &Setting, monitor: &dyn Monitor) -> anyhow::Result<Observed> {
        self.steered(Box::new(Fixed::new(setting.clone(), WINDOW)), monitor)
    }

    /// Performance of the pattern under a constant setting: the paper's Simulator.
    ///
    /// # Errors
    /// The work was interrupted.
    pub fn simulate(&self, setting: &Setting, monitor: &dyn Monitor) -> anyhow::Result<Got> {
        Ok(self.got(&self.observe(setting, monitor)?))
    }

    /// Performance of the pattern under the default, and the pattern as measured from its requests.
    ///
    /// # Errors
    /// The work was interrupted.
    pub fn simulate_default(&self, monitor: &dyn Monitor) -> anyhow::Result<(Got, Pattern)> {
        let observed = self.observe(self.default, monitor)?;
        let last = self.judged(&observed).last().map(|window| Pattern::of(&window.features));
        Ok((self.got(&observed), last.unwrap_or(*self.pattern)))
    }

    fn judged<'b>(&self, observed: &'b Observed) -> impl Iterator<Item = &'b Window> {
        let settles = Nanos::from_secs_f64(SETTLES_S.min(self.seconds / 3) as f64);
        observed.steered.steering().windows().iter().filter(move |window| window.from >= settles)
    }

    fn got(&self, observed: &Observed) -> Got {
        let served = Performance::of(self.judged(observed).map(|window| &window.outcome));
        let (tally, busy_s) = (observed.outcome.tally, observed.outcome.busy.as_secs_f64());
        let positioning_s = tally.seek.as_secs_f64() + tally.rotation.as_secs_f64();
        let measure = &observed.outcome.measure;
        let [read_s, write_s] = [&measure.reads, &measure.writes].map(|of| (of.count() > 0).then(|| of.mean().as_secs_f64()));
        let positioning = (busy_s > 0.0).then(|| (positioning_s / busy_s).min(1.0));
        match served {
            Some(served) => {
                Got { bytes_per_s: served.throughput.into(), latency_s: served.response_s.into(), read_s, write_s, positioning }
            }
            None => Got { bytes_per_s: 0.0, latency_s: f64::INFINITY, read_s, write_s, positioning: None },
        }
    }

    /// Runs a controller and returns the setting active at the end.
    ///
    /// # Errors
    /// The work was interrupted.
    pub fn steer(&self, controller: Box<dyn Controller>, monitor: &dyn Monitor) -> anyhow::Result<Setting> {
        let observed = self.steered(controller, monitor)?;
        Ok(observed.steered.steering().final_setting().unwrap_or_else(|| self.default.clone()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use twin::controller;

    use super::*;
    use progress::monitor::Quiet;

    #[test]
    fn what_no_scheduler_needs_to_know_changes_no_result_and_one_that_would_need_it_is_refused() {
        let pattern = Pattern { processes: 3, read_percent: 70, random_percent: 80, request_kib: 64 };
        let bench = || Bench::new(&job_file(&pattern, 4), "mix", world().unwrap(), 1).unwrap();
        let run = |bench: Bench, setting: &str| {
            let fixed = Fixed::new(Setting::parse(setting).unwrap(), WINDOW);
            let observed = bench.run(&Kernel::OF_THE_PAPER.default().unwrap(), Box::new(fixed), false, &Quiet::default()).unwrap();
            (format!("{:?}", observed.steered.steering().decisions()), observed.outcome.measure.all.mean())
        };
        assert_eq!(run(bench(), "cfq"), run(bench().without_learning(), "cfq"));
        let (learned, refused) = (run(bench(), "per-request"), run(bench().without_learning(), "per-request"));
        assert!(refused.0.contains("has no scheduler 'per-request'") && !learned.0.contains("has no scheduler"), "{refused:?}");
    }

    #[test]
    fn a_population_in_the_twin_gives_the_same_for_any_number_of_threads() {
        let pattern = Pattern { processes: 4, read_percent: 90, random_percent: 60, request_kib: 64 };
        let kernel = Kernel::OF_TODAY;
        let minutes = |threads, name: &str| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let controller = controller::parse(name).unwrap().build(&kernel.brief(3).unwrap());
                let run = Run { pattern: &pattern, default: &kernel.default().unwrap(), seconds: 12, seed: 1 };
                let observed = run.steered(controller, &Quiet::default()).unwrap();
                format!("{:?}", observed.steered.steering().decisions())
            })
        };
        for name in ["genetic:fitness=twin,trials=16", "bayes:fitness=twin,trials=12", "bayes:seeds=twin,trials=5"] {
            let one = minutes(1, name);
            assert!(one.contains("trials in the twin"), "{one}");
            assert_eq!(one, minutes(4, name));
            assert_eq!(one.contains("rank what is tried first") && one.contains("trial 1"), name.contains("seeds=twin"), "{one}");
        }
    }
}
