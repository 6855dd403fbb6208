//! A Linux block device as the target of a controller.
//!
//! ```text
//! Setting   bfq:slice_idle=0 read_ahead_kb=1024  ─▶  scheduler=bfq  iosched/slice_idle=0  read_ahead_kb=1024,
//!                                                    and everything else at its original value
//! ```
//! Anything that a setting does not name has its original value; but under another scheduler than the original one, `nr_requests` and the
//! target of write-back throttling have the kernel's defaults for it.

use std::sync::{Mutex, PoisonError};

use block::{Limits, Merges, Nanos, SchedulerSpec, SettingError, Tunable};
use control::target::{Bounds, Identity};
use control::{Setting, Target, TargetError};

use applier::attribute::{
    Attribute, MACHINE, MAX_SECTORS, NONE, NR_REQUESTS, Owner, READ_AHEAD, SCHEDULER, State, WRITE_BACK_THROTTLE, all,
    default_requests, default_write_back_target, find,
};
use applier::sysfs::{Files, RealFiles, Sysfs};
use applier::{ApplierError, Can, Changed, Client, ErrorKind, Foreign, Outcome, Restored, Scope, SetRequest};

/// Assumed stall of a device for a scheduler switch before any was measured: 31 to 40 ms on Linux 6.18.
pub const SWITCH: Nanos = Nanos::from_millis(35);
/// The default of `async_depth` is `nr_requests`, or three quarters of it in older kernels.
const ASYNC_DEPTH: &str = "iosched/async_depth";

/// A host tunable that may be set.
#[derive(Clone, Copy)]
struct Host {
    attribute: &'static Attribute,
    /// The tunable with its range on this machine.
    tunable: &'static Tunable,
}

/// A device whose scheduler and tunables are set through the applier.
pub struct LinuxTarget {
    sysfs: Sysfs,
    files: Box<dyn Files>,
    device: String,
    model: String,
    applier: Client,
    /// The host tunables that may be set, of the device and of the machine.
    host: Vec<Host>,
    /// Whether the scheduler may be switched.
    may_switch: bool,
    /// Attributes of schedulers that may not be set.
    forbidden: Vec<&'static str>,
    before: State,
    machine_before: State,
    /// Values of the device when it was last set or accepted: changes are only made from these.
    known: State,
    /// The scheduler that was being set when another program changed it concurrently; `None` if that did not happen.
    contested: Option<String>,
    /// The last setting, and the device's and the machine's state after it: the kernel rounds values.
    asked: Option<(Setting, State, State)>,
    switch: Nanos,
    why: String,
}

impl LinuxTarget {
    /// The device with this name, for example `sda`; knowledge is stored under the name of its model. `allowed`: whether an attribute may
    /// be set.
    ///
    /// # Errors
    /// The applier cannot set the allowed attributes.
    pub fn new(
        sysfs: &Sysfs,
        device: &str,
        model: &str,
        applier: Client,
        allowed: impl Fn(&str) -> bool,
    ) -> Result<LinuxTarget, ApplierError> {
        LinuxTarget::with_files(sysfs, Box::new(RealFiles), device, model, applier, allowed)
    }

    /// Like [`new`](LinuxTarget::new), with another way to read the kernel's files.
    ///
    /// # Errors
    /// Those of [`new`](LinuxTarget::new).
    pub fn with_files(
        sysfs: &Sysfs,
        files: Box<dyn Files>,
        device: &str,
        model: &str,
        mut applier: Client,
        allowed: impl Fn(&str) -> bool,
    ) -> Result<LinuxTarget, ApplierError> {
        let mut can = applier.can(device)?;
        let of_machine = all().iter().any(|attribute| attribute.owner == Owner::Machine && allowed(&attribute.name));
        if of_machine {
            can.extend(applier.can(MACHINE)?);
        }
        // `nr_requests` is refused under `none`, but can be set under other schedulers.
        let possible = |name: &str| can.iter().find(|can| can.attribute == name && (can.refused.is_none() || name == NR_REQUESTS));
        let host = all().iter().filter(|attribute| allowed(&attribute.name)).filter_map(|attribute| {
            let tunable = tunable_of_host(attribute)?;
            Some(Host { attribute, tunable: within(tunable, possible(&attribute.name)?) })
        });
        let forbidden =
            all().iter().filter(|attribute| matches!(attribute.owner, Owner::Scheduler(_)) && !allowed(&attribute.name));
        let mut linux = LinuxTarget {
            host: host.collect(),
            may_switch: allowed(SCHEDULER) && possible(SCHEDULER).is_some(),
            forbidden: forbidden.map(|attribute| attribute.name.as_str()).collect(),
            before: State::default(),
            machine_before: State::default(),
            known: State::default(),
            contested: None,
            sysfs: sysfs.clone(),
            files,
            device: device.to_owned(),
            model: model.to_owned(),
            applier,
            asked: None,
            switch: SWITCH,
            why: String::new(),
        };
        linux.begin()?;
        Ok(linux)
    }

    /// Takes the active setting as the original one, except for changes by an earlier run of the agent. To be called again after the
    /// applier received [resume](Client::resume).
    ///
    /// # Errors
    /// The applier cannot report its changes.
    pub fn begin(&mut self) -> Result<(), ApplierError> {
        self.asked = None;
        (self.before, self.machine_before) = (self.state(&self.device), self.state_of_machine());
        (self.known, self.contested) = (self.before.clone(), None);
        self.know_originals()
    }

    /// External changes since the device was last set or accepted, of attributes that may be set. [`Client::foreign`] also returns those of
    /// attributes in the applier's journal.
    pub fn external_changes(&self) -> Vec<Foreign> {
        let now = self.state(&self.device);
        let changed = |name: &str| self.known.get(name) != now.get(name);
        // Another scheduler has other tunables and another `nr_requests`.
        let switched = changed(SCHEDULER) && self.may_switch;
        let names = self.may_set(&self.known).filter(|name| changed(name) && (!switched || *name == SCHEDULER));
        let foreign = |name: &str| {
            let ours = self.known.get(name).unwrap_or_default().to_owned();
            Foreign { attribute: name.to_owned(), ours, now: now.get(name).map(str::to_owned), released: false }
        };
        let contested = self.contested.iter().filter(|_| !switched).map(|wanted| {
            let (attribute, now) = (SCHEDULER.to_owned(), now.get(SCHEDULER).map(str::to_owned));
            Foreign { attribute, ours: wanted.clone(), now, released: false }
        });
        names.map(foreign).chain(contested).collect()
    }

    /// The applier was restarted and has restored its attributes: original values are no external changes.
    pub fn applier_restarted(&mut self) {
        self.asked = None;
        let now = self.state(&self.device);
        let originals = all().iter().filter(|attribute| now.get(&attribute.name) == self.before.get(&attribute.name));
        originals.for_each(|attribute| know(&mut self.known, &attribute.name, now.get(&attribute.name)));
    }

    /// The applier has restored the original values, except those changed externally.
    pub fn restored(&mut self, outcomes: &[Restored]) {
        self.asked = None;
        (self.known, self.contested) = (self.before.clone(), None);
        for one in outcomes {
            if let Outcome::Foreign { now: Some(now) } = &one.outcome {
                know(&mut self.known, &one.attribute, Some(now));
            }
        }
    }

    /// Accepts the current values, external changes included: the agent has stood down.
    pub fn accept_external_changes(&mut self) {
        (self.known, self.contested) = (self.state(&self.device), None);
    }

    /// The attributes of the device that may be set, given this state.
    fn may_set<'a>(&'a self, state: &'a State) -> impl Iterator<Item = &'static str> + 'a {
        let own = state.scheduler();
        all()
            .iter()
            .filter(move |attribute| match attribute.owner {
                Owner::Machine => false,
                Owner::Scheduler(owner) => {
                    owner == own && !attribute.is_view() && !self.forbidden.contains(&attribute.name.as_str())
                }
                Owner::Queue if attribute.name == SCHEDULER => self.may_switch,
                Owner::Queue => self.host.iter().any(|host| host.attribute == *attribute),
            })
            .map(|attribute| attribute.name.as_str())
    }

    /// Takes original values from the applier, for attributes that an earlier run of the agent changed.
    fn know_originals(&mut self) -> Result<(), ApplierError> {
        let mut originals = self.applier.originals(Some(&self.device))?;
        if self.sets_machine() {
            originals.extend(self.applier.originals(Some(MACHINE))?);
        }
        for original in originals {
            let state = if original.scope == Scope::Machine { &mut self.machine_before } else { &mut self.before };
            know(state, &original.attribute, Some(&original.original));
        }
        Ok(())
    }

    /// Sets the reason of the next changes, for the journal.
    pub fn because(&mut self, why: &str) {
        self.why = why.to_owned();
    }

    /// The connection to the applier, for anything other than settings.
    pub fn applier(&mut self) -> &mut Client {
        &mut self.applier
    }

    /// The state of a device; empty if it is gone.
    fn state(&self, device: &str) -> State {
        State::read(&*self.files, &self.sysfs, device).unwrap_or_default()
    }

    /// The state of the machine's attributes; empty if none may be set.
    fn state_of_machine(&self) -> State {
        if self.sets_machine() { self.state(MACHINE) } else { State::default() }
    }

    fn sets_machine(&self) -> bool {
        self.host.iter().any(|host| host.attribute.owner == Owner::Machine)
    }

    fn state_before(&self, attribute: &Attribute) -> &State {
        if attribute.owner == Owner::Machine { &self.machine_before } else { &self.before }
    }

    /// Checks whether the administrator permits the values, which the applier cannot know.
    fn check(&self, setting: &Setting, now: &State) -> Result<(), String> {
        let spec = setting.spec;
        if !self.schedulers().iter().any(|offered| offered.name == spec.name) {
            return Err(format!("{} is not offered here, or may not be switched to", spec.name));
        }
        if setting.values.len() != spec.tunables.len() {
            return Err(format!("{} has {} tunables, not {}", spec.name, spec.tunables.len(), setting.values.len()));
        }
        setting.check_host(self.tunables()).map_err(|error| match error {
            SettingError::UnknownKey { key, .. } => format!("{key} may not be set here"),
            error => error.to_string(),
        })?;
        for (tunable, &value) in spec.tunables.iter().zip(&setting.values) {
            tunable.check(spec.name, value).map_err(|error| error.to_string())?;
            let name = format!("iosched/{}", tunable.name);
            let is = if now.scheduler() == spec.name { value_of(tunable, now) } else { tunable.default };
            if self.forbidden.contains(&name.as_str()) && value != is {
                return Err(format!("{name} may not be set here"));
            }
        }
        Ok(())
    }

    /// The attribute values for a setting: of the device, and of the machine.
    fn wanted(&self, setting: &Setting, now: &State) -> (Values, Values) {
        let scheduler = setting.spec.name;
        let switches = scheduler != now.scheduler();
        let mut values = Vec::new();
        if self.may_switch {
            values.push((SCHEDULER.to_owned(), scheduler.to_owned()));
        }
        let (machine, queue): (Vec<&Attribute>, Vec<&Attribute>) =
            self.host.iter().map(|host| host.attribute).partition(|attribute| attribute.owner == Owner::Machine);
        values.extend(
            queue.into_iter().filter_map(|attribute| Some((attribute.name.clone(), self.host_value(setting, attribute, now)?))),
        );
        for (tunable, &value) in setting.spec.tunables.iter().zip(&setting.values) {
            let name = format!("iosched/{}", tunable.name);
            let is_default = value == tunable.default;
            let is = (!switches).then(|| value_of(tunable, now));
            let wanted = match is {
                Some(is) if is == value => continue,
                None if is_default => continue,
                _ if name == ASYNC_DEPTH && is_default => requests(&values, now),
                _ => value,
            };
            if !self.forbidden.contains(&name.as_str()) {
                values.push((name, wanted.to_string()));
            }
        }
        let of_machine = machine.into_iter().filter_map(|attribute| {
            let value = self.host_value(setting, attribute, now)?;
            // Of a ratio and its counterpart in bytes, only the active one is written: the kernel sets the other one to 0.
            (!(value == "0" && attribute.counterpart().is_some())).then(|| (attribute.name.clone(), value))
        });
        (values, of_machine.collect())
    }

    /// The value of a host tunable: from the setting, or the original one. `None` if it is not to be written.
    fn host_value(&self, setting: &Setting, attribute: &Attribute, now: &State) -> Option<String> {
        let named = setting.host.iter().find(|(name, _)| Some(name.as_str()) == attribute.tunable.map(|tunable| tunable.name));
        if let Some((_, value)) = named {
            return Some(value.to_string());
        }
        if attribute.counterpart().is_some_and(|other| self.names(setting, other)) {
            return None;
        }
        let before = self.state_before(attribute);
        let (scheduler, was) = (setting.spec.name, before.number(&attribute.name)?);
        let value = match attribute.name.as_str() {
            // Under `none` it would change the driver's own queue.
            NR_REQUESTS if scheduler == NONE => return None,
            NR_REQUESTS if scheduler != before.scheduler() => default_requests(now, scheduler)?,
            // A value set by an administrator stays; the kernel's default depends on the scheduler.
            WRITE_BACK_THROTTLE if was == default_write_back_target(before.scheduler(), before.turns) => -1,
            _ => was,
        };
        Some(value.to_string())
    }

    fn names(&self, setting: &Setting, attribute: &str) -> bool {
        setting.host.iter().any(|(name, _)| attribute.strip_prefix("vm/") == Some(name))
    }

    /// Sets the attributes of the machine, then those of the device; if the latter fails, reverts the former.
    fn set(&mut self, device: Values, machine: Values) -> Result<Vec<Changed>, ApplierError> {
        let now = self.state_of_machine();
        let changes = |values: &Values| values.iter().any(|(name, value)| now.get(name) != Some(value));
        let machine_changes = changes(&machine);
        if machine_changes {
            self.applier.set(Scope::Machine, &machine, &self.why)?;
        }
        let expected = self.may_set(&self.known).filter_map(|name| Some((name.to_owned(), self.known.get(name)?.to_owned())));
        let expected = expected.collect();
        let wanted = SetRequest { scope: Scope::Device(self.device.clone()), values: device, expected, why: self.why.clone() };
        match self.applier.set_if(wanted) {
            Err(error) if machine_changes => {
                let back = machine.iter().filter_map(|(name, _)| Some((name.clone(), now.get(name)?.to_owned())));
                let back: Values = back.filter(|(_, value)| value != "0").collect();
                match self.applier.set(Scope::Machine, &back, "the device's settings could not be set") {
                    Ok(_) => Err(error),
                    Err(half_done) => Err(ApplierError { message: format!("{error}; and {half_done}"), ..half_done }),
                }
            }
            done => done,
        }
    }
}

/// Sets the value of an attribute in a state; `None` removes it.
fn know(state: &mut State, attribute: &str, value: Option<&str>) {
    let Some(attribute) = find(attribute) else { return };
    match value {
        Some(value) => drop(state.values.insert(&attribute.name, value.to_owned())),
        None => drop(state.values.remove(attribute.name.as_str())),
    }
}

/// Names and values of attributes.
type Values = Vec<(String, String)>;

/// The active scheduler of a device with its tunables, as a setting. An unknown scheduler is reported as `none`.
pub fn active_setting(sysfs: &Sysfs, device: &str) -> Setting {
    setting_of(&State::read(&RealFiles, sysfs, device).unwrap_or_default())
}

/// Read-ahead of files on a device, in KiB; `None` if unknown.
pub fn read_ahead_kib(sysfs: &Sysfs, device: &str) -> Option<u32> {
    State::read(&RealFiles, sysfs, device).ok()?.count(READ_AHEAD)
}

/// A state as a setting, without host tunables.
fn setting_of(state: &State) -> Setting {
    let named = |name: &str| block::of_linux().find(|spec| spec.name == name);
    let spec = named(state.scheduler()).unwrap_or(block::KERNEL[0]);
    let values = spec.tunables.iter().map(|tunable| value_of(tunable, state)).collect();
    Setting { spec, values, host: Vec::new() }
}

/// The value of a scheduler's tunable; its default if the kernel has none, or one out of range.
fn value_of(tunable: &Tunable, state: &State) -> i64 {
    let name = format!("iosched/{}", tunable.name);
    let Some(value) = state.number(&name) else { return tunable.default };
    let requests = state.number(NR_REQUESTS).unwrap_or(value);
    let follows = name == ASYNC_DEPTH && (value == requests || value == 3 * requests / 4);
    if follows || !(tunable.min..=tunable.max).contains(&value) { tunable.default } else { value }
}

/// The number of requests that the queue will have.
fn requests(wanted: &Values, now: &State) -> i64 {
    let named = wanted.iter().find(|(name, _)| name == NR_REQUESTS).and_then(|(_, value)| value.parse().ok());
    named.or_else(|| now.number(NR_REQUESTS)).unwrap_or(1)
}

/// The host tunable of an attribute; `None` for the scheduler and its tunables.
fn tunable_of_host(attribute: &Attribute) -> Option<&'static Tunable> {
    attribute.tunable.filter(|_| !matches!(attribute.owner, Owner::Scheduler(_)))
}

/// A tunable with the range that the applier reports.
fn within(tunable: &'static Tunable, can: &Can) -> &'static Tunable {
    /// Tunables are referenced with a static lifetime, so one is leaked for each range that occurs; these are few.
    static NARROWED: Mutex<Vec<&'static Tunable>> = Mutex::new(Vec::new());
    let Some((min, max)) = can.range.filter(|range| *range != (tunable.min, tunable.max)) else { return tunable };
    let mut narrowed = NARROWED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = narrowed.iter().find(|known| known.name == tunable.name && (known.min, known.max) == (min, max));
    known.copied().unwrap_or_else(|| {
        let default = tunable.default.clamp(min, max.max(min));
        let kept: &'static Tunable = Box::leak(Box::new(Tunable { min, max, default, ..*tunable }));
        narrowed.push(kept);
        kept
    })
}

impl Target for LinuxTarget {
    fn identity(&self) -> Identity {
        Identity { plant: "linux".to_owned(), device: self.model.clone() }
    }

    fn schedulers(&self) -> Vec<&'static SchedulerSpec> {
        let now = self.state(&self.device);
        let may = |name: &str| name == now.scheduler() || (self.may_switch && now.offered.iter().any(|offered| offered == name));
        block::of_linux().filter(|spec| may(spec.name)).collect()
    }

    fn tunables(&self) -> Vec<&'static Tunable> {
        self.host.iter().map(|host| host.tunable).collect()
    }

    fn bounds(&self) -> Bounds {
        let now = self.state(&self.device);
        let size = self.files.read(&self.sysfs.block(&self.device).join("size")).ok().and_then(|text| text.parse().ok());
        let merges = match now.number("nomerges") {
            Some(2) => Merges::Never,
            Some(1) => Merges::WithLast,
            _ => Merges::All,
        };
        let max_sectors = now.count(MAX_SECTORS).map_or(Limits::default().max_sectors, |kib| 2 * kib);
        Bounds {
            capacity_sectors: size.unwrap_or(0),
            limits: Limits { max_sectors, merges },
            nr_requests: now.count(NR_REQUESTS).unwrap_or(256),
            read_ahead_kib: self.before.count(READ_AHEAD),
        }
    }

    fn setting(&self) -> Setting {
        let (device, machine) = (self.state(&self.device), self.state_of_machine());
        if let Some((setting, _, _)) = self.asked.as_ref().filter(|(_, then, of_machine)| *then == device && *of_machine == machine)
        {
            return setting.clone();
        }
        let mut setting = setting_of(&device);
        for &Host { attribute, tunable } in &self.host {
            let state = if attribute.owner == Owner::Machine { &machine } else { &device };
            let as_before = self
                .host_value(&setting, attribute, &device)
                .map(|value| attribute.written_as(&value, device.scheduler(), device.turns).1);
            let Some(value) = state.number(&attribute.name) else { continue };
            if as_before.is_some_and(|before| before != value.to_string()) {
                setting.host.push((tunable.name.to_owned(), value));
            }
        }
        setting.host.sort();
        setting
    }

    fn switching_time(&self, from: &Setting, to: &Setting) -> Nanos {
        if from.spec.name == to.spec.name { Nanos::ZERO } else { self.switch }
    }

    fn apply(&mut self, _now: Nanos, setting: &Setting) -> Result<(), TargetError> {
        let refused = |reason: String| TargetError { setting: setting.to_string(), reason };
        let now = self.state(&self.device);
        self.check(setting, &now).map_err(refused)?;
        let (device, machine) = self.wanted(setting, &now);
        let changed = self.set(device, machine).map_err(|error| {
            if error.kind == ErrorKind::Foreign {
                self.contested = Some(setting.spec.name.to_owned());
            }
            refused(error.to_string())
        })?;
        if let Some(switch) = changed.iter().find(|change| change.attribute == SCHEDULER) {
            self.switch = Nanos::from_micros(switch.stall_microseconds);
        }
        // The values as the applier read them: another program may have written since.
        for change in &changed {
            know(&mut self.known, &change.attribute, change.now.as_deref());
        }
        self.asked = Some((setting.clone(), self.state(&self.device), self.state_of_machine()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn a_scheduler_out_of_tree_is_read_where_the_kernel_offers_it() {
        let folder = tempfile::tempdir().unwrap();
        let sysfs = Sysfs::at(folder.path());
        let queue = sysfs.queue("sda");
        std::fs::create_dir_all(queue.join("iosched")).unwrap();
        std::fs::write(queue.join("scheduler"), "none mq-deadline [adios]\n").unwrap();
        std::fs::write(queue.join("iosched/batch_limit_read"), "12\n").unwrap();
        std::fs::write(queue.join("iosched/read_priority"), "-3\n").unwrap();
        assert_eq!(active_setting(&sysfs, "sda"), Setting::parse("adios:batch_limit_read=12,read_priority=-3").unwrap());
        std::fs::write(queue.join("scheduler"), "none [mq-deadline]\n").unwrap();
        assert_eq!(active_setting(&sysfs, "sda").to_string(), "mq-deadline");
    }
}
