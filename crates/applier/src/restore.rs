//! Putting back: the originals, or what was there before something that did not succeed.

use std::path::Path;

use crate::attribute::{Attribute, MAX_SECTORS, SCHEDULER, State, Upheaval, all, find};
use crate::cgroup::{PAGE, is_cgroup};
use crate::error::{ApplierError, Kind};
use crate::journal::{AtExit, Journal, Record};
use crate::ownership::{Ownership, ownership_of};
use crate::protocol::{Outcome, Restored};
use crate::server::check_owner;
use crate::set::Switched;
use crate::sysfs::{RealFiles, Sysfs};
use crate::writer::{Known, Rules, Writer, checked, is_void};

/// An attribute that is to be put back.
#[derive(Clone, Debug)]
struct Target {
    record: Record,
    attribute: &'static Attribute,
    value: String,
    /// It was changed externally, and is kept when a switch of the scheduler resets it.
    theirs: bool,
}

/// Puts the originals of this journal back, of one device or of everything, where no applier runs.
///
/// # Errors
/// The journal is not the caller's alone, or cannot be read.
pub fn restore_alone(journal: &Path, device: Option<&str>) -> Result<Vec<Restored>, ApplierError> {
    check_owner(journal)?;
    let mut files = RealFiles;
    let journal = Journal::open(&mut files, journal)?;
    Writer::new(Sysfs::real(), Box::new(files), journal, Rules::default()).restore(device)
}

impl Writer {
    /// Does what was to become of everything at the agent's end: after a crash, at the beginning; otherwise at the end.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn end(&mut self) -> Result<Vec<Restored>, ApplierError> {
        self.journal.remove_unfinished(&mut *self.files);
        let devices = self.journal.devices(&*self.files)?;
        Ok(devices.iter().flat_map(|device| self.end_of(device).unwrap_or_else(|error| vec![trouble(device, &error)])).collect())
    }

    /// As [`end`](Writer::end), of one device.
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

    /// Puts the originals back, of one device or of everything, but never over external changes. Trouble with one device
    /// keeps no other from it.
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
            Err(error) if error.kind == Kind::NoDevice => {
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

    /// Puts originals back; failures and external changes stay in the journal.
    fn put_originals_back(&mut self, device: &str, records: &mut Vec<Record>) -> Result<Vec<(Record, Outcome)>, ApplierError> {
        let before = self.state(device)?;
        let ownerships: Vec<Ownership> = records.iter().map(|record| ownership_of(record, records, &before)).collect();
        for (record, ownership) in records.iter_mut().zip(ownerships) {
            record.released |= ownership == Ownership::Foreign;
            // If a write was pending, the journal may be the only record of the current value.
            if ownership == Ownership::Ours {
                record.ours = before.get(&record.attribute).map(str::to_owned);
            }
            record.pending = record.original.clone().filter(|_| !record.released);
        }
        // Where this cannot be written, as on a full disk, the journal has the originals all the same: they must not be kept waiting.
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

    /// Puts back what was there before these became pending, and forgets that they were.
    pub(crate) fn roll_back(&mut self, device: &str, records: &[Record]) -> Result<(), ApplierError> {
        if records.iter().all(|record| record.pending.is_none()) {
            return Ok(());
        }
        let before = |record: &Record| {
            // A scheduler's tunable that is not the agent's, and is not new, was not there.
            let original = record.original.clone().filter(|_| record.fresh || record.scheduler.is_none());
            record.pending.as_ref().and_then(|_| record.ours.clone().or(original))
        };
        let outcomes = self.put_back(device, records, before)?;
        let failed = outcomes.iter().find_map(|(record, outcome)| match outcome {
            Outcome::Failed { reason } => Some(format!("{}: {reason}", record.attribute)),
            _ => None,
        });
        if let Some(failed) = failed {
            return Err(ApplierError::new(Kind::HalfDone, failed));
        }
        let settled = records.iter().filter(|record| !record.fresh).cloned();
        let settled: Vec<Record> = settled.map(|record| Record { pending: None, ..record }).collect();
        // With the journal as it is, all would be found to be back.
        let _ = self.store(device, &settled);
        Ok(())
    }

    /// Writes what each record is to be put back to, in the order that the kernel needs, and goes on after trouble. What became of each.
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
        // External values come last: what is put back may have reset them.
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
            // Whether it was the kernel's choice is not seen, so it must be done even where the value is right.
            return self.put_largest_request_back(device, attribute, value);
        }
        if now == value {
            return Ok(());
        }
        if let Some(counterpart) =
            attribute.counterpart().and_then(|name| targets.iter().find(|target| target.attribute.name == name))
        {
            // 0 says that the other one holds, and is what this one becomes when that is written.
            return match (value.as_str(), counterpart.value.as_str()) {
                ("0", _) if !attribute.is_in_bytes() => Ok(()),
                ("0", ratio) => self.write(device, counterpart.attribute, ratio).map(drop),
                _ => self.write(device, attribute, value).map(drop),
            };
        }
        if attribute.name != SCHEDULER {
            return self.write(device, attribute, value).map(drop);
        }
        // Another program that writes at this moment wins, too; what is active then shows in the outcome.
        if let Switched::Ours { .. } | Switched::Contested = self.switch_unless_contested(device, attribute, value, now)? {
            self.take_over(device, value, false);
        }
        Ok(())
    }

    /// An external value, which restoring the others may have reset.
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
        // Under none it would change the driver's own queue.
        if !was_reset || state.check(attribute, value, state.scheduler()).is_err() {
            return Ok(());
        }
        self.write(device, attribute, value).map(drop)
    }

    /// A value that was written stays when the driver's limit changes later, and one that the kernel chose follows it. 0 brings that back
    /// (`queue_max_sectors_store`), if it comes to the same value.
    fn put_largest_request_back(&mut self, device: &str, attribute: &'static Attribute, value: &str) -> Result<(), ApplierError> {
        // Older kernels do not take it.
        let _ = self.write(device, attribute, "0");
        if self.value(device, attribute)?.as_deref() == Some(value) {
            return Ok(());
        }
        self.write(device, attribute, value).map(drop)
    }
}

fn told(device: &str, attribute: &str, original: Option<&String>, outcome: Outcome) -> Restored {
    Restored { device: device.to_owned(), attribute: attribute.to_owned(), original: original.cloned(), outcome }
}

/// A device of which nothing could be put back.
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
