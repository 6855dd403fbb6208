//! Scenarios: all tenants at once, each with a load that may break the guarantees of others.
//!
//! ```text
//! list, likeliest to break first ─▶ one after the other, several at once ─▶ up to the first that breaks a guarantee twice
//!                                          │
//!                                          └─▶ each tenant alone on its reference disk: once for each load, remembered
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use block::Nanos;
use block::rates::{Rate, Rates};
use control::Setting;
use report::guarantee::ScenarioFigures;
use testbed::chance;
use testbed::pool::{Unseen, Workers};

use super::neighbours::{self, KINDS, Kind};
use super::{Candidate, GuaranteeRequest, Hardest};
use crate::placement::{Asks, Cluster, ClusterArray, ClusterVolume, OnReference, PROMISES, RunLength, got};
use crate::planner::Assignment;

/// Number of scenarios in which each tenant has a random load.
const DRAWN: u32 = 12;
/// Minimum budget of a run in requests, of which a large one counts as several: it ends runs on flash, where a second has very many.
const REQUESTS: u64 = 200_000;
/// Budget for each tenant.
const REQUESTS_EACH: u64 = 20_000;
/// Budget of the run that confirms a broken guarantee: over tenths of a second, a reference disk serves few requests.
const REQUESTS_TO_CONFIRM: u64 = 1_000_000;

/// Budget of a first run.
fn budget(candidates: &[Candidate]) -> u64 {
    (REQUESTS_EACH * candidates.len() as u64).clamp(REQUESTS, REQUESTS_TO_CONFIRM)
}

/// A load for each tenant, all at once.
struct Scenario {
    name: String,
    /// For each tenant its load, in words and as a workload.
    loads: Vec<(String, Asks)>,
}

/// The scenarios, in the order in which they run: each has the worst pattern of its own, then every tenant is a bad neighbour of each kind
/// in turn, then all are the same bad neighbour at once if `is_oversold`, and then each has a random load.
fn list(
    request: &GuaranteeRequest,
    candidates: &[Candidate],
    is_oversold: bool,
    kinds: &[Hardest],
) -> anyhow::Result<Vec<Scenario>> {
    let load = |kind: &Kind| (kind.name.to_owned(), kind.asks());
    let neighbours = |name: String, kind: &dyn Fn(usize) -> &'static Kind| {
        let loads = (0..candidates.len()).map(|number| load(kind(number))).collect();
        Scenario { name, loads }
    };
    let worst = |candidate: &Candidate| {
        let kind = candidate.worst.map(|kind| &kinds[kind].worst.kind);
        kind.map_or_else(|| load(&KINDS[0]), |kind| (kind.text.clone(), kind.asks()))
    };
    let mut all =
        vec![Scenario { name: "each has the worst-case pattern".to_owned(), loads: candidates.iter().map(worst).collect() }];
    all.extend((0..KINDS.len()).map(|turn| {
        let name = format!("{} and others after it, the first tenant first", KINDS[turn].name);
        neighbours(name, &|number| &KINDS[(number + turn) % KINDS.len()])
    }));
    if candidates.len() < 2 {
        return Ok(all);
    }
    if is_oversold {
        all.extend(KINDS.iter().map(|kind| neighbours(format!("all have {}", kind.name), &|_| kind)));
    }
    for number in 0..DRAWN {
        let mut random = chance::source("drawn loads", request.seed, number);
        let loads = candidates.iter().map(|_| neighbours::drawn(&mut random)).collect::<anyhow::Result<_>>()?;
        all.push(Scenario { name: format!("each has a load that is drawn, draw {}", number + 1), loads });
    }
    Ok(all)
}

/// Which scenarios to run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which<'a> {
    /// All, in their order.
    All,
    /// All, those with these names first.
    First(&'a [String]),
    /// Those with these names, to narrow a search: a broken guarantee is confirmed with the budget of a first run.
    Only(&'a [String]),
}

/// Runs scenarios, and remembers the tenants' runs alone: these do not depend on the host, so the searches for headroom and remedies
/// repeat them.
pub(super) struct Simulator<'a> {
    /// The threads.
    pub workers: Workers<'a>,
    scheduler: Setting,
    /// By reference disk, limits, size, load, seed and length.
    alone: Mutex<BTreeMap<String, Arc<OnReference>>>,
}

impl<'a> Simulator<'a> {
    /// # Errors
    /// The scheduler is not there.
    pub(super) fn new(workers: Workers<'a>) -> anyhow::Result<Simulator<'a>> {
        Ok(Simulator { workers, scheduler: Setting::parse(PROMISES)?, alone: Mutex::default() })
    }

    /// Runs the scenarios up to the first that breaks a guarantee, which is the last of the result. Those in which all are bad neighbours
    /// of the same kind run only if `is_oversold`.
    ///
    /// # Errors
    /// It was interrupted, or the tenants do not fit on the host.
    pub(super) fn scenarios(
        &self,
        request: &GuaranteeRequest,
        (candidates, is_oversold): (&[Candidate], bool),
        kinds: &[Hardest],
        (which, lasts): (Which, Nanos),
    ) -> anyhow::Result<Vec<ScenarioFigures>> {
        let mut all = list(request, candidates, is_oversold, kinds)?;
        match which {
            Which::All => {}
            Which::First(names) => all.sort_by_key(|scenario| !names.contains(&scenario.name)),
            Which::Only(names) => all.retain(|scenario| names.contains(&scenario.name)),
        }
        let to_confirm = if matches!(which, Which::Only(_)) { budget(candidates) } else { REQUESTS_TO_CONFIRM };
        // Each thread takes the next of the list, so that all before a broken one run: the result is the same for any number of threads.
        let (next, first_broken) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        let ran = self.workers.map("scenarios with bad neighbours", &all, |_| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number > first_broken.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let figures = self.confirmed(&all[number], request, candidates, (lasts, to_confirm))?;
            if figures.is_broken() {
                first_broken.fetch_min(number, Ordering::Relaxed);
            }
            Ok(Some((number, figures)))
        })?;
        let mut ran: Vec<(usize, ScenarioFigures)> = ran.into_iter().flatten().collect();
        ran.sort_by_key(|(number, _)| *number);
        ran.truncate(first_broken.into_inner().saturating_add(1));
        Ok(ran.into_iter().map(|(_, figures)| figures).collect())
    }

    /// Whether one of the scenarios with these names breaks a guarantee with other random numbers.
    ///
    /// # Errors
    /// Those of [`Simulator::scenarios`].
    pub(super) fn breaks_again(
        &self,
        request: &GuaranteeRequest,
        candidates: &[Candidate],
        kinds: &[Hardest],
        named: &[String],
        lasts: Nanos,
    ) -> anyhow::Result<bool> {
        let seed = request.seed.wrapping_add(2);
        for scenario in list(request, candidates, true, kinds)?.iter().filter(|scenario| named.contains(&scenario.name)) {
            if self.run(scenario, (request, seed), candidates, (lasts, REQUESTS_TO_CONFIRM))?.is_broken() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs a scenario; if a guarantee is broken, runs it again for twice as long. Returns the second run with the guarantees that are
    /// broken in both.
    fn confirmed(
        &self,
        scenario: &Scenario,
        request: &GuaranteeRequest,
        candidates: &[Candidate],
        (lasts, to_confirm): (Nanos, u64),
    ) -> anyhow::Result<ScenarioFigures> {
        let first = self.run(scenario, (request, request.seed), candidates, (lasts, budget(candidates)))?;
        if !first.is_broken() {
            return Ok(first);
        }
        let length = (lasts + lasts, to_confirm);
        let mut second = self.run(scenario, (request, request.seed.wrapping_add(1)), candidates, length)?;
        for (before, tenant) in first.tenants.iter().zip(&mut second.tenants) {
            if before.broken.is_empty() {
                tenant.broken.clear();
            }
        }
        Ok(second)
    }

    fn run(
        &self,
        scenario: &Scenario,
        (request, seed): (&GuaranteeRequest, u64),
        candidates: &[Candidate],
        (lasts, requests): (Nanos, u64),
    ) -> anyhow::Result<ScenarioFigures> {
        let unseen = Unseen(self.workers.monitor);
        let within = Workers { monitor: &unseen, threads: 1 };
        let cluster = cluster(request, candidates, &scenario.loads, seed);
        let on: Assignment = cluster.assignment();
        let length = RunLength { until: lasts, requests };
        let ran = cluster.live(&on, None, &self.scheduler, length, within)?;
        let length = RunLength { until: ran.until, ..length };
        let tenants = (0..cluster.volumes.len()).map(|volume| {
            let alone = self.alone(&cluster, volume, length, within)?;
            Ok(got(&cluster, &on, volume, &ran.volumes[volume], alone.as_deref()))
        });
        let tenants = tenants.collect::<anyhow::Result<Vec<_>>>()?;
        let does = scenario.loads.iter().map(|(text, _)| text.clone()).collect();
        Ok(ScenarioFigures { name: scenario.name.clone(), lasts_s: ran.until.as_secs_f64(), does, tenants })
    }

    /// A volume alone on its reference disk, simulated once; `None` if it has none.
    fn alone(
        &self,
        cluster: &Cluster,
        volume: usize,
        length: RunLength,
        within: Workers,
    ) -> anyhow::Result<Option<Arc<OnReference>>> {
        let ClusterVolume { reference, rates, sectors, asks, .. } = &cluster.volumes[volume];
        let Some(reference) = reference else { return Ok(None) };
        // Two runs with the same key are the same to the byte, so it does not matter which thread is first.
        let key = format!("{reference} {rates:?} {volume} {sectors} {asks:?} {} {length:?}", cluster.seed);
        let known = self.alone.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let ran = cluster.alone(&[volume], length, within)?.pop().flatten().map(Arc::new);
        if let Some(ran) = &ran {
            self.alone.lock().unwrap_or_else(PoisonError::into_inner).insert(key, ran.clone());
        }
        Ok(ran)
    }
}

/// The host with all tenants, each with its load.
fn cluster(request: &GuaranteeRequest, candidates: &[Candidate], loads: &[(String, Asks)], seed: u64) -> Cluster {
    let host = ClusterArray { name: request.host.name().to_owned(), profile: request.host.clone(), capacity: 1.0 };
    let volumes = candidates.iter().zip(loads).map(|(candidate, (_, asks))| ClusterVolume {
        name: candidate.promise.name.clone(),
        sectors: candidate.sectors,
        reference: candidate.reference.clone(),
        // A reservation is enforced as a reference disk here.
        rates: Rates { reservation: Rate::default(), ..candidate.promise.rates },
        asks: asks.clone(),
        on: Some(0),
    });
    Cluster { arrays: vec![host], volumes: volumes.collect(), seed }
}
