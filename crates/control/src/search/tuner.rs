//! The controller that runs a search on a plant.
//!
//! ```text
//!            ┌───────────── another load ◀────────────────────────────────┐
//!            ▼                                                            │
//!  watching: what was found, for some seconds ──▶ trying ──▶ verifying ──▶ keeping
//!   fingerprint, pattern, yardstick │        a window each,   in turns     the better
//!                                   │        or in the twin      ▲
//!                                   └─ what is known to serve ───┘
//! ```
//! * *Watching* gives the load's fingerprint. What was kept for a load like it in this run is in force at once; of one that was met in vain, or
//!   is in the knowledge base, the gene pool is re-introduced: the search begins with what served that one.
//! * *What is known* comes first. What served the loads that are known of this device better than what was found, the nearer a load the more
//!   it tells, is verified before anything is tried at random: of what many trials taught, a few turns are enough to see it is no worse here.
//! * *Trying.* Each genome serves the plant for a window; or the twin says how it would serve. Both cost the same number of trials. Where
//!   trials on the plant are few, the twin ranks first: what it finds best of each scheduler is tried first.
//! * *Verifying.* The best of many noisy trials is rarely as good as it looked. It and what was found serve in turns, and it stays only if
//!   it is better by more than chance; else the next best has its turn, and in the end what was found stays.
//!   What the twin chose is put in force and compared with what was watched: where it is not clearly better, what was found is back at once.
//! * *Keeping.* The windows are followed until they show another load. Where they come to be worse than what was found was, turns tell
//!   again, and have to refute what is known by then.
//!
//! With no end set to trials, children live and die for ever and nothing is verified, as in the genetic library.

use std::collections::VecDeque;
use std::sync::Arc;

use block::Nanos;

use super::duel::{Challenger, Duel, Estimate, LEAST_GAIN, SURE, Verdict, percent};
use super::fingerprint::{Calls, Fingerprint};
use super::ioperf::Pattern;
use super::{Genome, Rehearsal, Search, Space, Start};
use crate::controller::{Brief, Evidence, Promise};
use crate::experience::{Experience, GenePool};
use crate::setting::Setting;
use crate::{Controller, Decision, Target};
use crate::{Extent, Window};
use observe::Event;
use observe::description::describe;
use observe::merit;
use observe::preference::Preference;
use observe::served::Rated;
use observe::served::Served;
use observe::similarity::{ANOTHER, Columns, NOWHERE, Point, approach, load_distance};
use observe::watched::WatchedLoad;

/// Length of a window while nothing is tried.
const LOOK: Nanos = Nanos::from_millis(1_000);
/// Windows that are watched before a search, without the first, which another load or setting may reach into.
const WATCHED: usize = 4;
/// The same before a search in the twin, which has nothing else of what was found to compare with.
const WATCHED_FOR_TWIN: usize = 8;
/// As many more, at most, where the twin has seen too little.
const WATCHED_LONGER: usize = 8;
/// After a change nothing is judged for so long: queues are served, and what was written and not yet on the device grows or shrinks to what
/// it will be. A setting that lets writes wait looks good until memory has no more room for them.
const SETTLES: Nanos = Nanos::from_millis(4_000);
/// Windows that prove what the twin chose.
const PROVED: usize = 8;
/// What is kept is compared with what was found after so many windows, and again after twice as many.
const CHECKED: usize = 16;
/// Settings that are verified, one after the other, until one is better than what was found.
const CHALLENGERS: usize = 2;
/// Gene pools of a run that are kept.
const MOST_POOLS: usize = 64;
/// Settings of a pool, or of known loads, that a search begins with.
const MOST_SEEDS: usize = 4;
/// Trials in the twin that rank what a search on the plant begins with.
const RANKED: u32 = 64;
/// As many of that ranking begin it: a small population.
const MOST_RANKED: usize = 7;
/// Trials that are shown.
const SHOWN: usize = 8;

/// Makes a search.
pub type Make = Box<dyn Fn(Start) -> Box<dyn Search> + Send>;

/// What a search asks a rehearsal for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// How well settings serve: nothing is tried on the plant.
    Fitness,
    /// What to try first on the plant.
    Ranking,
}

/// How a search is run.
pub struct Rules {
    /// The controller's name.
    pub name: &'static str,
    /// How long a genome serves the plant.
    pub child: Nanos,
    /// Trials until the best is verified; 0 searches for ever.
    pub trials: u32,
    /// Whether tunables of schedulers are genes.
    pub tunes: bool,
    /// The tunables of the host that are genes.
    pub host: &'static [&'static str],
    /// How long a turn of a verification is judged; a change settles for two thirds of that, but not longer than [`SETTLES`].
    pub turn: Nanos,
    /// What a rehearsal is asked for, if there is one.
    pub asks: Asks,
    /// Makes the search.
    pub make: Make,
}

/// What was found serves so.
#[derive(Clone, Debug)]
struct Yardstick {
    rated: Rated,
    /// The load's fingerprint, and where its requests lie among known cases.
    point: Point,
    among_cases: Point,
    /// The last window's fingerprint as a row, for the gene pool.
    row: Vec<f64>,
    pattern: Pattern,
    /// Its windows' scores: how many, their mean and its standard error.
    scores: Estimate,
    /// The longest wait in seconds, and the least number of streams that asked in a window.
    longest_s: f64,
    streams: f64,
}

/// A load of this run, and what was found to serve it better than what was found in force, by so much.
#[derive(Clone, Debug)]
struct Met {
    point: Point,
    setting: Setting,
    gain: Estimate,
}

enum Phase {
    Watching(Vec<(Window, Option<Fingerprint>)>),
    /// `is_settling`: the window holds the time that the twin took to rank.
    Trying {
        search: Box<dyn Search>,
        batch: Vec<Genome>,
        rated: Vec<Option<Rated>>,
        spent: u32,
        is_settling: bool,
    },
    Proving {
        best: Setting,
        windows: Vec<Window>,
        is_settling: bool,
    },
    Verifying(Duel),
    Keeping(Kept),
}

/// A load that something better is searched for: when it was watched, and what it asks.
#[derive(Clone, Copy, Debug)]
struct Quarry {
    span: (Nanos, Nanos),
    pattern: Pattern,
}

/// What serves a load after its search.
struct Kept {
    load: WatchedLoad,
    is_settling: bool,
    /// By how much turns have just shown it to be better: what was found would have that much less than the first windows have.
    proved: Option<f64>,
    /// The windows since it was compared with what was found, and how many there are to be before it is again.
    windows: Vec<Window>,
    checked: usize,
}

/// Runs a search on a plant.
pub struct Tuner {
    rules: Rules,
    preference: Preference,
    candidates: Vec<Setting>,
    experience: Arc<Experience>,
    seed: u64,
    rehearsal: Option<Box<dyn Rehearsal>>,
    phase: Phase,
    calls: Calls,
    found: Setting,
    /// What serves the load now, and by how much it is known to be better than what was found, if it is anything else.
    kept: Option<(Setting, Option<Estimate>)>,
    space: Option<Space>,
    yardstick: Option<Yardstick>,
    /// Every trial of the load, in order.
    tried: Vec<(Setting, Rated)>,
    challengers: VecDeque<Challenger>,
    /// What is to be searched for, until that is begun.
    to_search: Option<Quarry>,
    pools: Vec<GenePool>,
    met: Vec<Met>,
    loads: u64,
    began: Nanos,
    /// What the search said of itself last.
    facts: Vec<(String, String)>,
    was_refused: bool,
}

impl Tuner {
    /// Searches as `rules` say, among the schedulers of the brief's candidates; in `rehearsal` if there is one.
    pub fn new(brief: &Brief, rules: Rules, rehearsal: Option<Box<dyn Rehearsal>>) -> Tuner {
        Tuner {
            rules,
            preference: brief.preference,
            candidates: brief.candidates.clone(),
            experience: brief.experience.clone(),
            seed: brief.seed,
            rehearsal,
            phase: Phase::Watching(Vec::new()),
            calls: Calls::default(),
            // What is in force is read when it begins.
            found: Setting::of(block::ALL[0]),
            kept: None,
            space: None,
            yardstick: None,
            tried: Vec::new(),
            challengers: VecDeque::new(),
            to_search: None,
            pools: Vec::new(),
            met: Vec::new(),
            loads: 0,
            began: Nanos::ZERO,
            facts: Vec::new(),
            was_refused: false,
        }
    }

    fn settles(&self) -> Nanos {
        SETTLES.min(Nanos(self.rules.turn.0 / 3 * 2))
    }

    fn space(&self, plant: &dyn Target, is_rehearsed: bool) -> Space {
        let can_try = |name: &str| !is_rehearsed || self.rehearsal.as_ref().is_some_and(|rehearsal| rehearsal.can_try(name));
        let wanted = |name: &str| self.rules.host.contains(&name) && can_try(name);
        let candidates: Vec<Setting> = std::iter::once(&self.found).chain(&self.candidates).cloned().collect();
        Space::of(plant, &candidates, self.rules.tunes, wanted)
    }

    /// How a window served, judged beside the yardstick; `None` if nothing was done in it.
    fn rate(&self, windows: &[Window]) -> Option<Rated> {
        let served = Served::of(windows.iter().map(|window| &window.outcome))?;
        let by_bound = self.yardstick.as_ref().map_or(0.0, |yardstick| {
            let longest_s = windows.iter().map(|window| window.outcome.max_response_s).fold(0.0, f64::max);
            let streams = windows.iter().map(streams).fold(f64::INFINITY, f64::min);
            let is_silent = streams <= yardstick.streams - 1.0 && yardstick.streams.is_finite();
            let waited = longest_s / merit::bound_s(yardstick.longest_s);
            // A stream that asks for nothing while others are served waits for what it asked for before.
            if is_silent { waited.max(f64::from(1_u8) + f64::EPSILON) } else { waited }
        });
        Some(Rated { served, by_bound })
    }

    fn watched(&self, windows: &[(Window, Option<Fingerprint>)]) -> Option<Yardstick> {
        let judged = windows.get(1..)?;
        let outcomes = || judged.iter().map(|(window, _)| &window.outcome);
        let served = Served::of(outcomes())?;
        let (last, _) = judged.last()?;
        let (mut point, mut among_cases, mut known) = (NOWHERE, NOWHERE, 0.0);
        for (number, (window, fingerprint)) in judged.iter().enumerate() {
            let row = describe(&window.features, &window.outcome);
            let of_requests = Columns::described().point(|column| row.get(column).copied());
            if let Some(fingerprint) = fingerprint {
                known += 1.0;
                approach(&mut point, &fingerprint.point, 1.0, known);
            }
            approach(&mut among_cases, &of_requests, 1.0, number as f64 + 1.0);
        }
        Some(Yardstick {
            rated: Rated { served, by_bound: 0.0 },
            point,
            among_cases,
            row: judged.iter().rev().find_map(|(_, fingerprint)| Some(fingerprint.as_ref()?.row.clone())).unwrap_or_default(),
            pattern: Pattern::of(&last.features),
            longest_s: outcomes().map(|outcome| outcome.max_response_s).fold(0.0, f64::max),
            scores: Estimate::of(judged.iter().map(|(window, _)| window), &self.preference)?,
            streams: judged.iter().map(|(window, _)| streams(window)).fold(f64::INFINITY, f64::min),
        })
    }

    /// The genomes that a search begins with: what was found, what served loads like this one, the candidates.
    fn seeds(&self, space: &Space, device: &str) -> (Vec<Genome>, Option<String>) {
        let mut seeds: Vec<Genome> = space.genome(&self.found).into_iter().collect();
        let mut add = |setting: &Setting| {
            let genome = space.genome(setting).filter(|genome| !seeds.contains(genome));
            let is_new = genome.is_some();
            seeds.extend(genome);
            is_new
        };
        let point = self.yardstick.as_ref().map_or(NOWHERE, |yardstick| yardstick.point);
        let pools = self.pools.iter().chain(&self.experience.pools);
        let near = pools.filter_map(|pool| Some((pool.distance(device, &self.found, &point)?, pool)));
        let nearest = near.filter(|(apart, _)| *apart < ANOTHER).min_by(|a, b| a.0.total_cmp(&b.0));
        let mut said = None;
        if let Some((_, pool)) = nearest {
            let count = pool.settings().filter(|setting| add(setting)).take(MOST_SEEDS).count();
            said = Some(format!("a load like one that was met before: {count} of its gene pool are re-introduced"));
        }
        let among_cases = self.yardstick.as_ref().map_or(NOWHERE, |yardstick| yardstick.among_cases);
        let known = self.known(device, &among_cases);
        known.iter().filter(|setting| add(setting)).take(MOST_SEEDS).for_each(drop);
        self.candidates.iter().for_each(|setting| {
            add(setting);
        });
        (seeds, said)
    }

    /// The cases of this device: how far each is from a load, the setting under which it was seen, and the gains over that of all settings.
    fn lived(&self, device: &str, point: &Point) -> impl Iterator<Item = (f64, usize, Vec<Option<f64>>)> {
        let columns = Columns::of(&self.experience.features);
        self.experience.cases.iter().filter(move |case| case.device == device).filter_map(move |case| {
            let theirs = columns.point(|column| case.features.get(column).copied().flatten().map(f64::from));
            let ranked = case.ranked(&self.preference);
            let under = ranked.get(case.under).copied().flatten()?;
            let gains = ranked.into_iter().map(|score| Some(score? - under)).collect();
            Some((load_distance(&theirs, point), case.under, gains))
        })
    }

    /// What served known loads like this one best, of the cases of this device.
    fn known(&self, device: &str, point: &Point) -> Vec<Setting> {
        let mut known: Vec<(f64, &String)> = Vec::new();
        for (_, _, gains) in self.lived(device, point).filter(|(apart, ..)| *apart < ANOTHER) {
            let named = self.experience.settings.iter().zip(gains).filter_map(|(name, gain)| Some((gain?, name)));
            known.extend(named.filter(|(gain, _)| *gain > merit::TOLERANCE));
        }
        known.sort_by(|a, b| b.0.total_cmp(&a.0));
        known.into_iter().filter_map(|(_, name)| Setting::parse(name).ok()).collect()
    }

    /// What served the known loads of this device better than what was found did, the most promising first: the best of each scheduler, then
    /// the second best of each. The nearer a load is, the more it tells; but each tells of the device.
    fn expected(&self, device: &str, point: &Point) -> Vec<Challenger> {
        let found = self.found.to_string();
        let mut known: Vec<Vec<(f64, f64)>> = vec![Vec::new(); self.experience.settings.len()];
        for (apart, under, gains) in self.lived(device, point) {
            if self.experience.settings.get(under) == Some(&found) {
                let weight = (1.0 + apart / ANOTHER).recip();
                known.iter_mut().zip(gains).for_each(|(known, gain)| known.extend(gain.map(|gain| (weight, gain))));
            }
        }
        let named = self.experience.settings.iter().zip(&known).filter(|(name, _)| **name != found);
        let expected = named.filter_map(|(name, known)| Some((Setting::parse(name).ok()?, Estimate::expected(known)?)));
        let mut better: Vec<(Setting, Estimate)> = expected.filter(|(_, gain)| gain.mean > LEAST_GAIN).collect();
        better.sort_by(|a, b| b.1.mean.total_cmp(&a.1.mean));
        let ranking: Vec<Setting> = better.iter().map(|(setting, _)| setting.clone()).collect();
        let gain = |setting: &Setting| better.iter().find(|(other, _)| other == setting).map(|(_, gain)| *gain);
        let first = best_of_each_scheduler_first(&ranking).take(CHALLENGERS);
        first.map(|setting| Challenger { setting: setting.clone(), expected: gain(setting) }).collect()
    }

    /// Begins to find what serves the load that was watched.
    fn find(&mut self, windows: Vec<(Window, Option<Fingerprint>)>, now: Nanos, plant: &dyn Target) -> Decision {
        let Some(yardstick) = self.watched(&windows) else {
            self.phase = Phase::Watching(Vec::new());
            return Decision::keep("nothing was done");
        };
        let (point, among_cases, pattern) = (yardstick.point, yardstick.among_cases, yardstick.pattern);
        self.tried = vec![(self.found.clone(), yardstick.rated)];
        self.yardstick = Some(yardstick);
        let near = self.met.iter().map(|met| (load_distance(&met.point, &point), met)).filter(|(apart, _)| *apart < ANOTHER);
        if let Some((_, Met { setting, gain, .. })) = near.min_by(|a, b| a.0.total_cmp(&b.0)) {
            let (setting, gain) = (setting.clone(), *gain);
            let why = format!("a load that was met before, which {setting} served better");
            return self.keep(setting, Some(gain), why);
        }
        let quarry = Quarry { span: (windows[1].0.from, now), pattern };
        self.to_search = Some(quarry);
        self.challengers = self.expected(&plant.identity().device, &among_cases).into();
        if self.challengers.is_empty() {
            self.search(quarry, Some(windows), plant)
        } else {
            self.next_challenger("what served other loads of this device".to_owned(), plant)
        }
    }

    /// Begins to search. Of windows that are still at hand the twin may ask for more.
    fn search(&mut self, quarry: Quarry, windows: Option<Vec<(Window, Option<Fingerprint>)>>, plant: &dyn Target) -> Decision {
        let Quarry { span, pattern } = quarry;
        self.to_search = None;
        let mut said = None;
        if let Some(rehearsal) = &mut self.rehearsal {
            match rehearsal.prepare(span, &self.found, plant) {
                Ok(facts) if self.rules.asks == Asks::Ranking => return self.rank(facts, pattern, plant),
                Ok(facts) => return self.rehearse(facts, pattern, plant),
                Err(reason) => {
                    if let Some(windows) = windows.filter(|windows| windows.len() < WATCHED_FOR_TWIN + WATCHED_LONGER) {
                        self.phase = Phase::Watching(windows);
                        return Decision::keep(format!("the twin cannot tell yet: {reason}"));
                    }
                    said = Some(format!("the twin cannot tell ({reason}): tried on the plant"));
                }
            }
        }
        let space = self.space(plant, false);
        let (seeds, known) = self.seeds(&space, &plant.identity().device);
        self.begin_trials(space, seeds, pattern);
        self.next_trial(said.or(known).unwrap_or_else(|| "a load that is not known".to_owned()), plant)
    }

    fn start(&self, space: &Space, seeds: Vec<Genome>, pattern: Pattern) -> Box<dyn Search> {
        let seed = self.seed.wrapping_add(self.loads);
        (self.rules.make)(Start { space, seeds, preference: self.preference, pattern, seed })
    }

    fn begin_trials(&mut self, space: Space, seeds: Vec<Genome>, pattern: Pattern) {
        let mut search = self.start(&space, seeds, pattern);
        let batch = search.ask();
        self.space = Some(space);
        self.phase = Phase::Trying { search, batch, rated: Vec::new(), spent: 0, is_settling: false };
    }

    /// All of the search at once, in the twin.
    fn rehearse(&mut self, facts: Vec<(String, String)>, pattern: Pattern, plant: &dyn Target) -> Decision {
        let (known, spent) = self.search_in_twin(facts, pattern, plant, self.rules.trials.max(1));
        let said = known.map_or(String::new(), |known| format!("{known}; "));
        self.prove(format!("{said}{spent} trials in the twin"), plant)
    }

    /// A search in the twin: what it tried is in `tried`. What was known of the load, and how many trials there were.
    fn search_in_twin(
        &mut self,
        facts: Vec<(String, String)>,
        pattern: Pattern,
        plant: &dyn Target,
        trials: u32,
    ) -> (Option<String>, u32) {
        let space = self.space(plant, true);
        let (seeds, known) = self.seeds(&space, &plant.identity().device);
        let mut search = self.start(&space, seeds, pattern);
        let mut tried: Vec<(Setting, Rated)> = Vec::new();
        let mut spent = 0;
        while spent < trials {
            let batch = search.ask();
            if batch.is_empty() {
                break;
            }
            let settings: Vec<Setting> = batch.iter().map(|genome| space.setting(genome)).collect();
            let rated = self.rehearsal.as_mut().map_or_else(Vec::new, |rehearsal| rehearsal.rate(&settings));
            search.tell(&rated);
            spent += batch.len() as u32;
            tried.extend(settings.into_iter().zip(rated).filter_map(|(setting, rated)| Some((setting, rated?))));
        }
        self.facts = facts.into_iter().chain(search.facts()).collect();
        self.tried = tried;
        self.space = Some(space);
        (known, spent)
    }

    /// The twin ranks what the search on the plant begins with.
    fn rank(&mut self, facts: Vec<(String, String)>, pattern: Pattern, plant: &dyn Target) -> Decision {
        let (_, spent) = self.search_in_twin(facts, pattern, plant, RANKED);
        let ranking: Vec<Setting> = self.ranking().into_iter().map(|(setting, ..)| setting.clone()).collect();
        let evidence = self.evidence();
        let space = self.space(plant, false);
        let found = space.genome(&self.found);
        let best = best_of_each_scheduler_first(&ranking).filter(|setting| **setting != self.found);
        let seeds = found.into_iter().chain(best.filter_map(|setting| space.genome(setting)).take(MOST_RANKED)).collect();
        self.tried.clear();
        self.begin_trials(space, seeds, pattern);
        if let Phase::Trying { is_settling, .. } = &mut self.phase {
            *is_settling = true;
        }
        Decision::keep(format!("{spent} trials in the twin rank what is tried first")).resting_on(evidence)
    }

    /// The twin's best is put in force at once, to be compared with what was watched: one change in place of many turns.
    fn prove(&mut self, said: String, plant: &dyn Target) -> Decision {
        let evidence = self.evidence();
        self.find_challengers();
        match self.challengers.pop_front() {
            Some(Challenger { setting: best, .. }) => {
                self.phase = Phase::Proving { best: best.clone(), windows: Vec::new(), is_settling: true };
                Decision::set(best, said)
            }
            None => self.next_challenger(said, plant),
        }
        .resting_on(evidence)
    }

    /// A window of what the twin chose.
    fn proved(&mut self, window: &Window, plant: &dyn Target) -> Decision {
        let Phase::Proving { best, windows, is_settling } = &mut self.phase else { return Decision::keep("") };
        if std::mem::take(is_settling) {
            return Decision::keep("what was queued and written before settles");
        }
        windows.push(window.clone());
        if windows.len() < PROVED {
            return Decision::keep("proving");
        }
        let (best, windows) = (best.clone(), std::mem::take(windows));
        if self.rate(&windows).is_none_or(|rated| rated.starves()) {
            return self.next_challenger(format!("a stream starves under {best}"), plant);
        }
        let now = Estimate::of(windows.iter(), &self.preference);
        let gain = now.zip(self.yardstick.as_ref()).map(|(now, yardstick)| now.over(&yardstick.scores));
        let Some(Estimate { mean: gain, error }) = gain else {
            return self.next_challenger(format!("{best}: nothing was done"), plant);
        };
        let came = format!("{best} is {} than {} was, give or take {:.0}%", percent(gain), self.found, 100.0 * error);
        if gain > LEAST_GAIN.max(SURE * error) {
            return self.keep(best, Some(Estimate { mean: gain, error }), format!("{came}: it stays"));
        }
        // Turns would keep the load from settling for minutes, for a gain that is small if it is one.
        self.keep(self.found.clone(), None, format!("{came}; {} stays", self.found))
    }

    /// The next genome's turn.
    fn next_trial(&mut self, said: String, plant: &dyn Target) -> Decision {
        let Phase::Trying { batch, rated, spent, .. } = &self.phase else { return Decision::keep(said) };
        let next = self.space.as_ref().zip(batch.get(rated.len())).map(|(space, genome)| space.setting(genome));
        match next {
            Some(setting) => Decision::set(setting, format!("{said}; trial {}", spent + 1)),
            None => self.challenge(said, plant),
        }
    }

    /// A trial is over.
    fn tried(&mut self, window: &Window, fingerprint: Option<&Fingerprint>, plant: &dyn Target) -> Decision {
        let result = if self.was_refused { None } else { self.rate(std::slice::from_ref(window)) };
        let is_found = *window.setting == self.found && !self.was_refused;
        self.was_refused = false;
        if is_found && self.is_another(fingerprint) {
            return self.watch_anew(window.to, plant, "another load: its gene pool is kept");
        }
        let setting = (*window.setting).clone();
        self.tried.extend(result.map(|rated| (setting.clone(), rated)));
        let said = match result {
            Some(rated) => format!("{setting}: {}", text(&rated)),
            None => format!("{setting}: nothing was done"),
        };
        let Phase::Trying { search, batch, rated, spent, .. } = &mut self.phase else { return Decision::keep(said) };
        rated.push(result);
        *spent += 1;
        if rated.len() == batch.len() {
            search.tell(&std::mem::take(rated));
            self.facts = search.facts();
            *batch = search.ask();
        }
        if self.rules.trials > 0 && *spent >= self.rules.trials {
            return self.challenge(said, plant).resting_on(self.evidence());
        }
        let is_new_batch = rated.is_empty();
        let decision = self.next_trial(said, plant);
        if is_new_batch { decision.resting_on(self.evidence()) } else { decision }
    }

    /// Whether a window under what was found shows another load than the one that was watched. The first that shows enough is its
    /// fingerprint, if what was watched did not.
    fn is_another(&mut self, fingerprint: Option<&Fingerprint>) -> bool {
        let Some((yardstick, fingerprint)) = self.yardstick.as_mut().zip(fingerprint) else { return false };
        if yardstick.row.is_empty() {
            (yardstick.point, yardstick.row) = (fingerprint.point, fingerprint.row.clone());
        }
        load_distance(&yardstick.point, &fingerprint.point) >= 2.0 * ANOTHER
    }

    /// The settings that were tried, each with its mean score and how often it was, the best first.
    fn ranking(&self) -> Vec<(&Setting, Rated, f64, usize)> {
        let mut ranking: Vec<(&Setting, Rated, f64, usize)> = Vec::new();
        for (setting, rated) in &self.tried {
            let score = rated.score(&self.preference);
            match ranking.iter_mut().find(|(known, ..)| *known == setting) {
                Some((_, _, mean, count)) => {
                    *count += 1;
                    *mean += (score - *mean) / *count as f64;
                }
                None => ranking.push((setting, *rated, score, 1)),
            }
        }
        ranking.sort_by(|a, b| b.2.total_cmp(&a.2));
        ranking
    }

    /// The search is over: its best settings challenge what was found.
    fn challenge(&mut self, said: String, plant: &dyn Target) -> Decision {
        self.find_challengers();
        let evidence = self.evidence();
        self.next_challenger(said, plant).resting_on(evidence)
    }

    /// The best settings, as far as they are better than what was found.
    fn find_challengers(&mut self) {
        let best = self.ranking().into_iter().take_while(|(setting, ..)| **setting != self.found);
        let promising = best.filter(|(_, rated, ..)| !rated.starves()).map(|(setting, ..)| setting.clone());
        self.challengers = promising.take(CHALLENGERS).map(Challenger::tried).collect();
    }

    /// The next one's turns; without one what was found stays, unless it was not yet searched for anything better.
    fn next_challenger(&mut self, said: String, plant: &dyn Target) -> Decision {
        match (self.challengers.pop_front(), self.to_search) {
            (Some(challenger), _) => {
                let duel = Duel::new(challenger, &self.found);
                let hope = duel.expected.map_or_else(String::new, |gain| {
                    format!(", to be expected {}, give or take {:.0}%,", percent(gain.mean), 100.0 * gain.error)
                });
                let why = format!("{said}; {}{hope} and {} serve in turns", duel.best, self.found);
                let best = duel.best.clone();
                self.phase = Phase::Verifying(duel);
                Decision::set(best, why)
            }
            (None, Some(quarry)) => self.search(quarry, None, plant),
            (None, None) => {
                self.keep(self.found.clone(), None, format!("{said}; {} stays: nothing is better for sure", self.found))
            }
        }
    }

    fn keep(&mut self, setting: Setting, gain: Option<Estimate>, why: String) -> Decision {
        self.kept = Some((setting.clone(), gain));
        let load = WatchedLoad::new(self.began);
        self.phase = Phase::Keeping(Kept { load, is_settling: true, proved: None, windows: Vec::new(), checked: CHECKED });
        Decision { expected_gain: gain.map(|gain| gain.mean), ..Decision::set(setting, why) }
    }

    /// Whether a stream starves in a window, or nothing is done.
    fn starves(&self, window: &Window) -> bool {
        self.rate(std::slice::from_ref(window)).is_none_or(|rated| rated.starves())
    }

    /// A turn, or its beginning, is over.
    fn verified(&mut self, window: &Window, plant: &dyn Target) -> Decision {
        let Phase::Verifying(duel) = &mut self.phase else { return Decision::keep("") };
        if duel.is_settling {
            duel.is_settling = false;
            return Decision::keep("its turn: what was queued before is served");
        }
        let is_bests = duel.is_bests_turn();
        let suspect = if is_bests { Some(Box::new(window.clone())) } else { duel.suspect.take() };
        if let Some(yardstick) = self.yardstick.as_mut().filter(|_| !is_bests) {
            yardstick.longest_s = yardstick.longest_s.max(window.outcome.max_response_s);
            yardstick.streams = yardstick.streams.min(streams(window));
        }
        let starving = suspect.filter(|suspect| self.starves(suspect));
        let Phase::Verifying(duel) = &mut self.phase else { return Decision::keep("") };
        duel.take(window.outcome.score(&self.preference));
        if starving.is_some() && duel.knows_waits() {
            let said = format!("a stream starves under {}", duel.best);
            return self.next_challenger(said, plant);
        }
        duel.suspect = starving;
        let best = duel.best.clone();
        let next = if duel.is_bests_turn() { best.clone() } else { self.found.clone() };
        let Some((pairs, measured)) = duel.measured() else {
            return Decision::set(next, "the other one’s turn");
        };
        let came = format!(
            "{best} was {} than {}, give or take {:.0}%, in {pairs} pairs of turns",
            percent(measured.mean),
            self.found,
            100.0 * measured.error
        );
        match duel.verdict(pairs, measured) {
            Some(Verdict::Better(gain)) => {
                let decision = self.keep(best, Some(gain), format!("{came}: it stays"));
                if let Phase::Keeping(kept) = &mut self.phase {
                    kept.proved = Some(gain.mean);
                }
                decision
            }
            Some(Verdict::NotBetter) => self.next_challenger(came, plant),
            None => Decision::set(next, came + ": not sure yet"),
        }
    }

    /// A window of what is kept.
    fn kept(&mut self, window: &Window, fingerprint: Option<&Fingerprint>, plant: &dyn Target) -> Decision {
        let Phase::Keeping(kept) = &mut self.phase else { return Decision::keep("") };
        if std::mem::take(&mut kept.is_settling) {
            return Decision::keep("kept");
        }
        if fingerprint.and_then(|fingerprint| kept.load.look(window.from, fingerprint.point)).is_some() {
            return self.watch_anew(window.to, plant, "another load: its gene pool is kept");
        }
        kept.windows.push(window.clone());
        if kept.windows.len() < kept.checked {
            return Decision::keep("kept");
        }
        let now = Estimate::of(std::mem::take(&mut kept.windows).iter(), &self.preference);
        let Some((now, yardstick)) = now.zip(self.yardstick.as_mut()) else { return Decision::keep("kept") };
        // What was watched at first may have been a load that only began, in a memory that was empty; and turns are longer than windows, in
        // which streams are served less alike.
        if let Some(gain) = kept.proved.take() {
            yardstick.scores = Estimate { mean: now.mean - gain, ..now };
            return Decision::keep("kept");
        }
        kept.checked *= 2;
        let gain = now.over(&yardstick.scores);
        match &self.kept {
            Some((setting, expected)) if gain.mean < -SURE * gain.error && *setting != self.found => {
                self.challengers = VecDeque::from([Challenger { setting: setting.clone(), expected: *expected }]);
                self.next_challenger(format!("{} than what was found", percent(gain.mean)), plant)
            }
            _ => Decision::keep("kept"),
        }
    }

    /// Another load: what was found serves it while it is watched. The gene pool of the one before is kept.
    fn watch_anew(&mut self, now: Nanos, plant: &dyn Target, why: &str) -> Decision {
        self.pools.extend(self.pool(&plant.identity().device));
        if self.pools.len() > MOST_POOLS {
            self.pools.remove(0);
        }
        let kept = self.kept.take().and_then(|(setting, gain)| Some((setting, gain?)));
        if let Some(((setting, gain), yardstick)) = kept.zip(self.yardstick.as_ref()) {
            let point = yardstick.point;
            self.met.retain(|met| load_distance(&met.point, &point) >= ANOTHER);
            self.met.push(Met { point, setting, gain });
            if self.met.len() > MOST_POOLS {
                self.met.remove(0);
            }
        }
        (self.kept, self.yardstick, self.began) = (None, None, now);
        self.tried.clear();
        self.challengers.clear();
        self.to_search = None;
        self.facts.clear();
        self.loads += 1;
        self.phase = Phase::Watching(Vec::new());
        Decision::set(self.found.clone(), why)
    }

    /// The gene pool of the load that is there: what was kept for it first, if anything was, then the others by their scores.
    fn pool(&self, device: &str) -> Option<GenePool> {
        let yardstick = self.yardstick.as_ref()?;
        let mut pool = GenePool::of(device, &yardstick.row, &self.found, &self.tried, &self.preference);
        let kept = self.kept.as_ref().map(|(setting, _)| setting.to_string());
        pool.members.sort_by_key(|member| Some(&member.setting) != kept.as_ref());
        Some(pool).filter(|pool| !pool.members.is_empty())
    }

    fn evidence(&self) -> Evidence {
        let ranking = self.ranking();
        let mut seen = vec![("trials".to_owned(), self.tried.len().to_string())];
        if let Some((setting, _, _, times)) = ranking.first() {
            seen.push((
                "best chromosome".to_owned(),
                format!("{setting}, tried {times} time{}", if *times == 1 { "" } else { "s" }),
            ));
        }
        if let Some(yardstick) = &self.yardstick {
            seen.push(("under what was found".to_owned(), format!("{}: {}", self.found, text(&yardstick.rated))));
        }
        seen.extend(self.facts.iter().cloned());
        let found = ranking.iter().find(|(setting, ..)| **setting == self.found).map_or(f64::NAN, |(_, _, score, _)| *score);
        let promise = |(setting, rated, score, times): &(&Setting, Rated, f64, usize)| Promise {
            setting: (*setting).clone(),
            throughput: rated.served.throughput.into(),
            response_s: rated.served.response_s.into(),
            p99_by_bound: rated.by_bound,
            gain: score - found,
            error: (*times as f64).sqrt().recip() * merit::TOLERANCE,
        };
        Evidence { seen, candidates: ranking.iter().take(SHOWN).map(promise).collect() }
    }
}

impl Controller for Tuner {
    fn name(&self) -> &'static str {
        self.rules.name
    }

    fn begin(&mut self, now: Nanos, plant: &dyn Target) -> Decision {
        (self.found, self.began) = (plant.setting(), now);
        Decision::keep("nothing was seen yet")
    }

    fn extent(&self) -> Extent {
        let time = match &self.phase {
            Phase::Proving { is_settling: true, .. } | Phase::Keeping(Kept { is_settling: true, .. }) => self.settles(),
            Phase::Watching(_) | Phase::Proving { .. } | Phase::Keeping(_) | Phase::Trying { is_settling: true, .. } => LOOK,
            Phase::Trying { .. } => self.rules.child,
            Phase::Verifying(duel) if duel.is_settling => self.settles(),
            Phase::Verifying(_) => self.rules.turn,
        };
        Extent { time: Some(time), requests: None }
    }

    fn event(&mut self, event: &Event) -> bool {
        self.calls.event(event);
        if let Some(rehearsal) = &mut self.rehearsal {
            rehearsal.event(event);
        }
        false
    }

    fn decide(&mut self, window: &Window, plant: &dyn Target) -> Decision {
        let fingerprint = self.calls.close(window);
        match &mut self.phase {
            Phase::Watching(windows) => {
                windows.push((window.clone(), fingerprint));
                let wanted = if self.rehearsal.is_some() { WATCHED_FOR_TWIN } else { WATCHED };
                if windows.len() < wanted {
                    return Decision::keep("watching");
                }
                let windows = std::mem::take(windows);
                self.find(windows, window.to, plant)
            }
            Phase::Trying { is_settling, .. } if *is_settling => {
                *is_settling = false;
                self.next_trial("what the twin ranked is tried".to_owned(), plant)
            }
            Phase::Trying { .. } => self.tried(window, fingerprint.as_ref(), plant),
            Phase::Proving { .. } => self.proved(window, plant),
            Phase::Verifying(_) => self.verified(window, plant),
            Phase::Keeping(_) => self.kept(window, fingerprint.as_ref(), plant),
        }
    }

    fn refused(&mut self, _setting: &Setting, _reason: &str) {
        self.was_refused = true;
    }

    fn searches(&self) -> bool {
        !matches!(self.phase, Phase::Keeping(_))
    }

    fn leaves(&self) -> Option<&Setting> {
        Some(match &self.phase {
            Phase::Keeping(_) => &self.kept.as_ref()?.0,
            Phase::Verifying(duel) if duel.is_likely() => &duel.best,
            Phase::Watching(_) | Phase::Trying { .. } | Phase::Proving { .. } | Phase::Verifying(_) => &self.found,
        })
    }

    fn overruled(&mut self, _now: Nanos, setting: &Setting, reason: &str) -> Decision {
        // What did harm is not to be rated by what came after it.
        self.was_refused = matches!(self.phase, Phase::Trying { .. });
        Decision::set(setting.clone(), reason)
    }

    fn gene_pools(&self, device: &str) -> Vec<GenePool> {
        self.pools.iter().cloned().chain(self.pool(device)).collect()
    }
}

/// A ranking in another order: the best of each scheduler, then the second best of each, and so on. A twin that is off is off by much
/// between schedulers and by little between two settings of one, so that the first few of its ranking are often one setting in variations.
fn best_of_each_scheduler_first(ranking: &[Setting]) -> impl Iterator<Item = &Setting> {
    let place = |number: usize| ranking[..number].iter().filter(|one| one.spec.name == ranking[number].spec.name).count();
    let mut order: Vec<usize> = (0..ranking.len()).collect();
    order.sort_by_key(|&number| (place(number), number));
    order.into_iter().map(|number| &ranking[number])
}

fn streams(window: &Window) -> f64 {
    window.features.get("streams").unwrap_or(f64::NAN)
}

fn text(rated: &Rated) -> String {
    let (mb_s, ms) = (f64::from(rated.served.throughput) / 1e6, 1e3 * f64::from(rated.served.response_s));
    let starves = if rated.starves() { ", and a stream starves" } else { "" };
    format!("{mb_s:.2} MB/s at {ms:.2} ms{starves}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn the_first_of_a_ranking_are_the_best_of_each_scheduler() {
        let ranking = ["bfq:slice_idle=0", "bfq", "kyber", "bfq:low_latency=0", "none"].map(|text| Setting::parse(text).unwrap());
        let order: Vec<String> = best_of_each_scheduler_first(&ranking).map(Setting::to_string).collect();
        assert_eq!(order, ["bfq:slice_idle=0", "kyber", "none", "bfq", "bfq:low_latency=0"]);
    }
}
