//! Restores the originals, or the values from before a failed change.

use std::path::Path;

use crate::attribute::{Attribute, MAX_SECTORS, SCHEDULER, State, Upheaval, all, find};
use crate::cgroup::{PAGE, is_cgroup};
use crate::error::{ApplierError, ErrorKind};
use crate::journal::{AtExit, Journal, Record};
use crate::ownership::{Ownership, ownership_of};
use crate::protocol::{Outcome, Restored};
use crate::server::check_owner;
use crate::set::Switched;
use crate::sysfs::{RealFiles, Sysfs};
use crate::writer::{Known, Rules, Writer, checked, is_void};

/// An attribute to restore.
#[derive(Clone, Debug)]
struct Target {
    record: Record,
    attribute: &'static Attribute,
    value: String,
    /// Whether it was changed externally: its value is then preserved if a scheduler switch resets it.
    theirs: bool,
}

/// Restores the originals of this journal, of one device or of everything, without a running applier.
///
/// # Errors
/// The journal is writable by others, or cannot be read.
pub fn restore_alone(journal: &Path, device: Option<&str>) -> Result<Vec<Restored>, ApplierError> {
    check_owner(journal)?;
    let mut files = RealFiles;
    let journal = Journal::open(&mut files, journal)?;
    Writer::new(Sysfs::real(), Box::new(files), journal, Rules::default()).restore(device)
}

impl Writer {
    /// Applies each device's policy at exit: at the start, after a crash of an earlier applier, and at the end.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn end(&mut self) -> Result<Vec<Restored>, ApplierError> {
        self.journal.remove_unfinished(&mut *self.files);
        let devices = self.journal.devices(&*self.files)?;
        Ok(devices.iter().flat_map(|device| self.end_of(device).unwrap_or_else(|error| vec![trouble(device, &error)])).collect())
    }

    /// Like [`end`](Writer::end), for one device.
    ///
    /// # Errors
    /// The journal cannot be read or written.
    pub fn end_of(&mut self, device: &str) -> Result<Vec<Restored>, ApplierError> {
        if is_cgroup(device) {
            return self.restore_device(device);
        }
        let page = self.journal.page(&*self.files, checked(device)?)?;
        let keeps = page.damage.is_empty() && page.records.iter().all(|record| record.at_exit == AtExit::Keep);
        if !keeps || self.is_gone(device) {
            return self.restore_device(device);
        }
        let records = self.known(device)?.records;
        self.roll_back(device, &records).map(|()| Vec::new())
    }

    /// Restores the originals of one device or of everything, but never over external changes. A failure on one device does not affect
    /// others.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn restore(&mut self, device: Option<&str>) -> Result<Vec<Restored>, ApplierError> {
        let devices = self.devices(device)?;
        Ok(devices
            .iter()
            .flat_map(|device| self.restore_device(device).unwrap_or_else(|error| vec![trouble(device, &error)]))
            .collect())
    }

    fn restore_device(&mut self, device: &str) -> Result<Vec<Restored>, ApplierError> {
        if is_cgroup(device) {
            return self.restore_cgroups(Some(device).filter(|device| *device != PAGE));
        }
        match self.restore_what_is_there(device) {
            Err(error) if error.kind == ErrorKind::NoDevice => {
                let page = self.journal.page(&*self.files, device)?;
                self.store(device, &[])?;
                let gone = page.records.iter().filter(|record| record.original.is_some());
                Ok(gone.map(|record| told(device, &record.attribute, record.original.as_ref(), Outcome::Gone)).collect())
            }
            restored => restored,
        }
    }

    fn restore_what_is_there(&mut self, device: &str) -> Result<Vec<Restored>, ApplierError> {
        let Known { identity, mut records, damage, void } = self.known(device)?;
        let mut restored = Vec::new();
        for record in void.iter().filter(|record| record.original.is_some()) {
            let outcome = if record.device.boot == identity.boot { Outcome::Gone } else { Outcome::EarlierBoot };
            restored.push(told(device, &record.attribute, record.original.as_ref(), outcome));
        }
        if !damage.is_empty() {
            let copy = self.journal.keep_damaged(&mut *self.files, device)?;
            let reason = format!("{}; a copy is in {}", damage.join("; "), copy.display());
            restored.push(told(device, "", None, Outcome::Failed { reason }));
        }
        for (record, outcome) in self.put_originals_back(device, &mut records)? {
            restored.push(told(device, &record.attribute, record.original.as_ref(), outcome));
        }
        Ok(restored)
    }

    /// Restores originals; failures and external changes stay in the journal.
    fn put_originals_back(&mut self, device: &str, records: &mut Vec<Record>) -> Result<Vec<(Record, Outcome)>, ApplierError> {
        let before = self.state(device)?;
        let ownerships: Vec<Ownership> = records.iter().map(|record| ownership_of(record, records, &before)).collect();
        for (record, ownership) in records.iter_mut().zip(ownerships) {
            record.released |= ownership == Ownership::Foreign;
            // After a pending write, the journal may be the only record of the current value.
            if ownership == Ownership::Ours {
                record.ours = before.get(&record.attribute).map(str::to_owned);
            }
            record.pending = record.original.clone().filter(|_| !record.released);
        }
        // Continues if this fails, for example on a full disk: the journal still has the originals, and restoring must not be blocked.
        let _ = self.store(device, records);
        let outcomes = self.put_back(device, records, |record| record.original.clone())?;
        let (after, all) = (self.state(device)?, records.clone());
        records.retain(|record| {
            let failed =
                |(of, outcome): &(Record, Outcome)| of.attribute == record.attribute && matches!(outcome, Outcome::Failed { .. });
            let stays_foreign = record.released && !is_void(record, ownership_of(record, &all, &after));
            stays_foreign || outcomes.iter().any(failed)
        });
        self.store(device, records)?;
        Ok(outcomes)
    }

    /// Restores the values from before these records became pending, and clears that state.
    pub(crate) fn roll_back(&mut self, device: &str, records: &[Record]) -> Result<(), ApplierError> {
        if records.iter().all(|record| record.pending.is_none()) {
            return Ok(());
        }
        let before = |record: &Record| {
            // A tunable of a scheduler that was not set by the agent, and is not new, did not exist.
            let original = record.original.clone().filter(|_| record.fresh || record.scheduler.is_none());
            record.pending.as_ref().and_then(|_| record.ours.clone().or(original))
        };
        let outcomes = self.put_back(device, records, before)?;
        let failed = outcomes.iter().find_map(|(record, outcome)| match outcome {
            Outcome::Failed { reason } => Some(format!("{}: {reason}", record.attribute)),
            _ => None,
        });
        if let Some(failed) = failed {
            return Err(ApplierError::new(ErrorKind::HalfDone, failed));
        }
        let settled = records.iter().filter(|record| !record.fresh).cloned();
        let settled: Vec<Record> = settled.map(|record| Record { pending: None, ..record }).collect();
        // With the present journal, all values would be found to be restored.
        let _ = self.store(device, &settled);
        Ok(())
    }

    /// Writes the value of each record in the order that the kernel needs, and continues after failures. Returns the results.
    fn put_back(
        &mut self,
        device: &str,
        records: &[Record],
        value: impl Fn(&Record) -> Option<String>,
    ) -> Result<Vec<(Record, Outcome)>, ApplierError> {
        let before = self.state(device)?;
        let targets: Vec<Target> = all()
            .iter()
            .filter_map(|attribute| {
                let record = records.iter().find(|record| record.attribute == attribute.name)?.clone();
                let theirs = ownership_of(&record, records, &before) == Ownership::Foreign;
                let value = if theirs { before.get(&record.attribute).unwrap_or_default().to_owned() } else { value(&record)? };
                Some(Target { record, attribute, value, theirs })
            })
            .collect();
        let mut trouble: Vec<(&str, ApplierError)> = Vec::new();
        // External values come last: restoring the others may have reset them.
        let (theirs, ours): (Vec<&Target>, Vec<&Target>) = targets.iter().partition(|target| target.theirs);
        for target in ours.into_iter().chain(theirs) {
            if let Err(error) = self.put_one_back(device, target, &targets, records) {
                trouble.push((&target.attribute.name, error));
            }
        }
        let after = self.state(device)?;
        let outcome = |target: &Target| {
            let error = trouble.iter().find(|(name, _)| *name == target.attribute.name).map(|(_, error)| error);
            (target.record.clone(), outcome(target, &before, &after, records, error))
        };
        Ok(targets.iter().map(outcome).collect())
    }

    fn put_one_back(&mut self, device: &str, target: &Target, targets: &[Target], records: &[Record]) -> Result<(), ApplierError> {
        let Target { record, attribute, value, theirs } = target;
        if let Some(others) = self.other_writers(device).filter(|_| attribute.name == SCHEDULER) {
            others.wait();
        }
        let state = self.state(device)?;
        let Some(now) = state.get(&attribute.name) else { return Ok(()) };
        if *theirs {
            return self.leave_theirs(device, (attribute, value), targets, &state);
        }
        if ownership_of(record, records, &state) != Ownership::Ours {
            return Ok(());
        }
        if attribute.name == MAX_SECTORS {
            // Whether the kernel chose it is not visible, so it is restored even if the value is right.
            return self.put_largest_request_back(device, attribute, value);
        }
        if now == value {
            return Ok(());
        }
        if let Some(counterpart) =
            attribute.counterpart().and_then(|name| targets.iter().find(|target| target.attribute.name == name))
        {
            // 0 means that the counterpart applies: it becomes 0 when that is written.
            return match (value.as_str(), counterpart.value.as_str()) {
                ("0", _) if !attribute.is_in_bytes() => Ok(()),
                ("0", ratio) => self.write(device, counterpart.attribute, ratio).map(drop),
                _ => self.write(device, attribute, value).map(drop),
            };
        }
        if attribute.name != SCHEDULER {
            return self.write(device, attribute, value).map(drop);
        }
        // A concurrent switch by another program prevails; the result shows the active scheduler.
        if let Switched::Ours { .. } | Switched::Contested = self.switch_unless_contested(device, attribute, value, now)? {
            self.take_over(device, value, false);
        }
        Ok(())
    }

    /// Restores an external value that restoring the others may have reset.
    fn leave_theirs(
        &mut self,
        device: &str,
        (attribute, value): (&Attribute, &str),
        targets: &[Target],
        state: &State,
    ) -> Result<(), ApplierError> {
        let mut upheaval = Upheaval::default();
        find(SCHEDULER).into_iter().for_each(|scheduler| upheaval.add(scheduler));
        targets.iter().filter(|target| !target.theirs).for_each(|target| upheaval.add(target.attribute));
        let former = |name: &str| {
            let of_name = targets.iter().filter(|target| target.attribute.name == name);
            of_name.filter_map(|target| target.value.parse().ok()).collect()
        };
        let now = state.get(&attribute.name).filter(|now| *now != value);
        let was_reset = now.is_some_and(|now| upheaval.explains(attribute, now, state, former));
        // Under `none` it would change the driver's own queue.
        if !was_reset || state.check(attribute, value, state.scheduler()).is_err() {
            return Ok(());
        }
        self.write(device, attribute, value).map(drop)
    }

    /// Restores the maximum request size. A value that was written stays when the driver's limit changes; the kernel's default follows it.
    /// Writing 0 returns to the default (`queue_max_sectors_store`), which is kept if the value is the same.
    fn put_largest_request_back(&mut self, device: &str, attribute: &'static Attribute, value: &str) -> Result<(), ApplierError> {
        // Older kernels refuse it.
        let _ = self.write(device, attribute, "0");
        if self.value(device, attribute)?.as_deref() == Some(value) {
            return Ok(());
        }
        self.write(device, attribute, value).map(drop)
    }
}

fn told(device: &str, attribute: &str, original: Option<&String>, outcome: Outcome) -> Restored {
    Restored { scope: device.into(), attribute: attribute.to_owned(), original: original.cloned(), outcome }
}

/// The result for a device on which nothing could be restored.
fn trouble(device: &str, error: &ApplierError) -> Restored {
    told(device, "", None, Outcome::Failed { reason: error.to_string() })
}

fn outcome(target: &Target, before: &State, after: &State, records: &[Record], error: Option<&ApplierError>) -> Outcome {
    let name = target.attribute.name.as_str();
    let owner_left = target.record.scheduler.as_deref().is_some_and(|owner| owner != after.scheduler());
    let now = after.get(name).filter(|_| !owner_left);
    let theirs = target.theirs || ownership_of(&target.record, records, after) == Ownership::Foreign;
    match (now, error) {
        _ if theirs => Outcome::Foreign { now: now.map(str::to_owned) },
        (Some(now), _) if now == target.value => match before.get(name) {
            Some(then) if then == now => Outcome::AlreadyThere,
            then => Outcome::Back { instead_of: then.unwrap_or("nothing").to_owned() },
        },
        (_, Some(error)) => Outcome::Failed { reason: error.to_string() },
        (Some(now), None) => Outcome::Failed { reason: format!("it is {now} after {} was written", target.value) },
        (None, None) => Outcome::Failed { reason: missing(target, after) },
    }
}

fn missing(target: &Target, after: &State) -> String {
    match &target.record.scheduler {
        Some(owner) => format!("it is {owner}'s, and {} is active", after.scheduler()),
        None => format!("this kernel no longer has it; {SCHEDULER} is {}", after.scheduler()),
    }
}
