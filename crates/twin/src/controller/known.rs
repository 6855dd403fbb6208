//! What an experience knows of the device: which loads it had, and how settings served them.

use std::collections::BTreeMap;

use control::experience::Experience;
use observe::Preference;
use observe::merit::TOLERANCE;
use observe::performance::Performance;
use observe::similarity::{ANOTHER, Columns, Point, load_distance};

use super::SURE;

/// A stretch of a load that was lived through on this device.
#[derive(Clone, Debug)]
pub struct Known {
    /// Where it lies among loads.
    pub point: Point,
    /// The setting under which it looked like that.
    pub under: String,
    /// How each setting served it; `None` of one that starved a stream.
    pub scores: BTreeMap<String, Option<f64>>,
}

/// The loads of this device in an experience.
pub fn loads(experience: &Experience, device: &str, preference: &Preference) -> Vec<Known> {
    let columns = Columns::of(&experience.features);
    let cases = experience.cases.iter().filter(|case| case.device == device);
    let known = cases.filter_map(|case| {
        let served = experience.settings.iter().zip(&case.results);
        let score = |served: &Performance| (!served.starves).then(|| served.score(preference));
        Some(Known {
            point: columns.point(|column| case.features.get(column).copied().flatten().map(f64::from)),
            under: experience.settings.get(case.under)?.clone(),
            scores: served.filter_map(|(setting, served)| Some((setting.clone(), score(served.as_ref()?)))).collect(),
        })
    });
    known.collect()
}

/// By how much each of these settings served known loads like this one better than what is in force did, in the mean over all that is
/// known of them, and the error of that; `None` of one that is not known, or starved a stream in any of it.
pub fn gains(known: &[Known], point: &Point, in_force: &str, settings: impl Iterator<Item = String>) -> Vec<Option<(f64, f64)>> {
    let is_alike = |known: &&Known| known.under == in_force && load_distance(&known.point, point) < ANOTHER;
    let alike: Vec<&Known> = known.iter().filter(is_alike).collect();
    let gain = |setting: String| {
        let measured = alike.iter().filter_map(|known| known.scores.get(&setting).zip(known.scores.get(in_force)));
        let gains: Option<Vec<f64>> = measured.map(|(score, now)| Some((*score)? - (*now)?)).collect();
        mean_and_error(&gains?)
    };
    settings.map(gain).collect()
}

/// The mean, and its standard error: none of a single value.
fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = if values.len() > 1 { (squares / (count - 1.0) / count).sqrt() } else { 0.0 };
    (!values.is_empty()).then_some((mean, error))
}

/// Whether a gain is more than chance and worth a change.
pub fn is_sure((gain, error): &(f64, f64)) -> bool {
    *gain > TOLERANCE.max(SURE * error)
}
