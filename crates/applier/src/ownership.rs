//! Ownership of a current value: the agent, the kernel as a side effect of the agent, or another program or administrator.

use crate::attribute::{Attribute, NR_REQUESTS, Owner, SCHEDULER, State, Upheaval, find};
use crate::journal::Record;

/// The owner of a current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// Set by the agent, or by the kernel as a side effect of the agent's change.
    Ours,
    /// Set by another program or an administrator.
    Foreign,
    /// The attribute does not exist: it is a tunable of a scheduler that is not active.
    Absent,
}

/// The owner of the current value of a record's attribute.
pub(crate) fn ownership_of(record: &Record, records: &[Record], state: &State) -> Ownership {
    let scheduler_is_theirs = || {
        let scheduler = records.iter().find(|record| record.attribute == SCHEDULER);
        scheduler.is_some_and(|scheduler| scheduler.released || alone(scheduler, records, state) == Ownership::Foreign)
    };
    if record.released {
        // A tunable and its external changes vanish with the scheduler, unless the scheduler was changed externally.
        let went_away = is_elsewhere(record, state) && !scheduler_is_theirs();
        return if went_away { Ownership::Absent } else { Ownership::Foreign };
    }
    let Some(attribute) = attribute_of(record) else { return Ownership::Absent };
    // A scheduler switch resets these.
    let goes_with_it = attribute.name == NR_REQUESTS || matches!(attribute.owner, Owner::Scheduler(_));
    if goes_with_it && scheduler_is_theirs() {
        return Ownership::Foreign;
    }
    alone(record, records, state)
}

/// Like [`ownership_of`], disregarding changes of the scheduler.
fn alone(record: &Record, records: &[Record], state: &State) -> Ownership {
    let is_elsewhere = is_elsewhere(record, state);
    let (Some(attribute), Some(now), false) = (attribute_of(record), state.get(&record.attribute), is_elsewhere) else {
        return Ownership::Absent;
    };
    let was = |value: &Option<String>| value.as_deref() == Some(now);
    match &record.pending {
        None if was(&record.ours) => Ownership::Ours,
        // A tunable of a scheduler that was not active at the agent's last change.
        None if record.ours.is_none() => Ownership::Absent,
        None => Ownership::Foreign,
        Some(pending) if was(&record.ours) || was(&record.original) || attribute.may_read(pending, now) => Ownership::Ours,
        Some(_) => {
            let explained = under_way(records).explains(attribute, now, state, |name| former(name, records));
            if explained { Ownership::Ours } else { Ownership::Foreign }
        }
    }
}

/// Whether it is a tunable of a scheduler that is not active.
fn is_elsewhere(record: &Record, state: &State) -> bool {
    record.scheduler.as_deref().is_some_and(|owner| owner != state.scheduler())
}

/// The attributes that are being written.
fn under_way(records: &[Record]) -> Upheaval {
    let mut upheaval = Upheaval::default();
    records.iter().filter(|record| record.pending.is_some()).filter_map(attribute_of).for_each(|attribute| upheaval.add(attribute));
    upheaval
}

/// The numbers that an attribute had, or may have been set to.
fn former(name: &str, records: &[Record]) -> Vec<i64> {
    let of_name = records.iter().filter(|record| record.attribute == name);
    let values = of_name.flat_map(|record| [&record.original, &record.ours, &record.pending]);
    values.filter_map(|value| value.as_ref()?.parse().ok()).collect()
}

/// The attribute of a record.
fn attribute_of(record: &Record) -> Option<&'static Attribute> {
    find(&record.attribute)
}
