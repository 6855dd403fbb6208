//! Sets and restores lines of cgroup files.
//!
//! ```text
//! check ─▶ journal: originals on disk, and pending values ─▶ write, read back ─▶ journal: the agent's current values
//!                                                               └─ failure ─▶ the previous lines
//! ```
//! A record of the journal is of one line. It is identified by the cgroup and the device: if either was removed or replaced, the kernel has
//! dropped the line.

use std::io;
use std::path::PathBuf;

use crate::cgroup::attribute::{Attribute, all, parse};
use crate::cgroup::hierarchy::number;
use crate::cgroup::{Hierarchy, PAGE, ROOT, checked_path};
use crate::error::{ApplierError, ErrorKind};
use crate::journal::{AtExit, Identity, Page, Record};
use crate::protocol::{Can, Changed, Foreign, Original, Outcome, Restored, SetRequest};
use crate::sysfs::SysfsError;
use crate::writer::{Moment, Writer, whole};

/// A device's line in a file of a cgroup.
#[derive(Clone, Debug)]
struct Line {
    attribute: &'static Attribute,
    /// The file.
    file: PathBuf,
    /// The device, for example `8:0`.
    number: String,
    /// Identity of the cgroup and the device.
    identity: Identity,
}

/// A line to write.
struct Step {
    line: Line,
    /// The name given by the client.
    name: String,
    before: String,
    /// The complete line.
    value: String,
}

impl Writer {
    /// The attributes of a cgroup, with the text of each file, and why it cannot be set.
    ///
    /// # Errors
    /// The cgroup may not be set, or does not exist.
    pub(crate) fn can_cgroup(&self, path: &str) -> Result<Vec<Can>, ApplierError> {
        let hierarchy = self.allowed(path)?;
        let can = |attribute: &'static Attribute| {
            let file = hierarchy.folder(path).join(attribute.name);
            let (value, refused) = match self.files.read(&file) {
                Ok(text) => {
                    (text, self.files.may_set(&file).err().map(|error| SysfsError::writing(&file, "anything", error).to_string()))
                }
                Err(_) => (String::new(), Some(hierarchy.why_missing(&*self.files, path, attribute.name))),
            };
            Can { attribute: attribute.name.to_owned(), value, range: None, words: Vec::new(), refused }
        };
        Ok(all(path == ROOT).map(can).collect())
    }

    /// Sets lines of a cgroup, all or none, and reads them back. A limit is never set above the original one.
    ///
    /// # Errors
    /// Nothing is changed, unless the error is [`ErrorKind::HalfDone`].
    pub(crate) fn set_cgroup(&mut self, at: Moment, path: &str, wanted: &SetRequest) -> Result<Vec<Changed>, ApplierError> {
        let hierarchy = self.allowed(path)?;
        let Page { records, damage } = self.journal.page(&*self.files, PAGE)?;
        whole(&damage)?;
        let records = self.without_void(path, records)?;
        for (name, value) in &wanted.expected {
            let (line, now) = self.line_now(&hierarchy, path, name)?;
            if !line.attribute.is(value, &now) {
                let message = format_args!(
                    "{path}: {name} was {value} when that was decided, and is {now} by now: changed externally; nothing was set"
                );
                return Err(ApplierError::new(ErrorKind::Stale, message));
            }
        }
        let mut steps: Vec<Step> = Vec::new();
        for (name, value) in &wanted.values {
            let mut step = self.checked_step(&hierarchy, path, name, value)?;
            let record = records.iter().find(|record| record.device == step.line.identity && record.attribute == *name);
            // It may have been changed externally since the last check.
            record.map_or(Ok(()), |record| refuse_foreign(record, step.line.attribute, &step.before))?;
            let original = record.and_then(|record| record.original.as_deref()).unwrap_or(&step.before);
            step.value = step.line.attribute.tightened(&step.value, original);
            if steps.iter().any(|other| other.name == step.name) {
                return Err(not_allowed(path, format_args!("{name} is given twice; once is right")));
            }
            steps.push(step);
        }
        steps.retain(|step| step.before != step.value);
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        self.lock(PAGE)?;
        let pending = pending(at, wanted, &records, &steps);
        if pending.iter().any(|record| record.fresh) {
            self.journal.put(&mut *self.files, PAGE, &pending)?;
        } else {
            self.journal.put_without_waiting(&mut *self.files, PAGE, &pending)?;
        }
        let mut changed = Vec::new();
        let done = steps.iter().try_for_each(|step| {
            changed.push(self.write_step(path, step)?);
            Ok(())
        });
        let done = done.and_then(|()| {
            let settled = settled(pending, &changed, path);
            Ok(self.journal.put_without_waiting(&mut *self.files, PAGE, &settled)?)
        });
        match done {
            Ok(()) => Ok(changed),
            Err(error) => Err(self.undo_steps(path, &records, &steps[..steps.len().min(changed.len() + 1)], error)),
        }
    }

    /// The lines of a cgroup that were changed externally, including those on which the agent has stood down.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub(crate) fn foreign_cgroup(&self, path: &str) -> Result<Vec<Foreign>, ApplierError> {
        let mut foreign = Vec::new();
        for record in self.journal.page(&*self.files, PAGE)?.records.into_iter().filter(|record| record.device.name == path) {
            let Ok((line, now)) = self.still_there(&record)? else { continue };
            if !is_ours(&record, line.attribute, &now) {
                let ours = record.ours.or(record.pending).unwrap_or_default();
                foreign.push(Foreign { attribute: record.attribute, ours, now: Some(now), released: record.released });
            }
        }
        Ok(foreign)
    }

    /// Stands down on the lines of a cgroup that were changed externally, and on those named by the caller.
    ///
    /// # Errors
    /// The journal cannot be read or written.
    pub(crate) fn release_cgroup(&mut self, path: &str, changed: &[(String, String)]) -> Result<(), ApplierError> {
        let foreign = self.foreign_cgroup(path)?;
        self.change_records(path, |record| {
            let is_foreign = foreign.iter().any(|one| one.attribute == record.attribute);
            record.released |= is_foreign || changed.iter().any(|(name, _)| *name == record.attribute);
            true
        })
    }

    /// Drops the records of externally changed lines: the current lines are the originals from now on.
    ///
    /// # Errors
    /// The journal cannot be read or written.
    pub(crate) fn resume_cgroup(&mut self, path: &str) -> Result<(), ApplierError> {
        let foreign = self.foreign_cgroup(path)?;
        self.change_records(path, |record| foreign.iter().all(|one| one.attribute != record.attribute))
    }

    /// The original lines of one cgroup, or of all.
    ///
    /// # Errors
    /// The journal cannot be read, or is damaged.
    pub(crate) fn originals_of_cgroups(&self, path: Option<&str>) -> Result<Vec<Original>, ApplierError> {
        let Page { records, damage } = self.journal.page(&*self.files, PAGE)?;
        whole(&damage)?;
        let wanted = records.into_iter().filter(|record| path.is_none_or(|path| record.device.name == path));
        Ok(wanted.filter_map(Original::of).collect())
    }

    /// Restores the lines of one cgroup or of all, but never over external changes.
    ///
    /// # Errors
    /// The journal cannot be read or written.
    pub(crate) fn restore_cgroups(&mut self, path: Option<&str>) -> Result<Vec<Restored>, ApplierError> {
        let Page { records, damage } = self.journal.page(&*self.files, PAGE)?;
        let mut restored = Vec::new();
        if !damage.is_empty() {
            let copy = self.journal.keep_damaged(&mut *self.files, PAGE)?;
            let reason = format!("{}; a copy is in {}", damage.join("; "), copy.display());
            let (scope, attribute) = (path.unwrap_or(PAGE).into(), String::new());
            restored.push(Restored { scope, attribute, original: None, outcome: Outcome::Failed { reason } });
        }
        let (wanted, mut kept): (Vec<Record>, Vec<Record>) =
            records.into_iter().partition(|record| path.is_none_or(|path| record.device.name == path));
        if wanted.is_empty() && damage.is_empty() {
            return Ok(restored);
        }
        for record in wanted {
            let outcome = self.restore_line(&record).unwrap_or_else(|error| Outcome::Failed { reason: error.to_string() });
            let (attribute, original) = (record.attribute.clone(), record.original.clone());
            let scope = record.device.name.as_str().into();
            match &outcome {
                Outcome::Foreign { .. } => kept.push(Record { released: true, ..record }),
                Outcome::Failed { .. } => kept.push(record),
                _ => {}
            }
            restored.push(Restored { scope, attribute, original, outcome });
        }
        // If the process is killed before this, the lines are found to be restored.
        self.journal.put_without_waiting(&mut *self.files, PAGE, &kept)?;
        Ok(restored)
    }

    fn restore_line(&mut self, record: &Record) -> Result<Outcome, ApplierError> {
        let (line, now) = match self.still_there(record)? {
            Ok(there) => there,
            Err(outcome) => return Ok(outcome),
        };
        let original = record.original.as_deref().unwrap_or_default();
        if !record.released && line.attribute.is(original, &now) {
            return Ok(Outcome::AlreadyThere);
        }
        if !is_ours(record, line.attribute, &now) {
            return Ok(Outcome::Foreign { now: Some(now) });
        }
        self.write_line(&line, original)?;
        match self.read_line(&line)? {
            Some(after) if line.attribute.is(original, &after) => Ok(Outcome::Back { instead_of: now }),
            Some(after) => Ok(Outcome::Failed { reason: format!("it is {after} after {original} was written") }),
            None => Ok(Outcome::Gone),
        }
    }

    /// The hierarchy, if this cgroup exists and may be set.
    fn allowed(&self, path: &str) -> Result<Hierarchy, ApplierError> {
        if !self.rules.cgroups.allows(checked_path(path)?) {
            let name = path.rsplit('/').next().filter(|name| !name.is_empty());
            let key = name.map_or("io_cost = true".to_owned(), |name| format!("neighbours = [\"{name}\"]"));
            return Err(not_allowed(
                path,
                format_args!("the configuration does not allow to limit it; {key} below [limits] would"),
            ));
        }
        let hierarchy = Hierarchy::find(&*self.files, &self.sysfs)?;
        if number(&*self.files, &hierarchy, path)?.is_none() {
            return Err(gone(path));
        }
        let own = self.files.read(&self.sysfs.proc().join("self/cgroup")).unwrap_or_default();
        let own = own.lines().find_map(|line| line.strip_prefix("0::"));
        if path != ROOT && own.and_then(|own| own.strip_prefix(path)).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            return Err(not_allowed(
                path,
                "the applier itself runs in it, and would be limited with it; name its children or siblings",
            ));
        }
        Ok(hierarchy)
    }

    /// The line for a name such as `io.max sda`, and its value.
    fn line_now(&self, hierarchy: &Hierarchy, path: &str, name: &str) -> Result<(Line, String), ApplierError> {
        let (attribute, device) = parse(name, path == ROOT).map_err(|reason| not_allowed(path, reason))?;
        let Some(line) = self.line(hierarchy, path, attribute, device)? else {
            let place = self.sysfs.block(device);
            let message = format_args!("{path}: there is no {}, or the cgroup is gone", place.display());
            return Err(ApplierError::new(ErrorKind::NoDevice, message));
        };
        let now = self.read_line(&line)?;
        let missing = || not_allowed(path, hierarchy.why_missing(&*self.files, path, attribute.name));
        now.map(|now| (line, now)).ok_or_else(missing)
    }

    /// The line of a device in a cgroup; `None` if either does not exist.
    fn line(
        &self,
        hierarchy: &Hierarchy,
        path: &str,
        attribute: &'static Attribute,
        device: &str,
    ) -> Result<Option<Line>, ApplierError> {
        let of_device = Identity::of(&*self.files, &self.sysfs, device).map_err(|error| self.system(device, error))?;
        let numbers = (number(&*self.files, hierarchy, path)?, self.files.read(&self.sysfs.block(device).join("dev")).ok());
        let (Some(of_device), (Some(cgroup), Some(number))) = (of_device, numbers) else { return Ok(None) };
        let says = format!("{cgroup} {} {}", of_device.says, number);
        let identity = Identity { name: path.to_owned(), says, ..of_device };
        Ok(Some(Line { attribute, file: hierarchy.folder(path).join(attribute.name), number, identity }))
    }

    /// The line of a record with its value, or the reason why the kernel has dropped it.
    fn still_there(&self, record: &Record) -> Result<Result<(Line, String), Outcome>, ApplierError> {
        let path = record.device.name.as_str();
        let Ok((attribute, device)) = parse(&record.attribute, path == ROOT) else { return Ok(Err(Outcome::Gone)) };
        let boot = self.files.read(&self.sysfs.boot_id());
        if boot.is_ok_and(|boot| boot != record.device.boot) {
            return Ok(Err(Outcome::EarlierBoot));
        }
        let hierarchy = Hierarchy::find(&*self.files, &self.sysfs)?;
        let line = self.line(&hierarchy, path, attribute, device)?.filter(|line| line.identity == record.device);
        let Some(line) = line else { return Ok(Err(Outcome::Gone)) };
        // Without the controller the kernel drops the line, too.
        Ok(self.read_line(&line)?.map(|now| (line, now)).ok_or(Outcome::Gone))
    }

    /// Removes the cgroup's void records.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`]: a line was changed externally.
    fn without_void(&self, path: &str, records: Vec<Record>) -> Result<Vec<Record>, ApplierError> {
        let mut kept = Vec::new();
        for record in records {
            if record.device.name == path {
                let Ok((line, now)) = self.still_there(&record)? else { continue };
                refuse_foreign(&record, line.attribute, &now)?;
            }
            kept.push(record);
        }
        Ok(kept)
    }

    fn checked_step(&self, hierarchy: &Hierarchy, path: &str, name: &str, value: &str) -> Result<Step, ApplierError> {
        let (line, before) = self.line_now(hierarchy, path, name)?;
        line.attribute.check(value).map_err(|reason| not_allowed(path, reason))?;
        let floor = self.rules.cgroups.floor_bytes_per_s;
        if let Some(least) = line.attribute.least_bytes_per_s(value).filter(|least| *least < floor) {
            let reason =
                format_args!("{name}: {least} bytes/s is below the floor of {floor} bytes/s, which is floor_mb_s of [limits]");
            return Err(not_allowed(path, reason));
        }
        let value = line.attribute.merged(&before, value);
        Ok(Step { line, name: name.to_owned(), before, value })
    }

    /// Writes a line, if it has not changed since the check.
    fn write_step(&mut self, path: &str, step: &Step) -> Result<Changed, ApplierError> {
        let Step { line, name, before, value } = step;
        let now = self.read_line(line)?.ok_or_else(|| gone(path))?;
        if now != *before {
            let message = format_args!("{path}: {name} was {before} and is {now}: changed externally meanwhile; nothing was set");
            return Err(ApplierError::new(ErrorKind::Foreign, message));
        }
        let stall_microseconds = self.write_line(line, value)?;
        let now = self.read_line(line)?.ok_or_else(|| gone(path))?;
        if !line.attribute.is(value, &now) {
            let message = format_args!(
                "{path}: {name} is {now} after {value} was written: the kernel makes that of it, or it was changed externally at once"
            );
            return Err(ApplierError::new(ErrorKind::Kernel, message));
        }
        let (before, wanted) = (Some(before.clone()), Some(value.clone()));
        Ok(Changed { attribute: name.clone(), before, wanted, now: Some(now), stall_microseconds, note: String::new() })
    }

    /// Restores the lines of these steps and the previous journal, and adds a failure of that to the error.
    fn undo_steps(&mut self, path: &str, records: &[Record], steps: &[Step], error: ApplierError) -> ApplierError {
        for Step { line, name, before, value } in steps {
            let is_ours = |now: &String| line.attribute.is(value, now) && now != before;
            let undone = match self.read_line(line) {
                Ok(Some(now)) if is_ours(&now) => self.write_line(line, before).map(drop),
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(half_done) = undone {
                let message = format_args!(
                    "{error}; and undoing it failed: {path}: {name}: {half_done}; the journal has the originals, for `restore`"
                );
                return ApplierError::new(ErrorKind::HalfDone, message);
            }
        }
        // With the present journal, all lines would be found to be restored.
        let _ = self.journal.put_without_waiting(&mut *self.files, PAGE, records);
        error
    }

    fn change_records(&mut self, path: &str, mut keeps: impl FnMut(&mut Record) -> bool) -> Result<(), ApplierError> {
        let Page { mut records, damage } = self.journal.page(&*self.files, PAGE)?;
        whole(&damage)?;
        let before = records.clone();
        records.retain_mut(|record| record.device.name != path || keeps(record));
        if records == before {
            return Ok(());
        }
        Ok(self.journal.put(&mut *self.files, PAGE, &records)?)
    }

    /// The value of a line; `None` if the file does not exist.
    fn read_line(&self, line: &Line) -> Result<Option<String>, ApplierError> {
        match self.files.read(&line.file) {
            Ok(text) => Ok(Some(line.attribute.value(&text, &line.number))),
            // The cgroup was removed while its file was open.
            Err(error) if error.kind() == io::ErrorKind::NotFound || crate::sysfs::gone(&error) => Ok(None),
            Err(error) => Err(cgroup_error(SysfsError::reading(&line.file, error))),
        }
    }

    /// Writes a line. Returns the kernel's time for it, in microseconds.
    fn write_line(&mut self, line: &Line, value: &str) -> Result<u64, ApplierError> {
        let text = format!("{} {value}", line.number);
        let took =
            self.files.set(&line.file, &text).map_err(|error| cgroup_error(SysfsError::writing(&line.file, &text, error)))?;
        Ok(u64::try_from(took.as_micros()).unwrap_or(u64::MAX))
    }
}

/// Whether a line has the agent's value, or the previous one if a pending write may not have happened.
fn is_ours(record: &Record, attribute: &Attribute, now: &str) -> bool {
    let is = |value: &Option<String>| value.as_deref().is_some_and(|value| attribute.is(value, now));
    !record.released && (is(&record.ours) || (record.pending.is_some() && (is(&record.pending) || is(&record.original))))
}

fn refuse_foreign(record: &Record, attribute: &Attribute, now: &str) -> Result<(), ApplierError> {
    if is_ours(record, attribute, now) {
        return Ok(());
    }
    let path = &record.device.name;
    let ours = record.ours.as_deref().or(record.pending.as_deref()).unwrap_or("something else");
    let message = format_args!(
        "{path}: {} is {now}, and the agent had left it at {ours}: changed externally, which wins. Nothing is set on {path} until it is resumed",
        record.attribute
    );
    Err(ApplierError::new(ErrorKind::Foreign, message))
}

/// The records while the steps are being written.
fn pending(at: Moment, wanted: &SetRequest, records: &[Record], steps: &[Step]) -> Vec<Record> {
    let mut records = records.to_vec();
    for Step { line, name, before, value } in steps {
        let place = records.iter().position(|record| record.device == line.identity && record.attribute == *name);
        let place = place.unwrap_or_else(|| {
            let (device, attribute, original) = (line.identity.clone(), name.clone(), Some(before.clone()));
            // Without the agent to adjust them, limits must not stay.
            records.push(Record { device, attribute, original, fresh: true, at_exit: AtExit::Restore, ..Record::default() });
            records.len() - 1
        });
        let record = &mut records[place];
        record.pending = Some(value.clone());
        record.why.clone_from(&wanted.why);
        record.unix_seconds = at.unix_seconds;
    }
    records
}

/// The records after the steps were written.
fn settled(mut records: Vec<Record>, changed: &[Changed], path: &str) -> Vec<Record> {
    for record in records.iter_mut().filter(|record| record.device.name == path) {
        if let Some(change) = changed.iter().find(|change| change.attribute == record.attribute) {
            (record.ours, record.pending, record.fresh) = (change.now.clone(), None, false);
        }
    }
    records
}

fn not_allowed(path: &str, reason: impl std::fmt::Display) -> ApplierError {
    ApplierError::new(ErrorKind::NotAllowed, format_args!("{path}: {reason}; nothing was set"))
}

fn gone(path: &str) -> ApplierError {
    ApplierError::new(ErrorKind::NoDevice, format_args!("{path}: there is no such cgroup, or no longer"))
}

/// Converts a system error, by the remedy.
fn cgroup_error(error: SysfsError) -> ApplierError {
    let kind = match error.source.kind() {
        io::ErrorKind::NotFound => ErrorKind::NoDevice,
        _ if crate::sysfs::gone(&error.source) => ErrorKind::NoDevice,
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => ErrorKind::Forbidden,
        _ => ErrorKind::Kernel,
    };
    ApplierError::new(kind, error)
}
