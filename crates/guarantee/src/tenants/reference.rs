//! The reference disk of a tenant: the guarantee is to be served never worse than on it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail, ensure};
use block::rates::{Rate, Rates};
use block::tenants::{ConstantTime, ServiceModel};
use block::{Merges, Nanos, Roster, Tenant};
use device_model::device::DeviceModel;
use sim::host::{Ledger, Queue, QueueSettings, RunSummary};
use sim::profile::Profile;
use sim::reference::ReferenceDisk;
use sim::run::{Owner, Pilot, RunError, Served, TenantMeasure, Tenants, Watch};
use testbed::learned;
use testbed::load::{Draws, Load};
use testbed::world::World;

use crate::capacity::{self, Extent, Need, Recorded, Service, serve_with_neighbour};
use crate::reference_disk::{reference_disk, spec};

/// Prefix of a device with the same service time for every request: `constant:request_ms=10,mb_s=20`.
const CONSTANT: &str = "constant:";

/// File name extension of a learned device.
const MODEL: &str = ".json";

/// The scheduler that enforces limits on a reference disk. It serves a lone tenant in arrival order, as without a scheduler.
const LIMITS: &str = "youchoose";

/// Sectors of a modelled disk without a capacity.
const ANY_CAPACITY: u64 = 1 << 54;

/// A reference disk.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The specification as it was given.
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// A disk as named by `--disk`.
    Disk(Profile),
    /// A learned device model (`seekwise disk learn`).
    Model(DeviceModel),
    /// The same time for every request: plain bounds of throughput and response time.
    Constant(ConstantTime),
}

impl PartialEq for Reference {
    fn eq(&self, other: &Reference) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Reference {
    /// Reads a disk as named by `--disk`, the file of a learned device (`.json`), or `constant:request_ms=10,mb_s=20` with at least one of
    /// its two keys.
    ///
    /// # Errors
    /// There is no such disk, its file cannot be read, or a figure is wrong.
    pub fn parse(text: &str) -> anyhow::Result<Reference> {
        let kind = match text.strip_prefix(CONSTANT) {
            Some(figures) => Kind::Constant(constant(figures).with_context(|| text.to_owned())?),
            None if text.ends_with(MODEL) => Kind::Model(learned::load(Path::new(text))?),
            None => Kind::Disk(sim::profile::load(text)?),
        };
        Ok(Reference { text: text.to_owned(), kind })
    }

    /// The disk of this profile.
    pub fn of(profile: &Profile) -> Reference {
        Reference { text: profile.name().to_owned(), kind: Kind::Disk(profile.clone()) }
    }

    /// The disk as named by `--disk`.
    ///
    /// # Errors
    /// It has no profile, so jobs and traces cannot run on it.
    pub fn disk(&self) -> anyhow::Result<String> {
        ensure!(self.profile().is_some(), "{}: only a disk can be asked by jobs or a trace", self.text);
        Ok(self.text.clone())
    }

    /// The disk's profile; `None` for a learned or constant device.
    pub fn profile(&self) -> Option<&Profile> {
        match &self.kind {
            Kind::Disk(profile) => Some(profile),
            Kind::Model(_) | Kind::Constant(_) => None,
        }
    }

    /// Its capacity in sectors; `None` if unlimited.
    pub fn capacity_sectors(&self) -> Option<u64> {
        match &self.kind {
            Kind::Disk(profile) => Some(profile.capacity_sectors()),
            Kind::Model(model) => Some(model.capacity_sectors()),
            Kind::Constant(_) => None,
        }
    }

    /// The disk behind a queue, both at rest.
    pub fn queue(&self) -> Queue {
        self.shadow().queue()
    }

    /// [`Reference::queue`] with the tenant's own limits enforced, so that throughput lost to its own limit is not attributed to others.
    pub fn queue_within(&self, rates: &Rates) -> Queue {
        let Some(limits) = block::find(LIMITS).filter(|_| rates.is_limited()) else { return self.queue() };
        let shadow = self.shadow();
        let mut queue = shadow.queue_under((limits.build)(&QueueSettings::default().limits(), &limits.defaults()));
        let tenant = Tenant::new("").with_rates(Rates { reservation: Rate::default(), ..*rates });
        // A roster of one tenant with one volume cannot be contradictory.
        let roster = Roster::new(vec![tenant], vec![(0..queue.capacity_sectors(), 0)], &[], 1);
        queue.set_roster(&roster.unwrap_or_default());
        queue
    }

    /// The tenant's private reference disk, behind a queue without a scheduler.
    fn shadow(&self) -> ReferenceDisk {
        let settings = QueueSettings::default();
        match &self.kind {
            Kind::Disk(profile) => reference_disk(profile, settings),
            Kind::Model(model) => modelled(Arc::new(model.clone()), model.capacity_sectors(), settings),
            Kind::Constant(constant) => modelled(Arc::new(*constant), ANY_CAPACITY, settings),
        }
    }

    /// The model of its service times for schedulers.
    ///
    /// # Errors
    /// There is no model of such a disk.
    pub fn model(&self) -> anyhow::Result<Arc<dyn ServiceModel>> {
        Ok(Arc::new(self.shadow()))
    }
}

/// The service that a tenant gets alone.
#[derive(Clone, Debug)]
pub struct Alone {
    /// On its reference disk.
    pub reference: TenantMeasure,
    /// On the reference disk with other random numbers: the variation by chance.
    pub again: TenantMeasure,
    /// On the disk that it shares with others.
    pub here: TenantMeasure,
    /// The part of that disk that the tenant needs for its guarantee.
    pub need: Need,
}

/// Runs a tenant's load alone, on its reference disk and on the disk of this world.
///
/// # Errors
/// It was interrupted, or the load failed.
pub fn alone(
    load: &dyn Load,
    roster: &Roster,
    tenant: usize,
    reference: &Reference,
    world: &World,
    watch: &Watch,
) -> Result<Alone, RunError> {
    let run =
        |queue: Queue, draws: Draws, pilot: Option<&mut dyn Pilot>| load.run_tenant(roster, tenant, queue, draws, watch, pilot);
    let rates = roster.tenants().get(tenant).map_or_else(Rates::default, |tenant| tenant.rates);
    let there = run(reference.queue_within(&rates), Draws::OfTheRun, None)?;
    let again = others(run(reference.queue_within(&rates), Draws::Others, None)?);
    let (settings, mut recorded) = (world.host.queue(), Recorded::default());
    let on_host = |merges| capacity::host(&world.profile, world.device, QueueSettings { merges, ..settings });
    let mut host = on_host(settings.merges);
    // The ledger of an empty roster counts the work of the whole device.
    host.set_roster(&Roster::default());
    let here = run(host, Draws::OfTheRun, Some(&mut recorded))?;
    let work = here.ledger.as_ref().map_or(Nanos::ZERO, Ledger::work);
    let (reference, here) = (others(there), others(here));
    let names = load.names();
    let mut streams = names.iter().flat_map(|name| load.streams_of(name));
    let is_shared = roster.tenants().len() > 1 || streams.any(|stream| roster.owner_of_stream(stream) != Some(tenant));
    let neighbour = is_shared.then(|| world.profile.capacity_sectors());
    let need = need((&reference, &here), work, &recorded, on_host, neighbour, watch)?;
    Ok(Alone { reference, again, here, need })
}

/// The part of the host needed to serve a tenant like its reference disk. `work` is the host's work for the service `here`, `recorded` its
/// requests at the device. `neighbour`: the capacity in sectors over which another tenant's requests are spread, if there is one.
fn need(
    (reference, here): (&TenantMeasure, &TenantMeasure),
    work: Nanos,
    recorded: &Recorded,
    on_host: impl Fn(Merges) -> Queue,
    neighbour: Option<u64>,
    watch: &Watch,
) -> Result<Need, RunError> {
    let count: fn(&Served) -> u64 = if reference.served.bytes > 0 { |served| served.bytes } else { |served| served.requests };
    let served = count(&here.served) as f64;
    let (Some(wanted), true) = (recorded.again(), served > 0.0 && reference.wanted > Nanos::ZERO) else {
        return Ok(Need::default());
    };
    let never = AtomicBool::new(false);
    let stop = watch.stop.unwrap_or(&never);
    // Requests and work of the device for each unit that the tenant got, at the reference disk's pace.
    let requests = recorded.count() as f64;
    let seconds = here.wanted.as_secs_f64();
    let rate = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
    let own = capacity::Rates { requests: rate(requests), bytes: rate(served), work: rate(work.as_secs_f64()), p99: here.p99() };
    let interrupted = |_| RunError::Interrupted;
    let saturation = capacity::saturation(&on_host, &wanted, &own, Extent::default(), stop).map_err(interrupted)?;
    let mut cost_s = own.work_each();
    if let Some(sectors) = neighbour {
        let shared = serve_with_neighbour(on_host(Merges::All), wanted(), recorded.depth(), sectors, Extent::default(), stop);
        cost_s = cost_s.max(shared.map_err(interrupted)?.work_each());
    }
    let pace = count(&reference.served) as f64 / reference.wanted.as_secs_f64() * requests / served;
    let need = Need::new(saturation.need(pace, cost_s), service(reference), service(here), cost_s);
    Ok(need.times(activity(reference)))
}

fn service(measure: &TenantMeasure) -> Service {
    Service { iops: measure.iops(), p99_s: measure.p99().as_secs_f64() }
}

/// Mean activity relative to the most active second, at most 1: bursts longer than a second need as much as a load without pauses.
fn activity(measure: &TenantMeasure) -> f64 {
    let mut seconds = measure.timeline.clone();
    seconds.widen_to(Nanos::from_millis(1_000));
    let most = seconds.bins().iter().map(|bin| bin.requests).max().unwrap_or(0) as f64;
    (most / seconds.width().as_secs_f64() / measure.iops()).min(1.0)
}

/// A reference disk whose service times come from a model.
fn modelled(model: Arc<dyn ServiceModel>, capacity_sectors: u64, settings: QueueSettings) -> ReferenceDisk {
    ReferenceDisk::of_model(model, capacity_sectors, settings, (spec(), &spec().defaults()))
}

fn others(outcome: RunSummary) -> TenantMeasure {
    let measured = outcome.measure.tenants.unwrap_or_else(|| Box::new(Tenants::new(&Roster::default(), Owner::Stream)));
    measured.others().clone()
}

fn constant(figures: &str) -> anyhow::Result<ConstantTime> {
    let mut time = ConstantTime { request: Nanos::ZERO, sector: Nanos::ZERO };
    for figure in figures.split(',') {
        let wanted = || format!("`{figure}` should be request_ms=10 or mb_s=20");
        let (key, value) = figure.split_once('=').with_context(wanted)?;
        let value: f64 = value.parse().ok().filter(|value| *value > 0.0 && *value <= 1e6).with_context(wanted)?;
        match key {
            "request_ms" => time.request = Nanos((value * 1e6).round() as u64),
            "mb_s" => time.sector = Nanos((512e3 / value).round() as u64),
            _ => bail!(wanted()),
        }
    }
    ensure!(time.request > Nanos::ZERO || time.sector > Nanos::ZERO, "takes no time at all; request_ms=10 or mb_s=20 is right");
    Ok(time)
}
