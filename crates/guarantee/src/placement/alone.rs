//! A volume alone on its reference disk: its service there, and samples of its requests.

use std::cell::Cell;

use block::rates::Rates;
use block::{Nanos, Roster, StreamId, Tenant};
use sim::host::Queue;
use sim::run::{Measure, Owner, RunError, ServerEvent, TenantMeasure, Tenants, Transferred, Watch, run};
use sim::store::{Place, Store};

use super::asks::{Asker, Askers, EXTENT, RunLength};
use crate::tenants::Reference;

/// Requests of a volume within a period.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The requests in order of arrival. Times are relative to the start of the sample, sectors to that of the volume.
    pub requests: Vec<Sampled>,
    /// Length of the sample; the same for each volume.
    pub lasts: Nanos,
    /// Maximum number of requests outstanding at once.
    pub depth: usize,
}

/// A sampled request of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Sampled {
    /// The request as it arrived.
    pub request: block::Request,
    /// Time for which it keeps the volume's reference disk busy.
    pub reference: Nanos,
}

/// The service of a volume alone on its reference disk.
#[derive(Clone, Debug)]
pub struct OnReference {
    /// With the same random numbers as in all runs.
    pub first: TenantMeasure,
    /// With other random numbers, and on other sectors: the variation by chance.
    pub again: TenantMeasure,
}

/// First sector of the volume in the second run, if the disk has room: some dozen tracks further, and not a whole number of tracks.
const SHIFT_SECTORS: u64 = 40_968;

/// Measures the service within the volume's limits over this length.
///
/// # Errors
/// The run was interrupted.
pub fn measure(
    asker: &Asker,
    (reference, rates): (&Reference, &Rates),
    seed: u64,
    length: RunLength,
    watch: &Watch,
) -> Result<OnReference, RunError> {
    let roster = roster_of(asker.volume);
    let run = |seed: u64, begin: u64| -> Result<TenantMeasure, RunError> {
        let (tenants, ..) = alone((asker, begin), reference.queue_within(rates), seed, length, &roster, watch)?;
        Ok(tenants.on_roster()[0].clone())
    };
    let room = reference.capacity_sectors().map_or(SHIFT_SECTORS, |capacity| capacity.saturating_sub(asker.sectors));
    Ok(OnReference { first: run(seed, 0)?, again: run(!seed, SHIFT_SECTORS.min(room))? })
}

/// Consecutive samples of a volume's requests on its reference disk, each of this length; shorter if those are very many requests.
///
/// # Errors
/// The run was interrupted.
pub fn samples(
    asker: &Asker,
    reference: &Reference,
    seed: u64,
    (number, length): (usize, Nanos),
    watch: &Watch,
) -> Result<Vec<Sample>, RunError> {
    let mut queue = reference.queue();
    queue.record_events();
    let length = RunLength { until: Nanos(length.0 * number as u64), requests: EXTENT };
    let (_, notes, until) = alone((asker, 0), queue, seed, length, &roster_of(asker.volume), watch)?;
    let done = notes.iter().filter_map(|note| match note {
        ServerEvent::Finished(done) => Some(done),
        _ => None,
    });
    // A run with very many requests ends early, and its samples are shorter.
    Ok(cut(done, number, Nanos(until.0 / number.max(1) as u64)))
}

fn roster_of(volume: usize) -> Roster {
    // A roster of one tenant with one stream cannot be contradictory.
    Roster::new(vec![Tenant::new("")], Vec::new(), &[(volume as StreamId, 0)], 1).unwrap_or_default()
}

fn alone(
    (asker, begin): (&Asker, u64),
    queue: Queue,
    seed: u64,
    length: RunLength,
    roster: &Roster,
    watch: &Watch,
) -> Result<(Tenants, Vec<ServerEvent>, Nanos), RunError> {
    let mut store = Store::new(vec![queue], vec![Place { array: 0, start: begin }; asker.volume + 1]);
    let until = Cell::new(length.until);
    let measure = Measure::new([]).by_tenant(Some(roster), Owner::Stream);
    let measure = run(Askers::new([asker.clone()], seed, &until).within(length.requests), &mut store, measure, watch, None)?;
    let mut notes = Vec::new();
    store.queue_mut(0).take_events(&mut notes);
    let tenants = measure.tenants.map_or_else(|| Tenants::new(roster, Owner::Stream), |tenants| *tenants);
    Ok((tenants, notes, until.get()))
}

/// Divides requests into samples, given in order of completion. A request keeps the disk busy from the previous completion, or from its
/// arrival if that is later, until its own completion.
fn cut<'a>(done: impl Iterator<Item = &'a Transferred>, number: usize, length: Nanos) -> Vec<Sample> {
    let mut samples = vec![Sample { requests: Vec::new(), lasts: length, depth: 0 }; number];
    let mut before = Nanos::ZERO;
    // By time, completions before arrivals: the sample, and whether the number outstanding grows.
    let mut changes: Vec<(Nanos, bool, usize)> = Vec::new();
    for Transferred { issue, at, .. } in done {
        let reference = *at - before.max(issue.arrival);
        before = *at;
        let which = (issue.arrival.0 / length.0.max(1)) as usize;
        if let Some(sample) = samples.get_mut(which) {
            changes.extend([(issue.arrival, true, which), (*at, false, which)]);
            let arrival = Nanos(issue.arrival.0 - which as u64 * length.0);
            let (stream, op, sync, priority, sectors, lba) =
                (issue.stream, issue.op, issue.sync, issue.priority, issue.sectors, issue.lba);
            let request = block::Request { id: 0, stream, op, sync, priority, sectors, lba, arrival };
            sample.requests.push(Sampled { request, reference });
        }
    }
    changes.sort_unstable();
    let mut outstanding = 0_usize;
    for (_, is_more, which) in changes {
        outstanding = if is_more { outstanding + 1 } else { outstanding.saturating_sub(1) };
        samples[which].depth = samples[which].depth.max(outstanding);
    }
    for sample in &mut samples {
        sample.requests.sort_by_key(|sampled| sampled.request.arrival);
    }
    samples
}
