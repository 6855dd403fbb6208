//! The plan of a sweep, read from a TOML file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use block::{HOST_TUNABLES, Tunable, did_you_mean};
use control::Setting;
use observe::Preference;
use serde::Deserialize;
use sim::replay::Fit;
use sim::trace::merge::in_folders;
use testbed::shipped;
use testbed::trace::{ReplayOptions, SPEEDS};
use testbed::world::{Device, World};
use toml::Spanned;

use super::columns;
use super::settings::{Choice, Searched};
use crate::comparison::regime;

/// Maximum size of a plan in bytes.
const MAX_BYTES: u64 = 4 << 20;
/// Maximum number of cases.
const MAX_CASES: u64 = 1_000_000_000;
/// Maximum number of settings per load, since they are held in memory.
const MAX_SETTINGS: usize = 1_000_000;
/// Approximate number of files of the data set: enough to share among that many machines, few enough for a tool to open all.
const PARTS: u64 = 256;
/// Maximum cases per file, since its rows are held in memory.
const MAX_PART: u64 = 4096;
/// Default number of search points.
const POINTS: u32 = 32;

/// Method of choosing settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Every combination of the values.
    Grid,
    /// Points of the Sobol sequence in the ranges, the same for every load and disk.
    Sobol,
    /// Bayesian optimisation, separate for each load and disk: each point depends on earlier results.
    Bayesian,
}

const METHODS: [(&str, Method); 3] = [("grid", Method::Grid), ("sobol", Method::Sobol), ("bayesian", Method::Bayesian)];

/// A load of a plan.
#[derive(Clone, Debug)]
pub struct PlannedLoad {
    /// Name in the data set: as in the plan; files of a folder are prefixed with the folder.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Whether it is a job file or a built-in workload, and not a trace.
    pub is_jobs: bool,
}

/// A disk of a plan.
#[derive(Clone, Debug)]
pub struct PlannedDisk {
    /// Name in the plan.
    pub name: String,
    /// The disk behind a host with its defaults.
    pub world: World,
}

/// A parsed plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Path of the plan as given by the user.
    pub source: String,
    /// Loads that are run on each disk.
    pub loads: Vec<PlannedLoad>,
    /// Disks on which each load is run.
    pub disks: Vec<PlannedDisk>,
    /// Random seeds.
    pub seeds: Vec<u64>,
    /// Method of choosing settings.
    pub method: Method,
    /// Baseline setting; run first for every load and disk.
    pub default: Setting,
    /// All settings of a grid or of Sobol points, the default first.
    pub settings: Vec<Setting>,
    /// Search space of a Bayesian search.
    pub searched: Searched,
    /// Settings per load and disk, the default included.
    pub points: usize,
    /// Figure by which settings are ranked.
    pub objective: String,
    /// Weights of throughput, response time and fairness, if the objective is the score.
    pub preference: Preference,
    /// How traces are replayed.
    pub replay: ReplayOptions,
}

/// One run of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Case number, from 0.
    pub number: u64,
    /// Index of the load in the plan.
    pub load: usize,
    /// Index of the disk in the plan.
    pub disk: usize,
    /// Index of the setting among those of this load and disk.
    pub point: usize,
    /// Index of the seed in the plan.
    pub seed: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    loads: Spanned<Vec<Spanned<String>>>,
    disks: Spanned<Vec<Spanned<String>>>,
    schedulers: Option<Spanned<Vec<Spanned<String>>>>,
    default: Option<Spanned<String>>,
    seeds: Option<Spanned<toml::Value>>,
    method: Option<Spanned<String>>,
    points: Option<Spanned<i64>>,
    objective: Option<Spanned<String>>,
    preference: Option<Spanned<String>>,
    #[serde(default)]
    replay: WrittenReplay,
    #[serde(default)]
    tunables: BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Spanned<toml::Value>>>,
    #[serde(default)]
    host: BTreeMap<Spanned<String>, Spanned<toml::Value>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenReplay {
    format: Option<String>,
    #[serde(default)]
    skip_bad: bool,
    #[serde(default)]
    closed: bool,
    speed: Option<Spanned<f64>>,
    fit: Option<Spanned<String>>,
}

/// Source text, for locations in error messages.
struct Text<'a> {
    text: &'a str,
    source: &'a str,
    /// The plan's folder, to which paths are relative.
    folder: &'a Path,
}

impl Text<'_> {
    /// File and line of a byte offset.
    fn at(&self, byte: usize) -> String {
        let before = &self.text.as_bytes()[..byte.min(self.text.len())];
        format!("{}:{}", self.source, before.iter().filter(|&&byte| byte == b'\n').count() + 1)
    }

    fn key<T>(&self, value: &Spanned<T>, key: &str) -> String {
        format!("{}: {key}", self.at(value.span().start))
    }

    /// Resolves a path relative to the plan's folder.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// Those of [`text`](Plan::text) and [`parse`](Plan::parse).
    pub fn read(path: &Path) -> anyhow::Result<Plan> {
        Plan::parse(&Plan::text(path)?, &path.to_string_lossy(), path.parent().unwrap_or(Path::new("")))
    }

    /// Reads a plan's text.
    ///
    /// # Errors
    /// The file cannot be read or is too large.
    pub fn text(path: &Path) -> anyhow::Result<String> {
        use std::io::Read;
        let source = path.to_string_lossy();
        let mut text = String::new();
        let file = std::fs::File::open(path).with_context(|| format!("{source}: cannot be read"))?;
        file.take(MAX_BYTES + 1).read_to_string(&mut text).with_context(|| format!("{source}: cannot be read"))?;
        ensure!(text.len() as u64 <= MAX_BYTES, "{source}: longer than {} MiB: that is no plan", MAX_BYTES >> 20);
        Ok(text)
    }

    /// Parses a plan. Errors call the text `source`; paths are relative to `folder`.
    ///
    /// # Errors
    /// A key or value is wrong: the message has the line, the key, the value and valid values.
    pub fn parse(text: &str, source: &str, folder: &Path) -> anyhow::Result<Plan> {
        let place = Text { text, source, folder };
        let written: Written = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or_else(|| source.to_owned(), |span| place.at(span.start));
            anyhow::anyhow!("{at}: {}", error.message().replace('\n', "; "))
        })?;
        let replay = replay(&place, &written.replay)?;
        let loads = loads(&place, &written.loads)?;
        let disks = disks(&place, &written.disks)?;
        let seeds = seeds(&place, written.seeds.as_ref())?;
        let method = method(&place, written.method.as_ref())?;
        let points = points(&place, written.points.as_ref(), method)?;
        let schedulers = schedulers(&place, written.schedulers.as_ref())?;
        let default = match &written.default {
            Some(text) => setting(&place, text, "default")?,
            None => regime::scheduler(regime::FOUND)?,
        };
        let tried = choices(&place, &written, &schedulers, method)?;
        let (objective, preference) = objective(&place, &written)?;
        let searched = Searched::new(&schedulers, &default, tried, points).with_context(|| source.to_owned())?;
        let settings = match method {
            Method::Grid => searched.grid(MAX_SETTINGS).with_context(|| source.to_owned())?,
            Method::Sobol => searched.sobol().with_context(|| source.to_owned())?,
            Method::Bayesian => Vec::new(),
        };
        // A search counts the default as its first point.
        let points = if method == Method::Bayesian { points } else { settings.len() };
        let plan = Plan {
            source: source.to_owned(),
            loads,
            disks,
            seeds,
            method,
            default,
            settings,
            searched,
            points,
            objective,
            preference,
            replay,
        };
        plan.expect_settable(&place, &written)?;
        let cases = [plan.disks.len(), plan.points, plan.seeds.len()]
            .iter()
            .try_fold(plan.loads.len() as u64, |product, &count| product.checked_mul(count as u64));
        ensure!(
            cases.is_some_and(|cases| cases <= MAX_CASES),
            "{source}: {} loads, {} disks, {} settings and {} seeds are more than {MAX_CASES} cases; give fewer values",
            plan.loads.len(),
            plan.disks.len(),
            plan.points,
            plan.seeds.len()
        );
        Ok(plan)
    }

    /// Rejects host tunables above the request queue if a load is a block trace, which bypasses them.
    fn expect_settable(&self, place: &Text, written: &Written) -> anyhow::Result<()> {
        let Some(trace) = self.loads.iter().find(|load| !load.is_jobs) else { return Ok(()) };
        let settable = testbed::trace::OF_THE_QUEUE;
        let meets = |name: &str| settable.contains(&name);
        let not_met = |name: &str| format!("a block trace, as {}, does not meet {name}; only {}", trace.name, settable.join(", "));
        for (name, value) in &written.host {
            let name = name.get_ref();
            ensure!(meets(name), "{}: {}", place.key(value, &format!("host.{name}")), not_met(name));
        }
        let named = self.settings.iter().chain([&self.default]).chain(self.searched.bases());
        for (name, _) in named.flat_map(|setting| &setting.host) {
            ensure!(meets(name), "{}: {}", self.source, not_met(name));
        }
        Ok(())
    }

    /// Number of cases.
    pub fn cases(&self) -> u64 {
        self.groups() * self.group_cases()
    }

    /// Cases of one load on one disk.
    pub(super) fn group_cases(&self) -> u64 {
        (self.points * self.seeds.len()) as u64
    }

    fn groups(&self) -> u64 {
        (self.loads.len() * self.disks.len()) as u64
    }

    /// The case of a number. Seeds vary fastest, then settings, disks and loads.
    pub fn case(&self, number: u64) -> Case {
        let count = |count: usize| count as u64;
        let (rest, seed) = (number / count(self.seeds.len()), number % count(self.seeds.len()));
        let (rest, point) = (rest / count(self.points), rest % count(self.points));
        let (load, disk) = (rest / count(self.disks.len()), rest % count(self.disks.len()));
        let index = |number: u64| number as usize;
        Case { number, load: index(load), disk: index(disk), point: index(point), seed: index(seed) }
    }

    /// Cases per task: one, or all of a load and disk if each depends on earlier results.
    pub(super) fn task_cases(&self) -> u64 {
        if self.method == Method::Bayesian { self.group_cases() } else { 1 }
    }

    /// Number of independent tasks.
    pub fn tasks(&self) -> u64 {
        self.cases() / self.task_cases()
    }

    /// The cases of a task.
    pub fn task(&self, number: u64) -> Range<u64> {
        let cases = self.task_cases();
        number * cases..(number + 1) * cases
    }

    /// Tasks in one file of the data set.
    fn part_tasks(&self) -> u64 {
        self.tasks().div_ceil(PARTS).clamp(1, (MAX_PART / self.task_cases()).max(1))
    }

    /// Number of files of the data set.
    pub fn parts(&self) -> u64 {
        self.tasks().div_ceil(self.part_tasks())
    }

    /// The tasks of a file.
    pub fn part(&self, number: u64) -> Range<u64> {
        let tasks = self.part_tasks();
        number * tasks..((number + 1) * tasks).min(self.tasks())
    }

    /// The number of the file that holds a case.
    pub(super) fn part_of(&self, case: u64) -> u64 {
        case / self.task_cases() / self.part_tasks()
    }
}

fn replay(place: &Text, written: &WrittenReplay) -> anyhow::Result<ReplayOptions> {
    let speed = match &written.speed {
        Some(speed) => {
            let value = *speed.get_ref();
            ensure!(SPEEDS.contains(&value), "{}: {value} should be from 0.000001 to 1000000", place.key(speed, "replay.speed"));
            value
        }
        None => 1.0,
    };
    let fit = match written.fit.as_ref().map(|fit| (fit, fit.get_ref().as_str())) {
        None | Some((_, "exact")) => Fit::Exact,
        Some((_, "compact")) => Fit::Compact,
        Some((fit, other)) => bail!("{}: {other:?} should be exact or compact", place.key(fit, "replay.fit")),
    };
    Ok(ReplayOptions {
        format: written.format.clone(),
        skip_bad: written.skip_bad,
        closed: written.closed,
        speed,
        fit,
        ..ReplayOptions::default()
    })
}

fn loads(place: &Text, written: &Spanned<Vec<Spanned<String>>>) -> anyhow::Result<Vec<PlannedLoad>> {
    let mut loads: Vec<PlannedLoad> = Vec::new();
    for text in written.get_ref() {
        let (name, of) = (text.get_ref(), || place.key(text, "loads"));
        let path = place.path(name);
        let found: Vec<PlannedLoad> = if path.is_dir() {
            let files = in_folders(std::slice::from_ref(&path)).with_context(of)?;
            let within = |file: &Path| {
                let file = file.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
                format!("{}/{file}", name.trim_end_matches('/'))
            };
            files.into_iter().map(|file| load(&within(&file), file)).collect::<anyhow::Result<_>>().with_context(of)?
        } else {
            let is_shipped = !path.exists() && shipped::find(name).is_some();
            vec![load(name, if is_shipped { PathBuf::from(name) } else { path }).with_context(of)?]
        };
        for load in found {
            ensure!(loads.iter().all(|other| other.path != load.path), "{}: {} is given twice; once is right", of(), load.name);
            loads.push(load);
        }
    }
    ensure!(!loads.is_empty(), "{}: is empty; name traces, folders of them, job files or workloads", place.key(written, "loads"));
    Ok(loads)
}

fn load(name: &str, path: PathBuf) -> anyhow::Result<PlannedLoad> {
    let is_jobs = shipped::job_text(&path)?.is_some();
    Ok(PlannedLoad { name: name.to_owned(), path, is_jobs })
}

fn disks(place: &Text, written: &Spanned<Vec<Spanned<String>>>) -> anyhow::Result<Vec<PlannedDisk>> {
    let mut disks: Vec<PlannedDisk> = Vec::new();
    for text in written.get_ref() {
        let (name, of) = (text.get_ref(), || place.key(text, "disks"));
        ensure!(disks.iter().all(|other| other.name != *name), "{}: {name} is given twice; once is right", of());
        // A profile file next to the plan, or a built-in profile.
        let file = place.path(name);
        let named = if file.is_file() { file.to_string_lossy().into_owned() } else { name.clone() };
        let world = Device::parse(&named).and_then(|device| device.world()).with_context(of)?;
        disks.push(PlannedDisk { name: name.clone(), world });
    }
    ensure!(!disks.is_empty(), "{}: is empty; name disks (`seekwise disk list`)", place.key(written, "disks"));
    Ok(disks)
}

fn seeds(place: &Text, written: Option<&Spanned<toml::Value>>) -> anyhow::Result<Vec<u64>> {
    let Some(value) = written else { return Ok(vec![1]) };
    match value.get_ref() {
        toml::Value::Integer(count @ 1..=10_000) => Ok((1..=count.unsigned_abs()).collect()),
        toml::Value::Array(list) if !list.is_empty() => {
            let mut seeds = Vec::new();
            for one in list {
                let seed = one.as_integer().and_then(|seed| u64::try_from(seed).ok());
                let seed =
                    seed.with_context(|| format!("{}: {one} should be a whole number from 0 on", place.key(value, "seeds")))?;
                ensure!(!seeds.contains(&seed), "{}: {seed} is given twice; once is right", place.key(value, "seeds"));
                seeds.push(seed);
            }
            Ok(seeds)
        }
        other => bail!(
            "{}: {other} should be a number of seeds from 1 to 10000, or a list of whole numbers from 0 on",
            place.key(value, "seeds")
        ),
    }
}

fn method(place: &Text, written: Option<&Spanned<String>>) -> anyhow::Result<Method> {
    let Some(value) = written else { return Ok(Method::Grid) };
    let named = METHODS.iter().find(|(name, _)| name == value.get_ref()).map(|(_, method)| *method);
    named.with_context(|| {
        let known = METHODS.map(|(name, _)| name);
        let meant = did_you_mean(value.get_ref(), known);
        format!("{}: {:?} should be one of {}{meant}", place.key(value, "method"), value.get_ref(), known.join(", "))
    })
}

fn points(place: &Text, written: Option<&Spanned<i64>>, method: Method) -> anyhow::Result<usize> {
    let Some(value) = written else { return Ok(POINTS as usize) };
    let of = || place.key(value, "points");
    ensure!(method != Method::Grid, "{}: is for the methods sobol and bayesian; a grid tries every combination", of());
    let most = if method == Method::Bayesian { 1000 } else { 65_536 };
    let number = *value.get_ref();
    ensure!((2..=most).contains(&number), "{}: {number} should be 2 to {most}", of());
    Ok(number as usize)
}

fn setting(place: &Text, text: &Spanned<String>, key: &str) -> anyhow::Result<Setting> {
    Setting::parse(text.get_ref()).with_context(|| format!("{} {}", place.key(text, key), text.get_ref()))
}

fn schedulers(place: &Text, written: Option<&Spanned<Vec<Spanned<String>>>>) -> anyhow::Result<Vec<Setting>> {
    let Some(list) = written else { return regime::schedulers(regime::USUAL) };
    let mut settings: Vec<Setting> = Vec::new();
    for text in list.get_ref() {
        let found = match text.get_ref().as_str() {
            "kernel" | "classic" | "all" => regime::schedulers(text.get_ref())?,
            _ => vec![setting(place, text, "schedulers")?],
        };
        for setting in found {
            ensure!(!settings.contains(&setting), "{}: {setting} is given twice; once is right", place.key(text, "schedulers"));
            settings.push(setting);
        }
    }
    ensure!(!settings.is_empty(), "{}: is empty; name schedulers (`seekwise scheduler list`)", place.key(list, "schedulers"));
    Ok(settings)
}

/// The candidate values of each varied tunable.
fn choices(place: &Text, written: &Written, schedulers: &[Setting], method: Method) -> anyhow::Result<Vec<Choice>> {
    let mut choices = Vec::new();
    for (scheduler, tunables) in &written.tunables {
        let name = scheduler.get_ref();
        let known = || schedulers.iter().map(|setting| setting.spec.name);
        let spec = schedulers.iter().find(|setting| setting.spec.name == name).map(|setting| setting.spec);
        let spec = spec.with_context(|| {
            let known: Vec<&str> = known().collect();
            let meant = did_you_mean(name, known.iter().copied());
            format!(
                "{}: is none of the plan's schedulers ({}){meant}",
                place.key(scheduler, &format!("tunables.{name}")),
                known.join(", ")
            )
        })?;
        for (key, value) in tunables {
            let path = format!("tunables.{name}.{}", key.get_ref());
            let tunable = declared(place, key, &path, spec.tunables)?;
            let choice = choice(place, (value, &path), (spec.name, tunable), method)?;
            choices.push(Choice { scheduler: Some(spec.name), ..choice });
        }
    }
    for (key, value) in &written.host {
        let path = format!("host.{}", key.get_ref());
        let tunable = declared(place, key, &path, HOST_TUNABLES)?;
        choices.push(choice(place, (value, &path), ("host", tunable), method)?);
    }
    if choices.is_empty() && method != Method::Grid {
        // Without named tunables, all tunables are searched.
        for setting in schedulers {
            let all = setting.spec.tunables.iter();
            choices.extend(all.map(|tunable| Choice::whole(Some(setting.spec.name), tunable)));
        }
    }
    Ok(choices)
}

fn declared(place: &Text, key: &Spanned<String>, path: &str, tunables: &'static [Tunable]) -> anyhow::Result<&'static Tunable> {
    tunables.iter().find(|tunable| tunable.name == key.get_ref()).with_context(|| {
        let known: Vec<&str> = tunables.iter().map(|tunable| tunable.name).collect();
        let meant = did_you_mean(key.get_ref(), known.iter().copied());
        format!("{}: there is no such tunable; known are {}{meant}", place.key(key, path), known.join(", "))
    })
}

fn choice(
    place: &Text,
    (value, path): (&Spanned<toml::Value>, &str),
    (owner, tunable): (&'static str, &'static Tunable),
    method: Method,
) -> anyhow::Result<Choice> {
    let of = || place.key(value, path);
    let read = |value: &toml::Value| -> anyhow::Result<i64> {
        let text = match value {
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        tunable.read(owner, &text).with_context(of)
    };
    let values = match value.get_ref() {
        toml::Value::Table(range) => {
            ensure!(
                method != Method::Grid,
                "{}: a range is for the methods sobol and bayesian; a grid takes a list of values, as [{}, {}]",
                of(),
                tunable.text(tunable.min),
                tunable.text(tunable.max)
            );
            let unknown = range.keys().find(|key| !["from", "to"].contains(&key.as_str()));
            ensure!(unknown.is_none(), "{}: {:?} should be from or to", of(), unknown.map_or("", String::as_str));
            let bound = |key: &str, usual: i64| range.get(key).map_or(Ok(usual), &read);
            let (from, to) = (bound("from", tunable.min)?, bound("to", tunable.max)?);
            ensure!(from < to, "{}: from {} should be less than to {}", of(), tunable.text(from), tunable.text(to));
            return Ok(Choice { scheduler: None, tunable, values: Vec::new(), range: (from, to) });
        }
        toml::Value::Array(list) => list.iter().map(read).collect::<anyhow::Result<Vec<i64>>>()?,
        one => vec![read(one)?],
    };
    ensure!(!values.is_empty(), "{}: is empty; give values", of());
    let twice = values.iter().enumerate().find(|(number, value)| values[..*number].contains(value));
    ensure!(
        twice.is_none(),
        "{}: {} is given twice; once is right",
        of(),
        twice.map_or(String::new(), |(_, value)| tunable.text(*value))
    );
    let range = (values.iter().copied().min().unwrap_or(tunable.min), values.iter().copied().max().unwrap_or(tunable.max));
    Ok(Choice { scheduler: None, tunable, values, range })
}

fn objective(place: &Text, written: &Written) -> anyhow::Result<(String, Preference)> {
    let objective = written.objective.as_ref().map_or(columns::SCORE, |objective| objective.get_ref());
    let known: Vec<&str> = columns::ranked().collect();
    if let Some(value) = &written.objective {
        ensure!(
            known.contains(&objective),
            "{}: {objective:?} should be one of {}{}",
            place.key(value, "objective"),
            known.join(", "),
            did_you_mean(objective, known.iter().copied())
        );
    }
    let preference = match &written.preference {
        Some(text) => {
            let of = || place.key(text, "preference");
            ensure!(objective == columns::SCORE, "{}: is for the objective score, and it is {objective}", of());
            text.get_ref().parse().map_err(|error| anyhow::anyhow!("{}: {error}", of()))?
        }
        None => Preference::default(),
    };
    Ok((objective.to_owned(), preference))
}
