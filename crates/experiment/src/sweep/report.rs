//! Report of a sweep: the best setting for each load and disk, with its gain over the default.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::ensure;
use serde::Serialize;
use statistics::{percent, sample};

use super::columns;
use super::output::{Stored, part_name};
use super::table;

/// The best setting for a load on a disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Best {
    /// The load.
    pub load: String,
    /// The disk.
    pub disk: String,
    /// The setting with the highest mean over the seeds.
    pub setting: String,
    /// Mean objective under the default over the seeds; `None` without values.
    pub default_value: Option<f64>,
    /// Mean objective under the best setting over the seeds; `None` without values.
    pub value: Option<f64>,
    /// By how much it is better than the default, mean over the seeds, in percent. Chosen and measured on the same seeds, so it is the
    /// more flattered the more settings were tried.
    pub gain_percent: f64,
    /// 95% confidence interval of that mean, by Student's t over the seeds; `None` with one seed, or if the runs of all seeds are identical:
    /// these do not show how much the gain varies.
    pub interval_percent: Option<(f64, f64)>,
    /// The gain on each seed of the setting that is best on the others, mean, in percent: not flattered. `None` with fewer than three,
    /// or if the runs of all seeds are identical.
    pub held_out_percent: Option<f64>,
    /// Seeds with a value under both settings.
    pub seeds: usize,
    /// Settings compared.
    pub settings: usize,
}

/// A sweep's results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The figure by which settings are ranked.
    pub objective: String,
    /// Baseline setting.
    pub default: String,
    /// Cases in the data set.
    pub cases: u64,
    /// Cases of the plan.
    pub of: u64,
    /// Cases that could not be run.
    pub failed: u64,
    /// Loads and disks in the plan's order.
    pub best: Vec<Best>,
}

/// Gains by seed.
type Gains = [(i64, f64)];
/// Merits by seed.
type Merits = BTreeMap<i64, f64>;

/// Results of a load on a disk: merits and sums of values by setting, in case order.
#[derive(Default)]
struct Group {
    settings: Vec<(String, Merits, Vec<f64>)>,
}

impl Report {
    /// Reads the data set of a folder, which may be incomplete.
    ///
    /// # Errors
    /// The folder holds no sweep or no data files, or a file is damaged.
    pub fn read(folder: &Path, objective: Option<&str>) -> anyhow::Result<Report> {
        let stored = Stored::read(folder)?;
        let objective = objective.unwrap_or(&stored.objective);
        let known: Vec<&str> = columns::ranked().collect();
        ensure!(
            known.contains(&objective),
            "--objective {objective}: should be one of {}{}",
            known.join(", "),
            block::did_you_mean(objective, known.iter().copied())
        );
        let mut groups: Vec<((String, String), Group)> = Vec::new();
        let (mut cases, mut failed) = (0, 0);
        for part in 0..stored.parts {
            let path = folder.join(part_name(part));
            if !path.is_file() {
                continue;
            }
            for read in table::read(&path, objective)? {
                cases += 1;
                failed += u64::from(read.error.is_some());
                let key = (read.load, read.disk);
                if groups.last().is_none_or(|(last, _)| *last != key) {
                    groups.push((key, Group::default()));
                }
                let Some((_, group)) = groups.last_mut() else { continue };
                let place = group.settings.iter().position(|(setting, ..)| *setting == read.setting);
                let place = place.unwrap_or_else(|| {
                    group.settings.push((read.setting, Merits::new(), Vec::new()));
                    group.settings.len() - 1
                });
                let (_, merits, values) = &mut group.settings[place];
                if let Some(merit) = columns::merit_of(objective, read.value)
                    && merits.insert(read.seed, merit).is_none()
                {
                    values.extend(read.value);
                }
            }
        }
        ensure!(cases > 0, "{}: has no finished file yet; run the sweep on", folder.display());
        let best = groups.into_iter().filter_map(|((load, disk), group)| best(load, disk, &group, &stored.default)).collect();
        Ok(Report { objective: objective.to_owned(), default: stored.default, cases, of: stored.cases, failed, best })
    }

    /// Formats the report as a table.
    pub fn text(&self) -> String {
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
        let heading = ["load", "disk", "best setting", "default", "best", "gain", "95% interval", "held out"].map(str::to_owned);
        let mut rows = vec![heading];
        let mut has_identical = false;
        for best in &self.best {
            has_identical |= best.seeds > 1 && best.interval_percent.is_none();
            let interval = best.interval_percent.map_or_else(|| "-".to_owned(), |(low, high)| format!("{low:+.1} to {high:+.1}%"));
            let held_out = best.held_out_percent.map_or_else(|| "-".to_owned(), |gain| format!("{gain:+.1}%"));
            rows.push([
                report::printable(&best.load).to_string(),
                report::printable(&best.disk).to_string(),
                best.setting.clone(),
                number(best.default_value),
                number(best.value),
                format!("{:+.1}%", best.gain_percent),
                interval,
                held_out,
            ]);
        }
        let mut text = aligned(&rows, &[3, 4, 5, 6, 7]);
        text += &format!("\nBy {}, against {}; {} of {} cases", self.objective, self.default, self.cases, self.of);
        if self.failed > 0 {
            text += &format!(", {} of which could not be run (column error)", self.failed);
        }
        text += ".\n";
        if has_identical {
            text += "No interval where the runs of all seeds are identical: these do not show how much the gain varies.\n";
        }
        text
    }
}

/// Formats rows as a table. The columns in `numbers` are right-aligned.
pub(super) fn aligned<const N: usize>(rows: &[[String; N]], numbers: &[usize]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            line += &if numbers.contains(&column) { format!("{pad}{cell}  ") } else { format!("{cell}{pad}  ") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn best(load: String, disk: String, group: &Group, default: &str) -> Option<Best> {
    let (_, base, base_values) = group.settings.iter().find(|(setting, ..)| setting == default)?;
    // No baseline: the load cannot run on this disk.
    if base.is_empty() {
        return None;
    }
    let gains = |merits: &Merits| -> Vec<(i64, f64)> {
        merits.iter().filter_map(|(seed, merit)| Some((*seed, merit - base.get(seed)?))).collect()
    };
    let all: Vec<(usize, Vec<(i64, f64)>)> = group
        .settings
        .iter()
        .map(|(_, merits, _)| gains(merits))
        .enumerate()
        .filter(|(_, gains)| gains.len() == base.len())
        .collect();
    // Ties go to the first setting, which is the default or the simpler one.
    let first = |score: &dyn Fn(&Gains) -> f64| {
        let scored = all.iter().map(|(number, gains)| (*number, score(gains)));
        scored.fold(None, |best: Option<(usize, f64)>, one| if best.is_some_and(|best| best.1 >= one.1) { best } else { Some(one) })
    };
    let (number, gain) = first(&|gains| mean(gains.iter().map(|(_, gain)| *gain)))?;
    let of_best = &all.iter().find(|(other, _)| *other == number)?.1;
    let varies = |merits: &Merits| merits.values().zip(merits.values().skip(1)).any(|(one, next)| one != next);
    let held_out = (base.len() >= 3 && group.settings.iter().any(|(_, merits, _)| varies(merits))).then(|| {
        let left_out = base.keys().filter_map(|left_out| {
            let others = |gains: &Gains| mean(gains.iter().filter(|(seed, _)| seed != left_out).map(|(_, gain)| *gain));
            let (chosen, _) = first(&others)?;
            let (_, gains) = all.iter().find(|(other, _)| *other == chosen)?;
            gains.iter().find(|(seed, _)| seed == left_out).map(|(_, gain)| *gain)
        });
        percent(mean(left_out))
    });
    let (setting, merits, values) = &group.settings[number];
    let average = |values: &[f64]| sample::mean(values.iter().copied());
    Some(Best {
        load,
        disk,
        setting: setting.clone(),
        default_value: average(base_values),
        value: average(values),
        gain_percent: percent(gain),
        interval_percent: sample::mean_and_margin(&of_best.iter().map(|(_, gain)| *gain).collect::<Vec<f64>>())
            .filter(|_| varies(base) || varies(merits))
            .map(|(_, half)| (percent(gain - half), percent(gain + half))),
        held_out_percent: held_out,
        seeds: of_best.len(),
        settings: group.settings.len(),
    })
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    sample::mean(values).unwrap_or(f64::NAN)
}
