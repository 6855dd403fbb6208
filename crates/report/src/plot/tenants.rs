//! Each tenant's throughput over time, next to the one that it has alone on its reference disk.

use super::panel::{Axis, Panel};
use super::scale::Scale;
use super::{SMALL, binned, classes, label};
use crate::comparison::Comparison;
use crate::number;
use crate::record::{Record, TenantCurve, TenantFigures};
use crate::tenants::{promised, shown};
use crate::text::printable;

/// Maximum number of tenants to draw.
const TENANTS: usize = 12;

/// A tenant's panels, one for each scheduler, all with the same axes.
pub(crate) struct TenantPanels {
    /// Its name.
    pub name: String,
    /// Its guarantee.
    pub promised: String,
    /// The panels.
    pub panels: Vec<String>,
}

/// The tenants of the first record; if there are too many, those with a broken guarantee first.
pub(crate) fn tenants(comparison: &Comparison) -> Vec<TenantPanels> {
    let first = comparison.records().first().and_then(|record| record.tenants.as_ref());
    let shown = first.map(shown).unwrap_or_default();
    shown.into_iter().take(TENANTS).filter_map(|tenant| of_tenant(comparison, tenant)).collect()
}

fn of_tenant(comparison: &Comparison, tenant: &TenantFigures) -> Option<TenantPanels> {
    let runs: Vec<(usize, &Record, &TenantFigures)> = comparison
        .records()
        .iter()
        .enumerate()
        .filter_map(|(number, record)| {
            let tenants = &record.tenants.as_ref()?.tenants;
            Some((number, record, tenants.iter().find(|other| other.name == tenant.name)?))
        })
        .collect();
    let values = runs.iter().flat_map(|(_, _, tenant)| here(&tenant.curve).into_iter().chain(there(&tenant.curve))).flatten();
    let points: Vec<(f64, f64)> = values.collect();
    let end = points.iter().map(|point| point.0).fold(0.0, f64::max);
    let x = Axis { scale: Scale::exact([0.0, end].into_iter())?, title: "time, s", tick: number::short };
    let y = Axis { scale: Scale::from_zero(points.iter().map(|point| point.1))?, title: "throughput, MB/s", tick: number::short };
    let panel = |(number, record, tenant): (usize, &Record, &TenantFigures)| {
        let mut panel = Panel::new(SMALL, &x, Some(&y));
        panel.line("others", there(&tenant.curve).into_iter(), "alone on its reference disk");
        panel.line(&format!("c{}", number % super::COLOURS), here(&tenant.curve).into_iter(), &label(record));
        let note = if tenant.broken.is_empty() { "kept" } else { "broken" };
        let description =
            format!("Throughput over time of {} under {}: guarantees {note}.", printable(&tenant.name), label(record));
        panel.finish(&classes(number), &label(record), note, &description)
    };
    let panels = runs.into_iter().map(panel).collect();
    Some(TenantPanels { name: printable(&tenant.name), promised: promised(tenant), panels })
}

fn mean(bin: &[f64]) -> Option<f64> {
    statistics::mean(bin.iter().copied())
}

fn here(curve: &TenantCurve) -> Vec<Option<(f64, f64)>> {
    binned(&curve.throughput_mb_s, curve.bin_s, mean)
}

fn there(curve: &TenantCurve) -> Vec<Option<(f64, f64)>> {
    binned(&curve.reference_mb_s, curve.bin_s, mean)
}
