//! Measures the demand of volumes on arrays: the entries of the planner's matrix.
//!
//! ```text
//! requests of each volume, with the time ─▶ alone on the array, at their own depth ──┐
//! that its reference disk takes for each    in turns with all other volumes ─────────┼─▶ need (crate::capacity) ─▶ Consumption
//!                                           deeper and deeper ─▶ saturation ─────────┘
//! ```
//! Volumes take turns by slots, as under the scheduler that keeps guarantees, so that each is charged for the seek to its data. The demand
//! is the cost measured that way, but no less than the cost alone. Whether a volume fits on an array also depends on the time that it needs
//! while it is active, where that is more ([`Need`]).

use std::sync::atomic::{AtomicBool, Ordering};

use block::{Merges, Nanos, Priority, Roster, StreamId, Tenant};
use progress::monitor::Interrupted;
use sim::host::{Queue, QueueSettings};
use sim::profile::{DeviceOptions, Profile};
use sim::run::{Finished, Issue, Server};
use testbed::pool::Workers;
use testbed::synthetic::Drawn;

use super::alone::{Sample, Sampled};
use super::array::ClusterArray;
use crate::capacity::{self, Extent, Need, Rates, Recorded, Saturation, saturation, serve};
use crate::planner::Consumption;
use crate::tenants::Reference;

/// Maximum number of requests per volume in the measurement by turns: enough for a mean within a percent.
const IN_TURNS: usize = 8_000;

/// A volume with samples of its requests.
#[derive(Clone, Debug)]
pub struct SampledVolume {
    /// Size in 512-byte sectors.
    pub sectors: u64,
    /// The reference disk of its guarantee; `None`: it takes up space, but reserves no time.
    pub reference: Option<Reference>,
    /// Samples of its workload, the same number for each volume.
    pub samples: Vec<Sample>,
}

/// Measures one matrix for each sample.
///
/// # Errors
/// It was interrupted.
pub fn consumptions(
    arrays: &[ClusterArray],
    volumes: &[SampledVolume],
    slot: Nanos,
    workers: Workers,
) -> anyhow::Result<Vec<Consumption>> {
    let pairs: Vec<(usize, usize)> =
        (0..arrays.len()).flat_map(|array| (0..volumes.len()).map(move |volume| (array, volume))).collect();
    let alone = workers.map("volumes on each array alone", &pairs, |&(array, volume)| {
        let offset = offset(&arrays[array].profile, volumes, volume);
        Ok(alone(&arrays[array].profile, &volumes[volume], offset, workers.monitor.stop())?)
    })?;
    let there =
        workers.map("volumes on their reference disks", volumes, |volume| Ok(on_reference(volume, workers.monitor.stop())?))?;
    let samples = volumes.iter().map(|volume| volume.samples.len()).min().unwrap_or(0);
    let rounds: Vec<(usize, usize)> = (0..samples).flat_map(|sample| (0..arrays.len()).map(move |array| (sample, array))).collect();
    let rows = workers.map("volumes on each array in turns", &rounds, |&(sample, array)| {
        let slots: Vec<Slots> = volumes.iter().map(|volume| Slots::new(&volume.samples[sample], slot)).collect();
        let work = in_turns(&arrays[array].profile, volumes, &slots, workers.monitor.stop())?;
        let need = |volume: usize| {
            let Some((saturation, here)) = alone[array * volumes.len() + volume] else { return 0.0 };
            let least = here.work_each();
            saturation.need(slots[volume].requests_per_s(), work[volume].max(least))
        };
        let needs: Vec<f64> = (0..volumes.len()).map(need).collect();
        let rates: Vec<f64> =
            volumes.iter().zip(&slots).map(|(volume, slots)| if volume.reference.is_some() { slots.rate() } else { 0.0 }).collect();
        Ok((needs, rates))
    })?;
    let time = |array: usize, volume: usize| {
        let here = alone[array * volumes.len() + volume].map(|(_, here)| here.service());
        here.zip(there[volume]).map_or(0.0, |(here, there)| Need::new(0.0, there.service(), here, 0.0).time)
    };
    let times: Vec<Vec<f64>> =
        (0..arrays.len()).map(|array| (0..volumes.len()).map(|volume| time(array, volume)).collect()).collect();
    let one = |rows: &[(Vec<f64>, Vec<f64>)]| {
        let rates = rows.first().map_or_else(Vec::new, |(_, rates)| rates.clone());
        Consumption::new(rows.iter().map(|(needs, _)| needs.clone()).collect(), rates).with_times(times.clone())
    };
    Ok(rows.chunks(arrays.len().max(1)).map(one).collect())
}

/// An array at rest, behind a queue with this merging.
fn on(profile: &Profile, merges: Merges) -> Queue {
    capacity::host(profile, DeviceOptions::default(), QueueSettings { merges, ..QueueSettings::default() })
}

/// Saturation of the array with requests like a volume's, and its service of them at the volume's own depth. `None` if the volume issues no
/// requests.
fn alone(
    profile: &Profile,
    volume: &SampledVolume,
    offset: u64,
    stop: &AtomicBool,
) -> Result<Option<(Saturation, Rates)>, Interrupted> {
    let Some(wanted) = recorded(volume, |drawn| placed(&drawn, offset, profile)).again() else { return Ok(None) };
    let own = serve(on(profile, Merges::All), wanted(), depth(volume), Extent::default(), stop)?;
    let saturation = saturation(|merges| on(profile, merges), wanted, &own, Extent::default(), stop)?;
    Ok(Some((saturation, own)))
}

/// The service of a volume's requests on its reference disk. `None` if it has none, or issues no requests.
fn on_reference(volume: &SampledVolume, stop: &AtomicBool) -> Result<Option<Rates>, Interrupted> {
    let (Some(reference), Some(wanted)) = (&volume.reference, recorded(volume, |drawn| drawn).again()) else { return Ok(None) };
    serve(reference.queue(), wanted(), depth(volume), Extent::default(), stop).map(Some)
}

fn recorded(volume: &SampledVolume, place: impl Fn(Drawn) -> Drawn) -> Recorded {
    let mut recorded = Recorded::default();
    for Sampled { request, .. } in volume.samples.iter().flat_map(|sample| &sample.requests) {
        recorded.push(place(Drawn { lba: request.lba, sectors: request.sectors, op: request.op }));
    }
    recorded
}

fn depth(volume: &SampledVolume) -> usize {
    volume.samples.iter().map(|sample| sample.depth).max().unwrap_or(1)
}

/// First sector of a volume if all were on this array: spread evenly over it, whatever their sizes.
fn offset(profile: &Profile, volumes: &[SampledVolume], number: usize) -> u64 {
    let sectors = profile.capacity_sectors();
    let every = sectors / volumes.len().max(1) as u64;
    (every * number as u64).min(sectors.saturating_sub(volumes[number].sectors))
}

/// Shifts a request of a volume by the volume's first sector. On an array too small for the volume the request is moved to the end.
fn placed(drawn: &Drawn, offset: u64, profile: &Profile) -> Drawn {
    let last = profile.capacity_sectors().saturating_sub(u64::from(drawn.sectors));
    Drawn { lba: drawn.lba.saturating_add(offset).min(last), ..*drawn }
}

/// A sample's requests by slots of the reference disk's time, by the clock of the paper's section III.B: it advances by each request's
/// time, and catches up with the wall clock where nothing waits. Requests that the reference disk would not have completed by the end of
/// the sample are left out: the guarantee does not cover them.
struct Slots {
    slots: Vec<Vec<Drawn>>,
    depth: usize,
    /// Time for which the requests keep the reference disk busy.
    busy: Nanos,
    lasts: Nanos,
}

impl Slots {
    fn new(sample: &Sample, slot: Nanos) -> Slots {
        let slot = slot.0.max(1);
        let (mut clock, mut last) = (0u64, None);
        let mut slots = Slots { slots: Vec::new(), depth: sample.depth.max(1), busy: Nanos::ZERO, lasts: sample.lasts };
        for Sampled { request, reference } in &sample.requests {
            clock = clock.max(request.arrival.0).saturating_add(reference.0);
            if clock > sample.lasts.0 {
                break;
            }
            slots.busy += *reference;
            let number = clock.saturating_sub(1) / slot;
            if last != Some(number) {
                slots.slots.push(Vec::new());
                last = Some(number);
            }
            if let Some(slot) = slots.slots.last_mut() {
                slot.push(Drawn { lba: request.lba, sectors: request.sectors, op: request.op });
            }
        }
        slots
    }

    /// Requests per second of the sample.
    fn requests_per_s(&self) -> f64 {
        let requests = self.slots.iter().map(Vec::len).sum::<usize>() as f64;
        if self.lasts > Nanos::ZERO { requests / self.lasts.as_secs_f64() } else { 0.0 }
    }

    /// The part of the sample's length for which the requests keep the reference disk busy, at most 1.
    fn rate(&self) -> f64 {
        if self.lasts > Nanos::ZERO { (self.busy.as_secs_f64() / self.lasts.as_secs_f64()).min(1.0) } else { 0.0 }
    }
}

/// Seconds of an array's work for a request of each volume when their slots take turns there; 0 if the array does not report work.
fn in_turns(profile: &Profile, volumes: &[SampledVolume], slots: &[Slots], stop: &AtomicBool) -> Result<Vec<f64>, Interrupted> {
    let tenants = (0..volumes.len()).map(|_| Tenant::new("")).collect();
    let streams: Vec<(StreamId, usize)> = (0..volumes.len()).map(|number| (number as StreamId, number)).collect();
    let mut queue = on(profile, Merges::All);
    // A roster of numbered streams without volumes cannot be contradictory.
    queue.set_roster(&Roster::new(tenants, Vec::new(), &streams, 1).unwrap_or_default());
    let mut turns = Turns { queue, now: Nanos::ZERO, outstanding: vec![0; volumes.len()], finished: Vec::new() };
    let mut served = vec![0_usize; volumes.len()];
    let rounds = slots.iter().map(|slots| slots.slots.len()).max().unwrap_or(0);
    for round in 0..rounds {
        let mut is_over = true;
        for (volume, slots) in slots.iter().enumerate() {
            let Some(slot) = slots.slots.get(round).filter(|_| served[volume] < IN_TURNS) else { continue };
            let offset = offset(profile, volumes, volume);
            for drawn in slot {
                turns.serve(volume, slots.depth - 1);
                turns.admit(volume, placed(drawn, offset, profile));
            }
            turns.serve(volume, slots.depth - 1);
            served[volume] += slot.len();
            is_over = false;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Interrupted);
        }
        if is_over {
            break;
        }
    }
    (0..volumes.len()).for_each(|volume| turns.serve(volume, 0));
    let work = |volume: usize| turns.queue.ledger().map_or(Nanos::ZERO, |ledger| ledger.work_of(volume));
    Ok((0..volumes.len())
        .map(|volume| if served[volume] > 0 { work(volume).as_secs_f64() / served[volume] as f64 } else { 0.0 })
        .collect())
}

/// An array that serves volumes in turns. Requests left outstanding at the end of a turn are served during the next, as in a shared queue.
struct Turns {
    queue: Queue,
    now: Nanos,
    outstanding: Vec<usize>,
    finished: Vec<Finished>,
}

impl Turns {
    fn admit(&mut self, volume: usize, Drawn { lba, sectors, op }: Drawn) {
        let (arrival, stream, priority) = (self.now, volume as StreamId, Priority::DEFAULT);
        self.queue.admit(self.now, Issue { arrival, lba, sectors, op, sync: true, stream, priority, token: 0 });
        self.outstanding[volume] += 1;
    }

    /// Serves until at most `left` requests of a volume are outstanding.
    fn serve(&mut self, volume: usize, left: usize) {
        while self.outstanding[volume] > left {
            self.queue.dispatch(self.now);
            let Some(next) = self.queue.next_event() else { return };
            self.now = self.now.max(next);
            self.queue.advance(self.now, &mut self.finished);
            for done in self.finished.drain(..) {
                self.outstanding[done.stream() as usize] -= 1;
            }
        }
    }
}
