//! Whether a request may occupy the device, given the slack of all other volumes.

use crate::Nanos;
use crate::sorted::SortedList;

use super::guard::Guard;
use super::volume::Volume;
use super::{key, number_of};

/// How many volumes with the least slack are checked, so that the cost does not grow with the number of volumes. If none of them objects,
/// but others with too little slack follow, the request is not admitted.
const MAX_CHECKED: usize = 8;

/// A volume whose next request would occupy the device for this time, until then.
pub(super) struct Candidate {
    pub(super) number: usize,
    pub(super) occupancy: Nanos,
    pub(super) until: Nanos,
}

impl Candidate {
    /// Whether another volume can object. Volumes with guarantees bear delays by requests of about their own size.
    fn concerns(&self, other: usize, volumes: &[Volume]) -> bool {
        let volume = &volumes[self.number];
        other != self.number && (!volume.is_guaranteed() || volume.dwarfs_service_time(self.occupancy, &volumes[other]))
    }
}

/// The volumes that have requests or are about to issue one, by slack.
#[derive(Default)]
pub(super) struct SlackIndex {
    by_slack: SortedList,
}

impl SlackIndex {
    /// Updates a volume's entry after its slack may have changed.
    pub(super) fn update(&mut self, number: usize, guard: &mut Guard) {
        let slack = guard.slack().0;
        // Small changes do not move the entry.
        if guard.place.is_some_and(|place| number_of(place).abs_diff(slack) <= slack / 32) {
            return;
        }
        guard.place.inspect(|&place| self.by_slack.remove(place));
        let place = key(slack, number);
        self.by_slack.insert(place, number as u32);
        guard.place = Some(place);
    }

    /// A volume that cannot wait while the candidate occupies the device; `None` if it is admitted. `first` is the volume that is due first.
    pub(super) fn blocked_by(
        &mut self,
        now: Nanos,
        candidate: &Candidate,
        first: Option<usize>,
        volumes: &mut [Volume],
    ) -> Option<usize> {
        let is_too_long_for = |volume: &Volume| volume.can_wait_until(now) < candidate.until;
        if let Some(first) = first.filter(|&first| candidate.concerns(first, volumes) && is_too_long_for(&volumes[first])) {
            return Some(first);
        }
        let mut next = self.by_slack.first();
        let mut last = None;
        for _ in 0..MAX_CHECKED {
            let (place, other) = next.filter(|&(place, _)| now + Nanos(number_of(place)) < candidate.until)?;
            let number = other as usize;
            let is_concerned = candidate.concerns(number, volumes);
            let volume = &mut volumes[number];
            if volume.expected_until().is_some_and(|until| until <= now) {
                self.by_slack.remove(place);
                volume.guard.place = None;
            } else if is_concerned && is_too_long_for(volume) {
                return Some(number);
            }
            last = is_concerned.then_some(number).or(last);
            next = self.by_slack.at_or_after(place + 1);
        }
        last
    }
}
