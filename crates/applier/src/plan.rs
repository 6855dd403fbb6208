//! The plan of a change: checked completely before anything is written.

use crate::attribute::{Attribute, MACHINE, Owner, SCHEDULER, State, Upheaval, all, find};
use crate::error::{ApplierError, ErrorKind};
use crate::protocol::{Scope, SetRequest};

/// An attribute to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub attribute: &'static Attribute,
    pub value: String,
}

impl PartialEq for Attribute {
    fn eq(&self, other: &Attribute) -> bool {
        self.name == other.name
    }
}

impl Eq for Attribute {}

/// The attributes to write, in the order that the kernel needs.
#[derive(Debug)]
pub(crate) struct Plan {
    pub steps: Vec<Step>,
    /// The scheduler that will be active.
    pub scheduler: String,
    /// Whether that differs from the current one.
    pub switches: bool,
}

impl Plan {
    /// Checks names, values, and the expected values.
    pub fn of(wanted: &SetRequest, now: &State, machine_allowed: bool) -> Result<Plan, ApplierError> {
        let device = wanted.scope.name();
        let refused = |reason: String| ApplierError::new(ErrorKind::NotAllowed, format_args!("{device}: {reason}"));
        if wanted.scope == Scope::Machine && !machine_allowed {
            let message = "the machine's own settings are only changed if the administrator allows it; nothing was set".to_owned();
            return Err(refused(message));
        }
        check_expected(wanted, now)?;
        let scheduler = wanted.values.iter().rev().find(|(name, _)| name == SCHEDULER).map_or(now.scheduler(), |(_, value)| value);
        let mut steps: Vec<Step> = Vec::new();
        for (name, value) in &wanted.values {
            let attribute = known_attribute(name, device).map_err(refused)?;
            now.check(attribute, value, scheduler).map_err(refused)?;
            if now.get(name).is_none() && !matches!(attribute.owner, Owner::Scheduler(owner) if owner != now.scheduler()) {
                return Err(refused(format!("this kernel has no {name} for it")));
            }
            let (attribute, value) = attribute.written_as(value, scheduler, now.turns);
            if steps.iter().any(|step| step.attribute == attribute) {
                return Err(refused(format!("{name} is given twice; once is right")));
            }
            steps.push(Step { attribute, value });
        }
        let place = |step: &Step| all().iter().position(|attribute| attribute == step.attribute);
        steps.sort_by_key(place);
        let switches = scheduler != now.scheduler();
        Ok(Plan { steps, scheduler: scheduler.to_owned(), switches })
    }

    /// Whether all values are already set.
    pub fn is_active(&self, now: &State) -> bool {
        self.steps.iter().all(|step| now.get(&step.attribute.name) == Some(&step.value))
    }

    /// Whether a scheduler's tunables are set to other values than their defaults.
    pub fn tunes(&self) -> bool {
        let mut of_scheduler = self.steps.iter().filter(|step| matches!(step.attribute.owner, Owner::Scheduler(_)));
        let default = |step: &Step| step.attribute.tunable.map(|tunable| tunable.default.to_string());
        of_scheduler.any(|step| default(step).as_ref() != Some(&step.value))
    }

    /// The possible side effects of writing this.
    pub fn upheaval(&self, now: &State) -> Upheaval {
        let mut upheaval = Upheaval::default();
        let written = self.steps.iter().filter(|step| now.get(&step.attribute.name) != Some(&step.value));
        written.for_each(|step| upheaval.add(step.attribute));
        upheaval
    }

    /// The value to write to this attribute; `None` if it is not written.
    pub fn value(&self, attribute: &Attribute) -> Option<&str> {
        self.steps.iter().find(|step| step.attribute == attribute).map(|step| step.value.as_str())
    }
}

/// The attribute with this name, of devices or of the machine. The error lists the known ones.
pub(crate) fn known_attribute(name: &str, device: &str) -> Result<&'static Attribute, String> {
    let of_device = |attribute: &&Attribute| (attribute.owner == Owner::Machine) == (device == MACHINE);
    find(name).filter(of_device).ok_or_else(|| {
        let known: Vec<&str> = all().iter().filter(of_device).map(|attribute| attribute.name.as_str()).collect();
        let nearest = block::did_you_mean(name, known.iter().copied());
        format!("'{name}' is not an attribute that can be set there; known are {}{nearest}", known.join(", "))
    })
}

fn check_expected(wanted: &SetRequest, now: &State) -> Result<(), ApplierError> {
    let other = wanted.expected.iter().find(|(name, value)| now.get(name) != Some(value));
    other.map_or(Ok(()), |(name, value)| {
        let is = now.get(name).map_or_else(|| "not there".to_owned(), |now| format!("{now} by now"));
        let message = format_args!(
            "{}: {name} was {value} when that was decided, and is {is}: changed externally; nothing was set",
            wanted.scope.name()
        );
        Err(ApplierError::new(ErrorKind::Stale, message))
    })
}
