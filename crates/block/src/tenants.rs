//! The tenants of a disk, and their guarantees.
//!
//! ```text
//! Roster: tenants ── weight, reference disk, rates, latency
//!         volumes ── the sectors of each tenant   ┐  determine the tenant of a request; sectors have precedence,
//!         streams ── the streams of each tenant   ┘  as write-back is issued by kernel threads
//! ```
//! Sharing schedulers get a roster by [`Scheduler::set_roster`](crate::Scheduler::set_roster). They number tenants by a [`Register`], which
//! also covers requests without a tenant.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::{Nanos, Rates, Request, StreamId};

/// A stateful prediction of the times of consecutive requests on a device.
pub trait ServiceTime: Send {
    /// The additional time for which the device is busy with `request`, which it starts at `start`, after the requests of earlier calls;
    /// `waiting` further requests are in its queue.
    ///
    /// The sum over requests is the device's busy time: concurrent requests count only for the time by which they delay the last
    /// completion.
    fn service_time(&mut self, start: Nanos, request: &Request, waiting: u32) -> Nanos;

    /// The response time on the device of each request that it has completed since the last call, in order of completion. A model without
    /// predicted response times reports none.
    fn take_responses(&mut self, each: &mut dyn FnMut(Nanos)) {
        let _ = each;
    }
}

/// A device model that predicts service times.
///
/// ```
/// use block::tenants::{ConstantTime, ServiceModel, ServiceTime};
/// use block::{Nanos, Op, Priority, Request};
///
/// let disk = ConstantTime { request: Nanos::from_millis(5), sector: Nanos::from_micros(10) };
/// let (op, priority) = (Op::Read, Priority::DEFAULT);
/// let read = Request { id: 1, stream: 1, op, sync: true, priority, sectors: 100, lba: 0, arrival: Nanos::ZERO };
/// assert_eq!(disk.begin().service_time(Nanos::ZERO, &read, 0), Nanos::from_millis(6));
/// ```
pub trait ServiceModel: fmt::Debug + Send + Sync {
    /// A new prediction, with the device idle.
    fn begin(&self) -> Box<dyn ServiceTime>;
}

/// A device with a constant time per request and per sector, for guarantees of plain throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantTime {
    /// Per request.
    pub request: Nanos,
    /// Per sector, in addition.
    pub sector: Nanos,
}

impl ServiceTime for ConstantTime {
    fn service_time(&mut self, _start: Nanos, request: &Request, _waiting: u32) -> Nanos {
        self.request + Nanos(self.sector.0.saturating_mul(u64::from(request.sectors)))
    }
}

impl ServiceModel for ConstantTime {
    fn begin(&self) -> Box<dyn ServiceTime> {
        Box::new(*self)
    }
}

/// Positions of sectors in their tenants' own address spaces, for tenants that allocate and free space at run time.
pub trait Places: fmt::Debug + Send + Sync {
    /// The position of a device sector in its tenant's address space; `None` if it belongs to no tenant.
    fn place(&self, lba: u64) -> Option<u64>;
}

/// A tenant's share of a disk, and its guarantees.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// The name in reports and errors.
    pub name: String,
    /// Its share of the disk's time, relative to the weights of the others; at least 1.
    pub weight: u32,
    /// The reference disk, which is a lower bound of its service; `None`: no guarantee, spare capacity only.
    pub reference: Option<Arc<dyn ServiceModel>>,
    /// Its reservation and its limits.
    pub rates: Rates,
    /// Upper bound of the 99th percentile of its response times; `None`: no bound.
    pub latency_p99: Option<Nanos>,
}

impl Tenant {
    /// A tenant with a weight of 1 and no guarantee or limit.
    pub fn new(name: impl Into<String>) -> Tenant {
        let name = name.into();
        Tenant { name, weight: 1, reference: None, rates: Rates::default(), latency_p99: None }
    }

    /// Sets the weight.
    pub fn with_weight(self, weight: u32) -> Tenant {
        Tenant { weight, ..self }
    }

    /// Sets the reference disk.
    pub fn with_reference(self, reference: Arc<dyn ServiceModel>) -> Tenant {
        Tenant { reference: Some(reference), ..self }
    }

    /// Sets the rates.
    pub fn with_rates(self, rates: Rates) -> Tenant {
        Tenant { rates, ..self }
    }
}

/// Why a roster is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RosterError {
    /// The tenant's weight is 0.
    NoWeight(String),
    /// Volumes of two tenants overlap, from this sector on.
    Overlap(String, String, u64),
    /// The tenant's volume has no sectors.
    EmptyVolume(String),
    /// The stream is assigned to two tenants.
    StreamTwice(StreamId, String, String),
}

impl fmt::Display for RosterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RosterError::NoWeight(name) => write!(f, "tenant {name}: a weight of 0 is no share; 1 is the least"),
            RosterError::Overlap(one, other, lba) => write!(f, "tenants {one} and {other}: both volumes hold sector {lba}"),
            RosterError::EmptyVolume(name) => write!(f, "tenant {name}: its volume holds no sector"),
            RosterError::StreamTwice(stream, one, other) => write!(f, "stream {stream} is of tenant {one} and of tenant {other}"),
        }
    }
}

impl core::error::Error for RosterError {}

/// The tenants of a disk. Cheap to clone.
///
/// ```
/// use block::{Roster, Tenant};
///
/// let tenants = vec![Tenant::new("web"), Tenant::new("backup").with_weight(3)];
/// let roster = Roster::new(tenants, vec![(0..1_000, 0), (1_000..2_000, 1)], &[], 1)?;
/// assert_eq!(roster.owner_at(1_500, 7), Some(1));
/// # Ok::<(), block::tenants::RosterError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Roster {
    shared: Arc<Shared>,
}

#[derive(Clone, Debug)]
struct Shared {
    tenants: Vec<Tenant>,
    /// Streams that belong to a tenant on any volume.
    roaming: BTreeMap<StreamId, usize>,
    /// Sorted by first sector; disjoint.
    volumes: Vec<Volume>,
    streams: BTreeMap<StreamId, usize>,
    /// Positions of the sectors of tenants that are identified by their streams.
    places: Option<Arc<dyn Places>>,
    disks: u32,
    is_rotational: bool,
}

/// A range of sectors of a tenant.
#[derive(Clone, Debug)]
struct Volume {
    sectors: Range<u64>,
    tenant: usize,
    /// Number of sectors of the tenant in lower volumes.
    before: u64,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            tenants: Vec::new(),
            roaming: BTreeMap::new(),
            volumes: Vec::new(),
            streams: BTreeMap::new(),
            places: None,
            disks: 1,
            is_rotational: false,
        }
    }
}

impl Roster {
    /// A roster of tenants with their volumes and streams, both by index of the tenant; `disks` is the number of concurrent disks in the
    /// device.
    ///
    /// # Errors
    /// A weight is 0, a volume is empty, volumes overlap, or a stream is assigned twice.
    pub fn new(
        tenants: Vec<Tenant>,
        volumes: Vec<(Range<u64>, usize)>,
        streams: &[(StreamId, usize)],
        disks: u32,
    ) -> Result<Roster, RosterError> {
        let name = |number: usize| tenants[number].name.clone();
        if let Some(tenant) = tenants.iter().find(|tenant| tenant.weight == 0) {
            return Err(RosterError::NoWeight(tenant.name.clone()));
        }
        let mut volumes = volumes;
        volumes.sort_by_key(|(sectors, _)| (sectors.start, sectors.end));
        if let Some((_, number)) = volumes.iter().find(|(sectors, _)| sectors.is_empty()) {
            return Err(RosterError::EmptyVolume(name(*number)));
        }
        let mut pairs = volumes.iter().zip(volumes.iter().skip(1));
        if let Some(((_, one), (sectors, other))) = pairs.find(|(one, next)| next.0.start < one.0.end) {
            return Err(RosterError::Overlap(name(*one), name(*other), sectors.start));
        }
        let mut held: BTreeMap<usize, u64> = BTreeMap::new();
        let volumes = volumes.into_iter().map(|(sectors, tenant)| {
            let held = held.entry(tenant).or_default();
            let before = *held;
            *held += sectors.end - sectors.start;
            Volume { sectors, tenant, before }
        });
        let volumes = volumes.collect();
        let mut by_stream = BTreeMap::new();
        for &(stream, number) in streams {
            if let Some(other) = by_stream.insert(stream, number).filter(|other| *other != number) {
                return Err(RosterError::StreamTwice(stream, name(other), name(number)));
            }
        }
        let shared = Shared { tenants, volumes, streams: by_stream, disks: disks.max(1), ..Shared::default() };
        Ok(Roster { shared: Arc::new(shared) })
    }

    /// Assigns these streams to their tenants on any volume: for copying, backup and scrubbing.
    pub fn with_roaming(mut self, streams: &[(StreamId, usize)]) -> Roster {
        Arc::make_mut(&mut self.shared).roaming.extend(streams.iter().copied());
        self
    }

    /// Sets the positions of sectors of tenants that are identified by their streams; they may change at any time.
    #[must_use]
    pub fn with_places(mut self, places: Arc<dyn Places>) -> Roster {
        Arc::make_mut(&mut self.shared).places = Some(places);
        self
    }

    /// Sets whether the device is rotational (`/sys/block/*/queue/rotational`); by default it is not.
    #[must_use]
    pub fn with_rotational(mut self, is_rotational: bool) -> Roster {
        Arc::make_mut(&mut self.shared).is_rotational = is_rotational;
        self
    }

    /// Whether the device is a single disk with an arm, which serves one request at a time in its own order.
    pub fn has_one_arm(&self) -> bool {
        self.shared.is_rotational && self.shared.disks == 1
    }

    /// The tenants, by number.
    pub fn tenants(&self) -> &[Tenant] {
        &self.shared.tenants
    }

    /// Number of concurrent disks in the device; at least 1.
    pub fn disks(&self) -> u32 {
        self.shared.disks
    }

    /// The tenant of a request: of a roaming stream, otherwise of its sectors, otherwise of its stream; `None` if there is none.
    pub fn owner(&self, request: &Request) -> Option<usize> {
        self.owner_at(request.lba, request.stream)
    }

    /// The tenant of a request of this stream that begins at this sector.
    pub fn owner_at(&self, lba: u64, stream: StreamId) -> Option<usize> {
        if let Some(&tenant) = self.shared.roaming.get(&stream) {
            return Some(tenant);
        }
        self.volume(lba).map(|volume| volume.tenant).or_else(|| self.owner_of_stream(stream))
    }

    /// The tenant whose volume has a sector; `None` if there is none.
    pub fn owner_of_sector(&self, lba: u64) -> Option<usize> {
        self.volume(lba).map(|volume| volume.tenant)
    }

    /// The tenant of a stream, regardless of the sectors it accesses; `None` if there is none.
    pub fn owner_of_stream(&self, stream: StreamId) -> Option<usize> {
        let roaming = self.shared.roaming.get(&stream);
        roaming.or_else(|| self.shared.streams.get(&stream)).copied()
    }

    /// All volumes with their tenants, by first sector.
    pub fn volumes(&self) -> impl Iterator<Item = (Range<u64>, usize)> {
        self.shared.volumes.iter().map(|volume| (volume.sectors.clone(), volume.tenant))
    }

    /// All streams with their tenants.
    pub fn streams(&self) -> impl Iterator<Item = (StreamId, usize)> {
        self.shared.streams.iter().map(|(stream, tenant)| (*stream, *tenant))
    }

    /// The position of a request's first sector within its tenant's volumes, from 0, as on the reference disk; its LBA if it has no volume.
    pub fn tenant_lba_of(&self, request: &Request) -> u64 {
        self.tenant_lba(request.lba)
    }

    /// The position of a sector within its tenant's volumes; the sector itself if it is in none.
    pub fn tenant_lba(&self, lba: u64) -> u64 {
        if let Some(place) = self.shared.places.as_ref().and_then(|places| places.place(lba)) {
            return place;
        }
        self.volume(lba).map_or(lba, |volume| lba - volume.sectors.start + volume.before)
    }

    fn volume(&self, lba: u64) -> Option<&Volume> {
        let volumes = &self.shared.volumes;
        let after = volumes.partition_point(|volume| volume.sectors.start <= lba);
        volumes[..after].last().filter(|volume| lba < volume.sectors.end)
    }
}

/// Dense numbers for the issuers of requests: first the tenants of a roster, then all others.
///
/// Without a roster each stream is a tenant with a weight of 1. With one, all requests without a tenant share one further number, which has
/// no guarantee.
#[derive(Debug, Default)]
pub struct Register {
    roster: Roster,
    others: BTreeMap<StreamId, usize>,
}

impl Register {
    /// Numbers for a roster.
    pub fn new(roster: &Roster) -> Register {
        Register { roster: roster.clone(), others: BTreeMap::new() }
    }

    /// The roster.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The number of a request's issuer, assigned if it is new. Numbers are dense, from 0.
    pub fn number(&mut self, request: &Request) -> usize {
        let tenants = self.roster.tenants().len();
        if tenants == 0 {
            let next = self.others.len();
            return *self.others.entry(request.stream).or_insert(next);
        }
        self.roster.owner(request).unwrap_or(tenants)
    }

    /// The number of a request's issuer; `None` if none is assigned yet.
    pub fn find(&self, request: &Request) -> Option<usize> {
        match self.roster.tenants().len() {
            0 => self.others.get(&request.stream).copied(),
            tenants => Some(self.roster.owner(request).unwrap_or(tenants)),
        }
    }

    /// The number in this register of the issuer with `number` in `other`: the tenant with the same name, or all requests without a tenant;
    /// `None` if there is none.
    pub fn number_of_same(&self, other: &Register, number: usize) -> Option<usize> {
        let (here, there) = (self.roster.tenants(), other.roster.tenants());
        match there.get(number) {
            Some(Tenant { name, .. }) => {
                // Names may repeat.
                let before = there[..number].iter().filter(|tenant| tenant.name == *name).count();
                here.iter().enumerate().filter(|(_, tenant)| tenant.name == *name).nth(before).map(|(number, _)| number)
            }
            None => (!here.is_empty() && !there.is_empty()).then_some(here.len()),
        }
    }

    /// The tenant with this number; `None` if it is not on the roster.
    pub fn tenant(&self, number: usize) -> Option<&Tenant> {
        self.roster.tenants().get(number)
    }

    /// The weight of an issuer; 1 if it is not on the roster.
    pub fn weight(&self, number: usize) -> u64 {
        self.tenant(number).map_or(1, |tenant| u64::from(tenant.weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, Priority};
    use alloc::string::ToString;
    use alloc::vec;

    fn request(stream: StreamId, lba: u64) -> Request {
        let (op, priority) = (Op::Read, Priority::DEFAULT);
        Request { id: 0, stream, op, sync: true, priority, sectors: 8, lba, arrival: Nanos::ZERO }
    }

    #[derive(Debug)]
    struct Halves;

    impl Places for Halves {
        fn place(&self, lba: u64) -> Option<u64> {
            (lba < 1000).then_some((lba + 500) % 1000)
        }
    }

    #[test]
    fn sectors_that_come_and_go_are_counted_as_their_places_say_at_the_time() {
        let roster = Roster::new(vec![Tenant::new("a")], Vec::new(), &[(7, 0)], 1).unwrap().with_places(Arc::new(Halves));
        let places = [0, 700, 1000].map(|lba| roster.tenant_lba_of(&request(7, lba)));
        assert_eq!((places, roster.owner(&request(7, 0)), roster.owner(&request(8, 0))), ([500, 200, 1000], Some(0), None));
    }

    #[test]
    fn a_request_belongs_to_the_owner_of_its_sectors_or_else_of_its_stream() {
        let tenants = vec![Tenant::new("a"), Tenant::new("b").with_weight(3)];
        let roster = Roster::new(tenants, vec![(1000..2000, 1), (500..1000, 0), (0..20, 0)], &[(7, 1)], 1).unwrap();
        let places = [999, 1000, 10, 2000].map(|lba| roster.tenant_lba_of(&request(7, lba)));
        assert_eq!(places, [519, 0, 10, 2000], "as its reference disk sees it");
        let roaming = roster.clone().with_roaming(&[(7, 1)]);
        assert_eq!(roaming.owner(&request(7, 999)), Some(1), "roaming streams have precedence over sectors");
        let mut register = Register::new(&roster);
        assert_eq!(register.number(&request(7, 999)), 0, "sectors have precedence over streams");
        assert_eq!(register.number(&request(5, 1000)), 1);
        assert_eq!(register.number(&request(7, 2000)), 1);
        assert_eq!(register.number(&request(5, 2000)), 2, "requests without a tenant have the next number");
        assert_eq!((register.weight(1), register.weight(2)), (3, 1));
    }

    #[test]
    fn without_a_roster_each_stream_is_a_tenant() {
        let mut register = Register::default();
        assert_eq!([9, 4, 9, 2].map(|stream| register.number(&request(stream, 0))), [0, 1, 0, 2]);
    }

    #[test]
    fn roster_errors_name_the_tenants() {
        let error = |weight, volumes: Vec<(Range<u64>, usize)>, streams: &[(StreamId, usize)]| {
            let tenants = vec![Tenant::new("a").with_weight(weight), Tenant::new("b")];
            Roster::new(tenants, volumes, streams, 1).unwrap_err().to_string()
        };
        assert_eq!(error(0, vec![], &[]), "tenant a: a weight of 0 is no share; 1 is the least");
        assert_eq!(error(1, vec![(0..10, 0), (9..20, 1)], &[]), "tenants a and b: both volumes hold sector 9");
        assert_eq!(error(1, vec![(5..5, 1)], &[]), "tenant b: its volume holds no sector");
        assert_eq!(error(1, vec![], &[(3, 0), (3, 1)]), "stream 3 is of tenant a and of tenant b");
    }
}
