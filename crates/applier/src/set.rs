//! Sets attributes: all or none.
//!
//! ```text
//! check ─▶ journal: originals, and pending values ─▶ write, read back, one by one ─▶ journal: the agent's current values
//!                                                         └─ failure ─▶ roll back
//! ```

use block::Nanos;

use crate::attribute::{Attribute, READ_AHEAD, SCHEDULER, State, Upheaval, WRITE_BACK_THROTTLE, all, find};
use crate::error::{ApplierError, ErrorKind};
use crate::journal::Record;
use crate::other_writers::OtherWriters;
use crate::ownership::{Ownership, ownership_of};
use crate::plan::{Plan, Step};
use crate::protocol::{Changed, Scope, SetRequest};
use crate::writer::{Known, Moment, Writer, is_void, whole};

const MINUTE: Nanos = Nanos::from_millis(60_000);

/// The effects of writing.
#[derive(Default)]
struct Done {
    /// Time that each attribute took to be written, in microseconds.
    stalls: Vec<(&'static Attribute, u64)>,
    /// The obstacle to a [take-over](Writer::take_over); `None` if nothing did.
    unread: Option<String>,
}

/// The result of a scheduler switch.
pub(crate) enum Switched {
    /// It succeeded.
    Ours {
        /// Time that the kernel took, in microseconds.
        stall: u64,
    },
    /// Another program had switched before; nothing was written.
    Before {
        /// The active scheduler.
        now: Option<String>,
    },
    /// Another scheduler is active: another program switched afterwards, or the kernel chose it.
    After {
        /// The active scheduler.
        now: Option<String>,
    },
    /// Another program's concurrent switch was overwritten; its choice has been restored.
    BroughtBack {
        /// The active scheduler.
        theirs: String,
    },
    /// Another program's concurrent switch was overwritten, and its choice is unknown.
    Contested,
}

impl Writer {
    /// Sets attributes, all or none, and reads them back. Returns all changed attributes.
    ///
    /// # Errors
    /// Nothing is changed, unless the error is [`ErrorKind::HalfDone`].
    pub fn set(&mut self, at: Moment, wanted: &SetRequest) -> Result<Vec<Changed>, ApplierError> {
        if let Scope::Cgroup(path) = &wanted.scope {
            return self.set_cgroup(at, path, wanted);
        }
        let device = wanted.scope.name();
        let mut known = self.known(device)?;
        whole(&known.damage)?;
        let before = self.state(device)?;
        let plan = Plan::of(wanted, &before, self.rules.machine)?;
        refuse_foreign(device, &known.records, &before)?;
        let records = known.records.clone();
        known.records.retain(|record| !is_void(record, ownership_of(record, &records, &before)));
        if plan.is_active(&before) {
            return Ok(Vec::new());
        }
        self.lock(device)?;
        if plan.switches {
            self.may_switch(at.now, device)?;
        }
        let records = self.pending(at, wanted, &known, &before, &plan);
        self.store(device, &records)?;
        let done = self.execute(device, &plan, &before).and_then(|(done, after)| {
            self.store(device, &settled(records.clone(), &after))?;
            Ok((done, after))
        });
        match done {
            Ok((done, after)) => {
                if plan.switches {
                    self.switches.entry(device.to_owned()).or_default().push_back(at.now);
                }
                Ok(changes(&before, &after, &plan, &done))
            }
            Err(error) => Err(self.undo(device, &records, error)),
        }
    }

    fn may_switch(&mut self, now: Nanos, device: &str) -> Result<(), ApplierError> {
        let most = self.rules.switches_per_minute as usize;
        let switches = self.switches.entry(device.to_owned()).or_default();
        while switches.front().is_some_and(|then| *then + MINUTE <= now) {
            switches.pop_front();
        }
        if switches.len() < most {
            return Ok(());
        }
        let message = format_args!(
            "{device}: its scheduler was switched {most} times within a minute, and each switch stops it; nothing was set"
        );
        Err(ApplierError::new(ErrorKind::TooSoon, message))
    }

    /// The records during the execution of the plan: with all values to write, and all attributes that the kernel may change as a side
    /// effect.
    fn pending(&self, at: Moment, wanted: &SetRequest, known: &Known, before: &State, plan: &Plan) -> Vec<Record> {
        let upheaval = plan.upheaval(before);
        let mut records = known.records.clone();
        let involved = all().iter().filter(|attribute| plan.value(attribute).is_some() || upheaval.disturbs(attribute));
        let involved = involved.filter(|attribute| !attribute.is_view());
        for attribute in involved {
            let (value, now) = (plan.value(attribute).map(str::to_owned), before.get(&attribute.name).map(str::to_owned));
            let scheduler = attribute.scheduler();
            let default =
                attribute.tunable.filter(|_| scheduler == Some(&plan.scheduler)).map(|tunable| tunable.default.to_string());
            let by_hand = value.is_some();
            let Some(pending) = value.or_else(|| now.clone()).or(default) else { continue };
            let place = records.iter().position(|record| record.attribute == attribute.name);
            let place = place.unwrap_or_else(|| {
                let (attribute, scheduler) = (attribute.name.clone(), scheduler.map(str::to_owned));
                let (device, at_exit) = (known.identity.clone(), self.policy(wanted.scope.name(), &known.records));
                records.push(Record { device, attribute, scheduler, original: now, fresh: true, at_exit, ..Record::default() });
                records.len() - 1
            });
            let record = &mut records[place];
            record.pending = Some(pending);
            if by_hand {
                record.why.clone_from(&wanted.why);
                record.unix_seconds = at.unix_seconds;
            }
        }
        records
    }

    /// Writes the attributes one by one, and returns the resulting state. A value that is neither the previous one nor a side effect of the
    /// kernel's shows that another program is writing.
    fn execute(&mut self, device: &str, plan: &Plan, before: &State) -> Result<(Done, State), ApplierError> {
        let mut done = Done::default();
        let mut upheaval = Upheaval::default();
        let mut scheduler = before.scheduler();
        for Step { attribute, value } in &plan.steps {
            if let Some(stall) = self.step(device, attribute, value, before, (scheduler, &upheaval))? {
                done.stalls.push((*attribute, stall));
                upheaval.add(attribute);
                if attribute.name == SCHEDULER {
                    scheduler = value;
                    done.unread = self.take_over(device, value, plan.tunes());
                }
            }
        }
        // The read-ahead must not stay reset because of writes to other attributes of the queue.
        let kept = find(READ_AHEAD).filter(|attribute| upheaval.disturbs(attribute) && plan.value(attribute).is_none());
        if let (Some(attribute), Some(value)) = (kept, before.get(READ_AHEAD)) {
            self.step(device, attribute, value, before, (scheduler, &upheaval))?;
        }
        let after = self.state(device)?;
        verify(device, plan, before, &after, &upheaval)?;
        Ok((done, after))
    }

    /// Writes one attribute, unless it has the value already. Returns the time in microseconds. `scheduler`: the one that the agent left
    /// active.
    fn step(
        &mut self,
        device: &str,
        attribute: &'static Attribute,
        value: &str,
        before: &State,
        (scheduler, upheaval): (&str, &Upheaval),
    ) -> Result<Option<u64>, ApplierError> {
        let state = self.state(device)?;
        // The attribute has another meaning under another scheduler.
        if state.scheduler() != scheduler {
            return Err(meanwhile(device, SCHEDULER, Some(scheduler), Some(state.scheduler())));
        }
        if state.get(&attribute.name) == Some(value) {
            return Ok(None);
        }
        let former = |name: &str| before.number(name).into_iter().collect();
        let mut cause = Upheaval::default();
        cause.add(attribute);
        // The kernel's side effects would hide external changes, so affected attributes are checked first, and the attribute itself last.
        for read in all().iter().rev().filter(|other| *other == attribute || cause.disturbs(other)) {
            if let (Some(now), Some(then)) = (self.value(device, read)?, before.get(&read.name))
                && now != then
                && !upheaval.explains(read, &now, &state, former)
            {
                return Err(meanwhile(device, &read.name, Some(then), Some(&now)));
            }
        }
        if attribute.name == SCHEDULER {
            return self.switch_scheduler(device, attribute, value, scheduler).map(Some);
        }
        let stall = self.write(device, attribute, value)?;
        match self.value(device, attribute)? {
            Some(now) if attribute.may_read(value, &now) => Ok(Some(stall)),
            now => Err(mismatch(device, attribute, value, now.as_deref().unwrap_or("not there"))),
        }
    }

    /// Switches the scheduler from the one that the agent left active. Returns the time in microseconds.
    fn switch_scheduler(
        &mut self,
        device: &str,
        attribute: &'static Attribute,
        value: &str,
        from: &str,
    ) -> Result<u64, ApplierError> {
        match self.switch_unless_contested(device, attribute, value, from)? {
            Switched::Ours { stall } => Ok(stall),
            Switched::Before { now } => Err(meanwhile(device, SCHEDULER, Some(from), now.as_deref())),
            Switched::After { now } => Err(mismatch(device, attribute, value, now.as_deref().unwrap_or("not there"))),
            Switched::BroughtBack { theirs } => Err(meanwhile(device, SCHEDULER, Some(from), Some(&theirs))),
            Switched::Contested => {
                let message =
                    format_args!("{device}: {SCHEDULER} was written by another program at the same moment; nothing was set");
                Err(ApplierError::new(ErrorKind::Foreign, message))
            }
        }
    }

    /// Switches the scheduler. As that takes long, another program may switch it concurrently; its choice then prevails.
    pub(crate) fn switch_unless_contested(
        &mut self,
        device: &str,
        attribute: &'static Attribute,
        value: &str,
        from: &str,
    ) -> Result<Switched, ApplierError> {
        self.other_writers(device).map(OtherWriters::wait);
        // The last check, as close to the write as possible.
        let now = self.value(device, attribute)?;
        if now.as_deref() != Some(from) {
            return Ok(Switched::Before { now });
        }
        let (stall, meanwhile_active) = self.switch(device, attribute, value)?;
        // A concurrent write that started meanwhile has completed, too; it is visible if it came second.
        let is_contested = self.other_writers(device).is_some_and(|others| {
            let is_contested = others.wait() > 1;
            if is_contested {
                others.wait_until_quiet();
            }
            is_contested
        });
        match self.value(device, attribute)? {
            Some(now) if now == value && !is_contested => Ok(Switched::Ours { stall }),
            Some(now) if now == value => {
                // It came first, and was overwritten.
                let Some(theirs) = meanwhile_active.into_iter().rfind(|active| active != value && active != from) else {
                    return Ok(Switched::Contested);
                };
                self.write(device, attribute, &theirs)?;
                Ok(Switched::BroughtBack { theirs })
            }
            now => Ok(Switched::After { now }),
        }
    }

    /// Restores the values from before these records became pending, and adds the result to the error.
    fn undo(&mut self, device: &str, records: &[Record], error: ApplierError) -> ApplierError {
        if self.is_gone(device) {
            // The kernel's settings are gone with the device; a journal that cannot be written is void by its identity.
            let _ = self.store(device, &[]);
            return ApplierError::new(ErrorKind::NoDevice, format_args!("{error}; its settings went with it"));
        }
        match self.roll_back(device, records) {
            Ok(()) => error,
            Err(half_done) => {
                let message =
                    format_args!("{error}; and undoing it failed: {half_done}; the journal has the originals, for `restore`");
                ApplierError::new(ErrorKind::HalfDone, message)
            }
        }
    }
}

fn refuse_foreign(device: &str, records: &[Record], now: &State) -> Result<(), ApplierError> {
    let Some(theirs) = records.iter().find(|record| ownership_of(record, records, now) == Ownership::Foreign) else {
        return Ok(());
    };
    let is = now.get(&theirs.attribute).unwrap_or("not there");
    let was = theirs.ours.as_deref().unwrap_or("something else");
    let message = format_args!(
        "{device}: {} is {is}, and the agent had left it at {was}: changed externally, which wins. Nothing is set on {device} until it is resumed",
        theirs.attribute
    );
    Err(ApplierError::new(ErrorKind::Foreign, message))
}

/// Checks that each value is the requested one, the previous one, or a side effect of the kernel's.
fn verify(device: &str, plan: &Plan, before: &State, after: &State, upheaval: &Upheaval) -> Result<(), ApplierError> {
    let former = |name: &str| before.number(name).into_iter().collect();
    for (name, now) in &after.values {
        let Some(attribute) = find(name).filter(|attribute| !attribute.is_view()) else { continue };
        match (plan.value(attribute), before.get(name)) {
            (Some(value), _) if !attribute.may_read(value, now) => return Err(mismatch(device, attribute, value, now)),
            (None, Some(then)) if then != now && !upheaval.explains(attribute, now, after, former) => {
                return Err(meanwhile(device, name, Some(then), Some(now)));
            }
            _ => {}
        }
    }
    Ok(())
}

fn meanwhile(device: &str, name: &str, then: Option<&str>, now: Option<&str>) -> ApplierError {
    let (then, now) = (then.unwrap_or("not there"), now.unwrap_or("not there"));
    let message = format_args!("{device}: {name} was {then} and is {now}: changed externally meanwhile; nothing was set");
    ApplierError::new(ErrorKind::Foreign, message)
}

fn mismatch(device: &str, attribute: &Attribute, value: &str, now: &str) -> ApplierError {
    let name = &attribute.name;
    let message = format_args!(
        "{device}: {name} is {now} after {value} was written: the kernel makes that of it, or it was changed externally at once"
    );
    ApplierError::new(ErrorKind::Kernel, message)
}

/// The records after everything was written.
fn settled(mut records: Vec<Record>, after: &State) -> Vec<Record> {
    let scheduler = after.scheduler();
    let in_force = |record: &Record| record.scheduler.as_deref().is_none_or(|owner| owner == scheduler);
    for record in &mut records {
        let now = after.get(&record.attribute).filter(|_| in_force(record)).map(str::to_owned);
        if record.pending.take().is_some() || now.is_none() {
            record.ours = now;
        }
        record.fresh = false;
    }
    // An attribute that did not exist before and does not exist now needs no restoring.
    records.retain(|record| record.original.is_some() || record.ours.is_some());
    records
}

fn changes(before: &State, after: &State, plan: &Plan, done: &Done) -> Vec<Changed> {
    let differs = |attribute: &&Attribute| before.get(&attribute.name) != after.get(&attribute.name);
    let changed = |attribute: &Attribute| {
        let stall = done.stalls.iter().find(|(written, _)| *written == attribute);
        let was_loaded = |name: &String| attribute.name == SCHEDULER && after.get(SCHEDULER) == Some(name);
        let note = match (attribute.name.as_str(), &done.unread) {
            (WRITE_BACK_THROTTLE, _) if stall.is_some() => SET_BY_HAND,
            (SCHEDULER, Some(unread)) => unread,
            _ if before.loadable.iter().any(was_loaded) => LOADED,
            _ => "",
        };
        Changed {
            attribute: attribute.name.clone(),
            before: before.get(&attribute.name).map(str::to_owned),
            wanted: plan.value(attribute).map(str::to_owned),
            now: after.get(&attribute.name).map(str::to_owned),
            stall_microseconds: stall.map_or(0, |(_, microseconds)| *microseconds),
            note: note.to_owned(),
        }
    };
    all().iter().filter(differs).map(changed).collect()
}

/// Restoring the scheduler does not unload the module.
const LOADED: &str = "the kernel loaded its module, which stays";

/// `WBT_STATE_ON_MANUAL` and `WBT_STATE_OFF_MANUAL` are never left (`block/blk-wbt.c`).
const SET_BY_HAND: &str = "the kernel takes it for set by hand from now on, and no longer turns it off under bfq by itself; that stays until the device is gone";
