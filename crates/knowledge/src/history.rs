//! Derives cases for learning from the recorded windows.
//!
//! A real workload is never run under every candidate. But when a controller changes the setting, the settings before and after serve the
//! same workload, as far as its features show. A load generated from a seed is the same in every run, so settings that were active at about
//! the same time in it can be compared.
//!
//! ```text
//! a run  | noop    | cfq | noop                |     windows of one load, in order of time;
//! a run  | deadline                            | ──▶ around each change, no window twice: one case per setting
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use block::Nanos;

use super::query::Filter;
use super::rows::{ModelRow, Run, RunId, WindowRow};
use super::{Knowledge, KnowledgeError};
use control::experience::{Case, Experience, MIN_REQUESTS};
use observe::description::{describe_named, is_of_load, names};
use observe::performance::{Performance, stored_features};
use observe::similarity::{Columns, Point, distance};
use observe::starvation;

/// Time before and after a change within which windows are compared; over a longer time the workload may change.
const NEAR: Nanos = Nanos::from_millis(5_000);
/// Maximum squared distance between the loads of two settings of one run that are compared.
const MAX_LOAD_DISTANCE: f64 = 2.5;
/// Maximum windows read from a server, which has those of many machines: the newest, about 80 MiB. Files are bounded by retention.
const MAX_WINDOWS: i64 = 50_000;
/// Maximum number of cases; the newest are kept. The built-in experience has that size, and training on both remains fast.
const MAX_CASES: usize = 2_000;

impl Knowledge {
    /// The recorded cases, on a server those of the 50,000 newest windows: one for each setting, if at least two settings served the same
    /// load at about the same time. The most recently recorded are last.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn experience(&self) -> Result<Experience, KnowledgeError> {
        // One snapshot, so that a run that is being deleted is read in full or not at all.
        let _moment = self.moment()?;
        let mut history = History::new();
        let after = match self.database.sqlite() {
            Some(_) => i64::MIN,
            None => {
                let sql = "SELECT coalesce(max(window), 0) FROM windows";
                let newest = self.read(|database| database.query_one(sql, &[])?.map_or(Ok(0), |row| row.get::<i64>(0)))?;
                newest.saturating_sub(MAX_WINDOWS)
            }
        };
        for stored in self.windows(&Filter::default()).after(after) {
            let stored = stored?;
            history.add_window(&stored.run, stored.row);
        }
        let pools = self.models()?.iter().filter_map(ModelRow::gene_pool).collect();
        Ok(Experience { pools, ..history.into_experience() })
    }
}

/// The windows under one setting.
struct Observation<'a> {
    setting: &'a str,
    runs: BTreeSet<RunId>,
    row: Vec<f64>,
    /// The position of its load.
    load: Point,
    performance: Performance,
    /// Maximum response time, in seconds.
    longest_s: f64,
    /// Mean number of streams served in a window.
    streams: f64,
}

impl Observation<'_> {
    /// Whether both served the same load: always in different runs, which have one seed. In one run the load may have changed together with
    /// the setting, so their positions decide, although some settings also change these.
    fn is_comparable(&self, other: &Observation) -> bool {
        self.runs != other.runs || self.runs.len() > 1 || distance(&self.load, &other.load, f64::INFINITY) <= MAX_LOAD_DISTANCE
    }

    /// Whether this setting starves a stream compared with `other`: a request waited beyond its [bound](starvation::bound_s), or a stream that
    /// `other` serves gets nothing and so queues nothing more.
    fn starves_compared_with(&self, other: &Observation) -> bool {
        self.longest_s > starvation::bound_s(other.longest_s) || self.streams <= other.streams - 1.0
    }
}

/// A case whose settings are not yet numbered.
struct UnnumberedCase {
    run: Arc<Run>,
    under: String,
    features: Vec<Option<f32>>,
    results: Vec<(String, Performance)>,
}

/// Identifies a load: plant, device, source and seed, and the run if there is no seed, as such a load never repeats.
type Load = (String, String, String, Option<u64>, Option<RunId>);

/// A window, and whether it is the first under its setting, which also serves requests queued before the change.
struct Observed {
    run: RunId,
    row: WindowRow,
    is_first: bool,
}

/// The windows so far, by load.
struct History {
    /// The windows of each load, by the number of the last one recorded.
    loads: BTreeMap<Load, (u64, Arc<Run>, Vec<Observed>)>,
    recorded: u64,
    last: Option<(RunId, String)>,
    names: Vec<String>,
    /// For each name, whether it depends on the workload alone.
    is_of_load: Vec<bool>,
    columns: Columns,
}

impl History {
    fn new() -> History {
        let names = names();
        History {
            loads: BTreeMap::new(),
            recorded: 0,
            last: None,
            is_of_load: is_of_load().collect(),
            columns: Columns::described(),
            names,
        }
    }

    fn add_window(&mut self, run: &Arc<Run>, row: WindowRow) {
        let is_first = self.last.as_ref().is_some_and(|(id, setting)| *id == run.id && *setting != row.setting);
        self.last = Some((run.id, row.setting.clone()));
        let once = if run.seed.is_none() { Some(run.id) } else { None };
        let load = (run.plant.clone(), run.device.clone(), run.source.clone(), run.seed, once);
        let (last, _, windows) = self.loads.entry(load).or_insert_with(|| (0, run.clone(), Vec::new()));
        windows.push(Observed { run: run.id, row, is_first });
        self.recorded += 1;
        *last = self.recorded;
    }

    /// All cases, the most recently recorded last.
    fn cases(&mut self) -> Vec<UnnumberedCase> {
        let mut loads: Vec<_> = std::mem::take(&mut self.loads).into_values().collect();
        loads.sort_by_key(|(last, ..)| *last);
        let mut found = Vec::new();
        for (_, run, mut windows) in loads {
            windows.sort_by_key(|window| window.row.from);
            changes(&windows).into_iter().for_each(|around| found.extend(self.compared(&run, around)));
        }
        found.drain(..found.len().saturating_sub(MAX_CASES));
        found
    }

    /// The settings of these windows with their results: one case for each setting that is comparable to another.
    fn compared(&self, run: &Arc<Run>, around: &[Observed]) -> Vec<UnnumberedCase> {
        let mut under: BTreeMap<&str, Vec<&Observed>> = BTreeMap::new();
        around.iter().for_each(|window| under.entry(&window.row.setting).or_default().push(window));
        let observations: Vec<Observation> =
            under.into_iter().filter_map(|(setting, windows)| self.observe(setting, &windows)).collect();
        let found = |one: &Observation| {
            let served = |other: &Observation| Performance { starves: other.starves_compared_with(one), ..other.performance };
            let others = observations.iter().filter(|other| one.is_comparable(other));
            let results: Vec<(String, Performance)> = others.map(|other| (other.setting.to_owned(), served(other))).collect();
            let (run, under, features) = (run.clone(), one.setting.to_owned(), stored_features(one.row.iter().copied()));
            (results.len() > 1).then_some(UnnumberedCase { run, under, features, results })
        };
        observations.iter().filter_map(found).collect()
    }

    fn observe<'a>(&self, setting: &'a str, windows: &[&Observed]) -> Option<Observation<'a>> {
        let is_settled = windows.iter().any(|window| !window.is_first);
        let runs = windows.iter().map(|window| window.run).collect();
        let windows: Vec<&WindowRow> = windows.iter().filter(|it| !it.is_first || !is_settled).map(|it| &it.row).collect();
        // Outstanding requests are included: few completions are a result as well.
        let unfinished = windows.last().map_or(0, |window| window.outcome.unfinished);
        if windows.iter().map(|window| window.outcome.requests).sum::<u64>() + unfinished < MIN_REQUESTS {
            return None;
        }
        let performance = Performance::of(windows.iter().map(|window| &window.outcome)).filter(Performance::is_sound)?;
        let rows: Vec<Vec<f64>> = windows.iter().map(|window| row(window)).collect();
        let row: Vec<f64> = (0..self.names.len()).map(|column| mean(rows.iter().map(|row| row[column]))).collect();
        let only_of_load = |(value, is_of_load): (&f64, &bool)| if *is_of_load { *value } else { f64::NAN };
        let of_load: Vec<f64> = row.iter().zip(&self.is_of_load).map(only_of_load).collect();
        let load = self.columns.point(|column| of_load.get(column).copied());
        let longest_s = windows.iter().map(|window| window.outcome.max_response_s).fold(0.0, f64::max);
        let streams = mean(windows.iter().filter_map(|window| window.feature("streams")));
        Some(Observation { setting, runs, load, row, performance, longest_s, streams })
    }

    fn into_experience(mut self) -> Experience {
        let found = self.cases();
        let settings: BTreeSet<&String> = found.iter().flat_map(|found| found.results.iter().map(|(text, _)| text)).collect();
        let mut experience = Experience::new(self.names, settings.into_iter().cloned().collect());
        for UnnumberedCase { run, under, features, results } in found {
            let number = |text: &String| experience.settings.binary_search(text).ok();
            let Some(under) = number(&under) else { continue };
            let mut case = Case {
                workload: run.source.clone(),
                device: run.device.clone(),
                under,
                features,
                results: vec![None; experience.settings.len()],
            };
            for (text, served) in results {
                if let Some(setting) = number(&text) {
                    case.results[setting] = Some(served);
                }
            }
            experience.cases.push(case);
        }
        experience
    }
}

fn row(window: &WindowRow) -> Vec<f64> {
    describe_named(&|name| window.feature(name).unwrap_or(f64::NAN), &window.outcome)
}

/// The windows around each change of the setting, no window twice: a trial is two changes, but one comparison. Only if the change follows
/// such a comparison directly, the setting before it is compared again: otherwise one chosen after several trials would never be compared.
fn changes(windows: &[Observed]) -> Vec<&[Observed]> {
    let mut around = Vec::new();
    let mut used = 0;
    for change in 1..windows.len() {
        if change < used || windows[change].row.setting == windows[change - 1].row.setting {
            continue;
        }
        let at = windows[change].row.from;
        // Runs overlap, and a window that ends late may precede one that ends early.
        let is_near = |window: &Observed| window.row.to + NEAR > at;
        let is_before = |window: &Observed| window.row.setting == windows[change - 1].row.setting && is_near(window);
        let unused = (used..change).find(|&window| is_near(&windows[window]));
        let from = unused.or_else(|| (0..change).rev().take_while(|&window| is_before(&windows[window])).last()).unwrap_or(change);
        let to = windows.partition_point(|window| window.row.from < at + NEAR);
        around.push(&windows[from..to]);
        used = to;
    }
    around
}

/// The mean of the finite values; NaN if none is.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    statistics::sample::mean_of_finite(values).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::super::RunId;
    use super::*;
    use observe::window::WindowOutcome;

    fn run(number: u8) -> Run {
        let (plant, device, source) = ("simulator".to_owned(), format!("disk {number}"), format!("load {number}"));
        Run { id: RunId([number; 16]), began_s: 0, plant, device, source, seed: None, program: "test".into() }
    }

    /// Windows of a second each under a setting, with a throughput in MB/s and a fraction of reads.
    struct Stretch(&'static str, u64, u64, f64);

    fn windows(stretches: &[Stretch]) -> Vec<WindowRow> {
        let mut windows = Vec::new();
        for Stretch(setting, count, megabytes, read_share) in stretches {
            for _ in 0..*count {
                let number = windows.len() as u64;
                let (from, to) = (Nanos::from_millis(number * 1000), Nanos::from_millis(number * 1000 + 1000));
                let (setting, features) =
                    ((*setting).to_owned(), ["read_share".to_owned(), "of another version".to_owned()].into());
                let outcome = WindowOutcome {
                    duration: to - from,
                    requests: MIN_REQUESTS,
                    waited_for: MIN_REQUESTS,
                    bytes: megabytes * 1_000_000,
                    mean_response_s: 0.01,
                    waited_s: 0.01,
                    p99_response_s: 0.02,
                    max_response_s: 0.02,
                    mean_service_s: 0.005,
                    fairness: 1.0,
                    unfinished: 0,
                    calls: None,
                };
                windows.push(WindowRow { number, from, to, setting, features, values: vec![*read_share, 7.0], outcome });
            }
        }
        windows
    }

    fn experience(runs: &[Vec<WindowRow>]) -> Experience {
        let folder = tempfile::tempdir().unwrap();
        let mut knowledge = Knowledge::open(&folder.path().join("kb")).unwrap();
        let mut batch = knowledge.batch().unwrap();
        for (number, windows) in runs.iter().enumerate() {
            windows.iter().for_each(|window| assert!(batch.window(&run(number as u8), window).unwrap()));
        }
        batch.commit().unwrap();
        let experience = knowledge.experience().unwrap();
        // Any result must be consistent.
        assert_eq!(Experience::from_json(&experience.to_json().unwrap(), "lived").unwrap(), experience);
        experience
    }

    /// Throughput in MB/s under each setting, for every case.
    fn results(experience: &Experience) -> Vec<(&str, Vec<(&str, f32)>)> {
        let name = |setting: usize| experience.settings[setting].as_str();
        let of = |case: &Case| {
            let measured = case.results.iter().enumerate();
            measured.filter_map(|(setting, served)| Some((name(setting), served.as_ref()?.throughput / 1e6))).collect()
        };
        experience.cases.iter().map(|case| (name(case.under), of(case))).collect()
    }

    #[test]
    fn the_settings_before_and_after_a_change_are_compared() {
        // The first window after the change counts for neither side; nor do windows more than 5 s away.
        let mut run = windows(&[Stretch("noop", 4, 90, 0.9), Stretch("noop", 5, 10, 0.9), Stretch("cfq", 20, 30, 0.9)]);
        run[9].outcome.bytes = 0;
        let experience = experience(&[run]);
        let both = vec![("cfq", 30.0), ("noop", 10.0)];
        assert_eq!(results(&experience), [("cfq", both.clone()), ("noop", both)]);
        let case = &experience.cases[0];
        assert_eq!((case.workload.as_str(), case.device.as_str()), ("load 0", "disk 0"));
        let feature = |name: &str| case.features[experience.features.iter().position(|known| known == name).unwrap()];
        assert_eq!(feature("read_share"), Some(0.9));
        assert_eq!(feature("response_by_service"), Some(2.0));
        assert_eq!(feature("think_by_service"), None);
    }

    #[test]
    fn a_trial_and_its_revert_are_one_comparison_and_several_settings_are_compared_at_once() {
        let trial = windows(&[Stretch("noop", 9, 10, 0.5), Stretch("cfq", 3, 30, 0.5), Stretch("noop", 9, 10, 0.5)]);
        assert_eq!(results(&experience(&[trial])).len(), 2);
        let round = [Stretch("noop", 2, 10, 0.5), Stretch("cfq", 2, 30, 0.5), Stretch("sstf", 2, 20, 0.5)];
        let all = vec![("cfq", 30.0), ("noop", 10.0), ("sstf", 20.0)];
        assert_eq!(results(&experience(&[windows(&round)]))[2], ("sstf", all));
    }

    #[test]
    fn a_setting_chosen_directly_after_a_trial_is_compared_too() {
        let trial =
            [Stretch("noop", 2, 10, 0.5), Stretch("cfq", 3, 30, 0.5), Stretch("noop", 2, 10, 0.5), Stretch("sstf", 9, 20, 0.5)];
        let last = vec![("noop", 10.0), ("sstf", 20.0)];
        assert_eq!(results(&experience(&[windows(&trial)]))[2..], [("noop", last.clone()), ("sstf", last)]);
    }

    #[test]
    fn runs_with_the_same_seed_are_compared() {
        let of = |seed: Option<u64>, device: &str| {
            let mut history = History::new();
            for (number, setting, megabytes) in [(0, "noop", 10), (1, "cfq", 30)] {
                // Fifteen seconds are twice the maximum distance.
                let run =
                    Run { seed, device: format!("{device}{}", number * device.len()), source: "load".into(), ..run(number as u8) };
                windows(&[Stretch(setting, 15, megabytes, 0.5)])
                    .into_iter()
                    .for_each(|window| history.add_window(&Arc::new(run.clone()), window));
            }
            history.into_experience()
        };
        let experience = of(Some(1), "");
        let both = vec![("cfq", 30.0), ("noop", 10.0)];
        assert_eq!(results(&experience)[..2], [("cfq", both.clone()), ("noop", both)]);
        assert!((4..=6).contains(&experience.cases.len()), "{}", experience.cases.len());
        assert_eq!(of(Some(1), "disk ").cases, [], "on two disks");
        assert_eq!(of(None, "").cases, [], "two loads that are alike in nothing but their name");
    }

    #[test]
    fn settings_of_a_seeded_load_are_compared_although_features_differ() {
        let compared = |seed: Option<u64>| {
            let mut history = History::new();
            for (number, setting, read_share) in [(0, "noop", 0.1), (1, "cfq", 0.9)] {
                let run = Arc::new(Run { seed, device: "disk".into(), source: "load".into(), ..run(number) });
                windows(&[Stretch(setting, 5, 10, read_share)]).into_iter().for_each(|window| history.add_window(&run, window));
            }
            history.into_experience().cases.len()
        };
        assert_eq!((compared(Some(1)), compared(None)), (2, 0));
    }

    #[test]
    fn a_setting_under_which_a_stream_waits_too_long_or_gets_nothing_starves() {
        let starves = |longest_s: f64, streams: f64| {
            let mut history = History::new();
            for (number, setting, longest_s, streams) in [(0, "noop", 0.4, 3.0), (1, "cfq", longest_s, streams)] {
                let run = Arc::new(Run { seed: Some(1), device: "disk".into(), source: "load".into(), ..run(number) });
                for mut window in windows(&[Stretch(setting, 5, 10, 0.5)]) {
                    window.outcome.max_response_s = longest_s;
                    (window.features, window.values) = (["streams".to_owned()].into(), vec![streams]);
                    history.add_window(&run, window);
                }
            }
            let experience = history.into_experience();
            let case = experience.cases.iter().find(|case| experience.settings[case.under] == "noop").unwrap();
            let starves = case.results.iter().map(|served| served.unwrap().starves);
            experience.settings.iter().cloned().zip(starves).collect::<BTreeMap<String, bool>>()
        };
        let of = |cfq: bool| BTreeMap::from([("cfq".to_owned(), cfq), ("noop".to_owned(), false)]);
        assert_eq!(starves(1.5, 2.5), of(false));
        assert_eq!(starves(1.7, 3.0), of(true), "more than four times as long, and more than a second");
        assert_eq!(starves(0.4, 2.0), of(true), "one of three streams");
    }

    #[test]
    fn nothing_is_compared_if_the_workload_changed_too() {
        let other = windows(&[Stretch("noop", 5, 10, 0.1), Stretch("cfq", 5, 30, 0.9)]);
        assert_eq!(experience(&[other]).cases, []);
        let mut far = windows(&[Stretch("noop", 5, 10, 0.5), Stretch("cfq", 5, 30, 0.5)]);
        for window in &mut far[5..] {
            (window.from, window.to) = (window.from + NEAR, window.to + NEAR);
        }
        assert_eq!(experience(&[far]).cases, []);
    }

    #[test]
    fn windows_with_few_requests_or_without_numbers_are_left_out() {
        assert_eq!(experience(&[windows(&[Stretch("noop", 9, 10, 0.5)])]).cases, [], "nothing was changed");
        assert_eq!(experience(&[]).cases, []);
        let mut few = windows(&[Stretch("noop", 5, 10, 0.5), Stretch("cfq", 2, 30, 0.5)]);
        few[6].outcome.requests = MIN_REQUESTS - 1;
        assert_eq!(experience(&[few]).cases, [], "in the one window that is settled");
        let mut odd = windows(&[Stretch("noop", 5, 10, 0.5), Stretch("cfq", 5, 30, 0.5)]);
        odd.iter_mut().for_each(|window| window.outcome.fairness = f64::NAN);
        assert_eq!(experience(&[odd]).cases, []);
    }

    #[test]
    fn of_many_cases_the_newest_are_kept() {
        let pair = |megabytes| windows(&[Stretch("noop", 5, megabytes, 0.5), Stretch("cfq", 5, 30, 0.5)]);
        let mut history = History::new();
        for number in 0..=MAX_CASES as u64 {
            let run = Arc::new(Run { id: RunId(u128::from(number).to_be_bytes()), ..run(0) });
            pair(number).into_iter().for_each(|window| history.add_window(&run, window));
        }
        let experience = history.into_experience();
        assert_eq!(experience.cases.len(), MAX_CASES);
        assert_eq!(results(&experience)[MAX_CASES - 1].1, [("cfq", 30.0), ("noop", MAX_CASES as f32)]);
    }
}
