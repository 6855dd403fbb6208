//! The member to which each request belongs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use linux::cgroups::{Processes, Role, Source};
use linux::events::EventSource;
use observe::Event;
use observe::units::UnitId;

use super::held_back::HeldBack;
use super::members::{Members, OTHERS};

/// Maximum size of the cache from units to members; equal to that of [`Processes`]. Choice: as `MOST_UNITS` of
/// `linux::cgroups::processes`; not varied.
const MAX_UNITS: usize = 1_024;

/// Attributes events to members.
pub(super) struct Attribution {
    /// Member by unit; `None` for kernel workers, whose requests may have been throttled.
    member_of: BTreeMap<UnitId, Option<usize>>,
    held_back: HeldBack,
    /// Events lost so far.
    lost: u64,
}

impl Attribution {
    pub(super) fn new() -> Attribution {
        Attribution { member_of: BTreeMap::new(), held_back: HeldBack::default(), lost: 0 }
    }

    /// The member of an event. `processes`: the units of processes.
    pub(super) fn of_event(
        &mut self,
        event: &Event,
        source: &dyn EventSource,
        processes: &mut Processes,
        members: &Members,
    ) -> usize {
        let stream = event.stream();
        let unit = processes.unit(stream, source.name(stream), event.at());
        match self.of_unit(unit, processes, members) {
            Some(member) => {
                self.held_back.sent_itself(member, event);
                member
            }
            None => self.held_back.member(event).unwrap_or(OTHERS),
        }
    }

    /// The member of a unit of processes; `None` for a kernel worker, which submits throttled requests.
    pub(super) fn of_unit(&mut self, unit: UnitId, processes: &Processes, members: &Members) -> Option<usize> {
        if let Some(member) = self.member_of.get(&unit) {
            return *member;
        }
        let member = match processes.source(unit) {
            Some(Source::Kernel(Role::Worker)) => None,
            Some(Source::Unit(unit)) => Some(members.of(&unit.path)),
            _ => Some(OTHERS),
        };
        if self.member_of.len() >= MAX_UNITS {
            self.member_of.clear();
        }
        self.member_of.insert(unit, member);
        member
    }

    /// Whether events were lost since the last call.
    pub(super) fn has_lost(&mut self, source: &dyn EventSource) -> bool {
        let lost = source.lost() > self.lost;
        self.lost = self.lost.max(source.lost());
        lost
    }

    /// Reads the counters of the members with a limit, given as number and cgroup folder. `device` is major and minor number, such as
    /// `8:0`.
    pub(super) fn look(&mut self, limited: &[(usize, PathBuf)], device: &str) {
        self.held_back.look(limited, device);
    }

    /// Forgets the members of units after a scan: processes of a new unit were attributed to its parent or to others before.
    pub(super) fn scanned(&mut self) {
        self.member_of.clear();
    }

    /// Starts over after the members have changed.
    pub(super) fn begin(&mut self) {
        self.member_of.clear();
        self.held_back.forget();
    }
}
