//! The disk that a tenant was promised never to be served worse than.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use block::tenants::{ConstantTime, ServiceModel};
use block::{Nanos, Roster, Scheduler};
use device_model::device::DeviceModel;
use sim::host::{Queue, QueueSettings, RunSummary};
use sim::profile::Profile;
use sim::reference::ReferenceDisk;
use sim::run::{Owner, RunError, Served, TenantMeasure, Tenants, Timeline, Watch};

use crate::learned_device;
use crate::load::Load;
use crate::reference_disk::{reference_disk, spec};
use crate::world::World;

/// How a device that takes the same time for every request is written: `constant:request_ms=10,mb_s=20`.
const CONSTANT: &str = "constant:";

/// What the file of a learned device ends with.
const MODEL: &str = ".json";

/// A disk that serves anything is as large as any.
const ANY_CAPACITY: u64 = 1 << 54;

/// A reference disk.
#[derive(Clone, Debug)]
pub struct Reference {
    /// As people write it.
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// A disk as `--disk` names it.
    Disk(Profile),
    /// A device that was learned (`seekwise disk learn`).
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
    /// Reads a disk as `--disk` names it, the file of a learned device (`.json`), or `constant:request_ms=10,mb_s=20`, one of the two at
    /// least.
    ///
    /// # Errors
    /// There is no such disk.
    pub fn parse(text: &str) -> anyhow::Result<Reference> {
        let kind = match text.strip_prefix(CONSTANT) {
            Some(figures) => Kind::Constant(constant(figures).with_context(|| text.to_owned())?),
            None if text.ends_with(MODEL) => Kind::Model(learned_device::load(Path::new(text))?),
            None => Kind::Disk(sim::profile::load(text)?),
        };
        Ok(Reference { text: text.to_owned(), kind })
    }

    /// The disk of this profile.
    pub fn of(profile: &Profile) -> Reference {
        Reference { text: profile.name().to_owned(), kind: Kind::Disk(profile.clone()) }
    }

    /// As `--disk` names it.
    ///
    /// # Errors
    /// It is no disk that has a profile.
    pub fn disk(&self) -> anyhow::Result<String> {
        ensure!(self.profile().is_some(), "{}: only a disk can be asked by jobs or a trace", self.text);
        Ok(self.text.clone())
    }

    /// The profile, if it is a disk that has one.
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

    /// The disk that a tenant has to itself: before it waits a queue that merges.
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

/// What a tenant gets alone.
#[derive(Clone, Debug)]
pub struct Alone {
    /// On its reference disk.
    pub reference: TenantMeasure,
    /// On the disk that it shares with others.
    pub here: TenantMeasure,
    /// For how long that disk was at work meanwhile: of an array its members' times added up, if it tells them.
    pub work: Work,
}

/// How long a device was at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Added up over its disks.
    OfDisks(Nanos),
    /// During which anything in it was at work.
    Busy(Nanos),
}

impl Alone {
    /// Disk time that the shared disks must spend for the work that the reference disk does in a second.
    pub fn needs(&self, disks: usize) -> f64 {
        let count: fn(&Served) -> u64 =
            if self.reference.served.bytes > 0 { |served| served.bytes } else { |served| served.requests };
        let work = match self.work {
            Work::OfDisks(work) => work.as_secs_f64() / disks.max(1) as f64,
            Work::Busy(busy) => busy.as_secs_f64(),
        };
        let rate = count(&self.reference.served) as f64 / self.reference.wanted.as_secs_f64();
        let needs = rate * work / count(&self.here.served) as f64;
        if needs.is_finite() { needs } else { 0.0 }
    }
}

/// Runs what a tenant asks for alone, on its reference disk and on the disk of this world.
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
    let run = |mut queue: Queue| {
        // There are no tenants there: the account is of the whole.
        queue.set_roster(&Roster::default());
        load.run_tenant(roster, tenant, queue, watch)
    };
    let there = run(reference.queue())?;
    let settings = world.host.queue();
    let here = run(Queue::new(scheduler(&settings), world.profile.build(world.device), settings))?;
    let told = here.ledger.as_ref().map_or(0, |ledger| ledger.disk_time().iter().flat_map(Timeline::bins).sum());
    let work = if told > 0 { Work::OfDisks(Nanos(told)) } else { Work::Busy(here.busy_in_run) };
    Ok(Alone { reference: others(there), here: others(here), work })
}

fn scheduler(settings: &QueueSettings) -> Box<dyn Scheduler> {
    (spec().build)(&settings.limits(), &spec().defaults())
}

/// A device that is a prediction.
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
