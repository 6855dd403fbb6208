//! The report page of a trained model: distributions of its errors.

use report::curves::{Curves, Line, Plot, Quantity};

use super::errors::{Distribution, WINDOWS};
use super::{Judged, Trained};

/// The page of a model, for `report`.
pub fn page(trained: &Trained, version: &str) -> report::device_model::DeviceModel {
    let Trained { model, judged } = trained;
    let (tree, training) = (model.tree(), model.training());
    let summary = format!("a tree of {} leaves, {} deep, from {} requests", tree.leaves(), tree.depth(), training.requests);
    report::device_model::DeviceModel {
        name: model.name().to_owned(),
        seekwise_version: version.to_owned(),
        summary,
        curves: judged.iter().map(curves).collect(),
        text: model.text(),
    }
}

fn curves(judged: &Judged) -> Curves {
    let Judged { what, errors } = judged;
    let windows = |all: &[Distribution; 3]| {
        let named = WINDOWS.iter().zip(all).filter(|(_, errors)| errors.count > 0);
        named.map(|(length, errors)| line(&format!("windows of {} s", length.as_secs_f64()), errors)).collect::<Vec<_>>()
    };
    let mut alone = windows(&errors.windows);
    if errors.requests.count > 0 {
        alone.push(line("requests", &errors.requests));
    }
    let plots = [("one at a time", alone), ("several waiting", windows(&errors.queued))];
    let plots = plots.into_iter().filter(|(_, lines)| !lines.is_empty());
    Curves {
        id: String::new(),
        title: what.clone(),
        method: "The share of relative errors, without their sign, that are no larger. All above 100% stand at 100%.".to_owned(),
        x: Quantity::ErrorPercent,
        y: Quantity::SharePercent,
        plots: plots.map(|(name, lines)| Plot { name: name.to_owned(), lines }).collect(),
    }
}

/// A distribution as a line of a plot, from its quantiles.
pub fn line(name: &str, errors: &Distribution) -> Line {
    let last = errors.quantiles.len().saturating_sub(1).max(1) as f64;
    let point = |(number, error): (usize, &f64)| (100.0 * error.min(1.0), 100.0 * number as f64 / last);
    Line { name: name.to_owned(), points: errors.quantiles.iter().enumerate().map(point).collect() }
}
