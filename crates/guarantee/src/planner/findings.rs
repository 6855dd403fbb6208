//! Classifies volumes as significant and as misplaced.

use super::{Assignment, Survey};

/// The placement of a volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing {
    /// Its share of its array is below the threshold: too small for a move to be worth the copying.
    Insignificant,
    /// No array would reduce its share by more than the threshold.
    WellPlaced,
    /// An array would in some samples, but none in all.
    Wavering {
        /// The array.
        to: usize,
    },
    /// An array would, in every sample.
    Misplaced {
        /// The array with the largest reduction.
        to: usize,
        /// The least reduction of its share over all samples, from 0 to 1.
        reduction: f64,
    },
    /// Its array is oversold, and no array would reduce its share by more than the threshold in every sample.
    Oversold,
    /// It is on no array yet.
    Unplaced,
}

/// The finding about a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its number.
    pub volume: usize,
    /// Its share of the array where it is, from 0 to 1.
    pub share: f64,
    /// Its placement.
    pub standing: Standing,
    /// The placement as a sentence.
    pub text: String,
}

impl Survey {
    /// Classifies each volume. `oversold`: the arrays that cannot keep their guarantees, by capacity ([`Survey::is_oversold`]) or in the
    /// simulator.
    pub fn findings(&self, assignment: &Assignment, oversold: &[usize]) -> Vec<Finding> {
        (0..self.volumes()).map(|volume| self.finding(assignment, oversold, volume)).collect()
    }

    fn finding(&self, assignment: &Assignment, oversold: &[usize], volume: usize) -> Finding {
        let standing = self.standing(assignment, oversold, volume);
        let share = assignment[volume].map_or(0.0, |from| self.share(from, volume));
        let text = match assignment[volume] {
            Some(from) => self.say(standing, volume, from),
            None => format!("{} is on no array yet", self.volume_name(volume)),
        };
        Finding { volume, share, standing, text }
    }

    fn standing(&self, assignment: &Assignment, oversold: &[usize], volume: usize) -> Standing {
        let Some(from) = assignment[volume] else { return Standing::Unplaced };
        if let Some((to, reduction)) = self.destinations(volume, from).first() {
            return Standing::Misplaced { to: *to, reduction: *reduction };
        }
        if oversold.contains(&from) {
            return Standing::Oversold;
        }
        if self.share(from, volume) <= self.rules.threshold {
            return Standing::Insignificant;
        }
        let others = (0..self.arrays()).filter(|to| *to != from);
        let best = others.map(|to| (to, self.best_reduction(volume, from, to)));
        match best.max_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0))) {
            Some((to, reduction)) if reduction > self.rules.threshold => Standing::Wavering { to },
            _ => Standing::WellPlaced,
        }
    }

    /// The arrays that reduce a volume's share by more than the threshold in every sample, with the reduction, largest first.
    pub(super) fn destinations(&self, volume: usize, from: usize) -> Vec<(usize, f64)> {
        let others = (0..self.arrays()).filter(|to| *to != from);
        let each = others.map(|to| (to, self.reduction(volume, from, to)));
        let mut found: Vec<(usize, f64)> = each.filter(|(_, reduction)| *reduction > self.rules.threshold).collect();
        found.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        found
    }

    fn say(&self, standing: Standing, volume: usize, from: usize) -> String {
        let name = self.volume_name(volume);
        let here = format!("{} of {}", percent(self.share(from, volume)), self.array_name(from));
        match standing {
            Standing::Insignificant => format!("{name} takes {here}: too little for a move to be worth the copying"),
            Standing::WellPlaced => {
                format!("{name} takes {here}, and no array would lower that by more than {} points", points(self.rules.threshold))
            }
            Standing::Wavering { to } => {
                format!("{name} takes {here}; {} would lower that in some samples, but not in all", self.array_name(to))
            }
            Standing::Misplaced { to, .. } => {
                let there = percent(self.share(to, volume));
                format!("{name} takes {here}, but would take {there} of {}: it is misplaced", self.array_name(to))
            }
            Standing::Oversold => format!("{name} takes {here}, which is oversold"),
            Standing::Unplaced => format!("{name} is on no array yet"),
        }
    }
}

/// Formats a ratio in percent.
pub(super) fn percent(part: f64) -> String {
    format!("{:.1}%", part * 100.0)
}

/// Formats a ratio in percentage points.
pub(super) fn points(part: f64) -> String {
    let text = format!("{:.1}", part * 100.0);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
