//! Gathers rows: runs random loads, each on its own random device, under every setting that a model learns.

use std::fs::OpenOptions;
use std::io::{BufReader, Write as _};
use std::path::Path;

use anyhow::{Context, ensure};
use control::controller::Fixed;
use control::experience::WINDOW;
use control::gain_model::{LoadSummary, MIN_REQUESTS};
use control::{Setting, Window};
use experiment::chance;
use experiment::comparison::regime;
use experiment::pool::Workers;
use observe::merit::starves;
use observe::performance::stored_features;
use observe::{Preference, merit};
use progress::monitor::Monitor;

use super::rows::{Row, Rows, header};
use crate::evaluation::case::EvaluationCase;
use crate::evaluation::run::Run;
use crate::evaluation::scores::of_phase;
use crate::loads::{Scope, lesson};
use crate::worlds::{drawn, worlds};

/// The settings that a model learns: the kernel's four with default tunables, the default first, and the variants that are most often the best
/// over the training and the validation world (`seekwise-lab worth`). Every setting is another run of every load.
pub const SETTINGS: [&str; 7] =
    [regime::FOUND, "none", "kyber", "bfq", "mq-deadline:writes_starved=8", "bfq:slice_idle=0", "bfq:low_latency=0"];

/// Families of devices in turn: indices into the training world's families, of which the first is hard disks. These are the most frequent, as
/// gains are largest there and vary most with the drive.
const TURNS: [usize; 10] = [0, 3, 0, 2, 0, 1, 0, 3, 0, 2];
/// Divisor of the run time on flash, which serves more requests per second than a hard disk, with the same cost of simulation.
const FLASH_TIME: u32 = 2;

/// Initial seconds of a phase in which caches fill and schedulers learn; excluded from gains.
const SETTLES_S: f64 = 3.0;
/// Observation spans of a load, in seconds after the beginning of its phase, or before its end if negative. Under other settings than
/// the default only the second is used.
const SEEN_S: [(f64, f64); 3] = [(1.0, 3.0), (1.0, 6.0), (-5.0, -2.0)];
/// Gains are limited to a factor of e in either direction.
const MOST: f64 = 1.0;
/// Cases per thread between two writes: few, so that an interruption loses little.
const BATCH: u32 = 4;

/// Parameters of the gathering.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Number of loads, each on its own device.
    pub cases: u32,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Run time of each load.
    pub seconds: u32,
}

impl Recipe {
    /// Appends the rows of all cases to `path`, in order. Resumes an interrupted gathering: the last case of the file may be
    /// incomplete and is run again. Returns the number of cases that were run.
    ///
    /// # Errors
    /// The file belongs to another gathering or cannot be written, a case cannot be run, or the work was interrupted.
    pub fn gather(&self, path: &Path, workers: Workers) -> anyhow::Result<u32> {
        let name = path.display().to_string();
        let settings = SETTINGS.iter().map(|text| Setting::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let first = self.kept(path).with_context(|| name.clone())?;
        let mut file = OpenOptions::new().append(true).open(path).with_context(|| name.clone())?;
        workers.monitor.begin(u64::from(self.cases), "gathering gains, loads:");
        let mut next = first;
        while next < self.cases {
            workers.monitor.progress(u64::from(next));
            let end = (next + BATCH * workers.threads as u32).min(self.cases);
            let cases: Vec<u32> = (next..end).collect();
            let rows = workers.each(&cases, |case| {
                let rows = self.case(*case, &settings, workers.monitor);
                rows.with_context(|| format!("case {case} of seed {}", self.seed))
            })?;
            let mut writer = csv::Writer::from_writer(Vec::new());
            rows.iter().flatten().try_for_each(|row| writer.write_record(row.cells()))?;
            file.write_all(&writer.into_inner()?).with_context(|| name.clone())?;
            next = end;
        }
        workers.monitor.end();
        Ok(self.cases.saturating_sub(first))
    }

    /// Creates the file, or truncates it before its last case. Returns the number of the next case.
    fn kept(&self, path: &Path) -> anyhow::Result<u32> {
        let settings = SETTINGS.map(str::to_owned);
        let mut kept: Vec<Row> = Vec::new();
        if path.exists() {
            let rows = Rows::read(BufReader::new(whole_lines(path)?.as_slice()))?;
            ensure!(rows.settings == settings, "it has gains of {}", rows.settings.join(", "));
            let is_same = |row: &Row| row.seed == self.seed && row.seconds == self.seconds;
            if let Some(other) = rows.rows.iter().find(|row| !is_same(row)) {
                anyhow::bail!("it was gathered with --seed {} --seconds {}", other.seed, other.seconds);
            }
            let last = rows.rows.last().map_or(0, |row| row.case);
            kept = rows.rows.into_iter().filter(|row| row.case < last).collect();
        }
        let next = kept.last().map_or(0, |row| row.case + 1);
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(header(&settings))?;
        kept.iter().try_for_each(|row| writer.write_record(row.cells()))?;
        ::report::record::replace(path, &writer.into_inner()?)?;
        Ok(next)
    }

    /// The rows of a case; empty if nothing reaches the device.
    fn case(&self, number: u32, settings: &[Setting], monitor: &dyn Monitor) -> anyhow::Result<Vec<Row>> {
        let families = &worlds()?.learn.training_devices;
        let turn = TURNS[number as usize % TURNS.len()];
        let device = families.get(turn).with_context(|| format!("worlds.toml: training_devices has no family {turn}"))?;
        let world = drawn(device, self.seed, number)?;
        let mut random = chance::source("lesson", self.seed, number);
        let scope = Scope::of(&world, self.seconds);
        let seconds = if scope.is_flash { self.seconds / FLASH_TIME } else { self.seconds };
        let (load, programs) = lesson::draw(&mut random, &Scope { seconds, ..scope });
        let name = format!("lesson-{number}");
        let case = EvaluationCase::of_jobs(&name, &load.text, "lesson", device, world, load.phase_ends_s, self.seed)?;
        let mut runs = Vec::new();
        for setting in settings {
            let fixed = Box::new(Fixed::new(setting.clone(), WINDOW));
            let (run, steered) = Run::steered(&case, setting, fixed, false, None, monitor)?;
            runs.push((run, steered.steering().windows().to_vec()));
        }
        let mut rows = Vec::new();
        let mut from_s = 0.0;
        for (phase, (programs, &to_s)) in programs.iter().zip(&case.phase_ends_s).enumerate() {
            if let Some(gains) = gains(&case, &runs, phase, from_s + SETTLES_S, to_s) {
                for (setting, seen_s) in seen_under(number, runs.len()) {
                    let at = |seconds: f64| if seconds < 0.0 { to_s + seconds } else { (from_s + seconds).min(to_s) };
                    let (seen_from_s, seen_to_s) = (at(seen_s.0), at(seen_s.1));
                    let seen = seen(&runs[setting].1, seen_from_s, seen_to_s, to_s);
                    let Some(values) = seen.row(&settings[setting]) else { continue };
                    rows.push(Row {
                        seed: self.seed,
                        seconds: self.seconds,
                        case: number,
                        device: device.clone(),
                        load: programs.clone(),
                        phase: phase as u32,
                        under: settings[setting].to_string(),
                        from_s: seen_from_s,
                        to_s: seen_to_s,
                        requests: seen.requests(),
                        features: stored_features(values).into_iter().map(|value| value.unwrap_or(f32::NAN)).collect(),
                        gains: gains.iter().map(|(gain, _)| *gain).collect(),
                        starves: gains.iter().map(|(_, starves)| *starves).collect(),
                    });
                }
            }
            from_s = to_s;
        }
        Ok(rows)
    }
}

/// The content of the file up to its last complete line: a write may have been interrupted.
fn whole_lines(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = std::fs::read(path)?;
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    bytes.truncate(end);
    Ok(bytes)
}

/// Settings and spans at which a case is observed: the default at all spans, and two others in turn.
fn seen_under(number: u32, settings: usize) -> impl Iterator<Item = (usize, &'static (f64, f64))> {
    let others = [number as usize, number as usize + 1].map(|turn| (1 + turn % (settings - 1), &SEEN_S[1]));
    SEEN_S.iter().map(|seen_s| (0, seen_s)).chain(others)
}

/// Summary of the load between two times, extended up to the end of its phase if there are too few requests.
fn seen(windows: &[Window], from_s: f64, to_s: f64, ends_s: f64) -> LoadSummary {
    let mut summary = LoadSummary::default();
    for window in windows {
        let (from, to) = (window.from.as_secs_f64(), window.to.as_secs_f64());
        if from >= from_s && to <= ends_s && (to <= to_s || summary.requests() < MIN_REQUESTS) {
            summary.add(&window.features, &window.outcome);
        }
    }
    summary
}

/// Gain of each setting over the first in a part of a phase, and whether it starves a stream; `None` if nothing completed there.
fn gains(case: &EvaluationCase, runs: &[(Run, Vec<Window>)], phase: usize, from_s: f64, to_s: f64) -> Option<Vec<(f32, bool)>> {
    let preference = Preference::default();
    let score = |run: &Run| run.served(from_s, to_s).map(|served| served.score(&preference)).filter(|score| score.is_finite());
    let tails = |run: &Run| -> merit::Tails { of_phase(case, &run.tails, Some(phase)) };
    let (standard, _) = runs.first()?;
    let (of_default, standard) = (score(standard)?, tails(standard));
    let gain = |(run, _): &(Run, Vec<Window>)| {
        let gain = score(run).map_or(-MOST, |score| score - of_default).clamp(-MOST, MOST);
        ((gain * 1e4).round() as f32 / 1e4, starves(&tails(run), &standard))
    };
    Some(runs.iter().map(gain).collect())
}
