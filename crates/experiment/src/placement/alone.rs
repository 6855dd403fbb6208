//! A volume alone on the disk that it was promised: what it gets there, and samples of what it asks for there.

use std::cell::Cell;

use block::rates::Rates;
use block::{Nanos, Roster, StreamId, Tenant};
use sim::host::Queue;
use sim::run::{Measure, Owner, RunError, ServerEvent, TenantMeasure, Tenants, Transferred, Watch, run};
use sim::store::{Place, Store};

use super::asks::{Asker, Askers};
use crate::tenants::Reference;

/// A group of contiguous slots of a volume.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Its requests in order of arrival. Times count from the sample's beginning, sectors from the volume's.
    pub requests: Vec<Sampled>,
    /// How long the sample lasts; as long for each volume.
    pub lasts: Nanos,
    /// Requests outstanding at once, at most.
    pub depth: usize,
}

/// A request of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Sampled {
    /// As it arrived.
    pub request: block::Request,
    /// For how long it keeps the volume's reference disk busy.
    pub reference: Nanos,
}

/// What it gets there until this time.
#[derive(Clone, Debug)]
pub struct OnReference {
    /// With the draws of all runs.
    pub first: TenantMeasure,
    /// With others, and on other sectors: how much the disk differs from itself by chance.
    pub again: TenantMeasure,
}

/// Where the volume begins when it runs again, if the disk has room: some dozen tracks from its place, and no whole number of them.
const SHIFT_SECTORS: u64 = 40_968;

/// Measures it, within the volume's limits.
///
/// # Errors
/// It was interrupted.
pub fn measure(
    asker: &Asker,
    (reference, rates): (&Reference, &Rates),
    seed: u64,
    until: Nanos,
    watch: &Watch,
) -> Result<OnReference, RunError> {
    let roster = roster_of(asker.volume);
    let run = |seed: u64, begin: u64| -> Result<TenantMeasure, RunError> {
        let (tenants, ..) = alone((asker, begin), reference.queue_within(rates), seed, until, &roster, watch)?;
        Ok(tenants.on_roster()[0].clone())
    };
    let room = reference.capacity_sectors().map_or(SHIFT_SECTORS, |capacity| capacity.saturating_sub(asker.sectors));
    Ok(OnReference { first: run(seed, 0)?, again: run(!seed, SHIFT_SECTORS.min(room))? })
}

/// Samples of what it asks for there, one after the other, each this long; shorter if those are very many requests.
///
/// # Errors
/// It was interrupted.
pub fn samples(
    asker: &Asker,
    reference: &Reference,
    seed: u64,
    (number, length): (usize, Nanos),
    watch: &Watch,
) -> Result<Vec<Sample>, RunError> {
    let mut queue = reference.queue();
    queue.record_events();
    let until = Nanos(length.0 * number as u64);
    let (_, notes, until) = alone((asker, 0), queue, seed, until, &roster_of(asker.volume), watch)?;
    let done = notes.iter().filter_map(|note| match note {
        ServerEvent::Finished(done) => Some(done),
        _ => None,
    });
    // A run of very many requests is shorter, and so are its samples.
    Ok(cut(done, number, Nanos(until.0 / number.max(1) as u64)))
}

fn roster_of(volume: usize) -> Roster {
    // One tenant with one stream has nothing to contradict.
    Roster::new(vec![Tenant::new("")], Vec::new(), &[(volume as StreamId, 0)], 1).unwrap_or_default()
}

fn alone(
    (asker, begin): (&Asker, u64),
    queue: Queue,
    seed: u64,
    until: Nanos,
    roster: &Roster,
    watch: &Watch,
) -> Result<(Tenants, Vec<ServerEvent>, Nanos), RunError> {
    let mut store = Store::new(vec![queue], vec![Place { array: 0, start: begin }; asker.volume + 1]);
    let until = Cell::new(until);
    let measure = Measure::new([]).by_tenant(Some(roster), Owner::Stream);
    let measure = run(Askers::new([asker.clone()], seed, &until), &mut store, measure, watch, None)?;
    let mut notes = Vec::new();
    store.queue_mut(0).take_events(&mut notes);
    let tenants = measure.tenants.map_or_else(|| Tenants::new(roster, Owner::Stream), |tenants| *tenants);
    Ok((tenants, notes, until.get()))
}

/// Requests in the order in which they were done, as samples. A request keeps the disk busy from the end of the one before, or from when it
/// came, until it is done.
fn cut<'a>(done: impl Iterator<Item = &'a Transferred>, number: usize, length: Nanos) -> Vec<Sample> {
    let mut samples = vec![Sample { requests: Vec::new(), lasts: length, depth: 0 }; number];
    let mut before = Nanos::ZERO;
    // By time, completions before arrivals: the sample, and whether one more is outstanding.
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
