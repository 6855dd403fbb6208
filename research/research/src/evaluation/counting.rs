//! Accuracy of predictions that rest on counters alone, compared with the gains in real runs.
//!
//! ```text
//! question ─▶ run under each setting ─┬▶ counters, second by second ─▶ ensemble ─▶ promised ± error ──┐
//!                                     └▶ merit ───────────────────────────────────────────▶ gained ───┴▶ within two errors?
//! ```
//! Every setting with default tunables is the active one once, as the possible gain depends on the active scheduler.

use crate::report::counting::{Asked, Promised, Report, SCHEMA};
use block::Nanos;
use control::Setting;
use control::target::Bounds;
use observe::Preference;
use observe::counters::Sample;
use observe::starvation;
use observe::starvation::Tails;
use sim::run::{Pilot, ServerEvent, Steerable, Watch};
use testbed::pool::Workers;
use testbed::world::World;
use twin::ScoreBuckets;
use twin::counters::{Counted, Counter, Ensemble, Judges, Known};

use super::case::{self, EvaluationCase, Extent};
use crate::worlds::Which;
use experiment::bench::tails;
use experiment::comparison::regime;
use progress::monitor::Monitor;
use statistics::percent;

/// Interval at which counters are read.
const SAMPLED: Nanos = Nanos::from_millis(1_000);
/// Start-up of a load, which is excluded: all files are opened at once, and all queues and caches are empty.
const SETTLES: Nanos = Nanos::from_millis(2_000);

/// Parameters of the evaluation.
#[derive(Clone, Debug)]
pub struct Counting {
    /// The first seed; the others follow it.
    pub seed: u64,
    /// Number of seeds.
    pub seeds: u32,
    /// The world to draw from.
    pub world: Which,
    /// Whether to run fewer and shorter loads.
    pub is_quick: bool,
    /// The candidates, as in an evaluation.
    pub candidates: Vec<String>,
}

/// A run under one setting.
struct Ran {
    setting: Setting,
    samples: Vec<Sample>,
    slots: ScoreBuckets,
    tails: Tails,
    ended: Nanos,
    bounds: Bounds,
}

impl Counting {
    /// Runs every load under every setting, and makes predictions from the counters.
    ///
    /// # Errors
    /// A run fails, or the work was interrupted.
    pub fn measure(&self, workers: Workers) -> anyhow::Result<Report> {
        let extent = Extent::new(self.is_quick, Vec::new());
        let questions = case::draw_all(self.world.purpose()?, &extent, self.seed, self.seeds, workers)?;
        let candidates = regime::candidates(&self.candidates)?;
        let asked = workers.map("forecasts from counters, loads:", &questions, |(_, question)| {
            let runs = candidates
                .iter()
                .map(|setting| Ran::of(question, setting, workers.monitor))
                .collect::<anyhow::Result<Vec<Ran>>>()?;
            let found = runs.iter().filter(|ran| ran.setting == Setting::of(ran.setting.spec));
            found
                .map(|ran| workers.monitor.check().map_err(Into::into).map(|()| ran.asked(question, &runs, &candidates)))
                .collect::<anyhow::Result<Vec<Asked>>>()
        })?;
        Ok(Report {
            schema: SCHEMA,
            seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.command(),
            world: self.world.about().to_owned(),
            loads: questions.len() as u64,
            asked: asked.into_iter().flatten().collect(),
        })
    }

    fn command(&self) -> String {
        let flags = [self.world.flag(), self.is_quick.then_some("--quick")].into_iter().flatten().map(str::to_owned);
        let candidates = self.candidates.iter().map(|candidates| format!("--candidates \"{candidates}\""));
        let numbers = [format!("--seed {} --seeds {}", self.seed, self.seeds)];
        let words: Vec<String> = numbers.into_iter().chain(flags).chain(candidates).collect();
        format!("seekwise-lab counters {}", words.join(" "))
    }
}

/// The facts that sysfs would provide about the device.
fn known(world: &World, bounds: Bounds) -> Known {
    let device = world.profile.build(world.device);
    Known {
        bounds,
        rotational: Some(world.profile.device().rotational()),
        depth: u32::try_from(device.queue_depth()).ok(),
        write_cache: Some(device.has_write_cache()),
    }
}

impl Ran {
    fn of(question: &EvaluationCase, setting: &Setting, monitor: &dyn Monitor) -> anyhow::Result<Ran> {
        let world = &question.world;
        let queue = world.queue(world.scheduler(setting));
        let mut recorder = Recorder::default();
        let watch = Watch { stop: Some(monitor.stop()), ..Watch::default() };
        let ran = question.load.run(queue, world.host, &watch, Some(&mut recorder));
        monitor.check()?;
        let measure = ran?.measure;
        let ended = measure.last_completion;
        recorder.slots.until(ended);
        let Recorder { samples, slots, bounds, .. } = recorder;
        let bounds = Bounds {
            capacity_sectors: world.profile.capacity_sectors(),
            ..bounds.unwrap_or(Bounds {
                capacity_sectors: 0,
                limits: world.host.queue().limits(),
                nr_requests: world.host.queue().nr_requests,
                read_ahead_kib: None,
            })
        };
        Ok(Ran { setting: setting.clone(), samples, slots, tails: tails(measure.streams.iter()), ended, bounds })
    }

    /// Predictions from the counters of this run, and the true gains.
    fn asked(&self, question: &EvaluationCase, runs: &[Ran], candidates: &[Setting]) -> Asked {
        let preference = Preference::default();
        let mut asked = Asked { load: question.name.clone(), in_force: self.setting.to_string(), ..Asked::default() };
        let from = self.samples.partition_point(|sample| sample.at < SETTLES);
        let counted = match Counted::of(&self.samples[from..]) {
            Ok(counted) => counted,
            Err(error) => return Asked { unanswered: Some(error.to_string()), ..asked },
        };
        let known = known(&question.world, self.bounds);
        let mut ensemble = Ensemble::new(&counted, &known, &self.setting, 1);
        while !ensemble.is_done() {
            ensemble.round();
        }
        let judges = Judges { counted: &counted, known: &known, active: &self.setting, candidates, preference };
        let judgement = match judges.judge(&ensemble) {
            Ok(judgement) => judgement,
            Err(error) => return Asked { unanswered: Some(error.to_string()), ..asked },
        };
        asked.requests = judgement.requests;
        asked.facts = judgement.facts.clone();
        asked.advised = judgement.sure(&self.setting).map(|promise| promise.setting.to_string());
        for promise in judgement.predictions.iter().filter(|promise| promise.setting != self.setting) {
            let Some(ran) = runs.iter().find(|ran| ran.setting == promise.setting) else { continue };
            let gain = |of: fn(&Ran) -> Option<observe::performance::Performance>| {
                let score = |ran| Some(of(ran)?.score(&preference));
                Some(score(ran)? - score(self)?).filter(|gain| gain.is_finite())
            };
            let (Some(of_requests), Some(of_processes)) = (gain(Ran::requests), gain(Ran::served)) else { continue };
            asked.promised.push(Promised {
                setting: promise.setting.to_string(),
                gain: promise.gain,
                error: promise.error,
                starves: promise.starves(),
                of_requests,
                of_processes,
                starved: starvation::starves(&ran.tails, &self.tails),
                gained_percent: percent(of_requests),
            });
        }
        asked
    }

    fn requests(&self) -> Option<observe::performance::Performance> {
        self.slots.requests(SETTLES.as_secs_f64(), self.ended.as_secs_f64())
    }

    fn served(&self) -> Option<observe::performance::Performance> {
        self.slots.served(SETTLES.as_secs_f64(), self.ended.as_secs_f64())
    }
}

/// Samples counters as the kernel provides them.
struct Recorder {
    counter: Counter,
    samples: Vec<Sample>,
    slots: ScoreBuckets,
    bounds: Option<Bounds>,
    next: Nanos,
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder { counter: Counter::new(u32::MAX), samples: Vec::new(), slots: ScoreBuckets::new(), bounds: None, next: SAMPLED }
    }
}

impl Pilot for Recorder {
    fn begin(&mut self, plant: &mut dyn Steerable) {
        let limits = plant.limits();
        self.counter = Counter::new(limits.max_sectors);
        self.bounds = Some(Bounds { capacity_sectors: 0, limits, nr_requests: plant.nr_requests(), read_ahead_kib: None });
    }

    fn events(&mut self, noted: &[ServerEvent]) {
        for event in noted.iter().map(twin::event) {
            while event.at() >= self.next {
                self.samples.push(self.counter.sample(self.next));
                self.next += SAMPLED;
            }
            self.counter.event(&event);
            self.slots.event(&event);
        }
    }
}
