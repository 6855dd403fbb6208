//! Decides whether a request may be dispatched, given how long all other volumes can wait for the device.
//!
//! ```text
//! a volume with …                             can be delayed until              list
//! requests in flight                          the oldest's arrival + slack      by time
//! ── none of them queued, but some soon       now + think + slack as well       by slack
//! none in flight, none expected before t      t + slack                         by time; from t on by slack
//! ```
//! A volume's own requests in flight delay it no more than on its reference disk, so only the work of others counts: its deadline is later
//! by the delay that its own work causes.

use crate::Nanos;
use crate::sorted::{SortedList, key, value};

/// The latest time at which a volume must have the device; the earlier of both. `None`: no such bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deadline {
    /// At this time.
    pub(super) at: Option<Nanos>,
    /// This long after any current time.
    pub(super) after: Option<Nanos>,
}

/// A volume's keys in the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    by_time: Option<u128>,
    by_slack: Option<u128>,
}

/// The deadlines of volumes that have requests or are about to issue one.
#[derive(Default)]
pub(super) struct Deadlines {
    by_time: SortedList,
    by_slack: SortedList,
}

impl Deadlines {
    /// Sets the deadline of a volume.
    pub(super) fn update(&mut self, number: usize, deadline: Deadline, place: &mut Place) {
        let next = Place {
            by_time: deadline.at.map(|time| key(time.0, number)),
            by_slack: deadline.after.map(|slack| key(slack.0, number)),
        };
        self.by_time.move_entry(place.by_time, next.by_time, number as u32);
        self.by_slack.move_entry(place.by_slack, next.by_slack, number as u32);
        *place = next;
    }

    /// The volume other than `but` that must have the device first, and its deadline.
    pub(super) fn first(&self, now: Nanos, but: usize) -> Option<(usize, Nanos)> {
        let by_slack = first_other(&self.by_slack, but).map(|(slack, number)| (now + slack, number));
        let all = first_other(&self.by_time, but).into_iter().chain(by_slack);
        all.min().map(|(time, number)| (number, time))
    }
}

/// The first volume of a list by time other than `but`, with its time.
pub(super) fn first_other(list: &SortedList, but: usize) -> Option<(Nanos, usize)> {
    list.first_but(but as u32).map(|(key, number)| (Nanos(value(key)), number as usize))
}
