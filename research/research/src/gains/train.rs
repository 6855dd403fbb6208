//! Trains a model, estimates its error on unseen devices, and evaluates choices based on it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;
use control::gain_model::{GainModel, Training, TrainingScore, mixture, stated_error};
use experiment::pool::Workers;
use observe::Preference;
use statistics::Rank;
use statistics::normal::ONE_SIDED_95;

use super::Rows;
use super::grow::{Forest, Growth};

/// Number of groups of devices, each held out once.
const FOLDS: u32 = 5;
/// Maximum trees of a forest for evaluation only: their number hardly affects the mean.
const TREES_TO_JUDGE: u32 = 40;
/// Fractions of the cases for the learning curve.
const CURVE: [(&str, u32); 3] = [("1/8", 8), ("1/4", 4), ("1/2", 2)];
/// Number of intervals of the variance over which the error is fitted.
const STEPS: usize = 20;
/// Minimum error of a predicted gain: the difference between two runs of the same load with different random numbers.
const MIN_ERROR: f64 = 0.01;
/// Loss assigned to a chosen setting that starves a stream, instead of its gain (as in `seekwise-lab worth`). Predictions do not include it: a
/// trial ends when a stream waits beyond its bound, long before it costs that much.
const STARVED: f64 = 0.5;
/// Minimum predicted gain for a setting to be chosen.
const CHOSEN: f64 = observe::merit::TOLERANCE;

/// A held-out row. By setting: prediction with the variance of the mixture, and actual gains.
struct Held<'a> {
    expected: Vec<(f64, f64)>,
    gains: &'a [f32],
    starves: &'a [bool],
}

/// Trains a model on all rows.
///
/// # Errors
/// There are too few cases, or the work was interrupted.
pub fn train(rows: &Rows, growth: &Growth, workers: Workers) -> anyhow::Result<GainModel> {
    let cases = rows.cases() as u32;
    ensure!(cases >= 10 * FOLDS, "{cases} cases are too few: at least {} are needed", 10 * FOLDS);
    let all: Vec<usize> = (0..rows.rows.len()).collect();
    workers.monitor.begin(5 + CURVE.len() as u64, "training:");
    let forest = growth.grow(rows, &all, workers)?;
    let error = fit_error(&out_of_bag(rows, &forest));
    let mut scores = vec![score("drives", &by_device(rows, growth, 1, workers)?, rows, error, cases * (FOLDS - 1) / FOLDS)];
    workers.monitor.progress(2);
    let (held, trained) = by_program(rows, growth, workers)?;
    scores.push(score("programs of loads", &held, rows, error, trained));
    for (done, (name, share)) in CURVE.into_iter().enumerate() {
        workers.monitor.progress(3 + done as u64);
        let held = by_device(rows, growth, share, workers)?;
        scores.push(score(&format!("drives, with {name} of the cases"), &held, rows, error, cases * (FOLDS - 1) / FOLDS / share));
    }
    workers.monitor.end();
    let count = |of: &dyn Fn(&super::Row) -> Vec<String>| {
        let mut counts: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        rows.rows.iter().for_each(|row| {
            of(row).into_iter().for_each(|name| {
                counts.entry(name).or_default().insert(row.case);
            })
        });
        counts.into_iter().map(|(name, cases)| (name, cases.len() as u32)).collect::<Vec<_>>()
    };
    let mean = |setting: usize| rows.rows.iter().map(|row| f64::from(row.gains[setting])).sum::<f64>() / rows.rows.len() as f64;
    let training = Training {
        commands: commands(rows, growth),
        cases,
        rows: rows.rows.len() as u32,
        devices: count(&|row| vec![row.device.clone()]),
        programs: count(&|row| programs(&row.load).map(str::to_owned).collect()),
        mean_gains: (0..rows.settings.len()).map(|setting| short(mean(setting))).collect(),
        scores,
    };
    Ok(GainModel { preference: Preference::default(), settings: rows.settings.clone(), trees: forest.trees, error, training })
}

/// The commands that reproduce the model.
fn commands(rows: &Rows, growth: &Growth) -> Vec<String> {
    let (seed, seconds) = rows.rows.first().map_or((0, 0), |row| (row.seed, row.seconds));
    let cases = rows.rows.last().map_or(0, |row| row.case + 1);
    let Growth { trees, min_rows, seed: drawn_from, .. } = growth;
    vec![
        format!("seekwise-lab learn gains gather --cases {cases} --seed {seed} --seconds {seconds} --output rows.csv"),
        format!(
            "seekwise-lab learn gains train rows.csv --trees {trees} --min-rows {min_rows} --seed {drawn_from} --output gain-model.json.zst"
        ),
    ]
}

fn programs(load: &str) -> impl Iterator<Item = &str> {
    load.split('+')
}

/// Rounds to four decimal places.
fn short(value: f64) -> f32 {
    (value * 1e4).round() as f32 / 1e4
}

fn row_of(rows: &Rows, row: usize) -> Vec<f64> {
    rows.rows[row].features.iter().map(|value| f64::from(*value)).collect()
}

/// Predictions for each row by the trees whose sample does not contain its case.
fn out_of_bag<'a>(rows: &'a Rows, forest: &Forest) -> Vec<Held<'a>> {
    let held = |index: usize| {
        let row = &rows.rows[index];
        let without = forest.trees.iter().zip(&forest.cases).filter(|(_, cases)| cases.binary_search(&row.case).is_err());
        let expected = mixture(without.map(|(tree, _)| tree), rows.settings.len(), &row_of(rows, index));
        (!expected.is_empty()).then_some(Held { expected, gains: &row.gains, starves: &row.starves })
    };
    (0..rows.rows.len()).filter_map(held).collect()
}

/// Predictions for each row by a forest of one `share`th of the cases in other folds.
fn by_device<'a>(rows: &'a Rows, growth: &Growth, share: u32, workers: Workers) -> anyhow::Result<Vec<Held<'a>>> {
    let growth = Growth { trees: growth.trees.min(TREES_TO_JUDGE), ..*growth };
    let mut held = Vec::new();
    for fold in 0..FOLDS {
        let is_trained = |case: u32| case % FOLDS != fold && (case / FOLDS).is_multiple_of(share);
        let (trained, out) = parts(rows, |row| is_trained(row.case), |row| row.case % FOLDS == fold);
        held.extend(predicted(rows, &growth.grow(rows, &trained, workers)?, &out));
    }
    Ok(held)
}

/// Predictions for each program's loads by a forest of the cases without it; and the mean number of these cases.
fn by_program<'a>(rows: &'a Rows, growth: &Growth, workers: Workers) -> anyhow::Result<(Vec<Held<'a>>, u32)> {
    let growth = Growth { trees: growth.trees.min(TREES_TO_JUDGE), ..*growth };
    let names: BTreeSet<&str> = rows.rows.iter().flat_map(|row| programs(&row.load)).collect();
    let (mut held, mut cases) = (Vec::new(), 0);
    for name in &names {
        let mut with: BTreeMap<u32, bool> = BTreeMap::new();
        rows.rows.iter().for_each(|row| *with.entry(row.case).or_default() |= programs(&row.load).any(|program| program == *name));
        let has = |row: &super::Row| with.get(&row.case).copied().unwrap_or(false);
        // Rows with several programs count once: for the first of them.
        let is_out = |row: &super::Row| programs(&row.load).next() == Some(name);
        let (trained, out) = parts(rows, |row| !has(row), is_out);
        if trained.is_empty() {
            continue;
        }
        cases += with.values().filter(|has| !**has).count();
        held.extend(predicted(rows, &growth.grow(rows, &trained, workers)?, &out));
    }
    Ok((held, (cases / names.len().max(1)) as u32))
}

fn parts(rows: &Rows, is_trained: impl Fn(&super::Row) -> bool, is_out: impl Fn(&super::Row) -> bool) -> (Vec<usize>, Vec<usize>) {
    let all = || rows.rows.iter().enumerate();
    let trained = all().filter(|(_, row)| is_trained(row)).map(|(index, _)| index).collect();
    (trained, all().filter(|(_, row)| is_out(row)).map(|(index, _)| index).collect())
}

fn predicted<'a>(rows: &'a Rows, forest: &Forest, out: &[usize]) -> Vec<Held<'a>> {
    let held = |&index: &usize| Held {
        expected: mixture(forest.trees.iter(), rows.settings.len(), &row_of(rows, index)),
        gains: &rows.rows[index].gains,
        starves: &rows.rows[index].starves,
    };
    out.iter().map(held).collect()
}

/// Fits the squared error as a linear function of the mixture's variance, using the 90th percentile of the error in each interval.
fn fit_error(held: &[Held]) -> [f64; 2] {
    let of_row = |held: &Held| -> Vec<(f64, f64)> {
        let pairs = held.expected.iter().zip(held.gains).skip(1);
        pairs.map(|((mean, variance), gain)| (*variance, (f64::from(*gain) - mean).abs())).collect()
    };
    let mut all: Vec<(f64, f64)> = held.iter().flat_map(of_row).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let step = all.len().div_ceil(STEPS).max(1);
    let points: Vec<(f64, f64)> = all
        .chunks(step)
        .map(|chunk| {
            let mut errors: Vec<f64> = chunk.iter().map(|(_, error)| *error).collect();
            let most = Rank::Above.of(&mut errors, 0.9).unwrap_or(0.0);
            (statistics::mean(chunk.iter().map(|(variance, _)| *variance)).unwrap_or(0.0), (most / ONE_SIDED_95).powi(2))
        })
        .collect();
    // The slope from the minimum error: by median ratio, so that small variances matter as much as large ones.
    let least = MIN_ERROR * MIN_ERROR;
    let ratios = points.iter().filter(|(variance, _)| *variance > least);
    let mut ratios: Vec<f64> = ratios.map(|(variance, squared)| ((squared - least) / variance).max(0.0)).collect();
    let slope = Rank::Above.of(&mut ratios, 0.5).unwrap_or(1.0);
    [least, (slope * 1e3).round() / 1e3]
}

fn score(held_out: &str, held: &[Held], rows: &Rows, error: [f64; 2], cases: u32) -> TrainingScore {
    let count = held.len().max(1) as f64;
    let mean = |of: &dyn Fn(&Held) -> f64| held.iter().map(of).sum::<f64>() / count;
    let gain = |held: &Held, setting: usize| f64::from(held.gains[setting]);
    let judged = |held: &Held, setting: usize| match held.starves[setting] {
        true => gain(held, setting).min(0.0) - STARVED,
        false => gain(held, setting),
    };
    let chosen = |held: &Held| {
        let best = (1..held.expected.len()).max_by(|a, b| held.expected[*a].0.total_cmp(&held.expected[*b].0));
        best.filter(|best| held.expected[*best].0 > CHOSEN).unwrap_or(0)
    };
    let settings = 0..rows.settings.len();
    let means: Vec<f64> = settings.clone().map(|setting| mean(&|held| gain(held, setting))).collect();
    let constants: Vec<f64> = settings.clone().map(|setting| mean(&|held| judged(held, setting))).collect();
    let constant = settings.clone().max_by(|a, b| constants[*a].total_cmp(&constants[*b])).unwrap_or(0);
    let of_all = |of: &dyn Fn(&Held, usize) -> f64| {
        mean(&|held| settings.clone().skip(1).map(|setting| of(held, setting)).sum::<f64>()) / (settings.len() - 1).max(1) as f64
    };
    let is_within = |held: &Held, setting: usize| {
        let (expected, variance) = held.expected[setting];
        f64::from(u8::from((gain(held, setting) - expected).abs() <= ONE_SIDED_95 * stated_error(error, variance)))
    };
    TrainingScore {
        held_out: held_out.to_owned(),
        cases,
        chosen: short(mean(&|held| judged(held, chosen(held)))),
        best: short(mean(&|held| settings.clone().map(|setting| judged(held, setting)).fold(0.0, f64::max))),
        constant: rows.settings[constant].clone(),
        constant_gain: short(constants[constant]),
        error: short(of_all(&|held, setting| (gain(held, setting) - held.expected[setting].0).powi(2)).sqrt()),
        error_of_mean: short(of_all(&|held, setting| (gain(held, setting) - means[setting]).powi(2)).sqrt()),
        within_90: short(of_all(&is_within)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use crate::gains::Row;
    use control::gain_model::names;
    use progress::monitor::Quiet;
    use rand::Rng as _;

    /// One setting gains 0.3 where the first feature is above a half, and loses as much elsewhere; the gain of the other is noise.
    fn rows(cases: u32) -> Rows {
        let mut random = experiment::chance::source("rows", 1, 0);
        let mut rows = Vec::new();
        for case in 0..cases {
            let (x, noise): (f32, f32) = (random.random(), random.random());
            let gains = vec![0.0, if x > 0.5 { 0.3 } else { -0.3 }, 0.4 * (noise - 0.5)];
            let load = if case % 2 == 0 { "writing" } else { "pairs+writing" };
            for _ in 0..4 {
                let mut features = vec![f32::NAN; names().len()];
                (features[0], features[1]) = (x, random.random());
                rows.push(Row {
                    seed: 1,
                    seconds: 20,
                    case,
                    device: "drawn:desktop".to_owned(),
                    load: load.to_owned(),
                    phase: 0,
                    under: "mq-deadline".to_owned(),
                    from_s: 1.0,
                    to_s: 3.0,
                    requests: 100,
                    features,
                    gains: gains.clone(),
                    starves: vec![false; 3],
                });
            }
        }
        Rows { settings: ["mq-deadline", "bfq", "none"].map(str::to_owned).to_vec(), rows }
    }

    fn trained(threads: usize) -> GainModel {
        // All features but two are missing: a split must consider these.
        let growth = Growth { trees: 20, features: 1.0, ..Growth::default() };
        train(&rows(200), &growth, Workers::new(&Quiet::default(), Some(threads))).unwrap()
    }

    #[test]
    fn a_rule_is_learned_with_the_error_that_it_has_whatever_the_number_of_threads() {
        let model = trained(1);
        assert_eq!(model, trained(3));
        let mut row = vec![f64::NAN; names().len()];
        row[0] = 0.9;
        let gains = model.expect(&row);
        assert!(gains[1].mean > 0.25 && gains[2].mean.abs() < 0.1, "{gains:?}");
        assert!(gains[1].error < gains[2].error && gains[2].error > 0.05, "{gains:?}");
        let score = &model.training.scores[0];
        assert!(score.within_90 > 0.85 && score.error < 0.5 * score.error_of_mean && score.chosen > 0.14, "{score:?}");
        assert_eq!(model.training.programs, [("pairs".to_owned(), 100), ("writing".to_owned(), 200)]);
    }

    #[test]
    fn the_shipped_model_expects_gains_within_bounds_and_no_larger_ones_than_were_seen() {
        let model = experiment::gain_model::load(None).unwrap();
        assert_eq!(model.settings, crate::gains::gather::SETTINGS);
        let mut random = experiment::chance::source("rows", 2, 0);
        for _ in 0..100 {
            let row: Vec<f64> = names().iter().map(|_| random.random::<f64>() * 4.0 - 0.5).collect();
            let gains = model.expect(&row);
            assert!(
                gains[0].mean == 0.0 && gains.iter().all(|gain| gain.mean.abs() <= 1.0 && (0.0..1.0).contains(&gain.error)),
                "{gains:?}"
            );
        }
        assert!(model.training.scores.iter().all(|score| score.within_90 > 0.8), "{:?}", model.training.scores);
    }
}
