//! Section IV.D as printed: three arrays, the matrix of seven VSDs, how many VSDs the arrays hold, and the manager at work in the simulator.

use std::cell::Cell;
use std::sync::Arc;

use crate::paper::youchoose::hybrid::{DISKS, Flash, REFERENCE};
use crate::stage::{Actor, Stage};
use anyhow::Context as _;
use block::{Merges, Nanos, Priority, Request, Roster, StreamId, Tenant};
use control::Setting;
use guarantee::placement::{Asker, Askers, Asks, FOR_EVER};
use sim::host::{Queue, QueueSettings};
use sim::profile::{DeviceOptions, Profile, load};
use sim::run::{Finished, Measure, Owner, Server, run};
use sim::store::{Copy, CopyPace, Place, Store, VolumeIssue};
use sim::streams::COPY;
use testbed::chance::source;
use testbed::pool::Workers;
use testbed::synthetic::Draw;
use testbed::synthetic::{Arrival, Pattern, Phase};

use super::cart::{Cart, Features, drawn};
use super::clocks;
use super::migration::{Filling, Manager, Matrix, Move, Policy, SlotGroup, fill};
use super::trained;

/// The sequentiality factors of Table III.
pub const FACTORS: [f64; 4] = [0.0, 0.3, 0.7, 1.0];
/// Sectors per VSD: 512 MiB. The paper gives no size.
const SECTORS: u64 = 1 << 20;
/// Sectors per VSD in the simulated migration: 64 MiB, so that a copy takes seconds.
const MIGRATED_SECTORS: u64 = 1 << 17;
/// Outstanding requests per VSD: "we stress the host system".
const OUTSTANDING: u32 = 32;
/// The reference time of a slot group: 25 slots of 80 ms.
const GROUP: Nanos = Nanos::from_millis(2_000);
/// Number of VSDs for which slot groups are generated; further VSDs reuse these.
const DRAWN: usize = 64;
/// Number of requests in a sample of the actual workload (section IV.B: "relatively small samples").
const SAMPLE: usize = 1_000;
/// Number of VSD positions sampled for the arrays' models in the variation with samples: those of Table II.
const SAMPLED: u64 = 7;
/// Number of VSDs added beyond the planned ones, to measure in the simulator whether more are held.
const BEYOND: usize = 24;
/// A VSD is in violation below this fraction of its reference system's throughput, as for our scheduler.
const LEAST: f64 = guarantee::tenants::THROUGHPUT;
/// Table II: the array of each of the seven VSDs, and whether it reads films.
const TABLE_2_ON: [usize; 7] = [0, 0, 2, 2, 1, 1, 0];
const TABLE_2_FILMS: [bool; 7] = [true, true, true, false, true, true, false];
/// The manager runs every second, and acts on findings that occur three times in a row: the paper says "periodically" and "consistently".
const PERIOD: Nanos = Nanos::from_millis(1_000);
const LOOKS: usize = 3;
/// Duration of the manager's simulation, and its copy rate.
const WATCHED: Nanos = Nanos::from_millis(8_000);
const PACE: CopyPace = CopyPace { bytes_per_s: 32 << 20, chunk_sectors: 512 };

/// The arrays with their models, and the model of the reference system.
pub struct Hybrid {
    arrays: Vec<(&'static str, Profile)>,
    reference_profile: Profile,
    reference: Cart,
    /// Service time per second of reference time, by array and VSD: searches, films.
    seconds: Vec<Vec<[f64; 2]>>,
    /// Requests per second that the model of the reference system predicts, by VSD: searches, films.
    promised: Vec<[f64; 2]>,
    models: Vec<Cart>,
    search: Pattern,
    /// The share of their slots that films fill in the matrix.
    films_filled: f64,
    seed: u64,
    lasts: Nanos,
}

/// The check in the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// Nothing.
    None,
    /// Whether the planned VSDs are served well enough.
    Planned,
    /// The largest number of VSDs without a violation.
    Most,
}

/// Numbers of VSDs that the arrays hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// By the models: VSDs when no array had spare capability left.
    pub planned: usize,
    /// Planned VSDs on the flash array.
    pub on_flash: usize,
    /// In the simulator: VSDs without a violation; `None` if not simulated.
    pub simulated: Option<usize>,
    /// Throughput of the worst planned VSD in the simulator, in percent of its model's prediction; `None` if not simulated.
    pub worst_percent: Option<f64>,
}

/// Actions of the manager in the simulator.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// Each migration: the time of the decision, the moves, and the time when the copy was complete.
    pub migrations: Vec<(Nanos, Vec<Move>, Option<Nanos>)>,
    /// Throughput of each VSD before the first migration was decided, in percent of its guarantee.
    pub before_percent: Vec<f64>,
    /// The same after the last migration completed.
    pub after_percent: Vec<f64>,
}

impl Hybrid {
    /// Trains the models, those of the arrays also with samples of the workloads if `is_sampled`. Simulated runs take `lasts`.
    ///
    /// # Errors
    /// The work was interrupted.
    pub fn new(
        (flash, features, is_sampled): (Flash, Features, bool),
        search: &Pattern,
        seed: u64,
        lasts: Nanos,
        workers: Workers,
    ) -> anyhow::Result<Hybrid> {
        let arrays = DISKS.into_iter().chain([("SSD Array", flash.profile())]).map(|(name, profile)| Ok((name, load(profile)?)));
        let arrays = arrays.collect::<anyhow::Result<Vec<_>>>()?;
        let reference_profile = load(REFERENCE)?;
        // "We train the CART models for each device array using the synthetic training data set" (section III.C).
        let model = |(_, profile): &(&str, Profile)| {
            let mut examples = trained::synthetic(profile, seed, workers)?;
            let places = if is_sampled { 0..SAMPLED } else { 0..0 };
            for (place, film) in places.flat_map(|place| [(place, false), (place, true)]) {
                let mut sample = drawn(&pattern(search, film), source("youchoose sample", seed, place as u32), SECTORS, SAMPLE);
                sample.iter_mut().for_each(|each| each.lba += place * SECTORS);
                examples.add(&trained::serve(profile, &sample, workers)?, |_| true);
            }
            anyhow::Ok(Cart::grow(&examples, features))
        };
        let models = arrays.iter().map(model).collect::<anyhow::Result<Vec<_>>>()?;
        let mut examples = trained::synthetic(&reference_profile, seed, workers)?;
        for (number, film) in [(0, false), (1, true)] {
            let sample = drawn(&pattern(search, film), source("youchoose sample", seed, number), SECTORS, SAMPLE);
            examples.add(&trained::serve(&reference_profile, &sample, workers)?, |_| true);
        }
        let reference = Cart::grow(&examples, features);
        let (search, films_filled, seconds, promised) = (search.clone(), 1.0, Vec::new(), Vec::new());
        let mut hybrid =
            Hybrid { arrays, reference_profile, reference, seconds, promised, models, search, films_filled, seed, lasts };
        let groups = [false, true].map(|film| (0..DRAWN).map(|vsd| Arc::new(hybrid.group(vsd, film))).collect::<Vec<_>>());
        let matrices = groups.each_ref().map(|groups| hybrid.matrix_of(groups));
        let cells = |array: usize| (0..DRAWN).map(|vsd| matrices.each_ref().map(|matrix| matrix.seconds[array][vsd])).collect();
        hybrid.seconds = (0..hybrid.arrays.len()).map(cells).collect();
        hybrid.promised = (0..DRAWN).map(|vsd| groups.each_ref().map(|groups| groups[vsd].rate())).collect();
        Ok(hybrid)
    }

    /// The same arrays where films fill only this share of their slots, as playback is slower than the reference system.
    #[must_use]
    pub fn with_films_filling(self, films_filled: f64) -> Hybrid {
        Hybrid { films_filled, ..self }
    }

    /// The names of the arrays.
    pub fn names(&self) -> Vec<&'static str> {
        self.arrays.iter().map(|(name, _)| *name).collect()
    }

    /// Requests of a VSD that always has some outstanding, in its slot group.
    fn group(&self, vsd: usize, film: bool) -> SlotGroup {
        let mut draw = Draw::new(0..SECTORS, source("youchoose group", self.seed, vsd as u32));
        let pattern = pattern(&self.search, film);
        let requests = std::iter::from_fn(|| {
            let drawn = draw.next(&pattern);
            let (op, sync, priority, arrival) = (drawn.op, true, Priority::DEFAULT, Nanos::ZERO);
            Some(Request { id: 0, stream: 0, op, sync, priority, sectors: drawn.sectors, lba: drawn.lba, arrival })
        });
        SlotGroup::of(requests, &self.reference, GROUP)
    }

    fn matrix_of(&self, groups: &[Arc<SlotGroup>]) -> Matrix {
        Matrix::new(groups, &self.models, |array, vsd| self.place(array, vsd, SECTORS).start)
    }

    /// The location of a VSD on an array: VSDs are laid out consecutively.
    fn place(&self, array: usize, vsd: usize, sectors: u64) -> Place {
        Place { array, start: sectors * vsd as u64 % (self.arrays[array].1.capacity_sectors() - sectors) }
    }

    /// The matrix for these VSDs; `true` is a film, `false` a search.
    pub fn matrix(&self, films: &[bool]) -> Matrix {
        let cell = |array: usize, (vsd, film): (usize, &bool)| self.seconds[array][vsd % DRAWN][usize::from(*film)];
        let row = |array| films.iter().enumerate().map(|each| cell(array, each)).collect();
        let filled = films.iter().map(|film| if *film { self.films_filled } else { 1.0 }).collect();
        Matrix { seconds: (0..self.arrays.len()).map(row).collect(), filled }
    }

    /// Table II with the paper's placement: the matrix, and the manager's migrations.
    pub fn table_2(&self) -> (Matrix, Vec<Move>) {
        let matrix = self.matrix(&TABLE_2_FILMS);
        let moves = Manager::new(1).look(&matrix, &TABLE_2_ON);
        (matrix, moves)
    }

    /// The number of VSDs that the arrays hold, by the models and, depending on `trial`, in the simulator.
    ///
    /// # Errors
    /// The work was interrupted.
    pub fn held(&self, factor: f64, policy: Policy, trial: Confirmation, workers: Workers) -> anyhow::Result<Held> {
        let filling = fill(factor, policy, self.arrays.len(), BEYOND, |films| self.matrix(films));
        let planned = filling.planned;
        let last = self.arrays.len() - 1;
        let on_flash =
            planned.checked_sub(1).map_or(0, |last_added| filling.on[last_added].iter().filter(|array| **array == last).count());
        if trial == Confirmation::None {
            return Ok(Held { planned, on_flash, simulated: None, worst_percent: None });
        }
        let worst = self.try_out(&filling, planned.max(1), workers)?;
        let simulated = if trial == Confirmation::Most { Some(self.most_kept(&filling, worst, workers)?) } else { None };
        Ok(Held { planned, on_flash, simulated, worst_percent: Some(100.0 * worst) })
    }

    /// The largest number of VSDs, added in this order, without a violation, by bisection.
    fn most_kept(&self, filling: &Filling, of_planned: f64, workers: Workers) -> anyhow::Result<usize> {
        let planned = filling.planned.max(1);
        let (mut kept, mut broken) = if of_planned >= LEAST { (planned, filling.on.len() + 1) } else { (0, planned) };
        while kept + 1 < broken {
            let middle = kept.midpoint(broken);
            let is_kept = self.try_out(filling, middle, workers)? >= LEAST;
            *(if is_kept { &mut kept } else { &mut broken }) = middle;
        }
        Ok(kept)
    }

    /// Throughput of the worst of the first `number` VSDs relative to its model's prediction.
    fn try_out(&self, filling: &Filling, number: usize, workers: Workers) -> anyhow::Result<f64> {
        let on = &filling.on[number - 1];
        let arrays: Vec<usize> = (0..self.arrays.len()).collect();
        let worst = workers.map("VSDs on each array", &arrays, |&array| {
            let here: Vec<usize> = (0..number).filter(|vsd| on[*vsd] == array).collect();
            let actor = |&vsd: &usize| self.actor(vsd, filling.films[vsd]);
            let stage = Stage {
                profile: self.arrays[array].1.clone(),
                queue: QueueSettings { merges: Merges::Never, ..QueueSettings::default() },
                device: self.device(array),
                actors: here.iter().map(actor).collect(),
                seed: self.seed,
            };
            if here.is_empty() {
                return Ok(f64::INFINITY);
            }
            let run = stage.run(&Setting::of(&clocks::SPEC), workers.monitor)?;
            let tenants = run.measure.tenants.context("no measurement of tenants")?;
            let share =
                |(&vsd, measure): (&usize, &sim::run::TenantMeasure)| measure.iops() / self.promise(vsd, filling.films[vsd]);
            Ok(here.iter().zip(tenants.on_roster()).map(share).fold(f64::INFINITY, f64::min))
        })?;
        Ok(worst.into_iter().fold(f64::INFINITY, f64::min))
    }

    fn promise(&self, vsd: usize, film: bool) -> f64 {
        self.promised[vsd % DRAWN][usize::from(film)]
    }

    /// Each disk has a queue of its own, as in figures 6 to 9.
    fn device(&self, array: usize) -> DeviceOptions {
        let disks = self.arrays[array].1.disks() as u32;
        DeviceOptions { queue_depth: Some(crate::paper::youchoose::scenes::AT_EACH_DISK * disks), queue_policy: None }
    }

    fn actor(&self, vsd: usize, film: bool) -> Actor {
        let tenant = Tenant::new(format!("VSD {}", vsd + 1)).with_reference(Arc::new(self.reference.clone()));
        let phase = Phase { until: self.lasts, arrival: Arrival::Outstanding(OUTSTANDING), pattern: pattern(&self.search, film) };
        Actor { tenant, sectors: SECTORS, phases: vec![phase] }
    }

    /// Throughput of a VSD of each kind alone on its reference system, in percent of the model's prediction: searches, films.
    ///
    /// # Errors
    /// The work was interrupted.
    pub fn alone_percent(&self, workers: Workers) -> anyhow::Result<[f64; 2]> {
        let alone = |film: bool| {
            let (profile, device) = (self.reference_profile.clone(), DeviceOptions::default());
            let queue = QueueSettings { merges: Merges::Never, ..QueueSettings::default() };
            let stage = Stage { profile, queue, device, actors: vec![self.actor(0, film)], seed: self.seed };
            let run = stage.run(&Setting::parse(crate::paper::youchoose::SCHEDULER)?, workers.monitor)?;
            let tenants = run.measure.tenants.context("no measurement of tenants")?;
            anyhow::Ok(100.0 * tenants.on_roster()[0].iops() / self.promise(0, film))
        };
        Ok([alone(false)?, alone(true)?])
    }

    /// Simulates the manager with the seven VSDs of Table II in the paper's placement.
    ///
    /// # Errors
    /// The work was interrupted.
    pub fn watch(&self, workers: Workers) -> anyhow::Result<Watched> {
        let vsds = TABLE_2_ON.len();
        let model: Arc<dyn block::tenants::ServiceModel> = Arc::new(self.reference.clone());
        let named = (1..=vsds).map(|number| Tenant::new(format!("VSD {number}")).with_reference(Arc::clone(&model)));
        let tenants: Vec<Tenant> = named.chain([Tenant::new("copying")]).collect();
        let queue = |array: usize| {
            let volume = |vsd: usize| {
                let Place { start, .. } = self.place(array, vsd, MIGRATED_SECTORS);
                (start..start + MIGRATED_SECTORS, vsd)
            };
            let profile = &self.arrays[array].1;
            let roster = Roster::new(tenants.clone(), (0..vsds).map(volume).collect(), &[], profile.disks() as u32)?;
            let settings = QueueSettings { merges: Merges::Never, ..QueueSettings::default() };
            let scheduler = (clocks::SPEC.build)(&settings.limits(), &clocks::SPEC.defaults());
            let mut queue = Queue::new(scheduler, profile.build(self.device(array)), settings);
            queue.set_roster(&roster.with_roaming(&[(COPY, vsds)]));
            anyhow::Ok(queue)
        };
        let queues = (0..self.arrays.len()).map(queue).collect::<anyhow::Result<Vec<_>>>()?;
        let places = TABLE_2_ON.iter().enumerate().map(|(vsd, array)| self.place(*array, vsd, MIGRATED_SECTORS)).collect();
        let mut managed = Managed {
            hybrid: self,
            store: Store::new(queues, places),
            manager: Manager::new(LOOKS),
            on: TABLE_2_ON.to_vec(),
            samples: vec![Vec::new(); vsds],
            next: PERIOD,
            moving: Vec::new(),
            migrations: Vec::new(),
        };
        let until = Cell::new(WATCHED);
        // VSDs issue requests at the guaranteed rate, so that their throughput shows whether the guarantee is met.
        let asks = |vsd: usize, film: bool| {
            let gap = Nanos::from_secs_f64(1.0 / self.promise(vsd, film));
            let phase = Phase { until: FOR_EVER, arrival: Arrival::Every(gap), pattern: pattern(&self.search, film) };
            Asks::Drawn { phases: vec![phase], is_sync: true }
        };
        let asker = |(volume, film): (usize, &bool)| Asker { volume, sectors: MIGRATED_SECTORS, asks: asks(volume, *film) };
        let askers = Askers::new(TABLE_2_FILMS.iter().enumerate().map(asker), self.seed, &until);
        let streams: Vec<(StreamId, usize)> = (0..vsds).map(|vsd| (vsd as StreamId, vsd)).collect();
        let measured = Roster::new(tenants[..vsds].to_vec(), Vec::new(), &streams, 1)?;
        let measure = Measure::new([]).by_tenant(Some(&measured), Owner::Stream);
        let measure = run(askers, &mut managed, measure, &workers.watch(), None);
        workers.monitor.check()?;
        let tenants = measure?.tenants.context("no measurement of tenants")?;
        let migrations = managed.migrations;
        let first = migrations.first().map_or(WATCHED, |(decided, ..)| *decided);
        let last = migrations.iter().filter_map(|(_, _, done)| *done).max().unwrap_or(Nanos::ZERO);
        let percent = |from: Nanos, to: Nanos| {
            let rate = |(vsd, measure): (usize, &sim::run::TenantMeasure)| {
                let width = measure.timeline.width().as_secs_f64();
                let (from, to) = ((from.as_secs_f64() / width).ceil() as usize, (to.as_secs_f64() / width) as usize);
                let served: u64 = measure.timeline.bins().iter().take(to).skip(from).map(|bin| bin.requests).sum();
                100.0 * served as f64 / (width * to.saturating_sub(from).max(1) as f64) / self.promise(vsd, TABLE_2_FILMS[vsd])
            };
            tenants.on_roster().iter().enumerate().map(rate).collect()
        };
        Ok(Watched { before_percent: percent(Nanos::ZERO, first), after_percent: percent(last, until.get()), migrations })
    }
}

fn pattern(search: &Pattern, film: bool) -> Pattern {
    if film { crate::paper::youchoose::scenes::video_streaming() } else { search.clone() }
}

/// The arrays with the migration manager in their controller.
struct Managed<'a> {
    hybrid: &'a Hybrid,
    store: Store,
    manager: Manager,
    on: Vec<usize>,
    /// By VSD: its requests since the last run of the manager.
    samples: Vec<Vec<Request>>,
    next: Nanos,
    /// Migrations under way.
    moving: Vec<Move>,
    migrations: Vec<(Nanos, Vec<Move>, Option<Nanos>)>,
}

impl Managed<'_> {
    fn look(&mut self, now: Nanos) {
        let samples = self.samples.iter_mut().map(std::mem::take);
        let group = |requests: Vec<Request>| Arc::new(SlotGroup::of(requests, &self.hybrid.reference, PERIOD));
        let groups: Vec<Arc<SlotGroup>> = samples.map(group).collect();
        if !self.moving.is_empty() {
            return;
        }
        let place = |array: usize, vsd: usize| self.hybrid.place(array, vsd, MIGRATED_SECTORS);
        let matrix = Matrix::new(&groups, &self.hybrid.models, |array, vsd| place(array, vsd).start);
        self.moving = self.manager.look(&matrix, &self.on);
        if self.moving.is_empty() {
            return;
        }
        let copy = |each: &Move| Copy { volume: each.vsd, sectors: MIGRATED_SECTORS, to: place(each.to, each.vsd) };
        let copies = self.moving.iter().map(copy).collect();
        self.store.copy(now, vec![copies], PACE);
        self.migrations.push((now, self.moving.clone(), None));
    }

    fn end_migration(&mut self, now: Nanos) {
        if self.moving.is_empty() || self.moving.iter().any(|each| self.store.place(each.vsd).array != each.to) {
            return;
        }
        self.moving.drain(..).for_each(|each| self.on[each.vsd] = each.to);
        if let Some((.., done)) = self.migrations.last_mut() {
            *done = Some(now);
        }
    }
}

impl Server for Managed<'_> {
    type Work = VolumeIssue;

    fn has_room(&self) -> bool {
        self.store.has_room()
    }

    fn admit(&mut self, now: Nanos, work: VolumeIssue) {
        let VolumeIssue { volume, issue } = work;
        let (stream, op, sync, priority) = (issue.stream, issue.op, issue.sync, issue.priority);
        let request = Request { id: 0, stream, op, sync, priority, sectors: issue.sectors, lba: issue.lba, arrival: now };
        self.samples[volume].push(request);
        self.store.admit(now, work);
    }

    fn next_event(&self) -> Option<Nanos> {
        let look = (self.next < WATCHED).then_some(self.next);
        self.store.next_event().into_iter().chain(look).min()
    }

    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        self.store.advance(now, finished);
        self.end_migration(now);
        while self.next <= now && self.next < WATCHED {
            self.next += PERIOD;
            self.look(now);
        }
    }

    fn dispatch(&mut self, now: Nanos) {
        self.store.dispatch(now);
    }
}
