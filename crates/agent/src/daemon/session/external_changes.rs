//! Others than the agent who write to a device.

use block::Nanos;

use super::super::device_control::Acts;
use super::{DeviceSession, News};
use crate::history::{Entry, Kind};
use applier::Foreign;

impl DeviceSession {
    /// Whether another program or an administrator has written.
    pub(super) fn check_external_changes(&mut self, now: Nanos, news: &mut Vec<News>) {
        match self.acts {
            Acts::Yes => match self.hands.foreign().map(unreleased) {
                Ok(foreign) if foreign.is_empty() => {
                    self.trouble = None;
                    self.expect_active(now, news);
                }
                Ok(foreign) => self.stand_down(now, &foreign, news),
                Err(error) => {
                    // Said once, and not every second.
                    let trouble = format!("who else wrote is not known: {error}");
                    if self.trouble.as_ref() != Some(&trouble) {
                        news.push(self.entry(Kind::Trouble, trouble.clone()));
                    }
                    self.trouble = Some(trouble);
                }
            },
            Acts::Watches | Acts::StoodDown(_) => {
                let setting = self.hands.setting();
                if setting != self.active {
                    let (from, to) = (self.active.to_string(), setting.to_string());
                    let why = "changed externally; advice starts again";
                    news.push(News::Entry(Box::new(Entry::new(&self.name, Kind::Conflict, &from, &to, why))));
                    self.original = setting;
                    self.start_anew(now);
                }
            }
        }
    }

    /// No external change; if another setting is active all the same, an applier that was killed has been started again, and has put back
    /// what was there before.
    fn expect_active(&mut self, now: Nanos, news: &mut Vec<News>) {
        let setting = self.hands.setting();
        if setting != self.active {
            let why = format!("{} was put back by an applier that was restarted; it starts again as well", self.active);
            let (from, to) = (self.active.to_string(), setting.to_string());
            news.push(News::Entry(Box::new(Entry::new(&self.name, Kind::Trouble, &from, &to, why))));
            self.guard.settled();
            self.start_anew(now);
        }
    }

    pub(super) fn stand_down(&mut self, now: Nanos, foreign: &[Foreign], news: &mut Vec<News>) {
        let changes: Vec<String> = foreign
            .iter()
            .map(|one| {
                let now = one.now.as_deref().unwrap_or("not there");
                format!("{} is {now} and not {}, as the agent had set it", one.attribute, one.ours)
            })
            .collect();
        let why = format!("changed externally: {}", changes.join(", "));
        if let Err(error) = self.hands.release() {
            news.push(self.entry(Kind::Trouble, format!("cannot stand down: {error}")));
        }
        let from = self.active.to_string();
        self.finish_trial(news);
        self.acts = Acts::StoodDown(changes.join(", "));
        self.original = self.hands.setting();
        let to = self.original.to_string();
        let advice = format!("{why}; the agent stands down until `seekwise-agent resume {}`", self.name);
        news.push(News::Entry(Box::new(Entry::new(&self.name, Kind::Conflict, &from, &to, advice))));
        self.guard.settled();
        self.start_anew(now);
    }
}

/// What the agent has not stood down for yet.
pub(super) fn unreleased(foreign: Vec<Foreign>) -> Vec<Foreign> {
    foreign.into_iter().filter(|one| !one.released).collect()
}
