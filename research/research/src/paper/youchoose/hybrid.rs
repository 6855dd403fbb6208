//! The experiment behind Tables II and III of `YouChoose` (section IV.D): the number of volumes that three unlike arrays hold, with and
//! without migration.
//!
//! Four fast disks, six fast disks and one or six flash drives, each a RAID 0 with units of 4 KiB; every volume is guaranteed a RAID 0 of
//! two slow disks and either reads films in order or searches at random, as fast as it can. Volumes are added one by one until no capacity
//! is spare; the number is then confirmed in the simulator, one less as long as a guarantee is broken there, and one more as long as none
//! is.
//!
//! The paper has six flash drives. It says that they exhibit "only moderate performance advantage over the HDD array with sequential
//! workload", which six with the profile here do not: they hold some fifteen times as many films as an array of disks, so placement on the
//! disks hardly matters. One of them has the advantage that the paper describes, so the experiment can be made with either.
//! [`Hybrid::most`] bounds the number of volumes that the best assignment could hold.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use guarantee::placement::{Asks, Cluster, ClusterArray, ClusterVolume, OnReference, got};
use guarantee::planner::{Assignment, Consumption, Initial, Rules, Step, Survey};
use guarantee::tenants::{Reference, THROUGHPUT, VIOLATED};
use testbed::pool::{Unseen, Workers};
use testbed::synthetic::Pattern;

use block::Nanos;
use block::rates::Rates;

use experiment::comparison::regime;

/// The disk arrays: name and profile.
pub const DISKS: [(&str, &str); 2] = [
    ("HDD Array A", "raid0:disk=atlas10k,disks=4,stripe_unit_kib=4"),
    ("HDD Array B", "raid0:disk=atlas10k,disks=6,stripe_unit_kib=4"),
];

/// The number of flash drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flash {
    /// Six, as in the paper.
    Six,
    /// One: as fast as the paper describes its six.
    One,
}

impl Flash {
    /// The profile of the array.
    pub fn profile(self) -> &'static str {
        match self {
            Flash::Six => "raid0:disk=ssd-dftl,disks=6,stripe_unit_kib=4",
            Flash::One => "ssd-dftl",
        }
    }
}

/// The reference disk that every volume is guaranteed.
pub const REFERENCE: &str = "raid0:disk=barracuda,disks=2,stripe_unit_kib=4";

/// The sequentiality factors of Table III.
pub const FACTORS: [f64; 4] = [0.0, 0.3, 0.7, 1.0];

/// Sectors of each volume: 512 MiB.
const SECTORS: u64 = 1 << 20;
/// Sectors of a film's reads: 64 KiB, as in the stand-in for VideoStreaming that comes with the program.
const FILM: u32 = 128;
/// Outstanding requests of every volume, which saturate its reference disk.
const OUTSTANDING: u32 = 32;
/// Volumes of each kind whose demand is averaged.
const MEASURED: usize = 3;
/// Volumes beyond the planner's number that may be simulated.
const FAR: usize = 12;

/// A placement policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The paper's without migration: to the array with the largest spare capacity, with the same proportion of films on each array as
    /// overall.
    Fixed,
    /// The paper's: to the array with the largest spare capacity, then migrations and swaps.
    Migrating,
    /// Beyond the paper: to the array with the volume's least share, then migrations and swaps; others are moved to make room for a new
    /// one.
    MakingRoom,
}

/// The number of volumes that a policy holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// According to the planner.
    pub planned: usize,
    /// In the simulator without a broken guarantee.
    pub volumes: usize,
    /// Throughput of the worst served of `volumes`, relative to its reference disk.
    pub worst_ratio: f64,
    /// That ratio with one volume more, if that breaks a guarantee; `None` if the search did not get there.
    pub broken_ratio: Option<f64>,
    /// Migrations made while volumes were added.
    pub moves: usize,
}

/// A row of Table III: the number of volumes by policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The part of volumes that read films, from 0 to 1.
    pub factor: f64,
    /// Without migration.
    pub fixed: Held,
    /// With migration.
    pub migrating: Held,
    /// With the extensions beyond the paper.
    pub making_room: Held,
}

/// Table II: the consumption matrix of seven volumes, most of which read films.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// By array, then by volume, in percent.
    pub shares_percent: Vec<Vec<f64>>,
    /// Whether a volume reads films.
    pub films: Vec<bool>,
    /// The array of each volume before migrations are planned.
    pub on: Vec<usize>,
    /// The planned migrations, as sentences.
    pub moves: Vec<String>,
}

/// The key of a simulated trial: which volumes read films, and the array of each.
type PlacedFilms = (Vec<bool>, Assignment);

/// The experiment's arrays, with the demand of a volume of each kind (search, films) on each.
#[derive(Debug)]
pub struct Hybrid {
    arrays: Vec<ClusterArray>,
    reference: Reference,
    /// By array: the demand of a search and of films.
    demands: Vec<[f64; 2]>,
    rules: Rules,
    search: Pattern,
    seed: u64,
    lasts: Nanos,
    /// Service of volumes alone on their reference disks, by number and whether they read films; the same in every trial.
    alone: Mutex<BTreeMap<(usize, bool), Arc<OnReference>>>,
    /// Results of trials: policies often reach the same assignment.
    tried: Mutex<BTreeMap<PlacedFilms, (f64, bool)>>,
}

/// Volumes added one by one.
#[derive(Debug, Default)]
struct Filled {
    on: Assignment,
    moves: usize,
    /// After each volume: the assignment, whether the planner had room for it, and the number of moves so far.
    states: Vec<(Assignment, bool, usize)>,
}

impl Hybrid {
    /// Measures the demand of volumes of each kind, with `search` as the pattern of searches. Simulated runs last `lasts`.
    ///
    /// # Errors
    /// It was interrupted.
    pub fn new(flash: Flash, search: &Pattern, seed: u64, lasts: Nanos, workers: Workers) -> anyhow::Result<Hybrid> {
        let named = DISKS.into_iter().chain([("SSD Array", flash.profile())]);
        let arrays = named.map(|(name, profile)| {
            Ok(ClusterArray { name: name.to_owned(), profile: sim::profile::load(profile)?, capacity: 1.0 })
        });
        let arrays = arrays.collect::<anyhow::Result<Vec<_>>>()?;
        let rules = Rules { slot: Nanos::from_millis(40), ..Rules::default() };
        let mut hybrid = Hybrid {
            arrays,
            reference: Reference::parse(REFERENCE)?,
            demands: Vec::new(),
            rules,
            search: search.clone(),
            seed,
            lasts,
            alone: Mutex::default(),
            tried: Mutex::default(),
        };
        let films: Vec<bool> = (0..2 * MEASURED).map(|number| number % 2 == 1).collect();
        let cluster = hybrid.cluster(&films, &vec![None; films.len()]);
        let survey = cluster.survey(rules, (1, Nanos::from_millis(4_000)), workers)?;
        let mean = |array: usize, of_films: bool| {
            let each = (0..films.len()).filter(|volume| films[*volume] == of_films).map(|volume| survey.demand(array, volume));
            each.sum::<f64>() / MEASURED as f64
        };
        hybrid.demands = (0..hybrid.arrays.len()).map(|array| [mean(array, false), mean(array, true)]).collect();
        Ok(hybrid)
    }

    /// An upper bound for every policy: the number of volumes that fit by their demands if a volume could be divided between arrays.
    ///
    /// Volumes with the least disk time relative to their flash time go to the disks first; the rest go to flash.
    pub fn most(&self, factor: f64) -> f64 {
        let flash = self.arrays.len() - 1;
        // Flash time that a volume of a kind frees for each second of a disk array's time.
        let worth = |array: usize, kind: usize| self.demands[flash][kind] / self.demands[array][kind];
        let part = [1.0 - factor, factor];
        let fits = |number: f64| {
            let mut rest = part.map(|part| part * number);
            for array in 0..flash {
                let mut time = 1.0;
                let order = if worth(array, 1) >= worth(array, 0) { [1, 0] } else { [0, 1] };
                for kind in order {
                    let taken = rest[kind].min(time / self.demands[array][kind]);
                    rest[kind] -= taken;
                    time -= taken * self.demands[array][kind];
                }
            }
            rest[0] * self.demands[flash][0] + rest[1] * self.demands[flash][1] <= 1.0
        };
        let (mut least, mut most) = (0.0, 1e6);
        for _ in 0..60 {
            let middle = (least + most) / 2.0;
            if fits(middle) { least = middle } else { most = middle }
        }
        least
    }

    fn cluster(&self, films: &[bool], on: &Assignment) -> Cluster {
        let volumes = films.iter().zip(on).enumerate().map(|(number, (films, on))| ClusterVolume {
            name: format!("VSD {} ({})", number + 1, if *films { "films" } else { "search" }),
            sectors: SECTORS,
            reference: Some(self.reference.clone()),
            rates: Rates::default(),
            asks: Asks::always(OUTSTANDING, if *films { Pattern::InOrder(FILM) } else { self.search.clone() }),
            on: *on,
        });
        Cluster { arrays: self.arrays.clone(), volumes: volumes.collect(), seed: self.seed }
    }

    /// The planner's view of these volumes.
    fn survey(&self, films: &[bool]) -> Survey {
        let row = |demands: &[f64; 2]| films.iter().map(|films| demands[usize::from(*films)]).collect();
        let consumption = Consumption::new(self.demands.iter().map(row).collect(), vec![1.0; films.len()]);
        let arrays = self.arrays.iter().map(|array| (array.name.clone(), array.capacity, array.profile.capacity_sectors()));
        let volumes = (1..=films.len()).map(|number| (format!("VSD {number}"), SECTORS));
        Survey::of(vec![consumption], arrays.collect(), volumes.collect(), self.rules)
    }

    /// Adds volumes one by one until there are `most`.
    fn fill(&self, filled: &mut Filled, factor: f64, policy: Policy, most: usize) {
        let Filled { on, moves, states } = filled;
        for number in states.len()..most {
            let films = films(factor, number + 1);
            let survey = self.survey(&films);
            on.push(None);
            let fixed = self.fixed_home(&survey, on, &films, factor);
            let found = match policy {
                Policy::Fixed => fixed.1.then(|| (Vec::new(), fixed.0)),
                Policy::Migrating => survey.initial(on, number, Initial::LargestSpare).ok().map(|home| (Vec::new(), home)),
                Policy::MakingRoom => {
                    let home = survey.initial(on, number, Initial::LeastShare).map(|home| (Vec::new(), home));
                    home.or_else(|_| survey.make_room(on, number)).ok()
                }
            };
            let has_room = found.is_some();
            let anyhow = if policy == Policy::Fixed { fixed.0 } else { least_crowded(&survey, on, number) };
            let (steps, home) = found.unwrap_or_else(|| (Vec::new(), anyhow));
            *moves += apply(on, &steps);
            on[number] = Some(home);
            if policy != Policy::Fixed {
                let plan = survey.plan(on);
                *moves += apply(on, &plan.steps);
            }
            states.push((on.clone(), has_room, *moves));
        }
    }

    /// The array with the largest spare capacity among those where a volume of this kind is due, or among all if it is due on none; arrays
    /// with room for it first. The flag says whether the chosen array has room.
    fn fixed_home(&self, survey: &Survey, on: &Assignment, films: &[bool], factor: f64) -> (usize, bool) {
        let number = on.len() - 1;
        let fits = |array: usize| survey.demand(array, number) <= survey.spare(on, array) + 1e-9;
        let is_next = |array: usize| {
            let here = on.iter().filter(|host| **host == Some(array)).count();
            self::films(factor, here + 1)[here] == films[number]
        };
        let rank = |array: &usize| (fits(*array) && is_next(*array), fits(*array), is_next(*array));
        let better = |one: &usize, other: &usize| {
            // If it fits nowhere, its own demand counts as well, as for the policies that migrate.
            let spare = |array: &usize| survey.spare(on, *array) - if fits(*array) { 0.0 } else { survey.demand(*array, number) };
            rank(one).cmp(&rank(other)).then(spare(one).total_cmp(&spare(other))).then(other.cmp(one))
        };
        let home = (0..self.arrays.len()).max_by(better).unwrap_or(0);
        (home, fits(home))
    }

    /// The number of volumes that a policy holds.
    ///
    /// # Errors
    /// It was interrupted.
    fn held(&self, factor: f64, policy: Policy, workers: Workers) -> anyhow::Result<Held> {
        let mut filled = Filled::default();
        self.fill(&mut filled, factor, policy, 1);
        while filled.states.last().is_some_and(|(_, has_room, _)| *has_room) {
            let more = filled.states.len() + 1;
            self.fill(&mut filled, factor, policy, more);
        }
        let planned = filled.states.len() - 1;
        self.fill(&mut filled, factor, policy, planned + FAR);
        let states = filled.states;
        let tried = most_kept(planned.max(1), states.len(), |number| self.try_out(factor, &states[number - 1].0, workers))?;
        let (volumes, worst_ratio) = tried.kept.unwrap_or((0, 0.0));
        let broken_ratio = tried.broken.filter(|(number, _)| *number == volumes + 1).map(|(_, ratio)| ratio);
        let moves = volumes.checked_sub(1).map_or(0, |last| states[last].2);
        Ok(Held { planned, volumes, worst_ratio, broken_ratio, moves })
    }

    /// Throughput of the worst served volume relative to its reference disk, and whether all guarantees of throughput are kept: overall and
    /// in windows of a second.
    fn try_out(&self, factor: f64, on: &Assignment, workers: Workers) -> anyhow::Result<(f64, bool)> {
        // A volume without space on its array does not count as held, however much time the array has to spare.
        let has_places = |(number, array): (usize, &ClusterArray)| {
            let count = on.iter().filter(|host| **host == Some(number)).count() as u64;
            count * SECTORS <= array.profile.capacity_sectors()
        };
        if !self.arrays.iter().enumerate().all(has_places) {
            return Ok((0.0, false));
        }
        let films = films(factor, on.len());
        let trial = (films, on.clone());
        if let Some(known) = self.tried.lock().unwrap_or_else(PoisonError::into_inner).get(&trial) {
            return Ok(*known);
        }
        let cluster = self.cluster(&trial.0, on);
        let ran = cluster.live(on, None, &regime::scheduler("youchoose")?, self.lasts, workers)?;
        let alone = self.alone(&cluster, &trial.0, workers)?;
        let mut worst = f64::INFINITY;
        let mut is_kept = true;
        for (volume, alone) in alone.iter().enumerate() {
            let Some(figures) = got(&cluster, on, volume, &ran.volumes[volume], Some(alone)).reference else { continue };
            worst = worst.min(figures.throughput_ratio);
            let second = figures.windows.iter().find(|window| window.window_s == 1.0);
            let violated = second.is_some_and(|window| window.violated as f64 > VIOLATED * window.windows as f64);
            is_kept &= figures.throughput_ratio >= THROUGHPUT && !violated;
        }
        self.tried.lock().unwrap_or_else(PoisonError::into_inner).insert(trial, (worst, is_kept));
        Ok((worst, is_kept))
    }

    /// The service of each volume of a cluster alone on its reference disk.
    fn alone(&self, cluster: &Cluster, films: &[bool], workers: Workers) -> anyhow::Result<Vec<Arc<OnReference>>> {
        let keys = || films.iter().copied().enumerate();
        let known = || self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<usize> = {
            let known = known();
            keys().filter(|key| !known.contains_key(key)).map(|(volume, _)| volume).collect()
        };
        let measured = cluster.alone(&missing, self.lasts, workers)?;
        let mut known = known();
        for (volume, alone) in missing.into_iter().zip(measured) {
            known.insert((volume, films[volume]), Arc::new(alone.context("a volume without a reference disk")?));
        }
        Ok(keys().filter_map(|key| known.get(&key).cloned()).collect())
    }

    /// Rows of Table III. Each pair of factor and policy is a job on one thread.
    ///
    /// # Errors
    /// It was interrupted.
    pub fn rows(&self, factors: &[f64], workers: Workers) -> anyhow::Result<Vec<Row>> {
        const POLICIES: [Policy; 3] = [Policy::Fixed, Policy::Migrating, Policy::MakingRoom];
        let each: Vec<(f64, Policy)> = factors.iter().flat_map(|&factor| POLICIES.map(|policy| (factor, policy))).collect();
        let held = workers.map("numbers of volumes that are held", &each, |&(factor, policy)| {
            self.held(factor, policy, Workers { monitor: &Unseen(workers.monitor), threads: 1 })
        })?;
        let row = |(&factor, held): (&f64, &[Held])| {
            let [fixed, migrating, making_room] = held else { return None };
            Some(Row { factor, fixed: fixed.clone(), migrating: migrating.clone(), making_room: making_room.clone() })
        };
        Ok(factors.iter().zip(held.chunks(POLICIES.len())).filter_map(row).collect())
    }

    /// Computes Table II.
    pub fn matrix(&self) -> Matrix {
        const VOLUMES: usize = 7;
        let films = films(0.7, VOLUMES);
        let mut on: Assignment = Vec::new();
        for number in 0..VOLUMES {
            let survey = self.survey(&films[..=number]);
            on.push(None);
            on[number] =
                Some(survey.initial(&on, number, Initial::LargestSpare).unwrap_or_else(|_| least_crowded(&survey, &on, number)));
        }
        let survey = self.survey(&films);
        let shares = |array| (0..VOLUMES).map(|volume| 100.0 * survey.share(array, volume)).collect();
        Matrix {
            shares_percent: (0..self.arrays.len()).map(shares).collect(),
            on: on.iter().flatten().copied().collect(),
            moves: survey.plan(&on).steps.into_iter().map(|step| step.reason).collect(),
            films,
        }
    }
}

/// Bounds of the search: numbers of volumes, each with the worst volume's throughput relative to its reference disk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bracket {
    /// The largest number that is known to fit.
    pub kept: Option<(usize, f64)>,
    /// The smallest number that is known not to fit.
    pub broken: Option<(usize, f64)>,
}

/// Finds the largest number of volumes for which all guarantees are kept, and the next number, for which they are not. Starts from a guess;
/// if that is too many, it takes growing steps down and then bisects, so that a bad guess costs few trials. Tries at most `limit`.
pub fn most_kept(
    guess: usize,
    limit: usize,
    mut try_out: impl FnMut(usize) -> anyhow::Result<(f64, bool)>,
) -> anyhow::Result<Bracket> {
    let (mut tried, mut step, mut number) = (Bracket::default(), 1, guess);
    loop {
        let (ratio, is_kept) = try_out(number)?;
        *(if is_kept { &mut tried.kept } else { &mut tried.broken }) = Some((number, ratio));
        let least = tried.kept.map_or(0, |(kept, _)| kept);
        number = match tried.broken {
            Some((broken, _)) if broken <= least + 1 => return Ok(tried),
            Some((broken, _)) if tried.kept.is_none() => {
                let next = broken.saturating_sub(step).max(1);
                step *= 2;
                next
            }
            Some((broken, _)) => least + (broken - least) / 2,
            None if number >= limit => return Ok(tried),
            None => number + 1,
        };
    }
}

/// Whether each volume reads films, with films spread as evenly as possible.
fn films(factor: f64, number: usize) -> Vec<bool> {
    let until = |count: usize| (count as f64 * factor + 1e-9) as usize;
    (0..number).map(|place| until(place + 1) > until(place)).collect()
}

/// The array that is overcommitted least by a volume for which there is no room.
fn least_crowded(survey: &Survey, on: &Assignment, volume: usize) -> usize {
    let left = |array: usize| survey.spare(on, array) - survey.demand(array, volume);
    let better = |one: &usize, other: &usize| left(*one).total_cmp(&left(*other)).then(other.cmp(one));
    (0..survey.arrays()).max_by(better).unwrap_or(0)
}

fn apply(on: &mut Assignment, steps: &[Step]) -> usize {
    let moves = steps.iter().flat_map(|step| &step.moves);
    moves.map(|each| on[each.volume] = Some(each.to)).count()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn the_most_that_are_held_are_found_however_far_off_the_guess_is() {
        for held in [0, 1, 2, 11, 100, 211, 215] {
            let mut trials = 0;
            let tried = most_kept(211, 220, |number| {
                trials += 1;
                Ok((0.0, number <= held))
            });
            let tried = tried.unwrap();
            let found = (tried.kept.map_or(0, |(number, _)| number), tried.broken.map(|(number, _)| number));
            assert_eq!(found, (held, Some(held + 1)));
            assert!(trials <= 16, "{trials} trials to find {held}");
        }
        let all = most_kept(3, 5, |_| Ok((1.0, true))).unwrap();
        assert_eq!((all.kept, all.broken), (Some((5, 1.0)), None));
    }

    #[test]
    fn films_are_spread_evenly_over_volumes_by_their_factor() {
        assert_eq!(films(0.7, 10).iter().filter(|films| **films).count(), 7);
        assert_eq!(films(0.3, 7), [false, false, false, true, false, false, true]);
        assert_eq!((films(0.0, 3), films(1.0, 3)), (vec![false; 3], vec![true; 3]));
    }
}
