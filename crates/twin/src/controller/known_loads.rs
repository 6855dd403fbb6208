//! The history of the device: its loads, and the scores of settings under them.

use std::collections::BTreeMap;

use control::ab_test::Estimate;
use control::experience::Experience;
use observe::Preference;
use observe::performance::Performance;
use observe::similarity::{ANOTHER, Columns, Point, load_distance};

use super::arm::is_significant_gain;

/// A part of a load in this device's history.
#[derive(Clone, Debug)]
pub struct KnownLoad {
    /// Its features.
    pub point: Point,
    /// The setting that was active.
    pub under: String,
    /// The score of each setting; `None` if it starved a stream.
    pub scores: BTreeMap<String, Option<f64>>,
}

/// The known loads of this device.
pub fn loads(experience: &Experience, device: &str, preference: &Preference) -> Vec<KnownLoad> {
    let columns = Columns::of(&experience.features);
    let cases = experience.cases.iter().filter(|case| case.device == device);
    let known = cases.filter_map(|case| {
        let served = experience.settings.iter().zip(&case.results);
        let score = |served: &Performance| (!served.starves).then(|| served.score(preference));
        Some(KnownLoad {
            point: columns.point(|column| case.features.get(column).copied().flatten().map(f64::from)),
            under: experience.settings.get(case.under)?.clone(),
            scores: served.filter_map(|(setting, served)| Some((setting.clone(), score(served.as_ref()?)))).collect(),
        })
    });
    known.collect()
}

/// The known loads similar to this one that were observed under the active setting.
pub fn alike<'a>(known: &'a [KnownLoad], point: &Point, active: &str) -> Vec<&'a KnownLoad> {
    known.iter().filter(|known| known.under == active && load_distance(&known.point, point) < ANOTHER).collect()
}

/// The mean gain of each setting over the active one under these loads, and its standard error; `None` if the setting is unknown, or
/// starved a stream under any of them.
pub fn gains(alike: &[&KnownLoad], active: &str, settings: impl Iterator<Item = String>) -> Vec<Option<(f64, f64)>> {
    let gain = |setting: String| {
        let measured = alike.iter().filter_map(|known| known.scores.get(&setting).zip(known.scores.get(active)));
        let gains: Option<Vec<f64>> = measured.map(|(score, now)| Some((*score)? - (*now)?)).collect();
        mean_and_error(&gains?)
    };
    settings.map(gain).collect()
}

/// The mean and its standard error, which is 0 for a single value; `None` without values.
fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    match values {
        [single] => Some((*single, 0.0)),
        _ => Estimate::of_values(values).map(|estimate| (estimate.mean, estimate.error)),
    }
}

/// Whether a gain with this error is significant and large enough for a change.
pub fn is_significant((gain, error): &(f64, f64)) -> bool {
    is_significant_gain(*gain, *error)
}
