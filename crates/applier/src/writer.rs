//! Reads and writes the kernel's settings and the journal. Depends on no clock and no socket.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;

use block::Nanos;

use crate::attribute::{Attribute, MACHINE, SCHEDULER, State, find};
use crate::cgroup::{Allowed, PAGE, is_cgroup};
use crate::error::{ApplierError, ErrorKind};
use crate::journal::{AtExit, Identity, Journal, JournalError, Match, Page, Record};
use crate::other_writers::OtherWriters;
use crate::ownership::{Ownership, ownership_of};
use crate::plan::known_attribute;
use crate::protocol::{Foreign, Original};
use crate::sysfs::{Files, Sysfs, SysfsError, gone};

/// The time of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Time on a monotonic clock.
    pub now: Nanos,
    /// Seconds since 1970, for display.
    pub unix_seconds: u64,
}

/// Permissions and limits of an applier.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Whether the machine's own attributes may be set.
    pub machine: bool,
    /// Which cgroups may be set.
    pub cgroups: Allowed,
    /// Maximum scheduler switches per minute and device. Restoring is always allowed.
    pub switches_per_minute: u32,
    /// Which devices' settings a client may have kept at the end.
    pub may_keep: MayKeep,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { machine: false, cgroups: Allowed::default(), switches_per_minute: 60, may_keep: MayKeep::default() }
    }
}

/// Which devices' settings may be kept at the end [default: none]. A client alone cannot make a change permanent.
#[derive(Clone, Default)]
pub struct MayKeep(Option<Arc<Allows>>);

/// Whether a device's settings may be kept; an error says why that is not known.
type Allows = dyn Fn(&str) -> Result<bool, String> + Send + Sync;

impl MayKeep {
    /// Those for whose names this returns `true`. It is called for each request, so that it can read a configuration that has changed since.
    pub fn by(allows: impl Fn(&str) -> Result<bool, String> + Send + Sync + 'static) -> MayKeep {
        MayKeep(Some(Arc::new(allows)))
    }

    fn check(&self, device: &str) -> Result<(), ApplierError> {
        let refused = |reason: &dyn fmt::Display| {
            Err(ApplierError::new(ErrorKind::NotAllowed, format_args!("{device}: settings are restored at the end: {reason}")))
        };
        match self.0.as_ref().map(|allows| allows(device)) {
            Some(Ok(true)) => Ok(()),
            Some(Err(error)) => refused(&error),
            _ => refused(&"the applier's configuration does not have exit = \"keep\" for it"),
        }
    }
}

impl fmt::Debug for MayKeep {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(if self.0.is_some() { "by a function" } else { "none" })
    }
}

/// Writes permitted settings, and restores the originals.
pub struct Writer {
    pub(crate) sysfs: Sysfs,
    pub(crate) files: Box<dyn Files>,
    pub(crate) journal: Journal,
    pub(crate) rules: Rules,
    /// Times of each device's scheduler switches within the last minute.
    pub(crate) switches: BTreeMap<String, VecDeque<Nanos>>,
    /// Whether settings are restored at the end, by device, as set by clients.
    policies: BTreeMap<String, AtExit>,
    /// Other writers of each device's scheduler.
    other_writers: BTreeMap<String, OtherWriters>,
    /// Locks that keep other appliers from setting a device; `None` if there are no locks on this system.
    locks: BTreeMap<String, Option<File>>,
}

/// The journal's records of a present device.
pub(crate) struct Known {
    pub identity: Identity,
    pub records: Vec<Record>,
    pub damage: Vec<String>,
    /// Records of another boot or another device.
    pub void: Vec<Record>,
}

impl Writer {
    /// A writer with this journal.
    pub fn new(sysfs: Sysfs, files: Box<dyn Files>, journal: Journal, rules: Rules) -> Writer {
        Writer {
            sysfs,
            files,
            journal,
            rules,
            switches: BTreeMap::new(),
            policies: BTreeMap::new(),
            other_writers: BTreeMap::new(),
            locks: BTreeMap::new(),
        }
    }

    /// Locks a device against other appliers: two would each take the other's changes for an administrator's.
    ///
    /// # Errors
    /// Another applier holds the lock.
    pub(crate) fn lock(&mut self, device: &str) -> Result<(), ApplierError> {
        if device == MACHINE || self.locks.contains_key(device) {
            return Ok(());
        }
        match self.files.lock(device) {
            Ok(lock) => self.locks.insert(device.to_owned(), lock),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let message =
                    format_args!("{device}: another seekwise-applier sets it; nothing was set. Stop one of the two agents");
                return Err(ApplierError::new(ErrorKind::InUse, message));
            }
            // Without locks it works as before.
            Err(_) => self.locks.insert(device.to_owned(), None),
        };
        Ok(())
    }

    /// Other writers of the device's scheduler, watched from the first call on; `None` if they cannot be observed.
    pub(crate) fn other_writers(&mut self, device: &str) -> Option<&mut OtherWriters> {
        let scheduler = find(SCHEDULER).filter(|_| device != MACHINE)?;
        if self.other_writers.get_mut(device).is_none_or(OtherWriters::is_gone) {
            self.other_writers.remove(device);
            let watch = self.files.other_writers(&scheduler.path(&self.sysfs, device))?;
            self.other_writers.insert(device.to_owned(), watch);
        }
        self.other_writers.get_mut(device)
    }

    /// The attributes that were changed externally since the agent last set them, including those on which it has stood down.
    ///
    /// # Errors
    /// There is no such device, or the device or the journal cannot be read.
    pub fn foreign(&mut self, device: &str) -> Result<Vec<Foreign>, ApplierError> {
        if is_cgroup(device) {
            return self.foreign_cgroup(device);
        }
        let records = self.known(device)?.records;
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let state = self.state_of(device, &records)?;
        let foreign = |record: &Record| {
            (ownership_of(record, &records, &state) == Ownership::Foreign).then(|| Foreign {
                attribute: record.attribute.clone(),
                ours: [&record.claimed, &record.ours, &record.pending].into_iter().flatten().next().cloned().unwrap_or_default(),
                now: state.get(&record.attribute).map(str::to_owned),
                released: record.released,
            })
        };
        Ok(records.iter().filter_map(foreign).collect())
    }

    /// Stands down: external changes stay until the device is [resumed](Writer::resume). `changed`: changes known to the caller, which the
    /// journal may not show: the name, and the value that the agent had or wanted.
    ///
    /// # Errors
    /// Those of [`foreign`](Writer::foreign); the journal cannot be written; an attribute is unknown.
    pub fn release(&mut self, at: Moment, device: &str, changed: &[(String, String)]) -> Result<(), ApplierError> {
        if is_cgroup(device) {
            return self.release_cgroup(device, changed);
        }
        let changed = changed
            .iter()
            .map(|(name, value)| Ok((known_attribute(name, device)?, value)))
            .collect::<Result<Vec<(&'static Attribute, &String)>, String>>()
            .map_err(|reason| ApplierError::new(ErrorKind::NotAllowed, format_args!("{device}: {reason}")))?;
        let known = self.known(device)?;
        whole(&known.damage)?;
        let is_known = |attribute: &Attribute| known.records.iter().any(|record| record.attribute == attribute.name);
        let at_exit = self.policy(device, &known.records);
        let new = changed.iter().filter(|(attribute, _)| !is_known(attribute)).map(|(attribute, value)| Record {
            device: known.identity.clone(),
            attribute: attribute.name.clone(),
            scheduler: attribute.scheduler().map(str::to_owned),
            original: Some((*value).clone()),
            ours: Some((*value).clone()),
            released: true,
            why: "changed externally, before the agent had set it".to_owned(),
            unix_seconds: at.unix_seconds,
            at_exit,
            ..Record::default()
        });
        let records: Vec<Record> = known.records.iter().cloned().chain(new).collect();
        if records.len() > known.records.len() {
            self.store(device, &records)?;
        }
        self.keep(device, |record, ownership| {
            let change = changed.iter().find(|(attribute, _)| record.attribute == attribute.name && !record.released);
            if let Some((_, value)) = change.filter(|_| ownership == Ownership::Ours) {
                record.claimed = Some((*value).clone());
            }
            record.released |= change.is_some() || ownership == Ownership::Foreign;
            true
        })
    }

    /// Drops the records of external changes: the current values are the originals from now on. Where only the client knew of a change and
    /// the value is still the agent's, the record stays: a client must not be able to make the applier forget an original.
    ///
    /// # Errors
    /// Those of [`release`](Writer::release).
    pub fn resume(&mut self, device: &str) -> Result<(), ApplierError> {
        if is_cgroup(device) {
            return self.resume_cgroup(device);
        }
        let state = self.state(device)?;
        self.keep(device, |record, ownership| {
            let is_ours = record.claimed.take().is_some() && state.get(&record.attribute) == record.ours.as_deref();
            record.released &= !is_ours;
            ownership != Ownership::Foreign || is_ours
        })
    }

    /// Sets whether a device's settings are restored at the end.
    ///
    /// # Errors
    /// [`ErrorKind::NotAllowed`] if they shall be kept and [`Rules::may_keep`] does not allow it, and those of [`release`](Writer::release).
    pub fn at_exit(&mut self, device: &str, policy: AtExit) -> Result<(), ApplierError> {
        if is_cgroup(device) {
            let message = format_args!("{device}: limits of a cgroup are always put back at the end");
            return Err(ApplierError::new(ErrorKind::NotAllowed, message));
        }
        if policy == AtExit::Keep {
            self.rules.may_keep.check(checked(device)?)?;
        }
        self.keep(device, |record, _| {
            record.at_exit = policy;
            true
        })?;
        self.policies.insert(device.to_owned(), policy);
        self.other_writers(device);
        Ok(())
    }

    /// The original values of one device, or of all.
    ///
    /// # Errors
    /// The journal cannot be read, or is damaged.
    pub fn originals(&self, device: Option<&str>) -> Result<Vec<Original>, ApplierError> {
        let mut originals = Vec::new();
        for device in self.devices(device)? {
            if is_cgroup(&device) {
                originals.extend(self.originals_of_cgroups(Some(device.as_str()).filter(|device| *device != PAGE))?);
                continue;
            }
            // Another device may have taken the name of a removed one.
            let known = match self.known(&device) {
                Err(error) if error.kind == ErrorKind::NoDevice => continue,
                known => known?,
            };
            whole(&known.damage)?;
            let of_device = known.records.into_iter().filter_map(Original::of);
            originals.extend(of_device.map(|original| Original { scope: device.as_str().into(), ..original }));
        }
        Ok(originals)
    }

    /// Whether a device's settings are restored at the end: as set by a client, or by an earlier one according to the journal, or the
    /// default.
    pub(crate) fn policy(&self, device: &str, records: &[Record]) -> AtExit {
        let said = self.policies.get(device).copied().or_else(|| records.first().map(|record| record.at_exit));
        said.unwrap_or_default()
    }

    /// This device, or all devices in the journal.
    pub(crate) fn devices(&self, device: Option<&str>) -> Result<Vec<String>, ApplierError> {
        match device {
            Some(device) if is_cgroup(device) => Ok(vec![device.to_owned()]),
            Some(device) => Ok(vec![checked(device)?.to_owned()]),
            None => Ok(self.journal.devices(&*self.files)?),
        }
    }

    /// The journal's records of a present device.
    pub(crate) fn known(&self, device: &str) -> Result<Known, ApplierError> {
        let identity = Identity::of(&*self.files, &self.sysfs, checked(device)?).map_err(|error| self.system(device, error))?;
        let Some(identity) = identity else { return Err(self.no_device(device)) };
        let Page { records, damage } = self.journal.page(&*self.files, device)?;
        let (mut records, mut void): (Vec<Record>, Vec<Record>) =
            records.into_iter().partition(|record| record.device.compare(&identity) != Match::Other);
        if records.iter().any(|record| record.device.compare(&identity) == Match::OtherMedium) {
            self.take_over_medium(device, &identity, &mut records, &mut void)?;
        }
        Ok(Known { identity, records, damage, void })
    }

    /// After a change of the medium, what the agent left in the device is still to be restored; a change by others was about the medium that
    /// is gone, or is the kernel's, which resets some attributes for a new one.
    fn take_over_medium(
        &self,
        device: &str,
        identity: &Identity,
        records: &mut Vec<Record>,
        void: &mut Vec<Record>,
    ) -> Result<(), ApplierError> {
        let (state, all) = (self.state(device)?, records.clone());
        let is_void = |record: &mut Record| {
            record.device.compare(identity) == Match::OtherMedium
                && (record.released || ownership_of(record, &all, &state) == Ownership::Foreign)
        };
        void.extend(records.extract_if(.., is_void));
        records.iter_mut().for_each(|record| record.device.clone_from(identity));
        Ok(())
    }

    /// The current state of a device.
    pub(crate) fn state(&self, device: &str) -> Result<State, ApplierError> {
        let state = State::read(&*self.files, &self.sysfs, device).map_err(|error| self.system(device, error))?;
        // If the device was removed meanwhile, only a part was read.
        self.is_there(device).map(|()| state)
    }

    /// As much of the state of a device as shows the ownership of these records.
    fn state_of(&self, device: &str, records: &[Record]) -> Result<State, ApplierError> {
        // The side effects of a pending change depend on all attributes.
        if records.iter().any(|record| record.pending.is_some()) {
            return self.state(device);
        }
        let is_recorded = |attribute: &Attribute| records.iter().any(|record| record.attribute == attribute.name);
        let state =
            State::read_values(&*self.files, &self.sysfs, device, is_recorded).map_err(|error| self.system(device, error))?;
        self.is_there(device).map(|()| state)
    }

    /// Writes one attribute. Returns the kernel's time for it, in microseconds.
    pub(crate) fn write(&mut self, device: &str, attribute: &Attribute, value: &str) -> Result<u64, ApplierError> {
        let path = attribute.path(&self.sysfs, device);
        let took = self.files.set(&path, value).map_err(|error| self.system(device, SysfsError::writing(&path, value, error)))?;
        Ok(u64::try_from(took.as_micros()).unwrap_or(u64::MAX))
    }

    /// Switches the scheduler. Returns the kernel's time for it in microseconds, and the schedulers that were active meanwhile, in order.
    pub(crate) fn switch(&mut self, device: &str, attribute: &Attribute, value: &str) -> Result<(u64, Vec<String>), ApplierError> {
        let path = attribute.path(&self.sysfs, device);
        // The attribute cannot be read while it is being written, but the set of tunables can.
        let others = self.other_writers.get_mut(device);
        let set = self.files.set_and_observe(&path, value, &path.with_file_name("iosched"), others);
        let (took, seen) = set.map_err(|error| self.system(device, SysfsError::writing(&path, value, error)))?;
        let scheduler_of = |names: &Vec<String>| {
            let has = |tunable: &block::Tunable| names.iter().any(|name| name == tunable.name);
            block::of_linux()
                .find(|spec| !spec.tunables.is_empty() && spec.tunables.iter().any(has))
                .map(|spec| spec.name.to_owned())
        };
        Ok((u64::try_from(took.as_micros()).unwrap_or(u64::MAX), seen.iter().filter_map(scheduler_of).collect()))
    }

    /// The value of one attribute; `None` if it does not exist.
    pub(crate) fn value(&self, device: &str, attribute: &Attribute) -> Result<Option<String>, ApplierError> {
        let value = attribute.value(&*self.files, &self.sysfs, device).map_err(|error| self.system(device, error))?;
        if value.is_none() {
            self.is_there(device)?;
        }
        Ok(value)
    }

    fn is_there(&self, device: &str) -> Result<(), ApplierError> {
        if self.is_gone(device) { Err(self.no_device(device)) } else { Ok(()) }
    }

    fn no_device(&self, device: &str) -> ApplierError {
        let place = self.sysfs.block(device);
        ApplierError::new(ErrorKind::NoDevice, format_args!("{device}: there is no {}, or no longer", place.display()))
    }

    pub(crate) fn store(&mut self, device: &str, records: &[Record]) -> Result<(), ApplierError> {
        Ok(self.journal.put(&mut *self.files, device, records)?)
    }

    /// Whether the device is no longer there.
    pub(crate) fn is_gone(&self, device: &str) -> bool {
        device != MACHINE && self.files.names(&self.sysfs.block(device)).is_err()
    }

    /// Converts a system error, by the remedy.
    pub(crate) fn system(&self, device: &str, error: SysfsError) -> ApplierError {
        let kind = match error.source.kind() {
            _ if gone(&error.source) || self.is_gone(device) => ErrorKind::NoDevice,
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => ErrorKind::Forbidden,
            _ => ErrorKind::Kernel,
        };
        let vanished = if kind == ErrorKind::NoDevice { format!("{device} is gone: ") } else { String::new() };
        ApplierError::new(kind, format_args!("{vanished}{error}"))
    }

    /// Changes the records of a device, and drops those for which `change` returns false.
    fn keep(&mut self, device: &str, mut change: impl FnMut(&mut Record, Ownership) -> bool) -> Result<(), ApplierError> {
        let known = self.known(device)?;
        whole(&known.damage)?;
        let state = self.state(device)?;
        let ownerships: Vec<Ownership> = known.records.iter().map(|record| ownership_of(record, &known.records, &state)).collect();
        let mut kept = Vec::new();
        for (record, ownership) in known.records.iter().zip(ownerships) {
            let mut record = record.clone();
            if !is_void(&record, ownership) && change(&mut record, ownership) {
                kept.push(record);
            }
        }
        if kept == known.records && known.void.is_empty() {
            return Ok(());
        }
        self.store(device, &kept)
    }
}

/// Whether a record is of an external change that no longer exists: the tunable of a scheduler that is no longer active.
pub(crate) fn is_void(record: &Record, ownership: Ownership) -> bool {
    record.released && ownership == Ownership::Absent
}

/// A device name that cannot lead out of its folder.
pub(crate) fn checked(device: &str) -> Result<&str, ApplierError> {
    if device.is_empty() || device.starts_with('.') || device.contains(['/', '\0', '\n']) {
        return Err(ApplierError::new(ErrorKind::NoDevice, format_args!("{device:?} is no device; it should be a name as in sda")));
    }
    Ok(device)
}

/// Fails if a part of the journal is damaged.
pub(crate) fn whole(damage: &[String]) -> Result<(), ApplierError> {
    match damage.first() {
        None => Ok(()),
        Some(first) => {
            let message = format_args!(
                "journal {first}; nothing is set on this device until it is repaired. `restore` restores the readable records and keeps a copy of the file"
            );
            Err(ApplierError::new(ErrorKind::Journal, message))
        }
    }
}

impl From<JournalError> for ApplierError {
    fn from(error: JournalError) -> ApplierError {
        ApplierError::new(ErrorKind::Journal, error)
    }
}
