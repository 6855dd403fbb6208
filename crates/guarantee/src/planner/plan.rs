//! Plans migrations and swaps that increase what arrays can hold (section III.C).
//!
//! Termination: no step raises the need of the arrays above their capacity. A move that relieves an oversold array lowers it. Any other reduces its
//! volume's share by more than the threshold; shares do not depend on the assignment, so the sum of all volumes' shares on their arrays
//! falls.

use super::consumption::ROUNDING;
use super::findings::percent;
use super::{Assignment, Survey};

/// A migration of one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The volume's number.
    pub volume: usize,
    /// The array that it leaves.
    pub from: usize,
    /// The array that it moves to.
    pub to: usize,
}

/// Moves that are made together: a single one, or several that swap places and progress in proportion, so that on the way no array is
/// loaded more than both before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The moves.
    pub moves: Vec<Move>,
    /// The reason, as a sentence.
    pub reason: String,
}

/// Migrations in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
    /// The assignment after all steps.
    pub after: Assignment,
    /// Misplaced volumes that stay, with the reason.
    pub left: Vec<(usize, String)>,
}

impl Survey {
    /// Plans the migrations of volumes that are placed as in `assignment`.
    ///
    /// The move with the largest reduction of a share comes first: to the array that reduces it most and has room, or can make room by
    /// returning volumes whose shares fall by more than the threshold as well. Then volumes leave arrays that are still oversold for arrays
    /// with room, regardless of their shares.
    pub fn plan(&self, assignment: &Assignment) -> Plan {
        let mut plan = Plan { after: assignment.clone(), ..Plan::default() };
        while let Some(step) = self.next_step(&plan.after) {
            for each in &step.moves {
                plan.after[each.volume] = Some(each.to);
            }
            plan.steps.push(step);
        }
        plan.left = self.left(&plan.after);
        plan
    }

    /// Every move that reduces a share by more than the threshold, with the reduction, largest first.
    fn wanted(&self, assignment: &Assignment) -> Vec<(Move, f64)> {
        let placed = assignment.iter().enumerate().filter_map(|(volume, from)| Some((volume, (*from)?)));
        let mut wanted: Vec<(Move, f64)> = placed
            .flat_map(|(volume, from)| {
                let to = self.destinations(volume, from).into_iter();
                to.map(move |(to, reduction)| (Move { volume, from, to }, reduction))
            })
            .collect();
        wanted.sort_by(|(one, falls), (other, other_falls)| {
            other_falls.total_cmp(falls).then((one.volume, one.to).cmp(&(other.volume, other.to)))
        });
        wanted
    }

    fn next_step(&self, assignment: &Assignment) -> Option<Step> {
        self.wanted(assignment)
            .into_iter()
            .find_map(|(wanted, _)| self.migration(assignment, wanted).or_else(|| self.swap(assignment, wanted)))
            .or_else(|| self.relief(assignment))
    }

    /// The move of a guaranteed volume from an oversold array to one with room: of all, the one with the largest need of its array, to where
    /// it needs least.
    fn relief(&self, assignment: &Assignment) -> Option<Step> {
        let placed = assignment.iter().enumerate().filter_map(|(volume, from)| Some((volume, (*from)?)));
        let oversold = placed.filter(|(volume, from)| self.is_oversold(assignment, *from) && self.demand(*from, *volume) > 0.0);
        let moves = oversold.flat_map(|(volume, from)| (0..self.arrays()).map(move |to| Move { volume, from, to }));
        let fits = |each: &Move| {
            let Move { volume, from, to } = *each;
            let has_time = self.demand(to, volume) <= self.spare(assignment, to) + ROUNDING;
            to != from && has_time && self.sectors(volume) <= self.free_sectors(assignment, to)
        };
        let best = moves.filter(fits).max_by(|one, other| {
            let (need, other_need) = (self.demand(one.from, one.volume), self.demand(other.from, other.volume));
            let (there, other_there) = (self.demand(one.to, one.volume), self.demand(other.to, other.volume));
            let last = (other.volume, other.to).cmp(&(one.volume, one.to));
            need.total_cmp(&other_need).then(other_there.total_cmp(&there)).then(last)
        })?;
        let Move { volume, from, to } = best;
        let reason = format!(
            "{} goes from {} to {}: {} is oversold, and {} needs {} of it; {} has {} to spare and needs {} for it",
            self.volume_name(volume),
            self.array_name(from),
            self.array_name(to),
            self.array_name(from),
            self.volume_name(volume),
            percent(self.demand(from, volume)),
            self.array_name(to),
            percent(self.spare(assignment, to)),
            percent(self.demand(to, volume))
        );
        Some(Step { moves: vec![best], reason })
    }

    fn migration(&self, assignment: &Assignment, wanted: Move) -> Option<Step> {
        let Move { volume, from, to } = wanted;
        let (demand, spare) = (self.demand(to, volume), self.spare(assignment, to));
        let fits = demand <= spare + ROUNDING && self.sectors(volume) <= self.free_sectors(assignment, to);
        fits.then(|| Step {
            moves: vec![wanted],
            reason: format!(
                "{} there; {} has {} to spare and needs {} for it",
                self.falls(volume, from, to),
                self.array_name(to),
                percent(spare),
                percent(demand)
            ),
        })
    }

    /// A swap: the move, and as few volumes in return as make room, those with the largest reduction of their share first.
    fn swap(&self, assignment: &Assignment, wanted: Move) -> Option<Step> {
        let Move { volume, from, to } = wanted;
        let there = (0..self.volumes()).filter(|other| assignment[*other] == Some(to));
        let mut others: Vec<(usize, f64)> = there.map(|other| (other, self.reduction(other, to, from))).collect();
        others.retain(|(_, falls)| *falls > self.rules.threshold);
        others.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        let mut after = assignment.clone();
        after[volume] = Some(to);
        let mut moves = vec![wanted];
        for (other, _) in others {
            after[other] = Some(from);
            moves.push(Move { volume: other, from: to, to: from });
            if self.is_better(assignment, &after, [from, to]) && self.has_space(assignment, &moves) {
                let back: Vec<String> = moves[1..].iter().map(|each| self.falls(each.volume, each.from, each.to)).collect();
                let reason = format!("{} there; in exchange {}", self.falls(volume, from, to), back.join(", and "));
                return Some(Step { moves, reason });
            }
        }
        None
    }

    /// Whether a step leaves neither of two arrays overcommitted, or more overcommitted than before.
    fn is_better(&self, before: &Assignment, after: &Assignment, arrays: [usize; 2]) -> bool {
        arrays.iter().all(|&array| {
            let most = self.capacity(array).max(self.load(before, array));
            self.load(after, array) <= most + ROUNDING
        })
    }

    /// Whether every array of a step has space for the arriving volumes in addition to the leaving ones: both copies are kept until the step is
    /// done.
    fn has_space(&self, assignment: &Assignment, moves: &[Move]) -> bool {
        (0..self.arrays()).all(|array| {
            let comes: u64 = moves.iter().filter(|each| each.to == array).map(|each| self.sectors(each.volume)).sum();
            comes <= self.free_sectors(assignment, array)
        })
    }

    fn falls(&self, volume: usize, from: usize, to: usize) -> String {
        let (here, there) = (percent(self.share(from, volume)), percent(self.share(to, volume)));
        format!(
            "{} goes from {} to {}: it takes {here} of what all take here, {there}",
            self.volume_name(volume),
            self.array_name(from),
            self.array_name(to)
        )
    }

    fn left(&self, assignment: &Assignment) -> Vec<(usize, String)> {
        let mut left: Vec<(usize, String)> = Vec::new();
        for (Move { volume, to, .. }, _) in self.wanted(assignment) {
            if left.iter().any(|(known, _)| *known == volume) {
                continue;
            }
            let (needs, has) = (percent(self.demand(to, volume)), percent(self.spare(assignment, to).max(0.0)));
            let (name, array) = (self.volume_name(volume), self.array_name(to));
            left.push((
                volume,
                format!("{name} would be better on {array}, but needs {needs} of it where {has} is left, and nothing there would gain by making room"),
            ));
        }
        left
    }
}
