//! Changes of a device's settings by programs or people other than the agent.

use block::Nanos;

use super::{DeviceSession, Notice};
use crate::daemon::device_control::Ownership;
use crate::history::{Entry, EntryKind};
use applier::Foreign;
use applier::attribute::{NR_REQUESTS, SCHEDULER};

impl DeviceSession {
    /// Stands down if a setting was changed externally; if the agent has set nothing, restarts from the new setting.
    pub(super) fn check_external_changes(&mut self, now: Nanos, notices: &mut Vec<Notice>) {
        match self.access.ownership {
            Ownership::Agent => match self.device_control.foreign().map(unreleased) {
                Ok(foreign) if foreign.is_empty() => {
                    self.access.applier_trouble = None;
                    self.expect_active(now, notices);
                }
                Ok(foreign) => self.stand_down(now, &foreign, notices),
                Err(error) => {
                    // Report once, not every second.
                    let trouble = format!("external changes are not known: {error}");
                    if self.access.applier_trouble.as_ref() != Some(&trouble) {
                        notices.push(self.notice(EntryKind::Trouble, trouble.clone()));
                    }
                    self.access.applier_trouble = Some(trouble);
                }
            },
            Ownership::ReadOnly | Ownership::StoodDown(_) => {
                let setting = self.device_control.setting();
                if setting != self.active {
                    let (from, to) = (self.active.to_string(), setting.to_string());
                    let why = "changed externally; advice starts again";
                    notices.push(Notice::entry(Entry::new(&self.name, EntryKind::Conflict, &from, &to, why)));
                    self.original = setting;
                    self.restart(now);
                }
            }
        }
    }

    /// Handles an unexpected setting without an external change: a killed applier was restarted and has restored the original setting.
    fn expect_active(&mut self, now: Nanos, notices: &mut Vec<Notice>) {
        let setting = self.device_control.setting();
        if setting != self.active {
            let why = format!("{} was put back by an applier that was restarted; it starts again as well", self.active);
            let (from, to) = (self.active.to_string(), setting.to_string());
            notices.push(Notice::entry(Entry::new(&self.name, EntryKind::Trouble, &from, &to, why)));
            self.guard.settled();
            self.restart(now);
        }
    }

    pub(super) fn stand_down(&mut self, now: Nanos, foreign: &[Foreign], notices: &mut Vec<Notice>) {
        let changes = describe(foreign);
        let why = format!("changed externally: {changes}");
        if let Err(error) = self.device_control.release() {
            notices.push(self.notice(EntryKind::Trouble, format!("cannot stand down: {error}")));
        }
        let from = self.active.to_string();
        self.access.ownership = Ownership::StoodDown(changes);
        self.original = self.device_control.setting();
        let to = self.original.to_string();
        let advice = format!("{why}; the agent stands down until `seekwise-agent resume {}`", self.name);
        notices.push(Notice::entry(Entry::new(&self.name, EntryKind::Conflict, &from, &to, advice)));
        self.guard.settled();
        self.restart(now);
    }
}

/// External changes as text. Attributes reset by a change of the scheduler are omitted.
pub(super) fn describe(foreign: &[Foreign]) -> String {
    let is_switched = foreign.iter().any(|one| one.attribute == SCHEDULER);
    let follows = |one: &&Foreign| one.attribute == NR_REQUESTS || one.attribute.starts_with("iosched/");
    let changes = foreign.iter().filter(|one| !is_switched || !follows(one)).map(|one| {
        let now = one.now.as_deref().unwrap_or("not there");
        format!("{} is {now} instead of {}, as the agent had left it", one.attribute, one.ours)
    });
    changes.collect::<Vec<String>>().join(", ")
}

/// The external changes for which the agent has not stood down yet.
pub(super) fn unreleased(foreign: Vec<Foreign>) -> Vec<Foreign> {
    foreign.into_iter().filter(|one| !one.released).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_enough_where_one_thing_was_written() {
        let change = |attribute: &str, ours: &str, now: Option<&str>| Foreign {
            attribute: attribute.to_owned(),
            ours: ours.to_owned(),
            now: now.map(str::to_owned),
            released: false,
        };
        let switch = change("scheduler", "bfq", Some("kyber"));
        let followed = [change("nr_requests", "256", Some("64")), change("iosched/slice_idle", "0", None)];
        let text = describe(&[&followed[..], &[switch]].concat());
        assert_eq!(text, "scheduler is kyber instead of bfq, as the agent had left it");
        assert!(describe(&followed).contains("iosched/slice_idle is not there instead of 0"), "{}", describe(&followed));
    }
}
