//! The order of service: how each scheduler ordered the same few requests.
//!
//! All requests by time and address look alike under every scheduler, because the load determines them. A scheduler determines the
//! order of neighbours, so the plot shows that, for the one stretch of the sample in which the orders differ most. Addresses are
//! ranked: by distance, one far away would press all others onto one line.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::panel::{Axis, Panel};
use super::scale::Scale;
use super::{COLOURS, SMALL, classes, label};
use crate::comparison::Comparison;
use crate::number::{self, grouped, three_digits};
use crate::record::{Record, STRETCH, SamplePoint};

const SECTOR_BYTES: f64 = 512.0;
/// Minimum number of requests in a stretch that show an order.
const LEAST: usize = 8;

/// The order of service in one stretch, under each scheduler.
pub(crate) struct Order {
    /// One panel per scheduler, all with the same axes.
    pub panels: Vec<String>,
    /// A description of the plot, as a sentence.
    pub shown: String,
}

/// One stretch under one scheduler, in the order in which its requests went to the disk.
type Served<'a> = Vec<&'a SamplePoint>;

/// The stretch in which two schedulers differ most in the number of addresses crossed. `None` if there is nothing to compare, or
/// they differ nowhere.
pub(crate) fn order(comparison: &Comparison) -> Option<Order> {
    let records = comparison.records();
    let stretches: Vec<BTreeMap<u64, Served>> = records.iter().map(stretches).collect();
    let (first, others) = stretches.split_first()?;
    let common = first.iter().filter_map(|(number, of_first)| {
        let all: Option<Vec<&Served>> = others.iter().map(|other| other.get(number)).collect();
        let all: Vec<&Served> = std::iter::once(of_first).chain(all?).collect();
        // In a closed loop a request may be missing that another scheduler's run had.
        let is_comparable = all.iter().all(|served| served.len() == of_first.len() && served.len() >= LEAST);
        is_comparable.then_some((*number, all))
    });
    let differ = |all: &[&Served]| {
        let ranks = Ranks::new(all);
        let crossed = all.iter().map(|served| ranks.crossed(served));
        let (least, most) = crossed.fold((u64::MAX, 0), |(least, most), way| (least.min(way), most.max(way)));
        most.saturating_sub(least)
    };
    let judged: Vec<(u64, u64, Vec<&Served>)> = common.map(|(number, all)| (differ(&all), number, all)).collect();
    let count_judged = judged.len() as u64;
    // Ties go to the first stretch.
    let best = judged.into_iter().filter(|(differ, ..)| *differ > 0).max_by_key(|(differ, number, _)| (*differ, Reverse(*number)));
    let (_, number, all) = best?;
    let (ranks, count) = (Ranks::new(&all), all.first()?.len());
    let x = Axis { scale: Scale::exact([1.0, count as f64].into_iter())?, title: "order of service", tick: number::short };
    let heights = [1.0, ranks.0.len().max(2) as f64];
    let y = Axis { scale: Scale::exact(heights.into_iter())?, title: "order of addresses", tick: number::short };
    let panels =
        records.iter().zip(&all).enumerate().map(|(i, (record, served))| panel(i, record, served, &ranks, &x, &y)).collect();
    let numbers = (grouped(number * STRETCH + 1), grouped((number + 1) * STRETCH));
    let which = if is_same(&all) { format!("The same {count} requests") } else { format!("{count} requests of each run") };
    let shown = format!(
        "{which}, issued one after another (of numbers {} to {}), from left to right in the order in \
         which they were sent to the disk, upwards in the order of their addresses. Of {} such stretches in the sample, it is the one in \
         which the ways between them differ most.",
        numbers.0,
        numbers.1,
        grouped(count_judged)
    );
    Some(Order { panels, shown })
}

fn panel(i: usize, record: &Record, served: &[&SamplePoint], ranks: &Ranks, x: &Axis, y: &Axis) -> String {
    let points = || served.iter().enumerate().map(|(place, point)| ((place + 1) as f64, ranks.of(point) as f64));
    let of = |read| served.iter().zip(points()).filter(move |(point, _)| point.read == read).map(|(_, at)| at);
    let mut panel = Panel::new(SMALL, x, Some(y));
    panel.line(&format!("way c{}", i % COLOURS), points().map(Some), "");
    panel.dots("write", of(false), "writes");
    panel.dots("read", of(true), "reads");
    let mean = statistics::mean(served.iter().map(|point| point.response_ms)).unwrap_or(0.0);
    let note = format!("{} GB total seek distance, mean {} ms", three_digits(way(served)), three_digits(mean));
    panel.finish(&classes(i), &label(record), &note, &format!("Order of service under {}: {note}.", label(record)))
}

/// The sample's requests by stretch, each in the order in which they went to the disk.
fn stretches(record: &Record) -> BTreeMap<u64, Served<'_>> {
    let mut stretches: BTreeMap<u64, Served> = BTreeMap::new();
    for point in &record.curves.sample {
        stretches.entry(point.number / STRETCH).or_default().push(point);
    }
    for served in stretches.values_mut() {
        served.sort_by(|a, b| a.dispatched_s.total_cmp(&b.dispatched_s).then(a.number.cmp(&b.number)));
    }
    stretches
}

/// Gigabytes of addresses between each request and the next, added up.
fn way(served: &[&SamplePoint]) -> f64 {
    served.windows(2).map(|pair| (gigabytes(pair[1].lba) - gigabytes(pair[0].lba)).abs()).sum()
}

/// The addresses of a stretch under all schedulers, ascending.
struct Ranks(Vec<u64>);

impl Ranks {
    fn new(all: &[&Served]) -> Ranks {
        let mut places: Vec<u64> = all.iter().flat_map(|served| served.iter().map(|point| point.lba)).collect();
        places.sort_unstable();
        places.dedup();
        Ranks(places)
    }

    /// From 1.
    fn of(&self, point: &SamplePoint) -> u64 {
        self.0.partition_point(|&place| place < point.lba) as u64 + 1
    }

    /// Total number of addresses between each request and the next.
    fn crossed(&self, served: &[&SamplePoint]) -> u64 {
        served.windows(2).map(|pair| self.of(pair[0]).abs_diff(self.of(pair[1]))).sum()
    }
}

/// Whether all schedulers served the same sectors. In a closed loop the order of issue may differ, and with it the meaning of a
/// number.
fn is_same(all: &[&Served]) -> bool {
    let sectors = |served: &Served| served.iter().map(|point| (point.number, point.lba)).collect::<BTreeSet<_>>();
    let mut sets = all.iter().map(|served| sectors(served));
    let first = sets.next();
    sets.all(|set| Some(&set) == first.as_ref())
}

fn gigabytes(lba: u64) -> f64 {
    lba as f64 * SECTOR_BYTES / 1e9
}
