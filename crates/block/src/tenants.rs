//! Who shares a disk, and what each of them was promised.
//!
//! ```text
//! Roster: tenants ── weight, reference disk, reservation, limits
//!         volumes ── which sectors are whose     ┐  say whose a request is: its sectors count first, for
//!         streams ── which streams are whose     ┘  write-back comes from the kernel's threads
//! ```
//! Schedulers that share a disk out are handed a roster ([`Scheduler::set_roster`](crate::Scheduler::set_roster)). They number tenants by
//! a [`Register`], which also knows what to do with requests of nobody on the roster.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU64;
use core::ops::Range;

use crate::{Nanos, Request, StreamId};

/// How long requests take on some device, one after the other: a running prediction.
pub trait ServiceTime: Send {
    /// For how much longer the device is busy because of `request`, which it begins at `start` and which follows those that it was asked
    /// about before; `waiting` further requests stand in its queue then.
    ///
    /// Added up, this is the time that the device is busy: of requests that it serves side by side each counts for the part by which it
    /// delays the end of all.
    fn service_time(&mut self, start: Nanos, request: &Request, waiting: u32) -> Nanos;
}

/// A device as schedulers know it: it says how long requests take there.
pub trait ServiceModel: fmt::Debug + Send + Sync {
    /// The device at rest.
    fn begin(&self) -> Box<dyn ServiceTime>;
}

/// A device that takes the same time for every request, and for every sector: promises of plain throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantTime {
    /// Of any request.
    pub request: Nanos,
    /// Of each sector besides.
    pub sector: Nanos,
}

impl ServiceTime for ConstantTime {
    fn of(&mut self, _start: Nanos, request: &Request, _waiting: u32) -> Nanos {
        self.request + Nanos(self.sector.0.saturating_mul(u64::from(request.sectors)))
    }
}

impl ServiceModel for ConstantTime {
    fn begin(&self) -> Box<dyn ServiceTime> {
        Box::new(*self)
    }
}

/// Who has a part of a disk, and what was promised.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// What people call it.
    pub name: String,
    /// Its share of the disk's time, beside the weights of the others; at least 1.
    pub weight: u32,
    /// The disk that it is never served worse than. `None`: it gets what others leave.
    pub reference: Option<Arc<dyn ServiceModel>>,
    /// Requests a second that it has at least, whatever others do.
    pub reservation_iops: Option<NonZeroU64>,
    /// Requests a second that it has at most, even if nobody else wants the disk.
    pub limit_iops: Option<NonZeroU64>,
    /// Bytes a second that it has at most.
    pub limit_bytes_per_s: Option<NonZeroU64>,
}

impl Tenant {
    /// One that nothing was promised, with a weight of 1.
    pub fn new(name: impl Into<String>) -> Tenant {
        let name = name.into();
        Tenant { name, weight: 1, reference: None, reservation_iops: None, limit_iops: None, limit_bytes_per_s: None }
    }

    /// The same with this weight.
    pub fn with_weight(self, weight: u32) -> Tenant {
        Tenant { weight, ..self }
    }

    /// The same, promised this disk.
    pub fn promised(self, reference: Arc<dyn ServiceModel>) -> Tenant {
        Tenant { reference: Some(reference), ..self }
    }
}

/// What is wrong with a roster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RosterError {
    /// This tenant's weight is 0.
    NoWeight(String),
    /// These tenants have sectors in common, from this one on.
    Overlap(String, String, u64),
    /// This tenant's volume holds nothing.
    EmptyVolume(String),
    /// This stream is said to be of two tenants.
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
#[derive(Clone, Debug, Default)]
pub struct Roster {
    shared: Arc<Shared>,
}

#[derive(Clone, Debug)]
struct Shared {
    tenants: Vec<Tenant>,
    /// Streams whose requests are their tenant's wherever they go.
    roaming: BTreeMap<StreamId, usize>,
    /// By their first sector; none overlap.
    volumes: Vec<Volume>,
    streams: BTreeMap<StreamId, usize>,
    disks: u32,
}

/// Sectors of a tenant.
#[derive(Clone, Debug)]
struct Volume {
    sectors: Range<u64>,
    tenant: usize,
    /// Sectors of the tenant before these, in lower volumes.
    before: u64,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared { tenants: Vec::new(), roaming: BTreeMap::new(), volumes: Vec::new(), streams: BTreeMap::new(), disks: 1 }
    }
}

impl Roster {
    /// Tenants, each with the sectors that are its own and the streams that are; `disks` work side by side in the device.
    ///
    /// # Errors
    /// A weight is 0, or what is one tenant's is another's as well.
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
        let shared = Shared { tenants, roaming: BTreeMap::new(), volumes, streams: by_stream, disks: disks.max(1) };
        Ok(Roster { shared: Arc::new(shared) })
    }

    /// The same where these streams are of these tenants in everybody's sectors: who copies volumes, backs them up or checks them.
    pub fn with_roaming(mut self, streams: &[(StreamId, usize)]) -> Roster {
        Arc::make_mut(&mut self.shared).roaming.extend(streams.iter().copied());
        self
    }

    /// The tenants, in order of their numbers.
    pub fn tenants(&self) -> &[Tenant] {
        &self.shared.tenants
    }

    /// How many disks work side by side in the device; at least 1.
    pub fn disks(&self) -> u32 {
        self.shared.disks
    }

    /// Whose request it is: of a roaming stream, of those sectors, or else of that stream.
    pub fn owner(&self, request: &Request) -> Option<usize> {
        self.owner_at(request.lba, request.stream)
    }

    /// The same of what begins at this sector and comes from this stream.
    pub fn owner_at(&self, lba: u64, stream: StreamId) -> Option<usize> {
        if let Some(&tenant) = self.shared.roaming.get(&stream) {
            return Some(tenant);
        }
        self.volume(lba).map(|volume| volume.tenant).or_else(|| self.of_stream(stream))
    }

    /// Whose stream it is, wherever it reads and writes.
    pub fn of_stream(&self, stream: StreamId) -> Option<usize> {
        let roaming = self.shared.roaming.get(&stream);
        roaming.or_else(|| self.shared.streams.get(&stream)).copied()
    }

    /// The sectors of tenants, with whose they are, by the first of each.
    pub fn volumes(&self) -> impl Iterator<Item = (Range<u64>, usize)> {
        self.shared.volumes.iter().map(|volume| (volume.sectors.clone(), volume.tenant))
    }

    /// The streams of tenants, with whose they are.
    pub fn streams(&self) -> impl Iterator<Item = (StreamId, usize)> {
        self.shared.streams.iter().map(|(stream, tenant)| (*stream, *tenant))
    }

    /// Where a request begins in its tenant's own sectors, counted from 0: so its reference disk would see it. Of who has no volume, where
    /// it begins on the disk.
    pub fn lba_of_tenant(&self, request: &Request) -> u64 {
        self.tenant_lba(request.lba)
    }

    /// The same of a sector.
    pub fn tenant_lba(&self, lba: u64) -> u64 {
        self.volume(lba).map_or(lba, |volume| lba - volume.sectors.start + volume.before)
    }

    fn volume(&self, lba: u64) -> Option<&Volume> {
        let volumes = &self.shared.volumes;
        let after = volumes.partition_point(|volume| volume.sectors.start <= lba);
        volumes[..after].last().filter(|volume| lba < volume.sectors.end)
    }
}

/// Numbers for all that ask a disk for something: first the tenants of a roster, then everybody else.
///
/// Without a roster each stream is a tenant of its own, with a weight of 1. With one, all that is nobody's is one tenant more, that
/// nothing was promised.
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

    /// Whose request it is. Numbers begin at 0 and have no gaps.
    pub fn number(&mut self, request: &Request) -> usize {
        let tenants = self.roster.tenants().len();
        if tenants == 0 {
            let next = self.others.len();
            return *self.others.entry(request.stream).or_insert(next);
        }
        self.roster.owner(request).unwrap_or(tenants)
    }

    /// Whose it is, if that has a number yet.
    pub fn find(&self, request: &Request) -> Option<usize> {
        match self.roster.tenants().len() {
            0 => self.others.get(&request.stream).copied(),
            tenants => Some(self.roster.owner(request).unwrap_or(tenants)),
        }
    }

    /// What was promised to a number; `None` to who is not on the roster.
    pub fn tenant(&self, number: usize) -> Option<&Tenant> {
        self.roster.tenants().get(number)
    }

    /// The weight of a number.
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

    #[test]
    fn a_request_is_of_who_owns_its_sectors_or_else_of_who_owns_its_stream() {
        let tenants = vec![Tenant::new("a"), Tenant::new("b").with_weight(3)];
        let roster = Roster::new(tenants, vec![(1000..2000, 1), (500..1000, 0), (0..20, 0)], &[(7, 1)], 1).unwrap();
        let places = [999, 1000, 10, 2000].map(|lba| roster.lba_of_tenant(&request(7, lba)));
        assert_eq!(places, [519, 0, 10, 2000], "as its own disk would see it");
        let roaming = roster.clone().with_roaming(&[(7, 1)]);
        assert_eq!(roaming.owner(&request(7, 999)), Some(1), "who roams counts before sectors");
        let mut register = Register::new(&roster);
        assert_eq!(register.number(&request(7, 999)), 0, "sectors count before streams");
        assert_eq!(register.number(&request(5, 1000)), 1);
        assert_eq!(register.number(&request(7, 2000)), 1);
        assert_eq!(register.number(&request(5, 2000)), 2, "who is not on the roster comes behind it");
        assert_eq!((register.weight(1), register.weight(2)), (3, 1));
    }

    #[test]
    fn without_a_roster_each_stream_is_a_tenant() {
        let mut register = Register::default();
        assert_eq!([9, 4, 9, 2].map(|stream| register.number(&request(stream, 0))), [0, 1, 0, 2]);
    }

    #[test]
    fn what_is_wrong_with_a_roster_is_said_by_name() {
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
